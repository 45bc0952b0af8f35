"""What a target density offers, a wrapper for a user's function, and a count of evaluations."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

import torch
from torch import Tensor

from workingpapers.foundations.errors import InputError
from workingpapers.foundations.langevin import value_and_score


class Density(ABC):
    """A density known up to a constant: p(x) = exp(log_density(x)) / Z.

    Attributes:
        dim: Length d of a point.
        log_partition: log Z where it is known, else None.
    """

    dim: int
    log_partition: float | None = None

    @abstractmethod
    def log_density(self, x: Tensor) -> Tensor:
        """Return log p up to a constant, shape (b,), at `x`, shape (b, d)."""

    def __call__(self, x: Tensor) -> Tensor:
        """Return :meth:`log_density`: a density is a callable wherever one is asked for."""
        return self.log_density(x)

    def score(self, x: Tensor) -> Tensor:
        """Return the gradient of the log-density, shape (b, d); by autograd where there is no closed form."""
        return value_and_score(self.log_density, x)[1]

    def sample(self, n: int, generator: torch.Generator | None = None, dtype: torch.dtype = torch.float64) -> Tensor:
        """Return `n` points of the density, exact unless the class says reference, shape (n, d).

        Raises:
            InputError: When the density has no sampler.
        """
        raise InputError(
            f"{type(self).__name__} has no exact sampler; compare with long chains (foundations.langevin)."
        )


class FromCallable(Density):
    """A user's log-density.

    Args:
        function: Batched callable from shape (b, d) to (b,).
        dim: d.
        log_partition: log Z, where it is known.
    """

    def __init__(self, function: Callable[[Tensor], Tensor], dim: int, log_partition: float | None = None) -> None:
        if dim < 1:
            raise InputError(f"A density needs at least one dimension, not {dim}.")
        self._function = function
        self.dim = dim
        self.log_partition = log_partition

    def log_density(self, x: Tensor) -> Tensor:
        """Return the function's value."""
        return self._function(x)


class Counted(Density):
    """A density that counts the points at which it was evaluated.

    A value with its gradient at one point is one evaluation, as is a value alone.

    Args:
        density: The density to count.
    """

    def __init__(self, density: Density) -> None:
        self.density = density
        self.dim = density.dim
        self.log_partition = density.log_partition
        self.evaluations = 0

    def log_density(self, x: Tensor) -> Tensor:
        """Return the density's value and count the points."""
        self.evaluations += len(x)
        return self.density.log_density(x)

    def score(self, x: Tensor) -> Tensor:
        """Return the density's score and count the points."""
        self.evaluations += len(x)
        return self.density.score(x)

    def sample(self, n: int, generator: torch.Generator | None = None, dtype: torch.dtype = torch.float64) -> Tensor:
        """Return samples of the density; they are not counted."""
        return self.density.sample(n, generator, dtype)
