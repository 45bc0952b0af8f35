"""Reading inventories and logs: what is right, and what is refused in one sentence."""

import copy
import json

import pytest

from workingpapers.foundations.errors import InputError
from workingpapers.governance.ai_lifecycle import inventory, measured
from workingpapers.governance.ai_lifecycle.assessment import assess


def changed(document, path, value):
    made = copy.deepcopy(document)
    *parents, last = path.split(".")
    place = made
    for part in parents:
        place = place.setdefault(part, {})
    if value is None:
        del place[last]
    else:
        place[last] = value
    return made


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        ("grids", {}, "did you mean 'grid'"),
        ("process", {}, "no process"),
        ("year", None, "year is None"),
        ("gwp_set", "AR7", "use one of AR6, AR5"),
        ("functional_unit.quality", None, "has no quality"),
        ("functional_unit.volume", -1, "functional_unit.volume is -1"),
        ("functional_unit.amount", 0, "greater than 0"),
        ("boundary.excluded", {"transprt": "x"}, "did you mean 'transport'"),
        ("boundary.kind", "gate", "use 'cradle-to-gate'"),
        ("facility.hall.pue", 0.9, "facility.hall.pue is 0.9; it must be at least 1"),
        ("facility.hall.pue", None, "has no pue"),
        ("facility.hall.grid", "sote", "did you mean 'site'"),
        ("device.gpu.lifespan", "0 year", "device.gpu.lifespan is 0"),
        ("device.gpu.lifespan", None, "has no lifespan"),
        ("device.gpu.utilisation", 1.2, "from 1e-09 to 1"),
        ("device.gpu.from", "builtin:h10", "did you mean 'h100'"),
        ("device.gpu.from", [], "from is empty"),
        ("device.gpu.from", 3, "write a list of names"),
        ("grid.site", 3, "write a table"),
        ("process.serving.stage", "inferense", "did you mean 'inference'"),
        ("process.serving.scope", "x", "use 'life'"),
        ("process.serving.per", 0, "per is 0"),
        ("process.serving.facility", None, "has no facility"),
        ("process.serving.device", None, "no device"),
        ("process.serving.load", 0.5, "power and load"),
        ("process.serving.electricity", "1 kWh", "several ways"),
        ("process.serving.inputs", {"nothing": 1}, "names the process 'nothing'"),
        ("process.serving.device_time", "30 kWh", "cannot be turned into 'hour'"),
        ("process.serving.device_time", "@time", "refers to '@time'"),
        ("process.serving.data", "3 GB", "several ways|both data and intensity"),
        ("process.training.mfu", None, "needs parameters, tokens and mfu"),
        ("process.training.device_time", "3 hour", "leave out device_time"),
        ("process.search.shared.product", "code", "'code' is not among"),
        ("process.search.shared.rule", "fair", "'fair'"),
        ("process.search.shared", {"product": "a", "shares": {"a": 0.5, "b": 0.4}}, "sum to 9/10"),
        ("process.search.measured", {"zous": "a"}, "name one of"),
        ("category.x", {"units": "kg"}, "did you mean 'unit'"),
    ],
)
def test_what_is_refused(document, path, value, said):
    with pytest.raises(InputError, match=said):
        inventory.parse(changed(document, path, value))


def test_shared_quantities_are_one_quantity(document):
    document["quantity"] = {"draw": {"value": 420, "unit": "W", "gsd": 1.2}}
    document["process"]["serving"]["power"] = "@draw"
    document["process"]["search"]["power"] = "@draw"
    study = inventory.parse(document)
    assert study.processes["serving"].amounts["power"] == study.processes["search"].amounts["power"] == "quantity.draw"
    assert study.quantities["quantity.draw"].value == pytest.approx(0.42)


def test_three_formats_hold_the_same_study(document, tmp_path):
    import yaml

    (tmp_path / "a.json").write_text(json.dumps(document))
    (tmp_path / "a.yaml").write_text(yaml.safe_dump(document))
    (tmp_path / "a.toml").write_text('year = 2026\n[process.a]\nstage = "data"\n[functional_unit]\nname = "a"\n')
    assert inventory.load(tmp_path / "a.json") == inventory.load(tmp_path / "a.yaml")
    with pytest.raises(InputError, match=r"a\.toml.*functional_unit has no unit"):
        inventory.load(tmp_path / "a.toml")
    (tmp_path / "b.toml").write_text("year = \n")
    with pytest.raises(InputError, match=r"b\.toml.*not a valid inventory"):
        inventory.load(tmp_path / "b.toml")


def test_scenarios_change_one_field(document):
    document["scenario"] = {"cool": {"facility.hall.pue": 1.05}, "wrong": {"facility.hull.pue": 1.1}}
    base, cool = inventory.parse(document), inventory.parse(document, scenario="cool")
    assert cool.quantities["facility.hall.pue"].value == 1.05
    assert {n for n in base.quantities if base.quantities[n] != cool.quantities[n]} == {"facility.hall.pue"}
    with pytest.raises(InputError, match=r"scenario\.wrong changes 'facility\.hull\.pue'"):
        inventory.parse(document, scenario="wrong")
    with pytest.raises(InputError, match="did you mean 'cool'"):
        inventory.parse(document, scenario="col")


def test_categories_from_a_table(document, tmp_path):
    table = tmp_path / "traci.csv"
    table.write_text("category,unit,flow,factor,source,year\nsmog,kgO3e,nox,24.8,TRACI 2.1,2012\n")
    document["category_file"] = "traci.csv"
    document["process"]["search"]["flows"] = {"nox": "2 kg"}
    result = assess(inventory.parse(document, tmp_path), rule="tokens", samples=100)
    assert result.totals["smog"] * 1e6 == pytest.approx(49.6)


