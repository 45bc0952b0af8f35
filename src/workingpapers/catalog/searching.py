"""Search: candidates from the database ranked by BM25, fused with search by meaning where that is installed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Literal

from workingpapers.catalog.backend import Backend, Filters
from workingpapers.catalog.glossary import in_english
from workingpapers.catalog.query import Term, parse, snippet, spans
from workingpapers.catalog.ranking import bm25, occurrences
from workingpapers.catalog.records import Record
from workingpapers.catalog.text import fold, plain

if TYPE_CHECKING:
    from workingpapers.catalog.semantic import SemanticIndex

Engine = Literal["auto", "bm25", "semantic", "hybrid"]
ENGINE_NAMES = {
    "bm25": "BM25",
    "semantic": "late interaction",
    "hybrid": "BM25 and late interaction",
}

# Where more records match, the newest of them are ranked, and the newest that match in the title: such words barely
# tell papers apart, and to rank every match would take seconds at a million records.
RANKED_MATCHES = 300
TITLED_MATCHES = 100
PAIRED_MATCHES = 50
FACETED_HITS = 200
FEW_HITS = 5
RAREST_TERMS = 4
# Reciprocal rank fusion: sum over rankings of weight / (RANK_OFFSET + rank). Measured by benchmarks/search_quality.py.
RANK_OFFSET = 3
MEANT_MATCHES = 30  # records that may be found by meaning alone: behind them nearness says little
FUSION_WEIGHTS = {"bm25": 1.0, "every term": 4.0, "late": 2.0, "pooled": 1.0}


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
        suggestion: The query with unknown words replaced by known ones; empty where there is nothing to suggest.
        translated: What a Chinese query was taken to mean in English; empty otherwise.
    """

    hits: Sequence[Hit]
    total: int
    capped: bool
    exact: bool
    topics: Sequence[tuple[str, int]]
    authors: Sequence[tuple[str, int]]
    engine: str = ENGINE_NAMES["bm25"]
    suggestion: str = ""
    translated: str = ""


@dataclass(frozen=True)
class Lexical:
    """What the words of a query find: record numbers, best first, and their scores.

    `complete` of them hold every term, and there are more where `capped`.
    """

    ranked: Sequence[int]
    scores: Mapping[int, float]
    complete: int
    capped: bool


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
    area: str = "",
    limit: int = 10,
    as_you_type: bool = False,
    engine: Engine = "auto",
) -> Answer:
    """Return the best records for `query`.

    BM25 takes records with all terms, and where they are few, records with some. Search by meaning adds the records
    that are nearest. A Chinese query also searches for what the glossary makes of it in English. Any string is a query:
    what holds no word finds nothing, and an empty query gives the newest records.

    Args:
        backend: The catalog.
        query: Words, ``"phrases"``, ``prefix*``, CJK substrings.
        topic: Words of the topic that a hit must have, in order.
        author: Words of an author's name that a hit must have, in order.
        area: First part of the topic that a hit must have, whole.
        limit: Most hits to return.
        as_you_type: Whether the last word is unfinished.
        engine: ``"bm25"``, ``"semantic"``, ``"hybrid"``, or ``"auto"``: hybrid where it is installed and indexed.

    Raises:
        InputError: An engine that is not installed or has no index yet.
    """
    terms = parse(query, as_you_type=as_you_type)
    filters = Filters(topic=topic, author=author, area=area)
    if query.strip() and not terms:
        return Answer([], 0, False, True, [], [])
    if not terms:
        wanted = max(limit, FACETED_HITS) if filters != Filters() else limit
        return newest(backend, filters, limit, wanted)
    english = in_english(query)
    translated = english if english != query else ""
    index = _index_for(backend, engine)
    chosen = engine if engine != "auto" else "hybrid" if index else "bm25"
    found = lexical(backend, terms, filters, min(limit, FEW_HITS))
    shown = list(terms)
    if translated and (more := parse(translated)):
        found = _followed_by(found, lexical(backend, more, filters, min(limit, FEW_HITS)))
        shown += more
    records = dict(backend.fetch(found.ranked))
    rankings: dict[str, list[int]] = {}
    if chosen != "semantic":
        rankings["bm25"] = list(found.ranked)
        rankings["every term"] = list(found.ranked[: found.complete])  # a name, an acronym: exact words are meant
    if index:
        meant = index.search(translated or query, found.ranked)
        nearest = meant.late if filters != Filters() else meant.late[:MEANT_MATCHES]
        records |= backend.fetch([number for number in nearest if number not in records])
        kept = {number for number, record in records.items() if passes(record, filters)}
        rankings["late"] = [number for number in meant.late if number in kept]
        rankings["pooled"] = [number for number in meant.pooled if number in kept]
    scores = fuse(rankings) if index else found.scores
    ranked = sorted(scores, key=lambda number: (-scores[number], -number)) if index else list(found.ranked)
    topics = Counter(name for number in ranked[:FACETED_HITS] if (name := records[number].topic))
    authors = Counter(name for number in ranked[:FACETED_HITS] for name in records[number].authors)
    return Answer(
        hits=[hit(records[number], scores[number], shown) for number in ranked[:limit]],
        total=len(ranked),
        capped=found.capped or bool(index),
        exact=found.complete == len(ranked),
        topics=topics.most_common(12),
        authors=authors.most_common(12),
        engine=ENGINE_NAMES[chosen],
        suggestion=_suggestion(backend, query, terms, found),
        translated=translated,
    )


