r"""The exact minimiser of the denoising loss over a finite set of codes.

With noise of standard deviation :math:`\sigma` and codes :math:`z_j` of weight :math:`\omega_j`, the minimiser of
:math:`E|\Pi(z + \sigma\epsilon) - z|^2` is the posterior mean

.. math:: \Pi_\sigma(y) = \sum_j p_j z_j, \quad p = \operatorname{softmax}(\log\omega_j - |y - z_j|^2 / 2\sigma^2),
          \qquad J_\Pi = \operatorname{Cov}_p(z) / \sigma^2,

and :math:`\nabla^2 (w \cdot \Pi)` is the third central moment over :math:`\sigma^4`. By Tweedie's formula
:math:`\Pi_\sigma(y) - y = \sigma^2 \nabla \log p_\sigma(y)`.

References:
    F. Hartwig, J. Sassen, J. Braunsmann, M. Rumpf, B. Wirth, arXiv:2510.09468.
    B. Efron, Tweedie's Formula and Selection Bias, JASA 2011.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from workingpapers.sampling.latent_manifold.constraints import Constraint

CELLS = 4_000_000  # entries of one table of posterior weights


class KernelConstraint(Constraint):
    r""":math:`\zeta(z) = z - \Pi_\sigma(z)` of the kernel projector, with closed-form derivatives.

    Args:
        codes: Shape (N, l).
        sigma: Noise, in units of the codes.
        log_weights: Logarithms of the codes' weights, shape (N,), or None.
    """

    def __init__(self, codes: Tensor, sigma: float, log_weights: Tensor | None = None) -> None:
        self.codes = codes
        self.sigma = sigma
        self.log_weights = log_weights
        self._norms = codes.square().sum(-1)

    def __call__(self, z: Tensor) -> Tensor:
        """Return z - Pi(z), shape (n, l)."""
        return z - self.project(z)

    def project(self, z: Tensor) -> Tensor:
        """Return Pi(z), shape (n, l)."""
        return self._blocks(lambda block: self._posterior(block) @ self.codes, z)

    def jacobian(self, z: Tensor) -> Tensor:
        """Return I - Cov / sigma^2, shape (n, l, l)."""
        identity = torch.eye(z.shape[-1], dtype=z.dtype, device=z.device)
        return identity - self._blocks(self._covariance, z) / self.sigma**2

    def curvature(self, z: Tensor, weights: Tensor) -> Tensor:
        """Return minus the third central moment along `weights` over sigma^4, shape (n, l, l)."""
        return -self._blocks(self._third, z, weights) / self.sigma**4

    def _posterior(self, z: Tensor) -> Tensor:
        logits = (2 * z @ self.codes.T - self._norms) / (2 * self.sigma**2)
        return torch.softmax(logits if self.log_weights is None else logits + self.log_weights, dim=-1)

    def _covariance(self, z: Tensor) -> Tensor:
        posterior = self._posterior(z)
        return _moment(posterior, self.codes, posterior @ self.codes)

    def _third(self, z: Tensor, weights: Tensor) -> Tensor:
        posterior = self._posterior(z)
        mean = posterior @ self.codes
        tilt = posterior * (weights @ self.codes.T - (weights * mean).sum(-1, keepdim=True))
        return _moment(tilt, self.codes, mean)

    def _blocks(self, function: Callable[..., Tensor], *arguments: Tensor) -> Tensor:
        step = max(1, CELLS // len(self.codes))
        pieces = zip(*(torch.split(argument, step) for argument in arguments), strict=True)
        return torch.cat([function(*piece) for piece in pieces])


def _moment(masses: Tensor, codes: Tensor, mean: Tensor) -> Tensor:
    """Return sum_j masses_j (z_j - mean)(z_j - mean)^T, shape (n, l, l)."""
    left, right = torch.triu_indices(codes.shape[1], codes.shape[1])
    second = masses @ (codes[:, left] * codes[:, right])
    first, total = masses @ codes, masses.sum(-1, keepdim=True)
    full = torch.empty(len(masses), codes.shape[1], codes.shape[1], dtype=codes.dtype, device=codes.device)
    full[:, left, right], full[:, right, left] = second, second
    cross = first[:, :, None] * mean[:, None, :]
    return full - cross - cross.mT + total[..., None] * mean[:, :, None] * mean[:, None, :]
