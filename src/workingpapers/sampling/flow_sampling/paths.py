r"""Rivals that are trained on whole paths: the Path Integral Sampler and the Denoising Diffusion Sampler.

A reference chain :math:`x_{k+1} = m_k(x_k) + s_k \epsilon_k` ends in N(0, S^2 I). A control shifts it by
:math:`s_k c_k`, and the density of the controlled path over that of the wanted one is, up to the partition function,

.. math:: -\log w = \sum_k \bigl(c_k \cdot \epsilon_k + \tfrac12 |c_k|^2\bigr) + \log N(x_K; 0, S^2 I) - \log p(x_K).

Its mean is the Kullback-Leibler divergence, by which the control is trained through the path; its variance needs no
gradient of the path (log-variance loss). Both chains are exact at any number of steps, so that w is an importance
weight whose mean is the partition function.

References:
    Q. Zhang, Y. Chen, Path Integral Sampler, ICLR 2022, arXiv:2111.15141 (reference: Brownian motion from 0).
    F. Vargas, W. Grathwohl, A. Doucet, Denoising Diffusion Samplers, ICLR 2023, arXiv:2302.13834 (Ornstein-Uhlenbeck).
    L. Richter, J. Berner, Improved sampling via learned diffusions, ICLR 2024, arXiv:2307.01198 (log-variance loss).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Literal

import torch
from torch import Tensor, nn

from workingpapers.foundations.densities import Counted, Density
from workingpapers.foundations.diffusion import DriftMLP
from workingpapers.foundations.errors import InputError
from workingpapers.foundations.langevin import value_and_score
from workingpapers.foundations.progress import Progress, silent
from workingpapers.sampling.flow_sampling.replay import as_density

Reference = Literal["brownian", "ornstein-uhlenbeck"]
FORGETTING = 3.0  # total time of the Ornstein-Uhlenbeck chain: it keeps e^-3 of its start


class PathSampler:
    """A sampler trained by the divergence between its paths and the wanted ones, in flat space.

    Args:
        target: The density, or any callable from shape (b, d) to (b,).
        dim: Length of a point, where `target` is a plain callable.
        reference: "brownian" (PIS) or "ornstein-uhlenbeck" (DDS).
        scale: S, standard deviation of the reference's end.
        schedule: How the noise is spread over the steps: "constant", or "cosine", which ends with little.
        loss: "kl", or "log-variance".
        network: ``network(x, t)``, shape (b, d) and () to (b, d); a perceptron by default.
        clip: Longest gradient of the log-density in the "kl" loss; longer ones are shortened. None for no limit.
        seed: Of weights and noise.

    Raises:
        InputError: When a name or a scale is out of range.
    """

    def __init__(
        self,
        target: Density | Callable[[Tensor], Tensor],
        *,
        dim: int | None = None,
        reference: Reference = "brownian",
        scale: float = 1.0,
        schedule: Literal["constant", "cosine"] = "cosine",
        loss: Literal["kl", "log-variance"] = "kl",
        network: nn.Module | None = None,
        clip: float | None = None,
        seed: int = 0,
    ) -> None:
        if reference not in ("brownian", "ornstein-uhlenbeck") or loss not in ("kl", "log-variance"):
            raise InputError(
                f"reference={reference!r} and loss={loss!r} must be 'brownian' or 'ornstein-uhlenbeck', and 'kl' or "
                "'log-variance'."
            )
        if schedule not in ("constant", "cosine"):
            raise InputError(f"schedule is {schedule!r}; choose 'constant' or 'cosine'.")
        if not scale > 0 or (clip is not None and not clip > 0):
            raise InputError(f"scale={scale} and clip={clip} must be positive.")
        self.target = Counted(as_density(target, dim, None))
        self.reference, self.scale, self.schedule = reference, scale, schedule
        self.loss, self.clip, self.seed = loss, clip, seed
        self.generator = torch.Generator().manual_seed(seed)
        first = torch.Generator().manual_seed(seed)
        self.network = DriftMLP(self.target.dim, generator=first) if network is None else network
        self.losses: list[float] = []

    @property
    def evaluations(self) -> int:
        """Values or gradients of the log-density so far: one a path."""
        return self.target.evaluations

    def fit(
        self,
        updates: int,
        *,
        batch: int = 128,
        steps: int = 32,
        learning_rate: float = 1e-3,
        longest_step: float = 10.0,
        progress: Progress = silent,
    ) -> PathSampler:
        """Train the control, one batch of new paths an update.

        Args:
            updates: Gradient steps.
            batch: Paths a step, each with one evaluation of the log-density.
            steps: Steps of a path.
            learning_rate: Adam's.
            longest_step: Largest norm of the network's gradient; longer ones are shortened.
            progress: Told of the update and the loss.

        Raises:
            InputError: When a number is out of range or the loss stops being finite.
        """
        if updates < 1 or batch < 2 or steps < 1:
            raise InputError(f"updates={updates} and steps={steps} must be at least 1, and batch={batch} at least 2.")
        optimizer = torch.optim.Adam(self.network.parameters(), lr=learning_rate)
        for number in range(updates):
            loss = self._loss(batch, steps)
            value = float(loss.detach())
            if not math.isfinite(value):
                raise InputError(f"The loss is not finite at update {number + 1}; set clip or lower learning_rate.")
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            nn.utils.clip_grad_norm_(self.network.parameters(), longest_step)
            optimizer.step()
            self.losses.append(value)
            progress((number + 1) / updates, f"update {number + 1}, loss {value:.3g}")
        return self

    def sample(
        self, count: int, *, steps: int = 32, last_noise: bool = False, generator: torch.Generator | None = None
    ) -> Tensor:
        """Return samples, shape (count, d), by paths of `steps` steps; the last adds its noise where it is asked to."""
        source = torch.Generator().manual_seed(self.seed + 1) if generator is None else generator
        with torch.no_grad():
            return self._path(count, steps, source, follow=False, last_noise=last_noise)[0]

    def log_weights(
        self, count: int, *, steps: int = 32, generator: torch.Generator | None = None
    ) -> tuple[Tensor, Tensor]:
        """Return samples, shape (count, d), with log w, shape (count,); the mean of w is the partition function."""
        source = torch.Generator().manual_seed(self.seed + 2) if generator is None else generator
        with torch.no_grad():
            x, cost = self._path(count, steps, source, follow=False)
            return x, self.target.density.log_density(x) - cost - self._end(x)

    def _loss(self, batch: int, steps: int) -> Tensor:
        x, cost = self._path(batch, steps, self.generator, follow=self.loss == "kl")
        if self.loss == "log-variance":
            with torch.no_grad():
                rest = self._end(x) - self.target.log_density(x)
            return (cost + rest).var()
        value, gradient = value_and_score(self.target.log_density, x)
        if self.clip is not None:
            gradient = gradient * (self.clip / gradient.norm(dim=-1, keepdim=True).clamp_min(self.clip))
        # The value, with the (clipped) gradient for its slope.
        log_density = value + (gradient * (x - x.detach())).sum(-1)
        return (cost + self._end(x) - log_density).mean()

    def _path(
        self, count: int, steps: int, generator: torch.Generator, *, follow: bool, last_noise: bool = True
    ) -> tuple[Tensor, Tensor]:
        """Return ends and the sum over steps; gradients pass through the path where `follow` says so.

        Where they do, c . noise has mean zero given the past and is left out of the sum.
        """
        x = torch.zeros(count, self.target.dim)
        if self.reference != "brownian":
            x = self.scale * torch.randn(x.shape, generator=generator)
        cost = torch.zeros(count)
        for k, (keep, spread, gain) in enumerate(self._steps(steps)):
            out: Tensor = self.network(x, torch.tensor(k / steps))
            control = gain * out
            noise = torch.randn(x.shape, generator=generator)
            if follow:
                cost = cost + 0.5 * control.square().sum(-1)
            else:
                # Along a path that is held, the noise of a changed control is c_then + noise - c.
                held = control.detach()
                cost = cost + (control * (held + noise)).sum(-1) - 0.5 * control.square().sum(-1)
                control = held
            x = keep * x + spread * (control + noise if last_noise or k + 1 < steps else control)
        return x, cost

    def _steps(self, steps: int) -> Iterator[tuple[float, float, float]]:
        """Yield each step's share of x kept, its noise, and what the network's output is multiplied by."""
        shares = torch.ones(steps, dtype=torch.float64)
        if self.schedule == "cosine":
            shares = torch.cos(0.5 * math.pi * (torch.arange(steps, dtype=torch.float64) + 0.5) / steps).square()
        for share in (shares / shares.sum()).tolist():
            if self.reference == "brownian":
                spread = self.scale * math.sqrt(share)
                yield 1.0, spread, spread
            else:
                keep = math.exp(-FORGETTING * share)
                lost = 1 - keep**2
                yield keep, self.scale * math.sqrt(lost), 2 * self.scale * (1 - keep) / math.sqrt(lost)

    def _end(self, x: Tensor) -> Tensor:
        return -0.5 * (x / self.scale).square().sum(-1) - x.shape[-1] * math.log(self.scale * math.sqrt(2 * math.pi))
