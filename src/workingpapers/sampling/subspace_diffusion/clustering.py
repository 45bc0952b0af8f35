"""Which sample lies on which linear subspace: sparse (SSC) and thresholded (TSC) subspace clustering."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import eigh
from scipy.optimize import linear_sum_assignment
from sklearn.base import BaseEstimator, ClusterMixin
from sklearn.cluster import KMeans

from workingpapers.foundations.errors import InputError
from workingpapers.sampling.subspace_diffusion.graphs import sparse_affinity, thresholded_affinity
from workingpapers.sampling.subspace_diffusion.kernels import check_points

Floats = NDArray[np.float64]
Labels = NDArray[np.int64]
ROUNDS = 20
REPEAT = 0.05
SPLITS = 3


class SubspaceClustering(ClusterMixin, BaseEstimator):  # type: ignore[misc]
    r"""Cluster samples by the linear subspace that they lie on, and find a basis of each.

    Sparse subspace clustering writes each normalised sample by few others,
    :math:`\min_c \tfrac12 |x_j - X c|^2 + \lambda_j |c|_1,\ c_j = 0`, with :math:`\lambda_j` the share `1 / alpha` of
    the value at which c vanishes; thresholding links each sample to its `links` most correlated ones with weight
    :math:`e^{-2 \arccos |\langle x_i, x_j \rangle|}`. Spectral clustering of this graph gives the clusters, their
    leading singular vectors the bases, and samples then move to the nearest subspace until none moves.

    Args:
        n_subspaces: M; None takes the largest gap of the eigenvalues of the graph's Laplacian.
        dims: Dimension of the subspaces, one number or one for each; None estimates them (:func:`spectrum_dimension`).
        method: ``"ssc"`` or ``"tsc"``.
        max_subspaces: Largest M that the gap may choose.
        alpha: Inverse share of the largest useful sparsity penalty, over 1.
        links: Neighbours of a sample in thresholding; None takes max(3, n / (20 M)), or max(3, 2 log n) where M is not
            given.
        fit_samples: Samples that the graph is built on, drawn at random; the rest go to the nearest subspace.
        random_state: Seed of the draw and of k-means.

    Attributes:
        labels_: Cluster of each sample, shape (n,).
        bases_: Orthonormal bases, M of shape (d, k_i).
        dims_: Their dimensions.
        spectra_: Singular values of each cluster.
        eigenvalues_: The smallest eigenvalues of the Laplacian.

    References:
        E. Elhamifar, R. Vidal, Sparse Subspace Clustering, arXiv:1203.1005. R. Heckel, H. Boelcskei, Robust Subspace
        Clustering via Thresholding, arXiv:1307.4891.
    """

    def __init__(
        self,
        n_subspaces: int | None = None,
        dims: int | Sequence[int] | None = None,
        method: Literal["ssc", "tsc"] = "ssc",
        max_subspaces: int = 10,
        alpha: float = 50.0,
        links: int | None = None,
        fit_samples: int = 600,
        random_state: int = 0,
    ) -> None:
        self.n_subspaces = n_subspaces
        self.dims = dims
        self.method = method
        self.max_subspaces = max_subspaces
        self.alpha = alpha
        self.links = links
        self.fit_samples = fit_samples
        self.random_state = random_state

    def fit(self, X: ArrayLike, y: object = None) -> SubspaceClustering:
        """Cluster samples.

        Args:
            X: Samples, shape (n, d).
            y: Ignored.

        Raises:
            InputError: M or the dimensions do not fit the data, or a cluster holds too few samples for a basis.
        """
        points = check_points(X)
        self._check(points)
        size = np.linalg.norm(points, axis=1)
        usable = np.flatnonzero(size > 0)
        if len(usable) < 2:
            raise InputError("All samples but one are zero; there is no subspace to find.")
        if len(usable) > self.fit_samples:
            rng = np.random.default_rng(self.random_state)
            usable = np.sort(rng.choice(usable, self.fit_samples, replace=False))
        chosen = points[usable]
        self._choose(points, chosen, self._embedding(chosen / size[usable, None]))
        return self

    def predict(self, X: ArrayLike) -> Labels:
        """Return the nearest subspace of each sample, shape (n,).

        Args:
            X: Samples, shape (n, d).
        """
        points = check_points(X, "The samples", dim=len(self.bases_[0]))
        return nearest_subspace(points, self.bases_)

    def _check(self, points: Floats) -> None:
        if self.method not in ("ssc", "tsc"):
            raise InputError(f"The method is {self.method!r}; choose 'ssc' or 'tsc'.")
        if not self.alpha > 1:
            raise InputError(f"alpha is {self.alpha}; at 1 and below all coefficients vanish.")
        if self.n_subspaces is not None and not 1 <= self.n_subspaces <= len(points):
            raise InputError(f"{self.n_subspaces} subspaces do not fit {len(points)} samples; give 1 to {len(points)}.")
        if isinstance(self.dims, Sequence):
            if self.n_subspaces is None:
                raise InputError(f"Dimensions for {len(self.dims)} subspaces need the number of subspaces too.")
            if len(self.dims) != self.n_subspaces:
                raise InputError(f"There are {len(self.dims)} dimensions for {self.n_subspaces} subspaces; give one "
                                 "for each, or one for all.")  # fmt: skip
        for dim in _listed(self.dims, 1) if self.dims is not None else ():
            if not 1 <= dim <= points.shape[1]:
                raise InputError(f"A subspace of dimension {dim} does not fit data of {points.shape[1]} coordinates.")

    def _embedding(self, unit: Floats) -> Floats:
        """Return the eigenvectors of the graph's Laplacian, smallest eigenvalue first, shape (n, count)."""
        affinity = sparse_affinity(unit, self.alpha) if self.method == "ssc" else self._thresholded(unit)
        degree = affinity.sum(axis=1)
        degree[degree == 0] = 1.0
        scaled = affinity / np.sqrt(degree[:, None] * degree[None, :])
        top = min(max(self.max_subspaces, SPLITS * (self.n_subspaces or 0)), len(unit) - 1)
        self.eigenvalues_, vectors = eigh(np.eye(len(unit)) - scaled, subset_by_index=[0, top])
        return np.asarray(vectors)

    def _choose(self, points: Floats, chosen: Floats, vectors: Floats) -> None:
        """Take the number of clusters whose subspaces fit best: directions may split one subspace into several."""
        if self.n_subspaces is None:
            counts = [int(np.argmax(np.diff(self.eigenvalues_))) + 1]
        else:
            most = min(SPLITS * self.n_subspaces, self.n_subspaces + 10, len(vectors) - 1)
            counts = list(range(self.n_subspaces, max(self.n_subspaces, most) + 1))
            counts = counts if self.n_subspaces > 1 else counts[:1]
        best, failure = np.inf, None
        for count in counts:
            try:
                found = self._fitted_to(points, chosen, self._spectral(vectors[:, :count]))
            except InputError as error:
                failure = failure or error
                continue
            length, left_out = code_length(*found[:2], np.bincount(found[2]), points.shape[1])
            if length < best:
                best = length
                self.bases_, self.spectra_, self.labels_ = found
            if self.dims is not None and left_out < 1e-12:
                break
        if best == np.inf:
            raise failure or InputError("No subspace was found.")
        self.dims_ = tuple(basis.shape[1] for basis in self.bases_)

    def _spectral(self, vectors: Floats) -> Labels:
        count = vectors.shape[1]
        if count == 1:
            return np.zeros(len(vectors), np.int64)
        embedded = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-300)
        found = KMeans(count, n_init=10, random_state=self.random_state).fit_predict(embedded)
        return np.asarray(found, np.int64)

    def _fitted_to(self, points: Floats, chosen: Floats, labels: Labels) -> tuple[list[Floats], list[Floats], Labels]:
        """Return bases, spectra and labels of all samples, moved to the nearest subspace until none moves."""
        dims = None if self.dims is None else self.dims if isinstance(self.dims, int) else max(self.dims)
        bases = _bases(chosen, labels, dims)[0]
        order = np.argsort(-np.bincount(labels), kind="stable")
        distinct = without_repeats([bases[i] for i in order])
        if self.n_subspaces is not None:
            if len(distinct) < self.n_subspaces:
                raise InputError(f"{self.n_subspaces} different subspaces were asked for and {len(distinct)} found; "
                                 "ask for fewer subspaces, give their dimensions, or more samples.")  # fmt: skip
            distinct = distinct[: self.n_subspaces]
        return self._refined(points, distinct)

    def _thresholded(self, unit: Floats) -> Floats:
        size = len(unit)
        links = self.links
        if links is None:
            share = 2 * np.log(size) if self.n_subspaces is None else size / (20 * self.n_subspaces)
            links = max(3, int(np.ceil(share)))
        return thresholded_affinity(unit, min(links, size - 1))

    def _refined(self, points: Floats, bases: list[Floats]) -> tuple[list[Floats], list[Floats], Labels]:
        labels, before = nearest_subspace(points, bases), None
        spectra: list[Floats] = []
        for _ in range(ROUNDS):
            counts = np.bincount(labels, minlength=len(bases))
            short = [i for i, basis in enumerate(bases) if counts[i] < basis.shape[1] + 1]
            if short and self.n_subspaces is None and len(short) < len(bases):
                bases = [basis for i, basis in enumerate(bases) if i not in short]
                labels = nearest_subspace(points, bases)
                continue
            if short:
                i = short[0]
                raise InputError(f"Subspace {i} of dimension {bases[i].shape[1]} holds {counts[i]} samples and needs "
                                 f"{bases[i].shape[1] + 1}; ask for fewer subspaces or lower dimensions.")  # fmt: skip
            bases, spectra = _bases(points, labels, self.dims)
            labels, before = nearest_subspace(points, bases), labels
            if (labels == before).all():
                break
        return bases, spectra, labels


