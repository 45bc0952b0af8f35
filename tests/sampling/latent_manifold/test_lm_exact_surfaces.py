"""Geodesics on surfaces whose answers are known: sphere, torus, plane, cylinder, Swiss roll."""

import math
import warnings

import numpy as np
import pytest
import torch
from sklearn.exceptions import ConvergenceWarning

from workingpapers.foundations.errors import InputError
from workingpapers.sampling.latent_manifold import (
    EuclideanMetric,
    FunctionConstraint,
    ImplicitManifold,
    KLMetric,
    PullbackMetric,
    SolverSettings,
    path_energy,
    slerp_path,
    sphere,
    straight_path,
    torus,
)
from workingpapers.sampling.latent_manifold.calculus import next_node, shoot
from workingpapers.sampling.latent_manifold.solver import Problem, lagrangian

R, r = 0.8, 0.2


def vector(*values):
    return torch.tensor(values, dtype=torch.float64)


def on_sphere(angle):
    return vector(math.cos(angle), math.sin(angle), 0.0)


def on_torus(u, v):
    ring = R + r * math.cos(v)
    return vector(ring * math.cos(u), ring * math.sin(u), r * math.sin(v))


@pytest.fixture(scope="module")
def ball():
    return ImplicitManifold(sphere())


@pytest.fixture(scope="module")
def ring():
    return ImplicitManifold(torus(R, r))


ENDS = on_torus(0, 0), on_torus(2.7658, 1.1597)


@pytest.mark.parametrize(("segments", "printed"), [(4, 3.917358), (8, 3.979210), (16, 3.994794), (64, 3.999674)])
def test_energy_on_the_sphere(ball, segments, printed):
    found = ball.geodesic(on_sphere(0), on_sphere(2), segments)
    exact = 4 * segments**2 * math.sin(1 / segments) ** 2
    assert abs(exact - printed) < 6e-7
    assert found.converged
    assert float(found.energy) == pytest.approx(exact, abs=1e-6)
    angles = 2 * torch.arange(segments + 1, dtype=torch.float64) / segments
    circle = torch.stack([angles.cos(), angles.sin(), torch.zeros_like(angles)], dim=-1)
    assert float((found.points - circle).abs().max()) < 1e-5
    sides = (found.points[1:] - found.points[:-1]).norm(dim=-1)
    assert float(sides.max() - sides.min()) < 1e-6
    assert float(found.length**2 - found.energy) <= 1e-12


def test_sphere_energy_converges_at_second_order_from_below(ball):
    energies = [float(ball.geodesic(on_sphere(0), on_sphere(2), k).energy) for k in (8, 16, 32)]
    gaps = 4 - np.array(energies)
    assert (gaps > 0).all()
    np.testing.assert_allclose(gaps[:-1] / gaps[1:], 4, rtol=0.02)


def test_lbfgs_and_newton_agree(ball):
    other = ImplicitManifold(sphere(), settings=SolverSettings(penalty=100, growth=100, method="lbfgs", tolerance=1e-5))
    newton, lbfgs = (m.geodesic(on_sphere(0), on_sphere(2), 8) for m in (ball, other))
    assert lbfgs.converged
    assert float((newton.points - lbfgs.points).abs().max()) < 1e-4
    torch.testing.assert_close(newton.multipliers, lbfgs.multipliers, atol=1e-4, rtol=0)


def test_sphere_multiplier_balances_the_path(ball):
    """K (4 z_k - 2 z_{k-1} - 2 z_{k+1}) = 2 lambda z_k, so lambda = 2 K (1 - cos(theta / K))."""
    found = ball.geodesic(on_sphere(0), on_sphere(2), 8)
    expected = torch.full((7, 1), 16 * (1 - math.cos(0.25)), dtype=torch.float64)
    torch.testing.assert_close(found.multipliers, expected, atol=1e-4, rtol=0)


def test_energy_on_the_torus(ring):
    found = ring.geodesic(*ENDS, 49)
    assert found.converged
    assert float(found.energy) == pytest.approx(4.78888, abs=1e-5)
    times = np.linspace(0, 1, 50)
    chart = torch.stack([on_torus(2.7658 * t, 1.1597 * t) for t in times])[None]
    assert float(path_energy(EuclideanMetric(), chart)) == pytest.approx(7.084, abs=1e-3)


