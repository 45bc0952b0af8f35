"""A large file is read in a second process, with the same result and the same errors."""

import gzip
import json
import subprocess
import sys

import pytest

from workingpapers.catalog import preparing
from workingpapers.catalog.formats import read
from workingpapers.foundations.errors import InputError


@pytest.fixture
def records(tmp_path):
    lines = [
        {"id": f"2601.{n:05d}", "title": f"Paper {n} on «maps»", "authors": ["A B", "王小明"], "abstract": "x " * 90}
        for n in range(4500)
    ]
    file = tmp_path / "records.jsonl"
    file.write_text("\n".join([*map(json.dumps, lines), '{"id": "2601.99999"}']), encoding="utf-8")
    return file


def test_both_ways_give_the_same(records, monkeypatch):
    here = list(preparing.batches(read(records)))
    monkeypatch.setattr(preparing, "LARGE_FILE", 0)
    there = list(preparing.batches_of_file(records))
    assert [batch.read for batch in there] == [2000, 2000, 501]
    assert there == here
    assert [block.line for block in there[-1].rejected] == [4501]


def test_errors_of_the_file_come_through(tmp_path, records, monkeypatch):
    monkeypatch.setattr(preparing, "LARGE_FILE", 0)
    broken = tmp_path / "broken.jsonl.gz"
    broken.write_bytes(gzip.compress(records.read_bytes())[:-2000])
    with pytest.raises(InputError, match=r"'.*broken\.jsonl\.gz' is a broken gzip file"):
        list(preparing.batches_of_file(broken))


def test_a_reader_that_dies_is_reported(records, monkeypatch):
    monkeypatch.setattr(preparing, "LARGE_FILE", 0)
    monkeypatch.setattr(sys, "executable", "/bin/true")
    with pytest.raises(RuntimeError, match="died"):
        list(preparing.batches_of_file(records))


def test_leaving_early_ends_the_reader(records, monkeypatch):
    started = []

    class Watched(subprocess.Popen):
        def __init__(self, *arguments, **options):
            super().__init__(*arguments, **options)
            started.append(self)

    monkeypatch.setattr(preparing, "LARGE_FILE", 0)
    monkeypatch.setattr(subprocess, "Popen", Watched)
    source = preparing.batches_of_file(records)
    next(source)
    source.close()
    assert started[0].poll() is not None


def test_a_script_without_a_main_guard_may_import(records, tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "from workingpapers.catalog import preparing\n"
        "preparing.LARGE_FILE = 0\n"
        f"print(sum(batch.read for batch in preparing.batches_of_file({str(records)!r})))\n"
    )
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=60)
    assert done.stdout == "4501\n", done.stderr
