r"""The regression target in closed form, in flat space and on spaces of constant curvature.

Time runs from 0 (noise) to 1 (target). Given the noise point x_0, the path X_t between x_0 and X_1 ~ q has a law
p_{t|0} in closed form, the target q pushed forward, and a diffusion dX = u dt + g dW with
:math:`u = v + \tfrac{g^2}{2} \nabla \log p_{t|0}` follows it. With
:math:`g_t^2 = 2\gamma t` the score of the pushed law needs the score of q at X_1 alone.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from workingpapers.foundations.densities.particles import mean_free
from workingpapers.foundations.errors import InputError
from workingpapers.foundations.manifolds import Euclidean, Manifold

FARTHEST = math.pi - 1e-3  # radians on the unit sphere: beyond, the geodesic is not unique


@dataclass(frozen=True)
class MeanFree(Euclidean):
    """Configurations of particles whose centre of mass is zero: a linear subspace of flat space.

    Args:
        dim: Particles times the dimension of their space.
        particles: Number of particles.
    """

    particles: int = 2

    def __post_init__(self) -> None:
        if self.particles < 2 or self.dim % self.particles:
            raise InputError(f"{self.dim} coordinates cannot be shared by {self.particles} particles.")

    def project(self, x: Tensor) -> Tensor:
        """Return configurations moved to zero centre of mass."""
        return mean_free(x, self.particles)

    def to_tangent(self, x: Tensor, v: Tensor) -> Tensor:
        """Return `v` without its mean over particles."""
        return mean_free(v, self.particles)

    def error(self, x: Tensor) -> Tensor:
        """Return the length of the centre of mass."""
        length: Tensor = torch.linalg.vector_norm(x - self.project(x), dim=-1)
        return length / math.sqrt(self.particles)

    def random(self, n: int, generator: torch.Generator | None = None, dtype: torch.dtype = torch.float64) -> Tensor:
        """Return standard Gaussian configurations in the subspace."""
        return self.project(super().random(n, generator, dtype))


def flow_sampling_target(
    noise: Tensor, data: Tensor, gradient: Tensor, t: Tensor, gamma: float, manifold: Manifold
) -> tuple[Tensor, Tensor]:
    r"""Return the point X_t of the path and the drift that is regressed on there.

    In flat space :math:`X_t = t X_1 + (1 - t) x_0` and

    .. math:: u = X_1 - x_0 + \gamma \nabla r(X_1)

    On a space of curvature 1 and dimension m, with :math:`\omega = d(x_0, X_1)`, unit tangents e_1 at X_1 and e_t at
    X_t that point away from x_0, :math:`c_t = \sin t\omega / \sin\omega` and parallel transport T from X_1 to X_t,

    .. math:: u = \omega e_t + \gamma \bigl[\langle \nabla r, e_1\rangle
              - (m - 1)(t \cot t\omega - \cot\omega)\bigr] e_t + \gamma \frac{t}{c_t}\, T P_\perp \nabla r

    and for curvature -1 the same with hyperbolic functions. The noise of the diffusion is
    :math:`g_t = \sqrt{2\gamma t}`.

    Args:
        noise: x_0, shape (b, ambient).
        data: X_1, shape (b, ambient).
        gradient: Riemannian gradient of the log-density at X_1, shape (b, ambient).
        t: Times in [0, 1], shape (b,).
        gamma: Strength of the gradient, at least 0; 0 is plain flow matching to the law of `data`.
        manifold: Where the points live.

    Returns:
        X_t and u, shape (b, ambient) each.

    Raises:
        InputError: When gamma is negative or a pair on the sphere is antipodal.

    References:
        Proposition 3.2 and section 4 of arXiv:2605.03984. With g^2 = 2 gamma t the gradient carries no factor t.
    """
    if not gamma >= 0:
        raise InputError(f"gamma must not be negative, and is {gamma}.")
    time = t.to(data)[:, None]
    if manifold.curvature == 0:
        point = manifold.exp(noise, time * manifold.log(noise, data))
        return point, manifold.to_tangent(point, manifold.log(noise, data) + gamma * gradient)
    omega = manifold.distance(noise, data)[:, None]
    if manifold.curvature > 0 and bool((omega > FARTHEST).any()):
        raise InputError("A pair of noise and data is antipodal on the sphere; draw the noise point anew.")
    start = manifold.log(noise, data)
    unit = start / manifold.norm(start)[:, None].clamp_min(1e-30)
    point = manifold.exp(noise, time * start)
    along_end = manifold.transport(noise, data, unit)
    along = manifold.transport(noise, point, unit)
    slope = manifold.inner(gradient, along_end)[:, None]
    across = manifold.transport(data, point, gradient - slope * along_end)
    hyperbolic = manifold.curvature < 0
    spread = (
        (manifold.dim - 1) * (_x_cot(time * omega, hyperbolic) - _x_cot(omega, hyperbolic)) / omega.clamp_min(1e-12)
    )
    stretch = _x_over_sin(time * omega, hyperbolic) / _x_over_sin(omega, hyperbolic)  # t / c_t
    drift = (omega + gamma * (slope - spread)) * along + gamma * stretch * across
    return point, manifold.to_tangent(point, drift)


def conditional_score(noise: Tensor, data: Tensor, gradient: Tensor, t: Tensor, manifold: Manifold) -> Tensor:
    r"""Return :math:`\nabla \log p_{t|0}(X_t \mid x_0)` at the path's point, shape (b, ambient); t > 0.

    It is what multiplies gamma t in :func:`flow_sampling_target`.
    """
    _, with_gradient = flow_sampling_target(noise, data, gradient, t, 1.0, manifold)
    _, without = flow_sampling_target(noise, data, gradient, t, 0.0, manifold)
    return (with_gradient - without) / t.to(data)[:, None]


def _x_cot(x: Tensor, hyperbolic: bool) -> Tensor:
    """Return x cot x, or x coth x; one at zero."""
    small = x.abs() < 1e-3
    safe = torch.where(small, torch.ones_like(x), x)
    value = safe / (torch.tanh(safe) if hyperbolic else torch.tan(safe))
    return torch.where(small, 1 + (x**2 if hyperbolic else -(x**2)) / 3, value)


def _x_over_sin(x: Tensor, hyperbolic: bool) -> Tensor:
    """Return x / sin x, or x / sinh x; one at zero."""
    small = x.abs() < 1e-3
    safe = torch.where(small, torch.ones_like(x), x)
    value = safe / (torch.sinh(safe) if hyperbolic else torch.sin(safe))
    return torch.where(small, 1 + (-(x**2) if hyperbolic else x**2) / 6, value)
