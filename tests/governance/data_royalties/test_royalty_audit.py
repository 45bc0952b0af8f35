"""Attacks on the journal, and what providers see of them."""

from __future__ import annotations

import copy
import json
import sqlite3
from dataclasses import replace
from datetime import date
from fractions import Fraction as F

import pytest

from workingpapers.foundations.canonical_json import canonical
from workingpapers.foundations.errors import InputError
from workingpapers.governance.data_royalties.accrual import Event
from workingpapers.governance.data_royalties.journal import Entry
from workingpapers.governance.data_royalties.ledger import Ledger
from workingpapers.governance.data_royalties.payout import pay
from workingpapers.governance.data_royalties.proofs import (
    GENESIS,
    chain_hash,
    load_or_make_key,
    public_text,
    sign,
)
from workingpapers.governance.data_royalties.registry import Policy
from workingpapers.governance.data_royalties.statement import check_statement, statements
from workingpapers.governance.data_royalties.verify import audit, audit_store


@pytest.fixture
def books(make_ledger, key):
    ledger = make_ledger(Policy(F(1, 2), F(2, 5), F(1, 10)))
    for month in ("05", "06"):
        for index in range(5):
            event = Event(f"e{month}{index}", f"2026-{month}-1{index}T00:00:00Z", "EUR", 101 + index)
            ledger.record(event, {"wa": 1.0 + index, "wbc": 2.0, "wb": 0.5})
        ledger.record(Event(f"j{month}", f"2026-{month}-10T00:00:00Z", "JPY", 700), {"wc": 1.0})
        ledger.close_period(f"2026-{month}", key)
        pay(ledger, date(2026, int(month) + 1, 20))
    return ledger


@pytest.fixture
def copied(books):
    return list(books.store.entries()), list(books.store.events()), books.store.checkpoints()


def rechained(entries):
    """What an operator with the database can do: write the chain anew, seq and hashes consistent."""
    found, previous = [], GENESIS
    for place, entry in enumerate(entries):
        record = json.loads(entry.payload)
        record["seq"] = place
        payload = canonical(record)
        previous = chain_hash(previous, payload)
        found.append(Entry(place, payload.decode(), previous))
    return found


def first(entries, events, checkpoints, **more):
    violations = audit(entries, events, checkpoints, **more).violations
    return violations[0].seq if violations else None


def usage_places(entries):
    return [entry.seq for entry in entries if entry.draft().kind == "usage"]


def test_honest_books_hold(books, copied):
    assert first(*copied, salt_secret=books.store.meta("salt_secret")) is None
    result = audit_store(books.store, public_key=books.state.public_key)
    assert (len(result.violations), result.events, result.checkpoints) == (0, 12, 2)
    assert result.state.balances == books.state.balances


