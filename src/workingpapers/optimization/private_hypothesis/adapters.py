"""Densities of other libraries behind one face: log densities, and samples that a seed repeats."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from workingpapers.foundations.errors import InputError
from workingpapers.optimization.private_hypothesis.scores import Density

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class FrozenDistribution:
    """A frozen distribution of scipy.stats, univariate or multivariate."""

    distribution: Any

    def logpdf(self, x: Floats) -> Floats:
        """Return log densities, shape (m,), of points of shape (m, d)."""
        points = x[:, 0] if x.shape[1] == 1 else x
        return np.asarray(self.distribution.logpdf(points), np.float64)

    def sample(self, size: int, rng: np.random.Generator) -> Floats:
        """Return points, shape (size, d)."""
        return np.asarray(self.distribution.rvs(size=size, random_state=rng), np.float64).reshape(size, -1)


@dataclass(frozen=True)
class FittedMixture:
    """A fitted scikit-learn model with ``score_samples`` and ``sample``, such as ``GaussianMixture``."""

    model: Any

    def logpdf(self, x: Floats) -> Floats:
        """Return log densities, shape (m,), of points of shape (m, d)."""
        return np.asarray(self.model.score_samples(x), np.float64)

    def sample(self, size: int, rng: np.random.Generator) -> Floats:
        """Return points, shape (size, d)."""
        model = copy.copy(self.model)  # the seed is set on a copy, so that the user's model stays as it is
        model.random_state = int(rng.integers(2**31))
        return np.asarray(model.sample(size)[0], np.float64)


def as_density(item: Any) -> Density:
    """Return `item` as a density: with ``logpdf`` and ``sample(size, rng)``.

    Args:
        item: Such an object, a frozen scipy.stats distribution, or a fitted scikit-learn mixture.

    Raises:
        InputError: It is none of these.
    """
    if hasattr(item, "logpdf") and hasattr(item, "rvs"):
        return FrozenDistribution(item)
    if hasattr(item, "score_samples") and hasattr(item, "sample"):
        return FittedMixture(item)
    if hasattr(item, "logpdf") and hasattr(item, "sample"):
        return item  # type: ignore[no-any-return]
    raise InputError(
        f"A candidate is a {type(item).__name__}; give an object with logpdf and sample, or a row of probabilities."
    )
