"""Masked-diffusion language models as a chain: places are filled in a random order, one after the other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from scipy.special import softmax

from workingpapers.foundations.errors import InputError
from workingpapers.posttraining.ets.states import EMPTY, Floats, Integers, States, Streams, choose


class MaskedChain:
    """An order-agnostic model of d places: a place of each query's own random order is filled a step.

    Args:
        logits: Function of prompts and partly filled answers, shape (n, d) with EMPTY for masked places, that returns
            logits of every place, shape (n, d, V).
        longest: d, the length of every answer.
        vocabulary: V.
        temperature: Logits are divided by it.
        decode: Makes of a row of tokens what a reward sees; the tokens as a tuple by default.

    Raises:
        InputError: When a number is out of range.
    """

    def __init__(
        self,
        logits: Callable[[Sequence[Any], Integers], np.ndarray],
        *,
        longest: int,
        vocabulary: int,
        temperature: float = 1.0,
        decode: Callable[[Integers], Any] | None = None,
    ) -> None:
        if longest < 1 or vocabulary < 1 or not temperature > 0:
            raise InputError(
                f"longest={longest} and vocabulary={vocabulary} must be 1 or more, temperature={temperature} positive."
            )
        self.logits, self.longest, self.vocabulary, self.temperature = logits, longest, vocabulary, temperature
        self.decode = decode or (lambda row: tuple(row.tolist()))

    def start(self, prompts: Sequence[Any], streams: Streams) -> States:
        """Return fully masked answers, each with an order of its places that stays through the run."""
        count = len(prompts)
        keys = np.stack([streams.draw(np.arange(count)) for _ in range(self.longest)], axis=-1)
        return States(
            np.arange(count),
            np.full((count, self.longest), EMPTY, dtype=np.int64),
            np.zeros(count, dtype=np.int64),
            np.zeros(count, dtype=bool),
            np.argsort(keys, axis=-1),
        )

    def extend(self, prompts: Sequence[Any], states: States, count: int, streams: Streams) -> States:
        """Return the states with up to `count` more places filled."""
        tokens, lengths = states.tokens.copy(), states.lengths.copy()
        assert states.order is not None
        for _ in range(min(count, self.longest)):
            rows = np.flatnonzero(lengths < self.longest)
            if not len(rows):
                break
            place = states.order[rows, lengths[rows]]
            shares = self._shares(prompts, states.groups[rows], tokens[rows], place)
            tokens[rows, place] = choose(shares, streams.draw(states.groups[rows]))
            lengths[rows] += 1
        return States(states.groups, tokens, lengths, lengths == self.longest, states.order)

    def log_probs(self, prompts: Sequence[Any], states: States, since: Integers) -> Floats:
        """Return log-probabilities of the places after the first `since` of each order."""
        assert states.order is not None
        found = np.zeros(len(states))
        for step in range(self.longest):
            rows = np.flatnonzero((step >= since) & (step < states.lengths))
            if not len(rows):
                continue
            place = states.order[rows, step]
            earlier = np.argsort(states.order[rows], axis=-1) < step
            seen = np.where(earlier, states.tokens[rows], EMPTY)
            shares = self._shares(prompts, states.groups[rows], seen, place)
            found[rows] += np.log(shares[np.arange(len(rows)), states.tokens[rows, place]])
        return found

    def read(self, prompts: Sequence[Any], states: States) -> Sequence[Any]:
        """Return the decoded answers."""
        return [self.decode(row) for row in states.tokens]

    def _shares(self, prompts: Sequence[Any], groups: Integers, tokens: Integers, place: Integers) -> Floats:
        found = np.asarray(self.logits([prompts[group] for group in groups.tolist()], tokens), dtype=np.float64)
        if found.shape != (len(tokens), self.longest, self.vocabulary):
            raise InputError(
                f"The model gave logits of shape {found.shape} for {len(tokens)} answers of {self.longest} places and "
                f"{self.vocabulary} tokens."
            )
        return np.asarray(softmax(found[np.arange(len(tokens)), place] / self.temperature, axis=-1))
