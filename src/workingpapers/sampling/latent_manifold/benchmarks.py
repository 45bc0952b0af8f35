"""Data with known answers for the claims: a torus, and autoencoded digits.

References:
    F. Hartwig, J. Sassen, J. Braunsmann, M. Rumpf, B. Wirth, arXiv:2510.09468: the torus with radii 0.8 and 0.2.
"""

from __future__ import annotations

import functools
import itertools
import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from workingpapers.sampling.latent_manifold.constraints import torus
from workingpapers.sampling.latent_manifold.manifold import ImplicitManifold
from workingpapers.sampling.latent_manifold.metrics import EuclideanMetric
from workingpapers.sampling.latent_manifold.solver import path_energy

MAJOR, MINOR = 0.8, 0.2
WINDINGS = tuple(itertools.product((-1, 0, 1), repeat=2))


@dataclass(frozen=True)
class TorusTask:
    """Codes on the torus and pairs of them.

    Args:
        codes: Shape (N, 3).
        angles: Of the ends, shape (2, P, 2).
        start: Shape (P, 3).
        end: Shape (P, 3).
    """

    codes: Tensor
    angles: np.ndarray
    start: Tensor
    end: Tensor


def torus_points(angles: Tensor) -> Tensor:
    """Return points of the torus, shape (..., 3).

    Args:
        angles: Around the core and around the tube, shape (..., 2).
    """
    around, tube = angles[..., 0], angles[..., 1]
    ring = MAJOR + MINOR * torch.cos(tube)
    return torch.stack([ring * torch.cos(around), ring * torch.sin(around), MINOR * torch.sin(tube)], dim=-1)


def torus_depth(points: Tensor) -> Tensor:
    """Return distances to the torus, shape (...).

    Args:
        points: Shape (..., 3).
    """
    ring = torch.hypot(points[..., 0], points[..., 1]) - MAJOR
    return (torch.hypot(ring, points[..., 2]) - MINOR).abs()


def torus_projection(points: Tensor) -> Tensor:
    """Return nearest points of the torus, shape (..., 3).

    Args:
        points: Shape (..., 3), off the axis and the core circle.
    """
    around = torch.atan2(points[..., 1], points[..., 0])
    ring = torch.hypot(points[..., 0], points[..., 1]) - MAJOR
    return torus_points(torch.stack([around, torch.atan2(points[..., 2], ring)], dim=-1))


@functools.lru_cache(maxsize=32)
def torus_task(seed: int, codes: int, pairs: int) -> TorusTask:
    """Return codes with uniform angles and random pairs among them.

    Args:
        seed: Of everything.
        codes: N.
        pairs: P.
    """
    generator = torch.Generator().manual_seed(seed)
    angles = 2 * math.pi * torch.rand(codes, 2, generator=generator, dtype=torch.float64)
    chosen = torch.randperm(codes, generator=generator)[: 2 * pairs].reshape(2, pairs)
    points = torus_points(angles)
    return TorusTask(points, angles[chosen].numpy(), points[chosen[0]], points[chosen[1]])


def chart_geodesic(start: np.ndarray, end: np.ndarray, segments: int) -> float:
    """Return the smallest energy that L-BFGS in the angles finds from straight starts of nine windings.

    Args:
        start: Angles, shape (2,).
        end: Angles, shape (2,).
        segments: K.
    """
    from scipy.optimize import minimize

    time = np.linspace(0, 1, segments + 1)[:, None]

    def evaluate(flat: np.ndarray, goal: np.ndarray) -> tuple[float, np.ndarray]:
        u, v = np.vstack([start, flat.reshape(-1, 2), goal]).T
        ring = MAJOR + MINOR * np.cos(v)
        points = np.stack([ring * np.cos(u), ring * np.sin(u), MINOR * np.sin(v)], axis=1)
        steps = np.diff(points, axis=0)
        force = 2 * segments * (steps[:-1] - steps[1:])
        u, v, ring = u[1:-1], v[1:-1], ring[1:-1]
        slope_u = ring * (-np.sin(u) * force[:, 0] + np.cos(u) * force[:, 1])
        inward = np.cos(u) * force[:, 0] + np.sin(u) * force[:, 1]
        slope_v = MINOR * (np.cos(v) * force[:, 2] - np.sin(v) * inward)
        return segments * float((steps**2).sum()), np.stack([slope_u, slope_v], axis=1).reshape(-1)

    energies = []
    for winding in WINDINGS:
        goal = end + 2 * math.pi * np.array(winding)
        first = ((1 - time) * start + time * goal)[1:-1].reshape(-1)
        found = minimize(evaluate, first, args=(goal,), jac=True, method="L-BFGS-B", options={"maxiter": 5000})
        energies.append(float(found.fun))
    return min(energies)


