"""Private hypothesis selection: how the cost grows from 100 to 100,000 candidates, with the slope's interval.

python benchmarks/private_hypothesis_scaling.py [seeds]
"""

from __future__ import annotations

import sys
import time

import numpy as np

from workingpapers.foundations.privacy.noise import SeededNoise
from workingpapers.optimization.private_hypothesis.experiments import problem
from workingpapers.optimization.private_hypothesis.lazy import lazy_exponential
from workingpapers.optimization.private_hypothesis.scores import table_scores
from workingpapers.replication.judge import t_interval

SIZES = {
    "mixtures": (100, 1000, 10_000, 100_000),
    "agnostic": (100, 1000, 10_000, 100_000),
    "locations": (100, 1000, 10_000, 100_000),
    "equidistant": (100, 400, 1600),  # near-quadratic: larger sizes take an hour
}
RECORDS, EPSILON = 5000, 1.0


def measure(kind: str, size: int, seed: int) -> tuple[float, float]:
    rng = np.random.default_rng([seed, size])
    table, truth = problem(kind, size, rng)
    scores = table_scores(table, rng.multinomial(RECORDS, truth))
    begun = time.perf_counter()
    _, done = lazy_exponential(scores, EPSILON / 2, SeededNoise(rng))
    return float(done.pair_evaluations), time.perf_counter() - begun


def full_seconds(size: int) -> float:
    rng = np.random.default_rng(0)
    table, truth = problem("mixtures", size, rng)
    scores = table_scores(table, rng.multinomial(RECORDS, truth))
    rows = min(size, 100)
    begun = time.perf_counter()
    for j in range(rows):
        scores.row(j)
    return (time.perf_counter() - begun) / rows * size


def main() -> None:
    seeds = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    for kind, sizes in SIZES.items():
        slopes: dict[str, list[float]] = {"pair evaluations": [], "seconds": []}
        everything = []
        for seed in range(seeds):
            found = np.array([measure(kind, size, seed) for size in sizes])
            everything.append(found)
            for column, values in enumerate(slopes.values()):
                values.append(float(np.polyfit(np.log(sizes), np.log(found[:, column]), 1)[0]))
        mean = np.mean(everything, axis=0)
        for size, (pairs, seconds) in zip(sizes, mean, strict=True):
            print(
                f"{kind}, {size:>7,} candidates: {pairs / size:6.1f} n pair evaluations, {seconds:8.3f} s", flush=True
            )
        for name, values in slopes.items():
            centre, low, high = t_interval(np.array(values))
            print(f"{kind}: slope of log {name} on log n {centre:.3f}, 95 % interval {low:.3f} to {high:.3f}")
    for size in (1000, 10_000):
        print(f"full exponential mechanism, {size:,} candidates: {full_seconds(size):.1f} s (100 rows, extrapolated)")


if __name__ == "__main__":
    main()
