"""Bounds: closed forms against each other and the linear programme, the truth inside, refusal of impossible tables."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from workingpapers.causality.counterfactual_id import (
    ADMG,
    ANY,
    OBSERVATIONAL,
    InconsistentTables,
    Query,
    Regime,
    Sample,
    Table,
    TooManyCells,
    all_regimes,
    bound,
    evaluate,
    frechet_bounds,
    identify,
    pns_bounds,
    read_samples,
    tian_pearl_bounds,
)
from workingpapers.causality.counterfactual_id.experiments import (
    ALL_CUT,
    MEDIATOR,
    VALUES,
    direct_closed_form,
    intervals_hold,
    mediator_closed_form,
    widths,
)
from workingpapers.causality.counterfactual_id.linear_program import response_units
from workingpapers.causality.counterfactual_id.simulation import (
    complete,
    random_graph,
    random_query,
    random_units,
    sample,
)
from workingpapers.foundations.errors import InputError
from workingpapers.foundations.progress import silent

BOW = complete("XY", [("X", "Y")])
TRIAL = Regime("trial", do={"X": ANY})
CUT = Regime("cut", cut={("X", "Y"): ANY})
PNS = Query.parse("P(Y[x] = y, Y[x'] = y')", "XY")


def treatment(rng, size, concentration=0.3):
    return random_units(rng, BOW, {"X": size, "Y": 2}, concentration)


def truth_of(units, query):
    return units.probability(query, {symbol: VALUES[symbol.name] for symbol in query.symbols})


def programme(units, query, regimes, **options):
    laws = {regime.name: units.table(regime) for regime in regimes}
    return bound(query, units.graph, regimes, laws, VALUES, **options)


@given(st.integers(0, 10_000))
@settings(max_examples=60, deadline=None)
def test_two_values_give_the_bounds_of_tian_and_pearl(seed):
    units = treatment(np.random.default_rng(seed), 2)
    law, joint = units.table(CUT).array, units.table(OBSERVATIONAL).array
    strata = pns_bounds(law[1, :, 1], law[0, :, 1], law[0].sum(axis=1))
    known = tian_pearl_bounds(law[1, :, 1].sum(), law[0, :, 1].sum(), joint)
    assert strata == pytest.approx(known, abs=1e-12)


def test_more_values_are_sharp_and_tighter_than_without_the_natural_value():
    rng = np.random.default_rng(0)
    for size in (2, 3):
        ratio = []
        for _ in range(6):
            units = treatment(rng, size)
            law = units.table(CUT).array
            strata = pns_bounds(law[1, :, 1], law[0, :, 1], law[0].sum(axis=1))
            sharp = programme(units, PNS, [CUT])
            coarse = programme(units, PNS, [OBSERVATIONAL, TRIAL])
            assert sharp.sharp
            assert strata == pytest.approx((sharp.lower, sharp.upper), abs=1e-7)
            ratio.append((strata[1] - strata[0]) / (coarse.upper - coarse.lower))
        assert max(ratio) <= 1 + 1e-7
        if size == 2:
            assert min(ratio) == pytest.approx(1, abs=1e-6)
        else:
            assert np.mean(ratio) < 0.85


def test_searched_strata_find_the_natural_treatment():
    units = treatment(np.random.default_rng(1), 3)
    law = units.table(CUT).array
    searched = programme(units, PNS, [CUT], method="frechet")
    assert (searched.lower, searched.upper) == pytest.approx(
        pns_bounds(law[1, :, 1], law[0, :, 1], law[0].sum(axis=1)), abs=1e-12
    )
    assert searched.note == "Fréchet bounds in strata of X"


@given(st.integers(0, 10_000))
@settings(max_examples=80, deadline=None)
def test_finer_strata_never_widen_and_the_truth_is_inside(seed):
    rng = np.random.default_rng(seed)
    law = rng.dirichlet(np.full(4 * 3 * 4, 0.3)).reshape(2, 2, 3, 4)  # a, b, s, t
    a, b, s = law[1].sum(axis=0), law[:, 1].sum(axis=0), law.sum(axis=(0, 1))
    fine = frechet_bounds(a, b, s)
    coarse = frechet_bounds(a.sum(axis=1), b.sum(axis=1), s.sum(axis=1))
    none = frechet_bounds(a.sum(), b.sum(), np.array(1.0))
    truth = law[1, 1].sum()
    assert none[0] - 1e-12 <= coarse[0] <= fine[0] + 1e-12
    assert fine[0] - 1e-12 <= truth <= fine[1] + 1e-12
    assert fine[1] - 1e-12 <= coarse[1] <= none[1] + 1e-12


def test_strata_that_fix_both_events_give_a_point():
    mass = np.random.default_rng(2).dirichlet(np.ones(6))
    in_a, in_b = np.array([1, 1, 0, 0, 1, 0]), np.array([1, 0, 1, 0, 1, 1])
    low, high = frechet_bounds(mass * in_a, mass * in_b, mass)
    assert low == pytest.approx(high, abs=1e-15)
    assert low == pytest.approx(float(mass @ (in_a * in_b)), abs=1e-15)


def test_binary_effect_on_the_treated_collapses_to_a_point_and_no_more_with_three_values():
    query = Query.parse("P(Y[x] = y | X = x')", "XY")
    units = treatment(np.random.default_rng(3), 2)
    joint, trial = units.table(OBSERVATIONAL).array, units.table(TRIAL).array
    point = (trial[1, 1] - joint[1, 1]) / joint[0].sum()
    found = programme(units, query, [OBSERVATIONAL, TRIAL])
    assert (found.lower, found.upper) == pytest.approx((point, point), abs=1e-7)
    assert point == pytest.approx(truth_of(units, query), abs=1e-12)
    wide = programme(treatment(np.random.default_rng(3), 3, 1.0), query, [OBSERVATIONAL, TRIAL])
    assert wide.upper - wide.lower > 0.01


def test_mediator_closed_forms_hold_and_lie_around_the_programme():
    rng = np.random.default_rng(4)
    direct = Query.parse("P(Y[x, M[x']] = y, Y[x'] = y')", "XMY")
    strictly = 0
    for _ in range(8):
        units = random_units(rng, MEDIATOR, dict.fromkeys("XMY", 2), 0.05)
        table = units.table(ALL_CUT)
        for query, closed in ((PNS, mediator_closed_form(table)), (direct, direct_closed_form(table))):
            sharp = programme(units, query, [ALL_CUT])
            assert closed[0] - 1e-7 <= sharp.lower <= truth_of(units, query) + 1e-7
            assert truth_of(units, query) - 1e-7 <= sharp.upper <= closed[1] + 1e-7
            strictly += sharp.upper - sharp.lower < 0.999 * (closed[1] - closed[0])
        # In the direct effect the searched strata are X and M at x'.
        searched = programme(units, direct, [ALL_CUT], method="frechet")
        assert (searched.lower, searched.upper) == pytest.approx(direct_closed_form(table), abs=1e-12)
    assert strictly > 0


def test_mediator_upper_bound_term_by_term():
    rng = np.random.default_rng(11)
    for _ in range(10):
        units = random_units(rng, MEDIATOR, dict.fromkeys("XMY", 2), 0.05)

        def p(text, units=units):
            query = Query.parse(text, "XMY")
            return units.probability(query, {symbol: int(symbol.name) for symbol in query.symbols})

        total = 0.0
        for k in range(2):
            terms = sum(
                min(
                    p(f"P(M[X=1] = {m}, Y[X=1, M={m}] = 1, X = {k})"),
                    p(f"P(M[X=0] = {n}, Y[X=0, M={n}] = 0, X = {k})"),
                    p(f"P(M[X=1] = {m}, Y[X=0, M={n}] = 0, X = {k})"),
                    p(f"P(M[X=0] = {n}, Y[X=1, M={m}] = 1, X = {k})"),
                )
                for m in range(2)
                for n in range(2)
            )
            total += min(terms, p(f"P(Y[X=1] = 1, X = {k})"), p(f"P(Y[X=0] = 0, X = {k})"))
        assert mediator_closed_form(units.table(ALL_CUT))[1] == pytest.approx(total, abs=1e-12)


def test_mediator_bounds_use_the_mediator():
    """A coin decides M and Y, and X neither: nobody responds, which strata of X alone cannot tell."""
    units = response_units(MEDIATOR, dict.fromkeys("XMY", 2))
    m, y = (units.responses[name].reshape(units.count, -1) for name in "MY")
    kept = (m == m[:, :1]).all(axis=1) & (y == m[:, :1]).all(axis=1)
    table = replace(units, weights=kept / kept.sum()).table(ALL_CUT)
    assert mediator_closed_form(table) == pytest.approx((0.0, 0.0), abs=1e-12)
    law = table.array.transpose(*(table.settings.index(name) for name in ("X->M", "X->Y", "M->Y")), 3, 4, 5)
    treated, control = (sum(law[x, x, k, :, k, 1] for k in range(2)) for x in (1, 0))
    assert pns_bounds(treated, control, law[0, 0, 0].sum(axis=(1, 2)))[1] == pytest.approx(0.5)


def test_impossible_tables_are_refused():
    joint = Table((), ("X", "Y"), np.array([[0.1, 0.4], [0.1, 0.4]]))
    trial = Table(("X",), ("Y",), np.array([[0.9, 0.1], [0.2, 0.8]]))  # P(y_x') below P(y, x')
    with pytest.raises(InconsistentTables, match="contradict each other"):
        bound(PNS, BOW, [OBSERVATIONAL, TRIAL], {"obs": joint, "trial": trial}, VALUES)
    good = Table(("X",), ("Y",), np.array([[0.5, 0.5], [0.2, 0.8]]))
    found = bound(PNS, BOW, [OBSERVATIONAL, TRIAL], {"obs": joint, "trial": good}, VALUES)
    assert found.lower <= found.upper


def test_tables_of_a_model_are_never_refused_for_their_rounding():
    for seed in range(60):
        units = treatment(np.random.default_rng(seed), 2, 0.1)
        found = programme(units, PNS, [OBSERVATIONAL, TRIAL])
        assert found.lower - 1e-6 <= truth_of(units, PNS) <= found.upper + 1e-6


def test_programme_says_how_large_it_would_be():
    graph = complete("XYZW", [("X", "W"), ("Y", "W"), ("Z", "W")])
    regimes = [Regime("obs")]
    law = Table((), tuple("XYZW"), np.full((3, 3, 3, 3), 1 / 81))
    with pytest.raises(TooManyCells, match=r"2\.06e\+14 cells"):
        bound("P(W[x] = w)", graph, regimes, {"obs": law}, {"x": 0, "w": 1}, method="lp")
    auto = bound("P(W[x] = w, X = x')", graph, regimes, {"obs": law}, {"x": 0, "x'": 1, "w": 1})
    assert auto.method == "frechet"
    assert 0 <= auto.lower <= auto.upper <= 1 / 3 + 1e-12


def test_sharpness_is_claimed_only_where_it_holds():
    units = treatment(np.random.default_rng(5), 2)
    loose = ADMG("XY", [("X", "Y")])
    assert programme(units, PNS, [CUT]).sharp
    laws = {"cut": Table(("X->Y",), ("X", "Y"), np.full((2, 2, 2), 0.25))}
    assert not bound(PNS, loose, [CUT], laws, VALUES).sharp


def test_sampled_tables_give_a_wider_interval_that_stays_feasible():
    units = treatment(np.random.default_rng(6), 3)
    rng, truth = np.random.default_rng(7), truth_of(units, PNS)
    exact = programme(units, PNS, [CUT])
    inside = 0
    for _ in range(20):
        drawn = read_samples({"cut": sample(rng, units, CUT, 500)}, BOW, [CUT])
        if any(len(drawn["cut"].labels[name]) < size for name, size in (("X", 3), ("Y", 2))):
            continue
        found = bound(PNS, BOW, [CUT], drawn, VALUES)
        assert not found.sharp
        assert found.upper - found.lower > exact.upper - exact.lower
        inside += found.lower <= truth <= found.upper
    assert inside >= 19


def test_exact_binomial_boxes():
    """One regime, one variable: the interval of P(X = 1) is Clopper-Pearson's at half the level for two cells."""
    graph = ADMG("X")
    codes, counts = np.array([[0], [1]]), np.array([70, 30])
    drawn = Sample((), ("X",), codes, counts, {"X": ("0", "1")})
    found = bound("P(X = x)", graph, [OBSERVATIONAL], {"obs": drawn}, {"x": 1}, method="lp")
    from scipy.stats import binomtest

    known = binomtest(30, 100).proportion_ci(0.975, method="exact")
    assert (found.lower, found.upper) == pytest.approx((known.low, known.high), abs=1e-6)


