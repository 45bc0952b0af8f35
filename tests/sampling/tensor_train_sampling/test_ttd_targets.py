"""Chains against brute-force quadrature, gradients against autograd, and the neural baseline."""

import math

import numpy as np
import pytest
import torch

from workingpapers.foundations.densities import Density, GaussianMixture, MultiWell
from workingpapers.foundations.errors import InputError
from workingpapers.sampling.tensor_train_sampling.chains import GinzburgLandau, Kitagawa, separable_marginal
from workingpapers.sampling.tensor_train_sampling.neural import NeuralControl
from workingpapers.sampling.tensor_train_sampling.paths import sample_weighted, simulate, time_grid


def brute_force(target, reach, nodes=110):
    """Return log Z and the mean of x_1^2 of a target in three coordinates, by a product rule."""
    points, weights = np.polynomial.legendre.leggauss(nodes)
    axis = torch.from_numpy(reach * points)
    grid = torch.cartesian_prod(axis, axis, axis)
    mass = torch.from_numpy(reach * weights)
    log = target.log_density(grid) + torch.cartesian_prod(mass, mass, mass).log().sum(1)
    total = torch.logsumexp(log, dim=0)
    return float(total), float((torch.exp(log - total) * grid[:, 0] ** 2).sum())


@pytest.mark.parametrize(
    ("target", "reach"),
    [
        (GinzburgLandau(3), 3.0),
        (GinzburgLandau(3, 2, delta=1.5, beta=0.8, kappa=0.5), 6.0),
        (Kitagawa([0.5, -1.0, 2.0], 1.5), 11.0),
    ],
)
def test_log_partition_and_marginals_of_chains_are_those_of_brute_force(target, reach):
    log_z, second = brute_force(target, reach)
    # Kitagawa's drift has poles beside the real axis: 110 nodes are right to some 1e-7 there.
    assert target.log_partition == pytest.approx(log_z, abs=1e-6)
    nodes, density = target.marginal(0)
    x, weights = np.polynomial.legendre.leggauss(len(nodes))
    weights = torch.from_numpy(weights) * target.reach
    assert float((weights * density).sum()) == pytest.approx(1, abs=1e-10)
    assert float((weights * density * nodes**2).sum()) == pytest.approx(second, abs=1e-5)
    np.testing.assert_allclose(nodes, target.reach * x)


def test_known_cases_of_chains():
    free = GinzburgLandau(5, 3, delta=2.0, beta=1.0, kappa=0.0)
    wells = MultiWell.shifted(5, 3, 2.0)
    # Without coupling the chain is a product; its parabolas are x^2 where those of the wells are x^2 / 2.
    assert free.log_partition == pytest.approx(wells.log_partition - math.log(2), abs=1e-8)
    # Without nonlinearity the observations are jointly Gaussian.
    y = np.array([0.3, -1.2, 0.8, 2.0])
    root = np.linalg.inv(np.eye(4) - 0.5 * np.eye(4, k=-1))
    covariance = root @ root.T + np.eye(4)
    expected = -0.5 * (y @ np.linalg.solve(covariance, y) + np.linalg.slogdet(2 * np.pi * covariance)[1])
    assert Kitagawa(y.tolist(), 0.0).log_partition == pytest.approx(expected, abs=1e-9)


def test_the_closed_score_is_the_gradient():
    target = GinzburgLandau(6, 4, delta=1.3, beta=0.7, kappa=1.2)
    x = torch.randn(10, 6, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    torch.testing.assert_close(target.score(x), Density.score(target, x))


def test_simulated_series_are_repeatable_and_long_enough():
    assert Kitagawa.simulated(7, 1.5, seed=3).observations == Kitagawa.simulated(7, 1.5, seed=3).observations
    assert Kitagawa.simulated(7).dim == 7


def test_the_marginal_of_a_product_integrates_to_one():
    target = MultiWell.shifted(2, 1, 2.0)
    found = separable_marginal(target, 1, -8.0, 8.0)
    expected = np.exp(-(found.grid.numpy() ** 2) / 2) / math.sqrt(2 * math.pi)
    np.testing.assert_allclose(found.density, expected, atol=1e-10)


@pytest.mark.parametrize(
    ("build", "words"),
    [
        (lambda: GinzburgLandau(3, 4), "no more wells than dimensions"),
        (lambda: GinzburgLandau(3, beta=0.0), "beta=0.0"),
        (lambda: Kitagawa([]), "one finite observation"),
        (lambda: Kitagawa([1.0, math.nan]), "one finite observation"),
    ],
)
def test_bad_targets_are_refused(build, words):
    with pytest.raises(InputError, match=words):
        build()


def test_the_neural_control_starts_as_the_first_policy_and_its_loss_falls():
    target = GaussianMixture([[0.5, -0.5]], 0.6)
    times = time_grid(2.0, 30)
    control = NeuralControl(target, times, hidden=32, seed=0)
    before = control.sample(2000, seed=4)
    first = sample_weighted(control._first, target, times, 2000, torch.Generator().manual_seed(4))
    torch.testing.assert_close(before.log_weights, first.log_weights)
    control.fit(100, batch=64)
    after = control.sample(2000, seed=4)
    assert float(after.log_weights.var()) < float(before.log_weights.var())
    assert after.log_partition == pytest.approx(0, abs=0.05)


def test_the_slope_of_the_neural_log_weights_is_that_of_the_forward_density():
    target = GaussianMixture([[0.5, -0.5]], 0.6)
    times = time_grid(2.0, 10)
    control = NeuralControl(target, times, hidden=8, seed=1)
    control.fit(3, batch=32)
    state = control._generator.get_state()
    weights = control.log_weights(64)
    fresh = torch.Generator()
    fresh.set_state(state)
    assert weights.requires_grad
    # The derivative of log w in the control at fixed paths is -sqrt(tau / 2) noise, summed over steps.
    (slope,) = torch.autograd.grad(weights.sum(), control._network.layers[-1].bias)
    fresh.set_state(state)
    paths = simulate(control.policy, times, 64, 2, fresh)
    expected = -((times.diff()[:, None, None] / 2).sqrt() * paths.noise).sum((0, 1))
    torch.testing.assert_close(slope.double(), expected, rtol=1e-4, atol=1e-4)
