"""Bradley-Terry: ours against choix on the same games, and a fit at scale.

python benchmarks/bradley_terry_vs_choix.py
"""

from __future__ import annotations

import time

import numpy as np
from scipy.special import expit

from workingpapers.foundations.bradley_terry import fit_pairs


def games(players: int, count: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    theta = rng.normal(0, 1, players)
    first = rng.integers(0, players, count)
    second = (first + rng.integers(1, players, count)) % players
    won = rng.random(count) < expit(theta[first] - theta[second])
    return np.where(won, first, second), np.where(won, second, first)


def main() -> None:
    for players in (100, 1000):
        winners, losers = games(players, 100_000)
        begun = time.perf_counter()
        ours = fit_pairs(winners, losers, players, covariance=False).strengths
        seconds = time.perf_counter() - begun
        print(f"{players} players, 100,000 games: ours {seconds:.3f} s")
        try:
            import choix
        except ImportError:
            print("  choix is not installed; pip install choix to compare.")
            continue
        data = list(zip(winners.tolist(), losers.tolist(), strict=True))
        for name in ("ilsr_pairwise", "mm_pairwise", "opt_pairwise"):
            if name == "opt_pairwise" and players > 100:
                continue  # its dense Newton takes minutes
            begun = time.perf_counter()
            theirs = getattr(choix, name)(players, data)
            theirs_seconds = time.perf_counter() - begun
            difference = np.abs(ours - (theirs - theirs.mean())).max()
            print(
                f"  choix.{name} {theirs_seconds:.3f} s: ours {theirs_seconds / seconds:.0f}x faster, "
                f"largest difference {difference:.1e}"
            )
    winners, losers = games(10_000, 1_000_000)
    begun = time.perf_counter()
    fit = fit_pairs(winners, losers, 10_000, covariance=False)
    print(
        f"10,000 players, 1,000,000 games: ours {time.perf_counter() - begun:.1f} s, "
        f"{fit.iterations} Newton steps, converged {fit.converged}"
    )


if __name__ == "__main__":
    main()
