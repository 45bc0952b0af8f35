"""The structural inequality in thousands of random instances, what breaks it, and the distribution of z."""

import dataclasses
import math

import numpy as np
import pytest
from scipy.stats import kstest

from workingpapers.foundations.errors import InputError
from workingpapers.optimization.dr_submodular import Coverage, Quadratic
from workingpapers.optimization.dr_submodular.wrappers import (
    ANCHORED,
    BOOSTED,
    EXPONENTIAL,
    IDENTITY,
    wrapper_of,
)

KINDS = ("cut", "quadratic", "coverage", "revenue", "mean field")
SHARE = 1 - 1 / math.e


def random_pairs(rng, dimension, count=8):
    w = rng.uniform(0, 1, (count, dimension)) ** rng.choice([0.2, 1, 5], (count, 1))
    w[0], w[1] = 1.0, rng.random(dimension) < 0.5
    y = rng.uniform(0, 1, (count, dimension))
    y[: count // 2] = y[: count // 2] < 0.5
    return w, y


def smallest_slack(wrapper, make, kind, rng, instances):
    worst = math.inf
    for _ in range(instances):
        dimension = int(rng.integers(1, 8))
        f = make(kind, dimension, rng)
        w, y = random_pairs(rng, dimension)
        slack = wrapper.slack(f, w, y, 40) / max(1.0, float(np.abs(f.value(y)).max()))
        worst = min(worst, float(slack.min()))
    return worst


@pytest.mark.parametrize("kind", KINDS)
def test_the_inequality_is_never_violated(make, rng, kind):
    assert smallest_slack(EXPONENTIAL, make, kind, rng, 600) >= -1e-10


def test_the_inequality_holds_with_the_value_at_zero_added(make, rng):
    for kind in ("mean field", "quadratic"):
        for _ in range(300):
            dimension = int(rng.integers(1, 6))
            f = make(kind, dimension, rng)
            w, y = random_pairs(rng, dimension)
            assert (EXPONENTIAL.slack(f, w, y, 40) >= f.value(np.zeros(dimension)) / math.e - 1e-10).all()


def test_the_inequality_is_tight():
    # f = 1 + c.x with y = w = 0: both sides vanish but for f(0) / e; without a constant they are equal.
    f = Quadratic(np.zeros((2, 2)), np.ones(2))
    assert EXPONENTIAL.slack(f, np.zeros((1, 2)), np.zeros((1, 2)))[0] == pytest.approx(0, abs=1e-15)
    # At w = 1 a function that only y reaches loses exactly the factor 1 / e.
    cut = Quadratic(np.array([[0.0, -1.0], [-1.0, 0.0]]), np.array([0.0, 1.0]))  # x_2 (1 - x_1)
    w, y = np.array([1.0, 0.0]), np.array([0.0, 1.0])
    assert EXPONENTIAL.slack(cut, w, y, 40) == pytest.approx(0, abs=1e-12)


def test_one_dimension_on_a_grid():
    f = Quadratic(np.array([[-8.0]]), np.array([4.0]))
    grid = np.linspace(0, 1, 200)
    w, y = (axis.ravel()[:, None] for axis in np.meshgrid(grid, grid))
    assert EXPONENTIAL.slack(f, w, y, 40).min() >= -1e-12


def test_each_part_of_the_wrapper_is_needed(make, rng):
    flat = dataclasses.replace(EXPONENTIAL, density=np.ones_like)
    unscaled = dataclasses.replace(EXPONENTIAL, scale=lambda w, z: np.ones(np.broadcast_shapes(w.shape, z.shape)))
    raw = dataclasses.replace(EXPONENTIAL, action=lambda w: w)
    for broken in (flat, unscaled, raw, IDENTITY):
        assert min(smallest_slack(broken, make, kind, rng, 200) for kind in ("cut", "coverage")) < -1e-3


def test_a_function_that_is_negative_only_outside_the_polytope_breaks_it():
    # f = x_2 - 10 x_1 x_2 + k, with the smallest k for which f >= 0 on {x_1 + x_2 <= 1}.
    hessian, constant = np.array([[0.0, -10.0], [-10.0, 0.0]]), 81 / 40
    f = Quadratic(hessian, np.array([0.0, 1.0]), constant)
    share = np.linspace(0, 1, 1001)
    assert f.value(np.column_stack([share, 1 - share])).min() >= -1e-6
    w, y = np.array([1.0, 0.0]), np.array([0.0, 1.0])
    assert EXPONENTIAL.slack(f, w, y) == pytest.approx(
        (SHARE - 10 * (1 - 2 / math.e)) - (1 + constant) / math.e + constant
    )
    assert EXPONENTIAL.slack(f, w, y) < -1


def test_linear_rewards_in_closed_form(rng):
    c, w = rng.uniform(0, 1, 3), rng.uniform(0.1, 1, 3)
    f = Quadratic(np.zeros((3, 3)), c)
    factor = (1 - np.exp(-(w - 1)) * np.exp(-1)) * 0 + (np.expm1(1 - w) / (1 - w)) / (math.e - 1)
    assert EXPONENTIAL.mean_gain(f, w) == pytest.approx(c * factor, abs=1e-12)
    assert (EXPONENTIAL.slack(f, rng.uniform(0, 1, (500, 3)), rng.uniform(0, 1, (500, 3))) >= 0).all()


def test_a_constant_reward_gives_no_gain():
    f = Quadratic(np.zeros((4, 4)), np.zeros(4), 3.0)
    assert EXPONENTIAL.mean_gain(f, np.full(4, 0.7)).tolist() == [0, 0, 0, 0]


@pytest.mark.parametrize("kind", KINDS)
def test_the_mean_gain_is_the_gradient_of_the_surrogate(make, rng, kind):
    # F(w) = int e^(z-1) / ((1 - 1/e) z) (f(1 - e^(-z w)) - f(0)) dz
    f = make(kind, 3, rng)
    z, weights = EXPONENTIAL.nodes(60)

    def surrogate(w):
        return weights @ ((f.value(-np.expm1(-z[:, None] * w)) - f.value(np.zeros(3))) / z)

    w, step = rng.uniform(0.1, 0.9, 3), 1e-5
    slopes = [(surrogate(w + step * e) - surrogate(w - step * e)) / (2 * step) for e in np.eye(3)]
    assert EXPONENTIAL.mean_gain(f, w, 60) == pytest.approx(slopes, abs=1e-6)


def test_the_action_map(rng):
    w = rng.uniform(0, 1, (1000, 3))
    assert (EXPONENTIAL.action(w) <= w).all()
    assert EXPONENTIAL.action(np.zeros(2)).tolist() == [0, 0]
    assert EXPONENTIAL.action(np.ones(1))[0] == pytest.approx(SHARE)
    z = rng.uniform(0, 1, (1000, 1))
    assert (EXPONENTIAL.query(w, z) <= EXPONENTIAL.action(w)).all()


@pytest.mark.parametrize("wrapper", [EXPONENTIAL, BOOSTED, ANCHORED])
def test_the_distribution_of_z(rng, wrapper):
    z, weights = wrapper.nodes(60)
    assert weights.sum() == pytest.approx(1, abs=1e-12)
    draws = wrapper.quantile(rng.random(100_000))
    assert (draws >= 0).all()
    assert (draws <= 1).all()
    grid = np.linspace(0, 1, 2001)
    density = wrapper.density(grid)
    steps = np.diff(grid) * (density[1:] + density[:-1]) / 2
    assert kstest(draws, lambda x: np.interp(x, grid, np.r_[0, np.cumsum(steps)])).pvalue > 1e-3
    assert draws.mean() == pytest.approx(weights @ z, abs=4e-3)


def test_known_moments_of_z(rng):
    z, weights = EXPONENTIAL.nodes(40)
    assert weights @ z == pytest.approx(1 / (math.e - 1), abs=1e-12)
    assert EXPONENTIAL.quantile(np.array([0.0, 0.37754, 1.0])) == pytest.approx([0, 0.5, 1], abs=1e-5)
    assert (EXPONENTIAL.quantile(rng.random(100_000)) <= 0.5).mean() == pytest.approx(0.37754, abs=0.006)


def test_the_other_wrappers_keep_their_own_inequalities(make, rng):
    for _ in range(150):
        dimension = int(rng.integers(1, 6))
        w, y = random_pairs(rng, dimension)
        monotone = Coverage(rng.beta(1, 2, (dimension, 8)), rng.uniform(0, 1, 8), np.zeros(dimension))
        assert (BOOSTED.slack(monotone, w, y, 40) >= -1e-10).all()
        for kind in KINDS:
            f = make(kind, dimension, rng)
            assert (ANCHORED.slack(f, w, y, 40) >= -1e-10 * max(1.0, float(f.value(y).max()))).all()
        concave = Quadratic(-np.eye(dimension), np.ones(dimension))
        assert (IDENTITY.slack(concave, w, y) >= -1e-10).all()


def test_boosting_has_no_guarantee_without_monotonicity(make, rng):
    assert min(smallest_slack(BOOSTED, make, kind, rng, 100) for kind in KINDS) < -0.1


def test_wrappers_by_name():
    assert wrapper_of("exponential") is EXPONENTIAL
    with pytest.raises(InputError, match="did you mean 'boosted'"):
        wrapper_of("bosted")
