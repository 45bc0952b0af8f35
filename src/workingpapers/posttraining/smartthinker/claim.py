"""The claims: mixed difficulty, tuned weights, equal difficulty, the estimate of the target, signs of advantages."""

from __future__ import annotations

from functools import partial

from workingpapers.posttraining.smartthinker import experiments as arms
from workingpapers.replication.claim import Claim, Size

TINY = {"width": 32, "base_steps": 60, "prompts": 4, "updates": 4, "every": 2, "held_out": 60}
SMALL = {"width": 64, "base_steps": 1600, "prompts": 12, "updates": 60, "every": 20, "held_out": 400}
FULL = {**SMALL, "prompts": 24, "updates": 160, "every": 40, "held_out": 1000}
TOGETHER = 1 / 26  # a penalty over the whole limit of answers is worth a right one

PAPER = (
    "average accuracy and tokens on MATH500, AIME25 and AMC23, R1-Distill-Qwen-1.5B: 60.7 and 9,980 before, 61.9 and "
    "5,166 with SmartThinker (AE 0.54), 52.3 and 2,327 with ShorterBetter (0.07), 60.95 and 4,802 with ThinkPrune-4k "
    "(0.53); 57.5 and 3,644 with a fixed weight"
)
TASK = (
    "A small Llama follows pointers. It was taught by somebody who answers a quarter of all prompts without a chain of "
    "states, which beyond one hop is guessing, and checks other chains up to two times, which only adds errors. GRPO "
    "with 8 answers a prompt, on policy. "
)

REWARDS = {
    "SmartThinker": partial(arms.training, reward=arms.smartthinker),
    "accuracy only": partial(arms.training, reward=arms.accuracy_only),
    "linear, 1/26": partial(arms.training, reward=partial(arms.linear, weight=TOGETHER)),
    "same target, weight 0.05": partial(arms.training, reward=partial(arms.fixed_weight, weight=0.05)),
    "ShorterBetter, 0.05": partial(arms.training, reward=partial(arms.shortest_correct, weight=0.05)),
}

CLAIM = Claim(
    name="headline",
    statement="Where prompts differ in difficulty, SmartThinker's reward has a higher score of accuracy and efficiency "
    "over training than accuracy alone and than three length rewards of fixed weight.",
    metric="score",
    direction="higher",
    arms=REWARDS,
    method="SmartThinker",
    against=("accuracy only", "linear, 1/26", "same target, weight 0.05", "ShorterBetter, 0.05"),
    sizes={"smallest": Size(2, TINY), "small": Size(6, SMALL), "full": Size(10, FULL)},
    unit="AE score",
    paper_result=PAPER,
    notes=TASK + "Prompts have 1, 2 or 5 hops. 'score' is the AE score against the model before GRPO, averaged over "
    "the measurements; accuracy and length are averages too, their values after n updates are accuracy_at_n and "
    "length_at_n; hard_accuracy (most hops) and direct (share of answers without a chain) are those at the end. The "
    "weights of the baselines are one guess; see the claim 'tuned'. In a group that is all right, normalised rewards "
    "of a fixed weight, however small, rank answers by length alone; SmartThinker leaves such groups alone. At the "
    "smallest size the model can hardly do the task and rewards make no difference.",
)

WEIGHTS = (0.00025, 0.0025, 0.01, 0.04)
TUNED = Claim(
    name="tuned",
    statement="SmartThinker's reward, which has no weight to choose, is at most 0.05 AE points behind a linear length "
    "penalty whose weight was chosen by training with each of four.",
    metric="score",
    direction="higher",
    arms={
        "SmartThinker": partial(arms.training, reward=arms.smartthinker),
        "linear, tuned": partial(arms.tuned, reward=arms.linear, weights=WEIGHTS),
    },
    method="SmartThinker",
    against="linear, tuned",
    margin=-0.05,
    sizes={"smallest": Size(2, TINY), "small": Size(3, SMALL), "full": Size(8, FULL)},
    unit="AE score",
    paper_result="none: the paper compares with one fixed weight",
    notes=TASK
    + "The weight is chosen by the AE score on prompts of its own; 'weight' is what was chosen. Mind the smallest "
    "one: where all of a group is right, its size cancels in the advantages.",
)

