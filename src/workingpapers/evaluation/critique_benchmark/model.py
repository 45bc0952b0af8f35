r"""The itemised bipartite Bradley-Terry model: posterior mode, Laplace covariance and evidence.

Answerer b meets item i of author a:

.. math:: P(y = 1) = \sigma(\eta), \qquad \eta = \beta_b - \alpha_a - \delta_i, \qquad \sum_b \beta_b = 0,

.. math:: \beta \sim N(0, s_b^2), \quad \alpha \sim N(0, s_a^2), \quad \delta \sim N(0, s_d^2).

The likelihood does not change when one number is added to all beta and all alpha; the sum constraint removes that
direction. Every game has one item, so the items' block D of the Hessian is diagonal and Newton's step solves only the
Schur complement :math:`S = A - C D^{-1} C^\top` of answerers and authors: the cost of a step is linear in the games.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.linalg
from scipy.special import expit

from workingpapers.evaluation.critique_benchmark.tables import Games
from workingpapers.foundations.errors import InputError


@dataclass(frozen=True)
class Scales:
    """Prior standard deviations in log-odds; 0 takes a level out of the model.

    Args:
        answerer: s_b > 0.
        author: s_a >= 0; 0 gives a Rasch model with answerers and items alone.
        item: s_d >= 0; 0 gives bipartite Bradley-Terry without items.
    """

    answerer: float = 2.0
    author: float = 2.0
    item: float = 1.0

    def __post_init__(self) -> None:
        for name in ("answerer", "author", "item"):
            value = getattr(self, name)
            if not np.isfinite(value) or value < 0 or (name == "answerer" and value == 0):
                low = "over" if name == "answerer" else "from"
                raise InputError(f"The {name} scale is {value}; give a finite number {low} 0.")


@dataclass(frozen=True)
class Estimate:
    """The posterior mode and its curvature.

    Args:
        beta: Answering strength, shape (n_b,), sum zero.
        alpha: Benchmarking strength, shape (n_a,).
        delta: Item effects, shape (n_i,).
        covariance: Laplace covariance of (beta, alpha), shape (n_b + n_a, n_b + n_a).
        item_gain: Minus the change of each delta with (beta, alpha), D^{-1} C^T, shape (n_i, n_b + n_a).
        item_variance: Variance of each delta given (beta, alpha), shape (n_i,).
        log_likelihood: Of the games at the mode.
        log_evidence: Laplace approximation of the log marginal likelihood of the games.
        gradient_norm: Largest absolute entry of the gradient on the free directions at the end.
        iterations: Newton steps.
        converged: Whether the gradient met the tolerance.
    """

    beta: np.ndarray
    alpha: np.ndarray
    delta: np.ndarray
    covariance: np.ndarray
    item_gain: np.ndarray
    item_variance: np.ndarray
    log_likelihood: float
    log_evidence: float
    gradient_norm: float
    iterations: int
    converged: bool

    def difficulty(self, games: Games) -> tuple[np.ndarray, np.ndarray]:
        """Return each item's difficulty alpha + delta and its standard error, shapes (n_i,)."""
        n_b, n_i = len(self.beta), len(self.delta)
        gain = -self.item_gain
        gain[np.arange(n_i), n_b + games.author_of] += 1.0
        variance = np.einsum("ij,jk,ik->i", gain, self.covariance, gain) + self.item_variance
        return self.alpha[games.author_of] + self.delta, np.sqrt(variance)


