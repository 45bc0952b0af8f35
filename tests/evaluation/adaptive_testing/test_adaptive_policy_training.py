"""Training: what it improves, what it never touches, what it repeats; saved policies."""

import json

import numpy as np
import pytest
import torch

from workingpapers.evaluation.adaptive_testing.bank import Bank, estimate_full, score_gradients
from workingpapers.evaluation.adaptive_testing.experiments import make_data
from workingpapers.evaluation.adaptive_testing.gpm import (
    GPMSelector,
    Settings,
    _target_loss,
    episode_loss,
    validation_error,
)
from workingpapers.evaluation.adaptive_testing.matching import newton_step
from workingpapers.evaluation.adaptive_testing.policy import ResponseModel
from workingpapers.evaluation.adaptive_testing.selectors import MaximumInformation
from workingpapers.evaluation.adaptive_testing.session import AdaptiveTest, Session
from workingpapers.evaluation.adaptive_testing.simulation import simulate
from workingpapers.foundations.errors import InputError
from workingpapers.foundations.item_response import Items

QUICK = Settings(length=6, epochs=5, hidden=32, batch=100)


@pytest.fixture(scope="module")
def data():
    return make_data(0, "wrong", 30, 500, 400)


@pytest.fixture(scope="module")
def trained(data):
    return GPMSelector(data.bank, QUICK).fit(data.train)


def test_training_lowers_the_loss_and_the_error_where_the_model_is_wrong(data, trained):
    assert trained.training.losses[-1] < trained.training.losses[0]
    assert trained.training.best > 0
    ours = simulate(AdaptiveTest(data.bank, trained, 6), data.test).squared_error
    theirs = simulate(AdaptiveTest(data.bank, MaximumInformation(), 6), data.test).squared_error
    assert ours[-1] < 0.8 * theirs[-1]


def test_loss_of_an_episode_is_the_gradient_of_all_answers_along_the_simulated_test():
    """A policy that is maximum information with all but certainty asks what the simulation asks."""
    data = make_data(0, "right", 30, 60, 1)  # slopes differ, so no two items tie
    y = data.train[:60].copy()
    y[:, 4] = np.nan
    settings = Settings(length=5)
    selector = GPMSelector(data.bank, settings)
    with torch.no_grad():
        selector.policy.information_weight.fill_(1e7)
    loss = episode_loss(selector.policy, data.bank, y, settings, 1.0, torch.Generator().manual_seed(0))
    path = simulate(AdaptiveTest(data.bank, selector, 5), y).theta
    expected = 0.0
    for step in range(5):
        full = score_gradients(data.bank, path[:, step], y).sum(axis=1) + path[:, step]
        expected += np.mean(np.abs(full[:, 0]) / 29)
    assert float(loss.detach()) == pytest.approx(expected, rel=1e-4)


def test_validation_error_is_that_of_a_simulation(data, trained):
    found = validation_error(trained.policy, data.bank, data.test, 6)
    assert found == pytest.approx(simulate(AdaptiveTest(data.bank, trained, 6), data.test).squared_error.mean())
    assert trained.training.validation[trained.training.best] == trained.training.validation.min()


@pytest.mark.parametrize("settings", [QUICK, Settings(length=6, epochs=2, target="global", head="features")])
def test_training_repeats_itself(data, settings):
    first, second = (GPMSelector(data.bank, settings).fit(data.train[:200]).training for _ in range(2))
    assert first.losses.tolist() == second.losses.tolist()
    assert first.validation.tolist() == second.validation.tolist()


@pytest.mark.parametrize(
    "settings",
    [
        Settings(length=4, head="prototype"),
        Settings(length=4, head="features", target="global"),
        Settings(length=4, inner="gradient"),
        Settings(length=4, prior=False),
    ],
)
def test_every_setting_moves_every_parameter_it_has(data, settings):
    policy = GPMSelector(data.bank, settings).policy
    loss = episode_loss(policy, data.bank, data.train[:50], settings, 1.0, torch.Generator().manual_seed(0))
    loss.backward()
    assert torch.isfinite(loss)
    # A network whose last layer is zero moves that layer first.
    assert policy.network[-1].bias.grad.abs().max() > 0


