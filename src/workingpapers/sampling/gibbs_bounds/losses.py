r"""Bounded losses of classifiers, with the scale that the bound must know about.

Outputs are one logit an example, shape (n,) or (n, 1), with targets 0 and 1, or C logits, shape (n, C), with targets
0, ..., C - 1. Every loss returns one number an example, shape (n,). `scale` is the width of its range; with
``normalised=True`` values lie in [0, 1] and the scale is 1.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from workingpapers.foundations.errors import InputError


@dataclass(frozen=True)
class BoundedCrossEntropy:
    r"""Cross entropy of a probability that is kept away from 0 and 1.

    .. math:: \ell = -\log\bigl(e^{-l} + (1 - 2 e^{-l})\, p_y\bigr), \qquad
              \ell \in [-\log(1 - e^{-l}),\ l]

    Args:
        largest: l > log 2, the loss of a certain and wrong answer; outputs of shape (n,) or (n, C).
        normalised: Map the range to [0, 1].

    Raises:
        InputError: `largest` is too small.
    """

    largest: float = 4.0
    normalised: bool = True

    def __post_init__(self) -> None:
        if not self.largest > math.log(2):
            raise InputError(f"The largest loss is {self.largest:g}; it must exceed log 2.")

    @property
    def lowest(self) -> float:
        """Raw loss of a certain and right answer."""
        return -math.log1p(-math.exp(-self.largest))

    @property
    def scale(self) -> float:
        """Width of the range."""
        return 1.0 if self.normalised else self.largest - self.lowest

    def __call__(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """Return the losses, shape (n,)."""
        floor = math.exp(-self.largest)
        raw = -torch.log(floor + (1 - 2 * floor) * true_class_probability(outputs, targets))
        return (raw - self.lowest) / (self.largest - self.lowest) if self.normalised else raw


@dataclass(frozen=True)
class SavageLoss:
    r"""Squared probability of the wrong classes, :math:`(1 - p_y)^2`; with one logit z, :math:`sigmoid(-yz)^2`."""

    @property
    def scale(self) -> float:
        """Width of the range."""
        return 1.0

    def __call__(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """Return the losses, shape (n,)."""
        return (1 - true_class_probability(outputs, targets)) ** 2


@dataclass(frozen=True)
class TangentLoss:
    r"""The tangent loss :math:`(2 \arctan(m) - 1)^2` of the margin m, bounded by :math:`(\pi + 1)^2`.

    Args:
        normalised: Divide by the largest value; outputs of shape (n,) or (n, C).
    """

    normalised: bool = True

    @property
    def scale(self) -> float:
        """Width of the range."""
        return 1.0 if self.normalised else (math.pi + 1) ** 2

    def __call__(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """Return the losses, shape (n,)."""
        raw = (2 * torch.arctan(margin(outputs, targets)) - 1) ** 2
        return raw / (math.pi + 1) ** 2 if self.normalised else raw


def zero_one_error(outputs: Tensor, targets: Tensor) -> Tensor:
    """Return 1 where the margin is not positive, else 0; a tie is an error.

    Args:
        outputs: Logits, shape (n,), (n, 1) or (n, C).
        targets: Classes, integer, shape (n,).

    Returns:
        Shape (n,), in the dtype of the outputs.
    """
    return (margin(outputs, targets) <= 0).to(outputs.dtype)


def margin(outputs: Tensor, targets: Tensor) -> Tensor:
    """Return the signed logit, or the logit of the true class less the largest other one.

    Args:
        outputs: Logits, shape (n,), (n, 1) or (n, C).
        targets: Classes, integer, shape (n,).

    Returns:
        Shape (n,).
    """
    if _binary(outputs):
        return outputs.reshape(-1) * (2 * targets - 1)
    own = torch.nn.functional.one_hot(targets, outputs.shape[1]).bool()
    return outputs[own] - outputs.masked_fill(own, -math.inf).max(dim=1).values


def true_class_probability(outputs: Tensor, targets: Tensor) -> Tensor:
    """Return the probability that the logits give to the true class.

    Args:
        outputs: Logits, shape (n,), (n, 1) or (n, C).
        targets: Classes, integer, shape (n,).

    Returns:
        Shape (n,).
    """
    if _binary(outputs):
        return logsigmoid(margin(outputs, targets)).exp()
    return torch.log_softmax(outputs, dim=1).gather(1, targets[:, None])[:, 0].exp()


def _binary(outputs: Tensor) -> bool:
    if outputs.ndim > 2:
        raise InputError(f"The outputs have shape {tuple(outputs.shape)}; one logit or one a class is needed.")
    return outputs.ndim == 1 or outputs.shape[1] == 1
