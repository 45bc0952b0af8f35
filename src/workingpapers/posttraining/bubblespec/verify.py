r"""Which tokens of a draft stand: the rules that leave the law of the output as it was.

* Matching: at each position a token is drawn from the model's law p by the run's own noise, and the draft's token
  stands if it is that token. The first that is not is replaced by it. Exact for any draft, however it was made.
* Rejection: a draft token d that was drawn from q stands with probability min(1, p(d) / q(d)); the first that does not
  is replaced by a draw from the normalised :math:`\max(p - q, 0)`. Exact only for drafts that are samples of q.

References:
    Y. Leviathan, M. Kalman, Y. Matias, ICML 2023, arXiv:2211.17192; C. Chen et al., arXiv:2302.01318 (rejection).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from workingpapers.foundations.errors import InputError
from workingpapers.posttraining.bubblespec.noise import Key, gumbel_noise, uniform_noise


@dataclass(frozen=True)
class Sampling:
    """The law that tokens are drawn from.

    Args:
        temperature: Logits are divided by it; 0 takes the likeliest token.
        top_k: Likeliest tokens that can be drawn; 0 for all.
        top_p: Smallest probability mass that can be drawn.
    """

    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0

    def __post_init__(self) -> None:
        if not (self.temperature >= 0 and self.top_k >= 0 and 0 < self.top_p <= 1):
            raise InputError(
                f"temperature={self.temperature} and top_k={self.top_k} must not be negative, and top_p={self.top_p} "
                "in (0, 1]."
            )

    def log_law(self, logits: Tensor) -> Tensor:
        """Return log-probabilities, -inf for what cannot be drawn, float64, shape of the logits (..., vocabulary)."""
        values = logits.double()
        if self.temperature == 0:
            best = values.argmax(-1, keepdim=True)
            return torch.full_like(values, -torch.inf).scatter(-1, best, 0.0)
        values = values / self.temperature
        if 0 < self.top_k < values.shape[-1]:
            least = values.topk(self.top_k, dim=-1).values[..., -1:]
            values = values.masked_fill(values < least, -torch.inf)
        if self.top_p < 1:
            ordered, order = values.sort(-1, descending=True)
            mass = ordered.softmax(-1).cumsum(-1) - ordered.softmax(-1)
            values = values.masked_fill((mass >= self.top_p).scatter(-1, order, mass >= self.top_p), -torch.inf)
        return values.log_softmax(-1)


def drawn(log_law: Tensor, key: Key, position: int) -> int:
    """Return the token that the key's noise draws from a law.

    Args:
        log_law: Log-probabilities, float64, shape (vocabulary,).
        key: Of the sequence.
        position: Of the token in the completion.
    """
    return int((log_law + gumbel_noise(key, position, len(log_law)).to(log_law.device)).argmax())


def matching(log_laws: Tensor, draft: Sequence[int], key: Key, position: int) -> tuple[list[int], int]:
    """Return the tokens that are written, one more than stand of the draft, and how many stand.

    Args:
        log_laws: Laws at the draft's k places and the one after, float64, shape (k + 1, vocabulary).
        draft: k tokens.
        key: Of the sequence.
        position: Of the first of them in the completion.
    """
    written: list[int] = []
    for place in range(len(draft) + 1):
        token = drawn(log_laws[place], key, position + place)
        written.append(token)
        if place == len(draft) or token != draft[place]:
            return written, place
    raise AssertionError("the loop returns at its last place")


def rejection(log_laws: Tensor, draft: Sequence[int], law: Tensor, key: Key, position: int) -> tuple[list[int], int]:
    """Return the tokens that are written, one more than stand of the draft, and how many stand.

    Args:
        log_laws: Laws at the draft's k places and the one after, float64, shape (k + 1, vocabulary).
        draft: k tokens, samples of `law`.
        law: Probabilities that they were drawn from, shape (k, vocabulary).
        key: Of the sequence.
        position: Of the first of them in the completion.
    """
    written: list[int] = []
    for place, token in enumerate(draft):
        p, q = log_laws[place].exp(), law[place].double().to(log_laws.device)
        if uniform_noise(key, position + place) * float(q[token]) < float(p[token]):
            written.append(int(token))
            continue
        written.append(drawn(residual(p, q).log(), key, position + place))
        return written, place
    written.append(drawn(log_laws[len(draft)], key, position + len(draft)))
    return written, len(draft)


def residual(p: Tensor, q: Tensor) -> Tensor:
    """Return the law of the token that replaces a refused one, normalised max(p - q, 0), shape (vocabulary,).

    Args:
        p: The model's law.
        q: The draft's law.
    """
    left = (p - q).clamp_min(0)
    total = left.sum()
    # Where q equals p up to rounding nothing is ever refused but by rounding; p is then as good.
    return left / total if float(total) > 0 else p
