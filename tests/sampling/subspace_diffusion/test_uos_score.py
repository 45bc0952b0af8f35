"""The score: identities, limits and invariances with known right values."""

import numpy as np
import pytest
import torch
from scipy.special import logsumexp

from workingpapers.foundations.errors import InputError
from workingpapers.sampling.subspace_diffusion.baselines import GaussianMixtureScore, plug_in_score
from workingpapers.sampling.subspace_diffusion.kernels import kernel_sums, lost_share
from workingpapers.sampling.subspace_diffusion.score import UoSScore
from workingpapers.sampling.subspace_diffusion.truth import random_union


def brute(x, data, t):
    """Return score and log density of the empirical law with noise, from d-dimensional kernels."""
    difference = data[None] - x[:, None]
    logs = -(difference**2).sum(-1) / (2 * t) - x.shape[1] / 2 * np.log(2 * np.pi * t)
    weights = np.exp(logs - logsumexp(logs, axis=1, keepdims=True))
    return np.einsum("bn,bnd->bd", weights, difference) / t, logsumexp(logs, axis=1) - np.log(len(data))


def near(samples, t, seed=0):
    return samples[:40] + np.sqrt(t) * np.random.default_rng(seed).standard_normal((40, samples.shape[1]))


class GaussianTruth:
    """The exact score of N(mu, S) with noise of variance t."""

    def __init__(self, mean, covariance):
        self.mean, self.covariance = mean, covariance

    def score_ve(self, x, t):
        return -(x - self.mean) @ np.linalg.inv(self.covariance + t * np.eye(len(self.mean)))


def test_ou_score_of_a_gaussian_is_the_closed_form():
    """With the exact VE score behind the wrapper that samplers call."""
    from workingpapers.sampling.subspace_diffusion.reverse import TorchScore

    rng = np.random.default_rng(0)
    root = rng.standard_normal((4, 4))
    mean, covariance = rng.standard_normal(4), root @ root.T
    x, t = rng.standard_normal((7, 4)), 0.37
    c, variance = np.exp(-t), 1 - np.exp(-2 * t)
    right = -(x - c * mean) @ np.linalg.inv(c**2 * covariance + variance * np.eye(4))
    wrapped = TorchScore(GaussianTruth(mean, covariance))(torch.from_numpy(x), torch.tensor(t, dtype=torch.float64))
    np.testing.assert_allclose(wrapped.numpy(), right, rtol=1e-10)
    # The same law in another unit: X / 3 has mean mu / 3 and covariance S / 9.
    scaled = -(x - c * mean / 3) @ np.linalg.inv(c**2 * covariance / 9 + variance * np.eye(4))
    wrapped = TorchScore(GaussianTruth(mean, covariance), 3.0)(torch.from_numpy(x), torch.tensor(t).double())
    np.testing.assert_allclose(wrapped.numpy(), scaled, rtol=1e-6)


def test_ou_score_of_a_point_mass_is_the_closed_form():
    """All samples in one point, so X_t is N(c x_1, sigma^2 I)."""
    point = np.array([1.0, -2.0, 0.5])
    model = UoSScore(bases=[np.eye(3)], threshold="none", clip=False).fit(np.tile(point, (3, 1)))
    x, t = np.random.default_rng(1).standard_normal((5, 3)), 0.4
    right = -(x - np.exp(-t) * point) / (1 - np.exp(-2 * t))
    np.testing.assert_allclose(model.score_ou(x, t), right, rtol=1e-12)
    np.testing.assert_allclose(model.score_ou(x, np.full(5, t)), right, rtol=1e-12)


@pytest.mark.parametrize("t", [0.003, 0.05, 1.0, 30.0])
def test_without_regularisation_it_is_the_plug_in_score(bare, samples, t):
    x = near(samples, t)
    right, log_density = brute(x, samples, t)
    np.testing.assert_allclose(bare.score_ve(x, t), right, rtol=1e-8, atol=1e-8 * np.abs(right).max())
    np.testing.assert_allclose(bare.log_density_ve(x, t), log_density, rtol=1e-9)
    np.testing.assert_allclose(plug_in_score(samples).score_ve(x, t), right, rtol=1e-8, atol=1e-8 * np.abs(right).max())


def test_regularisation_changes_it(regular, bare, samples):
    x = near(samples, 0.003)
    assert np.abs(regular.score_ve(x, 0.003) - bare.score_ve(x, 0.003)).max() > 1


