"""Which features may be perturbed: those that the residual does not depend on, most useful first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Literal

import numpy as np
import numpy.typing as npt
from scipy import stats

from workingpapers.causality.residual_augmentation.tables import Floats, Integers

Screening = Literal["pearson+pc", "pc", "dcor"]
CONDITIONING_SIZE = 2
DCOR_ROWS = 2000


@dataclass(frozen=True)
class Screen:
    """Outcome of a screen over the candidate columns.

    Args:
        columns: Positions of the candidate columns, shape (m,).
        correlation_target: Pearson correlation of each candidate with the target, shape (m,).
        correlation_residual: Pearson correlation with the residual, shape (m,).
        pvalue: P-value of independence from the residual, shape (m,): Pearson's test, or the distance correlation's.
        kept: Whether the candidate may be perturbed, shape (m,).
        ranked: Positions of the kept columns, most useful first, shape (kept,).
    """

    columns: Integers
    correlation_target: Floats
    correlation_residual: Floats
    pvalue: Floats
    kept: npt.NDArray[np.bool_]
    ranked: Integers


def screen_features(
    values: Floats,
    y: Floats,
    residuals: Floats,
    columns: Integers,
    screen: Screening | None = "pearson+pc",
    alpha: float = 0.05,
    max_correlation: float = 0.1,
    rng: np.random.Generator | None = None,
) -> Screen:
    r"""Keep the candidate columns that the residual does not depend on, and rank them.

    ``"pearson+pc"`` keeps :math:`j` when :math:`|r(x_j, z)| <` `max_correlation`, its test has
    :math:`p >` `alpha`, and the PC-style search (:func:`pc_neighbours`) does not join it to :math:`z`. The search
    starts from the marginal test, so at the same `alpha` it has nothing left to remove after the first two conditions.
    It matters alone: ``"pc"`` also keeps features whose dependence on the residual other features explain, which is the
    definition of residual invariance. ``"dcor"`` tests all dependence, not only linear, by distance correlation.
    None keeps every candidate. The rank is by :math:`|r(x_j, y)| - |r(x_j, z)|`, largest first; for ``"dcor"`` as well.

    Args:
        values: Numeric features, shape (n, d); missing entries count as the column's mean.
        y: Targets, shape (n,).
        residuals: Residuals :math:`z`, shape (n,).
        columns: Candidate positions, shape (m,). All numeric columns serve the search as conditioning variables.
        screen: The rule.
        alpha: Level of the tests.
        max_correlation: Largest absolute correlation with the residual under ``"pearson+pc"``.
        rng: Chooses the rows that ``"dcor"`` looks at where there are more than 2,000.

    Returns:
        The screen.

    References:
        The PC search of Spirtes and Glymour for one node: Bühlmann, Kalisch, Maathuis (2010), Biometrika 97(2).
    """
    filled = _filled(values)
    columns = np.asarray(columns, dtype=np.intp)
    with_target = correlations(filled[:, columns], y)
    with_residual = correlations(filled[:, columns], residuals)
    pvalue = pearson_pvalues(with_residual, len(y))
    if screen == "dcor":
        pvalue = dcor_pvalues(filled[:, columns], residuals, rng or np.random.default_rng(0))
        kept = pvalue >= alpha
    elif screen is None:
        kept = np.ones(len(columns), dtype=bool)
    else:
        neighbours = pc_neighbours(filled, residuals, alpha)
        kept = ~np.isin(columns, neighbours)
        if screen == "pearson+pc":
            kept &= (np.abs(with_residual) < max_correlation) & (pvalue > alpha)
    score = np.abs(with_target) - np.abs(with_residual)
    order = np.argsort(-score, kind="stable")
    return Screen(columns, with_target, with_residual, pvalue, kept, columns[order[kept[order]]])


def correlations(features: Floats, other: Floats) -> Floats:
    """Return Pearson's correlation of every column of `features` (n, m) with `other` (n,); 0 where one is constant."""
    centred = features - features.mean(axis=0)
    against = other - other.mean()
    # Rounding leaves a constant column with a tiny spread, whose correlation would be noise.
    flat = np.linalg.norm(centred, axis=0) <= 1e-12 * np.linalg.norm(features, axis=0)
    scale = np.linalg.norm(centred, axis=0) * np.linalg.norm(against)
    constant = flat | (scale == 0) | (np.linalg.norm(against) <= 1e-12 * np.linalg.norm(other))
    result: Floats = np.where(constant, 0.0, (centred.T @ against) / np.where(constant, 1.0, scale))
    return np.clip(result, -1.0, 1.0)


def pearson_pvalues(correlation: Floats, n: int) -> Floats:
    r"""Return two-sided p-values of no correlation, :math:`t = r\sqrt{(n-2)/(1-r^2)}`; 1 where n < 3."""
    if n < 3:
        return np.ones_like(correlation)
    with np.errstate(divide="ignore"):
        t = np.abs(correlation) * np.sqrt((n - 2) / (1 - correlation**2))
    result: Floats = 2 * stats.t.sf(t, n - 2)
    return result


