r"""The three private computations: second moments, spherical k-means, gradients. Each says how far one record reaches.

A record enters as the difference of its two unit embeddings, :math:`d_i = \psi(x_i, a_i^+) - \psi(x_i, a_i^-)`. It is
never centred: under Bradley-Terry the mean of the differences points along the reward.
"""

from __future__ import annotations

import numpy as np
import scipy.linalg
from numpy.typing import NDArray
from scipy.special import expit

from workingpapers.foundations.errors import InputError
from workingpapers.foundations.privacy.noise import Noise

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
CHUNK = 4096
SHORT = 1e-8
FEWEST = 10  # a centre whose noisy count is below this stays where it was


def difference_rows(chosen: NDArray[np.floating], rejected: NDArray[np.floating]) -> NDArray[np.floating]:
    """Return chosen minus rejected, after a look at both.

    Args:
        chosen: Unit embeddings of prompt and preferred response, shape (N, d).
        rejected: Unit embeddings of prompt and other response, shape (N, d).

    Raises:
        InputError: Shapes differ, or a row is not finite or not of length 1.
    """
    if chosen.ndim != 2 or chosen.shape != rejected.shape or not chosen.size:
        raise InputError(
            f"The embeddings have the shapes {chosen.shape} and {rejected.shape}; give two equal ones (N, d)."
        )
    for name, rows in (("chosen", chosen), ("rejected", rejected)):
        check_unit_rows(name, rows)
    return np.asarray(chosen - rejected)


def check_unit_rows(name: str, rows: NDArray[np.floating]) -> None:
    """Raise an InputError unless each row is finite and of length 1, within a thousandth.

    Args:
        name: What they are, for the message.
        rows: Shape (n, d).
    """
    lengths = np.linalg.norm(rows, axis=1)
    wrong = np.flatnonzero(~(np.abs(lengths - 1) <= 1e-3))  # NaN is wrong too
    if len(wrong):
        raise InputError(
            f"Row {wrong[0]} of the {name} embeddings has length {lengths[wrong[0]]:.4g}; divide each row by its "
            "length."
        )


def clip_rows(rows: NDArray[np.floating], bound: float = 1.0) -> Floats:
    """Return the rows, those longer than `bound` shortened to it.

    Args:
        rows: Shape (n, d).
        bound: C.
    """
    whole = np.asarray(rows, np.float64)
    lengths = np.linalg.norm(whole, axis=1, keepdims=True)
    return np.asarray(whole * np.minimum(1.0, bound / np.maximum(lengths, 1e-300)))


def second_moments(rows: NDArray[np.floating], scale: float, noise: Noise) -> Floats:
    r"""Return :math:`\sum_i \bar d_i \bar d_i^\top + E` of rows clipped to length 1, symmetric, shape (d, d).

    One record adds a matrix of Frobenius norm at most 1. The noise is drawn in coordinates that keep this norm
    (diagonal, and :math:`\sqrt2` times what is above it), so that off the diagonal it has a standard deviation of only
    :math:`\sigma / \sqrt2`.

    Args:
        rows: Differences, shape (N, d).
        scale: :math:`\sigma`.
        noise: Source of noise.
    """
    dimension = rows.shape[1]
    total = np.zeros((dimension, dimension))
    for start in range(0, len(rows), CHUNK):
        part = clip_rows(rows[start : start + CHUNK])
        total += part.T @ part
    upper = np.triu_indices(dimension, 1)
    released = noise.gaussian(np.concatenate([np.diag(total), np.sqrt(2.0) * total[upper]]), scale)
    found = np.diag(released[:dimension] / 2)
    found[upper] = released[dimension:] / np.sqrt(2.0)
    return np.asarray(found + found.T)


def principal_directions(moments: Floats, components: int) -> Floats:
    """Return the eigenvectors of the largest eigenvalues, largest first, shape (p, d); the largest entry is positive.

    Args:
        moments: Symmetric, shape (d, d).
        components: p.
    """
    dimension = len(moments)
    _, vectors = scipy.linalg.eigh(moments, subset_by_index=(dimension - components, dimension - 1))
    found = vectors.T[::-1]
    largest = found[np.arange(components), np.abs(found).argmax(axis=1)]
    return np.asarray(found * np.sign(largest)[:, None])


def project(rows: NDArray[np.floating], directions: Floats | None) -> tuple[Floats, NDArray[np.bool_]]:
    r"""Return :math:`V d / \lVert V d \rVert` of the rows that keep some length, and which rows those are.

    Args:
        rows: Shape (n, d).
        directions: V, shape (p, d); None for the identity.

    Returns:
        Unit rows, shape (m, p), and a mask of shape (n,) with m True.
    """
    inner = np.asarray(rows, np.float64) if directions is None else np.asarray(rows @ directions.T, np.float64)
    lengths = np.linalg.norm(inner, axis=1)
    long = lengths > SHORT
    return inner[long] / lengths[long, None], long


