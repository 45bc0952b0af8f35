"""Compute accounting: what the declared runs need, what the declared chips can do, what the logs say was used."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from workingpapers.foundations.errors import InputError


def training_operations(parameters: float, tokens: float) -> float:
    r"""Return the operations of training a dense transformer, :math:`6 N D` (2ND forward, 4ND backward).

    Attention over long contexts and recomputation are not in it; declare operation counts where they matter.

    Args:
        parameters: N, parameters used for each token.
        tokens: D, tokens processed.

    References:
        Kaplan et al., arXiv 2001.08361.
    """
    return 6.0 * parameters * tokens


@dataclass(frozen=True)
class ComputeAccount:
    """Declared, possible and used operations.

    Args:
        declared: Operations of all declared runs.
        capacity: Operations that the declared chips can do in the declared hours.
        used: Operations according to the logs.
        unexplained: :math:`1 - declared/used`.
        finding: ``"explained"``; ``"unexplained compute"``, more used than declared by more than the tolerance;
            ``"incomplete logs"``, more declared than the logs show; ``"undeclared chips"``, more used than the declared
            chips can do.
    """

    declared: float
    capacity: float
    used: float
    unexplained: float
    finding: Literal["explained", "unexplained compute", "incomplete logs", "undeclared chips"]


def account(
    runs: Sequence[Mapping[str, Any]], chips: Sequence[Mapping[str, Any]], logs: Sequence[Mapping[str, Any]],
    tolerance: float = 0.1,
) -> ComputeAccount:  # fmt: skip
    r"""Compare declared training with chip capacity and utilisation logs.

    :math:`C_{decl} = \sum 6ND` or declared operations, :math:`C_{cap} = \sum chips \cdot peak \cdot 3600\, hours \cdot
    MFU_{max}`, :math:`C_{used} = \sum chips \cdot peak \cdot 3600\, hours \cdot utilisation`.

    Args:
        runs: ``{"parameters", "tokens"}`` or ``{"operations"}`` each.
        chips: ``{"count", "peak" (operations a second), "hours", "utilisation" (the highest possible)}`` each.
        logs: The same fields with the utilisation that was measured.
        tolerance: Share of the used operations that may stay unexplained (or be missing from the logs).

    Returns:
        The account. It bounds totals: work of another kind in place of the declared work does not show.

    Raises:
        InputError: A field is missing, negative or not a number, or the logs show no use at all.
    """
    if not 0 <= tolerance < 1:
        raise InputError(f"The tolerance is {tolerance:g}; it must be from 0 and under 1.")
    declared = math.fsum(
        _number(run, "operations", "run")
        if "operations" in run
        else training_operations(_number(run, "parameters", "run"), _number(run, "tokens", "run"))
        for run in runs
    )
    capacity = math.fsum(_operations(entry, "chip entry") for entry in chips)
    used = math.fsum(_operations(entry, "log entry") for entry in logs)
    if used == 0:
        raise InputError("The logs show no operations at all; give the utilisation logs of the declared period.")
    unexplained = 1 - declared / used
    finding: Literal["explained", "unexplained compute", "incomplete logs", "undeclared chips"] = "explained"
    if used > capacity:
        finding = "undeclared chips"
    elif unexplained > tolerance:
        finding = "unexplained compute"
    elif unexplained < -tolerance:
        finding = "incomplete logs"
    return ComputeAccount(declared, capacity, used, unexplained, finding)


def _operations(entry: Mapping[str, Any], name: str) -> float:
    share = _number(entry, "utilisation", name)
    if share > 1:
        raise InputError(f"The utilisation in a {name} is {share:g}; it is a share from 0 to 1.")
    return _number(entry, "count", name) * _number(entry, "peak", name) * 3600.0 * _number(entry, "hours", name) * share


def _number(entry: Mapping[str, Any], field: str, name: str) -> float:
    value = entry.get(field) if isinstance(entry, Mapping) else None
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or value < 0:
        raise InputError(f"The field {field} of a {name} is {value!r}; give a number that is not negative.")
    return float(value)
