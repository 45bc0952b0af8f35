"""Two stored results of one claim, side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from workingpapers.foundations.errors import InputError
from workingpapers.foundations.outcome import Table


def comparison_table(first: Mapping[str, Any], second: Mapping[str, Any]) -> Table:
    """Return two results of one claim as a table, one row for each figure and each thing that it depends on.

    Args:
        first: A result record.
        second: Another of the same claim.

    Raises:
        InputError: They are about different claims.
    """
    check_same_claim(first, second)
    rows: list[tuple[Any, ...]] = [("verdict", first["verdict"], second["verdict"])]
    others = {item["against"]: item for item in second["comparisons"]}
    for item in first["comparisons"]:
        other = others.get(item["against"], {})
        for name in ("improvement", "low", "high"):
            rows.append((f"{name} over {item['against']}", item[name], other.get(name)))
    for arm in dict.fromkeys([*first["arms"], *second["arms"]]):
        values = [_mean(record["arms"].get(arm, {}).get(record["metric"], [])) for record in (first, second)]
        rows.append((f"mean {first['metric']} of {arm}", *values))
    for name in ("size", "seeds", "seconds", "code", "finished"):
        rows.append((name, first[name], second[name]))
    machines = [record["environment"]["machine"] for record in (first, second)]
    rows.append(("processor", *(machine["processor"] for machine in machines)))
    versions = [record["environment"]["packages"] for record in (first, second)]
    for package in sorted({*versions[0], *versions[1]}):
        if versions[0].get(package) != versions[1].get(package):
            rows.append((package, versions[0].get(package), versions[1].get(package)))
    return Table(("what", f"run {first['run']}", f"run {second['run']}"), rows, f"{first['paper']} · {first['claim']}")


def check_same_claim(first: Mapping[str, Any], second: Mapping[str, Any]) -> None:
    """Raise an InputError where two result records are about different claims."""
    if (first["paper"], first["claim"]) != (second["paper"], second["claim"]):
        raise InputError(
            f"Run {first['run']} is about {first['paper']}/{first['claim']} and run {second['run']} about "
            f"{second['paper']}/{second['claim']}; compare two runs of one claim."
        )


def _mean(values: Sequence[float | None]) -> float | None:
    finite = [value for value in values if value is not None]
    return sum(finite) / len(finite) if finite else None
