"""Claims: inspections catch what they plan to, verifiers refuse what they must, and the run is the unit of inference.

The paper is a position and reports no experiment; the claims are about the tools in this folder, against the plainer
ways of doing the same.
"""

from __future__ import annotations

import functools

from workingpapers.governance.arms_control.experiments_analysis import compare, cut
from workingpapers.governance.arms_control.experiments_evidence import inspect, refuse
from workingpapers.governance.arms_control.experiments_training import audit
from workingpapers.replication.claim import Claim, Size

_INSPECT = {"items": 1000, "violations": (1, 5, 10, 50)}
CLAIM = Claim(
    name="caught_as_planned",
    statement=(
        "Inspections planned for 95 % and drawn by joint commitments catch tampering with a declared registry of 1,000 "
        "items in more than 94 % of trials."
    ),
    metric="caught",
    direction="higher",
    arms={
        "joint draw, exact plan": functools.partial(inspect, plan="exact", draw="joint"),
        "joint draw, binomial plan": functools.partial(inspect, plan="binomial", draw="joint"),
        "fixed schedule": functools.partial(inspect, plan="exact", draw="fixed"),
    },
    method="joint draw, exact plan",
    against=0.94,
    effect="proportion",
    counts="trials",
    sizes={
        "smallest": Size(4, {**_INSPECT, "trials": 200}),
        "small": Size(10, {**_INSPECT, "trials": 500}),
        "full": Size(20, {**_INSPECT, "trials": 2000}),
    },
    unit="share of trials",
    notes=(
        "Plans for 1, 5, 10 and 50 violations, pooled; each reaches at least 95 % by construction, so the claim is "
        "about the whole chain (declaration, draw, proofs) doing what the formula says: see 'caught' and 'planned'. "
        "The fixed schedule inspects as many items, but the violator knows which and tampers elsewhere; the "
        "binomial plan ignores that items are not put back and asks for more (see 'items_per_trial'). Tampering is "
        "visible to the inspection here; a test that misses some needs a larger sample."
    ),
)

REFUSAL = Claim(
    name="refusal",
    statement=(
        "More than 99 % of evidence that was corrupted, reordered, truncated or replayed is refused, although the "
        "declaring party signed the change itself wherever it could."
    ),
    metric="refused",
    direction="higher",
    arms={
        "verifier": functools.partial(refuse, verifier="full"),
        "signature alone": functools.partial(refuse, verifier="signature"),
        "hash list": functools.partial(refuse, verifier="hash list"),
    },
    method="verifier",
    against=0.99,
    effect="proportion",
    counts="changes",
    sizes={
        "smallest": Size(4, {"items": 24, "changes": 120}),
        "small": Size(10, {"items": 60, "changes": 400}),
        "full": Size(20, {"items": 200, "changes": 2000}),
    },
    unit="share of changes",
    notes=(
        "One change each, in four equal parts. Half of the corruptions and truncations hit the bytes of the file, the "
        "rest the statement before it is signed again with the right key. A signature alone cannot refuse what its "
        "owner signed; a plain list of hashes knows nothing of order, completeness or freshness. 'honest_accepted' "
        "must be 1."
    ),
)

TRANSCRIPT = Claim(
    name="forged_training",
    statement=(
        "Re-running segments of a training transcript tells forged from honest ones with at least 0.2 less balanced "
        "error than hashes alone or the best threshold on the length of the moves."
    ),
    metric="balanced_error",
    direction="lower",
    arms={
        "re-run": functools.partial(audit, way="re-run"),
        "hashes only": functools.partial(audit, way="hashes only"),
        "length of moves": functools.partial(audit, way="length"),
    },
    method="re-run",
    against=("hashes only", "length of moves"),
    margin=0.2,
    sizes={
        "smallest": Size(5, {"segments": 20, "every": 10, "forged": 8, "draws": 200}),
        "small": Size(10, {"segments": 40, "every": 25, "forged": 12, "draws": 500}),
        "full": Size(20, {"segments": 200, "every": 25, "forged": 40, "draws": 2000}),
    },
    unit="balanced error",
    notes=(
        "A two-layer network on the scikit-learn digits, float64 on one machine, tolerance 0. Four forgeries in turn: "
        "a tenth of the steps skipped, other data, extrapolation from half of the steps, a rate 5 % too high; training "
        "goes on honestly from each forged checkpoint. The length baseline takes its threshold from the truth itself, "
        "which flatters it. Zero error needs arithmetic that repeats exactly: elsewhere the tolerance must be "
        "calibrated, and a forger may hide below it."
    ),
)

