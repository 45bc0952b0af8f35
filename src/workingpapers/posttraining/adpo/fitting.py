"""One run of the command: checks, training through TRL with checkpoints, and what changed on held-out pairs."""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from workingpapers.foundations.errors import InputError
from workingpapers.foundations.language import calm, load_adapter, load_model
from workingpapers.foundations.progress import Progress
from workingpapers.foundations.run_folder import PLAN, facts_of, last_checkpoint, write_json
from workingpapers.foundations.tinylm import Recipe, Sorting, ready
from workingpapers.posttraining.adpo.plan import MODEL, Plan
from workingpapers.posttraining.adpo.trainer import ADPOConfig, ADPOTrainer

TINY = "tiny"


@dataclass(frozen=True)
class Fitted:
    """What a run leaves for its summary.

    Args:
        trainer: The trainer, after training.
        tokenizer: The model's tokenizer.
        reference: The reference model, or None where it is the policy without its adapter.
        held_out: Tokenised pairs to measure on, rows with prompt_ids, chosen_ids, rejected_ids.
        fresh: Whether these were kept out of training.
        pairs: Pairs trained on.
        resumed: Step from which training went on; 0 for a run from the start.
    """

    trainer: Any
    tokenizer: Any
    reference: Any
    held_out: list[dict[str, list[int]]]
    fresh: bool
    pairs: int
    resumed: int


def fit(
    records: list[dict[str, Any]], data: Path, out: Path, plan: Plan, *, tensorboard: bool, progress: Progress
) -> Fitted:
    """Train, from the last checkpoint in the folder where there is one, and write the model.

    Args:
        records: Its pairs, from :func:`read_preferences`.
        data: The preference file.
        out: The run's folder, made where it does not exist.
        plan: What to run.
        tensorboard: Whether to write TensorBoard logs.
        progress: Told of steps and loss.

    Raises:
        InputError: For data, models, adapters and lengths that do not fit, before training and before anything is
            written; and when the loss stops being finite.
    """
    trained, measured = _split(records, plan)
    model, tokenizer = _load(plan, progress)
    if tokenizer.eos_token is None:
        raise InputError(f"The tokenizer of {plan.model!r} has no end mark; set tokenizer.eos_token.")
    if not isinstance(records[0]["prompt"], str) and not tokenizer.chat_template:
        raise InputError(
            f"The pairs are lists of messages and the tokenizer of {plan.model!r} has no chat template; give texts."
        )
    existed = out.exists()
    with calm(), torch.random.fork_rng():
        reference = None if plan.lora_rank else copy.deepcopy(model)
        trainer = _trainer(model, reference, tokenizer, trained, measured, out, plan, tensorboard, progress)
        try:
            _check_lengths(trainer, [trained, measured], plan, model.config)
        except InputError:
            if not existed:
                out.rmdir()
            raise
        write_json(out / PLAN, facts_of(data, plan))
        checkpoint = last_checkpoint(out)
        trainer.train(resume_from_checkpoint=str(checkpoint) if checkpoint else None)
        _save(trainer, tokenizer, out / MODEL, merge=plan.adapter is not None)
    rows = [dict(row) for row in trainer.eval_dataset]
    resumed = int(checkpoint.name.rpartition("-")[2]) if checkpoint else 0
    return Fitted(trainer, tokenizer, reference, rows, plan.held_out > 0, len(trained), resumed)


def _split(records: list[dict[str, Any]], plan: Plan) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    count = round(plan.held_out * len(records))
    if plan.held_out and not 1 <= count < len(records):
        raise InputError(
            f"--held-out {plan.held_out:g} of {len(records)} pairs leaves {count} to measure on and "
            f"{len(records) - count} to train on; give more pairs or --held-out 0."
        )
    order = np.random.default_rng([plan.seed, 1]).permutation(len(records))
    measured, trained = order[:count], np.sort(order[count:])
    return [records[row] for row in trained], [records[row] for row in np.sort(measured if count else order)[:200]]


