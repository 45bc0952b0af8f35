"""The online method: the guarantee on whole runs, feedback of every kind, feasibility, calls, refusals."""

import math

import numpy as np
import pytest

from workingpapers.foundations.errors import InputError
from workingpapers.optimization.dr_submodular import (
    FEEDBACK,
    Mixture,
    OnlineMaximizer,
    Polytope,
    Quadratic,
    box,
    brute_force,
    budget,
    certified_regret,
    gradient_bound,
    play,
)
from workingpapers.optimization.dr_submodular.wrappers import EXPONENTIAL

KINDS = ("cut", "quadratic", "coverage", "revenue", "mean field")
SHARE = 1 - 1 / math.e


def random_stream(make, rng, dimension, rounds):
    pool = [make(str(rng.choice(KINDS)), dimension, rng) for _ in range(int(rng.integers(1, 4)))]
    order = rng.integers(len(pool), size=rounds)
    if rng.random() < 0.5:
        order = np.sort(order)
    return (lambda t: pool[order[t]]), Mixture(pool, np.bincount(order, minlength=len(pool)))


@pytest.mark.parametrize("learner", ["gradient", "fixed step", "separation", "experts"])
def test_the_guarantee_is_never_violated(make, rng, learner):
    for _ in range(200):
        dimension, rounds = int(rng.integers(1, 4)), int(rng.integers(2, 25))
        polytope = Polytope(rng.uniform(0.1, 1, (1, dimension)), rng.uniform(0.3, 1.5, 1))
        stream, total = random_stream(make, rng, dimension, rounds)
        bound = max(1e-9, *(gradient_bound(stream(t), dimension) for t in range(rounds)))
        player = OnlineMaximizer(
            polytope, learner=learner, horizon=rounds, nodes=16,
            gradient_bound=None if learner in ("gradient", "separation") else bound,
        )  # fmt: skip
        played = play(player, stream, rounds)
        _, best = brute_force(total, polytope, grid={1: 401, 2: 41, 3: 15}[dimension])
        regret = best / math.e - played.rewards.sum()
        certified = certified_regret(played, stream, polytope, [rounds], nodes=16)[0]
        assert regret <= certified + 1e-9
        assert certified <= SHARE * player.learner.bound() + 1e-9
        assert player.learner.bound() <= 4 * polytope.diameter * bound * math.sqrt(rounds)


def test_random_questions_keep_the_guarantee_on_average(make, rng):
    # One function, 400 runs: the mean of the 1/e-regret minus its bound must not be positive beyond its error.
    f, polytope = make("cut", 2, rng), budget(np.ones(2), 1.0)
    best = brute_force(f, polytope, 101)[1]
    excess = []
    for seed in range(400):
        player = OnlineMaximizer(polytope, rng=np.random.default_rng(seed))
        played = play(player, lambda t: f, 20)
        excess.append(20 * best / math.e - played.rewards.sum() - SHARE * player.learner.bound())
    assert np.mean(excess) <= 3 * np.std(excess) / 20


class Shifted:
    """f(delta + (1 - 2 delta) v), the problem that the method solves from values."""

    def __init__(self, f, margin):
        self.f, self.margin = f, margin

    def value(self, v):
        return self.f.value(self.margin + (1 - 2 * self.margin) * v)

    def gradient(self, v):
        return (1 - 2 * self.margin) * self.f.gradient(self.margin + (1 - 2 * self.margin) * v)


class Still:
    """A learner that stays where it is and keeps what it is told."""

    def __init__(self, point):
        self.point, self.gains = point, []

    def update(self, gain):
        self.gains.append(gain)


@pytest.mark.parametrize("feedback", list(FEEDBACK))
def test_gains_are_unbiased_and_questions_feasible(rng, feedback):
    # For a quadratic the gradient of the smoothed function is the gradient itself.
    half = rng.uniform(-1, 0, (3, 3))
    f = Quadratic(half + half.T, np.array([2.0, 1.0, 3.0]), 4.0)
    polytope = budget(np.array([1.0, 0.5, 0.8]), 1.2)
    player = OnlineMaximizer(polytope, feedback=feedback, horizon=8000, rng=rng)
    w = player.inner.maximise(np.array([1.0, 2.0, 0.5])) * 0.9
    player.learner = still = Still(w)
    base = np.empty(3)
    for _ in range(8000):
        question = player.ask()
        assert polytope.contains(np.vstack([question.action, question.base, question.points]), 1e-12).all()
        base = question.base
        if not len(question.points):
            player.tell()
            continue
        assert (question.action == (question.points[0] if FEEDBACK[feedback].played else question.base)).all()
        player.tell((f.gradient if question.kind == "gradient" else f.value)(question.points))
    assert base == pytest.approx(player.margin + (1 - 2 * player.margin) * (1 - np.exp(-w)))
    gains = np.array(still.gains)
    expected = EXPONENTIAL.mean_gain(Shifted(f, player.margin), w)
    error = gains.std(axis=0) / math.sqrt(len(gains))
    assert (np.abs(gains.mean(axis=0) - expected) <= 4 * error).all()
    assert (error > 0).all()


