"""``papers run ai_lifecycle``: from an inventory, or two, to figures and a report that can be audited."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any, Literal

from workingpapers.foundations.errors import InputError, near_match
from workingpapers.foundations.files import whole_file
from workingpapers.foundations.outcome import Outcome, Table
from workingpapers.foundations.progress import Progress, part, silent
from workingpapers.foundations.report import write_report
from workingpapers.foundations.signature import Between, InputFile, OutputFile

Samples = Annotated[int, Between(100, 1_000_000)]
Seed = Annotated[int, Between(0, 2**32 - 1)]
Allocation = Literal["declared", "physical", "tokens", "economic", "equal", "cut_off", "first_use"]


def run_assess(
    inventory: InputFile,
    *,
    category: str = "gwp",
    allocation: Allocation = "declared",
    samples: Samples = 10_000,
    seed: Seed = 0,
    report: OutputFile | None = None,
    ledger: OutputFile | None = None,
    out: OutputFile | None = None,
    progress: Progress = silent,
) -> Outcome:
    """Assess an inventory and its scenarios: impacts, their spread and causes, and what would change the conclusion.

    Args:
        inventory: TOML, YAML or JSON file with functional unit, boundary, grids, facilities, devices and processes.
        category: Impact category that the interpretation is about: gwp, energy, primary_energy, water, adp, ewaste, ...
        allocation: Rule for everything that several products share, instead of the declared ones.
        samples: Monte Carlo draws.
        seed: Seed of the draws.
        report: HTML report in the order of ISO 14044.
        ledger: CSV of the accounts: amount times factor is the impact.
        out: JSON file with all results.
    """
    from workingpapers.governance.ai_lifecycle import inventory as reading
    from workingpapers.governance.ai_lifecycle import reporting, tables
    from workingpapers.governance.ai_lifecycle.assessment import assess
    from workingpapers.governance.ai_lifecycle.comparison import compare

    document = reading.read_document(inventory)
    studies = {name: reading.load(inventory, name) for name in ("", *reading.scenarios(document))}
    results = {}
    for i, (name, study) in enumerate(studies.items()):
        _check_category(category, study, inventory)
        stretch = part(progress, 0.8 * i / len(studies), 0.8 * (i + 1) / len(studies))
        results[name] = assess(study, rule=allocation, samples=samples, seed=seed, progress=stretch)
    base = results.pop("")
    found = reporting.interpret(base, category, seed)
    progress(0.9, "writing")
    data = reporting.as_data(base, found, results)
    files = []
    if report is not None:
        files.append(write_report(report, base.study.title, reporting.sections(base, found, results)))
    if ledger is not None:
        files.append(_write(ledger, tables.ledger_csv(base)))
    if out is not None:
        files.append(_write(out, json.dumps(data, indent=1) + "\n"))
    turning = tables.switch_table(
        found.turning, base.study.quantities, f"What would make {found.leading} no longer the largest stage", 5
    )
    shown = [tables.impact_table(base), tables.stage_table(base, category), turning]
    if results:
        chosen = {
            name: [item for item in compare(other, base) if item.category == category]
            for name, other in results.items()
        }
        shown.append(tables.comparison_table(chosen))
    shown.append(tables.check_table(found.checks))
    return Outcome(reporting.sentence(base, found), tables=shown, files=files, data=data)


def run_compare(
    design: InputFile,
    base: InputFile,
    *,
    category: str = "gwp",
    allocation: Allocation = "declared",
    samples: Samples = 10_000,
    seed: Seed = 0,
    report: OutputFile | None = None,
    progress: Progress = silent,
) -> Outcome:
    """Compare two inventories of the same functional unit over paired draws.

    Args:
        design: Inventory of design A.
        base: Inventory of design B; the functional unit must have the same unit, amount and quality.
        category: Impact category that the conclusion is about.
        allocation: Rule for everything that several products share, instead of the declared ones.
        samples: Monte Carlo draws.
        seed: Seed of the draws.
        report: HTML report.
    """
    from workingpapers.governance.ai_lifecycle import inventory as reading
    from workingpapers.governance.ai_lifecycle import reporting, tables
    from workingpapers.governance.ai_lifecycle.assessment import assess
    from workingpapers.governance.ai_lifecycle.comparison import compare, what_would_turn

    studies = [reading.load(path) for path in (design, base)]
    for path, study in zip((design, base), studies, strict=True):
        _check_category(category, study, path)
    a, b = (
        assess(study, rule=allocation, samples=samples, seed=seed, progress=part(progress, 0.4 * i, 0.4 * (i + 1)))
        for i, study in enumerate(studies)
    )
    found = compare(a, b)
    turning = what_would_turn(a, b, category)
    at = next(item for item in found if item.category == category)
    sure = max(at.probability, 1 - at.probability)
    verdict = "A has" if at.a < at.b else "B has" if at.b < at.a else "Neither has"
    summary = (
        f"{verdict} the lower {category}: A is {at.ratio[1]:.3g} times B (95 % of the paired draws "
        f"{at.ratio[0]:.3g} to {at.ratio[2]:.3g}), and A is lower in {at.probability:.1%} of them."
    )
    if sure < 0.95:
        summary += " The draws do not settle it."
    files = []
    if report is not None:
        title = f"{a.study.title} against {b.study.title}"
        files.append(write_report(report, title, reporting.comparison_sections(a, b, found, turning, category)))
    quantities = {**b.study.quantities, **a.study.quantities}
    shown = [
        tables.comparison_table({"A": found}),
        tables.switch_table(turning, quantities, "What would turn the comparison", 8),
    ]
    data = {
        "categories": [reporting.comparison_data(item) for item in found],
        "turning": [{"input": item.name, "now": item.value, "at": item.at} for item in turning],
    }
    return Outcome(summary, tables=shown, files=files, data=data)


def run_factors(
    *,
    kind: Literal["grid", "device"] = "grid",
    contains: str = "",
    out: OutputFile | None = None,
    progress: Progress = silent,
) -> Outcome:
    """List the background factors of the installed packages, each with its source and year.

    Args:
        kind: Factors of electricity grids or of devices.
        contains: Text that the reference must hold, such as FRA.
        out: CSV of the list.
    """
    from workingpapers.governance.ai_lifecycle import factors

    rows: list[tuple[Any, ...]] = [
        (
            reference,
            field,
            item["value"],
            item.get("unit", "number"),
            item.get("source", ""),
            item.get("year"),
            item.get("note", ""),
        )
        for reference, record in factors.known(kind)
        if contains.lower() in reference.lower()
        for field, item in record.items()
    ]
    if not rows:
        raise InputError(f"No {kind} reference holds {contains!r}; leave --contains out to see all of them.")
    missing = [name for name in factors.PACKAGES if not factors.installed(name)]
    columns = ("reference", "field", "value", "unit", "source", "year", "note")
    files = [_write_rows(out, columns, rows)] if out is not None else []
    absent = f" Not installed: {', '.join(missing)}." if missing else ""
    summary = f"{len(rows)} {kind} factors.{absent} Name one in an inventory by from = 'REFERENCE'."
    shown = Table(columns, rows[:60], note="" if len(rows) <= 60 else "The first 60; --out writes all.")
    return Outcome(
        summary, tables=[shown], files=files, data={"factors": [dict(zip(columns, row, strict=True)) for row in rows]}
    )


def run_measure(
    log: InputFile,
    *,
    kind: Literal["codecarbon", "zeus", "power", "sacct", "usage"],
    intensity: InputFile | None = None,
    progress: Progress = silent,
) -> Outcome:
    """Read a log of measured runs: energy, device hours and counts, ready for an inventory.

    Args:
        log: CodeCarbon's emissions.csv, the log of Zeus' monitor, a power log (timestamp, device, watts), Slurm
            accounting or usage records of an endpoint.
        kind: What wrote the log.
        intensity: With a power log: table of timestamp and intensity (gCO2e/kWh) to weight the hours by.
    """
    from workingpapers.governance.ai_lifecycle import measured

    if intensity is not None and kind != "power":
        raise InputError(f"--intensity needs a power log, not {kind}; leave it out.")
    runs = measured.READERS[kind](log)
    rows = [(run.label, run.electricity, run.device_time, run.count, run.note) for run in runs]
    known = [run.electricity for run in runs if run.electricity is not None]
    hours = sum(run.device_time for run in runs)
    summary = f"{len(runs)} runs: {sum(known):.6g} kWh at the devices, {hours:.6g} device hours."
    data: dict[str, Any] = {"runs": [run.__dict__ for run in runs]}
    if intensity is not None:
        data["intensity_kg_per_kwh"] = measured.weighted_intensity(log, intensity)
        summary += f" Carbon intensity of the hours used: {1000 * data['intensity_kg_per_kwh']:.4g} gCO2e/kWh."
    summary += f" In an inventory: measured = {{ {kind} = '{Path(log).name}' }}."
    return Outcome(summary, tables=[Table(("run", "kWh", "device hours", "count", "note"), rows)], data=data)


def _check_category(category: str, study: Any, path: Path) -> None:
    from workingpapers.governance.ai_lifecycle.impacts import category_names

    known = category_names(study)
    if category not in known:
        hint = near_match(category, known) or f"; it has data for {', '.join(known)}."
        raise InputError(f"{str(path)!r} has no data for the category {category!r}{hint}")


def _write(path: Path, text: str) -> Path:
    with whole_file(path) as stream:
        stream.write(text)
    return path


def _write_rows(path: Path, columns: tuple[str, ...], rows: list[tuple[Any, ...]]) -> Path:
    import csv

    with whole_file(path, newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(columns)
        writer.writerows(rows)
    return path
