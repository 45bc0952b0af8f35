r"""Direct preference optimisation that compares responses piece by piece: a loss, and a trainer for TRL.

DPO judges a response as a whole: one margin, one sigmoid. ADPO assumes preferences between prefixes and so cuts both
responses into units (a window of tokens, or m even parts) and sums a log-sigmoid over them: with log-ratios
:math:`S(i)` of unit i, :math:`L = -\sum_i \log \sigma(\beta S^w(i) - \beta S^l(i))`. A unit that is already right stops
pushing while one that is wrong goes on. One unit is DPO, to the last bit.

Use it in place of TRL's `DPOTrainer` (`ADPOTrainer` with `ADPOConfig`: same data, same passes, same cost), where the
chosen and the rejected response go through the same steps in the same order, as two attempts at one problem do. Units
are paired by place: where the responses are shifted against each other (a step left out, another length), take few
units or DPO; token by token is then worse than DPO. The loss grows with the number of units, so choose the learning
rate anew. Log-probabilities come in as (B, T) tensors with masks: see :func:`adpo_loss`.

References:
    M. Oi, M. Ukai, M. Kaneko, N. Okazaki, N. Inoue, Autoregressive Direct Preference Optimization, ICML 2026,
    arXiv:2602.09533.
"""

from __future__ import annotations

from workingpapers.foundations.lazy import lazy_names

__all__ = [
    "ADPOConfig",
    "ADPOLoss",
    "ADPOTrainer",
    "Adaptive",
    "Static",
    "adpo_loss",
    "aligned_share",
    "compose",
    "composition_of",
    "contrastive_scores",
    "feedback_length",
    "normalised_rewards",
    "prefix_preference",
    "read_preferences",
    "unit_index",
]
__getattr__ = lazy_names(
    __name__,
    {
        "loss": ["ADPOLoss", "adpo_loss", "contrastive_scores"],
        "preferences": ["aligned_share", "read_preferences"],
        "rewards": ["normalised_rewards", "prefix_preference"],
        "trainer": ["ADPOConfig", "ADPOTrainer"],
        "units": ["Adaptive", "Static", "compose", "composition_of", "feedback_length", "unit_index"],
    },
)
