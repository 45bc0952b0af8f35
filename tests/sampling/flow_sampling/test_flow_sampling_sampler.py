"""The sampler: an outer round on Gaussians, counted gradients, checkpoints, weights, and rivals."""

import math

import pytest
import torch

from workingpapers.foundations import densities
from workingpapers.foundations.errors import InputError
from workingpapers.foundations.manifolds import Hyperboloid, Sphere
from workingpapers.sampling.flow_sampling import AdjointSampler, FlowSampler, MeanFree, ReplayBuffer
from workingpapers.sampling.flow_sampling.weights import flow_velocity, weigh

F64 = torch.float64
FAST = {"updates": 8, "new_samples": 64, "steps": 8, "batch": 64}


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


class Linear(torch.nn.Module):
    """u = a_t + b_t x on a grid of times: the whole regression of a Gaussian in closed form."""

    def __init__(self, first, second):
        super().__init__()
        self.first, self.second = first, second

    def forward(self, x, t):
        return self.first(t) + self.second(t) * x


def exact_drift(m, s, m1, s1, gamma):
    """Return the drift that regression on samples of N(m1, s1) with gradients of N(m, s) gives."""

    def slope(t):
        return (t * s1 - (1 - t) - gamma * t * s1 / s) / ((1 - t) ** 2 + t**2 * s1)

    return Linear(lambda t: m1 - gamma / s * (m1 - m) - slope(t) * t * m1, slope)


@pytest.mark.parametrize(
    ("gamma", "expected"),
    [
        (0.2, [(2.036, 0.463), (2.615, 0.330), (2.832, 0.284)]),
        (0.5, [(3.083, 0.282), (3.004, 0.254)]),
        (5.0, [(3.009, 0.250)]),
    ],
)
def test_outer_rounds_on_a_gaussian_follow_the_known_recursion(gamma, expected):
    # q = N(3, 1/4), started from N(0, 1).
    sampler = FlowSampler(densities.gaussian([3.0], 0.5), dtype=F64)
    m1, s1 = 0.0, 1.0
    for mean, variance in expected:
        sampler.network, sampler.gamma = exact_drift(3.0, 0.25, m1, s1, gamma), gamma
        drawn = sampler.simulate(40_000, 600, seeded(), True)
        m1, s1 = float(drawn.mean()), float(drawn.var())
        assert m1 == pytest.approx(mean, abs=0.004 + 4 * math.sqrt(variance / 40_000))
        assert s1 == pytest.approx(variance, rel=0.012 + 4 * math.sqrt(2 / 40_000))
        m1, s1 = mean, variance


def test_the_density_is_a_fixed_point_for_every_gamma():
    sampler = FlowSampler(densities.gaussian([3.0], 0.5), dtype=F64)
    for gamma in (0.1, 1.0):
        sampler.network, sampler.gamma = exact_drift(3.0, 0.25, 3.0, 0.25, gamma), gamma
        drawn = sampler.simulate(40_000, 600, seeded(), True)
        assert float(drawn.mean()) == pytest.approx(3.0, abs=0.015)
        assert float(drawn.var()) == pytest.approx(0.25, rel=0.04)


def test_regression_finds_the_exact_drift_of_what_is_in_the_buffer():
    m, s = 1.0, 0.25
    sampler = FlowSampler(densities.gaussian([m], math.sqrt(s)), strength=1.0, dtype=F64)
    points = 0.4 + 0.8 * torch.randn(20_000, 1, generator=seeded(), dtype=F64)
    sampler.buffer.push(points[:10_000], sampler.target.density.score(points[:10_000]))
    gamma = sampler.prepare_round()
    assert gamma == pytest.approx(1 / float(sampler.buffer.gradients.square().mean().sqrt()))
    x, t, wanted = sampler.regression(*sampler.buffer.draw(100_000, seeded(1)))
    held = points[:10_000]
    truth = exact_drift(m, s, float(held.mean()), float(held.var()), gamma)
    residual = (wanted - truth(x, t[:, None])).flatten()
    for column in (torch.ones_like(t), x[:, 0], t, x[:, 0] * t, x[:, 0] ** 2):
        assert abs(float((residual * column).mean())) < 5 * float((residual * column).std()) / math.sqrt(len(t))


