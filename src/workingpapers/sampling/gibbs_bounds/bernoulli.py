r"""The divergence of two Bernoulli laws, its inverse, and the PAC-Bayes-kl inequality.

References:
    A. Maurer, A Note on the PAC Bayesian Theorem (2004), arXiv:cs/0411099.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import rel_entr

from workingpapers.foundations.errors import InputError

Floats = NDArray[np.float64]
SMALLEST_SAMPLE = 8
"""The constant 2 sqrt(n) of the PAC-Bayes-kl inequality is proved from eight examples on."""
ROUNDS = 200


def kl_bernoulli(p: ArrayLike, q: ArrayLike) -> Any:
    r"""Return the divergence of two Bernoulli laws in nats.

    .. math:: kl(p, q) = p \log\frac pq + (1 - p) \log\frac{1 - p}{1 - q}

    Args:
        p: Probabilities in [0, 1], any shape.
        q: Probabilities in [0, 1], broadcast against `p`; the result is infinite where q is 0 or 1 and p is not.

    Returns:
        float64 of the broadcast shape.

    Raises:
        InputError: A value outside [0, 1].
    """
    first, second = unit_values("p", p), unit_values("q", q)
    return rel_entr(first, second) + rel_entr(1 - first, 1 - second)


def kl_inverse(p: ArrayLike, c: ArrayLike) -> Any:
    r"""Return the largest q whose divergence from p is within a budget, by bisection from the safe side.

    .. math:: kl^{-1}(p, c) = \sup\{q \in [p, 1] : kl(p, q) \le c\}

    Args:
        p: Empirical means in [0, 1], any shape.
        c: Budgets in nats, not negative, broadcast against `p`.

    Returns:
        float64 of the broadcast shape.

    Raises:
        InputError: A mean outside [0, 1] or a negative budget.
    """
    mean, budget = np.broadcast_arrays(unit_values("p", p), np.asarray(c, dtype=np.float64))
    if not (budget >= 0).all():
        raise InputError(f"A budget is {float(np.nanmin(budget)):g}; it must not be negative or missing.")
    low, high = mean.copy(), np.ones_like(mean)
    for _ in range(ROUNDS):
        middle = (low + high) / 2
        inside = rel_entr(mean, middle) + rel_entr(1 - mean, 1 - middle) <= budget
        low, high = np.where(inside, middle, low), np.where(inside, high, middle)
    return np.where(budget == 0, mean, high)[()]


def kl_bound(errors: ArrayLike, kl: ArrayLike, n: int, delta: float) -> Floats:
    r"""Return :math:`kl^{-1}(\hat E, (KL + \log(2\sqrt n/\delta))/n)`, the PAC-Bayes-kl bound.

    Args:
        errors: Mean training errors in [0, 1], shape (m,).
        kl: Divergences of the posteriors from the prior in nats, shape (m,).
        n: Number of training examples, at least 8.
        delta: Probability of failure, in (0, 1).

    Returns:
        Shape (m,).

    Raises:
        InputError: A value out of range.
    """
    check_sample(n, delta)
    return np.asarray(kl_inverse(errors, (np.asarray(kl, dtype=np.float64) + log_term(n, delta)) / n))


def log_term(n: int, delta: float) -> float:
    """Return log(2 sqrt(n) / delta), the price of the PAC-Bayes-kl inequality beside the KL.

    Args:
        n: Number of training examples.
        delta: Probability of failure.
    """
    return math.log(2 * math.sqrt(n) / delta)


def check_sample(n: int, delta: float) -> None:
    """Check the size of the sample and the probability of failure.

    Args:
        n: Number of training examples.
        delta: Probability of failure.

    Raises:
        InputError: Fewer than 8 examples, or a probability outside (0, 1).
    """
    if n < SMALLEST_SAMPLE:
        raise InputError(f"n is {n}; the bound needs {SMALLEST_SAMPLE} training examples or more.")
    if not 0 < delta < 1:
        raise InputError(f"delta is {delta:g}; it must lie between 0 and 1.")


def unit_values(name: str, values: ArrayLike) -> Floats:
    """Return `values` as float64 after a check that all lie in [0, 1].

    Args:
        name: What messages call them.
        values: Any shape.

    Raises:
        InputError: One lies outside.
    """
    found = np.asarray(values, dtype=np.float64)
    wrong = ~((found >= 0) & (found <= 1))
    if wrong.any():
        raise InputError(f"A value of {name} is {float(np.atleast_1d(found)[np.atleast_1d(wrong)][0]):g}; it must lie "
                         "in [0, 1].")  # fmt: skip
    return found
