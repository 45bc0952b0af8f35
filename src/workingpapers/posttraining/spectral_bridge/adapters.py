"""LoRA layers of PEFT on a model, and the spectra of what they add to its weights."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from workingpapers.foundations.errors import InputError, near_match
from workingpapers.posttraining.spectral_bridge.spectrum import balance, effective_rank


@dataclass(frozen=True)
class LayerSpectrum:
    """The update of one layer.

    Args:
        name: Module of the base model.
        shape: (m, n) of its weight.
        sigma: Singular values of the update above zero, falling.
    """

    name: str
    shape: tuple[int, int]
    sigma: tuple[float, ...]

    @property
    def rank(self) -> int:
        """How many modes it has."""
        return len(self.sigma)

    @property
    def effective(self) -> float:
        """Effective rank, the exponential of the spectrum's entropy."""
        return effective_rank(torch.tensor(self.sigma))

    @property
    def weights(self) -> int:
        """Trained weights, rank times (m + n)."""
        return self.rank * sum(self.shape)


def attach(
    model: nn.Module,
    *,
    rank: int = 16,
    targets: Sequence[str] | str = "all-linear",
    start: float | None = None,
    task_type: str | None = None,
    modules_to_save: Sequence[str] | None = None,
    seed: int = 0,
) -> Any:
    """Return the model with PEFT's LoRA on its linear layers, at scale 1 and the largest rank allowed.

    Args:
        model: Any torch module; its weights are frozen.
        rank: Largest rank; a layer with a side below it gets that side.
        targets: Names of linear modules, or endings of names, or "all-linear" for all but the output head.
        start: Standard deviation of the entries of both factors, shape (m, r) and (n, r); None starts as LoRA does,
            with B = 0, so that the first step sees the base model exactly.
        task_type: PEFT's, such as "CAUSAL_LM".
        modules_to_save: Modules that are trained whole and saved with the adapter, such as a new head.
        seed: Of the adapter's first weights.

    Raises:
        InputError: When the rank is not positive, no module fits, or one that fits is not linear.
    """
    from peft import LoraConfig, get_peft_model

    if rank < 1:
        raise InputError(f"The largest rank must be at least one, not {rank}.")
    if start is not None and not start > 0:
        raise InputError(f"start is {start}; give a positive standard deviation, or None for LoRA's own start.")
    names = _targets(model, targets, frozenset(modules_to_save or ()))
    modules = dict(model.named_modules())
    ranks = {name: min(rank, *_linear(name, modules[name])) for name in names}
    make: Any = LoraConfig
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        config = make(r=rank, lora_alpha=rank, target_modules=names, rank_pattern=pattern(ranks),
                      alpha_pattern=pattern(ranks), task_type=task_type,
                      modules_to_save=list(modules_to_save) if modules_to_save else None)  # fmt: skip
        attached: Any = get_peft_model(model, config)  # type: ignore[arg-type]
        if start is not None:
            for _, layer in adapted_layers(attached, "default"):
                for factor in (layer.lora_A["default"], layer.lora_B["default"]):
                    nn.init.normal_(factor.weight, std=start)
    return attached


def spectra(model: Any, adapter: str = "default") -> list[LayerSpectrum]:
    """Return the spectrum of each layer that carries the adapter.

    Args:
        model: A PEFT model.
        adapter: Name of the adapter.
    """
    found = []
    for name, layer in adapted_layers(model, adapter):
        scale = float(layer.scaling[adapter])
        left, right = layer.lora_B[adapter].weight.detach(), layer.lora_A[adapter].weight.detach().T
        sigma = scale * balance(left.float(), right.float()).sigma
        values = tuple(float(value) for value in sigma if value > 0)
        found.append(LayerSpectrum(name, (left.shape[0], right.shape[0]), values))
    return found


def pattern(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return PEFT's pattern of a value for each module of these exact names."""
    # PEFT takes the first key that is an ending of the module's name, so longer names stand first.
    return {re.escape(name): values[name] for name in sorted(values, key=lambda name: (-len(name), name))}


def adapted_layers(model: Any, adapter: str) -> Iterator[tuple[str, Any]]:
    """Yield name and module of each layer of the base model that carries LoRA under the adapter."""
    from peft.tuners.lora.layer import Linear

    for name, module in model.get_base_model().named_modules():
        if isinstance(module, Linear) and adapter in module.lora_A:
            yield name, module


def _targets(model: nn.Module, targets: Sequence[str] | str, apart: frozenset[str]) -> list[str]:
    modules = dict(model.named_modules())
    if isinstance(targets, str) and targets == "all-linear":
        find_head: Any = getattr(model, "get_output_embeddings", None)
        head = find_head() if find_head else None
        names = [
            name for name, module in modules.items()
            if isinstance(module, nn.Linear) and module is not head and not any(_ends(name, one) for one in apart)
        ]  # fmt: skip
        if not names:
            raise InputError("The model has no linear layer to adapt; name the modules in targets.")
        return names
    chosen: list[str] = []
    for target in [targets] if isinstance(targets, str) else targets:
        fits = [name for name in modules if _ends(name, target)]
        if not fits:
            known = {name.rpartition(".")[2] for name, module in modules.items() if isinstance(module, nn.Linear)}
            hint = near_match(target, known) or f"; its linear modules are {', '.join(sorted(known)[:12])}."
            raise InputError(f"The model has no module {target!r}{hint}")
        chosen += [name for name in fits if name not in chosen]
    if not chosen:
        raise InputError("No module is named in targets; name some, or take 'all-linear'.")
    return chosen


def _ends(name: str, ending: str) -> bool:
    return name == ending or name.endswith(f".{ending}")


def _linear(name: str, module: nn.Module) -> tuple[int, int]:
    if not isinstance(module, nn.Linear):
        raise InputError(f"The module {name!r} is a {type(module).__name__}; only linear layers are adapted.")
    return module.out_features, module.in_features
