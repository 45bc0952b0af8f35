"""What the command does: find the density, train or go on, draw, weigh, compare with what is known, report."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from workingpapers.foundations import densities
from workingpapers.foundations.densities import Density, FromCallable
from workingpapers.foundations.densities.particles import _Particles
from workingpapers.foundations.diffusion import EquivariantDrift
from workingpapers.foundations.errors import InputError
from workingpapers.foundations.files import whole_file
from workingpapers.foundations.manifolds import Euclidean, Manifold
from workingpapers.foundations.outcome import Figure, Outcome, Table
from workingpapers.foundations.program import load_function
from workingpapers.foundations.progress import Progress, part
from workingpapers.foundations.report import Section, paragraph, write_report
from workingpapers.foundations.transport import wasserstein_1d
from workingpapers.sampling.flow_sampling.experiments import MODES
from workingpapers.sampling.flow_sampling.pictures import energy_picture, history_picture, sample_picture
from workingpapers.sampling.flow_sampling.sampler import FlowSampler
from workingpapers.sampling.flow_sampling.targets import MeanFree
from workingpapers.sampling.flow_sampling.weights import WeightedSamples

LARGEST_WEIGHED = 50  # dimensions up to which the exact divergence is worth its cost
COMPARED = 2000


@dataclass(frozen=True)
class Request:
    """What the command was asked for; the fields are the command's parameters."""

    target: str
    program: Path | None
    function: str
    dim: int | None
    particles: int | None
    samples: int
    rounds: int
    new_samples: int
    updates: int
    steps: int
    strength: float
    clip: float | None
    scale: float
    seed: int
    out: Path | None
    checkpoint: Path | None
    report: Path | None


@dataclass(frozen=True)
class Problem:
    """A density with where it lives.

    Args:
        density: The density, in the user's units.
        scaled: The same in units of `scale`, which the sampler is trained on.
        manifold: Where the points live.
        scale: Size of a unit.
        name: What to call it.
    """

    density: Density
    scaled: Density
    manifold: Manifold
    scale: float
    name: str


def run_request(request: Request, progress: Progress) -> Outcome:
    """Do what the command was asked for.

    Args:
        request: What that is.
        progress: Called along the way.

    Raises:
        InputError: Something of it cannot be used, before any long work.
    """
    if request.out is not None and request.out.suffix != ".npz":
        raise InputError(f"--out is {str(request.out)!r}; name a file that ends in .npz.")
    problem = find_problem(request)
    sampler = make_sampler(problem, request)
    resumed = 0
    if request.checkpoint is not None and request.checkpoint.exists():
        sampler.load(request.checkpoint)
        resumed = len(sampler.history)
        if resumed > request.rounds:
            raise InputError(
                f"{str(request.checkpoint)!r} has {resumed} rounds and --rounds is {request.rounds}; give more rounds."
            )
    sampler.fit(
        request.rounds,
        updates=request.updates,
        new_samples=request.new_samples,
        steps=request.steps,
        checkpoint=request.checkpoint,
        progress=part(progress, 0.0, 0.8),
    )
    weighted = None
    if type(problem.manifold) is Euclidean and problem.density.dim <= LARGEST_WEIGHED:
        weighted = sampler.weighted_sample(request.samples, steps=2 * request.steps, progress=part(progress, 0.8, 1.0))
        points = weighted.points.double() * problem.scale
    else:
        points = sampler.sample(request.samples, steps=2 * request.steps).double() * problem.scale
    progress(1.0, "drawn")
    return _outcome(request, problem, sampler, points, weighted, resumed)


def find_problem(request: Request) -> Problem:
    """Return the density that a request names.

    Args:
        request: The request.
    """
    if request.program is None:
        density, manifold = _benchmark(request.target, request.dim)
        name = request.target
    else:
        if request.dim is None:
            raise InputError("A program does not tell the length of a point; give --dim.")
        density = FromCallable(load_function(request.program, request.function), request.dim)
        manifold = (
            Euclidean(request.dim) if request.particles is None else MeanFree(request.dim, particles=request.particles)
        )
        name = f"{request.program.name}:{request.function}"
        try:
            density.log_density(manifold.random(4, torch.Generator().manual_seed(0), torch.float32))
        except Exception as error:
            raise InputError(
                f"{name} fails on four points of {request.dim} coordinates ({type(error).__name__}: {error}); it must "
                "take a torch tensor of shape (b, d) and return one of shape (b,)."
            ) from None
    if manifold.curvature and request.scale != 1:
        raise InputError(f"--scale is {request.scale:g}, which has no meaning on a curved space; leave it out.")
    return Problem(density, _in_units(density, request.scale), manifold, request.scale, name)


