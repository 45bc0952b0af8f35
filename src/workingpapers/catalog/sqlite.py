"""The catalog in one SQLite file: records, keys, and an FTS5 index over the records' own text (no second copy)."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from workingpapers.catalog.backend import Filters
from workingpapers.catalog.query import Term
from workingpapers.catalog.records import STORED, Record, Row, from_row, to_row
from workingpapers.foundations.errors import InputError

INDEXED = ("title", "authors", "topic", "keywords", "abstract", "summary", "cjk")
SCHEMA = f"""
CREATE TABLE IF NOT EXISTS meta (name TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS records (
  id INTEGER PRIMARY KEY, title TEXT, authors TEXT, authors_complete INTEGER, topic TEXT, abstract TEXT, year INTEGER,
  venue TEXT, doi TEXT, arxiv TEXT, openreview TEXT, url TEXT, keywords TEXT, slug TEXT, summary TEXT, cjk TEXT
);
CREATE TABLE IF NOT EXISTS keys (key INTEGER PRIMARY KEY, record INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS changes (number INTEGER PRIMARY KEY AUTOINCREMENT, record INTEGER NOT NULL);
CREATE VIRTUAL TABLE IF NOT EXISTS search USING fts5(
  {", ".join(INDEXED)}, content = 'records', content_rowid = 'id',
  tokenize = 'unicode61 remove_diacritics 2'
);
"""
VOCABULARY = "CREATE VIRTUAL TABLE IF NOT EXISTS temp.vocabulary USING fts5vocab('main', 'search', 'row')"
SCHEMA_VERSION = "2"
READING_CACHE_KIB = 64 * 1024
WRITING_CACHE_KIB = 160 * 1024
MANY_RECORDS = 20_000


class SQLiteBackend:
    """The embedded catalog. One writer and many readers at once (write-ahead log)."""

    name = "sqlite"

    def __init__(self, path: Path) -> None:
        self.path = path
        self._added = 0
        try:
            self._connection = sqlite3.connect(path, timeout=60, isolation_level=None, check_same_thread=False)
            self._connection.execute("PRAGMA journal_mode = WAL")
            self._connection.execute("PRAGMA synchronous = NORMAL")
            self._connection.execute(f"PRAGMA cache_size = -{READING_CACHE_KIB}")
            self._connection.execute("PRAGMA mmap_size = 268435456")
            if not self._connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'search'").fetchone():
                self._connection.executescript(SCHEMA)
                # Terms gather in 64 MiB of memory and segments merge only where many have come together, or at the end
                # of a large import: it takes half the time that it takes with FTS5's defaults.
                for option, value in (("hashsize", 64 << 20), ("automerge", 0), ("crisismerge", 64)):
                    self._connection.execute("INSERT INTO search (search, rank) VALUES (?, ?)", (option, value))
                self.set_meta("schema", SCHEMA_VERSION)
            elif self.get_meta("schema") == "1":
                self._connection.executescript(SCHEMA)
                self._connection.execute("INSERT INTO changes (record) SELECT id FROM records ORDER BY id")
                self.set_meta("schema", SCHEMA_VERSION)
        except sqlite3.Error as error:
            raise InputError(
                f"The catalog {str(path)!r} cannot be used ({error}); move it away and import again."
            ) from None

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Open the one write transaction."""
        # The keys of a million records fit into this cache; in a smaller one every insert becomes a read from disk.
        self._connection.execute(f"PRAGMA cache_size = -{WRITING_CACHE_KIB}")
        self._connection.execute("BEGIN IMMEDIATE")
        self._added = 0
        try:
            yield
            if self._added >= MANY_RECORDS:
                # The many segments of a large import become one, or every query would look into each.
                self._connection.execute("INSERT INTO search (search) VALUES ('optimize')")
        except BaseException:
            self._connection.execute("ROLLBACK")
            raise
        else:
            self._connection.execute("COMMIT")
            self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        finally:
            self._connection.execute(f"PRAGMA cache_size = -{READING_CACHE_KIB}")

    def next_id(self) -> int:
        """Return the first unused record number."""
        return int(self._connection.execute("SELECT ifnull(max(id), 0) + 1 FROM records").fetchone()[0])

    def lookup(self, keys: Iterable[int]) -> dict[int, int]:
        """Return key -> record number for the keys that are known."""
        return dict(
            self._connection.execute(
                "SELECT key, record FROM keys WHERE key IN (SELECT value FROM json_each(?))", (json.dumps(list(keys)),)
            )
        )

    def fetch(self, ids: Sequence[int]) -> dict[int, Record]:
        """Return record number -> record."""
        found: dict[int, Record] = {}
        for start in range(0, len(ids), 500):
            chunk = list(ids[start : start + 500])
            rows = self._connection.execute(
                f"SELECT id, {', '.join(STORED)} FROM records WHERE id IN ({_marks(len(chunk))})", chunk
            )
            found.update((row[0], from_row(row[1:])) for row in rows)
        return found

    def insert(self, rows: Sequence[tuple[int, Row]], keys: Sequence[tuple[int, int]]) -> None:
        """Add new records and their keys."""
        self._connection.executemany(
            f"INSERT INTO records (id, {', '.join(STORED)}, cjk) VALUES ({_marks(len(STORED) + 2)})",
            [(number, *row) for number, row in rows],
        )
        self._connection.executemany(
            f"INSERT INTO search (rowid, {', '.join(INDEXED)}) VALUES ({_marks(len(INDEXED) + 1)})",
            [(number, *indexed(row)) for number, row in rows],
        )
        self._connection.executemany("INSERT INTO changes (record) VALUES (?)", [(number,) for number, _ in rows])
        self.add_keys(keys)
        self._added += len(rows)

    def replace(self, number: int, old: Record, new: Record) -> None:
        """Change one record in place."""
        self._unindex(number, old)
        row = to_row(new)
        changes = ", ".join(f"{name} = ?" for name in (*STORED, "cjk"))
        self._connection.execute(f"UPDATE records SET {changes} WHERE id = ?", (*row, number))
        self._connection.execute(
            f"INSERT INTO search (rowid, {', '.join(INDEXED)}) VALUES ({_marks(len(INDEXED) + 1)})",
            (number, *indexed(row)),
        )
        self._connection.execute("INSERT INTO changes (record) VALUES (?)", (number,))

    def remove(self, number: int, old: Record, into: int) -> None:
        """Remove a record whose keys now belong to `into`."""
        self._unindex(number, old)
        self._connection.execute("DELETE FROM records WHERE id = ?", (number,))
        self._connection.execute("UPDATE keys SET record = ? WHERE record = ?", (into, number))
        self._connection.execute("INSERT INTO changes (record) VALUES (?)", (number,))

    def add_keys(self, keys: Sequence[tuple[int, int]]) -> None:
        """Point further keys at records; known keys stay."""
        # In order, for neighbours in the tree share a page.
        self._connection.executemany("INSERT OR IGNORE INTO keys (key, record) VALUES (?, ?)", sorted(keys))

    def match(
        self, terms: Sequence[Term], filters: Filters, limit: int, *, every: bool = True, in_title: bool = False
    ) -> list[int]:
        """Return the newest records that match."""
        expression = match_expression(terms, filters, every=every, column="title" if in_title else "")
        if not expression:
            rows = self._connection.execute("SELECT id FROM records ORDER BY id DESC LIMIT ?", (limit,))
        else:
            rows = self._connection.execute(
                "SELECT rowid FROM search WHERE search MATCH ? ORDER BY rowid DESC LIMIT ?", (expression, limit)
            )
        return [row[0] for row in rows]

    def last(self) -> int:
        """Return the largest record number."""
        return self.next_id() - 1

    def count(self) -> int:
        """Return the number of records."""
        return int(self._connection.execute("SELECT count(*) FROM records").fetchone()[0])

    def changes(self, after: int, limit: int) -> list[tuple[int, int]]:
        """Return the oldest changes after number `after`."""
        return self._connection.execute(
            "SELECT number, record FROM changes WHERE number > ? ORDER BY number LIMIT ?", (after, limit)
        ).fetchall()

    def topics(self) -> list[tuple[str, int]]:
        """Return every topic and its number of records."""
        return self._connection.execute(
            "SELECT topic, count(*) AS n FROM records WHERE topic != '' GROUP BY topic ORDER BY n DESC, topic"
        ).fetchall()

    def vocabulary(self, start: str) -> list[tuple[str, int]]:
        """Return the indexed words that begin with `start` and how many records hold each."""
        self._connection.execute(VOCABULARY)
        return self._connection.execute(
            "SELECT term, doc FROM vocabulary WHERE term >= ? AND term < ?", (start, start + "\U0010ffff")
        ).fetchall()

    def records(self) -> Iterator[Record]:
        """Yield every record by number."""
        for row in self._connection.execute(f"SELECT {', '.join(STORED)} FROM records ORDER BY id"):
            yield from_row(row)

    def get_meta(self, name: str) -> str:
        """Return a stored setting, or an empty string."""
        row = self._connection.execute("SELECT value FROM meta WHERE name = ?", (name,)).fetchone()
        return str(row[0]) if row else ""

    def set_meta(self, name: str, value: str) -> None:
        """Store a setting."""
        self._connection.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (name, value))

    def close(self) -> None:
        """Release the database."""
        self._connection.close()

    def _unindex(self, number: int, old: Record) -> None:
        # An external-content index must be told the old text exactly, or its counts go wrong.
        columns = ", ".join(INDEXED)
        self._connection.execute(
            f"INSERT INTO search (search, rowid, {columns}) VALUES ('delete', {_marks(len(INDEXED) + 1)})",
            (number, *indexed(to_row(old))),
        )


def _marks(count: int) -> str:
    return ", ".join("?" * count)


def indexed(row: Sequence[object]) -> tuple[object, ...]:
    """Return the indexed columns of a stored row, in the order of ``INDEXED``."""
    return row[0], row[1], row[3], row[11], row[4], row[13], row[14]


def match_expression(terms: Sequence[Term], filters: Filters, *, every: bool, column: str = "") -> str:
    """Return the FTS5 expression: every term is a quoted string, so that nothing a person types is syntax.

    Args:
        terms: The terms.
        filters: Facets that must match.
        every: Whether every term must match, or any.
        column: The one column to look into; empty for all.
    """
    parts = []
    for term in terms:
        where = "cjk : " if term.cjk else f"{column} : " if column else ""
        parts.append(f'{where}"{" ".join(term.words)}"{" *" if term.prefix else ""}')
    clauses = [f"({(' AND ' if every else ' OR ').join(parts)})"] if parts else []
    for column, value in (("topic", filters.topic), ("topic", filters.area), ("authors", filters.author)):
        words = "".join(char if char.isalnum() else " " for char in value).split()
        if words:
            clauses.append(f'{column} : "{" ".join(words)}"')
    return " AND ".join(clauses)
