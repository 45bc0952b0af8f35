"""``papers run latent_manifold`` on files."""

import math

import numpy as np
import pytest

from workingpapers.cli import main
from workingpapers.foundations.errors import InputError
from workingpapers.foundations.progress import silent
from workingpapers.foundations.signature import convert, parameters
from workingpapers.sampling.latent_manifold import claim
from workingpapers.sampling.latent_manifold.command import run_digits, run_paths


@pytest.fixture
def codes(tmp_path):
    """A circle of 300 codes in three dimensions."""
    angles = 2 * math.pi * np.arange(300) / 300
    path = tmp_path / "codes.npy"
    np.save(path, np.stack([np.cos(angles), np.sin(angles), 0 * angles], axis=1))
    return path


def test_paths_follow_the_circle(codes, tmp_path):
    out, report = tmp_path / "paths.npz", tmp_path / "report.html"
    outcome = run_paths(codes, start=0, end=100, segments=12, out=out, report=report)
    assert outcome.data["dimension"] == 1
    assert outcome.data["converged"] == [True]
    assert outcome.data["length"][0] == pytest.approx(2 * math.pi / 3, rel=0.01)
    assert outcome.data["straight_farthest"][0] == pytest.approx(0.5, abs=0.01)
    assert outcome.data["farthest"][0] < 0.02
    found = np.load(out)
    assert found["points"].shape == (1, 13, 3)
    np.testing.assert_allclose(np.linalg.norm(found["points"], axis=-1), 1, atol=0.01)
    assert "<svg" in report.read_text()
    assert outcome.files == [out, report]
    again = run_paths(codes, start=0, end=100, segments=12)
    assert again.data == outcome.data


def test_tables_and_pairs(codes, tmp_path):
    table, pairs = tmp_path / "codes.csv", tmp_path / "pairs.csv"
    np.savetxt(table, np.load(codes), delimiter=",", header="a,b,c", comments="")
    pairs.write_text("start,end\n0,20\n50,90\n")
    outcome = run_paths(table, pairs=pairs, segments=6)
    assert outcome.data["ends"] == [[0, 20], [50, 90]]
    np.testing.assert_allclose(outcome.data["length"], [2 * math.pi / 15, 4 * math.pi / 15], rtol=0.02)


def test_codes_that_fill_their_space_are_told(tmp_path):
    grid = np.stack(np.meshgrid(np.arange(15.0), np.arange(15.0)), axis=-1).reshape(-1, 2)
    np.save(tmp_path / "grid.npy", grid)
    outcome = run_paths(tmp_path / "grid.npy", start=31, end=150, segments=4)
    assert "fill their space" in outcome.summary
    assert outcome.data["length"][0] == pytest.approx(np.linalg.norm(grid[31] - grid[150]), rel=1e-6)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({}, "No pair"),
        ({"start": 3}, "No pair"),
        ({"start": 3, "end": 300}, "no code 300"),
        ({"start": 3, "end": 3}, "both 3"),
        ({"start": 3, "end": 4, "pairs": "start,end\n1,2\n"}, "Both"),
        ({"pairs": "first,end\n1,2\n"}, "no column 'start'"),
        ({"pairs": "start,end\n1,x\n"}, "no number"),
        ({"pairs": "start,end\n1,2.5\n"}, "whole number"),
        ({"pairs": "start,end\n1,\n"}, "whole number"),
        ({"pairs": "start,end\n-1,2\n"}, "no code -1"),
    ],
)
def test_wrong_pairs_are_told(codes, tmp_path, options, told):
    if "pairs" in options:
        (tmp_path / "pairs.csv").write_text(options["pairs"])
        options = {**options, "pairs": tmp_path / "pairs.csv"}
    with pytest.raises(InputError, match=told):
        run_paths(codes, **options, out=tmp_path / "paths.npz")
    assert not (tmp_path / "paths.npz").exists()


def test_wrong_codes_are_told(tmp_path):
    np.save(tmp_path / "flat.npy", np.arange(5.0))
    (tmp_path / "broken.npy").write_bytes(b"\x93NUMPY broken")
    np.save(tmp_path / "objects.npy", np.array([{}, {}]), allow_pickle=True)
    for name, told in (("flat", "shape"), ("broken", "no NumPy array"), ("objects", "no NumPy array")):
        with pytest.raises(InputError, match=told):
            run_paths(tmp_path / f"{name}.npy", start=0, end=1)


def test_options_are_checked():
    found = {item.name: item for item in parameters(run_paths)}
    for name, value in (("sigma", "0"), ("segments", "1"), ("projector", "mlp"), ("start", "-1")):
        with pytest.raises(InputError, match=value):
            convert(found[name], value)


def test_command_line(codes, capsys):
    assert main(["run", "latent_manifold", "paths", str(codes), "--start", "0", "--end", "500"]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_arms_share_their_data():
    settings = {"codes": 300, "pairs": 2}
    linear = claim.CLAIM.arms["linear"](0, silent, **settings)
    projected = claim.CLAIM.arms["linear, projected"](0, silent, **settings)
    assert linear["max_depth"] > 5 * projected["max_depth"]
    assert linear == claim.CLAIM.arms["linear"](0, silent, **settings)


def test_digits_are_decoded_along_four_kinds_of_paths(tmp_path):
    outcome = run_digits(pairs=2, steps=200, report=tmp_path / "digits.html")
    paths = outcome.data["paths"]
    assert set(paths) == {"geodesic", "linear", "geodesic, decoded metric", "k-NN graph"}
    assert paths["k-NN graph"]["distance"] < paths["linear"]["distance"]  # its nodes are codes of images
    assert paths["geodesic, decoded metric"]["length"] < paths["k-NN graph"]["length"]
    assert (tmp_path / "digits.html").read_text().count("<svg") == 2
