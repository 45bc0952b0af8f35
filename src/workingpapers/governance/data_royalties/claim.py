"""The claims: attribution near exact Shapley money, fair, proof against copies; books that lose and hide nothing."""

from __future__ import annotations

from functools import partial

from workingpapers.governance.data_royalties import claim_books as books
from workingpapers.governance.data_royalties import claim_markets as markets
from workingpapers.replication.claim import Claim, Size

SMALLEST = {"sizes": (40, 60, 80), "copied": 1, "noisy": 40, "outputs": 100, "components": 10}
SMALL = {"sizes": (60, 100, 140, 180), "copied": 1, "noisy": 120, "outputs": 200, "components": 16}
FULL = {"sizes": (60, 100, 140, 180, 240), "copied": 2, "noisy": 120, "outputs": 597, "components": 64}

CLAIM = Claim(
    name="headline",
    statement="KNN-Shapley, without retraining, pays providers nearer to exact Shapley shares than volume, equal "
    "shares or leave-one-out do.",
    metric="distance",
    direction="lower",
    arms={
        "KNN-Shapley": partial(markets.distance, scorer=markets.by_neighbours),
        "TracIn": partial(markets.distance, scorer=markets.by_tracin),
        "influence": partial(markets.distance, scorer=markets.by_influence),
        "20 permutations": partial(markets.distance, scorer=markets.by_permutations),
        "leave-one-out": partial(markets.distance, scorer=markets.by_leave_one_out),
        "volume": partial(markets.distance, scorer=markets.by_volume),
        "equal": partial(markets.distance, scorer=markets.equally),
        "random": partial(markets.distance, scorer=markets.at_random),
    },
    method="KNN-Shapley",
    against=("volume", "equal", "leave-one-out"),
    sizes={"smallest": Size(6, SMALLEST), "small": Size(8, SMALL), "full": Size(10, FULL)},
    unit="L1",
    paper_result="none: a position paper without measurements",
    notes="Honest digits in several amounts, an exact copy of one provider, two providers with half of their labels "
    "random, one with shuffled pixels. The yardstick retrains logistic regression on every coalition of providers; "
    "both it and the method are paid by the ledger's rule, event by event, scores below zero cut off. The model and "
    "the neighbours see the same principal components. The distance is the sum of absolute differences of money "
    "shares, 0 to 2. On the smallest market leave-one-out is as near as KNN-Shapley, and TracIn is about as near "
    "everywhere. bad_money is the share of the three bad providers. 20 permutations retrain about a hundred times.",
)

FAIRNESS = Claim(
    name="fairness",
    statement="KNN-Shapley violates efficiency, symmetry, null player and indifference to splitting less than exact "
    "provider-level Shapley values, permutation samples, influence and leave-one-out do.",
    metric="violation",
    direction="lower",
    arms={
        "KNN-Shapley": partial(markets.fairness, scorer=markets.by_neighbours),
        "exact Shapley": partial(markets.fairness, scorer=markets.by_shapley),
        "20 permutations": partial(markets.fairness, scorer=markets.by_permutations),
        "influence": partial(markets.fairness, scorer=markets.by_influence),
        "TracIn": partial(markets.fairness, scorer=markets.by_tracin),
        "leave-one-out": partial(markets.fairness, scorer=markets.by_leave_one_out),
    },
    method="KNN-Shapley",
    against=("exact Shapley", "20 permutations", "influence", "leave-one-out"),
    sizes={
        "smallest": Size(6, {"sizes": (20, 30, 40), "copied": 1, "noisy": 20, "outputs": 60, "components": 8}),
        "small": Size(8, {"sizes": (40, 60, 80), "copied": 1, "noisy": 40, "outputs": 100, "components": 10}),
    },
    unit="share",
    notes="Each property is measured against the method's own utility: that KNN-Shapley is efficient says nothing "
    "about whether its utility is the one that matters. Exact Shapley values of providers satisfy the first three "
    "axioms and fail the fourth: taking a second name changes what a provider gets. TracIn adds up over points, so "
    "it is indifferent to splitting, and is efficient only to first order.",
)

