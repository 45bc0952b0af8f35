"""Unfinished answers, many at a time, and streams of random numbers that do not depend on what else is in the batch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]
EMPTY = -1


@dataclass(frozen=True)
class States:
    """n answers under way, rows of one query next to each other.

    Args:
        groups: Query of each row, not decreasing, shape (n,).
        tokens: Token numbers, EMPTY where there is none yet, shape (n, longest).
        lengths: Tokens so far, shape (n,).
        finished: Whether a row is complete, shape (n,).
        order: For masked diffusion the order in which places are filled, shape (n, longest); None from left to right.
    """

    groups: Integers
    tokens: Integers
    lengths: Integers
    finished: NDArray[np.bool_]
    order: Integers | None = None

    def __len__(self) -> int:
        return len(self.groups)

    def take(self, rows: Any) -> States:
        """Return the rows of an index or mask."""
        return States(
            self.groups[rows],
            self.tokens[rows],
            self.lengths[rows],
            self.finished[rows],
            None if self.order is None else self.order[rows],
        )

    def repeat(self, count: int) -> States:
        """Return each row `count` times, copies next to each other."""
        return self.take(np.repeat(np.arange(len(self)), count))

    def put(self, rows: Any, others: States) -> States:
        """Return the states with `others` in place of some rows."""
        tokens, lengths, finished = self.tokens.copy(), self.lengths.copy(), self.finished.copy()
        tokens[rows], lengths[rows], finished[rows] = others.tokens, others.lengths, others.finished
        return replace(self, tokens=tokens, lengths=lengths, finished=finished)


class Chain(Protocol):
    """A language model as a chain that fills in an answer.

    Attributes:
        longest: Most tokens of an answer.
    """

    longest: int

    def start(self, prompts: Sequence[Any], streams: Streams) -> States:
        """Return one empty answer a prompt."""

    def extend(self, prompts: Sequence[Any], states: States, count: int, streams: Streams) -> States:
        """Return the states with up to `count` more tokens, drawn from the model; finished rows stay."""

    def log_probs(self, prompts: Sequence[Any], states: States, since: Integers) -> Floats:
        """Return the log-probability of the tokens after the first `since` of each row, shape (n,)."""

    def read(self, prompts: Sequence[Any], states: States) -> Sequence[Any]:
        """Return what a reward sees of each row."""


class Streams:
    """Uniform random numbers, one stream a query, each a function of its seed and of how many were drawn.

    Args:
        seeds: Seed of each query, shape (q,).
    """

    def __init__(self, seeds: Sequence[int]) -> None:
        self._keys = _mix(np.asarray([int(seed) & (2**64 - 1) for seed in seeds], dtype=np.uint64))
        self._drawn = np.zeros(len(seeds), dtype=np.uint64)

    def draw(self, groups: Integers) -> Floats:
        """Return a number in (0, 1) for each row, float64, shape (n,); `groups` does not decrease."""
        if not len(groups):
            return np.zeros(0)
        first = np.searchsorted(groups, groups, side="left")
        place = (np.arange(len(groups)) - first).astype(np.uint64)
        counter = self._drawn[groups] + place
        present, counts = np.unique(groups, return_counts=True)
        self._drawn[present] += counts.astype(np.uint64)
        with np.errstate(over="ignore"):
            bits = _mix(self._keys[groups] + counter * np.uint64(0x9E3779B97F4A7C15))
        return ((bits >> np.uint64(11)).astype(np.float64) + 0.5) / 2**53


def choose(probabilities: Floats, uniform: Floats) -> Integers:
    """Return an index for each row of probabilities, shape (n, V), by the inverse distribution function, shape (n,)."""
    cumulative = np.cumsum(probabilities, axis=-1)
    found = (cumulative <= (uniform * cumulative[:, -1])[:, None]).sum(-1)
    last = probabilities.shape[-1] - 1 - (probabilities[:, ::-1] > 0).argmax(-1)
    return np.asarray(np.minimum(found, last), dtype=np.int64)


def _mix(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return the finaliser of SplitMix64 (G. L. Steele, D. Lea, C. H. Flood, OOPSLA 2014)."""
    with np.errstate(over="ignore"):
        values = values + np.uint64(0x9E3779B97F4A7C15)
        values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return np.asarray(values ^ (values >> np.uint64(31)))
