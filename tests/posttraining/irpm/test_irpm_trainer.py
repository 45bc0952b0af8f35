"""IRPM inside TRL: the rewards it gives are those of the function, whatever batch and process a judgement is in."""

import warnings

import numpy as np
import pytest

pytest.importorskip("trl")
import torch
from datasets import Dataset

from workingpapers.foundations.language import quiet
from workingpapers.foundations.tinylm import Recipe, Sorting, character_tokenizer
from workingpapers.foundations.tinylm.training import new_model
from workingpapers.posttraining.irpm import IRPMConfig, IRPMTrainer, intergroup_rewards, judge_rows
from workingpapers.posttraining.irpm.counting import PATTERN, PROMPT, counting_preferences, quality
from workingpapers.posttraining.irpm.rivals import LooseTrainer, right_letter

RECIPE = Recipe(Sorting(digits=4), layers=1, width=32, heads=2, positions=32)
RECORDS = counting_preferences(12, np.random.default_rng(0))
ROWS = judge_rows(RECORDS, PROMPT)


def trainer_of(folder, trainer=IRPMTrainer, rows=ROWS, *, evaluated=None, functions=(), peft=None, **options):
    defaults = {"learning_rate": 1e-2, "max_steps": 2, "per_device_train_batch_size": 12, "num_generations": 3,
                "beta": 0.0, "max_completion_length": 4, "use_cpu": True, "bf16": False, "report_to": [],
                "activation_checkpointing": False, "save_strategy": "no", "disable_tqdm": True, "logging_steps": 1,
                "seed": 3, "score_pattern": PATTERN}  # fmt: skip
    with quiet(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return trainer(
            new_model(RECIPE), IRPMConfig(output_dir=str(folder), **(defaults | options)), Dataset.from_list(rows),
            eval_dataset=evaluated and Dataset.from_list(evaluated), reward_funcs=functions,
            processing_class=character_tokenizer(), peft_config=peft,
        )  # fmt: skip


def judged(trainer, texts, rows):
    """Return what the trainer gives for these judgements of these rows, shape (n, functions)."""
    ids = [list(range(len(text))) for text in texts]
    return trainer._calculate_rewards(rows, [row["prompt"] for row in rows], texts, ids).numpy()


def test_rewards_are_those_of_the_function_in_any_order(tmp_path):
    trainer = trainer_of(tmp_path, kind="auc")
    rows = [row for row in ROWS[:6] for _ in range(3)]
    source = np.random.default_rng(1)
    texts = [f"1,{number}" for number in source.integers(0, 10, 18)]
    texts[4] = "junk"
    order = source.permutation(18)
    expected = intergroup_rewards(
        [float(text[2]) if text != "junk" else 0 for text in texts], [row["pair_id"] for row in rows],
        [row["role"] for row in rows], [text != "junk" for text in texts], kind="auc",
    )  # fmt: skip
    np.testing.assert_allclose(judged(trainer, texts, rows)[:, 0], expected, atol=1e-6)
    shuffled = judged(trainer, [texts[place] for place in order], [rows[place] for place in order])
    np.testing.assert_allclose(shuffled[:, 0], expected[order], atol=1e-6)
    assert trainer._metrics["train"]["irpm/unparsable"] == pytest.approx([1 / 18] * 2)


def test_messages_are_read_too_and_the_settings_reach_the_comparison(tmp_path):
    trainer = trainer_of(tmp_path, kind="margin", margin_step=2.0, format_penalty=0.25, overlong_tokens=3)
    rows = [{**row, "strength": 3.0} for row in ROWS[:2]]
    texts = [[{"role": "assistant", "content": "0,7"}], [{"role": "assistant", "content": "0,5"}]]
    found = trainer._calculate_rewards(rows, [row["prompt"] for row in rows], texts, [[1, 2, 3, 4], [1]])
    assert found[:, 0].tolist() == [-1.25, -1.0]  # 7 is not over 5 + 2; four tokens are too many


def test_judgements_of_other_processes_are_gathered_before_they_are_compared(tmp_path, monkeypatch):
    """As if each of two processes held one side of a pair: neither could compare anything by itself."""
    trainer = trainer_of(tmp_path)
    chosen, rejected = [ROWS[0]] * 2, [ROWS[1]] * 2
    with pytest.raises(ValueError, match="has no rejected"):
        judged(trainer, ["0,6", "0,4"], chosen)
    others = torch.tensor([[5.0, 1, 0, 1, 2, 0], [3.0, 1, 0, 1, 2, 0]], dtype=torch.float64)
    assert [row["pair_id"] for row in (*chosen, *rejected)] == [0] * 4
    monkeypatch.setattr(trainer.accelerator, "gather", lambda local: torch.cat([local, others]))
    assert judged(trainer, ["0,6", "0,4"], chosen)[:, 0].tolist() == [1, -1, -1, 1]  # all processes, in their order


def test_training_raises_the_reward_and_logs_what_the_judge_does(tmp_path):
    def zeros(completions, **_):
        return [float("0" in text) for text in completions]

    with torch.random.fork_rng():
        trainer = trainer_of(tmp_path, functions=[zeros], max_steps=3)
        before = [weight.clone() for weight in trainer.model.parameters()]
        trainer.train()
    assert any(not torch.equal(*pair) for pair in zip(before, trainer.model.parameters(), strict=True))
    logs = [log for log in trainer.state.log_history if "irpm/unparsable" in log]
    assert len(logs) == 3
    # An untrained model writes nothing readable: each judgement is wrong, and loses the penalty on top.
    assert all(log["rewards/intergroup/mean"] == pytest.approx(-1.5) for log in logs)
    assert all(log["reward"] == pytest.approx(-1.5 + log["rewards/zeros/mean"], abs=1e-6) for log in logs)
    with pytest.raises(ValueError, match="100% of a batch"), torch.random.fork_rng():
        trainer_of(tmp_path, abort_unparsable=0.9).train()


def test_pairs_stay_together_in_training_and_in_evaluation(tmp_path):
    trainer = trainer_of(tmp_path, evaluated=ROWS, per_device_eval_batch_size=12)
    for sampler in (trainer._get_train_sampler(), trainer._get_eval_sampler(trainer.eval_dataset)):
        places = list(sampler)
        for start in range(0, len(places), 12):
            batch = places[start : start + 12]
            pairs = [(ROWS[place]["pair_id"], ROWS[place]["role"]) for place in batch]
            assert sorted(pairs) == sorted((pair, role) for pair in {pair for pair, _ in pairs} for role in (0, 1)
                                           for _ in range(3))  # fmt: skip
    with torch.random.fork_rng():
        assert trainer.evaluate()["eval_irpm/unparsable"] == 1.0


def test_equality_is_right_only_in_the_careless_comparison(tmp_path):
    table = np.array([[5.0, 1, 0, 0, 2, 0], [4.0, 1, 0, 0, 2, 0], [5.0, 1, 0, 1, 2, 0], [5.0, 1, 0, 1, 2, 0]])
    assert trainer_of(tmp_path).compare(table).tolist() == [-1, -1, -1, -1]
    assert trainer_of(tmp_path, LooseTrainer).compare(table).tolist() == [1, -1, -1, -1]
    table[1, 0] = 5.0
    assert trainer_of(tmp_path, LooseTrainer).compare(table).tolist() == [1, 1, 1, 1]
    table[:, 0], table[1, 1] = (6, 0, 5, 3), 0
    assert trainer_of(tmp_path, LooseTrainer).compare(table).tolist() == [1, -1.5, -1, 1]


@pytest.mark.parametrize(
    ("rows", "told"),
    [
        ([{key: value for key, value in row.items() if key != "role"} for row in ROWS], "no column 'role'"),
        (ROWS[1:] + ROWS[:1], "Rows 0 and 1 are not the two responses"),
        (ROWS[:3], "Rows 2 and 3"),
        ([ROWS[0], ROWS[0]], "Rows 0 and 1"),
    ],
)
def test_rows_that_cannot_be_paired_are_told(rows, told, tmp_path):
    with pytest.raises(ValueError, match=told):
        trainer_of(tmp_path, rows=rows)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"kind": "median"}, "kind is 'median'"),
        ({"shuffle_dataset": True}, "would part the two responses"),
        ({"per_device_train_batch_size": 9}, "odd number of prompts"),
        ({"score_pattern": "x"}, "no group"),
        ({"score_low": 11.0}, "low must be less"),
    ],
)
def test_wrong_configurations_are_told(options, told, tmp_path):
    with pytest.raises(ValueError, match=told):
        trainer_of(tmp_path, **options)


def test_another_configuration_is_refused(tmp_path):
    from trl.trainer.grpo_config import GRPOConfig

    with pytest.raises(TypeError, match="needs an IRPMConfig"):
        IRPMTrainer(new_model(RECIPE), GRPOConfig(output_dir=str(tmp_path), bf16=False), Dataset.from_list(ROWS))


def test_the_small_world_is_what_it_says():
    for record in counting_preferences(50, np.random.default_rng(2)):
        assert quality(record["prompt"], record["chosen"]) > quality(record["prompt"], record["rejected"])
        assert len(record["chosen"]) == len(record["rejected"]) == 4
    flipped = counting_preferences(400, np.random.default_rng(2), flip=0.25)
    wrong = np.mean(
        [quality(one["prompt"], one["chosen"]) < quality(one["prompt"], one["rejected"]) for one in flipped]
    )
    assert wrong == pytest.approx(0.25, abs=0.08)
    assert right_letter(["01>A", "01>B", "01A", "0x>A"], ["A", "A", "A", "A"]) == [1.0, -1.0, -1.5, -1.5]
