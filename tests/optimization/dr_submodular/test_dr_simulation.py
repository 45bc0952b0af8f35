"""Yardsticks, the offline maximum with its upper bound, 1/e against brute force, fitted exponents, baselines."""

import math

import numpy as np
import pytest

from workingpapers.foundations.errors import InputError
from workingpapers.optimization.dr_submodular import (
    MetaFrankWolfe,
    OnlineMaximizer,
    Polytope,
    Quadratic,
    best_fixed,
    box,
    brute_force,
    budget,
    certified_regret,
    fit_exponent,
    hedge,
    maximise,
    measured_greedy,
    play,
)
from workingpapers.optimization.dr_submodular.baselines import RandomVertices
from workingpapers.optimization.dr_submodular.wrappers import BOOSTED

KINDS = ("cut", "quadratic", "coverage", "revenue", "mean field")
GRID = {1: 401, 2: 41, 3: 15}


def test_one_over_e_of_brute_force_is_never_missed(make, rng):
    for trial in range(400):
        dimension = int(rng.integers(1, 4))
        rows = int(rng.integers(1, 3))
        polytope = Polytope(rng.uniform(0.1, 1, (rows, dimension)), rng.uniform(0.3, 1.5, rows))
        f = make(KINDS[trial % 5], dimension, rng)
        found = maximise(f, polytope, iterations=15)
        best = brute_force(f, polytope, GRID[dimension])[1]
        assert polytope.contains(found.point)
        assert found.value == pytest.approx(float(f.value(found.point)))
        assert found.value >= best / math.e - found.gap - 1e-9
        assert best <= found.upper_bound + 1e-9
        assert (np.diff(found.values) >= 0).all()
        assert (np.diff(found.bounds) <= 0).all()


def test_the_gap_closes_and_the_ratio_is_then_above_one_over_e(make, rng):
    for kind in KINDS:
        f, polytope = make(kind, 2, rng), budget(np.array([1.0, 0.6]), 0.8)
        found = maximise(f, polytope, iterations=1000)
        best = brute_force(f, polytope, 201)[1]
        assert found.gap <= 0.3 * best
        assert found.value >= best / math.e
        assert found.upper_bound <= math.e * found.value * 1.1


def test_upper_bounds_use_the_ratio_of_the_wrapper(rng):
    f = Quadratic(np.zeros((3, 3)), np.array([1.0, 2.0, 3.0]))
    polytope = budget(np.ones(3), 1.5)
    found = maximise(f, polytope, iterations=200, wrapper=BOOSTED)
    assert found.upper_bound == pytest.approx(4.0)
    assert found.value == pytest.approx(4.0, abs=1e-6)


def test_best_fixed_reaches_the_grid_and_stays_inside(make, rng):
    for kind in KINDS:
        f, polytope = make(kind, 2, rng), Polytope(rng.uniform(0.2, 1, (2, 2)), rng.uniform(0.4, 1, 2))
        point, value = best_fixed(f, polytope, rng)
        assert polytope.contains(point)
        assert value == pytest.approx(float(f.value(point)))
        assert value >= brute_force(f, polytope, 81)[1] - 2e-3


def test_brute_force_by_hand():
    f = Quadratic(np.array([[0.0, -1.0], [-1.0, 0.0]]), np.array([1.0, 0.5]))
    point, value = brute_force(f, budget(np.ones(2), 0.5), 11)
    assert point == pytest.approx([0.5, 0])
    assert value == pytest.approx(0.5)
    with pytest.raises(InputError, match="4 coordinates"):
        brute_force(f, box(4))


def test_certified_regret_by_hand_and_its_limits(make, rng):
    # One coordinate, f = x, always x = 0: 1/e-regret T / e, certificate T (1 - 1/e) int p(z) dz = T (1 - 1/e).
    f = Quadratic(np.zeros((1, 1)), np.ones(1))
    still = OnlineMaximizer(box(1))
    still.learner.update = lambda gain: None
    played = play(still, lambda t: f, 10)
    assert certified_regret(played, lambda t: f, box(1), [5, 10]) == pytest.approx(
        [5 * (1 - 1 / math.e), 10 * (1 - 1 / math.e)]
    )
    plain = play(OnlineMaximizer(box(1), wrapper="plain ascent"), lambda t: f, 50)
    with pytest.raises(InputError, match=r"entry 1; the certificate"):
        certified_regret(plain, lambda t: f, box(1), [50])


