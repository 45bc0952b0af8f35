r"""Down-closed polytopes :math:`K = \{0 \le x \le u,\ A x \le b\}` with A, b >= 0: linear step, projection, separation.

Every full description of a down-closed polytope can be brought to this form, so a negative entry of A is refused rather
than guessed at.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.optimize import linprog, nnls

from workingpapers.foundations.errors import InputError

SLACK = 1e-9


@dataclass(frozen=True, eq=False)
class Polytope:
    r"""The set :math:`K = \{x \in \mathbb R^d : 0 \le x \le u,\ A x \le b\}` inside the unit box.

    Args:
        matrix: A, shape (m, d), entries >= 0 (m may be 0).
        limits: b, shape (m,), entries >= 0.
        upper: u, shape (d,), entries in (0, 1]; None for ones.

    Raises:
        InputError: A shape does not fit, an entry is NaN, infinite or negative, or a cap is not in (0, 1].
    """

    matrix: np.ndarray
    limits: np.ndarray
    upper: np.ndarray

    def __init__(self, matrix: np.ndarray, limits: np.ndarray, upper: np.ndarray | None = None) -> None:
        a = np.atleast_2d(np.asarray(matrix, dtype=np.float64))
        b = np.atleast_1d(np.asarray(limits, dtype=np.float64))
        u = np.ones(a.shape[1]) if upper is None else np.asarray(upper, dtype=np.float64)
        if b.shape != (a.shape[0],) or u.shape != (a.shape[1],) or not u.size:
            raise InputError(
                f"A has shape {a.shape}, b {b.shape} and the caps {u.shape}; give (m, d), (m,) and (d,) with d >= 1."
            )
        for name, entries in (("A", a), ("b", b), ("the caps", u)):
            wrong = np.argwhere(~np.isfinite(entries))
            if len(wrong):
                place = ", ".join(str(k) for k in wrong[0])
                raise InputError(f"Entry [{place}] of {name} is {entries[tuple(wrong[0])]}; give finite numbers.")
        if (a < 0).any():
            i, j = np.argwhere(a < 0)[0]
            raise InputError(f"A[{i}, {j}] is {a[i, j]:g}; A x <= b is down-closed only with entries of at least 0.")
        if (b < 0).any():
            i = int(np.argmax(b < 0))
            raise InputError(f"b[{i}] is {b[i]:g}, so that no x >= 0 satisfies row {i} of A x <= b; raise b[{i}] to 0.")
        if ((u <= 0) | (u > 1)).any():
            i = int(np.argmax((u <= 0) | (u > 1)))
            raise InputError(f"The cap of coordinate {i} is {u[i]:g}; rescale the coordinate to a cap in (0, 1].")
        object.__setattr__(self, "matrix", a)
        object.__setattr__(self, "limits", b)
        object.__setattr__(self, "upper", u)

    @property
    def dimension(self) -> int:
        """Number of coordinates, d."""
        return len(self.upper)

    @cached_property
    def reach(self) -> np.ndarray:
        """Largest value of each coordinate on K, shape (d,)."""
        with np.errstate(divide="ignore", invalid="ignore"):
            alone = np.where(self.matrix > 0, self.limits[:, None] / self.matrix, np.inf)
        return np.asarray(np.minimum(self.upper, alone.min(axis=0, initial=np.inf)))

    @cached_property
    def diameter(self) -> float:
        r"""Upper bound of the diameter: :math:`\min(\|r\|_2, \sqrt{2 \max_{x \in K} \langle r, x\rangle})`, r = reach.

        On K all entries are >= 0, so :math:`\|x - y\|^2 \le \|x\|^2 + \|y\|^2`, and
        :math:`\|x\|^2 \le \langle r, x\rangle`.
        """
        r = self.reach
        return float(min(np.linalg.norm(r), np.sqrt(2 * r @ self.maximise(r))))

    @cached_property
    def ball(self) -> tuple[np.ndarray, float]:
        """Centre, shape (d,), and radius of the largest ball inside K (one linear program)."""
        d = self.dimension
        normals, bounds = self._halfspaces
        result = linprog(
            np.r_[np.zeros(d), -1.0],
            A_ub=np.column_stack([normals, np.linalg.norm(normals, axis=1)]),
            b_ub=bounds,
            bounds=[(0, None)] * (d + 1),
            method="highs",
        )
        return np.asarray(result.x[:d]), float(result.x[d])

    @cached_property
    def _halfspaces(self) -> tuple[np.ndarray, np.ndarray]:
        """Normals and bounds of K as one system, rows of zeros left out."""
        eye, some = np.eye(self.dimension), self.matrix.any(axis=1)
        return (
            np.vstack([self.matrix[some], eye, -eye]),
            np.r_[self.limits[some], self.upper, np.zeros(self.dimension)],
        )

    @cached_property
    def _disjoint(self) -> bool:
        return bool(((self.matrix > 0).sum(axis=0) <= 1).all())

    def contains(self, points: np.ndarray, slack: float = SLACK) -> np.ndarray:
        """Return whether points lie in K, bool, shape (...).

        Args:
            points: Shape (..., d).
            slack: Tolerance, relative to the size of each limit.
        """
        inside = ((points >= -slack) & (points <= self.upper + slack)).all(axis=-1)
        return np.asarray(inside & (points @ self.matrix.T <= self.limits + slack * (1 + self.limits)).all(axis=-1))

    def maximise(self, gain: np.ndarray) -> np.ndarray:
        r"""Return :math:`\arg\max_{x \in K} \langle c, x\rangle` (HiGHS), shape (d,).

        Args:
            gain: c, shape (d,).
        """
        best = np.zeros(self.dimension)
        useful = gain > 0  # K is down-closed: the other coordinates are 0
        if not useful.any():
            return best
        if not len(self.limits):
            return np.where(useful, self.upper, 0.0)
        scale = float(gain.max())  # HiGHS has absolute tolerances
        result = linprog(
            -gain[useful] / scale,
            A_ub=self.matrix[:, useful],
            b_ub=self.limits,
            bounds=np.column_stack([np.zeros(useful.sum()), self.upper[useful]]),
            method="highs",
        )
        best[useful] = np.clip(result.x, 0.0, self.upper[useful])
        return best

    def project(self, point: np.ndarray) -> np.ndarray:
        r"""Return :math:`\arg\min_{x \in K} \|x - w\|_2`, shape (d,).

        Rows without a common coordinate (one budget, a partition) have a closed form each; others go to the
        least-distance form of the problem, solved by non-negative least squares.

        Args:
            point: w, shape (d,).
        """
        clipped: np.ndarray = np.clip(point, 0.0, self.upper)
        broken = np.flatnonzero(self.matrix @ clipped > self.limits)
        if not len(broken):
            return clipped
        if not self._disjoint:
            return self._least_distance(point)
        for i in broken:
            on = self.matrix[i] > 0
            clipped[on] = _onto_budget(point[on], self.matrix[i, on], self.upper[on], float(self.limits[i]))
        return clipped

    def _least_distance(self, point: np.ndarray) -> np.ndarray:
        # Lawson and Hanson, chapter 23: min |z| with G z >= h is the residual of one non-negative least squares.
        normals, bounds = self._halfspaces
        gap = normals @ point - bounds
        size = max(float(np.abs(gap).max()), 1e-300)
        system = np.vstack([-normals.T, gap / size])
        target = np.zeros(self.dimension + 1)
        target[-1] = 1.0
        weights, _ = nnls(system, target, maxiter=50 * system.shape[1])
        residual = system @ weights - target
        moved: np.ndarray = np.clip(point - size * residual[:-1] / residual[-1], 0.0, self.upper)
        over = self.matrix @ moved > self.limits
        if over.any():  # rounding may leave it outside by some 1e-12: K is down-closed, so shrink
            moved *= min(1.0, float((self.limits[over] / (self.matrix[over] @ moved)).min()))
        return moved

    def separate(self, point: np.ndarray) -> np.ndarray | None:
        """Return the unit normal of the constraint that a point violates most, shape (d,), or None inside K.

        Args:
            point: Shape (d,).
        """
        normals, bounds = self._halfspaces
        length = np.linalg.norm(normals, axis=1)
        gap = (normals @ point - bounds) / length
        worst = int(np.argmax(gap))
        return None if gap[worst] <= 0 else np.asarray(normals[worst] / length[worst])

    @cached_property
    def largest_margin(self) -> float:
        r"""Largest :math:`\delta` for which :meth:`inside` is not empty."""
        rows = self.matrix.sum(axis=1) + np.linalg.norm(self.matrix, axis=1)
        with np.errstate(divide="ignore", invalid="ignore"):
            ratios = np.where(rows > 0, self.limits / rows, np.inf)
        return float(min(ratios.min(initial=np.inf), self.upper.min() / 2))

    def inside(self, margin: float) -> Polytope:
        r"""Return the down-closed :math:`K' = \{v \ge 0 : \delta 1 + (1 - 2\delta) v + \delta \mathbb B \subseteq K\}`.

        With :math:`\tilde f(v) = f(\delta 1 + (1 - 2\delta) v)`, which is DR-submodular and non-negative on the unit
        box when f is, (f~, K') is a problem of the same kind whose points may be moved by :math:`\delta` in every
        direction without leaving K.

        Args:
            margin: The distance :math:`\delta`, at least 0.

        Raises:
            InputError: K' has no interior.
        """
        if margin == 0:
            return self
        if not margin < self.largest_margin:
            raise InputError(
                f"No ball of radius {margin:g} fits into the polytope; use less than {self.largest_margin:g}, or "
                "remove coordinates without capacity."
            )
        rows = self.matrix.sum(axis=1) + np.linalg.norm(self.matrix, axis=1)
        scale = 1 - 2 * margin
        return Polytope(self.matrix, (self.limits - margin * rows) / scale, (self.upper - 2 * margin) / scale)


def box(dimension: int) -> Polytope:
    """Return the unit box.

    Args:
        dimension: d, at least 1.
    """
    return Polytope(np.zeros((0, dimension)), np.zeros(0))


def budget(costs: np.ndarray, limit: float, upper: np.ndarray | None = None) -> Polytope:
    r"""Return :math:`\{0 \le x \le u,\ \langle a, x\rangle \le B\}`.

    Args:
        costs: a, shape (d,), entries >= 0.
        limit: B, at least 0.
        upper: u, shape (d,); None for ones.
    """
    return Polytope(np.asarray(costs, dtype=np.float64)[None, :], np.array([limit]), upper)


def partition(groups: np.ndarray, limits: np.ndarray) -> Polytope:
    r"""Return :math:`\{0 \le x \le 1,\ \sum_{j \in G_i} x_j \le b_i\}`.

    Args:
        groups: Group number of each coordinate, int, shape (d,).
        limits: b, one entry a group, shape (m,).
    """
    limits = np.asarray(limits, dtype=np.float64)
    return Polytope((np.asarray(groups)[None, :] == np.arange(len(limits))[:, None]).astype(float), limits)


def _onto_budget(point: np.ndarray, cost: np.ndarray, upper: np.ndarray, limit: float) -> np.ndarray:
    """Project onto one violated row: x = clip(w - s a, 0, u), with s the root of a piecewise linear function.

    The root lies right after the last breakpoint at which the row is still violated.
    """

    def at(step: float) -> np.ndarray:
        return np.clip(point - step * cost, 0.0, upper)

    breaks = np.concatenate([point / cost, (point - upper) / cost])
    breaks = np.sort(breaks[breaks > 0])
    low, high = -1, len(breaks) - 1  # at the last breakpoint all entries are 0
    while high - low > 1:
        middle = (low + high) // 2
        if cost @ at(breaks[middle]) > limit:
            low = middle
        else:
            high = middle
    start = float(breaks[low]) if low >= 0 else 0.0
    middle_x = at(0.5 * (start + float(breaks[high])))
    free = (middle_x > 0) & (middle_x < upper)
    excess = float(cost @ at(start)) - limit
    slope = float(cost[free] @ cost[free])
    projected = at(start + excess / slope) if slope > 0 else at(float(breaks[high]))
    spent = float(cost @ projected)
    return projected * (limit / spent) if spent > limit else projected