def test_a_gain_is_never_longer_than_the_gradient(make, rng):
    for kind in KINDS:
        f = make(kind, 4, rng)
        w, z = rng.uniform(0, 1, (500, 4)), rng.uniform(0, 1, (500, 1))
        gains = f.gradient(EXPONENTIAL.query(w, z)) * EXPONENTIAL.scale(w, z)
        assert np.linalg.norm(gains, axis=1).max() <= gradient_bound(f, 4)


@pytest.mark.parametrize(
    ("feedback", "block", "gradients", "values"),
    [("gradient", 1, 1000, 0), ("semi-bandit", 10, 100, 0), ("two-point", 1, 0, 2000), ("one-point", 1, 0, 1000),
     ("bandit", 4, 0, 250)],
)  # fmt: skip
def test_calls_are_counted_and_blocks_ask_once(make, rng, feedback, block, gradients, values):
    f = make("cut", 3, rng)
    player = OnlineMaximizer(budget(np.ones(3), 1.5), feedback=feedback, horizon=1000, rng=rng)
    asked = []
    for _ in range(1000):
        question = player.ask()
        asked.append(len(question.points) > 0)
        answer = (f.gradient if question.kind == "gradient" else f.value)(question.points) if asked[-1] else None
        player.tell(answer)
    assert player.block == block
    assert (np.array(asked).reshape(-1, block).sum(axis=1) == 1).all()
    assert player.calls == {"gradient": gradients, "value": values}
    if block > 1:  # at a random place of the block
        places = np.array(asked).reshape(-1, block).argmax(axis=1)
        assert len(set(places.tolist())) == block


def test_a_block_moves_once_and_a_constant_reward_never(make, rng):
    f = make("cut", 3, rng)
    player = OnlineMaximizer(budget(np.ones(3), 1.5), feedback="semi-bandit", horizon=1000, rng=rng)
    played = play(player, lambda t: f, 1000)
    blocks = played.bases.reshape(100, 10, 3)
    moves = (np.abs(np.diff(blocks, axis=1)).sum(axis=2) > 0).sum(axis=1)
    assert moves.max() == 1
    still = OnlineMaximizer(box(2), rng=rng)
    play(still, lambda t: Quadratic(np.zeros((2, 2)), np.zeros(2), 5.0), 50)
    assert still.point.tolist() == [0, 0]


def test_same_seed_same_run_and_other_seed_another(make, rng):
    f = make("cut", 3, rng)

    def actions(seed, **options):
        player = OnlineMaximizer(box(3), rng=np.random.default_rng(seed), **options)
        return play(player, lambda t: f, 100).actions

    assert (actions(1) == actions(1)).all()
    assert (actions(1) != actions(2)).any()
    # An unknown horizon changes nothing but the steps, and for gradients not even those.
    assert (actions(1) == actions(1, horizon=100)).all()


def test_values_alone_find_the_better_half(rng):
    f = Quadratic(np.zeros((2, 2)), np.array([1.0, 0.2]))
    for feedback in ("two-point", "one-point", "bandit", "semi-bandit"):
        player = OnlineMaximizer(budget(np.ones(2), 1.0), feedback=feedback, horizon=4000, rng=rng)
        played = play(player, lambda t: f, 4000)
        # The best that the shrunk set allows is all of it for the first; the learner is more than halfway there.
        limit = 1 - math.exp(-player.inner.maximise(np.array([1.0, 0.0]))[0])
        moved = (played.bases[-200:].mean(axis=0) - player.margin) / (1 - 2 * player.margin)
        assert moved[0] > limit / 2 > moved[1]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"feedback": "bandits"}, "did you mean 'bandit'"),
        ({"feedback": "bandit"}, "needs a horizon"),
        ({"horizon": 0}, "The horizon is 0"),
        ({"nodes": 0}, "nodes is 0"),
        ({"feedback": "bandit", "horizon": 9, "nodes": 4}, "nodes is 4"),
        ({"feedback": "bandit", "horizon": 9, "gradient_bound": 2.0}, "gradient_bound is 2"),
        ({"wrapper": "log"}, "The wrapper is 'log'"),
    ],
)
def test_choices_that_do_not_fit_are_refused(options, words):
    with pytest.raises(InputError, match=words):
        OnlineMaximizer(box(2), **options)


def test_no_values_without_room():
    with pytest.raises(InputError, match="no interior"):
        OnlineMaximizer(budget(np.ones(2), 0.0), feedback="bandit", horizon=10)


def test_wrong_answers_are_refused():
    player = OnlineMaximizer(box(2))
    with pytest.raises(InputError, match="call ask before tell"):
        player.tell(np.zeros(2))
    player.ask()
    with pytest.raises(InputError, match="call tell before"):
        player.ask()
    for answer, words in ((np.zeros(3), r"shape \(3,\)"), ([1.0, math.nan], "holds nan"), (None, r"shape \(\)")):
        with pytest.raises(InputError, match=words):
            player.tell(answer)
    player.tell([0.5, 0.5])
    assert player.ask().action[0] > 0
    blocked = OnlineMaximizer(box(1), feedback="semi-bandit", horizon=1000)
    question = blocked.ask()
    while len(question.points):
        blocked.tell(np.ones((1, 1)))
        question = blocked.ask()
    with pytest.raises(InputError, match="Nothing was asked"):
        blocked.tell(np.ones((1, 1)))
