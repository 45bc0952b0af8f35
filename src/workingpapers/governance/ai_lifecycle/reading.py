"""Reading the tables of an inventory: processes, fields, names."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from workingpapers.foundations.errors import InputError, near_match
from workingpapers.governance.ai_lifecycle import attribution, measured, units
from workingpapers.governance.ai_lifecycle.quantities import Quantity, quantity
from workingpapers.governance.ai_lifecycle.study import NOT_GIVEN, PROCESS, STAGES, Fields, Process

_PROCESS_WORDS = (*PROCESS, "stage", "scope", "per", "facility", "device", "flows", "inputs", "shared", "measured")
_DEFAULT_QUANTITY = {
    "utilisation": {"value": 1.0, "source": "assumed: the device never idles"},
    "slots": {"value": 1.0, "source": "assumed: no server is shared"},
    "wue": {"value": 0.0, "unit": "L/kWh", "note": NOT_GIVEN},
}


def read_process(
    name: str,
    raw: Mapping[str, Any],
    facilities: Mapping[str, Any],
    devices: Mapping[str, Any],
    processes: Mapping[str, Any],
    quantities: dict[str, Quantity],
    folder: Path,
) -> Process:
    """Read one process; the quantities that it holds join `quantities`."""
    where = f"process.{name}"
    refuse_unknown(raw, _PROCESS_WORDS, where)
    raw = dict(raw)
    stage = raw.get("stage")
    if stage not in STAGES:
        hint = near_match(str(stage), STAGES) or f"; use one of {', '.join(STAGES)}."
        raise InputError(f"{where}: stage is {stage!r}{hint}")
    scope = raw.get("scope", "unit" if stage == "inference" else "life")
    if scope not in ("life", "unit"):
        raise InputError(f"{where}: scope is {scope!r}; use 'life' (once) or 'unit' (for each functional unit).")
    grade = "stated"
    if "measured" in raw:
        found = measured.from_inventory(raw["measured"], folder, where)
        if "device" not in raw:  # a log knows how long it ran; without a device that says nothing about hardware
            found.pop("device_time", None)
        raw.update({key: value for key, value in found.items() if key not in raw})
        grade = "measured"
    per = raw.get("per", 1)
    if isinstance(per, bool) or not isinstance(per, int | float) or not per > 0:
        raise InputError(f"{where}: per is {per!r}; give the number of functional units of one run, greater than 0.")
    amounts = read_fields({key: raw[key] for key in PROCESS if key in raw}, PROCESS, where, quantities)
    made = Process(
        stage=str(stage),
        scope=scope,
        per=float(per),
        facility=member(raw["facility"], facilities, "facility", where) if "facility" in raw else "",
        device=member(raw["device"], devices, "device", where) if "device" in raw else "",
        amounts=amounts,
        flows=read_named(raw.get("flows", {}), "kg", f"{where}.flows", quantities),
        inputs=read_named(raw.get("inputs", {}), "", f"{where}.inputs", quantities),
        shared=_shared(raw.get("shared"), where),
        grade=grade,
    )
    for other in made.inputs:
        member(other, processes, "process", where)
    return _checked(made, where, devices, quantities)


def _checked(
    process: Process, where: str, devices: Mapping[str, Mapping[str, str]], quantities: dict[str, Quantity]
) -> Process:
    has, device = process.amounts, devices.get(process.device, {})
    ways = [key for key in ("electricity", "data") if key in has]
    if "power" in has and "load" in has:
        raise InputError(f"{where} has power and load; keep power (measured) or load (share of the rated power).")
    if len(ways) > 1 or (ways and ("power" in has or "load" in has)):
        raise InputError(
            f"{where} gives its electricity in several ways; keep electricity, or power, or load, or data."
        )
    if ("data" in has) != ("intensity" in has):
        raise InputError(f"{where} needs both data and intensity (kWh/GB), or neither.")
    flops = [key for key in ("parameters", "tokens", "mfu") if key in has]
    if flops and len(flops) < 3:
        raise InputError(
            f"{where} gives {', '.join(flops)}; the estimate by operations needs parameters, tokens and mfu."
        )
    if flops and ("device_time" in has or "peak" not in device):
        raise InputError(
            f"{where} estimates device time by operations: leave out device_time and give the device a peak."
        )
    timed = bool(flops) or "device_time" in has
    if timed and not process.device:
        raise InputError(f"{where} has device time but no device; name one of the inventory's devices.")
    if ("power" in has or "load" in has) and not timed:
        raise InputError(f"{where} has power but no device_time; give it.")
    if "load" in has and "power" not in device:
        raise InputError(f"{where} has a load, but device.{process.device} has no power; give its rated power.")
    rated = timed and not ways and "power" not in has and "power" in device
    electric = bool(ways) or "power" in has or rated
    if electric and not process.facility:
        raise InputError(f"{where} uses electricity but has no facility; name one of the inventory's facilities.")
    if timed and not electric:
        raise InputError(f"{where} has device time but no electricity; give electricity, power or the device's power.")
    amounts = dict(has)
    if rated and "load" not in has:
        amounts["load"] = f"{where}.load"
        quantities[f"{where}.load"] = Quantity(1.0, source="assumed: rated power all the time")
    estimated = bool(flops) or rated
    return replace(process, amounts=amounts, grade="estimated" if estimated else process.grade)


def _shared(raw: Any, where: str) -> dict[str, Any]:
    if raw is None:
        return {}
    if not isinstance(raw, dict):
        raise InputError(f"{where}.shared is {raw!r}; write a table with product and among, or product and shares.")
    refuse_unknown(
        raw, ("product", "among", "first", "rule", "shares", "device_hours", "tokens", "revenue"), f"{where}.shared"
    )
    product, rule = raw.get("product"), raw.get("rule", "shares" if "shares" in raw else "equal")
    if rule == "shares":
        if not isinstance(raw.get("shares"), dict):
            raise InputError(f"{where}.shared: shares is {raw.get('shares')!r}; write a table of products and shares.")
        split = attribution.check_shares(raw["shares"])
    else:
        if rule not in attribution.RULES:
            raise InputError(f"{where}.shared: rule is {rule!r}; use {', '.join(attribution.RULES)} or shares.")
        among = names_of(raw.get("among", []), f"{where}.shared.among")
        split = attribution.shares(rule, among, raw, str(raw.get("first", "")))
    if not isinstance(product, str) or product not in split:
        raise InputError(f"{where}.shared: product {product!r} is not among {', '.join(split)}; name one of them.")
    return {**raw, "rule": rule}


def read_fields(
    raw: Mapping[str, Any],
    fields: Fields,
    where: str,
    quantities: dict[str, Quantity],
    needed: Iterable[str] = (),
) -> dict[str, str]:
    """Register the quantities of one table and return field -> name; ``"@name"`` refers to a shared quantity."""
    refuse_unknown(raw, fields, where)
    values = {**{key: _DEFAULT_QUANTITY[key] for key in needed if key in _DEFAULT_QUANTITY}, **raw}
    for key in needed:
        if key not in values:
            raise InputError(f"{where} has no {key}; give it.")
    found = {}
    for key, value in values.items():
        unit, low, high = fields[key]
        found[key] = register(value, unit, f"{where}.{key}", quantities, low, high)
    return found


def read_named(raw: Any, unit: str, where: str, quantities: dict[str, Quantity]) -> dict[str, str]:
    """Register a table of names and amounts and return name -> name of the quantity."""
    if not isinstance(raw, dict):
        raise InputError(f"{where} is {raw!r}; write a table of names and amounts.")
    return {key: register(value, unit, f"{where}.{key}", quantities) for key, value in raw.items()}


def register(
    value: Any, unit: str, name: str, quantities: dict[str, Quantity], low: float = 0.0, high: float = math.inf
) -> str:
    """Register one amount and return its name; ``"@name"`` refers to a shared quantity."""
    if isinstance(value, str) and value.startswith("@"):
        shared = f"quantity.{value[1:]}"
        if shared not in quantities:
            known = [item.removeprefix("quantity.") for item in quantities if item.startswith("quantity.")]
            raise InputError(f"{name} refers to {value!r}{near_match(value[1:], known) or '; add [quantity.NAME].'}")
        # It may be declared in any unit of its kind and is converted at its first use.
        item = quantities[shared]
        converted = item if item.unit == unit else replace(item.times(units.scale(item.unit, unit)), unit=unit)
        if not low <= converted.value <= high:
            raise InputError(f"{name} refers to {value!r}, which is {converted.value:g}; it must be at least {low:g}.")
        quantities[shared] = converted
        return shared
    quantities[name] = quantity(value, unit, name, low, high)
    return name


def unit_of(raw: Any) -> str:
    """Return the unit that an amount is written in."""
    if isinstance(raw, dict):
        return str(raw.get("unit", ""))
    return units.split(raw)[1] if isinstance(raw, str) else ""


def table_of(document: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return a table of the document, empty where it is missing."""
    raw = document.get(name, {})
    if not isinstance(raw, dict):
        raise InputError(f"{name} is {raw!r}; write a table.")
    if name in ("grid", "facility", "device", "process", "category", "scenario"):
        for key, value in raw.items():
            if not isinstance(value, dict):
                raise InputError(f"{name}.{key} is {value!r}; write a table [{name}.{key}].")
    return raw


