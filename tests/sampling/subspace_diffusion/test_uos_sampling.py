"""Sampling, memorisation, intrinsic dimension and the plan: laws with known answers."""

import numpy as np
import pytest
import torch

from workingpapers.foundations.errors import InputError
from workingpapers.foundations.transport import wasserstein
from workingpapers.sampling.subspace_diffusion.planning import (
    Plan,
    intrinsic_dimension,
    memorisation,
    plan_samples,
)
from workingpapers.sampling.subspace_diffusion.reverse import reverse_diffusion
from workingpapers.sampling.subspace_diffusion.score import UoSScore
from workingpapers.sampling.subspace_diffusion.truth import random_union


class Exact:
    """A known score in the place of a fitted one."""

    def __init__(self, law, size=1000):
        self.law, self.n_samples_, self.n_features_in_ = law, size, law.dim

    def score_ve(self, x, t):
        return self.law.score(x, float(t))

    def last_time(self):
        return 1e-3


class Normal:
    n_samples_, n_features_in_ = 100, 3

    def score_ve(self, x, t):
        return -(x - 2.0) / (0.25 + t)

    def last_time(self):
        return 1e-3


@pytest.mark.parametrize("method", ["em", "ei"])
def test_exact_score_of_a_gaussian_gives_its_moments(method):
    """N(2, 0.25 I): the mean within 4 standard errors and the bias of the grid, the variance within 10 %."""
    drawn = reverse_diffusion(Normal(), 4000, n_steps=150, method=method, last_time=1e-3, first_time=6.0)
    np.testing.assert_allclose(drawn.mean(0), 2.0, atol=0.06)
    np.testing.assert_allclose(drawn.var(0), 0.25, rtol=0.1)


def test_exact_score_gives_the_law_of_planes():
    law = random_union(np.random.default_rng(5), dim=6, subspaces=3, low=2)
    drawn = reverse_diffusion(Exact(law), 400, n_steps=80)
    first, second = (law.sample(400, np.random.default_rng(seed))[0] for seed in (1, 2))
    assert wasserstein(drawn, first, order=1) < 1.25 * wasserstein(first, second, order=1)


def test_last_step_lands_on_the_subspaces(samples, law):
    model = UoSScore(bases=law.bases, threshold="gaussian").fit(samples)
    off = {}
    for last in (True, False):
        drawn = model.sample(100, n_steps=60, final_denoise=last)
        residual = np.stack([drawn - drawn @ basis @ basis.T for basis in law.bases])
        off[last] = np.median(np.linalg.norm(residual, axis=2).min(0))
    assert off[True] < 1e-3
    # Before it, noise of variance 1 - exp(-2 tau) is left in d - k = 4 directions.
    variance = 1 - np.exp(-2 * model.last_time())
    assert off[False] == pytest.approx(np.sqrt(4 * variance), rel=0.25)


def test_one_sample_is_reproduced(law):
    point = law.bases[0] @ np.array([0.7, -0.3])
    model = UoSScore(bases=law.bases[:1], threshold="none", clip=False).fit(np.tile(point, (2, 1)))
    np.testing.assert_allclose(model.sample(20, n_steps=60, last_time=1e-4), np.tile(point, (20, 1)), atol=1e-9)


def test_samples_follow_the_unit_of_the_data_and_the_seed(samples, law):
    options = {"bases": law.bases, "threshold": "gaussian"}
    one = UoSScore(**options).fit(samples).sample(30, n_steps=30, scale="auto")
    thousand = UoSScore(**options).fit(1000 * samples).sample(30, n_steps=30, scale="auto")
    np.testing.assert_allclose(thousand, 1000 * one, rtol=1e-6, atol=1e-5)
    np.testing.assert_array_equal(one, UoSScore(**options).fit(samples).sample(30, n_steps=30, scale="auto"))
    assert np.abs(one - UoSScore(**options).fit(samples).sample(30, n_steps=30, scale="auto", random_state=1)).max() > 0


def test_gaussian_tails_hold_the_paths_that_zeros_let_go(law):
    """Zero scores push paths outward by exp(T); with tails no sample lies far beyond the data."""
    data = law.sample(300, np.random.default_rng(7))[0]
    reach = np.linalg.norm(data, axis=1).max()
    held = UoSScore(bases=law.bases, threshold="gaussian").fit(data).sample(300, n_steps=60)
    gone = UoSScore(bases=law.bases).fit(data).sample(300, n_steps=60)
    assert np.linalg.norm(held, axis=1).max() < 2 * reach
    assert np.linalg.norm(gone, axis=1).max() > 4 * reach


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"n_samples": 0}, "not 0"),
        ({"method": "rk"}, "'rk'"),
        ({"scale": -1.0}, "not -1.0"),
        ({"n_steps": 0}, "not 0 in"),
        ({"first_time": 0.1, "last_time": 0.2}, "first > last"),
    ],
)
def test_bad_options_of_sampling_are_refused(samples, law, options, words):
    with pytest.raises(InputError, match=words):
        UoSScore(bases=law.bases).fit(samples).sample(**options)


def test_a_score_that_is_not_finite_names_the_step():
    class Broken(Normal):
        def score_ve(self, x, t):
            return np.full_like(x, np.nan)

    with pytest.raises(InputError, match="at step 1 of 10"):
        reverse_diffusion(Broken(), 5, n_steps=10)


