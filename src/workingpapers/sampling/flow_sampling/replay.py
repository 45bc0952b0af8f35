"""What samplers trained on their own samples share: exploration, a buffer of gradients, regression, checkpoints."""

from __future__ import annotations

import copy
import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from workingpapers.foundations.densities import Counted, Density
from workingpapers.foundations.diffusion import DriftMLP
from workingpapers.foundations.errors import InputError
from workingpapers.foundations.files import check_readable, whole_file
from workingpapers.foundations.langevin import value_and_score
from workingpapers.foundations.manifolds import Euclidean, Hyperboloid, Manifold
from workingpapers.foundations.progress import Progress, silent

Network = Callable[[Tensor, Tensor], Tensor]


@dataclass(frozen=True)
class Round:
    """One round of exploration and regression.

    Args:
        evaluations: Gradients of the log-density evaluated so far.
        mean_log_density: Mean log-density of the round's new samples.
        loss: Mean squared error of the regression, over the round's updates.
        gradient_size: Root mean square of the gradients in the buffer.
        gamma: Strength of the gradient in the target; 0 where the method has none.
    """

    evaluations: int
    mean_log_density: float
    loss: float
    gradient_size: float
    gamma: float


class ReplayBuffer:
    """The last samples with their gradients, first in, first out.

    Args:
        capacity: Most samples held.
        ambient: Length of a point.
        dtype: Of the points.
    """

    def __init__(self, capacity: int, ambient: int, dtype: torch.dtype) -> None:
        if capacity < 1:
            raise InputError(f"A buffer must hold a sample or more, not {capacity}.")
        self.capacity = capacity
        self.points = torch.empty(0, ambient, dtype=dtype)
        self.gradients = torch.empty(0, ambient, dtype=dtype)

    def __len__(self) -> int:
        return len(self.points)

    def push(self, points: Tensor, gradients: Tensor) -> None:
        """Add samples, shape (n, ambient), with their gradients; the oldest leave when it is full."""
        self.points = torch.cat([self.points, points])[-self.capacity :]
        self.gradients = torch.cat([self.gradients, gradients])[-self.capacity :]

    def draw(self, count: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Return `count` samples with replacement, and their gradients.

        Raises:
            RuntimeError: When the buffer is empty.
        """
        if not len(self):
            raise RuntimeError("The buffer is empty; explore before drawing.")
        rows = torch.randint(len(self), (count,), generator=generator)
        return self.points[rows], self.gradients[rows]


class ReplaySampler(ABC):
    """A sampler that explores with its current drift and regresses on what it found.

    Args:
        target: The density, or any callable from shape (b, d) to (b,).
        dim: Length of a point, where `target` is a plain callable.
        network: Drift ``network(x, t)``, shape (b, d) and () or (b,) to (b, d); a perceptron by default.
        manifold: Where points live; flat space by default.
        clip: Longest gradient of the log-density; longer ones are shortened. None for no limit.
        capacity: Samples that the buffer holds.
        seed: Of weights, noise and batches.
        dtype: Of points and weights.
    """

    def __init__(
        self,
        target: Density | Callable[[Tensor], Tensor],
        *,
        dim: int | None = None,
        network: nn.Module | None = None,
        manifold: Manifold | None = None,
        clip: float | None = None,
        capacity: int = 10_000,
        seed: int = 0,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        self.target = Counted(as_density(target, dim, manifold))
        self.manifold = Euclidean(self.target.dim) if manifold is None else manifold
        if self.manifold.ambient != self.target.dim:
            raise InputError(
                f"The target has {self.target.dim} coordinates and {self.manifold!r} {self.manifold.ambient}."
            )
        if clip is not None and not clip > 0:
            raise InputError(f"clip must be positive, and is {clip}.")
        self.clip, self.seed, self.dtype = clip, seed, dtype
        self.generator = torch.Generator().manual_seed(seed)
        first = torch.Generator().manual_seed(seed)
        self.network = (DriftMLP(self.target.dim, generator=first) if network is None else network).to(dtype)
        self.buffer = ReplayBuffer(capacity, self.target.dim, dtype)
        self.history: list[Round] = []
        self._optimizer: torch.optim.Optimizer | None = None

    @property
    def evaluations(self) -> int:
        """Gradients of the log-density evaluated so far: one a new sample, however often it is used."""
        return self.target.evaluations

    @abstractmethod
    def regression(self, points: Tensor, gradients: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return where the network is evaluated (points and times) and what it should say there."""

    @abstractmethod
    def simulate(self, count: int, steps: int, generator: torch.Generator, last_noise: bool) -> Tensor:
        """Return samples of the current drift, shape (count, d)."""

    def prepare_round(self) -> float:
        """Set what a round's regression needs from the buffer, and return the strength of the gradient."""
        return 0.0

    def drift(self, x: Tensor, t: Tensor) -> Tensor:
        """Return the network's output, tangent to the manifold, shape (b, d)."""
        if not isinstance(self.manifold, Hyperboloid):
            return self.manifold.to_tangent(x, self._output(x, t))
        # Coordinates of far points are exponentially large: the network sees and gives tangent vectors at the origin.
        origin = self.manifold.origin(x.dtype).expand_as(x)
        out = self._output(self.manifold.log(origin, x), t)
        at_origin = torch.cat([torch.zeros_like(out[:, :1]), out[:, 1:]], dim=-1)
        return self.manifold.transport(origin, x, at_origin)

    def _output(self, x: Tensor, t: Tensor) -> Tensor:
        out: Tensor = self.network(x, t)
        if out.shape != x.shape:
            raise InputError(f"The network returned shape {tuple(out.shape)} for points of {tuple(x.shape)}.")
        return out

    def fit(
        self,
        rounds: int = 60,
        *,
        updates: int = 40,
        new_samples: int = 512,
        steps: int = 32,
        batch: int = 512,
        learning_rate: float = 1e-3,
        longest_step: float = 10.0,
        checkpoint: Path | None = None,
        progress: Progress = silent,
    ) -> ReplaySampler:
        """Explore and regress until `rounds` rounds are done in all; a loaded checkpoint counts its own.

        Args:
            rounds: Rounds in all.
            updates: Gradient steps of the network a round.
            new_samples: New samples a round, each with one gradient of the log-density.
            steps: Steps of a simulated path (network evaluations a sample).
            batch: Samples of a gradient step.
            learning_rate: Adam's.
            longest_step: Largest norm of the network's gradient; longer ones are shortened.
            checkpoint: File that holds the state after every tenth round.
            progress: Told of the round, the loss and the mean log-density.

        Returns:
            The sampler.

        Raises:
            InputError: When a number is out of range, or a loss, sample or gradient stops being finite.
        """
        for name, number in (("rounds", rounds), ("updates", updates), ("new_samples", new_samples), ("steps", steps)):
            if number < 1:
                raise InputError(f"{name} must be at least 1, and is {number}.")
        if self._optimizer is None:
            self._optimizer = torch.optim.Adam(self.network.parameters(), lr=learning_rate)
        for number in range(len(self.history), rounds):
            value = self._explore(new_samples, steps, number)
            gamma = self.prepare_round()
            loss = self._regress(updates, batch, longest_step, number)
            size = float(self.manifold.norm(self.buffer.gradients).square().mean().sqrt())
            self.history.append(Round(self.evaluations, value, loss, size, gamma))
            if checkpoint is not None and ((number + 1) % 10 == 0 or number + 1 == rounds):
                self.save(checkpoint)
            progress((number + 1) / rounds, f"round {number + 1}, loss {loss:.3g}, mean log-density {value:.3g}")
        return self

    def sample(
        self, count: int, *, steps: int = 64, last_noise: bool = False, generator: torch.Generator | None = None
    ) -> Tensor:
        """Return samples, shape (count, d).

        Args:
            count: Number of samples.
            steps: Steps of a path.
            last_noise: Whether the last step adds its noise, as in training; without, samples are a little sharper.
            generator: Source of the noise.
        """
        if count < 1 or steps < 1:
            raise InputError(f"count={count} and steps={steps} must be at least 1.")
        source = torch.Generator().manual_seed(self.seed + 1) if generator is None else generator
        return self.simulate(count, steps, source, last_noise)

    def save(self, path: Path) -> Path:
        """Write the whole state of training to a file, whole or not at all."""
        state = {
            "network": self.network.state_dict(),
            "optimizer": None if self._optimizer is None else self._optimizer.state_dict(),
            "buffer": [self.buffer.points, self.buffer.gradients],
            "generator": self.generator.get_state(),
            "history": [asdict(one) for one in self.history],
            "evaluations": self.evaluations,
            "own": self._own_state(),
        }
        with whole_file(path, "wb") as stream:
            torch.save(state, stream)
        return path

    def load(self, path: Path, learning_rate: float = 1e-3) -> ReplaySampler:
        """Take up the state that :meth:`save` wrote; the sampler must have been made in the same way.

        Raises:
            InputError: When the file is none of this sampler's.
        """
        try:
            state: dict[str, Any] = torch.load(check_readable(path), weights_only=True)
            self.network.load_state_dict(state["network"])
            self._optimizer = torch.optim.Adam(self.network.parameters(), lr=learning_rate)
            if state["optimizer"] is not None:
                self._optimizer.load_state_dict(state["optimizer"])
            self.buffer.points, self.buffer.gradients = state["buffer"]
            self.generator.set_state(state["generator"])
            self.history = [Round(**one) for one in state["history"]]
            self.target.evaluations = int(state["evaluations"])
            self._take_own_state(state["own"])
        except InputError:
            raise
        except Exception as error:
            raise InputError(
                f"{str(path)!r} is no checkpoint of this sampler ({type(error).__name__}); name another or remove it."
            ) from None
        return self

    def _own_state(self) -> dict[str, float]:
        return {}

    def _take_own_state(self, state: dict[str, float]) -> None:
        if state:
            raise InputError("This is the checkpoint of another method's sampler.")

    def _explore(self, count: int, steps: int, number: int) -> float:
        points = self.simulate(count, steps, self.generator, True)
        value, derivative = value_and_score(self.target.log_density, points)
        gradient = self.manifold.gradient(points, derivative)
        if not bool(torch.isfinite(value).all() and torch.isfinite(gradient).all()):
            raise InputError(
                f"The log-density or its gradient is not finite at a sample of round {number + 1}; bound it, or start "
                "from noise inside its support."
            )
        if self.clip is not None:
            length = self.manifold.norm(gradient)[:, None]
            gradient = gradient * (self.clip / length.clamp_min(self.clip))
        self.buffer.push(points, gradient)
        return float(value.mean())

    def _regress(self, updates: int, batch: int, longest_step: float, number: int) -> float:
        assert self._optimizer is not None
        total = 0.0
        for _ in range(updates):
            x, t, wanted = self.regression(*self.buffer.draw(batch, self.generator))
            error = self.drift(x, t) - wanted
            loss = self.manifold.inner(error, error).mean()
            value = float(loss.detach())
            if not math.isfinite(value):
                raise InputError(
                    f"The loss is not finite in round {number + 1}; clip gradients (clip=30) or lower learning_rate."
                )
            self._optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            nn.utils.clip_grad_norm_(self.network.parameters(), longest_step)
            self._optimizer.step()
            total += value
        return total / updates


def as_density(target: Density | Callable[[Tensor], Tensor], dim: int | None, manifold: Manifold | None) -> Density:
    """Return a density from a density or from a callable with its dimension.

    Raises:
        InputError: When a plain callable comes without a dimension.
    """
    from workingpapers.foundations.densities import FromCallable

    if isinstance(target, Density):
        return copy.copy(target)
    if dim is None and manifold is not None:
        dim = manifold.ambient
    if dim is None:
        raise InputError("A callable does not tell its dimension; give dim.")
    return FromCallable(target, dim)
