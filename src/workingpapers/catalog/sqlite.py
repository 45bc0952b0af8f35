"""The catalog in one SQLite file: records, keys, and an FTS5 index over the records' own text (no second copy)."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from workingpapers.catalog.backend import RANKED_MATCHES, Filters, Matches
from workingpapers.catalog.query import Term
from workingpapers.catalog.records import Record
from workingpapers.catalog.text import pairs
from workingpapers.foundations.errors import InputError

INDEXED = ("title", "authors", "topic", "keywords", "abstract", "summary", "cjk")
WEIGHTS = (8.0, 4.0, 3.0, 4.0, 1.0, 2.0, 1.0)
STORED = (
    "title",
    "authors",
    "authors_complete",
    "topic",
    "abstract",
    "year",
    "venue",
    "doi",
    "arxiv",
    "openreview",
    "url",
    "keywords",
    "slug",
    "summary",
)
SCHEMA = f"""
CREATE TABLE IF NOT EXISTS meta (name TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS records (
  id INTEGER PRIMARY KEY, title TEXT, authors TEXT, authors_complete INTEGER, topic TEXT, abstract TEXT, year INTEGER,
  venue TEXT, doi TEXT, arxiv TEXT, openreview TEXT, url TEXT, keywords TEXT, slug TEXT, summary TEXT, cjk TEXT
);
CREATE TABLE IF NOT EXISTS keys (key INTEGER PRIMARY KEY, record INTEGER NOT NULL);
CREATE VIRTUAL TABLE IF NOT EXISTS search USING fts5(
  {", ".join(INDEXED)}, content = 'records', content_rowid = 'id',
  tokenize = 'unicode61 remove_diacritics 2'
);
"""
SCHEMA_VERSION = "1"
READING_CACHE_KIB = 64 * 1024
WRITING_CACHE_KIB = 192 * 1024
_SEPARATOR = "; "
_INSERT_RECORDS = "INSERT INTO records (id, {columns}, cjk) SELECT {values} FROM json_each(?)".format(
    columns=", ".join(STORED), values=", ".join(f"json_extract(value, '$[{i}]')" for i in range(len(STORED) + 2))
)


class SQLiteBackend:
    """The embedded catalog. One writer and many readers at once (write-ahead log)."""

    name = "sqlite"

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._connection = sqlite3.connect(path, timeout=60, isolation_level=None, check_same_thread=False)
            self._connection.execute("PRAGMA journal_mode = WAL")
            self._connection.execute("PRAGMA synchronous = NORMAL")
            self._connection.execute(f"PRAGMA cache_size = -{READING_CACHE_KIB}")
            self._connection.execute("PRAGMA mmap_size = 268435456")
            if not self._connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'search'").fetchone():
                self._connection.executescript(SCHEMA)
                # Terms gather in 64 MiB of memory, and segments merge only where sixteen have come together: an import
                # takes half the time that it takes with FTS5's defaults, and a query looks into a few segments more.
                for option, value in (("hashsize", 67108864), ("automerge", 0), ("crisismerge", 16)):
                    self._connection.execute("INSERT INTO search (search, rank) VALUES (?, ?)", (option, value))
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
        try:
            yield
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
            marks = ",".join("?" * len(chunk))
            rows = self._connection.execute(f"SELECT id, {', '.join(STORED)} FROM records WHERE id IN ({marks})", chunk)
            found.update((row[0], from_row(row[1:])) for row in rows)
        return found

    def facets(self, ids: Sequence[int]) -> list[tuple[str, tuple[str, ...]]]:
        """Return topic and authors of records, without reading the rest of them."""
        rows = self._connection.execute(
            "SELECT topic, authors FROM records WHERE id IN (SELECT value FROM json_each(?))", (json.dumps(list(ids)),)
        )
        return [(topic, tuple(authors.split(_SEPARATOR)) if authors else ()) for topic, authors in rows]

    def insert(self, rows: Sequence[tuple[int, Record]], keys: Sequence[tuple[int, int]]) -> None:
        """Add new records and their keys.

        Each statement takes a whole batch, as JSON: SQLite then works without Python's lock, while another thread
        parses the records to come.
        """
        if rows:
            batch = json.dumps([(number, *to_row(record)) for number, record in rows], ensure_ascii=False)
            self._connection.execute(_INSERT_RECORDS, (batch,))
            first, last = min(number for number, _ in rows), max(number for number, _ in rows)
            columns = ", ".join(INDEXED)
            self._connection.execute(
                f"INSERT INTO search (rowid, {columns}) SELECT id, {columns} FROM records WHERE id BETWEEN ? AND ?",
                (first, last),
            )
        self.add_keys(keys)

    def replace(self, number: int, old: Record, new: Record) -> None:
        """Change one record in place."""
        self._unindex(number, old)
        row = to_row(new)
        changes = ", ".join(f"{name} = ?" for name in (*STORED, "cjk"))
        self._connection.execute(f"UPDATE records SET {changes} WHERE id = ?", (*row, number))
        self._connection.execute(
            f"INSERT INTO search (rowid, {', '.join(INDEXED)}) VALUES (?, ?, ?, ?, ?, ?, ?, ?)", (number, *indexed(row))
        )

    def remove(self, number: int, old: Record, into: int) -> None:
        """Remove a record whose keys now belong to `into`."""
        self._unindex(number, old)
        self._connection.execute("DELETE FROM records WHERE id = ?", (number,))
        self._connection.execute("UPDATE keys SET record = ? WHERE record = ?", (into, number))

    def add_keys(self, keys: Sequence[tuple[int, int]]) -> None:
        """Point further keys at records; known keys stay."""
        self._connection.execute(
            "INSERT OR IGNORE INTO keys (key, record)"
            " SELECT json_extract(value, '$[0]') AS key, json_extract(value, '$[1]') FROM json_each(?) ORDER BY key",
            (json.dumps(keys),),
        )

    def match(self, terms: Sequence[Term], filters: Filters, limit: int, *, every: bool) -> Matches:
        """Return ranked matches."""
        expression = match_expression(terms, filters, every=every)
        if not expression:
            ids = [
                row[0] for row in self._connection.execute("SELECT id FROM records ORDER BY id DESC LIMIT ?", (limit,))
            ]
            return Matches(ids, [0.0] * len(ids), self.count(), False)
        rows, capped = self._ranked(expression)
        if capped and any(not term.cjk for term in terms):
            # An old paper whose title says it all must not be lost behind newer ones that mention the words.
            titled = match_expression([term for term in terms if not term.cjk], filters, every=every, column="title")
            known = {number for number, _ in rows}
            rows += [row for row in self._ranked(f"({expression}) AND ({titled})")[0] if row[0] not in known]
            rows.sort(key=lambda row: (row[1], -row[0]))
        best = rows[:limit]
        return Matches([row[0] for row in best], [-row[1] for row in best], len(rows), capped)

    def count(self) -> int:
        """Return the number of records."""
        return int(self._connection.execute("SELECT count(*) FROM records").fetchone()[0])

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

    def _ranked(self, expression: str) -> tuple[list[tuple[int, float]], bool]:
        """Return (number, BM25) of the newest matches, best first, and whether there are more."""
        beyond = self._connection.execute(
            "SELECT rowid FROM search WHERE search MATCH ? ORDER BY rowid DESC LIMIT 1 OFFSET ?",
            (expression, RANKED_MATCHES),
        ).fetchone()
        weights = ", ".join(map(str, WEIGHTS))
        rows = self._connection.execute(
            f"SELECT rowid, bm25(search, {weights}) AS score FROM search WHERE search MATCH ? AND rowid > ?"
            " ORDER BY score, rowid DESC",
            (expression, beyond[0] if beyond else 0),
        ).fetchall()
        return rows, beyond is not None

    def _unindex(self, number: int, old: Record) -> None:
        # An external-content index must be told the old text exactly, or its counts go wrong.
        columns = ", ".join(INDEXED)
        self._connection.execute(
            f"INSERT INTO search (search, rowid, {columns}) VALUES ('delete', ?, ?, ?, ?, ?, ?, ?, ?)",
            (number, *indexed(to_row(old))),
        )


def to_row(record: Record) -> tuple[object, ...]:
    """Return the stored columns of `record`, then its CJK pairs."""
    authors, keywords = _SEPARATOR.join(record.authors), _SEPARATOR.join(record.keywords)
    joined = (
        "" if (record.title + record.abstract + authors).isascii() else f"{record.title} {authors} {record.abstract}"
    )
    return (
        record.title,
        authors,
        int(record.authors_complete),
        record.topic,
        record.abstract,
        record.year,
        record.venue,
        record.doi,
        record.arxiv,
        record.openreview,
        record.url,
        keywords,
        record.slug,
        record.summary,
        pairs(joined),
    )


def from_row(row: Sequence[object]) -> Record:
    """Return the record of the stored columns."""
    values = dict(zip(STORED, row, strict=True))
    for name in ("authors", "keywords"):
        values[name] = tuple(str(values[name]).split(_SEPARATOR)) if values[name] else ()
    values["authors_complete"] = bool(values["authors_complete"])
    return Record(**values)  # type: ignore[arg-type]


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
