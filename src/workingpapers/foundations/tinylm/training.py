"""Training a small Llama on a task by TRL's supervised trainer, once for each recipe, kept in the user's cache."""

from __future__ import annotations

import hashlib
import json
import math
import os
import shutil
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from filelock import FileLock

from workingpapers.foundations.errors import InputError
from workingpapers.foundations.files import cache_directory
from workingpapers.foundations.language import quiet
from workingpapers.foundations.progress import Progress, silent
from workingpapers.foundations.tinylm.tasks import Task
from workingpapers.foundations.tinylm.vocabulary import character_tokenizer

FORMAT = 1  # part of the cache's key: raise it when training changes


@dataclass(frozen=True)
class Recipe:
    """All that decides a small model.

    Args:
        task: What it is taught.
        layers: Transformer layers.
        width: Hidden size.
        heads: Attention heads; they divide the width.
        steps: Optimiser steps.
        batch: Examples a step; no example is seen twice.
        learning_rate: AdamW's, falling to zero along a cosine after a short warm-up.
        positions: Longest text in tokens.
        seed: Of weights and examples.
    """

    task: Task
    layers: int = 2
    width: int = 64
    heads: int = 4
    steps: int = 900
    batch: int = 48
    learning_rate: float = 2e-3
    positions: int = 128
    seed: int = 0

    def __post_init__(self) -> None:
        if min(self.layers, self.width, self.heads, self.steps, self.batch, self.positions) < 1:
            raise InputError(f"A recipe needs sizes of at least one, not {self}.")
        if self.width % self.heads:
            raise InputError(f"The width {self.width} must be a multiple of the heads, {self.heads}.")
        if not self.learning_rate > 0:
            raise InputError(f"The learning rate must be positive, not {self.learning_rate}.")

    @property
    def key(self) -> str:
        """Name of the recipe in the cache."""
        facts = {"format": FORMAT, "task": [self.task.name, vars(self.task)], **asdict(self)}
        text = json.dumps(facts, sort_keys=True, default=str)
        return f"{self.task.name}-{hashlib.sha256(text.encode()).hexdigest()[:16]}"


def new_model(recipe: Recipe) -> Any:
    """Return an untrained `LlamaForCausalLM` with the recipe's sizes and the weights of its seed."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    tokenizer = character_tokenizer()
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=recipe.width,
        intermediate_size=4 * recipe.width,
        num_hidden_layers=recipe.layers,
        num_attention_heads=recipe.heads,
        max_position_embeddings=recipe.positions,
        initializer_range=1 / math.sqrt(recipe.width),
        tie_word_embeddings=False,
        pad_token_id=tokenizer.pad_token_id,
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
    )
    with torch.random.fork_rng():
        torch.manual_seed(recipe.seed)
        return LlamaForCausalLM(config)


def train(recipe: Recipe, progress: Progress = silent) -> tuple[Any, Any]:
    """Return a model trained by the recipe, and its tokenizer; the same on every run on one machine.

    Args:
        recipe: What to train.
        progress: Told of steps and loss.

    Raises:
        InputError: When the loss stops being finite.
    """
    import torch
    from datasets import Dataset
    from transformers import PrinterCallback, TrainerCallback
    from trl.trainer.sft_config import SFTConfig
    from trl.trainer.sft_trainer import SFTTrainer

    class Watch(TrainerCallback):  # type: ignore[misc]
        def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **_: Any) -> None:
            loss = (logs or {}).get("loss")
            if loss is not None and not math.isfinite(loss):
                raise InputError(f"The loss is {loss} at step {state.global_step}; take a smaller learning rate.")
            if loss is not None:
                progress(state.global_step / state.max_steps, f"step {state.global_step}, loss {loss:.3f}")

    tokenizer = character_tokenizer()
    examples = recipe.task.draw(recipe.steps * recipe.batch, np.random.default_rng([recipe.seed, 1]))
    columns = {
        "prompt": [example.prompt for example in examples],
        "completion": [example.completion + tokenizer.eos_token for example in examples],
    }
    with quiet(), torch.random.fork_rng(), tempfile.TemporaryDirectory() as folder:
        config = SFTConfig(
            output_dir=folder,
            max_steps=recipe.steps,
            per_device_train_batch_size=recipe.batch,
            learning_rate=recipe.learning_rate,
            lr_scheduler_type="cosine",
            warmup_steps=min(50, recipe.steps // 10),
            weight_decay=0.0,
            max_length=recipe.positions,
            completion_only_loss=True,
            logging_steps=max(1, recipe.steps // 20),
            save_strategy="no",
            report_to=[],
            use_cpu=not torch.cuda.is_available(),
            bf16=False,
            activation_checkpointing=False,
            disable_tqdm=True,
            seed=recipe.seed,
        )
        trainer: Any = SFTTrainer(
            model=new_model(recipe),
            args=config,
            train_dataset=Dataset.from_dict(columns),
            processing_class=tokenizer,
            callbacks=[Watch()],
        )
        trainer.remove_callback(PrinterCallback)
        trainer.train()
    return trainer.model.cpu().eval(), tokenizer


def ready(recipe: Recipe, progress: Progress = silent) -> tuple[Any, Any]:
    """Return the recipe's model and tokenizer from the cache, after training them where they are not there yet.

    Args:
        recipe: What to have.
        progress: Told of the share done.
    """
    from transformers import AutoModelForCausalLM, AutoTokenizer

    folder = folder_of(recipe)
    folder.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(folder.with_suffix(".lock")):
        if not folder.is_dir():
            model, tokenizer = train(recipe, progress)
            half = Path(tempfile.mkdtemp(dir=folder.parent, prefix=".half-"))
            try:
                with quiet():
                    model.save_pretrained(half)
                    tokenizer.save_pretrained(half)
                (half / "recipe.json").write_text(json.dumps(asdict(recipe), default=str, indent=1), encoding="utf-8")
                os.replace(half, folder)
            finally:
                shutil.rmtree(half, ignore_errors=True)
    progress(1.0, "trained")
    with quiet():
        kept: Any = AutoModelForCausalLM.from_pretrained(folder)
        tokenizer = AutoTokenizer.from_pretrained(folder)
    return kept.eval(), tokenizer


def folder_of(recipe: Recipe) -> Path:
    """Return the folder in the user's cache where the recipe's model is kept."""
    return cache_directory() / "tinylm" / recipe.key
