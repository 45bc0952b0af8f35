"""Everything that the command computes."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass

import numpy as np
import torch
from scipy.spatial import cKDTree
from sklearn.exceptions import ConvergenceWarning

from workingpapers.foundations.progress import Progress, part
from workingpapers.sampling.latent_manifold.manifold import ImplicitManifold
from workingpapers.sampling.latent_manifold.metrics import EuclideanMetric
from workingpapers.sampling.latent_manifold.projector import DenoisingProjector
from workingpapers.sampling.latent_manifold.solver import path_length
from workingpapers.sampling.latent_manifold.starts import straight_path

SWEEP = (0.5, 1.0, 2.0)


@dataclass(frozen=True)
class Analysis:
    """Paths between codes and what is known about them.

    Args:
        points: Geodesics, shape (P, K + 1, l).
        straight: Straight lines, shape (P, K + 1, l).
        energy: Shape (P,), like the following.
        length: Of the geodesics.
        straight_length: Of the straight lines.
        graph_length: Of the graph's shortest paths.
        far: Largest distance of a node to the nearest code.
        straight_far: The same for the straight lines.
        residual: Mean norm of zeta at the inner nodes.
        violation: Largest constraint value.
        converged: Whether the solver met its tolerances.
        start_names: Which start gave each path.
        sigma: Noise of the projector.
        dimension: Intrinsic dimension.
        width: l.
        contrast: Of the projector.
        sweep: Rows (sigma, dimension, residual, contrast).
    """

    points: np.ndarray
    straight: np.ndarray
    energy: np.ndarray
    length: np.ndarray
    straight_length: np.ndarray
    graph_length: np.ndarray
    far: np.ndarray
    straight_far: np.ndarray
    residual: np.ndarray
    violation: np.ndarray
    converged: np.ndarray
    start_names: list[str]
    sigma: float
    dimension: int
    width: int
    contrast: float
    sweep: list[list[float | int | None]]


def analyse(
    codes: np.ndarray,
    ends: np.ndarray,
    *,
    segments: int,
    sigma: float | None,
    method: str,
    steps: int,
    neighbours: int,
    detours: int,
    seed: int,
    progress: Progress,
) -> Analysis:
    """Fit the projector, find the paths and measure them.

    Args:
        codes: Shape (N, l).
        ends: Rows of the codes, shape (P, 2).
        segments: K.
        sigma: Noise, or None.
        method: Of the projector.
        steps: Of its training.
        neighbours: Of the graph.
        detours: Number of further starts.
        seed: Of detours and training.
        progress: Called along the way.
    """
    projector = DenoisingProjector(method=method, steps=steps, seed=seed)  # type: ignore[arg-type]
    projector.fit(codes, sigma="auto" if sigma is None else sigma, progress=part(progress, 0, 0.5))
    manifold = ImplicitManifold(projector, end_tolerance=math.inf, neighbours=neighbours)
    rows = torch.from_numpy(codes)
    start, end = rows[ends[:, 0]], rows[ends[:, 1]]
    graph = manifold.graph.paths(start, end, segments)
    progress(0.55, "graph paths found")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the report has a column for it
        found = manifold.geodesic(
            start,
            end,
            segments,
            starts=("graph", *["detour"] * detours),
            seed=seed,
            progress=part(progress, 0.55, 0.95),
        )
    straight = straight_path(start, end, segments)
    tree = cKDTree(codes)
    metric = EuclideanMetric()
    return Analysis(
        points=found.points.numpy(),
        straight=straight.numpy(),
        energy=found.energy.numpy(),
        length=found.length.numpy(),
        straight_length=path_length(metric, straight).numpy(),
        graph_length=path_length(metric, graph).numpy(),
        far=tree.query(found.points.numpy())[0].max(axis=1),
        straight_far=tree.query(straight.numpy())[0].max(axis=1),
        residual=found.residual.numpy(),
        violation=found.violation.numpy(),
        converged=found.converged.numpy(),
        start_names=[found.start_names[int(k)] for k in found.start],
        sigma=projector.sigma_,
        dimension=projector.dimension_,
        width=codes.shape[1],
        contrast=projector.contrast_,
        sweep=_sweep(codes, projector.sigma_),
    )


def _sweep(codes: np.ndarray, sigma: float) -> list[list[float | int | None]]:
    rows: list[list[float | int | None]] = []
    for factor in SWEEP:
        tried = DenoisingProjector().fit(codes, sigma=factor * sigma)
        contrast = None if math.isnan(tried.contrast_) else tried.contrast_
        rows.append([tried.sigma_, tried.dimension_, tried.residual_, contrast])
    return rows
