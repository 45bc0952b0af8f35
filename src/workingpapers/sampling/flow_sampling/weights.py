r"""Importance weights: the learned diffusion has a flow with the same laws, whose density can be followed.

If u is the drift of a diffusion with the laws p_t of the linear path and noise :math:`g_t^2 = 2\gamma t`, then its
score and its flow are

.. math:: s = \frac{t u - x}{1 - t + \gamma t^2}, \qquad v = u - \gamma t\, s

For a learned u the flow of v is still a flow, with
:math:`\log q(x_1) = \log p_0(x_0) - \int_0^1 \nabla \cdot v\,dt`, so weights p / q are right whatever the network has
learned, up to the error of integration.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

from workingpapers.foundations.diffusion import uniform_times
from workingpapers.foundations.errors import InputError
from workingpapers.foundations.progress import Progress, silent
from workingpapers.foundations.transport import effective_share, largest_share, log_mean_exp


@dataclass(frozen=True)
class WeightedSamples:
    """Samples of the flow with their importance weights.

    Args:
        points: Shape (n, d).
        log_weights: log p - log q, up to the target's constant, float64, shape (n,).
    """

    points: Tensor
    log_weights: Tensor

    @property
    def log_partition(self) -> float:
        """Estimate of log Z: the log of the mean weight."""
        return log_mean_exp(self.log_weights)

    @property
    def evidence_bound(self) -> float:
        """Mean log-weight, below log Z on average."""
        return float(self.log_weights.mean())

    @property
    def effective_share(self) -> float:
        """Effective sample size as a share of n; near 1 when samples are the law's."""
        return effective_share(self.log_weights)

    @property
    def largest_share(self) -> float:
        """Share of the heaviest sample; above one half nothing can be relied on."""
        return largest_share(self.log_weights)


def flow_velocity(drift: Tensor, x: Tensor, t: Tensor, gamma: float) -> Tensor:
    """Return v = u - gamma t (t u - x) / (1 - t + gamma t^2), shape (b, d).

    Args:
        drift: u at x and t, shape (b, d).
        x: Points, shape (b, d).
        t: Time, shape ().
        gamma: At least 0; where it is 0, the drift is the velocity.
    """
    if gamma == 0:
        return drift
    return drift - gamma * t * (t * drift - x) / (1 - t + gamma * t**2)


def weigh(
    network: Callable[[Tensor, Tensor], Tensor],
    gamma: float,
    log_density: Callable[[Tensor], Tensor],
    start: Tensor,
    steps: int,
    progress: Progress = silent,
) -> WeightedSamples:
    """Follow the flow from standard Gaussian points with its exact divergence, by Heun's rule.

    Args:
        network: u(x, t).
        gamma: Noise strength that the network was trained for.
        log_density: Log-density up to a constant.
        start: Standard Gaussian points, shape (n, d).
        steps: Steps.
        progress: Told of the share done.

    Raises:
        InputError: When the flow leaves the finite numbers.
    """
    times = uniform_times(steps).to(start)
    x = start
    log_q = -0.5 * (start.double() ** 2).sum(-1) - 0.5 * start.shape[1] * math.log(2 * math.pi)
    for number, (t, after) in enumerate(pairwise(times)):
        h = after - t
        first, spread = _velocity_and_divergence(network, x, t, gamma)
        second, spread_after = _velocity_and_divergence(network, x + h * first, after, gamma)
        x = x + h * (first + second) / 2
        log_q = log_q - float(h) * (spread + spread_after).double() / 2
        if not bool(torch.isfinite(x).all()):
            raise InputError(f"The flow left the finite numbers at step {number + 1}; train longer or take more steps.")
        progress((number + 1) / steps, f"flow step {number + 1}")
    with torch.no_grad():
        return WeightedSamples(x, log_density(x).double() - log_q)


def _velocity_and_divergence(
    network: Callable[[Tensor, Tensor], Tensor], x: Tensor, t: Tensor, gamma: float
) -> tuple[Tensor, Tensor]:
    def field(points: Tensor) -> Tensor:
        return flow_velocity(network(points, t), points, t, gamma)

    dim = x.shape[1]
    trace = torch.zeros(len(x), dtype=x.dtype)
    value: Any = None
    derivative: Any = torch.func.jvp
    for axis in range(dim):
        direction = torch.zeros_like(x)
        direction[:, axis] = 1
        with torch.no_grad():
            value, change = derivative(field, (x,), (direction,))
        trace = trace + change[:, axis]
    return value, trace
