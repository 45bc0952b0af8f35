"""The arms of the claims: a small model that sorts digits with a systematic mistake, and preferences among its answers.

The model is taught by somebody who often swaps two neighbouring digits (and, in the counter-case, leaves a digit out).
A pair is the first right and the first wrong one of its own answers to a prompt. All arms of a seed see the same pairs
in the same batches.
"""

from __future__ import annotations

import tempfile
import warnings
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

from workingpapers.foundations.language import TokenPair, completion_log_probs, encode_pairs, quiet, sample
from workingpapers.foundations.progress import Progress, part
from workingpapers.foundations.tinylm import Recipe, Sorting, ready
from workingpapers.posttraining.adpo.units import Composition, Static

SAMPLES = 6


@dataclass(frozen=True)
class Setting:
    """All that the arms of a claim share.

    Args:
        digits: Digits to sort.
        drop: How often the teacher leaves a digit out.
        width: Of the model.
        base_steps: Steps in which the model is taught.
        base_rate: Learning rate of these steps.
        prompts: Prompts from which pairs are made.
        held_out: Prompts on which is measured.
        beta: Of the loss.
        rate: Learning rate, constant.
        steps: Steps of 48 pairs.
        every: Steps between two measurements.
    """

    digits: int = 6
    drop: float = 0.0
    width: int = 64
    base_steps: int = 900
    base_rate: float = 2e-3
    prompts: int = 500
    held_out: int = 400
    beta: float = 0.5
    rate: float = 1e-4
    steps: int = 60
    every: int = 20

    @property
    def task(self) -> Sorting:
        """What is taught, with its mistakes; its checker knows the right answer."""
        return Sorting(digits=self.digits, swap=0.5, drop=self.drop)

    @property
    def base(self) -> Recipe:
        """The model before preferences."""
        return Recipe(self.task, width=self.width, steps=self.base_steps, learning_rate=self.base_rate)


def sorting(seed: int, progress: Progress, *, composition: Composition | None, **setting: Any) -> dict[str, float]:
    """Train on one seed's pairs and return how probable right answers are, averaged over the measurements.

    Args:
        seed: Of prompts, samples and batches.
        progress: Told of the share done.
        composition: Units of ADPO, or None for TRL's DPO.
        **setting: Fields of :class:`Setting`.
    """
    chosen = Setting(**setting)
    history = _trained(seed, chosen, composition, progress)
    found = {"right": float(np.mean([one["right"] for one in history[1:]]))}
    for place, one in enumerate(history):
        found[f"right_at_{place * chosen.every}"] = one["right"]
    return found | {"answer_log_prob": history[-1]["answer_log_prob"], "pairs": float(len(_pairs(seed, chosen)))}


def tuned(
    seed: int, progress: Progress, *, composition: Composition | None, rates: tuple[float, ...], **setting: Any
) -> dict[str, float]:
    """Train with several learning rates, stop each at its best measurement, and return the best on fresh prompts.

    Args:
        seed: Of prompts, samples and batches.
        progress: Told of the share done.
        composition: Units of ADPO, or None for TRL's DPO.
        rates: Learning rates; that and the stopping step are chosen on half of the held-out prompts.
        **setting: Fields of :class:`Setting` but the rate.
    """
    best: tuple[float, float, float, int] = (-1.0, 0.0, 0.0, 0)
    for number, rate in enumerate(rates):
        told = part(progress, number / len(rates), (number + 1) / len(rates))
        history = _trained(seed, Setting(**setting, rate=rate), composition, told)
        best = max(best, *((one["right_choosing"], one["right_testing"], rate, place) for place, one in
                           enumerate(history)))  # fmt: skip
    return {"right": best[1], "rate": best[2], "measurement": float(best[3])}


