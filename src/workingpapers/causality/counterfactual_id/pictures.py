"""The pictures of the report: the diagram with the edges that each regime cuts, and the answer with its interval."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

import numpy as np

from workingpapers.causality.counterfactual_id.graph import ADMG
from workingpapers.causality.counterfactual_id.regime import Regime
from workingpapers.foundations.figures import INK, PALETTE, canvas, to_svg
from workingpapers.foundations.outcome import Figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes

CUT, ARC, QUERY = PALETTE[3], PALETTE[0], PALETTE[1]
GREY = "#8a8f98"
MOST_PANELS = 4


def graph_picture(graph: ADMG, regimes: Sequence[Regime], asked: Collection[str]) -> Figure:
    """Draw the diagram once for each regime, the cut edges marked with what they are fed.

    Args:
        graph: The diagram.
        regimes: The first four are drawn.
        asked: Variables of the query.
    """
    shown = list(regimes[:MOST_PANELS])
    columns = min(2, len(shown))
    rows = (len(shown) + columns - 1) // columns
    places = layout(graph)
    depth = max(x for x, _ in places.values()) + 1
    spread = max(y for _, y in places.values()) - min(y for _, y in places.values())
    width = min(10.0, columns * max(3.6, 1.5 * depth))
    height = rows * (0.4 + width / columns * (spread + 1.9) / (depth + 0.2))
    with canvas(width, min(height, rows * 4.5), rows, columns) as figure:
        for axes in figure.axes[len(shown) :]:
            axes.set_axis_off()
        for axes, regime in zip(figure.axes, shown, strict=False):
            _draw(axes, graph, regime, places, asked)
        left_out = len(regimes) - len(shown)
        more = f" {left_out} further regimes are not drawn." if left_out else ""
        return Figure(
            to_svg(figure),
            "Dashed arcs: unobserved common causes. Red, crossed arrows: edges that the regime cuts, with the value "
            f"that flows through them instead. Orange: variables of the query. Dotted rings: not recorded.{more}",
        )


def interval_picture(rows: Sequence[tuple[str, float, float, float | None]], what: str) -> Figure:
    """Draw intervals between 0 and 1.

    Args:
        rows: Label, lower end, upper end and, where there is one, the estimate.
        what: The query, for the axis.
    """
    with canvas(7.0, 1.1 + 0.45 * len(rows)) as figure:
        axes = figure.axes[0]
        for place, (_, low, high, middle) in enumerate(rows):
            axes.plot(
                [low, high], [place, place], color=PALETTE[place % len(PALETTE)], linewidth=5, solid_capstyle="butt"
            )
            if middle is not None:
                axes.plot([middle], [place], "o", color=INK, markersize=5)
            right = high < 0.72
            axes.text(high + 0.015 if right else low - 0.015, place, f"{low:.3f} to {high:.3f}", va="center",
                      ha="left" if right else "right", fontsize=8.5)  # fmt: skip
        axes.set_yticks(range(len(rows)), [row[0] for row in rows])
        axes.set(xlim=(-0.02, 1.02), ylim=(len(rows) - 0.4, -0.6), xlabel=what)
        axes.grid(axis="x")
        return Figure(to_svg(figure), "The bars are what the data allow; a dot is the estimate.")


def layout(graph: ADMG) -> dict[str, tuple[float, float]]:
    """Return a place for each variable: its depth from left to right, and the variables of one depth apart.

    Args:
        graph: The diagram.
    """
    depth: dict[str, int] = {}
    for name in graph.order:
        depth[name] = max((depth[parent] + 1 for parent in graph.parents(name)), default=0)
    for name in reversed(graph.order):  # roots move up to their children
        if not graph.parents(name) and graph.children(name):
            depth[name] = min(depth[child] for child in graph.children(name)) - 1
    layers: dict[int, list[str]] = {}
    for name in graph.order:
        layers.setdefault(depth[name], []).append(name)
    places = {
        name: (float(level), (len(names) - 1) / 2 - k)
        for level, names in layers.items()
        for k, name in enumerate(names)
    }
    rng = np.random.default_rng(0)
    tries = [places]
    tries += [{name: (x, y + float(rng.normal())) for name, (x, y) in places.items()} for _ in range(5)]
    return min((_relaxed(graph, start) for start in tries), key=lambda some: _cost(graph, some))


def _relaxed(graph: ADMG, places: dict[str, tuple[float, float]]) -> dict[str, tuple[float, float]]:
    """Move each variable in turn, three times over, to the height where it is least in the way."""
    for _ in range(3):
        for name in graph.order:
            choices = [{**places, name: (places[name][0], float(y))} for y in np.arange(-2.0, 2.01, 0.5)]
            places = min(choices, key=lambda some: _cost(graph, some))
    return places


def _cost(graph: ADMG, places: dict[str, tuple[float, float]]) -> float:
    """Return how hard the drawing is to read: variables on top of edges or of each other, and long edges."""
    points = np.array([places[name] for name in graph.nodes])
    index = {name: k for k, name in enumerate(graph.nodes)}
    apart = np.linalg.norm(points[:, None] - points[None], axis=2)
    cost = 50.0 * float((apart[np.triu_indices(len(points), 1)] < 0.9).sum()) + 0.02 * float(np.abs(points[:, 1]).sum())
    for a, b in graph.directed:
        start, end = points[index[a]], points[index[b]]
        along = np.clip((points - start) @ (end - start) / max(1e-9, float((end - start) @ (end - start))), 0, 1)
        near = np.linalg.norm(start + along[:, None] * (end - start) - points, axis=1) < 0.42
        near[[index[a], index[b]]] = False
        cost += 10.0 * float(near.sum()) + 0.1 * abs(float(end[1] - start[1]))
    return cost


def _draw(
    axes: Axes, graph: ADMG, regime: Regime, places: dict[str, tuple[float, float]], asked: Collection[str]
) -> None:
    from matplotlib.patches import FancyArrowPatch

    feeds, records = regime.feeds(graph), regime.records(graph)
    radius = 15.0
    for a, b in sorted(graph.bidirected):
        axes.add_patch(
            FancyArrowPatch(
                places[a], places[b], arrowstyle="<|-|>", linestyle=(0, (4, 3)), color=ARC, mutation_scale=9,
                connectionstyle=f"arc3,rad={-0.38 if places[a][0] <= places[b][0] else 0.38}",
                shrinkA=radius, shrinkB=radius, linewidth=1.1,
            )
        )  # fmt: skip
    for a, b in sorted(graph.directed):
        flow = feeds.get((a, b))
        axes.add_patch(
            FancyArrowPatch(
                places[a], places[b], arrowstyle="-|>", color=CUT if flow else GREY, mutation_scale=12,
                shrinkA=radius, shrinkB=radius, linewidth=1.5, linestyle=(0, (2, 2)) if flow else "-",
            )
        )  # fmt: skip
        if flow:
            start, end = np.array(places[a]), np.array(places[b])
            axes.plot(
                *(start + 0.5 * (end - start)), marker="x", color=CUT, markersize=9, markeredgewidth=2.2, zorder=4
            )
            text = "random" if flow[0] == "column" else flow[1]
            axes.text(*_clear_place(graph, places, start, end), text, color=CUT, ha="center", va="center", fontsize=8.5)
    for name, (x, y) in places.items():
        face = QUERY if name in asked else "#ffffff"
        line = (0, (1, 1.5)) if name not in records else "-"
        axes.scatter([x], [y], s=(2 * radius) ** 2, color=face, edgecolor=INK, linestyle=line, zorder=3)
        if len(name) <= 4:
            axes.text(x, y, name, ha="center", va="center", zorder=5, color="#111111")
        else:
            label = name if len(name) <= 14 else name[:13] + "…"
            axes.annotate(label, (x, y), (0, -radius - 8), textcoords="offset points", ha="center", va="center",
                          fontsize=8)  # fmt: skip
    across, up = zip(*places.values(), strict=True)
    axes.set(xlim=(min(across) - 0.6, max(across) + 0.6), ylim=(min(up) - 0.75, max(up) + 1.15))
    axes.set_aspect("equal")
    axes.set_title(f"{regime.name}: {str(regime).split('(', 1)[1][:-1]}", fontsize=9.5)
    axes.set_axis_off()


def _clear_place(
    graph: ADMG, places: dict[str, tuple[float, float]], start: np.ndarray, end: np.ndarray
) -> tuple[float, float]:
    """Return the place beside an edge that is farthest from all edges and variables."""
    steps = np.linspace(0, 1, 21)[:, None]
    lines = [np.array(places[a]) + steps * (np.array(places[b]) - np.array(places[a])) for a, b in graph.directed]
    taken = np.concatenate([*lines, np.array(list(places.values()))])
    along = (end - start) / np.linalg.norm(end - start)
    across = np.array([along[1], -along[0]])
    spots = [start + share * (end - start) + side * across for share in (0.5, 0.38, 0.62) for side in (0.22, -0.22)]
    # Text is wider than it is high.
    best = max(spots, key=lambda spot: float(np.linalg.norm((taken - spot) * [0.6, 1.0], axis=1).min()))
    return float(best[0]), float(best[1])
