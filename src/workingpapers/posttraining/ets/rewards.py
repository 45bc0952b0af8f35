"""Rewards of finished answers: a checker of one's own, or agreement among the completions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from workingpapers.foundations.errors import InputError

Floats = NDArray[np.float64]


class Reward(Protocol):
    """Scores completions; rows of one query (equal groups) stand next to each other."""

    def __call__(self, prompts: Sequence[Any], completions: Sequence[Any], groups: NDArray[np.int64]) -> Floats:
        """Return one finite number a completion, shape (n,); `prompts` has one entry a row."""


class Verifier:
    """A function of prompts and completions, such as a reward function of TRL.

    Args:
        function: Called as ``function(prompts=[...], completions=[...])``, returns n numbers.
    """

    def __init__(self, function: Callable[..., Sequence[float]]) -> None:
        self.function = function

    def __call__(self, prompts: Sequence[Any], completions: Sequence[Any], groups: NDArray[np.int64]) -> Floats:
        """Return the function's values, shape (n,).

        Raises:
            InputError: When there are not as many as completions, or one is not finite.
        """
        found = np.asarray(self.function(prompts=list(prompts), completions=list(completions)), dtype=np.float64)
        if found.shape != (len(completions),):
            raise InputError(
                f"The reward gave {found.shape} for {len(completions)} completions; it must give one each."
            )
        wrong = np.flatnonzero(~np.isfinite(found))
        if len(wrong):
            raise InputError(f"The reward of completion {wrong[0]} is {found[wrong[0]]}; it must be a finite number.")
        return found


class SelfConsistency:
    """Agreement with the most frequent answer among the completions of the same query: 1 or 0.

    Args:
        extract: Answer of a completion, or None where it has none; such completions get 0 and do not vote.
        pool: "step" votes among the completions of one step, so that the target is a fixed law given the pool; "run"
            lets the completions of earlier steps vote too, as the released code does, which makes the reward depend on
            the history. Call :meth:`reset` before another run then.
    """

    def __init__(self, extract: Callable[[Any], Any], pool: Literal["step", "run"] = "step") -> None:
        self.extract = extract
        self.pool = pool
        self._votes: dict[int, Counter[Any]] = {}

    def reset(self) -> None:
        """Forget the votes of earlier steps."""
        self._votes = {}

    def __call__(self, prompts: Sequence[Any], completions: Sequence[Any], groups: NDArray[np.int64]) -> Floats:
        """Return 1 where an answer is its query's most frequent one (the first seen of several), else 0, shape (n,)."""
        answers = [self.extract(completion) for completion in completions]
        votes = self._votes if self.pool == "run" else {}
        for group, answer in zip(groups.tolist(), answers, strict=True):
            if answer is not None:
                votes.setdefault(group, Counter())[answer] += 1
        leaders = {group: counter.most_common(1)[0][0] for group, counter in votes.items()}
        return np.array([
            float(answer is not None and answer == leaders[group])
            for group, answer in zip(groups.tolist(), answers, strict=True)
        ])  # fmt: skip
