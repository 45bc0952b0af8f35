r"""The mathematics of one layer: the flow of its modes, empirical-Bayes friction, the gauge, and the closed forms.

An update is :math:`M = B A^\top` with modes :math:`b_i a_i^\top`, energies :math:`e_i = |b_i|^2 + |a_i|^2` and
:math:`D = m + n`. In the balanced gauge :math:`|b_i|^2 = |a_i|^2 = \sigma_i`, and under the gradient flow of loss and
friction

.. math:: \dot\sigma_i = 2 \sigma_i (g_i - \gamma_i), \qquad g_i = -u_i^\top (\nabla_M L) v_i, \quad
          \gamma_i = \tfrac{T}{N} \alpha_i :

a mode grows where the data pull harder than its friction, and dies exponentially elsewhere.

References:
    Xi, Yu, Ren and Lai (2026). SBVI: Spectral Bridge Variational Inference. ICML.
    Lambert, Chewi, Bach, Bonnabel and Rigollet (2022). Variational inference via Wasserstein gradient flows.
    arXiv:2205.15902.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

EPSILON = 1e-4  # energy below which the friction of a mode stops rising


@dataclass(frozen=True)
class Balanced:
    """Factors whose columns are singular pairs, and the maps that led there.

    Args:
        left: B, shape (m, r), with B'B = diag(sigma).
        right: A, shape (n, r), with A'A = diag(sigma).
        sigma: Singular values of B A', falling, shape (r,).
        left_map: B = old B @ left_map, shape (r, r); gradients of A follow it.
        right_map: A = old A @ right_map, shape (r, r); gradients of B follow it.
    """

    left: Tensor
    right: Tensor
    sigma: Tensor
    left_map: Tensor
    right_map: Tensor


def balance(left: Tensor, right: Tensor) -> Balanced:
    r"""Fix the gauge: the same product, with orthogonal columns of equal length on both sides.

    .. math:: B = Q_B R_B, \; A = Q_A R_A, \; R_B R_A^\top = U S V^\top, \; B \leftarrow Q_B U S^{1/2}, \;
              A \leftarrow Q_A V S^{1/2}

    Args:
        left: B, float, shape (m, r).
        right: A, float, shape (n, r).

    Returns:
        Factors in the dtype given; the small matrices are computed in float64. Cost O((m + n) r^2).
    """
    left_q, left_r = torch.linalg.qr(left.double())
    right_q, right_r = torch.linalg.qr(right.double())
    rank = left.shape[1]
    u, core, vt = torch.linalg.svd(left_r @ right_r.T, full_matrices=False)
    # Where r exceeds a side of the matrix, the modes beyond it are exactly zero.
    missing = rank - core.shape[0]
    u, v = (torch.nn.functional.pad(side, (0, missing)) for side in (u, vt.T))
    sigma = torch.nn.functional.pad(core, (0, missing))
    root = sigma.sqrt()
    inverse = torch.where(root > 0, 1 / root.clamp_min(1e-300), torch.zeros_like(root))
    kind = left.dtype
    return Balanced(
        left=(left_q @ u * root).to(kind),
        right=(right_q @ v * root).to(kind),
        sigma=sigma.to(kind),
        left_map=(right_r.T @ v * inverse).to(kind),
        right_map=(left_r.T @ u * inverse).to(kind),
    )


def effective_rank(sigma: Tensor) -> float:
    r"""Return :math:`\exp(-\sum_i p_i \log p_i)` with :math:`p_i = \sigma_i / \sum_j \sigma_j`; 0 for no modes.

    Args:
        sigma: Singular values, not negative, shape (r,).
    """
    total = float(sigma.sum())
    if not total > 0:
        return 0.0
    shares = sigma.double() / total
    return math.exp(float(torch.special.entr(shares).sum()))


def mode_precision(energy: Tensor, dimension: int, variance: Tensor | float = 0.0, epsilon: float = EPSILON) -> Tensor:
    r"""Return the precision of each mode's prior by type-II maximum likelihood.

    .. math:: \alpha_i = \frac{D}{e_i + D v_i + \epsilon}

    Args:
        energy: e, shape (r,).
        dimension: D = m + n.
        variance: v, mean posterior variance of a mode's entries, shape (r,) or one number; 0 is the MAP estimate.
        epsilon: Energy below which the precision saturates.
    """
    return dimension / (energy + dimension * variance + epsilon)


def friction_penalty(left: Tensor, right: Tensor, strength: float, epsilon: float = 0.0) -> Tensor:
    r"""Return the thermodynamic loss of one layer; its gradient is that of :math:`\tfrac{T D}{2N} \sum_i \log e_i`.

    .. math:: R = \frac{T}{N} \sum_i \tfrac12 \, \mathrm{stop}(\alpha_i) \, e_i

    Args:
        left: B, shape (m, r).
        right: A, shape (n, r).
        strength: T / N.
        epsilon: As in :func:`mode_precision`.
    """
    energy = left.square().sum(0) + right.square().sum(0)
    precision = mode_precision(energy.detach(), left.shape[0] + right.shape[0], epsilon=epsilon)
    return strength * 0.5 * (precision * energy).sum()


def implicit_friction(factor: Tensor, rate: float, gamma: Tensor) -> Tensor:
    r"""Return the factor after a backward-Euler step of friction, :math:`b_i / (1 + \eta \gamma_i)`, stable always.

    Args:
        factor: B or A, shape (m, r).
        rate: Step eta.
        gamma: Friction of each mode, not negative, shape (r,).
    """
    return factor / (1 + rate * gamma)


def law_constant(rows: int, columns: int, noise: float, targets: int, temperature: float = 1.0) -> float:
    r"""Return :math:`c = T (m + n) s^2 / (2 N)`, which sets the threshold :math:`2\sqrt c` of :func:`surviving`.

    At T = 1 the threshold :math:`s\sqrt{2 (m+n) / N}` lies at or above the edge of pure noise,
    :math:`s(\sqrt m + \sqrt n)/\sqrt N`, with equality for m = n.

    Args:
        rows: m.
        columns: n.
        noise: s, such that each observed entry has standard deviation s / sqrt(N).
        targets: N.
        temperature: T.
    """
    return temperature * (rows + columns) * noise**2 / (2 * targets)


def surviving(singular_values: Tensor, constant: float) -> Tensor:
    r"""Return what empirical-Bayes friction leaves of the singular values of a noisy matrix.

    .. math:: \sigma = \begin{cases} \tfrac12 \bigl(s + \sqrt{s^2 - 4c}\bigr) & s \ge 2\sqrt c \\ 0 & \text{else}
              \end{cases}

    The flow reaches this from above the unstable point :math:`\tfrac12 (s - \sqrt{s^2 - 4c})`; from below it a mode
    dies whatever its s, which is why friction is best brought in after the modes have grown.

    Args:
        singular_values: s, shape (k,).
        constant: c of :func:`law_constant`.
    """
    kept = singular_values >= 2 * math.sqrt(constant)
    inside = (singular_values.square() - 4 * constant).clamp_min(0)
    return torch.where(kept, (singular_values + inside.sqrt()) / 2, torch.zeros_like(singular_values))


def constant_friction_path(time: float, signal: float, gamma: float, start: float) -> float:
    r"""Return the singular value at `time` under constant friction, where weight decay leads.

    .. math:: \dot\sigma = 2\sigma (s - \gamma - \sigma), \qquad
              \sigma(t) = \frac{a}{1 + (a / \sigma_0 - 1) e^{-2 a t}}, \; a = s - \gamma

    Its limit is the soft threshold max(s - gamma, 0).

    Args:
        time: t.
        signal: s, the singular value of the data.
        gamma: Friction; not equal to s.
        start: Singular value at time 0, positive.
    """
    gap = signal - gamma
    return gap / (1 + (gap / start - 1) * math.exp(-2 * gap * time))


def gaussian_flow(
    gradient: Callable[[Tensor, Tensor], Tensor],
    hessian: Callable[[Tensor, Tensor], Tensor],
    mean: Tensor,
    covariance: Tensor,
    *,
    step: float,
    steps: int,
) -> tuple[Tensor, Tensor]:
    r"""Follow the Bures-Wasserstein gradient flow of KL(q | exp(-V)) over Gaussians q = N(mean, covariance).

    .. math:: \dot m = -E_q[\nabla V], \qquad \dot\Sigma = 2 I - \Sigma E_q[\nabla^2 V] - E_q[\nabla^2 V] \Sigma

    The covariance is moved by the exponential-free retraction :math:`(I + h X) \Sigma (I + h X)`,
    :math:`X = \Sigma^{-1} - E_q[\nabla^2 V]`, so that it stays positive definite.

    Args:
        gradient: (mean, covariance) -> E_q[grad V], shape (d,).
        hessian: (mean, covariance) -> E_q[Hess V], shape (d, d).
        mean: Start, shape (d,).
        covariance: Start, positive definite, shape (d, d).
        step: Time step h.
        steps: How many.
    """
    identity = torch.eye(mean.shape[0], dtype=mean.dtype)
    for _ in range(steps):
        slope, curvature = gradient(mean, covariance), hessian(mean, covariance)
        move = identity + step * (torch.linalg.inv(covariance) - curvature)
        mean = mean - step * slope
        covariance = move @ covariance @ move.T
        covariance = (covariance + covariance.T) / 2
    return mean, covariance
