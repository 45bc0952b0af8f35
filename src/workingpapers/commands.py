"""What each sub-command of ``papers`` does; imported when one is called."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from workingpapers.foundations.errors import InputError

if TYPE_CHECKING:
    from rich.console import Console

    from workingpapers.foundations.outcome import Outcome, Table
    from workingpapers.replication.runner import Watcher

VERDICT_STYLES = {"supported": "green", "not supported": "red", "inconclusive": "yellow"}


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
        return _print_json(rows)
    table = _rich_table("paper", "method", "topic", "headline claim", "run")
    for row in rows:
        table.add_row(
            row["slug"], row["method"], row["topic"], _verdict_text(row["verdict"]), "yes" if row["command"] else "–"
        )
    console = _console()
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
        return _print_json(
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
    console = _console()
    console.print(f"[bold]{_escape(paper.title)}[/bold] ({_escape(paper.method)})")
    console.print(_escape(", ".join(paper.authors)))
    links = [f"arXiv:{paper.arxiv}" if paper.arxiv else "", paper.code]
    console.print(_escape(" · ".join(part for part in (f"{paper.venue} {paper.year}", paper.topic, *links) if part)))
    console.print(f"\n{_escape(paper.summary)}\n")
    console.print("[bold]The paper's own figures, at its own scale[/bold]")
    for result, setting in paper.headline:
        console.print(f"  {_escape(result)} ({_escape(setting)})")
    console.print("\n[bold]Measured[/bold]")
    if not measured:
        console.print(f"  nothing yet; 'papers check {paper.slug}' measures it here.")
    for item, where in measured:
        console.print(f"  {_verdict_text(item['verdict'])} · {_escape(item['claim'])} ({where}, {item['size']} size)")
        console.print(f"    {_escape(item['statement'])}")
        console.print(f"    {_escape(item['reason'])}.")
    console.print("\n[bold]Use it[/bold]")
    for line in usage:
        console.print(f"  {_escape(line)}")
    return 0


def search_catalog(options: argparse.Namespace) -> int:
    """Search, rank, highlight, count facets."""
    from workingpapers.catalog import library

    query = " ".join(options.query)
    backend = library.open_catalog()
    try:
        answer = library.search(backend, query, topic=options.topic, author=options.author, limit=options.limit)
    finally:
        backend.close()
    if options.json:
        return _print_json(
            {
                "query": query,
                "engine": answer.engine,
                "total": answer.total,
                "total_is_lower_bound": answer.capped,
                "every_term_matched": answer.exact,
                "hits": [
                    {"score": round(hit.score, 6), "snippet": hit.snippet, **_record_json(hit.record)}
                    for hit in answer.hits
                ],
                "topics": dict(answer.topics),
                "authors": dict(answer.authors),
            }
        )
    console = _console()
    if not answer.hits:
        console.print(
            f"Nothing found for {_escape(repr(query))}. Try fewer or other words; 'papers list' shows all methods."
        )
        return 0
    for rank, hit in enumerate(answer.hits, 1):
        title = _highlighted(hit.title, hit.title_spans, "bold") if hit.title else ""
        record = hit.record
        facts = " · ".join(part for part in (record.topic, f"{record.venue} {record.year or ''}".strip()) if part)
        if title:
            console.print(f"[bold]{rank}.[/bold] ", title, sep="")
            console.print(f"   {_escape(record.byline)}")
        else:
            console.print(f"[bold]{rank}.[/bold] {_escape(record.byline)}")
        if facts:
            console.print(f"   {_escape(facts)}")
        console.print("   ", _highlighted(hit.snippet, hit.snippet_spans, ""), sep="")
        if record.slug:
            console.print(f"   [green]→ papers show {record.slug}[/green]")
    more = "at least " if answer.capped else ""
    any_of = "" if answer.exact else ", some with only part of the words"
    console.print(f"\n{len(answer.hits)} of {more}{answer.total} papers, ranked by {answer.engine}{any_of}.")
    for name, facet in (("Topics", answer.topics), ("Authors", answer.authors)):
        if facet:
            console.print(f"{name}: {_escape('; '.join(f'{value} ({count})' for value, count in facet[:6]))}")
    return 0


def import_files(options: argparse.Namespace) -> int:
    """Import files in one transaction."""
    from workingpapers.catalog import library
    from workingpapers.foundations.files import check_readable

    for file in options.files:
        check_readable(file)
    backend = library.open_catalog()
    report = library.ImportReport()
    try:
        with backend.writing(), _spinner("Importing") as update:
            for file in options.files:
                library.add_file(backend, file, report, partial(_tell_count, update, Path(file).name))
        total = backend.count()
    finally:
        backend.close()
    if options.json:
        return _print_json(
            {
                "read": report.read,
                "new": report.new,
                "merged": report.merged,
                "unchanged": report.unchanged,
                "rejected": [{"file": file, "line": line, "reason": why} for file, line, why in report.rejected],
                "records": total,
            }
        )
    console = _console()
    console.print(
        f"{report.read:,} read: {report.new:,} new, {report.merged:,} merged, {report.unchanged:,} unchanged, "
        f"{len(report.rejected):,} rejected. The catalog holds {total:,} records."
    )
    for file, line, why in report.rejected[:50]:
        console.print(f"  rejected: {_escape(str(file))}, line {line}: {_escape(why)}")
    if len(report.rejected) > 50:
        console.print(f"  ... and {len(report.rejected) - 50:,} more; --json lists them all.")
    return 0


def export_catalog(options: argparse.Namespace) -> int:
    """Write records out."""
    from workingpapers.catalog import export, library
    from workingpapers.foundations.files import check_writable, whole_file

    if options.out:
        check_writable(options.out)
    backend = library.open_catalog()
    try:
        records = library.export(backend, options.query)
        if not options.out:
            export.write(records, options.format, sys.stdout)
            return 0
        with whole_file(options.out, newline="") as stream:
            count = export.write(records, options.format, stream)
    finally:
        backend.close()
    print(f"{count:,} records written to {options.out}.")
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
    console = _console(stderr=options.json)
    everything: list[dict[str, Any]] = []
    for paper, claims in chosen:
        records = []
        for claim in claims:
            with _check_progress(_console(stderr=True), f"{paper.slug} · {claim.name}") as watch:
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
            console.print(f"Report: {_escape(str(page))}", soft_wrap=True)
    if options.json:
        return _print_json(everything)
    return 0


def list_commands(options: argparse.Namespace) -> int:
    """Reached only without a slug that begins the line: explain."""
    raise InputError("Name the paper first: papers run SLUG ...; 'papers list' shows which can be run.")


def run_command(options: argparse.Namespace) -> int:
    """Run a paper's own command."""
    from workingpapers.catalog.papers import get, missing_packages
    from workingpapers.foundations.signature import RESERVED, convert

    values: dict[str, Any] = {}
    for item in options.parameters:
        given = getattr(options, item.name)
        if given is None and not item.required:
            values[item.name] = item.default
        else:
            values[item.name] = convert(item, given)
    reserved = {}
    import inspect

    with _work_progress(options.slug) as progress:
        if "progress" in inspect.signature(options.function).parameters and "progress" in RESERVED:
            reserved["progress"] = progress
        with missing_packages(get(options.slug)):
            outcome: Outcome = options.function(**values, **reserved)
    if options.json:
        return _print_json(
            {"summary": outcome.summary, "files": [str(file) for file in outcome.files], **dict(outcome.data)}
        )
    console = _console()
    for table in outcome.tables:
        _print_table(console, table)
    console.print(_escape(outcome.summary))
    for file in outcome.files:
        console.print(f"Written: {_escape(str(file))}", soft_wrap=True)
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
        return _print_json([result_record(run) for run in runs if run.result])
    if not runs:
        print("No stored results yet; 'papers check SLUG' makes some.")
        return 0
    table = _rich_table("run", "paper", "claim", "size", "seeds", "verdict", "finished")
    for run in runs:
        verdict = run.result["verdict"] if run.result else None
        table.add_row(
            str(run.id),
            run.slug,
            run.claim,
            run.size,
            str(run.seeds),
            _verdict_text(verdict) if verdict else "unfinished; check it again to go on",
            run.finished or "–",
        )
    _console().print(table)
    return 0


