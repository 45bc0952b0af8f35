"""Sample sizes, worst placements and the inspection game against exact values and other solvers."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linprog
from scipy.stats import hypergeom

from workingpapers.foundations.errors import InputError
from workingpapers.governance.arms_control.inspection import (
    Stratum,
    allocate,
    approximate_sample_size,
    binomial_sample_size,
    chip_log_detection,
    detection_probability,
    plan_strata,
    repeated_detection,
    sample_size,
    worst_placement,
)
from workingpapers.governance.arms_control.inspection_game import draw_schedule, stage, value


@pytest.mark.parametrize(
    ("size", "violations", "wanted", "count"),
    [(1000, 10, 0.95, 258), (1000, 1, 0.95, 950), (10_000, 100, 0.9, 227), (50, 5, 0.95, 22)],
)
def test_known_sample_sizes(size: int, violations: int, wanted: float, count: int) -> None:
    assert sample_size(size, violations, wanted) == count
    assert approximate_sample_size(size, violations, wanted) == count
    assert detection_probability(size, violations, count) >= wanted > detection_probability(size, violations, count - 1)


def test_known_detection_probabilities() -> None:
    assert detection_probability(1000, 10, 258) == pytest.approx(0.9502, abs=5e-5)
    assert detection_probability(1000, 10, 258, miss=0.3) == pytest.approx(0.8644, abs=5e-5)
    # With two of three items violating, two looks always meet one.
    assert detection_probability(3, 2, 2) == 1.0
    assert detection_probability(4, 1, 1, miss=0.5) == pytest.approx(1 / 8)


def test_imperfect_test_is_the_mean_over_the_hypergeometric() -> None:
    for size, violations, count, miss in ((60, 7, 20, 0.25), (20_000, 40, 900, 0.4)):
        hits = np.arange(violations + 1)
        expected = 1 - (hypergeom(size, violations, count).pmf(hits) * miss**hits).sum()
        assert detection_probability(size, violations, count, miss) == pytest.approx(expected, rel=1e-9)


def test_log_gamma_and_integers_agree_where_they_meet() -> None:
    # The same population just below and just above the switch, against exact integers in both.
    for size in (9_999, 10_000):
        for violations, count in ((1, 500), (100, 227), (9_000, 3)):
            exact = 1 - Fraction(math.comb(size - violations, count), math.comb(size, count))
            assert detection_probability(size, violations, count) == pytest.approx(float(exact), rel=1e-9)
    assert detection_probability(20_000, 19_000, 1_001) == 1.0


@given(st.integers(2, 60), st.data())
def test_detection_is_monotone(size: int, data: st.DataObject) -> None:
    violations, count = data.draw(st.integers(1, size - 1)), data.draw(st.integers(0, size - 1))
    miss = data.draw(st.floats(0, 1))
    base = detection_probability(size, violations, count, miss)
    assert detection_probability(size, violations, count + 1, miss) >= base - 1e-12
    assert detection_probability(size, violations + 1, count, miss) >= base - 1e-12
    assert detection_probability(size, violations, count, min(1.0, miss + 0.1)) <= base + 1e-12
    assert detection_probability(size, violations, size, 0.0) == 1.0
    assert detection_probability(size, violations, size, miss) == pytest.approx(1 - miss**violations, abs=1e-9)


def test_binomial_plan_asks_for_more_than_needed() -> None:
    assert binomial_sample_size(1000, 10, 0.95) == 299
    assert binomial_sample_size(5, 5, 0.95) == 1
    assert 1 - (1 - 0.01) ** 299 >= 0.95 > 1 - (1 - 0.01) ** 298


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ((10, 11, 0.9), "from 0 to the 10 items"),
        ((10, 0, 0.9), "at least 1"),
        ((10, 1, 1.0), "over 0 and under 1"),
        ((10, 1, 0.0), "over 0 and under 1"),
        ((0, 1, 0.5), "at least 1"),
        ((10, 1, 0.9, 0.5), "use a better test"),
        ((10, 1, 0.9, 1.5), "from 0 to 1"),
    ],
)
def test_plans_that_cannot_be_made(arguments: tuple[float, ...], reason: str) -> None:
    with pytest.raises(InputError, match=reason):
        sample_size(*arguments)  # type: ignore[arg-type]


def test_repeated_inspections_and_chip_logs() -> None:
    assert repeated_detection(0.1, 22) == pytest.approx(1 - 0.9**22)
    assert repeated_detection(1.0, 1) == 1.0
    assert repeated_detection(1.0, 0) == 0.0
    # 10 of 100 chips for 3 days, 5 logs a day.
    missed = math.comb(90, 5) / math.comb(100, 5)
    assert chip_log_detection(100, 10, 5, 3) == pytest.approx(1 - missed**3)


def test_water_filling_reaches_the_best_least_detection() -> None:
    """Against every allocation of the budget."""
    strata = [Stratum("a", 6), Stratum("b", 9, miss=0.2), Stratum("c", 4, cost=2.0)]
    for violations, budget in ((1, 5), (2, 7), (3, 10)):
        best = 0.0
        for counts in product(range(7), range(10), range(5)):
            if counts[0] + counts[1] + 2 * counts[2] <= budget:
                trial = [Stratum(s.name, s.size, s.miss, s.cost, n) for s, n in zip(strata, counts, strict=True)]
                best = max(best, min(s.detection(violations) for s in trial))
        plan = allocate(strata, violations, budget)
        assert sum(s.cost * s.count for s in plan) <= budget
        assert min(s.detection(violations) for s in plan) == pytest.approx(best)


def test_worst_placement_against_every_placement() -> None:
    strata = [Stratum("a", 6, count=2), Stratum("b", 9, 0.2, count=4), Stratum("c", 4, count=1)]
    for violations in range(1, 8):
        splits = [d for d in product(range(7), range(10), range(5)) if sum(d) == violations]
        least = min(
            1
            - math.prod(
                1 - detection_probability(s.size, d, s.count, s.miss) for s, d in zip(strata, split, strict=True)
            )
            for split in splits
        )
        reached, placement = worst_placement(strata, violations)
        assert reached == pytest.approx(least)
        assert placement in [list(split) for split in splits]
        miss = math.prod(
            1 - detection_probability(s.size, d, s.count, s.miss) for s, d in zip(strata, placement, strict=True)
        )
        assert 1 - miss == pytest.approx(reached)


def test_spreading_can_beat_the_weakest_stratum() -> None:
    """Two strata of 50, 10 looked at in each, 2 violations: one in each is the harder case."""
    strata = [Stratum("a", 50, count=10), Stratum("b", 50, count=10)]
    reached, placement = worst_placement(strata, 2)
    assert placement == [1, 1]
    assert reached == pytest.approx(1 - 0.8**2)
    assert reached < strata[0].detection(2) == pytest.approx(1 - 40 * 39 / (50 * 49))


def test_stratified_plan_reaches_what_it_promises_and_no_cheaper_one_of_its_kind_does() -> None:
    strata = [Stratum("chips", 300), Stratum("runs", 40, miss=0.1), Stratum("models", 25, cost=3.0)]
    plan = plan_strata(strata, 5, 0.9)
    assert worst_placement(plan, 5)[0] >= 0.9
    cost = sum(s.cost * s.count for s in plan)
    for less in (1.0, 2.0, 5.0):
        assert worst_placement(allocate(strata, 5, cost - less), 5)[0] < 0.9
    with pytest.raises(InputError, match="share a name"):
        allocate([Stratum("a", 5), Stratum("a", 5)], 1, 3)
    with pytest.raises(InputError, match="exceed the 5"):
        worst_placement([Stratum("a", 5)], 6)
    with pytest.raises(InputError, match="use better tests"):
        plan_strata([Stratum("a", 5, miss=0.9)], 1, 0.5)
    with pytest.raises(InputError, match="more than 0"):
        allocate([Stratum("a", 5, cost=0)], 1, 3)


def recursion(n: int, m: int) -> Fraction:
    """Dresher's recursion, written out."""
    if m == 0:
        return Fraction(-1)
    if m >= n:
        return Fraction(0)
    later, spent = recursion(n - 1, m), recursion(n - 1, m - 1)
    return (later + spent) / (later - spent + 2)


