"""The pages as a reader meets them."""

import html
import io
import re

import pytest

from workingpapers.catalog import library
from workingpapers.catalog.formats import bibtex
from workingpapers.catalog.papers import all_papers
from workingpapers.catalog.records import Record
from workingpapers.web import texts
from workingpapers.web.catalog import Question, short_byline
from workingpapers.web.rendering import duration, size

SLUGS = [paper.slug for paper in all_papers()]
CHINESE = {"accept-language": "zh-CN,zh;q=0.9,en;q=0.5"}


def add(*records):
    backend = library.open_catalog()
    with backend.writing():
        library.add(backend, "test", records, library.ImportReport())
    backend.close()


def hits(page):
    return re.findall(r'<h2><a href="([^"]+)">', page)


def test_the_first_page_lists_every_method(client):
    page = client.get("/").text
    assert hits(page) == [f"/papers/{paper.slug}" for paper in all_papers()]


def test_words_are_found_marked_and_shareable(client):
    page = client.get("/", params={"q": "counterfactual rows"}).text
    assert "<mark>" in page
    assert 'value="counterfactual rows"' in page
    assert "/papers/residual_augmentation" in hits(page)


def test_htmx_gets_the_results_alone_and_half_a_word_is_enough(client):
    part = client.get("/", params={"q": "condorc"}, headers={"hx-request": "true", "hx-trigger-name": "q"})
    assert "<html" not in part.text
    assert "/papers/condorcet_nash" in hits(part.text)
    assert "HX-Request" in part.headers["vary"]


def test_a_misspelled_word_gets_a_suggestion_and_nothing_gets_help(client):
    page = client.get("/", params={"q": "privte hypothesis"}).text
    assert "Did you mean" in page
    page = client.get("/", params={"q": "zzzzqqqq", "scope": "library"}).text
    assert "Nothing found" in page
    assert "Try fewer or other words" in page


@pytest.mark.parametrize("query", ['"', "*", "AND OR NOT", "(((", "a" * 5000, "\x00", "🎲", "'; DROP TABLE x; --", " "])
def test_any_query_has_an_answer(client, query):
    assert client.get("/", params={"q": query}).status_code == 200


def test_facets_narrow_the_hits_and_their_counts_are_true(client):
    everything = client.get("/api/search").json()
    for kind, name in (("verdicts", "verdict"), ("topics", "topic"), ("areas", "area")):
        for value, count in everything["facets"][kind].items():
            found = client.get("/api/search", params={name: value, "scope": "library"}).json()
            assert found["total"] == count, (name, value)
    runnable = client.get("/api/search", params={"command": True}).json()
    assert runnable["total"] == everything["facets"]["with_command"] == sum(p.has_command for p in all_papers())
    page = client.get("/", params={"verdict": "supported"}).text
    assert "not supported</span>" not in page
    assert 'aria-current="true"' in page
    assert client.get("/", params={"verdict": "maybe"}).status_code == 400


@pytest.mark.parametrize("scope", ["library", "all"])
def test_a_word_that_is_mistyped_is_corrected_and_one_that_is_unfinished_is_not(client, scope):
    page = client.get("/", params={"q": "counterfactaul", "scope": scope}).text
    assert "<em>counterfactual</em></a>?" in page
    page = client.get("/", params={"q": "counterfactual resid", "scope": scope}).text
    assert "Did you mean" not in page
    assert "Residual" in page


def test_an_area_is_the_first_part_of_a_topic_and_not_any_word_of_it(client):
    def total(**asked):
        return client.get("/api/search", params={"scope": "library", **asked}).json()["total"]

    areas = {paper.topic.split(" · ")[0] for paper in all_papers()}
    assert total() == sum(total(area=area) for area in areas) == len(all_papers())
    assert total(area="Machine Learning") == total(area="Privacy") == 0
    assert total(area="social aspects") == total(area="Social Aspects") > 0


def test_facets_of_the_whole_catalog(client):
    add(
        *(
            Record(title=f"Widget study number {n} of many", topic="Theory · Widgets", authors=("Ann Lee",))
            for n in range(30)
        )
    )
    found = client.get("/api/search", params={"q": "widget", "scope": "all"}).json()
    assert found["facets"]["authors"]["Ann Lee"] == 30
    assert len(found["hits"]) == 20
    page = client.get("/", params={"topic": "Theory · Widgets"}).text
    assert len(hits(page)) == 20
    assert "Show more" in page
    assert len(hits(client.get("/", params={"topic": "Theory · Widgets", "limit": 40}).text)) == 30
    assert len(hits(client.get("/", params={"author": "Ann Lee", "limit": 40}).text)) == 30


@pytest.mark.parametrize("slug", SLUGS)
@pytest.mark.parametrize("language", ["en", "zh"])
def test_every_paper_has_a_page(client, slug, language):
    paper = next(paper for paper in all_papers() if paper.slug == slug)
    answer = client.get(f"/papers/{slug}", headers={"accept-language": language})
    assert answer.status_code == 200
    assert html.escape(paper.authors[0], quote=False) in answer.text
    assert f"papers check {slug}" in answer.text or not paper.has_claim
    assert f"import workingpapers.{paper.area}.{slug}" in answer.text
    for word in ("undefined", "None</", "Markup(", "{{", "{%"):
        assert word not in answer.text


@pytest.mark.parametrize("slug", SLUGS)
def test_measured_claims_stand_beside_the_papers_own_result(client, slug):
    page = html.unescape(client.get(f"/papers/{slug}").text)
    for record in client.get(f"/api/papers/{slug}").json()["measured"]:
        assert f"/papers/{slug}/figures/{record['claim']}" in page
        assert record["reason"][1:40] in page
        for item in record["comparisons"]:
            assert f"vs {item['against'].replace('_', ' ')}" in page


