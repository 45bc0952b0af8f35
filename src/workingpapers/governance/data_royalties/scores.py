"""The one interface of attribution: outputs in, a score for every output and work out."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from workingpapers.foundations.files import whole_file
from workingpapers.governance.data_royalties.money import UNATTRIBUTED

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Outputs:
    """What is to be explained.

    Args:
        event_ids: The paid events, E of them.
        features: (E, d) float64, the inputs or embeddings.
        labels: (E,) integers or floats, what the model answered.
    """

    event_ids: Sequence[str]
    features: Floats
    labels: NDArray[np.generic]


@dataclass(frozen=True)
class Scores:
    """Attribution of E outputs to W works.

    Args:
        event_ids: The outputs.
        works: The works.
        values: (E, W) float64 in the unit of the method's utility.
        method: Name and settings of the method.
        stderr: (E, W) standard errors, where the method has them.
        residual: (E,) what no work explains, where the method has it.
    """

    event_ids: Sequence[str]
    works: Sequence[str]
    values: Floats
    method: str
    stderr: Floats | None = None
    residual: Floats | None = field(default=None)

    def shares(self) -> Floats:
        """Return (E, W) float64: scores cut off at zero and divided by their sum (zero rows stay zero)."""
        positive = np.maximum(self.values, 0.0)
        total = positive.sum(axis=1, keepdims=True)
        shares: Floats = np.divide(positive, total, out=np.zeros_like(positive), where=total > 0)
        return shares


class Attributor(Protocol):
    """A way to say which works an output owes to. Anything with these two members will do."""

    @property
    def method(self) -> str:
        """Name and settings, for the journal."""

    def attribute(self, outputs: Outputs) -> Scores:
        """Return the scores of `outputs`."""


def sum_by_work(values: Floats, owners: Sequence[str]) -> tuple[list[str], Floats]:
    """Add up point scores by work: additive methods let a work, and a provider, be scored by its points.

    Args:
        values: (E, n) scores of n training points.
        owners: The work of each point.

    Returns:
        The works in order of name, and (E, W) sums.
    """
    works, index = np.unique(np.asarray(owners, dtype=object).astype(str), return_inverse=True)
    sums = np.zeros((values.shape[0], len(works)))
    np.add.at(sums.T, index, values.T)
    return [str(work) for work in works], sums


def write_scores(path: Path, scores: Scores) -> None:
    """Write `scores` as CSV: event_id, work, score and, where known, stderr; without zeros, the residual as ``-``."""
    with whole_file(path, newline="") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(["event_id", "work", "score", *(["stderr"] if scores.stderr is not None else [])])
        for row, event_id in enumerate(scores.event_ids):
            for column, work in enumerate(scores.works):
                value = float(scores.values[row, column])
                error = [repr(float(scores.stderr[row, column]))] if scores.stderr is not None else []
                if value or (error and float(error[0])):
                    writer.writerow([event_id, work, repr(value), *error])
            if scores.residual is not None and scores.residual[row]:
                residual = [event_id, UNATTRIBUTED, repr(float(scores.residual[row]))]
                writer.writerow(residual + (["0.0"] if scores.stderr is not None else []))
