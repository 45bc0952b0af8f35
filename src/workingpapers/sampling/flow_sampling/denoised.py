r"""The iterated denoising rival (iDEM): a score of the noised density, from energies of many perturbed points.

.. math:: \nabla \log p_t(x) \approx \nabla_x \log \tfrac1K \sum_i p(x + \sqrt{h_t}\, \epsilon_i), \qquad
          h_t = s_{\min}^2 \bigl((s_{\max}/s_{\min})^{2t} - 1\bigr)

Each point of the regression costs K gradients, and its target is biased for small K. Samples come from the reverse
diffusion of the variance-exploding process with the learned score; they are noised for the next regression.

References:
    T. Akhound-Sadegh et al., Iterated Denoising Energy Matching, ICML 2024, arXiv:2402.06121.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn

from workingpapers.foundations.densities import Counted, Density
from workingpapers.foundations.diffusion import DriftMLP
from workingpapers.foundations.errors import InputError
from workingpapers.foundations.langevin import LogDensity, value_and_score
from workingpapers.foundations.progress import Progress, silent
from workingpapers.sampling.flow_sampling.replay import ReplayBuffer, as_density


def noised_score(log_density: LogDensity, x: Tensor, variance: Tensor, noise: Tensor) -> Tensor:
    """Return the estimate of the score of the density convolved with N(0, h I), shape (b, d).

    Args:
        log_density: From shape (b * K, d) to (b * K,).
        x: Points, shape (b, d).
        variance: h, shape (b,).
        noise: Standard normal, shape (b, K, d).
    """
    points = x[:, None] + variance[:, None, None].sqrt() * noise
    value, gradient = value_and_score(log_density, points.reshape(-1, x.shape[1]))
    weight = torch.softmax(value.reshape(points.shape[:2]), dim=1)
    return (weight[..., None] * gradient.reshape(points.shape)).sum(1)


class DenoisedSampler:
    """A sampler trained by iterated denoising energy matching, in flat space.

    Args:
        target: The density, or any callable from shape (b, d) to (b,).
        dim: Length of a point, where `target` is a plain callable.
        smallest: s_min.
        largest: s_max; about the width of the whole density.
        perturbed: K, gradients for each point of the regression.
        clip: Longest score that is learned; longer ones are shortened.
        network: Score ``network(x, t)``, shape (b, d) and (b,) or () to (b, d); a perceptron by default.
        capacity: Samples and targets that the buffers hold.
        seed: Of weights and noise.

    Raises:
        InputError: When a number is out of range.
    """

    def __init__(
        self,
        target: Density | Callable[[Tensor], Tensor],
        *,
        dim: int | None = None,
        smallest: float = 0.05,
        largest: float = 4.0,
        perturbed: int = 16,
        clip: float = 30.0,
        network: nn.Module | None = None,
        capacity: int = 10_000,
        seed: int = 0,
    ) -> None:
        if not 0 < smallest < largest or perturbed < 1 or not clip > 0:
            raise InputError(
                f"smallest={smallest} must be positive and below largest={largest}, perturbed={perturbed} at least 1 "
                f"and clip={clip} positive."
            )
        self.target = Counted(as_density(target, dim, None))
        self.smallest, self.largest, self.perturbed, self.clip, self.seed = smallest, largest, perturbed, clip, seed
        self.generator = torch.Generator().manual_seed(seed)
        first = torch.Generator().manual_seed(seed)
        self.network = DriftMLP(self.target.dim, generator=first) if network is None else network
        self.samples = ReplayBuffer(capacity, self.target.dim, torch.float32)
        self.known = ReplayBuffer(capacity, self.target.dim + 1, torch.float32)  # (x_t, t) with its target

    @property
    def evaluations(self) -> int:
        """Gradients of the log-density so far: K a point of the regression."""
        return self.target.evaluations

    def variance(self, t: Tensor) -> Tensor:
        """Return h_t."""
        return self.smallest**2 * ((self.largest / self.smallest) ** (2 * t) - 1)

    def fit(
        self,
        rounds: int,
        *,
        points: int = 32,
        updates: int = 40,
        new_samples: int = 512,
        steps: int = 32,
        batch: int = 512,
        learning_rate: float = 1e-3,
        longest_step: float = 10.0,
        progress: Progress = silent,
    ) -> DenoisedSampler:
        """Draw, noise, estimate scores and regress on them, round after round.

        Targets are kept and used again, as gradients are by the other samplers here; the original forgets them.

        Args:
            rounds: Rounds.
            points: New points of the regression a round, each with K gradients.
            updates: Gradient steps of the network a round.
            new_samples: New samples a round; they cost no gradient.
            steps: Steps of a simulated path.
            batch: Targets of a gradient step.
            learning_rate: Adam's.
            longest_step: Largest norm of the network's gradient; longer ones are shortened.
            progress: Told of the round and the loss.

        Raises:
            InputError: When a number is out of range or the loss stops being finite.
        """
        if min(rounds, points, updates, new_samples, steps, batch) < 1:
            raise InputError("rounds, points, updates, new_samples, steps and batch must all be at least 1.")
        optimizer = torch.optim.Adam(self.network.parameters(), lr=learning_rate)
        for number in range(rounds):
            with torch.no_grad():
                new = self.sample(new_samples, steps=steps, generator=self.generator)
            self.samples.push(new, torch.zeros_like(new))
            self._estimate(points)
            total = 0.0
            for _ in range(updates):
                place, wanted = self.known.draw(batch, self.generator)
                loss = (self.network(place[:, :-1], place[:, -1]) - wanted[:, :-1]).square().sum(-1).mean()
                if not math.isfinite(float(loss.detach())):
                    raise InputError(f"The loss is not finite in round {number + 1}; lower clip or learning_rate.")
                optimizer.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(self.network.parameters(), longest_step)
                optimizer.step()
                total += float(loss.detach())
            progress((number + 1) / rounds, f"round {number + 1}, loss {total / updates:.3g}")
        return self

    def sample(self, count: int, *, steps: int = 32, generator: torch.Generator | None = None) -> Tensor:
        """Return samples, shape (count, d), of the reverse diffusion from N(0, h_1 I)."""
        source = torch.Generator().manual_seed(self.seed + 1) if generator is None else generator
        times = torch.linspace(1, 0, steps + 1)
        noise = self.variance(times)
        x = noise[0].sqrt() * torch.randn(count, self.target.dim, generator=source)
        with torch.no_grad():
            for k in range(steps):
                gap = noise[k] - noise[k + 1]
                x = x + gap * self.network(x, times[k])
                if k + 1 < steps:
                    x = x + gap.sqrt() * torch.randn(x.shape, generator=source)
        return x

    def _estimate(self, count: int) -> None:
        start, _ = self.samples.draw(count, self.generator)
        t = torch.rand(count, generator=self.generator)
        h = self.variance(t)
        x = start + h[:, None].sqrt() * torch.randn(start.shape, generator=self.generator)
        noise = torch.randn(count, self.perturbed, x.shape[1], generator=self.generator)
        score = noised_score(self.target.log_density, x, h, noise)
        score = score * (self.clip / score.norm(dim=-1, keepdim=True).clamp_min(self.clip))
        self.known.push(torch.cat([x, t[:, None]], 1), torch.cat([score, torch.zeros(count, 1)], 1))
