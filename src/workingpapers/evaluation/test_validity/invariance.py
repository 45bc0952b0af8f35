"""The ladder of measurement invariance: what must be equal before two populations' scores may be compared.

Configural (the same items measure the same factors), metric (equal loadings: differences between subjects have one
unit), scalar (equal intercepts: means have one origin), strict (equal residual variances). A step that fails may be
mended by exempting a few items (partial invariance). Numbers go through the factor model, few categories through the
graded response model.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.stats import chi2 as chi2_distribution

from workingpapers.evaluation.test_validity.factor_model import (
    FactorFit,
    Level,
    Moments,
    Parameter,
    fit_factors,
    score_test,
)
from workingpapers.evaluation.test_validity.response_model import ResponseFit, fit_responses, likelihood_ratios
from workingpapers.evaluation.test_validity.rules import DEFAULT_RULES, Rules

Reached = Literal["none", "configural", "metric", "partial scalar", "scalar"]


@dataclass(frozen=True)
class Step:
    """One step of the ladder.

    Args:
        level: Its name.
        chi_square: Chi-square of the model (None for response models, which have no saturated rival).
        degrees: Its degrees of freedom; for response models the number of parameters.
        difference: Chi-square of the difference to the step before (None for the first).
        difference_degrees: Its degrees of freedom.
        p_value: Of the difference; of the model itself for the first step.
        cfi: Comparative fit index, or None.
        rmsea: RMSEA of the model; for response models that of the difference.
        accepted: Whether the step stands, with the released items where there are any.
        released: Items exempt from equality from this step on.
    """

    level: str
    chi_square: float | None
    degrees: int
    difference: float | None
    difference_degrees: int
    p_value: float
    cfi: float | None
    rmsea: float
    accepted: bool
    released: tuple[int, ...] = ()


@dataclass(frozen=True)
class Invariance:
    """The ladder as far as it could be climbed.

    Args:
        steps: Every step that was fitted.
        reached: The highest level that holds for comparing means: ``"none"``, ``"configural"``, ``"metric"``,
            ``"partial scalar"`` or ``"scalar"``.
        latent_difference: Factor means of the second population in standard deviations of the first, shape (m,);
            NaN unless scalar invariance holds at least in part.
        latent_error: Their standard errors, shape (m,).
    """

    steps: tuple[Step, ...]
    reached: Reached
    latent_difference: np.ndarray
    latent_error: np.ndarray

    @property
    def comparable(self) -> bool:
        """Whether means may be compared at all."""
        return self.reached in ("scalar", "partial scalar")


def scaled_difference(restricted: FactorFit, free: FactorFit) -> tuple[float, int, float]:
    r"""Return chi-square, degrees and p-value of the difference of two nested fits, both scaled.

    .. math:: T = (F_0 - F_1) / c_d, \qquad c_d = (d_0 c_0 - d_1 c_1) / (d_0 - d_1)

    Args:
        restricted: The model with more degrees of freedom d_0.
        free: The model that contains it.

    References:
        A. Satorra, P. M. Bentler, Psychometrika 66 (2001).
    """
    degrees = restricted.degrees - free.degrees
    scaling = (restricted.degrees * restricted.scaling - free.degrees * free.scaling) / degrees
    # The estimate of c_d can come out below zero in small samples; the unscaled difference is then the honest one.
    statistic = max(restricted.chi_square - free.chi_square, 0.0) / (scaling if scaling > 0 else 1.0)
    return statistic, degrees, float(chi2_distribution.sf(statistic, degrees))


def factor_invariance(
    samples: Sequence[Moments], pattern: np.ndarray, *, robust: bool = True, rules: Rules = DEFAULT_RULES
) -> Invariance:
    """Climb the ladder with the factor model.

    A step is rejected when its scaled difference is significant and CFI falls or RMSEA rises by more than the rules
    allow. Then the item with the largest modification index is released, again and again, within the rules' share and
    while every factor keeps two equal items.

    Args:
        samples: Moments of the populations, the reference first.
        pattern: Which item loads on which factor, bool, shape (p, m).
        robust: Whether chi-squares are scaled for answers that are not normal.
        rules: The thresholds.

    References:
        W. Meredith, Psychometrika 58 (1993). B. M. Byrne, R. J. Shavelson, B. Muthen, Psychol. Bull. 105 (1989).
    """
    m = pattern.shape[1]
    nothing = np.full(m, np.nan)

    def fit(level: Level, loadings: frozenset[int], intercepts: frozenset[int]) -> FactorFit:
        return fit_factors(samples, pattern, level, free_loadings=loadings, free_intercepts=intercepts, robust=robust)

    current = fit("configural", frozenset(), frozenset())
    poor = current.cfi < rules.lowest_cfi or current.rmsea > rules.highest_rmsea
    holds = current.converged and not (current.p_value < rules.significance and poor)
    steps = [_model_step("configural", current, (None, 0, current.p_value), holds, ())]
    if not holds:
        return Invariance(tuple(steps), "none", nothing, nothing)
    loadings: frozenset[int] = frozenset()
    intercepts: frozenset[int] = frozenset()
    reached: Reached = "configural"
    levels: tuple[Level, ...] = ("metric", "scalar", "strict")
    for level in levels:
        before = current
        trial = fit(level, loadings, intercepts)
        test = scaled_difference(trial, before)
        steps.append(_model_step(level, trial, test, _stands(trial, before, test[2], rules), ()))
        while not _stands(trial, before, test[2], rules) and level != "strict":
            chosen = _item_to_release(samples, pattern, trial, level, loadings | intercepts, rules)
            if chosen is None:
                break
            if level == "metric":
                loadings |= {chosen}
            intercepts |= {chosen}
            trial = fit(level, loadings, intercepts)
            test = scaled_difference(trial, before)
            released = tuple(sorted(loadings if level == "metric" else intercepts))
            steps.append(_model_step(level, trial, test, _stands(trial, before, test[2], rules), released))
        if not steps[-1].accepted:
            break
        current = trial
        if level == "metric":
            reached = "metric"
        elif level == "scalar":
            reached = "partial scalar" if intercepts else "scalar"
    if reached not in ("scalar", "partial scalar"):
        return Invariance(tuple(steps), reached, nothing, nothing)
    scalar = current if current.degrees == steps[-1].degrees and steps[-1].level == "scalar" else fit(
        "scalar", loadings, intercepts
    )  # fmt: skip
    where = [k for k, item in enumerate(scalar.parameters) if item.matrix == "mean" and item.groups == (1,)]
    return Invariance(tuple(steps), reached, scalar.groups[1].mean[:m], scalar.standard_error[where])


def response_invariance(
    samples: Sequence[np.ndarray], structure: FactorFit, *, rules: Rules = DEFAULT_RULES
) -> Invariance:
    r"""Climb the ladder of one scale with the graded response model.

    A step is rejected when its likelihood ratio :math:`\Delta` is significant and
    :math:`\sqrt{G \max(\Delta - df, 0) / (df\,N)}` exceeds ``rules.step_rmsea``. Items are released in the order of
    their own likelihood ratios.

    Args:
        samples: Answers of two populations, 0, 1, ..., every category chosen in both, shape (n_g, p).
        structure: The configural factor model of the same scale, whose scaled fit judges the first step: response
            models have no saturated rival to be tested against.
        rules: The thresholds.
    """
    nothing = np.full(1, np.nan)
    poor = structure.cfi < rules.lowest_cfi or structure.rmsea > rules.highest_rmsea
    holds = structure.converged and not (structure.p_value < rules.significance and poor)
    steps = [_model_step("configural", structure, (None, 0, structure.p_value), holds, ())]
    if not holds:
        return Invariance(tuple(steps), "none", nothing, nothing)
    total, p = sum(len(sample) for sample in samples), samples[0].shape[1]
    before = fit_responses(samples, "configural")
    free: frozenset[int] = frozenset()
    reached: Reached = "configural"
    last = before
    levels: tuple[Literal["metric", "scalar"], ...] = ("metric", "scalar")
    for level in levels:
        trial = fit_responses(samples, level, free=free)
        steps.append(_ratio_step(level, trial, before, free, total, len(samples), rules))
        if not steps[-1].accepted:
            statistic = likelihood_ratios(samples, free=free, level=level)[0]
            order = [int(j) for j in np.argsort(-statistic) if j not in free]
            while not steps[-1].accepted and len(free) < min(int(rules.most_released * p), p - 2):
                free |= {order.pop(0)}
                trial = fit_responses(samples, level, free=free)
                steps.append(_ratio_step(level, trial, before, free, total, len(samples), rules))
        if not steps[-1].accepted:
            return Invariance(tuple(steps), reached, nothing, nothing)
        reached = "metric" if level == "metric" else "partial scalar" if free else "scalar"
        before = last = trial
    return Invariance(tuple(steps), reached, last.mean[1:2], np.array([_mean_error(samples, last)]))


def _mean_error(samples: Sequence[np.ndarray], fit: ResponseFit) -> float:
    """Return the standard error of the second mean: posterior spread of abilities over the effective number of rows."""
    from workingpapers.foundations.item_response import score

    variance = 0.0
    for g, sample in enumerate(samples):
        error = score(sample, fit.items[g], "eap", prior=(float(fit.mean[g]), float(fit.deviation[g]))).error
        reliability = 1 - np.mean(error**2) / fit.deviation[g] ** 2
        variance += float(fit.deviation[g] ** 2 / (reliability * len(sample)))
    return float(np.sqrt(variance))


def _stands(trial: FactorFit, before: FactorFit, p_value: float, rules: Rules) -> bool:
    worse = before.cfi - trial.cfi > rules.cfi_drop or trial.rmsea - before.rmsea > rules.rmsea_rise
    return trial.converged and not (p_value < rules.significance and worse)


def _item_to_release(
    samples: Sequence[Moments],
    pattern: np.ndarray,
    trial: FactorFit,
    level: Level,
    released: frozenset[int],
    rules: Rules,
) -> int | None:
    p = len(pattern)
    if len(released) + 1 > int(rules.most_released * p):
        return None
    last = len(samples) - 1

    def gain(i: int) -> float:
        if level == "metric":
            column = int(np.flatnonzero(pattern[i])[0])
            return score_test(samples, trial, Parameter("loading", i, column, (last,)))
        return score_test(samples, trial, Parameter("intercept", i, 0, (last,)))

    left = pattern.astype(int).sum(axis=0) - pattern[sorted(released)].astype(int).sum(axis=0)
    candidates = [i for i in range(p) if i not in released and left[pattern[i]].min() > 2]
    return max(candidates, key=gain) if candidates else None


def _model_step(
    level: str, fit: FactorFit, test: tuple[float | None, int, float], accepted: bool, released: tuple[int, ...]
) -> Step:
    return Step(level, fit.scaled, fit.degrees, test[0], test[1], test[2], fit.cfi, fit.rmsea, accepted, released)


def _ratio_step(
    level: str, trial: ResponseFit, before: ResponseFit, free: frozenset[int], total: int, groups: int, rules: Rules
) -> Step:
    degrees = before.parameters - trial.parameters
    ratio = max(2 * (before.log_likelihood - trial.log_likelihood), 0.0)
    p_value = float(chi2_distribution.sf(ratio, degrees)) if degrees > 0 else 1.0
    rmsea = float(np.sqrt(max(ratio - degrees, 0.0) / (max(degrees, 1) * total) * groups))
    accepted = not (p_value < rules.significance and rmsea > rules.step_rmsea)
    return Step(level, None, trial.parameters, ratio, degrees, p_value, None, rmsea, accepted, tuple(sorted(free)))
