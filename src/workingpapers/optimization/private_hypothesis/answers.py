"""From files to a released answer: what the command reads, says and draws. Nothing private but the answer leaves it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from workingpapers.foundations.errors import InputError
from workingpapers.foundations.files import column as column_of
from workingpapers.foundations.files import read_table
from workingpapers.foundations.outcome import Figure, Outcome, Table
from workingpapers.foundations.privacy.statement import PrivacyStatement
from workingpapers.foundations.progress import Progress
from workingpapers.foundations.report import Section, heading, paragraph, write_report
from workingpapers.optimization.private_hypothesis.estimation import Estimate, estimate
from workingpapers.optimization.private_hypothesis.pictures import bound_picture, cover_picture, table_picture
from workingpapers.optimization.private_hypothesis.scores import check_table
from workingpapers.optimization.private_hypothesis.selection import select_hypothesis

Floats = NDArray[np.float64]


def estimate_from_file(
    data: Path, column: str, family: str, bounds: Sequence[float], epsilon: float, *, report: Path | None = None,
    progress: Progress, **options: Any,
) -> Outcome:  # fmt: skip
    """Estimate from a column of a file and say what is released.

    Args:
        data: File of the records.
        column: Column of numbers.
        family: Name of the family.
        bounds: Bounds of its first parameter.
        epsilon: Privacy budget.
        report: HTML file to write.
        progress: Called along the way.
        **options: Options of :func:`estimate`.
    """
    values = _numbers(read_table(data), column, data)
    found = estimate(values, family, bounds, epsilon, progress=progress, **options)
    shown = ", ".join(f"{name} {value:.4g}" for name, value in found.parameters.items())
    bound = _bound_sentence(found.distance_bound, options["beta"], f"the records come from the {family} family")
    summary = f"The private estimate is {shown}. {bound} {_warning(found.privacy)}"
    rows = [[name, value, *_range(found, index)] for index, (name, value) in enumerate(found.parameters.items())]
    tables = (Table(("parameter", "estimate", "lowest allowed", "highest allowed"), rows, "Released"),
              _statement_table(found.privacy))  # fmt: skip
    candidates = len(found.cover.table)
    figures = (
        cover_picture(found.cover, found.selection.index),
        bound_picture(candidates, len(values), epsilon, options["beta"], 3 * found.cover.radius),
    )
    released = {
        "parameters": found.parameters,
        "family": family,
        "candidates": candidates,
        "cover_radius": found.cover.radius,
        "distance_bound": found.distance_bound,
        "privacy": found.privacy.as_dict(),
    }
    return _outcome(summary.strip(), tables, figures, released, found.privacy, report, f"Private estimate: {family}")


def choose_from_files(
    data: Path, column: str, hypotheses: Path, epsilon: float, *, report: Path | None = None, progress: Progress,
    **options: Any,
) -> Outcome:  # fmt: skip
    """Choose among the rows of a table by a column of a file and say what is released.

    Args:
        data: File of the records.
        column: Column of values of the domain.
        hypotheses: File of the candidates.
        epsilon: Privacy budget.
        report: HTML file to write.
        progress: Called along the way.
        **options: Options of :func:`select_hypothesis`.
    """
    names, domain, table = read_hypotheses(hypotheses)
    points = _points(read_table(data), column, domain, data)
    found = select_hypothesis(table, points, epsilon, progress=progress, **options)
    name, bound = names[found.index], float(found.error_bound or 0.0)
    said = _bound_sentence(bound, options["beta"], "one candidate is exactly right")
    if bound < 1:
        said += " Otherwise three times the distance of the best candidate comes on top."
    summary = f"The private choice is {name!r}, one of {len(names)} candidates. {said} {_warning(found.privacy)}"
    chosen = Table(("value", "probability"), list(zip(domain, found.hypothesis.tolist(), strict=True))[:20],
                   f"Released: {name}", "" if len(domain) <= 20 else f"{len(domain) - 20} further values.")  # fmt: skip
    figures = (
        table_picture(domain, found.hypothesis, name),
        bound_picture(len(names), len(points), epsilon, options["beta"], 0.0),
    )
    released = {
        "choice": name,
        "index": found.index,
        "candidates": len(names),
        "probabilities": dict(zip(domain, found.hypothesis.tolist(), strict=True)),
        "error_bound": bound,
        "privacy": found.privacy.as_dict(),
    }
    tables = (chosen, _statement_table(found.privacy))
    return _outcome(summary.strip(), tables, figures, released, found.privacy, report, "Private choice")


def read_hypotheses(path: Path) -> tuple[list[str], list[str], Floats]:
    """Return names, values of the domain and probabilities, shape (n, X), of a table of candidates.

    Args:
        path: The file: names in the first column, one further column for each value of the domain.

    Raises:
        InputError: No such table; the offending row, value or sum is named.
    """
    frame = read_table(path)
    domain = [str(name).strip() for name in frame.columns[1:]]
    if len(domain) < 2:
        raise InputError(f"{str(path)!r} has {len(frame.columns)} columns; give a column of names and at least two "
                         "columns of probabilities.")  # fmt: skip
    names = [str(name) for name in frame.iloc[:, 0]]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise InputError(f"{str(path)!r} holds two hypotheses named {twice!r}; give each its own name.")
    rows = []
    for name, (_, row) in zip(names, frame.iloc[:, 1:].iterrows(), strict=True):
        for value, cell in zip(domain, row, strict=True):
            try:
                probability = float(cell)
            except (TypeError, ValueError):
                probability = float("nan")
            if not 0 <= probability <= 1:
                raise InputError(
                    f"Hypothesis {name!r} gives {value!r} the probability {cell}; use a number from 0 to 1."
                )
        sums = float(np.asarray(row, np.float64).sum())
        if abs(sums - 1) > 1e-6:
            raise InputError(f"The probabilities of hypothesis {name!r} sum to {sums:.8g}; each row must sum to 1.")
        rows.append(np.asarray(row, np.float64) / sums)
    return names, domain, check_table(np.array(rows))


def _numbers(frame: Any, column: str, path: Path) -> Floats:
    cells = column_of(frame, column, path)
    found = np.empty(len(cells))
    for row, cell in enumerate(cells):
        try:
            found[row] = float(cell)
        except (TypeError, ValueError):
            raise InputError(f"Row {row + 2} of {str(path)!r} has {column} {cell!r}, which is no number.") from None
        if not np.isfinite(found[row]):
            raise InputError(f"Row {row + 2} of {str(path)!r} has {column} {cell}; drop rows without a finite number.")
    return found


def _points(frame: Any, column: str, domain: Sequence[str], path: Path) -> NDArray[np.int64]:
    places = {_plain(value): place for place, value in enumerate(domain)}
    found = np.empty(len(frame), np.int64)
    for row, cell in enumerate(column_of(frame, column, path)):
        place = places.get(_plain(cell))
        if place is None:
            shown = ", ".join(domain[:8]) + (", ..." if len(domain) > 8 else "")
            raise InputError(f"Row {row + 2} of {str(path)!r} has {column} '{cell}', which is outside the domain "
                             f"({shown}).")  # fmt: skip
        found[row] = place
    return found


def _plain(value: Any) -> str:
    """Return one spelling for 1, 1.0 and ``"1"``: a column with gaps turns whole numbers into decimals."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        return str(value).strip()
    return f"{number:.15g}"


