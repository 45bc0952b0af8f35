r"""Adjoint Sampling, the rival with the same economy: a control of Brownian motion, regressed on replayed gradients.

.. math:: dX = s_t^2\, u_\theta\,dt + s_t\,dW,\; X_0 = 0, \qquad
          u_\theta(X_t, t) \to \nabla \log p(X_1) + X_1 / S^2,\quad S^2 = \int_0^1 s_t^2\,dt

where X_t is drawn from the Brownian bridge to X_1.

References:
    A. Havens et al., Adjoint Sampling: Highly Scalable Diffusion Samplers via Adjoint Matching, ICML 2025.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Literal

import torch
from torch import Tensor

from workingpapers.foundations.densities import Density
from workingpapers.foundations.diffusion import euler_maruyama, uniform_times
from workingpapers.foundations.errors import InputError
from workingpapers.sampling.flow_sampling.replay import ReplaySampler


def adjoint_sampling_target(data: Tensor, gradient: Tensor, variance: float) -> Tensor:
    """Return gradient + X_1 / S^2, shape (b, d): what the control is regressed on.

    Args:
        data: X_1, shape (b, d).
        gradient: Gradient of the log-density there, shape (b, d).
        variance: S^2 of the uncontrolled process at time 1.
    """
    return gradient + data / variance


class AdjointSampler(ReplaySampler):
    """A sampler trained by Adjoint Sampling, in flat space.

    Args:
        target: The density, or any callable from shape (b, d) to (b,).
        largest: Noise s_t, or its largest value with the geometric schedule.
        smallest: Smallest value with the geometric schedule.
        schedule: "constant", or "geometric" with s_t = s_min (s_max / s_min)^(1 - t) sqrt(2 log(s_max / s_min)).
        **options: As :class:`~.replay.ReplaySampler`.

    Raises:
        InputError: When a scale is out of range or the space is curved.
    """

    def __init__(
        self,
        target: Density | Callable[[Tensor], Tensor],
        *,
        largest: float = 4.0,
        smallest: float = 0.01,
        schedule: Literal["constant", "geometric"] = "constant",
        **options: Any,
    ) -> None:
        super().__init__(target, **options)
        if self.manifold.curvature != 0:
            raise InputError(f"Adjoint Sampling is built for flat space, not for {self.manifold!r}.")
        if not 0 < smallest < largest:
            raise InputError(f"The scales need 0 < smallest < largest, not {smallest} and {largest}.")
        self.largest, self.smallest, self.schedule = largest, smallest, schedule

    def scale(self, t: Tensor) -> Tensor:
        """Return s_t."""
        if self.schedule == "constant":
            return torch.full_like(t, self.largest)
        ratio = self.largest / self.smallest
        return self.smallest * ratio ** (1 - t) * math.sqrt(2 * math.log(ratio))

    def variance(self, t: Tensor) -> Tensor:
        """Return the variance of the uncontrolled process at t, the integral of s^2."""
        if self.schedule == "constant":
            return self.largest**2 * t
        ratio = self.largest / self.smallest
        return self.largest**2 * (1 - ratio ** (-2 * t))

    def regression(self, points: Tensor, gradients: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return bridge points, times and targets."""
        t = torch.rand(len(points), generator=self.generator, dtype=self.dtype)
        whole = self.variance(torch.ones(1, dtype=self.dtype))
        share = (self.variance(t) / whole)[:, None]
        spread = (self.variance(t)[:, None] * (1 - share)).clamp_min(0).sqrt()
        noise = torch.randn(points.shape, generator=self.generator, dtype=self.dtype)
        x = share * points + spread * self.manifold.to_tangent(points, noise)
        return x, t, adjoint_sampling_target(points, gradients, float(whole))

    def simulate(self, count: int, steps: int, generator: torch.Generator, last_noise: bool) -> Tensor:
        """Return samples of the controlled process from the origin."""
        start = torch.zeros(count, self.target.dim, dtype=self.dtype)
        found = euler_maruyama(
            lambda x, t: self.scale(t) ** 2 * self.drift(x, t),
            start,
            uniform_times(steps).to(self.dtype),
            diffusion=self.scale,
            last_noise=last_noise,
            generator=generator,
        )
        return self.manifold.project(found)
