"""The command on real files and wrong ones, a run that was killed, and what a second run does."""

import json
import shutil

import pytest
import torch
from peft import PeftModel
from transformers import AutoModelForCausalLM, AutoTokenizer

from workingpapers.foundations.errors import InputError
from workingpapers.foundations.signature import convert, parameters
from workingpapers.posttraining.spectral_bridge.command import run

QUICK = {"rank": 4, "learning_rate": 1e-2, "max_steps": 12}


def flat(values):
    return torch.tensor([one for row in values for one in row])


def write(path, *records):
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


def test_a_model_is_tuned_and_peft_loads_what_is_written(data, tiny_folder, tmp_path):
    out = tmp_path / "out"
    outcome = run(data, model=str(tiny_folder), out=out, test=data, **QUICK)
    assert outcome.data["targets"] == 24 * 4  # three digits and the end mark
    assert outcome.data["held_out_loss"] < outcome.data["held_out_loss_before"]
    assert len(outcome.data["ranks"]) == 7
    assert outcome.data["weights_at_largest_rank"] == 4 * (4 * 32 + 3 * 80)
    assert json.dumps(outcome.data)
    loaded = PeftModel.from_pretrained(AutoModelForCausalLM.from_pretrained(tiny_folder), str(out / "adapter"))
    layers = {name: m.r["default"] for name, m in loaded.get_base_model().named_modules() if hasattr(m, "lora_A")}
    assert layers == {name: rank for name, rank in outcome.data["ranks"].items() if rank}
    assert AutoTokenizer.from_pretrained(out / "adapter").pad_token == "<pad>"
    page = (out / "report.html").read_text()
    assert page.count("<svg") == 2
    assert "q_proj" in page
    kept = json.loads((out / "ranks.json").read_text())
    assert [len(values[-1]) for values in kept["paths"]["sigma"].values()] == list(outcome.data["ranks"].values())
    with pytest.raises(InputError, match="holds a finished adapter"):
        run(data, model=str(tiny_folder), out=out, **QUICK)


def test_a_killed_run_goes_on_and_ends_where_an_unbroken_one_does(data, tiny_folder, tmp_path):
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    options = {**QUICK, "max_steps": 20, "targets": 2.0}  # so few targets that modes die before the kill
    first = run(data, model=str(tiny_folder), out=whole, **options)

    class Killed(Exception):
        pass

    def killer(fraction, message=""):
        if message.startswith("step 13"):
            raise Killed

    with pytest.raises(Killed):
        run(data, model=str(tiny_folder), out=broken, progress=killer, **options)
    found = sorted(one.name for one in (broken / "checkpoints").glob("checkpoint-*"))
    assert found == ["checkpoint-10", "checkpoint-12"]
    pruned = json.loads((broken / "checkpoints" / "checkpoint-12" / "adapter_config.json").read_text())
    assert sum(pruned["rank_pattern"].values()) < 4 * 7
    with pytest.raises(InputError, match="another learning rate"):
        run(data, model=str(tiny_folder), out=broken, **{**options, "learning_rate": 0.1})
    second = run(data, model=str(tiny_folder), out=broken, **options)
    assert second.data["ranks"] == first.data["ranks"]
    paths = [json.loads((folder / "ranks.json").read_text())["paths"] for folder in (whole, broken)]
    assert paths[0]["steps"] == paths[1]["steps"]
    for name, values in paths[0]["sigma"].items():
        assert [len(one) for one in values] == [len(one) for one in paths[1]["sigma"][name]]
        assert torch.allclose(flat(values), flat(paths[1]["sigma"][name]), atol=1e-4)


def test_plain_lora_at_temperature_zero_keeps_every_mode(data, tiny_folder, tmp_path):
    outcome = run(data, model=str(tiny_folder), out=tmp_path / "out", temperature=0.0, modules=("q_proj",), **QUICK)
    assert outcome.data["ranks"] == {"model.layers.0.self_attn.q_proj": 4}
    assert outcome.data["weights"] == outcome.data["weights_at_largest_rank"]