def test_one_changed_byte_shows_where_it_is(copied):
    entries, events, checkpoints = copied
    for place in range(len(entries)):
        payload = entries[place].payload
        for position in (5, len(payload) // 2, len(payload) - 3):
            byte = "7" if payload[position] != "7" else "8"
            broken = [*entries]
            broken[place] = replace(entries[place], payload=payload[:position] + byte + payload[position + 1 :])
            assert first(broken, events, checkpoints) == place


def test_dropping_doubling_and_swapping_show_where_they_are(copied):
    entries, events, checkpoints = copied
    for place in range(1, len(entries) - 1):
        assert first(entries[:place] + entries[place + 1 :], events, checkpoints) == place
        assert first(entries[: place + 1] + entries[place:], events, checkpoints) == place + 1
        swapped = [*entries[:place], entries[place + 1], entries[place], *entries[place + 2 :]]
        assert first(swapped, events, checkpoints) == place


def test_changing_an_event_shows_at_its_entry(copied):
    entries, events, checkpoints = copied
    name, place, line = events[3]
    for other in (line.replace("|104|", "|105|"), line.replace("wa=", "wb=", 1), line + "1"):
        assert other != line
        assert first(entries, [*events[:3], (name, place, other), *events[4:]], checkpoints) == place
    assert first(entries, events[:3] + events[4:], checkpoints) == place
    assert first(entries, [*events[:4], *events[3:]], checkpoints) == place


def test_a_replayed_event_shows_even_under_a_new_chain(copied):
    entries, events, _ = copied
    place = usage_places(entries)[2]
    row = next(row for row in events if row[1] == place)
    at = place + 1
    replayed = rechained([*entries[:at], entries[place], *entries[at:]])
    moved = [(name, where + (where >= at), line) for name, where, line in events]
    index = next(i for i, item in enumerate(moved) if item[1] > at)
    moved.insert(index, (row[0], at, row[2]))
    assert first(replayed, moved, ()) == at
    # Entry without event rows: the count does not fit.
    assert first(replayed, [(n, w + (w >= at), t) for n, w, t in events], ()) == at


def test_changed_shares_under_a_new_chain_show_at_the_entry(copied):
    entries, events, _ = copied
    place = usage_places(entries)[0]
    record = json.loads(entries[place].payload)
    parts = record["data"]["billionths"]
    parts["wa"], parts["wb"] = parts["wb"], parts["wa"]
    changed = [*entries]
    changed[place] = replace(entries[place], payload=canonical(record).decode())
    assert first(rechained(changed), events, ()) == place


def test_a_close_that_books_otherwise_shows_under_a_new_chain(copied):
    entries, events, _ = copied
    place = next(entry.seq for entry in entries if entry.draft().kind == "close")
    record = json.loads(entries[place].payload)
    amounts = dict(record["postings"])
    amounts["liability:provider:a"] = str(int(amounts["liability:provider:a"]) + 1)
    amounts["equity:developer"] = str(int(amounts["equity:developer"]) - 1)
    record["postings"] = [[account, amounts[account]] for account, _ in record["postings"]]
    changed = [*entries]
    changed[place] = replace(entries[place], payload=canonical(record).decode())
    assert first(rechained(changed), events, ()) == place


def test_a_consistent_rewriting_of_history_is_caught_by_the_signature_alone(make_ledger, books, key):
    """The operator makes wholly consistent other books: only what was signed before gives it away."""
    forged = make_ledger(Policy(F(1, 2), F(2, 5), F(1, 10)), name="forged.db")
    for month in ("05", "06"):
        for index in range(6):
            forged.record(Event(f"e{month}{index}", f"2026-{month}-10T00:00:00Z", "EUR", 101), {"wa": 1.0})
        forged.close_period(f"2026-{month}", key)
        pay(forged, date(2026, int(month) + 1, 20))
        forged.receive("EUR", 101, "to have as many entries")
    assert audit_store(forged.store).violations == []
    kept = statements(books.store, "2026-05", ["a"])["a"]
    found = audit_store(forged.store, witnesses=[kept]).violations
    assert "rewritten" in found[0].what
    assert audit_store(books.store, witnesses=[kept]).violations == []


def test_a_tail_cut_off_after_the_last_signature_needs_a_witness(copied, key):
    entries, events, checkpoints = copied
    last = checkpoints[-1][0]
    assert first(entries[: last + 1], events, checkpoints) is None
    assert first(entries[:last], [row for row in events if row[1] < last], checkpoints) == last
    earlier = [checkpoint for checkpoint in checkpoints if checkpoint[0] < last]
    cut = entries[: last - 3]
    assert first(cut, [row for row in events if row[1] < len(cut)], earlier) is None


def test_a_foreign_signature_is_refused(copied, tmp_path):
    entries, events, checkpoints = copied
    place, body, _ = checkpoints[0]
    other = load_or_make_key(tmp_path / "other.pem")
    forged = [(place, body, sign(other, json.loads(body))), *checkpoints[1:]]
    assert first(entries, events, forged) == place
    assert first(entries, events, checkpoints, public_key=public_text(other)) == place


def test_sealed_statements_are_recomputed(books, copied):
    entries, events, _ = copied
    place = next(entry.seq for entry in entries if entry.draft().kind == "seal")
    record = json.loads(entries[place].payload)
    record["data"]["root"] = "00" * 32
    changed = [*entries]
    changed[place] = replace(entries[place], payload=canonical(record).decode())
    assert first(rechained(changed), events, (), salt_secret=books.store.meta("salt_secret")) == place


def test_time_does_not_go_back_and_sealed_periods_stay_sealed(copied):
    entries, events, _ = copied
    record = json.loads(entries[5].payload)
    record["time"] = "2025-01-01T00:00:00Z"
    changed = [*entries]
    changed[5] = replace(entries[5], payload=canonical(record).decode())
    assert first(rechained(changed), events, ()) == 5
    seal = next(entry.seq for entry in entries if entry.draft().kind == "seal")
    late = next(place for place in usage_places(entries) if place > seal)
    record = json.loads(entries[late].payload)
    record["period"] = "2026-05"
    changed = [*entries]
    changed[late] = replace(entries[late], payload=canonical(record).decode())
    assert first(rechained(changed), events, ()) == late


def test_an_edited_database_is_found(books, tmp_path):
    path = str(tmp_path / "books.db")
    with sqlite3.connect(path) as raw:
        raw.execute("UPDATE event SET line = replace(line, '|101|', '|1|') WHERE event_id = 'e050'")
    ledger = Ledger.open(path)
    (place, _) = ledger.store.find(["e050"])["e050"]
    assert audit_store(ledger.store).violations[0].seq == place
    ledger.close()


def test_every_statement_holds_alone_and_goes_on_from_the_last(books):
    may, june = statements(books.store, "2026-05"), statements(books.store, "2026-06")
    assert sorted(may) == ["a", "b", "c"]
    for name in may:
        assert check_statement(may[name], books.state.public_key) == []
        assert check_statement(june[name], books.state.public_key, may[name]) == []
    leaf = june["a"]["leaves"][0]["leaf"]
    assert int(leaf["opening"]) > 0
    assert int(leaf["moved"]["payout"]) == -int(leaf["opening"])


def test_a_statement_shows_nothing_of_other_providers(books):
    text = json.dumps(statements(books.store, "2026-05", ["a"])["a"])
    assert "wbc" not in text
    assert '"b"' not in text
    salts = {statements(books.store, "2026-05", [name])[name]["leaves"][0]["leaf"]["salt"] for name in "abc"}
    assert len(salts) == 3


def edits():
    def due(statement):
        statement["leaves"][0]["leaf"]["lines"][0]["due"] = "1"

    def closing(statement):
        statement["leaves"][0]["leaf"]["closing"] = "1"

    def carried(statement):
        statement["leaves"][0]["leaf"]["carry_out"] = "1/2"

    def index(statement):
        statement["leaves"][0]["index"] = (statement["leaves"][0]["index"] + 1) % 4

    def path(statement):
        statement["leaves"][0]["path"] = statement["leaves"][0]["path"][:-1]

    def root(statement):
        statement["checkpoint"]["root"] = "00" * 32

    def signature(statement):
        statement["signature"] = "00" * 64

    def period(statement):
        statement["period"] = "2026-07"

    def field(statement):
        del statement["leaves"][0]["leaf"]["carry_in"]

    return [due, closing, carried, index, path, root, signature, period, field]


@pytest.mark.parametrize("edit", edits(), ids=lambda edit: edit.__name__)
def test_an_edited_statement_does_not_hold(books, edit):
    statement = copy.deepcopy(statements(books.store, "2026-05", ["a"])["a"])
    edit(statement)
    assert check_statement(statement, books.state.public_key)


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("due", "1", "is not accrued base x pool share x work share"),
        ("share", "1/2", "is not accrued base x pool share x work share"),
        ("total", "1", "do not sum to the due of the period"),
        ("closing", "1", "is not the closing balance"),
        ("carry_out", "1/2", "is not booked"),
    ],
)
def test_arithmetic_is_checked_apart_from_the_signature(books, key, field, value, message):
    """An operator who signs a wrong statement is caught by the sums."""
    from workingpapers.governance.data_royalties.proofs import merkle_root

    statement = copy.deepcopy(statements(books.store, "2026-05", ["a"])["a"])
    leaf = statement["leaves"][0]["leaf"]
    (leaf["lines"][0] if field in ("due", "share") else leaf)["due" if field == "total" else field] = value
    statement["leaves"][0] |= {"index": 0, "path": []}
    statement["checkpoint"] |= {"root": merkle_root([canonical(leaf)]), "leaves": 1}
    statement["signature"] = sign(key, statement["checkpoint"])
    faults = check_statement(statement, public_text(key))
    assert any(message in fault for fault in faults)
    assert not any("signature" in fault or "root" in fault for fault in faults)


def test_a_statement_that_does_not_go_on_is_found(books):
    may, june = (statements(books.store, month, ["a"])["a"] for month in ("2026-05", "2026-06"))
    other = copy.deepcopy(may)
    other["leaves"][0]["leaf"]["closing"] = "1"
    assert any("it opens at" in fault for fault in check_statement(june, previous=other))
    dropped = copy.deepcopy(june)
    dropped["leaves"] = []
    assert any("it opens at 0 + 0" in fault for fault in check_statement(dropped, previous=may))
    assert any(
        "not one of this provider for an earlier period" in fault for fault in check_statement(may, previous=june)
    )


def test_only_sealed_periods_and_known_providers_have_statements(books):
    with pytest.raises(InputError, match=r"'2026-07' is not sealed in this ledger \(sealed: 2026-05, 2026-06\)"):
        statements(books.store, "2026-07")
    with pytest.raises(InputError, match="no provider 'd'"):
        statements(books.store, "2026-05", ["d"])
    with pytest.raises(InputError, match="schema is None"):
        check_statement({})
