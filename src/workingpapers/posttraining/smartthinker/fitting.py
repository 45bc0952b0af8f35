"""One run of the command: checks, measuring before, training through TRL with checkpoints, measuring after."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from workingpapers.foundations.errors import InputError
from workingpapers.foundations.language import calm, load_model, sample
from workingpapers.foundations.program import load_function
from workingpapers.foundations.progress import Progress, part
from workingpapers.foundations.run_folder import PLAN, facts_of, last_checkpoint, write_json
from workingpapers.foundations.tinylm import ready
from workingpapers.posttraining.smartthinker.plan import BEFORE, MODEL, Plan, by_pattern
from workingpapers.posttraining.smartthinker.trainer import SmartThinkerConfig, SmartThinkerTrainer

TINY = "tiny"
Measured = list[dict[str, float]]


@dataclass(frozen=True)
class Fitted:
    """What a run leaves for its summary.

    Args:
        history: Logs of the trainer.
        before: Length, correct and ended of an answer to each held-out prompt before training.
        after: The same after training.
        steps: Steps done.
        resumed: Step from which training went on; 0 for a run from the start.
        trained: Prompts trained on.
    """

    history: list[dict[str, float]]
    before: Measured
    after: Measured
    steps: int
    resumed: int
    trained: int


def fit(
    records: list[dict[str, Any]], data: Path, out: Path, plan: Plan, *, tensorboard: bool, progress: Progress
) -> Fitted:
    """Train, from the last checkpoint in the folder where there is one, and write the model.

    Args:
        records: Of :func:`read_prompts`.
        data: The file of prompts.
        out: The run's folder, made where it does not exist.
        plan: What to run.
        tensorboard: Whether to write TensorBoard logs.
        progress: Told of steps and accuracy.

    Raises:
        InputError: For programs, models and lengths that do not fit, before training and before anything is written.
    """
    judge = by_pattern(plan.pattern) if plan.program is None else load_function(Path(plan.program), plan.function)
    model, tokenizer = _load(plan, progress)
    asked = [_tokens(row["prompt"], tokenizer, plan) for row in records]
    _check_lengths(records, asked, model, plan)
    order = np.random.default_rng([plan.seed, 1]).permutation(len(records))
    held, kept = np.sort(order[: plan.held_out]).tolist(), np.sort(order[plan.held_out :]).tolist()

    def measured(policy: Any, told: Progress) -> Measured:
        return _measure(policy, tokenizer, [records[row] for row in held], [asked[row] for row in held], judge, plan,
                        told)  # fmt: skip

    with calm(), torch.random.fork_rng():
        torch.manual_seed(plan.seed)  # for what libraries draw before they seed themselves
        before = _before(out) or measured(model, part(progress, 0.0, 0.1))
        out.mkdir(parents=True, exist_ok=True)
        write_json(out / PLAN, facts_of(data, plan))
        write_json(out / BEFORE, before)
        trainer = _trainer(model, tokenizer, judge, [records[row] for row in kept], out, plan, tensorboard,
                           part(progress, 0.1, 0.9))  # fmt: skip
        checkpoint = last_checkpoint(out)
        trainer.train(resume_from_checkpoint=str(checkpoint) if checkpoint else None)
        trainer.model.save_pretrained(out / MODEL)
        tokenizer.save_pretrained(out / MODEL)
        trainer.model.eval()
        after = measured(trainer.model, part(progress, 0.9, 1.0))
    state = trainer.state
    resumed = int(checkpoint.name.rpartition("-")[2]) if checkpoint else 0
    history = [log for log in state.log_history if "smartthinker/accuracy" in log]
    return Fitted(history, before, after, state.global_step, resumed, len(kept))


def _load(plan: Plan, progress: Progress) -> tuple[Any, Any]:
    if plan.model == TINY:
        from workingpapers.posttraining.smartthinker.experiments import Setting

        trained, characters = ready(Setting().base, part(progress, 0.0, 0.05))
        return trained, characters
    gpu = torch.cuda.is_available()
    half = gpu and torch.cuda.is_bf16_supported() and plan.lora_rank
    model, tokenizer = load_model(plan.model, dtype=torch.bfloat16 if half else None)
    if tokenizer.eos_token_id is None:
        raise InputError(f"The tokenizer of {plan.model!r} has no end mark; set tokenizer.eos_token.")
    if gpu:
        model = model.cuda()
    return model, tokenizer


def _tokens(prompt: Any, tokenizer: Any, plan: Plan) -> list[int]:
    if isinstance(prompt, str):
        return list(tokenizer(prompt)["input_ids"])
    if not tokenizer.chat_template:
        raise InputError(
            f"The prompts are lists of messages and the tokenizer of {plan.model!r} has no chat template; give texts."
        )
    return list(tokenizer.apply_chat_template(prompt, add_generation_prompt=True, tokenize=True, return_dict=False))


def _check_lengths(records: list[dict[str, Any]], asked: list[list[int]], model: Any, plan: Plan) -> None:
    longest = getattr(model.config, "max_position_embeddings", None) or math.inf
    for row, tokens in zip(records, asked, strict=True):
        if not tokens:
            raise InputError(f"{row['place']} has a prompt without tokens; leave it out.")
        if len(tokens) + plan.max_tokens > longest:
            raise InputError(
                f"{row['place']} has a prompt of {len(tokens)} tokens; with --max-tokens {plan.max_tokens} that is "
                f"more than the {longest} that the model reads."
            )


def _before(out: Path) -> Measured | None:
    path = out / BEFORE
    found: Measured | None = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else None
    return found


def _measure(
    model: Any, tokenizer: Any, rows: list[dict[str, Any]], asked: list[list[int]], judge: Callable[..., Sequence[Any]],
    plan: Plan, progress: Progress,
) -> Measured:  # fmt: skip
    drawn = sample(
        model, asked, most=plan.max_tokens, temperature=plan.temperature, batch=plan.batch_size,
        generator=torch.Generator().manual_seed(plan.seed), progress=progress,
    )  # fmt: skip
    texts = [tokenizer.decode(one.tokens, skip_special_tokens=True) for one in drawn]
    completions = [
        text if isinstance(row["prompt"], str) else [{"role": "assistant", "content": text}]
        for row, text in zip(rows, texts, strict=True)
    ]
    columns = {name: [row[name] for row in rows] for name in rows[0] if name not in ("prompt", "place")}
    prompts, ids = [row["prompt"] for row in rows], [list(one.tokens) for one in drawn]
    scores = _told(judge, len(rows), prompts=prompts, completions=completions, completion_ids=ids, **columns)
    return [
        {"length": float(len(one.tokens)), "correct": float(score or 0.0) * one.ended, "ended": float(one.ended)}
        for one, score in zip(drawn, scores, strict=True)
    ]


def _told(judge: Callable[..., Sequence[Any]], count: int, **arguments: Any) -> list[Any]:
    """Return verdicts of a function of the user's, whose mistakes are told before training."""
    try:
        scores = list(judge(**arguments))
    except Exception as error:
        raise InputError(f"The correctness function failed ({type(error).__name__}: {error}); mend it first.") from None
    if len(scores) != count or any(score is not None and score not in (0, 1) for score in scores):
        raise InputError(
            f"The correctness function gave {len(scores)} values for {count} completions, the first of them "
            f"{scores[0] if scores else 'missing'!r}; it must give 1, 0 or None for each."
        )
    return scores


