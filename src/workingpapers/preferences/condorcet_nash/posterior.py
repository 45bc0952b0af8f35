r"""What a finite number of comparisons says about cycles, winners and the Nash policy.

Counts near a tie make cycles by noise alone, so "the counts contain a cycle" is not "the population has one". Three
answers: a certificate with a guaranteed error rate, and draws from two posteriors with different assumptions.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import betainc

from workingpapers.foundations.errors import InputError
from workingpapers.foundations.progress import Progress, silent
from workingpapers.preferences.condorcet_nash.game import nash_policy
from workingpapers.preferences.condorcet_nash.learning import regularised_policy
from workingpapers.preferences.condorcet_nash.matrices import check_wins, win_rates
from workingpapers.preferences.condorcet_nash.tournament import (
    Cycle,
    beaten_pairs,
    condorcet_winners,
    cyclic_tournaments,
    diagnose,
    smith_members,
    widest_cycle,
)

JEFFREYS = 0.5
BATCH = 4_000_000
"""Numbers held at once in drawn matrices."""


@dataclass(frozen=True)
class Posterior:
    """Posterior probabilities and the interval of the Nash policy.

    Args:
        cycle: Probability of a Condorcet cycle.
        winner: Probability that each response is the Condorcet winner, shape (n,).
        smith: Probability that each response is in the Smith set, shape (n,).
        policy: Median of each response's probability under the policy, shape (n,).
        low: Lower end of its 90 % interval, shape (n,).
        high: Upper end, shape (n,).
        assumption: The words without which the probabilities must not be quoted.
    """

    cycle: float
    winner: np.ndarray
    smith: np.ndarray
    policy: np.ndarray
    low: np.ndarray
    high: np.ndarray
    assumption: str


def edge_posterior(
    wins: np.ndarray,
    *,
    rng: np.random.Generator,
    draws: int = 1000,
    policies: int = 100,
    tau: float = 0.0,
    progress: Progress = silent,
) -> Posterior:
    r"""Draw preference matrices pair by pair, :math:`P_{ij} \sim \mathrm{Beta}(1/2 + w_{ij}, 1/2 + w_{ji})`.

    The prior knows nothing of transitivity: with few comparisons it is nearly a random tournament, and the probability
    of a cycle is overstated. Pairs without comparisons get the widest distribution.

    Args:
        wins: Comparisons won, shape (n, n).
        rng: Source of randomness.
        draws: Matrices drawn.
        policies: How many of them are solved for their policy.
        tau: Regularisation of the policy towards the uniform one; 0 for the Nash policy.
        progress: Called while the games are solved.

    Raises:
        InputError: The wins are malformed, or `draws` or `policies` is below one.
    """
    won = check_wins(wins)
    _check_numbers(draws, policies)
    i, j = np.triu_indices(len(won), 1)

    def draw(number: int) -> np.ndarray:
        shares = rng.beta(JEFFREYS + won[i, j], JEFFREYS + won[j, i], size=(number, len(i)))
        drawn = np.full((number, len(won), len(won)), 0.5)
        drawn[:, i, j], drawn[:, j, i] = shares, 1 - shares
        return drawn

    return _summarise(draw, len(won), draws, policies, tau, "under an independent prior for each pair", progress)


def panel_posterior(
    votes: np.ndarray,
    *,
    rng: np.random.Generator,
    draws: int = 1000,
    policies: int = 100,
    tau: float = 0.0,
    progress: Progress = silent,
) -> Posterior:
    r"""Draw populations from a panel whose members judged every pair: the Bayesian bootstrap over labelers.

    .. math:: P = \textstyle\sum_k \omega_k V_k, \qquad \omega \sim \mathrm{Dirichlet}(1, \dots, 1)

    A labeler's votes stay together, so that a transitive labeler never becomes intransitive by resampling.

    Args:
        votes: Each labeler's votes in [0, 1], shape (m, n, n), no NaN.
        rng: Source of randomness.
        draws: Matrices drawn.
        policies: How many of them are solved for their policy.
        tau: Regularisation of the policy towards the uniform one; 0 for the Nash policy.
        progress: Called while the games are solved.

    Raises:
        InputError: A labeler did not judge every pair, there are fewer than two, or a number is below one.
    """
    panel = np.asarray(votes, dtype=np.float64)
    _check_numbers(draws, policies)
    if panel.ndim != 3 or len(panel) < 2:
        raise InputError(f"The votes have shape {panel.shape}; give two or more labelers, (labelers, n, n).")
    if np.isnan(panel).any():
        labeler, i, j = np.argwhere(np.isnan(panel))[0]
        raise InputError(f"Labeler {labeler} did not compare {i} and {j}; use edge_posterior for incomplete panels.")
    flat = panel.reshape(len(panel), -1)

    def draw(number: int) -> np.ndarray:
        shares = rng.dirichlet(np.ones(len(panel)), size=number)
        return np.asarray((shares @ flat).reshape(number, *panel.shape[1:]))

    assumption = "for the population that the labelers are a sample of"
    return _summarise(draw, panel.shape[1], draws, policies, tau, assumption, progress)


def certified_cycle(wins: np.ndarray, alpha: float = 0.05) -> Cycle | None:
    r"""Return a cycle of which every majority is significant, or None.

    An edge counts when its exact one-sided binomial test of :math:`P_{ij} \le 1/2` rejects at
    :math:`\alpha / (2 K)`, K the number of compared pairs: both directions of a pair are tested, and both are false
    where the population ties. The probability of certifying a cycle that does not exist is at most `alpha`.

    Args:
        wins: Comparisons won, ties half (which makes the tests conservative), shape (n, n).
        alpha: Probability of a false certificate, between 0 and 1.

    Returns:
        The cycle whose weakest observed majority is largest among significant edges.

    Raises:
        InputError: The wins are malformed or `alpha` is not between 0 and 1.
    """
    won = check_wins(wins)
    if not 0 < alpha < 1:
        raise InputError(f"alpha is {alpha:g}; give a number between 0 and 1.")
    games = won + won.T
    compared = int((np.triu(games, 1) > 0).sum())
    # P(Binomial(N, 1/2) >= w) = I_{1/2}(w, N - w + 1), which also takes half wins.
    chance = np.where(won > 0, betainc(np.where(won > 0, won, 1.0), won.T + 1, 0.5), 1.0)
    significant = chance <= alpha / max(1, 2 * compared)
    rates = win_rates(won)
    rates[~(significant | significant.T)] = np.nan
    np.fill_diagonal(rates, 0.5)
    return widest_cycle(rates)


def _summarise(
    draw: Callable[[int], np.ndarray],
    n: int,
    draws: int,
    policies: int,
    tau: float,
    assumption: str,
    progress: Progress,
) -> Posterior:
    cyclic, done, wanted = 0, 0, min(policies, draws)
    winner, smith = np.zeros(n), np.zeros(n)
    solved: list[np.ndarray] = []
    while done < draws:
        drawn = draw(min(draws - done, max(1, BATCH // n**2)))
        done += len(drawn)
        has_cycle, winners, members = _situations(drawn)
        cyclic += int(has_cycle.sum())
        winner += np.bincount(winners[winners >= 0], minlength=n)
        smith += members.sum(axis=0)
        for matrix in drawn[: wanted - len(solved)]:
            found = regularised_policy(matrix, tau) if tau > 0 else nash_policy(matrix)
            solved.append(found.policy)
            progress(len(solved) / wanted, "solving drawn games")
    low, median, high = np.quantile(np.array(solved), (0.05, 0.5, 0.95), axis=0)
    return Posterior(cyclic / draws, winner / draws, smith / draws, median, low, high, assumption)


def _situations(drawn: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return for each matrix whether it has a cycle, its winner or -1, and who is in its Smith set."""
    beats = beaten_pairs(drawn)
    n = drawn.shape[-1]
    if (beats.sum(axis=(1, 2)) == n * (n - 1) // 2).all():
        return cyclic_tournaments(beats), condorcet_winners(beats), smith_members(beats)
    # Pairs on which all labelers tie stay tied in every draw: the scores alone do not tell then.
    found = [diagnose(matrix) for matrix in drawn]
    members = np.zeros((len(drawn), n), dtype=bool)
    for row, diagnosis in enumerate(found):
        members[row, list(diagnosis.smith_set)] = True
    winners = np.array([-1 if diagnosis.winner is None else diagnosis.winner for diagnosis in found])
    return np.array([diagnosis.has_cycle for diagnosis in found]), winners, members


def _check_numbers(draws: int, policies: int) -> None:
    if draws < 1 or policies < 1:
        raise InputError(f"draws is {draws} and policies {policies}; both must be one or more.")
