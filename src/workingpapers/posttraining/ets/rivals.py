"""Best-of-N and majority voting on the same chains, at a number of tokens of one's choice."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from workingpapers.foundations.errors import InputError
from workingpapers.posttraining.ets.rewards import Reward
from workingpapers.posttraining.ets.states import Chain, States, Streams


def draws(chain: Chain, prompts: Sequence[Any], count: int, seeds: Sequence[int] | int = 0) -> tuple[States, int]:
    """Return `count` answers a prompt, those of a prompt together, and the tokens that they took.

    Args:
        chain: The model.
        prompts: q prompts.
        count: Answers a prompt, at least 1.
        seeds: As for the sampler.

    Raises:
        InputError: When the count is below one.
    """
    if count < 1:
        raise InputError(f"The number of answers must be at least 1, and is {count}.")
    numbers = list(range(seeds, seeds + len(prompts))) if isinstance(seeds, int) else list(seeds)
    streams = Streams(numbers)
    ended = chain.extend(prompts, chain.start(prompts, streams).repeat(count), chain.longest, streams)
    return ended, int(ended.lengths.sum())


def best_of(
    chain: Chain, reward: Reward, prompts: Sequence[Any], count: int, seeds: Sequence[int] | int = 0
) -> tuple[Sequence[Any], int]:
    """Return the answer with the largest reward of `count`, the first of several, and the tokens that all took.

    Args:
        chain: The model.
        reward: Reward of finished answers.
        prompts: q prompts.
        count: N.
        seeds: As for the sampler.
    """
    ended, tokens = draws(chain, prompts, count, seeds)
    asked = [prompts[group] for group in ended.groups.tolist()]
    values = np.asarray(reward(asked, chain.read(prompts, ended), ended.groups)).reshape(len(prompts), count)
    rows = np.arange(len(prompts)) * count + values.argmax(-1)
    return chain.read(prompts, ended.take(rows)), tokens


def majority_vote(
    chain: Chain,
    extract: Callable[[Any], Any],
    prompts: Sequence[Any],
    count: int,
    seeds: Sequence[int] | int = 0,
) -> tuple[list[Any], int]:
    """Return the most frequent extracted answer of `count` (the first seen of several; None without any), and tokens.

    Args:
        chain: The model.
        extract: Answer of a completion, or None.
        prompts: q prompts.
        count: N.
        seeds: As for the sampler.
    """
    ended, tokens = draws(chain, prompts, count, seeds)
    answers = [extract(completion) for completion in chain.read(prompts, ended)]
    found: list[Any] = []
    for query in range(len(prompts)):
        votes = Counter(answer for answer in answers[query * count : (query + 1) * count] if answer is not None)
        found.append(votes.most_common(1)[0][0] if votes else None)
    return found, tokens
