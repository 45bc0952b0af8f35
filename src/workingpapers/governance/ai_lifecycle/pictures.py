"""Figures of the reports: a Sankey diagram, profiles over categories, a tornado, the course over the volume, ratios."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from workingpapers.foundations.figures import INK, PALETTE, canvas, to_svg
from workingpapers.foundations.outcome import Figure, format_cell
from workingpapers.governance.ai_lifecycle.assessment import Result
from workingpapers.governance.ai_lifecycle.attribution import break_even_volume
from workingpapers.governance.ai_lifecycle.comparison import Comparison
from workingpapers.governance.ai_lifecycle.impacts import SOURCES, category_title, category_unit
from workingpapers.governance.ai_lifecycle.sensitivity import Swing

GREY = "#8a8f98"


def sankey(result: Result, category: str) -> Figure:
    """Draw where the burden arises (stages) and what it comes from (sources), bands to scale."""
    table = result.by_stage()[:, :, result.categories.index(category)]
    total = table.sum()
    kept = [o for o in range(len(SOURCES)) if table[:, o].sum() > 0]
    gap = 0.05 * total
    left = _stack(table.sum(axis=1), gap, total)
    right = _stack(table[:, kept].sum(axis=0), gap, total)
    with canvas(7.6, 0.9 + 0.62 * max(len(left), 4)) as figure:
        axes = figure.axes[0]
        at_left, at_right = left[:, 1].copy(), right[:, 1].copy()
        for i in range(len(left)):
            for p, o in enumerate(kept):
                width = table[i, o]
                if width <= 0:
                    continue
                axes.add_patch(_band(at_left[i], at_right[p], width, PALETTE[o]))
                at_left[i] -= width
                at_right[p] -= width
        heights = _apart(left.mean(axis=1), 0.09 * total)
        lowest = heights.min()
        for (low, high), name, height in zip(left, result.stages, heights, strict=True):
            axes.fill([-0.02, 0, 0, -0.02], [low, low, high, high], color=GREY, linewidth=0)
            axes.text(-0.04, height, f"{_words(name)} {(high - low) / total:.1%}", ha="right", va="center")
        heights = _apart(right.mean(axis=1), 0.09 * total)
        for (low, high), o, height in zip(right, kept, heights, strict=True):
            axes.fill([1, 1.02, 1.02, 1], [low, low, high, high], color=PALETTE[o], linewidth=0)
            axes.text(1.04, height, f"{SOURCES[o]} {(high - low) / total:.1%}", ha="left", va="center")
        ends = np.concatenate([left.ravel(), right.ravel(), [min(lowest, heights.min()) - 0.05 * total]])
        axes.set(xlim=(-0.6, 1.5), ylim=(ends.min(), ends.max()))
        axes.axis("off")
        svg = to_svg(figure)
    unit = category_unit(result.study, category)
    return Figure(svg, f"{category_title(result.study, category)}: {format_cell(float(total))} {unit} for "
                  f"{result.study.functional_unit.name}, from stages (left) to what causes it (right).")  # fmt: skip


def profile(result: Result) -> Figure:
    """Draw the share of every stage in every category: what one category hides."""
    table = result.by_stage().sum(axis=1)
    share = table / table.sum(axis=0)
    names = [category_title(result.study, name) for name in result.categories]
    with canvas(7.6, 1.3 + 0.34 * len(names)) as figure:
        axes = figure.axes[0]
        start = np.zeros(len(names))
        for i, stage in enumerate(result.stages):
            # More stages than colours: the palette comes again, hatched.
            hatch = "" if i < len(PALETTE) else "///"
            axes.barh(names, share[i], left=start, label=_words(stage), color=PALETTE[i % len(PALETTE)], hatch=hatch)
            start += share[i]
        axes.invert_yaxis()
        axes.set(xlim=(0, 1), xlabel="share of the category's total")
        axes.xaxis.set_major_formatter("{x:.0%}")
        figure.legend(loc="outside upper center", ncols=4)
        return Figure(to_svg(figure), "Contribution of each stage, category by category.")


def tornado(swings: Sequence[Swing], central: float, unit: str, shown: int = 10) -> Figure:
    """Draw what each input does alone between its 10th and 90th percentile."""
    rows = list(swings[:shown])
    with canvas(7.6, 1.0 + 0.34 * max(1, len(rows))) as figure:
        axes = figure.axes[0]
        for i, swing in enumerate(rows):
            axes.barh(
                i,
                swing.low - central,
                left=central,
                color=PALETTE[0],
                label="input at its 10th percentile" if i == 0 else None,
            )
            axes.barh(
                i,
                swing.high - central,
                left=central,
                color=PALETTE[1],
                label="input at its 90th percentile" if i == 0 else None,
            )
        axes.axvline(central, color=INK, linewidth=0.8)
        axes.set_yticks(range(len(rows)), [swing.name for swing in rows])
        axes.invert_yaxis()
        axes.set_xlabel(f"{unit} for one functional unit")
        if rows:
            figure.legend(loc="outside upper center", ncols=2)
        return Figure(
            to_svg(figure), "One input at a time, all others at their central values; the line is the central total."
        )


def over_volume(results: Mapping[str, Result], category: str) -> Figure:
    """Draw the burden of one functional unit over the volume of the model's life, with the break-even points."""
    first = next(iter(results.values()))
    amount, unit = first.study.functional_unit.amount, category_unit(first.study, category)
    declared = first.study.medians["functional_unit.volume"]
    points = {}
    for name, result in results.items():
        upstream, marginal = result.upstream_and_marginal(category)
        points[name] = (
            upstream,
            marginal,
            break_even_volume(upstream, marginal) if upstream > 0 < marginal else np.nan,
        )
    marks = [declared, *(item[2] for item in points.values() if np.isfinite(item[2]))]
    volume = np.geomspace(min(marks) / 100, max(marks) * 100, 200)
    with canvas(7.6, 3.6) as figure:
        axes = figure.axes[0]
        for i, (name, (upstream, marginal, even)) in enumerate(points.items()):
            colour = PALETTE[i % len(PALETTE)]
            axes.loglog(volume, amount * (upstream / volume + marginal), color=colour, label=name)
            if np.isfinite(even):
                axes.plot(even, amount * 2 * marginal, "o", color=colour)
        axes.axvline(declared, color=INK, linestyle=":", linewidth=1)
        axes.text(declared, 0.98, " declared volume", transform=axes.get_xaxis_transform(), va="top")
        axes.set(
            xlabel=f"{first.study.functional_unit.unit}s over the model's life",
            ylabel=f"{unit} for one functional unit",
        )
        axes.grid(True)
        if len(points) > 1:
            figure.legend(loc="outside upper center", ncols=3)
        return Figure(
            to_svg(figure), "The dot is the volume at which serving has cost as much as all that came before it."
        )


