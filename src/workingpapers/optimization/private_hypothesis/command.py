"""``papers run private_hypothesis``: private estimates of parameters, and private choices among given distributions."""

from __future__ import annotations

from typing import Annotated, Literal

from workingpapers.foundations.outcome import Outcome
from workingpapers.foundations.progress import Progress, silent
from workingpapers.foundations.signature import Between, InputFile, OutputFile

Epsilon = Annotated[float, Between(0, 1000, open_low=True)]
Beta = Annotated[float, Between(0, 1, open_low=True, open_high=True)]


def run_estimate(
    data: InputFile,
    *,
    column: str,
    bounds: tuple[float, ...],
    family: Literal["normal", "laplace", "logistic", "cauchy", "exponential", "poisson"] = "normal",
    scale: tuple[float, ...] = (1.0,),
    epsilon: Epsilon = 1.0,
    radius: Annotated[float, Between(0, 0.5, open_low=True)] | None = None,
    beta: Beta = 0.05,
    seed: int | None = None,
    insecure: bool = False,
    report: OutputFile | None = None,
    progress: Progress = silent,
) -> Outcome:
    """Estimate location, scale or rate of a private column with differential privacy, whatever its tails.

    Args:
        data: Table (CSV, TSV or Parquet) with one private record a row.
        column: Column of numbers to estimate from.
        bounds: Lowest and highest value that the location can have, as in --bounds -10 10; for the exponential family
            that of its scale, for the Poisson family that of its rate. Choose them without looking at the data.
        family: Family of distributions.
        scale: The known scale, or its lowest and highest value, as in --scale 0.5 5. Choose them without looking.
        epsilon: Privacy budget; each run spends it anew.
        radius: Total variation distance between neighbouring members of the cover; set from the budget by default.
        beta: Probability with which the printed bound may fail.
        seed: Refused unless --insecure is given, since anybody with the seed could undo the noise.
        insecure: Say that this is a test, whose result protects nobody.
        report: HTML report; it holds only what is released.
    """
    from workingpapers.optimization.private_hypothesis.answers import estimate_from_file

    return estimate_from_file(
        data, column, family, bounds, epsilon, report=report, progress=progress, scale=scale, radius=radius, beta=beta,
        seed=seed, insecure=insecure,
    )  # fmt: skip


def run_choose(
    data: InputFile,
    *,
    column: str,
    hypotheses: InputFile,
    epsilon: Epsilon = 1.0,
    beta: Beta = 0.05,
    seed: int | None = None,
    insecure: bool = False,
    report: OutputFile | None = None,
    progress: Progress = silent,
) -> Outcome:
    """Choose among given distributions the one closest to a private column, with differential privacy.

    Args:
        data: Table (CSV, TSV or Parquet) with one private record a row.
        column: Column of values, each of which is a column name of the hypotheses.
        hypotheses: Table with one distribution a row: its name in the first column, then one column for each value of
            the domain with its probability. Distributions fitted to the same private records void the guarantee.
        epsilon: Privacy budget; each run spends it anew.
        beta: Probability with which the printed bound may fail.
        seed: Refused unless --insecure is given, since anybody with the seed could undo the noise.
        insecure: Say that this is a test, whose result protects nobody.
        report: HTML report; it holds only what is released.
    """
    from workingpapers.optimization.private_hypothesis.answers import choose_from_files

    return choose_from_files(
        data, column, hypotheses, epsilon, report=report, progress=progress, beta=beta, seed=seed, insecure=insecure
    )
