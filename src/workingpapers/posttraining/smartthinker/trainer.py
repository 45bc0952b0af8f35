"""SmartThinker in TRL: `SmartThinkerConfig` and `SmartThinkerTrainer` take the places of `GRPOConfig`, `GRPOTrainer`.

TRL samples, calls the correctness function, gathers its scores over all processes and takes the step; here the lengths
are gathered too and scores become rewards, so that a group may straddle processes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor
from trl.trainer.grpo_config import GRPOConfig
from trl.trainer.grpo_trainer import GRPOTrainer

from workingpapers.posttraining.smartthinker.reward_function import diagnostics, rewards_of
from workingpapers.posttraining.smartthinker.rewards import EPSILON, LengthRewards


@dataclass
class SmartThinkerConfig(GRPOConfig):  # type: ignore[misc]
    """Configuration of :class:`SmartThinkerTrainer`: that of TRL's `GRPOConfig` with the paper's defaults.

    The paper's runs (4 GPUs, DeepScaleR): 64 prompts a step in mini-batches of 16, responses of up to 8,000 tokens, 150
    steps for 1.5B weights, 75 for 7B, 50 for Qwen3-4B.

    Args:
        threshold: A completion scored over it is right; None: scores are 0 or 1.
        truncated_is_wrong: Whether a completion that the limit cut off counts as wrong whatever its score.
        target_eps: `eps` of :func:`smart_length_rewards`.
        tie_rule: See :func:`smart_length_rewards`.
        wide_rule: See :func:`smart_length_rewards`.
    """

    num_generations: int | None = field(default=8)
    beta: float = field(default=0.0)
    temperature: float = field(default=0.6)
    learning_rate: float = field(default=1e-6)
    loss_type: str = field(default="dapo")
    threshold: float | None = field(default=None, metadata={"help": "Scores over it are right; none: 0 or 1."})
    truncated_is_wrong: bool = field(default=True, metadata={"help": "Completions that were cut off are wrong."})
    target_eps: float = field(default=EPSILON, metadata={"help": "Added to the coefficient's denominator."})
    tie_rule: str = field(default="calculus", metadata={"choices": ["calculus", "published"]})
    wide_rule: str = field(default="min", metadata={"choices": ["min", "none"]})

    def __post_init__(self) -> None:
        for name, known in (("tie_rule", ("calculus", "published")), ("wide_rule", ("min", "none"))):
            if getattr(self, name) not in known:
                raise ValueError(f"{name} is {getattr(self, name)!r}; use {' or '.join(known)}.")
        if not self.target_eps >= 0:
            raise ValueError(f"target_eps is {self.target_eps}; it must not be negative.")
        if self.multi_objective_aggregation != "sum_then_normalize":
            raise ValueError(
                f"multi_objective_aggregation={self.multi_objective_aggregation!r} centres advantages over the batch, "
                "so that right answers may be punished; use 'sum_then_normalize'."
            )
        super().__post_init__()  # type: ignore[no-untyped-call]


class SmartThinkerTrainer(GRPOTrainer):  # type: ignore[misc]
    """TRL's `GRPOTrainer` with a reward that shortens right answers; models, adapters and callbacks as in it.

    Logs ``smartthinker/accuracy``, ``/penalised_groups``, ``/target`` and ``/coefficient`` (means of the groups in
    which an answer is penalised), ``/clipped_targets`` and the shares of the branches beside TRL's metrics.

    Args:
        model: Model, or its name, or a PEFT model; see `GRPOTrainer`.
        correctness: Reward function of TRL's kind that gives 1, 0, or None for what cannot be judged.
        args: A :class:`SmartThinkerConfig`.
        train_dataset: Rows with prompt and what `correctness` asks for.
        reward_funcs: More reward functions of TRL's kind, added to the reward.
        **options: Everything else that `GRPOTrainer` takes.

    Raises:
        TypeError: When `args` is no :class:`SmartThinkerConfig` or `correctness` cannot be called.
    """

    _tag_names = ["trl", "grpo", "smartthinker"]  # noqa: RUF012 - TRL adds to a list
    _name = "SmartThinker"
    _paper = {"title": "SmartThinker", "id": "2603.08000"}  # noqa: RUF012

    def __init__(
        self, model: Any, correctness: Callable[..., Any], args: SmartThinkerConfig, train_dataset: Any, *,
        reward_funcs: Sequence[Any] = (), **options: Any,
    ) -> None:  # fmt: skip
        if not isinstance(args, SmartThinkerConfig):
            raise TypeError(f"args is a {type(args).__name__}; SmartThinkerTrainer needs a SmartThinkerConfig.")
        if not callable(correctness):
            raise TypeError(f"correctness is a {type(correctness).__name__}; give a reward function of TRL's kind.")
        self.rule: SmartThinkerConfig = args
        self.last: LengthRewards | None = None
        super().__init__(model, [correctness, *reward_funcs], args, train_dataset, **options)

    def _calculate_rewards(
        self, inputs: list[dict[str, Any]], prompts: Any, completions: list[Any], completion_ids_list: list[list[int]]
    ) -> Tensor:
        scores: Tensor = super()._calculate_rewards(inputs, prompts, completions, completion_ids_list)
        ends = {*self.eos_token_ids, self._tokenizer.pad_token_id}
        local = [[len(ids), bool(ids) and ids[-1] in ends] for ids in completion_ids_list]
        facts = self.accelerator.gather(torch.tensor(local, dtype=torch.long, device=scores.device))
        column = self.shorten(scores[:, 0].double().cpu().numpy(), facts[:, 0].cpu().numpy(), facts[:, 1].cpu().numpy())
        rewards = scores.clone()
        rewards[:, 0] = torch.as_tensor(column, dtype=scores.dtype, device=scores.device)
        return rewards

    def shorten(self, scores: np.ndarray, lengths: np.ndarray, ended: np.ndarray) -> np.ndarray:
        """Return the rewards of the completions of all processes, groups next to each other.

        Args:
            scores: Of the correctness function, NaN where it gave None, shape (n,).
            lengths: Tokens, shape (n,).
            ended: Whether a completion ended by itself, shape (n,).
        """
        policy: Any = self.model
        training = bool(policy.training)
        each: Any = self.num_generations if training else self.num_generations_eval
        if self.rule.truncated_is_wrong:
            scores = np.where(np.isnan(scores) | (ended > 0), scores, 0.0 if self.rule.threshold is None else -np.inf)
        rewards, self.last = rewards_of(
            scores, lengths, np.arange(len(scores)) // each, self.rule.threshold,
            {"eps": self.rule.target_eps, "tie_rule": self.rule.tie_rule, "wide_rule": self.rule.wide_rule},
        )  # fmt: skip
        if self.last is not None:
            metrics = self._metrics["train" if training else "eval"]
            for name, value in diagnostics(self.last).items():
                metrics[f"smartthinker/{name}"].append(value)
        found: np.ndarray = rewards
        return found
