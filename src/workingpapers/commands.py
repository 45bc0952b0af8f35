"""What each sub-command of ``papers`` does; imported when one is called."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from workingpapers.foundations.errors import InputError
from workingpapers.terminal import (
    check_progress,
    console_for,
    escaped,
    print_json,
    print_table,
    rich_table,
    verdict_text,
    work_progress,
)

if TYPE_CHECKING:
    from rich.console import Console

    from workingpapers.foundations.outcome import Outcome


def list_papers(options: argparse.Namespace) -> int:
    """List the papers with the verdicts of their headline claims."""
    from workingpapers.catalog.papers import all_papers

    papers = all_papers()
    rows: list[dict[str, Any]] = []
    for paper in papers:
        measured = _measured(paper.slug)
        headline, where = measured[0] if measured else ({}, "")
        rows.append(
            {
                "slug": paper.slug,
                "area": paper.area,
                "method": paper.method,
                "title": paper.title,
                "topic": paper.topic,
                "command": paper.has_command,
                "verdict": headline.get("verdict"),
                "measured": where,
                "claims": len(measured),
            }
        )
    if options.json:
        return print_json(rows)
    table = rich_table("paper", "method", "topic", "headline claim", "run")
    for row in rows:
        table.add_row(
            row["slug"], row["method"], row["topic"], verdict_text(row["verdict"]), "yes" if row["command"] else "–"
        )
    console = console_for()
    console.print(table)
    console.print(f"{len(papers)} papers. 'papers show SLUG' tells more.")
    return 0


def show_paper(options: argparse.Namespace) -> int:
    """Show one paper."""
    from workingpapers.catalog.papers import get

    paper = get(options.slug)
    measured = _measured(paper.slug)
    usage = _usage(paper.slug)
    if options.json:
        return print_json(
            {
                "slug": paper.slug,
                "area": paper.area,
                "method": paper.method,
                "title": paper.title,
                "authors": list(paper.authors),
                "topic": paper.topic,
                "venue": paper.venue,
                "year": paper.year,
                "arxiv": paper.arxiv,
                "code": paper.code,
                "keywords": list(paper.keywords),
                "summary": paper.summary,
                "headline": [{"result": result, "setting": setting} for result, setting in paper.headline],
                "measured": [{"where": where, **item} for item, where in measured],
                "usage": usage,
            }
        )
    console = console_for()
    console.print(f"[bold]{escaped(paper.title)}[/bold] ({escaped(paper.method)})")
    console.print(escaped(", ".join(paper.authors)))
    links = [f"arXiv:{paper.arxiv}" if paper.arxiv else "", paper.code]
    console.print(escaped(" · ".join(part for part in (f"{paper.venue} {paper.year}", paper.topic, *links) if part)))
    console.print(f"\n{escaped(paper.summary)}\n")
    console.print("[bold]The paper's own figures, at its own scale[/bold]")
    for result, setting in paper.headline:
        console.print(f"  {escaped(result)} ({escaped(setting)})")
    console.print("\n[bold]Measured[/bold]")
    if not measured:
        console.print(f"  nothing yet; 'papers check {paper.slug}' measures it here.")
    for item, where in measured:
        console.print(f"  {verdict_text(item['verdict'])} · {escaped(item['claim'])} ({where}, {item['size']} size)")
        console.print(f"    {escaped(item['statement'])}")
        console.print(f"    {escaped(item['reason'])}.")
    console.print("\n[bold]Use it[/bold]")
    for line in usage:
        console.print(f"  {escaped(line)}")
    return 0


def check_papers(options: argparse.Namespace) -> int:
    """Run claims, store, judge, report."""
    from workingpapers import api
    from workingpapers.catalog.papers import all_papers
    from workingpapers.foundations.files import data_directory
    from workingpapers.replication.report import write_claim_report

    if bool(options.slug) == bool(options.all):
        raise InputError("Name one paper to check, or give --all for every paper.")
    slugs = [paper.slug for paper in all_papers() if paper.has_claim] if options.all else [options.slug]
    chosen = [api.claims_of(slug, options.claim) for slug in slugs]
    out = Path(options.out) if options.out else None
    if out and out.exists() and not out.is_dir():
        raise InputError(f"--out is {options.out!r}, which is a file; name a folder.")
    console = console_for(stderr=options.json)
    everything: list[dict[str, Any]] = []
    for paper, claims in chosen:
        records = []
        for claim in claims:
            with check_progress(console_for(stderr=True), f"{paper.slug} · {claim.name}") as watch:
                records += api.check(
                    paper.slug,
                    claims=[claim.name],
                    size=options.size,
                    seeds=options.seeds,
                    engine=options.engine,
                    jobs=options.jobs,
                    reuse=options.reuse,
                    watch=watch,
                )
        folder = (out / paper.slug if options.all else out) if out else data_directory() / "reports" / paper.slug
        page, _ = write_claim_report(folder, f"{paper.title} ({paper.method})", records)
        everything += records
        if not options.json:
            _print_verdicts(console, paper.slug, records)
            console.print(f"Report: {escaped(str(page))}", soft_wrap=True)
    if options.json:
        return print_json(everything)
    return 0


def list_commands(options: argparse.Namespace) -> int:
    """Reached only without a slug that begins the line: explain."""
    raise InputError("Name the paper first: papers run SLUG ...; 'papers list' shows which can be run.")


def run_command(options: argparse.Namespace) -> int:
    """Run a paper's own command."""
    from workingpapers.catalog.papers import get, missing_packages
    from workingpapers.foundations.signature import RESERVED, convert

    values: dict[str, Any] = {}
    for item in options._parameters:
        given = getattr(options, item.name)
        if given is None and not item.required:
            values[item.name] = item.default
        else:
            values[item.name] = convert(item, given)
    reserved = {}
    import inspect

    with work_progress(options._slug) as progress:
        if "progress" in inspect.signature(options._function).parameters and "progress" in RESERVED:
            reserved["progress"] = progress
        with missing_packages(get(options._slug)):
            outcome: Outcome = options._function(**values, **reserved)
    if options.json:
        return print_json(
            {"summary": outcome.summary, "files": [str(file) for file in outcome.files], **dict(outcome.data)}
        )
    console = console_for()
    for table in outcome.tables:
        print_table(console, table)
    console.print(escaped(outcome.summary))
    for file in outcome.files:
        console.print(f"Written: {escaped(str(file))}", soft_wrap=True)
    return 0


