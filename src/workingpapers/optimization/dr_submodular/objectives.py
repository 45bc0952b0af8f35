r"""DR-submodular objectives with exact gradients, checks of the two assumptions, and mixtures.

f is DR-submodular when :math:`x \le y` implies :math:`\nabla f(x) \ge \nabla f(y)`. The guarantee needs more: f must be
non-negative on the whole unit box, not on K alone, since the proof compares with points outside K.

All values take points of shape (..., d) and return (...); gradients return (..., d).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np


class Objective(Protocol):
    """A function on the unit box with its gradient."""

    def value(self, x: np.ndarray) -> np.ndarray:
        """Return f at points of shape (..., d), shape (...)."""

    def gradient(self, x: np.ndarray) -> np.ndarray:
        """Return the gradient at points of shape (..., d), shape (..., d)."""


@dataclass(frozen=True, eq=False)
class Cut:
    r"""Expected weight of a directed cut, :math:`f(x) = \sum_{ij} W_{ij} x_i (1 - x_j)`.

    Args:
        weights: W, shape (d, d), entries >= 0.
    """

    weights: np.ndarray

    def value(self, x: np.ndarray) -> np.ndarray:
        """Return f at `x`."""
        return np.asarray(((x @ self.weights) * (1 - x)).sum(axis=-1))

    def gradient(self, x: np.ndarray) -> np.ndarray:
        """Return the gradient at `x`."""
        return np.asarray((1 - x) @ self.weights.T - x @ self.weights)


@dataclass(frozen=True, eq=False)
class Quadratic:
    r"""The DR-submodular quadratic :math:`f(x) = \tfrac12 x^\top H x + \langle c, x\rangle + f_0`.

    Args:
        hessian: H, symmetric, shape (d, d), entries <= 0.
        linear: c, shape (d,).
        constant: The number f_0; see :func:`floor` for one that keeps f non-negative.
    """

    hessian: np.ndarray
    linear: np.ndarray
    constant: float = 0.0

    def value(self, x: np.ndarray) -> np.ndarray:
        """Return f at `x`."""
        return np.asarray(0.5 * ((x @ self.hessian) * x).sum(axis=-1) + x @ self.linear + self.constant)

    def gradient(self, x: np.ndarray) -> np.ndarray:
        """Return the gradient at `x`."""
        return np.asarray(x @ self.hessian + self.linear)


@dataclass(frozen=True, eq=False)
class Coverage:
    r"""Reached value minus cost, :math:`f(x) = \sum_c v_c (1 - \prod_i (1 - p_{ic} x_i)) - \langle a, x\rangle + f_0`.

    Args:
        reach: Probabilities p, shape (d, n): that channel i, fully used, reaches customer c.
        values: v, shape (n,), entries >= 0.
        costs: a, shape (d,).
        constant: The number f_0, such as the budget: then f counts the money that is kept.
    """

    reach: np.ndarray
    values: np.ndarray
    costs: np.ndarray
    constant: float = 0.0

    def value(self, x: np.ndarray) -> np.ndarray:
        """Return f at `x`."""
        missed = np.prod(1 - self.reach * x[..., :, None], axis=-2)
        return np.asarray((1 - missed) @ self.values - x @ self.costs + self.constant)

    def gradient(self, x: np.ndarray) -> np.ndarray:
        """Return the gradient at `x`."""
        others = products_without(1 - self.reach * x[..., :, None])
        return np.asarray((others * self.reach) @ self.values - self.costs)


@dataclass(frozen=True, eq=False)
class Revenue:
    r"""Give customers the product, sell to those they convince: :math:`\sum_j v_j (1-x_j) (1-\prod_i (1-p_{ij}x_i))`.

    Args:
        influence: p, shape (d, d), diagonal 0: the probability that i, who has the product, convinces j.
        values: v, shape (d,), entries >= 0: what j pays.
    """

    influence: np.ndarray
    values: np.ndarray

    def value(self, x: np.ndarray) -> np.ndarray:
        """Return f at `x`."""
        missed = np.prod(1 - self.influence * x[..., :, None], axis=-2)
        return np.asarray(((1 - x) * (1 - missed)) @ self.values)

    def gradient(self, x: np.ndarray) -> np.ndarray:
        """Return the gradient at `x`."""
        factors = 1 - self.influence * x[..., :, None]
        pays = (1 - x) * self.values
        gained = (products_without(factors) * self.influence * pays[..., None, :]).sum(axis=-1)
        return np.asarray(gained - self.values * (1 - np.prod(factors, axis=-2)))


@dataclass(frozen=True, eq=False)
class MeanField:
    r"""Mean-field bound of a log-partition function, :math:`f(v) = C(x) + \sum_i H(x_i)`, :math:`x = m + (1 - 2m) v`.

    C is a cut function (an Ising model whose neighbours repel each other) and H the entropy in nats, both >= 0; the
    maximum over x is the best lower bound of :math:`\log \sum_S e^{C(S)}` by independent coordinates.

    Args:
        weights: W of the cut, shape (d, d), entries >= 0.
        margin: m in (0, 1/2): keeps x off the ends, where the slope of the entropy is infinite.
    """

    weights: np.ndarray
    margin: float = 0.01

    def marginals(self, v: np.ndarray) -> np.ndarray:
        """Return the probabilities x of the coordinates, shape (..., d)."""
        return np.asarray(self.margin + (1 - 2 * self.margin) * v)

    def value(self, x: np.ndarray) -> np.ndarray:
        """Return f at `x`."""
        q = self.marginals(x)
        entropy = -(q * np.log(q) + (1 - q) * np.log1p(-q)).sum(axis=-1)
        return np.asarray(Cut(self.weights).value(q) + entropy)

    def gradient(self, x: np.ndarray) -> np.ndarray:
        """Return the gradient at `x`."""
        q = self.marginals(x)
        return np.asarray((1 - 2 * self.margin) * (Cut(self.weights).gradient(q) + np.log1p(-q) - np.log(q)))


@dataclass(frozen=True, eq=False)
class Mixture:
    r"""The sum :math:`f(x) = \sum_k \lambda_k f_k(x)`.

    Args:
        objectives: The functions.
        weights: The numbers lambda, shape (k,), entries >= 0; they need not add up to one.
    """

    objectives: Sequence[Objective]
    weights: np.ndarray

    def value(self, x: np.ndarray) -> np.ndarray:
        """Return f at `x`."""
        return np.asarray(sum(w * f.value(x) for w, f in zip(self.weights, self.objectives, strict=True)))

    def gradient(self, x: np.ndarray) -> np.ndarray:
        """Return the gradient at `x`."""
        return np.asarray(sum(w * f.gradient(x) for w, f in zip(self.weights, self.objectives, strict=True)))


def products_without(factors: np.ndarray) -> np.ndarray:
    r"""Return :math:`\prod_{k \ne i} F_{k j}` without dividing (factors may be 0), shape (..., d, n).

    Args:
        factors: F, shape (..., d, n).
    """
    ones = np.ones_like(factors[..., :1, :])
    before = np.cumprod(np.concatenate([ones, factors[..., :-1, :]], axis=-2), axis=-2)
    after = np.cumprod(np.concatenate([ones, factors[..., :0:-1, :]], axis=-2), axis=-2)[..., ::-1, :]
    return np.asarray(before * after)


def floor(objective: Objective, dimension: int) -> float:
    r"""Return a lower bound of a DR-submodular f on the unit box: :math:`f(0) + \sum_i \min(0, \partial_i f(1))`.

    It holds because every partial derivative is smallest at 1. A non-negative floor is all that the guarantee asks for.

    Args:
        objective: f.
        dimension: d.
    """
    slopes = objective.gradient(np.ones(dimension))
    return float(objective.value(np.zeros(dimension)) + np.minimum(slopes, 0).sum())


def gradient_bound(objective: Objective, dimension: int) -> float:
    r"""Return G with :math:`\|\nabla f\|_2 \le G` on the unit box: partial derivatives are extreme at 0 and at 1.

    Args:
        objective: DR-submodular f.
        dimension: d.
    """
    ends = np.abs([objective.gradient(np.zeros(dimension)), objective.gradient(np.ones(dimension))])
    return float(np.linalg.norm(ends.max(axis=0)))


def dr_violation(objective: Objective, dimension: int, rng: np.random.Generator, trials: int = 1000) -> float:
    r"""Return the largest :math:`\max_i \partial_i f(y) - \partial_i f(x)` found over random :math:`x \le y`.

    A positive number (beyond rounding) proves that f is not DR-submodular; zero or less proves nothing.

    Args:
        objective: f.
        dimension: d.
        rng: Source of the random points.
        trials: Number of pairs.
    """
    x = rng.uniform(0, 1, (trials, dimension)) ** rng.choice([0.2, 1.0, 5.0], (trials, 1))
    y = x + (1 - x) * rng.uniform(0, 1, (trials, dimension)) * (rng.uniform(0, 1, (trials, dimension)) < 0.5)
    return float((objective.gradient(y) - objective.gradient(x)).max())
