r"""The loss of ADPO: a Bradley-Terry model of each unit of feedback in place of one of the whole response.

With :math:`u_i = \log \pi_\theta(y_i \mid x, y_{<i}) - \log \pi_{ref}(y_i \mid x, y_{<i})` and :math:`S(i)` its sum
over unit i of a response,

.. math:: a_i = \beta S^w(i) - \beta S^l(i), \qquad L = -\sum_{i=1}^{T'} \log \sigma(a_i),

where DPO has :math:`-\log \sigma(\sum_i a_i)`. One unit is DPO; for more units :math:`L \ge L_{DPO}`, and joining
neighbouring units never raises it. At :math:`\pi_\theta = \pi_{ref}` the loss is :math:`T' \log 2` and its gradient is
that of DPO, whatever the units. Later :math:`\partial L / \partial a_i = -\sigma(-a_i)`: each unit saturates by itself.

References:
    M. Oi, M. Ukai, M. Kaneko, N. Okazaki, N. Inoue, Autoregressive Direct Preference Optimization, ICML 2026,
    arXiv:2602.09533.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from workingpapers.posttraining.adpo.units import Composition, feedback_length, unit_index

Normalize = Literal["none", "units"]
Reduction = Literal["mean", "sum", "none"]


@dataclass(frozen=True)
class ADPOLoss:
    r"""The loss of a batch of B pairs with at most S units, and what it is made of.

    Args:
        loss: Reduced over the pairs: a scalar, or shape (B,) for reduction "none".
        per_pair: Loss of each pair, shape (B,).
        margins: :math:`a_i`, shape (B, S); 0 where there is no unit.
        unit_mask: Whether there is a unit, bool, shape (B, S).
        units: :math:`\mu'`, int64, shape (B,).
        chosen_rewards: Implicit rewards :math:`\beta \sum_i u_i`, without gradient, shape (B,).
        rejected_rewards: The same of the rejected responses, token weights included, shape (B,).
    """

    loss: Tensor
    per_pair: Tensor
    margins: Tensor
    unit_mask: Tensor
    units: Tensor
    chosen_rewards: Tensor
    rejected_rewards: Tensor


def adpo_loss(
    policy_chosen_logps: Tensor,
    policy_rejected_logps: Tensor,
    reference_chosen_logps: Tensor,
    reference_rejected_logps: Tensor,
    chosen_mask: Tensor,
    rejected_mask: Tensor,
    *,
    beta: float,
    composition: Composition,
    rejected_weights: Tensor | None = None,
    normalize: Normalize = "none",
    reduction: Reduction = "mean",
) -> ADPOLoss:
    r"""Return the loss of ADPO from log-probabilities of tokens.

    .. math:: L = -\sum_i \log \sigma\Bigl(\beta \sum_{t \in i} u^w_t - \beta \sum_{t \in i} (1 - s_t) u^l_t\Bigr)

    Args:
        policy_chosen_logps: Log-probabilities under the policy, shape (B, T_w); give log-ratios here and zeros for
            the reference where only those are at hand.
        policy_rejected_logps: The same of the rejected responses, shape (B, T_l).
        reference_chosen_logps: Under the reference, shape (B, T_w).
        reference_rejected_logps: Under the reference, shape (B, T_l).
        chosen_mask: 1 at the tokens of the completion with its end mark, 0 at prompt and padding, shape (B, T_w).
        rejected_mask: The same, shape (B, T_l). What stands where a mask is 0 is not read.
        beta: Strength of the pull to the reference, over 0.
        composition: Units of feedback, :class:`Static` or :class:`Adaptive`.
        rejected_weights: :math:`1 - s_t` for each rejected token, shape (B, T_l), as in contrastive DPO; ones by
            default.
        normalize: "units" divides the loss of a pair by its number of units, so that its scale does not grow with it.
        reduction: Over the pairs.

    Returns:
        Loss, margins and implicit rewards.

    Raises:
        ValueError: When beta is not positive, shapes do not match or a completion is empty.
    """
    _check(beta, policy_chosen_logps, reference_chosen_logps, chosen_mask, "chosen")
    _check(beta, policy_rejected_logps, reference_rejected_logps, rejected_mask, "rejected")
    if len(chosen_mask) != len(rejected_mask):
        raise ValueError(f"There are {len(chosen_mask)} chosen and {len(rejected_mask)} rejected completions.")
    if rejected_weights is not None and rejected_weights.shape != rejected_mask.shape:
        raise ValueError(
            f"rejected_weights has shape {tuple(rejected_weights.shape)}, its mask {tuple(rejected_mask.shape)}."
        )
    chosen_lengths, rejected_lengths = chosen_mask.long().sum(1), rejected_mask.long().sum(1)
    chosen_index = unit_index(composition, chosen_mask, rejected_lengths)
    rejected_index = unit_index(composition, rejected_mask, chosen_lengths)
    count = 1 + int(torch.maximum(chosen_index.max(), rejected_index.max()))
    chosen = _unit_sums(policy_chosen_logps, chosen_mask, chosen_index, count) - _unit_sums(
        reference_chosen_logps, chosen_mask, chosen_index, count
    )
    rejected = _unit_sums(policy_rejected_logps, rejected_mask, rejected_index, count, rejected_weights) - _unit_sums(
        reference_rejected_logps, rejected_mask, rejected_index, count, rejected_weights
    )
    present = _present(chosen_mask, chosen_index, count) | _present(rejected_mask, rejected_index, count)
    margins = beta * (chosen - rejected)
    per_pair = (-F.logsigmoid(margins)).masked_fill(~present, 0.0).sum(1)
    units = feedback_length(composition, chosen_lengths, rejected_lengths)
    if normalize == "units":
        per_pair = per_pair / units
    loss = per_pair.mean() if reduction == "mean" else per_pair.sum() if reduction == "sum" else per_pair
    return ADPOLoss(
        loss=loss,
        per_pair=per_pair,
        margins=margins,
        unit_mask=present,
        units=units,
        chosen_rewards=beta * chosen.detach().sum(1),
        rejected_rewards=beta * rejected.detach().sum(1),
    )


def contrastive_scores(positive_logits: Tensor, negative_logits: Tensor, tokens: Tensor) -> Tensor:
    r"""Return how far each token is one of right answers rather than of wrong ones, for contrastive DPO.

    .. math:: s_t = \mathrm{softmax}(2 z^{+} - z^{-})_{y_t}

    Args:
        positive_logits: Of a model tuned on right answers, shape (..., V).
        negative_logits: Of a model tuned on wrong answers, shape (..., V).
        tokens: Token numbers, int64, shape (...).

    Returns:
        Probabilities, float32, shape (...); ``1 - s`` is what :func:`adpo_loss` takes as `rejected_weights`.
    """
    contrast = 2 * positive_logits.float() - negative_logits.float()
    picked = contrast.gather(-1, tokens[..., None])[..., 0]
    return torch.exp(picked - torch.logsumexp(contrast, -1))


def _check(beta: float, policy: Tensor, reference: Tensor, mask: Tensor, side: str) -> None:
    if not beta > 0:
        raise ValueError(f"beta is {beta}; it must be over 0.")
    if policy.ndim != 2 or not policy.shape == reference.shape == mask.shape:
        raise ValueError(
            f"The {side} log-probabilities have shapes {tuple(policy.shape)} (policy), {tuple(reference.shape)} "
            f"(reference) and {tuple(mask.shape)} (mask); all must be (batch, tokens)."
        )
    empty = (mask.long().sum(1) == 0).nonzero()
    if len(empty):
        raise ValueError(f"The {side} completion {int(empty[0]) + 1} of the batch is empty; leave the pair out.")


def _unit_sums(values: Tensor, mask: Tensor, index: Tensor, count: int, weights: Tensor | None = None) -> Tensor:
    kept = values.masked_fill(mask == 0, 0.0)
    kept = kept if weights is None else kept * weights.masked_fill(mask == 0, 0.0)
    if count == 1:
        # Summed as TRL sums a response, so that one unit is its DPO to the last bit.
        return kept.sum(1, keepdim=True)
    return kept.new_zeros(len(kept), count).scatter_add(1, index, kept)


def _present(mask: Tensor, index: Tensor, count: int) -> Tensor:
    tokens = mask.long().new_zeros(len(mask), count).scatter_add(1, index, mask.long())
    return tokens > 0
