"""The arms of the claims: a small model that follows pointers, targets of known peaks, and signs of advantages.

The model was taught answers that are too short for hard prompts (guesses without a chain) and too long for all (checks
that only add errors). It is trained by GRPO with one of several rewards; all arms of a seed see the same prompts.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from workingpapers.foundations.language import cache_name, encode_pairs
from workingpapers.foundations.progress import Progress, part
from workingpapers.foundations.tinylm import PointerChasing, Recipe, ready
from workingpapers.posttraining.smartthinker.rewards import Floats, ae_score, group_advantages, smart_length_rewards

GROUP = 8
Reward = Callable[[Floats, Floats, Any], Floats]


def accuracy_only(correct: Floats, lengths: Floats, groups: Any) -> Floats:
    """Return the verdicts.

    Args:
        correct: 1 or 0, shape (n,).
        lengths: Tokens, shape (n,).
        groups: Prompt of each, shape (n,).
    """
    return correct


def smartthinker(correct: Floats, lengths: Floats, groups: Any) -> Floats:
    """Return SmartThinker's rewards (arguments as of :func:`accuracy_only`)."""
    return smart_length_rewards(correct, lengths, groups).rewards


def linear(correct: Floats, lengths: Floats, groups: Any, *, weight: float) -> Floats:
    """Return a - weight l (arguments as of :func:`accuracy_only`)."""
    return correct - weight * lengths


def fixed_weight(correct: Floats, lengths: Floats, groups: Any, *, weight: float) -> Floats:
    """Return a - weight s with SmartThinker's excess s (arguments as of :func:`accuracy_only`)."""
    return correct - weight * smart_length_rewards(correct, lengths, groups).excess


def shortest_correct(correct: Floats, lengths: Floats, groups: Any, *, weight: float) -> Floats:
    """Return ShorterBetter's a - weight |l - l*|, l* the shortest right length or, without one, the mean length."""
    _, rows = np.unique(groups, return_inverse=True)
    shortest = np.full(rows.max() + 1, np.inf)
    np.minimum.at(shortest, rows, np.where(correct > 0, lengths, np.inf))
    target = np.where(np.isfinite(shortest), shortest, np.bincount(rows, lengths) / np.bincount(rows))
    return np.asarray(correct - weight * np.abs(lengths - target[rows]))


@dataclass(frozen=True)
class Setting:
    """All that the arms of a claim share.

    Args:
        hops: Numbers of hops of the prompts.
        width: Of the model.
        base_steps: Steps in which the model is taught.
        prompts: Prompts an update, eight answers each.
        updates: Updates of GRPO.
        every: Updates between two measurements.
        held_out: Prompts on which is measured, one answer each.
        rate: Learning rate of AdamW, constant.
    """

    hops: tuple[int, ...] = (1, 2, 5)
    width: int = 64
    base_steps: int = 1600
    prompts: int = 12
    updates: int = 60
    every: int = 20
    held_out: int = 400
    rate: float = 4e-4

    @property
    def task(self) -> PointerChasing:
        """What is taught, with its slips; its checker knows the right answer."""
        return PointerChasing(
            states=6, hops=self.hops, direct=0.25, checks=(0.35, 0.35, 0.30), slip=0.02, check_slip=0.05
        )

    @property
    def base(self) -> Recipe:
        """The model before GRPO."""
        return Recipe(self.task, width=self.width, steps=self.base_steps, learning_rate=3e-3, positions=48)


def training(seed: int, progress: Progress, *, reward: Reward, **setting: Any) -> dict[str, float]:
    """Train with a reward and return what was measured, on average over the measurements and at each.

    Args:
        seed: Of prompts and samples.
        progress: Told of the share done.
        reward: From verdicts, lengths and groups to rewards.
        **setting: Fields of :class:`Setting`.

    Returns:
        score (AE against the model before), accuracy and length, averages over the measurements; accuracy and length at
        each; final_accuracy, final_length, hard_accuracy (most hops) and direct (answers without a chain) at the last.
    """
    return _summary(_trained(seed, Setting(**setting), reward, progress), Setting(**setting))


def tuned(
    seed: int, progress: Progress, *, reward: Callable[..., Floats], weights: tuple[float, ...], **setting: Any
) -> dict[str, float]:
    """Train with several weights and return what the best one by its score on other prompts gives.

    Args:
        seed: Of prompts and samples.
        progress: Told of the share done.
        reward: A reward with a weight.
        weights: To choose from.
        **setting: Fields of :class:`Setting`.
    """
    from functools import partial

    chosen = Setting(**setting)
    best: dict[str, float] = {}
    for number, weight in enumerate(weights):
        told = part(progress, number / len(weights), (number + 1) / len(weights))
        history = _trained(seed, chosen, partial(reward, weight=weight), told, choosing=True)
        found = _summary(history, chosen) | {"choosing_score": _score(history, "choosing_"), "weight": weight}
        if not best or found["choosing_score"] > best["choosing_score"]:
            best = found
    return best


