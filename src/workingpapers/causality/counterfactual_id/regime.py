"""Regimes: which edges an experiment cuts, what value it feeds through them, and what it records."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import chain, combinations
from pathlib import Path
from typing import Any

from workingpapers.causality.counterfactual_id.graph import ADMG, Edge
from workingpapers.foundations.errors import InputError, near_match
from workingpapers.foundations.files import read_text

ANY = "*"
"""A cut edge whose value is drawn at random over the whole domain and recorded."""


@dataclass(frozen=True)
class Regime:
    """An experiment, or none, that gives the law of what it records.

    With ``cut={}`` it is observational. ``do={"X": ...}`` feeds one value to all children of X and erases X's own.
    A cut edge (X, C), counterfactual randomisation, feeds a value to C alone; X keeps its natural value, which can be
    recorded.

    Args:
        name: How formulas name it.
        cut: Edge (parent, child) -> the value that is fed, a symbol or value of the parent, or ``ANY``.
        do: Variable -> the value that is fed to all its children, or ``ANY``.
        observed: Variables that are recorded with their natural value; by default all that `do` leaves.
        columns: Edge cut at ``ANY`` -> column that records the value (``"X->C"`` by default); edges that name the
            same column get the same value. For `do` the column is the variable's own.

    Raises:
        InputError: A `do` variable is listed as observed, or an edge is cut twice.
    """

    name: str
    cut: tuple[tuple[Edge, str], ...]
    do: tuple[tuple[str, str], ...]
    observed: frozenset[str] | None
    columns: tuple[tuple[Edge, str], ...]

    def __init__(
        self,
        name: str,
        cut: Mapping[Edge, str] | None = None,
        do: Mapping[str, str] | None = None,
        observed: Iterable[str] | None = None,
        columns: Mapping[Edge, str] | None = None,
    ) -> None:
        for field, value in (
            ("name", name),
            ("cut", tuple(sorted((cut or {}).items()))),
            ("do", tuple(sorted((do or {}).items()))),
            ("observed", None if observed is None else frozenset(observed)),
            ("columns", tuple(sorted((columns or {}).items()))),
        ):
            object.__setattr__(self, field, value)
        for name, _ in self.do:
            if self.observed is not None and name in self.observed:
                raise InputError(
                    f"Regime {self.name!r} sets {name!r} for all children and records its natural value; cut single "
                    "edges instead, which leave that value alone."
                )
            for (parent, child), _value in self.cut:
                if parent == name:
                    raise InputError(
                        f"Regime {self.name!r} cuts {parent}->{child} and sets {name!r} for all children; keep one."
                    )

    def __hash__(self) -> int:
        return hash((self.name, self.cut, self.do))

    def feeds(self, graph: ADMG) -> dict[Edge, tuple[str, str]]:
        """Return what flows through the cut edges.

        Args:
            graph: The diagram.

        Returns:
            Edge -> ``("value", symbol name)`` or ``("column", name of the recorded value)``.

        Raises:
            InputError: A cut edge is not in the graph, or a variable is not.
        """
        columns, found = dict(self.columns), {}
        for name in (*(n for n, _ in self.do), *(self.observed or ())):
            graph.check(name, f"Regime {self.name!r}")
        for edge, value in self.cut:
            if edge not in graph.directed:
                known = [f"{a}->{b}" for a, b in sorted(graph.directed)]
                hint = near_match("->".join(edge), known) or f"; the edges are {', '.join(known[:20])}."
                raise InputError(f"Regime {self.name!r} cuts {'->'.join(edge)}, which is no edge of the graph{hint}")
            label = columns.get(edge, "->".join(edge))
            found[edge] = ("column", label) if value == ANY else ("value", value)
        for name, value in self.do:
            for child in graph.children(name):
                found[name, child] = ("column", name) if value == ANY else ("value", value)
        return found

    def records(self, graph: ADMG) -> frozenset[str]:
        """Return the variables whose natural value is recorded.

        Args:
            graph: The diagram.
        """
        if self.observed is not None:
            return self.observed
        return frozenset(graph.nodes) - {name for name, _ in self.do}

    def settings(self, graph: ADMG) -> dict[str, str]:
        """Return the columns of randomised values.

        Args:
            graph: The diagram.

        Returns:
            Column -> variable whose domain it has.
        """
        feeds = self.feeds(graph)
        return {label: edge[0] for edge, (kind, label) in sorted(feeds.items()) if kind == "column"} | {
            name: name for name, value in self.do if value == ANY
        }

    def assign(self, values: Mapping[str, object]) -> Regime:
        """Return the regime with symbols replaced by values.

        Args:
            values: Symbol name -> value.
        """
        cut = {edge: str(values.get(value, value)) for edge, value in self.cut}
        do = {name: str(values.get(value, value)) for name, value in self.do}
        return Regime(self.name, cut, do, self.observed, dict(self.columns))

    def project(self, graph: ADMG, hidden: frozenset[str]) -> Regime | None:
        """Return the regime over the latent projection, or None where its cuts cannot be told apart there.

        Args:
            graph: The diagram before projection.
            hidden: Variables left out.
        """
        if not hidden:
            return self
        feeds, smaller = self.feeds(graph), graph.project(hidden)
        cut: dict[Edge, str] = {}
        columns: dict[Edge, str] = {}
        for parent, child in smaller.directed:
            above = graph.ancestors([child], no_edges_out_of=set(graph.nodes) - hidden)
            flows = {feeds.get((parent, first)) for first in graph.children(parent) if first in above}
            if len(flows) > 1:
                return None
            flow = flows.pop()
            if flow is not None and parent not in dict(self.do):
                cut[parent, child] = ANY if flow[0] == "column" else flow[1]
                if flow[0] == "column":
                    columns[parent, child] = flow[1]
        do = {name: value for name, value in self.do if name not in hidden}
        observed = None if self.observed is None else self.observed - hidden
        return Regime(self.name, cut, do, observed, columns)

    def __str__(self) -> str:
        parts = [f"do({n})" if v == ANY else f"do({n} = {v})" for n, v in self.do]
        parts += [f"{a}->{b} random" if v == ANY else f"{a}->{b} at {v}" for (a, b), v in self.cut]
        return f"{self.name} ({', '.join(parts) if parts else 'nothing cut'})"


OBSERVATIONAL = Regime("obs")


def all_regimes(graph: ADMG, counterfactual: bool) -> tuple[Regime, ...]:
    """Return every experiment: all sets of variables set at random, or all sets of edges cut at random.

    Args:
        graph: The diagram, of at most 12 variables or edges: there are as many regimes as subsets.
        counterfactual: Sets of edges (Layer 3) and not of variables (Layers 1 and 2).
    """
    pool: list[Any] = sorted(graph.directed) if counterfactual else list(graph.nodes)
    if len(pool) > 12:
        raise InputError(f"The graph has {len(pool)} {'edges' if counterfactual else 'variables'}; at most 12 here.")
    subsets = chain.from_iterable(combinations(pool, k) for k in range(len(pool) + 1))
    if counterfactual:
        return tuple(Regime(f"r{i}" if some else "obs", cut=dict.fromkeys(some, ANY)) for i, some in enumerate(subsets))
    return tuple(Regime("do_" + "_".join(some) if some else "obs", do=dict.fromkeys(some, ANY)) for some in subsets)


def read_regimes(path: Path) -> tuple[Regime, ...]:
    """Read regimes from TOML: one table each, with ``cut``, ``do``, ``observed`` and ``columns`` where needed.

    .. code-block:: toml

        [obs]
        [trial]
        do = { X = "*" }
        [split]
        cut = { "X->M" = "x'", "X->Y" = "*" }

    Args:
        path: The file.

    Raises:
        InputError: It is not such a file.
    """
    try:
        content = tomllib.loads(read_text(path))
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"{str(path)!r} is not TOML: {str(error).rstrip('.')}.") from None
    if not content:
        raise InputError(f"{str(path)!r} holds no regime; write at least [obs].")
    return tuple(_read_one(str(path), name, body) for name, body in content.items())


def _read_one(path: str, name: str, body: object) -> Regime:
    if not isinstance(body, dict):
        raise InputError(f"{path!r}: {name!r} is no table; write [{name}] with cut, do and observed below it.")
    for key in body:
        if key not in ("cut", "do", "observed", "columns"):
            hint = near_match(key, ("cut", "do", "observed", "columns")) or "; use cut, do, observed or columns."
            raise InputError(f"Regime {name!r} of {path!r} has the key {key!r}{hint}")

    def edges(key: str) -> dict[Edge, str]:
        return {_edge(text, f"Regime {name!r} of {path!r}"): value for text, value in _mapping(key).items()}

    def _mapping(key: str) -> dict[str, str]:
        given = body.get(key, {})
        if isinstance(given, list):
            given = dict.fromkeys(map(str, given), ANY)
        if not isinstance(given, dict):
            raise InputError(f"Regime {name!r} of {path!r} has {key} = {given!r}; write a table or a list.")
        return {str(k): str(v) for k, v in given.items()}

    observed: Iterable[str] | None = body.get("observed")
    if observed is not None and not isinstance(observed, list):
        raise InputError(f"Regime {name!r} of {path!r} has observed = {observed!r}; write a list of variables.")
    return Regime(
        name,
        edges("cut"),
        _mapping("do"),
        None if observed is None else frozenset(map(str, observed)),
        edges("columns"),
    )


def _edge(text: str, where: str) -> Edge:
    ends = [end.strip() for end in text.split("->")]
    if len(ends) != 2 or not all(ends):
        raise InputError(f"{where} cuts {text!r}, which is no edge; write it like X->Y.")
    return ends[0], ends[1]
