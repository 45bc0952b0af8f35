"""Chains and sweeps against models whose posterior is known, and the ways in which a sweep can go wrong."""

import math

import numpy as np
import pytest
import torch
from torch import nn

from workingpapers.foundations.errors import InputError
from workingpapers.sampling.gibbs_bounds import (
    BoundedCrossEntropy,
    SavageLoss,
    TangentLoss,
    TemperatureSweep,
    batch_means_error,
    random_labels,
    zero_one_error,
)
from workingpapers.sampling.gibbs_bounds.chains import average, convergence_warnings


class Constant(nn.Module):
    """One number for every input."""

    def __init__(self):
        super().__init__()
        self.value = nn.Parameter(torch.zeros((), dtype=torch.float64))

    def forward(self, inputs):
        return self.value.expand(len(inputs))


def quadratic(outputs, targets):
    return 1.0 * (outputs - targets) ** 2


def nothing(outputs, targets):
    return torch.zeros(len(targets), dtype=outputs.dtype)


def points(n=40):
    """Return inputs that do not matter and targets of mean 1.2 without spread: the loss is (theta - 1.2)^2."""
    return torch.zeros(n, 1), torch.full((n,), 1.2, dtype=torch.float64)


def blobs(n=60, seed=0):
    generator = torch.Generator().manual_seed(seed)
    targets = torch.randint(2, (n,), generator=generator)
    inputs = torch.randn(n, 2, generator=generator) + 2.0 * (2 * targets[:, None] - 1)
    return inputs, targets


def sweep_of(data=None, **options):
    options = {"betas": [0, 10, 60], "burn_in": 20, "steps": 40, "prior_draws": 20, **options}
    return TemperatureSweep(nn.Linear(2, 1), BoundedCrossEntropy(), data or blobs(), **options)


class TestLosses:
    def test_bounded_cross_entropy_has_its_range(self):
        certain = torch.tensor([60.0, -60.0, 0.0], dtype=torch.float64)
        right = torch.tensor([1, 1, 1])
        raw = BoundedCrossEntropy(normalised=False)
        assert raw(certain, right).tolist() == pytest.approx([-math.log(1 - math.exp(-4)), 4, math.log(2)])
        assert raw.scale == pytest.approx(3.98151, abs=1e-5)
        unit = BoundedCrossEntropy()
        assert unit(certain, right).tolist()[:2] == pytest.approx([0, 1], abs=1e-12)
        assert unit.scale == 1
        swapped = unit(-certain, 1 - right)
        assert swapped.tolist() == pytest.approx(unit(certain, right).tolist())

    def test_two_logits_are_one_logit(self):
        z = torch.linspace(-3, 3, 7, dtype=torch.float64)
        targets = torch.tensor([0, 1, 0, 1, 0, 1, 0])
        pair = torch.stack([-z / 2, z / 2], dim=1)
        for loss in (BoundedCrossEntropy(), SavageLoss(), BoundedCrossEntropy(normalised=False)):
            assert torch.allclose(loss(z, targets), loss(pair, targets))
            assert torch.allclose(loss(z[:, None], targets), loss(pair, targets))

    def test_savage_and_tangent_by_formula(self):
        z, targets = torch.tensor([0.3, -2.0], dtype=torch.float64), torch.tensor([1, 0])
        signed = torch.tensor([0.3, 2.0], dtype=torch.float64)
        assert torch.allclose(SavageLoss()(z, targets), torch.sigmoid(-signed) ** 2)
        tangent = (2 * torch.arctan(signed) - 1) ** 2
        assert torch.allclose(TangentLoss(normalised=False)(z, targets), tangent)
        assert torch.allclose(TangentLoss()(z, targets) * TangentLoss(normalised=False).scale, tangent)
        extreme = torch.tensor([-1e9, 1e9], dtype=torch.float64)
        assert TangentLoss()(extreme, torch.tensor([1, 1])).tolist() == pytest.approx(
            [1, ((math.pi - 1) / (math.pi + 1)) ** 2]
        )

    def test_many_classes(self):
        outputs = torch.tensor([[2.0, 1.0, 0.0], [2.0, 1.0, 0.0], [1.0, 1.0, 0.0]], dtype=torch.float64)
        targets = torch.tensor([0, 1, 1])
        assert zero_one_error(outputs, targets).tolist() == [0, 1, 1]
        p = torch.softmax(outputs, 1)[range(3), targets]
        assert torch.allclose(SavageLoss()(outputs, targets), (1 - p) ** 2)
        assert TangentLoss(normalised=False)(outputs, targets)[0] == (2 * math.atan(1) - 1) ** 2

    def test_errors_of_one_logit(self):
        found = zero_one_error(torch.tensor([1.0, -1.0, 0.0, -2.0]), torch.tensor([1, 1, 1, 0]))
        assert found.tolist() == [0, 1, 1, 0]

    def test_bad_losses_are_refused(self):
        with pytest.raises(InputError, match=r"0.5; it must exceed log 2"):
            BoundedCrossEntropy(0.5)
        with pytest.raises(InputError, match=r"\(2, 3, 4\)"):
            SavageLoss()(torch.zeros(2, 3, 4), torch.zeros(2))


