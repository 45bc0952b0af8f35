"""Preferences with planted tastes: four groups, two of which want the opposite of the same attribute."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

Floats = NDArray[np.float64]
SHARES = (0.40, 0.25, 0.20, 0.15)
ATTRIBUTES = 4
TASTES = np.array([[1.0, 0, 0, 0], [-1.0, 0, 0, 0], [0, 1.0, 0, 0], [0, 0, 1.0, 0]])
SHARPNESS = 30.0


@dataclass(frozen=True)
class Preferences:
    """Pairs with the group of who judged them.

    Args:
        chosen: Unit rows, shape (N, d).
        rejected: Unit rows, shape (N, d).
        groups: Group of each, shape (N,).
    """

    chosen: Floats
    rejected: Floats
    groups: NDArray[np.int64]

    @property
    def differences(self) -> Floats:
        """Chosen minus rejected, shape (N, d)."""
        return self.chosen - self.rejected


class World:
    """Attributes hidden in an embedding space.

    Args:
        dimension: d.
        rng: Draws the attributes' directions.
    """

    def __init__(self, dimension: int, rng: np.random.Generator) -> None:
        self.dimension = dimension
        self.attributes = np.linalg.qr(rng.standard_normal((dimension, ATTRIBUTES)))[0]

    @property
    def tastes(self) -> Floats:
        """Direction that each group likes, shape (4, d)."""
        return np.asarray(TASTES @ self.attributes.T)

    def responses(self, varied: NDArray[np.int64], count: int, rng: np.random.Generator) -> Floats:
        """Return unit embeddings of responses, shape (n, count, d).

        Args:
            varied: Attribute in which the responses to each prompt differ most, shape (n,).
            count: Responses a prompt.
            rng: Source of randomness.
        """
        records = len(varied)
        prompts = rng.standard_normal((records, 1, self.dimension)) / np.sqrt(self.dimension)
        attributes = 0.15 * rng.standard_normal((records, count, ATTRIBUTES))
        attributes[np.arange(records), :, varied] += 1.2 * rng.standard_normal((records, count))
        noise = rng.standard_normal((records, count, self.dimension)) / np.sqrt(self.dimension)
        rows = prompts + 0.5 * attributes @ self.attributes.T + 0.25 * noise
        return np.asarray(rows / np.linalg.norm(rows, axis=-1, keepdims=True))

    def preferences(self, records: int, rng: np.random.Generator) -> Preferences:
        """Return pairs judged by people of the four groups, by Bradley-Terry.

        Args:
            records: N.
            rng: Source of randomness.
        """
        groups = rng.choice(len(SHARES), size=records, p=SHARES)
        own = np.abs(TASTES).argmax(axis=1)[groups]
        varied = np.where(rng.random(records) < 0.85, own, rng.integers(ATTRIBUTES, size=records))
        pairs = self.responses(varied, 2, rng)
        liking = np.einsum("nd,nd->n", pairs[:, 0] - pairs[:, 1], self.tastes[groups])
        swapped = rng.random(records) >= expit(SHARPNESS * liking)
        first, second = pairs[:, 0], pairs[:, 1]
        chosen = np.where(swapped[:, None], second, first)
        rejected = np.where(swapped[:, None], first, second)
        return Preferences(chosen, rejected, groups)


def group_accuracies(directions: Floats, test: Preferences) -> Floats:
    """Return how often each reward direction agrees with each group's pairs, shape (groups, K).

    Args:
        directions: Rewards in the embedding space, shape (K, d).
        test: Pairs that no reward has seen.
    """
    right = (test.differences @ directions.T > 0).astype(np.float64)
    return np.stack([right[test.groups == group].mean(axis=0) for group in range(len(SHARES))])
