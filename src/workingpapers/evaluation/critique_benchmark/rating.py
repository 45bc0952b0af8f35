r"""``ItemizedBT``: two ratings per model, answering and benchmarking, from a plain table of games."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import scipy.optimize
from scipy.special import expit
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from workingpapers.evaluation.critique_benchmark.model import Estimate, Scales, fit_map
from workingpapers.evaluation.critique_benchmark.tables import Games, components, read_games
from workingpapers.foundations.bradley_terry import ELO_PER_LOGIT
from workingpapers.foundations.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

AUTO_BOUNDS = (0.02, 10.0)
ELO_ORIGIN = 1000.0
Scale = float | Literal["auto"]


def elo(logit: Any) -> Any:
    r"""Return ratings on the Elo scale, :math:`1000 + (400 / \ln 10) x`; only differences have a meaning.

    Args:
        logit: Log-odds x, a number or an array of shape (n,).
    """
    return ELO_ORIGIN + ELO_PER_LOGIT * logit


def log_hyperprior(scale: float) -> float:
    r"""Return the log density of the Gamma(2, 1) prior on an answerer or author scale, :math:`\log s - s`.

    With few models the evidence alone often has its maximum at scale zero, which would call all models equal with
    certainty. This prior forbids that and hardly matters with many games.

    Args:
        scale: Prior standard deviation s > 0 in log-odds.

    References:
        Chung et al., A nondegenerate penalized likelihood estimator for variance parameters in multilevel models,
        Psychometrika 78 (2013).
    """
    return float(np.log(scale) - scale)


def fit_scales(games: Games, start: Scales, free: tuple[bool, bool, bool]) -> tuple[Scales, Estimate]:
    """Choose prior scales by empirical Bayes: the maximum of Laplace evidence and :func:`log_hyperprior`.

    Args:
        games: The games.
        start: Where to start, and the value of what is not free.
        free: Whether the answerer, author and item scale are chosen.

    Returns:
        The scales, within 0.02 to 10 where chosen (L-BFGS-B in their logarithms), and the mode under them.
    """
    names = [name for name, chosen in zip(("answerer", "author", "item"), free, strict=True) if chosen]
    best = fit_map(games, start)
    if not names:
        return start, best
    warm = [best]

    def objective(logs: np.ndarray) -> float:
        scales = replace(start, **dict(zip(names, map(float, np.exp(logs)), strict=True)))
        warm[0] = fit_map(games, scales, start=(warm[0].beta, warm[0].alpha, warm[0].delta), tolerance=1e-9)
        guard = sum(log_hyperprior(getattr(scales, name)) for name in names if name != "item")
        return -warm[0].log_evidence - guard

    found = scipy.optimize.minimize(
        objective,
        np.log([getattr(start, name) for name in names]),
        method="L-BFGS-B",
        bounds=[tuple(np.log(AUTO_BOUNDS))] * len(names),
        options={"eps": 1e-4, "ftol": 1e-9, "gtol": 1e-3, "maxiter": 100},
    )
    scales = replace(start, **dict(zip(names, map(float, np.exp(found.x)), strict=True)))
    return scales, fit_map(games, scales)


@dataclass(frozen=True)
class Bootstrap:
    """Percentile intervals under resampling.

    Args:
        intervals: One row a model: model, beta_low, beta_high, alpha_low, alpha_high, best_answerer, best_author
            (shares of resamples in which it came first).
        beta: Resampled answering strengths, shape (draws, n_b).
        alpha: Resampled benchmarking strengths, shape (draws, n_a).
        answerers: Names of the columns of `beta`.
        authors: Names of the columns of `alpha`.
    """

    intervals: pd.DataFrame
    beta: np.ndarray
    alpha: np.ndarray
    answerers: tuple[str, ...]
    authors: tuple[str, ...]

    def rank_probabilities(self, of: Literal["answerers", "authors"] = "answerers") -> pd.DataFrame:
        """Return the share of resamples in which each model took each rank, 1 the best; index models, columns ranks.

        Args:
            of: Which rating.
        """
        import pandas as pd

        values, names = (self.beta, self.answerers) if of == "answerers" else (self.alpha, self.authors)
        ranks = np.argsort(np.argsort(-values, axis=1, kind="stable"), axis=1, kind="stable")
        shares = np.stack([(ranks == rank).mean(axis=0) for rank in range(len(names))], axis=1)
        return pd.DataFrame(shares, index=list(names), columns=range(1, len(names) + 1))


class ItemizedBT(BaseEstimator):  # type: ignore[misc]
    r"""Itemised bipartite Bradley-Terry rating of answerers and authors.

    .. math:: P(\text{answerer } b \text{ stands on item } i \text{ of author } a)
              = \sigma(\beta_b - \alpha_a - \delta_i)

    with normal priors on all three, :math:`\sum_b \beta_b = 0`, fitted by its posterior mode. A model that never meets
    its own hard items is not credited for that, unlike under raw accuracy.

    Args:
        answerer_scale: Prior standard deviation of beta in log-odds, or "auto" for empirical Bayes.
        author_scale: Of alpha; 0 removes the level (a Rasch model).
        item_scale: Of delta; 0 removes the level (bipartite Bradley-Terry).
        own_items: What to do with answers to an author's own items: "refuse" or "drop".

    Attributes:
        ratings_: One row a model, best answerer first: model, beta, beta_se, alpha, alpha_se, elo_answer, elo_author,
            answered, authored (numbers of games). Missing where a model has no such role.
        items_: One row an item: item, author, delta, difficulty (alpha + delta), difficulty_se, games.
        scales_: Prior scales in use (:class:`.model.Scales`).
        components_: Group of each answerer; ratings of different groups are comparable through the prior alone.
        estimate_: The posterior mode and its curvature (:class:`.model.Estimate`).

    Raises:
        InputError: See :func:`.tables.read_games`; a scale is negative, not finite, or 0 for answerers.

    References:
        Marro et al., arXiv 2602.14307.
    """

    def __init__(
        self,
        answerer_scale: Scale = "auto",
        author_scale: Scale = "auto",
        item_scale: Scale = "auto",
        own_items: Literal["refuse", "drop"] = "refuse",
    ) -> None:
        self.answerer_scale = answerer_scale
        self.author_scale = author_scale
        self.item_scale = item_scale
        self.own_items = own_items

    def fit(self, games: pd.DataFrame, y: Any = None) -> ItemizedBT:
        """Fit to a table with the columns answerer, author, item, outcome and, where wanted, weight.

        Args:
            games: The table; outcome is 1 where the answerer won.
            y: Not used.
        """
        import pandas as pd

        self.games_ = read_games(games, self.own_items)
        given = (self.answerer_scale, self.author_scale, self.item_scale)
        start = Scales(
            *(default if value == "auto" else float(value) for value, default in zip(given, (2, 2, 1), strict=True))
        )
        free = tuple(value == "auto" for value in given)
        self.scales_, self.estimate_ = fit_scales(self.games_, start, (free[0], free[1], free[2]))
        labels = components(self.games_)
        self.components_ = pd.Series(labels, index=list(self.games_.answerers), name="component")
        self.ratings_ = _ratings(self.games_, self.estimate_, self.scales_)
        difficulty, error = self.estimate_.difficulty(self.games_)
        self.items_ = pd.DataFrame(
            {
                "item": self.games_.items,
                "author": [self.games_.authors[a] for a in self.games_.author_of],
                "delta": self.estimate_.delta,
                "difficulty": difficulty,
                "difficulty_se": error,
                "games": np.bincount(self.games_.item, self.games_.weight, len(self.games_.items)),
            }
        )
        return self

    def predict_proba(self, games: pd.DataFrame) -> np.ndarray:
        """Return the probability that the answerer loses and that it wins, shape (g, 2).

        Args:
            games: Columns answerer, author, item. An item that was not seen counts as average for its author
                (delta = 0).

        Raises:
            InputError: An answerer or author was not in the table that was fitted.
        """
        check_is_fitted(self)
        known = self.games_
        answerer = _numbers(games["answerer"], known.answerers, "answerer")
        author = _numbers(games["author"], known.authors, "author")
        delta = games["item"].astype(str).map(dict(zip(known.items, self.estimate_.delta, strict=True)))
        eta = self.estimate_.beta[answerer] - self.estimate_.alpha[author] - delta.fillna(0.0).to_numpy(dtype=float)
        return np.column_stack([expit(-eta), expit(eta)])

    def bootstrap(
        self,
        draws: int = 500,
        *,
        by: Literal["item", "game"] = "item",
        level: float = 0.95,
        random_state: int | np.random.Generator = 0,
    ) -> Bootstrap:
        """Return percentile intervals and rank shares; prior scales stay as fitted.

        For benchmarking strength prefer the Laplace intervals, ``alpha`` plus or minus 1.96 ``alpha_se``: where items
        differ much, they cover the truth in nearly nine of ten cases, percentile intervals of a shrunken estimate in
        fewer, and those from single games in fewer still (the tests repeat that simulation).

        Args:
            draws: Number of resamples.
            by: What is drawn with replacement, within each author. Games of one item depend on each other, so drawing
                single games gives benchmarking intervals that are far too narrow; it is there to show that.
            level: Coverage of the intervals.
            random_state: Seed or generator.
        """
        check_is_fitted(self)
        rng = np.random.default_rng(random_state)
        games, mode = self.games_, self.estimate_
        units = np.arange(len(games.items)) if by == "item" else np.arange(len(games.item))
        strata = games.author_of if by == "item" else games.author_of[games.item]
        betas, alphas = [], []
        for _ in range(draws):
            counts = np.zeros(len(units))
            for author in range(len(games.authors)):
                members = units[strata == author]
                counts[members] = rng.multinomial(len(members), np.full(len(members), 1 / len(members)))
            factor = counts[games.item] if by == "item" else counts
            resampled = replace(games, weight=games.weight * factor, wins=games.wins * factor)
            fit = fit_map(resampled, self.scales_, start=(mode.beta, mode.alpha, mode.delta), tolerance=1e-6)
            betas.append(fit.beta)
            alphas.append(fit.alpha)
        beta, alpha = np.stack(betas), np.stack(alphas)
        return Bootstrap(self._intervals(beta, alpha, level), beta, alpha, games.answerers, games.authors)

    def _intervals(self, beta: np.ndarray, alpha: np.ndarray, level: float) -> pd.DataFrame:
        import pandas as pd

        tails = [(1 - level) / 2, (1 + level) / 2]
        frame = pd.DataFrame({"model": self.ratings_["model"]})
        for names, values, rating, role in (
            (self.games_.answerers, beta, "beta", "answerer"),
            (self.games_.authors, alpha, "alpha", "author"),
        ):
            ends = np.quantile(values, tails, axis=0)
            first = np.bincount(values.argmax(axis=1), minlength=len(names)) / len(values)
            for suffix, numbers in ((f"{rating}_low", ends[0]), (f"{rating}_high", ends[1]), (f"best_{role}", first)):
                frame[suffix] = frame["model"].map(dict(zip(names, numbers, strict=True)))
        return frame


def _ratings(games: Games, fit: Estimate, scales: Scales) -> pd.DataFrame:
    import pandas as pd

    n_b = len(games.answerers)
    errors = np.sqrt(np.diag(fit.covariance))
    answered = np.bincount(games.answerer, games.weight, n_b)
    authored = np.bincount(games.author_of[games.item], games.weight, len(games.authors))
    left = pd.DataFrame(
        {"model": games.answerers, "beta": fit.beta, "beta_se": errors[:n_b], "answered": answered}
    ).set_index("model")
    right = pd.DataFrame(
        {"model": games.authors, "alpha": fit.alpha, "alpha_se": errors[n_b:], "authored": authored}
    ).set_index("model")
    frame = left.join(right, how="outer")
    if scales.author == 0:
        frame[["alpha", "alpha_se"]] = np.nan
    frame["elo_answer"], frame["elo_author"] = elo(frame["beta"]), elo(frame["alpha"])
    frame = frame.rename_axis("model").reset_index()
    frame = frame.sort_values(["beta", "alpha", "model"], ascending=[False, False, True], ignore_index=True)
    columns = ["model", "beta", "beta_se", "alpha", "alpha_se", "elo_answer", "elo_author", "answered", "authored"]
    return frame[columns]


def _numbers(names: pd.Series, known: tuple[str, ...], role: str) -> np.ndarray:
    numbers = names.astype(str).map({name: number for number, name in enumerate(known)})
    if numbers.isna().any():
        unknown = str(names[numbers.isna()].iloc[0])
        raise InputError(f"{role} {unknown!r} was not among the fitted {role}s; fit a table that has it.")
    return numbers.to_numpy(dtype=np.int64)
