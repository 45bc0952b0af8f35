"""The command from files to a folder: training, going on after a kill, adapters, and wrong input told beforehand."""

import copy
import json

import numpy as np
import pytest

pytest.importorskip("trl")
import torch

from workingpapers.foundations.errors import InputError
from workingpapers.foundations.language import attach_lora, load_adapter, load_model, quiet
from workingpapers.foundations.signature import convert, parameters
from workingpapers.foundations.tinylm import Recipe, Sorting, character_tokenizer, planted_preferences
from workingpapers.foundations.tinylm.training import new_model
from workingpapers.posttraining.adpo import Adaptive, Static, aligned_share, fitting, read_preferences
from workingpapers.posttraining.adpo.command import run

RECIPE = Recipe(Sorting(digits=5), layers=1, width=32, heads=2, positions=32)
RECORDS = planted_preferences(Sorting(digits=5), Sorting(digits=5, swap=0.5, drop=0.3), 40, np.random.default_rng(0))
QUICK = {"window": 1, "learning_rate": 3e-3, "max_steps": 4, "batch_size": 8, "accumulation": 1, "beta": 0.3}


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """A folder with an untrained model of single characters, as a person may have one."""
    folder = tmp_path_factory.mktemp("model")
    with quiet():
        new_model(RECIPE).save_pretrained(folder)
        character_tokenizer().save_pretrained(folder)
    return folder


@pytest.fixture
def pairs(tmp_path):
    return written(tmp_path / "pairs.jsonl", RECORDS)


def written(path, records):
    path.write_text("\n".join(map(json.dumps, records)), encoding="utf-8")
    return path


def weights(folder):
    from safetensors.torch import load_file

    return load_file(next(iter(folder.glob("*.safetensors"))))


def test_a_run_learns_and_leaves_a_model_a_summary_and_a_report(pairs, model, tmp_path):
    out = tmp_path / "run"
    found = run(pairs, out=out, model=str(model), lora_rank=0, **{**QUICK, "max_steps": 12})
    kept = json.loads((out / "summary.json").read_text())
    assert kept["pairs"] == 36
    assert kept["measured_pairs"] == 4
    assert kept["margin"] > 0
    assert kept["rejected_log_prob"] < kept["rejected_log_prob_before"]
    assert (kept["margin"]) == pytest.approx(
        0.3 * (kept["chosen_log_prob"] - kept["chosen_log_prob_before"]
               - kept["rejected_log_prob"] + kept["rejected_log_prob_before"]), abs=1e-4)  # fmt: skip
    assert "<svg" in (out / "report.html").read_text()
    trained, _ = load_model(str(out / "model"))
    start, _ = load_model(str(model))
    assert any(not torch.equal(a, b) for a, b in zip(trained.parameters(), start.parameters(), strict=True))
    assert {file.name for file in found.files} == {"model", "summary.json", "report.html"}
    again = run(pairs, out=out, model=str(model), lora_rank=0, **{**QUICK, "max_steps": 12})
    assert again.summary.startswith("This run was finished before.")
    assert again.data["margin"] == kept["margin"]
    with pytest.raises(InputError, match="another beta"):
        run(pairs, out=out, model=str(model), lora_rank=0, **{**QUICK, "max_steps": 12, "beta": 0.2})
    written(pairs, RECORDS[:-1])
    with pytest.raises(InputError, match="another data;"):
        run(pairs, out=out, model=str(model), lora_rank=0, **{**QUICK, "max_steps": 12})


