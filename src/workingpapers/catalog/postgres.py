"""The catalog in PostgreSQL: the same records, keys and queries, for catalogs that many people write to.

Text is tokenised here, not by the server, so that both backends agree on what a word is; each record's words go into a
``tsvector`` with weights A (title), B (authors), C (topic, keywords), D (abstract, summary, CJK pairs).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from workingpapers.catalog.backend import Filters
from workingpapers.catalog.query import Term
from workingpapers.catalog.records import STORED, Record, Row, from_row, to_row
from workingpapers.catalog.text import fold
from workingpapers.foundations.errors import InputError

SCHEMA = """
CREATE TABLE IF NOT EXISTS meta (name text PRIMARY KEY, value text NOT NULL);
CREATE TABLE IF NOT EXISTS records (
  id bigint PRIMARY KEY, title text, authors text, authors_complete integer, topic text, abstract text, year integer,
  venue text, doi text, arxiv text, openreview text, url text, keywords text, slug text, summary text, words tsvector
);
CREATE INDEX IF NOT EXISTS records_words ON records USING gin (words);
CREATE TABLE IF NOT EXISTS keys (key bigint PRIMARY KEY, record bigint NOT NULL);
CREATE INDEX IF NOT EXISTS keys_record ON keys (record);
CREATE TABLE IF NOT EXISTS changes (number bigserial PRIMARY KEY, record bigint NOT NULL);
INSERT INTO changes (record) SELECT id FROM records WHERE NOT EXISTS (SELECT 1 FROM changes) ORDER BY id;
"""
MAX_POSITION = 16383
SAMPLED_RECORDS = 20_000
_WORD = re.compile(r"[^\W_]+")
# Any number: it tells our writers apart from other users of advisory locks.
_WRITER_LOCK = 7_301_955


class PostgresBackend:
    """The catalog behind a ``postgresql://`` address."""

    name = "postgresql"

    def __init__(self, address: str) -> None:
        try:
            import psycopg
        except ImportError:
            raise InputError("PostgreSQL needs the package psycopg; pip install 'workingpapers[postgres]'.") from None
        try:
            self._connection = psycopg.connect(address, autocommit=True)
            self._connection.execute("SELECT pg_advisory_lock(%s)", (_WRITER_LOCK,))
            self._connection.execute(SCHEMA)
            self._connection.execute("SELECT pg_advisory_unlock(%s)", (_WRITER_LOCK,))
        except psycopg.Error as error:
            reason = " ".join(str(error).split())
            raise InputError(f"The PostgreSQL catalog cannot be opened: {reason.rstrip('.')}.") from None

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Open the one write transaction; other writers wait."""
        with self._connection.transaction():
            self._connection.execute("SELECT pg_advisory_xact_lock(%s)", (_WRITER_LOCK,))
            yield

    def next_id(self) -> int:
        """Return the first unused record number."""
        return int(self._value("SELECT coalesce(max(id), 0) + 1 FROM records"))

    def lookup(self, keys: Iterable[int]) -> dict[int, int]:
        """Return key -> record number for the keys that are known."""
        return dict(self._rows("SELECT key, record FROM keys WHERE key = ANY(%s)", (list(keys),)))

    def fetch(self, ids: Sequence[int]) -> dict[int, Record]:
        """Return record number -> record."""
        rows = self._rows(f"SELECT id, {', '.join(STORED)} FROM records WHERE id = ANY(%s)", (list(ids),))
        return {row[0]: from_row(row[1:]) for row in rows}

    def insert(self, rows: Sequence[tuple[int, Row]], keys: Sequence[tuple[int, int]]) -> None:
        """Add new records and their keys."""
        columns = ", ".join(("id", *STORED, "words"))
        with self._connection.cursor() as cursor, cursor.copy(f"COPY records ({columns}) FROM STDIN") as copy:
            for number, (*stored, pairs) in rows:
                copy.write_row((number, *stored, words_vector(from_row(stored), str(pairs))))
        self._changed([number for number, _ in rows])
        self.add_keys(keys)

    def replace(self, number: int, old: Record, new: Record) -> None:
        """Change one record in place."""
        *stored, pairs = to_row(new)
        changes = ", ".join(f"{name} = %s" for name in (*STORED, "words"))
        self._connection.execute(
            f"UPDATE records SET {changes} WHERE id = %s", (*stored, words_vector(new, str(pairs)), number)
        )
        self._changed([number])

    def remove(self, number: int, old: Record, into: int) -> None:
        """Remove a record whose keys now belong to `into`."""
        self._connection.execute("DELETE FROM records WHERE id = %s", (number,))
        self._connection.execute("UPDATE keys SET record = %s WHERE record = %s", (into, number))
        self._changed([number])

    def add_keys(self, keys: Sequence[tuple[int, int]]) -> None:
        """Point further keys at records; known keys stay."""
        self._connection.execute(
            "INSERT INTO keys SELECT * FROM unnest(%s::bigint[], %s::bigint[]) ON CONFLICT DO NOTHING",
            ([key for key, _ in keys], [record for _, record in keys]),
        )

    def match(
        self, terms: Sequence[Term], filters: Filters, limit: int, *, every: bool = True, in_title: bool = False
    ) -> list[int]:
        """Return the newest records that match."""
        expression = tsquery(terms, filters, every=every, weight="A" if in_title else "")
        if not expression:
            rows = self._rows("SELECT id FROM records ORDER BY id DESC LIMIT %s", (limit,))
        else:
            rows = self._rows(
                "SELECT id FROM records WHERE words @@ %s::tsquery ORDER BY id DESC LIMIT %s", (expression, limit)
            )
        return [row[0] for row in rows]

    def last(self) -> int:
        """Return the largest record number."""
        return self.next_id() - 1

    def count(self) -> int:
        """Return the number of records."""
        return int(self._value("SELECT count(*) FROM records"))

    def changes(self, after: int, limit: int) -> list[tuple[int, int]]:
        """Return the oldest changes after number `after`; there is one writer at a time, so numbers come in order."""
        return self._rows(
            "SELECT number, record FROM changes WHERE number > %s ORDER BY number LIMIT %s", (after, limit)
        )

    def topics(self) -> list[tuple[str, int]]:
        """Return every topic and its number of records."""
        return self._rows(
            "SELECT topic, count(*) AS n FROM records WHERE topic != '' GROUP BY topic ORDER BY n DESC, 1"
        )

    def vocabulary(self, start: str) -> list[tuple[str, int]]:
        """Return the words of the newest records that begin with `start` and how many of these hold each."""
        newest = f"SELECT words FROM records ORDER BY id DESC LIMIT {SAMPLED_RECORDS}"
        return self._rows("SELECT word, ndoc FROM ts_stat(%s) WHERE starts_with(word, %s)", (newest, start))

    def records(self) -> Iterator[Record]:
        """Yield every record by number."""
        with self._connection.transaction(), self._connection.cursor("every_record") as cursor:
            cursor.execute(f"SELECT {', '.join(STORED)} FROM records ORDER BY id")
            for row in cursor:
                yield from_row(row)

    def get_meta(self, name: str) -> str:
        """Return a stored setting, or an empty string."""
        rows = self._rows("SELECT value FROM meta WHERE name = %s", (name,))
        return str(rows[0][0]) if rows else ""

    def set_meta(self, name: str, value: str) -> None:
        """Store a setting."""
        self._connection.execute(
            "INSERT INTO meta VALUES (%s, %s) ON CONFLICT (name) DO UPDATE SET value = excluded.value", (name, value)
        )

    def close(self) -> None:
        """Release the database."""
        self._connection.close()

    def _changed(self, numbers: Sequence[int]) -> None:
        self._connection.execute("INSERT INTO changes (record) SELECT unnest(%s::bigint[])", (list(numbers),))

    def _rows(self, query: str, values: Sequence[Any] = ()) -> list[Any]:
        return self._connection.execute(query, values).fetchall()  # type: ignore[arg-type]

    def _value(self, query: str) -> Any:
        return self._rows(query)[0][0]


def words_vector(record: Record, pairs: str) -> str:
    """Return the literal of the ``tsvector`` of a record: every word with its positions and weight."""
    places: dict[str, list[str]] = {}
    position = 0
    parts = (
        (record.title, "A"),
        (" ; ".join(record.authors), "B"),
        (record.topic, "C"),
        (" ; ".join(record.keywords), "C"),
        (record.abstract, "D"),
        (record.summary, "D"),
    )
    for text, weight in parts:
        for word in _WORD.findall(fold(text)):
            position = min(position + 1, MAX_POSITION)
            places.setdefault(word, []).append(f"{position}{weight}")
        position = min(position + 1, MAX_POSITION)  # a gap: no phrase runs from one field into the next
    for pair in pairs.split():
        position = min(position + 1, MAX_POSITION)
        places.setdefault(pair, []).append(f"{position}D")
    return " ".join(f"'{word}':{','.join(where[:250])}" for word, where in places.items())


def tsquery(terms: Sequence[Term], filters: Filters, *, every: bool, weight: str = "") -> str:
    """Return the literal of the ``tsquery``: words hold letters and digits alone, so nothing typed is syntax.

    Args:
        terms: The terms.
        filters: Facets that must match.
        every: Whether every term must match, or any.
        weight: The one weight (A to D) that words must have; empty for any.
    """
    parts = []
    for term in terms:
        label = "" if term.cjk else weight  # CJK pairs stand in one place, whatever field they come from
        words = [f"'{word}':{label}" if label else f"'{word}'" for word in term.words]
        if term.prefix:
            words[-1] += "*" if label else ":*"
        parts.append("(" + " <-> ".join(words) + ")")
    clauses = ["(" + (" & " if every else " | ").join(parts) + ")"] if parts else []
    for label, value in (("C", filters.topic), ("C", filters.area), ("B", filters.author)):
        named = [f"'{word}':{label}" for word in _WORD.findall(fold(value))]
        if named:
            clauses.append("(" + " <-> ".join(named) + ")")
    return " & ".join(clauses)
