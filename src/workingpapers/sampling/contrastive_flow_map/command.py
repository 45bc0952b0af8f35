"""``papers run contrastive_flow_map``: a generator of few steps for the user's own rows."""

from __future__ import annotations

from typing import Annotated, Literal

from workingpapers.foundations.errors import InputError
from workingpapers.foundations.outcome import Outcome
from workingpapers.foundations.progress import Progress, silent
from workingpapers.foundations.signature import Between, InputFile, OutputFile


def run(
    data: InputFile,
    *,
    out: OutputFile,
    steps: Annotated[int, Between(1, 10_000_000)] = 3000,
    few: Literal["1", "2", "4"] = "1",
    contrast: Annotated[float, Between(0)] = 0.1,
    number: Annotated[int, Between(1, 10_000_000)] | None = None,
    image: bool = False,
    marginal: Literal["meanflow", "shortcut"] = "meanflow",
    hidden: Annotated[int, Between(1, 10_000)] = 192,
    batch: Annotated[int, Between(2, 100_000)] = 256,
    lr: Annotated[float, Between(0, 1, open_low=True)] = 1e-3,
    seed: Annotated[int, Between(0, 2**31 - 1)] = 0,
    model: OutputFile | None = None,
    report: OutputFile | None = None,
    progress: Progress = silent,
) -> Outcome:
    """Train a flow map on rows of numbers and sample new rows in one, two or four steps.

    Args:
        data: Rows of numbers: a NumPy file (.npy) whose first axis counts rows, or a table with a header line.
        out: File for the samples, .npy, or .csv with the columns of a table.
        steps: Training steps. One takes some milliseconds.
        few: Steps of the sampler.
        contrast: Weight of the contrast, which starts after a third of the steps; 0 for plain training.
        number: Number of samples; as many as there are rows by default.
        image: Whether rows are square images, which share one scale and are shown as pictures.
        marginal: Loss of the average velocity, meanflow or shortcut.
        hidden: Units of each of the three hidden layers.
        batch: Rows of a gradient step.
        lr: Step of Adam.
        seed: Seed of split, training and samples.
        model: File that keeps the trained network; the same command goes on from it.
        report: HTML report with pictures of samples beside held-out rows.
    """
    if out.suffix.lower() not in (".npy", ".csv"):
        raise InputError(f"--out is {str(out)!r}; name a file that ends in .npy or .csv.")
    files = [path.resolve() for path in (data, out, model, report) if path is not None]
    if len(set(files)) < len(files):
        raise InputError("Two of DATA, --out, --model and --report name the same file; give each its own.")
    from workingpapers.sampling.contrastive_flow_map import analysis
    from workingpapers.sampling.contrastive_flow_map.training import Plan

    rows = analysis.read_rows(data, image=image)
    plan = Plan(
        steps=steps, batch=batch, lr=lr, marginal=marginal, law="logit_normal", contrast=contrast, seed=seed
    )  # fmt: skip
    found = analysis.fit(rows, plan, hidden=hidden, checkpoint=model, progress=progress)
    return analysis.conclude(
        found, few=int(few), number=number or len(rows.values), out=out, model=model, report=report
    )  # fmt: skip
