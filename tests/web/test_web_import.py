"""Proceedings: first what would change, then the import."""

import gzip
import json

import pytest

from workingpapers.catalog import library
from workingpapers.catalog.export import write
from workingpapers.catalog.records import Record
from workingpapers.web.importing import import_files

RECORDS = [
    Record(
        title="Widgets that count themselves and others",
        authors=("Ann Lee", "Bo Li"),
        topic="Theory · Widgets",
        year=2026,
        venue="ICML",
        abstract="We show that widgets count. " * 8,
    ),
    Record(title="An unrelated study of gadgets at scale", authors=("Cy Wu",), year=2025, venue="ICML"),
]


@pytest.fixture
def records():
    def read():
        backend = library.open_catalog()
        try:
            return list(backend.records())
        finally:
            backend.close()

    return read


def content(form, tmp_path):
    file = tmp_path / f"x.{form}"
    with file.open("w", encoding="utf-8", newline="") as stream:
        write(RECORDS, form, stream)
    return file.read_bytes()


@pytest.mark.parametrize(
    ("form", "name"), [("bibtex", "x.bib"), ("csl-json", "x.json"), ("jsonl", "x.jsonl"), ("csv", "x.csv")]
)
def test_a_preview_changes_nothing_and_the_import_does_what_it_said(client, ended, records, tmp_path, form, name):
    raw = content(form, tmp_path)
    if form == "jsonl":
        raw, name = gzip.compress(raw), "x.jsonl.gz"
    before = records()
    job = ended(client, client.post("/api/imports", files={"files": (name, raw)}).json()["id"])
    assert job["state"] == "done", job
    preview = client.get(f"/api/jobs/{job['id']}/outcome").json()
    assert (preview["kept"], preview["read"], preview["new"]) == (False, 2, 2)
    assert records() == before
    page = client.get(f"/jobs/{job['id']}").text
    assert "Widgets that count themselves and others" in page
    assert f'action="/import/{job["id"]}/confirm"' in page
    assert ended(client, client.post(f"/api/imports/{job['id']}/confirm").json()["id"])["state"] == "done"
    outcome = client.get(f"/api/jobs/{job['id']}/outcome").json()
    assert (outcome["kept"], outcome["new"], outcome["records"]) == (True, 2, len(before) + 2)
    assert len(records()) == len(before) + 2
    assert client.post(f"/api/imports/{job['id']}/confirm").status_code == 400
    assert "confirm" not in client.get(f"/jobs/{job['id']}").text


def test_a_preview_names_what_changes_and_what_is_rejected(tmp_path, records):
    first = tmp_path / "first.csv"
    first.write_text("title,authors\nWidgets that count themselves and others,Ann Lee\n", encoding="utf-8")
    import_files([(first, "first.csv")], keep=True, tell=lambda event: None)
    second = tmp_path / "second.csv"
    second.write_text(
        "title,authors,doi\nWidgets that count themselves and others,Ann Lee,10.1234/widgets\n,Bo Li,\n",
        encoding="utf-8",
    )
    before = records()
    found = import_files([(second, "second.csv")], keep=False, tell=lambda event: None)
    assert records() == before
    assert (found["new"], found["merged"], found["rejected"]) == (0, 1, 1)
    assert found["first_changed"][0]["changes"] == ["doi"]
    assert found["first_rejected"][0]["file"] == "second.csv"
    assert found["first_rejected"][0]["line"] == 3
    assert str(tmp_path) not in json.dumps(found)


PAIRS = """title,authors,doi,arxiv,abstract
{gadget},Cy Wu,10.1234/gadgets,,
An unrelated study of gadgets at scale II,Cy Wu,,2601.00001,
"""
JOINING = """title,authors,doi,arxiv,abstract
Gadgets revisited,Cy Wu,10.1234/gadgets,2601.00001,{abstract}
Gizmos of the third kind,Di Xu,10.1234/gizmos,,
Gizmos of the third kind and more,Di Xu,10.1234/gizmos,2601.00002,
{gadget},Cy Wu,,,
"""


def test_a_preview_says_exactly_what_the_import_then_does(tmp_path, records):
    gadget = RECORDS[1].title
    first, second, third = (tmp_path / f"{name}.csv" for name in ("first", "second", "third"))
    first.write_text(PAIRS.format(gadget=gadget), encoding="utf-8")
    second.write_text(JOINING.format(gadget=gadget, abstract="We look again. " * 9), encoding="utf-8")
    third.write_text("title,authors,arxiv\nGizmos of another name,Di Xu,2601.00002\n", encoding="utf-8")
    import_files([(first, "first.csv")], keep=True, tell=lambda event: None)
    count = len(records())
    files = [(second, "second.csv"), (third, "third.csv"), (second, "second.csv")]
    said = import_files(files, keep=False, tell=lambda event: None)
    assert len(records()) == said["records"] == count
    done = import_files(files, keep=True, tell=lambda event: None)
    assert (done["read"], done["new"], done["records"]) == (9, 1, count)  # one is new, and two become one
    assert {**said, "kept": True, "records": count} == done


def test_a_preview_neither_waits_for_a_writer_nor_makes_one_wait(tmp_path):
    file = tmp_path / "x.csv"
    file.write_bytes(content("csv", tmp_path))
    other = library.open_catalog()
    written = []

    def write_meanwhile(event):
        with other.writing():
            other.set_meta("written", str(len(written)))
        written.append(other.get_meta("written"))

    try:
        other._connection.execute("PRAGMA busy_timeout = 0")
        with other.writing():
            assert import_files([(file, "x.csv")], keep=False, tell=lambda event: None)["new"] == 2
        import_files([(file, "x.csv")], keep=False, tell=write_meanwhile)
    finally:
        other.close()
    assert written


def test_several_files_are_one_import(client, ended, tmp_path):
    files = [("files", ("a.bib", content("bibtex", tmp_path))), ("files", ("b.csv", content("csv", tmp_path)))]
    job = ended(client, client.post("/api/imports", files=files).json()["id"])
    found = client.get(f"/api/jobs/{job['id']}/outcome").json()
    assert (found["read"], found["new"]) == (4, 2)


@pytest.mark.parametrize("path", ["/import", "/api/imports"])
def test_a_file_that_is_no_proceedings_says_so(client, ended, path):
    assert client.post(path, files={"files": ("x.parquet", b"PAR1")}).status_code == 400
    assert client.post(path, data={"files": "text"}).status_code == 400
    answer = client.post("/api/imports", files={"files": ("x.txt", b"Dear diary, nothing happened.\n")})
    job = ended(client, answer.json()["id"])
    assert job["state"] == "failed"
    assert "known formats" in job["error"]


def test_what_failed_in_the_middle_keeps_nothing(client, ended, records, tmp_path):
    before = records()
    good, broken = content("csv", tmp_path), gzip.compress(content("csv", tmp_path))[:-20]
    files = [("files", ("a.csv", good)), ("files", ("b.csv.gz", broken))]
    job = ended(client, client.post("/api/imports", files=files).json()["id"])
    assert job["state"] == "failed"
    assert client.post(f"/api/imports/{job['id']}/confirm").status_code == 400
    assert records() == before
