"""Target densities: partition functions by quadrature, scores by finite differences, samples by their moments."""

import math

import numpy as np
import pytest
import torch
from scipy.integrate import quad
from scipy.stats import kstest

from workingpapers.foundations import densities
from workingpapers.foundations.densities.euclidean import GMM40_STD
from workingpapers.foundations.densities.particles import mean_free
from workingpapers.foundations.errors import InputError
from workingpapers.foundations.manifolds import Hyperboloid, Sphere

F64 = torch.float64
FLAT = [
    densities.gaussian([1.0, -2.0, 0.5], 0.7),
    densities.ring(),
    densities.gmm40(),
    densities.Funnel(4),
    densities.MultiWell.shifted(5, 3, delta=2.0),
    densities.many_well(6),
    densities.DoubleWellParticles(),
    densities.LennardJones(4, pair_factor=0.5),
]


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize("density", FLAT, ids=lambda density: type(density).__name__)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_scores_are_gradients_in_either_precision(density, dtype):
    x = 1.5 * torch.randn(6, density.dim, generator=seeded(), dtype=F64)
    if isinstance(density, densities.LennardJones):
        x = 2 * x
    h = 1e-5
    steps = torch.eye(density.dim, dtype=F64) * h
    numeric = torch.stack(
        [(density.log_density(x + step) - density.log_density(x - step)) / (2 * h) for step in steps], dim=-1
    )
    score = density.score(x.to(dtype))
    assert score.dtype == dtype
    tolerance = 1e-6 if dtype == F64 else 3e-3
    scale = numeric.abs().max()
    assert torch.allclose(score.to(F64), numeric, atol=tolerance * float(scale), rtol=tolerance)


@pytest.mark.parametrize(
    "density",
    [
        densities.gaussian([0.3, 0.1], 0.5),
        densities.ring(3, 1.0, 0.3),
        densities.Funnel(2, std=1.0),
        densities.many_well(2),
    ],
    ids=["gaussian", "ring", "funnel", "many-well"],
)
def test_log_partition_is_the_integral_on_a_grid(density):
    axis = torch.linspace(-12, 12, 1601, dtype=F64)
    points = torch.cartesian_prod(axis, axis)
    total = torch.logsumexp(density.log_density(points), 0) + 2 * math.log(24 / 1600)
    assert float(total) == pytest.approx(density.log_partition, abs=2e-3)


def test_published_constants():
    assert densities.many_well(2).log_partition == pytest.approx(math.log(11784.50927) + 0.5 * math.log(2 * math.pi))
    assert densities.many_well(32).log_partition == pytest.approx(16 * densities.many_well(2).log_partition)
    assert densities.MultiWell.shifted(2, 2, delta=2.0).log_partition == pytest.approx(0.5860, abs=5e-5)
    assert densities.MultiWell.shifted(5, 3, delta=2.0).log_partition == pytest.approx(2.717, abs=5e-4)
    assert pytest.approx(1.3133, abs=5e-5) == GMM40_STD
    # The first mean that torch's generator gives with seed 0: (rand - 1/2) 80.
    expected = (torch.rand(40, 2, generator=seeded()) - 0.5) * 80
    assert torch.allclose(densities.gmm40(1.0).means, expected.to(F64))


def test_samples_of_flat_densities_have_the_right_law():
    funnel = densities.Funnel(3).sample(20_000, seeded())
    assert kstest(funnel[:, 0].numpy() / 3, "norm").pvalue > 1e-3
    assert kstest((funnel[:, 2] * torch.exp(-funnel[:, 0] / 2)).numpy(), "norm").pvalue > 1e-3
    many = densities.many_well(4)
    drawn = many.sample(20_000, seeded())
    z, _ = quad(lambda x: math.exp(-(x**4) + 6 * x**2 + x / 2), -5, 5)
    mean, _ = quad(lambda x: x * math.exp(-(x**4) + 6 * x**2 + x / 2) / z, -5, 5)
    assert drawn[:, [0, 2]].mean(0).numpy() == pytest.approx([mean, mean], abs=4 * 1.8 / math.sqrt(20_000))
    assert kstest(drawn[:, 3].numpy(), "norm").pvalue > 1e-3
    ring = densities.ring()
    masses = ring.mode_masses(ring.sample(20_000, seeded()))
    assert masses.numpy() == pytest.approx(np.full(8, 1 / 8), abs=4 * math.sqrt(1 / 8 / 20_000))


