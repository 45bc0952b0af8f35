r"""The majority relation: cycles, the Condorcet winner, the Smith set, and whether any reward represents it.

A reward r represents P when :math:`P(y \succ y') > 1/2 \iff r(y) > r(y')` for every pair. One exists exactly when the
relation "beats or ties" has no cycle with a strict step; without ties that is a Condorcet cycle
:math:`y_1 \succ y_2 \succ \dots \succ y_k \succ y_1`.

References:
    K. Liu, Q. Long, Z. Shi, W. J. Su, J. Xiao, arXiv:2503.10990.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sparse
from scipy.sparse.csgraph import connected_components, shortest_path

from workingpapers.preferences.condorcet_nash.matrices import TIE, check_preferences


@dataclass(frozen=True)
class Cycle:
    """Responses each of which beats the next, the last the first.

    Args:
        responses: Response numbers in order, the smallest first.
        margin: Smallest share above one half along the cycle: how far the weakest majority is from a tie.
    """

    responses: tuple[int, ...]
    margin: float

    @property
    def edges(self) -> tuple[tuple[int, int], ...]:
        """The steps (winner, loser) of the cycle."""
        return tuple(zip(self.responses, (*self.responses[1:], self.responses[0]), strict=True))


@dataclass(frozen=True)
class Diagnosis:
    """What the majority relation of a preference matrix allows.

    Args:
        representable: Whether some reward represents every compared pair.
        reward: Such a reward, shape (n,), or None. It orders; its differences mean nothing.
        cycle: The cycle with the largest margin (the shortest among those), or None.
        three_cycles: Number of cycles of three responses.
        winner: The Condorcet winner, which beats every other response, or None.
        smith_set: The smallest set whose members beat every response outside it.
        copeland: Pairs won plus half of the pairs tied, shape (n,).
        ties: Number of tied pairs.
        unknown: Number of pairs that were never compared.
    """

    representable: bool
    reward: np.ndarray | None
    cycle: Cycle | None
    three_cycles: int
    winner: int | None
    smith_set: tuple[int, ...]
    copeland: np.ndarray
    ties: int
    unknown: int

    @property
    def has_cycle(self) -> bool:
        """Whether there is a Condorcet cycle."""
        return self.cycle is not None


def diagnose(preferences: np.ndarray) -> Diagnosis:
    """Diagnose a preference matrix.

    Args:
        preferences: P, shape (n, n); NaN for pairs that were never compared (they constrain nothing, and neither a
            winner nor the Smith set is claimed against them).

    Raises:
        InputError: P is not a preference matrix (:func:`~.matrices.check_preferences`).

    References:
        Liu et al., arXiv:2503.10990.
    """
    p = check_preferences(preferences, missing=True)
    n = len(p)
    other = ~np.eye(n, dtype=bool)
    beats = beaten_pairs(p)
    ties = other & (np.abs(p - 0.5) <= TIE)
    unknown = np.isnan(p)
    reward = _reward(beats, ties)
    winners = np.flatnonzero((beats | ~other).all(axis=1))
    return Diagnosis(
        representable=reward is not None,
        reward=reward,
        cycle=widest_cycle(p),
        three_cycles=count_three_cycles(beats),
        winner=int(winners[0]) if len(winners) else None,
        smith_set=_smith_set(beats | ties | unknown),
        copeland=beats.sum(axis=1) + 0.5 * ties.sum(axis=1),
        ties=int(ties.sum()) // 2,
        unknown=int(unknown.sum()) // 2,
    )


def beaten_pairs(preferences: np.ndarray) -> np.ndarray:
    """Return the majority relation, bool: whether P[..., i, j] > 1/2, shape (..., n, n).

    Args:
        preferences: P, shape (..., n, n); NaN beats nothing.
    """
    return np.asarray(preferences > 0.5 + TIE)


def count_three_cycles(beats: np.ndarray) -> int:
    r"""Return the number of cycles of three responses, :math:`\mathrm{tr}(B^3) / 3`.

    Args:
        beats: B, bool, shape (n, n). Without ties the number is :math:`\binom n3 - \sum_i \binom{s_i}{2}` with the
            Copeland scores s.
    """
    b = beats.astype(np.float64)
    return round(float(np.einsum("ij,ji->", b @ b, b)) / 3)


def widest_cycle(preferences: np.ndarray) -> Cycle | None:
    """Return the cycle whose weakest majority is largest, the shortest among those; None without a cycle.

    Args:
        preferences: P, shape (n, n).
    """
    margin = np.nan_to_num(preferences - 0.5, nan=-1.0)
    levels = np.unique(margin[margin > TIE])
    low, high, best = 0, len(levels) - 1, -1
    while low <= high:  # the largest level at which the stronger majorities alone still make a cycle
        middle = (low + high) // 2
        if _has_cycle(margin >= levels[middle]):
            best, low = middle, middle + 1
        else:
            high = middle - 1
    if best < 0:
        return None
    found = _shortest_cycle(margin >= levels[best])
    first = found.index(min(found))
    return Cycle(tuple(found[first:] + found[:first]), float(levels[best]))


def cyclic_tournaments(beats: np.ndarray) -> np.ndarray:
    """Return whether each tournament has a cycle, bool, shape (...): whether its scores are not 0, 1, ..., n - 1.

    Args:
        beats: Majority relations without ties, bool, shape (..., n, n).
    """
    scores = np.sort(beats.sum(axis=-1), axis=-1)
    return np.asarray((scores != np.arange(scores.shape[-1])).any(axis=-1))


def smith_members(beats: np.ndarray) -> np.ndarray:
    r"""Return who is in the Smith set of each tournament, bool, shape (..., n).

    The k responses with the largest scores beat all others exactly when their scores add up to
    :math:`\binom k2 + k (n - k)`.

    Args:
        beats: Majority relations without ties, bool, shape (..., n, n).
    """
    scores = beats.sum(axis=-1)
    n = scores.shape[-1]
    k = np.arange(1, n + 1)
    descending = -np.sort(-scores, axis=-1)
    size = np.argmax(np.cumsum(descending, axis=-1) == k * (k - 1) // 2 + k * (n - k), axis=-1)
    lowest = np.take_along_axis(descending, size[..., None], axis=-1)
    return np.asarray(scores >= lowest)


def condorcet_winners(beats: np.ndarray) -> np.ndarray:
    """Return the Condorcet winner of each tournament, or -1, int, shape (...).

    Args:
        beats: Majority relations, bool, shape (..., n, n).
    """
    wins_all = beats.sum(axis=-1) == beats.shape[-1] - 1
    return np.where(wins_all.any(axis=-1), wins_all.argmax(axis=-1), -1)


def _reward(beats: np.ndarray, ties: np.ndarray) -> np.ndarray | None:
    """Return how many responses each one can reach by beating or tying, or None where a strict step leads back."""
    graph = sparse.csr_matrix(beats | ties)
    _, block = connected_components(graph, directed=True, connection="strong")
    if (beats & (block[:, None] == block[None, :])).any():
        return None
    reached = np.isfinite(shortest_path(graph, unweighted=True))
    return np.asarray(reached.sum(axis=1) - 1, dtype=np.float64)


def _smith_set(not_beaten: np.ndarray) -> tuple[int, ...]:
    # A set beats everyone outside exactly when no step of "not beaten by" leads into it: the source block.
    _, block = connected_components(sparse.csr_matrix(not_beaten), directed=True, connection="strong")
    entering = not_beaten & (block[:, None] != block[None, :])
    sources = [label for label in np.unique(block) if not entering[:, block == label].any()]
    return tuple(np.flatnonzero(block == sources[0]).tolist())


def _has_cycle(edges: np.ndarray) -> bool:
    number, _ = connected_components(sparse.csr_matrix(edges), directed=True, connection="strong")
    return bool(number < len(edges))


def _shortest_cycle(edges: np.ndarray) -> list[int]:
    graph = sparse.csr_matrix(edges)
    length, before = shortest_path(graph, unweighted=True, return_predecessors=True)
    back = np.where(edges, length.T, np.inf)
    start, end = np.unravel_index(int(np.argmin(back)), back.shape)
    path = [int(start)]
    while path[-1] != end:
        path.append(int(before[end, path[-1]]))
    return [path[0], *path[:0:-1]]
