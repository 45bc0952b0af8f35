"""Checks that ISO 14044 asks for before a conclusion is drawn: completeness, consistency, data quality."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from workingpapers.governance.ai_lifecycle.impacts import category_names
from workingpapers.governance.ai_lifecycle.quantities import Quantity
from workingpapers.governance.ai_lifecycle.study import EMBODIED, GRID, NOT_GIVEN, Study

STALE_YEARS = 3


@dataclass(frozen=True)
class Check:
    """One finding.

    Args:
        kind: ``"completeness"``, ``"consistency"`` or ``"quality"``.
        text: One sentence.
        weight: Share of the sensitivity that it touches, from 0 to 1, or None where that has no meaning.
    """

    kind: str
    text: str
    weight: float | None = None


def checks(study: Study, elasticity: Mapping[str, float]) -> list[Check]:
    """Return everything that a reader must know before trusting the figures.

    Args:
        study: The study.
        elasticity: Name of a quantity -> elasticity of the judged category: weighs each finding by what depends on it.
    """
    return [*_completeness(study), *_consistency(study, elasticity), *_quality(study, elasticity)]


def data_quality(study: Study, elasticity: Mapping[str, float]) -> tuple[float | None, float]:
    """Return the mean pedigree score (1 best, 5 worst) of the scored quantities, and their share of the weight.

    Args:
        study: The study.
        elasticity: As in :func:`checks`; its absolute values are the weights.
    """
    scored = {name: item for name, item in study.quantities.items() if item.pedigree}
    weight = sum(abs(elasticity.get(name, 0.0)) for name in scored)
    total = sum(abs(value) for value in elasticity.values())
    if weight == 0:
        return None, 0.0
    mean = sum(abs(elasticity.get(name, 0.0)) * float(np.mean(item.pedigree)) for name, item in scored.items())
    return mean / weight, weight / total


def missing_factors(study: Study) -> dict[str, list[str]]:
    """Return the grids, devices and facilities that lack a factor: category -> their names.

    Args:
        study: The study.
    """
    found: dict[str, list[str]] = {}
    for category in category_names(study):
        gaps = [
            f"grid.{name}"
            for name, grid in study.grids.items()
            if category in GRID and category != "gwp_market" and category not in grid
        ]
        gaps += [
            f"device.{name}"
            for name, device in study.devices.items()
            if category in EMBODIED and category not in device
        ]
        if category == "water":
            gaps += [
                f"facility.{name}"
                for name, facility in study.facilities.items()
                if study.quantities[facility["wue"]].note == NOT_GIVEN
            ]
        if gaps:
            found[category] = gaps
    return found


def _completeness(study: Study) -> list[Check]:
    found = []
    covered = {process.stage for process in study.processes.values()}
    devices = [study.devices[process.device] for process in study.processes.values() if process.device]
    if devices and all("gwp" in device for device in devices):
        covered.add("materials_manufacture")
    for stage in study.boundary.included:
        if stage not in covered:
            found.append(
                Check("completeness", f"The boundary includes {stage}, for which there is no process: not assessed.")
            )
    for stage, reason in study.boundary.excluded.items():
        found.append(Check("completeness", f"{stage} is left out: {reason}."))
    for name, process in study.processes.items():
        if process.amounts and not process.device:
            found.append(Check("completeness", f"process.{name} names no device: its hardware is not assessed."))
    for category, gaps in missing_factors(study).items():
        for place in gaps:
            found.append(Check("completeness", f"{place} has no {category}: the totals of {category} lack it."))
    return found


def _consistency(study: Study, elasticity: Mapping[str, float]) -> list[Check]:
    found = []
    old = {
        name: item
        for name, item in study.quantities.items()
        if item.year is not None and study.year - item.year > STALE_YEARS
    }
    if old:
        oldest = min(old, key=lambda name: old[name].year or 0)
        text = (
            f"{len(old)} numbers are more than {STALE_YEARS} years older than the study, the oldest {oldest} of "
            f"{old[oldest].year}."
        )
        found.append(Check("consistency", text, _weight(old, elasticity)))
    borrowed = {
        name: item for name, item in study.quantities.items() if "world" in item.note or "fallback" in item.note
    }
    for name, item in borrowed.items():
        found.append(Check("consistency", f"{name}: {item.note}.", _weight([name], elasticity)))
    if study.gwp_set != "AR6":
        found.append(
            Check(
                "consistency", f"Direct flows are characterised by {study.gwp_set}; most factors of packages use AR6."
            )
        )
    return found


def _quality(study: Study, elasticity: Mapping[str, float]) -> list[Check]:
    found = []

    def tell(names: list[str], text: str) -> None:
        if names:
            shown = ", ".join(names[:4]) + (", ..." if len(names) > 4 else "")
            found.append(Check("quality", f"{len(names)} numbers {text}: {shown}.", _weight(names, elasticity)))

    items: dict[str, Quantity] = {name: item for name, item in study.quantities.items() if item.note != NOT_GIVEN}
    tell([name for name, item in items.items() if not item.source], "name no source")
    tell([name for name, item in items.items() if item.source.startswith("assumed")], "are assumptions")
    tell([name for name, item in items.items() if item.source and item.year is None], "have a source without a year")
    for name, process in study.processes.items():
        if process.grade == "estimated":
            found.append(
                Check("quality", f"process.{name}: electricity or device time is estimated from ratings, not measured.")
            )
    mean, share = data_quality(study, elasticity)
    if mean is not None:
        found.append(
            Check("quality", f"Mean pedigree score {mean:.1f} (1 best, 5 worst) over the scored numbers.", share)
        )
    return found


def _weight(names: Mapping[str, Quantity] | list[str], elasticity: Mapping[str, float]) -> float:
    total = sum(abs(value) for value in elasticity.values())
    return sum(abs(elasticity.get(name, 0.0)) for name in names) / total if total else 0.0