_LOGS = {"runs": 16, "actors": 8, "days": 14, "spread": 0.5}
_TESTS = {
    "runs permuted": functools.partial(compare, test="permutation"),
    "Welch over runs": functools.partial(compare, test="welch"),
    "chi-square over actor-days": functools.partial(compare, test="chi-square"),
}
FALSE_POSITIVES = Claim(
    name="false_positives",
    statement=(
        "Between two models of the same rate, permuting whole runs finds a difference at 5 % at least 0.05 less often "
        "than the chi-square test over actor-days."
    ),
    metric="rejected",
    direction="lower",
    arms=_TESTS,
    method="runs permuted",
    against="chi-square over actor-days",
    margin=0.05,
    sizes={
        "smallest": Size(6, {**_LOGS, "rates": (0.03, 0.03), "replications": 40}),
        "small": Size(10, {**_LOGS, "rates": (0.03, 0.03), "replications": 100}),
        "full": Size(20, {**_LOGS, "rates": (0.03, 0.03), "replications": 500}),
    },
    unit="share of comparisons",
    notes=(
        "Violent actions at 3 % of actor-days, log-odds shifted by a run effect N(0, 0.5). A sound test rejects in "
        "5 %; the chi-square test takes the 112 actor-days of a run for independent. Welch's test over runs is the "
        "plain alternative of the same unit."
    ),
)
POWER = Claim(
    name="power",
    statement=(
        "With 16 runs a side, permuting whole runs finds a rise of violent actions from 2 % to 5 % of actor-days in "
        "more than 80 % of comparisons."
    ),
    metric="rejected",
    direction="higher",
    arms=_TESTS,
    method="runs permuted",
    against=0.8,
    effect="proportion",
    counts="replications",
    sizes={
        "smallest": Size(6, {**_LOGS, "rates": (0.02, 0.05), "replications": 40}),
        "small": Size(10, {**_LOGS, "rates": (0.02, 0.05), "replications": 100}),
        "full": Size(20, {**_LOGS, "rates": (0.02, 0.05), "replications": 500}),
    },
    unit="share of comparisons",
    notes=(
        "The chi-square test may reject more often, but at an error rate that it does not keep (claim 'false "
        "positives')."
    ),
)

CUT = Claim(
    name="cut_first",
    statement=(
        "Cutting the reaction that ranks first by A dρ/dA by 20 % lowers the spectral radius of random five-actor "
        "balances by a larger share than cutting the largest reaction, the largest relative to fatigue or a random one."
    ),
    metric="fall",
    direction="higher",
    arms={
        "Perron ranking": functools.partial(cut, choice="perron"),
        "largest reaction": functools.partial(cut, choice="largest"),
        "largest relative to fatigue": functools.partial(cut, choice="relative"),
        "random reaction": functools.partial(cut, choice="random"),
    },
    method="Perron ranking",
    against=("largest reaction", "largest relative to fatigue", "random reaction"),
    sizes={
        "smallest": Size(5, {"systems": 200, "actors": 5, "share": 0.2}),
        "small": Size(10, {"systems": 1000, "actors": 5, "share": 0.2}),
        "full": Size(20, {"systems": 5000, "actors": 5, "share": 0.2}),
    },
    unit="share of the spectral radius",
    notes=(
        "Reactions exponential with mean 0.25, a fifth of them 0, fatigue uniform from 0.6 to 1.4. The ranking is a "
        "first derivative, so a cut of 20 % need not follow it exactly; 'at_least_random' is the share of balances "
        "where the chosen cut is no worse than a random one."
    ),
)

CLAIMS = (CLAIM, REFUSAL, TRANSCRIPT, FALSE_POSITIVES, POWER, CUT)
