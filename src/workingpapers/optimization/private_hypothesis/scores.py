r"""Scheffe scores: how far each candidate is from the data on the sets where it beats another.

For candidates :math:`H_1..H_n` and the empirical measure :math:`\hat P` of s records,

.. math:: w_i(j) = |H_j(S_{ij}) - \hat P(S_{ij})|, \quad S_{ij} = \{x : H_j(x) > H_i(x)\}, \quad
    W(j) = \max_i w_i(j).

Scores are kept in records, :math:`U(j) = s W(j)`, on a lattice on which every sum is exact in float64. Replacing one
record then moves each of them by at most one, without any rounding error, and a row and a column give the same number.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from workingpapers.foundations.errors import InputError
from workingpapers.foundations.progress import Progress, silent
from workingpapers.optimization.private_hypothesis.sampling import check_count

Floats = NDArray[np.float64]
CHUNK = 2**20  # numbers of a table that are compared at a time
LATTICE_BITS = 30
SUM_TOLERANCE = 1e-8


class Scores(Protocol):
    """Semi-distances, computed a row or a column at a time."""

    @property
    def count(self) -> int:
        """Number of candidates n."""

    @property
    def records(self) -> int:
        """Number of records s."""

    def row(self, j: int) -> Floats:
        """Return s w_i(j) for all i, shape (n,): its maximum is the score of j."""

    def column(self, i: int) -> Floats:
        """Return s w_i(j) for all j, shape (n,): a lower bound of every score."""

    def likeliest(self) -> int:
        """Return a candidate close to the data, at the cost of one pass: a starting point, never an output."""


@dataclass(frozen=True)
class TableScores:
    """Scores of distributions on a finite domain; see :func:`table_scores`.

    Args:
        table: Probabilities on the lattice, shape (n, X).
        counts: Records at each point, whole numbers, shape (X,).
    """

    table: Floats
    counts: Floats

    @property
    def count(self) -> int:
        """Number of candidates n."""
        return len(self.table)

    @property
    def records(self) -> int:
        """Number of records s."""
        return int(self.counts.sum())

    def row(self, j: int) -> Floats:
        """Return s w_i(j) for all i, shape (n,)."""
        own = self.table[j]
        excess = self.records * own - self.counts
        found = [(own > part).astype(np.float64) @ excess for part in self._parts()]
        return _absolute(np.concatenate(found))

    def column(self, i: int) -> Floats:
        """Return s w_i(j) for all j, shape (n,)."""
        found = []
        for part in self._parts():
            inside = (part > self.table[i]).astype(np.float64)
            found.append(self.records * np.einsum("nx,nx->n", inside, part) - inside @ self.counts)
        return _absolute(np.concatenate(found))

    def likeliest(self) -> int:
        """Return the candidate of largest likelihood, each probability raised by half the mean one."""
        floor = 0.5 / self.table.shape[1]
        seen = np.flatnonzero(self.counts)
        found = [np.log(part[:, seen] + floor) @ self.counts[seen] for part in self._parts()]
        return int(np.argmax(np.concatenate(found)))

    def _parts(self) -> list[Floats]:
        step = max(1, CHUNK // self.table.shape[1])
        return [self.table[start : start + step] for start in range(0, self.count, step)]


def table_scores(table: ArrayLike, counts: ArrayLike) -> TableScores:
    r"""Prepare distributions on a finite domain and the data for scoring.

    The probabilities are rounded to multiples of :math:`2^{-b}`, b = 30 for up to four million records. This moves a
    probability of a set by at most :math:`X 2^{-b-1}` and makes every sum exact.

    Args:
        table: Probabilities, shape (n, X), rows sum to one.
        counts: Number of records at each point, shape (X,).

    Raises:
        InputError: A row is not a distribution, or the counts are not whole numbers from 0.
    """
    known = check_table(table)
    check_count(len(known))
    given = np.asarray(counts, np.float64)
    if given.shape != (known.shape[1],):
        raise InputError(f"The counts have shape {given.shape}; give one for each of the {known.shape[1]} points.")
    wrong = ~(np.isfinite(given) & (given >= 0) & (given == np.floor(given)))
    if wrong.any():
        raise InputError(f"The count {given[wrong][0]:g} is no whole number from 0; give numbers of records.")
    if not 1 <= given.sum() < 2**40:
        raise InputError(f"There are {given.sum():g} records; at least one is needed.")
    unit = 2.0 ** min(LATTICE_BITS, 52 - int(given.sum()).bit_length())
    return TableScores(np.rint(known * unit) / unit, given)


def check_table(table: ArrayLike) -> Floats:
    """Return a table of probabilities as float64, shape (n, X).

    Args:
        table: Probabilities, rows sum to one.

    Raises:
        InputError: Not two-dimensional, negative, not finite, or a row does not sum to one.
    """
    known = np.asarray(table, np.float64)
    if known.ndim != 2 or 0 in known.shape:
        raise InputError(f"The table of candidates has shape {known.shape}; give one row a candidate.")
    least = float(known.min())
    if not (least >= 0 and np.isfinite(known).all()):
        row, place = (int(k) for k in np.argwhere(~(np.isfinite(known) & (known >= 0)))[0])
        raise InputError(f"Candidate {row} gives point {place} the probability {known[row, place]:g}; use 0 to 1.")
    sums = known.sum(axis=1)
    worst = int(np.argmax(np.abs(sums - 1)))
    if abs(sums[worst] - 1) > SUM_TOLERANCE:
        raise InputError(f"The probabilities of candidate {worst} sum to {sums[worst]:.10g}; each row must sum to 1.")
    return known


def count_points(data: ArrayLike, points: int) -> Floats:
    """Return how many records lie at each point of the domain, shape (X,).

    Args:
        data: Whole numbers from 0 to X - 1, shape (s,).
        points: X.

    Raises:
        InputError: A value outside the domain, named; or no records.
    """
    given = np.asarray(data)
    if given.ndim != 1 or not len(given):
        raise InputError(f"The data have shape {given.shape}; give one point a record, and at least one record.")
    numbers = given.astype(np.float64)
    outside = ~((numbers >= 0) & (numbers < points) & (numbers == np.floor(numbers)))
    if outside.any():
        raise InputError(f"The value {given[outside][0]} lies outside the domain 0 to {points - 1}.")
    return np.bincount(numbers.astype(np.int64), minlength=points).astype(np.float64)


def total_variation(first: ArrayLike, second: ArrayLike) -> Floats:
    r"""Return :math:`\tfrac12 \sum_x |P(x) - Q(x)|` along the last axis.

    Args:
        first: Probabilities, shape (..., X).
        second: Probabilities, shape (..., X).
    """
    found: Floats = 0.5 * np.abs(np.asarray(first, np.float64) - np.asarray(second, np.float64)).sum(axis=-1)
    return found


def all_scores(scores: Scores, progress: Progress = silent) -> Floats:
    """Return U(j) of every candidate, shape (n,): n^2 pair evaluations.

    Args:
        scores: Of n candidates.
        progress: Called after each row.
    """
    found = np.empty(scores.count)
    for j in range(scores.count):
        found[j] = scores.row(j).max()
        progress((j + 1) / scores.count, "scores")
    return found


class Density(Protocol):
    """A candidate on a continuous domain."""

    def logpdf(self, x: Floats) -> Floats:
        """Return log densities, shape (m,), of points, shape (m, d)."""

    def sample(self, size: int, rng: np.random.Generator) -> Floats:
        """Return points, shape (size, d); the same generator state gives the same points."""


class DensityScores:
    """Scores of densities; the masses come from public samples that are fixed before the data are seen.

    Sampling moves a mass by at most sqrt(ln(4 n^2 / beta) / (2 M)) for all pairs with probability 1 - beta.

    Args:
        candidates: n densities.
        data: Records, shape (s,) or (s, d).
        samples: Public samples M from each candidate that is scored.
        seed: Seed of the public samples; it protects nothing and needs no protection.
    """

    def __init__(self, candidates: Sequence[Density], data: ArrayLike, *, samples: int = 4000, seed: int = 0) -> None:
        check_count(len(candidates))
        points = np.asarray(data, np.float64)
        points = points[:, None] if points.ndim == 1 else points
        if points.ndim != 2 or not len(points):
            raise InputError(f"The data have shape {points.shape}; give one row a record, and at least one record.")
        if not np.isfinite(points).all():
            row = int(np.flatnonzero(~np.isfinite(points).all(axis=1))[0])
            raise InputError(f"Record {row} is {points[row].tolist()}; every value must be finite.")
        self.count: int = len(candidates)
        self.records: int = len(points)
        self._candidates, self._samples, self._seed = candidates, samples, seed
        self._heights: Any = np.stack([candidate.logpdf(points) for candidate in candidates], axis=1)
        self._unit = 2.0 ** min(LATTICE_BITS, 52 - self.records.bit_length())

    def row(self, j: int) -> Floats:
        """Return s w_i(j) for all i, shape (n,)."""
        points, own = self._public(j)
        masses = np.array([(own > other.logpdf(points)).mean() for other in self._candidates])
        return self._distance(masses, (self._heights[:, [j]] > self._heights).sum(axis=0))

    def column(self, i: int) -> Floats:
        """Return s w_i(j) for all j, shape (n,)."""
        masses = np.empty(self.count)
        for j in range(self.count):
            points, own = self._public(j)
            masses[j] = (own > self._candidates[i].logpdf(points)).mean()
        return self._distance(masses, (self._heights > self._heights[:, [i]]).sum(axis=0))

    def likeliest(self) -> int:
        """Return the candidate of largest likelihood, each log density cut at -30."""
        return int(np.argmax(np.clip(self._heights, -30.0, None).sum(axis=0)))

    def _public(self, j: int) -> tuple[Floats, Floats]:
        points = self._candidates[j].sample(self._samples, np.random.default_rng([self._seed, j]))
        return points, self._candidates[j].logpdf(points)

    def _distance(self, masses: Floats, inside: NDArray[Any]) -> Floats:
        return _absolute(np.rint(self.records * masses * self._unit) / self._unit - inside)


def _absolute(values: NDArray[Any]) -> Floats:
    found: Floats = np.abs(values)
    return found
