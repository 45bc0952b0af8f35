"""The gate accepts what helps on untouched rows and nothing else."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from sklearn.base import BaseEstimator, RegressorMixin, clone
from sklearn.compose import TransformedTargetRegressor
from sklearn.datasets import load_diabetes
from sklearn.ensemble import RandomForestRegressor
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import Ridge
from sklearn.neural_network import MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from workingpapers.causality.residual_augmentation import CRDARegressor
from workingpapers.causality.residual_augmentation.gate import (
    FoldLosses,
    best_possible_pvalue,
    judge,
    run_gate,
    wilcoxon_less,
)
from workingpapers.causality.residual_augmentation.tuning import GRID, candidates
from workingpapers.foundations.errors import InputError


def test_ten_differences_of_one_sign():
    assert wilcoxon_less(-np.arange(1.0, 11.0)) == pytest.approx(1 / 1024, abs=1e-15)
    assert wilcoxon_less(np.arange(1.0, 11.0)) == pytest.approx(1.0, abs=1e-15)


def test_ties_and_zeros():
    assert wilcoxon_less(np.zeros(10)) == 1.0
    assert wilcoxon_less(np.array([])) == 1.0
    # Two zeros are dropped; eight equal negative differences: one sign pattern of 2^8.
    assert wilcoxon_less(np.array([0.0, 0.0, *[-1.0] * 8])) == pytest.approx(1 / 256, abs=1e-12)
    # Three tied sizes, one positive: it takes rank 3, and five of eight sign patterns have W+ <= 3.
    assert wilcoxon_less(np.array([-1.0, 1.0, -1.0])) == pytest.approx(5 / 8, abs=1e-12)


def test_without_ties_it_is_scipys_exact_test():
    differences = np.random.default_rng(0).normal(-0.3, 1, size=12)
    expected = stats.wilcoxon(differences, alternative="less", method="exact").pvalue
    assert wilcoxon_less(differences) == pytest.approx(expected, abs=1e-14)


@settings(max_examples=60, deadline=None)
@given(
    done=st.lists(st.floats(-3, 3), min_size=0, max_size=6),
    rest=st.lists(st.floats(-100, 100), min_size=1, max_size=4),
)
def test_no_completion_beats_the_best_possible_pvalue(done, rest):
    full = wilcoxon_less(np.array([*done, *rest]))
    assert full >= best_possible_pvalue(np.array(done), len(rest)) - 1e-12


def losses(differences):
    return [FoldLosses(1.0, 1.0 + difference, {}, ()) for difference in differences]


@settings(max_examples=40, deadline=None)
@given(st.lists(st.floats(-0.9, 5), min_size=10, max_size=10))
def test_stopping_early_does_not_change_the_decision(differences):
    folds = losses(differences)
    early = run_gate(folds.__getitem__, 10, 0.05, stop_early=True)
    whole = run_gate(folds.__getitem__, 10, 0.05, stop_early=False)
    assert early.accepted == whole.accepted
    assert len(whole.folds) == 10
    assert early.pvalue <= whole.pvalue + 1e-12


def test_five_bad_folds_end_a_gate_of_ten():
    verdict = run_gate(losses([0.1, 0.2, 0.3, 0.4, 0.5] + [-1] * 5).__getitem__, 10, 0.05)
    # Five positive differences: W+ is at least 15, beyond the critical value 10 of ten differences at 0.05.
    assert len(verdict.folds) == 5
    assert not verdict.accepted
    assert "5 of 10 folds" in verdict.reason


def test_a_smaller_loss_on_most_folds_is_not_enough():
    # Nine small gains and one large loss: the test rejects, the mean says no.
    verdict = judge(losses([-0.01 * step for step in range(1, 10)] + [0.0001]), 10, 0.05)
    assert verdict.accepted
    costly = judge(losses([-0.01 * step for step in range(2, 10)] + [-0.0001, 5.0]), 10, 0.05)
    assert costly.pvalue < 0.05
    assert not costly.accepted
    assert "not in the mean" in costly.reason


class Memory(RegressorMixin, BaseEstimator):
    """Writes down which rows it was trained on and asked about; the third column is the row's number."""

    log: list = []  # noqa: RUF012

    def fit(self, X, y):
        self.seen_ = set(np.rint(X[:, 2] * 1e6).astype(int))
        return self

    def predict(self, X):
        Memory.log.append((self.seen_, set(np.rint(X[:, 2] * 1e6).astype(int))))
        return np.zeros(len(X))