def _trainer(
    model: Any, tokenizer: Any, judge: Any, rows: list[dict[str, Any]], out: Path, plan: Plan, tensorboard: bool,
    progress: Progress,
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

    def correct(**columns: Any) -> list[Any]:
        return _told(judge, len(columns["completions"]), **columns)

    make: Any = LoraConfig
    adapter = make(r=plan.lora_rank, lora_alpha=2 * plan.lora_rank, target_modules="all-linear", task_type="CAUSAL_LM")
    gpu = torch.cuda.is_available()
    arguments: Any = SmartThinkerConfig(
        output_dir=str(out), learning_rate=plan.learning_rate, lr_scheduler_type="constant", max_steps=plan.max_steps,
        per_device_train_batch_size=plan.batch_size, num_generations=plan.generations,
        gradient_accumulation_steps=plan.prompts_per_step * plan.generations // plan.batch_size,
        max_completion_length=plan.max_tokens, temperature=plan.temperature, logging_steps=1, save_strategy="steps",
        save_steps=plan.save_every, save_total_limit=2, seed=plan.seed, use_cpu=not gpu,
        bf16=gpu and torch.cuda.is_bf16_supported(), activation_checkpointing=gpu,
        report_to=["tensorboard"] if tensorboard else [], disable_tqdm=True,
    )  # fmt: skip
    columns = [{name: value for name, value in row.items() if name != "place"} for row in rows]
    trainer: Any = SmartThinkerTrainer(
        model, correct, arguments, Dataset.from_list(columns), processing_class=tokenizer,
        peft_config=adapter if plan.lora_rank else None, callbacks=[Watch()],
    )  # fmt: skip
    trainer.remove_callback(PrinterCallback)
    return trainer
