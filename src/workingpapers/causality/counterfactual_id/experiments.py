"""The arms of the claims: soundness, gain, bounds, widths, and coverage."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np

from workingpapers.causality.counterfactual_id.bounds import (
    bound,
    frechet_bounds,
    mediator_pns_bounds,
    pns_bounds,
)
from workingpapers.causality.counterfactual_id.evaluation import estimate, evaluate
from workingpapers.causality.counterfactual_id.graph import ADMG
from workingpapers.causality.counterfactual_id.identification import Identified, identify
from workingpapers.causality.counterfactual_id.query import Query, Symbol
from workingpapers.causality.counterfactual_id.realizability import realizable
from workingpapers.causality.counterfactual_id.regime import ANY, OBSERVATIONAL, Regime, all_regimes
from workingpapers.causality.counterfactual_id.simulation import (
    complete,
    random_graph,
    random_model,
    random_query,
    random_units,
    sample,
)
from workingpapers.causality.counterfactual_id.tables import Table, read_samples
from workingpapers.causality.counterfactual_id.worlds import Units
from workingpapers.foundations.progress import Progress

EXACT = 1e-9
MEDIATOR = complete("XMY", [("X", "M"), ("X", "Y"), ("M", "Y")])
ALL_CUT = Regime("all", cut=dict.fromkeys([("X", "M"), ("X", "Y"), ("M", "Y")], ANY))
VALUES = {"x": 1, "x'": 0, "y": 1, "y'": 0}


def soundness(seed: int, progress: Progress, *, queries: int, confounding: bool) -> dict[str, float]:
    """Answer random queries and compare each answer with exact enumeration of a random model.

    A query is a success when no statement about it is false: from all experiments it is identified exactly if it is
    realizable, its formula then has the true value to 1e-9, and so has the formula from two experiments drawn at
    random, if there is one.

    Args:
        seed: Seed of graphs, queries and models.
        progress: Called along the way.
        queries: Number of queries.
        confounding: Whether the method sees the diagram's bidirected edges.
    """
    rng = np.random.default_rng([seed, 0])
    good, identified, worst, done = 0, 0, 0.0, 0
    while done < queries:
        graph = random_graph(rng, int(rng.integers(3, 5)))
        query = random_query(rng, graph, nested=0.25, conditional=0.25)
        model = random_model(rng, graph)
        values = {symbol: symbol.name.count("'") for symbol in query.symbols}
        truth = model.probability(query, values)
        regimes = all_regimes(graph, True)
        two = [regimes[k] for k in rng.choice(len(regimes), size=min(2, len(regimes)), replace=False)]
        if np.isnan(truth):
            continue  # the condition has probability zero in this model
        assumed = graph if confounding else ADMG(graph.nodes, graph.directed)
        answers = [identify(query, assumed, some) for some in (regimes, two)]
        errors = [_error(answer, model, regimes, values, truth) for answer in answers if isinstance(answer, Identified)]
        dual = answers[0].identified == realizable(query, assumed).realizable
        identified += answers[0].identified
        good += dual and max(errors, default=0.0) < EXACT
        worst = max([worst, *errors])
        done += 1
        progress(done / queries, "random queries")
    return {"sound": good / queries, "queries": queries, "identified": identified / queries, "worst": worst}


def _error(
    answer: Identified, model: Units, regimes: tuple[Regime, ...], values: dict[Symbol, int], truth: float
) -> float:
    laws = {regime.name: model.table(regime) for regime in regimes if regime.name in answer.regimes_used}
    found = evaluate(answer.expression, laws, {symbol.name: value for symbol, value in values.items()})
    return abs(float(found) - truth)


def gain(seed: int, progress: Progress, *, queries: int, counterfactual: bool) -> dict[str, float]:
    """Return the share of random queries that are identified from all experiments of a kind.

    Args:
        seed: Seed of graphs and queries; both arms see the same.
        progress: Called along the way.
        queries: Number of queries.
        counterfactual: Cut edges one by one (Layer 3), not variables (Layers 1 and 2).
    """
    rng = np.random.default_rng([seed, 1])
    found, lost = 0, 0
    for k in range(queries):
        graph = random_graph(rng, int(rng.integers(3, 6)))
        query = random_query(rng, graph, nested=0.25)
        # The experiment that cuts every edge holds all others: its own factors are what any of them gives.
        every = [Regime("all", cut=dict.fromkeys(graph.directed, ANY))]
        sets = all_regimes(graph, False)
        identified = identify(query, graph, every if counterfactual else sets).identified
        found += identified
        lost += counterfactual and not identified and identify(query, graph, sets).identified
        progress((k + 1) / queries, "random queries")
    return {"identified": found / queries, "lost": float(lost)}


@dataclass(frozen=True)
class Case:
    """A random model with the true value of a query and the intervals that a rule gives for it."""

    truth: float
    intervals: tuple[tuple[float, float], ...]


def intervals_hold(seed: int, progress: Progress, *, instances: int, rule: str) -> dict[str, float]:
    """Return in how many random models the true value lies in every interval, and the finer data's is not wider.

    Models in turn: a treatment of two to four values, a mediator, and random diagrams with random experiments.

    Args:
        seed: Seed of the models.
        progress: Called along the way.
        instances: Number of models.
        rule: ``bounds``, or ``independent``: worlds taken as independent, P(a) P(b), a control that must fail.
    """
    rng = np.random.default_rng([seed, 2])
    good = 0
    for k in range(instances):
        case = (_treatment_case, _mediator_case, _random_case)[k % 3](rng, rule)
        good += all(low - 1e-6 <= case.truth <= high + 1e-6 for low, high in case.intervals)
        progress((k + 1) / instances, "random models")
    return {"hold": good / instances, "instances": instances}


def _treatment_case(rng: np.random.Generator, rule: str) -> Case:
    size = int(rng.integers(2, 5))
    graph = complete("XY", [("X", "Y")])
    units = random_units(rng, graph, {"X": size, "Y": 2}, float(rng.choice([0.1, 0.3, 1.0])))
    query = Query.parse("P(Y[x] = y, Y[x'] = y')", graph.nodes)
    law = units.table(Regime("cut", cut={("X", "Y"): ANY})).array  # P(X, Y_s), shape (s, X, Y)
    if rule == "independent":
        point = float(law[1, :, 1].sum() * law[0, :, 0].sum())
        return Case(_truth(units, query), ((point, point),))
    strata = pns_bounds(law[1, :, 1], law[0, :, 1], law[0].sum(axis=1))
    regimes = [OBSERVATIONAL, Regime("trial", do={"X": ANY})]
    programme = bound(query, graph, regimes, {r.name: units.table(r) for r in regimes}, VALUES, method="lp")
    nested = (programme.lower, programme.upper)
    _check_nested(strata, nested)
    return Case(_truth(units, query), (strata, nested))


def _mediator_case(rng: np.random.Generator, rule: str) -> Case:
    units = random_units(rng, MEDIATOR, dict.fromkeys("XMY", 2), float(rng.choice([0.05, 0.3, 1.0])))
    query = Query.parse("P(Y[x] = y, Y[x'] = y')", "XMY")
    table = units.table(ALL_CUT)
    closed = mediator_closed_form(table)
    if rule == "independent":
        law = table.array
        a = sum(float(law[1, 1, m, :, m, 1].sum()) for m in range(2))
        b = sum(float(law[0, 0, m, :, m, 0].sum()) for m in range(2))
        return Case(_truth(units, query), ((a * b, a * b),))
    programme = bound(query, MEDIATOR, [ALL_CUT], {"all": table}, VALUES, method="lp")
    _check_nested((programme.lower, programme.upper), closed)
    return Case(_truth(units, query), (closed, (programme.lower, programme.upper)))


def _random_case(rng: np.random.Generator, rule: str) -> Case:
    while True:
        graph = random_graph(rng, 3)
        query = random_query(rng, graph, nested=0.25, conditional=0.25)
        values = {symbol: symbol.name.count("'") for symbol in query.symbols}
        model = random_model(rng, graph)
        truth = model.probability(query, values)
        regimes = all_regimes(graph, bool(rng.integers(0, 2)))
        some = [regimes[k] for k in rng.choice(len(regimes), size=min(2, len(regimes)), replace=False)]
        records = set().union(*(regime.records(graph) for regime in some))
        if np.isnan(truth) or records != set(graph.nodes):
            continue
        laws = {regime.name: model.table(regime) for regime in some}
        numbers = {symbol.name: value for symbol, value in values.items()}
        if rule == "independent":
            parts = [model.probability(Query((event,)), values) for event in query.outcomes]
            return Case(truth, ((float(np.prod(parts)),) * 2,))
        found = [bound(query, graph, some, laws, numbers, method=method) for method in ("lp", "frechet")]  # type: ignore[arg-type]
        return Case(truth, tuple((item.lower, item.upper) for item in found))


def _truth(units: Units, query: Query) -> float:
    return units.probability(query, {symbol: VALUES[symbol.name] for symbol in query.symbols})


def _check_nested(inner: tuple[float, float], outer: tuple[float, float]) -> None:
    """Empty the outer interval where the inner one is wider, so that the case counts as a failure."""
    if inner[0] < outer[0] - 1e-6 or inner[1] > outer[1] + 1e-6:
        raise AssertionError(f"finer data widened {outer} to {inner}")


def mediator_closed_form(table: Table) -> tuple[float, float]:
    """Return the closed-form PNS bounds (x = 1, x' = 0) from the experiment that cuts all edges of the mediator model.

    Args:
        table: Its law, axes M->Y, X->M, X->Y (the values fed), then X, M, Y.
    """
    law = table.array.transpose(*(table.settings.index(name) for name in ("X->M", "X->Y", "M->Y")), 3, 4, 5)
    m = np.arange(law.shape[2])
    own = [np.moveaxis(law[x, x][m, :, m], 2, 1) for x in (1, 0)]  # P(M_x = m, Y_xm = y, X), shape (m, y, X)
    cross = [law[x, 1 - x].transpose(2, 0, 3, 1) for x in (1, 0)]  # P(M_x = m, Y_x'm' = y, X), shape (m, m', y, X)
    return mediator_pns_bounds(own[0], own[1], cross[0], cross[1])


def direct_closed_form(table: Table) -> tuple[float, float]:
    """Return the closed-form bounds of the direct-effect PNS, in strata of natural X and of M at x'.

    Args:
        table: As :func:`mediator_closed_form`.
    """
    law = table.array.transpose(*(table.settings.index(name) for name in ("X->M", "X->Y", "M->Y")), 3, 4, 5)
    m = np.arange(law.shape[2])
    treated, control = law[0, 1][m, :, m], law[0, 0][m, :, m]  # P(M_x' = m, X, Y_xm) and the same at x', (m, X, y)
    return frechet_bounds(treated[..., 1], control[..., 0], control.sum(axis=-1))


def widths(seed: int, progress: Progress, *, models: int, arm: str) -> dict[str, float]:
    """Return mean widths of PNS intervals over random models.

    Args:
        seed: Seed of the models; all arms see the same.
        progress: Called along the way.
        models: Models of each kind.
        arm: ``l2`` (programme on observation and all interventions), ``lp`` (programme on edge-wise experiments) or
            ``closed`` (strata in closed form).
    """
    rng = np.random.default_rng([seed, 3])
    total: dict[str, list[float]] = {}
    for k in range(models):
        units = random_units(rng, MEDIATOR, dict.fromkeys("XMY", 2), 0.05)
        table = units.table(ALL_CUT)
        whole = Query.parse("P(Y[x] = y, Y[x'] = y')", "XMY")
        direct = Query.parse("P(Y[x, M[x']] = y, Y[x'] = y')", "XMY")
        for name, query, closed in (("mediator", whole, mediator_closed_form), ("direct", direct, direct_closed_form)):
            low, high = closed(table) if arm == "closed" else _programme(query, MEDIATOR, units, arm)
            total.setdefault(name, []).append(high - low)
        for size in (2, 3, 4):
            graph = complete("XY", [("X", "Y")])
            units = random_units(rng, graph, {"X": size, "Y": 2}, 0.3)
            if arm == "closed":
                law = units.table(Regime("cut", cut={("X", "Y"): ANY})).array
                low, high = pns_bounds(law[1, :, 1], law[0, :, 1], law[0].sum(axis=1))
            else:
                low, high = _programme(Query.parse("P(Y[x] = y, Y[x'] = y')", "XY"), graph, units, arm)
            total.setdefault(f"treatment_of_{size}", []).append(high - low)
        progress((k + 1) / models, "random models")
    return {name: float(np.mean(some)) for name, some in total.items()}


def _programme(query: Query, graph: ADMG, units: Units, arm: str) -> tuple[float, float]:
    regimes: list[Regime] = [Regime("all", cut=dict.fromkeys(graph.directed, ANY))]
    if arm == "l2":
        roots = [name for name in graph.nodes if name != "Y"]
        subsets = itertools.chain.from_iterable(itertools.combinations(roots, k) for k in range(len(roots) + 1))
        regimes = [Regime("obs" + "".join(some), do=dict.fromkeys(some, ANY)) for some in subsets]
    found = bound(query, graph, regimes, {r.name: units.table(r) for r in regimes}, VALUES, method="lp")
    return found.lower, found.upper


def coverage(seed: int, progress: Progress, *, samples: int, units: int, n_boot: int, rule: str) -> dict[str, float]:
    """Return how often a bootstrap interval holds the true effect on the treated or the natural direct term.

    Args:
        seed: Seed of models and samples.
        progress: Called along the way.
        samples: Number of samples, each of a new random model.
        units: Units of the sample.
        n_boot: Bootstrap samples.
        rule: ``identified``, or ``average``: the effect among all taken for that among the treated.
    """
    rng = np.random.default_rng([seed, 4])
    covered, errors = 0, []
    for k in range(samples):
        model = random_units(rng, MEDIATOR, dict.fromkeys("XMY", 2), 0.3)
        text = "P(Y[x] = y | X = x')" if k % 2 == 0 else "P(Y[x, M[x']] = y | X = x)"
        query = Query.parse(text, "XMY")
        regime = Regime("split", cut={("X", "Y"): ANY, ("X", "M"): ANY})
        drawn = read_samples({"split": sample(rng, model, regime, units)}, MEDIATOR, [regime])
        asked = query if rule == "identified" else Query(query.outcomes)
        answer = identify(asked, MEDIATOR, [regime])
        assert isinstance(answer, Identified)
        found = estimate(answer.expression, drawn, VALUES, n_boot=n_boot, rng=rng)
        truth = _truth(model, query)
        covered += found.low <= truth <= found.high
        errors.append(abs(found.value - truth))
        progress((k + 1) / samples, "samples")
    return {"covered": covered / samples, "samples": samples, "error": float(np.mean(errors))}
