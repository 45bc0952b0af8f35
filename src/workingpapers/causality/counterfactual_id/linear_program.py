"""Sharp bounds of small discrete models by linear programming over the joint law of all response functions."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from workingpapers.causality.counterfactual_id.evaluation import Source, find_value
from workingpapers.causality.counterfactual_id.graph import ADMG
from workingpapers.causality.counterfactual_id.query import Query, Symbol
from workingpapers.causality.counterfactual_id.regime import ANY, Regime
from workingpapers.causality.counterfactual_id.tables import Table
from workingpapers.causality.counterfactual_id.worlds import Units
from workingpapers.foundations.errors import InputError

MOST_CELLS = 100_000
LEVEL = 0.95


class TooManyCells(InputError):
    """The programme would be larger than it may be."""


class InconsistentTables(InputError):
    """No model with this graph gives these tables."""


class _Law(NamedTuple):
    """A law of the data: the cell of each unit, the probability of each cell, and how many units it was seen on."""

    cell: np.ndarray
    right: np.ndarray
    number: int | None


def response_units(graph: ADMG, sizes: Mapping[str, int]) -> Units:
    """Return one unit for each combination of response functions, all of weight zero.

    Args:
        graph: The diagram.
        sizes: Variable -> number of values.

    Raises:
        TooManyCells: There are more than 100,000 combinations.
    """
    shapes = {name: tuple(sizes[parent] for parent in graph.parents(name)) for name in graph.nodes}
    counts = {name: float(sizes[name]) ** int(np.prod(shapes[name], dtype=int)) for name in graph.nodes}
    cells = float(np.prod(list(counts.values())))
    if cells > MOST_CELLS:
        raise TooManyCells(
            f"The linear programme would have {cells:.3g} cells, more than {MOST_CELLS:,}; use fewer variables or "
            "values, or the method frechet."
        )
    index = np.unravel_index(np.arange(int(cells)), tuple(int(counts[name]) for name in graph.nodes))
    responses = {}
    for name, chosen in zip(graph.nodes, index, strict=True):
        inputs = int(np.prod(shapes[name], dtype=int))
        digits = chosen[:, None] // sizes[name] ** np.arange(inputs) % sizes[name]
        responses[name] = digits.reshape(-1, *shapes[name])
    return Units(graph, sizes, responses, np.zeros(int(cells)))


def lp_bounds(
    query: Query, graph: ADMG, regimes: Sequence[Regime], sources: Mapping[str, Source]
) -> tuple[float, float, bool, str]:
    r"""Return the least and largest value of a query over all models that agree with the data.

    .. math:: \min, \max \sum_{c : query} q_c \quad\text{s.t.}\quad \sum_{c \to cell} q_c = P_r(cell),\ q \ge 0

    over the cells c, the combinations of response functions. A condition whose probability the data do not fix is
    handled by the Charnes-Cooper transformation. Samples give intervals instead of equations: exact binomial ones, at
    a level that holds for all cells together.

    Args:
        query: The query; its symbols are values.
        graph: The diagram. Independence of unconfounded variables is not used, so the interval may then be wider
            than need be, never too narrow.
        regimes: What data there is.
        sources: Regime -> table or sample.

    Returns:
        Lower end, upper end, whether the interval is sharp, and a note.

    Raises:
        TooManyCells: The model is too large.
        InconsistentTables: No model gives these tables.
        InputError: A value is unknown, or the condition has probability zero in all such models.
    """
    tables = {r.name: _table(sources[r.name], r, graph) for r in regimes}
    labels = _labels(tables, regimes, graph)
    missing = [name for name in graph.nodes if name not in labels]
    if missing:
        raise InputError(f"No data say which values {missing[0]!r} has; record it in a regime or project it out.")
    values = {s: find_value(s, {}, labels[s.variable]) for s in query.symbols}
    whole = True
    sizes = {name: len(labels[name]) for name in graph.nodes}
    try:
        units = response_units(graph, sizes)
    except TooManyCells:
        kept = graph.ancestors(query.variables)
        if kept == set(graph.nodes):
            raise
        whole, hidden = False, frozenset(graph.nodes) - kept
        smaller = [regime.project(graph, hidden) for regime in regimes]
        graph, regimes = graph.project(hidden), [regime for regime in smaller if regime is not None]
        units = response_units(graph, sizes)
    laws = _laws(units, regimes, tables, labels)
    lower, upper = _optimise(units, query, values, laws)
    exact = all(law.number is None for law in laws)
    clique = all(tuple(sorted(pair)) in graph.bidirected for pair in itertools.combinations(graph.nodes, 2))
    note = f"linear programme over {units.count} response types"
    if not exact:
        note += "; an interval that holds with 95 % confidence, sampling error included"
    return lower, upper, exact and clique and whole, note


def _table(source: Source, regime: Regime, graph: ADMG) -> Table:
    if isinstance(source, Table):
        return source
    return source.table((*regime.settings(graph), *regime.records(graph)))


def _labels(tables: Mapping[str, Table], regimes: Sequence[Regime], graph: ADMG) -> dict[str, tuple[str, ...]]:
    labels: dict[str, tuple[str, ...]] = {}
    for regime in regimes:
        table = tables[regime.name]
        owners = regime.settings(graph) | {name: name for name in regime.records(graph)}
        shape = dict(zip(table.settings + table.variables, table.array.shape, strict=True))
        for column, owner in owners.items():
            if column not in shape:
                raise InputError(f"The table of regime {regime.name!r} has no axis {column!r}; add it.")
            own = tuple(table.labels.get(column, map(str, range(shape[column]))))
            if labels.setdefault(owner, own) != own:
                raise InputError(f"The values of {owner!r} are {', '.join(own)} in regime {regime.name!r} and "
                                 f"{', '.join(labels[owner])} in another; make them the same.")  # fmt: skip
    return labels


def _laws(
    units: Units, regimes: Sequence[Regime], tables: Mapping[str, Table], labels: Mapping[str, tuple[str, ...]]
) -> list[_Law]:
    """Return one law for each regime and each combination of its randomised values that has units."""
    found = []
    for regime in regimes:
        table, digits = tables[regime.name], _as_digits(regime, labels)
        columns = digits.settings(units.graph)
        for combination in np.ndindex(*(units.sizes[owner] for owner in columns.values())):
            picked = dict(zip(columns, combination, strict=True))
            place = tuple(picked[name] for name in table.settings)
            number = None if table.units is None else int(table.units[place])
            if number == 0:
                continue
            seen, index = units.cells(digits, picked)
            found.append(_Law(index, Table((), table.variables, table.array[place]).joint((), seen).ravel(), number))
    return found


def _boxes(laws: Sequence[_Law]) -> tuple[np.ndarray, np.ndarray]:
    """Return Clopper-Pearson intervals that hold for all cells together (Bonferroni); exact laws keep their value."""
    from scipy import stats

    tail = (1 - LEVEL) / 2 / max(1, sum(law.right.size for law in laws if law.number is not None))
    lows, highs = [], []
    for law in laws:
        if law.number is None:
            lows.append(law.right)
            highs.append(law.right)
            continue
        k, n = np.round(law.right * law.number), law.number
        lows.append(np.where(k == 0, 0.0, stats.beta.ppf(tail, np.maximum(k, 1), n - k + 1)))
        highs.append(np.where(k == n, 1.0, stats.beta.ppf(1 - tail, k + 1, np.maximum(n - k, 1))))
    return np.concatenate(lows), np.concatenate(highs)


def _optimise(units: Units, query: Query, values: Mapping[Symbol, int], laws: Sequence[_Law]) -> tuple[float, float]:
    from scipy import optimize, sparse

    target = units.holds(query.events, values).astype(float)
    given = units.holds(query.conditions, values).astype(float)
    ones, columns = np.ones(units.count), np.arange(units.count)
    cells = [sparse.csr_matrix((ones, (law.cell, columns)), shape=(law.right.size, units.count)) for law in laws]
    # The unknowns are q t, one for each unit, and t: one over the probability of the condition.
    equal = [np.append(ones, -1.0)[None], np.append(given, 0.0)[None]]
    sides = [0.0, 1.0]
    upper = None
    if all(law.number is None for law in laws):
        for block, law in zip(cells, laws, strict=True):
            equal.append(sparse.hstack([block, -law.right[:, None]]))
            sides += [0.0] * law.right.size
    else:
        low, high = _boxes(laws)
        stacked = sparse.vstack(cells)
        upper = sparse.vstack(
            [sparse.hstack([stacked, -high[:, None]]), sparse.hstack([-stacked, low[:, None]])]
        ).tocsr()
    matrix = sparse.vstack([sparse.csr_matrix(rows) for rows in equal]).tocsr()
    ends = []
    for sign in (1.0, -1.0):
        # Presolve takes the rounding of redundant equations for a contradiction now and then; the simplex does not.
        for presolve in (True, False):
            result = optimize.linprog(
                sign * np.append(target, 0.0),
                A_ub=upper,
                b_ub=None if upper is None else np.zeros(upper.shape[0]),
                A_eq=matrix,
                b_eq=np.array(sides),
                bounds=(0, None),
                method="highs",
                options={"presolve": presolve},
            )
            if result.status == 0:
                break
        if result.status != 0:
            raise InconsistentTables(
                "No model with this graph gives these tables: they contradict each other, or the condition has "
                "probability zero; check them."
            )
        ends.append(sign * float(result.fun))
    return min(1.0, max(0.0, ends[0])), min(1.0, max(0.0, ends[1]))


def _as_digits(regime: Regime, labels: Mapping[str, tuple[str, ...]]) -> Regime:
    """Return the regime with its fixed values as indices."""

    def index(variable: str, value: str) -> str:
        if value == ANY:
            return value
        if value not in labels[variable]:
            known = ", ".join(labels[variable])
            raise InputError(f"Regime {regime.name!r} feeds {variable} = {value}; the values are {known}.")
        return str(labels[variable].index(value))

    cut = {edge: index(edge[0], value) for edge, value in regime.cut}
    do = {name: index(name, value) for name, value in regime.do}
    return Regime(regime.name, cut, do, regime.observed, dict(regime.columns))