def test_gradients_are_counted_once_a_new_sample():
    sampler = FlowSampler(densities.ring())
    sampler.fit(3, **FAST)
    assert sampler.evaluations == 3 * 64 == sampler.history[-1].evaluations
    more = FlowSampler(densities.ring()).fit(3, **{**FAST, "updates": 20, "batch": 200})
    assert more.evaluations == 3 * 64
    more.sample(50)
    assert more.evaluations == 3 * 64


def test_without_gradient_training_never_leaves_the_noise():
    sampler = FlowSampler(densities.gaussian([4.0, 0.0], 0.5), strength=0.0).fit(
        8, updates=60, new_samples=256, steps=16
    )
    drawn = sampler.sample(4000)
    assert torch.allclose(drawn.mean(0), torch.zeros(2), atol=0.2)
    learned = FlowSampler(densities.gaussian([4.0, 0.0], 0.5), strength=2.0).fit(
        20, updates=60, new_samples=256, steps=16
    )
    assert float(learned.sample(4000)[:, 0].mean()) == pytest.approx(4.0, abs=0.3)


def test_the_same_seed_gives_the_same_sampler_and_a_checkpoint_goes_on_where_it_was(tmp_path):
    whole = FlowSampler(densities.ring(), seed=3).fit(4, **FAST)
    again = FlowSampler(densities.ring(), seed=3).fit(4, **FAST)
    assert torch.equal(whole.sample(10), again.sample(10))
    half = FlowSampler(densities.ring(), seed=3).fit(2, **FAST)
    half.save(tmp_path / "half.pt")
    resumed = FlowSampler(densities.ring(), seed=3).load(tmp_path / "half.pt").fit(4, **FAST)
    assert torch.equal(whole.sample(10), resumed.sample(10))
    assert resumed.history == whole.history
    assert not torch.equal(whole.sample(10), FlowSampler(densities.ring(), seed=4).fit(4, **FAST).sample(10))
    with pytest.raises(InputError, match="no checkpoint of this sampler"):
        FlowSampler(densities.Funnel(3)).load(tmp_path / "half.pt")
    (tmp_path / "bad.pt").write_bytes(b"no")
    with pytest.raises(InputError, match="no checkpoint of this sampler"):
        FlowSampler(densities.ring()).load(tmp_path / "bad.pt")


def test_weights_give_the_partition_function_whatever_the_network():
    # An exact drift gives weights that are constant; a rough one gives the same log Z with a smaller effective size.
    m, s, gamma = 1.0, 0.36, 0.4
    target = densities.MultiWell(1, 1, quartic=1e-12, quadratic=-1 / (2 * s))  # exp(-x^2 / (2 s)), log Z known
    start = torch.randn(20_000, 1, generator=seeded(), dtype=F64)
    exact = weigh(exact_drift(0.0, s, 0.0, s, gamma), gamma, target.log_density, start, 100)
    assert exact.effective_share == pytest.approx(1, abs=1e-4)
    assert exact.log_partition == pytest.approx(0.5 * math.log(2 * math.pi * s), abs=1e-3)
    rough = weigh(exact_drift(0.3, 0.5, 0.1, 0.7, gamma), gamma, target.log_density, start, 200)
    assert rough.effective_share < 0.98
    assert rough.log_partition == pytest.approx(0.5 * math.log(2 * math.pi * s), abs=0.02)
    assert rough.evidence_bound < rough.log_partition
    assert m == 1.0


