"""One training run of the command: checks, the judge before, training through TRL with checkpoints, the judge after."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from workingpapers.foundations.errors import InputError
from workingpapers.foundations.language import calm
from workingpapers.foundations.progress import Progress, part
from workingpapers.foundations.run_folder import PLAN, facts_of, last_checkpoint, write_json
from workingpapers.posttraining.irpm import counting, storing
from workingpapers.posttraining.irpm.judge import (
    TEMPLATE,
    JudgePrompt,
    PointwiseJudge,
    mean_scores,
    model_speaker,
    pair_outcomes,
    prompt_tokens,
)
from workingpapers.posttraining.irpm.parsing import TAGS
from workingpapers.posttraining.irpm.plan import BEFORE, Plan
from workingpapers.posttraining.irpm.preferences import judge_rows
from workingpapers.posttraining.irpm.trainer import COLUMNS, IRPMConfig, IRPMTrainer

TRIED = 64


@dataclass(frozen=True)
class Fitted:
    """What a run leaves for its summary.

    Args:
        before: Measurement of the judge before training.
        after: Measurement of the judge after it.
        held_out: Pairs that were measured.
        fresh: Whether these were kept out of training.
        pairs: Pairs trained on.
        steps: Steps.
        resumed: Step from which training went on; 0 for a run from the start.
        history: Logs of the trainer.
    """

    before: dict[str, Any]
    after: dict[str, Any]
    held_out: list[dict[str, Any]]
    fresh: bool
    pairs: int
    steps: int
    resumed: int
    history: list[dict[str, float]]


def fit(
    records: list[dict[str, Any]], data: Path, out: Path, plan: Plan, *, tensorboard: bool, progress: Progress
) -> Fitted:
    """Train, from the last checkpoint in the folder where there is one, and write the judge.

    Args:
        records: Pairs, from :func:`read_preferences`.
        data: The preference file.
        out: The run's folder, made where it does not exist.
        plan: What to run.
        tensorboard: Whether to write TensorBoard logs.
        progress: Told of steps.

    Raises:
        InputError: For data, models and lengths that do not fit and judges that cannot be read, before training and
            before anything is written; and when the loss stops being finite.
    """
    trained, measured = _split(records, plan)
    model, tokenizer = _load(plan, part(progress, 0.0, 0.1))
    facts = _facts(plan, tokenizer)
    _check_lengths(records, tokenizer, facts, model.config)
    with calm(), torch.random.fork_rng():
        before = _before(out, model, tokenizer, facts, measured, plan)
        out.mkdir(parents=True, exist_ok=True)
        write_json(out / PLAN, facts_of(data, plan))
        write_json(out / BEFORE, before)
        trainer = _trainer(model, tokenizer, facts, trained, out, plan, tensorboard, part(progress, 0.1, 0.95))
        checkpoint = last_checkpoint(out)
        trainer.train(resume_from_checkpoint=str(checkpoint) if checkpoint else None)
        after = measure(trainer.model.eval(), tokenizer, facts, measured, plan.batch_size)
        storing.save_judge(out, trainer.model, tokenizer, facts)
    resumed = int(checkpoint.name.rpartition("-")[2]) if checkpoint else 0
    return Fitted(before, after, measured, plan.held_out > 0, len(trained), trainer.state.global_step, resumed,
                  [log for log in trainer.state.log_history if "irpm/unparsable" in log])  # fmt: skip


def measure(
    model: Any, tokenizer: Any, facts: storing.JudgeFacts, records: list[dict[str, Any]], batch: int
) -> dict[str, Any]:
    """Return figures, scores and critiques of a judge's greedy judgements of pairs.

    Args:
        model: The judge.
        tokenizer: Its tokenizer.
        facts: How it is asked and read.
        records: n pairs.
        batch: Judgements at a time.
    """
    judge = PointwiseJudge(model_speaker(model, tokenizer, most=facts.most, batch=batch), prompt=facts.prompt,
                           parser=facts.parser)  # fmt: skip
    prompts = [record["prompt"] for record in records]
    said = [[group[0] for group in judge.judge(prompts, [record[side] for record in records])]
            for side in ("chosen", "rejected")]  # fmt: skip
    chosen, rejected = (mean_scores([[one] for one in side]) for side in said)
    everything = np.concatenate([chosen, rejected])
    return {
        "accuracy": float(pair_outcomes(chosen, rejected).mean()),
        "ties": float((chosen == rejected).mean()),
        "unparsable": float(np.isnan(everything).mean()),
        "levels": len(np.unique(everything[~np.isnan(everything)])),
        "calls": judge.calls,
        "scores": [[None if math.isnan(one.score) else one.score for one in side] for side in said],
        "critiques": [[one.critique or one.problem for one in side] for side in said],
    }


def _split(records: list[dict[str, Any]], plan: Plan) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    count = round(plan.held_out * len(records))
    if plan.held_out and not 1 <= count < len(records):
        raise InputError(
            f"--held-out {plan.held_out:g} of {len(records)} pairs leaves {count} to measure on and "
            f"{len(records) - count} to train on; give more pairs or --held-out 0."
        )
    if plan.kind == "margin" and records[0]["strength"] is None:
        raise InputError("--kind margin needs a 'strength' with each pair, and there is none; use --kind mean.")
    order = np.random.default_rng([plan.seed, 1]).permutation(len(records))
    measured, trained = order[:count], np.sort(order[count:])
    kept = np.sort((measured if count else order)[: plan.measured])
    return [records[row] for row in trained], [records[row] for row in kept]


def _load(plan: Plan, progress: Progress) -> tuple[Any, Any]:
    on_gpu = torch.cuda.is_available() and torch.cuda.is_bf16_supported()
    model, tokenizer = storing.load_base(plan.model, progress, dtype=torch.bfloat16 if on_gpu else None)
    if tokenizer.eos_token is None:
        raise InputError(f"The tokenizer of {plan.model!r} has no end mark; set tokenizer.eos_token.")
    return (model.cuda() if torch.cuda.is_available() else model), tokenizer


def _facts(plan: Plan, tokenizer: Any) -> storing.JudgeFacts:
    tiny = plan.model == storing.TINY
    template = plan.template or (counting.PROMPT.template if tiny else TEMPLATE)
    try:
        JudgePrompt(template)
    except ValueError as error:
        raise InputError(str(error)) from None
    return storing.JudgeFacts(
        base=plan.model if plan.lora_rank and not tiny else None, template=template,
        chat=bool(getattr(tokenizer, "chat_template", None)), pattern=counting.PATTERN if tiny else TAGS,
        low=0.0, high=10.0, most=plan.most,
    )  # fmt: skip


def _check_lengths(records: list[dict[str, Any]], tokenizer: Any, facts: storing.JudgeFacts, config: Any) -> None:
    longest = getattr(config, "max_position_embeddings", None) or math.inf
    for record in records:
        for side in ("chosen", "rejected"):
            length = len(prompt_tokens(tokenizer, facts.prompt.render(record["prompt"], record[side])))
            if length + facts.most > longest:
                raise InputError(
                    f"{record['place']} makes a judge's prompt of {length} tokens, which with {facts.most} of the "
                    f"judgement are more than the {longest} that the model reads; shorten it or lower --max-tokens."
                )


def _before(
    out: Path, model: Any, tokenizer: Any, facts: storing.JudgeFacts, measured: list[dict[str, Any]], plan: Plan
) -> dict[str, Any]:
    if (out / BEFORE).is_file():
        kept: dict[str, Any] = json.loads((out / BEFORE).read_text(encoding="utf-8"))
        return kept
    found = measure(model, tokenizer, facts, measured, plan.batch_size)
    if found["unparsable"] == 1:
        speak = model_speaker(model, tokenizer, most=facts.most, temperature=1.0, batch=plan.batch_size, seed=plan.seed)
        trial = PointwiseJudge(speak, prompt=facts.prompt, parser=facts.parser)
        some = measured[:TRIED]
        said = trial.judge([one["prompt"] for one in some], [one["chosen"] for one in some])
        if not any(one.valid for group in said for one in group):
            raise InputError(
                f"None of {found['calls'] + trial.calls} judgements of {plan.model!r} has the form that is asked for "
                f"(it said {said[0][0].text[:60]!r}), so that there is nothing to reward; take a model that follows "
                "instructions, or another --template or --max-tokens."
            )
    return found


def _trainer(
    model: Any, tokenizer: Any, facts: storing.JudgeFacts, trained: list[dict[str, Any]], out: Path, plan: Plan,
    tensorboard: bool, progress: Progress,
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
    adapter = make(r=plan.lora_rank or 1, lora_alpha=2 * plan.lora_rank, target_modules="all-linear",
                   task_type="CAUSAL_LM")  # fmt: skip
    gpu = torch.cuda.is_available()
    steps = plan.steps(len(trained))
    rows = judge_rows(trained, facts.prompt, passes=math.ceil(steps * plan.pairs / len(trained)), seed=plan.seed)
    arguments: Any = IRPMConfig(
        output_dir=str(out), kind=plan.kind, score_pattern=facts.pattern, score_low=facts.low, score_high=facts.high,
        learning_rate=plan.rate, beta=plan.beta, max_steps=steps, warmup_steps=min(50, round(0.1 * steps)),
        lr_scheduler_type="cosine", per_device_train_batch_size=plan.batch_size,
        gradient_accumulation_steps=plan.each_step // plan.batch_size,
        steps_per_generation=plan.each_step // plan.batch_size, num_generations=plan.judgements,
        max_completion_length=facts.most, weight_decay=0.0, logging_steps=max(1, steps // 50),
        save_strategy="steps", save_steps=plan.save_every, save_total_limit=2, seed=plan.seed, use_cpu=not gpu,
        bf16=gpu and torch.cuda.is_bf16_supported(), activation_checkpointing=gpu,
        report_to=["tensorboard"] if tensorboard else [], disable_tqdm=True,
    )  # fmt: skip
    table = Dataset.from_list([{name: row[name] for name in COLUMNS} for row in rows[: 2 * steps * plan.pairs]])
    trainer: Any = IRPMTrainer(
        model, arguments, table, processing_class=tokenizer, peft_config=adapter if plan.lora_rank else None,
        callbacks=[Watch()],
    )  # fmt: skip
    trainer.remove_callback(PrinterCallback)
    return trainer
