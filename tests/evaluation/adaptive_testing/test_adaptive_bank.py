"""Scores, information and estimates of a bank against closed forms and the one-dimensional foundations."""

import numpy as np
import pytest
import torch
from scipy.optimize import minimize

from workingpapers.evaluation.adaptive_testing.bank import (
    Bank,
    calibrate_bank,
    estimate,
    estimate_full,
    score_gradients,
)
from workingpapers.foundations import item_response
from workingpapers.foundations.errors import InputError
from workingpapers.foundations.item_response import Items, score


def some_items(n, rng, guessing=0.0):
    return Items.dichotomous(rng.lognormal(0, 0.4, n), rng.normal(size=n), guessing)


def concept_bank(n, d, rng, guessing=0.0):
    return Bank(rng.normal(size=(n, d)), rng.normal(size=n), np.full(n, guessing), tuple(f"q{i}" for i in range(n)))


@pytest.mark.parametrize("guessing", [0.0, 0.2])
def test_score_is_the_gradient_of_the_cross_entropy(guessing):
    rng = np.random.default_rng(1)
    bank, theta = concept_bank(6, 2, rng, guessing), rng.normal(size=(4, 2))
    y = rng.integers(0, 2, (4, 6)).astype(float)
    found = score_gradients(bank, theta, y)
    for person in range(4):
        for item in range(6):
            ability = torch.tensor(theta[person], requires_grad=True)
            z = ability @ torch.tensor(bank.slope[item]) + bank.intercept[item]
            p = guessing + (1 - guessing) * torch.sigmoid(z)
            loss = torch.nn.functional.binary_cross_entropy(p, torch.tensor(y[person, item]))
            loss.backward()
            assert found[person, item] == pytest.approx(ability.grad.numpy(), abs=1e-6)


def test_two_parameter_score_is_slope_times_residual_and_its_variance_is_the_information():
    rng = np.random.default_rng(2)
    items = some_items(7, rng)
    bank, theta = Bank.from_items(items), rng.normal(size=(5, 1))
    p = bank.probabilities(theta)
    right = score_gradients(bank, theta, np.ones((5, 7)))[:, :, 0]
    wrong = score_gradients(bank, theta, np.zeros((5, 7)))[:, :, 0]
    assert right == pytest.approx(items.slope * (p - 1), abs=1e-12)
    assert wrong == pytest.approx(items.slope * p, abs=1e-12)
    variance = p * right**2 + (1 - p) * wrong**2
    assert bank.information(theta) == pytest.approx(variance, abs=1e-12)
    assert bank.information(theta) == pytest.approx(items.slope**2 * p * (1 - p), abs=1e-12)


def test_guessing_information_agrees_with_the_foundations():
    rng = np.random.default_rng(3)
    items, theta = some_items(5, rng, 0.25), rng.normal(size=4)
    assert Bank.from_items(items).information(theta[:, None]) == pytest.approx(items.information(theta).T, abs=1e-10)


@pytest.mark.parametrize("guessing", [0.0, 0.15])
def test_modes_and_errors_agree_with_the_foundations(guessing):
    rng = np.random.default_rng(4)
    items = some_items(30, rng, guessing)
    y = item_response.simulate(rng.normal(size=200), items, rng)
    y[rng.random(y.shape) < 0.3] = np.nan
    theirs = score(y, items, "map")
    bank = Bank.from_items(items)
    theta, covariance = estimate(bank, np.broadcast_to(np.arange(30), y.shape), y)
    assert theta[:, 0] == pytest.approx(theirs.theta, abs=1e-6)
    if not guessing:  # with guessing the foundations take observed information, this module expected information
        assert np.sqrt(covariance[:, 0, 0]) == pytest.approx(theirs.error, abs=1e-6)


