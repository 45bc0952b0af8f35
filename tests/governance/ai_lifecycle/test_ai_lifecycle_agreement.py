"""Agreement with EcoLogits, CodeCarbon and published footprints, within stated tolerances."""

import json
import math
from pathlib import Path

import pytest

from workingpapers.governance.ai_lifecycle import factors, inventory, measured
from workingpapers.governance.ai_lifecycle.assessment import assess
from workingpapers.governance.ai_lifecycle.cases import CASES, case_study


def needs(package):
    """Skip without the package; its data suffice, so that it need not be importable."""
    if not factors.installed(package):
        pytest.skip(f"{package} is not installed")


EMISSIONS = Path(__file__).with_name("data") / "codecarbon_emissions.csv"


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_published_footprints_within_one_per_cent(case):
    assert assess(case_study(case), samples=100).totals["gwp"] / 1000 == pytest.approx(case.published, rel=0.01)


def test_parts_of_bloom():
    found = assess(case_study(CASES[0]), samples=100)
    table = found.by_stage()[:, :, found.categories.index("gwp")] / 1000
    assert table[0, 0] == pytest.approx(24.69, rel=0.005)  # running
    assert table[1, 0] == pytest.approx(14.6, rel=0.005)  # idle
    assert table[0, 1] == pytest.approx(11.2, rel=0.005)  # embodied


@pytest.mark.parametrize(("parameters", "tokens"), [(7, 500), (70, 200), (400, 1000)])
def test_ecologits_request(parameters, tokens):
    """Energy and latency follow the peer's own model; impacts, embodied shares and water are computed here."""
    llm = pytest.importorskip("ecologits.impacts.llm")
    mix = factors.lookup("ecologits:USA", "grid")
    pue, wue = 1.2, 0.5
    peer = llm.compute_llm_impacts(
        model_active_parameter_count=parameters, model_total_parameter_count=parameters, output_token_count=tokens,
        if_electricity_mix_adpe=mix["adp"]["value"], if_electricity_mix_pe=mix["primary_energy"]["value"],
        if_electricity_mix_gwp=mix["gwp"]["value"], if_electricity_mix_wue=mix["water"]["value"],
        datacenter_pue=pue, datacenter_wue=wue,
    )  # fmt: skip
    gpus = 2 ** math.ceil(math.log2(math.ceil(1.2 * parameters * 16 / 8 / llm.GPU_MEMORY)))
    batch = llm.BATCH_SIZE
    per_token = llm.GPU_ENERGY_ALPHA * math.exp(llm.GPU_ENERGY_BETA * batch) * parameters + llm.GPU_ENERGY_GAMMA
    seconds = tokens * (llm.LATENCY_ALPHA * parameters + llm.LATENCY_BETA * batch + llm.LATENCY_GAMMA)
    kwh = gpus * tokens * per_token / 1000 + seconds / 3600 * llm.SERVER_POWER * gpus / llm.SERVER_GPUS / batch
    study = inventory.parse(
        {
            "year": 2026,
            "functional_unit": {"name": "request", "unit": "request", "quality": "as EcoLogits", "volume": 1},
            "grid": {"usa": {"from": "ecologits:USA"}},
            "facility": {"hall": {"grid": "usa", "pue": pue, "wue": f"{wue} L/kWh"}},
            "device": {"gpu": {"from": "ecologits:gpu"}},
            "process": {
                "request": {
                    "stage": "inference", "facility": "hall", "device": "gpu", "electricity": f"{kwh!r} kWh",
                    "device_time": f"{seconds * gpus / batch!r} second",
                }
            },
        }
    )  # fmt: skip
    result = assess(study, samples=100)
    for ours, theirs in (
        ("energy", peer.energy),
        ("gwp", peer.gwp),
        ("adp", peer.adpe),
        ("primary_energy", peer.pe),
        ("water", peer.wcf),
    ):
        assert result.totals[ours] == pytest.approx(theirs.value, rel=1e-9), ours
    embodied = result.by_stage()[0, 1]
    assert embodied[result.categories.index("gwp")] == pytest.approx(peer.embodied.gwp.value, rel=1e-9)