def _compare(options: argparse.Namespace, runs: Sequence[Any]) -> int:
    from workingpapers.foundations.outcome import Table
    from workingpapers.replication.store import result_record

    for run in runs:
        if run.result is None:
            raise InputError(f"Run {run.id} is unfinished; 'papers check {run.slug}' goes on with it.")
    first, second = (result_record(run) for run in runs)
    if (first["paper"], first["claim"]) != (second["paper"], second["claim"]):
        raise InputError(
            f"Run {first['run']} is about {first['paper']}/{first['claim']} and run {second['run']} about "
            f"{second['paper']}/{second['claim']}; compare two runs of one claim."
        )
    if options.json:
        return _print_json([first, second])
    rows: list[tuple[Any, ...]] = [("verdict", first["verdict"], second["verdict"])]
    for index, item in enumerate(first["comparisons"]):
        other = second["comparisons"][index] if index < len(second["comparisons"]) else {}
        for name in ("improvement", "low", "high"):
            rows.append((f"{name} over {item['against']}", item[name], other.get(name)))
    for arm in first["arms"]:
        values = [_mean(record["arms"].get(arm, {}).get(record["metric"], [])) for record in (first, second)]
        rows.append((f"mean {first['metric']} of {arm}", *values))
    for name in ("size", "seeds", "seconds", "code", "finished"):
        rows.append((name, first[name], second[name]))
    rows.append(("processor", *(record["environment"]["machine"]["processor"] for record in (first, second))))
    versions = [record["environment"]["packages"] for record in (first, second)]
    for package in sorted({*versions[0], *versions[1]}):
        if versions[0].get(package) != versions[1].get(package):
            rows.append((package, versions[0].get(package), versions[1].get(package)))
    table = Table(("what", f"run {first['run']}", f"run {second['run']}"), rows, f"{first['paper']} · {first['claim']}")
    _print_table(_console(), table)
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


