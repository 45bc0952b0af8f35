"""The ledger: register, post, close, pay, correct. Every operation appends entries; none changes one."""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from workingpapers.foundations.canonical_json import canonical
from workingpapers.foundations.errors import InputError, near_match
from workingpapers.governance.data_royalties import journal
from workingpapers.governance.data_royalties.accrual import NOT_PAYABLE, Accruals, Event, leaf_of, line_of, read_line
from workingpapers.governance.data_royalties.events import check_event, parts_for, parts_of_original
from workingpapers.governance.data_royalties.journal import Draft, Entry
from workingpapers.governance.data_royalties.money import decimal_text, minor_digits
from workingpapers.governance.data_royalties.proofs import merkle_root, public_text, sign
from workingpapers.governance.data_royalties.registry import Policy, Provider, Work, as_json, identifier
from workingpapers.governance.data_royalties.state import State, accruals_data
from workingpapers.governance.data_royalties.statement import statement_leaves
from workingpapers.governance.data_royalties.store import AlreadyPosted, EventRow, Store

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

VERSION = "1"


@dataclass(frozen=True)
class Batch:
    """Events of one period and currency, ready to be booked.

    Args:
        period: Month that they are booked in.
        currency: Their currency.
        rows: Id, refunded event and line of each, ids distinct.
        aggregate: Given the ids to leave out, the exact sums over the rest.
    """

    period: str
    currency: str
    rows: Sequence[EventRow]
    aggregate: Callable[[set[str]], Accruals]


@dataclass(frozen=True)
class Receipt:
    """What a post came to.

    Args:
        posted: Event id -> place of the entry that holds it, first posts and repeats alike.
        new: How many events were booked now.
        repeated: How many were booked before and changed nothing.
    """

    posted: Mapping[str, int]
    new: int
    repeated: int


