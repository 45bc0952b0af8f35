"""Background factors with their source and year: from installed packages, or from the small table of this folder.

Nothing is copied from the packages; a factor is read from the installed one when a study names it. `boaviztapi` is
under the AGPL and `ecologits` under the MPL: their data stay where they are.
"""

from __future__ import annotations

import csv
import functools
import importlib.metadata
import importlib.util
import json
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from workingpapers.foundations.errors import InputError, near_match

PACKAGES = ("codecarbon", "ecologits", "boaviztapi")
Record = dict[str, Any]
"""Field of a grid or a device -> table of a quantity, as an inventory would hold it."""


def lookup(reference: str, kind: str) -> Record:
    """Return the factors of ``"package:key"``.

    Args:
        reference: Such as ``"codecarbon:FRA"``, ``"ecologits:FRA"``, ``"boaviztapi:FRA"``, ``"builtin:h100"``.
        kind: ``"grid"`` or ``"device"``.

    Returns:
        Field -> table with value, unit, source and, where the package states it, year.

    Raises:
        InputError: The source or key is unknown, or the package is not installed.
    """
    package, _, key = reference.partition(":")
    readers = _READERS[kind]
    if package not in readers:
        raise InputError(
            f"{reference!r} names no source of {kind} factors; use {', '.join(readers)}, a colon and a key."
        )
    if package != "builtin" and not installed(package):
        raise InputError(
            f"{reference!r} needs the package {package}, which is not installed; install it, add 'builtin:world' "
            "(grids) or 'builtin:h100' (devices) to the list as fallback, or write the numbers yourself."
        )
    table = readers[package]()
    if key not in table:
        raise InputError(f"{package} has no {kind} {key!r}{near_match(key, table) or f'; it has {_some(table)}.'}")
    return table[key]


def first_available(references: list[str], kind: str) -> tuple[str, Record]:
    """Return the first reference whose package is installed, and its factors.

    Args:
        references: In order of preference; the last ones are fallbacks.
        kind: ``"grid"`` or ``"device"``.

    Raises:
        InputError: None of them can be read; the sentence is that of the first.
    """
    for reference in references:
        package = reference.partition(":")[0]
        if package == "builtin" or (package in _READERS[kind] and installed(package)):
            return reference, lookup(reference, kind)
    return references[0], lookup(references[0], kind)


def known(kind: str) -> list[tuple[str, Record]]:
    """Return all factors of the installed packages as (reference, record).

    Args:
        kind: ``"grid"`` or ``"device"``.
    """
    found = []
    for package, reader in _READERS[kind].items():
        if package == "builtin" or installed(package):
            found += [(f"{package}:{key}", record) for key, record in reader().items()]
    return found


def installed(package: str) -> bool:
    """Whether `package` can be read.

    Args:
        package: Import name.
    """
    return importlib.util.find_spec(package) is not None


def _folder(package: str) -> Path:
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise InputError(f"The package {package} is not installed; install it or write the numbers yourself.")
    return Path(spec.submodule_search_locations[0])


def _version(package: str) -> str:
    return f"{package} {importlib.metadata.version(package)}"


@functools.cache
def _builtin(kind: str) -> dict[str, Record]:
    table: dict[str, Any] = tomllib.loads(Path(__file__).with_name("factors.toml").read_text(encoding="utf-8"))
    return dict(table[kind])


@functools.cache
def _codecarbon() -> dict[str, Record]:
    raw = json.loads((_folder("codecarbon") / "data/private_infra/global_energy_mix.json").read_text(encoding="utf-8"))
    found = {}
    for code, entry in raw.items():
        if entry.get("carbon_intensity") is not None:
            value = {"value": entry["carbon_intensity"], "unit": "gCO2e/kWh", "geography": code}
            found[code] = {"gwp": value | _from(f"{_version('codecarbon')}, global_energy_mix.json", entry.get("year"))}
    return found


