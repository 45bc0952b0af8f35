"""The regression target against closed forms: Gaussians in flat space, weak identities and Jacobians on curved ones."""

import math

import pytest
import torch

from workingpapers.foundations import densities
from workingpapers.foundations.diffusion import geodesic_euler_maruyama, uniform_times
from workingpapers.foundations.errors import InputError
from workingpapers.foundations.langevin import value_and_score
from workingpapers.foundations.manifolds import Euclidean, Hyperboloid, Sphere
from workingpapers.sampling.flow_sampling import MeanFree, adjoint_sampling_target, flow_sampling_target
from workingpapers.sampling.flow_sampling.targets import conditional_score

F64 = torch.float64


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize("t", [0.2, 0.5, 0.9])
def test_regression_on_a_gaussian_gives_the_exact_drift(t):
    # u has intercept m and slope [t S - (1 - t) - gamma t] / v in x - t m; a factor t on the gradient would spoil it.
    n, m, s, gamma = 400_000, 1.5, 0.3, 0.7
    noise = torch.randn(n, 1, generator=seeded(), dtype=F64)
    data = m + math.sqrt(s) * torch.randn(n, 1, generator=seeded(1), dtype=F64)
    x, u = flow_sampling_target(noise, data, -(data - m) / s, torch.full((n,), t, dtype=F64), gamma, Euclidean(1))
    v = (1 - t) ** 2 + t**2 * s
    design = torch.cat([torch.ones_like(x), x - t * m], dim=1)
    intercept, slope = torch.linalg.lstsq(design, u).solution.flatten().tolist()
    residual = float((u - design @ torch.tensor([[intercept], [slope]], dtype=F64)).std())
    assert intercept == pytest.approx(m, abs=4 * residual / math.sqrt(n))
    assert slope == pytest.approx((t * s - (1 - t) - gamma * t) / v, abs=4 * residual / math.sqrt(n * v))
    if t == 0.5:
        assert (t * s - (1 - t) - gamma * t) / v == pytest.approx(-2.1538, abs=1e-4)


def test_the_control_variate_has_conditional_mean_zero():
    # X_0 / sigma + gradient / alpha has mean zero given X_t, for any target.
    n, t = 400_000, 0.6
    mixture = densities.GaussianMixture([[-1.5], [1.0], [2.5]], [0.5, 0.3, 0.6], [1.0, 2.0, 1.0])
    noise = torch.randn(n, 1, generator=seeded(), dtype=F64)
    data = mixture.sample(n, seeded(1))
    x = (1 - t) * noise + t * data
    variate = noise / (1 - t) + mixture.score(data) / t
    design = torch.cat([torch.ones_like(x), x, x**2, torch.sin(3 * x)], dim=1)
    found = torch.linalg.lstsq(design, variate).solution.flatten()
    error = float(variate.std()) * torch.linalg.inv(design.T @ design).diag().sqrt()
    assert float((found.abs() / error).max()) < 4


def test_without_gradient_the_target_is_plain_flow_matching():
    noise, data = torch.randn(2, 50, 3, generator=seeded(), dtype=F64)
    t = torch.rand(50, generator=seeded(1), dtype=F64)
    x, u = flow_sampling_target(noise, data, torch.ones_like(data), t, 0.0, Euclidean(3))
    assert torch.allclose(u, data - noise)
    assert torch.allclose(x, (1 - t[:, None]) * noise + t[:, None] * data)


