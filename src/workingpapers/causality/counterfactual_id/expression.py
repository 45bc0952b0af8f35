"""Formulas: sums, products and fractions of probabilities of regimes, as text and as LaTeX."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from workingpapers.causality.counterfactual_id.query import Symbol

Terms = tuple[tuple[str, Symbol], ...]


@dataclass(frozen=True)
class Expression:
    """A formula; the kinds below are its nodes."""

    @cached_property
    def free(self) -> frozenset[Symbol]:
        """Symbols that the value depends on."""
        raise NotImplementedError

    @property
    def children(self) -> tuple[Expression, ...]:
        """Formulas inside this one."""
        return ()

    def substitute(self, mapping: Mapping[Symbol, Symbol]) -> Expression:
        """Return the formula with free symbols replaced.

        Args:
            mapping: Old symbol -> new symbol.
        """
        raise NotImplementedError

    def probabilities(self) -> Iterator[Probability]:
        """Yield every probability in the formula."""
        for child in self.children:
            yield from child.probabilities()

    @property
    def regimes(self) -> tuple[str, ...]:
        """Names of the regimes that the formula needs data of."""
        return tuple(dict.fromkeys(node.regime for node in self.probabilities()))

    @cached_property
    def all_symbols(self) -> tuple[Symbol, ...]:
        """Every symbol, free or bound, outermost first."""
        found = dict.fromkeys(sorted(self.free))
        for child in self.children:
            found |= dict.fromkeys(child.all_symbols)
        return tuple(found)

    def to_text(self, names: Mapping[Symbol, str] | None = None) -> str:
        """Return the formula as one line.

        Args:
            names: Letters for summed symbols, where they shall agree with another text.
        """
        return _Writer(letters(self.all_symbols, names), latex=False).write(self)

    def to_latex(self) -> str:
        """Return the formula for LaTeX's math mode."""
        return _Writer(letters(self.all_symbols), latex=True).write(self)

    def __str__(self) -> str:
        return self.to_text()


@dataclass(frozen=True)
class Constant(Expression):
    """A number."""

    value: float

    @cached_property
    def free(self) -> frozenset[Symbol]:
        """No symbols."""
        return frozenset()

    def substitute(self, mapping: Mapping[Symbol, Symbol]) -> Expression:
        """Return the number."""
        return self


@dataclass(frozen=True)
class Probability(Expression):
    r"""A conditional probability :math:`P_r(o \mid g; s)` of regime r at settings s.

    Args:
        regime: Name of the regime.
        outcomes: Pairs (variable, symbol).
        given: Pairs (variable, symbol).
        settings: Pairs (column of a randomised value, symbol).
    """

    regime: str
    outcomes: Terms
    given: Terms = ()
    settings: Terms = ()

    @cached_property
    def free(self) -> frozenset[Symbol]:
        """All symbols."""
        return frozenset(symbol for _, symbol in (*self.outcomes, *self.given, *self.settings))

    def substitute(self, mapping: Mapping[Symbol, Symbol]) -> Expression:
        """Return the probability at other symbols."""

        def change(terms: Terms) -> Terms:
            return tuple((name, mapping.get(symbol, symbol)) for name, symbol in terms)

        return Probability(self.regime, change(self.outcomes), change(self.given), change(self.settings))

    def probabilities(self) -> Iterator[Probability]:
        """Yield itself."""
        yield self


@dataclass(frozen=True)
class Sum(Expression):
    """The sum of `body` over the whole domain of `symbols`, which are bound in it."""

    symbols: tuple[Symbol, ...]
    body: Expression

    @cached_property
    def free(self) -> frozenset[Symbol]:
        """Symbols of the body that are not summed over."""
        return self.body.free - set(self.symbols)

    @property
    def children(self) -> tuple[Expression, ...]:
        """The body."""
        return (self.body,)

    def substitute(self, mapping: Mapping[Symbol, Symbol]) -> Expression:
        """Return the sum with free symbols replaced; those that it binds stay."""
        inner = {old: new for old, new in mapping.items() if old not in self.symbols}
        return Sum(self.symbols, self.body.substitute(inner))


