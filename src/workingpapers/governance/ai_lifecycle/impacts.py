r"""From quantities to impacts, vectorised over samples; and the same study as matrices.

Each process j runs :math:`s_j` times for one demand. Its supplies are closed forms of the study's quantities:
:math:`E_j \cdot \mathrm{PUE}` at the meter, :math:`E_j \cdot \mathrm{WUE}` litres on the site, device hours times
:math:`M / (t_\mathrm{lifespan} u)`, and direct flows. :func:`matrices` writes the same graph as a technosphere A,
interventions B and characterisation C, so that :math:`h = C B A^{-1} f` (see :mod:`matrix`) can be held against it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from workingpapers.foundations.errors import InputError
from workingpapers.governance.ai_lifecycle import attribution
from workingpapers.governance.ai_lifecycle.matrix import System
from workingpapers.governance.ai_lifecycle.study import EMBODIED, NOT_GIVEN, VOLUME, Category, Process, Study

Values = Mapping[str, np.ndarray]
SOURCES = ("electricity", "hardware", "site water", "direct")
GREENHOUSE = {
    "AR6": {"co2": 1.0, "methane_fossil": 29.8, "methane_biogenic": 27.0, "nitrous_oxide": 273.0},
    "AR5": {"co2": 1.0, "methane_fossil": 30.0, "methane_biogenic": 28.0, "nitrous_oxide": 265.0},
}
"""Global warming potential over 100 years, kgCO2e per kg, of the IPCC's sixth and fifth assessment reports."""
BUILTIN = {
    "gwp": ("kgCO2e", "greenhouse gases (GWP100)"),
    "gwp_market": ("kgCO2e", "greenhouse gases, market-based electricity"),
    "energy": ("kWh", "electricity at the meter"),
    "primary_energy": ("MJ", "primary energy"),
    "water": ("L", "water consumption"),
    "adp": ("kgSbe", "depletion of elements (ADP)"),
    "ewaste": ("kg", "electronic waste"),
}


@dataclass(frozen=True)
class Impacts:
    """Impacts of one demand.

    Args:
        table: Shape (n, processes, sources, categories), in the order of the study, ``SOURCES`` and `categories`.
        supplies: Runs, meter kWh, litres on site and device hours behind it, each shape (n, processes).
        categories: Names of the categories.
    """

    table: np.ndarray
    supplies: Mapping[str, np.ndarray]
    categories: tuple[str, ...]

    @property
    def totals(self) -> np.ndarray:
        """Totals, shape (n, categories)."""
        return np.asarray(self.table.sum(axis=(1, 2)))


def category_names(study: Study) -> tuple[str, ...]:
    """Return the categories for which the study holds at least one factor.

    Args:
        study: The study.
    """
    fields = [set(grid) for grid in study.grids.values()]
    fields += [{field.removeprefix("server_") for field in device} for device in study.devices.values()]
    flows = {flow for process in study.processes.values() for flow in process.flows}
    present = set().union(*fields, ({"gwp"} if flows & set(GREENHOUSE["AR6"]) else set()), {"energy"})
    on_site = [study.quantities[facility["wue"]] for facility in study.facilities.values()]
    if any(item.note != NOT_GIVEN for item in on_site) or any("water" in p.amounts for p in study.processes.values()):
        present.add("water")
    builtin = tuple(name for name in BUILTIN if name in present)
    return builtin + tuple(name for name, item in study.categories.items() if flows & set(item.factors))


def category_unit(study: Study, name: str) -> str:
    """Return the unit of a category.

    Args:
        study: The study.
        name: Name of the category.
    """
    return BUILTIN[name][0] if name in BUILTIN else study.categories[name].unit


def category_title(study: Study, name: str) -> str:
    """Return the name of a category for people.

    Args:
        study: The study.
        name: Name of the category.
    """
    return BUILTIN[name][1] if name in BUILTIN else study.categories[name].title


