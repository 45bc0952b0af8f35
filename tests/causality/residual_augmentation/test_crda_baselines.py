"""The baselines are what their papers say."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression
from sklearn.neighbors import KNeighborsRegressor

from workingpapers.causality.residual_augmentation import AugmentedRegressor, FoldEnsembleRegressor
from workingpapers.causality.residual_augmentation.baselines import (
    MAKERS,
    ada,
    c_mixup,
    duplicate,
    jitter,
    mixup,
    self_distillation,
)
from workingpapers.causality.residual_augmentation.learners import split_rows
from workingpapers.foundations.errors import InputError


@pytest.fixture
def sample():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 2))
    return X, X @ np.array([2.0, -1.0]) + 3.0


def test_duplicates_are_the_rows(sample):
    X, y = sample
    made = duplicate(X, y, np.random.default_rng(0), factor=1.5)
    np.testing.assert_array_equal(made[0], np.concatenate([X, X[:20]]))
    np.testing.assert_array_equal(made[1], np.concatenate([y, y[:20]]))


def test_jitter_moves_features_and_keeps_targets(sample):
    X, y = sample
    moved, target = jitter(X, y, np.random.default_rng(0), strength=0.3)
    np.testing.assert_array_equal(target, y)
    ratio = (moved - X.mean(axis=0)) / (X - X.mean(axis=0))
    np.testing.assert_allclose(ratio[:, 0], ratio[:, 1], rtol=1e-9)
    assert np.all(np.abs(ratio - 1) <= 0.3 + 1e-9)


@pytest.mark.parametrize("maker", [mixup, c_mixup, ada])
def test_linear_relations_survive_mixing(sample, maker):
    # Each of these maps features and target by the same affine combination, so points of a plane stay on it.
    X, y = sample
    moved, target = maker(X, y, np.random.default_rng(1), factor=2.0)
    assert moved.shape == (80, 2)
    np.testing.assert_allclose(target, moved @ np.array([2.0, -1.0]) + 3.0, atol=1e-10)
    assert np.abs(moved[:40] - X).max() > 1e-3


def test_mixtures_stay_between_their_rows(sample):
    X, y = sample
    moved, target = mixup(X, y, np.random.default_rng(2), factor=5.0)
    assert np.all(moved >= X.min(axis=0) - 1e-12)
    assert np.all(moved <= X.max(axis=0) + 1e-12)
    assert target.min() >= y.min() - 1e-12


def test_c_mixup_pairs_rows_of_close_targets():
    y = np.repeat([0.0, 10.0], 20) + np.linspace(0, 0.5, 40)
    X = y[:, None]
    target = c_mixup(X, y, np.random.default_rng(3), factor=10.0, strength=1.0)[1]
    assert not np.any((target > 1) & (target < 9.5))
    apart = mixup(X, y, np.random.default_rng(3), factor=10.0, strength=1.0)[1]
    assert np.mean((apart > 1) & (apart < 9.5)) > 0.3


def test_c_mixup_never_pairs_a_row_with_itself_and_follows_the_kernel():
    # Partners of the first row have weights exp(-1/2) and exp(-2) at h = 1: shares 0.8176 and 0.1824.
    steps = np.array([0.0, 1.0, 2.0])
    options = {"factor": 20000.0, "strength": 1.0, "bandwidth": 1 / steps.std()}
    moved = c_mixup(np.eye(3), steps, np.random.default_rng(4), **options)[0]
    first = moved[np.arange(len(moved)) % 3 == 0]
    assert np.mean(first[:, 1] > 0) == pytest.approx(np.exp(-0.5) / (np.exp(-0.5) + np.exp(-2)), abs=0.012)
    assert np.all((first[:, 1] > 0) | (first[:, 2] > 0))


def test_ada_with_gamma_one_gives_the_rows_back(sample):
    X, y = sample
    moved, target = ada(X, y, np.random.default_rng(5), strength=1.0)
    np.testing.assert_allclose(moved, X, atol=1e-12)
    np.testing.assert_allclose(target, y, atol=1e-12)


def test_self_distillation_has_no_residual(sample):
    X, _ = sample
    y = np.random.default_rng(6).normal(size=40)
    _, target = self_distillation(X, y, np.random.default_rng(6), strength=0.0, estimator=KNeighborsRegressor(2))
    means = (y[:, None] + y[None, :]) / 2
    assert all(np.isclose(means, value).any() for value in target)
    assert np.abs(target - y).max() > 0.5


def test_the_fold_ensemble_is_the_mean_of_its_models(sample):
    X, _ = sample
    y = np.random.default_rng(7).normal(size=40)
    model = FoldEnsembleRegressor(LinearRegression(), folds=4, random_state=0).fit(X, y)
    seed = int(np.random.RandomState(0).randint(np.iinfo(np.int32).max))
    expected = np.mean(
        [LinearRegression().fit(X[train], y[train]).predict(X) for train, _ in split_rows(40, 4, None, seed)], axis=0
    )
    np.testing.assert_allclose(model.predict(X), expected, atol=1e-12)


@pytest.mark.parametrize("maker", sorted(MAKERS))
def test_every_maker_fits_and_is_seeded(sample, maker):
    X, y = sample
    first = AugmentedRegressor(KNeighborsRegressor(3), maker, random_state=0).fit(X, y).predict(X)
    second = AugmentedRegressor(KNeighborsRegressor(3), maker, random_state=0).fit(X, y).predict(X)
    np.testing.assert_array_equal(first, second)


def test_an_unknown_maker_is_named(sample):
    with pytest.raises(InputError, match="maker is 'smote'; use one of duplicate"):
        AugmentedRegressor(LinearRegression(), "smote").fit(*sample)