def fisher_z_pvalue(partial: npt.ArrayLike, n: int, conditioning: int) -> Floats:
    r"""Return two-sided p-values of no partial correlation by Fisher's z.

    .. math:: 2\,\bar\Phi\bigl(\sqrt{n - |S| - 3}\;|\operatorname{artanh} r|\bigr)

    Args:
        partial: Partial correlations, any shape.
        n: Number of rows.
        conditioning: Number of conditioning variables :math:`|S|`.

    Returns:
        Same shape; 1 where there are too few rows.
    """
    partial = np.asarray(partial, dtype=np.float64)
    freedom = n - conditioning - 3
    if freedom <= 0:
        return np.ones_like(partial)
    with np.errstate(divide="ignore"):
        result: Floats = 2 * stats.norm.sf(np.sqrt(freedom) * np.abs(np.arctanh(partial)))
    return result


def partial_correlations(correlation: Floats, first: int, second: int, given: Sequence[Sequence[int]]) -> Floats:
    r"""Return the partial correlation of two variables given each of several sets of equal size.

    .. math:: r_{ij \cdot S} = -\frac{P_{ij}}{\sqrt{P_{ii} P_{jj}}}, \qquad P = (R_{\{i,j\} \cup S})^{-1}

    Args:
        correlation: Correlation matrix :math:`R`, shape (v, v).
        first: Position i.
        second: Position j.
        given: Sets S, shape (sets, size).

    Returns:
        Shape (sets,).
    """
    members = np.array([[first, second, *chosen] for chosen in given], dtype=np.intp)
    # The pseudo-inverse lets duplicated features condition on each other without an error.
    precision = np.linalg.pinv(correlation[members[:, :, None], members[:, None, :]], hermitian=True)
    scale = np.sqrt(np.abs(precision[:, 0, 0] * precision[:, 1, 1]))
    result: Floats = np.where(scale > 1e-12, -precision[:, 0, 1] / np.where(scale > 1e-12, scale, 1.0), 0.0)
    return np.clip(result, -1.0, 1.0)


def pc_neighbours(
    values: Floats, residuals: Floats, alpha: float = 0.05, max_conditioning: int = CONDITIONING_SIZE
) -> Integers:
    """Return the columns that a PC-style search joins to the residual.

    The search starts from the columns correlated with the residual and removes, for growing sets S of the others that
    remain, every column with an insignificant partial correlation given some S (Fisher's z). The target is not among
    the conditioning variables: it is a common effect of features and residual, so conditioning on it makes dependence.

    Args:
        values: Features without missing entries, shape (n, d); constant columns never join.
        residuals: Residuals, shape (n,).
        alpha: Level of the tests.
        max_conditioning: Largest size of S.

    Returns:
        Sorted positions.
    """
    n = len(residuals)
    marginal = correlations(values, residuals)
    active = [int(j) for j in np.flatnonzero(fisher_z_pvalue(marginal, n, 0) < alpha)]
    if not active:
        return np.asarray([], dtype=np.intp)
    joint = np.column_stack([values[:, active], residuals])
    matrix = np.corrcoef(joint, rowvar=False)
    target = len(active)
    position = {column: place for place, column in enumerate(active)}
    for size in range(1, max_conditioning + 1):
        if len(active) - 1 < size:
            break
        remaining = []
        for column in active:
            others = [position[other] for other in active if other != column]
            partial = partial_correlations(matrix, position[column], target, list(combinations(others, size)))
            if np.all(fisher_z_pvalue(partial, n, size) < alpha):
                remaining.append(column)
        active = remaining
    return np.asarray(active, dtype=np.intp)


def dcor_pvalues(features: Floats, other: Floats, rng: np.random.Generator) -> Floats:
    r"""Return p-values of independence by the bias-corrected distance correlation and its chi-square bound.

    .. math:: p = \Pr(\chi^2_1 \ge n\,\widehat{\mathrm{dCor}} + 1)

    Args:
        features: Shape (n, m).
        other: Shape (n,).
        rng: Chooses 2,000 rows where there are more (the matrices take n^2 memory).

    Returns:
        Shape (m,).

    References:
        Székely and Rizzo (2014), arXiv 1310.2926; Shen, Panda, Vogelstein (2022), arXiv 1912.12150.
    """
    n = len(other)
    if n > DCOR_ROWS:
        rows = rng.choice(n, DCOR_ROWS, replace=False)
        features, other, n = features[rows], other[rows], DCOR_ROWS
    if n < 4:
        return np.ones(features.shape[1])
    reference = u_centred(other)
    statistic = np.array([dcor(u_centred(features[:, j]), reference) for j in range(features.shape[1])])
    result: Floats = np.asarray(stats.chi2.sf(n * statistic + 1, 1))
    return result


def u_centred(values: Floats) -> Floats:
    """Return the U-centred distance matrix of `values` (n,), shape (n, n), zero on the diagonal."""
    n = len(values)
    distance = np.abs(values[:, None] - values[None, :])
    rows = distance.sum(axis=1)
    centred: Floats = distance - rows[:, None] / (n - 2) - rows[None, :] / (n - 2) + rows.sum() / ((n - 1) * (n - 2))
    np.fill_diagonal(centred, 0.0)
    return centred


def dcor(first: Floats, second: Floats) -> float:
    """Return the bias-corrected squared distance correlation of two U-centred matrices; 0 where one is constant."""
    scale = float(np.sqrt(np.vdot(first, first) * np.vdot(second, second)))
    return float(np.vdot(first, second)) / scale if scale > 1e-300 else 0.0


def _filled(values: Floats) -> Floats:
    """Return `values` with missing entries at their column's mean and columns without numbers at zero."""
    seen = np.isfinite(values)
    count = seen.sum(axis=0)
    mean = np.where(seen, values, 0.0).sum(axis=0) / np.maximum(count, 1)
    filled: Floats = np.where(seen, values, mean)
    return filled
