"""Import, merge and search, on SQLite and on PostgreSQL alike."""

import sqlite3
import threading
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from workingpapers.catalog import library
from workingpapers.catalog.entries import Rejected
from workingpapers.catalog.library import ImportReport, add, open_catalog, search
from workingpapers.catalog.records import Record
from workingpapers.foundations.errors import InputError

ABSTRACT = "We study how to choose among many hypotheses when the samples are private, scarce and noisy. " * 2


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.postgres)])
def catalog(request, monkeypatch):
    if request.param == "postgresql":
        import psycopg

        address = request.getfixturevalue("postgres_address")
        # Workers of a parallel test run share the server, so each takes a schema of its own.
        schema = f"test_{threading.get_native_id()}"
        with psycopg.connect(address, autocommit=True) as connection:
            connection.execute(f"DROP SCHEMA IF EXISTS {schema} CASCADE")
            connection.execute(f"CREATE SCHEMA {schema}")
        monkeypatch.setenv("WORKINGPAPERS_DATABASE", f"{address}?options=-csearch_path%3D{schema}")
    monkeypatch.setattr(library, "all_papers", lambda: ())
    backend = open_catalog()
    assert backend.name == request.param
    yield backend
    backend.close()


def put(backend, *entries):
    with backend.writing():
        return add(backend, "test", entries, ImportReport())


def titles(answer):
    return [hit.record.title for hit in answer.hits]


PAPERS = [
    Record(
        title="Private hypothesis selection",
        authors=("Hilal Asi", "Hongjie Chen"),
        topic="Social Aspects · Privacy",
        abstract=ABSTRACT,
        year=2026,
    ),
    Record(
        title="Flow map matching for fast samplers",
        authors=("Iván Arcuschin",),
        topic="Deep Learning · Models",
        abstract="A flow map learns jumps. It mentions private data once. " * 3,
    ),
    Record(
        title="Maps of flow in rivers",
        authors=("Ada Lovelace",),
        topic="Applications · Earth",
        abstract="Rivers. " * 30,
    ),
    Record(title="论文检索的方法", authors=("王小明",), abstract="一种新的论文检索方法"),
]


def test_search_ranks_highlights_and_counts(catalog):
    report = put(catalog, *PAPERS)
    assert (report.read, report.new, report.merged, report.rejected) == (4, 4, 0, [])
    answer = search(catalog, "private hypothesis")
    assert titles(answer)[0] == "Private hypothesis selection"
    hit = answer.hits[0]
    assert [hit.title[start:end] for start, end in hit.title_spans] == ["Private", "hypothesis"]
    assert any(hit.snippet[start:end] == "hypotheses" for start, end in hit.snippet_spans) is False
    # The word in the title weighs more than the word in the abstract.
    assert titles(search(catalog, "private")) == ["Private hypothesis selection", "Flow map matching for fast samplers"]


def test_phrase_prefix_diacritics_and_filters(catalog):
    put(catalog, *PAPERS)
    assert titles(search(catalog, '"flow map"')) == ["Flow map matching for fast samplers"]
    assert set(titles(search(catalog, "flow map"))) >= {"Flow map matching for fast samplers"}
    assert titles(search(catalog, "hypothes*")) == ["Private hypothesis selection"]
    assert titles(search(catalog, "ivan")) == ["Flow map matching for fast samplers"]
    assert titles(search(catalog, "flow", author="lovelace")) == ["Maps of flow in rivers"]
    assert titles(search(catalog, "private", topic="deep learning")) == ["Flow map matching for fast samplers"]
    assert titles(search(catalog, "", author="iván arcuschin")) == ["Flow map matching for fast samplers"]
    assert dict(search(catalog, "private").topics) == {"Social Aspects · Privacy": 1, "Deep Learning · Models": 1}


def test_an_area_is_the_whole_first_part_of_a_topic(catalog):
    other = Record(title="Deep maps of private flow", topic="Earth · Deep Learning · Models", authors=("B",))
    longer = Record(title="Private deep flow again", topic="Deep Learning Theory · Flow", authors=("C",))
    put(catalog, *PAPERS, other, longer)
    assert titles(search(catalog, "private flow", area="deep learning")) == ["Flow map matching for fast samplers"]
    assert titles(search(catalog, "", area="Deep Learning")) == ["Flow map matching for fast samplers"]
    assert titles(search(catalog, "private", area="deep")) == []
    assert len(search(catalog, "private", topic="deep learning").hits) == 3


@pytest.mark.parametrize("query", ["检索", "论文", "索的方", "法", "王小明"])
def test_cjk_is_found_by_substring(catalog, query):
    put(catalog, *PAPERS)
    assert titles(search(catalog, query)) == ["论文检索的方法"]


