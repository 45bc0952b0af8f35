"""Reading a study from TOML, YAML or JSON: every mistake is one sentence that names the place."""

from __future__ import annotations

import copy
import json
import math
import os
import tomllib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from workingpapers.foundations.errors import InputError, near_match
from workingpapers.foundations.files import read_table, read_text
from workingpapers.governance.ai_lifecycle import factors
from workingpapers.governance.ai_lifecycle.quantities import Quantity, quantity
from workingpapers.governance.ai_lifecycle.reading import (
    choice,
    member,
    names_of,
    read_fields,
    read_process,
    refuse_unknown,
    table_of,
    unit_of,
)
from workingpapers.governance.ai_lifecycle.study import (
    DEVICE,
    FACILITY,
    GRID,
    STAGES,
    VOLUME,
    Boundary,
    Category,
    FunctionalUnit,
    Study,
)

_TOP = (
    "title goal year critical_review rebound gwp_set end_of_life functional_unit boundary quantity grid facility "
    "device process category category_file scenario"
).split()


def read_document(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Return the tables of a TOML, YAML or JSON file (by its extension; TOML where it has none of them).

    Args:
        path: The file.

    Raises:
        InputError: Not readable, or not what its extension says.
    """
    text, suffix = read_text(path), Path(path).suffix.lower()
    try:
        if suffix in (".yaml", ".yml"):
            import yaml

            found = yaml.safe_load(text)
        elif suffix == ".json":
            found = json.loads(text)
        else:
            found = tomllib.loads(text)
    except ImportError:
        raise InputError("Reading YAML needs the package PyYAML; install it or write the inventory in TOML.") from None
    except Exception as error:  # each reader has its own errors; their text says line and reason
        reason = " ".join(str(error).split()).rstrip(".")
        raise InputError(f"{str(path)!r} is not a valid inventory: {reason}.") from None
    if not isinstance(found, dict):
        raise InputError(f"{str(path)!r} holds no tables; an inventory has [functional_unit] and [process.NAME].")
    return found


def load(path: str | os.PathLike[str], scenario: str = "") -> Study:
    """Read a study from a file.

    Args:
        path: TOML, YAML or JSON.
        scenario: Name of a ``[scenario.NAME]`` to apply, or empty for the study as it stands.

    Raises:
        InputError: See :func:`parse`; the sentence names the file.
    """
    try:
        return parse(read_document(path), Path(path).parent, scenario)
    except InputError as error:
        text = str(error)
        raise InputError(text if str(path) in text else f"{str(path)!r}: {text}") from None


def scenarios(document: Mapping[str, Any]) -> list[str]:
    """Return the names of the scenarios of a document.

    Args:
        document: Tables as :func:`read_document` returns them.
    """
    return list(document.get("scenario", {}))


def parse(document: Mapping[str, Any], folder: Path = Path(), scenario: str = "") -> Study:
    """Build a study from its tables.

    Args:
        document: Tables as :func:`read_document` returns them.
        folder: Where the files that the document names stand.
        scenario: Name of a scenario to apply, or empty.

    Raises:
        InputError: A table or field is unknown or missing, an amount is no amount, or names do not fit together.
    """
    document = _apply(document, scenario)
    refuse_unknown(document, _TOP, "The inventory")
    quantities: dict[str, Quantity] = {}
    for name, raw in table_of(document, "quantity").items():
        quantities[f"quantity.{name}"] = quantity(raw, unit_of(raw), f"quantity.{name}")
    grids = {
        name: read_fields(_with_source(raw, "grid", f"grid.{name}"), GRID, f"grid.{name}", quantities)
        for name, raw in table_of(document, "grid").items()
    }
    facilities = {}
    for name, raw in table_of(document, "facility").items():
        where = f"facility.{name}"
        fields = read_fields({k: v for k, v in raw.items() if k != "grid"}, FACILITY, where, quantities, ("pue", "wue"))
        facilities[name] = {"grid": member(raw.get("grid"), grids, "grid", where), **fields}
    devices = {}
    for name, raw in table_of(document, "device").items():
        where = f"device.{name}"
        full = _with_source(raw, "device", where)
        devices[name] = read_fields(full, DEVICE, where, quantities, ("slots", "utilisation"))
        if "lifespan" not in devices[name]:
            raise InputError(f"{where} has no lifespan; give it, such as lifespan = '4 year'.")
    raws = table_of(document, "process")
    if not raws:
        raise InputError("The inventory has no process; add at least one [process.NAME].")
    processes = {
        name: read_process(name, raw, facilities, devices, raws, quantities, folder) for name, raw in raws.items()
    }
    unit = _functional_unit(document, quantities)
    year = document.get("year")
    if not isinstance(year, int):
        raise InputError(f"year is {year!r}; give the year of the study, such as year = 2026.")
    study = Study(
        title=str(document.get("title", "Life cycle assessment")),
        goal=str(document.get("goal", "")),
        functional_unit=unit,
        boundary=_boundary(document),
        quantities=quantities,
        grids=grids,
        facilities=facilities,
        devices=devices,
        processes=processes,
        categories=_categories(document, folder, quantities),
        end_of_life=choice(document, "end_of_life", ("cut_off", "fifty_fifty", "avoided_burden")),
        gwp_set=choice(document, "gwp_set", ("AR6", "AR5")),
        texts={key: str(document[key]) for key in ("critical_review", "rebound") if key in document},
        year=year,
    )
    return study


def _apply(document: Mapping[str, Any], scenario: str) -> dict[str, Any]:
    made = copy.deepcopy(dict(document))
    if not scenario:
        return made
    changes = table_of(made, "scenario")
    if scenario not in changes:
        hint = near_match(scenario, changes) or f"; it has {', '.join(changes) or 'none'}."
        raise InputError(f"There is no scenario {scenario!r}{hint}")
    for path, value in changes[scenario].items():
        if path == "note":
            continue
        *parents, last = path.split(".")
        place: Any = made
        for part in parents:
            place = place.get(part) if isinstance(place, dict) else None
        if not isinstance(place, dict) or len(parents) < 2:
            raise InputError(
                f"scenario.{scenario} changes {path!r}, which is not there; name a field such as 'facility.site.pue'."
            )
        place[last] = value
    return made


def _functional_unit(document: Mapping[str, Any], quantities: dict[str, Quantity]) -> FunctionalUnit:
    raw = table_of(document, "functional_unit")
    refuse_unknown(raw, ("name", "amount", "unit", "quality", "volume"), "functional_unit")
    for key in ("name", "unit", "quality", "volume"):
        if not raw.get(key):
            raise InputError(
                f"functional_unit has no {key}; it needs a name, a unit, its terms of quality (quality) and the "
                "volume over the model's life."
            )
    amount = raw.get("amount", 1)
    if isinstance(amount, bool) or not isinstance(amount, int | float) or not amount > 0:
        raise InputError(f"functional_unit.amount is {amount!r}; it must be greater than 0.")
    volume = raw["volume"]
    if isinstance(volume, dict) and str(volume.get("unit", "")) == raw["unit"]:
        volume = {key: value for key, value in volume.items() if key != "unit"}
    quantities[VOLUME] = quantity(volume, "", VOLUME, low=1e-300)
    return FunctionalUnit(str(raw["name"]), float(amount), str(raw["unit"]), str(raw["quality"]))


def _boundary(document: Mapping[str, Any]) -> Boundary:
    raw = table_of(document, "boundary")
    refuse_unknown(raw, ("kind", "included", "excluded", "cut_off"), "boundary")
    kind = raw.get("kind", "cradle-to-grave")
    if kind not in ("cradle-to-gate", "cradle-to-grave"):
        raise InputError(f"boundary.kind is {kind!r}; use 'cradle-to-gate' or 'cradle-to-grave'.")
    excluded = raw.get("excluded", {})
    if not isinstance(excluded, dict):
        raise InputError(f"boundary.excluded is {excluded!r}; write a table of stages and reasons.")
    every = [stage for stage in STAGES if stage not in excluded]
    included = tuple(names_of(raw.get("included", every), "boundary.included"))
    for stage in (*included, *excluded):
        if stage not in STAGES:
            raise InputError(
                f"boundary names the stage {stage!r}{near_match(stage, STAGES) or '; see the list of stages.'}"
            )
    both = set(included) & set(excluded)
    if both:
        raise InputError(f"boundary both includes and excludes {sorted(both)[0]}; keep one.")
    return Boundary(kind, included, {k: str(v) for k, v in excluded.items()}, str(raw.get("cut_off", "none stated")))


def _categories(document: Mapping[str, Any], folder: Path, quantities: dict[str, Quantity]) -> dict[str, Category]:
    found: dict[str, Category] = {}
    for name, raw in table_of(document, "category").items():
        refuse_unknown(raw, ("unit", "factors", "title"), f"category.{name}")
        factors_of = raw.get("factors")
        if not isinstance(factors_of, dict):
            raise InputError(f"category.{name}.factors is {factors_of!r}; write a table of flows and factors per kg.")
        made = {}
        for flow, value in factors_of.items():
            made[flow] = f"category.{name}.{flow}"
            quantities[made[flow]] = quantity(value, "", made[flow], low=-math.inf)
        found[name] = Category(str(raw.get("unit", "")), made, str(raw.get("title", name)))
    if "category_file" in document:
        path = folder / str(document["category_file"])
        frame = read_table(path)
        for key in ("category", "unit", "flow", "factor", "source", "year"):
            if key not in frame.columns:
                raise InputError(
                    f"{str(path)!r} has no column {key!r}; it needs category, unit, flow, factor, source, year."
                )
        for row in frame.to_dict("records"):
            name, flow = str(row["category"]), str(row["flow"])
            entry = found.get(name, Category(str(row["unit"]), {}, name))
            key = f"category.{name}.{flow}"
            raw = {"value": row["factor"], "source": str(row["source"]), "year": row["year"]}
            quantities[key] = quantity(raw, "", f"{str(path)!r}, {key}", low=-math.inf)
            found[name] = replace(entry, factors={**entry.factors, flow: key})
    return found


def _with_source(raw: Mapping[str, Any], kind: str, where: str) -> dict[str, Any]:
    if "from" not in raw:
        return dict(raw)
    wanted = names_of([raw["from"]] if isinstance(raw["from"], str) else raw["from"], f"{where}.from")
    if not wanted:
        raise InputError(f"{where}.from is empty; name a source such as 'codecarbon:FRA', or leave it out.")
    used, record = factors.first_available(wanted, kind)
    marked = record if used == wanted[0] else {k: v | {"note": f"fallback for {wanted[0]}"} for k, v in record.items()}
    return {**marked, **{key: value for key, value in raw.items() if key != "from"}}
