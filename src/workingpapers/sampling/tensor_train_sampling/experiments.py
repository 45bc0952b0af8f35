"""Arms of the claims. All arms of one seed see the same target, time grid and number of weighted samples."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping

import torch

from workingpapers.foundations.densities import Density, MultiWell
from workingpapers.foundations.errors import InputError
from workingpapers.foundations.progress import Progress
from workingpapers.sampling.tensor_train_sampling.chains import GinzburgLandau
from workingpapers.sampling.tensor_train_sampling.neural import NeuralControl
from workingpapers.sampling.tensor_train_sampling.paths import (
    WeightedSamples,
    annealed_langevin,
    sample_weighted,
    time_grid,
)
from workingpapers.sampling.tensor_train_sampling.sampler import HJBSampler, Settings

DELTA = 2.0
FRESH = 10_000  # seeds of the weighted samples start here, apart from those of the fits
GAUSSIAN_SIZE = 3


def build(target: str, dim: int) -> Density:
    """Return ``wells`` (double wells in the first half of the coordinates, three of five), or the ``chain``."""
    if target == "chain":
        return GinzburgLandau(dim)
    return MultiWell.shifted(dim, dim if dim == 2 else (dim + 1) // 2, DELTA)


def sizes_of(target: Density, size: int) -> tuple[int, ...]:
    """Return `size` functions for each coordinate with a well; quadratics are enough for a Gaussian one."""
    wells = target.wells if isinstance(target, MultiWell) else target.dim
    return (size,) * wells + (GAUSSIAN_SIZE,) * (target.dim - wells)


def tensor_train(
    seed: int,
    progress: Progress,
    *,
    target: str = "wells",
    dim: int = 2,
    rank: int = 2,
    ito: bool = True,
    steps: int,
    batch: int,
    iterations: int,
    size: int,
    samples: int,
    updates: int = 0,
) -> Mapping[str, float]:
    """Return figures of the method; `updates` is for the neural arm and has no use here."""
    density = build(target, dim)
    settings = Settings(
        steps=steps,
        batch=batch,
        iterations=iterations,
        sizes=sizes_of(density, size),
        ranks=rank,
        ito=ito,
        fallback=False,
    )
    start = time.process_time()
    sampler = HJBSampler(density, settings, seed=seed)
    try:
        sampler.fit(progress)
    except InputError:
        return failed(samples, time.process_time() - start)
    seconds = time.process_time() - start
    drawn = sampler.sample(samples, seed=FRESH + seed)
    last = [record for record in sampler.records if record.iteration == len(sampler.kept) - 1]
    extra = {
        "residual": sum(record.residual for record in last) / len(last),
        "restarts": float(sum(record.restarted for record in sampler.records)),
        "iterations": float(len(sampler.kept)),
    }
    return figures(density, drawn, seconds) | extra


def langevin(
    seed: int, progress: Progress, *, target: str = "wells", dim: int = 2, steps: int, samples: int, **_: object
) -> Mapping[str, float]:
    """Return figures of the annealed Langevin policy, the method's start, by the same weights."""
    density = build(target, dim)
    times = time_grid(Settings.horizon, steps)
    start = time.process_time()
    generator = torch.Generator().manual_seed(FRESH + seed)
    drawn = sample_weighted(annealed_langevin(density, times), density, times, samples, generator, progress)
    return figures(density, drawn, time.process_time() - start)


def neural(
    seed: int,
    progress: Progress,
    *,
    target: str = "wells",
    dim: int = 2,
    rate: float = 2e-3,
    steps: int,
    samples: int,
    updates: int,
    **_: object,
) -> Mapping[str, float]:
    """Return figures of a small network that is added to the same first policy and trained by log-variance."""
    density = build(target, dim)
    start = time.process_time()
    control = NeuralControl(density, time_grid(Settings.horizon, steps), seed=seed)
    try:
        control.fit(updates, rate=rate, progress=progress)
    except InputError:
        return failed(samples, time.process_time() - start)
    seconds = time.process_time() - start
    return figures(density, control.sample(samples, seed=FRESH + seed), seconds)


def figures(density: Density, drawn: WeightedSamples, seconds: float) -> dict[str, float]:
    """Return effective share, error of log Z, gap of the bound, the heaviest share, lost paths and CPU seconds."""
    assert density.log_partition is not None
    return {
        "ess": drawn.effective_share,
        "log_z_error": abs(drawn.log_partition - density.log_partition),
        "elbo_gap": density.log_partition - drawn.evidence_bound,
        "largest_share": drawn.largest_share,
        "lost": drawn.lost,
        "seconds": seconds,
    }


def failed(samples: int, seconds: float) -> dict[str, float]:
    """Return what a fit is worth that stopped: one sample of all, and no log Z."""
    return {
        "ess": 1 / samples,
        "log_z_error": math.nan,
        "elbo_gap": math.nan,
        "largest_share": 1.0,
        "lost": 1.0,
        "seconds": seconds,
    }
