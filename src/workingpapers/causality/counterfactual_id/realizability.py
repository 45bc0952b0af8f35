"""Realizability: whether one experiment shows all events of a query on the same unit, and which one does."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from workingpapers.causality.counterfactual_id.factors import Member
from workingpapers.causality.counterfactual_id.graph import ADMG, Edge
from workingpapers.causality.counterfactual_id.identification import checked, identify, needed_factors
from workingpapers.causality.counterfactual_id.query import Query, Symbol
from workingpapers.causality.counterfactual_id.regime import ANY, Regime

Action = tuple[str, ...]


@dataclass(frozen=True)
class Realizability:
    """Whether a query can be sampled from.

    Args:
        realizable: Whether an experiment with the allowed actions shows all its events at once.
        plan: The experiment, one action a line; empty if there is none.
        regime: The experiment as a regime; None if there is none.
        conflict: Two copies of one variable that would have to be seen on one unit; None if that is not the reason.
        missing: The action that would be needed and is not allowed; empty if that is not the reason.
    """

    realizable: bool
    plan: tuple[str, ...] = ()
    regime: Regime | None = None
    conflict: tuple[Member, Member] | None = None
    missing: str = ""


def realizable(query: Query | str, graph: ADMG, actions: Collection[Action] | None = None) -> Realizability:
    """Decide whether a query can be sampled by an experiment, and plan it.

    A unit is selected; RAND(X) feeds one value to all children of X and erases X's own; CTF-RAND(X -> C) feeds C alone
    and leaves X as it is; variables are read. The query is realizable with all actions exactly when no variable occurs
    in two different copies, and then, and only then, it is identified from all realizable experiments.

    Args:
        query: The query, or its text. What cancels from a conditional query need not be realized.
        graph: The diagram, n variables.
        actions: Allowed actions, ``("RAND", "X")`` and ``("CTF-RAND", "X", "C")``; all by default.

    Raises:
        InputError: The query names what is not in the graph, or its condition is impossible.

    References:
        arXiv:2503.11870 (realizability); arXiv:2602.23541 (duality).
    """
    query = checked(query, graph)
    above, below = needed_factors(query, graph)
    if above is None:
        return Realizability(
            True, ("No experiment is needed: the probability is zero in every model.",), Regime("plan")
        )
    for factor in (*above, *below):
        if factor.copies:
            return Realizability(False, conflict=factor.copies)
    members = [member for factor in above for member in factor.members]
    plan = ["SELECT a unit at random"]
    cut: dict[Edge, str] = {}
    erased: dict[str, str] = {}
    for parent, wanted in _wanted(members, graph).items():
        values = set(wanted.values())
        natural = parent in {member.variable for member in members}
        if not natural and len(values) == 1 and _allowed(("RAND", parent), actions):
            plan.append(f"RAND({parent}) := {_value(values.pop())}")
            erased[parent] = _fed(next(iter(wanted.values())))
            continue
        for child, symbol in wanted.items():
            if not _allowed(("CTF-RAND", parent, child), actions):
                return Realizability(False, missing=f"CTF-RAND({parent} -> {child})")
            plan.append(f"CTF-RAND({parent} -> {child}) := {_value(symbol)}")
            cut[parent, child] = _fed(symbol)
    read = [name for name in graph.order if name in {member.variable for member in members}]
    plan.append(f"READ {', '.join(read)}")
    return Realizability(True, tuple(plan), Regime("plan", cut, erased))


def suggest_regimes(
    query: Query | str, graph: ADMG, regimes: Sequence[Regime] = (), name: str = "new"
) -> Regime | None:
    """Return the smallest experiment found that, added to `regimes`, identifies the query; None if none can.

    Edges are given up one by one as long as the query stays identified, so that none of the remaining ones is idle.

    Args:
        query: The query, or its text.
        graph: The diagram.
        regimes: What there is already.
        name: Name of the new regime.

    Returns:
        A regime with random values on its cut edges; without a cut where observation is enough.
    """
    query = checked(query, graph)
    above, below = needed_factors(query, graph)
    members = [member for factor in (*(above or ()), *below) for member in factor.members]
    if any(factor.copies for factor in (*(above or ()), *below)):
        return None
    edges = sorted({(parent, member.variable) for member in members for parent, _ in member.parents})

    def works(some: Sequence[Edge]) -> bool:
        new = Regime(name, dict.fromkeys(some, ANY))
        kept = [regime for regime in regimes if regime.name != name]
        return identify(query, graph, [*kept, new]).identified

    for edge in list(edges):
        fewer = [other for other in edges if other != edge]
        if works(fewer):
            edges = fewer
    return Regime(name, dict.fromkeys(edges, ANY))


def _wanted(members: Sequence[Member], graph: ADMG) -> dict[str, dict[str, Symbol]]:
    """Return parent -> child -> the value that must be fed because the parent's natural value is another."""
    own = {member.variable: member.value for member in members}
    found: dict[str, dict[str, Symbol]] = {}
    for parent in graph.order:
        for member in members:
            symbol = dict(member.parents).get(parent)
            if symbol is not None and own.get(parent) != symbol:
                found.setdefault(parent, {})[member.variable] = symbol
    return found


def _allowed(action: Action, actions: Collection[Action] | None) -> bool:
    return actions is None or action in actions


def _value(symbol: Symbol) -> str:
    return symbol.name if symbol.kind == "value" else f"random {symbol.variable.lower()}"


def _fed(symbol: Symbol) -> str:
    return symbol.name if symbol.kind == "value" else ANY
