"""Finite models: a list of units, each with its response tables, evaluated exactly in every world.

A unit's response table of V has one axis for each parent, in the graph's order of parents, and holds V's value. Random
structural models and the cells of the bounding programme are both such lists.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from workingpapers.causality.counterfactual_id.graph import ADMG
from workingpapers.causality.counterfactual_id.query import Event, Query, Response, Symbol
from workingpapers.causality.counterfactual_id.regime import Regime
from workingpapers.causality.counterfactual_id.tables import Table

Values = np.ndarray


@dataclass(frozen=True, eq=False)
class Units:
    """Units of a finite model.

    Args:
        graph: The diagram.
        sizes: Variable -> number of values; the values are ``"0"``, ``"1"``, ...
        responses: Variable -> integers, shape (n, *sizes of its parents): the value at each setting of the parents.
        weights: Probability of each unit, shape (n,).
    """

    graph: ADMG
    sizes: Mapping[str, int]
    responses: Mapping[str, np.ndarray]
    weights: np.ndarray

    @property
    def count(self) -> int:
        """Number of units, n."""
        return len(self.weights)

    def respond(self, variable: str, parents: Mapping[str, Values | int]) -> Values:
        """Return the value of `variable` in each unit, shape (n,), given the values of its parents.

        Args:
            variable: The variable.
            parents: Parent -> values, shape (n,), or one value.
        """
        rows = np.arange(self.count)
        table = self.responses[variable]
        return np.asarray(table[(rows, *(parents[name] for name in self.graph.parents(variable)))])

    def potential(self, response: Response, values: Mapping[Symbol, int]) -> Values:
        """Return the potential response in each unit, shape (n,).

        Args:
            response: Nested or not.
            values: Symbol -> value.
        """
        fixed: dict[str, Values | int] = {
            name: values[item] if isinstance(item, Symbol) else self.potential(item, values)
            for name, item in response.subscript
        }
        done: dict[str, Values | int] = dict(fixed)
        for name in self.graph.order:
            if name not in done:
                done[name] = self.respond(name, done)
        return np.broadcast_to(done[response.variable], (self.count,))

    def holds(self, events: tuple[Event, ...], values: Mapping[Symbol, int]) -> np.ndarray:
        """Return in which units all events hold, shape (n,).

        Args:
            events: The events.
            values: Symbol -> value.
        """
        truth = np.ones(self.count, dtype=bool)
        for event in events:
            truth &= self.potential(event.response, values) == values[event.symbol]
        return truth

    def probability(self, query: Query, values: Mapping[Symbol, int]) -> float:
        """Return the true value of a query; NaN where its condition has probability zero.

        Args:
            query: The query.
            values: Symbol -> value.
        """
        given = float(self.weights @ self.holds(query.conditions, values))
        both = float(self.weights @ self.holds(query.events, values))
        return both / given if given > 0 else float("nan")

    def cells(self, regime: Regime, settings: Mapping[str, int]) -> tuple[tuple[str, ...], np.ndarray]:
        """Return the recorded variables and, for each unit, the index of the cell that it falls in, shape (n,).

        Args:
            regime: The regime; fixed values are digits.
            settings: Column of a randomised value -> value.
        """
        feeds = regime.feeds(self.graph)
        natural: dict[str, Values] = {}
        for name in self.graph.order:
            inputs: dict[str, Values | int] = {}
            for parent in self.graph.parents(name):
                flow = feeds.get((parent, name))
                if flow is None:
                    inputs[parent] = natural[parent]
                else:
                    inputs[parent] = settings[flow[1]] if flow[0] == "column" else int(flow[1])
            natural[name] = self.respond(name, inputs)
        seen = tuple(name for name in self.graph.nodes if name in regime.records(self.graph))
        if not seen:
            return (), np.zeros(self.count, dtype=np.intp)
        shape = tuple(self.sizes[name] for name in seen)
        return seen, np.ravel_multi_index(tuple(natural[name] for name in seen), shape)

    def table(self, regime: Regime) -> Table:
        """Return the exact law that the regime gives.

        Args:
            regime: The regime.
        """
        columns = regime.settings(self.graph)
        lengths = [self.sizes[name] for name in columns.values()]
        parts: list[np.ndarray] = []
        seen: tuple[str, ...] = ()
        for combination in np.ndindex(*lengths):
            seen, index = self.cells(regime, dict(zip(columns, combination, strict=True)))
            size = int(np.prod([self.sizes[name] for name in seen], dtype=int))
            parts.append(np.bincount(index, weights=self.weights, minlength=size))
        shape = (*lengths, *(self.sizes[name] for name in seen))
        return Table(tuple(columns), seen, np.array(parts).reshape(shape))
