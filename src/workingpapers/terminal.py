"""How ``papers`` talks on a terminal: tables, highlights, progress."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console

    from workingpapers.foundations.outcome import Table
    from workingpapers.replication.runner import Watcher

VERDICT_STYLES = {"supported": "green", "not supported": "red", "inconclusive": "yellow"}


def print_table(console: Console, table: Table) -> None:
    """Print a table of an outcome."""
    from workingpapers.foundations.outcome import format_cell

    shown = rich_table(*table.columns, title=table.title or None)
    for row in table.rows:
        shown.add_row(*(escaped(format_cell(value)) for value in row))
    console.print(shown)
    if table.note:
        console.print(f"[dim]{escaped(table.note)}[/dim]")


def print_json(value: Any) -> int:
    """Print a value as JSON and return exit code 0."""
    json.dump(value, sys.stdout, indent=1, ensure_ascii=False, default=str)
    sys.stdout.write("\n")
    return 0


def console_for(*, stderr: bool = False) -> Console:
    """Return a console on standard output, or on standard error."""
    from rich.console import Console

    return Console(stderr=stderr, highlight=False)


def rich_table(*columns: str, title: str | None = None) -> Any:
    """Return an empty table in the house's look."""
    from rich import box
    from rich.table import Table as RichTable

    table = RichTable(title=title, box=box.SIMPLE_HEAD, title_justify="left", pad_edge=False)
    for name in columns:
        table.add_column(name, overflow="fold")
    return table


def verdict_text(verdict: str | None) -> str:
    """Return a verdict with its colour."""
    return f"[{VERDICT_STYLES[verdict]}]{verdict}[/]" if verdict else "not measured"


def highlighted(text: str, spans: Sequence[tuple[int, int]], style: str) -> Any:
    """Return a text with spans marked."""
    from rich.text import Text

    shown = Text(text, style=style)
    for start, end in spans:
        shown.stylize("bold underline yellow", start, end)
    return shown


def escaped(text: str) -> str:
    """Return a text that rich prints as it is."""
    from rich.markup import escape

    return escape(text)


@contextmanager
def spinner(text: str) -> Iterator[Any]:
    """Show that work goes on, where somebody watches; gives a function that changes the message."""
    console = console_for(stderr=True)
    if not console.is_terminal:
        yield lambda message: None
        return
    with console.status(text) as status:
        yield lambda message: status.update(f"{text}: {escaped(message)}")


@contextmanager
def work_progress(title: str) -> Iterator[Any]:
    """Show a bar for a paper's command; gives its progress callback."""
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    console = console_for(stderr=True)
    if not console.is_terminal:
        yield lambda fraction, message="": None
        return
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as bars:
        task = bars.add_task(title, total=1.0)

        def tell(fraction: float, message: str = "") -> None:
            bars.update(task, completed=fraction, description=f"{title} {escaped(message)}".strip())
            if fraction >= 1:
                bars.stop()  # what follows may talk with the person, whose typing a live bar would overwrite

        yield tell


@contextmanager
def check_progress(console: Console, title: str) -> Iterator[Watcher]:
    """Show a bar for a claim; gives the runner's watcher."""
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
            bars.update(task, total=event.total, completed=event.done, note=escaped(note if event.arm else ""))

        try:
            yield watch
        except KeyboardInterrupt:
            bars.stop()
            console.print("Interrupted. What was finished is stored; the same command goes on with the rest.")
            raise
