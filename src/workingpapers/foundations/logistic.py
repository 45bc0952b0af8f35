r"""Penalised logistic regression on sparse designs, by Newton's method: the engine under every comparison model.

.. math:: f(\theta) = \sum_g w_g\,[\log(1 + e^{\eta_g}) - y_g \eta_g] + \tfrac12 \sum_k \rho_k \theta_k^2,
          \qquad \eta = X\theta

The objective is convex; each step solves :math:`H d = -\nabla f` with :math:`H = X^\top \mathrm{diag}(w p (1-p)) X +
\mathrm{diag}(\rho)`, by Cholesky for few parameters and by conjugate gradients otherwise, and is shortened until it
decreases f (Armijo).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse as sparse
import scipy.sparse.linalg
from scipy.special import expit

from workingpapers.foundations.errors import InputError

DENSE_PARAMETERS = 600


@dataclass(frozen=True)
class LogisticFit:
    """A fitted model.

    Args:
        coefficients: Parameters, float64, shape (p,).
        log_likelihood: Of the data alone, without the penalty.
        gradient_norm: Largest absolute entry of the gradient of the penalised objective at the end.
        iterations: Newton steps taken.
        converged: Whether the gradient met the tolerance.
        hessian: Second derivative of the objective, sparse, shape (p, p).
        flat: Directions in which the objective does not change, orthonormal, shape (p, k).
    """

    coefficients: np.ndarray
    log_likelihood: float
    gradient_norm: float
    iterations: int
    converged: bool
    hessian: Any
    flat: np.ndarray

    def covariance(self) -> np.ndarray:
        r"""Return the Laplace covariance :math:`H^{+}`, shape (p, p): the inverse across the flat directions."""
        dense = self.hessian.toarray() + self.flat @ self.flat.T
        inverse = scipy.linalg.cho_solve(scipy.linalg.cho_factor(dense), np.eye(len(dense)))
        return np.asarray(inverse - self.flat @ self.flat.T)


def fit_logistic(
    design: Any,
    outcome: np.ndarray,
    *,
    weights: np.ndarray | None = None,
    ridge: np.ndarray | float = 0.0,
    flat: np.ndarray | None = None,
    start: np.ndarray | None = None,
    tolerance: float = 1e-8,
    max_iterations: int = 100,
) -> LogisticFit:
    r"""Minimise the penalised logistic loss.

    Args:
        design: X, sparse or dense, shape (g, p).
        outcome: Shares of success y in [0, 1], shape (g,).
        weights: Weights w >= 0, shape (g,); ones where None.
        ridge: Penalties :math:`\rho \ge 0` (inverse prior variances), shape (p,) or one number.
        flat: Directions in parameter space along which f is constant, shape (p, k); the solution has no component
            along them. None where the objective is strictly convex.
        start: Where to start, shape (p,); zeros where None.
        tolerance: Bound on the largest absolute entry of the gradient, relative to the total weight where that is
            above one.
        max_iterations: Most Newton steps.

    Returns:
        The fit; ``converged`` is False where the steps ran out, as they do when the maximum lies at infinity.

    Raises:
        InputError: Shapes disagree, or outcome, weights or ridge hold a value that is not allowed.
    """
    matrix = sparse.csr_matrix(design, dtype=np.float64)
    rows, columns = matrix.shape
    y = np.asarray(outcome, dtype=np.float64)
    w = np.ones(rows) if weights is None else np.asarray(weights, dtype=np.float64)
    rho = np.broadcast_to(np.asarray(ridge, dtype=np.float64), (columns,))
    if y.shape != (rows,) or w.shape != (rows,):
        raise InputError(
            f"The design has {rows} rows, outcome has shape {y.shape} and weights {w.shape}; make them equal."
        )
    for name, values, good in (
        ("outcome", y, (y >= 0) & (y <= 1)),
        ("weights", w, (w >= 0) & np.isfinite(w)),
        ("ridge", rho, (rho >= 0) & np.isfinite(rho)),
    ):
        if not good.all():
            raise InputError(f"{name} holds {values[~good][0]!r}, which is not allowed; see the bounds of {name}.")
    directions = np.zeros((columns, 0)) if flat is None else scipy.linalg.orth(np.asarray(flat, dtype=np.float64))
    theta = np.zeros(columns) if start is None else np.array(start, dtype=np.float64)
    theta -= directions @ (directions.T @ theta)
    bound = tolerance * max(1.0, float(w.sum()) ** 0.5)
    transposed = matrix.T.tocsr()

    def objective(values: np.ndarray) -> tuple[float, np.ndarray]:
        eta = matrix @ values
        return float(w @ (np.logaddexp(0.0, eta) - y * eta) + 0.5 * (rho @ values**2)), eta

    value, eta = objective(theta)
    iteration, converged, size = 0, False, np.inf
    for iteration in range(max_iterations + 1):
        p = expit(eta)
        gradient = transposed @ (w * (p - y)) + rho * theta
        size = float(np.abs(gradient).max(initial=0.0))
        converged = size <= bound
        if converged or iteration == max_iterations:
            break
        step = _newton_step(matrix, transposed, w * p * (1 - p), rho, gradient, directions)
        slope, length = float(gradient @ step), 1.0
        while True:
            candidate = theta + length * step
            lower, eta_candidate = objective(candidate)
            # The last digits of f are noise; without the allowance the search stalls one step before the end.
            if lower <= value + 1e-4 * length * slope + 1e-13 * abs(value) or length < 1e-10:
                break
            length /= 2
        theta, value, eta = candidate, lower, eta_candidate
    p = expit(eta)
    hessian = transposed @ sparse.diags(w * p * (1 - p)) @ matrix + sparse.diags(rho)
    likelihood = -float(w @ (np.logaddexp(0.0, eta) - y * eta))
    return LogisticFit(theta, likelihood, size, iteration, converged, hessian.tocsr(), directions)


def _newton_step(
    matrix: Any, transposed: Any, curvature: np.ndarray, rho: np.ndarray, gradient: np.ndarray, flat: np.ndarray
) -> np.ndarray:
    columns = len(gradient)
    if columns <= DENSE_PARAMETERS:
        hessian = (transposed @ sparse.diags(curvature) @ matrix).toarray() + np.diag(rho) + flat @ flat.T
        try:
            step = -scipy.linalg.cho_solve(scipy.linalg.cho_factor(hessian), gradient)
        except scipy.linalg.LinAlgError:
            step = -scipy.linalg.lstsq(hessian, gradient)[0]
        return np.asarray(step - flat @ (flat.T @ step))
    diagonal = np.asarray(transposed.multiply(transposed) @ curvature).ravel() + rho
    inverse = 1.0 / np.maximum(diagonal, 1e-300)

    def product(vector: np.ndarray) -> np.ndarray:
        return np.asarray(transposed @ (curvature * (matrix @ vector)) + rho * vector)

    operator = scipy.sparse.linalg.LinearOperator((columns, columns), matvec=product)
    scaling = scipy.sparse.linalg.LinearOperator((columns, columns), matvec=lambda vector: inverse * vector)
    norm = float(np.linalg.norm(gradient))
    # Superlinear convergence needs residuals that shrink with the gradient, not exact solutions.
    accuracy = min(0.1, norm**0.5) if norm < 1 else 0.1
    step, _ = scipy.sparse.linalg.cg(operator, -gradient, rtol=accuracy * 0.1, maxiter=500, M=scaling)
    return np.asarray(step - flat @ (flat.T @ step))