def test_a_figure_is_drawn_once_and_kept(client, monkeypatch):
    first = client.get("/papers/condorcet_nash/figures/headline", headers={"hx-request": "true"})
    assert first.text.count("<svg") == 1
    assert "<html" not in first.text
    monkeypatch.setattr("workingpapers.web.evidence.claim_figure", None)
    assert client.get("/papers/condorcet_nash/figures/headline", headers={"hx-request": "true"}).text == first.text
    assert "<html" in client.get("/papers/condorcet_nash/figures/headline").text
    assert client.get("/papers/condorcet_nash/figures/nope").status_code == 404


def test_similar_papers_come_without_the_paper_itself(client):
    part = client.get("/papers/condorcet_nash/similar").text
    assert hits(part)
    assert "/papers/condorcet_nash" not in hits(part)


def test_a_record_is_read_with_formulas_authors_and_citation(client):
    add(
        Record(
            title="Sorting in $O(n)$ steps for everyone",
            authors=("Ann Lee", "Bo Li"),
            authors_complete=False,
            abstract=r"We need $x^2 < 3$ comparisons.",
            doi="10.1234/abc",
            year=2026,
            venue="ICML",
        )
    )
    found = client.get("/api/search", params={"q": "sorting", "scope": "all"}).json()["hits"][0]
    page = client.get(found["address"]).text
    assert '<span class="math">O(n)</span>' in page
    assert '<span class="math">x^2 &lt; 3</span>' in page
    assert "<em>et al.</em>" in page
    assert 'href="https://doi.org/10.1234/abc"' in page
    assert "@inproceedings" in page
    assert client.get("/records/999999").status_code == 404
    own = client.get("/api/search", params={"q": "condorcet"}).json()["hits"][0]
    assert client.get(f"/records/{own['number'] or 1}", follow_redirects=False).status_code in (303, 404)


def test_a_citation_reads_back_as_the_same_paper(client):
    text = client.get("/api/papers/condorcet_nash/citation").text
    [entry] = list(bibtex.read(io.StringIO(text)))
    paper = next(paper for paper in all_papers() if paper.slug == "condorcet_nash")
    assert entry.title == paper.title
    assert entry.authors == paper.authors
    other = client.get("/api/papers/condorcet_nash/citation", params={"form": "csl-json"})
    assert other.json()[0]["title"] == paper.title


def test_many_authors_are_shortened():
    record = Record(authors=tuple(f"A{n}" for n in range(9)))
    assert short_byline(record) == "A0, A1, A2, A3, A4, A5 et al."
    assert short_byline(Record(authors=("A", "B"), authors_complete=False)) == "A, B et al."


def test_the_interface_speaks_the_browsers_language_and_the_chosen_one(client):
    assert "论文检索" in client.get("/", headers=CHINESE).text
    assert 'lang="zh-CN"' in client.get("/", headers=CHINESE).text
    assert "Working Papers" in client.get("/").text
    client.get("/preferences", params={"language": "zh"})
    assert "论文检索" in client.get("/").text
    client.get("/preferences", params={"language": "en"})
    assert "论文检索" not in client.get("/", headers=CHINESE).text


@pytest.mark.parametrize(
    ("header", "language"),
    [
        ("zh-CN,zh;q=0.9,en;q=0.5", "zh"),
        ("en-US,en;q=0.9,zh;q=0.8", "en"),
        ("de,zh;q=0.4", "zh"),
        ("de", "en"),
        ("", "en"),
        ("zh;q=0, en", "en"),
        (";;;,,=q", "en"),
    ],
)
def test_the_language_is_the_best_liked_one(header, language):
    assert texts.preferred(header) == language


def test_every_text_is_there_in_both_languages_with_the_same_values():
    for key, (english, chinese) in texts._TEXTS.items():
        assert english, key
        assert chinese, key
        assert set(re.findall(r"{\w+}", english)) == set(re.findall(r"{\w+}", chinese)), key


def test_the_theme_is_kept(client):
    assert "data-theme" not in client.get("/").text
    client.get("/preferences", params={"theme": "dark"})
    assert 'data-theme="dark"' in client.get("/").text
    client.get("/preferences", params={"theme": "<script>"})
    assert 'data-theme="dark"' in client.get("/").text


@pytest.mark.parametrize("path", ["/nowhere", "/papers/nope", "/papers/condorcet_nsah", "/jobs/x", "/results/77"])
def test_what_is_missing_says_so_and_leads_back(client, path):
    answer = client.get(path)
    assert answer.status_code == 404
    assert 'href="/"' in answer.text
    if "nsah" in path:
        assert "did you mean &#39;condorcet_nash&#39;" in answer.text


def test_a_chinese_query_searches_in_english_too(client):
    page = client.get("/", params={"q": "差分隐私"}, headers=CHINESE).text
    assert "同时检索" in page
    assert "/papers/" in "".join(hits(page))


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.4, "0 s"), (59.4, "59 s"), (61, "1 min 1 s"), (7900, "2 h 11 min"), (None, "–")]
)
def test_times_are_readable(seconds, text):
    assert duration(seconds) == text


@pytest.mark.parametrize(("count", "text"), [(10, "10 B"), (2048, "2 KiB"), (3 << 20, "3.0 MiB")])
def test_sizes_are_readable(count, text):
    assert size(count) == text


def test_connections_are_few_and_shared(client):
    catalog = client.app.state.web.catalog
    for _ in range(10):
        catalog.search(Question("nash", scope="all"))
    assert catalog._free.qsize() == 1
    with pytest.raises(ZeroDivisionError), catalog.backend():
        raise ZeroDivisionError
    assert catalog._lent.qsize() == 0
