"""The claims: tastes under a budget, what the reduction is worth, labels of public responses, and attacks."""

from __future__ import annotations

import math
from functools import partial

from workingpapers.preferences.dpprefsyn import experiments as arms
from workingpapers.preferences.dpprefsyn.budget import Settings
from workingpapers.replication.claim import Claim, Size

SINGLE = Settings(clusters=1)
FULL = Settings(clusters=1, projection="none")
CENTRES = Settings(rewards="centres")
AUTHORS = Settings(split=(0.125, 0.125, 0.75))

CLAIM = Claim(
    name="headline",
    statement="At epsilon 2, where two groups want opposite things and each takes the reward that suits it best, the "
    "mixture of rewards is better by 0.15 in accuracy than DP-SGD of one reward on the full embeddings (the stand-in "
    "for private fine-tuning) and than one private reward after the reduction.",
    metric="accuracy",
    direction="higher",
    arms={
        "mixture": arms.recovery,
        "one reward, full embeddings": partial(arms.recovery, settings=FULL),
        "one reward": partial(arms.recovery, settings=SINGLE),
        "mixture, full embeddings": partial(arms.recovery, settings=Settings(projection="none")),
        "mixture, random projection": partial(arms.recovery, settings=Settings(projection="random")),
        "centres as rewards": partial(arms.recovery, settings=CENTRES),
        "random rewards": partial(arms.recovery, shuffled=True),
        "labels private, prompts not": partial(arms.recovery, label_only=True),
    },
    method="mixture",
    against=("one reward, full embeddings", "one reward"),
    margin=0.15,
    sizes={
        "smallest": Size(3, {"records": 5000, "dimension": 64, "epsilon": 2.0, "delta": 1e-6}),
        "small": Size(10, {"records": 20_000, "dimension": 256, "epsilon": 2.0, "delta": 1e-6}),
        "full": Size(20, {"records": 100_000, "dimension": 1024, "epsilon": 2.0, "delta": 1e-6}),
    },
    unit="accuracy of the reward that suits each group best, weighted by group",
    paper_result="win rate 11.04 % against 6.18 % for DP-SGD fine-tuning (OpenAssistant, epsilon 2, Pythia-2.8B)",
    notes="Generated embeddings with four planted groups, each of which takes the reward that suits it best. That "
    "choice is worth much by itself: as many random rewards in the reduced space ('random rewards') stand far "
    "above one learned reward, which must fail one of two opposite groups. What is learned is what the mixture "
    "has over them: see the claim 'learned'. 'worst' is the accuracy of the group served worst. 'centres as rewards' "
    "spends the whole budget on the first two stages, trains nothing, and is as good: within a cluster every "
    "difference points the same way, so that logistic regression finds little but the mean. 'labels private' protects "
    "far less: the prompts and texts stay open.",
)

LEARNED = Claim(
    name="learned",
    statement="At epsilon 2 the mixture's rewards are better by 0.05 in accuracy than as many random rewards of the "
    "same lengths in the same reduced space, from which each group also takes the best.",
    metric="accuracy",
    direction="higher",
    arms={"mixture": arms.recovery, "random rewards": partial(arms.recovery, shuffled=True)},
    method="mixture",
    against=("random rewards",),
    margin=0.05,
    sizes=CLAIM.sizes,
    unit="accuracy of the reward that suits each group best, weighted by group",
    paper_result="none: a control of ours",
    notes="A negative control of the headline, whose measure pays for having several rewards. It was put forward after "
    "its two arms had been seen in the headline, on the same seeds; the margin is a third of the headline's.",
)

BUDGETS = (0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0)

BUDGET = Claim(
    name="budget",
    statement="At epsilon 1 the mixture loses less than 0.02 in accuracy to the same method without noise.",
    metric="accuracy",
    direction="higher",
    arms={
        **{f"epsilon {epsilon:g}": partial(arms.recovery, epsilon=epsilon) for epsilon in BUDGETS},
        "no noise": partial(arms.recovery, epsilon=math.inf),
        "centres, epsilon 0.1": partial(arms.recovery, epsilon=0.1, settings=CENTRES),
        "centres, epsilon 1": partial(arms.recovery, epsilon=1.0, settings=CENTRES),
        "authors' split, epsilon 0.1": partial(arms.recovery, epsilon=0.1, settings=AUTHORS),
        "authors' split, epsilon 1": partial(arms.recovery, epsilon=1.0, settings=AUTHORS),
        "one reward, epsilon 8": partial(arms.recovery, epsilon=8.0, settings=FULL),
    },
    method="epsilon 1",
    against=("no noise",),
    margin=-0.02,
    sizes={
        "smallest": Size(3, {"records": 5000, "dimension": 64, "delta": 1e-6}),
        "small": Size(10, {"records": 20_000, "dimension": 256, "delta": 1e-6}),
        "full": Size(20, {"records": 100_000, "dimension": 1024, "delta": 1e-6}),
    },
    unit="accuracy of the reward that suits each group best, weighted by group",
    paper_result="win rates 55.08, 55.96, 56.48, 56.51, 56.86 at epsilon 0.5, 1, 2, 4, 8 and 57.53 without noise "
    "(Anthropic-HH)",
    notes="The whole curve stands in the arms. Equal shares of the budget for the three stages were chosen on other "
    "seeds of the same generator; the authors give three quarters to DP-SGD.",
)

