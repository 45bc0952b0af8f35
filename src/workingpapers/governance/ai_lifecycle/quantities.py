r"""Numbers with their spread, their source and their year; random streams that belong to a name.

Spreads: none, uniform, triangular, normal and lognormal, the latter two cut off where a value is impossible. A pedigree
of five scores (reliability, completeness, time, geography, technology; 1 best, 5 worst) becomes a lognormal spread:

.. math:: \ln \mathrm{GSD} = \tfrac12 \sqrt{\textstyle\sum_c \ln^2 U_c + \ln^2 U_b}

with the tabulated factors :math:`U`, which are squares of geometric standard deviations.

References:
    B. P. Weidema and M. S. Wesnaes, Journal of Cleaner Production 4 (1996); Frischknecht et al., International Journal
    of Life Cycle Assessment 10 (2005), for the factors.
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from scipy.stats import norm

from workingpapers.foundations.errors import InputError, near_match
from workingpapers.governance.ai_lifecycle import units

Kind = Literal["point", "uniform", "triangular", "normal", "lognormal"]
CRITERIA = ("reliability", "completeness", "time", "geography", "technology")
PEDIGREE = (
    (1.00, 1.05, 1.10, 1.20, 1.50),
    (1.00, 1.02, 1.05, 1.10, 1.20),
    (1.00, 1.03, 1.10, 1.20, 1.50),
    (1.00, 1.01, 1.02, 1.05, 1.10),
    (1.00, 1.05, 1.20, 1.50, 2.00),
)
BASIC_UNCERTAINTY = 1.05
FIELDS = ("value", "unit", "low", "high", "sd", "gsd", "pedigree", "source", "year", "geography", "note")


@dataclass(frozen=True)
class Quantity:
    """One number of an inventory in the unit of the formulas.

    Args:
        value: Central value: the number itself, the median (lognormal), mode (triangular) or mean before cutting.
        unit: Unit of the formulas.
        kind: Shape of the spread.
        low: Lower end (uniform, triangular), or the least possible value (normal, lognormal).
        high: Upper end, or the greatest possible value.
        spread: Standard deviation (normal), logarithm of the geometric standard deviation (lognormal).
        source: Where the number is from.
        year: Year that it describes, or None.
        geography: Region that it describes.
        pedigree: Five scores from 1 to 5, or empty.
        note: Anything that a reader must know.
    """

    value: float
    unit: str = ""
    kind: Kind = "point"
    low: float = -math.inf
    high: float = math.inf
    spread: float = 0.0
    source: str = ""
    year: int | None = None
    geography: str = ""
    pedigree: tuple[int, ...] = ()
    note: str = ""

    def ppf(self, probability: np.ndarray) -> np.ndarray:
        """Return quantiles, float64, of the shape of `probability`."""
        u = np.asarray(probability, dtype=np.float64)
        if self.kind == "point":
            return np.full(u.shape, self.value)
        if self.kind == "uniform":
            return np.asarray(self.low + u * (self.high - self.low))
        if self.kind == "triangular":
            return self._triangular(u)
        log = self.kind == "lognormal"
        ends = [_log(end) if log else end for end in (self.low, self.high)]
        center = _log(self.value) if log else self.value
        below, above = norm.cdf((np.array(ends) - center) / self.spread)
        z = np.clip(center + self.spread * norm.ppf(below + u * (above - below)), ends[0], ends[1])
        return np.exp(z) if log else np.asarray(z)

    def cdf(self, value: float) -> float:
        """Return the probability of lying at or below `value`."""
        # Two curves (the density and its cut) in one: a search in the quantiles is exact enough for a report.
        grid = np.linspace(0.0, 1.0, 4001)[1:-1]
        return float(np.interp(value, self.ppf(grid), grid, left=0.0, right=1.0))

    def times(self, factor: float) -> Quantity:
        """Return the quantity in a unit that is `factor` times smaller."""
        return replace(
            self,
            value=self.value * factor,
            low=self.low * factor,
            high=self.high * factor,
            spread=self.spread * (factor if self.kind == "normal" else 1.0),
        )

    def fingerprint(self, name: str) -> str:
        """Return what identifies the quantity `name`: two studies that share it share its draws.

        Args:
            name: Name of the quantity in its study.
        """
        return repr((name, self.value, self.unit, self.kind, self.low, self.high, self.spread))

    def _triangular(self, u: np.ndarray) -> np.ndarray:
        width, rise, fall = self.high - self.low, self.value - self.low, self.high - self.value
        left = self.low + np.sqrt(u * width * rise)
        return np.where(u * width < rise, left, self.high - np.sqrt((1 - u) * width * fall))


def pedigree_spread(scores: tuple[int, ...], basic: float = BASIC_UNCERTAINTY) -> float:
    r"""Return :math:`\ln \mathrm{GSD}` of five pedigree scores.

    Args:
        scores: Scores from 1 (best) to 5, in the order of ``CRITERIA``.
        basic: Basic uncertainty factor :math:`U_b`.

    Raises:
        InputError: Not five scores from 1 to 5.
    """
    if len(scores) != len(PEDIGREE) or any(score not in (1, 2, 3, 4, 5) for score in scores):
        raise InputError(f"pedigree is {list(scores)}; give five scores from 1 (best) to 5: {', '.join(CRITERIA)}.")
    return combined_spread(*(row[score - 1] for row, score in zip(PEDIGREE, scores, strict=True)), basic)


def combined_spread(*factors: float) -> float:
    r"""Return :math:`\ln \mathrm{GSD} = \frac12 (\sum \ln^2 U)^{1/2}`.

    Args:
        *factors: Uncertainty factors :math:`U \ge 1`, squares of geometric standard deviations.
    """
    return 0.5 * math.sqrt(sum(math.log(factor) ** 2 for factor in factors))


def quantity(raw: Any, unit: str, where: str, low: float = 0.0, high: float = math.inf) -> Quantity:
    """Read a quantity from a number, a text such as ``"12 kWh"``, or a table.

    Args:
        raw: The number, text or table; the keys of a table are those of ``FIELDS``.
        unit: Unit of the formulas to convert to; empty for a pure number.
        where: Name for messages.
        low: Least possible value.
        high: Greatest possible value.

    Raises:
        InputError: The amount has no or a wrong unit, is out of bounds, or its spread makes no sense.
    """
    table = raw if isinstance(raw, dict) else {"value": raw}
    for key in table:
        if key not in FIELDS:
            hint = near_match(key, FIELDS) or f"; use {', '.join(FIELDS)}."
            raise InputError(f"{where} has a field {key!r}{hint}")
    given = str(table.get("unit", ""))

    def number(key: str) -> float | None:
        value = table.get(key)
        if value is None:
            return None
        own = given
        if isinstance(value, str):
            value, text = units.split(value)
            own = text or given
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            raise InputError(f"{where}: {key} is {value!r}; give a finite number.")
        return float(value) * units.scale(own, unit)

    try:
        found = {key: number(key) for key in ("value", "low", "high", "sd")}
        scores = _scores(table.get("pedigree", []))
        spread = pedigree_spread(scores) if scores else 0.0
    except InputError as error:
        raise InputError(f"{where}: {error}") from None
    made = _shape(found, table, spread, where, low, high)
    if not low <= made.value <= high:
        raise InputError(f"{where} is {made.value:g}; it must be {_range(low, high)}.")
    year = table.get("year")
    if year is not None and not (isinstance(year, int) and 1900 < year < 2200):
        raise InputError(f"{where}: year is {year!r}; give a whole year such as 2025.")
    return replace(
        made,
        unit=unit,
        source=str(table.get("source", "")),
        year=year,
        geography=str(table.get("geography", "")),
        pedigree=scores,
        note=str(table.get("note", "")),
    )


def draw(quantities: dict[str, Quantity], samples: int, seed: int) -> dict[str, np.ndarray]:
    """Draw every quantity from a stream of its own, so that adding one does not change the draws of the others.

    Args:
        quantities: Name -> quantity.
        samples: Number of draws n.
        seed: Seed of the run.

    Returns:
        Name -> float64, shape (n,). The stream follows from seed, name and distribution: two studies that hold the
        same quantity draw the same numbers.
    """
    drawn = {}
    for name, item in quantities.items():
        digest = hashlib.sha256(item.fingerprint(name).encode()).digest()
        stream = np.random.default_rng([seed, *np.frombuffer(digest, dtype=np.uint32).tolist()])
        drawn[name] = item.ppf(stream.random(samples))
    return drawn


def _shape(
    found: dict[str, float | None], table: dict[str, Any], pedigree: float, where: str, least: float, most: float
) -> Quantity:
    value, low, high, sd = (found[key] for key in ("value", "low", "high", "sd"))
    gsd = table.get("gsd")
    if gsd is not None and not (isinstance(gsd, int | float) and gsd >= 1):
        raise InputError(f"{where}: gsd is {gsd!r}; a geometric standard deviation is a number of at least 1.")
    if (low is None) != (high is None):
        raise InputError(f"{where} has only one of low and high; give both, or sd, gsd or pedigree.")
    if sum((low is not None, sd is not None, bool(gsd or pedigree))) > 1:
        raise InputError(f"{where} has several spreads; keep one of low and high, sd, or gsd with pedigree.")
    if low is not None and high is not None:
        if not least <= low < high <= most or (value is not None and not low <= value <= high):
            raise InputError(
                f"{where}: low {low:g} and high {high:g} must enclose the value and be {_range(least, most)}."
            )
        if value is None:
            return Quantity((low + high) / 2, kind="uniform", low=low, high=high)
        return Quantity(value, kind="triangular", low=low, high=high)
    if value is None:
        raise InputError(f"{where} has no value; give value, or low and high.")
    if sd is not None:
        if sd <= 0:
            raise InputError(f"{where}: sd is {sd:g}; a standard deviation is greater than 0.")
        return Quantity(value, kind="normal", low=least, high=most, spread=sd)
    spread = math.hypot(math.log(gsd) if gsd else 0.0, pedigree)
    if spread == 0 or value == 0:
        return Quantity(value)
    return Quantity(value, kind="lognormal", low=least, high=most, spread=spread)


def _scores(raw: Any) -> tuple[int, ...]:
    if not isinstance(raw, list | tuple):
        raise InputError(f"pedigree is {raw!r}; give five scores from 1 (best) to 5: {', '.join(CRITERIA)}.")
    return tuple(raw)


def _log(value: float) -> float:
    return math.log(value) if value > 0 else -math.inf


def _range(low: float, high: float) -> str:
    if math.isinf(high):
        return f"at least {low:g}"
    return f"from {low:g} to {high:g}"
