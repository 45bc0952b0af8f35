"""The commands from files to files: training, going on after a kill, ranking, and wrong input told beforehand."""

import json

import numpy as np
import pytest

pytest.importorskip("trl")
import torch

from workingpapers.foundations.errors import InputError
from workingpapers.foundations.language import attach_lora, load_model, quiet
from workingpapers.foundations.signature import convert, parameters
from workingpapers.foundations.tinylm import Recipe, character_tokenizer
from workingpapers.foundations.tinylm.training import new_model
from workingpapers.posttraining.irpm import fitting, load_judge, model_speaker, storing
from workingpapers.posttraining.irpm.command import run_rank, run_train
from workingpapers.posttraining.irpm.counting import PATTERN, PROMPT, CountingJudge, counting_preferences
from workingpapers.posttraining.irpm.preferences import read_candidates, read_preferences

RECIPE = Recipe(CountingJudge(), layers=1, width=16, heads=2, steps=60, batch=16, learning_rate=1e-2, positions=16)
RECORDS = counting_preferences(40, np.random.default_rng(0))
QUICK = {"pairs": 2, "judgements": 2, "batch_size": 8, "max_steps": 4, "save_every": 2}


@pytest.fixture(autouse=True)
def quick_tiny(monkeypatch, tmp_path_factory):
    """A smaller "tiny", with a cache that lasts as long as the tests."""
    monkeypatch.setenv("WORKINGPAPERS_DATA", str(tmp_path_factory.getbasetemp() / "data"))
    monkeypatch.setattr("workingpapers.posttraining.irpm.counting.TINY_JUDGE", RECIPE)


@pytest.fixture
def pairs(tmp_path):
    return written(tmp_path / "pairs.jsonl", RECORDS)


def written(path, records):
    path.write_text("\n".join(map(json.dumps, records)), encoding="utf-8")
    return path


def weights(folder):
    from safetensors.torch import load_file

    return load_file(next(iter(folder.glob("*.safetensors"))))


@pytest.mark.parametrize("rank", [0, 4])
def test_a_killed_run_goes_on_and_ends_with_the_same_judge(rank, pairs, tmp_path):
    options = {**QUICK, "lora_rank": rank}
    whole = run_train(pairs, out=tmp_path / "whole", **options)

    def dies(share, message=""):
        if message.startswith("step 3"):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_train(pairs, out=tmp_path / "killed", **options, progress=dies)
    half = tmp_path / "killed" / "checkpoint-3"  # as if it had died while it wrote one
    half.mkdir()
    (half / "optimizer.pt").write_bytes(b"half")
    heard = []
    resumed = run_train(
        pairs, out=tmp_path / "killed", **options, progress=lambda share, message="": heard.append(message)
    )
    assert [message for message in heard if message.startswith("step")] == ["step 3 of 4", "step 4 of 4"]
    assert (whole.data["resumed_from_step"], resumed.data["resumed_from_step"]) == (0, 2)
    one, other = weights(tmp_path / "whole" / "model"), weights(tmp_path / "killed" / "model")
    assert one.keys() == other.keys()
    assert all(torch.equal(one[name], other[name]) for name in one)
    assert {**whole.data, "resumed_from_step": 2} == resumed.data

    kept = json.loads((tmp_path / "whole" / "summary.json").read_text())
    assert (kept["pairs"], kept["measured_pairs"], kept["steps"]) == (36, 4, 4)
    assert "<svg" in (tmp_path / "whole" / "report.html").read_text()
    again = run_train(pairs, out=tmp_path / "whole", **options)
    assert again.summary.startswith("This run was finished before.")
    with pytest.raises(InputError, match="another kind"):
        run_train(pairs, out=tmp_path / "whole", **options, kind="auc")
    written(pairs, RECORDS[:-1])
    with pytest.raises(InputError, match="another data;"):
        run_train(pairs, out=tmp_path / "whole", **options)

    judge = load_judge(tmp_path / "whole")
    scores = judge.score("7", ["7777", "1234"])
    assert scores.shape == (2,)
    assert judge.calls == 2
    base, _ = storing.load_base("tiny")
    start = [weight.clone() for weight in base.parameters()]
    found, _ = load_model(str(tmp_path / "whole" / "model"))  # an adapter of tiny is merged
    assert any(not torch.equal(*pair) for pair in zip(start, found.parameters(), strict=True))


