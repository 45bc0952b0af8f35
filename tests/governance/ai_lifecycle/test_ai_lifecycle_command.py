"""The command from files to files, and what it refuses."""

import json

import pytest

from workingpapers.cli import main
from workingpapers.foundations.errors import InputError
from workingpapers.foundations.signature import convert, parameters
from workingpapers.governance.ai_lifecycle import command


@pytest.fixture
def path(document, tmp_path):
    target = tmp_path / "study.json"
    target.write_text(json.dumps(document))
    return target


def test_assess_returns_json_types(path):
    outcome = command.run_assess(path, samples=200, category="water")
    data = json.loads(json.dumps(outcome.data))
    assert data["impacts"]["water"]["unit"] == "L"
    assert data["matrix_gap"] < 1e-12
    assert data["shares"]["search"] == "2/3"
    assert "answer: " in outcome.summary


def test_compare_writes_a_report(path, document, tmp_path):
    other = tmp_path / "other.json"
    document["facility"]["hall"]["pue"] = 1.05
    other.write_text(json.dumps(document))
    outcome = command.run_compare(other, path, samples=200, report=tmp_path / "r.html")
    assert outcome.summary.startswith("A has the lower gwp")
    assert (tmp_path / "r.html").read_text().count("<svg") == 4


def test_factors_to_a_file(tmp_path):
    outcome = command.run_factors(kind="device", contains="builtin", out=tmp_path / "f.csv")
    lines = (tmp_path / "f.csv").read_text().splitlines()
    assert lines[0] == "reference,field,value,unit,source,year,note"
    assert len(lines) - 1 == len(outcome.data["factors"])
    with pytest.raises(InputError, match="'nowhere'"):
        command.run_factors(contains="nowhere")


def test_every_shipped_factor_has_source_and_year():
    for kind in ("grid", "device"):
        for item in command.run_factors(kind=kind, contains="builtin").data["factors"]:
            assert item["source"], item
            assert item["year"], item


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda path: command.run_assess(path, category="watr"), "did you mean 'water'"),
        (lambda path: command.run_assess(path, category="adp"), "no data for the category 'adp'"),
        (lambda path: command.run_assess(path, allocation="economic"), "needs revenue"),
        (lambda path: command.run_measure(path, kind="zeus", intensity=path), "needs a power log, not zeus"),
    ],
)
def test_wrong_choices_are_refused_before_work(path, call, said):
    with pytest.raises(InputError, match=said):
        call(path)


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("samples", "10", "from 100"),
        ("samples", "many", "whole number"),
        ("seed", "-1", "from 0"),
        ("allocation", "fair", "'fair'"),
    ],
)
def test_options_are_bounded(name, value, said):
    item = next(item for item in parameters(command.run_assess) if item.name == name)
    with pytest.raises(InputError, match=said):
        convert(item, value)


def test_a_bad_inventory_leaves_nothing_behind(path, document, tmp_path, capsys):
    document["facility"]["hall"]["pue"] = 0.5
    path.write_text(json.dumps(document))
    before = set(tmp_path.iterdir())
    code = main(
        [
            "run",
            "ai_lifecycle",
            "assess",
            str(path),
            "--report",
            str(tmp_path / "r.html"),
            "--out",
            str(tmp_path / "o.json"),
        ]
    )
    told = capsys.readouterr().err
    assert code == 2
    assert told.count("\n") == 1
    assert "facility.hall.pue is 0.5" in told
    assert set(tmp_path.iterdir()) == before
