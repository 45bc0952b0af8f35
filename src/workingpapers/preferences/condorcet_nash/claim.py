"""The claims: cycles and winners under Luce's model, what the Nash policy is worth, and what finite data can say."""

from __future__ import annotations

from functools import partial

from workingpapers.preferences.condorcet_nash import experiments as arms
from workingpapers.replication.claim import Claim, Size

LEARNERS = {
    "Nash": arms.nash,
    "largest reward": arms.reward_best,
    "reward with KL": arms.reward_softmax,
    "Copeland": arms.copeland,
    "uniform": arms.uniform,
}

CLAIM = Claim(
    name="headline",
    statement="With three labelers of impartial rankings the probability that the majority has no cycle, so that a "
    "reward can represent it, falls at least exponentially: from 5 to 10 responses its logarithm more than doubles.",
    metric="growth",
    direction="higher",
    arms={
        "3 labelers": partial(arms.decay, labelers=3, spread=0.0),
        "5 labelers": partial(arms.decay, labelers=5, spread=0.0),
        "101 labelers": partial(arms.decay, labelers=101, spread=0.0),
        "3 labelers, unequal weights": partial(arms.decay, labelers=3, spread=2.0),
        "101 labelers, unequal weights": partial(arms.decay, labelers=101, spread=2.0),
    },
    method="3 labelers",
    against=2.0,
    sizes={
        "smallest": Size(4, {"sizes": (5, 10, 20), "profiles": 1000}),
        "small": Size(10, {"sizes": (5, 10, 20), "profiles": 4000}),
        "full": Size(20, {"sizes": (5, 10, 20), "profiles": 20_000}),
    },
    unit="ratio of logarithms",
    paper_result="P(cycle) tends to one exponentially fast in the number of responses (theorem)",
    notes="acyclic_n is the probability itself. Unequal weights are log-normal with standard deviation 2: the law "
    "holds for them too, but not its practical reading. Many labelers who share one Luce model with unequal weights "
    "agree with that model's order, and most profiles of 101 such labelers have no cycle even at 20 responses.",
)

WINNER = Claim(
    name="winner",
    statement="Under impartial rankings the probability that some response beats all others falls like "
    "n^(-(m-1)/(m+1)) in the number of responses n: for m = 3 and m = 5 labelers the fitted exponents are within 0.06 "
    "of -1/2 and -2/3.",
    metric="error",
    direction="lower",
    arms={
        "equal weights": partial(arms.winner_slope, spread=0.0),
        "unequal weights": partial(arms.winner_slope, spread=2.0),
    },
    method="equal weights",
    against=0.06,
    sizes={
        "smallest": Size(4, {"responses": (50, 200, 800), "profiles": (2000, 2000, 2000)}),
        "small": Size(8, {"responses": (50, 200, 800, 3200), "profiles": (4000, 4000, 8000, 8000)}),
        "full": Size(20, {"responses": (50, 200, 800, 3200), "profiles": (20_000, 20_000, 40_000, 40_000)}),
    },
    unit="absolute error of the exponent, the larger of the two",
    paper_result="P(no response beats all others) tends to one (theorem), so that the Nash policy is mixed",
    notes="The exponent for fixed m is due to May and Sauermann and is reached slowly: for m = 3 the exact exponent is "
    "-0.45 between n = 50 and 80 and -0.48 between 320 and 800, so the smallest size says little. winner_m is the "
    "probability at the largest n. With log-normal weights of standard deviation 2 a few responses stand out, and a "
    "winner remains likely at every n tried: the tendency to one is a statement about responses of comparable quality.",
)