def test_candidates_are_ranked_best_first_and_calls_are_counted(pairs, tmp_path, monkeypatch):
    run_train(pairs, out=tmp_path / "judge", **{**QUICK, "max_steps": 1})
    candidates = written(tmp_path / "some.jsonl", [
        {"prompt": "7", "responses": ["1234", "7777", "7123"]}, {"prompt": "3", "chosen": "3333", "rejected": "1234"},
    ])  # fmt: skip
    told = {"7:1234=": "4,1", "7:7777=": "0,9", "7:7123=": "?", "3:3333=": "0,8", "3:1234=": "3,2"}
    monkeypatch.setattr(storing, "model_speaker", lambda *_, **__: lambda prompts: [told[one] for one in prompts])
    out, report = tmp_path / "ranked.jsonl", tmp_path / "report.html"
    found = run_rank(candidates, judge=tmp_path / "judge", out=out, report=report)
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    assert [one["response"] for one in rows[0]["ranked"]] == ["7777", "1234", "7123"]
    assert [one["score"] for one in rows[0]["ranked"]] == [9, 1, None]
    assert [one["rank"] for one in rows[0]["ranked"]] == [1, 2, 3]
    assert rows[0]["ranked"][0]["critique"] == "0"
    assert rows[0]["ranked"][2]["problem"]
    assert found.data == {"requests": 2, "responses": 5, "calls": 5, "pairwise_calls": 4, "unparsable": 0.2,
                          "ties": 0.0, "pairs": 1, "accuracy": 1.0}  # fmt: skip
    assert "<svg" in report.read_text()
    assert run_rank(candidates, judge=tmp_path / "judge", out=out, votes=3).data["calls"] == 15


def test_messages_are_judged_with_the_models_template(pairs, tmp_path):
    tokenizer = character_tokenizer()
    tokenizer.chat_template = "{% for m in messages %}{{ m['content'] }}{% endfor %}"
    model, _ = storing.load_base("tiny")
    with quiet():
        model.save_pretrained(tmp_path / "chat")
        tokenizer.save_pretrained(tmp_path / "chat")
    (tmp_path / "short.txt").write_text("{prompt}:{response}=")
    with pytest.raises(InputError, match="None of 24 judgements"):  # it says 2,8, where tags are asked for
        run_train(pairs, out=tmp_path / "run", model=str(tmp_path / "chat"), template=tmp_path / "short.txt",
                  max_tokens=6, held_out=0.2, **QUICK)  # fmt: skip
    assert not (tmp_path / "run").exists()


def test_an_adapter_lies_on_its_base_and_on_no_other_model(tmp_path):
    model, tokenizer = storing.load_base("tiny")
    wide = new_model(Recipe(CountingJudge(), layers=1, width=32, heads=2, positions=16))
    for name, one in (("base", model), ("wide", wide)):
        with quiet():
            one.save_pretrained(tmp_path / name)
            tokenizer.save_pretrained(tmp_path / name)
    adapted = attach_lora(model, rank=2, seed=1)
    with torch.no_grad():
        for name, weight in adapted.named_parameters():
            if "lora_B" in name:
                weight.normal_(generator=torch.Generator().manual_seed(2))
    facts = storing.JudgeFacts(str(tmp_path / "base"), "{prompt}:{response}=", False, PATTERN, 0.0, 10.0, 6)
    storing.save_judge(tmp_path, adapted, tokenizer, facts)
    assert (tmp_path / "model" / "adapter_config.json").is_file()
    asked = [PROMPT.render("7", "7123")]
    assert load_judge(tmp_path).speak(asked) == model_speaker(adapted, tokenizer, most=6)(asked)
    kept = json.loads((tmp_path / "judge.json").read_text())
    (tmp_path / "judge.json").write_text(json.dumps({**kept, "base": str(tmp_path / "wide")}))
    with pytest.raises(InputError, match="does not fit this model"):
        load_judge(tmp_path)
    (tmp_path / "judge.json").write_text('{"base": "tiny"}')
    with pytest.raises(InputError, match="does not describe a judge"):
        load_judge(tmp_path)
    with pytest.raises(InputError, match="holds no trained judge"):
        load_judge(tmp_path / "base")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('{"prompt": "a", "chosen": "b"}', "Line 1 .* has no 'rejected'"),
        ('{"prompt": "a", "chosen": "b", "reject": "c"}', "did you mean 'reject'"),
        ('\n{"prompt": "a", "chosen": " ", "rejected": "c"}', "Line 2 .* has an empty chosen"),
        ("prompt,chosen", "Line 1 .* is not JSON"),
        ('{"prompt": "a", "chosen": 3, "rejected": "c"}', "neither a text nor a list of messages"),
        ('{"prompt": "a", "chosen": "b", "rejected": "b"}', "no pair of different responses"),
        ('{"prompt": "a", "chosen": "b", "rejected": "c", "strength": "much"}', "strength 'much'"),
        ('{"prompt": "a", "chosen": "b", "rejected": "c", "strength": 1}\n{"prompt": "a", "chosen": "b", '
         '"rejected": "c"}', "Line 2 .* has no 'strength' and others have"),
    ],
)  # fmt: skip
def test_wrong_pairs_are_told(text, told, tmp_path):
    path = tmp_path / "wrong.jsonl"
    path.write_text(text)
    with pytest.raises(InputError, match=told):
        run_train(path, out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('{"prompt": "a"}', "has no 'responses'"),
        ('{"prompt": "a", "responses": []}', "no list of texts"),
        ('{"prompt": "a", "responses": "b"}', "no list of texts"),
        ('{"prompt": "a", "responses": ["b", ""]}', "an empty response 2"),
        ('{"responses": ["b"]}', "has no 'prompt'"),
        ('{"prompt": "a", "responses": ["b"]}', "holds no trained judge"),
    ],
)
def test_wrong_candidates_are_told(text, told, tmp_path):
    path = tmp_path / "wrong.jsonl"
    path.write_text(text)
    with pytest.raises(InputError, match=told):
        run_rank(path, judge=tmp_path / "none", out=tmp_path / "out.jsonl")
    assert not (tmp_path / "out.jsonl").exists()


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"model": "no/such-folder-or-model-here/at-all"}, "cannot be loaded"),
        ({"held_out": 0.001}, "leaves 0 to measure on"),
        ({"kind": "margin"}, "needs a 'strength'"),
        ({"batch_size": 3}, "does not divide the 8 judgements"),
        ({"max_tokens": 9}, r"Line 1 .* of 8 tokens, which with 9 .* more than the 16"),
    ],
)
def test_wrong_options_are_told_before_anything_is_written(options, told, pairs, tmp_path):
    with pytest.raises(InputError, match=told):
        run_train(pairs, out=tmp_path / "run", **(QUICK | options))
    assert not (tmp_path / "run").exists()


