"""Subspace clustering: exact recovery, another library's sparse codes, dimensions of known spectra, refusals."""

import numpy as np
import pytest
from scipy.stats import multivariate_normal
from sklearn.cluster import KMeans
from sklearn.linear_model import Lasso

from workingpapers.foundations.errors import InputError
from workingpapers.sampling.subspace_diffusion.clustering import (
    SubspaceClustering,
    code_length,
    spectrum_dimension,
    without_repeats,
)
from workingpapers.sampling.subspace_diffusion.experiments import clustering_accuracy, principal_angle
from workingpapers.sampling.subspace_diffusion.graphs import sparse_codes, thresholded_affinity
from workingpapers.sampling.subspace_diffusion.score import UoSScore
from workingpapers.sampling.subspace_diffusion.truth import random_union


def three(seed=0, dims=(3, 3, 3), each=60, dim=20, noise=0.0):
    rng = np.random.default_rng(seed)
    bases = [np.linalg.qr(rng.standard_normal((dim, k)))[0] for k in dims]
    data = np.concatenate([rng.standard_normal((each, k)) @ basis.T for k, basis in zip(dims, bases, strict=True)])
    return data + noise * rng.standard_normal(data.shape), np.repeat(np.arange(len(dims)), each), bases


@pytest.mark.parametrize("method", ["ssc", "tsc"])
@pytest.mark.parametrize("given", [(3, 3), (None, None)])
def test_exact_recovery_where_k_means_fails(method, given):
    data, labels, bases = three()
    finder = SubspaceClustering(*given, method)
    found = finder.fit_predict(data)
    assert clustering_accuracy(labels, found) == 1
    assert finder.dims_ == (3, 3, 3)
    for basis in bases:
        assert min(principal_angle(basis, other) for other in finder.bases_) < 1e-6
    assert clustering_accuracy(labels, KMeans(3, n_init=10, random_state=0).fit_predict(data)) < 0.8
    np.testing.assert_array_equal(finder.predict(data), found)


def test_given_dimensions_go_to_the_subspaces_that_they_fit():
    data, labels, _ = three(dims=(4, 1, 2))
    finder = SubspaceClustering(3, [1, 2, 4]).fit(data)
    assert clustering_accuracy(labels, finder.labels_) == 1
    assert sorted(zip(np.bincount(finder.labels_).tolist(), finder.dims_, strict=True)) == [(60, 1), (60, 2), (60, 4)]
    total = sum(np.abs(data[finder.labels_ == i] - data[finder.labels_ == i] @ b @ b.T).max()
                for i, b in enumerate(finder.bases_))  # fmt: skip
    assert total < 1e-9


def test_directions_that_split_one_subspace_are_one_subspace():
    """Two tight bundles on each plane: the graph has more parts than there are planes."""
    rng = np.random.default_rng(1)
    bases = [np.linalg.qr(rng.standard_normal((12, 2)))[0] for _ in range(3)]
    angles = np.array([0.0, 1.4])[:, None] + 0.05 * rng.standard_normal((2, 40))
    low = np.stack([np.cos(angles), np.sin(angles)], -1).reshape(-1, 2)
    data, labels = np.concatenate([low @ basis.T for basis in bases]), np.repeat(np.arange(3), 80)
    for count in (3, None):
        finder = SubspaceClustering(count, method="tsc").fit(data)
        assert finder.dims_ == (2, 2, 2)
        assert clustering_accuracy(labels, finder.labels_) == 1
    kept = without_repeats([bases[0], bases[0][:, :1], bases[1], bases[0] @ [[0.0, 1.0], [1.0, 0.0]]])
    assert [basis.shape[1] for basis in kept] == [2, 2]


def test_noisy_samples_are_recovered_with_the_right_dimensions():
    data, labels, bases = three(each=150, noise=0.03)
    finder = SubspaceClustering(3).fit(data)
    assert finder.dims_ == (3, 3, 3)
    assert clustering_accuracy(labels, finder.labels_) > 0.98
    # Perturbation of a span by noise 0.03 on 150 unit-variance samples is about 0.03 sqrt(17 / 150) = 0.01.
    assert max(min(principal_angle(basis, other) for other in finder.bases_) for basis in bases) < 0.03


def test_many_samples_use_a_part_of_them_for_the_graph():
    data, labels, _ = three(each=400)
    finder = SubspaceClustering(3, fit_samples=150).fit(data)
    assert clustering_accuracy(labels, finder.labels_) == 1


@pytest.mark.parametrize("shape", [(30, 6), (12, 25)])
def test_sparse_codes_are_the_lasso_of_scikit_learn(shape):
    unit = np.random.default_rng(2).standard_normal(shape)
    unit /= np.linalg.norm(unit, axis=1, keepdims=True)
    codes = sparse_codes(unit, 8.0, rounds=20000, tolerance=1e-10)
    for j in (0, 5):
        others = np.delete(np.arange(len(unit)), j)
        penalty = np.abs(unit[others] @ unit[j]).max() / 8
        lasso = Lasso(alpha=penalty / shape[1], fit_intercept=False, tol=1e-12, max_iter=200_000)
        np.testing.assert_allclose(codes[others, j], lasso.fit(unit[others].T, unit[j]).coef_, atol=1e-6)
        assert codes[j, j] == 0


