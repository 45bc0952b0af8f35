r"""A calibrated item bank, one- or multidimensional, and abilities estimated from any subset of its items.

.. math:: P(y_i = 1 \mid \theta) = c_i + (1 - c_i)\,\sigma(a_i^\top \theta + d_i), \qquad \theta \sim N(0, I)

The score of item i is :math:`\nabla_\theta \ell_i = a_i\,r_i` with :math:`r_i = (p_i - y_i)\,s_i / p_i` and
:math:`s_i = \sigma(a_i^\top\theta + d_i)`, which is :math:`a_i (p_i - y_i)` without guessing; its Fisher information is
:math:`a_i a_i^\top w_i` with :math:`w_i = (1 - p_i)\,s_i^2 / p_i`, the variance of the score.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import expit

from workingpapers.foundations.errors import InputError
from workingpapers.foundations.item_response import Items, Model, calibrate
from workingpapers.foundations.progress import Progress, silent

NEWTON_STEPS = 200
DECIMALS = 8
SLOPE_PRIOR = (0.0, 1.0)
"""Mean and standard deviation of the log slope in the 2PL: weak, for small logs."""


@dataclass(frozen=True)
class Bank:
    """Items with their parameters, in the order of the response columns.

    Args:
        slope: a, float64, shape (n, d); d is the number of dimensions of the ability.
        intercept: d, float64, shape (n,).
        guessing: c, float64, shape (n,).
        names: Name of each item.
    """

    slope: np.ndarray
    intercept: np.ndarray
    guessing: np.ndarray
    names: tuple[str, ...]

    @classmethod
    def from_items(cls, items: Items, names: Sequence[str] = ()) -> Bank:
        """Return the one-dimensional bank of two-category `items`, shape (n,)."""
        if items.intercept.shape[1] != 1:
            raise InputError(f"Items have {items.intercept.shape[1] + 1} categories; an adaptive test takes 0 and 1.")
        labels = tuple(names) or tuple(f"item{index + 1}" for index in range(items.count))
        return cls(items.slope[:, None], items.intercept[:, 0], items.guessing, labels)

    @property
    def count(self) -> int:
        """Number of items n."""
        return len(self.intercept)

    @property
    def dimensions(self) -> int:
        """Number of dimensions d of the ability."""
        return int(self.slope.shape[1])

    @property
    def fingerprint(self) -> str:
        """SHA-256 of parameters and names: a policy belongs to the bank that it was trained on."""
        digest = hashlib.sha256("\n".join(self.names).encode())
        for part in (self.slope, self.intercept, self.guessing):
            digest.update(np.ascontiguousarray(part, dtype=np.float64).tobytes())
        return digest.hexdigest()

    def take(self, which: np.ndarray) -> Bank:
        """Return the items of the index array `which`, shape (m,)."""
        names = tuple(self.names[index] for index in which)
        return Bank(self.slope[which], self.intercept[which], self.guessing[which], names)

    def probabilities(self, theta: np.ndarray) -> np.ndarray:
        """Return P(y = 1), shape (B, n), at abilities of shape (B, d)."""
        s = expit(theta @ self.slope.T + self.intercept)
        return np.asarray(self.guessing + (1 - self.guessing) * s)

    def weights(self, theta: np.ndarray) -> np.ndarray:
        """Return w of the information a a' w, shape (B, n), at abilities of shape (B, d)."""
        s = expit(theta @ self.slope.T + self.intercept)
        if not self.guessing.any():
            return np.asarray(s * (1 - s))
        p = self.guessing + (1 - self.guessing) * s
        return np.asarray((1 - p) * s**2 / p)

    def information(self, theta: np.ndarray) -> np.ndarray:
        """Return the trace of each item's Fisher information, shape (B, n), at abilities of shape (B, d)."""
        return np.asarray(self.weights(theta) * (self.slope**2).sum(axis=1))


def calibrate_bank(
    responses: np.ndarray,
    model: Model = "2PL",
    *,
    names: Sequence[str] = (),
    concepts: Sequence[str] = (),
    progress: Progress = silent,
) -> Bank:
    """Calibrate a bank from a log of answers by marginal maximum likelihood.

    Args:
        responses: 0, 1 or NaN, float64, shape (N, n).
        model: ``"1PL"``, ``"2PL"`` or ``"3PL"``; the 2PL takes a weak prior on log slopes, :data:`SLOPE_PRIOR`.
        names: Name of each item.
        concepts: Concept of each item. With two or more the ability has one dimension for each (in the order of the
            sorted names), every item loads on the dimension of its concept, and each is calibrated by itself.
        progress: Told of each EM step.

    Returns:
        The bank.

    Raises:
        InputError: A response is not 0, 1 or empty; an item has one answer only; concepts and items disagree.
    """
    matrix = check_binary(responses)
    n = matrix.shape[1]
    if concepts and len(concepts) != n:
        raise InputError(f"There are {len(concepts)} concepts for {n} items; give one for each item.")
    labels = sorted(set(concepts)) or [""]
    index = np.array([labels.index(concept) for concept in concepts] or [0] * n)
    slope, intercept, guessing = np.zeros((n, len(labels))), np.zeros(n), np.zeros(n)
    for dimension in range(len(labels)):
        columns = np.flatnonzero(index == dimension)
        items = _calibrated(matrix[:, columns], model, progress)
        slope[columns, dimension] = items.slope
        intercept[columns], guessing[columns] = items.intercept[:, 0], items.guessing
    # The data know the parameters to three digits at best. Rounded, items with the same answers are exactly equal,
    # whatever the order of sums, and ties go to the first of them on every machine.
    slope, intercept, guessing = (np.round(part, DECIMALS) for part in (slope, intercept, guessing))
    return Bank(slope, intercept, guessing, tuple(names) or tuple(f"item{k + 1}" for k in range(n)))