def test_torus_has_local_minima_and_the_best_is_returned(ring):
    found = ring.geodesic(*ENDS, 24, starts=("jump", *["detour"] * 5), seed=0)
    assert float(found.energies.max() - found.energies.min()) > 0.01
    assert float(found.energy) == pytest.approx(float(found.energies.min()), abs=1e-12)
    assert float(found.energy) == pytest.approx(4.78073, abs=1e-4)


def test_batches_equal_single_pairs_and_reversal_is_symmetric(ring):
    a, b = ENDS
    both = ring.geodesic(torch.stack([a, b]), torch.stack([b, a]), 12)
    single = ring.geodesic(a, b, 12)
    assert both.points.shape == (2, 13, 3)
    assert single.points.shape == (13, 3)
    torch.testing.assert_close(both.points[0], single.points, atol=1e-6, rtol=0)
    back = ring.geodesic(b, a, 12, starts=single.points.flip(0)[None])
    torch.testing.assert_close(back.points.flip(0), single.points, atol=1e-5, rtol=0)
    assert float(back.energy) == pytest.approx(float(single.energy), abs=1e-5)


def test_exponential_step_is_the_reflection(ball):
    before, current = on_sphere(0)[None], on_sphere(0.3)[None]
    expected = 2 * (before * current).sum() * current - before
    torch.testing.assert_close(next_node(ball, before, current), expected, atol=1e-12, rtol=0)


@pytest.mark.parametrize("segments", [2, 5, 20])
def test_shooting_from_an_exact_second_node_lands_exactly(ball, segments):
    velocity = 1.7
    path = shoot(ball, on_sphere(0)[None], on_sphere(velocity / segments)[None], segments)
    torch.testing.assert_close(path[0, -1], on_sphere(velocity), atol=1e-10, rtol=0)


def test_exponential_map_converges_at_second_order(ball):
    ends = [ball.exp(on_sphere(0), vector(0.4, 1.5, 0.0), k)[-1] for k in (8, 16, 32)]
    gaps = np.array([float((end - on_sphere(1.5)).norm()) for end in ends])
    np.testing.assert_allclose(gaps, 1.5**3 / 24 / np.array([64, 256, 1024]), rtol=0.03)


def test_logarithm_on_the_sphere(ball):
    found = ball.log(on_sphere(0), on_sphere(2), 8)
    torch.testing.assert_close(found, vector(0.0, 16 * math.sin(1 / 8), 0.0), atol=1e-6, rtol=0)


@pytest.mark.parametrize(("surface", "ends"), [("ball", (on_sphere(0), on_sphere(2))), ("ring", ENDS)])
def test_exponential_inverts_the_logarithm(surface, ends, request):
    manifold = request.getfixturevalue(surface)
    velocity = manifold.log(*ends, 24)
    path = manifold.exp(ends[0], velocity, 24)
    assert float((path[-1] - ends[1]).norm()) < 2e-4
    assert abs(float(manifold.constraint(path).abs().max())) < 1e-9


def test_affine_geodesic_is_the_segment_after_one_iteration():
    normal = vector(1, 2, -1) / math.sqrt(6)
    plane = ImplicitManifold(lambda z: (z @ normal)[:, None] - 0.5)
    a, b = 0.5 * normal + vector(1, 0, 1), 0.5 * normal + vector(-2, 1.5, 1)
    for segments in (2, 7):
        found = plane.geodesic(a, b, segments, starts=["straight"])
        assert int(found.iterations) == 1
        assert float(found.energy) == pytest.approx(float((a - b).square().sum()), abs=1e-10)
    moved = plane.geodesic(a, b, 7)
    torch.testing.assert_close(moved.points, straight_path(a[None], b[None], 7)[0], atol=1e-6, rtol=0)


