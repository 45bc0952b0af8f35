"""The tuner on PEFT's layers: the law of the flow, plain LoRA as a limit, pruning, saving, merging, errors."""

import copy
import itertools
import math

import pytest
import torch
from peft import LoraConfig, PeftModel, get_peft_model
from torch import nn

from workingpapers.foundations.errors import InputError
from workingpapers.posttraining.spectral_bridge import (
    SpectralSettings,
    SpectralTuner,
    attach,
    friction_penalty,
    law_constant,
    spectra,
    surviving,
)


class Nested(nn.Module):
    """Three linear layers, the name of one an ending of another's."""

    def __init__(self):
        super().__init__()
        self.outer = nn.ModuleDict({"proj": nn.Linear(6, 5)})
        self.proj = nn.Linear(5, 4)
        self.head = nn.Linear(4, 3)

    def forward(self, x):
        return self.head(torch.tanh(self.proj(torch.tanh(self.outer["proj"](x)))))


def network(seed=0):
    torch.manual_seed(seed)
    return Nested()


def factors(model, name="0"):
    layer = model.get_base_model().get_submodule(name)
    return layer.lora_B["default"].weight, layer.lora_A["default"].weight


def single(matrix, **options):
    base = nn.Linear(matrix.shape[1], matrix.shape[0], bias=False)
    nn.init.zeros_(base.weight)
    return attach(nn.Sequential(base), targets=["0"], **options)


def put(model, name, left, right):
    b, a = factors(model, name)
    with torch.no_grad():
        b.copy_(left)
        a.copy_(right)


def trainable(model):
    return [parameter for parameter in model.parameters() if parameter.requires_grad]


@pytest.mark.parametrize(
    ("friction", "temperature", "noise"), [("implicit", 1.0, 1.0), ("coupled", 1.0, 1.0), ("coupled", 0.5, 1.6)]
)
def test_the_flow_ends_in_the_closed_form(friction, temperature, noise):
    rows, columns, targets = 30, 20, 200
    constant = law_constant(rows, columns, noise, targets, temperature)
    signals = 2 * math.sqrt(constant) * torch.tensor([4.0, 2.0, 1.2, 0.9, 0.4])
    draw = torch.Generator().manual_seed(0)
    u = torch.linalg.qr(torch.randn(rows, 5, generator=draw))[0]
    v = torch.linalg.qr(torch.randn(columns, 5, generator=draw))[0]
    seen = (u * signals) @ v.T
    model = single(seen, rank=8, start=0.2)
    optimizer = torch.optim.SGD(trainable(model), lr=0.2 * noise**2 / float(signals[0]))
    settings = SpectralSettings(temperature=temperature, every=10, warmup=100, friction=friction)
    tuner = SpectralTuner(model, optimizer, targets=targets, settings=settings)
    for _ in range(1500):
        optimizer.zero_grad()
        b, a = factors(model)
        ((b @ a - seen).square().sum() / (2 * noise**2)).backward()
        optimizer.step()
    (found,) = tuner.finish()
    assert found.rank == 3
    assert found.sigma == pytest.approx(surviving(signals, constant)[:3].tolist(), abs=1e-3)
    assert tuner.paths.ranks("0")[0] == 8
    assert tuner.paths.ranks("0")[-1] == 3


def test_friction_is_the_gradient_of_the_penalty_for_the_whole_data_set():
    model = single(torch.zeros(7, 5), rank=3, start=0.3)
    optimizer = torch.optim.SGD(trainable(model), lr=0.0)
    settings = SpectralSettings(temperature=2.0, smoothing=0.0, every=0, epsilon=0.01)
    tuner = SpectralTuner(model, optimizer, targets=50, settings=settings)
    b, a = factors(model)
    (0 * (b.sum() + a.sum())).backward()
    optimizer.step()
    left, right = b.detach().clone().requires_grad_(), a.detach().T.clone().requires_grad_()
    friction_penalty(left, right, 2.0 / 50, epsilon=0.01).backward()
    assert torch.allclose(b.grad, left.grad)
    assert torch.allclose(a.grad, right.grad.T)
    tuner.finish()


