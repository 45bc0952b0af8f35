r"""The score of noised data that lie on a union of subspaces, from kernels in the low dimensions alone.

With Z_t = Z + sqrt(t) W the density of Z_t splits over the subspaces, and on each into a Gaussian across and a
convolution along. Along it the density and its gradient are kernel sums of the projected samples:

.. math::
    \hat g_t(i, z) &= \frac1{N_i} \sum_{j \in C_i} \phi_t(z - A_i^\top X_j; k_i), \qquad
    \eta_t = \frac{\log N}{N (2 \pi t)^{k_i / 2}}, \quad R = \sqrt{2 \log N / t} \\
    \hat s_t(i, x) &= -\frac{x - A_i A_i^\top x}{t}
        + A_i\, \mathrm{clip}_R\Bigl(\frac{\nabla \hat g_t}{\hat g_t}\, 1\{\hat g_t \ge \eta_t\}\Bigr)(A_i^\top x) \\
    \hat s_t(x) &= \sum_i \hat w_t(i, x)\, \hat s_t(i, x)
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.spatial import cKDTree
from scipy.special import logsumexp
from sklearn.base import BaseEstimator

from workingpapers.foundations.errors import InputError
from workingpapers.foundations.progress import Progress, silent
from workingpapers.sampling.subspace_diffusion.clustering import SubspaceClustering, nearest_subspace
from workingpapers.sampling.subspace_diffusion.kernels import (
    BLOCK,
    check_bases,
    check_labels,
    check_points,
    kernel_sums,
)

Floats = NDArray[np.float64]
Times = float | ArrayLike
GATE = 2.0
"""Constant of the paper's gate on the distance to a subspace, which the paper leaves open."""


