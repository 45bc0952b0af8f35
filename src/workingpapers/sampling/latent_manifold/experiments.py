"""Arms of the claims.

References:
    F. Hartwig, J. Sassen, J. Braunsmann, M. Rumpf, B. Wirth, arXiv:2510.09468.
"""

from __future__ import annotations

import warnings
from typing import Any

import torch
from sklearn.exceptions import ConvergenceWarning
from torch import Tensor

from workingpapers.foundations.progress import Progress, part, silent
from workingpapers.sampling.latent_manifold import benchmarks
from workingpapers.sampling.latent_manifold.manifold import ImplicitManifold
from workingpapers.sampling.latent_manifold.metrics import EuclideanMetric, PullbackMetric
from workingpapers.sampling.latent_manifold.projector import (
    NEIGHBOUR_SHARE,
    DenoisingProjector,
    automatic_sigma,
)
from workingpapers.sampling.latent_manifold.solver import SolverSettings, path_energy, path_length
from workingpapers.sampling.latent_manifold.starts import CodeGraph, slerp_path, straight_path

SIGMA = 0.05  # a quarter of the torus's reach
SEGMENTS = 24
NEIGHBOURS = (5, 8, 12, 20)
PROJECTIONS = 20
SMOOTHINGS = (3, 10, 30, 100)
FULL_FORMS: tuple[SolverSettings, ...] = (
    SolverSettings(penalty=1.0, outer=3, inner=40),
    *(SolverSettings(penalty=penalty, outer=1, inner=40) for penalty in (0.1, 1.0, 10.0)),
)


def learned_torus(seed: int, progress: Progress, *, path: str, codes: int, pairs: int) -> dict[str, float]:
    """Return the scores of one kind of path on a torus known by codes alone, kernel projector.

    Args:
        seed: Of codes and pairs.
        progress: Called along the way.
        path: Which arm.
        codes: N.
        pairs: P.
    """
    task = benchmarks.torus_task(seed, codes, pairs)
    best = benchmarks.best_energies(seed, codes, pairs, SEGMENTS)
    progress(0.3, "reference ready")
    projector = DenoisingProjector().fit(task.codes, sigma=SIGMA)
    if path == "k-NN graph":
        found = [
            benchmarks.torus_scores(graph_paths(task.codes, task.start, task.end, count), best) for count in NEIGHBOURS
        ]
        return min(found, key=lambda scores: scores["excess"])
    if path == "graph, smoothed":
        graph = graph_paths(task.codes, task.start, task.end, 8)
        found = [benchmarks.torus_scores(smoothed(projector, graph, rounds), best) for rounds in SMOOTHINGS]
        return min(found, key=lambda scores: scores["excess"])
    if path == "full":
        found = [
            benchmarks.torus_scores(_full_form(projector, task, settings, progress), best) for settings in FULL_FORMS
        ]
        return min(found, key=lambda scores: scores["excess"])
    return benchmarks.torus_scores(_torus_paths(projector, task, path, progress), best)


def exact_torus(seed: int, progress: Progress, *, path: str, pairs: int) -> dict[str, float]:
    """Return the mean energy of one kind of path on the torus given by its equation, 49 segments.

    Args:
        seed: Of the pairs.
        progress: Called along the way.
        path: Which arm.
        pairs: P.
    """
    segments = 49
    task = benchmarks.torus_task(seed, 2 * pairs, pairs)
    manifold = benchmarks.exact_torus()
    if path == "chart":
        energies = torch.tensor(benchmarks.best_energies(seed, 2 * pairs, pairs, segments), dtype=torch.float64)
        return {"energy": float(energies.mean())}
    if path in ("straight in the chart", "linear, projected"):
        if path == "linear, projected":
            paths = benchmarks.torus_projection(straight_path(task.start, task.end, segments))
        else:
            first, second = (torch.from_numpy(angles) for angles in task.angles)
            gap = torch.remainder(second - first + torch.pi, 2 * torch.pi) - torch.pi
            paths = benchmarks.torus_points(straight_path(first, first + gap, segments))
        return {"energy": float(path_energy(EuclideanMetric(), paths).mean())}
    names = ("jump",) if path == "one start" else ("jump", *["detour"] * 5)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        found = manifold.geodesic(task.start, task.end, segments, starts=names, seed=seed, progress=progress)
    return {
        "energy": float(found.energy.mean()),
        "converged": float(found.converged.double().mean()),
        "violation": float(found.violation.max()),
    }