def nearest_subspace(points: Floats, bases: Sequence[Floats]) -> Labels:
    """Return the index of the basis with the smallest residual |x - A A^T x|, shape (n,).

    Args:
        points: Shape (n, d).
        bases: Orthonormal bases of shape (d, k_i).
    """
    residual = [((points - (points @ basis) @ basis.T) ** 2).sum(axis=1) for basis in bases]
    return np.asarray(np.argmin(np.stack(residual, axis=1), axis=1), np.int64)


def code_length(
    bases: Sequence[Floats], spectra: Sequence[Floats], counts: Labels, coordinates: int
) -> tuple[float, float]:
    r"""Return what the clusters cost as Gaussians of two variances, and the share of energy off the subspaces.

    .. math:: \sum_i N_i \bigl(k_i \log \sigma_{i}^2 + (d - k_i) \log \nu_i\bigr)

    Energy left out alone would favour high dimensions.

    Args:
        bases: Of shape (d, k_i).
        spectra: Singular values of each cluster.
        counts: N_i.
        coordinates: d.
    """
    total = sum(float((spectrum**2).sum()) for spectrum in spectra)
    floor, length, left_out = 1e-15 * total / counts.sum(), 0.0, 0.0
    for basis, spectrum, size in zip(bases, spectra, counts, strict=True):
        dim = basis.shape[1]
        along, across = float((spectrum[:dim] ** 2).sum()), float((spectrum[dim:] ** 2).sum())
        left_out += across / total
        length += size * dim * np.log(max(along / (size * dim), floor))
        if coordinates > dim:
            length += size * (coordinates - dim) * np.log(max(across / (size * (coordinates - dim)), floor))
    return length, left_out