def test_unidentified_condition_is_a_fractional_programme():
    """P(X = 1 | Y_x = 1) from observation alone: a ratio whose denominator is not fixed."""
    units = treatment(np.random.default_rng(8), 2, 1.0)
    query = Query.parse("P(X = x | Y[x'] = y)", "XY")
    found = programme(units, query, [OBSERVATIONAL])
    joint = units.table(OBSERVATIONAL).array
    # Y_x' is free where X = x (all or none of them have y) and known where X = x'.
    top = joint[1].sum()
    assert (found.lower, found.upper) == pytest.approx((0.0, top / (top + joint[0, 1])), abs=1e-7)


def test_a_query_without_any_information_keeps_its_range():
    units = treatment(np.random.default_rng(9), 2)
    found = programme(units, Query.parse("P(Y[x] = y)", "XY"), [OBSERVATIONAL], method="frechet")
    assert (found.lower, found.upper) == (0.0, 1.0)
    with pytest.raises(InputError, match="No data say which values 'X' has"):
        bound(
            PNS, BOW, [Regime("r", observed={"Y"})], {"r": Table((), ("Y",), np.array([0.5, 0.5]))}, {"y": 0, "y'": 1}
        )


def test_programme_and_formula_agree_on_what_the_data_fix():
    """Identified: the interval is the formula's value. Refused: it has width, so two models share all the data."""
    rng = np.random.default_rng(10)
    seen, wide = {True: 0, False: 0}, 0
    while min(seen.values()) < 12:
        graph = complete("ABC", sorted(random_graph(rng, 3, edge=0.8).directed))
        query = random_query(rng, graph, nested=0.2)
        numbers = {symbol.name: symbol.name.count("'") for symbol in query.symbols}
        regimes = all_regimes(graph, False)
        units = random_units(rng, graph, dict.fromkeys("ABC", 2), 0.5)
        laws = {regime.name: units.table(regime) for regime in regimes}
        interval = bound(query, graph, regimes, laws, numbers, method="lp")
        found = identify(query, graph, regimes)
        seen[found.identified] += 1
        if found.identified:
            got = evaluate(found.expression, laws, numbers)
            assert (interval.lower, interval.upper) == pytest.approx((got, got), abs=1e-6)
        else:
            wide += interval.upper - interval.lower > 1e-5
    # Two values of each variable fix a few queries that no general formula gives.
    assert wide >= 0.6 * seen[False]


