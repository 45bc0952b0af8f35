"""What the catalog asks of a database; SQLite and PostgreSQL answer in the same terms."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

from workingpapers.catalog.query import Term
from workingpapers.catalog.records import Record, Row


@dataclass(frozen=True)
class Filters:
    """Facets that a hit must have; empty strings do not filter."""

    topic: str = ""
    author: str = ""
    area: str = ""


class Backend(Protocol):
    """One catalog database. Writing happens inside :meth:`writing`, which is one transaction."""

    name: str

    def writing(self) -> AbstractContextManager[None]:
        """Open the one write transaction; an exception inside leaves the catalog as it was."""

    def next_id(self) -> int:
        """Return the first unused record number."""

    def lookup(self, keys: Iterable[int]) -> dict[int, int]:
        """Return key -> record number for the keys that are known."""

    def fetch(self, ids: Sequence[int]) -> dict[int, Record]:
        """Return record number -> record."""

    def insert(self, rows: Sequence[tuple[int, Row]], keys: Sequence[tuple[int, int]]) -> None:
        """Add new records, and keys as (key, record number)."""

    def replace(self, number: int, old: Record, new: Record) -> None:
        """Change one record in place."""

    def remove(self, number: int, old: Record, into: int) -> None:
        """Remove a record whose keys now belong to `into`."""

    def add_keys(self, keys: Sequence[tuple[int, int]]) -> None:
        """Point further keys at records; known keys stay."""

    def match(
        self, terms: Sequence[Term], filters: Filters, limit: int, *, every: bool = True, in_title: bool = False
    ) -> list[int]:
        """Return the newest records that hold all terms (`every`) or any, at most `limit`, newest first.

        Without terms and filters these are the newest records of all; `in_title` looks for the words in titles alone.
        """

    def last(self) -> int:
        """Return the largest record number."""

    def count(self) -> int:
        """Return the number of records."""

    def changes(self, after: int, limit: int) -> list[tuple[int, int]]:
        """Return (number of the change, record) of the oldest changes after number `after`.

        A record that is new, changed or removed makes a change; a removed one is no longer there to fetch.
        """

    def topics(self) -> list[tuple[str, int]]:
        """Return every topic and its number of records, most frequent first."""

    def vocabulary(self, start: str) -> list[tuple[str, int]]:
        """Return the indexed words that begin with `start` and how many records hold each, at least a sample."""

    def records(self) -> Iterator[Record]:
        """Yield every record by number."""

    def get_meta(self, name: str) -> str:
        """Return a stored setting, or an empty string."""

    def set_meta(self, name: str, value: str) -> None:
        """Store a setting."""

    def close(self) -> None:
        """Release the database."""