def ratios(comparisons: Mapping[str, Comparison], base: str) -> Figure:
    """Draw the ratio to the base with its 95 % interval from paired draws."""
    with canvas(7.6, 1.0 + 0.4 * len(comparisons)) as figure:
        axes = figure.axes[0]
        for i, item in enumerate(comparisons.values()):
            low, middle, high = item.ratio
            axes.plot([low, high], [i, i], color=PALETTE[0], linewidth=3, solid_capstyle="butt")
            axes.plot(middle, i, "o", color=PALETTE[0])
            axes.annotate(
                f"P(lower) = {item.probability:.2f}", (high, i), xytext=(8, 0), textcoords="offset points", va="center"
            )
        axes.axvline(1, color=INK, linewidth=0.8)
        axes.set_yticks(range(len(comparisons)), list(comparisons))
        axes.set_ylim(len(comparisons) - 0.5, -0.5)
        axes.margins(x=0.25)
        axes.set_xlabel(f"ratio to {base}")
        return Figure(to_svg(figure), "Ratio with its 95 % interval over paired draws; left of the line is lower.")


def _stack(sizes: np.ndarray, gap: float, total: float) -> np.ndarray:
    """Return (low, high) of blocks of these sizes stacked from above and centred, shape (n, 2)."""
    top = (total + gap * (len(sizes) - 1)) / 2
    spans = []
    for size in sizes:
        spans.append((top - size, top))
        top -= size + gap
    return np.array(spans)


def _apart(centers: np.ndarray, distance: float) -> np.ndarray:
    """Return heights of labels, each at least `distance` below the one before."""
    heights = centers.copy()
    for i in range(1, len(heights)):
        heights[i] = min(heights[i], heights[i - 1] - distance)
    return heights


def _band(left: float, right: float, width: float, colour: str) -> Any:
    from matplotlib.patches import PathPatch
    from matplotlib.path import Path

    upper = [(0, left), (0.5, left), (0.5, right), (1, right)]
    lower = [(1, right - width), (0.5, right - width), (0.5, left - width), (0, left - width)]
    codes = [Path.MOVETO, *[Path.CURVE4] * 3, Path.LINETO, *[Path.CURVE4] * 3]
    return PathPatch(Path([*upper, *lower], codes), facecolor=colour, alpha=0.45, linewidth=0)


def _words(name: str) -> str:
    return name.replace("_", " ")
