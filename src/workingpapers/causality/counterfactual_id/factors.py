r"""From a counterfactual query to ctf-factors: unnesting, minimisation, ancestors, factorisation, c-components.

A *copy* is a variable with a subscript of symbols. Each copy that is not in the query gets a symbol of its own, so that
worlds never share one by having the same variable name.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from workingpapers.causality.counterfactual_id.graph import ADMG
from workingpapers.causality.counterfactual_id.query import Event, Response, Symbol

Subscript = dict[str, Symbol]
Copy = tuple[str, tuple[tuple[str, Symbol], ...]]


class Impossible(Exception):
    """The events contradict each other in every model: their probability is zero."""


class Member(NamedTuple):
    """One term :math:`W_{pa_W} = w` of a ctf-factor."""

    variable: str
    parents: tuple[tuple[str, Symbol], ...]
    value: Symbol

    @property
    def response(self) -> Response:
        """The response without its value."""
        return Response(self.variable, self.parents)


@dataclass(frozen=True)
class Factor:
    """A ctf-factor: the joint probability of its members, which share unobserved causes.

    Args:
        members: In topological order of their variables.
    """

    members: tuple[Member, ...]

    @property
    def names(self) -> frozenset[str]:
        """Variables of the members."""
        return frozenset(member.variable for member in self.members)

    @property
    def copies(self) -> tuple[Member, Member] | None:
        """Two members of one variable, if there are such: no experiment shows them together."""
        seen: dict[str, Member] = {}
        for member in self.members:
            if member.variable in seen:
                return seen[member.variable], member
            seen[member.variable] = member
        return None

    @property
    def consistent(self) -> bool:
        """Whether one symbol stands for each variable, so that the factor is an interventional probability."""
        own = {member.variable: member.value for member in self.members}
        if self.copies:
            return False
        for member in self.members:
            for parent, symbol in member.parents:
                if own.setdefault(parent, symbol) != symbol:
                    return False
        return True

    @property
    def symbols(self) -> tuple[Symbol, ...]:
        """Symbols of values and subscripts."""
        return tuple(dict.fromkeys(s for m in self.members for s in (m.value, *(v for _, v in m.parents))))

    def to_text(self, names: Mapping[Symbol, str]) -> str:
        """Return the factor as text.

        Args:
            names: What to write for each symbol.
        """

        def write(member: Member) -> str:
            parents = tuple((p, s._replace(name=names[s])) for p, s in member.parents)
            return f"{Response(member.variable, parents)} = {names[member.value]}"

        return "{" + ", ".join(map(write, self.members)) + "}"


def minimise(variable: str, subscript: Mapping[str, Symbol], graph: ADMG) -> Subscript:
    r"""Return the part of a subscript that matters, :math:`X \cap An(Y)_{G_{\overline{X}}}`.

    Args:
        variable: Y.
        subscript: Variable -> symbol.
        graph: The diagram.
    """
    if not subscript:
        return {}
    relevant = graph.ancestors([variable], no_edges_into=subscript)
    return {name: symbol for name, symbol in subscript.items() if name in relevant}


def ctf_ancestors(variable: str, subscript: Mapping[str, Symbol], graph: ADMG) -> list[Copy]:
    r"""Return the counterfactual ancestors of :math:`Y_x`, itself included, as minimised copies.

    .. math:: An(Y_x) = \{W_z : W \in An(Y)_{G_{\underline{X}}} \setminus X,\ z = x \cap An(W)_{G_{\overline{X}}}\}

    Args:
        variable: Y.
        subscript: Variable -> symbol.
        graph: The diagram.
    """
    names = graph.ancestors([variable], no_edges_out_of=subscript) - set(subscript)
    return [_copy(name, minimise(name, subscript, graph)) for name in graph.order if name in names]


def ctf_members(events: Sequence[Event], graph: ADMG) -> tuple[Member, ...]:
    r"""Return the terms of :math:`P(D_* = d_*)`, where :math:`D_*` are the ctf-ancestors of the events.

    Args:
        events: Events on responses, nested or not.
        graph: The diagram.

    Returns:
        Members in topological order. Symbols of kind ``sum`` are to be summed over.

    Raises:
        Impossible: The events contradict each other.
    """
    settled = _settle(_unnest(events), graph)
    symbols: dict[Copy, Symbol] = {_copy(name, subscript): value for name, subscript, value in settled}
    for name, subscript, _ in settled:
        for copy in ctf_ancestors(name, subscript, graph):
            symbols.setdefault(copy, _fresh(copy))
    members = []
    for (name, pairs), value in symbols.items():
        subscript = dict(pairs)
        parents = tuple(
            (parent, subscript.get(parent) or symbols[_copy(parent, minimise(parent, subscript, graph))])
            for parent in graph.parents(name)
        )
        members.append(Member(name, parents, value))
    rank = {name: index for index, name in enumerate(graph.order)}
    return tuple(sorted(_unify(members), key=lambda member: (rank[member.variable], member)))


def split(members: Sequence[Member], graph: ADMG) -> tuple[Factor, ...]:
    """Return the ctf-factors of `members`: one for each c-component of their variables.

    Args:
        members: Terms of an ancestral set.
        graph: The diagram.
    """
    components = graph.components({member.variable for member in members})
    return tuple(
        Factor(tuple(member for member in members if member.variable in component)) for component in components
    )


def groups(factors: Iterable[Factor]) -> list[frozenset[Factor]]:
    """Return the factors in groups that share symbols to be summed over; products over groups need no common sum.

    Args:
        factors: Ctf-factors of one query.
    """
    found: list[tuple[set[Symbol], set[Factor]]] = []
    for factor in factors:
        symbols = {symbol for symbol in factor.symbols if symbol.kind == "sum"}
        joined = {factor}
        rest = []
        for shared, some in found:
            if shared & symbols:
                symbols |= shared
                joined |= some
            else:
                rest.append((shared, some))
        found = [*rest, (symbols, joined)]
    return [frozenset(some) for _, some in found]


def _copy(name: str, subscript: Mapping[str, Symbol]) -> Copy:
    return name, tuple(sorted(subscript.items()))


def _fresh(copy: Copy) -> Symbol:
    return Symbol(copy[0], str(Response(copy[0], copy[1])), "sum")


def _unnest(events: Sequence[Event]) -> list[tuple[str, Subscript, Symbol]]:
    """Replace nested responses by sums over their values, inside out; one response has one symbol everywhere."""
    found: dict[tuple[Copy, Symbol], None] = {}

    def flat(response: Response) -> Copy:
        subscript: Subscript = {}
        for name, value in response.subscript:
            if isinstance(value, Response):
                copy = flat(value)
                value = _fresh(copy)
                found[copy, value] = None
            subscript[name] = value
        return _copy(response.variable, subscript)

    for event in events:
        found[flat(event.response), event.symbol] = None
    return [(name, dict(subscript), value) for (name, subscript), value in found]


def _settle(events: list[tuple[str, Subscript, Symbol]], graph: ADMG) -> list[tuple[str, Subscript, Symbol]]:
    """Minimise, apply effectiveness, and give one symbol to equal responses, until nothing changes.

    Effectiveness comes before the test for conflicts because the symbols that it equates can make one.
    """
    while True:
        events = [
            (name, dict(subscript) if name in subscript else minimise(name, subscript, graph), value)
            for name, subscript, value in events
        ]
        pair = next(((v, s[name]) for name, s, v in events if name in s and s[name] != v), None)
        events = [event for event in events if event[0] not in event[1] or event[1][event[0]] != event[2]]
        if pair is None:
            seen: dict[Copy, Symbol] = {}
            for name, subscript, value in events:
                held = seen.setdefault(_copy(name, subscript), value)
                if held != value:
                    pair = (held, value)
                    break
        if pair is not None:
            old, new = _oriented(*pair)
            events = [
                (name, {n: new if s == old else s for n, s in subscript.items()}, new if value == old else value)
                for name, subscript, value in events
            ]
            continue
        unique = {(_copy(name, subscript), value): None for name, subscript, value in events}
        used = [s for (_, pairs), _ in unique for _, s in pairs] + [value for _, value in unique]
        kept = [item for item in unique if item[1].kind != "sum" or used.count(item[1]) > 1]
        if len(kept) == len(unique):
            return [(name, dict(pairs), value) for (name, pairs), value in kept]
        events = [(name, dict(pairs), value) for (name, pairs), value in kept]


def _unify(members: list[Member]) -> list[Member]:
    """Merge members that are the same response by consistency, which may make others the same."""
    while True:
        seen: dict[Copy, Symbol] = {}
        pair = None
        for name, parents, value in members:
            held = seen.setdefault((name, parents), value)
            if held != value:
                pair = _oriented(held, value)
                break
        if pair is None:
            return [Member(name, parents, value) for (name, parents), value in seen.items()]
        old, new = pair
        members = [
            Member(name, tuple((p, new if s == old else s) for p, s in parents), new if value == old else value)
            for name, parents, value in members
        ]


def _oriented(a: Symbol, b: Symbol) -> tuple[Symbol, Symbol]:
    """Return (the symbol to replace, the symbol to keep)."""
    if a.kind == b.kind == "value":
        raise Impossible(f"{a.variable} would be {a.name} and {b.name} at once")
    rank = {"value": 2, "open": 1, "sum": 0}
    return (a, b) if (rank[b.kind], b.name) > (rank[a.kind], a.name) else (b, a)
