"""The paper's formula and its parts, against figures worked out by hand."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from workingpapers.foundations.errors import InputError
from workingpapers.governance.ai_lifecycle import attribution as a
from workingpapers.governance.ai_lifecycle.experiments import design_pairs, life_cycle


def test_h100_server_per_gpu_hour():
    burden = a.device_burden(164, 5700, 8)
    assert burden == 876.5
    assert 1000 * burden / (4 * 8760) == pytest.approx(25.01, abs=0.005)
    assert pytest.approx(322.56) == 0.7 * 1.2 * 384


def test_break_even_of_78_tonnes():
    assert a.break_even_volume(78_000, 1e-3 * 0.384) == pytest.approx(2.031e8, rel=1e-3)
    assert a.break_even_volume(78_000, 3e-4 * 0.384) == pytest.approx(6.77e8, rel=1e-3)


def test_limits_of_the_volume():
    parts = {
        "inference": 2e-4,
        "use_time": 0.01,
        "embodied": 876.5,
        "lifespan": 35_040,
        "experimentation": 26_000,
        "training": 52_000,
    }
    marginal = 2e-4 + 0.01 * 876.5 / 35_040
    assert a.cost_per_unit(**parts, volume=1e30) == pytest.approx(marginal, rel=1e-12)
    assert a.cost_per_unit(**parts, volume=1) == pytest.approx(78_000 + marginal, rel=1e-12)
    volume = 12_345.0  # conservation: all units together bear exactly the inventory
    assert volume * a.cost_per_unit(**parts, volume=volume) == pytest.approx(78_000 + volume * marginal, rel=1e-12)


@given(st.lists(st.integers(1, 10**9), min_size=1, max_size=6), st.sampled_from(a.RULES))
def test_shares_sum_to_exactly_one(keys, rule):
    products = [f"p{i}" for i in range(len(keys))]
    found = a.shares(rule, products, {"device_hours": keys, "tokens": keys, "revenue": keys})
    assert sum(found.values()) == 1
    assert all(isinstance(share, Fraction) for share in found.values())


def test_shares_follow_their_rule():
    keys = {"device_hours": [1, 2], "tokens": [0, 5], "revenue": ["0.1", "0.2"]}
    assert a.shares("physical", ["base", "chat"], keys)["chat"] == Fraction(2, 3)
    assert a.shares("tokens", ["base", "chat"], keys)["chat"] == 1
    assert a.shares("economic", ["base", "chat"], keys)["chat"] == Fraction(2, 3)
    assert a.shares("equal", ["base", "chat"])["chat"] == Fraction(1, 2)
    assert a.shares("cut_off", ["base", "chat"])["chat"] == 0
    assert a.shares("first_use", ["base", "chat"], first="chat")["chat"] == 1


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: a.cost_per_unit(1, 1, 1, 1, 1, 1, 0), "volume is 0"),
        (lambda: a.cost_per_unit(1, 1, 1, -3, 1, 1, 1), "lifespan is -3"),
        (lambda: a.break_even_volume(1, 0), "marginal is 0"),
        (lambda: a.check_shares({"a": "1/3", "b": "1/3"}), "sum to 2/3"),
        (lambda: a.shares("tokens", ["a", "b"]), "needs tokens"),
        (lambda: a.shares("tokens", ["a", "b"], {"tokens": [1]}), "one number"),
        (lambda: a.shares("cut_off", ["a"], first="z"), "'z'"),
        (lambda: a.shares("equal", ["a", "a"]), "name each once"),
    ],
)
def test_impossible_numbers_are_refused(call, said):
    with pytest.raises(InputError, match=said):
        call()


def test_water_takes_the_energy_before_pue_for_the_site():
    assert a.water(10, 1.2, 0.5, 3) == pytest.approx(41)


def test_trapezoid_of_a_ramp():
    seconds = np.array([0.0, 1800.0, 3600.0])
    assert a.energy_of_power(seconds, np.array([0.0, 500.0, 1000.0])) == pytest.approx(0.5)


def test_training_hours_by_operations():
    assert a.training_hours(7e9, 1e12, 1e15, 0.5) == pytest.approx(6 * 7e21 / 5e14 / 3600)


def test_crossover_agrees_with_the_sign_of_the_difference_in_every_pair():
    rng = np.random.default_rng(0)
    pair = design_pairs(rng, 2000)

    def at(volume):
        return life_cycle({**pair, "volume": np.broadcast_to(np.asarray(volume, dtype=float), (2000, 1))})

    v = at(1e300)
    f = (at(1.0) - v).astype(float)
    crossover = a.crossover_volume(f[:, 0], v[:, 0], f[:, 1], v[:, 1])
    regular = (f[:, 1] > f[:, 0]) & (v[:, 1] < v[:, 0])  # B trains dearer and serves cheaper
    assert regular.mean() > 0.5
    assert np.isfinite(crossover[regular]).all()
    dominated = ((f[:, 1] > f[:, 0]) & (v[:, 1] > v[:, 0])) | ((f[:, 1] < f[:, 0]) & (v[:, 1] < v[:, 0]))
    assert np.isnan(crossover[dominated]).all()
    totals = life_cycle(pair)
    first_better = totals[:, 0] < totals[:, 1]
    assert (first_better[regular] == (pair["volume"][regular, 0] < crossover[regular])).all()
