r"""Gaussian kernel sums in the log domain, a block of rows at a time.

For points z, centres y_1..y_n and a variance t this gives :math:`\log \frac1n \sum_j e^{-|z - y_j|^2 / (2t)}` and the
softmax-weighted mean of the centres. The factor :math:`(2 \pi t)^{-k/2}` is left to the caller.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.spatial import cKDTree
from scipy.spatial.distance import cdist

from workingpapers.foundations.errors import InputError

Floats = NDArray[np.float64]
BLOCK = 2_000_000
"""Distances held at once: 16 MB a block, with one copy for the weights."""


def kernel_sums(
    points: Floats, centres: Floats, variance: Floats, *, tree: Any = None, neighbors: int | None = None,
    block: int = BLOCK,
) -> tuple[Floats, Floats]:  # fmt: skip
    """Return the log mean kernel and the weighted mean of the centres.

    Args:
        points: z, shape (b, k).
        centres: y, shape (n, k).
        variance: t > 0 of each point, shape (b,).
        tree: A k-d tree of the centres, needed with `neighbors`.
        neighbors: Sum over this many exact nearest centres alone (:func:`lost_share` bounds what that leaves out); None
            sums over all.
        block: Distances held at once.

    Returns:
        The logarithms, shape (b,), and the means, shape (b, k).
    """
    size, dim = centres.shape
    width = size if neighbors is None else min(neighbors, size)
    log_means, means = np.empty(len(points)), np.empty((len(points), dim))
    rows = max(1, block // (width if width == size else width * dim))
    for start in range(0, len(points), rows):
        part = slice(start, start + rows)
        if width == size:
            exponent = cdist(points[part], centres, "sqeuclidean")
            chosen = None
        else:
            distance, chosen = tree.query(points[part], k=width)
            exponent, chosen = distance.reshape(-1, width) ** 2, chosen.reshape(-1, width)
        exponent /= -2 * variance[part, None]
        peak = exponent.max(axis=1)
        exponent -= peak[:, None]
        weights = np.exp(exponent, out=exponent)
        total = weights.sum(axis=1)
        summed = weights @ centres if chosen is None else np.einsum("bw,bwk->bk", weights, centres[chosen])
        log_means[part] = peak + np.log(total) - np.log(size)
        means[part] = summed / total[:, None]
    return log_means, means


def lost_share(points: Floats, tree: Any, size: int, variance: Floats, neighbors: int) -> Floats:
    r"""Return an upper bound on the share of the kernel sum that `neighbors` nearest centres leave out, shape (b,).

    .. math:: \frac{(n - m)\, e^{-(D_m^2 - D_1^2) / (2t)}}{1 + (n - m)\, e^{-(D_m^2 - D_1^2) / (2t)}}

    Args:
        points: Shape (b, k).
        tree: A k-d tree of the n centres.
        size: n.
        variance: t > 0 of each point, shape (b,).
        neighbors: m.
    """
    if neighbors >= size:
        return np.zeros(len(points))
    distance = tree.query(points, k=neighbors)[0].reshape(-1, neighbors)
    rest = np.log(size - neighbors) - (distance[:, -1] ** 2 - distance[:, 0] ** 2) / (2 * variance)
    # Every kernel left out is at most the m-th, and the sum kept is at least the first.
    return np.asarray(1 / (1 + np.exp(-rest)))


def nearest(points: ArrayLike, centres: ArrayLike, count: int = 2) -> Floats:
    """Return the exact distances to the `count` nearest centres, ascending, shape (b, count), for any dimension.

    Args:
        points: Shape (b, d).
        centres: Shape (n, d), n >= count.
        count: How many.
    """
    first, second = np.asarray(points, np.float64), np.asarray(centres, np.float64)
    if second.shape[1] <= 8:
        return np.asarray(cKDTree(second).query(first, k=count)[0]).reshape(-1, count)
    found = np.empty((len(first), count))
    rows = max(1, BLOCK // len(second))
    for start in range(0, len(first), rows):
        part = slice(start, start + rows)
        distance = cdist(first[part], second)
        found[part] = np.sort(np.partition(distance, count - 1, axis=1)[:, :count], axis=1)
    return found


def check_points(values: ArrayLike, name: str = "The data", *, dim: int | None = None) -> Floats:
    """Return points as float64 of shape (n, d).

    Args:
        values: The points.
        name: What messages call them.
        dim: d that they must have.

    Raises:
        InputError: Not two-dimensional, empty, of another length, or not finite.
    """
    try:
        points = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError(f"{name} must be numbers in an array of shape (n, d).") from None
    if points.ndim != 2 or 0 in points.shape:
        raise InputError(f"{name} must have shape (n, d), not {points.shape}; put one sample in a row.")
    if dim is not None and points.shape[1] != dim:
        raise InputError(f"{name} have {points.shape[1]} coordinates where the model has {dim}.")
    bad = np.argwhere(~np.isfinite(points))
    if len(bad):
        row, place = (int(value) for value in bad[0])
        raise InputError(f"{name} hold {points[row, place]} in row {row}, coordinate {place}; drop or fill such rows.")
    return points


def check_bases(bases: Sequence[ArrayLike], dim: int) -> list[Floats]:
    """Return bases as float64 arrays of shape (d, k_i).

    Args:
        bases: The bases.
        dim: d.

    Raises:
        InputError: There is none, a shape does not fit, or the columns are not orthonormal to 1e-8.
    """
    found = [np.asarray(basis, np.float64) for basis in bases]
    if not found:
        raise InputError("The list of bases is empty; give one basis or more.")
    for i, basis in enumerate(found):
        if basis.ndim != 2 or basis.shape[0] != dim or not 1 <= basis.shape[1] <= dim:
            raise InputError(f"Basis {i} has shape {basis.shape}; it needs shape ({dim}, k) with 1 <= k <= {dim}.")
        error = float(np.abs(basis.T @ basis - np.eye(basis.shape[1])).max())
        if not error <= 1e-8:
            raise InputError(f"Basis {i} is not orthonormal (off by {error:.2g}); take numpy.linalg.qr(basis)[0].")
    return found


def check_labels(labels: ArrayLike, points: Floats, count: int) -> NDArray[np.int64]:
    """Return labels as whole numbers, shape (n,).

    Args:
        labels: The labels.
        points: The samples that they belong to, shape (n, d).
        count: Number of subspaces.

    Raises:
        InputError: Another shape or type, or a label of no subspace.
    """
    found: NDArray[Any] = np.asarray(labels)
    if found.shape != (len(points),) or not np.issubdtype(found.dtype, np.integer):
        raise InputError(f"Labels must be whole numbers of shape ({len(points)},), not {found.dtype} {found.shape}.")
    if found.min() < 0 or found.max() >= count:
        raise InputError(f"Labels run from {found.min()} to {found.max()}; there are {count} bases, 0 to {count - 1}.")
    return found.astype(np.int64)
