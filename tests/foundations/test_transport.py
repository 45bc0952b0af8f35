"""Distances between samples against closed forms, and other libraries' answers."""

import math

import numpy as np
import pytest
import torch
from scipy import stats

from workingpapers.foundations import transport
from workingpapers.foundations.errors import InputError


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def test_wasserstein_of_a_shift_is_the_shift(rng):
    x = rng.standard_normal((60, 3))
    shift = np.array([1.0, -2.0, 2.0])
    assert transport.wasserstein(x, x + shift) == pytest.approx(3)
    assert transport.wasserstein(x, x + shift, order=1) == pytest.approx(3)
    assert transport.wasserstein(x, x) == pytest.approx(0, abs=1e-6)
    assert transport.sliced_wasserstein(x, x + shift, projections=4000) == pytest.approx(3 / math.sqrt(3), rel=0.05)


def test_wasserstein_is_the_best_assignment_and_takes_other_costs(rng):
    x, y = rng.standard_normal((2, 40, 2))
    from scipy.optimize import linear_sum_assignment

    cost = np.linalg.norm(x[:, None] - y[None], axis=-1)
    rows, columns = linear_sum_assignment(cost**2)
    assert transport.wasserstein(x, torch.from_numpy(y)) == pytest.approx(math.sqrt((cost**2)[rows, columns].mean()))
    assert transport.wasserstein(x, y, cost=2 * cost) == pytest.approx(2 * transport.wasserstein(x, y))


def test_one_dimensional_distances_agree_with_scipy_and_with_the_general_solver(rng):
    x, y = rng.standard_normal(50), 1 + 2 * rng.standard_normal(70)
    assert transport.wasserstein_1d(x, y, order=1) == pytest.approx(stats.wasserstein_distance(x, y))
    assert transport.wasserstein_1d(x, y) == pytest.approx(transport.wasserstein(x[:, None], y[:, None]))


def test_energy_distance_agrees_with_scipy_and_is_centred_on_equal_laws(rng):
    x, y = rng.standard_normal((2, 300))
    # scipy's is the root of the biased one: the means run over all pairs, the zero ones included.
    biased = 2 * np.abs(x[:, None] - y).mean() - np.abs(x[:, None] - x).mean() - np.abs(y[:, None] - y).mean()
    assert stats.energy_distance(x, y) ** 2 == pytest.approx(biased)
    correction = (np.abs(x[:, None] - x).mean() + np.abs(y[:, None] - y).mean()) / 299
    assert transport.energy_distance(x[:, None], y[:, None]) == pytest.approx(biased - correction)
    values = [transport.energy_distance(*rng.standard_normal((2, 40, 2))) for _ in range(300)]
    assert np.mean(values) == pytest.approx(0, abs=4 * np.std(values) / math.sqrt(300))


def test_mmd_of_gaussians_has_its_closed_form(rng):
    # E k(X, X') with the kernel of width h and X - X' ~ N(0, 2 I_d): (1 + 2 / h^2)^(-d/2), and the shift's factor.
    h, d, n = 1.0, 2, 3000
    x, y = rng.standard_normal((n, d)), np.array([1.0, 0.0]) + rng.standard_normal((n, d))
    expected = 2 * (1 + 2 / h**2) ** (-d / 2) * (1 - math.exp(-1 / (2 * (h**2 + 2))))
    assert transport.mmd(x, y, bandwidth=h) == pytest.approx(expected, rel=0.1)
    values = [transport.mmd(*rng.standard_normal((2, 40, 2))) for _ in range(300)]
    assert np.mean(values) == pytest.approx(0, abs=4 * np.std(values) / math.sqrt(300))


def test_weights():
    log_weights = np.log([1.0, 1.0, 2.0]) + 700
    assert transport.log_mean_exp(log_weights) == pytest.approx(math.log(4 / 3) + 700)
    assert transport.effective_share(log_weights) == pytest.approx(16 / 6 / 3)
    assert transport.largest_share(log_weights) == pytest.approx(0.5)
    assert transport.effective_share(np.array([0.0, -np.inf])) == pytest.approx(0.5)
    assert transport.effective_share(np.full(7, -1e4)) == pytest.approx(1)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: transport.wasserstein(np.zeros((3, 2)), np.zeros((3, 1))), "(3, 2) and (3, 1)"),
        (lambda: transport.energy_distance(np.zeros((1, 2)), np.zeros((3, 2))), "of 2 points or more"),
        (lambda: transport.wasserstein([[np.nan]], [[0.0]]), "not finite"),
        (lambda: transport.mmd(np.zeros((3, 1)), np.zeros((3, 1))), "bandwidth must be positive, not 0.0"),
        (lambda: transport.log_mean_exp([np.nan, 0.0]), "neither NaN"),
        (lambda: transport.wasserstein_1d([], [1.0]), "a sample on each side"),
    ],
)
def test_input_that_cannot_be_used_is_named(call, words):
    with pytest.raises(InputError) as error:
        call()
    assert words in str(error.value)
