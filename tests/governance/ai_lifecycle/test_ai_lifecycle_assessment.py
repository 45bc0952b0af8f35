"""Assessment, allocation, uncertainty, sensitivity, comparison."""

import csv
import io
import math

import numpy as np
import pytest
from scipy.stats import norm

from workingpapers.foundations.errors import InputError
from workingpapers.governance.ai_lifecycle import inventory
from workingpapers.governance.ai_lifecycle.assessment import allocation_table, assess, ledger
from workingpapers.governance.ai_lifecycle.checks import checks
from workingpapers.governance.ai_lifecycle.comparison import compare, what_would_turn
from workingpapers.governance.ai_lifecycle.experiments import small_study
from workingpapers.governance.ai_lifecycle.quantities import Quantity
from workingpapers.governance.ai_lifecycle.sensitivity import elasticities, sobol, switches, tornado, total_of
from workingpapers.governance.ai_lifecycle.tables import ledger_csv


def test_volume_times_unit_is_the_inventory(document):
    per_unit = assess(inventory.parse(document), samples=100)
    document["functional_unit"] |= {"amount": 1e6}
    whole = assess(inventory.parse(document), samples=100)
    for name, total in per_unit.totals.items():
        assert 1e6 * total == pytest.approx(whole.totals[name], rel=1e-12)
        upstream, marginal = per_unit.upstream_and_marginal(name)
        assert upstream + 1e6 * marginal == pytest.approx(whole.totals[name], rel=1e-12)


def test_water_counts_the_site_before_pue(document):
    document["process"] = {"serving": {"stage": "inference", "facility": "hall", "electricity": "10 kWh"}}
    assert assess(inventory.parse(document), samples=100).totals["water"] == pytest.approx(41)


def test_direct_flows_are_characterised(document):
    document["process"]["serving"]["flows"] = {"methane_fossil": "1 kg", "nitrous_oxide": "1 kg", "so2": "2 kg"}
    document["category"] = {
        "acidification": {"unit": "kgSO2e", "factors": {"so2": {"value": 1.5, "source": "t", "year": 2020}}}
    }
    found = assess(inventory.parse(document), samples=100)
    direct = found.central.table[0, 2, 3]
    assert direct[found.categories.index("gwp")] * 1000 == pytest.approx(29.8 + 273)
    assert found.totals["acidification"] * 1000 == pytest.approx(3.0)
    document["gwp_set"] = "AR5"
    older = assess(inventory.parse(document), samples=100)
    assert older.central.table[0, 2, 3, found.categories.index("gwp")] * 1000 == pytest.approx(30 + 265)


def test_market_based_electricity_stands_beside(document):
    document["grid"]["site"]["gwp_market"] = "100 gCO2e/kWh"
    totals = assess(inventory.parse(document), samples=100)
    kwh = totals.totals["energy"]
    assert totals.totals["gwp"] - totals.totals["gwp_market"] == pytest.approx(kwh * 0.284)


def test_a_rule_changes_the_share_and_nothing_else(study):
    table = allocation_table(study)
    assert set(table) == {"declared", "physical", "tokens", "equal", "cut_off", "first_use"}  # no revenue is given
    search = assess(study, rule="tokens", samples=100)
    whole = search.by_stage()[0].sum(axis=0)
    k = search.categories.index("gwp")
    rest = search.totals["gwp"] - whole[k]
    for rule, share in {"physical": 2 / 3, "tokens": 1, "equal": 0.5, "cut_off": 0, "declared": 2 / 3}.items():
        assert table[rule]["gwp"] == pytest.approx(rest + share * whole[k], rel=1e-12)
    with pytest.raises(InputError, match="needs revenue"):
        assess(study, rule="economic", samples=100)


def test_every_product_together_bears_the_whole(document):
    totals = []
    for product in ("base", "chat"):
        document["process"]["search"]["shared"]["product"] = product
        totals.append(assess(inventory.parse(document), samples=100).by_stage()[0].sum(axis=0))
    del document["process"]["search"]["shared"]
    alone = assess(inventory.parse(document), samples=100).by_stage()[0].sum(axis=0)
    assert totals[0] + totals[1] == pytest.approx(alone, rel=1e-12)


