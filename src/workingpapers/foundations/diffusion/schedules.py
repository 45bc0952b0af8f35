r"""Interpolants X_t = alpha_t X_1 + sigma_t X_0 between noise X_0 and data X_1, and what follows from them.

For standard Gaussian noise the conditional means given X_t = x, the velocity v and the score s determine each other:

.. math:: \sigma_t\, s(x) = -E[X_0 \mid x], \qquad
          v(x) = \frac{\alpha_t'}{\alpha_t} x
                 + \sigma_t \Bigl(\frac{\sigma_t \alpha_t'}{\alpha_t} - \sigma_t'\Bigr) s(x)

References:
    M. S. Albergo, N. M. Boffi, E. Vanden-Eijnden, Stochastic Interpolants, arXiv 2303.08797.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
from torch import Tensor

from workingpapers.foundations.errors import InputError


class Schedule(ABC):
    """The coefficients alpha_t and sigma_t and their derivatives; times are tensors of any shape in [0, 1]."""

    @abstractmethod
    def alpha(self, t: Tensor) -> Tensor:
        """Return the weight of the data."""

    @abstractmethod
    def sigma(self, t: Tensor) -> Tensor:
        """Return the weight of the noise."""

    @abstractmethod
    def alpha_rate(self, t: Tensor) -> Tensor:
        """Return the time derivative of alpha."""

    @abstractmethod
    def sigma_rate(self, t: Tensor) -> Tensor:
        """Return the time derivative of sigma."""

    def interpolate(self, noise: Tensor, data: Tensor, t: Tensor) -> Tensor:
        """Return X_t, shape (b, ...), from noise and data of that shape and times of shape (b,)."""
        return _fit(self.alpha(t), data) * data + _fit(self.sigma(t), data) * noise

    def velocity(self, noise: Tensor, data: Tensor, t: Tensor) -> Tensor:
        """Return dX_t / dt = alpha' X_1 + sigma' X_0, shape (b, ...)."""
        return _fit(self.alpha_rate(t), data) * data + _fit(self.sigma_rate(t), data) * noise

    def velocity_from_score(self, score: Tensor, x: Tensor, t: Tensor) -> Tensor:
        """Return the velocity that goes with a score at `x`; t > 0."""
        growth = _fit(self.alpha_rate(t) / self.alpha(t), x)
        sigma, rate = _fit(self.sigma(t), x), _fit(self.sigma_rate(t), x)
        return growth * x + sigma * (sigma * growth - rate) * score

    def score_from_velocity(self, velocity: Tensor, x: Tensor, t: Tensor) -> Tensor:
        """Return the score that goes with a velocity at `x`; 0 < t < 1."""
        growth = _fit(self.alpha_rate(t) / self.alpha(t), x)
        sigma, rate = _fit(self.sigma(t), x), _fit(self.sigma_rate(t), x)
        return (velocity - growth * x) / (sigma * (sigma * growth - rate))

    def denoised(self, score: Tensor, x: Tensor, t: Tensor) -> Tensor:
        """Return E[X_1 | X_t = x] = (x + sigma^2 s) / alpha (Tweedie); t > 0."""
        return (x + _fit(self.sigma(t), x) ** 2 * score) / _fit(self.alpha(t), x)


@dataclass(frozen=True)
class Linear(Schedule):
    """alpha = t, sigma = 1 - t: straight lines (flow matching)."""

    def alpha(self, t: Tensor) -> Tensor:
        """Return t."""
        return t

    def sigma(self, t: Tensor) -> Tensor:
        """Return 1 - t."""
        return 1 - t

    def alpha_rate(self, t: Tensor) -> Tensor:
        """Return 1."""
        return torch.ones_like(t)

    def sigma_rate(self, t: Tensor) -> Tensor:
        """Return -1."""
        return -torch.ones_like(t)


@dataclass(frozen=True)
class Trigonometric(Schedule):
    """alpha = sin(pi t / 2), sigma = cos(pi t / 2): unit variance is kept."""

    def alpha(self, t: Tensor) -> Tensor:
        """Return sin(pi t / 2)."""
        return torch.sin(t * math.pi / 2)

    def sigma(self, t: Tensor) -> Tensor:
        """Return cos(pi t / 2)."""
        return torch.cos(t * math.pi / 2)

    def alpha_rate(self, t: Tensor) -> Tensor:
        """Return pi / 2 cos(pi t / 2)."""
        return math.pi / 2 * torch.cos(t * math.pi / 2)

    def sigma_rate(self, t: Tensor) -> Tensor:
        """Return -pi / 2 sin(pi t / 2)."""
        return -math.pi / 2 * torch.sin(t * math.pi / 2)


@dataclass(frozen=True)
class OrnsteinUhlenbeck(Schedule):
    r"""Noising dY = -Y ds + sqrt(2) dW for s = horizon (1 - t): alpha = exp(-s), sigma^2 = 1 - exp(-2 s).

    At t = 0 a share exp(-horizon) of the data is still there; everything else is noise.

    Args:
        horizon: Length T > 0 of the noising.
    """

    horizon: float = 5.0

    def __post_init__(self) -> None:
        if not self.horizon > 0:
            raise InputError(f"The horizon must be positive, not {self.horizon}.")

    def noising_time(self, t: Tensor) -> Tensor:
        """Return s = horizon (1 - t)."""
        return self.horizon * (1 - t)

    def alpha(self, t: Tensor) -> Tensor:
        """Return exp(-s)."""
        return torch.exp(-self.noising_time(t))

    def sigma(self, t: Tensor) -> Tensor:
        """Return sqrt(1 - exp(-2 s))."""
        return torch.sqrt(-torch.expm1(-2 * self.noising_time(t)))

    def alpha_rate(self, t: Tensor) -> Tensor:
        """Return horizon exp(-s)."""
        return self.horizon * self.alpha(t)

    def sigma_rate(self, t: Tensor) -> Tensor:
        """Return -horizon exp(-2 s) / sigma."""
        return -self.horizon * torch.exp(-2 * self.noising_time(t)) / self.sigma(t)


def uniform_times(steps: int, start: float = 0.0, stop: float = 1.0) -> Tensor:
    """Return steps + 1 equally spaced times, float64.

    Raises:
        InputError: When there is no step or the times do not increase.
    """
    _check(steps, start, stop)
    return torch.linspace(start, stop, steps + 1, dtype=torch.float64)


def geometric_times(steps: int, first: float, last: float) -> Tensor:
    """Return steps + 1 noising times s from `first` down to `last`, each the same multiple of the one before, float64.

    Raises:
        InputError: When there is no step, or not first > last > 0.
    """
    if not first > last > 0:
        raise InputError(f"Geometric times need first > last > 0, not {first} and {last}.")
    _check(steps, last, first)
    return torch.exp(torch.linspace(math.log(first), math.log(last), steps + 1, dtype=torch.float64))


def _check(steps: int, start: float, stop: float) -> None:
    if steps < 1 or not stop > start:
        raise InputError(
            f"A time grid needs one step or more between increasing times, not {steps} in [{start}, {stop}]."
        )


def _fit(coefficient: Tensor, x: Tensor) -> Tensor:
    """Return coefficients of shape (b,) or () with the trailing axes that a product with `x` needs."""
    coefficient = coefficient.to(x)
    return (
        coefficient.reshape(coefficient.shape + (1,) * (x.ndim - coefficient.ndim)) if coefficient.ndim else coefficient
    )
