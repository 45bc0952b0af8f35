"""Identification: known formulas, refusals with their reason, and regimes that hide variables or fix values."""

import itertools

import numpy as np
import pytest

from workingpapers.causality.counterfactual_id import (
    ADMG,
    ANY,
    OBSERVATIONAL,
    Identified,
    Query,
    Regime,
    Symbol,
    all_regimes,
    evaluate,
    identify,
    realizable,
    suggest_regimes,
)
from workingpapers.causality.counterfactual_id.factors import Impossible, ctf_ancestors, ctf_members, minimise, split
from workingpapers.causality.counterfactual_id.simulation import (
    complete,
    random_graph,
    random_model,
    random_query,
)
from workingpapers.foundations.errors import InputError

BOW = ADMG(directed=[("X", "Y")], bidirected=[("X", "Y")])
CHAIN = ADMG("XMY", [("X", "M"), ("M", "Y")])
TRIANGLE = ADMG("XMY", [("X", "M"), ("X", "Y"), ("M", "Y")])
MEDIATOR = complete("XMY", [("X", "M"), ("X", "Y"), ("M", "Y")])
FRONT_DOOR = ADMG("XMY", [("X", "M"), ("M", "Y")], [("X", "Y")])
NAPKIN = ADMG("WZXY", [("W", "Z"), ("Z", "X"), ("X", "Y")], [("W", "X"), ("W", "Y")])
SPLIT = Regime("r", cut={("X", "Y"): ANY})
X, X2 = Symbol("X", "x"), Symbol("X", "x'")
M = Symbol("M", "m")


def formula(text, graph, regimes):
    found = identify(text, graph, regimes)
    assert isinstance(found, Identified), found
    return found.expression.to_text()


def value(query, model, regimes, **values):
    query = Query.parse(query, model.graph.nodes) if isinstance(query, str) else query
    found = identify(query, model.graph, regimes)
    assert isinstance(found, Identified), found
    laws = {regime.name: model.table(regime) for regime in regimes if regime.name in found.regimes_used}
    numbers = {s.name: s.name.count("'") for s in query.symbols} | values
    truth = model.probability(query, {s: int(numbers[s.name]) for s in query.symbols})
    return float(evaluate(found.expression, laws, numbers)), truth


def test_ctf_ancestors_and_minimisation():
    both = {"X": X, "M": M}
    assert [name for name, _ in ctf_ancestors("Y", {"X": X}, TRIANGLE)] == ["M", "Y"]
    assert ctf_ancestors("Y", {"X": X}, TRIANGLE) == [("M", (("X", X),)), ("Y", (("X", X),))]
    assert ctf_ancestors("Y", both, TRIANGLE) == [("Y", (("M", M), ("X", X)))]
    assert minimise("Y", both, CHAIN) == {"M": M}
    assert minimise("Y", both, TRIANGLE) == both
    assert minimise("X", {"Y": Symbol("Y", "y")}, CHAIN) == {}


def test_effect_on_the_treated_needs_the_cut_edge():
    query = "P(Y[x] = y | X = x')"
    refused = identify(query, BOW, [OBSERVATIONAL, Regime("trial", do={"X": ANY})])
    assert not refused.identified
    assert refused.factor.names == {"X", "Y"}
    assert not refused.factor.consistent
    assert refused.factor.copies is None
    assert refused.reasons == {"obs": "X reaches Y with its natural value x', not x", "trial": "X is not recorded"}
    assert formula(query, BOW, [SPLIT]) == "P_r(Y = y | X = x'; X->Y := x)"
    model = random_model(np.random.default_rng(0), BOW)
    table = model.table(SPLIT).array
    got, truth = value(query, model, [SPLIT])
    assert got == pytest.approx(table[0, 1, 0] / table[0, 1].sum(), abs=1e-14)
    assert got == pytest.approx(truth, abs=1e-14)


def test_natural_direct_effect_is_the_marginal_of_the_double_cut():
    query, experiment = "P(Y[x, M[x']] = y)", Regime("r", cut={("X", "M"): "x'", ("X", "Y"): "x"})
    assert not identify(query, MEDIATOR, all_regimes(MEDIATOR, False)).identified
    assert formula(query, MEDIATOR, [experiment]) == "P_r(Y = y)"
    swapped = Regime("r", cut={("X", "M"): "x", ("X", "Y"): "x'"})
    assert identify(query, MEDIATOR, [swapped]).reasons == {"r": "X->M is fed x, not x'"}


