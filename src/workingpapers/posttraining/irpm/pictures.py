"""The pictures of the reports: training and scores of a judge, and the scores of ranked candidates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from workingpapers.foundations.figures import INK, PALETTE, canvas, to_svg
from workingpapers.foundations.outcome import Figure


def training_picture(history: Sequence[Mapping[str, float]], low: float, high: float, scores: Sequence[Sequence[float]],
                     before: float, after: float) -> Figure:  # fmt: skip
    """Draw how the judge gets on in training, and its scores of held-out pairs afterwards.

    Args:
        history: Logs with step, irpm/accuracy, irpm/ties and irpm/unparsable.
        low: Least score.
        high: Largest score.
        scores: Scores of chosen and of rejected responses, (n,) each.
        before: Greedy accuracy on held-out pairs before training.
        after: The same after training.
    """
    marker = "o" if len(history) < 30 else ""
    with canvas(7.6, 3.4, columns=2) as figure:
        left, right = figure.axes
        for name, key, colour in (("pairs in right order", "accuracy", PALETTE[0]), ("ties", "ties", PALETTE[1]),
                                  ("unparsable", "unparsable", PALETTE[3])):  # fmt: skip
            known = [(log["step"], log[f"irpm/{key}"]) for log in history if f"irpm/{key}" in log]
            if known:
                left.plot(*zip(*known, strict=True), marker=marker, markersize=3, color=colour, label=name)
        left.axhline(0.5, color=INK, linewidth=0.6, linestyle=":")
        left.set(xlabel="step", title="training pairs, means of groups", ylim=(-0.02, 1.02))
        left.legend(fontsize=8.5, loc="lower right", bbox_to_anchor=(1.0, 0.12))
        step = (high - low) / 20
        edges = np.arange(low - step / 2, high + step, step).tolist()
        right.hist(
            [list(side) for side in scores], bins=edges, color=[PALETTE[0], PALETTE[3]], label=["chosen", "rejected"]
        )
        right.set(xlabel="score", title="held-out responses after training")
        right.legend(fontsize=8.5)
        for axes in (left, right):
            axes.grid(axis="y")
        return Figure(
            to_svg(figure),
            f"One greedy judgement each orders {after:.0%} of the held-out pairs rightly, {before:.0%} before "
            "training; ties count half.",
        )


def ranking_picture(scores: Sequence[np.ndarray], low: float, high: float) -> Figure:
    """Draw the scores of the candidates of each request, best request first.

    Args:
        scores: Scores of each request's candidates, NaN where unparsable, (n,) each.
        low: Least score.
        high: Largest score.
    """
    order = sorted(range(len(scores)), key=lambda row: -np.nanmax(np.r_[scores[row], low]))[:60]
    with canvas(7.6, 3.2) as figure:
        axes = figure.axes[0]
        for place, row in enumerate(order, 1):
            values = scores[row][~np.isnan(scores[row])]
            if len(values):
                axes.plot([place, place], [values.min(), values.max()], color=INK, linewidth=0.6, alpha=0.4)
                axes.scatter([place] * len(values), values, s=16, color=PALETTE[5], zorder=2)
                axes.scatter([place], [values.max()], s=26, color=PALETTE[0], zorder=3)
        axes.set(xlabel="request, best first", ylabel="score", ylim=(low - 0.3, high + 0.3))
        axes.grid(axis="y")
        if len(order) <= 20:
            axes.set_xticks(range(1, len(order) + 1))
        return Figure(to_svg(figure), "Candidates of each request; the dark ones are the best of theirs.")
