"""The catalog as the rest of the library uses it: open, add, search."""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import islice

from workingpapers.catalog.backend import Backend, Filters
from workingpapers.catalog.papers import all_papers
from workingpapers.catalog.query import Term, parse, snippet, spans
from workingpapers.catalog.records import Record, keys, merge, storable
from workingpapers.catalog.text import plain
from workingpapers.foundations.errors import InputError
from workingpapers.foundations.files import data_directory

DATABASE_VARIABLE = "WORKINGPAPERS_DATABASE"
BATCH = 2000
FACETED_HITS = 200


@dataclass(frozen=True)
class Hit:
    """One answer of a search: the record, its score, and its texts with the spans to highlight."""

    record: Record
    score: float
    title: str
    title_spans: Sequence[tuple[int, int]]
    snippet: str
    snippet_spans: Sequence[tuple[int, int]]


@dataclass(frozen=True)
class Answer:
    """What a search gives: hits, the number of matches, and facets counted over the best of them.

    Args:
        hits: Best first.
        total: Number of matches; a lower bound where `capped`.
        capped: Whether there are more matches than were ranked.
        exact: Whether every term had to match; False where too few records held them all and any sufficed.
        topics: Topic and count, most frequent first.
        authors: Author and count, most frequent first.
        engine: What ranked them.
    """

    hits: Sequence[Hit]
    total: int
    capped: bool
    exact: bool
    topics: Sequence[tuple[str, int]]
    authors: Sequence[tuple[str, int]]
    engine: str = "BM25"


@dataclass
class ImportReport:
    """What an import did: blocks read, records new, merged (something changed), unchanged, and rejected blocks."""

    read: int = 0
    new: int = 0
    merged: int = 0
    unchanged: int = 0
    rejected: list[tuple[str, int, str]] = field(default_factory=list)


@dataclass(frozen=True)
class Rejected:
    """A block of an imported file that cannot become a record: its line and the reason."""

    line: int
    reason: str


Entry = Record | Rejected


def open_catalog() -> Backend:
    """Return the user's catalog, with this library's own papers in it.

    ``WORKINGPAPERS_DATABASE=postgresql://...`` chooses PostgreSQL; otherwise it is a SQLite file in the data folder.

    Raises:
        InputError: The database cannot be opened.
    """
    address = os.environ.get(DATABASE_VARIABLE, "")
    backend: Backend
    if address.startswith(("postgresql://", "postgres://")):
        from workingpapers.catalog.postgres import PostgresBackend

        backend = PostgresBackend(address)
    elif address:
        raise InputError(f"{DATABASE_VARIABLE} is {address!r}; give a postgresql:// address or unset it.")
    else:
        from workingpapers.catalog.sqlite import SQLiteBackend

        backend = SQLiteBackend(data_directory() / "catalog.sqlite")
    _bring_up_to_date(backend)
    return backend


def add(backend: Backend, source: str, entries: Iterable[Entry], report: ImportReport) -> ImportReport:
    """Add the records of one source inside the caller's transaction and count what happened.

    Args:
        backend: The catalog, inside ``backend.writing()``.
        source: Name of the source, for the rejected blocks.
        entries: Records and rejected blocks.
        report: Counts to go on with.
    """
    for records, rejected in _prepared(entries):
        report.read += len(records) + len(rejected)
        report.rejected += [(source, block.line, block.reason) for block in rejected]
        _add_batch(backend, records, report)
    return report


def search(
    backend: Backend,
    query: str,
    *,
    topic: str = "",
    author: str = "",
    limit: int = 10,
    as_you_type: bool = False,
) -> Answer:
    """Return the best records for `query`.

    All terms must match; where that gives few records and there are several terms, records that match any of them
    follow. Any string is a query: what holds no word finds nothing, and an empty query gives the newest records.

    Args:
        backend: The catalog.
        query: Words, ``"phrases"``, ``prefix*``, CJK substrings.
        topic: Words of the topic that a hit must have, in order.
        author: Words of an author's name that a hit must have, in order.
        limit: Most hits to return.
        as_you_type: Whether the last word is unfinished.
    """
    terms = parse(query, as_you_type=as_you_type)
    filters = Filters(topic=topic, author=author)
    if query.strip() and not terms:
        return Answer([], 0, False, True, [], [])
    wanted = max(limit, FACETED_HITS if terms or topic or author else 0)
    matches = backend.match(terms, filters, wanted, every=True)
    ids, scores, exact = list(matches.ids), list(matches.scores), True
    total, capped = matches.total, matches.capped
    if len(ids) < min(limit, 5) and len(terms) > 1:
        more = backend.match(terms, filters, wanted, every=False)
        known = set(ids)
        added = [(number, score) for number, score in zip(more.ids, more.scores, strict=True) if number not in known]
        if added:
            exact = False
            ids += [number for number, _ in added]
            scores += [score for _, score in added]
            total, capped = more.total, more.capped
    records = backend.fetch(ids[:limit])
    facets = backend.facets(ids[:wanted])
    hits = [
        _hit(records[number], score, terms)
        for number, score in zip(ids[:limit], scores[:limit], strict=True)
        if number in records
    ]
    topics = Counter(name for name, _ in facets if name)
    authors = Counter(name for _, names in facets for name in names)
    return Answer(hits, total, capped, exact, topics.most_common(12), authors.most_common(12))