@dataclass(frozen=True)
class Product(Expression):
    """The product of `factors`."""

    factors: tuple[Expression, ...]

    @cached_property
    def free(self) -> frozenset[Symbol]:
        """Symbols of all factors."""
        return frozenset().union(*(factor.free for factor in self.factors))

    @property
    def children(self) -> tuple[Expression, ...]:
        """The factors."""
        return self.factors

    def substitute(self, mapping: Mapping[Symbol, Symbol]) -> Expression:
        """Return the product at other symbols."""
        return Product(tuple(factor.substitute(mapping) for factor in self.factors))


@dataclass(frozen=True)
class Fraction(Expression):
    """`numerator` over `denominator`."""

    numerator: Expression
    denominator: Expression

    @cached_property
    def free(self) -> frozenset[Symbol]:
        """Symbols of both."""
        return self.numerator.free | self.denominator.free

    @property
    def children(self) -> tuple[Expression, ...]:
        """Numerator and denominator."""
        return (self.numerator, self.denominator)

    def substitute(self, mapping: Mapping[Symbol, Symbol]) -> Expression:
        """Return the fraction at other symbols."""
        return Fraction(self.numerator.substitute(mapping), self.denominator.substitute(mapping))


ONE = Constant(1.0)
ZERO = Constant(0.0)


def product(factors: Iterable[Expression]) -> Expression:
    """Return the product, chains P(a | s) P(b | a, s) joined to P(a, b | s).

    Args:
        factors: Formulas.
    """
    flat: list[Expression] = []
    for factor in factors:
        flat.extend(factor.factors if isinstance(factor, Product) else [factor])
    flat = [factor for factor in flat if factor != ONE]
    if any(factor == ZERO for factor in flat):
        return ZERO
    k = 0
    while k < len(flat):
        first = flat[k]
        for second in flat if isinstance(first, Probability) else ():
            joined = _chain(first, second)  # type: ignore[arg-type]
            if joined is not None:
                flat = [factor for factor in flat if factor is not first and factor is not second] + [joined]
                k = -1
                break
        k += 1
    return flat[0] if len(flat) == 1 else Product(tuple(flat)) if flat else ONE


def total(symbols: Iterable[Symbol], body: Expression) -> Expression:
    """Return the sum over `symbols`, carried out where a probability sums to one or to a marginal.

    Args:
        symbols: To sum over; those that `body` does not hold must have been left out.
        body: A formula.
    """
    left = [symbol for symbol in dict.fromkeys(symbols) if symbol in body.free]
    while isinstance(body, Sum):
        left, body = [*left, *body.symbols], body.body
    factors = list(body.factors) if isinstance(body, Product) else [body]
    changed = True
    while changed:
        changed = False
        for symbol in left:
            holders = [k for k, factor in enumerate(factors) if symbol in factor.free]
            node = factors[holders[0]] if len(holders) == 1 else None
            if not isinstance(node, Probability):
                continue
            where = [symbol in {s for _, s in part} for part in (node.given, node.settings)]
            mine = [pair for pair in node.outcomes if pair[1] == symbol]
            if any(where) or len(mine) != 1:
                continue
            outcomes = tuple(pair for pair in node.outcomes if pair[1] != symbol)
            rest = [factor for k, factor in enumerate(factors) if k != holders[0]]
            factors = [*rest, replace(node, outcomes=outcomes)] if outcomes else rest
            left = [other for other in left if other != symbol]
            changed = True
            break
    outside = [factor for factor in factors if not factor.free & set(left)]
    inside = product(factor for factor in factors if factor.free & set(left))
    return product([*outside, Sum(tuple(left), inside)]) if left else product(outside)


