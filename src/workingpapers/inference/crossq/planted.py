"""A generated collection in which only the whole document says which half of a token matters."""

from __future__ import annotations

import numpy as np

from workingpapers.inference.crossq.vectors import Packed, unit_rows

HALF = 8


def planted_collection(seed: int, *, documents: int, tokens: int, queries: int) -> tuple[Packed, Packed, np.ndarray]:
    """Return documents, queries and the relevant document of each query.

    A token has two halves of 8 dimensions around its document's mean, and a last dimension N(0, 1) whose mean is 0.7 or
    -0.7, the class of its document: one token says little about the class, the mean of many says it. Queries are noisy
    tokens of their document in which the half that its class ignores is zero, and the last dimension too.

    Args:
        seed: Seed of everything.
        documents: Number of documents.
        tokens: Tokens of a document.
        queries: Number of queries, of four tokens each.
    """
    rng = np.random.default_rng(seed)
    centres = 0.7 * rng.standard_normal((documents, 1, 2, HALF))
    halves = rng.standard_normal((documents, tokens, 2, HALF)) + centres
    halves /= np.linalg.norm(halves, axis=-1, keepdims=True)
    classes = rng.integers(2, size=documents)
    last = 0.7 * (2 * classes[:, None] - 1) + rng.standard_normal((documents, tokens))
    rows = np.concatenate([halves.reshape(documents, tokens, 2 * HALF), last[..., None]], axis=-1)
    relevant = rng.integers(documents, size=queries)
    picked = rng.random((queries, tokens)).argsort(axis=1)[:, :4]
    asked = rows[relevant[:, None], picked] + 0.2 * rng.standard_normal((queries, 4, rows.shape[-1]))
    asked[..., -1] = 0
    ignored = classes[relevant]
    for half in (0, 1):
        asked[ignored == half, :, half * HALF : (half + 1) * HALF] = 0
    return _packed(rows), _packed(asked), relevant


def _packed(rows: np.ndarray) -> Packed:
    count, tokens, width = rows.shape
    return Packed(unit_rows(rows.reshape(-1, width).astype(np.float32)), np.arange(count + 1, dtype=np.int64) * tokens)