def without_repeats(bases: Sequence[Floats]) -> list[Floats]:
    """Return the bases whose span lies in no other's, larger ones first in doubt.

    Two clusters of directions on one subspace are one subspace; REPEAT is the sine of the largest angle between.

    Args:
        bases: Orthonormal bases of shape (d, k_i).
    """
    kept: list[int] = []
    for i in sorted(range(len(bases)), key=lambda place: -bases[place].shape[1]):
        inside = [float(np.linalg.norm(bases[i] - bases[j] @ (bases[j].T @ bases[i]), 2)) for j in kept]
        if not inside or min(inside) > REPEAT:
            kept.append(i)
    return [bases[i] for i in sorted(kept)]


def spectrum_dimension(spectrum: Floats, samples: int, coordinates: int) -> int:
    """Return the dimension that the singular values of a cluster show.

    Where the values fall to zero (below 1e-8 of the first) and those before are within a factor 100, the data lie
    exactly on a subspace and the count of the others is its dimension. Otherwise the optimal hard threshold for
    unknown noise decides: values above omega times the median, with omega = 0.56 b^3 - 0.95 b^2 + 1.82 b + 1.43 for
    the aspect ratio b of the matrix.

    Args:
        spectrum: Singular values, descending.
        samples: Rows of the cluster.
        coordinates: d.

    References:
        M. Gavish, D. L. Donoho, The Optimal Hard Threshold for Singular Values is 4/sqrt(3), arXiv:1305.5870.
    """
    limit = min(samples, coordinates)
    nonzero = spectrum[spectrum > 1e-8 * spectrum[0]] if spectrum[0] > 0 else spectrum[:1]
    if len(nonzero) < limit and nonzero[0] <= 100 * nonzero[-1]:
        return len(nonzero)
    ratio = min(len(nonzero), samples) / max(len(nonzero), samples)
    threshold = (0.56 * ratio**3 - 0.95 * ratio**2 + 1.82 * ratio + 1.43) * float(np.median(nonzero))
    return int(np.clip((nonzero > threshold).sum(), 1, max(1, limit - 1)))


