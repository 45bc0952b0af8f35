"""Flow maps of Gaussian data, marginal losses, and the conventions of MeanFlow and shortcut models."""

import math
from functools import partial

import pytest
import torch

from workingpapers.foundations.errors import InputError
from workingpapers.sampling.contrastive_flow_map import (
    FlowMLP,
    NetworkFlowMap,
    delta_flow_matching_loss,
    from_shortcut,
    gaussian_velocity,
    jump,
    meanflow_loss,
    meanflow_target,
    sample,
    shortcut_loss,
    to_shortcut,
    total_derivative,
)
from workingpapers.sampling.contrastive_flow_map.gaussian import path_variance
from workingpapers.sampling.contrastive_flow_map.losses import draw_times

DOUBLE = torch.float64
SPREADS = (0.3, 1.0, 2.5)


def source(seed=0):
    return torch.Generator().manual_seed(seed)


def column(*values):
    return torch.tensor(values, dtype=DOUBLE)


def exact(spread):
    return partial(gaussian_velocity, variance=spread)


def wavy(z, r, t):
    """An average velocity without symmetry, whose derivatives are known by autograd."""
    return torch.sin(z * (1 + r)[:, None]) * torch.cos(2 * t)[:, None] + z.roll(1, 1) * (t**2)[:, None]


def small_network(seed=0):
    network = FlowMLP(3, 16, 2, generator=source(seed))
    with torch.no_grad():
        network.body.layers[-1].weight.normal_(0, 0.3, generator=source(seed + 1))
    return network


@pytest.mark.parametrize("spread", SPREADS)
def test_gaussian_flow_map_is_a_square_root_of_variances(spread):
    t, r = column(0.9, 0.5, 1.0), column(0.2, 0.1, 0.0)
    z = torch.randn(3, 4, generator=source(), dtype=DOUBLE)
    wanted = z * (path_variance(r, spread) / path_variance(t, spread)).sqrt()[:, None]
    torch.testing.assert_close(jump(exact(spread), z, t, r), wanted)
    direct = z * ((1 - (path_variance(r, spread) / path_variance(t, spread)).sqrt()) / (t - r))[:, None]
    torch.testing.assert_close(gaussian_velocity(z, r, t, spread), direct)
    velocity = z * ((t - (1 - t) * spread) / path_variance(t, spread))[:, None]
    torch.testing.assert_close(gaussian_velocity(z, t, t, spread), velocity)


@pytest.mark.parametrize("spread", SPREADS)
def test_jumps_compose_and_many_steps_equal_one(spread):
    z = torch.randn(5, 2, generator=source(), dtype=DOUBLE)
    one = torch.ones(5, dtype=DOUBLE)
    there = jump(exact(spread), jump(exact(spread), z, 0.9 * one, 0.4 * one), 0.4 * one, 0.1 * one)
    torch.testing.assert_close(there, jump(exact(spread), z, 0.9 * one, 0.1 * one))
    torch.testing.assert_close(jump(exact(spread), z, 0.3 * one, 0.3 * one), z)
    once = sample(exact(spread), z, steps=1)
    torch.testing.assert_close(once, z * math.sqrt(spread))
    torch.testing.assert_close(sample(exact(spread), z, steps=7), once)
    torch.testing.assert_close(sample(exact(spread), z, steps=[1.0, 0.8, 0.05, 0.0]), once)


@pytest.mark.parametrize("jvp", ["func", "finite_difference"])
def test_meanflow_identity_holds_at_the_exact_average_velocity(jvp):
    """With the marginal velocity in place of noise - x the residual vanishes point by point."""
    spread = 0.7
    z = torch.randn(6, 3, generator=source(), dtype=DOUBLE)
    r, t = column(0.0, 0.1, 0.3, 0.5, 0.2, 0.7), column(0.4, 0.8, 0.9, 0.5, 0.99, 1.0)
    velocity = gaussian_velocity(z, t, t, spread)
    target = meanflow_target(exact(spread), z, r, t, velocity, jvp=jvp)
    tolerance = 1e-6 if jvp == "func" else 2e-3
    torch.testing.assert_close(target, gaussian_velocity(z, r, t, spread), rtol=0, atol=tolerance)


