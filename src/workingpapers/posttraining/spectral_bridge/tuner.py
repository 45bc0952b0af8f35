"""The tuner: PEFT's LoRA with friction on its modes, pruned while it trains, at every moment a plain LoRA adapter."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from workingpapers.foundations.errors import InputError
from workingpapers.foundations.files import whole_file
from workingpapers.posttraining.spectral_bridge.adapters import LayerSpectrum, adapted_layers, pattern, spectra
from workingpapers.posttraining.spectral_bridge.settings import RankPaths, SpectralSettings
from workingpapers.posttraining.spectral_bridge.spectrum import balance, implicit_friction, mode_precision

STATE = "spectral_bridge.json"


@dataclass
class _Layer:
    name: str
    module: Any
    energy: Tensor
    pull: Tensor
    strikes: Tensor
    peak: float = 0.0
    shape: tuple[int, int] = (0, 0)


class SpectralTuner:
    """Friction, gauge steps and pruning for one optimiser, by its hooks: the training loop stays as it is.

    The loss must be the mean negative log-likelihood of a target, since friction is weighed against it by 1 / targets.

    Args:
        model: A PEFT model with LoRA layers, from :func:`attach` or loaded by PEFT with ``is_trainable=True``.
        optimizer: The torch optimiser of its factors, of shapes (m, r) and (r, n).
        targets: N, the number of independent targets in the training set (tokens of completions, labels).
        settings: See :class:`SpectralSettings`.
        adapter: Name of the adapter.

    Raises:
        InputError: When there is no LoRA layer or `targets` is not positive.
    """

    def __init__(
        self,
        model: Any,
        optimizer: torch.optim.Optimizer,
        *,
        targets: float,
        settings: SpectralSettings | None = None,
        adapter: str = "default",
    ) -> None:
        if not targets > 0:
            raise InputError(f"The number of training targets must be positive, not {targets}.")
        self.model, self.optimizer, self.targets, self.adapter = model, optimizer, float(targets), adapter
        self.settings = settings or SpectralSettings()
        self.step = 0
        self.paths = RankPaths()
        self._layers = {name: self._begin(name, layer) for name, layer in adapted_layers(model, adapter)}
        if not self._layers:
            raise InputError(f"The model has no LoRA layer under the adapter {adapter!r}; attach one first.")
        self._shapes = {name: layer.shape for name, layer in self._layers.items()}
        self._hooks = [
            optimizer.register_step_pre_hook(lambda *_: self._before()),
            optimizer.register_step_post_hook(lambda *_: self._after()),
        ]

    def ranks(self) -> dict[str, int]:
        """Return the present rank of each layer that was attached, 0 for those that have lost all modes."""
        alive = {item.name: item.rank for item in spectra(self.model, self.adapter)}
        return {name: alive.get(name, 0) for name in self._shapes}

    def report(self) -> list[LayerSpectrum]:
        """Return the spectrum of each layer that was attached, layers of rank 0 included."""
        alive = {item.name: item for item in spectra(self.model, self.adapter)}
        return [alive.get(name, LayerSpectrum(name, shape, ())) for name, shape in self._shapes.items()]

    @property
    def exhausted(self) -> bool:
        """Whether no mode is left anywhere: the data support no update."""
        return not any(self.ranks().values())

    def finish(self) -> list[LayerSpectrum]:
        """Take a last gauge step, drop what lies below the tolerance, let go of the optimiser; return the report."""
        if self._hooks:
            if self.settings.every:
                self.gauge(last=True)
            for hook in self._hooks:
                hook.remove()
            self._hooks = []
        return self.report()

    def save_state(self, folder: str | Path) -> None:
        """Write what a run needs to go on from a checkpoint: step, moving averages and rank paths.

        Args:
            folder: Folder of the checkpoint; the adapter itself is saved by PEFT.
        """
        facts = {
            "step": self.step,
            "targets": self.targets,
            "settings": asdict(self.settings),
            "shapes": self._shapes,
            "layers": {
                name: {"energy": layer.energy.tolist(), "pull": layer.pull.tolist(),
                       "strikes": layer.strikes.tolist(), "peak": layer.peak}
                for name, layer in self._layers.items()
            },
            "paths": asdict(self.paths),
        }  # fmt: skip
        with whole_file(Path(folder) / STATE) as stream:
            json.dump(facts, stream)

    def load_state(self, folder: str | Path) -> None:
        """Go on from what :meth:`save_state` wrote, with the adapter of that checkpoint on the model.

        Args:
            folder: Folder of the checkpoint.

        Raises:
            InputError: When the file is missing or belongs to other ranks.
        """
        path = Path(folder) / STATE
        if not path.is_file():
            raise InputError(f"{str(folder)!r} holds no {STATE}; it is no checkpoint of an adaptive-rank run.")
        facts = json.loads(path.read_text(encoding="utf-8"))
        for name, layer in self._layers.items():
            kept = facts["layers"].get(name)
            if kept is None or len(kept["energy"]) != len(layer.energy):
                raise InputError(f"The checkpoint {str(folder)!r} and the adapter on the model differ at {name}.")
            layer.energy, layer.pull = (layer.energy.new_tensor(kept[key]) for key in ("energy", "pull"))
            layer.strikes = layer.strikes.new_tensor(kept["strikes"])
            layer.peak = kept["peak"]
        self.step = facts["step"]
        self.paths = RankPaths(facts["paths"]["steps"], facts["paths"]["sigma"])
        self._shapes = {name: (shape[0], shape[1]) for name, shape in facts["shapes"].items()}

    @torch.no_grad()
    def gauge(self, *, last: bool = False) -> None:
        """Make the modes singular pairs, read their spectra and prune; called by itself at every ``settings.every``.

        Args:
            last: Prune at once what lies below the tolerance.
        """
        self.paths.steps.append(self.step)
        strength = self._strength()
        for name, layer in list(self._layers.items()):
            sigma = self._balance(layer)
            layer.peak = max(layer.peak, float(sigma.max()))
            small = sigma < self.settings.tolerance * layer.peak
            resistance = strength * mode_precision(layer.energy, sum(layer.shape), epsilon=self.settings.epsilon)
            losing = small & (resistance * layer.energy >= layer.pull)
            layer.strikes = torch.where(losing, layer.strikes + 1, torch.zeros_like(layer.strikes))
            doomed = small if last else layer.strikes >= self.settings.patience
            if strength > 0 and bool(doomed.any()):
                self._keep(layer, ~doomed)
            alive = sigma[~doomed] if strength > 0 else sigma
            self.paths.sigma.setdefault(name, []).append([float(value) for value in alive if value > 0])
        for values in self.paths.sigma.values():
            values.extend([] for _ in range(len(self.paths.steps) - len(values)))
        self._describe()

    def _strength(self) -> float:
        warmup = self.settings.warmup
        share = min(1.0, self.step / warmup) if warmup else 1.0
        return self.settings.temperature * share / self.targets

    def _begin(self, name: str, module: Any) -> _Layer:
        left, right = self._factors(module)
        energy = left.detach().square().sum(0) + right.detach().square().sum(1)
        return _Layer(name, module, energy, torch.zeros_like(energy), torch.zeros_like(energy, dtype=torch.int64),
                      shape=(left.shape[0], right.shape[1]))  # fmt: skip

    def _factors(self, module: Any) -> tuple[nn.Parameter, nn.Parameter]:
        return module.lora_B[self.adapter].weight, module.lora_A[self.adapter].weight

    @torch.no_grad()
    def _before(self) -> None:
        smoothing, strength = self.settings.smoothing, self._strength()
        for layer in self._layers.values():
            left, right = self._factors(layer.module)
            if left.grad is None or right.grad is None:
                continue
            pull = -(left.grad * left).sum(0) - (right.grad * right).sum(1)
            if not bool(torch.isfinite(pull).all()):
                continue  # a loss that is not finite is for the training loop to handle
            energy = left.square().sum(0) + right.square().sum(1)
            layer.energy = smoothing * layer.energy + (1 - smoothing) * energy
            layer.pull = smoothing * layer.pull + (1 - smoothing) * pull
            if self.settings.friction == "coupled" and strength > 0:
                gamma = strength * mode_precision(layer.energy, sum(layer.shape), epsilon=self.settings.epsilon)
                left.grad.add_(left * gamma)
                right.grad.add_(right * gamma[:, None])

    @torch.no_grad()
    def _after(self) -> None:
        self.step += 1
        strength = self._strength()
        if self.settings.friction == "implicit" and strength > 0:
            rates = {id(item): group["lr"] for group in self.optimizer.param_groups for item in group["params"]}
            for layer in self._layers.values():
                left, right = self._factors(layer.module)
                gamma = strength * mode_precision(layer.energy, sum(layer.shape), epsilon=self.settings.epsilon)
                left.copy_(implicit_friction(left, rates[id(left)], gamma))
                right.copy_(implicit_friction(right.T, rates[id(right)], gamma).T)
        if self.settings.every and self.step % self.settings.every == 0:
            self.gauge()

    def _balance(self, layer: _Layer) -> Tensor:
        left, right = self._factors(layer.module)
        found = balance(left.detach(), right.detach().T)
        left.copy_(found.left)
        right.copy_(found.right.T)
        # Moments follow the gradients: linearly the first, by the squared maps the second (exact for permutations).
        for parameter, turn in ((left, found.right_map), (right, found.left_map)):
            for key, value in self.optimizer.state.get(parameter, {}).items():
                if key in ("exp_avg", "momentum_buffer") and value is not None:
                    value.copy_(value @ turn if parameter is left else turn.T @ value)
                elif key in ("exp_avg_sq", "max_exp_avg_sq"):
                    value.copy_(value @ turn.square() if parameter is left else turn.square().T @ value)
        layer.energy = 2 * found.sigma
        return found.sigma

    def _keep(self, layer: _Layer, kept: Tensor) -> None:
        """Drop the modes that are not `kept`; a layer without modes becomes the frozen layer that it was."""
        left, right = self._factors(layer.module)
        if not bool(kept.any()):
            if len(self._layers) > 1:
                self._replace(left, None)
                self._replace(right, None)
                parent, _, child = layer.name.rpartition(".")
                setattr(self.model.get_base_model().get_submodule(parent), child, layer.module.get_base_layer())
                del self._layers[layer.name]
                return
            # One mode stays, as zero: an adapter without any layer could neither be trained on nor saved.
            for parameter in (left, right):
                parameter.zero_()
                for value in self.optimizer.state.get(parameter, {}).values():
                    if torch.is_tensor(value) and value.shape == parameter.shape:
                        value.zero_()
            kept = torch.arange(len(kept), device=kept.device) == 0
        rank = int(kept.sum())
        module, adapter = layer.module, self.adapter
        module.lora_B[adapter].weight = self._replace(left, left[:, kept].clone(), lambda value: value[:, kept])
        module.lora_A[adapter].weight = self._replace(right, right[kept].clone(), lambda value: value[kept])
        module.lora_B[adapter].in_features = module.lora_A[adapter].out_features = rank
        module.r[adapter], module.lora_alpha[adapter] = rank, rank * module.scaling[adapter]
        layer.energy, layer.pull, layer.strikes = layer.energy[kept], layer.pull[kept], layer.strikes[kept]

    def _replace(self, old: nn.Parameter, data: Tensor | None, cut: Any = None) -> nn.Parameter:
        """Put a new parameter in the optimiser's place of `old`, its state cut the same way; None takes it out."""
        fresh = nn.Parameter(old.detach() if data is None else data, requires_grad=old.requires_grad)
        for group in self.optimizer.param_groups:
            places = [place for place, item in enumerate(group["params"]) if item is old]
            for place in places:
                group["params"][place : place + 1] = [] if data is None else [fresh]
        state = self.optimizer.state.pop(old, None)
        if data is not None and state is not None:
            self.optimizer.state[fresh] = {
                key: cut(value).clone() if torch.is_tensor(value) and value.shape == old.shape else value
                for key, value in state.items()
            }
        return fresh

    def _describe(self) -> None:
        """Bring PEFT's own configuration up to date, so that whatever saves the model saves a plain LoRA adapter."""
        ranks = {name: int(layer.module.r[self.adapter]) for name, layer in self._layers.items()}
        config = self.model.peft_config[self.adapter]
        scale = {name: ranks[name] * layer.module.scaling[self.adapter] for name, layer in self._layers.items()}
        config.rank_pattern, config.alpha_pattern = pattern(ranks), pattern(scale)
        config.target_modules = set(ranks)
        gone = [name for name in self._shapes if name not in ranks]
        clash = [name for name in gone if any(name.endswith(f".{kept}") for kept in ranks)]
        config.exclude_modules = set(clash) or None
