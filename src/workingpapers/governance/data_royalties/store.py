"""Where a ledger lives: one SQLite file, or PostgreSQL where several writers post at once."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from workingpapers.foundations.errors import InputError
from workingpapers.governance.data_royalties.journal import Draft, Entry, seal_entry
from workingpapers.governance.data_royalties.proofs import GENESIS

SCHEMA = (
    "CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL)",
    "CREATE TABLE entry (seq BIGINT PRIMARY KEY, payload TEXT NOT NULL, hash TEXT NOT NULL)",
    "CREATE TABLE event (position {integer_key}, event_id TEXT NOT NULL UNIQUE, entry BIGINT NOT NULL,"
    " refund_of TEXT, line TEXT NOT NULL)",
    "CREATE INDEX event_refund ON event (refund_of) WHERE refund_of IS NOT NULL",
    "CREATE TABLE checkpoint (seq BIGINT PRIMARY KEY, body TEXT NOT NULL, signature TEXT NOT NULL)",
)
LOCK = 0x706170657273  # any constant: the key of the advisory lock that serialises the writers of a PostgreSQL ledger
CHUNK = 500
LAST = 2**62
"""After any place."""

EventRow = tuple[str, str | None, str]
"""Event id, the event it refunds (or None), its line."""


class AlreadyPosted(Exception):
    """Another writer posted one of these events first; look them up again."""


class Store:
    """Rows of one ledger. Nothing here changes or deletes a row once it is written.

    Args:
        connection: A DB-API connection of sqlite3 or psycopg.
        postgres: Which of the two it is.
    """

    def __init__(self, connection: Any, postgres: bool) -> None:
        self._connection = connection
        self._postgres = postgres
        self._depth = 0

    @classmethod
    def create(cls, url: str) -> Store:
        """Make the tables of a new ledger at `url`: a file that is not there yet, or an empty ``postgresql://`` schema.

        Raises:
            InputError: There is something already, or no database answers.
        """
        if not is_postgres(url) and Path(url).exists():
            raise InputError(f"There is a file {url!r} already; name a new one, a ledger is never written over.")
        store = cls(_connect(url), is_postgres(url))
        with store.transaction():
            for statement in SCHEMA:
                key = "BIGINT PRIMARY KEY" if store._postgres else "INTEGER PRIMARY KEY"
                try:
                    store._execute(statement.format(integer_key=key))
                except Exception as error:
                    if type(error).__name__ != "DuplicateTable":
                        raise
                    raise InputError("That database holds a ledger already; use another schema or database.") from None
        return store

    @classmethod
    def open(cls, url: str) -> Store:
        """Open the ledger at `url`.

        Raises:
            InputError: There is none.
        """
        from workingpapers.foundations.files import check_readable

        if not is_postgres(url):
            check_readable(url)
        store = cls(_connect(url), is_postgres(url))
        try:
            store.meta("ledger")
        except Exception:
            store.close()
            place = "That database" if is_postgres(url) else repr(url)
            raise InputError(f"{place} is not a ledger; make one with `papers run data_royalties open`.") from None
        return store

    def close(self) -> None:
        """Let go of the database."""
        self._connection.close()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Hold the one writer's place; everything inside is written together or not at all, blocks within it too."""
        nested = self._depth > 0
        begin = "BEGIN" if self._postgres else "BEGIN IMMEDIATE"
        self._execute(f"SAVEPOINT level{self._depth}" if nested else begin)
        self._depth += 1
        try:
            if self._postgres and not nested:
                self._execute(f"SELECT pg_advisory_xact_lock({LOCK})")
            yield
        except BaseException:
            self._execute(f"ROLLBACK TO SAVEPOINT level{self._depth - 1}" if nested else "ROLLBACK")
            raise
        else:
            self._execute(f"RELEASE SAVEPOINT level{self._depth - 1}" if nested else "COMMIT")
        finally:
            self._depth -= 1

    def meta(self, name: str) -> str:
        """Return what is noted under `name`, or an empty string."""
        rows = self._execute("SELECT value FROM meta WHERE name = ?", (name,)).fetchall()
        return str(rows[0][0]) if rows else ""

    def note(self, name: str, value: str) -> None:
        """Note `value` under `name`, once."""
        self._execute("INSERT INTO meta VALUES (?, ?)", (name, value))

    def head(self) -> tuple[int, str]:
        """Return the place and the hash of the last entry; (-1, zeros) for an empty journal."""
        row = self._execute("SELECT seq, hash FROM entry ORDER BY seq DESC LIMIT 1").fetchone()
        return (int(row[0]), str(row[1])) if row else (-1, GENESIS)

    def append(self, draft: Draft) -> Entry:
        """Book `draft` as the next entry; inside :meth:`transaction`.

        Raises:
            InputError: It is not balanced.
        """
        seq, head = self.head()
        entry = seal_entry(draft, seq + 1, head)
        self._execute("INSERT INTO entry VALUES (?, ?, ?)", (entry.seq, entry.payload, entry.hash))
        return entry

    def entries(self, after: int = -1, upto: int = LAST) -> Iterator[Entry]:
        """Give the entries after place `after` up to place `upto`, in order, in bounded memory."""
        # Page by page and not by a cursor: no transaction stays open while the caller works.
        query = "SELECT seq, payload, hash FROM entry WHERE seq > ? AND seq <= ? ORDER BY seq LIMIT 500"
        while rows := self._execute(query, (after, upto)).fetchall():
            for row in rows:
                yield Entry(int(row[0]), str(row[1]), str(row[2]))
            after = int(rows[-1][0])

    def entry(self, seq: int) -> Entry:
        """Return the entry at place `seq`."""
        row = self._execute("SELECT seq, payload, hash FROM entry WHERE seq = ?", (seq,)).fetchone()
        return Entry(int(row[0]), str(row[1]), str(row[2]))

    def find(self, event_ids: Iterable[str]) -> dict[str, tuple[int, str]]:
        """Return event id -> (entry, line) for those of `event_ids` that are posted."""
        found: dict[str, tuple[int, str]] = {}
        names = list(event_ids)
        for start in range(0, len(names), CHUNK):
            chunk = names[start : start + CHUNK]
            marks = ", ".join("?" * len(chunk))
            for row in self._execute(f"SELECT event_id, entry, line FROM event WHERE event_id IN ({marks})", chunk):
                found[str(row[0])] = (int(row[1]), str(row[2]))
        return found

    def refunds_of(self, event_ids: Iterable[str]) -> dict[str, list[str]]:
        """Return event id -> the lines of its refunds so far."""
        found: dict[str, list[str]] = {}
        names = list(event_ids)
        for start in range(0, len(names), CHUNK):
            chunk = names[start : start + CHUNK]
            marks = ", ".join("?" * len(chunk))
            for row in self._execute(f"SELECT refund_of, line FROM event WHERE refund_of IN ({marks})", chunk):
                found.setdefault(str(row[0]), []).append(str(row[1]))
        return found

    def add_events(self, entry: int, rows: Sequence[EventRow]) -> None:
        """Write the events of `entry`; inside :meth:`transaction`.

        Raises:
            AlreadyPosted: One of them is there; the transaction must be given up.
        """
        first = int(self._execute("SELECT COALESCE(MAX(position), 0) FROM event").fetchone()[0]) + 1
        numbered = ((first + index, row[0], entry, row[1], row[2]) for index, row in enumerate(rows))
        try:
            if self._postgres:
                with self._connection.cursor().copy("COPY event FROM STDIN") as copy:
                    for record in numbered:
                        copy.write_row(record)
            else:
                self._connection.executemany("INSERT INTO event VALUES (?, ?, ?, ?, ?)", numbered)
        except Exception as error:
            if isinstance(error, sqlite3.IntegrityError) or type(error).__name__ == "UniqueViolation":
                raise AlreadyPosted from None
            raise

    def events(self, upto: int = LAST) -> Iterator[tuple[str, int, str]]:
        """Give (event id, entry, line) of the events of entries up to `upto` as posted, in bounded memory."""
        query = "SELECT event_id, entry, line, position FROM event WHERE position > ? ORDER BY position LIMIT 20000"
        position = 0
        while rows := self._execute(query, (position,)).fetchall():
            for event_id, entry, line, _ in rows:
                if int(entry) <= upto:
                    yield str(event_id), int(entry), str(line)
            position = int(rows[-1][3])

    def distinct_events(self) -> bool:
        """Whether no event id stands twice, asked of the data and not of the constraint."""
        query = "SELECT 1 FROM event GROUP BY event_id HAVING COUNT(*) > 1 LIMIT 1"
        return self._execute(query).fetchone() is None

    def add_checkpoint(self, seq: int, body: str, signature: str) -> None:
        """Keep a signed checkpoint of the chain up to entry `seq`."""
        self._execute("INSERT INTO checkpoint VALUES (?, ?, ?)", (seq, body, signature))

    def checkpoints(self) -> list[tuple[int, str, str]]:
        """Return (place, canonical text, signature) of all checkpoints in order."""
        return [(int(a), str(b), str(c)) for a, b, c in self._execute("SELECT * FROM checkpoint ORDER BY seq")]

    def _execute(self, statement: str, values: Sequence[Any] = ()) -> Any:
        return self._connection.execute(self._marks(statement), values)

    def _marks(self, statement: str) -> str:
        return statement.replace("?", "%s") if self._postgres else statement


def is_postgres(url: str) -> bool:
    """Whether `url` names a PostgreSQL database; anything else is the path of an SQLite file."""
    return url.startswith(("postgresql://", "postgres://"))


def _connect(url: str) -> Any:
    if is_postgres(url):
        try:
            import psycopg
        except ImportError:
            raise InputError("PostgreSQL needs psycopg; install workingpapers[postgres].") from None
        try:
            return psycopg.connect(url, autocommit=True)
        except psycopg.Error as error:
            reason = str(error).strip().splitlines()[0].rstrip(".")
            raise InputError(f"The PostgreSQL database cannot be opened: {reason}.") from None
    try:
        connection = sqlite3.connect(url, isolation_level=None, timeout=60.0)
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA cache_size = -131072")
    except sqlite3.Error as error:
        raise InputError(f"{url!r} cannot be opened as a ledger: {error}.") from None
    return connection
