"""The pictures of the report: singular values, samples beside the data, and the planned error."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from workingpapers.foundations.figures import INK, PALETTE, canvas, to_svg
from workingpapers.foundations.outcome import Figure
from workingpapers.sampling.subspace_diffusion.planning import Plan

Floats = NDArray[np.float64]
COLOURS = PALETTE[:6]


def spectra_picture(spectra: Sequence[Floats], dims: Sequence[int]) -> Figure:
    """Draw the singular values of each subspace and where they are cut.

    Args:
        spectra: Singular values of each cluster, descending.
        dims: Dimension taken of each.
    """
    shown = len(spectra) if len(spectra) <= 10 else 10
    with canvas(7.4, 3.3) as figure:
        axes = figure.axes[0]
        for i, (spectrum, dim) in enumerate(list(zip(spectra, dims, strict=True))[:shown]):
            share = np.maximum(spectrum / max(float(spectrum[0]), 1e-300), 1e-9)
            colour = COLOURS[i % len(COLOURS)]
            style = "-" if i < len(COLOURS) else "--"
            place = np.arange(1, len(share) + 1)
            axes.plot(place, share, style, color=colour, linewidth=1.0)
            axes.plot(place[:dim], share[:dim], "o", color=colour, markersize=4.5, label=f"{i}: dimension {dim}")
            axes.plot(place[dim:], share[dim:], "o", color=colour, markersize=3, markerfacecolor="none")
        axes.set(yscale="log", xlabel="number of the singular value", ylabel="share of the largest")
        axes.grid(axis="y")
        axes.locator_params(axis="x", integer=True)
        figure.legend(*axes.get_legend_handles_labels(), loc="outside right upper", fontsize=8.5, title="subspace",
                      alignment="left")  # fmt: skip
        more = "" if shown == len(spectra) else f" The first {shown} of {len(spectra)} subspaces are shown."
        return Figure(to_svg(figure), "Singular values of the samples of each subspace; filled ones are kept as its "
                      f"dimension. A drop behind them shows that the cut is clear; all values under 1e-9 are drawn "
                      f"at 1e-9.{more}")  # fmt: skip


def samples_picture(data: Floats, samples: Floats, labels: NDArray[np.int64]) -> Figure:
    """Draw data and new samples in the two leading principal components of the data, side by side.

    Args:
        data: Shape (n, d).
        samples: Shape (b, d).
        labels: Subspace of each datum, shape (n,).
    """
    middle = data.mean(axis=0)
    axes_of = np.linalg.svd(data - middle, full_matrices=False)[2][:2]
    if len(axes_of) < 2:
        axes_of = np.concatenate([axes_of, np.zeros((1, data.shape[1]))])
    rng = np.random.default_rng(0)
    chosen = np.sort(rng.choice(len(data), min(len(data), 1500), replace=False))
    flat, drawn = (data[chosen] - middle) @ axes_of.T, (samples[:1500] - middle) @ axes_of.T
    with canvas(7.4, 3.5, columns=2) as figure:
        left, right = figure.axes
        colours = [COLOURS[label % len(COLOURS)] for label in labels[chosen]]
        left.scatter(flat[:, 0], flat[:, 1], s=7, c=colours, alpha=0.7, linewidths=0)
        right.scatter(flat[:, 0], flat[:, 1], s=5, color="#8a8f98", alpha=0.35, linewidths=0, label="data")
        right.scatter(drawn[:, 0], drawn[:, 1], s=7, color=PALETTE[3], alpha=0.7, linewidths=0, label="new samples")
        low, high = (pick(np.concatenate([flat, drawn]), axis=0) for pick in (np.min, np.max))
        pad = 0.05 * np.maximum(high - low, 1e-12)
        for axes in (left, right):
            axes.set(xlabel="first principal component", xlim=(low[0] - pad[0], high[0] + pad[0]),
                     ylim=(low[1] - pad[1], high[1] + pad[1]))  # fmt: skip
        left.set(ylabel="second principal component", title="data, by subspace")
        right.set(title="new samples over the data")
        figure.legend(*right.get_legend_handles_labels(), loc="outside lower right", ncols=2, fontsize=8.5)
        return Figure(to_svg(figure), "Data and new samples in the two principal components of the data.")


def plan_picture(plan: Plan, wanted: float) -> Figure:
    """Draw measured errors and the range that the rate gives for more samples.

    Args:
        plan: The plan.
        wanted: Wanted W1 error.
    """
    high = plan.required(wanted)[1]
    last = min(max(plan.sizes[-1] * 10.0, high * 2), plan.sizes[0] * 1e8)
    sizes = np.geomspace(plan.sizes[0], last, 60)
    bounds = np.array([plan.error(size) for size in sizes])
    seen = bounds[:, 0] > 0
    with canvas(7.4, 3.5) as figure:
        axes = figure.axes[0]
        bottom = np.where(seen, bounds[:, 0], bounds[:, 1] / 100)
        axes.fill_between(sizes, bottom, bounds[:, 1], color=PALETTE[0], alpha=0.18, linewidth=0)
        axes.plot(sizes, bounds[:, 1], color=PALETTE[0], label=f"rate n^(-1/{max(plan.dim, 2)}), upper constant")
        if seen.all():
            axes.plot(sizes, bounds[:, 0], "--", color=PALETTE[0], label="lower constant")
        axes.plot(plan.sizes, plan.errors, "o", color=INK, markersize=6, label="measured")
        axes.axhline(plan.floor, color=PALETTE[1], linewidth=1.2, label="held-out samples among themselves")
        axes.axhline(wanted, color=PALETTE[3], linewidth=1.2, linestyle=":", label="wanted")
        axes.set(xscale="log", yscale="log", xlabel="training samples", ylabel="W1 error")
        axes.set_ylim(min(wanted, plan.floor, float(bounds[-1, 1])) / 2, max(*plan.errors, float(bounds[0, 1])) * 1.3)
        axes.grid()
        figure.legend(*axes.get_legend_handles_labels(), loc="outside upper center", ncols=3, fontsize=8.5)
        return Figure(to_svg(figure), "Measured errors and what the rate makes of them. Measured errors hold the noise "
                      "of the test set, which is the upper constant; the lower one takes it off twice.")  # fmt: skip
