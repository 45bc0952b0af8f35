"""``papers run dr_submodular``: spend a budget on channels, with an upper bound of what any plan could earn."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from workingpapers.foundations.errors import InputError
from workingpapers.foundations.outcome import Outcome, Table
from workingpapers.foundations.progress import Progress, part, silent
from workingpapers.foundations.signature import Between, InputFile, OutputFile

if TYPE_CHECKING:
    from pathlib import Path

    from workingpapers.optimization.dr_submodular.planning import Plan, Rehearsal
    from workingpapers.optimization.dr_submodular.tables import Campaign


def run(
    influence: InputFile,
    *,
    budget: Annotated[float, Between(0, 1e15, open_low=True)],
    channel: str = "channel",
    cost: str = "cost",
    period: str | None = None,
    customers: tuple[str, ...] = (),
    value: Annotated[float, Between(0, 1e15, open_low=True)] = 1.0,
    values: InputFile | None = None,
    limits: InputFile | None = None,
    feedback: Literal["gradient", "semi-bandit", "two-point", "one-point", "bandit"] = "gradient",
    learner: Literal["gradient", "fixed step", "separation", "experts"] = "gradient",
    iterations: Annotated[int, Between(1, 100_000)] = 300,
    rehearsal: Annotated[int, Between(0, 100_000)] = 0,
    seed: Annotated[int, Between(0, 2**32 - 1)] = 0,
    out: OutputFile | None = None,
    report: OutputFile | None = None,
    progress: Progress = silent,
) -> Outcome:
    """Spend a budget on channels so that value minus cost is largest: at once, or period by period.

    Args:
        influence: Table with one row a channel: its name, the cost of its full use, and for each customer or segment
            the probability that its full use reaches them.
        budget: Money to spend, in one period.
        channel: Column of the names of channels.
        cost: Column of the costs of full use.
        period: Column of periods, for decisions one after the other; without it everything is known beforehand.
        customers: Columns of customers; by default all others.
        value: What a reached customer is worth, in money.
        values: Table with the columns customer and value, where customers differ.
        limits: Table of further limits, one a row: a column for each channel concerned with the weight of its spending,
            and the column limit in money.
        feedback: What is learned after a period: gradients anywhere, the gradient at the plan played, values at two
            points, at one, or of the plan played only.
        learner: Learner behind the method: gradient, fixed step (regret on every interval), separation (no projections)
            or experts (an optimum that moves).
        iterations: Iterations of the offline search and of its upper bound.
        rehearsal: Rounds of a rehearsal of all kinds of feedback on periods drawn at random, with fitted regret
            exponents; 0 for none, else at least 16.
        seed: Seed of everything random.
        out: CSV file for the plan, one row a period and channel.
        report: HTML report with the plan, its certificate and the rehearsal.
    """
    from workingpapers.foundations.report import paragraph, write_report
    from workingpapers.optimization.dr_submodular import pictures, planning
    from workingpapers.optimization.dr_submodular.tables import read_campaign

    if 0 < rehearsal < 16:
        raise InputError(f"--rehearsal is {rehearsal}; give 0 or at least 16 rounds.")
    campaign = read_campaign(
        influence, budget=budget, channel=channel, cost=cost, period=period, customers=customers, value=value,
        values=values, limits=limits,
    )  # fmt: skip
    online = period is not None
    if not online and (feedback, learner) != ("gradient", "gradient"):
        name, chosen = ("feedback", feedback) if feedback != "gradient" else ("learner", learner)
        raise InputError(f"--{name} is {chosen!r}, which is about decisions one by one; name a column with --period.")
    inner = part(progress, 0, 0.4 if rehearsal else 1)
    if online:
        plan = planning.plan_online(
            campaign, feedback=feedback, learner=learner, seed=seed, iterations=iterations, progress=inner
        )
        figures = [pictures.online_picture(campaign, plan)]
    else:
        plan = planning.plan_offline(campaign, seed, iterations, inner)
        figures = [pictures.offline_picture(campaign, plan)]
    rehearsed = planning.rehearse(campaign, rehearsal, seed, part(progress, 0.4, 1)) if rehearsal else None
    tables = [_ways(campaign, plan), _channels(campaign, plan)]
    if rehearsed:
        figures.append(pictures.rehearsal_picture(rehearsed))
        tables.append(_rates(rehearsed))
    summary = _summary(campaign, plan)
    files: list[Path] = []
    if out is not None:
        _write(out, campaign, plan)
        files.append(out)
    if report is not None:
        write_report(report, "Budget allocation with a guarantee", [paragraph(summary), *figures, *tables])
        files.append(report)
    return Outcome(summary, tables, figures, files, _data(campaign, plan, rehearsed))


def _summary(campaign: Campaign, plan: Plan) -> str:
    profit, bound = float(plan.profits[plan.chosen].sum()), plan.upper_bound
    unit = f"profit plus {campaign.constant:g} a period, the budget{' and an offset' if campaign.offset else ''}"
    if plan.certified is None:
        share = f", at least {100 * profit / bound:.0f} % of the best possible" if bound > 0 < profit else ""
        return (
            f"The plan ({plan.chosen}) earns {profit:.4g}{share}: no plan earns more than {bound:.4g}. What the method "
            f"guarantees beforehand, 1/e of the best, is about {unit}."
        )
    hindsight = "best fixed plan, in hindsight"
    ahead = max(plan.profits, key=lambda name: float(plan.profits[name].sum()) if name != hindsight else -float("inf"))
    most = "" if ahead == plan.chosen else f" Of the ways without hindsight, {ahead!r} earned most."
    return (
        f"Over {len(campaign.periods)} periods the {plan.chosen} earned {profit:.4g}; the best fixed plan found in "
        f"hindsight earned {float(plan.profits[hindsight].sum()):.4g}, and none can earn more than {bound:.4g}. The "
        f"1/e-regret, about {unit}, is proven to be at most {plan.certified[-1]:.4g}.{most}"
    )


def _ways(campaign: Campaign, plan: Plan) -> Table:
    from workingpapers.optimization.dr_submodular.planning import spending, totals

    rows = [[name, profit, float(spending(campaign, plan.shares[name]).sum())] for name, profit in totals(plan)]
    note = f"No {'fixed ' if plan.certified is not None else ''}plan earns more than {plan.upper_bound:.4g}."
    return Table(["way to spend", "profit", "spent"], rows, "Ways to spend", note)


def _channels(campaign: Campaign, plan: Plan) -> Table:
    import numpy as np

    from workingpapers.optimization.dr_submodular.planning import spending

    mean = plan.shares[plan.chosen].mean(axis=0)
    money = spending(campaign, plan.shares[plan.chosen]).mean(axis=0)
    first = np.mean([reward.gradient(np.zeros(len(mean))) for reward in campaign.rewards], axis=0)
    rows = [
        [campaign.channels[k], float(money[k]), float(mean[k]), float(first[k] / campaign.costs[k])]
        for k in np.argsort(-money, kind="stable")
    ]
    note = "Return: profit per unit of the first money spent; a channel below 0 never pays."
    title = "Channels" if len(campaign.periods) == 1 else "Channels, mean of the periods"
    return Table(["channel", "money", "share of full use", "return"], rows, title, note)


def _rates(rehearsed: Rehearsal) -> Table:
    from workingpapers.optimization.dr_submodular.online import FEEDBACK

    rows = [
        [name, float(found[:, -1].mean() / rehearsed.rounds[-1]), fit.slope, fit.low, fit.high, FEEDBACK[name].exponent]
        for (name, found), fit in zip(rehearsed.regrets.items(), rehearsed.exponents.values(), strict=True)
    ]
    columns = ["feedback", "certified regret a round", "exponent", "low", "high", "theory"]
    return Table(columns, rows, "Rehearsal", f"Five runs; regret a round after {rehearsed.rounds[-1]} rounds.")


def _write(path: Path, campaign: Campaign, plan: Plan) -> None:
    import csv

    from workingpapers.foundations.files import whole_file
    from workingpapers.optimization.dr_submodular.planning import spending

    shares = plan.shares[plan.chosen]
    money = spending(campaign, shares)
    with whole_file(path, newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(["period", "channel", "money", "share"])
        for t, label in enumerate(campaign.periods):
            for j, name in enumerate(campaign.channels):
                writer.writerow([label, name, f"{money[t, j]:.10g}", f"{shares[t, j]:.10g}"])


def _data(campaign: Campaign, plan: Plan, rehearsed: Rehearsal | None) -> dict[str, object]:
    from workingpapers.optimization.dr_submodular.planning import spending, totals

    money = spending(campaign, plan.shares[plan.chosen])
    return {
        "chosen": plan.chosen,
        "profit": float(plan.profits[plan.chosen].sum()),
        "upper_bound": plan.upper_bound,
        "profits": dict(totals(plan)),
        "periods": list(campaign.periods),
        "money": {name: money[:, j].tolist() for j, name in enumerate(campaign.channels)},
        "offset": campaign.offset,
        "certified_regret": None if plan.certified is None else float(plan.certified[-1]),
        "rehearsal": rehearsed
        and {
            name: {"exponent": fit.slope, "low": fit.low, "high": fit.high} if fit.slope == fit.slope else None
            for name, fit in rehearsed.exponents.items()
        },
    }
