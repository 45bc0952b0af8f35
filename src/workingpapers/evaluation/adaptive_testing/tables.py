"""Tables in: answers and what is known about the items."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from workingpapers.evaluation.adaptive_testing.bank import check_binary
from workingpapers.evaluation.adaptive_testing.constraints import Constraints
from workingpapers.foundations.errors import InputError, near_match
from workingpapers.foundations.files import column, read_table

FEWEST_EXAMINEES = 30


@dataclass(frozen=True)
class Log:
    """Answers: 0, 1 or NaN, shape (N, n), and the name of each item."""

    responses: np.ndarray
    names: tuple[str, ...]


@dataclass(frozen=True)
class About:
    """What is known about items, by name; items that a table does not mention have none."""

    area: Mapping[str, str] = field(default_factory=dict)
    enemies: Mapping[str, str] = field(default_factory=dict)
    text: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Blueprint:
    """Area -> fewest and most items."""

    minimum: Mapping[str, int]
    maximum: Mapping[str, int]


@dataclass(frozen=True)
class Parts:
    """Answers of three groups of examinees, shape (N, n) each."""

    train: np.ndarray
    validation: np.ndarray
    test: np.ndarray


def read_log(path: Path, examinee: str, length: int) -> Log:
    """Read a table with one row an examinee and one column an item.

    Args:
        path: CSV, TSV or Parquet.
        examinee: Column that names the examinees; it is left out where it exists.
        length: Answers that each examinee must have, the length of a test.

    Raises:
        InputError: Not such a table, an answer is not 0, 1 or empty, or too few examinees, items or answers.
    """
    frame = read_table(path)
    frame = frame.drop(columns=[examinee], errors="ignore")
    names = tuple(str(name) for name in frame.columns)
    for name in frame.columns:
        if frame[name].dtype.kind not in "biuf" and frame[name].notna().any():
            value = frame[name].dropna().iloc[0]
            raise InputError(
                f"Column {str(name)!r} of {str(path)!r} holds {str(value)[:40]!r}, which is no answer; give 0, 1 or "
                "nothing, or name the column of the examinees with --examinee."
            )
    matrix = check_binary(frame.to_numpy(dtype=np.float64, na_value=np.nan))
    if len(matrix) < FEWEST_EXAMINEES:
        raise InputError(
            f"{str(path)!r} holds {len(matrix)} examinees; at least {FEWEST_EXAMINEES} are needed to calibrate items, "
            "and some hundreds to trust them."
        )
    _check_lengths(matrix, length)
    return Log(matrix, names)


def _check_lengths(matrix: np.ndarray, length: int) -> None:
    if matrix.shape[1] < length:
        raise InputError(f"A test of {length} items cannot be asked from {matrix.shape[1]} items; lower --items.")
    answers = (~np.isnan(matrix)).sum(axis=1)
    if answers.min() < length:
        short = int(np.argmin(answers))
        raise InputError(
            f"Examinee {short + 1} has {answers[short]} answers to items that can be asked, fewer than the {length} of "
            "a test; lower --items or leave such examinees out."
        )


def split(log: Log, length: int, seed: int) -> tuple[Parts, Log, tuple[str, ...]]:
    """Return answers of train, validation and test examinees (60, 20, 20 %) and the items that can be calibrated.

    Args:
        log: The answers.
        length: Answers that each examinee must have to the items that stay.
        seed: Seed of the split.

    Returns:
        The three groups, the log with the items that had both answers among the training examinees, and the names of
        those that had not.

    Raises:
        InputError: Nothing can be calibrated, or an examinee has too few answers left.
    """
    order = np.random.default_rng(seed).permutation(len(log.responses))
    first, second = round(0.6 * len(order)), round(0.8 * len(order))
    train = log.responses[order[:first]]
    varied = (train == 0).any(axis=0) & (train == 1).any(axis=0)
    if not varied.any():
        raise InputError("No item has both right and wrong answers, so nothing can be calibrated.")
    kept = log.responses[:, varied]
    _check_lengths(kept, length)
    names = tuple(name for name, keep in zip(log.names, varied, strict=True) if keep)
    left_out = tuple(name for name, keep in zip(log.names, varied, strict=True) if not keep)
    parts = Parts(kept[order[:first]], kept[order[first:second]], kept[order[second:]])
    return parts, Log(kept, names), left_out


def read_about(path: Path | None, names: tuple[str, ...]) -> About:
    """Read a table of items: item, and any of area, enemies, text.

    Args:
        path: CSV, TSV or Parquet; None for nothing known.
        names: Items of the log, n of them.

    Raises:
        InputError: There is no column item, or none of its items is in the log.
    """
    if path is None:
        return About()
    frame = read_table(path)
    items = [str(value) for value in column(frame, "item", path)]
    if not set(items) & set(names):
        raise InputError(
            f"No item of {str(path)!r} is among the answers (the first is {items[0]!r}"
            f"{near_match(items[0], names) or ''}); use the same names."
        )

    def values(name: str) -> dict[str, str]:
        if name not in frame.columns:
            return {}
        return {item: str(value) for item, value in zip(items, frame[name], strict=True) if value == value}

    return About(values("area"), values("enemies"), values("text"))


def read_blueprint(text: str) -> Blueprint:
    """Read ``"algebra=3-5,geometry=2-"``: fewest and most items of an area, either of which may be missing.

    Args:
        text: The blueprint; empty for none.

    Raises:
        InputError: An entry has another form.
    """
    minimum, maximum = {}, {}
    for entry in filter(None, (piece.strip() for piece in text.split(","))):
        match = re.fullmatch(r"(.+?)\s*=\s*(\d*)\s*(-?)\s*(\d*)", entry)
        if not match or not (match[2] or match[4]):
            raise InputError(f"The blueprint entry {entry!r} is not AREA=FEWEST-MOST, as in algebra=3-5 or algebra=3-.")
        area, low, dash, high = match[1].strip(), match[2], match[3], match[4]
        if low:
            minimum[area] = int(low)
        if high or not dash:
            maximum[area] = int(high or low)
    return Blueprint(minimum, maximum)


def constraints(about: About, blueprint: Blueprint, names: tuple[str, ...], top: int) -> Constraints:
    """Return the constraints of a test.

    Args:
        about: What is known about items.
        blueprint: Fewest and most items of an area.
        names: Items of the bank, n of them.
        top: Choose among this many best items.

    Raises:
        InputError: There is a blueprint but no areas.
    """
    if (blueprint.minimum or blueprint.maximum) and not about.area:
        raise InputError(
            "A blueprint needs the areas of the items; name a table with the columns item and area (--about)."
        )
    areas = tuple(about.area.get(name, "") for name in names) if about.area else ()
    enemies = tuple(about.enemies.get(name, "") for name in names) if about.enemies else ()
    return Constraints(areas, blueprint.minimum, blueprint.maximum, enemies, top)
