"""The catalog as the page asks for it: open connections, search with the library's own facets, records by number."""

from __future__ import annotations

import queue
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal

from workingpapers.catalog import library, semantic
from workingpapers.catalog.backend import Backend, Filters
from workingpapers.catalog.papers import all_papers, get
from workingpapers.catalog.query import parse
from workingpapers.catalog.records import Record, keys
from workingpapers.catalog.searching import Answer, Hit
from workingpapers.catalog.similar import similar
from workingpapers.catalog.sqlite import SQLiteBackend
from workingpapers.catalog.suggesting import suggestion
from workingpapers.foundations.errors import InputError
from workingpapers.web.evidence import Evidence

CONNECTIONS = 4
OWN_LIMIT = 500
SHOWN_AUTHORS = 6
Scope = Literal["", "library", "all"]


@dataclass(frozen=True)
class Question:
    """What is searched for: words and facets.

    Args:
        text: The query.
        topic: Topic that a hit must have.
        area: First part of the topic that a hit must have.
        author: Author that a hit must have.
        verdict: Verdict of the headline claim; only the library's own papers have one.
        command: Whether a hit must have a command.
        scope: ``"library"`` for its own papers, ``"all"`` for the whole catalog; by itself the library's own papers
            until something is asked.
        limit: Most hits.
        typing: Whether somebody types right now: the answer is quick, by words alone.
        unfinished: Whether the last word may be the beginning of one.
    """

    text: str = ""
    topic: str = ""
    area: str = ""
    author: str = ""
    verdict: str = ""
    command: bool = False
    scope: Scope = ""
    limit: int = 20
    typing: bool = False
    unfinished: bool = False

    @property
    def own(self) -> bool:
        """Whether only the library's own papers can be hits."""
        asked = self.text.strip() or self.topic or self.area or self.author
        return bool(self.verdict or self.command or self.scope == "library" or (not asked and self.scope != "all"))


@dataclass(frozen=True)
class Found:
    """One hit as the page shows it."""

    hit: Hit
    number: int
    verdict: str = ""
    command: bool = False

    @property
    def address(self) -> str:
        """Where the page of it is."""
        return f"/papers/{self.hit.record.slug}" if self.hit.record.slug else f"/records/{self.number}"

    def as_json(self) -> dict[str, Any]:
        """Return it as JSON types."""
        return {
            **record_json(self.hit.record, self.number),
            "score": round(self.hit.score, 6),
            "snippet": self.hit.snippet,
            "title_marks": [list(span) for span in self.hit.title_spans],
            "snippet_marks": [list(span) for span in self.hit.snippet_spans],
            "verdict": self.verdict or None,
            "command": self.command,
            "address": self.address,
        }


@dataclass(frozen=True)
class Results:
    """What a search gives, with facets."""

    answer: Answer
    hits: Sequence[Found]
    total: int
    own: bool
    areas: Sequence[tuple[str, int]] = ()
    topics: Sequence[tuple[str, int]] = ()
    authors: Sequence[tuple[str, int]] = ()
    verdicts: Sequence[tuple[str, int]] = ()
    commands: int = 0
    extra: Mapping[str, Any] = field(default_factory=dict)


class Catalog:
    """The catalog behind a few connections that requests share."""

    def __init__(self, evidence: Evidence) -> None:
        self.evidence = evidence
        self._free: queue.LifoQueue[Backend] = queue.LifoQueue()
        self._lent: queue.Queue[None] = queue.Queue(CONNECTIONS)

    @contextmanager
    def backend(self) -> Iterator[Backend]:
        """Lend a connection."""
        self._lent.put(None)
        try:
            try:
                backend = self._free.get_nowait()
            except queue.Empty:
                backend = library.open_catalog()
            try:
                yield backend
            except BaseException:
                backend.close()  # it may be in the middle of something
                raise
            self._free.put(backend)
        finally:
            self._lent.get()

    def close(self) -> None:
        """Close what is open."""
        while not self._free.empty():
            self._free.get_nowait().close()

    def search(self, question: Question) -> Results:
        """Return the best records."""
        verdicts = self.evidence.verdicts()
        if question.own:
            return self._search_own(question, verdicts)
        with self.backend() as backend:
            answer = library.search(
                backend,
                question.text,
                topic=question.topic,
                area=question.area,
                author=question.author,
                limit=question.limit,
                as_you_type=question.typing or question.unfinished,
                engine="bm25" if question.typing else "auto",
            )
            answer = _with_suggestion(backend, question, answer)
            numbers = _numbers(backend, [hit.record for hit in answer.hits])
        hits = [_found(hit, number, verdicts) for hit, number in zip(answer.hits, numbers, strict=True)]
        return Results(
            answer=answer,
            hits=hits,
            total=answer.total,
            own=False,
            areas=_areas(answer.topics),
            topics=answer.topics,
            authors=answer.authors,
            verdicts=_verdict_counts(hits),
            commands=sum(found.command for found in hits),
        )

    def similar(self, record: Record, limit: int = 6) -> tuple[list[Found], str]:
        """Return the records most like one, and what ranked them."""
        verdicts = self.evidence.verdicts()
        with self.backend() as backend:
            answer = similar(backend, record, limit=limit)
            numbers = _numbers(backend, [hit.record for hit in answer.hits])
        pairs = zip(answer.hits, numbers, strict=True)
        return [_found(hit, number, verdicts) for hit, number in pairs], answer.engine

    def record(self, number: int) -> Record:
        """Return a record.

        Raises:
            InputError: There is none of that number.
        """
        with self.backend() as backend:
            found = backend.fetch([number]) if 0 < number < 1 << 62 else {}
        if number not in found:
            raise InputError(f"There is no record {number} in the catalog.")
        return found[number]

    def record_of(self, slug: str) -> Record:
        """Return the catalog's record of a paper, which may hold an imported abstract."""
        paper = get(slug)
        with self.backend() as backend:
            owner = backend.lookup(keys(paper.record(), paper.abstract_sha256))
            found = backend.fetch(sorted(set(owner.values()))[:1])
        return next(iter(found.values()), paper.record())

    def count(self) -> int:
        """Return the number of records."""
        with self.backend() as backend:
            return backend.count()

    def topics(self) -> list[tuple[str, int]]:
        """Return every topic with its number of records."""
        with self.backend() as backend:
            return backend.topics()

    def warm_up(self) -> None:
        """Do once what the first search would wait for."""
        self.search(Question("warm up", scope="all"))

    @cached_property
    def _own(self) -> Backend:
        """The library's own papers alone, so that facets which only they have are complete and quick."""
        from pathlib import Path

        backend = SQLiteBackend(Path(":memory:"))
        with backend.writing():
            library.add(backend, "papers", (paper.record() for paper in all_papers()), library.ImportReport())
        return backend

    def _search_own(self, question: Question, verdicts: Mapping[str, str]) -> Results:
        answer = library.search(
            self._own,
            question.text,
            topic=question.topic,
            author=question.author,
            area=question.area,
            limit=OWN_LIMIT,
            as_you_type=question.typing or question.unfinished,
            engine="bm25",
        )
        answer = _with_suggestion(self._own, question, answer)
        everything = [_found(hit, 0, verdicts) for hit in answer.hits]
        if not question.text.strip():
            everything.sort(key=lambda found: (get(found.hit.record.slug).area, found.hit.record.slug))
        hits = [
            found
            for found in everything
            if (not question.verdict or (found.verdict or "not measured") == question.verdict)
            and (not question.command or found.command)
        ]
        topics = Counter(found.hit.record.topic for found in hits)
        authors = Counter(name for found in hits for name in found.hit.record.authors)
        return Results(
            answer=answer,
            hits=hits[: max(question.limit, 60) if not question.text.strip() else question.limit],
            total=len(hits),
            own=True,
            areas=_areas(topics.most_common()),
            topics=topics.most_common(12),
            authors=authors.most_common(8) if question.text.strip() or question.author else [],
            verdicts=_verdict_counts(everything),
            commands=sum(found.command for found in everything),
        )


