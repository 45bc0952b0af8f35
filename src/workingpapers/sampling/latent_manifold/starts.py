"""Initial paths: a jump, a straight line, shortest paths through the codes, and detours past random codes.

References:
    J. B. Tenenbaum, V. de Silva, J. C. Langford, Science 290 (2000): geodesics of a neighbourhood graph.
"""

from __future__ import annotations

import numpy as np
import torch
from scipy.sparse import coo_matrix, csr_matrix
from scipy.sparse.csgraph import connected_components, dijkstra
from scipy.spatial import cKDTree
from torch import Tensor

from workingpapers.foundations.errors import InputError
from workingpapers.sampling.latent_manifold.metrics import Metric


def straight_path(start: Tensor, end: Tensor, segments: int) -> Tensor:
    """Return linear interpolations, shape (P, K + 1, l).

    Args:
        start: Shape (P, l).
        end: Shape (P, l).
        segments: K.
    """
    time = torch.linspace(0, 1, segments + 1, dtype=start.dtype, device=start.device)[:, None]
    return (1 - time) * start[:, None] + time * end[:, None]


def jump_path(start: Tensor, end: Tensor, segments: int) -> Tensor:
    """Return paths that stay at the start for half of the nodes and then at the end, shape (P, K + 1, l).

    Args:
        start: Shape (P, l).
        end: Shape (P, l).
        segments: K.
    """
    first = torch.arange(segments + 1, device=start.device) < (segments + 1) / 2
    return torch.where(first[:, None], start[:, None], end[:, None])


def slerp_path(start: Tensor, end: Tensor, segments: int) -> Tensor:
    """Return spherical interpolations, whose length is interpolated too, shape (P, K + 1, l).

    Args:
        start: Shape (P, l), not zero.
        end: Shape (P, l), not zero.
        segments: K.
    """
    time = torch.linspace(0, 1, segments + 1, dtype=start.dtype, device=start.device)[:, None]
    radius_a, radius_b = (torch.linalg.vector_norm(z, dim=-1)[:, None, None] for z in (start, end))
    a, b = start[:, None] / radius_a, end[:, None] / radius_b
    angle = torch.arccos((a * b).sum(-1, keepdim=True).clamp(-1, 1)).clamp_min(1e-9)
    directions = (torch.sin((1 - time) * angle) * a + torch.sin(time * angle) * b) / torch.sin(angle)
    found: Tensor = ((1 - time) * radius_a + time * radius_b) * directions
    return found


class CodeGraph:
    """Neighbourhood graph of codes, edges as long as the metric says.

    Args:
        codes: Shape (N, l).
        metric: Local squared distance W; an edge has the length sqrt(W).
        neighbours: Edges to each code.
    """

    def __init__(self, codes: Tensor, metric: Metric, neighbours: int = 8) -> None:
        self.codes = codes
        self.metric = metric
        self.neighbours = min(neighbours, len(codes) - 1)
        self._tree = cKDTree(codes.cpu().numpy())
        _, found = self._tree.query(codes.cpu().numpy(), k=self.neighbours + 1)
        self._rows = np.repeat(np.arange(len(codes)), self.neighbours)
        self._columns = found[:, 1:].reshape(-1)
        self._lengths = self._measure(codes[self._rows], codes[self._columns])

    def paths(self, start: Tensor, end: Tensor, segments: int, via: Tensor | None = None) -> Tensor:
        """Return shortest paths, resampled at equal lengths, shape (P, K + 1, l).

        Args:
            start: Shape (P, l).
            end: Shape (P, l).
            segments: K.
            via: Numbers of codes that the paths must pass, shape (P,), or None.

        Raises:
            InputError: No path joins two ends.
        """
        size, count = len(self.codes), len(start)
        points = torch.cat([self.codes, start, end])
        graph = self._with_ends(start, end, leave_start=via is None)
        if via is None:
            _, before = dijkstra(graph, indices=range(size, size + count), return_predecessors=True)
            walks = [_walk(row, size + count + k) for k, row in enumerate(before)]
        else:
            _, before = dijkstra(graph, indices=via.tolist(), return_predecessors=True)
            walks = [_walk(row, size + k)[::-1] + _walk(row, size + count + k)[1:] for k, row in enumerate(before)]
        found = []
        for k, walk in enumerate(walks):
            if walk[0] != size + k or walk[-1] != size + count + k:
                pieces, _ = connected_components(self._graph(), directed=False)
                raise InputError(
                    f"The graph of {self.neighbours} neighbours falls into {pieces} pieces and joins no path between "
                    f"the ends of pair {k + 1}; use more neighbours, or ends of the same piece."
                )
            found.append(resample(points[walk], self.metric, segments))
        return torch.stack(found)

    def _measure(self, x: Tensor, y: Tensor) -> np.ndarray:
        with torch.no_grad():
            values = torch.cat(
                [self.metric(a, b) for a, b in zip(torch.split(x, 4096), torch.split(y, 4096), strict=True)]
            )
        lengths: np.ndarray = values.clamp_min(0).sqrt().cpu().numpy()
        lengths[lengths == 0] = 1e-300  # a zero would be no edge
        return lengths

    def _graph(self) -> csr_matrix:
        size = len(self.codes)
        one_way = coo_matrix((self._lengths, (self._rows, self._columns)), shape=(size, size)).tocsr()
        return one_way.maximum(one_way.T)

    def _with_ends(self, start: Tensor, end: Tensor, leave_start: bool) -> csr_matrix:
        """Return the graph with ends that can only be left or only be reached, so that no pair uses another's."""
        size, ends = len(self.codes), torch.cat([start, end])
        _, near = self._tree.query(ends.cpu().numpy(), k=self.neighbours)
        near = near.reshape(len(ends), -1)
        outer = np.repeat(np.arange(size, size + len(ends)), near.shape[1])
        lengths = self._measure(ends[outer - size], self.codes[near.reshape(-1)])
        leaving = (outer < size + len(start)) & leave_start
        rows, columns = np.where(leaving, outer, near.reshape(-1)), np.where(leaving, near.reshape(-1), outer)
        inner = self._graph().tocoo()
        data = np.concatenate([inner.data, lengths])
        where = (np.concatenate([inner.row, rows]), np.concatenate([inner.col, columns]))
        return coo_matrix((data, where), shape=(size + len(ends),) * 2).tocsr()


def resample(points: Tensor, metric: Metric, segments: int) -> Tensor:
    """Return a polygon's points at equal lengths of the metric, shape (K + 1, l).

    Args:
        points: Corners, shape (m, l).
        metric: W, whose square root measures the sides.
        segments: K.
    """
    lengths = metric(points[:-1], points[1:]).clamp_min(0).sqrt()
    reached = torch.cat([lengths.new_zeros(1), lengths.cumsum(0)])
    wanted = torch.linspace(0, 1, segments + 1, dtype=points.dtype, device=points.device) * reached[-1]
    right = torch.searchsorted(reached, wanted).clamp(1, len(points) - 1)
    left = right - 1
    share = ((wanted - reached[left]) / (reached[right] - reached[left]).clamp_min(1e-300)).clamp(0, 1)[:, None]
    return (1 - share) * points[left] + share * points[right]


def _walk(before: np.ndarray, node: int) -> list[int]:
    path = [node]
    while before[path[-1]] >= 0:
        path.append(int(before[path[-1]]))
    return path[::-1]
