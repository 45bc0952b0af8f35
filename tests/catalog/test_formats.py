"""Every format in and out: what is read, what is rejected and where, and what breaks."""

import gzip
import io
import json

import pytest

from workingpapers.catalog import export, formats
from workingpapers.catalog.entries import Rejected
from workingpapers.catalog.formats.pages import split_authors
from workingpapers.catalog.records import Record
from workingpapers.foundations.errors import InputError

LONG = (
    "We propose a method that does a great many things, and we show on several data sets that it does them well. " * 2
)

PAGE = f"""论文检索

Social Aspects · Privacy

Ada Lovelace, Charles Babbage

{LONG}

Grace Hopper, Alan Turing, Kurt Gödel 等

\\textbf{{Second}} paper. {LONG}

Theory · Optimization

Ada Lovelace

Theory · Learning Theory

Emmy Noether, David I.W.

Third. {LONG}

Too short to be an abstract, and ends in a full stop.

Orphan. {LONG}
"""


def read(tmp_path, text, name="file"):
    path = tmp_path / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return list(formats.read(path))


def test_result_page(tmp_path):
    entries = read(tmp_path, PAGE)
    records = [entry for entry in entries if isinstance(entry, Record)]
    assert [record.topic for record in records] == ["Social Aspects · Privacy", "", "Theory · Learning Theory"]
    assert records[0].authors == ("Ada Lovelace", "Charles Babbage")
    assert records[1].authors == ("Grace Hopper", "Alan Turing", "Kurt Gödel")
    assert not records[1].authors_complete
    assert records[1].byline == "Grace Hopper, Alan Turing, Kurt Gödel et al."
    assert records[1].abstract.startswith(r"\textbf{Second} paper.")
    assert records[2].authors == ("Emmy Noether", "David I.W.")
    rejected = [(entry.line, entry.reason) for entry in entries if isinstance(entry, Rejected)]
    assert [line for line, _ in rejected] == [15, 23, 25]
    assert any("without a line of authors" in reason for _, reason in rejected)
    assert any("neither topic, authors nor abstract" in reason for _, reason in rejected)


def test_cut_author_lists():
    assert split_authors("A B, C D 等") == (("A B", "C D"), False)
    assert split_authors("A B, C D et al.") == (("A B", "C D"), False)
    assert split_authors("王小明、李雷") == (("王小明", "李雷"), True)


BIBTEX = r"""
% a comment
@string{icml = "International Conference on Machine Learning"}
@inproceedings{one,
  title = {The {F}unctional \"Uber-Title of \emph{Things}},
  author = {M{\"u}ller, J{\"o}rg and Lovelace, Ada and others},
  booktitle = icml, year = 2026, doi = {10.1000/XYZ.1}, keywords = {flow; sampling},
  eprint = {2601.01234v2}, archiveprefix = {arXiv},
}
@article{broken, title = {No closing brace
@misc{three, author = {Nobody}}
@article(four, title = "Parentheses work too", year = "2024")
"""


def test_bibtex(tmp_path):
    entries = read(tmp_path, BIBTEX)
    first = entries[0]
    assert first.title == "The Functional Über-Title of Things"
    assert first.authors == ("Jörg Müller", "Ada Lovelace")
    assert not first.authors_complete
    assert first.venue == "International Conference on Machine Learning"
    assert (first.year, first.doi, first.arxiv) == (2026, "10.1000/xyz.1", "2601.01234")
    assert first.keywords == ("flow", "sampling")
    assert [(entry.line, entry.reason[:10]) for entry in entries[1:3]] == [(10, "not BibTeX"), (11, "an entry w")]
    assert entries[3].title == "Parentheses work too"


def test_csl_json(tmp_path):
    items = [
        {
            "id": "x",
            "type": "paper-conference",
            "title": "A title",
            "author": [{"given": "Ada", "family": "Lovelace"}, {"literal": "The Consortium"}],
            "issued": {"date-parts": [[2026, 7]]},
            "container-title": "ICML",
            "DOI": "10.1000/A",
        },
        {"id": "y"},
        17,
    ]
    entries = read(tmp_path, json.dumps(items, indent=1))
    assert entries[0].authors == ("Ada Lovelace", "The Consortium")
    assert (entries[0].year, entries[0].venue, entries[0].doi) == (2026, "ICML", "10.1000/a")
    assert [(entry.line, entry.reason) for entry in entries[1:]] == [
        (26, "an item without title and abstract"),
        (29, "not an object: '17'"),
    ]


@pytest.mark.parametrize("wrapped", [False, True])
def test_openreview(tmp_path, wrapped):
    def value(content):
        return {"value": content} if wrapped else content

    notes = {
        "notes": [
            {
                "id": "n1",
                "forum": "f1",
                "content": {
                    "title": value("A title"),
                    "authors": value(["Ada Lovelace", "Alan Turing"]),
                    "abstract": value(LONG),
                    "keywords": value(["flow", "sampling"]),
                    "venue": value("ICML 2026 Spotlight"),
                },
            },
            {"id": "n2", "forum": "f1", "content": {"review": value("Good.")}},
        ],
        "count": 2,
    }
    entries = read(tmp_path, json.dumps(notes))
    assert entries[0].authors == ("Ada Lovelace", "Alan Turing")
    assert (entries[0].venue, entries[0].year, entries[0].openreview) == ("ICML Spotlight", 2026, "f1")
    assert entries[0].keywords == ("flow", "sampling")
    assert "a review or a comment" in entries[1].reason