def signed_axes(clusters: int, dimensions: int) -> Floats:
    """Return the first axes with both signs, :math:`+e_1, -e_1, +e_2, ...`, shape (K, p): tastes and their opposites.

    Args:
        clusters: K, at most 2 p.
        dimensions: p.
    """
    if clusters > 2 * dimensions:
        raise InputError(f"There are {clusters} clusters in {dimensions} dimensions; give at most {2 * dimensions}.")
    found = np.zeros((clusters, dimensions))
    for cluster in range(clusters):
        found[cluster, cluster // 2] = 1.0 if cluster % 2 == 0 else -1.0
    return found


def nearest(rows: Floats, centres: Floats) -> Integers:
    """Return the index of the nearest unit centre of each unit row, shape (n,).

    Args:
        rows: Shape (n, p).
        centres: Shape (K, p).
    """
    return np.asarray((rows @ centres.T).argmax(axis=1), np.int64)


def counts_and_sums(rows: Floats, labels: Integers, clusters: int) -> Floats:
    r"""Return per cluster the number of rows and their sum, shape (K, 1 + p).

    One unit row adds :math:`(1, z)` to one cluster: Euclidean norm :math:`\sqrt 2`.

    Args:
        rows: Unit rows, shape (n, p).
        labels: Cluster of each, shape (n,).
        clusters: K.
    """
    found = np.zeros((clusters, 1 + rows.shape[1]))
    found[:, 0] = np.bincount(labels, minlength=clusters)
    np.add.at(found[:, 1:], labels, rows)
    return found


def private_centres(
    rows: Floats, start: Floats, rounds: int, scales: tuple[float, float], noise: Noise
) -> tuple[Floats, Floats]:
    """Return unit centres, shape (K, p), by spherical k-means on noisy counts and sums, and noisy sizes, shape (K,).

    Args:
        rows: Unit rows, shape (n, p).
        start: Centres that owe nothing to unreleased data, shape (K, p).
        rounds: Rounds of Lloyd's algorithm.
        scales: Noise of counts and sums in each round, and of the sizes at the end.
        noise: Source of noise.
    """
    centres, clusters = start.copy(), len(start)
    for _ in range(rounds):
        released = noise.gaussian(counts_and_sums(rows, nearest(rows, centres), clusters), scales[0])
        lengths = np.linalg.norm(released[:, 1:], axis=1)
        moved = (released[:, 0] >= FEWEST) & (lengths > SHORT)
        centres[moved] = released[moved, 1:] / lengths[moved, None]
    sizes = np.bincount(nearest(rows, centres), minlength=clusters).astype(np.float64)
    return centres, noise.gaussian(sizes, scales[1])


def poisson_sample(noise: Noise, records: int, rate: float) -> Integers:
    """Return the records that enter a step, each by itself with probability `rate`, in order.

    The gaps between those that enter are geometric, so only about `rate` times `records` numbers are drawn.

    Args:
        noise: Source of uniform numbers.
        records: Number of records.
        rate: Probability.
    """
    if rate >= 1:
        return np.arange(records)
    draws = int(records * rate + 4 * np.sqrt(records * rate) + 10)
    places, last = [np.zeros(0, np.int64)], -1
    while last < records:
        gaps = np.log(noise.uniform(draws)) / np.log1p(-rate)
        found = last + np.cumsum(np.minimum(gaps, records).astype(np.int64) + 1)
        places.append(found)
        last = int(found[-1])
    together = np.concatenate(places)
    return together[together < records]


def gradient_sums(rows: Floats, labels: Integers, thetas: Floats) -> Floats:
    r"""Return per cluster the sum of :math:`\nabla_\theta \log(1 + e^{-\theta^\top z}) = -z\,\sigma(-\theta^\top z)`.

    One unit row adds a vector shorter than 1 to one cluster, so clipping at 1 would change nothing.

    Args:
        rows: Unit rows, shape (n, p).
        labels: Cluster of each, shape (n,).
        thetas: Rewards, shape (K, p).
    """
    found = np.zeros_like(thetas)
    weights = expit(-np.einsum("np,np->n", rows, thetas[labels]))
    np.add.at(found, labels, -rows * weights[:, None])
    return found


def private_rewards(
    rows: Floats,
    labels: Integers,
    sizes: Floats,
    rate: float,
    steps: int,
    learning_rate: float,
    scale: float,
    noise: Noise,
) -> Floats:
    r"""Return one linear Bradley-Terry reward a cluster by DP-SGD, averaged over the last half of the steps.

    .. math:: \theta_k \leftarrow \theta_k - \frac{\eta}{q\,\tilde n_k} \Big(\sum_{i \in B_t, k_i = k} \nabla_i
              + N(0, \sigma^2 I)\Big)

    Clusters share no record, so a step costs what one cluster costs; the rate q is the same for all of them and owes
    nothing to their true sizes.

    Args:
        rows: Unit rows, shape (n, p).
        labels: Cluster of each, shape (n,).
        sizes: Noisy sizes, over 0, shape (K,).
        rate: q.
        steps: T.
        learning_rate: :math:`\eta`.
        scale: :math:`\sigma`.
        noise: Source of noise and of the samples.

    Returns:
        Shape (K, p).
    """
    thetas = np.zeros((len(sizes), rows.shape[1]))
    average = np.zeros_like(thetas)
    first = steps // 2
    for step in range(steps):
        batch = poisson_sample(noise, len(rows), rate)
        released = noise.gaussian(gradient_sums(rows[batch], labels[batch], thetas), scale)
        thetas = thetas - learning_rate * released / (rate * sizes)[:, None]
        if step >= first:
            average += thetas / (steps - first)
    return average