def test_pns_is_refused_from_everything_with_two_copies_as_the_witness():
    refused = identify("P(Y[x] = y, Y[x'] = y')", BOW, (*all_regimes(BOW, True), Regime("trial", do={"X": ANY})))
    assert not refused.identified
    first, second = refused.factor.copies
    assert first.variable == second.variable == "Y"
    assert {dict(first.parents)["X"], dict(second.parents)["X"]} == {X, X2}
    assert all("two copies of Y" in reason for reason in refused.reasons.values())


def test_two_effects_in_two_worlds_until_a_mediator_joins_them():
    fork = ADMG("XYW", [("X", "Y"), ("X", "W")], [("Y", "W")])
    query = "P(Y[x] = y, W[x'] = w)"
    fed = Regime("r", cut={("X", "Y"): "x", ("X", "W"): "x'"})
    assert formula(query, fork, [fed]) in ("P_r(Y = y, W = w)", "P_r(W = w, Y = y)")
    joined = ADMG("XZYW", [("X", "Z"), ("Z", "Y"), ("Z", "W")], [("Y", "W")])
    refused = identify(query, joined, all_regimes(joined, True))
    assert not refused.identified
    conflict = realizable(query, joined).conflict
    assert [member.variable for member in conflict] == ["Z", "Z"]
    # Without confounding between Z and the rest, Z_x and Z_x' form the factor that fails.
    assert refused.factor.names == {"Z"}


def test_consistency_and_effectiveness():
    model = random_model(np.random.default_rng(1), BOW)
    assert formula("P(Y[x] = y, X = x)", BOW, [OBSERVATIONAL]) == "P_obs(X = x, Y = y)"
    got, truth = value("P(Y[x] = y, X = x)", model, [OBSERVATIONAL])
    assert got == model.table(OBSERVATIONAL).array[0, 0] == pytest.approx(truth, abs=1e-15)
    assert formula("P(X[x] = x')", BOW, [OBSERVATIONAL]) == "0"
    assert formula("P(X[x] = x)", BOW, [OBSERVATIONAL]) == "1"
    # Effectiveness settles a nested value, and what it equates can contradict the rest.
    assert formula("P(Y[M[m]] = y, M = m')", TRIANGLE, [OBSERVATIONAL]) != "0"
    assert formula("P(M[m] = m', Y = y)", TRIANGLE, [OBSERVATIONAL]) == "0"
    assert (
        formula("P(Y[x, M[x, m]] = y)", TRIANGLE, [Regime("r", do={"X": ANY, "M": ANY})])
        == "P_r(Y = y; M := m, X := x)"
    )


def test_equal_responses_share_a_value_or_contradict():
    assert formula("P(Y[x, z] = y, Y[x] = y')", ADMG("ZXY", [("X", "Y")]), [OBSERVATIONAL]) == "0"
    assert formula("P(Y = y, Y = y)", BOW, [OBSERVATIONAL]) == "P_obs(Y = y)"
    with pytest.raises(Impossible, match="would be"):
        ctf_members(Query.parse("P(Y = y, X = x, Y[x] = y')", "XY").outcomes, BOW)
    natural = identify("P(Y[x, M] = y)", TRIANGLE, [OBSERVATIONAL])
    assert natural.identified
    assert len(ctf_members(Query.parse("P(Y[M] = y, M = m)", "XMY").outcomes, TRIANGLE)) == 3


def test_without_cuts_and_subscripts_the_answer_is_a_marginal():
    model = random_model(np.random.default_rng(2), NAPKIN)
    found = identify("P(Y = y, W = w)", NAPKIN, [OBSERVATIONAL]).expression
    law = model.table(OBSERVATIONAL).array
    for w, y in itertools.product(range(2), repeat=2):
        got = evaluate(found, {"obs": model.table(OBSERVATIONAL)}, {"w": w, "y": y})
        assert got == pytest.approx(law.sum(axis=(1, 2))[w, y], abs=1e-15)


def test_front_door_formula():
    text = formula("P(Y[x] = y)", FRONT_DOOR, [OBSERVATIONAL])
    assert text == "sum_{m} P_obs(M = m | X = x) (sum_{x'} P_obs(X = x') P_obs(Y = y | X = x', M = m))"
    latex = identify("P(Y[x] = y)", FRONT_DOOR, [OBSERVATIONAL]).expression.to_latex()
    assert latex.startswith(r"\sum_{m} P_{\mathrm{obs}}(M = m \mid X = x) \, (\sum_{x'}")
    model = random_model(np.random.default_rng(3), FRONT_DOOR)
    law = model.table(OBSERVATIONAL).array
    x = law.sum(axis=(1, 2))
    by_hand = sum(
        law[0, m].sum() / x[0] * sum(law[k, m, 0] / law[k, m].sum() * x[k] for k in range(2)) for m in range(2)
    )
    got, truth = value("P(Y[x] = y)", model, [OBSERVATIONAL])
    assert got == pytest.approx(by_hand, abs=1e-14)
    assert got == pytest.approx(truth, abs=1e-14)


