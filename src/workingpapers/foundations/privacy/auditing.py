r"""An empirical audit of a mechanism: how well a test can tell two neighbouring data sets apart.

An (epsilon, delta)-private mechanism lets no test reach :math:`\mathrm{TPR} > e^\epsilon\,\mathrm{FPR} + \delta`, so
the rates of any test bound epsilon from below. The test is a threshold on a statistic of the output, chosen on one half
of the runs and measured on the other with exact (Clopper-Pearson) limits.

References:
    Jagielski, Ullman and Oprea (2020). Auditing differentially private machine learning. arXiv:2006.07709.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import beta

from workingpapers.foundations.errors import InputError

# Thresholds that cut off rare outputs as well: some mechanisms give themselves away only there.
_SHARES = np.concatenate([np.geomspace(1e-4, 0.01, 20), np.linspace(0.02, 0.98, 97), 1 - np.geomspace(1e-4, 0.01, 20)])


@dataclass(frozen=True)
class Audit:
    """What an audit found.

    Args:
        epsilon: Lower confidence bound on epsilon, at least 0.
        threshold: Of the test.
        above: Whether the test says "second" above the threshold or below it.
        true_rate: Share of the second mechanism's outputs that the test catches.
        false_rate: Share of the first's that it takes for the second's.
    """

    epsilon: float
    threshold: float
    above: bool
    true_rate: float
    false_rate: float


def audit(first: ArrayLike, second: ArrayLike, *, delta: float = 0.0, confidence: float = 0.95) -> Audit:
    """Return a lower confidence bound on epsilon from a statistic of outputs on two neighbouring data sets.

    Args:
        first: The statistic of the outputs on one data set, shape (n,).
        second: On its neighbour, shape (m,).
        delta: Delta of the claimed guarantee.
        confidence: Probability with which the bound holds.

    Raises:
        InputError: Fewer than 20 outputs of either kind.
    """
    one, other = np.asarray(first, np.float64).ravel(), np.asarray(second, np.float64).ravel()
    if min(len(one), len(other)) < 20:
        raise InputError(f"There are {len(one)} and {len(other)} outputs; an audit needs at least 20 of each.")
    best = Audit(-math.inf, 0.0, True, 0.0, 0.0)
    chosen_on = np.concatenate([one[::2], other[::2]])
    values = np.unique(chosen_on)
    cuts = values if len(values) <= 200 else np.unique(np.quantile(chosen_on, _SHARES))
    for above in (True, False):
        sign = 1.0 if above else -1.0
        for threshold in sign * cuts:
            found = _bound(sign * one[::2], sign * other[::2], threshold, delta, confidence)
            if found.epsilon > best.epsilon:
                best = Audit(found.epsilon, sign * threshold, above, found.true_rate, found.false_rate)
    sign = 1.0 if best.above else -1.0
    fair = _bound(sign * one[1::2], sign * other[1::2], sign * best.threshold, delta, confidence)
    return Audit(max(0.0, fair.epsilon), best.threshold, best.above, fair.true_rate, fair.false_rate)


def _bound(one: np.ndarray, other: np.ndarray, threshold: float, delta: float, confidence: float) -> Audit:
    caught, false = int((other >= threshold).sum()), int((one >= threshold).sum())
    level = (1 - confidence) / 2  # both limits must hold
    low = float(beta.ppf(level, caught, len(other) - caught + 1)) if caught else 0.0
    high = float(beta.ppf(1 - level, false + 1, len(one) - false)) if false < len(one) else 1.0
    epsilon = math.log((low - delta) / high) if low > delta else -math.inf
    return Audit(epsilon, threshold, True, caught / len(other), false / len(one))
