"""The arms of the claims, on a small world where the quality of a response is known (see :mod:`counting`)."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from workingpapers.foundations.language import encode_pairs, sample
from workingpapers.foundations.progress import Progress
from workingpapers.foundations.tinylm import ready
from workingpapers.posttraining.irpm import rivals
from workingpapers.posttraining.irpm.counting import (
    PARSER,
    PLACES,
    PROMPT,
    counting_preferences,
    draw_response,
    pairwise_prompt,
    quality,
)
from workingpapers.posttraining.irpm.judge import PointwiseJudge, mean_scores, model_speaker, pair_outcomes
from workingpapers.posttraining.irpm.rivals import MOST, Setting

CANDIDATES = 8
VOTES = 4
BATCH = 1200
UNTRAINED = "untrained"


def judge_arm(seed: int, progress: Progress, *, kind: str, flip: float = 0.0, **setting: Any) -> dict[str, float]:
    """Train a pointwise judge and measure it on held-out pairs with right labels.

    Args:
        seed: Of pairs and samples.
        progress: Told of the share done.
        kind: Comparison of :func:`intergroup_rewards`, "loose", or "untrained" for the judge before training.
        flip: Share of wrong labels in training.
        **setting: Fields of :class:`Setting`.

    Returns:
        accuracy (greedy, ties half), ties, voting (mean of four sampled scores), cross (responses to different
        requests), unparsable, extreme (scores of 0 or 9), critique (right number of errors).
    """
    chosen = Setting(**setting)
    model, tokenizer = _judge(seed, chosen, kind, flip, progress)
    held = counting_preferences(chosen.held_out, np.random.default_rng([seed, 2]))
    greedy, voting = (_pointwise_judge(model, tokenizer, votes, seed) for votes in (1, VOTES))
    keys = [record["prompt"] for record in held]
    sides = [[record[side] for record in held] for side in ("chosen", "rejected")]
    said = [[group[0] for group in greedy.judge(keys, side)] for side in sides]
    scores = [mean_scores([[one] for one in side]) for side in said]
    votes = [mean_scores(voting.judge(keys, side)) for side in sides]
    everything, responses = np.concatenate(scores), sides[0] + sides[1]
    rights = np.array([quality(key, response) for key, response in zip(keys * 2, responses, strict=True)])
    readable = [(one.critique, right) for one, right in zip(said[0] + said[1], rights, strict=True) if one.valid]
    return {
        "accuracy": float(pair_outcomes(*scores).mean()),
        "ties": float((scores[0] == scores[1]).mean()),
        "voting": float(pair_outcomes(*votes).mean()),
        "voting_ties": float((votes[0] == votes[1]).mean()),
        "cross": _cross(keys * 2, everything, rights, seed),
        "unparsable": float(np.isnan(everything).mean()),
        "extreme": float(np.isin(everything, (0, 9)).mean()),
        "critique": float(np.mean([critique == str(PLACES - right) for critique, right in readable])),
    }


def head_arm(seed: int, progress: Progress, *, flip: float = 0.0, **setting: Any) -> dict[str, float]:
    """Train a scalar Bradley-Terry head and measure it on the same held-out pairs.

    Args:
        seed: Of pairs and first weights.
        progress: Told of the share done.
        flip: Share of wrong labels in training.
        **setting: Fields of :class:`Setting`.
    """
    chosen = Setting(**setting)
    model, tokenizer = rivals.scalar_head(seed, chosen, flip, progress)
    held = counting_preferences(chosen.held_out, np.random.default_rng([seed, 2]))
    keys = [record["prompt"] for record in held]
    sides = [[record[side] for record in held] for side in ("chosen", "rejected")]
    scores = [_head_scores(model, tokenizer, keys, side) for side in sides]
    rights = np.array([quality(key, one) for key, one in zip(keys * 2, sides[0] + sides[1], strict=True)])
    return {
        "accuracy": float(pair_outcomes(*scores).mean()),
        "ties": float((scores[0] == scores[1]).mean()),
        "cross": _cross(keys * 2, np.concatenate(scores), rights, seed),
    }


def pairwise_arm(seed: int, progress: Progress, **setting: Any) -> dict[str, float]:
    """Train a judge of two responses and measure it on the same held-out pairs, in both orders.

    Args:
        seed: Of pairs and samples.
        progress: Told of the share done.
        **setting: Fields of :class:`Setting`.

    Returns:
        accuracy (mean of both orders), ties (orders disagree), unparsable.
    """
    chosen = Setting(**setting)
    model, tokenizer = rivals.pairwise(seed, chosen, progress)
    held = counting_preferences(chosen.held_out, np.random.default_rng([seed, 2]))
    asked = [pairwise_prompt(record["prompt"], record["chosen"], record["rejected"]) for record in held]
    asked += [pairwise_prompt(record["prompt"], record["rejected"], record["chosen"]) for record in held]
    letters = [rivals.verdict(text) for text in _greedy(model, tokenizer, asked)]
    half = len(held)
    right = np.array([letter == ("A" if place < half else "B") for place, letter in enumerate(letters)])
    return {
        "accuracy": float(right.mean()),
        "ties": float((right[:half] != right[half:]).mean()),
        "unparsable": float(np.mean([letter is None for letter in letters])),
    }


def ranking_arm(seed: int, progress: Progress, *, protocol: str, **setting: Any) -> dict[str, float]:
    """Rank sets of eight candidates and compare with their true quality.

    Args:
        seed: Of pairs, samples and candidates.
        progress: Told of the share done.
        protocol: "pointwise", "votes" (mean of four), "untrained", or of the judge of two: "once" (each pair in one
            order, wins counted), "both" (both orders), "sorting", "knockout".
        **setting: Fields of :class:`Setting`.

    Returns:
        tau (Kendall's tau-b, 0 where all candidates are tied) and calls a set.
    """
    chosen = Setting(**setting)
    rng = np.random.default_rng([seed, 4])
    keys = [str(int(rng.integers(10))) for _ in range(chosen.sets)]
    sets = [[draw_response(key, int(rng.integers(PLACES + 1)), rng) for _ in range(CANDIDATES)] for key in keys]
    if protocol in ("pointwise", "votes", UNTRAINED):
        model, tokenizer = _judge(seed, chosen, UNTRAINED if protocol == UNTRAINED else "mean", 0.0, progress)
        judge = _pointwise_judge(model, tokenizer, VOTES if protocol == "votes" else 1, seed)
        flat = judge.judge([key for key in keys for _ in range(CANDIDATES)], [one for group in sets for one in group])
        worth = np.nan_to_num(mean_scores(flat).reshape(len(sets), -1), nan=-1.0)
        calls = judge.calls / len(sets)
    else:
        model, tokenizer = rivals.pairwise(seed, chosen, progress)
        wins = _all_comparisons(model, tokenizer, keys, sets)
        found = [PROTOCOLS[protocol](table, np.random.default_rng([seed, 5, place])) for place, table in
                 enumerate(wins)]  # fmt: skip
        worth, calls = np.array([one for one, _ in found]), float(np.mean([asked for _, asked in found]))
    truth = [[quality(key, one) for one in group] for key, group in zip(keys, sets, strict=True)]
    return {"tau": float(np.mean([_tau(*pair) for pair in zip(worth, truth, strict=True)])), "calls": calls}


def count_wins(wins: np.ndarray, rng: np.random.Generator, *, both: bool) -> tuple[np.ndarray, int]:
    """Return the number of wins of each candidate, and the calls it took.

    Args:
        wins: What the judge says of (A, B): 1 for A, 0 for B, 0.5 where unparsable, shape (n, n).
        rng: Draws the order of each pair.
        both: Whether each pair is asked in both orders.
    """
    count = len(wins)
    points, calls = np.zeros(count), 0
    for first in range(count):
        for second in range(first):
            orders = [(first, second), (second, first)] if both else [rng.permutation([first, second])]
            for one, other in orders:
                points[one] += wins[one, other]
                points[other] += 1 - wins[one, other]
                calls += 1
    return points, calls


def sort_by_judge(wins: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, int]:
    """Return the places that a sorting algorithm gives to candidates in random order, and the calls it took.

    Args:
        wins: As in :func:`count_wins`.
        rng: Draws the order.
    """
    calls = 0

    def compare(one: int, other: int) -> int:
        nonlocal calls
        calls += 1
        return int(np.sign(2 * wins[one, other] - 1))

    order = sorted(rng.permutation(len(wins)).tolist(), key=functools.cmp_to_key(compare))
    return np.argsort(order).astype(float), calls


def knockout(wins: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, int]:
    """Return the round in which each candidate of a knockout tournament drops out, and the calls it took.

    Args:
        wins: As in :func:`count_wins`.
        rng: Draws the bracket, and unparsable games.
    """
    left, rounds, calls = rng.permutation(len(wins)).tolist(), np.zeros(len(wins)), 0
    while len(left) > 1:
        winners = left[len(left) - len(left) % 2 :]
        for one, other in zip(left[::2], left[1::2], strict=False):
            calls += 1
            winners.append(one if wins[one, other] > rng.random() else other)
        rounds[winners] += 1
        left = winners
    return rounds, calls


PROTOCOLS: dict[str, Callable[[np.ndarray, np.random.Generator], tuple[np.ndarray, int]]] = {
    "once": functools.partial(count_wins, both=False),
    "both": functools.partial(count_wins, both=True),
    "sorting": sort_by_judge,
    "knockout": knockout,
}


def _judge(seed: int, setting: Setting, kind: str, flip: float, progress: Progress) -> tuple[Any, Any]:
    if kind == UNTRAINED:
        found: tuple[Any, Any] = ready(setting.base(seed))
        return found
    return rivals.pointwise(seed, setting, kind, flip, progress)


def _pointwise_judge(model: Any, tokenizer: Any, votes: int, seed: int) -> PointwiseJudge:
    temperature = 0.0 if votes == 1 else 1.0
    speak = model_speaker(model, tokenizer, most=MOST, temperature=temperature, batch=BATCH, seed=seed)
    return PointwiseJudge(speak, prompt=PROMPT, parser=PARSER, votes=votes)


def _greedy(model: Any, tokenizer: Any, prompts: Sequence[str]) -> list[str]:
    drawn = sample(model, [tokenizer(prompt)["input_ids"] for prompt in prompts], most=MOST, temperature=0,
                   batch=BATCH)  # fmt: skip
    return [tokenizer.decode(one.tokens, skip_special_tokens=True) for one in drawn]


def _head_scores(model: Any, tokenizer: Any, keys: Sequence[str], responses: Sequence[str]) -> np.ndarray:
    texts = [f"{key}:{response}=" for key, response in zip(keys, responses, strict=True)]
    ids = torch.tensor([pair.prompt + pair.completion for pair in encode_pairs(tokenizer, texts, [""] * len(texts))])
    with torch.no_grad():
        return np.asarray(model(input_ids=ids, attention_mask=torch.ones_like(ids)).logits[:, 0].double())


def _cross(keys: Sequence[str], scores: np.ndarray, rights: np.ndarray, seed: int) -> float:
    """Return how often the better one of two responses to different requests scores higher."""
    order = np.random.default_rng([seed, 3]).permutation(len(scores))
    names = np.asarray(keys)
    kept = (names != names[order]) & (rights > rights[order])
    return float(pair_outcomes(scores[kept], scores[order][kept]).mean())


def _all_comparisons(model: Any, tokenizer: Any, keys: Sequence[str], sets: Sequence[Sequence[str]]) -> np.ndarray:
    """Return what the judge of two says of every ordered pair, shape (sets, n, n); protocols look up what they ask."""
    places = [(one, other) for one in range(CANDIDATES) for other in range(CANDIDATES) if one != other]
    asked = [pairwise_prompt(key, group[one], group[other]) for key, group in zip(keys, sets, strict=True)
             for one, other in places]  # fmt: skip
    points = {"A": 1.0, "B": 0.0, None: 0.5}
    said = np.array([points[rivals.verdict(text)] for text in _greedy(model, tokenizer, asked)])
    wins = np.full((len(sets), CANDIDATES, CANDIDATES), 0.5)
    rows, columns = np.array(places).T
    wins[:, rows, columns] = said.reshape(len(sets), -1)
    return wins


def _tau(worth: np.ndarray, truth: Sequence[int]) -> float:
    from scipy.stats import kendalltau

    found = float(kendalltau(worth, truth).statistic)
    return 0.0 if np.isnan(found) else found