DIMENSION = Claim(
    name="dimension",
    statement="At epsilon 0.22 with 1,024 dimensions the private reduction gains at least 0.015 in accuracy over no "
    "reduction and over a random projection to as many dimensions.",
    metric="accuracy",
    direction="higher",
    arms={
        "private directions": arms.recovery,
        "full embeddings": partial(arms.recovery, settings=Settings(projection="none")),
        "random projection": partial(arms.recovery, settings=Settings(projection="random")),
        "private directions, centres": partial(arms.recovery, settings=CENTRES),
    },
    method="private directions",
    against=("full embeddings", "random projection"),
    margin=0.015,
    sizes={
        "smallest": Size(3, {"records": 4000, "dimension": 256, "epsilon": 0.22, "delta": 1 / 4000}),
        "small": Size(10, {"records": 8000, "dimension": 1024, "epsilon": 0.22, "delta": 1 / 8000}),
        "full": Size(20, {"records": 8000, "dimension": 4096, "epsilon": 0.22, "delta": 1 / 8000}),
    },
    unit="accuracy of the reward that suits each group best, weighted by group",
    paper_result="win rate 11.04 % with, 6.32 % without the reduction (OpenAssistant, epsilon 2)",
    notes="The baselines spend the reduction's share of the budget on the other two stages. The margin was fixed in "
    "advance; at epsilon 2 the gap to the full embeddings is smaller still, see the headline.",
)

LABELS = Claim(
    name="labels",
    statement="At epsilon 2 at least 85 % of the synthetic pairs agree with the planted taste that their reward is "
    "nearest to.",
    metric="agreement",
    direction="higher",
    arms={
        "mixture": arms.labelling,
        "no noise": partial(arms.labelling, epsilon=math.inf),
        "random rewards": partial(arms.labelling, shuffled=True),
        "one reward": partial(arms.labelling, settings=SINGLE),
        "one reward, full embeddings": partial(arms.labelling, settings=FULL),
    },
    method="mixture",
    against=0.85,
    sizes={
        "smallest": Size(3, {"records": 5000, "dimension": 64, "prompts": 500, "epsilon": 2.0, "delta": 1e-6}),
        "small": Size(10, {"records": 20_000, "dimension": 256, "prompts": 4000, "epsilon": 2.0, "delta": 1e-6}),
        "full": Size(20, {"records": 100_000, "dimension": 1024, "prompts": 4000, "epsilon": 2.0, "delta": 1e-6}),
    },
    unit="share of pairs",
    notes="Pairs with a margin of 0.5 or more, as in the paper; 'kept' is their share. Random rewards are not at one "
    "half, since each is held against the taste it happens to be nearest to. 'one_policy' is the accuracy, "
    "over all groups, of one reward trained on the synthetic pairs: where groups want opposite things the "
    "mixture's pairs cancel out, and a single policy is served better by one private reward.",
)

ATTACK: dict[str, float] = {"records": 200, "dimension": 6, "epsilon": 1.0, "delta": 1e-5}

AUDIT = Claim(
    name="audit",
    statement="The best of two attacks on the release at epsilon 1, on the model and on labels made with it, proves no "
    "larger epsilon.",
    metric="excess",
    direction="lower",
    arms={
        "noise as stated": arms.attack,
        "a twentieth of the noise": partial(arms.attack, noise_factor=0.05),
        "no noise": partial(arms.attack, noise_factor=0.0),
    },
    method="noise as stated",
    against=0.0,
    sizes={
        "smallest": Size(3, {"runs": 150, **ATTACK}),
        "small": Size(6, {"runs": 1000, **ATTACK}),
        "full": Size(20, {"runs": 20_000, **ATTACK}),
    },
    unit="measured lower bound on epsilon minus the stated epsilon",
    notes="A membership inference: fits with and without one odd record among 200 alike. 'measured' is a 95 % lower "
    "bound, so it stays below the truth unless luck has it; that it can exceed the statement is the claim "
    "'control'.",
)

CONTROL = Claim(
    name="control",
    statement="The same attacks prove a larger epsilon than the stated one where a twentieth of the noise is used.",
    metric="excess",
    direction="higher",
    arms={
        "a twentieth of the noise": partial(arms.attack, noise_factor=0.05),
        "noise as stated": arms.attack,
    },
    method="a twentieth of the noise",
    against=0.0,
    sizes={
        "smallest": Size(3, {"runs": 150, **ATTACK}),
        "small": Size(6, {"runs": 1000, **ATTACK}),
        "full": Size(20, {"runs": 20_000, **ATTACK}),
    },
    unit="measured lower bound on epsilon minus the stated epsilon",
    notes="A negative control of the audit: an attack that never exceeds the statement would prove nothing.",
)

CLAIMS = (CLAIM, LEARNED, BUDGET, DIMENSION, LABELS, AUDIT, CONTROL)
