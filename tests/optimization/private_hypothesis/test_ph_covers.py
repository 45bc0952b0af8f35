"""Covers that keep their radius, estimates of known parameters, the estimator, and private locations beside it."""

import math

import numpy as np
import pytest
from scipy import stats

from workingpapers.foundations.errors import InputError
from workingpapers.foundations.privacy.noise import SeededNoise
from workingpapers.optimization.private_hypothesis import PrivateGridEstimator, estimate, make_cover, total_variation
from workingpapers.optimization.private_hypothesis.covers import FAMILIES, Family, default_radius
from workingpapers.optimization.private_hypothesis.estimation import clipped_mean, exponential_median, two_stage_mean
from workingpapers.optimization.private_hypothesis.experiments import MEDIANS
from workingpapers.optimization.private_hypothesis.families import normal_locations, two_humps

SCIPY = {"normal": stats.norm, "laplace": stats.laplace, "logistic": stats.logistic, "cauchy": stats.cauchy,
         "exponential": stats.expon}  # fmt: skip


@pytest.mark.parametrize("name", SCIPY)
def test_standard_members_are_those_of_scipy(name):
    x = np.linspace(-8, 8, 161)
    np.testing.assert_allclose(FAMILIES[name].base.cdf(x), SCIPY[name].cdf(x), atol=1e-14)
    np.testing.assert_allclose(FAMILIES[name].base.pdf(x), SCIPY[name].pdf(x), atol=1e-14)


def cells_of(cover, distribution):
    return np.diff(np.concatenate([[0], distribution.cdf(cover.edges), [1]]))


@pytest.mark.parametrize(
    ("family", "bounds", "scale", "draw"),
    [
        ("normal", (-3, 4), (1.5,), lambda rng: stats.norm(rng.uniform(-3, 4), 1.5)),
        ("normal", (-3, 4), (0.5, 2), lambda rng: stats.norm(rng.uniform(-3, 4), rng.uniform(0.5, 2))),
        ("cauchy", (0, 5), (1.0, 3), lambda rng: stats.cauchy(rng.uniform(0, 5), rng.uniform(1, 3))),
        ("laplace", (0, 5), (1.0,), lambda rng: stats.laplace(rng.uniform(0, 5), 1)),
        ("logistic", (0, 5), (1.0,), lambda rng: stats.logistic(rng.uniform(0, 5), 1)),
        ("exponential", (0.5, 20), (1.0,), lambda rng: stats.expon(scale=rng.uniform(0.5, 20))),
        ("poisson", (1, 40), (1.0,), lambda rng: stats.poisson(rng.uniform(1, 40))),
    ],
)
def test_every_member_is_within_the_radius_of_the_cover(family, bounds, scale, draw):
    cover = make_cover(family, bounds, scale=scale, radius=0.03)
    rng = np.random.default_rng(0)
    np.testing.assert_allclose(cover.table.sum(axis=1), 1, atol=1e-12)
    distances = [total_variation(cover.table, cells_of(cover, draw(rng))).min() for _ in range(40)]
    assert 0.008 < max(distances) <= 0.03  # and not wastefully close


def test_distances_on_cells_are_nearly_those_of_the_densities():
    cover = make_cover("normal", (-5, 5), radius=0.02)
    for shift in (0.1, 0.5, 2.0):
        exact = 2 * stats.norm.cdf(shift / 2) - 1
        found = total_variation(*(cells_of(cover, stats.norm(centre)) for centre in (0.3, 0.3 + shift)))
        assert 0.99 * exact <= found <= exact + 1e-12


def test_records_fall_into_their_cells():
    counts = make_cover("poisson", (1, 5))
    np.testing.assert_array_equal(counts.cells([0, 1, 5, 10**9]), [0, 1, 5, len(counts.edges)])
    np.testing.assert_allclose(counts.table[0, :4], stats.poisson.pmf(np.arange(4), counts.parameters[0, 0]))
    normal = make_cover("normal", (-1, 1))
    np.testing.assert_array_equal(normal.cells([-1e9, 1e9, normal.edges[3]]), [0, len(normal.edges), 3])


def test_coarser_covers_and_numbers_of_members():
    fine, coarse = (make_cover("normal", (-5, 5), radius=radius) for radius in (0.01, 0.02))
    # 2 radius = shift / sqrt(2 pi)
    assert len(fine.table) == math.ceil(10 / (0.02 * math.sqrt(2 * math.pi)))
    assert len(coarse.table) == math.ceil(10 / (0.04 * math.sqrt(2 * math.pi)))
    wide = make_cover("normal", (-50, 50), scale=(1, 20), radius=0.002, coarsen=True)
    assert wide.radius in (0.004, 0.008, 0.016, 0.032, 0.064)
    assert wide.table.size <= 10**7
    assert len(normal_locations(500)) == 500
    assert default_radius(10**8, 1) == 0.002
    assert default_radius(10, 0.1) == 0.05