def test_meanflow_residual_is_zero_in_expectation():
    spread, rows = 0.7, 200_000
    x = math.sqrt(spread) * torch.randn(rows, 1, generator=source(1), dtype=DOUBLE)
    noise = torch.randn(rows, 1, generator=source(2), dtype=DOUBLE)
    t, r = torch.full((rows,), 0.8, dtype=DOUBLE), torch.full((rows,), 0.2, dtype=DOUBLE)
    z = (1 - t[:, None]) * x + t[:, None] * noise
    residual = gaussian_velocity(z, r, t, spread) - meanflow_target(exact(spread), z, r, t, noise - x)
    slope = float((residual * z).mean() / (z * z).mean())
    error = float((residual * z).std() / (z * z).mean()) / math.sqrt(rows)
    assert abs(slope) < 4 * error
    assert error < 0.01


def test_total_derivative_against_autograd():
    z = torch.randn(4, 3, generator=source(), dtype=DOUBLE)
    v = torch.randn(4, 3, generator=source(1), dtype=DOUBLE)
    r, t = column(0.1, 0.2, 0.0, 0.3), column(0.5, 0.9, 1.0, 0.303)
    found = total_derivative(wavy, z, r, t, v)
    h = 1e-6
    wanted = (wavy(z + h * v, r, t + h) - wavy(z - h * v, r, t - h)) / (2 * h)
    torch.testing.assert_close(found, wanted, rtol=1e-7, atol=1e-7)
    approximate = total_derivative(wavy, z, r, t, v, jvp="finite_difference")
    torch.testing.assert_close(approximate, found, rtol=0, atol=0.02)
    inner = slice(0, 2)  # central differences, where both neighbours lie within [r, 1]
    torch.testing.assert_close(approximate[inner], found[inner], rtol=0, atol=2e-4)


def test_finite_difference_asks_for_no_time_outside_the_interval():
    def watchful(z, r, t):
        assert bool((t <= 1).all())
        assert bool((t >= r).all())
        return wavy(z, r, t)

    z = torch.randn(3, 3, generator=source(), dtype=DOUBLE)
    total_derivative(watchful, z, column(0.0, 0.5, 0.999), column(1.0, 0.501, 1.0), z, jvp="finite_difference")


def test_equal_times_give_the_velocity_exactly():
    z = torch.randn(4, 3, generator=source())
    v = torch.randn(4, 3, generator=source(1))
    t = torch.tensor([0.2, 0.5, 0.9, 1.0])
    assert torch.equal(meanflow_target(small_network(), z, t, t, v), v)


@pytest.mark.parametrize("power", [0.0, 0.5, 1.0])
def test_meanflow_loss_is_the_weighted_regression(power):
    x, noise = torch.randn(4, 3, generator=source()), torch.randn(4, 3, generator=source(1))
    r, t = torch.tensor([0.1, 0.3, 0.6, 0.2]), torch.tensor([0.5, 0.3, 0.9, 1.0])
    network = small_network()
    z = (1 - t[:, None]) * x + t[:, None] * noise
    error = ((network(z, r, t) - meanflow_target(network, z, r, t, noise - x)) ** 2).sum(1)
    wanted = (error / (error.detach() + 0.01) ** power).mean()
    found, parts = meanflow_loss(network, x, times=(r, t), noise=noise, power=power)
    torch.testing.assert_close(found, wanted)
    torch.testing.assert_close(parts["squared_error"], error.detach().mean())
    first = torch.autograd.grad(found, list(network.parameters()))
    second = torch.autograd.grad(wanted, list(network.parameters()))
    for a, b in zip(first, second, strict=True):
        torch.testing.assert_close(a, b)