@pytest.mark.parametrize("grouped", [False, True])
def test_no_gate_model_has_seen_a_row_or_a_twin_that_it_is_judged_on(grouped):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3))
    X[:, 2] = np.arange(60) / 1e6  # stays: not among the columns, and so names a row through all copies
    groups = np.repeat(np.arange(30), 2) if grouped else np.arange(60)
    Memory.log = []
    model = CRDARegressor(
        Memory(), columns=[0, 1], screen=None, p="auto", trials=2, cv=5, stop_early=False, random_state=0
    )
    model.fit(X, rng.normal(size=60), groups=groups if grouped else None)
    # The last five models' residuals are taken on the rows themselves after the plain model's final fit.
    judged = [(groups[list(seen)], groups[list(asked)]) for seen, asked in Memory.log]
    assert len(judged) >= 5 * (2 + 5)
    assert not any(set(seen) & set(asked) for seen, asked in judged)


@pytest.fixture(scope="module")
def early_stopping_network():
    X, y = load_diabetes(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(y))
    train, test = order[:300], order[300:]
    layers = MLPRegressor(
        hidden_layer_sizes=(32, 16),
        early_stopping=True,
        n_iter_no_change=20,
        max_iter=150,
        batch_size=32,
        learning_rate_init=3e-3,
        random_state=0,
    )
    network = make_pipeline(StandardScaler(), TransformedTargetRegressor(layers, transformer=StandardScaler()))
    return network, X[train], y[train], X[test], y[test]


def fitted(gate, data, **options):
    network, X, y, *_ = data
    model = CRDARegressor(
        network, residuals="insample", p=0.1, gate=gate, columns=list(range(10)), random_state=0, **options
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        with pytest.warns(UserWarning, match="chooses validation rows of its own"):
            return model.fit(X, y)


def test_the_leaky_gate_accepts_harm_and_the_honest_gate_refuses_it(early_stopping_network):
    network, X, y, X_test, y_test = early_stopping_network
    plain = clone(network).fit(X, y)
    loss = np.mean((plain.predict(X_test) - y_test) ** 2)
    leaky, honest = fitted("leaky", early_stopping_network), fitted("wilcoxon", early_stopping_network)
    assert leaky.decision_ == "augmented"
    assert leaky.gate_pvalue_ < 0.05
    assert np.mean((leaky.predict(X_test) - y_test) ** 2) > 1.2 * loss
    assert honest.decision_ == "plain"
    np.testing.assert_allclose(honest.predict(X_test), plain.predict(X_test), rtol=0, atol=1e-12)


def anm(seed, n):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2, 2, size=(n, 3))
    return X, X[:, 0] ** 2 + X[:, 1] * X[:, 2] + rng.normal(0, 0.5, size=n)


def forest(seed=0):
    return RandomForestRegressor(30, min_samples_leaf=2, random_state=seed)


def test_a_gain_is_used_reported_and_reproduced():
    X, y = anm(0, 200)
    # At level 0.5 a gain in the mean decides; how often the level 0.05 is reached is the claim `power`.
    options = {"residuals": "oob", "gate_alpha": 0.5, "cv": 6, "random_state": 0}
    model = CRDARegressor(forest(), **options).fit(X, y)
    assert model.decision_ == "augmented"
    assert list(model.report_.columns)[:3] == ["plain", "augmented", "change_percent"]
    assert len(model.report_) == 6
    assert model.report_["augmented"].mean() < model.report_["plain"].mean()
    made = model.augment(X, y)
    expected = clone(forest()).fit(made.X, made.y)
    np.testing.assert_array_equal(model.predict(X), expected.predict(X))
    again = CRDARegressor(forest(), n_jobs=2, **options).fit(X, y)
    np.testing.assert_array_equal(model.predict(X), again.predict(X))
    pd.testing.assert_frame_equal(model.report_, again.report_)


