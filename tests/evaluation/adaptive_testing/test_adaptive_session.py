"""Tests of one and of many examinees: constraints, stopping, exposure, measures."""

from dataclasses import replace

import numpy as np
import pytest

from workingpapers.evaluation.adaptive_testing.bank import Bank, estimate_full
from workingpapers.evaluation.adaptive_testing.constraints import Constraints
from workingpapers.evaluation.adaptive_testing.selectors import CLASSIC, MaximumInformation, Random, State
from workingpapers.evaluation.adaptive_testing.session import AdaptiveTest, Session
from workingpapers.evaluation.adaptive_testing.simulation import (
    Simulation,
    fit_eligibility,
    hold_out,
    items_needed,
    prediction,
    simulate,
)
from workingpapers.foundations import item_response
from workingpapers.foundations.errors import InputError
from workingpapers.foundations.item_response import Items


def bank_and_answers(n=30, examinees=200, seed=0):
    rng = np.random.default_rng(seed)
    items = Items.dichotomous(rng.lognormal(0, 0.4, n), rng.normal(size=n))
    return Bank.from_items(items), item_response.simulate(rng.normal(size=examinees), items, rng)


def answer_all(session, y):
    names = session.test.bank.names
    while (item := session.next_item()) is not None:
        session.answer(item, int(y[names.index(item)]))
    return [names.index(item) for item in session.answers]


@pytest.mark.parametrize("name", ["mfi", "kli", "mepv", "becat"])
@pytest.mark.parametrize("target", [None, 0.5])
def test_simulation_is_the_session_of_each_examinee(name, target):
    bank, y = bank_and_answers(20, 25)
    test = AdaptiveTest(bank, CLASSIC[name], 8, standard_error=target)
    run = simulate(test, y)
    for person in range(25):
        session = Session(test)
        asked = answer_all(session, y[person])
        assert asked == run.asked[person, : run.lengths[person]].tolist()
        assert session.theta == pytest.approx(run.theta[person, -1], abs=1e-8)
        assert session.error.max() == pytest.approx(run.error[person, -1], abs=1e-8)
    assert run.full == pytest.approx(estimate_full(bank, y))


@pytest.mark.parametrize("name", list(CLASSIC))
def test_no_item_twice_and_none_without_an_answer(name):
    bank, y = bank_and_answers(15, 60)
    y[:, 3] = np.nan
    y[np.random.default_rng(1).random(y.shape) < 0.2] = np.nan
    length = int((~np.isnan(y)).sum(axis=1).min())
    run = simulate(AdaptiveTest(bank, CLASSIC[name], length), y)
    assert all(len(set(row)) == length for row in run.asked)
    assert 3 not in run.asked
    assert not np.isnan(np.take_along_axis(y, run.asked, axis=1)).any()
    assert np.isfinite(run.theta).all()
    assert np.isfinite(run.error).all()


def test_held_out_answers_are_never_asked():
    bank, y = bank_and_answers(20, 50)
    query = hold_out(y, 10, np.random.default_rng(0))
    assert (query.sum(axis=1) == 4).all()
    run = simulate(AdaptiveTest(bank, MaximumInformation(), 10), y, query=query)
    assert not np.take_along_axis(query, run.asked, axis=1).any()
    assert (hold_out(y, 18, np.random.default_rng(0)).sum(axis=1) == 2).all()


def test_test_stops_at_its_precision_and_at_its_pass_mark():
    bank, y = bank_and_answers(40, 100)
    test = AdaptiveTest(bank, MaximumInformation(), 30, standard_error=0.45)
    run = simulate(test, y)
    stopped = run.lengths < 30
    assert stopped.any()
    last = run.error[np.arange(100), run.lengths - 1]
    before = run.error[np.arange(100), run.lengths - 2]
    assert (last[stopped] <= 0.45).all()
    assert (before > 0.45).all()
    cut = simulate(replace(test, standard_error=None, cut=0.0), y)
    reach = np.abs(cut.theta[:, -1, 0]) / cut.error[:, -1]
    assert ((reach > 1.96) == (cut.lengths < 30))[cut.lengths < 30].all()
    assert (cut.lengths < 30).any()


def test_blueprint_and_enemies_are_kept():
    bank, y = bank_and_answers(24, 80)
    areas = tuple("abc"[i % 3] for i in range(24))
    enemies = tuple("x" if i < 6 else "y" if i < 9 else "" for i in range(24))
    rules = Constraints(areas, {"a": 5, "b": 1}, {"c": 2}, enemies)
    free = simulate(AdaptiveTest(bank, MaximumInformation(), 9), y)
    run = simulate(AdaptiveTest(bank, MaximumInformation(), 9, constraints=rules), y)

    def counts(simulation, labels, label):
        return np.isin(simulation.asked, np.flatnonzero(np.array(labels) == label)).sum(axis=1)

    assert (counts(free, areas, "a") < 5).any()
    assert (counts(free, enemies, "x") > 1).any()
    assert (counts(run, areas, "a") >= 5).all()
    assert (counts(run, areas, "b") >= 1).all()
    assert (counts(run, areas, "c") <= 2).all()
    assert (counts(run, enemies, "x") <= 1).all()
    assert (counts(run, enemies, "y") <= 1).all()


def test_choice_among_the_best_is_among_the_best():
    bank, _ = bank_and_answers(20, 1)
    test = AdaptiveTest(bank, MaximumInformation(), 5, constraints=Constraints(top=3))
    count = 3000
    state = State(
        np.zeros((count, 20), np.int8), np.zeros((count, 1)), np.ones((count, 1, 1)), np.empty((count, 0), int), 5
    )
    found = test.choose(state, np.ones((count, 20), bool), np.random.default_rng(0))
    best = np.argsort(-bank.information(np.zeros((1, 1)))[0])[:3]
    assert set(found) == set(best)
    assert np.bincount(found)[best] == pytest.approx(1000, abs=120)


