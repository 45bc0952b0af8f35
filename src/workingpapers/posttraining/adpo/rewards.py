r"""Rewards of prefixes: which of them a policy stands for, and what they say about a pair.

A reward :math:`r(x, y_{\le i})` of every prefix gives the policy
:math:`\pi(v \mid y_{<i}) \propto \pi_{ref}(v \mid y_{<i}) e^{r(y_{<i} v) / \beta}`. Rewards that differ by a function
of :math:`(x, y_{<i})` give the same policy; one of them is :math:`\beta \log (\pi / \pi_{ref})`, and ADPO is the
Bradley-Terry model of that one. The model itself is not blind to such shifts, since the two responses have different
prefixes: a reward of another scale of the same class makes other preferences.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor


def normalised_rewards(rewards: Tensor, reference_logps: Tensor, beta: float) -> Tensor:
    r"""Return the member of the class of shifts for which :math:`\sum_v \pi_{ref}(v) e^{r(v) / \beta} = 1`.

    Args:
        rewards: Rewards of the prefixes that go on with each token v, shape (..., V).
        reference_logps: Log-probabilities of the reference, shape (..., V).
        beta: Strength of the pull to the reference, over 0.

    Returns:
        :math:`\beta \log(\pi / \pi_{ref})` of the policy of these rewards, shape (..., V).

    Raises:
        ValueError: When beta is not positive.
    """
    if not beta > 0:
        raise ValueError(f"beta is {beta}; it must be over 0.")
    return rewards - beta * torch.logsumexp(reference_logps + rewards / beta, -1, keepdim=True)


def prefix_preference(chosen_rewards: Tensor, rejected_rewards: Tensor) -> Tensor:
    r"""Return the log-probability that the chosen response wins at every prefix.

    .. math:: \log p(y^w \succ y^l \mid x) = \sum_i \log \sigma(r(x, y^w_{\le i}) - r(x, y^l_{\le i}))

    Args:
        chosen_rewards: Rewards of the prefixes of the chosen response, shape (..., T).
        rejected_rewards: Rewards of the prefixes of the rejected response, shape (..., T).

    Returns:
        Shape (...).
    """
    return F.logsigmoid(chosen_rewards - rejected_rewards).sum(-1)
