r"""Nash learning from human feedback as a game: the policy that no response beats on average.

.. math:: \pi^* \in \arg\max_\pi \min_{\pi'} \pi^\top P \pi'

The payoff :math:`A = P - 1/2` is skew-symmetric, so the value is one half and the solution is one policy for both
players. It is a single response exactly when that response is the Condorcet winner; without one it is mixed.

References:
    K. Liu, Q. Long, Z. Shi, W. J. Su, J. Xiao, arXiv:2503.10990. R. Munos et al., arXiv:2312.00886.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.optimize
from scipy.special import logsumexp, softmax

from workingpapers.foundations.errors import InputError
from workingpapers.preferences.condorcet_nash.matrices import check_preferences

SUPPORT = 1e-7
"""Masses below this are zeros of the linear program's tolerance."""


@dataclass(frozen=True)
class NashPolicy:
    """A policy over the responses and how it fares in the preference game.

    Args:
        policy: Probabilities, float64, shape (n,).
        worst_case_win_rate: min over y of P(policy beats y); one half for a Nash policy.
        support: Responses with positive probability.
        unique: Whether it is the only Nash policy; None where that was not asked.
    """

    policy: np.ndarray
    worst_case_win_rate: float
    support: tuple[int, ...]
    unique: bool | None = None

    @property
    def exploitability(self) -> float:
        """How far above one half the best reply wins."""
        return 0.5 - self.worst_case_win_rate

    @property
    def mixed(self) -> bool:
        """Whether it keeps more than one response."""
        return len(self.support) > 1

    @property
    def effective_size(self) -> float:
        r"""Effective number of responses, :math:`e^{H(\pi)}`."""
        return effective_size(self.policy)


def effective_size(policy: np.ndarray) -> float:
    r"""Return the effective number of responses :math:`e^{H(\pi)}`.

    Args:
        policy: Probabilities, shape (n,).
    """
    kept = policy[policy > 0]
    return float(np.exp(-(kept @ np.log(kept))))


def worst_case_win_rate(policy: np.ndarray, preferences: np.ndarray) -> float:
    """Return min over y of P(policy beats y).

    Args:
        policy: Probabilities, shape (n,).
        preferences: P, shape (n, n).
    """
    return float((policy @ preferences).min())


def nash_policy(preferences: np.ndarray) -> NashPolicy:
    r"""Solve the preference game by linear programming.

    Where several policies solve it (possible with ties and with even numbers of votes), the one of largest entropy is
    returned: the limit of the regularised policies as the regularisation vanishes, and the only choice that does not
    depend on how responses are numbered.

    Args:
        preferences: P, shape (n, n), every pair compared. Seconds at n = 500; beyond, see
            :func:`~.learning.self_play`.

    Raises:
        InputError: P is not a preference matrix, or a pair was never compared.

    References:
        Liu et al., arXiv:2503.10990; uniqueness for odd margins: G. Laffond, J.-F. Laslier, M. Le Breton, Games and
        Economic Behavior 5 (1993).
    """
    p = check_preferences(preferences)
    payoff = p - 0.5
    candidate = _solve(payoff)
    unique = _is_unique(candidate, payoff)
    policy = candidate if unique else _largest_entropy(payoff, candidate)
    return as_policy(policy, p, unique)


def as_policy(policy: np.ndarray, preferences: np.ndarray, unique: bool | None = None) -> NashPolicy:
    """Return `policy` with its worst case and support.

    Args:
        policy: Probabilities, shape (n,).
        preferences: P, shape (n, n).
        unique: Passed on.
    """
    support = tuple(np.flatnonzero(policy > SUPPORT).tolist())
    return NashPolicy(policy, worst_case_win_rate(policy, preferences), support, unique)


def _solve(payoff: np.ndarray) -> np.ndarray:
    n = len(payoff)
    found = scipy.optimize.linprog(
        np.append(np.zeros(n), -1.0),
        A_ub=np.column_stack([-payoff.T, np.ones(n)]),
        b_ub=np.zeros(n),
        A_eq=np.append(np.ones(n), 0.0)[None, :],
        b_eq=[1.0],
        bounds=[(0, None)] * n + [(None, None)],
        method="highs",
    )
    if found.status != 0:
        raise InputError(f"The linear program of {n} responses was not solved ({found.message}); use self_play.")
    policy = np.where(found.x[:-1] > SUPPORT, found.x[:-1], 0.0)
    return _polish(policy / policy.sum(), payoff)


def _polish(policy: np.ndarray, payoff: np.ndarray) -> np.ndarray:
    """Solve the equations of the support exactly: every kept response earns nothing against the policy."""
    kept = policy > 0
    size = int(kept.sum())
    system = np.vstack([payoff[np.ix_(kept, kept)], np.ones(size)])
    exact = np.linalg.lstsq(system, np.append(np.zeros(size), 1.0), rcond=None)[0]
    if (exact < 0).any():
        return policy
    full = np.zeros_like(policy)
    full[kept] = exact / exact.sum()
    return full if (full @ payoff).min() >= min((policy @ payoff).min(), -1e-12) else policy


def _is_unique(policy: np.ndarray, payoff: np.ndarray) -> bool:
    """Whether no other policy solves the game.

    Any other solution lives on responses that earn nothing against this one and makes the kept ones earn nothing, so
    it is unique exactly when those are the kept ones and their payoffs have a kernel of one dimension.
    """
    kept = policy > 0
    if (np.abs(policy @ payoff)[~kept] <= SUPPORT).any():
        return False
    size = int(kept.sum())
    return bool(size - np.linalg.matrix_rank(payoff[np.ix_(kept, kept)], tol=SUPPORT) == 1)


def _largest_entropy(payoff: np.ndarray, start: np.ndarray) -> np.ndarray:
    r"""Return the Nash policy of largest entropy: the dual :math:`\min_{\lambda} \log\sum_i e^{(A\lambda)_i}`.

    On the responses K that some Nash policy keeps, all of K earn nothing against any of them (equations, free
    multipliers); the others at most nothing (inequalities, multipliers >= 0).
    """
    kept = _possible_support(payoff)
    if kept.sum() <= 1:
        return start
    rows = payoff[kept]

    def dual(multipliers: np.ndarray) -> tuple[float, np.ndarray]:
        scores = rows @ multipliers
        return float(logsumexp(scores)), rows.T @ softmax(scores)

    bounds = [(None, None) if inside else (0.0, None) for inside in kept]
    found = scipy.optimize.minimize(
        dual, np.zeros(len(payoff)), jac=True, method="L-BFGS-B", bounds=bounds,
        options={"maxiter": 20_000, "maxfun": 50_000, "ftol": 1e-16, "gtol": 1e-11},
    )  # fmt: skip
    policy = np.zeros(len(payoff))
    policy[kept] = softmax(rows @ found.x)
    return policy if (policy @ payoff).min() >= -1e-6 else start


def _possible_support(payoff: np.ndarray) -> np.ndarray:
    """Return which responses some Nash policy keeps, by one linear program over the cone of their multiples."""
    n = len(payoff)
    identity = np.eye(n)
    found = scipy.optimize.linprog(
        np.append(np.zeros(n), -np.ones(n)),
        A_ub=np.block([[-payoff.T, np.zeros((n, n))], [-identity, identity]]),
        b_ub=np.zeros(2 * n),
        bounds=[(0, None)] * n + [(0, 1)] * n,
        method="highs",
    )
    return np.asarray(found.x[n:] > 0.5)
