r"""BM25 over the fields of a record, the same for every database.

For the terms t of a query (words, phrases, prefixes) and a record D

.. math:: \sum_t \ln\!\Big(1 + \frac{N - n_t + 1/2}{n_t + 1/2}\Big)\,
          \frac{f_t (k_1 + 1)}{f_t + k_1 (1 - b + b\,|D| / \overline{|D|})}, \qquad f_t = \sum_c w_c f_{t,c}

with :math:`f_{t,c}` the occurrences of t in field c, :math:`w_c` the field's weight, :math:`n_t` of N records holding
t, and the mean length taken over the records that are ranked.

References:
    Robertson, Zaragoza and Taylor (2004). Simple BM25 extension to multiple weighted fields.
    doi:10.1145/1031171.1031181.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence

from workingpapers.catalog.query import Term
from workingpapers.catalog.records import Record
from workingpapers.catalog.text import fold

WEIGHTS = {"title": 8.0, "authors": 4.0, "topic": 3.0, "keywords": 4.0, "abstract": 1.0, "summary": 2.0}
SATURATION = 1.2  # k_1
LENGTH = 0.75  # b
_NOT_WORD = re.compile(r"[\W_]+")


def bm25(
    records: Mapping[int, Record], terms: Sequence[Term], frequencies: Sequence[float], total: float
) -> dict[int, float]:
    """Return record number -> BM25.

    Args:
        records: The records to rank.
        terms: Terms of the query.
        frequencies: Number of records of the catalog that hold each term (an estimate will do), n_t.
        total: Number of records of the catalog, N.
    """
    if not records:
        return {}
    weights = [math.log1p((max(total, n) - n + 0.5) / (n + 0.5)) for n in frequencies]
    phrases = any(len(term.words) > 1 for term in terms)
    texts = {number: fields(record, phrases=phrases) for number, record in records.items()}
    lengths = {number: sum(len(text) for _, text in parts) for number, parts in texts.items()}
    mean = sum(lengths.values()) / len(lengths) or 1.0
    scores = {}
    for number, parts in texts.items():
        slack = SATURATION * (1 - LENGTH + LENGTH * lengths[number] / mean)
        score = 0.0
        for term, weight in zip(terms, weights, strict=True):
            count = sum(factor * occurrences(text, term) for factor, text in parts)
            score += weight * count * (SATURATION + 1) / (count + slack)
        scores[number] = score
    return scores


def fields(record: Record, *, phrases: bool = True) -> list[tuple[float, str]]:
    """Return (weight, text) of the fields that are not empty, folded.

    Args:
        record: The record.
        phrases: Whether punctuation becomes single spaces, so that phrases can be counted.
    """
    found = []
    for name, weight in WEIGHTS.items():
        value = getattr(record, name)
        if value:
            text = fold("; ".join(value) if isinstance(value, tuple) else value)
            found.append((weight, _NOT_WORD.sub(" ", text) if phrases else text))
    return found


def occurrences(text: str, term: Term) -> int:
    """Return how often `term` stands in a folded text; phrases are found where single spaces part the words."""
    if term.cjk:
        return text.count(term.words[0] + "".join(pair[1:] for pair in term.words[1:]))
    needle = " ".join(term.words)
    count, end = 0, 0
    while (start := text.find(needle, end)) >= 0:
        end = start + len(needle)
        if (start == 0 or not text[start - 1].isalnum()) and (term.prefix or not text[end : end + 1].isalnum()):
            count += 1
    return count
