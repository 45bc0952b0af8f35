"""Experiments on analysis: the unit of inference in escalation logs, and the reaction to constrain first."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from workingpapers.foundations.progress import Progress
from workingpapers.governance.arms_control.escalation import permutation_p
from workingpapers.governance.arms_control.richardson import Balance, ranking, spectral_radius

Metrics = dict[str, float]


def _violent_counts(rng: np.random.Generator, runs: int, rate: float, spread: float, cells: int) -> npt.NDArray[Any]:
    logit = math.log(rate / (1 - rate)) + rng.normal(0, spread, runs)
    return rng.binomial(cells, 1 / (1 + np.exp(-logit)))


def compare(
    seed: int, progress: Progress, *, replications: int, runs: int, actors: int, days: int, rates: tuple[float, float],
    spread: float, test: str,
) -> Metrics:  # fmt: skip
    """Simulate two models with a run effect on violent actions, and test their difference at 5 %."""
    from scipy.stats import chi2_contingency, ttest_ind

    rng = np.random.default_rng(seed)
    cells, rejected = actors * days, 0
    for replication in range(replications):
        if replication % 10 == 0:
            progress(replication / replications, "Simulated logs")
        one, other = (_violent_counts(rng, runs, rate, spread, cells) for rate in rates)
        if test == "permutation":
            p = permutation_p((one / cells).tolist(), (other / cells).tolist(), replication, resamples=999)
        elif test == "welch":
            p = float(ttest_ind(one, other, equal_var=False).pvalue)
        else:
            violent = np.array([one.sum(), other.sum()])
            table = np.array([violent, runs * cells - violent])
            p = float(chi2_contingency(table, correction=False).pvalue) if violent.sum() else 1.0
        rejected += p < 0.05
    return {"rejected": rejected / replications, "replications": float(replications)}


def cut(seed: int, progress: Progress, *, systems: int, actors: int, share: float, choice: str) -> Metrics:
    """Cut one reaction of random balances by a share and measure how far the spectral radius falls, relatively."""
    rng = np.random.default_rng(seed)
    falls, better = [], 0
    for system in range(systems):
        if system % 50 == 0:
            progress(system / systems, "Random balances")
        reaction = rng.exponential(0.25, (actors, actors)) * (rng.random((actors, actors)) >= 0.2)
        np.fill_diagonal(reaction, 0.0)
        balance = Balance(reaction, rng.uniform(0.6, 1.4, actors), np.zeros(actors))
        random_place = tuple(rng.permutation(np.argwhere(reaction > 0))[0])
        ranked = ranking(balance)
        if not ranked:
            continue
        places = {
            "perron": ranked[0][1:],
            "largest": np.unravel_index(np.argmax(reaction), reaction.shape),
            "relative": np.unravel_index(np.argmax(reaction / balance.fatigue[:, None]), reaction.shape),
            "random": random_place,
        }
        before = spectral_radius(balance)
        fall = {name: 1 - _after_cut(balance, place, share) / before for name, place in places.items()}
        falls.append(fall[choice])
        better += fall[choice] >= fall["random"]
    return {"fall": float(np.mean(falls)), "at_least_random": better / len(falls), "systems": float(len(falls))}


def _after_cut(balance: Balance, place: Any, share: float) -> float:
    reaction = balance.reaction.copy()
    reaction[tuple(place)] *= 1 - share
    return spectral_radius(replace(balance, reaction=reaction))
