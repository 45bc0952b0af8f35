"""A chain of tables: every law can be enumerated, so that samples can be held against the exact target."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

from workingpapers.foundations.errors import InputError
from workingpapers.posttraining.ets.states import EMPTY, Floats, Integers, States, Streams, choose


class TableChain:
    """Sequences of d tokens from V, with a table of next-token probabilities for every beginning.

    A beginning is numbered by its tokens as digits to base V; answers are the same for every prompt and of full length.

    Args:
        tables: For each place t the probabilities after each beginning, shape (V^t, V).

    Raises:
        InputError: When shapes do not fit or rows do not sum to one.
    """

    def __init__(self, tables: Sequence[NDArray[np.float64]]) -> None:
        self.tables = [np.asarray(table, dtype=np.float64) for table in tables]
        self.longest, self.vocabulary = len(self.tables), self.tables[0].shape[-1]
        for place, table in enumerate(self.tables):
            if table.shape != (self.vocabulary**place, self.vocabulary) or not np.allclose(table.sum(-1), 1):
                raise InputError(f"Table {place} has shape {table.shape} or rows that do not sum to one.")

    @classmethod
    def random(cls, vocabulary: int, length: int, rng: np.random.Generator) -> TableChain:
        """Return softmax of standard normal logits in every table."""
        return cls([softmax(rng.standard_normal((vocabulary**place, vocabulary)), axis=-1) for place in range(length)])

    def mixed(self, other: TableChain, share: float) -> TableChain:
        """Return tables that are `share` of these and the rest of the other's."""
        return TableChain([share * a + (1 - share) * b for a, b in zip(self.tables, other.tables, strict=True)])

    def law(self) -> Floats:
        """Return the probability of each of the V^d answers, shape (V^d,)."""
        found = np.ones(1)
        for table in self.tables:
            found = (found[:, None] * table).ravel()
        return found

    def start(self, prompts: Sequence[Any], streams: Streams) -> States:
        """Return empty answers."""
        count = len(prompts)
        return States(
            np.arange(count),
            np.full((count, self.longest), EMPTY, dtype=np.int64),
            np.zeros(count, dtype=np.int64),
            np.zeros(count, dtype=bool),
        )

    def extend(self, prompts: Sequence[Any], states: States, count: int, streams: Streams) -> States:
        """Return the states with up to `count` more tokens."""
        tokens, lengths = states.tokens.copy(), states.lengths.copy()
        number = self.number(states)
        for _ in range(min(count, self.longest)):
            rows = np.flatnonzero(lengths < self.longest)
            if not len(rows):
                break
            uniform = streams.draw(states.groups[rows])
            drawn = np.empty(len(rows), dtype=np.int64)
            for place in np.unique(lengths[rows]):
                here = lengths[rows] == place
                drawn[here] = choose(self.tables[place][number[rows[here]]], uniform[here])
            tokens[rows, lengths[rows]] = drawn
            number[rows] = number[rows] * self.vocabulary + drawn
            lengths[rows] += 1
        return States(states.groups, tokens, lengths, lengths == self.longest)

    def log_probs(self, prompts: Sequence[Any], states: States, since: Integers) -> Floats:
        """Return log-probabilities of the tokens after the first `since`."""
        found = np.zeros(len(states))
        number = np.zeros(len(states), dtype=np.int64)
        for place, table in enumerate(self.tables):
            there = place < states.lengths
            token = np.where(there, states.tokens[:, place], 0)
            counted = there & (place >= since)
            found[counted] += np.log(table[number[counted], token[counted]])
            number = np.where(there, number * self.vocabulary + token, number)
        return found

    def number(self, states: States) -> Integers:
        """Return the number of each row's beginning, shape (n,)."""
        number = np.zeros(len(states), dtype=np.int64)
        for place in range(self.longest):
            there = place < states.lengths
            number = np.where(there, number * self.vocabulary + np.where(there, states.tokens[:, place], 0), number)
        return number

    def read(self, prompts: Sequence[Any], states: States) -> Sequence[Any]:
        """Return the numbers of the answers."""
        numbers: Any = self.number(states)
        return numbers  # type: ignore[no-any-return]


class TableReward:
    """A reward for each answer of a table chain.

    Args:
        values: Shape (V^d,).
    """

    def __init__(self, values: NDArray[np.float64]) -> None:
        self.values = np.asarray(values, dtype=np.float64)

    def __call__(self, prompts: Sequence[Any], completions: Sequence[Any], groups: Integers) -> Floats:
        """Return the rewards of numbered answers, shape (n,)."""
        return np.asarray(self.values[np.asarray(completions)])


def target_law(law: Floats, rewards: Floats, temperature: float) -> Floats:
    """Return p* over all answers: the law reweighted by exp(r / lambda), shape (V^d,)."""
    with np.errstate(divide="ignore"):
        return np.asarray(softmax(np.log(law) + rewards / temperature))
