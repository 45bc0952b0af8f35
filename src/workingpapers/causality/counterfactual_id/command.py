"""``papers run counterfactual_id``: whether data of some regimes answer a counterfactual question, and the answer."""

from __future__ import annotations

from typing import Annotated

from workingpapers.foundations.outcome import Outcome
from workingpapers.foundations.progress import Progress, silent
from workingpapers.foundations.signature import Between, InputFile, OutputFile


def run(
    graph: InputFile,
    *,
    query: str,
    regimes: InputFile | None = None,
    data: tuple[str, ...] = (),
    values: tuple[str, ...] = (),
    bootstrap: Annotated[int, Between(20, 100_000)] = 500,
    seed: Annotated[int, Between(0)] = 0,
    latex: OutputFile | None = None,
    report: OutputFile | None = None,
    progress: Progress = silent,
) -> Outcome:
    """Say whether a counterfactual question can be answered from given experiments, and answer or bound it.

    Args:
        graph: Causal diagram in DOT (confounding as dir=both or <->), in dagitty's syntax, or as a y0 constructor.
        query: For example "P(Y[x, M[x']] = y | X = x')"; a subscript holds what is set, a response in it its own world.
        regimes: TOML with one table for each regime: do, cut, observed; without it, observation alone.
        data: Pairs regime=file.csv; one row a unit, one column a recorded variable, and one a randomised value, called
            X for do(X) and X->Y for a cut edge.
        values: Pairs symbol=value, such as x=1 x'=0; a symbol that is a value of the data needs none.
        bootstrap: Bootstrap samples of the interval.
        seed: Seed of the bootstrap.
        latex: File for the formula.
        report: HTML report with the formula, the diagram and the cut edges.
    """
    from workingpapers.causality.counterfactual_id import reporting

    task = reporting.read_task(graph, query, regimes, data, values)
    return reporting.answer(task, bootstrap=bootstrap, seed=seed, latex=latex, report=report, progress=progress)