def _record_json(record: Any) -> dict[str, Any]:
    from dataclasses import asdict

    return {name: value for name, value in asdict(record).items() if value not in ("", (), None)}


def _print_verdicts(console: Console, slug: str, records: Sequence[Mapping[str, Any]]) -> None:
    table = _rich_table("claim", "verdict", "improvement", "95 % interval", "against", title=slug)
    for record in records:
        scale, unit = (100, " %") if record["effect"] in ("ratio", "proportion") else (1, f" {record['unit']}".rstrip())
        for index, item in enumerate(record["comparisons"]):
            numbers = ("–", "–")
            if item["improvement"] is not None:
                numbers = (
                    f"{scale * item['improvement']:.3g}{unit}",
                    f"[{scale * item['low']:.3g}, {scale * item['high']:.3g}]",
                )
            first = (record["claim"], _verdict_text(record["verdict"])) if index == 0 else ("", "")
            table.add_row(*first, _escape(numbers[0]), _escape(numbers[1]), item["against"])
    console.print(table)


def _print_table(console: Console, table: Table) -> None:
    from workingpapers.foundations.outcome import format_cell

    shown = _rich_table(*table.columns, title=table.title or None)
    for row in table.rows:
        shown.add_row(*(_escape(format_cell(value)) for value in row))
    console.print(shown)
    if table.note:
        console.print(f"[dim]{_escape(table.note)}[/dim]")


def _print_json(value: Any) -> int:
    json.dump(value, sys.stdout, indent=1, ensure_ascii=False, default=str)
    sys.stdout.write("\n")
    return 0


def _console(*, stderr: bool = False) -> Console:
    from rich.console import Console

    return Console(stderr=stderr, highlight=False)


def _rich_table(*columns: str, title: str | None = None) -> Any:
    from rich import box
    from rich.table import Table as RichTable

    table = RichTable(title=title, box=box.SIMPLE_HEAD, title_justify="left", pad_edge=False)
    for name in columns:
        table.add_column(name, overflow="fold")
    return table


def _verdict_text(verdict: str | None) -> str:
    return f"[{VERDICT_STYLES[verdict]}]{verdict}[/]" if verdict else "not measured"


def _highlighted(text: str, spans: Sequence[tuple[int, int]], style: str) -> Any:
    from rich.text import Text

    shown = Text(text, style=style)
    for start, end in spans:
        shown.stylize("bold underline yellow", start, end)
    return shown


def _escape(text: str) -> str:
    from rich.markup import escape

    return escape(text)


def _mean(values: Sequence[float | None]) -> float | None:
    finite = [value for value in values if value is not None]
    return sum(finite) / len(finite) if finite else None


def _tell_count(update: Callable[[str], None], name: str, count: int) -> None:
    update(f"{name}: {count:,} read")


@contextmanager
def _spinner(text: str) -> Iterator[Any]:
    console = _console(stderr=True)
    if not console.is_terminal:
        yield lambda message: None
        return
    with console.status(text) as status:
        yield lambda message: status.update(f"{text}: {_escape(message)}")


@contextmanager
def _work_progress(title: str) -> Iterator[Any]:
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    console = _console(stderr=True)
    if not console.is_terminal:
        yield lambda fraction, message="": None
        return
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as bars:
        task = bars.add_task(title, total=1.0)

        def tell(fraction: float, message: str = "") -> None:
            bars.update(task, completed=fraction, description=f"{title} {_escape(message)}".strip())
            if fraction >= 1:
                bars.stop()  # what follows may talk with the person, whose typing a live bar would overwrite

        yield tell


@contextmanager
def _check_progress(console: Console, title: str) -> Iterator[Watcher]:
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    if not console.is_terminal:
        yield lambda event: None
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[note]}"),
    )
    with Progress(*columns, console=console, transient=True) as bars:
        task = bars.add_task(title, total=None, note="")

        def watch(event: Any) -> None:
            note = f"{event.arm}, seed {event.seed}"
            if event.kind == "progress":
                note += f": {100 * event.fraction:.0f} % {event.message}"
            bars.update(task, total=event.total, completed=event.done, note=_escape(note if event.arm else ""))

        try:
            yield watch
        except KeyboardInterrupt:
            bars.stop()
            console.print("Interrupted. What was finished is stored; the same command goes on with the rest.")
            raise
