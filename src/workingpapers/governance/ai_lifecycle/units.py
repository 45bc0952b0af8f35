"""Units of an inventory: every number is converted once, on reading, to the unit that the formulas use."""

from __future__ import annotations

import functools
import re
from typing import Any

from workingpapers.foundations.errors import InputError

# Impact units are dimensions of their own, so that kilograms of carbon dioxide equivalent, of antimony equivalent and
# of waste cannot be added to one another. A year is 8,760 hours, as in the footprints and trackers that count in years.
_DEFINITIONS = (
    "gCO2e = [greenhouse_effect]",
    "tCO2e = 1e6 * gCO2e",
    "gSbe = [element_depletion]",
    "FLOP = [computation]",
    "year = 8760 * hour = a = yr",
)
_AMOUNT = re.compile(r"\s*([-+]?(?:\d[\d_]*\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)\s*(.*?)\s*$")


@functools.cache
def registry() -> Any:
    """Return the `pint` registry with the impact units defined."""
    import pint

    made: Any = pint.UnitRegistry(on_redefinition="ignore")
    for definition in _DEFINITIONS:
        made.define(definition)
    return made


@functools.lru_cache(maxsize=4096)
def scale(unit: str, target: str) -> float:
    """Return how many `target` units one `unit` is.

    Args:
        unit: Unit text such as ``"kWh"``, ``"gCO2e/kWh"``, ``"GB"``; empty for a pure number.
        target: Unit to convert to.

    Raises:
        InputError: `unit` is unknown, or measures something else.
    """
    try:
        return float(registry().Quantity(1.0, unit or "dimensionless").to(target or "dimensionless").magnitude)
    except Exception:  # pint raises many kinds for text that is no unit; all mean the same to the reader
        raise InputError(f"{unit!r} cannot be turned into {target or 'a pure number'!r}; use such a unit.") from None


def split(text: str) -> tuple[float, str]:
    """Return number and unit of ``"384 gCO2e/kWh"``.

    Args:
        text: A number, and after it a unit or nothing.

    Raises:
        InputError: There is no number in front.
    """
    match = _AMOUNT.match(text)
    if match is None:
        raise InputError(f"{text!r} is not an amount; write a number and its unit, such as '12 kWh'.")
    return float(match.group(1).replace("_", "")), match.group(2)
