r"""Item response theory: calibration by marginal maximum likelihood, scoring, information.

One item has a slope a, thresholds and, for two categories, a lower asymptote c:

.. math:: P(X \ge k \mid \theta) = \sigma(a\theta + d_k),\; k = 1..K-1; \qquad
          P(X = 1 \mid \theta) = c + (1 - c)\,\sigma(a\theta + d_1)

with :math:`\theta \sim N(0, 1)` in the calibrated population. Two categories give the 1PL (a common), 2PL and 3PL
models, more give the graded response model. Difficulties are :math:`b_k = -d_k / a`.

References:
    R. D. Bock and M. Aitkin, Psychometrika 46 (1981). F. Samejima, Psychometrika Monograph 17 (1969). T. A. Warm,
    Psychometrika 54 (1989).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from scipy.special import expit, logit, logsumexp

from workingpapers.foundations.errors import InputError
from workingpapers.foundations.progress import Progress, silent

Model = Literal["1PL", "2PL", "3PL", "graded"]
Scoring = Literal["map", "eap", "ml"]
NODE_RANGE = 6.0
LARGEST_SLOPE = 50.0  # an item this steep is a step between two quadrature nodes


@dataclass(frozen=True)
class Items:
    """Calibrated items.

    Args:
        slope: a, float64, shape (n,).
        intercept: d, decreasing along the second axis, shape (n, K - 1); NaN behind an item's last threshold.
        guessing: c, shape (n,); zero but for the 3PL.
    """

    slope: np.ndarray
    intercept: np.ndarray
    guessing: np.ndarray

    @classmethod
    def dichotomous(
        cls, slope: np.ndarray | float, difficulty: np.ndarray, guessing: np.ndarray | float = 0.0
    ) -> Items:
        """Return two-category items from slopes a, difficulties b and lower asymptotes c, shape (n,) each."""
        b = np.asarray(difficulty, dtype=np.float64)
        a = np.broadcast_to(np.asarray(slope, dtype=np.float64), b.shape).copy()
        return cls(a, (-a * b)[:, None], np.broadcast_to(np.asarray(guessing, dtype=np.float64), b.shape).copy())

    @property
    def count(self) -> int:
        """Number of items n."""
        return len(self.slope)

    @property
    def difficulty(self) -> np.ndarray:
        """Difficulties b = -d / a, shape (n, K - 1)."""
        return np.asarray(-self.intercept / self.slope[:, None])

    def take(self, which: np.ndarray) -> Items:
        """Return the items of the index array `which`."""
        return Items(self.slope[which], self.intercept[which], self.guessing[which])

    def probabilities(self, theta: np.ndarray) -> np.ndarray:
        """Return category probabilities, shape (n, K, t), for abilities of shape (t,)."""
        upper = _cumulative(self, np.asarray(theta, dtype=np.float64))
        return np.asarray(upper[:, :-1] - upper[:, 1:])

    def information(self, theta: np.ndarray) -> np.ndarray:
        r"""Return Fisher information of each item, shape (n, t): :math:`\sum_k (\partial p_k)^2 / p_k`."""
        theta = np.asarray(theta, dtype=np.float64)
        p = self.probabilities(theta)
        slope = _theta_slope(self, theta)
        return np.asarray(np.where(p > 0, slope**2 / np.where(p > 0, p, 1.0), 0.0).sum(axis=1))


@dataclass(frozen=True)
class Calibration:
    """Items estimated from responses.

    Args:
        items: The estimates.
        slope_error: Standard errors of a, shape (n,).
        intercept_error: Standard errors of d, shape (n, K - 1).
        guessing_error: Standard errors of logit c, shape (n,); NaN but for the 3PL.
        log_likelihood: Marginal log-likelihood of the responses.
        iterations: EM steps taken.
        converged: Whether the largest change of a parameter fell below the tolerance.
        model: The model.
    """

    items: Items
    slope_error: np.ndarray
    intercept_error: np.ndarray
    guessing_error: np.ndarray
    log_likelihood: float
    iterations: int
    converged: bool
    model: Model


@dataclass(frozen=True)
class Scores:
    """Abilities.

    Args:
        theta: Estimates, float64, shape (N,); infinite where maximum likelihood has no finite solution.
        error: Standard errors, shape (N,).
        exists: Whether a finite estimate exists, shape (N,).
    """

    theta: np.ndarray
    error: np.ndarray
    exists: np.ndarray


def check_responses(responses: np.ndarray) -> tuple[np.ndarray, int]:
    """Return responses as float64 (N, n) with NaN where missing, and the number of categories K.

    Raises:
        InputError: Not a matrix, a response is not a whole number from 0, or an item has one answer only.
    """
    matrix = np.asarray(responses, dtype=np.float64)
    if matrix.ndim != 2 or not matrix.size:
        raise InputError(f"Responses have shape {matrix.shape}; give examinees by items.")
    seen = matrix[~np.isnan(matrix)]
    wrong = seen[(seen < 0) | (seen != np.round(seen))]
    if len(wrong):
        raise InputError(f"A response is {wrong[0]:g}; use 0, 1, 2, ... and leave missing ones empty.")
    with np.errstate(all="ignore"):
        import warnings

        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            low, high = np.nanmin(matrix, axis=0), np.nanmax(matrix, axis=0)
    flat = np.flatnonzero(~(low < high))
    if len(flat):
        what = "no answers" if np.isnan(low[flat[0]]) else f"the answer {low[flat[0]]:g} alone"
        raise InputError(f"Item {flat[0]} has {what}, so nothing can be learned about it; leave it out.")
    return matrix, int(seen.max()) + 1


def calibrate(
    responses: np.ndarray,
    model: Model = "2PL",
    *,
    nodes: int = 41,
    slope_prior: tuple[float, float] | None = None,
    guessing_prior: tuple[float, float] | None = None,
    tolerance: float = 1e-4,
    max_iterations: int = 500,
    standard_errors: bool = True,
    progress: Progress = silent,
) -> Calibration:
    r"""Estimate items by marginal maximum likelihood (EM over a quadrature of the ability).

    The E step weighs `nodes` equally spaced abilities by their posterior for each examinee; the M step takes Fisher
    scoring steps for all items at once. Standard errors come from the cross-products of the examinees' scores.

    Args:
        responses: 0, 1, ..., K - 1 or NaN, shape (N, n). Missing responses drop out of the likelihood.
        model: ``"1PL"`` (common slope), ``"2PL"``, ``"3PL"`` or ``"graded"``.
        nodes: Number of quadrature nodes on [-6, 6].
        slope_prior: Mean and standard deviation of log a; None for no prior (3PL: (0, 0.5), which it needs).
        guessing_prior: 3PL: mean and standard deviation of logit c; None gives (logit 0.2, 0.5).
        tolerance: Largest change of a parameter at convergence.
        max_iterations: Most EM steps.
        standard_errors: Whether to compute them.
        progress: Told of each EM step.

    Returns:
        The calibration.

    Raises:
        InputError: See :func:`check_responses`; more than two categories for a two-category model; or a slope without
            a finite estimate.
    """
    matrix, categories = check_responses(responses)
    if model != "graded" and categories > 2:
        raise InputError(f"A response is {categories - 1}, but the {model} takes 0 and 1; use the graded model.")
    if model == "3PL":
        slope_prior = slope_prior or (0.0, 0.5)
        guessing_prior = guessing_prior or (float(logit(0.2)), 0.5)
    theta = np.linspace(-NODE_RANGE, NODE_RANGE, nodes)
    log_prior = -0.5 * theta**2
    log_prior -= logsumexp(log_prior)
    chosen = [np.where(np.isnan(matrix), 0.0, matrix == k) for k in range(categories)]
    items = _start(chosen, model)
    # Categories that nobody chose have no threshold of their own.
    iteration, converged, likelihood = 0, False, -np.inf
    for iteration in range(1, max_iterations + 1):
        posterior, likelihood = _expectation(items, chosen, theta, log_prior)
        counts = np.stack([each.T @ posterior for each in chosen], axis=1)
        following = _maximise(items, counts, theta, model, slope_prior, guessing_prior)
        change = _largest_change(items, following)
        items = following
        progress(min(0.95, iteration / max_iterations), f"EM step {iteration}, change {change:.1e}")
        if change < tolerance:
            converged = True
            break
    posterior, likelihood = _expectation(items, chosen, theta, log_prior)
    errors = (
        _errors(items, chosen, theta, posterior, model)
        if standard_errors
        else (np.full(items.count, np.nan), np.full_like(items.intercept, np.nan), np.full(items.count, np.nan))
    )
    progress(1.0, "calibrated")
    return Calibration(items, *errors, likelihood, iteration, converged, model)


def score(
    responses: np.ndarray,
    items: Items,
    method: Scoring = "map",
    *,
    prior: tuple[float, float] = (0.0, 1.0),
    nodes: int = 81,
    iterations: int = 60,
) -> Scores:
    r"""Estimate abilities, all examinees at once.

    Args:
        responses: Shape (N, n), NaN where missing.
        items: Calibrated items.
        method: ``"map"`` (posterior mode), ``"eap"`` (posterior mean) or ``"ml"`` (no prior).
        prior: Mean and standard deviation of the normal prior.
        nodes: Quadrature nodes of ``"eap"``, and of the grid that starts the others.
        iterations: Most Newton steps.

    Returns:
        Abilities and standard errors: posterior standard deviation for EAP, :math:`1/\sqrt{I}` with the observed
        information (prior included for MAP) otherwise. Maximum likelihood is infinite for examinees whose answers all
        are the lowest or all the highest, and there ``exists`` is False.

    Raises:
        InputError: The number of items disagrees, or a response is not a category of its item.
    """
    matrix = np.asarray(responses, dtype=np.float64)
    if matrix.ndim != 2 or matrix.shape[1] != items.count:
        raise InputError(f"Responses have shape {matrix.shape}, but there are {items.count} items; make them agree.")
    categories = items.intercept.shape[1] + 1
    seen = ~np.isnan(matrix)
    top = np.sum(~np.isnan(items.intercept), axis=1)
    wrong = seen & ~((matrix >= 0) & (matrix <= top) & (matrix == np.round(matrix)))
    if wrong.any():
        raise InputError(f"A response is {matrix[wrong][0]:g}, which is not a category of its item.")
    chosen = [np.where(seen, matrix == k, 0.0) for k in range(categories)]
    mean, deviation = prior
    grid = np.linspace(mean - NODE_RANGE * deviation, mean + NODE_RANGE * deviation, nodes)
    likelihood = _log_likelihoods(items, chosen, grid)
    log_prior = -0.5 * ((grid - mean) / deviation) ** 2
    if method == "eap":
        log_posterior = likelihood + log_prior
        weight = np.exp(log_posterior - logsumexp(log_posterior, axis=1, keepdims=True))
        theta = weight @ grid
        spread = weight @ grid**2 - theta**2
        return Scores(theta, np.sqrt(np.maximum(spread, 0.0)), np.ones(len(theta), bool))
    precision = 1 / deviation**2 if method == "map" else 0.0
    start = grid[np.argmax(likelihood + (log_prior if method == "map" else 0.0), axis=1)]
    theta = _newton_abilities(matrix, items, start, mean, precision, iterations)
    information = _observed_information(matrix, items, theta) + precision
    exists = np.ones(len(theta), bool)
    if method == "ml":
        lowest = np.all(~seen | (matrix == 0), axis=1)
        highest = np.all(~seen | (matrix == top), axis=1)
        exists = ~(lowest | highest)
        theta = np.where(lowest & ~highest, -np.inf, np.where(highest & ~lowest, np.inf, theta))
        theta = np.where(lowest & highest, np.nan, theta)  # nothing was answered
    with np.errstate(divide="ignore", invalid="ignore"):
        error = np.where(exists, 1 / np.sqrt(np.maximum(information, 0.0)), np.inf)
    return Scores(theta, error, exists)


def simulate(theta: np.ndarray, items: Items, rng: np.random.Generator) -> np.ndarray:
    """Draw responses, float64, shape (N, n), of examinees with abilities theta, shape (N,)."""
    upper = _cumulative(items, np.asarray(theta, dtype=np.float64))
    draw = rng.random((items.count, len(theta)))
    answers = (draw[:, None, :] < upper[:, 1:, :]).sum(axis=1)
    return np.asarray(answers.T, dtype=np.float64)


def _cumulative(items: Items, theta: np.ndarray) -> np.ndarray:
    """Return P(X >= k), k = 0..K, shape (n, K + 1, t); zero behind an item's last threshold."""
    inner = expit(items.slope[:, None, None] * theta + np.nan_to_num(items.intercept, nan=-np.inf)[:, :, None])
    c = items.guessing[:, None, None]
    inner = c + (1 - c) * inner if items.guessing.any() else inner
    edge = (items.count, 1, len(theta))
    return np.concatenate([np.ones(edge), inner, np.zeros(edge)], axis=1)