def test_thresholded_graph_of_a_small_example():
    """Angles 0, 10, 40 degrees and one link each: 0-1 both ways, 2-1 one way."""
    angles = np.deg2rad([0.0, 10.0, 40.0])
    graph = thresholded_affinity(np.stack([np.cos(angles), np.sin(angles)], 1), 1)
    right = np.zeros((3, 3))
    right[0, 1] = right[1, 0] = 2 * np.exp(-2 * np.deg2rad(10))
    right[1, 2] = right[2, 1] = np.exp(-2 * np.deg2rad(30))
    np.testing.assert_allclose(graph, right, atol=1e-12)


def test_dimension_of_known_spectra():
    assert spectrum_dimension(np.array([5.0, 3.0, 1.0, 1e-14, 1e-15]), 40, 5) == 3
    rng = np.random.default_rng(3)
    signal = rng.standard_normal((400, 4)) @ np.linalg.qr(rng.standard_normal((30, 4)))[0].T
    spectrum = np.linalg.svd(signal + 0.1 * rng.standard_normal((400, 30)), compute_uv=False)
    assert spectrum_dimension(spectrum, 400, 30) == 4
    # Constant coordinates give a tail of zeros that says nothing about the directions before it.
    padded = np.concatenate([spectrum, np.zeros(5)])
    assert spectrum_dimension(padded * np.where(np.arange(35) < 4, 30, 1), 400, 35) == 4


def test_split_finds_subspaces_on_one_part_and_scores_with_the_other():
    data, _, _ = three()
    model = UoSScore(SubspaceClustering(3, 3), split=0.5).fit(data)
    assert model.n_samples_ == 90
    assert sum(len(low) for low in model.projected_) == 90
    assert model.off_subspace_share_ < 1e-15


def test_planes_of_the_claims_are_recovered_by_both():
    law = random_union(np.random.default_rng(8), 24, 4, 2)
    data, labels = law.sample(300, np.random.default_rng(9))
    for method in ("ssc", "tsc"):
        assert clustering_accuracy(labels, SubspaceClustering(4, 2, method).fit(data).labels_) == 1


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"n_subspaces": 500}, "500 subspaces do not fit 180 samples"),
        ({"n_subspaces": 0}, "0 subspaces"),
        ({"dims": 21}, "dimension 21 does not fit data of 20"),
        ({"dims": [3, 3]}, "need the number of subspaces"),
        ({"n_subspaces": 3, "dims": [3, 3]}, "2 dimensions for 3 subspaces"),
        ({"method": "kmeans"}, "'kmeans'"),
        ({"alpha": 1.0}, "alpha is 1.0"),
        ({"n_subspaces": 90, "dims": 3}, "ask for fewer subspaces"),
    ],
)
def test_bad_options_of_clustering_are_refused(options, words):
    with pytest.raises(InputError, match=words):
        SubspaceClustering(**options).fit(three()[0])


def test_zero_samples_are_refused_or_ignored():
    with pytest.raises(InputError, match="no subspace to find"):
        SubspaceClustering().fit(np.zeros((5, 3)))
    data, labels, _ = three()
    data[0] = 0
    assert clustering_accuracy(labels[1:], SubspaceClustering(3, 3).fit(data).labels_[1:]) == 1


def test_the_code_length_is_the_deviance_of_gaussians_of_two_variances():
    data, labels, bases = three(dims=(2, 3), each=40, dim=6, noise=0.1)
    deviance, spectra, kept = 0.0, [], []
    for number, true in enumerate(bases):
        cluster = data[labels == number]
        _, singular, right = np.linalg.svd(cluster, full_matrices=False)
        dim = true.shape[1]
        basis = right[:dim].T
        along = (singular[:dim] ** 2).sum() / (len(cluster) * dim)
        across = (singular[dim:] ** 2).sum() / (len(cluster) * (6 - dim))
        covariance = along * basis @ basis.T + across * (np.eye(6) - basis @ basis.T)
        deviance -= 2 * multivariate_normal(np.zeros(6), covariance).logpdf(cluster).sum()
        spectra.append(singular)
        kept.append(basis)
    length, left_out = code_length(kept, spectra, np.array([40, 40]), 6)
    assert length == pytest.approx(deviance - 80 * 6 * (1 + np.log(2 * np.pi)), rel=1e-10)
    energy = [(one**2).sum() for one in spectra]
    off = (spectra[0][2:] ** 2).sum() + (spectra[1][3:] ** 2).sum()
    assert left_out == pytest.approx(off / sum(energy))
