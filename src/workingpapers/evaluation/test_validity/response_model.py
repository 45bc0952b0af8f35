r"""Graded response model of several populations, by marginal maximum likelihood.

.. math:: P(X_{ij} \ge k \mid \theta) = \sigma(a_{gj}\theta + d_{gjk}), \qquad \theta \sim N(\mu_g, \sigma_g^2)

The first population has :math:`\mu = 0, \sigma = 1`. Equal slopes leave :math:`\sigma_g` free in the others, equal
slopes and intercepts also :math:`\mu_g`. Two categories give the 2PL. The gradient is that of the expected
log-likelihood at the current posterior (Fisher's identity).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit, logit, logsumexp
from scipy.stats import chi2 as chi2_distribution

from workingpapers.foundations.errors import InputError
from workingpapers.foundations.item_response import NODE_RANGE, Items
from workingpapers.foundations.progress import Progress, silent

ResponseLevel = Literal["configural", "metric", "scalar"]


@dataclass(frozen=True)
class ResponseFit:
    """A fitted model.

    Args:
        items: Item parameters, one entry a population.
        mean: Ability means, shape (G,).
        deviation: Ability standard deviations, shape (G,).
        log_likelihood: Marginal log-likelihood.
        parameters: Number of free parameters.
        converged: Whether the optimiser says so.
        solution: The optimiser's vector, to start neighbours of this model from.
    """

    items: tuple[Items, ...]
    mean: np.ndarray
    deviation: np.ndarray
    log_likelihood: float
    parameters: int
    converged: bool
    solution: np.ndarray


def common_categories(samples: Sequence[np.ndarray], names: Sequence[str]) -> list[np.ndarray]:
    """Recode answers to 0, 1, ... so that every category of an item was chosen in every population.

    A category that some population never chose is merged with the next lower one that all chose (the lowest, with the
    next higher), in all populations alike.

    Args:
        samples: Answers, shape (n_g, p), NaN where missing.
        names: Names of the p items, for the message.

    Raises:
        InputError: An item keeps a single category.
    """
    recoded = [np.full(sample.shape, np.nan) for sample in samples]
    for j, name in enumerate(names):
        seen = [set(np.unique(sample[~np.isnan(sample[:, j]), j])) for sample in samples]
        kept = np.array(sorted(set.intersection(*seen)))
        if len(kept) < 2:
            raise InputError(f"Item {name!r} has no two answers that occur in both tables; leave it out of the items.")
        for sample, target in zip(samples, recoded, strict=True):
            present = ~np.isnan(sample[:, j])
            target[present, j] = np.maximum(np.searchsorted(kept, sample[present, j], side="right") - 1, 0)
    return recoded


def fit_responses(
    samples: Sequence[np.ndarray],
    level: ResponseLevel = "scalar",
    *,
    free: frozenset[int] = frozenset(),
    nodes: int = 31,
    start: ResponseFit | None = None,
    max_iterations: int = 400,
) -> ResponseFit:
    """Fit the graded response model to the populations together.

    Args:
        samples: Answers 0, 1, ..., NaN where missing, shape (n_g, p); see :func:`common_categories`.
        level: ``"configural"`` (items differ), ``"metric"`` (equal slopes) or ``"scalar"`` (and intercepts).
        free: Items whose slope and intercepts differ between populations all the same.
        nodes: Quadrature nodes of the ability.
        start: A fit of the same data and level, with fewer free items, to start from.
        max_iterations: Most steps of the quasi-Newton search.

    Returns:
        The fit.

    References:
        R. D. Bock, M. F. Zimowski, in van der Linden and Hambleton (1997).
    """
    layout = _Layout(samples, level, free)
    grid = np.linspace(-NODE_RANGE, NODE_RANGE, nodes)
    log_prior = -0.5 * grid**2
    log_prior -= logsumexp(log_prior)
    chosen = [[np.where(np.isnan(sample), 0.0, sample == k) for k in range(layout.categories)] for sample in samples]
    total = sum(len(sample) for sample in samples)

    def objective(vector: np.ndarray) -> tuple[float, np.ndarray]:
        value, gradient = 0.0, np.zeros_like(vector)
        for g in range(len(samples)):
            value += _group_likelihood(layout, vector, g, chosen[g], grid, log_prior, gradient)
        return -value / total, -gradient / total

    begin = layout.start(samples) if start is None else layout.from_fit(start)
    found = minimize(
        objective, begin, jac=True, method="L-BFGS-B", options={"maxiter": max_iterations, "ftol": 1e-11, "gtol": 1e-6}
    )
    mean, deviation = zip(*(layout.ability(found.x, g) for g in range(len(samples))), strict=True)
    return ResponseFit(
        items=tuple(layout.items(found.x, g) for g in range(len(samples))),
        mean=np.array(mean),
        deviation=np.array(deviation),
        log_likelihood=-float(found.fun) * total,
        parameters=layout.size,
        converged=bool(found.success),
        solution=found.x,
    )


def likelihood_ratios(
    samples: Sequence[np.ndarray],
    *,
    free: frozenset[int] = frozenset(),
    level: ResponseLevel = "scalar",
    progress: Progress = silent,
) -> tuple[np.ndarray, np.ndarray]:
    """Return the likelihood-ratio chi-square of each item for being free, and its p-value: shape (p,) each.

    Args:
        samples: Answers of the populations, coded as in :func:`fit_responses`.
        free: Items that are free in the restricted model too; all the others are the anchor.
        level: The restricted model.
        progress: Told of each item.

    References:
        D. Thissen, L. Steinberg, H. Wainer, in Holland and Wainer, Differential Item Functioning (1993).
    """
    p = samples[0].shape[1]
    base = fit_responses(samples, level, free=free)
    statistic, probability = np.zeros(p), np.ones(p)
    for j in range(p):
        if j in free:
            restricted, relaxed = fit_responses(samples, level, free=free - {j}), base
        else:
            restricted, relaxed = base, fit_responses(samples, level, free=free | {j}, start=base)
        statistic[j] = max(2 * (relaxed.log_likelihood - restricted.log_likelihood), 0.0)
        probability[j] = chi2_distribution.sf(statistic[j], relaxed.parameters - restricted.parameters)
        progress((j + 1) / p, f"likelihood ratio of item {j + 1} of {p}")
    return statistic, probability


def test_difference(fit: ResponseFit) -> tuple[float, float]:
    r"""Return the signed and the absolute difference of expected test scores, second minus first population.

    .. math:: \int [T_2(\theta) - T_1(\theta)]\, \varphi(\theta)\, d\theta, \qquad
              \int |T_2(\theta) - T_1(\theta)|\, \varphi(\theta)\, d\theta

    Args:
        fit: A fit with some free items; without any both are zero.
    """
    theta = np.linspace(-NODE_RANGE, NODE_RANGE, 121)
    weight = np.exp(-0.5 * theta**2)
    weight /= weight.sum()
    first, second = (expected_scores(items, theta).sum(axis=0) for items in fit.items[:2])
    return float(weight @ (second - first)), float(weight @ np.abs(second - first))


def expected_scores(items: Items, theta: np.ndarray) -> np.ndarray:
    """Return the expected answer to each item, shape (p, t).

    Args:
        items: Item parameters.
        theta: Abilities, shape (t,).
    """
    p = items.probabilities(theta)
    return np.asarray(np.einsum("jkt,k->jt", p, np.arange(p.shape[1])))


class _Layout:
    """Where each number of the model stands in the optimiser's vector."""

    def __init__(self, samples: Sequence[np.ndarray], level: ResponseLevel, free: frozenset[int]) -> None:
        self.groups, p = len(samples), samples[0].shape[1]
        self.top = np.max([np.nanmax(sample, axis=0) for sample in samples], axis=0).astype(int)
        self.categories = int(self.top.max()) + 1
        self.slope = np.zeros((self.groups, p), int)
        self.intercept = np.full((self.groups, p, self.categories - 1), -1)
        self.size = 0
        for j in range(p):
            alone = j in free
            for g in range(self.groups):
                if g and level != "configural" and not alone:
                    self.slope[g, j] = self.slope[0, j]
                else:
                    self.slope[g, j] = self._take(1)
                if g and level == "scalar" and not alone:
                    self.intercept[g, j] = self.intercept[0, j]
                else:
                    first = self._take(self.top[j])
                    self.intercept[g, j, : self.top[j]] = np.arange(first, first + self.top[j])
        self.mean = [self._take(1) if g and level == "scalar" else -1 for g in range(self.groups)]
        self.spread = [self._take(1) if g and level != "configural" else -1 for g in range(self.groups)]

    def _take(self, count: int) -> int:
        self.size += int(count)
        return self.size - int(count)

    def start(self, samples: Sequence[np.ndarray]) -> np.ndarray:
        vector = np.zeros(self.size)
        for g, sample in reversed(list(enumerate(samples))):
            vector[self.slope[g]] = 1.0
            for j, top in enumerate(self.top):
                answers = sample[~np.isnan(sample[:, j]), j]
                share = [np.clip(np.mean(answers >= k), 0.01, 0.99) for k in range(1, top + 1)]
                cuts = logit(np.array(share)) * 1.2
                gaps = np.log(np.maximum(-np.diff(cuts), 0.05))
                vector[self.intercept[g, j, :top]] = np.r_[cuts[:1], gaps]
        return vector

    def from_fit(self, fit: ResponseFit) -> np.ndarray:
        vector = np.zeros(self.size)
        for g, items in enumerate(fit.items):
            vector[self.slope[g]] = items.slope
            for j, top in enumerate(self.top):
                cuts = items.intercept[j, :top]
                vector[self.intercept[g, j, :top]] = np.r_[cuts[:1], np.log(-np.diff(cuts))]
            if self.mean[g] >= 0:
                vector[self.mean[g]] = fit.mean[g]
            if self.spread[g] >= 0:
                vector[self.spread[g]] = np.log(fit.deviation[g])
        return vector

    def items(self, vector: np.ndarray, g: int) -> Items:
        raw = np.where(self.intercept[g] >= 0, vector[self.intercept[g]], np.nan)
        # The first entry is d_1, the others are logs of the gaps between thresholds, which keeps the order.
        cuts = np.concatenate([raw[:, :1], raw[:, :1] - np.cumsum(np.exp(raw[:, 1:]), axis=1)], axis=1)
        return Items(vector[self.slope[g]], cuts, np.zeros(len(raw)))

    def ability(self, vector: np.ndarray, g: int) -> tuple[float, float]:
        mean = float(vector[self.mean[g]]) if self.mean[g] >= 0 else 0.0
        return mean, float(np.exp(vector[self.spread[g]])) if self.spread[g] >= 0 else 1.0