def target_error(seed: int, progress: Progress, *, kind: str, groups: int, sizes: tuple[int, ...]) -> dict[str, float]:
    """Return by how many tokens a target misses the length at which accuracy peaks, for groups of several sizes.

    Lengths are normal with mean 400 and standard deviation 120; an answer of length l is right with probability
    0.8 exp(-(l - 300)^2 / (2 150^2)), so that the peak is 300.

    Args:
        seed: Of the answers.
        progress: Told of the share done.
        kind: "peak" for SmartThinker's target, "shortest" for the shortest right length.
        groups: Groups of each size.
        sizes: Answers in a group.
    """
    found: dict[str, float] = {}
    for number, size in enumerate(sizes):
        rng = np.random.default_rng([seed, size])
        lengths = np.maximum(rng.normal(400.0, 120.0, groups * size), 1.0)
        correct = (rng.random(lengths.shape) < 0.8 * np.exp(-((lengths - 300) ** 2) / (2 * 150**2))).astype(float)
        rows = np.repeat(np.arange(groups), size)
        result = smart_length_rewards(correct, lengths, rows)
        used = result.error_rate < 1
        shortest = np.where(correct > 0, lengths, np.inf).reshape(groups, size).min(1)
        target = (result.target if kind == "peak" else shortest)[used]
        quarters = np.quantile(target, [0.25, 0.5, 0.75])
        found |= {
            f"error_{size}": float(np.abs(target - 300).mean()),
            f"median_{size}": float(quarters[1]),
            f"quartile_range_{size}": float(quarters[2] - quarters[0]),
        }
        if kind == "peak":
            found[f"wider_correct_{size}"] = result.branch_shares["wider_correct"]
        progress((number + 1) / len(sizes), f"groups of {size}")
    return found


def signs(seed: int, progress: Progress, *, reward: Reward, groups: int) -> dict[str, float]:
    """Return shares of right answers that are punished and of wrong ones that are rewarded, in random groups.

    Args:
        seed: Of the groups: 2 to 16 answers, lengths normal around 400, right with a probability of the group's own.
        progress: Told of the share done.
        reward: From verdicts, lengths and groups to rewards.
        groups: How many.
    """
    rng = np.random.default_rng(seed)
    rows = np.repeat(np.arange(groups), rng.integers(2, 17, groups))
    lengths = np.maximum(rng.normal(400.0, 150.0, len(rows)).round(), 1.0)
    correct = (rng.random(len(rows)) < rng.random(groups)[rows]).astype(float)
    advantages = group_advantages(reward(correct, lengths, rows), rows)
    progress(1.0, f"{groups:,} groups")
    right = correct > 0
    return {
        "punished": float((advantages[right] < -1e-9).mean()),
        "right_answers": float(right.sum()),
        "wrong_rewarded": float((advantages[~right] > 1e-9).mean()),
    }


def _summary(history: list[dict[str, float]], setting: Setting) -> dict[str, float]:
    after = history[1:]
    found = {"score": _score(history, ""), **{name: float(np.mean([one[name] for one in after]))
                                              for name in ("accuracy", "length")}}  # fmt: skip
    for place, one in enumerate(history):
        found |= {f"{name}_at_{place * setting.every}": one[name] for name in ("accuracy", "length")}
    last = after[-1]
    return found | {"final_accuracy": last["accuracy"], "final_length": last["length"],
                    "hard_accuracy": last["hard_accuracy"], "direct": last["direct"]}  # fmt: skip


def _score(history: list[dict[str, float]], kind: str) -> float:
    before = history[0]
    return float(np.mean([
        ae_score(one[f"{kind}length"], one[f"{kind}accuracy"], before[f"{kind}length"],
                 max(before[f"{kind}accuracy"], 1e-3))
        for one in history[1:]
    ]))  # fmt: skip


