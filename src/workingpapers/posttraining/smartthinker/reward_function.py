"""The reward as a reward function of TRL, for a `GRPOTrainer` whose groups do not straddle processes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from workingpapers.foundations.errors import InputError
from workingpapers.posttraining.smartthinker.rewards import (
    EPSILON,
    LengthRewards,
    TieRule,
    WideRule,
    smart_length_rewards,
)


class SmartThinkerReward:
    """A reward function of TRL: verdicts and lengths of each group in, SmartThinker's rewards out.

    TRL shows a reward function the completions of its own process, so the completions of a process must be a multiple
    of `num_generations`; :class:`SmartThinkerTrainer` has no such condition.

    Args:
        correctness: Reward function of TRL's signature that gives 1, 0, or None for what cannot be judged.
        num_generations: Completions a prompt, the trainer's; TRL keeps them next to each other.
        group_column: Data set column that identifies a prompt, in place of `num_generations`.
        threshold: A completion scored over it is right; None: scores are 0 or 1.
        eps: See :func:`smart_length_rewards`.
        tie_rule: See :func:`smart_length_rewards`.
        wide_rule: See :func:`smart_length_rewards`.

    Raises:
        InputError: When neither or both of `num_generations` and `group_column` are given.
    """

    def __init__(
        self,
        correctness: Callable[..., Sequence[float | None]],
        *,
        num_generations: int | None = None,
        group_column: str | None = None,
        threshold: float | None = None,
        eps: float = EPSILON,
        tie_rule: TieRule = "calculus",
        wide_rule: WideRule = "min",
    ) -> None:
        if (num_generations is None) == (group_column is None):
            raise InputError("Give either num_generations (the trainer's) or group_column.")
        if num_generations is not None and num_generations < 2:
            raise InputError(f"num_generations is {num_generations}; a group needs two completions or more.")
        self.correctness = correctness
        self.num_generations = num_generations
        self.group_column = group_column
        self.threshold = threshold
        self.options: dict[str, Any] = {"eps": eps, "tie_rule": tie_rule, "wide_rule": wide_rule}
        self.last: LengthRewards | None = None
        self.__name__ = "smartthinker"

    def __call__(
        self,
        prompts: Sequence[Any],
        completions: Sequence[Any],
        completion_ids: Sequence[Sequence[int]],
        log_metric: Callable[[str, float], None] | None = None,
        **columns: Any,
    ) -> list[float | None]:
        """Return the reward of each completion, n of them; `last` keeps what they are made of.

        Args:
            prompts: n prompts.
            completions: n completions.
            completion_ids: Token numbers of each, the end mark included.
            log_metric: TRL's, called with each diagnostic.
            **columns: Columns of the data set, and what else TRL passes.

        Raises:
            InputError: When a group is not whole, or a score is not 0 or 1 and there is no threshold.
        """
        groups = self._groups(prompts, columns)
        scores = self.correctness(
            prompts=prompts, completions=completions, completion_ids=completion_ids, log_metric=log_metric, **columns
        )
        values = np.array([np.nan if score is None else score for score in scores], dtype=np.float64)
        if values.shape != (len(completions),):
            raise InputError(f"The correctness function gave {len(values)} scores for {len(completions)} completions.")
        rewards, self.last = rewards_of(
            values, np.array([len(ids) for ids in completion_ids]), groups, self.threshold, self.options
        )
        if log_metric is not None and self.last is not None:
            for name, value in diagnostics(self.last).items():
                log_metric(f"smartthinker/{name}", value)
        return [None if np.isnan(value) else float(value) for value in rewards]

    def _groups(self, prompts: Sequence[Any], columns: Mapping[str, Any]) -> Any:
        if self.group_column is not None:
            if self.group_column not in columns:
                raise InputError(f"The data set has no column {self.group_column!r}; name one that it has.")
            return np.asarray(columns[self.group_column])
        size: Any = self.num_generations
        parted = len(prompts) % size or any(prompts[row] != prompts[row - row % size] for row in range(len(prompts)))
        if parted:
            raise InputError(
                f"The {len(prompts)} completions of this process are not whole groups of {size}: make its generation "
                "batch a multiple of num_generations, or use SmartThinkerTrainer."
            )
        return np.arange(len(prompts)) // size


def rewards_of(
    scores: Any, lengths: Any, groups: Any, threshold: float | None, options: Mapping[str, Any]
) -> tuple[Any, LengthRewards | None]:
    """Return rewards of scored completions, NaN where there is no score, and what they are made of.

    Args:
        scores: Of the correctness function, NaN for what it could not judge, shape (n,).
        lengths: Tokens, shape (n,).
        groups: Identity of each prompt, shape (n,).
        threshold: A score over it is right; None: scores are 0 or 1.
        options: Of :func:`smart_length_rewards`.

    Returns:
        Rewards, float64, shape (n,); None beside them where no group has two scores. A lone scored completion of a
        group has nothing to be compared with and keeps its verdict.
    """
    scored = ~np.isnan(scores)
    verdicts = scores if threshold is None else np.where(scored, scores > threshold, np.nan)
    _, rows = np.unique(groups, return_inverse=True)
    compared = scored & (np.bincount(rows, scored)[rows] > 1)
    rewards = np.array(verdicts, dtype=np.float64)
    if not compared.any():
        return rewards, None
    found = smart_length_rewards(verdicts[compared], lengths[compared], rows[compared], **options)
    rewards[compared] = found.rewards
    return rewards, found


def diagnostics(found: LengthRewards) -> dict[str, float]:
    """Return the figures that are logged: of all groups, and of those in which an answer is penalised.

    Args:
        found: Rewards of a batch.
    """
    live = found.coefficient > 0
    figures = {
        "accuracy": float(1 - found.error_rate[found.group_of].mean()),
        "penalised_groups": found.penalised,
        "target": float(found.target[live].mean()) if live.any() else float("nan"),
        "coefficient": float(found.coefficient[live].mean()) if live.any() else 0.0,
        "clipped_targets": float(found.clipped.mean()),
    }
    return figures | {f"branch_{name}": share for name, share in found.branch_shares.items()}
