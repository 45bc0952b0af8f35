r"""Local squared distances W(x, y) between codes: flat, of decoded values, of decoded Gaussians.

A local squared distance has :math:`W(z, z) = 0`, :math:`\nabla_2 W(z, z) = 0` and
:math:`\nabla_2^2 W(z, z) = 2 g_z`, so that :math:`W(z, z + v) = g_z(v, v) + O(|v|^3)`. Then
:math:`K \sum_k W(z_{k-1}, z_k)` approximates the path energy :math:`\int g(\dot z, \dot z)\,dt`.

References:
    F. Hartwig, J. Sassen, J. Braunsmann, M. Rumpf, B. Wirth, arXiv:2510.09468.
"""

from __future__ import annotations

import copy
import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from workingpapers.foundations.errors import InputError


class Metric(ABC):
    """A local squared distance W of codes, with the second derivatives that the solvers need."""

    @abstractmethod
    def __call__(self, x: Tensor, y: Tensor) -> Tensor:
        """Return W(x, y), shape (n,), of codes of shape (n, l)."""

    @abstractmethod
    def edge_jacobians(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        r"""Return A and B, shape (n, D, l), with :math:`W(x + u, y + v) \approx |r + A u - B v|^2`, r the residual.

        :math:`2 A^\top A` and :math:`2 B^\top B` model the Hessians of W in x and in y, :math:`-2 A^\top B` the mixed
        one.
        """

    def tensor(self, z: Tensor) -> Tensor:
        """Return the metric tensor g_z, shape (n, l, l), of codes of shape (n, l)."""
        jacobian, _ = self.edge_jacobians(z, z)
        return jacobian.mT @ jacobian

    def gradients(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        """Return the derivatives of W in its first and in its second argument, each of shape (n, l)."""
        first, second = x.detach().requires_grad_(), y.detach().requires_grad_()
        with torch.enable_grad():
            value = self(first, second).sum()
        left, right = torch.autograd.grad(value, (first, second))
        return left, right


class EuclideanMetric(Metric):
    r"""Flat distance of codes, :math:`W(x, y) = |x - y|^2`."""

    def __call__(self, x: Tensor, y: Tensor) -> Tensor:
        """Return |x - y|^2, shape (n,)."""
        return (x - y).square().sum(-1)

    def edge_jacobians(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        """Return identities, shape (n, l, l)."""
        identity = torch.eye(x.shape[-1], dtype=x.dtype, device=x.device).expand(*x.shape, x.shape[-1])
        return identity, identity


class PullbackMetric(Metric):
    r"""Distance of decoded values, :math:`W(x, y) = |D(x) - D(y)|^2`, so that :math:`g_z = J_D(z)^\top J_D(z)`.

    Args:
        decoder: D, a module or function from codes (n, l) to values (n, ...), row by row. A module is copied, set to
            evaluation mode and to float64; a function must take float64.

    References:
        G. Arvanitidis, L. K. Hansen, S. Hauberg, arXiv:1710.11379.
    """

    def __init__(self, decoder: Callable[[Tensor], Tensor]) -> None:
        self.decoder = _prepared(decoder)

    def decode(self, z: Tensor) -> Tensor:
        """Return D(z) flattened to shape (n, D).

        Raises:
            InputError: A decoded value is not finite, or the number of rows changes.
        """
        return _checked(self.decoder(z), z)

    def __call__(self, x: Tensor, y: Tensor) -> Tensor:
        """Return |D(x) - D(y)|^2, shape (n,)."""
        return (self.decode(x) - self.decode(y)).square().sum(-1)

    def edge_jacobians(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        """Return the Jacobians of D at x and at y, shape (n, D, l)."""
        return self.jacobian(x), self.jacobian(y)

    def jacobian(self, z: Tensor) -> Tensor:
        """Return the Jacobian of D, shape (n, D, l)."""
        found: Tensor = torch.func.vmap(torch.func.jacfwd(lambda row: self.decoder(row[None])[0].reshape(-1)))(z)
        return found


class KLMetric(Metric):
    r"""Divergence of decoded Gaussians, :math:`W(x, y) = 2\,\mathrm{KL}(N(m_x, s_x^2) \,\|\, N(m_y, s_y^2))`.

    The factor two gives :math:`g = |dm / s|^2 + 2 |d \log s|^2`, the Fisher metric. W is not symmetric: a path and its
    reverse have energies that differ by O(1/K).

    Args:
        decoder: From codes (n, l) to the pair (mean, log variance), each of shape (n, ...); copied as by
            :class:`PullbackMetric`.
        factor: Multiplies the divergence.
    """

    def __init__(self, decoder: Callable[[Tensor], tuple[Tensor, Tensor]], factor: float = 2.0) -> None:
        self.decoder = _prepared(decoder)
        self.factor = factor

    def decode(self, z: Tensor) -> tuple[Tensor, Tensor]:
        """Return means and log standard deviations, each of shape (n, D).

        Raises:
            InputError: A decoded value is not finite, or the number of rows changes.
        """
        mean, log_variance = self.decoder(z)
        return _checked(mean, z), 0.5 * _checked(log_variance, z)

    def __call__(self, x: Tensor, y: Tensor) -> Tensor:
        """Return the scaled divergence, shape (n,)."""
        (mean_x, log_x), (mean_y, log_y) = self.decode(x), self.decode(y)
        ratio = 2 * (log_x - log_y)
        spread = (mean_x - mean_y).square() * torch.exp(-2 * log_y)
        return 0.5 * self.factor * (torch.expm1(ratio) - ratio + spread).sum(-1)

    def edge_jacobians(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        """Return the Jacobians of (m / s, sqrt(2) log s), s held fixed between x and y, shape (n, 2 D, l)."""

        def both(row: Tensor) -> Tensor:
            mean, log_variance = self.decoder(row[None])
            return torch.stack([mean[0].reshape(-1), 0.5 * log_variance[0].reshape(-1)])

        jacobian = torch.func.vmap(torch.func.jacfwd(both))
        inverse = torch.exp(-0.5 * (self.decode(x)[1] + self.decode(y)[1]))[..., None]
        scale = math.sqrt(self.factor / 2)

        def feature(found: Tensor) -> Tensor:
            return scale * torch.cat([found[:, 0] * inverse, math.sqrt(2) * found[:, 1]], dim=1)

        return feature(jacobian(x)), feature(jacobian(y))


def _prepared(decoder: Callable[[Tensor], Any]) -> Callable[[Tensor], Any]:
    if isinstance(decoder, torch.nn.Module):
        decoder = copy.deepcopy(decoder).double().eval().requires_grad_(False)
    return decoder


def _checked(values: Tensor, codes: Tensor) -> Tensor:
    if values.shape[:1] != codes.shape[:1]:
        raise InputError(
            f"The decoder turned {codes.shape[0]} codes into shape {tuple(values.shape)}; it must keep the first axis."
        )
    if not torch.isfinite(values).all():
        raise InputError("The decoder returned a value that is not finite; check it on the path's codes.")
    return values.reshape(values.shape[0], -1)
