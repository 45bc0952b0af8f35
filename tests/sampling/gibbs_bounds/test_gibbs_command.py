"""The command on real files and wrong ones: answers, files written, one-sentence errors, a run that goes on."""

import json
import math

import numpy as np
import pandas as pd
import pytest
import torch

from workingpapers.foundations.errors import InputError
from workingpapers.foundations.signature import convert, parameters
from workingpapers.sampling.gibbs_bounds.bounds import gibbs_bound
from workingpapers.sampling.gibbs_bounds.command import run_trace, run_train
from workingpapers.sampling.gibbs_bounds.training import Plan, _scaled

TRACE = "beta,surrogate_loss,error\n0,0.5,0.5\n100,0.2,0.2\n1000,0.05,0.04\n"
QUICK = {"ratios": (0.25, 1.0), "burn_in": 20, "steps": 20, "prior_draws": 20, "hidden": 4}


def table(rows, seed=0, names=("no", "yes")):
    """Return two separated clouds with the columns a, b and kind."""
    rng = np.random.default_rng(seed)
    kind = rng.integers(len(names), size=rows)
    return pd.DataFrame(
        {"a": rng.normal(3.0 * kind, 1), "b": rng.normal(100, 7, rows), "kind": [names[k] for k in kind]}
    )


@pytest.fixture
def folder(tmp_path):
    table(120).to_csv(tmp_path / "train.csv", index=False)
    table(80, seed=1).to_csv(tmp_path / "test.csv", index=False)
    (tmp_path / "trace.csv").write_text(TRACE)
    return tmp_path


def test_a_table_is_learned_and_bounded(folder):
    outcome = run_train(folder / "train.csv", target="kind", test=folder / "test.csv", **QUICK)
    data = outcome.data
    assert data["n"] == 108
    assert data["beta"] == [0, 27, 108]
    assert data["training_error"][-1] < 0.2
    assert all(b >= t for b, t in zip(data["bound"], data["test_error"], strict=True))
    assert f"The smallest bound on the test error is {min(data['bound']):.3f}" in outcome.summary
    assert "from the 80 held-out examples alone" in outcome.summary
    assert json.dumps(data)
    assert [len(row) for row in outcome.tables[0].rows] == [7] * 3


def test_files_are_written_and_the_trace_gives_the_same_bounds(folder):
    out, report, state = folder / "means.csv", folder / "report.html", folder / "state.pt"
    first = run_train(
        folder / "train.csv", target="kind", test=folder / "test.csv", out=out, report=report, state=state, **QUICK
    )
    assert list(first.files) == [state, out, report]
    again = run_trace(out, n=first.data["n"])
    for name in ("bound", "kl", "bound_with_sampling_error", "test_error"):
        assert again.data[name] == pytest.approx(first.data[name])
    page = report.read_text()
    assert page.count("<svg") == 2
    assert "What is guaranteed" in page
    assert "What is approximate" in page
    told = []
    resumed = run_train(
        folder / "train.csv", target="kind", test=folder / "test.csv", state=state, progress=lambda *a: told.append(a),
        **QUICK,
    )  # fmt: skip
    assert told == []
    assert resumed.data == first.data


def test_calibration_is_named_a_heuristic(folder):
    outcome = run_train(folder / "train.csv", target="kind", calibrate=True, state=folder / "state.pt", **QUICK)
    assert outcome.data["calibration_factor"] >= 0.1
    assert outcome.data["heuristic_calibrated_bound"][1:] != outcome.data["bound"][1:]
    assert "a heuristic without a guarantee" in outcome.tables[0].note
    assert (folder / "state.pt.random").exists()
    if outcome.data["calibration_factor"] == 0.1:
        assert any("tells nothing" in warning for warning in outcome.data["warnings"])


def test_random_labels_are_not_certified(folder):
    outcome = run_train(folder / "train.csv", target="kind", random_labels=True, **QUICK)
    assert min(outcome.data["bound"]) > 0.5
    assert min(outcome.data["training_error"]) > 0.3


def test_arrays_of_three_classes(folder):
    rng = np.random.default_rng(0)
    y = rng.integers(3, size=90)
    np.savez(folder / "images.npz", X=rng.normal(y[:, None, None], 0.3, (90, 2, 2)), y=y)
    outcome = run_train(
        folder / "images.npz", loss="savage", scaling="none", **{**QUICK, "ratios": (4.0, 32.0), "burn_in": 100}
    )
    assert outcome.data["n"] == 90
    assert outcome.data["training_error"][0] > 0.5
    assert outcome.data["training_error"][-1] < 0.5


