"""Units, spreads, pedigrees, streams."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import lognorm, triang, truncnorm

from workingpapers.foundations.errors import InputError
from workingpapers.governance.ai_lifecycle import units
from workingpapers.governance.ai_lifecycle.quantities import (
    PEDIGREE,
    Quantity,
    combined_spread,
    draw,
    pedigree_spread,
    quantity,
)


def test_units():
    assert units.scale("kWh", "MJ") == pytest.approx(3.6)
    assert units.scale("year", "hour") == 8760
    assert units.scale("gCO2e/kWh", "kgCO2e/kWh") == pytest.approx(1e-3)
    assert units.scale("tCO2e", "kgCO2e") == pytest.approx(1000)
    assert units.scale("kWh/GB", "kWh/MB") == pytest.approx(1e-3)
    made = units.registry()
    with pytest.raises(Exception, match="Cannot convert"):
        made.Quantity(1, "L") + made.Quantity(1, "kg")
    with pytest.raises(Exception, match="Cannot convert"):
        made.Quantity(1, "kgCO2e") + made.Quantity(1, "kgSbe")


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        ("12 L", "'L' cannot be turned into 'kWh'"),
        ("many kWh", "is not an amount"),
        ({"value": "12 kWh", "gsb": 2}, "did you mean 'gsd'"),
        ({"value": 12}, "cannot be turned"),
        ({"value": "-3 kWh"}, "it must be at least 0"),
        ({"value": "3 kWh", "low": "1 kWh"}, "only one of low and high"),
        ({"value": "3 kWh", "low": "4 kWh", "high": "5 kWh"}, "must enclose"),
        ({"value": "3 kWh", "gsd": 0.5}, "at least 1"),
        ({"value": "3 kWh", "gsd": 2, "sd": "1 kWh"}, "several spreads"),
        ({"value": "3 kWh", "pedigree": [1, 2, 3]}, "five scores"),
        ({"value": "3 kWh", "year": 20}, "whole year"),
        ({"unit": "kWh"}, "has no value"),
        ({"value": float("nan"), "unit": "kWh"}, "finite"),
        ({"value": True, "unit": "kWh"}, "finite"),
    ],
)
def test_what_is_no_quantity(raw, said):
    with pytest.raises(InputError, match=said) as caught:
        quantity(raw, "kWh", "process.a.electricity")
    assert "process.a.electricity" in str(caught.value)


def test_pedigree_factor():
    assert math.exp(2 * combined_spread(1.2, 1.5, 1.1)) == pytest.approx(1.5757, abs=1e-4)
    worst = math.sqrt(sum(math.log(row[-1]) ** 2 for row in PEDIGREE) + math.log(1.05) ** 2)
    assert 2 * pedigree_spread((5, 5, 5, 5, 5)) == pytest.approx(worst)
    assert 2 * pedigree_spread((1, 1, 1, 1, 1)) == pytest.approx(math.log(1.05))
    assert all(list(row) == sorted(row) and row[0] == 1 for row in PEDIGREE)


def test_product_of_lognormals():
    names = {str(i): Quantity(2.0, kind="lognormal", low=0, spread=s) for i, s in enumerate((0.1, 0.3, 0.2))}
    log = np.log(np.prod(list(draw(names, 200_000, 0).values()), axis=0))
    assert np.exp(np.median(log)) == pytest.approx(8.0, rel=0.005)
    assert log.var() == pytest.approx(0.14, rel=0.01)


def test_quantiles_are_those_of_scipy():
    u = np.linspace(0.01, 0.99, 25)
    three = Quantity(2.0, kind="triangular", low=1, high=5)
    assert three.ppf(u) == pytest.approx(triang(c=0.25, loc=1, scale=4).ppf(u))
    cut = Quantity(1.0, kind="normal", low=0.0, high=np.inf, spread=0.8)
    assert cut.ppf(u) == pytest.approx(truncnorm(-1.25, np.inf, loc=1, scale=0.8).ppf(u))
    free = Quantity(3.0, kind="lognormal", low=0.0, spread=0.5)
    assert free.ppf(u) == pytest.approx(lognorm(0.5, scale=3).ppf(u))
    pue = Quantity(1.1, kind="lognormal", low=1.0, spread=0.2)
    assert pue.ppf(u).min() > 1
    for item in (three, cut, free, pue):
        assert [item.cdf(float(x)) for x in item.ppf(u)] == pytest.approx(u, abs=2e-3)


@given(st.floats(0.1, 100), st.floats(1.01, 3), st.sampled_from(["MJ", "kWh", "J"]))
def test_a_unit_does_not_change_the_distribution(value, gsd, unit):
    there = {"value": value / units.scale(unit, "kWh"), "unit": unit, "gsd": gsd}
    u = np.array([0.05, 0.5, 0.95])
    assert quantity(there, "kWh", "a").ppf(u) == pytest.approx(
        quantity({"value": value, "unit": "kWh", "gsd": gsd}, "kWh", "a").ppf(u)
    )


def test_streams_belong_to_names():
    one = {
        "a": Quantity(1.0, kind="lognormal", low=0, spread=0.3),
        "b": Quantity(1.0, kind="lognormal", low=0, spread=0.3),
    }
    more = {"unused": Quantity(5.0, kind="uniform", low=4, high=6), **one}
    first, again, wider = draw(one, 50, 7), draw(one, 50, 7), draw(more, 50, 7)
    assert (first["a"] == again["a"]).all()
    assert (first["a"] == wider["a"]).all()
    assert (first["a"] != first["b"]).all()
    assert (first["a"] != draw(one, 50, 8)["a"]).all()
