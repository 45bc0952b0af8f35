"""One signature, three faces: what is read from annotations and docstrings, and how text becomes values."""

import argparse
from pathlib import Path
from typing import Annotated, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workingpapers.cli import Parser, _add_function
from workingpapers.foundations.errors import InputError
from workingpapers.foundations.progress import silent
from workingpapers.foundations.signature import (
    Between,
    InputFile,
    OutputFile,
    OutputFolder,
    convert,
    describe_arguments,
    parameters,
)


def example(
    data: InputFile,
    other: InputFile | None = None,
    *,
    target: str,
    out: OutputFile | None = None,
    folder: OutputFolder | None = None,
    folds: Annotated[int, Between(2, 50)] = 10,
    share: Annotated[float, Between(0, 1, open_low=True)] = 0.5,
    gate: Literal["wilcoxon", "none"] = "wilcoxon",
    names: tuple[str, ...] = (),
    quick: bool = False,
    progress=silent,
):
    """Do something.

    Args:
        data: The table,
            with a header.
        target: The column.
        folds: How many.

    Returns:
        Nothing.
    """


BY_NAME = {item.name: item for item in parameters(example)}


def test_every_face_is_read():
    assert "progress" not in BY_NAME
    assert [item.kind for item in BY_NAME.values()] == [
        *("input_file", "input_file", "text", "output_file", "output_folder"),
        *("integer", "number", "choice", "text", "flag"),
    ]
    assert BY_NAME["data"].help == "The table, with a header."
    assert BY_NAME["data"].positional
    assert BY_NAME["data"].required
    assert BY_NAME["other"].optional
    assert not BY_NAME["other"].required
    assert BY_NAME["target"].label == "--target"
    assert BY_NAME["target"].required
    assert BY_NAME["gate"].choices == ("wilcoxon", "none")
    assert BY_NAME["names"].many


def test_docstring_arguments_end_with_their_section():
    assert describe_arguments("X.\n\nArgs:\n    a: One.\n    b (int): Two\n        lines.\n\nReturns:\n    c: No.") == {
        "a": "One.",
        "b": "Two lines.",
    }


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("folds", "ten", "--folds is 'ten', which is not a whole number"),
        ("folds", "1.5", "--folds is '1.5', which is not a whole number"),
        ("folds", "1", "--folds is 1; it must be from 2 to 50"),
        ("share", "nan", "--share is nan"),
        ("share", "0", "it must be over 0 to 1"),
        ("gate", "wilcoxn", "did you mean 'wilcoxon'"),
        ("data", "missing.csv", "There is no file 'missing.csv'"),
        ("out", "no/such/folder/x.csv", "does not exist; create it"),
        ("folder", __file__, "is a file; name a folder"),
    ],
)
def test_wrong_text_is_one_sentence_that_names_it(name, text, words):
    with pytest.raises(InputError, match=words) as caught:
        convert(BY_NAME[name], text)
    assert "\n" not in str(caught.value)


def test_right_text_becomes_values(tmp_path):
    assert convert(BY_NAME["folds"], "7") == 7
    assert convert(BY_NAME["share"], "0.25") == 0.25
    assert convert(BY_NAME["names"], ["a,b", "c"]) == ("a", "b", "c")
    assert convert(BY_NAME["quick"], True) is True
    assert convert(BY_NAME["other"], None) is None
    assert convert(BY_NAME["out"], str(tmp_path / "x.csv")) == tmp_path / "x.csv"


def test_empty_file_is_refused(tmp_path):
    (tmp_path / "empty.csv").touch()
    with pytest.raises(InputError, match="is empty"):
        convert(BY_NAME["data"], str(tmp_path / "empty.csv"))


@given(st.integers())
def test_whole_numbers_are_kept_or_refused_by_the_bounds(value):
    if 2 <= value <= 50:
        assert convert(BY_NAME["folds"], str(value)) == value
    else:
        with pytest.raises(InputError):
            convert(BY_NAME["folds"], str(value))


def test_command_line_face():
    parser = Parser(prog="example")
    _add_function(parser, "slug", example)
    given_options = parser.parse_args(["data.csv", "--target", "y", "--names", "a", "b", "--quick"])
    assert given_options.data == "data.csv"
    assert given_options.other is None
    assert given_options.names == ["a", "b"]
    assert given_options.quick is True
    assert given_options.folds is None  # the function's own default is used
    assert "(default 10)" in parser.format_help()


@pytest.mark.parametrize("annotation", [dict, int | str])
def test_annotation_without_a_face_is_a_type_error(annotation):
    def odd(value):
        """Take a value."""

    odd.__annotations__["value"] = annotation
    with pytest.raises(TypeError, match="has no face"):
        parameters(odd)


def test_missing_annotation_is_a_type_error():
    def odd(value):
        """Take a value."""

    with pytest.raises(TypeError, match="has no annotation"):
        parameters(odd)


def test_between_reads_well():
    assert str(Between(0, 1)) == "from 0 to 1"
    assert str(Between(low=0, open_low=True)) == "greater than 0"
    assert str(Between(high=3)) == "at most 3"


def test_parser_errors_leave_with_two(capsys):
    parser = Parser(prog="papers")
    parser.add_argument("x", choices=["alpha", "beta"])
    with pytest.raises(SystemExit) as caught:
        parser.parse_args(["alpa"])
    assert caught.value.code == 2
    assert capsys.readouterr().err == "papers: There is no 'alpa' here; did you mean 'alpha'?\n"
    assert isinstance(parser, argparse.ArgumentParser)
    assert Path(__file__).exists()
