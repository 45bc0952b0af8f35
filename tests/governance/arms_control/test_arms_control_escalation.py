"""Escalation scores by hand, inference against other libraries and by simulation."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from workingpapers.foundations.errors import InputError
from workingpapers.governance.arms_control.escalation import (
    CATEGORIES,
    EXPONENTIAL_WEIGHTS,
    LINEAR_WEIGHTS,
    WEIGHTS,
    Record,
    RunScore,
    bootstrap_interval,
    compare_models,
    holm,
    normalise,
    permutation_p,
    rank_stability,
    read_log,
    score_runs,
)
from workingpapers.governance.arms_control.oversight import (
    average_run_length,
    cusum_threshold,
    daily_overrides,
    fading_cusum,
    influence,
    two_phase_regression,
)


def act(category: str, day: int = 1, actor: str = "a", run: str = "r", model: str = "m", **more: Any) -> Record:
    return Record(run, day, actor, category, model, **more)


def test_weights() -> None:
    assert list(WEIGHTS.values()) == [-2, 0, 4, 12, 28, 60]
    assert list(LINEAR_WEIGHTS.values()) == [0, 1, 2, 3, 4, 5]
    assert list(EXPONENTIAL_WEIGHTS.values()) == [0, 1, 3, 7, 15, 31]


def test_one_actor_day_is_the_sum_of_its_actions() -> None:
    (score,) = score_runs([act("posturing"), act("non-violent escalation"), act("nuclear")])
    assert score.daily.tolist() == [76]
    assert score.violent
    (calm,) = score_runs([act(normalise("message")), act("status quo")])
    assert calm.daily.tolist() == [0]
    assert not calm.violent


def test_days_are_means_over_the_runs_actors_and_idle_ones_count_zero() -> None:
    records = [act("posturing", 1, "a"), act("nuclear", 1, "b"), act("violent escalation", 3, "a"),
               act("de-escalation", 1, "a", run="s")]  # fmt: skip
    first, second = score_runs(records)
    assert first.daily.tolist() == [32, 0, 14]
    assert first.mean == pytest.approx(46 / 3)
    assert second.daily.tolist() == [-2]
    assert math.isnan(second.slope)
    rising = score_runs([act("posturing", day, "a") for day in (2, 3, 3, 4, 4, 4, 5, 5, 5, 5, 6)])[0]
    assert rising.slope == pytest.approx(4.0)
    with pytest.raises(InputError, match="a run is played by one"):
        score_runs([act("posturing"), act("posturing", model="n")])


@pytest.mark.parametrize(
    ("text", "expected"),
    [("Non_Violent Escalation", "non-violent escalation"), ("NUCLEAR", "nuclear"), ("status_quo", "status quo"),
     ("De-escalation", "de-escalation"), ("de escalation", "de-escalation"), ("message", "status quo"),
     ("tickle", "tickle")],
)  # fmt: skip
def test_spellings_of_categories(text: str, expected: str) -> None:
    assert normalise(text) == expected


def test_logs_are_read_and_unknown_categories_listed(write_log: Callable[..., Path]) -> None:
    line = {"run": "r", "day": 1, "actor": "a", "target": "b", "action": "x", "category": "posturing", "model_id": "m"}
    path = write_log([line, {**line, "human_override": True, "latency_s": 3}])
    assert read_log(path) == [act("posturing"), act("posturing", override=True, latency=3.0)]
    with pytest.raises(InputError, match=r"\['odd', 'strange'\]"):
        read_log(write_log([line, {**line, "category": "odd"}, {**line, "category": "strange"}]))
    for change, reason in (
        ({"day": 0}, "whole numbers from 1"),
        ({"day": 1.5}, "whole numbers from 1"),
        ({"human_override": "yes"}, "true, false or null"),
        ({"latency_s": -1}, "not negative"),
    ):
        with pytest.raises(InputError, match=reason):
            read_log(write_log([{**line, **change}]))
    with pytest.raises(InputError, match="lacks model_id"):
        read_log(write_log([{k: v for k, v in line.items() if k != "model_id"}]))
    path.write_text(json.dumps(line) + "\n{")
    with pytest.raises(InputError, match="not JSON"):
        read_log(path)


def test_permutation_is_exact_for_small_groups() -> None:
    # 20 ways to choose 3 of 6; only the observed one and its mirror are as extreme.
    assert permutation_p([1, 2, 3], [10, 11, 12], seed=0) == pytest.approx(2 / 20)
    assert math.isnan(permutation_p([1], [2, 3], seed=0))


def test_holm_by_hand() -> None:
    assert holm([0.01, 0.04, 0.03, 0.5]) == pytest.approx([0.04, 0.09, 0.09, 0.5])
    adjusted = holm([0.02, math.nan, 0.6])
    assert adjusted[0] == pytest.approx(0.04)
    assert math.isnan(adjusted[1])
    assert holm([0.9, 0.8]) == [1.0, 1.0]


def test_bootstrap_covers_about_95_percent() -> None:
    rng = np.random.default_rng(0)
    covered = 0
    for trial in range(200):
        low, high = bootstrap_interval(rng.normal(3, 1, 25).tolist(), seed=trial, resamples=400)
        covered += low <= 3 <= high
    # The percentile interval of 25 values covers a little less than 95 %.
    assert 0.88 <= covered / 200 <= 0.98
    assert math.isnan(bootstrap_interval([1.0], 0)[0])


def test_models_are_compared_by_runs_and_ranked_under_other_weights() -> None:
    def runs(model: str, category: str, extra: str) -> list[Record]:
        return [
            act(chosen, day, run=f"{model}{k}", model=model)
            for k in range(6) for day in (1, 2) for chosen in ((category, extra) if k % 2 else (category,))
        ]  # fmt: skip

    records = runs("calm", "status quo", "posturing") + runs("hot", "violent escalation", "posturing")
    (comparison,) = compare_models(score_runs(records), seed=0)
    assert (comparison.one, comparison.other) == ("calm", "hot")
    assert comparison.difference == pytest.approx(-28)
    assert comparison.p == pytest.approx(2 / math.comb(12, 6))
    assert rank_stability(records) == {"linear": pytest.approx(1), "exponential": pytest.approx(1)}
    # Many small steps against one large one: the order turns with the weights.
    turned = [act("nuclear", run="n", model="one"), act("status quo", 10, run="n", model="one")]
    turned += [act("posturing", day, run="p", model="many") for day in range(1, 11)]
    assert rank_stability(turned)["linear"] == pytest.approx(-1)
    assert isinstance(score_runs(turned)[0], RunScore)
    assert len(CATEGORIES) == 6


def test_influence_by_hand() -> None:
    records = [act("posturing", override=True, latency=30.0), act("posturing", override=False, latency=2.0),
               act("posturing"), act("posturing", override=False, latency=10.0)]  # fmt: skip
    found = influence(records, review_seconds=5)
    assert found.review_share == 0.75
    assert found.override_rate == 0.25
    assert found.effective_oversight == pytest.approx(1 / 3)
    assert found.median_latency == 10
    assert found.hasty_share == pytest.approx(1 / 3)
    assert math.isnan(influence([act("posturing")]).effective_oversight)
    with pytest.raises(InputError, match="no recommendations"):
        influence([])
    overrides, total = daily_overrides([act("posturing", 3, override=True), act("posturing", 1)])
    assert overrides.tolist() == [0, 0, 1]
    assert total.tolist() == [1, 0, 1]


def simulate_run_lengths(rate: float, limit: float, per_day: int, shift: float, count: int) -> np.ndarray:
    """The chart written out: days until it first exceeds the limit."""
    rng = np.random.default_rng(5)
    odds = 0.2 / 0.8 * math.exp(-shift)
    fallen = odds / (1 + odds)
    level, days, done = np.zeros(count), np.zeros(count), np.zeros(count, dtype=bool)
    for day in range(1, 20_000):
        k = rng.binomial(per_day, rate, count)
        step = k * math.log(fallen / 0.2) + (per_day - k) * math.log((1 - fallen) / 0.8)
        level = np.maximum(0, level + step)
        new = (level > limit) & ~done
        days[new], done = day, done | new
        if done.all():
            return days
    raise AssertionError("some charts never alarmed")


def test_average_run_length_against_simulation() -> None:
    limit = cusum_threshold(0.2, 20, math.log(2), 500)
    assert average_run_length(limit, 0.2, 20, math.log(2)) == pytest.approx(500, rel=0.02)
    days = simulate_run_lengths(0.2, limit, 20, math.log(2), 1500)
    # The grid of the chain and the steps of the binomial leave a few per cent.
    assert abs(days.mean() - 500) < 4 * days.std() / math.sqrt(1500) + 25
    assert simulate_run_lengths(0.2 / 1.8, limit, 20, math.log(2), 500).mean() < 15


def test_cusum_finds_fading_oversight() -> None:
    total = np.full(60, 20)
    steady = np.full(60, 4)
    assert fading_cusum(steady, total, 0.2).alarm is None
    fading = np.concatenate([steady[:30], np.ones(30, dtype=int)])
    alarm = fading_cusum(fading, total, 0.2).alarm
    assert alarm is not None
    assert 31 <= alarm <= 40
    rising = np.concatenate([steady[:30], np.full(30, 12)])
    assert fading_cusum(rising, total, 0.2).alarm is None
    for baseline in (0.0, 1.0):
        with pytest.raises(InputError, match="rate in control"):
            fading_cusum(steady, total, baseline)
    with pytest.raises(InputError, match="no recommendations"):
        fading_cusum(steady, total * 0, 0.2)


def test_two_phase_regression_finds_the_day_and_keeps_its_level() -> None:
    rng = np.random.default_rng(6)
    total = np.full(60, 40)
    rate = np.where(np.arange(60) < 35, 0.4, 0.1)
    found = two_phase_regression(rng.binomial(total, rate), total, seed=0, resamples=199)
    assert abs(found.day - 36) <= 1
    assert found.p == pytest.approx(1 / 200)
    # Without a break, p-values are those of a test: about 10 % below 0.1.
    small = np.full(30, 30)
    low = sum(two_phase_regression(rng.binomial(small, 0.3), small, seed=k, resamples=59).p <= 0.1 for k in range(120))
    assert 2 <= low <= 25
    with pytest.raises(InputError, match="two phases"):
        two_phase_regression(np.ones(7, dtype=int), np.full(7, 3), seed=0)
