"""BM25 against its formula, and what counts as an occurrence."""

import math

import pytest

from workingpapers.catalog.query import Term, parse
from workingpapers.catalog.ranking import LENGTH, SATURATION, bm25, fields, occurrences
from workingpapers.catalog.records import Record


def count(text, query):
    record = Record(abstract=text)
    (term,) = parse(query)
    return occurrences(fields(record)[0][1], term), occurrences(fields(record, phrases=False)[0][1], term)


@pytest.mark.parametrize(
    ("text", "query", "expected"),
    [
        ("Flow, flow and workflow; flows.", "flow", 2),
        ("Flow, flow and workflow; flows.", "flow*", 3),
        ("Müller met Muller", "muller", 2),
        ("model_a and model-a", "model", 2),
        ("", "x", 0),
    ],
)
def test_words_and_prefixes_are_counted_whole(text, query, expected):
    if text:
        assert count(text, query) == (expected, expected)


def test_phrases_cross_punctuation_but_not_words():
    text = fields(Record(abstract="A flow map. Flow-map; flow of maps; overflow map flow mapping"))[0][1]
    assert occurrences(text, Term(("flow", "map"))) == 2
    assert occurrences(text, Term(("flow", "map"), prefix=True)) == 3


def test_cjk_is_counted_as_substrings():
    text = fields(Record(abstract="论文检索与论文"))[0][1]
    assert occurrences(text, parse("论文")[0]) == 2
    assert occurrences(text, parse("检索")[0]) == 1
    assert occurrences(text, parse("论检")[0]) == 0


def test_score_is_the_formula():
    first = Record(title="Flow maps", abstract="flow and more flow")
    second = Record(title="Rivers", abstract="a flow is a map of many, many words more than that")
    scores = bm25({1: first, 2: second}, parse("flow map"), [30, 4], 100)
    lengths = {1: len(first.title + first.abstract), 2: len(second.title + second.abstract)}
    mean = sum(lengths.values()) / 2
    counts = {1: (8 * 1 + 2, 0), 2: (1, 1)}
    for number in (1, 2):
        expected = 0.0
        for n, f in zip((30, 4), counts[number], strict=True):
            idf = math.log(1 + (100 - n + 0.5) / (n + 0.5))
            slack = SATURATION * (1 - LENGTH + LENGTH * lengths[number] / mean)
            expected += idf * f * (SATURATION + 1) / (f + slack)
        assert scores[number] == pytest.approx(expected, rel=1e-12)


def test_a_rare_word_weighs_more_than_a_common_one():
    records = {1: Record(abstract="common words here"), 2: Record(abstract="rare words there!")}
    scores = bm25(records, parse("common rare"), [900, 3], 1000)
    assert scores[2] > scores[1] > 0