def show_results(options: argparse.Namespace) -> int:
    """List or compare stored results."""
    from workingpapers.catalog.papers import get
    from workingpapers.replication.store import Store, result_record

    store = Store()
    if options.compare:
        return _compare(options, [store.run(number) for number in options.compare])
    runs = store.runs(get(options.slug).slug if options.slug else None)
    if options.json:
        return print_json([result_record(run) for run in runs if run.result])
    if not runs:
        print("No stored results yet; 'papers check SLUG' makes some.")
        return 0
    table = rich_table("run", "paper", "claim", "size", "seeds", "verdict", "finished")
    for run in runs:
        verdict = run.result["verdict"] if run.result else None
        table.add_row(
            str(run.id),
            run.slug,
            run.claim,
            run.size,
            str(run.seeds),
            verdict_text(verdict) if verdict else "unfinished; check it again to go on",
            run.finished or "–",
        )
    console_for().print(table)
    return 0


def _compare(options: argparse.Namespace, runs: Sequence[Any]) -> int:
    from workingpapers.replication.comparison import check_same_claim, comparison_table
    from workingpapers.replication.store import result_record

    for run in runs:
        if run.result is None:
            raise InputError(f"Run {run.id} is unfinished; 'papers check {run.slug}' goes on with it.")
    first, second = (result_record(run) for run in runs)
    check_same_claim(first, second)
    if options.json:
        return print_json([first, second])
    print_table(console_for(), comparison_table(first, second))
    return 0


def new_paper(options: argparse.Namespace) -> int:
    """Make a skeleton."""
    from workingpapers.skeleton import make

    for file in make(options.slug, options.area, Path(options.root or ".")):
        print(f"Made {file}")
    print("Fill in paper.toml first; CONTRIBUTING.md says what each file holds.")
    return 0


def print_completion(options: argparse.Namespace) -> int:
    """Print the completion script of a shell."""
    import argcomplete

    print(argcomplete.shellcode(["papers"], shell=options.shell))  # type: ignore[attr-defined]
    return 0


def _measured(slug: str) -> list[tuple[Mapping[str, Any], str]]:
    from workingpapers.catalog.papers import get
    from workingpapers.replication.evidence import measured
    from workingpapers.replication.store import Store

    return measured(slug, get(slug).folder, Store())


def _usage(slug: str) -> list[str]:
    from workingpapers.catalog.papers import get

    paper = get(slug)
    lines = []
    if paper.extra:
        lines.append(f"pip install 'workingpapers[{paper.extra}]'")
    lines.append(f"import {paper.module}   # help({paper.module}) shows its names")
    if paper.has_command:
        lines.append(f"papers run {paper.slug} --help")
    if paper.has_claim:
        lines.append(f"papers check {paper.slug}")
    return lines


def _print_verdicts(console: Console, slug: str, records: Sequence[Mapping[str, Any]]) -> None:
    table = rich_table("claim", "verdict", "improvement", "95 % interval", "against", title=slug)
    for record in records:
        scale, unit = (100, " %") if record["effect"] in ("ratio", "proportion") else (1, f" {record['unit']}".rstrip())
        for index, item in enumerate(record["comparisons"]):
            numbers = ("–", "–")
            if item["improvement"] is not None:
                numbers = (
                    f"{scale * item['improvement']:.3g}{unit}",
                    f"[{scale * item['low']:.3g}, {scale * item['high']:.3g}]",
                )
            first = (record["claim"], verdict_text(record["verdict"])) if index == 0 else ("", "")
            table.add_row(*first, escaped(numbers[0]), escaped(numbers[1]), item["against"])
    console.print(table)
