r"""Classic rules of item selection, all examinees at once.

A selector gives every item a score; the test masks what may not be asked and takes the largest, the first of equals.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from scipy.special import log_expit

from workingpapers.evaluation.adaptive_testing.bank import Bank
from workingpapers.foundations.errors import InputError

GRID = np.linspace(-4.0, 4.0, 41)
PAIRS_AT_ONCE = 4_000_000


@dataclass(frozen=True)
class State:
    """Where B examinees stand after the same number of answers.

    Args:
        answered: +1 right, -1 wrong, 0 not asked; int8, shape (B, n).
        theta: Current abilities, shape (B, d).
        covariance: Their covariance, shape (B, d, d).
        asked: Indices of the asked items in order, int64, shape (B, t).
        length: Planned number of items T.
    """

    answered: np.ndarray
    theta: np.ndarray
    covariance: np.ndarray
    asked: np.ndarray
    length: int


class Selector(Protocol):
    """What chooses the next item."""

    @property
    def name(self) -> str:
        """Short name for tables."""

    def scores(self, bank: Bank, state: State, generator: np.random.Generator) -> np.ndarray:
        """Return the score of each item, shape (B, n)."""


@dataclass(frozen=True)
class Random:
    """Any item, with equal probability."""

    name: str = "random"

    def scores(self, bank: Bank, state: State, generator: np.random.Generator) -> np.ndarray:
        """Return uniform noise, shape (B, n)."""
        return generator.random(state.answered.shape)


@dataclass(frozen=True)
class MaximumInformation:
    r"""The item with most Fisher information at the current ability.

    :math:`\arg\max_i w_i\, a_i^\top \Sigma\, a_i`, with :math:`\Sigma` the covariance of the ability: in one dimension
    :math:`a_i^2 p_i (1 - p_i)`, in several the D-optimal item (its factor of the determinant of the information).
    """

    name: str = "MFI"

    def scores(self, bank: Bank, state: State, generator: np.random.Generator) -> np.ndarray:
        """Return the information, shape (B, n)."""
        if bank.dimensions == 1:
            return bank.information(state.theta)
        spread = np.einsum("nd,bde,ne->bn", bank.slope, state.covariance, bank.slope, optimize=True)
        return np.asarray(bank.weights(state.theta) * spread)


@dataclass(frozen=True)
class KullbackLeibler:
    r"""The item with the largest divergence from the current ability, averaged over the posterior (Chang and Ying).

    :math:`\arg\max_i \sum_g w_g\, \mathrm{KL}(p_i(\hat\theta) \,\|\, p_i(\theta_g))` on 41 abilities in [-4, 4].
    """

    name: str = "KLI"

    def scores(self, bank: Bank, state: State, generator: np.random.Generator) -> np.ndarray:
        """Return the divergence, shape (B, n)."""
        posterior, p_grid = posterior_on_grid(bank, state.answered)
        p = bank.probabilities(state.theta)
        right, wrong = posterior @ np.log(p_grid), posterior @ np.log1p(-p_grid)
        return np.asarray(p * (np.log(p) - right) + (1 - p) * (np.log1p(-p) - wrong))


@dataclass(frozen=True)
class MinimumExpectedPosteriorVariance:
    r"""The item after whose answer the variance of the posterior is least in expectation.

    :math:`\arg\min_i \sum_y P(y \mid \text{answers})\, \mathrm{Var}(\theta \mid \text{answers}, y_i = y)` on the grid.
    """

    name: str = "MEPV"

    def scores(self, bank: Bank, state: State, generator: np.random.Generator) -> np.ndarray:
        """Return minus the expected variance, shape (B, n)."""
        posterior, p_grid = posterior_on_grid(bank, state.answered)
        second = posterior @ GRID**2
        expected = np.zeros(state.answered.shape)
        for p in (p_grid, 1 - p_grid):
            # E[Var] = E[theta^2] - sum_y P(y) E[theta | y]^2: only the means after each answer are needed.
            chance = posterior @ p
            expected += (posterior * GRID) @ p * ((posterior * GRID) @ p) / chance
        return np.asarray(expected - second[:, None])


@dataclass(frozen=True)
class Becat:
    r"""Greedy facility location over expected gradients (the global gradient-matching rule that GPM starts from).

    .. math:: F(S) = \sum_{j} \max_{i \in S} w(i, j), \quad w(i, j) = D - E_{y_i, y_j} \|\nabla\ell_i - \nabla\ell_j\|

    at the current ability, with D the largest expected distance, so that :math:`w \ge 0`. The greedy set is worth at
    least :math:`1 - 1/e` of the best.
    """

    name: str = "BECAT"

    def scores(self, bank: Bank, state: State, generator: np.random.Generator) -> np.ndarray:
        """Return the gain of F, shape (B, n)."""
        count, n = state.answered.shape
        found = np.empty((count, n))
        chunk = max(1, PAIRS_AT_ONCE // n**2)
        for start in range(0, count, chunk):
            part = slice(start, start + chunk)
            similarity = gradient_similarity(bank, state.theta[part])
            chosen = (state.answered[part] != 0)[:, :, None]
            covered = np.where(chosen, similarity, 0.0).max(axis=1)
            found[part] = np.maximum(similarity - covered[:, None, :], 0.0).sum(axis=2)
        return found


def gradient_similarity(bank: Bank, theta: np.ndarray) -> np.ndarray:
    """Return w(i, j) of :class:`Becat`, shape (B, n, n), at abilities of shape (B, d).

    Args:
        bank: The items.
        theta: Abilities, shape (B, d).
    """
    p = bank.probabilities(theta)
    ratio = np.sqrt(bank.weights(theta) / (p * (1 - p)))  # s / p, one without guessing
    gradient = {answer: ((p - answer) * ratio)[:, :, None] * bank.slope for answer in (0, 1)}
    chance = {0: 1 - p, 1: p}
    distance = np.zeros((len(theta), bank.count, bank.count))
    for first, second in ((1, 1), (0, 0), (1, 0)):
        part = _distances(gradient[first], gradient[second])
        part *= chance[first][:, :, None]
        part *= chance[second][:, None, :]
        distance += part
        if first != second:  # the answers (0, 1) of (i, j) are the answers (1, 0) of (j, i)
            distance += part.transpose(0, 2, 1)
    diagonal = np.arange(bank.count)
    distance[:, diagonal, diagonal] = 0.0  # an item has one answer, not two independent ones
    return np.asarray(distance.max(axis=(1, 2), keepdims=True) - distance)


def _distances(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Return the distances between rows, shape (B, n, n), of two arrays of shape (B, n, d)."""
    if first.shape[2] == 1:
        return np.asarray(np.abs(first - second.transpose(0, 2, 1)))
    squares = sum((first[:, :, None, k] - second[:, None, :, k]) ** 2 for k in range(first.shape[2]))
    return np.asarray(np.sqrt(squares))


