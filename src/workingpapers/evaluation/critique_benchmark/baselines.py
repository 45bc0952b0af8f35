"""Ratings that one would use otherwise."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.special import expit

from workingpapers.evaluation.critique_benchmark.rating import ItemizedBT, Scale
from workingpapers.evaluation.critique_benchmark.tables import read_games
from workingpapers.foundations.bradley_terry import ELO_PER_LOGIT, fit_pairs

if TYPE_CHECKING:
    import pandas as pd


def raw_accuracy(games: pd.DataFrame) -> pd.Series:
    """Return each answerer's share of wins, index model.

    Args:
        games: Columns answerer, author, item, outcome.
    """
    return games.groupby("answerer")["outcome"].mean()


def bipartite(author_scale: Scale = "auto") -> ItemizedBT:
    """Return bipartite Bradley-Terry, beta_b - alpha_a: the model without items.

    Args:
        author_scale: See :class:`.rating.ItemizedBT`.
    """
    return ItemizedBT(author_scale=author_scale, item_scale=0.0)


def rasch(item_scale: Scale = "auto") -> ItemizedBT:
    """Return the Rasch model, beta_b - d_i: the model without authors.

    Args:
        item_scale: See :class:`.rating.ItemizedBT`.
    """
    return ItemizedBT(author_scale=0.0, item_scale=item_scale)


def plain_bradley_terry(games: pd.DataFrame, ridge: float = 0.25) -> pd.Series:
    """Return one strength a model from games between answerer and author, index model.

    Args:
        games: Columns answerer, author, item, outcome.
        ridge: Inverse prior variance.
    """
    import pandas as pd

    pooled = read_games(games, "drop")
    names = sorted({*pooled.answerers, *pooled.authors})
    number = {name: index for index, name in enumerate(names)}
    b = np.array([number[name] for name in pooled.answerers])[pooled.answerer]
    a = np.array([number[name] for name in pooled.authors])[pooled.author_of[pooled.item]]
    losses = pooled.weight - pooled.wins
    fit = fit_pairs(np.r_[b, a], np.r_[a, b], len(names), weights=np.r_[pooled.wins, losses], ridge=ridge)
    return pd.Series(fit.strengths, index=names)


def online_elo(games: pd.DataFrame, step: float = 32.0) -> pd.Series:
    """Return Elo ratings updated game by game, in the order of the rows, on which they depend; index model.

    Args:
        games: Columns answerer, author, item, outcome.
        step: Elo's K.
    """
    import pandas as pd

    ratings: dict[str, float] = {}
    for b, a, y in zip(games["answerer"], games["author"], games["outcome"], strict=True):
        p = float(expit((ratings.get(b, 1000.0) - ratings.get(a, 1000.0)) / ELO_PER_LOGIT))
        ratings[b] = ratings.get(b, 1000.0) + step * (y - p)
        ratings[a] = ratings.get(a, 1000.0) - step * (y - p)
    return pd.Series(ratings)
