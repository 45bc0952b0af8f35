"""The report: every section's estimate, interval and rule, and the claims that the evidence allows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from scipy.stats import ttest_ind

from workingpapers.evaluation.test_validity.differential import UNJUDGED, ItemTest, mean_tests, screen_items
from workingpapers.evaluation.test_validity.dimensionality import (
    ParallelAnalysis,
    congruence,
    exploratory_loadings,
    parallel_analysis,
)
from workingpapers.evaluation.test_validity.factor_model import FactorFit, fit_factors, moments
from workingpapers.evaluation.test_validity.generalizability import Components, g_study
from workingpapers.evaluation.test_validity.invariance import Invariance, factor_invariance, response_invariance
from workingpapers.evaluation.test_validity.reliability import Reliability, reliability
from workingpapers.evaluation.test_validity.response_model import common_categories
from workingpapers.evaluation.test_validity.rules import DEFAULT_RULES, Rules
from workingpapers.evaluation.test_validity.styles import Styles, response_styles
from workingpapers.evaluation.test_validity.tables import Study
from workingpapers.foundations.errors import InputError
from workingpapers.foundations.progress import Progress, silent

Verdict = Literal["yes", "no", "insufficient data"]
POPULATIONS = ("human", "AI")


@dataclass(frozen=True)
class Permission:
    """One claim that a user might want to make.

    Args:
        level: ``"L1"``, ``"L2"`` or ``"L3"``.
        claim: In words.
        population: ``"human"``, ``"AI"`` or ``"both"``.
        verdict: Whether the evidence allows it.
        reason: One sentence.
    """

    level: str
    claim: str
    population: str
    verdict: Verdict
    reason: str


@dataclass(frozen=True)
class MeanGap:
    """Difference of the mean scores of one scale, AI minus human, in pooled standard deviations, and its p-value."""

    scale: str
    standardised: float
    p_value: float


@dataclass(frozen=True)
class ValidityReport:
    """Everything that was found.

    Args:
        study: The answers.
        gaps: The plain comparison of means, by scale.
        reliability: By (scale, population).
        structure: Factor model of each population alone; missing where it could not be fitted.
        parallel: Parallel analysis of each population.
        congruence: Tucker's congruence of the exploratory factors, shape (m,).
        ladders: Measurement invariance, by scale (``"all scales"`` where one factor model holds them all).
        items: Item tests, by item.
        mean_flags: Which items a plain t-test would flag, bool, shape (p,).
        styles: Response styles of each population.
        components: Variance components of repeated AI answers, by scale; empty without repetitions.
        contamination: Advantage of the AI on items seen before training over that on others, with its standard error.
        permissions: What may be claimed.
    """

    study: Study
    gaps: tuple[MeanGap, ...]
    reliability: Mapping[tuple[str, str], Reliability]
    structure: Mapping[str, FactorFit]
    parallel: Mapping[str, ParallelAnalysis]
    congruence: np.ndarray
    ladders: Mapping[str, Invariance]
    items: tuple[ItemTest, ...]
    mean_flags: np.ndarray
    styles: Mapping[str, Styles]
    components: Mapping[str, Components]
    contamination: tuple[float, float] | None
    permissions: tuple[Permission, ...]

    def verdict(self, level: str, population: str) -> Verdict:
        """Return the verdict on a level for a population.

        Args:
            level: ``"L1"``, ``"L2"`` or ``"L3"``.
            population: ``"human"``, ``"AI"`` or ``"both"``.
        """
        return next(each.verdict for each in self.permissions if (each.level, each.population) == (level, population))


def judge(
    study: Study, *, rules: Rules = DEFAULT_RULES, seed: int = 0, draws: int = 500, progress: Progress = silent
) -> ValidityReport:
    """Examine a study and say which claims the evidence allows.

    Args:
        study: From :func:`.tables.make_study` or :func:`.tables.read_study`.
        rules: The thresholds.
        seed: Of the random data of parallel analysis.
        draws: Their number.
        progress: Told of the sections.
    """
    samples = {"human": study.human, "AI": study.ai}
    progress(0.02, "reliability")
    reliabilities = {
        (scale, name): reliability(answers[:, study.pattern[:, k]])
        for k, scale in enumerate(study.scale_names)
        for name, answers in samples.items()
    }
    progress(0.1, "number of factors")
    rng = np.random.default_rng(seed)
    parallel = {name: parallel_analysis(answers, rng, draws=draws) for name, answers in samples.items()}
    m = len(study.scale_names)
    shared = congruence(*(exploratory_loadings(answers, m) for answers in samples.values()))
    progress(0.3, "structure")
    structure, refusals = _structures(study, rules)
    progress(0.4, "measurement invariance")
    ladders = {} if refusals else _ladders(study, rules)
    progress(0.7, "items")
    items = _screen(study, reliabilities, rules)
    styles = {
        name: response_styles(study.as_given(answers), study.keys, study.scales, study.low, study.high)
        for name, answers in samples.items()
    }
    components = {}
    if study.repeated is not None:
        components = {
            scale: g_study(study.repeated[:, study.pattern[:, k]]) for k, scale in enumerate(study.scale_names)
        }
    permissions = (
        *_reliable(study, reliabilities, rules),
        *(_one_construct(name, structure, refusals, styles, rules) for name in POPULATIONS),
    )
    report = ValidityReport(
        study=study,
        gaps=tuple(_gap(study, k, scale) for k, scale in enumerate(study.scale_names)),
        reliability=reliabilities,
        structure=structure,
        parallel=parallel,
        congruence=shared,
        ladders=ladders,
        items=items,
        mean_flags=mean_tests(study.human, study.ai, rules),
        styles=styles,
        components=components,
        contamination=None if study.seen is None else contamination(study.human, study.ai, study.seen),
        permissions=(*permissions, _comparable(ladders, refusals, permissions)),
    )
    progress(1.0, "judged")
    return report


def contamination(human: np.ndarray, ai: np.ndarray, seen: np.ndarray) -> tuple[float, float]:
    """Return how much more the AI gains over people on items seen in training than on others, and its standard error.

    Item means are differenced between populations and compared between the two kinds of item (Welch): items are the
    unit, so that many rows do not stand in for few items.

    Args:
        human: Answers, shape (n_1, p).
        ai: Answers, shape (n_2, p).
        seen: Whether items were public before training, bool, shape (p,).

    Raises:
        InputError: Fewer than two items of either kind.
    """
    advantage = np.nanmean(ai, axis=0) - np.nanmean(human, axis=0)
    before, after = advantage[seen], advantage[~seen]
    if min(len(before), len(after)) < 2:
        raise InputError(
            f"{len(before)} items are marked as seen and {len(after)} as not; two of each are needed to compare them."
        )
    error = np.sqrt(before.var(ddof=1) / len(before) + after.var(ddof=1) / len(after))
    return float(before.mean() - after.mean()), float(error)


def _gap(study: Study, k: int, scale: str) -> MeanGap:
    own = study.pattern[:, k]
    first, second = study.human[:, own].mean(axis=1), study.ai[:, own].mean(axis=1)
    pooled = np.sqrt((first.var(ddof=1) + second.var(ddof=1)) / 2)
    p_value = float(ttest_ind(second, first, equal_var=False).pvalue)
    return MeanGap(scale, float((second.mean() - first.mean()) / pooled) if pooled > 0 else float("nan"), p_value)


def _structures(study: Study, rules: Rules) -> tuple[dict[str, FactorFit], dict[str, str]]:
    found: dict[str, FactorFit] = {}
    refusals: dict[str, str] = {}
    needed = rules.rows_needed(len(study.names))
    for name, answers in (("human", study.human), ("AI", study.ai)):
        try:
            found[name] = fit_factors([moments(answers)], study.pattern)
        except InputError as error:
            refusals[name] = str(error)
        if len(answers) < needed:
            refusals[name] = f"{len(answers)} independent {name} rows; {len(study.names)} items need {needed}."
    return found, refusals


def _ladders(study: Study, rules: Rules) -> dict[str, Invariance]:
    if study.kind == "continuous":
        return {"all scales": factor_invariance([moments(study.human), moments(study.ai)], study.pattern, rules=rules)}
    found = {}
    for k, scale in enumerate(study.scale_names):
        own = study.pattern[:, k]
        names = [name for name, mine in zip(study.names, own, strict=True) if mine]
        samples = [study.human[:, own], study.ai[:, own]]
        linear = fit_factors([moments(sample) for sample in samples], np.ones((len(names), 1), bool))
        found[scale] = response_invariance(common_categories(samples, names), linear, rules=rules)
    return found


def _screen(study: Study, reliabilities: Mapping[tuple[str, str], Reliability], rules: Rules) -> tuple[ItemTest, ...]:
    found: dict[int, ItemTest] = {}
    for k, scale in enumerate(study.scale_names):
        own = np.flatnonzero(study.pattern[:, k])
        blind = min(reliabilities[scale, name].alpha for name in POPULATIONS) < rules.matching
        tests = screen_items(
            study.human[:, own],
            study.ai[:, own],
            study.kind,
            test="mantel-haenszel" if study.kind == "binary" else "regression",
            rules=rules,
        )
        if blind:
            tests = tuple(replace(test, grade=UNJUDGED, flagged=False) for test in tests)
        found |= {int(own[test.item]): replace(test, item=int(own[test.item])) for test in tests}
    return tuple(found[j] for j in range(len(study.names)))


def _reliable(
    study: Study, found: Mapping[tuple[str, str], Reliability], rules: Rules
) -> tuple[Permission, Permission]:
    def one(name: str) -> Permission:
        alphas = {scale: found[scale, name].alpha for scale in study.scale_names}
        low = {scale: alpha for scale, alpha in alphas.items() if alpha < rules.reliability}
        if not low:
            reason = f"The lowest alpha is {min(alphas.values()):.2f}."
        else:
            worst = min(low, key=lambda scale: low[scale])
            sense = " (negative: answers run against the keys)" if low[worst] < 0 else ""
            reason = f"Alpha of {worst} is {low[worst]:.2f}{sense}, below {rules.reliability:g}."
        return Permission("L1", "the score is reliable", name, "no" if low else "yes", reason)

    return one("human"), one("AI")


def _one_construct(
    name: str,
    structure: Mapping[str, FactorFit],
    refusals: Mapping[str, str],
    styles: Mapping[str, Styles],
    rules: Rules,
) -> Permission:
    claim = "each scale measures one construct"
    if name in refusals:
        return Permission("L2", claim, name, "insufficient data", refusals[name])
    fit, style = structure[name], styles[name]
    shown = f"CFI {fit.cfi:.3f}, RMSEA {fit.rmsea:.3f}"
    if not fit.converged:
        return Permission("L2", claim, name, "no", "The factor model finds no solution.")
    if fit.p_value < rules.significance and (fit.cfi < rules.lowest_cfi or fit.rmsea > rules.highest_rmsea):
        return Permission("L2", claim, name, "no", f"The scales do not describe the answers ({shown}).")
    if style.half_scales_high >= 0:
        return Permission(
            "L2", claim, name, "no",
            f"Opposed items are answered alike (correlation {style.half_scales:+.2f} where it should be negative).",
        )  # fmt: skip
    return Permission("L2", claim, name, "yes", f"The scales describe the answers ({shown}).")


def _comparable(
    ladders: Mapping[str, Invariance], refusals: Mapping[str, str], below: tuple[Permission, ...]
) -> Permission:
    claim = "scores of both populations may be compared"
    broken = [each.population for each in below if each.level == "L2" and each.verdict == "no"]
    if broken:
        return Permission("L3", claim, "both", "no", f"The construct (L2) fails in: {', '.join(broken)}.")
    if refusals:
        return Permission("L3", claim, "both", "insufficient data", next(iter(refusals.values())))
    for scale, ladder in ladders.items():
        if not ladder.comparable:
            lost = {"none": "configural", "configural": "metric", "metric": "scalar"}[ladder.reached]
            return Permission("L3", claim, "both", "no", f"{lost.capitalize()} invariance fails ({scale}).")
    if any(ladder.reached == "partial scalar" for ladder in ladders.values()):
        reason = "Partial scalar invariance: latent means may be compared, sums of all items may not."
        return Permission("L3", claim, "both", "yes", reason)
    return Permission("L3", claim, "both", "yes", "Scalar invariance holds.")
