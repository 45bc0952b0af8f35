"""Small networks for drifts, scores and velocities of low-dimensional points and of particles."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from workingpapers.foundations.errors import InputError


class TimeFeatures(nn.Module):
    r"""Sines and cosines of a time: sin(2^k pi t), cos(2^k pi t), and t itself.

    Args:
        octaves: Number of frequencies, k = 0 .. octaves - 1.
    """

    def __init__(self, octaves: int = 6) -> None:
        super().__init__()
        self.register_buffer("frequencies", math.pi * 2.0 ** torch.arange(octaves))
        self.width = 2 * octaves + 1

    def forward(self, t: Tensor) -> Tensor:
        """Return features, shape (b, width), of times, shape (b,)."""
        frequencies: Tensor = self.frequencies  # type: ignore[assignment]
        angle = t[:, None] * frequencies
        return torch.cat([t[:, None], angle.sin(), angle.cos()], dim=-1)


class DriftMLP(nn.Module):
    """A perceptron with SiLU units on points and time features; the last layer starts at zero.

    Args:
        dim: Length of a point.
        hidden: Units a layer.
        layers: Hidden layers.
        condition: Length of an extra input, 0 for none.
        times: Number of time inputs; two for flow maps.
        out: Length of the output; `dim` by default.
        generator: Source of the first weights.
    """

    def __init__(
        self,
        dim: int,
        hidden: int = 128,
        layers: int = 3,
        *,
        condition: int = 0,
        times: int = 1,
        out: int | None = None,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        if dim < 1 or hidden < 1 or layers < 1:
            raise InputError(f"DriftMLP needs positive sizes, not dim={dim}, hidden={hidden}, layers={layers}.")
        self.dim, self.condition = dim, condition
        self.features = nn.ModuleList([TimeFeatures() for _ in range(times)])
        width = dim + condition + sum(module.width for module in self.features)  # type: ignore[misc]
        blocks: list[nn.Module] = []
        for _ in range(layers):
            blocks += [_linear(width, hidden, generator), nn.SiLU()]
            width = hidden
        last = nn.Linear(width, dim if out is None else out)
        nn.init.zeros_(last.weight)
        nn.init.zeros_(last.bias)
        self.layers = nn.Sequential(*blocks, last)

    def forward(self, x: Tensor, *times: Tensor, condition: Tensor | None = None) -> Tensor:
        """Return the output, shape (b, out), at points, shape (b, dim), and times of shape (b,) or ()."""
        parts = [x]
        for features, t in zip(self.features, times, strict=True):
            parts.append(features(t.to(x).expand(len(x))))
        if self.condition:
            if condition is None:
                raise InputError("This network was built with a condition; give one.")
            parts.append(condition.to(x))
        out: Tensor = self.layers(torch.cat(parts, dim=-1))
        return out


class EquivariantDrift(nn.Module):
    r"""A drift of particles that turns, shifts and swaps with them, with zero centre of mass.

    .. math:: u_i = \sum_{j \ne i} \phi(d_{ij}^2, h_i, h_j, t)\,(x_i - x_j) / (d_{ij} + 1)

    where features h are updated by attention-weighted messages of the same inputs.

    Args:
        particles: Number of particles n.
        space: Dimensions of their space.
        hidden: Units a layer.
        layers: Rounds of messages.
        generator: Source of the first weights.

    References:
        V. G. Satorras, E. Hoogeboom, M. Welling, E(n) Equivariant Graph Neural Networks, ICML 2021.
    """

    def __init__(
        self, particles: int, space: int, hidden: int = 64, layers: int = 3, *, generator: torch.Generator | None = None
    ) -> None:
        super().__init__()
        self.particles, self.space = particles, space
        self.features = TimeFeatures()
        self.enter = _linear(self.features.width, hidden, generator)
        self.messages = nn.ModuleList(
            [
                nn.Sequential(
                    _linear(2 * hidden + 1, hidden, generator), nn.SiLU(), _linear(hidden, hidden, generator), nn.SiLU()
                )
                for _ in range(layers)
            ]
        )
        self.attention = nn.ModuleList([_linear(hidden, 1, generator) for _ in range(layers)])
        self.update = nn.ModuleList([_linear(2 * hidden, hidden, generator) for _ in range(layers)])
        self.force = nn.ModuleList([nn.Linear(hidden, 1, bias=False) for _ in range(layers)])
        for head in self.force:
            nn.init.zeros_(head.weight)  # type: ignore[arg-type]

    def forward(self, x: Tensor, t: Tensor) -> Tensor:
        """Return the drift, shape (b, n * space), at configurations of that shape and times of shape (b,) or ()."""
        count = len(x)
        positions = x.reshape(count, self.particles, self.space)
        difference = positions[:, :, None] - positions[:, None]
        square = (difference**2).sum(-1, keepdim=True)
        direction = difference / (square.clamp_min(1e-12).sqrt() + 1)
        others = 1 - torch.eye(self.particles, dtype=x.dtype, device=x.device)[None, :, :, None]
        h = self.enter(self.features(t.to(x).expand(count)))[:, None].expand(-1, self.particles, -1)
        drift = torch.zeros_like(positions)
        for message, attention, update, force in zip(
            self.messages, self.attention, self.update, self.force, strict=True
        ):
            own = h[:, :, None].expand(-1, -1, self.particles, -1)
            other = h[:, None].expand(-1, self.particles, -1, -1)
            m = message(torch.cat([own, other, torch.log1p(square)], dim=-1)) * others
            m = m * torch.sigmoid(attention(m))
            drift = drift + (force(m) * direction * others).sum(2)
            h = h + update(torch.cat([h, m.sum(2)], dim=-1))
        drift = drift - drift.mean(1, keepdim=True)
        return drift.reshape(count, -1)


def moving_average(model: nn.Module, decay: float = 0.999) -> AveragedModel:
    """Return an exponential moving average of a model's weights; call its `update_parameters(model)` after each step.

    Raises:
        InputError: When the decay is not in [0, 1).
    """
    if not 0 <= decay < 1:
        raise InputError(f"The decay of a moving average must be in [0, 1), not {decay}.")
    averaging: Any = get_ema_multi_avg_fn(decay)  # type: ignore[no-untyped-call]
    return AveragedModel(model, multi_avg_fn=averaging, use_buffers=True)


def _linear(inputs: int, outputs: int, generator: torch.Generator | None) -> nn.Linear:
    layer = nn.Linear(inputs, outputs)
    bound = 1 / math.sqrt(inputs)
    with torch.no_grad():
        layer.weight.uniform_(-bound, bound, generator=generator)
        layer.bias.uniform_(-bound, bound, generator=generator)
    return layer
