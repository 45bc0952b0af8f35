"""Tables, evaluation and estimates: labels, positivity, distinct symbols, bootstrap."""

import numpy as np
import pandas as pd
import pytest

from workingpapers.causality.counterfactual_id import (
    ADMG,
    ANY,
    OBSERVATIONAL,
    PositivityError,
    Regime,
    Symbol,
    Table,
    estimate,
    evaluate,
    identify,
    read_samples,
)
from workingpapers.causality.counterfactual_id.experiments import coverage
from workingpapers.causality.counterfactual_id.expression import Fraction, Probability, Product, Sum, product, total
from workingpapers.causality.counterfactual_id.simulation import complete, random_model, sample
from workingpapers.foundations.errors import InputError
from workingpapers.foundations.progress import silent

BACK_DOOR = ADMG("ZXY", [("Z", "X"), ("Z", "Y"), ("X", "Y")])
BOW = complete("XY", [("X", "Y")])
SPLIT = Regime("r", cut={("X", "Y"): ANY})
EFFECT = identify("P(Y[x] = y)", BACK_DOOR, [OBSERVATIONAL]).expression


def test_back_door_number_by_hand():
    law = np.random.default_rng(0).dirichlet(np.ones(8)).reshape(2, 2, 2)
    by_hand = sum(law[z].sum() * law[z, 1, 0] / law[z, 1].sum() for z in range(2))
    table = Table((), ("Z", "X", "Y"), law)
    assert evaluate(EFFECT, {"obs": table}, {"x": 1, "y": 0}) == pytest.approx(by_hand, abs=1e-15)
    both = evaluate(EFFECT, {"obs": table}, free=[Symbol("X", "x"), Symbol("Y", "y")])
    assert both.shape == (2, 2)
    assert both[1, 0] == pytest.approx(by_hand, abs=1e-15)
    assert both.sum(axis=1) == pytest.approx(1)


def test_a_cell_that_is_never_seen_is_named_and_not_taken_for_zero():
    law = np.array([[[0.2, 0.1], [0.1, 0.1]], [[0.25, 0.25], [0.0, 0.0]]])
    table = Table((), ("Z", "X", "Y"), law)
    with pytest.raises(PositivityError, match=r"conditions on Z = 1, X = 1 in regime 'obs'"):
        evaluate(EFFECT, {"obs": table}, {"x": 1, "y": 0})
    assert 0 < evaluate(EFFECT, {"obs": table}, {"x": 0, "y": 0}) < 1


def test_a_stratum_without_anybody_needs_no_conditional_probability():
    law = np.array([[[0.5, 0.1], [0.2, 0.2]], [[0.0, 0.0], [0.0, 0.0]]])
    got = evaluate(EFFECT, {"obs": Table((), ("Z", "X", "Y"), law)}, {"x": 1, "y": 0})
    assert got == pytest.approx(0.5)


def test_condition_of_probability_zero():
    top, bottom = (Probability("obs", ((name, Symbol(name, name.lower())),)) for name in "ZX")
    table = Table((), ("Z", "X"), np.array([[0.5, 0.0], [0.5, 0.0]]))
    with pytest.raises(PositivityError, match="condition of the query has probability zero"):
        evaluate(Fraction(top, bottom), {"obs": table}, {"z": 0, "x": 1})
    assert evaluate(Fraction(top, bottom), {"obs": table}, {"z": 0, "x": 0}) == pytest.approx(0.5)


def test_sums_and_products_simplify_to_what_they_are():
    a, b, c = (Symbol(name, name.lower(), "sum") for name in "ABC")
    pa, pba = Probability("r", (("A", a),)), Probability("r", (("B", b),), (("A", a),))
    joint = Probability("r", (("A", a), ("B", b)))
    assert product([pba, pa]) == joint
    assert total([a], joint) == Probability("r", (("B", b),))
    assert total([b], pba).to_text() == "1"
    other = Probability("r", (("C", c),), (("A", a),))
    kept = total([a, b], product([pa, other]))
    assert kept == Probability("r", (("C", c),))
    loose = total([a], Product((Probability("s", (("A", a),)), other)))
    assert isinstance(loose, Sum)
    assert loose.free == {c}
    # What a sum binds is not the symbol of the same name outside of it.
    assert loose.substitute({a: Symbol("A", "a1")}) == loose
    assert loose.substitute({c: Symbol("C", "c1")}).free == {Symbol("C", "c1")}