def test_adjoint_target_has_the_same_conditional_mean_on_its_own_path():
    # X_t = t X_1 + s sqrt(t (1 - t)) X_0 and g = s; the drift of adjoint sampling is X_1 + s^2 gradient.
    n, t, s, m, spread = 400_000, 0.4, 1.3, 0.8, 0.5
    noise = torch.randn(n, 1, generator=seeded(), dtype=F64)
    data = m + spread * torch.randn(n, 1, generator=seeded(1), dtype=F64)
    gradient = -(data - m) / spread**2
    x = t * data + s * math.sqrt(t * (1 - t)) * noise
    sigma, rate = s * math.sqrt(t * (1 - t)), s * (1 - 2 * t) / (2 * math.sqrt(t * (1 - t)))
    ours = data + rate * noise + s**2 / (2 * t) * gradient
    theirs = s**2 * adjoint_sampling_target(data, gradient, s**2)
    design = torch.cat([torch.ones_like(x), x], dim=1)
    difference = torch.linalg.lstsq(design, ours - theirs).solution.flatten()
    error = float((ours - theirs).std()) * torch.linalg.inv(design.T @ design).diag().sqrt()
    assert float((difference.abs() / error).max()) < 4
    assert sigma > 0


@pytest.mark.parametrize("m", [2, 3, 5])
@pytest.mark.parametrize("t", [0.3, 0.7])
def test_weak_identity_on_spheres(m, t):
    # E <grad f(X_t), S_t> + Laplacian f(X_t) = 0 for f = a.x and f = (a.x)^2, with x_0 fixed and X_1 ~ q.
    n, space = 400_000, Sphere(m)
    means = space.random(3, seeded(5))
    target = densities.VonMisesFisherMixture(means, 3.0)
    data = target.sample(n, seeded(1))
    noise = space.random(1, seeded(2)).expand(n, -1)
    near = space.distance(noise, data) < math.pi - 0.02
    data, noise = data[near], noise[near]
    times = torch.full((len(data),), t, dtype=F64)
    x, _ = flow_sampling_target(noise, data, target.score(data), times, 0.0, space)
    score = conditional_score(noise, data, target.score(data), times, space)
    assert float(space.inner(x, score).abs().max()) < 1e-7
    a = torch.linspace(-1, 1.3, m + 1, dtype=F64)
    along = x @ a
    for slope, laplacian in (
        (torch.ones_like(along), -m * along),
        (2 * along, 2 * (a @ a) - 2 * (m + 1) * along**2),
    ):
        values = slope * (score @ a) + laplacian
        assert abs(float(values.mean())) < 4 * float(values.std()) / math.sqrt(len(values))


@pytest.mark.parametrize("m", [2, 3])
@pytest.mark.parametrize("t", [0.3, 0.7])
def test_weak_identity_on_hyperbolic_space(m, t):
    # f = exp(<x, o>_L): Laplacian f (<x, o>^2 - 1 + m <x, o>).
    n, space = 400_000, Hyperboloid(m)
    target = densities.WrappedGaussianMixture(space.random(2, seeded(5)), 0.5)
    data = target.sample(n, seeded(1))
    noise = space.random(1, seeded(2)).expand(n, -1)
    times = torch.full((n,), t, dtype=F64)
    x, _ = flow_sampling_target(noise, data, target.score(data), times, 0.0, space)
    score = conditional_score(noise, data, target.score(data), times, space)
    origin = space.origin()
    inner = space.inner(x, origin.expand_as(x))
    f = inner.exp()
    gradient = space.to_tangent(x, origin.expand_as(x) * f[:, None])
    values = space.inner(gradient, score) + f * (inner**2 - 1 + m * inner)
    assert abs(float(values.mean())) < 4 * float(values.std()) / math.sqrt(n)


@pytest.mark.parametrize("space", [Sphere(3), Hyperboloid(3)], ids=repr)
def test_the_jacobian_of_the_path_is_t_c_to_the_dimension_less_one(space):
    t, h, m = 0.37, 1e-5, space.dim
    noise, data = space.random(2, seeded(3))
    data = space.exp(noise, 0.5 * space.log(noise, data))

    def path(y):
        return space.exp(noise, t * space.log(noise, y))

    def frame(x):
        basis = []
        for candidate in torch.eye(space.ambient, dtype=F64):
            v = space.to_tangent(x, candidate)
            for other in basis:
                v = v - space.inner(v, other) * other
            if float(space.norm(v)) > 1e-6:
                basis.append(v / space.norm(v))
        return torch.stack(basis[:m])

    at_data, at_path = frame(data), frame(path(data))
    columns = [
        (space.log(path(data), path(space.exp(data, h * v))) - space.log(path(data), path(space.exp(data, -h * v))))
        / (2 * h)
        for v in at_data
    ]
    jacobian = torch.stack([torch.stack([space.inner(column, row) for row in at_path]) for column in columns])
    omega = float(space.distance(noise, data))
    sine = math.sin if space.curvature > 0 else math.sinh
    assert abs(float(torch.linalg.det(jacobian))) == pytest.approx(
        t * (sine(t * omega) / sine(omega)) ** (m - 1), rel=1e-5
    )


