r"""Moments, model matrices and likelihood derivatives of the factor model of :mod:`.factor_model`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

from workingpapers.foundations.errors import InputError


class Parameter(NamedTuple):
    """One free number: entry (row, column) of a matrix, shared by `groups`."""

    matrix: Literal["loading", "factor", "residual", "intercept", "mean"]
    row: int
    column: int
    groups: tuple[int, ...]


@dataclass(frozen=True)
class Moments:
    """What the model needs of one group: deviations (n, p) from the means (p,), and the covariance S (p, p)."""

    deviations: np.ndarray
    mean: np.ndarray
    covariance: np.ndarray


@dataclass(frozen=True)
class Matrices:
    """Model matrices of one group: Lambda (p, m), Phi (m, m), diagonal of Theta (p,), tau (p,), alpha (m,)."""

    loading: np.ndarray
    factor: np.ndarray
    residual: np.ndarray
    intercept: np.ndarray
    mean: np.ndarray

    def implied(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the mean (p,) and covariance (p, p) that the model implies."""
        common = self.loading @ self.factor @ self.loading.T
        return self.intercept + self.loading @ self.mean, common + np.diag(self.residual)


def moments(answers: np.ndarray) -> Moments:
    """Return the moments of complete answers.

    Args:
        answers: Finite numbers, shape (n, p).

    Raises:
        InputError: Fewer rows than items, or a covariance that cannot be inverted.
    """
    data = np.asarray(answers, dtype=np.float64)
    n, p = data.shape
    if n <= p:
        raise InputError(f"A factor model of {p} items needs more than {p} complete rows, not {n}; collect more.")
    centred = data - data.mean(axis=0)
    covariance = centred.T @ centred / n
    spread = np.sqrt(np.diag(covariance))
    if spread.min() <= 0 or np.linalg.eigvalsh(covariance / np.outer(spread, spread))[0] < 1e-10:
        raise InputError(
            f"The covariance of {p} items is singular: an item is constant or follows from others; leave it out."
        )
    return Moments(centred, data.mean(axis=0), covariance)


def discrepancy(samples: Sequence[Moments], groups: tuple[Matrices, ...]) -> float:
    """Return F, or infinity where an implied covariance is not positive definite."""
    total = 0.0
    for sample, group in zip(samples, groups, strict=True):
        mean, covariance = group.implied()
        try:
            factor = np.linalg.cholesky(covariance)
        except np.linalg.LinAlgError:
            return np.inf
        inverse = np.linalg.inv(covariance)
        gap = sample.mean - mean
        total += len(sample.deviations) * float(
            2 * np.log(np.diag(factor)).sum()
            - np.linalg.slogdet(sample.covariance)[1]
            + np.sum(inverse * sample.covariance)
            - len(mean)
            + gap @ inverse @ gap
        )
    return total


def derivatives(group: Matrices, parameters: Sequence[Parameter], g: int) -> tuple[np.ndarray, np.ndarray]:
    """Return d Sigma, shape (q, p, p), and d mu, shape (q, p), of group g."""
    loading, factor = group.loading, group.factor
    p = len(loading)
    sigma, mu = np.zeros((len(parameters), p, p)), np.zeros((len(parameters), p))
    common = loading @ factor
    for a, (matrix, i, j, who) in enumerate(parameters):
        if g not in who:
            continue
        if matrix == "loading":
            sigma[a, i] += common[:, j]
            sigma[a, :, i] += common[:, j]
            mu[a, i] = group.mean[j]
        elif matrix == "factor":
            outer = np.outer(loading[:, i], loading[:, j])
            sigma[a] = outer if i == j else outer + outer.T
        elif matrix == "residual":
            sigma[a, i, i] = 1.0
        elif matrix == "intercept":
            mu[a, i] = 1.0
        else:
            mu[a] = loading[:, i]
    return sigma, mu


def score(
    samples: Sequence[Moments], groups: tuple[Matrices, ...], parameters: Sequence[Parameter], cases: bool = False
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return gradient of -F/2, expected information, and (where asked) the cross-products of the cases' scores."""
    q = len(parameters)
    gradient, information, products = np.zeros(q), np.zeros((q, q)), np.zeros((q, q))
    for g, (sample, group) in enumerate(zip(samples, groups, strict=True)):
        n = len(sample.deviations)
        mean, covariance = group.implied()
        inverse = np.linalg.inv(covariance)
        sigma, mu = derivatives(group, parameters, g)
        gap = sample.mean - mean
        slack = inverse @ (sample.covariance + np.outer(gap, gap)) @ inverse - inverse
        gradient += n * (0.5 * np.tensordot(sigma, slack, axes=2) + mu @ inverse @ gap)
        rotated = inverse @ sigma
        flat = rotated.reshape(q, -1)
        flipped = rotated.transpose(0, 2, 1).reshape(q, -1)
        information += n * (0.5 * flat @ flipped.T + mu @ inverse @ mu.T)
        if cases:
            whitened = sample.deviations @ inverse
            quadratic = np.einsum("ni,aij,nj->na", whitened, sigma, whitened, optimize=True)
            scores = whitened @ mu.T + 0.5 * (quadratic - quadratic.mean(axis=0))
            products += scores.T @ scores
    return gradient, information, products


def satorra_bentler(
    samples: Sequence[Moments], groups: tuple[Matrices, ...], parameters: tuple[Parameter, ...], degrees: int
) -> float:
    """Return the Satorra-Bentler factor tr(U Gamma) / df without forming U or Gamma."""
    if not degrees:
        return 1.0
    trace = 0.0
    for sample, group in zip(samples, groups, strict=True):
        inverse = np.linalg.inv(group.implied()[1])
        product = inverse @ sample.covariance
        length = np.einsum("ni,ij,nj->n", sample.deviations, inverse, sample.deviations)
        trace += float(np.trace(product) + 0.5 * (np.mean(length**2) - np.sum(product * product.T)))
    _, information, products = score(samples, groups, parameters, cases=True)
    trace -= float(np.trace(np.linalg.lstsq(information, products, rcond=1e-12)[0]))
    return max(trace / degrees, 1e-3)