def _trained(
    seed: int, setting: Setting, reward: Reward, progress: Progress, choosing: bool = False
) -> list[dict[str, float]]:
    """Return what was measured before training and every so many updates."""
    model, tokenizer = ready(setting.base)
    task = setting.task
    optimizer = torch.optim.AdamW(model.parameters(), lr=setting.rate, weight_decay=0.0)
    held = _prompts(task, setting.held_out, np.random.default_rng([seed, 1]))
    other = _prompts(task, setting.held_out, np.random.default_rng([seed, 2])) if choosing else []
    rng, source = np.random.default_rng([seed, 3]), torch.Generator().manual_seed(seed)

    def measured() -> dict[str, float]:
        looking = torch.Generator().manual_seed(seed + 1)
        found = _measure(model, tokenizer, task, held, looking)
        if choosing:
            beside = _measure(model, tokenizer, task, other, looking)
            found |= {f"choosing_{name}": beside[name] for name in ("accuracy", "length")}
        return found

    history = [measured()]
    for update in range(1, setting.updates + 1):
        asked = [prompt for prompt in _prompts(task, setting.prompts, rng) for _ in range(GROUP)]
        ids, answers, correct, lengths = _answered(model, tokenizer, task, asked, source)
        groups = np.arange(len(asked)) // GROUP
        advantages = group_advantages(reward(correct, lengths, groups), groups)
        _step(model, optimizer, ids, answers, torch.as_tensor(lengths), torch.as_tensor(advantages).float())
        progress(update / setting.updates, f"update {update} of {setting.updates}")
        if update % setting.every == 0:
            history.append(measured())
    return history


def _prompts(task: PointerChasing, count: int, rng: np.random.Generator) -> list[str]:
    return [example.prompt for example in task.draw(count, rng)]


def _measure(
    model: Any, tokenizer: Any, task: PointerChasing, prompts: list[str], source: torch.Generator
) -> dict[str, float]:
    _, answers, correct, lengths = _answered(model, tokenizer, task, prompts, source)
    hard = np.array([prompt.endswith(f">{max(task.hops)}=") for prompt in prompts])
    direct = (answers[:, 0] == tokenizer.convert_tokens_to_ids("A")).float().mean()
    return {"accuracy": float(correct.mean()), "length": float(lengths.mean()), "direct": float(direct),
            "hard_accuracy": float(correct[hard].mean()) if hard.any() else 0.0}  # fmt: skip


def _answered(
    model: Any, tokenizer: Any, task: PointerChasing, prompts: list[str], source: torch.Generator
) -> tuple[Tensor, Tensor, Floats, Floats]:
    """Return tokens of the prompts, all of one length, and sampled answers with verdicts and lengths."""
    ids = torch.tensor([pair.prompt for pair in encode_pairs(tokenizer, prompts, [""] * len(prompts))])
    answers = _sampled(model, ids, task.longest + 3, tokenizer.eos_token_id, source)
    ends = answers == tokenizer.eos_token_id
    ended = ends.any(1)
    lengths = torch.where(ended, ends.float().argmax(1) + 1, answers.shape[1]).numpy()
    texts = [tokenizer.decode(row[:length], skip_special_tokens=True)
             for row, length in zip(answers.tolist(), lengths, strict=True)]  # fmt: skip
    correct = [task.score(prompt, text) * float(end)
               for prompt, text, end in zip(prompts, texts, ended, strict=True)]  # fmt: skip
    return ids, answers, np.array(correct), lengths.astype(np.float64)


@torch.no_grad()
def _sampled(model: Any, ids: Tensor, most: int, end: int, source: torch.Generator) -> Tensor:
    """Return tokens drawn at temperature 1 until all answers ended, shape (n, at most `most`)."""
    name, cache, drawn = cache_name(model), None, []
    open_rows, given = torch.ones(len(ids), dtype=torch.bool), ids
    for _ in range(most):
        out = model(input_ids=given, use_cache=True, logits_to_keep=1, **{name: cache})
        cache = out[name]
        given = torch.multinomial(torch.softmax(out.logits[:, -1].float(), -1), 1, generator=source)
        given[~open_rows] = end
        drawn.append(given)
        open_rows &= given[:, 0] != end
        if not open_rows.any():
            break
    return torch.cat(drawn, 1)


def _step(model: Any, optimizer: Any, ids: Tensor, answers: Tensor, lengths: Tensor, advantages: Tensor) -> None:
    """Take one on-policy step on the mean over all tokens of -A log p."""
    text, start = torch.cat([ids, answers], 1), ids.shape[1]
    logits = model(input_ids=text[:, :-1], use_cache=False, logits_to_keep=answers.shape[1]).logits
    logs = torch.log_softmax(logits.float(), -1).gather(-1, text[:, start:, None])[..., 0]
    mask = torch.arange(answers.shape[1]) < lengths[:, None]
    loss = -(advantages[:, None] * logs)[mask].sum() / mask.sum()
    optimizer.zero_grad(set_to_none=True)
    torch.autograd.backward(loss)
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
