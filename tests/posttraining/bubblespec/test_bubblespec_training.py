"""Training with and without drafts ends in the same bits: in turn, on real processes, and in TRL's trainer."""

import hashlib
from pathlib import Path

import pytest
import torch
from datasets import Dataset

from workingpapers.foundations.errors import InputError
from workingpapers.foundations.tinylm import Recipe, Sorting, character_tokenizer
from workingpapers.foundations.tinylm.training import new_model
from workingpapers.posttraining.bubblespec import loop
from workingpapers.posttraining.bubblespec.cluster import AcceptanceModel, ClusterSpec, calibrate, fit_step_time
from workingpapers.posttraining.bubblespec.drafts import Draft, DraftStore
from workingpapers.posttraining.bubblespec.loop import Run, train_in_turn, train_on_processes
from workingpapers.posttraining.bubblespec.trainer import BubbleConfig, BubbleTrainer

SMALL = {"ranks": 2, "steps": 4, "prompts": 2, "samples": 3, "width": 32, "base_steps": 150}


@pytest.fixture(scope="module")
def plain():
    return train_in_turn(Run(speculative=False, **SMALL))


@pytest.mark.parametrize(("order", "coupled"), [("own", True), ("pooled", True), ("pooled", False)])
def test_weights_and_texts_are_those_without_drafts_and_passes_are_fewer(plain, order, coupled):
    found = train_in_turn(Run(order=order, coupled=coupled, **SMALL))
    assert found.digest == plain.digest
    assert found.texts == plain.texts
    assert found.rewards == plain.rewards
    assert found.critical[0] == plain.critical[0]
    assert sum(found.passes) <= sum(plain.passes)
    assert sum(found.drafted) > 0
    if coupled:
        assert sum(found.passes) < sum(plain.passes)
        assert max(found.accepted) > 0.5


def test_other_seeds_give_other_weights(plain):
    assert train_in_turn(Run(speculative=False, seed=1, **SMALL)).digest != plain.digest


def test_poisoned_drafts_change_nothing_but_passes(plain, monkeypatch):
    pool = DraftStore.pool
    monkeypatch.setattr(DraftStore, "pool", lambda self, *job: [Draft((7,) * 20)] if pool(self, *job) else [])
    found = train_in_turn(Run(**SMALL))
    assert found.digest == plain.digest
    assert found.texts == plain.texts


def test_idle_processes_draft_and_all_end_in_the_weights_of_one(plain, tmp_path):
    found = train_on_processes(Run(**SMALL), tmp_path / "meeting", slow={1: 0.5})
    assert [one.digest for one in found] == [plain.digest] * 2
    assert sum(found[0].drafted) > 0  # it waits for the slow one
    assert found[0].window_seconds > 0
    assert max(found[1].accepted[1:]) > 0
    with pytest.raises(InputError, match="not empty"):
        train_on_processes(Run(**SMALL), tmp_path / "meeting")


def trained(folder: Path, **options):
    model = new_model(Recipe(Sorting(digits=3), layers=1, width=16, heads=2, positions=32, seed=1)).double()
    rows = Dataset.from_list([{"prompt": f"{a}{b}{(a + b) % 10}="} for a in range(4) for b in range(4)])

    def digits(completions, **_):
        return [float(sum(text.count(str(number)) for number in range(5))) for text in completions]

    settings = BubbleConfig(
        output_dir=str(folder), max_steps=4, per_device_train_batch_size=6, num_generations=3, learning_rate=1e-3,
        max_completion_length=12, logging_steps=1, save_strategy="no", report_to=[], use_cpu=True, bf16=False,
        disable_tqdm=True, seed=3, gradient_checkpointing=False, **options,
    )  # fmt: skip
    with torch.random.fork_rng():
        trainer = BubbleTrainer(model, digits, settings, train_dataset=rows, processing_class=character_tokenizer())
        trainer.train()
    digest = hashlib.sha256(b"".join(value.numpy().tobytes() for value in model.state_dict().values())).hexdigest()
    return digest, [log for log in trainer.state.log_history if "bubblespec/passes" in log]


@pytest.mark.parametrize("options", [{}, {"num_iterations": 2}, {"gradient_accumulation_steps": 2}])
def test_trl_ends_in_the_same_weights_with_fewer_passes(tmp_path, options):
    digest, logs = trained(tmp_path / "plain", **options)
    drafted_digest, drafted_logs = trained(tmp_path / "drafted", window_passes=40, **options)
    assert drafted_digest == digest
    assert [log["reward"] for log in drafted_logs] == [log["reward"] for log in logs]
    assert all(log["bubblespec/acceptance"] == 0 for log in logs)
    assert drafted_logs[0]["bubblespec/acceptance"] == 0
    # What was peeked is what came: drafts of the right prompts with the right keys stand nearly always.
    assert max(log["bubblespec/acceptance"] for log in drafted_logs) > 0.7
    assert sum(log["bubblespec/passes"] for log in drafted_logs) < 0.8 * sum(log["bubblespec/passes"] for log in logs)


@pytest.mark.parametrize(
    ("options", "told"),
    [({"ahead": 0}, "ahead=0"), ({"min_p": 0.1}, "min_p"), ({"repetition_penalty": 1.2}, "repetition_penalty")],
)
def test_wrong_settings_are_told(tmp_path, options, told):
    with pytest.raises(ValueError, match=told):
        BubbleConfig(output_dir=str(tmp_path), use_cpu=True, bf16=False, **options)


def test_step_times_are_fitted():
    tokens = (1, 2, 4, 8, 16, 32, 64)
    level, saturation = fit_step_time(tokens, [0.01 * max(1, count / 16) for count in tokens])
    assert saturation == 16
    assert level == pytest.approx(0.01)
    timed = calibrate(new_model(Recipe(Sorting(), layers=1, width=16, heads=2)), tokens=(1, 2, 4), context=8, repeats=1)
    assert timed.step_time > 0
    assert len(timed.seconds) == 3


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (lambda: ClusterSpec(ranks=0), "ranks=0"),
        (lambda: ClusterSpec(order="both"), "both"),
        (lambda: AcceptanceModel(1.5), "stand=1.5"),
        (lambda: loop.BubbleScheduler(None, samples=2), "peeked"),
    ],
)
def test_wrong_parts_are_told(call, told):
    with pytest.raises(InputError, match=told):
        call()
