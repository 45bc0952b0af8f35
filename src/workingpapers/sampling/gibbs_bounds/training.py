"""From a file of examples to the bounds of a small network."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from workingpapers.foundations.errors import InputError
from workingpapers.foundations.files import check_writable
from workingpapers.foundations.outcome import Outcome
from workingpapers.foundations.progress import Progress, part
from workingpapers.sampling.gibbs_bounds.answers import present
from workingpapers.sampling.gibbs_bounds.bernoulli import SMALLEST_SAMPLE
from workingpapers.sampling.gibbs_bounds.bounds import calibration_factor
from workingpapers.sampling.gibbs_bounds.losses import BoundedCrossEntropy, SavageLoss, TangentLoss
from workingpapers.sampling.gibbs_bounds.results import SweepResult
from workingpapers.sampling.gibbs_bounds.sweep import ExampleLoss, TemperatureSweep, random_labels
from workingpapers.sampling.gibbs_bounds.tables import Examples, read_examples, write_trace

Floats = NDArray[np.float64]
LOSSES: dict[str, ExampleLoss] = {
    "cross-entropy": BoundedCrossEntropy(),
    "savage": SavageLoss(),
    "tangent": TangentLoss(),
}
HELD_ASIDE = 10
"""One row in so many is given to the scaling of the inputs and kept out of the sample."""


@dataclass(frozen=True)
class Plan:
    """Options of a run; see :func:`workingpapers.sampling.gibbs_bounds.command.run_train`."""

    scaling: str
    loss: str
    hidden: int
    ratios: tuple[float, ...]
    delta: float
    prior_std: float
    lr: float
    burn_in: int
    steps: int
    prior_draws: int
    batch_size: int | None
    random_labels: bool
    calibrate: bool
    seed: int


def train_and_bound(
    data: Path,
    target: str | None,
    ignore: Sequence[str],
    test: Path | None,
    plan: Plan,
    *,
    state: Path | None,
    out: Path | None,
    report: Path | None,
    progress: Progress,
) -> Outcome:
    """Read, train at all temperatures, bound and present.

    Args:
        data: Training file.
        target: Column of the classes.
        ignore: Columns to leave out.
        test: Held-out file, or None.
        plan: Options.
        state: File that keeps finished temperatures, or None.
        out: CSV file for the means, or None.
        report: HTML report, or None.
        progress: Told of the share done.

    Raises:
        InputError: What cannot be read or used, before any training.
    """
    if not plan.ratios or min(plan.ratios) <= 0 or any(np.diff(plan.ratios) <= 0):
        raise InputError(f"--ratios is {', '.join(f'{r:g}' for r in plan.ratios)}; give increasing positive numbers.")
    random_state = None if state is None or not plan.calibrate else state.with_name(state.name + ".random")
    for path in (state, random_state, out, report):
        if path is not None:
            check_writable(path)
    examples = read_examples(data, target, ignore)
    held_out = None if test is None else _matching(read_examples(test, target, ignore), examples, test)
    rows, shift, spread = _scaled(examples.inputs, plan)
    classes = examples.classes
    generator = torch.Generator().manual_seed(plan.seed)
    sample = _tensors(examples.inputs[rows], examples.labels[rows], classes, shift, spread)
    beside = None if held_out is None else _tensors(held_out.inputs, held_out.labels, classes, shift, spread)
    noisy = _shuffled(sample, beside, len(classes), generator)
    if plan.random_labels:
        sample, beside = noisy
    share = 0.5 if plan.calibrate else 1.0
    sweep = _sweep(plan, sample, beside, len(classes))
    control = _sweep(plan, noisy[0], None, len(classes)) if plan.calibrate else None
    result = sweep.run(state, part(progress, 0, share))
    factor = None
    if control is not None:
        noise = control.run(random_state, part(progress, share, 1))
        factor = _factor(noise, plan.delta, 1 - 1 / len(classes))
    if out is not None:
        write_trace(out, result)
    return present(
        result.bound(plan.delta, factor),
        result.losses,
        result.test_errors,
        chance=1 - 1 / len(classes),
        test_examples=None if beside is None else len(beside[1]),
        notes=[_description(plan, examples, result.n)],
        warnings=result.warnings,
        files=[path for path in (state, random_state, out) if path is not None],
        report=report,
    )


def _sweep(
    plan: Plan, data: tuple[Tensor, Tensor], test: tuple[Tensor, Tensor] | None, classes: int
) -> TemperatureSweep:
    width = 1 if classes == 2 else classes
    model = nn.Sequential(nn.Linear(data[0].shape[1], plan.hidden), nn.ReLU(), nn.Linear(plan.hidden, width))
    return TemperatureSweep(
        model, LOSSES[plan.loss], data, betas=[0.0, *(len(data[0]) * ratio for ratio in plan.ratios)],
        prior_std=plan.prior_std, lr=plan.lr, burn_in=plan.burn_in, steps=plan.steps, prior_draws=plan.prior_draws,
        test_data=test, batch_size=plan.batch_size, seed=plan.seed,
    )  # fmt: skip


def _scaled(inputs: Floats, plan: Plan) -> tuple[NDArray[np.int64], Floats, Floats]:
    """Return the rows of the sample, and the shift and spread of the inputs from the rows that are no part of it."""
    order = np.random.default_rng(plan.seed).permutation(len(inputs))
    aside = 0 if plan.scaling == "none" else max(2, len(inputs) // HELD_ASIDE)
    if len(inputs) - aside < SMALLEST_SAMPLE:
        raise InputError(f"There are {len(inputs)} examples; with {aside} held aside for the scaling "
                         f"{SMALLEST_SAMPLE} or more must be left.")  # fmt: skip
    if not aside:
        return order, np.zeros(inputs.shape[1]), np.ones(inputs.shape[1])
    known = inputs[order[:aside]]
    spread = known.std(axis=0)
    # A column without spread in these rows may have one in others: it takes the typical spread, not a division by zero.
    typical = float(np.median(spread[spread > 0])) if (spread > 0).any() else 1.0
    return order[aside:], known.mean(axis=0), np.where(spread > 0, spread, typical)


def _tensors(
    inputs: Floats, labels: NDArray[np.str_], classes: Sequence[str], shift: Floats, spread: Floats
) -> tuple[Tensor, Tensor]:
    scaled = (inputs - shift) / spread
    return torch.tensor(scaled, dtype=torch.float32), torch.from_numpy(np.searchsorted(classes, labels))


def _shuffled(
    sample: tuple[Tensor, Tensor], beside: tuple[Tensor, Tensor] | None, classes: int, generator: torch.Generator
) -> tuple[tuple[Tensor, Tensor], tuple[Tensor, Tensor] | None]:
    first = (sample[0], random_labels(sample[1], classes, generator))
    return first, None if beside is None else (beside[0], random_labels(beside[1], classes, generator))


def _factor(noise: SweepResult, delta: float, chance: float) -> float:
    return calibration_factor(noise.betas, noise.losses, noise.errors, noise.n, delta, chance=chance)


def _matching(found: Examples, examples: Examples, path: Path) -> Examples:
    if found.features != examples.features or found.inputs.shape[1] != examples.inputs.shape[1]:
        raise InputError(f"{str(path)!r} has {found.inputs.shape[1]} inputs, not the {examples.inputs.shape[1]} of "
                         "the training file in the same order; give the same columns.")  # fmt: skip
    unknown = sorted(set(found.classes) - set(examples.classes))
    if unknown:
        raise InputError(f"{str(path)!r} holds the class {unknown[0]!r}, which the training file does not.")
    return found


def _description(plan: Plan, examples: Examples, n: int) -> str:
    aside = len(examples.inputs) - n
    labels = "random labels" if plan.random_labels else f"{len(examples.classes)} classes"
    return (
        f"{n:,} examples with {examples.inputs.shape[1]} inputs and {labels}"
        + (f"; {aside:,} further rows gave the scaling of the inputs" if aside else "")
        + f". One hidden layer of {plan.hidden} units, {plan.loss} loss scaled to [0, 1], prior standard deviation "
        f"{plan.prior_std:g}, {plan.burn_in:,} + {plan.steps:,} steps of {plan.lr:g} at each temperature."
    )
