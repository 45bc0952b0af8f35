"""The same questions put to y0, where it takes them: its answers as formulas of ours."""

from __future__ import annotations

import time
from functools import lru_cache
from typing import Any

import numpy as np

from workingpapers.causality.counterfactual_id.evaluation import evaluate
from workingpapers.causality.counterfactual_id.expression import (
    ONE,
    ZERO,
    Expression,
    Fraction,
    Probability,
    Product,
    Sum,
)
from workingpapers.causality.counterfactual_id.graph import ADMG
from workingpapers.causality.counterfactual_id.identification import Identified, identify
from workingpapers.causality.counterfactual_id.query import Event, Query, Response, Symbol
from workingpapers.causality.counterfactual_id.regime import OBSERVATIONAL
from workingpapers.causality.counterfactual_id.simulation import random_graph, random_model
from workingpapers.foundations.progress import Progress


class RefusedByPeer(Exception):
    """y0 stopped with an error instead of an answer."""


def to_y0(graph: ADMG) -> Any:
    """Return the diagram as a y0 ``NxMixedGraph``.

    Args:
        graph: The diagram.
    """
    from y0.graph import NxMixedGraph

    return NxMixedGraph.from_str_edges(
        nodes=list(graph.nodes), directed=sorted(graph.directed), undirected=sorted(graph.bidirected)
    )


def identify_with_y0(graph: Any, query: Query) -> Expression | None:
    """Return y0's formula of a query in one world from observation (ID, IDC), or None where it finds none.

    Args:
        graph: A y0 graph.
        query: A query whose outcomes share one subscript of values and whose conditions do so too.

    Raises:
        RefusedByPeer: y0 fails on it.
    """
    from networkx import NetworkXError
    from y0.algorithm.identify import identify_outcomes
    from y0.dsl import Variable

    def variables(names: Any) -> Any:
        return {Variable(name) for name in names}

    treatments = variables(name for name, _ in query.outcomes[0].response.subscript)
    outcomes = variables(event.response.variable for event in query.outcomes)
    conditions = variables(event.response.variable for event in query.conditions) or None
    try:
        found = identify_outcomes(graph, treatments, outcomes, conditions)
    except (KeyError, NetworkXError) as error:
        raise RefusedByPeer(str(error)) from error
    if found is None:
        return None
    symbols = {symbol.variable: symbol for symbol in query.symbols}
    formula = formula_of(found)
    return formula.substitute({s: symbols.get(s.variable, Symbol(s.variable, "obs ", "any")) for s in formula.free})


def formula_of(expression: Any) -> Expression:
    """Return a y0 expression over one observational law as a formula whose symbols are the variables themselves.

    Args:
        expression: A y0 ``Expression``.
    """
    from y0 import dsl

    if isinstance(expression, dsl.One):
        return ONE
    if isinstance(expression, dsl.Zero):
        return ZERO

    def slots(names: Any) -> tuple[tuple[str, Symbol], ...]:
        return tuple((str(name), Symbol(str(name), "", "sum")) for name in names)

    if isinstance(expression, dsl.Probability):
        return Probability("obs", slots(expression.children), slots(expression.parents))
    if isinstance(expression, dsl.Sum):
        return Sum(tuple(symbol for _, symbol in slots(expression.ranges)), formula_of(expression.expression))
    if isinstance(expression, dsl.Product):
        return Product(tuple(formula_of(item) for item in expression.expressions))
    if isinstance(expression, dsl.Fraction):
        return Fraction(formula_of(expression.numerator), formula_of(expression.denominator))
    raise TypeError(f"no formula for {type(expression).__name__}")


