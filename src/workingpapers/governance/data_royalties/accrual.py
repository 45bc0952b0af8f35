"""What events owe before anything is rounded: lines of events, and their exact sums by work."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from workingpapers.governance.data_royalties.money import PARTS

NOT_PAYABLE = "~"
"""Before a work id in an event's parts: not registered, or not licensed for this use, when the event was posted."""


@dataclass(frozen=True)
class Event:
    """One paid use of a model.

    Args:
        event_id: Idempotency key: the same id is booked once.
        time: When, RFC 3339 in UTC with a final ``Z``.
        currency: ISO 4217 code.
        gross: What the customer pays in minor units; negative for a refund.
        tax: Tax in it, minor units.
        cost: Direct cost that the contract lets the developer deduct, minor units.
        model_version: Which model answered.
        refund_of: The event that this one takes back, or ``""``.
    """

    event_id: str
    time: str
    currency: str
    gross: int
    tax: int = 0
    cost: int = 0
    model_version: str = ""
    refund_of: str = ""

    @property
    def base(self) -> int:
        """What is divided among developer, pool and reserve: gross less tax and cost, in minor units."""
        return self.gross - self.tax - self.cost


def line_of(event: Event, parts: Mapping[str, int]) -> str:
    """Return the text that stands for `event` in the journal's Merkle tree: its facts and its parts, without its id."""
    dealt = ",".join(f"{work}={count}" for work, count in sorted(parts.items()))
    facts = (event.time, event.currency, event.gross, event.tax, event.cost, event.model_version, event.refund_of)
    return "|".join([*map(str, facts), dealt])


def read_line(event_id: str, line: str) -> tuple[Event, dict[str, int]]:
    """Return the event and the parts of a `line` (see :func:`line_of`).

    Raises:
        ValueError: It is not such a line, or its parts do not sum to :data:`PARTS`.
    """
    time, currency, gross, tax, cost, model_version, refund_of, dealt = line.split("|")
    parts = {}
    for piece in dealt.split(","):
        work, _, count = piece.rpartition("=")
        parts[work] = int(count)
    if sum(parts.values()) != PARTS or min(parts.values()) < 0:
        raise ValueError(f"the parts of event {event_id!r} do not sum to {PARTS}")
    return Event(event_id, time, currency, int(gross), int(tax), int(cost), model_version, refund_of), parts


def leaf_of(event_id: str, line: str) -> bytes:
    """Return the leaf of an event in the Merkle tree of its entry."""
    return f"{event_id}|{line}".encode()


@dataclass
class Accruals:
    r"""Exact sums over events of one period and currency.

    ``parts[work]`` is :math:`\sum_e \mathrm{base}_e\,\mathrm{parts}_{e,\mathrm{work}}`, in billionths of a minor unit,
    a whole number of any size. Its sum over works is :math:`10^9\sum_e\mathrm{base}_e`.
    """

    count: int = 0
    gross: int = 0
    tax: int = 0
    base: int = 0
    parts: dict[str, int] = field(default_factory=dict)

    def add(self, event: Event, parts: Mapping[str, int]) -> None:
        """Add one event."""
        self.count += 1
        self.gross += event.gross
        self.tax += event.tax
        self.base += event.base
        for work, count in parts.items():
            self.parts[work] = self.parts.get(work, 0) + event.base * count

    def merge(self, other: Accruals) -> None:
        """Add all of `other`."""
        self.count += other.count
        self.gross += other.gross
        self.tax += other.tax
        self.base += other.base
        for work, count in other.parts.items():
            self.parts[work] = self.parts.get(work, 0) + count

    @property
    def whole(self) -> bool:
        """Whether the parts sum to the base: nothing was lost or made on the way."""
        return sum(self.parts.values()) == self.base * PARTS


def accruals_of(rows: Iterable[tuple[str, str]]) -> Accruals:
    """Return the sums over (event id, line) pairs: the slow, plain way that the auditor goes."""
    total = Accruals()
    for event_id, line in rows:
        total.add(*read_line(event_id, line))
    return total
