"""The arms of the claims: streams of rewards and the players that meet them."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

import numpy as np

from workingpapers.foundations.progress import Progress, part
from workingpapers.optimization.dr_submodular.baselines import MetaFrankWolfe, hedge
from workingpapers.optimization.dr_submodular.objectives import (
    Coverage,
    Cut,
    MeanField,
    Objective,
    Quadratic,
    Revenue,
    floor,
    gradient_bound,
)
from workingpapers.optimization.dr_submodular.online import FEEDBACK, OnlineMaximizer
from workingpapers.optimization.dr_submodular.polytope import Polytope, budget
from workingpapers.optimization.dr_submodular.simulation import (
    Play,
    Player,
    Stream,
    certified_regret,
    fit_exponent,
    play,
)
from workingpapers.optimization.dr_submodular.wrappers import EXPONENTIAL, WRAPPERS, Wrapper

FAMILIES = ("cut", "quadratic", "coverage", "revenue", "mean field")
STEPS = (1 / 16, 1 / 4, 1.0, 4.0, 16.0)


def random_objective(family: str, dimension: int, rng: np.random.Generator) -> Objective:
    """Draw a non-negative DR-submodular function.

    Args:
        family: One of :data:`FAMILIES`.
        dimension: d.
        rng: Source of randomness.
    """
    if family == "cut":
        return Cut(rng.uniform(0, 1, (dimension, dimension)) * (rng.random((dimension, dimension)) < 0.6))
    if family == "quadratic":
        half = rng.uniform(-1, 0, (dimension, dimension))
        quadratic = Quadratic(half + half.T, rng.uniform(0, dimension, dimension))
        return dataclasses.replace(quadratic, constant=max(0.0, -floor(quadratic, dimension)))
    if family == "coverage":
        coverage = Coverage(rng.beta(1, 2, (dimension, 8)), rng.uniform(0, 1, 8), rng.uniform(0, 1, dimension))
        return dataclasses.replace(coverage, constant=max(0.0, -floor(coverage, dimension)))
    if family == "revenue":
        influence = rng.uniform(0, 1, (dimension, dimension))
        np.fill_diagonal(influence, 0)
        return Revenue(influence, rng.uniform(0, 1, dimension))
    return MeanField(rng.uniform(0, 2, (dimension, dimension)), 0.02)


def random_pairs(dimension: int, rng: np.random.Generator, count: int = 8) -> tuple[np.ndarray, np.ndarray]:
    """Draw internal points w and comparators y, many of them at corners of the box, shapes (count, d).

    Args:
        dimension: d.
        rng: Source of randomness.
        count: Number of pairs.
    """
    w = rng.uniform(0, 1, (count, dimension)) ** rng.choice([0.2, 1, 5], (count, 1))
    w[0], w[1] = 1.0, rng.random(dimension) < 0.5
    y = rng.uniform(0, 1, (count, dimension))
    y[: count // 2] = y[: count // 2] < 0.5
    return w, y


def _raw(w: np.ndarray) -> np.ndarray:
    return w


def _ones(w: np.ndarray, z: np.ndarray) -> np.ndarray:
    return np.ones(np.broadcast_shapes(w.shape, z.shape))


ABLATIONS: dict[str, Wrapper] = {
    "exponential": EXPONENTIAL,
    "uniform z": dataclasses.replace(EXPONENTIAL, density=np.ones_like),
    "no scaling": dataclasses.replace(EXPONENTIAL, scale=_ones),
    "no map": dataclasses.replace(EXPONENTIAL, action=_raw),
}


def violations(seed: int, progress: Progress, *, wrapper: str, instances: int) -> dict[str, float]:
    """Count random functions on which the inequality of the wrapper fails for one of eight random pairs (w, y)."""
    rng = np.random.default_rng(seed)
    violated, worst = 0, 0.0
    for k in range(instances):
        dimension = int(rng.integers(1, 8))
        f = random_objective(FAMILIES[k % len(FAMILIES)], dimension, rng)
        w, y = random_pairs(dimension, rng)
        slack = ABLATIONS[wrapper].slack(f, w, y, 40) / max(1.0, float(np.abs(f.value(y)).max()))
        violated += bool(slack.min() < -1e-9)
        worst = min(worst, float(slack.min()))
        if k % 200 == 0:
            progress(k / instances, f"function {k} of {instances}")
    return {"violated": violated / instances, "instances": instances, "worst": -worst}


def trap_stream(rng: np.random.Generator, rounds: int, pairs: int = 10) -> tuple[Stream, float]:
    """Return rewards that first favour the wrong half of the coordinates, and the best fixed average reward.

    In a first share s of the rounds the reward is the mean of t; later it is the mean of b (1 - t) + c t. Once t is 1
    the gradient for b is 0. With t + b = 1 in each pair, the best fixed action earns max(1 - s, s + (1 - s) c).

    Args:
        rng: Draws s from 0.05 to 0.2 and c from 0 to 0.2.
        rounds: T.
        pairs: Number of pairs (b, t).
    """
    share, consolation = rng.uniform(0.05, 0.2), rng.uniform(0, 0.2)
    switch = round(share * rounds)
    zero, mean = np.zeros(pairs), np.ones(pairs) / pairs
    crossed = np.kron(np.array([[0.0, -1.0], [-1.0, 0.0]]), np.eye(pairs) / pairs)
    first = Quadratic(np.zeros((2 * pairs, 2 * pairs)), np.r_[zero, mean])
    later = Quadratic(crossed, np.r_[mean, consolation * mean])
    share = switch / rounds
    return (lambda t: first if t < switch else later), max(1 - share, share + (1 - share) * consolation)


def trap(seed: int, progress: Progress, *, player: str, rounds: int) -> dict[str, float]:
    """Meet the trap stream; the judged figure is the 1/e-regret per round."""
    rng = np.random.default_rng(seed)
    stream, best = trap_stream(rng, rounds)
    polytope = budget(np.ones(20), 10.0)
    rewards, calls = _rewards(player, polytope, stream, rounds, 1.0, seed, progress)
    return {
        "regret": best / math.e - float(rewards.mean()),
        "reward": float(rewards.mean()),
        "best_fixed": best,
        "gradients_per_round": calls / rounds,
    }


def revenue_stream(rng: np.random.Generator, dimension: int, rounds: int) -> Stream:
    """Return seasonal revenues on a sparse random graph of influence: four friends convince each customer.

    Args:
        rng: Source of the graph and of the prices.
        dimension: Number of customers.
        rounds: T; two seasons fit in.
    """
    influence = np.zeros((dimension, dimension))
    for j in range(dimension):
        friends = rng.choice(np.delete(np.arange(dimension), j), 4, replace=False)
        influence[friends, j] = rng.uniform(0, 0.9, 4)
    base, phase = rng.uniform(0.5, 1.5, dimension), rng.uniform(0, 2 * math.pi, dimension)

    def at(t: int) -> Objective:
        return Revenue(influence, base * (1 + 0.5 * np.sin(4 * math.pi * t / rounds + phase)))

    return at


def revenue(seed: int, progress: Progress, *, player: str, rounds: int, dimension: int) -> dict[str, float]:
    """Meet the revenue stream under a budget of a fifth of the customers."""
    rng = np.random.default_rng(seed)
    stream = revenue_stream(rng, dimension, rounds)
    polytope = budget(np.ones(dimension), dimension / 5)
    # The largest revenue cannot exceed the sum of all prices, of mean one and seasonal factor 1.5 at most.
    rewards, calls = _rewards(player, polytope, stream, rounds, 2.25 * dimension, seed, progress)
    return {"reward": float(rewards.mean()), "gradients_per_round": calls / rounds}


def _rewards(
    player: str, polytope: Polytope, stream: Stream, rounds: int, reward_range: float, seed: int, progress: Progress
) -> tuple[np.ndarray, int]:
    """Return the rewards of the named player, shape (T,), and its number of gradients."""
    if player in WRAPPERS:
        played = play(_maximizer(polytope, player, seed), stream, rounds, progress)
        return played.rewards, played.calls["gradient"]
    if player.startswith("measured"):
        played = play(MetaFrankWolfe(polytope, int(player.split()[-1])), stream, rounds, progress)
        return played.rewards, played.calls["gradient"]
    if player == "hedge":
        names = ("exponential", "plain ascent")
        both = [
            play(_maximizer(polytope, name, seed), stream, rounds, part(progress, k / 2, (k + 1) / 2))
            for k, name in enumerate(names)
        ]
        expected = hedge(np.array([item.rewards for item in both]), reward_range)[1]
        return expected, sum(item.calls["gradient"] for item in both)
    return _best_step(polytope, stream, rounds, seed, progress), rounds


def _best_step(polytope: Polytope, stream: Stream, rounds: int, seed: int, progress: Progress) -> np.ndarray:
    """Plain ascent with the step that earns most in hindsight, a help that no learner has."""
    bound = max(gradient_bound(stream(t), polytope.dimension) for t in (0, rounds - 1))
    tried = []
    for k, factor in enumerate(STEPS):
        player = OnlineMaximizer(
            polytope, wrapper="plain ascent", learner="fixed step", horizon=rounds, gradient_bound=bound / factor
        )
        tried.append(play(player, stream, rounds, part(progress, k / len(STEPS), (k + 1) / len(STEPS))).rewards)
    return max(tried, key=lambda rewards: float(rewards.sum()))


def _maximizer(polytope: Polytope, wrapper: str, seed: int) -> Player:
    return OnlineMaximizer(polytope, wrapper=wrapper, rng=np.random.default_rng([seed, 1]))


class _Nothing:
    """A learner that never moves."""

    def __init__(self, point: np.ndarray) -> None:
        self.point = point

    def update(self, gain: np.ndarray) -> None:
        """Ignore the gain."""

    def bound(self) -> float:
        """Return no bound."""
        return math.inf


def rates(
    seed: int, progress: Progress, *, learning: bool, dimension: int, horizons: Sequence[int]
) -> dict[str, float]:
    """Fit the exponent of the certified regret for each kind of feedback, each horizon a run of its own.

    Each round draws one of six random cut functions. The judged figure is the largest excess over the exponent of the
    theory.
    """
    rng = np.random.default_rng(seed)
    pool = [random_objective("cut", dimension, rng) for _ in range(6)]
    polytope = budget(np.ones(dimension), dimension / 3)
    found: dict[str, float] = {}
    excess = []
    for place, feedback in enumerate(FEEDBACK.values()):
        regrets = []
        for k, rounds in enumerate(horizons):
            order = np.random.default_rng([seed, k]).integers(len(pool), size=rounds)
            inner = part(progress, (place + k / len(horizons)) / 5, (place + (k + 1) / len(horizons)) / 5)
            played, stream = _rated_run(feedback.name, polytope, pool, order, [seed, place, k], learning, inner)
            regrets.append(certified_regret(played, stream, polytope, [rounds])[0])
        slope = fit_exponent(horizons, np.array(regrets)).slope
        name = feedback.name.replace("-", "_")
        found[f"slope_{name}"], found[f"regret_{name}"] = slope, regrets[-1] / horizons[-1]
        excess.append(slope - feedback.exponent)
    return {"excess": max(excess), **found}


def _rated_run(
    feedback: str, polytope: Polytope, pool: Sequence[Objective], order: np.ndarray, seed: list[int], learning: bool,
    progress: Progress,
) -> tuple[Play, Stream]:  # fmt: skip
    player = OnlineMaximizer(polytope, feedback=feedback, horizon=len(order), rng=np.random.default_rng(seed))
    if not learning:
        player.learner = _Nothing(player.learner.point)

    def stream(t: int) -> Objective:
        return pool[int(order[t])]

    return play(player, stream, len(order), progress), stream


def tracking(
    seed: int, progress: Progress, *, learner: str, rounds: int, pieces: int = 5, block: int = 4
) -> dict[str, float]:
    """Meet rewards whose best coordinates move to a new block after each fifth of the rounds, and ones that stay."""
    rng = np.random.default_rng(seed)
    dimension = pieces * block
    pool: list[Objective] = []
    for k in range(pieces):
        weights = np.zeros((dimension, dimension))
        inside = np.arange(k * block, (k + 1) * block)
        outside = np.setdiff1d(np.arange(dimension), inside)
        weights[np.ix_(inside, outside)] = rng.uniform(0, 1, (block, len(outside)))
        pool.append(Cut(weights))
    polytope = budget(np.ones(dimension), float(block))
    bound = max(gradient_bound(f, dimension) for f in pool)
    streams: dict[str, Stream] = {
        "reward": lambda t: pool[t * pieces // rounds],
        "static": lambda t: pool[0],
    }
    found = {}
    for k, (name, stream) in enumerate(streams.items()):
        player = OnlineMaximizer(
            polytope, learner=learner, horizon=rounds, gradient_bound=None if learner == "gradient" else bound,
            rng=np.random.default_rng([seed, 1]),
        )  # fmt: skip
        found[name] = float(play(player, stream, rounds, part(progress, k / 2, (k + 1) / 2)).rewards.mean())
    return found