def star_with_y0(graph: Any, query: Query) -> str:
    """Return what y0's ID* and IDC* say of a query from all experiments: identified, zero or not identified.

    Args:
        graph: A y0 graph.
        query: Responses with subscripts of values; the symbols of a variable are its lower-case name, with or without
            one prime.
    """
    from y0.algorithm.identify import Unidentifiable, id_star, idc_star
    from y0.dsl import Variable, Zero

    def value(symbol: Symbol) -> Any:
        variable = Variable(symbol.variable)
        return +variable if symbol.name.endswith("'") else -variable

    def variable(response: Response) -> Any:
        signs = [value(item) for _, item in response.subscript if isinstance(item, Symbol)]
        return Variable(response.variable).intervene(signs) if signs else Variable(response.variable)

    outcomes = {variable(event.response): value(event.symbol) for event in query.outcomes}
    conditions = {variable(event.response): value(event.symbol) for event in query.conditions}
    try:
        found = idc_star(graph, outcomes, conditions) if conditions else id_star(graph, outcomes)
    except Unidentifiable:
        return "not identified"
    return "zero" if isinstance(found, Zero) else "identified"


def one_world_query(rng: np.random.Generator, graph: ADMG, conditions: int) -> Query:
    """Return a query P(y | z) in the world do(x), all of them random variables of the graph.

    Args:
        rng: Source of randomness.
        graph: The diagram, of at least four variables.
        conditions: Number of conditioning variables.
    """
    names = [str(name) for name in rng.permutation(graph.nodes)]
    treated, asked = int(rng.integers(1, 3)), int(rng.integers(1, 3)) if conditions == 0 else 1
    subscript = tuple((name, Symbol(name, name.lower())) for name in sorted(names[:treated]))

    def events(some: list[str]) -> tuple[Event, ...]:
        return tuple(Event(Response(name, subscript), Symbol(name, name.lower())) for name in some)

    return Query(events(names[treated:][:asked]), events(names[treated + asked :][:conditions]))


def one_world(seed: int, progress: Progress, *, queries: int, tool: str) -> dict[str, float]:
    """Answer one-world queries from observation, and compare verdict and value with the other tool and the truth.

    Args:
        seed: Seed of graphs, queries and models; both arms see the same.
        progress: Called along the way.
        queries: Number of queries; every other one has a condition.
        tool: ``ours`` or ``y0``: whose formulas are held against the truth, and whose time is taken.
    """
    rows = _answers(seed, queries)
    progress(1.0, "queries answered")
    mine, seconds = (0, 3) if tool == "ours" else (1, 4)
    result: dict[str, float] = {}
    for name, wanted in (("", False), ("_conditional", True)):
        some = [row for row in rows if row[5] is wanted]
        both = [row for row in some if not np.isnan(row[1]) or not np.isnan(row[0])]
        result["same" + name] = float(np.mean([_same(row[0], row[1]) for row in some]))
        result["queries" + name] = len(some)
        result["right" + name] = float(np.mean([_same(row[mine], row[2]) for row in both if not np.isnan(row[mine])]))
        result["seconds" + name] = float(np.median([row[seconds] for row in some]))
    return result


def _same(a: float, b: float) -> bool:
    return bool((np.isnan(a) and np.isnan(b)) or abs(a - b) < 1e-9)


@lru_cache(maxsize=2)
def _answers(seed: int, queries: int) -> list[tuple[float, float, float, float, float, bool]]:
    """Return (our value, y0's, the truth, our seconds, y0's, whether there is a condition); NaN: not identified.

    Queries that y0 refuses with an error are left out: only those count that both accept.
    """
    rng = np.random.default_rng([seed, 5])
    rows = []
    for k in range(queries):
        graph = random_graph(rng, int(rng.integers(4, 6)))
        query = one_world_query(rng, graph, k % 2)
        model = random_model(rng, graph)
        values = {symbol: int(rng.integers(0, 2)) for symbol in query.symbols}
        theirs = to_y0(graph)
        start = time.process_time()
        ours = identify(query, graph, [OBSERVATIONAL])
        middle = time.process_time()
        try:
            other = identify_with_y0(theirs, query)
        except RefusedByPeer:
            continue
        end = time.process_time()
        law = {"obs": model.table(OBSERVATIONAL)}
        numbers = {symbol.name: value for symbol, value in values.items()}
        value = float(evaluate(ours.expression, law, numbers)) if isinstance(ours, Identified) else np.nan
        peer = np.nan if other is None else float(evaluate(other, law, numbers))
        rows.append((value, peer, model.probability(query, values), middle - start, end - middle, bool(k % 2)))
    return rows