COPIES = Claim(
    name="copies",
    statement="With copies scored once and paid to the first holder, all holders of the same rows together get no "
    "more than the original gets in a market without copies; plain Shapley values and KNN-Shapley pay them more.",
    metric="together",
    direction="lower",
    arms={
        "guard, first holder": partial(markets.copies, scorer=markets.by_shapley, rule="first"),
        "guard, equal split": partial(markets.copies, scorer=markets.by_shapley, rule="equal"),
        "exact Shapley": partial(markets.copies, scorer=markets.by_shapley),
        "KNN-Shapley": partial(markets.copies, scorer=markets.by_neighbours),
        "leave-one-out": partial(markets.copies, scorer=markets.by_leave_one_out),
        "volume": partial(markets.copies, scorer=markets.by_volume),
    },
    method="guard, first holder",
    against=("exact Shapley", "KNN-Shapley"),
    sizes={
        "smallest": Size(3, {**SMALLEST, "sizes": (40, 60, 60)}),
        "small": Size(5, {**SMALL, "copied": 2, "sizes": (60, 100, 140)}),
    },
    unit="times",
    notes="'original' is what the first holder keeps. Splitting a group equally holds the group to the same sum and "
    "still moves most of it from the original to the copiers: the rule of the first holder needs honest dates of "
    "registration, which no arithmetic supplies. Copies here are exact; a paraphrase is found only as far as the "
    "similarity measure reaches.",
)

CUT = Claim(
    name="netting",
    statement="Netting scores over all events pays providers of bad data less than cutting them off at zero event by "
    "event, which is the ledger's rule.",
    metric="bad_money",
    direction="lower",
    arms={
        "netted": partial(markets.cut, netted=True),
        "event by event": partial(markets.cut, netted=False),
    },
    method="netted",
    against="event by event",
    sizes={"smallest": Size(5, SMALLEST), "small": Size(8, SMALL), "full": Size(10, FULL)},
    unit="share",
    notes="A limit of paying per event, kept here so that nobody overlooks it: a provider whose data helps some "
    "outputs and harms others by as much is paid for the first and not charged for the second. Exact Shapley scores "
    "in both arms.",
)

DRIFT = Claim(
    name="drift",
    statement="Carrying fractions keeps every provider's booked money nearer to the exact amount than rounding each "
    "event does.",
    metric="drift",
    direction="lower",
    arms={
        "carry": partial(books.drift, rounding="carry"),
        "largest remainder": partial(books.drift, rounding="largest_remainder"),
        "half up by event": partial(books.drift, rounding="half_up"),
        "half even by event": partial(books.drift, rounding="half_even"),
        "floats": partial(books.drift, rounding="float"),
    },
    method="carry",
    against=("half up by event", "half even by event"),
    sizes={
        "smallest": Size(5, {"events": 4_000, "providers": 50}),
        "small": Size(5, {"events": 100_000, "providers": 200}),
        "full": Size(5, {"events": 1_000_000, "providers": 200}),
    },
    unit="minor units",
    notes="Three months, a quarter of the gross, 1 % refunds. Below one minor unit is the bound of carrying, by "
    "construction. 'total' is the sum of all providers' differences: what carrying has not booked yet lies in the "
    "rounding account. Floats in double precision are as near at this size; what they lack is a sum that two parties "
    "must agree on to the last bit, in any order.",
)

AUDIT = Claim(
    name="audit",
    statement="The audit places at least nine of ten random attacks on the journal at the very entry where they show.",
    metric="found",
    direction="higher",
    arms={
        "audit": partial(books.attacked, check="audit"),
        "hash chain alone": partial(books.attacked, check="chain"),
        "trial balance alone": partial(books.attacked, check="trial_balance"),
    },
    method="audit",
    against=0.9,
    effect="proportion",
    counts="attacks",
    sizes={
        "smallest": Size(3, {"entries": 90, "attacks": 21}),
        "small": Size(5, {"entries": 1_500, "attacks": 42}),
        "full": Size(5, {"entries": 30_000, "attacks": 42}),
    },
    unit="share",
    notes="Seven kinds in turn: a changed byte, a dropped, doubled or swapped entry; under hashes made anew: changed "
    "sums, an event booked twice, and one attribution rewritten with everything that follows from it, which shows at "
    "the next signature. What nobody signed or kept, such as a tail cut off after the last checkpoint, no audit can "
    "see.",
)

CLAIMS = (CLAIM, FAIRNESS, COPIES, CUT, DRIFT, AUDIT)
