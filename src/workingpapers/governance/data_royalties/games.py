"""Coalition games: the Shapley value exactly and by permutations, and leave-one-out.

A game of n players is a function of a bit mask: bit i of ``mask`` says whether player i is in.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from workingpapers.governance.data_royalties.scores import Outputs, Scores

Floats = NDArray[np.float64]
Game = Callable[[int], float | Floats]
"""``v(mask)``, a number or an array: one value for each output that is explained."""

EXACT_PLAYERS = 14


def tabulate(game: Game, players: int) -> Floats:
    """Return (2**n, ...) the values of all coalitions, index = bit mask."""
    return np.array([game(mask) for mask in range(1 << players)], dtype=np.float64)


def shapley(values: Floats) -> Floats:
    r"""Return the Shapley values of a tabulated game.

    .. math:: \varphi_i = \sum_{S \not\ni i} \frac{|S|!\,(n-|S|-1)!}{n!} \bigl(v(S \cup i) - v(S)\bigr)

    Args:
        values: (2**n, ...) as :func:`tabulate` gives them.

    Returns:
        (n, ...), summing over players to ``v(all) - v(none)``.

    References:
        Shapley (1953); for royalties, arXiv 2404.13964.
    """
    players = len(values).bit_length() - 1
    masks = np.arange(len(values))
    sizes = np.array([mask.bit_count() for mask in range(len(values))])
    weight = np.array([1.0 / (players * math.comb(players - 1, size)) for size in range(players)])
    found = []
    for player in range(players):
        without = masks[(masks >> player) & 1 == 0]
        gain = values[without | (1 << player)] - values[without]
        found.append(np.tensordot(weight[sizes[without]], gain, axes=1))
    return np.array(found)


def leave_one_out(game: Game, players: int) -> Floats:
    """Return (n, ...) ``v(all) - v(all but i)``: zero for each of two perfect substitutes, whatever they are worth.

    Args:
        game: The game.
        players: Number of players.
    """
    everybody = (1 << players) - 1
    whole = np.asarray(game(everybody), dtype=np.float64)
    return np.array([whole - game(everybody ^ (1 << player)) for player in range(players)])


@dataclass(frozen=True)
class Estimate:
    """Shapley values by sampling: (n, ...) values and standard errors, and the number of permutations."""

    values: Floats
    stderr: Floats
    permutations: int


def shapley_permutations(
    game: Game, players: int, rng: np.random.Generator, *, permutations: int = 200, tolerance: float = 0.0
) -> Estimate:
    r"""Estimate Shapley values by the gains along random orders, each order paired with its reverse (antithetic).

    The gains of every order sum to ``v(all) - v(none)``, so the estimate is efficient whatever its error. Standard
    errors come from the pairs.

    Args:
        game: The game; values are kept, so a coalition is evaluated once.
        players: Number of players.
        rng: Source of the orders.
        permutations: Upper bound on orders, rounded up to an even number.
        tolerance: Stop when every standard error is below it (after at least 10 pairs).
    """
    known: dict[int, Floats] = {}

    def value(mask: int) -> Floats:
        if mask not in known:
            known[mask] = np.asarray(game(mask), dtype=np.float64)
        return known[mask]

    def gains(order: NDArray[np.int64]) -> Floats:
        mask, before = 0, value(0)
        found = np.zeros((players, *before.shape))
        for player in order:
            mask |= 1 << int(player)
            found[player] = value(mask) - before
            before = value(mask)
        return found

    pairs: list[Floats] = []
    total = max(1, (permutations + 1) // 2)
    while len(pairs) < total:
        order = rng.permutation(players)
        pairs.append((gains(order) + gains(order[::-1])) / 2)
        if tolerance and len(pairs) >= 10 and len(pairs) % 5 == 0 and np.all(_stderr(pairs) < tolerance):
            break
    return Estimate(np.mean(pairs, axis=0), _stderr(pairs), 2 * len(pairs))


def necessary(game: Game) -> Game:
    """Return `game` with one more player, bit 0, without whom nothing is worth anything: the developer."""
    return lambda mask: game(mask >> 1) if mask & 1 else np.zeros_like(np.asarray(game(0), dtype=np.float64))


@dataclass(frozen=True)
class CoalitionAttributor:
    """Attribution by a utility of coalitions of works: the yardstick, for few works.

    Args:
        works: The works (or providers), n of them: the players.
        utility: Given the mask of the works that take part and the outputs, (E,) the utility of each output.
        kind: ``"shapley"`` (exact up to 14 works, by 200 antithetic permutations above) or ``"leave_one_out"``.
        seed: Seed of the permutations.
    """

    works: tuple[str, ...]
    utility: Callable[[int, Outputs], Floats]
    kind: str = "shapley"
    seed: int = 0

    @property
    def method(self) -> str:
        """Name and settings, for the journal."""
        exact = "exact" if len(self.works) <= EXACT_PLAYERS else f"200 permutations, seed {self.seed}"
        return f"shapley ({exact})" if self.kind == "shapley" else "leave_one_out"

    def attribute(self, outputs: Outputs) -> Scores:
        """Return the scores of `outputs`; the residual is ``v(none)`` where that is above zero."""

        def game(mask: int) -> Floats:
            return self.utility(mask, outputs)

        players, stderr = len(self.works), None
        if self.kind == "leave_one_out":
            values = leave_one_out(game, players)
        elif players <= EXACT_PLAYERS:
            values = shapley(tabulate(game, players))
        else:
            estimate = shapley_permutations(game, players, np.random.default_rng(self.seed))
            values, stderr = estimate.values, estimate.stderr.T
        return Scores(outputs.event_ids, self.works, values.T, self.method, stderr)


def _stderr(pairs: list[Floats]) -> Floats:
    if len(pairs) < 2:
        return np.full_like(pairs[0], np.inf)
    deviation: Floats = np.std(pairs, axis=0, ddof=1) / math.sqrt(len(pairs))
    return deviation
