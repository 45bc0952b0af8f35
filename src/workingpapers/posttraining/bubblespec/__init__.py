r"""Rollouts in which idle ranks draft the next step: synchronous reinforcement learning, the same tokens, fewer passes.

In a step of GRPO ranks wait for the one with the longest answer. A waiting rank still holds the present weights, so it
may draft answers to the next step's prompts; after the update these drafts are checked, many tokens a pass. A token
stands if it is the one that the new weights draw with the rollout's own noise, so that the output is that of plain
sampling, token for token, whatever the drafts are. Noise is keyed by prompt, visit, sample and position: a draft that
was written with the same keys stands nearly always, since one update changes little.

* :func:`lossless_decode`: batched decoding of any causal language model of transformers with drafts from anywhere.
* :class:`DraftStore`, :class:`BubbleScheduler`: what is drafted when, whatever engine writes.
* :class:`BubbleTrainer` with :class:`BubbleConfig`: TRL's `GRPOTrainer` with drafts from idle windows, on one process
  (``window_passes``) or several.
* :func:`train_on_processes`: a small run on real processes (gloo), to see the same weights with and without drafts.
* :func:`simulate`, :func:`calibrate`: what a cluster would gain, simulated from one's own step times.
* ``papers run bubblespec prompts.jsonl --out out.jsonl --model Qwen/Qwen2.5-0.5B-Instruct --next CHECKPOINT`` measures
  on one's own prompts and two successive checkpoints what drafts would save.

Use it where answers differ much in length and rollouts are bound by memory, not by arithmetic. It saves nothing where
all answers are equally long, and on the first step. Equality to the last token needs numbers that do not depend on the
shape of a batch (float64, float32 in practice); in bfloat16 the law is still exact.

References:
    BubbleSpec, ICML 2026, arXiv:2605.08862.
"""

from __future__ import annotations

from workingpapers.foundations.lazy import lazy_names

__all__ = [
    "AcceptanceModel",
    "BubbleConfig",
    "BubbleScheduler",
    "BubbleTrainer",
    "ClusterSpec",
    "Decoded",
    "Draft",
    "DraftStore",
    "Key",
    "LengthModel",
    "Request",
    "Run",
    "Sampling",
    "Written",
    "calibrate",
    "coupled_acceptance",
    "lossless_decode",
    "simulate",
    "train_in_turn",
    "train_on_processes",
]
__getattr__ = lazy_names(
    __name__,
    {
        "cluster": ["AcceptanceModel", "ClusterSpec", "LengthModel", "calibrate", "simulate"],
        "decoding": ["Decoded", "Request", "Written", "lossless_decode"],
        "drafts": ["Draft", "DraftStore"],
        "loop": ["Run", "train_in_turn", "train_on_processes"],
        "noise": ["Key", "coupled_acceptance"],
        "scheduler": ["BubbleScheduler"],
        "trainer": ["BubbleConfig", "BubbleTrainer"],
        "verify": ["Sampling"],
    },
)