def _theta_slope(items: Items, theta: np.ndarray) -> np.ndarray:
    """Return the derivative of the category probabilities in theta, shape (n, K, t)."""
    inner = expit(items.slope[:, None, None] * theta + np.nan_to_num(items.intercept, nan=-np.inf)[:, :, None])
    rise = (1 - items.guessing)[:, None, None] * items.slope[:, None, None] * inner * (1 - inner)
    edge = np.zeros((items.count, 1, len(theta)))
    padded = np.concatenate([edge, rise, edge], axis=1)
    return np.asarray(padded[:, :-1] - padded[:, 1:])


def _log(p: np.ndarray) -> np.ndarray:
    # A category that an item lacks has probability zero and is never chosen; 0 * log 0 must stay 0.
    return np.log(np.where(p > 0, p, 1.0))


def _log_likelihoods(items: Items, chosen: list[np.ndarray], theta: np.ndarray) -> np.ndarray:
    log_p = _log(items.probabilities(theta))
    return np.asarray(sum(each @ log_p[:, k] for k, each in enumerate(chosen)))


def _expectation(
    items: Items, chosen: list[np.ndarray], theta: np.ndarray, log_prior: np.ndarray
) -> tuple[np.ndarray, float]:
    joint = _log_likelihoods(items, chosen, theta) + log_prior
    total = logsumexp(joint, axis=1, keepdims=True)
    return np.exp(joint - total), float(total.sum())