def evaluate(study: Study, values: Values, shares: Mapping[str, float] | None = None) -> Impacts:
    """Compute the impacts of one functional unit for every sample.

    Args:
        study: The study.
        values: Every quantity, each shape (n,); complex values give complex-step derivatives.
        shares: Process -> share of its burden that this product bears; 1 where missing.
    """
    categories = category_names(study)
    size = len(next(iter(values.values())))
    kind = np.result_type(*values.values(), np.float64)
    processes = list(study.processes.values())
    supplies = {
        key: np.zeros((size, len(processes)), kind) for key in ("runs", "it_kwh", "meter_kwh", "site_l", "hours")
    }
    supplies["runs"] = _runs(study, values, shares or {}, kind)
    table = np.zeros((size, len(processes), len(SOURCES), len(categories)), kind)
    for j, process in enumerate(processes):
        runs = supplies["runs"][:, j]
        it_kwh = runs * _electricity(study, process, values)
        supplies["it_kwh"][:, j] = it_kwh
        if process.facility:
            facility = study.facilities[process.facility]
            supplies["meter_kwh"][:, j] = it_kwh * values[facility["pue"]]
            supplies["site_l"][:, j] = it_kwh * values[facility["wue"]]
        supplies["hours"][:, j] = runs * device_hours(study, process, values)
        direct = _direct(study, process, values)
        for k, name in enumerate(categories):
            if process.facility:
                grid = study.facilities[process.facility]["grid"]
                table[:, j, 0, k] = supplies["meter_kwh"][:, j] * grid_factor(study, grid, name, values)
            if process.device:
                table[:, j, 1, k] = supplies["hours"][:, j] * device_factor(study, process.device, name, values)
            if name == "water":
                table[:, j, 2, k] = supplies["site_l"][:, j]
            table[:, j, 3, k] = runs * direct.get(name, 0.0)
    return Impacts(table, supplies, categories)


def grid_factor(study: Study, grid: str, category: str, values: Values) -> np.ndarray | float:
    """Return the burden of one kWh at the meter; 0 where the study has none (the report lists such gaps).

    Args:
        study: The study.
        grid: Name of the grid.
        category: Name of the category.
        values: Every quantity, each shape (n,).
    """
    if category == "energy":
        return 1.0
    fields = study.grids[grid]
    field = "gwp" if category == "gwp_market" and "gwp_market" not in fields else category
    return values[fields[field]] if field in fields else 0.0


def device_factor(study: Study, device: str, category: str, values: Values) -> np.ndarray | float:
    r"""Return the burden of one device hour, :math:`(M_s / G + M_c) / (t_\mathrm{lifespan}\,u)`.

    Args:
        study: The study.
        device: Name of the device.
        category: Name of the category.
        values: Every quantity, each shape (n,).
    """
    fields = study.devices[device]
    field = "gwp" if category == "gwp_market" else category
    if field not in EMBODIED:
        return 0.0
    card, server = (values[fields[key]] if key in fields else 0.0 for key in (field, f"server_{field}"))
    active_hours = values[fields["lifespan"]] * values[fields["utilisation"]]
    burden: np.ndarray = attribution.device_burden(card, server, values[fields["slots"]]) / active_hours
    return burden


def device_hours(study: Study, process: Process, values: Values) -> np.ndarray | float:
    """Return device hours of one run.

    Args:
        study: The study.
        process: The process.
        values: Every quantity, each shape (n,).
    """
    has = process.amounts
    if "device_time" in has:
        return values[has["device_time"]]
    if "mfu" in has:
        peak = values[study.devices[process.device]["peak"]]
        hours: np.ndarray = attribution.training_hours(
            values[has["parameters"]], values[has["tokens"]], peak, values[has["mfu"]]
        )
        return hours
    return 0.0


