"""What the method is held against: the same job without subspaces, and with one."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import logsumexp
from sklearn.mixture import GaussianMixture

from workingpapers.sampling.subspace_diffusion.kernels import check_points
from workingpapers.sampling.subspace_diffusion.score import UoSScore

Floats = NDArray[np.float64]


def plug_in_score(X: ArrayLike) -> UoSScore:
    """Return the fitted plug-in score: that of the empirical law with noise, nothing regularised.

    Args:
        X: Samples, shape (n, d).
    """
    points = check_points(X)
    return UoSScore(bases=[np.eye(points.shape[1])], threshold="none", clip=False).fit(points)


def ambient_score(X: ArrayLike) -> UoSScore:
    r"""Return the fitted regularised kernel score of smooth densities in all d dimensions.

    .. math:: \hat s_t(x) = \frac{\nabla \hat p_t(x)}{\hat p_t(x)}\,
              1\Bigl\{\hat p_t(x) \ge \frac{\log N}{N (2 \pi t)^{d/2}}\Bigr\}

    Args:
        X: Samples, shape (n, d).
    """
    points = check_points(X)
    return UoSScore(bases=[np.eye(points.shape[1])], clip=False).fit(points)


def single_subspace_score(X: ArrayLike, dim: int) -> UoSScore:
    """Return the fitted score with one subspace for all samples, that of their leading singular vectors.

    Args:
        X: Samples, shape (n, d).
        dim: Its dimension, such as the sum of the k_i.
    """
    points = check_points(X)
    right = np.linalg.svd(points, full_matrices=False)[2]
    return UoSScore(bases=[right[:dim].T]).fit(points)


class GaussianMixtureScore:
    """The score of a Gaussian mixture with full covariances, fitted by scikit-learn, with noise of variance t.

    Args:
        components: Number of Gaussians.
        random_state: Seed of the start.
    """

    def __init__(self, components: int, random_state: int = 0) -> None:
        self.components, self.random_state = components, random_state

    def fit(self, X: ArrayLike) -> GaussianMixtureScore:
        """Fit the mixture.

        Args:
            X: Samples, shape (n, d).
        """
        points = check_points(X)
        mixture = GaussianMixture(self.components, n_init=3, reg_covar=1e-8, random_state=self.random_state).fit(points)
        self.log_weights_, self.means_ = np.log(mixture.weights_), mixture.means_
        self.values_, self.vectors_ = np.linalg.eigh(mixture.covariances_)
        return self

    def score_ve(self, x: ArrayLike, t: float) -> Floats:
        """Return grad log p_t, shape (b, d).

        Args:
            x: Points, shape (b, d).
            t: Variance of the noise.
        """
        points = np.asarray(x, np.float64)
        spread = np.maximum(self.values_, 0.0) + t
        turned = np.einsum("mbd,mde->mbe", points[None] - self.means_[:, None], self.vectors_)
        logs = self.log_weights_[:, None] - 0.5 * (
            (turned**2 / spread[:, None]).sum(axis=2) + np.log(spread).sum(axis=1)[:, None]
        )
        weights = np.exp(logs - logsumexp(logs, axis=0))
        return np.asarray(-np.einsum("mb,mbe,mde->bd", weights, turned / spread[:, None], self.vectors_))