@pytest.mark.parametrize("dim", [1, 2, 4])
def test_intrinsic_dimension_of_cubes_in_many_coordinates(dim):
    rng = np.random.default_rng(dim)
    basis = np.linalg.qr(rng.standard_normal((15, dim)))[0]
    found = intrinsic_dimension(rng.uniform(-1, 1, (3000, dim)) @ basis.T)
    # The standard error is k / sqrt(n); edges pull it down by a few per cent.
    assert found.value == pytest.approx(dim, rel=0.1)
    assert found.low < found.value < found.high
    assert (found.high - found.low) / found.value == pytest.approx(4 / np.sqrt(3000), rel=0.05)


def test_intrinsic_dimension_by_hand_and_of_a_curve():
    # Two nearest distances of 0, 1, 3, 7, 15 on a line: ratios 3, 2, 3/2, 2, 3/2 (12/8).
    points = np.array([[0.0], [1.0], [3.0], [7.0], [15.0]])
    logs = np.log([3, 2, 3 / 2, 6 / 4, 12 / 8])
    assert intrinsic_dimension(points).value == pytest.approx(4 / logs.sum())
    angle = np.random.default_rng(0).uniform(0, 2 * np.pi, 2000)
    assert intrinsic_dimension(np.stack([np.cos(angle), np.sin(angle)], 1)).value == pytest.approx(1, rel=0.1)
    doubled = np.concatenate([points, points])
    assert intrinsic_dimension(doubled).value == pytest.approx(4 / logs.sum())
    with pytest.raises(InputError, match="5 distinct samples, not 2"):
        intrinsic_dimension([[0.0], [1.0], [1.0]])
    with pytest.raises(InputError, match="grid"):
        intrinsic_dimension(np.stack(np.meshgrid(np.arange(9.0), np.arange(9.0)), -1).reshape(-1, 2))


def test_memorisation_of_copies_and_of_fresh_data(law):
    training, fresh, more = (law.sample(n, np.random.default_rng(n))[0] for n in (600, 401, 402))
    copies = memorisation(training[:100], training, fresh)
    assert copies.ratio == 0
    assert copies.copies == 1
    new = memorisation(more, training, fresh)
    assert new.ratio == pytest.approx(1, abs=0.2)
    assert new.copies == pytest.approx(new.fresh_copies, abs=0.08)
    hand = memorisation([[1.0], [5.0]], [[0.0], [4.0], [10.0]], [[2.0]])
    # 1 is 1 from 0 and 3 from 4; 5 is 1 from 4 and 5 from 0 and 10: only the second is nearer than a third.
    assert (hand.median, hand.fresh_median, hand.copies) == (1.0, 2.0, 0.5)
    assert memorisation([[1.0]], [[0.0], [4.0], [10.0]]).fresh_median == 4.0


def test_plan_inverts_the_rate():
    plan = Plan((100, 400), (1.0, 0.5), 0.1, 2)
    assert plan.slope == pytest.approx(-0.5)
    # C = (1 - 0.2) 10 = 8 at 100 and (0.5 - 0.2) 20 = 6 at 400: the larger; above 1 * 10 = 0.5 * 20 = 10.
    assert plan.constants == pytest.approx((8.0, 10.0))
    assert plan.error(1600) == pytest.approx((0.2, 0.25))
    assert plan.required(0.1) == pytest.approx((6400, 10_000))
    assert Plan((100, 400), (1.0, 0.5), 0.1, 4).exponent == 0.25
    assert Plan((100, 400), (1.0, 0.5), 0.1, 1).exponent == 0.5
    assert Plan((100, 400), (1.0, 0.5), 0.6, 2).required(0.1)[0] == 1
    with pytest.raises(InputError, match="wanted error is -1"):
        plan.required(-1)


def test_pilot_measures_what_it_says(law):
    data = law.sample(480, np.random.default_rng(0))[0]
    plan = plan_samples(data, law.bases, n_steps=40)
    assert plan.sizes == (30, 60, 120, 240)
    assert plan.dim == 2
    assert all(error > 0.8 * plan.floor for error in plan.errors)
    first, second = (law.sample(120, np.random.default_rng(seed))[0] for seed in (1, 2))
    assert plan.floor == pytest.approx(wasserstein(first, second, order=1), rel=0.4)
    with pytest.raises(InputError, match="80 samples, not 40"):
        plan_samples(data[:40], law.bases)


def test_torch_score_takes_batches_of_times(samples, law):
    from workingpapers.sampling.subspace_diffusion.reverse import TorchScore

    model = UoSScore(bases=law.bases).fit(samples)
    x = torch.randn(8, 6, generator=torch.Generator().manual_seed(0))
    times = torch.linspace(0.1, 1.0, 8)
    together = TorchScore(model)(x, times)
    assert together.dtype == torch.float32
    single = torch.cat([TorchScore(model)(x[i : i + 1], times[i]) for i in range(8)])
    torch.testing.assert_close(together, single)
    np.testing.assert_allclose(together.numpy(), model.score_ou(x.numpy(), times.numpy()), rtol=1e-5, atol=1e-5)
