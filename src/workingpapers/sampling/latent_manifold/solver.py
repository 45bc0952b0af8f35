r"""Discrete path energy under a constraint, minimised by an augmented Lagrangian, for many paths at once.

With nodes :math:`z_0, \dots, z_K` of which the ends are fixed, :math:`\zeta_k = U_k^\top \zeta(z_k)`,

.. math:: L(z, \lambda, \mu) = K \sum_{k=1}^K W(z_{k-1}, z_k) - \sum_k \lambda_k \cdot \zeta_k
          + \frac{\mu}{2} \sum_k |\zeta_k|^2 .

The inner minimisations are Newton's with the exact gradient and a block tridiagonal Hessian: Gauss-Newton for W, exact
for the constraint while the matrix stays positive definite. Multipliers and penalties follow the schedule of the paper.

References:
    F. Hartwig, J. Sassen, J. Braunsmann, M. Rumpf, B. Wirth, arXiv:2510.09468.
    J. Nocedal and S. J. Wright, Numerical Optimization, chapter 17.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Tensor

from workingpapers.foundations.progress import Progress, silent
from workingpapers.sampling.latent_manifold.constraints import Constraint
from workingpapers.sampling.latent_manifold.metrics import Metric

ARMIJO = 1e-4
HALVINGS = 30
LOOSEST = 0.1  # gradient tolerance of the first inner minimisations
ROUNDING = 1e-13  # differences of energies below this share of the energy are rounding


@dataclass(frozen=True)
class SolverSettings:
    r"""Settings of the augmented Lagrangian. Penalties are in units of (energy scale) / (constraint scale)^2.

    Args:
        penalty: First penalty.
        growth: Factor by which the penalty grows when the constraint does not improve.
        penalty_max: Largest penalty.
        tolerance: Of the gradient, in units of W(A, B) / |A - B|.
        constraint_tolerance: Largest |zeta| of a node, in units of the constraint scale.
        outer: Largest number of outer iterations.
        inner: Largest number of Newton steps in one of them.
        method: ``newton`` (all paths at once) or ``lbfgs`` (scipy's L-BFGS-B, one path after the other).
        refreshes: How often normal directions are computed anew.
    """

    penalty: float = 10.0
    growth: float = 10.0
    penalty_max: float = 1e7
    tolerance: float = 1e-6
    constraint_tolerance: float = 1e-7
    outer: int = 100
    inner: int = 100
    method: Literal["newton", "lbfgs"] = "newton"
    refreshes: int = 3


@dataclass(frozen=True)
class Problem:
    """Geodesic problems of P paths with the same metric and constraint.

    Args:
        metric: W.
        constraint: zeta.
        frames: U, shape (P, K - 1, c, r), or None for all c components.
        energy_scale: Shape (P,), unit of the energy.
        gradient_scale: Shape (P,), unit of its gradient.
        constraint_scale: Unit of zeta.
    """

    metric: Metric
    constraint: Constraint
    frames: Tensor | None
    energy_scale: Tensor
    gradient_scale: Tensor
    constraint_scale: float

    def rows(self, index: Tensor) -> Problem:
        """Return the problems of the paths `index`."""
        frames = None if self.frames is None else self.frames[index]
        return replace(
            self, frames=frames, energy_scale=self.energy_scale[index], gradient_scale=self.gradient_scale[index]
        )

    def residuals(self, paths: Tensor) -> Tensor:
        """Return the (reduced) residuals of the inner nodes, shape (P, K - 1, r)."""
        inner = paths[:, 1:-1]
        values = self.constraint(inner.reshape(-1, inner.shape[-1])).reshape(*inner.shape[:2], -1)
        return values if self.frames is None else (self.frames.mT @ values[..., None])[..., 0]


@dataclass(frozen=True)
class Solution:
    """Paths with what the solver knows about them; see :class:`Problem` for shapes.

    Args:
        paths: Shape (P, K + 1, l).
        multipliers: Shape (P, K - 1, r).
        penalty: Shape (P,).
        converged: Shape (P,), bool.
        violation: Largest reduced residual of a node, shape (P,).
        gradient: Largest entry of the gradient in its unit, shape (P,).
        iterations: Outer iterations, shape (P,).
    """

    paths: Tensor
    multipliers: Tensor
    penalty: Tensor
    converged: Tensor
    violation: Tensor
    gradient: Tensor
    iterations: Tensor


def path_energy(metric: Metric, paths: Tensor) -> Tensor:
    r"""Return :math:`E^K = K \sum_k W(z_{k-1}, z_k)`, shape (P,).

    Args:
        metric: W.
        paths: Shape (P, K + 1, l).
    """
    return (paths.shape[1] - 1) * segments(metric, paths).sum(-1)


def path_length(metric: Metric, paths: Tensor) -> Tensor:
    r"""Return :math:`L^K = \sum_k \sqrt{W(z_{k-1}, z_k)}`, shape (P,).

    Args:
        metric: W.
        paths: Shape (P, K + 1, l).
    """
    return segments(metric, paths).clamp_min(0).sqrt().sum(-1)


def segments(metric: Metric, paths: Tensor) -> Tensor:
    """Return W of neighbouring nodes, shape (P, K).

    Args:
        metric: W.
        paths: Shape (P, K + 1, l).
    """
    width = paths.shape[-1]
    return metric(paths[:, :-1].reshape(-1, width), paths[:, 1:].reshape(-1, width)).reshape(len(paths), -1)


def solve(
    problem: Problem,
    paths: Tensor,
    settings: SolverSettings,
    multipliers: Tensor | None = None,
    progress: Progress = silent,
) -> Solution:
    """Minimise the path energy under the constraint.

    Args:
        problem: Metric, constraint and units.
        paths: Start, shape (P, K + 1, l), float64; the first and last nodes stay.
        settings: Schedule and tolerances.
        multipliers: Start of the multipliers, shape (P, K - 1, r); zero by default.
        progress: Called after each outer iteration.
    """
    paths = paths.clone()
    count = len(paths)
    residual = problem.residuals(paths)
    multipliers = torch.zeros_like(residual) if multipliers is None else multipliers.clone()
    factor = torch.full((count,), settings.penalty, dtype=paths.dtype, device=paths.device)
    unit = problem.energy_scale / problem.constraint_scale**2
    allowed_gradient, allowed_residual = (1 / factor).clamp_max(LOOSEST), factor**-0.1
    converged = torch.zeros(count, dtype=torch.bool, device=paths.device)
    open_ = torch.ones_like(converged)
    iterations = torch.zeros(count, dtype=torch.long, device=paths.device)
    violation, gradient = torch.zeros_like(factor), torch.zeros_like(factor)
    for outer in range(settings.outer):
        rows = torch.nonzero(open_)[:, 0]
        part, mu = problem.rows(rows), (factor * unit)[rows]
        target = torch.maximum(allowed_gradient[rows], torch.full_like(mu, 0.5 * settings.tolerance))
        minimise = _newton if settings.method == "newton" else _lbfgs
        found, slope = minimise(part, paths[rows], multipliers[rows], mu, target, settings.inner)
        residual = part.residuals(found)
        worst = torch.linalg.vector_norm(residual, dim=-1).amax(-1)
        small = worst / problem.constraint_scale
        paths[rows], violation[rows], gradient[rows] = found, worst, slope
        iterations[rows] += 1
        done = (small < settings.constraint_tolerance) & (slope < settings.tolerance)
        better = small < torch.clamp_min(allowed_residual[rows], settings.constraint_tolerance)
        update, grow = rows[better & ~done], rows[~better]
        multipliers[update] -= (mu[:, None, None] * residual)[better & ~done]
        allowed_residual[update] /= factor[update] ** 0.9
        allowed_gradient[update] /= factor[update]
        factor[grow] *= settings.growth
        allowed_residual[grow], allowed_gradient[grow] = factor[grow] ** -0.1, (1 / factor[grow]).clamp_max(LOOSEST)
        converged[rows[done]] = True
        open_[rows[done]] = False
        open_[factor >= settings.penalty_max] = False
        progress((outer + 1) / settings.outer, f"{int(converged.sum())} of {count} paths converged")
        if not open_.any():
            break
    return Solution(paths, multipliers, factor * unit, converged, violation, gradient, iterations)


def _value(problem: Problem, paths: Tensor, multipliers: Tensor, mu: Tensor) -> Tensor:
    residual = problem.residuals(paths)
    penalty = 0.5 * mu * residual.square().sum((1, 2)) - (multipliers * residual).sum((1, 2))
    return path_energy(problem.metric, paths) + penalty


def lagrangian(problem: Problem, paths: Tensor, multipliers: Tensor, mu: Tensor) -> tuple[Tensor, Tensor]:
    """Return L, shape (P,), and its gradient in the inner nodes, shape (P, K - 1, l).

    Args:
        problem: Metric, constraint and units.
        paths: Shape (P, K + 1, l).
        multipliers: Shape (P, K - 1, r).
        mu: Shape (P,).
    """
    gradient, _, _ = _derivatives(problem, paths, multipliers, mu)
    return _value(problem, paths, multipliers, mu), gradient


def _derivatives(problem: Problem, paths: Tensor, multipliers: Tensor, mu: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return the gradient (P, K - 1, l), the reduced Jacobians (P, K - 1, r, l) and weights of the curvature."""
    count, nodes, width = paths.shape
    left, right = problem.metric.gradients(paths[:, :-1].reshape(-1, width), paths[:, 1:].reshape(-1, width))
    energy = right.reshape(count, -1, width)[:, :-1] + left.reshape(count, -1, width)[:, 1:]
    jacobian = problem.constraint.jacobian(paths[:, 1:-1].reshape(-1, width)).reshape(count, nodes - 2, -1, width)
    if problem.frames is not None:
        jacobian = problem.frames.mT @ jacobian
    weights = mu[:, None, None] * problem.residuals(paths) - multipliers
    gradient = (nodes - 1) * energy + (jacobian.mT @ weights[..., None])[..., 0]
    return gradient, jacobian, weights


def _newton(
    problem: Problem, paths: Tensor, multipliers: Tensor, mu: Tensor, target: Tensor, steps: int
) -> tuple[Tensor, Tensor]:
    """Return paths whose gradient, in its unit, is below `target`, and the gradient's largest entry."""
    for _ in range(steps):
        gradient, jacobian, weights = _derivatives(problem, paths, multipliers, mu)
        slope = gradient.abs().amax((1, 2)) / problem.gradient_scale
        active = slope > target
        if not active.any():
            break
        direction = _direction(problem, paths, gradient, jacobian, weights, mu)
        moved = _search(problem, paths, multipliers, mu, direction, gradient, active)
        if moved is None:
            break
        paths = moved
    gradient, _, _ = _derivatives(problem, paths, multipliers, mu)
    return paths, gradient.abs().amax((1, 2)) / problem.gradient_scale


def _direction(
    problem: Problem, paths: Tensor, gradient: Tensor, jacobian: Tensor, weights: Tensor, mu: Tensor
) -> Tensor:
    """Return the Newton direction, of Gauss-Newton where the Hessian is not positive definite."""
    count, nodes, width = paths.shape
    a, b = problem.metric.edge_jacobians(paths[:, :-1].reshape(-1, width), paths[:, 1:].reshape(-1, width))
    shape = (count, nodes - 1, width, width)
    first, second, mixed = (2 * (nodes - 1) * (p.mT @ q).reshape(shape) for p, q in ((a, a), (b, b), (a, b)))
    diagonal = second[:, :-1] + first[:, 1:] + mu[:, None, None, None] * (jacobian.mT @ jacobian)
    upper = -mixed[:, 1:-1]
    full = weights if problem.frames is None else (problem.frames @ weights[..., None])[..., 0]
    curvature = problem.constraint.curvature(
        paths[:, 1:-1].reshape(-1, width), full.reshape(-1, full.shape[-1])
    ).reshape(diagonal.shape)
    direction, definite = _block_solve(diagonal + curvature, upper, -gradient)
    if not definite.all():
        bad = ~definite
        ridge = 1e-10 * torch.diagonal(diagonal[bad], dim1=-2, dim2=-1).amax((1, 2))[:, None, None, None]
        safe = diagonal[bad] + ridge * torch.eye(width, dtype=paths.dtype, device=paths.device)
        fallback, _ = _block_solve(safe, upper[bad], -gradient[bad])
        direction[bad] = fallback
    return direction


def _search(
    problem: Problem,
    paths: Tensor,
    multipliers: Tensor,
    mu: Tensor,
    direction: Tensor,
    gradient: Tensor,
    active: Tensor,
) -> Tensor | None:
    """Return the paths after a backtracking step along `direction`, or None where no path can move."""
    before = _value(problem, paths, multipliers, mu)
    decrease = (gradient * direction).sum((1, 2))
    rounding = ROUNDING * (before.abs() + problem.energy_scale)
    step = torch.where(active, 1.0, 0.0).to(paths.dtype)
    waiting = active.clone()
    for _ in range(HALVINGS):
        trial = paths.clone()
        trial[:, 1:-1] += step[:, None, None] * direction
        after = _value(problem, trial, multipliers, mu)
        waiting = active & ~(after <= before + ARMIJO * step * decrease + rounding)
        if not waiting.any():
            return trial
        step = torch.where(waiting, step / 2, step)
    trial[waiting] = paths[waiting]
    return None if bool((waiting | ~active).all()) else trial


def _block_solve(diagonal: Tensor, upper: Tensor, right: Tensor) -> tuple[Tensor, Tensor]:
    """Solve symmetric block tridiagonal systems by Cholesky; also return which matrices are positive definite."""
    size = diagonal.shape[1]
    factors: list[Tensor] = []
    couplings: list[Tensor] = []
    partial: list[Tensor] = []
    definite = torch.ones(len(diagonal), dtype=torch.bool, device=diagonal.device)
    for k in range(size):
        block, value = diagonal[:, k], right[:, k, :, None]
        if k:
            block = block - couplings[-1].mT @ couplings[-1]
            value = value - couplings[-1].mT @ partial[-1]
        factor, failed = torch.linalg.cholesky_ex(block)
        definite &= failed == 0
        factors.append(factor)
        partial.append(torch.linalg.solve_triangular(factor, value, upper=False))
        if k + 1 < size:
            couplings.append(torch.linalg.solve_triangular(factor, upper[:, k], upper=False))
    solution: list[Tensor] = []
    for k in reversed(range(size)):
        value = partial[k] if k + 1 == size else partial[k] - couplings[k] @ solution[-1]
        solution.append(torch.linalg.solve_triangular(factors[k].mT, value, upper=True))
    return torch.stack(solution[::-1], dim=1)[..., 0], definite


def _lbfgs(
    problem: Problem, paths: Tensor, multipliers: Tensor, mu: Tensor, target: Tensor, steps: int
) -> tuple[Tensor, Tensor]:
    """As :func:`_newton`, by scipy's L-BFGS-B on one path after the other."""
    import numpy as np
    from scipy.optimize import minimize

    paths = paths.clone()
    slopes = torch.zeros_like(mu)
    for row in range(len(paths)):
        index = torch.tensor([row], device=paths.device)
        part, path = problem.rows(index), paths[index]

        def evaluate(
            flat: np.ndarray, part: Problem = part, path: Tensor = path, index: Tensor = index
        ) -> tuple[float, np.ndarray]:
            trial = path.clone()
            trial[0, 1:-1] = torch.from_numpy(flat).to(path).reshape(trial[0, 1:-1].shape)
            value, gradient = lagrangian(part, trial, multipliers[index], mu[index])
            return float(value), gradient.reshape(-1).cpu().numpy()

        goal = float(target[row] * problem.gradient_scale[row])
        options = {"maxiter": 50 * steps, "maxfun": 100 * steps, "gtol": goal, "ftol": 0.0, "maxcor": 30}
        found = minimize(
            evaluate, path[0, 1:-1].reshape(-1).cpu().numpy(), jac=True, method="L-BFGS-B", options=options
        )
        paths[row, 1:-1] = torch.from_numpy(found.x).to(path).reshape(path[0, 1:-1].shape)
        slopes[row] = float(np.abs(found.jac).max()) / float(problem.gradient_scale[row])
    return paths, slopes
