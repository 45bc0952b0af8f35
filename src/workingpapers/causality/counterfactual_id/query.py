"""Counterfactual queries: events on potential responses, nested subscripts allowed, and how they are written."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from workingpapers.foundations.errors import InputError, near_match

DEEPEST = 10
TOKEN = re.compile(r"\s*([A-Za-z_][\w.]*(?:'+|\*+)?|[-+]?\d+(?:\.\d+)?|\"[^\"]*\"|[][(){},=|@~+-])")


class Symbol(NamedTuple):
    """A value symbol of a variable.

    Args:
        variable: Whose value it is.
        name: ``x``, ``x'``, or a value itself (``1``, ``yes``); two names of a variable are two different values.
        kind: ``value`` as the user wrote it; ``open`` for one that may take every value, also that of another symbol;
            ``sum`` for one that a sum runs over; ``any`` for one that has no effect.
    """

    variable: str
    name: str
    kind: str = "value"


@dataclass(frozen=True)
class Response:
    """A potential response :math:`Y_{x, M_{x'}}`.

    Args:
        variable: Its variable.
        subscript: Pairs (variable, symbol or response of that variable), sorted by variable.
    """

    variable: str
    subscript: tuple[tuple[str, Symbol | Response], ...] = ()

    def __str__(self) -> str:
        if not self.subscript:
            return self.variable
        inner = ", ".join(
            f"{name}={value.name}" if isinstance(value, Symbol) else str(value) for name, value in self.subscript
        )
        return f"{self.variable}[{inner}]"


class Event(NamedTuple):
    """The event that `response` takes the value `symbol`."""

    response: Response
    symbol: Symbol

    def __str__(self) -> str:
        return f"{self.response} = {self.symbol.name}"


@dataclass(frozen=True)
class Query:
    """The probability of `outcomes`, all of them, given `conditions`.

    Args:
        outcomes: Events.
        conditions: Events.
    """

    outcomes: tuple[Event, ...]
    conditions: tuple[Event, ...] = ()

    @staticmethod
    def parse(text: str, variables: Collection[str] = ()) -> Query:
        """Read ``P(Y[x, M[x']] = y | X = x')``.

        A subscript holds values (``x'``, or ``X = 1`` in full), and responses (``M[x']``; a bare variable name is its
        natural value). The symbol ``x'`` belongs to the variable whose name it is in lower case, primes and digits
        aside. An event without ``= value`` takes the lower-case name. ``Y @ (-X, +Z)`` of y0 is read as ``Y[x, z*]``.

        Args:
            text: The query.
            variables: Names of the graph; guessed from the text where empty.

        Raises:
            InputError: It cannot be read, names an unknown variable or symbol, or nests deeper than ten.
        """
        return _Parser(text, tuple(variables)).query()

    @property
    def events(self) -> tuple[Event, ...]:
        """Outcomes and conditions."""
        return self.outcomes + self.conditions

    @property
    def symbols(self) -> tuple[Symbol, ...]:
        """The value symbols, in order of appearance."""
        found: dict[Symbol, None] = {}
        for event in self.events:
            _collect(event.response, found)
            found[event.symbol] = None
        return tuple(found)

    @property
    def variables(self) -> tuple[str, ...]:
        """Every variable that is mentioned."""
        return tuple(dict.fromkeys(symbol.variable for symbol in self.symbols)) + tuple(
            name for name in _nested(self.events) if name not in {symbol.variable for symbol in self.symbols}
        )

    def assign(self, values: Mapping[str, object]) -> Query:
        """Return the query with symbols replaced by values.

        Args:
            values: Symbol name -> value.

        Raises:
            InputError: Two symbols of one variable would become one value.
        """
        held: dict[tuple[str, str], Symbol] = {}
        for symbol in self.symbols:
            label = str(values.get(symbol.name, symbol.name))
            other = held.setdefault((symbol.variable, label), symbol)
            if other != symbol:
                raise InputError(
                    f"{other.name} and {symbol.name} are both {label}; two symbols of a variable are two values."
                )

        def replace(symbol: Symbol) -> Symbol:
            return symbol._replace(name=str(values[symbol.name])) if symbol.name in values else symbol

        def walk(response: Response) -> Response:
            return Response(
                response.variable,
                tuple((n, replace(v) if isinstance(v, Symbol) else walk(v)) for n, v in response.subscript),
            )

        def change(events: tuple[Event, ...]) -> tuple[Event, ...]:
            return tuple(Event(walk(event.response), replace(event.symbol)) for event in events)

        return Query(change(self.outcomes), change(self.conditions))

    def __str__(self) -> str:
        given = f" | {', '.join(map(str, self.conditions))}" if self.conditions else ""
        return f"P({', '.join(map(str, self.outcomes))}{given})"


def _collect(response: Response, found: dict[Symbol, None]) -> None:
    for _, value in response.subscript:
        if isinstance(value, Symbol):
            found[value] = None
        else:
            _collect(value, found)


def _nested(events: tuple[Event, ...]) -> list[str]:
    found: list[str] = []

    def walk(response: Response) -> None:
        found.append(response.variable)
        for _, value in response.subscript:
            if isinstance(value, Response):
                walk(value)

    for event in events:
        walk(event.response)
    return list(dict.fromkeys(found))


class _Parser:
    """Recursive descent over the tokens of one query."""

    def __init__(self, text: str, variables: tuple[str, ...]) -> None:
        self.text, self.position = text, 0
        self.tokens: list[str] = []
        place = 0
        while place < len(text.rstrip()):
            match = TOKEN.match(text, place)
            if match is None:
                raise InputError(f"The query {text!r} cannot be read at {text[place:].strip()[:12]!r}; write it like "
                                 "P(Y[x] = y | X = x').")  # fmt: skip
            self.tokens.append(match.group(1).strip('"'))
            place = match.end()
        self.known = bool(variables)
        heads = re.findall(r"([A-Za-z_][\w.]*)\s*[\[@=]", text) + re.findall(r"[-+~]\s*([A-Za-z_][\w.]*)", text)
        self.variables = variables or tuple(dict.fromkeys(heads))

    def query(self) -> Query:
        self.take("P")
        self.take("(")
        outcomes = self.events()
        conditions: tuple[Event, ...] = ()
        if self.peek() == "|":
            self.take("|")
            conditions = self.events()
        self.take(")")
        if self.position < len(self.tokens):
            raise InputError(f"The query {self.text!r} goes on after its end with {self.peek()!r}; give one P(...).")
        return Query(outcomes, conditions)

    def events(self) -> tuple[Event, ...]:
        found = [self.event()]
        while self.peek() == ",":
            self.take(",")
            found.append(self.event())
        return tuple(found)

    def event(self) -> Event:
        response = self.response(self.name(), 0)
        name = response.variable.lower()
        if self.peek() == "=":
            self.take("=")
            name = self.next("a value")
        return Event(response, Symbol(response.variable, name))

    def response(self, variable: str, depth: int) -> Response:
        if depth > DEEPEST:
            raise InputError(f"The query {self.text[:40]!r}... nests deeper than {DEEPEST}; simplify it.")
        items: dict[str, Symbol | Response] = {}

        def put(name: str, value: Symbol | Response) -> None:
            if name in items:
                raise InputError(f"{variable} has two values of {name!r} in its subscript; keep one.")
            items[name] = value

        if self.peek() == "[":
            self.listed("[", "]", lambda: put(*self.item(depth)))
        elif self.peek() == "@":
            self.take("@")
            if self.peek() in ("(", "{", "["):
                self.listed(self.peek(), {"(": ")", "{": "}", "[": "]"}[self.peek()], lambda: put(*self.signed()))
            else:
                put(*self.signed())
        return Response(variable, tuple(sorted(items.items(), key=lambda pair: pair[0])))

    def listed(self, start: str, end: str, read: Callable[[], None]) -> None:
        self.take(start)
        while self.peek() != end:
            read()
            if self.peek() == ",":
                self.take(",")
            elif self.peek() != end:
                raise InputError(f"The query {self.text!r} misses a {end!r} before {self.peek()!r}; close it.")
        self.take(end)

    def item(self, depth: int) -> tuple[str, Symbol | Response]:
        token = self.next("a subscript")
        if self.peek() == "=":
            self.take("=")
            return self.variable(token), Symbol(token, self.next("a value"))
        if token in self.variables or self.peek() in ("[", "@"):
            return self.variable(token), self.response(self.variable(token), depth + 1)
        owner = self.owner(token)
        return owner, Symbol(owner, token)

    def signed(self) -> tuple[str, Symbol]:
        sign = self.next("-X or +X") if self.peek() in ("-", "+", "~") else "-"
        name = self.name()
        return name, Symbol(name, name.lower() + ("" if sign == "-" else "*"))

    def owner(self, token: str) -> str:
        """Return the variable that the symbol `token` belongs to."""
        plain = token.rstrip("'*")
        for stem in (plain, plain.rstrip("0123456789").rstrip("_")):
            owners = [name for name in self.variables if name.lower() == stem.lower()]
            if len(owners) == 1:
                return owners[0]
        if not self.known and plain[:1].isalpha():
            return plain.upper() if len(plain) == 1 else plain.capitalize()
        raise InputError(
            f"The symbol {token!r} belongs to no variable of {', '.join(self.variables[:20])}; write it in full, like "
            f"{self.variables[0]}={token}."
        )

    def name(self) -> str:
        return self.variable(self.next("a variable"))

    def variable(self, token: str) -> str:
        if self.known and token not in self.variables:
            hint = near_match(token, self.variables) or f"; the variables are {', '.join(self.variables[:20])}."
            raise InputError(f"The query names {token!r}, which is not in the graph{hint}")
        if not re.match(r"[A-Za-z_]", token):
            raise InputError(f"The query {self.text!r} has {token!r} where a variable should stand.")
        return token

    def peek(self) -> str:
        return self.tokens[self.position] if self.position < len(self.tokens) else ""

    def next(self, what: str) -> str:
        token = self.peek()
        if not token or token in "[](){},=|@":
            raise InputError(
                f"The query {self.text!r} needs {what} " + (f"before {token!r}." if token else "at its end.")
            )
        self.position += 1
        return token

    def take(self, token: str) -> None:
        if self.peek() != token:
            found = repr(self.peek()) if self.peek() else "its end"
            raise InputError(
                f"The query {self.text!r} needs {token!r} where it has {found}; write it like P(Y[x] = y)."
            )
        self.position += 1
