"""Several writers at once on PostgreSQL: every event once, one chain, the same balances as one writer alone."""

from __future__ import annotations

import os
import random
import uuid
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction as F

import pytest

from workingpapers.foundations.errors import InputError
from workingpapers.governance.data_royalties.accrual import Event
from workingpapers.governance.data_royalties.ledger import Ledger
from workingpapers.governance.data_royalties.statement import check_statement, statements
from workingpapers.governance.data_royalties.usage import post_files
from workingpapers.governance.data_royalties.verify import audit_store

DATABASE = os.environ.get("WORKINGPAPERS_TEST_DATABASE", "")

pytestmark = [
    pytest.mark.postgres,
    pytest.mark.skipif(
        not DATABASE.startswith("postgresql://"), reason="WORKINGPAPERS_TEST_DATABASE holds no postgresql:// URL"
    ),
]


@pytest.fixture
def url():
    """A schema of its own in the test database."""
    import psycopg

    schema = f"royalties_{uuid.uuid4().hex[:12]}"
    with psycopg.connect(DATABASE, autocommit=True) as connection:
        connection.execute(f"CREATE SCHEMA {schema}")
        separator = "&" if "?" in DATABASE else "?"
        yield f"{DATABASE}{separator}options=-csearch_path%3D{schema}"
        # A failed test may leave a connection open; its own failure shall be seen, not a wait for its locks.
        connection.execute("SET lock_timeout = '5s'")
        connection.execute(f"DROP SCHEMA {schema} CASCADE")


def draw(count=120):
    rng = random.Random(1)
    works = ("wa", "wb", "wc", "wbc")
    return [
        (
            Event(f"e{index:03d}", f"2026-05-{1 + index % 28:02d}T00:00:00Z", rng.choice(["EUR", "JPY"]), 1 + index),
            {work: rng.random() for work in works},
        )
        for index in range(count)
    ]


def write_some(url, start):
    """One writer: a third of the events that others write too, in an order of its own."""
    ledger = Ledger.open(url)
    chosen = [pair for index, pair in enumerate(draw()) if (index + start) % 3 != 0]
    random.Random(start).shuffle(chosen)
    new = sum(ledger.record(event, scores).new for event, scores in chosen)
    ledger.close()
    return new


def post_some(url, events, scores):
    ledger = Ledger.open(url)
    result = post_files(ledger, events, scores, batch_size=25)
    ledger.close()
    return result.new


def test_several_writers_book_every_event_once(make_ledger, key, url):
    ledger = make_ledger(name=url)
    with ThreadPoolExecutor(3) as pool:
        new = list(pool.map(write_some, [url] * 3, range(3)))
    assert sum(new) == 120
    ledger.close_period("2026-05", key)
    alone = make_ledger(name="alone.db")
    for event, scores in draw():
        alone.record(event, scores)
    alone.close_period("2026-05", key)
    assert ledger.balances() == alone.balances()
    found = audit_store(ledger.store)
    assert (found.violations, found.events) == ([], 120)
    for statement in statements(ledger.store, "2026-05").values():
        assert check_statement(statement, ledger.state.public_key) == []


def test_two_writers_post_the_same_files_at_once(make_ledger, url, tmp_path):
    events, scores = tmp_path / "events.csv", tmp_path / "scores.csv"
    pairs = draw()
    events.write_text(
        "event_id,time,currency,gross_minor\n"
        + "".join(f"{event.event_id},{event.time},{event.currency},{event.gross}\n" for event, _ in pairs)
    )
    scores.write_text(
        "event_id,work,score\n"
        + "".join(f"{event.event_id},{work},{score!r}\n" for event, one in pairs for work, score in one.items())
    )
    ledger = make_ledger(name=url)
    with ThreadPoolExecutor(2) as pool:
        new = list(pool.map(post_some, [url] * 2, [events] * 2, [scores] * 2))
    assert sum(new) == 120
    assert audit_store(ledger.store).violations == []
    assert sum(sums.base for sums in ledger.state.accruals.values()) == sum(event.gross for event, _ in pairs)


def test_a_batch_is_whole_or_absent(make_ledger, url):
    ledger = make_ledger(name=url)
    ledger.record(Event("e", "2026-05-01T00:00:00Z", "EUR", 100), {"wa": 1.0})
    before = (ledger.store.head(), ledger.balances())
    with pytest.raises(InputError, match="more than is left"):
        ledger.record(Event("r", "2026-05-02T00:00:00Z", "EUR", -101, refund_of="e"), {})
    assert (ledger.store.head(), ledger.balances()) == before


def test_a_schema_holds_one_ledger(make_ledger, url):
    make_ledger(name=url)
    with pytest.raises(InputError, match="holds a ledger already"):
        make_ledger(name=url)


def test_shares_of_works_are_exact(make_ledger, key, url):
    ledger = make_ledger(name=url)
    ledger.record(Event("e", "2026-05-01T00:00:00Z", "BHD", 9), {"wbc": 1.0})
    ledger.close_period("2026-05", key)
    assert ledger.balances()["liability:provider:b", "BHD"] == -3
    assert ledger.state.works["wbc"].shares == (("b", F(1, 3)), ("c", F(2, 3)))
