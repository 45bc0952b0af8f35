"""The sub-commands of ``papers`` about the catalog; imported when one is called."""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from workingpapers.foundations.errors import InputError
from workingpapers.terminal import console_for, escaped, highlighted, print_json, rich_table, spinner, work_progress

if TYPE_CHECKING:
    from workingpapers.catalog.backend import Backend
    from workingpapers.catalog.records import Record
    from workingpapers.catalog.searching import Hit

# So many records are encoded on the way to a search, without torch; more wait for 'papers index'.
AUTOMATIC = 60
RECORDS_A_SECOND = 20


def search_catalog(options: argparse.Namespace) -> int:
    """Search, rank, highlight, count facets."""
    from workingpapers.catalog import library

    query = " ".join(options.query)
    backend = library.open_catalog()
    try:
        left = _catch_up(backend) if options.engine != "bm25" else 0
        answer = library.search(
            backend, query, topic=options.topic, author=options.author, limit=options.limit, engine=options.engine
        )
    finally:
        backend.close()
    if options.json:
        return print_json(
            {
                "query": query,
                "engine": answer.engine,
                "total": answer.total,
                "total_is_lower_bound": answer.capped,
                "every_term_matched": answer.exact,
                "suggestion": answer.suggestion,
                "translated": answer.translated,
                "hits": [
                    {"score": round(hit.score, 6), "snippet": hit.snippet, **_record_json(hit.record)}
                    for hit in answer.hits
                ],
                "topics": dict(answer.topics),
                "authors": dict(answer.authors),
            }
        )
    console = console_for()
    if not answer.hits:
        console.print(
            f"Nothing found for {escaped(repr(query))}. Try fewer or other words; 'papers list' shows all methods."
        )
        _print_hints(console, answer.suggestion, answer.translated)
        return 0
    _print_hits(console, answer.hits)
    more = "at least " if answer.capped else ""
    any_of = ", some with only part of the words" if answer.engine == "BM25" and not answer.exact else ""
    console.print(f"\n{len(answer.hits)} of {more}{answer.total} papers, ranked by {answer.engine}{any_of}.")
    for name, facet in (("Topics", answer.topics), ("Authors", answer.authors)):
        if facet:
            console.print(f"{name}: {escaped('; '.join(f'{value} ({count})' for value, count in facet[:6]))}")
    _print_hints(console, answer.suggestion, answer.translated)
    if left:
        console.print("[dim]'papers index' prepares the new records for search by meaning.[/dim]")
    return 0


def _print_hints(console: Any, suggestion: str, translated: str) -> None:
    if translated:
        console.print(f"Searched for [italic]{escaped(translated)}[/italic] as well.")
    if suggestion:
        console.print(f"Did you mean [italic]{escaped(suggestion)}[/italic]?")


def similar_papers(options: argparse.Namespace) -> int:
    """Show what is like a paper."""
    from workingpapers.catalog import library
    from workingpapers.catalog.similar import similar

    what = " ".join(options.what)
    backend = library.open_catalog()
    try:
        _catch_up(backend)
        record = _named(backend, what)
        answer = similar(backend, record, limit=options.limit)
    finally:
        backend.close()
    if options.json:
        hits = [{"score": round(hit.score, 6), **_record_json(hit.record)} for hit in answer.hits]
        return print_json({"record": _record_json(record), "engine": answer.engine, "hits": hits})
    console = console_for()
    console.print(f"Like [bold]{escaped(record.heading)}[/bold] ({escaped(record.byline)}):")
    _print_hits(console, answer.hits)
    console.print(f"\nRanked by {answer.engine}.")
    return 0


def near_duplicates(options: argparse.Namespace) -> int:
    """List records that are nearly the same paper."""
    from workingpapers.catalog import duplicates, library

    backend = library.open_catalog()
    try:
        with spinner("Comparing records"):
            pairs = list(duplicates.near_duplicates(backend.records(), threshold=options.least))
    finally:
        backend.close()
    if options.json:
        return print_json(
            [
                {"similarity": pair.similarity, "first": _record_json(pair.first), "second": _record_json(pair.second)}
                for pair in pairs
            ]
        )
    console = console_for()
    for pair in pairs:
        console.print(f"[bold]{100 * pair.similarity:.0f} %[/bold] alike")
        for record in (pair.first, pair.second):
            console.print(f"   {escaped(record.heading)} · {escaped(record.byline)} {record.year or ''}".rstrip())
    console.print(
        f"{len(pairs)} pairs share at least {100 * options.least:.0f} % of their runs of three words."
        if pairs
        else f"No two records share {100 * options.least:.0f} % of their runs of three words."
    )
    return 0


