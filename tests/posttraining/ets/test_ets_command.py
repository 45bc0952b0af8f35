"""The command: prompts in, answers out, kept one by one; a second run goes on; what it refuses."""

import json

import pytest

pytest.importorskip("trl")

from workingpapers.cli import main
from workingpapers.foundations.tinylm import Recipe, Sorting, character_tokenizer
from workingpapers.foundations.tinylm.training import new_model

QUICK = ["--candidates", "3", "--rollouts", "2", "--block", "2", "--max-tokens", "5", "--answer", "."]


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("model")
    new_model(Recipe(Sorting(), width=16, heads=2)).save_pretrained(folder)
    character_tokenizer().save_pretrained(folder)
    return folder


@pytest.fixture
def prompts(tmp_path):
    path = tmp_path / "prompts.jsonl"
    path.write_text("".join(json.dumps({"prompt": text}) + "\n" for text in ("31=", "20=", "9=")))
    return path


def run(model, prompts, *more):
    return main(
        ["run", "ets", str(prompts), "--model", str(model), "--out", str(prompts.parent / "a.jsonl"), *QUICK, *more]
    )


@pytest.mark.parametrize("method", ["ets", "best", "vote", "plain"])
def test_every_method_answers_every_prompt(model, prompts, capsys, method):
    assert run(model, prompts, "--method", method, "--json", "--report", str(prompts.parent / "r.html")) == 0
    told = json.loads(capsys.readouterr().out)
    rows = [json.loads(line) for line in (prompts.parent / "a.jsonl").read_text().splitlines()]
    assert [row["prompt"] for row in rows] == ["31=", "20=", "9="]
    assert told["answers"] == 3
    assert told["tokens"] == sum(row["tokens"] for row in rows)
    assert ("effective" in rows[0]) == (method == "ets")
    assert (prompts.parent / "r.html").is_file()


def test_a_second_run_goes_on_with_the_same_answers(model, prompts, capsys):
    out = prompts.parent / "a.jsonl"
    assert run(model, prompts) == 0
    capsys.readouterr()
    whole = out.read_text()
    out.write_text(whole.splitlines(keepends=True)[0] + whole.splitlines()[1][:20])  # killed within the second line
    assert run(model, prompts, "--json") == 0
    assert out.read_text() == whole
    assert json.loads(capsys.readouterr().out)["earlier"] == 1


def test_a_reward_of_ones_own_sees_texts(model, prompts, tmp_path):
    program = tmp_path / "mine.py"
    program.write_text(
        "def reward(prompts, completions):\n"
        "    assert set(prompts) <= {'31=', '20=', '9='}\n"
        "    return [float(len(text) == 0) for text in completions]\n"
    )
    assert run(model, prompts, "--program", str(program), "--tradeoff", "0.01", "--candidates", "60") == 0
    rows = [json.loads(line) for line in (tmp_path / "a.jsonl").read_text().splitlines()]
    assert sum(row["completion"] == "" for row in rows) >= 1


@pytest.mark.parametrize(
    ("content", "more", "said"),
    [
        ('{"text": "a"}', [], "has no 'prompt'"),
        ('{"prompt": ""}', [], "has an empty prompt"),
        ('{"prompt": [{"role": "user"}]}', [], "neither a text nor a list of messages"),
        ("no", [], "Line 1 of"),
        ('{"prompt": "1="}', ["--answer", "("], "no regular expression"),
        ('{"prompt": "1="}', ["--model", "{}/nothing"], "cannot be loaded"),
        ('{"prompt": "1="}', ["--model", "{}"], "no config.json"),
        ('{"prompt": "1="}', ["--max-tokens", "127"], "more than the 128 that the model reads"),
        ('{"prompt": "1="}', ["--tradeoff", "0"], "greater than 0"),
    ],
)
def test_what_cannot_be_used_is_told_in_a_sentence(model, tmp_path, capsys, content, more, said):
    path = tmp_path / "prompts.jsonl"
    path.write_text(content + "\n")
    assert run(model, path, *[word.format(tmp_path) for word in more]) == 2
    err = capsys.readouterr().err
    assert said in err
    assert err.count("\n") == 1
    assert not (tmp_path / "a.jsonl").exists()


def test_answers_to_other_prompts_are_not_touched(model, prompts, capsys):
    out = prompts.parent / "a.jsonl"
    for text, said in (
        ('{"prompt": "5=", "completion": "5", "tokens": 1}\n', "answers to other prompts"),
        ("no\n", "no answers of this command"),
    ):
        out.write_text(text)
        assert run(model, prompts) == 2
        assert said in capsys.readouterr().err
        assert out.read_text() == text