def matrices(study: Study, values: Mapping[str, float], shares: Mapping[str, float] | None = None) -> System:
    """Write the study as A, B, C and f; nodes are the functional unit, processes, facilities, grids and devices.

    Args:
        study: The study.
        values: One number for each quantity.
        shares: As in :func:`evaluate`.
    """
    at = {name: np.array([value]) for name, value in values.items()}
    names = ["functional unit", *(f"process {name}" for name in study.processes)]
    names += [f"facility {name}" for name in study.facilities]
    names += [f"grid {name}" for name in study.grids] + [f"device {name}" for name in study.devices]
    index = {name: i for i, name in enumerate(names)}
    categories = category_names(study)
    A, B = np.eye(len(names)), np.zeros((len(categories), len(names)))

    def scalar(value: np.ndarray | float) -> float:
        return float(np.ravel(value)[0])

    for name, process in study.processes.items():
        j = index[f"process {name}"]
        A[j, 0] -= _demand(process, values[VOLUME], (shares or {}).get(name, 1.0))
        for other, key in process.inputs.items():
            A[index[f"process {other}"], j] -= values[key]
        if process.facility:
            A[index[f"facility {process.facility}"], j] -= scalar(_electricity(study, process, at))
        if process.device:
            A[index[f"device {process.device}"], j] -= scalar(device_hours(study, process, at))
        for category, amount in _direct(study, process, at).items():
            if category in categories:
                B[categories.index(category), j] += scalar(amount)
    for name, facility in study.facilities.items():
        j = index[f"facility {name}"]
        A[index[f"grid {facility['grid']}"], j] -= values[facility["pue"]]
        if "water" in categories:
            B[categories.index("water"), j] += values[facility["wue"]]
    for k, category in enumerate(categories):
        for name in study.grids:
            B[k, index[f"grid {name}"]] = scalar(grid_factor(study, name, category, at))
        for name in study.devices:
            B[k, index[f"device {name}"]] = scalar(device_factor(study, name, category, at))
    demand = np.zeros(len(names))
    demand[0] = study.functional_unit.amount
    return System(A, B, np.eye(len(categories)), demand, tuple(names), categories)


def _runs(study: Study, values: Values, shares: Mapping[str, float], kind: np.dtype) -> np.ndarray:
    names = list(study.processes)
    amount = study.functional_unit.amount
    demand = np.stack(
        [amount * _demand(process, values[VOLUME], shares.get(name, 1.0)) for name, process in study.processes.items()],
        axis=1,
    ).astype(kind)
    if not any(process.inputs for process in study.processes.values()):
        return demand
    technosphere = np.tile(np.eye(len(names), dtype=kind), (len(demand), 1, 1))
    for j, process in enumerate(study.processes.values()):
        for other, key in process.inputs.items():
            technosphere[:, names.index(other), j] -= values[key]
    try:
        runs = np.linalg.solve(technosphere, demand[..., None])[..., 0]
    except np.linalg.LinAlgError:
        runs = np.full_like(demand, -1.0)
    if (runs.real < 0).any():
        raise InputError("The inputs of the processes form a loop that needs more than it gives; lower an input.")
    return np.asarray(runs)


def _demand(process: Process, volume: np.ndarray | float, share: float) -> np.ndarray | float:
    """Return runs of `process` for one unit of output."""
    if process.scope == "unit":
        return np.ones_like(volume) * share / process.per
    return share / volume


def _electricity(study: Study, process: Process, values: Values) -> np.ndarray | float:
    has = process.amounts
    if "electricity" in has:
        return values[has["electricity"]]
    if "data" in has:
        return values[has["data"]] * values[has["intensity"]]
    if "power" in has:
        return device_hours(study, process, values) * values[has["power"]]
    if "load" in has:
        rated = values[study.devices[process.device]["power"]]
        return device_hours(study, process, values) * rated * values[has["load"]]
    return 0.0


def _direct(study: Study, process: Process, values: Values) -> dict[str, np.ndarray | float]:
    found: dict[str, np.ndarray | float] = {}
    if "water" in process.amounts:
        found["water"] = values[process.amounts["water"]]
    greenhouse = GREENHOUSE[study.gwp_set]
    categories: dict[str, Category] = dict(study.categories)
    for flow, key in process.flows.items():
        if flow in greenhouse:
            for category in ("gwp", "gwp_market"):
                found[category] = found.get(category, 0.0) + greenhouse[flow] * values[key]
        for name, item in categories.items():
            if flow in item.factors:
                found[name] = found.get(name, 0.0) + values[item.factors[flow]] * values[key]
    return found