class _Curvature:
    """The Hessian of the negative log posterior at one point, in blocks."""

    def __init__(self, games: Games, scales: Scales, beta: np.ndarray, alpha: np.ndarray, delta: np.ndarray) -> None:
        n_b, n_a, n_i = len(beta), len(alpha), len(delta)
        eta = beta[games.answerer] - (alpha[games.author_of] + delta)[games.item]
        p = expit(eta)
        residual, c = games.weight * p - games.wins, games.weight * p * (1 - p)
        item_residual = np.bincount(games.item, residual, n_i)
        self.small_gradient = np.r_[
            np.bincount(games.answerer, residual, n_b) + beta / scales.answerer**2,
            -np.bincount(games.author_of, item_residual, n_a) + _times(alpha, scales.author),
        ]
        self.item_gradient = -item_residual + _times(delta, scales.item)
        per_item = np.bincount(games.item, c, n_i)
        with np.errstate(divide="ignore"):
            self.item_diagonal = per_item + np.divide(1.0, scales.item**2)
        self.item_inverse = 1.0 / self.item_diagonal
        cross = np.zeros((n_i, n_b + n_a))
        cross[games.item, games.answerer] = -c
        self.small = np.zeros((n_b + n_a, n_b + n_a))
        by_author = np.zeros((n_a, n_b))
        np.add.at(by_author, games.author_of, cross[:, :n_b])
        self.small[n_b:, :n_b], self.small[:n_b, n_b:] = by_author, by_author.T
        self.small[np.diag_indices(n_b + n_a)] = np.r_[
            np.bincount(games.answerer, c, n_b) + scales.answerer**-2,
            np.bincount(games.author_of, per_item, n_a) + _times(np.ones(n_a), scales.author),
        ]
        cross[np.arange(n_i), n_b + games.author_of] = per_item
        self.cross = cross
        self.gain = self.item_inverse[:, None] * cross
        self.schur = self.small - cross.T @ self.gain


def basis(answerers: int, authors: int, scales: Scales) -> np.ndarray:
    """Return an orthonormal basis of the free directions of (beta, alpha): beta sums to zero.

    Args:
        answerers: n_b.
        authors: n_a.
        scales: Prior scales; without an author level the alpha are not free.

    Returns:
        Columns of the basis, shape (n_b + n_a, n_b - 1 + n_a) or (n_b + n_a, n_b - 1).
    """
    blocks = np.zeros((answerers + authors, answerers - 1 + authors))
    blocks[:answerers, : answerers - 1] = scipy.linalg.helmert(answerers).T if answerers > 1 else 0.0
    blocks[answerers:, answerers - 1 :] = np.eye(authors)
    return blocks if scales.author > 0 else blocks[:, : answerers - 1]


def negative_log_posterior(
    games: Games, scales: Scales, beta: np.ndarray, alpha: np.ndarray, delta: np.ndarray
) -> float:
    r"""Return the objective, without the constants of the priors.

    .. math:: \sum_g w_g [\log(1 + e^{\eta_g}) - y_g \eta_g] + \frac{|\beta|^2}{2 s_b^2} + \frac{|\alpha|^2}{2 s_a^2}
              + \frac{|\delta|^2}{2 s_d^2}

    Args:
        games: The games.
        scales: Prior scales.
        beta: Shape (n_b,).
        alpha: Shape (n_a,).
        delta: Shape (n_i,).
    """
    penalty = beta @ beta / scales.answerer**2
    penalty += alpha @ _times(alpha, scales.author) + delta @ _times(delta, scales.item)
    return float(penalty / 2 - log_likelihood(games, beta, alpha, delta))


def log_likelihood(games: Games, beta: np.ndarray, alpha: np.ndarray, delta: np.ndarray) -> float:
    """Return the log-likelihood of the games.

    Args:
        games: The games.
        beta: Shape (n_b,).
        alpha: Shape (n_a,).
        delta: Shape (n_i,).
    """
    eta = beta[games.answerer] - (alpha[games.author_of] + delta)[games.item]
    return float(games.wins @ eta - games.weight @ np.logaddexp(0.0, eta))


