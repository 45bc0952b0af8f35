"""The pictures of a run: singular values of the modes over the steps, ranks of the layers over the steps."""

from __future__ import annotations

from collections.abc import Sequence

from workingpapers.foundations.figures import INK, PALETTE, canvas, to_svg
from workingpapers.foundations.outcome import Figure
from workingpapers.posttraining.spectral_bridge.adapters import LayerSpectrum
from workingpapers.posttraining.spectral_bridge.settings import RankPaths

SHOWN = 4  # layers with a panel of their own


def path_picture(paths: RankPaths, names: Sequence[str] = (), warmup: int = 0) -> Figure:
    """Draw the singular values of each mode at every gauge step, one panel a layer.

    Args:
        paths: What the tuner recorded: k steps, and for each of them the modes alive, shape (r,).
        names: Layers to draw, at most four; by default those of the largest, middle and smallest final rank.
        warmup: Steps over which the temperature rose, shaded.
    """
    chosen = list(names or _telling(paths))[:SHOWN]
    columns = 2 if len(chosen) > 1 else 1
    rows = -(-len(chosen) // columns)
    with canvas(7.6, 0.7 + 2.3 * rows, rows, columns) as figure:
        for place, axes in enumerate(figure.axes):
            if place >= len(chosen):
                axes.set_visible(False)
                continue
            name = chosen[place]
            values = paths.sigma[name]
            for mode in range(max((len(one) for one in values), default=0)):
                line = [one[mode] if mode < len(one) else float("nan") for one in values]
                alive = mode < len(values[-1])
                axes.plot(paths.steps, line, color=PALETTE[0] if alive else "#8a8f98",
                          linewidth=1.7 if alive else 0.9, label="_")  # fmt: skip
            if warmup:
                axes.axvspan(0, warmup, color=PALETTE[1], alpha=0.12, linewidth=0)
            axes.set_title(f"{_short(name)}: rank {len(values[-1])}", fontsize=9)
            axes.set_ylim(bottom=0)
            axes.set_xlim(0, max(paths.steps, default=1))
            axes.grid(axis="y")
            if place % columns == 0:
                axes.set_ylabel("singular value")
            if place >= len(chosen) - columns:
                axes.set_xlabel("optimiser step")
        return Figure(
            to_svg(figure),
            "Blue modes stay, grey ones die and are cut out. While the temperature rises (shaded) all may grow.",
        )


def rank_picture(paths: RankPaths, report: Sequence[LayerSpectrum]) -> Figure:
    """Draw the sum of all ranks over the steps, and the rank that each layer ends with.

    Args:
        paths: What the tuner recorded, k steps.
        report: The layers at the end, n of them.
    """
    from matplotlib.ticker import MaxNLocator

    totals = [sum(len(values[place]) for values in paths.sigma.values()) for place in range(len(paths.steps))]
    with canvas(7.6, 3.2, 1, 2) as figure:
        left, right = figure.axes
        left.step(paths.steps, totals, where="post", color=PALETTE[0], linewidth=2)
        left.set(xlabel="optimiser step", ylabel="modes alive, all layers")
        left.set_ylim(bottom=0)
        left.grid(axis="y")
        ranks = [item.rank for item in report]
        right.bar(range(len(ranks)), ranks, color=PALETTE[2], width=0.8)
        right.axhline(0, color=INK, linewidth=0.6)
        right.set(xlabel="layer, in the order of the model", ylabel="rank at the end")
        right.set_ylim(0, max([*ranks, 1]) * 1.1)
        for axis in (right.xaxis, right.yaxis):
            axis.set_major_locator(MaxNLocator(integer=True))
        return Figure(to_svg(figure), "The table below names the layers in the same order.")


def _telling(paths: RankPaths) -> list[str]:
    order = sorted(paths.sigma, key=lambda name: -len(paths.sigma[name][-1]))
    if len(order) <= SHOWN:
        return list(paths.sigma)
    return [order[0], order[len(order) // 3], order[2 * len(order) // 3], order[-1]]


def _short(name: str) -> str:
    parts = name.split(".")
    return ".".join(parts[-4:])
