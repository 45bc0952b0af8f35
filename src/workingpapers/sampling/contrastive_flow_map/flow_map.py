r"""Flow maps: average velocities, jumps, sampling in few steps, and two conventions of time.

Time runs from data (t = 0) to noise (t = 1), the convention of MeanFlow and the reverse of
:mod:`workingpapers.foundations.diffusion`:

.. math:: z_t = (1-t)\,x + t\,\varepsilon, \qquad u(z_t, r, t) = \frac{1}{t-r} \int_r^t v(z_s, s)\,ds, \qquad
          X_{t \to r}(z) = z - (t-r)\,u(z, r, t)

A network is any callable ``u(z, r, t)`` or, with labels, ``u(z, r, t, c)``: points of shape (b, ...), times of shape
(b,), labels of shape (b, ...), and a result of the shape of the points.

References:
    Z. Geng et al., Mean Flows for One-step Generative Modeling, arXiv:2505.13447. K. Frans et al., One Step Diffusion
    via Shortcut Models, arXiv:2410.12557.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Protocol

import torch
from torch import Tensor

from workingpapers.foundations.errors import InputError

Network = Callable[..., Tensor]


class FlowMap(Protocol):
    """What samples in few steps: an average velocity, the jumps that it makes, and a sampler."""

    def u(self, z: Tensor, r: Tensor, t: Tensor, condition: Tensor | None = None) -> Tensor:
        """Return the average velocity, shape of `z`, from t down to r, times of shape (b,)."""

    def jump(self, z: Tensor, t: Tensor, r: Tensor, condition: Tensor | None = None) -> Tensor:
        """Return X_{t -> r}(z), shape of `z`."""

    def sample(
        self, count: int, *, steps: int | Sequence[float] = 1, generator: torch.Generator | None = None
    ) -> Tensor:
        """Return `count` samples, shape (count, ...)."""


@dataclass(frozen=True)
class NetworkFlowMap:
    """A :class:`FlowMap` around a network.

    Args:
        network: u(z, r, t[, c]).
        shape: Shape of one point.
    """

    network: Network
    shape: tuple[int, ...]

    def u(self, z: Tensor, r: Tensor, t: Tensor, condition: Tensor | None = None) -> Tensor:
        """Return the average velocity, shape of `z`."""
        return average_velocity(self.network, z, r, t, condition)

    def jump(self, z: Tensor, t: Tensor, r: Tensor, condition: Tensor | None = None) -> Tensor:
        """Return X_{t -> r}(z), shape of `z`."""
        return jump(self.network, z, t, r, condition)

    def sample(
        self,
        count: int,
        *,
        steps: int | Sequence[float] = 1,
        condition: Tensor | None = None,
        generator: torch.Generator | None = None,
    ) -> Tensor:
        """Return `count` samples, shape (count, ...), float32."""
        noise = torch.randn(count, *self.shape, generator=generator)
        return sample(self.network, noise, steps=steps, condition=condition)


def average_velocity(network: Network, z: Tensor, r: Tensor, t: Tensor, condition: Tensor | None = None) -> Tensor:
    """Return u(z, r, t[, c]) and see that its shape is that of the points.

    Args:
        network: u.
        z: Points, shape (b, ...).
        r: Earlier times, nearer to the data, shape (b,).
        t: Times of the points, shape (b,).
        condition: Labels, shape (b, ...), or None.

    Raises:
        InputError: The network returned another shape.
    """
    found = network(z, r, t) if condition is None else network(z, r, t, condition)
    if found.shape != z.shape:
        raise InputError(
            f"The network returned shape {tuple(found.shape)} for points of shape {tuple(z.shape)}; an average "
            "velocity has the shape of its points."
        )
    return found


def jump(network: Network, z: Tensor, t: Tensor, r: Tensor, condition: Tensor | None = None) -> Tensor:
    """Return the flow map X_{t -> r}(z) = z - (t - r) u(z, r, t).

    Args:
        network: u.
        z: Points at time t, shape (b, ...).
        t: Times of the points, shape (b,).
        r: Times to go to, shape (b,), 0 <= r <= t <= 1.
        condition: Labels, shape (b, ...), or None.

    Returns:
        Points at time r, shape (b, ...).

    Raises:
        InputError: r > t, or a time outside [0, 1].
    """
    check_times(r, t)
    return z - fit(t - r, z) * average_velocity(network, z, r, t, condition)


def interpolate(x: Tensor, noise: Tensor, t: Tensor) -> Tensor:
    """Return z_t = (1 - t) x + t noise.

    Args:
        x: Data, shape (b, ...).
        noise: Of the same shape.
        t: Times, shape (b,).
    """
    return fit(1 - t, x) * x + fit(t, x) * noise


@torch.no_grad()
def sample(
    network: Network, noise: Tensor, *, steps: int | Sequence[float] = 1, condition: Tensor | None = None
) -> Tensor:
    """Carry noise to data in few jumps.

    Args:
        network: u.
        noise: Standard Gaussian, shape (b, ...); points at the first time of a grid that does not start at 1.
        steps: Number of equal steps from 1 to 0, or the falling times to jump through.
        condition: Labels, shape (b, ...), or None.

    Returns:
        Samples, shape (b, ...).

    Raises:
        InputError: Fewer than one step, or times that do not fall within [0, 1].
    """
    if isinstance(steps, int):
        if steps < 1:
            raise InputError(f"The number of steps is {steps}; take 1 or more.")
        grid = [1 - k / steps for k in range(steps + 1)]
    else:
        grid = [float(time) for time in steps]
        falls = all(a > b for a, b in pairwise(grid))
        if len(grid) < 2 or not falls or grid[0] > 1 or grid[-1] < 0:
            raise InputError(f"The times are {grid}; give two or more that fall within [0, 1], as 1, 0.5, 0.")
    z = noise
    for t, r in pairwise(grid):
        ones = torch.ones(len(z), dtype=z.dtype, device=z.device)
        z = jump(network, z, t * ones, r * ones, condition)
    return z


def from_shortcut(shortcut: Network) -> Network:
    """Return the average velocity u(z, r, t) = -s(z, 1 - t, t - r) of a shortcut model.

    Args:
        shortcut: s(x, t', d[, c]), time t' from noise (0) to data (1), step d: x' = x + d s, shapes as above.
    """

    def network(z: Tensor, r: Tensor, t: Tensor, *condition: Tensor) -> Tensor:
        return -shortcut(z, 1 - t, t - r, *condition)

    return network


def to_shortcut(network: Network) -> Network:
    """Return the shortcut model s(x, t', d) = -u(x, 1 - t' - d, 1 - t') of an average velocity.

    Args:
        network: u(z, r, t[, c]), shapes as above.
    """

    def shortcut(x: Tensor, time: Tensor, step: Tensor, *condition: Tensor) -> Tensor:
        return -network(x, (1 - time - step).clamp(0, 1), 1 - time, *condition)

    return shortcut


def check_times(r: Tensor, t: Tensor) -> None:
    """See that 0 <= r <= t <= 1.

    Args:
        r: Shape (b,).
        t: Shape (b,).

    Raises:
        InputError: They are not.
    """
    wrong = ~((r >= 0) & (r <= t) & (t <= 1))
    if bool(wrong.any()):
        place = int(wrong.nonzero()[0])
        raise InputError(
            f"Times are r = {float(r[place]):g} and t = {float(t[place]):g}; a flow map needs 0 <= r <= t <= 1, with "
            "t = 1 for noise."
        )


def fit(coefficient: Tensor, x: Tensor) -> Tensor:
    """Return numbers of shape (b,) with the trailing axes that a product with `x`, shape (b, ...), needs.

    Args:
        coefficient: Shape (b,).
        x: Shape (b, ...).
    """
    return coefficient.reshape(-1, *(1,) * (x.ndim - 1))


def normal_like(x: Tensor, generator: torch.Generator | None) -> Tensor:
    """Return standard Gaussian noise of the shape, dtype and device of `x`, drawn where the generator lives.

    Args:
        x: Shape (b, ...).
        generator: Source, or None for the global one.
    """
    home = x.device if generator is None else generator.device
    return torch.randn(x.shape, generator=generator, dtype=x.dtype, device=home).to(x.device)


def uniform_like(x: Tensor, generator: torch.Generator | None) -> Tensor:
    """Return uniform numbers of [0, 1), one a row of `x`, shape (b,), in its dtype and on its device.

    Args:
        x: Shape (b, ...).
        generator: Source, or None for the global one.
    """
    home = x.device if generator is None else generator.device
    return torch.rand(len(x), generator=generator, dtype=x.dtype, device=home).to(x.device)