def derivatives(
    games: Games, scales: Scales, beta: np.ndarray, alpha: np.ndarray, delta: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return gradient and Hessian of :func:`negative_log_posterior` in (beta, alpha, delta), without the constraint.

    Args:
        games: The games.
        scales: Prior scales, all positive.
        beta: Shape (n_b,).
        alpha: Shape (n_a,).
        delta: Shape (n_i,).

    Returns:
        Shapes (p,) and (p, p) with p = n_b + n_a + n_i.
    """
    at = _Curvature(games, scales, beta, alpha, delta)
    hessian = np.block([[at.small, at.cross.T], [at.cross, np.diag(at.item_diagonal)]])
    return np.r_[at.small_gradient, at.item_gradient], hessian


def fit_map(
    games: Games,
    scales: Scales,
    *,
    start: tuple[np.ndarray, np.ndarray, np.ndarray] | None = None,
    tolerance: float = 1e-9,
    max_iterations: int = 100,
) -> Estimate:
    """Return the posterior mode; the priors make it unique and finite, also under perfect separation.

    Args:
        games: The games.
        scales: Prior scales.
        start: beta (sum zero), alpha, delta to start from; zeros where None.
        tolerance: Bound on the largest absolute entry of the gradient, times the root of the total weight.
        max_iterations: Most Newton steps.

    Raises:
        InputError: The steps ran out.
    """
    n_b, n_a, n_i = len(games.answerers), len(games.authors), len(games.items)
    beta, alpha, delta = start or (np.zeros(n_b), np.zeros(n_a), np.zeros(n_i))
    free = basis(n_b, n_a, scales)
    bound = tolerance * max(1.0, float(games.weight.sum())) ** 0.5
    value = negative_log_posterior(games, scales, beta, alpha, delta)
    for iteration in range(max_iterations + 1):
        at = _Curvature(games, scales, beta, alpha, delta)
        item_gradient = at.item_gradient if scales.item > 0 else np.zeros(n_i)
        reduced = free.T @ at.small_gradient
        size = max(float(np.abs(reduced).max(initial=0)), float(np.abs(item_gradient).max(initial=0)))
        factor = scipy.linalg.cho_factor(free.T @ at.schur @ free)
        if size <= bound or iteration == max_iterations:
            break
        rhs = free.T @ (at.small_gradient - at.gain.T @ item_gradient)
        step = -free @ scipy.linalg.cho_solve(factor, rhs)
        item_step = -at.item_inverse * item_gradient - at.gain @ step
        slope, length = float(at.small_gradient @ step + item_gradient @ item_step), 1.0
        while True:
            trial = (beta + length * step[:n_b], alpha + length * step[n_b:], delta + length * item_step)
            lower = negative_log_posterior(games, scales, *trial)
            # The last digits of the objective are noise; the allowance keeps the search from stalling at the end.
            if lower <= value + 1e-4 * length * slope + 1e-12 * abs(value) or length < 1e-8:
                break
            length /= 2
        (beta, alpha, delta), value = trial, lower
    if size > 1e3 * bound:
        raise InputError(
            f"The fit did not settle in {max_iterations} steps (gradient {size:.2g}); use smaller prior scales."
        )
    return Estimate(
        beta,
        alpha,
        delta,
        free @ scipy.linalg.cho_solve(factor, free.T),
        at.gain,
        at.item_inverse,
        log_likelihood(games, beta, alpha, delta),
        _evidence(-value, scales, factor[0], at.item_diagonal, n_b, n_a),
        size,
        iteration,
        size <= bound,
    )


def _evidence(
    log_joint: float, scales: Scales, factor: np.ndarray, item_diagonal: np.ndarray, n_b: int, n_a: int
) -> float:
    r"""Return the Laplace evidence; every :math:`2 \pi` of a prior cancels against one of the integral."""
    found = log_joint - (n_b - 1) * np.log(scales.answerer) - float(np.log(np.diag(factor)).sum())
    if scales.author > 0:
        found -= n_a * np.log(scales.author)
    if scales.item > 0:
        found -= len(item_diagonal) * np.log(scales.item) + 0.5 * float(np.log(item_diagonal).sum())
    return float(found)


def _times(values: np.ndarray, scale: float) -> np.ndarray:
    """Return `values` over the prior variance; zero for a level that is not in the model, whose values are zero."""
    return values / scale**2 if scale > 0 else np.zeros_like(values)
