"""What an event must be before it can be booked, and how its scores become parts."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime

from workingpapers.foundations.errors import InputError
from workingpapers.governance.data_royalties.accrual import NOT_PAYABLE, Event, read_line
from workingpapers.governance.data_royalties.money import UNATTRIBUTED, event_parts, minor_digits
from workingpapers.governance.data_royalties.registry import identifier
from workingpapers.governance.data_royalties.state import State

TIME = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,6})?Z"
"""RFC 3339 in UTC, the one form that event times take."""


def check_event(event: Event) -> None:
    """Refuse an event that contradicts itself.

    Raises:
        InputError: Id, time, currency or amounts cannot be.
    """
    identifier(event.event_id, "An event id")
    if event.model_version:
        identifier(event.model_version, f"The model version of event {event.event_id!r}")
    try:
        if not re.fullmatch(TIME, event.time):
            raise ValueError
        datetime.fromisoformat(event.time)
    except ValueError:
        raise InputError(
            f"The time of event {event.event_id!r} is {event.time!r}; write it in UTC as 2026-05-31T23:59:59Z."
        ) from None
    minor_digits(event.currency)
    sign = -1 if event.refund_of else 1
    gross, tax, cost = sign * event.gross, sign * event.tax, sign * event.cost
    if min(gross, tax, cost) < 0 and not event.refund_of:
        raise InputError(f"Event {event.event_id!r} has a negative amount; a refund names its original in refund_of.")
    if min(gross, tax, cost) < 0 or tax + cost > gross:
        raise InputError(
            f"Event {event.event_id!r} has gross {event.gross}, tax {event.tax} and cost {event.cost}; "
            "tax and cost lie within the gross, and a refund's amounts are below zero."
        )


def parts_for(
    event: Event, scores: Mapping[str, float], stderr: Mapping[str, float] | None, state: State
) -> dict[str, int]:
    """Return the parts of an event under the policy and the registry in force, works that cannot be paid marked."""
    policy = state.policy
    assert policy is not None, "a ledger opens with a policy"
    payable = {}
    for work in scores:
        known = state.works.get(work)
        payable[work] = work == UNATTRIBUTED or (
            known is not None and known.payable(event.time[:10], event.model_version)
        )
        if work != UNATTRIBUTED:
            identifier(work, f"A work id of event {event.event_id!r}")
    if policy.unknown == "pro_rata":
        scores = {work: score for work, score in scores.items() if payable[work]}
    parts = event_parts(scores, min_score=policy.min_score, stderr=stderr, confidence_z=policy.confidence_z)
    return {work if payable.get(work, True) else NOT_PAYABLE + work: count for work, count in parts.items()}


def parts_of_original(event: Event, found: Mapping[str, tuple[int, str]]) -> dict[str, int]:
    """Return the parts of the event that a refund takes back.

    Raises:
        InputError: The original is not known, is a refund itself, is later, or in another currency.
    """
    if event.refund_of not in found:
        raise InputError(f"Refund {event.event_id!r} names event {event.refund_of!r}, which is not in the ledger.")
    original, parts = read_line(event.refund_of, found[event.refund_of][1])
    if original.refund_of or original.currency != event.currency or original.time > event.time:
        raise InputError(
            f"Refund {event.event_id!r} ({event.currency}, {event.time}) cannot take back event {event.refund_of!r} "
            f"({original.currency}, {original.time}{', itself a refund' if original.refund_of else ''})."
        )
    return parts
