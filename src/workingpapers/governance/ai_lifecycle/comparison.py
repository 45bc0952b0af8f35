r"""Two studies side by side, from the same draws of everything that they share.

An interval of A that overlaps an interval of B says little: both hold the same grid and the same devices. With paired
draws the probability :math:`P(A < B)` and the interval of the ratio :math:`A/B` follow directly.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from workingpapers.foundations.errors import InputError
from workingpapers.governance.ai_lifecycle.assessment import Result, shares_of
from workingpapers.governance.ai_lifecycle.attribution import crossover_volume
from workingpapers.governance.ai_lifecycle.quantities import Quantity
from workingpapers.governance.ai_lifecycle.sensitivity import Switch, switches, total_of


@dataclass(frozen=True)
class Comparison:
    """How A compares with B in one category.

    Args:
        category: Name of the category.
        a: Central total of A.
        b: Central total of B.
        ratio: Lower end, median and upper end (95 %) of A/B over the paired draws.
        probability: Share of the draws in which A is lower; ties count half.
        crossover: Volume at which both cost the same, NaN where one is better at every volume.
        shared: Number of uncertain quantities that both hold and that were drawn once.
    """

    category: str
    a: float
    b: float
    ratio: tuple[float, float, float]
    probability: float
    crossover: float
    shared: int


def compare(a: Result, b: Result) -> list[Comparison]:
    """Compare two results of the same functional unit, category by category.

    Args:
        a: Result of design A.
        b: Result of design B, from the same seed and number of samples.

    Raises:
        InputError: The functional units differ, or the draws are not paired.
    """
    check_comparable(a, b)
    known = a.study.quantities
    shared = sum(
        item.kind != "point" and name in known and known[name].fingerprint(name) == item.fingerprint(name)
        for name, item in b.study.quantities.items()
    )
    found = []
    for category in a.categories:
        if category not in b.categories:
            continue
        x = a.samples[:, a.categories.index(category)]
        y = b.samples[:, b.categories.index(category)]
        if not (y > 0).all():
            continue  # nothing in B to set A against
        low, middle, high = np.quantile(x / y, [0.025, 0.5, 0.975])
        parts = (*a.upstream_and_marginal(category), *b.upstream_and_marginal(category))
        # Equal upstream burdens differ by rounding, from which no volume should be read.
        same = np.isclose(parts[0], parts[2], rtol=1e-9, atol=0)
        volume = np.nan if same else crossover_volume(*parts)
        found.append(
            Comparison(
                category=category,
                a=a.totals[category],
                b=b.totals[category],
                ratio=(float(low), float(middle), float(high)),
                probability=float(np.mean(x < y) + np.mean(x == y) / 2),
                crossover=float(volume),
                shared=shared,
            )
        )
    return found


def check_comparable(a: Result, b: Result) -> None:
    """Refuse to compare what is not the same service, or draws that are not paired.

    Args:
        a: Result of design A.
        b: Result of design B.

    Raises:
        InputError: See above.
    """
    left, right = a.study.functional_unit, b.study.functional_unit
    for key in ("unit", "amount", "quality"):
        one, other = getattr(left, key), getattr(right, key)
        if one != other:
            raise InputError(
                f"The functional units differ in {key}: {one!r} and {other!r}; compare equal services only."
            )
    if a.seed != b.seed or len(a.samples) != len(b.samples):
        raise InputError(
            f"The draws are not paired: seeds {a.seed} and {b.seed}, {len(a.samples)} and {len(b.samples)} samples; "
            "assess both with the same."
        )


def what_would_turn(a: Result, b: Result, category: str) -> list[Switch]:
    """Return the inputs that alone would turn the comparison at the central values.

    An input that both studies hold changes in both.

    Args:
        a: Result of design A.
        b: Result of design B.
        category: Name of the category.
    """
    quantities: dict[str, Quantity] = {}
    names: dict[str, dict[str, str]] = {"A": {}, "B": {}}
    for label, result, other in (("A", a, b), ("B", b, a)):
        for name, item in result.study.quantities.items():
            same = other.study.quantities.get(name)
            both = same is not None and same.fingerprint(name) == item.fingerprint(name)
            names[label][name] = name if both else f"{label}: {name}"
            quantities[names[label][name]] = item
    totals = {
        "A": total_of(a.study, category, shares_of(a.study, a.rule)),
        "B": total_of(b.study, category, shares_of(b.study, b.rule)),
    }

    def of(label: str, values: Mapping[str, np.ndarray]) -> np.ndarray:
        return totals[label]({name: values[key] for name, key in names[label].items()})

    sign = 1.0 if a.totals[category] < b.totals[category] else -1.0
    return switches(quantities, lambda values: sign * (of("B", values) - of("A", values)))