def test_without_temperature_and_gauge_it_is_lora_step_for_step():
    x, y = torch.randn(20, 6), torch.randn(20, 3)
    ours = attach(network(), rank=4, targets=["proj"], seed=3)
    torch.manual_seed(3)
    theirs = get_peft_model(
        network(), LoraConfig(r=4, lora_alpha=4, target_modules=["proj"], rank_pattern={}, alpha_pattern={})
    )
    for (_, one), (_, two) in zip(ours.named_parameters(), theirs.named_parameters(), strict=True):
        two.data.copy_(one.data)
    optimizers = [torch.optim.AdamW(trainable(model), lr=1e-2) for model in (ours, theirs)]
    SpectralTuner(ours, optimizers[0], targets=20, settings=SpectralSettings(temperature=0.0, every=0))
    for _ in range(10):
        for model, optimizer in zip((ours, theirs), optimizers, strict=True):
            optimizer.zero_grad()
            (model(x) - y).square().mean().backward()
            optimizer.step()
        assert torch.equal(ours(x), theirs(x))


def test_a_gauge_step_changes_neither_the_output_nor_where_the_optimiser_was_going():
    model = single(torch.zeros(7, 5), rank=3, start=0.4)
    optimizer = torch.optim.Adam(trainable(model), lr=1e-3)
    tuner = SpectralTuner(model, optimizer, targets=1, settings=SpectralSettings(temperature=0.0, every=0))
    b, a = factors(model)
    (b @ a).sum().backward()
    optimizer.step()
    slope = torch.randn(7, 5)
    with torch.no_grad():
        optimizer.state[b]["exp_avg"].copy_(slope @ a.T)
        optimizer.state[a]["exp_avg"].copy_(b.T @ slope)
    before = (b @ a).detach().clone()
    tuner.gauge()
    assert torch.allclose(b @ a, before, atol=1e-6)
    assert torch.allclose(optimizer.state[b]["exp_avg"], slope @ a.T, atol=1e-5)
    assert torch.allclose(optimizer.state[a]["exp_avg"], b.T @ slope, atol=1e-5)
    assert bool((optimizer.state[b]["exp_avg_sq"] >= 0).all())


def test_second_moments_follow_a_swap_of_modes():
    left, right = torch.linalg.qr(torch.randn(6, 2))[0], torch.linalg.qr(torch.randn(5, 2))[0]
    root = torch.tensor([1.0, 4.0]).sqrt()  # the weaker mode stands first
    model = single(torch.zeros(6, 5), rank=2)
    put(model, "0", left * root, (right * root).T)
    optimizer = torch.optim.Adam(trainable(model))
    tuner = SpectralTuner(model, optimizer, targets=1, settings=SpectralSettings(temperature=0.0, every=0))
    b, _ = factors(model)
    optimizer.state[b] = {"exp_avg_sq": torch.tensor([[1.0, 9.0]]).repeat(6, 1)}
    tuner.gauge()
    assert torch.allclose(optimizer.state[b]["exp_avg_sq"], torch.tensor([[9.0, 1.0]]).repeat(6, 1), atol=1e-4)


@pytest.mark.parametrize("friction", ["implicit", "coupled"])
def test_without_data_every_mode_fades_and_the_layer_is_the_frozen_one(friction):
    base = network()
    x = torch.randn(8, 6)
    expected = copy.deepcopy(base)(x)
    model = attach(base, rank=4, targets=["proj", "head"], start=0.3)
    optimizer = torch.optim.SGD(trainable(model), lr=0.05)
    settings = SpectralSettings(every=1, friction=friction, epsilon=1e-8 if friction == "implicit" else 0.5)
    tuner = SpectralTuner(model, optimizer, targets=1, settings=settings)
    largest = []
    for _ in range(400):
        optimizer.zero_grad()
        (0 * model(x)).sum().backward()
        optimizer.step()
        largest.append(sum(sum(item.sigma) for item in tuner.report()))
    assert all(late < early for early, late in itertools.pairwise(largest) if early > 0)
    assert tuner.exhausted
    assert [item.rank for item in tuner.finish()] == [0, 0, 0]
    assert torch.equal(model(x), expected)


