"""The command on real files: identified, estimated, refused, bounded; and what it says of bad input."""

import numpy as np
import pytest

from workingpapers.causality.counterfactual_id import ANY, OBSERVATIONAL, Regime
from workingpapers.causality.counterfactual_id.command import run
from workingpapers.causality.counterfactual_id.simulation import complete, random_units, sample
from workingpapers.foundations.errors import InputError
from workingpapers.foundations.signature import convert, parameters

MEDIATOR = complete("XMY", [("X", "M"), ("X", "Y"), ("M", "Y")])
DOT = "digraph { X -> M -> Y; X -> Y; X -> Y [dir=both]; X -> M [dir=both]; M -> Y [dir=both] }"
TOML = """
[obs]
[trial]
do = ["X"]
[split]
cut = { "X->M" = "*", "X->Y" = "*" }
"""
SPLIT = Regime("split", cut={("X", "M"): ANY, ("X", "Y"): ANY})
DIRECT = "P(Y[x, M[x']] = 1 | X = x')"


@pytest.fixture
def files(tmp_path):
    rng = np.random.default_rng(0)
    units = random_units(rng, MEDIATOR, dict.fromkeys("XMY", 2), 0.5)
    (tmp_path / "graph.dot").write_text(DOT)
    (tmp_path / "regimes.toml").write_text(TOML)
    for regime in (OBSERVATIONAL, Regime("trial", do={"X": ANY}), SPLIT):
        sample(rng, units, regime, 3000).to_csv(tmp_path / f"{regime.name}.csv", index=False)
    return tmp_path, units


def ask(folder, query, data=("obs", "trial", "split"), regimes="regimes.toml", **options):
    pairs = tuple(f"{name}={folder / name}.csv" for name in data)
    values = options.pop("values", ("x=1", "x'=0"))
    toml = None if regimes is None else folder / regimes
    return run(folder / "graph.dot", query=query, regimes=toml, data=pairs, values=values, bootstrap=100, **options)


def test_identified_and_estimated(files):
    folder, units = files
    outcome = ask(folder, DIRECT, report=folder / "report.html", latex=folder / "formula.tex")
    joint = units.table(SPLIT).array[0, 1]  # X->M fed 0, X->Y fed 1; axes X, M, Y
    truth = joint[0, :, 1].sum() / joint[0].sum()
    assert outcome.data["identified"]
    assert outcome.data["regimes"] == ["split"]
    assert outcome.data["formula"] == "P_split(Y = 1 | X = 0; X->M := 0, X->Y := 1)"
    assert abs(outcome.data["estimate"] - truth) < 4 * np.sqrt(0.25 / 300)
    assert outcome.data["low"] < outcome.data["estimate"] < outcome.data["high"]
    assert f"Estimate {outcome.data['estimate']:.4f}" in outcome.summary
    assert (folder / "formula.tex").read_text() == outcome.data["latex"] + "\n"
    page = (folder / "report.html").read_text()
    assert page.count("<svg") == 2
    assert "split: X-&gt;M random" in page
    assert outcome.files == [folder / "formula.tex", folder / "report.html"]
    again = ask(folder, DIRECT)
    assert again.data["low"] == outcome.data["low"]
    assert ask(folder, DIRECT, seed=1).data["low"] != outcome.data["low"]


def test_formula_without_data(files):
    folder, _ = files
    outcome = ask(folder, "P(Y[x, M[x']] = y)", data=(), values=())
    assert outcome.summary.endswith("Give --data for a number.")
    assert outcome.data["formula"] == "P_split(Y = y; X->M := x', X->Y := x)"
    assert [row[2] for row in outcome.tables[0].rows] == ["not needed", "not needed", "used"]


def test_refused_with_an_experiment_that_helps_and_bounds(files):
    folder, units = files
    outcome = ask(folder, DIRECT, data=("obs",), regimes=None, report=folder / "report.html")
    assert not outcome.data["identified"]
    assert outcome.data["suggested_cut"] == ["X->Y"]
    assert "sets X->Y and records the rest" in outcome.summary
    assert outcome.data["plan"][-1] == "READ X, M, Y"
    low, high = outcome.data["bounds"]["lp"]
    joint = units.table(SPLIT).array[0, 1]
    assert low <= joint[0, :, 1].sum() / joint[0].sum() <= high
    assert "P(Y[M[X=0], X=1] = 1 | X = 0) is not identified from obs." in outcome.summary
    assert "new: X-&gt;Y random" in (folder / "report.html").read_text()


