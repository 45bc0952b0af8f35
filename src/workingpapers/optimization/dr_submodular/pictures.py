"""The pictures of the report: where the money goes, what the ascent certifies, and how fast each feedback learns."""

from __future__ import annotations

import numpy as np

from workingpapers.foundations.figures import INK, PALETTE, canvas, to_svg
from workingpapers.foundations.outcome import Figure
from workingpapers.optimization.dr_submodular.online import FEEDBACK
from workingpapers.optimization.dr_submodular.planning import Plan, Rehearsal, spending
from workingpapers.optimization.dr_submodular.tables import Campaign

SHOWN = 15


def offline_picture(campaign: Campaign, plan: Plan) -> Figure:
    """Draw the spending of the chosen plan beside the profit and its upper bound over the iterations.

    Args:
        campaign: One period.
        plan: Its plan.
    """
    money = spending(campaign, plan.shares[plan.chosen])[0]
    order = np.argsort(-money, kind="stable")[:SHOWN]
    with canvas(9.2, max(3.4, 1.4 + 0.24 * len(order)), columns=2) as figure:
        bars, curve = figure.axes
        rows = np.arange(len(order))
        bars.barh(rows, campaign.costs[order], color=PALETTE[0], alpha=0.18, label="full use")
        bars.barh(rows, money[order], color=PALETTE[0], label="plan")
        bars.set_yticks(rows, [_short(campaign.channels[k]) for k in order])
        bars.invert_yaxis()
        bars.set(xlabel="money", title=f"Plan: {plan.chosen}")
        steps = np.arange(1, len(plan.trace.values) + 1)
        curve.plot(steps, plan.trace.bounds - campaign.constant, color=PALETTE[3], label="upper bound of the method")
        curve.axhline(plan.upper_bound, color=PALETTE[1], linestyle="--", label="no plan can exceed")
        curve.plot(
            steps, plan.trace.values - campaign.constant, color=PALETTE[0], label="exponential wrapper, best so far"
        )
        curve.axhline(float(plan.profits[plan.chosen].sum()), color=PALETTE[2], linestyle="--", label="chosen plan")
        curve.set(xscale="log", xlabel="iterations", ylabel="profit", title="What is certain about the profit")
        curve.grid(axis="y")
        for axes, columns in ((bars, 2), (curve, 1)):
            axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=columns, fontsize=8.5)
        left = len(money) - len(order)
        return Figure(
            to_svg(figure),
            "Left: money for each channel; the pale bar is what its full use costs."
            + (f" {left} channels with less are not drawn." if left else "")
            + " Right: profit of the method after each iteration, and the upper bound that it proves. "
            "Dashed: the best bound proven by any means.",
        )


def online_picture(campaign: Campaign, plan: Plan) -> Figure:
    """Draw cumulative profits beside the spending of the method over the periods.

    Args:
        campaign: Several periods.
        plan: Its plan.
    """
    money = spending(campaign, plan.shares[plan.chosen])
    rounds = np.arange(1, len(money) + 1)
    order = np.argsort(-money.sum(axis=0), kind="stable")[:6]
    with canvas(9.2, 4.6, columns=2) as figure:
        left, right = figure.axes
        for k, (name, profits) in enumerate(plan.profits.items()):
            style = "--" if name.startswith("best") else "-"
            left.plot(rounds, np.cumsum(profits), style, color=PALETTE[k % len(PALETTE)], label=name)
        left.set(xlabel="period", ylabel="profit so far", title="Profit")
        left.grid(axis="y")
        stack = [money[:, k] for k in order]
        names = [_short(campaign.channels[k]) for k in order]
        if len(order) < money.shape[1]:
            stack.append(money.sum(axis=1) - sum(stack))
            names.append("others")
        right.stackplot(rounds, *stack, labels=names, colors=[*PALETTE[: len(order)], "#8a8f98"], alpha=0.85)
        right.axhline(campaign.budget, color=INK, linewidth=0.8, linestyle=":")
        right.set(xlabel="period", ylabel="money", title="Spending of the method")
        for axes in (left, right):
            axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.14), ncols=2, fontsize=8)
        return Figure(
            to_svg(figure), "Each period is decided before it is known. The dotted line on the right is the budget."
        )


def rehearsal_picture(rehearsal: Rehearsal) -> Figure:
    """Draw the certified regret against the rounds for each kind of feedback, with the fitted exponents.

    Args:
        rehearsal: What was measured.
    """
    with canvas(7.4, 4.2) as figure:
        axes = figure.axes[0]
        rounds = np.array(rehearsal.rounds)
        for k, (name, regrets) in enumerate(rehearsal.regrets.items()):
            fit, theory = rehearsal.exponents[name], FEEDBACK[name].exponent
            label = f"{name}: {fit.slope:.2f} [{fit.low:.2f}, {fit.high:.2f}], theory {theory:.2f}"
            mean = regrets.mean(axis=0)
            axes.plot(rounds, mean, "o-", color=PALETTE[k], label=label)
            axes.fill_between(rounds, regrets.min(axis=0), regrets.max(axis=0), color=PALETTE[k], alpha=0.15)
        axes.set(xscale="log", yscale="log", xlabel="rounds", ylabel="certified 1/e-regret, money")
        axes.set_xticks(rounds, [str(t) for t in rounds])
        axes.minorticks_off()
        axes.grid()
        figure.legend(*axes.get_legend_handles_labels(), loc="outside right upper", fontsize=8.5, title="exponent")
        return Figure(
            to_svg(figure),
            "What learning costs with each kind of feedback: mean and range of five runs, with the fitted exponent and "
            "its 95 % interval. A line of slope 1 learns nothing; theory gives the largest slope in the long run.",
        )


def _short(name: str, width: int = 22) -> str:
    return name if len(name) <= width else f"{name[: width - 9]}…{name[-8:]}"