@pytest.mark.parametrize("space", [Sphere(3), Hyperboloid(3)], ids=repr)
def test_curved_targets_become_flat_ones_at_small_scale(space):
    scale, gamma = 1e-4, 0.6
    base = space.random(1, seeded())
    rows = space.noise(base.expand(60, -1), seeded(1))
    noise = space.exp(base.expand(20, -1), scale * rows[:20])
    data = space.exp(base.expand(20, -1), scale * rows[20:40])
    gradient = space.transport(base.expand(20, -1), data, rows[40:] / scale)
    t = torch.rand(20, generator=seeded(2), dtype=F64)
    x, u = flow_sampling_target(noise, data, gradient, t, gamma * scale**2, space)
    back = space.transport(x, base.expand(20, -1), u) / scale
    assert torch.allclose(back, rows[20:40] - rows[:20] + gamma * rows[40:], atol=1e-4)
    assert space.inner(x, u).numpy() == pytest.approx(0, abs=1e-7)


def test_a_uniform_law_on_the_sphere_stays_uniform():
    # With r constant the exact drift of the marginal is zero by symmetry and the path's law is uniform at every time.
    space, n = Sphere(2), 40_000
    noise, data = space.random(n, seeded()), space.random(n, seeded(1))
    near = space.distance(noise, data) < math.pi - 0.02
    x, _ = flow_sampling_target(
        noise[near],
        data[near],
        torch.zeros_like(data[near]),
        torch.full((int(near.sum()),), 0.4, dtype=F64),
        0.5,
        space,
    )
    assert float(torch.linalg.vector_norm(x.mean(0))) < 3 / math.sqrt(len(x))
    moved = geodesic_euler_maruyama(
        lambda x, t: torch.zeros_like(x), noise, uniform_times(8), manifold=space,
        diffusion=lambda t: torch.sqrt(t), generator=seeded(2),
    )  # fmt: skip
    assert float(torch.linalg.vector_norm(moved.mean(0))) < 3 / math.sqrt(n)


def test_particles_keep_their_centre_of_mass():
    space = MeanFree(8, particles=4)
    target = densities.DoubleWellParticles()
    noise, data = space.random(20, seeded()), 3 * space.random(20, seeded(1))
    gradient = space.gradient(data, value_and_score(target.log_density, data)[1])
    t = torch.rand(20, generator=seeded(2), dtype=F64)
    for values in (noise, gradient, *flow_sampling_target(noise, data, gradient, t, 0.3, space)):
        assert float(values.reshape(20, 4, 2).mean(1).abs().max()) < 1e-12
    assert torch.allclose(space.noise(noise, seeded(3)).reshape(20, 4, 2).mean(1), torch.zeros(20, 2, dtype=F64))


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: flow_sampling_target(*torch.zeros(3, 1, 2), torch.zeros(1), -1.0, Euclidean(2)), "is -1.0"),
        (
            lambda: flow_sampling_target(
                torch.tensor([[1.0, 0, 0]]),
                torch.tensor([[-1.0, 0, 0]]),
                torch.zeros(1, 3),
                torch.zeros(1),
                1.0,
                Sphere(2),
            ),
            "antipodal",
        ),
        (lambda: MeanFree(7, particles=2), "7 coordinates cannot be shared by 2"),
    ],
)
def test_input_that_cannot_be_used_is_named(call, words):
    with pytest.raises(InputError) as error:
        call()
    assert words in str(error.value)