EQUAL = Claim(
    name="equal_difficulty",
    statement="Where all prompts take the same number of hops, a length reward of fixed weight does not lose accuracy: "
    "ShorterBetter stays within 0.05 of accuracy alone.",
    metric="final_accuracy",
    direction="higher",
    arms={
        "ShorterBetter, 0.05": partial(arms.training, reward=partial(arms.shortest_correct, weight=0.05)),
        "accuracy only": partial(arms.training, reward=arms.accuracy_only),
        "SmartThinker": partial(arms.training, reward=arms.smartthinker),
    },
    method="ShorterBetter, 0.05",
    against="accuracy only",
    margin=-0.05,
    sizes={
        "smallest": Size(2, {**TINY, "hops": (4,)}),
        "small": Size(3, {**SMALL, "hops": (4,)}),
        "full": Size(8, {**FULL, "hops": (4,)}),
    },
    unit="accuracy after training",
    paper_result="none: the paper's prompts differ in difficulty",
    notes="The control of the headline: where one length suits all prompts, a fixed weight does no harm. " + TASK
    + "Here all prompts have 4 hops.",
)  # fmt: skip

SIZES = (8, 16, 64, 256)
ESTIMATE = Claim(
    name="estimate",
    statement="With 64 answers a prompt the target misses the length of the highest accuracy by less than a third of "
    "the error of the shortest right answer.",
    metric="error_64",
    direction="lower",
    effect="ratio",
    arms={
        "SmartThinker": partial(arms.target_error, kind="peak"),
        "shortest right answer": partial(arms.target_error, kind="shortest"),
    },
    method="SmartThinker",
    against="shortest right answer",
    margin=2 / 3,
    sizes={
        "smallest": Size(3, {"groups": 500, "sizes": SIZES}),
        "small": Size(5, {"groups": 2000, "sizes": SIZES}),
        "full": Size(10, {"groups": 10_000, "sizes": SIZES}),
    },
    unit="tokens",
    paper_result="none: the paper uses groups of 8 throughout",
    notes="Lengths are normal, 400 tokens with standard deviation 120, and accuracy peaks at 300. error_n, median_n, "
    "quartile_range_n are those with n answers a prompt, wider_correct_n is the share of groups in which right answers "
    "vary more than all do. Read error_8 too: with 8 answers, the paper's number, the target is mostly noise and no "
    "nearer than the shortest right answer. Groups without a right answer are left out.",
)

SIGNS = Claim(
    name="signs",
    statement="Fewer than one right answer in a thousand gets a negative advantage.",
    metric="punished",
    direction="lower",
    effect="proportion",
    counts="right_answers",
    arms={
        "SmartThinker": partial(arms.signs, reward=arms.smartthinker),
        "linear, 0.5 at 400 tokens": partial(arms.signs, reward=partial(arms.linear, weight=0.5 / 400)),
        "same target, same weight": partial(arms.signs, reward=partial(arms.fixed_weight, weight=0.5 / 400)),
        "ShorterBetter, same weight": partial(arms.signs, reward=partial(arms.shortest_correct, weight=0.5 / 400)),
    },
    method="SmartThinker",
    against=0.001,
    sizes={
        "smallest": Size(2, {"groups": 1000}),
        "small": Size(5, {"groups": 4000}),
        "full": Size(5, {"groups": 40_000}),
    },
    unit="share of right answers",
    paper_result="the weight is derived so that none has",
    notes="Random groups of 2 to 16 answers. wrong_rewarded is the share of wrong answers with a positive advantage.",
)

CLAIMS = (CLAIM, TUNED, EQUAL, ESTIMATE, SIGNS)
