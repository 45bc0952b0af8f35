r"""Gradient path matching: the relaxed choice, the look-ahead step and the loss that trains the policy.

With the 0/1 mask m of the chosen items S and all observed answers Q of an examinee,

.. math:: L_{GM}(\theta) = \Big\|\tfrac{1}{|S|}\sum_{i \in S} \nabla\ell_i(\theta)
          - \tfrac{1}{|Q|}\sum_{i \in Q} \nabla\ell_i(\theta)\Big\|_2

at the ability :math:`\theta'(m)` that the chosen answers give (the path), or at fixed abilities (the global target).
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from workingpapers.evaluation.adaptive_testing.policy import ResponseModel


def straight_through(scores: Tensor, temperature: float, noise: Tensor) -> Tensor:
    r"""Return a one-hot choice whose gradient is that of the Gumbel softmax.

    Args:
        scores: Masked scores, shape (B, n); minus infinity where an item may not be asked.
        temperature: Of the softmax.
        noise: Standard Gumbel noise, shape (B, n).

    Returns:
        Shape (B, n), exactly one-hot; its gradient is that of :math:`\mathrm{softmax}((s + g)/\tau)`, which sums to
        zero over items for a constant upstream gradient.
    """
    soft = torch.softmax((scores + noise) / temperature, dim=1)
    hard = torch.zeros_like(soft).scatter_(1, soft.argmax(dim=1, keepdim=True), 1.0)
    # In this order the forward value is hard itself, without rounding.
    return hard + (soft - soft.detach())


def gumbel(shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
    """Return standard Gumbel noise of `shape`."""
    uniform = torch.rand(shape, generator=generator).clamp(1e-9, 1 - 1e-7)
    return -torch.log(-torch.log(uniform))


def matching_loss(
    model: ResponseModel, theta: Tensor, responses: Tensor, mask: Tensor, observed: Tensor, prior: bool = False
) -> Tensor:
    """Return L_GM of each examinee, shape (B,).

    Args:
        model: The items.
        theta: Abilities, shape (B, d).
        responses: 0 or 1, shape (B, n); whatever stands where `observed` is 0 has no effect.
        mask: Chosen items, shape (B, n).
        observed: Q, shape (B, n).
        prior: Add the gradient of the standard normal prior to both sums. At the mode of S the first mean is then zero
            and the loss is the gradient of Q's posterior, which bounds the error: |theta_S - theta_Q| <= |Q| L_GM / mu
            with mu the least curvature between them.
    """
    residual = model.residuals(theta, responses)
    weight = mask / mask.sum(dim=1, keepdim=True) - observed / observed.sum(dim=1, keepdim=True)
    difference = (weight * residual) @ model.slope
    if prior:
        difference = difference + theta * (1 / mask.sum(dim=1, keepdim=True) - 1 / observed.sum(dim=1, keepdim=True))
    # The norm of a zero vector has no gradient; its square has.
    return torch.sqrt((difference**2).sum(dim=1) + 1e-12)


def newton_step(model: ResponseModel, theta: Tensor, responses: Tensor, mask: Tensor) -> Tensor:
    r"""Return one Fisher-scoring step towards the posterior mode of the masked answers, shape (B, d).

    Differentiable in `mask`. Taken at the mode itself it leaves the ability where it is, and its derivative is the
    implicit one, :math:`\partial\theta / \partial m_i = -H^{-1} \nabla\ell_i`: the limit of unrolling to convergence.

    Args:
        model: The items.
        theta: Abilities, shape (B, d).
        responses: 0 or 1, shape (B, n).
        mask: Chosen items, shape (B, n).
    """
    gradient = (mask * model.residuals(theta, responses)) @ model.slope + theta
    weight = mask * model.weights(theta)
    identity = torch.eye(theta.shape[1], dtype=theta.dtype)
    precision = torch.einsum("bn,nd,ne->bde", weight, model.slope, model.slope) + identity
    if theta.shape[1] == 1:
        return theta - gradient / precision[:, :, 0]
    step: Tensor = torch.linalg.solve(precision, gradient[:, :, None])
    return theta - step[:, :, 0]


def gradient_step(model: ResponseModel, theta: Tensor, responses: Tensor, mask: Tensor, rate: float) -> Tensor:
    """Return theta minus `rate` times the gradient of the masked answers' loss, shape (B, d): the paper's inner step.

    Args:
        model: The items.
        theta: Abilities, shape (B, d).
        responses: 0 or 1, shape (B, n).
        mask: Chosen items, shape (B, n).
        rate: Inner learning rate.
    """
    return theta - rate * (mask * model.residuals(theta, responses)) @ model.slope


def finite_difference_gradient(
    outer: Callable[[Tensor], Tensor],
    inner: Callable[[Tensor], Tensor],
    theta: Tensor,
    parameters: list[Tensor],
    rate: float,
    step: float,
) -> list[Tensor]:
    r"""Return the gradient of outer(theta - rate * grad inner(theta)) in `parameters` without second derivatives.

    .. math:: \nabla_\phi L(\theta', \phi) - \xi\,
              \frac{\nabla_\phi l(\theta^+, \phi) - \nabla_\phi l(\theta^-, \phi)}{2\epsilon},
              \qquad \theta^\pm = \theta \pm \epsilon \nabla_{\theta'} L(\theta', \phi)

    For abilities of few dimensions the exact gradient through the step costs no more; this is for large ones.

    Args:
        outer: Ability -> scalar loss L, which may also depend on the parameters directly.
        inner: Ability -> scalar loss l, likewise.
        theta: Ability before the step, any shape.
        parameters: What to differentiate in.
        rate: Length xi of the inner step.
        step: Length of theta+ minus theta, that is epsilon times the norm of the outer gradient.
    """
    leaf = theta.detach().requires_grad_()
    (slope,) = torch.autograd.grad(inner(leaf), leaf)
    ahead = (theta - rate * slope).detach().requires_grad_()
    direct = torch.autograd.grad(outer(ahead), [ahead, *parameters], allow_unused=True)
    direction = direct[0]
    assert direction is not None
    epsilon = step / float(direction.norm().clamp_min(1e-30))
    sides = [
        torch.autograd.grad(inner(theta.detach() + sign * epsilon * direction), parameters, allow_unused=True)
        for sign in (1.0, -1.0)
    ]
    found = []
    for parameter, own, plus, minus in zip(parameters, direct[1:], *sides, strict=True):
        total = torch.zeros_like(parameter) if own is None else own
        if plus is not None and minus is not None:
            total = total - rate * (plus - minus) / (2 * epsilon)
        found.append(total)
    return found
