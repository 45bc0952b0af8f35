"""The screen keeps what the residual does not depend on."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from sklearn.linear_model import LinearRegression

from workingpapers.causality.residual_augmentation import CRDARegressor, screen_features
from workingpapers.causality.residual_augmentation.screening import (
    correlations,
    dcor,
    dcor_pvalues,
    fisher_z_pvalue,
    partial_correlations,
    pc_neighbours,
    pearson_pvalues,
    u_centred,
)


def test_correlations_and_pvalues_are_scipys():
    rng = np.random.default_rng(0)
    X, z = rng.normal(size=(40, 3)), rng.normal(size=40)
    mine = correlations(X, z)
    for column in range(3):
        reference = stats.pearsonr(X[:, column], z)
        assert mine[column] == pytest.approx(reference.statistic, abs=1e-12)
        assert pearson_pvalues(mine, 40)[column] == pytest.approx(reference.pvalue, abs=1e-12)


def test_a_constant_correlates_with_nothing():
    X = np.column_stack([np.full(30, 0.1 + 1e6), np.arange(30.0)])
    assert correlations(X, np.arange(30.0)).tolist() == [0.0, 1.0]
    assert correlations(X, np.full(30, 0.3)).tolist() == [0.0, 0.0]


def test_partial_correlation_is_that_of_the_regression_residuals():
    rng = np.random.default_rng(1)
    data = rng.normal(size=(100, 4)) @ rng.normal(size=(4, 4))
    given = data[:, [2, 3]]
    first = data[:, 0] - LinearRegression().fit(given, data[:, 0]).predict(given)
    second = data[:, 1] - LinearRegression().fit(given, data[:, 1]).predict(given)
    expected = np.corrcoef(first, second)[0, 1]
    matrix = np.corrcoef(data, rowvar=False)
    assert partial_correlations(matrix, 0, 1, [[2, 3]])[0] == pytest.approx(expected, abs=1e-10)


def test_fisher_z_by_hand():
    # sqrt(103 - 1 - 3 + 1) = 10 times artanh(0.2) = 0.2027326: two-sided tail of 2.027326.
    assert fisher_z_pvalue(0.2, 104, 1) == pytest.approx(2 * stats.norm.sf(10 * 0.20273255405408), abs=1e-12)
    assert fisher_z_pvalue(0.9, 4, 1) == 1.0


def test_the_search_drops_what_another_feature_explains():
    rng = np.random.default_rng(2)
    cause = rng.normal(size=2000)
    follower = cause + 0.5 * rng.normal(size=2000)
    unrelated = rng.normal(size=2000)
    residual = cause + 0.5 * rng.normal(size=2000)
    X = np.column_stack([follower, cause, unrelated])
    assert pc_neighbours(X, residual).tolist() == [1]
    columns = np.arange(3)
    assert screen_features(X, residual, residual, columns, "pc").kept.tolist() == [True, False, True]
    # The marginal tests of "pearson+pc" see the follower's correlation.
    assert screen_features(X, residual, residual, columns, "pearson+pc").kept.tolist() == [False, False, True]


def test_beside_the_marginal_test_at_the_same_level_the_search_removes_nothing():
    rng = np.random.default_rng(3)
    for _ in range(20):
        X = rng.normal(size=(300, 6)) @ rng.normal(size=(6, 6))
        residual = X @ rng.normal(0, 0.05, size=6) + rng.normal(size=300)
        pvalue = pearson_pvalues(correlations(X, residual), 300)
        clear = np.abs(pvalue - 0.05) > 1e-3  # Student's t and Fisher's z differ a little at the border
        joined = np.isin(np.arange(6), pc_neighbours(X, residual))
        assert not np.any(joined & (pvalue > 0.05) & clear)


def test_dependent_features_go_and_independent_ones_stay():
    rng = np.random.default_rng(4)
    survived, runs = np.zeros(4), 200
    for _ in range(runs):
        X = rng.normal(size=(400, 4))
        residual = 0.5 * X[:, 0] + rng.normal(size=400)
        kept = screen_features(X, X[:, 1] + residual, residual, np.arange(4)).kept
        survived += kept
    assert survived[0] == 0
    assert np.all(survived[1:] / runs >= 0.85)


def test_distance_correlation_sees_what_pearson_does_not():
    rng = np.random.default_rng(5)
    X = rng.normal(size=(300, 2))
    residual = X[:, 0] ** 2 - 1 + 0.3 * rng.normal(size=300)
    assert screen_features(X, residual, residual, np.arange(2), "dcor").kept.tolist() == [False, True]


def test_u_centred_distance_correlation_by_its_definition():
    rng = np.random.default_rng(6)
    x, z = rng.normal(size=12), rng.normal(size=12)

    def centred(values):
        n = len(values)
        a = np.abs(np.subtract.outer(values, values))
        out = np.zeros((n, n))
        for i in range(n):
            for j in range(n):
                if i != j:
                    out[i, j] = a[i, j] - a[i].sum() / (n - 2) - a[:, j].sum() / (n - 2) + a.sum() / ((n - 1) * (n - 2))
        return out

    expected = (centred(x) * centred(z)).sum() / np.sqrt((centred(x) ** 2).sum() * (centred(z) ** 2).sum())
    assert dcor(u_centred(x), u_centred(z)) == pytest.approx(expected, abs=1e-12)
    assert dcor(u_centred(x), u_centred(3 * x + 1)) == pytest.approx(1.0, abs=1e-12)
    assert dcor(u_centred(np.ones(12)), u_centred(z)) == 0.0


def test_the_distance_correlation_test_keeps_its_level():
    rng = np.random.default_rng(7)
    pvalues = np.concatenate([dcor_pvalues(rng.normal(size=(60, 10)), rng.normal(size=60), rng) for _ in range(40)])
    # 400 tests at level 0.05; the chi-square bound is conservative. 0.083 is three standard errors above the level.
    assert np.mean(pvalues < 0.05) <= 0.083
    assert np.mean(pvalues < 0.05) > 0.01


def test_large_samples_are_thinned():
    rng = np.random.default_rng(8)
    x = rng.normal(size=(2500, 1))
    assert dcor_pvalues(x, x[:, 0] + rng.normal(size=2500), np.random.default_rng(0))[0] < 1e-10


def test_candidates_are_ranked_by_target_correlation_less_residual_correlation():
    rng = np.random.default_rng(9)
    X = rng.normal(size=(500, 3))
    y = 0.2 * X[:, 0] + 2 * X[:, 1] + X[:, 2]
    screen = screen_features(X, y, rng.normal(size=500), np.arange(3), None)
    assert screen.ranked.tolist() == [1, 2, 0]


def test_when_every_column_is_dropped_the_plain_model_stands():
    rng = np.random.default_rng(10)
    X = rng.uniform(-1, 1, size=(300, 1))
    y = 3 * X[:, 0] + rng.normal(0, 0.1, size=300)

    model = CRDARegressor(LinearRegression(fit_intercept=False), screen="dcor", gate=None, random_state=0)
    # Without an intercept the residual of a shifted target moves with the feature in spread, not in mean.
    model.fit(np.abs(X), y + 5 * np.abs(X[:, 0]) * rng.normal(size=300))
    assert model.decision_ == "plain"
    assert model.reason_ == "No column passed the screen; nothing was augmented."
    assert model.screen_["kept"].tolist() == [False]
    assert len(model.selected_) == 0
