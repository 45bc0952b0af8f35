"""Projectors with known answers, and geodesics on manifolds known by codes alone."""

import math

import numpy as np
import pytest
import torch
from scipy.special import i0e, i1e

from workingpapers.foundations.errors import InputError
from workingpapers.sampling.latent_manifold import (
    CodeGraph,
    DenoisingProjector,
    EuclideanMetric,
    FunctionConstraint,
    ImplicitManifold,
    SolverSettings,
    path_energy,
    straight_path,
)
from workingpapers.sampling.latent_manifold.benchmarks import (
    best_energies,
    chart_geodesic,
    torus_depth,
    torus_points,
    torus_projection,
)
from workingpapers.sampling.latent_manifold.starts import resample


def circle(count=400, radius=1.0):
    angles = 2 * math.pi * torch.arange(count, dtype=torch.float64) / count
    return radius * torch.stack([angles.cos(), angles.sin()], dim=-1)


@pytest.fixture(scope="module")
def ring():
    return DenoisingProjector().fit(circle(), sigma=0.15)


@pytest.fixture(scope="module")
def learned():
    generator = torch.Generator().manual_seed(0)
    codes = torus_points(2 * math.pi * torch.rand(3000, 2, generator=generator, dtype=torch.float64))
    return DenoisingProjector().fit(codes, sigma=0.05)


ANGLES = np.array([0.0, 0.0]), np.array([2.7658, 1.1597])
ENDS = tuple(torus_points(torch.from_numpy(angles)) for angles in ANGLES)


def test_tweedie_shrinks_along_a_gaussian_line():
    """Pi(y) = (s^2 / (s^2 + sigma^2) y_1, 0): the residual on the data does not vanish."""
    grid = np.linspace(-6, 6, 2001)
    codes, spread, sigma = np.stack([grid, np.zeros_like(grid)], axis=1), 0.8, 0.3
    fitted = DenoisingProjector().fit(codes, sigma=sigma, sample_weight=np.exp(-(grid**2) / (2 * spread**2)))
    found = fitted.transform([[1.0, 0.4], [-0.5, -0.2]])
    shrunk = spread**2 / (spread**2 + sigma**2)
    np.testing.assert_allclose(found, [[shrunk, 0], [-0.5 * shrunk, 0]], atol=1e-9)
    jacobian = fitted.constraint_.jacobian(torch.tensor([[1.0, 0.4]], dtype=torch.float64))[0]
    np.testing.assert_allclose(jacobian, [[1 - shrunk, 0], [0, 1]], atol=1e-9)


@pytest.mark.parametrize("radius", [0.5, 1.0])
def test_circle_is_shifted_inwards(radius):
    sigma, y = 0.15, np.array([[0.6, 0.5], [1.1, 0.0]])
    found = DenoisingProjector().fit(circle(radius=radius), sigma=sigma).transform(y)
    length = np.linalg.norm(y, axis=1, keepdims=True)
    argument = radius * length / sigma**2
    np.testing.assert_allclose(found, radius * i1e(argument) / i0e(argument) * y / length, atol=1e-10)


def test_fixed_radius_of_the_circle(ring):
    """The learned circle is smaller by about sigma^2 / 2."""
    end = ring.project(torch.tensor([[1.0, 0.0]], dtype=torch.float64))
    for _ in range(20):
        end = ring.project(end)
    assert 1 - float(end.norm()) == pytest.approx(0.15**2 / 2, rel=0.05)


def test_derivatives_of_the_kernel_projector():
    generator = torch.Generator().manual_seed(1)
    codes, z, w = (torch.randn(n, 4, generator=generator, dtype=torch.float64) for n in (30, 5, 5))
    fitted = DenoisingProjector().fit(codes, sigma=0.9)
    exact, plain = fitted.constraint_, FunctionConstraint(lambda rows: rows - fitted.project(rows))
    torch.testing.assert_close(exact.jacobian(z), plain.jacobian(z))
    torch.testing.assert_close(exact.curvature(z, w), plain.curvature(z, w))


