"""A small seeded search over the published grid, on rows that neither the residuals nor the screen have seen."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.model_selection import GroupShuffleSplit, ShuffleSplit

from workingpapers.causality.residual_augmentation.augmenter import ResidualAugmenter, takes_weights
from workingpapers.causality.residual_augmentation.gate import squared_loss
from workingpapers.causality.residual_augmentation.learners import fit_augmented
from workingpapers.causality.residual_augmentation.tables import Floats, rows_of

GRID: Mapping[str, tuple[Any, ...]] = {
    "p": tuple(round(0.1 * step, 1) for step in range(1, 11)),
    "k": (1, 2, 3, 4, 5),
    "factor": (0.5, 0.75, 1.0, 1.25, 1.5),
    "weight": (0.25, 0.5, 0.75, 1.0),
}
VALIDATION_SHARE = 0.2


def search_space(options: Any, estimator: Any) -> dict[str, tuple[Any, ...]]:
    """Return the values to search for each parameter: the grid for ``"auto"``, else the option alone."""
    space = {
        name: grid if isinstance(getattr(options, name), str) else (getattr(options, name),)
        for name, grid in GRID.items()
    }
    if not takes_weights(estimator):
        space["weight"] = (1.0,)
    return space


def candidates(space: Mapping[str, tuple[Any, ...]], trials: int, rng: np.random.Generator) -> list[dict[str, Any]]:
    """Return `trials` distinct points of the grid `space`, drawn at random; all points where there are no more."""
    points = [dict(zip(space, values, strict=True)) for values in product(*space.values())]
    if len(points) <= trials:
        return points
    return [points[index] for index in rng.choice(len(points), trials, replace=False)]


def tune(
    augmenter: ResidualAugmenter,
    X: Any,
    y: Floats,
    weight: Floats | None,
    groups: Any,
    space: Mapping[str, tuple[Any, ...]],
    trials: int,
    seed: int,
) -> dict[str, Any]:
    """Return the point of `space` with the smallest loss on a fifth of the rows, held out before anything is fitted.

    All points meet the same split and the same abduction, so that they differ by what they are.

    Args:
        augmenter: Template; it is cloned.
        X: Features, shape (n, d).
        y: Targets, shape (n,).
        weight: Sample weights, shape (n,), or None.
        groups: Groups, shape (n,), or None.
        space: Parameter -> values.
        trials: Number of points tried.
        seed: Seed of the points and the split.

    Returns:
        Parameter -> value.
    """
    rng = np.random.default_rng(seed)
    points = candidates(space, trials, rng)
    if len(points) == 1:
        return points[0]
    splitter = ShuffleSplit if groups is None else GroupShuffleSplit
    split = splitter(1, test_size=VALIDATION_SHARE, random_state=seed)
    train, held_out = next(split.split(np.zeros(len(y)), groups=groups))
    part = None if weight is None else weight[train]
    inner = clone(augmenter).set_params(k=max(point["k"] for point in points))
    inner.fit(rows_of(X, train), y[train], part, None if groups is None else groups[train])
    if len(inner.selected_) == 0:
        return points[0]
    losses = []
    for point in points:
        data = inner.augment(np.random.default_rng(seed), **point)
        model = fit_augmented(inner.estimator, data, seed)
        losses.append(
            squared_loss(y[held_out], model.predict(rows_of(X, held_out)), None if weight is None else weight[held_out])
        )
    return points[int(np.argmin(losses))]