def _bound_sentence(bound: float, beta: float, condition: str) -> str:
    if bound >= 1:
        return "There are too few records for a bound on its error at this epsilon."
    return (f"With probability {1 - beta:g} its distribution is within {bound:.3g} of the true one in total variation "
            f"if {condition}.")  # fmt: skip


def _warning(privacy: PrivacyStatement) -> str:
    return "" if privacy.secure else "The noise came from a seed: this release protects nobody."


def _range(found: Estimate, index: int) -> tuple[float, float]:
    values = found.cover.parameters[:, index]
    return float(values.min()), float(values.max())


def _statement_table(privacy: PrivacyStatement) -> Table:
    rows = [line.strip().rstrip(".").split(": ", 1) for line in privacy.text().splitlines()]
    return Table(("privacy", "what it says"), [row if len(row) == 2 else ["", row[0]] for row in rows])


def _outcome(
    summary: str,
    tables: Sequence[Table],
    figures: Sequence[Figure],
    released: dict[str, Any],
    privacy: PrivacyStatement,
    report: Path | None,
    title: str,
) -> Outcome:
    files: list[Path] = []
    if report is not None:
        guide = (
            "This page holds the released answer and public facts alone. Each further run on these records adds its "
        )
        sections: list[Section] = [paragraph(summary), tables[0], *figures, heading("Privacy"), tables[1],
                    paragraph(guide + f"own epsilon to the {privacy.epsilon:g} spent here.", "soft")]  # fmt: skip
        files.append(write_report(report, title, sections))
    return Outcome(summary, tables, figures, files, released)
