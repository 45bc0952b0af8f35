"""SmartThinker in TRL: the reward function, the trainer, and groups that straddle processes."""

import numpy as np
import pytest

pytest.importorskip("trl")
import torch
from datasets import Dataset

from workingpapers.foundations.errors import InputError
from workingpapers.foundations.language import calm, load_model
from workingpapers.posttraining.smartthinker import (
    SmartThinkerConfig,
    SmartThinkerReward,
    SmartThinkerTrainer,
    smart_length_rewards,
)


def by_length(completion_ids, **_):
    """A verdict that depends on the completion in a known way."""
    return [float(len(ids) % 2) for ids in completion_ids]


def by_sum(completion_ids, **_):
    """A verdict that does not depend on the length."""
    return [float(sum(ids) % 2) for ids in completion_ids]


@pytest.fixture
def make(model, records, tmp_path):
    """Return a function that makes a trainer."""
    return lambda **options: trainer_of(model, records, tmp_path, **options)


def trainer_of(model, records, tmp_path, correctness=by_length, reward_funcs=(), kind=SmartThinkerTrainer, **options):
    arguments = {
        "output_dir": str(tmp_path), "per_device_train_batch_size": 8, "num_generations": 4, "max_steps": 2,
        "max_completion_length": 4, "temperature": 1.0, "learning_rate": 1e-3, "logging_steps": 1, "report_to": [],
        "save_strategy": "no", "use_cpu": True, "bf16": False, "disable_tqdm": True, "gradient_checkpointing": False,
    } | options  # fmt: skip
    policy, tokenizer = load_model(str(model))
    return kind(
        policy, correctness, SmartThinkerConfig(**arguments), Dataset.from_list(records), reward_funcs=reward_funcs,
        processing_class=tokenizer,
    )  # fmt: skip


def ids_of(lengths, end=2):
    return [[5] * (length - 1) + [end] for length in lengths]


# The reward function


def test_the_reward_function_gives_the_rewards_of_its_groups():
    lengths = [100, 201, 301, 400, 11, 20, 31, 41]
    logged = {}
    reward = SmartThinkerReward(by_length, num_generations=4)
    found = reward(["a"] * 4 + ["b"] * 4, [""] * 8, ids_of(lengths), log_metric=logged.__setitem__, trainer_state=None)
    expected = smart_length_rewards([length % 2 for length in lengths], lengths, [0] * 4 + [1] * 4)
    assert found == expected.rewards.tolist()
    assert logged["smartthinker/accuracy"] == pytest.approx(5 / 8)
    assert logged["smartthinker/penalised_groups"] == (expected.coefficient > 0).mean()
    assert sum(value for name, value in logged.items() if "/branch_" in name) == pytest.approx(1)
    assert reward.last.rewards.tolist() == found


def test_groups_by_a_column_may_lie_anywhere():
    lengths = [100, 11, 201, 20, 301, 31, 400, 41]
    column = ["a", "b"] * 4
    found = SmartThinkerReward(by_length, group_column="uid")(["x"] * 8, [""] * 8, ids_of(lengths), uid=column)
    assert found == smart_length_rewards([length % 2 for length in lengths], lengths, column).rewards.tolist()
    with pytest.raises(InputError, match="no column 'uid'"):
        SmartThinkerReward(by_length, group_column="uid")(["x"], [""], [[2]])


def test_completions_without_a_verdict_are_left_out():
    scores = [0, 1, 1, 0, None, 1, None, None]
    lengths = [100, 200, 300, 400, 9, 9, 9, 9]
    reward = SmartThinkerReward(lambda **_: scores, num_generations=4)
    found = reward(["a"] * 4 + ["b"] * 4, [""] * 8, ids_of(lengths))
    assert found == [*smart_length_rewards(scores[:4], lengths[:4], [0] * 4).rewards, None, 1.0, None, None]


def test_scores_are_cut_at_a_threshold():
    reward = SmartThinkerReward(lambda **_: [0.2, 0.7, 0.9, 0.1], num_generations=4, threshold=0.5)
    lengths = [100, 200, 300, 400]
    expected = smart_length_rewards([0, 1, 1, 0], lengths, [0] * 4).rewards.tolist()
    assert reward(["a"] * 4, [""] * 4, ids_of(lengths)) == expected
    with pytest.raises(InputError, match=r"Verdict 0 is 0\.2"):
        SmartThinkerReward(lambda **_: [0.2, 1, 1, 0], num_generations=4)(["a"] * 4, [""] * 4, ids_of(lengths))


def test_parted_groups_are_refused():
    reward = SmartThinkerReward(by_length, num_generations=4)
    with pytest.raises(InputError, match="use SmartThinkerTrainer"):
        reward(["a"] * 6, [""] * 6, ids_of([1] * 6))
    with pytest.raises(InputError, match="not whole groups of 4"):
        reward(["a"] * 2 + ["b"] * 2, [""] * 4, ids_of([1] * 4))
    with pytest.raises(InputError, match="gave 1 scores for 4"):
        SmartThinkerReward(lambda **_: [1], num_generations=4)(["a"] * 4, [""] * 4, ids_of([1] * 4))
    with pytest.raises(InputError, match="Give either"):
        SmartThinkerReward(by_length)
    with pytest.raises(InputError, match="num_generations is 1"):
        SmartThinkerReward(by_length, num_generations=1)


# The trainer


