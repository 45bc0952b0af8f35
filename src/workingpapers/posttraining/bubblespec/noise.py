r"""Randomness that belongs to a place, not to a run: noise of a token depends on its key and position alone.

With Gumbel noise :math:`g_v = -\log(-\log U_v)` the token :math:`\arg\max_v (\log p_v + g_v)` has law p. Noise comes
from a counter-based generator (Philox) keyed by seed, prompt, visit and sample, with the position for its counter, so
that it is the same number whatever the batch, the order, the rank or the number of tokens checked at once.

Two laws p and q that share the noise choose the same token with probability

.. math:: \sum_j \frac{1}{\sum_i \max(p_i / p_j, q_i / q_j)}, \qquad \text{between } \frac{1 - TV}{1 + TV}
          \text{ and } 1 - TV.
"""

from __future__ import annotations

import hashlib
from collections.abc import Hashable
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

Floats = NDArray[np.float64]
GUMBEL, UNIFORM = 0, 1  # words of the counter that keep the two kinds of draws apart


@dataclass(frozen=True)
class Key:
    """What the noise of a sequence depends on.

    Args:
        seed: Of the run.
        prompt: Identity of the prompt; its ``repr`` counts.
        visit: How often the prompt was used before; without it a second epoch would repeat the first one's noise.
        sample: Number of the sample among those of the prompt.
        stream: Another one gives independent noise.
    """

    seed: int
    prompt: Hashable
    visit: int = 0
    sample: int = 0
    stream: str = "rollout"

    def aside(self) -> Key:
        """Return the key of noise that is independent of this one's."""
        return replace(self, stream=f"{self.stream}, aside")

    def digest(self) -> bytes:
        """Return 16 bytes that tell this key from others."""
        text = repr((self.seed, self.prompt, self.visit, self.sample, self.stream))
        return hashlib.blake2b(text.encode(), digest_size=16).digest()


def gumbel_noise(key: Key, position: int, size: int) -> Tensor:
    """Return the noise of a position, float64, shape (size,); a longer one begins with the shorter.

    Args:
        key: Of the sequence.
        position: Of the token in the completion, from 0.
        size: Number of tokens in the vocabulary.
    """
    return torch.from_numpy(-np.log(-np.log(_uniform(key, position, GUMBEL, size))))


def uniform_noise(key: Key, position: int) -> float:
    """Return a number in (0, 1) for a position, independent of its Gumbel noise.

    Args:
        key: Of the sequence.
        position: Of the token in the completion, from 0.
    """
    return float(_uniform(key, position, UNIFORM, 1)[0])


def coupled_acceptance(p: ArrayLike, q: ArrayLike) -> float:
    """Return the probability that two laws with the same Gumbel noise choose the same token.

    Args:
        p: Probabilities, shape (v,).
        q: Probabilities, shape (v,).
    """
    left, right = np.asarray(p, np.float64), np.asarray(q, np.float64)
    both = (left > 0) & (right > 0)
    total = 0.0
    for chosen in np.flatnonzero(both):
        total += 1 / np.maximum(left / left[chosen], right / right[chosen]).sum()
    return float(total)


def _uniform(key: Key, position: int, kind: int, size: int) -> Floats:
    generator = np.random.Philox(
        key=np.frombuffer(key.digest(), dtype=np.uint64), counter=np.array([0, position, kind, 0], dtype=np.uint64)
    )
    # random() may be 0, which has no logarithm: half a step is added.
    return np.random.Generator(generator).random(size) + 2.0**-54