def record_json(record: Record, number: int) -> dict[str, Any]:
    """Return a record as JSON types."""
    return {
        "number": number or None,
        "title": record.title,
        "heading": record.heading,
        "authors": list(record.authors),
        "authors_complete": record.authors_complete,
        "topic": record.topic,
        "venue": record.venue,
        "year": record.year,
        "doi": record.doi,
        "arxiv": record.arxiv,
        "url": record.url,
        "keywords": list(record.keywords),
        "slug": record.slug or None,
    }


def short_byline(record: Record) -> str:
    """Return the first authors, with *et al.* where there are more or where the source cut the list."""
    if len(record.authors) <= SHOWN_AUTHORS:
        return record.byline
    return ", ".join(record.authors[:SHOWN_AUTHORS]) + " et al."


def _with_suggestion(backend: Backend, question: Question, answer: Answer) -> Answer:
    """Return an answer with other words where the last one, taken as a beginning, begins none that is known."""
    beginnings = parse(question.text, as_you_type=True)
    if answer.suggestion or question.typing or not question.unfinished or not beginnings:
        return answer
    if not beginnings[-1].prefix or backend.match(beginnings[-1:], Filters(), 1):
        return answer
    return replace(answer, suggestion=suggestion(backend, question.text, parse(question.text)))


def area_of(topic: str) -> str:
    """Return the first part of a topic."""
    return topic.split(" · ")[0]


def catch_up() -> None:
    """Bring the index for search by meaning up to date where few records wait; many are left to ``papers index``."""
    from workingpapers.catalog_commands import AUTOMATIC

    if semantic.missing_packages():
        return
    backend = library.open_catalog()
    try:
        index = semantic.open_index(backend)
        if index is not None and 0 < index.behind(backend, AUTOMATIC + 1) <= AUTOMATIC:
            index.update(backend, engine="numpy")
    finally:
        backend.close()


def _found(hit: Hit, number: int, verdicts: Mapping[str, str]) -> Found:
    slug = hit.record.slug
    if slug not in verdicts:
        return Found(hit, number)
    return Found(hit, number, verdicts[slug], get(slug).has_command)


def _numbers(backend: Backend, records: Sequence[Record]) -> list[int]:
    wanted = [keys(record) for record in records]
    owner = backend.lookup(key for group in wanted for key in group)
    return [next((owner[key] for key in group if key in owner), 0) for group in wanted]


def _areas(topics: Sequence[tuple[str, int]]) -> list[tuple[str, int]]:
    counts: Counter[str] = Counter()
    for topic, count in topics:
        counts[area_of(topic)] += count
    return counts.most_common(8)


def _verdict_counts(hits: Sequence[Found]) -> list[tuple[str, int]]:
    counts = Counter(found.verdict or "not measured" for found in hits if found.hit.record.slug)
    order = ("supported", "not supported", "inconclusive", "not measured")
    return [(verdict, counts[verdict]) for verdict in order if counts[verdict]]


def raise_unknown_verdict(verdict: str) -> None:
    """Raise where `verdict` is none.

    Raises:
        InputError: It is none.
    """
    known = ("", "supported", "not supported", "inconclusive", "not measured")
    if verdict not in known:
        raise InputError(f"There is no verdict {verdict!r}; choose one of {', '.join(known[1:])}.")