def test_a_cut_mode_leaves_the_others_as_a_zero_mode_would():
    def start():
        model = single(torch.zeros(6, 5), rank=3)
        b, a = factors(model)
        torch.manual_seed(1)
        with torch.no_grad():
            b.copy_(torch.randn(6, 3) * torch.tensor([1.0, 0.0, 1.0]))
            a.copy_(torch.randn(3, 5) * torch.tensor([1.0, 0.0, 1.0])[:, None])
        optimizer = torch.optim.Adam(trainable(model), lr=1e-2)
        tuner = SpectralTuner(model, optimizer, targets=10, settings=SpectralSettings(every=0))
        return model, optimizer, tuner

    def step(model, optimizer, seen):
        optimizer.zero_grad()
        b, a = factors(model)
        (b @ a - seen).square().sum().backward()
        optimizer.step()

    seen = torch.randn(6, 5)
    (whole, first, _), (cut, second, tuner) = start(), start()
    step(whole, first, seen)
    step(cut, second, seen)
    with torch.no_grad():
        tuner._keep(tuner._layers["0"], torch.tensor([True, False, True]))
    for _ in range(3):
        step(whole, first, seen)
        step(cut, second, seen)
        (b, a), (c, d) = factors(whole), factors(cut)
        assert d.shape == (2, 5)
        assert torch.allclose(b @ a, c @ d, atol=1e-6)
    assert second.state[d]["exp_avg"].shape == d.shape
    assert sum(p.numel() for group in second.param_groups for p in group["params"]) == 22


def pruned_model():
    """Return a nested network whose layers have ranks 1, 0 and 2, with its tuner."""
    model = attach(network(), rank=3, targets=["proj", "head"])
    torch.manual_seed(5)
    for name, scale in (("outer.proj", (1, 0, 0)), ("proj", (0, 0, 0)), ("head", (1, 1, 0))):
        b, a = factors(model, name)
        size = torch.tensor(scale, dtype=torch.float32)
        put(model, name, torch.randn(b.shape) * size, torch.randn(a.shape) * size[:, None])
    optimizer = torch.optim.Adam(trainable(model))
    tuner = SpectralTuner(model, optimizer, targets=10)
    tuner._layers["proj"].peak = 1.0
    return model, optimizer, tuner


def test_what_is_saved_is_a_plain_adapter_of_the_ranks_found(tmp_path):
    model, optimizer, tuner = pruned_model()
    report = tuner.finish()
    assert {item.name: item.rank for item in report} == {"outer.proj": 1, "proj": 0, "head": 2}
    assert tuner.ranks() == {"outer.proj": 1, "proj": 0, "head": 2}
    assert [item.weights for item in report] == [11, 0, 14]
    x = torch.randn(9, 6)
    expected = model(x)
    model.save_pretrained(tmp_path)
    loaded = PeftModel.from_pretrained(network(), str(tmp_path))
    assert torch.allclose(loaded(x), expected, atol=1e-6)
    assert {item.name: item.rank for item in spectra(loaded)} == {"outer.proj": 1, "head": 2}
    assert isinstance(loaded.get_base_model().proj, nn.Linear)
    assert sum(p.numel() for group in optimizer.param_groups for p in group["params"]) == 25
    merged = loaded.merge_and_unload()
    assert torch.allclose(merged(x), expected, atol=1e-6)
    assert not any("lora" in name for name, _ in merged.named_parameters())