def _load(plan: Plan, progress: Progress) -> tuple[Any, Any]:
    if plan.model == TINY:
        model, tokenizer = ready(Recipe(Sorting(swap=0.5)), progress)
    else:
        on_gpu = torch.cuda.is_available() and torch.cuda.is_bf16_supported()
        model, tokenizer = load_model(plan.model, dtype=torch.bfloat16 if on_gpu and plan.lora_rank else None)
    if plan.adapter is not None:
        model = load_adapter(model, plan.adapter).merge_and_unload()
    return model, tokenizer


def _trainer(
    model: Any, reference: Any, tokenizer: Any, trained: list[dict[str, Any]], measured: list[dict[str, Any]],
    out: Path, plan: Plan, tensorboard: bool, progress: Progress,
) -> Any:  # fmt: skip
    from datasets import Dataset
    from peft import LoraConfig
    from transformers import PrinterCallback, TrainerCallback

    class Watch(TrainerCallback):  # type: ignore[misc]
        def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            progress(state.global_step / state.max_steps, f"step {state.global_step} of {state.max_steps}")

        def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **_: Any) -> None:
            loss = (logs or {}).get("loss")
            if loss is not None and not math.isfinite(loss):
                raise InputError(f"The loss is {loss} at step {state.global_step}; lower --learning-rate.")

    make: Any = LoraConfig
    adapter = make(r=plan.lora_rank, lora_alpha=2 * plan.lora_rank, target_modules="all-linear", task_type="CAUSAL_LM")
    gpu = torch.cuda.is_available()
    each_step = plan.batch_size * plan.accumulation
    steps = plan.max_steps or math.ceil(plan.epochs * math.ceil(len(trained) / each_step))
    arguments: Any = ADPOConfig(
        output_dir=str(out), units=plan.units, window=plan.window, normalize=plan.normalize, beta=plan.beta,
        learning_rate=plan.learning_rate, max_steps=steps, per_device_train_batch_size=plan.batch_size,
        gradient_accumulation_steps=plan.accumulation, warmup_steps=round(0.1 * steps), weight_decay=0.01,
        logging_steps=max(1, steps // 50), save_strategy="steps", save_steps=plan.save_every, save_total_limit=2,
        max_length=None, seed=plan.seed, use_cpu=not gpu, bf16=gpu and torch.cuda.is_bf16_supported(),
        activation_checkpointing=gpu, report_to=["tensorboard"] if tensorboard else [], disable_tqdm=True,
    )  # fmt: skip
    columns = ("prompt", "chosen", "rejected")
    sets = [Dataset.from_list([{name: row[name] for name in columns} for row in rows]) for rows in (trained, measured)]
    trainer: Any = ADPOTrainer(
        model, reference, arguments, train_dataset=sets[0], eval_dataset=sets[1], processing_class=tokenizer,
        peft_config=adapter if plan.lora_rank else None, callbacks=[Watch()],
    )  # fmt: skip
    trainer.remove_callback(PrinterCallback)
    return trainer


def _check_lengths(trainer: Any, parts: list[list[dict[str, Any]]], plan: Plan, config: Any) -> None:
    longest = getattr(config, "max_position_embeddings", None)
    limit = min(value for value in (plan.max_length, longest, math.inf) if value)
    for rows, records in zip((trainer.train_dataset, trainer.eval_dataset), parts, strict=True):
        for row, record in zip(rows, records, strict=True):
            length = len(row["prompt_ids"]) + max(len(row["chosen_ids"]), len(row["rejected_ids"]))
            if length > limit:
                whose = "--max-length is" if limit == plan.max_length else "the model reads"
                raise InputError(f"The pair in line {record['line']} has {length} tokens; {whose} {limit}: shorten it.")
            if not (row["prompt_ids"] and row["chosen_ids"] and row["rejected_ids"]):
                raise InputError(f"The pair in line {record['line']} has a part without tokens; leave it out.")


def _save(trainer: Any, tokenizer: Any, folder: Path, *, merge: bool) -> None:
    """Write the adapter or the whole model; whole, too, where the adapter lies on a base that is nowhere on disk."""
    model = trainer.model
    if merge and hasattr(model, "merge_and_unload"):
        model = copy.deepcopy(model).merge_and_unload()
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
