"""Search: candidates from the database, ranked by BM25, with highlights and facets."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

from workingpapers.catalog.backend import Backend, Filters
from workingpapers.catalog.query import Term, parse, snippet, spans
from workingpapers.catalog.ranking import bm25
from workingpapers.catalog.records import Record
from workingpapers.catalog.text import plain

# Where more records match, the newest of them are ranked, and the newest that match in the title: such words barely
# tell papers apart, and to rank every match would take seconds at a million records.
RANKED_MATCHES = 300
TITLED_MATCHES = 100
PAIRED_MATCHES = 50
FACETED_HITS = 200
FEW_HITS = 5
RAREST_TERMS = 4


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


@dataclass(frozen=True)
class Candidates:
    """Records to rank, by number: the first `complete` of them hold every term; `capped` if there are more."""

    numbers: Sequence[int]
    complete: int
    capped: bool


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
    if not terms:
        wanted = max(limit, FACETED_HITS) if topic or author else limit
        return newest(backend, filters, limit, wanted)
    frequencies = [frequency(backend, term) for term in terms] if len(terms) > 1 else [1.0]
    found = candidates(backend, terms, frequencies, filters, min(limit, FEW_HITS))
    records = backend.fetch(found.numbers)
    scores = bm25(records, terms, frequencies, backend.last())
    # Records that hold every term come first, however often the others hold some.
    every = set(found.numbers[: found.complete])
    ranked = sorted(scores, key=lambda number: (number not in every, -scores[number], -number))
    topics = Counter(name for number in ranked[:FACETED_HITS] if (name := records[number].topic))
    authors = Counter(name for number in ranked[:FACETED_HITS] for name in records[number].authors)
    return Answer(
        hits=[hit(records[number], scores[number], terms) for number in ranked[:limit]],
        total=len(ranked),
        capped=found.capped,
        exact=found.complete == len(found.numbers),
        topics=topics.most_common(12),
        authors=authors.most_common(12),
    )


def newest(backend: Backend, filters: Filters, limit: int, wanted: int) -> Answer:
    """Return the newest records that pass the filters."""
    numbers = backend.match([], filters, wanted + 1)
    records = backend.fetch(numbers[:wanted])
    filtered = filters != Filters()
    shown = [records[number] for number in numbers[:wanted]]
    topics = Counter(record.topic for record in shown if record.topic) if filtered else Counter[str]()
    authors = Counter(name for record in shown for name in record.authors) if filtered else Counter[str]()
    return Answer(
        hits=[hit(record, 0.0, []) for record in shown[:limit]],
        total=len(shown) if filtered else backend.count(),
        capped=filtered and len(numbers) > wanted,
        exact=True,
        topics=topics.most_common(12),
        authors=authors.most_common(12),
    )


def frequency(backend: Backend, term: Term) -> float:
    """Return how many records hold `term`; of a frequent one, an estimate from how close its newest records lie."""
    numbers = backend.match([term], Filters(), RANKED_MATCHES + 1)
    if len(numbers) <= RANKED_MATCHES:
        return len(numbers)
    last = backend.last()
    return RANKED_MATCHES * last / (last - numbers[RANKED_MATCHES] + 1)


def candidates(
    backend: Backend, terms: Sequence[Term], frequencies: Sequence[float], filters: Filters, enough: int
) -> Candidates:
    """Return the records to rank: those with every term, and where they are fewer than `enough`, those with some."""
    numbers = backend.match(terms, filters, RANKED_MATCHES + 1)
    capped = len(numbers) > RANKED_MATCHES
    if capped:
        # An old paper whose title says it all must not be lost behind newer ones that mention the words.
        titled = backend.match(terms, filters, TITLED_MATCHES, in_title=True)
        numbers = list(dict.fromkeys(numbers[:RANKED_MATCHES] + titled))
    if len(numbers) >= enough or len(terms) < 2:
        return Candidates(numbers, len(numbers), capped)
    # The rarest terms tell the most: records with two of them first, then with one, until there are enough to rank.
    known = [(count, place) for place, count in enumerate(frequencies) if count]
    rarest = [terms[place] for _, place in sorted(known)]
    loose = dict.fromkeys(numbers)
    for pair in combinations(rarest[:RAREST_TERMS], 2):
        loose.update(dict.fromkeys(backend.match(pair, filters, PAIRED_MATCHES)))
    for term in rarest:
        wanted = RANKED_MATCHES - len(loose)
        if wanted <= 0:
            capped = True
            break
        single = backend.match([term], filters, wanted + 1)
        capped = capped or len(single) > wanted
        loose.update(dict.fromkeys(single[:wanted]))
    return Candidates(list(loose), len(numbers), capped)


def hit(record: Record, score: float, terms: Sequence[Term]) -> Hit:
    """Return a record as an answer."""
    title = plain(record.title)
    text = snippet(plain(record.abstract or record.summary), list(terms))
    return Hit(record, score, title, spans(title, list(terms)), text, spans(text, list(terms)))
