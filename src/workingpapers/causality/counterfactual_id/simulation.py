"""Random diagrams, structural models and queries: what claims and tests are made of."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from workingpapers.causality.counterfactual_id.graph import ADMG
from workingpapers.causality.counterfactual_id.linear_program import response_units
from workingpapers.causality.counterfactual_id.query import Event, Query, Response, Symbol
from workingpapers.causality.counterfactual_id.regime import Regime
from workingpapers.causality.counterfactual_id.worlds import Units

if TYPE_CHECKING:
    import pandas as pd


def random_graph(rng: np.random.Generator, nodes: int, edge: float = 0.6, confounded: float = 0.4) -> ADMG:
    """Return a random diagram over A, B, C, ... in that order.

    Args:
        rng: Source of randomness.
        nodes: Number of variables.
        edge: Probability of a directed edge.
        confounded: Probability of a bidirected edge.
    """
    names = [chr(ord("A") + k) for k in range(nodes)]
    pairs = list(itertools.combinations(names, 2))
    directed = [pair for pair in pairs if rng.random() < edge]
    return ADMG(names, directed, [pair for pair in pairs if rng.random() < confounded])


def random_model(rng: np.random.Generator, graph: ADMG) -> Units:
    """Return a random binary structural model, one unit for each value of everything unobserved.

    Every variable has a three-valued noise of its own, of which one value forces it to 0 and one to 1, so that every
    combination of values has positive probability; a bidirected edge is a binary common cause.

    Args:
        rng: Source of randomness.
        graph: The diagram.
    """
    arcs = sorted(graph.bidirected)
    sizes = [3] * len(graph.nodes) + [2] * len(arcs)
    hidden = np.array(list(np.ndindex(*sizes)), dtype=np.intp)
    weights = np.ones(len(hidden))
    for k, size in enumerate(sizes):
        weights *= rng.dirichlet(np.full(size, 1.5))[hidden[:, k]]
    responses = {}
    for k, name in enumerate(graph.nodes):
        causes = [len(graph.nodes) + j for j, arc in enumerate(arcs) if name in arc]
        count = len(graph.parents(name))
        mechanism = rng.integers(0, 2, size=(3, *[2] * (len(causes) + count)))
        mechanism[0], mechanism[1] = 0, 1
        responses[name] = mechanism[(hidden[:, k], *(hidden[:, j] for j in causes))]
    return Units(graph, dict.fromkeys(graph.nodes, 2), responses, weights / weights.sum())


def random_query(rng: np.random.Generator, graph: ADMG, *, nested: float = 0.0, conditional: float = 0.0) -> Query:
    """Return a query of one to three responses with up to two subscripts each.

    Args:
        rng: Source of randomness.
        graph: The diagram.
        nested: Probability that a subscript is a response itself.
        conditional: Probability that the last events become the condition.
    """
    events = []
    for _ in range(int(rng.integers(1, 4))):
        name = str(rng.choice(graph.nodes))
        events.append(Event(_random_response(rng, graph, name, nested, 0), _random_symbol(rng, name)))
    if len(events) > 1 and rng.random() < conditional:
        return Query(tuple(events[:1]), tuple(events[1:]))
    return Query(tuple(events))


def _random_response(rng: np.random.Generator, graph: ADMG, name: str, nested: float, depth: int) -> Response:
    others = [other for other in graph.nodes if other != name]
    count = min(int(rng.integers(0, 3)), len(others))
    items: list[tuple[str, Symbol | Response]] = []
    for other in sorted(rng.choice(others, size=count, replace=False).tolist()):
        if depth < 2 and rng.random() < nested:
            items.append((other, _random_response(rng, graph, other, nested, depth + 1)))
        else:
            items.append((other, _random_symbol(rng, other)))
    return Response(name, tuple(items))


def _random_symbol(rng: np.random.Generator, name: str) -> Symbol:
    return Symbol(name, name.lower() + "'" * int(rng.integers(0, 2)))


def random_units(rng: np.random.Generator, graph: ADMG, sizes: dict[str, int], concentration: float) -> Units:
    """Return a random law over all response functions, Dirichlet with one concentration: arbitrary confounding.

    Args:
        rng: Source of randomness.
        graph: The diagram, whose bidirected edges should join all variables.
        sizes: Variable -> number of values.
        concentration: Of the Dirichlet distribution; small values make few kinds of unit.
    """
    units = response_units(graph, sizes)
    return replace(units, weights=rng.dirichlet(np.full(units.count, concentration)))


def sample(rng: np.random.Generator, units: Units, regime: Regime, count: int) -> pd.DataFrame:
    """Return what the regime records of `count` random units, randomised values drawn uniformly.

    Args:
        rng: Source of randomness.
        units: The model.
        regime: The regime.
        count: Number of units.
    """
    import pandas as pd

    table = units.table(regime)
    flat = table.array / np.prod(table.array.shape[: len(table.settings)], dtype=float)
    drawn = np.unravel_index(rng.choice(flat.size, size=count, p=flat.ravel() / flat.sum()), flat.shape)
    return pd.DataFrame(dict(zip(table.settings + table.variables, drawn, strict=True)))


def complete(names: str, directed: list[tuple[str, str]]) -> ADMG:
    """Return a diagram in which every pair of variables is confounded.

    Args:
        names: One letter a variable.
        directed: Its edges.
    """
    return ADMG(names, directed, itertools.combinations(names, 2))
