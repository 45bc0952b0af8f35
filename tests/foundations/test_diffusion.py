"""Schedules, integrators and networks against closed forms, orders of convergence and symmetries."""

import math

import pytest
import torch

from workingpapers.foundations import diffusion
from workingpapers.foundations.errors import InputError
from workingpapers.foundations.manifolds import Sphere

F64 = torch.float64
SCHEDULES = [diffusion.Linear(), diffusion.Trigonometric(), diffusion.OrnsteinUhlenbeck(3.0)]


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize("schedule", SCHEDULES, ids=lambda schedule: type(schedule).__name__)
def test_rates_are_derivatives_and_the_ends_are_noise_and_data(schedule):
    t = torch.linspace(0.05, 0.95, 7, dtype=F64)
    h = 1e-6
    for value, rate in ((schedule.alpha, schedule.alpha_rate), (schedule.sigma, schedule.sigma_rate)):
        assert torch.allclose(rate(t), (value(t + h) - value(t - h)) / (2 * h), atol=1e-8)
    ends = torch.tensor([0.0, 1.0], dtype=F64)
    left = math.exp(-3.0) if isinstance(schedule, diffusion.OrnsteinUhlenbeck) else 0.0
    assert schedule.alpha(ends).tolist() == pytest.approx([left, 1.0], abs=1e-12)
    assert schedule.sigma(ends).tolist() == pytest.approx([math.sqrt(1 - left**2), 0.0], abs=1e-12)


@pytest.mark.parametrize("schedule", SCHEDULES, ids=lambda schedule: type(schedule).__name__)
def test_score_velocity_and_denoiser_of_a_gaussian(schedule):
    # X_1 ~ N(m, S): X_t ~ N(alpha m, v), v = alpha^2 S + sigma^2, and conditional means are linear in x.
    m, s = 1.5, 0.3
    t = torch.tensor([0.2, 0.5, 0.8], dtype=F64)
    x = torch.tensor([[0.1, -1.0], [2.0, 0.4], [1.0, 3.0]], dtype=F64)
    alpha, sigma = schedule.alpha(t)[:, None], schedule.sigma(t)[:, None]
    v = alpha**2 * s + sigma**2
    score = -(x - alpha * m) / v
    noise = sigma / v * (x - alpha * m)
    data = m + alpha * s / v * (x - alpha * m)
    velocity = schedule.velocity(noise, data, t)
    assert torch.allclose(schedule.velocity_from_score(score, x, t), velocity)
    assert torch.allclose(schedule.score_from_velocity(velocity, x, t), score)
    assert torch.allclose(schedule.denoised(score, x, t), data)
    assert torch.allclose(schedule.interpolate(noise, data, t), x)


def test_heun_has_order_two():
    field = lambda x, t: -x * (1 + t)  # noqa: E731
    start, exact = torch.ones(1, 1, dtype=F64), math.exp(-1.5)
    errors = [
        abs(float(diffusion.heun(field, start, diffusion.uniform_times(steps))) - exact) for steps in (20, 40, 80)
    ]
    assert errors[0] / errors[1] == pytest.approx(4, rel=0.1)
    assert errors[1] / errors[2] == pytest.approx(4, rel=0.1)


def test_euler_maruyama_has_the_law_of_its_recursion():
    # dX = -k X dt + g(t) dW, g = 1 + t: mean and variance of the scheme follow a recursion.
    k, steps = 2.0, 10
    times = diffusion.uniform_times(steps)
    start = torch.full((60_000, 1), 3.0, dtype=F64)
    last = diffusion.euler_maruyama(lambda x, t: -k * x, start, times, diffusion=lambda t: 1 + t, generator=seeded())
    mean, variance = 3.0, 0.0
    for number in range(steps):
        mean, variance = mean * (1 - k / steps), variance * (1 - k / steps) ** 2 + (1 + number / steps) ** 2 / steps
    assert float(last.mean()) == pytest.approx(mean, abs=4 * math.sqrt(variance / 60_000))
    assert float(last.var()) == pytest.approx(variance, rel=4 * math.sqrt(2 / 60_000))


def test_the_last_step_can_leave_out_its_noise_and_the_path_is_kept():
    times = torch.tensor([0.0, 0.5, 1.0])
    drift = lambda x, t: torch.ones_like(x)  # noqa: E731
    path = diffusion.euler_maruyama(
        drift, torch.zeros(4, 2), times, diffusion=1.0, last_noise=False, keep_path=True, generator=seeded()
    )
    assert path.shape == (3, 4, 2)
    assert torch.allclose(path[2] - path[1], torch.full((4, 2), 0.5))
    assert float((path[1] - 0.5).abs().min()) > 0


@pytest.mark.parametrize("rate", [1.0, -1.0])
def test_exponential_euler_is_exact_for_linear_equations_in_one_step(rate):
    start = torch.full((60_000, 1), 2.0, dtype=F64)
    last = diffusion.exponential_euler(
        lambda x, t: torch.full_like(x, 0.7),
        start,
        torch.tensor([0.0, 1.0]),
        rate=rate,
        diffusion=math.sqrt(2),
        generator=seeded(),
    )
    mean = math.exp(rate) * 2 + (math.exp(rate) - 1) / rate * 0.7
    variance = 2 * (math.exp(2 * rate) - 1) / (2 * rate)
    assert float(last.mean()) == pytest.approx(mean, abs=4 * math.sqrt(variance / 60_000))
    assert float(last.var()) == pytest.approx(variance, rel=4 * math.sqrt(2 / 60_000))


