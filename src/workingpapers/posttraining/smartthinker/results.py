"""What a run changed: accuracy and length on held-out prompts before and after, the branches, and the report."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from workingpapers.foundations.figures import PALETTE, canvas, to_svg
from workingpapers.foundations.outcome import Figure, Outcome, Table
from workingpapers.foundations.report import paragraph, write_report
from workingpapers.foundations.run_folder import REPORT, SUMMARY, write_json
from workingpapers.posttraining.smartthinker.fitting import Fitted, Measured
from workingpapers.posttraining.smartthinker.plan import MODEL, Plan
from workingpapers.posttraining.smartthinker.rewards import Branch, ae_score

BRANCHES = {
    Branch.PEAK: "peak of the ratio",
    Branch.WIDER_CORRECT: "right answers vary more: shortest",
    Branch.EQUAL_SPREAD: "equal spread",
    Branch.ALL_CORRECT: "all right",
    Branch.NONE_CORRECT: "none right",
}
RARE, MANY_CUT = 0.2, 0.2


def present(fitted: Fitted, plan: Plan, out: Path) -> Outcome:
    """Write summary and report into the folder, and return what the person is told.

    Args:
        fitted: The run.
        plan: What was run.
        out: Its folder.
    """
    facts = _facts(fitted)
    tables = [_changes(facts), _branches(fitted)]
    figures = [training_picture(fitted), lengths_picture(fitted.before, fitted.after)]
    summary = _sentences(facts)
    write_report(out / REPORT, "SmartThinker", [paragraph(summary), *tables, *figures])
    write_json(out / SUMMARY, {"summary": summary, **facts})
    return Outcome(summary, tables, figures, (out / MODEL, out / SUMMARY, out / REPORT), facts)


def training_picture(fitted: Fitted) -> Figure:
    """Draw accuracy, length and target, and the branches, against the step.

    Args:
        fitted: The run.
    """
    logs = fitted.history
    steps = [log["step"] for log in logs]
    marker = "o" if len(steps) < 30 else ""
    with canvas(8.6, 3.2, columns=3) as figure:
        left, middle, right = figure.axes
        left.plot(steps, [log["smartthinker/accuracy"] for log in logs], marker=marker, markersize=3)
        left.set(xlabel="step", title="accuracy", ylim=(-0.02, 1.02))
        middle.plot(steps, [log["completions/mean_length"] for log in logs], marker=marker, markersize=3,
                    label="answers")  # fmt: skip
        middle.plot(steps, [log["smartthinker/target"] for log in logs], marker=marker, markersize=3, color=PALETTE[3],
                    linestyle="--", label="targets")  # fmt: skip
        middle.set(xlabel="step", title="mean length, tokens")
        middle.set_ylim(bottom=0)
        middle.legend(fontsize=8.5, loc="lower left")
        shares = [[log[f"smartthinker/branch_{branch.name.lower()}"] for log in logs] for branch in BRANCHES]
        right.stackplot(steps, shares, labels=list(BRANCHES.values()), colors=PALETTE[:5], alpha=0.85)
        right.set(xlabel="step", title="groups by branch", ylim=(0, 1.02))
        for axes in (left, middle):
            axes.grid(axis="y")
        figure.legend(*right.get_legend_handles_labels(), loc="outside lower center", ncols=3, fontsize=8)
        return Figure(
            to_svg(figure),
            "Training prompts. Targets are those of the groups in which a right answer is penalised; groups that are "
            "all right or all wrong teach nothing.",
        )


def lengths_picture(before: Measured, after: Measured) -> Figure:
    """Draw how long right and wrong answers to the held-out prompts are, before and after.

    Args:
        before: Of the model before training.
        after: Of the trained model.
    """
    top = max(one["length"] for one in (*before, *after))
    edges = np.unique(np.linspace(0.5, top + 0.5, 25 if top > 25 else int(top) + 1)).tolist()
    with canvas(7.6, 3.2, columns=2) as figure:
        for axes, title, rows in zip(figure.axes, ("before", "after"), (before, after), strict=True):
            split = [[one["length"] for one in rows if (one["correct"] > 0) == right] for right in (True, False)]
            axes.hist(split, bins=edges, stacked=True, color=[PALETTE[0], PALETTE[3]], label=["right", "wrong"])
            axes.set(xlabel="tokens", title=f"answers to held-out prompts, {title}")
            axes.grid(axis="y")
        figure.axes[1].sharey(figure.axes[0])
        figure.axes[0].legend(fontsize=8.5)
        return Figure(to_svg(figure), "One answer to each held-out prompt.")


def _facts(fitted: Fitted) -> dict[str, Any]:
    def mean(rows: Measured, name: str) -> float:
        return float(np.mean([row[name] for row in rows]))

    facts: dict[str, Any] = {
        "steps": fitted.steps,
        "resumed_from_step": fitted.resumed,
        "prompts": fitted.trained,
        "measured_prompts": len(fitted.after),
        "accuracy_before": mean(fitted.before, "correct"),
        "accuracy": mean(fitted.after, "correct"),
        "length_before": mean(fitted.before, "length"),
        "length": mean(fitted.after, "length"),
        "cut_before": 1 - mean(fitted.before, "ended"),
        "cut": 1 - mean(fitted.after, "ended"),
        "penalised_groups": float(np.mean([log["smartthinker/penalised_groups"] for log in fitted.history])),
    }
    known = facts["accuracy_before"] > 0
    facts["ae_score"] = (
        ae_score(facts["length"], facts["accuracy"], facts["length_before"], facts["accuracy_before"])
        if known else None
    )  # fmt: skip
    return facts


def _changes(facts: dict[str, Any]) -> Table:
    rows = [
        ("accuracy", facts["accuracy_before"], facts["accuracy"]),
        ("mean length, tokens", facts["length_before"], facts["length"]),
        ("answers cut off at the limit, share", facts["cut_before"], facts["cut"]),
        ("AE score", 0.0, facts["ae_score"]),
    ]
    return Table(("", "before", "after"), rows, f"{facts['measured_prompts']} held-out prompts, one answer each")


def _branches(fitted: Fitted) -> Table:
    parts = np.array_split(np.arange(len(fitted.history)), 2) if len(fitted.history) > 1 else [np.array([0])] * 2
    rows = [
        (label, *(float(np.mean([fitted.history[row][f"smartthinker/branch_{branch.name.lower()}"] for row in rows]))
                  for rows in parts))
        for branch, label in BRANCHES.items()
    ]  # fmt: skip
    return Table(("share of groups", "first half", "second half"), rows, "How targets were found")


def _sentences(facts: dict[str, Any]) -> str:
    error = 1.96 * (max(facts["accuracy"] * (1 - facts["accuracy"]), 0.05) / facts["measured_prompts"]) ** 0.5
    text = (
        f"Trained {facts['steps']} steps on {facts['prompts']} prompts; answers to {facts['measured_prompts']} "
        f"held-out prompts have {facts['length']:.3g} tokens on average, {facts['length_before']:.3g} before, "
        f"and {facts['accuracy']:.0%} are right, {facts['accuracy_before']:.0%} before (give or take {error:.0%})."
    )
    if facts["penalised_groups"] < RARE:
        text += (
            f" Only {facts['penalised_groups']:.0%} of the groups held a penalised answer, so that this was mostly "
            "plain GRPO: prompts of middling difficulty or more --generations give it something to do."
        )
    if facts["cut_before"] > MANY_CUT:
        text += (
            f" Before training {facts['cut_before']:.0%} of the answers were cut off and count as wrong, which pulls "
            "targets down; raise --max-tokens."
        )
    return text
