"""A small network for flow maps of flat rows, and the map from data to the scale that it works in."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from workingpapers.foundations.diffusion import DriftMLP
from workingpapers.foundations.errors import InputError


class FlowMLP(nn.Module):
    """A perceptron u(z, r, t[, c]) on points of shape (b, d), times (b,) and integer labels (b,).

    It is given t and t - r, slowed down: a derivative in time enters the target of the MeanFlow loss, and fast
    oscillations of the time features would drown it.

    Args:
        dim: Length of a point.
        hidden: Units a layer.
        layers: Hidden layers.
        classes: Number of labels, 0 for none.
        slow: Factor of the times.
        generator: Source of the first weights.
    """

    def __init__(
        self,
        dim: int,
        hidden: int = 128,
        layers: int = 3,
        *,
        classes: int = 0,
        slow: float = 0.1,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        self.classes, self.slow = classes, slow
        self.body = DriftMLP(dim, hidden, layers, condition=classes, times=2, generator=generator)

    def forward(self, z: Tensor, r: Tensor, t: Tensor, labels: Tensor | None = None) -> Tensor:
        """Return the average velocity, shape (b, d)."""
        condition = None
        if self.classes:
            if labels is None:
                raise InputError("This network was built with classes; give labels.")
            condition = nn.functional.one_hot(labels, self.classes)
        found: Tensor = self.body(z, self.slow * t, self.slow * (t - r), condition=condition)
        return found


@dataclass(frozen=True)
class Scaling:
    """Rows x to (x - mean) / scale, the space of the network, and back.

    Args:
        mean: Shape (d,).
        scale: Shape (d,), positive.
    """

    mean: Tensor
    scale: Tensor

    @classmethod
    def of(cls, rows: Tensor, *, shared: bool) -> Scaling:
        """Return the scaling to mean 0 and variance 1.

        Args:
            rows: Shape (n, d).
            shared: Whether all columns share one scale, as pixels do; else each has its own, constant ones 1.

        Raises:
            InputError: All rows are the same.
        """
        spread = rows.std(0)
        if not bool((spread > 0).any()):
            raise InputError("All rows are the same; there is no law to learn.")
        if shared:
            spread = (spread**2).mean().sqrt().expand(rows.shape[1])
        return cls(rows.mean(0), torch.where(spread > 0, spread, 1.0))

    def forward(self, rows: Tensor) -> Tensor:
        """Return rows in the network's scale, shape (n, d)."""
        return (rows - self.mean) / self.scale

    def backward(self, rows: Tensor) -> Tensor:
        """Return rows in the data's scale, shape (n, d)."""
        return rows * self.scale + self.mean