def test_mixture_weights_and_scales_reach_density_and_samples():
    mixture = densities.GaussianMixture([[0.0], [5.0]], [1.0, 0.1], [1.0, 3.0])
    drawn = mixture.sample(20_000, seeded())
    assert float((drawn > 4).to(F64).mean()) == pytest.approx(0.75, abs=0.013)
    assert float(drawn[drawn > 4].std()) == pytest.approx(0.1, rel=0.03)
    x = torch.tensor([[5.0]], dtype=F64)
    assert float(mixture.log_density(x)) == pytest.approx(math.log(0.75 / 0.1 / math.sqrt(2 * math.pi)), abs=1e-5)


@pytest.mark.parametrize("density", [densities.DoubleWellParticles(), densities.LennardJones(3)], ids=["DW4", "LJ3"])
def test_particles_do_not_feel_where_they_are(density):
    x = 2 * torch.randn(5, density.dim, generator=seeded(), dtype=F64)
    moved = x + torch.ones(density.dim, dtype=F64) * 3.7
    assert torch.allclose(density.log_density(x), density.log_density(moved), rtol=1e-9)
    turn, _ = torch.linalg.qr(torch.randn(density.space, density.space, generator=seeded(1), dtype=F64))
    turned = (x.reshape(5, -1, density.space) @ turn).reshape(5, -1)
    assert torch.allclose(density.log_density(x), density.log_density(turned), rtol=1e-9)
    assert mean_free(density.score(x), density.particles).numpy() == pytest.approx(density.score(x).numpy(), abs=1e-9)


def test_lennard_jones_counts_pairs_as_its_factor_says():
    pair = torch.tensor([[0.0, 0.0, 0.0, 1.0, 0.0, 0.0]], dtype=F64)  # at the bottom of the well: d^-12 - 2 d^-6 = -1
    harmonic = 0.5 * 2 * 0.25
    assert float(densities.LennardJones(2).log_density(pair)) == pytest.approx(2 - harmonic)
    assert float(densities.LennardJones(2, pair_factor=0.5).log_density(pair)) == pytest.approx(1 - harmonic)


def test_reference_samples_of_two_particles_have_the_law_of_their_distance():
    density = densities.DoubleWellParticles(2, 2)
    x = density.sample(4000, seeded())
    assert float(x.reshape(-1, 2, 2).mean(1).abs().max()) < 1e-9
    r = density.distances(x)[:, 0].numpy()
    weight = lambda d: d * math.exp(-0.9 * (d - 4) ** 4 + 4 * (d - 4) ** 2)  # noqa: E731 - the plane's factor d
    z, _ = quad(weight, 0, 9)
    below, _ = quad(weight, 0, 4)
    assert float((r < 4).mean()) == pytest.approx(below / z, abs=0.06)
    mean, _ = quad(lambda d: d * weight(d) / z, 0, 9)
    assert r.mean() == pytest.approx(mean, abs=0.2)


def test_von_mises_fisher_mixture_is_normalised_and_sampled():
    space = Sphere(2)
    means = space.project(torch.tensor([[1.0, 0, 0], [0, 1.0, 1.0]], dtype=F64))
    density = densities.VonMisesFisherMixture(means, 20.0)
    uniform = space.random(400_000, seeded())
    importance = torch.exp(density.log_density(uniform) + space.log_volume())
    assert float(importance.mean()) == pytest.approx(1, abs=4 * float(importance.std()) / math.sqrt(400_000))
    drawn = density.sample(20_000, seeded())
    assert float(space.error(drawn).max()) < 1e-9
    # E x = A(kappa) mean of the mu, with A(k) = coth k - 1 / k on the sphere S^2.
    expected = (1 / math.tanh(20) - 1 / 20) * means.mean(0)
    assert drawn.mean(0).numpy() == pytest.approx(expected.numpy(), abs=0.02)


