r"""Paths of the controlled diffusion, the first policy, and the weights of paths.

Time t runs from 0, where points are standard Gaussian, to T, where they shall follow the target rho. The noising that
is turned around is dY = -Y ds + sqrt(2) dW, so that with f(x) = x

.. math:: dX = (f(X) + \sigma u(X, t))\,dt + \sqrt2\,dW, \qquad \sigma u^* = -2 \nabla V

A policy is a function ``policy(x, n)`` that gives :math:`\sigma u` at the points of step n, shape (b, d).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from workingpapers.foundations.densities import Density
from workingpapers.foundations.errors import InputError
from workingpapers.foundations.progress import Progress, silent
from workingpapers.foundations.transport import effective_share, largest_share, log_mean_exp

Policy = Callable[[Tensor, int], Tensor]
Schedule = Literal["constant", "linear"]
LAST_SHARE = 0.1  # the last step over the first, in the linear schedule


@dataclass(frozen=True)
class WeightedSamples:
    """Ends of paths and the weights that correct them; no path is left out.

    Args:
        points: Shape (n, d). A path that left the finite numbers has weight zero.
        log_weights: Log of target over law of the path, up to the target's constant, float64, shape (n,).
    """

    points: Tensor
    log_weights: Tensor

    @property
    def log_partition(self) -> float:
        """Estimate of log Z: the log of the mean weight, which is unbiased for Z under any control."""
        return log_mean_exp(self.log_weights) if self.usable else -math.inf

    @property
    def evidence_bound(self) -> float:
        """Mean log-weight, below log Z on average."""
        return float(self.log_weights.mean())

    @property
    def effective_share(self) -> float:
        """Effective sample size as a share of n; 0 where every path was lost."""
        return effective_share(self.log_weights) if self.usable else 0.0

    @property
    def largest_share(self) -> float:
        """Share of the heaviest path; above one half nothing can be relied on."""
        return largest_share(self.log_weights) if self.usable else 1.0

    @property
    def lost(self) -> float:
        """Share of paths that left the finite numbers."""
        return float(torch.isneginf(self.log_weights).double().mean())

    @property
    def usable(self) -> bool:
        """Whether any path has a weight."""
        return bool(torch.isfinite(self.log_weights).any())

    def normalised(self) -> Tensor:
        """Return weights that sum to one, shape (n,)."""
        return torch.softmax(self.log_weights, dim=0)

    def resampled(self, count: int, generator: torch.Generator) -> Tensor:
        """Return points drawn by weight, shape (count, d), systematically: with the least noise."""
        steps = (torch.arange(count, dtype=torch.float64) + torch.rand(1, generator=generator)) / count
        index = torch.searchsorted(self.normalised().cumsum(0), steps).clamp(max=len(self.points) - 1)
        return self.points[index]


@dataclass(frozen=True)
class Step:
    """One step of a batch of paths: X, sigma u, xi and X', shape (b, d) each, and tau."""

    before: Tensor
    control: Tensor
    noise: Tensor
    after: Tensor
    tau: float


@dataclass(frozen=True)
class Paths:
    """Simulated paths of a policy.

    Args:
        points: Shape (N + 1, b, d).
        noise: Standard Gaussian increments, shape (N, b, d).
        controls: sigma u at each point but the last, shape (N, b, d).
    """

    points: Tensor
    noise: Tensor
    controls: Tensor

    def within(self, box: Tensor) -> tuple[Paths, Tensor]:
        """Return the paths that never leave a box, shape (2, d), and which they are, shape (b,)."""
        inside = ((self.points >= box[0]) & (self.points <= box[1])).all(dim=2).all(dim=0)
        return Paths(self.points[:, inside], self.noise[:, inside], self.controls[:, inside]), inside


def time_grid(horizon: float, steps: int, schedule: Schedule = "linear") -> Tensor:
    """Return times 0 = t_0 < ... < t_N = T, float64, shape (N + 1,).

    Args:
        horizon: T > 0.
        steps: N.
        schedule: ``constant`` steps, or ``linear``: shrinking to a tenth, since curvature grows towards the target.

    Raises:
        InputError: When there is no step or no time.
    """
    if steps < 1 or not horizon > 0:
        raise InputError(f"A time grid needs one step or more and a positive horizon, not {steps} and {horizon}.")
    sizes = torch.ones(steps) if schedule == "constant" else torch.linspace(1.0, LAST_SHARE, steps)
    ends = sizes.double().cumsum(0)
    return torch.cat([torch.zeros(1, dtype=torch.float64), horizon * ends / ends[-1]])


