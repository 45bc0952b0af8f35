"""The command: a table in, a table out, and one sentence for whatever cannot be used."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

from workingpapers.causality.residual_augmentation.command import build_learner, run
from workingpapers.foundations.errors import InputError
from workingpapers.foundations.signature import convert, parameters


@pytest.fixture
def frame():
    rng = np.random.default_rng(0)
    n = 150
    X = rng.uniform(-2, 2, size=(n, 3))
    table = pd.DataFrame(X, columns=["heat", "load", "flow"])
    table["town"] = rng.choice(["north", "south"], size=n)
    table["open"] = rng.random(n) < 0.5
    table["code"] = rng.integers(0, 4, size=n)
    table["name"] = [f"row {number}" for number in range(n)]
    table["yield"] = X[:, 0] ** 2 + X[:, 1] * X[:, 2] + rng.normal(0, 0.3, size=n)
    table.loc[3:12, "load"] = np.nan
    table.loc[20:24, "town"] = None
    table.loc[7, "yield"] = np.nan
    return table


@pytest.fixture
def data(tmp_path, frame):
    path = tmp_path / "train.csv"
    frame.to_csv(path, index=False)
    return path


def test_new_rows_stand_below_the_original_ones(tmp_path, data, frame):
    out, report = tmp_path / "out.csv", tmp_path / "report.html"
    seen = []
    outcome = run(
        data,
        target="yield",
        out=out,
        ignore=("name",),
        estimator="boosting",
        gate="none",
        report=report,
        progress=lambda share, message="": seen.append(share),
    )
    table = pd.read_csv(out)
    assert list(table.columns) == [*frame.columns, "weight", "source_row", "augmented"]
    assert len(table) == 298
    real = frame.drop(index=7)
    pd.testing.assert_frame_equal(
        table[~table["augmented"]][list(frame.columns)], pd.read_csv(data).drop(index=7).reset_index(drop=True)
    )
    assert table["source_row"].tolist() == [*real.index, *real.index]
    new = table[table["augmented"]].reset_index(drop=True)
    source = pd.read_csv(data).loc[new["source_row"]].reset_index(drop=True)
    for name in ("town", "open", "code", "name"):
        pd.testing.assert_series_equal(new[name], source[name])
    for name in outcome.data["moved"]:
        moved = new[name] != source[name]
        assert moved[source[name].notna()].all()
        assert new[name].isna().equals(source[name].isna())
    assert outcome.data["moved"]
    assert outcome.data["added"] == 149
    assert seen == sorted(seen)
    assert seen[-1] == 1.0
    assert "without a test" in outcome.summary
    assert "1 row without a target" in outcome.summary
    assert report.read_text().count("<svg") == 1
    json.dumps(outcome.data)


def test_a_gain_is_written_with_its_test(tmp_path):
    rng = np.random.default_rng(1)
    X = rng.uniform(-2, 2, size=(120, 3))
    path = tmp_path / "smooth.csv"
    smooth = pd.DataFrame(X, columns=["a", "b", "c"])
    smooth["y"] = X[:, 0] ** 2 + X[:, 1] * X[:, 2] + rng.normal(0, 0.5, size=120)
    smooth.to_csv(path, index=False)
    # At level 0.5 any gain in the mean of a few folds is accepted: the test is about what is written then.
    outcome = run(path, target="y", out=tmp_path / "out.tsv", report=tmp_path / "r.html", folds=4, gate_alpha=0.5)
    assert outcome.data["decision"] == "augmented"
    assert outcome.data["p_value"] < 0.5
    assert len(outcome.data["plain_losses"]) == 4
    table = outcome.tables[0]
    change = 100 * (np.mean(outcome.data["augmented_losses"]) / np.mean(outcome.data["plain_losses"]) - 1)
    assert change < 0
    assert table.rows[1][3] == pytest.approx(change)
    assert f"{change:+.1f} %" in outcome.summary
    assert (tmp_path / "r.html").read_text().count("<svg") == 2
    assert pd.read_csv(tmp_path / "out.tsv", sep="\t")["augmented"].sum() == 120


def test_a_refusal_writes_the_original_rows_and_says_so(tmp_path, data, frame):
    frame["yield"] = np.random.default_rng(2).normal(size=len(frame))
    frame.to_csv(data, index=False)
    out = tmp_path / "out.csv"
    outcome = run(data, target="yield", out=out, ignore=("name",), estimator="ridge", folds=5)
    table = pd.read_csv(out)
    assert outcome.summary.startswith(f"Nothing was added: {out} holds the 150 original rows alone.")
    assert not table["augmented"].any()
    assert (table["weight"] == 1).all()
    pd.testing.assert_frame_equal(table[list(frame.columns)], pd.read_csv(data))
    assert outcome.data["moved"] == []


def test_the_same_seed_writes_the_same_file(tmp_path, data):
    for name in ("a.csv", "b.csv"):
        run(data, target="yield", out=tmp_path / name, ignore=("name",), estimator="ridge", gate="none", seed=4)
    run(data, target="yield", out=tmp_path / "c.csv", ignore=("name",), estimator="ridge", gate="none", seed=5)
    assert (tmp_path / "a.csv").read_bytes() == (tmp_path / "b.csv").read_bytes()
    assert (tmp_path / "a.csv").read_bytes() != (tmp_path / "c.csv").read_bytes()


def test_named_whole_number_columns_move_in_whole_steps(tmp_path, data):
    outcome = run(
        data,
        target="yield",
        out=tmp_path / "out.csv",
        ignore=("name",),
        estimator="ridge",
        gate="none",
        screen="none",
        perturb=("code",),
        p=2.0,
    )
    assert outcome.data["moved"] == ["code"]
    table = pd.read_csv(tmp_path / "out.csv")
    assert table["code"].dtype.kind == "i"
    assert (table["code"][149:].to_numpy() != table["code"][:149].to_numpy()).any()
    assert (table["heat"][149:].to_numpy() == table["heat"][:149].to_numpy()).all()


@pytest.mark.parametrize("estimator", ["forest", "boosting", "mlp", "ridge"])
def test_every_learner_takes_the_raw_table(frame, estimator):
    table = frame.dropna(subset="yield").head(60)
    features = table.drop(columns="yield").assign(open=table["open"].astype(str))
    model = build_learner(features, estimator, 0).fit(features, table["yield"])
    assert np.isfinite(model.predict(features)).all()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"target": "yeild"}, "has no column 'yeild'; did you mean 'yield'"),
        ({"target": "town"}, "The target 'town' is not numeric"),
        ({"target": "open"}, "The target 'open' is not numeric"),
        ({"ignore": ("nam",)}, "has no column 'nam'"),
        ({"perturb": ("hat",)}, "--perturb names 'hat', which is not a feature"),
        ({"perturb": ("town",)}, "'town' holds no numbers"),
        ({"ignore": ("heat", "load", "flow")}, "may be perturbed: all are text, constant or whole numbers"),
        ({"folds": 50}, "has 149 rows with a target, too few for 50 folds; use --folds 49"),
    ],
)
def test_what_cannot_be_used_is_named_and_nothing_is_written(tmp_path, data, options, message):
    out = tmp_path / "out.csv"
    with pytest.raises(InputError, match=message) as caught:
        run(data, **{"target": "yield", "out": out, **options})
    assert "\n" not in str(caught.value)
    assert not out.exists()


def test_tables_without_use_are_named(tmp_path, frame):
    def attempt(table, message, **options):
        path = tmp_path / "bad.csv"
        table.to_csv(path, index=False)
        with pytest.raises(InputError, match=message):
            run(path, **{"target": "yield", "out": tmp_path / "out.csv", **options})

    attempt(frame.head(8), "has 7 rows with a target 'yield'; at least 10 are needed")
    attempt(frame.assign(**{"yield": 1.0}), "is the same in every row")
    attempt(frame.assign(heat=np.where(frame.index == 4, np.inf, frame["heat"])), "'heat' holds infinite values")
    attempt(frame[["yield"]], "has no feature columns beside 'yield'")
    attempt(frame.assign(weight=1.0), "already has a column 'weight'")
    attempt(frame.head(0), "holds a header but no rows")


def test_options_are_converted_with_their_bounds(tmp_path):
    known = {parameter.name: parameter for parameter in parameters(run)}
    assert known["data"].positional
    assert known["target"].required
    assert known["out"].required
    assert all(parameter.help for parameter in known.values())
    assert convert(known["perturb"], "a, b") == ("a", "b")
    for name, text, message in (
        ("p", "3", "--p is 3; it must be from 0 to 2"),
        ("factor", "0", "--factor is 0; it must be over 0"),
        ("folds", "1", "--folds is 1; it must be from 2 to 50"),
        ("gate_alpha", "1", "--gate-alpha is 1"),
        ("estimator", "forrest", "--estimator is 'forrest'; did you mean 'forest'"),
        ("k", "two", "--k is 'two', which is not a whole number"),
        ("data", str(tmp_path / "none.csv"), "There is no file"),
        ("out", str(tmp_path / "none" / "out.csv"), "the folder"),
    ):
        with pytest.raises(InputError, match=message):
            convert(known[name], text)
