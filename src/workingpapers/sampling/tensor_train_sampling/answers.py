"""From options to an outcome: the target, the fit, its figures, files and sentences."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from workingpapers.foundations.densities import Density, FromCallable, MultiWell
from workingpapers.foundations.errors import InputError
from workingpapers.foundations.files import whole_file
from workingpapers.foundations.langevin import value_and_score
from workingpapers.foundations.outcome import Outcome, Table
from workingpapers.foundations.program import load_function
from workingpapers.foundations.progress import Progress, part
from workingpapers.foundations.report import paragraph, write_report
from workingpapers.sampling.tensor_train_sampling import pictures
from workingpapers.sampling.tensor_train_sampling.chains import Chain, GinzburgLandau, Kitagawa, separable_marginal
from workingpapers.sampling.tensor_train_sampling.paths import Schedule, WeightedSamples, sample_weighted
from workingpapers.sampling.tensor_train_sampling.sampler import HJBSampler, Settings

DELTA = 2.0
GAUSSIAN_SIZE = 3
RELIABLE, POOR = 0.3, 0.02
SHOWN = 6
SCHEDULE: Schedule = "linear"


def answer(
    *, target: str, dim: int, program: Path | None, function: str, samples: int, rank: int, size: int, basis: str,
    batch: int, steps: int, iterations: int, horizon: float, box: float | None, seed: int, out: Path | None,
    checkpoint: Path | None, report: Path | None, progress: Progress,
) -> Outcome:  # fmt: skip
    """Return the outcome of the command; see there for the options."""
    if out is not None and out.suffix.lower() not in (".npz", ".csv"):
        raise InputError(f"{str(out)!r} must end in .npz or .csv.")
    density = own_target(program, function, dim) if program is not None else built_in(target, dim, seed)
    settings = Settings(
        horizon=horizon, steps=steps, schedule=SCHEDULE, basis=basis, sizes=_sizes(density, size), ranks=rank,
        batch=batch, iterations=iterations, box=box,
    )  # fmt: skip
    sampler = HJBSampler(density, settings, seed=seed)
    start = time.process_time()
    sampler.fit(part(progress, 0, 0.85), checkpoint=checkpoint)
    seconds = time.process_time() - start
    drawn = sampler.sample(samples, seed=seed + 1, progress=part(progress, 0.85, 0.95))
    generator = torch.Generator().manual_seed(seed + 1)
    first = sample_weighted(
        sampler.initial_policy, density, sampler.times, min(samples, 5000), generator, part(progress, 0.95, 1)
    )
    name = "Your density" if program is not None else target
    sentences = _summary(name, density, sampler, drawn, first)
    tables = [_figures_table(density, drawn, first), _iterations_table(sampler)]
    shown = list(range(min(dim, SHOWN)))
    figures = [
        pictures.marginals_picture(drawn, shown, [exact_marginal(density, i) for i in shown]),
        pictures.residuals_picture(sampler.records, sampler.times),
    ]
    files = []
    if out is not None:
        write_samples(out, drawn)
        files.append(out)
    if report is not None:
        write_report(report, "Tensor train diffusion", [paragraph(sentences), *figures, *tables])
        files.append(report)
    return Outcome(sentences, tables, figures, files, _data(density, sampler, drawn, first, seconds))


def built_in(name: str, dim: int, seed: int) -> Density:
    """Return a built-in target.

    Args:
        name: ``multi_well``, ``ginzburg_landau`` or ``kitagawa``.
        dim: Number of coordinates.
        seed: Seed of the observations of ``kitagawa``.
    """
    if name == "ginzburg_landau":
        return GinzburgLandau(dim)
    if name == "kitagawa":
        return Kitagawa.simulated(dim, seed=seed)
    return MultiWell.shifted(dim, dim if dim <= 2 else (dim + 1) // 2, DELTA)


def own_target(path: Path, function: str, dim: int) -> Density:
    """Return the user's density, tried on two points.

    Raises:
        InputError: The function is missing, fails, or gives no number a row, or no gradient.
    """
    found: Callable[[Tensor], Tensor] = load_function(path, function)
    probe = 0.1 * torch.ones(2, dim, dtype=torch.float64)
    try:
        value, _ = value_and_score(found, probe)
    except InputError:
        raise
    except Exception as error:
        reason = " ".join(str(error).split())[:200].rstrip(".")
        raise InputError(
            f"{function!r} of {str(path)!r} fails on torch points of shape (2, {dim}) ({type(error).__name__}: "
            f"{reason}); it must return one differentiable number a row."
        ) from None
    if not bool(torch.isfinite(value).all()):
        raise InputError(f"{function!r} of {str(path)!r} is {float(value[0])} at 0.1; it must be finite on all of R^d.")
    return FromCallable(found, dim)


def exact_marginal(density: Density, i: int) -> tuple[Tensor, Tensor] | None:
    """Return grid and density of coordinate `i` where they are known, else None."""
    if isinstance(density, Chain):
        return density.marginal(i)
    if isinstance(density, MultiWell):
        found = separable_marginal(density, i, -6.0, 6.0)
        return found.grid, found.density
    return None


def write_samples(path: Path, drawn: WeightedSamples) -> None:
    """Write points and log-weights, as arrays (.npz) or as a table (.csv)."""
    points, weights = drawn.points.numpy(), drawn.log_weights.numpy()
    if path.suffix.lower() == ".npz":
        with whole_file(path, "wb") as stream:
            np.savez_compressed(stream, points=points, log_weights=weights)
        return
    with whole_file(path) as stream:
        stream.write(",".join([*(f"x{j}" for j in range(points.shape[1])), "log_weight"]) + "\n")
        np.savetxt(stream, np.column_stack([points, weights]), delimiter=",", fmt="%.10g")


def _sizes(density: Density, size: int) -> tuple[int, ...]:
    if isinstance(density, MultiWell):
        return (size,) * density.wells + (GAUSSIAN_SIZE,) * (density.dim - density.wells)
    return (size,) * density.dim


def log_z_error(drawn: WeightedSamples) -> float:
    """Return the standard error of log Z by the delta method: root of (1/ESS - 1) / n."""
    share = drawn.effective_share
    return float(np.sqrt(max(1 / share - 1, 0.0) / len(drawn.points))) if share else float("inf")


def _summary(name: str, density: Density, sampler: HJBSampler, drawn: WeightedSamples, first: WeightedSamples) -> str:
    share, known = drawn.effective_share, density.log_partition
    against = "" if known is None else f" (exact {known:.4f})"
    text = (
        f"{name} in {density.dim} coordinates: log Z = {drawn.log_partition:.4f} ± {log_z_error(drawn):.4f}{against}. "
        f"The effective share of the {len(drawn.points)} samples is {share:.3g}, that of the annealed Langevin policy "
        f"{first.effective_share:.3g}."
    )
    if sampler.fell_back:
        text += " The first iteration diverged and was run again without the Ito term."
    if sampler.stopped:
        text += " " + sampler.stopped
    if share >= RELIABLE and drawn.largest_share < 0.5:
        return text
    if share < POOR or drawn.largest_share >= 0.5:
        return text + " Do not rely on this: take more paths, steps or ranks, or rescale the density."
    return text + " Use the weights; more paths, steps or ranks would help."


def _figures_table(density: Density, drawn: WeightedSamples, first: WeightedSamples) -> Table:
    rows = [
        [label, item.log_partition, log_z_error(item), item.evidence_bound, item.effective_share, item.largest_share,
         item.lost]
        for label, item in (("tensor train", drawn), ("annealed Langevin, the start", first))
    ]  # fmt: skip
    if density.log_partition is not None:
        rows.append(["exact", density.log_partition, None, None, None, None, None])
    columns = ["policy", "log Z", "standard error", "mean log-weight", "effective share", "largest share", "lost paths"]
    return Table(columns, rows, "Weighted samples", "No path is left out; a lost one left the finite numbers.")


def _iterations_table(sampler: HJBSampler) -> Table:
    rows = []
    for iteration, kept in enumerate(sampler.kept):
        records = [record for record in sampler.records if record.iteration == iteration]
        residuals = [record.residual for record in records]
        ranks = [max(record.ranks, default=1) for record in records]
        rows.append(
            [iteration + 1, kept, float(np.median(residuals)), max(residuals), max(ranks),
             float(np.mean([record.sweeps for record in records])), sum(record.restarted for record in records)]
        )  # fmt: skip
    columns = ["iteration", "paths kept", "median residual", "largest residual", "rank", "sweeps a step", "restarts"]
    return Table(columns, rows, "Regressions", "Residuals are mean squares as a share of the variance.")


def _data(
    density: Density, sampler: HJBSampler, drawn: WeightedSamples, first: WeightedSamples, seconds: float
) -> dict[str, Any]:
    return {
        "log_z": _finite(drawn.log_partition),
        "log_z_error": _finite(log_z_error(drawn)),
        "exact_log_z": density.log_partition,
        "mean_log_weight": _finite(drawn.evidence_bound),
        "effective_share": drawn.effective_share,
        "largest_share": drawn.largest_share,
        "lost": drawn.lost,
        "first_effective_share": first.effective_share,
        "iterations": len(sampler.kept),
        "paths_kept": sampler.kept,
        "stopped": sampler.stopped,
        "residuals": [record.residual for record in sampler.records],
        "ranks": list(sampler.values[0].train.ranks),
        "cpu_seconds": seconds,
    }


def _finite(value: float) -> float | None:
    return value if np.isfinite(value) else None