def test_several_abilities_are_trained_on_too():
    data = make_data(0, "wrong_concepts", 18, 200, 100)
    for target in ("path", "global"):
        selector = GPMSelector(data.bank, Settings(length=4, epochs=1, target=target)).fit(data.train)
        run = simulate(AdaptiveTest(data.bank, selector, 4), data.test)
        assert run.theta.shape == (100, 4, 3)
        assert np.isfinite(selector.training.losses).all()


def test_unobserved_answers_have_no_part_in_training(data):
    y = data.train[:80].copy()
    y[:, 5] = np.nan
    y[np.random.default_rng(0).random(y.shape) < 0.2] = np.nan
    selector = GPMSelector(data.bank, Settings(length=6, epochs=2, batch=40)).fit(y)
    assert np.isfinite(selector.training.losses).all()
    assert selector.policy.embedding[5] == 0  # never chosen, so nothing ever pulled at it
    run = simulate(AdaptiveTest(data.bank, selector, 6), y)
    assert 5 not in run.asked
    assert np.isfinite(run.squared_error).all()
    assert np.isfinite(estimate_full(data.bank, y)).all()


def test_a_saved_policy_is_the_same_policy(data, trained, tmp_path):
    files = trained.save(tmp_path / "policy")
    assert all(file.is_file() for file in files)
    again = GPMSelector.load(tmp_path / "policy")
    assert again.bank.fingerprint == data.bank.fingerprint
    first = simulate(AdaptiveTest(data.bank, trained, 6), data.test[:50])
    second = simulate(AdaptiveTest(again.bank, again, 6), data.test[:50])
    assert (first.asked == second.asked).all()


def test_damaged_policies_are_refused(trained, tmp_path):
    with pytest.raises(InputError, match="There is no file"):
        GPMSelector.load(tmp_path)
    trained.save(tmp_path)
    stored = json.loads((tmp_path / "policy.json").read_text())
    stored["bank"]["intercept"][0] += 1
    (tmp_path / "policy.json").write_text(json.dumps(stored))
    with pytest.raises(InputError, match="not the one of its policy"):
        GPMSelector.load(tmp_path)
    trained.save(tmp_path)
    (tmp_path / "policy.safetensors").write_bytes(b"nothing")
    with pytest.raises(InputError, match="does not hold a saved policy"):
        GPMSelector.load(tmp_path)


def test_a_changed_bank_is_refused(data, trained):
    moved = Bank(data.bank.slope, data.bank.intercept + 0.1, data.bank.guessing, data.bank.names)
    with pytest.raises(InputError, match="bank has changed"):
        Session(AdaptiveTest(moved, trained, 6)).next_item()


def test_logs_that_do_not_fit_are_refused(data):
    bank = Bank.from_items(Items.dichotomous(1.0, np.zeros(5)))
    with pytest.raises(InputError, match="9 items cannot be asked from 5"):
        GPMSelector(bank, Settings(length=9))
    selector = GPMSelector(bank, Settings(length=3))
    with pytest.raises(InputError, match="4 items and the bank has 5"):
        selector.fit(np.ones((3, 4)))
    with pytest.raises(InputError, match="Examinee 1 has 2 answers"):
        selector.fit(np.array([[1, 0, np.nan, np.nan, np.nan]] * 4))
    with pytest.raises(InputError, match="neither 0 nor 1"):
        selector.fit(np.full((4, 5), 0.5))


def test_path_loss_is_differentiated_through_the_ability(data):
    """Its gradient in a weight of an item is what moving the weight and estimating anew gives."""
    y = torch.tensor(data.train[:1])
    model = ResponseModel(data.bank, torch.float64)
    weight = torch.rand(1, 30, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    observed = torch.ones_like(weight)

    def mode(mask):
        theta = torch.zeros(1, 1, dtype=torch.float64)
        for _ in range(60):
            theta = newton_step(model, theta, y, mask)
        return theta

    def loss(mask, theta):
        return _target_loss(model, theta, y, mask, observed, Settings(), torch.Generator()).sum()

    leaf = weight.clone().requires_grad_()
    (found,) = torch.autograd.grad(loss(leaf, mode(weight)), leaf)
    for item in range(0, 30, 5):
        shift = torch.zeros_like(weight)
        shift[0, item] = 1e-5
        difference = loss(weight + shift, mode(weight + shift)) - loss(weight - shift, mode(weight - shift))
        assert found[0, item] == pytest.approx(float(difference / 2e-5), rel=1e-4, abs=1e-8)