def test_scaling_comes_from_rows_outside_the_sample():
    plan = Plan("held-aside", "savage", 3, (1.0,), 0.05, 1.0, 0.5, 1, 4, 4, None, False, False, 3)
    inputs = np.random.default_rng(0).normal([0, 50], [1, 9], (200, 2))
    inputs[:, 1] = np.round(inputs[:, 1])
    rows, shift, spread = _scaled(inputs, plan)
    aside = np.setdiff1d(np.arange(200), rows)
    assert (len(rows), len(aside)) == (180, 20)
    assert shift == pytest.approx(inputs[aside].mean(axis=0))
    changed = inputs.copy()
    changed[rows] += 1000
    assert _scaled(changed, plan)[1] == pytest.approx(shift)
    constant = np.column_stack([inputs[:, 0], np.ones(200)])
    assert _scaled(constant, plan)[2][1] > 0
    assert np.isfinite(spread).all()


def test_a_trace_is_bounded_by_hand(folder):
    outcome = run_trace(folder / "trace.csv", n=1000, report=folder / "report.html")
    kl = [0, 100 * 0.3, 100 * 0.5 + 900 * 0.2 - 1000 * 0.05]
    assert outcome.data["kl"] == pytest.approx(kl)
    assert outcome.data["bound_with_sampling_error"] is None
    assert outcome.data["bound"] == pytest.approx(
        gibbs_bound([0, 100, 1000], [0.5, 0.2, 0.05], [0.5, 0.2, 0.04], 1000).bound
    )
    assert (folder / "report.html").exists()
    wide = run_trace(folder / "trace.csv", n=1000, scale=3.98)
    assert wide.data["kl"] == pytest.approx([3.98 * value for value in kl])


def test_a_trace_of_random_labels_calibrates(folder):
    (folder / "random.csv").write_text("beta,surrogate_loss,error\n0,0.5,0.5\n100,0.45,0.4\n1000,0.3,0.3\n")
    outcome = run_trace(folder / "trace.csv", n=1000, random_trace=folder / "random.csv")
    assert 0.1 < outcome.data["calibration_factor"] < 100
    three = run_trace(folder / "trace.csv", n=1000, random_trace=folder / "random.csv", classes=3)
    assert three.data["calibration_factor"] > outcome.data["calibration_factor"]


def test_a_bound_below_the_test_error_is_shouted(folder):
    lines = TRACE.splitlines()
    rows = [f"{line},{value}" for line, value in zip(lines, ("test_error", 0.5, 0.3, 0.9), strict=True)]
    (folder / "bad.csv").write_text("\n".join(rows) + "\n")
    assert "BELOW the test error" in run_trace(folder / "bad.csv", n=1000).summary
    assert "BELOW" not in run_trace(folder / "trace.csv", n=1000).summary


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("beta,loss,error\n0,1,1\n", "no column 'surrogate_loss'"),
        ("beta,surrogate_loss,error\n1,.5,.5\n2,.4,.4\n", "first beta is 1"),
        ("beta,surrogate_loss,error\n0,.5,.5\n0,.4,.4\n", "must increase"),
        ("beta,surrogate_loss,error\n0,.5,1.5\n", "1.5"),
        ("beta,surrogate_loss,error\n0,.5,\n5,.4,.2\n", "Row 2"),
        ("beta,surrogate_loss,error\n0,x,.5\n", "holds 'x'"),
        ("beta,surrogate_loss,error,sampler_scale,reported_scale\n0,.5,.5,3.98,1\n9,.4,.4,3.98,1\n", "must be 3.98"),
        ("beta,surrogate_loss,error,sampler_scale\n0,.5,.5,3.98\n9,.4,.4,1\n", "changes from row to row"),
    ],
)
def test_wrong_traces_are_one_sentence(folder, text, words):
    (folder / "wrong.csv").write_text(text)
    before = sorted(folder.iterdir())
    with pytest.raises(InputError) as caught:
        run_trace(folder / "wrong.csv", n=1000, report=folder / "report.html")
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)
    assert sorted(folder.iterdir()) == before


