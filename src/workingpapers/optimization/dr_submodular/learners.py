r"""Learners of linear gains over a polytope: each keeps a point w_t, sees a vector g_t and moves.

All are deterministic functions of the gains seen, and must be: g_t is computed at w_t, so that a learner that hides
behind its own randomness (follow the perturbed leader) has no guarantee here. Each bound below holds for every
sequence of gains, chosen by whoever sees w_t first.

References:
    M. Zinkevich, ICML 2003 (projected ascent); D. Garber, B. Kretzu, COLT 2022 (separation oracle);
    L. Zhang, S. Lu, Z.-H. Zhou, NeurIPS 2018 (dynamic regret by experts).
"""

from __future__ import annotations

import math
from typing import Protocol

import numpy as np

from workingpapers.foundations.errors import InputError, near_match
from workingpapers.optimization.dr_submodular.polytope import Polytope


class Learner(Protocol):
    """What a reduction needs of a learner."""

    point: np.ndarray

    def update(self, gain: np.ndarray) -> None:
        """Take the gain vector of the current point, shape (d,), and move."""

    def bound(self) -> float:
        r"""Return a bound of :math:`\max_{y \in K} \sum_t \langle g_t, y - w_t\rangle` for the gains seen so far."""


class GradientAscent:
    r"""Projected ascent :math:`w_{t+1} = \Pi_K(w_t + \eta_t g_t)` from 0.

    Without a bound of the gains :math:`\eta_t = D / \sqrt{2 \sum_{s \le t} \|g_s\|^2}`, and the regret is at most
    :math:`\sqrt 2 D \sqrt{\sum_t \|g_t\|^2}`. With a bound G: :math:`\eta_t = D / (G \sqrt t)` and
    :math:`\tfrac32 D G \sqrt T`. With a fixed step :math:`\eta`: :math:`D^2 / 2\eta + \eta \sum_t \|g_t\|^2 / 2`, which
    holds on every interval of rounds too (adaptive regret).

    Args:
        polytope: K, of diameter D.
        gain_bound: G, or None.
        step: A fixed step, or None.
    """

    def __init__(self, polytope: Polytope, gain_bound: float | None = None, step: float | None = None) -> None:
        self.polytope = polytope
        self.gain_bound = gain_bound
        self.step = step
        self.point = np.zeros(polytope.dimension)
        self.rounds = 0
        self.squares = 0.0

    def update(self, gain: np.ndarray) -> None:
        """Take the gain vector, shape (d,), and move."""
        self.rounds += 1
        self.squares += float(gain @ gain)
        if self.squares > 0:
            self.point = self.polytope.project(self.point + self._step() * gain)

    def bound(self) -> float:
        """Return the bound of the linear regret so far; see the class."""
        diameter = self.polytope.diameter
        if self.step is not None:
            return diameter**2 / (2 * self.step) + self.step * self.squares / 2
        if self.gain_bound is not None:
            return 1.5 * diameter * self.gain_bound * math.sqrt(self.rounds)
        return diameter * math.sqrt(2 * self.squares)

    def _step(self) -> float:
        if self.step is not None:
            return self.step
        if self.gain_bound is not None:
            return self.polytope.diameter / (self.gain_bound * math.sqrt(self.rounds))
        return self.polytope.diameter / math.sqrt(2 * self.squares)


class SeparationAscent:
    r"""Ascent without projections: a point outside K is cut back, normal by normal, until it is inside.

    Each cut :math:`w \leftarrow w - \delta r n` with the unit normal n of a violated constraint brings w closer to
    every point of the shrunk set :math:`c + (1 - \delta)(K - c)`, c and r the centre and radius of a ball in K. With
    :math:`\delta = T^{-1/2}` and the steps of :class:`GradientAscent` the regret is at most
    :math:`\sqrt 2 D \sqrt{\sum_t \|g_t\|^2} + \delta D \sum_t \|g_t\|`.

    Args:
        polytope: K; its interior must not be empty.
        horizon: T, at least 2.

    Raises:
        InputError: K has no interior.
    """

    def __init__(self, polytope: Polytope, horizon: int) -> None:
        self.polytope = polytope
        self.point, self.radius = polytope.ball
        if self.radius < 1e-9:
            raise InputError(
                "The polytope has no interior (some limit or capacity is 0); remove those coordinates, or use the "
                "learner 'gradient'."
            )
        self.shrink = min(0.5, 1 / math.sqrt(horizon))
        self.squares = 0.0
        self.lengths = 0.0
        self.separations = 0

    def update(self, gain: np.ndarray) -> None:
        """Take the gain vector, shape (d,), and move."""
        self.squares += float(gain @ gain)
        self.lengths += float(np.linalg.norm(gain))
        if self.squares == 0:
            return
        moved = self.point + self.polytope.diameter / math.sqrt(2 * self.squares) * gain
        while True:
            self.separations += 1
            normal = self.polytope.separate(moved)
            if normal is None:
                break
            moved = moved - self.shrink * self.radius * normal
        self.point = moved

    def bound(self) -> float:
        """Return the bound of the linear regret so far; see the class."""
        return self.polytope.diameter * (math.sqrt(2 * self.squares) + self.shrink * self.lengths)


