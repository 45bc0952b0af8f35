r"""Shorter reasoning without a weight to tune: a length reward that finds its target and its strength in each group.

From a GRPO group (several answers to one prompt, some right) SmartThinker estimates the length :math:`l^*` at which
right answers are most frequent, penalises right answers beyond it, and takes the largest weight that leaves no right
answer with a negative advantage: :math:`r_i = a_i - \Lambda a_i \max(0, l_i - l^*)`. It needs verdicts and lengths,
shape (n,), nothing else.

Use it where a model's answers can be checked and are longer than they need to be, above all where prompts differ in
difficulty: there a penalty of fixed weight makes hard prompts be guessed at. It does little where nearly all or nearly
none of a group is right; and with groups of eight the target is mostly noise (the branch counts tell).

* :func:`smart_length_rewards`: rewards and everything they are made of, from arrays.
* :class:`SmartThinkerTrainer` with :class:`SmartThinkerConfig`: TRL's `GRPOTrainer`, groups over all processes;
  :class:`SmartThinkerReward` is a reward function for a trainer of one's own.
* :func:`smartthinker_advantages`: an advantage estimator with the signature of verl.
* ``papers run smartthinker prompts.jsonl --out RUN --model Qwen/Qwen2.5-1.5B-Instruct --max-tokens 4096`` trains any
  causal language model on prompts with answers; ``--model tiny`` tries it on a processor in minutes.

References:
    C. Hu, Q. Hu, Y. Xu, J. Chen, R. Wang, S. Liu, J. Li, F. Wu, G. Chen, SmartThinker: Progressive Chain-of-Thought
    Length Calibration for Efficient Large Language Model Reasoning, ICML 2026, arXiv:2603.08000.
"""

from __future__ import annotations

from workingpapers.foundations.lazy import lazy_names

__all__ = [
    "Branch",
    "LengthRewards",
    "SmartThinkerConfig",
    "SmartThinkerReward",
    "SmartThinkerTrainer",
    "ae_score",
    "group_advantages",
    "optimal_length",
    "smart_length_rewards",
    "smartthinker_advantages",
]
__getattr__ = lazy_names(
    __name__,
    {
        "reward_function": ["SmartThinkerReward"],
        "rewards": ["Branch", "LengthRewards", "ae_score", "group_advantages", "optimal_length",
                    "smart_length_rewards"],
        "trainer": ["SmartThinkerConfig", "SmartThinkerTrainer"],
        "verl": ["smartthinker_advantages"],
    },
)  # fmt: skip
