"""Classic selectors against closed forms, brute force and quadrature."""

from itertools import combinations

import numpy as np
import pytest

from workingpapers.evaluation.adaptive_testing.bank import Bank, estimate
from workingpapers.evaluation.adaptive_testing.selectors import (
    GRID,
    Becat,
    KullbackLeibler,
    MaximumInformation,
    MinimumExpectedPosteriorVariance,
    State,
    gradient_similarity,
)
from workingpapers.evaluation.adaptive_testing.session import AdaptiveTest
from workingpapers.foundations.errors import InputError
from workingpapers.foundations.item_response import Items


def state_of(bank, theta, answered=None):
    theta = np.atleast_2d(theta).T if np.ndim(theta) == 1 else theta
    count, d = theta.shape
    answered = np.zeros((count, bank.count), np.int8) if answered is None else answered
    covariance = np.broadcast_to(np.eye(d), (count, d, d))
    return State(answered, theta, covariance, np.empty((count, 0), int), 5)


def choose(bank, selector, state):
    available = state.answered == 0
    return AdaptiveTest(bank, selector, 3).choose(state, available, np.random.default_rng(0))


def test_maximum_information_takes_the_nearest_difficulty_when_slopes_are_equal():
    rng = np.random.default_rng(0)
    b, theta = rng.normal(size=30), rng.normal(size=50)
    bank = Bank.from_items(Items.dichotomous(1.3, b))
    found = choose(bank, MaximumInformation(), state_of(bank, theta))
    assert (found == np.abs(b - theta[:, None]).argmin(axis=1)).all()


def test_maximum_information_weighs_slopes():
    rng = np.random.default_rng(1)
    a, b, theta = rng.lognormal(0, 0.5, 30), rng.normal(size=30), rng.normal(size=50)
    bank = Bank.from_items(Items.dichotomous(a, b))
    p = 1 / (1 + np.exp(-a * (theta[:, None] - b)))
    found = choose(bank, MaximumInformation(), state_of(bank, theta))
    assert (found == (a**2 * p * (1 - p)).argmax(axis=1)).all()


def test_equal_information_goes_to_the_first_item():
    bank = Bank.from_items(Items.dichotomous(1.0, np.array([2.0, 0.5, 0.5, 0.5])))
    state = state_of(bank, np.array([0.5]))
    assert choose(bank, MaximumInformation(), state)[0] == 1
    asked = np.array([[0, 1, 0, 0]], np.int8)
    assert choose(bank, MaximumInformation(), state_of(bank, np.array([0.5]), asked))[0] == 2


def test_maximum_information_in_several_dimensions_maximises_the_determinant():
    rng = np.random.default_rng(2)
    n, d = 15, 3
    bank = Bank(rng.normal(size=(n, d)), rng.normal(size=n), np.zeros(n), tuple(map(str, range(n))))
    asked = np.array([[0, 3, 7]])
    theta, covariance = estimate(bank, asked, np.array([[1.0, 0.0, 1.0]]))
    answered = np.zeros((1, n), np.int8)
    answered[0, asked[0]] = 1
    state = State(answered, theta, covariance, asked, 5)
    w = bank.weights(theta)[0]
    precision = np.eye(d) + sum(w[i] * np.outer(bank.slope[i], bank.slope[i]) for i in asked[0])
    determinant = [np.linalg.det(precision + w[i] * np.outer(bank.slope[i], bank.slope[i])) for i in range(n)]
    gain = MaximumInformation().scores(bank, state, np.random.default_rng(0))[0]
    assert 1 + gain == pytest.approx(np.array(determinant) / np.linalg.det(precision), rel=1e-10)


def brute_posterior(bank, answered, extra=()):
    weight = np.exp(-(GRID**2) / 2)
    p = bank.probabilities(GRID[:, None])
    for item, y in [*((i, answered[i]) for i in np.flatnonzero(answered)), *extra]:
        weight = weight * (p[:, item] if y == 1 else 1 - p[:, item])
    return weight


@pytest.fixture
def posed():
    rng = np.random.default_rng(3)
    bank = Bank.from_items(Items.dichotomous(rng.lognormal(0, 0.4, 8), rng.normal(size=8), 0.1))
    answered = np.array([[1, 0, -1, 0, 0, 0, 1, 0]], np.int8)
    return bank, state_of(bank, np.array([0.3]), answered)


