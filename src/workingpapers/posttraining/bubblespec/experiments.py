"""The arms of the claims: exact laws, passes with a changed model, training on ranks, and a simulated cluster."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import torch

from workingpapers.foundations.progress import Progress, part
from workingpapers.posttraining.bubblespec.cluster import AcceptanceModel, ClusterSpec, LengthModel, simulate
from workingpapers.posttraining.bubblespec.decoding import Decoded, Request, lossless_decode
from workingpapers.posttraining.bubblespec.drafts import Draft
from workingpapers.posttraining.bubblespec.laws import (
    Rule,
    picked_law,
    random_table,
    sequence_law,
    total_variation,
    verified_law,
)
from workingpapers.posttraining.bubblespec.loop import Run, train_in_turn
from workingpapers.posttraining.bubblespec.noise import Key

Drafting = Literal["coupled", "independent", "none"]
OPENINGS = (
    "The old lighthouse stood",
    "To bake a good loaf of bread, you",
    "In the middle of the night the phone",
    "A matrix is symmetric when",
    "She opened the letter and",
    "The river has flooded again, so",
    "Our train leaves at nine, and",
    "Once there was a fox who",
)


def laws(
    seed: int, progress: Progress, *, rule: Rule, picked: bool = False, vocabulary: int, depth: int, tables: int
) -> dict[str, float]:
    """Return the mean total variation between what a rule writes and the model's law, over random tables.

    Args:
        seed: Of the tables.
        progress: Told of the share done.
        rule: Which draft tokens stand.
        picked: Whether each draft is the better of two, by the sum of its tokens.
        vocabulary: Tokens, the last of them the end mark.
        depth: Longest sequence.
        tables: Pairs of tables.
    """
    rng, found = np.random.default_rng(seed), []
    for number in range(tables):
        p, q = (random_table(vocabulary, depth, rng, end=vocabulary - 1) for _ in range(2))
        drafts = sequence_law(q)
        if picked:
            drafts = picked_law(drafts, better=lambda sequence: float(sum(sequence)))
        found.append(total_variation(verified_law(p, q, rule, drafts), sequence_law(p)))
        progress((number + 1) / tables, f"table {number + 1}")
    return {"distance": float(np.mean(found)), "largest": max(found)}


def changed(
    seed: int, progress: Progress, *, model: str, drafting: Drafting, change: float, samples: int, most: int, ahead: int
) -> dict[str, float]:
    """Return passes with drafts of a model before a change of its weights, over passes without.

    Args:
        seed: Of noise and change.
        progress: Told of the share done.
        model: "tiny", or a name of :func:`~workingpapers.foundations.language.load_model`.
        drafting: Noise of the drafts.
        change: Standard deviation of the change of each weight, in those of its tensor.
        samples: Of each of eight prompts.
        most: Most tokens.
        ahead: Most draft tokens of a sequence in a pass.
    """
    policy, prompts = _policy(model, part(progress, 0, 0.1))
    asked = [
        Request(tuple(prompt), Key(seed, number, 0, sample))
        for number, prompt in enumerate(prompts)
        for sample in range(samples)
    ]
    drafts = _drafts(policy, asked, drafting, most)
    perturb(policy, change, seed)
    progress(0.4, "drafts written")
    plain = lossless_decode(policy, asked, most=most)
    progress(0.7, "written without drafts")
    pools = [
        tuple(Draft(text) for text in _own_first(drafts, number, samples)) if drafts else ()
        for number in range(len(asked))
    ]
    found = lossless_decode(
        policy, [Request(one.prompt, one.key, pool) for one, pool in zip(asked, pools, strict=True)], most=most,
        ahead=ahead,
    )  # fmt: skip
    return {
        "passes": _passes(found) / _passes(plain),
        "critical": found.passes / plain.passes,
        "acceptance": found.acceptance,
        "different": float(sum(a.tokens != b.tokens for a, b in zip(found.written, plain.written, strict=True))),
        "sequences": float(len(asked)),
        "tokens": float(np.mean([len(one.tokens) for one in plain.written])),
    }


def training(
    seed: int, progress: Progress, *, order: Literal["own", "pooled"], coupled: bool = True, **settings: Any
) -> dict[str, float]:
    """Return the passes of the slowest rank with drafts over those without, from the second step on.

    Weights at the end that differ in one bit from those of the run without drafts count as no saving.

    Args:
        seed: Of prompts and noise.
        progress: Told of the share done.
        order: Whose prompts an idle rank drafts.
        coupled: Whether drafts share the rollouts' noise.
        **settings: Fields of :class:`~.loop.Run`.
    """
    plain = train_in_turn(Run(seed=seed, speculative=False, **settings), part(progress, 0, 0.5))
    found = train_in_turn(Run(seed=seed, order=order, coupled=coupled, **settings), part(progress, 0.5, 1))
    same = found.digest == plain.digest and found.texts == plain.texts
    share = sum(found.critical[1:]) / sum(plain.critical[1:])
    return {
        "share": share if same else max(1.0, share),
        "different_weights": float(not same),
        "first_step": found.critical[0] / plain.critical[0],
        "passes": sum(found.passes[1:]) / sum(plain.passes[1:]),
        "acceptance": float(np.mean(found.accepted[1:])),
        "reward": found.rewards[-1],
    }


def cluster(
    seed: int,
    progress: Progress,
    *,
    stand: float = 0.85,
    resync: float = 0.3,
    ahead: int = 8,
    order: Literal["own", "pooled"] = "pooled",
    siblings: bool = True,
    spread: float = 1.0,
    ranks: int,
    steps: int,
) -> dict[str, float]:
    """Return what a simulated cluster gains.

    Args:
        seed: Of lengths and acceptance.
        progress: Told of the share done.
        stand: Chance of a draft token to stand.
        resync: Chance of a sequence to find its way back, each iteration.
        ahead: Most draft tokens.
        order: Whose prompts an idle rank drafts.
        siblings: Whether drafts of a prompt's other samples serve too.
        spread: Multiplies the spreads of the lengths.
        ranks: Ranks.
        steps: Steps.
    """
    spec = ClusterSpec(ranks=ranks, ahead=ahead, order=order, siblings=siblings)
    lengths = LengthModel(prompt_spread=0.7 * spread, sample_spread=0.5 * spread)
    found = simulate(spec, lengths, AcceptanceModel(stand, resync), steps=steps, seed=seed)
    progress(1.0, "simulated")
    return {
        "speedup": found.speedup,
        "iterations": found.iterations / found.plain_iterations,
        "idle": found.idle,
        "coverage": found.coverage,
        "extra": found.extra,
    }


def perturb(model: Any, change: float, seed: int) -> None:
    """Add normal noise to all weights in place, as large as `change` times the deviation of each tensor."""
    source = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for value in model.parameters():
            noise = torch.randn(value.shape, generator=source, dtype=value.dtype)
            value.add_(noise.to(value.device), alpha=change * float(value.std()) if value.numel() > 1 else 0.0)


def _drafts(policy: Any, asked: list[Request], drafting: Drafting, most: int) -> list[tuple[int, ...]]:
    if drafting == "none":
        return []
    keyed = [
        Request(one.prompt, one.key if drafting == "coupled" else one.key.aside()) for one in asked
    ]  # fmt: skip
    return [one.tokens for one in lossless_decode(policy, keyed, most=most).written]


def _own_first(drafts: list[tuple[int, ...]], number: int, samples: int) -> list[tuple[int, ...]]:
    first = number - number % samples
    return [drafts[number], *(drafts[other] for other in range(first, first + samples) if other != number)]


def _passes(decoded: Decoded) -> int:
    return sum(one.passes for one in decoded.written)


def _policy(name: str, progress: Progress) -> tuple[Any, list[list[int]]]:
    if name == "tiny":
        from workingpapers.foundations.language import encode_pairs
        from workingpapers.foundations.tinylm import ready

        run = Run()
        model, tokenizer = ready(run.recipe, progress)
        texts = [example.prompt for example in run.task.draw(len(OPENINGS), np.random.default_rng(0))]
        pairs = encode_pairs(tokenizer, texts, [""] * len(texts), end=False)
        return model.double().eval(), [list(pair.prompt) for pair in pairs]
    from workingpapers.foundations.language import load_model

    model, tokenizer = load_model(name)
    return model, [list(tokenizer(text)["input_ids"]) for text in OPENINGS]