def test_cylinder_distance_is_that_of_the_plane():
    cylinder = ImplicitManifold(FunctionConstraint(lambda z: z[:, :2].square().sum(-1, keepdim=True) - 1))
    a, b = vector(1, 0, 0), vector(math.cos(2), math.sin(2), 1.5)
    gaps = [2**2 + 1.5**2 - float(cylinder.distance(a, b, k)) ** 2 for k in (8, 16)]
    assert gaps[1] == pytest.approx(2**4 / 12 / 256, rel=0.02)
    assert gaps[0] / gaps[1] == pytest.approx(4, rel=0.05)


def test_swiss_roll_distance_is_that_of_the_plane():
    """The roll rho = phi: arc length s(phi) = (phi sqrt(1 + phi^2) + asinh phi) / 2."""

    def residual(z):
        # The angle is measured from half a turn before the start, so that the ends lie on one sheet.
        radius = z[:, :2].norm(dim=-1)
        angle = torch.atan2(-z[:, 1], -z[:, 0]) + math.pi
        return (torch.sin(0.5 * (radius - angle)) * 2)[:, None]

    def point(phi, height):
        return vector(phi * math.cos(phi), phi * math.sin(phi), height)

    def arc(phi):
        return (phi * math.sqrt(1 + phi**2) + math.asinh(phi)) / 2

    roll = ImplicitManifold(residual)
    ends = point(6.8, 0.0), point(9.4, 3.0)
    flat = math.hypot(arc(9.4) - arc(6.8), 3.0)
    time = torch.linspace(0, 1, 33, dtype=torch.float64)
    start = torch.stack([point(6.8 + 2.6 * float(t), 3 * float(t)) for t in time])
    found = roll.geodesic(*ends, 32, starts=start[None])
    assert float(found.energy.sqrt()) == pytest.approx(flat, rel=2e-3)
    assert float(found.energy.sqrt()) < flat


def test_transport_on_the_sphere_converges_to_the_exact_one(ball):
    """Along the equator the pole stays, and the tangent of the equator turns with it."""
    vectors = torch.stack([vector(0, 0, 0.5), vector(0, 1.0, 0), vector(0, 0.3, 0.4)])
    tangent = vector(-math.sin(1.2), math.cos(1.2), 0)
    exact = torch.stack([vector(0, 0, 0.5), tangent, 0.3 * tangent + vector(0, 0, 0.4)])
    gaps = []
    for segments in (6, 12):
        path = torch.stack([on_sphere(1.2 * k / segments) for k in range(segments + 1)])
        gaps.append(float((ball.transport(path, vectors) - exact).abs().max()))
    assert gaps[0] < 0.5 / 6
    assert gaps[1] < 0.6 * gaps[0]


def test_transport_in_a_plane_changes_nothing():
    plane = ImplicitManifold(lambda z: z[:, 2:])
    vectors = torch.tensor([[0.3, -0.7, 0.0], [2.0, 0.1, 0.0]], dtype=torch.float64)
    path = straight_path(vector(0, 0, 0)[None], vector(1, 2, 0)[None], 4)[0]
    torch.testing.assert_close(plane.transport(path, vectors), vectors, atol=1e-8, rtol=0)


def test_mean_on_the_sphere_is_the_centre(ball):
    angles = 2 * math.pi * np.arange(3) / 3
    points = torch.stack(
        [vector(math.sin(0.8) * math.cos(t), math.sin(0.8) * math.sin(t), math.cos(0.8)) for t in angles]
    )
    found = ball.mean(points, segments=8)
    assert found.converged
    torch.testing.assert_close(found.point, vector(0, 0, 1), atol=1e-5, rtol=0)
    assert found.variance == pytest.approx(0.8**2, rel=5e-3)


def test_weighted_mean_of_two_points_divides_the_arc(ball):
    found = ball.mean(torch.stack([on_sphere(0), on_sphere(1)]), segments=12, weights=vector(1, 3))
    torch.testing.assert_close(found.point, on_sphere(0.75), atol=1e-3, rtol=0)


def test_interpolation_stays_on_the_surface_and_meets_the_nodes(ball):
    path = ball.geodesic(on_sphere(0), on_sphere(2), 4).points
    found = ball.interpolate(path, vector(0, 0.25, 0.4, 1))
    torch.testing.assert_close(found[[0, 1, 3]], path[[0, 1, 4]])
    assert float(found[2].norm()) == pytest.approx(1, abs=1e-12)


