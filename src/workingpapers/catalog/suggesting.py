"""Suggestions for words that no record holds."""

from __future__ import annotations

from collections.abc import Sequence

from workingpapers.catalog.backend import Backend, Filters
from workingpapers.catalog.query import Term
from workingpapers.catalog.text import fold

SHORTEST = 4
LONG_WORD = 9  # from here on two slips may be one word


def suggestion(backend: Backend, query: str, terms: Sequence[Term]) -> str:
    """Return `query` with each word that no record holds replaced by the nearest one that some do, or an empty string.

    Only words with the same first two letters are looked at, since people rarely mistype those.

    Args:
        backend: The catalog.
        query: What was typed.
        terms: Its terms.
    """
    corrected = query
    for term in terms:
        if term.cjk or term.prefix or len(term.words) > 1 or len(term.words[0]) < SHORTEST:
            continue
        word = term.words[0]
        if backend.match([term], Filters(), 1):
            continue
        slips = 2 if len(word) >= LONG_WORD else 1
        near = [
            (distance, -count, known)
            for known, count in backend.vocabulary(word[:2])
            if abs(len(known) - len(word)) <= slips and (distance := slips_between(word, known)) <= slips
        ]
        if near:
            corrected = _replaced(corrected, word, min(near)[2])
    return corrected if corrected != query else ""


def slips_between(first: str, second: str) -> int:
    """Return the least number of letters left out, put in, exchanged, or swapped with a neighbour between two words.

    Args:
        first: One word.
        second: The other.
    """
    before: list[int] = []
    row = list(range(len(second) + 1))
    for i, a in enumerate(first, 1):
        last, before, row = before, row, [i]
        for j, b in enumerate(second, 1):
            cost = min(before[j] + 1, row[j - 1] + 1, before[j - 1] + (a != b))
            if i > 1 and j > 1 and a == second[j - 2] and first[i - 2] == b:
                cost = min(cost, last[j - 2] + 1)
            row.append(cost)
    return row[-1]


def _replaced(query: str, word: str, other: str) -> str:
    return " ".join(other if fold(part).strip(".,;:?!") == word else part for part in query.split())