def test_the_flow_has_the_laws_of_the_diffusion():
    # For a Gaussian: v = d/dt of mean and spread, whatever gamma.
    s, t = 0.49, torch.tensor(0.6, dtype=F64)
    x = torch.linspace(-2, 2, 9, dtype=F64)[:, None]
    v = (1 - t) ** 2 + t**2 * s
    for gamma in (0.0, 0.3, 2.0):
        drift = exact_drift(0.0, s, 0.0, s, gamma)(x, t)
        assert torch.allclose(flow_velocity(drift, x, t, gamma), (t * s - (1 - t)) / v * x)


def test_it_learns_a_ring_and_its_weights_are_worth_something():
    ring = densities.ring(4, 2.0, 0.4)
    sampler = FlowSampler(ring, clip=30.0).fit(25, updates=40, new_samples=256, steps=16, batch=256)
    drawn = sampler.sample(2000)
    assert float(ring.mode_masses(drawn).min()) > 0.1
    weighted = sampler.weighted_sample(2000, steps=32)
    assert weighted.log_partition == pytest.approx(0.0, abs=0.15)
    assert weighted.effective_share > 0.3


@pytest.mark.parametrize("space", [Sphere(2), Hyperboloid(2)], ids=repr)
def test_it_runs_on_curved_spaces(space):
    centre = space.exp(space.random(1, seeded()), torch.zeros(1, 3, dtype=F64))
    make = densities.VonMisesFisherMixture if space.curvature > 0 else densities.WrappedGaussianMixture
    target = make(centre, 8.0 if space.curvature > 0 else 0.4)
    sampler = FlowSampler(target, manifold=space, dtype=F64, clip=30.0, strength=2.0)
    sampler.fit(20, updates=40, new_samples=256, steps=16, batch=256)
    drawn = sampler.sample(1000)
    space.check(drawn)
    mean_distance = float(space.distance(drawn, centre.expand_as(drawn)).mean())
    exact = target.sample(1000, seeded(1))
    assert mean_distance == pytest.approx(float(space.distance(exact, centre.expand_as(exact)).mean()), rel=0.15)
    with pytest.raises(InputError, match="flat space alone"):
        sampler.weighted_sample(10)


def test_it_runs_on_particles():
    space = MeanFree(8, particles=4)
    sampler = FlowSampler(densities.DoubleWellParticles(), manifold=space, clip=50.0).fit(2, **FAST)
    assert float(space.error(sampler.sample(50)).max()) < 1e-5


@pytest.mark.parametrize("schedule", ["constant", "geometric"])
def test_adjoint_sampling_samples_a_gaussian_from_the_exact_control(schedule):
    # For q = N(0, S^2 + extra) the optimal control of Brownian motion is linear: u = (1/S^2 - 1/q) ... x by Doob's h.
    sampler = AdjointSampler(densities.gaussian([0.0], 0.8), largest=1.5, smallest=0.2, schedule=schedule, dtype=F64)
    whole = float(sampler.variance(torch.tensor(1.0, dtype=F64)))
    assert float(sampler.variance(torch.tensor(0.0, dtype=F64))) == 0
    t = torch.linspace(0, 1, 20_001, dtype=F64)
    assert float(torch.trapezoid(sampler.scale(t) ** 2, t)) == pytest.approx(whole, rel=1e-6)
    # h(x, t) = int N(y; x, whole - var_t) q(y) / N(y; 0, whole) dy; its log-gradient is linear with this slope.
    ratio = 1 / 0.64 - 1 / whole

    class Control(torch.nn.Module):
        def forward(self, x, t):
            left = whole - sampler.variance(t)
            return -ratio / (1 + ratio * left) * x

    sampler.network = Control()
    drawn = sampler.simulate(40_000, 400, seeded(), True)
    assert float(drawn.var()) == pytest.approx(0.64, rel=0.04)


