"""The estimator: tables in, ratings, predictions and intervals out."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit
from sklearn.base import clone

from workingpapers.evaluation.critique_benchmark.baselines import (
    bipartite,
    online_elo,
    plain_bradley_terry,
    rasch,
    raw_accuracy,
)
from workingpapers.evaluation.critique_benchmark.rating import ItemizedBT
from workingpapers.evaluation.critique_benchmark.simulation import simulate, votes
from workingpapers.foundations.errors import InputError


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    return simulate(np.random.default_rng(0), models=5, items=12).frame()


@pytest.fixture(scope="module")
def fitted(frame: pd.DataFrame) -> ItemizedBT:
    return ItemizedBT().fit(frame)


def test_it_behaves_like_an_estimator(frame: pd.DataFrame, fitted: ItemizedBT) -> None:
    assert clone(ItemizedBT(item_scale=0.5)).get_params()["item_scale"] == 0.5
    assert list(fitted.ratings_["beta"]) == sorted(fitted.ratings_["beta"], reverse=True)
    assert fitted.ratings_["answered"].sum() == fitted.ratings_["authored"].sum() == len(frame)


def test_predictions_follow_the_formula(frame: pd.DataFrame, fitted: ItemizedBT) -> None:
    p = fitted.predict_proba(frame)
    np.testing.assert_allclose(p.sum(axis=1), 1)
    ratings, items = fitted.ratings_.set_index("model"), fitted.items_.set_index("item")
    row = frame.iloc[7]
    eta = ratings.beta[row.answerer] - ratings.alpha[row.author] - items.delta[row["item"]]
    assert p[7, 1] == pytest.approx(expit(eta))
    new = fitted.predict_proba(frame.iloc[[7]].assign(item="never seen"))
    assert new[0, 1] == pytest.approx(expit(ratings.beta[row.answerer] - ratings.alpha[row.author]))
    with pytest.raises(InputError, match="'stranger' was not among the fitted answerers"):
        fitted.predict_proba(frame.iloc[[0]].assign(answerer="stranger"))


def test_bootstrap_is_reproducible_and_draws_items(fitted: ItemizedBT) -> None:
    one, two = (fitted.bootstrap(40, random_state=5) for _ in range(2))
    np.testing.assert_array_equal(one.beta, two.beta)
    joined = fitted.ratings_.merge(one.intervals, on="model")
    assert (joined["beta_low"] < joined["beta_high"]).all()
    ranks = one.rank_probabilities()
    np.testing.assert_allclose(ranks.sum(axis=0), 1)
    np.testing.assert_allclose(ranks.sum(axis=1), 1)
    best = one.intervals.set_index("model")["best_answerer"]
    np.testing.assert_allclose(ranks[1], best.loc[ranks.index])


def test_intervals_of_laplace_cover_best_and_those_of_single_games_worst() -> None:
    """95 % intervals of alpha around the planted value, when items differ much and each is met by many answerers."""
    covered: dict[str, list[bool]] = {"laplace": [], "item": [], "game": []}
    names = [f"m{k}" for k in range(12)]
    for seed in range(8):
        planted = simulate(np.random.default_rng(seed), models=12, items=25, item_scale=1.5, selective=False)
        rating = ItemizedBT().fit(planted.frame())
        truth = pd.Series(planted.alpha - planted.beta.mean(), index=names)
        table = rating.ratings_.set_index("model").loc[names]
        covered["laplace"] += list((table["alpha"] - truth).abs() <= 1.96 * table["alpha_se"])
        for by in ("item", "game"):
            ends = rating.bootstrap(60, by=by, random_state=seed).intervals.set_index("model").loc[names]
            covered[by] += list((ends["alpha_low"] <= truth) & (truth <= ends["alpha_high"]))
    shares = {by: np.mean(hits) for by, hits in covered.items()}
    assert shares["laplace"] > 0.8
    assert shares["laplace"] > shares["item"] > shares["game"] + 0.05


def test_baselines_are_what_they_say(frame: pd.DataFrame) -> None:
    assert raw_accuracy(frame)["m1"] == pytest.approx(frame[frame.answerer == "m1"].outcome.mean())
    assert bipartite().fit(frame).items_["delta"].abs().max() == 0
    assert rasch().fit(frame).ratings_["alpha"].isna().all()
    strengths = plain_bradley_terry(frame)
    assert strengths.idxmax() in set(frame["answerer"])
    forward, backward = online_elo(frame), online_elo(frame.iloc[::-1])
    assert forward.sum() == pytest.approx(1000 * len(forward))
    assert not np.allclose(forward, backward[forward.index])


def test_votes_have_the_stated_accuracy_and_shared_errors_are_shared() -> None:
    rng = np.random.default_rng(0)
    truth = rng.random(20000) < 0.4
    v = votes(rng, truth, 6, 0.8)
    assert (v == truth[:, None]).mean() == pytest.approx(0.8, abs=0.005)
    unanimous = (v == v[:, :1]).all(axis=1)
    assert unanimous.mean() == pytest.approx(0.8**6 + 0.2**6, abs=0.01)
    v = votes(rng, truth, 6, 0.8, shared_error=0.15)
    assert (v != truth[:, None]).all(axis=1).mean() == pytest.approx(0.15 + 0.85 * 0.2**6, abs=0.01)


GOOD = pd.DataFrame(
    {"answerer": ["a", "b", "a"], "author": ["c", "c", "b"], "item": ["1", "1", "2"], "outcome": [1, 0, 1]}
)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"outcome": [1, 0.5, 1]}, "the outcome '0.5' in row 2"),
        ({"outcome": [1, "draw", 1]}, "the outcome 'draw' in row 2"),
        ({"item": ["1", "1", "1"]}, "the item '1' by two authors"),
        ({"author": ["c", "c", "a"]}, "'a' answering its own item '2' .row 3."),
        ({"answerer": ["a", "a", "a"]}, "has 1 answerers"),
        ({"answerer": ["a", None, "a"]}, "empty cell in column 'answerer', row 2"),
        ({"weight": [1, -1, 1]}, "the weight '-1' in row 2"),
        ({"weight": [1, "much", 1]}, "the weight 'much' in row 2"),
    ],
)
def test_bad_tables_are_named(change: dict[str, list[object]], said: str) -> None:
    with pytest.raises(InputError, match=said):
        ItemizedBT().fit(GOOD.assign(**change))


def test_missing_column_is_named() -> None:
    with pytest.raises(InputError, match="no column 'outcome'; did you mean 'outcomes'"):
        ItemizedBT().fit(GOOD.rename(columns={"outcome": "outcomes"}))


def test_own_items_can_be_left_out() -> None:
    own = pd.DataFrame({"answerer": ["c"], "author": ["c"], "item": ["1"], "outcome": [1]})
    rating = ItemizedBT(2.0, 2.0, 1.0, own_items="drop").fit(pd.concat([GOOD, own]))
    pd.testing.assert_frame_equal(rating.ratings_, ItemizedBT(2.0, 2.0, 1.0).fit(GOOD).ratings_)
