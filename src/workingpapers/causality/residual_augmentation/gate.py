"""The safety gate: a paired test on untouched real rows that decides whether augmentation is used at all."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from joblib import Parallel, delayed, effective_n_jobs
from scipy import stats

from workingpapers.causality.residual_augmentation.augmenter import ResidualAugmenter
from workingpapers.causality.residual_augmentation.learners import fit_learner, split_rows
from workingpapers.causality.residual_augmentation.perturbation import Augmented
from workingpapers.causality.residual_augmentation.tables import Floats, rows_of
from workingpapers.foundations.progress import Progress, silent

EXACT_DIFFERENCES = 50


@dataclass(frozen=True)
class FoldLosses:
    """Losses of both arms on one fold's untouched rows, and what the augmentation of its training rows was."""

    plain: float
    augmented: float
    parameters: dict[str, Any]
    perturbed: tuple[int, ...]


@dataclass(frozen=True)
class Verdict:
    """Decision of a gate.

    Args:
        folds: The folds that were run, in order.
        planned: Number of folds planned.
        pvalue: One-sided p-value over all folds; where the gate stopped early, the smallest one still possible.
        accepted: Whether augmentation is used.
        reason: One sentence.
    """

    folds: tuple[FoldLosses, ...]
    planned: int
    pvalue: float
    accepted: bool
    reason: str


def wilcoxon_less(differences: Floats) -> float:
    r"""Return the one-sided p-value of Wilcoxon's signed-rank test that differences lie below zero.

    .. math:: p = \Pr(W^+ \le w), \qquad w = \sum_{d_i > 0} \operatorname{rank} |d_i|

    under random signs, exact up to 50 differences. Zeros are dropped. Among ties the positive differences take the
    higher ranks, which can only raise the p-value and keeps the null distribution the tabulated one.

    Args:
        differences: Shape (m,).

    Returns:
        The p-value; 1 without any non-zero difference.
    """
    values = np.asarray(differences, dtype=np.float64)
    values = values[values != 0]
    if len(values) == 0:
        return 1.0
    order = np.lexsort((values > 0, np.abs(values)))
    signed_ranks = np.sign(values[order]) * np.arange(1, len(values) + 1)
    method: Any = "exact" if len(values) <= EXACT_DIFFERENCES else "approx"
    return float(stats.wilcoxon(signed_ranks, alternative="less", method=method).pvalue)


def best_possible_pvalue(differences: Floats, remaining: int) -> float:
    """Return the smallest p-value that `remaining` further differences could still give.

    That is the p-value when all of them are negative and larger in size than any so far: the positive ones then keep
    the lowest ranks they can have.
    """
    values = np.asarray(differences, dtype=np.float64)
    top = np.max(np.abs(values), initial=0.0) + 1.0
    return wilcoxon_less(np.concatenate([values, -top * np.arange(1, remaining + 1)]))


def run_gate(
    evaluate: Callable[[int], FoldLosses],
    planned: int,
    alpha: float,
    stop_early: bool = True,
    n_jobs: int | None = None,
    progress: Progress = silent,
) -> Verdict:
    """Evaluate fold after fold and accept when the augmented arm's losses are smaller, by the test and in the mean.

    Args:
        evaluate: ``evaluate(fold)`` gives the fold's losses; it is sent to worker processes where `n_jobs` says so.
        planned: Number of folds.
        alpha: Level of the one-sided test.
        stop_early: Stop once no outcome of the remaining folds can make the test significant. The decision is the same.
        n_jobs: Worker processes, as joblib counts them.
        progress: Called after every fold (or batch of parallel folds).

    Returns:
        The verdict.
    """
    width = effective_n_jobs(n_jobs)
    done: list[FoldLosses] = []
    with Parallel(n_jobs=n_jobs) as parallel:
        while len(done) < planned:
            batch = range(len(done), min(planned, len(done) + width))
            done.extend(parallel(delayed(evaluate)(fold) for fold in batch))
            progress(len(done) / planned, f"fold {len(done)} of {planned}")
            possible = best_possible_pvalue(_differences(done), planned - len(done))
            if stop_early and possible >= alpha:
                break
    return judge(done, planned, alpha)


def judge(folds: Sequence[FoldLosses], planned: int, alpha: float) -> Verdict:
    """Return the verdict on `folds`; with fewer than `planned` the p-value is the smallest still possible."""
    differences = _differences(folds)
    pvalue = best_possible_pvalue(differences, planned - len(folds))
    better = bool(np.sum(differences) < 0)
    accepted = len(folds) == planned and pvalue < alpha and better
    run = f"{len(folds)} of {planned} folds" if len(folds) < planned else f"{planned} folds"
    if accepted:
        reason = f"Augmentation lowers the loss on rows it never saw ({run}, one-sided p = {pvalue:.3g})."
    elif pvalue < alpha:
        reason = f"Augmentation helps on most folds but not in the mean ({run}, one-sided p = {pvalue:.3g})."
    else:
        sign = "at least" if len(folds) < planned else "="
        reason = f"Augmentation is not shown to lower the loss ({run}, one-sided p {sign} {pvalue:.3g})."
    return Verdict(tuple(folds), planned, pvalue, accepted, reason)


def leaky_gate(augmenter: ResidualAugmenter, data: Augmented, folds: int, seed: int, alpha: float) -> Verdict:
    """Cross-validate the augmented set as if its rows were independent: the published gate, for comparison only.

    Generated rows stand in the validation parts while their twins stand in training, and the two arms have different
    folds, so that the test can accept what does harm.

    Args:
        augmenter: The fitted augmenter that made `data`.
        data: Augmented set.
        folds: Number of folds.
        seed: Seed of the folds.
        alpha: Level of the one-sided test.

    Returns:
        The verdict.
    """
    real = np.flatnonzero(~data.augmented)
    plain = _cross_validated_losses(
        augmenter.estimator, rows_of(data.X, real), data.y[real], data.sample_weight[real], folds, seed
    )
    augmented = _cross_validated_losses(augmenter.estimator, data.X, data.y, data.sample_weight, folds, seed)
    parameters = {name: getattr(augmenter, name) for name in ("p", "k", "factor", "weight")}
    moved = tuple(int(column) for column in augmenter.selected_)
    pairs = [FoldLosses(first, second, parameters, moved) for first, second in zip(plain, augmented, strict=True)]
    return judge(pairs, len(pairs), alpha)


def squared_loss(y: Floats, prediction: Floats, weight: Floats | None = None) -> float:
    """Return the (weighted) mean squared error."""
    return float(np.average((y - prediction) ** 2, weights=weight))


def _cross_validated_losses(estimator: Any, X: Any, y: Floats, weight: Floats, folds: int, seed: int) -> list[float]:
    losses = []
    for train, test in split_rows(len(y), folds, None, seed):
        model = fit_learner(estimator, rows_of(X, train), y[train], weight[train])
        losses.append(squared_loss(y[test], model.predict(rows_of(X, test)), weight[test]))
    return losses


def _differences(folds: Sequence[FoldLosses]) -> Floats:
    return np.array([fold.augmented - fold.plain for fold in folds], dtype=np.float64)
