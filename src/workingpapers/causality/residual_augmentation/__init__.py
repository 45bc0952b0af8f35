"""CRDA: training rows that keep their own noise, used only when an honest test says that they help.

For whom: people who fit a regressor to a small noisy table (100 to a few thousand rows), where a new row is expensive.

What it does: the residual of a row, taken from a model that did not see the row, is carried over to a moved copy of the
row, whose target is that model's prediction there plus the same residual. :class:`CRDARegressor` wraps any scikit-learn
regressor, compares it with and without such rows on the same folds of untouched rows, and keeps the plain model
unless the augmented one is significantly better.

When to use it: learners that are rough at this size (forests, boosted trees) on smooth relations of continuous columns.
When not: linear models (nothing changes in expectation), tables of codes and counts (nothing may move), noise that
depends on the features. On many real tables the gate refuses; that is its purpose. Moving the features and keeping the
target (`jitter` in :mod:`baselines`) is cheap and can be better; compare.

Example:
    >>> import numpy as np
    >>> from sklearn.ensemble import RandomForestRegressor
    >>> from workingpapers.causality.residual_augmentation import CRDARegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-2, 2, size=(200, 3))
    >>> y = X[:, 0] ** 2 + X[:, 1] * X[:, 2] + rng.normal(0, 0.5, size=200)
    >>> forest = RandomForestRegressor(30, min_samples_leaf=2, random_state=0)
    >>> model = CRDARegressor(forest, residuals="oob", random_state=0).fit(X, y)
    >>> model.decision_ in ("augmented", "plain"), model.predict(X[:2]).shape
    (True, (2,))

Reference:
    CRDA: Counterfactual Residual Data Augmentation for Regression. Hossein Mohebbi, Oliver Schulte, Ke Li, Pascal
    Poupart. ICML 2026, arXiv 2606.28460.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from workingpapers.causality.residual_augmentation.augmenter import ResidualAugmenter
    from workingpapers.causality.residual_augmentation.baselines import AugmentedRegressor, FoldEnsembleRegressor
    from workingpapers.causality.residual_augmentation.perturbation import Augmented, twin_safe_split
    from workingpapers.causality.residual_augmentation.regressor import CRDARegressor
    from workingpapers.causality.residual_augmentation.screening import Screen, screen_features

__all__ = [
    "Augmented",
    "AugmentedRegressor",
    "CRDARegressor",
    "FoldEnsembleRegressor",
    "ResidualAugmenter",
    "Screen",
    "screen_features",
    "twin_safe_split",
]

_HOMES = {
    "Augmented": "perturbation",
    "AugmentedRegressor": "baselines",
    "CRDARegressor": "regressor",
    "FoldEnsembleRegressor": "baselines",
    "ResidualAugmenter": "augmenter",
    "Screen": "screening",
    "screen_features": "screening",
    "twin_safe_split": "perturbation",
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