def test_kernel_projector_minimises_the_denoising_loss(ring):
    generator = torch.Generator().manual_seed(2)
    clean = ring.codes_[torch.randint(400, (40_000,), generator=generator)]
    noisy = clean + 0.15 * torch.randn(clean.shape, generator=generator, dtype=torch.float64)
    answer = ring.project(noisy)
    loss = float((answer - clean).square().sum(-1).mean())
    for other in (1.02 * answer, 0.98 * answer, noisy):
        assert float((other - clean).square().sum(-1).mean()) > loss


def test_dimension_and_contrast(ring, learned):
    assert ring.dimension_ == 1
    assert learned.dimension_ == 2
    assert learned.contrast_ > 5
    wide = DenoisingProjector().fit(learned.codes_, sigma=0.5)
    assert not wide.contrast_ > 5


def test_automatic_sigma_follows_the_units():
    codes = circle(100)
    chord = 2 * math.sin(math.pi / 100)
    assert DenoisingProjector().fit(codes).sigma_ == pytest.approx(2 * chord)
    assert DenoisingProjector().fit(1000 * codes).sigma_ == pytest.approx(2000 * chord)


@pytest.mark.parametrize("targets", ["posterior", "samples"])
def test_network_approaches_the_kernel_projector(ring, targets):
    options = {"targets": targets, "hidden": (64, 64), "learning_rate": 5e-3, "steps": 800}
    network = DenoisingProjector("network", **options).fit(ring.codes_, sigma=0.15)
    probes = torch.cat([0.85 * circle(50), 1.15 * circle(50)])
    gap = (network.project(probes) - ring.project(probes)).norm(dim=-1)
    assert float(gap.mean()) < 0.03  # a fifth of the distance to go
    assert network.dimension_ == 1
    again = DenoisingProjector("network", **options).fit(ring.codes_, sigma=0.15)
    assert torch.equal(again.project(probes), network.project(probes))


def test_learned_torus(learned):
    """Against the exact torus: energy 4.781 with 24 segments."""
    assert chart_geodesic(*ANGLES, 24) == pytest.approx(4.7807, abs=1e-3)
    manifold = ImplicitManifold(learned, end_tolerance=1.0)
    found = manifold.geodesic(*ENDS, 24)
    assert found.converged
    assert float(found.energy) == pytest.approx(4.781, rel=0.03)
    assert float(torus_depth(found.points).max()) < 0.02
    graph = manifold.graph.paths(ENDS[0][None], ENDS[1][None], 24)
    assert float(found.energy) < float(path_energy(EuclideanMetric(), graph))
    straight = straight_path(ENDS[0][None], ENDS[1][None], 24)
    assert float(torus_depth(straight).max()) > 0.4
    for _ in range(20):
        straight[0, 1:-1] = learned.project(straight[0, 1:-1])
    assert float(path_energy(EuclideanMetric(), straight)) > 3 * float(found.energy)


def test_full_constraint_costs_energy(learned):
    settings = SolverSettings(penalty=1.0, outer=1)
    full = ImplicitManifold(learned, end_tolerance=1.0, normal_reduction=False, settings=settings)
    with pytest.warns(match="did not converge"):
        found = full.geodesic(*ENDS, 24)
    assert float(found.energy) > 4.82


def test_learned_geodesics_do_not_depend_on_units(learned):
    small = ImplicitManifold(learned, end_tolerance=1.0).geodesic(*ENDS, 8)
    scaled = DenoisingProjector().fit(1000 * learned.codes_, sigma=50)
    large = ImplicitManifold(scaled, end_tolerance=1e3).geodesic(1000 * ENDS[0], 1000 * ENDS[1], 8)
    assert large.converged
    torch.testing.assert_close(large.points / 1000, small.points, atol=1e-4, rtol=0)


