"""The claims: a judge out of pairs alone, its control, rankings and their calls, wrong labels, strict comparison."""

from __future__ import annotations

from functools import partial

from workingpapers.posttraining.irpm import experiments as arms
from workingpapers.replication.claim import Claim, Size

TINY = {"base_steps": 120, "width": 32, "steps": 6, "pairs": 6, "held_out": 40, "sets": 6}
SMALL = {"base_steps": 600, "width": 48, "steps": 200, "held_out": 300, "sets": 60}
FULL = {**SMALL, "steps": 400, "held_out": 1000, "sets": 200}
SIZES = {"smallest": Size(2, TINY), "small": Size(4, SMALL), "full": Size(10, FULL)}

TASK = (
    "A request is a digit, a response four digits, and its quality the number of them that equal the request; a pair "
    "is two responses of different quality. A model of about 80 thousand weights is taught the form of a judgement, "
    "with a critique that is right four times in five and a random score; from then on it sees pairs alone, each of "
    "them once. "
)

CLAIM = Claim(
    name="headline",
    statement="Trained from pairs alone, the pointwise judge orders held-out pairs rightly more often than before "
    "training and more often than when the labels of the pairs are drawn by a coin, by more than 0.1 each.",
    metric="accuracy",
    direction="higher",
    arms={
        "IRPM, mean": partial(arms.judge_arm, kind="mean"),
        "IRPM, AUC": partial(arms.judge_arm, kind="auc"),
        "untrained judge": partial(arms.judge_arm, kind=arms.UNTRAINED),
        "labels by a coin": partial(arms.judge_arm, kind="mean", flip=0.5),
        "pairwise judge (GRPO)": arms.pairwise_arm,
        "scalar Bradley-Terry head": arms.head_arm,
    },
    method="IRPM, mean",
    against=("untrained judge", "labels by a coin"),
    margin=0.1,
    sizes=SIZES,
    unit="share of held-out pairs, ties count half",
    paper_result="best of the pointwise generative judges on RM-Bench, JudgeBench and RewardBench, close to the best "
    "pairwise ones",
    notes=TASK + "'accuracy' is of one greedy judgement a response, 'voting' of the mean of four sampled scores, "
    "'cross' of responses to different requests. The pairwise judge and the scalar head are reported, not judged: the "
    "claim is about judges that score one response at a time and write a critique, and a scalar head that reads the "
    "same pairs may well be better. 'critique' shows what the reward does not pay for: with beta 0, "
    "as here, the critique loses its rightness while the score gains it. At the smallest size nothing has "
    "been learned yet.",
)

CHANCE = Claim(
    name="chance",
    statement="A judge trained on pairs whose labels are drawn by a coin orders held-out pairs rightly in less than "
    "0.58 of the cases.",
    metric="accuracy",
    direction="lower",
    arms={"labels by a coin": partial(arms.judge_arm, kind="mean", flip=0.5)},
    method="labels by a coin",
    against=0.58,
    sizes=SIZES,
    unit="share of held-out pairs, ties count half",
    paper_result="none: a control",
    notes="The negative control: what the judge learns comes from the labels. " + TASK,
)

RANKING = Claim(
    name="ranking",
    statement="With eight calls for eight candidates the pointwise judge reaches a Kendall tau no more than 0.1 below "
    "that of a judge of pairs that is asked about all 28 pairs.",
    metric="tau",
    direction="higher",
    arms={
        "pointwise, 8 calls": partial(arms.ranking_arm, protocol="pointwise"),
        "pointwise, 4 votes, 32 calls": partial(arms.ranking_arm, protocol="votes"),
        "pointwise, untrained": partial(arms.ranking_arm, protocol=arms.UNTRAINED),
        "pairwise, knockout, 7 calls": partial(arms.ranking_arm, protocol="knockout"),
        "pairwise, sorting": partial(arms.ranking_arm, protocol="sorting"),
        "pairwise, 28 calls": partial(arms.ranking_arm, protocol="once"),
        "pairwise, 56 calls": partial(arms.ranking_arm, protocol="both"),
    },
    method="pointwise, 8 calls",
    against="pairwise, 28 calls",
    margin=-0.1,
    sizes=SIZES,
    unit="Kendall's tau-b with the true quality",
    paper_result="about a quarter of the reward compute of pairwise judges in post-training",
    notes=TASK + "The judge of pairs is trained by GRPO on the same pairs, each in both orders, with as many "
    "judgements a step; a letter cannot say 'equal', which eight candidates with five qualities often are.",
)

NOISE = Claim(
    name="noise",
    statement="With a fifth of the labels turned round, the pointwise judge still orders held-out pairs rightly more "
    "often than before training, by more than 0.1.",
    metric="accuracy",
    direction="higher",
    arms={
        "IRPM, mean": partial(arms.judge_arm, kind="mean", flip=0.2),
        "IRPM, win rate": partial(arms.judge_arm, kind="win_rate", flip=0.2),
        "untrained judge": partial(arms.judge_arm, kind=arms.UNTRAINED),
        "scalar Bradley-Terry head": partial(arms.head_arm, flip=0.2),
    },
    method="IRPM, mean",
    against="untrained judge",
    margin=0.1,
    sizes=SIZES,
    unit="share of held-out pairs, ties count half",
    paper_result="none",
    notes=TASK + "Held-out pairs have right labels.",
)

STRICT = Claim(
    name="strict",
    statement="A comparison that takes equality for wrong leaves fewer held-out pairs tied than one that takes it for "
    "right.",
    metric="ties",
    direction="lower",
    arms={
        "equality is wrong (IRPM, mean)": partial(arms.judge_arm, kind="mean"),
        "equality is right": partial(arms.judge_arm, kind="loose"),
    },
    method="equality is wrong (IRPM, mean)",
    against="equality is right",
    sizes=SIZES,
    unit="share of held-out pairs with equal greedy scores",
    paper_result="none: a detail of the released code",
    notes=TASK + "With equality taken for right, a judge that gives everything the same score earns the full reward.",
)

CLAIMS = (CLAIM, CHANCE, RANKING, NOISE, STRICT)
