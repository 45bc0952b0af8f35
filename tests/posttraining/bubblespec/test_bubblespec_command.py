"""The command on real files and wrong ones, and a second run after a kill."""

import json

import numpy as np
import pytest

from workingpapers.foundations.errors import InputError
from workingpapers.foundations.tinylm import Recipe, Sorting, character_tokenizer
from workingpapers.foundations.tinylm.training import new_model
from workingpapers.posttraining.bubblespec.command import run
from workingpapers.posttraining.bubblespec.measuring import length_model


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("model")
    new_model(Recipe(task=Sorting(), layers=1, width=16, heads=2, positions=48)).save_pretrained(place)
    character_tokenizer().save_pretrained(place)
    return place


@pytest.fixture
def prompts(tmp_path):
    path = tmp_path / "prompts.jsonl"
    path.write_text("".join(json.dumps({"prompt": f"{number}31="}) + "\n" for number in range(5)))
    return path


QUICK = {"max_tokens": 12, "samples": 2, "batch": 2, "ranks": 2}


def test_what_drafts_save_is_measured_and_projected(prompts, folder, tmp_path):
    out, report = tmp_path / "out.jsonl", tmp_path / "report.html"
    outcome = run(prompts, out=out, model=str(folder), report=report, **QUICK)
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    assert len(rows) == 5
    assert outcome.data["tokens"] == sum(sum(row["lengths"]) for row in rows) == outcome.data["plain_passes"]
    assert outcome.data["different"] == 0
    assert outcome.data["acceptance"] > 0.9
    assert outcome.data["passes"] < 0.5 * outcome.data["plain_passes"]
    assert "Simulated" in outcome.summary
    assert report.read_text().count("<svg") == 2
    lonely = run(prompts, out=tmp_path / "own.jsonl", model=str(folder), independent=True, **QUICK)
    assert lonely.data["acceptance"] < 0.5
    assert [json.loads(line)["completions"] for line in (tmp_path / "own.jsonl").read_text().splitlines()] == [
        row["completions"] for row in rows
    ]


def test_a_killed_run_goes_on_and_ends_with_the_same_completions(prompts, folder, tmp_path):
    out, whole = tmp_path / "out.jsonl", tmp_path / "whole.jsonl"

    class Killed(Exception):
        pass

    def killer(fraction, message=""):
        if message.startswith("4 of"):
            raise Killed

    with pytest.raises(Killed):
        run(prompts, out=out, model=str(folder), progress=killer, **QUICK)
    assert len(out.read_text().splitlines()) == 4
    run(prompts, out=out, model=str(folder), **QUICK)
    run(prompts, out=whole, model=str(folder), **QUICK)
    kept, fresh = ([json.loads(line)["completions"] for line in path.read_text().splitlines()] for path in (out, whole))
    assert kept == fresh
    with pytest.raises(InputError, match="other prompts or options"):
        run(prompts, out=out, model=str(folder), seed=5, **QUICK)


@pytest.mark.parametrize(
    ("content", "told"),
    [('{"question": "a"}\n', "prompt"), ('{"prompt": ""}\n', "empty"), ('{"prompt": "' + "1" * 60 + '"}\n', "tokens")],
)
def test_wrong_prompts_are_told_before_anything_is_written(content, told, folder, tmp_path):
    path, out = tmp_path / "wrong.jsonl", tmp_path / "out.jsonl"
    path.write_text(content)
    with pytest.raises(InputError, match=told):
        run(path, out=out, model=str(folder), **QUICK)
    assert not out.exists()


def test_checkpoints_of_another_vocabulary_and_foreign_files_are_told(prompts, folder, tmp_path):
    from transformers import LlamaConfig, LlamaForCausalLM

    other = tmp_path / "other"
    LlamaForCausalLM(
        LlamaConfig(vocab_size=50, hidden_size=8, intermediate_size=8, num_hidden_layers=1, num_attention_heads=1)
    ).save_pretrained(other)
    character_tokenizer().save_pretrained(other)
    with pytest.raises(InputError, match="two checkpoints of one model"):
        run(prompts, out=tmp_path / "out.jsonl", model=str(folder), next=str(other), **QUICK)
    foreign = tmp_path / "foreign.jsonl"
    foreign.write_text("hello\n")
    with pytest.raises(InputError, match="line 1"):
        run(prompts, out=foreign, model=str(folder), **QUICK)
    assert foreign.read_text() == "hello\n"


def test_lengths_are_fitted_by_their_two_spreads():
    rng = np.random.default_rng(0)
    logs = np.log(80) + 0.6 * rng.standard_normal((4000, 1)) + 0.3 * rng.standard_normal((4000, 6))
    found = length_model(np.exp(logs), 5000)
    assert found.median == pytest.approx(80, rel=0.04)
    assert found.prompt_spread == pytest.approx(0.6, rel=0.05)
    assert found.sample_spread == pytest.approx(0.3, rel=0.05)
