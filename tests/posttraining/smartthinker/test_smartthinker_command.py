"""The command from files to a folder: training, going on after a kill, programs, and wrong input told beforehand."""

import json

import pytest

pytest.importorskip("trl")
import torch

from workingpapers.foundations.errors import InputError
from workingpapers.foundations.language import load_model, quiet
from workingpapers.foundations.signature import convert, parameters
from workingpapers.foundations.tinylm import character_tokenizer
from workingpapers.posttraining.smartthinker import fitting
from workingpapers.posttraining.smartthinker.command import run
from workingpapers.posttraining.smartthinker.plan import by_pattern, read_prompts

NUMBER = r"-?\d[\d,]*(?:\.\d+)?"
QUICK = {"max_steps": 4, "prompts_per_step": 2, "generations": 4, "batch_size": 4, "max_tokens": 6, "held_out": 6,
         "learning_rate": 1e-3, "temperature": 1.0}  # fmt: skip


@pytest.fixture
def prompts(tmp_path, records):
    return written(tmp_path / "prompts.jsonl", records)


def written(path, records):
    path.write_text("\n".join(map(json.dumps, records)), encoding="utf-8")
    return path


def weights(folder):
    from safetensors.torch import load_file

    return load_file(next(iter(folder.glob("*.safetensors"))))


def test_a_run_leaves_a_model_a_summary_and_a_report(prompts, records, model, tmp_path):
    out = tmp_path / "run"
    found = run(prompts, out=out, model=str(model), **QUICK)
    kept = json.loads((out / "summary.json").read_text())
    assert (kept["prompts"], kept["measured_prompts"], kept["steps"]) == (14, 6, 4)
    assert 0 < kept["length"] <= 6
    assert "<svg" in (out / "report.html").read_text()
    start, end = weights(model), weights(out / "model")
    assert any(not torch.equal(start[name], end[name]) for name in start)
    assert 0 < kept["penalised_groups"] <= 1
    assert {file.name for file in found.files} == {"model", "summary.json", "report.html"}
    again = run(prompts, out=out, model=str(model), **QUICK)
    assert again.summary.startswith("This run was finished before.")
    with pytest.raises(InputError, match=r"another learning_rate \(0.001 there, 0.002 here\)"):
        run(prompts, out=out, model=str(model), **{**QUICK, "learning_rate": 0.002})
    written(prompts, records[:-1])
    with pytest.raises(InputError, match="another data;"):
        run(prompts, out=out, model=str(model), **QUICK)


@pytest.mark.parametrize("rank", [0, 2])
def test_a_killed_run_goes_on_and_ends_with_the_same_weights(rank, prompts, model, tmp_path):
    options = {**QUICK, "model": str(model), "lora_rank": rank, "save_every": 2}
    whole = run(prompts, out=tmp_path / "whole", **options)

    def dies(share, message=""):
        if message.startswith("step 3"):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(prompts, out=tmp_path / "killed", **options, progress=dies)
    resumed = run(prompts, out=tmp_path / "killed", **options)
    assert (whole.data["resumed_from_step"], resumed.data["resumed_from_step"]) == (0, 2)
    start = weights(model if not rank else tmp_path / "whole" / "checkpoint-2")
    one, other = weights(tmp_path / "whole" / "model"), weights(tmp_path / "killed" / "model")
    assert one.keys() == other.keys()
    assert all(torch.equal(one[name], other[name]) for name in one)
    assert not all(torch.equal(one[name], start[name]) for name in one)
    same = ("accuracy_before", "accuracy", "length_before", "length", "penalised_groups")
    assert [whole.data[name] for name in same] == [resumed.data[name] for name in same]


def test_a_program_of_the_users_judges(prompts, model, tmp_path):
    program = tmp_path / "check.py"
    program.write_text(
        "def short(prompts, completions, completion_ids, answer, **_):\n"
        "    assert len(prompts) == len(answer)\n"
        "    return [float(len(ids) < 4) for ids in completion_ids]\n"
    )
    found = run(prompts, out=tmp_path / "run", model=str(model), program=program, function="short", **QUICK)
    assert found.data["accuracy_before"] <= 1
    with pytest.raises(InputError, match="has no function 'shrt'; did you mean 'short'"):
        run(prompts, out=tmp_path / "other", model=str(model), program=program, function="shrt", **QUICK)
    for body, told in (("return [0.5] * 6", "the first of them 0.5"), ("return [1]", "gave 1 values for 6"),
                       ("return 1 / 0", "failed .ZeroDivisionError")):  # fmt: skip
        program.write_text(f"def correct(**_):\n    {body}\n")
        with pytest.raises(InputError, match=told):
            run(prompts, out=tmp_path / "other", model=str(model), program=program, **QUICK)
        assert not (tmp_path / "other").exists()