@pytest.mark.parametrize(
    ("family", "bounds", "scale", "truth"),
    [
        ("normal", (-10, 10), (1.0,), {"location": 3.0}),
        ("normal", (-10, 10), (0.5, 5), {"location": 3.0, "scale": 2.0}),
        ("cauchy", (-10, 10), (1.0,), {"location": -4.0}),
        ("exponential", (0.1, 100), (1.0,), {"scale": 7.0}),
        ("poisson", (0.5, 60), (1.0,), {"rate": 33.0}),
    ],
)
def test_estimates_come_near_the_truth(family, bounds, scale, truth):
    rng = np.random.default_rng(1)
    draw = {"normal": lambda: rng.normal(truth.get("location"), truth.get("scale", 1.0), 4000),
            "cauchy": lambda: truth["location"] + rng.standard_cauchy(4000),
            "exponential": lambda: rng.exponential(truth["scale"], 4000),
            "poisson": lambda: rng.poisson(truth["rate"], 4000)}[family]  # fmt: skip
    found = estimate(draw(), family, bounds, 1.0, scale=scale)
    for name, value in truth.items():
        assert found.parameters[name] == pytest.approx(value, abs=0.15 if name == "location" else 0.06 * value)
    assert found.distance_bound == pytest.approx(3 * found.cover.radius + found.selection.error_bound)
    assert found.privacy.epsilon == 1.0
    assert f"the {family} family" in found.privacy.public


def test_one_far_record_or_many_do_not_carry_the_estimate_away():
    rng = np.random.default_rng(2)
    data = rng.normal(2.0, 1, 3000)
    data[:150] = 1e12
    assert estimate(data, "normal", (-10, 10), 1.0).parameters["location"] == pytest.approx(2.0, abs=0.3)


def test_the_estimator_is_one_for_scikit_learn():
    base = pytest.importorskip("sklearn.base")
    data = np.random.default_rng(3).normal(1, 1, 500)
    estimator = PrivateGridEstimator("normal", (-5, 5), 2.0, seed=4, insecure=True)
    assert estimator.fit(data[:, None]) is estimator
    copied = base.clone(estimator).fit(data)
    assert copied.params_ == estimator.params_
    assert not copied.privacy_.secure
    assert copied.distance_bound_ < 1
    with pytest.raises(ValueError, match="no setting 'eps'"):
        copied.set_params(eps=1)
    with pytest.raises(InputError, match="Epsilon is 0;"):
        copied.set_params(epsilon=0).fit(data)


def test_locations_of_the_usual_private_kind():
    rng = np.random.default_rng(5)
    data, noise = rng.normal(3, 1, 20_000), SeededNoise(6)
    assert clipped_mean(data, -10, 10, 1.0, noise) == pytest.approx(3, abs=0.05)
    assert exponential_median(data, np.linspace(-10, 10, 2001), 1.0, noise) == pytest.approx(3, abs=0.05)
    assert two_stage_mean(data, np.linspace(-10, 10, 2001), 2, 1.0, noise) == pytest.approx(3, abs=0.05)
    errors = [clipped_mean([0.0] * 10, -1, 1, 0.5, noise) for _ in range(4000)]
    assert stats.kstest(np.array(errors) * 10 * 0.5 / 2, "laplace").pvalue > 1e-4
    humps = two_humps()
    assert humps.cdf(MEDIANS["two humps"]) == pytest.approx(0.5, abs=1e-7)


def test_the_median_has_the_law_of_its_utilities():
    data, grid, noise = [1.0, 2.0, 2.0, 5.0], [0.0, 2.0, 3.0], SeededNoise(7)
    # Half of | #below - #above |: 2, 1/2 and 1.
    law = np.exp(-0.5 * np.array([2, 0, 1]) * 1.2)
    drawn = [exponential_median(data, grid, 1.2, noise) for _ in range(5000)]
    counts = [drawn.count(point) for point in grid]
    law = np.exp(-0.6 * np.array([2.0, 0.0, 1.0]))
    assert stats.chisquare(counts, 5000 * law / law.sum()).pvalue > 1e-3


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"family": "normale"}, "'normale'; did you mean 'normal'"),
        ({"bounds": (3, 3)}, "bounds are 3, 3"),
        ({"bounds": (3,)}, "bounds are 3;"),
        ({"bounds": (0, float("inf"))}, "bounds are 0, inf"),
        ({"scale": (2, 1)}, "scale are 2, 1"),
        ({"scale": (0,)}, "scale is 0;"),
        ({"radius": 0}, "radius is 0;"),
        ({"family": "poisson", "bounds": (0, 5)}, "bounds begin at 0"),
        ({"family": "poisson", "bounds": (1, 5), "scale": (2,)}, "has no scale"),
        ({"bounds": (-1e4, 1e4), "radius": 0.001}, "A cover of .* is too large"),
        ({"bounds": (-1e9, 1e9)}, "cells wide"),
        ({"family": "poisson", "bounds": (1, 1e9)}, "cells wide"),
        ({"bounds": (-1e4, 1e4), "scale": (0.5, 1e4), "radius": 1e-5}, "A cover of .* is too large"),
    ],
)
def test_covers_that_cannot_be_are_refused(change, words):
    with pytest.raises(InputError, match=words):
        make_cover(**{"family": "normal", "bounds": (-1, 1), **change})


@pytest.mark.parametrize(
    ("family", "data", "words"),
    [
        ("normal", [1.0, float("inf")], "Record 1 is inf; the normal family needs a finite number"),
        ("poisson", [1.0, 2.5], "Record 1 is 2.5; the poisson family needs a whole number from 0"),
        ("exponential", [-0.5], "Record 0 is -0.5; the exponential family needs a number from 0"),
        (Family("mine", FAMILIES["normal"].base), [float("nan")], "Record 0 is nan; the mine family"),
        ("normal", [], "shape"),
    ],
)
def test_records_that_a_family_does_not_know_are_named(family, data, words):
    with pytest.raises(InputError, match=words):
        estimate(data, family, (1, 5), 1.0)
