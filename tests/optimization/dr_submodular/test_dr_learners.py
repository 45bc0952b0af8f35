"""Linear learners: every bound, against random and reacting gains, on every interval, for moving comparators."""

import math

import numpy as np
import pytest

from workingpapers.foundations.errors import InputError
from workingpapers.optimization.dr_submodular import (
    GradientAscent,
    Polytope,
    SeparationAscent,
    TrackingExperts,
    box,
    budget,
)
from workingpapers.optimization.dr_submodular.learners import learner_of

BOUND = 2.0


def random_set(rng):
    dimension = int(rng.integers(1, 5))
    kind = rng.integers(3)
    if kind == 0:
        return box(dimension)
    if kind == 1:
        return budget(rng.uniform(0.2, 1, dimension), rng.uniform(0.3, 1.5))
    return Polytope(rng.uniform(0.1, 1, (2, dimension)), rng.uniform(0.5, 1.5, 2))


def adversary(kind, learner, rng, t):
    """A gain vector of length at most BOUND, chosen by one who sees the point of the learner."""
    w = learner.point
    if kind == "reacting":
        g = np.where(w < 0.3, 1.0, -1.0) * rng.choice([1, 1, -1], len(w))
    elif kind == "against":
        g = learner.polytope.maximise(rng.normal(size=len(w))) - w
    elif kind == "turning":
        g = np.full(len(w), 1.0 if (t // 7) % 2 else -1.0)
    else:
        g = rng.normal(size=len(w)) * rng.choice([0.0, 0.1, 1.0])
    size = np.linalg.norm(g)
    return g * (BOUND / size if kind in ("reacting", "turning") else min(1.0, BOUND / max(size, 1e-12)))


def run(learner, kind, rng, rounds):
    points, gains = [], []
    for t in range(rounds):
        gain = adversary(kind, learner, rng, t)
        points.append(learner.point)
        gains.append(gain)
        assert learner.polytope.contains(learner.point, 1e-9)
        learner.update(gain)
    return np.array(points), np.array(gains)


def linear_regret(polytope, points, gains):
    total = gains.sum(axis=0)
    return float(total @ polytope.maximise(total) - (gains * points).sum())


KINDS = ("reacting", "against", "turning", "noise")


@pytest.mark.parametrize("name", ["gradient", "bounded", "fixed step", "separation", "experts"])
def test_bounds_of_the_linear_regret_are_never_violated(rng, name):
    for trial in range(160):
        polytope, rounds = random_set(rng), int(rng.integers(2, 60))
        if name == "bounded":
            learner = GradientAscent(polytope, BOUND)
        else:
            learner = learner_of(name, polytope, rounds, None if name == "gradient" else BOUND)
        points, gains = run(learner, KINDS[trial % 4], rng, rounds)
        regret = linear_regret(polytope, points, gains)
        assert regret <= learner.bound() + 1e-9
        if name in ("gradient", "bounded"):
            assert regret <= 1.5 * polytope.diameter * BOUND * math.sqrt(rounds) + 1e-9


def test_the_bounds_are_worth_something(rng):
    learner = GradientAscent(box(4), BOUND)
    points, gains = run(learner, "against", rng, 400)
    assert linear_regret(box(4), points, gains) > 0.1 * learner.bound()
    assert learner.bound() == pytest.approx(1.5 * 2 * BOUND * 20)


def test_adaptive_regret_holds_on_every_interval(rng):
    for trial in range(12):
        polytope, rounds = random_set(rng), 24
        learner = learner_of("fixed step", polytope, rounds, BOUND)
        points, gains = run(learner, KINDS[trial % 4], rng, rounds)
        for start in range(rounds):
            for stop in range(start + 1, rounds + 1):
                regret = linear_regret(polytope, points[start:stop], gains[start:stop])
                assert (
                    regret
                    <= polytope.diameter**2 / (2 * learner.step) + learner.step * BOUND**2 * (stop - start) / 2 + 1e-9
                )


def test_dynamic_regret_holds_against_moving_comparators(rng):
    for trial in range(100):
        polytope, rounds = random_set(rng), int(rng.integers(5, 60))
        learner = TrackingExperts(polytope, BOUND, rounds)
        points, gains = run(learner, KINDS[trial % 4], rng, rounds)
        pieces = np.sort(rng.integers(0, rounds, int(rng.integers(0, 8))))
        comparator = np.array([polytope.maximise(part.sum(axis=0)) for part in np.split(gains, pieces) for _ in part])
        path = np.linalg.norm(np.diff(comparator, axis=0), axis=1).sum()
        assert (gains * (comparator - points)).sum() <= learner.bound(path) + 1e-9


def test_experts_follow_a_switch_that_one_step_size_misses():
    rounds = 4000
    lost = {}
    for name in ("gradient", "experts"):
        learner = learner_of(name, box(1), rounds, 1.0)
        lost[name] = 0.0
        for t in range(rounds):
            gain = 1.0 if (t // 100) % 2 else -1.0
            lost[name] += max(gain, 0.0) - gain * float(learner.point[0])
            learner.update(np.array([gain]))
    assert lost["experts"] < 0.5 * lost["gradient"]


def test_ascent_by_hand():
    learner = GradientAscent(box(2), 1.0)
    learner.update(np.array([0.25, -1.0]))
    assert learner.point == pytest.approx([0.25 * math.sqrt(2), 0])
    learner.update(np.array([0.1, 0.5]))
    assert learner.point == pytest.approx([0.35 * math.sqrt(2) - 0.1 * (math.sqrt(2) - 1), 0.5])
    free = GradientAscent(box(2))
    free.update(np.zeros(2))
    assert free.point.tolist() == [0, 0]
    free.update(np.array([0.6, 0.8]))
    assert free.point == pytest.approx([0.6, 0.8])
    free.update(np.array([0.0, -1.0]))
    assert free.point == pytest.approx([0.6, 0.8 - math.sqrt(0.5)])


def test_separation_needs_few_cuts_and_an_interior(rng):
    learner = SeparationAscent(budget(np.ones(6), 2.0), 2000)
    points, _ = run(learner, "turning", rng, 2000)
    assert learner.separations < 40 * 2000
    assert (points @ np.ones(6) <= 2 + 1e-9).all()
    with pytest.raises(InputError, match="no interior"):
        SeparationAscent(budget(np.ones(2), 0.0), 10)


@pytest.mark.parametrize(
    ("name", "horizon", "bound", "words"),
    [
        ("gradiant", 10, 1.0, "did you mean 'gradient'"),
        ("experts", None, 1.0, "needs a horizon"),
        ("experts", 10, None, "needs gradient_bound"),
        ("fixed step", 10, None, "needs gradient_bound"),
        ("gradient", 10, 0.0, "gradient_bound is 0"),
    ],
)
def test_learners_that_lack_something_are_refused(name, horizon, bound, words):
    with pytest.raises(InputError, match=words):
        learner_of(name, box(2), horizon, bound)
