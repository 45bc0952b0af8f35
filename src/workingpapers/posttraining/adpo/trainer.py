r"""ADPO in TRL: `ADPOConfig` and `ADPOTrainer` take the places of `DPOConfig` and `DPOTrainer`.

TRL's own trainer runs the policy and the reference (adapters, mixtures of experts, distribution and all) and keeps its
metrics; its loss gets weight 0 and the loss of this paper is made from the log-probabilities that the two passes gave.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from trl.trainer.dpo_config import DPOConfig
from trl.trainer.dpo_trainer import DPOTrainer

from workingpapers.posttraining.adpo.loss import ADPOLoss, adpo_loss
from workingpapers.posttraining.adpo.units import Composition, composition_of

PAPER_UNITS = 256


@dataclass
class ADPOConfig(DPOConfig):  # type: ignore[misc]
    """Configuration of :class:`ADPOTrainer`: that of TRL's `DPOConfig`, and how finely responses are compared.

    Args:
        units: Number of even units of each response (adaptive, m); 1 is DPO. Without `units` and `window` it is 256,
            the paper's choice for its main table.
        window: Tokens of a unit (static, k), in place of `units`; 1 compares token with token.
        allow_empty: Whether responses shorter than `units` keep empty units rather than be compared in fewer.
        normalize: "units" divides the loss of a pair by its number of units; "none" is the paper's loss, whose scale
            grows with them, so that clipping and learning rate mean something else than in DPO.
    """

    units: int | None = field(default=None, metadata={"help": "Even units of each response; 1 is DPO."})
    window: int | None = field(default=None, metadata={"help": "Tokens of a unit, in place of units."})
    allow_empty: bool = field(default=False, metadata={"help": "Keep empty units in short responses."})
    normalize: str = field(default="none", metadata={"help": "none, or units.", "choices": ["none", "units"]})

    def __post_init__(self) -> None:
        if self.units is None and self.window is None:
            self.units = PAPER_UNITS
        composition_of(self.units, self.window)
        if self.normalize not in ("none", "units"):
            raise ValueError(f"normalize is {self.normalize!r}; use 'none' or 'units'.")
        if not self.beta > 0:
            raise ValueError(f"beta is {self.beta}; it must be over 0.")
        super().__post_init__()  # type: ignore[no-untyped-call]
        wrong = {
            "loss_type": self.loss_type != ["sigmoid"],
            "loss_weights": self.loss_weights is not None,
            "ld_alpha": self.ld_alpha is not None,
            "f_divergence_type": self.f_divergence_type != "reverse_kl",
            "use_weighting": self.use_weighting,
            "precompute_ref_log_probs": self.precompute_ref_log_probs,
            "use_liger_kernel": self.use_liger_kernel,
        }
        for name in (name for name, set_otherwise in wrong.items() if set_otherwise):
            raise ValueError(
                f"{name}={getattr(self, name)!r} does not go with ADPO, which needs the log-probability of each token; "
                "leave it at its default."
            )

    @property
    def composition(self) -> Composition:
        """How responses are cut into units."""
        return composition_of(self.units, self.window, allow_empty=self.allow_empty)


class ADPOTrainer(DPOTrainer):  # type: ignore[misc]
    """TRL's `DPOTrainer` with the loss of ADPO; models, adapters, data sets and callbacks are given as to it.

    Beside TRL's metrics it logs ``adpo/units`` (units of a pair), ``adpo/unit_margins`` (their mean margin) and
    ``adpo/unit_accuracies`` (share of the units with a positive one; that of equal tokens after equal prefixes is 0).

    Args:
        model: Model, or its name, or a PEFT model; see `DPOTrainer`.
        ref_model: The reference; see `DPOTrainer`.
        args: An :class:`ADPOConfig`.
        **options: Everything else that `DPOTrainer` takes.

    Raises:
        TypeError: When `args` is no :class:`ADPOConfig`.
    """

    _tag_names = ["trl", "dpo", "adpo"]  # noqa: RUF012 - TRL adds to a list
    _name = "ADPO"
    _paper = {"title": "Autoregressive Direct Preference Optimization", "id": "2602.09533"}  # noqa: RUF012

    def __init__(self, model: Any, ref_model: Any = None, args: ADPOConfig | None = None, **options: Any) -> None:
        if args is None:
            name = model if isinstance(model, str) else model.config._name_or_path
            args = ADPOConfig(f"{name.split('/')[-1]}-ADPO")
        if not isinstance(args, ADPOConfig):
            raise TypeError(f"args is a {type(args).__name__}; ADPOTrainer needs an ADPOConfig.")
        self.units_of: ADPOConfig = args
        super().__init__(model=model, ref_model=ref_model, args=args, **options)
        self.loss_weights = [0.0]  # TRL's loss; what is left of it is the balancing loss of mixtures of experts

    def _compute_loss(self, model: Any, inputs: Any, return_outputs: bool) -> Any:
        with _recorded([self.model, self.ref_model]) as passes:
            rest = super()._compute_loss(model, inputs, return_outputs)  # type: ignore[no-untyped-call]
        if len(passes) != 2:
            raise RuntimeError(f"TRL ran {len(passes)} passes with log-probabilities, not policy and reference.")
        found = self._loss_of(passes[0], passes[1], inputs["completion_mask"][:, 1:])
        self._note(found)
        return (rest[0] + found.loss, rest[1]) if return_outputs else rest + found.loss

    def _loss_of(self, policy: Tensor, reference: Tensor, mask: Tensor) -> ADPOLoss:
        width = mask.shape[1]  # prompt-learning adapters put virtual tokens in front
        (chosen, rejected), (ref_chosen, ref_rejected), (chosen_mask, rejected_mask) = (
            part[:, -width:].chunk(2) for part in (policy, reference, mask)
        )
        return adpo_loss(
            chosen, rejected, ref_chosen, ref_rejected, chosen_mask, rejected_mask, beta=self.beta,
            composition=self.units_of.composition, normalize="units" if self.units_of.normalize == "units" else "none",
        )  # fmt: skip

    def _note(self, found: ADPOLoss) -> None:
        policy: Any = self.model
        metrics = self._metrics["train" if policy.training else "eval"]
        margins = found.margins.detach()
        # Summed over the batch and not by units, for processes may have different numbers of columns.
        sums = torch.stack([
            found.units.sum().float(), margins.sum().float(), ((margins > 0) & found.unit_mask).sum().float(),
            torch.tensor(float(len(found.units)), device=margins.device),
        ])  # fmt: skip
        units, total, right, pairs = self.accelerator.gather(sums).view(-1, 4).sum(0).tolist()
        metrics["adpo/units"].append(units / pairs)
        metrics["adpo/unit_margins"].append(total / units)
        metrics["adpo/unit_accuracies"].append(right / units)


@contextmanager
def _recorded(models: list[Any]) -> Iterator[list[Tensor]]:
    """Give the list of the log-probabilities of tokens that these models return, in order of the passes."""
    passes: list[Tensor] = []

    def keep(_module: Any, _inputs: Any, outputs: Any) -> None:
        found = getattr(outputs, "log_probs", None)
        if found is not None:
            passes.append(found)

    handles = [model.register_forward_hook(keep) for model in models if model is not None]
    try:
        yield passes
    finally:
        for handle in handles:
            handle.remove()
