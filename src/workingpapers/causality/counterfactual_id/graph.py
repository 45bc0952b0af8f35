"""Acyclic directed mixed graphs: ancestors, c-components and latent projection."""

from __future__ import annotations

import graphlib
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from functools import cached_property

from workingpapers.foundations.errors import InputError, near_match

Edge = tuple[str, str]


@dataclass(frozen=True, eq=False)
class ADMG:
    """A causal diagram: directed edges, and bidirected ones for what two variables share unseen.

    Args:
        nodes: Names; those of the edges are added where it is empty.
        directed: Pairs (parent, child).
        bidirected: Pairs of confounded variables, in either order.

    Raises:
        InputError: The directed edges have a cycle, an edge names a node that is not listed, or a node is its own
            neighbour.
    """

    nodes: tuple[str, ...] = ()
    directed: frozenset[Edge] = frozenset()
    bidirected: frozenset[Edge] = frozenset()
    order: tuple[str, ...] = field(init=False, repr=False)

    def __init__(
        self, nodes: Iterable[str] = (), directed: Iterable[Edge] = (), bidirected: Iterable[Edge] = ()
    ) -> None:
        arrows = [(str(a), str(b)) for a, b in directed]
        arcs = [tuple(sorted((str(a), str(b)))) for a, b in bidirected]
        listed = tuple(dict.fromkeys(map(str, nodes)))
        for edge in (*arrows, *arcs):
            for name in edge:
                if listed and name not in listed:
                    hint = near_match(name, listed) or "; list it among the nodes."
                    raise InputError(f"The edge {edge[0]} - {edge[1]} names {name!r}, which is no node{hint}")
            if edge[0] == edge[1]:
                raise InputError(f"{edge[0]!r} has an edge to itself; a causal diagram has none.")
        names = listed or tuple(dict.fromkeys(name for edge in (*arrows, *arcs) for name in edge))
        object.__setattr__(self, "nodes", names)
        object.__setattr__(self, "directed", frozenset(arrows))
        object.__setattr__(self, "bidirected", frozenset(arcs))
        object.__setattr__(self, "order", _topological(names, arrows))

    @cached_property
    def _parents(self) -> dict[str, tuple[str, ...]]:
        rank = {name: index for index, name in enumerate(self.order)}
        found: dict[str, list[str]] = {name: [] for name in self.nodes}
        for a, b in self.directed:
            found[b].append(a)
        return {name: tuple(sorted(some, key=rank.__getitem__)) for name, some in found.items()}

    @cached_property
    def _siblings(self) -> dict[str, frozenset[str]]:
        found: dict[str, set[str]] = {name: set() for name in self.nodes}
        for a, b in self.bidirected:
            found[a].add(b)
            found[b].add(a)
        return {name: frozenset(some) for name, some in found.items()}

    def parents(self, name: str) -> tuple[str, ...]:
        """Return the parents of `name` in topological order."""
        return self._parents[name]

    def children(self, name: str) -> tuple[str, ...]:
        """Return the children of `name` in topological order."""
        return tuple(node for node in self.order if (name, node) in self.directed)

    def siblings(self, name: str) -> frozenset[str]:
        """Return the variables that share a bidirected edge with `name`."""
        return self._siblings[name]

    def ancestors(
        self,
        names: Iterable[str],
        *,
        within: Collection[str] | None = None,
        no_edges_into: Collection[str] = (),
        no_edges_out_of: Collection[str] = (),
    ) -> set[str]:
        r"""Return the ancestors of `names` with themselves, :math:`An(\cdot)`, in a part of the graph.

        Args:
            names: Variables, inside `within`.
            within: Induced subgraph to stay in; the whole graph by default.
            no_edges_into: Edges into these are removed, :math:`G_{\overline{X}}`.
            no_edges_out_of: Edges out of these are removed, :math:`G_{\underline{X}}`.
        """
        found = set(names)
        stack = list(found)
        while stack:
            name = stack.pop()
            if name in no_edges_into:
                continue
            for parent in self._parents[name]:
                if parent in found or parent in no_edges_out_of or (within is not None and parent not in within):
                    continue
                found.add(parent)
                stack.append(parent)
        return found

    def components(self, within: Collection[str] | None = None) -> list[frozenset[str]]:
        """Return the c-components of the induced subgraph `within`, ordered by their first variable.

        Args:
            within: Names; all of them by default.
        """
        left = set(self.nodes if within is None else within)
        found = []
        for name in self.order:
            if name in left:
                component = self._component(name, left)
                left -= component
                found.append(frozenset(component))
        return found

    def component_of(self, name: str, within: Collection[str]) -> frozenset[str]:
        """Return the c-component of `name` in the induced subgraph `within`."""
        return frozenset(self._component(name, within))

    def _component(self, name: str, within: Collection[str]) -> set[str]:
        found, stack = {name}, [name]
        while stack:
            for other in self._siblings[stack.pop()]:
                if other in within and other not in found:
                    found.add(other)
                    stack.append(other)
        return found

    def without(self, edges: Collection[Edge]) -> ADMG:
        """Return the graph without these directed edges."""
        return self._part(self.nodes, self.directed.difference(edges), self.bidirected) if edges else self

    def _part(self, nodes: tuple[str, ...], directed: frozenset[Edge], bidirected: frozenset[Edge]) -> ADMG:
        """Return a graph for which this one's topological order is good; nothing is checked again."""
        part = object.__new__(ADMG)
        kept = set(nodes)
        for name, value in (
            ("nodes", nodes),
            ("directed", directed),
            ("bidirected", bidirected),
            ("order", tuple(name for name in self.order if name in kept)),
        ):
            object.__setattr__(part, name, value)
        return part

    def project(self, hidden: Collection[str]) -> ADMG:
        """Return the latent projection that leaves out `hidden`: the same law of the other variables.

        Args:
            hidden: Names to leave out.
        """
        if not hidden:
            return self
        directed, bidirected = set(self.directed), {frozenset(edge) for edge in self.bidirected}
        for name in hidden:
            parents = {a for a, b in directed if b == name}
            children = {b for a, b in directed if a == name}
            siblings = {other for edge in bidirected if name in edge for other in edge} - {name}
            directed = {edge for edge in directed if name not in edge} | {(p, c) for p in parents for c in children}
            pairs = {frozenset((a, b)) for a in children for b in children | siblings if a != b}
            bidirected = {edge for edge in bidirected if name not in edge} | pairs
        kept = tuple(name for name in self.nodes if name not in hidden)
        arcs = frozenset((min(edge), max(edge)) for edge in bidirected)
        return self._part(kept, frozenset(directed), arcs)

    def check(self, name: str, what: str = "The query") -> str:
        """Return `name` if it is a node.

        Args:
            name: The name to check.
            what: Start of the sentence where it is none.

        Raises:
            InputError: It is not; a near name is offered.
        """
        if name not in self.nodes:
            hint = near_match(name, self.nodes) or f"; the variables are {', '.join(self.nodes[:20])}."
            raise InputError(f"{what} names {name!r}, which is not in the graph{hint}")
        return name


def _topological(names: tuple[str, ...], directed: list[Edge]) -> tuple[str, ...]:
    sorter: graphlib.TopologicalSorter[str] = graphlib.TopologicalSorter({name: [] for name in names})
    for a, b in directed:
        sorter.add(b, a)
    try:
        return tuple(sorter.static_order())
    except graphlib.CycleError as error:
        cycle = " -> ".join(error.args[1])
        raise InputError(f"The graph has the cycle {cycle}; a causal diagram has none, take an edge out.") from None