@pytest.mark.parametrize("seed", range(3))
def test_both_methods_hold_for_random_queries_and_regimes(seed):
    """All kinds of query, the impossible ones too; the programme's interval lies inside the searched one."""
    rng = np.random.default_rng([seed, 97])
    done = 0
    while done < 40:
        graph = complete("ABC", sorted(random_graph(rng, 3).directed))
        query = random_query(rng, graph, nested=0.25, conditional=0.3)
        values = {symbol: symbol.name.count("'") for symbol in query.symbols}
        units = random_units(rng, graph, dict.fromkeys("ABC", 2), 0.3)
        truth = units.probability(query, values)
        regimes = all_regimes(graph, bool(rng.integers(0, 2)))
        some = [OBSERVATIONAL, *(r for r in regimes if r.cut or r.do)][: int(rng.integers(1, 4))]
        if np.isnan(truth) or units.weights @ units.holds(query.conditions, values) < 1e-3:
            continue
        laws = {regime.name: units.table(regime) for regime in some}
        numbers = {symbol.name: value for symbol, value in values.items()}
        sharp, searched = (bound(query, graph, some, laws, numbers, method=method) for method in ("lp", "frechet"))
        assert searched.lower - 1e-6 <= sharp.lower <= truth + 1e-6
        assert truth - 1e-6 <= sharp.upper <= searched.upper + 1e-6
        done += 1


def test_an_impossible_event_is_bounded_by_zero():
    """C is C_a for lack of an edge, so that they cannot differ."""
    graph = complete("AC", [])
    law = {"obs": Table((), ("A", "C"), np.full((2, 2), 0.25))}
    found = bound("P(C = 1, C[A=0] = 0, A = 1)", graph, [OBSERVATIONAL], law, method="frechet")
    assert (found.lower, found.upper) == (0.0, 0.0)


def test_control_fails_and_the_method_does_not():
    assert intervals_hold(0, silent, instances=45, rule="bounds")["hold"] == 1
    assert intervals_hold(0, silent, instances=45, rule="independent")["hold"] < 0.5


def test_closed_form_of_a_treatment_equals_the_programme_on_average():
    closed, sharp = (widths(0, silent, models=2, arm=arm) for arm in ("closed", "lp"))
    for size in (2, 3, 4):
        assert closed[f"treatment_of_{size}"] == pytest.approx(sharp[f"treatment_of_{size}"], abs=1e-7)
    assert sharp["mediator"] <= closed["mediator"] + 1e-9
