"""Budget-allocation problems from tables: channels and their cost, whom they reach, what that is worth, and limits."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from workingpapers.foundations.errors import InputError, near_match
from workingpapers.foundations.files import column, read_table
from workingpapers.optimization.dr_submodular.objectives import Coverage, floor
from workingpapers.optimization.dr_submodular.polytope import Polytope

if TYPE_CHECKING:
    import pandas as pd

ENUMERATED = 12


@dataclass(frozen=True, eq=False)
class Campaign:
    """Channels to spend on, in one period or several.

    Args:
        channels: Names of the d channels.
        customers: Names of the n customers or segments.
        costs: Cost of the full use of each channel, shape (d,), in money.
        budget: Money for one period.
        periods: Names of the T periods; one without a name where there are no periods.
        rewards: Reward of each period as a function of the shares x of full use, shape (d,): value of those reached,
            minus what is spent, plus the budget and `offset`.
        polytope: Allowed shares.
        offset: Money added so that no reward is negative on the unit box.
    """

    channels: tuple[str, ...]
    customers: tuple[str, ...]
    costs: np.ndarray
    budget: float
    periods: tuple[str, ...]
    rewards: tuple[Coverage, ...]
    polytope: Polytope
    offset: float

    @property
    def constant(self) -> float:
        """Reward minus profit."""
        return self.budget + self.offset


def read_campaign(
    path: Path,
    *,
    budget: float,
    channel: str = "channel",
    cost: str = "cost",
    period: str | None = None,
    customers: Sequence[str] = (),
    value: float = 1.0,
    values: Path | None = None,
    limits: Path | None = None,
) -> Campaign:
    """Read a campaign.

    Args:
        path: Table with one row a channel (and period): its name, the cost of its full use, and for each customer the
            probability that its full use reaches that customer.
        budget: Money for one period.
        channel: Column of names.
        cost: Column of costs.
        period: Column of periods, or None.
        customers: Columns of customers; all others by default.
        value: Worth of a reached customer.
        values: Table with the columns customer and value, or None.
        limits: Table of further limits, one a row: a column a channel with the weight of its spending, and a column
            ``limit`` in money.

    Raises:
        InputError: A column is missing, a number is not one, or out of its range.
    """
    table = read_table(path)
    names = [str(name) for name in column(table, channel, path)]
    costs = _numbers(table, cost, path, low=0.0, open_low=True)
    labels = [str(item) for item in column(table, period, path)] if period is not None else [""] * len(names)
    taken = {channel, cost, period}
    chosen = tuple(customers) or tuple(str(name) for name in table.columns if name not in taken)
    if not chosen:
        raise InputError(f"{str(path)!r} has no columns of customers beside {channel!r} and {cost!r}; add one.")
    hint = "" if customers else ", or name the columns of customers with --customers"
    reach = np.column_stack([_numbers(table, name, path, low=0.0, high=1.0, hint=hint) for name in chosen])
    worth = np.full(len(chosen), value) if values is None else _worths(values, chosen)
    channels = tuple(dict.fromkeys(names))
    periods = tuple(dict.fromkeys(labels))
    rows = _rows(names, labels, channels, periods, path)
    for j, name in enumerate(channels):
        differing = np.flatnonzero(costs[rows[:, j]] != costs[rows[0, j]])
        if len(differing):
            raise InputError(
                f"The cost of {name!r} is {costs[rows[0, j]]:g} in {periods[0]!r} and "
                f"{costs[rows[differing[0], j]]:g} in {periods[differing[0]]!r}; one cost for all periods is needed."
            )
    price = costs[rows[0]]
    rewards = [Coverage(reach[row], worth, price, budget) for row in rows]
    offset = max(0.0, -min(_lowest(reward, len(channels)) for reward in rewards))
    matrix, bounds = [price], [budget]
    if limits is not None:
        weights, extra = _limits(limits, channels)
        matrix.extend(weights * price)
        bounds.extend(extra)
    return Campaign(
        channels, chosen, price, budget, periods,
        tuple(dataclasses.replace(reward, constant=budget + offset) for reward in rewards),
        Polytope(np.array(matrix), np.array(bounds)), offset,
    )  # fmt: skip


def _lowest(reward: Coverage, dimension: int) -> float:
    """Return the smallest reward on the unit box, or a lower bound of it: along each axis it is linear."""
    if dimension > ENUMERATED:
        return floor(reward, dimension)
    return min(float(reward.value(np.array(corner))) for corner in itertools.product((0.0, 1.0), repeat=dimension))


def _rows(
    names: Sequence[str], labels: Sequence[str], channels: Sequence[str], periods: Sequence[str], path: Path
) -> np.ndarray:
    """Return the row number of each period and channel, shape (T, d)."""
    place: dict[tuple[str, str], int] = {}
    for row, key in enumerate(zip(labels, names, strict=True)):
        if key in place:
            where = f" in period {key[0]!r}" if key[0] else ""
            raise InputError(
                f"{str(path)!r} lists the channel {key[1]!r} twice{where} (rows {place[key] + 2} and {row + 2}); keep "
                "one, or name the column of periods with --period."
            )
        place[key] = row
    for label, name in itertools.product(periods, channels):
        if (label, name) not in place:
            raise InputError(f"{str(path)!r} has no row for the channel {name!r} in period {label!r}; add it.")
    return np.array([[place[label, name] for name in channels] for label in periods])


def _numbers(
    table: pd.DataFrame, name: str, path: Path, low: float, high: float = np.inf, open_low: bool = False, hint: str = ""
) -> np.ndarray:
    cells = column(table, name, path)
    found = np.empty(len(cells))
    for row, cell in enumerate(cells, start=2):
        try:
            number = float(cell)
        except (TypeError, ValueError):
            number = np.nan
        if not (low <= number <= high) or np.isinf(number) or (open_low and number == low):
            shown = "nothing" if number != number and not isinstance(cell, str) else repr(cell)
            wanted = (
                f"a number from {low:g} to {high:g}"
                if high < np.inf
                else f"a number {'over' if open_low else 'of at least'} {low:g}"
            )
            raise InputError(f"Row {row} of {str(path)!r} holds {shown} in column {name!r}; give {wanted}{hint}.")
        found[row - 2] = number
    return found


def _worths(path: Path, customers: Sequence[str]) -> np.ndarray:
    table = read_table(path)
    names = [str(name) for name in column(table, "customer", path)]
    numbers = dict(zip(names, _numbers(table, "value", path, low=0.0), strict=True))
    for name in names:
        if name not in customers:
            hint = near_match(name, customers) or "; it is no column of the table of channels."
            raise InputError(f"{str(path)!r} has a value for the customer {name!r}{hint}")
    for name in customers:
        if name not in numbers:
            raise InputError(f"{str(path)!r} has no value for the customer {name!r}; add a row.")
    return np.array([numbers[name] for name in customers])


def _limits(path: Path, channels: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    table = read_table(path)
    for name in map(str, table.columns):
        if name not in (*channels, "limit", "name"):
            hint = near_match(name, channels) or f"; the channels are {', '.join(channels[:12])}."
            raise InputError(f"{str(path)!r} has the column {name!r}, which is no channel{hint}")
    for row, cell in enumerate(column(table, "limit", path), start=2):
        if isinstance(cell, int | float | np.number) and cell < 0:
            raise InputError(
                f"Row {row} of {str(path)!r} has the limit {cell:g}, which no spending meets; raise it to 0."
            )
    bounds = _numbers(table, "limit", path, low=0.0)
    filled = table.reindex(columns=list(channels)).fillna(0.0)
    return np.column_stack([_numbers(filled, name, path, low=0.0) for name in channels]), bounds
