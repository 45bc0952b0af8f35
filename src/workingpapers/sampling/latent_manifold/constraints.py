r"""Implicit manifolds :math:`Z = \{z : \zeta(z) = 0\}`: the function, its Jacobian and its curvature, batched.

References:
    F. Hartwig, J. Sassen, J. Braunsmann, M. Rumpf, B. Wirth, arXiv:2510.09468.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

import torch
from torch import Tensor

from workingpapers.foundations.errors import InputError


class Constraint(ABC):
    r"""A map :math:`\zeta` from codes (n, l) to residuals (n, c) that vanish on the manifold."""

    @abstractmethod
    def __call__(self, z: Tensor) -> Tensor:
        """Return the residuals, shape (n, c)."""

    @abstractmethod
    def jacobian(self, z: Tensor) -> Tensor:
        """Return the Jacobian, shape (n, c, l)."""

    @abstractmethod
    def curvature(self, z: Tensor, weights: Tensor) -> Tensor:
        r"""Return :math:`\sum_i w_i \nabla^2 \zeta_i(z)`, shape (n, l, l), for weights w of shape (n, c)."""


class FunctionConstraint(Constraint):
    """A differentiable function as constraint; derivatives by automatic differentiation.

    Args:
        function: From codes (n, l) to residuals (n, c), row by row, of torch operations that take float64.
    """

    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        self.function = function

    def __call__(self, z: Tensor) -> Tensor:
        """Return the residuals, shape (n, c).

        Raises:
            InputError: The function returns another shape, or values that are not finite.
        """
        values = self.function(z)
        if values.ndim != 2 or values.shape[0] != z.shape[0]:
            raise InputError(f"The constraint returned shape {tuple(values.shape)}; it must be ({z.shape[0]}, c).")
        return values

    def jacobian(self, z: Tensor) -> Tensor:
        """Return the Jacobian, shape (n, c, l)."""
        found: Tensor = torch.func.vmap(torch.func.jacrev(self._row))(z)
        return found

    def curvature(self, z: Tensor, weights: Tensor) -> Tensor:
        """Return the weighted sum of Hessians, shape (n, l, l)."""

        def weighted(row: Tensor, weight: Tensor) -> Tensor:
            return (weight * self._row(row)).sum()

        hessian = torch.func.jacrev(torch.func.grad(weighted))
        found: Tensor = torch.func.vmap(hessian)(z, weights)
        return found

    def _row(self, row: Tensor) -> Tensor:
        return self.function(row[None])[0]


def sphere(radius: float = 1.0) -> FunctionConstraint:
    r"""Return :math:`\zeta(z) = |z|^2 - r^2`, the sphere of any dimension.

    Args:
        radius: r.
    """
    return FunctionConstraint(lambda z: z.square().sum(-1, keepdim=True) - radius**2)


def torus(major: float, minor: float) -> FunctionConstraint:
    r"""Return :math:`\zeta(z) = (\sqrt{z_1^2 + z_2^2} - R)^2 + z_3^2 - r^2`, the torus in three dimensions.

    Args:
        major: R, radius of the core circle.
        minor: r, radius of the tube, less than R.
    """

    def residual(z: Tensor) -> Tensor:
        ring = z[..., :2].square().sum(-1).sqrt() - major
        return (ring.square() + z[..., 2].square() - minor**2)[..., None]

    return FunctionConstraint(residual)


def normal_frames(jacobian: Tensor, normals: int) -> Tensor:
    r"""Return the leading left singular vectors of Jacobians: the residuals that point off the manifold.

    A learned :math:`\zeta` has l components of which only l - d are normal to the manifold; the rest measure how the
    sampling density drifts, and would glue a path to dense places.

    Args:
        jacobian: Shape (..., c, l).
        normals: l - d.

    Returns:
        Orthonormal columns, shape (..., c, l - d).
    """
    left: Tensor = torch.linalg.svd(jacobian)[0]
    return left[..., :normals]


def project(constraint: Constraint, z: Tensor, normals: int, iterations: int = 50, tolerance: float = 1e-12) -> Tensor:
    r"""Move codes onto the manifold by Gauss-Newton steps :math:`z - J^{+} \zeta(z)`, J cut to its leading rank.

    Args:
        constraint: The manifold.
        z: Codes, shape (n, l).
        normals: Rank l - d to which the Jacobian is cut.
        iterations: Largest number of steps.
        tolerance: Steps shorter than this end the search.
    """
    for _ in range(iterations):
        left, values, right = torch.linalg.svd(constraint.jacobian(z), full_matrices=False)
        reduced = (left[..., :normals].mT @ constraint(z)[..., None]) / values[..., :normals, None].clamp_min(1e-12)
        step = (right[..., :normals, :].mT @ reduced)[..., 0]
        z = z - step
        if float(step.abs().amax()) < tolerance:
            break
    return z