def _start(chosen: list[np.ndarray], model: Model) -> Items:
    counts = np.stack([each.sum(axis=0) for each in chosen], axis=1)
    total = counts.sum(axis=1, keepdims=True)
    at_least = counts[:, ::-1].cumsum(axis=1)[:, ::-1][:, 1:]
    share = np.clip(at_least / total, 1e-3, 1 - 1e-3)
    intercept = np.where(at_least > 0, logit(share) * 1.2, np.nan)
    # Thresholds of categories that nobody chose coincide with the next; keep them apart.
    gaps = np.arange(intercept.shape[1]) * 1e-3
    guessing = np.full(len(counts), 0.2 if model == "3PL" else 0.0)
    return Items(np.ones(len(counts)), intercept - gaps, guessing)


def _derivatives(items: Items, theta: np.ndarray, model: Model) -> tuple[np.ndarray, np.ndarray]:
    """Return p, shape (n, K, t), and its derivatives in (a, d_1.., [logit c]), shape (n, m, K, t)."""
    z = items.slope[:, None, None] * theta + np.nan_to_num(items.intercept, nan=-np.inf)[:, :, None]
    s = expit(z)
    c = items.guessing[:, None, None]
    rise = (1 - c) * s * (1 - s)
    n, thresholds, t = rise.shape
    edge = np.zeros((n, 1, t))

    def difference(inner: np.ndarray) -> np.ndarray:
        padded = np.concatenate([edge, inner, edge], axis=1)
        return np.asarray(padded[:, :-1] - padded[:, 1:])

    parts = [difference(rise * theta)]
    for k in range(thresholds):
        only = np.zeros_like(rise)
        only[:, k] = rise[:, k]
        parts.append(difference(only))
    if model == "3PL":
        parts.append(difference((1 - s) * c * (1 - c)))
    return items.probabilities(theta), np.stack(parts, axis=1)


