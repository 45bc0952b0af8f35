"""Calibration of 10,000 examinees x 200 items (2PL), and girth on a tenth of it.

python benchmarks/item_response_calibration.py
"""

from __future__ import annotations

import time

import numpy as np

from workingpapers.foundations.item_response import Items, calibrate, score, simulate


def main() -> None:
    rng = np.random.default_rng(0)
    items = Items.dichotomous(rng.lognormal(0.2, 0.3, 200), rng.normal(size=200))
    theta = rng.normal(size=10_000)
    responses = simulate(theta, items, rng)
    begun = time.perf_counter()
    fit = calibrate(responses, "2PL")
    seconds = time.perf_counter() - begun
    error = np.sqrt(np.mean((fit.items.slope - items.slope) ** 2))
    print(f"2PL, 10,000 x 200: {seconds:.1f} s, {fit.iterations} EM steps, RMSE of a {error:.3f}")
    begun = time.perf_counter()
    found = score(responses, fit.items, "map")
    print(f"MAP scores: {time.perf_counter() - begun:.2f} s, RMSE {np.sqrt(np.mean((found.theta - theta) ** 2)):.3f}")
    try:
        import girth
    except ImportError:
        print("girth is not installed; pip install girth to compare.")
        return
    small = responses[:1000, :50]
    begun = time.perf_counter()
    theirs = girth.twopl_mml(small.T.astype(int))
    their_seconds = time.perf_counter() - begun
    begun = time.perf_counter()
    ours = calibrate(small, "2PL")
    our_seconds = time.perf_counter() - begun
    difference = np.abs(ours.items.slope - theirs["Discrimination"]).max()
    print(
        f"1,000 x 50: girth {their_seconds:.2f} s, ours {our_seconds:.2f} s ({their_seconds / our_seconds:.0f}x), "
        f"largest difference of a {difference:.3f}"
    )


if __name__ == "__main__":
    main()