def _bases(points: Floats, labels: Labels, dims: int | Sequence[int] | None) -> tuple[list[Floats], list[Floats]]:
    count = int(labels.max()) + 1
    spectra, directions = [], []
    for i in range(count):
        members = points[labels == i]
        if len(members) < 2:
            raise InputError(f"Cluster {i} holds {len(members)} samples, too few for a basis; ask for fewer subspaces.")
        _, spectrum, right = np.linalg.svd(members, full_matrices=False)
        spectra.append(spectrum)
        directions.append(right)
    bases = []
    for i, dim in enumerate(_matched(spectra, labels, points.shape[1], dims)):
        if len(directions[i]) < dim:
            raise InputError(f"Cluster {i} holds {len(directions[i])} samples, too few for dimension {dim}; ask for "
                             "fewer subspaces or lower dimensions.")  # fmt: skip
        bases.append(np.ascontiguousarray(directions[i][:dim].T))
    return bases, spectra


def _matched(
    spectra: Sequence[Floats], labels: Labels, coordinates: int, dims: int | Sequence[int] | None
) -> Sequence[int]:
    """Return the dimension of each cluster; given ones go to the clusters where they leave out the least energy."""
    counts = np.bincount(labels)
    if dims is None:
        return [
            min(spectrum_dimension(spectrum, int(size), coordinates), int(size) - 1)
            for spectrum, size in zip(spectra, counts, strict=True)
        ]
    listed = _listed(dims, len(spectra))
    left_out = np.array([[float((spectrum[dim:] ** 2).sum()) for dim in listed] for spectrum in spectra])
    return [listed[place] for place in linear_sum_assignment(left_out)[1]]


def _listed(dims: int | Sequence[int], count: int) -> Sequence[int]:
    return list(dims) if isinstance(dims, Sequence) else [dims] * count
