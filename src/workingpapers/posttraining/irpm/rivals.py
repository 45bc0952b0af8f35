"""What the claims train and keep: judges of one response and of two, and a scalar head, all on the same pairs.

A trained model is kept in the user's cache under the name of all that decides it, so that arms and claims share it.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from filelock import FileLock

from workingpapers.foundations.files import cache_directory
from workingpapers.foundations.language import calm, quiet
from workingpapers.foundations.progress import Progress, part
from workingpapers.foundations.tinylm import Recipe, character_tokenizer, ready
from workingpapers.foundations.tinylm.training import folder_of
from workingpapers.posttraining.irpm.counting import (
    LETTERS,
    PATTERN,
    PROMPT,
    CountingJudge,
    PairwiseJudge,
    counting_preferences,
    pairwise_prompt,
)
from workingpapers.posttraining.irpm.preferences import judge_rows
from workingpapers.posttraining.irpm.rewards import intergroup_rewards
from workingpapers.posttraining.irpm.trainer import IRPMConfig, IRPMTrainer

FORMAT = 1  # part of the cache's key: raise it when training changes
MOST = 6  # tokens of a judgement
LOOSE = "loose"
MISTAKE, UNREADABLE = -1.0, -1.5


@dataclass(frozen=True)
class Setting:
    """All that the arms of a claim share.

    Args:
        base_steps: Steps in which the judges are taught the form of a judgement.
        width: Of the models.
        steps: Steps of reinforcement learning.
        rate: Learning rate of reinforcement learning, constant.
        head_rate: Learning rate of the scalar head, constant.
        pairs: Pairs a step, none is seen twice.
        group: Judgements a prompt.
        held_out: Pairs on which is measured.
        sets: Sets of eight candidates that are ranked.
    """

    base_steps: int = 600
    width: int = 48
    steps: int = 200
    rate: float = 1e-3
    head_rate: float = 1e-3
    pairs: int = 10
    group: int = 4
    held_out: int = 300
    sets: int = 60

    def base(self, seed: int, *, pairwise: bool = False) -> Recipe:
        """The judge before reinforcement learning.

        Args:
            seed: Of weights and examples.
            pairwise: Whether it judges two responses at a time.
        """
        task = PairwiseJudge() if pairwise else CountingJudge()
        return Recipe(task, width=self.width, steps=self.base_steps, learning_rate=2e-3, positions=32, seed=seed)

    def training(self, seed: int, flip: float) -> list[dict[str, str]]:
        """The pairs that are trained on.

        Args:
            seed: Of the pairs.
            flip: Share of wrong labels.
        """
        return counting_preferences(self.steps * self.pairs, np.random.default_rng([seed, 1]), flip=flip)


def pointwise(seed: int, setting: Setting, kind: str, flip: float, progress: Progress) -> tuple[Any, Any]:
    """Return a judge of single responses trained by IRPM, and its tokenizer.

    Args:
        seed: Of pairs and samples.
        setting: Sizes.
        kind: Comparison, or "loose" for one that takes equality for right.
        flip: Share of wrong labels.
        progress: Told of the share done.
    """

    def train(told: Progress) -> Any:
        model, tokenizer = ready(setting.base(seed))
        rows = judge_rows(setting.training(seed, flip), PROMPT)
        with _arguments(IRPMConfig, seed, setting, kind="mean" if kind == LOOSE else kind,
                        score_pattern=PATTERN) as arguments:  # fmt: skip
            trainer_of = LooseTrainer if kind == LOOSE else IRPMTrainer
            return _fit(trainer_of, told, model=model, args=arguments, train_dataset=_dataset(rows),
                        processing_class=tokenizer)  # fmt: skip

    facts = {"what": "pointwise", "kind": kind, "flip": flip}
    return _kept(facts, seed, setting, train, progress), character_tokenizer()


def pairwise(seed: int, setting: Setting, progress: Progress) -> tuple[Any, Any]:
    """Return a judge of two responses trained by GRPO on each pair in both orders, and its tokenizer.

    Args:
        seed: Of pairs and samples.
        setting: Sizes; a step has as many judgements as one of the pointwise judge.
        progress: Told of the share done.
    """
    from trl.trainer.grpo_config import GRPOConfig
    from trl.trainer.grpo_trainer import GRPOTrainer

    def train(told: Progress) -> Any:
        model, tokenizer = ready(setting.base(seed, pairwise=True))
        rows = []
        for record in setting.training(seed, 0.0):
            sides = (record["chosen"], record["rejected"])
            for letter, order in zip(LETTERS, (sides, sides[::-1]), strict=True):
                rows.append({"prompt": pairwise_prompt(record["prompt"], *order), "letter": letter})
        with _arguments(GRPOConfig, seed, setting) as arguments:
            return _fit(GRPOTrainer, told, model=model, reward_funcs=right_letter, args=arguments,
                        train_dataset=_dataset(rows), processing_class=tokenizer)  # fmt: skip

    return _kept({"what": "pairwise"}, seed, setting, train, progress), character_tokenizer()


def scalar_head(seed: int, setting: Setting, flip: float, progress: Progress) -> tuple[Any, Any]:
    """Return TRL's scalar Bradley-Terry reward model on the trunk of the judge, and its tokenizer.

    Args:
        seed: Of pairs and first weights of the head.
        setting: Sizes.
        flip: Share of wrong labels.
        progress: Told of the share done.
    """
    from transformers import AutoModelForSequenceClassification
    from trl.trainer.reward_config import RewardConfig
    from trl.trainer.reward_trainer import RewardTrainer

    def train(told: Progress) -> Any:
        _, tokenizer = ready(setting.base(seed))
        rows = [
            {side: f"{record['prompt']}:{record[side]}=" for side in ("chosen", "rejected")}
            for record in setting.training(seed, flip)
        ]
        with calm(), torch.random.fork_rng(), tempfile.TemporaryDirectory() as folder:
            torch.manual_seed(seed)
            model = AutoModelForSequenceClassification.from_pretrained(folder_of(setting.base(seed)), num_labels=1)
            make: Any = RewardConfig
            arguments = make(output_dir=folder, learning_rate=setting.head_rate, max_steps=setting.steps,
                             per_device_train_batch_size=setting.pairs, **_common(seed))  # fmt: skip
            return _fit(RewardTrainer, told, model=model, args=arguments, train_dataset=_dataset(rows),
                        processing_class=tokenizer)  # fmt: skip

    def load(folder: Path) -> Any:
        return AutoModelForSequenceClassification.from_pretrained(folder)

    model = _kept({"what": "head", "flip": flip}, seed, setting, train, progress, load)
    return model, character_tokenizer()


class LooseTrainer(IRPMTrainer):
    """The comparison as a careless reader would write it: equality is right."""

    def compare(self, table: np.ndarray) -> np.ndarray:
        """Return +1 where a score is not worse than the other group's mean.

        Args:
            table: As in :meth:`IRPMTrainer.compare`.
        """
        roles, valid = table[:, 3].astype(int), table[:, 1] > 0
        chosen = self.comparison
        scores = np.where(valid, table[:, 0], np.where(roles == 0, chosen.score_low, chosen.score_high))
        # "Not smaller" is the contrary of "smaller": the strict rule with the roles exchanged, turned round.
        found = -intergroup_rewards(scores, table[:, 2].astype(int), 1 - roles, format_penalty=0.0)
        return np.asarray(found - chosen.format_penalty * ~valid)


def right_letter(completions: list[str], letter: list[str], **_: Any) -> list[float]:
    """Return the reward of judgements of two responses.

    Args:
        completions: What the judge said, n texts.
        letter: The right letter of each.
        **_: What TRL passes beside them.
    """
    return [
        UNREADABLE if verdict(text) is None else 1.0 if verdict(text) == right else MISTAKE
        for text, right in zip(completions, letter, strict=True)
    ]


def verdict(text: str) -> str | None:
    """Return the letter of a judgement of two responses, or None where it cannot be read.

    Args:
        text: What the judge said, such as ``23>B``.
    """
    good = len(text) == 4 and text[:2].isdigit() and text[2] == ">" and text[3] in LETTERS
    return text[3] if good else None


def _kept(
    facts: dict[str, Any], seed: int, setting: Setting, train: Callable[[Progress], Any], progress: Progress,
    load: Callable[[Path], Any] | None = None,
) -> Any:  # fmt: skip
    """Return a trained model from the cache, after training it where it is not there yet."""
    from transformers import AutoModelForCausalLM

    decisive = {name: value for name, value in asdict(setting).items() if name not in ("held_out", "sets")}
    text = json.dumps({"format": FORMAT, **facts, "seed": seed, **decisive}, sort_keys=True)
    name = f"{facts['what']}-{hashlib.sha256(text.encode()).hexdigest()[:16]}"
    folder = cache_directory() / "irpm" / name
    folder.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(folder.with_suffix(".lock")):
        if not folder.is_dir():
            model = train(part(progress, 0, 0.9))
            half = Path(tempfile.mkdtemp(dir=folder.parent, prefix=".half-"))
            try:
                with quiet():
                    model.save_pretrained(half)
                os.replace(half, folder)
            finally:
                shutil.rmtree(half, ignore_errors=True)
    with quiet():
        kept: Any = load(folder) if load else AutoModelForCausalLM.from_pretrained(folder)
    return kept.eval()


def _dataset(rows: list[dict[str, Any]]) -> Any:
    from datasets import Dataset

    return Dataset.from_list(rows)


def _common(seed: int) -> dict[str, Any]:
    return {"lr_scheduler_type": "constant", "max_grad_norm": 0.5, "weight_decay": 0.0, "seed": seed, "use_cpu": True,
            "bf16": False, "activation_checkpointing": False, "report_to": [], "disable_tqdm": True,
            "save_strategy": "no", "logging_strategy": "no"}  # fmt: skip


@contextmanager
def _arguments(configuration: Any, seed: int, setting: Setting, **extra: Any) -> Iterator[Any]:
    with calm(), torch.random.fork_rng(), tempfile.TemporaryDirectory() as folder:
        yield configuration(
            output_dir=folder, learning_rate=setting.rate, max_steps=setting.steps, beta=0.0, shuffle_dataset=False,
            num_generations=setting.group, per_device_train_batch_size=2 * setting.pairs * setting.group,
            max_completion_length=MOST, temperature=1.0, **_common(seed), **extra,
        )  # fmt: skip


def _fit(trainer_of: Any, progress: Progress, **parts: Any) -> Any:
    from transformers import PrinterCallback, TrainerCallback

    class Watch(TrainerCallback):  # type: ignore[misc]
        def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            progress(state.global_step / state.max_steps, f"step {state.global_step} of {state.max_steps}")

    trainer = trainer_of(callbacks=[Watch()], **parts)
    trainer.remove_callback(PrinterCallback)
    trainer.train()
    return trainer.model
