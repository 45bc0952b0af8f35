"""The pictures of the report: training, and the margins of the units."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from workingpapers.foundations.figures import INK, PALETTE, canvas, to_svg
from workingpapers.foundations.outcome import Figure

BINS = 10


def training_picture(history: Sequence[Mapping[str, float]]) -> Figure:
    """Draw implicit rewards and accuracies against the step.

    Args:
        history: Logs of the trainer with step, rewards/chosen, rewards/rejected, rewards/accuracies and
            adpo/unit_accuracies, shape (n,) each.
    """
    steps = [log["step"] for log in history]
    marker = "o" if len(steps) < 30 else ""
    with canvas(7.6, 3.3, columns=2) as figure:
        left, right = figure.axes
        left.axhline(0, color=INK, linewidth=0.6)
        for name, colour in (("chosen", PALETTE[0]), ("rejected", PALETTE[3])):
            left.plot(steps, [log[f"rewards/{name}"] for log in history], marker=marker, markersize=3, color=colour,
                      label=name)  # fmt: skip
        left.set(xlabel="step", title="implicit reward (β × log-ratio)")
        left.legend(fontsize=8.5)
        for name, key, colour in (("pairs", "rewards/accuracies", PALETTE[0]),
                                  ("units", "adpo/unit_accuracies", PALETTE[1])):  # fmt: skip
            right.plot(steps, [log[key] for log in history], marker=marker, markersize=3, color=colour, label=name)
        right.set(xlabel="step", title="share with a positive margin", ylim=(-0.02, 1.02))
        right.legend(loc="lower right", fontsize=8.5)
        for axes in (left, right):
            axes.grid(axis="y")
        return Figure(
            to_svg(figure),
            "Training pairs. Both rewards falling means that chosen responses lose probability too, only more slowly.",
        )


def margin_picture(margins: Sequence[float], places: Sequence[float]) -> Figure:
    """Draw how margins of units are spread, and where in the response they arise.

    Args:
        margins: Margins of units, shape (n,).
        places: Where each unit stands in its response, from 0 to 1, shape (n,).
    """
    values, spots = np.asarray(margins), np.asarray(places)
    count = min(BINS, len(np.unique(spots.round(6))))  # no gaps between the bars of few units
    bins = np.minimum((spots * count).astype(int), count - 1)
    used = np.unique(bins)
    with canvas(7.6, 3.3, columns=2) as figure:
        left, right = figure.axes
        edges = np.linspace(min(values.min(), 0.0), max(values.max(), 1e-6), 31).tolist()
        left.hist(values[values > 0], bins=edges, color=PALETTE[0], label="right")
        left.hist(values[values <= 0], bins=edges, color=PALETTE[3], label="wrong or equal")
        left.axvline(0, color=INK, linewidth=0.6)
        left.set(xlabel="margin of a unit", title="number of units")
        left.legend(fontsize=8.5)
        right.bar((used + 0.5) / count, [values[bins == place].mean() for place in used], width=0.8 / count,
                  color=PALETTE[0])  # fmt: skip
        right.axhline(0, color=INK, linewidth=0.6)
        right.set(xlabel="place in the response, start to end", title="mean margin", xlim=(0, 1))
        for axes in (left, right):
            axes.grid(axis="y")
        return Figure(
            to_svg(figure),
            "Measured pairs after training. Where both responses begin alike the margin is 0 for every policy.",
        )