def trained_torus(
    seed: int, progress: Progress, *, targets: str, codes: int, pairs: int, steps: int
) -> dict[str, float]:
    """Return the scores of geodesics on a torus learned by a network.

    Args:
        seed: Of codes, pairs and training.
        progress: Called along the way.
        targets: Of the training, or ``kernel`` for the exact projector.
        codes: N.
        pairs: P.
        steps: Training steps.
    """
    task = benchmarks.torus_task(seed, codes, pairs)
    best = benchmarks.best_energies(seed, codes, pairs, SEGMENTS)
    options: dict[str, Any] = {} if targets == "kernel" else {"method": "network", "targets": targets, "steps": steps}
    projector = DenoisingProjector(**options, learning_rate=5e-3, seed=seed)
    projector.fit(task.codes, sigma=SIGMA, progress=part(progress, 0.2, 0.7))
    paths = _torus_paths(projector, task, "reduced", part(progress, 0.7, 1))
    return {
        **benchmarks.torus_scores(paths, best),
        "contrast": projector.contrast_,
        "residual": projector.residual_,
        "dimension": float(projector.dimension_),
    }


def spurious(seed: int, progress: Progress, *, penalty: str, start: str, codes: int, pairs: int) -> dict[str, float]:
    """Return the scores where the solver may leave the torus: a small penalty, or a start off the codes.

    Args:
        seed: Of codes and pairs.
        progress: Called along the way.
        penalty: ``sigma`` for a penalty in units of sigma, ``small`` for 10 in units of the codes.
        start: ``graph`` or ``straight``.
        codes: N.
        pairs: P.
    """
    task = benchmarks.torus_task(seed, codes, pairs)
    best = benchmarks.best_energies(seed, codes, pairs, SEGMENTS)
    projector = DenoisingProjector().fit(task.codes, sigma=SIGMA)
    # Energies of these pairs are about 4, so that a penalty of 2.5 in units of the energy is 10.
    small = {
        "settings": SolverSettings(penalty=2.5, growth=2.0, penalty_max=3e4, outer=20, inner=30),
        "constraint_scale": 1.0,
    }
    options: dict[str, Any] = small if penalty == "small" else {}
    manifold = ImplicitManifold(projector, **options)
    return benchmarks.torus_scores(_geodesics(manifold, task.start, task.end, SEGMENTS, progress, (start,)), best)


def digit_paths(seed: int, progress: Progress, *, path: str, pairs: int, steps: int) -> dict[str, float]:
    """Return how near decoded paths between images of the same digit stay to training images.

    Args:
        seed: Of the autoencoder and the pairs.
        progress: Called along the way.
        path: Which arm.
        pairs: P.
        steps: Training steps of the autoencoder.
    """
    task = benchmarks.digits(seed, pairs, steps)
    progress(0.3, f"autoencoder trained, error {task.error:.3f}")
    # In 16 coordinates noise of one mean neighbour distance a coordinate is long already.
    projector = DenoisingProjector().fit(task.codes, sigma=automatic_sigma(task.codes) / NEIGHBOUR_SHARE)
    paths = digit_path(task, projector, path, part(progress, 0.4, 1))
    straight = straight_path(task.start, task.end, paths.shape[1] - 1)
    inner, plain = paths[:, 1:-1].flatten(0, 1), straight[:, 1:-1].flatten(0, 1)
    near = image_distance(task, inner).reshape(pairs, -1).mean(-1)
    residual = torch.linalg.vector_norm(projector.constraint_(inner), dim=-1).mean()
    linear = image_distance(task, plain).reshape(pairs, -1).mean(-1)
    return {
        "distance": float(near.mean()),
        "nearer_than_linear": float((near < linear).double().mean()),
        "residual": float(residual),
        "residual_ratio": float(residual / torch.linalg.vector_norm(projector.constraint_(plain), dim=-1).mean()),
        "decoded_energy": float(path_energy(PullbackMetric(task.decoder), paths).mean()),
        "dimension": float(projector.dimension_),
        "contrast": projector.contrast_,
    }


def digit_path(task: benchmarks.Digits, projector: DenoisingProjector, path: str, progress: Progress) -> Tensor:
    """Return one kind of path between codes of digits, 16 segments, shape (P, 17, 16).

    Args:
        task: Digits.
        projector: Fitted to their codes.
        path: Which arm.
        progress: Called along the way.
    """
    segments = 16
    if path == "linear":
        return straight_path(task.start, task.end, segments)
    if path == "spherical":
        return slerp_path(task.start, task.end, segments)
    if path == "linear, projected":
        return projected(projector, straight_path(task.start, task.end, segments))
    if path == "k-NN graph":
        return graph_paths(task.codes, task.start, task.end, 8, segments)
    metric = PullbackMetric(task.decoder) if path == "geodesic, decoded metric" else EuclideanMetric()
    return _geodesics(ImplicitManifold(projector, metric), task.start, task.end, segments, progress)


