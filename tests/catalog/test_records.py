"""Keys, merging and text: when two records are one paper, and which fields survive."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workingpapers.catalog.query import parse, snippet, spans
from workingpapers.catalog.records import Record, clean_arxiv, clean_doi, fullness, keys, merge
from workingpapers.catalog.text import abstract_fingerprint, fold, normalise, pairs, plain

ABSTRACT = "We study the problem of choosing among many hypotheses when the samples are private and few. " * 2


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (r"\textbf{Flow} Map $x^2$ Matching!", "flow map x2 matching"),
        ("Müller–Straße  Æsir", "muller strasse æsir"),
        ("A *bold* claim", "a bold claim"),
        ("snake_case", "snakecase"),
        (r"\emph{Čebyšev}", "cebysev"),
    ],
)
def test_normal_form_ignores_markup_case_and_marks(one, other):
    assert normalise(one) == normalise(other) == other


@given(st.text())
def test_normal_form_is_idempotent(text):
    assert normalise(normalise(text)) == normalise(text)


@given(st.text(alphabet=st.characters(max_codepoint=127)))
def test_fast_way_for_ascii_is_the_general_way(text):
    # A letter beyond ASCII takes the general way; set apart by spaces it adds one word.
    assert normalise(text) == normalise(text + " é").removesuffix("e").strip()


def test_fold_and_plain():
    assert fold("Ångström İ") == "angstrom i"
    assert plain(r"\textbf{A} and *b* at 52.5\%") == "A and b at 52.5%"


def test_pairs_of_cjk():
    assert pairs("论文检索 paper 图") == "论文 文检 检索 索 图"
    assert pairs("ascii") == ""


@pytest.mark.parametrize(
    ("text", "doi"),
    [
        ("https://doi.org/10.1145/3292500.3330701", "10.1145/3292500.3330701"),
        ("doi:10.1000/ABC.", "10.1000/abc"),
        ("no", ""),
    ],
)
def test_dois(text, doi):
    assert clean_doi(text) == doi


@pytest.mark.parametrize(
    ("text", "identifier"),
    [
        ("https://arxiv.org/abs/2606.28460v2", "2606.28460"),
        ("arXiv:hep-th/9901001", "hep-th/9901001"),
        ("cs.LG/0309048v1", "cs.LG/0309048"),
        ("12606.284601", ""),
        ("", ""),
    ],
)
def test_arxiv_identifiers(text, identifier):
    assert clean_arxiv(text) == identifier


def test_same_paper_shares_a_key():
    base = Record(title="Private hypothesis selection in near linear time", abstract=ABSTRACT, arxiv="2601.00001")
    same = [
        Record(title="Private Hypothesis Selection in Near-Linear Time".replace("-", " ")),
        Record(abstract=ABSTRACT.upper().replace("PRIVATE", r"\TEXTBF{PRIVATE}".lower())),
        Record(title="Renamed since", arxiv="2601.00001"),
    ]
    for record in same:
        assert set(keys(base)) & set(keys(record))
    assert not set(keys(base)) & set(keys(Record(title="Another title of a paper", abstract=ABSTRACT[50:])))


def test_short_titles_need_author_and_year():
    one = Record(title="Introduction", authors=("A. Author",), year=2026)
    assert not set(keys(one)) & set(keys(Record(title="Introduction", authors=("B. Other",), year=2026)))
    assert set(keys(one)) & set(keys(Record(title="introduction", authors=("A. Author",), year=2026)))
    assert keys(Record(title="Introduction")) == []


def test_a_known_fingerprint_is_a_key():
    assert set(keys(Record(slug="x"), abstract_fingerprint(ABSTRACT))) & set(keys(Record(abstract=ABSTRACT)))


def test_the_fuller_record_wins_and_the_other_fills_in():
    thin = Record(title="Title", authors=("A", "B"), authors_complete=False, year=2025, url="u")
    full = Record(title="The Title", authors=("A", "B", "C"), abstract=ABSTRACT, topic="T · S", venue="ICML")
    merged = merge(thin, full)
    assert fullness(full) > fullness(thin)
    assert merged.title == "The Title"
    assert merged.authors == ("A", "B", "C")
    assert merged.authors_complete
    assert (merged.year, merged.url) == (2025, "u")


def test_complete_authors_replace_a_cut_list_even_from_a_thinner_record():
    cut = Record(title="The Title", authors=("A",), authors_complete=False, abstract=ABSTRACT, topic="T · S", venue="V")
    assert merge(cut, Record(authors=("A", "B"))).authors == ("A", "B")


records = st.builds(
    Record,
    title=st.sampled_from(["", "One title", "Another title"]),
    authors=st.sampled_from([(), ("A",), ("A", "B")]),
    authors_complete=st.booleans(),
    abstract=st.sampled_from(["", "short", ABSTRACT]),
    year=st.sampled_from([None, 2025, 2026]),
    url=st.sampled_from(["", "u"]),
)


@given(records, records)
def test_merging_is_idempotent_and_loses_no_field(one, other):
    merged = merge(one, other)
    assert merge(merged, other) == merged
    assert merge(merged, one) == merged
    assert fullness(merged) >= max(fullness(one), fullness(other))


def test_query_terms():
    terms = parse('the "flow map" closed-form benchm* 论文检 图 a')
    assert [(term.words, term.prefix, term.cjk) for term in terms] == [
        (("flow", "map"), False, False),
        (("closed", "form"), False, False),
        (("benchm",), True, False),
        (("论文", "文检"), False, True),
        (("图",), True, True),
    ]


def test_common_words_count_when_alone():
    assert [term.words for term in parse("the")] == [("the",)]
    assert [term.words for term in parse("the flow")] == [("flow",)]


def test_as_you_type():
    assert parse("flow ma", as_you_type=True)[-1].prefix is False  # two letters would match half of everything
    assert parse("flow mat", as_you_type=True)[-1].prefix is True
    assert parse("flow mat ", as_you_type=True)[-1].prefix is False


@given(st.text())
def test_any_text_is_a_query(text):
    for term in parse(text):
        assert term.words
        assert all(word.isalnum() or term.cjk for word in term.words)


def test_highlights():
    text = "Naïve flow-map matching 论文检索"
    marked = [text[start:end] for start, end in spans(text, parse("naive match* 文检"))]
    assert marked == ["Naïve", "matching", "文检"]


def test_snippet_shows_the_richest_stretch():
    text = "start " * 60 + "private preference data here " + "end " * 80
    shown = snippet(text, parse("private preference"))
    assert "private preference" in shown
    assert shown.startswith("… ")
    assert shown.endswith(" …")
    assert len(shown) < 240
    assert snippet("short", parse("x")) == "short"
