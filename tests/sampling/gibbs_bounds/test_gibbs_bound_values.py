"""The bound against closed forms, enumeration and published numbers."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom

from workingpapers.foundations.errors import InputError
from workingpapers.sampling.gibbs_bounds import (
    calibration_factor,
    catoni_bound,
    gibbs_bound,
    gibbs_kl_from_losses,
    held_out_bound,
    kl_bernoulli,
    kl_bound,
    kl_inverse,
    lever_kl,
    mcallester_bound,
    prior_loss_kl,
    single_draw_bound,
)

MNIST_BETAS = [0, 500, 1000, 2000, 4000, 8000, 16000, 32000, 64000]
MNIST_LOSSES = [0.5022276, 0.1753596, 0.0968487, 0.0712415, 0.0348280, 0.0136879, 0.0056693, 0.0040163, 0.0032930]
MNIST_ERRORS = [0.5022277, 0.1761385, 0.0980016, 0.0739846, 0.0386307, 0.0188449, 0.0084351, 0.0038299, 0.0016276]
MNIST_BOUNDS = [0.527, 0.264, 0.189, 0.167, 0.138, 0.126, 0.117, 0.110, 0.108]
UNIT = st.floats(0, 1)
BUDGET = st.floats(1e-6, 20)


def finite_class(rng, size=200):
    """Return losses of a finite class and a function from beta to its Gibbs posterior under the uniform prior."""
    losses = rng.beta(0.7, 1.5, size)

    def posterior(beta):
        weights = np.exp(-beta * (losses - losses.min()))
        return weights / weights.sum()

    return losses, posterior


class TestBernoulliDivergence:
    def test_known_values(self):
        assert kl_bernoulli(0.5, 0.25) == pytest.approx(0.5 * math.log(2) + 0.5 * math.log(2 / 3))
        assert kl_bernoulli(0, 0.3) == pytest.approx(-math.log(0.7))
        assert kl_bernoulli(1, 0.3) == pytest.approx(-math.log(0.3))
        assert kl_bernoulli(0.2, 0) == math.inf
        assert kl_bernoulli([0, 1], [0, 1]).tolist() == [0, 0]

    @settings(deadline=None, max_examples=50)
    @given(BUDGET)
    def test_inverse_at_zero(self, c):
        assert kl_inverse(0, c) == pytest.approx(1 - math.exp(-c), rel=1e-9)

    @settings(deadline=None, max_examples=50)
    @given(UNIT)
    def test_inverse_without_budget(self, p):
        assert kl_inverse(p, 0) == p

    @settings(deadline=None, max_examples=50)
    @given(UNIT, BUDGET)
    def test_inverse_meets_the_budget_from_the_safe_side(self, p, c):
        q = float(kl_inverse(p, c))
        assert p <= q <= min(1, p + math.sqrt(c / 2) + 1e-12)
        assert q > 1 - 1e-12 or kl_bernoulli(p, q) == pytest.approx(c, rel=1e-4)
        assert q == 1 or kl_bernoulli(p, q) >= c * (1 - 1e-6)

    @settings(deadline=None, max_examples=50)
    @given(UNIT, UNIT, BUDGET, BUDGET)
    def test_inverse_is_monotone(self, p, q, b, c):
        assert kl_inverse(min(p, q), b) <= kl_inverse(max(p, q), b) + 1e-12
        assert kl_inverse(p, min(b, c)) <= kl_inverse(p, max(b, c)) + 1e-12

    def test_it_broadcasts(self):
        found = kl_inverse([[0.1], [0.2]], [0.0, 0.5, 1.0])
        assert found.shape == (2, 3)
        assert found[1, 2] == kl_inverse(0.2, 1.0)


class TestIdentity:
    def test_finite_class_by_enumeration(self):
        losses, posterior = finite_class(np.random.default_rng(3))
        betas = np.linspace(0, 40, 4001)
        means = np.array([posterior(beta) @ losses for beta in betas])
        exact = np.array([posterior(beta) @ np.log(posterior(beta) * len(losses)) for beta in betas])
        trapezoid = gibbs_kl_from_losses(betas, means, "trapezoid")
        assert trapezoid == pytest.approx(exact, abs=1e-5)
        assert (gibbs_kl_from_losses(betas, means) >= exact - 1e-12).all()
        assert (gibbs_kl_from_losses(betas, means, "right") <= exact + 1e-12).all()
        assert np.diff(gibbs_kl_from_losses(betas, means)).min() >= 0

    def test_finite_class_to_six_digits(self):
        losses, posterior = finite_class(np.random.default_rng(4))
        betas = np.linspace(0, 5, 4001)
        means = np.array([posterior(beta) @ losses for beta in betas])
        exact = posterior(5) @ np.log(posterior(5) * len(losses))
        assert gibbs_kl_from_losses(betas, means, "trapezoid")[-1] == pytest.approx(exact, abs=1e-6)

    def test_gaussian_quadratic(self):
        a, c, s = 2.0, 1.5, 0.7
        betas = np.linspace(0, 9, 40_001)
        variance = 1 / (1 / s**2 + betas * a)
        mean = variance * betas * a * c
        losses = a / 2 * (variance + (mean - c) ** 2)
        exact = 0.5 * (variance / s**2 + mean**2 / s**2 - 1 - np.log(variance / s**2))
        assert gibbs_kl_from_losses(betas, losses, "trapezoid") == pytest.approx(exact, abs=1e-6)

    def test_refinement_tightens_the_left_sum(self):
        losses, posterior = finite_class(np.random.default_rng(5))
        exact = posterior(60) @ np.log(posterior(60) * len(losses))
        found = []
        for points in (8, 16, 32, 64):
            betas = np.linspace(0, 60, points + 1)
            found.append(gibbs_kl_from_losses(betas, [posterior(beta) @ losses for beta in betas])[-1])
        assert found == sorted(found, reverse=True)
        assert found[-1] > exact
        assert found[-1] - exact < (found[0] - exact) / 6

    def test_constant_loss_moves_nothing(self):
        assert gibbs_kl_from_losses([0, 1, 10, 1000], [0.3] * 4) == pytest.approx([0] * 4, abs=1e-12)

    def test_every_rule_by_hand(self):
        betas, losses = [0, 2, 5], [0.5, 0.3, 0.1]
        assert gibbs_kl_from_losses(betas, losses) == pytest.approx([0, 1 - 0.6, 1 + 0.9 - 0.5])
        assert gibbs_kl_from_losses(betas, losses, "right") == pytest.approx([0, 0, 0.6 + 0.3 - 0.5])
        assert gibbs_kl_from_losses(betas, losses, "trapezoid") == pytest.approx([0, 0.2, 0.9])


class TestGibbsBound:
    def test_published_numbers(self):
        found = gibbs_bound(MNIST_BETAS, MNIST_LOSSES, MNIST_ERRORS, 8000, 0.01)
        assert found.bound == pytest.approx(MNIST_BOUNDS, abs=6e-4)
        assert found.best == 8
        assert found.warnings == ()

    def test_published_numbers_at_the_scale_of_the_sampler(self):
        scale = 4 + math.log(1 - math.exp(-4))
        found = gibbs_bound(MNIST_BETAS, MNIST_LOSSES, MNIST_ERRORS, 8000, 0.01, scale=scale)
        assert found.bound[[2, 8]] == pytest.approx([0.303, 0.348], abs=6e-4)

    def test_published_calibration(self):
        found = gibbs_bound(MNIST_BETAS, MNIST_LOSSES, MNIST_ERRORS, 8000, 0.01, calibration=0.770)
        assert found.heuristic_calibrated_bound[8] == pytest.approx(0.086, abs=1.1e-3)
        assert found.heuristic_calibrated_bound[2] == pytest.approx(0.177, abs=1.1e-3)
        assert found.bound[8] == pytest.approx(0.108, abs=6e-4)

    def test_no_movement_at_beta_zero(self):
        found = gibbs_bound([0, 100], [0.5, 0.2], [0.5, 0.2], 500, 0.05)
        assert found.kl[0] == 0
        assert found.bound[0] == kl_inverse(0.5, math.log(2 * math.sqrt(500) / 0.05) / 500)
        assert found.bound[1] == kl_inverse(0.2, (100 * 0.3 + math.log(2 * math.sqrt(500) / 0.05)) / 500)
        assert found.bound == pytest.approx(kl_bound([0.5, 0.2], [0, 30], 500, 0.05))

    @pytest.mark.parametrize("s", [0.25, 3.98151, 17.0])
    def test_loss_and_temperature_may_change_scale_together(self, s):
        betas, losses = np.array(MNIST_BETAS), np.array(MNIST_LOSSES)
        plain = gibbs_bound(betas, losses, MNIST_ERRORS, 8000)
        moved = gibbs_bound(s * betas, losses / s, MNIST_ERRORS, 8000)
        assert moved.kl == pytest.approx(plain.kl)
        assert moved.bound == pytest.approx(plain.bound)
        # The trap: losses reported in another unit than that of the sampler need the scale.
        reported = gibbs_bound(betas, losses / s, MNIST_ERRORS, 8000, scale=s, sampler_scale=s, reported_scale=1)
        assert reported.bound == pytest.approx(plain.bound)
        assert abs(gibbs_bound(betas, losses / s, MNIST_ERRORS, 8000).bound[-1] - plain.bound[-1]) > 0.05

    def test_a_contradiction_of_scales_is_refused(self):
        with pytest.raises(InputError, match=r"the scale must be 3.98 and not 1"):
            gibbs_bound(MNIST_BETAS, MNIST_LOSSES, MNIST_ERRORS, 8000, sampler_scale=3.98, reported_scale=1)
        with pytest.raises(InputError, match=r"the scale must be 1 and not 3.98"):
            gibbs_bound(MNIST_BETAS, MNIST_LOSSES, MNIST_ERRORS, 8000, scale=3.98, sampler_scale=1, reported_scale=1)

    def test_noise_enters_the_unfavourable_way(self):
        betas, losses, errors = [0, 10, 30], [0.5, 0.3, 0.2], [0.5, 0.3, 0.2]
        found = gibbs_bound(
            betas, losses, errors, 100, loss_standard_errors=[0.01, 0.02, 0.03], error_standard_errors=[0, 0, 0.01],
            deviations=2,
        )  # fmt: skip
        kl = 10 * 0.5 + 20 * 0.3 - 30 * 0.2 + 2 * (10 * 0.01 + 20 * 0.02 + 30 * 0.03)
        expected = kl_inverse(0.22, (kl + math.log(20 / 0.05)) / 100)
        assert found.bound_with_sampling_error[2] == pytest.approx(expected)
        assert (found.bound_with_sampling_error[1:] > found.bound[1:]).all()
        assert gibbs_bound(betas, losses, errors, 100).bound_with_sampling_error is None

    def test_a_rising_loss_warns_and_never_lowers_the_kl(self):
        betas, losses = [0, 10, 20, 40], [0.5, 0.2, 0.25, 0.24]
        found = gibbs_bound(betas, losses, losses, 100)
        assert len(found.warnings) == 1
        assert "from beta 10 to 20" in found.warnings[0]
        assert found.kl.tolist() == sorted(found.kl.tolist())
        assert found.kl[2] == found.kl[1] == pytest.approx(3)
        noisy = {"loss_standard_errors": [0, 0.02, 0.02, 0.01]}
        assert gibbs_bound(betas, losses, losses, 100, **noisy).warnings == ()
        assert gibbs_bound(betas, losses, losses, 100, loss_standard_errors=[0, 0.01, 0.01, 0.01]).warnings

    @pytest.mark.parametrize(
        ("change", "words"),
        [
            ({"betas": [1, 2]}, "first beta is 1"),
            ({"betas": [0, 0]}, "must increase"),
            ({"betas": [0, math.nan]}, "finite numbers"),
            ({"surrogate_losses": [0.1]}, r"shape \(1,\)"),
            ({"surrogate_losses": [0.1, math.inf]}, "is inf"),
            ({"errors": [0.5, 1.2]}, r"1.2; it must lie in \[0, 1\]"),
            ({"errors": [0.5, math.nan]}, "nan"),
            ({"n": 7}, "n is 7"),
            ({"delta": 0}, "delta is 0"),
            ({"delta": 1}, "delta is 1"),
            ({"scale": 0}, "scale is 0"),
            ({"loss_standard_errors": [0, -0.1]}, "not negative"),
        ],
    )
    def test_bad_values_are_named(self, change, words):
        given = {"betas": [0, 5], "surrogate_losses": [0.5, 0.2], "errors": [0.5, 0.2], "n": 50, **change}
        with pytest.raises(InputError, match=words):
            gibbs_bound(**given)

    def test_an_unknown_rule_and_a_negative_budget_are_refused(self):
        with pytest.raises(InputError, match="'middle'"):
            gibbs_kl_from_losses([0, 1], [1, 0], "middle")
        with pytest.raises(InputError, match="-1"):
            kl_inverse(0.2, -1)


class TestSingleDraw:
    def test_by_hand_and_with_the_union_bound(self):
        betas, losses = [0, 10, 30], [0.5, 0.3, 0.2]
        found = single_draw_bound(betas, losses, [0.4, 0.35, 0.1], [0.3, 0.3, 0.1], 100, 0.05)
        price = math.log(2 * 10 * 3 / 0.05)
        assert found[2] == pytest.approx(float(kl_inverse(0.1, (10 * 0.5 + 20 * 0.3 - 30 * 0.1 + price) / 100)))
        assert found[0] == pytest.approx(float(kl_inverse(0.3, price / 100)))

    def test_log_density_is_that_of_the_posterior(self):
        """On a fine grid the budget is log dG/dpi of the very hypothesis, plus the price of delta."""
        losses, posterior = finite_class(np.random.default_rng(6))
        betas = np.linspace(0, 30, 8001)
        means = np.array([posterior(beta) @ losses for beta in betas])
        h, n, delta = int(np.argmin(losses)), 60, 0.5
        draws = np.full(len(betas), losses[h])
        bound = single_draw_bound(betas, means, draws, np.full(len(betas), 0.1), n, delta)[-1]
        density = math.log(posterior(30)[h] * len(losses))
        budget = n * kl_bernoulli(0.1, bound) - math.log(2 * math.sqrt(n) * len(betas) / delta)
        assert budget == pytest.approx(density, abs=0.02)


class TestCalibration:
    def test_it_is_the_smallest_factor_that_reaches_chance(self):
        betas, losses, errors = [0, 100, 400], [0.5, 0.45, 0.4], [0.5, 0.4, 0.3]
        factor = calibration_factor(betas, losses, errors, 500, chance=0.5)
        kl = gibbs_bound(betas, losses, errors, 500).kl

        def lowest(f):
            return kl_bound(errors[1:], f * kl[1:], 500, 0.05).min()

        assert lowest(factor) >= 0.5 - 1e-12
        assert lowest(factor * (1 - 1e-6)) < 0.5
        doubled = calibration_factor(betas, losses, errors, 500, chance=0.5, scale=2)
        assert doubled == pytest.approx(factor / 2, rel=1e-6)

    def test_the_first_temperature_does_not_count(self):
        factor = calibration_factor([0, 100], [0.5, 0.4], [0.0, 0.5], 500)
        assert factor == 0.1

    def test_what_cannot_be_calibrated_is_refused(self):
        with pytest.raises(InputError, match="No factor up to 100"):
            calibration_factor([0, 100], [0.5, 0.5], [0.5, 0.1], 10_000)
        with pytest.raises(InputError, match="above zero"):
            calibration_factor([0], [0.5], [0.5], 100)


class TestBaselines:
    def test_prior_loss_is_one_interval_of_the_integral(self):
        betas, losses = [0, 10, 30], [0.5, 0.3, 0.2]
        for k in (1, 2):
            expected = gibbs_kl_from_losses([0, betas[k]], [losses[0], losses[k]])[1]
            assert prior_loss_kl(betas, losses)[k] == pytest.approx(expected)
        assert (prior_loss_kl(MNIST_BETAS, MNIST_LOSSES) >= gibbs_kl_from_losses(MNIST_BETAS, MNIST_LOSSES)).all()

    def test_lever_solves_its_quadratic(self):
        beta, n, delta = 30.0, 200, 0.05
        c = math.log(2 * math.sqrt(n) / delta)
        root = math.sqrt(lever_kl([beta], n, delta)[0] + c)
        assert root**2 - c == pytest.approx(beta / math.sqrt(2 * n) * (root + math.sqrt(c)))

    def test_mcallester_is_looser_than_kl(self):
        errors, kl = np.linspace(0, 1, 11), np.linspace(0, 300, 11)
        assert (mcallester_bound(errors, kl, 500, 0.05) >= kl_bound(errors, kl, 500, 0.05) - 1e-12).all()
        assert mcallester_bound([0.1], [12], 200, 0.1)[0] == pytest.approx(
            0.1 + math.sqrt((12 + math.log(20 * math.sqrt(200))) / 400)
        )

    def test_catoni_at_its_best_constant_has_the_budget_of_kl(self):
        """The bound inf over C is kl^-1 without the price of the grid: a fine grid comes near it from above."""
        p, kl, n = 0.1, 30.0, 400
        grid = tuple(np.linspace(0.05, 8, 800))
        budget = (kl + math.log(len(grid) / 0.05)) / n
        assert catoni_bound([p], [kl], n, 0.05, grid)[0] == pytest.approx(float(kl_inverse(p, budget)), abs=1e-4)
        assert catoni_bound([0.9], [4000.0], n, 0.05)[0] == pytest.approx(1, abs=0.01)

    def test_held_out_bound_against_the_exact_binomial_tail(self):
        bound = float(held_out_bound(0.1, 300, 0.05))
        exact_tail = binom.cdf(30, 300, bound)
        assert exact_tail <= 0.05
        assert bound == kl_inverse(0.1, math.log(20) / 300)

    @pytest.mark.parametrize(
        ("call", "words"),
        [
            (lambda: held_out_bound(0.1, 0, 0.05), "0 held-out"),
            (lambda: held_out_bound(0.1, 10, 2), "delta is 2"),
            (lambda: catoni_bound([0.1], [1], 100, 0.05, ()), "positive"),
            (lambda: lever_kl([1], 3, 0.05), "n is 3"),
        ],
    )
    def test_bad_values_are_named(self, call, words):
        with pytest.raises(InputError, match=words):
            call()
