"""Money as whole minor units, and the four ways in which exact amounts become whole ones."""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction
from functools import lru_cache

from workingpapers.foundations.errors import InputError, near_match

PARTS = 10**9
"""Every event's pool is cut into this many equal parts before it is dealt out."""

UNATTRIBUTED = "-"
"""Key of the parts that no work has a claim to."""


@lru_cache(maxsize=512)
def minor_digits(currency: str) -> int:
    """Return the decimals of the minor unit of an ISO 4217 `currency`: JPY 0, EUR 2, BHD 3.

    Raises:
        InputError: There is no such currency, or it has no minor unit (gold, testing codes).
    """
    from iso4217 import Currency

    try:
        digits = Currency(currency).exponent
    except ValueError:
        hint = near_match(currency, [item.code for item in Currency]) or "; use a three-letter code such as 'EUR'."
        raise InputError(f"{currency!r} is not an ISO 4217 currency{hint}") from None
    if digits is None:
        raise InputError(f"{currency!r} has no minor unit; use a currency that invoices are written in.")
    return int(digits)


def decimal_text(minor: int, currency: str) -> str:
    """Return `minor` units in major units as plain digits: ``decimal_text(-5, "EUR") == "-0.05"``."""
    digits = minor_digits(currency)
    sign, rest = ("-" if minor < 0 else ""), str(abs(minor)).rjust(digits + 1, "0")
    return f"{sign}{rest[:-digits]}.{rest[-digits:]}" if digits else f"{sign}{rest}"


def fraction_of(text: object, what: str) -> Fraction:
    """Return the exact value of ``"1/3"``, ``"0.7"``, ``"70%"`` or an integer.

    Args:
        text: The value; floats are refused, since 0.1 is not one tenth.
        what: What the value is, for the message.

    Raises:
        InputError: It is not such a value.
    """
    if isinstance(text, Fraction):
        return text
    raw = str(text).strip()
    scale = 100 if raw.endswith("%") else 1
    try:
        if isinstance(text, float):
            raise ValueError
        return Fraction(raw.removesuffix("%")) / scale
    except (ValueError, ZeroDivisionError):
        raise InputError(f"{what} is {raw!r}; write it as text, such as '1/3', '0.7' or '70%'.") from None


def event_parts(
    scores: Mapping[str, float],
    *,
    min_score: float = 0.0,
    stderr: Mapping[str, float] | None = None,
    confidence_z: float = 0.0,
) -> dict[str, int]:
    r"""Cut one event into :data:`PARTS` whole parts in proportion to its scores; from here on nothing is rounded.

    With :math:`s'_i=\max(0,\,s_i-z\,\mathrm{se}_i-s_{\min})` the weights are
    :math:`w_i=\lfloor 10^9 s'_i/\max_j s'_j+\tfrac12\rfloor` (float64, the last float of the whole chain), and the
    parts are :math:`10^9 w_i/\sum_j w_j` by largest remainder, ties to the smaller work id. They sum to :math:`10^9`
    exactly, so one fixed denominator holds any number of events. Negative scores are never billed.

    Args:
        scores: Work id -> score, any unit: only ratios matter. :data:`UNATTRIBUTED` names what no work explains.
        min_score: Subtracted from every score, in the unit of the scores.
        stderr: Work id -> standard error of the score.
        confidence_z: How many standard errors to subtract: pay for what is sure.

    Returns:
        Work id -> parts, without zeros. All of them go to :data:`UNATTRIBUTED` where no score is above zero.

    Raises:
        InputError: A score or a standard error is not a finite number, or a standard error is negative.
    """
    errors = stderr or {}
    usable: dict[str, float] = {}
    for work, score in scores.items():
        error = errors.get(work, 0.0)
        if not math.isfinite(score) or not math.isfinite(error) or error < 0:
            raise InputError(f"The score of work {work!r} is {score} with standard error {error}; give finite numbers.")
        usable[work] = max(0.0, score - confidence_z * error - min_score)
    largest = max(usable.values(), default=0.0)
    if largest <= 0.0:
        return {UNATTRIBUTED: PARTS}
    weights = {work: math.floor(value / largest * 1e9 + 0.5) for work, value in usable.items()}
    total = sum(weights.values())
    parts = {work: PARTS * weight // total for work, weight in weights.items()}
    missing = PARTS - sum(parts.values())
    for work in sorted(weights, key=lambda work: (-(PARTS * weights[work] % total), work))[:missing]:
        parts[work] += 1
    return {work: count for work, count in parts.items() if count}


def largest_remainder(total: int, quotas: Mapping[str, Fraction]) -> dict[str, int]:
    """Round `quotas` to whole numbers that sum to `total` (Hamilton's method), none off by one or more.

    Each quota is floored; the units still missing go to the largest remainders, ties to the smaller key.

    Args:
        total: What the result sums to; between the sum of the floors and that of the ceilings.
        quotas: Key -> exact amount.

    Raises:
        ValueError: `total` cannot be reached by rounding each quota up or down.
    """
    floors = {key: math.floor(quota) for key, quota in quotas.items()}
    missing = total - sum(floors.values())
    if not 0 <= missing <= sum(floors[key] != quota for key, quota in quotas.items()):
        raise ValueError(f"the floors sum to {total - missing}, so {total} cannot be reached by rounding")
    for key in sorted(quotas, key=lambda key: (floors[key] - quotas[key], key))[:missing]:
        floors[key] += 1
    return floors


def carry(accrued: Fraction) -> tuple[int, Fraction]:
    """Split an exact balance into the whole units to book and the fraction in [0, 1) that stays for the next period."""
    booked = math.floor(accrued)
    return booked, accrued - booked


def counted(number: int, noun: str, plural: str = "") -> str:
    """Return ``"1 event"`` or ``"2 events"``."""
    return f"{number} {noun if number == 1 else plural or noun + 's'}"
