"""Records with prompts and conversations, from every kind of file, and what is wrong with them."""

import json

import pandas as pd
import pytest

from workingpapers.foundations.conversations import messages, plain_text, read_rows, reply_like, text_of
from workingpapers.foundations.errors import InputError

TURNS = [{"role": "user", "content": "Hello"}, {"role": "assistant", "content": "Good day"}]
ROWS = [{"prompt": "one", "n": 1}, {"prompt": TURNS, "n": 2}]


@pytest.mark.parametrize("kind", ["jsonl", "json", "parquet"])
def test_the_same_rows_come_from_every_kind_of_file(tmp_path, kind):
    path = tmp_path / f"rows.{kind}"
    if kind == "parquet":
        pd.DataFrame([{"prompt": row["prompt"]} for row in [{"prompt": TURNS}, {"prompt": TURNS}]]).to_parquet(path)
        assert [messages(row["prompt"], "prompt", place) for place, row in read_rows(path)] == [TURNS, TURNS]
        return
    text = "\n".join(map(json.dumps, ROWS)) + "\n\n" if kind == "jsonl" else json.dumps(ROWS)
    path.write_text(text)
    assert [row for _, row in read_rows(path)] == ROWS


def test_tables_leave_out_empty_cells(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text("prompt,other\none,\ntwo,x\n")
    assert [row for _, row in read_rows(path)] == [{"prompt": "one"}, {"prompt": "two", "other": "x"}]


def test_conversations_become_text_and_replies_take_the_kind_of_their_prompt():
    assert plain_text("one") == "one"
    assert plain_text(TURNS[:1]) == "Hello"
    assert plain_text(TURNS) == "user: Hello\n\nassistant: Good day"
    assert reply_like("one", "yes") == "yes"
    assert reply_like(TURNS, "yes") == [{"role": "assistant", "content": "yes"}]
    assert text_of({"prompt": TURNS}, "prompt", "Line 1") == plain_text(TURNS)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ('{"promt": "a"}', "Line 1 of"),
        ('{"prompt": ""}', "has an empty prompt"),
        ('{"prompt": [{"role": "user"}]}', "neither a text nor a list of messages"),
        ("no json", "Line 1 of"),
        ("[1, 2]", "is not a JSON object"),
        ("[", "is not JSON"),
        ("\n\n", "holds no records"),
    ],
)
def test_what_is_wrong_is_told_with_its_place(tmp_path, content, words):
    path = tmp_path / "rows.jsonl"
    path.write_text(content)
    with pytest.raises(InputError) as error:
        [text_of(row, "prompt", place) for place, row in read_rows(path)]
    assert words in str(error.value)
    if "promt" in content:
        assert "did you mean 'promt'" in str(error.value)