def test_a_permuted_target_is_left_alone():
    X, y = anm(1, 120)
    y = np.random.default_rng(1).permutation(y)
    model = CRDARegressor(forest(), residuals="oob", random_state=0).fit(X, y)
    assert model.decision_ == "plain"
    np.testing.assert_array_equal(model.predict(X), forest().fit(X, y).predict(X))
    assert len(model.report_) < 10


def test_too_few_rows_for_the_folds_are_not_augmented():
    X, y = anm(2, 29)
    model = CRDARegressor(Ridge(), random_state=0).fit(X, y)
    assert model.decision_ == "plain"
    assert model.reason_ == "29 rows are too few for a gate of 10 folds; nothing was augmented."
    assert np.isnan(model.gate_pvalue_)
    assert len(model.report_) == 0
    assert CRDARegressor(Ridge(), random_state=0).fit(*anm(2, 30)).report_.shape[0] > 0


def test_codes_alone_are_not_augmented():
    rng = np.random.default_rng(0)
    X = rng.integers(0, 5, size=(60, 3)).astype(float)
    model = CRDARegressor(Ridge(), gate=None, random_state=0).fit(X, rng.normal(size=60))
    assert model.decision_ == "plain"
    assert "No column may be perturbed" in model.reason_


def test_candidates_are_distinct_points_of_the_grid():
    points = candidates(GRID, 50, np.random.default_rng(0))
    assert len({tuple(point.values()) for point in points}) == 50
    assert all(point[name] in GRID[name] for point in points for name in GRID)
    assert candidates({"p": (0.1, 0.2), "k": (1,)}, 8, np.random.default_rng(0)) == [
        {"p": 0.1, "k": 1},
        {"p": 0.2, "k": 1},
    ]


def test_tuned_parameters_are_on_the_grid_and_reported():
    X, y = anm(3, 90)
    model = CRDARegressor(
        forest(), p="auto", k="auto", factor="auto", weight="auto", trials=3, gate=None, residuals="oob", random_state=0
    ).fit(X, y)
    assert model.params_["p"] in GRID["p"]
    assert model.params_["weight"] in GRID["weight"]
    assert model.params_["k"] in GRID["k"]
    assert model.params_["factor"] in GRID["factor"]


def test_tuning_prefers_what_helps():
    # p = 0 copies rows, p = 0.5 is known to help here by far more than the noise of the choice.
    X, y = anm(4, 300)
    from workingpapers.causality.residual_augmentation import ResidualAugmenter
    from workingpapers.causality.residual_augmentation.tuning import tune

    space = {"p": (0.0, 0.5), "k": (5,), "factor": (1.0,), "weight": (1.0,)}
    chosen = [
        tune(ResidualAugmenter(forest(), residuals="oob", random_state=0), X, y, None, None, space, 8, seed)["p"]
        for seed in range(9)
    ]
    assert np.median(chosen) == 0.5


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"gate": "wilcox"}, "gate is 'wilcox'"),
        ({"gate_alpha": 0}, "gate_alpha is 0"),
        ({"trials": 0}, "trials is 0"),
        ({"cv": 1}, "cv is 1"),
        ({"p": "best"}, "p is 'best'"),
    ],
)
def test_options_out_of_range_are_named(options, message):
    with pytest.raises(InputError, match=message):
        CRDARegressor(Ridge(), **options).fit(*anm(0, 40))


def test_no_warning_without_a_reason():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        CRDARegressor(Ridge(), cv=3, random_state=0).fit(*anm(0, 40))
