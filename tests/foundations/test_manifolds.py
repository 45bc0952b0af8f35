"""Constant-curvature spaces: geoopt's answers, round trips, isometry of transport, formulas near zero."""

import math

import geoopt
import pytest
import torch

from workingpapers.foundations.errors import InputError
from workingpapers.foundations.manifolds import Euclidean, FlatTorus, Hyperboloid, Sphere

SPACES = [Euclidean(3), Sphere(1), Sphere(4), Hyperboloid(1), Hyperboloid(3), FlatTorus(2, 3.0)]


def points_and_tangents(space, n=200, scale=0.7):
    generator = torch.Generator().manual_seed(1)
    x = space.random(n, generator)
    return x, scale * space.noise(x, generator), space.noise(x, generator)


@pytest.mark.parametrize("space", SPACES, ids=repr)
def test_log_undoes_exp_and_lengths_are_distances(space):
    x, v, _ = points_and_tangents(space)
    if isinstance(space, Sphere):
        v = v * (3.0 / space.norm(v).clamp_min(3.0))[:, None]
    if isinstance(space, FlatTorus):
        v = v.clamp(-1.4, 1.4)
    y = space.exp(x, v)
    assert float(space.error(y).max()) < 1e-12
    assert torch.allclose(space.log(x, y), v, atol=1e-8)
    assert torch.allclose(space.distance(x, y), space.norm(v), atol=1e-9)


@pytest.mark.parametrize("space", SPACES, ids=repr)
def test_transport_is_an_isometry_that_carries_the_geodesic_to_itself(space):
    x, v, w = points_and_tangents(space, scale=0.5)
    y = space.exp(x, v)
    carried = space.transport(x, y, w)
    assert torch.allclose(space.to_tangent(y, carried), carried, atol=1e-9)
    assert torch.allclose(space.inner(carried, carried), space.inner(w, w), rtol=1e-9)
    direction = space.log(x, y)
    assert torch.allclose(space.transport(x, y, direction), -space.log(y, x), atol=1e-8)


@pytest.mark.parametrize(
    ("space", "peer"), [(Sphere(3), geoopt.Sphere()), (Hyperboloid(3), geoopt.Lorentz())], ids=["sphere", "hyperboloid"]
)
def test_agrees_with_geoopt(space, peer):
    x, v, w = points_and_tangents(space, scale=0.6)
    y = space.exp(x, v)
    assert torch.allclose(peer.expmap(x, v), y, atol=1e-7)
    assert torch.allclose(peer.logmap(x, y), space.log(x, y), atol=1e-5)
    assert torch.allclose(peer.dist(x, y).squeeze(-1), space.distance(x, y), atol=1e-5)
    mine = space.transport(x, y, w)
    if isinstance(space, Hyperboloid):  # geoopt's transport on the sphere is a projection, not the parallel one
        assert torch.allclose(peer.transp(x, y, w), mine, atol=1e-6)
        assert torch.allclose(peer.egrad2rgrad(x, w.clone()), space.gradient(x, w), atol=1e-9)


@pytest.mark.parametrize("space", [Sphere(2), Hyperboloid(2)], ids=repr)
def test_tiny_steps_keep_their_length(space):
    x, v, _ = points_and_tangents(space)
    v = 1e-7 * v
    assert torch.allclose(space.distance(x, space.exp(x, v)), space.norm(v), rtol=1e-6)


@pytest.mark.parametrize("space", [Sphere(3), Hyperboloid(3)], ids=repr)
def test_the_gradient_gives_directional_derivatives(space):
    x, v, _ = points_and_tangents(space, n=20)
    a = torch.randn(space.ambient, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    gradient = space.gradient(x, a.expand_as(x))  # of f(x) = a . x
    h = 1e-5
    slope = (space.exp(x, h * v) @ a - space.exp(x, -h * v) @ a) / (2 * h)
    assert torch.allclose(space.inner(gradient, v), slope, atol=1e-7)


def test_noise_on_the_hyperboloid_is_standard_in_the_tangent_space():
    space = Hyperboloid(2)
    x = space.exp(space.origin(), torch.tensor([0.0, 1.3, -0.4], dtype=torch.float64)).expand(40_000, -1)
    xi = space.noise(x, torch.Generator().manual_seed(0))
    assert torch.allclose(space.inner(x, xi), torch.zeros(40_000, dtype=torch.float64), atol=1e-10)
    assert float(space.inner(xi, xi).mean()) == pytest.approx(2, abs=4 * 2 / math.sqrt(40_000))


def test_surface_of_spheres():
    assert Sphere(1).log_volume() == pytest.approx(math.log(2 * math.pi))
    assert Sphere(2).log_volume() == pytest.approx(math.log(4 * math.pi))
    assert Sphere(3).log_volume() == pytest.approx(math.log(2 * math.pi**2))


@pytest.mark.parametrize(
    ("space", "x", "words"),
    [
        (Sphere(2), torch.tensor([[1.0, 1.0, 0.0]]), "off Sphere(dim=2) by up to 0.41"),
        (Sphere(2), torch.ones(1, 2), "2 coordinates"),
        (Hyperboloid(1), torch.tensor([[-1.0, 0.0]]), "off Hyperboloid(dim=1) by up to inf"),
        (Euclidean(1), torch.tensor([[math.nan]]), "inf"),
    ],
)
def test_points_off_the_manifold_are_refused(space, x, words):
    with pytest.raises(InputError) as error:
        space.check(x)
    assert words in str(error.value)
