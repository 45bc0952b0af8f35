"""Numbers of formulas: exact from tables, and estimates with bootstrap intervals from samples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from workingpapers.causality.counterfactual_id.expression import (
    Constant,
    Expression,
    Fraction,
    Probability,
    Product,
    Sum,
)
from workingpapers.causality.counterfactual_id.query import Symbol
from workingpapers.causality.counterfactual_id.tables import Sample, Table, sorted_labels
from workingpapers.foundations.errors import InputError, near_match
from workingpapers.foundations.progress import Progress, silent

Source = Table | Sample
Axes = tuple[Symbol, ...]


class PositivityError(InputError):
    """A formula conditions on something that never happens; the sentence names the cell."""


def evaluate(
    expression: Expression,
    sources: Mapping[str, Source],
    values: Mapping[str, object] | None = None,
    *,
    free: Sequence[Symbol] = (),
) -> float | np.ndarray:
    """Return the value of a formula.

    A symbol that is not in `values` stands for the value of its own name. Undefined conditional probabilities are never
    taken for zero; they may stand only where they are multiplied by zero.

    Args:
        expression: The formula.
        sources: Regime -> its table or sample.
        values: Symbol name -> value, such as ``{"x": 1, "x'": 0}``.
        free: Symbols to leave open; the result then has one axis for each.

    Returns:
        A number, or an array of shape (*sizes of the free symbols' variables).

    Raises:
        InputError: A regime, column or value is missing, two symbols of a variable have one value, or tables of one
            variable have different values.
        PositivityError: The formula conditions on a cell of probability zero.
    """
    return _Evaluator(expression, sources, values or {}, tuple(free)).result()


@dataclass(frozen=True)
class Estimate:
    """A plug-in estimate.

    Args:
        value: Formula at the empirical laws.
        low: Lower end of the percentile bootstrap interval.
        high: Upper end.
        level: Its nominal coverage.
        replicates: Bootstrap values, shape (kept,).
        failed: Bootstrap samples in which the formula was not defined.
    """

    value: float
    low: float
    high: float
    level: float
    replicates: np.ndarray
    failed: int


def estimate(
    expression: Expression,
    samples: Mapping[str, Sample],
    values: Mapping[str, object] | None = None,
    *,
    n_boot: int = 500,
    level: float = 0.95,
    rng: np.random.Generator | None = None,
    progress: Progress = silent,
) -> Estimate:
    """Estimate a formula from samples, with a percentile bootstrap interval that resamples units within each regime.

    Args:
        expression: The formula.
        samples: Regime -> sample.
        values: Symbol name -> value.
        n_boot: Bootstrap samples.
        level: Nominal coverage.
        rng: Source of randomness; seed 0 by default.
        progress: Called along the way.

    Raises:
        InputError: As :func:`evaluate`.
        PositivityError: The formula is not defined on the sample, or on more than half of the bootstrap samples.
    """
    rng = rng or np.random.default_rng(0)
    value = float(evaluate(expression, samples, values))
    kept: list[float] = []
    used = {name: sample for name, sample in samples.items() if name in expression.regimes}
    for k in range(n_boot):
        try:
            kept.append(float(evaluate(expression, {n: s.resample(rng) for n, s in used.items()}, values)))
        except PositivityError:
            continue
        progress((k + 1) / n_boot, "bootstrap")
    if 2 * len(kept) < n_boot:
        raise PositivityError(
            f"The formula is undefined in {n_boot - len(kept)} of {n_boot} bootstrap samples; more units are needed."
        )
    replicates = np.array(kept)
    low, high = np.quantile(replicates, [(1 - level) / 2, (1 + level) / 2]) if kept else (value, value)
    return Estimate(value, float(low), float(high), level, replicates, n_boot - len(kept))


class _Evaluator:
    """Evaluates bottom-up: a node becomes an array with one axis for each open symbol."""

    def __init__(
        self, expression: Expression, sources: Mapping[str, Source], values: Mapping[str, object], free: Axes
    ) -> None:
        self.expression, self.free = expression, free
        columns: dict[str, dict[str, None]] = {}
        for node in expression.probabilities():
            if node.regime not in sources:
                hint = near_match(node.regime, sources) or f"; there are {', '.join(sources) or 'none'}."
                raise InputError(f"The formula needs data of regime {node.regime!r}, which are missing{hint}")
            columns.setdefault(node.regime, {}).update(
                dict.fromkeys(name for name, _ in (*node.settings, *node.given, *node.outcomes))
            )
        self.tables: dict[str, Table] = {}
        for name, some in columns.items():
            source = sources[name]
            self.tables[name] = source.table(some) if isinstance(source, Sample) else source
            for column in some:
                if column not in (*self.tables[name].settings, *self.tables[name].variables):
                    raise InputError(f"The table of regime {name!r} has no axis {column!r}, which the formula needs.")
        self.labels = self._labels()
        self.fixed = self._fixed(values)

    def result(self) -> float | np.ndarray:
        axes, array = self.value(self.expression, self.fixed)
        if np.isnan(array).any():
            place = dict(zip(axes, (int(i) for i in np.argwhere(np.isnan(array))[0]), strict=True))
            raise PositivityError(self.explain(self.expression, self.fixed | place))
        if not self.free:
            return float(array)
        shape = [len(self.labels[s.variable]) for s in self.free]
        order = [axes.index(s) for s in self.free if s in axes]
        full = array.transpose(order)
        return np.broadcast_to(
            full.reshape([n if s in axes else 1 for s, n in zip(self.free, shape, strict=True)]), shape
        ).copy()

    def value(self, node: Expression, fixed: Mapping[Symbol, int]) -> tuple[Axes, np.ndarray]:
        if isinstance(node, Constant):
            return (), np.array(node.value)
        if isinstance(node, Probability):
            return self.probability(node, fixed)
        if isinstance(node, Sum):
            inner = {symbol: index for symbol, index in fixed.items() if symbol not in node.symbols}
            parts = node.body.factors if isinstance(node.body, Product) else (node.body,)
            return _contract([self.value(part, inner) for part in parts], node.symbols)
        if isinstance(node, Product):
            return _contract([self.value(part, fixed) for part in node.factors], ())
        assert isinstance(node, Fraction)
        top, bottom = self.value(node.numerator, fixed), self.value(node.denominator, fixed)
        with np.errstate(divide="ignore", invalid="ignore"):
            inverse = np.where(bottom[1] == 0, np.nan, 1 / bottom[1])
        return _contract([top, (bottom[0], inverse)], (), zero_wins=False)

    def probability(self, node: Probability, fixed: Mapping[Symbol, int]) -> tuple[Axes, np.ndarray]:
        table = self.tables[node.regime]
        terms = (*node.settings, *node.given, *node.outcomes)
        names, settings = [name for name, _ in terms], [name for name, _ in node.settings]
        joint = table.joint(settings, [name for name, _ in (*node.given, *node.outcomes)])
        if node.given:
            last = tuple(range(len(names) - len(node.outcomes), len(names)))
            given = joint.sum(axis=last, keepdims=True)
            with np.errstate(divide="ignore", invalid="ignore"):
                joint = np.where(given == 0, np.nan, joint / given)
        picked = joint[tuple(fixed.get(symbol, slice(None)) for _, symbol in terms)]
        open_symbols = [symbol for _, symbol in terms if symbol not in fixed]
        axes = tuple(dict.fromkeys(open_symbols))
        if len(axes) == len(open_symbols):
            return axes, picked
        return axes, np.einsum(picked, [axes.index(s) for s in open_symbols], list(range(len(axes))))

    def explain(self, node: Expression, fixed: Mapping[Symbol, int]) -> str:
        """Return the sentence about the cell that makes `node` undefined at `fixed`."""
        if isinstance(node, Sum):
            inner = {symbol: index for symbol, index in fixed.items() if symbol not in node.symbols}
            axes, array = self.value(node.body, inner)
            place = dict(zip(axes, (int(i) for i in np.argwhere(np.isnan(array))[0]), strict=True))
            return self.explain(node.body, inner | place)
        for child in node.children:
            if np.isnan(self.value(child, fixed)[1]).any():
                return self.explain(child, fixed)
        if isinstance(node, Probability):
            cell = ", ".join(
                f"{name} = {self.labels[symbol.variable][fixed[symbol]]}"
                for name, symbol in (*node.settings, *node.given)
            )
            return f"The formula conditions on {cell} in regime {node.regime!r}, which has probability zero there."
        return "The condition of the query has probability zero in these data."

    def _labels(self) -> dict[str, tuple[str, ...]]:
        owner = {
            n: s.variable for p in self.expression.probabilities() for n, s in (*p.settings, *p.given, *p.outcomes)
        }
        found: dict[str, tuple[str, ...]] = {}
        for name, table in self.tables.items():
            for column, size in zip(table.settings + table.variables, table.array.shape, strict=True):
                if column not in owner:
                    continue
                labels = tuple(table.labels.get(column, map(str, range(size))))
                if found.setdefault(owner[column], labels) != labels:
                    raise InputError(
                        f"The values of {owner[column]!r} are {', '.join(labels)} in regime {name!r} and "
                        f"{', '.join(found[owner[column]])} in another; make them the same."
                    )
        return found

    def _fixed(self, values: Mapping[str, object]) -> dict[Symbol, int]:
        fixed: dict[Symbol, int] = {}
        for symbol in sorted(self.expression.free - set(self.free)):
            if symbol.kind == "value":
                fixed[symbol] = find_value(symbol, values, self.labels[symbol.variable])
        for a in fixed:
            for b in fixed:
                if a < b and a.variable == b.variable and fixed[a] == fixed[b]:
                    label = self.labels[a.variable][fixed[a]]
                    raise InputError(
                        f"{a.name} and {b.name} are both {label}; two symbols of a variable are two values."
                    )
        for name, table in self.tables.items():
            loose = {
                symbol: column
                for node in self.expression.probabilities()
                if node.regime == name
                for column, symbol in (*node.settings, *node.given, *node.outcomes)
                if symbol.kind == "any"
            }
            if loose:
                fixed |= dict(zip(loose, table.mode(list(loose.values())), strict=True))
        return fixed


def find_value(symbol: Symbol, values: Mapping[str, object], labels: Sequence[str]) -> int:
    """Return the index of the value that a symbol stands for.

    Args:
        symbol: The symbol.
        values: Symbol name -> value.
        labels: Values of its variable.

    Raises:
        InputError: It stands for none of them.
    """
    label = str(values.get(symbol.name, symbol.name))
    if label in labels:
        return labels.index(label)
    known = ", ".join(sorted_labels(labels))
    if symbol.name in values:
        raise InputError(f"{symbol.name} = {label} is no value of {symbol.variable!r}; the values are {known}.")
    raise InputError(f"The symbol {symbol.name!r} of {symbol.variable!r} has no value; give one of {known}.")


def _contract(
    parts: Sequence[tuple[Axes, np.ndarray]], summed: Sequence[Symbol], zero_wins: bool = True
) -> tuple[Axes, np.ndarray]:
    """Multiply arrays and sum over symbols. An undefined entry times zero is zero if `zero_wins`, else undefined."""
    axes = tuple(dict.fromkeys(symbol for some, _ in parts for symbol in some))
    place = {symbol: index for index, symbol in enumerate(axes)}
    kept = tuple(symbol for symbol in axes if symbol not in summed)
    if not any(np.isnan(array).any() for _, array in parts):
        operands: list[object] = []
        for some, array in parts:
            operands += [array, [place[symbol] for symbol in some]]
        result = np.einsum(*operands, [place[symbol] for symbol in kept], optimize=len(parts) > 2)  # type: ignore[call-overload]
        return kept, np.asarray(result)
    value, undefined, zero = np.array(1.0), np.array(False), np.array(False)
    for some, array in parts:
        order = sorted(range(len(some)), key=lambda k: place[some[k]])
        shape = [1] * len(axes)
        for k in order:
            shape[place[some[k]]] = array.shape[k]
        spread = array.transpose(order).reshape(shape)
        value = value * np.nan_to_num(spread)
        undefined = undefined | np.isnan(spread)
        zero = zero | (spread == 0)
    value = np.where(undefined & ~(zero & zero_wins), np.nan, value)
    gone = tuple(place[symbol] for symbol in axes if symbol in summed)
    return kept, np.asarray(value.sum(axis=gone))
