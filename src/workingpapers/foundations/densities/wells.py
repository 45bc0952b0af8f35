r"""Products of one-dimensional wells: exact log-partition by quadrature, exact samples by the inverse distribution.

References:
    H. Wu, J. Köhler, F. Noé, Stochastic Normalizing Flows, NeurIPS 2020 (many-well). L. Richter and J. Berner, Improved
    Sampling via Learned Diffusions, ICLR 2024 (multi-well).
"""

from __future__ import annotations

import math
from functools import cached_property

import numpy as np
import torch
from scipy.integrate import quad
from torch import Tensor

from workingpapers.foundations.densities.base import Density
from workingpapers.foundations.errors import InputError

GRID = 20_001
REACH = 60.0  # nats below the highest point, where the tabulated density ends


class MultiWell(Density):
    r"""Double wells in the first m coordinates, Gaussians in the others.

    .. math:: -\log p(x) = \sum_{i \le m} \bigl[a x_i^4 - b x_i^2 + c\,x_i + e\bigr]
              + \tfrac{s}{2} \sum_{i > m} x_i^2 + \log Z

    Args:
        dim: d.
        wells: m, at most d.
        quartic: a > 0.
        quadratic: b.
        tilt: c.
        constant: e.
        stiffness: s > 0.
    """

    def __init__(
        self,
        dim: int,
        wells: int,
        *,
        quartic: float = 1.0,
        quadratic: float = 6.0,
        tilt: float = 0.0,
        constant: float = 0.0,
        stiffness: float = 1.0,
    ) -> None:
        if not 1 <= wells <= dim:
            raise InputError(
                f"wells={wells} of dim={dim}: there must be one well or more, and no more than dimensions."
            )
        if not (quartic > 0 and stiffness > 0):
            raise InputError(f"quartic={quartic} and stiffness={stiffness} must be positive.")
        self.dim = dim
        self.wells = wells
        self.quartic, self.quadratic, self.tilt = quartic, quadratic, tilt
        self.constant, self.stiffness = constant, stiffness

    @classmethod
    def shifted(cls, dim: int, wells: int, delta: float, scale: float = 1.0) -> MultiWell:
        """Return the multi-well with energies scale (x^2 - delta)^2 beside scale x^2 / 2."""
        constant = scale * delta**2
        return cls(dim, wells, quartic=scale, quadratic=2 * scale * delta, constant=constant, stiffness=scale)

    def _factor(self, x: np.ndarray) -> np.ndarray:
        return np.asarray(-self.quartic * x**4 + self.quadratic * x**2 - self.tilt * x - self.constant)

    @cached_property
    def _table(self) -> tuple[np.ndarray, np.ndarray]:
        """Grid and distribution function of one well."""
        width = 1.0
        top = self._factor(np.linspace(-1.0, 1.0, 101)).max()
        while self._factor(np.array([-width, width])).max() > top - REACH:
            width *= 1.1
        grid = np.linspace(-width, width, GRID)
        density = np.exp(self._factor(grid) - self._factor(grid).max())
        mass = np.concatenate([[0], np.cumsum((density[1:] + density[:-1]) / 2)])
        return grid, mass / mass[-1]

    @cached_property
    def log_partition(self) -> float:  # type: ignore[override]
        """Log of the integral of exp(log_density), by adaptive quadrature of one well."""
        grid, _ = self._table
        top = float(self._factor(grid).max())
        centres = [grid[np.argmax(np.where(side, self._factor(grid), -np.inf))] for side in (grid < 0, grid >= 0)]
        value, _ = quad(
            lambda x: math.exp(float(self._factor(np.asarray(x))) - top), grid[0], grid[-1], points=centres, limit=500
        )
        gaussians = 0.5 * (self.dim - self.wells) * math.log(2 * math.pi / self.stiffness)
        return self.wells * (top + math.log(value)) + gaussians

    def log_density(self, x: Tensor) -> Tensor:
        """Return log p(x) up to a constant, shape (b,)."""
        well, rest = x[:, : self.wells], x[:, self.wells :]
        wells = -self.quartic * well**4 + self.quadratic * well**2 - self.tilt * well - self.constant
        return wells.sum(-1) - 0.5 * self.stiffness * (rest**2).sum(-1)

    def score(self, x: Tensor) -> Tensor:
        """Return the gradient, shape (b, d)."""
        well, rest = x[:, : self.wells], x[:, self.wells :]
        wells = -4 * self.quartic * well**3 + 2 * self.quadratic * well - self.tilt
        return torch.cat([wells, -self.stiffness * rest], dim=-1)

    def sample(self, n: int, generator: torch.Generator | None = None, dtype: torch.dtype = torch.float64) -> Tensor:
        """Return exact samples (to the resolution of a fine table), shape (n, d)."""
        grid, mass = self._table
        uniform = torch.rand(n, self.wells, generator=generator, dtype=torch.float64).numpy()
        well = torch.from_numpy(np.interp(uniform, mass, grid))
        rest = torch.randn(n, self.dim - self.wells, generator=generator, dtype=torch.float64)
        return torch.cat([well, rest / math.sqrt(self.stiffness)], dim=-1).to(dtype)


class _Interleaved(MultiWell):
    """The many-well order of coordinates: well, Gaussian, well, Gaussian."""

    def _order(self) -> Tensor:
        return torch.arange(self.dim).reshape(2, -1).T.flatten()

    def log_density(self, x: Tensor) -> Tensor:
        return super().log_density(torch.cat([x[:, ::2], x[:, 1::2]], dim=-1))

    def score(self, x: Tensor) -> Tensor:
        return super().score(torch.cat([x[:, ::2], x[:, 1::2]], dim=-1))[:, self._order()]

    def sample(self, n: int, generator: torch.Generator | None = None, dtype: torch.dtype = torch.float64) -> Tensor:
        return super().sample(n, generator, dtype)[:, self._order()]


def many_well(dim: int = 32) -> MultiWell:
    """Return d / 2 copies of the pair with log p = -x^4 + 6 x^2 + x / 2 - y^2 / 2; d is even.

    Raises:
        InputError: When `dim` is odd.
    """
    if dim < 2 or dim % 2:
        raise InputError(f"many_well needs an even dimension, not {dim}.")
    return _Interleaved(dim, dim // 2, quartic=1.0, quadratic=6.0, tilt=-0.5)
