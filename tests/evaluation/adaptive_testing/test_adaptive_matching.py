"""Gradient path matching: the choice, the step, the loss and the gradients of all three."""

import numpy as np
import pytest
import torch

from workingpapers.evaluation.adaptive_testing.bank import Bank, estimate, estimate_full, score_gradients
from workingpapers.evaluation.adaptive_testing.matching import (
    finite_difference_gradient,
    gradient_step,
    gumbel,
    matching_loss,
    newton_step,
    straight_through,
)
from workingpapers.evaluation.adaptive_testing.policy import Policy, ResponseModel
from workingpapers.foundations import item_response
from workingpapers.foundations.errors import InputError
from workingpapers.foundations.item_response import Items


@pytest.fixture
def posed():
    rng = np.random.default_rng(0)
    items = Items.dichotomous(rng.lognormal(0, 0.4, 12), rng.normal(size=12))
    bank = Bank.from_items(items)
    y = item_response.simulate(rng.normal(size=5), items, rng)
    return bank, ResponseModel(bank, torch.float64), y


def test_choice_is_exactly_one_hot_and_its_gradient_sums_to_zero():
    generator = torch.Generator().manual_seed(0)
    scores = torch.randn(50, 9, generator=generator, requires_grad=True)
    masked = scores.masked_fill(torch.arange(9) == 4, -torch.inf)
    choice = straight_through(masked, 0.7, gumbel((50, 9), generator))
    assert set(choice.detach().unique().tolist()) == {0.0, 1.0}
    assert (choice.detach().sum(dim=1) == 1).all()
    assert (choice.detach()[:, 4] == 0).all()
    choice.sum().backward()
    assert scores.grad.abs().max() < 1e-6
    scores.grad = None
    (straight_through(scores, 0.7, gumbel((50, 9), generator)) * torch.arange(9.0)).sum().backward()
    assert scores.grad.abs().max() > 1e-3
    assert scores.grad.sum(dim=1).abs().max() < 1e-5


def test_choices_follow_the_softmax():
    generator = torch.Generator().manual_seed(1)
    scores = torch.tensor([0.0, 1.0, 2.0]).expand(40_000, 3)
    share = straight_through(scores, 0.3, gumbel((40_000, 3), generator)).mean(dim=0)
    assert share.numpy() == pytest.approx(torch.softmax(scores[0], dim=0).numpy(), abs=0.01)


def test_loss_is_zero_when_everything_is_chosen(posed):
    _, model, y = posed
    answers, all_items = torch.tensor(y), torch.ones(5, 12, dtype=torch.float64)
    for at in (-3.0, 0.0, 2.5):
        theta = torch.full((5, 1), at, dtype=torch.float64)
        for prior in (False, True):
            assert matching_loss(model, theta, answers, all_items, all_items, prior).max() < 2e-6


def test_all_answers_give_the_full_estimate(posed):
    bank, _, y = posed
    order = np.random.default_rng(1).permutation(12)
    theta, _ = estimate(bank, np.broadcast_to(order, (5, 12)), y[:, order])
    assert theta == pytest.approx(estimate_full(bank, y), abs=1e-6)


def test_loss_is_the_distance_of_mean_gradients(posed):
    bank, model, y = posed
    rng = np.random.default_rng(2)
    theta = rng.normal(size=(5, 1))
    mask, observed = rng.random((5, 12)) < 0.4, rng.random((5, 12)) < 0.8
    mask[:, 0] = observed[:, 0] = True
    gradient = score_gradients(bank, theta, y)[:, :, 0]
    for prior in (0.0, 1.0):
        chosen = ((gradient * mask).sum(axis=1) + prior * theta[:, 0]) / mask.sum(axis=1)
        everything = ((gradient * observed).sum(axis=1) + prior * theta[:, 0]) / observed.sum(axis=1)
        found = matching_loss(
            model,
            torch.tensor(theta),
            torch.tensor(y),
            torch.tensor(mask.astype(float)),
            torch.tensor(observed.astype(float)),
            prior=bool(prior),
        )
        assert found.numpy() == pytest.approx(np.abs(chosen - everything), abs=1e-5)


def test_on_the_path_the_loss_is_the_gradient_of_all_answers(posed):
    """With the prior, |Q| L_GM at the mode of S is the gradient that bounds the error."""
    bank, model, y = posed
    asked = np.tile([1, 4, 6], (5, 1))
    theta, _ = estimate(bank, asked, y[:, asked[0]])
    mask = torch.zeros(5, 12, dtype=torch.float64)
    mask[:, asked[0]] = 1
    found = matching_loss(
        model, torch.tensor(theta), torch.tensor(y), mask, torch.ones(5, 12, dtype=torch.float64), prior=True
    )
    full = score_gradients(bank, theta, y).sum(axis=1)[:, 0] + theta[:, 0]
    assert 12 * found.numpy() == pytest.approx(np.abs(full), abs=1e-5)