class TestChains:
    def test_independent_values(self):
        trace = np.random.default_rng(0).normal(size=40_000)
        assert batch_means_error(trace) == pytest.approx(1 / 200, rel=0.35)

    def test_correlated_values(self):
        """The mean of an AR(1) chain of unit innovations has standard error 1 / ((1 - rho) sqrt(T))."""
        rng, rho, found = np.random.default_rng(1), 0.9, []
        for _ in range(60):
            trace = np.zeros(4000)
            noise = rng.normal(size=4000)
            for k in range(1, 4000):
                trace[k] = rho * trace[k - 1] + noise[k]
            found.append(batch_means_error(trace) ** 2)
        assert math.sqrt(np.mean(found)) == pytest.approx(10 / math.sqrt(4000), rel=0.1)

    def test_by_hand(self):
        assert batch_means_error([9, 1, 1, 3, 3], batches=2) == pytest.approx(1)
        assert batch_means_error([5.0] * 10) == 0
        with pytest.raises(InputError, match="4 values"):
            batch_means_error([1, 2, 3])

    def test_a_trend_is_a_drift_and_noise_is_none(self):
        rng = np.random.default_rng(2)
        noise = rng.normal(size=400)
        assert abs(average(noise).drift) < 3
        falling = average(noise - np.linspace(0, 3, 400))
        assert falling.drift < -3
        told = convergence_warnings([0, 10], [average(noise / 1e4 + 0.5), falling])
        assert "At beta 10 the loss still falls" in told[0]
        assert "standard error" in told[1]
        assert len(told) == 2


class TestKnownPosteriors:
    def test_the_quadratic_model(self):
        """Loss (theta - 1.2)^2, prior N(0, 0.8^2): losses and KL in closed form."""
        sweep = TemperatureSweep(
            Constant(), quadratic, points(), betas=[0, 1, 4], prior_std=0.8, lr=0.1, burn_in=100, steps=2500,
            prior_draws=2500, error=nothing, seed=4,
        )  # fmt: skip
        result = sweep.run()
        variance = 1 / (1 / 0.8**2 + 2 * np.array([0, 1, 4]))
        mean = variance * 2 * np.array([0, 1, 4]) * 1.2
        exact = variance + (mean - 1.2) ** 2
        assert (np.abs(result.losses - exact) < 4 * result.loss_standard_errors + 0.02 * exact).all()
        assert (result.loss_standard_errors < [0.06, 0.06, 0.02]).all()

    def test_steps_have_the_variance_of_the_discretised_chain(self):
        """Far from small steps the stationary variance is (eta/beta) / (1 - (1 - eta/2 (a + 1/(s^2 beta)))^2)."""
        beta, eta, s, a = 3.0, 0.6, 0.8, 2.0
        result = TemperatureSweep(
            Constant(), quadratic, points(), betas=[0, beta], prior_std=s, lr=eta, burn_in=100, steps=4000,
            prior_draws=4, error=nothing, seed=1,
        ).run()  # fmt: skip
        variance = eta / beta / (1 - (1 - eta / 2 * (a + 1 / (s**2 * beta))) ** 2)
        centre = a * 1.2 / (a + 1 / (s**2 * beta))
        found = result.losses[1] - (centre - 1.2) ** 2
        assert found == pytest.approx(variance, rel=0.1)
        assert variance > 1.3 / (1 / s**2 + beta * a)

    def test_the_prior_is_sampled_at_beta_zero(self):
        result = TemperatureSweep(
            Constant(), quadratic, points(), betas=[0, 1], prior_std=2.0, prior_draws=1500, burn_in=0, steps=4,
            error=nothing,
        ).run()  # fmt: skip
        assert result.losses[0] == pytest.approx(4 + 1.44, abs=0.6)
        assert len(result.traces[0].losses) == 1500


