"""A paper as the page shows it: its words, how to use it, what was measured, how to cite it."""

from __future__ import annotations

import importlib
import inspect
import io
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from markupsafe import Markup

from workingpapers.catalog import export
from workingpapers.catalog.papers import Paper, get
from workingpapers.catalog.records import Record
from workingpapers.foundations.errors import InputError
from workingpapers.foundations.outcome import Table
from workingpapers.foundations.signature import summary_line
from workingpapers.replication.report import arms_table, provenance_table
from workingpapers.web import prose
from workingpapers.web.evidence import Evidence

CITATIONS = ("bibtex", "csl-json")


@dataclass(frozen=True)
class Claim:
    """One measured claim: the record, where it was measured, its tables, and the shape of its figure."""

    record: Mapping[str, Any]
    where: str
    arms: Table
    provenance: Table
    width: float
    height: float


def claims(paper: Paper, evidence: Evidence) -> list[Claim]:
    """Return the measured claims of a paper, the headline first."""
    return [claim_view(record, where) for record, where in evidence.of(paper)]


def claim_view(record: Mapping[str, Any], where: str) -> Claim:
    """Return one result as the page shows it."""
    return Claim(
        record,
        where,
        arms_table(record),
        provenance_table(record),
        8.2 * 72,
        72 * (1.5 + 0.42 * max(len(record["arms"]), 2)),
    )


def improvement(record: Mapping[str, Any], item: Mapping[str, Any]) -> str:
    """Return an improvement with its interval as a person reads it."""
    if item["improvement"] is None:
        return "–"
    scale, unit = (100, " %") if record["effect"] in ("ratio", "proportion") else (1, f" {record['unit']}".rstrip())
    numbers = (f"{scale * item[name]:.3g}".replace("-", "−") for name in ("improvement", "low", "high"))
    middle, low, high = numbers
    return f"{middle}{unit} [{low}, {high}]"


@lru_cache(maxsize=128)
def documentation(slug: str) -> Markup:
    """Return the docstring of a paper's folder as markup."""
    try:
        module = importlib.import_module(get(slug).module)
    except ImportError:
        return Markup("")
    return prose.docstring(inspect.getdoc(module) or "")


@lru_cache(maxsize=128)
def python_usage(slug: str) -> str:
    """Return the lines that bring a paper into a program."""
    paper = get(slug)
    lines = [f"# pip install 'workingpapers[{paper.extra}]'"] if paper.extra else []
    try:
        names = list(getattr(importlib.import_module(paper.module), "__all__", ()))[:4]
    except ImportError:
        names = []
    if names:
        lines.append(f"from {paper.module} import {', '.join(names)}")
    lines += [f"import {paper.module}", f"help({paper.module})"]
    return "\n".join(lines)


def command_lines(paper: Paper) -> list[tuple[str, str]]:
    """Return (command, what it does) of a paper on the command line."""
    lines = [(f"papers show {paper.slug}", "")]
    for name, text in commands(paper).items():
        lines.append((f"papers run {paper.slug}{f' {name}' if name else ''} --help", text))
    if paper.has_claim:
        lines.append((f"papers check {paper.slug}", ""))
    return lines


def commands(paper: Paper) -> dict[str, str]:
    """Return sub-command -> its first line; empty where there is none or its packages are missing."""
    if not paper.has_command:
        return {}
    try:
        return {name: summary_line(function) for name, function in paper.commands().items()}
    except InputError:
        return {}


def citation(record: Record, form: str) -> str:
    """Return a record as BibTeX or CSL-JSON.

    Raises:
        InputError: Another format.
    """
    if form not in CITATIONS:
        raise InputError(f"The format is {form!r}; choose bibtex or csl-json.")
    stream = io.StringIO()
    export.write([record], form, stream)
    if form == "csl-json":
        return json.dumps(json.loads(stream.getvalue()), ensure_ascii=False, indent=1)
    return stream.getvalue().strip()


def paper_json(paper: Paper, evidence: Evidence) -> dict[str, Any]:
    """Return a paper as JSON types."""
    return {
        **paper_line(paper, evidence),
        "authors": list(paper.authors),
        "venue": paper.venue,
        "year": paper.year,
        "arxiv": paper.arxiv,
        "code": paper.code,
        "keywords": list(paper.keywords),
        "summary": paper.summary,
        "headline": [{"result": result, "setting": setting} for result, setting in paper.headline],
        "measured": [{"where": where, **record} for record, where in evidence.of(paper)],
        "python": python_usage(paper.slug),
        "command_line": [line for line, _ in command_lines(paper)],
    }


def paper_line(paper: Paper, evidence: Evidence) -> dict[str, Any]:
    """Return what a list shows of a paper, as JSON types."""
    return {
        "slug": paper.slug,
        "area": paper.area,
        "method": paper.method,
        "title": paper.title,
        "topic": paper.topic,
        "command": paper.has_command,
        "claim": paper.has_claim,
        "verdict": evidence.verdict(paper) or None,
    }
