"""Adding up the cost of several stages, by dp-accounting's privacy loss distributions."""

from __future__ import annotations

import importlib.metadata
import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from scipy.optimize import brentq
from scipy.special import log_ndtr, ndtr

from workingpapers.foundations.errors import InputError

if TYPE_CHECKING:
    from workingpapers.foundations.privacy.statement import Stage

try:
    _VERSION = importlib.metadata.version("dp-accounting")
except importlib.metadata.PackageNotFoundError:
    _VERSION = "not installed"
ACCOUNTANT = f"privacy loss distributions, dp-accounting {_VERSION}, discretised upwards"


def compose(stages: Sequence[Stage], delta: float) -> float:
    """Return epsilon at `delta` of stages that follow one another, an upper bound (discretisation rounds up).

    Args:
        stages: The stages, under "add or remove one record" where they sample.
        delta: Over 0.
    """
    from dp_accounting.pld import common, privacy_loss_distribution

    total = privacy_loss_distribution.identity()
    for stage in stages:
        if stage.kind == "pure":
            parameters = common.DifferentialPrivacyParameters(stage.epsilon, 0.0)
            step = privacy_loss_distribution.from_privacy_parameters(parameters)
        elif stage.multiplier == math.inf:
            continue
        elif stage.multiplier <= 0:
            return math.inf
        else:
            step = privacy_loss_distribution.from_gaussian_mechanism(stage.multiplier, sampling_prob=stage.rate)
        total = total.compose(step.self_compose(stage.steps) if stage.steps > 1 else step)
    return float(total.get_epsilon_for_delta(delta))


def compose_rdp(stages: Sequence[Stage], delta: float) -> float:
    """Return an upper bound by Renyi divergences, which is looser: a cross-check.

    Args:
        stages: The stages.
        delta: Over 0.
    """
    import dp_accounting
    from dp_accounting import rdp

    accountant = rdp.RdpAccountant()
    for stage in stages:
        if stage.kind == "pure":  # pure epsilon implies zero-concentrated privacy with rho = epsilon^2 / 2
            event: Any = dp_accounting.ZCDpEvent(stage.epsilon**2 / 2)
        elif stage.multiplier == math.inf:
            continue
        elif stage.multiplier <= 0:
            return math.inf
        else:
            event = dp_accounting.GaussianDpEvent(stage.multiplier)
        accountant.compose(
            dp_accounting.PoissonSampledDpEvent(stage.rate, event) if stage.rate < 1 else event, stage.steps
        )
    return float(accountant.get_epsilon(delta))


def gaussian_multiplier(epsilon: float, delta: float) -> float:
    r"""Return the least noise multiplier at which one Gaussian release is (epsilon, delta)-private.

    Solves :math:`\delta = \Phi(1/(2\sigma) - \epsilon\sigma) - e^\epsilon \Phi(-1/(2\sigma) - \epsilon\sigma)`.

    Args:
        epsilon: Over 0.
        delta: Between 0 and 1.

    References:
        Balle and Wang (2018). Improving the Gaussian mechanism. arXiv:1805.06530.
    """
    if not (epsilon > 0 and 0 < delta < 1):
        raise InputError(f"Epsilon is {epsilon} and delta {delta}; give an epsilon over 0 and a delta between 0 and 1.")

    def excess(log_sigma: float) -> float:
        sigma = math.exp(log_sigma)
        second = math.exp(epsilon + float(log_ndtr(-1 / (2 * sigma) - epsilon * sigma)))
        return float(ndtr(1 / (2 * sigma) - epsilon * sigma)) - second - delta

    found = math.exp(brentq(excess, -20.0, 20.0, xtol=1e-12))
    return found * (1 + 1e-9)  # on the safe side of the root's last digits


def least_scale(
    stages_at: Callable[[float], Sequence[Stage]], epsilon: float, delta: float, *, tolerance: float = 1e-3
) -> float:
    """Return the least factor on the noise at which stages cost at most `epsilon`.

    Args:
        stages_at: Noise factor -> the stages; more noise must cost less.
        epsilon: Budget.
        delta: Budget.
        tolerance: Relative width at which the bisection ends; the upper end is returned.
    """
    low, high = 1e-3, 1.0
    while compose(stages_at(high), delta) > epsilon:
        low, high = high, 2 * high
        if high > 1e6:
            raise InputError(f"No noise is enough for epsilon {epsilon} at delta {delta}; give a larger epsilon.")
    while compose(stages_at(low), delta) <= epsilon:
        low, high = low / 2, low
        if high < 1e-6:
            return high
    while high / low > 1 + tolerance:
        middle = math.sqrt(low * high)
        if compose(stages_at(middle), delta) <= epsilon:
            high = middle
        else:
            low = middle
    return high
