"""What the method is held against: rows copied, jittered, mixed or re-labelled, and ensembles of plain models.

Every maker of rows has one form, ``maker(X, y, rng, ...) -> (X', y')``: the generated rows alone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import numpy as np
from sklearn.base import BaseEstimator, MetaEstimatorMixin, RegressorMixin, clone
from sklearn.cluster import KMeans
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from workingpapers.causality.residual_augmentation.learners import Abduction, fit_learner, split_rows
from workingpapers.causality.residual_augmentation.perturbation import perturb, tiled_source
from workingpapers.causality.residual_augmentation.tables import Floats, perturbable_columns, rows_of
from workingpapers.foundations.errors import InputError

Rows = tuple[Floats, Floats]
Maker = Literal["duplicate", "jitter", "mixup", "c-mixup", "ada", "self-distillation"]


def duplicate(X: Floats, y: Floats, rng: np.random.Generator, factor: float = 1.0) -> Rows:
    """Return the rows once more: more gradient steps, larger leaves, no new information.

    Args:
        X: Features, shape (n, d).
        y: Targets, shape (n,).
        rng: Not used; part of the common form.
        factor: Generated rows per row.

    Returns:
        Shapes (m, d) and (m,) with m = floor(factor n).
    """
    source = tiled_source(len(y), factor)
    return X[source], y[source]


def jitter(X: Floats, y: Floats, rng: np.random.Generator, factor: float = 1.0, strength: float = 0.1) -> Rows:
    """Return the rows moved by the method's own rule, with their targets unchanged (input noise).

    Args:
        X: Features, shape (n, d).
        y: Targets, shape (n,).
        rng: Source of randomness.
        factor: Generated rows per row.
        strength: Half-width p of the relative move.

    Returns:
        Shapes (m, d) and (m,).
    """
    source = tiled_source(len(y), factor)
    columns = perturbable_columns(X)
    return perturb(X, columns, strength, source, X.mean(axis=0), X.std(axis=0), rng), y[source]


def mixup(X: Floats, y: Floats, rng: np.random.Generator, factor: float = 1.0, strength: float = 0.2) -> Rows:
    r"""Return convex combinations of random pairs, :math:`\lambda \sim \mathrm{Beta}(a, a)`.

    Args:
        X: Features, shape (n, d).
        y: Targets, shape (n,).
        rng: Source of randomness.
        factor: Generated rows per row.
        strength: The parameter a.

    Returns:
        Shapes (m, d) and (m,).

    References:
        arXiv 1710.09412.
    """
    source = tiled_source(len(y), factor)
    return _mix(X, y, source, rng.integers(len(y), size=len(source)), rng, strength)


def c_mixup(
    X: Floats,
    y: Floats,
    rng: np.random.Generator,
    factor: float = 1.0,
    strength: float = 0.2,
    bandwidth: float = 0.2,
) -> Rows:
    r"""Return convex combinations of pairs with close targets, :math:`\Pr(j \mid i) \propto e^{-(y_i-y_j)^2/2h^2}`.

    Args:
        X: Features, shape (n, d).
        y: Targets, shape (n,).
        rng: Source of randomness.
        factor: Generated rows per row.
        strength: The parameter a of Beta(a, a).
        bandwidth: h in standard deviations of the target.

    Returns:
        Shapes (m, d) and (m,).

    References:
        arXiv 2210.05775.
    """
    source = tiled_source(len(y), factor)
    spread = float(y.std()) or 1.0
    exponent = -(((y[:, None] - y[None, :]) / (bandwidth * spread)) ** 2) / 2
    np.fill_diagonal(exponent, -np.inf)
    # The nearest target always keeps weight 1, so that an isolated row still has a partner.
    share = np.exp(exponent - exponent.max(axis=1, keepdims=True)).cumsum(axis=1)
    draws = rng.uniform(size=len(source)) * share[source, -1]
    partner = (share[source] <= draws[:, None]).sum(axis=1)
    return _mix(X, y, source, partner, rng, strength)


def ada(
    X: Floats, y: Floats, rng: np.random.Generator, factor: float = 1.0, strength: float = 2.0, clusters: int = 10
) -> Rows:
    r"""Return rows drawn towards or away from their cluster's mean, features and target together (anchor augmentation).

    With one-hot cluster membership as the anchor the published map reduces to
    :math:`x' = m_x + (x - m_x)/\sqrt\gamma`, :math:`y' = m_y + (y - m_y)/\sqrt\gamma`.

    Args:
        X: Features, shape (n, d).
        y: Targets, shape (n,).
        rng: Source of randomness.
        factor: Generated rows per row.
        strength: a, at least 1; :math:`\gamma` is log-uniform on [1/a, a], one draw for every tile of the rows.
        clusters: Number of k-means clusters.

    Returns:
        Shapes (m, d) and (m,).

    References:
        arXiv 2311.06965.
    """
    source = tiled_source(len(y), factor)
    spread = np.where(X.std(axis=0) > 0, X.std(axis=0), 1.0)
    seed = int(rng.integers(np.iinfo(np.int32).max))
    label = KMeans(min(clusters, len(y)), n_init=1, random_state=seed).fit_predict(X / spread)
    membership = np.eye(label.max() + 1)[label]
    size = np.maximum(membership.sum(axis=0), 1)
    centre_x, centre_y = (membership.T @ X) / size[:, None], (membership.T @ y) / size
    tiles = -(-len(source) // len(y))
    gamma = np.exp(rng.uniform(-np.log(strength), np.log(strength), size=tiles))
    scale = 1 / np.sqrt(np.repeat(gamma, len(y))[: len(source)])
    mean_x, mean_y = centre_x[label[source]], centre_y[label[source]]
    return mean_x + (X[source] - mean_x) * scale[:, None], mean_y + (y[source] - mean_y) * scale


def self_distillation(
    X: Floats, y: Floats, rng: np.random.Generator, factor: float = 1.0, strength: float = 0.1, estimator: Any = None
) -> Rows:
    """Return moved rows labelled by an out-of-fold model alone: the method without its residual.

    Args:
        X: Features, shape (n, d).
        y: Targets, shape (n,).
        rng: Source of randomness.
        factor: Generated rows per row.
        strength: Half-width p of the relative move.
        estimator: The regressor that labels.

    Returns:
        Shapes (m, d) and (m,).
    """
    source = tiled_source(len(y), factor)
    moved, _ = jitter(X, y, rng, factor, strength)
    seed = int(rng.integers(np.iinfo(np.int32).max))
    return moved, Abduction(estimator, X, y, None, None, "oof", 5, seed).predict(moved, source)


MAKERS: dict[str, Callable[..., Rows]] = {
    "duplicate": duplicate,
    "jitter": jitter,
    "mixup": mixup,
    "c-mixup": c_mixup,
    "ada": ada,
    "self-distillation": self_distillation,
}


class AugmentedRegressor(MetaEstimatorMixin, RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """A regressor trained on the rows and on what a baseline maker adds to them.

    Args:
        estimator: scikit-learn regressor; it is cloned.
        maker: ``"duplicate"``, ``"jitter"``, ``"mixup"``, ``"c-mixup"``, ``"ada"`` or ``"self-distillation"``.
        factor: Generated rows per row.
        strength: The maker's `strength`; None takes its default.
        random_state: Seed, ``numpy.random.RandomState`` or None.
    """

    def __init__(
        self,
        estimator: Any,
        maker: Maker = "duplicate",
        *,
        factor: float = 1.0,
        strength: float | None = None,
        random_state: Any = None,
    ) -> None:
        self.estimator = estimator
        self.maker = maker
        self.factor = factor
        self.strength = strength
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> AugmentedRegressor:
        """Fit to X, shape (n, d), and y, shape (n,), with the generated rows below them."""
        if self.maker not in MAKERS:
            raise InputError(f"maker is {self.maker!r}; use one of {', '.join(MAKERS)}.")
        X, y = validate_data(self, X, y, y_numeric=True, dtype=np.float64)
        y = np.asarray(y, dtype=np.float64)
        rng = np.random.default_rng(check_random_state(self.random_state).randint(np.iinfo(np.int32).max))
        options: dict[str, Any] = {"factor": self.factor}
        if self.strength is not None and self.maker != "duplicate":
            options["strength"] = self.strength
        if self.maker == "self-distillation":
            options["estimator"] = self.estimator
        more_x, more_y = MAKERS[self.maker](X, y, rng, **options)
        self.estimator_ = clone(self.estimator).fit(np.concatenate([X, more_x]), np.concatenate([y, more_y]))
        return self

    def predict(self, X: Any) -> Floats:
        """Return predictions for X, shape (m, d); shape (m,)."""
        check_is_fitted(self)
        X = validate_data(self, X, reset=False, dtype=np.float64)
        return np.asarray(self.estimator_.predict(X), dtype=np.float64)


class FoldEnsembleRegressor(MetaEstimatorMixin, RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """The mean of K plain models, each fitted without one fold: what cross-validation leaves behind.

    The published test errors come from such an ensemble of augmented models, so this is their fair partner.

    Args:
        estimator: scikit-learn regressor; it is cloned.
        folds: Number of folds K.
        random_state: Seed, ``numpy.random.RandomState`` or None.
    """

    def __init__(self, estimator: Any, folds: int = 10, *, random_state: Any = None) -> None:
        self.estimator = estimator
        self.folds = folds
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> FoldEnsembleRegressor:
        """Fit to X, shape (n, d), and y, shape (n,)."""
        X, y = validate_data(self, X, y, y_numeric=True, ensure_min_samples=2)
        seed = int(check_random_state(self.random_state).randint(np.iinfo(np.int32).max))
        self.estimators_ = [
            fit_learner(self.estimator, rows_of(X, train), y[train])
            for train, _ in split_rows(len(y), self.folds, None, seed)
        ]
        return self

    def predict(self, X: Any) -> Floats:
        """Return mean predictions for X, shape (m, d); shape (m,)."""
        check_is_fitted(self)
        X = validate_data(self, X, reset=False)
        return np.asarray(np.mean([model.predict(X) for model in self.estimators_], axis=0), dtype=np.float64)


def _mix(X: Floats, y: Floats, source: Any, partner: Any, rng: np.random.Generator, strength: float) -> Rows:
    share = rng.beta(strength, strength, size=len(source))
    mixed = share[:, None] * X[source] + (1 - share)[:, None] * X[partner]
    return mixed, share * y[source] + (1 - share) * y[partner]