def wrong_units(
    seed: int, progress: Progress, *, composition: Composition | None, target: float, **setting: Any
) -> dict[str, float]:
    """Train until the mean margin of held-out pairs is `target` and return how many tokens are still in wrong order.

    Margins are those of token by token, whatever was trained with; only tokens from the first difference on count,
    since before it chosen and rejected answers are one and the same and their margin is 0 for every model. Values
    between two measurements are interpolated.

    Args:
        seed: Of prompts, samples and batches.
        progress: Told of the share done.
        composition: Units of ADPO, or None for TRL's DPO.
        target: Mean margin of a pair, in units of beta times nats.
        **setting: Fields of :class:`Setting`.
    """
    history = _trained(seed, Setting(**setting), composition, progress)
    margins = [one["margin"] for one in history]
    last = next((place for place, margin in enumerate(margins) if margin >= target), len(history) - 1)
    before, after = history[max(last - 1, 0)], history[last]
    span = after["margin"] - before["margin"]
    share = min(max((target - before["margin"]) / span, 0.0), 1.0) if span > 0 else 1.0
    return {name: before[name] + share * (after[name] - before[name]) for name in after}


def distance(seed: int, progress: Progress, *, composition: Composition, **setting: Any) -> dict[str, float]:
    """Train twice, by ADPO and by TRL's DPO, and return how many weights differ.

    Args:
        seed: Of prompts, samples and batches.
        progress: Told of the share done.
        composition: Units of ADPO.
        **setting: Fields of :class:`Setting`.
    """
    chosen = Setting(**setting)
    weights = [
        torch.cat(
            [
                weight.detach().flatten()
                for weight in _train(seed, chosen, units, told, lambda model: {})[0].parameters()
            ]
        )
        for units, told in ((composition, part(progress, 0, 0.5)), (None, part(progress, 0.5, 1)))
    ]
    gap = (weights[0] - weights[1]).abs()
    return {"differing": float((gap > 0).float().mean()), "largest_gap": float(gap.max())}


def _trained(
    seed: int, setting: Setting, composition: Composition | None, progress: Progress
) -> list[dict[str, float]]:
    """Return what was measured before training and every so many steps."""
    model, tokenizer = ready(setting.base)
    examples = setting.task.draw(setting.held_out, np.random.default_rng([seed, 2]))
    asked = [example.prompt for example in examples]
    right = encode_pairs(tokenizer, asked, [setting.task.answer(prompt) for prompt in asked])
    held = _encoded(tokenizer, _pairs(seed, setting, held_out=True))
    references = [completion_log_probs(model, side, batch=512) for side in held]

    def measure(policy: Any) -> dict[str, float]:
        sums = torch.stack([one.sum() for one in completion_log_probs(policy, right, batch=512)]).double()
        half = len(sums) // 2
        found = {
            "right": sums.exp().mean(),
            "right_choosing": sums[:half].exp().mean(),
            "right_testing": sums[half:].exp().mean(),
            "answer_log_prob": sums.mean(),
        }
        return {name: float(value) for name, value in found.items()} | _margins(policy, held, references, setting.beta)

    return _train(seed, setting, composition, progress, measure)[1]


def _margins(policy: Any, held: list[list[TokenPair]], references: list[list[Any]], beta: float) -> dict[str, float]:
    """Return figures of the held-out pairs token by token: the weight of a token is what its margin's gradient is."""
    now = [completion_log_probs(policy, side, batch=512) for side in held]
    totals, wrong, weights, decisions = [], [], [], []
    for number, (chosen, rejected) in enumerate(zip(*held, strict=True)):
        ratios = [now[side][number] - references[side][number] for side in (0, 1)]
        longest = max(len(ratio) for ratio in ratios)
        chosen_ratio, rejected_ratio = (F.pad(ratio, (0, longest - len(ratio))) for ratio in ratios)
        margins = beta * (chosen_ratio - rejected_ratio)
        first = next(
            place for place, (one, other) in enumerate(zip(chosen.completion, rejected.completion, strict=False))
            if one != other
        )  # fmt: skip
        weight = torch.sigmoid(-margins[first:])
        totals.append(float(margins.sum()))
        wrong.append(float((margins[first:] < 0).float().mean()))
        weights.append(float(weight[0] / weight.sum()))
        decisions.append(1 / len(weight))
    return {
        "margin": float(np.mean(totals)),
        "wrong": float(np.mean(wrong)),
        "first_difference_weight": float(np.mean(weights)),
        "first_difference_weight_dpo": float(np.mean(decisions)),
        "chosen_log_prob": float(np.mean([float(one.sum()) for one in now[0]])),
    }