@pytest.mark.parametrize("t", [0.01, 0.5])
def test_weights_are_shares_of_ambient_kernels(regular, samples, t):
    x = near(samples, t)
    kernels = np.exp(-((x[:, None] - samples[None]) ** 2).sum(-1) / (2 * t))
    share = np.stack([kernels[:, regular.labels_ == i].sum(1) for i in range(3)], 1)
    np.testing.assert_allclose(regular.weights(x, t), share / share.sum(1, keepdims=True), rtol=1e-8, atol=1e-12)


def test_weights_do_not_underflow_in_many_dimensions():
    law = random_union(np.random.default_rng(0), dim=400, subspaces=4, low=2)
    model = UoSScore(bases=law.bases).fit(law.sample(200, np.random.default_rng(1))[0])
    weights = model.weights(law.noised(50, 0.01, np.random.default_rng(2)), 0.01)
    np.testing.assert_allclose(weights.sum(1), 1.0)
    far = model.score_ve(1e6 * np.ones((1, 400)), 1e-6)
    assert np.isfinite(far).all()


def test_true_score_is_the_gradient_of_the_density_by_torch(law):
    """An independent density by torch.distributions, differentiated by torch."""
    t = 0.07
    x = torch.from_numpy(law.noised(20, t, np.random.default_rng(3))).requires_grad_()
    logs = []
    for i, basis in enumerate(map(torch.from_numpy, law.bases)):
        for b in range(2):
            covariance = float(law.spreads[i, b]) ** 2 * basis @ basis.T + t * torch.eye(6, dtype=torch.float64)
            component = torch.distributions.MultivariateNormal(basis @ torch.from_numpy(law.means[i, b]), covariance)
            logs.append(np.log(law.weights[i, b]) + component.log_prob(x))
    log_density = torch.logsumexp(torch.stack(logs), 0)
    gradient = torch.autograd.grad(log_density.sum(), x)[0]
    points = x.detach().numpy()
    np.testing.assert_allclose(law.log_density(points, t), log_density.detach().numpy(), rtol=1e-9)
    np.testing.assert_allclose(law.score(points, t), gradient.numpy(), rtol=1e-7, atol=1e-8)


@pytest.mark.parametrize("t", [0.001, 0.2])
def test_true_score_of_boxes_is_the_gradient_and_its_density_integrates_to_one(t):
    law = random_union(np.random.default_rng(5), dim=3, subspaces=2, low=2, kind="box")
    x = law.noised(30, t, np.random.default_rng(3))
    step = 1e-5
    for axis in range(3):
        shift = step * np.eye(3)[axis]
        slope = (law.log_density(x + shift, t) - law.log_density(x - shift, t)) / (2 * step)
        np.testing.assert_allclose(law.score(x, t)[:, axis], slope, rtol=1e-4, atol=1e-4 * np.sqrt(1 / t))
    line = random_union(np.random.default_rng(1), dim=2, subspaces=2, low=1, kind="box")
    grid = np.linspace(-4, 4, 601)
    points = np.stack(np.meshgrid(grid, grid), -1).reshape(-1, 2)
    mass = np.exp(line.log_density(points, 0.01)).sum() * (grid[1] - grid[0]) ** 2
    assert mass == pytest.approx(1, abs=1e-4)


def test_one_sample(law):
    one = law.bases[0] @ np.array([0.4, -1.0])
    x = np.random.default_rng(0).standard_normal((9, 6))
    free = UoSScore(bases=law.bases[:1], clip=False).fit(one[None])
    np.testing.assert_allclose(free.score_ve(x, 0.3), (one - x) / 0.3, rtol=1e-10)
    clipped = UoSScore(bases=law.bases[:1]).fit(one[None])
    across = x - x @ law.bases[0] @ law.bases[0].T
    np.testing.assert_allclose(clipped.score_ve(x, 0.3), -across / 0.3, rtol=1e-10)


def test_clip_and_threshold(law, samples):
    basis, t = law.bases[0], 0.02
    on_plane = samples[np.abs(samples - samples @ basis @ basis.T).max(1) < 1e-9]
    model = UoSScore(bases=[basis]).fit(on_plane)
    low = 3 * np.random.default_rng(0).standard_normal((500, 2))
    along = model.score_ve(low @ basis.T, t) @ basis
    limit = np.sqrt(2 * np.log(len(on_plane)) / t)
    assert np.linalg.norm(along, axis=1).max() <= limit * (1 + 1e-12)
    open_ended = UoSScore(bases=[basis], threshold="none").fit(on_plane).score_ve(low @ basis.T, t) @ basis
    assert np.linalg.norm(open_ended, axis=1).max() == pytest.approx(limit)
    far = low @ basis.T + 50 * basis[:, 0] + np.linalg.qr(law.bases[0], mode="complete")[0][:, -1]
    across = far - far @ basis @ basis.T
    np.testing.assert_allclose(model.score_ve(far, t), -across / t, rtol=1e-9)