def _group_likelihood(
    layout: _Layout,
    vector: np.ndarray,
    g: int,
    chosen: list[np.ndarray],
    grid: np.ndarray,
    log_prior: np.ndarray,
    gradient: np.ndarray,
) -> float:
    """Add population g's gradient to `gradient` and return its log-likelihood."""
    items, (mean, deviation) = layout.items(vector, g), layout.ability(vector, g)
    theta = mean + deviation * grid
    p = items.probabilities(theta)
    log_p = np.log(np.maximum(p, 1e-300))
    joint = sum(each @ log_p[:, k] for k, each in enumerate(chosen)) + log_prior
    total = logsumexp(joint, axis=1, keepdims=True)
    posterior = np.exp(joint - total)
    ratio = np.stack([each.T @ posterior for each in chosen], axis=1) / np.maximum(p, 1e-300)
    inner = expit(items.slope[:, None, None] * theta + np.nan_to_num(items.intercept, nan=-np.inf)[:, :, None])
    slope_of_line = (ratio[:, 1:] - ratio[:, :-1]) * inner * (1 - inner)
    np.add.at(gradient, layout.slope[g], (slope_of_line * theta).sum(axis=(1, 2)))
    by_cut = slope_of_line.sum(axis=2)
    tail = by_cut[:, ::-1].cumsum(axis=1)[:, ::-1]
    raw = layout.intercept[g]
    for k in range(raw.shape[1]):
        have = raw[:, k] >= 0
        factor = np.ones(have.sum()) if k == 0 else -np.exp(vector[raw[have, k]])
        np.add.at(gradient, raw[have, k], factor * tail[have, k])
    by_theta = (slope_of_line * items.slope[:, None, None]).sum(axis=(0, 1))
    if layout.mean[g] >= 0:
        gradient[layout.mean[g]] += by_theta.sum()
    if layout.spread[g] >= 0:
        gradient[layout.spread[g]] += deviation * (by_theta @ grid)
    return float(total.sum())
