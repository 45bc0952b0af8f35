"""IRPM in TRL: `IRPMConfig` and `IRPMTrainer` take the places of `GRPOConfig` and `GRPOTrainer`.

TRL samples the judgements, normalises rewards within each judge prompt's group and takes the step. What it lacks is a
reward that looks at two prompts at once; here scores, pair ids and roles of all processes are gathered first.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from trl.trainer.grpo_config import GRPOConfig
from trl.trainer.grpo_trainer import GRPOTrainer

from workingpapers.posttraining.irpm.parsing import TAGS, ScoreParser
from workingpapers.posttraining.irpm.rewards import KINDS, intergroup_rewards

COLUMNS = ("prompt", "pair_id", "role", "strength")
MANY = 0.5


@dataclass
class IRPMConfig(GRPOConfig):  # type: ignore[misc]
    """Configuration of :class:`IRPMTrainer`: that of TRL's `GRPOConfig` with the paper's defaults, and the comparison.

    The paper's runs (8 GPUs): 48 pairs a step, ``num_generations=4``, learning rate 5e-6 (Qwen3) or 6e-6 (Llama),
    50 steps of warm-up and a cosine, ``beta=0.001``, ``max_grad_norm=0.5``, judgements of up to 2,048 tokens.

    Args:
        kind: How scores are compared: see :func:`intergroup_rewards`.
        score_pattern: Regular expression of a judgement: see :class:`ScoreParser`.
        score_low: Least score.
        score_high: Largest score.
        margin_base: Strength at which the margin is zero.
        margin_step: Points of score a degree of strength.
        win_scale: Points of score of one nat, for kind "win_rate".
        quantile: For kind "quantile".
        alpha: For kind "interval".
        dead_zone: For kind "dead_zone".
        format_penalty: What an unparsable judgement loses on top, and an overlong one.
        overlong_tokens: Tokens from which on a judgement is overlong; None: never.
        exclude_invalid_from_threshold: See :func:`intergroup_rewards`.
        abort_unparsable: Stop where a larger share of a batch cannot be read; 1 never does.
    """

    num_generations: int | None = field(default=4)
    beta: float = field(default=0.001)
    max_grad_norm: float = field(default=0.5)
    shuffle_dataset: bool | None = field(default=False)
    kind: str = field(default="mean", metadata={"choices": list(KINDS)})
    score_pattern: str = field(default=TAGS)
    score_low: float = field(default=0.0)
    score_high: float = field(default=10.0)
    margin_base: float = field(default=2.0)
    margin_step: float = field(default=1.0)
    win_scale: float = field(default=1.0)
    quantile: float = field(default=0.5)
    alpha: float = field(default=0.05)
    dead_zone: float = field(default=0.2)
    format_penalty: float = field(default=0.5)
    overlong_tokens: int | None = field(default=None)
    exclude_invalid_from_threshold: bool = field(default=False)
    abort_unparsable: float = field(default=1.0)

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(f"kind is {self.kind!r}; use one of {', '.join(KINDS)}.")
        if self.shuffle_dataset:
            raise ValueError("shuffle_dataset=True would part the two responses of a pair; shuffle pairs beforehand.")
        ScoreParser(self.score_pattern, self.score_low, self.score_high)
        super().__post_init__()  # type: ignore[no-untyped-call]
        if (self.generation_batch_size or 0) // (self.num_generations or 1) % 2:
            raise ValueError(
                f"A generation batch of {self.generation_batch_size} judgements in groups of {self.num_generations} "
                "holds an odd number of prompts, which would part a pair; change the batch size."
            )


class IRPMTrainer(GRPOTrainer):  # type: ignore[misc]
    """TRL's `GRPOTrainer` whose reward compares the two responses of a pair; models, adapters and callbacks as in it.

    Logs ``irpm/accuracy`` (share of right pairs of group means, ties half), ``irpm/ties`` (of group means) and
    ``irpm/unparsable`` beside TRL's metrics.

    Args:
        model: Model, or its name, or a PEFT model; see `GRPOTrainer`.
        args: An :class:`IRPMConfig`.
        train_dataset: Rows of :func:`judge_rows`: prompt, pair_id, role, strength, the two rows of a pair together.
        eval_dataset: The same, or None.
        reward_funcs: More reward functions of TRL's kind, added to the comparison.
        **options: Everything else that `GRPOTrainer` takes.

    Raises:
        TypeError: When `args` is no :class:`IRPMConfig`.
        ValueError: For rows without a column or a partner.
    """

    _tag_names = ["trl", "grpo", "irpm"]  # noqa: RUF012 - TRL adds to a list
    _name = "IRPM"
    _paper = {"title": "IRPM", "id": "2601.00677"}  # noqa: RUF012

    def __init__(
        self, model: Any, args: IRPMConfig, train_dataset: Any, *, eval_dataset: Any = None,
        reward_funcs: Sequence[Any] = (), **options: Any,
    ) -> None:  # fmt: skip
        if not isinstance(args, IRPMConfig):
            raise TypeError(f"args is a {type(args).__name__}; IRPMTrainer needs an IRPMConfig.")
        for rows in (train_dataset, eval_dataset):
            if rows is not None:
                check_rows(rows)
        self.comparison: IRPMConfig = args
        self.parser = ScoreParser(args.score_pattern, args.score_low, args.score_high)
        functions: list[Any] = [intergroup, *reward_funcs]
        super().__init__(model, functions, args, train_dataset, eval_dataset=eval_dataset, **options)

    def _get_eval_sampler(self, eval_dataset: Any) -> Any:
        sampler: Any = super()._get_eval_sampler(eval_dataset)  # type: ignore[no-untyped-call]
        sampler.shuffle = False  # TRL shuffles prompts here, which would part pairs
        return sampler

    def _calculate_rewards(
        self, inputs: list[dict[str, Any]], prompts: Any, completions: list[Any], completion_ids_list: list[list[int]]
    ) -> torch.Tensor:
        texts = [one if isinstance(one, str) else one[-1]["content"] for one in completions]
        read = [self.parser.parse(text) for text in texts]
        limit = self.comparison.overlong_tokens
        local = torch.tensor(
            [
                [one.score if one.valid else 0.0, one.valid, row["pair_id"], row["role"], row["strength"],
                 limit is not None and len(ids) > limit]
                for one, row, ids in zip(read, inputs, completion_ids_list, strict=True)
            ],
            dtype=torch.float64, device=self.accelerator.device if self.accelerator.device.type != "mps" else "cpu",
        )  # fmt: skip
        table = self.accelerator.gather(local).cpu().numpy()
        rewards = self.compare(table)
        self._note(table)
        column = torch.tensor(rewards, dtype=torch.float32, device=self.accelerator.device)
        if len(self.reward_funcs) == 1:
            return column[:, None]
        others: torch.Tensor = super()._calculate_rewards(inputs, prompts, completions, completion_ids_list)
        return torch.cat([column[:, None], others[:, 1:]], dim=1)

    def compare(self, table: np.ndarray) -> np.ndarray:
        """Return the rewards of the judgements of all processes; override it for a comparison of your own.

        Args:
            table: Score, valid, pair id, role, strength and overlong of each judgement, float64, shape (n, 6).
        """
        chosen = self.comparison
        kind: Any = chosen.kind
        return intergroup_rewards(
            table[:, 0], table[:, 2].astype(int), table[:, 3].astype(int), table[:, 1] > 0, kind=kind,
            strength=table[:, 4], margin_base=chosen.margin_base, margin_step=chosen.margin_step,
            scale=chosen.win_scale, quantile=chosen.quantile, alpha=chosen.alpha, dead_zone=chosen.dead_zone,
            low=chosen.score_low, high=chosen.score_high, format_penalty=chosen.format_penalty,
            overlong=table[:, 5] > 0, exclude_invalid_from_threshold=chosen.exclude_invalid_from_threshold,
        )  # fmt: skip

    def _note(self, table: np.ndarray) -> None:
        unparsable = 1 - float(table[:, 1].mean())
        if unparsable > self.comparison.abort_unparsable:
            raise ValueError(f"{unparsable:.0%} of a batch of judgements cannot be read; see the format of the prompt.")
        if unparsable > MANY:
            warnings.warn(f"{unparsable:.0%} of a batch of judgements cannot be read.", stacklevel=2)
        means: dict[tuple[float, float], float] = {}
        for pair, role in {(row[2], row[3]) for row in table}:
            scores = table[(table[:, 2] == pair) & (table[:, 3] == role) & (table[:, 1] > 0), 0]
            if len(scores):
                means[pair, role] = float(scores.mean())
        gaps = np.array([means[pair, 0] - means[pair, 1] for pair, role in means if not role and (pair, 1) in means])
        model: Any = self.model
        metrics = self._metrics["train" if model.training else "eval"]
        metrics["irpm/unparsable"].append(unparsable)
        if len(gaps):
            metrics["irpm/accuracy"].append(float(((gaps > 0) + 0.5 * (gaps == 0)).mean()))
            metrics["irpm/ties"].append(float((gaps == 0).mean()))


def intergroup(completions: list[Any], **_: Any) -> list[None]:
    """Stand for the comparison of groups in TRL's list of reward functions; the trainer fills its column.

    Args:
        completions: Judgements, n of them.
        **_: What TRL passes beside them.
    """
    return [None] * len(completions)


def check_rows(rows: Any) -> None:
    """Refuse rows that the trainer cannot pair.

    Args:
        rows: A map-style data set with prompt, pair_id, role and strength, 2 n rows.

    Raises:
        ValueError: It names the column or the row.
    """
    missing = [name for name in COLUMNS if name not in rows.column_names]
    if missing:
        raise ValueError(f"The rows have no column {missing[0]!r}; make them with judge_rows.")
    pairs, roles = rows["pair_id"][:], rows["role"][:]
    for place in range(0, len(pairs), 2):
        if pairs[place : place + 2] != [pairs[place]] * 2 or sorted(roles[place : place + 2]) != [0, 1]:
            raise ValueError(
                f"Rows {place} and {place + 1} are not the two responses of a pair (roles 0 and 1, one pair_id); keep "
                "them together, as judge_rows does."
            )