def test_threshold_is_that_of_the_paper_in_low_dimensions():
    """Two samples at 0 and 10 on a line, N = 2: the mean kernel must reach log(2)/2, so |z| <= sqrt(-2t log log 2)."""
    basis, t = np.array([[1.0], [0.0], [0.0]]), 0.5
    model = UoSScore(bases=[basis], clip=False).fit(np.array([[0.0, 0, 0], [10.0, 0, 0]]))
    edge = np.sqrt(-2 * t * np.log(np.log(2)))
    inside, outside = model.score_ve([[0.999 * edge, 0, 0], [1.001 * edge, 0, 0]], t)[:, 0]
    assert inside == pytest.approx(-0.999 * edge / t)
    assert outside == 0
    soft = UoSScore(bases=[basis], clip=False, threshold="soft").fit(np.array([[0.0, 0, 0], [10.0, 0, 0]]))
    assert soft.score_ve([[edge, 0, 0]], t)[0, 0] == pytest.approx(-edge / t / 2)


def test_eta_uses_all_samples_and_the_density_those_of_the_subspace():
    """N = 4 with 1 sample on the first line: its kernel must reach log(4)/4; the clip is sqrt(2 log 4 / t)."""
    bases = [np.eye(3)[:, :1], np.eye(3)[:, 1:2]]
    data = np.array([[1.0, 0, 0], [0, 1.0, 0], [0, 1.1, 0], [0, 1.2, 0]])
    t = 0.5
    model = UoSScore(bases=bases, clip=False).fit(data)
    edge = np.sqrt(-2 * t * np.log(np.log(4) / 4))
    _, low = model._terms(np.array([[1 + 0.999 * edge, 0, 0], [1 + 1.001 * edge, 0, 0]]), np.full(2, t))
    assert low[0][0, 0] == pytest.approx(-0.999 * edge / t)
    assert low[0][1, 0] == 0
    clipped = UoSScore(bases=bases, threshold="none").fit(data)
    assert clipped.score_ve([[9.0, 0, 0]], t)[0, 0] == pytest.approx(-np.sqrt(2 * np.log(4) / t))


def test_across_a_subspace_the_score_is_exact(law, samples):
    basis = law.bases[1]
    across = np.linalg.qr(basis, mode="complete")[0][:, 2:]
    model = UoSScore(bases=[basis]).fit(samples[np.abs(samples - samples @ basis @ basis.T).max(1) < 1e-9])
    x = np.random.default_rng(4).standard_normal((12, 6))
    np.testing.assert_allclose(model.score_ve(x, 0.2) @ across, -x @ across / 0.2, rtol=1e-10)
    noisy = UoSScore(bases=[basis], noise=0.3).fit(samples[:5] @ basis @ basis.T)
    np.testing.assert_allclose(noisy.score_ve(x, 0.2) @ across, -x @ across / 0.5, rtol=1e-10)


def test_rotation_and_order_of_subspaces(law, samples, regular):
    turn = np.linalg.qr(np.random.default_rng(9).standard_normal((6, 6)))[0]
    x = near(samples, 0.05)
    turned = UoSScore(bases=[turn @ basis for basis in law.bases]).fit(samples @ turn.T)
    np.testing.assert_allclose(turned.score_ve(x @ turn.T, 0.05), regular.score_ve(x, 0.05) @ turn.T, atol=1e-9)
    np.testing.assert_allclose(turned.weights(x @ turn.T, 0.05), regular.weights(x, 0.05), atol=1e-10)
    swapped = UoSScore(bases=law.bases[::-1]).fit(samples)
    np.testing.assert_allclose(swapped.score_ve(x, 0.05), regular.score_ve(x, 0.05), atol=1e-10)
    np.testing.assert_allclose(swapped.weights(x, 0.05)[:, ::-1], regular.weights(x, 0.05), atol=1e-10)


