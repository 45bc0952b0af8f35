"""What the journal says so far: registry, balances, open accruals, carried fractions, payouts."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from workingpapers.governance.data_royalties.accrual import Accruals
from workingpapers.governance.data_royalties.closing import Close, Line, close
from workingpapers.governance.data_royalties.journal import SUSPENSE, Draft, escrow_account, provider_account
from workingpapers.governance.data_royalties.registry import (
    Policy,
    Provider,
    Work,
    policy_from,
    provider_from,
    work_from,
)

PROVIDER_PREFIX = provider_account("")
DEALT = (PROVIDER_PREFIX, escrow_account(""))


@dataclass
class Payout:
    """One transfer to a provider: ``created``, then ``settled`` or ``returned``."""

    id: str
    provider: str
    currency: str
    gross: int
    withheld: int
    status: str = "created"

    @property
    def net(self) -> int:
        """What is transferred, in minor units."""
        return self.gross - self.withheld


@dataclass
class Position:
    """One provider in one currency since the last seal, in minor units.

    Args:
        opening: Balance at the last seal.
        carry_in: Fraction carried at the last seal.
        moved: Kind of entry -> sum credited (negative: debited).
        lines: Statement lines of the close.
    """

    opening: int = 0
    carry_in: Fraction = Fraction(0)
    moved: dict[str, int] = field(default_factory=dict)
    lines: tuple[Line, ...] = ()

    @property
    def closing(self) -> int:
        """Balance now."""
        return self.opening + sum(self.moved.values())


@dataclass
class State:
    """The sums that follow from the entries applied so far; :meth:`apply` is the only way to change it."""

    seq: int = -1
    time: str = ""
    ledger: str = ""
    public_key: str = ""
    providers: dict[str, Provider] = field(default_factory=dict)
    works: dict[str, Work] = field(default_factory=dict)
    policy: Policy | None = None
    balances: dict[tuple[str, str], int] = field(default_factory=lambda: defaultdict(int))
    accruals: dict[tuple[str, str], Accruals] = field(default_factory=dict)
    carries: dict[str, dict[str, Fraction]] = field(default_factory=lambda: defaultdict(dict))
    positions: dict[tuple[str, str], Position] = field(default_factory=lambda: defaultdict(Position))
    booked: dict[tuple[str, str], dict[str, int]] = field(default_factory=lambda: defaultdict(dict))
    payouts: dict[str, Payout] = field(default_factory=dict)
    sealed: list[str] = field(default_factory=list)

    def open_period(self, month: str) -> str:
        """Return the period that an event of `month` is booked in: its own, or the next open one where it is late."""
        return max(month, following(self.sealed[-1])) if self.sealed else month

    def expected_close(self, period: str, currency: str) -> Close:
        """Return the close that the entries so far lead to."""
        assert self.policy is not None, "a ledger opens with a policy"
        return close(self.accruals[period, currency], self.carries[currency], self.policy, self.works)

    def apply(self, seq: int, draft: Draft) -> list[str]:
        """Take one entry in and return what is wrong with it given the entries before; an empty list is good."""
        faults = list(self._faults(draft))
        self.seq = seq
        self.time = max(self.time, draft.time)
        handler = getattr(self, f"_apply_{draft.kind}", None)
        if draft.kind == "close" and (draft.period, draft.currency) in self.accruals:
            faults += self._apply_close(draft)
        elif draft.kind == "close":
            faults.append(f"closes {draft.period} in {draft.currency}, where nothing accrued")
        elif handler is not None:
            handler(draft)
        for account, amount in draft.postings:
            self.balances[account, draft.currency] += amount
            if account.startswith(PROVIDER_PREFIX):
                moved = self.positions[account.removeprefix(PROVIDER_PREFIX), draft.currency].moved
                moved[draft.kind] = moved.get(draft.kind, 0) - amount
        if draft.kind == "seal":
            self._seal(draft)
        return faults

    def _faults(self, draft: Draft) -> Iterator[str]:
        if (self.seq == -1) != (draft.kind == "open"):
            yield "is not where a journal opens"
        if draft.time < self.time:
            yield f"is dated {draft.time}, before the entry above it ({self.time})"
        if draft.kind in ("usage", "close", "seal") and self.sealed and draft.period <= self.sealed[-1]:
            yield f"books into {draft.period}, which is sealed"
        if draft.kind in ("settled", "returned"):
            payout = self.payouts.get(str(draft.data.get("payout")))
            if payout is None or payout.status != "created":
                yield f"names payout {draft.data.get('payout')!r}, which is not under way"
        if draft.kind == "payout" and str(draft.data.get("payout")) in self.payouts:
            yield f"repeats payout {draft.data.get('payout')!r}"

    def _apply_open(self, draft: Draft) -> None:
        self.ledger, self.public_key = str(draft.data["ledger"]), str(draft.data["public_key"])

    def _apply_registry(self, draft: Draft) -> None:
        self.providers |= {record["id"]: provider_from(record) for record in draft.data["providers"]}
        self.works |= {record["id"]: work_from(record) for record in draft.data["works"]}

    def _apply_policy(self, draft: Draft) -> None:
        self.policy = policy_from(dict(draft.data["policy"]))

    def _apply_usage(self, draft: Draft) -> None:
        self.accruals.setdefault((draft.period, draft.currency), Accruals()).merge(accruals_from(draft.data))

    def _apply_close(self, draft: Draft) -> list[str]:
        expected = self.expected_close(draft.period, draft.currency)
        faults = []
        if tuple(draft.postings) != expected.postings or dict(draft.data) != dict(expected.data):
            faults.append(f"is not the close of {draft.period} in {draft.currency} that its events lead to")
        del self.accruals[draft.period, draft.currency]
        self.carries[draft.currency] = dict(expected.carries)
        for provider, lines in expected.lines.items():
            self.positions[provider, draft.currency].lines += lines
        for account, amount in expected.booked.items():
            if account.startswith(PROVIDER_PREFIX):
                by_period = self.booked[account.removeprefix(PROVIDER_PREFIX), draft.currency]
                by_period[draft.period] = by_period.get(draft.period, 0) + amount
        return faults

    def _apply_payout(self, draft: Draft) -> None:
        data = draft.data
        payout = Payout(
            str(data["payout"]), str(data["provider"]), draft.currency, int(data["gross"]), int(data["withheld"])
        )
        self.payouts[payout.id] = payout

    def _apply_settled(self, draft: Draft) -> None:
        self._set_status(draft)

    def _apply_returned(self, draft: Draft) -> None:
        self._set_status(draft)

    def _set_status(self, draft: Draft) -> None:
        payout = self.payouts.get(str(draft.data["payout"]))
        if payout is not None:
            payout.status = draft.kind

    def _seal(self, draft: Draft) -> None:
        self.sealed.append(draft.period)
        for (provider, currency), position in self.positions.items():
            position.opening = position.closing
            position.carry_in = self.carries[currency].get(provider_account(provider), Fraction(0))
            position.moved, position.lines = {}, ()

    def suspense_within_bounds(self, currency: str) -> bool:
        """Whether the rounding suspense is at least 0 and less than the number of accounts that carry a fraction."""
        carrying = [account for account in self.carries[currency] if account.startswith(DEALT)]
        return 0 <= -self.balances[SUSPENSE, currency] < max(1, len(carrying))


def following(period: str) -> str:
    """Return the month after `period`: ``following("2026-12") == "2027-01"``."""
    year, month = int(period[:4]), int(period[5:])
    return f"{year + month // 12:04d}-{month % 12 + 1:02d}"


def accruals_data(accruals: Accruals) -> dict[str, Any]:
    """Return `accruals` as JSON types, amounts as text."""
    return {
        "events": accruals.count,
        "gross": str(accruals.gross),
        "tax": str(accruals.tax),
        "base": str(accruals.base),
        "billionths": {work: str(count) for work, count in sorted(accruals.parts.items()) if count},
    }


def accruals_from(data: Any) -> Accruals:
    """Return the accruals that an entry's `data` state (see :func:`accruals_data`)."""
    return Accruals(
        int(data["events"]),
        int(data["gross"]),
        int(data["tax"]),
        int(data["base"]),
        {work: int(count) for work, count in data["billionths"].items()},
    )
