"""From files to an answer: everything that the command reads, computes, writes and says."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from workingpapers.causality.counterfactual_id.bounds import Bounds, bound
from workingpapers.causality.counterfactual_id.evaluation import Estimate, PositivityError, estimate
from workingpapers.causality.counterfactual_id.graph import ADMG
from workingpapers.causality.counterfactual_id.graph_formats import read_graph
from workingpapers.causality.counterfactual_id.identification import Identified, NotIdentified, identify
from workingpapers.causality.counterfactual_id.linear_program import TooManyCells
from workingpapers.causality.counterfactual_id.pictures import graph_picture, interval_picture
from workingpapers.causality.counterfactual_id.query import Query
from workingpapers.causality.counterfactual_id.realizability import realizable, suggest_regimes
from workingpapers.causality.counterfactual_id.regime import OBSERVATIONAL, Regime, read_regimes
from workingpapers.causality.counterfactual_id.tables import Sample, read_samples
from workingpapers.foundations.errors import InputError, near_match
from workingpapers.foundations.files import read_table, whole_file
from workingpapers.foundations.outcome import Figure, Outcome, Table
from workingpapers.foundations.progress import Progress, part, silent
from workingpapers.foundations.report import heading, paragraph, write_report


@dataclass(frozen=True)
class Task:
    """What was asked.

    Args:
        graph: The diagram.
        query: The query, its symbols replaced where values are given.
        regimes: What data there may be.
        samples: Regime -> sample, for those with a file.
    """

    graph: ADMG
    query: Query
    regimes: tuple[Regime, ...]
    samples: dict[str, Sample]


def read_task(graph: Path, query: str, regimes: Path | None, data: tuple[str, ...], values: tuple[str, ...]) -> Task:
    """Read and check everything before any long work.

    Args:
        graph: File of the diagram.
        query: The query.
        regimes: File of the regimes, or None.
        data: Pairs regime=file.
        values: Pairs symbol=value.

    Raises:
        InputError: Something cannot be used.
    """
    diagram = read_graph(graph)
    asked = Query.parse(query, diagram.nodes)
    settled = dict(_pair(text, "--values", "symbol=value") for text in values)
    names = {symbol.name for symbol in asked.symbols}
    known = (OBSERVATIONAL,) if regimes is None else read_regimes(regimes)
    names |= {value for regime in known for _, value in (*regime.cut, *regime.do)}
    for name in settled:
        if name not in names:
            hint = near_match(name, names) or f"; the symbols are {', '.join(sorted(names))}."
            raise InputError(f"--values names {name!r}, which is no symbol of the query{hint}")
    known = tuple(regime.assign(settled) for regime in known)
    for regime in known:
        regime.feeds(diagram)
    files = {}
    for text in data:
        name, path = _pair(text, "--data", "regime=file.csv")
        if name in files:
            raise InputError(f"--data gives two files for {name!r}; give one.")
        files[name] = path
    samples = read_samples({name: read_table(path) for name, path in files.items()}, diagram, known)
    return Task(diagram, asked.assign(settled), known, samples)


def answer(
    task: Task,
    *,
    bootstrap: int = 500,
    seed: int = 0,
    latex: Path | None = None,
    report: Path | None = None,
    progress: Progress = silent,
) -> Outcome:
    """Identify, then estimate or bound, and write the files asked for.

    Args:
        task: What was asked.
        bootstrap: Bootstrap samples.
        seed: Seed.
        latex: File for the formula.
        report: HTML report.
        progress: Called along the way.

    Raises:
        InputError: The data cannot be used, or a formula is asked for where there is none.
    """
    progress(0.0, "identifying")
    result = identify(task.query, task.graph, task.regimes)
    tables = [_regime_table(task, result)]
    figures: list[Figure] = []
    payload: dict[str, Any] = {"query": str(task.query), "identified": isinstance(result, Identified)}
    if isinstance(result, Identified):
        summary, more = _identified(task, result, bootstrap, seed, payload, figures, part(progress, 0.1, 0.9))
        drawn = [regime for regime in task.regimes if regime.name in result.regimes_used]
    else:
        if latex is not None:
            raise InputError(f"{task.query} is not identified, so that there is no formula for --latex; leave it out.")
        summary, more, drawn = _refused(task, result, payload, figures)
    tables += more
    figures.insert(0, graph_picture(task.graph, drawn or list(task.regimes), task.query.variables))
    files: list[Path] = []
    if latex is not None and isinstance(result, Identified):
        with whole_file(latex) as stream:
            stream.write(result.expression.to_latex() + "\n")
        files.append(latex)
    if report is not None:
        formula = [heading("Formula"), paragraph(result.expression.to_text())] if isinstance(result, Identified) else []
        steps = [heading("Steps"), *(paragraph(step) for step in result.steps)]
        write_report(report, str(task.query), [paragraph(summary), *formula, *figures, *tables, *steps])
        files.append(report)
    progress(1.0, "done")
    return Outcome(summary, tables, figures, files, payload)


def _identified(
    task: Task,
    result: Identified,
    bootstrap: int,
    seed: int,
    payload: dict[str, Any],
    figures: list[Figure],
    progress: Progress,
) -> tuple[str, list[Table]]:
    expression = result.expression
    text = expression.to_text()
    payload |= {"formula": text, "latex": expression.to_latex(), "regimes": list(result.regimes_used)}
    summary = f"{task.query} is identified: {text}."
    missing = [name for name in result.regimes_used if name not in task.samples]
    if not task.samples and result.regimes_used:
        return summary + " Give --data for a number.", []
    if missing:
        raise InputError(f"The formula needs data of regime {missing[0]!r}; add --data {missing[0]}=FILE.")
    found: Estimate = estimate(
        expression, task.samples, n_boot=bootstrap, rng=np.random.default_rng(seed), progress=progress
    )
    payload |= {"estimate": found.value, "low": found.low, "high": found.high, "failed": found.failed}
    figures.append(interval_picture([("bootstrap 95 %", found.low, found.high, found.value)], str(task.query)))
    if found.failed:
        summary += f" It was undefined in {found.failed} of {bootstrap} bootstrap samples: there are thin cells."
    summary += f" Estimate {found.value:.4f}, 95 % interval {found.low:.4f} to {found.high:.4f}."
    return summary, []


def _refused(
    task: Task, result: NotIdentified, payload: dict[str, Any], figures: list[Figure]
) -> tuple[str, list[Table], list[Regime]]:
    plan = realizable(task.query, task.graph)
    names = {symbol: symbol.name for symbol in result.factor.symbols}
    payload |= {"witness": result.factor.to_text(names), "reasons": result.reasons, "realizable": plan.realizable}
    summary = f"{task.query} is not identified from {', '.join(regime.name for regime in task.regimes)}."
    drawn = list(task.regimes)
    tables: list[Table] = []
    if plan.conflict is not None:
        first, second = plan.conflict
        summary += " No experiment can change that: "
        summary += f"one unit would have to show both {first.response} and {second.response}."
    else:
        new = suggest_regimes(task.query, task.graph, task.regimes)
        assert new is not None
        cuts = ", ".join(f"{a}->{b}" for (a, b), _ in new.cut)
        summary += (
            f" It would be with an experiment that sets {cuts} and records the rest."
            if cuts
            else (" It would be if every variable were recorded without intervention.")
        )
        payload |= {"suggested_cut": [f"{a}->{b}" for (a, b), _ in new.cut], "plan": list(plan.plan)}
        tables.append(Table(["action"], [[line] for line in plan.plan], "An experiment that shows all events at once"))
        drawn = [new, *task.regimes]
    if task.samples:
        found: list[tuple[str, Bounds]] = []
        for method in ("lp", "frechet"):
            try:
                found.append((method, bound(task.query, task.graph, task.regimes, task.samples, method=method)))  # type: ignore[arg-type]
            except (TooManyCells, PositivityError) as error:
                tables.append(Table(["method", "why not"], [[method, str(error)]], "Bounds that were not computed"))
        if found:
            best = found[0][1]
            summary += f" The data bound it by {best.lower:.4f} and {best.upper:.4f} ({best.note})."
            payload["bounds"] = {name: [b.lower, b.upper] for name, b in found}
            rows = [[name, b.lower, b.upper, b.note] for name, b in found]
            tables.append(Table(["method", "lower", "upper", "rests on"], rows, "Bounds"))
            figures.append(interval_picture([(name, b.lower, b.upper, None) for name, b in found], str(task.query)))
    return summary, tables, drawn


def _regime_table(task: Task, result: Identified | NotIdentified) -> Table:
    rows = []
    for regime in task.regimes:
        sample = task.samples.get(regime.name)
        if isinstance(result, Identified):
            role = "used" if regime.name in result.regimes_used else "not needed"
        else:
            role = result.reasons.get(regime.name, "does not give it")
        rows.append([str(regime), None if sample is None else int(sample.counts.sum()), role])
    what = "in the formula" if isinstance(result, Identified) else "why it does not give the factor"
    return Table(["regime", "units", what], rows, "Regimes")


def _pair(text: str, option: str, form: str) -> tuple[str, str]:
    left, sign, right = text.partition("=")
    if not sign or not left.strip() or not right.strip():
        raise InputError(f"{option} is {text!r}; write {form}.")
    return left.strip(), right.strip()
