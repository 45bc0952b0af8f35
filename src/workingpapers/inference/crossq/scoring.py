r"""Late interaction on codes: tables once per query, then a scan that reads M bytes a token.

With decoded tokens :math:`\hat e_j = \sum_m C_{m, k_{jm}}` the product with a query token is a sum of M table entries,
:math:`q_i \cdot \hat e_j = \sum_m T_{m, k_{jm}, i}` with :math:`T_{m,k,i} = q_i \cdot C_{m,k}`. The tables keep the
query tokens innermost and padded to whole vectors, so that the scan adds and compares contiguous lanes and gathers
nothing.

The kernels are numba functions that release the interpreter lock, run by a thread pool: numba's own ``parallel=True``
aborts the process when two Python threads enter it at once under its portable threading layer, and a search service
calls from many threads. Compiled code is cached on disk, so a search starts without a compiler.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache

import numba
import numpy as np

LANES = 8


def query_tables(query: np.ndarray, codebooks: np.ndarray) -> np.ndarray:
    """Return the tables of a query, float32, shape (M, K, lanes): zero in the lanes added as padding.

    Args:
        query: Query tokens, shape (m, d).
        codebooks: Codebooks, float32, shape (M, K, d).
    """
    stages, codewords, width = codebooks.shape
    lanes = -(-len(query) // LANES) * LANES
    padded = np.zeros((lanes, width), dtype=np.float32)
    padded[: len(query)] = query
    return np.ascontiguousarray((codebooks.reshape(-1, width) @ padded.T).reshape(stages, codewords, lanes))


def score_rows(
    codes: np.ndarray, offsets: np.ndarray, rows: np.ndarray, tables: np.ndarray, threads: int | None = None
) -> np.ndarray:
    """Return the score of the documents `rows`, float32, shape (len(rows),).

    Args:
        codes: Codes, uint8, shape (sum n_j, M); may be memory-mapped.
        offsets: Offsets of the documents, int64, shape (N + 1,).
        rows: Document numbers, int64.
        tables: From :func:`query_tables`.
        threads: Threads to use; None takes one for each core.
    """
    scores = np.empty(len(rows), dtype=np.float32)
    run_split(
        lambda start, stop: _scan(codes, offsets, rows[start:stop], tables, scores[start:stop]), len(rows), threads
    )
    return scores


def pooled_scores(pooled: np.ndarray, scales: np.ndarray, query: np.ndarray, threads: int | None = None) -> np.ndarray:
    """Return the products of a pooled query with pooled documents, float32, shape (N,).

    Args:
        pooled: Components of the documents in steps of their scale, int8, shape (N, d).
        scales: Scale of each document, float32, shape (N,).
        query: Pooled query, float32, shape (d,).
        threads: Threads to use; None takes one for each core.
    """
    # Sixteen-bit steps lose nothing that shows beside the eight-bit documents, and the sum fits 32 bits.
    step = max(float(np.abs(query).max()), 1e-12) / 16383
    steps = np.rint(query / step).astype(np.int16)
    scores = np.empty(len(pooled), dtype=np.float32)

    def work(start: int, stop: int) -> None:
        _pooled(pooled[start:stop], scales[start:stop], steps, np.float32(step), scores[start:stop])

    run_split(work, len(pooled), threads, least=4096)
    return scores


def largest(scores: np.ndarray, count: int) -> np.ndarray:
    """Return the positions of the largest scores, best first, equal ones in order of position.

    Args:
        scores: Scores, float32, shape (n,).
        count: How many; fewer where there are fewer.
    """
    positions = np.arange(len(scores))
    if count < len(scores):
        # A threshold from every 64th score spares the partition of a million scores; too high a one is noticed.
        if len(scores) > 100_000:
            sample = scores[::64]
            guess = max(1, min(len(sample), 2 * count // 64 + 8))
            rest = np.flatnonzero(scores >= np.partition(sample, -guess)[-guess])
            positions = rest if len(rest) >= count else positions
        if count < len(positions):
            threshold = np.partition(scores[positions], -count)[-count]
            positions = positions[scores[positions] >= threshold]
    return positions[np.argsort(-scores[positions], kind="stable")][:count]


def run_split(work: object, count: int, threads: int | None, least: int = 64) -> None:
    """Run ``work(start, stop)`` over stretches of ``range(count)`` on a thread pool.

    Args:
        work: Function of two integers that releases the interpreter lock.
        count: Number of items.
        threads: Threads to use; None takes one for each core.
        least: Fewest items worth a thread.
    """
    workers = max(1, min(threads or os.cpu_count() or 1, count // least))
    if workers == 1:
        work(0, count)  # type: ignore[operator]
        return
    # Four stretches a thread even out documents of unequal length.
    cuts = np.linspace(0, count, 4 * workers + 1).astype(int)
    list(_pool(workers).map(work, cuts[:-1], cuts[1:]))  # type: ignore[arg-type]


@lru_cache(maxsize=8)
def _pool(workers: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(workers, thread_name_prefix="crossq")


@numba.njit(nogil=True, cache=True)
def _scan(codes, offsets, rows, tables, scores):  # type: ignore[no-untyped-def]
    stages, _, lanes = tables.shape
    best = np.empty(lanes, dtype=np.float32)
    total = np.empty(lanes, dtype=np.float32)
    for position in range(len(rows)):
        row = rows[position]
        best[:] = -np.inf
        for token in range(offsets[row], offsets[row + 1]):
            first = tables[0, codes[token, 0]]
            for lane in range(lanes):
                total[lane] = first[lane]
            for stage in range(1, stages):
                table = tables[stage, codes[token, stage]]
                for lane in range(lanes):
                    total[lane] += table[lane]
            for lane in range(lanes):
                best[lane] = total[lane] if total[lane] > best[lane] else best[lane]
        score = 0.0
        for lane in range(lanes):
            score += best[lane]
        scores[position] = score


@numba.njit(nogil=True, cache=True)
def _pooled(pooled, scales, steps, step, scores):  # type: ignore[no-untyped-def]
    width = pooled.shape[1]
    for row in range(len(pooled)):
        total = np.int32(0)
        for column in range(width):
            total += np.int32(np.int16(pooled[row, column])) * np.int32(steps[column])
        scores[row] = np.float32(total) * scales[row] * step
