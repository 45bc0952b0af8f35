"""Differential item functioning: items that differ between populations whose members have the same score."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit
from scipy.stats import chi2 as chi2_distribution
from scipy.stats import f as f_distribution
from scipy.stats import norm

from workingpapers.evaluation.test_validity.rules import DEFAULT_RULES, Rules
from workingpapers.foundations.logistic import fit_logistic

Kind = Literal["binary", "ordinal", "continuous"]
PURIFICATIONS = 10
DELTA_UNIT = -2.35
UNJUDGED = "–"


@dataclass(frozen=True)
class CommonOdds:
    """Mantel-Haenszel result of one item.

    Args:
        odds_ratio: Common odds ratio; above one where the item favours the reference population.
        delta: -2.35 ln of it, the ETS scale.
        delta_error: Standard error of delta (Robins, Breslow and Greenland).
        chi_square: With continuity correction, one degree of freedom.
        p_value: Of it.
        grade: ETS class A (negligible), B or C (large).
    """

    odds_ratio: float
    delta: float
    delta_error: float
    chi_square: float
    p_value: float
    grade: str


@dataclass(frozen=True)
class ItemTest:
    """One item's verdict.

    Args:
        item: Index of the item.
        effect: Mantel-Haenszel delta, or the gain of R squared (Nagelkerke's for logits).
        statistic: Chi-square (or F) of the difference.
        p_value: Of it.
        adjusted: Benjamini-Hochberg p-value over all items.
        uniform: p-value of a difference that is the same at every score.
        nonuniform: p-value of one that changes with the score; NaN for Mantel-Haenszel.
        direction: +1 where the second population scores higher than its match, -1 where lower.
        grade: A (negligible), B (moderate) or C (large); a dash where the score is too unreliable to match on.
        flagged: Whether it counts as different: grade B or C, and significant.
    """

    item: int
    effect: float
    statistic: float
    p_value: float
    adjusted: float
    uniform: float
    nonuniform: float
    direction: int
    grade: str
    flagged: bool

    @property
    def judged(self) -> bool:
        """Whether the score was reliable enough to match on."""
        return self.grade != UNJUDGED


def mantel_haenszel(correct: np.ndarray, second: np.ndarray, stratum: np.ndarray) -> CommonOdds:
    r"""Return the Mantel-Haenszel test of one 0/1 item.

    .. math:: \hat\alpha = \frac{\sum_s A_s D_s / T_s}{\sum_s B_s C_s / T_s}, \qquad \Delta = -2.35 \ln\hat\alpha

    Args:
        correct: 0 or 1, shape (n,).
        second: Whether the row is of the second (focal) population, bool, shape (n,).
        stratum: Matching score, shape (n,); it must include the item itself.

    Returns:
        The result; NaN where no stratum holds both populations and both answers.

    References:
        P. W. Holland, D. T. Thayer, in Wainer and Braun, Test Validity (1988).
    """
    from statsmodels.stats.contingency_tables import StratifiedTable

    right = np.asarray(correct) > 0
    _, code = np.unique(stratum, return_inverse=True)
    cell = code * 4 + np.asarray(second, dtype=int) * 2 + (~right).astype(int)
    tables = np.bincount(cell, minlength=4 * (code.max() + 1)).reshape(-1, 2, 2).astype(np.float64)
    # A stratum with an empty margin carries no information and would divide zero by zero.
    tables = tables[(tables.sum(axis=1) > 0).all(axis=1) & (tables.sum(axis=2) > 0).all(axis=1)]
    if not len(tables):
        return CommonOdds(*(5 * (float("nan"),)), grade="A")
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        stratified = StratifiedTable(tables.transpose(1, 2, 0))
        odds, log_error = float(stratified.oddsratio_pooled), float(stratified.logodds_pooled_se)
        margins = tables.sum(axis=2)[:, 0] * tables.sum(axis=1)[:, 0] / tables.sum(axis=(1, 2))
        # The correction brings the sum nearer to its expectation; within half a count it would carry it past.
        test = stratified.test_null_odds(correction=bool(abs(np.sum(tables[:, 0, 0] - margins)) >= 0.5))
        delta = float(DELTA_UNIT * np.log(odds))
    error = abs(DELTA_UNIT) * log_error
    return CommonOdds(
        odds, delta, error, float(test.statistic), float(test.pvalue), _ets_grade(delta, error, float(test.pvalue))
    )


def regression_test(answer: np.ndarray, second: np.ndarray, score: np.ndarray, kind: Kind) -> ItemTest:
    r"""Return the regression test of one item.

    .. math:: \eta = b_0 + b_1 s + b_2 g + b_3 s g, \qquad b_2 = b_3 = 0?

    Binary answers take a logit, ordinal ones proportional odds, continuous ones least squares. The grade is by the gain
    of R squared (Nagelkerke's for the first two): below .035 A, below .07 B, else C.

    Args:
        answer: Answers, shape (n,).
        second: Whether the row is of the second population, bool, shape (n,).
        score: Matching score, shape (n,).
        kind: Kind of the answers.

    References:
        H. Swaminathan, H. J. Rogers, J. Educ. Meas. 27 (1990). M. G. Jodoin, M. J. Gierl, Appl. Meas. Educ. 14 (2001).
    """
    group = np.asarray(second, dtype=np.float64)
    spread = float(np.std(score)) or 1.0
    match = (score - np.mean(score)) / spread
    designs = [
        np.zeros((len(match), 0)),
        match[:, None],
        np.column_stack([match, group]),
        np.column_stack([match, group, match * group]),
    ]
    likelihood = _least_squares if kind == "continuous" else _logit if kind == "binary" else _proportional_odds
    fits = [likelihood(design, np.asarray(answer, dtype=np.float64)) for design in designs]
    base, matched, uniform, full = (fit[0] for fit in fits)
    n = len(match)
    if kind == "continuous":
        statistic = n * (np.exp(2 * (full - matched) / n) - 1) * (n - 4) / n / 2
        p_value = float(f_distribution.sf(statistic, 2, n - 4))
        gain = float(np.exp(-2 * (matched - base) / n) - np.exp(-2 * (full - base) / n))
    else:
        statistic = 2 * (full - matched)
        p_value = float(chi2_distribution.sf(statistic, 2))
        ceiling = 1 - np.exp(2 * base / n)
        gain = float((np.exp(-2 * (matched - base) / n) - np.exp(-2 * (full - base) / n)) / ceiling)
    return ItemTest(
        item=0,
        effect=gain,
        statistic=float(statistic),
        p_value=p_value,
        adjusted=p_value,
        uniform=float(chi2_distribution.sf(2 * (uniform - matched), 1)),
        nonuniform=float(chi2_distribution.sf(2 * (full - uniform), 1)),
        direction=1 if fits[2][1] >= 0 else -1,
        grade="A" if gain < 0.035 else "B" if gain < 0.07 else "C",
        flagged=False,
    )


def screen_items(
    first: np.ndarray,
    second: np.ndarray,
    kind: Kind,
    *,
    test: Literal["mantel-haenszel", "regression"] = "regression",
    purify: bool = True,
    adjust: bool = True,
    rules: Rules = DEFAULT_RULES,
) -> tuple[ItemTest, ...]:
    """Test every item of one scale; the matching score is the sum of the unflagged items and the item itself.

    Args:
        first: Complete answers of the reference population, scored in one direction, shape (n_1, p).
        second: Those of the other population, shape (n_2, p).
        kind: Kind of the answers.
        test: ``"mantel-haenszel"`` (binary answers only) or ``"regression"``.
        purify: Whether flagged items leave the matching score, until the flags are stable.
        adjust: Whether significance is judged after Benjamini-Hochberg.
        rules: The thresholds.
    """
    answers = np.vstack([first, second])
    group = np.arange(len(answers)) >= len(first)
    one: Callable[[np.ndarray, np.ndarray, np.ndarray], ItemTest] = (
        _haenszel_item if test == "mantel-haenszel" else lambda a, g, s: regression_test(a, g, s, kind)
    )
    flagged: frozenset[int] = frozenset()
    seen = {flagged}
    results: tuple[ItemTest, ...] = ()
    for _ in range(PURIFICATIONS):
        clean = [j for j in range(answers.shape[1]) if j not in flagged]
        anchor = answers[:, clean].sum(axis=1)
        found = [
            replace(one(answers[:, j], group, anchor + (answers[:, j] if j in flagged else 0.0)), item=j)
            for j in range(answers.shape[1])
        ]
        results = _judged(found, adjust, rules)
        flagged = frozenset(result.item for result in results if result.flagged)
        # At least two items must stay to match on; flags that return to an earlier set would go round for ever.
        if not purify or flagged in seen or answers.shape[1] - len(flagged) < 2:
            break
        seen.add(flagged)
    return results


def mean_tests(first: np.ndarray, second: np.ndarray, rules: Rules = DEFAULT_RULES) -> np.ndarray:
    """Return which items Welch's t-test flags after Benjamini-Hochberg, without any matching: bool, shape (p,).

    It confounds the difference of the populations with that of the item, and stands here as the comparison.

    Args:
        first: Answers of the reference population, shape (n_1, p).
        second: Those of the other, shape (n_2, p).
        rules: The thresholds.
    """
    from scipy.stats import false_discovery_control, ttest_ind

    p_values = ttest_ind(first, second, equal_var=False, nan_policy="omit").pvalue
    adjusted = false_discovery_control(np.nan_to_num(np.asarray(p_values), nan=1.0))
    return np.asarray(adjusted < rules.false_discoveries)


def _haenszel_item(answer: np.ndarray, group: np.ndarray, score: np.ndarray) -> ItemTest:
    odds = mantel_haenszel(answer, group, score)
    p_value = odds.p_value if np.isfinite(odds.p_value) else 1.0
    return ItemTest(
        item=0,
        effect=odds.delta,
        statistic=odds.chi_square,
        p_value=p_value,
        adjusted=p_value,
        uniform=p_value,
        nonuniform=float("nan"),
        direction=1 if odds.delta > 0 else -1,
        grade=odds.grade,
        flagged=False,
    )


def _judged(found: list[ItemTest], adjust: bool, rules: Rules) -> tuple[ItemTest, ...]:
    from scipy.stats import false_discovery_control

    adjusted = false_discovery_control(np.array([item.p_value for item in found]))
    judged = []
    for item, corrected in zip(found, adjusted, strict=True):
        level = corrected if adjust else item.p_value
        flagged = item.grade != "A" and level < rules.false_discoveries
        judged.append(replace(item, adjusted=float(corrected), flagged=bool(flagged)))
    return tuple(judged)


def _ets_grade(delta: float, error: float, p_value: float) -> str:
    if not np.isfinite(delta):
        # An infinite odds ratio is a difference without bound, unless there is no odds ratio at all.
        return "C" if np.isinf(delta) and p_value < 0.05 else "A"
    if abs(delta) < 1 or p_value >= 0.05:
        return "A"
    return "C" if abs(delta) >= 1.5 and (abs(delta) - 1) / error > float(norm.ppf(0.95)) else "B"


def _logit(design: np.ndarray, answer: np.ndarray) -> tuple[float, float]:
    full = np.column_stack([np.ones(len(answer)), design])
    # A penalty far below the information of one row keeps separated data finite.
    fit = fit_logistic(full, answer, ridge=1e-6)
    return fit.log_likelihood, float(fit.coefficients[2]) if full.shape[1] > 2 else 0.0


def _least_squares(design: np.ndarray, answer: np.ndarray) -> tuple[float, float]:
    full = np.column_stack([np.ones(len(answer)), design])
    coefficients = np.linalg.lstsq(full, answer, rcond=None)[0]
    mean_square = max(float(np.mean((answer - full @ coefficients) ** 2)), 1e-300)
    return -0.5 * len(answer) * np.log(mean_square), float(coefficients[2]) if full.shape[1] > 2 else 0.0


def _proportional_odds(design: np.ndarray, answer: np.ndarray) -> tuple[float, float]:
    codes = np.unique(answer, return_inverse=True)[1]
    counts = np.bincount(codes)
    above = np.log(counts[::-1].cumsum()[::-1][1:] / counts.cumsum()[:-1])
    if not design.shape[1]:
        return float(np.sum(counts * np.log(counts / counts.sum()))), 0.0
    cuts = len(above)
    # Thresholds as the first and the logs of the gaps keep their order: P(X >= k) = expit(d_k + x b).
    begin = np.concatenate([above[:1], np.log(np.maximum(-np.diff(above), 1e-2)), np.zeros(design.shape[1])])

    def objective(vector: np.ndarray) -> tuple[float, np.ndarray]:
        gaps = np.exp(vector[1:cuts])
        thresholds = np.concatenate([[np.inf], vector[0] - np.concatenate([[0.0], np.cumsum(gaps)]), [-np.inf]])
        line = design @ vector[cuts:]
        upper, lower = expit(thresholds[codes] + line), expit(thresholds[codes + 1] + line)
        p = np.maximum(upper - lower, 1e-300)
        up, down = upper * (1 - upper) / p, lower * (1 - lower) / p
        by_cut = np.bincount(codes, up, cuts + 1)[1:] - np.bincount(codes, down, cuts + 1)[:-1]
        tail = by_cut[::-1].cumsum()[::-1]
        gradient = np.concatenate([tail[:1], -gaps * tail[1:], design.T @ (up - down)])
        return -float(np.log(p).sum()) / len(codes), -gradient / len(codes)

    fit = minimize(objective, begin, jac=True, method="BFGS", options={"gtol": 1e-7, "maxiter": 200})
    return -float(fit.fun) * len(codes), float(fit.x[cuts + 1]) if design.shape[1] > 1 else 0.0
