r"""The baseline: the control as a small network, trained on the variance of the log-weights of whole paths.

.. math:: \sigma u_\theta(x, t) = \sigma u_0(x, t) + \mathrm{net}_\theta(x, t), \qquad
          L = \operatorname{Var}\bigl[\log w_\theta(X)\bigr]

over paths X of the current control, which are not differentiated through. u_0 is the annealed Langevin policy, as for
the tensor train, so that both start from the same knowledge; grid, target and weights are the same too.

References:
    L. Richter and J. Berner, Improved Sampling via Learned Diffusions, ICLR 2024, arXiv:2307.01198.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from workingpapers.foundations.densities import Density
from workingpapers.foundations.diffusion import DriftMLP
from workingpapers.foundations.errors import InputError
from workingpapers.foundations.progress import Progress, silent
from workingpapers.sampling.tensor_train_sampling.paths import (
    WeightedSamples,
    annealed_langevin,
    prior_log_density,
    sample_weighted,
    simulate,
    step_log_weight,
)


class NeuralControl:
    """A neural control of the same diffusion.

    Args:
        target: The density.
        times: Time grid, shape (N + 1,).
        hidden: Units a layer.
        seed: Seed of weights and paths.
    """

    def __init__(self, target: Density, times: Tensor, *, hidden: int = 64, seed: int = 0) -> None:
        self.target, self.times = target, times
        self._generator = torch.Generator().manual_seed(seed)
        self._network = DriftMLP(target.dim, hidden, 2, generator=self._generator)
        self._first = annealed_langevin(target, times)
        self.losses: list[float] = []

    def policy(self, x: Tensor, n: int) -> Tensor:
        """Return sigma u, shape (b, d), at the points of step n."""
        with torch.no_grad():
            learned: Tensor = self._network(x.float(), (self.times[n] / self.times[-1]).float()).double()
        return self._first(x, n) + learned

    def fit(
        self, updates: int, *, batch: int = 256, rate: float = 2e-3, clip: float = 1.0, progress: Progress = silent
    ) -> NeuralControl:
        """Take steps of Adam, their rate falling to zero by a cosine.

        Args:
            updates: Steps.
            batch: Paths a step.
            rate: First learning rate.
            clip: Most that the norm of the gradient may be.
            progress: Told of the share done and of the loss.

        Raises:
            InputError: When the loss stops being finite.
        """
        optimiser = torch.optim.Adam(self._network.parameters(), lr=rate)
        falling = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, updates)
        for update in range(updates):
            loss = self.log_weights(batch).var()
            level = float(loss.detach())
            if not math.isfinite(level):
                raise InputError(f"The loss is not finite at update {update + 1}; lower the learning rate.")
            optimiser.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            torch.nn.utils.clip_grad_norm_(self._network.parameters(), clip)
            optimiser.step()
            falling.step()
            self.losses.append(level)
            progress((update + 1) / updates, f"update {update + 1}: variance of log-weights {level:.3g}")
        return self

    def log_weights(self, batch: int) -> Tensor:
        """Return log-weights of fresh paths, shape (batch,), differentiable in the network with the paths fixed."""
        paths = simulate(self.policy, self.times, batch, self.target.dim, self._generator)
        steps, dim = len(self.times) - 1, self.target.dim
        before, after = paths.points[:-1], paths.points[1:]
        clock = (self.times[:-1] / self.times[-1]).float().repeat_interleave(batch)
        learned = self._network(before.reshape(-1, dim).float(), clock).double().reshape(steps, batch, dim)
        tau = self.times.diff()[:, None, None]
        # The increment that the network of now would have needed: the paths' own noise, less the change of the control.
        change = learned - learned.detach()
        noise = paths.noise - (tau / 2).sqrt() * change
        ends = after[-1]
        weights = step_log_weight(before, after, noise, tau).sum(0)
        weights = weights - prior_log_density(paths.points[0]) + self.target.log_density(ends).double()
        return weights

    def sample(self, count: int, *, seed: int = 1) -> WeightedSamples:
        """Return fresh samples with their weights, none left out."""
        return sample_weighted(self.policy, self.target, self.times, count, torch.Generator().manual_seed(seed))
