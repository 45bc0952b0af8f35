r"""ctfIDu+: identification of counterfactual probabilities from any set of regimes.

A regime that cuts edges K is the observational law of a model with the graph G' = G without K, so Tian's algebra of
c-components holds in G'. Cutting edges removes ancestors, and so more ctf-factors can be computed.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import lru_cache

from workingpapers.causality.counterfactual_id.expression import (
    ZERO,
    Expression,
    Probability,
    fraction,
    letters,
    product,
    total,
)
from workingpapers.causality.counterfactual_id.factors import Factor, Impossible, ctf_members, groups, split
from workingpapers.causality.counterfactual_id.graph import ADMG, Edge
from workingpapers.causality.counterfactual_id.query import Query, Symbol
from workingpapers.causality.counterfactual_id.regime import Regime
from workingpapers.foundations.errors import InputError


@dataclass(frozen=True)
class Identified:
    """The query is a function of the regimes' laws.

    Args:
        query: The query.
        expression: The formula.
        parts: The ctf-factors and their formulas, numerator first.
    """

    query: Query
    expression: Expression
    parts: tuple[tuple[Factor, Expression], ...] = ()

    identified = True

    @property
    def regimes_used(self) -> tuple[str, ...]:
        """Names of the regimes in the formula."""
        return self.expression.regimes

    @property
    def steps(self) -> tuple[str, ...]:
        """How it came about, one sentence each."""
        if not self.parts:
            return ("The events contradict each other in every model: the probability is zero.",)
        names = letters(symbol for factor, _ in self.parts for symbol in factor.symbols)
        lines = [
            f"The ctf-factor {factor.to_text(names)} is {formula.to_text(names)}." for factor, formula in self.parts
        ]
        return tuple(dict.fromkeys(lines))


@dataclass(frozen=True)
class NotIdentified:
    """The query is no function of the regimes' laws.

    Args:
        query: The query.
        factor: The ctf-factor that no regime gives.
        reasons: Regime -> why it does not give the factor.
    """

    query: Query
    factor: Factor
    reasons: dict[str, str]

    identified = False

    @property
    def steps(self) -> tuple[str, ...]:
        """How it came about, one sentence each."""
        return (f"No regime gives the ctf-factor {self.factor.to_text(letters(self.factor.symbols))}.",)


def identify(query: Query | str, graph: ADMG, regimes: Sequence[Regime]) -> Identified | NotIdentified:
    r"""Express a counterfactual query by the laws of the given regimes, or say which part of it none gives.

    .. math:: P(y_*) = \sum_{d_* \setminus y_*} \prod_j Q_{r_j}[C_j]

    where each ctf-factor may come from a regime of its own. A conditional query is a ratio in which the groups of
    factors without an outcome have cancelled. The formula holds in every model with this graph in which the
    probabilities that it conditions on are positive. Where the paper's own listing was not available the algorithm is a
    reconstruction: exact for regimes in which every variable is recorded at most once.

    Args:
        query: The query, or its text.
        graph: The diagram, over n variables.
        regimes: What data there is.

    Returns:
        :class:`Identified` or :class:`NotIdentified`.

    Raises:
        InputError: The query or a regime names what is not in the graph, two regimes have one name, or the condition
            has probability zero in every model.

    References:
        arXiv:2602.23541; arXiv:2107.03190 for the ctf-factors.
    """
    query = checked(query, graph)
    names = [regime.name for regime in regimes]
    for name in names if len(set(names)) < len(names) else ():
        if names.count(name) > 1:
            raise InputError(f"Two regimes are called {name!r}; give each a name of its own.")
    graph, regimes = _without_unseen(query, graph, regimes)
    above, below = needed_factors(query, graph)
    if above is None:
        return Identified(query, ZERO)
    parts: list[tuple[Factor, Expression]] = []
    sides: list[Expression] = []
    used: set[str] = set()
    for factors in (above, below):
        formulas: list[Expression] = []
        for factor in factors:
            formula, reasons = factor_formula(factor, graph, regimes, used)
            if formula is None:
                return NotIdentified(query, factor, reasons)
            parts.append((factor, formula))
            used.update(formula.regimes)
            formulas.append(formula)
        body = product(formulas)
        sides.append(total(sorted(symbol for symbol in body.free if symbol.kind == "sum"), body))
    return Identified(query, fraction(sides[0], sides[1]), tuple(parts))


def checked(query: Query | str, graph: ADMG) -> Query:
    """Return the query, read if it is text, once all its names are known to be in the graph.

    Args:
        query: Query or text.
        graph: The diagram.

    Raises:
        InputError: A name is not in the graph.
    """
    if isinstance(query, str):
        return Query.parse(query, graph.nodes)
    for name in query.variables:
        graph.check(name)
    return query


def needed_factors(query: Query, graph: ADMG) -> tuple[tuple[Factor, ...] | None, tuple[Factor, ...]]:
    """Return the ctf-factors of numerator and denominator that do not cancel.

    A group of factors that shares no summed symbol with the rest multiplies both P(outcomes, conditions) and
    P(conditions) by the same number when it holds no outcome; equal groups are therefore left out.

    Args:
        query: The query.
        graph: The diagram.

    Returns:
        Factors of the numerator (None: probability zero) and of the denominator.

    Raises:
        InputError: The condition is impossible.
    """
    if not query.conditions:
        try:
            return split(ctf_members(query.outcomes, graph), graph), ()
        except Impossible:
            return None, ()
    try:
        denominator = groups(split(ctf_members(query.conditions, graph), graph))
    except Impossible as error:
        raise InputError(f"The condition of {query} is impossible in every model: {error}.") from None
    try:
        numerator = groups(split(ctf_members(query.events, graph), graph))
    except Impossible:
        return None, ()
    common = set(numerator) & set(denominator)

    def flat(some: list[frozenset[Factor]]) -> tuple[Factor, ...]:
        kept = [factor for group in some if group not in common for factor in group]
        return tuple(sorted(kept, key=lambda factor: factor.members))

    return flat(numerator), flat(denominator)


def factor_formula(
    factor: Factor, graph: ADMG, regimes: Sequence[Regime], preferred: Collection[str] = ()
) -> tuple[Expression | None, dict[str, str]]:
    """Return the shortest formula that a regime gives for a ctf-factor, or why none does.

    Args:
        factor: The ctf-factor.
        graph: The diagram.
        regimes: What data there is.
        preferred: Regimes to take where formulas are equally short: a ratio is best estimated on one sample.

    Returns:
        The formula or None, and for each regime that fails a reason.
    """
    if factor.copies:
        first, second = factor.copies
        why = f"no unit shows both {first.response} and {second.response}, two copies of {first.variable}"
        return None, {regime.name: why for regime in regimes}
    reasons: dict[str, str] = {}
    best: Expression | None = None
    least = (0, False)
    for regime in regimes:
        symbols = _match(factor, graph, regime)
        if isinstance(symbols, str):
            reasons[regime.name] = symbols
            continue
        formula = _solve(factor.names, graph, regime)
        if isinstance(formula, str):
            reasons[regime.name] = formula
            continue
        found = _place(formula, *symbols, regime)
        cost = (_size(found), regime.name not in preferred)
        if best is None or cost < least:
            best, least = found, cost
    return best, reasons


def _size(expression: Expression) -> int:
    return sum(1 + len(node.given) for node in expression.probabilities())


def _match(factor: Factor, graph: ADMG, regime: Regime) -> tuple[dict[str, Symbol], dict[str, Symbol]] | str:
    """Return the symbols of randomised values and of natural ones, or why the regime does not carry the subscripts."""
    feeds, records = _flow(graph, regime), regime.records(graph)
    own = {member.variable: member.value for member in factor.members}
    for name in own:
        if name not in records:
            return f"{name} is not recorded"
    settings: dict[str, Symbol] = {}
    outside: dict[str, Symbol] = {}
    for member in factor.members:
        for parent, symbol in member.parents:
            flow = feeds.get((parent, member.variable))
            if flow is not None and flow[0] == "value":
                if symbol.kind != "value" or symbol.name != flow[1]:
                    return f"{parent}->{member.variable} is fed {flow[1]}, not {symbol.name}"
            elif flow is not None:
                if settings.setdefault(flow[1], symbol) != symbol:
                    return f"{parent} would have to be {settings[flow[1]].name} and {symbol.name} at once"
            elif parent in own:
                if own[parent] != symbol:
                    return (f"{parent} reaches {member.variable} with its natural value {own[parent].name}, not "
                            f"{symbol.name}")  # fmt: skip
            elif parent not in records:
                return f"{parent}, a natural parent of {member.variable}, is not recorded"
            elif outside.setdefault(parent, symbol) != symbol:
                return f"{parent} would have to be {outside[parent].name} and {symbol.name} at once"
    return settings, outside | own


def _place(formula: Expression, settings: dict[str, Symbol], natural: dict[str, Symbol], regime: Regime) -> Expression:
    """Put the factor's symbols in; what the factor does not depend on may take any value."""
    mapping: dict[Symbol, Symbol] = {}
    for symbol in formula.free:
        column = symbol.name.removeprefix("set ")
        if column:
            mapping[symbol] = settings.get(column, Symbol(symbol.variable, f"{regime.name} {symbol.name}", "any"))
        else:
            mapping[symbol] = natural.get(symbol.variable, Symbol(symbol.variable, f"{regime.name} ", "any"))
    return formula.substitute(mapping)