def test_a_layer_that_lost_its_modes_stays_out_though_its_name_ends_like_a_kept_one(tmp_path):
    model = attach(network(), rank=2, targets=["outer.proj", "proj"])
    put(model, "outer.proj", torch.zeros(5, 2), torch.zeros(2, 6))
    put(model, "proj", torch.eye(4)[:, :2], torch.eye(5)[:2])
    tuner = SpectralTuner(model, torch.optim.SGD(trainable(model), lr=0.1), targets=10)
    tuner._layers["outer.proj"].peak = 1.0
    assert {item.name: item.rank for item in tuner.finish()} == {"outer.proj": 0, "proj": 2}
    model.save_pretrained(tmp_path)
    loaded = PeftModel.from_pretrained(network(), str(tmp_path))
    assert {item.name: item.rank for item in spectra(loaded)} == {"proj": 2}
    x = torch.randn(9, 6)
    assert torch.allclose(loaded(x), model(x), atol=1e-6)


def test_merging_keeps_the_output_and_unmerging_brings_the_weights_back():
    model, _, tuner = pruned_model()
    tuner.finish()
    x = torch.randn(9, 6)
    before = model(x)
    model.merge_adapter()
    assert torch.allclose(model(x), before, atol=1e-6)
    assert torch.allclose(
        model.get_base_model().head.base_layer(torch.ones(1, 4)), model.get_base_model().head(torch.ones(1, 4))
    )
    model.unmerge_adapter()
    for name in ("outer.proj", "head"):
        weight = model.get_base_model().get_submodule(name).base_layer.weight
        assert torch.allclose(weight, network().get_submodule(name).weight, atol=1e-6)


def test_a_model_without_any_mode_left_can_be_saved_and_equals_the_base(tmp_path):
    model = attach(network(), rank=2, targets=["head"])
    optimizer = torch.optim.Adam(trainable(model))
    tuner = SpectralTuner(model, optimizer, targets=10)
    x = torch.randn(4, 6)
    (model(x)).sum().backward()
    optimizer.step()
    tuner._layers["head"].peak = 1e9
    assert tuner.finish()[0].rank == 0
    assert torch.equal(model(x), network()(x))
    model(x).sum().backward()
    optimizer.step()
    assert torch.equal(model(x), network()(x))
    model.save_pretrained(tmp_path)
    assert torch.equal(PeftModel.from_pretrained(network(), str(tmp_path))(x), network()(x))


def test_training_goes_on_from_a_loaded_adapter_and_its_state(tmp_path):
    model, _, tuner = pruned_model()
    tuner.gauge(last=True)
    tuner.save_state(tmp_path)
    model.save_pretrained(tmp_path)
    loaded = PeftModel.from_pretrained(network(), str(tmp_path), is_trainable=True)
    again = SpectralTuner(loaded, torch.optim.Adam(trainable(loaded)), targets=10)
    again.load_state(tmp_path)
    assert again.ranks() == tuner.ranks()
    assert again.paths == tuner.paths
    assert torch.allclose(again._layers["head"].energy, tuner._layers["head"].energy)
    other = attach(network(), rank=3, targets=["head"])
    with pytest.raises(InputError, match="differ at head"):
        SpectralTuner(other, torch.optim.Adam(trainable(other)), targets=10).load_state(tmp_path)
    with pytest.raises(InputError, match="no checkpoint"):
        again.load_state(tmp_path / "nowhere")