def test_messages_are_trained_on_with_the_models_template(model, records, tmp_path):
    turns = [{**row, "prompt": [{"role": "user", "content": row["prompt"]}]} for row in records]
    path = written(tmp_path / "turns.jsonl", turns)
    with pytest.raises(InputError, match="no chat template"):
        run(path, out=tmp_path / "run", model=str(model), **QUICK)
    tokenizer = character_tokenizer()
    tokenizer.chat_template = "{{ bos_token }}{% for m in messages %}{{ m['content'] }}{% endfor %}"
    with quiet():
        load_model(str(model))[0].save_pretrained(tmp_path / "chat")
        tokenizer.save_pretrained(tmp_path / "chat")
    found = run(path, out=tmp_path / "run", model=str(tmp_path / "chat"), **{**QUICK, "max_steps": 1})
    assert found.data["steps"] == 1


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('{"prompt": "a"}', "Line 1 .* has no 'answer'"),
        ('{"prompt": "a", "answr": "1"}', "did you mean 'answr'"),
        ('{"prompt": " ", "answer": "1"}', "empty prompt"),
        ('\n{"prompt": "a", "answer": "none"}', "Line 2 .* has the answer 'none', in which --pattern"),
        ("prompt,answer", "Line 1 .* is not JSON"),
        ("[1, 2]", "Entry 1 .* is not a JSON object"),
        ('{"prompt": 3, "answer": "1"}', "neither a text nor a list"),
        ('{"prompt": "a", "answer": 1}\n{"prompt": [{"role": "user", "content": "b"}], "answer": 1}', "mixes texts"),
        ('{"prompt": "a", "answer": 1}\n{"prompt": "a", "answer": 1, "x": 2}', "do not both have 'x'"),
        ('{"prompt": "a", "answer": 1}', "holds 1 prompts; --held-out 6 leaves -5"),
    ],
)
def test_wrong_files_are_told(text, told, tmp_path):
    path = tmp_path / "wrong.jsonl"
    path.write_text(text)
    with pytest.raises(InputError, match=told):
        run(path, out=tmp_path / "run", **QUICK)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"model": "no/such-folder-or-model-here/at-all"}, "cannot be loaded"),
        ({"batch_size": 3}, "--batch-size 3 does not divide the 8 completions"),
        ({"pattern": "("}, "is no regular expression"),
        ({"max_tokens": 40}, "Line 1 .* has a prompt of 9 tokens; with --max-tokens 40 .* the 32 that the model reads"),
        ({"held_out": 19}, "leaves 1, fewer than --prompts-per-step 2"),
    ],
)
def test_wrong_options_are_told_before_anything_is_written(options, told, prompts, model, tmp_path):
    with pytest.raises(InputError, match=told):
        run(prompts, out=tmp_path / "run", **({"model": str(model)} | QUICK | options))
    assert not (tmp_path / "run").exists()


def test_a_tokenizer_without_marks_is_told(prompts, model, tmp_path, monkeypatch):
    tokenizer = character_tokenizer()
    tokenizer.eos_token = None
    policy, _ = load_model(str(model))
    monkeypatch.setattr(fitting, "load_model", lambda name, dtype=None: (policy, tokenizer))
    with pytest.raises(InputError, match="no end mark"):
        run(prompts, out=tmp_path / "run", model="mine", **QUICK)


def test_a_folder_with_other_things_is_left_alone(prompts, tmp_path):
    out = tmp_path / "papers"
    out.mkdir()
    (out / "thesis.tex").write_text("x")
    with pytest.raises(InputError, match="is not empty and holds no run"):
        run(prompts, out=out, **QUICK)
    assert [file.name for file in out.iterdir()] == ["thesis.tex"]


@pytest.mark.parametrize(
    ("name", "value", "told"),
    [("generations", "1", "at least 2"), ("learning_rate", "0", "greater than 0"), ("temperature", "0", "over 0"),
     ("max_steps", "x", "whole number"), ("program", "check.txt", "no Python file")],
)  # fmt: skip
def test_wrong_values_are_told(name, value, told):
    parameter = next(item for item in parameters(run) if item.name == name)
    with pytest.raises(InputError, match=told):
        convert(parameter, value)


def test_answers_are_compared_as_numbers_or_texts(tmp_path):
    correct = by_pattern(NUMBER)
    completions = ["so 3 and 1,000", "it is 1000.0.", "none", "1000 or 7", [{"role": "assistant", "content": "= 1000"}]]
    assert correct(completions=completions, answer=["#### 1,000"] * 5) == [1, 1, 0, 0, 1]
    boxed = by_pattern(r"\\boxed\{([^}]*)\}")
    assert boxed(completions=[r"\boxed{x+1}", "x+1"], answer=[r"\boxed{x+1}"] * 2) == [1, 0]
    path = written(tmp_path / "some.jsonl", [{"prompt": "a", "solution": "so 4"}, {"prompt": "b", "solution": "5"}])
    assert [row["answer"] for row in read_prompts(path, NUMBER)] == ["so 4", "5"]