def lexical(backend: Backend, terms: Sequence[Term], filters: Filters, enough: int) -> Lexical:
    """Return what the words find, by BM25; records that hold every term come first, however often others hold some.

    Args:
        backend: The catalog.
        terms: Terms of the query.
        filters: Facets that a hit must have.
        enough: Number of records with every term from which on others are not looked for.
    """
    frequencies = [frequency(backend, term) for term in terms] if len(terms) > 1 else [1.0]
    found = candidates(backend, terms, frequencies, filters, enough)
    # The database finds an area's words anywhere in a topic.
    records = {
        number: record for number, record in backend.fetch(found.numbers).items() if in_area(record, filters.area)
    }
    scores = bm25(records, terms, frequencies, backend.last())
    every = {number for number in found.numbers[: found.complete] if number in records}
    ranked = sorted(scores, key=lambda number: (number not in every, -scores[number], -number))
    return Lexical(ranked, scores, len(every), found.capped)


def fuse(rankings: Mapping[str, Sequence[int]]) -> dict[int, float]:
    """Return record number -> score of the weighted reciprocal rank fusion.

    Args:
        rankings: Name of a ranking -> record numbers, best first.

    References:
        Cormack, Clarke and Buettcher (2009). Reciprocal rank fusion outperforms Condorcet. doi:10.1145/1571941.1572114.
    """
    scores: dict[int, float] = {}
    for name, ranking in rankings.items():
        for place, number in enumerate(ranking, 1):
            scores[number] = scores.get(number, 0.0) + FUSION_WEIGHTS[name] / (RANK_OFFSET + place)
    return scores


def passes(record: Record, filters: Filters) -> bool:
    """Return whether a record has the facets, as the database would."""
    if not in_area(record, filters.area):
        return False
    wanted = ((filters.topic, record.topic), (filters.author, "; ".join(record.authors)))
    for words, text in wanted:
        term = parse(f'"{words}"')[:1] if words else []
        if term and not occurrences(" ".join("".join(c if c.isalnum() else " " for c in fold(text)).split()), term[0]):
            return False
    return True


def in_area(record: Record, area: str) -> bool:
    """Return whether the first part of a record's topic is `area`; any record is in the empty one."""
    return not area.strip() or fold(record.topic.split(" · ")[0]).strip() == fold(area).strip()


def newest(backend: Backend, filters: Filters, limit: int, wanted: int) -> Answer:
    """Return the newest records that pass the filters."""
    numbers = backend.match([], filters, wanted + 1)
    records = backend.fetch(numbers[:wanted])
    filtered = filters != Filters()
    shown = [records[number] for number in numbers[:wanted] if in_area(records[number], filters.area)]
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


def _followed_by(first: Lexical, second: Lexical) -> Lexical:
    """Return the records of `first`, then those that only `second` found."""
    ranked = list(dict.fromkeys([*first.ranked, *second.ranked]))
    complete = len(first.ranked) + second.complete if first.complete else second.complete
    return Lexical(ranked, {**second.scores, **first.scores}, min(complete, len(ranked)), first.capped or second.capped)


def _index_for(backend: Backend, engine: Engine) -> SemanticIndex | None:
    """Return the semantic index to search, None for BM25 alone."""
    if engine == "bm25":
        return None
    from workingpapers.catalog import semantic
    from workingpapers.foundations.errors import InputError

    missing = semantic.missing_packages()
    if not missing and (index := semantic.open_index(backend)) and len(index):
        return index
    if engine == "auto":
        return None
    if missing:
        raise InputError(f"Search by meaning needs {missing[0]}; pip install 'workingpapers[semantic]' brings it.")
    raise InputError("The catalog has no semantic index yet; 'papers index' builds it.")


def _suggestion(backend: Backend, query: str, terms: Sequence[Term], found: Lexical) -> str:
    from workingpapers.catalog.suggesting import suggestion

    return suggestion(backend, query, terms) if found.complete < FEW_HITS else ""
