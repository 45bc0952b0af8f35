"""Proceedings from uploads: first what would change, then the import."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any, cast

from workingpapers.catalog import library
from workingpapers.catalog.backend import Backend
from workingpapers.catalog.records import STORED, Record, Row, from_row, to_row

SHOWN = 20
BEYOND = 1 << 48  # records that only a preview holds are numbered from here, beyond any that the catalog gives


class Watched:
    """A catalog that notes the first records that are new and the first that change."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self.new: list[Record] = []
        self.changed: list[tuple[Record, Record]] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._backend, name)

    def insert(self, rows: Sequence[tuple[int, Row]], keys: Sequence[tuple[int, int]]) -> None:
        """Add new records, and note the first."""
        self.new += [from_row(row) for _, row in rows[: SHOWN - len(self.new)]]
        self._backend.insert(rows, keys)

    def replace(self, number: int, old: Record, new: Record) -> None:
        """Change a record, and note the first."""
        if len(self.changed) < SHOWN:
            self.changed.append((old, new))
        self._backend.replace(number, old, new)


class Overlay:
    """A catalog that is only read, under changes of one's own: others write to it in the meantime.

    The changes lie in a temporary SQLite database, which leaves memory for the disk where it grows large.
    """

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._own = sqlite3.connect("", isolation_level=None)
        self._own.execute("PRAGMA journal_mode = OFF")
        self._own.execute("CREATE TABLE records (id INTEGER PRIMARY KEY, row TEXT)")
        self._own.execute("CREATE TABLE keys (key INTEGER PRIMARY KEY, record INTEGER)")
        self._into: dict[int, int] = {}
        self._next = BEYOND

    def next_id(self) -> int:
        """Return the first unused record number."""
        return self._next

    def lookup(self, keys: Iterable[int]) -> dict[int, int]:
        """Return key -> record number for the keys that are known."""
        wanted = list(keys)
        found = self._backend.lookup(wanted) | dict(
            self._own.execute(
                "SELECT key, record FROM keys WHERE key IN (SELECT value FROM json_each(?))", (json.dumps(wanted),)
            )
        )
        return {key: self._home(number) for key, number in found.items()}

    def fetch(self, ids: Sequence[int]) -> dict[int, Record]:
        """Return record number -> record."""
        rows = self._own.execute(
            "SELECT id, row FROM records WHERE id IN (SELECT value FROM json_each(?))", (json.dumps(list(ids)),)
        )
        own = {number: from_row(json.loads(row)) for number, row in rows}
        return self._backend.fetch([number for number in ids if number not in own and number < BEYOND]) | own

    def insert(self, rows: Sequence[tuple[int, Row]], keys: Sequence[tuple[int, int]]) -> None:
        """Add new records and their keys."""
        self._keep(rows)
        self._next = max([self._next, *(number + 1 for number, _ in rows)])
        self._own.executemany("INSERT OR IGNORE INTO keys VALUES (?, ?)", keys)

    def replace(self, number: int, old: Record, new: Record) -> None:
        """Change one record."""
        self._keep([(number, to_row(new))])

    def remove(self, number: int, old: Record, into: int) -> None:
        """Remove a record whose keys now belong to `into`."""
        self._own.execute("DELETE FROM records WHERE id = ?", (number,))
        self._into[number] = into

    def close(self) -> None:
        """Forget the changes."""
        self._own.close()

    def _home(self, number: int) -> int:
        while number in self._into:
            number = self._into[number]
        return number

    def _keep(self, rows: Sequence[tuple[int, Row]]) -> None:
        self._own.executemany(
            "INSERT OR REPLACE INTO records VALUES (?, ?)", [(number, json.dumps(row)) for number, row in rows]
        )


def import_files(
    files: Sequence[tuple[Path, str]], *, keep: bool, tell: Callable[[Mapping[str, Any]], None]
) -> dict[str, Any]:
    """Import files in one transaction and return what changed, as JSON types.

    Args:
        files: Path and the name that the person knows it by.
        keep: Whether to keep the changes; else the catalog is only read, and stays free for others to write.
        tell: Told of progress.

    Raises:
        InputError: A file cannot be read; nothing is imported then.
    """
    backend = library.open_catalog()
    overlay = None if keep else Overlay(backend)
    watched = Watched(backend if overlay is None else cast(Backend, overlay))
    report = library.ImportReport()
    names = {str(path): name for path, name in files}

    def watch(count: int) -> None:
        tell({"event": "progress", "kind": "progress", "fraction": 0.0, "message": f"{count:,} read"})

    try:
        with backend.writing() if keep else nullcontext():
            for path, _ in files:
                library.add_file(cast(Backend, watched), path, report, watch)
        total = backend.count()
    finally:
        if overlay is not None:
            overlay.close()
        backend.close()
    return {
        "kept": keep,
        "read": report.read,
        "new": report.new,
        "merged": report.merged,
        "unchanged": report.unchanged,
        "rejected": len(report.rejected),
        "records": total,
        "first_new": [_shown(record) for record in watched.new],
        "first_changed": [
            {**_shown(new), "changes": [name for name in STORED if getattr(old, name) != getattr(new, name)]}
            for old, new in watched.changed
        ],
        "first_rejected": [
            {"file": names.get(file, file), "line": line, "reason": why.replace(file, names.get(file, file))}
            for file, line, why in report.rejected[:SHOWN]
        ],
    }


def _shown(record: Record) -> dict[str, Any]:
    return {"title": record.heading, "byline": record.byline, "topic": record.topic, "year": record.year}
