r"""The selection policy of GPM as a network: state in, one score for each item out.

The state is :math:`x_t \in \{-1, 0, 1\}^n` (wrong, not asked, right), the current ability and t / T. Three heads:

* ``"items"``: :math:`c\,I_i(\hat\theta) + g\,u_i + \mathrm{MLP}(x_t, \hat\theta, t/T)_i`, with the item's information
  relative to the largest in the bank, an embedding :math:`u_i` and a network that starts at zero. Before training it is
  the maximum-information rule.
* ``"features"``: one network scores any item from its parameters, its probability and information at
  :math:`\hat\theta`, and t / T. It knows no item by its place, so it also scores items added after training.
* ``"prototype"``: the head of the authors' public code: softmax-weighted mean difficulty, then the nearest item,
  :math:`-(b_i - \hat b)^2 / \tau_b`. Their code has the other sign and so prefers the farthest item.
"""

from __future__ import annotations

from typing import Literal, get_args

import numpy as np
import torch
from torch import Tensor, nn

from workingpapers.evaluation.adaptive_testing.bank import Bank
from workingpapers.foundations.errors import InputError, near_match

Head = Literal["items", "features", "prototype"]
INFORMATION_WEIGHT = 4.0
EMBEDDING_GAIN = 5.0


class ResponseModel(nn.Module):
    """The calibrated items as constant tensors: probabilities, residuals and information on dense (B, n) batches."""

    def __init__(self, bank: Bank, dtype: torch.dtype = torch.float32) -> None:
        super().__init__()
        self.register_buffer("slope", torch.as_tensor(bank.slope, dtype=dtype))
        self.register_buffer("intercept", torch.as_tensor(bank.intercept, dtype=dtype))
        self.register_buffer("guessing", torch.as_tensor(bank.guessing, dtype=dtype))
        self.slope: Tensor
        self.intercept: Tensor
        self.guessing: Tensor

    def logit(self, theta: Tensor) -> Tensor:
        """Return a'theta + d, shape (B, n), at abilities of shape (B, d)."""
        return theta @ self.slope.T + self.intercept

    def residuals(self, theta: Tensor, responses: Tensor) -> Tensor:
        """Return r of the score a r, shape (B, n), for responses of that shape; the caller masks unobserved ones."""
        s = torch.sigmoid(self.logit(theta))
        p = self.guessing + (1 - self.guessing) * s
        return (p - responses) * s / p

    def weights(self, theta: Tensor) -> Tensor:
        """Return w of the information a a' w, shape (B, n)."""
        s = torch.sigmoid(self.logit(theta))
        p = self.guessing + (1 - self.guessing) * s
        return (1 - p) * s**2 / p

    def information(self, theta: Tensor) -> Tensor:
        """Return the trace of each item's information, relative to the largest in the bank, shape (B, n)."""
        information = self.weights(theta) * (self.slope**2).sum(dim=1)
        return information / information.max(dim=1, keepdim=True).values.clamp_min(1e-12)


class Policy(nn.Module):
    """Scores of all items in a state.

    Args:
        bank: The items, n of them with a d-dimensional ability.
        head: ``"items"``, ``"features"`` or ``"prototype"``.
        hidden: Width of the hidden layers.
        generator: Source of the first weights.
    """

    def __init__(self, bank: Bank, head: Head = "items", hidden: int = 128, *, generator: torch.Generator) -> None:
        super().__init__()
        if head not in get_args(Head):
            raise InputError(f"The head is {head!r}{near_match(head, get_args(Head)) or '; choose items or features.'}")
        self.head = head
        self.model = ResponseModel(bank)
        n, d = bank.count, bank.dimensions
        # Difficulty along the item's own direction; an item that measures nothing stands at zero.
        length = np.linalg.norm(bank.slope, axis=1)
        difficulty = np.where(length > 1e-6, -bank.intercept / np.maximum(length, 1e-6), 0.0)
        self.register_buffer("difficulty", torch.as_tensor(difficulty, dtype=torch.float32))
        self.difficulty: Tensor
        inputs = {"items": n + d + 1, "features": 2 * d + 5, "prototype": n}[head]
        outputs = 1 if head == "features" else n
        self.network = nn.Sequential(nn.Linear(inputs, hidden), nn.Tanh(), nn.Linear(hidden, outputs))
        _fill(self.network, generator, zero_last=head != "prototype")
        self.information_weight = nn.Parameter(torch.tensor(INFORMATION_WEIGHT))
        self.embedding = nn.Parameter(torch.zeros(n if head == "items" else 0))
        self.log_width = nn.Parameter(torch.zeros(()))

    def forward(self, answered: Tensor, theta: Tensor, share: float) -> Tensor:
        """Return scores, float32, shape (B, n).

        Args:
            answered: x_t, shape (B, n).
            theta: Abilities, shape (B, d).
            share: t / T.
        """
        if self.head == "prototype":
            weight = torch.softmax(self.network(answered), dim=1)
            target = weight @ self.difficulty
            return -((self.difficulty - target[:, None]) ** 2) / self.log_width.exp()
        information = self.model.information(theta)
        if self.head == "items":
            state = torch.cat([answered, theta, torch.full_like(theta[:, :1], share)], dim=1)
            correction = self.network(state) + EMBEDDING_GAIN * self.embedding
        else:
            correction = self.network(self._features(theta, information, share))[:, :, 0]
        scores: Tensor = self.information_weight * information + correction
        return scores

    def _features(self, theta: Tensor, information: Tensor, share: float) -> Tensor:
        batch, n = information.shape
        p = torch.sigmoid(self.model.logit(theta))
        own = torch.cat([self.model.slope, self.difficulty[:, None]], dim=1).expand(batch, -1, -1)
        ability = theta[:, None, :].expand(-1, n, -1)
        guessing = self.model.guessing.expand(batch, n)
        rest = torch.stack([guessing, p, information, torch.full_like(p, share)], dim=2)
        return torch.cat([own, ability, rest], dim=2)


def _fill(network: nn.Sequential, generator: torch.Generator, *, zero_last: bool) -> None:
    """Draw the weights uniformly within 1 / sqrt(inputs); a last layer of zero leaves the first scores untouched."""
    layers = [layer for layer in network if isinstance(layer, nn.Linear)]
    for layer in layers:
        reach = layer.in_features**-0.5
        with torch.no_grad():
            for part in (layer.weight, layer.bias):
                part.uniform_(-reach, reach, generator=generator)
    if zero_last:
        nn.init.zeros_(layers[-1].weight)
        nn.init.zeros_(layers[-1].bias)