def test_several_dimensions_find_the_mode_that_a_general_optimiser_finds():
    rng = np.random.default_rng(5)
    bank = concept_bank(12, 3, rng)
    y = rng.integers(0, 2, (3, 12)).astype(float)
    found = estimate_full(bank, y)

    def loss(theta, answers):
        z = bank.slope @ theta + bank.intercept
        return np.sum(np.logaddexp(0, z) - answers * z) + theta @ theta / 2

    for person in range(3):
        best = minimize(loss, np.zeros(3), args=(y[person],), tol=1e-12)
        assert found[person] == pytest.approx(best.x, abs=1e-5)


def test_mode_after_right_answers_alone_is_finite_and_grows_while_likelihood_alone_has_no_maximum():
    items = Items.dichotomous(1.0, np.zeros(8))
    bank = Bank.from_items(items)
    found = [float(estimate(bank, np.arange(k)[None], np.ones((1, k)))[0][0, 0]) for k in range(1, 9)]
    assert np.isfinite(found).all()
    assert (np.diff(found) > 0).all()
    # The mode after one right answer solves 1 - sigma(theta) = theta.
    assert 1 / (1 + np.exp(found[0])) == pytest.approx(found[0], abs=1e-8)
    unpenalised = score(np.ones((1, 8)), items, "ml")
    assert not unpenalised.exists[0]
    assert np.isinf(unpenalised.theta[0])


def test_estimate_is_bounded_by_the_gradient_of_all_answers():
    """|theta_S - theta*| <= |g_Q(theta_S)| / mu, mu the least curvature on the way, for every examinee."""
    rng = np.random.default_rng(6)
    items = some_items(40, rng)
    bank = Bank.from_items(items)
    y = item_response.simulate(rng.normal(size=500), items, rng)
    asked = rng.random((500, 40)).argsort(axis=1)[:, :6]
    theta, _ = estimate(bank, asked, np.take_along_axis(y, asked, axis=1))
    full = estimate_full(bank, y)
    gradient = score_gradients(bank, theta, y).sum(axis=1) + theta
    way = np.linspace(0, 1, 101)[:, None, None]
    curvature = np.array([bank.information(theta + part * (full - theta)).sum(axis=1) + 1 for part in way])
    # Between the points of the way the curvature may be a little less.
    bound = np.abs(gradient[:, 0]) / (curvature.min(axis=0) * 0.999)
    distance = np.abs(theta - full)[:, 0]
    assert (distance <= bound + 1e-12).all()
    assert np.median(distance / bound) > 0.5


def test_concepts_become_dimensions_each_calibrated_by_itself():
    rng = np.random.default_rng(7)
    y = rng.integers(0, 2, (300, 6)).astype(float)
    bank = calibrate_bank(y, "1PL", concepts=["b", "a", "b", "a", "b", "a"])
    alone = item_response.calibrate(y[:, [1, 3, 5]], "1PL", standard_errors=False).items
    assert bank.slope[[1, 3, 5], 0] == pytest.approx(alone.slope, abs=1e-7)
    assert (bank.slope[[1, 3, 5], 1] == 0).all()
    assert (bank.slope[[0, 2, 4], 0] == 0).all()
    assert bank.intercept[[1, 3, 5]] == pytest.approx(alone.intercept[:, 0], abs=1e-7)


def test_items_with_the_same_answers_are_exactly_equal():
    rng = np.random.default_rng(8)
    y = item_response.simulate(rng.normal(size=400), some_items(20, rng), rng)
    bank = calibrate_bank(np.column_stack([y, y[:, [2]]]), "2PL")
    assert bank.slope[2, 0] == bank.slope[20, 0]
    assert bank.intercept[2] == bank.intercept[20]


def test_wrong_answers_and_concepts_are_named():
    with pytest.raises(InputError, match=r"Response 2 of examinee 1 to item 2"):
        calibrate_bank(np.array([[0.0, 2.0], [1.0, 0.0]]))
    with pytest.raises(InputError, match=r"1 concepts for 2 items"):
        calibrate_bank(np.array([[0.0, 1.0], [1.0, 0.0]]), concepts=["a"])
