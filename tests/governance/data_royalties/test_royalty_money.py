"""Exact division: parts of an event, largest remainder, carried fractions, minor units."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from workingpapers.foundations.errors import InputError
from workingpapers.governance.data_royalties.money import (
    PARTS,
    UNATTRIBUTED,
    carry,
    decimal_text,
    event_parts,
    fraction_of,
    largest_remainder,
    minor_digits,
)

scores = st.dictionaries(
    st.text("abcdefgh", min_size=1, max_size=3), st.floats(-1e6, 1e6, allow_nan=False), min_size=1, max_size=12
)


def test_largest_remainder_of_100_over_thirds():
    quotas = {name: Fraction(100, 3) for name in ("b", "c", "a")}
    assert largest_remainder(100, quotas) == {"a": 34, "b": 33, "c": 33}


def test_largest_remainder_serves_the_largest_remainders_first():
    quotas = {"a": Fraction(13, 10), "b": Fraction(18, 10), "c": Fraction(19, 10)}
    assert largest_remainder(5, quotas) == {"a": 1, "b": 2, "c": 2}


@given(st.lists(st.integers(-1000, 1000), min_size=1, max_size=20), st.integers(1, 97))
def test_largest_remainder_sums_and_is_off_by_less_than_one(numerators, denominator):
    quotas = {f"{index:02d}": Fraction(number, denominator) for index, number in enumerate(numerators)}
    total = sum(quotas.values())
    for target in (math.floor(total), math.ceil(total)):
        rounded = largest_remainder(target, quotas)
        assert sum(rounded.values()) == target
        assert all(abs(rounded[name] - quotas[name]) < 1 for name in quotas)


def test_largest_remainder_refuses_what_rounding_cannot_reach():
    with pytest.raises(ValueError, match="cannot be reached"):
        largest_remainder(4, {"a": Fraction(1), "b": Fraction(1)})


def test_carry_gives_a_hundred_after_three_periods_of_a_hundred_thirds():
    fraction, booked = Fraction(0), []
    for _ in range(3):
        amount, fraction = carry(fraction + Fraction(100, 3))
        booked.append(amount)
    assert booked == [33, 33, 34]
    assert fraction == 0


def test_carry_of_a_negative_balance_keeps_the_fraction_in_zero_to_one():
    assert carry(Fraction(-1, 3)) == (-1, Fraction(2, 3))


def test_parts_follow_the_scores():
    assert event_parts({"a": 1.0, "b": 2.0, "c": 1.0}) == {"a": PARTS // 4, "b": PARTS // 2, "c": PARTS // 4}
    # Thirds: the one missing part goes to the smallest id.
    assert event_parts({"z": 5.0, "y": 5.0, "x": 5.0}) == {"x": 333_333_334, "y": 333_333_333, "z": 333_333_333}


def test_negative_scores_are_never_billed_and_nothing_goes_to_nobody():
    assert event_parts({"a": -3.0, "b": 0.25}) == {"b": PARTS}
    assert event_parts({"a": -3.0, "b": 0.0}) == {UNATTRIBUTED: PARTS}
    assert event_parts({}) == {UNATTRIBUTED: PARTS}


def test_floor_and_confidence_are_subtracted():
    assert event_parts({"a": 3.0, "b": 2.0}, min_score=1.0) == {"a": 666_666_667, "b": 333_333_333}
    sure = event_parts({"a": 3.0, "b": 3.0}, stderr={"a": 0.0, "b": 1.0}, confidence_z=2.0)
    assert sure == {"a": PARTS * 3 // 4, "b": PARTS // 4}


@given(scores)
@settings(max_examples=200)
def test_parts_sum_to_the_billion_and_are_close_to_the_exact_share(values):
    parts = event_parts(values)
    assert sum(parts.values()) == PARTS
    positive = {name: Fraction(value) for name, value in values.items() if value > 0}
    total = sum(positive.values())
    for name, value in positive.items():
        # The weight is off by half a billionth of the largest score; n weights and one rounding to a whole part.
        assert abs(parts.get(name, 0) - value / total * PARTS) <= len(values) + 1


@given(scores, st.sampled_from([0.25, 2.0, 1024.0]))
def test_parts_do_not_depend_on_the_unit_of_the_scores(values, unit):
    assert event_parts(values) == event_parts({name: value * unit for name, value in values.items()}) or any(
        0 < abs(value) < 1e-290 for value in values.values()
    )


@given(scores, st.randoms())
def test_parts_do_not_depend_on_the_order(values, random):
    items = list(values.items())
    random.shuffle(items)
    assert event_parts(dict(items)) == event_parts(values)


@pytest.mark.parametrize("score", [math.nan, math.inf, -math.inf])
def test_scores_that_are_no_numbers_are_refused(score):
    with pytest.raises(InputError, match="work 'a'"):
        event_parts({"a": score})
    with pytest.raises(InputError, match="standard error"):
        event_parts({"a": 1.0}, stderr={"a": -1.0})


def test_minor_units():
    assert [minor_digits(code) for code in ("JPY", "EUR", "BHD")] == [0, 2, 3]
    assert decimal_text(1234, "JPY") == "1234"
    assert decimal_text(1234, "EUR") == "12.34"
    assert decimal_text(-5, "EUR") == "-0.05"
    assert decimal_text(1234, "BHD") == "1.234"
    assert decimal_text(0, "EUR") == "0.00"
    with pytest.raises(InputError, match="'EURO' is not an ISO 4217 currency"):
        minor_digits("EURO")
    with pytest.raises(InputError, match="minor unit"):
        minor_digits("XAU")


def test_fractions_are_read_exactly():
    assert fraction_of("0.1", "x") == Fraction(1, 10)
    assert fraction_of("12.5%", "x") == Fraction(1, 8)
    assert fraction_of("1/3", "x") == Fraction(1, 3)
    assert fraction_of(1, "x") == 1
    for bad in (0.1, "one third", "1/0", ""):
        with pytest.raises(InputError, match="The share is"):
            fraction_of(bad, "The share")
