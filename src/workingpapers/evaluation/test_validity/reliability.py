r"""Reliability of a score, and small quantities of classical test theory around it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.stats import f as f_distribution

from workingpapers.evaluation.test_validity.factor_model import fit_factors, moments
from workingpapers.foundations.errors import InputError


@dataclass(frozen=True)
class Reliability:
    """Reliability of the sum of the items.

    Args:
        alpha: Cronbach's alpha (KR-20 for 0/1 answers); negative where keys are wrong or answers ignore them.
        low: Lower end of Feldt's 95 % interval.
        high: Upper end.
        omega: McDonald's omega of the one-factor model; NaN for fewer than three items or without a proper solution.
        rest_correlation: Correlation of each item with the sum of the others, shape (k,).
        standard_error: Standard error of measurement of the sum: its standard deviation times sqrt(1 - alpha).
        rows: Rows that it rests on.
    """

    alpha: float
    low: float
    high: float
    omega: float
    rest_correlation: np.ndarray
    standard_error: float
    rows: int


def cronbach_alpha(answers: np.ndarray) -> float:
    r"""Return :math:`\frac{k}{k-1}\left(1 - \frac{\sum_i s_i^2}{s_{total}^2}\right)`.

    Args:
        answers: Complete answers, scored in one direction, shape (n, k).

    Raises:
        InputError: Fewer than two items or rows, or a sum that never varies.
    """
    data = np.asarray(answers, dtype=np.float64)
    n, k = data.shape
    if n < 2 or k < 2:
        raise InputError(f"Alpha needs two items and two rows or more, not {k} items and {n} rows; give more.")
    total = data.sum(axis=1).var()
    if total <= 1e-12 * max(float(data.var(axis=0).sum()), 1e-12):
        raise InputError("The sum of the items never varies, so it has no reliability; check the keys.")
    return float(k / (k - 1) * (1 - data.var(axis=0).sum() / total))


def feldt_interval(alpha: float, rows: int, items: int, confidence: float = 0.95) -> tuple[float, float]:
    r"""Return Feldt's interval of alpha.

    .. math:: 1 - (1 - \hat\alpha) F_{1-q/2}, \quad 1 - (1 - \hat\alpha) F_{q/2}, \qquad df = (n-1, (n-1)(k-1))

    Args:
        alpha: The estimate.
        rows: Number of subjects n.
        items: Number of items k.
        confidence: Coverage 1 - q.

    References:
        L. S. Feldt, D. J. Woodruff, F. A. Salih, Appl. Psychol. Meas. 11 (1987).
    """
    tail = (1 - confidence) / 2
    degrees = (rows - 1, (rows - 1) * (items - 1))
    high, low = f_distribution.ppf([tail, 1 - tail], *degrees)
    return float(1 - (1 - alpha) * low), float(1 - (1 - alpha) * high)


def mcdonald_omega(loading: np.ndarray, residual: np.ndarray) -> float:
    r"""Return :math:`(\sum\lambda)^2 / [(\sum\lambda)^2 + \sum\theta]`.

    Args:
        loading: Loadings on one factor of variance one, shape (k,).
        residual: Residual variances, shape (k,).
    """
    common = float(np.sum(loading)) ** 2
    return common / (common + float(np.sum(residual)))


def reliability(answers: np.ndarray) -> Reliability:
    """Return the reliability of the sum of the items.

    Args:
        answers: Complete answers, scored in one direction, shape (n, k).
    """
    data = np.asarray(answers, dtype=np.float64)
    n, k = data.shape
    alpha = cronbach_alpha(data)
    low, high = feldt_interval(alpha, n, k)
    total = data.sum(axis=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        rest = np.array([np.corrcoef(data[:, j], total - data[:, j])[0, 1] for j in range(k)])
    omega = float("nan")
    if k >= 3 and n > k and np.all(data.std(axis=0) > 0):
        try:
            fit = fit_factors([moments(data)], np.ones((k, 1), bool), robust=False)
        except InputError:
            fit = None
        if fit is not None and fit.converged and not fit.improper:
            omega = mcdonald_omega(fit.groups[0].loading[:, 0], fit.groups[0].residual)
    deviation = float(total.std(ddof=1))
    return Reliability(alpha, low, high, omega, rest, deviation * float(np.sqrt(max(1 - alpha, 0.0))), n)


def spearman_brown(correlation: float, times: float = 2.0) -> float:
    r"""Return the reliability of a test `times` as long: :math:`t r / (1 + (t - 1) r)`.

    Args:
        correlation: Reliability now, or the correlation of two halves.
        times: Lengthening t.
    """
    return times * correlation / (1 + (times - 1) * correlation)


def disattenuate(correlation: float, first: float, second: float) -> float:
    r"""Return :math:`r_{xy} / \sqrt{r_{xx} r_{yy}}`, the correlation of the true scores.

    Args:
        correlation: Observed correlation.
        first: Reliability of x.
        second: Reliability of y.

    Raises:
        InputError: A reliability that is not above zero.
    """
    for value in (first, second):
        if not 0 < value <= 1:
            raise InputError(f"A reliability is {value:g}; the correction needs reliabilities over 0 and up to 1.")
    return correlation / float(np.sqrt(first * second))


def intraclass(ratings: np.ndarray) -> tuple[float, float]:
    r"""Return ICC(2,1) and ICC(2,k): agreement of one occasion, and of the mean of the k occasions.

    .. math:: \frac{MS_r - MS_e}{MS_r + (k-1) MS_e + k (MS_c - MS_e)/n}, \qquad
              \frac{MS_r - MS_e}{MS_r + (MS_c - MS_e)/n}

    Args:
        ratings: Scores of subjects on occasions, complete, shape (n, k).

    References:
        P. E. Shrout, J. L. Fleiss, Psychol. Bull. 86 (1979).
    """
    data = np.asarray(ratings, dtype=np.float64)
    n, k = data.shape
    rows, columns, grand = data.mean(axis=1), data.mean(axis=0), data.mean()
    between = k * float(np.sum((rows - grand) ** 2)) / (n - 1)
    occasions = n * float(np.sum((columns - grand) ** 2)) / (k - 1)
    error = float(np.sum((data - rows[:, None] - columns + grand) ** 2)) / ((n - 1) * (k - 1))
    shift = (occasions - error) / n
    return (between - error) / (between + (k - 1) * error + k * shift), (between - error) / (between + shift)


def content_validity_ratio(essential: int, experts: int) -> float:
    """Return Lawshe's ratio (n_e - N/2) / (N/2) of an item that `essential` of `experts` call essential.

    Args:
        essential: Number of experts who call the item essential.
        experts: Number of experts.

    Raises:
        InputError: Numbers that cannot be.
    """
    if not 0 <= essential <= experts or experts < 1:
        raise InputError(f"{essential} of {experts} experts is not possible; give 0 to N of N experts, N at least 1.")
    return (essential - experts / 2) / (experts / 2)
