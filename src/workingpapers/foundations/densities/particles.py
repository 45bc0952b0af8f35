r"""Particle systems with zero centre of mass: points are n particles in space, flattened to n * space coordinates.

References:
    J. Köhler, L. Klein, F. Noé, Equivariant Flows, ICML 2020. T. Akhound-Sadegh et al., Iterated Denoising Energy
    Matching, ICML 2024.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from workingpapers.foundations.densities.base import Density
from workingpapers.foundations.errors import InputError
from workingpapers.foundations.langevin import hmc


def mean_free(x: Tensor, particles: int) -> Tensor:
    """Return configurations, shape (b, particles * space), moved so that their centre of mass is zero."""
    positions = x.reshape(*x.shape[:-1], particles, -1)
    return (positions - positions.mean(-2, keepdim=True)).reshape(x.shape)


class _Particles(Density):
    """Particles with pair energies; subclasses give the energy of the distances.

    Attributes:
        particles: n.
        space: Dimensions of the space.
    """

    particles: int
    space: int

    def _set(self, particles: int, space: int) -> None:
        if particles < 2 or space < 1:
            raise InputError(f"A particle system needs two particles and a dimension, not {particles} and {space}.")
        self.particles, self.space, self.dim = particles, space, particles * space
        self._pairs = torch.triu_indices(particles, particles, offset=1)

    def distances(self, x: Tensor) -> Tensor:
        """Return the distances of all pairs, shape (b, n (n - 1) / 2)."""
        positions = x.reshape(len(x), self.particles, self.space)
        first, second = self._pairs
        difference = positions[:, first] - positions[:, second]
        return (difference**2).sum(-1).clamp_min(1e-12).sqrt()

    def project(self, x: Tensor) -> Tensor:
        """Return configurations with zero centre of mass."""
        return mean_free(x, self.particles)

    def score(self, x: Tensor) -> Tensor:
        """Return the gradient; its mean over particles is zero."""
        return self.project(super().score(x))

    def sample(self, n: int, generator: torch.Generator | None = None, dtype: torch.dtype = torch.float64) -> Tensor:
        """Return reference samples by long HMC chains (not exact), shape (n, d).

        A Gaussian is put on the centre of mass, on which the energy does not depend, and taken away again.
        """
        chains = min(n, 200)
        kept = -(-n // chains)

        def confined(x: Tensor) -> Tensor:
            centre = x.reshape(len(x), self.particles, self.space).mean(1)
            return self.log_density(x) - 0.5 * self.particles * (centre**2).sum(-1)

        start = self._start(chains, generator)
        run = hmc(
            confined, start, step=0.02, leapfrog=20, steps=20 * kept, warm_up=500, keep_every=20, generator=generator
        )
        return self.project(run.samples.reshape(-1, self.dim)[:n]).to(dtype)

    def _start(self, chains: int, generator: torch.Generator | None) -> Tensor:
        return torch.randn(chains, self.dim, generator=generator, dtype=torch.float64)


class DoubleWellParticles(_Particles):
    r"""Particles whose pairs sit in a double well of their distance (DW-4 by default).

    .. math:: E = \sum_{i<j} a\,(d_{ij} - d_0) + b\,(d_{ij} - d_0)^2 + c\,(d_{ij} - d_0)^4

    Args:
        particles: n.
        space: Dimensions of the space.
        a: Linear coefficient.
        b: Quadratic coefficient.
        c: Quartic coefficient.
        offset: d_0.
    """

    def __init__(
        self,
        particles: int = 4,
        space: int = 2,
        *,
        a: float = 0.0,
        b: float = -4.0,
        c: float = 0.9,
        offset: float = 4.0,
    ) -> None:
        self._set(particles, space)
        self.a, self.b, self.c, self.offset = a, b, c, offset

    def log_density(self, x: Tensor) -> Tensor:
        """Return -E, shape (b,)."""
        r = self.distances(x) - self.offset
        return -(self.a * r + self.b * r**2 + self.c * r**4).sum(-1)

    def _start(self, chains: int, generator: torch.Generator | None) -> Tensor:
        return 3 * super()._start(chains, generator)


class LennardJones(_Particles):
    r"""A Lennard-Jones cluster held together by a harmonic pull to its centre of mass.

    .. math:: E = 2 f \sum_{i<j} \bigl[d_{ij}^{-12} - 2 d_{ij}^{-6}\bigr]
              + \tfrac12 \sum_i \|x_i - \bar x\|^2

    Args:
        particles: n, 13 or 55 in the benchmarks.
        space: Dimensions of the space.
        pair_factor: f; 1 counts each pair twice (the DEM benchmark), 1/2 once.
    """

    def __init__(self, particles: int = 13, space: int = 3, *, pair_factor: float = 1.0) -> None:
        self._set(particles, space)
        if not pair_factor > 0:
            raise InputError(f"pair_factor must be positive, not {pair_factor}.")
        self.pair_factor = pair_factor

    def log_density(self, x: Tensor) -> Tensor:
        """Return -E, shape (b,)."""
        inverse = self.distances(x) ** -6
        pairs = 2 * self.pair_factor * (inverse**2 - 2 * inverse).sum(-1)
        return -pairs - 0.5 * (self.project(x) ** 2).sum(-1)

    def _start(self, chains: int, generator: torch.Generator | None) -> Tensor:
        edge = math.ceil(self.particles ** (1 / self.space))
        lattice = torch.cartesian_prod(*[torch.arange(edge, dtype=torch.float64)] * self.space)
        lattice = lattice.reshape(-1, self.space)[: self.particles]
        jitter = 0.02 * torch.randn(chains, self.dim, generator=generator, dtype=torch.float64)
        return lattice.flatten() + jitter
