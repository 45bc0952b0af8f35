r"""Least squares over tensor trains by alternating over the cores, with or without the term of the gradient.

.. math:: \min_V \frac1b \sum_k \bigl( V(x_k) + S_k \cdot \nabla V(x_k) - y_k \bigr)^2 + \lambda \|V\|^2

V + S . grad V is linear in each core. S . grad is a derivation, so the row of a sample for the active core needs the
value and one directional derivative of what lies left and right of it, not d + 1 products:

.. math:: l \otimes \phi \otimes r + l' \otimes \phi \otimes r + l \otimes S_j \phi' \otimes r
          + l \otimes \phi \otimes r'

The ridge follows the residual: after each core :math:`\lambda \leftarrow 0.1\,\mathrm{mse} / \|V\|^2`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from workingpapers.foundations.errors import InputError
from workingpapers.sampling.tensor_train_sampling.bases import Basis, evaluate_bases
from workingpapers.sampling.tensor_train_sampling.train import (
    Dual,
    FunctionalTT,
    advance_dual,
    retreat_dual,
    shift_left,
    shift_right,
    start_dual,
)

RIDGE_SHARE = 0.1
FIRST_RIDGE = 1e-6  # as a share of the mean of the diagonal of the normal equations, whose scale falls with d
EXACT = 1e-24  # mean square error, as a share of the variance of y, below which rounding is all that is left


@dataclass(frozen=True)
class Fit:
    """A fitted train.

    Args:
        train: The function.
        error: Mean squared residual as a share of the variance of y.
        ridge: Last ridge, to be carried over to the next fit.
        sweeps: Double sweeps done.
        errors: `error` after each double sweep.
    """

    train: FunctionalTT
    error: float
    ridge: float
    sweeps: int
    errors: list[float] = field(default_factory=list)

    @property
    def finite(self) -> bool:
        """Whether error and coefficients are finite numbers."""
        return math.isfinite(self.error) and all(bool(torch.isfinite(core).all()) for core in self.train.cores)


def als_fit(
    start: FunctionalTT,
    x: Tensor,
    y: Tensor,
    noise: Tensor | None = None,
    *,
    ridge: float | None = None,
    adaptive: bool = True,
    tolerance: float = 1e-4,
    max_sweeps: int = 50,
) -> Fit:
    """Fit a train to samples, from a first train whose ranks and bases are kept.

    Args:
        start: First train.
        x: Points, float64, shape (b, d).
        y: Values there, shape (b,).
        noise: S of the gradient term, shape (b, d); None fits V alone.
        ridge: First ridge lambda, on the mean over samples; by default a millionth of the normal equations' diagonal.
        adaptive: Whether the ridge follows the residual; else it stays.
        tolerance: Sweeps end when a double sweep lowers the error by a smaller share than this.
        max_sweeps: Most double sweeps.

    Returns:
        The fit; with adaptive ridge and exact data its error goes to rounding.

    Raises:
        InputError: When shapes do not fit or a number is not finite.
    """
    _check(start, x, y, noise)
    task = _Task(start, x, y, noise, ridge, adaptive)
    errors: list[float] = []
    for _ in range(max_sweeps):
        task.sweep()
        errors.append(task.error)
        if not math.isfinite(task.error) or task.error < EXACT or (start.dim == 1 and not adaptive):
            break
        if len(errors) > 1 and errors[-2] - errors[-1] <= tolerance * errors[-2]:
            break
    return Fit(FunctionalTT(start.bases, tuple(task.cores)), task.error, task.ridge, len(errors), errors)


def additive_fit(
    bases: Sequence[Basis], x: Tensor, y: Tensor, noise: Tensor | None = None, *, ridge: float = 1e-8
) -> Fit:
    """Fit constant + f_1(x_1) + ... + f_d(x_d), one linear problem, and return it as a train of rank 2.

    Args:
        bases: One basis a coordinate.
        x: Points, shape (b, d).
        y: Values, shape (b,).
        noise: S of the gradient term, shape (b, d), or None.
        ridge: Ridge on the coefficients of the f_j.
    """
    blocks = []
    for j, jet in enumerate(evaluate_bases(bases, x)):
        block = jet[0] if noise is None else jet[0] + noise[:, j, None] * jet[1]
        blocks.append(block)
    design = torch.cat(blocks, dim=1)
    mean = y.mean()
    solution = solve_ridge(design, y - mean, ridge)
    residual = design @ solution - (y - mean)
    functions = torch.split(solution, [basis.size for basis in bases])
    train = (
        FunctionalTT.additive(bases, functions, float(mean))
        if len(bases) > 1
        else FunctionalTT(tuple(bases), ((functions[0] + mean * bases[0].constant)[None, :, None],))
    )
    return Fit(train, _share(residual, y), ridge, 0)


def solve_ridge(design: Tensor, y: Tensor, ridge: float) -> Tensor:
    """Return the c that minimises mean (A c - y)^2 + ridge |c|^2.

    Args:
        design: A, shape (b, p).
        y: Shape (b,).
        ridge: At least 0; raised tenfold while the normal equations cannot be factored.
    """
    count = len(y)
    gram = design.T @ design / count
    right = (design.T @ y / count)[:, None]
    size = float(gram.diagonal().mean())
    if not math.isfinite(size):
        return torch.full_like(right[:, 0], math.nan)
    diagonal = gram.diagonal()
    plain = diagonal.clone()
    extra = max(ridge, 1e-15 * size, 1e-300)
    while extra < 1e3 * max(size, ridge, 1e-290):
        diagonal.copy_(plain + extra)
        factor, failed = torch.linalg.cholesky_ex(gram)
        if not int(failed):
            solution: Tensor = torch.cholesky_solve(right, factor)[:, 0]
            return solution
        extra *= 10
    return torch.full_like(right[:, 0], math.nan)


class _Task:
    """The state of the sweeps: cores, the products right and left of the active one, and the ridge."""

    def __init__(
        self, start: FunctionalTT, x: Tensor, y: Tensor, noise: Tensor | None, ridge: float | None, adaptive: bool
    ) -> None:
        self.cores = list(start.orthogonalise(0).cores)
        self.y, self.adaptive = y, adaptive
        jets = evaluate_bases(start.bases, x)
        self.functions: list[Dual] = [
            (jet[0], torch.zeros_like(jet[1]) if noise is None else noise[:, j, None] * jet[1])
            for j, jet in enumerate(jets)
        ]
        self.variance = float(y.var(correction=0)) or 1.0
        self.error = math.inf
        last = len(self.cores) - 1
        self.lefts: list[Dual] = [start_dual(len(y))] * (last + 1)
        self.rights: list[Dual] = [start_dual(len(y))] * (last + 1)
        for j in range(last, 0, -1):
            self.rights[j - 1] = retreat_dual(self.rights[j], self.functions[j], self.cores[j])
        rows = design_rows(self.lefts[0], self.functions[0], self.rights[0])
        self.ridge = FIRST_RIDGE * float((rows**2).mean()) if ridge is None else ridge

    def sweep(self) -> None:
        """Solve for the cores from the first to the last and back."""
        last = len(self.cores) - 1
        for j in range(last):
            self._solve(j)
            shift_right(self.cores, j)
            self.lefts[j + 1] = advance_dual(self.lefts[j], self.functions[j], self.cores[j])
        for j in range(last, 0, -1):
            self._solve(j)
            shift_left(self.cores, j)
            self.rights[j - 1] = retreat_dual(self.rights[j], self.functions[j], self.cores[j])
        self._solve(0)

    def _solve(self, j: int) -> None:
        design = design_rows(self.lefts[j], self.functions[j], self.rights[j])
        solution = solve_ridge(design, self.y, self.ridge)
        residual = design @ solution - self.y
        self.cores[j] = solution.reshape(self.cores[j].shape)
        self.error = _share(residual, self.y, self.variance)
        if self.adaptive and math.isfinite(self.error):
            norm = float((solution**2).sum())
            self.ridge = RIDGE_SHARE * self.error * self.variance / max(norm, 1e-300)


def design_rows(left: Dual, phi: Dual, right: Dual) -> Tensor:
    """Return the row of each sample for the active core, shape (b, r m q).

    Args:
        left: Products left of the core and their derivatives along S, shape (b, r) each.
        phi: Functions of its coordinate and S_j times their derivatives, shape (b, m) each.
        right: Products right of it and their derivatives along S, shape (b, q) each.
    """
    count = len(phi[0])
    plain = (left[0][:, :, None] * phi[0][:, None, :]).reshape(count, -1)
    moved = ((left[0] + left[1])[:, :, None] * phi[0][:, None, :] + left[0][:, :, None] * phi[1][:, None, :]).reshape(
        count, -1
    )
    rows = moved[:, :, None] * right[0][:, None, :] + plain[:, :, None] * right[1][:, None, :]
    return rows.reshape(count, -1)


def _share(residual: Tensor, y: Tensor, variance: float | None = None) -> float:
    spread = float(y.var(correction=0)) or 1.0
    return float((residual**2).mean()) / (spread if variance is None else variance)


def _check(start: FunctionalTT, x: Tensor, y: Tensor, noise: Tensor | None) -> None:
    if x.ndim != 2 or x.shape[1] != start.dim or y.shape != x.shape[:1]:
        raise InputError(
            f"Points of shape {tuple(x.shape)} and values of shape {tuple(y.shape)} do not fit a train of "
            f"{start.dim} coordinates."
        )
    if noise is not None and noise.shape != x.shape:
        raise InputError(f"S must have the shape of the points, {tuple(x.shape)}, not {tuple(noise.shape)}.")
    if not bool(torch.isfinite(y).all() and torch.isfinite(x).all()):
        raise InputError("Points or values are not finite; drop those samples before the fit.")