def test_zeus_log(tmp_path):
    log = tmp_path / "zeus.csv"
    log.write_text(
        "start_time,window_name,elapsed_time,gpu0_energy,gpu1_energy\n0,train,1800,1.8e6,1.8e6\n1,train,1800,0,3.6e6\n2,eval,60,100,0\n"
    )
    train, evaluation = measured.read_zeus(log)
    assert (train.electricity, train.device_time, train.count) == (pytest.approx(2.0), pytest.approx(2.0), 2)
    assert evaluation.electricity == pytest.approx(100 / 3.6e6)


def test_power_log_and_hourly_intensity(tmp_path):
    log, grid = tmp_path / "power.csv", tmp_path / "grid.csv"
    log.write_text(
        "timestamp,device,watts\n2026-01-01T00:00:00,a,1000\n2026-01-01T02:00:00,a,1000\n2026-01-01T00:00:00,b,0\n2026-01-01T02:00:00,b,2000\n"
    )
    grid.write_text("timestamp,intensity\n2026-01-01T00:00:00,100\n2026-01-01T01:00:00,300\n")
    a, b = measured.read_power(log)
    assert (a.electricity, b.electricity, a.device_time) == (pytest.approx(2.0), pytest.approx(2.0), pytest.approx(2.0))
    # a: 1 kWh at 100, 1 at 300; b: half a kWh at 100, one and a half at 300
    assert measured.weighted_intensity(log, grid) == pytest.approx((100 + 300 + 50 + 450) / 4 / 1000)


def test_slurm_accounting_keeps_failed_jobs(tmp_path):
    log = tmp_path / "sacct.txt"
    log.write_text(
        "JobID|State|ElapsedRaw|AllocTRES|ConsumedEnergyRaw\n1|COMPLETED|3600|cpu=8,gres/gpu=4|7200000\n"
        "1.batch|COMPLETED|3600|cpu=8,gres/gpu=4|\n2|FAILED|1800|gres/gpu=8|\n3|CANCELLED by 5|7200|gres/gpu=1|\n"
    )
    found = {run.label: run for run in measured.read_sacct(log)}
    assert found["COMPLETED"].electricity == pytest.approx(2.0)
    assert {name: run.device_time for name, run in found.items()} == {"COMPLETED": 4, "FAILED": 4, "CANCELLED": 2}


def test_usage_log(tmp_path):
    log = tmp_path / "usage.jsonl"
    log.write_text(
        '{"model": "m", "usage": {"completion_tokens": 100}}\n\n{"model": "m", "usage": {"completion_tokens": 300}}\n'
    )
    (run,) = measured.read_usage(log)
    assert (run.label, run.count, run.note) == ("m", 2, "200.0 output tokens on average")


@pytest.mark.parametrize(
    ("kind", "text", "said"),
    [
        ("codecarbon", "a,b\n1,2\n", "no column 'energy_consumed'"),
        ("codecarbon", "energy_consumed,duration,run_id\n-1,1,a\n", "not negative"),
        ("zeus", "elapsed_time,window_name\n1,a\n", "gpu0_energy"),
        ("power", "timestamp,device,watts\n0,a,1\n", "at least two readings"),
        ("power", "timestamp,device,watts\nyesterday,a,1\n", "use seconds or ISO 8601"),
        ("sacct", "JobID,State\n1,x\n", "separated by"),
        ("usage", '{"usage": {}}\n', "line 1"),
        ("usage", "[]\n", "line 1"),
    ],
)
def test_logs_that_are_none(kind, text, said, tmp_path):
    log = tmp_path / "log.csv"
    log.write_text(text)
    with pytest.raises(InputError, match=said):
        measured.READERS[kind](log)


def test_a_measured_run_is_chosen_by_its_label(document, tmp_path):
    (tmp_path / "zeus.csv").write_text(
        "start_time,window_name,elapsed_time,gpu0_energy\n0,train,3600,3.6e6\n1,eval,3600,7.2e6\n"
    )
    search = document["process"]["search"]
    del search["device_time"], search["power"]
    search["measured"] = {"zeus": "zeus.csv", "run": "train", "year": 2026}
    study = inventory.parse(document, tmp_path)
    item = study.quantities["process.search.electricity"]
    assert (item.value, item.year, item.source) == (pytest.approx(1.0), 2026, "zeus log zeus.csv, 1 runs")
    search["measured"]["run"] = "tran"
    with pytest.raises(InputError, match="did you mean 'train'"):
        inventory.parse(document, tmp_path)


def leaves(node, path=()):
    for key, value in node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ():
        yield (*path, key)
        yield from leaves(value, (*path, key))


def test_nonsense_anywhere_is_one_sentence(document):
    """Any field may hold anything: the answer is a study or one sentence, never a fault."""
    document["scenario"] = {"cool": {"facility.hall.pue": 1.05}}
    document["boundary"] = {"included": ["inference"], "excluded": {"data": "small"}}
    document["category"] = {"smog": {"unit": "kgO3e", "factors": {"nox": 24.8}}}
    document["process"]["search"]["inputs"] = {"training": 0.1}
    refused = []
    for path in leaves(document):
        for nonsense in (None, [], {}, [1, "x"], {"x": 1}, "", "x", -1, float("nan"), True, "1/0", "@x"):
            made = copy.deepcopy(document)
            place = made
            for key in path[:-1]:
                place = place[key]
            place[path[-1]] = nonsense
            for scenario in ("", "cool"):
                try:
                    inventory.parse(made, scenario=scenario)
                except InputError as error:
                    refused.append(str(error))
    assert len(refused) > 1000
    assert not [text for text in refused if "\n" in text]
