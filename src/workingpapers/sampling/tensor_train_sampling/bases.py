r"""Bases of functions of one coordinate, orthonormal in the Sobolev space H2 of an interval.

.. math:: \langle p, q \rangle = \int_a^b p q + p' q' + p'' q''\,dx

so that the norm of a train's coefficients is the H2 norm of the function, and a ridge on them is one on curvature.
Beyond its interval each function goes on linearly: a polynomial that is followed further explodes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from math import pi
from typing import Self

import numpy as np
import torch
from torch import Tensor

from workingpapers.foundations.errors import InputError

Jet = tuple[Tensor, Tensor, Tensor]
"""Values, first and second derivatives of the functions of a basis, shape (n, size) each."""


@dataclass(frozen=True)
class Basis(ABC):
    """Functions of one coordinate on an interval, orthonormal in H2; the constant is in their span.

    Args:
        low: Left end of the interval.
        high: Right end.
        size: Number of functions.

    Raises:
        InputError: When there is no function or the interval has no width.
    """

    low: float
    high: float
    size: int

    def __post_init__(self) -> None:
        if self.size < 1:
            raise InputError(f"A basis needs one function or more, not {self.size}.")
        if not self.high > self.low or not np.isfinite([self.low, self.high]).all():
            raise InputError(f"The interval from {self.low:g} to {self.high:g} has no width; give a larger one.")

    @abstractmethod
    def raw(self, s: Tensor) -> Jet:
        """Return the functions before orthonormalisation, and derivatives in s, for s in [-1, 1], shape (n,)."""

    def moved(self, low: float, high: float) -> Self:
        """Return the same kind and number of functions on another interval."""
        return replace(self, low=low, high=high)

    @cached_property
    def transform(self) -> Tensor:
        """Matrix, shape (size, size), from raw functions to orthonormal ones: by Gram-Schmidt, twice for accuracy."""
        nodes, weights = self.quadrature
        raw = self._scaled(nodes)
        found = torch.diag(1 / _gram(raw, raw, weights).diagonal().sqrt())
        for _ in range(2):
            jet = [part @ found for part in raw]
            factor = torch.linalg.cholesky(_gram(jet, jet, weights))
            found = torch.linalg.solve_triangular(factor.T, found, upper=True, left=False)
        return found

    @property
    def quadrature(self) -> tuple[Tensor, Tensor]:
        """Gauss-Legendre nodes in the interval and their weights."""
        nodes, weights = _gauss(max(100, 6 * self.size))
        half = (self.high - self.low) / 2
        return self.low + half * (nodes + 1), half * weights

    @cached_property
    def constant(self) -> Tensor:
        """Coefficients, shape (size,), of the function 1: its H2 products with the basis."""
        nodes, weights = self.quadrature
        return weights @ self.evaluate(nodes)[0]

    def evaluate(self, x: Tensor) -> Jet:
        """Return values, first and second derivatives at `x`, shape (n,); linear beyond the interval."""
        inside = x.clamp(self.low, self.high)
        value, first, second = (part @ self.transform for part in self._scaled(inside))
        beyond = (x - inside)[:, None]
        if bool((beyond != 0).any()):
            value = value + beyond * first
            second = torch.where(beyond != 0, 0.0, second)
        return value, first, second

    def express(self, other: Basis) -> Tensor:
        """Return the matrix, shape (size, other.size), of the H2 products of this basis with another on its interval.

        Its columns are the coefficients here of the other's functions, as near as this basis can come.
        """
        nodes, weights = self.quadrature
        return _gram(self.evaluate(nodes), other.evaluate(nodes), weights)

    def _scaled(self, x: Tensor) -> Jet:
        half = (self.high - self.low) / 2
        value, first, second = self.raw((x - self.low) / half - 1)
        return value, first / half, second / half**2


@dataclass(frozen=True)
class Legendre(Basis):
    """Polynomials of degree below `size`."""

    def raw(self, s: Tensor) -> Jet:
        """Return Legendre polynomials by their three-term recurrence."""
        one, nothing = torch.ones_like(s), torch.zeros_like(s)
        value, first, second = [one, s], [nothing, one], [nothing, nothing]
        for k in range(1, self.size - 1):
            value.append(((2 * k + 1) * s * value[k] - k * value[k - 1]) / (k + 1))
            first.append(first[k - 1] + (2 * k + 1) * value[k])
            second.append(second[k - 1] + (2 * k + 1) * first[k])
        return _stack(value, self.size), _stack(first, self.size), _stack(second, self.size)


@dataclass(frozen=True)
class ExtendedFourier(Basis):
    """1, x, x^2 about the middle, then cosines and sines of whole periods, alternating."""

    def raw(self, s: Tensor) -> Jet:
        """Return the three powers and the waves."""
        one, nothing = torch.ones_like(s), torch.zeros_like(s)
        value, first, second = [one, s, s**2], [nothing, one, 2 * s], [nothing, nothing, 2 * one]
        for k in range(1, (self.size - 2) // 2 + 1):
            angle, rate = pi * k * s, pi * k
            wave = (angle.cos(), angle.sin())
            value += wave
            first += (-rate * wave[1], rate * wave[0])
            second += (-(rate**2) * wave[0], -(rate**2) * wave[1])
        return _stack(value, self.size), _stack(first, self.size), _stack(second, self.size)


KINDS: dict[str, type[Basis]] = {"legendre": Legendre, "fourier": ExtendedFourier}


def evaluate_bases(bases: Sequence[Basis], x: Tensor) -> list[Jet]:
    """Return the jet of each coordinate of points `x`, shape (n, d)."""
    if x.ndim != 2 or x.shape[1] != len(bases):
        raise InputError(f"Points must have shape (n, {len(bases)}), not {tuple(x.shape)}.")
    return [basis.evaluate(x[:, j]) for j, basis in enumerate(bases)]


@lru_cache(maxsize=32)
def _gauss(count: int) -> tuple[Tensor, Tensor]:
    nodes, weights = np.polynomial.legendre.leggauss(count)
    return torch.from_numpy(nodes), torch.from_numpy(weights)


def _gram(left: Sequence[Tensor], right: Sequence[Tensor], weights: Tensor) -> Tensor:
    total = torch.zeros(left[0].shape[1], right[0].shape[1], dtype=torch.float64)
    for p, q in zip(left, right, strict=True):
        total = total + p.T @ (weights[:, None] * q)
    return total


def _stack(columns: list[Tensor], size: int) -> Tensor:
    return torch.stack(columns[:size], dim=1)