@pytest.mark.parametrize("d", [1, 2])
def test_newton_step_at_the_mode_has_the_implicit_derivative(d):
    rng = np.random.default_rng(3)
    n = 8
    bank = Bank(rng.normal(size=(n, d)), rng.normal(size=n), np.zeros(n), tuple(map(str, range(n))))
    model, y = ResponseModel(bank, torch.float64), torch.tensor(rng.integers(0, 2, (1, n)).astype(float))
    weight = torch.rand(1, n, generator=torch.Generator().manual_seed(0), dtype=torch.float64)

    def mode(mask):
        theta = torch.zeros(1, d, dtype=torch.float64)
        for _ in range(100):
            theta = newton_step(model, theta, y, mask)
        return theta

    at = mode(weight)
    mask = weight.clone().requires_grad_()
    ahead = newton_step(model, at, y, mask)
    assert ahead.detach().numpy() == pytest.approx(at.numpy(), abs=1e-10)
    (found,) = torch.autograd.grad(ahead[0, 0], mask)
    for item in range(n):
        shift = torch.zeros(1, n, dtype=torch.float64)
        shift[0, item] = 1e-5
        difference = (mode(weight + shift) - mode(weight - shift))[0, 0] / 2e-5
        assert found[0, item] == pytest.approx(float(difference), rel=1e-5, abs=1e-9)


def test_finite_differences_tend_to_the_exact_unrolled_gradient(posed):
    _, model, y = posed
    answers, observed = torch.tensor(y[:1]), torch.ones(1, 12, dtype=torch.float64)
    phi = torch.randn(1, 12, generator=torch.Generator().manual_seed(2), dtype=torch.float64).requires_grad_()
    theta = torch.tensor([[0.4]], dtype=torch.float64)
    rate = 0.1

    def inner(at):
        p = torch.sigmoid(model.logit(at))
        loss = -(answers * torch.log(p) + (1 - answers) * torch.log(1 - p))
        return (torch.sigmoid(phi) * loss).sum()

    def outer(at):
        return matching_loss(model, at, answers, torch.sigmoid(phi), observed).sum()

    ahead = gradient_step(model, theta, answers, torch.sigmoid(phi), rate)
    (exact,) = torch.autograd.grad(outer(ahead), phi)
    # The part through the step is judged by itself: it is a small share of the whole.
    (direct,) = torch.autograd.grad(outer(ahead.detach()), phi)
    through = exact - direct
    errors = []
    for step in (1e-1, 1e-2, 1e-3):
        (found,) = finite_difference_gradient(outer, inner, theta, [phi], rate, step)
        errors.append(float((found - direct - through).norm() / through.norm()))
    assert errors[2] < 1e-3
    assert errors[2] < errors[1] < errors[0]


def test_feature_head_knows_no_item_by_its_place():
    rng = np.random.default_rng(4)
    bank = Bank.from_items(Items.dichotomous(rng.lognormal(0, 0.4, 10), rng.normal(size=10), 0.1))
    order = rng.permutation(10)
    policies = [
        Policy(each, "features", generator=torch.Generator().manual_seed(0)) for each in (bank, bank.take(order))
    ]
    last = torch.randn(policies[0].network[-1].weight.shape, generator=torch.Generator().manual_seed(1))
    for policy in policies:
        policy.network[-1].weight.data = last
    answered = torch.tensor(rng.integers(-1, 2, (6, 10)).astype(np.float32))
    theta = torch.tensor(rng.normal(size=(6, 1)).astype(np.float32))
    first = policies[0](answered, theta, 0.3)
    second = policies[1](answered[:, order], theta, 0.3)
    assert second.detach().numpy() == pytest.approx(first[:, order].detach().numpy(), abs=1e-5)
    assert (first.argmax(dim=1) == torch.tensor(order)[second.argmax(dim=1)]).all()


def test_untrained_policy_is_the_maximum_information_rule():
    rng = np.random.default_rng(5)
    bank = Bank.from_items(Items.dichotomous(rng.lognormal(0, 0.4, 25), rng.normal(size=25)))
    theta = rng.normal(size=(40, 1))
    for head in ("items", "features"):
        policy = Policy(bank, head, generator=torch.Generator().manual_seed(0))
        found = policy(torch.zeros(40, 25), torch.tensor(theta, dtype=torch.float32), 0.0).argmax(dim=1)
        assert (found.numpy() == bank.information(theta).argmax(axis=1)).all()


def test_prototype_head_prefers_the_nearest_difficulty():
    bank = Bank.from_items(Items.dichotomous(1.0, np.array([-2.0, -0.5, 0.4, 2.0])))
    policy = Policy(bank, "prototype", generator=torch.Generator().manual_seed(3))
    x = torch.tensor([[1.0, 0.0, -1.0, 0.0]])
    weight = torch.softmax(policy.network(x), dim=1)
    centre = float((weight @ policy.difficulty).detach())
    found = policy(x, torch.zeros(1, 1), 0.0).argmax()
    assert found == np.abs(policy.difficulty.numpy() - centre).argmin()


def test_unknown_head_is_named():
    bank = Bank.from_items(Items.dichotomous(1.0, np.zeros(2)))
    with pytest.raises(InputError, match="did you mean 'features'"):
        Policy(bank, "feature", generator=torch.Generator())
