"""Posting by files: the same parts and sums as event by event, in batches, and refusals that name the line."""

from __future__ import annotations

import csv
import random
from fractions import Fraction as F

import pytest

from workingpapers.foundations.errors import InputError
from workingpapers.governance.data_royalties.accrual import Event
from workingpapers.governance.data_royalties.registry import Policy, Work
from workingpapers.governance.data_royalties.usage import file_digest, post_files, recheck_files
from workingpapers.governance.data_royalties.verify import audit_store

EVENTS = ["event_id", "time", "currency", "gross_minor", "tax_minor", "cost_minor", "model_version", "refund_of"]


def write(path, header, rows):
    with path.open("w", newline="") as stream:
        csv.writer(stream).writerows([header, *rows])
    return path


def draw(seed, count=400):
    """Random events and scores with hard cases: ties, zeros, negatives, unknown works, refunds, three currencies."""
    rng = random.Random(seed)
    events, scores = [], {}
    for index in range(count):
        name = f"e{index:04d}"
        gross = rng.randrange(0, 10 ** rng.randrange(1, 9))
        tax = gross // 10 if rng.random() < 0.3 else 0
        day = f"2026-0{rng.choice('567')}-{rng.randrange(1, 29):02d}"
        events.append(
            Event(name, f"{day}T00:00:{index % 60:02d}Z", rng.choice(["EUR", "JPY", "USD"]), gross, tax, gross // 20)
        )
        works = rng.sample(["wa", "wb", "wc", "wbc", "aa", "x1", "-", "wz"], rng.randrange(0, 7))
        kind = rng.randrange(4)
        scores[name] = {
            work: (rng.random(), float(rng.randrange(-1, 3)), rng.gauss(0, 1), 10.0 ** rng.randrange(-12, 9))[kind]
            for work in works
        }
    for index, original in enumerate(rng.sample([item for item in events if item.gross > 5], 20)):
        amounts = (-original.gross // 2, -original.tax // 2, 0)
        events.append(Event(f"r{index:04d}", original.time, original.currency, *amounts, "", original.event_id))
    rng.shuffle(events)
    return events, scores


def write_both(folder, events, scores, errors=None):
    rows = [[e.event_id, e.time, e.currency, e.gross, e.tax, e.cost, e.model_version, e.refund_of] for e in events]
    lines = [[name, work, repr(score)] for name, one in scores.items() for work, score in one.items()]
    if errors:
        lines = [[name, work, score, repr(errors[name][work])] for name, work, score in lines]
    header = ["event_id", "work", "score", *(["stderr"] if errors else [])]
    return write(folder / "events.csv", EVENTS, rows), write(folder / "scores.csv", header, lines)


POLICIES = [
    Policy(F(1, 2), F(2, 5), F(1, 10)),
    Policy(F(0), F(1), unknown="pro_rata", min_score=0.2),
    Policy(F(1, 3), F(2, 3), unknown="developer", unattributed="developer", confidence_z=1.5),
]


@pytest.mark.parametrize("number", range(3))
def test_files_book_what_single_events_book(make_ledger, tmp_path, key, number):
    events, scores = draw(number)
    rng = random.Random(number)
    errors = {name: {work: rng.random() / 4 for work in one} for name, one in scores.items()} if number == 2 else None
    paths = write_both(tmp_path, events, scores, errors)
    works = [
        Work("wa", (("a", F(1)),)),
        Work("wb", (("b", F(1)),), valid_from="2026-06-01"),
        Work("wc", (("c", F(1)),), models=("", "m1")),
        Work("wz", (("c", F(1)),), valid_to="2026-06-14"),
        Work("wbc", (("b", F(1, 3)), ("c", F(2, 3)))),
    ]
    single = make_ledger(POLICIES[number], works=works, name="single.db")
    for one in sorted(events, key=lambda one: (one.time, one.refund_of != "", one.event_id)):
        if one.refund_of:
            single.record(one, {})
        else:
            single.record(one, scores[one.event_id], errors[one.event_id] if errors else None)
    filed = make_ledger(POLICIES[number], works=works, name="filed.db")
    result = post_files(filed, *paths, batch_size=37)
    assert (result.new, result.repeated) == (len(events), 0)
    assert filed.store.find(one.event_id for one in events).keys() == {one.event_id for one in events}
    names = [one.event_id for one in events]
    one, other = (
        {name: line for name, (_, line) in store.find(names).items()} for store in (single.store, filed.store)
    )
    assert one == other
    for month in ("2026-05", "2026-06", "2026-07"):
        single.close_period(month, key)
        filed.close_period(month, key)
    assert single.balances() == filed.balances()
    assert single.state.carries == filed.state.carries
    assert not audit_store(filed.store).violations


def test_posting_again_and_posting_more(make_ledger, tmp_path):
    events, scores = draw(5)
    plain = [one for one in events if not one.refund_of]
    ledger = make_ledger()
    first = write_both(tmp_path, plain[:100], {one.event_id: scores[one.event_id] for one in plain[:100]})
    post_files(ledger, *first)
    before = ledger.balances()
    again = post_files(ledger, *first, batch_size=7)
    assert (again.new, again.repeated, again.entries) == (0, 100, 0)
    assert ledger.balances() == before
    everything = write_both(tmp_path, events, scores)
    more = post_files(ledger, *everything, batch_size=50)
    assert (more.new, more.repeated) == (len(events) - 100, 100)
    whole = make_ledger(name="whole.db")
    post_files(whole, *everything)
    assert ledger.balances() == whole.balances()
    assert {k: v.parts for k, v in ledger.state.accruals.items()} == {
        k: v.parts for k, v in whole.state.accruals.items()
    }
    assert not audit_store(ledger.store).violations


def test_refunds_of_events_posted_earlier(make_ledger, tmp_path):
    ledger = make_ledger()
    ledger.record(Event("e1", "2026-05-01T00:00:00Z", "EUR", 90), {"wa": 1.0, "wb": 2.0})
    events = [
        Event("e2", "2026-05-02T00:00:00Z", "EUR", 50),
        Event("r1", "2026-05-02T00:00:00Z", "EUR", -30, refund_of="e1"),
        Event("r2", "2026-05-02T00:00:00Z", "EUR", -50, refund_of="e2"),
    ]
    post_files(ledger, *write_both(tmp_path, events, {"e2": {"wc": 1.0}}))
    sums = ledger.state.accruals["2026-05", "EUR"]
    assert sums.base == 60
    assert sums.parts == {"wa": 60 * 333333333, "wb": 60 * 666666667}


def test_sources_and_method_stand_in_the_journal(make_ledger, tmp_path):
    ledger = make_ledger()
    paths = write_both(tmp_path, [Event("e", "2026-05-01T00:00:00Z", "EUR", 1)], {"e": {"wa": 1.0}})
    post_files(ledger, *paths, method="knn_shapley 1")
    notes = list(ledger.store.entries())[-1].draft().data["notes"]
    assert notes == {
        "method": "knn_shapley 1",
        "events_sha256": file_digest(paths[0]),
        "scores_sha256": file_digest(paths[1]),
    }


def test_unknown_works_are_named(make_ledger, tmp_path):
    ledger = make_ledger()
    paths = write_both(tmp_path, [Event("e", "2026-05-01T00:00:00Z", "EUR", 1)], {"e": {"wx": 1.0, "wy": 1.0}})
    assert post_files(ledger, *paths).unknown == ("wx", "wy")


def test_parquet_and_csv_are_the_same(make_ledger, tmp_path):
    import duckdb

    events, scores = draw(9, 60)
    paths = write_both(tmp_path, events, scores)
    for path in paths:
        types = "{'gross_minor': 'BIGINT', 'tax_minor': 'BIGINT'}" if path.stem == "events" else "{'score': 'DOUBLE'}"
        duckdb.sql(
            f"COPY (SELECT * FROM read_csv('{path}', header = true, types = {types})) "
            f"TO '{path.with_suffix('.parquet')}' (FORMAT parquet)"
        )
    ledger, other = make_ledger(), make_ledger(name="other.db")
    post_files(ledger, *paths)
    post_files(other, *(path.with_suffix(".parquet") for path in paths))
    names = [one.event_id for one in events]
    assert {name: line for name, (_, line) in ledger.store.find(names).items()} == {
        name: line for name, (_, line) in other.store.find(names).items()
    }


def test_recheck_finds_events_that_are_missing_or_differ(make_ledger, tmp_path):
    ledger = make_ledger()
    events = [Event(f"e{i}", "2026-05-01T00:00:00Z", "EUR", 10) for i in range(3)]
    scores = {one.event_id: {"wa": 1.0, "wb": 1.0} for one in events}
    post_files(ledger, *write_both(tmp_path, events[:2], {name: scores[name] for name in ("e0", "e1")}))
    assert recheck_files(ledger, *write_both(tmp_path, events[:2], {name: scores[name] for name in ("e0", "e1")})) == []
    scores["e1"] = {"wa": 1.0, "wb": 3.0}
    assert recheck_files(ledger, *write_both(tmp_path, events, scores)) == [
        "event 'e1' is booked otherwise (entry 3)",
        "event 'e2' is in the file and not in the ledger",
    ]


GOOD = ["e1", "2026-05-01T00:00:00Z", "EUR", "100", "0", "0", "", ""]


def changed(**values):
    return [values.get(name, value) for name, value in zip(EVENTS, GOOD, strict=True)]


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([changed(gross_minor="1.5")], r"Event 'e1' has amounts \('1.5'"),
        ([changed(gross_minor="1e3")], "whole minor units"),
        ([changed(gross_minor="")], "whole minor units"),
        ([changed(gross_minor="-1")], "negative amount"),
        ([changed(tax_minor="101")], "lie within the gross"),
        ([changed(time="2026-05-01 00:00:00")], "write it in UTC"),
        ([changed(time="2026-02-30T00:00:00Z")], "write it in UTC"),
        ([changed(currency="EURO")], "not an ISO 4217"),
        ([changed(event_id="a|b")], "An event id"),
        ([changed(event_id="")], "An event id"),
        ([GOOD, GOOD], "gives event 'e1' more than once"),
        ([GOOD, changed(event_id="r", gross_minor="-1", refund_of="gone")], "not in the ledger"),
        ([GOOD, changed(event_id="r", gross_minor="-101", refund_of="e1")], "refunded by 101"),
        ([GOOD, changed(event_id="r", gross_minor="-1", refund_of="e1", currency="USD")], "cannot take back"),
        (
            [GOOD, changed(event_id="r", gross_minor="-1", refund_of="e1", time="2026-04-01T00:00:00Z")],
            "cannot take back",
        ),
    ],
)
def test_bad_events_are_refused_before_anything_is_booked(make_ledger, tmp_path, rows, message):
    ledger = make_ledger()
    before = ledger.store.head()
    events = write(tmp_path / "events.csv", EVENTS, [changed(event_id="fine"), *rows])
    scores = write(tmp_path / "scores.csv", ["event_id", "work", "score"], [["fine", "wa", "1"]])
    with pytest.raises(InputError, match=message):
        post_files(ledger, events, scores, batch_size=1)
    assert ledger.store.head() == before


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([["e1", "wa", "nan"]], "no finite score"),
        ([["e1", "wa", "inf"]], "no finite score"),
        ([["e1", "wa", "much"]], "no finite score"),
        ([["e1", "wa", ""]], "no finite score"),
        ([["e9", "wa", "1"]], "names event 'e9', which is not in the file"),
        ([["e1", "w|a", "1"]], "work id 'w|a'"),
        ([["e1", "wa", "1"], ["e1", "wa", "2"]], "scores work 'wa' of event 'e1' twice"),
        ([["r1", "wa", "1"]], "scores event 'r1', a refund"),
    ],
)
def test_bad_scores_are_refused_before_anything_is_booked(make_ledger, tmp_path, rows, message):
    ledger = make_ledger()
    before = ledger.store.head()
    events = write(tmp_path / "events.csv", EVENTS, [GOOD, changed(event_id="r1", gross_minor="-1", refund_of="e1")])
    scores = write(tmp_path / "scores.csv", ["event_id", "work", "score"], rows)
    with pytest.raises(InputError, match=message.replace("|", r"\|")):
        post_files(ledger, events, scores)
    assert ledger.store.head() == before


@pytest.mark.parametrize(
    ("header", "message"),
    [
        (["event_id", "time", "currency", "gross"], "no column 'gross_minor'; did you mean 'gross'"),
        ([*EVENTS[:4], "refund"], "unknown column 'refund'; did you mean 'refund_of'"),
    ],
)
def test_columns_are_named(make_ledger, tmp_path, header, message):
    events = write(tmp_path / "events.csv", header, [["e", "2026-05-01T00:00:00Z", "EUR", "1", ""][: len(header)]])
    scores = write(tmp_path / "scores.csv", ["event_id", "work", "score"], [["e", "wa", "1"]])
    with pytest.raises(InputError, match=message):
        post_files(make_ledger(), events, scores)


def test_a_memory_limit_that_is_none_is_refused(make_ledger, tmp_path):
    paths = write_both(tmp_path, [Event("e", "2026-05-01T00:00:00Z", "EUR", 1)], {"e": {"wa": 1.0}})
    with pytest.raises(InputError, match="memory limit is 'lots'"):
        post_files(make_ledger(), *paths, memory="lots")
