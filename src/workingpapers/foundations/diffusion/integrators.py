r"""Integrators of ordinary and stochastic differential equations along increasing times.

A drift is called as ``drift(x, t)`` with points of shape (b, ...) and a time of shape (), and returns the shape of the
points; a diffusion coefficient is a number or a function of the time alone. Nothing is differentiated through.

References:
    P. E. Kloeden and E. Platen, Numerical Solution of Stochastic Differential Equations, Springer 1992.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from workingpapers.foundations.errors import InputError
from workingpapers.foundations.manifolds import Manifold
from workingpapers.foundations.progress import Progress, silent

Drift = Callable[[Tensor, Tensor], Tensor]
Coefficient = float | Callable[[Tensor], Tensor]


@torch.no_grad()
def euler_maruyama(
    drift: Drift,
    start: Tensor,
    times: Tensor,
    *,
    diffusion: Coefficient,
    last_noise: bool = True,
    keep_path: bool = False,
    generator: torch.Generator | None = None,
    progress: Progress = silent,
) -> Tensor:
    r"""Integrate dX = u(X, t) dt + g(t) dW by x + h u(x, t) + sqrt(h) g(t) xi.

    Args:
        drift: u.
        start: Points at times[0], shape (b, ...).
        times: Increasing times, shape (steps + 1,).
        diffusion: g.
        last_noise: Whether the last step adds its noise; without, the samples are sharper by it.
        keep_path: Whether to return every state.
        generator: Source of the noise.
        progress: Told of the share done.

    Returns:
        The last points, shape (b, ...), or the whole path, shape (steps + 1, b, ...).

    Raises:
        InputError: When times do not increase or a state stops being finite.
    """

    def advance(x: Tensor, t: Tensor, h: Tensor, last: bool) -> Tensor:
        moved = x + h * drift(x, t)
        if last and not last_noise:
            return moved
        return moved + h.sqrt() * _value(diffusion, t) * _noise(x, generator)

    return _walk(advance, start, times, keep_path, progress)


@torch.no_grad()
def geodesic_euler_maruyama(
    drift: Drift,
    start: Tensor,
    times: Tensor,
    *,
    manifold: Manifold,
    diffusion: Coefficient,
    last_noise: bool = True,
    keep_path: bool = False,
    generator: torch.Generator | None = None,
    progress: Progress = silent,
) -> Tensor:
    """Integrate on a manifold by exp_x(h u + sqrt(h) g xi) with tangent drift and tangent Gaussian noise.

    Args:
        drift: u, tangent at its points.
        start: Points of the manifold at times[0], shape (b, ambient).
        times: Increasing times, shape (steps + 1,).
        manifold: The manifold.
        diffusion: g.
        last_noise: Whether the last step adds its noise.
        keep_path: Whether to return every state.
        generator: Source of the noise.
        progress: Told of the share done.

    Returns:
        As :func:`euler_maruyama`.
    """

    def advance(x: Tensor, t: Tensor, h: Tensor, last: bool) -> Tensor:
        step = h * drift(x, t)
        if not last or last_noise:
            step = step + h.sqrt() * _value(diffusion, t) * manifold.noise(x, generator)
        return manifold.exp(x, step)

    return _walk(advance, start, times, keep_path, progress)


@torch.no_grad()
def heun(
    velocity: Drift, start: Tensor, times: Tensor, *, keep_path: bool = False, progress: Progress = silent
) -> Tensor:
    """Integrate dx/dt = v(x, t) by Heun's second-order rule, two evaluations a step.

    Args:
        velocity: v.
        start: Points at times[0], shape (b, ...).
        times: Increasing times, shape (steps + 1,).
        keep_path: Whether to return every state.
        progress: Told of the share done.

    Returns:
        As :func:`euler_maruyama`.
    """

    def advance(x: Tensor, t: Tensor, h: Tensor, last: bool) -> Tensor:
        first = velocity(x, t)
        second = velocity(x + h * first, t + h)
        return x + h * (first + second) / 2

    return _walk(advance, start, times, keep_path, progress)


@torch.no_grad()
def exponential_euler(
    drift: Drift,
    start: Tensor,
    times: Tensor,
    *,
    rate: float,
    diffusion: float,
    last_noise: bool = True,
    keep_path: bool = False,
    generator: torch.Generator | None = None,
    progress: Progress = silent,
) -> Tensor:
    r"""Integrate dX = (a X + b(X, t)) dt + g dW with the linear part exact.

    .. math:: x' = e^{ah} x + \frac{e^{ah} - 1}{a}\, b(x, t) + g \sqrt{\frac{e^{2ah} - 1}{2a}}\;\xi

    Args:
        drift: b, without the linear part.
        start: Points at times[0], shape (b, ...).
        times: Increasing times, shape (steps + 1,).
        rate: a, not zero.
        diffusion: g.
        last_noise: Whether the last step adds its noise.
        keep_path: Whether to return every state.
        generator: Source of the noise.
        progress: Told of the share done.

    Returns:
        As :func:`euler_maruyama`.

    Raises:
        InputError: When the rate is zero, times do not increase or a state stops being finite.
    """
    if rate == 0:
        raise InputError("exponential_euler needs a rate other than zero; euler_maruyama has no linear part.")

    def advance(x: Tensor, t: Tensor, h: Tensor, last: bool) -> Tensor:
        growth = math.expm1(rate * float(h))
        moved = (1 + growth) * x + growth / rate * drift(x, t)
        if last and not last_noise:
            return moved
        spread = diffusion * math.sqrt(math.expm1(2 * rate * float(h)) / (2 * rate))
        return moved + spread * _noise(x, generator)

    return _walk(advance, start, times, keep_path, progress)


@torch.no_grad()
def langevin_correction(
    score: Drift,
    x: Tensor,
    t: Tensor,
    *,
    step: float,
    steps: int = 1,
    generator: torch.Generator | None = None,
) -> Tensor:
    """Return points after Langevin steps at a fixed time: x + h s(x, t) + sqrt(2 h) xi."""
    for _ in range(steps):
        x = x + step * score(x, t) + math.sqrt(2 * step) * _noise(x, generator)
    return x


def _walk(
    advance: Callable[[Tensor, Tensor, Tensor, bool], Tensor],
    start: Tensor,
    times: Tensor,
    keep_path: bool,
    progress: Progress,
) -> Tensor:
    times = torch.as_tensor(times).to(start)
    if times.ndim != 1 or len(times) < 2 or not bool((times.diff() > 0).all()):
        raise InputError("The times of an integrator must increase, two of them at least.")
    x = start
    path = [x]
    for number in range(len(times) - 1):
        x = advance(x, times[number], times[number + 1] - times[number], number == len(times) - 2)
        if not bool(torch.isfinite(x).all()):
            raise InputError(
                f"The path left the finite numbers at step {number + 1} of {len(times) - 1}; take more steps, or "
                "bound the drift."
            )
        if keep_path:
            path.append(x)
        progress((number + 1) / (len(times) - 1), f"step {number + 1}")
    return torch.stack(path) if keep_path else x


def _value(coefficient: Coefficient, t: Tensor) -> Tensor | float:
    return coefficient(t) if callable(coefficient) else coefficient


def _noise(like: Tensor, generator: torch.Generator | None) -> Tensor:
    return torch.randn(like.shape, generator=generator, dtype=like.dtype, device=like.device)
