"""Closed forms, limits and invariances of the itemised Bradley-Terry model."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import scipy.linalg
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import expit, logit

from workingpapers.evaluation.critique_benchmark.model import (
    Scales,
    basis,
    derivatives,
    fit_map,
    log_likelihood,
    negative_log_posterior,
)
from workingpapers.evaluation.critique_benchmark.rating import ItemizedBT, elo, fit_scales, log_hyperprior
from workingpapers.evaluation.critique_benchmark.simulation import simulate
from workingpapers.evaluation.critique_benchmark.tables import Games, components, read_games
from workingpapers.foundations.errors import InputError
from workingpapers.foundations.logistic import fit_logistic


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    return simulate(np.random.default_rng(0), models=5, items=9).frame()


@pytest.fixture(scope="module")
def games(frame: pd.DataFrame) -> Games:
    return read_games(frame)


def designs(games: Games) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the indicator matrices of answerers, authors and items, written the slow way."""
    cells = range(len(games.answerer))
    b, a, i = (np.zeros((len(cells), n)) for n in (len(games.answerers), len(games.authors), len(games.items)))
    for cell in cells:
        b[cell, games.answerer[cell]] = 1
        i[cell, games.item[cell]] = 1
        a[cell, games.author_of[games.item[cell]]] = 1
    return b, a, i


def single(wins: int, total: int) -> Games:
    one = np.zeros(1, dtype=int)
    return Games(("b",), ("a",), ("i",), one, one, one, np.array([float(total)]), np.array([float(wins)]), total)


def test_adding_a_number_to_all_beta_and_alpha_changes_nothing_and_beta_sums_to_zero(games: Games) -> None:
    rng = np.random.default_rng(1)
    beta, alpha, delta = (rng.normal(size=len(names)) for names in (games.answerers, games.authors, games.items))
    here = log_likelihood(games, beta, alpha, delta)
    assert log_likelihood(games, beta + 1.7, alpha + 1.7, delta) == pytest.approx(here, abs=1e-9)
    assert log_likelihood(games, beta + 1.7, alpha, delta) != pytest.approx(here, abs=1e-3)
    assert fit_map(games, Scales()).beta.sum() == pytest.approx(0, abs=1e-12)


def test_gradient_and_hessian_match_finite_differences(games: Games) -> None:
    rng = np.random.default_rng(2)
    sizes = np.cumsum([len(games.answerers), len(games.authors)])
    at = rng.normal(size=sizes[1] + len(games.items))
    scales = Scales(1.3, 0.7, 0.9)
    gradient, hessian = derivatives(games, scales, *np.split(at, sizes))
    step = 1e-5
    for k in range(len(at)):
        ends = []
        for sign in (1, -1):
            moved = at.copy()
            moved[k] += sign * step
            parts = np.split(moved, sizes)
            ends.append((negative_log_posterior(games, scales, *parts), derivatives(games, scales, *parts)[0]))
        assert (ends[0][0] - ends[1][0]) / (2 * step) == pytest.approx(gradient[k], abs=1e-6)
        np.testing.assert_allclose((ends[0][1] - ends[1][1]) / (2 * step), hessian[k], atol=1e-6)


def test_one_cell_without_priors_gives_the_logit_of_its_share() -> None:
    fit = fit_map(single(7, 10), Scales(1e4, 1e4, 0.0))
    assert fit.beta[0] == 0
    assert fit.beta[0] - fit.alpha[0] - fit.delta[0] == pytest.approx(logit(0.7), abs=1e-6)
    nearly = fit_map(single(7, 10), Scales(1e4, 1e4, 1e-4))
    assert nearly.beta[0] - nearly.alpha[0] - nearly.delta[0] == pytest.approx(logit(0.7), abs=1e-6)


