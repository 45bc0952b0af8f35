"""Training tables and output tables for the attribution commands."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from workingpapers.foundations.errors import InputError
from workingpapers.foundations.files import column, read_table
from workingpapers.foundations.outcome import Outcome, Table
from workingpapers.governance.data_royalties.games import CoalitionAttributor
from workingpapers.governance.data_royalties.gradients import GradientAttributor, fit, log_likelihood
from workingpapers.governance.data_royalties.money import counted
from workingpapers.governance.data_royalties.neighbours import NeighbourAttributor
from workingpapers.governance.data_royalties.registry import identifier
from workingpapers.governance.data_royalties.scores import Attributor, Outputs, Scores, write_scores

if TYPE_CHECKING:
    import pandas as pd

RETRAINED_WORKS = 14


@dataclass(frozen=True)
class Training:
    """Training rows and the outputs to be explained.

    Args:
        features: (n, d) float64.
        labels: (n,) integers from 0.
        owners: (n,) work ids.
        classes: Number of labels.
        outputs: The outputs, labels as integers.
    """

    features: NDArray[np.float64]
    labels: NDArray[np.int64]
    owners: Sequence[str]
    classes: int
    outputs: Outputs


def read_training(training: Path, outputs: Path, work: str, label: str) -> Training:
    """Read both tables and check that they fit together.

    Raises:
        InputError: A column is missing or not numeric, a value is missing, or an output has a label that no training
            row has.
    """
    rows, asked = read_table(training), read_table(outputs)
    owners = [identifier(name, "A work id") for name in column(rows, work, training)]
    labels, given = column(rows, label, training), column(asked, label, outputs)
    event_ids = [str(name) for name in column(asked, "event_id", outputs)]
    check_event_ids(event_ids, outputs)
    names = [str(name) for name in rows.columns if name not in (work, label)]
    if not names:
        raise InputError(f"{str(training)!r} has no feature columns beside {work!r} and {label!r}; add embeddings.")
    known = sorted({str(name) for name in labels})
    strange = sorted({str(name) for name in given} - set(known))
    if strange:
        raise InputError(
            f"Column {label!r} of {str(outputs)!r} holds {strange[0]!r}, a label that no training row has."
        )
    codes = {name: code for code, name in enumerate(known)}
    return Training(
        _numbers(rows, names, training),
        np.array([codes[str(name)] for name in labels], dtype=np.int64),
        owners,
        len(known),
        Outputs(
            event_ids, _numbers(asked, names, outputs), np.array([codes[str(name)] for name in given], dtype=np.int64)
        ),
    )


def attributor(data: Training, method: str, *, neighbours: int, ridge: float, seed: int) -> Attributor:
    """Return the back end named `method` for `data`.

    Raises:
        InputError: It would retrain too often, or there are fewer than two labels to tell apart.
    """
    if method == "knn_shapley":
        return NeighbourAttributor(data.features, data.labels, data.owners, neighbours)
    if data.classes < 2:
        raise InputError(f"All training rows have one label; {method} needs at least two, use knn_shapley.")
    if method in ("influence", "tracin"):
        return GradientAttributor(data.features, data.labels, data.owners, data.classes, method, ridge)
    works = tuple(sorted(set(data.owners)))
    if method == "shapley" and len(works) > RETRAINED_WORKS:
        raise InputError(
            f"There are {len(works)} works; exact shapley retrains 2**{len(works)} times, "
            f"so use at most {RETRAINED_WORKS}, or knn_shapley."
        )
    return CoalitionAttributor(works, retraining_utility(data, works, ridge), method, seed)


def retraining_utility(data: Training, works: Sequence[str], ridge: float):  # type: ignore[no-untyped-def]
    """Return ``(mask, outputs) -> (E,)`` log-likelihood of the outputs under a model trained on the works of the mask.

    Without any work it is that of the uniform guess.
    """
    owners = np.asarray(data.owners)

    def utility(mask: int, outputs: Outputs) -> NDArray[np.float64]:
        chosen = [name for index, name in enumerate(works) if mask >> index & 1]
        if not chosen:
            return np.full(len(outputs.event_ids), -np.log(data.classes))
        rows = np.isin(owners, chosen)
        weights = fit(data.features[rows], data.labels[rows], data.classes, ridge)
        return log_likelihood(weights, outputs.features, outputs.labels.astype(np.int64))

    return utility


def finish(scores: Scores, out: Path, report: Path | None) -> Outcome:
    """Write the scores and, where asked, the page; return what to say."""
    from workingpapers.foundations.report import paragraph, write_report
    from workingpapers.governance.data_royalties.reports import bars

    write_scores(out, scores)
    shares = scores.shares()
    without = int(np.sum(shares.sum(axis=1) == 0))
    mean = shares.mean(axis=0)
    order = np.argsort(-mean, kind="stable")
    rows = [[scores.works[index], float(mean[index]), float(scores.values[:, index].sum())] for index in order[:20]]
    table = Table(["work", "mean share", "sum of scores"], rows, title=f"Attribution by {scores.method}")
    figure = bars(
        {"mean share": dict(zip(scores.works, mean.tolist(), strict=True))}, "mean share of an output", table.title
    )
    summary = (
        f"Scored {counted(len(scores.works), 'work')} for {counted(len(scores.event_ids), 'output')} "
        f"by {scores.method}; {without} without any score above zero, whose pool goes where the policy sends it."
    )
    files = [out]
    if report:
        files.append(write_report(report, "Attribution of paid outputs", [paragraph(summary), figure, table]))
    data = {"method": scores.method, "shares": dict(zip(scores.works, mean.tolist(), strict=True)), "without": without}
    return Outcome(summary, [table], [figure], files, data)


def check_event_ids(event_ids: Sequence[str], path: Path) -> None:
    """Refuse ids that the journal cannot hold or that stand twice.

    Raises:
        InputError: Such an id is there.
    """
    seen: set[str] = set()
    for name in event_ids:
        identifier(name, "An event id")
        if name in seen:
            raise InputError(f"{str(path)!r} gives event {name!r} twice; keep one.")
        seen.add(name)


def _numbers(frame: pd.DataFrame, names: Sequence[str], path: Path) -> NDArray[np.float64]:
    for name in names:
        found = column(frame, name, path)
        if found.dtype.kind not in "ifb":
            raise InputError(
                f"Column {name!r} of {str(path)!r} is not numeric; features are numbers, leave others out."
            )
    values = frame[list(names)].to_numpy(np.float64)
    if not np.all(np.isfinite(values)):
        row, place = np.argwhere(~np.isfinite(values))[0]
        raise InputError(
            f"Column {names[place]!r} of {str(path)!r} has a missing or infinite value in data row {row + 1}."
        )
    return values
