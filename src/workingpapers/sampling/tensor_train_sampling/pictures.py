"""The pictures of the report: marginals of the samples, and the residual of each regression."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from workingpapers.foundations.figures import INK, PALETTE, canvas, to_svg
from workingpapers.foundations.outcome import Figure
from workingpapers.sampling.tensor_train_sampling.paths import WeightedSamples
from workingpapers.sampling.tensor_train_sampling.sampler import StepRecord

COLUMNS = 3
BINS = 50


def marginals_picture(
    drawn: WeightedSamples, shown: Sequence[int], exact: Sequence[tuple[Tensor, Tensor] | None]
) -> Figure:
    """Draw the weighted and the plain histogram of coordinates, and their known densities.

    Args:
        drawn: The samples.
        shown: Coordinates.
        exact: Grid and density of each, shape (K,), or None.
    """
    columns = min(COLUMNS, len(shown))
    rows = -(-len(shown) // columns)
    finite = torch.isfinite(drawn.points).all(dim=1)
    weights = drawn.normalised()[finite].numpy()
    with canvas(7.4, 2.3 * rows + 0.5, rows=rows, columns=columns) as figure:
        for axes, i, known in zip(figure.axes, shown, exact, strict=False):
            x = drawn.points[finite, i].numpy()
            low, high = np.quantile(x, [0.001, 0.999])
            pad = 0.08 * (high - low)
            edges = np.linspace(low - pad, high + pad, BINS + 1)
            width = edges[1] - edges[0]
            plain = np.histogram(x, edges)[0] / (len(x) * width)
            weighted = np.histogram(x, edges, weights=weights)[0] / width
            axes.stairs(weighted, edges, fill=True, color=PALETTE[5], alpha=0.55, label="samples, weighted")
            axes.stairs(plain, edges, color=PALETTE[1], linewidth=1.2, label="samples, not weighted")
            if known is not None:
                inside = (known[0] >= edges[0]) & (known[0] <= edges[-1])
                axes.plot(known[0][inside], known[1][inside], color=INK, linewidth=1.2, label="exact")
            axes.set(title=f"coordinate {i}", yticks=[])
            axes.set_ylim(bottom=0)
            axes.spines["left"].set_visible(False)
        for axes in figure.axes[len(shown) :]:
            axes.set_axis_off()
        figure.legend(*figure.axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=3, fontsize=8.5)
        more = "" if len(shown) == drawn.points.shape[1] else f" The first {len(shown)} coordinates are shown."
        told = " and their exact densities" if exact and exact[0] is not None else ""
        return Figure(to_svg(figure), f"Histograms of single coordinates{told}.{more}")


def residuals_picture(records: Sequence[StepRecord], times: Tensor) -> Figure:
    """Draw residual and largest rank of each regression over the time of its step.

    Args:
        records: What happened at each step.
        times: Times of the steps, shape (N + 1,).
    """
    with canvas(7.4, 3.0, columns=2) as figure:
        left, right = figure.axes
        for iteration in sorted({record.iteration for record in records}):
            mine = [record for record in records if record.iteration == iteration]
            at = [float(times[record.step]) for record in mine]
            colour = PALETTE[iteration % len(PALETTE)]
            left.plot(at, [max(record.residual, 1e-16) for record in mine], color=colour,
                      label=f"iteration {iteration + 1}")  # fmt: skip
            anew = [record for record in mine if record.restarted]
            left.plot([float(times[r.step]) for r in anew], [r.residual for r in anew], "x", color=colour)
            right.plot(at, [max(record.ranks, default=1) for record in mine], color=colour,
                       linestyle="-" if iteration == 0 else "--")  # fmt: skip
        left.set(yscale="log", xlabel="time (0 is noise)", ylabel="residual", title="squared residual / variance")
        right.set(xlabel="time (0 is noise)", ylabel="largest rank", title="rank")
        right.set_ylim(bottom=0)
        right.locator_params(axis="y", integer=True)
        left.grid(axis="y")
        figure.legend(*left.get_legend_handles_labels(), loc="outside lower center", ncols=5, fontsize=8.5)
        return Figure(to_svg(figure), "How well each step was fitted. A cross marks a step that began again from the "
                      "additive model.")  # fmt: skip