@lru_cache(maxsize=4096)
def _flow(graph: ADMG, regime: Regime) -> dict[Edge, tuple[str, str]]:
    return regime.feeds(graph)


@lru_cache(maxsize=4096)
def _seen_graph(graph: ADMG, regime: Regime) -> ADMG:
    cut = graph.without(_flow(graph, regime))
    return cut.project(frozenset(graph.nodes) - regime.records(graph))


@lru_cache(maxsize=65536)
def _solve(names: frozenset[str], graph: ADMG, regime: Regime) -> Expression | str:
    """Tian's IDENTIFY of Q[names] in the regime's graph, as a formula over slots; or the sets where it fails."""
    seen = _seen_graph(graph, regime)
    ancestors = seen.ancestors(names)
    reached = _reached(graph, regime, names)
    settings = tuple(
        (column, Symbol(variable, f"set {column}", "sum"))
        for column, variable in sorted(regime.settings(graph).items())
        if column in reached
    )
    component = seen.component_of(next(iter(sorted(names))), ancestors)
    if not names <= component:
        raise AssertionError("a ctf-factor lies in one c-component")
    order = [name for name in seen.order if name in ancestors]
    law = product(
        Probability(regime.name, ((name, _slot(name)),), _conditioning(name, order, seen), settings)
        for name in order
        if name in component
    )
    while True:
        above = seen.ancestors(names, within=component)
        if above == names:
            return total([_slot(name) for name in component - names], law)
        if above == component:
            return f"Q[{', '.join(sorted(names))}] cannot be taken out of Q[{', '.join(sorted(component))}] (a hedge)"
        law = total([_slot(name) for name in component - above], law)
        component = seen.component_of(next(iter(sorted(names))), above)
        if component != above:
            law = _component_law(component, [name for name in seen.order if name in above], law)


