r"""Other bounds of the risk of a Gibbs posterior, to hold beside the integral over temperatures.

References:
    Prior loss: Jensen's inequality for the log-partition function, used by I. Harel et al., Temperature is All You Need
    for Generalization in Langevin Dynamics and other Markov Processes (2025). G. Lever, F. Laviolette, J. Shawe-Taylor,
    TCS 473 (2013). D. McAllester, COLT 1999. O. Catoni (2007), arXiv:0712.0248.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from workingpapers.foundations.errors import InputError
from workingpapers.sampling.gibbs_bounds.bernoulli import check_sample, kl_inverse, log_term

Floats = NDArray[np.float64]
CATONI_GRID = (0.25, 0.5, 1.0, 2.0, 3.0, 4.0, 6.0, 8.0)


def prior_loss_kl(betas: ArrayLike, losses: ArrayLike) -> Floats:
    r"""Return :math:`\beta (L(0) - L(\beta)) \ge KL(G_\beta \| \pi)`: what the prior's loss alone tells.

    It is the left sum over the single interval from 0 to beta.

    Args:
        betas: Inverse temperatures, the first 0, shape (m,).
        losses: Mean losses of the posteriors, shape (m,).

    Returns:
        Shape (m,), in nats.
    """
    grid, values = np.asarray(betas, dtype=np.float64), np.asarray(losses, dtype=np.float64)
    return np.asarray(grid * (values[0] - values))


def lever_kl(betas: ArrayLike, n: int, delta: float) -> Floats:
    r"""Return a bound of KL(G_beta, G*_beta), where G* has the true risk in its exponent, from n and beta alone.

    .. math:: KL \le \beta \sqrt{2 c / n} + \frac{\beta^2}{2 n}, \qquad c = \log(2\sqrt n/\delta)

    It holds on the event of the PAC-Bayes-kl inequality with prior G*, for a loss in [0, 1] and one beta fixed in
    advance. To bound another loss than that of the exponent, or at m temperatures, share delta.

    Args:
        betas: Inverse temperatures of a loss in [0, 1], shape (m,).
        n: Number of training examples, at least 8.
        delta: Probability of failure, in (0, 1).

    Returns:
        Shape (m,), in nats.

    Raises:
        InputError: A value out of range.
    """
    check_sample(n, delta)
    grid = np.asarray(betas, dtype=np.float64)
    return np.asarray(grid * math.sqrt(2 * log_term(n, delta) / n) + grid**2 / (2 * n))


def mcallester_bound(errors: ArrayLike, kl: ArrayLike, n: int, delta: float) -> Floats:
    r"""Return :math:`\hat E + \sqrt{(KL + \log(2\sqrt n/\delta)) / (2n)}`, capped at 1.

    Args:
        errors: Mean training errors, shape (m,).
        kl: Divergences in nats, shape (m,).
        n: Number of training examples, at least 8.
        delta: Probability of failure, in (0, 1).

    Returns:
        Shape (m,).

    Raises:
        InputError: A value out of range.
    """
    check_sample(n, delta)
    budget = (np.asarray(kl, dtype=np.float64) + log_term(n, delta)) / (2 * n)
    return np.minimum(1, np.asarray(errors, dtype=np.float64) + np.sqrt(budget))


def catoni_bound(
    errors: ArrayLike, kl: ArrayLike, n: int, delta: float, constants: Sequence[float] = CATONI_GRID
) -> Floats:
    r"""Return the smallest of Catoni's bounds over given constants C, delta shared among them.

    .. math:: R \le \frac{1 - \exp(-C \hat E - (KL + \log(1/\delta)) / n)}{1 - e^{-C}}

    Args:
        errors: Mean training errors, shape (m,).
        kl: Divergences in nats, shape (m,).
        n: Number of training examples.
        delta: Probability of failure, in (0, 1).
        constants: Values of C > 0, chosen without looking at the data.

    Returns:
        Shape (m,).

    Raises:
        InputError: A value out of range.
    """
    check_sample(n, delta)
    if not constants or min(constants) <= 0:
        raise InputError(f"The constants are {tuple(constants)}; give positive numbers.")
    c = np.asarray(constants, dtype=np.float64)[:, None]
    budget = (np.atleast_1d(np.asarray(kl, dtype=np.float64)) + math.log(len(constants) / delta)) / n
    bounds = -np.expm1(-c * np.atleast_1d(np.asarray(errors, dtype=np.float64)) - budget) / -np.expm1(-c)
    return np.asarray(np.minimum(1, bounds.min(axis=0)))


def held_out_bound(errors: ArrayLike, examples: int, delta: float) -> Floats:
    r"""Return :math:`kl^{-1}(\hat E, \log(1/\delta) / n)`: what held-out examples guarantee, for scale.

    Args:
        errors: Mean errors on held-out examples, of predictors fixed before, shape (m,).
        examples: Number of held-out examples.
        delta: Probability of failure of each, in (0, 1).

    Returns:
        Shape (m,).

    Raises:
        InputError: No examples, or a probability outside (0, 1).
    """
    if examples < 1:
        raise InputError(f"There are {examples} held-out examples; one at least is needed.")
    if not 0 < delta < 1:
        raise InputError(f"delta is {delta:g}; it must lie between 0 and 1.")
    return np.asarray(kl_inverse(errors, math.log(1 / delta) / examples))