def test_napkin_formula_has_the_true_value_and_the_hedge_is_named():
    model = random_model(np.random.default_rng(4), NAPKIN)
    got, truth = value("P(Y[x] = y)", model, [OBSERVATIONAL])
    assert got == pytest.approx(truth, abs=1e-14)
    instrument = ADMG("ZXY", [("Z", "X"), ("X", "Y")], [("X", "Y")])
    refused = identify("P(Y[x] = y)", instrument, [OBSERVATIONAL])
    assert refused.reasons == {"obs": "Q[Y] cannot be taken out of Q[X, Y] (a hedge)"}


def test_only_interventions_give_what_consistent_factors_give():
    rng = np.random.default_rng(5)
    seen = set()
    for _ in range(300):
        graph = random_graph(rng, 4)
        query = random_query(rng, graph, nested=0.2)
        found = identify(query, graph, all_regimes(graph, False)).identified
        try:
            consistent = all(factor.consistent for factor in split(ctf_members(query.outcomes, graph), graph))
        except Impossible:
            consistent = True
        assert found == consistent
        seen.add(found)
    assert seen == {True, False}


def test_factors_of_one_query_may_come_from_different_regimes():
    graph = ADMG("XMY", [("X", "M"), ("M", "Y")], [("X", "M"), ("M", "Y")])
    regimes = [Regime("a", do={"X": ANY}, observed={"M"}), Regime("b", do={"M": ANY}, observed={"Y"})]
    apart = ADMG("XMY", [("X", "M"), ("M", "Y")], [("X", "M")])
    found = identify("P(Y[x] = y)", apart, [regimes[0], regimes[1]])
    assert set(found.regimes_used) == {"a", "b"}
    model = random_model(np.random.default_rng(6), apart)
    got, truth = value("P(Y[x] = y)", model, regimes)
    assert got == pytest.approx(truth, abs=1e-14)
    assert identify("P(Y[x] = y)", graph, regimes).reasons["a"] == "Y is not recorded"


def test_a_parent_outside_the_factor_needs_one_symbol():
    graph = ADMG("XYW", [("X", "Y"), ("X", "W")], [("Y", "W")])
    assert formula("P(Y[x] = y, W[x] = w)", graph, [OBSERVATIONAL]) == "P_obs(Y = y, W = w | X = x)"
    refused = identify("P(Y[x] = y, W[x'] = w)", graph, [OBSERVATIONAL, Regime("trial", do={"X": ANY})])
    assert refused.reasons == {
        "obs": "X would have to be x and x' at once",
        "trial": "X would have to be x and x' at once",
    }


@pytest.mark.parametrize(
    ("cut_child", "words"),
    [
        ("C", "D = d | A = a, B = b', C = c; A->B := a'', A->C := a', B->C := b"),
        ("D", "P_r(C = c, D = d | A = a', B = b; A->B := a'', A->D := a, B->D := b')"),
    ],
)
def test_a_natural_parent_keeps_its_own_symbol_beside_a_cut_edge_of_the_same_parent(cut_child, words):
    graph = ADMG("ABCD", [("A", "B"), ("A", "C"), ("A", "D"), ("B", "C"), ("B", "D")], [("A", "B"), ("C", "D")])
    regime = Regime("r", cut={("A", "B"): ANY, ("A", cut_child): ANY, ("B", cut_child): ANY})
    query = "P(D[A=a, B=b'] = d, C[A=a', B=b] = c)"
    text = formula(query, graph, [regime])
    assert words in text
    for seed in range(5):
        got, truth = value(query, random_model(np.random.default_rng(seed), graph), [regime])
        assert got == pytest.approx(truth, abs=1e-14)


def test_a_value_that_effectiveness_settles_stays_in_its_world():
    graph = ADMG("MYZ", [("M", "Y"), ("M", "Z")], [("Y", "Z")])
    regimes = [Regime("r", cut={("M", "Y"): ANY})]
    nested = "P(Y[M[m]] = y, Z[M] = z)"
    assert formula(nested, graph, regimes) == formula("P(Y[m] = y, Z = z)", graph, regimes)
    got, truth = value(nested, random_model(np.random.default_rng(9), graph), regimes)
    assert got == pytest.approx(truth, abs=1e-14)


