r"""Policies that are learned rather than solved for: self-play, Nash mirror descent, and the regularised game.

The regularised game :math:`\max_\pi \min_{\pi'} P(\pi \succ \pi') - \tau\,\mathrm{KL}(\pi\|\rho) +
\tau\,\mathrm{KL}(\pi'\|\rho)` has one solution, the fixed point

.. math:: \pi_\tau(y) \propto \rho(y)\, e^{P(y \succ \pi_\tau) / \tau}

between the reference :math:`\rho` (large :math:`\tau`) and the Nash policy of largest entropy relative to it (small).

References:
    R. Munos et al., Nash Learning from Human Feedback, arXiv:2312.00886. A. Rakhlin, K. Sridharan, arXiv:1311.1869.
"""

from __future__ import annotations

import numpy as np
from scipy.special import log_softmax, softmax

from workingpapers.foundations.errors import InputError
from workingpapers.preferences.condorcet_nash.game import NashPolicy, as_policy, worst_case_win_rate
from workingpapers.preferences.condorcet_nash.matrices import check_preferences

FLOOR = 1e-4
"""Smallest regularisation: below, use the linear program."""


def regularised_policy(preferences: np.ndarray, tau: float, reference: np.ndarray | None = None) -> NashPolicy:
    r"""Solve the regularised game by Newton's method.

    With logits z and :math:`A = P - 1/2` the equation is :math:`z = \log\rho + A\,\mathrm{softmax}(z)/\tau`. Its
    Jacobian :math:`I - A\,C/\tau`, with C the covariance of the policy, is never singular: A C has the eigenvalues of a
    skew-symmetric matrix, which are imaginary. So the path from large :math:`\tau` down has no fold and Newton's method
    follows it.

    Args:
        preferences: P, shape (n, n), every pair compared.
        tau: Regularisation, in units of win rate per nat, at least 1e-4.
        reference: Reference policy, positive, shape (n,); uniform where None.

    Raises:
        InputError: P is not a preference matrix, `tau` is too small, or the reference is not a positive distribution.

    References:
        Munos et al., arXiv:2312.00886.
    """
    p, log_reference = check_preferences(preferences), _log_reference(reference, len(preferences))
    if not tau >= FLOOR:
        raise InputError(f"tau is {tau:g}; give at least {FLOOR:g}, or nash_policy for the game without it.")
    payoff = p - 0.5
    z, level = log_reference, max(tau, 1.0)
    while True:
        z = _newton(z, payoff / level, log_reference)
        if level == tau:
            break
        level = max(tau, level / 2)
    return as_policy(softmax(z), p)


def self_play(
    preferences: np.ndarray, *, rate: float = 4.0, tolerance: float = 1e-4, steps: int = 10_000
) -> tuple[NashPolicy, int]:
    r"""Play optimistic multiplicative weights against oneself.

    .. math:: z_{t+1} = z_t + \eta\,(2 P\pi_t - P\pi_{t-1}), \qquad \bar\pi = \tfrac1T \textstyle\sum_t \pi_t

    One step costs n^2; the exploitability of the average falls like log(n) / (rate T), which is proved for rates up to
    1 and measured here for larger ones. The last policy often arrives sooner; that of plain multiplicative weights
    (without the optimism) circles around the solution for ever.

    Args:
        preferences: P, shape (n, n), every pair compared.
        rate: Learning rate :math:`\eta`, over 0 and at most 8.
        tolerance: Stop once the exploitability of the average or of the last policy is below it.
        steps: Most steps.

    Returns:
        The average or the last policy, whichever is exploited less, and the steps taken; its ``exploitability`` tells
        whether the tolerance was met.

    Raises:
        InputError: P is not a preference matrix, or the rate is out of range.

    References:
        Rakhlin and Sridharan, arXiv:1311.1869.
    """
    p = check_preferences(preferences)
    if not 0 < rate <= 8:
        raise InputError(f"The rate is {rate:g}; choose one over 0 and at most 8.")
    logits, total = np.zeros(len(p)), np.zeros(len(p))
    before = np.full(len(p), 0.5)
    policy, step = softmax(logits), 0
    for step in range(1, steps + 1):
        policy = softmax(logits)
        total += policy
        gain = p @ policy
        # P + P^T = 1, so the best reply wins max(gain) against the last policy.
        if gain.max() - 0.5 < tolerance:
            break
        if step % 25 == 0 and 0.5 - worst_case_win_rate(total / step, p) < tolerance:
            break
        logits = logits + rate * (2 * gain - before)
        before = gain
    average, last = as_policy(total / max(step, 1), p), as_policy(policy, p)
    return (average if average.exploitability < last.exploitability else last), step


