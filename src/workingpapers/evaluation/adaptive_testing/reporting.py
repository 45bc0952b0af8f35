"""Tables, figures and sentences from simulations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from workingpapers.evaluation.adaptive_testing.bank import Bank
from workingpapers.evaluation.adaptive_testing.simulation import Simulation, items_needed, prediction
from workingpapers.foundations.figures import INK, PALETTE, canvas, to_svg
from workingpapers.foundations.outcome import Figure, Table

DASHES = ("-", (0, (5, 2)), (0, (1, 1.5)), (0, (6, 2, 1, 2)), (0, (3, 1.5)), (0, (8, 2)))


def comparison(
    runs: Sequence[Simulation], bank: Bank, responses: np.ndarray, query: np.ndarray
) -> tuple[Table, Table, list[dict[str, Any]]]:
    """Return one row for each selector, as a table, a second table of further measures, and plain data.

    Args:
        runs: Simulations of the same N examinees; the first is the reference for items needed.
        bank: The items.
        responses: Their answers, shape (N, n).
        query: Answers that no selector asked, bool, shape (N, n).
    """
    reference = next((run for run in runs if run.name == "MFI"), runs[0])
    target = float(reference.squared_error[-1])
    rows, further, data = [], [], []
    for run in runs:
        accuracy, area = prediction(bank, run.theta[:, -1], responses, query)
        needed = items_needed(run.squared_error, target)
        cells: dict[str, Any] = {
            "selector": run.name,
            "error": float(run.squared_error[-1]),
            "items_needed": needed,
            "items_asked": float(run.lengths.mean()),
            "auc": area,
            "largest_exposure": float(run.exposure.max()),
            "overlap": run.overlap,
            "bias": float(run.bias[-1, 0]),
            "accuracy": accuracy,
            "never_asked": float(np.mean(run.exposure == 0)),
        }
        shown = f"> {len(run.squared_error)}" if needed > len(run.squared_error) else f"{needed:.1f}"
        values = [shown if key == "items_needed" else value for key, value in cells.items()]
        rows.append(values[:7])
        further.append([run.name, *values[7:]])
        data.append({key: None if value != value else value for key, value in cells.items()})
    first = Table(
        ["selector", "error", f"items for {reference.name}'s", "items", "AUC", "exposure", "overlap"],
        rows,
        title=f"{len(responses)} test examinees",
        note=(
            "Error: mean squared distance between the last ability and the one that all answers of the examinee give. "
            f"Items for {reference.name}'s: items after which its error is reached. AUC: on a fifth of the answers, "
            "which nobody may ask. Exposure: share of examinees who are asked the commonest item. Overlap: share of a "
            "test that two examinees have in common."
        ),
    )
    second = Table(
        ["selector", "bias", "accuracy", "never asked"],
        further,
        title="Further measures",
        note=(
            "Bias: mean of the last ability minus the one that all answers give. Accuracy: on the held-out answers. "
            "Never asked: share of the bank."
        ),
    )
    return first, second, data


def steps(runs: Sequence[Simulation]) -> Table:
    """Return the squared error after each item, one column for each selector.

    Args:
        runs: Simulations with the same number of items T.
    """
    curves = [run.squared_error for run in runs]
    rows = [[step + 1, *(float(curve[step]) for curve in curves)] for step in range(len(curves[0]))]
    return Table(["items", *(run.name for run in runs)], rows, title="Squared error after each item")


def error_figure(runs: Sequence[Simulation]) -> Figure:
    """Draw the error after each item.

    Args:
        runs: Simulations with the same number of items T.
    """
    from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator

    with canvas(7.2, 4.0) as figure:
        axes = figure.axes[0]
        for number, run in enumerate(runs):
            error = run.squared_error
            axes.plot(
                np.arange(1, len(error) + 1),
                error,
                color=PALETTE[number % len(PALETTE)],
                linestyle=DASHES[number % len(DASHES)],
                linewidth=2.4 if number == 0 else 1.5,
                label=run.name,
            )
        axes.set_yscale("log")
        axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 3.0, 5.0)))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axes.yaxis.set_minor_locator(NullLocator())
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.set_xlabel("items asked")
        axes.set_ylabel("squared error of the ability (log scale)")
        axes.grid(True)
        axes.legend(loc="upper right", ncols=2)
        axes.set_title("How fast a test comes to the ability that all answers give")
        return Figure(to_svg(figure), "Lower is better; all selectors share model, estimator and prior.")


def exposure_figure(runs: Sequence[Simulation], cap: float | None) -> Figure:
    """Draw how often items are asked, from the commonest on.

    Args:
        runs: Simulations on a bank of n items.
        cap: Exposure that was to be kept, drawn as a line; None for none.
    """
    from matplotlib.ticker import PercentFormatter

    with canvas(7.2, 3.2) as figure:
        axes = figure.axes[0]
        for number, run in enumerate(runs):
            rates = np.sort(run.exposure)[::-1]
            axes.step(
                np.arange(1, len(rates) + 1),
                rates,
                where="mid",
                color=PALETTE[number % len(PALETTE)],
                linestyle=DASHES[number % len(DASHES)],
                linewidth=2.4 if number == 0 else 1.5,
                label=run.name,
            )
        if cap is not None:
            axes.axhline(cap, color=INK, linewidth=0.8, label="limit")
        axes.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
        # Room for the legend above the curves.
        axes.set_ylim(0, 1.45 * max(run.exposure.max() for run in runs))
        axes.set_xlabel("items, from the commonest to the rarest")
        axes.set_ylabel("examinees who are asked")
        axes.grid(True, axis="y")
        axes.legend(loc="upper right", ncols=4)
        axes.set_title("How evenly the bank is used")
        return Figure(to_svg(figure), "A steep curve wears few items out; a limit on exposure flattens it.")


def sentence(runs: Sequence[Simulation]) -> str:
    """Say in one or two sentences what the policy is worth against the best classic selector.

    Args:
        runs: Simulations of the same examinees, the trained policy first.
    """
    own, others = runs[0], list(runs[1:])
    best = min(others, key=lambda run: run.squared_error[-1])
    squares = [((run.theta[:, -1] - run.full) ** 2).sum(axis=1) for run in (own, best)]
    difference = squares[0] - squares[1]
    error = float(difference.std(ddof=1) / np.sqrt(len(difference))) if len(difference) > 1 else float("inf")
    needed = items_needed(own.squared_error, float(best.squared_error[-1]))
    length = len(own.squared_error)
    gap = float(difference.mean())
    if gap < -2 * error:
        saved = f"{needed:.1f}" if needed > 1 else "1"
        return (
            f"{own.name} reaches with {saved} items the error that {best.name}, the best classic selector here, "
            f"reaches with {length}."
        )
    if gap > 2 * error:
        return f"{own.name} is worse than {best.name} on the test examinees: use --selector {best.name.lower()}."
    return (
        f"{own.name} and {best.name}, the best classic selector here, cannot be told apart on {len(difference)} test "
        f"examinees: {best.name} is simpler."
    )
