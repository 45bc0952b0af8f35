"""Tables of the report and of the terminal, and the accounts as CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence

import numpy as np

from workingpapers.foundations.outcome import Table, format_cell
from workingpapers.governance.ai_lifecycle.assessment import Result, ledger
from workingpapers.governance.ai_lifecycle.checks import Check, missing_factors
from workingpapers.governance.ai_lifecycle.comparison import Comparison
from workingpapers.governance.ai_lifecycle.impacts import category_title, category_unit
from workingpapers.governance.ai_lifecycle.quantities import Quantity
from workingpapers.governance.ai_lifecycle.sensitivity import Switch


def impact_table(result: Result) -> Table:
    """Return totals and intervals of all categories."""
    rows, gaps = [], missing_factors(result.study)
    for name in result.categories:
        low, middle, high = result.interval(name)
        unit = category_unit(result.study, name)
        whole = "lacks " + ", ".join(gaps[name]) if name in gaps else "all factors"
        rows.append((category_title(result.study, name), unit, result.totals[name], low, middle, high, whole))
    return Table(
        ("impact category", "unit", "central", "2.5 %", "median", "97.5 %", "data"),
        rows,
        f"Impacts of {result.study.functional_unit.name}",
        f"{len(result.samples):,} paired Monte Carlo draws, seed {result.seed}.",
    )


def stage_table(result: Result, category: str) -> Table:
    """Return the central total of a category by stage and source."""
    k = result.categories.index(category)
    table = result.by_stage()[:, :, k]
    total = table.sum()
    rows = []
    for i, stage in enumerate(result.stages):
        share = result.stage_samples[:, i, k] / result.samples[:, k]
        low, high = np.quantile(share, [0.025, 0.975])
        rows.append(
            (
                stage,
                *table[i].tolist(),
                float(table[i].sum()),
                f"{table[i].sum() / total:.1%}",
                f"{low:.0%} to {high:.0%}",
            )
        )
    return Table(
        ("stage", "electricity", "hardware", "site water", "direct", "sum", "share", "95 % of the draws"),
        rows,
        f"{category_title(result.study, category)} by stage and source, {category_unit(result.study, category)}",
    )


def switch_table(turning: Sequence[Switch], quantities: Mapping[str, Quantity], title: str, shown: int = 8) -> Table:
    """Return what would turn a statement, the smallest change first."""
    rows = [
        (
            item.name,
            item.value,
            item.at,
            quantities[item.name.removeprefix("A: ").removeprefix("B: ")].unit or "number",
            f"x {format_cell(item.factor)}",
            "no spread given" if item.beyond is None else f"{item.beyond:.1%}",
        )
        for item in turning[:shown]
    ]
    return Table(
        ("input", "now", "turns at", "unit", "change", "probability by its spread"),
        rows or [("no single input within a factor of 1,000", None, None, "", "", "")],
        title,
        "One input alone, all others at their central values.",
    )


def check_table(found: Sequence[Check]) -> Table:
    """Return the findings of the checks."""
    rows = [(item.kind, item.text, "" if item.weight is None else f"{item.weight:.0%}") for item in found]
    note = "Weight: share of the sensitivity (sum of absolute elasticities) that the finding touches."
    return Table(("check", "finding", "weight"), rows, "Completeness, consistency and quality", note)


def comparison_table(found: Mapping[str, Sequence[Comparison]]) -> Table:
    """Return scenario against base, category by category."""
    rows = [
        (name, item.category, item.a, item.b, *item.ratio, f"{item.probability:.3f}",
         None if np.isnan(item.crossover) else item.crossover)
        for name, items in found.items()
        for item in items
    ]  # fmt: skip
    columns = ("design", "category", "design", "base", "ratio 2.5 %", "ratio", "97.5 %", "P(lower)", "equal at")
    return Table(
        columns,
        rows,
        "Comparison over paired draws",
        "Ratio and P(lower) over draws that are the same where both hold the same; ties count half. Equal at: the "
        "volume at which both cost the same.",
    )


def input_table(result: Result) -> Table:
    """Return every number with unit, spread, source and year."""
    rows = [
        (
            name,
            item.value,
            item.unit or "number",
            _spread(item),
            item.source or "none",
            item.year,
            item.geography,
            item.note,
        )
        for name, item in result.study.quantities.items()
    ]
    return Table(
        ("input", "value", "unit", "spread", "source", "year", "region", "note"), rows, "Every number of the study"
    )


def ledger_csv(result: Result) -> str:
    """Return the accounts as CSV: amount times factor is the impact, and the impacts of a category sum to its total."""
    rows, stream = ledger(result), io.StringIO()
    writer = csv.DictWriter(stream, fieldnames=list(rows[0]) if rows else ["stage"])
    writer.writeheader()
    writer.writerows({key: repr(v) if isinstance(v, float) else v for key, v in row.items()} for row in rows)
    return stream.getvalue()


def _spread(item: Quantity) -> str:
    if item.kind == "point":
        return "none"
    if item.kind in ("uniform", "triangular"):
        return f"{item.kind}, {format_cell(item.low)} to {format_cell(item.high)}"
    if item.kind == "normal":
        return f"normal, sd {format_cell(item.spread)}"
    return f"lognormal, gsd {format_cell(float(np.exp(item.spread)))}"
