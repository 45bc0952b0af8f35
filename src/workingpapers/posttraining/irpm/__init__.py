r"""IRPM: a generative judge that scores one response at a time, trained by GRPO from preference pairs alone.

Data sets hold pairs (chosen, rejected) and no scores. IRPM samples a group of judgements of each response of a pair
and rewards a score for standing on the right side of the *other* group, by default
:math:`R^c = \pm 1` as :math:`s > \bar S^r` or not. What comes out is a judge that writes a critique and a score for one
response: n candidates cost n calls, where a judge of pairs needs n (n - 1) / 2.

Use it to get readable scores for ranking or as a reward, for any causal language model::

    papers run irpm train pairs.jsonl --out judge --model Qwen/Qwen3-8B        # on a GPU; LoRA by default
    papers run irpm rank candidates.jsonl --judge judge --out ranked

    rows = Dataset.from_list(judge_rows(records, JudgePrompt(chat=True)))
    IRPMTrainer("Qwen/Qwen3-8B", IRPMConfig(output_dir="judge", kind="mean"), rows).train()

    judge = PointwiseJudge(model_speaker(model, tokenizer))                      # or a function that asks an endpoint
    judge.rank(request, responses).order, judge.calls                            # n scores, shape (n,), in n calls

Do not use it where only accuracy on pairs counts and nobody reads the critique: a scalar Bradley-Terry head (TRL's
`RewardTrainer`) learns the same pairs with less. Only differences between scores are trained: that scores of different
requests can be compared comes from the shared model and must be measured. Nothing rewards a right
critique: without a pull to the judge before training (`beta`) critiques got worse in our claims, scores better.

References:
    H. Song et al., IRPM: Intergroup Relative Preference Modeling for Pointwise Generative Reward Models, ICML 2026,
    arXiv:2601.00677.
"""

from __future__ import annotations

from workingpapers.foundations.lazy import lazy_names

__all__ = [
    "IRPMConfig",
    "IRPMTrainer",
    "JudgePrompt",
    "Judgement",
    "PointwiseJudge",
    "Ranking",
    "ScoreParser",
    "intergroup_rewards",
    "intragroup_advantages",
    "judge_rows",
    "load_judge",
    "model_speaker",
    "pair_outcomes",
    "read_preferences",
]
__getattr__ = lazy_names(
    __name__,
    {
        "judge": ["JudgePrompt", "PointwiseJudge", "Ranking", "model_speaker", "pair_outcomes"],
        "parsing": ["Judgement", "ScoreParser"],
        "preferences": ["judge_rows", "read_preferences"],
        "rewards": ["intergroup_rewards", "intragroup_advantages"],
        "storing": ["load_judge"],
        "trainer": ["IRPMConfig", "IRPMTrainer"],
    },
)
