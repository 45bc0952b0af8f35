r"""Rounds against a stream of rewards, the yardsticks in hindsight, and how fast the regret grows."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from scipy.stats import t as student

from workingpapers.foundations.errors import InputError
from workingpapers.foundations.progress import Progress, silent
from workingpapers.optimization.dr_submodular.learners import GradientAscent
from workingpapers.optimization.dr_submodular.objectives import Objective
from workingpapers.optimization.dr_submodular.online import Question
from workingpapers.optimization.dr_submodular.polytope import Polytope
from workingpapers.optimization.dr_submodular.wrappers import EXPONENTIAL, Wrapper

BATCH = 64
Stream = Callable[[int], Objective]
"""The reward of each round; rounds may share one object."""


class Player(Protocol):
    """Anything that can be asked for an action and told about it."""

    calls: dict[str, int]

    def ask(self) -> Question:
        """Return the action and the question of this round."""

    def tell(self, answer: np.ndarray | float | None = None) -> None:
        """Take the answer."""


@dataclass(frozen=True, eq=False)
class Play:
    """What happened.

    Args:
        actions: Points played, shape (T, d).
        bases: Actions had there been no exploration, shape (T, d).
        rewards: f_t at the actions, shape (T,).
        calls: Number of gradients and of values that the player asked for.
    """

    actions: np.ndarray
    bases: np.ndarray
    rewards: np.ndarray
    calls: dict[str, int]


def play(player: Player, stream: Stream, rounds: int, progress: Progress = silent) -> Play:
    """Let a player meet a stream.

    Args:
        player: Asked and told once a round.
        stream: Round number -> objective.
        rounds: T.
        progress: Called along the way.
    """
    actions, bases, rewards = [], [], np.empty(rounds)
    for t in range(rounds):
        objective = stream(t)
        question = player.ask()
        rewards[t] = float(objective.value(question.action))
        actions.append(question.action)
        bases.append(question.base)
        if len(question.points):
            answer = objective.gradient if question.kind == "gradient" else objective.value
            player.tell(answer(question.points))
        else:
            player.tell()
        if t % 500 == 0:
            progress(t / rounds, f"round {t} of {rounds}")
    return Play(np.array(actions), np.array(bases), rewards, dict(player.calls))


def certified_regret(
    played: Play, stream: Stream, polytope: Polytope, checkpoints: Sequence[int], nodes: int = 12
) -> np.ndarray:
    r"""Return numbers that the 1/e-regret of a play cannot exceed, whoever played, one a checkpoint.

    With :math:`w_t = -\log(1 - x_t)` for the actions x_t without exploration, upper-linearizability gives for every y

    .. math:: \frac1e \sum_t f_t(y) - \sum_t f_t(x_t) \le
              \Bigl(1 - \frac1e\Bigr) \max_{y \in K} \sum_t \langle \bar g_t(w_t), y - w_t\rangle ,

    one linear program; what exploring cost is added. Unlike the 1/e-regret itself, which is mostly far below zero, it
    shows the rate at which the method learns.

    Args:
        played: Actions and rewards.
        stream: The rewards, non-negative on the unit box.
        polytope: K.
        checkpoints: Round numbers, increasing.
        nodes: Quadrature nodes of the mean gain.

    Raises:
        InputError: An action has an entry over 1 - 1/e, for which the inequality is not proven.
    """
    if played.bases.max() > 1 - 1 / math.e + 1e-12:
        raise InputError(
            f"An action has the entry {played.bases.max():.4g}; the certificate needs entries of at most 1 - 1/e."
        )
    points = -np.log1p(-played.bases)
    total, earned, explored, last = np.zeros(polytope.dimension), 0.0, 0.0, 0
    found = []
    for stop in checkpoints:
        for objective, rounds in _by_objective(stream, last, stop):
            w = points[rounds]
            gains = EXPONENTIAL.mean_gain(objective, w, nodes)
            total += gains.sum(axis=0)
            earned += float((gains * w).sum())
            moved = rounds[(played.bases[rounds] != played.actions[rounds]).any(axis=1)]
            if len(moved):
                explored += float(objective.value(played.bases[moved]).sum() - played.rewards[moved].sum())
        last = stop
        found.append(EXPONENTIAL.factor * (float(total @ polytope.maximise(total)) - earned) + explored)
    return np.array(found)


def _by_objective(stream: Stream, start: int, stop: int) -> Iterator[tuple[Objective, np.ndarray]]:
    """Group rounds that share an objective, in batches of bounded size."""
    shared: dict[int, tuple[Objective, list[int]]] = {}
    for t in range(start, stop):
        objective = stream(t)
        shared.setdefault(id(objective), (objective, []))[1].append(t)
    for objective, rounds in shared.values():
        for first in range(0, len(rounds), BATCH):
            yield objective, np.array(rounds[first : first + BATCH])


def best_fixed(
    objective: Objective, polytope: Polytope, rng: np.random.Generator, starts: int = 20, steps: int = 300
) -> tuple[np.ndarray, float]:
    """Return the best point found by projected ascent from many starts, shape (d,), and its value: a yardstick.

    It never exceeds the maximum and need not reach it.

    Args:
        objective: f, such as a mixture of the rewards of all rounds.
        polytope: K.
        rng: Source of the starts.
        starts: Number of starts, the origin and vertices of random directions among them.
        steps: Steps of each ascent.
    """
    best, best_value = np.zeros(polytope.dimension), float(objective.value(np.zeros(polytope.dimension)))
    for start in range(starts):
        x = polytope.maximise(rng.normal(size=polytope.dimension)) * rng.uniform() if start else best
        squares = 0.0
        for _ in range(steps):
            slope = objective.gradient(x)
            squares += float(slope @ slope)
            if squares == 0:
                break
            x = polytope.project(x + polytope.diameter / math.sqrt(squares) * slope)
            value = float(objective.value(x))
            if value > best_value:
                best, best_value = x, value
    return best, best_value


def brute_force(objective: Objective, polytope: Polytope, grid: int = 101) -> tuple[np.ndarray, float]:
    """Return the best point of a grid over K, shape (d,), and its value.

    Args:
        objective: f.
        polytope: K with d <= 3.
        grid: Points along each coordinate, from 0 to its reach.

    Raises:
        InputError: K has more than three coordinates.
    """
    if polytope.dimension > 3:
        raise InputError(f"The polytope has {polytope.dimension} coordinates; brute force is for at most 3.")
    axes = [np.linspace(0, reach, grid) for reach in polytope.reach]
    points = np.stack([axis.ravel() for axis in np.meshgrid(*axes, indexing="ij")], axis=1)
    points = points[polytope.contains(points)]
    values = objective.value(points)
    k = int(np.argmax(values))
    return points[k], float(values[k])


@dataclass(frozen=True)
class Exponent:
    """A fitted power law: `slope` with its 95 % interval from `low` to `high`."""

    slope: float
    low: float
    high: float


def fit_exponent(rounds: Sequence[int], regrets: np.ndarray) -> Exponent:
    r"""Fit :math:`R_T \propto T^b`, by least squares of :math:`\log R_T` on :math:`\log T`, one fit a run.

    Args:
        rounds: T, shape (k,), at least two.
        regrets: R_T, positive, shape (runs, k); the runs independent of each other.

    Returns:
        The mean slope with Student's interval over runs (NaN for one run).

    Raises:
        InputError: A regret is not positive.
    """
    regrets = np.atleast_2d(regrets)
    if not (regrets > 0).all():
        raise InputError(f"A regret is {regrets.min():g}; a power law is fitted to positive numbers only.")
    x = np.log(np.asarray(rounds, dtype=np.float64))
    slopes = np.log(regrets) @ (x - x.mean()) / ((x - x.mean()) ** 2).sum()
    mean, runs = float(slopes.mean()), len(slopes)
    half = float(student.ppf(0.975, runs - 1) * slopes.std(ddof=1) / math.sqrt(runs)) if runs > 1 else math.nan
    return Exponent(mean, mean - half, mean + half)


@dataclass(frozen=True, eq=False)
class Maximum:
    """What :func:`maximise` found.

    Args:
        point: Best point seen, shape (d,), in K.
        value: f there.
        upper_bound: No point of K has a larger value than this.
        gap: The value is at least max f / e minus this; it falls like one over the root of the iterations.
        values: Largest value seen after each iteration, shape (iterations,).
        bounds: Smallest upper bound after each, shape (iterations,).
    """

    point: np.ndarray
    value: float
    upper_bound: float
    gap: float
    values: np.ndarray
    bounds: np.ndarray


def maximise(
    objective: Objective,
    polytope: Polytope,
    *,
    iterations: int = 300,
    nodes: int = 16,
    wrapper: Wrapper = EXPONENTIAL,
    progress: Progress = silent,
) -> Maximum:
    r"""Maximise one DR-submodular function offline, with an upper bound of the optimum from the same inequality.

    Every point w gives
    :math:`\max_K f \le e\,[f(h(w)) + (1 - 1/e) \max_{y \in K} \langle \bar g(w), y - w\rangle] - f(0)`, and so
    does the average over iterations; :math:`f(0) + \max_{y \in K} \langle \nabla f(0), y\rangle` is one more.

    Args:
        objective: f, non-negative on the unit box.
        polytope: K.
        iterations: Steps of the learner.
        nodes: Gradients a step, at quadrature nodes.
        wrapper: The reparametrisation; the upper bound is that of its own class of functions.
        progress: Called along the way.
    """
    zero = np.zeros(polytope.dimension)
    at_zero, slope = float(objective.value(zero)), objective.gradient(zero)
    bound = at_zero + max(0.0, float(slope @ polytope.maximise(slope)))
    bonus = at_zero if wrapper is EXPONENTIAL else 0.0
    learner = GradientAscent(polytope)
    best, best_value = zero, at_zero
    mean_value, mean_gain, mean_earned = 0.0, np.zeros_like(zero), 0.0
    values, bounds = np.empty(iterations), np.empty(iterations)
    for k in range(iterations):
        w = learner.point
        x = wrapper.action(w)
        value, gain = float(objective.value(x)), wrapper.mean_gain(objective, w, nodes)
        if value > best_value:
            best, best_value = x, value
        mean_value += (value - mean_value) / (k + 1)
        mean_gain = mean_gain + (gain - mean_gain) / (k + 1)
        mean_earned += (float(gain @ w) - mean_earned) / (k + 1)
        if k % (10 + k // 20) == 0 or k == iterations - 1:
            for f, g, earned in ((value, gain, float(gain @ w)), (mean_value, mean_gain, mean_earned)):
                gap = float(g @ polytope.maximise(g)) - earned
                bound = min(bound, (f + wrapper.factor * gap) / wrapper.ratio - bonus)
            progress(k / iterations, f"iteration {k} of {iterations}")
        values[k], bounds[k] = best_value, bound
        learner.update(gain)
    return Maximum(best, best_value, bound, wrapper.factor * learner.bound() / iterations, values, bounds)