def test_codecarbon_run():
    """A log of a real run: our factor times its energy is its own figure."""
    needs("codecarbon")
    runs = measured.read_codecarbon(EMISSIONS)
    assert len(runs) == 1  # three rows of one run are cumulative
    document = {
        "year": 2026,
        "functional_unit": {"name": "run", "unit": "run", "quality": "one training run", "volume": 1},
        "grid": {"france": {"from": "codecarbon:FRA"}},
        "facility": {"office": {"grid": "france", "pue": 1}},
        "process": {
            "training": {"stage": "pretraining", "facility": "office", "measured": {"codecarbon": EMISSIONS.name}}
        },
    }
    study = inventory.parse(document, EMISSIONS.parent)
    assert study.processes["training"].grade == "measured"
    assert study.quantities["grid.france.gwp"].year == 2023
    last = EMISSIONS.read_text().splitlines()[-1].split(",")
    assert assess(study, samples=100).totals["gwp"] == pytest.approx(float(last[4]), rel=1e-6)


def test_codecarbon_pue_is_divided_out(tmp_path):
    header, *rows = EMISSIONS.read_text().splitlines()
    log = tmp_path / "emissions.csv"
    log.write_text("\n".join([header, rows[-1].replace(",1.0,0.0", ",1.5,0.0")]))
    assert measured.read_codecarbon(log)[0].electricity == pytest.approx(
        measured.read_codecarbon(EMISSIONS)[0].electricity / 1.5
    )


def test_every_factor_of_the_packages_can_be_read():
    for kind in ("grid", "device"):
        for reference, record in factors.known(kind):
            for field, item in record.items():
                assert item["source"], (reference, field)
                assert item.get("year") or "no year" in item["note"] or "world" in item["note"], (reference, field)
    packages = {reference.split(":")[0] for reference, _ in factors.known("grid")}
    assert "builtin" in packages
    assert packages - {"builtin"} == {name for name in factors.PACKAGES if factors.installed(name)}


def test_boaviztapi_takes_the_best_source():
    needs("boaviztapi")
    record = factors.lookup("boaviztapi:EEE", "grid")
    assert record["gwp"]["value"] == 0.38  # priority 1, not the 0.509427 of priority 3
    assert record["gwp"]["year"] == 2019


def test_a_missing_package_has_a_fallback(monkeypatch):
    monkeypatch.setattr(factors, "installed", lambda package: False)
    used, record = factors.first_available(["codecarbon:FRA", "builtin:world"], "grid")
    assert used == "builtin:world"
    assert record["gwp"]["value"] == 475
    with pytest.raises(ValueError, match="is not installed; install it, add 'builtin:world'"):
        factors.first_available(["codecarbon:FRA"], "grid")
    grid = {"site": {"from": ["codecarbon:FRA", "builtin:world"]}}
    study = inventory.parse(
        {
            "year": 2026, "grid": grid, "facility": {"a": {"grid": "site", "pue": 1}},
            "functional_unit": {"name": "a", "unit": "a", "quality": "a", "volume": 1},
            "process": {"a": {"stage": "data", "facility": "a", "electricity": "1 kWh"}},
        }
    )  # fmt: skip
    assert study.quantities["grid.site.gwp"].note == "fallback for codecarbon:FRA"


def test_codecarbon_factor_is_the_packages_own():
    needs("codecarbon")
    raw = json.loads((factors._folder("codecarbon") / "data/private_infra/global_energy_mix.json").read_text())
    assert factors.lookup("codecarbon:FRA", "grid")["gwp"]["value"] == raw["FRA"]["carbon_intensity"]
    with pytest.raises(ValueError, match="codecarbon has no grid 'FRX'"):
        factors.lookup("codecarbon:FRX", "grid")
    with pytest.raises(ValueError, match="names no source"):
        factors.lookup("ember:FRA", "grid")