GOOD = {"prompt": "321=", "completion": "123"}
CHAT = {"prompt": [{"role": "user", "content": "a"}], "completion": [{"role": "assistant", "content": "b"}]}


@pytest.mark.parametrize(
    ("records", "told"),
    [
        ([GOOD, {"prompt": "3=", "answer": "3"}], "Line 2 .* has no column 'completion'"),
        ([{"promt": "3=", "completion": "3"}], "no column 'prompt'; did you mean 'promt'"),
        ([GOOD, {"prompt": "3=", "completion": " "}], "Line 2 .* has an empty completion"),
        ([{"prompt": "", "completion": "3"}], "empty prompt"),
        ([{"prompt": 3, "completion": "3"}], "neither a text nor a list of messages"),
        ([["prompt", "completion"]], "no JSON object"),
        ([GOOD, CHAT], "mixes texts and lists"),
        ([{**GOOD, "completion": CHAT["completion"]}], "one form for both"),
        ([GOOD, {"prompt": "1" * 30, "completion": "1"}], "Record 2 has 33 tokens and .* reads 32"),
        ([CHAT], "no chat template"),
    ],
)
def test_wrong_records_are_told_before_training(records, told, tiny_folder, tmp_path):
    out = tmp_path / "out"
    with pytest.raises(InputError, match=told):
        run(write(tmp_path / "bad.jsonl", *records), model=str(tiny_folder), out=out, **QUICK)
    assert not out.exists()


def test_other_wrong_input_is_told_before_training(data, tiny_folder, tmp_path):
    out = tmp_path / "out"
    bad = tmp_path / "bad.jsonl"
    bad.write_text('{"prompt": "1=", "completion": "1"}\n{"prompt"\n')
    with pytest.raises(InputError, match=r"Line 2 .* is not JSON"):
        run(bad, model=str(tiny_folder), out=out, **QUICK)
    with pytest.raises(InputError, match="no module 'q_prj'; did you mean 'q_proj'"):
        run(data, model=str(tiny_folder), out=out, modules=("q_prj",), **QUICK)
    with pytest.raises(InputError, match="is not the folder of a model"):
        run(data, model=str(tmp_path), out=out, **QUICK)
    with pytest.raises(InputError, match=r"Line 1 .* no column 'prompt'"):
        run(data, model=str(tiny_folder), out=out, test=write(tmp_path / "test.jsonl", {"text": "a"}), **QUICK)
    assert not out.exists()
    out.mkdir()
    (out / "notes.txt").write_text("mine")
    with pytest.raises(InputError, match="not empty and holds no run"):
        run(data, model=str(tiny_folder), out=out, **QUICK)
    assert [one.name for one in out.iterdir()] == ["notes.txt"]


def test_a_tokenizer_without_marks_is_told(data, tiny_folder, tmp_path):
    folder = tmp_path / "model"
    shutil.copytree(tiny_folder, folder)
    for name in ("tokenizer_config.json",):
        facts = json.loads((folder / name).read_text())
        (folder / name).write_text(json.dumps({k: v for k, v in facts.items() if k not in ("pad_token", "eos_token")}))
    with pytest.raises(InputError, match="neither a padding token nor an end mark"):
        run(data, model=str(folder), out=tmp_path / "out", **QUICK)


@pytest.mark.parametrize(
    ("name", "value", "told"),
    [
        ("rank", "0", "--rank is 0"),
        ("temperature", "-1", "--temperature is -1"),
        ("warmup", "1", "--warmup is 1"),
        ("learning_rate", "fast", "--learning-rate is 'fast'"),
        ("targets", "0", "--targets is 0"),
    ],
)
def test_wrong_options_are_told(name, value, told):
    parameter = next(item for item in parameters(run) if item.name == name)
    with pytest.raises(InputError, match=told):
        convert(parameter, value)
