r"""Chains of coordinates that interact with their neighbours alone: log Z and marginals by transfer matrices.

.. math:: \rho(x) = \exp\Bigl(-\sum_i u_i(x_i) - \sum_{i>1} w_i(x_{i-1}, x_i)\Bigr), \qquad
          Z = \mathbf 1^\top M_1 K_2 M_2 \cdots K_d M_d \mathbf 1

with K_i the kernel exp(-w_i) on a grid of quadrature nodes and M_i the weights times exp(-u_i): O(d K^2) work, exact to
the quadrature. They are not separable, and their log-partition is still known.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from workingpapers.foundations.densities import Density
from workingpapers.foundations.errors import InputError

NODES = 400


class Chain(Density):
    """A density of neighbours; subclasses say what one site and one pair cost, and how far the grid reaches."""

    reach: float

    @abstractmethod
    def site(self, i: int, x: Tensor) -> Tensor:
        """Return u_i at `x`, the shape of `x`; sites count from 0."""

    @abstractmethod
    def pair(self, i: int, before: Tensor, x: Tensor) -> Tensor:
        """Return w_i at x_{i-1} and x_i, which broadcast; i counts from 1."""

    def log_density(self, x: Tensor) -> Tensor:
        """Return the log-density up to its constant, shape (b,)."""
        sites = [self.site(i, x[:, i]) for i in range(self.dim)]
        pairs = [self.pair(i, x[:, i - 1], x[:, i]) for i in range(1, self.dim)]
        return -torch.stack(sites + pairs).sum(0)

    @cached_property
    def log_partition(self) -> float:  # type: ignore[override]
        """Log Z by the transfer matrix on Gauss-Legendre nodes."""
        return float(torch.logsumexp(self._messages[0][-1], dim=0))

    def marginal(self, i: int) -> tuple[Tensor, Tensor]:
        """Return the nodes, shape (K,), and the density of coordinate `i` there.

        Args:
            i: Coordinate, from 0.
        """
        forward, backward = self._messages
        nodes, log_weights = self._grid
        joint = forward[i] + backward[i]
        return nodes, torch.exp(joint - torch.logsumexp(joint, dim=0) - log_weights)

    @cached_property
    def _grid(self) -> tuple[Tensor, Tensor]:
        nodes, weights = np.polynomial.legendre.leggauss(NODES)
        return torch.from_numpy(self.reach * nodes), torch.from_numpy(np.log(self.reach * weights))

    @cached_property
    def _messages(self) -> tuple[list[Tensor], list[Tensor]]:
        """Log of what lies left of each site, the site and its weights included, and of what lies right of it."""
        nodes, log_weights = self._grid
        kernels = [-self.pair(i, nodes[:, None], nodes[None, :]) for i in range(1, self.dim)]
        local = [log_weights - self.site(i, nodes) for i in range(self.dim)]
        forward = [local[0]]
        for kernel, here in zip(kernels, local[1:], strict=True):
            forward.append(torch.logsumexp(forward[-1][:, None] + kernel, dim=0) + here)
        backward = [torch.zeros_like(nodes)]
        for kernel, here in zip(kernels[::-1], local[:0:-1], strict=True):
            backward.append(torch.logsumexp(kernel + (backward[-1] + here)[None, :], dim=1))
        return forward, backward[::-1]


class GinzburgLandau(Chain):
    r"""Double wells on a line, tied to their neighbours.

    .. math:: V = \beta \Bigl[\sum_{i \le m} (x_i^2 - \delta)^2 + \sum_{i > m} x_i^2
              + \kappa \sum_i (x_{i+1} - x_i)^2\Bigr]

    Args:
        dim: d.
        wells: m; all by default.
        delta: Wells are at the roots of delta.
        beta: Inverse temperature > 0.
        kappa: Coupling, at least 0; 0 makes it separable.
    """

    def __init__(
        self, dim: int, wells: int | None = None, *, delta: float = 1.0, beta: float = 1.0, kappa: float = 1.0
    ) -> None:
        self.dim, self.wells = dim, dim if wells is None else wells
        if dim < 1 or not 0 <= self.wells <= dim:
            raise InputError(f"wells={self.wells} of dim={dim}: there must be no more wells than dimensions.")
        if not (beta > 0 and kappa >= 0 and delta >= 0):
            raise InputError(f"beta={beta} must be positive, kappa={kappa} and delta={delta} not negative.")
        self.delta, self.beta, self.kappa = delta, beta, kappa
        # exp(-40) at the grid's end, for the quartic and for the quadratic sites.
        quartic = math.sqrt(delta + math.sqrt(40 / beta))
        self.reach = max(quartic, math.sqrt(40 / beta) if self.wells < dim else 0.0)

    def site(self, i: int, x: Tensor) -> Tensor:
        """Return the well or the parabola of a site."""
        return self.beta * ((x**2 - self.delta) ** 2 if i < self.wells else x**2)

    def pair(self, i: int, before: Tensor, x: Tensor) -> Tensor:
        """Return the coupling of two neighbours."""
        return self.beta * self.kappa * (x - before) ** 2

    def score(self, x: Tensor) -> Tensor:
        """Return the gradient of the log-density, shape (b, d)."""
        well, rest = x[:, : self.wells], x[:, self.wells :]
        slope = torch.cat([4 * well * (well**2 - self.delta), 2 * rest], dim=1)
        step = 2 * self.kappa * x.diff(dim=1)
        slope[:, 1:] += step
        slope[:, :-1] -= step
        return -self.beta * slope


class Kitagawa(Chain):
    r"""The posterior of the states of a nonlinear series that was observed with noise.

    .. math:: x_n = \tfrac12 x_{n-1} + \frac{\gamma x_{n-1}}{1 + x_{n-1}^2} + v_n, \qquad y_n = x_n + w_n

    with x_0 = 0 and unit variances. The density is that of states and observations, so that Z = p(y).

    Args:
        observations: y, length d.
        nonlinearity: gamma.
    """

    def __init__(self, observations: Sequence[float], nonlinearity: float = 1.0) -> None:
        if not len(observations) or not np.isfinite(observations).all():
            raise InputError("Kitagawa's model needs one finite observation or more.")
        self.observations = [float(y) for y in observations]
        self.dim, self.nonlinearity = len(self.observations), nonlinearity
        self.reach = max(abs(y) for y in self.observations) + abs(nonlinearity) + 9.0

    @classmethod
    def simulated(cls, dim: int, nonlinearity: float = 1.0, seed: int = 0) -> Kitagawa:
        """Return the posterior of a series drawn from the model itself."""
        rng = np.random.default_rng(seed)
        state, observed = 0.0, []
        for _ in range(dim):
            state = 0.5 * state + nonlinearity * state / (1 + state**2) + rng.standard_normal()
            observed.append(state + rng.standard_normal())
        return cls(observed, nonlinearity)

    def site(self, i: int, x: Tensor) -> Tensor:
        """Return the cost of an observation, and of the first state."""
        cost = 0.5 * (self.observations[i] - x) ** 2 + 0.5 * math.log(2 * math.pi)
        return cost + (0.5 * x**2 + 0.5 * math.log(2 * math.pi) if i == 0 else 0.0)

    def pair(self, i: int, before: Tensor, x: Tensor) -> Tensor:
        """Return the cost of one transition."""
        mean = 0.5 * before + self.nonlinearity * before / (1 + before**2)
        return 0.5 * (x - mean) ** 2 + 0.5 * math.log(2 * math.pi)


@dataclass(frozen=True)
class Marginal:
    """Density of one coordinate on a grid, shape (K,) each."""

    grid: Tensor
    density: Tensor


def separable_marginal(target: Density, i: int, low: float, high: float) -> Marginal:
    """Return the marginal of coordinate `i` of a density that is a product, by quadrature along its axis.

    Args:
        target: A product of densities of one coordinate each.
        i: Coordinate, from 0.
        low: Left end of the grid; nearly all mass must lie within.
        high: Right end.
    """
    nodes, weights = np.polynomial.legendre.leggauss(NODES)
    grid = torch.from_numpy(low + (high - low) * (nodes + 1) / 2)
    points = torch.zeros(NODES, target.dim, dtype=torch.float64)
    points[:, i] = grid
    log = target.log_density(points).double()
    density = torch.exp(log - log.max())
    total = float((density * torch.from_numpy(weights)).sum()) * (high - low) / 2
    return Marginal(grid, density / total)
