"""The figures of the report."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from workingpapers.evaluation.test_validity.judging import ValidityReport
from workingpapers.foundations.figures import INK, PALETTE, canvas, to_svg
from workingpapers.foundations.outcome import Figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes

HUMAN, AI = PALETTE[0], PALETTE[3]
MARKERS = "osD^v<>ph*"
BINS = 6


def draw_all(report: ValidityReport) -> tuple[Figure, ...]:
    """Return the figures: structure, items, curves of the items that differ most, response styles.

    Args:
        report: What was found.
    """
    drawn = [draw_structure(report), draw_items(report), draw_curves(report)]
    if np.isfinite(report.styles["human"].half_scales) and np.isfinite(report.styles["AI"].half_scales):
        drawn.append(draw_styles(report))
    return tuple(drawn)


def draw_structure(report: ValidityReport) -> Figure:
    """Draw eigenvalues against chance, and the loadings of the two samples against each other.

    Args:
        report: What was found.
    """
    from matplotlib.ticker import MaxNLocator

    with canvas(8.4, 3.8, columns=2) as figure:
        scree, loads = figure.axes
        count = np.arange(1, len(report.study.names) + 1)
        for name, colour, marker in (("human", HUMAN, "o"), ("AI", AI, "s")):
            found = report.parallel[name]
            scree.plot(count, found.eigenvalues, marker + "-", color=colour, ms=4, label=f"{name} ({found.factors})")
            scree.plot(count, found.chance, ":", color=colour, lw=1.2)
        scree.set(xlabel="component", ylabel="eigenvalue", title="Eigenvalues; dotted: 95 % of chance")
        scree.legend(title="sample (factors above chance)")
        scree.xaxis.set_major_locator(MaxNLocator(integer=True))
        _draw_loadings(report, loads)
        return Figure(
            to_svg(figure),
            "Left: how many factors each sample holds. Right: standardised loadings, each sample fitted by itself; an "
            "item that works alike in both lies on the line.",
        )


def _draw_loadings(report: ValidityReport, axes: Axes) -> None:
    if len(report.structure) < 2:
        axes.text(0.5, 0.5, "too few rows for a factor model", ha="center", transform=axes.transAxes)
        axes.set_axis_off()
        return
    study, points = report.study, []
    for name in ("human", "AI"):
        group = report.structure[name].groups[0]
        spread = np.sqrt(np.maximum(np.diag(group.implied()[1]), 1e-12))
        points.append(np.array([group.loading[j, study.pattern[j]][0] for j in range(len(spread))]) / spread)
    low, high = min(0.0, *map(np.min, points)) - 0.08, max(1.0, *map(np.max, points)) + 0.08
    axes.plot([low, high], [low, high], color=INK, lw=0.8, alpha=0.5)
    for k, scale in enumerate(study.scale_names):
        own = study.pattern[:, k]
        axes.plot(
            points[0][own],
            points[1][own],
            MARKERS[k % len(MARKERS)],
            color=PALETTE[k % len(PALETTE)],
            ms=6,
            label=scale,
        )
    named: list[int] = []
    for j in np.argsort(-np.abs(points[1] - points[0])):
        crowded = any(max(abs(points[0][j] - points[0][i]), abs(points[1][j] - points[1][i])) < 0.12 for i in named)
        if abs(points[1][j] - points[0][j]) < 0.25 or crowded or len(named) == 3:
            continue
        named.append(int(j))
        right = points[0][j] > 0.7
        axes.annotate(
            study.names[j], (points[0][j], points[1][j]), (-7 if right else 7, 0),
            textcoords="offset points", va="center", ha="right" if right else "left", fontsize=8.5,
        )  # fmt: skip
    axes.set(xlim=(low, high), ylim=(low, high), xlabel="loading, human", ylabel="loading, AI", title="Loadings")
    axes.legend(loc="upper left", fontsize=8.5)


def draw_items(report: ValidityReport) -> Figure:
    """Draw the effect of every item test with the bounds of its grades.

    Args:
        report: What was found.
    """
    tests = report.items
    delta = report.study.kind == "binary"
    effects = np.array([test.effect if delta else test.direction * test.effect for test in tests])
    bounds = (1.0, 1.5) if delta else (0.035, 0.07)
    limit = max(1.15 * float(np.max(np.abs(effects[np.isfinite(effects)]), initial=0.0)), 1.5 * bounds[1])
    effects = np.clip(effects, -limit, limit)
    with canvas(7.6, 1.3 + 0.22 * len(tests)) as figure:
        axes = figure.axes[0]
        for bound in bounds:
            for sign in (-1, 1):
                axes.axvline(sign * bound, color=INK, lw=0.8, ls=":", alpha=0.6)
        axes.axvline(0, color=INK, lw=0.8)
        rows = np.arange(len(tests))[::-1]
        flagged = np.array([test.flagged for test in tests])
        axes.hlines(rows, 0, effects, color=INK, lw=0.8, alpha=0.4)
        blind = np.array([not test.judged for test in tests])
        alike = ~flagged & ~blind
        axes.plot(effects[alike], rows[alike], "o", color=PALETTE[5], ms=6, label="alike")
        if blind.any():
            axes.plot(effects[blind], rows[blind], "x", color=INK, ms=5, label="not judged: score unreliable")
        axes.plot(effects[flagged], rows[flagged], "D", color=AI, ms=6, label="differs")
        naive = report.mean_flags & ~flagged
        axes.plot(effects[naive], rows[naive], "o", mfc="none", mec=INK, ms=10, mew=1, label="t-test alone flags it")
        axes.set_yticks(rows, [report.study.names[test.item] for test in tests])
        axes.set_ylim(-0.7, len(tests) - 0.3)
        axes.set_xlim(-limit, limit)
        axes.set_xlabel(
            ("Mantel-Haenszel Δ" if delta else "signed gain of R²") + "   (left: harder for the AI at equal score)"
        )
        axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), fontsize=8.5)
        return Figure(
            to_svg(figure),
            "Difference of each item between subjects of equal score; dotted lines bound the grades A, B and C. A "
            "ring: a t-test without matching would have called the item different.",
        )


def draw_curves(report: ValidityReport) -> Figure:
    """Draw mean answers against the rest of the score for the three items that differ most.

    Args:
        report: What was found.
    """
    study = report.study
    size = np.array([abs(test.effect) if np.isfinite(test.effect) else np.inf for test in report.items])
    chosen = np.argsort(-size, kind="stable")[:3]
    with canvas(8.4, 3.0, columns=len(chosen)) as figure:
        for axes, j in zip(figure.axes, chosen, strict=True):
            own = study.pattern[:, np.flatnonzero(study.pattern[j])[0]].copy()
            own[j] = False
            rest = [answers[:, own].mean(axis=1) for answers in (study.human, study.ai)]
            edges = np.unique(np.quantile(np.concatenate(rest), np.linspace(0, 1, BINS + 1)[1:-1]))
            for answers, score, name, colour, marker in (
                (study.human, rest[0], "human", HUMAN, "o"), (study.ai, rest[1], "AI", AI, "s"),
            ):  # fmt: skip
                code = np.digitize(score, edges)
                full = [k for k in np.unique(code) if np.sum(code == k) >= 5]
                middle = [score[code == k].mean() for k in full]
                mean = [answers[code == k, j].mean() for k in full]
                error = [answers[code == k, j].std(ddof=1) / np.sqrt(np.sum(code == k)) for k in full]
                axes.errorbar(
                    middle, mean, 1.96 * np.array(error), fmt=marker + "-", color=colour, ms=4, capsize=2, label=name
                )
            test = report.items[j]
            flag = "differs" if test.flagged else "alike" if test.judged else "not judged"
            axes.set_title(f"{study.names[j]} ({flag})")
            axes.set_xlabel("mean of the scale's other items")
        figure.axes[0].set_ylabel("mean answer")
        figure.axes[0].legend(loc="best", fontsize=8.5)
        return Figure(
            to_svg(figure),
            "The three items with the largest effects: mean answer, with 95 % interval, of subjects with equal scores "
            "on the rest of the scale. Curves that lie apart are the item's own difference, not the population's.",
        )


def draw_styles(report: ValidityReport) -> Figure:
    """Draw agreement to positively keyed items against agreement to negatively keyed ones.

    Args:
        report: What was found.
    """
    study = report.study
    with canvas(8.4, 3.6, columns=2) as figure:
        span = study.high - study.low
        for axes, name, colour in zip(figure.axes, ("human", "AI"), (HUMAN, AI), strict=True):
            given = study.as_given(study.human if name == "human" else study.ai)
            positive, negative = [], []
            for k in range(len(study.scale_names)):
                own = study.pattern[:, k]
                if np.any(own & (study.keys > 0)) and np.any(own & (study.keys < 0)):
                    positive.append(given[:, own & (study.keys > 0)].mean(axis=1))
                    negative.append(given[:, own & (study.keys < 0)].mean(axis=1))
            x, y = np.concatenate(positive), np.concatenate(negative)
            axes.plot(x, y, ".", color=colour, ms=3, alpha=max(0.12, min(0.7, 150 / len(x))))
            middle = (study.low + study.high) / 2
            axes.axhline(middle, color=INK, lw=0.8, ls=":")
            axes.axvline(middle, color=INK, lw=0.8, ls=":")
            axes.set_xlim(study.low - 0.04 * span, study.high + 0.04 * span)
            axes.set_ylim(study.low - 0.04 * span, study.high + 0.04 * span)
            axes.set_aspect("equal")
            axes.set_title(f"{name}: correlation {report.styles[name].half_scales:+.2f}".replace("-", "−"))
            axes.set_xlabel("agreement, positively keyed")
        figure.axes[0].set_ylabel("agreement, negatively keyed")
        return Figure(
            to_svg(figure),
            "Agreement before reverse-keyed items are turned, a point for each subject and scale. Subjects who answer "
            "by content fall along the falling diagonal; those who agree with everything lie top right.",
        )
