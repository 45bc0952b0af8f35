r"""Estimating a parameter privately: a cover of the parameters, and the choice among it.

Every distribution of the family within the bounds is closer than `radius` to a member of the cover, so the choice is
within :math:`3\,\text{radius}` plus the error bound of the choice. Records enter through public cells of the real line;
the outer two are open, so that no record has to be clipped.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from workingpapers.foundations.errors import InputError, near_match

Floats = NDArray[np.float64]
CELLS_A_SCALE = 4  # cells a unit of the smallest scale: they raise the variance of a normal there by half a per cent
COMFORTABLE, LARGEST = 10**7, 2 * 10**8  # numbers in a table
MOST_CELLS = 10**6
REACH = 5.0  # scales beyond the bounds up to which there are cells
LEAST_RADIUS, MOST_RADIUS = 0.002, 0.05


@dataclass(frozen=True)
class Standard:
    """Distribution function and density, as plain functions: those of scipy.stats check each of millions of numbers."""

    cdf: Callable[[Any], Any]
    pdf: Callable[[Any], Any]


@dataclass(frozen=True)
class Family:
    """Distributions with a location, a scale or both, or counts with a rate.

    Args:
        name: Its name.
        base: Standard member with ``cdf`` and ``pdf``, such as ``scipy.stats.norm()``; unused for counts.
        location: Whether it has a location.
        counts: Whether it is the Poisson family, with a rate.
    """

    name: str
    base: Any
    location: bool = True
    counts: bool = False


NORMAL = Standard(special.ndtr, lambda x: np.exp(-(x**2) / 2) / math.sqrt(2 * math.pi))
LAPLACE = Standard(lambda x: 0.5 - np.sign(x) * np.expm1(-np.abs(x)) / 2, lambda x: np.exp(-np.abs(x)) / 2)
LOGISTIC = Standard(special.expit, lambda x: special.expit(x) * special.expit(-x))
CAUCHY = Standard(lambda x: 0.5 + np.arctan(x) / math.pi, lambda x: 1 / (math.pi * (1 + x**2)))
EXPONENTIAL = Standard(lambda x: -np.expm1(-np.maximum(x, 0)), lambda x: np.exp(-np.abs(x)) * (x >= 0))
FAMILIES = {
    family.name: family
    for family in (
        Family("normal", NORMAL),
        Family("laplace", LAPLACE),
        Family("logistic", LOGISTIC),
        Family("cauchy", CAUCHY),
        Family("exponential", EXPONENTIAL, location=False),
        Family("poisson", None, location=False, counts=True),
    )
}


@dataclass(frozen=True)
class Cover:
    """Members of a family that stand close to every other one.

    Args:
        family: The family.
        names: Names of the parameters: of ``location``, ``scale``, ``rate``.
        parameters: Their values, shape (n, number of names); a known scale stands in a second column.
        edges: Inner edges of the cells, shape (X - 1,); cell k is what lies over edge k - 1 and up to edge k.
        table: Probabilities of the cells, shape (n, X).
        radius: Largest total variation distance of a member of the family within the bounds to the cover.
    """

    family: Family
    names: tuple[str, ...]
    parameters: Floats
    edges: Floats
    table: Floats
    radius: float

    def cells(self, data: ArrayLike) -> NDArray[np.int64]:
        """Return the cell of each record, shape (s,).

        Raises:
            InputError: A record is not finite, or no count where the family is one of counts; it is named.
        """
        given = np.asarray(data, np.float64)
        if given.ndim != 1 or not len(given):
            raise InputError(f"The data have shape {given.shape}; give one number a record, and at least one record.")
        if self.family.counts:
            wrong = ~(np.isfinite(given) & (given >= 0) & (given == np.floor(given)))
            what = "a whole number from 0"
        elif not self.family.location:
            wrong, what = ~(np.isfinite(given) & (given >= 0)), "a number from 0"
        else:
            wrong, what = ~np.isfinite(given), "a finite number"
        if wrong.any():
            first = int(np.argmax(wrong))
            raise InputError(f"Record {first} is {given[first]:g}; the {self.family.name} family needs {what}.")
        return np.searchsorted(self.edges, given, side="left")


def as_family(family: str | Family) -> Family:
    """Return a family by its name, or as given.

    Args:
        family: One of ``FAMILIES``, or a family of the caller's.

    Raises:
        InputError: The name is unknown.
    """
    if isinstance(family, Family):
        return family
    if family not in FAMILIES:
        hint = near_match(family, FAMILIES) or f"; choose one of {', '.join(FAMILIES)}."
        raise InputError(f"The family is {family!r}{hint}")
    return FAMILIES[family]


def default_radius(records: int, epsilon: float) -> float:
    """Return a radius that adds little to what sampling and privacy cost anyway.

    Args:
        records: s.
        epsilon: Privacy budget.
    """
    return min(MOST_RADIUS, max(LEAST_RADIUS, 0.1 / math.sqrt(records) + 0.5 / (epsilon * records)))


def make_cover(
    family: str | Family, bounds: Sequence[float], *, scale: Sequence[float] = (1.0,), radius: float = 0.01,
    coarsen: bool = False,
) -> Cover:  # fmt: skip
    """Return a cover of a family within bounds. It must be chosen without a look at the private records.

    Args:
        family: One of ``FAMILIES``, or a :class:`Family`.
        bounds: Lowest and highest location; for the exponential family of the scale, for the Poisson family of the
            rate.
        scale: The known scale, or its lowest and highest value; for families with a location.
        radius: Total variation distance within which the cover must come.
        coarsen: Double the radius until the table is of comfortable size.

    Raises:
        InputError: Bounds out of order, or a table that is too large; the values are named.
    """
    found = as_family(family)
    if not 0 < radius < 1:
        raise InputError(f"The radius is {radius}; give a distance over 0 and under 1, such as 0.01.")
    low, high = _pair("bounds", bounds, positive=not found.location)
    scales = (float(scale[0]),) * 2 if len(scale) == 1 else _pair("scale", scale, positive=True)
    if not (scales[0] > 0 and math.isfinite(scales[0])):
        raise InputError(f"The scale is {scales[0]:g}; give a number over 0.")
    if not found.location and tuple(scale) != (1.0,):
        raise InputError(f"The {found.name} family has no scale beside its bounds; leave the scale out.")
    edges, speeds = _edges(found, low, high, scales), (1.0, 1.0) if found.counts else _speeds(found.base)
    while True:
        segments = _segments(found, low, high, scales, radius, speeds)
        size = sum(segment.count for segment in segments)
        if size * (len(edges) + 1) <= (COMFORTABLE if coarsen else LARGEST):
            break
        if not coarsen or radius > 0.25:
            raise InputError(
                f"A cover of {size:,} members on {len(edges) + 1:,} cells is too large; give narrower bounds than "
                f"{low:g} to {high:g}, or a radius over {radius:g}."
            )
        radius *= 2
    names, parameters = _members(found, segments, scales[0] < scales[1])
    return Cover(found, names, parameters, edges, _table(found, parameters, edges), radius)


def _pair(what: str, values: Sequence[float], *, positive: bool) -> tuple[float, float]:
    given = tuple(float(value) for value in values)
    if len(given) != 2 or not all(map(math.isfinite, given)) or not given[0] < given[1]:
        shown = ", ".join(f"{value:g}" for value in given)
        raise InputError(f"The {what} are {shown}; give the lowest and the highest value.")
    if positive and given[0] <= 0:
        raise InputError(f"The {what} begin at {given[0]:g}; give a lowest value over 0.")
    return given[0], given[1]


@dataclass(frozen=True)
class _Segment:
    """Even points of the first parameter, on the axis on which they are even, for one value of the scale."""

    scale: float
    low: float
    high: float
    step: float

    @property
    def count(self) -> int:
        return max(1, math.ceil((self.high - self.low) / self.step))

    def points(self) -> Floats:
        return self.low + (np.arange(self.count) + 0.5) * (self.high - self.low) / self.count


def _segments(
    family: Family, low: float, high: float, scales: tuple[float, float], radius: float, speeds: tuple[float, float]
) -> list[_Segment]:
    if family.counts:
        # TV(Poisson(a), Poisson(b)) <= sqrt(2 / e) |sqrt a - sqrt b| (Roos 2003).
        return [_Segment(1.0, math.sqrt(low), math.sqrt(high), 2 * radius / math.sqrt(2 / math.e))]
    shift, stretch = speeds
    if not family.location:
        return [_Segment(1.0, math.log(low), math.log(high), 2 * radius / stretch)]
    if scales[0] == scales[1]:
        return [_Segment(scales[0], low, high, 2 * radius * scales[0] / shift)]
    # Half of the radius for the scale, half for the location.
    grid = np.exp(_Segment(1.0, math.log(scales[0]), math.log(scales[1]), radius / stretch).points())
    return [_Segment(value, low, high, radius * value / shift) for value in grid.tolist()]


def _members(family: Family, segments: Sequence[_Segment], two: bool) -> tuple[tuple[str, ...], Floats]:
    if family.counts:
        return ("rate",), segments[0].points()[:, None] ** 2
    if not family.location:
        return ("scale",), np.exp(segments[0].points())[:, None]
    parts = [np.stack([part.points(), np.full(part.count, part.scale)], axis=1) for part in segments]
    return ("location", "scale") if two else ("location",), np.concatenate(parts)


def _speeds(base: Any) -> tuple[float, float]:
    r"""Return :math:`\frac12 \int |f'|` and :math:`\frac12 \int |(x f)'|`: distance a unit of shift, of log scale."""
    x = np.sinh(np.linspace(-20, 20, 400_001))
    density = base.pdf(x)
    return float(np.abs(np.diff(density)).sum() / 2), float(np.abs(np.diff(x * density)).sum() / 2)


def _edges(family: Family, low: float, high: float, scales: tuple[float, float]) -> Floats:
    if family.counts:
        count = math.ceil(high + 8 * math.sqrt(high) + 8)
        _check_cells(low, high, count)
        return np.arange(count, dtype=np.float64)
    if not family.location:
        # Cells of equal width on a log scale, as the parameter is one of scale.
        return np.geomspace(low / 50, 12 * high, max(2, math.ceil(CELLS_A_SCALE * math.log(600 * high / low))))
    reach = REACH * scales[1]
    count = max(2, math.ceil((high - low + 2 * reach) * CELLS_A_SCALE / scales[0]))
    _check_cells(low, high, count)
    return np.linspace(low - reach, high + reach, count)


def _check_cells(low: float, high: float, count: int) -> None:
    if count > MOST_CELLS:
        raise InputError(f"The range from {low:g} to {high:g} is {count:,} cells wide; give narrower bounds.")


def _table(family: Family, parameters: Floats, edges: Floats) -> Floats:
    if family.counts:
        below = special.pdtr(edges[None], parameters[:, [0]])
    else:
        location = parameters[:, [0]] if family.location else 0.0
        scale = parameters[:, [1]] if family.location else parameters[:, [0]]
        below = family.base.cdf((edges[None] - location) / scale)
    whole = np.concatenate([np.zeros((len(below), 1)), below, np.ones((len(below), 1))], axis=1)
    return np.clip(np.diff(whole, axis=1), 0.0, None)
