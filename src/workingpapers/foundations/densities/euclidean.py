r"""Gaussian mixtures and the funnel.

References:
    R. M. Neal, Slice Sampling, Annals of Statistics 31 (2003), for the funnel. L. I. Midgley et al., Flow Annealed
    Importance Sampling Bootstrap, ICLR 2023, for the mixture of forty.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from workingpapers.foundations.densities.base import Density
from workingpapers.foundations.errors import InputError

LOG_2PI = math.log(2 * math.pi)
GMM40_STD = math.log1p(math.e)  # softplus(1)


class GaussianMixture(Density):
    r"""Mixture of isotropic Gaussians, normalised.

    .. math:: p(x) = \sum_k w_k\, N(x; \mu_k, s_k^2 I)

    Args:
        means: mu, shape (K, d).
        std: s, one number or shape (K,).
        weights: w, shape (K,); equal by default; they are normalised.

    Raises:
        InputError: When shapes do not fit or a standard deviation or weight is not positive.
    """

    log_partition = 0.0

    def __init__(
        self,
        means: Tensor | Sequence[Sequence[float]],
        std: Tensor | Sequence[float] | float,
        weights: Tensor | Sequence[float] | None = None,
    ) -> None:
        self.means = torch.as_tensor(means, dtype=torch.float64)
        if self.means.ndim != 2:
            raise InputError(f"The means must have shape (components, d), not {tuple(self.means.shape)}.")
        count, self.dim = self.means.shape
        self.std = torch.as_tensor(std, dtype=torch.float64).expand(count)
        weights = torch.ones(count) if weights is None else torch.as_tensor(weights)
        self.weights = weights.to(torch.float64) / weights.sum()
        if self.weights.shape != (count,) or not bool((self.std > 0).all() and (self.weights > 0).all()):
            raise InputError("A Gaussian mixture needs one positive weight and one positive std a component.")

    def components(self, x: Tensor) -> Tensor:
        """Return log w_k N(x; mu_k, s_k^2 I), shape (b, K)."""
        means, std, log_weights = self.means.to(x), self.std.to(x), self.weights.log().to(x)
        square = ((x[:, None] - means) ** 2).sum(-1)
        return log_weights - 0.5 * square / std**2 - self.dim * (std.log() + 0.5 * LOG_2PI)

    def log_density(self, x: Tensor) -> Tensor:
        """Return log p(x), shape (b,)."""
        return torch.logsumexp(self.components(x), dim=-1)

    def score(self, x: Tensor) -> Tensor:
        """Return the sum over components of posterior (mu_k - x) / s_k^2, shape (b, d)."""
        share = torch.softmax(self.components(x), dim=-1) / self.std.to(x) ** 2
        return share @ self.means.to(x) - share.sum(-1, keepdim=True) * x

    def sample(self, n: int, generator: torch.Generator | None = None, dtype: torch.dtype = torch.float64) -> Tensor:
        """Return exact samples, shape (n, d)."""
        which = torch.multinomial(self.weights, n, replacement=True, generator=generator)
        noise = torch.randn(n, self.dim, generator=generator, dtype=dtype)
        return self.means[which].to(dtype) + self.std[which, None].to(dtype) * noise

    def mode_masses(self, x: Tensor) -> Tensor:
        """Return the share of points whose nearest mean is each component's, shape (K,)."""
        nearest = torch.cdist(x.to(torch.float64), self.means).argmin(-1)
        return torch.bincount(nearest, minlength=len(self.means)).to(torch.float64) / len(x)


def gaussian(mean: Tensor | Sequence[float], std: float = 1.0) -> GaussianMixture:
    """Return the isotropic Gaussian N(mean, std^2 I); `mean` has shape (d,)."""
    return GaussianMixture(torch.as_tensor(mean, dtype=torch.float64)[None], std)


def ring(modes: int = 8, radius: float = 4.0, std: float = 0.4) -> GaussianMixture:
    """Return equal Gaussians at equal angles on a circle in the plane."""
    angle = 2 * math.pi * torch.arange(modes, dtype=torch.float64) / modes
    return GaussianMixture(radius * torch.stack([angle.cos(), angle.sin()], dim=-1), std)


def gmm40(scale: float = 50.0) -> GaussianMixture:
    """Return the benchmark mixture of forty Gaussians in the plane, divided by `scale`.

    Means are uniform on [-40, 40]^2 by torch's generator with seed 0, standard deviations softplus(1) = 1.3133.
    """
    draw = torch.rand((40, 2), generator=torch.Generator().manual_seed(0))
    return GaussianMixture((draw - 0.5) * 80 / scale, GMM40_STD / scale)


class Funnel(Density):
    r"""Neal's funnel, normalised: x_1 ~ N(0, s^2), the others N(0, exp(x_1)) given x_1.

    Args:
        dim: d >= 2.
        std: s of the first coordinate.
    """

    log_partition = 0.0

    def __init__(self, dim: int = 10, std: float = 3.0) -> None:
        if dim < 2:
            raise InputError(f"A funnel needs two dimensions or more, not {dim}.")
        self.dim = dim
        self.std = std

    def log_density(self, x: Tensor) -> Tensor:
        """Return log p(x), shape (b,)."""
        first, rest = x[:, 0], x[:, 1:]
        neck = -0.5 * first**2 / self.std**2 - math.log(self.std)
        body = -0.5 * (rest**2).sum(-1) * torch.exp(-first) - 0.5 * (self.dim - 1) * first
        return neck + body - 0.5 * self.dim * LOG_2PI

    def sample(self, n: int, generator: torch.Generator | None = None, dtype: torch.dtype = torch.float64) -> Tensor:
        """Return exact samples, shape (n, d)."""
        noise = torch.randn(n, self.dim, generator=generator, dtype=dtype)
        first = self.std * noise[:, :1]
        return torch.cat([first, torch.exp(first / 2) * noise[:, 1:]], dim=-1)