def test_game_values() -> None:
    assert value(10, 3) == Fraction(-21, 44)
    assert value(2, 1) == Fraction(-1, 3)
    assert value(5, 0) == -1
    assert value(4, 4) == value(4, 7) == 0
    for n in range(1, 9):
        for m in range(n + 1):
            assert value(n, m) == recursion(n, m)


def test_optimal_play_solves_the_two_by_two_game() -> None:
    """Each stage as a matrix game, solved by linear programming."""
    for n in range(2, 9):
        for m in range(1, n):
            later, spent = float(value(n - 1, m)), float(value(n - 1, m - 1))
            payoff = np.array([[1.0, spent], [-1.0, later]])  # inspect, wait x violate, comply
            # max v subject to p' payoff >= v for both columns.
            solved = linprog(
                [0, 0, -1], A_ub=np.column_stack([-payoff.T, [1, 1]]), b_ub=[0, 0], A_eq=[[1, 1, 0]], b_eq=[1],
                bounds=[(0, 1), (0, 1), (None, None)],
            )  # fmt: skip
            play = stage(n, m)
            assert solved.x[2] == pytest.approx(float(play.value), abs=1e-9)
            assert solved.x[0] == pytest.approx(float(play.inspect), abs=1e-7)
            column = np.array([float(play.violate), 1 - float(play.violate)])
            assert (payoff @ column <= float(play.value) + 1e-12).all()


def test_drawn_schedules_use_all_inspections_and_follow_the_first_probability() -> None:
    rng = np.random.default_rng(0)
    schedules = [draw_schedule(6, 2, lambda: float(rng.random())) for _ in range(4000)]
    assert {len(schedule) for schedule in schedules} == {2}
    share = np.mean([1 in schedule for schedule in schedules])
    expected = float(stage(6, 2).inspect)
    assert abs(share - expected) < 4 * math.sqrt(expected * (1 - expected) / 4000)
    with pytest.raises(InputError, match="at least 1 and 0"):
        stage(0, 1)