@pytest.mark.parametrize(
    ("array", "words"),
    [
        (np.full((2, 2), 0.3), "sums to 1.2 instead of 1"),
        (np.array([[0.6, 0.6], [-0.1, -0.1]]), "holds -0.1"),
        (np.array([[np.nan, 0.5], [0.25, 0.25]]), "holds nan"),
        (np.array([0.5, 0.5]), "has 1 axes"),
    ],
)
def test_tables_that_are_no_laws(array, words):
    with pytest.raises(InputError, match=words):
        Table((), ("X", "Y"), array)


def test_one_law_of_several_that_does_not_sum_to_one():
    with pytest.raises(InputError, match=r"sums to 0.9 instead of 1"):
        Table(("X",), ("Y",), np.array([[0.5, 0.5], [0.4, 0.5]]))


def test_values_that_cannot_be_used():
    table = Table((), ("Z", "X", "Y"), np.full((2, 2, 2), 1 / 8))
    with pytest.raises(InputError, match="The symbol 'x' of 'X' has no value; give one of 0, 1"):
        evaluate(EFFECT, {"obs": table}, {"y": 0})
    with pytest.raises(InputError, match="x = 2 is no value of 'X'; the values are 0, 1"):
        evaluate(EFFECT, {"obs": table}, {"y": 0, "x": 2})
    with pytest.raises(InputError, match="needs data of regime 'obs', which are missing; did you mean 'obs1'"):
        evaluate(EFFECT, {"obs1": table}, {"y": 0, "x": 1})
    with pytest.raises(InputError, match="has no axis 'Z'"):
        evaluate(EFFECT, {"obs": Table((), ("X", "Y"), np.full((2, 2), 0.25))}, {"y": 0, "x": 1})
    treated = identify("P(Y[x] = y | X = x')", BOW, [SPLIT]).expression
    split = Table(("X->Y",), ("X", "Y"), np.full((2, 2, 2), 0.25))
    with pytest.raises(InputError, match="x and x' are both 1; two symbols of a variable are two values"):
        evaluate(treated, {"r": split}, {"x": 1, "x'": 1, "y": 0})


def test_tables_of_different_domains_are_told_apart():
    found = identify("P(Y[x] = y)", ADMG("XMY", [("X", "M"), ("M", "Y")]),
                     [Regime("a", observed={"X", "M"}), Regime("b", observed={"M", "Y"})])  # fmt: skip
    a = Table((), ("X", "M"), np.full((2, 3), 1 / 6))
    b = Table((), ("M", "Y"), np.full((2, 2), 1 / 4))
    with pytest.raises(InputError, match="The values of 'M' are 0, 1 in regime 'b' and 0, 1, 2 in another"):
        evaluate(found.expression, {"a": a, "b": b}, {"x": 0, "y": 0})


def frame(**columns):
    return pd.DataFrame(columns)


def test_frames_of_any_type_become_counts():
    rows = frame(X=["no", "no", "yes", "yes"], Y=[1.0, 0.0, 1.0, 1.0], other=[None] * 4)
    drawn = read_samples({"obs": rows}, ADMG("XY", [("X", "Y")]), [OBSERVATIONAL])
    assert drawn["obs"].labels == {"X": ("no", "yes"), "Y": ("0", "1")}
    found = identify("P(Y[X=no] = 1)", ADMG("XY", [("X", "Y")]), [OBSERVATIONAL]).expression
    assert evaluate(found, drawn) == 0.5
    ten = read_samples({"obs": frame(X=[10, 9, 100], Y=[True, False, True])}, ADMG("XY"), [OBSERVATIONAL])
    assert ten["obs"].labels == {"X": ("9", "10", "100"), "Y": ("0", "1")}


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ({"obs": frame(X=[1, 0], y=[1, 0])}, "regime 'obs' have no column 'Y'; did you mean 'y'"),
        ({"obs": frame(X=[1, None], Y=[1, 0])}, "Column 'X' of regime 'obs' is empty in line 3"),
        ({"r": frame(X=[1, 0], Y=[1, 0])}, "regime 'r' have no column 'X->Y'"),
        ({"q": frame(X=[1, 0], Y=[1, 0])}, "data for 'q', which is no regime"),
    ],
)
def test_frames_that_cannot_be_used(data, words):
    with pytest.raises(InputError) as caught:
        read_samples(data, BOW, [OBSERVATIONAL, SPLIT])
    assert words in str(caught.value)