def _maximise(
    items: Items,
    counts: np.ndarray,
    theta: np.ndarray,
    model: Model,
    slope_prior: tuple[float, float] | None,
    guessing_prior: tuple[float, float] | None,
) -> Items:
    """One M step: Fisher scoring on expected counts, shape (n, K, t), with steps halved where they fail."""
    for _ in range(2):
        p, slopes = _derivatives(items, theta, model)
        safe = np.where(p > 0, p, 1.0)
        gradient = np.einsum("jkt,jmkt->jm", np.where(p > 0, counts / safe, 0.0), slopes)
        weight = np.where(p > 0, counts.sum(axis=1, keepdims=True) / safe, 0.0)
        information = np.einsum("jakt,jkt,jbkt->jab", slopes, weight, slopes, optimize=True)
        if slope_prior:
            mean, deviation = slope_prior
            a = np.maximum(items.slope, 1e-3)
            gradient[:, 0] -= (np.log(a) - mean) / (deviation**2 * a)
            information[:, 0, 0] += 1 / (deviation * a) ** 2
        if model == "3PL" and guessing_prior:
            mean, deviation = guessing_prior
            gradient[:, -1] -= (logit(items.guessing) - mean) / deviation**2
            information[:, -1, -1] += 1 / deviation**2
        # A threshold that an item lacks has no information: make its row the identity.
        index = np.arange(information.shape[1])
        information[:, index, index] += np.where(information[:, index, index] <= 0, 1.0, 0.0)
        if model == "1PL":
            items = _common_slope_step(items, gradient, information)
        else:
            try:
                step = np.linalg.solve(information, gradient[:, :, None])[:, :, 0]
            except np.linalg.LinAlgError:
                raise _no_slope(items) from None
            items = _stepped(items, np.clip(step, -1.0, 1.0), model)
            if not np.all(np.abs(items.slope) < LARGEST_SLOPE):
                raise _no_slope(items)
    return items