def author_page(options: argparse.Namespace) -> int:
    """Show an author's records, topics and co-authors."""
    from workingpapers.catalog import library
    from workingpapers.catalog.text import fold

    name = " ".join(options.name)
    if not any(character.isalnum() for character in name):
        raise InputError(f"{name!r} holds no name; give an author's name or a part of it.")
    backend = library.open_catalog()
    try:
        answer = library.search(backend, "", author=name, limit=options.limit)
    finally:
        backend.close()
    words = fold(name).split()
    own = [full for full, _ in answer.authors if all(word in fold(full) for word in words)]
    fellows = Counter(
        full for hit in answer.hits for full in hit.record.authors if not all(word in fold(full) for word in words)
    )
    if options.json:
        return print_json(
            {
                "names": own,
                "total": answer.total,
                "total_is_lower_bound": answer.capped,
                "topics": dict(answer.topics),
                "coauthors": dict(fellows.most_common()),
                "records": [_record_json(hit.record) for hit in answer.hits],
            }
        )
    console = console_for()
    if not answer.hits:
        console.print(f"No record by {escaped(repr(name))}; give fewer parts of the name.")
        return 0
    console.print(f"[bold]{escaped('; '.join(own) or name)}[/bold]")
    _print_hits(console, answer.hits)
    console.print(f"\n{len(answer.hits)} of {'at least ' if answer.capped else ''}{answer.total} papers.")
    for label, counts in (("Topics", answer.topics), ("With", fellows.most_common(12))):
        if counts:
            console.print(f"{label}: {escaped('; '.join(f'{value} ({count})' for value, count in counts))}")
    return 0


def list_topics(options: argparse.Namespace) -> int:
    """List the topics of the catalog."""
    from workingpapers.catalog import library

    backend = library.open_catalog()
    try:
        topics = backend.topics()
    finally:
        backend.close()
    if options.json:
        return print_json(dict(topics))
    table = rich_table("topic", "papers")
    for topic, count in topics:
        table.add_row(escaped(topic), f"{count:,}")
    console_for().print(table)
    return 0


def index_catalog(options: argparse.Namespace) -> int:
    """Prepare the catalog for search by meaning."""
    from workingpapers.catalog import library, semantic

    missing = semantic.missing_packages()
    if missing:
        raise InputError(f"Search by meaning needs {missing[0]}; pip install 'workingpapers[semantic]' brings it.")
    backend = library.open_catalog()
    try:
        if options.rebuild:
            semantic.forget(backend)
        index = semantic.open_index(backend)
        assert index is not None
        total = index.behind(backend, 10_000_000)
        with work_progress("index") as progress:
            encoded = index.update(backend, total=total, progress=progress)
        held = len(index)
    finally:
        backend.close()
    print(f"{encoded:,} records encoded; the index holds {held:,}.")
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
        with backend.writing(), spinner("Importing") as update:
            for file in options.files:
                library.add_file(backend, file, report, partial(_tell_count, update, Path(file).name))
        total = backend.count()
    finally:
        backend.close()
    if options.json:
        return print_json(
            {
                "read": report.read,
                "new": report.new,
                "merged": report.merged,
                "unchanged": report.unchanged,
                "rejected": [{"file": file, "line": line, "reason": why} for file, line, why in report.rejected],
                "records": total,
            }
        )
    console = console_for()
    console.print(
        f"{report.read:,} read: {report.new:,} new, {report.merged:,} merged, {report.unchanged:,} unchanged, "
        f"{len(report.rejected):,} rejected. The catalog holds {total:,} records."
    )
    for file, line, why in report.rejected[:50]:
        console.print(f"  rejected: {escaped(str(file))}, line {line}: {escaped(why)}")
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


def _print_hits(console: Any, hits: Any) -> None:
    for rank, hit in enumerate(hits, 1):
        _print_hit(console, rank, hit)


def _print_hit(console: Any, rank: int, hit: Hit) -> None:
    title = highlighted(hit.title, hit.title_spans, "bold") if hit.title else ""
    record = hit.record
    facts = " · ".join(part for part in (record.topic, f"{record.venue} {record.year or ''}".strip()) if part)
    if title:
        console.print(f"[bold]{rank}.[/bold] ", title, sep="")
        console.print(f"   {escaped(record.byline)}")
    else:
        console.print(f"[bold]{rank}.[/bold] {escaped(record.byline)}")
    if facts:
        console.print(f"   {escaped(facts)}")
    console.print("   ", highlighted(hit.snippet, hit.snippet_spans, ""), sep="")
    if record.slug:
        console.print(f"   [green]→ papers show {record.slug}[/green]")


def _catch_up(backend: Backend) -> int:
    """Bring the index for search by meaning up to date where that takes seconds, and return how much is left to do."""
    from workingpapers.catalog import semantic

    if semantic.missing_packages():
        return 0
    index = semantic.open_index(backend)
    if index is None:
        return 0
    behind = index.behind(backend, AUTOMATIC + 1)
    if not 0 < behind <= AUTOMATIC:
        return behind
    with spinner("Preparing search by meaning, once") as update:
        index.update(backend, engine="numpy", progress=lambda _, message="": update(message))
    return 0


def _named(backend: Backend, what: str) -> Record:
    """Return the record of a paper's slug, or the best answer to a query."""
    from workingpapers.catalog import library
    from workingpapers.catalog.papers import all_papers

    for paper in all_papers():
        if paper.slug == what:
            return paper.record()
    answer = library.search(backend, what, limit=1, engine="bm25")
    if not answer.hits:
        raise InputError(f"Nothing in the catalog is like {what!r}; give a paper's short name or words of its title.")
    return answer.hits[0].record


def _record_json(record: Any) -> dict[str, Any]:
    from dataclasses import asdict

    return {name: value for name, value in asdict(record).items() if value not in ("", (), None)}


def _tell_count(update: Callable[[str], None], name: str, count: int) -> None:
    update(f"{name}: {count:,} read")
