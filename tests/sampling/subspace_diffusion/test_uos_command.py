"""The command: what it finds in known files, what it writes, refusals in one sentence."""

import json

import numpy as np
import pytest

from workingpapers.foundations.errors import InputError
from workingpapers.foundations.progress import silent
from workingpapers.foundations.signature import convert, parameters
from workingpapers.foundations.transport import wasserstein
from workingpapers.sampling.subspace_diffusion.command import run
from workingpapers.sampling.subspace_diffusion.truth import random_union

LAW = random_union(np.random.default_rng(3), 12, 3, 2)


@pytest.fixture
def planes(tmp_path):
    file = tmp_path / "planes.npy"
    np.save(file, LAW.sample(240, np.random.default_rng(4))[0])
    return file


def test_planes_are_found_sampled_planned_and_reported(planes, tmp_path):
    out, report = tmp_path / "new.npy", tmp_path / "page.html"
    seen = []
    outcome = run(planes, samples=150, out=out, error=0.2, steps=60, report=report,
                  progress=lambda share, message="": seen.append(share))  # fmt: skip
    assert [item["dimension"] for item in outcome.data["subspaces"]] == [2, 2, 2]
    assert all(1.3 < item["intrinsic_dimension"] < 3.2 for item in outcome.data["subspaces"])
    assert "240 samples in 12 coordinates lie on 3 subspaces of dimension 2, exactly" in outcome.summary
    drawn = np.load(out)
    assert drawn.shape == (150, 12)
    first, second = (LAW.sample(150, np.random.default_rng(seed))[0] for seed in (8, 9))
    assert wasserstein(drawn, first, order=1) < 2 * wasserstein(first, second, order=1)
    assert 0.3 < outcome.data["newness"] < 1.5
    plan = outcome.data["plan"]
    assert plan["exponent"] == 0.5
    assert plan["samples_low"] <= plan["samples_high"]
    assert plan["samples_high"] == pytest.approx(max(e * s**0.5 for e, s in zip(plan["errors"], plan["sizes"],
                                                                            strict=True)) ** 2 / 0.04)  # fmt: skip
    assert outcome.files == [out, report]
    assert report.read_text().count("<svg") == 3
    assert "an extrapolation, not a bound" in report.read_text()
    assert seen == sorted(seen)
    json.dumps(outcome.data)


def test_the_same_seed_gives_the_same_samples_as_csv(planes, tmp_path):
    first, second = tmp_path / "a.csv", tmp_path / "b.csv"
    for out in (first, second):
        run(planes, subspaces=3, dims=(2,), out=out, samples=20, steps=20, method="tsc")
    assert first.read_text() == second.read_text()
    assert first.read_text().startswith("x0,x1,")
    assert len(first.read_text().splitlines()) == 21


def test_names_of_a_table_are_kept_and_few_samples_have_no_plan(tmp_path):
    table, out = tmp_path / "t.csv", tmp_path / "o.csv"
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((40, 1)) * [1.0, 2.0, 3.0]
    table.write_text("a,b,c\n" + "".join(",".join(f"{cell:.17g}" for cell in row) + "\n" for row in rows))
    outcome = run(table, subspaces=1, out=out, steps=40)
    assert out.read_text().startswith("a,b,c\n")
    assert len(out.read_text().splitlines()) == 41
    assert outcome.data["plan"] is None
    assert "needs 80 samples" in outcome.summary
    drawn = np.loadtxt(out, delimiter=",", skiprows=1)
    np.testing.assert_allclose(drawn / [1.0, 2.0, 3.0], drawn[:, :1] * np.ones(3), atol=1e-3)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"samples": 10}, "--samples 10 needs a file"),
        ({"out": "new.txt"}, r"ends in \.npy or \.csv"),
        ({"subspaces": 500}, "500 subspaces do not fit 240 samples"),
        ({"dims": (2, 2)}, "need the number of subspaces"),
        ({"dims": (13,)}, "dimension 13 does not fit"),
    ],
)
def test_bad_options_are_one_sentence_and_leave_no_file(planes, tmp_path, options, words):
    report = tmp_path / "page.html"
    if "out" in options:
        options = {"out": tmp_path / options["out"]}
    with pytest.raises(InputError, match=words) as caught:
        run(planes, report=report, progress=silent, **options)
    assert "\n" not in str(caught.value)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["planes.npy"]


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("a.npy", np.zeros((3, 2, 2)), "reshape it"),
        ("a.npy", np.array([["x", "y"]]), "real numbers"),
        ("a.npy", np.array([[1.0, np.inf]] * 6), "inf in row 0, coordinate 1"),
        ("a.npy", np.ones((3, 2)), "holds 3 samples"),
        ("a.npy", b"not an array", "not a .npy file"),
        ("a.csv", b"a,b\n1,x\n2,y\n", "Column 'b'"),
        ("a.csv", b"a,b\n1,\n2,3\n3,4\n4,5\n5,6\n", "nan in row 0"),
        ("a.csv", b"a,b\n", "no rows"),
    ],
)
def test_bad_files_are_one_sentence(tmp_path, name, content, words):
    file = tmp_path / name
    if isinstance(content, bytes):
        file.write_bytes(content)
    else:
        np.save(file, content)
    with pytest.raises(InputError, match=words) as caught:
        run(file)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("subspaces", "0", "from 1 to 1000"),
        ("subspaces", "two", "not a whole number"),
        ("dims", ["2", "x"], "'x', which is not a whole number"),
        ("error", "0", "greater than 0"),
        ("method", "sscc", "did you mean 'ssc'"),
        ("steps", "1", "from 2"),
        ("neighbors", "0", "at least 1"),
    ],
)
def test_options_out_of_range_are_refused(name, value, words):
    parameter = next(item for item in parameters(run) if item.name == name)
    with pytest.raises(InputError, match=words):
        convert(parameter, value)
