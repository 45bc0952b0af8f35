"""Strengths: closed forms, other libraries' answers, and what is refused."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import approx_fprime
from scipy.special import expit, logit

from workingpapers.foundations.bradley_terry import (
    ELO_PER_LOGIT,
    StrengthFit,
    cluster_bootstrap,
    connectivity,
    fit_pairs,
    fit_rankings,
    fit_ties,
    pair_design,
    pool_pairs,
    win_probability,
)
from workingpapers.foundations.errors import InputError
from workingpapers.foundations.logistic import fit_logistic


def games(n, count, seed, spread=1.0):
    rng = np.random.default_rng(seed)
    theta = rng.normal(0, spread, n)
    first = rng.integers(0, n, count)
    second = (first + rng.integers(1, n, count)) % n
    won = rng.random(count) < expit(theta[first] - theta[second])
    return np.where(won, first, second), np.where(won, second, first), theta - theta.mean()


def test_two_players_have_the_logit_of_the_share():
    fit = fit_pairs(np.r_[np.zeros(7, int), np.ones(3, int)], np.r_[np.ones(7, int), np.zeros(3, int)], 2)
    assert fit.strengths[0] - fit.strengths[1] == pytest.approx(logit(0.7), abs=1e-9)
    # Var(theta_0 - theta_1) = 1 / (n p q)
    c = fit.covariance
    assert c[0, 0] + c[1, 1] - 2 * c[0, 1] == pytest.approx(1 / (10 * 0.7 * 0.3), rel=1e-6)


def test_equal_to_choix():
    choix = pytest.importorskip("choix")
    winners, losers, _ = games(15, 800, 0)
    data = list(zip(winners.tolist(), losers.tolist(), strict=True))
    theirs = choix.opt_pairwise(15, data, method="Newton-CG", tol=1e-12)
    assert fit_pairs(winners, losers, 15).strengths == pytest.approx(theirs - theirs.mean(), abs=1e-6)
    # choix penalises alpha |theta|^2, we rho/2 |theta|^2.
    theirs = choix.opt_pairwise(15, data, alpha=0.5, method="Newton-CG", tol=1e-12)
    assert fit_pairs(winners, losers, 15, ridge=1.0).strengths == pytest.approx(theirs, abs=1e-6)


def test_rankings_equal_choix():
    choix = pytest.importorskip("choix")
    rng = np.random.default_rng(1)
    theta = rng.normal(size=8)
    rankings = [np.argsort(rng.exponential(size=8) / np.exp(theta))[: rng.integers(2, 9)].tolist() for _ in range(300)]
    theirs = choix.opt_rankings(8, rankings, method="Newton-CG", tol=1e-12)
    fit = fit_rankings(rankings, 8)
    assert fit.strengths == pytest.approx(theirs - theirs.mean(), abs=1e-5)
    assert np.abs(fit.strengths - (theta - theta.mean())).max() < 4 * fit.standard_errors().max()


def test_equal_to_scikit_learn():
    linear_model = pytest.importorskip("sklearn.linear_model")
    winners, losers, _ = games(12, 500, 2)
    design = pair_design(winners, losers, 12)
    both = np.vstack([design.toarray(), -design.toarray()])
    labels = np.r_[np.ones(500), np.zeros(500)]
    model = linear_model.LogisticRegression(C=1 / (2 * 0.8), fit_intercept=False, tol=1e-12, max_iter=10_000)
    theirs = model.fit(both, labels).coef_[0]  # every game counts twice, so the penalty does too
    assert fit_pairs(winners, losers, 12, ridge=0.8).strengths == pytest.approx(theirs, abs=1e-6)


def test_logistic_with_weights_equals_scikit_learn():
    linear_model = pytest.importorskip("sklearn.linear_model")
    rng = np.random.default_rng(3)
    x, y, w = rng.normal(size=(200, 4)), rng.random(200) < 0.4, rng.uniform(0, 3, 200)
    theirs = linear_model.LogisticRegression(C=1.0, fit_intercept=False, tol=1e-12, max_iter=1000).fit(x, y, w).coef_[0]
    assert fit_logistic(x, y.astype(float), weights=w, ridge=1.0).coefficients == pytest.approx(theirs, abs=1e-6)


def test_dense_and_iterative_solvers_agree(monkeypatch):
    winners, losers, _ = games(40, 4000, 4)
    dense = fit_pairs(winners, losers, 40)
    monkeypatch.setattr("workingpapers.foundations.logistic.DENSE_PARAMETERS", 3)
    iterative = fit_pairs(winners, losers, 40)
    assert iterative.converged
    assert iterative.strengths == pytest.approx(dense.strengths, abs=1e-6)


@pytest.mark.parametrize("ridge", [0.0, 0.7])
def test_solution_is_stationary_by_finite_differences(ridge):
    winners, losers, _ = games(6, 200, 5)
    fit = fit_pairs(winners, losers, 6, ridge=ridge)

    def objective(theta):
        return np.logaddexp(0, theta[losers] - theta[winners]).sum() + 0.5 * ridge * theta @ theta

    assert approx_fprime(fit.strengths, objective, 1e-6) == pytest.approx(np.zeros(6), abs=1e-3)
    hessian = np.array(
        [approx_fprime(fit.strengths, lambda t, k=k: approx_fprime(t, objective, 1e-4)[k], 1e-4) for k in range(6)]
    )
    gauge = np.full((6, 6), 1 / 6) if ridge == 0 else 0.0
    assert fit.covariance == pytest.approx(np.linalg.inv(hessian + gauge) - gauge, abs=2e-3)


def test_estimates_approach_the_truth():
    winners, losers, theta = games(50, 200_000, 6)
    fit = fit_pairs(winners, losers, 50)
    z = (fit.strengths - theta) / fit.standard_errors()
    assert np.abs(z).max() < 4.5
    assert 0.5 < np.std(z) < 1.6


@settings(max_examples=25, deadline=None)
@given(st.permutations(range(7)))
def test_relabelling_permutes(order):
    winners, losers, _ = games(7, 150, 7)
    order = np.array(order)
    first = fit_pairs(winners, losers, 7, ridge=0.3)
    second = fit_pairs(order[winners], order[losers], 7, ridge=0.3)
    assert second.strengths[order] == pytest.approx(first.strengths, abs=1e-8)


def test_weight_two_is_the_game_twice():
    winners, losers, _ = games(5, 60, 8)
    w = np.ones(60)
    w[0] = 2
    one = fit_pairs(winners, losers, 5, weights=w, ridge=1.0).strengths
    two = fit_pairs(np.r_[winners, winners[0]], np.r_[losers, losers[0]], 5, ridge=1.0).strengths
    assert one == pytest.approx(two, abs=1e-9)


def test_pooling_counts():
    first, second, wins, total = pool_pairs(np.array([2, 0, 2, 1]), np.array([0, 2, 0, 0]), 3)
    assert first.tolist() == [0, 0]
    assert second.tolist() == [1, 2]
    assert wins.tolist() == [0, 1]
    assert total.tolist() == [1, 3]


def test_separation_and_disconnection_are_told_apart():
    with pytest.raises(InputError, match="fall into 2 groups"):
        fit_pairs(np.array([0, 1, 2, 3]), np.array([1, 0, 3, 2]), 4)
    with pytest.raises(InputError, match="group of 1 players with player 2 won or lost all"):
        fit_pairs(np.array([0, 1, 2, 2]), np.array([1, 0, 0, 1]), 3)
    assert np.isfinite(fit_pairs(np.array([0, 1, 2, 2]), np.array([1, 0, 0, 1]), 3, ridge=0.1).strengths).all()
    graph = connectivity(np.array([0, 1]), np.array([1, 2]), 4)
    assert not graph.connected
    assert graph.separated


@pytest.mark.parametrize(
    ("winners", "losers", "words"),
    [
        ([0], [3], "Player 3 is not among 0 to 2"),
        ([1], [1], "Player 1 meets itself"),
        ([], [], "no games"),
        ([0, 1], [1], "shapes"),
    ],
)
def test_bad_games(winners, losers, words):
    with pytest.raises(InputError, match=words):
        fit_pairs(np.array(winners, int), np.array(losers, int), 3)


def test_davidson_two_players_closed_form():
    # 5 wins, 2 ties, 3 losses: odds 5:3 = e^d, nu = 2 / sqrt(15).
    y = np.r_[np.ones(5), np.full(2, 0.5), np.zeros(3)]
    fit = fit_ties(np.zeros(10, int), np.ones(10, int), y, 2)
    assert fit.strengths[0] - fit.strengths[1] == pytest.approx(np.log(5 / 3), abs=1e-6)
    assert np.exp(fit.log_tie) == pytest.approx(2 / np.sqrt(15), rel=1e-6)
    assert win_probability(fit.strengths, fit.log_tie)[0, 1] == pytest.approx(0.5 + 0.2 / 2, abs=1e-6)


def test_davidson_recovers_simulated_truth():
    rng = np.random.default_rng(9)
    theta, log_tie, n = rng.normal(size=6), -0.4, 30_000
    theta -= theta.mean()
    i = rng.integers(0, 6, n)
    j = (i + rng.integers(1, 6, n)) % 6
    half = (theta[i] - theta[j]) / 2
    p = np.exp(np.column_stack([half, np.full(n, log_tie), -half]))
    p /= p.sum(axis=1, keepdims=True)
    u = rng.random(n)
    y = np.where(u < p[:, 0], 1.0, np.where(u < p[:, 0] + p[:, 1], 0.5, 0.0))
    fit = fit_ties(i, j, y, 6)
    assert np.abs((fit.strengths - theta) / fit.standard_errors()).max() < 4
    assert fit.log_tie == pytest.approx(log_tie, abs=0.06)
    with pytest.raises(InputError, match=r"An outcome is 0\.3"):
        fit_ties(i[:2], j[:2], np.array([0.3, 1]), 6)
    with pytest.raises(InputError, match="both ties and decided"):
        fit_ties(np.array([0]), np.array([1]), np.array([1.0]), 2)


def test_rankings_of_two_are_games():
    winners, losers, _ = games(6, 150, 10)
    pairs = fit_pairs(winners, losers, 6)
    rankings = fit_rankings(np.column_stack([winners, losers]).tolist(), 6)
    assert rankings.strengths == pytest.approx(pairs.strengths, abs=1e-5)
    assert rankings.covariance == pytest.approx(pairs.covariance, rel=1e-3, abs=1e-5)
    assert rankings.log_likelihood == pytest.approx(pairs.log_likelihood, rel=1e-8)


def test_bad_rankings():
    with pytest.raises(InputError, match="repeats a player"):
        fit_rankings([[0, 0]], 3)
    with pytest.raises(InputError, match="not among"):
        fit_rankings([[0, 7]], 3)
    with pytest.raises(InputError, match="nothing to compare"):
        fit_rankings([[0]], 3)


def test_elo_scale():
    fit = StrengthFit(np.array([np.log(10), 0.0]), None, 0.0, None, True, 1)
    assert fit.elo() == pytest.approx([1400.0, 1000.0])
    assert expit(400 / ELO_PER_LOGIT) == pytest.approx(10 / 11)
    with pytest.raises(InputError, match="covariance=True"):
        fit.standard_errors()


def test_cluster_bootstrap_is_wider_where_games_repeat_their_cluster():
    rng = np.random.default_rng(11)
    items = np.repeat(np.arange(40), 10)
    y = np.repeat(rng.random(40) < 0.5, 10).astype(float)

    def share(weights):
        return np.array([weights @ y / weights.sum()])

    by_item = cluster_bootstrap(share, items, 400, rng).std()
    by_game = cluster_bootstrap(share, np.arange(400), 400, rng).std()
    assert by_item == pytest.approx(0.5 / np.sqrt(40), rel=0.15)
    assert by_game == pytest.approx(0.5 / np.sqrt(400), rel=0.15)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"outcome": np.array([0.0, 2.0])}, "outcome holds"),
        ({"weights": np.array([1.0, -1.0])}, "weights holds"),
        ({"ridge": -1.0}, "ridge holds"),
        ({"outcome": np.array([0.0])}, "make them equal"),
    ],
)
def test_logistic_refuses_bad_values(changes, words):
    values = {"outcome": np.array([0.0, 1.0]), **changes}
    with pytest.raises(InputError, match=words):
        fit_logistic(np.eye(2), **values)


def test_infinite_maximum_is_reported_as_not_converged():
    fit = fit_logistic(np.ones((3, 1)), np.ones(3), max_iterations=5)
    assert not fit.converged
