r"""How likely are cycles and Condorcet winners? Labelers with random rankings, exactly and by simulation.

Each of m labelers draws a ranking from Luce's model with weights w,
:math:`P(\sigma) = \prod_k w_{\sigma_k} / \sum_{l \ge k} w_{\sigma_l}`, independently of the others. Sorting independent
exponential times of rates w draws one. Equal weights are the impartial culture.

Rankings of disjoint sets of responses are independent, so with p the probability that a triple is cyclic
:math:`P(\text{no cycle}) \le (1 - p)^{\lfloor n/3 \rfloor}`: preferences that a reward can represent become
exponentially rare.

References:
    K. Liu, Q. Long, Z. Shi, W. J. Su, J. Xiao, arXiv:2503.10990. B. Pittel, arXiv:2506.20613 (rate of the winner).
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import numpy as np

from workingpapers.foundations.errors import InputError
from workingpapers.preferences.condorcet_nash.tournament import condorcet_winners, cyclic_tournaments

STATES = 4_000_000
"""Largest number of vote counts that the exact probability keeps."""
BATCH = 4_000_000
"""Numbers held at once in a simulation."""


@dataclass(frozen=True)
class Probabilities:
    """How likely the two situations are.

    Args:
        cycle: Probability of a Condorcet cycle: that no reward represents the majority preference.
        winner: Probability that there is a Condorcet winner.
        cycle_error: Standard error of `cycle`; 0 where exact.
        winner_error: Standard error of `winner`; 0 where exact.
    """

    cycle: float
    winner: float
    cycle_error: float = 0.0
    winner_error: float = 0.0


def arrival_times(weights: np.ndarray, labelers: int, draws: int, rng: np.random.Generator) -> np.ndarray:
    """Return exponential times whose order is each labeler's ranking, shape (draws, labelers, n).

    Args:
        weights: Luce weights, positive, shape (n,).
        labelers: Number of labelers m.
        draws: Number of profiles.
        rng: Source of randomness.
    """
    w = _check(weights, labelers)
    return np.asarray(rng.standard_exponential((draws, labelers, len(w))) / w)


def sample_rankings(weights: np.ndarray, labelers: int, draws: int, rng: np.random.Generator) -> np.ndarray:
    """Return rankings, best first, int, shape (draws, labelers, n).

    Args:
        weights: Luce weights, positive, shape (n,).
        labelers: Number of labelers m.
        draws: Number of profiles.
        rng: Source of randomness.
    """
    return np.argsort(arrival_times(weights, labelers, draws, rng), axis=-1)


def majority_shares(times: np.ndarray) -> np.ndarray:
    """Return P of each profile: the share of labelers that rank i before j, shape (..., n, n), 1/2 on the diagonal.

    Args:
        times: Arrival times or ranks, smaller is better, shape (..., m, n).
    """
    n = times.shape[-1]
    shares = np.asarray((times[..., :, None] < times[..., None, :]).mean(axis=-3))
    shares[..., np.arange(n), np.arange(n)] = 0.5
    return shares


def exact_probabilities(weights: np.ndarray, labelers: int) -> Probabilities:
    """Return the exact probabilities by adding up all profiles, labeler by labeler, in terms of votes for each pair.

    Args:
        weights: Luce weights, positive, shape (n,); n at most 5.
        labelers: Odd number of labelers.

    Raises:
        InputError: Bad weights, an even number of labelers, or more vote counts than fit; simulate then.
    """
    w = _check(weights, labelers, odd=True)
    n = len(w)
    pairs = list(itertools.combinations(range(n), 2))
    if n > 5 or labelers + 1 > 2 ** (62 // len(pairs)):
        raise InputError(f"{n} responses and {labelers} labelers are too many to enumerate; use simulate.")
    place = (labelers + 1) ** np.arange(len(pairs), dtype=np.int64)
    step_codes, step_probability = _ranking_votes(w, pairs, place)
    codes: np.ndarray = np.zeros(1, dtype=np.int64)
    probability: np.ndarray = np.ones(1)
    for _ in range(labelers):
        if len(codes) * len(step_codes) > 30 * STATES:
            raise InputError(f"{n} responses and {labelers} labelers are too many to enumerate; use simulate.")
        codes, where = np.unique((codes[:, None] + step_codes).ravel(), return_inverse=True)
        probability = np.bincount(where.ravel(), weights=(probability[:, None] * step_probability).ravel())
        if len(codes) > STATES:
            raise InputError(f"{n} responses and {labelers} labelers are too many to enumerate; use simulate.")
    first = (codes[:, None] // place) % (labelers + 1) > labelers / 2
    beats = np.zeros((len(codes), n, n), dtype=bool)
    for column, (i, j) in enumerate(pairs):
        beats[:, i, j], beats[:, j, i] = first[:, column], ~first[:, column]
    return Probabilities(
        float(probability @ cyclic_tournaments(beats)), float(probability @ (condorcet_winners(beats) >= 0))
    )


def winner_probability(weights: np.ndarray, labelers: int, nodes: int = 40) -> np.ndarray:
    r"""Return the probability that each response is the Condorcet winner, shape (n,), by quadrature.

    Given response i's places :math:`u_k` in the m labelers' rankings the others beat it independently of each other:

    .. math:: P(i) = \int_{[0,1]^m} \prod_{j \ne i}
              P\big(\mathrm{Poisson\text{-}binomial}(1 - u_k^{w_j / w_i}) \le \tfrac{m-1}{2}\big)\, du

    For equal weights the integrand is a polynomial of degree n - 1 in each :math:`u_k`, so n / 2 nodes are exact.

    Args:
        weights: Luce weights, positive, shape (n,).
        labelers: Odd number of labelers, at most 7.
        nodes: Gauss-Legendre nodes for each labeler.

    Raises:
        InputError: Bad weights, or an even or too large number of labelers.
    """
    w = _check(weights, labelers, odd=True)
    number = math.comb(nodes + labelers - 1, labelers)
    if number > STATES:
        raise InputError(f"{nodes} nodes for {labelers} labelers are {number} points; use fewer nodes or simulate.")
    # The integrand is symmetric in the labelers: each multiset of nodes once, times its arrangements.
    grid = np.array(list(itertools.combinations_with_replacement(range(nodes), labelers)))
    factorials = np.array([math.factorial(k) for k in range(labelers + 1)], dtype=np.float64)
    counts = np.stack([(grid == node).sum(axis=1) for node in range(nodes)], axis=1)
    arrangements = factorials[labelers] / np.prod(factorials[counts], axis=1)
    points, areas = np.polynomial.legendre.leggauss(nodes)
    found = np.empty(len(w))
    for i in range(len(w)):
        others = np.delete(w, i) / w[i]
        # u = v^power smooths fractional powers at 0; power 1 keeps polynomials exact.
        power = 1 if np.all(others == 1) else max(1, math.ceil(3 / float(others.min())))
        v = (points + 1) / 2
        area = areas / 2 * power * v ** (power - 1)
        weight = arrangements * np.prod(area[grid], axis=1)
        ratios, repeats = np.unique(others, return_counts=True)
        value = np.ones(len(grid))
        for ratio, repeat in zip(ratios, repeats, strict=True):
            value *= _not_beaten(1 - v[grid] ** (power * ratio)) ** repeat
        found[i] = weight @ value
    return found


def simulate(weights: np.ndarray, labelers: int, draws: int, rng: np.random.Generator) -> Probabilities:
    """Estimate the probabilities by simulation.

    Args:
        weights: Luce weights, positive, shape (n,).
        labelers: Odd number of labelers.
        draws: Number of profiles.
        rng: Source of randomness.

    Raises:
        InputError: Bad weights, an even number of labelers, or fewer than two draws.
    """
    w = _check(weights, labelers, odd=True)
    if draws < 2:
        raise InputError(f"draws is {draws}; simulate two profiles or more.")
    cyclic = winner = done = 0
    batch = max(1, BATCH // (labelers * len(w) ** 2))
    while done < draws:
        size = min(batch, draws - done)
        beats = majority_shares(arrival_times(w, labelers, size, rng)) > 0.5
        cyclic += int(cyclic_tournaments(beats).sum())
        winner += int((condorcet_winners(beats) >= 0).sum())
        done += size

    def error(share: float) -> float:
        return math.sqrt(share * (1 - share) / draws)

    return Probabilities(cyclic / draws, winner / draws, error(cyclic / draws), error(winner / draws))


def winner_share(weights: np.ndarray, labelers: int, draws: int, rng: np.random.Generator) -> float:
    """Estimate the probability of a Condorcet winner in O(n m) for each profile.

    A knock-out leaves one response; only it can be the winner, so only it is compared with all.

    Args:
        weights: Luce weights, positive, shape (n,).
        labelers: Odd number of labelers.
        draws: Number of profiles.
        rng: Source of randomness.
    """
    w = _check(weights, labelers, odd=True)
    found = done = 0
    batch = max(1, BATCH // (labelers * len(w)))
    while done < draws:
        size = min(batch, draws - done)
        times = arrival_times(w, labelers, size, rng)
        survivors = np.broadcast_to(np.arange(len(w)), (size, len(w)))
        while survivors.shape[1] > 1:
            paired = survivors[:, : survivors.shape[1] // 2 * 2]
            left, right = paired[:, ::2], paired[:, 1::2]
            better = np.take_along_axis(times, left[:, None, :], 2) < np.take_along_axis(times, right[:, None, :], 2)
            through = np.where(better.sum(axis=1) > labelers / 2, left, right)
            survivors = np.concatenate([through, survivors[:, paired.shape[1] :]], axis=1)
        mine = np.take_along_axis(times, survivors[:, None, :], 2)
        beaten = (mine < times).sum(axis=1) > labelers / 2
        found += int((beaten.sum(axis=1) == len(w) - 1).sum())
        done += size
    return found / draws


def _ranking_votes(
    weights: np.ndarray, pairs: list[tuple[int, int]], place: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return for every ranking the code of the pairs whose first response stands first, and its probability."""
    rankings = np.array(list(itertools.permutations(range(len(weights)))))
    remaining = np.cumsum(weights[rankings][:, ::-1], axis=1)[:, ::-1]
    probability = np.prod(weights[rankings] / remaining, axis=1)
    ranks = np.argsort(rankings, axis=1)
    ahead = np.stack([ranks[:, i] < ranks[:, j] for i, j in pairs], axis=1)
    return ahead @ place, probability


def _not_beaten(chances: np.ndarray) -> np.ndarray:
    """Return P(at most (m - 1) / 2 of m independent events), shape (points,), for chances of shape (points, m)."""
    m = chances.shape[1]
    count = np.zeros((len(chances), m + 1))
    count[:, 0] = 1.0
    for k in range(m):
        chance = chances[:, k, None]
        shifted = np.concatenate([np.zeros((len(chances), 1)), count[:, :-1]], axis=1)
        count = count * (1 - chance) + shifted * chance
    return np.asarray(count[:, : (m + 1) // 2].sum(axis=1))


def _check(weights: np.ndarray, labelers: int, odd: bool = False) -> np.ndarray:
    w = np.asarray(weights, dtype=np.float64)
    if w.ndim != 1 or len(w) < 2 or not (w > 0).all() or not np.isfinite(w).all():
        raise InputError(f"The weights are {np.array2string(w, threshold=8)}; give two or more positive numbers.")
    if labelers < 1 or (odd and labelers % 2 == 0):
        rule = "an odd number, so that no pair ties" if odd else "one or more"
        raise InputError(f"labelers is {labelers}; use {rule}.")
    return w