POLICY = Claim(
    name="policy",
    statement="Learned from 20 comparisons a pair of an impartial panel, the Nash policy has a higher worst-case win "
    "rate in the panel's exact preferences than the response of largest reward, the reward policy with tuned KL "
    "regularisation and the Copeland winner.",
    metric="worst",
    direction="higher",
    arms={name: partial(arms.policy_worst_case, learner=learner) for name, learner in LEARNERS.items()},
    method="Nash",
    against=("largest reward", "reward with KL", "Copeland"),
    sizes={
        "smallest": Size(4, {"games": 20, "responses": 20, "labelers": 5, "comparisons": 20}),
        "small": Size(10, {"games": 60, "responses": 20, "labelers": 5, "comparisons": 20}),
        "full": Size(20, {"games": 300, "responses": 20, "labelers": 5, "comparisons": 20}),
    },
    unit="worst-case win rate",
    paper_result="the Nash policy is mixed exactly when no response beats all others (theorem)",
    notes="With the exact preferences the Nash policy wins one half by construction; here it must be learned from "
    "samples and meet preferences that it has not seen. The temperature of the KL policy is the best of six on twenty "
    "panels with known preferences, a help that the Nash policy does not get. effective_size is exp(entropy).",
)

FILMS = Claim(
    name="films",
    statement="Learned from half of the raters of ten films, the Nash policy has a higher worst-case win rate among "
    "the other half than the film of largest reward, the reward policy with tuned KL regularisation and the Copeland "
    "winner.",
    metric="worst",
    direction="higher",
    arms={name: partial(arms.films_worst_case, learner=learner) for name, learner in LEARNERS.items()},
    method="Nash",
    against=("largest reward", "reward with KL", "Copeland"),
    sizes={
        "smallest": Size(3, {"films": 60, "responses": 10, "menus": 10}),
        "small": Size(10, {"films": 60, "responses": 10, "menus": 40}),
        "full": Size(20, {"films": 60, "responses": 10, "menus": 200}),
    },
    unit="worst-case win rate",
    paper_result="none: the theory is about random rankings",
    notes="Real tastes: the 60 most rated films of MovieLens (data set movielens of dslabs), 671 raters, equal ratings "
    "half each. Needs the extra evidence. 'cyclic' is the share of held-out halves with a cycle. Cycles are common "
    "there but mostly low in the order: in about five of six halves one film beats all others, the Nash policy is that "
    "film, and little is left to gain over a reward.",
)

NOISE = Claim(
    name="noise",
    statement="From 20 noisy comparisons a pair, the certificate reports a cycle in less than 5 % of the panels that "
    "have none.",
    metric="false",
    direction="lower",
    arms={
        "certificate": partial(arms.false_cycles, report=arms.by_certificate),
        "posterior over 0.95": partial(arms.false_cycles, report=arms.by_posterior),
        "counts as they are": partial(arms.false_cycles, report=arms.by_counts),
    },
    method="certificate",
    against=0.05,
    effect="proportion",
    counts="acyclic",
    sizes={
        "smallest": Size(2, {"profiles": 100, "comparisons": 20}),
        "small": Size(5, {"profiles": 300, "comparisons": 20}),
        "full": Size(10, {"profiles": 2000, "comparisons": 20}),
    },
    unit="share of panels without a cycle",
    notes="A negative control of the whole subject: five labelers, six responses, votes flipped one time in five. "
    "'power' is how often a planted cycle with majorities of 0.8 is reported from 200 comparisons a pair. The "
    "posterior has an independent prior for each pair, which expects cycles.",
)

JUDGE = Claim(
    name="judge",
    statement="With a judge that picks the response shown first three times in ten whatever it is, asking both orders "
    "and counting contradictions as ties recovers the majorities better than asking once, in fixed or in random order.",
    metric="wrong",
    direction="lower",
    arms={name: partial(arms.judged, orders=name) for name in ("both", "fixed", "random")},
    method="both",
    against=("fixed", "random"),
    sizes={
        "smallest": Size(4, {"panels": 3, "position_bias": 0.3}),
        "small": Size(10, {"panels": 10, "position_bias": 0.3}),
        "full": Size(20, {"panels": 50, "position_bias": 0.3}),
    },
    unit="share of majorities not recovered",
    paper_result="none: the paper takes preferences as given",
    notes="A scripted judge with 31 personas, eight responses, planted rankings and 2 % malformed replies. Both orders "
    "cost twice the calls ('asked'). 'cycle' is the posterior probability of a cycle where one is planted, 'control' "
    "where all personas share one ranking, 'planted' how often the planted cycle is the one reported.",
)

CLAIMS = (CLAIM, WINNER, POLICY, FILMS, NOISE, JUDGE)
