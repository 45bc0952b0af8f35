"""One run of the command: checks, training by TRL, an adapter, a report; a killed run goes on from its checkpoint."""

from __future__ import annotations

import hashlib
import json
import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from transformers import PrinterCallback, TrainerCallback

from workingpapers.foundations.errors import InputError
from workingpapers.foundations.files import whole_file
from workingpapers.foundations.language import load_adapter, load_model, quiet
from workingpapers.foundations.outcome import Outcome, Table
from workingpapers.foundations.progress import Progress, part
from workingpapers.foundations.report import Section, heading, paragraph, write_report
from workingpapers.posttraining.spectral_bridge.adapters import LayerSpectrum, attach
from workingpapers.posttraining.spectral_bridge.pictures import path_picture, rank_picture
from workingpapers.posttraining.spectral_bridge.records import check_lengths, read_records
from workingpapers.posttraining.spectral_bridge.settings import SpectralSettings
from workingpapers.posttraining.spectral_bridge.training import SpectralCallback

RUN = "run.json"
READINGS = 60  # gauge steps of a short run


@dataclass(frozen=True)
class Request:
    """What is asked of a run; the options of the command."""

    data: Path
    model: str
    out: Path
    test: Path | None
    rank: int
    temperature: float
    modules: tuple[str, ...]
    targets: float | None
    warmup: float
    learning_rate: float
    batch_size: int
    epochs: float
    max_steps: int | None
    seed: int
    tensorboard: bool