def test_the_ledger_adds_up(study):
    result = assess(study, samples=100)
    rows = list(csv.DictReader(io.StringIO(ledger_csv(result))))
    assert len(rows) == len(ledger(result))
    for row in rows:
        assert float(row["amount"]) * float(row["factor"]) == pytest.approx(float(row["impact"]), rel=1e-12)
    for name, total in result.totals.items():
        assert sum(float(row["impact"]) for row in rows if row["category"] == name) == pytest.approx(total, rel=1e-12)


def test_monte_carlo_of_a_product_is_its_closed_form():
    study = small_study(
        {"serve": {"stage": "inference", "electricity": {"value": 2, "unit": "kWh", "gsd": math.exp(0.3)}}},
        math.exp(0.4),
    )
    found = assess(study, samples=200_000)
    low, middle, high = found.interval("gwp")
    center = 2 * 1.2 * 0.4
    assert middle == pytest.approx(center, rel=0.01)
    assert [low, high] == pytest.approx([center * math.exp(sign * 1.95996 * 0.5) for sign in (-1, 1)], rel=0.02)


def test_same_seed_same_draws(study):
    first, again, other = assess(study, samples=300), assess(study, samples=300), assess(study, samples=300, seed=1)
    assert (first.samples == again.samples).all()
    assert (first.samples != other.samples).any()


def test_elasticities_are_shares(document):
    del document["process"]["serving"]["flows"]
    study = inventory.parse(document)
    result = assess(study, samples=100)
    k = result.categories.index("gwp")
    table = result.by_stage()[:, :, k]
    total = table.sum()
    found = elasticities(study.quantities, total_of(study, "gwp"))
    assert found["facility.hall.pue"] == pytest.approx(table[:, 0].sum() / total, abs=1e-6)
    assert found["grid.site.gwp"] == pytest.approx(table[:, 0].sum() / total, abs=1e-6)
    assert found["device.gpu.lifespan"] == pytest.approx(-table[:, 1].sum() / total, abs=1e-6)
    assert found["functional_unit.volume"] == pytest.approx(-table[:2].sum() / total, abs=1e-6)


def test_elasticities_are_those_of_differences(study):
    total = total_of(study, "water")
    found = elasticities(study.quantities, total)
    base = {name: np.array([value]) for name, value in study.medians.items()}
    for name in found:
        up, down = (float(total({**base, name: base[name] * (1 + step)})[0]) for step in (1e-5, -1e-5))
        assert found[name] == pytest.approx((up - down) / 2e-5 / float(total(base)[0]), abs=1e-6)


def test_sobol_of_a_product_of_lognormals():
    names = {str(i): Quantity(1.0, kind="lognormal", low=0, spread=s) for i, s in enumerate((0.1, 0.3, 0.2))}
    found = sobol(names, lambda values: values["0"] * values["1"] * values["2"], samples=8192)
    assert list(found) == ["1", "2", "0"]
    assert [found[str(i)][0] for i in range(3)] == pytest.approx([0.0669, 0.6267, 0.2716], abs=0.02)
    assert [found[str(i)][1] for i in range(3)] == pytest.approx([0.0762, 0.6588, 0.3001], abs=0.02)


def test_tornado_goes_to_the_deciles():
    names = {
        "a": Quantity(2.0, kind="lognormal", low=0, spread=0.3),
        "b": Quantity(5.0),
        "c": Quantity(1.0, kind="uniform", low=0, high=2),
    }
    rows = tornado(names, lambda values: values["a"] * values["b"] * values["c"])
    assert [row.name for row in rows] == ["c", "a"]
    assert (rows[0].low, rows[0].high) == pytest.approx((2.0, 18.0))
    assert (rows[1].low, rows[1].high) == pytest.approx(tuple(10 * np.exp(0.3 * norm.ppf([0.1, 0.9]))))


def test_switches_are_where_the_sign_turns():
    names = {"a": Quantity(2.0, kind="lognormal", low=0, spread=0.5), "b": Quantity(3.0), "x.pue": Quantity(1.5)}
    found = {item.name: item for item in switches(names, lambda v: v["b"] - v["a"] + 0 * v["x.pue"])}
    assert set(found) == {"a", "b"}
    assert found["a"].at == pytest.approx(3.0)
    assert found["a"].beyond == pytest.approx(1 - norm.cdf(math.log(1.5) / 0.5), abs=2e-3)
    assert found["b"].at == pytest.approx(2.0)
    assert found["b"].beyond is None
    assert not switches({"x.pue": Quantity(1.5)}, lambda v: v["x.pue"] - 0.9)  # a PUE below 1 is impossible