def test_certified_regret_counts_what_exploring_costs(make, rng):
    f, polytope = make("cut", 3, rng), budget(np.ones(3), 1.5)
    player = OnlineMaximizer(polytope, feedback="semi-bandit", horizon=200, rng=rng)
    played = play(player, lambda t: f, 200)
    free = play(OnlineMaximizer(polytope, rng=rng), lambda t: f, 1)
    assert (free.bases == free.actions).all()
    paid = certified_regret(played, lambda t: f, polytope, [200])[0]
    unpaid = type(played)(played.bases, played.bases, f.value(played.bases), {})
    difference = f.value(played.bases).sum() - played.rewards.sum()
    assert paid == pytest.approx(certified_regret(unpaid, lambda t: f, polytope, [200])[0] + difference)
    assert difference > 0


def test_exponents():
    rounds = [10, 100, 1000]
    runs = np.array([[2 * t**0.5 for t in rounds], [3 * t**0.7 for t in rounds], [t**0.6 for t in rounds]])
    found = fit_exponent(rounds, runs)
    assert found.slope == pytest.approx(0.6)
    assert found.high - found.slope == pytest.approx(4.302653 * 0.1 / math.sqrt(3), abs=1e-6)
    assert found.slope - found.low == pytest.approx(found.high - found.slope)
    assert math.isnan(fit_exponent(rounds, runs[0]).low)
    with pytest.raises(InputError, match="regret is -1"):
        fit_exponent([1, 2], np.array([1.0, -1.0]))


def test_hedge_keeps_its_bound_for_every_sequence(rng):
    for _ in range(500):
        players, rounds = int(rng.integers(2, 5)), int(rng.integers(1, 80))
        rewards = rng.uniform(0, 1, (players, rounds)) ** rng.choice([0.3, 1, 3], (players, 1))
        if rng.random() < 0.5:
            rewards = np.round(rewards)
        probabilities, expected = hedge(rewards, 1.0)
        assert probabilities.sum(axis=0) == pytest.approx(np.ones(rounds))
        assert probabilities[:, 0] == pytest.approx(np.full(players, 1 / players))
        assert rewards.sum(axis=1).max() - expected.sum() <= math.sqrt(rounds * math.log(players) / 2) + 1e-9
    with pytest.raises(InputError, match="reward range is 0"):
        hedge(rewards, 0.0)


def test_measured_greedy_reaches_one_over_e(make, rng):
    for trial in range(30):
        f = make(KINDS[trial % 5], 2, rng)
        polytope = Polytope(rng.uniform(0.1, 1, (1, 2)), rng.uniform(0.3, 1.5, 1))
        x = measured_greedy(f, polytope, 60)
        assert polytope.contains(x)
        best = brute_force(f, polytope, 41)[1]
        # 1/e up to L D^2 / 2N, here at most 2 % of the largest value for these smooth functions
        assert f.value(x) >= best / math.e - 0.05 * best
    linear = Quadratic(np.zeros((2, 2)), np.array([1.0, 0.1]))
    assert measured_greedy(linear, box(2), 1000) == pytest.approx([1 - 1 / math.e] * 2, abs=1e-3)


def test_meta_frank_wolfe_on_a_fixed_reward_approaches_measured_greedy(make, rng):
    f, polytope = make("cut", 3, rng), budget(np.ones(3), 1.5)
    player = MetaFrankWolfe(polytope, 10)
    played = play(player, lambda t: f, 600)
    assert player.calls["gradient"] == 6000
    assert polytope.contains(played.actions).all()
    assert played.rewards[-1] >= 0.97 * float(f.value(measured_greedy(f, polytope, 10)))


def test_random_vertices_stay_inside(rng):
    polytope = budget(np.ones(4), 1.3)
    played = play(RandomVertices(polytope, rng), lambda t: Quadratic(np.zeros((4, 4)), np.ones(4)), 100)
    assert polytope.contains(played.actions).all()
    assert 0.05 < played.rewards.mean() < 1.3
    assert played.calls == {"gradient": 0, "value": 0}
