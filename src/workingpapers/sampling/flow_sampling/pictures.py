"""The pictures: samples over contours, energies, and what training did against gradients spent."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from workingpapers.foundations.densities import Density
from workingpapers.foundations.figures import PALETTE, canvas, to_svg
from workingpapers.foundations.manifolds import Euclidean, Manifold, Sphere
from workingpapers.foundations.outcome import Figure
from workingpapers.sampling.flow_sampling.replay import Round

DRAWN = 1500


def sample_picture(points: Tensor, truth: Tensor | None, density: Density, manifold: Manifold) -> Figure | None:
    """Draw samples in the plane, over contours of the density where it is a plane's; None where there is no plane.

    Args:
        points: Samples, shape (n, d).
        truth: Exact samples, where there are some.
        density: The density.
        manifold: Where the points live.
    """
    if isinstance(manifold, Sphere) and manifold.dim == 2:
        return _sphere_picture(points, truth)
    if type(manifold) is not Euclidean or manifold.dim < 2:
        return None
    x = points[:DRAWN].numpy()
    wide = np.quantile(np.abs(x[:, :2]), 0.995) * 1.25
    with canvas(5.2, 4.8) as figure:
        axes = figure.axes[0]
        if manifold.dim == 2:
            axis = np.linspace(-wide, wide, 160)
            grid = torch.from_numpy(np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2))
            height = density.log_density(grid).detach().numpy().reshape(160, 160)
            levels = height.max() - np.array([12, 9, 6, 4, 2, 0.7])
            axes.contour(axis, axis, height, levels=levels, colors="#8a8f98", linewidths=0.7, linestyles="solid")
        elif truth is not None:
            y = truth[:DRAWN].numpy()
            axes.plot(y[:, 0], y[:, 1], ".", color="#8a8f98", markersize=2.5, label="exact")
        axes.plot(x[:, 0], x[:, 1], ".", color=PALETTE[0], markersize=2.5, alpha=0.6, label="sampled")
        axes.set(xlabel="first coordinate", ylabel="second coordinate", xlim=(-wide, wide), ylim=(-wide, wide))
        axes.set_aspect("equal")
        if manifold.dim > 2 and truth is not None:
            axes.legend(loc="upper right", markerscale=3, fontsize=8.5)
        what = "over contours of the density" if manifold.dim == 2 else "in the first two coordinates"
        return Figure(to_svg(figure), f"Samples {what}.")


def energy_picture(energies: Tensor, truth: Tensor | None, density: Density) -> Figure:
    """Draw the distribution of the samples' energies, beside that of exact samples.

    Args:
        energies: Of the samples, shape (n,).
        truth: Exact samples, where there are some.
        density: The density.
    """
    ours = energies.numpy()
    both = [ours] if truth is None else [ours, -density.log_density(truth).detach().numpy()]
    low = min(float(values.min()) for values in both)
    high = max(float(np.quantile(values, 0.99)) for values in both)
    bins = np.linspace(low, high + 1e-9, 60).tolist()
    with canvas(6.4, 3.0) as figure:
        axes = figure.axes[0]
        axes.hist(ours, bins=bins, density=True, color=PALETTE[0], alpha=0.55, label="sampled")
        if truth is not None:
            axes.hist(both[1], bins=bins, density=True, histtype="step", color=PALETTE[3], linewidth=1.6, label="exact")
            axes.legend(fontsize=8.5)
        axes.set(xlabel="energy", ylabel="density")
        return Figure(to_svg(figure), "Energies of the samples; a tail to the right means samples off the modes.")


def history_picture(history: Sequence[Round], per_round: int) -> Figure:
    """Draw the mean log-density of each round's new samples against the gradients spent.

    Args:
        history: The rounds.
        per_round: Gradients a round.
    """
    spent = [one.evaluations for one in history]
    with canvas(6.4, 3.0) as figure:
        axes = figure.axes[0]
        # The first rounds start far off; what matters is how the curve settles.
        values = np.array([one.mean_log_density for one in history])
        axes.plot(spent, values, color=PALETTE[0], linewidth=1.6, marker="." if len(values) < 30 else "")
        tail = values[len(values) // 3 :]
        room = max(float(tail.max() - tail.min()), 1e-3)
        axes.set_ylim(float(tail.min()) - 3 * room, float(values.max()) + 0.5 * room)
        axes.set(xlabel=f"gradients of the log-density ({per_round:,} a round)", ylabel="mean log-density")
        return Figure(to_svg(figure), "New samples of each round: exploration improves until the curve is level.")


def _sphere_picture(points: Tensor, truth: Tensor | None) -> Figure:
    with canvas(7.4, 3.4, columns=2 if truth is not None else 1) as figure:
        shown = [("sampled", points)] + ([("exact", truth)] if truth is not None else [])
        for axes, (name, values) in zip(figure.axes, shown, strict=True):
            x = values[:DRAWN].numpy()
            longitude, height = np.degrees(np.arctan2(x[:, 1], x[:, 0])), x[:, 2]
            axes.plot(longitude, height, ".", color=PALETTE[0], markersize=2.5)
            axes.set(xlabel="longitude (degrees)", ylabel="height", title=name, xlim=(-180, 180), ylim=(-1.05, 1.05))
        return Figure(to_svg(figure), "The sphere as a map that keeps areas.")
