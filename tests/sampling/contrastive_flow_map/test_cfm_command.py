"""The trainer, and ``papers run contrastive_flow_map`` on files."""

import csv
import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from workingpapers.cli import main
from workingpapers.foundations.errors import InputError
from workingpapers.foundations.progress import silent
from workingpapers.foundations.signature import convert, parameters
from workingpapers.sampling.contrastive_flow_map import FlowMLP, Plan, Scaling, claim, sample, train
from workingpapers.sampling.contrastive_flow_map.analysis import load
from workingpapers.sampling.contrastive_flow_map.command import run

QUICK = Plan(steps=12, batch=16, warm_up=0.5, decay=0.9)


def source(seed=0):
    return torch.Generator().manual_seed(seed)


def rows(count=64):
    return torch.randn(count, 2, generator=source())


def network():
    return FlowMLP(2, 8, 1, generator=source(1))


def weights(module):
    return torch.nn.utils.parameters_to_vector(module.parameters()).detach()


@pytest.fixture
def table(tmp_path):
    """A hundred rows around two points, in units far from one."""
    points = np.random.default_rng(0).normal(size=(100, 2)) * [1.0, 200.0] + [[50.0, 1000.0]]
    path = tmp_path / "points.csv"
    np.savetxt(path, points, delimiter=",", header="width,height", comments="", fmt="%.6f")
    return path


def test_training_learns_a_gaussian():
    """Samples of N(2, 0.25) from one jump, by moments."""
    data = 2 + 0.5 * torch.randn(1000, 1, generator=source())
    start = FlowMLP(1, 32, 2, generator=source(1))
    found = train(start, data, Plan(steps=350, lr=3e-3, contrast=0.1, batch=128)).network
    for steps in (1, 2):
        points = sample(found, torch.randn(2000, 1, generator=source(2)), steps=steps)
        assert float(points.mean()) == pytest.approx(2, abs=0.15)
        assert float(points.std()) == pytest.approx(0.5, abs=0.15)
    assert float(sample(start, torch.zeros(1, 1))) == 0  # the network given is left as it was


def test_the_contrast_waits_for_its_warm_up_and_weight_zero_is_plain_training():
    plain = train(network(), rows(), replace(QUICK, contrast=0.0, steps=6))
    waiting = train(network(), rows(), replace(QUICK, contrast=5.0, warm_up=1.0, steps=6))
    on = train(network(), rows(), replace(QUICK, contrast=5.0, warm_up=0.0, steps=6))
    assert torch.equal(weights(plain.network), weights(waiting.network))
    assert not torch.equal(weights(plain.network), weights(on.network))
    assert plain.history[0]["marginal"] == on.history[0]["marginal"]  # same batch, times and noise
    assert "contrast" not in waiting.history[-1]
    last = on.history[-1]
    assert last["loss"] == pytest.approx(last["marginal"] + 5 * last["contrast"])
    assert last["gradient_contrast"] > 0
    half = train(network(), rows(), replace(QUICK, contrast=5.0, warm_up=0.5))
    assert "contrast" not in half.history[0]
    assert "contrast" in half.history[-1]


def test_the_moving_average_is_what_samples():
    data, decay, start = rows(), 0.5, weights(network())
    found = train(network(), data, replace(QUICK, steps=2, decay=decay, contrast=0.0)).network
    plain = [train(network(), data, replace(QUICK, steps=k, decay=0.0, contrast=0.0)).network for k in (1, 2)]
    wanted = decay * (decay * start + (1 - decay) * weights(plain[0])) + (1 - decay) * weights(plain[1])
    torch.testing.assert_close(weights(found), wanted)


@pytest.mark.parametrize("marginal", ["meanflow", "shortcut"])
def test_training_goes_on_from_a_checkpoint(tmp_path, marginal):
    plan = replace(QUICK, marginal=marginal)
    path = tmp_path / "state.pt"
    whole = train(network(), rows(), plan)

    class Stopped(Exception):
        pass

    def stop(fraction, message=""):
        raise Stopped

    with pytest.raises(Stopped):
        # Progress is told at the first and the last step; the checkpoint of step 8 is what an interruption leaves.
        train(network(), rows(), plan, checkpoint=path, save_every=8, progress=_after(2, stop))
    assert torch.load(path, weights_only=True)["step"] == 8
    resumed = train(network(), rows(), plan, checkpoint=path, save_every=8)
    assert torch.equal(weights(resumed.network), weights(whole.network))
    assert resumed.history == whole.history
    again = train(network(), rows(), plan, checkpoint=path)
    assert torch.equal(weights(again.network), weights(whole.network))
    for other in (replace(plan, lr=0.1), replace(plan, seed=3)):
        with pytest.raises(InputError, match="other data or settings"):
            train(network(), rows(), other, checkpoint=path)
    with pytest.raises(InputError, match="other data or settings"):
        train(network(), rows() + 1, plan, checkpoint=path)


