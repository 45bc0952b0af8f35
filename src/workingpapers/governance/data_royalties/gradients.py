r"""Gradient attribution in closed form for logistic models: influence functions and TracIn, without autograd.

The model is multinomial logistic regression, :math:`p(y|x)=\mathrm{softmax}(W\tilde x)_y` with :math:`\tilde x=(x,1)`,
fitted to :math:`\sum_z \ell_z + \tfrac\lambda2\lVert W\rVert^2` (the intercept unpenalised but for a tiny ridge).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve
from scipy.optimize import minimize
from scipy.special import log_softmax, softmax

from workingpapers.governance.data_royalties.scores import Outputs, Scores, sum_by_work

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
INTERCEPT_RIDGE = 1e-4


def with_intercept(features: Floats) -> Floats:
    """Return (n, d + 1): `features` and a column of ones."""
    return np.column_stack([features, np.ones(len(features))])


def penalty(width: int, ridge: float) -> Floats:
    """Return (d + 1,) the ridge of every column of W."""
    return np.append(np.full(width - 1, ridge), INTERCEPT_RIDGE)


def fit(
    features: Floats,
    labels: Integers,
    classes: int,
    ridge: float,
    start: Floats | None = None,
    tolerance: float = 1e-13,
) -> Floats:
    r"""Fit the model to convergence.

    Args:
        features: (n, d) float64.
        labels: (n,) integers from 0 to ``classes - 1``.
        classes: Number of classes.
        ridge: :math:`\lambda`, in the unit of the summed loss.
        start: (classes, d + 1) weights to start from.
        tolerance: Relative change of the loss at which to stop; its square root bounds the gradient.

    Returns:
        (classes, d + 1) weights.
    """
    inputs, targets = with_intercept(features), np.eye(classes)[labels]
    shape = (classes, inputs.shape[1])
    weights_penalty = penalty(shape[1], ridge)

    def objective(flat: Floats) -> tuple[float, Floats]:
        weights = flat.reshape(shape)
        logits = inputs @ weights.T
        loss = -float(np.sum(targets * log_softmax(logits, axis=1))) + 0.5 * float(np.sum(weights_penalty * weights**2))
        gradient = (softmax(logits, axis=1) - targets).T @ inputs + weights_penalty * weights
        return loss, gradient.ravel()

    first = np.zeros(shape) if start is None else start
    options = {"maxiter": 2000, "maxfun": 4000, "ftol": tolerance, "gtol": tolerance**0.5}
    result = minimize(objective, first.ravel(), jac=True, method="L-BFGS-B", options=options)
    weights: Floats = result.x.reshape(shape)
    return weights


def log_likelihood(weights: Floats, features: Floats, labels: Integers) -> Floats:
    """Return (E,) the log-probability of each label."""
    logits = with_intercept(features) @ weights.T
    found: Floats = log_softmax(logits, axis=1)[np.arange(len(labels)), labels]
    return found


def loss_gradients(weights: Floats, features: Floats, labels: Integers) -> Floats:
    """Return (n, classes * (d + 1)) the gradient of each point's loss."""
    inputs = with_intercept(features)
    error = softmax(inputs @ weights.T, axis=1) - np.eye(weights.shape[0])[labels]
    gradients: Floats = np.einsum("nc,nd->ncd", error, inputs).reshape(len(inputs), -1)
    return gradients


def hessian(weights: Floats, features: Floats, ridge: float) -> Floats:
    """Return the Hessian of the penalised summed loss, (classes * (d + 1)) squared."""
    inputs = with_intercept(features)
    probability = softmax(inputs @ weights.T, axis=1)
    classes, width = weights.shape
    blocks = np.empty((classes, width, classes, width))
    for row in range(classes):
        for column in range(row, classes):
            curvature = probability[:, row] * ((row == column) - probability[:, column])
            block = (inputs * curvature[:, None]).T @ inputs
            blocks[row, :, column, :] = block
            blocks[column, :, row, :] = block.T
    full = blocks.reshape(classes * width, classes * width)
    full[np.diag_indices_from(full)] += np.tile(penalty(width, ridge), classes)
    return full