def test_paired_draws_cancel_what_is_shared():
    def serve(kwh, gsd):
        return {"serve": {"stage": "inference", "electricity": {"value": kwh, "unit": "kWh", "gsd": gsd}}}

    a, b = (assess(small_study(serve(kwh, gsd), 1.8), samples=40_000) for kwh, gsd in ((1.0, 1.1), (1.1, 1.2)))
    found = compare(a, b)[0]
    assert found.probability == pytest.approx(
        norm.cdf(math.log(1.1) / math.hypot(math.log(1.1), math.log(1.2))), abs=0.01
    )
    assert found.ratio[1] == pytest.approx(1 / 1.1, rel=0.01)
    apart = assess(small_study(serve(1.1, 1.2), 1.8), samples=40_000, seed=5)
    assert abs(float(np.mean(a.samples[:, 0] < apart.samples[:, 0])) - found.probability) > 0.05
    with pytest.raises(InputError, match="not paired"):
        compare(a, apart)


def test_a_study_equals_itself(study):
    result = assess(study, samples=200)
    for item in compare(result, result):
        assert item.ratio == (1, 1, 1)
        assert item.probability == 0.5
        assert math.isnan(item.crossover)
    assert not what_would_turn(result, result, "gwp")


def test_crossover_and_turning_volume_of_two_designs(document):
    document["functional_unit"]["volume"] = 1e9
    base = assess(inventory.parse(document), samples=200)
    document["process"]["training"]["tokens"] = 8e11
    document["process"]["serving"]["device_time"] = "10 second"
    other = assess(inventory.parse(document), samples=200)
    item = next(found for found in compare(other, base) if found.category == "gwp")
    (fa, va), (fb, vb) = other.upstream_and_marginal("gwp"), base.upstream_and_marginal("gwp")
    assert item.crossover == pytest.approx((fa - fb) / (vb - va))
    turning = {found.name: found for found in what_would_turn(other, base, "gwp")}
    assert turning["functional_unit.volume"].at == pytest.approx(item.crossover, rel=1e-6)


def test_unequal_services_are_not_compared(document):
    base = assess(inventory.parse(document), samples=100)
    document["functional_unit"]["quality"] = "100 tokens"
    with pytest.raises(InputError, match="differ in quality"):
        compare(assess(inventory.parse(document), samples=100), base)


def test_checks_name_what_is_missing(document):
    document["boundary"] = {"excluded": {"transport": "small"}}
    document["grid"]["site"]["gwp"]["year"] = 2019
    document["device"]["gpu"]["adp"] = "5e-3 kgSbe"
    del document["facility"]["hall"]["wue"]
    study = inventory.parse(document)
    text = " ".join(item.text for item in checks(study, elasticities(study.quantities, total_of(study, "gwp"))))
    for said in (
        "includes evaluation", "transport is left out: small", "grid.site has no adp", "facility.hall has no water",
        "the oldest grid.site.gwp of 2019", "name no source",
        "process.training: electricity or device time is estimated",
        "device.gpu has no primary_energy",
    ):  # fmt: skip
        assert said in text, said
    assert "device.gpu has no adp" not in text


def test_recovery_credit_stands_apart(document):
    document["device"]["gpu"]["recovery_credit"] = "100 kgCO2e"
    credits, totals = {}, set()
    for rule in ("cut_off", "fifty_fifty", "avoided_burden"):
        document["end_of_life"] = rule
        result = assess(inventory.parse(document), samples=100)
        credits[rule] = result.recovery_credit()
        totals.add(result.totals["gwp"])
    hours = float(result.central.supplies["hours"].sum())
    assert credits["avoided_burden"] == pytest.approx(hours * 100 / (4 * 8760 * 0.6))
    assert credits["fifty_fifty"] == pytest.approx(credits["avoided_burden"] / 2)
    assert credits["cut_off"] == 0
    assert len(totals) == 1


def test_software_carbon_intensity_is_a_view_of_the_same_numbers(document):
    del document["process"]["serving"]["flows"]
    result = assess(inventory.parse(document), samples=100)
    view = result.software_carbon_intensity()
    assert view["operational"] == pytest.approx(result.totals["energy"] * 0.384)
    assert view["sci"] == pytest.approx(result.totals["gwp"])
