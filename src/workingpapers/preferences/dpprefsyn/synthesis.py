"""Labels for public responses by the released rewards: post-processing, so as often as one likes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from workingpapers.foundations.conversations import Prompt, reply_like
from workingpapers.foundations.errors import InputError
from workingpapers.foundations.progress import Progress, part, silent
from workingpapers.preferences.dpprefsyn.mechanisms import check_unit_rows
from workingpapers.preferences.dpprefsyn.mixture import RewardMixture, Rewards
from workingpapers.preferences.dpprefsyn.texts import text_to_embed

Embed = Callable[[Sequence[str]], NDArray[np.floating]]
"""``embed(texts) -> unit rows of shape (n, d)``."""


@dataclass(frozen=True)
class Choice:
    """One prompt's best and worst response under the reward of one cluster.

    Args:
        prompt: Index of the prompt.
        best: Index of the best response among all responses, in order.
        worst: Index of the worst.
        cluster: Whose reward judged.
        scores: Rewards of best and worst.
    """

    prompt: int
    best: int
    worst: int
    cluster: int
    scores: tuple[float, float]

    @property
    def margin(self) -> float:
        """Reward of the best minus that of the worst."""
        return self.scores[0] - self.scores[1]


@dataclass(frozen=True)
class Synthesis:
    """Synthetic preferences.

    Args:
        records: In the form of the Hugging Face preference format, with cluster, scores and margin.
        margins: Margins of all labelled prompts, kept or not.
        skipped: Prompts with fewer than two different responses.
        threshold: Margin below which a pair was left out.
    """

    records: list[dict[str, Any]]
    margins: tuple[float, ...]
    skipped: int
    threshold: float


def choose_pairs(
    rewards: Rewards, embeddings: NDArray[np.floating], offsets: Sequence[int], rng: np.random.Generator
) -> list[Choice]:
    """Return for each prompt the best and the worst response under a cluster drawn by weight.

    Args:
        rewards: The released rewards.
        embeddings: Unit embeddings of all responses with their prompts, shape (n, d).
        offsets: Prompt j has the responses offsets[j] to offsets[j + 1], shape (prompts + 1,).
        rng: Draws the clusters; public.
    """
    scores, long = rewards.scores(embeddings)
    everything = np.full((len(embeddings), len(rewards.weights)), np.nan)
    everything[long] = scores
    clusters = rng.choice(len(rewards.weights), size=len(offsets) - 1, p=rewards.weights)
    found = []
    for prompt, cluster in enumerate(clusters):
        own = everything[offsets[prompt] : offsets[prompt + 1], cluster]
        if np.isfinite(own).sum() < 2:
            continue
        best, worst = int(np.nanargmax(own)), int(np.nanargmin(own))
        if best == worst:  # all rewards are equal: nothing to prefer
            continue
        first = int(offsets[prompt])
        scores_of = (float(own[best]), float(own[worst]))
        found.append(Choice(prompt, first + best, first + worst, int(cluster), scores_of))
    return found


def label_responses(
    mixture: RewardMixture,
    prompts: Sequence[Prompt],
    responses: Sequence[Sequence[str]],
    embed: Embed,
    *,
    min_margin: float = 0.5,
    keep: float | None = None,
    seed: int = 0,
    progress: Progress = silent,
) -> Synthesis:
    """Return synthetic preferences: one pair a prompt at most, as often as one likes, at no further cost in privacy.

    Args:
        mixture: A fitted model.
        prompts: Public prompts, n of them: texts, or lists of messages.
        responses: Responses to each, shape (n, any); empty and repeated ones are left out.
        embed: The encoder that the model was fitted with.
        min_margin: Least difference between the rewards of the two; its scale is that of the thetas.
        keep: Share of the labelled prompts to keep, those with the largest margins, in place of `min_margin`.
        seed: Draws the clusters; public.
        progress: Called along the way.

    Raises:
        InputError: The embeddings have another dimension than the model, or are not of length 1.
    """
    kept = [list(dict.fromkeys(text for text in texts if text.strip())) for texts in responses]
    kept = [texts if len(texts) > 1 else [] for texts in kept]
    flat = [text for texts in kept for text in texts]
    offsets = np.concatenate([[0], np.cumsum([len(texts) for texts in kept])]).astype(int).tolist()
    skipped = sum(not texts for texts in kept)
    if not flat:
        return Synthesis([], (), skipped, min_margin)
    pairs = zip(prompts, kept, strict=True)
    joined = [text_to_embed(prompt, text) for prompt, texts in pairs for text in texts]
    embeddings = embed_all(embed, joined, part(progress, 0.0, 0.95))
    if embeddings.shape != (len(flat), mixture.dimension):
        raise InputError(
            f"The encoder gives the shape {embeddings.shape}; the model was fitted on {mixture.dimension} dimensions."
        )
    check_unit_rows("response", embeddings)
    choices = choose_pairs(mixture.rewards, embeddings, offsets, np.random.default_rng(seed))
    margins = tuple(choice.margin for choice in choices)
    threshold = float(np.quantile(margins, 1 - keep)) if keep is not None and margins else min_margin
    records = [
        {
            "prompt": prompts[choice.prompt],
            "chosen": reply_like(prompts[choice.prompt], flat[choice.best]),
            "rejected": reply_like(prompts[choice.prompt], flat[choice.worst]),
            "cluster": choice.cluster,
            "score_chosen": choice.scores[0],
            "score_rejected": choice.scores[1],
            "margin": choice.margin,
        }
        for choice in choices
        if choice.margin >= threshold
    ]
    progress(1.0, "labelled")
    return Synthesis(records, margins, skipped, threshold)


def embed_all(
    embed: Embed, texts: Sequence[str], progress: Progress = silent, chunk: int = 256
) -> NDArray[np.floating]:
    """Return the embeddings of all texts, asked for in chunks, shape (n, d).

    Args:
        embed: The encoder.
        texts: n texts.
        progress: Called after each chunk.
        chunk: Texts at a time.
    """
    found = []
    for start in range(0, len(texts), chunk):
        found.append(np.asarray(embed(texts[start : start + chunk])))
        done = min(start + chunk, len(texts))
        progress(done / len(texts), f"{done:,} of {len(texts):,} texts embedded")
    return np.concatenate(found)
