"""Fitting any scikit-learn regressor with weights, and out-of-sample predictions for rows and their counterfactuals."""

from __future__ import annotations

import math
from typing import Any, Literal

import numpy as np
from sklearn.base import clone
from sklearn.compose import TransformedTargetRegressor
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.model_selection import GroupKFold, KFold
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.utils.validation import has_fit_parameter

from workingpapers.causality.residual_augmentation.perturbation import Augmented, twin_safe_split
from workingpapers.causality.residual_augmentation.tables import Floats, Integers, rows_of
from workingpapers.foundations.errors import InputError

Residuals = Literal["oof", "oob", "insample"]
HISTOGRAM_EARLY_STOPPING_ROWS = 10_000  # scikit-learn's own threshold for early_stopping="auto"


def weight_keyword(estimator: Any) -> str | None:
    """Return the keyword under which ``estimator.fit`` takes sample weights (``step__sample_weight`` in a pipeline)."""
    if isinstance(estimator, Pipeline):
        name, last = estimator.steps[-1]
        inner = weight_keyword(last)
        return None if inner is None else f"{name}__{inner}"
    if isinstance(estimator, TransformedTargetRegressor):
        return "sample_weight" if estimator.regressor is None else weight_keyword(estimator.regressor)
    return "sample_weight" if has_fit_parameter(estimator, "sample_weight") else None


def fit_learner(estimator: Any, X: Any, y: Floats, weight: Floats | None = None) -> Any:
    """Fit a clone of `estimator`; weights are passed only where they differ from one and the estimator takes them."""
    model = clone(estimator)
    keyword = weight_keyword(model)
    if weight is None or keyword is None or np.all(weight == 1.0):
        return model.fit(X, y)
    return model.fit(X, y, **{keyword: weight})


def fit_augmented(estimator: Any, data: Augmented, seed: int = 0) -> Any:
    """Fit a clone of `estimator` to an augmented set.

    A :class:`~sklearn.ensemble.HistGradientBoostingRegressor` that stops early is given validation rows that are real
    and have no twin in training; its own split would mix twins into both parts.
    """
    if not _stops_early_on_given_rows(estimator, len(data.y)):
        return fit_learner(estimator, data.X, data.y, data.sample_weight)
    fraction = estimator.validation_fraction
    known = len(np.unique(data.source_index))
    share = fraction / known if isinstance(fraction, int) else fraction
    train, held_out = twin_safe_split(data.source_index, data.augmented, share, np.random.default_rng(seed))
    return clone(estimator).fit(
        rows_of(data.X, train),
        data.y[train],
        sample_weight=data.sample_weight[train],
        X_val=rows_of(data.X, held_out),
        y_val=data.y[held_out],
        sample_weight_val=data.sample_weight[held_out],
    )


def hidden_validation(estimator: Any, rows: int) -> str:
    """Return what `estimator` validates on rows of its own choice (where twins would leak), or an empty string."""
    if isinstance(estimator, Pipeline):
        last = estimator.steps[-1][1]
        return "early stopping" if _stops_early_on_given_rows(last, rows) else hidden_validation(last, rows)
    if isinstance(estimator, TransformedTargetRegressor):
        return "" if estimator.regressor is None else hidden_validation(make_pipeline(estimator.regressor), rows)
    if isinstance(estimator, HistGradientBoostingRegressor):
        return ""
    settings = estimator.get_params(deep=False)
    if settings.get("early_stopping") is True or (
        "early_stopping" not in settings and settings.get("n_iter_no_change") is not None
    ):
        return "early stopping"
    return "cross-validation" if "cv" in settings else ""


def split_rows(n: int, folds: int, groups: Any, seed: int) -> list[tuple[Integers, Integers]]:
    """Return shuffled K-fold splits of `n` rows, whole groups on one side where `groups` are given."""
    if groups is None:
        splits = KFold(min(folds, n), shuffle=True, random_state=seed).split(np.zeros(n))
    else:
        folds = min(folds, len(np.unique(groups)))
        splits = GroupKFold(folds, shuffle=True, random_state=seed).split(np.zeros(n), groups=groups)
    return [(np.asarray(train), np.asarray(test)) for train, test in splits]


