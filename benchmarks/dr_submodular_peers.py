"""DR-submodular maximisation: ours against apricot and submodlib where they overlap, and at scale.

python benchmarks/dr_submodular_peers.py

The peers choose sets of a given size for monotone functions, offline. The common ground is maximum coverage with k of n
sets; ours solves the continuous version and reports an upper bound. Neither peer takes costs, several limits, functions
that can fall, or rewards that arrive one by one.
"""

from __future__ import annotations

import math
import time

import numpy as np

from workingpapers.optimization.dr_submodular import (
    WRAPPERS,
    Coverage,
    Cut,
    OnlineMaximizer,
    best_fixed,
    budget,
    maximise,
    play,
)
from workingpapers.optimization.dr_submodular.planning import concave_bound


def by_apricot(covers: np.ndarray, k: int) -> np.ndarray:
    from apricot import MaxCoverageSelection

    return np.asarray(MaxCoverageSelection(k).fit(covers).ranking)


def by_submodlib(covers: np.ndarray, k: int) -> np.ndarray:
    from submodlib import SetCoverFunction

    sets = [set(np.flatnonzero(row).tolist()) for row in covers]
    function = SetCoverFunction(n=len(covers), cover_set=sets, num_concepts=covers.shape[1])
    chosen = function.maximize(budget=k, optimizer="NaiveGreedy", stopIfZeroGain=False, show_progress=False)
    return np.array([item for item, _ in chosen])


def main() -> None:
    rng = np.random.default_rng(0)
    sets, elements, k = 100, 400, 10
    covers = (rng.random((sets, elements)) < rng.uniform(0.01, 0.2, (sets, 1))).astype(np.float64)
    reward = Coverage(covers, np.ones(elements), np.zeros(sets))
    polytope = budget(np.ones(sets), k)
    print(
        f"coverage of {elements} elements by {k} of {sets} sets; no choice covers over "
        f"{concave_bound(reward, polytope):.1f} (the first run of apricot compiles its code)"
    )
    for name, solve in (("apricot", by_apricot), ("submodlib", by_submodlib)):
        begun = time.perf_counter()
        try:
            chosen = solve(covers, k)
        except ImportError:
            print(f"  {name} is not installed; install it to compare.")
            continue
        x = np.zeros(sets)
        x[chosen] = 1.0
        print(f"  {name}, greedy: {float(reward.value(x)):.1f} in {time.perf_counter() - begun:.3f} s")
    for name in ("boosted", "exponential"):
        begun = time.perf_counter()
        found = maximise(reward, polytope, iterations=40, nodes=4, wrapper=WRAPPERS[name])
        print(f"  ours, {name}: {found.value:.1f} in {time.perf_counter() - begun:.3f} s")
    begun = time.perf_counter()
    _, value = best_fixed(reward, polytope, rng, starts=1, steps=60)
    print(f"  ours, plain ascent: {value:.1f} in {time.perf_counter() - begun:.3f} s")

    for dimension in (100, 1000):
        cut = Cut(rng.uniform(0, 1, (dimension, dimension)) * (rng.random((dimension, dimension)) < 10 / dimension))
        player = OnlineMaximizer(budget(np.ones(dimension), dimension / 4))
        begun = time.perf_counter()
        rounds = 500
        played = play(player, lambda t, cut=cut: cut, rounds)
        milliseconds = (time.perf_counter() - begun) / rounds * 1e3
        bound = (1 - 1 / math.e) * player.learner.bound() / rounds
        print(
            f"online, {dimension} coordinates, one budget: {milliseconds:.2f} ms a round; 1/e-regret in expectation "
            f"at most {bound:.2f} a round, reward {played.rewards.mean():.1f}"
        )


if __name__ == "__main__":
    main()
