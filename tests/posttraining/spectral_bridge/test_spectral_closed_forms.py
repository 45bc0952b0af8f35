"""The mathematics of a layer against values known in closed form."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from workingpapers.posttraining.spectral_bridge import (
    balance,
    constant_friction_path,
    effective_rank,
    friction_penalty,
    gaussian_flow,
    implicit_friction,
    law_constant,
    mode_precision,
    surviving,
)


def normal(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def test_path_under_constant_friction_has_the_known_value_and_solves_its_equation():
    assert constant_friction_path(6.0, 1.0, 0.3, 0.01) == pytest.approx(0.6893, abs=5e-5)
    sigma, step = 0.01, 1e-3
    for _ in range(6000):
        sigma += step * 2 * sigma * (1.0 - 0.3 - sigma)
    assert sigma == pytest.approx(constant_friction_path(6.0, 1.0, 0.3, 0.01), abs=1e-3)


def test_the_factored_flow_follows_the_path_of_its_singular_value():
    left, right, step = normal(5, 1), normal(4, 1, seed=1), 1e-3
    signal = (left / left.norm()) @ (right / right.norm()).T
    b, a = (side / side.norm() * math.sqrt(0.01) for side in (left, right))
    for _ in range(4000):
        residual = b @ a.T - signal
        b, a = b - step * (residual @ a + 0.3 * b), a - step * (residual.T @ b + 0.3 * a)
    assert float((b @ a.T).norm()) == pytest.approx(constant_friction_path(4.0, 1.0, 0.3, 0.01), abs=1e-3)


def test_constant_friction_ends_in_the_soft_threshold_with_the_vectors_of_the_target():
    u, v = torch.linalg.qr(normal(8, 4))[0], torch.linalg.qr(normal(6, 4, seed=1))[0]
    signals = torch.tensor([2.0, 1.2, 0.6, 0.2], dtype=torch.float64)
    target, gamma = (u * signals) @ v.T, torch.full((4,), 0.5, dtype=torch.float64)
    b, a = 0.3 * normal(8, 4, seed=2), 0.3 * normal(6, 4, seed=3)
    for _ in range(6000):
        residual = b @ a.T - target
        b, a = (
            implicit_friction(b - 0.05 * residual @ a, 0.05, gamma),
            implicit_friction(a - 0.05 * residual.T @ b, 0.05, gamma),
        )
    expected = (u * (signals - 0.5).clamp_min(0)) @ v.T
    assert torch.allclose(b @ a.T, expected, atol=1e-6)


def test_the_law_has_its_threshold_and_shrinks_by_half_at_it():
    constant = law_constant(60, 40, 1.0, 400)
    assert constant == pytest.approx(100 / 800)
    assert 2 * math.sqrt(constant) == pytest.approx(math.sqrt(2 * 100 / 400))
    assert (math.sqrt(60) + math.sqrt(40)) / 20 < 2 * math.sqrt(constant)
    at = torch.tensor([2 * math.sqrt(constant)], dtype=torch.float64)
    # At the threshold itself the square root of rounding is all that is left.
    assert float(surviving(at, constant)[0]) == pytest.approx(float(at[0]) / 2, rel=1e-6)
    assert float(surviving(at - 1e-9, constant)[0]) == 0
    for s in (0.8, 1.5, 3.0):
        sigma = float(surviving(torch.tensor([s], dtype=torch.float64), constant)[0])
        assert sigma * (s - sigma) == pytest.approx(constant)
        assert sigma > s / 2


def test_the_threshold_meets_the_edge_of_noise_for_square_matrices_alone():
    for rows, columns in ((50, 50), (100, 20), (7, 300)):
        threshold = 2 * math.sqrt(law_constant(rows, columns, 1.3, 900))
        edge = 1.3 * (math.sqrt(rows) + math.sqrt(columns)) / 30
        assert threshold == pytest.approx(edge) if rows == columns else threshold > edge * 1.01
    assert law_constant(3, 4, 2.0, 10, temperature=3.0) == pytest.approx(3 * 7 * 4 / 20)


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 9), st.integers(1, 9), st.integers(1, 12), st.integers(0, 1000))
def test_balancing_keeps_the_product_and_is_a_gauge(rows, columns, rank, seed):
    left, right = normal(rows, rank, seed=seed), normal(columns, rank, seed=seed + 1)
    found = balance(left, right)
    assert torch.allclose(found.left @ found.right.T, left @ right.T, atol=1e-9)
    diagonal = torch.diag(found.sigma)
    assert torch.allclose(found.left.T @ found.left, diagonal, atol=1e-9)
    assert torch.allclose(found.right.T @ found.right, diagonal, atol=1e-9)
    assert torch.allclose(found.left, left @ found.left_map, atol=1e-6)
    assert torch.allclose(found.right, right @ found.right_map, atol=1e-6)
    assert bool((found.sigma[:-1] >= found.sigma[1:]).all())
    again = balance(found.left, found.right)
    assert torch.allclose(again.sigma, found.sigma, atol=1e-9)
    assert torch.allclose(again.left @ again.right.T, left @ right.T, atol=1e-9)


def test_balanced_factors_stay_as_they_are_up_to_signs():
    found = balance(normal(9, 3), normal(7, 3, seed=1))
    again = balance(found.left, found.right)
    assert torch.allclose(again.left.abs(), found.left.abs(), atol=1e-9)
    assert torch.allclose(again.left_map.abs(), torch.eye(3, dtype=torch.float64), atol=1e-9)


def test_an_adapter_that_starts_at_zero_can_be_balanced():
    found = balance(torch.zeros(4, 2), torch.randn(3, 2, generator=torch.Generator().manual_seed(0)))
    for value in (found.left, found.right, found.sigma, found.left_map, found.right_map):
        assert bool((value == 0).all())


def test_the_penalty_has_the_gradient_of_the_logarithm():
    left, right, strength = normal(5, 3).requires_grad_(), normal(4, 3, seed=1).requires_grad_(), 0.7
    friction_penalty(left, right, strength).backward()

    def log_penalty(b, a):
        return strength * 9 / 2 * (b.square().sum(0) + a.square().sum(0)).log().sum()

    for factor, other, swapped in ((left, right, False), (right, left, True)):
        for row, mode in ((0, 0), (2, 1), (3, 2)):
            step = torch.zeros_like(factor)
            step[row, mode] = 1e-5
            pair = [(factor + step, other), (factor - step, other)]
            high, low = (log_penalty(*(reversed(one) if swapped else one)) for one in pair)
            assert float(factor.grad[row, mode]) == pytest.approx(float((high - low).detach() / 2e-5), rel=1e-6)


def test_precision_of_a_mode():
    energy = torch.tensor([2.0, 0.0])
    assert mode_precision(energy, 10, epsilon=0.5).tolist() == [4.0, 20.0]
    assert mode_precision(energy, 10, torch.tensor([0.3, 0.0]), 1e-30)[0] == pytest.approx(2.0)


def test_implicit_friction_contracts_keeps_signs_and_agrees_with_the_explicit_step():
    factor, gamma = normal(6, 3), torch.tensor([0.1, 3.0, 50.0], dtype=torch.float64)
    for rate in (1e-4, 1e-1, 1e3):
        moved = implicit_friction(factor, rate, gamma)
        assert bool((moved.abs() < factor.abs()).all())
        assert torch.equal(moved.sign(), factor.sign())
    errors = [
        float((implicit_friction(factor, rate, gamma) - factor * (1 - rate * gamma)).norm()) for rate in (1e-4, 1e-5)
    ]
    assert errors[0] / errors[1] == pytest.approx(100, rel=0.02)
    assert float(implicit_friction(factor, 1e12, gamma).abs().max()) < 1e-9


def test_effective_rank_of_known_spectra():
    assert effective_rank(torch.tensor([1.0, 1.0, 1.0, 0.0])) == pytest.approx(3)
    assert effective_rank(torch.tensor([1.0, 0.0, 0.0])) == pytest.approx(1)
    assert effective_rank(torch.zeros(3)) == effective_rank(torch.zeros(0)) == 0
    spectrum = torch.tensor([3.0, 1.0, 0.5])
    assert effective_rank(7 * spectrum) == pytest.approx(effective_rank(spectrum))
    assert effective_rank(torch.tensor([0.5, 0.5, 1.0])) == pytest.approx(2**1.5)


def test_the_gaussian_flow_reaches_the_quadratic_target_and_follows_its_closed_form():
    root = normal(3, 3)
    precision = root @ root.T + torch.eye(3, dtype=torch.float64)
    centre, start, spread = normal(3, seed=1), normal(3, seed=2), torch.eye(3, dtype=torch.float64) * 0.2

    def follow(step, steps):
        return gaussian_flow(
            lambda mean, _: precision @ (mean - centre), lambda *_: precision, start, spread, step=step, steps=steps
        )

    mean, covariance = follow(1e-2, 3000)
    assert torch.allclose(mean, centre, atol=1e-8)
    assert torch.allclose(covariance, torch.linalg.inv(precision), atol=1e-8)
    mean, covariance = follow(2e-4, 1000)
    decay = torch.linalg.matrix_exp(-0.2 * precision)
    inverse = torch.linalg.inv(precision)
    assert torch.allclose(mean, centre + decay @ (start - centre), atol=2e-3)
    assert torch.allclose(covariance, inverse + decay @ (spread - inverse) @ decay, atol=2e-3)