def test_adjoint_regression_finds_the_exact_control():
    sampler = AdjointSampler(densities.gaussian([0.5], 0.6), largest=1.5, dtype=F64)
    whole = 1.5**2
    points = 0.5 + 0.6 * torch.randn(500_000, 1, generator=seeded(9), dtype=F64)
    x, t, wanted = sampler.regression(points, sampler.target.density.score(points))
    # Given X_1 ~ q the target's mean is the gradient of log h at (x, t); for Gaussians both are linear in x.
    rows = (t - 0.5).abs() < 0.01
    design = torch.cat([torch.ones(int(rows.sum()), 1, dtype=F64), x[rows]], dim=1)
    found = torch.linalg.lstsq(design, wanted[rows]).solution.flatten()
    ratio, left = 1 / 0.36 - 1 / whole, whole / 2
    assert float(found[1]) == pytest.approx(-ratio / (1 + ratio * left), abs=0.06)
    assert float(found[0]) == pytest.approx(0.5 / 0.36 / (1 + ratio * left), abs=0.06)


def test_the_buffer_forgets_the_oldest():
    buffer = ReplayBuffer(5, 1, F64)
    with pytest.raises(RuntimeError, match="empty"):
        buffer.draw(1, seeded())
    buffer.push(torch.arange(4, dtype=F64)[:, None], torch.zeros(4, 1, dtype=F64))
    buffer.push(torch.arange(4, 7, dtype=F64)[:, None], torch.ones(3, 1, dtype=F64))
    assert buffer.points.flatten().tolist() == [2, 3, 4, 5, 6]
    assert buffer.gradients.flatten().tolist() == [0, 0, 1, 1, 1]


class Wide(torch.nn.Linear):
    def __init__(self):
        super().__init__(2, 3)

    def forward(self, x, t):
        return super().forward(x)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: FlowSampler(lambda x: x.sum(-1)), "give dim"),
        (lambda: FlowSampler(lambda x: x, dim=2), "has shape (16, 2)"),
        (lambda: FlowSampler(lambda x: x[:, 0] * math.nan, dim=2), "a finite number for each row"),
        (lambda: FlowSampler(densities.ring(), manifold=Sphere(2)), "The target has 2 coordinates"),
        (lambda: FlowSampler(densities.ring(), strength=-1.0), "is -1.0"),
        (lambda: FlowSampler(densities.ring(), clip=0.0), "clip must be positive"),
        (lambda: FlowSampler(densities.ring(), capacity=0), "not 0"),
        (lambda: FlowSampler(densities.ring()).fit(0), "rounds must be at least 1"),
        (lambda: FlowSampler(densities.ring()).sample(0), "count=0"),
        (lambda: AdjointSampler(densities.ring(), largest=0.001), "smallest < largest"),
        (lambda: AdjointSampler(densities.VonMisesFisherMixture([[1.0, 0, 0]], 1.0), manifold=Sphere(2)), "flat space"),
        (lambda: FlowSampler(densities.ring(), network=Wide()).fit(1), "shape (512, 3) for points of (512, 2)"),
    ],
)
def test_input_that_cannot_be_used_is_named(call, words):
    with pytest.raises(InputError) as error:
        call()
    assert words in str(error.value)


def test_gradients_that_are_not_finite_are_told_with_their_round():
    def cliff(x):
        return torch.where(x[:, 0] > -50, -0.5 * (x**2).sum(-1), x[:, 0] * math.inf)

    sampler = FlowSampler(cliff, dim=2)
    torch.nn.init.constant_(sampler.network.layers[-1].bias, -200.0)
    with pytest.raises(InputError, match="round 1"):
        sampler.fit(1, **FAST)


def test_long_gradients_are_shortened_and_short_ones_left():
    density = densities.gaussian([3.0, 0.0], 0.2)
    sampler = FlowSampler(density, clip=40.0).fit(1, **FAST)
    true = density.score(sampler.buffer.points)
    length = torch.linalg.vector_norm(true, dim=-1)
    kept = torch.linalg.vector_norm(sampler.buffer.gradients, dim=-1)
    assert float(length.max()) > 60
    assert torch.allclose(kept, length.clamp(max=40.0), rtol=1e-4)
    assert torch.allclose(sampler.buffer.gradients, true * (kept / length)[:, None], rtol=1e-4, atol=1e-4)
