"""Flow Sampling: regression on the conditional drift of paths from fresh noise to the sampler's own samples."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from workingpapers.foundations.densities import Density
from workingpapers.foundations.diffusion import euler_maruyama, geodesic_euler_maruyama, uniform_times
from workingpapers.foundations.errors import InputError
from workingpapers.foundations.manifolds import Euclidean
from workingpapers.foundations.progress import Progress, silent
from workingpapers.sampling.flow_sampling.replay import ReplaySampler
from workingpapers.sampling.flow_sampling.targets import flow_sampling_target
from workingpapers.sampling.flow_sampling.weights import WeightedSamples, weigh

NEAR_ANTIPODE = math.pi - 0.05  # beyond, the target's variance on the sphere explodes
TRIES = 50


class FlowSampler(ReplaySampler):
    r"""A sampler trained by Flow Sampling.

    .. math:: \min_\theta E \bigl\| u_\theta(X_t, t) - (X_1 - X_0 + \gamma \nabla \log p(X_1)) \bigr\|^2,
              \qquad dX = u_\theta\,dt + \sqrt{2\gamma t}\,dW

    with X_1 and its gradient from the buffer, X_0 and t fresh, and gamma = strength / sqrt(mean |gradient|^2) over the
    buffer, set anew each round. Each new sample costs one gradient of the log-density.

    Args:
        target: The density, or any callable from shape (b, d) to (b,).
        strength: c in gamma; 1 to 4 work on the targets tried.
        **options: As :class:`~.replay.ReplaySampler`.

    Raises:
        InputError: When the log-density is not finite at noise points or has a wrong shape.

    References:
        A. Havens, B. Karrer, N. Shaul (2026), arXiv:2605.03984.
    """

    def __init__(self, target: Density | Callable[[Tensor], Tensor], *, strength: float = 1.0, **options: Any) -> None:
        super().__init__(target, **options)
        if not strength >= 0:
            raise InputError(f"strength must not be negative, and is {strength}.")
        self.strength = strength
        self.gamma = 0.0  # the first exploration has no gradients yet: its samples are the noise points
        probe = self._noise(16, torch.Generator().manual_seed(self.seed))
        with torch.no_grad():
            value = self.target.density.log_density(probe)
        if value.shape != (16,) or not bool(torch.isfinite(value).all()):
            raise InputError(
                f"The log-density of 16 noise points has shape {tuple(value.shape)} and values such as "
                f"{float(value.flatten()[0]):.3g}; it must give a finite number for each row."
            )

    def prepare_round(self) -> float:
        """Set gamma from the gradients in the buffer."""
        square = float(self.manifold.inner(self.buffer.gradients, self.buffer.gradients).mean())
        self.gamma = self.strength / math.sqrt(square + 1e-12)
        return self.gamma

    def regression(self, points: Tensor, gradients: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return path points, times and drifts for samples of the buffer and fresh noise."""
        noise = self._noise_for(points)
        t = torch.rand(len(points), generator=self.generator, dtype=self.dtype)
        x, drift = flow_sampling_target(noise, points, gradients, t, self.gamma, self.manifold)
        return x, t, drift

    def simulate(self, count: int, steps: int, generator: torch.Generator, last_noise: bool) -> Tensor:
        """Return samples by Euler-Maruyama, along geodesics on a curved space."""
        start = self._noise(count, generator)
        times = uniform_times(steps).to(self.dtype)
        options: dict[str, Any] = {
            "diffusion": lambda t: torch.sqrt(2 * self.gamma * t),
            "last_noise": last_noise,
            "generator": generator,
        }
        if type(self.manifold) is Euclidean:
            return euler_maruyama(self.drift, start, times, **options)
        return self.manifold.project(
            geodesic_euler_maruyama(self.drift, start, times, manifold=self.manifold, **options)
        )

    def weighted_sample(
        self,
        count: int,
        *,
        steps: int = 64,
        generator: torch.Generator | None = None,
        progress: Progress = silent,
    ) -> WeightedSamples:
        """Return samples with importance weights, for the partition function and for exact means; flat space alone.

        Args:
            count: Number of samples; each costs one evaluation of the log-density, not counted as a gradient.
            steps: Steps of the flow, two network evaluations with their divergence each.
            generator: Source of the noise.
            progress: Told of the share done.

        Raises:
            InputError: On a curved space or for particles.
        """
        if type(self.manifold) is not Euclidean:
            raise InputError(f"Weights are known in flat space alone, not on {self.manifold!r}.")
        source = torch.Generator().manual_seed(self.seed + 2) if generator is None else generator
        start = self._noise(count, source)
        return weigh(self.network, self.gamma, self.target.density.log_density, start, steps, progress)

    def _noise(self, count: int, generator: torch.Generator) -> Tensor:
        return self.manifold.random(count, generator, self.dtype)

    def _noise_for(self, points: Tensor) -> Tensor:
        """Return a noise point for each sample, on the sphere away from its antipode."""
        noise = self._noise(len(points), self.generator)
        if self.manifold.curvature <= 0:
            return noise
        for _ in range(TRIES):
            far = self.manifold.distance(noise, points) > NEAR_ANTIPODE
            if not bool(far.any()):
                return noise
            noise[far] = self._noise(int(far.sum()), self.generator)
        raise InputError("No noise point away from the antipode was found; is the sphere of dimension 1 or more?")

    def _own_state(self) -> dict[str, float]:
        return {"gamma": self.gamma}

    def _take_own_state(self, state: dict[str, float]) -> None:
        self.gamma = float(state["gamma"])