def make_sampler(problem: Problem, request: Request) -> FlowSampler:
    """Return the untrained sampler of a request."""
    network = None
    if isinstance(problem.manifold, MeanFree):
        count = problem.manifold.particles
        first = torch.Generator().manual_seed(request.seed)
        network = EquivariantDrift(count, problem.manifold.dim // count, generator=first)
    return FlowSampler(
        problem.scaled,
        manifold=problem.manifold,
        network=network,
        strength=request.strength,
        clip=request.clip,
        seed=request.seed,
    )


def _in_units(density: Density, scale: float) -> Density:
    if scale == 1:
        return density
    shift = density.dim * math.log(scale)
    return FromCallable(lambda x: density.log_density(scale * x) + shift, density.dim, density.log_partition)


def _benchmark(name: str, dim: int | None) -> tuple[Density, Manifold]:
    sized: dict[str, Callable[[int], Density]] = {
        "funnel": densities.Funnel,
        "many_well": densities.many_well,
        "multi_well": lambda size: densities.MultiWell.shifted(size, size, delta=4.0),
    }
    usual = {"funnel": 10, "many_well": 4, "multi_well": 5}
    if name in sized:
        density = sized[name](usual[name] if dim is None else dim)
        return density, Euclidean(density.dim)
    if dim is not None:
        raise InputError(f"--dim is {dim}; {name} has a fixed length, so leave it out.")
    if name == "sphere":
        mixture = densities.VonMisesFisherMixture(torch.tensor(MODES, dtype=torch.float64), 20.0)
        return mixture, mixture.manifold
    if name in ("double_well_particles", "lennard_jones"):
        system: _Particles = densities.DoubleWellParticles() if name.startswith("double") else densities.LennardJones()
        return system, MeanFree(system.dim, particles=system.particles)
    flat: Density = densities.ring() if name == "ring" else densities.gmm40()
    return flat, Euclidean(flat.dim)


def _outcome(
    request: Request,
    problem: Problem,
    sampler: FlowSampler,
    points: Tensor,
    weighted: WeightedSamples | None,
    resumed: int,
) -> Outcome:
    energies = -problem.density.log_density(points).detach()
    truth = _truth(problem, request.seed)
    rows: list[list[object]] = [
        ["gradients of the log-density", sampler.evaluations],
        ["rounds", len(sampler.history)],
        ["network evaluations a path in training", request.steps],
        ["samples", len(points)],
        ["mean energy of the samples", float(energies.mean())],
    ]
    known = problem.density.log_partition
    if weighted is not None:
        rows += [
            ["log Z by importance weights", weighted.log_partition],
            ["effective share of the samples", weighted.effective_share],
            ["largest share of one sample", weighted.largest_share],
        ]
        if known is not None:
            rows.append(["log Z, known", float(known)])
    distance = None
    if truth is not None:
        true_energies = -problem.density.log_density(truth)
        distance = wasserstein_1d(energies[:COMPARED], true_energies)
        other = problem.density.sample(COMPARED, torch.Generator().manual_seed(91_000 + request.seed))
        floor = wasserstein_1d(true_energies, -problem.density.log_density(other))
        rows += [["W2 of energies to exact samples", distance], ["the same of two exact samples", floor]]
    table = Table(("what", "value"), rows, problem.name)
    last = sampler.history[-1]
    summary = (
        f"{len(points):,} samples of {problem.name} after {sampler.evaluations:,} gradients; the mean log-density of "
        f"the last round's samples is {last.mean_log_density:.3g}."
    )
    if resumed:
        summary += f" Training went on after {resumed} rounds of an earlier run."
    if weighted is not None:
        share = weighted.effective_share
        summary += f" By the weights {share:.0%} of them count"
        summary += (
            "."
            if share >= 0.1
            else ": too few to rely on; train longer, or set --scale to the size of a typical point."
        )
    figures = [history_picture(sampler.history, request.new_samples), energy_picture(energies, truth, problem.density)]
    picture = sample_picture(points, truth, problem.density, problem.manifold)
    if picture is not None:
        figures.insert(0, picture)
    files = _write(request, points, weighted, summary, figures, table)
    data = {
        "target": problem.name,
        "gradients": sampler.evaluations,
        "rounds": len(sampler.history),
        "samples": len(points),
        "mean_energy": float(energies.mean()),
        "energy_w2": distance,
        "log_partition": None if weighted is None else weighted.log_partition,
        "effective_share": None if weighted is None else weighted.effective_share,
    }
    return Outcome(summary, (table,), figures, files, data)


def _write(
    request: Request,
    points: Tensor,
    weighted: WeightedSamples | None,
    summary: str,
    figures: list[Figure],
    table: Table,
) -> list[Path]:
    files: list[Path] = []
    if request.out is not None:
        arrays = {"samples": points.numpy()}
        if weighted is not None:
            arrays["log_weights"] = weighted.log_weights.numpy()
        with whole_file(request.out, "wb") as stream:
            np.savez_compressed(stream, **arrays)  # type: ignore[arg-type]
        files.append(request.out)
    if request.checkpoint is not None:
        files.append(request.checkpoint)
    if request.report is not None:
        sections: list[Section] = [paragraph(summary), *figures, table]
        files.append(write_report(request.report, "Samples of a density", sections))
    return files


def _truth(problem: Problem, seed: int) -> Tensor | None:
    """Return exact samples where the density has some; reference chains of particles take too long here."""
    if isinstance(problem.density, FromCallable | _Particles):
        return None
    return problem.density.sample(COMPARED, torch.Generator().manual_seed(90_000 + seed))
