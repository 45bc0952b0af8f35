"""CRDARegressor beside the published package `crda` 1.0.2: time and test error on the same data, in one run.

Equal settings: in-sample residuals, distance-correlation screen, p = 0.1, at most five columns, one generated row a
real row, ten folds, one-sided Wilcoxon test at 0.05. Where a gate refuses, the plain model's error counts. The
published package averages its ten fold models and CRDARegressor fits one; both may use every core.
A warm-up run of each is not timed (the published screen is compiled on first use). What the published package spends
beside its fits weighs less for slow learners, as the large forest shows.

    python benchmarks/residual_augmentation_vs_crda.py [--runs 3]

The published package needs torch, optuna and hyppo; a throw-away environment is the place for it.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import io
import os
import tempfile
import time
import warnings

import numpy as np
from sklearn.base import clone
from sklearn.datasets import load_diabetes, make_friedman1
from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestRegressor
from sklearn.linear_model import Ridge
from sklearn.preprocessing import StandardScaler

from workingpapers.causality.residual_augmentation import CRDARegressor

SETTINGS = {"p": 0.1, "k": 5, "factor": 1.0, "weight": 1.0, "cv": 10, "gate_alpha": 0.05}


class Forest(RandomForestRegressor):
    """A forest that is true before it is fitted: the published package asks `model or ...`, which fails on others."""

    def __bool__(self):
        return True


def additive_noise(seed):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2, 2, size=(2200, 3))
    return X, X[:, 0] ** 2 + X[:, 1] * X[:, 2] + rng.normal(0, 0.5, size=2200), 200


def friedman(seed):
    return *make_friedman1(2200, noise=1.0, random_state=seed), 200


def diabetes(seed):
    X, y = load_diabetes(return_X_y=True)
    order = np.random.default_rng(seed).permutation(len(y))
    return X[order], y[order], 300


DATA = {"additive noise, 200 rows": additive_noise, "Friedman-1, 200 rows": friedman, "diabetes, 300 rows": diabetes}
LEARNERS = {
    "forest": lambda seed: Forest(60, min_samples_leaf=2, random_state=seed),
    "large forest": lambda seed: Forest(400, min_samples_leaf=2, random_state=seed),
    "histogram boosting": lambda seed: HistGradientBoostingRegressor(random_state=seed),
    "ridge": lambda seed: Ridge(),
}


def split(make, seed):
    X, y, rows = make(seed)
    X = StandardScaler().fit(X[:rows]).transform(X)
    return X[:rows], y[:rows], X[rows:], y[rows:]


def error(model, X, y):
    return float(np.mean((model.predict(X) - y) ** 2))


@contextlib.contextmanager
def _silence():
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        yield


def published(learner, sample, seed):
    """Seconds, test error and decision of the published package."""
    from crda import CRDA, Config

    with tempfile.TemporaryDirectory() as folder, _silence():
        start = time.perf_counter()
        result = CRDA(Config(skip_preprocess=True, random_seed=seed, results_dir=folder)).run(clone(learner), *sample)
        seconds = time.perf_counter() - start
    if result is None or len(result) == 0 or not np.isfinite(result["aug_score"].iloc[0]):
        return seconds, None
    return seconds, float(result["aug_score"].iloc[0])


def ours(learner, sample, seed, **options):
    """Seconds, test error and decision of CRDARegressor."""
    X, y, X_test, y_test = sample
    columns = list(range(X.shape[1]))
    start = time.perf_counter()
    model = CRDARegressor(clone(learner), columns=columns, random_state=seed, **options).fit(X, y)
    seconds = time.perf_counter() - start
    return seconds, error(model, X_test, y_test) if model.decision_ == "augmented" else None


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--runs", type=int, default=3)
    runs = parser.parse_args().runs
    warnings.simplefilter("ignore")
    os.environ["PYTHONWARNINGS"] = "ignore"
    have_crda = importlib.util.find_spec("crda") is not None
    if not have_crda:
        print("The published package crda is not installed here, so only this library's figures are shown.")
    equal = {**SETTINGS, "residuals": "insample", "screen": "dcor", "n_jobs": -1}
    warm = split(additive_noise, 10_000)
    ours(Ridge(), warm, 0, **equal)
    if have_crda:
        published(Ridge(), warm, 0)
    head = f"{'data':26s}{'learner':20s}{'plain':>9s}"
    print(
        head + "".join(f"{name:>22s}" for name in ("crda 1.0.2", "ours, same settings", "ours, default")) + "   times"
    )
    ratios, against_crda, against_plain = [], [], []
    for data_name, make in DATA.items():
        for learner_name, build in LEARNERS.items():
            rows = []
            for seed in range(runs):
                sample, learner = split(make, seed), build(seed)
                plain = error(clone(learner).fit(*sample[:2]), *sample[2:])
                theirs = published(learner, sample, seed) if have_crda else (np.nan, np.nan)
                same, default = ours(learner, sample, seed, **equal), ours(learner, sample, seed, n_jobs=-1)
                rows.append((plain, theirs, same, default))
            plain = np.mean([row[0] for row in rows])
            cells, errors = [], []
            for place in (1, 2, 3):
                seconds = np.mean([row[place][0] for row in rows])
                kept = [row[0] if row[place][1] is None else row[place][1] for row in rows]
                accepted = sum(row[place][1] is not None for row in rows)
                errors.append(np.mean(kept))
                cells.append(f"{np.mean(kept):9.4g} {accepted}/{runs} {seconds:6.2f} s")
            ratio = np.mean([row[1][0] for row in rows]) / np.mean([row[2][0] for row in rows])
            ratios.append(ratio)
            against_crda.append(errors[2] / errors[0])
            against_plain.append(errors[2] / plain)
            print(
                f"{data_name:26s}{learner_name:20s}{plain:9.4g}"
                + "".join(f"{c:>22s}" for c in cells)
                + f"{ratio:7.1f}x"
            )
    print("Cells: mean test error after the gate, runs in which the gate accepted, mean seconds of one run.")
    print(f"Our default against the plain model: error {min(against_plain):.3f} to {max(against_plain):.3f} of it.")
    if have_crda:
        times = f"{min(ratios):.1f} to {max(ratios):.1f} times faster than crda (median {np.median(ratios):.1f})"
        errors_left = f"error {min(against_crda):.3f} to {max(against_crda):.3f} of its"
        print(f"Equal settings: {times}.")
        print(f"Our default against crda after both gates: {errors_left}.")


if __name__ == "__main__":
    main()