def test_cjk_does_not_match_across_other_characters(catalog):
    put(catalog, *PAPERS)
    assert search(catalog, "论索").hits == []


def test_some_words_suffice_where_not_all_match(catalog):
    put(catalog, *PAPERS)
    answer = search(catalog, "private rivers")
    assert not answer.exact
    assert {"Private hypothesis selection", "Maps of flow in rivers"} <= set(titles(answer))
    assert search(catalog, "rivers").exact


def test_limit_and_total(catalog):
    put(catalog, *PAPERS)
    answer = search(catalog, "flow", limit=1)
    assert len(answer.hits) == 1
    assert answer.total == 2
    assert not answer.capped
    assert len(search(catalog, "", limit=3).hits) == 3
    assert search(catalog, "?!").hits == []


def test_duplicates_merge_within_and_across_imports(catalog):
    thin = Record(title="Private hypothesis selection in time", arxiv="2601.00001")
    full = Record(title="Private Hypothesis Selection in Time", abstract=ABSTRACT, authors=("Hilal Asi",), doi="10.1/a")
    report = put(catalog, thin, full)
    assert (report.read, report.new, report.merged, report.unchanged) == (2, 1, 1, 0)
    assert catalog.count() == 1
    record = next(catalog.records())
    assert (record.arxiv, record.doi, record.title) == ("2601.00001", "10.1/a", "Private Hypothesis Selection in Time")
    again = put(catalog, thin, full)
    assert (again.new, again.merged, again.unchanged) == (0, 0, 2)
    later = put(catalog, Record(doi="10.1/a", url="https://example.org", title="Short"))
    assert (later.new, later.merged) == (0, 1)
    assert next(catalog.records()).url == "https://example.org"
    assert titles(search(catalog, "scarce hypotheses")) == ["Private Hypothesis Selection in Time"]


def test_a_record_that_joins_two_makes_them_one(catalog):
    put(catalog, Record(title="One name of the paper", arxiv="2601.00001"))
    put(
        catalog,
        Record(title="Another name of it altogether", doi="10.1/a", abstract=ABSTRACT),
        Record(title="A third paper stays"),
    )
    assert catalog.count() == 3
    report = put(catalog, Record(arxiv="2601.00001", doi="10.1/a"))
    assert (report.new, report.merged) == (0, 1)
    assert catalog.count() == 2
    assert titles(search(catalog, "hypotheses scarce")) == ["Another name of it altogether"]
    assert titles(search(catalog, '"one name"')) == []
    # Both names still lead to the one record.
    assert put(catalog, Record(title="One name of the paper")).unchanged == 1


def test_joining_inside_one_batch(catalog):
    report = put(
        catalog,
        Record(title="One name of the paper", arxiv="2601.00001"),
        Record(title="Another name of it altogether", doi="10.1/a"),
        Record(arxiv="2601.00001", doi="10.1/a", url="u"),
        Record(title="One name of the paper", year=2026),
    )
    assert (report.new, report.merged) == (2, 2)
    assert catalog.count() == 1
    assert next(catalog.records()).year == 2026


def test_changed_records_are_found_by_their_new_words_only(catalog):
    put(catalog, Record(title="A paper about whales today", arxiv="2601.00001"))
    put(catalog, Record(title="A paper about dolphins", arxiv="2601.00001", abstract=ABSTRACT, year=2026, venue="V"))
    assert search(catalog, "whales").hits == []
    assert titles(search(catalog, "dolphins")) == ["A paper about dolphins"]


def test_an_import_that_breaks_leaves_everything_as_it_was(catalog):
    put(catalog, *PAPERS)
    before = list(catalog.records())

    def breaking():
        yield Record(title="A record that must not stay", abstract=ABSTRACT + "more")
        yield from (Record(title=f"Filler number {index} of many") for index in range(3000))
        raise InputError("The file breaks off.")

    with pytest.raises(InputError), catalog.writing():
        add(catalog, "x", breaking(), ImportReport())
    assert list(catalog.records()) == before
    assert search(catalog, "filler").hits == []


def test_rejected_blocks_are_reported(catalog):
    report = put(catalog, Rejected(7, "why"), PAPERS[0])
    assert report.rejected == [("test", 7, "why")]
    assert (report.read, report.new) == (2, 1)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(query=st.text(), topic=st.text(max_size=8), author=st.text(max_size=8))
