"""Files are read with one-sentence errors, and written whole or not at all."""

import errno
import os

import pytest

from workingpapers.foundations.errors import InputError, near_match
from workingpapers.foundations.figures import INK, canvas, to_svg
from workingpapers.foundations.files import check_readable, check_writable, column, read_table, read_text, whole_file
from workingpapers.foundations.outcome import Figure, Table, format_cell
from workingpapers.foundations.progress import part
from workingpapers.foundations.report import paragraph, render, write_report


def test_whole_file_appears_at_the_end(tmp_path):
    target = tmp_path / "x.txt"
    with whole_file(target) as stream:
        stream.write("å")
        assert not target.exists()
    assert target.read_text(encoding="utf-8") == "å"
    assert [entry.name for entry in tmp_path.iterdir()] == ["x.txt"]


@pytest.mark.parametrize("error", [RuntimeError("x"), KeyboardInterrupt()])
def test_failed_write_leaves_the_old_file_and_nothing_else(tmp_path, error):
    target = tmp_path / "x.txt"
    target.write_text("old")

    def write_half():
        with whole_file(target) as stream:
            stream.write("half")
            raise error

    with pytest.raises(type(error)):
        write_half()
    assert target.read_text() == "old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["x.txt"]


def test_full_disk_is_one_sentence(tmp_path, monkeypatch):
    def full(descriptor):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(InputError, match="no space left on device"), whole_file(tmp_path / "x.txt") as stream:
        stream.write("half")
    assert list(tmp_path.iterdir()) == []


def test_missing_file_offers_a_near_name(tmp_path):
    (tmp_path / "train.csv").write_text("a\n1\n")
    with pytest.raises(InputError, match=r"did you mean 'train.csv'\?"):
        check_readable(tmp_path / "trian.csv")


def test_folder_where_a_file_is_needed(tmp_path):
    with pytest.raises(InputError, match="is a folder"):
        check_readable(tmp_path)
    with pytest.raises(InputError, match="is a folder"):
        check_writable(tmp_path)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "is empty"),
        (b"a,b\n", "no rows"),
        (b"\x7fELF\0\0\0", "binary file"),
        (b"a,b\n\xff\xfe,1\n", "not UTF-8 text .line 2."),
        (b'a,b\n1,2\n3,4,5,6\n"', "cannot be read as a table"),
    ],
)
def test_bad_tables(tmp_path, content, words):
    (tmp_path / "t.csv").write_bytes(content)
    with pytest.raises(InputError, match=words) as caught:
        read_table(tmp_path / "t.csv")
    assert "\n" not in str(caught.value)


def test_good_table(tmp_path):
    (tmp_path / "t.csv").write_text("a,b\n1,x\n,y\n")
    frame = read_table(tmp_path / "t.csv")
    assert frame["a"].isna().tolist() == [False, True]
    assert frame["b"].tolist() == ["x", "y"]
    with pytest.raises(InputError, match="no column 'c'; the columns are a, b"):
        column(frame, "c")
    (tmp_path / "t.tsv").write_text("a\tb\n1\t2\n")
    assert read_table(tmp_path / "t.tsv").shape == (1, 2)
    assert read_text(tmp_path / "t.tsv").startswith("a\t")


def test_near_match_needs_likeness():
    assert near_match("smartthnker", ["smartthinker", "adpo"]) == "; did you mean 'smartthinker'?"
    assert near_match("ADPO", ["adpo"]) == "; did you mean 'adpo'?"
    assert near_match("zzz", ["adpo"]) == ""


def test_parts_of_progress_fill_their_stretch():
    seen = []
    inner = part(lambda fraction, message="": seen.append((fraction, message)), 0.2, 0.6)
    inner(0.0)
    inner(0.5, "half")
    inner(1.0)
    assert seen == [(0.2, ""), (pytest.approx(0.4), "half"), (pytest.approx(0.6), "")]


def test_figures_take_the_colour_of_their_page_and_repeat():
    def draw():
        with canvas() as figure:
            figure.axes[0].plot([0, 1], [0, 1], color=INK)
            figure.axes[0].set_title("A < B")
            return to_svg(figure)

    text = draw()
    assert text.startswith("<svg")
    assert "currentColor" in text
    assert INK not in text
    assert draw() == text


def test_report_escapes_what_it_is_given(tmp_path):
    table = Table(("name", "value"), [("<b>", 1.23456), ("x", None)], "T & U")
    text = render("<title>", [paragraph("a < b"), table, Figure("<svg></svg>", "c < d")])
    assert "&lt;title&gt;" in text
    assert "<td>&lt;b&gt;</td>" in text
    assert '<td class="number">1.235</td>' in text
    assert "c &lt; d" in text
    assert write_report(tmp_path / "r.html", "t", []).read_text().startswith("<!doctype html>")


def test_cells():
    assert [format_cell(value) for value in (None, True, 0.123456, -1.5, "x", float("nan"), 7)] == [
        "–", "yes", "0.1235", "−1.5", "x", "–", "7",
    ]  # fmt: skip
