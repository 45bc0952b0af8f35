"""ADPO inside TRL: one unit is its DPO, with and without adapters, and finer units are the loss of the formula."""

import copy
import warnings

import numpy as np
import pytest

pytest.importorskip("trl")
import torch
from datasets import Dataset
from trl.trainer.dpo_config import DPOConfig
from trl.trainer.dpo_trainer import DPOTrainer

from workingpapers.foundations.language import completion_log_probs, encode_pairs, quiet
from workingpapers.foundations.tinylm import Recipe, Sorting, character_tokenizer, planted_preferences
from workingpapers.foundations.tinylm.training import new_model
from workingpapers.posttraining.adpo import Adaptive, ADPOConfig, ADPOTrainer, Static, adpo_loss

RECIPE = Recipe(Sorting(digits=5), layers=1, width=32, heads=2)
RECORDS = planted_preferences(Sorting(digits=5), Sorting(digits=5, swap=0.5, drop=0.5), 24, np.random.default_rng(0))


def trainer_of(kind, folder, adapter=False, **options):
    from peft import LoraConfig

    configuration = {ADPOTrainer: ADPOConfig, DPOTrainer: DPOConfig}[kind]
    model = new_model(RECIPE)
    with quiet(), warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        defaults = {"beta": 0.3, "learning_rate": 3e-3, "max_steps": 4, "per_device_train_batch_size": 8,
                    "logging_steps": 1, "use_cpu": True, "bf16": False, "gradient_checkpointing": False,
                    "report_to": [], "save_strategy": "no", "disable_tqdm": True, "seed": 5}  # fmt: skip
        return kind(
            model=model,
            ref_model=None if adapter else copy.deepcopy(model),
            args=configuration(output_dir=str(folder), **(defaults | options)),
            train_dataset=Dataset.from_list(RECORDS),
            eval_dataset=Dataset.from_list(RECORDS),
            processing_class=character_tokenizer(),
            peft_config=LoraConfig(r=4, target_modules=["q_proj", "v_proj"], task_type="CAUSAL_LM")
            if adapter
            else None,
        )


def trained(*args, **options):
    with torch.random.fork_rng():
        trainer = trainer_of(*args, **options)
        trainer.train()
    return trainer


@pytest.mark.parametrize("adapter", [False, True], ids=["all weights", "adapter"])
def test_one_unit_is_trl_dpo_to_the_last_bit(adapter, tmp_path):
    plain = trained(DPOTrainer, tmp_path, adapter)
    ours = trained(ADPOTrainer, tmp_path, adapter, units=1)
    for (name, one), (_, other) in zip(plain.model.named_parameters(), ours.model.named_parameters(), strict=True):
        assert torch.equal(one, other), name
    logged = [log for log in plain.state.log_history if "loss" in log]
    again = [log for log in ours.state.log_history if "loss" in log]
    assert len(logged) == 4
    for one, other in zip(logged, again, strict=True):
        for name in ("loss", "grad_norm", "rewards/chosen", "rewards/margins", "logps/rejected"):
            assert one[name] == other[name], name
        assert other["adpo/units"] == 1
        assert other["adpo/unit_margins"] == pytest.approx(other["rewards/margins"], abs=1e-6)
        assert other["adpo/unit_accuracies"] == pytest.approx(other["rewards/accuracies"])
    assert logged[-1]["loss"] < logged[0]["loss"]


@pytest.mark.parametrize(
    ("options", "composition"),
    [({"window": 2}, Static(2)), ({"units": 3}, Adaptive(3)), ({}, Adaptive(256)),
     ({"units": 9, "allow_empty": True, "normalize": "units"}, Adaptive(9, allow_empty=True))],
)  # fmt: skip
def test_the_loss_is_the_formula_on_exact_log_probabilities(options, composition, tmp_path):
    trainer = trained(ADPOTrainer, tmp_path, max_steps=2, **options)
    found = trainer.evaluate()
    prompts = [record["prompt"] for record in RECORDS]
    parts = []
    for model in (trainer.model, trainer.ref_model):
        for side in ("chosen", "rejected"):
            pairs = encode_pairs(character_tokenizer(), prompts, [record[side] for record in RECORDS])
            rows = completion_log_probs(model.eval(), pairs)
            parts.append(torch.nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=-99.0))
    masks = [(part != -99.0).long() for part in parts[:2]]
    right = adpo_loss(
        *parts, *masks, beta=0.3, composition=composition, normalize=options.get("normalize", "none")
    )  # fmt: skip
    assert found["eval_loss"] == pytest.approx(right.loss.item(), abs=1e-4)
    assert found["eval_adpo/units"] == pytest.approx(right.units.double().mean().item(), abs=1e-4)
    assert found["eval_adpo/unit_accuracies"] == pytest.approx(
        (right.margins > 0).sum().item() / right.units.sum().item(), abs=0.01
    )
    assert found["eval_rewards/chosen"] == pytest.approx(right.chosen_rewards.mean().item(), abs=1e-3)


def test_nothing_is_left_on_the_models(tmp_path):
    trainer = trained(ADPOTrainer, tmp_path, max_steps=1, units=2)
    assert not trainer.model._forward_hooks
    assert not trainer.ref_model._forward_hooks


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"units": 2, "window": 2}, "exactly one"),
        ({"window": 0}, "window is 0"),
        ({"beta": -1.0}, "beta is -1.0"),
        ({"normalize": "tokens"}, "normalize is 'tokens'"),
        ({"loss_type": ["ipo"]}, "loss_type"),
        ({"loss_type": ["sigmoid", "sft"], "loss_weights": [1.0, 0.5]}, "loss_type"),
        ({"ld_alpha": 0.5}, "ld_alpha"),
        ({"f_divergence_type": "js_divergence"}, "f_divergence_type"),
        ({"use_weighting": True}, "use_weighting"),
        ({"precompute_ref_log_probs": True}, "precompute_ref_log_probs"),
    ],
)
def test_wrong_configurations_are_told(options, told, tmp_path):
    with pytest.raises(ValueError, match=told):
        ADPOConfig(output_dir=str(tmp_path), bf16=False, **options)


def test_the_default_is_the_papers_and_another_configuration_is_refused(tmp_path):
    assert ADPOConfig(output_dir=str(tmp_path), bf16=False).composition == Adaptive(256)
    with pytest.raises(TypeError, match="is a DPOConfig"):
        ADPOTrainer(new_model(RECIPE), args=DPOConfig(output_dir=str(tmp_path), bf16=False))
