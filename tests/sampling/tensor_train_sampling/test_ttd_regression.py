"""Alternating least squares: recovery, the plain limit, one coordinate, the dual rows, the additive start."""

import math

import pytest
import torch

from workingpapers.foundations.densities import MultiWell
from workingpapers.foundations.errors import InputError
from workingpapers.sampling.tensor_train_sampling.als import additive_fit, als_fit, design_rows, solve_ridge
from workingpapers.sampling.tensor_train_sampling.bases import Legendre
from workingpapers.sampling.tensor_train_sampling.train import FunctionalTT


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def uniform(count, dim, seed=1):
    return 2 * torch.rand(count, dim, generator=generator(seed), dtype=torch.float64) - 1


BASES = [Legendre(-1, 1, 4)] * 4
DOF = 4 * 2 + 2 * (2 * 4 * 2) + 4 * 2


@pytest.mark.parametrize("with_noise", [False, True])
def test_a_train_is_recovered_from_more_than_three_times_its_coefficients(with_noise):
    truth = FunctionalTT.random(BASES, 2, generator(3))
    x = uniform(4 * DOF, 4)
    noise = 0.2 * torch.randn(x.shape, generator=generator(4), dtype=torch.float64) if with_noise else None
    y = truth.value(x)
    if noise is not None:
        y = y + (noise * truth.grad(x)).sum(1)
    fit = als_fit(FunctionalTT.random(BASES, 2, generator(5)), x, y, noise, tolerance=0, max_sweeps=60)
    fresh = uniform(1000, 4, seed=6)
    error = (fit.train.value(fresh) - truth.value(fresh)).norm() / truth.value(fresh).norm()
    assert error < 1e-6
    assert fit.errors[-1] < 1e-12
    assert fit.ridge < 1e-8


def test_without_displacements_the_gradient_term_is_plain_least_squares():
    x = uniform(300, 4)
    y = torch.sin(x.sum(1))
    start = FunctionalTT.random(BASES, 2, generator(5))
    plain = als_fit(start, x, y, None, max_sweeps=4)
    zero = als_fit(start, x, y, torch.zeros_like(x), max_sweeps=4)
    assert plain.errors == zero.errors
    for one, other in zip(plain.train.cores, zero.train.cores, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=0)


def test_one_coordinate_is_one_ridge_regression():
    x = uniform(50, 1)
    y = torch.exp(x[:, 0])
    noise = 0.1 * torch.ones_like(x)
    basis = Legendre(-1, 1, 5)
    fit = als_fit(FunctionalTT.random([basis], 1, generator()), x, y, noise, ridge=0.01, adaptive=False)
    value, first, _ = basis.evaluate(x[:, 0])
    design = value + noise * first
    expected = torch.linalg.solve(design.T @ design / 50 + 0.01 * torch.eye(5, dtype=torch.float64), design.T @ y / 50)
    torch.testing.assert_close(fit.train.cores[0][0, :, 0], expected, rtol=1e-10, atol=1e-10)
    assert fit.sweeps == 1


def test_rows_of_every_core_give_value_plus_derivative_along_the_displacement():
    from workingpapers.sampling.tensor_train_sampling.train import advance_dual, retreat_dual, start_dual

    train = FunctionalTT.random(BASES, 3, generator(8))
    x, noise = uniform(25, 4), uniform(25, 4, seed=2)
    expected = train.value(x) + (noise * train.grad(x)).sum(1)
    functions = [(b.evaluate(x[:, j])[0], noise[:, j, None] * b.evaluate(x[:, j])[1]) for j, b in enumerate(BASES)]
    for active in range(4):
        left, right = start_dual(25), start_dual(25)
        for j in range(active):
            left = advance_dual(left, functions[j], train.cores[j])
        for j in range(3, active, -1):
            right = retreat_dual(right, functions[j], train.cores[j])
        rows = design_rows(left, functions[active], right)
        torch.testing.assert_close(rows @ train.cores[active].flatten(), expected, rtol=1e-10, atol=1e-10)


def test_the_adaptive_ridge_is_a_tenth_of_the_error_over_the_squared_norm():
    x = uniform(400, 4)
    y = torch.cos(3 * x[:, 0] * x[:, 1]) + x[:, 2]
    fit = als_fit(FunctionalTT.random(BASES, 2, generator(1)), x, y)
    mse = float(((fit.train.value(x) - y) ** 2).mean())
    assert fit.ridge == pytest.approx(0.1 * mse / fit.train.norm**2, rel=1e-9)
    assert fit.error == pytest.approx(mse / float(y.var(correction=0)), rel=1e-9)
    fixed = als_fit(FunctionalTT.random(BASES, 2, generator(1)), x, y, ridge=1e-3, adaptive=False)
    assert fixed.ridge == 1e-3


def test_sweeps_never_raise_the_penalised_error_at_a_fixed_ridge():
    x = uniform(400, 4)
    y = torch.cos(3 * x[:, 0] * x[:, 1]) + x[:, 2] * x[:, 3]
    previous = math.inf
    for sweeps in (1, 2, 3, 5):
        fit = als_fit(FunctionalTT.random(BASES, 2, generator(1)), x, y, ridge=1e-3, adaptive=False, tolerance=0,
                      max_sweeps=sweeps)  # fmt: skip
        penalised = float(((fit.train.value(x) - y) ** 2).mean()) + 1e-3 * fit.train.norm**2
        assert penalised <= previous * (1 + 1e-12)
        previous = penalised


def test_the_additive_model_is_exact_for_the_wells_of_ten_coordinates():
    target = MultiWell.shifted(10, 5, 2.0)
    bases = [Legendre(-2.3, 2.3, 6)] * 10
    x = 2.3 * uniform(2000, 10)
    fit = additive_fit(bases, x, -target.log_density(x), ridge=1e-14)
    assert fit.error < 1e-20
    assert fit.train.ranks == (2,) * 9
    fresh = 2.3 * uniform(200, 10, seed=5)
    torch.testing.assert_close(fit.train.value(fresh), -target.log_density(fresh), rtol=1e-7, atol=1e-7)
    noise = 0.1 * uniform(2000, 10, seed=7)
    shifted = -target.log_density(x) - (noise * target.score(x)).sum(1)
    again = additive_fit(bases, x, shifted, noise, ridge=1e-14)
    torch.testing.assert_close(again.train.value(fresh), -target.log_density(fresh), rtol=1e-6, atol=1e-6)


def test_ridge_regression_survives_a_singular_design():
    design = torch.ones(20, 3, dtype=torch.float64)
    solution = solve_ridge(design, torch.full((20,), 6.0, dtype=torch.float64), 0.0)
    assert float(solution.sum()) == pytest.approx(6.0, rel=1e-6)


def test_misfits_are_refused_in_one_sentence():
    train = FunctionalTT.random(BASES, 2, generator())
    x = uniform(10, 4)
    y = x.sum(1)
    for arguments, words in (
        ((x[:, :3], y), "do not fit a train of 4 coordinates"),
        ((x, y[:5]), "do not fit a train"),
        ((x, y, x[:, :2]), "S must have the shape of the points"),
        ((x, y / 0), "not finite"),
    ):
        with pytest.raises(InputError, match=words):
            als_fit(train, *arguments)