def annealed_langevin(target: Density, times: Tensor) -> Policy:
    r"""Return the first policy: Langevin towards prior and target, mixed by a = t / T.

    .. math:: dX = -\nabla\bigl[(1 - a)\,|X|^2 / 2 + a V_T\bigr] dt + \sqrt2\,dW

    Args:
        target: The target, V_T = -log_density.
        times: Times of the steps, shape (N + 1,).
    """

    def policy(x: Tensor, n: int) -> Tensor:
        a = float(times[n] / times[-1])
        drift = -(1 - a) * x + (a * target.score(x) if a else 0.0)
        return drift - x

    return policy


def walk(
    policy: Policy, times: Tensor, start: Tensor, generator: torch.Generator, progress: Progress = silent
) -> Iterator[Step]:
    """Yield the steps of Euler and Maruyama, X' = X + tau (f + sigma u) + sqrt(2 tau) xi, one after the other.

    Args:
        policy: sigma u.
        times: Shape (N + 1,).
        start: First points, shape (b, d).
        generator: Source of the noise.
        progress: Told of the share done.
    """
    x, steps = start, len(times) - 1
    for n, tau in enumerate(times.diff().tolist()):
        control = policy(x, n)
        noise = torch.randn(x.shape, generator=generator, dtype=torch.float64)
        after = x + tau * (x + control) + math.sqrt(2 * tau) * noise
        yield Step(x, control, noise, after, tau)
        x = after
        progress((n + 1) / steps, f"path step {n + 1} of {steps}")


def simulate(
    policy: Policy, times: Tensor, count: int, dim: int, generator: torch.Generator, progress: Progress = silent
) -> Paths:
    """Return whole paths from standard Gaussian points.

    Args:
        policy: sigma u.
        times: Shape (N + 1,).
        count: Number b of paths.
        dim: d.
        generator: Source of start and noise.
        progress: Told of the share done.
    """
    start = torch.randn(count, dim, generator=generator, dtype=torch.float64)
    steps = list(walk(policy, times, start, generator, progress))
    points = torch.stack([start, *(step.after for step in steps)])
    return Paths(points, torch.stack([s.noise for s in steps]), torch.stack([s.control for s in steps]))


def step_log_weight(before: Tensor, after: Tensor, noise: Tensor, tau: float | Tensor) -> Tensor:
    r"""Return what one step adds to the log-weight of a path, shape (...,).

    .. math:: \log N(X; X' - \tau f(X'), 2\tau) - \log N(X'; X + \tau (f + \sigma u), 2\tau)

    Args:
        before: X, shape (..., d).
        after: X', shape (..., d).
        noise: Standardised increment of the policy, shape (..., d).
        tau: Length of the step, a number or of a shape that broadcasts.
    """
    return (0.5 * noise**2 - (before - (1 - tau) * after) ** 2 / (4 * tau)).sum(-1)


def prior_log_density(x: Tensor) -> Tensor:
    """Return log N(x; 0, I), shape (b,)."""
    return -0.5 * (x**2).sum(-1) - 0.5 * x.shape[-1] * math.log(2 * math.pi)


def sample_weighted(
    policy: Policy, target: Density, times: Tensor, count: int, generator: torch.Generator, progress: Progress = silent
) -> WeightedSamples:
    r"""Run a policy and weigh its paths; none is left out.

    .. math:: \log w = \log \rho(X_N) - \log N(X_0; 0, I) + \sum_n (\text{step weights})

    Args:
        policy: sigma u.
        target: The target rho.
        times: Shape (N + 1,).
        count: Number of paths.
        generator: Source of start and noise.
        progress: Told of the share done.
    """
    x = torch.randn(count, target.dim, generator=generator, dtype=torch.float64)
    weights = -prior_log_density(x)
    for step in walk(policy, times, x, generator, progress):
        weights = weights + step_log_weight(step.before, step.after, step.noise, step.tau)
        x = step.after
    weights = weights + target.log_density(x).double()
    # A path without a finite end has left the support: the target's density there is zero.
    return WeightedSamples(x, torch.nan_to_num(weights, nan=-math.inf, neginf=-math.inf))
