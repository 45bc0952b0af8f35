r"""Mixtures on spaces of constant curvature; densities are with respect to the Riemannian volume.

References:
    K. V. Mardia and P. E. Jupp, Directional Statistics, Wiley 2000. Y. Nagano et al., A Wrapped Normal Distribution on
    Hyperbolic Space, ICML 2019.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from scipy.special import ive
from scipy.stats import vonmises_fisher
from torch import Tensor

from workingpapers.foundations.densities.base import Density
from workingpapers.foundations.errors import InputError
from workingpapers.foundations.manifolds import Hyperboloid, Sphere

LOG_2PI = math.log(2 * math.pi)


class VonMisesFisherMixture(Density):
    r"""Equal von Mises-Fisher laws on S^m, normalised: p(x) = mean_k C(kappa) exp(kappa <mu_k, x>).

    Args:
        means: Unit vectors mu, shape (K, m + 1).
        concentration: kappa > 0.
    """

    log_partition = 0.0

    def __init__(self, means: Tensor | Sequence[Sequence[float]], concentration: float) -> None:
        self.means = torch.as_tensor(means, dtype=torch.float64)
        if not concentration > 0:
            raise InputError(f"The concentration must be positive, not {concentration}.")
        self.dim = self.means.shape[-1]
        self.manifold = Sphere(self.dim - 1)
        self.manifold.check(self.means, "means")
        self.concentration = concentration
        order = self.dim / 2 - 1
        bessel = math.log(float(ive(order, concentration))) + concentration
        self._constant = order * math.log(concentration) - self.dim / 2 * LOG_2PI - bessel

    def log_density(self, x: Tensor) -> Tensor:
        """Return log p(x), shape (b,), at unit vectors, shape (b, m + 1)."""
        logits = self.concentration * x @ self.means.to(x).T
        return torch.logsumexp(logits, dim=-1) - math.log(len(self.means)) + self._constant

    def score(self, x: Tensor) -> Tensor:
        """Return the Riemannian gradient, shape (b, m + 1)."""
        share = torch.softmax(self.concentration * x @ self.means.to(x).T, dim=-1)
        return self.manifold.gradient(x, self.concentration * share @ self.means.to(x))

    def sample(self, n: int, generator: torch.Generator | None = None, dtype: torch.dtype = torch.float64) -> Tensor:
        """Return exact samples, shape (n, m + 1)."""
        which = torch.randint(len(self.means), (n,), generator=generator)
        seed = int(torch.randint(2**31 - 1, (1,), generator=generator))
        points = torch.empty(n, self.dim, dtype=torch.float64)
        for number, mean in enumerate(self.means):
            rows = which == number
            count = int(rows.sum())
            if count:
                drawn = vonmises_fisher(mean.numpy(), self.concentration, seed=seed + number).rvs(count)
                points[rows] = torch.as_tensor(drawn, dtype=torch.float64).reshape(count, self.dim)
        return points.to(dtype)


class WrappedGaussianMixture(Density):
    r"""Equal wrapped Gaussians on H^m, normalised.

    With r = d(mu, x): log p = log N(r; 0, s^2 I_m) - (m - 1) log(sinh(r) / r), averaged over the mu.

    Args:
        means: Points mu of the hyperboloid, shape (K, m + 1).
        std: s > 0.
    """

    log_partition = 0.0

    def __init__(self, means: Tensor | Sequence[Sequence[float]], std: float) -> None:
        self.means = torch.as_tensor(means, dtype=torch.float64)
        if not std > 0:
            raise InputError(f"std must be positive, not {std}.")
        self.dim = self.means.shape[-1]
        self.manifold = Hyperboloid(self.dim - 1)
        self.manifold.check(self.means, "means")
        self.std = std

    def log_density(self, x: Tensor) -> Tensor:
        """Return log p(x), shape (b,), at points of the hyperboloid, shape (b, m + 1)."""
        m = self.manifold.dim
        r = self.manifold.distance(x[:, None], self.means.to(x)).clamp_min(1e-12)
        stretch = (m - 1) * (r + torch.log(-torch.expm1(-2 * r)) - math.log(2) - r.log())
        logs = -0.5 * r**2 / self.std**2 - m * (math.log(self.std) + 0.5 * LOG_2PI) - stretch
        return torch.logsumexp(logs, dim=-1) - math.log(len(self.means))

    def score(self, x: Tensor) -> Tensor:
        """Return the Riemannian gradient, shape (b, m + 1)."""
        return self.manifold.gradient(x, super().score(x))

    def sample(self, n: int, generator: torch.Generator | None = None, dtype: torch.dtype = torch.float64) -> Tensor:
        """Return exact samples, shape (n, m + 1)."""
        which = torch.randint(len(self.means), (n,), generator=generator)
        centres = self.means[which]
        return self.manifold.exp(centres, self.std * self.manifold.noise(centres, generator)).to(dtype)