def test_slerp_is_the_geodesic_of_the_sphere(ball):
    a, b = on_sphere(0.2), on_sphere(1.9)
    torch.testing.assert_close(slerp_path(a[None], b[None], 6)[0], ball.geodesic(a, b, 6).points, atol=1e-6, rtol=0)


MATRIX = torch.tensor([[1.0, 0.5, 0.0], [0.0, 2.0, 0.3], [0.2, 0.0, 1.0], [1.0, 1.0, 1.0]], dtype=torch.float64)


def curved(z):
    return torch.cat([z @ MATRIX.T, torch.sin(2 * z)], dim=-1)


def gaussian(z):
    return curved(z), torch.cos(z @ MATRIX.T).repeat(1, 2)[:, :7]


@pytest.mark.parametrize("metric", [EuclideanMetric(), PullbackMetric(curved), KLMetric(gaussian)])
@pytest.mark.parametrize("reduced", [False, True])
def test_gradient_of_the_lagrangian(metric, reduced):
    generator = torch.Generator().manual_seed(0)
    paths = torch.randn(2, 6, 3, generator=generator, dtype=torch.float64)
    frames = torch.randn(2, 4, 2, 1, generator=generator, dtype=torch.float64) if reduced else None
    one = torch.ones(2, dtype=torch.float64)
    both = FunctionConstraint(lambda z: torch.stack([z.square().sum(-1) - 1, z.prod(-1)], dim=-1))
    problem = Problem(metric, both, frames, one, one, 1.0)
    multipliers = torch.randn(2, 4, 1 if reduced else 2, generator=generator, dtype=torch.float64)
    mu = vector(3, 7)
    _, gradient = lagrangian(problem, paths, multipliers, mu)
    for node, axis in ((1, 0), (2, 2), (4, 1)):
        values = []
        for sign in (1, -1):
            shifted = paths.clone()
            shifted[:, node, axis] += sign * 1e-5
            values.append(lagrangian(problem, shifted, multipliers, mu)[0])
        numeric = (values[0] - values[1]) / 2e-5
        torch.testing.assert_close(gradient[:, node - 1, axis], numeric, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("metric", [EuclideanMetric(), PullbackMetric(curved), KLMetric(gaussian)])
def test_metrics_meet_the_consistency_conditions(metric):
    z = vector(0.3, -0.2, 0.7)[None]
    hessian = torch.func.hessian(lambda y: metric(z, y[None])[0])(z[0])
    assert float(metric(z, z)) == pytest.approx(0, abs=1e-14)
    assert float(metric.gradients(z, z)[1].abs().max()) < 1e-12
    torch.testing.assert_close(metric.tensor(z)[0], hessian / 2, atol=1e-8, rtol=1e-8)


def test_kl_metric_equals_torch_distributions():
    x, y = vector(0.3, -0.2, 0.7)[None], vector(0.1, 0.4, 0.6)[None]
    laws = [torch.distributions.Normal(mean, (0.5 * log).exp()) for mean, log in (gaussian(x), gaussian(y))]
    expected = 2 * torch.distributions.kl_divergence(*laws).sum()
    assert float(KLMetric(gaussian)(x, y)) == pytest.approx(float(expected), rel=1e-12)


def test_linear_decoder_measures_decoded_lengths():
    metric = PullbackMetric(torch.nn.Linear(3, 4, bias=False))
    weight = metric.decoder.weight
    x, y = vector(0.3, -0.2, 0.7)[None], vector(0.1, 0.4, 0.6)[None]
    assert float(metric(x, y)) == pytest.approx(float((weight @ (x - y)[0]).square().sum()), rel=1e-12)
    left, right = metric.edge_jacobians(x, y)
    mixed = torch.func.jacrev(lambda b: torch.func.grad(lambda a: metric(a[None], b[None])[0])(x[0]))(y[0])
    torch.testing.assert_close((-2 * left.mT @ right)[0], mixed)
    torch.testing.assert_close(mixed, -2 * weight.T @ weight)
    plane = ImplicitManifold(lambda z: z[:, 2:], metric)
    a, b = vector(0, 0, 0), vector(1, 2, 0)
    found = plane.geodesic(a, b, 5)
    assert float(found.energy) == pytest.approx(float((weight @ (a - b)).square().sum()), rel=1e-8)
    torch.testing.assert_close(found.points, straight_path(a[None], b[None], 5)[0], atol=1e-6, rtol=0)


def test_pullback_of_a_sphere_chart_gives_the_great_circle():
    """Longitude and latitude through their decoder: the path bends to the pole, its energy is that of the sphere."""

    def decoder(z):
        return torch.stack([z[:, 1].cos() * z[:, 0].cos(), z[:, 1].cos() * z[:, 0].sin(), z[:, 1].sin()], dim=-1)

    chart = ImplicitManifold(lambda z: z[:, 2:], PullbackMetric(decoder))
    a, b = vector(0, 0.8, 0), vector(2, 0.8, 0)
    cosine = float((decoder(a[None]) * decoder(b[None])).sum())
    exact = 4 * 144 * math.sin(math.acos(cosine) / 24) ** 2
    found = chart.geodesic(a, b, 12, starts=["straight"])
    assert float(found.energy) == pytest.approx(exact, abs=1e-6)
    assert float(found.points[6, 1]) > 0.9


def test_kl_geodesic_of_normal_laws_is_hyperbolic():
    """Fisher distance of N(m, s) along log s alone: sqrt(2) |log(s_b / s_a)|."""
    flat = ImplicitManifold(lambda z: z[:, 2:], KLMetric(lambda z: (z[:, :1], 2 * z[:, 1:2])))
    distance = flat.distance(vector(0, 0, 0), vector(0, 1, 0), 48)
    assert float(distance) == pytest.approx(math.sqrt(2), rel=0.02)
    coarse = flat.distance(vector(0, 0, 0), vector(0, 1, 0), 12)
    assert abs(float(distance) - math.sqrt(2)) < 0.4 * abs(float(coarse) - math.sqrt(2))


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (lambda m: m.geodesic(on_sphere(0), 1.1 * on_sphere(1)), "project_ends"),
        (lambda m: m.geodesic(on_sphere(0), on_sphere(1), 1), "segments is 1"),
        (lambda m: m.geodesic(on_sphere(0), on_sphere(1)[:2]), "shapes"),
        (lambda m: m.geodesic(on_sphere(0), on_sphere(1), starts=["graph"]), "codes"),
        (lambda m: m.geodesic(on_sphere(0), on_sphere(1), starts=["grph"]), "grph"),
        (lambda m: m.geodesic(on_sphere(0) * math.nan, on_sphere(1)), "not finite"),
        (lambda m: m.exp(on_sphere(0), on_sphere(1), 0), "segments is 0"),
        (lambda m: ImplicitManifold(sphere(), normal_reduction=True), "dimension"),
        (lambda m: ImplicitManifold(lambda z: z[:, 0]).geodesic(on_sphere(0), on_sphere(1)), "shape"),
        (lambda m: PullbackMetric(lambda z: z / 0)(on_sphere(0)[None], on_sphere(1)[None]), "not finite"),
    ],
)
def test_wrong_input_is_told(ball, call, told):
    with pytest.raises(InputError, match=told):
        call(ball)


def test_ends_can_be_projected(ball):
    found = ball.geodesic(1.2 * on_sphere(0), 0.9 * on_sphere(2), 4, project_ends=True)
    torch.testing.assert_close(found.points[[0, -1]], torch.stack([on_sphere(0), on_sphere(2)]))


def test_equal_ends_give_a_point(ball):
    found = ball.geodesic(on_sphere(1), on_sphere(1), 4)
    assert found.converged
    assert float(found.energy) == 0


def test_what_does_not_converge_is_told():
    hasty = ImplicitManifold(sphere(), settings=SolverSettings(outer=1, inner=1))
    with pytest.warns(ConvergenceWarning, match="did not converge"):
        found = hasty.geodesic(on_sphere(0), on_sphere(2), 8)
    assert not found.converged
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ImplicitManifold(sphere()).geodesic(on_sphere(0), on_sphere(2), 8)