def test_wrapped_gaussian_mixture_is_normalised_on_the_hyperbolic_plane():
    space = Hyperboloid(2)
    centre = space.exp(space.origin(), torch.tensor([0.0, 0.8, 0.3], dtype=F64))
    density = densities.WrappedGaussianMixture(torch.stack([space.origin(), centre]), 0.6)
    r = torch.linspace(1e-4, 7, 1500, dtype=F64)
    angle = torch.arange(64, dtype=F64) * 2 * math.pi / 64
    directions = torch.stack([torch.zeros(64, dtype=F64), angle.cos(), angle.sin()], dim=-1)
    points = space.exp(space.origin().expand(64 * 1500, -1), (r[:, None, None] * directions).reshape(-1, 3))
    mass = density.log_density(points).exp().reshape(1500, 64).mean(1) * 2 * math.pi * torch.sinh(r)
    assert float(torch.trapezoid(mass, r)) == pytest.approx(1, abs=1e-4)
    drawn = density.sample(20_000, seeded())
    assert float(space.error(drawn).max()) < 1e-9
    time = (density.log_density(points).exp().reshape(1500, 64) * points[:, 0].reshape(1500, 64)).mean(1)
    mean_time = float(torch.trapezoid(time * 2 * math.pi * torch.sinh(r), r))
    assert float(drawn[:, 0].mean()) == pytest.approx(mean_time, abs=4 * float(drawn[:, 0].std()) / math.sqrt(20_000))


@pytest.mark.parametrize("density", ["vmf", "wrapped"])
def test_scores_on_curved_spaces_are_tangent_and_give_slopes(density):
    if density == "vmf":
        space = Sphere(3)
        target = densities.VonMisesFisherMixture(space.random(3, seeded()), 5.0)
    else:
        space = Hyperboloid(3)
        target = densities.WrappedGaussianMixture(space.random(3, seeded()), 0.8)
    x = space.random(10, seeded(2))
    v = space.noise(x, seeded(3))
    score = target.score(x)
    assert space.inner(score, x).numpy() == pytest.approx(0, abs=1e-9)
    h = 1e-5
    slope = (target.log_density(space.exp(x, h * v)) - target.log_density(space.exp(x, -h * v))) / (2 * h)
    assert torch.allclose(space.inner(score, v), slope, atol=1e-6)


def test_counting_counts_points_once():
    counted = densities.Counted(densities.ring())
    counted.log_density(torch.zeros(3, 2))
    counted.score(torch.zeros(4, 2))
    counted.sample(100, seeded())
    assert counted.evaluations == 7
    wrapped = densities.Counted(densities.FromCallable(lambda x: -(x**2).sum(-1), 2))
    wrapped.score(torch.zeros(5, 2))
    assert wrapped.evaluations == 5


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: densities.many_well(5), "even dimension, not 5"),
        (lambda: densities.Funnel(1), "not 1"),
        (lambda: densities.MultiWell(2, 3), "wells=3 of dim=2"),
        (lambda: densities.GaussianMixture([[0.0]], -1.0), "positive std"),
        (lambda: densities.LennardJones(13, pair_factor=0.0), "pair_factor must be positive, not 0.0"),
        (lambda: densities.FromCallable(lambda x: x, 1).sample(3), "no exact sampler"),
        (lambda: densities.VonMisesFisherMixture([[2.0, 0.0]], 1.0), "off Sphere(dim=1)"),
        (lambda: densities.WrappedGaussianMixture([[1.0, 0.0]], 0.0), "std must be positive, not 0.0"),
    ],
)
def test_input_that_cannot_be_used_is_named(call, words):
    with pytest.raises(InputError) as error:
        call()
    assert words in str(error.value)
