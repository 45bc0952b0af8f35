r"""Energies and weights in log space.

.. math:: E(x_s) = E_{x_0 \sim p_{ref}(\cdot \mid x_s)}\bigl[e^{r(x_0)/\lambda}\bigr], \qquad
          p^*(x_s \mid x_t) = p_{ref}(x_s \mid x_t)\, E(x_s) / E(x_t)
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit, logsumexp, softmax

from workingpapers.foundations.errors import InputError

Floats = NDArray[np.float64]


def log_energy(rewards: ArrayLike, temperature: float, log_ratios: ArrayLike | None = None) -> Floats:
    r"""Return :math:`\log \frac1K \sum_k \rho_k e^{r_k/\lambda}` over the last axis.

    Args:
        rewards: r of K completions, shape (..., K).
        temperature: lambda > 0.
        log_ratios: log rho, reference over proposal on the tokens that were added, shape (..., K); zero by default.

    Returns:
        Shape (...).

    Raises:
        InputError: When lambda is not positive or a reward is not finite.
    """
    check_temperature(temperature)
    values = np.asarray(rewards, dtype=np.float64)
    if not np.isfinite(values).all():
        wrong = int(np.flatnonzero(~np.isfinite(values.ravel()))[0])
        raise InputError(f"Reward {wrong} is {values.ravel()[wrong]}; a reward must be a finite number.")
    exponent = values / temperature
    if log_ratios is not None:
        exponent = exponent + np.asarray(log_ratios, dtype=np.float64)
    return np.asarray(logsumexp(exponent, axis=-1) - np.log(values.shape[-1]))


def weights(log_energies: ArrayLike, log_corrections: ArrayLike | float = 0.0) -> Floats:
    """Return the share of each of M candidates over the last axis; uniform where all are impossible.

    Args:
        log_energies: Shape (..., M).
        log_corrections: Added to them: log of reference over proposal on the candidate's own tokens, where it was not
            drawn from the reference.
    """
    logits = np.asarray(log_energies, dtype=np.float64) + np.asarray(log_corrections, dtype=np.float64)
    dead = ~(logits.max(axis=-1, keepdims=True) > -np.inf)
    return np.asarray(softmax(np.where(dead, 0.0, logits), axis=-1))


def effective_size(shares: ArrayLike) -> Floats:
    """Return 1 / sum w^2 over the last axis: how many of the M candidates count."""
    values = np.asarray(shares, dtype=np.float64)
    return np.asarray(1 / (values**2).sum(axis=-1))


def optimal_success(success: ArrayLike, temperature: float) -> Floats:
    r"""Return the success rate of p* for a reward of 0 or 1 when the reference succeeds with probability p.

    .. math:: \frac{p\, e^{1/\lambda}}{1 - p + p\, e^{1/\lambda}}

    Args:
        success: p in [0, 1], any shape.
        temperature: lambda > 0.
    """
    check_temperature(temperature)
    p = np.asarray(success, dtype=np.float64)
    with np.errstate(divide="ignore"):
        return np.asarray(expit(np.log(p) - np.log1p(-p) + 1 / temperature))


def check_temperature(temperature: float) -> None:
    """Refuse a lambda that is not positive.

    Raises:
        InputError: It names the value.
    """
    if not temperature > 0:
        raise InputError(f"lambda must be positive, and is {temperature}; a small one chooses more sharply.")
