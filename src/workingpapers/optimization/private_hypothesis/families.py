"""Candidate lists of the experiments: random mixtures, a cover of locations, and one where all are equally wrong."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from workingpapers.optimization.private_hypothesis.covers import NORMAL, Standard, make_cover

Floats = NDArray[np.float64]
POINTS = 256


def random_mixtures(count: int, rng: np.random.Generator, points: int = POINTS) -> Floats:
    """Return mixtures of one to three normals on a grid over [-6, 6], shape (count, points)."""
    x = np.linspace(-6, 6, points)
    parts = rng.integers(1, 4, count)
    table = np.zeros((count, points))
    for part in range(3):
        middle, spread = rng.uniform(-4, 4, (count, 1)), rng.uniform(0.3, 1.5, (count, 1))
        weight = (rng.exponential(size=count) * (parts > part))[:, None]
        table += weight / spread * np.exp(-(((x - middle) / spread) ** 2) / 2)
    table /= table.sum(axis=1, keepdims=True)
    table += 1e-9
    normalised: Floats = table / table.sum(axis=1, keepdims=True)
    return normalised


def normal_locations(count: int) -> Floats:
    """Return normals of scale 1 at `count` even locations on [-10, 10], on cells, shape (count, X)."""
    radius = 10 / (count - 0.5) / math.sqrt(2 * math.pi)
    return make_cover("normal", (-10, 10), radius=radius).table


def equidistant(count: int, rng: np.random.Generator, points: int = POINTS) -> Floats:
    """Return perturbations of the uniform distribution by random signs, all at distance 1/4 of it."""
    signs = rng.choice([-1.0, 1.0], (count, points // 2))
    table = np.repeat(signs, 2, axis=1) * np.tile([0.5, -0.5], points // 2)
    found: Floats = (1 + table) / points
    return found


def two_humps(weight: float = 0.7, distance: float = 6.0) -> Standard:
    """Return the standard member of a family with a normal hump at 0 and a smaller one at `distance`."""

    def cdf(x: Any) -> Any:
        return weight * NORMAL.cdf(x) + (1 - weight) * NORMAL.cdf(x - distance)

    def pdf(x: Any) -> Any:
        return weight * NORMAL.pdf(x) + (1 - weight) * NORMAL.pdf(x - distance)

    return Standard(cdf, pdf)