def test_exposure_comes_down_to_the_limit():
    bank, y = bank_and_answers(40, 1500)
    test = AdaptiveTest(bank, MaximumInformation(), 8)
    assert simulate(test, y).exposure.max() == 1.0
    limited = fit_eligibility(test, y, 0.3)
    rates = np.mean([simulate(limited, y, seed=100 + seed).exposure for seed in range(5)], axis=0)
    assert rates.max() < 0.33
    assert rates.sum() == pytest.approx(8)


def test_random_selection_is_even():
    bank, y = bank_and_answers(10, 4000)
    run = simulate(AdaptiveTest(bank, Random(), 3), y)
    assert run.exposure == pytest.approx(0.3, abs=0.04)


def test_overlap_is_the_mean_over_pairs():
    rng = np.random.default_rng(2)
    asked = np.array([rng.permutation(9)[:4] for _ in range(30)])
    run = Simulation("x", asked, np.zeros((30, 4, 1)), np.zeros((30, 4)), np.zeros((30, 1)), 9)
    shares = [len(set(asked[i]) & set(asked[j])) / 4 for i in range(30) for j in range(i)]
    assert run.overlap == pytest.approx(np.mean(shares))


def test_squared_error_and_bias():
    theta = np.array([[[1.0], [0.5]], [[0.0], [0.0]]])
    run = Simulation("x", np.zeros((2, 2), int), theta, np.zeros((2, 2)), np.array([[0.0], [1.0]]), 3)
    assert run.squared_error.tolist() == [1.0, 0.625]
    assert run.bias[:, 0].tolist() == [0.0, -0.25]
    assert run.root_mean_squared_error(np.zeros((2, 1))) == pytest.approx(np.sqrt([0.5, 0.125]))


def test_items_needed_lie_between_whole_numbers():
    assert items_needed(np.array([1.0, 0.5, 0.25]), 0.25) == 3.0
    assert items_needed(np.array([1.0, 0.5, 0.125]), 0.25) == 2.5
    assert items_needed(np.array([1.0, 0.5]), 2.0) == 1.0
    assert items_needed(np.array([1.0, 0.5]), 0.1) == 3.0


def test_area_under_the_curve_counts_ordered_pairs():
    bank, y = bank_and_answers(6, 20)
    theta = np.round(np.random.default_rng(3).normal(size=(20, 1)))
    query = np.random.default_rng(4).random(y.shape) < 0.5
    accuracy, area = prediction(bank, theta, y, query)
    p, answers = bank.probabilities(theta)[query], y[query]
    pairs = [(a > b) + 0.5 * (a == b) for a in p[answers == 1] for b in p[answers == 0]]
    assert area == pytest.approx(np.mean(pairs))
    assert accuracy == np.mean((p > 0.5) == (answers == 1))


def test_session_refuses_what_it_did_not_offer():
    bank, _ = bank_and_answers(5, 1)
    session = Session(AdaptiveTest(bank, MaximumInformation(), 2))
    with pytest.raises(InputError, match="was not offered"):
        session.answer("item1", 1)
    first = session.next_item()
    assert session.next_item() == first
    other = next(name for name in bank.names if name != first)
    with pytest.raises(InputError, match=f"'{other}' was not offered; the item to answer is '{first}'"):
        session.answer(other, 1)
    with pytest.raises(InputError, match="there is no item 'item9'"):
        session.answer("item9", 1)
    with pytest.raises(InputError, match="is 2; give 1"):
        session.answer(first, 2)
    session.answer(first, 1)
    assert session.theta[0] > 0
    session.answer(session.next_item(), 0)
    assert session.finished
    assert session.next_item() is None


@pytest.mark.parametrize(
    ("rules", "length", "told"),
    [
        (Constraints(("a",) * 9), 3, "9 areas for 10 items"),
        (Constraints(("alg",) * 10, {"agl": 1}), 3, "did you mean 'alg'"),
        (Constraints(("a",) * 10, {"a": 4}), 3, "at least 4 items but can give 3"),
        (Constraints(("a", "b") * 5, {"a": 2, "b": 2}), 3, "at least 4 items"),
        (Constraints(("a", "b") * 5, {}, {"a": 1, "b": 1}), 3, "fewer than the 3"),
        (Constraints(top=0), 3, "the 0 best"),
        (Constraints(), 11, "11 items cannot be asked from 10"),
    ],
)
def test_impossible_tests_are_refused_at_once(rules, length, told):
    bank, _ = bank_and_answers(10, 1)
    with pytest.raises(InputError, match=told):
        AdaptiveTest(bank, MaximumInformation(), length, constraints=rules)


def test_simulation_names_what_does_not_fit():
    bank, y = bank_and_answers(10, 5)
    test = AdaptiveTest(bank, MaximumInformation(), 6)
    with pytest.raises(InputError, match="9 items and the bank has 10"):
        simulate(test, y[:, :9])
    y[2, :7] = np.nan
    with pytest.raises(InputError, match="Examinee 3 has 3 answers"):
        simulate(test, y)
    enemies = replace(test, constraints=Constraints(enemies=("x",) * 10))
    with pytest.raises(InputError, match="After 1 items the constraints leave nothing"):
        simulate(enemies, np.nan_to_num(y))
    with pytest.raises(InputError, match=r"at most 0\.5 is out of reach"):
        fit_eligibility(test, np.nan_to_num(y), 0.5)
