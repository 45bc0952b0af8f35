"""Arms about the books: money lost or made by rounding, and attacks on the journal."""

from __future__ import annotations

import csv
import json
import math
import random
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

from workingpapers.foundations.canonical_json import canonical
from workingpapers.foundations.progress import Progress, part
from workingpapers.governance.data_royalties.accrual import Event
from workingpapers.governance.data_royalties.journal import Entry, imbalance, provider_account
from workingpapers.governance.data_royalties.ledger import Ledger
from workingpapers.governance.data_royalties.money import PARTS, event_parts
from workingpapers.governance.data_royalties.proofs import GENESIS, chain_hash, load_or_make_key
from workingpapers.governance.data_royalties.registry import Policy, Provider, Work
from workingpapers.governance.data_royalties.usage import post_files
from workingpapers.governance.data_royalties.verify import Row, audit

MONTHS = ("2026-05", "2026-06", "2026-07")
POOL = Fraction(1, 4)
Usage = list[tuple[Event, dict[str, float]]]
Books = tuple[list[Entry], list[Row], list[tuple[int, str, str]]]


def draw_usage(seed: int, events: int, providers: int) -> Usage:
    """Return events of 1 to 500 minor units in three months, 3 to 10 scores each by Zipf's law, and 1 % refunds."""
    rng = random.Random(seed)
    weights = [1.0 / (1 + index) for index in range(providers)]
    drawn: Usage = []
    for index in range(events):
        time = f"{rng.choice(MONTHS)}-{rng.randrange(1, 29):02d}T12:00:00Z"
        chosen = set(rng.choices(range(providers), weights, k=rng.randrange(3, 11)))
        scores = {f"w{provider}": rng.random() for provider in sorted(chosen)}
        drawn.append((Event(f"e{index}", time, "EUR", rng.randrange(1, 501)), scores))
    for number in rng.sample(range(events), events // 100):
        event, scores = drawn[number]
        refund = replace(event, event_id=f"r{number}", gross=-event.gross, refund_of=event.event_id)
        drawn.append((refund, scores))
    return drawn


def exact_money(drawn: Usage, progress: Progress) -> dict[str, Fraction]:
    """Return provider -> exact money over all events, by plain fractions."""
    billionths: dict[str, int] = {}
    for number, (event, scores) in enumerate(drawn):
        if number % 5000 == 0:
            progress(number / len(drawn), "summing exactly")
        for work, count in event_parts(scores).items():
            billionths[work] = billionths.get(work, 0) + event.gross * count
    return {work[1:]: POOL * Fraction(total, PARTS) for work, total in billionths.items()}


def drift(seed: int, progress: Progress, *, rounding: str, events: int, providers: int) -> Mapping[str, float]:
    """Arm: the largest difference between a provider's booked and exact money after three months, minor units.

    Args:
        seed: Seed of the events.
        progress: Progress.
        rounding: ``"carry"`` or ``"largest_remainder"`` (the ledger), ``"half_up"`` or ``"half_even"`` by event, or
            ``"float"``.
        events: Number of events.
        providers: Number of providers.
    """
    drawn = draw_usage(seed, events, providers)
    progress(0.2, "drew the events")
    exact = exact_money(drawn, part(progress, 0.2, 0.5))
    if rounding in ("carry", "largest_remainder"):
        booked = booked_by_ledger(drawn, providers, rounding, progress)
    else:
        booked = booked_by_event(drawn, rounding, part(progress, 0.5, 1.0))
    progress(1.0, "compared")
    differences = [abs(booked.get(name, 0) - due) for name, due in exact.items()]
    total = abs(sum(booked.values()) - sum(exact.values()))
    return {"drift": float(max(differences)), "total": float(total)}


def booked_by_event(drawn: Usage, rounding: str, progress: Progress) -> dict[str, int]:
    """Return provider -> money when each event's amounts are rounded on their own, or summed as floats."""
    floats: dict[str, float] = {}
    for number, (event, scores) in enumerate(drawn):
        if number % 5000 == 0:
            progress(number / len(drawn), "rounding each event")
        for work, count in event_parts(scores).items():
            amount = float(POOL) * event.gross * (count / PARTS)
            if rounding == "half_up":
                amount = math.copysign(math.floor(abs(amount) + 0.5), amount)
            elif rounding == "half_even":
                amount = float(round(amount))
            floats[work[1:]] = floats.get(work[1:], 0.0) + amount
    return {name: math.floor(amount + 0.5) for name, amount in floats.items()}


def booked_by_ledger(drawn: Usage, providers: int, rounding: str, progress: Progress) -> dict[str, int]:
    """Return provider -> money after the events went through files, ledger and three closes."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with (folder / "events.csv").open("w", newline="") as stream:
            rows = [[e.event_id, e.time, e.currency, e.gross, e.refund_of] for e, _ in drawn]
            csv.writer(stream).writerows([["event_id", "time", "currency", "gross_minor", "refund_of"], *rows])
        with (folder / "scores.csv").open("w", newline="") as stream:
            lines = [
                [e.event_id, work, repr(score)]
                for e, scores in drawn
                if not e.refund_of
                for work, score in scores.items()
            ]
            csv.writer(stream).writerows([["event_id", "work", "score"], *lines])
        key = load_or_make_key(folder / "key.pem")
        ledger = Ledger.create(
            str(folder / "books.db"),
            [Provider(str(index), str(index)) for index in range(providers)],
            [Work(f"w{index}", ((str(index), Fraction(1)),)) for index in range(providers)],
            Policy(1 - POOL, POOL, rounding=rounding),
            key,
        )
        posting = part(progress, 0.55, 0.95)
        post_files(ledger, folder / "events.csv", folder / "scores.csv", batch_size=10_000, progress=posting)
        for month in MONTHS:
            ledger.close_period(month, key)
        booked = {
            str(index): -ledger.state.balances.get((provider_account(str(index)), "EUR"), 0)
            for index in range(providers)
        }
        ledger.close()
    return booked


def make_books(seed: int, entries: int) -> Books:
    """Return a journal with one event in each of about `entries` entries, closed and signed after each third."""
    rng = random.Random(seed)
    with tempfile.TemporaryDirectory() as name:
        key = load_or_make_key(Path(name) / "key.pem")
        ledger = Ledger.create(
            f"{name}/books.db",
            [Provider(f"p{index}", f"p{index}") for index in range(5)],
            [Work(f"w{index}", ((f"p{index}", Fraction(1)),)) for index in range(5)],
            Policy(1 - POOL, POOL),
            key,
        )
        for month in MONTHS:
            with ledger.writing():
                for index in range(entries // len(MONTHS)):
                    event = Event(f"{month}/{index}", f"{month}-15T00:00:00Z", "EUR", rng.randrange(100, 999))
                    ledger.record(event, {f"w{work}": rng.random() for work in rng.sample(range(5), 3)})
            ledger.close_period(month, key)
        books = (list(ledger.store.entries()), list(ledger.store.events()), ledger.store.checkpoints())
        ledger.close()
    return books


ATTACKS = ("byte", "drop", "duplicate", "reorder", "share", "replay", "rewrite")


def attack(books: Books, kind: str, rng: random.Random) -> tuple[Books, int]:
    """Return an attacked copy of `books` and the place at which the attack first shows.

    ``share`` moves parts of one event to another provider and ``replay`` books an event twice, both under a chain of
    hashes made anew; ``rewrite`` does so consistently, event, sums and all, so that only a signature can show it.
    """
    entries, events, checkpoints = books
    places = [row[1] for row in events]
    index = rng.randrange(1, len(places) - 2)
    place = places[index]
    changed = [*entries]
    if kind == "byte":
        text = entries[place].payload
        spot = rng.randrange(len(text))
        changed[place] = replace(
            entries[place], payload=text[:spot] + ("#" if text[spot] != "#" else "%") + text[spot + 1 :]
        )
        return (changed, events, checkpoints), place
    if kind == "drop":
        return ([*entries[:place], *entries[place + 1 :]], events, checkpoints), place
    if kind == "duplicate":
        return ([*entries[: place + 1], *entries[place:]], events, checkpoints), place + 1
    if kind == "reorder":
        changed[place], changed[place + 1] = changed[place + 1], changed[place]
        return (changed, events, checkpoints), place
    if kind == "replay":
        name, _, line = events[index]
        moved = [(event_id, where + (where > place), text) for event_id, where, text in events]
        moved.insert(index + 1, (name, place + 1, line))
        return (rechained([*entries[: place + 1], *entries[place:]]), moved, []), place + 1
    record = json.loads(entries[place].payload)
    parts = record["data"]["billionths"]
    first, second = sorted(parts)[:2]
    parts[first], parts[second] = parts[second], parts[first]
    if kind == "share":
        changed[place] = replace(entries[place], payload=canonical(record).decode())
        return (rechained(changed), events, checkpoints), place
    return rewritten(books, index, record), min(seq for seq, _, _ in checkpoints if seq >= place)


def rewritten(books: Books, index: int, record: dict[str, object]) -> Books:
    """Return books in which event `index` was attributed otherwise and all but the signatures follows from it."""
    from workingpapers.governance.data_royalties.accrual import leaf_of, line_of, read_line
    from workingpapers.governance.data_royalties.proofs import merkle_root
    from workingpapers.governance.data_royalties.state import State

    entries, events, checkpoints = books
    name, place, line = events[index]
    event, parts = read_line(name, line)
    first, second = sorted(parts)[:2]
    parts[first], parts[second] = parts[second], parts[first]
    forged = line_of(event, parts)
    record["data"]["root"] = merkle_root([leaf_of(name, forged)])  # type: ignore[index]
    changed = [*entries]
    changed[place] = replace(entries[place], payload=canonical(record).decode())
    state = State()
    for seq, entry in enumerate(changed):
        draft = entry.draft()
        if draft.kind == "close":
            close = state.expected_close(draft.period, draft.currency)
            content = json.loads(entry.payload)
            content["postings"] = [[account, str(amount)] for account, amount in close.postings]
            content["data"] = dict(close.data)
            changed[seq] = replace(entry, payload=canonical(content).decode())
            draft = changed[seq].draft()
        state.apply(seq, draft)
    return rechained(changed), [*events[:index], (name, place, forged), *events[index + 1 :]], checkpoints


def rechained(entries: Sequence[Entry]) -> list[Entry]:
    """Return the entries numbered and hashed anew, as somebody with the database can."""
    found, previous = [], GENESIS
    for seq, entry in enumerate(entries):
        payload = canonical({**json.loads(entry.payload), "seq": seq})
        previous = chain_hash(previous, payload)
        found.append(Entry(seq, payload.decode(), previous))
    return found


def by_audit(books: Books) -> int:
    """Return the place of the first violation that the audit reports, or -1."""
    found = audit(*books, limit=1).violations
    return found[0].seq if found else -1


def by_chain(books: Books) -> int:
    """Return the place where the chain of hashes breaks: no signatures, no recomputation."""
    previous = GENESIS
    for seq, entry in enumerate(books[0]):
        if entry.seq != seq or chain_hash(previous, entry.payload.encode()) != entry.hash:
            return seq
        previous = entry.hash
    return -1


def by_trial_balance(books: Books) -> int:
    """Return the place of the first entry that does not balance: what double entry alone can see."""
    for seq, entry in enumerate(books[0]):
        try:
            if imbalance(entry.draft()):
                return seq
        except ValueError:
            return seq
    return -1


def attacked(seed: int, progress: Progress, *, check: str, entries: int, attacks: int) -> Mapping[str, float]:
    """Arm: the share of random attacks that a check places at the entry where they show.

    Args:
        seed: Seed of books and attacks.
        progress: Progress.
        check: ``"audit"``, ``"chain"`` or ``"trial_balance"``.
        entries: Entries in the journal.
        attacks: Number of attacks, the kinds in turn.
    """
    checker = {"audit": by_audit, "chain": by_chain, "trial_balance": by_trial_balance}[check]
    books = make_books(seed, entries)
    rng = random.Random(seed)
    found = 0
    for number in range(attacks):
        broken, place = attack(books, ATTACKS[number % len(ATTACKS)], rng)
        found += checker(broken) == place
        progress((number + 1) / attacks, f"attack {number + 1} of {attacks}")
    honest = checker(books)
    return {"found": found / attacks, "attacks": float(attacks), "false_alarm": float(honest != -1)}
