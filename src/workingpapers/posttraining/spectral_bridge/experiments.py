"""Arms with a known answer: a network with planted ranks, and a noisy matrix of low rank."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from workingpapers.foundations.progress import Progress
from workingpapers.posttraining.spectral_bridge.adapters import attach, spectra
from workingpapers.posttraining.spectral_bridge.settings import SpectralSettings
from workingpapers.posttraining.spectral_bridge.spectrum import law_constant, surviving
from workingpapers.posttraining.spectral_bridge.tuner import SpectralTuner

SIDES = (64, 64, 64, 32)
PLANTED = (0, 2, 6)
RANK = 16
LEARNING_RATE = 5e-3
ADALORA_RATE = 2e-2
BATCH = 256
VISIBLE = 0.05  # singular values of a fixed-rank adapter that count as a rank in the tables
NOISE, TARGETS = 1.0, 400


class Network(nn.Module):
    """A tanh network of three linear layers."""

    def __init__(self, weights: list[Tensor]) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(weight.shape[1], weight.shape[0], bias=False) for weight in weights)
        for layer, weight in zip(self.layers, weights, strict=True):
            layer.weight = nn.Parameter(weight.clone())

    def forward(self, inputs: Tensor) -> Tensor:
        """Return outputs of shape (n, 32) for inputs of shape (n, 64)."""
        state = inputs
        for layer in self.layers[:-1]:  # type: ignore[index]
            state = torch.tanh(layer(state))
        result: Tensor = self.layers[-1](state)
        return result


def planted_problem(seed: int, rows: int) -> dict[str, Any]:
    """Return frozen weights, training data with noise as large as the planted change, and clean test data."""
    draw = torch.Generator().manual_seed(seed)
    frozen, taught = [], []
    for inner, outer, rank in zip(SIDES[:-1], SIDES[1:], PLANTED, strict=True):
        weight = torch.randn(outer, inner, generator=draw) / math.sqrt(inner)
        left = torch.linalg.qr(torch.randn(outer, max(rank, 1), generator=draw))[0]
        right = torch.linalg.qr(torch.randn(inner, max(rank, 1), generator=draw))[0]
        change = (left * torch.linspace(1, 0.6, rank)) @ right.T * 1.5 if rank else torch.zeros(outer, inner)
        frozen.append(weight)
        taught.append(weight + change)
    inputs, fresh = torch.randn(rows, SIDES[0], generator=draw), torch.randn(4000, SIDES[0], generator=draw)
    with torch.no_grad():
        base, teacher = Network(frozen), Network(taught)
        noise = float((teacher(inputs) - base(inputs)).std())
        targets = teacher(inputs) + noise * torch.randn(rows, SIDES[-1], generator=draw)
        clean = teacher(fresh)
        reference = float((base(fresh) - clean).square().mean())
    return {"weights": frozen, "inputs": inputs, "targets": targets, "noise": noise, "fresh": fresh, "clean": clean,
            "reference": reference}  # fmt: skip


def planted(
    seed: int,
    progress: Progress,
    *,
    steps: int,
    rows: int,
    method: str = "spectral",
    rank: int = RANK,
    temperature: float = 1.0,
    decay: float = 0.0,
    learning_rate: float = LEARNING_RATE,
    counted: str = "data set",
) -> Mapping[str, float]:
    """Train one adapter on the planted problem.

    Args:
        seed: Of the problem and of the training.
        progress: Told of the steps done.
        steps: Optimiser steps.
        rows: Training rows.
        method: "spectral", "lora", "oracle" (LoRA of the true ranks) or "adalora".
        rank: Of LoRA, or the mean rank that AdaLoRA ends with.
        temperature: Of the method.
        decay: L2 penalty on the factors, the constant friction.
        learning_rate: Adam's, falling along a cosine.
        counted: "data set", or "batch" for friction that takes the batch for the data set.
    """
    problem = planted_problem(seed, rows)
    model = _adapted_network(problem["weights"], method, rank, steps, seed)
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimizer = torch.optim.Adam(trained, lr=learning_rate, weight_decay=decay)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    tuner = None
    if method == "spectral":
        settings = SpectralSettings(temperature=temperature, warmup=steps // 5)
        targets = (rows if counted == "data set" else BATCH) * SIDES[-1]
        tuner = SpectralTuner(model, optimizer, targets=targets, settings=settings)
    batches = _batches(rows, steps, seed)
    for step, rows_of_batch in enumerate(batches):
        optimizer.zero_grad()
        residual = model(problem["inputs"][rows_of_batch]) - problem["targets"][rows_of_batch]
        loss = residual.square().mean() / (2 * problem["noise"] ** 2)
        if method == "adalora":
            loss = loss + 0.5 * _skewness(model)
        loss.backward()
        optimizer.step()
        if method == "adalora":
            model.base_model.update_and_allocate(step)
        schedule.step()
        if step % 50 == 0:
            progress(step / steps, f"step {step}")
    ranks = _ranks(model, method, tuner)
    with torch.no_grad():
        error = float((model(problem["fresh"]) - problem["clean"]).square().mean()) / problem["reference"]
    weights = sum(one * (outer + inner) for one, inner, outer in zip(ranks, SIDES[:-1], SIDES[1:], strict=True))
    return {
        "error": error,
        "rank_error": float(sum(abs(one - true) for one, true in zip(ranks, PLANTED, strict=True))),
        "weights": float(weights),
        **{f"rank_{number + 1}": float(one) for number, one in enumerate(ranks)},
    }


def _adapted_network(weights: list[Tensor], method: str, rank: int, steps: int, seed: int) -> Any:
    from peft import AdaLoraConfig, LoraConfig, get_peft_model

    names = [f"layers.{number}" for number in range(len(PLANTED))]
    model = Network(weights)
    if method == "spectral":
        return attach(model, rank=RANK, targets=names, seed=seed)
    make: Any = LoraConfig
    config = make(r=rank, lora_alpha=rank, target_modules=names)
    if method == "oracle":
        true = {name: one for name, one in zip(names, PLANTED, strict=True) if one}
        config = make(r=RANK, lora_alpha=RANK, target_modules=list(true), rank_pattern=true, alpha_pattern=true)
    if method == "adalora":
        make = AdaLoraConfig
        config = make(init_r=RANK, target_r=rank, lora_alpha=RANK, target_modules=names, total_step=steps,
                      tinit=steps // 10, tfinal=steps // 3, deltaT=10, orth_reg_weight=0.5)  # fmt: skip
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return get_peft_model(model, config)  # type: ignore[arg-type]


def _batches(rows: int, steps: int, seed: int) -> Iterator[Tensor]:
    draw = torch.Generator().manual_seed(seed + 1_000_003)
    for _ in range(steps):
        yield torch.randint(rows, (BATCH,), generator=draw)


def _skewness(model: nn.Module) -> Tensor:
    # PEFT adds AdaLoRA's penalty only to models that return their own loss.
    parts = []
    for name, parameter in model.named_parameters():
        if "lora_A" in name or "lora_B" in name:
            gram = parameter @ parameter.T if "lora_A" in name else parameter.T @ parameter
            parts.append((gram - torch.eye(len(gram))).norm())
    return torch.stack(parts).mean()


def _ranks(model: Any, method: str, tuner: SpectralTuner | None) -> list[int]:
    if tuner is not None:
        return [item.rank for item in tuner.finish()]
    if method == "adalora":
        return [int((layer.lora_E["default"] != 0).sum()) for layer in model.get_base_model().layers]
    found = {item.name: item for item in spectra(model)}
    return [
        sum(value > VISIBLE for value in found[name].sigma) if name in found else 0
        for name in (f"layers.{number}" for number in range(len(PLANTED)))
    ]


def denoised(
    seed: int,
    progress: Progress,
    *,
    draws: int,
    steps: int,
    rows: int = 60,
    columns: int = 40,
    signals: bool = True,
    temperature: float = 1.0,
    friction: str = "empirical Bayes",
) -> Mapping[str, float]:
    """Recover matrices from noise by the tuner on one linear layer, and hold the spectra beside the closed form.

    Args:
        seed: Of the matrices.
        progress: Told of the draws done.
        draws: How many matrices.
        steps: Steps of gradient descent on each.
        rows: m.
        columns: n.
        signals: Whether a spectrum that straddles the threshold is planted; otherwise there is only noise.
        temperature: T.
        friction: "empirical Bayes", or "constant": weight decay with the threshold of the law.
    """
    found = [
        _denoise(draw_of_matrix, steps, temperature, friction, rows, columns)
        for draw_of_matrix in _matrices(seed, progress, draws, rows, columns, signals)
    ]
    total = {key: sum(one[key] for one in found) / draws for key in found[0]}
    return {**total, "draws": float(draws)}


def _matrices(
    seed: int, progress: Progress, draws: int, rows: int, columns: int, signals: bool
) -> Iterator[tuple[Tensor, Tensor]]:
    draw = torch.Generator().manual_seed(seed)
    threshold = 2 * math.sqrt(law_constant(rows, columns, NOISE, TARGETS))
    for number in range(draws):
        progress(number / draws, f"matrix {number + 1}")
        true = torch.zeros(rows, columns)
        if signals:
            spectrum = threshold * torch.linspace(0.4, 4, 6) * (1 + 0.2 * torch.rand(6, generator=draw))
            left = torch.linalg.qr(torch.randn(rows, 6, generator=draw))[0]
            right = torch.linalg.qr(torch.randn(columns, 6, generator=draw))[0]
            true = (left * spectrum) @ right.T
        yield true, true + NOISE / math.sqrt(TARGETS) * torch.randn(rows, columns, generator=draw)


def _denoise(
    pair: tuple[Tensor, Tensor], steps: int, temperature: float, friction: str, rows: int, columns: int
) -> dict[str, float]:
    true, seen = pair
    base = nn.Linear(columns, rows, bias=False)
    nn.init.zeros_(base.weight)
    model = attach(nn.Sequential(base), rank=RANK, targets=["0"], start=0.05)
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    singular = torch.linalg.svdvals(seen)[:RANK]
    constant = law_constant(rows, columns, NOISE, TARGETS, temperature)
    # The curvature in the factors is largest at the largest singular value; half of what it allows.
    optimizer = torch.optim.SGD(trained, lr=0.25 * NOISE**2 / float(singular[0]))
    tuner = None
    if friction == "empirical Bayes":
        settings = SpectralSettings(temperature=temperature, warmup=steps // 5, every=10, friction="implicit")
        tuner = SpectralTuner(model, optimizer, targets=TARGETS, settings=settings)
    layer = model.get_base_model()[0]
    for _ in range(steps):
        optimizer.zero_grad()
        product = layer.lora_B["default"].weight @ layer.lora_A["default"].weight
        loss = (product - seen).square().sum() / (2 * NOISE**2)
        if tuner is None:
            loss = loss + math.sqrt(constant) * sum(parameter.square().sum() for parameter in trained) / NOISE**2
        loss.backward()
        optimizer.step()
    sigma = tuner.finish()[0].sigma if tuner else tuple(v for v in spectra(model)[0].sigma if v > 1e-3)
    left = torch.zeros(RANK)
    left[: len(sigma)] = torch.tensor(sigma)
    expected = surviving(singular, constant)
    with torch.no_grad():
        product = layer.get_delta_weight("default") if sigma and hasattr(layer, "lora_A") else torch.zeros_like(seen)
    return {
        "kept": float(len(sigma)),
        "any_kept": float(len(sigma) > 0),
        "as_predicted": float(len(sigma) == int((expected > 0).sum())),
        "distance": float((left - expected).abs().max()),
        "error": float((product - true).norm() / seen.sub(true).norm()),
    }
