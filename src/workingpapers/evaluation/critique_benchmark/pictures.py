"""The picture of both ratings."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from workingpapers.foundations.figures import INK, PALETTE, canvas, to_svg
from workingpapers.foundations.outcome import Figure

if TYPE_CHECKING:
    import pandas as pd

MOST = 40


def ratings_picture(ratings: pd.DataFrame) -> Figure:
    """Draw answering and benchmarking strength side by side, each with its 95 % interval.

    Args:
        ratings: Columns model, beta, beta_low, beta_high, alpha, alpha_low, alpha_high, best answerer first; the first
            40 are drawn.
    """
    shown = ratings.head(MOST).iloc[::-1]
    names = [name if len(name) <= 32 else f"…{name[-31:]}" for name in shown["model"]]
    place = np.arange(len(shown))
    with canvas(7.6, 1.3 + 0.3 * len(shown), columns=2) as figure:
        ends = shown[["beta_low", "beta_high", "alpha_low", "alpha_high"]].to_numpy(dtype=float)
        low, high = np.nanmin(ends), np.nanmax(ends)
        margin = 0.04 * (high - low)
        for axes, skill, title, color in zip(
            figure.axes, ("beta", "alpha"), ("Answering", "Benchmarking"), PALETTE, strict=False
        ):
            values, left, right = (shown[f"{skill}{end}"].to_numpy(dtype=float) for end in ("", "_low", "_high"))
            axes.axvline(0, color=INK, alpha=0.3, linewidth=0.8)
            axes.hlines(place, left, right, color=color, linewidth=2.2, alpha=0.55)
            axes.plot(values, place, "o", color=color, markersize=6)
            axes.set_xlim(low - margin, high + margin)
            axes.set_ylim(-0.6, len(shown) - 0.4)
            axes.set_title(title)
            axes.set_xlabel("strength, log-odds")
            axes.set_yticks(place, names if skill == "beta" else [""] * len(names))
            axes.tick_params(axis="y", length=0)
            axes.grid(axis="x")
            axes.spines["left"].set_visible(False)
        caption = "Strengths with 95 % intervals, best answerer on top; further right is stronger."
        if len(ratings) > MOST:
            caption += f" The best {MOST} of {len(ratings)} models."
        return Figure(to_svg(figure), caption)