def _after(calls, action):
    seen = []

    def progress(fraction, message=""):
        seen.append(fraction)
        if len(seen) == calls:
            action(fraction, message)

    return progress


def test_divergence_is_told_at_its_step():
    class Breaking(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.scale = torch.nn.Parameter(torch.ones(()))
            self.calls = 0

        def forward(self, z, r, t):
            self.calls += 1
            return z * self.scale * (math.nan if self.calls > 3 else 1.0)

    with pytest.raises(InputError, match=r"nan at step 4 of 12.*smaller than 0\.001"):
        train(Breaking(), rows(), replace(QUICK, contrast=0.0, equal=1.0))


@pytest.mark.parametrize(
    ("data", "plan", "told"),
    [
        (torch.zeros(5), QUICK, "shape"),
        (torch.full((5, 2), math.inf), QUICK, "not finite"),
        (torch.zeros(1, 2), QUICK, "two rows"),
        (rows(), replace(QUICK, steps=0), "steps is 0"),
        (rows(), replace(QUICK, lr=0.0), "lr 0"),
        (rows(), replace(QUICK, contrast=-1.0), "contrast -1"),
        (rows(), replace(QUICK, batch=1), "batch has 1 row"),
        (rows(), replace(QUICK, positives="rollout"), "number"),
        (rows(), replace(QUICK, tau=-0.1), "tau is -0.1"),
    ],
)
def test_what_cannot_be_trained_is_told(data, plan, told):
    with pytest.raises(InputError, match=told):
        train(network(), data, plan)


def test_labels_stay_with_their_rows():
    """Classes a thousand apart: the sign of a state tells its class, in every call and at every time below 0.99."""
    labels = torch.arange(200) % 2
    data = 1000 * (2.0 * labels - 1)[:, None] + torch.randn(200, 1, generator=source())
    calls = []

    class Watchful(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.scale = torch.nn.Parameter(torch.zeros(()))

        def forward(self, z, r, t, c):
            calls.append(len(z))
            early = t < 0.99
            assert bool((z[early, 0] * (2 * c[early] - 1) > 0).all())
            return z * 0 * self.scale

    train(Watchful(), data, replace(QUICK, warm_up=0.0, steps=4), labels=labels)
    assert len(calls) == 4 * 4  # target, regression, jump, reconstruction
    labelled = FlowMLP(1, 8, 1, classes=2, generator=source(1))
    with pytest.raises(InputError, match="give labels"):
        sample(labelled, torch.zeros(2, 1))


def test_scaling_goes_there_and_back():
    data = rows() * torch.tensor([3.0, 0.0]) + torch.tensor([5.0, 7.0])
    for shared in (False, True):
        scaling = Scaling.of(data, shared=shared)
        torch.testing.assert_close(scaling.backward(scaling.forward(data)), data)
        assert float(scaling.forward(data)[:, 1].abs().max()) == 0
    spread = Scaling.of(rows(1000), shared=False).forward(rows(1000)).std(0)
    torch.testing.assert_close(spread, torch.ones(2))
    with pytest.raises(InputError, match="All rows are the same"):
        Scaling.of(torch.ones(9, 2), shared=True)


def test_command_from_a_table_to_samples(table, tmp_path, capsys):
    out, model, report = tmp_path / "samples.csv", tmp_path / "model.pt", tmp_path / "page.html"
    options = {"steps": 30, "hidden": 16, "batch": 32, "few": "2", "number": 40}
    outcome = run(table, out=out, model=model, report=report, **options)
    with out.open() as stream:
        content = list(csv.reader(stream))
    assert content[0] == ["width", "height"]
    assert len(content) == 41
    middle = np.array(content[1:], dtype=float).mean(0)
    assert 40 < middle[0] < 60  # back in the units of the data
    assert 500 < middle[1] < 1500
    assert set(outcome.data["distances"]) == {"1", "2", "4"}
    assert outcome.data["floor_mean"] <= outcome.data["floor_largest"] < outcome.data["distances"]["1"] + 1
    assert "<svg" in report.read_text()
    assert outcome.files == [out, model, report]
    first = out.read_bytes()
    again = run(table, out=out, model=model, **options)  # everything is trained already
    assert again.data == outcome.data
    assert out.read_bytes() == first
    network, scaling, shape = load(model)
    noise = torch.randn(40, 2, generator=source(1))
    np.testing.assert_allclose(
        scaling.backward(sample(network, noise, steps=2)).numpy(), np.array(content[1:], dtype=float), rtol=1e-4
    )
    assert shape == (2,)
    words = ["run", "contrastive_flow_map", str(table), "--out", str(out), "--model", str(model), "--steps", "31"]
    assert main(words) == 2
    assert "other data or settings" in capsys.readouterr().err


def test_command_on_images(tmp_path):
    pictures = np.random.default_rng(0).integers(0, 16, size=(60, 4, 4))
    np.save(tmp_path / "images.npy", pictures)
    outcome = run(tmp_path / "images.npy", out=tmp_path / "out.npy", steps=5, hidden=8, image=True, contrast=0.0)
    assert np.load(tmp_path / "out.npy").shape == (60, 4, 4)
    assert len(outcome.figures) == 2
    assert "held-out" in outcome.figures[0].svg


def test_one_column_and_repeated_rows(tmp_path):
    np.save(tmp_path / "line.npy", np.repeat(np.arange(20.0), 3))
    outcome = run(tmp_path / "line.npy", out=tmp_path / "out.npy", steps=3, hidden=8)
    assert "40 rows repeat" in outcome.summary
    assert outcome.data["repeated_rows"] == 40


@pytest.mark.parametrize(
    ("name", "content", "options", "told"),
    [
        ("few.csv", "a,b\n1,2\n3,4\n", {}, "2 rows"),
        ("text.csv", "a,b\n" + "1,x\n" * 30, {}, "'b'.*text"),
        ("gap.csv", "a,b\n" + "1,2\n" * 30 + "1,\n", {}, "Row 30"),
        ("same.csv", "a,b\n" + "1,2\n" * 30, {}, "the same"),
        ("oblong.csv", "a,b\n" + "1,2\n2,3\n" * 30, {"image": True}, "2 numbers"),
        ("broken.npy", "no array", {}, "no NumPy array"),
    ],
)
def test_wrong_files_are_told(tmp_path, name, content, options, told):
    (tmp_path / name).write_text(content)
    with pytest.raises(InputError, match=told):
        run(tmp_path / name, out=tmp_path / "out.npy", model=tmp_path / "model.pt", **options)
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_wrong_arrays_and_places_are_told(table, tmp_path):
    np.save(tmp_path / "words.npy", np.array([["a"]] * 30))
    with pytest.raises(InputError, match="rows of numbers"):
        run(tmp_path / "words.npy", out=tmp_path / "out.npy")
    with pytest.raises(InputError, match=r"ends in \.npy or \.csv"):
        run(table, out=tmp_path / "out.txt")
    with pytest.raises(InputError, match="same file"):
        run(table, out=table)
    (tmp_path / "model.pt").write_text("no model")
    with pytest.raises(InputError, match="no checkpoint"):
        run(table, out=tmp_path / "out.npy", model=tmp_path / "model.pt", steps=2)
    assert (tmp_path / "model.pt").read_text() == "no model"
    assert not (tmp_path / "out.npy").exists()


def test_options_are_checked():
    found = {item.name: item for item in parameters(run)}
    for name, value in (("few", "3"), ("steps", "0"), ("contrast", "-1"), ("lr", "0"), ("batch", "1"), ("few", "x")):
        with pytest.raises(InputError, match=value):
            convert(found[name], value)


def test_arms_of_a_seed_share_data_start_and_draws():
    settings = {"pretrain": 4, "tune": 2}
    arms = claim.CLAIM.arms
    plain = arms["plain, equal steps"](1, silent, **settings)
    repeated = claim.NO_HARM.arms["plain, equal steps"](1, silent, **settings)
    for name in ("energy_distance_1", "energy_distance_2", "energy_distance_4"):
        assert plain[name] == repeated[name]
    assert arms["real digits"](1, silent, **settings)["energy_distance_1"] < plain["energy_distance_1"]
