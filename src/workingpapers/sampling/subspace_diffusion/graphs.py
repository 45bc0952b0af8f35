"""The graphs of subspace clustering: who is written by whom (sparse), and who points the same way (thresholded)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve

Floats = NDArray[np.float64]


def sparse_affinity(unit: Floats, alpha: float, *, rounds: int = 200, tolerance: float = 1e-3) -> Floats:
    """Return |C| + |C|^T of sparse subspace clustering, shape (n, n).

    Args:
        unit: Normalised samples, shape (n, d).
        alpha: Inverse share of the penalty at which all coefficients vanish.
        rounds: Most iterations.
        tolerance: Largest change and violation at which they stop.
    """
    codes = sparse_codes(unit, alpha, rounds=rounds, tolerance=tolerance)
    return np.asarray(np.abs(codes) + np.abs(codes).T)


def sparse_codes(unit: Floats, alpha: float, *, rounds: int = 200, tolerance: float = 1e-3) -> Floats:
    """Return the coefficients C of each sample (a column) in the others, shape (n, n), by splitting (ADMM).

    Args:
        unit: Normalised samples, shape (n, d).
        alpha: Inverse share of the penalty at which a column vanishes.
        rounds: Most iterations.
        tolerance: Largest change and violation at which they stop.
    """
    size, dim = unit.shape
    gram = unit @ unit.T
    off = np.abs(gram)
    np.fill_diagonal(off, 0.0)
    penalty = off.max(axis=0) / alpha
    # (G + I)^-1 B = B - X (I + X^T X)^-1 X^T B: a d x d factor where that is the smaller one.
    low = dim < size
    factor = cho_factor(np.eye(dim) + unit.T @ unit if low else np.eye(size) + gram)
    sparse, dual = np.zeros((size, size)), np.zeros((size, size))
    for _ in range(rounds):
        right = gram + sparse - dual
        dense = right - unit @ cho_solve(factor, unit.T @ right) if low else cho_solve(factor, right)
        before = sparse
        shifted = dense + dual
        sparse = np.sign(shifted) * np.maximum(np.abs(shifted) - penalty, 0.0)
        np.fill_diagonal(sparse, 0.0)
        dual = shifted - sparse
        if max(np.abs(dense - sparse).max(), np.abs(sparse - before).max()) < tolerance:
            break
    return sparse


def thresholded_affinity(unit: Floats, links: int) -> Floats:
    """Return the symmetric graph of the `links` largest correlations of each sample, shape (n, n).

    Args:
        unit: Normalised samples, shape (n, d).
        links: Neighbours of a sample.
    """
    correlation = np.abs(unit @ unit.T)
    np.fill_diagonal(correlation, -1.0)
    chosen = np.argpartition(-correlation, links - 1, axis=1)[:, :links]
    rows = np.arange(len(unit))[:, None]
    graph = np.zeros_like(correlation)
    graph[rows, chosen] = np.exp(-2 * np.arccos(np.clip(correlation[rows, chosen], 0.0, 1.0)))
    return np.asarray(graph + graph.T)
