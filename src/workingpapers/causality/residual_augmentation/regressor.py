"""The method as a scikit-learn regressor: augment, test honestly, and keep the plain model unless the test says yes."""

from __future__ import annotations

import warnings
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, MetaEstimatorMixin, RegressorMixin
from sklearn.ensemble import RandomForestRegressor
from sklearn.model_selection import check_cv
from sklearn.pipeline import Pipeline
from sklearn.utils import check_array, check_random_state, get_tags
from sklearn.utils.validation import (
    _check_sample_weight,
    check_consistent_length,
    check_is_fitted,
    column_or_1d,
    validate_data,
)

from workingpapers.causality.residual_augmentation.augmenter import ResidualAugmenter, check_options, takes_weights
from workingpapers.causality.residual_augmentation.folds import FoldTask, TrainingRows, fold_table, screen_table
from workingpapers.causality.residual_augmentation.gate import Verdict, leaky_gate, run_gate
from workingpapers.causality.residual_augmentation.learners import (
    Residuals,
    check_residuals,
    fit_augmented,
    fit_learner,
    hidden_validation,
    split_rows,
)
from workingpapers.causality.residual_augmentation.perturbation import Augmented, Perturbation
from workingpapers.causality.residual_augmentation.screening import Screening
from workingpapers.causality.residual_augmentation.tables import (
    Columns,
    Floats,
    Integers,
    column_names,
    is_frame,
    perturbable_columns,
)
from workingpapers.causality.residual_augmentation.tuning import GRID, search_space, tune
from workingpapers.foundations.errors import InputError
from workingpapers.foundations.progress import Progress, silent

Gate = Literal["wilcoxon", "leaky"]
Auto = Literal["auto"]
ROWS_PER_FOLD = 3
MINIMUM_ROWS = 4  # residuals of training rows need two rows on either side of a split


