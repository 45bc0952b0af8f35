"""Proceedings from uploads: first what would change, then the import."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from workingpapers.catalog import library
from workingpapers.catalog.backend import Backend
from workingpapers.catalog.records import STORED, Record, Row, from_row

SHOWN = 20


class _OnlyLooked(Exception):
    """Ends the transaction of a preview, so that the catalog stays as it was."""


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


def import_files(
    files: Sequence[tuple[Path, str]], *, keep: bool, tell: Callable[[Mapping[str, Any]], None]
) -> dict[str, Any]:
    """Import files in one transaction and return what changed, as JSON types.

    Args:
        files: Path and the name that the person knows it by.
        keep: Whether to keep the changes; else the catalog stays as it was.
        tell: Told of progress.

    Raises:
        InputError: A file cannot be read; nothing is imported then.
    """
    backend = library.open_catalog()
    watched = Watched(backend)
    report = library.ImportReport()
    names = {str(path): name for path, name in files}

    def watch(count: int) -> None:
        tell({"event": "progress", "kind": "progress", "fraction": 0.0, "message": f"{count:,} read"})

    try:
        try:
            with backend.writing():
                for path, _ in files:
                    library.add_file(cast(Backend, watched), path, report, watch)
                if not keep:
                    raise _OnlyLooked
        except _OnlyLooked:
            pass
        total = backend.count()
    finally:
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
