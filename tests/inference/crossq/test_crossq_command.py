import json

import numpy as np
import pytest

from workingpapers.cli import main
from workingpapers.foundations.errors import InputError
from workingpapers.foundations.signature import convert, parameters
from workingpapers.inference.crossq import MultiVectorIndex
from workingpapers.inference.crossq.command import run_index, run_search

WORDS = (
    "river mountain copper violin harbour glacier lantern orchard sparrow thunder velvet anchor basil cactus desert "
    "ember falcon garden hazel island jungle kettle lemon marble needle ocean pepper quartz ribbon saddle timber"
).split()


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Return documents of random words, questions about some of them, and an index over them."""
    folder = tmp_path_factory.mktemp("command")
    rng = np.random.default_rng(0)
    texts = [" ".join(rng.choice(WORDS, 12)) for _ in range(40)]
    texts[7] = "The astronomer photographed the rings of Saturn through a small telescope."
    lines = [json.dumps({"id": f"r{number}", "text": text}) for number, text in enumerate(texts)]
    (folder / "docs.jsonl").write_text("\n".join(lines) + "\n\n")
    asked = [json.dumps({"text": " ".join(text.split()[:5]), "relevant": f"r{n}"}) for n, text in enumerate(texts[:12])]
    (folder / "queries.jsonl").write_text("\n".join(asked))
    outcome = run_index(
        folder / "docs.jsonl", out=folder / "idx", queries=folder / "queries.jsonl", steps=3, report=folder / "r.html"
    )
    return folder, outcome


def test_index_and_search_from_files(files):
    folder, outcome = files
    assert outcome.data["documents"] == 40
    assert outcome.data["bytes of codes"] == 4 * outcome.data["stored tokens"]
    assert {folder / "idx", folder / "r.html"} == set(outcome.files)
    assert "score on the codes" in (folder / "r.html").read_text()
    found = run_search(folder / "idx", "pictures of a planet with rings", documents=folder / "docs.jsonl", k=3)
    assert found.data["hits"][0]["id"] == "r7"
    assert len(found.data["hits"]) == 3
    assert "astronomer" in found.tables[0].rows[0][-1]
    scores = [hit["score"] for hit in found.data["hits"]]
    assert scores == sorted(scores, reverse=True)


def test_a_second_run_replaces_the_index(files, tmp_path):
    folder, _ = files
    rest = (folder / "docs.jsonl").read_text().splitlines()[:30]
    (tmp_path / "less.jsonl").write_text("\n".join(rest))
    for _ in range(2):
        run_index(tmp_path / "less.jsonl", out=tmp_path / "idx", steps=0, bytes_per_token=2, drop=0.5)
    index = MultiVectorIndex.open(tmp_path / "idx", verify=True)
    assert len(index) == 30
    assert index.codec.stages == 4
    tokens = run_index(tmp_path / "less.jsonl", out=tmp_path / "all", steps=0).data["stored tokens"]
    assert abs(index.tokens - tokens / 2) <= 15  # each document rounds by at most one half


def test_a_damaged_index_is_told_by_the_name_of_its_file(files, tmp_path, capsys):
    folder, _ = files
    run_index(folder / "docs.jsonl", out=tmp_path / "idx", steps=0)
    victim = next((tmp_path / "idx").glob("*-codes.crossq"))
    content = bytearray(victim.read_bytes())
    content[100] ^= 255
    victim.write_bytes(content)
    assert main(["run", "crossq", "search", str(tmp_path / "idx"), "rings"]) == 2
    told = capsys.readouterr().err
    assert told.count("\n") == 1
    assert victim.name in told


LINES = {
    '{"id": "a", "text": "x"}\nnot json': "Line 2",
    '["a"]': "Line 1",
    '{"id": "a"}': "no field 'text'",
    '{"id": "a", "texts": "x"}': "did you mean 'texts'",
    '{"id": "a", "text": "x"}\n{"id": "a", "text": "y"}': "repeats the identifier 'a'",
    '{"id": "a", "text": "x"}\n{"id": 3, "text": "y"}': "mixes",
    '{"id": 1.5, "text": "x"}': "1.5",
    '{"id": true, "text": "x"}': "True",
    '{"id": "a", "text": " "}': "no text",
    "\n\n": "no records",
    '{"id": "a", "text": "few words"}': "at least 256",
}


@pytest.mark.parametrize("content", LINES)
def test_wrong_documents_are_told(content, tmp_path):
    (tmp_path / "docs.jsonl").write_text(content)
    with pytest.raises(InputError, match=LINES[content]):
        run_index(tmp_path / "docs.jsonl", out=tmp_path / "idx")
    assert not (tmp_path / "idx").exists()


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ('{"text": "a b", "relevant": "zz"}', "'zz'"),
        ('{"text": ""}', "Line 1"),
        ('{"text": "a", "relevant": "r1"}\n{"text": "b"}', "1 of 2"),
        ("{", "not JSON"),
    ],
)
def test_wrong_queries_are_told(files, content, words, tmp_path):
    folder, _ = files
    (tmp_path / "queries.jsonl").write_text(content)
    with pytest.raises(InputError, match=words):
        run_index(folder / "docs.jsonl", out=tmp_path / "idx", queries=tmp_path / "queries.jsonl")


def test_wrong_places_are_told(files, tmp_path):
    folder, _ = files
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "notes.txt").write_text("mine")
    with pytest.raises(InputError, match="is not an index"):
        run_index(folder / "docs.jsonl", out=tmp_path / "full")
    with pytest.raises(InputError, match="not an index"):
        run_search(tmp_path / "full", "rings")
    with pytest.raises(InputError, match=r"no config\.json"):
        run_index(folder / "docs.jsonl", out=tmp_path / "idx", encoder=tmp_path)
    with pytest.raises(InputError, match="empty"):
        run_search(folder / "idx", "  ")


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("bytes_per_token", "17", "17"),
        ("drop", "0.9", "0.9"),
        ("conditioning", "docs", "docs"),
        ("k", "0", "0"),
    ],
)
def test_wrong_options_are_told(name, value, words):
    function = run_search if name == "k" else run_index
    parameter = next(item for item in parameters(function) if item.name == name)
    with pytest.raises(InputError, match=words):
        convert(parameter, value)
