"""Laws on unions of subspaces whose score with noise is known in closed form: the ground truth of tests and claims."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import log_ndtr, logsumexp

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class UnionLaw:
    r"""Mixtures of Gaussians or of boxes on subspaces.

    Component (i, b) of weight pi_ib is, in the coordinates of subspace i, the Gaussian N(mu_ib, s_ib^2 I) or the
    uniform law on the box with middle mu_ib and half width sqrt(3) s_ib, which has the same mean and covariance.

    Args:
        bases: A_i, M of shape (d, k).
        weights: pi, shape (M, B), summing to 1.
        means: mu, shape (M, B, k).
        spreads: s, shape (M, B).
        kind: ``"gaussian"`` or ``"box"``.
    """

    bases: Sequence[Floats]
    weights: Floats
    means: Floats
    spreads: Floats
    kind: Literal["gaussian", "box"] = "gaussian"

    @property
    def dim(self) -> int:
        """Length d of a sample."""
        return len(self.bases[0])

    def sample(self, n: int, rng: np.random.Generator) -> tuple[Floats, NDArray[np.int64]]:
        """Return samples, shape (n, d), and their subspaces, shape (n,).

        Args:
            n: How many.
            rng: Source of the draws.
        """
        flat = rng.choice(self.weights.size, n, p=self.weights.ravel())
        labels, component = np.divmod(flat, self.weights.shape[1])
        shape = (n, self.means.shape[2])
        draw = rng.standard_normal(shape) if self.kind == "gaussian" else np.sqrt(3) * rng.uniform(-1, 1, shape)
        low = self.means[labels, component] + self.spreads[labels, component, None] * draw
        return np.asarray(np.einsum("ndk,nk->nd", np.stack(self.bases)[labels], low)), labels

    def noised(self, n: int, t: float, rng: np.random.Generator) -> Floats:
        """Return samples of p_t, shape (n, d).

        Args:
            n: How many.
            t: Variance of the noise.
            rng: Source of the draws.
        """
        return np.asarray(self.sample(n, rng)[0] + np.sqrt(t) * rng.standard_normal((n, self.dim)))

    def log_density(self, x: ArrayLike, t: float) -> Floats:
        """Return log p_t, shape (b,).

        Args:
            x: Points, shape (b, d).
            t: Variance of the noise.
        """
        return np.asarray(logsumexp(self._parts(np.asarray(x, np.float64), t)[0], axis=(1, 2)))

    def score(self, x: ArrayLike, t: float) -> Floats:
        """Return grad log p_t, shape (b, d).

        Args:
            x: Points, shape (b, d).
            t: Variance of the noise.
        """
        points = np.asarray(x, np.float64)
        logs, low = self._parts(points, t)
        weights = np.exp(logs - logsumexp(logs, axis=(1, 2), keepdims=True))
        score = np.zeros_like(points)
        for i, basis in enumerate(self.bases):
            across = -(points - (points @ basis) @ basis.T) / t
            score += weights[:, i].sum(axis=1)[:, None] * across
            score += np.einsum("bc,bck->bk", weights[:, i], low[:, i]) @ basis.T
        return score

    def _parts(self, points: Floats, t: float) -> tuple[Floats, Floats]:
        """Return log weights, shape (b, M, B), and scores along the subspaces, shape (b, M, B, k)."""
        logs, scores = [], []
        for i, basis in enumerate(self.bases):
            ambient, dim = basis.shape
            low = points @ basis
            across = -((points - low @ basis.T) ** 2).sum(axis=1) / (2 * t) - (ambient - dim) / 2 * np.log(
                2 * np.pi * t
            )
            centred = low[:, None] - self.means[i]
            log_along, along = (_gaussian if self.kind == "gaussian" else _box)(centred, self.spreads[i], t)
            logs.append(np.log(self.weights[i]) + across[:, None] + log_along)
            scores.append(along)
        return np.stack(logs, axis=1), np.stack(scores, axis=1)


def random_union(
    rng: np.random.Generator, dim: int, subspaces: int, low: int, kind: Literal["gaussian", "box"] = "gaussian"
) -> UnionLaw:
    """Return a law with two components on each random subspace: unit means, spreads 0.2 to 0.4, weights 0.3 to 0.7.

    Args:
        rng: Source of the draws.
        dim: d.
        subspaces: M.
        low: k.
        kind: Of the components.
    """
    bases = [np.linalg.qr(rng.standard_normal((dim, low)))[0] for _ in range(subspaces)]
    means = rng.standard_normal((subspaces, 2, low))
    means /= np.linalg.norm(means, axis=2, keepdims=True)
    first = rng.uniform(0.3, 0.7, subspaces)
    weights = np.stack([first, 1 - first], axis=1) / subspaces
    return UnionLaw(bases, weights, means, rng.uniform(0.2, 0.4, (subspaces, 2)), kind)


def _gaussian(centred: Floats, spreads: Floats, t: float) -> tuple[Floats, Floats]:
    variance = spreads**2 + t
    dim = centred.shape[2]
    logs = -(centred**2).sum(axis=2) / (2 * variance) - dim / 2 * np.log(2 * np.pi * variance)
    return logs, -centred / variance[:, None]


def _box(centred: Floats, spreads: Floats, t: float) -> tuple[Floats, Floats]:
    """Uniform on [-a, a] with noise: the density is (Phi(u) - Phi(v)) / 2a with u, v = (z +- a) / sqrt(t)."""
    half = (np.sqrt(3) * spreads)[:, None]
    # The density is even, so |z| keeps both arguments on the side where the difference of tails is accurate.
    size = np.abs(centred)
    near, far = (half - size) / np.sqrt(t), (-half - size) / np.sqrt(t)
    log_near, log_far = log_ndtr(near), log_ndtr(far)
    log_mass = log_near + np.log1p(-np.exp(log_far - log_near))
    log_phi_near, log_phi_far = (-(value**2) / 2 - np.log(2 * np.pi) / 2 for value in (near, far))
    slope = -(np.exp(log_phi_near - log_mass) - np.exp(log_phi_far - log_mass)) / np.sqrt(t)
    logs = (log_mass - np.log(2 * half)).sum(axis=2)
    return logs, np.sign(centred) * slope