def _no_slope(items: Items) -> InputError:
    """Say which slope grows without bound, as those of two copies of one item do."""
    item = int(np.argmax(np.abs(items.slope)))
    return InputError(
        f"The slope of item {item} (from 0) grows without bound, as where it is a copy of another item; leave it out "
        "or give a slope_prior such as (0, 0.5)."
    )


def _common_slope_step(items: Items, gradient: np.ndarray, information: np.ndarray) -> Items:
    """A scoring step of (a, d_1, ..., d_n) with one slope a: Schur complement of the diagonal block of the d."""
    d_info, cross = information[:, 1, 1], information[:, 0, 1]
    a_info = information[:, 0, 0].sum() - np.sum(cross**2 / d_info)
    a_step = float((gradient[:, 0].sum() - np.sum(cross * gradient[:, 1] / d_info)) / a_info)
    a_step = float(np.clip(a_step, -1.0, 1.0))
    d_step = (gradient[:, 1] - cross * a_step) / d_info
    return replace(items, slope=items.slope + a_step, intercept=items.intercept + d_step[:, None])


def _stepped(items: Items, step: np.ndarray, model: Model) -> Items:
    thresholds = items.intercept.shape[1]
    length = np.ones(items.count)
    for _ in range(12):
        intercept = items.intercept + length[:, None] * step[:, 1 : 1 + thresholds]
        ordered = ~np.any(np.diff(intercept, axis=1) >= 0, axis=1)  # NaN, no threshold, is in order
        if ordered.all():
            break
        length = np.where(ordered, length, length / 2)
    slope = items.slope + length * step[:, 0]
    guessing = items.guessing
    if model == "3PL":
        guessing = expit(np.clip(logit(items.guessing) + length * step[:, -1], -9.0, 0.5))
    return Items(slope, items.intercept + length[:, None] * step[:, 1 : 1 + thresholds], guessing)


def _largest_change(before: Items, after: Items) -> float:
    parts = (
        np.abs(after.slope - before.slope),
        np.abs(np.nan_to_num(after.intercept - before.intercept)).ravel(),
        np.abs(after.guessing - before.guessing),
    )
    return float(max(part.max() for part in parts))


