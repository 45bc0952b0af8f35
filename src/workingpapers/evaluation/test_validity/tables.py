"""From two response tables and a table of items to a study: checked, keyed, one row per independent subject."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from workingpapers.evaluation.test_validity.differential import Kind
from workingpapers.foundations.errors import InputError
from workingpapers.foundations.files import column, read_table

if TYPE_CHECKING:
    import pandas as pd

MOST_CATEGORIES = 4
FEWEST_ROWS = 10
EVERY_ROW = "rows"
Model = Literal["auto", "factor", "response"]


@dataclass(frozen=True)
class Study:
    """Answers of two populations to the same items.

    Args:
        human: Complete answers, negatively keyed items turned round, shape (n_1, p).
        ai: Those of the AI sample, one row for each independent subject, shape (n_2, p).
        names: Names of the items.
        scales: Scale of each item.
        keys: +1 or -1, shape (p,).
        low: Lowest possible answer.
        high: Highest possible answer.
        kind: ``"binary"``, ``"ordinal"`` (up to four categories) or ``"continuous"``.
        seen: Whether each item was public before the AI was trained, bool, shape (p,); None where unknown.
        repeated: AI answers by subject, item and occasion, complete, shape (s, p, o); None without repetitions.
        notes: What was left out and why.
    """

    human: np.ndarray
    ai: np.ndarray
    names: tuple[str, ...]
    scales: tuple[str, ...]
    keys: np.ndarray
    low: float
    high: float
    kind: Kind
    seen: np.ndarray | None = None
    repeated: np.ndarray | None = None
    notes: tuple[str, ...] = ()

    @property
    def scale_names(self) -> tuple[str, ...]:
        """The scales, in the order of their first items."""
        return tuple(dict.fromkeys(self.scales))

    @property
    def pattern(self) -> np.ndarray:
        """Which item belongs to which scale, bool, shape (p, m)."""
        return np.array([[own == scale for scale in self.scale_names] for own in self.scales])

    def as_given(self, answers: np.ndarray) -> np.ndarray:
        """Return answers with the negatively keyed items turned back.

        Args:
            answers: Turned answers, shape (n, p).
        """
        return np.where(self.keys > 0, answers, self.low + self.high - answers)


def make_study(
    human: np.ndarray,
    ai: np.ndarray,
    names: tuple[str, ...],
    scales: tuple[str, ...],
    keys: np.ndarray,
    *,
    bounds: tuple[float, float] | None = None,
    model: Model = "auto",
    seen: np.ndarray | None = None,
    repeated: np.ndarray | None = None,
    notes: tuple[str, ...] = (),
) -> Study:
    """Check answers, turn the negatively keyed items and leave out rows with gaps.

    Args:
        human: Answers as given, shape (n_1, p), NaN where missing.
        ai: Answers as given, shape (n_2, p).
        names: Names of the items.
        scales: Scale of each item.
        keys: +1, or -1 for items that agree with the low end of the scale, shape (p,).
        bounds: Lowest and highest possible answer; what occurs, where None.
        model: ``"factor"`` takes answers as numbers, ``"response"`` as categories, ``"auto"`` decides by their number.
        seen: Whether items were public before training, bool, shape (p,).
        repeated: AI answers as given by subject, item and occasion, shape (s, p, o).
        notes: What happened before.

    Raises:
        InputError: An answer out of bounds, an item without variation, a scale of fewer than three items, or too few
            complete rows.
    """
    both = np.vstack([human, ai])
    if np.isnan(both).all():
        raise InputError("The tables hold no answers to these items; check the names of the items.")
    low, high = bounds if bounds else (float(np.nanmin(both)), float(np.nanmax(both)))
    wrong = both[~np.isnan(both) & ((both < low) | (both > high))]
    if len(wrong):
        raise InputError(f"An answer is {wrong[0]:g}, outside {low:g} to {high:g}; set --lowest and --highest.")
    for scale in dict.fromkeys(scales):
        if scales.count(scale) < 3:
            raise InputError(
                f"Scale {scale!r} has {scales.count(scale)} items, but a structure can be tested from three on; "
                "join it to another or leave it out of the items."
            )
    remarks = list(notes)
    complete = []
    for label, answers in (("human", human), ("AI", ai)):
        whole = answers[~np.isnan(answers).any(axis=1)]
        if len(whole) < FEWEST_ROWS:
            raise InputError(
                f"The {label} table has {len(whole)} independent rows without gaps; at least {FEWEST_ROWS} are needed."
            )
        constant = [name for name, deviation in zip(names, whole.std(axis=0), strict=True) if deviation == 0]
        if constant:
            raise InputError(
                f"Every {label} row gives the same answer to {', '.join(constant[:6])}, so nothing can be "
                "learned from that; leave these items out and say so."
            )
        if len(whole) < len(answers):
            remarks.append(f"{len(answers) - len(whole)} of {len(answers)} {label} rows have gaps and are left out.")
        complete.append(np.where(keys > 0, whole, low + high - whole))
    categories = len(np.unique(both[~np.isnan(both)]))
    binary = categories == 2
    few = categories <= MOST_CATEGORIES if model == "auto" else model == "response"
    if few and categories > 12:
        raise InputError(f"Answers take {categories} values; over the 12 of the response model; choose --model factor.")
    turned = None if repeated is None else np.where(keys[:, None] > 0, repeated, low + high - repeated)
    return Study(
        complete[0], complete[1], names, scales, keys, low, high,
        "binary" if binary and few else "ordinal" if few else "continuous", seen, turned, tuple(remarks),
    )  # fmt: skip


def read_study(
    human: Path,
    ai: Path,
    items: Path | None,
    *,
    subject: str,
    occasion: str | None,
    bounds: tuple[float | None, float | None],
    model: Model,
    seed: int,
) -> Study:
    """Read the tables of a study.

    Args:
        human: Table with a row for each person and a column for each item.
        ai: Table with the same items.
        items: Table with a column ``item`` and, as known, ``scale``, ``key`` (1 or -1) and ``seen`` (0 or 1); None
            takes every numeric column that both tables have as one scale.
        subject: Column of `ai` that names the independent subject; ``"rows"`` where each row is one.
        occasion: Column of `ai` with the prompt wording or the occasion, for the study of generalisability.
        bounds: Lowest and highest possible answer, None where unknown.
        model: See :func:`make_study`.
        seed: Decides which row stands for a subject with several.

    Raises:
        InputError: See :func:`make_study`; or a column that is missing or not numeric.
    """
    people, systems = read_table(human), read_table(ai)
    known = {subject, occasion} - {None, EVERY_ROW}
    for name in sorted(str(each) for each in known):
        column(systems, name, ai)
    if occasion is not None and subject == EVERY_ROW:
        raise InputError("--occasion needs --subject: repetitions belong to a subject; name the column of the subject.")
    names, scales, keys, seen = _read_items(items, people, systems, human, known)
    first = _numbers(people, names, human)
    second = _numbers(systems, names, ai)
    notes: list[str] = []
    repeated = None
    if subject == EVERY_ROW:
        copies = len(second) - len(np.unique(second, axis=0))
        if copies > len(second) / 4:
            notes.append(
                f"{copies} of {len(second)} AI rows repeat another row exactly. If rows come from fewer models, name "
                "the column of the model as subject: copies are no evidence."
            )
    else:
        labels = column(systems, subject, ai).astype(str).to_numpy()
        if occasion is not None:
            repeated = _crossed(second, labels, column(systems, occasion, ai).astype(str).to_numpy())
            if repeated is None:
                notes.append("No two subjects have all occasions, so generalisability is not studied.")
        chosen = _one_row_each(second, labels, np.random.default_rng(seed))
        if len(chosen) < len(second):
            notes.append(
                f"{len(second)} AI rows come from {len(chosen)} subjects; one row of each, drawn at random, is "
                "analysed, because rows of one subject are not independent."
            )
        second = second[chosen]
    given = None
    if bounds[0] is not None or bounds[1] is not None:
        both = np.vstack([first, second])
        seen_low, seen_high = np.nanmin(both), np.nanmax(both)
        given = (
            float(bounds[0] if bounds[0] is not None else seen_low),
            float(bounds[1] if bounds[1] is not None else seen_high),
        )
    return make_study(
        first, second, names, scales, keys, bounds=given, model=model, seen=seen, repeated=repeated, notes=tuple(notes)
    )


def _read_items(
    path: Path | None, people: pd.DataFrame, systems: pd.DataFrame, human: Path, skip: set[Any]
) -> tuple[tuple[str, ...], tuple[str, ...], np.ndarray, np.ndarray | None]:
    if path is None:
        numeric = people.select_dtypes("number").columns
        names = tuple(str(name) for name in numeric if name in systems.columns and name not in skip)
        if len(names) < 3:
            raise InputError(
                f"{str(human)!r} shares {len(names)} numeric columns with the AI table; three or more are needed, "
                "or name them in --items."
            )
        return names, ("all items",) * len(names), np.ones(len(names)), None
    table = read_table(path)
    names = tuple(column(table, "item", path).astype(str))
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise InputError(f"{str(path)!r} names item {twice!r} twice; keep one row.")
    scales = tuple(table["scale"].astype(str)) if "scale" in table else ("all items",) * len(names)
    keys = _marks(table, "key", (1, -1), path) if "key" in table else np.ones(len(names))
    return names, scales, keys, _marks(table, "seen", (0, 1), path) > 0 if "seen" in table else None


def _marks(table: pd.DataFrame, name: str, allowed: tuple[int, int], path: Path) -> np.ndarray:
    for value in table[name]:
        if value not in allowed:
            raise InputError(f"{str(path)!r} has {value!r} in column {name!r}; use {allowed[0]} or {allowed[1]}.")
    return table[name].to_numpy(np.float64)


def _numbers(frame: pd.DataFrame, names: tuple[str, ...], path: Path) -> np.ndarray:
    import pandas as pd

    values = np.empty((len(frame), len(names)))
    for j, name in enumerate(names):
        raw = column(frame, name, path)
        numbers = pd.to_numeric(raw, errors="coerce")
        bad = raw[numbers.isna() & raw.notna()]
        if len(bad):
            raise InputError(f"{str(path)!r} has {bad.iloc[0]!r} in column {name!r}; answers are numbers or empty.")
        values[:, j] = numbers.to_numpy(np.float64)
    if np.isinf(values).any():
        raise InputError(f"{str(path)!r} holds an infinite answer; leave missing answers empty.")
    return values


def _one_row_each(answers: np.ndarray, labels: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    order = rng.permutation(len(answers))
    # Rows without gaps first, so that a subject is lost only where all its rows have gaps.
    order = order[np.argsort(np.isnan(answers[order]).any(axis=1), kind="stable")]
    return np.sort(order[np.unique(labels[order], return_index=True)[1]])


def _crossed(answers: np.ndarray, labels: np.ndarray, occasions: np.ndarray) -> np.ndarray | None:
    """Return the answers of the subjects that have every occasion once or more, shape (s, p, o)."""
    subjects, times = np.unique(labels), np.unique(occasions)
    cube = np.full((len(subjects), answers.shape[1], len(times)), np.nan)
    cube[np.searchsorted(subjects, labels), :, np.searchsorted(times, occasions)] = answers
    cube = cube[~np.isnan(cube).any(axis=(1, 2))]
    return cube if min(cube.shape) >= 2 else None
