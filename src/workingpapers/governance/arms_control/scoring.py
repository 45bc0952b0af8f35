"""The command of the analyst of logs: escalation and human influence."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from workingpapers.foundations.outcome import Figure, Outcome, Table
from workingpapers.governance.arms_control.analysing import plain
from workingpapers.governance.arms_control.checking import finish
from workingpapers.governance.arms_control.escalation import (
    bootstrap_interval,
    compare_models,
    rank_stability,
    read_log,
    score_runs,
)
from workingpapers.governance.arms_control.oversight import (
    daily_overrides,
    fading_cusum,
    influence,
    two_phase_regression,
)
from workingpapers.governance.arms_control.pictures import escalation_picture, oversight_picture


def score_log(
    log: Path, review_seconds: float, baseline_days: int, baseline: float | None, seed: int, report: Path | None
) -> Outcome:
    """Score a log for escalation and for human influence."""
    records = read_log(log)
    scores = score_runs(records)
    models = sorted({score.model for score in scores})
    rows = []
    for model in models:
        runs = [score for score in scores if score.model == model]
        means = [score.mean for score in runs]
        low, high = bootstrap_interval(means, seed)
        slopes = [score.slope for score in runs if not math.isnan(score.slope)]
        rows.append((
            model, len(runs), float(np.mean(means)), low, high, max(float(score.daily.max()) for score in runs),
            float(np.mean([score.violent for score in runs])), float(np.mean(slopes)) if slopes else math.nan,
        ))  # fmt: skip
    tables = [Table(
        ("model", "runs", "mean score", "95 % from", "to", "highest day", "runs with violence", "early slope"), rows,
        "Escalation by model", "A score is the sum of weights of an actor's day; intervals resample whole runs.",
    )]  # fmt: skip
    comparisons = compare_models(scores, seed)
    if comparisons:
        tables.append(Table(
            ("model", "against", "difference", "p", "p (Holm)"),
            [(c.one, c.other, c.difference, c.p, c.adjusted) for c in comparisons], "Comparisons by permuting runs",
        ))  # fmt: skip
    stability = rank_stability(records)
    figures = [escalation_picture(scores, seed)]
    data: dict[str, Any] = {
        "models": [dict(zip(tables[0].columns, map(plain, row), strict=True)) for row in rows],
        "comparisons": [{key: plain(value) for key, value in asdict(c).items()} for c in comparisons],
        "rank_stability": {name: plain(value) for name, value in stability.items()},
    }
    worst = max(rows, key=lambda row: row[2])
    sentences = [
        f"{len(scores)} runs of {len(models)} models; the highest mean escalation is {worst[2]:.3g} ({worst[0]})."
    ]
    small = [c for c in comparisons if c.adjusted < 0.05]
    if comparisons:
        sentences.append(f"{len(small)} of {len(comparisons)} differences between models stand at 5 % (Holm).")
    if any(value < 1 for value in stability.values()):
        sentences.append("The order of the models depends on the weights: do not rely on it.")
    sentences.append(_influence(records, review_seconds, baseline_days, baseline, seed, tables, figures, data))
    note = (
        "Scores depend on the weights and on who assigned the categories; a log shows what was written down. Runs, not "
        "days or actions, are the unit: few runs give wide intervals, whatever the number of lines."
    )
    return finish("Escalation and human influence", " ".join(sentences), tables, figures, data, report, note)


def _influence(
    records: Sequence[Any], review_seconds: float, baseline_days: int, baseline: float | None, seed: int,
    tables: list[Table], figures: list[Figure], data: dict[str, Any],
) -> str:  # fmt: skip
    if all(record.override is None for record in records):
        return "The log does not say whether humans looked, so nothing is said about their influence."
    found = influence(records, review_seconds)
    tables.append(Table(("index", "value"), [
        ("share reviewed by a human", found.review_share),
        ("override rate", found.override_rate),
        ("effective oversight (change given review)", found.effective_oversight),
        ("median seconds of a review", found.median_latency),
        ("share of reviews under the least time", found.hasty_share),
    ], "Human influence"))  # fmt: skip
    data["influence"] = {key: plain(value) for key, value in asdict(found).items()}
    overrides, total = daily_overrides(records)
    early = int(total[:baseline_days].sum())
    rate = baseline if baseline is not None else (overrides[:baseline_days].sum() + 0.5) / (early + 1)
    chart = fading_cusum(overrides, total, float(rate))
    figures.append(oversight_picture(overrides, total, chart))
    data["cusum"] = {"baseline": float(rate), "threshold": chart.threshold, "alarm": chart.alarm}
    text = f"Humans changed {found.override_rate:.1%} of recommendations; " + (
        f"their influence faded: alarm on day {chart.alarm}." if chart.alarm else "no alarm of fading influence."
    )
    if int((total > 0).sum()) >= 8:
        point = two_phase_regression(overrides, total, seed)
        data["break"] = asdict(point)
        tables.append(Table(("day", "F", "p", "slope before", "slope after"), [
            (point.day, point.f, point.p, point.slope_before, point.slope_after)
        ], "Best break of the trend of the override rate (log-odds)"))  # fmt: skip
    return text
