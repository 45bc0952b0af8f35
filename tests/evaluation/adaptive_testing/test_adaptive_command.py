"""The command: from a table of answers to a report and a session."""

import io
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from workingpapers.evaluation.adaptive_testing.command import run
from workingpapers.evaluation.adaptive_testing.experiments import make_data
from workingpapers.evaluation.adaptive_testing.gpm import GPMSelector
from workingpapers.foundations.errors import InputError
from workingpapers.foundations.signature import convert, parameters

pd = pytest.importorskip("pandas")


@pytest.fixture
def table(tmp_path):
    data = make_data(0, "wrong", 20, 150, 10)
    frame = pd.DataFrame(data.train.astype(int), columns=[f"q{i}" for i in range(20)])
    frame["easy"] = 1
    frame.insert(0, "examinee", [f"m{i}" for i in range(150)])
    frame.to_csv(tmp_path / "responses.csv", index=False)
    return tmp_path / "responses.csv"


@pytest.fixture
def about(tmp_path):
    rows = [{"item": f"q{i}", "area": "ab"[i % 2], "enemies": "", "text": f"Question {i}?"} for i in range(20)]
    pd.DataFrame(rows).to_csv(tmp_path / "items.csv", index=False)
    return tmp_path / "items.csv"


def test_report_and_policy_are_written(table, tmp_path):
    report = tmp_path / "report.html"
    outcome = run(table, items=5, model="1PL", epochs=2, save=tmp_path / "policy", report=report)
    assert [row["selector"] for row in outcome.data["selectors"]] == ["GPM", "random", "MFI", "KLI", "MEPV", "BECAT"]
    assert outcome.data["left_out"] == ["easy"]
    assert outcome.data["items"] == 20
    assert all(row["error"] > 0 and row["items_asked"] == 5 for row in outcome.data["selectors"])
    assert set(outcome.files) == {report, tmp_path / "policy/policy.json", tmp_path / "policy/policy.safetensors"}
    assert report.read_text().count("<svg") == 2
    assert GPMSelector.load(tmp_path / "policy").bank.names == tuple(f"q{i}" for i in range(20))


def test_session_on_the_terminal_obeys_blueprint_and_limit(table, about, monkeypatch, capsys):
    monkeypatch.setattr(sys, "stdin", io.StringIO("1\nperhaps\n0\nyes\n1\n0\n"))
    outcome = run(table, items=5, selector="mfi", about=about, blueprint="a=4,b=-1", exposure=0.9, serve_session=True)
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "'perhaps' is no answer" in shown.err
    answers = outcome.data["session"]["answers"]
    assert list(answers.values()) == [1, 0, 1, 1, 0]
    assert sum(int(name[1:]) % 2 == 0 for name in answers) == 4
    assert all(f"{name}: Question {name[1:]}?" in shown.err for name in answers)


def test_session_without_a_terminal_is_refused(table):
    with ThreadPoolExecutor(1) as pool, pytest.raises(InputError, match="needs a terminal"):
        pool.submit(run, table, items=5, serve_session=True).result()


def test_session_ends_with_its_input(table, monkeypatch, capsys):
    monkeypatch.setattr(sys, "stdin", io.StringIO("1\nq\n"))
    outcome = run(table, items=5, selector="kli", serve_session=True)
    assert len(outcome.data["session"]["answers"]) == 1
    assert "The session asked 1 items" in outcome.summary


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"items": 22}, "22 items cannot be asked from 21"),
        ({"items": 21}, "21 items cannot be asked from 20"),
        ({"blueprint": "a=3"}, "needs the areas"),
        ({"blueprint": "a:3"}, "entry 'a:3' is not AREA"),
        ({"examinee": "nobody"}, "holds 'm0', which is no answer"),
        ({"selector": "mfi", "save": "x"}, "the selector is 'mfi'"),
        ({"exposure": 0.01, "selector": "mfi"}, "out of reach"),
    ],
)
def test_wrong_options_are_one_sentence(table, options, told, tmp_path):
    before = set(tmp_path.iterdir())
    with pytest.raises(InputError, match=told):
        run(table, report=tmp_path / "report.html", **{"items": 5, **options})
    assert set(tmp_path.iterdir()) == before


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda frame: frame.replace({"q1": {1: 2}}), "Response 2 of examinee"),
        (lambda frame: frame.head(10), "holds 10 examinees"),
        (lambda frame: frame.assign(**{f"q{i}": np.nan for i in range(18)}), "Examinee 1 has 3 answers"),
        (lambda frame: frame.assign(**{f"q{i}": 1 for i in range(20)}), "No item has both"),
    ],
)
def test_wrong_tables_are_one_sentence(table, change, told):
    change(pd.read_csv(table)).to_csv(table, index=False)
    with pytest.raises(InputError, match=told):
        run(table, items=5)


def test_unknown_items_and_areas_are_named(table, about):
    with pytest.raises(InputError, match="No item has the area 'c'"):
        run(table, items=5, about=about, blueprint="c=1")
    pd.DataFrame({"item": ["p1"], "area": ["a"]}).to_csv(about, index=False)
    with pytest.raises(InputError, match="is among the answers"):
        run(table, items=5, about=about)


@pytest.mark.parametrize(
    ("name", "text", "told"),
    [
        ("items", "0", "--items is 0"),
        ("exposure", "0", "--exposure is 0"),
        ("selector", "mif", "did you mean 'mfi'"),
        ("standard_error", "-1", "at least 0"),
    ],
)
def test_options_are_checked_before_the_call(name, text, told):
    parameter = next(item for item in parameters(run) if item.name == name)
    with pytest.raises(InputError, match=told):
        convert(parameter, text)
