r"""Generalization bounds of a Gibbs posterior from its training losses at higher temperatures.

With prior pi, empirical loss L and G_beta(dh) = exp(-beta L(h)) pi(dh) / Z(beta), write L(beta) for the mean of L under
G_beta. Then, exactly,

.. math:: -\log Z(\beta) = \int_0^\beta L(b)\,db, \qquad
          \Gamma(\beta) := KL(G_\beta \| \pi) = \int_0^\beta L(b)\,db - \beta L(\beta).

L is non-increasing, so the left sum over a grid bounds Gamma from above. The PAC-Bayes-kl inequality turns it into a
bound of the expected risk of the posterior, simultaneous over all temperatures, since it holds for all posteriors at
once:

.. math:: kl(\hat E(\beta), R(\beta)) \le \frac{\Gamma(\beta) + \log(2\sqrt n/\delta)}{n}.

References:
    A. Maurer, E. Mirzaei, M. Pontil, arXiv:2510.06028. A. Maurer, A Note on the PAC Bayesian Theorem (2004),
    arXiv:cs/0411099.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from workingpapers.foundations.errors import InputError
from workingpapers.sampling.gibbs_bounds.bernoulli import check_sample, kl_bound, kl_inverse, log_term, unit_values

Floats = NDArray[np.float64]
Rule = Literal["left", "trapezoid", "right"]
LOWEST_FACTOR = 0.1


@dataclass(frozen=True)
class GibbsBound:
    """Bounds of the expected risk of the Gibbs posterior at each of m inverse temperatures.

    Args:
        betas: Inverse temperatures, shape (m,).
        n: Number of training examples.
        delta: Probability over the sample with which a bound may fail, at any of the temperatures.
        errors: Mean training error of the posterior, shape (m,).
        kl: Upper estimate of KL(posterior, prior) in nats: left sums, made non-decreasing, shape (m,).
        kl_lower: Lower estimate by right sums, shape (m,).
        bound: Rigorous where losses and errors are exact posterior means, shape (m,).
        bound_with_sampling_error: The same after all losses and errors were moved the unfavourable way by
            `deviations` standard errors, shape (m,); None where no standard errors were given. It covers the noise of
            the chains, not their bias.
        deviations: Standard errors allowed for.
        calibration: Factor on the KL that was learned from random labels; None for none.
        heuristic_calibrated_bound: What that factor makes of the bound, shape (m,): a heuristic without a guarantee.
        warnings: Sentences on what makes the numbers doubtful.
    """

    betas: Floats
    n: int
    delta: float
    errors: Floats
    kl: Floats
    kl_lower: Floats
    bound: Floats
    bound_with_sampling_error: Floats | None
    deviations: float
    calibration: float | None
    heuristic_calibrated_bound: Floats | None
    warnings: tuple[str, ...]

    @property
    def best(self) -> int:
        """Index of the smallest bound. No price is paid for the choice: all hold on one event of probability 1 - delta.

        See :func:`single_draw_bound` for the case where a union bound is needed.
        """
        return int(np.argmin(self.bound))


def gibbs_kl_from_losses(betas: ArrayLike, losses: ArrayLike, rule: Rule = "left") -> Floats:
    r"""Return KL(G_beta, prior) in nats from mean losses of the posteriors at a grid of temperatures.

    .. math:: \hat\Gamma(b_k) = \sum_{j<k} (b_{j+1} - b_j) L(b_j) - b_k L(b_k)

    for the left rule, which is an upper bound; the right rule has L(b_{j+1}) and is a lower bound; the trapezoid is
    between them.

    Args:
        betas: Inverse temperatures, increasing from 0, shape (m,).
        losses: Mean of the loss in the exponent of each posterior, at the very scale of that exponent, shape (m,).
        rule: ``"left"``, ``"trapezoid"`` or ``"right"``.

    Returns:
        Shape (m,), in nats; 0 at the first.

    Raises:
        InputError: A grid that does not start at 0 or does not increase, or losses that do not fit it.
    """
    grid, values = _grid(betas), np.asarray(losses, dtype=np.float64)
    _fits(values, grid, "losses")
    return _integral(grid, values, rule) - grid * values


def log_partition_bound(betas: ArrayLike, losses: ArrayLike) -> Floats:
    r"""Return upper bounds of :math:`-\log Z(b_k) = \int_0^{b_k} L(b) db` by left sums.

    Args:
        betas: Inverse temperatures, increasing from 0, shape (m,).
        losses: Mean losses, shape (m,).

    Returns:
        Shape (m,), in nats.

    Raises:
        InputError: As :func:`gibbs_kl_from_losses`.
    """
    grid, values = _grid(betas), np.asarray(losses, dtype=np.float64)
    _fits(values, grid, "losses")
    return _integral(grid, values, "left")


def gibbs_bound(
    betas: ArrayLike,
    surrogate_losses: ArrayLike,
    errors: ArrayLike,
    n: int,
    delta: float = 0.05,
    *,
    scale: float = 1.0,
    sampler_scale: float | None = None,
    reported_scale: float | None = None,
    loss_standard_errors: ArrayLike | None = None,
    error_standard_errors: ArrayLike | None = None,
    deviations: float = 3.0,
    calibration: float | None = None,
) -> GibbsBound:
    r"""Bound the expected risk of Gibbs posteriors by what was seen in training.

    .. math:: R(b_k) \le kl^{-1}\Bigl(\hat E(b_k), \frac{s\hat\Gamma(b_k) + \log(2\sqrt n/\delta)}{n}\Bigr)

    Args:
        betas: Inverse temperatures, increasing from 0, shape (m,).
        surrogate_losses: Mean training loss of each posterior, of the loss in its exponent, shape (m,).
        errors: Mean training error of each posterior, of any loss in [0, 1]: that one is bounded, shape (m,).
        n: Number of training examples, at least 8.
        delta: Probability of failure, in (0, 1).
        scale: s: the posterior is exp(-beta s l), l the loss of which `surrogate_losses` are means. 1 where the sampler
            used the loss that is reported. A sampler that used a loss of range 3.98 whose values were divided by 3.98
            in the report needs 3.98; without it the KL is too small by that factor and the bound is none.
        sampler_scale: Range of the loss in the sampler, where known.
        reported_scale: Range of the reported loss, where known; both together are checked against `scale`.
        loss_standard_errors: Monte Carlo standard errors of the losses, shape (m,).
        error_standard_errors: Those of the errors, shape (m,); zero by default where those of the losses are given.
        deviations: Standard errors to allow for.
        calibration: Factor from :func:`calibration_factor` for the heuristic bound.

    Returns:
        The bounds, valid together with probability 1 - delta over the sample.

    Raises:
        InputError: A value out of range, or scales that contradict each other.
    """
    grid, losses, means = _grid(betas), np.asarray(surrogate_losses, dtype=np.float64), unit_values("errors", errors)
    _fits(losses, grid, "surrogate losses")
    _fits(means, grid, "errors")
    check_sample(n, delta)
    _check_scale(scale, sampler_scale, reported_scale)
    kl = scale * np.maximum.accumulate(gibbs_kl_from_losses(grid, losses))
    bounded = kl_bound(means, kl, n, delta)
    loss_noise = _noise(loss_standard_errors, grid, "loss_standard_errors")
    error_noise = _noise(error_standard_errors, grid, "error_standard_errors")
    with_noise = None
    if loss_noise is not None:
        # Warm-started chains depend on each other, so their errors are added, not their squares.
        slack = deviations * scale * (_integral(grid, loss_noise, "left") + grid * loss_noise)
        raised = np.minimum(1, means + deviations * (0 if error_noise is None else error_noise))
        with_noise = kl_bound(raised, kl + slack, n, delta)
    calibrated = None if calibration is None else kl_bound(means, calibration * kl, n, delta)
    return GibbsBound(
        betas=grid,
        n=n,
        delta=delta,
        errors=means,
        kl=kl,
        kl_lower=np.maximum(0, scale * gibbs_kl_from_losses(grid, losses, "right")),
        bound=bounded,
        bound_with_sampling_error=with_noise,
        deviations=deviations,
        calibration=calibration,
        heuristic_calibrated_bound=calibrated,
        warnings=rising_losses(grid, losses, loss_noise),
    )


def single_draw_bound(
    betas: ArrayLike,
    surrogate_losses: ArrayLike,
    draw_losses: ArrayLike,
    draw_errors: ArrayLike,
    n: int,
    delta: float = 0.05,
    *,
    scale: float = 1.0,
) -> Floats:
    r"""Bound the risk of one network drawn from each posterior, all at once.

    .. math:: R(h) \le kl^{-1}\Bigl(\hat E(h), \frac{s(\int_0^\beta L - \beta L(h)) + \log(2 m \sqrt n/\delta)}{n}\Bigr)

    The bracket is the log density of the posterior at h. Unlike the bound of the mean, this one holds for a posterior
    fixed in advance; delta is therefore shared among the m temperatures.

    Args:
        betas: Inverse temperatures, increasing from 0, shape (m,).
        surrogate_losses: Mean losses of the posteriors, shape (m,).
        draw_losses: Loss of the one draw at each temperature, shape (m,).
        draw_errors: Its training error in [0, 1], shape (m,).
        n: Number of training examples, at least 8.
        delta: Probability of failure over the sample and the draws, in (0, 1).
        scale: As in :func:`gibbs_bound`.

    Returns:
        Shape (m,).

    Raises:
        InputError: A value out of range.
    """
    grid, losses = _grid(betas), np.asarray(draw_losses, dtype=np.float64)
    check_sample(n, delta)
    _check_scale(scale, None, None)
    _fits(losses, grid, "losses of the draws")
    errors = unit_values("draw_errors", draw_errors)
    _fits(errors, grid, "errors of the draws")
    density = scale * (log_partition_bound(grid, surrogate_losses) - grid * losses)
    budget = np.maximum(0, density + log_term(n, delta / len(grid))) / n
    return np.asarray(kl_inverse(errors, budget))


def calibration_factor(
    betas: ArrayLike,
    surrogate_losses: ArrayLike,
    errors: ArrayLike,
    n: int,
    delta: float = 0.05,
    *,
    chance: float = 0.5,
    scale: float = 1.0,
    lowest: float = LOWEST_FACTOR,
    highest: float = 100.0,
) -> float:
    r"""Return the smallest factor on the KL with which all bounds of a run on random labels are at least chance.

    A heuristic: it corrects what is slack in the bound for labels without structure, and nothing promises that the
    same correction fits labels with structure.

    Args:
        betas: Inverse temperatures, increasing from 0, shape (m,); that of 0 is not used.
        surrogate_losses: Mean losses of the run on random labels, shape (m,).
        errors: Its mean training errors, shape (m,).
        n: Number of training examples, at least 8.
        delta: Probability of failure, in (0, 1).
        chance: Risk of every classifier on such labels, 1 - 1/C for C classes.
        scale: As in :func:`gibbs_bound`.
        lowest: Smallest factor considered.
        highest: Largest factor considered.

    Raises:
        InputError: A value out of range, or no factor up to `highest` is enough.
    """
    grid = _grid(betas)
    if len(grid) < 2:
        raise InputError("Calibration needs a temperature above zero; give two betas or more.")
    found = gibbs_bound(grid, surrogate_losses, errors, n, delta, scale=scale)

    def enough(factor: float) -> bool:
        return bool((kl_bound(found.errors[1:], factor * found.kl[1:], n, delta) >= chance).all())

    if enough(lowest):
        return lowest
    if not enough(highest):
        raise InputError(
            f"No factor up to {highest:g} lifts the bounds on random labels to {chance:g}; sample them more carefully."
        )
    low, high = lowest, highest
    while high - low > 1e-9 * high:
        middle = (low + high) / 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


def rising_losses(betas: Floats, losses: Floats, standard_errors: Floats | None) -> tuple[str, ...]:
    """Return a warning for each loss that rises with beta, which no exact posterior allows, by over 3 standard errors.

    Args:
        betas: Inverse temperatures, shape (m,).
        losses: Mean losses, shape (m,).
        standard_errors: Their Monte Carlo standard errors, shape (m,), or None: then every rise counts.
    """
    rises = np.diff(losses)
    noise = np.zeros_like(rises)
    if standard_errors is not None:
        noise = 3 * np.hypot(standard_errors[1:], standard_errors[:-1])
    return tuple(
        f"The loss rises from beta {betas[k]:g} to {betas[k + 1]:g} ({losses[k]:.4g} to {losses[k + 1]:.4g}), which "
        "it cannot in equilibrium: the chain has not converged; take more steps."
        for k in np.flatnonzero(rises > noise + 1e-12 * np.abs(losses[:-1]))
    )


def _integral(grid: Floats, values: Floats, rule: Rule) -> Floats:
    heights = {"left": values[:-1], "right": values[1:], "trapezoid": (values[:-1] + values[1:]) / 2}
    if rule not in heights:
        raise InputError(f"The rule is {rule!r}; choose left, trapezoid or right.")
    return np.concatenate([[0.0], np.cumsum(np.diff(grid) * heights[rule])])


def _grid(betas: ArrayLike) -> Floats:
    grid = np.asarray(betas, dtype=np.float64)
    if grid.ndim != 1 or not len(grid) or not np.isfinite(grid).all():
        raise InputError(f"The betas have shape {grid.shape}; give a list of finite numbers that starts at 0.")
    if grid[0] != 0:
        raise InputError(
            f"The first beta is {grid[0]:g}; it must be 0: the integral starts with the mean loss under the prior."
        )
    if not (np.diff(grid) > 0).all():
        k = int(np.flatnonzero(np.diff(grid) <= 0)[0])
        raise InputError(f"Beta {grid[k + 1]:g} follows {grid[k]:g}; the betas must increase.")
    return grid


def _fits(values: Floats, grid: Floats, what: str) -> None:
    if values.shape != grid.shape:
        raise InputError(f"There are {len(grid)} betas and {what} of shape {values.shape}; give one a beta.")
    if not np.isfinite(values).all():
        raise InputError(f"One of the {what} is {values[~np.isfinite(values)][0]}; they must be finite numbers.")


def _noise(values: ArrayLike | None, grid: Floats, what: str) -> Floats | None:
    if values is None:
        return None
    noise = np.asarray(values, dtype=np.float64)
    _fits(noise, grid, what)
    if (noise < 0).any():
        raise InputError(f"One of the {what} is {noise.min():g}; a standard error is not negative.")
    return noise


def _check_scale(scale: float, sampler: float | None, reported: float | None) -> None:
    for name, value in (("scale", scale), ("sampler_scale", sampler), ("reported_scale", reported)):
        if value is not None and not 0 < value < math.inf:
            raise InputError(f"{name} is {value:g}; it must be a positive number.")
    if sampler is None or reported is None:
        return
    ratio = sampler / reported
    if not math.isclose(scale, ratio, rel_tol=1e-3):
        raise InputError(
            f"The loss in the sampler has range {sampler:g} and the reported one {reported:g}, so that the scale must "
            f"be {ratio:g} and not {scale:g}; give that scale, or report the loss that the sampler used."
        )