def _errors(
    items: Items, chosen: list[np.ndarray], theta: np.ndarray, posterior: np.ndarray, model: Model
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return standard errors from the cross-products of the examinees' scores."""
    p, slopes = _derivatives(items, theta, model)
    n, parameters = slopes.shape[:2]
    per_item = []
    for m in range(parameters):
        ratio = np.where(p > 0, slopes[:, m] / np.where(p > 0, p, 1.0), 0.0)
        per_item.append(sum(each * (posterior @ ratio[:, k].T) for k, each in enumerate(chosen)))
    scores = np.stack(per_item, axis=2)
    if model == "1PL":
        scores = np.concatenate([scores[:, :, 0].sum(axis=1, keepdims=True), scores[:, :, 1]], axis=1)
        deviations = _deviations(scores.T @ scores)
        return np.full(n, deviations[0]), deviations[1:, None], np.full(n, np.nan)
    flat = scores.reshape(len(scores), n * parameters)
    deviations = _deviations(flat.T @ flat).reshape(n, parameters)
    thresholds = items.intercept.shape[1]
    intercepts = np.where(np.isnan(items.intercept), np.nan, deviations[:, 1 : 1 + thresholds])
    guessing = deviations[:, -1] if model == "3PL" else np.full(n, np.nan)
    return deviations[:, 0], intercepts, guessing


def _deviations(information: np.ndarray) -> np.ndarray:
    lacking = np.diag(information) <= 0
    filled = information + np.diag(lacking.astype(np.float64))
    variances = np.diag(np.linalg.pinv(filled, hermitian=True))
    return np.where(lacking, np.nan, np.sqrt(np.maximum(variances, 0.0)))


def _ability_derivatives(matrix: np.ndarray, items: Items, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return score and observed information of each examinee, shape (N,), at abilities of shape (N,)."""
    seen = ~np.isnan(matrix)
    answer = np.where(seen, matrix, 0).astype(np.int64)
    d = np.nan_to_num(items.intercept, nan=-np.inf)
    padded = np.concatenate([np.full((items.count, 1), np.inf), d, np.full((items.count, 1), -np.inf)], axis=1)
    column = np.arange(items.count)
    base = items.slope * theta[:, None]
    upper = expit(base + padded[column, answer])
    lower = expit(base + padded[column, answer + 1])
    if items.guessing.any():
        c = items.guessing
        right = answer == 1
        p1 = c + (1 - c) * expit(base + d[:, 0])
        s = expit(base + d[:, 0])
        rise = (1 - c) * items.slope * s * (1 - s)
        bend = rise * items.slope * (1 - 2 * s)
        p = np.where(right, p1, 1 - p1)
        sign = np.where(right, 1.0, -1.0)
        first, second = sign * rise / p, sign * bend / p
    else:
        # d/dtheta log(U - L) with U, L logistic: a (1 - U - L); its derivative: -a^2 (U(1-U) + L(1-L)).
        first = items.slope * (1 - upper - lower)
        negative = items.slope**2 * (upper * (1 - upper) + lower * (1 - lower))
        return (first * seen).sum(axis=1), (negative * seen).sum(axis=1)
    return (first * seen).sum(axis=1), ((first**2 - second) * seen).sum(axis=1)


def _observed_information(matrix: np.ndarray, items: Items, theta: np.ndarray) -> np.ndarray:
    return _ability_derivatives(matrix, items, theta)[1]


def _newton_abilities(
    matrix: np.ndarray, items: Items, start: np.ndarray, mean: float, precision: float, iterations: int
) -> np.ndarray:
    theta = start.copy()
    active = np.arange(len(theta))
    for _ in range(iterations):
        slope, information = _ability_derivatives(matrix[active], items, theta[active])
        slope -= precision * (theta[active] - mean)
        curvature = np.maximum(information + precision, 1e-8)
        step = np.clip(slope / curvature, -1.0, 1.0)
        theta[active] += step
        active = active[(np.abs(step) > 1e-10) & (np.abs(theta[active]) < 40)]
        if not len(active):
            break
    return theta
