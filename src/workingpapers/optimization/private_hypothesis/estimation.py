"""Private estimates of low-dimensional parameters, and the usual private estimates of a location beside them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from workingpapers.foundations.errors import InputError
from workingpapers.foundations.privacy.noise import Noise
from workingpapers.foundations.privacy.statement import PrivacyStatement, state
from workingpapers.foundations.progress import Progress, silent
from workingpapers.optimization.private_hypothesis.covers import Cover, Family, as_family, default_radius, make_cover
from workingpapers.optimization.private_hypothesis.sampling import draw
from workingpapers.optimization.private_hypothesis.selection import Selection, check_budget, select_hypothesis

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Estimate:
    """A released estimate.

    Args:
        parameters: Name -> value.
        selection: The choice behind it.
        cover: What was chosen among.
        distance_bound: Total variation distance on the cells between the estimate and the data's distribution that is
            not exceeded with probability 1 - beta where that distribution is in the family and within the bounds.
        privacy: The guarantee.
    """

    parameters: dict[str, float]
    selection: Selection
    cover: Cover
    distance_bound: float
    privacy: PrivacyStatement


def estimate(
    data: ArrayLike,
    family: str | Family,
    bounds: Sequence[float],
    epsilon: float,
    *,
    scale: Sequence[float] = (1.0,),
    radius: float | None = None,
    beta: float = 0.05,
    seed: int | None = None,
    insecure: bool = False,
    diagnostics: bool = False,
    progress: Progress = silent,
) -> Estimate:
    """Estimate the parameters of a family from private records, whatever the tails and however many the outliers.

    Args:
        data: Records, shape (s,).
        family: ``"normal"``, ``"laplace"``, ``"logistic"``, ``"cauchy"``, ``"exponential"``, ``"poisson"``,
            or a :class:`Family`.
        bounds: Lowest and highest location; scale of the exponential family; rate of the Poisson family. Public.
        epsilon: Privacy budget, over 0.
        scale: The known scale, or its lowest and highest value. Public.
        radius: Distance of the cover to the family; by default a little below what s and epsilon allow.
        beta: Probability with which the bound may fail.
        seed: Leave out; a seed is refused unless `insecure`.
        insecure: The caller's word that the release is a test and protects nobody.
        diagnostics: Return what the run did as well, which is not private.
        progress: Called along the way.

    Returns:
        The estimate with its privacy statement.

    Raises:
        InputError: A value out of range, a record that the family does not know, too large a cover.
    """
    check_budget(epsilon, beta)
    wanted = default_radius(max(1, np.size(data)), epsilon) if radius is None else radius
    cover = make_cover(as_family(family), bounds, scale=scale, radius=wanted, coarsen=radius is None)
    chosen = select_hypothesis(
        cover.table, cover.cells(data), epsilon, beta=beta, seed=seed, insecure=insecure, diagnostics=diagnostics,
        progress=progress,
    )  # fmt: skip
    public = (f"the {cover.family.name} family", "the bounds", "the number of records")
    privacy = state(chosen.privacy.stages, 0.0, chosen.privacy.neighbours, secure=chosen.privacy.secure, public=public)
    values = dict(zip(cover.names, cover.parameters[chosen.index].tolist(), strict=False))
    bound = min(1.0, 3 * cover.radius + (chosen.error_bound or 0.0))
    return Estimate(values, chosen, cover, bound, privacy)


class PrivateGridEstimator:
    """The estimate as an estimator: ``fit(X)``, then ``params_``, ``privacy_`` and ``distance_bound_``.

    Args:
        family: See :func:`estimate`.
        bounds: Lowest and highest location (or scale, or rate).
        epsilon: Privacy budget.
        scale: The known scale, or its lowest and highest value.
        radius: Distance of the cover to the family.
        beta: Probability with which the bound may fail.
        seed: Refused unless `insecure`.
        insecure: The caller's word that the release is a test.
    """

    def __init__(
        self,
        family: str | Family = "normal",
        bounds: Sequence[float] = (-10.0, 10.0),
        epsilon: float = 1.0,
        *,
        scale: Sequence[float] = (1.0,),
        radius: float | None = None,
        beta: float = 0.05,
        seed: int | None = None,
        insecure: bool = False,
    ) -> None:
        self.family, self.bounds, self.epsilon, self.scale = family, bounds, epsilon, scale
        self.radius, self.beta, self.seed, self.insecure = radius, beta, seed, insecure

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the settings, as scikit-learn's ``clone`` asks for them."""
        names = ("family", "bounds", "epsilon", "scale", "radius", "beta", "seed", "insecure")
        return {name: getattr(self, name) for name in names}

    def set_params(self, **settings: Any) -> PrivateGridEstimator:
        """Change settings and return the estimator."""
        for name, value in settings.items():
            if name not in self.get_params():
                raise ValueError(f"There is no setting {name!r}; the settings are {', '.join(self.get_params())}.")
            setattr(self, name, value)
        return self

    def fit(self, X: ArrayLike, y: None = None) -> PrivateGridEstimator:
        """Estimate from records of shape (s,) or (s, 1). Each call is a release and costs epsilon anew."""
        found = estimate(np.asarray(X, np.float64).ravel() if np.ndim(X) == 2 and np.shape(X)[1] == 1 else X,
                         **self.get_params())  # fmt: skip
        self.params_, self.privacy_, self.distance_bound_ = found.parameters, found.privacy, found.distance_bound
        return self


def clipped_mean(data: ArrayLike, low: float, high: float, epsilon: float, noise: Noise) -> float:
    """Return the mean of clipped records plus Laplace noise: the usual private mean, for comparison.

    Args:
        data: Records, shape (s,).
        low: Records below are moved here.
        high: Records above are moved here.
        epsilon: Privacy budget; neighbours differ in one record.
        noise: Source of the noise; the lattice of secure noise adds a millionth part to epsilon.

    Raises:
        InputError: The range is empty.
    """
    if not low < high:
        raise InputError(f"The range is {low:g} to {high:g}; give a lower end below the upper one.")
    values = np.clip(np.asarray(data, np.float64), low, high)
    return float(noise.laplace([values.mean()], (high - low) / (len(values) * epsilon))[0])


def exponential_median(data: ArrayLike, grid: ArrayLike, epsilon: float, noise: Noise) -> float:
    """Return a private median: a point of the grid, drawn by how evenly it divides the records.

    Args:
        data: Records, shape (s,).
        grid: Public points, shape (m,).
        epsilon: Privacy budget; neighbours differ in one record.
        noise: Source of the random bits.
    """
    points, values = np.asarray(grid, np.float64), np.sort(np.asarray(data, np.float64))
    below = np.searchsorted(values, points, side="left")
    above = len(values) - np.searchsorted(values, points, side="right")
    # Replacing a record moves each of the two by at most one, and half their difference by at most one.
    return float(points[draw(np.abs(below - above) / 2, epsilon / 2, noise)])


def two_stage_mean(
    data: ArrayLike, grid: ArrayLike, reach: float, epsilon: float, noise: Noise, *, centre: float = 0.0
) -> float:
    """Return a private mean clipped around a private median, each for half of epsilon.

    Args:
        data: Records, shape (s,).
        grid: Public points for the median, shape (m,).
        reach: How far from the first guess records are clipped.
        epsilon: Privacy budget.
        noise: Source of the noise.
        centre: Public distance from the median to the middle of the clipped range.
    """
    middle = exponential_median(data, grid, epsilon / 2, noise) + centre
    return clipped_mean(data, middle - reach, middle + reach, epsilon / 2, noise)
