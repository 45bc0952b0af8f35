"""Reading preferences: a log of comparisons, rankings (one a row) or a square matrix, told apart by what is in them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np

from workingpapers.foundations.errors import InputError
from workingpapers.foundations.files import column, read_table
from workingpapers.preferences.condorcet_nash.matrices import (
    check_preferences,
    check_wins,
    ranks_from_rankings,
    votes_from_ranks,
    win_rates,
    wins_from_votes,
)

if TYPE_CHECKING:
    import pandas as pd

Format = Literal["log", "rankings", "matrix"]
NOT_RESPONSES = ("labeler", "voter", "judge", "persona", "id")
VOTES = 20_000_000
"""Numbers held at once in votes of single labelers; larger panels are only counted."""
OUTCOMES = {"1": 1.0, "1.0": 1.0, "first": 1.0, "a": 1.0, "0": 0.0, "0.0": 0.0, "second": 0.0, "b": 0.0,
            "0.5": 0.5, "tie": 0.5, "draw": 0.5}  # fmt: skip


@dataclass(frozen=True)
class Preferences:
    """Preferences over the responses to one prompt.

    Args:
        names: Names of the responses, n of them.
        rates: P with NaN for pairs never compared, shape (n, n).
        wins: Comparisons won, shape (n, n), or None where only shares are known.
        votes: Votes of labelers who judged every pair, shape (m, n, n), or None.
        prompt: The prompt, empty where there is only one.
        ranked: Whether the counts come from rankings, so that comparisons of one labeler are not independent.
    """

    names: tuple[str, ...]
    rates: np.ndarray
    wins: np.ndarray | None
    votes: np.ndarray | None = None
    prompt: str = ""
    ranked: bool = False


def read_preferences(path: Path, kind: Format | None = None, *, pool: bool = False) -> tuple[Format, list[Preferences]]:
    """Read the preferences of one or several prompts.

    Args:
        path: A table with a header line. A log has the columns winner and loser, or first, second and outcome, and may
            have a column prompt. Rankings have one row a labeler: names of responses, best first, or one column a
            response with its rank. A matrix has one row and column a response: shares that add up to one for each
            pair, or numbers of wins.
        kind: What it is; told from the content where None.
        pool: Whether to take all prompts of a log together.

    Returns:
        The kind, and the preferences of each prompt in order of appearance.

    Raises:
        InputError: The file cannot be read as that kind; the sentence names the row, the column or the pair.
    """
    table = read_table(path)
    kind = kind or _tell(table)
    if kind == "log":
        return kind, _read_log(table, path, pool)
    return kind, [_read_rankings(table, path) if kind == "rankings" else _read_matrix(table, path)]


def _tell(table: pd.DataFrame) -> Format:
    names = {str(name).strip().lower() for name in table.columns}
    if {"winner", "loser"} <= names or "outcome" in names:
        return "log"
    body = _numbers(_without_labels(table))
    if body is not None and body.shape[0] == body.shape[1] and not _are_rankings(body):
        return "matrix"
    return "rankings"


def _are_rankings(body: np.ndarray) -> bool:
    # Ranks start at 1 in every row; a matrix has a diagonal of 0, 1/2 or nothing.
    return bool((np.nanmin(np.where(np.isnan(body), np.inf, body), axis=1) == 1).all())


def _without_labels(table: pd.DataFrame) -> pd.DataFrame:
    """Return the table without a leading column that repeats the header, or that names the labelers."""
    first = str(table.columns[0])
    rest = [str(name) for name in table.columns[1:]]
    labels = [str(value) for value in table.iloc[:, 0]]
    repeats = labels == rest and _numbers(table.iloc[:, 1:]) is not None
    if repeats or first.strip().lower() in NOT_RESPONSES:
        return table.iloc[:, 1:]
    return table


def _numbers(table: pd.DataFrame) -> np.ndarray | None:
    try:
        return np.asarray(table.to_numpy(dtype=np.float64, na_value=np.nan))
    except (TypeError, ValueError):
        return None


def _read_log(table: pd.DataFrame, path: Path, pool: bool) -> list[Preferences]:
    table = table.rename(columns={name: str(name).strip().lower() for name in table.columns})
    decided = "winner" in table.columns and "loser" in table.columns
    wanted = ("winner", "loser") if decided else ("first", "second", "outcome")
    words = [[_word(value) for value in column(table, name, path)] for name in wanted]
    for row, cells in enumerate(zip(*words, strict=True), start=2):
        if not all(cells):
            raise InputError(
                f"Row {row} of {str(path)!r} has an empty {wanted[cells.index('')]}; complete or remove it."
            )
        if cells[0] == cells[1]:
            raise InputError(f"Row {row} of {str(path)!r} compares {cells[0]!r} with itself; remove it.")
    first, second = words[0], words[1]
    outcome = [1.0] * len(first) if decided else []
    if not decided:
        for row, cells in enumerate(zip(*words, strict=True), start=2):
            outcome.append(_outcome(cells[0], cells[1], cells[2], row, path))
    prompted = "prompt" in table.columns and not pool
    prompts = [_word(value) for value in table["prompt"]] if prompted else [""] * len(first)
    return [
        _log_of(prompt, [k for k, owner in enumerate(prompts) if owner == prompt], first, second, outcome)
        for prompt in dict.fromkeys(prompts)
    ]


def _log_of(
    prompt: str, rows: list[int], first: Sequence[str], second: Sequence[str], outcome: Sequence[float]
) -> Preferences:
    names = tuple(dict.fromkeys(name for k in rows for name in (first[k], second[k])))
    number = {name: index for index, name in enumerate(names)}
    wins = np.zeros((len(names), len(names)))
    for k in rows:
        i, j = number[first[k]], number[second[k]]
        wins[i, j] += outcome[k]
        wins[j, i] += 1 - outcome[k]
    return Preferences(names, win_rates(wins), wins, prompt=prompt)


def _outcome(first: str, second: str, outcome: str, row: int, path: Path) -> float:
    if outcome == first:
        return 1.0
    if outcome == second:
        return 0.0
    value = OUTCOMES.get(outcome.lower())
    if value is None:
        raise InputError(
            f"Row {row} of {str(path)!r} has the outcome {outcome!r}; use 1, 0 or 0.5, first, second or tie, or the "
            "winner's name."
        )
    return value


def _read_rankings(table: pd.DataFrame, path: Path) -> Preferences:
    body = _without_labels(table)
    ranks = _numbers(body)
    if ranks is not None:
        if np.isnan(ranks).all(axis=1).any():
            row = int(np.argmax(np.isnan(ranks).all(axis=1))) + 2
            raise InputError(f"Row {row} of {str(path)!r} ranks nothing; remove it.")
        if not _are_rankings(ranks):
            raise InputError(
                f"{str(path)!r} holds no ranks: in each row the best response must have rank 1. For a matrix, give as "
                "many rows as columns and --format matrix."
            )
        names = tuple(str(name) for name in body.columns)
    else:
        rows = [[_word(value) for value in row if _word(value)] for row in body.itertuples(index=False)]
        header = [str(name) for name in body.columns]
        if set(header) == {name for row in rows for name in row}:
            rows = [header, *rows]  # there was no header line: it is the first labeler's ranking
        names = tuple(dict.fromkeys(name for row in rows for name in row))
        number = {name: index for index, name in enumerate(names)}
        ranks = _ranked([[number[name] for name in row] for row in rows], names, path)
    if len(names) < 2:
        raise InputError(f"{str(path)!r} ranks {len(names)} response; two or more are needed.")
    step = max(1, VOTES // len(names) ** 2)
    blocks = (votes_from_ranks(ranks[start : start + step]) for start in range(0, len(ranks), step))
    wins = sum((wins_from_votes(block) for block in blocks), np.zeros((len(names), len(names))))
    panel = 1 < len(ranks) <= step and not np.isnan(ranks).any()
    return Preferences(names, win_rates(wins), wins, votes_from_ranks(ranks) if panel else None, ranked=True)


def _ranked(rows: list[list[int]], names: tuple[str, ...], path: Path) -> np.ndarray:
    for line, row in enumerate(rows, start=1):
        repeated = next((number for k, number in enumerate(row) if number in row[:k]), None)
        if repeated is not None:
            raise InputError(f"Ranking {line} of {str(path)!r} lists {names[repeated]!r} twice; list it once.")
    return ranks_from_rankings([row for row in rows if row], len(names))


def _read_matrix(table: pd.DataFrame, path: Path) -> Preferences:
    body = _without_labels(table)
    matrix = _numbers(body)
    if matrix is None or matrix.shape[0] != matrix.shape[1]:
        size = f"{body.shape[0]} rows and {body.shape[1]} columns"
        raise InputError(f"{str(path)!r} is no square matrix of numbers ({size}); give one row and column a response.")
    names = tuple(str(name) for name in body.columns)
    shares = matrix.copy()
    np.fill_diagonal(shares, 0.5)
    sums = (shares + shares.T)[np.triu_indices(len(shares), 1)]
    known = sums[~np.isnan(sums)]
    # Numbers of wins are whole or half and some pair has more than one; shares of a pair add up to one.
    wins = np.where(np.isnan(matrix), 0.0, matrix)
    if len(known) and (known > 1.5).any() and (2 * wins % 1 == 0).all():
        return Preferences(names, win_rates(wins), check_wins(wins))
    return Preferences(names, check_preferences(shares, missing=True), None)


def _word(value: object) -> str:
    if value is None or (isinstance(value, float) and np.isnan(value)):
        return ""
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    text = str(value).strip()
    return "" if text == "<NA>" else text
