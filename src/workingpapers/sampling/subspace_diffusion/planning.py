"""What the data say before and after sampling: intrinsic dimension, copies of training samples, samples needed."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import chi2

from workingpapers.foundations.errors import InputError
from workingpapers.foundations.progress import Progress, part, silent
from workingpapers.foundations.transport import wasserstein
from workingpapers.sampling.subspace_diffusion.kernels import check_points, nearest
from workingpapers.sampling.subspace_diffusion.score import UoSScore

Floats = NDArray[np.float64]
PILOT_LEAST = 80
PILOT_TEST, PILOT_TRAIN = 400, 4000
END = 0.01
"""Latest stop of the sampler in practice: N^(-2/k) is close to one where k is large, and then most is left as noise."""
COPY = 1 / 3
"""A sample whose nearest training sample is this much nearer than the second nearest counts as a copy."""


@dataclass(frozen=True)
class IntrinsicDimension:
    """An estimate from distances to the two nearest neighbours.

    Args:
        value: The estimate.
        low: Lower end of its 95 % interval.
        high: Upper end.
        used: Samples with two distinct neighbours.
    """

    value: float
    low: float
    high: float
    used: int


def intrinsic_dimension(X: ArrayLike) -> IntrinsicDimension:
    r"""Estimate the dimension of the set that samples lie on, curved or not.

    Where the density is locally even, :math:`\log(r_2 / r_1)` of the distances to the two nearest neighbours is
    exponential with rate k, so

    .. math:: \hat k = \frac{n - 1}{\sum_j \log(r_{2,j} / r_{1,j})}

    has mean k, with a gamma interval that takes the ratios for independent. Above ten dimensions or so it comes out too
    low unless samples are very many.

    Args:
        X: Samples, shape (n, d), n >= 5.

    Raises:
        InputError: Too few distinct samples.

    References:
        E. Facco, M. d'Errico, A. Rodriguez, A. Laio, Scientific Reports 7 (2017), arXiv:1803.06992.
    """
    points = np.unique(check_points(X), axis=0)
    if len(points) < 5:
        raise InputError(f"An intrinsic dimension needs 5 distinct samples, not {len(points)}.")
    distance = nearest(points, points, 3)[:, 1:]
    logs = np.log(distance[:, 1] / distance[:, 0])
    size, total = len(logs), float(logs.sum())
    if not total > 0:
        raise InputError(
            "All samples have two equally near neighbours, as on a grid; the dimension cannot be read off."
        )
    bounds = chi2.ppf([0.025, 0.975], 2 * size) / (2 * total)
    return IntrinsicDimension((size - 1) / total, float(bounds[0]), float(bounds[1]), size)


@dataclass(frozen=True)
class Memorisation:
    """How near samples are to training samples, beside fresh data.

    Args:
        median: Median distance of samples to the nearest training sample.
        fresh_median: The same of fresh data.
        ratio: The first over the second: 0 for copies, 1 for samples as new as fresh data.
        copies: Share of samples far nearer to one training sample than to any other.
        fresh_copies: The same of fresh data, so what chance gives.
    """

    median: float
    fresh_median: float
    ratio: float
    copies: float
    fresh_copies: float


def memorisation(samples: ArrayLike, training: ArrayLike, fresh: ArrayLike | None = None) -> Memorisation:
    """Return how near samples lie to the training samples.

    Args:
        samples: Generated, shape (b, d).
        training: Shape (n, d), n >= 3.
        fresh: Held-out data, shape (m, d); None holds each training sample against the others.

    Raises:
        InputError: Shapes do not fit, or there are too few training samples.
    """
    known = check_points(training, "The training samples")
    drawn = check_points(samples, "The samples", dim=known.shape[1])
    if len(known) < 3:
        raise InputError(f"{len(known)} training samples have no second neighbour; give 3 or more.")
    near = nearest(drawn, known, 2)
    if fresh is None:
        other = nearest(known, known, 3)[:, 1:]
    else:
        other = nearest(check_points(fresh, "The fresh data", dim=known.shape[1]), known, 2)
    median, fresh_median = float(np.median(near[:, 0])), float(np.median(other[:, 0]))
    return Memorisation(
        median=median,
        fresh_median=fresh_median,
        ratio=median / fresh_median if fresh_median > 0 else math.nan,
        copies=float((near[:, 0] < COPY * near[:, 1]).mean()),
        fresh_copies=float((other[:, 0] < COPY * other[:, 1]).mean()),
    )


@dataclass(frozen=True)
class Plan:
    r"""Measured sampling errors at small sizes, and what the rate :math:`C n^{-1/\max(k, 2)}` makes of them.

    The theorem leaves C open, so it is read off the data, from both sides. Two finite samples of one law are `floor`
    apart; the measured distance `errors` lies above the true one, and the true one above `errors` less twice the floor.

    Args:
        sizes: Training sizes of the pilot, ascending.
        errors: Measured W1 to held-out data at each.
        floor: W1 between two held-out samples of the size used.
        dim: k, the largest dimension of a subspace.
    """

    sizes: tuple[int, ...]
    errors: tuple[float, ...]
    floor: float
    dim: int

    @property
    def exponent(self) -> float:
        """Return 1 / max(k, 2)."""
        return 1 / max(self.dim, 2)

    @property
    def slope(self) -> float:
        """Return the measured slope of log error on log size; minus the exponent where the theory's rate shows."""
        return float(np.polyfit(np.log(self.sizes), np.log(self.errors), 1)[0])

    @property
    def constants(self) -> tuple[float, float]:
        """Return C from errors less twice the floor (0 where nothing is left), and C from the errors as measured."""
        scale = np.array(self.sizes) ** self.exponent
        errors = np.array(self.errors)
        left = np.maximum(errors - 2 * self.floor, 0.0)
        return float((left * scale).max()), float((errors * scale).max())

    def error(self, n: float) -> tuple[float, float]:
        """Return the lower and upper error that the rate gives for n samples.

        Args:
            n: Number of training samples.
        """
        low, high = self.constants
        return low * n**-self.exponent, high * n**-self.exponent

    def required(self, error: float) -> tuple[float, float]:
        """Return the numbers of samples for a wanted W1 error by the lower and the upper constant.

        Args:
            error: Wanted W1, in the unit of the data.

        Raises:
            InputError: The error is not over 0.
        """
        if not 0 < error < math.inf:
            raise InputError(f"The wanted error is {error}; give a distance over 0.")
        low, high = ((constant / error) ** (1 / self.exponent) for constant in self.constants)
        return max(1.0, low), max(1.0, high)


