r"""Games with planted skills, with and without selective exposure, and their adjudication by imperfect judges."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import expit

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Planted:
    """A simulated benchmark.

    Args:
        beta: Planted answering strengths, shape (n,).
        alpha: Planted benchmarking strengths, shape (n,).
        answerer: Answerer of each game, int, shape (g,).
        author: Author of each game, int, shape (g,).
        item: Item of each game, int, shape (g,).
        right: Whether the answer is right, bool, shape (g,).
        claimed: Whether the author claims an error, bool, shape (g,).
    """

    beta: np.ndarray
    alpha: np.ndarray
    answerer: np.ndarray
    author: np.ndarray
    item: np.ndarray
    right: np.ndarray
    claimed: np.ndarray

    def frame(self, outcome: np.ndarray | None = None) -> pd.DataFrame:
        """Return the table of games with these outcomes; the true ones where None; NaN leaves a game out.

        Args:
            outcome: 1, 0 or NaN, shape (g,).
        """
        import pandas as pd

        table = pd.DataFrame(
            {
                "answerer": [f"m{b}" for b in self.answerer],
                "author": [f"m{a}" for a in self.author],
                "item": [f"i{i:04d}" for i in self.item],
                "outcome": self.right.astype(float) if outcome is None else outcome,
            }
        )
        return table.dropna(ignore_index=True)


def simulate(
    rng: np.random.Generator,
    *,
    models: int = 8,
    items: int = 44,
    item_scale: float = 1.0,
    selective: bool = True,
    claim_if_wrong: float = 0.9,
    claim_if_right: float = 0.1,
) -> Planted:
    r"""Plant skills and play: strong answerers are sent to hard items where `selective`.

    beta ~ N(0, 1.5^2), alpha = 0.9 beta + N(0, 0.7^2), delta ~ N(0, item_scale^2); a game is observed with probability
    :math:`\sigma(\tfrac{2}{3} \beta_b (\alpha_a + \delta_i))`, or 1/2 without selection, and nobody answers its own
    items.

    Args:
        rng: Source of randomness.
        models: Number of models n.
        items: Items of each author.
        item_scale: Planted standard deviation of the item effects.
        selective: Whether exposure depends on strength and difficulty.
        claim_if_wrong: Probability that the author claims an error in a wrong answer.
        claim_if_right: Probability that it claims one in a right answer.
    """
    beta = rng.normal(0, 1.5, models)
    alpha = 0.9 * beta + rng.normal(0, 0.7, models)
    delta = rng.normal(0, 1, models * items) * item_scale
    author_of = np.repeat(np.arange(models), items)
    b, i = (grid.ravel() for grid in np.meshgrid(np.arange(models), np.arange(models * items), indexing="ij"))
    difficulty = alpha[author_of[i]] + delta[i]
    exposure = expit(2 * beta[b] * difficulty / 3) if selective else np.full(len(b), 0.5)
    seen = (rng.random(len(b)) < exposure) & (author_of[i] != b)
    right = rng.random(len(b)) < expit(beta[b] - difficulty)
    claimed = rng.random(len(b)) < np.where(right, claim_if_right, claim_if_wrong)
    return Planted(beta, alpha, b[seen], author_of[i][seen], i[seen], right[seen], claimed[seen])


def votes(
    rng: np.random.Generator, truth: np.ndarray, judges: int, accuracy: float, shared_error: float = 0.0
) -> np.ndarray:
    """Return whether each judge upholds each claim, bool, shape (c, judges).

    Args:
        rng: Source of randomness.
        truth: Whether each claim is true, bool, shape (c,).
        judges: Number of judges.
        accuracy: Probability that a judge is right, independently.
        shared_error: Probability that a claim looks wrong to all judges, who then all miss.
    """
    right = rng.random((len(truth), judges)) < accuracy
    right[rng.random(len(truth)) < shared_error] = False
    upheld: np.ndarray = right == truth[:, None]
    return upheld