def _component_law(component: frozenset[str], order: list[str], law: Expression) -> Expression:
    r"""Return :math:`Q[T'] = \prod_{V_i \in T'} Q[A^{(i)}] / Q[A^{(i-1)}]` from Q[A], A in topological `order`."""
    heads = [total([_slot(name) for name in order[i:]], law) for i in range(len(order) + 1)]
    return product(fraction(heads[i + 1], heads[i]) for i, name in enumerate(order) if name in component)


def _conditioning(name: str, order: list[str], graph: ADMG) -> tuple[tuple[str, Symbol], ...]:
    """Return what V_i depends on among its predecessors: its c-component there and the parents of that."""
    earlier = order[: order.index(name) + 1]
    component = graph.component_of(name, set(earlier))
    kept = component | {parent for member in component for parent in graph.parents(member)}
    return tuple((other, _slot(other)) for other in earlier if other in kept and other != name)


def _reached(graph: ADMG, regime: Regime, names: frozenset[str]) -> set[str]:
    """Return the columns of randomised values that an ancestor of `names` is fed with; others have no effect."""
    flow = _flow(graph, regime)
    above = graph.without(flow).ancestors(names)
    return {label for (_, child), (kind, label) in flow.items() if kind == "column" and child in above}


def _slot(name: str) -> Symbol:
    return Symbol(name, "", "sum")


def _without_unseen(query: Query, graph: ADMG, regimes: Sequence[Regime]) -> tuple[ADMG, Sequence[Regime]]:
    """Project out what no regime records or sets and the query does not mention."""
    kept = set(query.variables)
    for regime in regimes:
        kept |= regime.records(graph) | {edge[0] for edge in _flow(graph, regime)} | {name for name, _ in regime.do}
    hidden = frozenset(graph.nodes) - kept
    if not hidden or not regimes:
        return graph, regimes
    smaller = [regime.project(graph, hidden) for regime in regimes]
    return graph.project(hidden), [regime for regime in smaller if regime is not None]
