"""A trainer of flow maps: marginal loss, contrast after a warm-up, moving average, checkpoints."""

from __future__ import annotations

import copy
import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.optim.swa_utils import AveragedModel

from workingpapers.foundations.diffusion import moving_average
from workingpapers.foundations.errors import InputError
from workingpapers.foundations.files import whole_file
from workingpapers.foundations.progress import Progress, silent
from workingpapers.sampling.contrastive_flow_map.contrast import (
    Embedding,
    Positives,
    Similarity,
    Temperature,
    check_contrast,
    contrastive_term,
)
from workingpapers.sampling.contrastive_flow_map.losses import (
    Derivative,
    TimeLaw,
    meanflow_loss,
    shortcut_loss,
)

LOG_EVERY = 50


@dataclass(frozen=True)
class Plan:
    """How to train.

    Args:
        steps: Gradient steps.
        batch: Rows of a batch, drawn without replacement; all rows where there are fewer.
        lr: Step of Adam.
        marginal: meanflow or shortcut.
        law: Law of the times (meanflow).
        equal: Share of a batch with r = t (meanflow).
        power: Power of the adaptive weight (meanflow).
        jvp: How to differentiate in time (meanflow).
        repulsion: Weight of Delta-FM's repulsion (meanflow); a baseline.
        contrast: Weight lambda of the contrast, 0 for none.
        tau: Temperature of the contrast, gaussian or a number.
        positives: data or rollout.
        similarity: distance or cosine.
        warm_up: Share of the steps before the contrast starts; 0 to fine-tune a trained network.
        decay: Decay of the moving average of the weights, which samples.
        seed: Seed of batches, times and noise.
    """

    steps: int = 3000
    batch: int = 256
    lr: float = 1e-3
    marginal: Literal["meanflow", "shortcut"] = "meanflow"
    law: TimeLaw = "uniform"
    equal: float = 0.5
    power: float = 0.5
    jvp: Derivative = "func"
    repulsion: float = 0.0
    contrast: float = 0.1
    tau: Temperature = "gaussian"
    positives: Positives = "data"
    similarity: Similarity = "distance"
    warm_up: float = 1 / 3
    decay: float = 0.99
    seed: int = 0


@dataclass(frozen=True)
class Trained:
    """A trained flow map.

    Args:
        network: The moving average, which samples.
        history: A row every 50 steps: step, loss, marginal, and, once it is on, contrast with the norms of the two
            gradients, gradient_marginal and gradient_contrast (times its weight).
    """

    network: nn.Module
    history: list[dict[str, float]]


@dataclass
class _State:
    network: nn.Module
    average: AveragedModel
    optimiser: torch.optim.Adam
    generator: torch.Generator
    contrast_generator: torch.Generator
    step: int = 0
    history: list[dict[str, float]] = field(default_factory=list)


def train(
    network: nn.Module,
    data: Tensor,
    plan: Plan,
    *,
    labels: Tensor | None = None,
    embed: Embedding | None = None,
    checkpoint: Path | None = None,
    about: Mapping[str, Any] | None = None,
    save_every: int = 500,
    progress: Progress = silent,
) -> Trained:
    """Train a copy of a network on data.

    The contrast draws from a generator of its own, so that runs that differ in the contrast alone see the same batches,
    times and noise.

    Args:
        network: u(z, r, t[, c]), left as it is.
        data: Rows near unit scale, shape (n, ...).
        plan: How to train.
        labels: Labels, integer, shape (n,), or None.
        embed: Map of end points to features for the contrast, or None.
        checkpoint: File that keeps the state; where it holds a state of the same run, training goes on from it.
        about: What the checkpoint tells besides, of plain values and tensors.
        save_every: Steps between two checkpoints.
        progress: Told of the share done, the loss and the contrast.

    Raises:
        InputError: Data or options that cannot be used, a checkpoint of another run, or a loss that is not finite.
    """
    _check(data, plan, embed)
    data = data.detach()
    fingerprint = _fingerprint(network, data, labels, plan, about or {})
    state = _begin(copy.deepcopy(network), plan)
    if checkpoint is not None and checkpoint.exists():
        _restore(state, checkpoint, fingerprint)
    spread = float(data.flatten(1).var(0).mean())
    while state.step < plan.steps:
        logged = state.step % LOG_EVERY == 0 or state.step == plan.steps - 1
        _advance(state, data, labels, plan, spread, embed, logged)
        state.step += 1
        if logged:
            row = state.history[-1]
            told = f", contrast {row['contrast']:.3f}" if "contrast" in row else ""
            progress(state.step / plan.steps, f"step {state.step}: loss {row['loss']:.4f}{told}")
        if checkpoint is not None and (state.step % save_every == 0 or state.step == plan.steps):
            _save(state, checkpoint, fingerprint, about or {})
    return Trained(state.average.module, state.history)


