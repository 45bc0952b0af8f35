"""Counterfactual rows for people with training loops of their own."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state

from workingpapers.causality.residual_augmentation.learners import (
    Abduction,
    Residuals,
    check_residuals,
    weight_keyword,
)
from workingpapers.causality.residual_augmentation.perturbation import Augmented, Perturbation, perturb, tiled_source
from workingpapers.causality.residual_augmentation.screening import Screening, screen_features
from workingpapers.causality.residual_augmentation.tables import (
    Columns,
    Floats,
    Integers,
    is_frame,
    numeric_values,
    perturbable_columns,
    rows_of,
    stack,
)
from workingpapers.foundations.errors import InputError, near_match


class ResidualAugmenter(BaseEstimator):  # type: ignore[misc]
    r"""Make training rows that keep their row's own noise.

    With a regressor :math:`\hat g_{-i}` that did not see row :math:`i`, the residual is
    :math:`z_i = y_i - \hat g_{-i}(x_i)`; features that the residual does not depend on are moved, and

    .. math:: y' = \hat g_{-i}(x') + z_i = g(x') + \varepsilon_i + e_{-i}(x') - e_{-i}(x_i), \qquad e = \hat g - g.

    The label is wrong only by the *change* of the model's error along the move.

    Args:
        estimator: scikit-learn regressor; it is cloned.
        residuals: ``"oof"`` (out of fold), ``"oob"`` (out of bag: bootstrap forests, at the price of one fit) or
            ``"insample"`` (as published; close to zero for learners that interpolate, and then without information).
        residual_folds: Number of folds for ``"oof"``.
        screen: ``"pearson+pc"``, ``"pc"``, ``"dcor"`` or None (:func:`screening.screen_features`).
        screen_alpha: Level of the screen's tests.
        max_correlation: Largest absolute correlation with the residual under ``"pearson+pc"``.
        p: Half-width of the relative move, at least 0.
        k: Largest number of columns that move.
        factor: Generated rows per real row.
        weight: Sample weight of a generated row.
        perturbation: ``"centred"``, ``"raw"`` or ``"additive"`` (:func:`perturbation.perturb`).
        columns: Names or positions of the columns that may move; None: numeric columns that are not all whole numbers.
        random_state: Seed, ``numpy.random.RandomState`` or None.

    Attributes:
        residuals_: Residuals, shape (n,).
        screen_: The :class:`~screening.Screen` over the candidate columns.
        selected_: Positions of the columns that move, best first, shape (at most k,).
        seed_: The seed that `augment` starts from.

    References:
        arXiv 2606.28460. Out-of-fold residuals and the identity above are additions.

    Example:
        >>> import numpy as np
        >>> from sklearn.linear_model import LinearRegression
        >>> rng = np.random.default_rng(0)
        >>> X = rng.normal(size=(50, 2))
        >>> y = X[:, 0] + rng.normal(size=50)
        >>> rows = ResidualAugmenter(LinearRegression(), screen=None, random_state=0).fit(X, y).augment()
        >>> rows.X.shape, int(rows.augmented.sum())
        ((100, 2), 50)
    """

    def __init__(
        self,
        estimator: Any,
        *,
        residuals: Residuals = "oof",
        residual_folds: int = 5,
        screen: Screening | None = "pearson+pc",
        screen_alpha: float = 0.05,
        max_correlation: float = 0.1,
        p: float = 0.5,
        k: int = 5,
        factor: float = 1.0,
        weight: float = 1.0,
        perturbation: Perturbation = "centred",
        columns: Columns = None,
        random_state: Any = None,
    ) -> None:
        self.estimator = estimator
        self.residuals = residuals
        self.residual_folds = residual_folds
        self.screen = screen
        self.screen_alpha = screen_alpha
        self.max_correlation = max_correlation
        self.p = p
        self.k = k
        self.factor = factor
        self.weight = weight
        self.perturbation = perturbation
        self.columns = columns
        self.random_state = random_state

    def fit(
        self,
        X: Any,
        y: npt.ArrayLike,
        sample_weight: npt.ArrayLike | None = None,
        groups: npt.ArrayLike | None = None,
        fitted: Any = None,
    ) -> ResidualAugmenter:
        """Take the residuals and choose the columns that move.

        Args:
            X: Features, shape (n, d), array or data frame.
            y: Targets, shape (n,).
            sample_weight: Weights, shape (n,).
            groups: Group of each row, shape (n,): rows of one group stay on one side of every split.
            fitted: Model already fitted to these rows; spares a fit with ``residuals="oob"`` or ``"insample"``.

        Returns:
            The augmenter itself.

        Raises:
            InputError: An option is out of its range, or a column does not exist.
        """
        check_options(self)
        check_residuals(self.estimator, self.residuals, self.residual_folds)
        self.X_ = X.reset_index(drop=True) if is_frame(X) else np.asarray(X)
        self.y_ = np.asarray(y, dtype=np.float64)
        self.sample_weight_ = None if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
        self.seed_ = int(check_random_state(self.random_state).randint(np.iinfo(np.int32).max))
        self.abduction_: Abduction | None = None
        self.residuals_: Floats = np.zeros(len(self.y_))
        candidates = perturbable_columns(self.X_, self.columns)
        values = numeric_values(self.X_)
        if len(candidates):
            self.abduction_ = Abduction(
                self.estimator,
                self.X_,
                self.y_,
                self.sample_weight_,
                None if groups is None else np.asarray(groups),
                self.residuals,
                self.residual_folds,
                self.seed_,
                fitted,
            )
            self.residuals_ = self.abduction_.residuals
        self.screen_ = screen_features(
            values,
            self.y_,
            self.residuals_,
            candidates,
            self.screen,
            self.screen_alpha,
            self.max_correlation,
            np.random.default_rng(self.seed_),
        )
        self.centre_, self.spread_ = _moments(values)
        self.selected_: Integers = self.screen_.ranked[: self.k]
        return self

    def augment(
        self,
        rng: np.random.Generator | None = None,
        *,
        p: float | None = None,
        k: int | None = None,
        factor: float | None = None,
        weight: float | None = None,
    ) -> Augmented:
        """Return the real rows with generated rows below them; without a column that may move, the real rows alone.

        Args:
            rng: Source of randomness; None gives the same rows at every call. Pass one generator to several calls for
                fresh rows in every epoch.
            p: In place of the augmenter's own `p`.
            k: In place of `k`.
            factor: In place of `factor`.
            weight: In place of `weight`.

        Returns:
            The augmented set.
        """
        n = len(self.y_)
        given = np.ones(n) if self.sample_weight_ is None else self.sample_weight_
        columns = self.selected_ if k is None else self.screen_.ranked[:k]
        source = tiled_source(n, self.factor if factor is None else factor)
        if self.abduction_ is None or len(columns) == 0 or len(source) == 0:
            return Augmented(self.X_, self.y_, given, np.arange(n), np.zeros(n, dtype=bool))
        rng = np.random.default_rng(self.seed_) if rng is None else rng
        moved = perturb(
            self.X_,
            columns,
            self.p if p is None else p,
            source,
            self.centre_,
            self.spread_,
            rng,
            self.perturbation,
        )
        # ĝ(x') + z, written as y + the model's change, so that rows that do not move keep their target exactly.
        change = self.abduction_.predict(moved, source) - self.abduction_.predict(rows_of(self.X_, source), source)
        weights = given[source] * (self.weight if weight is None else weight)
        return Augmented(
            stack(self.X_, moved),
            np.concatenate([self.y_, self.y_[source] + change]),
            np.concatenate([given, weights]),
            np.concatenate([np.arange(n), source]),
            np.concatenate([np.zeros(n, dtype=bool), np.ones(len(source), dtype=bool)]),
        )

    def fit_augment(
        self,
        X: Any,
        y: npt.ArrayLike,
        sample_weight: npt.ArrayLike | None = None,
        groups: npt.ArrayLike | None = None,
    ) -> Augmented:
        """Fit and augment in one call; arguments as in :meth:`fit`."""
        return self.fit(X, y, sample_weight, groups).augment()


def check_options(options: Any) -> None:
    """Raise `InputError` where an option shared by augmenter and regressor is out of its range; ``"auto"`` passes."""
    for name, low, whole in (("p", 0.0, False), ("k", 1, True), ("factor", 0.0, False), ("weight", 0.0, False)):
        value = getattr(options, name)
        if isinstance(value, str) and value == "auto":
            continue
        number = isinstance(value, int | np.integer if whole else int | float | np.integer | np.floating)
        if isinstance(value, bool) or not number or not np.isfinite(value) or value < low:
            kind = "a whole number" if whole else "a number"
            raise InputError(f"{name} is {value!r}; it must be {kind} of at least {low}.")
    for name in ("screen_alpha", "max_correlation"):
        if not 0 <= getattr(options, name) <= 1:
            raise InputError(f"{name} is {getattr(options, name)!r}; it must be from 0 to 1.")
    _check_choice("screen", options.screen, ("pearson+pc", "pc", "dcor", None))
    _check_choice("perturbation", options.perturbation, ("centred", "raw", "additive"))


def takes_weights(estimator: Any) -> bool:
    """Whether generated rows can be given a weight of their own when `estimator` is fitted."""
    return weight_keyword(estimator) is not None


def _check_choice(name: str, value: Any, choices: tuple[str | None, ...]) -> None:
    if value not in choices:
        known = [choice for choice in choices if choice is not None]
        hint = near_match(str(value), known) or f"; use one of {', '.join(map(repr, choices))}."
        raise InputError(f"{name} is {value!r}{hint}")


def _moments(values: Floats) -> tuple[Floats, Floats]:
    """Return means and standard deviations over the finite entries of each column; 0 where there are none."""
    seen = np.isfinite(values)
    count = np.maximum(seen.sum(axis=0), 1)
    mean = np.where(seen, values, 0.0).sum(axis=0) / count
    spread = np.sqrt(np.where(seen, (values - mean) ** 2, 0.0).sum(axis=0) / count)
    return mean, spread
