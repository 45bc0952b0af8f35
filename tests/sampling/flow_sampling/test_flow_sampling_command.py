"""The command: benchmarks, a user's program, going on after a stop, and what it refuses."""

import json

import numpy as np
import pytest

pytest.importorskip("ot")

from workingpapers.cli import main

QUICK = ["--rounds", "3", "--updates", "5", "--new-samples", "64", "--steps", "8", "--samples", "200"]


def run(*words, capsys):
    code = main(["run", "flow_sampling", *words])
    out, err = capsys.readouterr()
    return code, out, err


@pytest.mark.parametrize("target", ["ring", "many_well", "sphere", "double_well_particles"])
def test_benchmarks_give_samples_and_a_report(tmp_path, capsys, target):
    code, out, _ = run(
        "--target", target, *QUICK, "--out", str(tmp_path / "s.npz"), "--report", str(tmp_path / "r.html"), "--json",
        capsys=capsys,
    )  # fmt: skip
    assert code == 0
    told = json.loads(out)
    assert told["gradients"] == 3 * 64
    stored = np.load(tmp_path / "s.npz")
    assert stored["samples"].shape[0] == 200
    assert ("log_weights" in stored.files) == (target in ("ring", "many_well"))
    assert (told["log_partition"] is None) == ("log_weights" not in stored.files)
    page = (tmp_path / "r.html").read_text()
    assert page.count("<svg") >= 2


def test_a_program_is_sampled_and_goes_on_from_its_checkpoint(tmp_path, capsys):
    program = tmp_path / "energy.py"
    program.write_text("def mine(x):\n    return -0.5 * ((x - 2) ** 2).sum(-1)\n")
    words = [
        "--program",
        str(program),
        "--function",
        "mine",
        "--dim",
        "2",
        "--checkpoint",
        str(tmp_path / "c.pt"),
        *QUICK,
    ]
    assert run(*words, capsys=capsys)[0] == 0
    words[words.index("--rounds") + 1] = "5"
    code, out, _ = run(*words, "--json", capsys=capsys)
    told = json.loads(out)
    assert (code, told["rounds"], told["gradients"]) == (0, 5, 5 * 64)
    words[words.index("--rounds") + 1] = "4"
    code, _, err = run(*words, capsys=capsys)
    assert code == 2
    assert "has 5 rounds and --rounds is 4" in err


def test_a_scale_changes_units_alone(tmp_path, capsys):
    program = tmp_path / "energy.py"
    program.write_text("def log_density(x):\n    return -0.5 * ((x / 30) ** 2).sum(-1)\n")
    words = ["--program", str(program), "--dim", "1", "--scale", "30", "--out", str(tmp_path / "s.npz"), *QUICK]
    words[words.index("--rounds") + 1], words[words.index("--updates") + 1] = "15", "40"
    code, out, _ = run(*words, "--json", capsys=capsys)
    told = json.loads(out)
    assert code == 0
    assert told["log_partition"] == pytest.approx(np.log(30 * np.sqrt(2 * np.pi)), abs=0.1)
    assert np.load(tmp_path / "s.npz")["samples"].std() == pytest.approx(30, rel=0.2)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--program", "{}/energy.py"], "give --dim"),
        (["--program", "{}/energy.py", "--dim", "1"], "fails on four points of 1 coordinates (IndexError"),
        (["--program", "{}/energy.py", "--dim", "2", "--function", "nothing"], "has no function 'nothing'"),
        (["--program", "{}/energy.py", "--dim", "3", "--particles", "2"], "3 coordinates cannot be shared"),
        (["--program", "{}/missing.py", "--dim", "2"], "missing.py"),
        (["--target", "ring", "--dim", "3"], "fixed length"),
        (["--target", "sphere", "--scale", "2"], "curved space"),
        (["--target", "many_well", "--dim", "5"], "even dimension, not 5"),
        (["--out", "{}/samples.csv"], "ends in .npz"),
        (["--checkpoint", "{}/energy.py"], "no checkpoint of this sampler"),
        (["--clip", "0"], "greater than 0"),
    ],
)
def test_what_cannot_be_used_is_told_in_a_sentence(tmp_path, capsys, words, said):
    (tmp_path / "energy.py").write_text("def log_density(x):\n    return -(x[:, 0] ** 2) - x[:, 1] ** 2\n")
    before = sorted(tmp_path.iterdir())
    code, _, err = run(*[word.format(tmp_path) for word in words], *QUICK, capsys=capsys)
    assert code == 2
    assert said in err
    assert err.count("\n") == 1
    assert sorted(path for path in tmp_path.iterdir() if path.name != "__pycache__") == before
