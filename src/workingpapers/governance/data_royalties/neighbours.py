"""KNN-Shapley: the exact Shapley value of every training point for a nearest-neighbour model, in n log n."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from workingpapers.governance.data_royalties.scores import Outputs, Scores, sum_by_work

Floats = NDArray[np.float64]


def knn_shapley(
    features: Floats, labels: NDArray[np.generic], outputs: Floats, answers: NDArray[np.generic], neighbours: int = 5
) -> Floats:
    r"""Return the Shapley value of every training point for every output.

    The utility of a set is the number of right labels among its K nearest points (or as many as it has), over K. Points
    sorted by distance, farthest last,

    .. math::
        s_{(n)} = \frac{1[y_{(n)}=y]\,\min(K,n)}{nK},\qquad
        s_{(i)} = s_{(i+1)} + \frac{1[y_{(i)}=y] - 1[y_{(i+1)}=y]}{K}\,\frac{\min(K,i)}{i} .

    Args:
        features: (n, d) training points.
        labels: (n,) their labels.
        outputs: (E, d) outputs.
        answers: (E,) their labels.
        neighbours: K.

    Returns:
        (E, n) float64; a row sums to the utility of all points, since that of none is zero.

    References:
        Jia et al., arXiv 1908.08619.
    """
    count = len(features)
    ranks = np.arange(1, count)
    weight = np.minimum(neighbours, ranks) / ranks / neighbours
    found = np.empty((len(outputs), count))
    squares = np.einsum("ij,ij->i", features, features)
    for row in range(len(outputs)):
        order = np.argsort(squares - 2.0 * features @ outputs[row], kind="stable")
        match = (labels[order] == answers[row]).astype(np.float64)
        last = match[-1] * min(neighbours, count) / (count * neighbours)
        steps = (match[:-1] - match[1:]) * weight
        found[row, order] = last + np.append(np.cumsum(steps[::-1])[::-1], 0.0)
    return found


@dataclass(frozen=True)
class NeighbourAttributor:
    """KNN-Shapley over embeddings, summed by work.

    Args:
        features: (n, d) training points.
        labels: (n,) their labels.
        owners: The work of each point.
        neighbours: K.
    """

    features: Floats
    labels: NDArray[np.generic]
    owners: Sequence[str]
    neighbours: int = 5

    @property
    def method(self) -> str:
        """Name and settings, for the journal."""
        return f"knn_shapley (K={self.neighbours})"

    def attribute(self, outputs: Outputs) -> Scores:
        """Return the scores of `outputs`, one block of rows at a time."""
        blocks = []
        works: list[str] = []
        for start in range(0, len(outputs.event_ids), 256):
            rows = slice(start, start + 256)
            points = knn_shapley(
                self.features, self.labels, outputs.features[rows], outputs.labels[rows], self.neighbours
            )
            works, sums = sum_by_work(points, self.owners)
            blocks.append(sums)
        return Scores(outputs.event_ids, works, np.concatenate(blocks), self.method)
