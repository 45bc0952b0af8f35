r"""Reparametrisations that turn DR-submodular maximisation into linear optimisation.

A wrapper plays :math:`h(w)` for an internal point :math:`w \in K`, draws z with density p, asks for the gradient at
:math:`q(w, z)` and multiplies it by :math:`s(w, z)`. For the class of functions that it is made for, the mean
:math:`\bar g(w)` of that vector satisfies, for all w and y in K,

.. math:: \alpha f(y) - f(h(w)) \le \beta \langle \bar g(w), y - w\rangle .

Summed over rounds: the alpha-regret of the actions is at most beta times the regret of any learner of *linear* gains,
whatever the comparator and the interval. The wrapper of the paper is

.. math:: h(w) = 1 - e^{-w},\quad q = 1 - e^{-zw},\quad s = e^{-zw},\quad p(z) = \frac{e^{z-1}}{1 - 1/e},\quad
          \alpha = 1/e,\ \beta = 1 - 1/e,

with all functions of w by coordinate. Its proof gives a little more, :math:`\alpha (f(y) + f(0))` on the left.

References:
    Y. Lu, H. Jadav, M. Pedramfar, R. Singh, V. Aggarwal, arXiv:2602.20578.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from workingpapers.foundations.errors import InputError, near_match
from workingpapers.optimization.dr_submodular.objectives import Objective

Map = Callable[[np.ndarray], np.ndarray]
Path = Callable[[np.ndarray, np.ndarray], np.ndarray]
Scalar = Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True)
class Wrapper:
    """One reparametrisation; the symbols stand in the docstring of the module.

    Args:
        name: What it is called.
        ratio: alpha.
        factor: beta.
        action: h, (..., d) to (..., d).
        query: q of points (..., d) and of z that broadcasts against them.
        scale: s, likewise.
        density: p on [0, 1].
        quantile: Inverse of the distribution function of p: turns uniform numbers into z.
    """

    name: str
    ratio: float
    factor: float
    action: Map
    query: Path
    scale: Path
    density: Scalar
    quantile: Scalar

    def nodes(self, count: int) -> tuple[np.ndarray, np.ndarray]:
        """Return Gauss-Legendre nodes z and weights, the density included, shapes (count,).

        Args:
            count: Number of nodes.
        """
        z, weights = np.polynomial.legendre.leggauss(count)
        z = (z + 1) / 2
        return z, weights / 2 * self.density(z)

    def mean_gain(self, objective: Objective, w: np.ndarray, count: int = 24) -> np.ndarray:
        r"""Return :math:`\bar g(w)` by quadrature, shape (..., d).

        Args:
            objective: f.
            w: Internal points, shape (..., d).
            count: Quadrature nodes; 24 are exact to rounding for smooth f.
        """
        z, weights = self.nodes(count)
        z = z[:, None]
        points = w[..., None, :]
        gains = objective.gradient(self.query(points, z)) * self.scale(points, z)
        return np.asarray(np.einsum("k,...kd->...d", weights, gains))

    def slack(self, objective: Objective, w: np.ndarray, y: np.ndarray, count: int = 24) -> np.ndarray:
        r"""Return right side minus left side of the inequality, shape (...): never negative for its class of functions.

        Args:
            objective: f.
            w: Internal points, shape (..., d).
            y: Comparators, shape (..., d).
            count: Quadrature nodes.
        """
        gain = self.factor * (self.mean_gain(objective, w, count) * (y - w)).sum(axis=-1)
        return np.asarray(gain - self.ratio * objective.value(y) + objective.value(self.action(w)))


def _exponential_action(w: np.ndarray) -> np.ndarray:
    return np.asarray(-np.expm1(-w))


def _exponential_query(w: np.ndarray, z: np.ndarray) -> np.ndarray:
    return np.asarray(-np.expm1(-z * w))


def _exponential_scale(w: np.ndarray, z: np.ndarray) -> np.ndarray:
    return np.asarray(np.exp(-z * w))


def _exponential_density(z: np.ndarray) -> np.ndarray:
    return np.asarray(np.exp(z - 1) / (1 - 1 / math.e))


def _exponential_quantile(u: np.ndarray) -> np.ndarray:
    return np.asarray(1 + np.log(u * (1 - 1 / math.e) + 1 / math.e))


def _same(w: np.ndarray) -> np.ndarray:
    return w


def _ray(w: np.ndarray, z: np.ndarray) -> np.ndarray:
    return np.asarray(z * w)


def _no_scale(w: np.ndarray, z: np.ndarray) -> np.ndarray:
    return np.ones(np.broadcast_shapes(np.shape(w), np.shape(z)))


def _flat(u: np.ndarray) -> np.ndarray:
    return np.asarray(u)


def _one(z: np.ndarray) -> np.ndarray:
    return np.ones_like(z)


def _anchored_density(z: np.ndarray) -> np.ndarray:
    return np.asarray(1 / (3 * (1 - z / 2) ** 3))


def _anchored_quantile(u: np.ndarray) -> np.ndarray:
    return np.asarray(2 * (1 - (1 + 3 * u) ** -0.5))


def _still(w: np.ndarray, z: np.ndarray) -> np.ndarray:
    return np.broadcast_to(w, np.broadcast_shapes(np.shape(w), np.shape(z)))


EXPONENTIAL = Wrapper(
    "exponential", 1 / math.e, 1 - 1 / math.e, _exponential_action, _exponential_query, _exponential_scale,
    _exponential_density, _exponential_quantile,
)  # fmt: skip
"""The paper's: non-monotone f, down-closed K."""
BOOSTED = Wrapper(
    "boosted", 1 - 1 / math.e, 1 - 1 / math.e, _same, _ray, _no_scale, _exponential_density, _exponential_quantile
)
"""For monotone f with 0 in K: ratio 1 - 1/e; no guarantee for others."""
IDENTITY = Wrapper("plain ascent", 1.0, 1.0, _same, _still, _no_scale, _one, _flat)
"""Gradient ascent on f itself: right for concave f, no guarantee for others."""


def _anchored_action(w: np.ndarray) -> np.ndarray:
    return np.asarray(0.5 * w)


def _anchored_query(w: np.ndarray, z: np.ndarray) -> np.ndarray:
    return np.asarray(0.5 * z * w)


ANCHORED = Wrapper(
    "anchored", 0.25, 3 / 8, _anchored_action, _anchored_query, _no_scale, _anchored_density, _anchored_quantile
)
"""For any convex K that holds 0, anchored there: h(w) = w / 2, ratio 1/4."""

WRAPPERS = {wrapper.name: wrapper for wrapper in (EXPONENTIAL, BOOSTED, ANCHORED, IDENTITY)}


def wrapper_of(wrapper: str | Wrapper) -> Wrapper:
    """Return the wrapper of that name.

    Args:
        wrapper: One of ``exponential``, ``boosted``, ``anchored`` and ``plain ascent``, or a wrapper.

    Raises:
        InputError: There is none of that name.
    """
    if isinstance(wrapper, Wrapper):
        return wrapper
    if wrapper not in WRAPPERS:
        hint = near_match(wrapper, WRAPPERS) or f"; choose one of {', '.join(WRAPPERS)}."
        raise InputError(f"The wrapper is {wrapper!r}{hint}")
    return WRAPPERS[wrapper]