@functools.cache
def _ecologits() -> dict[str, Record]:
    raw = json.loads((_folder("ecologits") / "data/electricity_mixes.json").read_text(encoding="utf-8"))
    fields = {"gwp": "kgCO2e/kWh", "adp": "kgSbe/kWh", "primary_energy": "MJ/kWh", "water": "L/kWh"}
    names = {"gwp": "gwp", "adp": "adpe", "primary_energy": "pe", "water": "wue"}
    found = {}
    for entry in raw["electricity_mixes"]:
        warned = {text.split("-")[2] for text in entry.get("warnings") or ()}
        found[entry["name"]] = {
            field: {"value": entry[names[field]], "unit": unit, "geography": entry["name"]}
            | _from(f"{_version('ecologits')}, electricity_mixes.json", None)
            | ({"note": "the world's mean, not this country's"} if names[field] in warned else {})
            for field, unit in fields.items()
        }
    return found


@functools.cache
def _boaviztapi_grids() -> dict[str, Record]:
    units = {"gwp": ("gwp", "kgCO2e/kWh"), "adpe": ("adp", "kgSbe/kWh"), "pe": ("primary_energy", "MJ/kWh")}
    found: dict[str, Record] = {}
    best: dict[tuple[str, str], int] = {}
    with (_folder("boaviztapi") / "data/crowdsourcing/electrical_mix.csv").open(encoding="utf-8") as stream:
        for row in csv.DictReader(stream):
            if row["name"] not in units:
                continue
            field, unit = units[row["name"]]
            years = [int(word) for word in row["reference_year"].split() if word.isdigit()]
            source = f"{_version('boaviztapi')}, electrical_mix.csv: {row['source']}"
            for code, value in row.items():
                # Several sources cover a country; the package ranks them, 1 first.
                if len(code) == 3 and code.isupper() and value and int(row["priority"]) < best.get((code, field), 99):
                    best[code, field] = int(row["priority"])
                    made = {"value": float(value), "unit": unit, "geography": code}
                    found.setdefault(code, {})[field] = made | _from(source, min(years, default=None))
    return found


@functools.cache
def _ecologits_devices() -> dict[str, Record]:
    # Read from the text of the module: importing it would load its models, and the names are its public constants.
    import ast

    text = (_folder("ecologits") / "impacts/llm.py").read_text(encoding="utf-8")
    constants = {
        node.targets[0].id: node.value.value
        for node in ast.parse(text).body
        if isinstance(node, ast.Assign)
        and isinstance(node.targets[0], ast.Name)
        and isinstance(node.value, ast.Constant)
    }
    source = _from(f"{_version('ecologits')}, impacts/llm.py", None)
    record: Record = {
        f"{prefix}{field}": {"value": constants[f"{owner}_EMBODIED_IMPACT_{name}"], "unit": unit} | source
        for prefix, owner in (("", "GPU"), ("server_", "SERVER"))
        for field, name, unit in (("gwp", "GWP", "kgCO2e"), ("adp", "ADPE", "kgSbe"), ("primary_energy", "PE", "MJ"))
    }
    record["slots"] = {"value": constants["SERVER_GPUS"]} | source
    record["lifespan"] = {"value": 3, "unit": "year"} | source
    return {"gpu": record}


def _from(source: str, year: Any) -> Record:
    return {"source": source, **({"year": int(year)} if year else {"note": "the package states no year"})}


def _some(table: dict[str, Record]) -> str:
    names = sorted(table)
    return ", ".join(names[:8]) + (", ..." if len(names) > 8 else "")


_READERS: dict[str, dict[str, Callable[[], dict[str, Record]]]] = {
    "grid": {
        "builtin": lambda: _builtin("grid"),
        "codecarbon": _codecarbon,
        "ecologits": _ecologits,
        "boaviztapi": _boaviztapi_grids,
    },
    "device": {"builtin": lambda: _builtin("device"), "ecologits": _ecologits_devices},
}