def influence(
    weights: Floats, features: Floats, labels: Integers, ridge: float, outputs: Floats, answers: Integers
) -> Floats:
    r"""Return how much of each output's log-likelihood each training point accounts for, to first order.

    .. math:: \log p_N(x) - \log p_{N \setminus z}(x) \approx \nabla\ell(x)^\top H^{-1} \nabla\ell(z)

    with :math:`H` the Hessian of the penalised loss over all points: no retraining.

    Args:
        weights: (classes, d + 1) of the fitted model.
        features: (n, d) training points.
        labels: (n,) their labels.
        ridge: The ridge of the fit.
        outputs: (E, d) outputs.
        answers: (E,) their labels.

    Returns:
        (E, n) float64, nats.

    References:
        Koh and Liang, arXiv 1703.04730.
    """
    factor = cho_factor(hessian(weights, features, ridge))
    solved = cho_solve(factor, loss_gradients(weights, outputs, answers).T)
    found: Floats = (loss_gradients(weights, features, labels) @ solved).T
    return found


def tracin(
    features: Floats,
    labels: Integers,
    classes: int,
    outputs: Floats,
    answers: Integers,
    *,
    steps: int = 60,
    rate: float = 0.5,
) -> Floats:
    r"""Return the gradient products along full-batch gradient descent on the mean loss.

    .. math:: s_z(x) = \sum_t \tfrac{\eta}{n}\,\nabla\ell(w_t, x)^\top \nabla\ell(w_t, z)

    which is the Shapley value of z in the first-order utility of the run: additive over points.

    Args:
        features: (n, d) training points.
        labels: (n,) their labels.
        classes: Number of classes.
        outputs: (E, d) outputs.
        answers: (E,) their labels.
        steps: Steps, each of them a checkpoint.
        rate: Learning rate :math:`\eta`.

    Returns:
        (E, n) float64, nats.

    References:
        Pruthi et al., arXiv 2002.08484.
    """
    inputs, queries = with_intercept(features), with_intercept(outputs)
    targets, wanted = np.eye(classes)[labels], np.eye(classes)[answers]
    similarity = queries @ inputs.T
    weights = np.zeros((classes, inputs.shape[1]))
    found = np.zeros((len(outputs), len(features)))
    for _ in range(steps):
        error = softmax(inputs @ weights.T, axis=1) - targets
        error_out = softmax(queries @ weights.T, axis=1) - wanted
        # The gradients are outer products, so their inner product is that of the errors times that of the inputs.
        found += rate / len(features) * (error_out @ error.T) * similarity
        weights -= rate / len(features) * error.T @ inputs
    return found


@dataclass(frozen=True)
class GradientAttributor:
    """Influence functions or TracIn of a logistic model over given features, summed by work.

    Args:
        features: (n, d) training points.
        labels: (n,) labels from 0 to ``classes - 1``.
        owners: The work of each point.
        classes: Number of classes.
        kind: ``"influence"`` or ``"tracin"``.
        ridge: Ridge of the fit (influence).
    """

    features: Floats
    labels: Integers
    owners: Sequence[str]
    classes: int
    kind: str = "influence"
    ridge: float = 1.0

    @property
    def method(self) -> str:
        """Name and settings, for the journal."""
        return f"influence (ridge={self.ridge:g})" if self.kind == "influence" else "tracin (60 steps, rate 0.5)"

    def attribute(self, outputs: Outputs) -> Scores:
        """Return the scores of `outputs`."""
        answers = outputs.labels.astype(np.int64)
        if self.kind == "tracin":
            points = tracin(self.features, self.labels, self.classes, outputs.features, answers)
        else:
            weights = fit(self.features, self.labels, self.classes, self.ridge)
            points = influence(weights, self.features, self.labels, self.ridge, outputs.features, answers)
        works, sums = sum_by_work(points, self.owners)
        return Scores(outputs.event_ids, works, sums, self.method)
