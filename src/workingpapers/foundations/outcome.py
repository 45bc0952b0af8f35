"""What a paper's command gives back: sentences, tables, figures and the files it wrote."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Table:
    """A table for people: `rows` are sequences of the length of `columns`; floats are shown to four digits."""

    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]
    title: str = ""
    note: str = ""


@dataclass(frozen=True)
class Figure:
    """An SVG drawing (text of the file) with the sentence that says what to see in it."""

    svg: str
    caption: str = ""


@dataclass(frozen=True)
class Outcome:
    """Result of ``papers run SLUG``.

    Args:
        summary: One to three plain sentences: what came out and whether to rely on it.
        tables: Tables for the terminal and the page.
        figures: Figures for the report and the page.
        files: Every file that the command wrote.
        data: The same result for programs (``--json``): only JSON types.
    """

    summary: str
    tables: Sequence[Table] = ()
    figures: Sequence[Figure] = ()
    files: Sequence[Path] = ()
    data: Mapping[str, Any] = field(default_factory=dict)


def format_cell(value: Any) -> str:
    """Return `value` as a person reads it: floats to four significant digits, ``None`` as a dash."""
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        if value != value:
            return "–"
        return f"{value:.4g}".replace("-", "−")
    return str(value)