def test_no_query_raises_or_injects(catalog, query, topic, author):
    if catalog.count() == 0:
        put(catalog, *PAPERS)
    answer = search(catalog, query, topic=topic, author=author, as_you_type=len(query) % 2 == 0)
    assert 0 <= len(answer.hits) <= 10
    assert catalog.count() == 4


@pytest.mark.parametrize(
    "query",
    [
        '"',
        "' OR 1=1 --",
        "NEAR(a b)",
        "title:flow",
        "a* OR *",
        ")(",
        "\0",
        "\ud800",
        "-flow",
        "^flow",
        "%s",
        "\\",
        "{a}",
        ":*",
        "<->",
    ],
)
def test_syntax_of_the_engines_is_just_text(catalog, query):
    put(catalog, *PAPERS)
    assert len(search(catalog, query).hits) <= 4


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=st.text(min_size=1, max_size=60))
def test_any_text_can_be_a_record(catalog, text):
    record = Record(title=text, abstract=text, authors=(text.replace(";", ","),), url="https://example.org/" + text)
    put(catalog, record)
    assert catalog.count() >= 1


def test_lone_surrogates_are_left_out(catalog):
    put(catalog, Record(title="A lone \ud800surrogate in a title", authors=("A\udfff B",)))
    assert next(catalog.records()) == Record(title="A lone surrogate in a title", authors=("A B",))


def test_common_words_are_ranked_among_the_newest(catalog, monkeypatch):
    monkeypatch.setattr("workingpapers.catalog.searching.RANKED_MATCHES", 20)
    monkeypatch.setattr("workingpapers.catalog.searching.TITLED_MATCHES", 5)
    put(catalog, *(Record(title=f"Learning number {index} of the many") for index in range(50)))
    answer = search(catalog, "learning")
    assert answer.capped
    assert answer.total < 50
    assert all(int(title.split()[2]) >= 29 for title in titles(answer))


def test_an_old_title_is_found_behind_many_newer_mentions(catalog, monkeypatch):
    monkeypatch.setattr("workingpapers.catalog.searching.RANKED_MATCHES", 20)
    monkeypatch.setattr("workingpapers.catalog.searching.TITLED_MATCHES", 5)
    put(catalog, Record(title="Learning to sail the seas"))
    put(catalog, *(Record(title=f"Paper {index} about ships", abstract="learning to sail") for index in range(50)))
    assert titles(search(catalog, "learning sail"))[0] == "Learning to sail the seas"


def test_readers_work_while_a_writer_writes(catalog):
    put(catalog, *PAPERS)
    reader = open_catalog()
    with catalog.writing():
        add(catalog, "x", [Record(title="Unfinished business of writing")], ImportReport())
        assert titles(search(reader, "flow", author="lovelace")) == ["Maps of flow in rivers"]
        assert search(reader, "unfinished").hits == []
    assert titles(search(reader, "unfinished")) == ["Unfinished business of writing"]
    reader.close()


def test_export_yields_all_or_what_a_query_finds(catalog):
    put(catalog, *PAPERS)
    assert [record.title for record in library.export(catalog)] == [record.title for record in PAPERS]
    assert [record.title for record in library.export(catalog, "rivers")] == ["Maps of flow in rivers"]


def test_this_librarys_papers_are_in_the_catalog_and_meet_imported_ones(data_folder):
    from workingpapers.catalog.papers import all_papers

    backend = open_catalog()
    slugs = {record.slug for record in backend.records()}
    assert slugs == {paper.slug for paper in all_papers()}
    backend.close()
    again = open_catalog()
    assert again.count() == len(slugs)
    again.close()


def test_a_damaged_catalog_is_one_sentence(data_folder):
    (data_folder / "catalog.sqlite").write_bytes(b"not a database" * 1000)
    with pytest.raises(InputError, match="cannot be used"):
        open_catalog()


@pytest.mark.parametrize("address", ["mysql://x", "postgresql://nobody@127.0.0.1:1/none"])
def test_a_wrong_database_is_one_sentence(monkeypatch, address):
    monkeypatch.setenv("WORKINGPAPERS_DATABASE", address)
    with pytest.raises(InputError, match=r"WORKINGPAPERS_DATABASE is|cannot be opened"):
        open_catalog()


def test_index_holds_no_second_copy_of_the_text(data_folder, monkeypatch):
    monkeypatch.setattr(library, "all_papers", lambda: ())
    backend = open_catalog()
    put(backend, *(Record(title=f"Title {index} of this", abstract=f"word{index} " * 400) for index in range(200)))
    backend.close()
    with sqlite3.connect(Path(data_folder) / "catalog.sqlite") as connection:
        tables = {row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    assert "search_content" not in tables
