"""What was measured of each paper, kept in memory until the results change."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from workingpapers.catalog.papers import Paper, all_papers
from workingpapers.foundations.files import cache_directory, whole_file
from workingpapers.replication.evidence import measured
from workingpapers.replication.report import claim_figure
from workingpapers.replication.store import Run, Store, result_record

DRAWN = ("arms", "comparisons", "metric", "unit", "direction", "margin", "effect", "method", "against")
Measured = list[tuple[Mapping[str, Any], str]]


class Evidence:
    """Results of claims: those of this machine, else those that ship with the paper."""

    def __init__(self) -> None:
        self.store = Store()
        self._lock = threading.Lock()
        self._version: tuple[float, ...] = ()
        self._measured: dict[str, Measured] = {}

    def of(self, paper: Paper) -> Measured:
        """Return (result, where) for each claim of a paper, the headline first."""
        with self._lock:
            version = self._stamp()
            if version != self._version:
                self._measured, self._version = {}, version
            if paper.slug not in self._measured:
                self._measured[paper.slug] = measured(paper.slug, paper.folder, self.store)
            return self._measured[paper.slug]

    def claim(self, paper: Paper, name: str) -> Mapping[str, Any] | None:
        """Return the result of one claim, or None."""
        return next((record for record, _ in self.of(paper) if record["claim"] == name), None)

    def verdict(self, paper: Paper) -> str:
        """Return the verdict of the headline claim, or an empty string."""
        found = self.of(paper)
        return str(found[0][0]["verdict"]) if found else ""

    def verdicts(self) -> dict[str, str]:
        """Return slug -> verdict of the headline claim, for every paper."""
        return {paper.slug: self.verdict(paper) for paper in all_papers()}

    def unfinished(self, slug: str | None = None) -> list[Run]:
        """Return the newest unfinished run of each claim and size that no later run has completed."""
        found: dict[tuple[str, str, str], Run] = {}
        for run in self.store.runs(slug):
            found.setdefault((run.slug, run.claim, run.size), run)
        return [run for run in found.values() if run.status == "unfinished"]

    def record(self, number: int) -> dict[str, Any]:
        """Return a complete run as a record.

        Raises:
            InputError: There is no such run, or it is unfinished.
        """
        from workingpapers.foundations.errors import InputError

        if not 0 < number < 1 << 62:
            raise InputError(f"There is no stored run {number}.")
        run = self.store.run(number)
        if run.result is None:
            raise InputError(f"Run {run.id} is unfinished; check {run.slug} again to go on with it.")
        return result_record(run)

    def _stamp(self) -> tuple[float, ...]:
        files = (self.store.path, self.store.path.with_name(self.store.path.name + "-wal"))
        return tuple(file.stat().st_mtime_ns if file.exists() else 0 for file in files)


def figure_svg(record: Mapping[str, Any]) -> str:
    """Return the figure of a result; drawn once and kept in the cache folder."""
    drawn_from = {name: record[name] for name in DRAWN}
    digest = hashlib.sha256(json.dumps(drawn_from, sort_keys=True).encode()).hexdigest()[:24]
    folder = cache_directory() / "figures"
    folder.mkdir(exist_ok=True)
    file: Path = folder / f"{digest}.svg"
    if file.is_file():
        return file.read_text(encoding="utf-8")
    with _DRAWING:
        svg = claim_figure(record)
    with whole_file(file) as stream:
        stream.write(svg)
    return svg


_DRAWING = threading.Lock()  # matplotlib's settings are global