class TrackingExperts:
    r"""Projected ascents with N step sizes, mixed by exponential weights: follows comparators that move (Ader).

    All experts share the one gain vector of the mixture. Against :math:`u_1, \dots, u_T \in K` with path length
    :math:`P = \sum_t \|u_{t+1} - u_t\|` the regret is at most
    :math:`\tfrac32 G \sqrt{T (D^2 + 2 D P)} + G D \sqrt{T \ln N / 2}`,
    with steps :math:`2^i D / (G \sqrt T)`, :math:`0 \le i \le \lceil \log_2 \sqrt{1 + 2T} \rceil`.

    Args:
        polytope: K, of diameter D.
        gain_bound: G, an upper bound of the length of each gain vector.
        horizon: T.
    """

    def __init__(self, polytope: Polytope, gain_bound: float, horizon: int) -> None:
        self.polytope, self.gain_bound, self.horizon = polytope, gain_bound, horizon
        count = math.ceil(math.log2(math.sqrt(1 + 2 * horizon))) + 1
        self.steps = 2.0 ** np.arange(count) * polytope.diameter / (gain_bound * math.sqrt(horizon))
        self.experts = np.zeros((count, polytope.dimension))
        self.totals = np.zeros(count)
        self.rate = math.sqrt(8 * math.log(count) / horizon) / (gain_bound * polytope.diameter)
        self.point = np.zeros(polytope.dimension)

    def update(self, gain: np.ndarray) -> None:
        """Take the gain vector, shape (d,), and move."""
        self.totals += self.experts @ gain
        for k, step in enumerate(self.steps):
            self.experts[k] = self.polytope.project(self.experts[k] + step * gain)
        weights = np.exp(self.rate * (self.totals - self.totals.max()))
        self.point = weights @ self.experts / weights.sum()

    def bound(self, path_length: float = 0.0) -> float:
        """Return the bound of the linear regret over the horizon against comparators of that path length.

        Args:
            path_length: P, at least 0.
        """
        diameter, bound, horizon = self.polytope.diameter, self.gain_bound, self.horizon
        moving = 1.5 * bound * math.sqrt(horizon * (diameter**2 + 2 * diameter * path_length))
        return moving + bound * diameter * math.sqrt(horizon * math.log(len(self.steps)) / 2)


LEARNERS = ("gradient", "fixed step", "separation", "experts")


def learner_of(name: str, polytope: Polytope, horizon: int | None, gain_bound: float | None) -> Learner:
    """Make a learner.

    Args:
        name: ``gradient``, ``fixed step`` (adaptive regret), ``separation`` (no projections) or ``experts`` (dynamic
            regret).
        polytope: K.
        horizon: T; only ``gradient`` does without.
        gain_bound: G; ``fixed step`` and ``experts`` need it.

    Raises:
        InputError: There is no such learner, it lacks its horizon or bound, or the bound is not positive.
    """
    if name not in LEARNERS:
        hint = near_match(name, LEARNERS) or f"; choose one of {', '.join(LEARNERS)}."
        raise InputError(f"The learner is {name!r}{hint}")
    if gain_bound is not None and not gain_bound > 0:
        raise InputError(f"gradient_bound is {gain_bound:g}; give a positive number.")
    if name == "gradient":
        return GradientAscent(polytope, gain_bound)
    if horizon is None:
        raise InputError(f"The learner {name!r} needs a horizon; give the number of rounds or use 'gradient'.")
    if name == "separation":
        return SeparationAscent(polytope, horizon)
    if gain_bound is None:
        raise InputError(f"The learner {name!r} needs gradient_bound; give a bound of |grad f| or use 'gradient'.")
    if name == "experts":
        return TrackingExperts(polytope, gain_bound, horizon)
    return GradientAscent(polytope, step=polytope.diameter / (gain_bound * math.sqrt(horizon)))