@pytest.mark.parametrize("rank", [0, 4])
def test_a_killed_run_goes_on_and_ends_with_the_same_weights(rank, pairs, model, tmp_path):
    options = {**QUICK, "model": str(model), "lora_rank": rank, "save_every": 2}
    whole = run(pairs, out=tmp_path / "whole", **options)

    def dies(share, message=""):
        if message.startswith("step 3"):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(pairs, out=tmp_path / "killed", **options, progress=dies)
    half = tmp_path / "killed" / "checkpoint-3"  # as if it had died while it wrote one
    half.mkdir()
    (half / "optimizer.pt").write_bytes(b"half")
    resumed = run(pairs, out=tmp_path / "killed", **options)
    assert (whole.data["resumed_from_step"], resumed.data["resumed_from_step"]) == (0, 2)
    one, other = weights(tmp_path / "whole" / "model"), weights(tmp_path / "killed" / "model")
    assert one.keys() == other.keys()
    assert all(torch.equal(one[name], other[name]) for name in one)
    assert resumed.data["margin"] == whole.data["margin"]


def test_an_adapter_is_merged_first_and_part_of_the_reference(pairs, model, tmp_path):
    base, _ = load_model(str(model))
    wrapped = attach_lora(copy.deepcopy(base), rank=2, seed=1)
    with torch.no_grad():
        for name, weight in wrapped.named_parameters():
            if "lora_B" in name:
                weight.normal_(generator=torch.Generator().manual_seed(2))
    wrapped.save_pretrained(tmp_path / "adapter")
    options = {**QUICK, "model": str(model), "adapter": str(tmp_path / "adapter"), "held_out": 0.0}
    found = run(pairs, out=tmp_path / "run", **{**options, "learning_rate": 1e-9, "max_steps": 1})
    merged = load_adapter(base, tmp_path / "adapter").merge_and_unload()
    kept, _ = load_model(str(tmp_path / "run" / "model"))
    for one, other in zip(kept.parameters(), merged.parameters(), strict=True):
        torch.testing.assert_close(one, other)
    assert found.data["margin"] == pytest.approx(0, abs=1e-3)
    assert not found.data["held_out"]
    with pytest.raises(InputError, match="holds no adapter"):
        run(pairs, out=tmp_path / "other", **{**options, "adapter": str(tmp_path)})
    wide = new_model(Recipe(Sorting(), layers=1, width=48, heads=2))
    attach_lora(wide, rank=2).save_pretrained(tmp_path / "wide")
    with pytest.raises(InputError, match="does not fit this model"):
        run(pairs, out=tmp_path / "other", **{**options, "adapter": str(tmp_path / "wide")})
    assert not (tmp_path / "other").exists()


def test_messages_are_trained_on_with_the_models_template(model, tmp_path):
    turns = [
        {"prompt": [{"role": "user", "content": record["prompt"]}],
         **{side: [{"role": "assistant", "content": record[side]}] for side in ("chosen", "rejected")}}
        for record in RECORDS
    ]  # fmt: skip
    path = written(tmp_path / "turns.jsonl", turns)
    with pytest.raises(InputError, match="no chat template"):
        run(path, out=tmp_path / "run", model=str(model), **QUICK)
    tokenizer = character_tokenizer()
    tokenizer.chat_template = (
        "{% for m in messages %}{{ m['content'] }}{% if m['role'] == 'assistant' %}{{ eos_token }}{% endif %}"
        "{% endfor %}"
    )
    with quiet():
        new_model(RECIPE).save_pretrained(tmp_path / "chat")
        tokenizer.save_pretrained(tmp_path / "chat")
    found = run(path, out=tmp_path / "run", model=str(tmp_path / "chat"), **{**QUICK, "max_steps": 1})
    assert found.data["units"] == pytest.approx(6)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('{"prompt": "a", "chosen": "b"}', "Line 1 .* has no 'rejected'"),
        ('{"prompt": "a", "chosen": "b", "reject": "c"}', "did you mean 'reject'"),
        ('\n{"prompt": "a", "chosen": " ", "rejected": "c"}', "Line 2 .* has an empty 'chosen'"),
        ("prompt,chosen", "Line 1 .* is not JSON"),
        ("[1, 2]", "Line 1 .* is no object"),
        ('{"prompt": "a", "chosen": 3, "rejected": "c"}', "neither a text nor a list of messages"),
        ('{"prompt": "a", "chosen": [{"role": "assistant", "content": "b"}], "rejected": "c"}', "mixes texts"),
        ('{"prompt": "a", "chosen": "b", "rejected": "b"}', "no pair of different responses"),
    ],
)
def test_wrong_files_are_told(text, told, tmp_path):
    path = tmp_path / "wrong.jsonl"
    path.write_text(text)
    with pytest.raises(InputError, match=told):
        run(path, out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"model": "no/such-folder-or-model-here/at-all"}, "cannot be loaded"),
        ({"units": 2}, "--units 2 and --window 1 exclude each other"),
        ({"held_out": 0.001}, "leaves 0 to measure on"),
        ({"max_length": 12}, r"line \d+ has 13 tokens; --max-length is 12"),
    ],
)
def test_wrong_options_are_told_before_anything_is_written(options, told, pairs, model, tmp_path):
    with pytest.raises(InputError, match=told):
        run(pairs, out=tmp_path / "run", **({"model": str(model)} | QUICK | options))
    assert not (tmp_path / "run").exists()


