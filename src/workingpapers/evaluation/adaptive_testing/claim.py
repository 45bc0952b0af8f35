"""The claims of gradient path matching as experiments on generated banks."""

from __future__ import annotations

from functools import partial
from typing import Any

from workingpapers.evaluation.adaptive_testing.experiments import Setting, classic, gpm, right_slopes
from workingpapers.replication.claim import Arm, Claim, Size

SIZES = {
    "smallest": Size(3, {"items": 40, "examinees": 500, "tested": 300, "length": 9, "epochs": 4}),
    "small": Size(5, {"items": 150, "examinees": 2000, "tested": 1000, "length": 15, "epochs": 15}),
    "full": Size(10, {"items": 150, "examinees": 4000, "tested": 2000, "length": 15, "epochs": 40}),
}
CLASSIC_NAMES = {"random": "random", "MFI": "mfi", "KLI": "kli", "MEPV": "mepv", "BECAT": "becat"}
PAPER = "the accuracy of earlier selectors with 20 % fewer items on average, on five data sets and simulated ones"
METRICS = (
    "Metrics: mse is the mean squared distance between the ability after two thirds of the test and the ability that "
    "all answers give under the same model, mse_third and mse_end the same after one third and at the end, "
    "share_of_items the share of the test after which MFI's error at the end is reached, rmse_to_truth is against the "
    "true ability."
)


def _classics(setting: Setting) -> dict[str, Arm]:
    return {name: partial(classic, setting=setting, selector=key) for name, key in CLASSIC_NAMES.items()}


def _gpm(setting: Setting, **training: Any) -> Arm:
    return partial(gpm, setting=setting, training=training)


CLAIM = Claim(
    name="fewer_items",
    statement="When the response model is wrong (Rasch, while slopes differ and three items in ten are weak), GPM "
    "reaches the error that maximum information has at the end of the test with less than 80 % of the items.",
    metric="share_of_items",
    direction="lower",
    arms={"GPM": _gpm("wrong"), "MFI": partial(classic, setting="wrong", selector="mfi"), "MFI with 2PL": right_slopes},
    method="GPM",
    against=0.8,
    sizes=SIZES,
    paper_result=PAPER,
    notes=f"{METRICS} The arm 'MFI with 2PL' calibrates the slopes as well. Its mse is against the full ability of its "
    "own model, so compare rmse_to_truth: where slopes can be calibrated, that is the better cure.",
)

AGAINST_ALL = Claim(
    name="against_all_baselines",
    statement="When the response model is wrong, the error of GPM after two thirds of the test is at least 15 % "
    "below that of random, maximum-information, Kullback-Leibler, expected-variance and BECAT selection.",
    metric="mse",
    direction="lower",
    arms={"GPM": _gpm("wrong"), **_classics("wrong")},
    method="GPM",
    against=tuple(CLASSIC_NAMES),
    sizes=SIZES,
    margin=0.15,
    effect="ratio",
    paper_result=PAPER,
    notes=f"{METRICS} All arms share the model, the estimator (posterior mode) and the prior. Random beats the classic "
    "rules here: they trust a model that hides which items are weak.",
)

RIGHT_MODEL = Claim(
    name="right_model",
    statement="When the response model is right (2PL with known parameters), maximum information is at most 5 % "
    "worse than GPM at the end of the test: a learned policy does not beat it.",
    metric="mse_end",
    direction="lower",
    arms={"GPM": _gpm("right"), **_classics("right")},
    method="MFI",
    against="GPM",
    sizes=SIZES,
    margin=-0.05,
    effect="ratio",
    paper_result="none: a negative control",
    notes=f"{METRICS} The policy begins as the maximum-information rule and keeps the best epoch on validation "
    "examinees, so it should come out close to it and not better.",
)

PATH_OR_GRID = Claim(
    name="path_or_grid",
    statement="With one ability, matching gradients on the path gives a smaller error after two thirds of the test "
    "than matching them on a grid of 13 abilities, at equal epochs.",
    metric="mse",
    direction="lower",
    arms={
        "path": _gpm("wrong"),
        "grid": _gpm("wrong", target="global"),
        "path without prior": _gpm("wrong", prior=False),
    },
    method="path",
    against="grid",
    sizes=SIZES,
    effect="ratio",
    paper_result="matching on the path replaces matching over the whole ability space, which is dearer",
    notes=f"{METRICS} The advantage hangs on one term. The paper's loss has no prior, and neither has its estimator; "
    "the estimator here has one, and the arm 'path without prior' leaves it out of the matched gradients. The grid's "
    "loss includes it too.",
)

PATH_OR_ANYWHERE = Claim(
    name="path_or_anywhere",
    statement="With three abilities and as many gradient evaluations, matching gradients on the path gives a smaller "
    "error after two thirds of the test than matching them at random abilities.",
    metric="mse",
    direction="lower",
    arms={
        "path": _gpm("wrong_concepts"),
        "anywhere": _gpm("wrong_concepts", target="global"),
        "MFI": partial(classic, setting="wrong_concepts", selector="mfi"),
        "random": partial(classic, setting="wrong_concepts", selector="random"),
    },
    method="path",
    against="anywhere",
    sizes=SIZES,
    effect="ratio",
    paper_result="matching over the whole ability space is hard to scale to abilities of many dimensions",
    notes=f"{METRICS} Each item measures one of three independent abilities; a Rasch model is calibrated for each. One "
    "standard normal ability an examinee and step stands for the whole space: a grid of 13 points a dimension would "
    "need 2,197.",
)

CLAIMS = (CLAIM, AGAINST_ALL, RIGHT_MODEL, PATH_OR_GRID, PATH_OR_ANYWHERE)
