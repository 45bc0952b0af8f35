"""``papers run flow_sampling``: samples of a density, a benchmark's or one out of a Python file."""

from __future__ import annotations

from typing import Annotated, Literal

from workingpapers.foundations.outcome import Outcome
from workingpapers.foundations.progress import Progress, silent
from workingpapers.foundations.signature import Between, OutputFile, ProgramFile

Target = Literal[
    "ring", "gmm40", "funnel", "many_well", "multi_well", "double_well_particles", "lennard_jones", "sphere"
]


def run(
    *,
    target: Target = "ring",
    program: ProgramFile | None = None,
    function: str = "log_density",
    dim: Annotated[int, Between(1, 10_000)] | None = None,
    particles: Annotated[int, Between(2, 1000)] | None = None,
    samples: Annotated[int, Between(1, 1_000_000)] = 2000,
    rounds: Annotated[int, Between(1, 100_000)] = 60,
    new_samples: Annotated[int, Between(1, 1_000_000)] = 512,
    updates: Annotated[int, Between(1, 100_000)] = 40,
    steps: Annotated[int, Between(2, 10_000)] = 32,
    strength: Annotated[float, Between(0)] = 1.0,
    clip: Annotated[float, Between(0, open_low=True)] | None = 30.0,
    scale: Annotated[float, Between(0, open_low=True)] = 1.0,
    seed: Annotated[int, Between(0)] = 0,
    out: OutputFile | None = None,
    checkpoint: OutputFile | None = None,
    report: OutputFile | None = None,
    progress: Progress = silent,
) -> Outcome:
    """Train a sampler of a density known up to a constant, and draw samples with importance weights.

    Args:
        target: Benchmark density; without effect where a program is given.
        program: Python file with a log-density on torch points, from shape (b, d) to (b,).
        function: Name of the function in the program.
        dim: Length of a point; needed with a program, and chooses the size of many_well, funnel and multi_well.
        particles: Number of particles whose centre of mass is held at zero; only with a program.
        samples: Samples to draw in the end.
        rounds: Rounds of exploration and training.
        new_samples: New samples a round; each costs one gradient of the log-density.
        updates: Gradient steps of the network a round.
        steps: Network evaluations a path.
        strength: How strongly gradients enter the target; 1 to 4 work on the benchmarks.
        clip: Longest gradient; longer ones are shortened.
        scale: Typical size of a point: the density is divided by it for training, so that noise of size one reaches it.
        seed: Of weights, noise and batches.
        out: NumPy file of the samples and their log-weights (.npz).
        checkpoint: File that keeps the training, from which an interrupted run goes on.
        report: HTML report.
    """
    from workingpapers.sampling.flow_sampling.running import Request, run_request

    return run_request(
        Request(
            target=target,
            program=program,
            function=function,
            dim=dim,
            particles=particles,
            samples=samples,
            rounds=rounds,
            new_samples=new_samples,
            updates=updates,
            steps=steps,
            strength=strength,
            clip=clip,
            scale=scale,
            seed=seed,
            out=out,
            checkpoint=checkpoint,
            report=report,
        ),
        progress,
    )
