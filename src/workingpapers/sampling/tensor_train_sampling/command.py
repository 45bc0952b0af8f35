"""``papers run tensor_train_sampling``: weighted samples and log Z of a density known up to a constant."""

from __future__ import annotations

from typing import Annotated, Literal

from workingpapers.foundations.outcome import Outcome
from workingpapers.foundations.progress import Progress, silent
from workingpapers.foundations.signature import Between, OutputFile, ProgramFile


def run(
    *,
    target: Literal["multi_well", "ginzburg_landau", "kitagawa"] = "multi_well",
    dim: Annotated[int, Between(1, 100)] = 2,
    program: ProgramFile | None = None,
    function: str = "log_density",
    samples: Annotated[int, Between(2, 1_000_000)] = 5000,
    rank: Annotated[int, Between(1, 20)] = 2,
    size: Annotated[int, Between(3, 40)] = 9,
    basis: Literal["legendre", "fourier"] = "legendre",
    batch: Annotated[int, Between(50, 1_000_000)] = 2000,
    steps: Annotated[int, Between(5, 5000)] = 150,
    iterations: Annotated[int, Between(1, 5)] = 2,
    horizon: Annotated[float, Between(0.1, 20)] = 2.0,
    box: Annotated[float, Between(0, open_low=True)] | None = None,
    seed: Annotated[int, Between(0, 2**32 - 1)] = 0,
    out: OutputFile | None = None,
    checkpoint: OutputFile | None = None,
    report: OutputFile | None = None,
    progress: Progress = silent,
) -> Outcome:
    """Draw weighted samples of an unnormalised density and estimate its log-partition.

    Args:
        target: Built-in density: multi_well (wells in half of the coordinates, in both of two), ginzburg_landau (a
            chain of coupled wells) or kitagawa (states of a nonlinear series); their log Z is known.
        dim: Number of coordinates.
        program: Python file with your own log-density instead, on torch points of shape (b, d), float64, to (b,); its
            mass should lie within a few units of the origin.
        function: Name of the function in the program.
        samples: Weighted samples to draw.
        rank: Rank of the tensor trains; 2 for products, 3 or more for chains.
        size: Basis functions of each coordinate.
        basis: Polynomials (legendre), or powers to the second and waves (fourier).
        batch: Paths that the regressions see; more for more coordinates.
        steps: Time steps; more for steep densities.
        iterations: Outer iterations; the first runs on annealed Langevin paths.
        horizon: Time of the noising.
        box: Half width of the cube that paths must stay in to be fitted to; by default it is measured.
        seed: Seed of fit and samples.
        out: File for the weighted samples: .npz (points, log_weights) or .csv.
        checkpoint: File that keeps the fit, from which an interrupted run goes on after its last whole iteration.
        report: HTML report with figures.
    """
    from workingpapers.sampling.tensor_train_sampling.answers import answer

    return answer(
        target=target, dim=dim, program=program, function=function, samples=samples, rank=rank, size=size, basis=basis,
        batch=batch, steps=steps, iterations=iterations, horizon=horizon, box=box, seed=seed, out=out,
        checkpoint=checkpoint, report=report, progress=progress,
    )  # fmt: skip
