"""Human influence in a log: who looks, who changes decisions, and when that fades."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from workingpapers.foundations.errors import InputError
from workingpapers.governance.arms_control.escalation import Record

Vector = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Influence:
    """Indices of human influence over AI recommendations.

    Args:
        recommendations: Number of AI recommendations.
        review_share: Share that a human looked at.
        override_rate: Overrides / recommendations.
        effective_oversight: Overrides / reviews, P(decision changes | human reviews); NaN without reviews.
        median_latency: Median seconds of a review, NaN where not logged.
        hasty_share: Share of timed reviews quicker than the least time that a review takes; NaN where not logged.
    """

    recommendations: int
    review_share: float
    override_rate: float
    effective_oversight: float
    median_latency: float
    hasty_share: float


def influence(records: Sequence[Record], review_seconds: float = 0.0) -> Influence:
    """Return the indices of human influence.

    Args:
        records: Actions; `override` None means that nobody looked.
        review_seconds: Least time in which a human can review one recommendation.

    Raises:
        InputError: There are no records.
    """
    if not records:
        raise InputError("There are no recommendations to judge human influence by; give a log with actions.")
    reviewed = [record for record in records if record.override is not None]
    overrides = sum(bool(record.override) for record in reviewed)
    times = np.array([record.latency for record in reviewed if record.latency is not None], dtype=np.float64)
    return Influence(
        len(records),
        len(reviewed) / len(records),
        overrides / len(records),
        overrides / len(reviewed) if reviewed else math.nan,
        float(np.median(times)) if times.size else math.nan,
        float((times < review_seconds).mean()) if times.size else math.nan,
    )


def daily_overrides(records: Sequence[Record]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return overrides and recommendations for each day, shapes (days,), pooled over runs; days without any hold 0.

    Args:
        records: Actions of all runs.
    """
    days = max(record.day for record in records)
    overrides, total = np.zeros(days, dtype=np.int64), np.zeros(days, dtype=np.int64)
    for record in records:
        total[record.day - 1] += 1
        overrides[record.day - 1] += bool(record.override)
    return overrides, total


@dataclass(frozen=True)
class Cusum:
    """Control chart of the override rate.

    Args:
        statistic: Shape (days,).
        threshold: Alarm limit for the wanted average run length.
        alarm: First day (from 1) above it, or None.
        baseline: Override rate that counts as in control.
    """

    statistic: Vector
    threshold: float
    alarm: int | None
    baseline: float


def fading_cusum(
    overrides: npt.NDArray[np.int64],
    total: npt.NDArray[np.int64],
    baseline: float,
    *,
    shift: float = math.log(2.0),
    run_length: float = 500.0,
) -> Cusum:
    r"""Watch for a falling override rate by the cumulative sum of log-likelihood ratios.

    :math:`S_t = \max(0, S_{t-1} + k_t \log\frac{p_1}{p_0} + (n_t - k_t)\log\frac{1-p_1}{1-p_0})` with
    :math:`\mathrm{logit}\,p_1 = \mathrm{logit}\,p_0 - shift`. The threshold gives the wanted average number of days
    before a false alarm, from the Markov chain of the statistic with the median number of recommendations a day.

    Args:
        overrides: k, overrides a day, shape (days,).
        total: n, recommendations a day, shape (days,).
        baseline: p_0 in (0, 1), the rate in control, from an agreed early period or norm.
        shift: Fall in log-odds to detect; the default halves the odds.
        run_length: Average days between false alarms.

    Raises:
        InputError: The baseline is not in (0, 1) (no overrides at all cannot fade), or no recommendations.

    References:
        D. Brook and D. A. Evans, Biometrika 59 (1972) 539.
    """
    if not 0 < baseline < 1:
        raise InputError(
            f"The override rate in control is {baseline:g}; a rate over 0 and under 1 is needed to watch it."
        )
    if not shift > 0 or not run_length > 1:
        raise InputError(f"The shift is {shift:g} and the run length {run_length:g}; use more than 0 and more than 1.")
    if not (total > 0).any():
        raise InputError("There are no recommendations on any day; give a log with actions.")
    hit, miss = _weights(baseline, shift)
    statistic, level = np.zeros(total.size), 0.0
    for day, (k, n) in enumerate(zip(overrides, total, strict=True)):
        level = max(0.0, level + k * hit + (n - k) * miss)
        statistic[day] = level
    threshold = cusum_threshold(baseline, int(np.median(total[total > 0])), shift, run_length)
    above = np.flatnonzero(statistic > threshold)
    return Cusum(statistic, threshold, int(above[0]) + 1 if above.size else None, baseline)


def cusum_threshold(baseline: float, per_day: int, shift: float, run_length: float, states: int = 200) -> float:
    """Return the threshold at which the chart's average run length in control is `run_length` days.

    Args:
        baseline: p_0 in (0, 1).
        per_day: n, recommendations a day.
        shift: Fall in log-odds to detect.
        run_length: Average days between false alarms.
        states: Grid points of the chain.
    """
    low, high = 0.0, 1.0
    while average_run_length(high, baseline, per_day, shift, states) < run_length:
        low, high = high, 2 * high
    for _ in range(40):
        middle = (low + high) / 2
        if average_run_length(middle, baseline, per_day, shift, states) < run_length:
            low = middle
        else:
            high = middle
    return high


