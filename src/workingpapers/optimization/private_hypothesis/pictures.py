"""The pictures of the report: the released distribution, and what a budget buys. Neither shows a private record."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from workingpapers.foundations.figures import INK, PALETTE, canvas, to_svg
from workingpapers.foundations.outcome import Figure
from workingpapers.optimization.private_hypothesis.covers import Cover
from workingpapers.optimization.private_hypothesis.selection import error_bound

Floats = NDArray[np.float64]


def cover_picture(cover: Cover, index: int) -> Figure:
    """Draw the chosen member of a cover over a few of the others.

    Args:
        cover: The cover.
        index: The chosen member.
    """
    middles = cover.edges if cover.family.counts else (cover.edges[1:] + cover.edges[:-1]) / 2
    widths = np.ones(len(middles)) if cover.family.counts else np.diff(cover.edges)
    inner = slice(0, -1) if cover.family.counts else slice(1, -1)
    with canvas(7.4, 3.3) as figure:
        axes = figure.axes[0]
        for other in np.linspace(0, len(cover.table) - 1, 15).astype(int):
            axes.plot(middles, cover.table[other, inner] / widths, color="#8a8f98", linewidth=0.7, alpha=0.6)
        axes.plot(middles, cover.table[index, inner] / widths, color=PALETTE[0], linewidth=2.4, label="released")
        axes.plot([], [], color="#8a8f98", linewidth=0.7, label=f"15 of {len(cover.table):,} candidates")
        axes.set(xlabel="value", ylabel="probability" if cover.family.counts else "density")
        if not cover.family.location and not cover.family.counts:
            axes.set_xscale("log")
        # One narrow candidate must not flatten the released curve.
        axes.set_ylim(0, 2.2 * float((cover.table[index, inner] / widths).max()))
        axes.legend(loc="upper right", fontsize=8.5)
        return Figure(to_svg(figure), "The released distribution among the public candidates; no record is drawn.")


def table_picture(domain: Sequence[str], probabilities: Floats, name: str) -> Figure:
    """Draw the chosen distribution on its finite domain.

    Args:
        domain: Values, X of them.
        probabilities: Shape (X,).
        name: Of the chosen candidate.
    """
    with canvas(7.4, 3.0) as figure:
        axes = figure.axes[0]
        axes.bar(np.arange(len(domain)), probabilities, color=PALETTE[0], width=0.75)
        shown = np.unique(np.linspace(0, len(domain) - 1, min(len(domain), 12)).astype(int))
        longest = max(len(domain[k]) for k in shown)
        axes.set_xticks(shown, [domain[k] if len(domain[k]) <= 18 else domain[k][:17] + "…" for k in shown],
                        rotation=0 if longest * len(shown) <= 80 else 35,
                        ha="center" if longest * len(shown) <= 80 else "right")  # fmt: skip
        axes.set(ylabel="probability", title=name if len(name) <= 70 else name[:69] + "…")
        return Figure(to_svg(figure), "The released distribution; no record is drawn.")


def bound_picture(candidates: int, records: int, epsilon: float, beta: float, extra: float) -> Figure:
    """Draw the error bound against the number of records for several budgets.

    Args:
        candidates: n.
        records: s of this release.
        epsilon: Of this release.
        beta: Probability of failure.
        extra: What the cover adds.
    """
    sizes = np.unique(np.geomspace(max(10, records / 30), records * 30, 60).astype(int))
    budgets = [epsilon / 10, epsilon, epsilon * 10]
    with canvas(7.4, 3.3) as figure:
        axes = figure.axes[0]
        for budget, colour in zip(budgets, (PALETTE[1], PALETTE[0], PALETTE[2]), strict=True):
            curve = [min(1.0, error_bound(candidates, int(size), budget, beta) + extra) for size in sizes]
            axes.plot(sizes, curve, color=colour, label=f"epsilon {budget:g}")
        here = min(1.0, error_bound(candidates, records, epsilon, beta) + extra)
        axes.plot([records], [here], "o", color=INK, markersize=7, label="this release")
        axes.set(xscale="log", xlabel="records", ylabel="bound on the total variation", ylim=(0, 1.05))
        axes.grid(axis="y")
        figure.legend(*axes.get_legend_handles_labels(), loc="outside upper right", ncols=4, fontsize=8.5)
        return Figure(to_svg(figure), "What more records or a larger budget would buy, where a candidate is right. The "
                      "bound is proved and loose; measured errors are several times smaller.")  # fmt: skip
