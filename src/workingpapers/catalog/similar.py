"""Records like a given one."""

from __future__ import annotations

from collections import Counter

from workingpapers.catalog import semantic
from workingpapers.catalog.backend import Backend, Filters
from workingpapers.catalog.query import Term, parse
from workingpapers.catalog.records import Record, keys
from workingpapers.catalog.searching import ENGINE_NAMES, Answer, frequency, hit, lexical

TELLING_WORDS = 16
FEWEST_LETTERS = 4


def similar(backend: Backend, record: Record, *, limit: int = 10) -> Answer:
    """Return the records most like `record`, without itself: by meaning where that is indexed, else by telling words.

    Args:
        backend: The catalog.
        record: A record, of the catalog or not.
        limit: Most records to return.
    """
    own = set(backend.lookup(keys(record)).values())
    index = semantic.open_index(backend) if not semantic.missing_packages() else None
    if index is not None and len(index):
        ranked, engine = index.similar(record, limit + len(own) + 1), "semantic"
        scores = {number: 1.0 / place for place, number in enumerate(ranked, 1)}
    else:
        terms = parse(telling_words(backend, record))
        found = lexical(backend, terms, Filters(), limit + len(own)) if terms else None
        ranked, scores, engine = (list(found.ranked), dict(found.scores), "bm25") if found else ([], {}, "bm25")
    ranked = [number for number in ranked if number not in own][:limit]
    records = backend.fetch(ranked)
    hits = [hit(records[number], scores[number], []) for number in ranked if number in records]
    return Answer(hits, len(hits), False, True, [], [], ENGINE_NAMES[engine])


def telling_words(backend: Backend, record: Record) -> str:
    """Return the words of a record that tell it apart: often in it, rare in the catalog.

    Args:
        backend: The catalog.
        record: The record.
    """
    text = " ".join((record.title, *record.keywords, record.summary, record.abstract))
    known = {term.words[0] for word in set(text.split()) for term in parse(word)[:1] if _is_plain(term)}
    own = Counter(text.lower().split())
    common = sorted(known, key=lambda word: (-own[word], word))[: 4 * TELLING_WORDS]
    last = max(1, backend.last())
    weight = {word: own[word] / (1 + frequency(backend, parse(word)[0]) / last) for word in common}
    return " ".join(sorted(weight, key=lambda word: (-weight[word], word))[:TELLING_WORDS])


def _is_plain(term: Term) -> bool:
    return not term.cjk and len(term.words) == 1 and len(term.words[0]) >= FEWEST_LETTERS