def test_pairs_longer_than_the_model_reads_are_told(model, tmp_path):
    path = written(tmp_path / "long.jsonl", [*RECORDS[:9], {"prompt": "1" * 40, "chosen": "1", "rejected": "2"}])
    with pytest.raises(InputError, match="line 10 has 43 tokens; the model reads 32"):
        run(path, out=tmp_path / "run", model=str(model), **QUICK)


def test_a_tokenizer_without_marks_is_told(model, pairs, tmp_path, monkeypatch):
    tokenizer = character_tokenizer()
    tokenizer.eos_token = None
    monkeypatch.setattr(fitting, "load_model", lambda name, dtype=None: (new_model(RECIPE), tokenizer))
    with pytest.raises(InputError, match="no end mark"):
        run(pairs, out=tmp_path / "run", model=str(model), **QUICK)


def test_a_folder_with_other_things_is_left_alone(pairs, tmp_path):
    out = tmp_path / "papers"
    out.mkdir()
    (out / "thesis.tex").write_text("x")
    with pytest.raises(InputError, match="is not empty and holds no run"):
        run(pairs, out=out)
    assert [file.name for file in out.iterdir()] == ["thesis.tex"]


@pytest.mark.parametrize(
    ("name", "value", "told"),
    [("beta", "0", "over|greater than 0"), ("window", "0", "at least 1"), ("units", "x", "whole number"),
     ("held_out", "1", "from 0 to 0.9"), ("normalize", "unit", "did you mean 'units'")],
)  # fmt: skip
def test_wrong_values_are_told(name, value, told):
    parameter = next(item for item in parameters(run) if item.name == name)
    with pytest.raises(InputError, match=told):
        convert(parameter, value)


def test_records_keep_their_lines(tmp_path):
    path = tmp_path / "some.jsonl"
    same = {"prompt": "a", "chosen": "b", "rejected": "b"}
    path.write_text("\n\n".join(map(json.dumps, [same, RECORDS[0]])))
    assert read_preferences(path) == [{**RECORDS[0], "line": 3}]


def test_aligned_shares_by_hand():
    # Best alignment: 2 3 4 of the chosen are 2 3 4 of the rejected, one place later.
    assert aligned_share(Static(1), [1, 2, 3, 4], [2, 3, 4, 9]) == 0.0
    assert aligned_share(Static(2), [1, 2, 3, 4], [2, 3, 4, 9]) == pytest.approx(2 / 3)
    assert aligned_share(Adaptive(1), [1, 2, 3, 4], [2, 3, 4, 9]) == 1.0
    assert aligned_share(Static(1), [1, 2, 3], [1, 7, 3]) == 1.0
    assert aligned_share(Static(1), [1, 2], [3, 4]) == 1.0
    # Even halves: 1 2 | 3 4 5 and 1 2 3 | 4 5 6: of the five common tokens, 3 falls into another half.
    assert aligned_share(Adaptive(2), [1, 2, 3, 4, 5], [1, 2, 3, 4, 5, 6]) == pytest.approx(4 / 5)