def fraction(numerator: Expression, denominator: Expression) -> Expression:
    """Return the ratio, as a conditional probability where it is one.

    Args:
        numerator: A formula.
        denominator: A formula.
    """
    if denominator == ONE or numerator == ZERO:
        return numerator
    if numerator == denominator:
        return ONE
    # A setting that a probability does not mention has no effect on it, so the longer list serves both.
    if (
        isinstance(numerator, Probability)
        and isinstance(denominator, Probability)
        and numerator.regime == denominator.regime
        and set(denominator.settings) <= set(numerator.settings)
        and set(numerator.given) == set(denominator.given)
        and set(denominator.outcomes) < set(numerator.outcomes)
    ):
        rest = tuple(pair for pair in numerator.outcomes if pair not in denominator.outcomes)
        return replace(numerator, outcomes=rest, given=(*numerator.given, *denominator.outcomes))
    return Fraction(numerator, denominator)


def _chain(first: Probability, second: Expression) -> Probability | None:
    if (
        isinstance(second, Probability)
        and len(second.given) == len(first.given) + len(first.outcomes)
        and first.regime == second.regime
        and set(first.settings) <= set(second.settings)
        and set(second.given) == {*first.given, *first.outcomes}
    ):
        return replace(second, outcomes=(*first.outcomes, *second.outcomes), given=first.given)
    return None


def letters(symbols: Iterable[Symbol], known: Mapping[Symbol, str] | None = None) -> dict[Symbol, str]:
    """Return what to write for each symbol: summed ones get the lower-case name with as many primes as it takes.

    Args:
        symbols: Symbols of a formula.
        known: Letters that are settled already.
    """
    symbols, names = tuple(symbols), dict(known or {})
    taken = {symbol.name for symbol in symbols if symbol.kind == "value"} | set(names.values())
    for symbol in symbols:
        if symbol.kind == "value":
            names[symbol] = symbol.name
        elif symbol not in names:
            name = symbol.variable.lower()
            while name in taken or name == symbol.variable:
                name += "'"
            taken.add(name)
            names[symbol] = name
    return names


class _Writer:
    """Writes a formula with given letters."""

    def __init__(self, names: Mapping[Symbol, str], latex: bool) -> None:
        self.names, self.latex = names, latex

    def write(self, node: Expression) -> str:
        if isinstance(node, Constant):
            return f"{node.value:g}"
        if isinstance(node, Probability):
            return self.probability(node)
        if isinstance(node, Product):
            pieces = [f"({self.write(f)})" if isinstance(f, Sum) else self.write(f) for f in node.factors]
            return r" \, ".join(pieces) if self.latex else " ".join(pieces)
        if isinstance(node, Fraction):
            top, bottom = self.write(node.numerator), self.write(node.denominator)
            return rf"\frac{{{top}}}{{{bottom}}}" if self.latex else f"[{top}] / [{bottom}]"
        assert isinstance(node, Sum)
        letters = ", ".join(self.mark(symbol) for symbol in node.symbols)
        return (
            rf"\sum_{{{letters}}} {self.write(node.body)}"
            if self.latex
            else f"sum_{{{letters}}} {self.write(node.body)}"
        )

    def mark(self, symbol: Symbol) -> str:
        name = self.names[symbol]
        if not self.latex:
            return name
        stem = name.rstrip("'")
        return _math(stem) + "'" * (len(name) - len(stem))

    def probability(self, node: Probability) -> str:
        write: Callable[[Terms], str] = lambda terms: ", ".join(  # noqa: E731
            f"{_math(name) if self.latex else name} = {self.mark(symbol)}" for name, symbol in terms
        )
        bar, regime = (
            (r" \mid ", rf"P_{{\mathrm{{{_plain(node.regime)}}}}}") if self.latex else (" | ", f"P_{node.regime}")
        )
        given = bar + write(node.given) if node.given else ""
        settings = ""
        if node.settings:
            arrow = r" \leftarrow " if self.latex else " := "
            settings = "; " + ", ".join(
                f"{_math(name) if self.latex else name}{arrow}{self.mark(symbol)}" for name, symbol in node.settings
            )
        return f"{regime}({write(node.outcomes)}{given}{settings})"


def _math(name: str) -> str:
    escaped = _plain(name).replace("->", r" \to ")
    return escaped if len(name) == 1 or "->" in name else rf"\mathrm{{{escaped}}}"


def _plain(name: str) -> str:
    return name.replace("_", r"\_").replace("*", "^{*}").replace("%", r"\%").replace("#", r"\#").replace("&", r"\&")