def test_reverse_diffusion_with_the_exact_score_returns_the_data_law():
    # Noising time runs down from T to tau; the reverse equation dY = (Y + 2 s) dr + sqrt(2) dW in r = T - s.
    m, s, horizon = 1.0, 0.25, 4.0
    noising = diffusion.geometric_times(400, horizon, 1e-4)
    start = torch.randn(20_000, 1, generator=seeded(), dtype=F64)

    def drift(y, r):
        left = horizon - r
        alpha = torch.exp(-left)
        return -2 * (y - alpha * m) / (alpha**2 * s + 1 - alpha**2)

    last = diffusion.exponential_euler(
        drift, start, horizon - noising, rate=1.0, diffusion=math.sqrt(2), generator=seeded(1)
    )
    assert float(last.mean()) == pytest.approx(m, abs=0.04)
    assert float(last.var()) == pytest.approx(s, rel=0.06)


def test_brownian_motion_on_the_sphere_forgets_at_the_rate_of_the_laplacian():
    # E <X_t, X_0> = exp(-m t / 2) for dX = dW on S^m: the coordinate functions have eigenvalue m.
    space, n = Sphere(2), 20_000
    start = torch.tensor([0.0, 0.0, 1.0], dtype=F64).expand(n, -1)
    last = diffusion.geodesic_euler_maruyama(
        lambda x, t: torch.zeros_like(x),
        start,
        diffusion.uniform_times(50),
        manifold=space,
        diffusion=1.0,
        generator=seeded(),
    )
    assert float(space.error(last).max()) < 1e-12
    assert float(last[:, 2].mean()) == pytest.approx(math.exp(-1), abs=0.02)


def test_langevin_correction_moves_towards_its_law():
    x = torch.full((20_000, 1), 5.0, dtype=F64)
    last = diffusion.langevin_correction(lambda x, t: -x, x, torch.tensor(0.5), step=0.1, steps=80, generator=seeded())
    assert float(last.var()) == pytest.approx(0.2 / (1 - 0.9**2), rel=4 * math.sqrt(2 / 20_000))


def test_drift_mlp_starts_at_zero_reads_time_and_condition_and_follows_its_generator():
    net = diffusion.DriftMLP(3, 16, 2, condition=2, generator=seeded())
    x, c = torch.randn(5, 3, generator=seeded()), torch.randn(5, 2, generator=seeded(1))
    assert torch.equal(net(x, torch.tensor(0.3), condition=c), torch.zeros(5, 3))
    torch.nn.init.ones_(net.layers[-1].weight)
    base = net(x, torch.tensor(0.3), condition=c)
    assert not torch.allclose(base, net(x, torch.tensor(0.31), condition=c))
    assert not torch.allclose(base, net(x, torch.tensor(0.3), condition=c + 1))
    again = diffusion.DriftMLP(3, 16, 2, condition=2, generator=seeded())
    assert torch.equal(again.layers[0].weight, net.layers[0].weight)


def test_equivariant_drift_turns_shifts_and_swaps_with_the_particles():
    net = diffusion.EquivariantDrift(4, 2, 16, 2, generator=seeded()).double()
    for head in net.force:
        torch.nn.init.ones_(head.weight)
    x, t = torch.randn(3, 8, generator=seeded(), dtype=F64), torch.tensor(0.4, dtype=F64)
    drift = net(x, t).reshape(3, 4, 2)
    assert float(drift.abs().max()) > 1e-3
    assert torch.allclose(drift.mean(1), torch.zeros(3, 2, dtype=F64), atol=1e-12)
    turn, _ = torch.linalg.qr(torch.randn(2, 2, generator=seeded(1), dtype=F64))
    assert torch.allclose(net((x.reshape(3, 4, 2) @ turn + 5).reshape(3, 8), t).reshape(3, 4, 2), drift @ turn)
    order = [2, 0, 3, 1]
    assert torch.allclose(net(x.reshape(3, 4, 2)[:, order].reshape(3, 8), t).reshape(3, 4, 2), drift[:, order])


def test_moving_average_follows_its_recursion():
    model = torch.nn.Linear(1, 1, bias=False)
    average = diffusion.moving_average(model, 0.9)
    expected = None
    for value in (1.0, 2.0, 4.0):
        torch.nn.init.constant_(model.weight, value)
        average.update_parameters(model)
        expected = value if expected is None else 0.9 * expected + 0.1 * value
    assert float(average.module.weight) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: diffusion.uniform_times(0), "not 0 in"),
        (lambda: diffusion.geometric_times(5, 0.1, 1.0), "not 0.1 and 1.0"),
        (lambda: diffusion.OrnsteinUhlenbeck(-1.0), "not -1.0"),
        (lambda: diffusion.heun(lambda x, t: x, torch.ones(1), torch.tensor([1.0, 0.0])), "must increase"),
        (
            lambda: diffusion.euler_maruyama(
                lambda x, t: x * math.inf, torch.ones(1, 1), diffusion.uniform_times(3), diffusion=0.0
            ),
            "at step 1 of 3",
        ),
        (lambda: diffusion.moving_average(torch.nn.Linear(1, 1), 1.0), "not 1.0"),
        (lambda: diffusion.DriftMLP(0), "dim=0"),
        (lambda: diffusion.DriftMLP(1, condition=1)(torch.ones(1, 1), torch.tensor(0.0)), "with a condition"),
    ],
)
def test_input_that_cannot_be_used_is_named(call, words):
    with pytest.raises(InputError) as error:
        call()
    assert words in str(error.value)
