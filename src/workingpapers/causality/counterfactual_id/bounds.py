r"""Bounds for what no regime identifies: closed forms by strata, and an automatic search for the strata."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from workingpapers.causality.counterfactual_id.evaluation import PositivityError, Source, evaluate
from workingpapers.causality.counterfactual_id.graph import ADMG
from workingpapers.causality.counterfactual_id.identification import Identified, checked, identify
from workingpapers.causality.counterfactual_id.linear_program import TooManyCells, lp_bounds
from workingpapers.causality.counterfactual_id.query import Event, Query, Response, Symbol
from workingpapers.causality.counterfactual_id.regime import Regime
from workingpapers.causality.counterfactual_id.tables import Sample
from workingpapers.foundations.errors import InputError

MOST_EVENTS = 5


@dataclass(frozen=True)
class Bounds:
    """An interval that holds the query in every model that agrees with the data.

    Args:
        lower: Lower end.
        upper: Upper end.
        method: ``lp``, ``frechet`` or ``identified``.
        sharp: Whether every value inside is reached by such a model, as far as this is known.
        note: What the interval rests on.
    """

    lower: float
    upper: float
    method: str
    sharp: bool
    note: str = ""


def frechet_bounds(joint_a: np.ndarray, joint_b: np.ndarray, stratum: np.ndarray) -> tuple[float, float]:
    r"""Bound P(a, b) from P(a, s), P(b, s) and P(s).

    .. math:: \sum_s \max(0, P(a, s) + P(b, s) - P(s)) \le P(a, b) \le \sum_s \min(P(a, s), P(b, s))

    Finer strata never widen the interval.

    Args:
        joint_a: P(a, s), any shape.
        joint_b: P(b, s), same shape.
        stratum: P(s), same shape.
    """
    a, b, s = (np.asarray(some, dtype=np.float64) for some in (joint_a, joint_b, stratum))
    return float(np.maximum(0.0, a + b - s).sum()), float(np.minimum(a, b).sum())


def pns_bounds(treated: np.ndarray, control: np.ndarray, natural: np.ndarray) -> tuple[float, float]:
    r"""Bound the probability of necessity and sufficiency :math:`P(Y_x = 1, Y_{x'} = 0)` in strata of natural X.

    Sharp; for two values of X the bounds of Tian and Pearl, for more they are tighter.

    Args:
        treated: :math:`P(Y_x = 1, X = x'')`, shape (k,).
        control: :math:`P(Y_{x'} = 1, X = x'')`, shape (k,).
        natural: :math:`P(X = x'')`, shape (k,).
    """
    return frechet_bounds(treated, np.asarray(natural) - np.asarray(control), natural)


def tian_pearl_bounds(treated: float, control: float, joint: np.ndarray) -> tuple[float, float]:
    r"""Bound the PNS from an experiment and observation, X binary.

    .. math::
        \max\{0, P(y_x) - P(y_{x'}), P(y) - P(y_{x'}), P(y_x) - P(y)\} \le PNS \le
        \min\{P(y_x), P(y'_{x'}), P(x, y) + P(x', y'), P(y_x) - P(y_{x'}) + P(x, y') + P(x', y)\}

    Args:
        treated: :math:`P(Y_x = 1)`.
        control: :math:`P(Y_{x'} = 1)`.
        joint: P(X, Y) with X = x' in row 0 and x in row 1, shape (2, 2).
    """
    y = float(joint[:, 1].sum())
    lower = max(0.0, treated - control, y - control, treated - y)
    upper = min(
        treated, 1 - control, float(joint[1, 1] + joint[0, 0]), treated - control + float(joint[1, 0] + joint[0, 1])
    )
    return lower, upper


def mediator_pns_bounds(
    law_x: np.ndarray, law_other: np.ndarray, cross_x: np.ndarray, cross_other: np.ndarray
) -> tuple[float, float]:
    r"""Bound the PNS through a mediator M, arbitrary confounding, from edge-wise experiments.

    For each natural value x'' the joint event of :math:`M_x = m, M_{x'} = m', Y_{x,m}, Y_{x',m'}` is below four of its
    margins that experiments give; summed over m and m' this bounds P(Y_x, Y_x', x'') from above, and, for the
    complementary outcomes, from below.

    Args:
        law_x: :math:`P(M_x = m, Y_{x,m} = y, x'')`, shape (m, 2, k).
        law_other: :math:`P(M_{x'} = m', Y_{x',m'} = y, x'')`, shape (m, 2, k).
        cross_x: :math:`P(M_x = m, Y_{x',m'} = y, x'')`, shape (m, m', 2, k).
        cross_other: :math:`P(M_{x'} = m', Y_{x,m} = y, x'')`, shape (m', m, 2, k).
    """
    a, b = law_x.sum(axis=0), law_other.sum(axis=0)  # P(Y_x = y, x'') and P(Y_x' = y, x''), shape (2, k)
    stratum = a.sum(axis=0)

    def above(y: int, other: int) -> np.ndarray:
        joint = np.minimum.reduce(
            [
                np.broadcast_to(law_x[:, None, y], cross_x[:, :, 0].shape),
                np.broadcast_to(law_other[None, :, other], cross_x[:, :, 0].shape),
                cross_x[:, :, other],
                cross_other[:, :, y].transpose(1, 0, 2),
            ]
        )
        return np.asarray(np.minimum.reduce([joint.sum(axis=(0, 1)), a[y], b[other]]))

    lower = np.maximum.reduce([0 * stratum, a[1] + b[0] - stratum, a[1] - above(1, 1), b[0] - above(0, 0)])
    return float(lower.sum()), float(above(1, 0).sum())


def bound(
    query: Query | str,
    graph: ADMG,
    regimes: Sequence[Regime],
    sources: Mapping[str, Source],
    values: Mapping[str, object] | None = None,
    *,
    method: Literal["auto", "frechet", "lp"] = "auto",
) -> Bounds:
    """Bound a query by what the regimes' data say.

    ``lp`` optimises over all models with these tables (sharp where all variables may be confounded and the tables are
    exact; for samples it uses simultaneous 95 % boxes). ``frechet`` splits the query into two identified parts and
    uses the finest strata that it finds. ``auto`` takes the programme where it is small enough.

    Args:
        query: The query, or its text.
        graph: The diagram.
        regimes: What data there is.
        sources: Regime -> table or sample; regimes without one are not used.
        values: Symbol name -> value.
        method: How.

    Raises:
        InputError: The tables contradict each other or the graph, or the programme is too large for ``lp``.
    """
    query = checked(query, graph).assign(values or {})
    regimes = [regime.assign(values or {}) for regime in regimes if regime.name in sources]
    if method != "frechet":
        try:
            lower, upper, sharp, note = lp_bounds(query, graph, regimes, sources)
            return Bounds(lower, upper, "lp", sharp, note)
        except TooManyCells:
            if method == "lp":
                raise
    return _searched(query, graph, regimes, sources)


def _searched(query: Query, graph: ADMG, regimes: Sequence[Regime], sources: Mapping[str, Source]) -> Bounds:
    """Intersect the bounds of all splits of the events into two identified parts that may overlap."""
    events = query.events
    if len(events) > MOST_EVENTS:
        raise InputError(f"The query has {len(events)} events; the search takes at most {MOST_EVENTS}.")
    given = 1.0
    if query.conditions:
        denominator = identify(Query(query.conditions), graph, regimes)
        if not isinstance(denominator, Identified):
            return Bounds(0.0, 1.0, "frechet", False, "the probability of the condition is not identified")
        given = float(evaluate(denominator.expression, sources))
        if given == 0:
            raise PositivityError("The condition of the query has probability zero in these data.")
    lower, upper, best = 0.0, given, "nothing but its range"
    for kept in itertools.product((False, True), repeat=len(events)):
        part = _formula(tuple(itertools.compress(events, kept)), (), graph, regimes) if any(kept) else None
        if part is not None and (mass := float(evaluate(part.expression, sources))) < upper:
            upper, best = mass, "strata of nothing"
    for places in itertools.product((1, 2, 3), repeat=len(events)):
        a = tuple(event for event, place in zip(events, places, strict=True) if place & 1)
        b = tuple(event for event, place in zip(events, places, strict=True) if place & 2)
        if not (_formula(a, (), graph, regimes) and _formula(b, (), graph, regimes)):
            continue
        strata = _strata(a, b, query, graph, regimes)
        free = tuple(event.symbol for event in strata)
        common = tuple(event for event in a if event in b)
        parts = [_formula(some, strata, graph, regimes) for some in (a, b, common)]
        if any(part is None for part in parts):
            strata, free = (), ()
            parts = [_formula(some, (), graph, regimes) for some in (a, b, common)]
        if any(part is None for part in parts):
            continue  # a part is impossible, which the upper end knows already
        low, high = frechet_bounds(
            *(np.asarray(evaluate(part.expression, sources, free=free)) for part in parts if part)
        )
        if high - low < upper - lower - 1e-12 or (low, high) == (lower, upper):
            best = "strata of " + (", ".join(str(event.response) for event in strata) or "nothing")
        lower, upper = max(lower, low), min(upper, high)
    exact = all(not isinstance(source, Sample) for source in sources.values())
    note = f"Fréchet bounds in {best}" + ("" if exact else "; plug-in, without sampling error")
    return Bounds(min(1.0, lower / given), min(1.0, upper / given), "frechet", False, note)


def _strata(
    a: tuple[Event, ...], b: tuple[Event, ...], query: Query, graph: ADMG, regimes: Sequence[Regime]
) -> tuple[Event, ...]:
    """Return responses that may be added to both parts, one after another as long as all stay identified."""
    held = {event.response for event in (*a, *b)}
    nested: dict[Response, None] = {}

    def collect(response: Response) -> None:
        for _, value in response.subscript:
            if isinstance(value, Response):
                nested[value] = None
                collect(value)

    for event in query.events:
        collect(event.response)
    chosen: tuple[Event, ...] = ()
    common = tuple(event for event in a if event in b)
    for response in (*(Response(name) for name in graph.order), *nested):
        if response in held or any(event.response == response for event in chosen):
            continue
        more = (*chosen, Event(response, Symbol(response.variable, f"{response} ", "open")))
        if all(_formula(part, more, graph, regimes) for part in (a, b, common)):
            chosen = more
    return chosen


def _formula(
    events: tuple[Event, ...], strata: tuple[Event, ...], graph: ADMG, regimes: Sequence[Regime]
) -> Identified | None:
    """Return the formula of P(events, strata) if it is identified with every stratum free in it."""
    found = identify(Query((*dict.fromkeys(events), *strata)), graph, regimes)
    if isinstance(found, Identified) and {event.symbol for event in strata} <= found.expression.free:
        return found
    return None
