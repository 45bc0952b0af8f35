r"""Markov chain samplers of a density known up to a constant: Langevin, its Metropolis form, Hamiltonian, stochastic.

The target is a batched callable ``log_density(x)`` from shape (chains, d) to (chains,); gradients come from autograd.
All chains advance together, and every sampler counts the gradients that it asked for, one a chain and step.

.. math:: x' = x + h \nabla \log p(x) + \sqrt{2h}\,\xi

is the unadjusted step (ULA). MALA accepts it by Metropolis and Hastings, HMC accepts a leapfrog path; both adapt their
step during warm-up by dual averaging.

References:
    G. O. Roberts and R. L. Tweedie, Bernoulli 2 (1996). M. D. Hoffman and A. Gelman, JMLR 15 (2014), section 3.2.1.
    M. Welling and Y. W. Teh, ICML 2011.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np
import torch
from torch import Tensor

from workingpapers.foundations.errors import InputError
from workingpapers.foundations.progress import Progress, silent

LogDensity = Callable[[Tensor], Tensor]
Proposal = Callable[[Tensor, Tensor, Tensor, float], tuple[Tensor, Tensor, Tensor, Tensor, int]]
MALA_ACCEPTANCE = 0.574
HMC_ACCEPTANCE = 0.8


@dataclass(frozen=True)
class Chains:
    """What a sampler returns.

    Args:
        samples: Kept states, shape (kept, chains, d).
        log_density: log p at the kept states, up to the target's constant, shape (kept, chains).
        acceptance: Mean acceptance probability after warm-up; 1 without a Metropolis step.
        step: Step size used after warm-up.
        gradients: Gradients of the log-density evaluated in all, warm-up included.
    """

    samples: Tensor
    log_density: Tensor
    acceptance: float
    step: float
    gradients: int

    @property
    def last(self) -> Tensor:
        """Final state of each chain, shape (chains, d)."""
        return self.samples[-1]

    def diagnostics(self) -> Diagnostics:
        """Return effective sample size, split R-hat and standard errors of the means of the coordinates."""
        return diagnose(self.samples.detach().cpu().double().numpy())


@dataclass(frozen=True)
class Diagnostics:
    """Of each coordinate, float64, shape (d,).

    Args:
        effective_size: Bulk effective sample size over all chains.
        r_hat: Rank-normalised split R-hat; near 1 when chains agree.
        standard_error: Monte Carlo standard error of the mean.
    """

    effective_size: np.ndarray
    r_hat: np.ndarray
    standard_error: np.ndarray


def diagnose(samples: np.ndarray) -> Diagnostics:
    """Return convergence diagnostics of draws of shape (kept, chains, d), by arviz-stats.

    Raises:
        InputError: With fewer than four draws a chain.

    References:
        A. Vehtari et al., Bayesian Analysis 16 (2021).
    """
    if samples.ndim != 3 or samples.shape[0] < 4:
        raise InputError(f"Diagnostics need four draws a chain or more, (kept, chains, d), not {samples.shape}.")
    array_stats: Any = import_module("arviz_stats.base").array_stats
    axes = {"chain_axis": 1, "draw_axis": 0}
    return Diagnostics(
        np.atleast_1d(array_stats.ess(samples, **axes, method="bulk")),
        np.atleast_1d(array_stats.rhat(samples, **axes)),
        np.atleast_1d(array_stats.mcse(samples, **axes, method="mean")),
    )


def value_and_score(log_density: LogDensity, x: Tensor) -> tuple[Tensor, Tensor]:
    """Return log p, shape (b,), and its gradient, shape (b, d), at `x`, shape (b, d).

    Raises:
        InputError: When the log-density does not return one number a row.
    """
    with torch.enable_grad():
        x = x.detach().requires_grad_(True)
        value = log_density(x)
        if value.shape != x.shape[:1]:
            raise InputError(
                f"The log-density returned shape {tuple(value.shape)} for {tuple(x.shape)} points; it must return one "
                "number a row."
            )
        (score,) = torch.autograd.grad(value.sum(), x)
    return value.detach(), score.detach()


def ula(
    log_density: LogDensity,
    start: Tensor,
    *,
    step: float,
    steps: int,
    keep_every: int = 1,
    burn_in: int = 0,
    generator: torch.Generator | None = None,
    progress: Progress = silent,
) -> Chains:
    r"""Run the unadjusted Langevin algorithm, biased by O(step).

    Args:
        log_density: Batched log p up to a constant.
        start: First states, shape (chains, d).
        step: h in x + h grad log p + sqrt(2 h) xi.
        steps: Steps after `burn_in`.
        keep_every: Keep every so many states.
        burn_in: Steps that are not kept.
        generator: Source of the noise.
        progress: Told of the share done.

    Returns:
        Chains of ``steps // keep_every`` states.

    Raises:
        InputError: When `step` is not positive, or a state stops being finite.
    """
    _check(start, step, steps, keep_every)
    x = start.detach().clone()
    value, score = value_and_score(log_density, x)
    states, values = [], []
    for number in range(burn_in + steps):
        x = x + step * score + math.sqrt(2 * step) * _noise(x, generator)
        value, score = value_and_score(log_density, x)
        _still_finite(x, value, number, step)
        if number >= burn_in and (number - burn_in + 1) % keep_every == 0:
            states.append(x)
            values.append(value)
        progress((number + 1) / (burn_in + steps), f"Langevin step {number + 1}")
    return Chains(torch.stack(states), torch.stack(values), 1.0, step, len(x) * (burn_in + steps + 1))


def mala(
    log_density: LogDensity,
    start: Tensor,
    *,
    step: float = 0.1,
    steps: int,
    warm_up: int = 500,
    keep_every: int = 1,
    target_acceptance: float = MALA_ACCEPTANCE,
    generator: torch.Generator | None = None,
    progress: Progress = silent,
) -> Chains:
    """Run the Metropolis-adjusted Langevin algorithm, which leaves p invariant exactly.

    Args:
        log_density: Batched log p up to a constant.
        start: First states, shape (chains, d).
        step: First step h; it is adapted during warm-up and fixed from then on.
        steps: Steps after warm-up.
        warm_up: Steps of adaptation, not kept; 0 keeps `step`.
        keep_every: Keep every so many states.
        target_acceptance: Mean acceptance that the adaptation aims at.
        generator: Source of the noise.
        progress: Told of the share done.

    Raises:
        InputError: When `step` is not positive, or the log-density is not finite at a start.
    """

    def propose(x: Tensor, value: Tensor, score: Tensor, h: float) -> tuple[Tensor, Tensor, Tensor, Tensor, int]:
        moved = x + h * score + math.sqrt(2 * h) * _noise(x, generator)
        new_value, new_score = value_and_score(log_density, moved)
        forward = ((moved - x - h * score) ** 2).sum(-1)
        backward = ((x - moved - h * new_score) ** 2).sum(-1)
        return moved, new_value, new_score, new_value - value + (forward - backward) / (4 * h), 1

    return _metropolis(
        log_density, start, propose, step, steps, warm_up, keep_every, target_acceptance, generator, progress
    )


def hmc(
    log_density: LogDensity,
    start: Tensor,
    *,
    step: float = 0.1,
    leapfrog: int = 10,
    steps: int,
    warm_up: int = 300,
    keep_every: int = 1,
    target_acceptance: float = HMC_ACCEPTANCE,
    generator: torch.Generator | None = None,
    progress: Progress = silent,
) -> Chains:
    """Run Hamiltonian Monte Carlo with unit mass and a number of leapfrog steps drawn from 1 to `leapfrog`.

    Args:
        log_density: Batched log p up to a constant.
        start: First states, shape (chains, d).
        step: First leapfrog step; it is adapted during warm-up and fixed from then on.
        leapfrog: Most leapfrog steps of a proposal.
        steps: Proposals after warm-up.
        warm_up: Proposals of adaptation, not kept; 0 keeps `step`.
        keep_every: Keep every so many states.
        target_acceptance: Mean acceptance that the adaptation aims at.
        generator: Source of the noise.
        progress: Told of the share done.

    Raises:
        InputError: When `step` is not positive, or the log-density is not finite at a start.
    """

    def propose(x: Tensor, value: Tensor, score: Tensor, h: float) -> tuple[Tensor, Tensor, Tensor, Tensor, int]:
        momentum = _noise(x, generator)
        moved, new_value, new_score, p = x, value, score, momentum
        count = int(torch.randint(1, leapfrog + 1, (1,), generator=generator))
        for _ in range(count):
            p = p + 0.5 * h * new_score
            moved = moved + h * p
            new_value, new_score = value_and_score(log_density, moved)
            p = p + 0.5 * h * new_score
        energy = 0.5 * ((momentum**2).sum(-1) - (p**2).sum(-1))
        return moved, new_value, new_score, new_value - value + energy, count

    return _metropolis(
        log_density, start, propose, step, steps, warm_up, keep_every, target_acceptance, generator, progress
    )


class SGLD(torch.optim.Optimizer):
    r"""Stochastic gradient Langevin dynamics of the Gibbs posterior exp(-beta L) N(0, prior_std^2 I).

    .. math:: \theta' = \theta - \tfrac{\eta}{2}\Bigl(\nabla L(\theta) + \frac{\theta}{\sigma^2 \beta}\Bigr)
              + \sqrt{\eta/\beta}\;\xi

    This is the overdamped Langevin equation of U = beta L + |theta|^2 / (2 sigma^2) with time step eta / (2 beta). Call
    it as any optimiser: ``loss.backward(); optimizer.step()``, where the loss is the *mean* over the data or a batch.

    Args:
        params: Parameters, or groups of them.
        lr: eta > 0.
        beta: Inverse temperature > 0 of the mean loss.
        prior_std: sigma > 0 of the Gaussian prior; infinity for a flat one.
        generator: Source of the noise.

    Raises:
        InputError: When a value is out of range.
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float,
        beta: float,
        prior_std: float = math.inf,
        generator: torch.Generator | None = None,
    ) -> None:
        for name, value in (("lr", lr), ("beta", beta), ("prior_std", prior_std)):
            if not value > 0:
                raise InputError(f"{name} must be positive, not {value}.")
        self._generator = generator
        super().__init__(params, {"lr": lr, "beta": beta, "prior_std": prior_std})

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:  # type: ignore[override]
        """Take one step by the gradients that the parameters hold."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            eta, beta, prior = group["lr"], group["beta"], group["prior_std"]
            for parameter in group["params"]:
                if parameter.grad is None:
                    continue
                force = parameter.grad + parameter / (prior**2 * beta)
                parameter.add_(force, alpha=-eta / 2)
                parameter.add_(_noise(parameter, self._generator), alpha=math.sqrt(eta / beta))
        return loss


class DualAveraging:
    """Adaptation of a step size to a mean acceptance probability.

    Args:
        step: First step.
        target: Mean acceptance aimed at.
    """

    def __init__(self, step: float, target: float) -> None:
        self.target = target
        self._centre = math.log(10 * step)
        self._error = 0.0
        self._average = math.log(step)
        self._count = 0

    def update(self, acceptance: float) -> float:
        """Return the step to try next after one with this mean acceptance."""
        self._count += 1
        weight = 1 / (self._count + 10)
        self._error = (1 - weight) * self._error + weight * (self.target - acceptance)
        log_step = self._centre - math.sqrt(self._count) / 0.05 * self._error
        forget = self._count**-0.75
        self._average = forget * log_step + (1 - forget) * self._average
        return math.exp(log_step)

    @property
    def step(self) -> float:
        """Averaged step, for use after the adaptation."""
        return math.exp(self._average)


def _metropolis(
    log_density: LogDensity,
    start: Tensor,
    propose: Proposal,
    step: float,
    steps: int,
    warm_up: int,
    keep_every: int,
    target: float,
    generator: torch.Generator | None,
    progress: Progress,
) -> Chains:
    _check(start, step, steps, keep_every)
    x = start.detach().clone()
    value, score = value_and_score(log_density, x)
    if not bool(torch.isfinite(value).all()):
        raise InputError("The log-density is not finite at a start; start inside the support.")
    adaptation = DualAveraging(step, target)
    gradients, accepted = len(x), 0.0
    states, values = [], []
    for number in range(warm_up + steps):
        moved, new_value, new_score, log_ratio, count = propose(x, value, score, step)
        gradients += count * len(x)
        probability = torch.nan_to_num(log_ratio, nan=-math.inf).clamp(max=0).exp()
        takes = torch.rand(len(x), generator=generator, dtype=x.dtype) < probability
        x = torch.where(takes[:, None], moved, x)
        value = torch.where(takes, new_value, value)
        score = torch.where(takes[:, None], new_score, score)
        mean = float(probability.mean())
        if number < warm_up:
            step = adaptation.update(mean)
            if number == warm_up - 1:
                step = adaptation.step
        else:
            accepted += mean
            if (number - warm_up + 1) % keep_every == 0:
                states.append(x)
                values.append(value)
        progress((number + 1) / (warm_up + steps), f"step {number + 1}")
    return Chains(torch.stack(states), torch.stack(values), accepted / steps, step, gradients)


def _check(start: Tensor, step: float, steps: int, keep_every: int) -> None:
    if start.ndim != 2:
        raise InputError(f"The start must have shape (chains, d), not {tuple(start.shape)}.")
    if not step > 0:
        raise InputError(f"The step must be positive, not {step}.")
    if steps < keep_every or keep_every < 1:
        raise InputError(f"steps={steps} with keep_every={keep_every} would keep no state; take more steps.")


def _still_finite(x: Tensor, value: Tensor, number: int, step: float) -> None:
    if not bool(torch.isfinite(x).all() and torch.isfinite(value).all()):
        raise InputError(f"The chain diverged at step {number + 1}; take a step smaller than {step:g}.")


def _noise(like: Tensor, generator: torch.Generator | None) -> Tensor:
    return torch.randn(like.shape, generator=generator, dtype=like.dtype, device=like.device)
