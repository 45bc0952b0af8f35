"""The claims of critique-resilient benchmarking as experiments."""

from __future__ import annotations

from functools import partial

from workingpapers.evaluation.critique_benchmark.experiments import adjudicate, gain, gaming, predict, protocol, recover
from workingpapers.replication.claim import Claim, Size

CLAIM = Claim(
    name="headline",
    statement=(
        "Where strong models are sent to hard items, the itemised rating orders models more truly than raw accuracy "
        "does, by more than 0.06 in Spearman's correlation with the planted strengths."
    ),
    metric="spearman",
    direction="higher",
    arms={
        "itemised": partial(recover, kind="itemised"),
        "raw accuracy": partial(recover, kind="raw accuracy"),
        "bipartite, no items": partial(recover, kind="bipartite"),
        "Rasch, no authors": partial(recover, kind="rasch"),
        "plain Bradley-Terry": partial(recover, kind="plain"),
        "online Elo": partial(recover, kind="elo"),
    },
    method="itemised",
    against="raw accuracy",
    sizes={
        "smallest": Size(6, {"accuracy": 0.75, "items": 44}),
        "small": Size(30, {"accuracy": 0.75, "items": 44}),
        "full": Size(200, {"accuracy": 0.75, "items": 44}),
    },
    margin=0.06,
    paper_result=(
        "eight frontier models in mathematics: scores stable and correlated with external measures of capability"
    ),
    notes=(
        "Simulated: eight models, 44 items each, seven judges of accuracy 0.75. The other model-based ratings stand "
        "beside raw accuracy and are not judged: any rating that knows the opponent repairs most of the harm of "
        "selective exposure, and for the order of answerers the item level adds little to bipartite Bradley-Terry."
    ),
)

NO_SELECTION = Claim(
    name="no_selection",
    statement=(
        "Where every model meets a random half of the items, the itemised rating gains less than 0.02 over raw "
        "accuracy in Spearman's correlation with the planted strengths."
    ),
    metric="gain",
    direction="lower",
    arms={"itemised minus raw accuracy": partial(gain, selective=False)},
    method="itemised minus raw accuracy",
    against=0.02,
    sizes={
        "smallest": Size(6, {"accuracy": 0.75, "items": 44}),
        "small": Size(30, {"accuracy": 0.75, "items": 44}),
        "full": Size(200, {"accuracy": 0.75, "items": 44}),
    },
    notes="Negative control of the headline: without selective exposure there is nothing to correct.",
)

ITEM_LEVEL = Claim(
    name="item_level",
    statement="Item effects lower the log-loss on held-out games whose items were seen in other games.",
    metric="log_loss",
    direction="lower",
    arms={
        "itemised": partial(predict, kind="itemised"),
        "bipartite, no items": partial(predict, kind="bipartite"),
        "Rasch, no authors": partial(predict, kind="rasch"),
    },
    method="itemised",
    against=("bipartite, no items", "Rasch, no authors"),
    sizes={"smallest": Size(6, {"items": 44}), "small": Size(30, {"items": 44}), "full": Size(200, {"items": 44})},
    notes=(
        "Items are planted with standard deviation 1; all prior scales of all arms come from empirical Bayes. Without "
        "planted item effects the fitted item scale falls below 0.3 on average (tests)."
    ),
)

GATES = Claim(
    name="gates",
    statement=(
        "Without self-solve gate and ill-posed claims, an author of whose items 30 % are ill-posed is rated at least "
        "one logit higher than with them."
    ),
    metric="excess",
    direction="lower",
    arms={"with gates": partial(protocol, gates=True), "without gates": partial(protocol, gates=False)},
    method="with gates",
    against="without gates",
    sizes={"smallest": Size(3, {"topics": 8}), "small": Size(10, {"topics": 30}), "full": Size(40, {"topics": 44})},
    margin=1.0,
    unit="logits",
    notes=(
        "Five scripted models play the whole protocol; judges recompute the one step that a claim names, with 5 % "
        "error. Excess is against a run in which the same author writes well-posed items alone. The size of the harm "
        "depends on how easy the author's sound items are: an author that nobody can answer anyway has nothing to gain."
    ),
)

ADJUDICATION = Claim(
    name="adjudication",
    statement=(
        "Unanimity, with humans of accuracy 0.97 on a random quarter of the open claims, is wrong on a smaller share "
        "of the claims that it decides than the majority of six independent judges of accuracy 0.8."
    ),
    metric="wrong_of_decided",
    direction="lower",
    arms={
        "unanimity and humans": partial(adjudicate, rule="unanimity and humans"),
        "majority": partial(adjudicate, rule="majority"),
        "unanimity": partial(adjudicate, rule="unanimity"),
        "majority and humans": partial(adjudicate, rule="majority and humans"),
        "single judge": partial(adjudicate, rule="single judge"),
        "unanimity, shared errors": partial(adjudicate, rule="unanimity", shared_error=0.15),
        "majority, shared errors": partial(adjudicate, rule="majority", shared_error=0.15),
    },
    method="unanimity and humans",
    against="majority",
    sizes={"smallest": Size(6, {"items": 44}), "small": Size(30, {"items": 44}), "full": Size(200, {"items": 44})},
    notes=(
        "The price is in the other columns: unanimity leaves three quarters of the claims open, the games behind them "
        "are lost, and the rating of the survivors orders models less truly than that of the majority, whose errors "
        "fall on all models alike. Where 15 % of the claims look wrong to every judge at once, unanimity is wrong on "
        "two fifths of what it decides, more than twice the share of the majority: agreement is no proof there."
    ),
)

GAMING = Claim(
    name="gaming",
    statement="An author that attacks every answer gains less than half a logit of benchmarking strength by it.",
    metric="alpha",
    direction="lower",
    arms={
        "always claims": partial(gaming, strategy="always claims"),
        "honest": partial(gaming, strategy="honest"),
        "never claims": partial(gaming, strategy="never claims"),
        "always claims, no judges": partial(gaming, strategy="always claims", adjudicated=False),
    },
    method="always claims",
    against="honest",
    sizes={"smallest": Size(3, {"topics": 8}), "small": Size(10, {"topics": 30}), "full": Size(40, {"topics": 44})},
    margin=-0.5,
    unit="logits",
    notes=(
        "Non-inferiority: the honest twin has the same skills and items. Attacking everything gains what an honest "
        "author's misses of real errors lose, and no more; attacking nothing costs several logits, because wrong "
        "answers stand. Without judges the same strategy would make the author look unbeatable."
    ),
)

CLAIMS = (CLAIM, NO_SELECTION, ITEM_LEVEL, GATES, ADJUDICATION, GAMING)