def _advance(
    state: _State, data: Tensor, labels: Tensor | None, plan: Plan, spread: float, embed: Embedding | None, logged: bool
) -> None:
    """Take one gradient step."""
    rows = torch.randperm(len(data), generator=state.generator)[: plan.batch]
    x, condition = data[rows], None if labels is None else labels[rows]
    marginal, _ = _marginal(plan, state)(state.network, x, condition, generator=state.generator)
    total, row = marginal, {"step": float(state.step + 1), "marginal": float(marginal.detach())}
    weights = list(state.network.parameters())
    if plan.contrast and state.step >= plan.warm_up * plan.steps:
        term = contrastive_term(
            state.network, x, condition, tau=plan.tau, positives=plan.positives, variance=spread, embed=embed,
            similarity=plan.similarity, teacher=state.average.module, generator=state.contrast_generator,
        )  # fmt: skip
        total = marginal + plan.contrast * term
        row["contrast"] = float(term.detach())
        if logged:
            row["gradient_marginal"] = _norm(marginal, weights)
            row["gradient_contrast"] = plan.contrast * _norm(term, weights)
    row["loss"] = float(total.detach())
    if not math.isfinite(row["loss"]):
        raise InputError(
            f"The loss is {row['loss']:g} at step {state.step + 1} of {plan.steps}: training diverged; take an lr "
            f"smaller than {plan.lr:g}, or look for extreme rows in the data."
        )
    state.optimiser.zero_grad()
    total.backward()  # type: ignore[no-untyped-call]
    state.optimiser.step()
    state.average.update_parameters(state.network)
    if logged:
        state.history.append(row)


def _marginal(plan: Plan, state: _State) -> Any:
    if plan.marginal == "shortcut":
        return partial(shortcut_loss, teacher=state.average.module)
    return partial(
        meanflow_loss, law=plan.law, equal=plan.equal, power=plan.power, jvp=plan.jvp, repulsion=plan.repulsion
    )


def _norm(loss: Tensor, weights: list[nn.Parameter]) -> float:
    parts = torch.autograd.grad(loss, weights, retain_graph=True, allow_unused=True)
    return math.sqrt(sum(float(part.square().sum()) for part in parts if part is not None))


def _begin(network: nn.Module, plan: Plan) -> _State:
    # The moving average starts as the network: a teacher is there from the first step.
    average = moving_average(network, plan.decay)
    average.update_parameters(network)
    optimiser = torch.optim.Adam(network.parameters(), lr=plan.lr)
    first, second = (torch.Generator().manual_seed(seed) for seed in (plan.seed, plan.seed + 2**31))
    return _State(network, average, optimiser, first, second)


def _check(data: Tensor, plan: Plan, embed: Embedding | None) -> None:
    if data.ndim < 2 or len(data) < 2:
        raise InputError(f"The data have shape {tuple(data.shape)}; give (n, ...) with two rows or more.")
    if not bool(torch.isfinite(data).all()):
        raise InputError("The data hold a value that is not finite; fill it in or leave out its row.")
    if plan.steps < 1 or plan.batch < 1 or not plan.lr > 0 or not plan.contrast >= 0:
        raise InputError(
            f"steps is {plan.steps}, batch {plan.batch}, lr {plan.lr:g}, contrast {plan.contrast:g}; the first three "
            "must be positive and the last at least 0."
        )
    if plan.contrast:
        check_contrast(min(plan.batch, len(data)), plan.tau, plan.positives, embed, plan.similarity)


def _fingerprint(network: nn.Module, data: Tensor, labels: Tensor | None, plan: Plan, about: Mapping[str, Any]) -> str:
    plain = {key: value for key, value in about.items() if not isinstance(value, Tensor)}
    digest = hashlib.sha256(json.dumps([asdict(plan), plain], sort_keys=True).encode())
    for tensor in (data, *(() if labels is None else (labels,)), *network.state_dict().values()):
        digest.update(tensor.detach().cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()


def _save(state: _State, path: Path, fingerprint: str, about: Mapping[str, Any]) -> None:
    content = {
        "fingerprint": fingerprint,
        "about": dict(about),
        "step": state.step,
        "network": state.network.state_dict(),
        "average": state.average.state_dict(),
        "flow_map": state.average.module.state_dict(),
        "optimiser": state.optimiser.state_dict(),
        "generators": [state.generator.get_state(), state.contrast_generator.get_state()],
        "history": state.history,
    }
    with whole_file(path, "wb") as stream:
        torch.save(content, stream)


def read_checkpoint(path: Path) -> dict[str, Any]:
    """Return the content of a checkpoint: step, flow_map (the moving average's weights), about, history and more.

    Args:
        path: The file.

    Raises:
        InputError: It is no checkpoint of this trainer.
    """
    try:
        content = torch.load(path, map_location="cpu", weights_only=True)
        if not {"fingerprint", "about", "step", "flow_map"} <= set(content):
            raise ValueError("keys")
    except Exception:
        raise InputError(f"{str(path)!r} is no checkpoint of a flow map; name another file or remove it.") from None
    return dict(content)


def _restore(state: _State, path: Path, fingerprint: str) -> None:
    content = read_checkpoint(path)
    if content["fingerprint"] != fingerprint:
        raise InputError(f"{str(path)!r} belongs to a run of other data or settings; name another file or remove it.")
    state.network.load_state_dict(content["network"])
    state.average.load_state_dict(content["average"])
    state.optimiser.load_state_dict(content["optimiser"])
    for generator, saved in zip((state.generator, state.contrast_generator), content["generators"], strict=True):
        generator.set_state(saved)
    state.step, state.history = content["step"], content["history"]