def test_templates_without_fields_are_told(pairs, tmp_path):
    (tmp_path / "judge.txt").write_text("Judge {prompt}!")
    with pytest.raises(InputError, match=r"no \{response\}"):
        run_train(pairs, out=tmp_path / "run", template=tmp_path / "judge.txt", **QUICK)


def test_a_tokenizer_without_an_end_mark_is_told(pairs, tmp_path, monkeypatch):
    tokenizer = character_tokenizer()
    tokenizer.eos_token = None
    monkeypatch.setattr(fitting.storing, "load_base", lambda *_, **__: (new_model(RECIPE), tokenizer))
    with pytest.raises(InputError, match="no end mark"):
        run_train(pairs, out=tmp_path / "run", **QUICK)


def test_a_folder_with_other_things_is_left_alone(pairs, tmp_path):
    out = tmp_path / "papers"
    out.mkdir()
    (out / "thesis.tex").write_text("x")
    with pytest.raises(InputError, match="is not empty and holds no run"):
        run_train(pairs, out=out)
    assert [file.name for file in out.iterdir()] == ["thesis.tex"]


@pytest.mark.parametrize(
    ("name", "value", "told"),
    [("beta", "-1", "at least 0"), ("judgements", "1", "at least 2"), ("pairs", "x", "whole number"),
     ("held_out", "1", "from 0 to 0.9"), ("kind", "means", "did you mean 'mean'")],
)  # fmt: skip
def test_wrong_values_are_told(name, value, told):
    parameter = next(item for item in parameters(run_train) if item.name == name)
    with pytest.raises(InputError, match=told):
        convert(parameter, value)


def test_records_keep_strength_and_messages(tmp_path):
    turns = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "ho"}]
    same = {"prompt": "a", "chosen": "b", "rejected": "b", "strength": 1}
    path = written(tmp_path / "some.jsonl", [same, {"prompt": turns, "chosen": "b", "rejected": "c", "strength": 3}])
    (found,) = read_preferences(path)
    assert (found["prompt"], found["strength"]) == (turns, 3.0)
    assert found["place"].startswith("Line 2 of")
    pair = {"prompt": "a", "chosen": "b", "rejected": "c"}
    both = written(tmp_path / "both.jsonl", [pair, {**pair, "responses": ["x"]}])
    assert [(row["responses"], row["pair"]) for row in read_candidates(both)] == [(["b", "c"], True), (["x"], False)]
