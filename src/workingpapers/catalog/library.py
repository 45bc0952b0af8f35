"""The catalog as the rest of the library uses it: open, add, search."""

from __future__ import annotations

import hashlib
import os
import secrets
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from workingpapers.catalog.backend import Backend
from workingpapers.catalog.entries import Entry
from workingpapers.catalog.papers import all_papers
from workingpapers.catalog.preparing import Batch, batches, batches_of_file
from workingpapers.catalog.records import Record, Row, from_row, keys, merge, to_row
from workingpapers.catalog.searching import Answer, Engine, Hit, search
from workingpapers.foundations.errors import InputError
from workingpapers.foundations.files import data_directory

__all__ = ["Answer", "Engine", "Hit", "ImportReport", "add", "add_file", "export", "open_catalog", "search"]

DATABASE_VARIABLE = "WORKINGPAPERS_DATABASE"


@dataclass
class ImportReport:
    """What an import did: blocks read, records new, merged (something changed), unchanged, and rejected blocks."""

    read: int = 0
    new: int = 0
    merged: int = 0
    unchanged: int = 0
    rejected: list[tuple[str, int, str]] = field(default_factory=list)


def open_catalog() -> Backend:
    """Return the user's catalog, with this library's own papers in it.

    ``WORKINGPAPERS_DATABASE=postgresql://...`` chooses PostgreSQL; otherwise it is a SQLite file in the data folder.

    Raises:
        InputError: The database cannot be opened.
    """
    address = os.environ.get(DATABASE_VARIABLE, "")
    backend: Backend
    if address.startswith(("postgresql://", "postgres://")):
        from workingpapers.catalog.postgres import PostgresBackend

        backend = PostgresBackend(address)
    elif address:
        raise InputError(f"{DATABASE_VARIABLE} is {address!r}; give a postgresql:// address or unset it.")
    else:
        from workingpapers.catalog.sqlite import SQLiteBackend

        backend = SQLiteBackend(data_directory() / "catalog.sqlite")
    _bring_up_to_date(backend)
    return backend


def add(backend: Backend, source: str, entries: Iterable[Entry], report: ImportReport) -> ImportReport:
    """Add the records of one source inside the caller's transaction and count what happened.

    Args:
        backend: The catalog, inside ``backend.writing()``.
        source: Name of the source, for the rejected blocks.
        entries: Records and rejected blocks.
        report: Counts to go on with.
    """
    return _add_batches(backend, source, batches(entries), report)


def add_file(
    backend: Backend, path: str | Path, report: ImportReport, watch: Callable[[int], None] = lambda count: None
) -> ImportReport:
    """Add the records of a file inside the caller's transaction and count what happened.

    Args:
        backend: The catalog, inside ``backend.writing()``.
        path: A file of any known format.
        report: Counts to go on with.
        watch: Called with the number of blocks of this file that are in the catalog.

    Raises:
        InputError: The file cannot be read.
    """
    return _add_batches(backend, str(path), batches_of_file(path), report, watch)


def export(backend: Backend, query: str = "") -> Iterator[Record]:
    """Yield every record, or those that match `query`, best first."""
    if not query:
        yield from backend.records()
        return
    for hit in search(backend, query, limit=1000).hits:
        yield hit.record


def _add_batches(
    backend: Backend,
    source: str,
    prepared: Iterable[Batch],
    report: ImportReport,
    watch: Callable[[int], None] = lambda count: None,
) -> ImportReport:
    count = 0
    for batch in prepared:
        report.read += batch.read
        report.rejected += [(source, block.line, block.reason) for block in batch.rejected]
        _add_rows(backend, batch.rows, report)
        count += batch.read
        watch(count)
    return report


def _bring_up_to_date(backend: Backend) -> None:
    """Put this library's own records into the catalog when they changed."""
    papers = all_papers()
    digest = hashlib.sha256(repr([(paper.record(), paper.abstract_sha256) for paper in papers]).encode()).hexdigest()
    if backend.get_meta("papers") == digest and backend.get_meta("identity"):
        return
    with backend.writing():
        rows = [(to_row(paper.record()), keys(paper.record(), paper.abstract_sha256)) for paper in papers]
        _add_rows(backend, rows, ImportReport(), ours=True)
        backend.set_meta("papers", digest)
        if not backend.get_meta("identity"):
            backend.set_meta("identity", secrets.token_hex(8))  # tells this catalog's semantic index from others


def _add_rows(
    backend: Backend, batch: list[tuple[Row, list[int]]], report: ImportReport, *, ours: bool = False
) -> None:
    if not batch:
        return
    owner = backend.lookup(key for _, row_keys in batch for key in row_keys)
    known = backend.fetch(sorted(set(owner.values()))) if owner else {}
    stored = dict(known)
    fresh: dict[int, Row] = {}
    new_keys: list[tuple[int, int]] = []
    number = backend.next_id()
    for row, row_keys in batch:
        # A list, not a set: the first match decides which number survives.
        same = list(dict.fromkeys(owner[key] for key in row_keys if key in owner))
        if not same:
            home, number = number, number + 1
            fresh[home] = row
            report.new += 1
        else:
            home, record = same[0], from_row(row)
            before = from_row(fresh[home]) if home in fresh else known[home]
            after = _own_words(before, record) if ours else merge(before, record)
            for other in same[1:]:
                absorbed = from_row(fresh.pop(other)) if other in fresh else known.pop(other)
                after = merge(after, absorbed)
                if other in stored:
                    backend.remove(other, stored.pop(other), home)
                new_keys = [(key, home if place == other else place) for key, place in new_keys]
                owner.update({key: home for key, place in owner.items() if place == other})
            if after != before or len(same) > 1:
                report.merged += 1
            else:
                report.unchanged += 1
            if home in fresh:
                fresh[home] = to_row(after)
            else:
                known[home] = after
        for key in row_keys:
            if key not in owner:
                owner[key] = home
                new_keys.append((key, home))
    for place, before in stored.items():
        if known[place] != before:
            backend.replace(place, before, known[place])
    backend.insert(list(fresh.items()), new_keys)


def _own_words(before: Record, ours: Record) -> Record:
    """Return our record with the imported abstract kept: a paper.toml is the authority on everything that it states."""
    from dataclasses import fields, replace

    missing = {
        item.name: getattr(before, item.name)
        for item in fields(Record)
        if not getattr(ours, item.name) and getattr(before, item.name)
    }
    return replace(ours, **missing)