class UoSScore(BaseEstimator):  # type: ignore[misc]
    """Score, density and samples of data on a union of linear subspaces, without a network.

    Args:
        clustering: An unfitted :class:`SubspaceClustering` that finds the subspaces; None takes one that estimates
            everything. Not used where `bases` or labels are given.
        bases: Known orthonormal bases, M of shape (d, k_i).
        split: Share of the samples that find the subspaces alone; 0 uses all samples for both.
        threshold: ``"hard"`` sets the score along a subspace to zero where its density is below eta (the paper's);
            ``"soft"`` multiplies it by g / (g + eta); ``"gaussian"`` puts the score of the Gaussian with the samples'
            mean and covariance there (ours: zeros let the paths of the sampler run away); ``"none"`` leaves it.
        clip: Whether the score along a subspace is shortened to R.
        gate: C_R of the largest distance at which a subspace has weight; ``"paper"`` takes 2, None has no limit.
        noise: Variance of noise off the subspaces, per coordinate; ``"auto"`` takes what the samples have there, each
            subspace its own.
        neighbors: Kernel sums over this many exact nearest samples; None sums over all.
        block: Kernel distances held in memory at once.
        random_state: Seed of the split.

    Attributes:
        bases_: Orthonormal bases.
        labels_: Subspace of each sample used for the score, shape (N,).
        n_samples_: N.
        noise_: Variance off each subspace, shape (M,).
        off_subspace_share_: Share of the squared length of the samples that lies off their subspaces.
        projected_: Samples of each subspace in its coordinates, M of shape (N_i, k_i).

    References:
        J. Wu, C. Cai, Diffusion Models Are Statistically Optimal for Learning Low-Dimensional Multi-Modal
        Distributions, arXiv:2605.30153.
    """

    def __init__(
        self,
        clustering: SubspaceClustering | None = None,
        bases: Sequence[ArrayLike] | None = None,
        split: float = 0.0,
        threshold: Literal["hard", "soft", "gaussian", "none"] = "hard",
        clip: bool = True,
        gate: float | Literal["paper"] | None = None,
        noise: float | Literal["auto"] = 0.0,
        neighbors: int | None = None,
        block: int = BLOCK,
        random_state: int = 0,
    ) -> None:
        self.clustering = clustering
        self.bases = bases
        self.split = split
        self.threshold = threshold
        self.clip = clip
        self.gate = gate
        self.noise = noise
        self.neighbors = neighbors
        self.block = block
        self.random_state = random_state

    def fit(self, X: ArrayLike, y: ArrayLike | None = None) -> UoSScore:
        """Find the subspaces and project the samples.

        Args:
            X: Samples, shape (n, d).
            y: Known subspace of each sample, whole numbers 0 to M - 1, shape (n,); needs `bases`.

        Raises:
            InputError: Bases are not orthonormal or hold no sample, options are out of range, or the clustering fails.
        """
        points = check_points(X)
        self._check_options()
        if self.bases is None:
            if y is not None:
                raise InputError("Labels need the bases of their subspaces; give bases too, or leave labels out.")
            points, self.bases_, labels = self._found(points)
        else:
            self.bases_ = check_bases(self.bases, points.shape[1])
            labels = nearest_subspace(points, self.bases_) if y is None else check_labels(y, points, len(self.bases_))
        self._store(points, labels)
        return self

    def score_ve(self, x: ArrayLike, t: Times) -> Floats:
        """Return the estimate of grad log p_t, p_t = p convolved with N(0, t I), shape (b, d).

        Args:
            x: Points, shape (b, d).
            t: Variance of the noise, over 0, one number or shape (b,).
        """
        points, variance = self._inputs(x, t)
        weights, low = self._terms(points, variance)
        score = np.zeros_like(points)
        for i, basis in enumerate(self.bases_):
            across = -(points - (points @ basis) @ basis.T) / (variance + self.noise_[i])[:, None]
            score += weights[:, i, None] * (across + low[i] @ basis.T)
        return score

    def score_ou(self, x: ArrayLike, t: Times) -> Floats:
        r"""Return the score of X_t in dX = -X dt + sqrt(2) dB, shape (b, d).

        .. math:: s_{X_t}(x) = e^{t}\, s_{Z_{h(t)}}(e^{t} x), \qquad h(t) = e^{2t} - 1

        Args:
            x: Points, shape (b, d).
            t: Time of the Ornstein-Uhlenbeck noising, over 0, one number or shape (b,).
        """
        points, time = self._inputs(x, t)
        growth = np.exp(time)[:, None]
        return growth * self.score_ve(growth * points, np.expm1(2 * time))

    def weights(self, x: ArrayLike, t: Times) -> Floats:
        """Return the weight of each subspace, shape (b, M); rows sum to 1, or less where a gate closes.

        Args:
            x: Points, shape (b, d).
            t: Variance of the noise, over 0, one number or shape (b,).
        """
        return self._terms(*self._inputs(x, t))[0]

    def log_density_ve(self, x: ArrayLike, t: Times) -> Floats:
        """Return the log density of the kernel mixture, shape (b,): that of the samples with noise of variance t.

        Args:
            x: Points, shape (b, d).
            t: Variance of the noise, over 0, one number or shape (b,).
        """
        points, variance = self._inputs(x, t)
        return np.asarray(logsumexp(self._log_parts(points, variance)[0], axis=1))

    def score_samples(self, X: ArrayLike, t: float | None = None) -> Floats:
        """Return the log density of samples, shape (n,), as scikit-learn's density estimators do.

        Args:
            X: Samples, shape (n, d).
            t: Variance of the kernel; None takes that of the sampler's last time, exp(2 N^(-2/k)) - 1.
        """
        return self.log_density_ve(X, float(np.expm1(2 * self.last_time())) if t is None else t)

    def last_time(self) -> float:
        """Return tau = N^(-2/k), the time at which the sampler stops, k the largest dimension."""
        self._fitted()
        return float(self.n_samples_ ** (-2 / max(basis.shape[1] for basis in self.bases_)))

    def sample(
        self,
        n_samples: int = 1,
        *,
        first_time: float | None = None,
        last_time: float | None = None,
        n_steps: int = 200,
        method: Literal["em", "ei"] = "ei",
        final_denoise: bool = True,
        scale: float | Literal["auto"] = 1.0,
        random_state: int = 0,
        progress: Progress = silent,
    ) -> Floats:
        """Draw new samples by the reverse diffusion, shape (n_samples, d); see :func:`reverse_diffusion`.

        Args:
            n_samples: How many.
            first_time: T; None takes log N, at least 1.
            last_time: tau; None takes N^(-2/k).
            n_steps: Steps on the geometric grid from T to tau.
            method: ``"em"`` (Euler-Maruyama) or ``"ei"`` (the linear part exact).
            final_denoise: Whether the last points move to their conditional mean, which leaves the noise of tau behind.
            scale: Length that counts as one, so that data of any unit can be noised; ``"auto"`` takes the root mean
                square coordinate along the subspaces.
            random_state: Seed.
            progress: Told of the share done.
        """
        from workingpapers.sampling.subspace_diffusion.reverse import reverse_diffusion

        return reverse_diffusion(
            self, n_samples, first_time=first_time, last_time=last_time, n_steps=n_steps, method=method,
            final_denoise=final_denoise, scale=scale, random_state=random_state, progress=progress,
        )  # fmt: skip

    def _check_options(self) -> None:
        if self.threshold not in ("hard", "soft", "gaussian", "none"):
            raise InputError(f"The threshold is {self.threshold!r}; choose 'hard', 'soft', 'gaussian' or 'none'.")
        if not 0 <= self.split < 1:
            raise InputError(f"The split is {self.split}; give a share from 0 to below 1.")
        if self.noise != "auto" and not (isinstance(self.noise, int | float) and self.noise >= 0):
            raise InputError(f"The noise is {self.noise!r}; give a variance of 0 or more, or 'auto'.")
        if self.gate not in (None, "paper") and not (isinstance(self.gate, int | float) and self.gate > 0):
            raise InputError(f"The gate is {self.gate!r}; give a number over 0, 'paper' or None.")
        if self.neighbors is not None and self.neighbors < 1:
            raise InputError(f"{self.neighbors} neighbours make no kernel sum; give 1 or more.")

    def _found(self, points: Floats) -> tuple[Floats, list[Floats], NDArray[np.int64]]:
        from sklearn.base import clone

        finder = SubspaceClustering() if self.clustering is None else clone(self.clustering)
        used = points
        if self.split > 0:
            order = np.random.default_rng(self.random_state).permutation(len(points))
            cut = int(np.ceil(self.split * len(points)))
            used, points = points[order[:cut]], points[order[cut:]]
            if not len(points):
                raise InputError(f"A split of {self.split} leaves no sample for the score; take a smaller one.")
        self.clustering_ = finder.fit(used)
        labels = finder.labels_ if self.split == 0 else finder.predict(points)
        return points, finder.bases_, labels

    def _store(self, points: Floats, labels: NDArray[np.int64]) -> None:
        counts = np.bincount(labels, minlength=len(self.bases_))
        if (counts == 0).any():
            raise InputError(f"Subspace {int(np.argmin(counts))} holds no sample; leave its basis out.")
        self.labels_, self.n_samples_, self.n_features_in_ = labels, len(points), points.shape[1]
        self.projected_ = [points[labels == i] @ basis for i, basis in enumerate(self.bases_)]
        total = float((points**2).sum())
        along = [float((low**2).sum()) for low in self.projected_]
        across = np.array([
            max(float((points[labels == i] ** 2).sum()) - part, 0.0) for i, part in enumerate(along)
        ])  # fmt: skip
        self.off_subspace_share_ = float(across.sum()) / total if total > 0 else 0.0
        exact = self.off_subspace_share_ < 1e-12
        free = np.array([points.shape[1] - basis.shape[1] for basis in self.bases_])
        if self.noise == "auto":
            self.noise_ = np.zeros(len(free)) if exact else across / np.maximum(counts * free, 1)
        else:
            self.noise_ = np.full(len(free), float(self.noise))
            if self.noise == 0 and self.off_subspace_share_ > 1e-6:
                warnings.warn(
                    f"{self.off_subspace_share_:.2g} of the energy of the samples lies off their subspaces and is "
                    "dropped; noise='auto' keeps it.",
                    stacklevel=3,
                )
        self.trees_ = [None if self.neighbors is None else cKDTree(low) for low in self.projected_]

    def _fitted(self) -> None:
        if not hasattr(self, "projected_"):
            raise InputError("This UoSScore is not fitted; call fit first.")

    def _inputs(self, x: ArrayLike, t: Times) -> tuple[Floats, Floats]:
        self._fitted()
        points = check_points(x, "The points", dim=self.n_features_in_)
        variance = np.asarray(t, np.float64)
        if variance.shape not in ((), (len(points),)):
            raise InputError(f"t must be one number or have shape ({len(points)},), not {variance.shape}.")
        if not ((variance > 0) & np.isfinite(variance)).all():
            raise InputError(f"t is {float(variance.min())}; it must be over 0 and finite.")
        return points, np.broadcast_to(variance, (len(points),))

    def _log_parts(self, points: Floats, variance: Floats) -> tuple[Floats, list[Floats], list[Floats]]:
        """Return log q(i, x), shape (b, M), and of each subspace log g without its constant, and the kernel means."""
        ambient = points.shape[1]
        log_q = np.empty((len(points), len(self.bases_)))
        log_g, means = [], []
        for i, basis in enumerate(self.bases_):
            low = points @ basis
            free = ambient - basis.shape[1]
            distance = ((points - low @ basis.T) ** 2).sum(axis=1) if free else 0.0
            log_sum, mean = kernel_sums(
                low, self.projected_[i], variance, tree=self.trees_[i], neighbors=self.neighbors, block=self.block
            )
            spread = variance + self.noise_[i]
            log_q[:, i] = (
                np.log(len(self.projected_[i]) / self.n_samples_)
                - distance / (2 * spread)
                - free / 2 * np.log(2 * np.pi * spread)
                - basis.shape[1] / 2 * np.log(2 * np.pi * variance)
                + log_sum
            )
            log_g.append(log_sum)
            means.append(mean)
        return log_q, log_g, means

    def _terms(self, points: Floats, variance: Floats) -> tuple[Floats, list[Floats]]:
        """Return the weights, shape (b, M), and the scores along the subspaces, M of shape (b, k_i)."""
        log_q, log_g, means = self._log_parts(points, variance)
        log_q -= log_q.max(axis=1, keepdims=True)
        weights = np.exp(log_q)
        weights /= weights.sum(axis=1, keepdims=True)
        low = []
        for i, basis in enumerate(self.bases_):
            z = points @ basis
            along = (means[i] - z) / variance[:, None]
            low.append(self._regularised(along, z, i, log_g[i], variance))
            if self.gate is not None:
                weights[:, i] *= self._gate(points, basis, variance)
        return weights, low

    def _regularised(self, along: Floats, z: Floats, i: int, log_g: Floats, variance: Floats) -> Floats:
        # Both g and eta carry (2 pi t)^(-k/2), which cancels in their comparison.
        size = self.n_samples_
        log_eta = np.log(np.log(size) / size) if size > 1 else -np.inf
        if self.threshold == "hard":
            along = along * (log_g >= log_eta)[:, None]
        elif self.threshold == "soft":
            along = along / (1 + np.exp(np.minimum(log_eta - log_g, 700.0)))[:, None]
        if self.clip:
            limit = np.sqrt(2 * np.log(size) / variance)
            length = np.linalg.norm(along, axis=1)
            along = along * np.minimum(1.0, limit / np.maximum(length, 1e-300))[:, None]
        if self.threshold == "gaussian":
            # Not clipped: where k exceeds 2 log N the limit lies below the length of a right score.
            along = np.where((log_g >= log_eta)[:, None], along, self._gaussian(z, i, variance))
        return along

    def _gaussian(self, z: Floats, i: int, variance: Floats) -> Floats:
        """Return the score of N(mean, covariance + t I) of the samples of subspace i, shape (b, k_i)."""
        mean = self.projected_[i].mean(axis=0)
        values, vectors = np.linalg.eigh((self.projected_[i] - mean).T @ (self.projected_[i] - mean))
        spread = np.maximum(values, 0.0) / len(self.projected_[i]) + variance[:, None]
        return np.asarray(-(((z - mean) @ vectors) / spread) @ vectors.T)

    def _gate(self, points: Floats, basis: Floats, variance: Floats) -> NDArray[np.bool_]:
        constant = GATE if self.gate == "paper" else float(self.gate or np.inf)
        ambient, dim = basis.shape
        inner = np.maximum(1.0, np.log(self.n_samples_ * ambient) + dim / 2 * np.log(variance))
        distance = np.linalg.norm(points - (points @ basis) @ basis.T, axis=1)
        return np.asarray(distance <= constant * np.sqrt(variance * ambient * inner))
