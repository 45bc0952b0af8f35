"""Token vectors of many documents: packing, checking, and the exact late-interaction score.

Documents are either a list of arrays of shape (n_j, d), as ColBERT and PyLate models return them, or one packed array
of shape (sum n_j, d) with offsets of shape (N + 1,): document j is ``vectors[offsets[j]:offsets[j + 1]]``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from workingpapers.foundations.errors import InputError


class Packed(NamedTuple):
    """Rows of many documents in one array.

    Args:
        rows: Token vectors, float32, shape (sum n_j, d), or codes, uint8, shape (sum n_j, M).
        offsets: First row of each document and the end, int64, shape (N + 1,).
    """

    rows: np.ndarray
    offsets: np.ndarray


def pack(documents: Sequence[np.ndarray]) -> Packed:
    """Pack a list of token arrays.

    Args:
        documents: One array (n_j, d) a document, any float dtype; torch tensors on the CPU are taken too.

    Returns:
        The checked rows, float32, and their offsets.

    Raises:
        InputError: No document, an empty one, differing widths, or values that are not finite.
    """
    if not len(documents):
        raise InputError("There is no document; give at least one array of token vectors.")
    arrays = [np.asarray(item) for item in documents]
    width = arrays[0].shape[-1] if arrays[0].ndim == 2 else 0
    for number, item in enumerate(arrays):
        if item.ndim != 2 or not len(item) or item.shape[1] != width:
            raise InputError(
                f"Document {number} has token vectors of shape {item.shape}; each needs (tokens, {width or 'd'}) with "
                "at "
                "least one token."
            )
    offsets = np.concatenate([[0], np.cumsum([len(item) for item in arrays])]).astype(np.int64)
    return check_packed(np.concatenate(arrays), offsets)


def check_packed(rows: np.ndarray, offsets: np.ndarray | None, width: int | None = None) -> Packed:
    """Return packed token vectors as contiguous float32 with int64 offsets.

    Args:
        rows: Token vectors, shape (sum n_j, d).
        offsets: Offsets, shape (N + 1,), or None for a single document.
        width: The d that is needed, if any.

    Raises:
        InputError: Wrong shape, dtype or width, offsets that do not fit, an empty document, values not finite.
    """
    rows = np.asarray(rows)
    if rows.ndim != 2 or not rows.size:
        raise InputError(
            f"The token vectors have shape {rows.shape}; give (tokens, dimensions) with at least one token."
        )
    if not np.issubdtype(rows.dtype, np.floating):
        raise InputError(f"The token vectors have dtype {rows.dtype}; give floating-point numbers.")
    if width is not None and rows.shape[1] != width:
        raise InputError(f"The token vectors have {rows.shape[1]} dimensions; the quantiser was fitted to {width}.")
    ends = np.array([0, len(rows)], dtype=np.int64) if offsets is None else np.asarray(offsets)
    if ends.ndim != 1 or len(ends) < 2 or not np.issubdtype(ends.dtype, np.integer):
        raise InputError(f"The offsets have shape {ends.shape} and dtype {ends.dtype}; give (documents + 1,) integers.")
    ends = ends.astype(np.int64)
    if ends[0] != 0 or ends[-1] != len(rows):
        raise InputError(
            f"The offsets run from {ends[0]} to {ends[-1]}; they must run from 0 to {len(rows)}, all tokens."
        )
    counts = np.diff(ends)
    if (counts < 1).any():
        raise InputError(f"Document {int(np.argmax(counts < 1))} has no tokens; leave it out.")
    rows = np.ascontiguousarray(rows, dtype=np.float32)
    if not np.isfinite(rows).all():
        row = int(np.argmax(~np.isfinite(rows).all(axis=1)))
        raise InputError(f"Token {row} has a value that is not finite; remove it or mend the encoder.")
    return Packed(rows, ends)


def unit_rows(rows: np.ndarray) -> np.ndarray:
    """Return `rows` scaled to length one; rows of zeros stay zero.

    Args:
        rows: Vectors, shape (n, d).
    """
    length = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.asarray(rows / np.where(length > 0, length, 1), dtype=np.float32)


def means(rows: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """Return the mean row of each document, shape (N, d).

    Args:
        rows: Rows, shape (sum n_j, d).
        offsets: Offsets, shape (N + 1,); no document is empty.
    """
    return np.asarray(np.add.reduceat(rows, offsets[:-1], axis=0) / np.diff(offsets)[:, None], dtype=np.float32)


def maxsim(queries: Packed, documents: Packed, block: int = 8192) -> np.ndarray:
    r"""Return the exact late-interaction scores, :math:`s(Q, D) = \sum_i \max_j q_i \cdot d_j`.

    Args:
        queries: Packed query tokens, d columns.
        documents: Packed document tokens, d columns.
        block: Document tokens held against all query tokens at a time.

    Returns:
        Scores, float32, shape (queries, documents).
    """
    scores = np.empty((len(queries.offsets) - 1, len(documents.offsets) - 1), dtype=np.float32)
    start = 0
    while start < scores.shape[1]:
        limit = documents.offsets[start] + block
        stop = max(start + 1, int(np.searchsorted(documents.offsets, limit, side="right")) - 1)
        first, last = documents.offsets[start], documents.offsets[stop]
        products = documents.rows[first:last] @ queries.rows.T
        best = np.maximum.reduceat(products, documents.offsets[start:stop] - first, axis=0)
        scores[:, start:stop] = np.add.reduceat(best, queries.offsets[:-1], axis=1).T
        start = stop
    return scores