def reference(games: Games, scales: Scales) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The same posterior mode through the general sparse logistic solver."""
    b, a, i = designs(games)
    turn = scipy.linalg.helmert(len(games.answerers)).T
    blocks, ridge = [b @ turn], [np.full(turn.shape[1], scales.answerer**-2)]
    if scales.author:
        blocks.append(-a)
        ridge.append(np.full(a.shape[1], scales.author**-2))
    if scales.item:
        blocks.append(-i)
        ridge.append(np.full(i.shape[1], scales.item**-2))
    design, rho = np.hstack(blocks), np.concatenate(ridge)
    fit = fit_logistic(design, games.wins / games.weight, weights=games.weight, ridge=rho, tolerance=1e-12)
    theta = fit.coefficients
    k = turn.shape[1]
    alpha = theta[k : k + a.shape[1]] if scales.author else np.zeros(a.shape[1])
    delta = theta[-i.shape[1] :] if scales.item else np.zeros(i.shape[1])
    return turn @ theta[:k], alpha, delta


@pytest.mark.parametrize("scales", [Scales(2, 2, 1), Scales(0.5, 1.5, 0.3), Scales(1, 1, 0), Scales(1, 0, 1)])
def test_the_mode_is_that_of_a_general_solver(games: Games, scales: Scales) -> None:
    fit = fit_map(games, scales)
    for found, right in zip((fit.beta, fit.alpha, fit.delta), reference(games, scales), strict=True):
        np.testing.assert_allclose(found, right, atol=1e-8)


def test_a_vanishing_item_scale_is_bipartite_bradley_terry_on_pair_counts(frame: pd.DataFrame, games: Games) -> None:
    pairs = frame.assign(item=frame["author"])  # one item an author: the games of a pair are pooled
    pooled = read_games(pairs)
    assert len(pooled.answerer) == len(frame.groupby(["answerer", "author"]))
    nearly = fit_map(games, Scales(2, 2, 1e-5))
    exact = fit_map(pooled, Scales(2, 2, 0.0))
    np.testing.assert_allclose(nearly.beta, exact.beta, atol=1e-6)
    np.testing.assert_allclose(nearly.alpha, exact.alpha, atol=1e-6)


def test_a_vanishing_author_scale_is_a_ridge_rasch_model(games: Games) -> None:
    nearly, exact = fit_map(games, Scales(2, 1e-5, 1)), fit_map(games, Scales(2, 0.0, 1))
    np.testing.assert_allclose(nearly.beta, exact.beta, atol=1e-6)
    np.testing.assert_allclose(nearly.delta, exact.delta, atol=1e-6)
    np.testing.assert_allclose(exact.beta, reference(games, Scales(2, 0, 1))[0], atol=1e-8)


def test_order_of_rows_does_not_matter_in_any_bit(frame: pd.DataFrame) -> None:
    weighted = frame.assign(weight=np.random.default_rng(3).random(len(frame)))
    shuffled = weighted.sample(frac=1, random_state=4)
    one, two = ItemizedBT().fit(weighted), ItemizedBT().fit(shuffled)
    pd.testing.assert_frame_equal(one.ratings_, two.ratings_, check_exact=True)
    pd.testing.assert_frame_equal(one.items_, two.items_, check_exact=True)


def test_new_names_permute_the_results(frame: pd.DataFrame) -> None:
    names = {f"m{k}": f"x{9 - k}" for k in range(5)}
    renamed = frame.assign(
        answerer=frame["answerer"].map(names),
        author=frame["author"].map(names),
        item=[item[::-1] for item in frame["item"]],
    )
    one = ItemizedBT().fit(frame).ratings_.set_index("model").rename(index=names)
    two = ItemizedBT().fit(renamed).ratings_.set_index("model")
    pd.testing.assert_frame_equal(one.sort_index(), two.sort_index(), atol=1e-4, rtol=0)


def test_perfect_separation_is_finite_and_a_tighter_prior_shrinks(frame: pd.DataFrame) -> None:
    won = frame.assign(outcome=np.where(frame["answerer"] == "m2", 1, frame["outcome"]))
    sizes = []
    for scale in (4.0, 2.0, 1.0, 0.5):
        fit = ItemizedBT(scale, 2.0, 1.0).fit(won)
        assert np.isfinite(fit.ratings_[["beta", "alpha"]]).all(axis=None)
        assert fit.ratings_["model"][0] == "m2"
        sizes.append(np.linalg.norm(fit.estimate_.beta))
    assert sizes == sorted(sizes, reverse=True)


@settings(max_examples=30, deadline=None)
@given(scale=st.floats(0.05, 3), outcome=st.sampled_from([0.0, 1.0]), seed=st.integers(0, 99))
def test_an_item_seen_once_moves_by_at_most_its_prior_variance(scale: float, outcome: float, seed: int) -> None:
    table = simulate(np.random.default_rng(seed), models=3, items=4).frame()
    lone = pd.DataFrame({"answerer": ["m0"], "author": ["m1"], "item": ["lone"], "outcome": [outcome]})
    games = read_games(pd.concat([table, lone]))
    fit = fit_map(games, Scales(2, 2, scale))
    delta = fit.delta[games.items.index("lone")]
    p = expit(fit.beta[games.answerers.index("m0")] - fit.alpha[games.authors.index("m1")] - delta)
    assert delta == pytest.approx(scale**2 * (p - outcome), abs=1e-6)
    assert abs(delta) <= scale**2


def test_a_duplicated_game_is_a_game_of_weight_two(frame: pd.DataFrame) -> None:
    twice = pd.concat([frame, frame.iloc[:3]])
    weight = np.ones(len(frame))
    weight[:3] = 2
    one, two = read_games(twice), read_games(frame.assign(weight=weight))
    np.testing.assert_allclose(fit_map(one, Scales()).beta, fit_map(two, Scales()).beta, atol=1e-12)
    np.testing.assert_array_equal(one.wins, two.wins)


def test_four_hundred_points_are_ten_to_one() -> None:
    gap = (elo(np.log(10)) - elo(0.0)) / 400
    assert gap == pytest.approx(1)
    assert expit(np.log(10)) == pytest.approx(10 / 11)


def test_laplace_evidence_is_close_to_the_integral() -> None:
    table = pd.DataFrame(
        [("b0", 1, 4, 3), ("b0", 2, 4, 2), ("b1", 1, 4, 1), ("b1", 2, 4, 1)], columns=["b", "i", "n", "k"]
    )
    rows = [
        {"answerer": row.b, "author": "a", "item": str(row.i), "outcome": float(game < row.k)}
        for row in table.itertuples()
        for game in range(row.n)
    ]
    games, scales = read_games(pd.DataFrame(rows)), Scales(0.8, 0.6, 0.5)
    # Gauss-Hermite over gamma (beta = gamma * helmert row), alpha, delta_1, delta_2: standard normals times scale.
    nodes, weights = np.polynomial.hermite_e.hermegauss(24)
    weights = weights / weights.sum()
    gamma, alpha, one, two = np.meshgrid(*[nodes] * 4, indexing="ij")
    turn = scipy.linalg.helmert(2)[0]
    total = np.zeros_like(gamma)
    for cell in range(len(games.answerer)):
        delta = (one, two)[games.item[cell]] * scales.item
        eta = gamma * scales.answerer * turn[games.answerer[cell]] - alpha * scales.author - delta
        total += games.wins[cell] * eta - games.weight[cell] * np.logaddexp(0, eta)
    joint = np.einsum("ijkl,i,j,k,l", np.exp(total), weights, weights, weights, weights)
    assert np.exp(fit_map(games, scales).log_evidence) == pytest.approx(joint, rel=0.05)
    moved = replace(scales, author=3.0)
    assert fit_map(games, moved).log_evidence < fit_map(games, scales).log_evidence


def test_empirical_bayes_finds_the_maximum_of_the_evidence() -> None:
    games = read_games(simulate(np.random.default_rng(0), items=30).frame())
    scales, best = fit_scales(games, Scales(), (True, True, True))

    def objective(at: Scales) -> float:
        return fit_map(games, at).log_evidence + log_hyperprior(at.answerer) + log_hyperprior(at.author)

    assert objective(scales) == pytest.approx(
        best.log_evidence + np.log(scales.answerer * scales.author) - scales.answerer - scales.author
    )
    for name in ("answerer", "author", "item"):
        for factor in (0.8, 0.97, 1.03, 1.25):
            moved = replace(scales, **{name: getattr(scales, name) * factor})
            assert objective(moved) < objective(scales)


def test_few_games_do_not_make_all_models_equal_with_certainty() -> None:
    covered = []
    for seed in range(20):
        planted = simulate(np.random.default_rng(seed), models=4, items=6, selective=False)
        table = ItemizedBT().fit(planted.frame()).ratings_.set_index("model").reindex([f"m{k}" for k in range(4)])
        assert table["alpha_se"].min() > 0.2
        truth = planted.alpha - planted.beta.mean()
        covered += list((table["alpha"] - truth).abs() <= 1.96 * table["alpha_se"])
    assert np.mean(covered) > 0.8


def test_planted_scales_are_recovered() -> None:
    found = []
    for seed in range(12):
        table = simulate(np.random.default_rng(seed), item_scale=0.0, selective=False).frame()
        found.append(ItemizedBT().fit(table).scales_.item)
    assert np.mean(found) < 0.3
    table = simulate(np.random.default_rng(0), models=12, items=60, item_scale=1.0, selective=False).frame()
    assert ItemizedBT().fit(table).scales_.item == pytest.approx(1.0, abs=0.2)


def test_covariance_and_difficulty_errors_are_those_of_the_full_hessian(games: Games) -> None:
    scales = Scales(1.0, 1.2, 0.8)
    fit = fit_map(games, scales)
    _, hessian = derivatives(games, scales, fit.beta, fit.alpha, fit.delta)
    n_b, n_a, n_i = len(fit.beta), len(fit.alpha), len(fit.delta)
    free = scipy.linalg.block_diag(basis(n_b, n_a, scales), np.eye(n_i))
    full = free @ np.linalg.inv(free.T @ hessian @ free) @ free.T
    np.testing.assert_allclose(fit.covariance, full[: n_b + n_a, : n_b + n_a], atol=1e-10)
    total = np.hstack([np.zeros((n_i, n_b)), np.eye(n_a)[games.author_of], np.eye(n_i)])
    difficulty, error = fit.difficulty(games)
    np.testing.assert_allclose(error, np.sqrt(np.diag(total @ full @ total.T)), atol=1e-10)
    np.testing.assert_allclose(difficulty, fit.alpha[games.author_of] + fit.delta)


def test_components_are_linked_through_items_and_authors() -> None:
    rows = [("a", "x", "1"), ("b", "x", "2"), ("c", "y", "3"), ("d", "y", "3")]
    table = pd.DataFrame(rows, columns=["answerer", "author", "item"]).assign(outcome=[1, 0, 1, 0])
    labels = components(read_games(table))
    assert labels[0] == labels[1] != labels[2] == labels[3]
    assert set(ItemizedBT(2.0, 2.0, 1.0).fit(table).components_) == {0, 1}


def test_scales_must_make_sense() -> None:
    for bad in ((0, 1, 1), (1, -1, 1), (1, 1, float("nan")), (float("inf"), 1, 1)):
        with pytest.raises(InputError, match="scale is"):
            Scales(*bad)
