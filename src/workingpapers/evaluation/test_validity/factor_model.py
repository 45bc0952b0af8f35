r"""Confirmatory factor analysis of several groups, by maximum likelihood with a robust test statistic.

.. math:: \Sigma_g = \Lambda_g \Phi_g \Lambda_g^\top + \Theta_g, \qquad \mu_g = \tau_g + \Lambda_g \alpha_g

.. math:: F = \sum_g n_g \left[\log|\Sigma_g| + \mathrm{tr}(S_g \Sigma_g^{-1}) - \log|S_g| - p
          + (m_g - \mu_g)^\top \Sigma_g^{-1} (m_g - \mu_g)\right]

with :math:`S_g` the covariance that divides by :math:`n_g`; F at its minimum is the chi-square. Fisher scoring
needs only :math:`\partial\Sigma/\partial\theta`, which also gives standard errors, score tests and the Satorra-Bentler
scaling.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.stats import chi2 as chi2_distribution

from workingpapers.evaluation.test_validity.factor_algebra import (
    Matrices,
    Moments,
    Parameter,
    discrepancy,
    moments,
    satorra_bentler,
    score,
)
from workingpapers.foundations.errors import InputError

Level = Literal["configural", "metric", "scalar", "strict"]
__all__ = ["LEVELS", "FactorFit", "Matrices", "Moments", "Parameter", "fit_factors", "moments", "score_test"]

LEVELS: tuple[Level, ...] = ("configural", "metric", "scalar", "strict")


@dataclass(frozen=True)
class FactorFit:
    """A fitted model.

    Args:
        groups: Model matrices, one entry a group.
        parameters: Free parameters.
        standard_error: Their standard errors, shape (q,).
        chi_square: F at the minimum.
        degrees: Degrees of freedom.
        scaling: Satorra-Bentler factor c; ``chi_square / c`` is the robust statistic.
        cfi: Comparative fit index of the scaled statistics.
        tli: Tucker-Lewis index of the scaled statistics.
        rmsea: Root mean square error of approximation of the scaled statistic, times the root of the number of groups.
        srmr: Standardised root mean square residual of the covariances.
        bic: Bayesian information criterion up to a constant that all models of the same data share.
        converged: Whether the scoring steps met the tolerance.
        improper: Whether a residual variance is negative or a factor covariance is not positive definite.
    """

    groups: tuple[Matrices, ...]
    parameters: tuple[Parameter, ...]
    standard_error: np.ndarray
    chi_square: float
    degrees: int
    scaling: float
    cfi: float
    tli: float
    rmsea: float
    srmr: float
    bic: float
    converged: bool
    improper: bool

    @property
    def scaled(self) -> float:
        """The robust chi-square."""
        return self.chi_square / self.scaling

    @property
    def p_value(self) -> float:
        """Probability of a robust chi-square at least this large under the model."""
        return float(chi2_distribution.sf(self.scaled, self.degrees)) if self.degrees else 1.0


def free_parameters(
    pattern: np.ndarray,
    level: Level,
    groups: int,
    *,
    free_loadings: frozenset[int] = frozenset(),
    free_intercepts: frozenset[int] = frozenset(),
    method: bool = False,
) -> tuple[Parameter, ...]:
    """Return the free parameters of a model at one level of invariance.

    The scale comes from factor variances of one: in every group where loadings are free, else in the first alone. The
    factor means are zero in every group where intercepts are free, else in the first alone.

    Args:
        pattern: Which item loads on which factor, bool, shape (p, m).
        level: ``"configural"`` (same pattern), ``"metric"`` (equal loadings), ``"scalar"`` (and intercepts) or
            ``"strict"`` (and residual variances).
        groups: Number of groups.
        free_loadings: Items whose loadings differ between groups all the same.
        free_intercepts: Items whose intercepts differ all the same.
        method: Whether an uncorrelated method factor with fixed loadings follows the m factors.
    """
    rank = LEVELS.index(level)
    every, each = [tuple(range(groups))], [(g,) for g in range(groups)]
    found: list[Parameter] = []
    for i, j in np.argwhere(pattern):
        shared = rank >= 1 and i not in free_loadings
        found += [Parameter("loading", int(i), int(j), who) for who in (every if shared else each)]
    p, m = pattern.shape
    for g in range(groups):
        for j in range(m):
            start = j if rank >= 1 and g > 0 else j + 1
            found += [Parameter("factor", k, j, (g,)) for k in range(start, m)]
        if method:
            found.append(Parameter("factor", m, m, (g,)))
    for i in range(p):
        found += [Parameter("residual", i, i, who) for who in (every if rank >= 3 else each)]
        shared = rank >= 2 and i not in free_intercepts
        found += [Parameter("intercept", i, 0, who) for who in (every if shared else each)]
    if rank >= 2:
        found += [Parameter("mean", j, 0, (g,)) for g in range(1, groups) for j in range(m)]
    return tuple(found)


def fit_factors(
    samples: Sequence[Moments],
    pattern: np.ndarray,
    level: Level = "configural",
    *,
    free_loadings: frozenset[int] = frozenset(),
    free_intercepts: frozenset[int] = frozenset(),
    method: np.ndarray | None = None,
    robust: bool = True,
    tolerance: float = 1e-11,
    max_iterations: int = 300,
) -> FactorFit:
    """Fit a factor model to one or more groups.

    Args:
        samples: Moments, one entry a group; the first is the reference.
        pattern: Which item loads on which factor, bool, shape (p, m).
        level: Level of invariance, see :func:`free_parameters`.
        free_loadings: Items exempt from equal loadings.
        free_intercepts: Items exempt from equal intercepts.
        method: Fixed loadings of an added method factor, shape (p,): the keys of reverse-scored items (+1, -1) for
            acquiescence. None for no such factor.
        robust: Whether the chi-square is scaled for answers that are not normal (Satorra-Bentler); else c = 1.
        tolerance: Bound on the Newton decrement, relative to the sample size.
        max_iterations: Most scoring steps.

    Returns:
        The fit; ``converged`` and ``improper`` say whether to trust it.

    Raises:
        InputError: More parameters than moments.

    References:
        K. G. Joreskog, Psychometrika 36 (1971). A. Satorra, P. M. Bentler, in von Eye and Clogg (1994).
    """
    parameters = free_parameters(
        pattern,
        level,
        len(samples),
        free_loadings=free_loadings,
        free_intercepts=free_intercepts,
        method=method is not None,
    )
    p = pattern.shape[0]
    degrees = len(samples) * p * (p + 3) // 2 - len(parameters)
    if degrees < 0:
        raise InputError(f"The model has {-degrees} parameters too many; give each factor three items or more.")
    groups = _equalised(_start(samples, pattern, method), parameters)
    value = discrepancy(samples, groups)
    total = sum(len(sample.deviations) for sample in samples)
    converged = False
    for _ in range(max_iterations):
        gradient, information = score(samples, groups, parameters)[:2]
        step = np.linalg.lstsq(information, gradient, rcond=1e-12)[0]
        decrement = float(gradient @ step)
        if decrement <= tolerance * total:
            converged = True
            break
        length = 1.0
        while length > 1e-6:
            candidate = _moved(groups, parameters, length * step)
            lower = discrepancy(samples, candidate)
            if lower < value:
                break
            length /= 2
        else:
            # No step lowers F any more: the last digits are noise, which is no failure close to the minimum.
            converged = decrement <= 1e-7 * total
            break
        groups, value = candidate, lower
    return _finish(samples, groups, parameters, value, degrees, converged, robust)


def score_test(samples: Sequence[Moments], fit: FactorFit, extra: Parameter) -> float:
    """Return the chi-square (one degree of freedom) that freeing `extra` would gain: the modification index.

    Args:
        samples: The moments that `fit` was fitted to.
        fit: The restricted model.
        extra: The parameter to free.
    """
    gradient, information = score(samples, fit.groups, (*fit.parameters, extra))[:2]
    cross = information[:-1, -1]
    spare = information[-1, -1] - cross @ np.linalg.lstsq(information[:-1, :-1], cross, rcond=1e-12)[0]
    return float(gradient[-1] ** 2 / spare) if spare > 1e-8 * information[-1, -1] else 0.0


def _start(samples: Sequence[Moments], pattern: np.ndarray, method: np.ndarray | None) -> tuple[Matrices, ...]:
    p, m = pattern.shape
    weights = np.array([len(sample.deviations) for sample in samples], dtype=np.float64)
    pooled = np.tensordot(weights / weights.sum(), np.stack([sample.covariance for sample in samples]), axes=1)
    loading = np.zeros((p, m))
    for j in range(m):
        own = np.flatnonzero(pattern[:, j])
        spread = np.sqrt(np.diag(pooled)[own])
        vector = np.linalg.eigh(pooled[np.ix_(own, own)] / np.outer(spread, spread))[1][:, -1]
        loading[own, j] = np.sign(vector * np.sign(vector.sum() or 1.0)) * spread * 0.7
    factor = np.eye(m)
    if method is not None:
        loading = np.column_stack([loading, method])
        factor = np.diag([*np.ones(m), 0.05 * float(np.diag(pooled).mean())])
    return tuple(
        Matrices(
            loading.copy(), factor.copy(), np.diag(sample.covariance) / 2, sample.mean.copy(), np.zeros(len(factor))
        )
        for sample in samples
    )


def _equalised(groups: tuple[Matrices, ...], parameters: Sequence[Parameter]) -> tuple[Matrices, ...]:
    """Give what groups share the mean of their starting values, so that equal it is and equal it stays."""
    for matrix, i, j, who in parameters:
        where = i if matrix in ("residual", "intercept", "mean") else (i, j)
        shared = np.mean([getattr(groups[g], matrix)[where] for g in who])
        for g in who:
            getattr(groups[g], matrix)[where] = shared
    return groups


def _moved(groups: tuple[Matrices, ...], parameters: tuple[Parameter, ...], step: np.ndarray) -> tuple[Matrices, ...]:
    moved = tuple(Matrices(*(getattr(group, name).copy() for name in Matrices.__annotations__)) for group in groups)
    for (matrix, i, j, who), change in zip(parameters, step, strict=True):
        for g in who:
            target = getattr(moved[g], matrix)
            if target.ndim == 1:
                target[i] += change
            else:
                target[i, j] += change
                if matrix == "factor" and i != j:
                    target[j, i] += change
    return moved


def _independence(samples: Sequence[Moments], robust: bool) -> tuple[float, int, float]:
    """Return chi-square, degrees and scaling of the baseline: items without correlation."""
    p = len(samples[0].mean)
    groups = tuple(
        Matrices(np.zeros((p, 0)), np.zeros((0, 0)), np.diag(sample.covariance).copy(), sample.mean, np.zeros(0))
        for sample in samples
    )
    parameters = tuple(
        Parameter(matrix, i, 0 if matrix == "intercept" else i, (g,))
        for g in range(len(samples))
        for i in range(p)
        for matrix in ("residual", "intercept")
    )
    degrees = len(samples) * p * (p - 1) // 2
    scaling = satorra_bentler(samples, groups, parameters, degrees) if robust else 1.0
    return discrepancy(samples, groups), degrees, scaling


def _finish(
    samples: Sequence[Moments],
    groups: tuple[Matrices, ...],
    parameters: tuple[Parameter, ...],
    value: float,
    degrees: int,
    converged: bool,
    robust: bool,
) -> FactorFit:
    total = sum(len(sample.deviations) for sample in samples)
    value = max(value, 0.0)
    scaling = satorra_bentler(samples, groups, parameters, degrees) if robust else 1.0
    base, base_degrees, base_scaling = _independence(samples, robust)
    excess = max(value / scaling - degrees, 0.0)
    base_excess = max(base / base_scaling - base_degrees, excess, 1e-12)
    ratio = base / base_scaling / base_degrees if base_degrees else np.nan
    information = score(samples, groups, parameters)[1]
    squares = [
        (len(sample.deviations) / total)
        * np.mean(
            (
                (sample.covariance - group.implied()[1])
                / np.sqrt(np.outer(np.diag(sample.covariance), np.diag(sample.covariance)))
            )[np.tril_indices(len(sample.mean))]
            ** 2
        )
        for sample, group in zip(samples, groups, strict=True)
    ]
    return FactorFit(
        groups=groups,
        parameters=parameters,
        standard_error=np.sqrt(np.maximum(np.diag(np.linalg.pinv(information, hermitian=True)), 0.0)),
        chi_square=value,
        degrees=degrees,
        scaling=scaling,
        cfi=1 - excess / base_excess,
        tli=(ratio - value / scaling / degrees) / (ratio - 1) if degrees else 1.0,
        rmsea=float(np.sqrt(excess / (degrees * total) * len(samples))) if degrees else 0.0,
        srmr=float(np.sqrt(sum(squares))),
        bic=value + len(parameters) * float(np.log(total)),
        converged=converged,
        improper=any(
            group.residual.min() < 0 or (len(group.factor) and np.linalg.eigvalsh(group.factor)[0] <= 0)
            for group in groups
        ),
    )
