"""Suggestions, the glossary and near-duplicates."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workingpapers.catalog import library
from workingpapers.catalog.duplicates import near_duplicates, shingles
from workingpapers.catalog.glossary import in_english, terms
from workingpapers.catalog.library import ImportReport, add, open_catalog, search
from workingpapers.catalog.records import Record
from workingpapers.catalog.suggesting import slips_between

WORDS = (
    "alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu nu xi omicron pi rho sigma tau upsilon".split()
)


@pytest.mark.parametrize(
    ("first", "second", "slips"),
    [("model", "modle", 1), ("kitten", "sitting", 3), ("", "abc", 3), ("privte", "private", 1), ("ab", "ba", 1)],
)
def test_slips_are_counted(first, second, slips):
    assert slips_between(first, second) == slips_between(second, first) == slips


@given(st.text(max_size=8), st.text(max_size=8))
def test_no_slips_only_between_equal_words(first, second):
    assert (slips_between(first, second) == 0) == (first == second)


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.postgres)])
def catalog(request, monkeypatch):
    if request.param == "postgresql":
        import psycopg

        address = request.getfixturevalue("postgres_address")
        with psycopg.connect(address, autocommit=True) as connection:
            connection.execute("DROP SCHEMA IF EXISTS test_finding_aids CASCADE")
            connection.execute("CREATE SCHEMA test_finding_aids")
        monkeypatch.setenv("WORKINGPAPERS_DATABASE", f"{address}?options=-csearch_path%3Dtest_finding_aids")
    monkeypatch.setattr(library, "all_papers", lambda: ())
    backend = open_catalog()
    with backend.writing():
        entries = [
            Record(title="Private hypothesis selection made fast", topic="A · B"),
            Record(title="Hypotheses about models of compression", topic="A · B"),
            Record(title="Model modes and private models", topic="C · D"),
        ]
        add(backend, "x", entries, ImportReport())
    yield backend
    backend.close()


@pytest.mark.parametrize(
    ("query", "suggestion"),
    [
        ("privte hypothesis", "private hypothesis"),
        ("selecton of modles", "selection of models"),
        ("Hypothsis", "hypothesis"),
        ("private", ""),
        ("compares", ""),  # a word of its own, not a slip of compression
        ("zzzzqqq", ""),
        ("priv*", ""),
    ],
)
def test_misspelt_words_are_mended(catalog, query, suggestion):
    assert search(catalog, query, engine="bm25").suggestion == suggestion


def test_topics_are_counted(catalog):
    assert catalog.topics() == [("A · B", 2), ("C · D", 1)]


def test_changes_are_told_in_order(catalog):
    changes = catalog.changes(0, 10)
    assert [record for _, record in changes] == [1, 2, 3]
    assert catalog.changes(changes[1][0], 10) == changes[2:]
    with catalog.writing():
        known = Record(title="Private hypothesis selection made fast", topic="A · B", year=2026)
        add(catalog, "x", [known], ImportReport())
    assert [record for _, record in catalog.changes(changes[-1][0], 10)] == [1]


def test_the_longest_term_wins_and_the_rest_is_kept():
    assert in_english("差分隐私 SGD") == "differential privacy SGD"
    assert in_english("隐私") == "privacy"
    assert in_english("late interaction") == "late interaction"
    assert in_english("麒麟") == ""
    assert in_english("在GPU上训练大语言模型") == "GPU training large language model"


def test_the_glossary_is_well_formed():
    for chinese, english in terms().items():
        assert chinese == chinese.strip()
        assert english.isascii()
        assert english == english.strip()
    assert len(terms()) > 300


def text(seed, words=80):
    import random

    return " ".join(random.Random(seed).choices(WORDS, k=words))


def test_near_duplicates_are_found_and_measured_exactly():
    original = text(1)
    changed = original.replace("alpha", "omega", 1)
    records = [Record(title="Preprint", abstract=original), Record(title="Other", abstract=text(2)),
               Record(title="Camera-ready", abstract=changed), Record(title="Short", abstract="too short")]  # fmt: skip
    (pair,) = near_duplicates(records)
    assert (pair.first.title, pair.second.title) == ("Preprint", "Camera-ready")
    one, other = set(shingles(records[0]).tolist()), set(shingles(records[2]).tolist())
    assert pair.similarity == pytest.approx(len(one & other) / len(one | other))
    assert list(near_duplicates(records, threshold=1.0)) == []


def test_most_pairs_over_the_threshold_share_a_band():
    found = 0
    for seed in range(100):
        original = text(seed, 120)
        parts = original.split()
        parts[60:64] = ["new", "words", "stand", "here"]
        pairs = list(near_duplicates([Record(abstract=original), Record(abstract=" ".join(parts))], threshold=0.6))
        found += len(pairs)
    assert found >= 99


def test_many_copies_do_not_make_many_pairs():
    copies = [Record(title=f"Copy {number}", abstract=text(3)) for number in range(120)]
    assert len(list(near_duplicates(copies))) == 119
