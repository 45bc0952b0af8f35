r"""Marginal losses of flow maps: MeanFlow, shortcut models, and contrastive flow matching (Delta-FM) as a baseline.

Every loss takes a network ``u(z, r, t[, c])`` (:mod:`.flow_map`) and a batch of data, draws noise and times from a
generator and returns a scalar with a dictionary of detached parts.

References:
    Z. Geng et al., Mean Flows for One-step Generative Modeling, arXiv:2505.13447. K. Frans et al., One Step Diffusion
    via Shortcut Models, arXiv:2410.12557. G. Stoica et al., Contrastive Flow Matching, arXiv:2506.05350.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from workingpapers.foundations.errors import InputError
from workingpapers.sampling.contrastive_flow_map.flow_map import (
    Network,
    average_velocity,
    check_times,
    fit,
    interpolate,
    normal_like,
    uniform_like,
)

Parts = dict[str, Tensor]
Derivative = Literal["func", "finite_difference"]
TimeLaw = Literal["logit_normal", "uniform"]
STEP = 5e-3


def draw_times(
    x: Tensor, *, law: TimeLaw = "logit_normal", equal: float = 0.75, generator: torch.Generator | None = None
) -> tuple[Tensor, Tensor]:
    """Return times r <= t: of two draws the smaller and the larger one, and r = t in a share of the rows.

    Args:
        x: Data, shape (b, ...), whose number of rows, dtype and device the times take.
        law: logit_normal, the sigmoid of N(-0.4, 1), or uniform on [0, 1].
        equal: Share of rows with r = t, which train the instantaneous velocity.
        generator: Source of the draws.

    Returns:
        r and t, each of shape (b,).
    """
    if law == "uniform":
        first, second = uniform_like(x, generator), uniform_like(x, generator)
    else:
        one_a_row = x.flatten(1)[:, 0]
        first, second = (torch.sigmoid(normal_like(one_a_row, generator) - 0.4) for _ in range(2))
    t, r = torch.maximum(first, second), torch.minimum(first, second)
    same = torch.arange(len(x), device=x.device) < round(equal * len(x))
    return torch.where(same, t, r), t


def total_derivative(
    network: Network,
    z: Tensor,
    r: Tensor,
    t: Tensor,
    velocity: Tensor,
    condition: Tensor | None = None,
    *,
    jvp: Derivative = "func",
    step: float = STEP,
) -> Tensor:
    r"""Return the derivative of u along the path, r held: v . grad_z u + du/dt, without gradient.

    Args:
        network: u.
        z: Points, shape (b, ...).
        r: Shape (b,).
        t: Shape (b,).
        velocity: v, shape of `z`.
        condition: Labels, or None.
        jvp: func, forward-mode differentiation (:func:`torch.func.jvp`), or finite_difference, for networks with
            kernels that have no forward mode: central, one-sided where a neighbour time would leave [r, 1].
        step: Half width of the difference, in time.

    Returns:
        Shape of `z`, detached.
    """

    def moved(points: Tensor, times: Tensor) -> Tensor:
        return average_velocity(network, points, r, times, condition)

    with torch.no_grad():
        if jvp == "func":
            found: Tensor = torch.func.jvp(moved, (z, t), (velocity, torch.ones_like(t)))[1]
            return found.detach()
        if jvp != "finite_difference":
            raise InputError(f"jvp is {jvp!r}; choose 'func' or 'finite_difference'.")
        before, after = torch.maximum(t - step, r), (t + step).clamp_max(1)
        rise = moved(z + fit(after - t, z) * velocity, after) - moved(z + fit(before - t, z) * velocity, before)
        return rise / fit((after - before).clamp_min(1e-6), z)


def meanflow_target(
    network: Network,
    z: Tensor,
    r: Tensor,
    t: Tensor,
    velocity: Tensor,
    condition: Tensor | None = None,
    *,
    jvp: Derivative = "func",
) -> Tensor:
    r"""Return the target v - (t - r) du/dt of the MeanFlow identity, without gradient.

    Rows with r = t get v exactly, and their derivative is not computed.

    Args:
        network: u.
        z: Points, shape (b, ...).
        r: Shape (b,).
        t: Shape (b,).
        velocity: v = noise - x, shape of `z`.
        condition: Labels, shape (b, ...), or None.
        jvp: See :func:`total_derivative`.

    Returns:
        Shape of `z`, detached.
    """
    target = velocity.detach().clone()
    rows = (t > r).nonzero().squeeze(1)
    if len(rows):
        labels = None if condition is None else condition[rows]
        slope = total_derivative(network, z[rows], r[rows], t[rows], velocity[rows], labels, jvp=jvp)
        target[rows] -= fit(t[rows] - r[rows], z) * slope
    return target.detach()


def meanflow_loss(
    network: Network,
    x: Tensor,
    condition: Tensor | None = None,
    *,
    times: tuple[Tensor, Tensor] | None = None,
    noise: Tensor | None = None,
    law: TimeLaw = "logit_normal",
    equal: float = 0.75,
    power: float = 1.0,
    softening: float = 0.01,
    jvp: Derivative = "func",
    repulsion: float = 0.0,
    generator: torch.Generator | None = None,
) -> tuple[Tensor, Parts]:
    r"""Return the regression on average velocities (MeanFlow), adaptively weighted.

    .. math:: \ell = \|u(z_t, r, t) - \mathrm{sg}(v - (t-r)\,\tfrac{d}{dt} u)\|^2, \qquad
              L = \mathrm{mean}\; \ell / \mathrm{sg}(\ell + c)^p

    Args:
        network: u.
        x: Data, shape (b, ...).
        condition: Labels, shape (b, ...), or None.
        times: r and t, shape (b,) each; drawn by :func:`draw_times` by default.
        noise: Shape of `x`; standard Gaussian by default.
        law: Law of the times.
        equal: Share of rows with r = t.
        power: p of the adaptive weight; 0 for the plain squared error.
        softening: c of the adaptive weight.
        jvp: See :func:`total_derivative`.
        repulsion: Weight of Delta-FM's repulsion from the velocity of another row, in rows with r = t; 0 for none.
        generator: Source of times and noise.

    Returns:
        The loss, shape (), and its parts: "squared_error", the mean of l.

    Raises:
        InputError: Times outside 0 <= r <= t <= 1, or a network that returns another shape.
    """
    r, t = draw_times(x, law=law, equal=equal, generator=generator) if times is None else times
    check_times(r, t)
    noise = normal_like(x, generator) if noise is None else noise
    velocity, z = noise - x, interpolate(x, noise, t)
    target = meanflow_target(network, z, r, t, velocity, condition, jvp=jvp)
    found = average_velocity(network, z, r, t, condition)
    error = _square(found - target)
    weight = (error.detach() + softening) ** -power
    wanted = error
    if repulsion:
        wanted = error - repulsion * (r == t) * _square(found - velocity.roll(1, 0))
    return (weight * wanted).mean(), {"squared_error": error.detach().mean()}


def shortcut_loss(
    network: Network,
    x: Tensor,
    condition: Tensor | None = None,
    *,
    teacher: Network | None = None,
    share: float = 0.25,
    levels: int = 7,
    generator: torch.Generator | None = None,
) -> tuple[Tensor, Parts]:
    r"""Return the loss of shortcut models: flow matching, and in a share of the rows one step against two half steps.

    .. math:: u(z_t, t - 2d, t) \approx \mathrm{sg}\,\tfrac12 \bigl[u(z_t, t-d, t)
              + u(X_{t \to t-d}(z_t), t - 2d, t - d)\bigr]

    Args:
        network: u, in this folder's convention (:func:`from_shortcut` turns a shortcut model into it).
        x: Data, shape (b, ...).
        condition: Labels, shape (b, ...), or None.
        teacher: Network of the targets, usually the moving average; `network` itself by default.
        share: Share of rows with half steps.
        levels: Step sizes 2d = 1, 1/2, ..., 2^(1 - levels).
        generator: Source of times and noise.

    Returns:
        The loss, shape (), and its parts "flow_matching" and "consistency".

    Raises:
        InputError: A share outside (0, 1], fewer than one level, or a network that returns another shape.
    """
    if not 0 < share <= 1 or levels < 1:
        raise InputError(f"share is {share:g} and levels {levels}; give a share in (0, 1] and 1 or more levels.")
    count = max(1, round(share * len(x)))
    noise = normal_like(x, generator)
    velocity, t = noise - x, uniform_like(x, generator)
    level = torch.floor(uniform_like(x[:count], generator) * levels)
    size = 2.0**-level
    place = torch.floor(uniform_like(x[:count], generator) * 2.0**level)
    t = torch.cat([(place + 1) * size, t[count:]])
    r = torch.cat([t[:count] - size, t[count:]])
    z = interpolate(x, noise, t)
    with torch.no_grad():
        labels = None if condition is None else condition[:count]
        target = _two_halves(teacher or network, z[:count], t[:count], size / 2, labels)
    found = average_velocity(network, z, r, t, condition)
    error = _square(found - torch.cat([target, velocity[count:]]))
    parts = {"flow_matching": error[count:].detach().mean(), "consistency": error[:count].detach().mean()}
    return error.mean(), parts


def delta_flow_matching_loss(
    network: Network,
    x: Tensor,
    condition: Tensor | None = None,
    *,
    weight: float = 0.05,
    generator: torch.Generator | None = None,
) -> tuple[Tensor, Parts]:
    r"""Return contrastive flow matching (Delta-FM): towards the own velocity, away from that of another row.

    .. math:: |\hat v - v|^2 - \lambda |\hat v - \tilde v|^2

    In expectation over the other row this is :math:`(1-\lambda) |\hat v - (v - \lambda E \tilde v)/(1-\lambda)|^2` and
    a constant: an affine change of the target, which aligns nothing with sampling. A baseline.

    Args:
        network: u; only u(z, t, t) is trained.
        x: Data, shape (b, ...); the other row is the one before.
        condition: Labels, shape (b, ...), or None.
        weight: lambda, in [0, 1).
        generator: Source of times and noise.

    Returns:
        The loss, shape (), and its parts "attraction" and "repulsion", mean squared errors.

    Raises:
        InputError: A weight outside [0, 1), or fewer than two rows.
    """
    if not 0 <= weight < 1 or len(x) < 2:
        raise InputError(f"weight is {weight:g} for {len(x)} rows; give a weight in [0, 1) and two or more rows.")
    t = uniform_like(x, generator)
    noise = normal_like(x, generator)
    found = average_velocity(network, interpolate(x, noise, t), t, t, condition)
    velocity = noise - x
    near, far = _square(found - velocity).mean(), _square(found - velocity.roll(1, 0)).mean()
    return near - weight * far, {"attraction": near.detach(), "repulsion": far.detach()}


def _two_halves(network: Network, z: Tensor, t: Tensor, half: Tensor, condition: Tensor | None) -> Tensor:
    middle = t - half
    first = average_velocity(network, z, middle, t, condition)
    reached = z - fit(half, z) * first
    return (first + average_velocity(network, reached, middle - half, middle, condition)) / 2


def _square(difference: Tensor) -> Tensor:
    return difference.flatten(1).square().sum(1)
