"""Response styles: what answers show before reverse-keyed items are turned round."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import chisquare

from workingpapers.foundations.errors import InputError


@dataclass(frozen=True)
class Styles:
    """Response styles of one population.

    Args:
        acquiescence: Mean over rows of key-balanced agreement, in points above the midpoint of the answer range.
        acquiescence_spread: Its standard deviation over rows.
        half_scales: Correlation of the positively and the negatively keyed items of a scale, unturned, mean over the
            scales with both; a test that works gives a clearly negative one. NaN without such scales.
        half_scales_low: Lower end of the 95 % interval (Fisher's z, over rows).
        half_scales_high: Upper end.
        agree_both: Share of pairs (item, opposed item) of one scale with agreement to both; NaN without such pairs.
        extreme: Share of answers at either end of the range.
    """

    acquiescence: float
    acquiescence_spread: float
    half_scales: float
    half_scales_low: float
    half_scales_high: float
    agree_both: float
    extreme: float


def response_styles(answers: np.ndarray, keys: np.ndarray, scales: Sequence[str], low: float, high: float) -> Styles:
    """Measure response styles from answers as given, nothing turned round.

    Args:
        answers: Answers, shape (n, p), NaN where missing.
        keys: +1 or -1, shape (p,).
        scales: Name of each item's scale.
        low: Lowest possible answer.
        high: Highest possible answer.
    """
    middle = (low + high) / 2
    agreement, both, correlations = [], [], []
    for scale in dict.fromkeys(scales):
        own = np.array([name == scale for name in scales])
        positive, negative = answers[:, own & (keys > 0)], answers[:, own & (keys < 0)]
        if not positive.shape[1] or not negative.shape[1]:
            continue
        one, other = _row_means(positive), _row_means(negative)
        agreement.append((one + other) / 2 - middle)
        pair = (positive[:, :, None] > middle) & (negative[:, None, :] > middle)
        known = ~np.isnan(positive)[:, :, None] & ~np.isnan(negative)[:, None, :]
        both.append(pair[known].mean() if known.any() else np.nan)
        complete = ~np.isnan(one) & ~np.isnan(other)
        if complete.sum() > 3 and one[complete].std() > 0 and other[complete].std() > 0:
            correlations.append(float(np.corrcoef(one[complete], other[complete])[0, 1]))
    balanced = _row_means(np.column_stack(agreement)) if agreement else _row_means(answers) - middle
    mean = float(np.mean(correlations)) if correlations else float("nan")
    width = 1.96 / np.sqrt(max(len(answers) - 3, 1))
    z = np.arctanh(np.clip(mean, -1 + 1e-12, 1 - 1e-12))
    seen = answers[~np.isnan(answers)]
    return Styles(
        acquiescence=float(np.nanmean(balanced)),
        acquiescence_spread=float(np.nanstd(balanced, ddof=1)),
        half_scales=mean,
        half_scales_low=float(np.tanh(z - width)),
        half_scales_high=float(np.tanh(z + width)),
        agree_both=float(np.nanmean(both)) if both else float("nan"),
        extreme=float(np.mean((seen <= low) | (seen >= high))),
    )


def position_preference(positions: np.ndarray, options: int) -> tuple[float, float]:
    """Return chi-square and p-value for the chosen option's place being uniform, as it is under random orders.

    Args:
        positions: Place of the chosen option, 0 to `options` - 1, shape (n,), options in random order.
        options: Number of options.

    Raises:
        InputError: A place outside the range.
    """
    places = np.asarray(positions)
    wrong = places[(places < 0) | (places >= options)]
    if len(wrong):
        raise InputError(f"A position is {wrong[0]}; positions go from 0 to {options - 1}.")
    result = chisquare(np.bincount(places.astype(int), minlength=options))
    return float(result.statistic), float(result.pvalue)


def _row_means(values: np.ndarray) -> np.ndarray:
    known = ~np.isnan(values)
    count = known.sum(axis=1)
    return np.asarray(np.where(count > 0, np.where(known, values, 0.0).sum(axis=1) / np.maximum(count, 1), np.nan))
