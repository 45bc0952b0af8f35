"""What a run showed: the judge before and after, the pairs it still gets wrong, and rankings of candidates."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from workingpapers.foundations.conversations import plain_text
from workingpapers.foundations.files import whole_file
from workingpapers.foundations.outcome import Outcome, Table
from workingpapers.foundations.report import paragraph, write_report
from workingpapers.foundations.run_folder import REPORT, SUMMARY, write_json
from workingpapers.posttraining.irpm import storing
from workingpapers.posttraining.irpm.fitting import Fitted
from workingpapers.posttraining.irpm.judge import PointwiseJudge, mean_scores, pair_outcomes, ranking_of
from workingpapers.posttraining.irpm.pictures import ranking_picture, training_picture
from workingpapers.posttraining.irpm.plan import Plan

FIGURES = ("accuracy", "ties", "unparsable", "levels")
NAMES = (
    "pairs in right order, ties half, share", "ties, share", "unparsable judgements, share", "different scores in use",
)  # fmt: skip
SHOWN = 80
MANY_TIES = 0.3


def present(fitted: Fitted, plan: Plan, out: Path) -> Outcome:
    """Write summary and report of a training run, and return what the person is told.

    Args:
        fitted: The run.
        plan: What was run.
        out: Its folder.
    """
    before, after = fitted.before, fitted.after
    facts = {
        "steps": fitted.steps, "resumed_from_step": fitted.resumed, "pairs": fitted.pairs,
        "measured_pairs": len(fitted.held_out), "held_out": fitted.fresh,
        "judgements": plan.judgements, "sampled_accuracy": _late_accuracy(fitted),
        **{f"{name}_before": before[name] for name in FIGURES}, **{name: after[name] for name in FIGURES},
    }  # fmt: skip
    summary = _sentences(facts)
    where = "held-out pairs" if fitted.fresh else "pairs of the training set"
    rows = [(text, before[name], after[name]) for text, name in zip(NAMES, FIGURES, strict=True)]
    tables = [Table(("", "before", "after"), rows, f"{len(fitted.held_out)} {where}, one greedy judgement a response"),
              _wrong(fitted)]  # fmt: skip
    scores = [[score for score in side if score is not None] for side in after["scores"]]
    figures = [training_picture(fitted.history, 0, 10, scores, before["accuracy"], after["accuracy"])]
    write_report(out / REPORT, "IRPM", [paragraph(summary), *tables, *figures])
    write_json(out / SUMMARY, {"summary": summary, **facts})
    files = [out / name for name in (storing.MODEL, storing.FACTS, SUMMARY, REPORT)]
    return Outcome(summary, tables, figures, files, facts)


def rank(judge: PointwiseJudge, records: list[dict[str, Any]], out: Path, report: Path | None) -> Outcome:
    """Rank candidates, write them best first, and return what the person is told.

    Args:
        judge: The judge.
        records: Requests with responses, from :func:`read_candidates`.
        out: JSON Lines file to write.
        report: HTML file to write, or None.
    """
    prompts = [record["prompt"] for record in records for _ in record["responses"]]
    said = judge.judge(prompts, [response for record in records for response in record["responses"]])
    ends = np.cumsum([len(record["responses"]) for record in records])
    groups = [said[end - len(record["responses"]) : end] for record, end in zip(records, ends, strict=True)]
    rankings = [ranking_of(mean_scores(group)) for group in groups]
    with whole_file(out) as stream:
        for record, group, ranking in zip(records, groups, rankings, strict=True):
            ranked = [
                {"rank": float(ranking.ranks[place]), "score": _number(ranking.scores[place]),
                 "critique": group[place][0].critique, "problem": group[place][0].problem,
                 "response": record["responses"][place]}
                for place in ranking.order
            ]  # fmt: skip
            stream.write(json.dumps({"prompt": record["prompt"], "ranked": ranked}, ensure_ascii=False) + "\n")
    facts = _ranking_facts(judge, records, [ranking.scores for ranking in rankings])
    best = []
    for record, ranking, group in list(zip(records, rankings, groups, strict=True))[:10]:
        first = ranking.order[0]
        best.append((_short(record["prompt"]), _short(record["responses"][first]), _number(ranking.scores[first]),
                     _short(group[first][0].critique)))  # fmt: skip
    table = Table(("request", "best response", "score", "critique"), best, "The best of the first requests")
    figure = ranking_picture([one.scores for one in rankings], judge.parser.low, judge.parser.high)
    summary = _ranking_sentences(facts)
    files, figures = [out], [figure]
    if report:
        write_report(report, "IRPM: ranking", [paragraph(summary), table, figure])
        files.append(report)
    return Outcome(summary, [table], figures, files, facts)


def _sentences(facts: dict[str, Any]) -> str:
    text = (
        f"Trained {facts['steps']} steps on {facts['pairs']} pairs; on {facts['measured_pairs']} "
        f"{'held-out' if facts['held_out'] else 'training'} pairs one greedy judgement a response is right in "
        f"{facts['accuracy']:.0%} ({facts['accuracy_before']:.0%} before), with {facts['ties']:.0%} ties and "
        f"{facts['unparsable']:.0%} unparsable judgements."
    )
    error = math.sqrt(max(facts["accuracy"] * (1 - facts["accuracy"]), 0.01) / facts["measured_pairs"])
    if facts["accuracy"] - facts["accuracy_before"] < 2 * error:
        text += " That is no clear gain on so many pairs: more steps, or more pairs to measure on."
    if facts["ties"] > MANY_TIES and facts["sampled_accuracy"] is not None:
        text += (
            f" Many scores are equal; means of {facts['judgements']} sampled ones, as --votes makes them, had "
            f"{facts['sampled_accuracy']:.0%} of the last training pairs in right order."
        )
    return text


def _late_accuracy(fitted: Fitted) -> float | None:
    """Return how the means of sampled scores ordered the pairs of the last fifth of training."""
    known = [log["irpm/accuracy"] for log in fitted.history if "irpm/accuracy" in log]
    return float(np.mean(known[-max(1, len(known) // 5) :])) if known else None


def _wrong(fitted: Fitted) -> Table:
    scores, critiques = fitted.after["scores"], fitted.after["critiques"]
    gaps = [-math.inf if None in pair else pair[0] - pair[1] for pair in zip(*scores, strict=True)]
    order = sorted((place for place, gap in enumerate(gaps) if gap < 0), key=lambda place: gaps[place])[:5]
    rows = [
        (_short(fitted.held_out[place]["prompt"]), _short(fitted.held_out[place][side]), side,
         scores[number][place], _short(critiques[number][place]))
        for place in order
        for number, side in enumerate(("chosen", "rejected"))
    ]  # fmt: skip
    return Table(("request", "response", "", "score", "critique"), rows, "Pairs that the judge gets most wrong")


def _ranking_facts(
    judge: PointwiseJudge, records: list[dict[str, Any]], scores: Sequence[np.ndarray]
) -> dict[str, Any]:
    everything = np.concatenate(list(scores))
    gaps = [values[:, None] - values for values in scores]
    halves = [gap[np.triu_indices(len(gap), 1)] for gap in gaps]
    between = np.concatenate(halves)
    pairs = [values for record, values in zip(records, scores, strict=True) if record["pair"]]
    facts: dict[str, Any] = {
        "requests": len(records), "responses": len(everything), "calls": judge.calls,
        "pairwise_calls": sum(len(values) * (len(values) - 1) // 2 for values in scores),
        "unparsable": float(np.isnan(everything).mean()),
        "ties": float((between == 0).mean()) if len(between) else 0.0,
    }  # fmt: skip
    if pairs:
        chosen, rejected = np.array(pairs).T
        facts |= {"pairs": len(pairs), "accuracy": float(pair_outcomes(chosen, rejected).mean())}
    return facts


def _ranking_sentences(facts: dict[str, Any]) -> str:
    text = (
        f"Ranked {facts['responses']} responses to {facts['requests']} requests in {facts['calls']} calls "
        f"({facts['pairwise_calls']} would ask a judge of pairs once about each); {facts['ties']:.0%} of the "
        f"comparisons are ties and {facts['unparsable']:.0%} of the responses have no readable score."
    )
    if "accuracy" in facts:
        text += f" Of {facts['pairs']} known pairs {facts['accuracy']:.0%} are in right order, ties counted half."
    if facts["ties"] > MANY_TIES and facts["calls"] == facts["responses"]:
        text += " --votes averages sampled scores and leaves fewer ties."
    return text


def _number(value: float) -> float | None:
    return None if math.isnan(value) else float(value)


def _short(value: Any) -> str:
    text = " ".join(plain_text(value).split())
    return text if len(text) <= SHOWN else text[: SHOWN - 1] + "…"
