"""Figures of the reports."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from workingpapers.foundations.figures import INK, PALETTE, canvas, to_svg
from workingpapers.foundations.outcome import Figure
from workingpapers.governance.arms_control.cooperation import Dilemma, critical_detection
from workingpapers.governance.arms_control.escalation import RunScore
from workingpapers.governance.arms_control.inspection import detection_probability
from workingpapers.governance.arms_control.inspection_game import stage
from workingpapers.governance.arms_control.oversight import Cusum
from workingpapers.governance.arms_control.richardson import (
    Balance,
    critical_reactions,
    equilibrium,
    margin,
    ranking,
    simulate,
)


def phase_portrait(balance: Balance) -> Figure:
    """Draw motion, lines of rest and equilibrium of two actors; the right panel shows where a b = m n."""
    point = equilibrium(balance)
    stable = margin(balance) > 0
    # The picture must hold the equilibrium and some room on both sides, also where it repels at negative levels.
    span = max(1.0, 1.6 * float(np.abs(point).max()))
    low = min(0.0, 1.3 * float(point.min()))
    axis = np.linspace(low, span, 28)
    x, y = np.meshgrid(axis, axis)
    j, g = balance.jacobian, balance.grievance
    dx, dy = j[0, 0] * x + j[0, 1] * y + g[0], j[1, 0] * x + j[1, 1] * y + g[1]
    first, second = balance.actors
    with canvas(8.4, 3.9, columns=2) as figure:
        plane, thresholds = figure.axes
        plane.streamplot(x, y, dx, dy, color="#8a8f98", linewidth=0.8, density=0.9, arrowsize=0.8)
        for row, (name, colour) in enumerate(zip(balance.actors, PALETTE[:2], strict=True)):
            level = -(j[row, 0] * x + g[row]) / j[row, 1] if row else -(j[0, 1] * y + g[0]) / j[0, 0]
            across, up = (x[0], level[0]) if row else (level[:, 0], y[:, 0])
            plane.plot(across, up, color=colour, label=f"{name} at rest")
        face = PALETTE[2] if stable else PALETTE[3]
        plane.plot(*point, "o", color=face, markersize=8, label=f"{'stable' if stable else 'unstable'} equilibrium")
        plane.set(xlim=(low, span), ylim=(low, span), xlabel=f"level of {first}", ylabel=f"level of {second}")
        figure.legend(*plane.get_legend_handles_labels(), loc="outside lower left", ncols=3, fontsize=8.5)
        a, b, product = balance.reaction[0, 1], balance.reaction[1, 0], float(np.prod(-np.diag(j)))
        top = 1.5 * max(a, b, math.sqrt(product))
        grid = np.linspace(1e-3 * top, top, 300)
        thresholds.fill_between(grid, np.minimum(product / grid, top), alpha=0.15, color=PALETTE[2], linewidth=0)
        thresholds.plot(grid, product / grid, color=PALETTE[2])
        thresholds.plot(a, b, "o", color=face, markersize=8)
        thresholds.annotate("this balance", (a, b), xytext=(0, -18), textcoords="offset points", ha="center")
        thresholds.text(0.05, 0.06, "stable", transform=thresholds.transAxes)
        thresholds.text(0.95, 0.92, "unstable", transform=thresholds.transAxes, ha="right")
        thresholds.set(
            xlim=(0, top), ylim=(0, top), xlabel=f"reaction of {first} to {second}",
            ylabel=f"reaction of {second} to {first}",
        )  # fmt: skip
        return Figure(
            to_svg(figure),
            "Left: motion of the two levels; each actor is at rest on its line. Right: below the curve a b = m n the "
            "balance is stable.",
        )


def reactions_picture(balance: Balance) -> Figure:
    """Draw levels over time and, for each reaction, how far it stands from its own threshold."""
    unit = 1.0 / float(balance.fatigue.min())
    fastest = float(np.abs(np.linalg.eigvals(balance.jacobian)).max())
    times, levels = simulate(balance, np.zeros(balance.fatigue.size), 12 * unit, step=min(0.05 * unit, 0.05 / fastest))
    places = ranking(balance)[:10] or [(0.0, int(i), int(j)) for i, j in np.argwhere(balance.reaction > 0)[:10]]
    critical = critical_reactions(balance)
    with canvas(8.4, 3.9, columns=2) as figure:
        course, bars = figure.axes
        for k, name in enumerate(balance.actors):
            course.plot(times, levels[:, k], label=name, linestyle="-" if k < len(PALETTE) else "--")
        course.set(xlabel="time", ylabel="level, from 0")
        course.legend(fontsize=8.5)
        labels = [f"{balance.actors[i]} to {balance.actors[j]}" for _, i, j in places]
        bars.barh(labels, [balance.reaction[i, j] for _, i, j in places], color=PALETTE[0], height=0.6)
        limits = [critical[i, j] if np.isfinite(critical[i, j]) else np.nan for _, i, j in places]
        bars.plot(limits, labels, "|", color=PALETTE[3], markersize=14, markeredgewidth=2.5, label="threshold")
        bars.invert_yaxis()
        bars.set(xlabel="reaction", xlim=(0, None))
        figure.legend(*bars.get_legend_handles_labels(), loc="outside lower right", fontsize=8.5)
        return Figure(
            to_svg(figure),
            "Left: the levels from 0. Right: the strongest reactions, the one to constrain first on top, each with the "
            "value at which it alone brings the balance to its threshold.",
        )


def cooperation_map(game: Dilemma, discount: float | None, detection: float | None, false_alarm: float) -> Figure:
    """Draw the least detection probability over the discount factor, without and with false alarms."""
    grid = np.linspace(0.01, 0.995, 400)
    with canvas(5.6, 3.5) as figure:
        axes = figure.axes[0]
        rates = sorted({0.0, false_alarm or 0.05, 2 * (false_alarm or 0.05)})
        for rate, colour in zip(rates, PALETTE, strict=False):
            least = [critical_detection(game, float(delta), min(rate, 1.0)) for delta in grid]
            axes.plot(grid, least, color=colour, label=f"false alarms {rate:.3g}")
        if discount is not None and detection is not None:
            axes.plot(discount, detection, "o", color=PALETTE[3], markersize=8, label="as given")
        axes.set(xlim=(0, 1), ylim=(0, 1.02), xlabel="discount factor", ylabel="detection per period")
        axes.legend(fontsize=8.5, loc="upper left", title="complying pays above")
        return Figure(to_svg(figure), "Least detection probability at which complying pays, by weight of the future.")


def detection_curves(size: int, violations: Sequence[int], count: int, wanted: float | None, miss: float) -> Figure:
    """Draw detection probability over the sample size for several numbers of violations; the plan is marked."""
    counts = np.unique(np.linspace(0, size, 220).astype(int))
    with canvas(6.6, 3.6) as figure:
        axes = figure.axes[0]
        for number, colour in zip(violations, PALETTE, strict=False):
            curve = [detection_probability(size, number, int(n), miss) for n in counts]
            label = f"{number} violation{'s' if number > 1 else ''}"
            axes.plot(counts, curve, color=colour, label=label)
        if wanted is not None:
            axes.axhline(wanted, color=INK, linewidth=0.8, linestyle=":")
        axes.axvline(count, color=INK, linewidth=0.8, linestyle="--")
        axes.annotate(f"{count} inspected", (count, 0.03), xytext=(5, 0), textcoords="offset points")
        axes.set(xlim=(0, size), ylim=(0, 1.02), xlabel=f"items inspected, of {size}", ylabel="detection probability")
        axes.legend(fontsize=8.5, loc="center right")
        return Figure(to_svg(figure), "Probability that the sample exposes at least one violation.")


def game_picture(periods: int, inspections: int) -> Figure:
    """Draw the optimal probability of inspecting now over the periods left, for each number of inspections left."""
    with canvas(5.6, 3.4) as figure:
        axes = figure.axes[0]
        for left, colour in zip(range(1, min(inspections, len(PALETTE)) + 1), PALETTE, strict=False):
            span = np.arange(1, periods + 1)
            axes.plot(span, [float(stage(int(n), left).inspect) for n in span], "o-", color=colour, markersize=3.5,
                      label=f"{left} left")  # fmt: skip
        axes.set(xlabel="periods left", ylabel="probability of inspecting now", ylim=(0, 1.05))
        axes.legend(fontsize=8.5, title="inspections")
        return Figure(to_svg(figure), "Optimal play against somebody who waits for the right moment to violate.")


def escalation_picture(scores: Sequence[RunScore], seed: int) -> Figure:
    """Draw the daily escalation of each model: the mean over runs and its 95 % bootstrap band."""
    models = sorted({score.model for score in scores})
    rng = np.random.default_rng(seed)
    with canvas(7.0, 3.6) as figure:
        axes = figure.axes[0]
        for place, model in enumerate(models):
            colour, line = PALETTE[place % len(PALETTE)], ("-", "--", ":")[place // len(PALETTE) % 3]
            runs = [score.daily for score in scores if score.model == model]
            longest = max(run.size for run in runs)
            table = np.full((len(runs), longest), np.nan)
            for row, run in enumerate(runs):
                table[row, : run.size] = run
            days = np.arange(1, longest + 1)
            label = f"{model} ({len(runs)} run{'s' if len(runs) > 1 else ''})"
            axes.plot(days, np.nanmean(table, axis=0), line, color=colour, label=label)
            # Days that only some runs reach would show less uncertainty than there is.
            shared = np.isfinite(table).all(axis=0)
            if len(runs) < 2:
                continue
            whole = table[:, shared]
            draws = np.stack([whole[rng.integers(0, len(runs), len(runs))].mean(axis=0) for _ in range(400)])
            low, high = np.quantile(draws, [0.025, 0.975], axis=0)
            axes.fill_between(days[shared], low, high, color=colour, alpha=0.18, linewidth=0)
        axes.set(xlabel="day", ylabel="escalation score per actor")
        figure.legend(*axes.get_legend_handles_labels(), loc="outside upper left", ncols=4, fontsize=8.5)
        return Figure(to_svg(figure), "Mean over runs with 95 % bootstrap bands that resample whole runs.")


def oversight_picture(overrides: np.ndarray[Any, Any], total: np.ndarray[Any, Any], chart: Cusum) -> Figure:
    """Draw the daily override rate and the control chart that watches for its fading."""
    days = np.arange(1, total.size + 1)
    with canvas(7.0, 4.2, rows=2) as figure:
        rates, statistic = figure.axes
        rates.plot(days, overrides / np.maximum(total, 1), "o", markersize=3, color=PALETTE[0])
        rates.axhline(chart.baseline, color=INK, linewidth=0.8, linestyle=":")
        rates.set(ylabel="override rate", ylim=(0, None))
        statistic.plot(days, chart.statistic, color=PALETTE[1])
        statistic.axhline(chart.threshold, color=PALETTE[3], linewidth=1.0, linestyle="--")
        if chart.alarm is not None:
            statistic.axvline(chart.alarm, color=INK, linewidth=0.8, linestyle=":")
            statistic.annotate(
                f"alarm on day {chart.alarm}",
                (chart.alarm, 0.85),
                xycoords=("data", "axes fraction"),
                xytext=(-5, 0),
                textcoords="offset points",
                ha="right",
            )
        statistic.set(xlabel="day", ylabel="CUSUM", ylim=(0, None))
        return Figure(
            to_svg(figure),
            "Share of recommendations that a human changed, with the rate in control (dotted), and the chart with its "
            "alarm limit (dashed).",
        )


def compute_picture(parts: Mapping[str, float]) -> Figure:
    """Draw declared, used and possible operations as bars."""
    with canvas(6.0, 2.4) as figure:
        axes = figure.axes[0]
        axes.barh(list(parts), list(parts.values()), color=PALETTE[: len(parts)], height=0.55)
        axes.invert_yaxis()
        axes.set(xlabel="operations")
        return Figure(to_svg(figure), "Operations declared, used according to the logs, and possible.")


def segments_picture(distances: Sequence[tuple[int, float | None, bool]]) -> Figure:
    """Draw the distance of each re-run segment from its committed checkpoint; refused ones stand out."""
    from matplotlib.ticker import MaxNLocator

    floor = 1e-18
    with canvas(7.0, 3.0) as figure:
        axes = figure.axes[0]
        for wanted, colour, label in ((True, PALETTE[2], "reproduced"), (False, PALETTE[3], "refused")):
            chosen = [(k, d) for k, d, accepted in distances if accepted == wanted]
            heights = [max(d, floor) if d is not None and np.isfinite(d) else 1.0 for _, d in chosen]
            if chosen:
                axes.plot([k for k, _ in chosen], heights, "o", color=colour, label=f"{label} ({len(chosen)})")
        axes.set_yscale("log")
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.set(xlabel="segment", ylabel="largest difference", ylim=(floor / 10, None))
        axes.set_ylim(top=max(10.0, axes.get_ylim()[1]))
        figure.legend(*axes.get_legend_handles_labels(), loc="outside upper left", ncols=2, fontsize=8.5)
        return Figure(
            to_svg(figure),
            "Largest difference of a parameter after re-running each segment; exact ones stand at 1e-18, those refused "
            "before re-running at 1.",
        )