def test_no_gradient_flows_through_the_target():
    network = small_network()
    z = torch.randn(4, 3, generator=source())
    r, t = torch.tensor([0.1, 0.3, 0.6, 0.2]), torch.tensor([0.5, 0.3, 0.9, 1.0])
    for jvp in ("func", "finite_difference"):
        assert not meanflow_target(network, z, r, t, z, jvp=jvp).requires_grad
    loss, _ = meanflow_loss(network, z, times=(r, t), noise=z.roll(1, 0), power=0)
    target = meanflow_target(network, (1 - t[:, None]) * z + t[:, None] * z.roll(1, 0), r, t, z.roll(1, 0) - z)
    output = network((1 - t[:, None]) * z + t[:, None] * z.roll(1, 0), r, t)
    wanted = torch.autograd.grad(output, list(network.parameters()), grad_outputs=2 * (output - target).detach() / 4)
    for a, b in zip(torch.autograd.grad(loss, list(network.parameters())), wanted, strict=True):
        torch.testing.assert_close(a, b)


def test_times_are_ordered_and_equal_in_their_share():
    for law in ("uniform", "logit_normal"):
        r, t = draw_times(torch.zeros(4000, 2), law=law, equal=0.75, generator=source())
        assert float((r == t).double().mean()) == 0.75
        assert bool((r <= t).all())
        assert 0 < float(r.min()) < float(t.max()) < 1
    middle = torch.special.logit(draw_times(torch.zeros(40_000, 2), equal=0.0, generator=source())[1])
    assert float(middle.mean()) == pytest.approx(-0.4 + 1 / math.sqrt(math.pi), abs=0.02)  # larger of two normals


def test_delta_flow_matching_is_an_affine_change_of_the_target():
    """Over the other row: |a - v|^2 - l E|a - w|^2 = (1-l) |a - (v - l E w)/(1-l)|^2 + a constant."""
    lam, mean = 0.05, column(0.4, -1.0)
    v = column(1.0, 2.0)
    others = mean + torch.randn(1000, 2, generator=source(), dtype=DOUBLE)
    others = others - others.mean(0) + mean

    def both(a):
        pair = ((a - v) ** 2).sum() - lam * ((a - others) ** 2).sum(1).mean()
        affine = (1 - lam) * ((a - (v - lam * mean) / (1 - lam)) ** 2).sum()
        return float(pair - affine)

    assert both(column(0.0, 0.0)) == pytest.approx(both(column(-3.0, 5.0)), abs=1e-9)


def test_delta_loss_of_a_constant_network_has_its_least_value_at_the_affine_target():
    """Of E v = -mean(x) for every row, the constant of least loss is E v itself, whatever the weight."""
    x = torch.randn(20_000, 2, generator=source(), dtype=DOUBLE) + column(1.0, -2.0)
    constant = torch.zeros(2, dtype=DOUBLE, requires_grad=True)
    loss, parts = delta_flow_matching_loss(lambda z, r, t: constant.expand_as(z), x, weight=0.3, generator=source(3))
    (slope,) = torch.autograd.grad(loss, constant)
    torch.testing.assert_close(slope, -2 * (1 - 0.3) * column(-1.0, 2.0), rtol=0, atol=0.06)
    assert float(loss) == pytest.approx(float(parts["attraction"] - 0.3 * parts["repulsion"]))


def test_repulsion_touches_rows_of_equal_times_alone():
    network, x, noise = small_network(), torch.randn(4, 3, generator=source()), torch.randn(4, 3, generator=source(1))
    r, t = torch.tensor([0.2, 0.5, 0.1, 0.3]), torch.tensor([0.2, 0.5, 0.7, 0.9])
    plain, _ = meanflow_loss(network, x, times=(r, t), noise=noise, power=0)
    repelled, _ = meanflow_loss(network, x, times=(r, t), noise=noise, power=0, repulsion=0.1)
    z, v = (1 - t[:, None]) * x + t[:, None] * noise, noise - x
    away = ((network(z, r, t) - v.roll(1, 0)) ** 2).sum(1)[:2].sum() / 4
    torch.testing.assert_close(repelled, plain - 0.1 * away)


