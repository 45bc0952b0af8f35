"""The audit: read the whole journal and its events again, recompute everything, say where it first goes wrong."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from workingpapers.foundations.canonical_json import canonical
from workingpapers.foundations.progress import Progress, silent
from workingpapers.governance.data_royalties.accrual import Accruals, leaf_of, read_line
from workingpapers.governance.data_royalties.journal import Draft, Entry, imbalance
from workingpapers.governance.data_royalties.proofs import GENESIS, chain_hash, merkle_root, signed_by
from workingpapers.governance.data_royalties.state import State, accruals_from
from workingpapers.governance.data_royalties.statement import statement_leaves
from workingpapers.governance.data_royalties.store import Store

Row = tuple[str, int, str]
"""Event id, entry, line."""


@dataclass(frozen=True)
class Violation:
    """One thing that is wrong, and the place of the entry where it shows."""

    seq: int
    what: str


@dataclass(frozen=True)
class Audit:
    """Result of :func:`audit`.

    Args:
        entries: Entries read.
        events: Events read.
        checkpoints: Signatures checked.
        violations: What is wrong, in the order of the journal; empty is good.
        state: The books that follow from the entries.
    """

    entries: int
    events: int
    checkpoints: int
    violations: Sequence[Violation]
    state: State


def audit(
    entries: Iterable[Entry],
    events: Iterable[Row],
    checkpoints: Sequence[tuple[int, str, str]] = (),
    *,
    public_key: str = "",
    salt_secret: str = "",
    distinct: bool = False,
    limit: int = 20,
    progress: Progress = silent,
    total: int = 0,
) -> Audit:
    """Check chain, balance, events, closes, seals and signatures of a journal.

    Args:
        entries: The journal in order.
        events: Event id, entry and line in the order of posting.
        checkpoints: Place, canonical text and signature of signed checkpoints, from the store or kept elsewhere.
        public_key: The operator's key from elsewhere; else the one that the journal opens with.
        salt_secret: Key of the salts; with it the roots of the statements are recomputed too.
        distinct: Whether the database vouches that event ids are distinct; else a set of them is kept in memory.
        limit: Stop after this many violations.
        progress: Called about every thousand entries.
        total: Number of entries, for `progress`.

    Returns:
        The audit. A tail cut off after the last checkpoint cannot be seen: give one that was kept elsewhere.
    """
    state, found = State(), list[Violation]()
    rows = _Rows(events, distinct)
    signed: dict[int, list[tuple[str, str]]] = {}
    for place, body, signature in checkpoints:
        signed.setdefault(place, []).append((body, signature))
    previous, index = GENESIS, -1
    for index, entry in enumerate(entries):
        faults = list(_chain_faults(entry, index, previous))
        previous = entry.hash
        try:
            draft = entry.draft()
            faults += _content_faults(draft, index, state, rows, salt_secret)
            faults += state.apply(index, draft)
            faults += [
                f"leaves {account} of {currency} outside its bounds"
                for account, currency in _suspense_faults(draft, state)
            ]
        except (AssertionError, KeyError, TypeError, ValueError) as error:
            faults.append(f"cannot be applied ({type(error).__name__}: {error})")
        for body, signature in signed.pop(index, ()):
            faults += _checkpoint_faults(body, signature, entry, state.ledger, public_key or state.public_key)
        found += [Violation(index, fault) for fault in faults]
        if len(found) >= limit:
            break
        if index % 1000 == 0 and total:
            progress(min(1.0, index / total), f"entry {index} of {total}")
    else:
        found += [Violation(index, fault) for fault in rows.leftovers()]
        found += [Violation(place, "is signed for by a checkpoint but is not there") for place in sorted(signed)]
    return Audit(index + 1, rows.count, len(checkpoints), found[:limit], state)


def audit_store(
    store: Store, *, public_key: str = "", witnesses: Sequence[Mapping[str, Any]] = (), progress: Progress = silent
) -> Audit:
    """Audit the ledger of `store`.

    Args:
        store: The books.
        public_key: The operator's key as known from elsewhere.
        witnesses: Statements that providers kept: their checkpoints must lie on this chain.
        progress: Called about every thousand entries.
    """
    kept = [
        (int(item["checkpoint"]["seq"]), canonical(item["checkpoint"]).decode(), str(item["signature"]))
        for item in witnesses
    ]
    # What others append meanwhile is left for the next audit.
    last = store.head()[0]
    return audit(
        store.entries(upto=last),
        store.events(upto=last),
        [*(item for item in store.checkpoints() if item[0] <= last), *kept],
        public_key=public_key,
        salt_secret=store.meta("salt_secret"),
        distinct=store.distinct_events(),
        progress=progress,
        total=last + 1,
    )


class _Rows:
    """The events, handed out entry by entry."""

    def __init__(self, events: Iterable[Row], distinct: bool) -> None:
        self._events: Iterator[Row] = iter(events)
        self._next: Row | None = next(self._events, None)
        self._seen: set[str] | None = None if distinct else set()
        self.count = 0
        self.repeated: list[str] = []

    def take(self, place: int) -> list[tuple[str, str]]:
        taken = []
        self.repeated = []
        while self._next is not None and self._next[1] <= place:
            event_id, _, line = self._next
            taken.append((event_id, line))
            if self._seen is not None:
                if event_id in self._seen:
                    self.repeated.append(event_id)
                self._seen.add(event_id)
            self.count += 1
            self._next = next(self._events, None)
        return taken

    def leftovers(self) -> list[str]:
        return [f"is the last, but event {self._next[0]!r} names entry {self._next[1]}"] if self._next else []


def _chain_faults(entry: Entry, index: int, previous: str) -> Iterator[str]:
    if entry.seq != index or entry.place != index:
        yield f"stands at place {index} but is numbered {entry.seq} (payload: {entry.place})"
    if chain_hash(previous, entry.payload.encode()) != entry.hash:
        yield "does not have the hash that follows from its content and the entry before"


def _content_faults(draft: Draft, index: int, state: State, rows: _Rows, salt_secret: str) -> Iterator[str]:
    fault = imbalance(draft)
    if fault:
        yield fault
    taken = rows.take(index)
    if draft.kind == "usage":
        yield from _usage_faults(draft, taken, rows.repeated)
    elif taken:
        yield f"is a {draft.kind} entry, but event {taken[0][0]!r} names it"
    if draft.kind == "seal" and salt_secret:
        leaves = [canonical(leaf) for leaf in statement_leaves(state, draft.period, salt_secret)]
        if draft.data["root"] != merkle_root(leaves) or draft.data["leaves"] != len(leaves):
            yield "seals other statements than those that its entries lead to"


def _usage_faults(draft: Draft, rows: Sequence[tuple[str, str]], repeated: Sequence[str]) -> Iterator[str]:
    if repeated:
        yield f"books event {repeated[0]!r}, which was booked before"
    stated = accruals_from(draft.data)
    if stated.count != len(rows):
        yield f"states {stated.count} events and has {len(rows)}"
    if draft.data["root"] != merkle_root([leaf_of(event_id, line) for event_id, line in rows]):
        yield "has other events than those under its Merkle root"
    sums = Accruals()
    for event_id, line in rows:
        event, parts = read_line(event_id, line)
        if event.currency != draft.currency or event.time[:7] > draft.period:
            yield f"books event {event_id!r} ({event.currency}, {event.time}) as {draft.currency} of {draft.period}"
        sums.add(event, parts)
    sums.parts = {work: count for work, count in sums.parts.items() if count}
    if sums != stated:
        yield "states other sums than those of its events"
    amounts = [amount for _, amount in draft.postings]
    if amounts != [stated.gross, -stated.tax, stated.tax - stated.gross]:
        yield "posts other amounts than those of its events"


def _suspense_faults(draft: Draft, state: State) -> list[tuple[str, str]]:
    inside = draft.kind != "close" or state.suspense_within_bounds(draft.currency)
    return [] if inside else [("the rounding suspense", draft.currency)]


def _checkpoint_faults(body: str, signature: str, entry: Entry, ledger: str, public_key: str) -> Iterator[str]:
    record = json.loads(body)
    if not signed_by(public_key, record, signature):
        yield "has a checkpoint whose signature is not the operator's"
    if (record["seq"], record["head"], record["ledger"]) != (entry.seq, entry.hash, ledger):
        yield "is not the entry that was signed: the journal was rewritten at or before it"
