"""Both arms on one fold of the gate, and the tables that tell what happened there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from sklearn.base import clone

from workingpapers.causality.residual_augmentation.augmenter import ResidualAugmenter
from workingpapers.causality.residual_augmentation.gate import FoldLosses, Verdict, squared_loss
from workingpapers.causality.residual_augmentation.learners import fit_augmented, fit_learner
from workingpapers.causality.residual_augmentation.tables import Floats, Integers, rows_of
from workingpapers.causality.residual_augmentation.tuning import tune


class TrainingRows(NamedTuple):
    """Training rows with their weights and groups."""

    X: Any
    y: Floats
    weight: Floats | None
    groups: Any

    def rows(self, rows: Integers) -> TrainingRows:
        """Return the rows at the positions `rows`."""
        return TrainingRows(
            rows_of(self.X, rows),
            self.y[rows],
            None if self.weight is None else self.weight[rows],
            None if self.groups is None else self.groups[rows],
        )


@dataclass(frozen=True)
class FoldTask:
    """Both arms on one fold; everything is chosen on the fold's training rows."""

    augmenter: ResidualAugmenter
    data: TrainingRows
    splits: list[tuple[Integers, Integers]]
    space: dict[str, tuple[float, ...]]
    trials: int
    seed: int

    def __call__(self, fold: int) -> FoldLosses:
        """Return the losses of both arms on the fold's test rows."""
        train, test = self.splits[fold]
        inside, outside = self.data.rows(train), self.data.rows(test)
        learner = self.augmenter.estimator
        plain = fit_learner(learner, inside.X, inside.y, inside.weight)
        loss = squared_loss(outside.y, plain.predict(outside.X), outside.weight)
        seed = int(np.random.SeedSequence([self.seed, fold]).generate_state(1)[0] % np.iinfo(np.int32).max)
        parameters = tune(self.augmenter, *inside, self.space, self.trials, seed)
        augmenter = clone(self.augmenter).set_params(**parameters, random_state=seed).fit(*inside, plain)
        moved = tuple(int(column) for column in augmenter.selected_)
        if not moved:
            return FoldLosses(loss, loss, parameters, moved)
        model = fit_augmented(learner, augmenter.augment(), seed)
        return FoldLosses(loss, squared_loss(outside.y, model.predict(outside.X), outside.weight), parameters, moved)


def fold_table(verdict: Verdict | None, names: list[str]) -> pd.DataFrame:
    """Return one row a fold: losses, change in percent, parameters, perturbed columns; no rows without a verdict."""
    folds = () if verdict is None else verdict.folds
    return pd.DataFrame(
        [
            {
                "plain": fold.plain,
                "augmented": fold.augmented,
                "change_percent": 100 * (fold.augmented / fold.plain - 1) if fold.plain else float("nan"),
                **fold.parameters,
                "perturbed": ", ".join(names[column] for column in fold.perturbed),
            }
            for fold in folds
        ],
        columns=["plain", "augmented", "change_percent", "p", "k", "factor", "weight", "perturbed"],
    )


def screen_table(augmenter: ResidualAugmenter, names: list[str]) -> pd.DataFrame:
    """Return one row a candidate column: correlations, p-value, whether it was kept, and its rank (0: not kept)."""
    screen = augmenter.screen_
    rank = {int(column): place + 1 for place, column in enumerate(screen.ranked)}
    return pd.DataFrame(
        {
            "column": [names[column] for column in screen.columns],
            "correlation_target": screen.correlation_target,
            "correlation_residual": screen.correlation_residual,
            "pvalue": screen.pvalue,
            "kept": screen.kept,
            "rank": [rank.get(int(column), 0) for column in screen.columns],
        }
    )
