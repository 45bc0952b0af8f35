"""The pictures of the report, drawn from the released model and public responses alone."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from workingpapers.foundations.figures import INK, PALETTE, canvas, to_svg
from workingpapers.foundations.outcome import Figure
from workingpapers.preferences.dpprefsyn.mixture import RewardMixture


def margin_picture(margins: Sequence[float], threshold: float) -> Figure:
    """Draw how far apart best and worst response are, and where the cut lies.

    Args:
        margins: One for each labelled prompt.
        threshold: Pairs below it are left out.
    """
    from matplotlib.ticker import MaxNLocator

    with canvas(7.4, 3.0) as figure:
        axes = figure.axes[0]
        top = max([threshold, *margins]) * 1.05 or 1.0
        edges = np.linspace(0, top, 41).tolist()
        values = np.asarray(margins, np.float64)
        axes.hist(values[values < threshold], edges, color="#8a8f98", alpha=0.6, label="left out")
        axes.hist(values[values >= threshold], edges, color=PALETTE[0], label="written")
        axes.axvline(threshold, color=INK, linewidth=1, linestyle="--", label=f"threshold {threshold:.3g}")
        axes.set(xlabel="margin: reward of the best response minus that of the worst", ylabel="prompts", xlim=(0, top))
        axes.yaxis.set_major_locator(MaxNLocator(integer=True))
        figure.legend(*axes.get_legend_handles_labels(), loc="outside upper right", ncols=3, fontsize=8.5)
        return Figure(to_svg(figure), "Prompts on the left have responses that the drawn cluster's reward hardly tells "
                      "apart; their labels would be noise.")  # fmt: skip


def mixture_picture(mixture: RewardMixture) -> Figure:
    """Draw the clusters' weights beside how far their rewards agree with one another.

    Args:
        mixture: The released model.
    """
    rewards = mixture.rewards
    count = len(rewards.weights)
    lengths = np.maximum(np.linalg.norm(rewards.thetas, axis=1, keepdims=True), 1e-300)
    cosines = (rewards.thetas / lengths) @ (rewards.thetas / lengths).T
    names = [str(k + 1) for k in range(count)]
    with canvas(7.4, 3.2, columns=2) as figure:
        left, right = figure.axes
        left.bar(names, rewards.weights, color=PALETTE[0], width=0.7)
        left.set(xlabel="cluster", ylabel="share of the records (noisy)", title="Weight")
        shown = right.imshow(cosines, cmap="PuOr", vmin=-1, vmax=1)
        right.set_xticks(range(count), names)
        right.set_yticks(range(count), names)
        right.set(xlabel="cluster", ylabel="cluster", title="Agreement of rewards (cosine)")
        for i in range(count):
            for j in range(count):
                dark = abs(cosines[i, j]) > 0.6
                shown_as = f"{round(cosines[i, j], 1) + 0.0:.1f}".replace("-", "−")
                right.text(j, i, shown_as, ha="center", va="center", fontsize=8.5,
                           color="#ffffff" if dark else "#1b1f24")  # fmt: skip
        figure.colorbar(shown, ax=right, shrink=0.8)
        return Figure(to_svg(figure), "Rewards near −1 to each other are opposite tastes, which one reward for all "
                      "records would average away.")  # fmt: skip
