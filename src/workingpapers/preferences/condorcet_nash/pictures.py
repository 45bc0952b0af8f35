"""The pictures of the report: who beats whom with the strongest cycle, and the Nash policy with its interval."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from workingpapers.foundations.figures import INK, PALETTE, canvas, to_svg
from workingpapers.foundations.outcome import Figure
from workingpapers.preferences.condorcet_nash.posterior import Posterior
from workingpapers.preferences.condorcet_nash.tables import Preferences
from workingpapers.preferences.condorcet_nash.tournament import Cycle, Diagnosis, beaten_pairs

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SHOWN = 10
GREY = "#8a8f98"


def chosen_responses(diagnosis: Diagnosis, policy: np.ndarray, limit: int = SHOWN) -> list[int]:
    """Return the responses that a picture shows, best first: those of the cycle, the policy, then by Copeland score.

    Args:
        diagnosis: Of the preferences.
        policy: Nash policy, shape (n,).
        limit: Most responses.
    """
    in_cycle = set(diagnosis.cycle.responses) if diagnosis.cycle else set()
    order = sorted(
        range(len(policy)), key=lambda i: (i not in in_cycle, -policy[i], i not in diagnosis.smith_set,
                                           -diagnosis.copeland[i], i),
    )  # fmt: skip
    kept = order[:limit]
    return sorted(kept, key=lambda i: (-policy[i], -diagnosis.copeland[i], i))


def preference_picture(
    data: Preferences,
    diagnosis: Diagnosis,
    policy: np.ndarray,
    posterior: Posterior | None,
    certified: bool,
    kind: str = "Nash policy",
) -> Figure:
    """Draw the majority graph beside the policy.

    Args:
        data: The preferences.
        diagnosis: Of their majority relation.
        policy: The policy, shape (n,).
        posterior: Gives the intervals; None for shares without counts.
        certified: Whether the cycle is certified.
        kind: Title of the policy.
    """
    shown = chosen_responses(diagnosis, policy)
    names = [data.names[i] for i in shown]
    numbered = max(map(len, names)) > 12  # long names stand once, beside their numbers
    marks = [str(k) for k in range(1, len(shown) + 1)] if numbered else names
    labels = [f"{_short(name, 26)}  {mark}" for name, mark in zip(names, marks, strict=True)] if numbered else names
    height = max(4.2, 1.6 + 0.3 * len(shown))
    with canvas(9.2, height, columns=2) as figure:
        graph, bars = figure.axes
        _draw_graph(graph, data.rates[np.ix_(shown, shown)], marks, _within(diagnosis.cycle, shown), policy[shown])
        _draw_policy(bars, labels, policy[shown], posterior, shown)
        bars.set_title(kind)
        left_out = len(data.names) - len(shown)
        if diagnosis.cycle:
            state = "certified" if certified else "seen in the data, not certified"
            what = f"The thick arrows are the strongest cycle ({state})."
        else:
            what = "There is no cycle."
        rest = f" {left_out} further responses are not drawn." if left_out else ""
        interval = " with 90 % posterior intervals" if posterior else ""
        return Figure(
            to_svg(figure),
            "Left: an arrow points from the preferred response; the darker, the larger the majority; the policy keeps "
            f"the filled ones. {what} "
            f"Right: the {kind[0].lower() if kind.startswith('R') else kind[0]}{kind[1:]}{interval}.{rest}",
        )


def prompts_picture(names: Sequence[str], cycle: Sequence[float], observed: Sequence[bool]) -> Figure:
    """Draw the posterior probability of a cycle for each prompt, largest on top.

    Args:
        names: Prompts.
        cycle: Posterior probability of a cycle, one a prompt.
        observed: Whether the counts contain one.
    """
    order = sorted(range(len(names)), key=lambda k: -cycle[k])[:30]
    with canvas(7.0, max(2.4, 1.1 + 0.26 * len(order))) as figure:
        axes = figure.axes[0]
        rows = np.arange(len(order))
        for seen, colour, label in ((True, PALETTE[3], "cycle in the counts"), (False, PALETTE[0], "none")):
            picked = [row for row in rows if observed[order[row]] is seen]
            axes.plot([cycle[order[row]] for row in picked], picked, "o", color=colour, label=label, markersize=7)
        axes.set_yticks(rows, [_short(names[k], 40) for k in order])
        axes.invert_yaxis()
        axes.set(xlim=(-0.02, 1.02), xlabel="posterior probability of a cycle")
        axes.grid(axis="x")
        figure.legend(*axes.get_legend_handles_labels(), loc="outside upper right", ncols=2, fontsize=8.5)
        return Figure(to_svg(figure), "Prompts whose preferences no reward may be able to represent stand on top.")


def _draw_graph(
    axes: Axes, rates: np.ndarray, labels: Sequence[str], cycle: set[tuple[int, int]], policy: np.ndarray
) -> None:
    from matplotlib.patches import FancyArrowPatch

    n = len(labels)
    angle = np.pi / 2 - 2 * np.pi * np.arange(n) / n
    x, y = np.cos(angle), np.sin(angle)
    for i, j in np.argwhere(beaten_pairs(rates)):
        on_cycle = (int(i), int(j)) in cycle
        axes.add_patch(
            FancyArrowPatch(
                (x[i], y[i]), (x[j], y[j]), arrowstyle="-|>", shrinkA=9, shrinkB=9,
                mutation_scale=14 if on_cycle else 9,
                linewidth=2.6 if on_cycle else 0.9, color=PALETTE[3] if on_cycle else GREY, zorder=2 if on_cycle else 1,
                alpha=1.0 if on_cycle else float(0.25 + 0.75 * min(1.0, 2 * (rates[i, j] - 0.5))),
                connectionstyle="arc3,rad=0.06",
            )
        )  # fmt: skip
    axes.scatter(
        x, y, s=120, color=[PALETTE[0] if share > 0 else "#ffffff" for share in policy], edgecolor=INK, zorder=3
    )
    for k, label in enumerate(labels):
        side = "center" if abs(x[k]) < 0.2 else ("left" if x[k] > 0 else "right")
        axes.text(1.15 * x[k], 1.15 * y[k], label, ha=side, va="center", zorder=4)
    reach = 1.3 if max(map(len, labels)) <= 3 else 1.75
    axes.set(xlim=(-reach, reach), ylim=(-1.3, 1.3), title="Who beats whom")
    axes.set_aspect("equal", anchor="N")
    axes.set_axis_off()


def _draw_policy(
    axes: Axes, labels: Sequence[str], policy: np.ndarray, posterior: Posterior | None, shown: Sequence[int]
) -> None:
    rows = np.arange(len(labels))
    axes.barh(rows, policy, color=PALETTE[0], height=0.55, alpha=0.85)
    if posterior is not None:
        low, high = posterior.low[shown], posterior.high[shown]
        axes.hlines(rows, low, high, color=PALETTE[1], linewidth=2.6)
        axes.plot(posterior.policy[shown], rows, "o", color=PALETTE[1], markersize=5)
    axes.set_yticks(rows, labels)
    axes.invert_yaxis()
    axes.set(xlim=(0, 1.02), xlabel="probability")
    axes.grid(axis="x")


def _within(cycle: Cycle | None, shown: Sequence[int]) -> set[tuple[int, int]]:
    if cycle is None:
        return set()
    place = {response: index for index, response in enumerate(shown)}
    return {(place[i], place[j]) for i, j in cycle.edges if i in place and j in place}


def _short(name: str, limit: int) -> str:
    """Return `name`, its middle left out where it is long: names often differ at their ends."""
    half = (limit - 1) // 2
    return name if len(name) <= limit else f"{name[: limit - 1 - half].rstrip()}…{name[-half:].lstrip()}"
