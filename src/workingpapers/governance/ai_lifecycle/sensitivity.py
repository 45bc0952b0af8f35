r"""Which input matters, and what would change the conclusion.

* elasticities :math:`e_p = (p/h)\,\partial h/\partial p` by the complex step
  :math:`\mathrm{Im}\,h(p + i\epsilon)/\epsilon`, exact to rounding;
* one input at a time between its 10th and 90th percentile (tornado);
* Sobol indices: first-order and total share of the variance;
* switches: the value of an input at which a statement stops being true, all others at their central values.

References:
    Squire and Trapp, SIAM Review 40 (1998). Saltelli et al., Computer Physics Communications 181 (2010).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import scipy.stats
from scipy.optimize import brentq

from workingpapers.governance.ai_lifecycle.assessment import shares_of
from workingpapers.governance.ai_lifecycle.impacts import category_names, evaluate
from workingpapers.governance.ai_lifecycle.quantities import Quantity
from workingpapers.governance.ai_lifecycle.study import Study

STEP = 1e-30
Total = Callable[[dict[str, np.ndarray]], np.ndarray]
"""Values, each shape (n,) -> what is studied, shape (n,)."""


@dataclass(frozen=True)
class Swing:
    """What one input does between its 10th and 90th percentile.

    Args:
        name: Name of the quantity.
        low: Total at the 10th percentile.
        high: Total at the 90th percentile.
    """

    name: str
    low: float
    high: float


@dataclass(frozen=True)
class Switch:
    """Where a statement changes.

    Args:
        name: Name of the quantity.
        value: Its central value.
        at: The nearest value at which the statement stops being true.
        beyond: Probability, by the quantity's own spread, of lying beyond; None where it has no spread.
    """

    name: str
    value: float
    at: float
    beyond: float | None

    @property
    def factor(self) -> float:
        """By what factor the input must change."""
        return self.at / self.value


def total_of(study: Study, category: str, shares: Mapping[str, Fraction] | None = None) -> Total:
    """Return the total of a category as a function of the values.

    Args:
        study: The study.
        category: Name of the category.
        shares: As :func:`~workingpapers.governance.ai_lifecycle.assessment.shares_of` returns them.
    """
    k = category_names(study).index(category)
    factors = {name: float(share) for name, share in (shares or shares_of(study)).items()}
    return lambda values: evaluate(study, values, factors).totals[:, k]


def elasticities(quantities: Mapping[str, Quantity], total: Total) -> dict[str, float]:
    """Return the per cent by which the total changes for one per cent of each input.

    Args:
        quantities: Name -> quantity.
        total: Values, each shape (n,) -> total, shape (n,).
    """
    names = [name for name, item in quantities.items() if item.value != 0]
    values = {name: np.full(len(names), item.value, dtype=np.complex128) for name, item in quantities.items()}
    for i, name in enumerate(names):
        values[name][i] += 1j * STEP * quantities[name].value
    found = total(values)
    return dict(zip(names, (found.imag / STEP / found.real).tolist(), strict=True))


def tornado(
    quantities: Mapping[str, Quantity], total: Total, probabilities: tuple[float, float] = (0.1, 0.9)
) -> list[Swing]:
    """Return what each uncertain input does alone, the largest swing first.

    Args:
        quantities: Name -> quantity.
        total: Values, each shape (n,) -> total, shape (n,).
        probabilities: Quantiles of the input to go to.
    """
    names = [name for name, item in quantities.items() if item.kind != "point"]
    values = {name: np.full(2 * len(names), item.value) for name, item in quantities.items()}
    for i, name in enumerate(names):
        values[name][2 * i : 2 * i + 2] = quantities[name].ppf(np.array(probabilities))
    found = total(values).reshape(-1, 2).tolist() if names else []
    swings = [Swing(name, low, high) for name, (low, high) in zip(names, found, strict=True)]
    return sorted(swings, key=lambda swing: -abs(swing.high - swing.low))


def sobol(
    quantities: Mapping[str, Quantity], total: Total, samples: int = 1024, seed: int = 0
) -> dict[str, tuple[float, float]]:
    """Return first-order and total Sobol index of each uncertain input, the largest total first.

    Args:
        quantities: Name -> quantity.
        total: Values, each shape (n,) -> total, shape (n,).
        samples: Base samples, a power of 2; the total is computed ``samples * (inputs + 2)`` times.
        seed: Seed of the scrambled sequence.
    """
    names = [name for name, item in quantities.items() if item.kind != "point"]
    if not names:
        return {}

    def function(u: np.ndarray) -> np.ndarray:
        flat = u.reshape(len(names), -1)
        values = {name: np.full(flat.shape[1], item.value) for name, item in quantities.items()}
        values.update({name: quantities[name].ppf(row) for name, row in zip(names, flat, strict=True)})
        return np.asarray(total(values)).reshape(1, *u.shape[1:])

    uniform: Any = scipy.stats.uniform()
    found = scipy.stats.sobol_indices(
        func=function, n=samples, dists=[uniform] * len(names), rng=np.random.default_rng(seed)
    )
    first, whole = np.ravel(found.first_order), np.ravel(found.total_order)
    order = np.argsort(-whole)
    return {names[i]: (float(first[i]), float(whole[i])) for i in order}


def switches(quantities: Mapping[str, Quantity], margin: Total, reach: float = 1000.0) -> list[Switch]:
    """Return the inputs that alone can turn the sign of `margin`, the one that needs the least change first.

    Args:
        quantities: Name -> quantity.
        margin: Values, each shape (n,) -> what is positive while the statement is true, shape (n,).
        reach: Inputs are tried from `reach` times smaller to `reach` times greater, within their possible values.
    """
    base = {name: item.value for name, item in quantities.items()}
    found = []

    def at(name: str, tried: np.ndarray) -> np.ndarray:
        values = {key: np.full(len(tried), value) for key, value in base.items()}
        return margin({**values, name: tried})

    for name, item in quantities.items():
        if item.value <= 0:
            continue
        grid = item.value * np.geomspace(1 / reach, reach, 241)
        grid = grid[(grid >= _least(name)) & (grid <= _greatest(name))]
        sign = np.sign(at(name, grid))
        changes = np.flatnonzero(sign[1:] * sign[:-1] < 0)
        if not len(changes):
            continue
        nearest = changes[np.argmin(np.abs(np.log(grid[changes] / item.value)))]
        root = float(brentq(lambda x, name=name: float(at(name, np.array([x]))[0]), grid[nearest], grid[nearest + 1]))
        below = item.cdf(root)
        beyond = None if item.kind == "point" else (1 - below if root > item.value else below)
        found.append(Switch(name, item.value, root, beyond))
    return sorted(found, key=lambda switch: abs(np.log(switch.factor)))


def _least(name: str) -> float:
    return 1.0 if name.endswith((".pue", ".slots")) else 0.0


def _greatest(name: str) -> float:
    return 1.0 if name.endswith((".utilisation", ".mfu")) else np.inf