def digit_comparison(
    seed: int, pairs: int, steps: int, progress: Progress
) -> tuple[list[dict[str, Any]], list[list[Any]], float]:
    """Return decoded paths of each pair as images, a row of measures for each kind of path, and the coding error.

    Args:
        seed: Of the autoencoder and the pairs.
        pairs: P.
        steps: Training steps of the autoencoder.
        progress: Called along the way.
    """
    task = benchmarks.digits(seed, pairs, steps)
    progress(0.4, f"autoencoder trained, error {task.error:.3f}")
    projector = DenoisingProjector().fit(task.codes, sigma=automatic_sigma(task.codes) / NEIGHBOUR_SHARE)
    kinds = ("geodesic", "linear", "geodesic, decoded metric", "k-NN graph")
    paths = {kind: digit_path(task, projector, kind, silent) for kind in kinds}
    progress(0.9, "paths found")
    rows: list[list[Any]] = []
    for kind, found in paths.items():
        inner = found[:, 1:-1].flatten(0, 1)
        rows.append([
            kind,
            float(image_distance(task, inner).mean()),
            float(path_length(PullbackMetric(task.decoder), found).mean()),
            float(torch.linalg.vector_norm(projector.constraint_(inner), dim=-1).mean()),
        ])  # fmt: skip
    strips = [
        {kind: task.decoder(found[pair, ::2]).reshape(-1, 8, 8).numpy() for kind, found in paths.items()}
        for pair in range(pairs)
    ]
    return strips, rows, task.error


def image_distance(task: benchmarks.Digits, codes: Tensor) -> Tensor:
    """Return distances of decoded codes to the nearest training image, shape (n,).

    Args:
        task: Digits.
        codes: Shape (n, 16).
    """
    return torch.cdist(task.decoder(codes), task.images).amin(-1)


def graph_paths(codes: Tensor, start: Tensor, end: Tensor, neighbours: int, segments: int = SEGMENTS) -> Tensor:
    """Return shortest paths of the neighbourhood graph, more neighbours where it falls into pieces.

    Args:
        codes: Shape (N, l).
        start: Shape (P, l).
        end: Shape (P, l).
        neighbours: Edges to each code.
        segments: K.
    """
    return CodeGraph(codes, EuclideanMetric(), neighbours).paths(start, end, segments)


def projected(projector: DenoisingProjector, paths: Tensor) -> Tensor:
    """Return paths whose inner nodes are projected 20 times.

    Args:
        projector: Fitted.
        paths: Shape (P, K + 1, l).
    """
    paths = paths.clone()
    for _ in range(PROJECTIONS):
        paths[:, 1:-1] = projector.project(paths[:, 1:-1].flatten(0, 1)).reshape(paths[:, 1:-1].shape)
    return paths


def smoothed(projector: DenoisingProjector, paths: Tensor, rounds: int) -> Tensor:
    """Return paths shortened by averaging neighbours and projecting.

    Args:
        projector: Fitted.
        paths: Shape (P, K + 1, l).
        rounds: How often.
    """
    paths = paths.clone()
    for _ in range(rounds):
        middle = (paths[:, :-2] + 2 * paths[:, 1:-1] + paths[:, 2:]) / 4
        paths[:, 1:-1] = projector.project(middle.flatten(0, 1)).reshape(middle.shape)
    return paths


def _torus_paths(projector: DenoisingProjector, task: benchmarks.TorusTask, path: str, progress: Progress) -> Tensor:
    if path == "linear":
        return straight_path(task.start, task.end, SEGMENTS)
    if path == "linear, projected":
        return projected(projector, straight_path(task.start, task.end, SEGMENTS))
    # The dimension is told, so that a network that sees no manifold is judged by its paths and not by a straight line.
    return _geodesics(ImplicitManifold(projector, dimension=2), task.start, task.end, SEGMENTS, progress)


def _full_form(
    projector: DenoisingProjector, task: benchmarks.TorusTask, settings: SolverSettings, progress: Progress
) -> Tensor:
    manifold = ImplicitManifold(projector, normal_reduction=False, settings=settings)
    return _geodesics(manifold, task.start, task.end, SEGMENTS, progress)


def _geodesics(
    manifold: ImplicitManifold,
    start: Tensor,
    end: Tensor,
    segments: int,
    progress: Progress,
    starts: tuple[str, ...] = ("graph",),
) -> Tensor:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # arms are judged by their scores
        manifold.end_tolerance = torch.inf  # the ends are codes
        return manifold.geodesic(start, end, segments, starts=starts, progress=progress).points