def run_request(request: Request, progress: Progress) -> Outcome:
    """Fine-tune and return what came out.

    Args:
        request: The options.
        progress: Told of steps and loss.

    Raises:
        InputError: The input cannot be used, or the folder belongs to another run.
    """
    records = read_records(request.data)
    held_out = read_records(request.test) if request.test else []
    checkpoint = _checkpoint(request)
    model, tokenizer = _load(request.model, progress)
    longest = check_lengths(records + held_out, tokenizer, model, request.model)
    if checkpoint:
        peft_model = _continued(model, checkpoint)
    else:
        peft_model = attach(model, rank=request.rank, targets=request.modules or "all-linear", task_type="CAUSAL_LM",
                            seed=request.seed)  # fmt: skip
    _open_folder(request)
    with quiet(), torch.random.fork_rng(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        trainer, callback = _trainer(request, peft_model, tokenizer, records, held_out, longest, checkpoint,
                                     part(progress, 0.1, 0.97))  # fmt: skip
        with peft_model.disable_adapter():
            before = _loss(trainer, held_out)
        trainer.train(resume_from_checkpoint=str(checkpoint) if checkpoint else None)
        after = _loss(trainer, held_out)
        peft_model.save_pretrained(request.out / "adapter")
        tokenizer.save_pretrained(request.out / "adapter")
    return _finish(request, callback, before, after, int(trainer.state.global_step))


class _Watch(TrainerCallback):  # type: ignore[misc]
    def __init__(self, progress: Progress) -> None:
        self.progress, self.text = progress, "training"

    def on_log(self, args: Any, state: Any, control: Any, logs: Mapping[str, Any] | None = None, **_: Any) -> None:
        loss = (logs or {}).get("loss")
        if loss is not None and not math.isfinite(loss):
            raise InputError(f"The loss is {loss} at step {state.global_step}; take a smaller --learning-rate.")
        if loss is not None:
            self.text = f"loss {loss:.3f}, total rank {(logs or {}).get('total_rank', '–')}"

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self.progress(state.global_step / max(1, state.max_steps), f"step {state.global_step}, {self.text}")


def _trainer(
    request: Request, model: Any, tokenizer: Any, records: list[Any], held_out: list[Any], longest: int,
    checkpoint: Path | None, progress: Progress,
) -> tuple[Any, SpectralCallback]:  # fmt: skip
    from datasets import Dataset
    from trl.trainer.sft_config import SFTConfig
    from trl.trainer.sft_trainer import SFTTrainer

    steps = request.max_steps or max(1, math.ceil(request.epochs * math.ceil(len(records) / request.batch_size)))
    config = SFTConfig(
        output_dir=str(request.out / "checkpoints"),
        max_steps=steps,
        per_device_train_batch_size=request.batch_size,
        per_device_eval_batch_size=request.batch_size,
        learning_rate=request.learning_rate,
        lr_scheduler_type="cosine",
        weight_decay=0.0,
        max_grad_norm=0.0,  # clipping would weaken the data against the friction
        max_length=longest,
        completion_only_loss=True,
        logging_steps=max(1, steps // 50),
        save_steps=max(1, steps // 10),
        save_total_limit=2,
        report_to=["tensorboard"] if request.tensorboard else [],
        use_cpu=not torch.cuda.is_available(),
        bf16=False,
        gradient_checkpointing=False,
        disable_tqdm=True,
        seed=request.seed,
    )
    settings = SpectralSettings(temperature=request.temperature, every=max(1, min(25, steps // READINGS)))
    callback = SpectralCallback(settings, targets=request.targets, warmup_share=request.warmup, resume=checkpoint)
    make: Any = SFTTrainer
    trainer = make(
        model=model,
        args=config,
        train_dataset=Dataset.from_list(records),
        eval_dataset=Dataset.from_list(held_out) if held_out else None,
        processing_class=tokenizer,
        callbacks=[callback, _Watch(progress)],
    )
    trainer.remove_callback(PrinterCallback)
    # First, so that what it adds to the logs is there when TensorBoard and the terminal read them.
    handlers = trainer.callback_handler.callbacks
    handlers.insert(0, handlers.pop(handlers.index(callback)))
    return trainer, callback


def _load(name: str, progress: Progress) -> tuple[Any, Any]:
    if name != "tiny":
        progress(0.0, f"loading {name}")
        return load_model(name)
    from workingpapers.foundations.tinylm import Recipe, Sorting, ready

    model, tokenizer = ready(Recipe(task=Sorting(swap=0.5)), part(progress, 0.0, 0.1))
    return model, tokenizer


def _continued(model: Any, checkpoint: Path) -> Any:
    peft_model = load_adapter(model, checkpoint)
    for name, parameter in peft_model.named_parameters():
        parameter.requires_grad_("lora_" in name)
    return peft_model


def _loss(trainer: Any, held_out: Sequence[Any]) -> float | None:
    return float(trainer.evaluate()["eval_loss"]) if held_out else None


def _facts(request: Request) -> dict[str, Any]:
    # The place of the files may change between two runs; what is in them may not.
    facts = asdict(request) | {"data": hashlib.sha256(request.data.read_bytes()).hexdigest()}
    return {key: list(value) if isinstance(value, tuple) else value
            for key, value in facts.items() if key not in ("out", "test", "tensorboard")}  # fmt: skip


def _checkpoint(request: Request) -> Path | None:
    """Return the checkpoint to go on from, if the folder holds one of this very run."""
    from transformers import trainer_utils as module

    trainer_utils: Any = module

    run = request.out / RUN
    if not run.is_file():
        if request.out.is_dir() and any(request.out.iterdir()):
            raise InputError(f"The folder {str(request.out)!r} is not empty and holds no run; name a new one.")
        return None
    kept, facts = json.loads(run.read_text(encoding="utf-8")), _facts(request)
    if (request.out / "adapter" / "adapter_config.json").is_file():
        raise InputError(f"{str(request.out)!r} holds a finished adapter; name another folder to train again.")
    changed = [key for key in facts if kept.get(key) != facts[key]]
    if changed:
        raise InputError(
            f"{str(request.out)!r} holds an unfinished run with another {changed[0].replace('_', ' ')}; give the same "
            "options to go on, or name another folder."
        )
    folder = request.out / "checkpoints"
    last = trainer_utils.get_last_checkpoint(str(folder)) if folder.is_dir() else None
    return Path(last) if last else None


def _open_folder(request: Request) -> None:
    try:
        request.out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise InputError(f"The folder {str(request.out)!r} cannot be made: {reason}; name another.") from None
    with whole_file(request.out / RUN) as stream:
        json.dump(_facts(request), stream, indent=1)


def _finish(
    request: Request, callback: SpectralCallback, before: float | None, after: float | None, steps: int
) -> Outcome:
    tuner, layers = callback.tuner, callback.report
    if tuner is None:
        raise InputError("Training took no step; give more epochs or steps.")
    summary = _summary(request, layers, before, after, steps, tuner.targets)
    table = _table(layers)
    figures = [path_picture(tuner.paths, warmup=tuner.settings.warmup), rank_picture(tuner.paths, layers)]
    data = {
        "model": request.model,
        "steps": steps,
        "targets": tuner.targets,
        "temperature": request.temperature,
        "ranks": {item.name: item.rank for item in layers},
        "total_rank": sum(item.rank for item in layers),
        "weights": sum(item.weights for item in layers),
        "weights_at_largest_rank": sum(min(request.rank, *item.shape) * sum(item.shape) for item in layers),
        "held_out_loss_before": before,
        "held_out_loss": after,
    }
    with whole_file(request.out / "ranks.json") as stream:
        json.dump({**data, "paths": asdict(tuner.paths)}, stream, indent=1)
    sections: list[Section] = [
        paragraph(summary), heading("Modes"), figures[0], heading("Ranks"), figures[1], table,
        heading("Use"), paragraph("PEFT loads the folder adapter as an ordinary LoRA adapter: "
                                  "PeftModel.from_pretrained(model, folder); merge_and_unload() merges it."),
    ]  # fmt: skip
    report = write_report(request.out / "report.html", "Ranks found in fine-tuning", sections)
    files = [request.out / "adapter", request.out / "ranks.json", report]
    return Outcome(summary=summary, tables=[table], figures=figures, files=files, data=data)


def _summary(
    request: Request, layers: Sequence[LayerSpectrum], before: float | None, after: float | None, steps: int,
    targets: float,
) -> str:  # fmt: skip
    weights, ranks = sum(item.weights for item in layers), [item.rank for item in layers]
    most = sum(min(request.rank, *item.shape) * sum(item.shape) for item in layers)
    text = (
        f"After {steps:,} steps the {len(layers)} layers have ranks from {min(ranks)} to {max(ranks)}, "
        f"{weights:,} weights in all, {weights / most:.0%} of what rank {request.rank} everywhere would take; friction "
        f"was weighed against {targets:,.0f} training targets."
    )
    if before is not None and after is not None:
        text += f" The held-out loss went from {before:.4f} to {after:.4f} nats a token."
    if not any(ranks):
        text += " No mode survived: at this temperature the data support no change; a lower --temperature prunes less."
    elif weights == most and request.temperature > 0:
        text += " Nothing was pruned: train longer, or these data support every mode."
    return text


def _table(layers: Sequence[LayerSpectrum]) -> Table:
    rows = [
        [item.name, f"{item.shape[0]} × {item.shape[1]}", item.rank, item.effective,
         max(item.sigma, default=0.0), item.weights]
        for item in layers
    ]  # fmt: skip
    columns = ["layer", "shape", "rank", "effective rank", "largest singular value", "weights"]
    return Table(columns, rows, title="Ranks found")
