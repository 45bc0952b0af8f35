r"""Spaces of constant curvature for batched torch points: Euclidean space, sphere, hyperboloid, flat torus.

Points and tangent vectors are arrays of shape (..., ambient). With :math:`r = d(x, y)`, on the unit sphere

.. math:: \exp_x(v) = \cos\|v\|\,x + \sin\|v\|\,v / \|v\|, \qquad
          \log_x(y) = r\,(y - \cos r\,x) / \sin r, \qquad r = \arccos\langle x, y\rangle

and on the hyperboloid the same with cosh, sinh and the Lorentz product
:math:`\langle x, y\rangle_L = -x_0 y_0 + \sum_{i \ge 1} x_i y_i`. Distances come from chords, which keeps them exact
for near points.

References:
    M. Nickel and D. Kiela, Learning Continuous Hierarchies in the Lorentz Model of Hyperbolic Geometry, ICML 2018.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
from torch import Tensor

from workingpapers.foundations.errors import InputError

TINY = 1e-30  # guards a square root of zero; far below the smallest distance that float64 can tell apart


class Manifold(ABC):
    """A Riemannian manifold of constant curvature inside an ambient space.

    Attributes:
        dim: Intrinsic dimension m.
        ambient: Length of a point.
        curvature: Sectional curvature, 1, 0 or -1.
    """

    dim: int
    ambient: int
    curvature: float

    def inner(self, u: Tensor, v: Tensor) -> Tensor:
        """Return the inner product of tangent vectors, shape (...)."""
        return (u * v).sum(-1)

    def norm(self, v: Tensor) -> Tensor:
        """Return lengths of tangent vectors, shape (...)."""
        return self.inner(v, v).clamp_min(0).sqrt()

    @abstractmethod
    def project(self, x: Tensor) -> Tensor:
        """Return the point of the manifold that ambient `x` is moved to (rounding is taken back)."""

    @abstractmethod
    def to_tangent(self, x: Tensor, v: Tensor) -> Tensor:
        """Return the orthogonal projection of ambient `v` on the tangent space at `x`."""

    @abstractmethod
    def exp(self, x: Tensor, v: Tensor) -> Tensor:
        """Return the end of the geodesic of unit time that leaves `x` with velocity `v`."""

    @abstractmethod
    def log(self, x: Tensor, y: Tensor) -> Tensor:
        """Return the velocity at `x` of the shortest geodesic of unit time to `y`."""

    @abstractmethod
    def distance(self, x: Tensor, y: Tensor) -> Tensor:
        """Return geodesic distances, shape (...)."""

    @abstractmethod
    def transport(self, x: Tensor, y: Tensor, v: Tensor) -> Tensor:
        """Return tangent `v` at `x`, carried parallel along the shortest geodesic to `y`."""

    @abstractmethod
    def error(self, x: Tensor) -> Tensor:
        """Return how far ambient points are from the manifold's equation, shape (...)."""

    def gradient(self, x: Tensor, derivative: Tensor) -> Tensor:
        """Return the Riemannian gradient at `x` of a function with ambient partial derivatives `derivative`."""
        return self.to_tangent(x, derivative)

    def noise(self, x: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """Return standard Gaussian tangent vectors at `x`."""
        return self.to_tangent(x, torch.randn(x.shape, generator=generator, dtype=x.dtype, device=x.device))

    @abstractmethod
    def random(self, n: int, generator: torch.Generator | None = None, dtype: torch.dtype = torch.float64) -> Tensor:
        """Return `n` points of the base law: uniform where the volume is finite, else standard (wrapped) Gaussian."""

    def check(self, x: Tensor, name: str = "points", tolerance: float = 1e-5) -> None:
        """Refuse points that are off the manifold.

        Raises:
            InputError: When a shape is wrong or a point is off by more than `tolerance`.
        """
        if x.shape[-1] != self.ambient:
            raise InputError(f"The {name} have {x.shape[-1]} coordinates; {self!r} needs {self.ambient}.")
        worst = float(self.error(x).max()) if x.numel() else 0.0
        if not worst <= tolerance:
            raise InputError(
                f"The {name} are off {self!r} by up to {worst:.2g}; project them first (manifold.project)."
            )


@dataclass(frozen=True)
class Euclidean(Manifold):
    """Flat space of `dim` dimensions.

    Args:
        dim: Dimension.
    """

    dim: int
    curvature = 0.0

    @property
    def ambient(self) -> int:  # type: ignore[override]
        """Length of a point."""
        return self.dim

    def project(self, x: Tensor) -> Tensor:
        """Return `x`."""
        return x

    def to_tangent(self, x: Tensor, v: Tensor) -> Tensor:
        """Return `v`."""
        return v

    def exp(self, x: Tensor, v: Tensor) -> Tensor:
        """Return x + v."""
        return x + v

    def log(self, x: Tensor, y: Tensor) -> Tensor:
        """Return y - x."""
        return y - x

    def distance(self, x: Tensor, y: Tensor) -> Tensor:
        """Return lengths of y - x."""
        length: Tensor = torch.linalg.vector_norm(y - x, dim=-1)
        return length

    def transport(self, x: Tensor, y: Tensor, v: Tensor) -> Tensor:
        """Return `v`."""
        return v

    def error(self, x: Tensor) -> Tensor:
        """Return zeros, or infinity for points that are not finite."""
        return torch.where(torch.isfinite(x).all(-1), 0.0, math.inf)

    def random(self, n: int, generator: torch.Generator | None = None, dtype: torch.dtype = torch.float64) -> Tensor:
        """Return standard Gaussian points."""
        return torch.randn(n, self.dim, generator=generator, dtype=dtype)


@dataclass(frozen=True)
class Sphere(Manifold):
    """Unit sphere S^m in m + 1 dimensions.

    Args:
        dim: m >= 1.
    """

    dim: int
    curvature = 1.0

    @property
    def ambient(self) -> int:  # type: ignore[override]
        """Length of a point."""
        return self.dim + 1

    def project(self, x: Tensor) -> Tensor:
        """Return x / |x|."""
        length: Tensor = torch.linalg.vector_norm(x, dim=-1, keepdim=True)
        return x / length

    def to_tangent(self, x: Tensor, v: Tensor) -> Tensor:
        """Return v - <x, v> x."""
        return v - (x * v).sum(-1, keepdim=True) * x

    def exp(self, x: Tensor, v: Tensor) -> Tensor:
        """Return the point at arc length |v| from `x` towards `v`."""
        length = torch.linalg.vector_norm(v, dim=-1, keepdim=True)
        return self.project(torch.cos(length) * x + torch.sinc(length / math.pi) * v)

    def log(self, x: Tensor, y: Tensor) -> Tensor:
        """Return the shortest velocity; antipodal points have no unique one, and get some vector of length pi or 0."""
        direction = self.to_tangent(x, y)
        length: Tensor = torch.linalg.vector_norm(direction, dim=-1, keepdim=True).clamp_min(TINY)
        return self.distance(x, y)[..., None] * direction / length

    def distance(self, x: Tensor, y: Tensor) -> Tensor:
        """Return 2 atan2(|y - x|, |y + x|), exact for near and for far points."""
        chord, other = torch.linalg.vector_norm(y - x, dim=-1), torch.linalg.vector_norm(y + x, dim=-1)
        half: Tensor = torch.atan2(chord, other)
        return 2 * half

    def transport(self, x: Tensor, y: Tensor, v: Tensor) -> Tensor:
        """Return v - <y, v> / (1 + <x, y>) (x + y)."""
        factor = (y * v).sum(-1, keepdim=True) / (1 + (x * y).sum(-1, keepdim=True)).clamp_min(TINY)
        return v - factor * (x + y)

    def error(self, x: Tensor) -> Tensor:
        """Return | |x| - 1 |."""
        return torch.nan_to_num((torch.linalg.vector_norm(x, dim=-1) - 1).abs(), nan=math.inf, posinf=math.inf)

    def random(self, n: int, generator: torch.Generator | None = None, dtype: torch.dtype = torch.float64) -> Tensor:
        """Return points of the uniform law."""
        return self.project(torch.randn(n, self.ambient, generator=generator, dtype=dtype))

    def log_volume(self) -> float:
        """Return the log of the surface 2 pi^((m+1)/2) / Gamma((m+1)/2)."""
        half = (self.dim + 1) / 2
        return math.log(2) + half * math.log(math.pi) - math.lgamma(half)


@dataclass(frozen=True)
class Hyperboloid(Manifold):
    """Hyperbolic space H^m of curvature -1: the sheet <x, x>_L = -1, x_0 > 0.

    Args:
        dim: m >= 1.
    """

    dim: int
    curvature = -1.0

    @property
    def ambient(self) -> int:  # type: ignore[override]
        """Length of a point."""
        return self.dim + 1

    def inner(self, u: Tensor, v: Tensor) -> Tensor:
        """Return the Lorentz product."""
        return (u * v).sum(-1) - 2 * u[..., 0] * v[..., 0]

    def project(self, x: Tensor) -> Tensor:
        """Return the point with the same space coordinates."""
        time = (1 + (x[..., 1:] ** 2).sum(-1, keepdim=True)).sqrt()
        return torch.cat([time, x[..., 1:]], dim=-1)

    def to_tangent(self, x: Tensor, v: Tensor) -> Tensor:
        """Return v + <x, v>_L x."""
        return v + self.inner(x, v)[..., None] * x

    def gradient(self, x: Tensor, derivative: Tensor) -> Tensor:
        """Return the gradient: the time derivative changes its sign before the projection."""
        return self.to_tangent(x, torch.cat([-derivative[..., :1], derivative[..., 1:]], dim=-1))

    def exp(self, x: Tensor, v: Tensor) -> Tensor:
        """Return the point at length |v| from `x` towards `v`."""
        length = self.norm(v)[..., None]
        ratio = torch.where(length > 1e-6, torch.sinh(length) / length.clamp_min(1e-6), 1 + length**2 / 6)
        return self.project(torch.cosh(length) * x + ratio * v)

    def log(self, x: Tensor, y: Tensor) -> Tensor:
        """Return the velocity of the geodesic to `y`."""
        direction = self.to_tangent(x, y)
        length = self.norm(direction)[..., None].clamp_min(TINY)
        return self.distance(x, y)[..., None] * direction / length

    def distance(self, x: Tensor, y: Tensor) -> Tensor:
        """Return 2 asinh(|y - x|_L / 2), exact for near points."""
        return 2 * torch.asinh(self.norm(y - x) / 2)

    def transport(self, x: Tensor, y: Tensor, v: Tensor) -> Tensor:
        """Return v + <y, v>_L / (1 - <x, y>_L) (x + y)."""
        factor = self.inner(y, v) / (1 - self.inner(x, y))
        return v + factor[..., None] * (x + y)

    def error(self, x: Tensor) -> Tensor:
        """Return |<x, x>_L + 1| relative to x_0^2, infinite on the lower sheet."""
        relative = (self.inner(x, x) + 1).abs() / (x[..., 0] ** 2).clamp_min(1)
        return torch.nan_to_num(torch.where(x[..., 0] > 0, relative, math.inf), nan=math.inf, posinf=math.inf)

    def origin(self, dtype: torch.dtype = torch.float64) -> Tensor:
        """Return (1, 0, ..., 0)."""
        point = torch.zeros(self.ambient, dtype=dtype)
        point[0] = 1
        return point

    def noise(self, x: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """Return standard Gaussian tangent vectors at `x`: those at the origin, carried along."""
        flat = torch.randn(*x.shape[:-1], self.dim, generator=generator, dtype=x.dtype, device=x.device)
        at_origin = torch.cat([torch.zeros_like(flat[..., :1]), flat], dim=-1)
        return self.transport(self.origin(x.dtype).to(x.device).expand_as(x), x, at_origin)

    def random(self, n: int, generator: torch.Generator | None = None, dtype: torch.dtype = torch.float64) -> Tensor:
        """Return points of the standard Gaussian wrapped at the origin."""
        origin = self.origin(dtype).expand(n, -1)
        return self.exp(origin, self.noise(origin, generator))


@dataclass(frozen=True)
class FlatTorus(Manifold):
    """Product of `dim` circles of the same circumference, in coordinates [0, period).

    Args:
        dim: Number of circles.
        period: Circumference of each.
    """

    dim: int
    period: float = 2 * math.pi
    curvature = 0.0

    @property
    def ambient(self) -> int:  # type: ignore[override]
        """Length of a point."""
        return self.dim

    def project(self, x: Tensor) -> Tensor:
        """Return coordinates in [0, period)."""
        return torch.remainder(x, self.period)

    def to_tangent(self, x: Tensor, v: Tensor) -> Tensor:
        """Return `v`."""
        return v

    def exp(self, x: Tensor, v: Tensor) -> Tensor:
        """Return x + v, wrapped."""
        return self.project(x + v)

    def log(self, x: Tensor, y: Tensor) -> Tensor:
        """Return the shortest difference on each circle."""
        half = self.period / 2
        return torch.remainder(y - x + half, self.period) - half

    def distance(self, x: Tensor, y: Tensor) -> Tensor:
        """Return lengths of the shortest differences."""
        length: Tensor = torch.linalg.vector_norm(self.log(x, y), dim=-1)
        return length

    def transport(self, x: Tensor, y: Tensor, v: Tensor) -> Tensor:
        """Return `v`."""
        return v

    def error(self, x: Tensor) -> Tensor:
        """Return zeros, or infinity for points that are not finite."""
        return torch.where(torch.isfinite(x).all(-1), 0.0, math.inf)

    def random(self, n: int, generator: torch.Generator | None = None, dtype: torch.dtype = torch.float64) -> Tensor:
        """Return points of the uniform law."""
        return self.period * torch.rand(n, self.dim, generator=generator, dtype=dtype)