def posterior_on_grid(bank: Bank, answered: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the posterior on :data:`GRID`, shape (B, 41), and P(y = 1) there, shape (41, n).

    Args:
        bank: One-dimensional items.
        answered: +1 right, -1 wrong, 0 not asked, shape (B, n).

    Raises:
        InputError: The ability has several dimensions.
    """
    if bank.dimensions != 1:
        raise InputError(
            f"The ability has {bank.dimensions} dimensions, for which no grid is kept; use MFI, BECAT, random or GPM."
        )
    z = GRID[:, None] * bank.slope[:, 0] + bank.intercept
    wrong = log_expit(-z) + np.log1p(-bank.guessing)
    p = -np.expm1(wrong)
    log_posterior = (answered == 1) @ np.log(p).T + (answered == -1) @ wrong.T - 0.5 * GRID**2
    log_posterior -= log_posterior.max(axis=1, keepdims=True)
    posterior = np.exp(log_posterior)
    return posterior / posterior.sum(axis=1, keepdims=True), np.clip(p, 1e-12, 1 - 1e-12)


CLASSIC: dict[str, Selector] = {
    "random": Random(),
    "mfi": MaximumInformation(),
    "kli": KullbackLeibler(),
    "mepv": MinimumExpectedPosteriorVariance(),
    "becat": Becat(),
}