class CRDARegressor(MetaEstimatorMixin, RegressorMixin, BaseEstimator):  # type: ignore[misc]
    r"""Any regressor, trained with counterfactual rows if a paired test on untouched rows says that they help.

    Rows :math:`(x', \hat g_{-i}(x') + z_i)` with the residual :math:`z_i = y_i - \hat g_{-i}(x_i)` of their own row are
    added to the training set (:class:`ResidualAugmenter`). In every fold of the gate residuals, screen, tuning and
    augmentation see the training part alone, both arms are judged on the same untouched rows, and a one-sided Wilcoxon
    test on the paired losses must reject at `gate_alpha` with a smaller mean loss; otherwise the fitted model is the
    plain one, ``clone(estimator).fit(X, y)``.

    Args:
        estimator: scikit-learn regressor, also a pipeline; None takes a random forest. Give it a fixed
            ``random_state``: both arms then share its randomness.
        residuals: ``"oof"``, ``"oob"`` (bootstrap forests; fewer fits) or ``"insample"`` (as published).
        screen: ``"pearson+pc"``, ``"pc"``, ``"dcor"`` or None.
        p: Half-width of the relative move, or ``"auto"``.
        k: Largest number of columns that move, or ``"auto"``.
        factor: Generated rows per real row, or ``"auto"``.
        weight: Sample weight of a generated row, or ``"auto"``. One where `estimator` takes no weights.
        gate: ``"wilcoxon"``; ``"leaky"``: the published gate, which cross-validates the augmented set and can accept
            what harms (for comparison); None: always augment.
        cv: Number of gate folds, or a scikit-learn splitter. Below three rows a fold nothing is augmented. Folds of
            repeated splitters are not independent: their p-values are too small.
        gate_alpha: Level of the gate. With ten folds the smallest p-value is 1/1024.
        screen_alpha: Level of the screen's tests.
        max_correlation: Largest absolute correlation with the residual under ``"pearson+pc"``.
        residual_folds: Number of folds for ``"oof"``.
        trials: Points that an ``"auto"`` search tries, inside every gate fold and once more for the final fit.
        perturbation: ``"centred"``, ``"raw"`` or ``"additive"``.
        columns: Names or positions of the columns that may move; None: numeric columns that are not all whole numbers.
            Named columns of whole numbers are moved and rounded.
        stop_early: End the gate once no outcome of the folds to come can make the test significant.
        n_jobs: Worker processes for the gate's folds.
        random_state: Seed, ``numpy.random.RandomState`` or None.

    Attributes:
        estimator_: The fitted model.
        decision_: ``"augmented"`` or ``"plain"``.
        reason_: One sentence for the decision.
        gate_pvalue_: The gate's p-value; NaN where no gate was run.
        report_: Data frame, one row a gate fold: losses of both arms, change in percent, parameters, perturbed columns.
        screen_: Data frame, one row a candidate column: correlations with target and residual, p-value, kept, rank.
        residuals_: Residuals of the training rows, shape (n,).
        params_: Parameters of the final augmentation: p, k, factor, weight.
        selected_: Positions of the columns moved in the final augmentation.
        seed_: Seed that all random choices derive from.

    References:
        arXiv 2606.28460. Out-of-fold residuals, the gate on untouched rows and the tuning inside it are corrections.
    """

    def __init__(
        self,
        estimator: Any = None,
        *,
        residuals: Residuals = "oof",
        screen: Screening | None = "pearson+pc",
        p: float | Auto = 0.5,
        k: int | Auto = 5,
        factor: float | Auto = 1.0,
        weight: float | Auto = 1.0,
        gate: Gate | None = "wilcoxon",
        cv: Any = 10,
        gate_alpha: float = 0.05,
        screen_alpha: float = 0.05,
        max_correlation: float = 0.1,
        residual_folds: int = 5,
        trials: int = 8,
        perturbation: Perturbation = "centred",
        columns: Columns = None,
        stop_early: bool = True,
        n_jobs: int | None = None,
        random_state: Any = None,
    ) -> None:
        self.estimator = estimator
        self.residuals = residuals
        self.screen = screen
        self.p = p
        self.k = k
        self.factor = factor
        self.weight = weight
        self.gate = gate
        self.cv = cv
        self.gate_alpha = gate_alpha
        self.screen_alpha = screen_alpha
        self.max_correlation = max_correlation
        self.residual_folds = residual_folds
        self.trials = trials
        self.perturbation = perturbation
        self.columns = columns
        self.stop_early = stop_early
        self.n_jobs = n_jobs
        self.random_state = random_state

    def fit(
        self,
        X: Any,
        y: npt.ArrayLike,
        sample_weight: npt.ArrayLike | None = None,
        groups: npt.ArrayLike | None = None,
        *,
        progress: Progress = silent,
    ) -> CRDARegressor:
        """Run the gate and fit the augmented or the plain model.

        Args:
            X: Features, shape (n, d): an array of finite numbers, or a data frame that `estimator` can take.
            y: Targets, shape (n,).
            sample_weight: Weights, shape (n,), at least 0; rows of weight 0 are left out.
            groups: Group of each row, shape (n,): rows of one group stay on one side of every split.
            progress: Callback for the share of the gate's folds done.

        Returns:
            The regressor itself.

        Raises:
            InputError: An option is out of its range.
            ValueError: X or y cannot be used (scikit-learn's messages).
        """
        self._check_options()
        data = self._validated(X, y, sample_weight, groups)
        self.seed_ = int(check_random_state(self.random_state).randint(np.iinfo(np.int32).max))
        learner = self._learner()
        check_residuals(learner, self.residuals, self.residual_folds)
        self._warn(learner, data)
        splits = self._splits(data)
        augmenter = self._augmenter(learner)
        verdict, reason = None, self._refusal(data, splits)
        if not reason and self.gate == "wilcoxon":
            task = FoldTask(augmenter, data, splits, search_space(self, learner), self.trials, self.seed_)
            verdict = run_gate(task, len(splits), self.gate_alpha, self.stop_early, self.n_jobs, progress)
            reason = "" if verdict.accepted else verdict.reason
        if not reason:
            space = search_space(self, learner)
            augmenter.set_params(**tune(augmenter, *data, space, self.trials, self.seed_))
            augmenter.fit(*data)
            made = augmenter.augment()
            if not made.augmented.any():
                reason = "No column passed the screen; nothing was augmented."
            elif self.gate == "leaky":
                verdict = leaky_gate(augmenter, made, len(splits), self.seed_, self.gate_alpha)
                reason = "" if verdict.accepted else verdict.reason
        if reason:
            self.estimator_ = fit_learner(learner, data.X, data.y, data.weight)
        else:
            self.estimator_ = fit_augmented(learner, made, self.seed_)
        self.decision_ = "plain" if reason else "augmented"
        self.reason_ = reason or ("Augmented without a gate." if verdict is None else verdict.reason)
        self._describe(augmenter, data, verdict)
        return self

    def predict(self, X: Any) -> Floats:
        """Return the predictions of the fitted model.

        Args:
            X: Features, shape (m, d).

        Returns:
            Shape (m,).
        """
        check_is_fitted(self)
        X = (
            validate_data(self, X, reset=False, skip_check_array=True)
            if is_frame(X)
            else validate_data(self, X, reset=False, ensure_all_finite=self._finite())
        )
        return np.asarray(self.estimator_.predict(X), dtype=np.float64)

    def augment(
        self,
        X: Any,
        y: npt.ArrayLike,
        sample_weight: npt.ArrayLike | None = None,
        groups: npt.ArrayLike | None = None,
    ) -> Augmented:
        """Return `X`, `y` with rows generated under the fitted parameters, whatever the gate decided.

        For the rows that `fit` saw this is the set that an accepted model was trained on.

        Args:
            X: Features, shape (n, d).
            y: Targets, shape (n,).
            sample_weight: Weights, shape (n,).
            groups: Groups, shape (n,).

        Returns:
            Features, targets, weights, source rows and the mark of generated rows; real rows first.
        """
        check_is_fitted(self)
        augmenter = self._augmenter(self._learner()).set_params(**self.params_)
        made: Augmented = augmenter.fit_augment(X, y, sample_weight, groups)
        return made

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = self._finite() == "allow-nan"
        tags.input_tags.sparse = False
        return tags

    def _check_options(self) -> None:
        check_options(self)
        if self.gate not in ("wilcoxon", "leaky", None):
            raise InputError(f"gate is {self.gate!r}; use 'wilcoxon', 'leaky' or None.")
        if not 0 < self.gate_alpha < 1:
            raise InputError(f"gate_alpha is {self.gate_alpha!r}; it must be over 0 and under 1.")
        if not isinstance(self.trials, int | np.integer) or self.trials < 1:
            raise InputError(f"trials is {self.trials!r}; it must be a whole number of at least 1.")
        if isinstance(self.cv, int | np.integer) and self.cv < 2:
            raise InputError(f"cv is {self.cv!r}; it must be at least 2 folds.")

    def _learner(self) -> Any:
        if self.estimator is None:
            return RandomForestRegressor(100, min_samples_leaf=2, random_state=self.seed_)
        return self.estimator

    def _finite(self) -> Any:
        inner = self.estimator.steps[0][1] if isinstance(self.estimator, Pipeline) else self.estimator
        # The default forest takes missing values as well.
        return "allow-nan" if inner is None or get_tags(inner).input_tags.allow_nan else True

    def _validated(self, X: Any, y: Any, sample_weight: Any, groups: Any) -> TrainingRows:
        if is_frame(X):
            validate_data(self, X, y, skip_check_array=True)
            X = X.reset_index(drop=True)
            y = column_or_1d(y, warn=True)
            check_consistent_length(X, y)
        else:
            X, y = validate_data(self, X, y, y_numeric=True, ensure_all_finite=self._finite(), ensure_min_samples=2)
        y = np.asarray(check_array(y, ensure_2d=False, dtype=np.float64, input_name="y"))
        weight = None
        if sample_weight is not None:
            if not takes_weights(self._learner_class()):
                raise ValueError(f"{type(self.estimator).__name__} takes no sample_weight; leave it out.")
            weight = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
        if groups is not None:
            groups = np.asarray(groups)
            check_consistent_length(X, groups)
        data = TrainingRows(X, y, weight, groups)
        return data if weight is None or np.all(weight > 0) else data.rows(np.flatnonzero(weight > 0))

    def _learner_class(self) -> Any:
        return RandomForestRegressor() if self.estimator is None else self.estimator

    def _warn(self, learner: Any, data: TrainingRows) -> None:
        if not takes_weights(learner) and not isinstance(self.weight, str) and self.weight != 1.0:
            warnings.warn(
                f"{type(learner).__name__} takes no sample_weight: generated rows count fully, not {self.weight}.",
                UserWarning,
                stacklevel=3,
            )
        hidden = hidden_validation(learner, 2 * len(data.y))
        if hidden:
            warnings.warn(
                f"{type(learner).__name__} chooses validation rows of its own ({hidden}), which then have generated "
                "twins in training; the gate still judges on rows that nothing has seen.",
                UserWarning,
                stacklevel=3,
            )

    def _augmenter(self, learner: Any) -> ResidualAugmenter:
        fixed = {
            name: getattr(self, name)
            for name in ("p", "k", "factor", "weight")
            if not isinstance(getattr(self, name), str)
        }
        if not takes_weights(learner):
            fixed["weight"] = 1.0
        return ResidualAugmenter(
            learner,
            residuals=self.residuals,
            residual_folds=self.residual_folds,
            screen=self.screen,
            screen_alpha=self.screen_alpha,
            max_correlation=self.max_correlation,
            perturbation=self.perturbation,
            columns=self.columns,
            random_state=self.seed_,
            **fixed,
        )

    def _splits(self, data: TrainingRows) -> list[tuple[Integers, Integers]]:
        if self.gate is None:
            return []
        if isinstance(self.cv, int | np.integer):
            enough = len(data.y) >= ROWS_PER_FOLD * self.cv
            return split_rows(len(data.y), int(self.cv), data.groups, self.seed_) if enough else []
        return list(check_cv(self.cv).split(data.X, data.y, data.groups))

    def _too_few(self, data: TrainingRows) -> bool:
        few_groups = data.groups is not None and len(np.unique(data.groups)) < 3
        return len(data.y) < MINIMUM_ROWS or few_groups

    def _refusal(self, data: TrainingRows, splits: list[tuple[Integers, Integers]]) -> str:
        """Return why nothing can be augmented at all, or an empty string."""
        if len(perturbable_columns(data.X, self.columns)) == 0:
            return "No column may be perturbed: none holds numbers other than whole ones; name columns to allow more."
        if self._too_few(data):
            return f"{len(data.y)} rows in so few groups are too few to take residuals; nothing was augmented."
        if (self.gate is not None and len(data.y) < ROWS_PER_FOLD * max(len(splits), 1)) or (self.gate and not splits):
            return f"{len(data.y)} rows are too few for a gate of {self.cv} folds; nothing was augmented."
        return ""

    def _describe(self, augmenter: ResidualAugmenter, data: TrainingRows, verdict: Verdict | None) -> None:
        """Set the attributes that tell what was done; after a refusal the residuals are those of the plain model."""
        if not hasattr(augmenter, "screen_"):
            if self._too_few(data):
                augmenter.set_params(residuals="insample")
            augmenter.fit(*data, self.estimator_)
        self.params_ = {name: getattr(augmenter, name) for name in GRID}
        self.gate_pvalue_ = float("nan") if verdict is None else verdict.pvalue
        self.report_ = fold_table(verdict, column_names(data.X))
        self.screen_ = screen_table(augmenter, column_names(data.X))
        self.residuals_ = augmenter.residuals_
        self.selected_ = augmenter.selected_