def test_arxiv_json_lines(tmp_path):
    line = {
        "id": "2601.01234",
        "title": "A title\n  over two lines",
        "authors": "Ada Lovelace and Alan Turing",
        "authors_parsed": [["Lovelace", "Ada", ""], ["Turing", "Alan", "Jr."]],
        "categories": "cs.LG stat.ML",
        "abstract": "  An abstract. ",
        "update_date": "2026-01-02",
        "doi": None,
    }
    entries = read(tmp_path, json.dumps(line) + "\nnot json\n\n{}\n")
    assert entries[0].title == "A title over two lines"
    assert entries[0].authors == ("Ada Lovelace", "Alan Turing Jr.")
    assert (entries[0].arxiv, entries[0].year, entries[0].url) == (
        "2601.01234",
        2026,
        "https://arxiv.org/abs/2601.01234",
    )
    assert [(entry.line, entry.reason) for entry in entries[1:]] == [
        (2, "not JSON: expecting value"),
        (4, "an object without title and abstract"),
    ]


def test_csv(tmp_path):
    text = (
        'Title,Authors,Year,Abstract\n"A, B","Ada Lovelace; Alan Turing",2026,"over\ntwo lines"\nx,y\n,,,\n,z,2020,\n'
    )
    entries = read(tmp_path, text)
    assert entries[0].title == "A, B"
    assert entries[0].authors == ("Ada Lovelace", "Alan Turing")
    assert entries[0].abstract == "over\ntwo lines"
    assert [(entry.line, entry.reason) for entry in entries[1:]] == [
        (4, "2 cells, but the header has 4"),
        (6, "a row without title and abstract"),
    ]


def test_csv_with_other_separator_and_mark(tmp_path):
    entries = read(tmp_path, "\ufefftitle;authors\nA title;Ada Lovelace, Alan Turing\n")
    assert entries[0].authors == ("Ada Lovelace", "Alan Turing")


def test_gzip_is_accepted_and_broken_gzip_is_refused(tmp_path):
    packed = gzip.compress(PAGE.encode())
    assert sum(isinstance(entry, Record) for entry in read(tmp_path, packed)) == 3
    with pytest.raises(InputError, match="broken gzip"):
        read(tmp_path, packed[: len(packed) // 2])


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "is empty"),
        (b"  \n ", "is empty"),
        (b"\x7fELF\0\0", "binary file"),
        (b"hello\n", "none of the known formats"),
        (PAGE.encode() + b"\xff", "not UTF-8"),
        (b'[{"title": "A"}, {"title"', "broken in line 1"),
        (b'[{"title": "A"},\n', "breaks off in line 2"),
        (b'{"notes": 3}', "has no array 'notes'"),
    ],
)
def test_what_cannot_be_imported(tmp_path, content, words):
    with pytest.raises(InputError, match=words):
        read(tmp_path, content)


RECORDS = [
    Record(
        title="Flow & friends: 50% of {everything}",
        authors=("Jörg Müller", "Ada Lovelace"),
        authors_complete=False,
        topic="Theory · Flows",
        abstract=LONG,
        year=2026,
        venue="ICML",
        doi="10.1000/x.1",
        arxiv="2601.00001",
        url="https://example.org/1",
        keywords=("flow", "rate of 50"),
    ),
    Record(authors=("Plato",), abstract="论文 " + LONG),
    Record(title="Flow & friends: a sequel of sorts", authors=("Jörg Müller",), year=2026),
]


@pytest.mark.parametrize("form", export.FORMATS)
def test_what_is_exported_can_be_imported(tmp_path, form):
    stream = io.StringIO()
    assert export.write(RECORDS, form, stream) == 3
    back = read(tmp_path, stream.getvalue())
    for before, after in zip(RECORDS, back, strict=True):
        for name in (
            "title",
            "authors",
            "authors_complete",
            "topic",
            "year",
            "venue",
            "doi",
            "arxiv",
            "url",
            "keywords",
        ):
            expected = getattr(before, name)
            if name == "title" and form == "bibtex":
                expected = expected.replace("{", "").replace("}", "")  # braces are BibTeX's own marks
            if name == "url" and form == "csl-json" and not expected:
                continue
            assert getattr(after, name) == expected, (form, name)
        assert after.abstract.split() == before.abstract.split()


def test_citation_keys_are_unique():
    taken = set()
    assert [export.citation_key(record, taken) for record in (RECORDS[0], RECORDS[0], Record())] == [
        "muller2026flow", "muller2026flow-2", "anonymous",
    ]  # fmt: skip