def test_patience_is_needed_and_a_mode_that_the_data_pull_stays():
    model = single(torch.zeros(6, 5), rank=2)
    put(model, "0", torch.eye(6)[:, :2] * torch.tensor([1.0, 0.01]), torch.eye(5)[:2] * torch.tensor([[1.0], [0.01]]))
    optimizer = torch.optim.SGD(trainable(model), lr=1e-9)
    tuner = SpectralTuner(model, optimizer, targets=1e6, settings=SpectralSettings(every=0, patience=2))
    layer = tuner._layers["0"]
    layer.pull = torch.tensor([0.0, 1.0])
    for _ in range(4):
        tuner.gauge()
    assert tuner.ranks() == {"0": 2}
    layer.pull = torch.zeros(2)
    tuner.gauge()
    assert tuner.ranks() == {"0": 2}
    layer.pull = torch.tensor([0.0, 1.0])
    tuner.gauge()  # the streak is broken and starts anew
    layer.pull = torch.zeros(2)
    tuner.gauge()
    assert tuner.ranks() == {"0": 2}
    tuner.gauge()
    assert tuner.ranks() == {"0": 1}
    assert [len(values) for values in tuner.paths.sigma["0"]] == [2, 2, 2, 2, 2, 2, 2, 1]


def test_gradients_that_are_not_finite_bring_no_friction():
    model = single(torch.zeros(6, 5), rank=2, start=0.1)
    optimizer = torch.optim.SGD(trainable(model), lr=0.0)
    tuner = SpectralTuner(model, optimizer, targets=1, settings=SpectralSettings(every=0))
    b, a = factors(model)
    before = tuner._layers["0"].energy.clone()
    b.grad, a.grad = torch.full_like(b, float("nan")), torch.zeros_like(a)
    optimizer.step()
    assert bool((a.grad == 0).all())
    assert torch.equal(tuner._layers["0"].energy, before)


def test_the_temperature_rises_over_the_warm_up():
    model = single(torch.zeros(6, 5), rank=2, start=0.1)
    optimizer = torch.optim.SGD(trainable(model), lr=0.0)
    tuner = SpectralTuner(model, optimizer, targets=10, settings=SpectralSettings(warmup=4, every=0, temperature=2.0))
    seen = []
    for _ in range(6):
        seen.append(tuner._strength())
        optimizer.step()
    assert seen == pytest.approx([0, 0.05, 0.1, 0.15, 0.2, 0.2])


def test_the_first_step_sees_the_base_model_and_sides_cap_the_rank():
    model = attach(network(), rank=16)
    x = torch.randn(4, 6)
    assert torch.equal(model(x), network()(x))
    ranks = {name: layer.r["default"] for name, layer in model.get_base_model().named_modules() if hasattr(layer, "r")}
    assert ranks == {"outer.proj": 5, "proj": 4, "head": 3}
    assert torch.equal(factors(attach(network(), seed=7), "head")[1], factors(attach(network(), seed=7), "head")[1])


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"rank": 0}, "not 0"),
        ({"targets": ["hed"]}, "no module 'hed'; did you mean 'head'"),
        ({"targets": []}, "No module is named"),
        ({"targets": ["outer"]}, "'outer' is a ModuleDict"),
        ({"start": 0.0}, "start is 0.0"),
    ],
)
def test_wrong_attachments_are_told(options, told):
    with pytest.raises(InputError, match=told):
        attach(network(), **options)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"temperature": -1.0}, "-1.0"),
        ({"temperature": float("nan")}, "nan"),
        ({"patience": 0}, "patience=0"),
        ({"smoothing": 1.0}, "smoothing=1.0"),
        ({"epsilon": 0.0}, "epsilon=0.0"),
        ({"friction": "none"}, "'none'"),
    ],
)
def test_wrong_settings_are_told(options, told):
    with pytest.raises(InputError, match=told):
        SpectralSettings(**options)


def test_wrong_tuners_are_told():
    model = attach(network(), rank=2)
    optimizer = torch.optim.SGD(trainable(model), lr=0.1)
    for targets in (0, -3, float("nan")):
        with pytest.raises(InputError, match="must be positive"):
            SpectralTuner(model, optimizer, targets=targets)
    with pytest.raises(InputError, match="no LoRA layer under the adapter 'other'"):
        SpectralTuner(model, optimizer, targets=1, adapter="other")
