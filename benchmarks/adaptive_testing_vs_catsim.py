"""Simulated adaptive tests: all examinees at once, against one at a time and against catsim's simulator.

Maximum information, 2PL bank of 500 items, 20 items a test, one ability estimate after each item. catsim searches the
likelihood within bounds, ours takes the posterior mode. Both start at ability zero. Times are processor time; set
OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1.

python benchmarks/adaptive_testing_vs_catsim.py
"""

from __future__ import annotations

import time
from importlib.metadata import version

import numpy as np

from workingpapers.evaluation.adaptive_testing.bank import Bank
from workingpapers.evaluation.adaptive_testing.selectors import MaximumInformation
from workingpapers.evaluation.adaptive_testing.session import AdaptiveTest, Session
from workingpapers.evaluation.adaptive_testing.simulation import simulate
from workingpapers.foundations import item_response
from workingpapers.foundations.item_response import Items

BANK, LENGTH, OURS, THEIRS = 500, 20, 2000, 50


def main() -> None:
    rng = np.random.default_rng(0)
    slope, difficulty = rng.lognormal(0.2, 0.3, BANK), rng.normal(size=BANK)
    items = Items.dichotomous(slope, difficulty)
    theta = rng.normal(size=OURS)
    responses = item_response.simulate(theta, items, rng)
    test = AdaptiveTest(Bank.from_items(items), MaximumInformation(), LENGTH)
    position = {name: index for index, name in enumerate(test.bank.names)}
    begun = time.process_time()
    run = simulate(test, responses)
    ours = (time.process_time() - begun) / OURS
    error = run.root_mean_squared_error(theta[:, None])[-1]
    first = run.theta[:THEIRS, -1, 0]
    print(
        f"ours: {1e3 * ours:.3f} ms an examinee ({OURS} examinees), RMSE to the truth {error:.3f} "
        f"({np.sqrt(np.mean((first - theta[:THEIRS]) ** 2)):.3f} on the first {THEIRS})"
    )
    begun = time.process_time()
    for y in responses[:THEIRS]:
        session = Session(test)
        while (name := session.next_item()) is not None:
            session.answer(name, int(y[position[name]]))
    alone = (time.process_time() - begun) / THEIRS
    print(f"the same, one examinee at a time: {1e3 * alone:.2f} ms an examinee; ratio {alone / ours:.0f}x")
    try:
        from catsim.estimation import NumericalSearchEstimator
        from catsim.initialization import FixedPointInitializer
        from catsim.item_bank import ItemBank
        from catsim.selection import MaxInfoSelector
        from catsim.simulation import Simulator
        from catsim.stopping import TestLengthStopper
    except ImportError:
        print("catsim is not installed; pip install catsim to compare.")
        return
    bank = ItemBank(np.column_stack([slope, difficulty, np.zeros(BANK), np.ones(BANK)]))
    simulator = Simulator(bank, theta[:THEIRS])
    parts = (
        FixedPointInitializer(0.0),
        MaxInfoSelector(),
        NumericalSearchEstimator(),
        TestLengthStopper(max_items=LENGTH),
    )
    begun = time.process_time()
    simulator.simulate(*parts)
    theirs = (time.process_time() - begun) / THEIRS
    found = np.array([path[-1] for path in simulator.estimations])
    error = np.sqrt(np.mean((found - theta[:THEIRS]) ** 2))
    asked = {len(each) for each in simulator.administered_items}
    print(
        f"catsim {version('catsim')}: {1e3 * theirs:.2f} ms an examinee ({THEIRS} examinees, {asked} items), "
        f"RMSE to the truth {error:.3f}"
    )
    print(f"catsim to ours: {theirs / ours:.0f}x")


if __name__ == "__main__":
    main()
