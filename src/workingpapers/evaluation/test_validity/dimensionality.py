"""How many factors the answers hold, and whether two populations share them."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np
from scipy.linalg import orthogonal_procrustes

from workingpapers.foundations.errors import InputError
from workingpapers.foundations.progress import Progress, silent


@dataclass(frozen=True)
class ParallelAnalysis:
    """Eigenvalues against chance.

    Args:
        eigenvalues: Of the correlation matrix, falling, shape (p,).
        chance: Their quantile in random normal data of the same size, shape (p,).
        factors: How many leading eigenvalues exceed chance.
    """

    eigenvalues: np.ndarray
    chance: np.ndarray
    factors: int


def parallel_analysis(
    answers: np.ndarray,
    rng: np.random.Generator,
    *,
    draws: int = 500,
    quantile: float = 0.95,
    progress: Progress = silent,
) -> ParallelAnalysis:
    """Compare the eigenvalues of the correlation matrix with those of random data.

    Args:
        answers: Complete answers, shape (n, p).
        rng: Source of the random data.
        draws: Number of random data sets.
        quantile: The quantile of chance that an eigenvalue must exceed.
        progress: Told of the draws.

    References:
        J. L. Horn, Psychometrika 30 (1965).
    """
    n, p = np.asarray(answers).shape
    eigenvalues = np.linalg.eigvalsh(_correlation(answers))[::-1]
    chance = np.empty((draws, p))
    for k in range(draws):
        chance[k] = np.linalg.eigvalsh(np.corrcoef(rng.normal(size=(n, p)), rowvar=False))[::-1]
        if k % 50 == 0:
            progress(k / draws, f"parallel analysis, draw {k} of {draws}")
    bound = np.quantile(chance, quantile, axis=0)
    above = eigenvalues > bound
    return ParallelAnalysis(eigenvalues, bound, int(p if above.all() else np.argmin(above)))


def minimum_average_partial(answers: np.ndarray) -> int:
    """Return the number of components whose removal leaves the smallest mean squared partial correlation (MAP).

    Args:
        answers: Complete answers, shape (n, p).

    References:
        W. F. Velicer, Psychometrika 41 (1976).
    """
    correlation = _correlation(answers)
    p = len(correlation)
    values, vectors = np.linalg.eigh(correlation)
    loading = (vectors * np.sqrt(np.maximum(values, 0.0)))[:, ::-1]
    outside = ~np.eye(p, dtype=bool)
    averages = [np.mean(correlation[outside] ** 2)]
    for m in range(1, p - 1):
        partial = correlation - loading[:, :m] @ loading[:, :m].T
        spread = np.sqrt(np.maximum(np.diag(partial), 1e-12))
        averages.append(np.mean((partial / np.outer(spread, spread))[outside] ** 2))
    return int(np.argmin(averages))


def exploratory_loadings(answers: np.ndarray, factors: int) -> np.ndarray:
    """Return unrotated loadings of iterated principal axes, shape (p, factors), from statsmodels.

    Args:
        answers: Complete answers, shape (n, p).
        factors: Number of factors.
    """
    from statsmodels.multivariate.factor import Factor

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fit = Factor(corr=_correlation(answers), n_factor=factors, method="pa").fit(maxiter=500, tol=1e-6)
    return np.asarray(fit.loadings)


def congruence(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    r"""Return Tucker's congruence of each factor after rotating the second solution to the first, shape (m,).

    .. math:: \varphi = \sum_i a_i b_i / \sqrt{\sum_i a_i^2 \sum_i b_i^2}

    From .95 on factors count as equal, from .85 as similar.

    Args:
        first: Target loadings, shape (p, m).
        second: Loadings of the other population, shape (p, m).

    References:
        U. Lorenzo-Seva, J. M. F. ten Berge, Methodology 2 (2006).
    """
    rotated = second @ orthogonal_procrustes(second, first)[0]
    lengths = np.sqrt(np.sum(first**2, axis=0) * np.sum(rotated**2, axis=0))
    return np.asarray(np.sum(first * rotated, axis=0) / np.where(lengths > 0, lengths, 1.0))


def _correlation(answers: np.ndarray) -> np.ndarray:
    data = np.asarray(answers, dtype=np.float64)
    if np.any(data.std(axis=0) == 0):
        raise InputError(f"Item {int(np.argmin(data.std(axis=0)))} has one answer alone; leave it out.")
    return np.asarray(np.corrcoef(data, rowvar=False))