def test_estimate_approaches_the_truth_and_its_interval_is_that_of_a_proportion():
    rng = np.random.default_rng(1)
    model = random_model(rng, BOW)
    found = identify("P(Y = y)", BOW, [OBSERVATIONAL])
    drawn = read_samples({"obs": sample(rng, model, OBSERVATIONAL, 4000)}, BOW, [OBSERVATIONAL])
    got = estimate(found.expression, drawn, {"y": 1}, n_boot=800, rng=rng)
    reach = 1.96 * np.sqrt(got.value * (1 - got.value) / 4000)
    assert got.low == pytest.approx(got.value - reach, abs=0.1 * 2 * reach)
    assert got.high == pytest.approx(got.value + reach, abs=0.1 * 2 * reach)
    assert got.failed == 0
    again = estimate(found.expression, drawn, {"y": 1}, n_boot=30, rng=np.random.default_rng(2))
    same = estimate(found.expression, drawn, {"y": 1}, n_boot=30, rng=np.random.default_rng(2))
    assert (again.replicates == same.replicates).all()


def test_thin_cells_are_counted_and_too_many_of_them_refused():
    rows = frame(X=[0] * 50 + [1, 1], Y=[0, 1] * 25 + [1, 1], **{"X->Y": [0, 1] * 26})
    drawn = read_samples({"r": rows}, BOW, [SPLIT])
    found = identify("P(Y[x] = y | X = x')", BOW, [SPLIT]).expression
    got = estimate(found, drawn, {"x": 0, "x'": 1, "y": 1}, n_boot=200)
    assert 0.25 < got.failed / 200 < 0.5  # (51 / 52)^52 = 0.364
    thin = frame(X=[0] * 51 + [1], Y=[0, 1] * 26, **{"X->Y": [0] * 51 + [1]})
    drawn = read_samples({"r": thin}, BOW, [SPLIT])
    with pytest.raises(PositivityError, match="X->Y = 0, X = 1 in regime 'r'"):
        estimate(found, drawn, {"x": 0, "x'": 1, "y": 1})


def test_values_that_have_no_effect_are_taken_where_the_data_are():
    graph = ADMG("ABCD", [("A", "B"), ("A", "C"), ("A", "D"), ("B", "C"), ("B", "D")], [("A", "B"), ("C", "D")])
    regime = Regime("r", cut={("A", "B"): ANY, ("A", "D"): ANY, ("B", "D"): ANY})
    law = random_model(np.random.default_rng(3), graph).table(regime)
    found = identify("P(D[A=a, B=b'] = d, C[A=a', B=b] = c)", graph, [regime]).expression
    assert {symbol.kind for symbol in found.free} == {"value", "any"}
    values = {"a": 0, "a'": 1, "b": 0, "b'": 1, "c": 0, "d": 1}
    truth = evaluate(found, {"r": law}, values)
    # A law that is only known where A->B is fed 1 is enough.
    units = np.zeros((2, 2, 2))
    units[(slice(None),) * law.settings.index("A->B") + (1,)] = 10
    array = law.array * (units > 0).reshape(2, 2, 2, 1, 1, 1, 1)
    thin = Table(law.settings, law.variables, array, units / units.sum(), units)
    assert evaluate(found, {"r": thin}, values) == pytest.approx(truth, abs=1e-14)


def test_interval_covers_and_the_average_effect_does_not():
    found = coverage(0, silent, samples=12, units=2000, n_boot=60, rule="identified")
    control = coverage(0, silent, samples=12, units=2000, n_boot=60, rule="average")
    assert found["covered"] >= 9 / 12
    assert control["covered"] < found["covered"]
    assert found["error"] < 0.05 < control["error"]
