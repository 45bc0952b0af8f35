"""Influence functions against retraining, gradients and Hessian against finite differences, TracIn against the run."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import log_softmax
from sklearn.linear_model import LogisticRegression

from workingpapers.governance.data_royalties.gradients import (
    INTERCEPT_RIDGE,
    GradientAttributor,
    fit,
    hessian,
    influence,
    log_likelihood,
    loss_gradients,
    tracin,
    with_intercept,
)
from workingpapers.governance.data_royalties.scores import Outputs

CLASSES, RIDGE = 3, 1.0


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    labels = rng.integers(0, CLASSES, 120)
    features = rng.normal(size=(120, 4)) + 1.2 * np.eye(CLASSES, 4)[labels]
    answers = rng.integers(0, CLASSES, 15)
    outputs = rng.normal(size=(15, 4)) + 1.2 * np.eye(CLASSES, 4)[answers]
    return features, labels, outputs, answers


def total_loss(flat, features, labels):
    weights = flat.reshape(CLASSES, -1)
    penalty = np.append(np.full(weights.shape[1] - 1, RIDGE), INTERCEPT_RIDGE)
    return -log_likelihood(weights, features, labels).sum() + 0.5 * (penalty * weights**2).sum()


def test_fit_agrees_with_scikit_learn(data):
    features, labels, _, _ = data
    weights = fit(features, labels, CLASSES, RIDGE)
    known = LogisticRegression(C=1 / RIDGE, tol=1e-10, max_iter=5000).fit(features, labels)
    # The intercepts carry a tiny ridge here and none there; probabilities agree all the same.
    np.testing.assert_allclose(
        log_softmax(with_intercept(features) @ weights.T, axis=1), known.predict_log_proba(features), atol=2e-4
    )


def test_gradients_and_hessian_agree_with_finite_differences(data):
    features, labels, _, _ = data
    weights = np.random.default_rng(1).normal(size=(CLASSES, 5)) * 0.3
    penalty = np.tile(np.append(np.full(4, RIDGE), INTERCEPT_RIDGE), CLASSES)

    def gradient(flat):
        return loss_gradients(flat.reshape(CLASSES, 5), features, labels).sum(axis=0) + penalty * flat

    flat, step = weights.ravel(), 1e-5
    numeric = np.array(
        [
            (total_loss(flat + step * unit, features, labels) - total_loss(flat - step * unit, features, labels))
            / (2 * step)
            for unit in np.eye(15)
        ]
    )
    np.testing.assert_allclose(gradient(flat), numeric, atol=1e-5)
    curvature = np.array(
        [(gradient(flat + step * unit) - gradient(flat - step * unit)) / (2 * step) for unit in np.eye(15)]
    )
    np.testing.assert_allclose(hessian(weights, features, RIDGE), curvature, atol=1e-5)


def test_influence_agrees_with_retraining_without_each_point(data):
    features, labels, outputs, answers = data
    weights = fit(features, labels, CLASSES, RIDGE)
    found = influence(weights, features, labels, RIDGE, outputs, answers)
    whole = log_likelihood(weights, outputs, answers)
    retrained = np.empty_like(found)
    for point in range(len(features)):
        keep = np.arange(len(features)) != point
        without = fit(features[keep], labels[keep], CLASSES, RIDGE, start=weights)
        retrained[:, point] = whole - log_likelihood(without, outputs, answers)
    assert np.corrcoef(found.ravel(), retrained.ravel())[0, 1] > 0.99
    # First order: the error is of the order of the square of a point's weight.
    slope = (found * retrained).sum() / (retrained**2).sum()
    assert slope == pytest.approx(1.0, abs=0.1)


def test_influence_is_exact_to_first_order_in_the_weight_of_a_point(data):
    # Down-weighting a point by epsilon: retraining by hand, without the formula under test.
    from scipy.optimize import minimize

    features, labels, outputs, answers = data
    weights = fit(features, labels, CLASSES, RIDGE)
    found = influence(weights, features, labels, RIDGE, outputs, answers)
    point, epsilon = 7, 1e-2

    def loss(flat, amount):
        single = -log_likelihood(flat.reshape(CLASSES, -1), features[point : point + 1], labels[point : point + 1])
        return total_loss(flat, features, labels) - amount * float(single[0])

    def refit(amount):
        return minimize(loss, weights.ravel(), args=(amount,), method="BFGS", options={"gtol": 1e-9}).x

    below, above = (log_likelihood(refit(a).reshape(CLASSES, -1), outputs, answers) for a in (epsilon, -epsilon))
    np.testing.assert_allclose((above - below) / (2 * epsilon), found[:, point], rtol=2e-3, atol=1e-5)


def test_tracin_sums_to_the_gain_of_the_run_at_a_small_rate(data):
    features, labels, outputs, answers = data
    steps, rate = 300, 0.02
    found = tracin(features, labels, CLASSES, outputs, answers, steps=steps, rate=rate)
    weights = np.zeros((CLASSES, 5))
    before = log_likelihood(weights, outputs, answers)
    for _ in range(steps):
        gradient = loss_gradients(weights, features, labels).mean(axis=0)
        weights = weights - rate * gradient.reshape(CLASSES, 5)
    np.testing.assert_allclose(
        found.sum(axis=1), log_likelihood(weights, outputs, answers) - before, rtol=0.02, atol=5e-3
    )


@pytest.mark.parametrize("kind", ["influence", "tracin"])
def test_gradient_methods_add_up_over_points(data, kind):
    features, labels, outputs, answers = data
    asked = Outputs([f"e{i}" for i in range(15)], outputs, answers)
    owners = [f"w{i % 3}" for i in range(120)]
    split = [f"{owner}{'x' if i % 2 else 'y'}" if owner == "w1" else owner for i, owner in enumerate(owners)]
    whole = GradientAttributor(features, labels, owners, CLASSES, kind).attribute(asked)
    parts = GradientAttributor(features, labels, split, CLASSES, kind).attribute(asked)
    assert list(parts.works) == ["w0", "w1x", "w1y", "w2"]
    np.testing.assert_allclose(parts.values[:, 1] + parts.values[:, 2], whole.values[:, 1], atol=1e-9)


def test_a_wrong_label_hurts_and_a_copy_of_the_output_helps(data):
    features, labels, outputs, answers = data
    features = np.vstack([features, outputs[:1], outputs[:1]])
    labels = np.append(labels, [answers[0], (answers[0] + 1) % CLASSES])
    weights = fit(features, labels, CLASSES, RIDGE)
    for found in (
        influence(weights, features, labels, RIDGE, outputs[:1], answers[:1])[0],
        tracin(features, labels, CLASSES, outputs[:1], answers[:1])[0],
    ):
        assert found[-2] > 0 > found[-1]
