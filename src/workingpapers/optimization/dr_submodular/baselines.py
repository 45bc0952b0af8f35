"""What the method is compared with: measured Frank-Wolfe online and offline, fixed and random actions, and Hedge."""

from __future__ import annotations

import math

import numpy as np

from workingpapers.foundations.errors import InputError
from workingpapers.optimization.dr_submodular.learners import GradientAscent
from workingpapers.optimization.dr_submodular.objectives import Objective
from workingpapers.optimization.dr_submodular.online import Question
from workingpapers.optimization.dr_submodular.polytope import Polytope


class MetaFrankWolfe:
    r"""Online measured Frank-Wolfe: M linear learners, :math:`x^{m+1} = x^m + v^m \odot (1 - x^m) / M`.

    The 1/e method before this paper; it asks for M gradients a round.

    Args:
        polytope: K.
        learners: M.
    """

    def __init__(self, polytope: Polytope, learners: int) -> None:
        self.learners = [GradientAscent(polytope) for _ in range(learners)]
        self.calls = {"gradient": 0, "value": 0}
        self._points = np.zeros((learners, polytope.dimension))

    def ask(self) -> Question:
        """Return the action and the M points where gradients are wanted."""
        x = np.zeros(self._points.shape[1])
        for m, learner in enumerate(self.learners):
            self._points[m] = x
            x = x + learner.point * (1 - x) / len(self.learners)
        return Question(x, self._points.copy(), "gradient", x)

    def tell(self, answer: np.ndarray | float | None = None) -> None:
        """Take the gradients, shape (M, d).

        Args:
            answer: The gradients at the points of the last question.
        """
        self.calls["gradient"] += len(self.learners)
        for learner, x, gradient in zip(self.learners, self._points, np.asarray(answer), strict=True):
            learner.update(gradient * (1 - x))


class RandomVertices:
    """Plays a random point between 0 and a random vertex of K each round and learns nothing.

    Args:
        polytope: K.
        rng: Source of the points.
    """

    def __init__(self, polytope: Polytope, rng: np.random.Generator) -> None:
        self.polytope, self.rng = polytope, rng
        self.calls = {"gradient": 0, "value": 0}

    def ask(self) -> Question:
        """Return an action without a question."""
        x = self.polytope.maximise(self.rng.normal(size=self.polytope.dimension)) * self.rng.uniform()
        return Question(x, np.empty((0, len(x))), "gradient", x)

    def tell(self, answer: np.ndarray | float | None = None) -> None:
        """Ignore the answer.

        Args:
            answer: Nothing.
        """


def measured_greedy(objective: Objective, polytope: Polytope, steps: int = 100) -> np.ndarray:
    r"""Measured continuous greedy, the offline reference for 1/e: one linear program a step; returns a point of K.

    :math:`x \leftarrow x + v \odot (1 - x) / N`, with v the vertex of K of largest
    :math:`\langle \nabla f(x) \odot (1 - x), v\rangle`.

    Args:
        objective: f.
        polytope: K.
        steps: N.

    References:
        A. Bian, K. Levy, A. Krause, J. Buhmann, NeurIPS 2017.
    """
    x = np.zeros(polytope.dimension)
    for _ in range(steps):
        x = x + polytope.maximise(objective.gradient(x) * (1 - x)) * (1 - x) / steps
    return x


def hedge(rewards: np.ndarray, reward_range: float) -> tuple[np.ndarray, np.ndarray]:
    r"""Follow several players by exponential weights: how often to follow each, and the expected reward.

    Players that do not depend on who is followed may be combined after the fact. The expected total is at least the
    best player's minus :math:`R \sqrt{T \ln k / 2}`.

    Args:
        rewards: Rewards of k players in T rounds, shape (k, T).
        reward_range: R, the largest reward minus the smallest that can occur.

    Returns:
        Probabilities, shape (k, T), and expected rewards, shape (T,).

    Raises:
        InputError: A reward range that is not positive.
    """
    if not reward_range > 0:
        raise InputError(f"The reward range is {reward_range:g}; give a positive number.")
    players, rounds = rewards.shape
    rate = math.sqrt(8 * math.log(players) / rounds) / reward_range
    before = np.cumsum(np.column_stack([np.zeros(players), rewards[:, :-1]]), axis=1)
    weights = np.exp(rate * (before - before.max(axis=0)))
    probabilities = weights / weights.sum(axis=0)
    return probabilities, (probabilities * rewards).sum(axis=0)
