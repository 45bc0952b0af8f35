"""The figures behind the claims, where closed forms or planted values say what they must be."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binom

from workingpapers.evaluation.critique_benchmark.experiments import adjudicate, gaming, recover
from workingpapers.foundations.progress import silent


def mean(arm, seeds: int, **settings: object) -> dict[str, float]:
    runs = [arm(seed, silent, **settings) for seed in range(seeds)]
    return {key: float(np.mean([run[key] for run in runs])) for key in runs[0]}


@pytest.mark.parametrize("accuracy", [0.60, 0.75, 0.95])
def test_planted_strengths_come_back_under_selective_exposure(accuracy: float) -> None:
    itemised = mean(recover, 12, kind="itemised", accuracy=accuracy)
    raw = mean(recover, 12, kind="raw accuracy", accuracy=accuracy)
    assert itemised["spearman"] >= 0.92 - 0.03 * (accuracy < 0.7)
    assert itemised["spearman"] >= raw["spearman"] + 0.06
    assert itemised["spearman_alpha"] >= 0.90


def closed_form(rule: str, accuracy: float, shared: float) -> tuple[float, float]:
    """Share of claims that six judges decide, and share of those decided wrongly."""
    need = 6 if rule == "unanimity" else 4
    right = binom.sf(need - 1, 6, accuracy) * (1 - shared)
    wrong = binom.sf(need - 1, 6, 1 - accuracy) * (1 - shared) + shared
    return right + wrong, wrong / (right + wrong)


@pytest.mark.parametrize("rule", ["unanimity", "majority"])
@pytest.mark.parametrize("shared", [0.0, 0.15])
def test_adjudication_errs_as_often_as_arithmetic_says(rule: str, shared: float) -> None:
    decided, wrong = closed_form(rule, 0.8, shared)
    found = mean(adjudicate, 6, rule=rule, shared_error=shared)
    assert found["decided"] == pytest.approx(decided, abs=0.03)
    assert found["wrong_of_decided"] == pytest.approx(wrong, abs=0.03 if shared else 0.008)


def test_arithmetic_of_adjudication() -> None:
    assert closed_form("unanimity", 0.8, 0.0) == pytest.approx((0.2622, 0.00024), abs=1e-4)
    assert closed_form("majority", 0.8, 0.0) == pytest.approx((0.9181, 0.0185), abs=1e-4)
    assert closed_form("unanimity", 0.8, 0.15)[1] > 2 * closed_form("majority", 0.8, 0.15)[1]


def test_survivors_of_unanimity_still_order_the_models_and_lost_games_are_counted() -> None:
    found = mean(adjudicate, 10, rule="unanimity and humans")
    assert found["spearman"] >= 0.85
    assert 0.2 < found["games_lost"] < 0.35
    assert mean(adjudicate, 3, rule="single judge")["games_lost"] == 0


def test_gaming_gains_nothing_and_silence_costs() -> None:
    honest, always, never = (
        mean(gaming, 2, topics=10, strategy=strategy)["alpha"]
        for strategy in ("honest", "always claims", "never claims")
    )
    assert abs(always - honest) < 0.5
    assert never < honest - 1
    unjudged = mean(gaming, 2, topics=10, strategy="always claims", adjudicated=False)["alpha"]
    assert unjudged > honest + 2