@pytest.mark.parametrize(
    ("change", "options", "words"),
    [
        ({}, {"target": None}, "--target is missing"),
        ({}, {"target": "knd"}, "did you mean 'kind'"),
        ({}, {"ignore": ("c",)}, "no column 'c'"),
        ({}, {"ignore": ("a", "b")}, "no column beside 'kind'"),
        ({"a": "text"}, {}, "holds text ('text')"),
        ({"a": math.nan}, {}, "Example 1"),
        ({"kind": 0.5}, {}, "0.5, which is no class"),
        ({"kind": None}, {}, "missing"),
        ({"kind": "one"}, {}, "holds 1 classes"),
        ({}, {"ratios": (1.0, 0.5)}, "increasing positive"),
        ({}, {"batch_size": 1000}, "from 1 to 108"),
        ({}, {"lr": 1e30, "prior_std": 1e10}, "smaller"),
    ],
)
def test_wrong_tables_are_one_sentence_and_leave_no_file(folder, change, options, words):
    table(120).assign(**change).to_csv(folder / "wrong.csv", index=False)
    before = sorted(folder.iterdir())
    options = {"target": "kind", **QUICK, "out": folder / "out.csv", "report": folder / "report.html", **options}
    with pytest.raises(InputError) as caught:
        run_train(folder / "wrong.csv", **options)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)
    assert sorted(folder.iterdir()) == before


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ({"X": np.zeros((20, 2))}, "no arrays X and y"),
        ({"X": np.zeros(20), "y": np.arange(20) % 2}, "shape (20,)"),
        ({"X": np.zeros((20, 2)), "y": np.arange(19) % 2}, "shape (19,)"),
        ({"X": np.full((20, 2), np.nan), "y": np.arange(20) % 2}, "Example 1"),
        ({"X": np.zeros((6, 2)), "y": np.arange(6) % 2}, "6 examples"),
    ],
)
def test_wrong_arrays_are_one_sentence(folder, content, words):
    np.savez(folder / "wrong.npz", **content)
    with pytest.raises(InputError) as caught:
        run_train(folder / "wrong.npz", **QUICK)
    assert words in str(caught.value)


def test_a_file_that_is_no_archive_and_a_test_file_of_other_columns_or_classes(folder):
    (folder / "wrong.npz").write_text("nothing")
    with pytest.raises(InputError, match=r"no \.npz file"):
        run_train(folder / "wrong.npz", **QUICK)
    table(30).rename(columns={"a": "c"}).to_csv(folder / "other.csv", index=False)
    with pytest.raises(InputError, match="the same columns"):
        run_train(folder / "train.csv", target="kind", test=folder / "other.csv", **QUICK)
    table(30, names=("no", "maybe")).to_csv(folder / "other.csv", index=False)
    with pytest.raises(InputError, match="class 'maybe'"):
        run_train(folder / "train.csv", target="kind", test=folder / "other.csv", **QUICK)


def test_a_state_of_another_seed_is_refused(folder):
    state = folder / "state.pt"
    run_train(folder / "train.csv", target="kind", state=state, **QUICK)
    assert torch.load(state, weights_only=True)["traces"]
    with pytest.raises(InputError, match="other data or settings"):
        run_train(folder / "train.csv", target="kind", state=state, seed=1, **QUICK)


def test_too_few_examples_are_refused(folder):
    with pytest.raises(InputError, match="n is 7; the bound needs 8"):
        run_trace(folder / "trace.csv", n=7)


@pytest.mark.parametrize(
    ("function", "name", "value", "words"),
    [
        (run_train, "delta", "0", "over 0 and under 1"),
        (run_train, "steps", "3", "at least 4"),
        (run_train, "loss", "crossentropy", "did you mean 'cross-entropy'"),
        (run_train, "lr", "0", "greater than 0"),
        (run_train, "ratios", "1,x", "'x'"),
        (run_trace, "n", "0", "at least 1"),
        (run_trace, "scale", "-1", "greater than 0"),
        (run_trace, "classes", "1", "at least 2"),
    ],
)
def test_options_out_of_range_are_refused(function, name, value, words):
    parameter = next(item for item in parameters(function) if item.name == name)
    with pytest.raises(InputError, match=words):
        convert(parameter, value)
