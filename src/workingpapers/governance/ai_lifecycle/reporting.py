"""The report: goal, scope, inventory, impacts, interpretation, in the order of ISO 14044."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from workingpapers.foundations.outcome import Figure, Table, format_cell
from workingpapers.foundations.report import Section, heading, paragraph
from workingpapers.governance.ai_lifecycle import pictures, tables
from workingpapers.governance.ai_lifecycle.assessment import Result, allocation_table, ledger
from workingpapers.governance.ai_lifecycle.attribution import break_even_volume
from workingpapers.governance.ai_lifecycle.checks import Check, checks
from workingpapers.governance.ai_lifecycle.comparison import Comparison, compare
from workingpapers.governance.ai_lifecycle.impacts import category_title, category_unit, evaluate
from workingpapers.governance.ai_lifecycle.sensitivity import (
    Swing,
    Switch,
    elasticities,
    sobol,
    switches,
    tornado,
    total_of,
)

LIMITS = (
    "The figures are as good as the numbers in the table of inputs. The interval holds their stated spread and nothing "
    "else: not the choice of the boundary, of the allocation rule or of the model of a process. What the checks list "
    "as not assessed is missing from the totals, not zero. Categories are never added to each other. The tool does not "
    "certify conformity with ISO 14040/14044, and a comparison that is published needs a critical review by a panel."
)


@dataclass(frozen=True)
class Interpretation:
    """What follows from a result in one category.

    Args:
        category: The judged category.
        elasticity: Quantity -> elasticity.
        swings: Tornado rows.
        indices: Quantity -> (first-order, total) Sobol index.
        leading: The stage with the largest share.
        turning: What would make another stage the largest.
        break_even: Volume at which serving equals everything before, or None.
        checks: Findings of the checks.
    """

    category: str
    elasticity: Mapping[str, float]
    swings: Sequence[Swing]
    indices: Mapping[str, tuple[float, float]]
    leading: str
    turning: Sequence[Switch]
    break_even: float | None
    checks: Sequence[Check]


def interpret(result: Result, category: str, seed: int = 0) -> Interpretation:
    """Analyse a result in one category.

    Args:
        result: The result.
        category: Name of the category.
        seed: Seed of the Sobol sequence.
    """
    study, shares = result.study, result.shares
    total = total_of(study, category, shares)
    elasticity = elasticities(study.quantities, total)
    k = result.categories.index(category)
    by_stage = result.by_stage()[:, :, k].sum(axis=1)
    lead = int(np.argmax(by_stage))
    member = np.array([[p.stage == stage for p in study.processes.values()] for stage in result.stages], dtype=float)
    factors = {name: float(share) for name, share in shares.items()}

    def margin(values: dict[str, np.ndarray]) -> np.ndarray:
        stages = evaluate(study, values, factors).table[..., k].sum(axis=2) @ member.T
        return np.asarray(stages[:, lead] - np.delete(stages, lead, axis=1).max(axis=1))

    upstream, marginal = result.upstream_and_marginal(category)
    return Interpretation(
        category=category,
        elasticity=elasticity,
        swings=tornado(study.quantities, total),
        indices=sobol(study.quantities, total, seed=seed),
        leading=result.stages[lead],
        turning=switches(study.quantities, margin) if len(by_stage) > 1 else [],
        break_even=float(break_even_volume(upstream, marginal)) if upstream > 0 < marginal else None,
        checks=checks(study, elasticity),
    )


def sections(result: Result, found: Interpretation, variants: Mapping[str, Result]) -> list[Section]:
    """Return the report of one study and its scenarios.

    Args:
        result: The result of the study as it stands.
        found: Its interpretation.
        variants: Scenario -> its result, from the same seed.
    """
    study, unit = result.study, result.study.functional_unit
    compared = {name: compare(other, result) for name, other in variants.items()}
    category = found.category
    scope = [
        ("functional unit", f"{unit.name} ({unit.amount:g} {unit.unit}); {unit.quality}"),
        ("volume over the model's life", f"{format_cell(study.medians['functional_unit.volume'])} {unit.unit}s"),
        ("boundary", f"{study.boundary.kind}: {', '.join(study.boundary.included)}"),
        ("left out", "; ".join(f"{stage} ({why})" for stage, why in study.boundary.excluded.items()) or "nothing"),
        ("cut-off", study.boundary.cut_off),
        ("allocation", _allocation(result)),
        (
            "end of life",
            f"{study.end_of_life.replace('_', ' ')}; credit, shown apart: "
            f"{format_cell(result.recovery_credit())} kgCO2e",
        ),
        ("direct greenhouse gases", f"GWP100, {study.gwp_set}"),
        ("critical review", study.texts.get("critical_review", "none")),
    ]
    pages: list[Section] = [
        heading("1 Goal"),
        paragraph(study.goal or "The study states no goal."),
        heading("2 Scope"),
        Table(("item", "choice"), scope),
        heading("3 Impacts"),
        tables.impact_table(result),
        pictures.sankey(result, category),
        tables.stage_table(result, category),
        pictures.profile(result),
        heading("4 Interpretation"),
        paragraph(sentence(result, found)),
        tables.switch_table(
            found.turning, study.quantities, f"What would make {found.leading} no longer the largest stage"
        ),
        pictures.over_volume({"as it stands": result, **variants}, category),
    ]
    allocated = allocation_table(study)
    if allocated:
        rows = [(rule, *(totals[name] for name in result.categories)) for rule, totals in allocated.items()]
        pages.append(
            Table(("rule", *result.categories), rows, "The same study under every allocation rule that its keys allow")
        )
    if compared:
        at = {name: next(item for item in items if item.category == category) for name, items in compared.items()}
        pages += [pictures.ratios(at, "the study as it stands"), tables.comparison_table(compared)]
    central = result.totals[category]
    rows = [
        (name, found.elasticity.get(name, 0.0), *found.indices.get(name, (None, None)))
        for name in sorted(found.elasticity, key=lambda name: -abs(found.elasticity[name]))[:15]
    ]
    view = result.software_carbon_intensity() if "gwp" in result.categories else {}
    pages += [
        pictures.tornado(found.swings, central, category_unit(study, category)),
        Table(("input", "elasticity", "Sobol first order", "Sobol total"), rows, "Sensitivity",
              "Elasticity: per cent of change for one per cent of the input."),
        tables.check_table(found.checks),
        paragraph(f"Rebound: {study.texts.get('rebound', 'the study makes no statement')}"),
        paragraph("Software carbon intensity (ISO/IEC 21031) of one functional unit, kgCO2e: "
                  + ", ".join(f"{name} {format_cell(value)}" for name, value in view.items())),
        heading("5 Inventory"),
        tables.input_table(result),
        Table(list(ledger(result)[0]), [list(row.values()) for row in ledger(result)], "Accounts",
              f"Amount times factor is the impact. The matrix form differs by {result.matrix_gap:.0e}."),
        heading("6 Limits"),
        paragraph(LIMITS),
    ]  # fmt: skip
    return pages


def sentence(result: Result, found: Interpretation) -> str:
    """Return the conclusion in words."""
    low, _, high = result.interval(found.category)
    unit, name = category_unit(result.study, found.category), result.study.functional_unit.name
    k = result.categories.index(found.category)
    share = result.by_stage()[:, :, k].sum(axis=1)
    part = share[result.stages.index(found.leading)] / share.sum()
    text = (
        f"{name}: {format_cell(result.totals[found.category])} {unit} (95 % of the draws {format_cell(low)} to "
        f"{format_cell(high)}). "
        f"{found.leading} holds the largest share, {part:.0%}."
    )
    if found.break_even is not None:
        volume = result.study.medians["functional_unit.volume"]
        text += (
            f" Serving equals everything before it at {format_cell(found.break_even)} "
            f"{result.study.functional_unit.unit}s; "
            f"the declared volume is {format_cell(volume)}."
        )
    return text


def as_data(result: Result, found: Interpretation, variants: Mapping[str, Result]) -> dict[str, Any]:
    """Return the result for programs (JSON types only)."""
    return {
        "schema": 1,
        "functional_unit": result.study.functional_unit.__dict__,
        "seed": result.seed,
        "samples": len(result.samples),
        "impacts": {
            name: {"unit": category_unit(result.study, name), "central": result.totals[name],
                   **dict(zip(("low", "median", "high"), result.interval(name), strict=True))}
            for name in result.categories
        },
        "stages": {
            name: dict(zip(result.stages, result.by_stage()[:, :, k].sum(axis=1).tolist(), strict=True))
            for k, name in enumerate(result.categories)
        },
        "shares": {name: str(share) for name, share in result.shares.items()},
        "allocation": allocation_table(result.study),
        "break_even": found.break_even,
        "leading": found.leading,
        "elasticities": dict(found.elasticity),
        "sobol": {name: list(pair) for name, pair in found.indices.items()},
        "turning": [
            {"input": item.name, "now": item.value, "at": item.at, "beyond": item.beyond} for item in found.turning
        ],
        "checks": [{"kind": item.kind, "text": item.text, "weight": item.weight} for item in found.checks],
        "scenarios": {
            name: [comparison_data(item) for item in compare(other, result)]
            for name, other in variants.items()
        },
        "matrix_gap": result.matrix_gap,
        "recovery_credit": result.recovery_credit(),
        "software_carbon_intensity": result.software_carbon_intensity() if "gwp" in result.categories else None,
    }  # fmt: skip


def comparison_data(item: Comparison) -> dict[str, Any]:
    """Return a comparison for programs (JSON types only)."""
    crossover = None if np.isnan(item.crossover) else item.crossover
    return {**item.__dict__, "ratio": list(item.ratio), "crossover": crossover}


def comparison_sections(
    a: Result, b: Result, found: Sequence[Comparison], turning: Sequence[Switch], category: str
) -> list[Section]:
    """Return the report of two designs."""
    quantities = {**b.study.quantities, **a.study.quantities}
    at = next(item for item in found if item.category == category)
    figures: list[Figure] = [
        pictures.ratios({category_title(a.study, item.category): item for item in found}, "B"),
        pictures.over_volume({"A": a, "B": b}, category),
    ]
    return [
        paragraph(
            f"A: {a.study.title}. B: {b.study.title}. Both for {a.study.functional_unit.name}; "
            f"{a.study.functional_unit.quality}."
        ),
        tables.comparison_table({"A": list(found)}),
        *figures,
        tables.switch_table(turning, quantities, "What would turn the comparison"),
        paragraph(f"{at.shared} uncertain inputs are held by both designs and were drawn once for both."),
        heading("Where the burden of A lies"),
        pictures.sankey(a, category),
        heading("Where the burden of B lies"),
        pictures.sankey(b, category),
        heading("Inputs of A"),
        tables.input_table(a),
        heading("Inputs of B"),
        tables.input_table(b),
        heading("Limits"),
        paragraph(LIMITS),
    ]


def _allocation(result: Result) -> str:
    parts = [
        f"{name}: {process.shared['rule'] if result.rule == 'declared' else result.rule}, share {result.shares[name]}"
        for name, process in result.study.processes.items()
        if process.shared
    ]
    return "; ".join(parts) or "nothing is shared with other products"
