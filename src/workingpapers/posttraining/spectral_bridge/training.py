"""The tuner in transformers' trainers, as a callback, and what friction is weighed against: the number of targets."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from transformers import TrainerCallback

from workingpapers.foundations.errors import InputError
from workingpapers.posttraining.spectral_bridge.adapters import LayerSpectrum
from workingpapers.posttraining.spectral_bridge.settings import SpectralSettings
from workingpapers.posttraining.spectral_bridge.tuner import SpectralTuner

LOGGER = logging.getLogger(__name__)
IGNORED = -100
COLLATED = 64  # examples at a time while targets are counted


class SpectralCallback(TrainerCallback):  # type: ignore[misc]
    """Adaptive ranks in any trainer of transformers or TRL whose model carries LoRA from :func:`attach`.

    The tuner starts with training, hooks into the optimiser, logs the total rank, writes its state beside every
    checkpoint and takes its last gauge step when training ends.

    Args:
        settings: See :class:`SpectralSettings`; a warm-up of 0 there is replaced by `warmup_share`.
        targets: N, the number of independent targets; None counts the labels of the training set, shape (n,) or
            (n, length).
        warmup_share: Share of the training steps over which the temperature rises, where `settings` give no warm-up.
        resume: Folder of the checkpoint that training goes on from, with its adapter on the model.
        adapter: Name of the adapter.
    """

    def __init__(
        self,
        settings: SpectralSettings | None = None,
        *,
        targets: float | None = None,
        warmup_share: float = 0.2,
        resume: str | Path | None = None,
        adapter: str = "default",
    ) -> None:
        if not 0 <= warmup_share < 1:
            raise InputError(f"warmup_share is {warmup_share}; it must lie in [0, 1).")
        if targets is not None and not targets > 0:
            raise InputError(f"The number of training targets must be positive, not {targets}.")
        self.settings, self.targets, self.warmup_share = settings or SpectralSettings(), targets, warmup_share
        self.resume, self.adapter = resume, adapter
        self.tuner: SpectralTuner | None = None
        self.report: list[LayerSpectrum] = []

    def on_train_begin(self, args: Any, state: Any, control: Any, **given: Any) -> None:
        """Start the tuner."""
        from dataclasses import replace

        if args.world_size > 1:
            raise InputError("Ranks change during training, which runs on several processes do not follow; use one.")
        if self.targets is None:
            loader = given["train_dataloader"]
            self.targets = count_targets(_batches(loader.dataset, loader.collate_fn))
            LOGGER.warning("Friction is weighed against the %d targets counted in the training set.", self.targets)
        settings = self.settings
        if not settings.warmup:
            settings = replace(settings, warmup=round(self.warmup_share * state.max_steps))
        optimizer = given["optimizer"]
        self.tuner = SpectralTuner(
            given["model"], getattr(optimizer, "optimizer", optimizer), targets=self.targets, settings=settings,
            adapter=self.adapter,
        )  # fmt: skip
        if self.resume is not None:
            self.tuner.load_state(self.resume)

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Stop where no mode is left, since nothing can change any more."""
        if self.tuner is not None and self.tuner.exhausted and self.settings.temperature > 0:
            control.should_training_stop = True

    def on_log(self, args: Any, state: Any, control: Any, logs: dict[str, Any] | None = None, **_: Any) -> None:
        """Add the total rank to what is logged."""
        if logs is not None and self.tuner is not None:
            logs["total_rank"] = sum(self.tuner.ranks().values())
            if state.log_history:
                state.log_history[-1]["total_rank"] = logs["total_rank"]

    def on_save(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Write the tuner's state into the checkpoint."""
        folder = Path(args.output_dir) / f"checkpoint-{state.global_step}"
        if self.tuner is not None and state.is_world_process_zero and folder.is_dir():
            self.tuner.save_state(folder)

    def on_train_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Take the last gauge step."""
        if self.tuner is not None:
            self.report = self.tuner.finish()


def count_targets(batches: Iterable[Mapping[str, Any]]) -> int:
    """Return the number of labels that count in the loss.

    Args:
        batches: Collated batches with "labels": shape (n, length) for a causal model, of which the first of a row has
            nothing to be told from, or shape (n,); -100 is no label.

    Raises:
        InputError: When there are none.
    """
    total = 0
    for batch in batches:
        if "labels" not in batch:
            raise InputError("The training batches have no labels to count; say how many targets there are.")
        labels = torch.as_tensor(batch["labels"])
        labels = labels[:, 1:] if labels.ndim > 1 else labels
        total += int((labels != IGNORED).sum())
    if not total:
        raise InputError("The training set has no label that counts in the loss; check the completions.")
    return total


class NoiseScale:
    r"""Mean negative log-likelihood of Gaussian targets whose noise is not known, up to a constant.

    .. math:: L = \frac{1}{2 s^2} \cdot \frac1n \sum_k (y_k - f_k)^2

    with :math:`s^2` a moving average of the residual mean square, held fixed in each gradient.

    Args:
        smoothing: Weight of the past in the average.
    """

    def __init__(self, smoothing: float = 0.99) -> None:
        if not 0 <= smoothing < 1:
            raise InputError(f"smoothing is {smoothing}; it must lie in [0, 1).")
        self.smoothing = smoothing
        self.variance: float | None = None

    def __call__(self, prediction: Tensor, target: Tensor) -> Tensor:
        """Return the loss of predictions and targets of one shape (n, ...), and update the noise."""
        mean_square = (prediction - target).square().mean()
        seen = float(mean_square.detach())
        self.variance = seen if self.variance is None else self.smoothing * self.variance + (1 - self.smoothing) * seen
        return mean_square / (2 * self.variance)


def _batches(dataset: Any, collate: Any) -> Iterable[Mapping[str, Any]]:
    for start in range(0, len(dataset), COLLATED):
        yield collate([dataset[place] for place in range(start, min(start + COLLATED, len(dataset)))])