def export(backend: Backend, query: str = "") -> Iterator[Record]:
    """Yield every record, or those that match `query`, best first."""
    if not query:
        yield from backend.records()
        return
    for hit in search(backend, query, limit=1000).hits:
        yield hit.record


def _prepared(entries: Iterable[Entry]) -> Iterator[tuple[list[tuple[Record, list[int]]], list[Rejected]]]:
    """Yield batches of keyed records and rejected blocks, each made while the database works on the one before."""
    source = iter(entries)

    def prepare() -> tuple[list[tuple[Record, list[int]]], list[Rejected]]:
        records: list[tuple[Record, list[int]]] = []
        rejected: list[Rejected] = []
        for entry in islice(source, BATCH):
            if isinstance(entry, Rejected):
                rejected.append(entry)
            else:
                record = storable(entry)
                records.append((record, keys(record)))
        return records, rejected

    with ThreadPoolExecutor(max_workers=1) as pool:
        following = pool.submit(prepare)
        while True:
            batch = following.result()
            if not batch[0] and not batch[1]:
                return
            following = pool.submit(prepare)
            yield batch


def _hit(record: Record, score: float, terms: list[Term]) -> Hit:
    title = plain(record.title)
    text = snippet(plain(record.abstract or record.summary), terms)
    return Hit(record, score, title, spans(title, terms), text, spans(text, terms))


def _bring_up_to_date(backend: Backend) -> None:
    """Put this library's own records into the catalog when they changed."""
    papers = all_papers()
    digest = hashlib.sha256(repr([(paper.record(), paper.abstract_sha256) for paper in papers]).encode()).hexdigest()
    if backend.get_meta("papers") == digest:
        return
    with backend.writing():
        _add_batch(
            backend,
            [(paper.record(), keys(paper.record(), paper.abstract_sha256)) for paper in papers],
            ImportReport(),
            ours=True,
        )
        backend.set_meta("papers", digest)


def _add_batch(
    backend: Backend, batch: list[tuple[Record, list[int]]], report: ImportReport, *, ours: bool = False
) -> None:
    if not batch:
        return
    owner = backend.lookup(key for _, record_keys in batch for key in record_keys)
    known = backend.fetch(sorted(set(owner.values())))
    stored = dict(known)
    fresh: dict[int, Record] = {}
    new_keys: list[tuple[int, int]] = []
    number = backend.next_id()
    for record, record_keys in batch:
        # A list, not a set: the first match decides which number survives.
        same = list(dict.fromkeys(owner[key] for key in record_keys if key in owner))
        if not same:
            home, number = number, number + 1
            fresh[home] = record
            report.new += 1
        else:
            home = same[0]
            before = fresh.get(home) or known[home]
            after = _own_words(before, record) if ours else merge(before, record)
            for other in same[1:]:
                absorbed = fresh.pop(other, None) or known.pop(other)
                after = merge(after, absorbed)
                if other in stored:
                    backend.remove(other, stored.pop(other), home)
                new_keys = [(key, home if place == other else place) for key, place in new_keys]
                owner.update({key: home for key, place in owner.items() if place == other})
            if after != before or len(same) > 1:
                report.merged += 1
            else:
                report.unchanged += 1
            if home in fresh:
                fresh[home] = after
            else:
                known[home] = after
        for key in record_keys:
            if key not in owner:
                owner[key] = home
                new_keys.append((key, home))
    for place, before in stored.items():
        if known[place] != before:
            backend.replace(place, before, known[place])
    backend.insert(list(fresh.items()), new_keys)


def _own_words(before: Record, ours: Record) -> Record:
    """Return our record with the imported abstract kept: a paper.toml is the authority on everything that it states."""
    from dataclasses import fields, replace

    missing = {
        item.name: getattr(before, item.name)
        for item in fields(Record)
        if not getattr(ours, item.name) and getattr(before, item.name)
    }
    return replace(ours, **missing)