def average_run_length(threshold: float, baseline: float, per_day: int, shift: float, states: int = 200) -> float:
    """Return the mean number of days until the chart first exceeds `threshold` while the rate stays at `baseline`.

    The statistic lives on a grid of `states` points between 0 and the threshold; the mean absorption time of that chain
    solves a linear system.

    Args:
        threshold: Alarm limit, positive.
        baseline: p_0 in (0, 1).
        per_day: n, recommendations a day.
        shift: Fall in log-odds to detect.
        states: Grid points of the chain.
    """
    from scipy.stats import binom

    hit, miss = _weights(baseline, shift)
    counts = np.arange(per_day + 1)
    steps = counts * hit + (per_day - counts) * miss
    mass = binom.pmf(counts, per_day, baseline)
    grid = np.linspace(0.0, threshold, states)
    chain = np.zeros((states, states))
    for place, level in enumerate(grid):
        following = np.maximum(0.0, level + steps)
        inside = following <= threshold
        position = following[inside] / threshold * (states - 1)
        below = np.minimum(position.astype(int), states - 2)
        # A value between two grid points is shared between them, which keeps its mean.
        np.add.at(chain[place], below, mass[inside] * (1 - (position - below)))
        np.add.at(chain[place], below + 1, mass[inside] * (position - below))
    return float(np.linalg.solve(np.eye(states) - chain, np.ones(states))[0])


@dataclass(frozen=True)
class Break:
    """Two-phase regression: best day of the break (the first of the second phase), its F and its p-value."""

    day: int
    f: float
    p: float
    slope_before: float
    slope_after: float


def two_phase_regression(
    overrides: npt.NDArray[np.int64], total: npt.NDArray[np.int64], seed: int, resamples: int = 499, edge: int = 4
) -> Break:
    r"""Find the day at which the trend of the log-odds of overriding changes.

    Weighted lines are fitted to :math:`z_t = \log\frac{k_t + 1/2}{n_t - k_t + 1/2}` before and after each possible day;
    the break has the largest F. Its p-value comes from simulated binomial days under the single line, because the
    largest of many F values does not follow the F distribution.

    Args:
        overrides: k, shape (days,).
        total: n, shape (days,); days without recommendations are left out.
        seed: Seed of the simulation.
        resamples: Simulated series.
        edge: Least number of days in each phase, at least 3.

    Raises:
        InputError: Fewer than two phases of `edge` days hold recommendations.
    """
    kept = np.flatnonzero(total > 0)
    if edge < 3 or kept.size < 2 * edge:
        raise InputError(
            f"{kept.size} days hold recommendations; two phases of {max(edge, 3)} days are needed for a break."
        )
    days, k, n = kept.astype(np.float64), overrides[kept], total[kept]
    values, slopes = _scan(days, k, n, edge)
    best = int(np.argmax(values))
    line = np.polyval(np.polyfit(days, _log_odds(k, n), 1, w=np.sqrt(_precision(k, n))), days)
    rng = np.random.default_rng(seed)
    simulated = rng.binomial(n, 1 / (1 + np.exp(-line)), size=(resamples, n.size))
    exceeded = int((_scan(days, simulated, n, edge)[0].max(axis=1) >= values[best]).sum())
    p = (1 + exceeded) / (resamples + 1)
    return Break(int(kept[best + edge]) + 1, float(values[best]), p, *map(float, slopes[:, best]))


def _scan(days: Vector, k: npt.NDArray[np.int64], n: npt.NDArray[np.int64], edge: int) -> tuple[Vector, Vector]:
    """F of a break before each possible day, shape (..., cuts), and the slopes of both phases, (2, ..., cuts)."""
    odds, weights = _log_odds(k, n), _precision(k, n)
    x = days - days.mean()
    moments = np.cumsum(np.stack([weights * term for term in (1.0, x, odds, x * x, x * odds, odds * odds)]), axis=-1)
    left = moments[..., edge - 1 : days.size - edge]
    whole = moments[..., -1:]
    (before, slope_before), (after, slope_after) = _line(left), _line(whole - left)
    residual = np.maximum(before + after, 1e-12)
    values = (_line(whole)[0] - before - after) / 2 / (residual / (days.size - 4))
    return np.asarray(values, dtype=np.float64), np.stack([slope_before, slope_after])


def _line(moments: Vector) -> tuple[Vector, Vector]:
    """Residual sum and slope of weighted lines from the sums of w, wx, wy, wxx, wxy, wyy along the first axis."""
    w, wx, wy, wxx, wxy, wyy = moments
    across, along = wxy - wx * wy / w, wxx - wx * wx / w
    return np.asarray(wyy - wy * wy / w - across * across / along), np.asarray(across / along)


def _log_odds(k: npt.NDArray[np.int64], n: npt.NDArray[np.int64]) -> Vector:
    return np.asarray(np.log((k + 0.5) / (n - k + 0.5)), dtype=np.float64)


def _precision(k: npt.NDArray[np.int64], n: npt.NDArray[np.int64]) -> Vector:
    return np.asarray(1 / (1 / (k + 0.5) + 1 / (n - k + 0.5)), dtype=np.float64)


def _weights(baseline: float, shift: float) -> tuple[float, float]:
    odds = baseline / (1 - baseline) * math.exp(-shift)
    fallen = odds / (1 + odds)
    return math.log(fallen / baseline), math.log((1 - fallen) / (1 - baseline))