def refuse_unknown(raw: Mapping[str, Any], words: Iterable[str], where: str) -> None:
    """Refuse a field that nobody reads: a misspelt name must not vanish."""
    known = list(words)
    for key in raw:
        if key not in known:
            hint = near_match(key, known) or f"; use {', '.join(known)}."
            raise InputError(f"{where} has a field {key!r}{hint}")


def member(name: Any, known: Mapping[str, Any], kind: str, where: str) -> str:
    """Return `name` if the inventory holds it."""
    if not isinstance(name, str) or name not in known:
        hint = near_match(str(name), known) or f"; the inventory has {', '.join(known) or 'none'}."
        raise InputError(f"{where} names the {kind} {name!r}{hint}")
    return name


def names_of(raw: Any, where: str) -> list[str]:
    """Return a list of names."""
    if not isinstance(raw, list | tuple) or not all(isinstance(name, str) for name in raw):
        raise InputError(f"{where} is {raw!r}; write a list of names.")
    return list(raw)


def choice(document: Mapping[str, Any], key: str, options: tuple[str, ...]) -> str:
    """Return a word of a fixed list, its first where it is missing."""
    value = document.get(key, options[0])
    if value not in options:
        raise InputError(f"{key} is {value!r}; use one of {', '.join(options)}.")
    return str(value)
