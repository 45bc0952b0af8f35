"""The sequential inspection game: when to inspect, if the other side waits for the right moment."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from math import comb

from workingpapers.foundations.errors import InputError


@dataclass(frozen=True)
class Stage:
    """Optimal play of one period of the game.

    Args:
        value: v(n, m), value to the inspector: 1 for a violation caught, -1 for one missed, 0 for none.
        inspect: Probability of inspecting now.
        violate: Probability of violating now.
    """

    value: Fraction
    inspect: Fraction
    violate: Fraction


@cache
def value(periods: int, inspections: int) -> Fraction:
    r"""Return the value of the game with n periods, m inspections and one intended violation.

    :math:`v(n,m) = \frac{v(n-1,m) + v(n-1,m-1)}{v(n-1,m) - v(n-1,m-1) + 2}`, v(n, 0) = -1, v(n, m) = 0 for m >= n;
    in closed form :math:`-\binom{n-1}{m} / \sum_{i=0}^m \binom{n}{i}`.

    Args:
        periods: n >= 1.
        inspections: m >= 0.

    Raises:
        InputError: n is below 1 or m negative.

    References:
        M. Dresher, A Sampling Inspection Problem in Arms Control Agreements, RAND RM-2972 (1962).
    """
    _check(periods, inspections)
    if inspections >= periods:
        return Fraction(0)
    return Fraction(-comb(periods - 1, inspections), sum(comb(periods, i) for i in range(inspections + 1)))


def stage(periods: int, inspections: int) -> Stage:
    r"""Return the optimal play of the first of n periods with m inspections left.

    Inspect with probability :math:`(v(n-1,m)+1)/(v(n-1,m) - v(n-1,m-1) + 2)`, which makes the other side indifferent
    between violating now and later.

    Args:
        periods: n >= 1, periods left.
        inspections: m >= 0, inspections left.
    """
    _check(periods, inspections)
    if inspections == 0:
        return Stage(value(periods, 0), Fraction(0), Fraction(1))
    if inspections >= periods:
        return Stage(Fraction(0), Fraction(1), Fraction(0))
    later, spent = value(periods - 1, inspections), value(periods - 1, inspections - 1)
    width = later - spent + 2
    return Stage(value(periods, inspections), (later + 1) / width, (later - spent) / width)


def draw_schedule(periods: int, inspections: int, uniform: Callable[[], float]) -> list[int]:
    """Draw the periods (from 1) in which to inspect, each decision by optimal play.

    Args:
        periods: n, periods in all.
        inspections: m, inspections in all.
        uniform: Gives a number in [0, 1) for each period; from a seed that both sides made, the schedule can be
            checked.
    """
    chosen = []
    left = inspections
    for period in range(1, periods + 1):
        if uniform() < stage(periods - period + 1, left).inspect:
            chosen.append(period)
            left -= 1
    return chosen


def _check(periods: int, inspections: int) -> None:
    if periods < 1 or inspections < 0:
        raise InputError(f"The game has {periods} periods and {inspections} inspections; it needs at least 1 and 0.")
