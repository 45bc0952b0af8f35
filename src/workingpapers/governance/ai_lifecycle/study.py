"""A study as data: goal, functional unit, boundary, the quantities and the processes that use them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from workingpapers.governance.ai_lifecycle.quantities import Quantity

STAGES = (
    "materials_manufacture",
    "transport",
    "data",
    "experimentation",
    "pretraining",
    "posttraining",
    "evaluation",
    "inference",
    "idle",
    "networking_storage",
    "end_of_life",
)
VOLUME = "functional_unit.volume"
NOT_GIVEN = "not given"
"""Note of a quantity that stands in for a missing one; the checks name it and no total claims to hold it."""

# Field -> unit of the formulas, least and greatest possible value.
Fields = Mapping[str, tuple[str, float, float]]
_ANY = math.inf
GRID: Fields = {
    "gwp": ("kgCO2e/kWh", 0, _ANY),
    "gwp_market": ("kgCO2e/kWh", 0, _ANY),
    "primary_energy": ("MJ/kWh", 0, _ANY),
    "water": ("L/kWh", 0, _ANY),
    "adp": ("kgSbe/kWh", 0, _ANY),
}
FACILITY: Fields = {"pue": ("", 1, _ANY), "wue": ("L/kWh", 0, _ANY)}
EMBODIED: Fields = {
    "gwp": ("kgCO2e", 0, _ANY),
    "primary_energy": ("MJ", 0, _ANY),
    "water": ("L", 0, _ANY),
    "adp": ("kgSbe", 0, _ANY),
    "ewaste": ("kg", 0, _ANY),
}
DEVICE: Fields = {
    **EMBODIED,
    **{f"server_{name}": bounds for name, bounds in EMBODIED.items()},
    "slots": ("", 1, _ANY),
    "lifespan": ("hour", 1e-9, _ANY),
    "utilisation": ("", 1e-9, 1),
    "power": ("kW", 0, _ANY),
    "peak": ("FLOP/s", 1e-9, _ANY),
    "recovery_credit": ("kgCO2e", 0, _ANY),
}
PROCESS: Fields = {
    "electricity": ("kWh", 0, _ANY),
    "device_time": ("hour", 0, _ANY),
    "power": ("kW", 0, _ANY),
    "load": ("", 0, 1.5),
    "parameters": ("", 0, _ANY),
    "tokens": ("", 0, _ANY),
    "mfu": ("", 1e-9, 1),
    "data": ("GB", 0, _ANY),
    "intensity": ("kWh/GB", 0, _ANY),
    "water": ("L", 0, _ANY),
}


@dataclass(frozen=True)
class Category:
    """An impact category: how much one kilogram of each elementary flow counts.

    Args:
        unit: Unit of the category.
        factors: Elementary flow -> name of the quantity, `unit` per kg.
        title: Name for people.
    """

    unit: str
    factors: Mapping[str, str] = field(default_factory=dict)
    title: str = ""


@dataclass(frozen=True)
class Process:
    """One activity of the model's life.

    Args:
        stage: One of ``STAGES``.
        scope: ``"life"`` happens once in the life of the model, ``"unit"`` for every `per` functional units.
        per: Functional units that one run of a ``"unit"`` process serves.
        facility: Where its electricity comes from, or empty.
        device: What it runs on, or empty.
        amounts: Field of ``PROCESS`` -> name of the quantity.
        flows: Elementary flow -> name of the quantity, kg.
        inputs: Other process -> name of the quantity, its runs for one run of this one.
        shared: How its burden is split: ``product``, ``among``, ``first`` and the keys of the rules, or ``shares``.
        grade: ``"measured"``, ``"stated"`` or ``"estimated"``: how its electricity was found.
    """

    stage: str
    scope: str
    per: float = 1.0
    facility: str = ""
    device: str = ""
    amounts: Mapping[str, str] = field(default_factory=dict)
    flows: Mapping[str, str] = field(default_factory=dict)
    inputs: Mapping[str, str] = field(default_factory=dict)
    shared: Mapping[str, Any] = field(default_factory=dict)
    grade: str = "stated"


@dataclass(frozen=True)
class FunctionalUnit:
    """What the figures are about.

    Args:
        name: For people, such as ``"1,000 chat answers"``.
        amount: Number of `unit` in it.
        unit: What is counted, such as ``"answer"``.
        quality: Terms of quality (length, latency, quality level): without them cheaper service looks like saving.
    """

    name: str
    amount: float
    unit: str
    quality: str


@dataclass(frozen=True)
class Boundary:
    """What is inside.

    Args:
        kind: ``"cradle-to-gate"`` or ``"cradle-to-grave"``.
        included: Stages that the study claims to cover.
        excluded: Stage -> reason for leaving it out.
        cut_off: Rule for leaving out small flows.
    """

    kind: str
    included: tuple[str, ...]
    excluded: Mapping[str, str]
    cut_off: str


@dataclass(frozen=True)
class Study:
    """A whole study.

    Args:
        title: Title of the report.
        goal: Why, for whom, and whether the result is to be published.
        functional_unit: What the figures are about.
        boundary: What is inside.
        quantities: Name -> quantity, every number of the study.
        grids: Grid -> field of ``GRID`` -> name of the quantity.
        facilities: Facility -> its ``grid`` and field of ``FACILITY`` -> name of the quantity.
        devices: Device -> field of ``DEVICE`` -> name of the quantity.
        processes: Process by name.
        categories: Category by name, those of the user too.
        end_of_life: ``"cut_off"``, ``"fifty_fifty"`` or ``"avoided_burden"``: how much of a credit is shown.
        gwp_set: ``"AR6"`` or ``"AR5"``.
        texts: ``critical_review``, ``rebound`` and other statements of the user.
        year: Year of the study.
    """

    title: str
    goal: str
    functional_unit: FunctionalUnit
    boundary: Boundary
    quantities: Mapping[str, Quantity]
    grids: Mapping[str, Mapping[str, str]]
    facilities: Mapping[str, Mapping[str, str]]
    devices: Mapping[str, Mapping[str, str]]
    processes: Mapping[str, Process]
    categories: Mapping[str, Category]
    end_of_life: str = "cut_off"
    gwp_set: str = "AR6"
    texts: Mapping[str, str] = field(default_factory=dict)
    year: int = 2026

    @property
    def medians(self) -> dict[str, float]:
        """Central value of every quantity."""
        return {name: item.value for name, item in self.quantities.items()}
