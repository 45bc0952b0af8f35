"""The advantages in the signature that verl calls its estimators with; verl itself is not needed."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from workingpapers.foundations.errors import InputError
from workingpapers.posttraining.smartthinker.rewards import EPSILON, TieRule, WideRule, smart_length_rewards


def smartthinker_advantages(
    token_level_rewards: Tensor,
    response_mask: Tensor,
    index: Any,
    config: Any = None,
    *,
    eps: float = EPSILON,
    tie_rule: TieRule = "calculus",
    wide_rule: WideRule = "min",
    threshold: float | None = None,
    **_: Any,
) -> tuple[Tensor, Tensor]:
    """Return the advantages of SmartThinker's rewards, one value for all tokens of a response.

    The sum of a response's rewards is its verdict, the sum of its mask its length. In a module that verl reads at its
    start (``VERL_USE_EXTERNAL_MODULES=my_module``), with ``algorithm.adv_estimator=smartthinker``::

        verl.trainer.ppo.core_algos.register_adv_est("smartthinker")(smartthinker_advantages)

    Args:
        token_level_rewards: Rewards at tokens, whose sum is 1 for a right response and 0 for a wrong one, shape (B, T).
        response_mask: 1 for tokens of the response, shape (B, T).
        index: Identity of each response's prompt, shape (B,).
        config: verl's; not needed.
        eps: See :func:`smart_length_rewards`.
        tie_rule: See :func:`smart_length_rewards`.
        wide_rule: See :func:`smart_length_rewards`.
        threshold: A response whose sum is over it is right; None: sums are 0 or 1.
        **_: What else verl passes.

    Returns:
        Advantages, and returns, which are the same, shape (B, T), in the dtype of the rewards.

    Raises:
        InputError: When shapes do not fit, or as :func:`smart_length_rewards`.

    References:
        arXiv:2603.08000.
    """
    if token_level_rewards.ndim != 2 or token_level_rewards.shape != response_mask.shape:
        raise InputError(
            f"Rewards have shape {tuple(token_level_rewards.shape)} and the mask {tuple(response_mask.shape)}; both "
            "must be (B, T)."
        )
    with torch.no_grad():
        score = (token_level_rewards * response_mask).sum(-1).double().cpu().numpy()
        lengths = response_mask.sum(-1).double().cpu().numpy()
        correct = score if threshold is None else score > threshold
        found = smart_length_rewards(
            correct, lengths, np.asarray(index), eps=eps, tie_rule=tie_rule, wide_rule=wide_rule
        )  # fmt: skip
        values = torch.as_tensor(found.advantages, dtype=token_level_rewards.dtype, device=token_level_rewards.device)
        advantages = values[:, None] * response_mask
    return advantages, advantages
