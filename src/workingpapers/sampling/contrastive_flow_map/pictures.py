"""The pictures of the report: samples and held-out rows in the plane of two principal components, or as images."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from workingpapers.foundations.figures import INK, PALETTE, canvas, to_svg
from workingpapers.foundations.outcome import Figure
from workingpapers.sampling.contrastive_flow_map.network import Scaling

SHOWN = 600
IMAGES = 12


def samples_picture(held_out: Tensor, drawn: dict[int, Tensor]) -> Figure:
    """Draw samples of one, two and four steps over held-out rows.

    Args:
        held_out: Shape (m, d).
        drawn: Steps -> samples, shape (m, d).
    """
    centre = held_out.mean(0)
    if held_out.shape[1] == 1:
        return _histograms(held_out, drawn)
    axes_of = torch.linalg.svd(held_out - centre, full_matrices=False)[2][:2].T
    with canvas(8.2, 3.2, columns=len(drawn)) as figure:
        flat = (held_out - centre) @ axes_of
        span = 1.25 * flat.abs().amax(0)
        for axes, (steps, points) in zip(figure.axes, drawn.items(), strict=True):
            seen = (points - centre) @ axes_of
            axes.scatter(
                flat[:SHOWN, 0], flat[:SHOWN, 1], s=7, color=INK, alpha=0.3, linewidths=0, label="held-out rows"
            )
            axes.scatter(
                seen[:SHOWN, 0], seen[:SHOWN, 1], s=7, color=PALETTE[0], alpha=0.55, linewidths=0, label="samples"
            )
            axes.set(xlim=(-span[0], span[0]), ylim=(-span[1], span[1]), title=_title(steps))
            axes.set_xlabel("first component")
        figure.axes[0].set_ylabel("second component")
        _legend(figure)
        return Figure(
            to_svg(figure),
            "Two principal components of the held-out rows. Blue points where no grey ones lie are samples unlike any "
            "real row; bare grey points are rows that the sampler misses. Points beyond the frame are not shown.",
        )


def images_picture(held_out: Tensor, drawn: dict[int, Tensor], scaling: Scaling) -> Figure:
    """Draw rows of images: real ones, then samples of one, two and four steps from the same noise.

    Args:
        held_out: Shape (m, side * side).
        drawn: Steps -> samples, shape (m, side * side).
        scaling: Back to the data's scale.
    """
    side = math.isqrt(held_out.shape[1])
    lines = {"held-out": held_out, **{_title(steps): points for steps, points in drawn.items()}}
    count = min(IMAGES, len(held_out))
    real = scaling.backward(held_out)
    low, high = float(real.min()), float(real.max())
    with canvas(8.2, 3.2, rows=len(lines)) as figure:
        for axes, (name, points) in zip(figure.axes, lines.items(), strict=True):
            pictures = scaling.backward(points[:count]).reshape(count, side, side)
            strip = torch.full((side, count * (side + 1) - 1), math.nan)
            for number, picture in enumerate(pictures):
                strip[:, number * (side + 1) : number * (side + 1) + side] = picture
            axes.imshow(strip.numpy(), cmap="gray", vmin=low, vmax=high, interpolation="nearest", aspect="equal")
            axes.set(xticks=[], yticks=[])
            axes.spines[:].set_visible(False)
            axes.set_ylabel(name, rotation=0, ha="right", va="center")
        return Figure(
            to_svg(figure),
            "One column of samples comes from one noise: the rows below the first should show the same picture, "
            "sharper with more steps.",
        )


def _histograms(held_out: Tensor, drawn: dict[int, Tensor]) -> Figure:
    with canvas(8.2, 3.0, columns=len(drawn)) as figure:
        bins = torch.linspace(float(held_out.min()) - 0.5, float(held_out.max()) + 0.5, 41).tolist()
        for axes, (steps, points) in zip(figure.axes, drawn.items(), strict=True):
            axes.hist(held_out[:, 0].numpy(), bins, color=INK, alpha=0.3, label="held-out rows")
            axes.hist(points[:, 0].numpy(), bins, histtype="step", color=PALETTE[0], linewidth=1.8, label="samples")
            axes.set(title=_title(steps), xlabel="value, scaled")
        figure.axes[0].set_ylabel("rows")
        _legend(figure)
        return Figure(to_svg(figure), "Samples against as many held-out rows.")


def _title(steps: int) -> str:
    return f"{steps} step" if steps == 1 else f"{steps} steps"


def _legend(figure: Any) -> None:
    figure.legend(*figure.axes[0].get_legend_handles_labels(), loc="outside upper right", ncols=2, fontsize=8.5)
