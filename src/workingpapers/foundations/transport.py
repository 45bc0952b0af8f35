r"""Distances between samples, and what importance weights say: built on POT.

Samples are NumPy arrays or torch tensors of shape (n, d). Every distance is between empirical laws; two samples of one
law are some way apart, so give the distance between two exact samples beside it as the floor.

References:
    R. Flamary et al., POT: Python Optimal Transport, JMLR 22 (2021). G. J. Székely and M. L. Rizzo, JSPI 143 (2013).
    A. Gretton et al., A Kernel Two-Sample Test, JMLR 13 (2012).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.spatial.distance import cdist, pdist
from scipy.special import logsumexp

from workingpapers.foundations.errors import InputError

Floats = NDArray[np.float64]


def wasserstein(x: ArrayLike, y: ArrayLike, *, order: int = 2, cost: ArrayLike | None = None) -> float:
    r"""Return the Wasserstein distance of two samples by exact optimal transport.

    .. math:: W_p^p = \min_{\pi} \sum_{ij} \pi_{ij}\, \|x_i - y_j\|^p

    Args:
        x: Shape (n, d).
        y: Shape (m, d).
        order: p.
        cost: Distances to use in place of the Euclidean ones, shape (n, m); geodesic ones on a curved space.

    Raises:
        InputError: When shapes do not fit or the solver stops early.
    """
    import ot

    if cost is None:
        first, second = _pair(x, y)
        cost = cdist(first, second)
    distances = _array(cost)
    if distances.ndim != 2 or 0 in distances.shape:
        raise InputError(f"A cost of transport needs shape (n, m), not {distances.shape}.")
    n, m = distances.shape
    total, log = ot.emd2(
        np.full(n, 1 / n), np.full(m, 1 / m), distances**order, numItermax=10_000_000, log=True, center_dual=False
    )
    if log["warning"]:
        raise InputError(f"Optimal transport of {n} to {m} points stopped early ({log['warning']}); take fewer points.")
    return float(max(float(total), 0.0) ** (1 / order))


def sliced_wasserstein(
    x: ArrayLike, y: ArrayLike, *, projections: int = 200, rng: np.random.Generator | None = None
) -> float:
    """Return the root mean square of W2 over random directions, for samples too large for exact transport.

    Args:
        x: Shape (n, d).
        y: Shape (m, d).
        projections: Directions.
        rng: Draws the directions.
    """
    import ot

    first, second = _pair(x, y)
    rng = np.random.default_rng(0) if rng is None else rng
    directions = rng.standard_normal((first.shape[1], projections))
    directions /= np.linalg.norm(directions, axis=0)
    return float(ot.sliced_wasserstein_distance(first, second, projections=directions, p=2))


def wasserstein_1d(x: ArrayLike, y: ArrayLike, *, order: int = 2) -> float:
    """Return W_p of two samples of numbers, shapes (n,) and (m,).

    Of energies, with order 2, this is the energy-W2 of the sampling benchmarks (the root; some code logs the square).
    """
    import ot

    first, second = _array(x).ravel(), _array(y).ravel()
    if not (len(first) and len(second)):
        raise InputError("A Wasserstein distance needs a sample on each side.")
    metric = "sqeuclidean" if order == 2 else "minkowski"
    extra = {} if order == 2 else {"p": order}
    return float(max(float(ot.emd2_1d(first, second, metric=metric, **extra)), 0.0) ** (1 / order))


def energy_distance(x: ArrayLike, y: ArrayLike) -> float:
    r"""Return the squared energy distance 2 E|X - Y| - E|X - X'| - E|Y - Y'| without bias (it may fall below zero).

    Args:
        x: Shape (n, d), n >= 2.
        y: Shape (m, d), m >= 2.
    """
    first, second = _pair(x, y, least=2)
    return float(2 * cdist(first, second).mean() - pdist(first).mean() - pdist(second).mean())


def mmd(x: ArrayLike, y: ArrayLike, *, bandwidth: float | None = None) -> float:
    r"""Return the squared maximum mean discrepancy for the kernel exp(-|x - y|^2 / (2 h^2)), without bias.

    Args:
        x: Shape (n, d), n >= 2.
        y: Shape (m, d), m >= 2.
        bandwidth: h; the median distance within `y` by default.
    """
    first, second = _pair(x, y, least=2)
    within = pdist(second, "sqeuclidean")
    h = math.sqrt(float(np.median(within))) if bandwidth is None else bandwidth
    if not h > 0:
        raise InputError(f"The bandwidth must be positive, not {h}.")

    def kernel(square: Any) -> float:
        return float(np.exp(-square / (2 * h**2)).mean())

    return kernel(pdist(first, "sqeuclidean")) + kernel(within) - 2 * kernel(cdist(first, second, "sqeuclidean"))


def log_mean_exp(log_weights: ArrayLike) -> float:
    """Return log of the mean weight: the importance sampling estimate of log Z, shape (n,) to a number."""
    weights = _weights(log_weights)
    return float(logsumexp(weights) - math.log(len(weights)))


def effective_share(log_weights: ArrayLike) -> float:
    """Return the effective sample size as a share of n: (sum w)^2 / (n sum w^2), from 1/n to 1."""
    weights = _weights(log_weights)
    return float(np.exp(2 * logsumexp(weights) - logsumexp(2 * weights)) / len(weights))


def largest_share(log_weights: ArrayLike) -> float:
    """Return the largest normalised weight; above one half the estimate hangs on one point."""
    weights = _weights(log_weights)
    return float(np.exp(weights.max() - logsumexp(weights)))


def _weights(log_weights: ArrayLike) -> Floats:
    weights = _array(log_weights).ravel()
    if not len(weights) or np.isnan(weights).any() or (weights == np.inf).any() or (weights == -np.inf).all():
        raise InputError("Log-weights must hold a finite number, and neither NaN nor +inf.")
    return weights


def _array(values: Any) -> Floats:
    if hasattr(values, "detach"):
        values = values.detach().cpu().numpy()
    return np.asarray(values, dtype=np.float64)


def _pair(x: ArrayLike, y: ArrayLike, least: int = 1) -> tuple[Floats, Floats]:
    first, second = _array(x), _array(y)
    if first.ndim != 2 or second.ndim != 2 or first.shape[1] != second.shape[1] or min(len(first), len(second)) < least:
        raise InputError(
            f"Samples of {least} points or more have shapes (n, d) and (m, d), not {first.shape} and {second.shape}."
        )
    if not (np.isfinite(first).all() and np.isfinite(second).all()):
        raise InputError("A sample holds values that are not finite.")
    return first, second