def test_large_and_small_noise(regular, samples):
    t = 1e8
    x = np.sqrt(t) * np.random.default_rng(0).standard_normal((20, 6)) * 0.5
    right = -(x - samples.mean(0)) / t
    np.testing.assert_allclose(regular.score_ve(x, t), right, atol=1e-6 * np.abs(right).max())
    weights = regular.weights(samples, 1e-6)
    np.testing.assert_allclose(weights[np.arange(len(samples)), regular.labels_], 1.0, atol=1e-9)


def test_density_integrates_to_one_and_its_slope_is_the_plug_in_score():
    law = random_union(np.random.default_rng(1), dim=2, subspaces=2, low=1)
    data = law.sample(15, np.random.default_rng(2))[0]
    model = UoSScore(bases=law.bases, threshold="none", clip=False).fit(data)
    grid = np.linspace(-5, 5, 501)
    points = np.stack(np.meshgrid(grid, grid), -1).reshape(-1, 2)
    assert np.exp(model.log_density_ve(points, 0.05)).sum() * (grid[1] - grid[0]) ** 2 == pytest.approx(1, abs=1e-6)
    x, step = data + 0.1, 1e-5
    slopes = [
        (model.log_density_ve(x + step * axis, 0.05) - model.log_density_ve(x - step * axis, 0.05)) / (2 * step)
        for axis in np.eye(2)
    ]
    np.testing.assert_allclose(model.score_ve(x, 0.05), np.stack(slopes, 1), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(model.score_samples(x), model.log_density_ve(x, np.expm1(2 * 15.0**-2)))


def test_noise_off_the_subspaces_is_a_gaussian_across(law):
    """With one sample and noise nu the law is N(x_1, t) along and N(0, t + nu) across; auto measures nu."""
    basis = law.bases[0]
    x = np.random.default_rng(0).standard_normal((6, 6))
    model = UoSScore(bases=[basis], threshold="none", clip=False, noise=0.7).fit((basis @ [1.0, 2.0])[None])
    covariance = 0.3 * np.eye(6) + 0.7 * (np.eye(6) - basis @ basis.T)
    normal = torch.distributions.MultivariateNormal(torch.from_numpy(basis @ [1.0, 2.0]), torch.from_numpy(covariance))
    np.testing.assert_allclose(model.log_density_ve(x, 0.3), normal.log_prob(torch.from_numpy(x)).numpy(), rtol=1e-9)
    rng = np.random.default_rng(1)
    low = rng.standard_normal((4000, 2)) @ basis.T
    noisy = low + 0.1 * rng.standard_normal(low.shape)
    assert UoSScore(bases=[basis], noise="auto").fit(noisy).noise_[0] == pytest.approx(0.01, rel=0.05)
    assert UoSScore(bases=[basis], noise="auto").fit(low).noise_[0] == 0
    with pytest.warns(UserWarning, match="off their subspaces"):
        UoSScore(bases=[basis]).fit(noisy)


def test_gate_closes_far_from_every_subspace(law, samples):
    gated = UoSScore(bases=law.bases, gate="paper").fit(samples)
    x = near(samples, 0.05)
    np.testing.assert_allclose(gated.weights(x, 0.05).sum(1), 1.0)
    # C sqrt(t d log(max(e, N d t^(k/2)))) with C = 2, N = 120, d = 6, k = 2, t = 0.05.
    radius = 2 * np.sqrt(0.05 * 6 * np.log(120 * 6 * 0.05))
    across = np.linalg.qr(law.bases[0], mode="complete")[0][:, -1]
    alone = UoSScore(bases=law.bases[:1], gate="paper", noise=1e-9).fit(samples)
    alone.n_samples_ = 120
    weights = alone.weights(np.stack([0.999 * radius * across, 1.001 * radius * across]), 0.05)
    np.testing.assert_array_equal(weights, [[1.0], [0.0]])


def test_blocks_do_not_matter_and_neighbours_lose_no_more_than_the_bound(law, samples, regular):
    x, t = near(samples, 0.02), 0.02
    tiny = UoSScore(bases=law.bases, block=7).fit(samples)
    np.testing.assert_allclose(tiny.score_ve(x, t), regular.score_ve(x, t), atol=1e-10)
    every = UoSScore(bases=law.bases, neighbors=500).fit(samples)
    np.testing.assert_array_equal(every.score_ve(x, t), regular.score_ve(x, t))
    few = UoSScore(bases=law.bases, neighbors=8).fit(samples)
    low, variance = x @ law.bases[0], np.full(40, t)
    full, _ = kernel_sums(low, regular.projected_[0], variance)
    cut, mean = kernel_sums(low, few.projected_[0], variance, tree=few.trees_[0], neighbors=8, block=16)
    lost = -np.expm1(cut - full)
    bound = lost_share(low, few.trees_[0], len(few.projected_[0]), variance, 8)
    assert (lost >= -1e-12).all()
    assert (lost <= bound + 1e-12).all()
    assert lost.max() > 1e-3
    assert bound.min() < 0.05
    order = np.argsort(((few.projected_[0] - low[0]) ** 2).sum(1))[:8]
    weights = np.exp(-((few.projected_[0][order] - low[0]) ** 2).sum(1) / (2 * t))
    np.testing.assert_allclose(mean[0], weights @ few.projected_[0][order] / weights.sum(), rtol=1e-9)


def test_mixture_baseline_has_the_score_of_its_density(samples):
    model = GaussianMixtureScore(3).fit(samples + 0.1 * np.random.default_rng(0).standard_normal(samples.shape))
    x = torch.from_numpy(near(samples, 0.1)).requires_grad_()
    covariance = torch.from_numpy(model.vectors_ * model.values_[:, None] @ model.vectors_.transpose(0, 2, 1))
    mixture = torch.distributions.MultivariateNormal(
        torch.from_numpy(model.means_), covariance + 0.1 * torch.eye(6, dtype=torch.float64)
    )
    log_density = torch.logsumexp(torch.from_numpy(model.log_weights_) + mixture.log_prob(x[:, None]), 1)
    gradient = torch.autograd.grad(log_density.sum(), x)[0]
    np.testing.assert_allclose(model.score_ve(x.detach().numpy(), 0.1), gradient.numpy(), rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"bases": [np.ones((6, 2))]}, "Basis 0 is not orthonormal"),
        ({"bases": [np.eye(5)]}, r"Basis 0 has shape \(5, 5\)"),
        ({"bases": []}, "list of bases is empty"),
        ({"threshold": "firm"}, "'firm'"),
        ({"noise": -1.0}, "noise is -1.0"),
        ({"gate": 0.0}, "gate is 0.0"),
        ({"split": 1.0}, "split is 1.0"),
        ({"neighbors": 0}, "0 neighbours"),
    ],
)
def test_bad_options_are_refused(law, samples, options, words):
    with pytest.raises(InputError, match=words):
        UoSScore(**{"bases": law.bases, **options}).fit(samples)