def test_the_trainer_learns_from_the_rewards_of_whole_groups(make):
    seen = []

    class Watched(SmartThinkerTrainer):
        def shorten(self, scores, lengths, ended):
            rewards = super().shorten(scores, lengths, ended)
            seen.append((scores, lengths, ended, rewards))
            return rewards

    with calm(), torch.random.fork_rng():
        torch.manual_seed(0)
        trainer = make(correctness=by_sum, kind=Watched, max_steps=4)
        trainer.train()
    assert len(seen) == 4
    for scores, lengths, ended, rewards in seen:
        right = scores * (ended > 0)  # what was cut off is wrong
        expected = smart_length_rewards(right, lengths, np.arange(8) // 4).rewards
        np.testing.assert_allclose(rewards, expected)
        assert (lengths[ended == 0] == 4).all()
    assert any(((rewards > 0) & (rewards < 1)).any() for *_, rewards in seen)
    assert any((ended == 0).any() for _, _, ended, _ in seen)
    assert len({length for _, lengths, _, _ in seen for length in lengths}) > 1
    logs = [log for log in trainer.state.log_history if "smartthinker/accuracy" in log]
    assert logs[0]["smartthinker/accuracy"] == pytest.approx((seen[0][0] * (seen[0][2] > 0)).mean())
    assert logs[0]["rewards/by_sum/mean"] == pytest.approx(seen[0][3].mean(), abs=1e-6)
    assert len(logs) == 4


def test_advantages_of_the_trainer_are_those_of_the_paper(make):
    with calm(), torch.random.fork_rng():
        torch.manual_seed(1)
        trainer = make(correctness=by_sum, max_steps=1)
        trainer.train()
    logged = torch.tensor(list(trainer._logs["advantages"])).numpy()
    assert abs(logged).max() > 0.5
    # TRL adds 1e-4 to the deviation.
    np.testing.assert_allclose(logged, trainer.last.advantages, atol=2e-3)


def test_a_group_that_straddles_processes_is_put_together(make):
    """Two processes with six completions each, three groups of four: what process 1 sees is gathered."""
    with calm():
        trainer = make()
    lengths, verdicts = [10, 21, 31, 40, 11, 20, 31, 41, 5, 7, 9, 10], [0, 1, 1, 0, 1, 0, 1, 1, 1, 1, 0, 1]
    whole = [torch.tensor(verdicts, dtype=torch.float32)[:, None], torch.tensor([[one, 1] for one in lengths])]

    class Accelerator:
        def gather(self, local):
            assert len(local) == 6
            return whole[1]

    trainer.accelerator = Accelerator()
    from trl.trainer import grpo_trainer

    parent = grpo_trainer.GRPOTrainer._calculate_rewards
    grpo_trainer.GRPOTrainer._calculate_rewards = lambda *_: whole[0]  # TRL's own gathers
    try:
        found = trainer._calculate_rewards([], ["p"] * 6, [""] * 6, ids_of(lengths[6:]))
    finally:
        grpo_trainer.GRPOTrainer._calculate_rewards = parent
    expected = smart_length_rewards(verdicts, lengths, np.arange(12) // 4)
    assert expected.penalised > 0.5
    np.testing.assert_allclose(found[:, 0].numpy(), expected.rewards, atol=1e-6)


def test_more_rewards_are_added_and_none_is_kept(make):
    with calm():
        trainer = make(reward_funcs=[lambda completions, **_: [0.25] * len(completions)])
        inputs = [{"prompt": prompt, "answer": "0"} for prompt in ["a"] * 4 + ["b"] * 4]
        ids = ids_of([10, 21, 31, 40, 11, 20, 31, 41], trainer._tokenizer.eos_token_id)
        found = trainer._calculate_rewards(inputs, ["a"] * 4 + ["b"] * 4, [""] * 8, ids)
        trainer.rule.threshold = 0.5
        kept = trainer.shorten(np.array([np.nan, 0.7, 0.2, 0.9]), np.array([3, 4, 5, 12]), np.array([0, 1, 1, 0]))
    assert found[:, 1].tolist() == [0.25] * 8
    lengths = np.array([len(one) for one in ids])
    np.testing.assert_allclose(found[:, 0], smart_length_rewards(lengths % 2, lengths, np.arange(8) // 4).rewards,
                               atol=1e-6)  # fmt: skip
    np.testing.assert_array_equal(kept, [np.nan, 1, 0, 0])


def test_evaluation_with_one_completion_gives_verdicts(make):
    with calm():
        trainer = make()
    trainer.model.eval()
    trainer.num_generations_eval = 1
    found = trainer.shorten(np.array([1.0, 0.0, 1.0]), np.array([3, 4, 12]), np.array([1, 1, 0]))
    assert found.tolist() == [1, 0, 0]


@pytest.mark.parametrize(
    ("options", "told"),
    [({"tie_rule": "other"}, "tie_rule is 'other'"), ({"wide_rule": "max"}, "wide_rule is 'max'"),
     ({"target_eps": -1.0}, "target_eps is -1"),
     ({"multi_objective_aggregation": "normalize_then_sum"}, "use 'sum_then_normalize'")],
)  # fmt: skip
def test_wrong_options_are_told(options, told, tmp_path):
    with pytest.raises(ValueError, match=told):
        SmartThinkerConfig(str(tmp_path), use_cpu=True, bf16=False, **options)


def test_wrong_arguments_are_told(tmp_path):
    with pytest.raises(TypeError, match="needs a SmartThinkerConfig"):
        SmartThinkerTrainer("model", by_length, {}, None)
    with pytest.raises(TypeError, match="correctness is a str"):
        SmartThinkerTrainer("model", "math", SmartThinkerConfig(str(tmp_path), use_cpu=True, bf16=False), None)


def test_defaults_are_those_of_the_paper(tmp_path):
    found = SmartThinkerConfig(str(tmp_path), use_cpu=True, bf16=False)
    assert (found.num_generations, found.beta, found.temperature, found.learning_rate) == (8, 0.0, 0.6, 1e-6)
    assert (found.loss_type, found.scale_rewards) == ("dapo", "group")
