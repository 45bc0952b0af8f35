r"""Generalisability: how much of a score's variance is the subject, and how much items and occasions.

Subjects x items x occasions, all random and fully crossed; occasions are prompt wordings, option orders or days.

.. math:: E\rho^2 = \frac{\sigma_p^2}{\sigma_p^2 + \sigma_{pi}^2/n_i + \sigma_{po}^2/n_o + \sigma_{pio,e}^2/(n_i n_o)}

and :math:`\Phi` adds :math:`\sigma_i^2/n_i + \sigma_o^2/n_o + \sigma_{io}^2/(n_i n_o)` to the denominator.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from workingpapers.foundations.errors import InputError

FACETS = "pio"


@dataclass(frozen=True)
class Components:
    """Variance components.

    Args:
        raw: Estimates by facet (``"p"``, ``"i"``, ``"pi"``, ...; the last holds the error too); may be below zero.
        facets: ``"pi"`` or ``"pio"``.
    """

    raw: Mapping[str, float]
    facets: str

    def value(self, name: str) -> float:
        """Return a component, zero where its estimate is below zero."""
        return max(self.raw.get(name, 0.0), 0.0)

    def share(self, name: str) -> float:
        """Return the component's share of the total."""
        total = sum(self.value(each) for each in self.raw)
        return self.value(name) / total if total else 0.0


def g_study(scores: np.ndarray) -> Components:
    """Estimate variance components from expected mean squares.

    Args:
        scores: Complete, shape (persons, items) or (persons, items, occasions); two levels of each or more.

    Raises:
        InputError: Another shape, or missing scores.

    References:
        R. L. Brennan, Generalizability Theory (2001).
    """
    data = np.asarray(scores, dtype=np.float64)
    if data.ndim not in (2, 3) or min(data.shape) < 2 or not np.isfinite(data).all():
        raise InputError(
            f"Scores have shape {data.shape} with {int((~np.isfinite(data)).sum())} missing; give a complete table of "
            "persons by items (by occasions) with two levels of each."
        )
    facets = FACETS[: data.ndim]
    names = [
        "".join(facet for bit, facet in enumerate(facets) if mask >> bit & 1) for mask in range(1, 2 ** len(facets))
    ]
    sizes = dict(zip(facets, data.shape, strict=True))
    squares = {name: _mean_square(data, name, facets) for name in names}
    raw: dict[str, float] = {}
    # From the top: E MS(a) = sum over b containing a of sigma^2_b times the sizes of the facets outside b.
    for name in sorted(names, key=len, reverse=True):
        others = sum(
            raw[other] * _product(sizes, set(facets) - set(other)) for other in names if set(name) < set(other)
        )
        raw[name] = (squares[name] - others) / _product(sizes, set(facets) - set(name))
    order = sorted(names, key=lambda name: (len(name), [facets.index(facet) for facet in name]))
    return Components({name: raw[name] for name in order}, facets)


def coefficients(components: Components, items: int, occasions: int = 1) -> tuple[float, float]:
    """Return the coefficients for ranking (E rho squared) and for absolute decisions (Phi) of a planned measurement.

    Args:
        components: From :func:`g_study`, or known.
        items: Number of items n_i of the plan.
        occasions: Number of occasions n_o of the plan; 1 for two facets.
    """
    sizes = {"i": items, "o": occasions}
    true = components.value("p")
    relative = sum(_noise(components, name, sizes) for name in components.raw if "p" in name and name != "p")
    absolute = relative + sum(_noise(components, name, sizes) for name in components.raw if "p" not in name)
    if true == 0:
        return 0.0, 0.0
    return true / (true + relative), true / (true + absolute)


def _noise(components: Components, name: str, sizes: Mapping[str, int]) -> float:
    return components.value(name) / _product(sizes, set(name) - {"p"})


def _product(sizes: Mapping[str, int], names: set[str]) -> float:
    return float(np.prod([sizes[name] for name in names])) if names else 1.0


def _mean_square(data: np.ndarray, name: str, facets: str) -> float:
    """Return the mean square of an effect: inclusion and exclusion of marginal means."""
    effect = np.zeros([data.shape[k] if facet in name else 1 for k, facet in enumerate(facets)])
    for mask in range(2 ** len(name)):
        part = {name[bit] for bit in range(len(name)) if mask >> bit & 1}
        axes = tuple(k for k, facet in enumerate(facets) if facet not in part)
        effect = effect + (-1) ** (len(name) - len(part)) * data.mean(axis=axes, keepdims=True)
    repeats = np.prod([data.shape[k] for k, facet in enumerate(facets) if facet not in name])
    degrees = np.prod([data.shape[k] - 1 for k, facet in enumerate(facets) if facet in name])
    return float(repeats * np.sum(effect**2) / degrees)
