"""Pictures of paths among codes, and of what they decode to."""

from __future__ import annotations

import numpy as np

from workingpapers.foundations.figures import INK, PALETTE, canvas, to_svg
from workingpapers.foundations.outcome import Figure

SHOWN_CODES = 3000
SHOWN_PATHS = 4


def plane_picture(codes: np.ndarray, straight: np.ndarray, points: np.ndarray) -> Figure:
    """Draw codes, straight lines and geodesics in the plane of the codes' two principal components.

    Args:
        codes: Shape (N, l).
        straight: Shape (P, K + 1, l).
        points: Shape (P, K + 1, l).
    """
    center = codes.mean(axis=0)
    _, values, axes = np.linalg.svd(codes - center, full_matrices=False)
    axes = axes[:2] if len(axes) > 1 else np.vstack([axes, np.zeros_like(axes)])
    share = (values[:2] ** 2).sum() / (values**2).sum()
    shown = codes[:: max(1, len(codes) // SHOWN_CODES)]
    with canvas(6.6, 4.6) as figure:
        plot = figure.axes[0]
        cloud = (shown - center) @ axes.T
        plot.scatter(cloud[:, 0], cloud[:, 1], s=4, color=INK, alpha=0.15, linewidths=0, label="codes")
        for k in range(min(len(points), SHOWN_PATHS)):
            color = PALETTE[k % len(PALETTE)]
            line, path = ((item[k] - center) @ axes.T for item in (straight, points))
            name = f" {k + 1}" if len(points) > 1 else ""
            plot.plot(*line.T, "--", color=color, linewidth=1.1, label=f"straight line{name}")
            plot.plot(*path.T, "o-", color=color, markersize=3, label=f"geodesic{name}")
        plot.set(xlabel="first principal component", ylabel="second principal component")
        plot.set_aspect("equal", adjustable="datalim")
        plot.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), markerscale=1.5)
        svg = to_svg(figure)
    more = f" The first {SHOWN_PATHS} of {len(points)} pairs are drawn." if len(points) > SHOWN_PATHS else ""
    return Figure(svg, f"The plane holds {100 * share:.0f} % of the codes' variance.{more}")


def decoded_picture(rows: dict[str, np.ndarray]) -> Figure:
    """Draw what paths decode to, one row of images a path.

    Args:
        rows: Name -> grey images in [0, 1], shape (m, h, w).
    """
    with canvas(7.0, 0.95 * len(rows) + 0.2, rows=len(rows)) as figure:
        for plot, (name, images) in zip(figure.axes, rows.items(), strict=True):
            strip = np.concatenate([np.pad(image, 1, constant_values=np.nan) for image in images], axis=1)
            plot.imshow(strip, cmap="gray_r", vmin=0, vmax=1)
            plot.set_title(name)
            plot.set_axis_off()
        svg = to_svg(figure)
    return Figure(svg, "Decoded nodes from one image to another of the same digit.")