def test_adapters_give_identical_samples():
    network = small_network()
    z = torch.randn(6, 3, generator=source())

    def shortcut(x, time, step):
        return -network(x, 1 - time - step, 1 - time)

    def walk(x, steps):
        one = torch.ones(len(x))
        for k in range(steps):
            x = x + shortcut(x, k / steps * one, one / steps) / steps
        return x

    for steps in (1, 2, 4):
        with torch.no_grad():
            wanted = walk(z, steps)
        torch.testing.assert_close(sample(from_shortcut(shortcut), z, steps=steps), wanted)
        torch.testing.assert_close(sample(from_shortcut(to_shortcut(network)), z, steps=steps), wanted)
    r, t = torch.rand(6, generator=source(1)) * 0.5, torch.full((6,), 0.75)
    torch.testing.assert_close(from_shortcut(shortcut)(z, r, t), -shortcut(z, 1 - t, t - r))


def test_shortcut_target_is_the_exact_flow_map_of_gaussian_data():
    """At the exact average velocity one step equals two halves, so that only flow matching has a residual."""
    x = torch.randn(400, 2, generator=source(), dtype=DOUBLE)
    _, parts = shortcut_loss(exact(1.0), x, share=0.5, generator=source(1))
    assert float(parts["consistency"]) < 1e-24
    _, wrong = shortcut_loss(exact(2.0), x, teacher=exact(1.0), share=0.5, generator=source(1))
    assert float(wrong["consistency"]) > 1e-3
    # E |v - v(z, t)|^2 = d / v_t for S = 1, whose mean over t is d pi / 2.
    many = torch.randn(40_000, 2, generator=source(2), dtype=DOUBLE)
    _, parts = shortcut_loss(exact(1.0), many, share=0.25, generator=source(3))
    assert float(parts["flow_matching"]) == pytest.approx(math.pi, rel=0.03)


def test_shortcut_targets_carry_no_gradient():
    network, teacher = small_network(), small_network(5)
    loss, _ = shortcut_loss(network, torch.randn(16, 3, generator=source()), teacher=teacher, generator=source(1))
    loss.backward()
    assert all(parameter.grad is None for parameter in teacher.parameters())
    assert any(parameter.grad is not None for parameter in network.parameters())


def test_flow_map_of_a_network():
    network = small_network()
    flow = NetworkFlowMap(network, (3,))
    noise = torch.randn(5, 3, generator=source(4))
    torch.testing.assert_close(flow.sample(5, steps=2, generator=source(4)), sample(network, noise, steps=2))
    r, t = torch.full((5,), 0.2), torch.full((5,), 0.7)
    torch.testing.assert_close(flow.jump(noise, t, r), noise - 0.5 * flow.u(noise, r, t))


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (lambda z, t: jump(wavy, z, t, t + 0.2), "r = 0.7 and t = 0.5"),
        (lambda z, t: jump(wavy, z, t + 1, t), "t = 1.5"),
        (lambda z, t: jump(wavy, z, t, t - 0.6), "r = -0.1"),
        (lambda z, t: jump(wavy, z, t * math.nan, t), "nan"),
        (lambda z, t: jump(lambda *a: a[0][:, :1], z, t, t), r"shape \(2, 1\)"),
        (lambda z, t: sample(wavy, z, steps=0), "steps is 0"),
        (lambda z, t: sample(wavy, z, steps=[0.0, 1.0]), "fall"),
        (lambda z, t: sample(wavy, z, steps=[1.0]), "two or more"),
        (lambda z, t: meanflow_loss(wavy, z, times=(t + 0.1, t)), "r = 0.6"),
        (lambda z, t: total_derivative(wavy, z, t, t, z, jvp="forward"), "'forward'"),
        (lambda z, t: shortcut_loss(wavy, z, share=0), "share is 0"),
        (lambda z, t: delta_flow_matching_loss(wavy, z, weight=1.0), "weight is 1"),
        (lambda z, t: delta_flow_matching_loss(wavy, z[:1]), "1 rows"),
    ],
)
def test_wrong_calls_are_told(call, told):
    with pytest.raises(InputError, match=told):
        call(torch.zeros(2, 3), torch.full((2,), 0.5))