class TestSweep:
    def test_it_learns_blobs_and_bounds_them(self):
        inputs, targets = blobs(200)
        result = sweep_of((inputs, targets), betas=[0, 12, 50, 200], steps=200, test_data=blobs(500, seed=1)).run()
        assert result.losses[0] > 0.25
        assert result.errors[-1] < 0.05
        assert result.test_errors[-1] < 0.05
        bound = result.bound(0.05)
        assert (bound.bound >= result.test_errors).all()
        assert bound.bound.min() < 0.35
        assert (bound.bound_with_sampling_error >= bound.bound).all()
        assert result.loss_scale == 1
        assert result.n == 200

    def test_the_scale_of_the_loss_makes_no_difference(self):
        raw = BoundedCrossEntropy(normalised=False)
        unit = sweep_of(betas=[0, 10 * raw.scale, 60 * raw.scale], lr=0.5).run()
        wide = TemperatureSweep(
            nn.Linear(2, 1), raw, blobs(), betas=[0, 10, 60], burn_in=20, steps=40, prior_draws=20, lr=0.5 / raw.scale
        ).run()
        assert wide.losses - raw.lowest == pytest.approx(unit.losses * raw.scale, rel=1e-4)
        assert wide.bound().kl == pytest.approx(unit.bound().kl, rel=1e-3)
        assert wide.loss_scale == raw.scale

    def test_the_given_model_and_the_global_generator_stay_as_they_are(self):
        model = nn.Sequential(nn.Linear(2, 3), nn.Dropout(0.5), nn.Linear(3, 1))
        before = [parameter.clone() for parameter in model.parameters()]
        state = torch.get_rng_state()
        TemperatureSweep(
            model, SavageLoss(), blobs(), betas=[0, 5], burn_in=2, steps=4, prior_draws=4
        ).run()  # fmt: skip
        assert all(torch.equal(a, b) for a, b in zip(before, model.parameters(), strict=True))
        assert model.training
        assert torch.equal(state, torch.get_rng_state())

    def test_same_seed_same_numbers(self):
        first, again, other = sweep_of(seed=1).run(), sweep_of(seed=1).run(), sweep_of(seed=2).run()
        assert first.losses.tolist() == again.losses.tolist()
        assert first.losses.tolist() != other.losses.tolist()

    def test_it_repeats_itself_when_run_twice(self):
        sweep = sweep_of()
        assert sweep.run().losses.tolist() == sweep.run().losses.tolist()

    def test_an_interrupted_sweep_ends_with_the_same_numbers(self, tmp_path):
        whole = sweep_of(test_data=blobs(20, 1)).run()
        state = tmp_path / "state.pt"

        class StoppedError(Exception):
            pass

        def stop(fraction, message=""):
            if fraction > 0.7:
                raise StoppedError

        with pytest.raises(StoppedError):
            sweep_of(test_data=blobs(20, 1)).run(state, progress=stop)
        seen = []
        resumed = sweep_of(test_data=blobs(20, 1)).run(state, progress=lambda f, m="": seen.append(f))
        assert min(seen) > 0.6
        assert resumed.losses.tolist() == whole.losses.tolist()
        assert resumed.test_errors.tolist() == whole.test_errors.tolist()
        assert resumed.error_standard_errors.tolist() == whole.error_standard_errors.tolist()

    def test_a_state_of_another_sweep_is_refused(self, tmp_path):
        state = tmp_path / "state.pt"
        sweep_of().run(state)
        with pytest.raises(InputError, match="other data or settings"):
            sweep_of(lr=0.4).run(state)
        with pytest.raises(InputError, match="other data or settings"):
            sweep_of(blobs(seed=5)).run(state)
        state.write_text("nonsense")
        with pytest.raises(InputError, match="no state of a sweep"):
            sweep_of().run(state)

    def test_minibatches_are_unbiased_and_too_hot_ones_are_told(self):
        cool = sweep_of(blobs(200), betas=[0, 12], lr=0.05, batch_size=50, record_every=2, steps=200).run()
        full = sweep_of(blobs(200), betas=[0, 12], lr=0.05, steps=200).run()
        assert cool.losses[1] == pytest.approx(full.losses[1], abs=0.05)
        assert len(cool.traces[1].losses) == 100
        assert not any("minibatches" in warning for warning in cool.warnings)
        hot = sweep_of(blobs(200), betas=[0, 2000], lr=4.0, batch_size=1).run()
        assert any("At beta 2000 the noise of minibatches adds" in warning for warning in hot.warnings)

    def test_heat_is_the_ratio_of_variances(self):
        """One example of two with gradients g and -g: variance g^2 a coordinate."""
        inputs, targets = torch.zeros(8, 1), torch.tensor([1.0, -1.0] * 4, dtype=torch.float64)
        sweep = TemperatureSweep(
            Constant(), lambda outputs, y: outputs * y, (inputs, targets), betas=[0, 7], lr=0.3, batch_size=1,
            error=nothing,
        )  # fmt: skip
        heats = []
        for seed in range(60):
            sweep.generator.manual_seed(seed)
            heats.append(sweep._heat(7.0))
        assert np.mean(heats) == pytest.approx(1.0 * 0.3 * 7 / 4, rel=0.15)

    def test_cold_starts_forget_the_previous_temperature(self):
        cold = {"warm_start": False, "burn_in": 0, "steps": 4, "lr": 1e-9}
        stuck = sweep_of(betas=[0, 1e12, 2e12], **cold).run()
        first, second = stuck.traces[1].losses, stuck.traces[2].losses
        assert np.ptp(first) < 1e-6
        assert abs(first[0] - second[0]) > 1e-3
        warm = sweep_of(betas=[0, 1e12, 2e12], **{**cold, "warm_start": True}).run()
        assert abs(warm.traces[1].losses[0] - warm.traces[2].losses[0]) < 1e-6
        assert abs(warm.traces[1].losses[0] - warm.traces[0].losses[-1]) < 1e-6

    def test_default_temperatures(self):
        found = TemperatureSweep(nn.Linear(2, 1), SavageLoss(), blobs(64)).betas
        assert found.tolist() == [0, 4, 8, 16, 32, 64, 128, 256, 512, 1024]

    def test_divergence_is_told_at_its_step(self):
        sweep = TemperatureSweep(Constant(), quadratic, points(), betas=[0, 1], lr=50.0, error=nothing)
        with pytest.raises(InputError, match=r"at step \d+ of beta 1: the chain diverged; take an lr smaller than 50"):
            sweep.run()

    @pytest.mark.parametrize(
        ("options", "words"),
        [
            ({"betas": [1, 2]}, "first beta is 1"),
            ({"prior_std": 0}, "prior_std is 0"),
            ({"lr": math.inf}, "lr is inf"),
            ({"steps": 3}, "steps=3"),
            ({"record_every": 0}, "record_every=0"),
            ({"batch_size": 61}, "batch_size is 61"),
            ({"data": (torch.zeros(9, 2), torch.zeros(8))}, "9 inputs and 8 targets"),
            ({"data": (torch.zeros(7, 2), torch.zeros(7))}, "7 inputs and 7 targets"),
        ],
    )
    def test_bad_values_are_named_before_any_work(self, options, words):
        with pytest.raises(InputError, match=words):
            sweep_of(**options)

    def test_a_loss_that_is_averaged_and_a_model_without_parameters_are_refused(self):
        with pytest.raises(InputError, match=r"shape \(\) for 60 examples"):
            TemperatureSweep(nn.Linear(2, 1), lambda z, y: (z[:, 0] - y).square().mean(), blobs(), betas=[0, 1]).run()
        with pytest.raises(InputError, match=r"is 2; the error must lie in \[0, 1\]"):
            sweep_of(error=lambda z, y: torch.full((len(y),), 2.0)).run()
        with pytest.raises(InputError, match="no parameter"):
            TemperatureSweep(nn.Flatten(), SavageLoss(), blobs())

    def test_random_labels_are_balanced_and_independent(self):
        targets = torch.arange(9000) % 3
        found = random_labels(targets, 3, torch.Generator().manual_seed(0))
        assert found.dtype == targets.dtype
        assert (torch.bincount(found) / 9000).tolist() == pytest.approx([1 / 3] * 3, abs=0.02)
        assert float((found == targets).double().mean()) == pytest.approx(1 / 3, abs=0.02)
        with pytest.raises(InputError, match="1 classes"):
            random_labels(targets, 1, torch.Generator())
