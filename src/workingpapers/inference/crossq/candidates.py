"""The documents that compete for a query, with a teacher's scores: what the ranking losses are computed on."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from workingpapers.foundations.progress import Progress, silent
from workingpapers.inference.crossq.vectors import Packed, maxsim


@dataclass(frozen=True)
class Candidates:
    """For each query the documents that compete, the positive in column 0.

    Args:
        rows: Document numbers, int64, shape (queries, candidates).
        scores: Their full-precision scores, float32, shape (queries, candidates).
    """

    rows: np.ndarray
    scores: np.ndarray


def mine_candidates(
    queries: Packed, documents: Packed, positives: np.ndarray | None, count: int, progress: Progress = silent
) -> Candidates:
    """Return the positive and the best other documents of each query by exact score.

    Args:
        queries: Packed query tokens.
        documents: Packed document tokens.
        positives: Relevant document of each query, int64, shape (queries,); None takes the best one.
        count: Candidates of a query; fewer where there are fewer documents.
        progress: Called along the way.
    """
    count = min(count, len(documents.offsets) - 1)
    rows = np.empty((len(queries.offsets) - 1, count), dtype=np.int64)
    scores = np.empty(rows.shape, dtype=np.float32)
    for start in range(0, len(rows), 64):
        stop = min(start + 64, len(rows))
        first, last = queries.offsets[start], queries.offsets[stop]
        exact = maxsim(Packed(queries.rows[first:last], queries.offsets[start : stop + 1] - first), documents)
        ranked = exact.copy()
        if positives is not None:
            ranked[np.arange(stop - start), positives[start:stop]] = np.inf
        best = np.argpartition(-ranked, count - 1, axis=1)[:, :count]
        order = np.argsort(-np.take_along_axis(ranked, best, axis=1), axis=1, kind="stable")
        rows[start:stop] = np.take_along_axis(best, order, axis=1)
        scores[start:stop] = np.take_along_axis(exact, rows[start:stop], axis=1)
        progress(stop / len(rows), "mining hard negatives")
    return Candidates(rows, scores)
