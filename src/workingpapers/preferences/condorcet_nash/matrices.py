r"""Preference matrices: what they must satisfy, and how counts, votes and rankings become one.

:math:`P_{ij}` is the share of the population that prefers response i to response j, so :math:`P_{ij} + P_{ji} = 1` and
:math:`P_{ii} = 1/2`. NaN stands for a pair that was never compared; it is never taken for a tie.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np

from workingpapers.foundations.errors import InputError

TIE = 1e-9
"""Shares closer to one half than this are ties: majorities are multiples of 1 / votes, rounding errors are not."""
SYMMETRY = 1e-6


def check_preferences(
    preferences: np.ndarray, *, diagonal: Literal["check", "half"] = "check", missing: bool = False
) -> np.ndarray:
    """Return a preference matrix as float64, checked.

    A zero diagonal would be a response that always loses to itself: the game would lose its value of one half and every
    policy would look mixed.

    Args:
        preferences: P, shape (n, n), n >= 2.
        diagonal: ``"check"`` refuses a diagonal other than one half, ``"half"`` sets it.
        missing: Whether NaN may stand for pairs that were never compared.

    Returns:
        P, float64, shape (n, n), exactly complementary.

    Raises:
        InputError: P is not such a matrix; the sentence names the shape, the entry or the pair.
    """
    matrix = np.array(preferences, dtype=np.float64)
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or len(matrix) < 2:
        raise InputError(
            f"The preference matrix has shape {matrix.shape}; give a square one with two or more responses."
        )
    if diagonal == "half":
        np.fill_diagonal(matrix, 0.5)
    elif not np.allclose(np.diag(matrix), 0.5, rtol=0, atol=SYMMETRY):
        at = int(np.argmax(~np.isclose(np.diag(matrix), 0.5, rtol=0, atol=SYMMETRY)))
        raise InputError(
            f"The diagonal holds {matrix[at, at]:g} at response {at}; a response ties with itself, so put 0.5 there "
            "(diagonal='half' does it)."
        )
    unknown = np.isnan(matrix)
    if unknown.any() and not missing:
        i, j = np.argwhere(unknown)[0]
        raise InputError(f"Responses {i} and {j} were never compared; compare them or leave one of them out.")
    if (unknown != unknown.T).any():
        i, j = np.argwhere(unknown != unknown.T)[0]
        raise InputError(f"P[{i},{j}] and P[{j},{i}] are {matrix[i, j]:g} and {matrix[j, i]:g}; give both or neither.")
    low, high = np.nanmin(matrix), np.nanmax(matrix)
    if low < -SYMMETRY or high > 1 + SYMMETRY:
        raise InputError(f"A preference is {low if low < 0 else high:g}; shares lie between 0 and 1.")
    gap = np.where(unknown, 0.0, np.abs(matrix + matrix.T - 1))
    if gap.max() > SYMMETRY:
        i, j = np.unravel_index(int(np.argmax(gap)), gap.shape)
        raise InputError(
            f"P[{i},{j}] + P[{j},{i}] = {matrix[i, j] + matrix[j, i]:g}; the two shares of a pair must add up to 1."
        )
    return np.asarray(np.clip((matrix + 1 - matrix.T) / 2, 0.0, 1.0))


def check_wins(wins: np.ndarray) -> np.ndarray:
    """Return a matrix of wins as float64, checked, its diagonal zero.

    Args:
        wins: wins[i, j] = comparisons that i won against j, a tie half to each side, shape (n, n), n >= 2.

    Raises:
        InputError: Not square, or an entry is negative or not finite.
    """
    matrix = np.array(wins, dtype=np.float64)
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or len(matrix) < 2:
        raise InputError(f"The wins have shape {matrix.shape}; give a square matrix with two or more responses.")
    np.fill_diagonal(matrix, 0.0)
    if not np.isfinite(matrix).all() or (matrix < 0).any():
        i, j = np.argwhere(~np.isfinite(matrix) | (matrix < 0))[0]
        raise InputError(f"wins[{i},{j}] is {matrix[i, j]:g}; numbers of wins are finite and not negative.")
    return matrix


def win_rates(wins: np.ndarray, *, empty: Literal["nan", "half", "refuse"] = "nan") -> np.ndarray:
    """Return P with P[i, j] = wins[i, j] / (wins[i, j] + wins[j, i]), shape (n, n).

    Args:
        wins: See :func:`check_wins`, shape (n, n).
        empty: What a pair without comparisons becomes: ``"nan"`` (unknown), ``"half"`` (a coin, on your word) or an
            error.

    Raises:
        InputError: Bad wins, or an empty pair under ``"refuse"``.
    """
    won = check_wins(wins)
    games = won + won.T
    known = games > 0
    rates = np.divide(won, games, out=np.full_like(won, 0.5 if empty == "half" else np.nan), where=known)
    np.fill_diagonal(rates, 0.5)
    return check_preferences(rates, missing=empty == "nan")


def ranks_from_rankings(rankings: Sequence[Sequence[int]] | np.ndarray, responses: int | None = None) -> np.ndarray:
    """Return rank numbers, 1 for the best, NaN where not listed, shape (m, n).

    Args:
        rankings: One row a labeler, response numbers, best first; rows may list a part only.
        responses: Number of responses n; the largest number listed plus one where None.

    Raises:
        InputError: No ranking, a repeated response, or a number that is not a response.
    """
    rows = [np.asarray(row, dtype=np.int64) for row in rankings]
    if not rows or not all(len(row) for row in rows):
        raise InputError("There is an empty ranking, or none; give one row of responses for each labeler.")
    n = responses if responses is not None else int(max(row.max() for row in rows)) + 1
    ranks = np.full((len(rows), n), np.nan)
    for labeler, row in enumerate(rows):
        if row.min() < 0 or row.max() >= n:
            raise InputError(f"Ranking {labeler + 1} names {row[(row < 0) | (row >= n)][0]}, not among 0 to {n - 1}.")
        if len(np.unique(row)) != len(row):
            raise InputError(f"Ranking {labeler + 1}, {row.tolist()[:8]}, repeats a response; list each one once.")
        ranks[labeler, row] = np.arange(1, len(row) + 1)
    return ranks


def votes_from_rankings(rankings: Sequence[Sequence[int]] | np.ndarray, responses: int | None = None) -> np.ndarray:
    """Return each labeler's votes: 1 where i stands before j, 0 where after, NaN where one of them is not listed.

    Args:
        rankings: See :func:`ranks_from_rankings`, m rows.
        responses: Number of responses n.

    Returns:
        Votes, float64, shape (m, n, n), 1/2 on the diagonal.

    Raises:
        InputError: See :func:`ranks_from_rankings`.
    """
    return votes_from_ranks(ranks_from_rankings(rankings, responses))


def votes_from_ranks(ranks: np.ndarray) -> np.ndarray:
    """Return each labeler's votes from rank numbers: a smaller rank wins, equal ranks tie.

    Args:
        ranks: One row a labeler, one column a response, 1 (or any smallest number) best, NaN not ranked, shape (m, n).

    Returns:
        Votes in {0, 1/2, 1, NaN}, shape (m, n, n), 1/2 on the diagonal.
    """
    table = np.asarray(ranks, dtype=np.float64)
    difference = table[:, None, :] - table[:, :, None]
    votes = np.where(np.isnan(difference), np.nan, 0.5 + 0.5 * np.sign(difference))
    votes[:, np.arange(table.shape[1]), np.arange(table.shape[1])] = 0.5
    return votes


def wins_from_votes(votes: np.ndarray) -> np.ndarray:
    """Return wins summed over labelers, shape (n, n).

    Args:
        votes: See :func:`votes_from_rankings`, shape (m, n, n).
    """
    return check_wins(np.nansum(votes, axis=0))
