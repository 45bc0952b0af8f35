"""Simulated tests on logged answers, all examinees at once, and what they say about a selector."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.stats import rankdata

from workingpapers.evaluation.adaptive_testing.bank import Bank, check_binary, estimate, estimate_full
from workingpapers.evaluation.adaptive_testing.selectors import State
from workingpapers.evaluation.adaptive_testing.session import AdaptiveTest
from workingpapers.foundations.errors import InputError
from workingpapers.foundations.progress import Progress, silent


@dataclass(frozen=True)
class Simulation:
    """N simulated tests of at most T items.

    Args:
        name: Name of the selector.
        asked: Items in order, int64, shape (N, T); -1 after the test has stopped.
        theta: Ability after each item, shape (N, T, d); the last one stays after the test has stopped.
        error: Largest standard error after each item, shape (N, T).
        full: Ability from all observed answers, shape (N, d).
        count: Number of items n of the bank.
    """

    name: str
    asked: np.ndarray
    theta: np.ndarray
    error: np.ndarray
    full: np.ndarray
    count: int

    @property
    def lengths(self) -> np.ndarray:
        """Items asked of each examinee, int64, shape (N,)."""
        return np.asarray((self.asked >= 0).sum(axis=1))

    @property
    def squared_error(self) -> np.ndarray:
        """Mean of |theta_t - theta of all answers|^2 after each item, shape (T,)."""
        return np.asarray(((self.theta - self.full[:, None, :]) ** 2).sum(axis=2).mean(axis=0))

    @property
    def bias(self) -> np.ndarray:
        """Mean of theta_t - theta of all answers after each item, shape (T, d)."""
        return np.asarray((self.theta - self.full[:, None, :]).mean(axis=0))

    @property
    def exposure(self) -> np.ndarray:
        """Share of examinees that are asked each item, shape (n,)."""
        return np.bincount(self.asked[self.asked >= 0], minlength=self.count) / len(self.asked)

    @property
    def overlap(self) -> float:
        """Mean share of a test that two examinees have in common."""
        times = self.exposure * len(self.asked)
        pairs = len(self.asked) * (len(self.asked) - 1)
        return float(np.sum(times * (times - 1)) / pairs / self.lengths.mean()) if pairs else float("nan")

    def root_mean_squared_error(self, truth: np.ndarray) -> np.ndarray:
        """Return the RMSE after each item against true abilities of shape (N, d), shape (T,)."""
        return np.asarray(np.sqrt(((self.theta - truth[:, None, :]) ** 2).sum(axis=2).mean(axis=0)))


def simulate(
    test: AdaptiveTest,
    responses: np.ndarray,
    *,
    query: np.ndarray | None = None,
    seed: int = 0,
    progress: Progress = silent,
) -> Simulation:
    """Run the test on every examinee of a log at once.

    Args:
        test: The test.
        responses: 0, 1 or NaN (cannot be asked), shape (N, n).
        query: Answers that are never asked, to be predicted, bool, shape (N, n).
        seed: Seed of random choices and exposure control.
        progress: Told of each item.

    Returns:
        The simulation.

    Raises:
        InputError: Responses and bank disagree, or an examinee has fewer answers than the test asks.
    """
    matrix = check_binary(responses)
    bank = test.bank
    if matrix.shape[1] != bank.count:
        raise InputError(f"Responses have {matrix.shape[1]} items and the bank has {bank.count}; make them agree.")
    available = ~np.isnan(matrix) if query is None else ~np.isnan(matrix) & ~query
    enough = available.sum(axis=1)
    if enough.min() < test.length:
        short = int(np.argmin(enough))
        raise InputError(
            f"Examinee {short + 1} has {enough[short]} answers that can be asked, fewer than the {test.length} items "
            "of the test; shorten the test or leave the examinee out."
        )
    generator = np.random.default_rng(seed)
    chance = test.constraints.eligibility
    eligible = None if chance is None else generator.random(matrix.shape) < chance
    total, d = len(matrix), bank.dimensions
    asked = np.full((total, test.length), -1, dtype=np.int64)
    path, errors = np.empty((total, test.length, d)), np.empty((total, test.length))
    answered = np.zeros(matrix.shape, dtype=np.int8)
    theta, covariance = np.zeros((total, d)), np.broadcast_to(np.eye(d), (total, d, d)).copy()
    active = np.arange(total)
    for step in range(test.length):
        everybody = len(active) == total
        rows = slice(None) if everybody else active
        state = State(answered[rows], theta[rows], covariance[rows], asked[rows, :step], test.length)
        item = test.choose(state, available[rows], generator, None if eligible is None else eligible[rows])
        asked[rows, step] = item
        answered[active, item] = 2 * matrix[active, item] - 1
        so_far = asked[rows, : step + 1]
        answers = matrix[active[:, None], so_far]
        theta[rows], covariance[rows] = estimate(bank, so_far, answers, theta[rows])
        path[:, step] = theta
        errors[:, step] = np.sqrt(np.diagonal(covariance, axis1=1, axis2=2).max(axis=1))
        active = active[~test.stops(theta[rows], covariance[rows])]
        progress((step + 1) / test.length, f"{test.selector.name}: item {step + 1}")
        if not len(active):
            path[:, step + 1 :], errors[:, step + 1 :] = theta[:, None, :], errors[:, [step]]
            break
    return Simulation(test.selector.name, asked, path, errors, estimate_full(bank, matrix), bank.count)


def items_needed(squared_error: np.ndarray, target: float) -> float:
    """Return how many items bring the error down to `target`, between whole numbers on the logarithmic scale.

    Args:
        squared_error: Mean squared error after each item, shape (T,).
        target: Error to reach, positive.

    Returns:
        The first crossing; T + 1 where the error stays above the target.
    """
    below = np.flatnonzero(squared_error <= target)
    if not len(below):
        return float(len(squared_error) + 1)
    step = int(below[0])
    if step == 0:
        return 1.0
    before, after = np.log(squared_error[step - 1]), np.log(squared_error[step])
    return float(step + (before - np.log(target)) / (before - after))


def hold_out(responses: np.ndarray, length: int, generator: np.random.Generator, share: float = 0.2) -> np.ndarray:
    """Return a mask of answers to keep for prediction, bool, shape (N, n): `share` of each examinee's answers.

    Args:
        responses: 0, 1 or NaN, shape (N, n).
        length: Answers that must stay to be asked; fewer are held out where need be.
        generator: Source of the choice.
        share: Share of each examinee's answers.
    """
    observed = ~np.isnan(responses)
    answers = observed.sum(axis=1)
    held = np.clip(np.floor(share * answers), 0, np.maximum(answers - length, 0))
    order = np.where(observed, generator.random(responses.shape), np.inf).argsort(axis=1).argsort(axis=1)
    return np.asarray(order < held[:, None])


def prediction(bank: Bank, theta: np.ndarray, responses: np.ndarray, query: np.ndarray) -> tuple[float, float]:
    """Return accuracy and area under the ROC curve on held-out answers; NaN where one answer alone is held out.

    Args:
        bank: The items.
        theta: Abilities, shape (N, d).
        responses: 0, 1 or NaN, shape (N, n).
        query: Held-out answers, bool, shape (N, n).
    """
    p, y = bank.probabilities(theta)[query], responses[query]
    right = int(y.sum())
    wrong = len(y) - right
    accuracy = float(np.mean((p > 0.5) == (y == 1))) if len(y) else float("nan")
    if not right or not wrong:
        return accuracy, float("nan")
    # The Mann-Whitney statistic, ties counted half.
    area = (rankdata(p)[y == 1].sum() - right * (right + 1) / 2) / (right * wrong)
    return accuracy, float(area)


def fit_eligibility(
    test: AdaptiveTest, responses: np.ndarray, cap: float, *, rounds: int = 20, seed: int = 0
) -> AdaptiveTest:
    """Return the test with item eligibilities that bring the largest exposure rate down to about `cap`.

    Each round simulates the test and sets the probability that item i is eligible to min(1, cap * eligibility / rate)
    (van der Linden and Veldkamp 2004).

    Args:
        test: The test.
        responses: Answers to simulate on, shape (N, n).
        cap: Largest share of examinees that may be asked an item.
        rounds: Number of rounds; eligibilities are averaged over the second half.
        seed: Seed of the first round.

    Raises:
        InputError: No set of rates under the cap adds up to the length of the test.
    """
    if not 0 < cap <= 1 or cap * test.bank.count < test.length:
        least = test.length / test.bank.count
        raise InputError(
            f"An exposure of at most {cap:g} is out of reach: {test.length} of {test.bank.count} items give at least "
            f"{least:.3g} on average; raise it."
        )
    eligibility, total = np.ones(test.bank.count), np.zeros(test.bank.count)
    for number in range(rounds):
        tried = replace(test, constraints=replace(test.constraints, eligibility=eligibility))
        rate = simulate(tried, responses, seed=seed + number).exposure
        with np.errstate(divide="ignore"):
            eligibility = np.where(rate > 0, np.minimum(1.0, cap * eligibility / rate), 1.0)
        if number >= rounds // 2:
            total += eligibility
    # Rates of a round are noisy; the mean of the later rounds is less so.
    mean = total / (rounds - rounds // 2)
    return replace(test, constraints=replace(test.constraints, eligibility=mean))