def test_expected_variance_is_that_of_brute_force(posed):
    bank, state = posed
    found = -MinimumExpectedPosteriorVariance().scores(bank, state, np.random.default_rng(0))[0]
    before = brute_posterior(bank, state.answered[0])
    for item in (1, 3, 5):
        expected = 0.0
        for y in (1, -1):
            weight = brute_posterior(bank, state.answered[0], [(item, y)])
            chance = weight.sum() / before.sum()
            mean = np.average(GRID, weights=weight)
            expected += chance * np.average((GRID - mean) ** 2, weights=weight)
        assert found[item] == pytest.approx(expected, rel=1e-9)


def test_divergence_is_that_of_brute_force_and_vanishes_for_an_item_that_says_nothing(posed):
    bank, state = posed
    found = KullbackLeibler().scores(bank, state, np.random.default_rng(0))[0]
    weight = brute_posterior(bank, state.answered[0])
    weight /= weight.sum()
    for item in (1, 3, 5):
        p, q = bank.probabilities(state.theta)[0, item], bank.probabilities(GRID[:, None])[:, item]
        divergence = p * np.log(p / q) + (1 - p) * np.log((1 - p) / (1 - q))
        assert found[item] == pytest.approx(weight @ divergence, rel=1e-9)
    flat = Bank(np.zeros((1, 1)), np.zeros(1), np.zeros(1), ("q",))
    assert KullbackLeibler().scores(flat, state_of(flat, np.array([1.0])), None)[0, 0] == pytest.approx(0, abs=1e-12)


def facility(similarity, chosen):
    return similarity[list(chosen)].max(axis=0).sum() if chosen else 0.0


@pytest.mark.parametrize("d", [1, 2])
def test_similarity_is_the_expected_distance_of_gradients(d):
    rng = np.random.default_rng(4)
    bank = Bank(rng.normal(size=(5, d)), rng.normal(size=5), np.full(5, 0.1 if d == 1 else 0), tuple("abcde"))
    theta = rng.normal(size=(1, d))
    found = gradient_similarity(bank, theta)[0]
    p = bank.probabilities(theta)[0]
    s = (p - bank.guessing) / (1 - bank.guessing)
    distance = np.zeros((5, 5))
    for i in range(5):
        for j in range(5):
            for y, chance_i in ((1, p[i]), (0, 1 - p[i])):
                for v, chance_j in ((1, p[j]), (0, 1 - p[j])):
                    gap = bank.slope[i] * (p[i] - y) * s[i] / p[i] - bank.slope[j] * (p[j] - v) * s[j] / p[j]
                    distance[i, j] += (i != j) * chance_i * chance_j * np.linalg.norm(gap)
    assert found == pytest.approx(distance.max() - distance, abs=1e-10)


def test_greedy_cover_is_within_its_guarantee_and_the_cover_is_monotone_and_submodular():
    rng = np.random.default_rng(5)
    for _ in range(20):
        bank = Bank.from_items(Items.dichotomous(rng.lognormal(0, 0.6, 10), rng.normal(size=10)))
        theta = rng.normal(size=(1, 1))
        similarity = gradient_similarity(bank, theta)[0]
        answered = np.zeros((1, 10), np.int8)
        chosen = []
        for _ in range(3):
            gain = Becat().scores(bank, state_of(bank, theta, answered), np.random.default_rng(0))[0]
            for item in range(10):
                assert gain[item] == pytest.approx(
                    facility(similarity, [*chosen, item]) - facility(similarity, chosen), abs=1e-9
                )
            chosen.append(int(np.where(answered[0] == 0, gain, -1).argmax()))
            answered[0, chosen[-1]] = 1
        best = max(facility(similarity, trio) for trio in combinations(range(10), 3))
        assert facility(similarity, chosen) >= (1 - np.exp(-1)) * best
        small, extra, item = rng.permutation(10)[:3]
        less = facility(similarity, [small, item]) - facility(similarity, [small])
        more = facility(similarity, [small, extra, item]) - facility(similarity, [small, extra])
        assert less >= more - 1e-12
        assert more >= -1e-12


def test_grid_rules_refuse_several_dimensions():
    bank = Bank(np.ones((3, 2)), np.zeros(3), np.zeros(3), tuple("abc"))
    with pytest.raises(InputError, match="2 dimensions"):
        KullbackLeibler().scores(bank, state_of(bank, np.zeros((1, 2))), np.random.default_rng(0))
