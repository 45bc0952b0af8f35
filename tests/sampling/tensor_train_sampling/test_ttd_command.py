"""The command: known log Z, files, the user's own program, refusals in one sentence."""

import json

import numpy as np
import pytest

from workingpapers.foundations.errors import InputError
from workingpapers.foundations.signature import convert, parameters
from workingpapers.sampling.tensor_train_sampling.command import run

QUICK = {"steps": 30, "batch": 400, "iterations": 1, "size": 5, "samples": 400}
PROGRAM = """
import torch

def log_density(x):
    return -0.5 * ((x - 0.3) ** 2).sum(1) / 0.5

def bare(x):
    return 3.0

def unfinished(x):
    return x.no_such_thing

def infinite(x):
    return -x.sum(1) / 0.0
"""


@pytest.fixture
def program(tmp_path):
    file = tmp_path / "energy.py"
    file.write_text(PROGRAM)
    return file


def test_a_users_gaussian_gets_its_log_z_samples_and_a_report(program, tmp_path):
    out, report = tmp_path / "drawn.npz", tmp_path / "page.html"
    seen = []
    outcome = run(program=program, dim=3, out=out, report=report, **QUICK,
                  progress=lambda share, message="": seen.append(share))  # fmt: skip
    assert outcome.data["log_z"] == pytest.approx(1.5 * np.log(np.pi), abs=0.15)
    assert outcome.data["exact_log_z"] is None
    assert outcome.data["effective_share"] > 0.5
    assert "Your density in 3 coordinates: log Z = " in outcome.summary
    drawn = np.load(out)
    assert drawn["points"].shape == (400, 3)
    weights = np.exp(drawn["log_weights"] - drawn["log_weights"].max())
    np.testing.assert_allclose(weights @ drawn["points"] / weights.sum(), 0.3, atol=0.2)
    assert outcome.files == [out, report]
    assert report.read_text().count("<svg") == 2
    assert seen == sorted(seen)
    json.dumps(outcome.data)


def test_the_same_seed_writes_the_same_table(tmp_path):
    first, second = tmp_path / "a.csv", tmp_path / "b.csv"
    for out in (first, second):
        outcome = run(target="ginzburg_landau", dim=2, rank=3, out=out, **QUICK)
    assert first.read_text() == second.read_text()
    assert first.read_text().startswith("x0,x1,log_weight\n")
    assert len(first.read_text().splitlines()) == 401
    assert outcome.data["log_z"] == pytest.approx(outcome.data["exact_log_z"], abs=0.2)


def test_one_coordinate_and_the_series_run_too():
    assert run(dim=1, **QUICK).data["ranks"] == []
    series = run(target="kitagawa", dim=2, basis="fourier", **QUICK)
    assert series.data["log_z"] == pytest.approx(series.data["exact_log_z"], abs=0.3)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"function": "log_densty"}, "did you mean 'log_density'"),
        ({"function": "bare"}, "one differentiable number a row"),
        ({"function": "unfinished"}, "AttributeError"),
        ({"function": "infinite"}, "finite on all of R"),
        ({"box": 0.01}, "of 400 paths stayed"),
        ({"out": "drawn.txt"}, r"must end in \.npz or \.csv"),
    ],
)
def test_bad_options_are_one_sentence_and_leave_no_file(program, tmp_path, options, words):
    if "out" in options:
        options = {"out": tmp_path / options["out"]}
    with pytest.raises(InputError, match=words) as caught:
        run(program=program, report=tmp_path / "page.html", **QUICK, **options)
    assert "\n" not in str(caught.value)
    assert [path.name for path in tmp_path.iterdir() if path.name != "__pycache__"] == ["energy.py"]


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("dim", "0", "from 1 to 100"),
        ("rank", "two", "not a whole number"),
        ("target", "multi_wel", "did you mean 'multi_well'"),
        ("box", "0", "greater than 0"),
        ("horizon", "0", "from 0.1"),
        ("steps", "1", "from 5"),
        ("program", "/no/such/energy.py", "There is no file"),
    ],
)
def test_options_out_of_range_are_refused(name, value, words):
    parameter = next(item for item in parameters(run) if item.name == name)
    with pytest.raises(InputError, match=words):
        convert(parameter, value)
