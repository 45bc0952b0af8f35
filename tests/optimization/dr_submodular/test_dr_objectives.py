"""Objectives: values by enumeration, gradients by differences, the two assumptions, a function without them."""

import itertools
from dataclasses import dataclass

import numpy as np
import pytest

from workingpapers.optimization.dr_submodular import (
    Coverage,
    Cut,
    MeanField,
    Mixture,
    Quadratic,
    Revenue,
    dr_violation,
    floor,
    gradient_bound,
)

KINDS = ("cut", "quadratic", "coverage", "revenue", "mean field")


@pytest.mark.parametrize("kind", KINDS)
def test_gradients_are_those_of_the_values(make, rng, kind):
    for dimension in (1, 2, 5):
        f = make(kind, dimension, rng)
        x = rng.uniform(0.1, 0.9, (7, dimension))
        step = 1e-6 * np.eye(dimension)
        slopes = (f.value(x[:, None] + step) - f.value(x[:, None] - step)) / 2e-6
        assert f.gradient(x) == pytest.approx(slopes, abs=2e-8)
        assert f.gradient(x[0]) == pytest.approx(f.gradient(x)[0], abs=1e-14)
        assert f.value(x[0]) == pytest.approx(f.value(x)[0], abs=1e-14)


@pytest.mark.parametrize("kind", KINDS)
def test_objectives_are_dr_submodular_above_their_floor_and_below_their_gradient_bound(make, rng, kind):
    for dimension in (2, 3, 6):
        f = make(kind, dimension, rng)
        assert dr_violation(f, dimension, rng) <= 1e-12
        vertices = np.array(list(itertools.product((0.0, 1.0), repeat=dimension)))
        points = np.vstack([vertices, rng.uniform(0, 1, (2000, dimension))])
        assert floor(f, dimension) <= f.value(points).min() + 1e-12
        assert f.value(points).min() >= -1e-12
        assert np.linalg.norm(f.gradient(points), axis=1).max() <= gradient_bound(f, dimension) + 1e-12


def test_values_are_expectations_over_independent_sets(rng):
    x = rng.uniform(0, 1, 4)
    weights, reach, values = rng.uniform(0, 1, (4, 4)), rng.uniform(0, 1, (4, 3)), rng.uniform(0, 1, 3)
    influence, prices = np.where(np.eye(4), 0, weights), rng.uniform(0, 1, 4)
    np.fill_diagonal(weights, 0)
    expected = np.zeros(3)
    for chosen in itertools.product((0, 1), repeat=4):
        s = np.array(chosen)
        probability = np.prod(np.where(s, x, 1 - x))
        cut = sum(weights[i, j] for i in range(4) for j in range(4) if s[i] and not s[j])
        covered = sum(values[c] * (1 - np.prod([1 - reach[i, c] for i in range(4) if s[i]])) for c in range(3))
        sold = sum(
            prices[j] * (1 - np.prod([1 - influence[i, j] for i in range(4) if s[i]])) for j in range(4) if not s[j]
        )
        expected += probability * np.array([cut, covered, sold])
    assert Cut(weights).value(x) == pytest.approx(expected[0])
    assert Coverage(reach, values, np.full(4, 0.5), 3.0).value(x) == pytest.approx(expected[1] - 0.5 * x.sum() + 3)
    assert Revenue(influence, prices).value(x) == pytest.approx(expected[2])


def test_mean_field_bounds_the_log_partition_function(rng):
    weights = np.triu(rng.uniform(0, 2, (4, 4)), 1)
    total = sum(
        np.exp(sum(weights[i, j] for i in range(4) for j in range(4) if s[i] and not s[j]))
        for s in itertools.product((0, 1), repeat=4)
    )
    f = MeanField(weights, 1e-6)
    points = rng.uniform(0, 1, (3000, 4))
    assert f.value(points).max() <= np.log(total)
    assert MeanField(np.zeros((3, 3)), 1e-6).value(np.full(3, 0.5)) == pytest.approx(3 * np.log(2))


def test_zero_factors_do_not_divide():
    f = Coverage(np.ones((3, 1)), np.ones(1), np.zeros(3))
    assert f.gradient(np.array([1.0, 0.0, 0.0])).tolist() == [1, 0, 0]
    assert f.gradient(np.ones(3)).tolist() == [0, 0, 0]


def test_mixture_adds(rng):
    a, b = Quadratic(-np.eye(2), np.ones(2)), Quadratic(-np.ones((2, 2)), np.zeros(2), 5.0)
    x = rng.uniform(0, 1, (3, 2))
    assert Mixture([a, b], [2, 3]).value(x) == pytest.approx(2 * a.value(x) + 3 * b.value(x))
    assert Mixture([a, b], [2, 3]).gradient(x) == pytest.approx(2 * a.gradient(x) + 3 * b.gradient(x))


@dataclass
class ProductSaturation:
    """sum_i r_i x_i prod_j (1 - a_ij x_j): it looks saturating, but two harms to one good overlap and are not DR."""

    rates: np.ndarray
    harm: np.ndarray

    def value(self, x):
        return (self.rates * x * np.prod(1 - self.harm * x[..., None, :], axis=-1)).sum(axis=-1)

    def gradient(self, x):
        d, step = x.shape[-1], 1e-6
        e = step * np.eye(d)
        return (self.value(x[..., None, :] + e) - self.value(x[..., None, :] - e)) / (2 * step)


def test_the_check_finds_a_function_that_is_not_dr_submodular(rng):
    harm = np.array([[0, 0.8, 0.8], [0, 0, 0], [0, 0, 0.0]])
    assert dr_violation(ProductSaturation(np.array([1.0, 0, 0]), harm), 3, rng) > 0.3