@functools.lru_cache(maxsize=64)
def best_energies(seed: int, codes: int, pairs: int, segments: int) -> tuple[float, ...]:
    """Return the energies of the shortest discrete geodesics of a task, by the chart solver.

    Args:
        seed: Of the task.
        codes: N.
        pairs: P.
        segments: K.
    """
    first, second = torus_task(seed, codes, pairs).angles
    return tuple(chart_geodesic(a, b, segments) for a, b in zip(first, second, strict=True))


def torus_scores(paths: Tensor, best: tuple[float, ...]) -> dict[str, float]:
    """Return the judged figures of paths: excess energy after exact projection on the torus, depths, raw energy.

    Args:
        paths: Shape (P, K + 1, 3).
        best: Energies of the shortest geodesics, P of them.
    """
    metric = EuclideanMetric()
    ratio = path_energy(metric, torus_projection(paths)) / torch.tensor(best, dtype=torch.float64)
    depth = torus_depth(paths)
    return {
        "excess": float(ratio.mean()) - 1,
        "worst_excess": float(ratio.max()) - 1,
        "max_depth": float(depth.amax(-1).mean()),
        "mean_depth": float(depth.mean()),
        "energy": float(path_energy(metric, paths).mean()),
    }


def exact_torus() -> ImplicitManifold:
    """Return the torus as an exact constraint."""
    return ImplicitManifold(torus(MAJOR, MINOR))


@dataclass(frozen=True)
class Digits:
    """Autoencoded digits.

    Args:
        images: Training images in [0, 1], shape (N, 64), float64.
        codes: Shape (N, 16).
        decoder: From codes to images, float64.
        start: Codes, shape (P, 16).
        end: Codes of the same digits, shape (P, 16).
        error: Root mean squared reconstruction error of a pixel.
    """

    images: Tensor
    codes: Tensor
    decoder: nn.Module
    start: Tensor
    end: Tensor
    error: float


@functools.lru_cache(maxsize=4)
def digits(seed: int, pairs: int, steps: int) -> Digits:
    """Train an autoencoder 64-128-16-128-64 on scikit-learn's digits and choose pairs of the same digit.

    Args:
        seed: Of weights, batches and pairs.
        pairs: P.
        steps: Training steps of 128 images.
    """
    from sklearn.datasets import load_digits

    data, labels = load_digits(return_X_y=True)
    images = torch.tensor(data / 16, dtype=torch.float32)
    generator = torch.Generator().manual_seed(seed)
    encoder = nn.Sequential(nn.Linear(64, 128), nn.ELU(), nn.Linear(128, 16))
    decoder = nn.Sequential(nn.Linear(16, 128), nn.ELU(), nn.Linear(128, 64), nn.Sigmoid())
    for layer in (*encoder, *decoder):
        if isinstance(layer, nn.Linear):
            nn.init.kaiming_uniform_(layer.weight, a=1.0, generator=generator)
            nn.init.zeros_(layer.bias)
    optimizer = torch.optim.Adam([*encoder.parameters(), *decoder.parameters()], lr=2e-3)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    for _ in range(steps):
        batch = images[torch.randint(len(images), (128,), generator=generator)]
        loss = (decoder(encoder(batch)) - batch).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
    with torch.no_grad():
        codes = encoder(images).double()
        error = float((decoder(codes.float()) - images).square().mean().sqrt())
    first = torch.randperm(len(images), generator=generator)[:pairs]
    second = []
    for row in first.tolist():
        same = torch.from_numpy(np.flatnonzero(labels == labels[row]))
        same = same[same != row]
        second.append(int(same[torch.randint(len(same), (1,), generator=generator)]))
    return Digits(
        images.double(), codes, decoder.double().eval().requires_grad_(False), codes[first], codes[second], error
    )
