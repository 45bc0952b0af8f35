"""Entries of the journal: balanced transactions in one currency, chained by hash, never edited."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from workingpapers.foundations.canonical_json import canonical
from workingpapers.foundations.errors import InputError
from workingpapers.governance.data_royalties.money import minor_digits
from workingpapers.governance.data_royalties.proofs import chain_hash

CASH = "assets:cash"
RECEIVABLE = "assets:receivable"
USAGE = "income:usage"
TAX = "liability:tax"
RESERVE = "liability:reserve"
SUSPENSE = "liability:rounding_suspense"
IN_TRANSIT = "liability:payouts_in_transit"
DEVELOPER = "equity:developer"
ROOTS = ("assets", "liability", "income", "equity")


def provider_account(provider: str) -> str:
    """Return the account that holds what is owed to `provider`."""
    return f"liability:provider:{provider}"


def escrow_account(work: str) -> str:
    """Return the account that holds what waits for the rightful owner of `work`."""
    return f"liability:escrow:{work}"


Posting = tuple[str, int]
"""An account and an amount in minor units: positive debits, negative credits."""

KINDS = (
    "open",
    "registry",
    "policy",
    "usage",
    "close",
    "seal",
    "adjustment",
    "receipt",
    "payout",
    "settled",
    "returned",
    "dispute",
)
WITHOUT_MONEY = frozenset({"open", "registry", "policy", "seal", "dispute"})


@dataclass(frozen=True)
class Draft:
    """What is to be booked, before it has a place in the chain.

    Args:
        kind: One of :data:`KINDS`.
        time: When it is booked, RFC 3339 in UTC.
        period: The month it belongs to, ``YYYY-MM``, or ``""``.
        currency: ISO 4217 code, or ``""`` where no money moves.
        postings: Account and amount; they sum to zero.
        data: Everything else, JSON types only, amounts and fractions as text.
    """

    kind: str
    time: str
    period: str = ""
    currency: str = ""
    postings: Sequence[Posting] = ()
    data: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Entry:
    """One line of the journal.

    Args:
        seq: Its place, from 0.
        payload: RFC 8785 text of everything in it.
        hash: ``SHA-256(hash of the entry before || payload)``.
    """

    seq: int
    payload: str
    hash: str

    def draft(self) -> Draft:
        """Return what was booked.

        Raises:
            ValueError: The payload is not the text of an entry.
        """
        try:
            record = json.loads(self.payload)
            postings = tuple((str(account), int(amount)) for account, amount in record["postings"])
            return Draft(
                kind=record["kind"],
                time=record["time"],
                period=record["period"],
                currency=record["currency"],
                postings=postings,
                data=record["data"],
            )
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"not an entry ({error})") from None

    @property
    def place(self) -> int:
        """The place that the payload itself states, or -1."""
        try:
            return int(json.loads(self.payload)["seq"])
        except (KeyError, TypeError, ValueError):
            return -1


def seal_entry(draft: Draft, seq: int, previous: str) -> Entry:
    """Give `draft` its place in the chain after the entry whose hash is `previous`.

    Raises:
        InputError: It is not balanced (see :func:`imbalance`).
    """
    fault = imbalance(draft)
    if fault:
        raise InputError(f"The {draft.kind} entry {fault}; nothing was booked.")
    payload = canonical(
        {
            "seq": seq,
            "kind": draft.kind,
            "time": draft.time,
            "period": draft.period,
            "currency": draft.currency,
            "postings": [[account, str(amount)] for account, amount in draft.postings],
            "data": dict(draft.data),
        }
    )
    return Entry(seq, payload.decode(), chain_hash(previous, payload))


def imbalance(draft: Draft) -> str:
    """Return what is wrong with the postings of `draft`, or an empty string.

    A transaction has at least two postings in its one currency, whole minor units, known kinds of account, sum zero.
    """
    if draft.kind not in KINDS:
        return f"is of an unknown kind {draft.kind!r}"
    if draft.kind in WITHOUT_MONEY:
        return "moves money, which its kind does not" if draft.postings else ""
    try:
        minor_digits(draft.currency)
    except InputError:
        return f"is in {draft.currency!r}, which is no currency"
    if len(draft.postings) < 2:
        return f"has {len(draft.postings)} postings; at least two are needed"
    for account, amount in draft.postings:
        if not isinstance(amount, int) or isinstance(amount, bool):
            return f"posts {amount!r} to {account}; whole minor units are needed"
        if account.split(":", 1)[0] not in ROOTS:
            return f"posts to {account!r}, which is under none of {', '.join(ROOTS)}"
    total = sum(amount for _, amount in draft.postings)
    return f"does not balance: its postings sum to {total}" if total else ""