def test_calculus_on_a_learned_circle(ring):
    manifold = ImplicitManifold(ring)
    points = circle(400)[[0, 60, 120]]
    radius = 1 - 0.15**2 / 2
    distance = manifold.distance(points[0], points[2], 24)
    assert float(distance) == pytest.approx(radius * 2 * math.pi * 120 / 400, rel=0.02)
    velocity = manifold.log(points[0], points[2], 24)
    assert float((manifold.exp(points[0], velocity, 24)[-1] - points[2]).norm()) < 0.05
    mean = manifold.mean(points[[0, 2]], segments=12)
    torch.testing.assert_close(mean.point, radius * points[1], atol=0.01, rtol=0)


def test_graph_paths_are_dijkstra_through_the_codes():
    codes = circle(40)
    path = CodeGraph(codes, EuclideanMetric(), 2).paths(codes[:1], codes[10:11], 10)
    torch.testing.assert_close(path[0], codes[:11], atol=1e-9, rtol=0)
    other_way = CodeGraph(codes, EuclideanMetric(), 2).paths(codes[:1], codes[10:11], 30, torch.tensor([25]))
    torch.testing.assert_close(other_way[0], codes[[0, *range(39, 9, -1)]], atol=1e-9, rtol=0)


def test_detours_find_the_other_way_round(ring):
    manifold = ImplicitManifold(ring)
    found = manifold.geodesic(circle(400)[0], circle(400)[150], 16, starts=("detour",) * 6, seed=0)
    assert float(found.energies.max() / found.energies.min()) > 2
    assert float(found.energy) == float(found.energies.min())


def test_resampling_gives_equal_lengths():
    corners = torch.tensor([[0.0, 0], [3, 0], [3, 1]], dtype=torch.float64)
    expected = torch.tensor([[0.0, 0], [1, 0], [2, 0], [3, 0], [3, 1]], dtype=torch.float64)
    torch.testing.assert_close(resample(corners, EuclideanMetric(), 4), expected)


def test_torus_helpers():
    points = torus_points(torch.tensor([[0.3, 1.0], [2.0, -2.5]], dtype=torch.float64))
    assert float(torus_depth(points).max()) < 1e-14
    ring = points.clone()
    ring[:, :2] *= 0.8 / points[:, :2].norm(dim=-1, keepdim=True)
    core = torch.cat([ring[:, :2], torch.zeros(2, 1, dtype=torch.float64)], dim=1)
    torch.testing.assert_close(torus_projection(core + 1.4 * (points - core)), points)
    assert best_energies(0, 50, 2, 10) == best_energies(0, 50, 2, 10)


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (lambda: DenoisingProjector().fit([[0.0, 1.0]]), "at least 2"),
        (lambda: DenoisingProjector().fit([[0.0, 1.0], [0.0, math.nan]]), "Row 1"),
        (lambda: DenoisingProjector().fit([["a", "b"], ["c", "d"]]), "no numbers"),
        (lambda: DenoisingProjector().fit(circle(), sigma=-1), "sigma is -1"),
        (lambda: DenoisingProjector().fit([[0.0, 1.0]] * 5), "sigma"),
        (lambda: DenoisingProjector("network", learning_rate=1e30, steps=50).fit(circle()), "learning_rate"),
        (lambda: ImplicitManifold(DenoisingProjector()), "fit"),
    ],
)
def test_wrong_codes_are_told(call, told):
    with pytest.raises(InputError, match=told):
        call()


def test_disconnected_codes_and_far_ends_are_told(ring):
    split = torch.cat([circle(50), circle(50) + 10])
    with pytest.raises(InputError, match="2 pieces"):
        CodeGraph(split, EuclideanMetric(), 4).paths(split[:1], split[-1:], 8)
    with pytest.raises(InputError, match="project_ends"):
        ImplicitManifold(ring).geodesic(torch.tensor([0.5, 0.0]), torch.tensor([0.0, 1.0]))
