"""The claims: the exact target on tables, the error's fall, the ratio's scope, a checker, and agreement."""

from __future__ import annotations

from functools import partial

from workingpapers.posttraining.ets import experiments as arms
from workingpapers.replication.claim import Claim, Size

TABLES = {
    "smallest": Size(2, {"runs": 3000}),
    "small": Size(6, {"runs": 20_000}),
    "full": Size(20, {"runs": 400_000}),
}
WORLD = (
    "Random tables of four tokens from three (81 answers), rewards uniform on [0, 1], lambda 0.25. The distance of "
    "empirical from true laws never falls to zero: 'exact draws' is its floor. "
)

CLAIM = Claim(
    name="headline",
    statement="With 16 candidates the law of the output is within 0.06 of the optimum of KL-regularised reinforcement "
    "learning in total variation.",
    metric="distance",
    direction="lower",
    arms={
        "ETS, 16 candidates": partial(arms.exact_target, candidates=16),
        "ETS, 4 candidates": partial(arms.exact_target, candidates=4),
        "ETS, 16 candidates, 3 completions": partial(arms.exact_target, candidates=16, rollouts=3),
        "ETS, 16 candidates, one block": partial(arms.exact_target, candidates=16, block=4),
        "ETS with a proposal, 16 candidates": partial(
            arms.exact_target, method="importance", candidates=16, rollouts=3
        ),
        "best of 16": partial(arms.exact_target, method="best of", candidates=16),
        "reference": partial(arms.exact_target, method="plain"),
        "exact draws": partial(arms.exact_target, method="exact draws"),
    },
    method="ETS, 16 candidates",
    against=0.06,
    sizes=TABLES,
    unit="total variation distance from p*",
    paper_result="ahead of best-of-N, beam search and power sampling on MATH500, GSM8K, HumanEval and GPQA (order "
    "only)",
    notes=WORLD
    + "One completion a candidate is enough, since random weights that are right on average keep the target; "
    "more only steady them.",
)

RATE = Claim(
    name="rate",
    statement="From 2 to 16 candidates the distance from p* falls faster than the square root in the paper's bound: "
    "its slope in log-log is below -0.5.",
    metric="slope",
    direction="lower",
    arms={
        "four blocks": arms.decay,
        "two blocks": partial(arms.decay, block=2),
        "one block": partial(arms.decay, block=4),
        "with a proposal": partial(arms.decay, method="importance", rollouts=3, block=2),
    },
    method="four blocks",
    against=-0.5,
    sizes=TABLES,
    unit="slope of log distance against log M",
    paper_result="O(I / sqrt(M)) up to logarithms (Proposition 3)",
    notes=WORLD
    + "The floor bends the line upwards at 16 candidates. Without it the decay is near 1/M, and the number of "
    "blocks does not show.",
)

SCOPE = Claim(
    name="scope",
    statement="With 16 candidates and a proposal, a ratio that covers the tokens after the candidate alone is nearer "
    "to p* than one that covers the whole answer.",
    metric="distance",
    direction="lower",
    arms={
        "ratio of the tokens after the candidate": partial(arms.exact_target, method="importance", rollouts=3, block=2),
        "ratio of the whole answer": partial(arms.exact_target, method="wrong ratio", rollouts=3, block=2),
        "reference": partial(arms.exact_target, method="plain"),
    },
    method="ratio of the tokens after the candidate",
    against="ratio of the whole answer",
    sizes=TABLES,
    unit="total variation distance from p*",
    paper_result="none: released code takes the whole answer",
    notes=WORLD
    + "A negative control. The candidate comes from the reference, so its tokens have no ratio to correct; a "
    "ratio that covers them changes the target, and more candidates do not mend it.",
)

CHECKER = Claim(
    name="checker",
    statement="With a checker as reward and lambda 1, success rates of a small language model on sorting are nearer to "
    "those of the optimum, prompt by prompt, than with best of 16 and without guidance.",
    metric="gap",
    direction="lower",
    arms={
        "ETS": partial(arms.verified, method="ets"),
        "ETS with a smaller proposal": partial(arms.verified, method="importance"),
        "best of 16": partial(arms.verified, method="best of"),
        "reference": partial(arms.verified, method="plain"),
    },
    method="ETS",
    against=("best of 16", "reference"),
    sizes={
        "smallest": Size(2, {"prompts": 4, "runs": 8, "pilot": 40, "train": 60}),
        "small": Size(5, {"prompts": 20, "runs": 60, "pilot": 600, "train": 900}),
        "full": Size(10, {"prompts": 40, "runs": 200, "pilot": 2000, "train": 900}),
    },
    unit="mean gap of success rates",
    paper_result="none: the optimum is not known there",
    notes="p* of a reward of 0 or 1 has success rate p e^(1/lambda) / (1 - p + p e^(1/lambda)) where the reference "
    "has p. Best-of-N succeeds more often than that: it leaves the reference farther than the penalty allows. The "
    "smallest size trains for 60 steps and takes prompts as they come.",
)

AGREEMENT = Claim(
    name="agreement",
    statement="With agreement as reward a small language model sorts as well as by majority vote at the same number of "
    "tokens, within 0.03.",
    metric="accuracy",
    direction="higher",
    arms={
        "ETS": partial(arms.agreed, method="ets"),
        "majority vote": partial(arms.agreed, method="vote"),
        "reference": partial(arms.agreed, method="plain"),
    },
    method="ETS",
    against="majority vote",
    margin=-0.03,
    sizes={
        "smallest": Size(2, {"prompts": 10, "train": 60}),
        "small": Size(6, {"prompts": 200, "train": 900}),
        "full": Size(10, {"prompts": 800, "train": 900}),
    },
    unit="share of right answers",
    paper_result="the default reward of the paper; majority voting is not among its rivals",
    notes="Lambda 0.1, 8 candidates of two tokens, 3 completions. The vote uses the same signal and as many tokens.",
)

CLAIMS = (CLAIM, RATE, SCOPE, CHECKER, AGREEMENT)
