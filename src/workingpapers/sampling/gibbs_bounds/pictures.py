"""The pictures of the report: bound and errors against the temperature, and the divergence behind the bound."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from workingpapers.foundations.figures import INK, PALETTE, canvas, to_svg
from workingpapers.foundations.outcome import Figure
from workingpapers.sampling.gibbs_bounds.bounds import GibbsBound

Floats = NDArray[np.float64]


def bound_picture(found: GibbsBound, prior_loss: Floats, test_errors: Floats | None, chance: float | None) -> Figure:
    """Draw the bound, the training error and, where known, the test error against beta / n.

    Args:
        found: The bounds, shape (m,).
        prior_loss: The bound from the prior's loss alone, shape (m,).
        test_errors: Mean test errors, shape (m,), or None.
        chance: Risk without learning, or None.
    """
    ratios = found.betas[1:] / found.n
    with canvas(7.6, 3.9) as figure:
        axes = figure.axes[0]
        if chance is not None:
            axes.axhline(chance, color=INK, linewidth=0.8, linestyle=(0, (1, 3)), label="chance")
        axes.plot(ratios, prior_loss[1:], color="#8a8f98", linestyle="--", label="bound, prior's loss alone")
        axes.plot(ratios, found.bound[1:], "o-", color=PALETTE[0], linewidth=2.4, markersize=4, label="bound")
        if found.bound_with_sampling_error is not None:
            axes.fill_between(
                ratios, found.bound[1:], found.bound_with_sampling_error[1:], color=PALETTE[0], alpha=0.18,
                linewidth=0, label="noise of the chains",
            )  # fmt: skip
        if found.heuristic_calibrated_bound is not None:
            axes.plot(ratios, found.heuristic_calibrated_bound[1:], ":", color=PALETTE[4], linewidth=2,
                      label="calibrated (heuristic)")  # fmt: skip
        if test_errors is not None:
            axes.plot(ratios, test_errors[1:], "s-", color=PALETTE[3], markersize=4, label="test error")
        axes.plot(ratios, found.errors[1:], "^-", color=PALETTE[2], markersize=4, label="training error")
        _temperatures(axes, ratios)
        axes.set(ylabel="error", ylim=(0, 1.02))
        axes.grid(axis="y")
        figure.legend(*axes.get_legend_handles_labels(), loc="outside upper center", ncols=4, fontsize=8.5)
        return Figure(
            to_svg(figure),
            "The blue curve must not lie below the test error. Left of 1 the posterior is warm, right of it the "
            "training data are nearly interpolated.",
        )


def divergence_picture(found: GibbsBound) -> Figure:
    """Draw how far the posterior moved from the prior, between the upper and the lower sum.

    Args:
        found: The bounds, shape (m,).
    """
    ratios = found.betas[1:] / found.n
    with canvas(7.6, 3.0) as figure:
        axes = figure.axes[0]
        axes.plot(ratios, found.kl[1:] / found.n, "o-", color=PALETTE[0], markersize=4, label="upper sum (used)")
        axes.plot(ratios, found.kl_lower[1:] / found.n, "o--", color=PALETTE[5], markersize=4, label="lower sum")
        axes.fill_between(ratios, found.kl_lower[1:] / found.n, found.kl[1:] / found.n, color=PALETTE[5], alpha=0.15,
                          linewidth=0)  # fmt: skip
        _temperatures(axes, ratios)
        axes.set(ylabel="KL to the prior / n, nats")
        axes.set_ylim(bottom=0)
        axes.grid(axis="y")
        axes.legend(loc="upper left", fontsize=8.5)
        return Figure(
            to_svg(figure),
            "The divergence lies between the two sums; more temperatures bring them together and lower the bound.",
        )


def _temperatures(axes: Any, ratios: Floats) -> None:
    from matplotlib.ticker import FuncFormatter, NullLocator

    axes.set_xscale("log", base=2)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}" if value >= 1 else f"1/{1 / value:g}"))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xlabel("inverse temperature over number of examples, β/n")
