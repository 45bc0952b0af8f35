"""``papers run gibbs_bounds``: a certificate for a network trained on a table, or for chains of one's own."""

from __future__ import annotations

from typing import Annotated, Literal

from workingpapers.foundations.outcome import Outcome
from workingpapers.foundations.progress import Progress, silent
from workingpapers.foundations.signature import Between, InputFile, OutputFile

Delta = Annotated[float, Between(0, 1, open_low=True, open_high=True)]
Count = Annotated[int, Between(4)]
Positive = Annotated[float, Between(0, open_low=True)]


def run_train(
    data: InputFile,
    *,
    target: str | None = None,
    ignore: tuple[str, ...] = (),
    test: InputFile | None = None,
    scaling: Literal["held-aside", "none"] = "held-aside",
    loss: Literal["cross-entropy", "savage", "tangent"] = "cross-entropy",
    hidden: Annotated[int, Between(1, 10_000)] = 30,
    ratios: tuple[float, ...] = (0.0625, 0.125, 0.25, 0.5, 1, 2, 4, 8, 16),
    delta: Delta = 0.05,
    prior_std: Positive = 1.0,
    lr: Positive = 0.5,
    burn_in: Annotated[int, Between(0)] = 300,
    steps: Count = 300,
    prior_draws: Count = 1000,
    batch_size: Annotated[int, Between(1)] | None = None,
    random_labels: bool = False,
    calibrate: bool = False,
    seed: int = 0,
    state: OutputFile | None = None,
    out: OutputFile | None = None,
    report: OutputFile | None = None,
    progress: Progress = silent,
) -> Outcome:
    """Train a small network at falling temperatures and bound its test error from the training data alone.

    Args:
        data: Table (CSV, TSV or Parquet) of numbers with a column of classes, or an .npz file with arrays X of shape
            (n, ...) and y of shape (n,).
        target: Column of the classes; needed for a table.
        ignore: Columns to leave out.
        test: Held-out file of the same form; it is measured and influences nothing.
        scaling: Where the scaling of inputs comes from. By default a random tenth of the rows, which are then no part
            of the sample, since a scaling learned from the sample itself would void the guarantee; none takes the
            numbers as they are.
        loss: Bounded loss that defines the posterior.
        hidden: Units of the one hidden layer.
        ratios: Inverse temperatures over the number of examples, increasing; the prior is added.
        delta: Probability over the sample with which the bounds may fail.
        prior_std: Standard deviation of the prior of all weights. Choose it without looking at the data.
        lr: Step of the Langevin dynamics.
        burn_in: Steps at each temperature that are not recorded.
        steps: Steps at each temperature that are recorded.
        prior_draws: Networks drawn from the prior.
        batch_size: Examples of a gradient; all by default.
        random_labels: Replace all labels by random ones, to see what the bound says where nothing can be learned.
        calibrate: Run random labels too and add a calibrated bound, a heuristic without a guarantee.
        seed: Seed of all noise.
        state: File that keeps finished temperatures; the same command goes on from it.
        out: CSV file for the means of each temperature, which the sub-command trace reads.
        report: HTML report with the bound against the temperature.
    """
    from workingpapers.sampling.gibbs_bounds.training import Plan, train_and_bound

    plan = Plan(
        scaling=scaling, loss=loss, hidden=hidden, ratios=ratios, delta=delta, prior_std=prior_std, lr=lr,
        burn_in=burn_in, steps=steps, prior_draws=prior_draws, batch_size=batch_size, random_labels=random_labels,
        calibrate=calibrate, seed=seed,
    )  # fmt: skip
    return train_and_bound(
        data, target, ignore, test, plan, state=state, out=out, report=report, progress=progress
    )  # fmt: skip


def run_trace(
    trace: InputFile,
    *,
    n: Annotated[int, Between(1)],
    delta: Delta = 0.05,
    scale: Positive = 1.0,
    random_trace: InputFile | None = None,
    classes: Annotated[int, Between(2)] = 2,
    report: OutputFile | None = None,
    progress: Progress = silent,
) -> Outcome:
    """Bound the test error from the mean losses and errors of your own sampler, without training.

    Args:
        trace: Table with one inverse temperature a row, increasing from 0: columns beta, surrogate_loss (mean of the
            loss in the exponent of the posterior) and error (mean of the loss in [0, 1] to be bounded), and optionally
            test_error, loss_standard_error, error_standard_error, sampler_scale and reported_scale.
        n: Number of training examples, at least 8.
        delta: Probability over the sample with which the bounds may fail.
        scale: Range of the loss in the sampler over that of the losses in the file; 1 where they are the same loss.
        random_trace: The same table of a run on random labels, for a calibrated bound: a heuristic.
        classes: Number of classes of the random labels.
        report: HTML report with the bound against the temperature.
    """
    from workingpapers.sampling.gibbs_bounds.answers import bound_trace

    return bound_trace(trace, n, delta, scale, random_trace, classes, report=report)