def _train(
    seed: int, setting: Setting, composition: Composition | None, progress: Progress, measure: Any
) -> tuple[Any, list[dict[str, float]]]:
    """Return the trained model and its measurements: ADPO with these units, or TRL's DPO for None."""
    from datasets import Dataset
    from transformers import PrinterCallback, TrainerCallback
    from trl.trainer.dpo_config import DPOConfig
    from trl.trainer.dpo_trainer import DPOTrainer

    from workingpapers.posttraining.adpo.trainer import ADPOConfig, ADPOTrainer

    class Watch(TrainerCallback):  # type: ignore[misc]
        def on_step_end(self, args: Any, state: Any, control: Any, model: Any = None, **_: Any) -> None:
            progress(state.global_step / state.max_steps, f"step {state.global_step}")
            if state.global_step % setting.every == 0:
                model.eval()
                history.append(measure(model))
                model.train()

    policy, tokenizer = ready(setting.base)
    reference, _ = ready(setting.base)
    history = [measure(policy)]
    extra: dict[str, Any] = {}
    if composition is not None:
        extra = {"window": composition.window} if isinstance(composition, Static) else {"units": composition.units}
    configuration, trainer_of = (DPOConfig, DPOTrainer) if composition is None else (ADPOConfig, ADPOTrainer)
    with quiet(), warnings.catch_warnings(), torch.random.fork_rng(), tempfile.TemporaryDirectory() as folder:
        warnings.simplefilter("ignore", FutureWarning)
        arguments: Any = configuration(
            output_dir=folder, beta=setting.beta, learning_rate=setting.rate, max_steps=setting.steps,
            per_device_train_batch_size=48, lr_scheduler_type="constant", max_grad_norm=1.0, seed=seed,
            logging_strategy="no", save_strategy="no", report_to=[], use_cpu=True, bf16=False,
            activation_checkpointing=False, disable_tqdm=True, max_length=None, **extra,
        )  # fmt: skip
        trainer: Any = trainer_of(
            model=policy, ref_model=reference, args=arguments, processing_class=tokenizer,
            train_dataset=Dataset.from_list(list(_pairs(seed, setting))), callbacks=[Watch()],
        )  # fmt: skip
        trainer.remove_callback(PrinterCallback)
        trainer.train()
    return policy, history


def _encoded(tokenizer: Any, records: tuple[dict[str, str], ...]) -> list[list[TokenPair]]:
    prompts = [record["prompt"] for record in records]
    return [encode_pairs(tokenizer, prompts, [record[side] for record in records]) for side in ("chosen", "rejected")]


def _pairs(seed: int, setting: Setting, held_out: bool = False) -> tuple[dict[str, str], ...]:
    return _sampled_pairs(seed, setting.base, setting.held_out if held_out else setting.prompts, held_out)


@lru_cache(maxsize=4)
def _sampled_pairs(seed: int, base: Recipe, count: int, held_out: bool) -> tuple[dict[str, str], ...]:
    """Return the first right and the first wrong answer of the model to each prompt that has both."""
    model, tokenizer = ready(base)
    task = base.task
    prompts = [example.prompt for example in task.draw(count, np.random.default_rng([seed, 3 + held_out]))]
    asked = [tokenizer(prompt)["input_ids"] for prompt in prompts]
    generator = torch.Generator().manual_seed(2 * seed + held_out)
    drawn = sample(model, asked, count=SAMPLES, most=task.longest + 2, batch=1536, generator=generator)
    found: dict[int, dict[bool, str]] = {}
    for one in drawn:
        text = tokenizer.decode(one.tokens, skip_special_tokens=True)
        if one.ended and text:
            found.setdefault(one.prompt, {}).setdefault(bool(task.score(prompts[one.prompt], text)), text)
    return tuple(
        {"prompt": prompts[number], "chosen": texts[True], "rejected": texts[False]}
        for number, texts in sorted(found.items())
        if len(texts) == 2
    )
