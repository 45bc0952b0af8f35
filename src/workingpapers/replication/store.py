"""Results in an embedded SQLite file: one row a run, one row for each arm and seed, written as they come."""

from __future__ import annotations

import datetime
import json
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from workingpapers.foundations.errors import InputError
from workingpapers.foundations.files import data_directory

SCHEMA = """
CREATE TABLE IF NOT EXISTS runs (
  id INTEGER PRIMARY KEY,
  slug TEXT NOT NULL,
  claim TEXT NOT NULL,
  size TEXT NOT NULL,
  seeds INTEGER NOT NULL,
  settings TEXT NOT NULL,
  fingerprint TEXT NOT NULL,
  status TEXT NOT NULL CHECK (status IN ('unfinished', 'complete')),
  started TEXT NOT NULL,
  finished TEXT,
  environment TEXT NOT NULL,
  result TEXT
);
CREATE INDEX IF NOT EXISTS runs_by_claim ON runs (slug, claim, size, status);
CREATE TABLE IF NOT EXISTS outcomes (
  run INTEGER NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
  seed INTEGER NOT NULL,
  arm TEXT NOT NULL,
  metrics TEXT,
  error TEXT,
  seconds REAL NOT NULL,
  PRIMARY KEY (run, seed, arm)
);
"""


@dataclass(frozen=True)
class Outcome:
    """What one arm returned for one seed: `metrics`, or the `error` that ended it."""

    seed: int
    arm: str
    metrics: Mapping[str, float] | None
    error: str | None
    seconds: float


@dataclass(frozen=True)
class Run:
    """One row of the store; `result` is there once the run is complete."""

    id: int
    slug: str
    claim: str
    size: str
    seeds: int
    settings: Mapping[str, Any]
    fingerprint: str
    status: str
    started: str
    finished: str | None
    environment: Mapping[str, Any]
    result: Mapping[str, Any] | None


class Store:
    """The results of one user; safe for one writer and many readers at once (WAL)."""

    def __init__(self, path: Path | None = None) -> None:
        self.path = path or data_directory() / "results.sqlite"
        try:
            with self._connect() as connection:
                connection.execute("PRAGMA journal_mode = WAL")
                connection.executescript(SCHEMA)
        except sqlite3.Error as error:
            raise InputError(f"The results file {str(self.path)!r} cannot be used ({error}); move it away.") from None

    def begin(
        self,
        slug: str,
        claim: str,
        size: str,
        seeds: int,
        settings: Mapping[str, Any],
        fingerprint: str,
        environment: Mapping[str, Any],
    ) -> int:
        """Start a run and return its number."""
        with self._connect() as connection:
            cursor = connection.execute(
                "INSERT INTO runs (slug, claim, size, seeds, settings, fingerprint, status, started, environment)"
                " VALUES (?, ?, ?, ?, ?, ?, 'unfinished', ?, ?)",
                (slug, claim, size, seeds, _key(settings), fingerprint, _now(), json.dumps(environment)),
            )
            return int(cursor.lastrowid or 0)

    def find(
        self, slug: str, claim: str, size: str, settings: Mapping[str, Any], fingerprint: str, status: str
    ) -> Run | None:
        """Return the newest run of `status` with the same claim, size, settings and code, or None."""
        with self._connect() as connection:
            row = connection.execute(
                "SELECT * FROM runs WHERE slug = ? AND claim = ? AND size = ? AND settings = ? AND fingerprint = ?"
                " AND status = ? ORDER BY id DESC LIMIT 1",
                (slug, claim, size, _key(settings), fingerprint, status),
            ).fetchone()
        return _run(row) if row else None

    def set_seeds(self, run: int, seeds: int) -> None:
        """Change the number of seeds of an unfinished run that is taken up again."""
        with self._connect() as connection:
            connection.execute("UPDATE runs SET seeds = ? WHERE id = ?", (seeds, run))

    def record(self, run: int, outcome: Outcome) -> None:
        """Store what one arm returned; an earlier error of the same arm and seed is replaced."""
        metrics = None if outcome.metrics is None else json.dumps(outcome.metrics)
        with self._connect() as connection:
            connection.execute(
                "INSERT OR REPLACE INTO outcomes VALUES (?, ?, ?, ?, ?, ?)",
                (run, outcome.seed, outcome.arm, metrics, outcome.error, outcome.seconds),
            )

    def outcomes(self, run: int) -> list[Outcome]:
        """Return the stored outcomes of `run`, by seed and arm."""
        with self._connect() as connection:
            rows = connection.execute(
                "SELECT seed, arm, metrics, error, seconds FROM outcomes WHERE run = ? ORDER BY seed, arm", (run,)
            ).fetchall()
        return [Outcome(row[0], row[1], json.loads(row[2]) if row[2] else None, row[3], row[4]) for row in rows]

    def finish(self, run: int, result: Mapping[str, Any]) -> None:
        """Mark `run` as complete and keep its result."""
        with self._connect() as connection:
            connection.execute(
                "UPDATE runs SET status = 'complete', finished = ?, result = ? WHERE id = ?",
                (_now(), json.dumps(result), run),
            )

    def run(self, number: int) -> Run:
        """Return run `number`.

        Raises:
            InputError: There is no such run.
        """
        with self._connect() as connection:
            row = connection.execute("SELECT * FROM runs WHERE id = ?", (number,)).fetchone()
        if row is None:
            raise InputError(f"There is no stored run {number}; 'papers results' lists the runs.")
        return _run(row)

    def runs(self, slug: str | None = None, limit: int = 1000) -> list[Run]:
        """Return the newest runs first, all or of one paper."""
        where, values = ("WHERE slug = ?", (slug,)) if slug else ("", ())
        with self._connect() as connection:
            rows = connection.execute(
                f"SELECT * FROM runs {where} ORDER BY id DESC LIMIT ?", (*values, limit)
            ).fetchall()
        return [_run(row) for row in rows]

    def newest_results(self, slug: str | None = None) -> list[Run]:
        """Return, for each claim, its newest complete run."""
        found: dict[tuple[str, str], Run] = {}
        for run in self.runs(slug):
            if run.status == "complete":
                found.setdefault((run.slug, run.claim), run)
        return list(found.values())

    @contextmanager
    def _connect(self) -> Iterator[sqlite3.Connection]:
        connection = sqlite3.connect(self.path, timeout=30)
        connection.row_factory = sqlite3.Row
        try:
            connection.execute("PRAGMA foreign_keys = ON")
            with connection:
                yield connection
        finally:
            connection.close()


def result_record(run: Run) -> dict[str, Any]:
    """Return a complete run as one JSON object: what ``result.json`` and ``--json`` hold."""
    assert run.result is not None
    return {
        "paper": run.slug,
        "claim": run.claim,
        "run": run.id,
        "size": run.size,
        "seeds": run.seeds,
        "settings": dict(run.settings),
        **run.result,
        "started": run.started,
        "finished": run.finished,
        "code": run.fingerprint,
        "environment": dict(run.environment),
    }


def _run(row: sqlite3.Row) -> Run:
    values = dict(row)
    values["settings"] = json.loads(values["settings"])
    values["environment"] = json.loads(values["environment"])
    values["result"] = json.loads(values["result"]) if values["result"] else None
    return Run(**values)


def _key(settings: Mapping[str, Any]) -> str:
    return json.dumps(settings, sort_keys=True)


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
