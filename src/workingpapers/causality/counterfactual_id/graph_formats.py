"""Causal diagrams from networkx, DOT, dagitty and y0.

DOT and dagitty are read by one small reader of the part that they share: ``digraph``/``dag`` with nodes, attributes,
chains ``a -> b -> c``, groups ``{a b}``, ``<-``, and ``<->`` or ``[dir=both]`` for confounding. Subgraphs with names,
ports and HTML labels are refused.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from workingpapers.causality.counterfactual_id.graph import ADMG, Edge
from workingpapers.foundations.errors import InputError
from workingpapers.foundations.files import read_text

_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/|^\s*#[^\n]*", re.DOTALL | re.MULTILINE)
_TOKEN = re.compile(
    r'\s*(<->|->|<-|--|[{}\[\]=;,]|"(?:[^"\\]|\\.)*"|[^\s{}\[\]=;,<>"-]+(?:-(?![->])[^\s{}\[\]=;,<>"-]+)*)'
)
_ARROWS = ("->", "<-", "<->", "--")
_ASIDE = ("node", "edge", "graph")


def read_graph(path: Path) -> ADMG:
    """Read a diagram from a file: DOT, dagitty, or a y0 constructor.

    Args:
        path: The file.

    Raises:
        InputError: It is none of them, has a cycle, or holds what cannot be read.
    """
    return graph_from_text(read_text(path), repr(str(path)))


def graph_from_text(text: str, where: str = "The graph") -> ADMG:
    """Read a diagram from text: DOT ``digraph {...}``, dagitty ``dag {...}``, or ``NxMixedGraph.from_str_edges(...)``.

    Nodes that are ``latent``, or have ``observed=no``, are projected out.

    Args:
        text: The text.
        where: Start of the sentence of an error.

    Raises:
        InputError: It cannot be read.
    """
    plain = _COMMENT.sub("", text).strip()
    if plain.startswith("NxMixedGraph"):
        return _from_y0_text(plain, where)
    head = re.match(r"(?:strict\s+)?(digraph|graph|dag|mag|pdag)\b\s*(?:\"[^\"]*\"|[\w.]+)?\s*\{", plain)
    if head is None or head.group(1) in ("graph", "pdag"):
        start = plain.split("\n", 1)[0][:40]
        raise InputError(
            f"{where} starts with {start!r}; a diagram is DOT (digraph {{...}}), dagitty (dag {{...}}) or y0."
        )
    return _Reader(plain[head.end() :], where).graph()


def from_networkx(graph: Any, bidirected: Iterable[Edge] = ()) -> ADMG:
    """Take a diagram from a networkx ``DiGraph`` or ``MultiDiGraph``.

    Args:
        graph: Edges with the attribute ``bidirected=True`` or ``dir="both"`` are bidirected; nodes with ``latent=True``
            or ``observed="no"`` are projected out.
        bidirected: Further bidirected edges.

    Raises:
        InputError: The directed edges have a cycle, or the graph is not directed.
    """
    if not graph.is_directed():
        raise InputError("The networkx graph is undirected; give a DiGraph, and bidirected edges beside it.")
    directed: list[Edge] = []
    both = [(str(a), str(b)) for a, b in bidirected]
    for a, b, attributes in graph.edges(data=True):
        arc = attributes.get("bidirected") or attributes.get("dir") == "both"
        (both if arc else directed).append((str(a), str(b)))
    hidden = {str(n) for n, attributes in graph.nodes(data=True) if _latent(attributes)}
    return ADMG(map(str, graph.nodes), directed, both).project(hidden)


def from_y0(graph: Any) -> ADMG:
    """Take a diagram from a y0 ``NxMixedGraph``.

    Args:
        graph: Its ``directed`` and ``undirected`` parts are used.
    """
    return ADMG(
        [str(node) for node in graph.nodes()],
        [(str(a), str(b)) for a, b in graph.directed.edges()],
        [(str(a), str(b)) for a, b in graph.undirected.edges()],
    )


def _latent(attributes: Any) -> bool:
    hidden = str(attributes.get("latent", "no")).lower() not in ("no", "false", "0")
    return hidden or str(attributes.get("observed", "yes")).lower() in ("no", "false", "0")


class _Reader:
    """Reads the statements between the outer braces."""

    def __init__(self, text: str, where: str) -> None:
        self.where, self.tokens, self.position = where, [], 0
        place = 0
        while place < len(text.rstrip()):
            match = _TOKEN.match(text, place)
            if match is None:
                raise InputError(f"{where} cannot be read at {text[place:].strip()[:20]!r}; use plain nodes and edges.")
            self.tokens.append(match.group(1))
            place = match.end()
        self.nodes: dict[str, dict[str, str]] = {}
        self.directed: list[Edge] = []
        self.bidirected: list[Edge] = []

    def graph(self) -> ADMG:
        while self.peek() != "}":
            if not self.peek():
                raise InputError(f"{self.where} misses its closing brace; add }}.")
            self.statement()
        hidden = {name for name, attributes in self.nodes.items() if _latent(attributes)}
        if not set(self.nodes) - hidden:
            raise InputError(f"{self.where} holds no observed variable; name some.")
        return ADMG(self.nodes, self.directed, self.bidirected).project(hidden)

    def statement(self) -> None:
        if self.peek() in (";", ","):
            self.position += 1
            return
        if self.peek() in _ASIDE and self.peek(1) == "[":
            self.position += 1
            self.attributes()
            return
        if self.peek(1) == "=":  # an attribute of the whole graph
            self.position += 3
            return
        groups, arrows = [self.group()], []
        while self.peek() in _ARROWS:
            arrows.append(self.peek())
            self.position += 1
            groups.append(self.group())
        attributes = self.attributes() if self.peek() == "[" else {}
        for left, arrow, right in zip(groups, arrows, groups[1:], strict=False):
            self.connect(left, arrow, right, attributes)
        for name in (name for group in groups for name in group):
            self.nodes.setdefault(name, {})
        if not arrows:
            for name in groups[0]:
                self.nodes[name].update(attributes)

    def connect(self, left: list[str], arrow: str, right: list[str], attributes: dict[str, str]) -> None:
        if arrow == "--":
            raise InputError(f"{self.where} has the undirected edge {left[0]} -- {right[0]}; give it a direction.")
        for a in left:
            for b in right:
                if arrow == "<->" or attributes.get("dir") == "both":
                    self.bidirected.append((a, b))
                elif (arrow == "<-") != (attributes.get("dir") == "back"):
                    self.directed.append((b, a))
                else:
                    self.directed.append((a, b))

    def group(self) -> list[str]:
        if self.peek() != "{":
            return [self.name()]
        self.position += 1
        names = []
        while self.peek() != "}":
            if self.peek() in (";", ","):
                self.position += 1
                continue
            names.append(self.name())
        self.position += 1
        return names

    def name(self) -> str:
        token = self.peek()
        if not token or token in ("{", "}", "[", "]", "=", ";", ",", *_ARROWS) or token == "subgraph":
            raise InputError(
                f"{self.where} has {token or 'its end'!r} where a node should stand; use plain nodes and edges."
            )
        self.position += 1
        return _bare(token)

    def attributes(self) -> dict[str, str]:
        found: dict[str, str] = {}
        self.position += 1
        while self.peek() != "]":
            key = self.peek()
            if not key:
                raise InputError(f"{self.where} misses a closing bracket; add ].")
            self.position += 1
            if key in (";", ","):
                continue
            value = "yes"
            if self.peek() == "=":
                value = _bare(self.peek(1))
                self.position += 2
            found[_bare(key)] = value
        self.position += 1
        return found

    def peek(self, ahead: int = 0) -> str:
        place = self.position + ahead
        return self.tokens[place] if place < len(self.tokens) else ""


def _bare(token: str) -> str:
    return token[1:-1].replace('\\"', '"') if token.startswith('"') else token


def _from_y0_text(text: str, where: str) -> ADMG:
    """Read ``NxMixedGraph.from_str_edges(directed=[("X", "Y")], undirected=[...])`` or ``from_str_adj(...)``."""
    try:
        call = ast.parse(text, mode="eval").body
        assert isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute)  # noqa: PT018
        method = call.func.attr
        given = {item.arg: ast.literal_eval(item.value) for item in call.keywords if item.arg}
        assert method in ("from_str_edges", "from_str_adj") and not call.args  # noqa: PT018
        nodes = [str(name) for name in given.get("nodes") or ()]
        pairs: dict[str, list[Edge]] = {}
        for kind in ("directed", "undirected"):
            some = given.get(kind) or ()
            if method == "from_str_adj":
                nodes += [str(a) for a in some]
                some = [(a, b) for a, many in dict(some).items() for b in many]
            pairs[kind] = [(str(a), str(b)) for a, b in some]
    except (SyntaxError, ValueError, TypeError, AssertionError, AttributeError):
        raise InputError(
            f"{where} is no y0 graph that can be read; write NxMixedGraph.from_str_edges(directed=[...], "
            "undirected=[...])."
        ) from None
    nodes += [name for edge in (*pairs["directed"], *pairs["undirected"]) for name in edge]
    return ADMG(nodes, pairs["directed"], pairs["undirected"])