def test_a_mediator_that_nobody_records_is_projected_out():
    regime = Regime("trial", do={"X": ANY}, observed={"Y"})
    model = random_model(np.random.default_rng(7), MEDIATOR)
    found = identify("P(Y[x] = y)", MEDIATOR, [regime])
    assert found.expression.to_text() == "P_trial(Y = y; X := x)"
    got, truth = value("P(Y[x] = y)", model, [regime])
    assert got == pytest.approx(truth, abs=1e-14)
    # One of X's two ways to Y is cut before the hidden mediator: no edge of the projection stands for that.
    assert not identify("P(Y[x] = y)", MEDIATOR, [Regime("r", cut={("X", "M"): ANY}, observed={"X", "Y"})]).identified


def test_a_regime_that_does_not_record_a_variable_is_used_without_it():
    graph = ADMG("HXMY", [("H", "X"), ("X", "M"), ("M", "Y")], [("X", "Y")])
    regimes = [Regime("obs", observed={"X", "M", "Y"}), Regime("other", observed={"H"})]
    assert formula("P(Y[x] = y)", graph, regimes) == formula("P(Y[x] = y)", FRONT_DOOR, [OBSERVATIONAL])
    got, truth = value("P(Y[x] = y)", random_model(np.random.default_rng(10), graph), regimes)
    assert got == pytest.approx(truth, abs=1e-14)


def test_edges_that_share_a_column_get_one_value():
    together = Regime("r", cut={("X", "M"): ANY, ("X", "Y"): ANY}, columns={("X", "M"): "seen", ("X", "Y"): "seen"})
    assert formula("P(Y[x] = y | X = x')", MEDIATOR, [together]) == "P_r(Y = y | X = x'; seen := x)"
    assert not identify("P(Y[x, M[x']] = y)", MEDIATOR, [together]).identified


def test_conditions_that_do_not_matter_cancel():
    graph = ADMG("XYZ", [("X", "Y")], [("X", "Y")])
    # Z is alone, and two copies of the impossible kind would be needed for X -> A below if they did not cancel.
    wide = ADMG("XYAB", [("X", "Y"), ("A", "B")], [("A", "B")])
    assert formula("P(Y = y | Z = z)", graph, [OBSERVATIONAL]) == "P_obs(Y = y)"
    assert formula("P(Y[x] = y | B[a] = b, B[a'] = b)", wide, [OBSERVATIONAL]) == "P_obs(Y = y | X = x)"
    with pytest.raises(InputError, match=r"condition of P.* is impossible"):
        identify("P(Y = y | X = x, X = x')", graph, [OBSERVATIONAL])


def random_regime(rng, graph, index):
    """A regime with random do, cuts at random or fixed values, shared columns and hidden variables."""
    do = {name: _fed(rng) for name in graph.nodes if rng.random() < 0.2}
    cut = {edge: _fed(rng) for edge in sorted(graph.directed) if edge[0] not in do and rng.random() < 0.35}
    columns = {edge: f"{edge[0]} fed" for edge, fed in cut.items() if fed == ANY and rng.random() < 0.3}
    observed = None
    if rng.random() < 0.5:
        observed = {name for name in graph.nodes if name not in do and rng.random() < 0.8}
    return Regime(f"r{index}", cut, do, observed, columns)


def _fed(rng):
    return ANY if rng.random() < 0.6 else str(rng.integers(0, 2))


@pytest.mark.parametrize("seed", range(4))
def test_no_formula_is_wrong_whatever_the_regimes(seed):
    rng = np.random.default_rng([seed, 99])
    checked = 0
    while checked < 150:
        graph = random_graph(rng, int(rng.integers(3, 6)))
        query = random_query(rng, graph, nested=0.25, conditional=0.3)
        query = query.assign({symbol.name: symbol.name.count("'") for symbol in query.symbols})
        if len(graph.bidirected) > 5:
            continue
        regimes = [random_regime(rng, graph, k) for k in range(4)]
        try:
            found = identify(query, graph, regimes)
        except InputError:  # the condition is impossible
            continue
        if not found.identified or not found.regimes_used:
            continue
        model = random_model(rng, graph)
        truth = model.probability(query, {symbol: int(symbol.name) for symbol in query.symbols})
        if np.isnan(truth):
            continue
        laws = {regime.name: model.table(regime) for regime in regimes if regime.name in found.regimes_used}
        assert float(evaluate(found.expression, laws)) == pytest.approx(truth, abs=1e-9), query
        checked += 1


