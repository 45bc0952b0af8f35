"""``papers run subspace_diffusion``: subspaces, intrinsic dimensions, new samples and a plan of the sample size."""

from __future__ import annotations

from typing import Annotated, Literal

from workingpapers.foundations.outcome import Outcome
from workingpapers.foundations.progress import Progress, silent
from workingpapers.foundations.signature import Between, InputFile, OutputFile


def run(
    data: InputFile,
    *,
    subspaces: Annotated[int, Between(1, 1000)] | None = None,
    dims: tuple[int, ...] | None = None,
    method: Literal["ssc", "tsc"] = "ssc",
    samples: Annotated[int, Between(1, 1_000_000)] | None = None,
    out: OutputFile | None = None,
    error: Annotated[float, Between(0, open_low=True)] | None = None,
    steps: Annotated[int, Between(2, 5000)] = 200,
    neighbors: Annotated[int, Between(1)] | None = None,
    seed: Annotated[int, Between(0)] = 0,
    report: OutputFile | None = None,
    progress: Progress = silent,
) -> Outcome:
    """Find the linear subspaces that data lie on, draw new samples from them, and plan how many samples are needed.

    Args:
        data: Samples, one a row: a .npy array of shape (n, d), or a table (CSV, TSV, Parquet) of numbers.
        subspaces: Number of subspaces; estimated by default.
        dims: Dimension of the subspaces, one for all or one for each as in --dims 2 2 3; estimated by default.
        method: Clustering, sparse (ssc) or by thresholds (tsc, faster).
        samples: New samples to draw and write to --out; as many as the data by default.
        out: File for the new samples, .npy or .csv.
        error: Wanted Wasserstein-1 error in the unit of the data, for the plan; by default a tenth of their spread.
        steps: Steps of the sampler.
        neighbors: Exact nearest samples that each kernel sum goes over, for very many samples; all by default.
        seed: Seed of clustering and sampling.
        report: HTML report with figures.
    """
    from workingpapers.sampling.subspace_diffusion.answers import answer_from_file

    return answer_from_file(
        data, subspaces=subspaces, dims=dims, method=method, samples=samples, out=out, error=error, steps=steps,
        neighbors=neighbors, seed=seed, report=report, progress=progress,
    )  # fmt: skip