def nash_md(
    preferences: np.ndarray,
    tau: float,
    reference: np.ndarray | None = None,
    *,
    rate: float | None = None,
    tolerance: float = 1e-10,
    steps: int = 100_000,
) -> tuple[NashPolicy, int]:
    r"""Run Nash mirror descent, the update that language-model trainers follow with samples.

    .. math:: \pi^\mu_t \propto \pi_t^{1 - \eta\tau} \rho^{\eta\tau}, \qquad
              \pi_{t+1}(y) \propto \pi^\mu_t(y)\, e^{\eta P(y \succ \pi^\mu_t)}

    With a constant rate it does not stop at :math:`\pi_\tau`: there :math:`\pi^\mu` is the regularised policy of
    :math:`\tau / (1 - \eta\tau)`, and :math:`\pi` a best regularised reply to it. The bias goes with
    :math:`\eta\tau`; :func:`regularised_policy` has none.

    Args:
        preferences: P, shape (n, n), every pair compared.
        tau: Regularisation, over 0.
        reference: Reference policy, positive, shape (n,); uniform where None.
        rate: :math:`\eta` with :math:`\eta\tau < 1`; 0.1 / tau, at most 1, where None. Too large a rate circles.
        tolerance: Stop once no probability changes by more.
        steps: Most steps.

    Returns:
        The last policy and the steps taken.

    Raises:
        InputError: P, `tau`, the rate or the reference is not allowed.

    References:
        Munos et al., arXiv:2312.00886.
    """
    p, log_reference = check_preferences(preferences), _log_reference(reference, len(preferences))
    if not tau > 0:
        raise InputError(f"tau is {tau:g}; give a number over 0.")
    eta = min(1.0, 0.1 / tau) if rate is None else rate
    if not 0 < eta * tau < 1:
        raise InputError(f"rate * tau is {eta * tau:g}; it must lie between 0 and 1.")
    log_policy, step, change = log_reference, 0, np.inf
    while change >= tolerance and step < steps:
        step += 1
        mixture = log_softmax((1 - eta * tau) * log_policy + eta * tau * log_reference)
        following = log_softmax(mixture + eta * (p @ np.exp(mixture)))
        change = float(np.abs(np.exp(following) - np.exp(log_policy)).max())
        log_policy = following
    return as_policy(np.exp(log_policy), p), step


def _newton(z: np.ndarray, payoff: np.ndarray, log_reference: np.ndarray) -> np.ndarray:
    def residual(logits: np.ndarray) -> np.ndarray:
        return np.asarray(logits - log_reference - payoff @ softmax(logits))

    error = residual(z)
    for _ in range(200):
        size = float(np.abs(error).max())
        # The logits are of size 1 / tau, so their rounding bounds what can be reached.
        if size <= 1e-14 * (1 + float(np.abs(payoff).max())):
            break
        policy = softmax(z)
        jacobian = np.eye(len(z)) - (payoff * policy - np.outer(payoff @ policy, policy))
        step, length = np.linalg.solve(jacobian, -error), 1.0
        candidate = residual(z + step)
        while candidate @ candidate > (1 - 1e-4 * length) * (error @ error) and length > 1e-6:
            length /= 2
            candidate = residual(z + length * step)
        if length <= 1e-6:
            break
        z, error = z + length * step, candidate
    return z


def _log_reference(reference: np.ndarray | None, n: int) -> np.ndarray:
    if reference is None:
        return np.full(n, -np.log(n))
    given = np.asarray(reference, dtype=np.float64)
    if given.shape != (n,) or not (given > 0).all() or not np.isfinite(given).all() or abs(given.sum() - 1) > 1e-6:
        raise InputError(
            f"The reference {given.tolist()[:8]} is no positive distribution over {n} responses; give one."
        )
    return np.asarray(np.log(given / given.sum()))