def test_refused_for_good(files):
    folder, units = files
    outcome = ask(folder, "P(Y[x] = 1, Y[x'] = 0)")
    assert "No experiment can change that" in outcome.summary
    assert not outcome.data["realizable"]
    assert "suggested_cut" not in outcome.data
    low, high = outcome.data["bounds"]["lp"]
    assert 0 < high - low < 1
    assert low <= outcome.data["bounds"]["frechet"][1]
    from workingpapers.causality.counterfactual_id import Query

    query = Query.parse("P(Y[x] = y, Y[x'] = y')", "XMY")
    truth = units.probability(query, {s: {"x": 1, "x'": 0, "y": 1, "y'": 0}[s.name] for s in query.symbols})
    assert low <= truth <= high


def test_fixed_values_in_the_regimes_take_the_values_given(files):
    folder, _ = files
    (folder / "fixed.toml").write_text('[one]\ncut = { "X->M" = "x\'", "X->Y" = "x" }\n')
    (folder / "one.csv").write_text("X,M,Y\n" + "0,1,1\n0,0,1\n1,1,0\n0,0,0\n" * 20)
    outcome = ask(folder, DIRECT, data=("one",), regimes="fixed.toml")
    assert outcome.data["formula"] == "P_one(Y = 1 | X = 0)"
    assert outcome.data["estimate"] == pytest.approx(2 / 3)


@pytest.mark.parametrize(
    ("query", "options", "words"),
    [
        ("P(Y[q] = 1)", {}, "The symbol 'q' belongs to no variable"),
        ("P(W = 1)", {}, "'W', which is not in the graph"),
        (DIRECT, {"values": ("x=1", "z=0")}, "--values names 'z', which is no symbol of the query"),
        (DIRECT, {"values": ("x",)}, "--values is 'x'; write symbol=value."),
        (DIRECT, {"values": ("x=1", "x'=1")}, "are both 1"),
        (DIRECT, {"values": ("x=1", "x'=7")}, "'7' of 'X' has no value; give one of 0, 1"),
        (DIRECT, {"data": ("obs", "trial")}, "needs data of regime 'split'; add --data split=FILE"),
        ("P(Y[x] = 1, Y[x'] = 0)", {"latex": "f.tex"}, "there is no formula for --latex"),
        ("P(Y = 1 | X = x, X = x')", {}, "impossible in every model"),
    ],
)
def test_bad_input_is_one_sentence_and_leaves_no_file(files, query, options, words):
    folder, _ = files
    before = sorted(folder.iterdir())
    if "latex" in options:
        options = {"latex": folder / options["latex"]}
    with pytest.raises(InputError) as caught:
        ask(folder, query, report=folder / "report.html", **options)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)
    assert sorted(folder.iterdir()) == before


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("none=obs.csv", "data for 'none', which is no regime"),
        ("obs", "--data is 'obs'; write regime=file.csv."),
        ("obs=missing.csv", "There is no file"),
        ("split=obs.csv", "the data of regime 'split' have no column"),
    ],
)
def test_bad_data_pairs(files, monkeypatch, text, words):
    folder, _ = files
    monkeypatch.chdir(folder)
    with pytest.raises(InputError) as caught:
        run(folder / "graph.dot", query=DIRECT, regimes=folder / "regimes.toml", data=(text,))
    assert words.lower() in str(caught.value).lower()


def test_cyclic_graph_is_refused_by_name(files):
    folder, _ = files
    (folder / "graph.dot").write_text("digraph { X -> M -> Y -> X }")
    with pytest.raises(InputError, match="has the cycle"):
        ask(folder, DIRECT)


def test_options_are_converted_and_refused():
    by_name = {item.name: item for item in parameters(run)}
    assert convert(by_name["values"], ["x=1", "x'=0"]) == ("x=1", "x'=0")
    assert convert(by_name["bootstrap"], "50") == 50
    with pytest.raises(InputError, match="--bootstrap is 3"):
        convert(by_name["bootstrap"], "3")
    with pytest.raises(InputError, match="--seed is -1"):
        convert(by_name["seed"], "-1")
