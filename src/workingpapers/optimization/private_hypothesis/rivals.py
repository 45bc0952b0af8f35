r"""Other ways to choose among given distributions: the baselines, private and not.

Private ones return the choice and the stages of their privacy statement, under "replace one record".

References:
    Bun, Kamath, Steinke and Wu (2019), arXiv:1905.13229 (contest). Aliakbarpour, Shi, Stevens and Wang (2025),
    arXiv:2506.01162 (sparse vector). Devroye and Lugosi (2001) (minimum distance, tournament).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from workingpapers.foundations.errors import InputError
from workingpapers.foundations.privacy.noise import Noise, lattice_exponent
from workingpapers.foundations.privacy.statement import Stage, pure_stage
from workingpapers.optimization.private_hypothesis.sampling import draw
from workingpapers.optimization.private_hypothesis.scores import Scores, TableScores, all_scores

Floats = NDArray[np.float64]


def minimum_distance(scores: Scores) -> int:
    """Return the candidate of least score, the first of equals: not private, factor 3.

    Args:
        scores: Of n candidates.
    """
    return int(np.argmin(all_scores(scores)))


def duel_counts(scores: TableScores, j: int) -> tuple[Floats, Floats, Floats]:
    r"""Return what the duels of j are decided by, on :math:`S = \{H_j > H_i\}` for all i.

    Args:
        scores: On a finite domain.
        j: A candidate.

    Returns:
        :math:`s H_j(S)`, :math:`s H_i(S)` and the number of records in S, each of shape (n,).
    """
    own, table, records = scores.table[j], scores.table, scores.records
    inside = (own > table).astype(np.float64)
    return records * (inside @ own), records * np.einsum("nx,nx->n", inside, table), inside @ scores.counts


def tournament_wins(scores: TableScores, scale: float = 0.0, noise: Noise | None = None) -> Floats:
    """Return how many duels each candidate wins (a tie counts half), shape (n,): factor 9 for the one of most wins.

    A duel of i < j is won by the one whose mass of {H_j > H_i} is closer to the share of records in it.

    Args:
        scores: On a finite domain.
        scale: Scale of Laplace noise on each count, in records; 0 for none.
        noise: Its source.
    """
    wins = np.zeros(scores.count)
    for j in range(1, scores.count):
        mine, theirs, inside = (values[:j] for values in duel_counts(scores, j))
        counts = noise.laplace(inside, scale) if noise is not None and scale else inside
        # Equal distances and equal candidates are ties; on the lattice equality is exact.
        lead = np.sign(np.abs(theirs - counts) - np.abs(mine - counts))
        wins[j] += ((lead + 1) / 2).sum()
        wins[:j] += (1 - lead) / 2
    return wins


def scheffe_tournament(scores: TableScores) -> int:
    """Return the candidate that wins most duels: not private, factor 9.

    Args:
        scores: On a finite domain.
    """
    return int(np.argmax(tournament_wins(scores)))


def tournament(scores: TableScores, epsilon: float, noise: Noise) -> tuple[int, list[Stage]]:
    """Choose by duels with Laplace noise on all n (n - 1) / 2 counts.

    Args:
        scores: On a finite domain.
        epsilon: Privacy budget.
        noise: Source of the noise.

    Raises:
        InputError: So many pairs at so small an epsilon that whole counts do not lie on the lattice of secure noise.
    """
    pairs = scores.count * (scores.count - 1) // 2
    scale = max(pairs, 1) / epsilon
    if noise.secure and lattice_exponent(scale) > 0:
        raise InputError(
            f"{scores.count} candidates at epsilon {epsilon:g} need noise of {scale:.3g} records on every pair, which "
            "is no tournament any more; use 'lazy'."
        )
    chosen = int(np.argmax(tournament_wins(scores, scale, noise)))
    return chosen, [pure_stage("counts of all pairs", "Laplace noise", epsilon, sensitivity=float(max(pairs, 1)))]


def contest_scores(scores: TableScores, alpha: float, zeta: float = 1.0) -> Floats:
    r"""Return how surely each candidate wins all its contests, in records, shape (n,); one record moves it by one.

    For H against H' on :math:`S = \{H > H'\}` the value is s where :math:`H(S) - H'(S) \le (2 + \zeta) \alpha`, else
    :math:`s \max(0, \hat P(S) - H'(S) - (1 + \zeta/2) \alpha)`; the score is the least over all H'.

    Args:
        scores: On a finite domain.
        alpha: A known upper bound of the distance of the best candidate.
        zeta: Slack.
    """
    records, found = scores.records, np.empty(scores.count)
    for j in range(scores.count):
        mine, theirs, inside = duel_counts(scores, j)
        lead = np.maximum(0.0, inside - theirs - (1 + zeta / 2) * alpha * records)
        found[j] = np.where(mine - theirs <= (2 + zeta) * alpha * records, float(records), lead).min()
    return found


def contest(
    scores: TableScores, epsilon: float, noise: Noise, *, alpha: float = 0.05, zeta: float = 1.0
) -> tuple[int, list[Stage]]:
    """Choose by the exponential mechanism over :func:`contest_scores`: factor 3 + zeta for a known alpha.

    Args:
        scores: On a finite domain.
        epsilon: Privacy budget.
        noise: Source of the random bits.
        alpha: A known upper bound of the distance of the best candidate.
        zeta: Slack.

    Raises:
        InputError: Alpha or zeta is not over 0.
    """
    if not (alpha > 0 and zeta > 0):
        raise InputError(f"Alpha is {alpha} and zeta {zeta}; give numbers over 0.")
    found = np.rint(contest_scores(scores, alpha, zeta) * 2.0**10) / 2.0**10  # exact differences for the exact draw
    # Rounding to 2^-10 moves a difference between neighbours by at most 2^-10.
    rate = epsilon / (2 * (1 + 2.0**-10))
    chosen = draw(scores.records - found, rate, noise)
    return chosen, [pure_stage("choice", "exponential mechanism over contests", epsilon)]


def lift_sensitivity(search: float) -> float:
    """Return by how much a lift may move, in records: by two, and by the lattice of the secure noise on it.

    Args:
        search: Epsilon of one search; the noise has scale 4 times what is returned over it.

    Raises:
        InputError: The lattice would be as coarse as the lifts.
    """
    if search <= 2.0**-16:
        raise InputError(f"The rounds leave epsilon {search:.3g} for each search; give fewer rounds.")
    return 2.0 / (1 - 2.0**-18 / search)


def lifts_of_many(lifts: Sequence[Floats], share: float) -> Floats:
    """Return the lift that at least a share of the draws have, for each candidate, shape (n,).

    Args:
        lifts: One array of shape (n,) for each draw.
        share: Over 0; of one draw at least.
    """
    found: Floats = np.sort(lifts, axis=0)[len(lifts) - math.ceil(share * len(lifts))]
    return found


def sparse_vector(
    scores: Scores,
    epsilon: float,
    noise: Noise,
    *,
    beta: float = 0.05,
    target: float = 0.1,
    rounds: int | None = None,
    draws: int | None = None,
) -> tuple[int, list[Stage], int]:
    r"""Choose with a strong set that is itself found privately, by the sparse vector technique.

    In each of T rounds k candidates are drawn from :math:`e^{-\epsilon_1 s W_A / 2}`; the first i whose lift
    :math:`w_i(j) - W_A(j)` is large for enough of them is added to A. When there is none, one more draw is the output.
    Half of epsilon goes to the draws, half to the searches.

    Args:
        scores: Of n candidates.
        epsilon: Privacy budget.
        noise: Source of the noise.
        beta: Probability of failure; sets T, k and the share of draws that must be lifted.
        target: Distance that counts as large, four times the threshold of the search.
        rounds: T; by default ln(n / beta) / (beta target), rounded up.
        draws: k; by default ln(n / beta) / beta, rounded up.

    Returns:
        The choice, the stages, and the number of pair evaluations, which is not private.

    Raises:
        InputError: The budget of one search is too small for the lattice of secure noise.
    """
    n, log = scores.count, math.log(scores.count / beta)
    rounds = math.ceil(log / (beta * target)) if rounds is None else rounds
    draws = math.ceil(log / beta) if draws is None else draws
    step, search = epsilon / (2 * (draws * rounds + 1)), epsilon / (2 * rounds)
    sensitivity = lift_sensitivity(search) if noise.secure else 2.0
    bounds, evaluations = np.zeros(n), 0
    for _ in range(rounds):
        drawn = [draw(bounds, step / 2, noise) for _ in range(draws)]
        rows = {j: scores.row(j) for j in set(drawn)}
        evaluations += n * len(rows)
        lifts = lifts_of_many([rows[j] - bounds[j] for j in drawn], beta / 8)
        threshold = noise.laplace([target / 4 * scores.records], 2 * sensitivity / search)[0]
        above = np.flatnonzero(noise.laplace(lifts, 4 * sensitivity / search) >= threshold)
        if not len(above):
            break
        bounds = np.maximum(bounds, scores.column(int(above[0])))
        evaluations += n
    stages = [
        pure_stage("draws", "exponential mechanism", step, steps=draws * rounds + 1, sensitivity=1 / scores.records),
        pure_stage("searches", "sparse vector", search, steps=rounds, sensitivity=2 / scores.records),
    ]
    return draw(bounds, step / 2, noise), stages, evaluations