@pytest.mark.parametrize("seed", range(3))
def test_identified_from_all_experiments_exactly_if_realizable(seed):
    rng = np.random.default_rng([seed, 98])
    verdicts = []
    for _ in range(250):
        graph = random_graph(rng, int(rng.integers(3, 5)))
        query = random_query(rng, graph, nested=0.25)
        every = [Regime("all", cut=dict.fromkeys(graph.directed, ANY))]
        whole = identify(query, graph, all_regimes(graph, True)).identified
        plan = realizable(query, graph)
        assert whole == plan.realizable == identify(query, graph, every).identified
        if identify(query, graph, all_regimes(graph, False)).identified:
            assert whole
        verdicts.append(whole)
        if plan.realizable:
            symbolic = identify(query, graph, [plan.regime])
            assert symbolic.identified, (query, plan)
    assert 0.6 < np.mean(verdicts) < 0.98


def test_plan_uses_the_coarser_action_where_it_is_enough():
    whole = realizable("P(Y[x] = y)", MEDIATOR)
    assert whole.plan == ("SELECT a unit at random", "RAND(X) := x", "READ M, Y")
    treated = realizable("P(Y[x] = y | X = x')", MEDIATOR)
    assert treated.plan == (
        "SELECT a unit at random", "CTF-RAND(X -> M) := x", "CTF-RAND(X -> Y) := x", "READ X, M, Y",
    )  # fmt: skip
    assert realizable("P(Y = y, X = x)", MEDIATOR).plan == ("SELECT a unit at random", "READ X, M, Y")
    assert realizable("P(Y[x] = y | X = x')", MEDIATOR, [("RAND", "X")]).missing == "CTF-RAND(X -> M)"
    assert realizable("P(Y[x] = y)", MEDIATOR, [("RAND", "X")]).realizable
    assert realizable("P(X[x] = x')", MEDIATOR).realizable


def test_suggestion_is_minimal():
    new = suggest_regimes("P(Y[x] = y | X = x')", BOW, [OBSERVATIONAL])
    assert dict(new.cut) == {("X", "Y"): ANY}
    assert dict(suggest_regimes("P(Y = y)", BOW).cut) == {}
    assert suggest_regimes("P(Y[x] = y, Y[x'] = y)", BOW) is None
    rng = np.random.default_rng(8)
    proper = 0
    for _ in range(60):
        graph = random_graph(rng, 4)
        query = random_query(rng, graph, nested=0.25)
        new = suggest_regimes(query, graph, [OBSERVATIONAL])
        assert (new is not None) == realizable(query, graph).realizable
        if new is None or not new.cut:
            continue
        proper += 1
        assert identify(query, graph, [OBSERVATIONAL, new]).identified
        for edge, _ in new.cut:
            fewer = Regime("new", {other: fed for other, fed in new.cut if other != edge})
            assert not identify(query, graph, [OBSERVATIONAL, fewer]).identified
    assert proper > 5


def test_steps_tell_the_factors():
    steps = identify("P(Y[x] = y)", FRONT_DOOR, [OBSERVATIONAL]).steps
    assert steps == (
        "The ctf-factor {M[X=x] = m} is P_obs(M = m | X = x).",
        "The ctf-factor {Y[M=m] = y} is sum_{x'} P_obs(X = x') P_obs(Y = y | X = x', M = m).",
    )
    refused = identify("P(Y[x, M[x']] = y)", MEDIATOR, [OBSERVATIONAL])
    assert refused.steps == ("No regime gives the ctf-factor {M[X=x'] = m, Y[X=x, M=m] = y}.",)


@pytest.mark.parametrize(
    ("query", "regimes", "words"),
    [
        ("P(Y[q] = y)", [OBSERVATIONAL], "symbol 'q' belongs to no variable"),
        ("P(T = t)", [OBSERVATIONAL], "'T', which is not in the graph"),
        (
            "P(Y = y)",
            [Regime("a", cut={("Y", "X"): ANY})],
            "cuts Y->X, which is no edge of the graph; did you mean 'X->Y'",
        ),
        ("P(Y = y)", [Regime("a", do={"W": ANY})], "Regime 'a' names 'W'"),
        ("P(Y = y)", [Regime("a"), Regime("a")], "Two regimes are called 'a'"),
    ],
)
def test_unknown_names_are_told(query, regimes, words):
    with pytest.raises(InputError) as caught:
        identify(query, BOW, regimes)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_regimes_that_contradict_themselves():
    with pytest.raises(InputError, match=r"'do' sets 'X' for all children and records its natural value"):
        Regime("do", do={"X": ANY}, observed={"X", "Y"})
    with pytest.raises(InputError, match="keep one"):
        Regime("do", do={"X": ANY}, cut={("X", "Y"): ANY})
