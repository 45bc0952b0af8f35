"""The pictures of a run: the time of a pass by its tokens, and the simulated gain by the number of ranks."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from workingpapers.foundations.figures import PALETTE, canvas, to_svg
from workingpapers.foundations.outcome import Figure
from workingpapers.posttraining.bubblespec.cluster import Simulated, StepTime


def time_picture(timed: StepTime) -> Figure:
    """Draw the measured time of a pass and the law fitted to it.

    Args:
        timed: Measured times.
    """
    with canvas(6.4, 3.2) as figure:
        axes = figure.axes[0]
        axes.plot(timed.tokens, np.array(timed.seconds) * 1e3, "o", color=PALETTE[0], label="measured")
        grid = np.geomspace(min(timed.tokens), max(timed.tokens), 200)
        law = timed.step_time * np.maximum(1, grid / timed.saturation) * 1e3
        axes.plot(grid, law, color=PALETTE[1], label=f"fit, saturation at {timed.saturation} tokens")
        axes.set(xscale="log", xlabel="tokens of a pass", ylabel="milliseconds")
        axes.set_ylim(bottom=0)
        axes.set_xticks(timed.tokens, [str(count) for count in timed.tokens])
        axes.minorticks_off()
        axes.grid(axis="y")
        axes.legend()
        return Figure(to_svg(figure), "Where a pass takes no longer for more tokens, checking drafts is free.")


def rank_picture(gains: Mapping[int, Simulated]) -> Figure:
    """Draw the simulated idle share and gain by the number of ranks.

    Args:
        gains: Number of ranks -> what was simulated.
    """
    ranks = list(gains)
    with canvas(7.6, 3.2, 1, 2) as figure:
        left, right = figure.axes
        left.plot(ranks, [100 * one.idle for one in gains.values()], "o-", color=PALETTE[0])
        left.set(xscale="log", xlabel="ranks (simulated)", ylabel="rank time idle without drafts, %")
        left.set_ylim(0, 100)
        right.plot(ranks, [one.speedup for one in gains.values()], "o-", color=PALETTE[2])
        right.axhline(1, color="#8a8f98", linewidth=0.8)
        right.set(xscale="log", xlabel="ranks (simulated)", ylabel="times as fast with drafts")
        for axes in (left, right):
            axes.set_xticks(ranks, [str(count) for count in ranks])
            axes.minorticks_off()
            axes.grid(axis="y")
        return Figure(to_svg(figure), "Simulated from the measured lengths, acceptance and time of a pass.")