def plan_samples(
    X: ArrayLike,
    bases: list[Floats],
    *,
    threshold: Literal["hard", "soft", "gaussian", "none"] = "gaussian",
    noise: float | Literal["auto"] = 0.0,
    n_steps: int = 100,
    random_state: int = 0,
    progress: Progress = silent,
) -> Plan:
    """Fit and sample at growing sizes and measure W1 to held-out data.

    The subspaces are taken as found, as the theorem assumes them found exactly. All sizes are held against one test set
    by as many generated samples.

    Args:
        X: Samples, shape (n, d), n >= 80.
        bases: Orthonormal bases, M of shape (d, k_i).
        threshold: Of the score, see :class:`UoSScore`.
        noise: Variance of noise off the subspaces, or ``"auto"``.
        n_steps: Steps of the sampler.
        random_state: Seed.
        progress: Told of the share done.

    Raises:
        InputError: Too few samples, or none on a subspace in a part of the data.
    """
    points = check_points(X)
    if len(points) < PILOT_LEAST:
        raise InputError(f"A pilot needs {PILOT_LEAST} samples, not {len(points)}.")
    points = points[np.random.default_rng(random_state).permutation(len(points))]
    test = min(len(points) // 4, PILOT_TEST)
    # Two test halves of equal size give the floor; the second is also what samples are held against.
    other, held, rest = points[:test], points[test : 2 * test], points[2 * test :]
    largest = min(len(rest), PILOT_TRAIN)
    sizes = [largest // 8, largest // 4, largest // 2, largest]
    errors = []
    for number, size in enumerate(sizes):
        watched = part(progress, number / len(sizes), (number + 1) / len(sizes))
        train = rest[:size]
        model = UoSScore(bases=occupied(train, bases), threshold=threshold, noise=noise).fit(train)
        drawn = model.sample(
            test,
            n_steps=n_steps,
            last_time=min(END, model.last_time()),
            scale="auto",
            random_state=random_state + number,
            progress=watched,
        )
        errors.append(wasserstein(drawn, held, order=1))
    floor = wasserstein(other, held, order=1)
    return Plan(tuple(sizes), tuple(errors), floor, max(basis.shape[1] for basis in bases))


def occupied(points: Floats, bases: list[Floats]) -> list[Floats]:
    """Return the bases that hold a sample, in order.

    Args:
        points: Shape (n, d).
        bases: Of shape (d, k_i).
    """
    from workingpapers.sampling.subspace_diffusion.clustering import nearest_subspace

    present = np.unique(nearest_subspace(points, bases))
    return [bases[i] for i in present]