def utc_now() -> str:
    """Return the time now, RFC 3339 in UTC to the second."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


class Ledger:
    """Double-entry books of one operator.

    Args:
        store: Where they are kept.
        clock: Gives the time of an entry; the time now by default.
    """

    def __init__(self, store: Store, clock: Callable[[], str] = utc_now) -> None:
        self.store = store
        self._clock = clock
        self._state = State()

    @classmethod
    def create(
        cls,
        url: str,
        providers: Iterable[Provider],
        works: Iterable[Work],
        policy: Policy,
        key: Ed25519PrivateKey,
        clock: Callable[[], str] = utc_now,
    ) -> Ledger:
        """Open new books at `url` (a file, or ``postgresql://``) under the public half of `key`.

        Raises:
            InputError: There is a ledger already, or a work belongs to a provider that is not given.
        """
        givers, things = list(providers), list(works)
        _check_owners(things, {provider.id for provider in givers})
        ledger = cls(Store.create(url), clock)
        identity = secrets.token_hex(16)
        with ledger.writing():
            ledger.store.note("ledger", identity)
            ledger.store.note("salt_secret", secrets.token_hex(32))
            data = {"ledger": identity, "public_key": public_text(key), "version": VERSION}
            ledger._book(Draft("open", clock(), data=data))
            ledger._book(Draft("policy", clock(), data={"policy": as_json(policy)}))
            ledger._register(givers, things)
        return ledger

    @classmethod
    def open(cls, url: str, clock: Callable[[], str] = utc_now) -> Ledger:
        """Open the books at `url`.

        Raises:
            InputError: There are none.
        """
        return cls(Store.open(url), clock)

    @property
    def state(self) -> State:
        """What the journal says up to its last entry, other writers' entries included."""
        for entry in self.store.entries(after=self._state.seq):
            self._state.apply(entry.seq, entry.draft())
        return self._state

    @contextmanager
    def writing(self) -> Iterator[State]:
        """Hold the writer's place and give the state; all entries of the block are booked together or not at all."""
        try:
            with self.store.transaction():
                yield self.state
        except BaseException:
            self._state = State()
            raise

    def register(self, providers: Iterable[Provider] = (), works: Iterable[Work] = ()) -> Entry:
        """Add or replace providers and works, from the next post and the next close on."""
        with self.writing():
            return self._register(list(providers), list(works))

    def set_policy(self, policy: Policy) -> Entry:
        """Put `policy` in force, from the next post and the next close on."""
        with self.writing():
            return self._book(Draft("policy", self.now(), data={"policy": as_json(policy)}))

    def record(
        self, event: Event, scores: Mapping[str, float], stderr: Mapping[str, float] | None = None, method: str = ""
    ) -> Receipt:
        """Book one event with its scores; the same event again changes nothing and returns the first receipt.

        Args:
            event: The use and its money.
            scores: Work id -> score; ``"-"`` for what no work explains. Empty for a refund, which takes the original's.
            stderr: Work id -> standard error of the score.
            method: Attribution method and version, noted in the entry.

        Raises:
            InputError: The event contradicts itself or what is booked.
        """
        check_event(event)
        state = self.state
        if event.refund_of:
            parts = parts_of_original(event, self.store.find([event.refund_of]))
        else:
            parts = parts_for(event, scores, stderr, state)
        line = line_of(event, parts)

        def aggregate(excluded: set[str]) -> Accruals:
            total = Accruals()
            if event.event_id not in excluded:
                total.add(event, parts)
            return total

        rows = [(event.event_id, event.refund_of or None, line)]
        batch = Batch(state.open_period(event.time[:7]), event.currency, rows, aggregate)
        return self.post_batch(batch, {"method": method} if method else {})

    def post_batch(self, batch: Batch, notes: Mapping[str, Any] | None = None) -> Receipt:
        """Book the events of `batch` that are not booked yet, as one entry.

        Args:
            batch: Events of one period and currency.
            notes: Method, versions, digests of the source files: JSON types, kept in the entry.

        Raises:
            InputError: An event is booked with other content, a refund exceeds its original, or the period is sealed.
        """
        while True:
            known = self.store.find(row[0] for row in batch.rows)
            _check_repeats(batch.rows, known)
            posted = {event_id: place for event_id, (place, _) in known.items()}
            fresh = [row for row in batch.rows if row[0] not in known]
            if not fresh:
                return Receipt(posted, 0, len(posted))
            sums = batch.aggregate(set(known))
            if sums.count != len(fresh) or not sums.whole:
                raise AssertionError("the sums of a batch are not those of its events")
            try:
                with self.writing():
                    self._check_refunds(fresh)
                    entry = self._book(self._usage(batch, fresh, sums, notes or {}))
                    self.store.add_events(entry.seq, fresh)
            except AlreadyPosted:
                continue
            return Receipt(posted | {row[0]: entry.seq for row in fresh}, len(fresh), len(posted))

    def reverse(self, event_id: str, reason: str) -> Receipt:
        """Take back what is left of an event, as a new event of the open period that names it.

        Raises:
            InputError: There is no such event, or nothing is left of it.
        """
        found = self.store.find([event_id])
        if event_id not in found:
            raise InputError(f"There is no event {event_id!r} in the ledger; nothing was reversed.")
        event, _ = read_line(event_id, found[event_id][1])
        if event.refund_of:
            raise InputError(f"Event {event_id!r} is itself a refund; post a new event instead.")
        earlier = [read_line("", line)[0] for line in self.store.refunds_of([event_id]).get(event_id, [])]
        left = {name: -sum(getattr(item, name) for item in [event, *earlier]) for name in ("gross", "tax", "cost")}
        if not left["gross"]:
            raise InputError(f"Nothing is left of event {event_id!r}: it was refunded in full before.")
        name = identifier(f"reversal{len(earlier) + 1}:{event_id}"[:200], "The reversal's id")
        time = max(self.now(), event.time)
        return self.record(
            replace(event, event_id=name, time=time, refund_of=event_id, **left), {}, method=f"reversal: {reason}"
        )

    def close_period(self, period: str, key: Ed25519PrivateKey) -> list[Entry]:
        """Close and seal `period`: book the dues, fix every provider's statement under one Merkle root, sign the chain.

        Returns:
            The entries: one close for each currency with events, then the seal.

        Raises:
            InputError: The period is malformed, sealed already, or an earlier one is still open; or `key` is not this
                ledger's.
        """
        if not re.fullmatch(r"\d{4}-(0[1-9]|1[0-2])", period):
            raise InputError(f"The period is {period!r}; write it as YYYY-MM.")
        with self.writing() as state:
            if public_text(key) != state.public_key:
                raise InputError("The key is not the one that this ledger was opened with; use that one.")
            if state.sealed and period <= state.sealed[-1]:
                raise InputError(f"Period {period} is not open: {state.sealed[-1]} is sealed; close a later one.")
            earlier = sorted({month for month, _ in state.accruals if month < period})
            if earlier:
                raise InputError(f"Period {earlier[0]} has events and is open; close it before {period}.")
            entries = []
            for _, currency in sorted(pair for pair in state.accruals if pair[0] == period):
                found = state.expected_close(period, currency)
                entries.append(self._book(Draft("close", self.now(), period, currency, found.postings, found.data)))
            leaves = statement_leaves(state, period, self.store.meta("salt_secret"))
            root = merkle_root([canonical(leaf) for leaf in leaves])
            data = {"root": root, "leaves": len(leaves)}
            entries.append(self._book(Draft("seal", self.now(), period, data=data)))
            self._checkpoint(key, period, data)
        return entries

    def adjust(
        self,
        provider: str,
        currency: str,
        amount: int,
        reason: str,
        fund: str = journal.RESERVE,
        refers_to: int | None = None,
    ) -> Entry:
        """Correct what a provider is owed: credit `amount` minor units from `fund` (negative: take back).

        Args:
            provider: Provider id.
            currency: ISO 4217 code.
            amount: Minor units.
            reason: Why, kept in the entry.
            fund: :data:`~.journal.RESERVE` or :data:`~.journal.DEVELOPER`, or an escrow account that is released.
            refers_to: Place of the entry that is corrected.

        Raises:
            InputError: There is no such provider or entry, or escrow or reserve would be overdrawn.
        """
        with self.writing() as state:
            self._check_provider(provider)
            minor_digits(currency)
            if refers_to is not None and not 0 <= refers_to <= state.seq:
                raise InputError(f"There is no entry {refers_to}; the journal ends at {state.seq}.")
            held = -state.balances[fund, currency]
            escrow = fund.startswith("liability:escrow:")
            if (escrow and amount <= 0) or (fund != journal.DEVELOPER and amount > held):
                raise InputError(
                    f"{fund} holds {decimal_text(held, currency)} {currency}; "
                    f"{decimal_text(amount, currency)} cannot be taken from it."
                )
            postings = ((fund, amount), (journal.provider_account(provider), -amount))
            data = {"reason": reason, "refers_to": "" if refers_to is None else str(refers_to)}
            return self._book(Draft("adjustment", self.now(), "", currency, postings, data))

    def dispute(self, provider: str, period: str, reason: str) -> Entry:
        """Note that a provider disputes its statement of `period`; an adjustment that names the entry resolves it."""
        with self.writing() as state:
            self._check_provider(provider)
            if period not in state.sealed:
                raise InputError(f"Period {period!r} is not sealed, so there is no statement to dispute.")
            data = {"provider": provider, "period": period, "reason": reason}
            return self._book(Draft("dispute", self.now(), data=data))

    def receive(self, currency: str, amount: int, reference: str) -> Entry:
        """Book that customers paid `amount` minor units."""
        postings = ((journal.CASH, amount), (journal.RECEIVABLE, -amount))
        with self.writing():
            return self._book(Draft("receipt", self.now(), "", currency, postings, {"reference": reference}))

    def book(self, draft: Draft) -> Entry:
        """Book a ready `draft`, checked like any other entry (payouts come this way)."""
        with self.writing():
            return self._book(draft)

    def checkpoint(self, key: Ed25519PrivateKey) -> None:
        """Sign the chain as it stands now."""
        with self.writing():
            self._checkpoint(key, "", {})

    def now(self) -> str:
        """Return the time of the next entry: the clock's, or the last entry's where that is later.

        Writers on several machines have clocks that differ by a little; the journal's own time never goes back.
        """
        return max(self._clock(), self._state.time)

    def balances(self) -> dict[tuple[str, str], int]:
        """Return (account, currency) -> balance in minor units, debits positive; they sum to zero in every currency."""
        return {key: amount for key, amount in sorted(self.state.balances.items()) if amount}

    def close(self) -> None:
        """Let go of the database."""
        self.store.close()

    def _register(self, providers: list[Provider], works: list[Work]) -> Entry:
        _check_owners(works, {*self.state.providers, *(provider.id for provider in providers)})
        data = {"providers": [as_json(item) for item in providers], "works": [as_json(item) for item in works]}
        return self._book(Draft("registry", self.now(), data=data))

    def _usage(self, batch: Batch, rows: Sequence[EventRow], sums: Accruals, notes: Mapping[str, Any]) -> Draft:
        root = merkle_root([leaf_of(event_id, line) for event_id, _, line in rows])
        postings = (
            (journal.RECEIVABLE, sums.gross),
            (journal.TAX, -sums.tax),
            (journal.USAGE, sums.tax - sums.gross),
        )
        data = {**accruals_data(sums), "root": root, "notes": dict(notes)}
        return Draft("usage", self.now(), batch.period, batch.currency, postings, data)

    def _book(self, draft: Draft) -> Entry:
        entry = self.store.append(draft)
        faults = self._state.apply(entry.seq, draft)
        if faults:
            raise InputError(f"The {draft.kind} entry {faults[0]}; nothing was booked.")
        return entry

    def _checkpoint(self, key: Ed25519PrivateKey, period: str, data: Mapping[str, Any]) -> None:
        seq, head = self.store.head()
        body = {"ledger": self.state.ledger, "seq": seq, "head": head, "period": period, "time": self.now(), **data}
        self.store.add_checkpoint(seq, canonical(body).decode(), sign(key, body))

    def _check_provider(self, provider: str) -> None:
        known = self.state.providers
        if provider not in known:
            raise InputError(
                f"There is no provider {provider!r}{near_match(provider, known) or '; register it first.'}"
            )

    def _check_refunds(self, rows: Sequence[EventRow]) -> None:
        refunds = [(event_id, original, line) for event_id, original, line in rows if original]
        if not refunds:
            return
        originals = {str(original) for _, original, _ in refunds}
        here = {event_id: line for event_id, _, line in rows if event_id in originals}
        lines = {event_id: line for event_id, (_, line) in self.store.find(originals - here.keys()).items()} | here
        left = {event_id: read_line(event_id, line)[0].gross for event_id, line in lines.items()}
        for original, earlier in self.store.refunds_of(originals).items():
            left[original] += sum(read_line("", line)[0].gross for line in earlier)
        for event_id, original, line in refunds:
            gross = read_line(event_id, line)[0].gross
            left[str(original)] += gross
            if left[str(original)] < 0:
                raise InputError(f"Refund {event_id!r} of {-gross} is more than is left of event {original!r}.")


def _check_owners(works: Iterable[Work], providers: set[str]) -> None:
    for work in works:
        for provider, _ in work.shares:
            if provider not in providers:
                hint = near_match(provider, providers) or "; register it first."
                raise InputError(f"Work {work.id!r} belongs to provider {provider!r}, which is not registered{hint}")


def _check_repeats(rows: Sequence[EventRow], known: Mapping[str, tuple[int, str]]) -> None:
    # A work that was not payable then and is now changes nothing about the event: the mark is not compared.
    for event_id, _, line in rows:
        if event_id in known and known[event_id][1].replace(NOT_PAYABLE, "") != line.replace(NOT_PAYABLE, ""):
            raise InputError(
                f"Event {event_id!r} is booked with other content (entry {known[event_id][0]}); "
                "give a new event a new id, or reverse the old one."
            )
