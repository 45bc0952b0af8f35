"""The sampler: signs of the equation, weights, closed forms of Gaussians and products, refusals."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from workingpapers.foundations.densities import FromCallable, GaussianMixture, MultiWell
from workingpapers.foundations.errors import InputError
from workingpapers.sampling.tensor_train_sampling import sampler as sampler_module
from workingpapers.sampling.tensor_train_sampling.als import additive_fit
from workingpapers.sampling.tensor_train_sampling.bases import Legendre
from workingpapers.sampling.tensor_train_sampling.paths import (
    WeightedSamples,
    annealed_langevin,
    sample_weighted,
    simulate,
    time_grid,
)
from workingpapers.sampling.tensor_train_sampling.sampler import HJBSampler, Settings, Value, bsde_rate
from workingpapers.sampling.tensor_train_sampling.train import FunctionalTT

HORIZON = 2.0


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def normal(*shape, seed=0):
    return torch.randn(*shape, generator=generator(seed), dtype=torch.float64)


class Noised:
    """V(x, t) of a Gaussian N(mean, variance I) in closed form, for any number of coordinates."""

    def __init__(self, mean, variance):
        self.mean, self.variance = torch.tensor(mean, dtype=torch.float64), variance

    def spread(self, t):
        return 1 + (self.variance - 1) * math.exp(-2 * (HORIZON - t))

    def value(self, x, t):
        v = self.spread(t)
        away = x - math.exp(-(HORIZON - t)) * self.mean
        return (away**2).sum(1) / (2 * v) + x.shape[1] / 2 * math.log(2 * math.pi * v)

    def gradient(self, x, t):
        return (x - math.exp(-(HORIZON - t)) * self.mean) / self.spread(t)

    @property
    def density(self):
        return GaussianMixture(self.mean[None], math.sqrt(self.variance))


@pytest.mark.parametrize("control_seed", [1, 2])
def test_the_rate_along_paths_is_that_of_the_noised_potential_under_any_control(control_seed):
    law, t, h = Noised([0.7, -0.4, 1.1], 0.4), 1.3, 1e-5
    x, control = normal(20, 3), normal(20, 3, seed=control_seed)
    in_time = (law.value(x, t + h) - law.value(x, t - h)) / (2 * h)
    slope, laplacian = law.gradient(x, t), 3 / law.spread(t)
    # Ito: the drift of V(X_t, t) is V_t + (x + control) . grad V + Laplacian, for the noise sqrt(2) dW.
    drift = in_time + ((x + control) * slope).sum(1) + laplacian
    torch.testing.assert_close(bsde_rate(slope, control), drift, rtol=0, atol=1e-8)


def test_the_stationary_case_has_its_closed_rate_and_a_second_order_residual():
    residuals = []
    for tau in (0.02, 0.01):
        x, noise = normal(50_000, 2), normal(50_000, 2, seed=1)
        after = x + tau * (x - 2 * x) + math.sqrt(2 * tau) * noise
        rate = bsde_rate(after, -2 * after)
        torch.testing.assert_close(rate, 2 - (after**2).sum(1))
        left = (0.5 * (after**2).sum(1) - tau * rate) - 0.5 * (x**2).sum(1) - math.sqrt(2 * tau) * (noise * x).sum(1)
        # What is left is tau (|noise|^2 - d) and higher: mean of order tau^2, spread of order tau.
        assert abs(float(left.mean())) < 6 * tau**2 + 4 * float(left.std()) / math.sqrt(50_000)
        residuals.append(float(left.std()))
    assert residuals[0] / residuals[1] == pytest.approx(2, rel=0.05)


def exact_policy(law, times):
    return lambda x, n: -2 * law.gradient(x, float(times[n]))


def test_the_exact_control_gives_weights_that_become_constant_with_the_steps():
    law = Noised([0.0, 0.0], 0.4)
    spread = []
    for steps in (64, 512):
        times = time_grid(HORIZON, steps, "constant")
        drawn = sample_weighted(exact_policy(law, times), law.density, times, 4000, generator(3))
        spread.append(float(drawn.log_weights.var()))
    # Of order tau; what stays is the law of the start, N(0, I) instead of the noised target's.
    assert spread[0] > 4 * spread[1]
    assert drawn.effective_share > 0.95
    assert abs(drawn.log_partition) < 0.03


def test_weights_of_the_stationary_case_telescope():
    law, steps = Noised([0.0, 0.0], 1.0), 100
    times = time_grid(HORIZON, steps, "constant")
    paths = simulate(exact_policy(law, times), times, 300, 2, generator(3))
    drawn = sample_weighted(exact_policy(law, times), law.density, times, 300, generator(3))
    tau, first, last = HORIZON / steps, paths.points[0], paths.points[-1]
    torch.testing.assert_close(drawn.points, last)
    # The forward and the backward kernel are each other's mirror: only tau / 4 of the ends is left.
    torch.testing.assert_close(drawn.log_weights, tau / 4 * ((first**2).sum(1) - (last**2).sum(1)), rtol=0, atol=1e-10)


def test_weights_are_unbiased_without_any_control():
    target = GaussianMixture([[0.2, -0.1]], 1.1)
    times = time_grid(0.5, 40)
    drawn = sample_weighted(lambda x, n: -2 * x, target, times, 8000, generator(5))
    error = float(drawn.log_weights.exp().std()) / math.sqrt(8000)
    assert abs(math.exp(drawn.log_partition) - 1) < 4 * error < 0.1
    mean = (drawn.normalised()[:, None] * drawn.points).sum(0)
    torch.testing.assert_close(mean, torch.tensor([0.2, -0.1], dtype=torch.float64), rtol=0, atol=0.05)


def test_weights_correct_the_annealed_langevin_policy():
    target = GaussianMixture([[0.5]], 0.7)
    times = time_grid(HORIZON, 60)
    drawn = sample_weighted(annealed_langevin(target, times), target, times, 6000, generator(6))
    assert drawn.effective_share > 0.1
    assert drawn.log_partition == pytest.approx(0.0, abs=0.06)
    assert float(drawn.normalised() @ drawn.points[:, 0]) == pytest.approx(0.5, abs=0.06)


def test_a_gaussian_is_sampled_well_after_one_iteration():
    law = Noised([0.0, 0.0, 0.0], 0.4)
    target = FromCallable(lambda x: -0.5 * (x**2).sum(1) / 0.4, 3)
    sampler = HJBSampler(target, Settings(sizes=3, steps=60, batch=1500, iterations=1, schedule="constant")).fit()
    drawn = sampler.sample(4000)
    assert drawn.log_partition == pytest.approx(1.5 * math.log(2 * math.pi * 0.4), abs=0.03)
    assert drawn.effective_share > 0.85
    # V at the start against its closed form, where the mass is.
    x = normal(500, 3)
    found, expected = sampler.values[0].gradient(x), law.gradient(x, 0.0)
    assert float((found - expected).norm() / expected.norm()) < 0.1


@pytest.fixture(scope="module")
def wells():
    return HJBSampler(MultiWell.shifted(2, 2, 2.0), Settings(steps=100, batch=1500), seed=0).fit()


def noised_slope(x, t):
    """Return d/dx of -log of the noised well (y^2 - 2)^2 by quadrature over y."""
    nodes, weights = np.polynomial.legendre.leggauss(400)
    y, rest = 3.5 * nodes, HORIZON - t
    mean, variance = math.exp(-rest) * y, 1 - math.exp(-2 * rest)
    log = -((x[:, None] - mean) ** 2) / (2 * variance) - (y**2 - 2) ** 2
    mass = weights * np.exp(log - log.max(axis=1, keepdims=True))
    return (mass * (x[:, None] - mean) / variance).sum(1) / mass.sum(1)


def test_a_product_keeps_its_one_dimensional_potentials(wells):
    # Later, few paths cross the barrier at 0, and the fit is too low there.
    for n in (5, 40):
        x = np.linspace(-1.6, 1.6, 25)
        points = torch.from_numpy(np.stack([x, np.full(25, 1.2)], axis=1))
        found = wells.values[n].gradient(points)[:, 0].numpy()
        expected = noised_slope(x, float(wells.times[n]))
        assert np.abs(found - expected).mean() < 0.15 * np.abs(expected).max()
    assert all(record.ranks == (2,) for record in wells.records)


def test_wells_are_weighed_right_and_far_better_than_by_the_first_policy(wells):
    drawn = wells.sample(4000)
    assert drawn.log_partition == pytest.approx(wells.target.log_partition, abs=0.05)
    first = sample_weighted(wells.initial_policy, wells.target, wells.times, 4000, generator(7))
    assert drawn.effective_share > max(0.5, 5 * first.effective_share)
    sides = drawn.normalised()[drawn.points[:, 0] > 0].sum()
    assert float(sides) == pytest.approx(0.5, abs=0.05)


def test_a_constant_added_to_the_density_changes_the_controls_by_rounding_alone():
    target = MultiWell.shifted(2, 1, 1.0)
    lifted = FromCallable(lambda x: target.log_density(x) + 50.0, 2)
    settings = Settings(steps=20, batch=400, sizes=6, iterations=1)
    one, other = HJBSampler(target, settings).fit(), HJBSampler(lifted, settings).fit()
    x = normal(50, 2)
    for n in (0, 10, 19):
        torch.testing.assert_close(one.policy(x, n), other.policy(x, n), rtol=1e-5, atol=1e-5)
    assert other.sample(500).log_partition == pytest.approx(one.sample(500).log_partition + 50, abs=1e-4)


def test_the_gradient_outside_the_inner_box_goes_on_by_the_hessian_and_points_inward():
    bases = [Legendre(-2, 2, 5)] * 2
    x = torch.linspace(-2, 2, 9, dtype=torch.float64)
    square = torch.linalg.lstsq(bases[0].evaluate(x)[0], x[:, None] ** 2).solution[:, 0]
    steep = Value(FunctionalTT.additive(bases, [2 * square, 0.1 * square]), margin=0.1)
    x = torch.tensor([[0.5, 0.5], [3.0, 0.5], [0.5, 3.0]], dtype=torch.float64)
    found = steep.gradient(x)
    # Curvature 4 of the first coordinate is kept; 0.2 of the second is raised to 1 beyond 1.6.
    expected = torch.tensor([[2.0, 0.1], [12.0, 0.1], [2.0, 0.32 + 1.4]], dtype=torch.float64)
    torch.testing.assert_close(found, expected, rtol=1e-8, atol=1e-8)


def test_time_grids_end_at_the_horizon_and_shrink():
    for schedule in ("constant", "linear"):
        times = time_grid(2.0, 50, schedule)
        assert float(times[0]) == 0
        assert float(times[-1]) == 2.0
        sizes = times.diff()
        assert float(sizes[-1] / sizes[0]) == pytest.approx(1.0 if schedule == "constant" else 0.1)


def test_lost_paths_weigh_nothing_and_are_counted():
    target = GaussianMixture([[0.0]], 1.0)

    def policy(x, n):
        return torch.where(x > 1.5, torch.full_like(x, math.nan), -2 * x)

    drawn = sample_weighted(policy, target, time_grid(2.0, 30), 2000, generator(1))
    assert 0.05 < drawn.lost < 0.95
    assert float(drawn.normalised()[~torch.isfinite(drawn.points[:, 0])].sum()) == 0
    nothing = WeightedSamples(torch.zeros(2, 1), torch.full((2,), -math.inf, dtype=torch.float64))
    assert (nothing.effective_share, nothing.largest_share, nothing.log_partition) == (0.0, 1.0, -math.inf)


def test_resampling_follows_the_weights():
    weights = torch.tensor([0.1, 0.2, 0.7], dtype=torch.float64)
    samples = WeightedSamples(torch.arange(3.0, dtype=torch.float64)[:, None], weights.log())
    counts = torch.bincount(samples.resampled(1000, generator())[:, 0].long(), minlength=3)
    assert (counts - 1000 * weights).abs().max() <= 1


def test_paths_outside_the_box_are_left_out_of_the_fit_alone():
    times = time_grid(1.0, 10)
    paths = simulate(lambda x, n: -2 * x, times, 500, 2, generator(2))
    box = torch.tensor([[-1.5, -1.5], [1.5, 1.5]], dtype=torch.float64)
    kept, inside = paths.within(box)
    assert kept.points.shape[1] == int(inside.sum()) < 500
    assert float(kept.points.abs().max()) <= 1.5
    assert all(float(paths.points[:, k].abs().max()) > 1.5 for k in range(500) if not inside[k])


def test_rank_adaptation_cuts_what_is_nothing_and_leaves_room_for_one_more():
    sampler = HJBSampler(GaussianMixture([[0.0, 0.0, 0.0]], 0.8), Settings(sizes=5, ranks=5, rank_tolerance=1e-6))
    bases = [Legendre(-2, 2, 5)] * 3
    additive = FunctionalTT.additive(bases, [normal(5, seed=j) for j in range(3)])
    padded = additive.padded(5, generator(), share=0.0)
    assert padded.ranks == (5, 5)
    assert sampler._adapted(padded).ranks == (3, 3)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"sizes": 0}, "one function or more, not 0"),
        ({"sizes": (3, 3)}, "3 coordinates need 3 basis sizes, not 2"),
        ({"ranks": 0}, "1 or more, not 0"),
        ({"ranks": (2,)}, "3 coordinates have 2 ranks"),
        ({"basis": "legendr"}, "did you mean 'legendre'"),
        ({"margin": 0.5}, "not 0.5"),
        ({"steps": 0}, "one step or more"),
        ({"horizon": 0.0}, "positive horizon"),
        ({"iterations": 0}, "iterations=0"),
    ],
)
def test_settings_that_do_not_fit_are_refused(settings, words):
    with pytest.raises(InputError, match=words):
        HJBSampler(GaussianMixture([[0.0, 0.0, 0.0]], 1.0), Settings(**settings))


def test_bad_densities_and_batches_are_refused_in_one_sentence():
    small = Settings(steps=5, batch=50, sizes=3)
    for target, settings, words in (
        (FromCallable(lambda x: (x**2).sum(1) * math.nan, 2), small, "stayed finite"),
        (FromCallable(lambda x: torch.where(x[:, 0] > 0, -x[:, 0], -math.inf * x[:, 0].abs()), 2), small, "finite"),
        (GaussianMixture([[0.0, 0.0]], 1.0), Settings(steps=5, batch=50, sizes=3, box=0.01), "Only 0 of 50 paths"),
        (GaussianMixture([[0.0, 0.0]], 1.0), Settings(steps=5, batch=20, sizes=9, ranks=3), "larger batch"),
    ):
        with pytest.raises(InputError, match=words) as caught:
            HJBSampler(target, settings).fit()
        assert "\n" not in str(caught.value)
    with pytest.raises(InputError, match="call fit"):
        HJBSampler(GaussianMixture([[0.0]], 1.0), small).sample(3)


@pytest.mark.parametrize("size", [math.nan, 1e300])
def test_an_additive_model_that_is_not_finite_is_told_in_a_sentence(monkeypatch, size):
    sampler = HJBSampler(MultiWell.shifted(2, 2, 2.0), Settings(steps=5, batch=60, sizes=5, iterations=1))

    def spoiled(bases, x, y, noise=None, **_):
        fit = additive_fit(bases, x, y, noise)
        return replace(fit, train=replace(fit.train, cores=tuple(core * size for core in fit.train.cores)))

    monkeypatch.setattr(sampler_module, "additive_fit", spoiled)
    with pytest.raises(InputError, match="no finite numbers"):
        sampler.fit()


def test_a_mixture_on_which_the_ito_term_diverges_is_fitted_without_it():
    mixture = GaussianMixture([[-1.0, -1.0], [1.0, 1.0]], math.sqrt(0.5))
    settings = Settings(ranks=3, steps=100, batch=1500)
    sampler = HJBSampler(mixture, settings).fit()
    assert sampler.fell_back
    drawn = sampler.sample(20_000)
    weights = (drawn.log_weights - drawn.log_weights.max()).exp()
    error = float(weights.std() / weights.mean()) / math.sqrt(len(weights))
    assert abs(drawn.log_partition) < 5 * error < 0.2
    with pytest.raises(InputError, match="finite numbers"):
        HJBSampler(mixture, replace(settings, fallback=False)).fit()


def test_a_killed_fit_goes_on_after_its_last_whole_iteration_and_ends_in_the_same_values(tmp_path):
    target = MultiWell.shifted(2, 2, 2.0)
    settings = Settings(steps=30, batch=800, sizes=5, iterations=2)
    whole = HJBSampler(target, settings, seed=4).fit()
    path = tmp_path / "fit.pt"

    class Killed(Exception):
        pass

    def kill(iteration):
        if iteration == 0:
            raise Killed

    with pytest.raises(Killed):
        HJBSampler(target, settings, seed=4).fit(after=kill, checkpoint=path)
    again = HJBSampler(target, settings, seed=4)
    done = []
    again.fit(after=done.append, checkpoint=path)
    assert done == [1]
    assert again.records == whole.records
    assert again.kept == whole.kept
    for one, other in zip(again.values, whole.values, strict=True):
        assert all(torch.equal(a, b) for a, b in zip(one.train.cores, other.train.cores, strict=True))
        assert one.train.bases == other.train.bases
    finished = HJBSampler(target, settings, seed=4).fit(after=done.append, checkpoint=path)
    assert done == [1]
    assert torch.equal(finished.sample(50).points, whole.sample(50).points)
    with pytest.raises(InputError, match="another seed"):
        HJBSampler(target, settings, seed=5).fit(checkpoint=path)
    with pytest.raises(InputError, match="another batch"):
        HJBSampler(target, replace(settings, batch=801), seed=4).fit(checkpoint=path)
    path.write_text("hello")
    with pytest.raises(InputError, match="no checkpoint of a fit"):
        HJBSampler(target, settings, seed=4).fit(checkpoint=path)