class Abduction:
    r"""Predictions of a model that did not see the row, for the row itself and for its counterfactuals.

    The residual of row :math:`i` is :math:`z_i = y_i - \hat g_{-i}(x_i)`, and a counterfactual :math:`x'` of row
    :math:`i` is labelled :math:`\hat g_{-i}(x') + z_i` with the *same* model, so that the label error is the change of
    the model's error, :math:`e_{-i}(x') - e_{-i}(x_i)`, and vanishes where nothing moves.

    Args:
        estimator: Regressor; it is cloned.
        X: Features, shape (n, d).
        y: Targets, shape (n,).
        weight: Sample weights, shape (n,), or None.
        groups: Group of each row, shape (n,), or None.
        residuals: ``"oof"``: :math:`\hat g_{-i}` is fitted without the fold of row i; ``"oob"``: it is the part of a
            bootstrap forest that did not draw row i, at the price of one fit; ``"insample"``: one model fitted to all
            rows, as published, whose residuals are too small.
        folds: Number of folds for ``"oof"``.
        seed: Seed of the folds.
        fitted: Model already fitted to exactly these rows, used for ``"oob"`` and ``"insample"`` in place of a fit.
    """

    def __init__(
        self,
        estimator: Any,
        X: Any,
        y: Floats,
        weight: Floats | None,
        groups: Any,
        residuals: Residuals,
        folds: int,
        seed: int,
        fitted: Any = None,
    ) -> None:
        self.kind = residuals
        n = len(y)
        if residuals == "oof":
            self.fold = np.empty(n, dtype=np.intp)
            self.models = []
            for number, (train, test) in enumerate(split_rows(n, folds, groups, seed)):
                part = None if weight is None else weight[train]
                self.models.append(fit_learner(estimator, rows_of(X, train), y[train], part))
                self.fold[test] = number
        else:
            self.models = [fitted if fitted is not None else fit_learner(estimator, X, y, weight)]
            self.fold = np.zeros(n, dtype=np.intp)
            if residuals == "oob":
                self.outside = out_of_bag(self.models[0], n)
        self.residuals: Floats = y - self.predict(X, np.arange(n))

    def predict(self, X: Any, source: Integers) -> Floats:
        r"""Return :math:`\hat g_{-i}(x)` for the rows of `X`, shape (m,), i being the row's `source`, shape (m,)."""
        if self.kind == "oob":
            return predict_out_of_bag(self.models[0], X, self.outside[source])
        result = np.empty(len(source))
        for number, model in enumerate(self.models):
            chosen = np.flatnonzero(self.fold[source] == number)
            if len(chosen):
                result[chosen] = model.predict(rows_of(X, chosen))
        return result


def has_bags(estimator: Any) -> bool:
    """Whether `estimator` is a bagged ensemble (bare or at the end of a pipeline) whose members leave rows out."""
    last = estimator.steps[-1][1] if isinstance(estimator, Pipeline) else estimator
    return bool(getattr(last, "bootstrap", False)) and hasattr(type(last), "estimators_samples_")


def out_of_bag(model: Any, n: int) -> Any:
    """Return which of the members did not draw which row, boolean, shape (n, members)."""
    last = model[-1] if isinstance(model, Pipeline) else model
    outside = np.ones((n, len(last.estimators_)), dtype=bool)
    for member, drawn in enumerate(last.estimators_samples_):
        outside[drawn, member] = False
    # A row that every member drew has no out-of-bag prediction; all members then speak for it.
    outside[~outside.any(axis=1)] = True
    return outside


def predict_out_of_bag(model: Any, X: Any, outside: Any) -> Floats:
    """Return for each row the mean prediction of the members marked in `outside`, shape (m,)."""
    if isinstance(model, Pipeline):
        X, model = model[:-1].transform(X), model[-1]
    X = np.asarray(X)
    subsets = getattr(model, "estimators_features_", None)
    members = [
        tree.predict(X if subsets is None else X[:, subsets[number]]) for number, tree in enumerate(model.estimators_)
    ]
    predictions = np.asarray(members, dtype=np.float64).T
    result: Floats = (predictions * outside).sum(axis=1) / outside.sum(axis=1)
    return result


def check_residuals(estimator: Any, residuals: str, folds: int) -> None:
    """Raise where the option `residuals` is unknown or does not suit `estimator`."""
    if residuals not in ("oof", "oob", "insample"):
        raise InputError(f"residuals is {residuals!r}; use 'oof', 'oob' or 'insample'.")
    if residuals == "oob" and not has_bags(estimator):
        raise InputError(
            f"residuals='oob' needs a bootstrap ensemble, and {type(estimator).__name__} is none; use 'oof'."
        )
    if not (isinstance(folds, int | np.integer) and folds >= 2) or math.isinf(folds):
        raise InputError(f"residual_folds is {folds!r}; it must be a whole number of at least 2.")


def _stops_early_on_given_rows(estimator: Any, rows: int) -> bool:
    if not isinstance(estimator, HistGradientBoostingRegressor) or estimator.validation_fraction is None:
        return False
    return estimator.early_stopping is True or (
        estimator.early_stopping == "auto" and rows > HISTOGRAM_EARLY_STOPPING_ROWS
    )
