"""Generated rows: what moves, what stays, and what the target of a moved row is."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.ensemble import BaggingRegressor, ExtraTreesRegressor, RandomForestRegressor
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.neighbors import KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeRegressor

from workingpapers.causality.residual_augmentation import ResidualAugmenter, twin_safe_split
from workingpapers.causality.residual_augmentation.learners import Abduction, split_rows
from workingpapers.causality.residual_augmentation.perturbation import perturb, tiled_source
from workingpapers.causality.residual_augmentation.tables import perturbable_columns
from workingpapers.foundations.errors import InputError


class Known(RegressorMixin, BaseEstimator):
    """A regressor that predicts a function of its own, whatever it is trained on."""

    def __init__(self, function=None):
        self.function = function

    def fit(self, X, y):
        self.fitted_ = True
        return self

    def predict(self, X):
        return self.function(np.asarray(X))


def truth(X):
    return X[:, 0] ** 2 + X[:, 1] * X[:, 2]


def tilted(X):
    return truth(X) + np.sin(3 * X[:, 0]) - 0.3 * X[:, 2]


def shifted(X):
    return truth(X) + 4.25


@pytest.fixture
def sample():
    rng = np.random.default_rng(5)
    X = rng.uniform(-2, 2, size=(60, 3))
    noise = rng.normal(0, 0.5, size=60)
    return X, truth(X) + noise, noise


@pytest.mark.parametrize("residuals", ["insample", "oof", "oob"])
def test_rows_that_do_not_move_are_exact_copies(sample, residuals):
    X, y, _ = sample
    forest = RandomForestRegressor(10, random_state=0)
    made = ResidualAugmenter(forest, residuals=residuals, screen=None, p=0.0, random_state=0).fit_augment(X, y)
    np.testing.assert_array_equal(made.X, np.concatenate([X, X]))
    np.testing.assert_array_equal(made.y, np.concatenate([y, y]))


@pytest.mark.parametrize("model", [LinearRegression(), Ridge(alpha=2.0)])
def test_unmoved_rows_of_whole_weight_equal_a_weighted_fit(sample, model):
    X, y, _ = sample
    made = ResidualAugmenter(model, screen=None, p=0.0, weight=2.0, factor=0.5, random_state=0).fit_augment(X, y)
    augmented = model.__class__(**model.get_params()).fit(made.X, made.y, made.sample_weight)
    counts = np.where(np.arange(60) < 30, 3, 1)
    repeated = np.repeat(np.arange(60), counts)
    reference = model.__class__(**model.get_params()).fit(X[repeated], y[repeated])
    np.testing.assert_allclose(augmented.coef_, reference.coef_, rtol=1e-10)


def test_a_perfect_model_gives_true_counterfactuals(sample):
    X, y, noise = sample
    made = ResidualAugmenter(Known(truth), screen=None, p=0.7, random_state=1).fit_augment(X, y)
    np.testing.assert_allclose(made.y[60:], truth(made.X[60:]) + noise, atol=1e-12)


def test_a_constant_model_error_cancels(sample):
    X, y, noise = sample
    made = ResidualAugmenter(Known(shifted), screen=None, p=0.7, random_state=1).fit_augment(X, y)
    np.testing.assert_allclose(made.y[60:], truth(made.X[60:]) + noise, atol=1e-12)


def test_the_label_error_is_the_change_of_the_model_error(sample):
    X, y, noise = sample
    made = ResidualAugmenter(Known(tilted), screen=None, p=0.7, random_state=1).fit_augment(X, y)
    moved = made.X[60:]
    error_of_label = made.y[60:] - (truth(moved) + noise)
    change_of_model_error = (tilted(moved) - truth(moved)) - (tilted(X) - truth(X))
    np.testing.assert_allclose(error_of_label, change_of_model_error, atol=1e-10)
    assert np.abs(change_of_model_error).max() > 0.1


def test_out_of_fold_labels_come_from_the_model_that_did_not_see_the_row(sample):
    X, y, _ = sample
    augmenter = ResidualAugmenter(KNeighborsRegressor(3), screen=None, p=0.5, random_state=2).fit(X, y)
    made = augmenter.augment()
    for train, test in split_rows(60, 5, None, augmenter.seed_):
        model = KNeighborsRegressor(3).fit(X[train], y[train])
        expected = model.predict(made.X[60 + test]) + (y[test] - model.predict(X[test]))
        np.testing.assert_allclose(made.y[60 + test], expected, atol=1e-12)
        np.testing.assert_allclose(augmenter.residuals_[test], y[test] - model.predict(X[test]), atol=1e-12)


def test_in_sample_residuals_of_an_interpolating_learner_carry_nothing(sample):
    X, y, _ = sample
    tree = DecisionTreeRegressor(random_state=0)
    inside = ResidualAugmenter(tree, residuals="insample", screen=None, random_state=0).fit(X, y)
    outside = ResidualAugmenter(tree, residuals="oof", screen=None, random_state=0).fit(X, y)
    assert np.all(inside.residuals_ == 0)
    made = inside.augment()
    np.testing.assert_allclose(made.y[60:], tree.fit(X, y).predict(made.X[60:]))
    assert outside.residuals_.std() > 0.5


def test_least_squares_on_its_own_counterfactuals_does_not_change_in_the_mean():
    rng = np.random.default_rng(11)
    X = rng.normal(size=(80, 3))
    y = X @ np.array([1.0, -2.0, 0.5]) + rng.normal(size=80)
    plain = LinearRegression().fit(X, y)
    augmenter = ResidualAugmenter(LinearRegression(), residuals="insample", screen=None, p=0.3, random_state=0)
    augmenter.fit(X, y)
    draws = np.random.default_rng(12)
    refitted = []
    for _ in range(2000):
        made = augmenter.augment(draws)
        refitted.append(LinearRegression().fit(made.X, made.y).coef_)
    refitted = np.asarray(refitted)
    error = refitted.std(axis=0, ddof=1) / np.sqrt(len(refitted))
    assert np.all(np.abs(refitted.mean(axis=0) - plain.coef_) < 3 * error)
    assert np.all(refitted.std(axis=0) > 1e-4)


@settings(max_examples=40, deadline=None)
@given(p=st.floats(0, 1), seed=st.integers(0, 2**31), scale=st.floats(0.01, 100), factor=st.floats(0.1, 3))
def test_one_factor_a_row_shared_by_the_selected_columns(p, seed, scale, factor):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(20, 4)) * scale
    X[3, [0, 2]] = 0.0
    columns = np.array([0, 2])
    source = tiled_source(20, factor)
    moved = perturb(X, columns, p, source, np.zeros(4), np.ones(4), np.random.default_rng(seed), "raw")
    np.testing.assert_array_equal(moved[:, [1, 3]], X[source][:, [1, 3]])
    assert np.all(moved[source == 3][:, columns] == 0)
    alive = source != 3
    ratio = moved[alive][:, columns] / X[source][alive][:, columns]
    np.testing.assert_allclose(ratio[:, 0], ratio[:, 1], rtol=1e-9)
    assert np.all((ratio >= 1 - p - 1e-9) & (ratio <= 1 + p + 1e-9))
    again = perturb(X, columns, p, source, np.zeros(4), np.ones(4), np.random.default_rng(seed), "raw")
    np.testing.assert_array_equal(moved, again)


def test_the_centred_rule_is_the_multiplicative_rule_on_standardised_features():
    rng = np.random.default_rng(0)
    X = rng.normal(5, 3, size=(50, 2))
    scaler = StandardScaler().fit(X)
    arguments = (np.array([0, 1]), 0.4, np.arange(50))
    standardised = perturb(scaler.transform(X), *arguments, np.zeros(2), np.ones(2), np.random.default_rng(1), "raw")
    own_units = perturb(X, *arguments, X.mean(axis=0), X.std(axis=0), np.random.default_rng(1), "centred")
    np.testing.assert_allclose(scaler.transform(own_units), standardised, atol=1e-12)


def test_the_additive_rule_shifts_by_shares_of_the_standard_deviation():
    X = np.random.default_rng(0).normal(size=(200, 2)) * [1.0, 10.0]
    arguments = (np.array([0, 1]), 0.5, np.arange(200), X.mean(axis=0), np.array([1.0, 10.0]))
    moved = perturb(X, *arguments, np.random.default_rng(1), "additive")
    shift = moved - X
    np.testing.assert_allclose(10 * shift[:, 0], shift[:, 1], atol=1e-9)
    assert 0.4 < np.abs(shift[:, 0]).max() <= 0.5


@pytest.mark.parametrize(
    ("n", "factor", "expected"),
    [(7, 0.5, [0, 1, 2]), (4, 1.0, [0, 1, 2, 3]), (4, 1.25, [0, 1, 2, 3, 0]), (10, 1.1, [*range(10), 0]), (3, 0.0, [])],
)
def test_rows_are_tiled_and_cut(n, factor, expected):
    assert tiled_source(n, factor).tolist() == expected


def test_residuals_follow_their_rows_through_the_tiles(sample):
    X, y, noise = sample
    augmenter = ResidualAugmenter(Known(truth), screen=None, p=0.9, factor=1.5, random_state=0).fit(X, y)
    made = augmenter.augment()
    assert len(made.y) == 60 + 90
    np.testing.assert_allclose(made.y[made.augmented] - truth(made.X[made.augmented]), noise[made.source_index[60:]])
    np.testing.assert_array_equal(made.source_index[:60], np.arange(60))
    np.testing.assert_array_equal(augmenter.augment().X, made.X)
    assert not np.array_equal(augmenter.augment(np.random.default_rng(9)).X[60:], made.X[60:])


def test_weights_of_generated_rows_are_the_source_weights_times_the_weight(sample):
    X, y, _ = sample
    weight = np.linspace(0.5, 2, 60)
    made = ResidualAugmenter(Ridge(), screen=None, weight=0.25, random_state=0).fit_augment(X, y, weight)
    np.testing.assert_allclose(made.sample_weight, np.concatenate([weight, 0.25 * weight]))


@pytest.mark.parametrize(
    "forest",
    [
        RandomForestRegressor(12, random_state=3),
        ExtraTreesRegressor(12, bootstrap=True, random_state=3),
        BaggingRegressor(DecisionTreeRegressor(), 12, max_features=2, random_state=3),
        make_pipeline(StandardScaler(), RandomForestRegressor(12, random_state=3)),
    ],
)
def test_out_of_bag_predictions_are_scikit_learns(sample, forest):
    X, y, _ = sample
    abduction = Abduction(forest, X, y, None, None, "oob", 5, 0)
    last = forest[-1] if hasattr(forest, "steps") else forest
    last.set_params(oob_score=True)
    last.fit(StandardScaler().fit_transform(X) if hasattr(forest, "steps") else X, y)
    # 12 trees leave no row in every bag of this sample, so scikit-learn's own estimate exists for all rows.
    np.testing.assert_allclose(y - abduction.residuals, last.oob_prediction_, atol=1e-10)


def test_whole_numbers_codes_text_and_constants_never_move(sample):
    rng = np.random.default_rng(3)
    frame = pd.DataFrame(
        {
            "size": rng.normal(size=50),
            "rooms": rng.integers(1, 9, size=50),
            "flag": rng.integers(0, 2, size=50).astype(float),
            "town": rng.choice(["a", "b"], size=50),
            "open": rng.random(50) < 0.5,
            "constant": np.full(50, 2.5),
            "gaps": np.where(rng.random(50) < 0.2, np.nan, rng.normal(size=50)),
            "empty": np.full(50, np.nan),
        }
    )
    assert perturbable_columns(frame).tolist() == [0, 6]
    assert perturbable_columns(frame, ["rooms", 0]).tolist() == [0, 1]
    assert perturbable_columns(frame, ["constant"]).tolist() == []
    moved = perturb(
        frame, np.array([0, 1, 6]), 0.5, np.arange(50), np.full(8, 4.0), np.ones(8), np.random.default_rng(0)
    )
    still = ["flag", "town", "open", "constant", "empty"]
    pd.testing.assert_frame_equal(moved[still], frame[still])
    assert moved["rooms"].dtype == frame["rooms"].dtype
    assert (moved["rooms"] != frame["rooms"]).any()
    assert (moved["gaps"].isna() == frame["gaps"].isna()).all()
    with pytest.raises(InputError, match="no column 'rom' to perturb; did you mean 'rooms'"):
        perturbable_columns(frame, ["rom"])
    with pytest.raises(InputError, match="'town' holds no numbers"):
        perturbable_columns(frame, ["town"])
    with pytest.raises(InputError, match="no column 8 to perturb; positions go from 0 to 7"):
        perturbable_columns(frame, [8])


@settings(max_examples=60, deadline=None)
@given(n=st.integers(4, 40), factor=st.floats(0, 3), fraction=st.floats(0.2, 0.8), seed=st.integers(0, 2**31))
def test_no_row_has_a_twin_on_the_other_side(n, factor, fraction, seed):
    source = np.concatenate([np.arange(n), tiled_source(n, factor)])
    generated = np.arange(len(source)) >= n
    train, held_out = twin_safe_split(source, generated, fraction, np.random.default_rng(seed))
    assert not set(source[train]) & set(source[held_out])
    assert not generated[held_out].any()
    assert len(held_out) == round(fraction * n)
    # Every row is used but for the twins of the validation rows.
    assert len(train) == np.sum(~np.isin(source, source[held_out]))


def test_groups_stay_whole_in_every_split():
    groups = np.repeat(np.arange(12), 5)
    for train, test in split_rows(60, 4, groups, 0):
        assert not set(groups[train]) & set(groups[test])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"p": -0.1}, "p is -0.1; it must be a number of at least 0"),
        ({"k": 0}, "k is 0; it must be a whole number of at least 1"),
        ({"k": 1.5}, "k is 1.5; it must be a whole number"),
        ({"factor": float("nan")}, "factor is nan"),
        ({"screen": "dcorr"}, "screen is 'dcorr'; did you mean 'dcor'"),
        ({"perturbation": "both"}, "perturbation is 'both'"),
        ({"residuals": "oob"}, "needs a bootstrap ensemble, and Ridge is none; use 'oof'"),
        ({"residuals": "out"}, "residuals is 'out'"),
        ({"residual_folds": 1}, "residual_folds is 1"),
        ({"max_correlation": 2}, "max_correlation is 2; it must be from 0 to 1"),
    ],
)
def test_options_out_of_range_are_named(sample, options, message):
    X, y, _ = sample
    with pytest.raises(InputError, match=message):
        ResidualAugmenter(Ridge(), **options).fit(X, y)