def _calibrated(matrix: np.ndarray, model: Model, progress: Progress) -> Items:
    # Without a prior, two items that agree with each other more than with the rest run away to infinite slopes.
    prior = SLOPE_PRIOR if model == "2PL" else None
    try:
        return calibrate(matrix, model, slope_prior=prior, standard_errors=False, progress=progress).items
    except np.linalg.LinAlgError:
        raise InputError(
            f"The {model} cannot be calibrated on {len(matrix)} examinees and {matrix.shape[1]} items; "
            "take the 1PL, or leave out items that say the same."
        ) from None


def check_binary(responses: np.ndarray) -> np.ndarray:
    """Return responses as float64, shape (N, n), with NaN where missing.

    Raises:
        InputError: Not a matrix, or a response is something else than 0, 1 or NaN.
    """
    matrix = np.asarray(responses, dtype=np.float64)
    if matrix.ndim != 2 or not matrix.size:
        raise InputError(f"Responses have shape {matrix.shape}; give examinees by items.")
    wrong = ~np.isnan(matrix) & (matrix != 0) & (matrix != 1)
    if wrong.any():
        row, column = np.argwhere(wrong)[0]
        raise InputError(
            f"Response {matrix[row, column]:g} of examinee {row + 1} to item {column + 1} is neither 0 nor 1; "
            "leave missing ones empty."
        )
    return matrix


def score_gradients(bank: Bank, theta: np.ndarray, responses: np.ndarray) -> np.ndarray:
    """Return the gradient of each item's loss, shape (B, n, d); zero where the response is NaN.

    Args:
        bank: The items.
        theta: Abilities, shape (B, d).
        responses: 0, 1 or NaN, shape (B, n).
    """
    residual, _ = _residuals(theta @ bank.slope.T + bank.intercept, bank.guessing, responses)
    return np.asarray(residual[:, :, None] * bank.slope)


def estimate(
    bank: Bank,
    asked: np.ndarray,
    answers: np.ndarray,
    start: np.ndarray | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    r"""Estimate abilities by the posterior mode under :math:`N(0, I)`, all examinees at once.

    Fisher scoring on the answered items alone, so a step of a test costs O(t) and not O(n) an examinee.

    Args:
        bank: The items.
        asked: Indices of the answered items, int64, shape (B, t).
        answers: 0, 1 or NaN (ignored), shape (B, t).
        start: First abilities, shape (B, d); zero where None. The posterior mode does not depend on it without
            guessing, where the posterior is log-concave.

    Returns:
        Abilities, shape (B, d), and the inverse of information plus prior precision, shape (B, d, d).
    """
    slope, intercept, guessing = bank.slope[asked], bank.intercept[asked], bank.guessing[asked]
    d = bank.dimensions
    theta = np.zeros((len(asked), d)) if start is None else np.array(start, dtype=np.float64)
    seen = ~np.isnan(answers)
    active = np.arange(len(asked))
    for _ in range(NEWTON_STEPS):
        a = slope[active]
        z = np.einsum("btd,bd->bt", a, theta[active]) + intercept[active]
        residual, weight = _residuals(z, guessing[active], answers[active])
        gradient = np.einsum("bt,btd->bd", residual, a) + theta[active]
        precision = _precision(a, weight * seen[active])
        step = np.clip(_solve(precision, gradient), -1.0, 1.0)
        theta[active] -= step
        active = active[np.abs(step).max(axis=1, initial=0.0) > 1e-9]
        if not len(active):
            break
    z = np.einsum("btd,bd->bt", slope, theta) + intercept
    precision = _precision(slope, _residuals(z, guessing, answers)[1] * seen)
    return theta, np.linalg.inv(precision)


def estimate_full(bank: Bank, responses: np.ndarray) -> np.ndarray:
    """Return the abilities that all answers of each examinee give, shape (N, d).

    Args:
        bank: The items.
        responses: 0, 1 or NaN, shape (N, n).
    """
    asked = np.broadcast_to(np.arange(bank.count), responses.shape)
    return estimate(bank, asked, responses)[0]


def _residuals(z: np.ndarray, guessing: np.ndarray, answers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return r (zero where the answer is NaN) and w at linear predictors z, all of one shape."""
    s = expit(z)
    if guessing.any():
        p = guessing + (1 - guessing) * s
        ratio = s / p
        return _observed((p - answers) * ratio), (1 - p) * s * ratio
    return _observed(s - answers), s * (1 - s)


def _observed(residual: np.ndarray) -> np.ndarray:
    return np.where(np.isnan(residual), 0.0, residual)


def _precision(slope: np.ndarray, weight: np.ndarray) -> np.ndarray:
    weighted = weight[:, :, None] * slope
    return np.asarray(weighted.transpose(0, 2, 1) @ slope + np.eye(slope.shape[2]))


def _solve(precision: np.ndarray, gradient: np.ndarray) -> np.ndarray:
    if gradient.shape[1] == 1:
        return np.asarray(gradient / precision[:, :, 0])
    return np.asarray(np.linalg.solve(precision, gradient[:, :, None])[:, :, 0])