def test_bad_data_are_refused(law, samples, regular):
    with pytest.raises(InputError, match=r"shape \(n, d\), not \(120,\)"):
        UoSScore(bases=law.bases).fit(samples[:, 0])
    broken = samples.copy()
    broken[3, 2] = np.nan
    with pytest.raises(InputError, match="nan in row 3, coordinate 2"):
        UoSScore(bases=law.bases).fit(broken)
    with pytest.raises(InputError, match="Subspace 1 holds no sample"):
        UoSScore(bases=law.bases).fit(samples, np.zeros(120, int))
    with pytest.raises(InputError, match="run from 0 to 3"):
        UoSScore(bases=law.bases).fit(samples, np.arange(120) % 4)
    with pytest.raises(InputError, match=r"t is 0\.0"):
        regular.score_ve(samples, 0.0)
    with pytest.raises(InputError, match="have 5 coordinates where the model has 6"):
        regular.score_ve(samples[:, :5], 0.1)
    with pytest.raises(InputError, match="not fitted"):
        UoSScore().score_ve(samples, 0.1)


def test_gaussian_tails_are_the_score_of_the_fitted_gaussian(law, samples):
    basis, t = law.bases[0], 0.05
    plane = samples[np.abs(samples - samples @ basis @ basis.T).max(1) < 1e-9]
    model = UoSScore(bases=[basis], threshold="gaussian", clip=False).fit(plane)
    low = plane @ basis
    far = low.mean(0) + np.array([[30.0, 0.0], [0.0, -40.0], [20.0, 20.0]])
    right = -(far - low.mean(0)) @ np.linalg.inv(np.cov(low.T, bias=True) + t * np.eye(2))
    np.testing.assert_allclose(model.score_ve(far @ basis.T, t) @ basis, right, rtol=1e-9)
    hard = UoSScore(bases=[basis], clip=False).fit(plane)
    kept = np.abs(hard.score_ve(plane, t)).max(1) > 1e-9
    assert 10 < kept.sum() < len(plane)
    np.testing.assert_allclose(model.score_ve(plane, t)[kept], hard.score_ve(plane, t)[kept], atol=1e-12)
    assert np.abs(hard.score_ve(far @ basis.T, t)).max() < 1e-9
