r"""Exponential map, logarithm, parallel transport and mean from the discrete geodesic's optimality condition.

Three consecutive nodes of a discrete geodesic satisfy, with a multiplier :math:`\lambda`,

.. math:: \nabla_2 W(z_{k-1}, z_k) + \nabla_1 W(z_k, z_{k+1}) = J_\zeta(z_k)^\top \lambda, \qquad \zeta(z_{k+1}) = 0,

which, solved for :math:`z_{k+1}`, continues a geodesic. Velocities are tangent vectors v with
:math:`g(v, v)^{1/2} = K\,W(z_0, z_1)^{1/2}`, so that logarithm and exponential map with the same K are inverse.

References:
    F. Hartwig, J. Sassen, J. Braunsmann, M. Rumpf, B. Wirth, arXiv:2510.09468.
    M. Rumpf and B. Wirth, Variational time discretization of geodesic calculus, IMA J. Numer. Anal. 2015.
"""

from __future__ import annotations

import itertools
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from sklearn.exceptions import ConvergenceWarning
from torch import Tensor

from workingpapers.foundations.errors import InputError
from workingpapers.foundations.progress import Progress, silent

if TYPE_CHECKING:
    from workingpapers.sampling.latent_manifold.manifold import ImplicitManifold

ITERATIONS = 60
PRECISION = 1e-12


@dataclass(frozen=True)
class FrechetMean:
    """Mean of points on a manifold.

    Args:
        point: Shape (l,).
        variance: Mean squared distance to the points.
        gradient: Length of the mean logarithm, zero at a minimum.
        iterations: Steps taken.
        converged: Whether `gradient` fell below the tolerance.
    """

    point: Tensor
    variance: float
    gradient: float
    iterations: int
    converged: bool


def shoot(manifold: ImplicitManifold, first: Tensor, second: Tensor, segments: int) -> Tensor:
    """Return discrete geodesics continued from two nodes, shape (P, K + 1, l).

    Args:
        manifold: The manifold.
        first: Shape (P, l).
        second: Shape (P, l).
        segments: K.
    """
    nodes = [first, second]
    for _ in range(segments - 1):
        nodes.append(next_node(manifold, nodes[-2], nodes[-1]))
    return torch.stack(nodes, dim=1)


def next_node(manifold: ImplicitManifold, before: Tensor, current: Tensor) -> Tensor:
    """Return the node after two nodes of a discrete geodesic, shape (P, l), by Newton's method.

    Args:
        manifold: The manifold.
        before: Shape (P, l).
        current: Shape (P, l).

    Warns:
        ConvergenceWarning: The optimality condition could not be met.
    """
    metric, constraint = manifold.metric, manifold.constraint
    width = current.shape[-1]
    _, incoming = metric.gradients(before, current)
    normals = _reduced(manifold.frames(current), constraint.jacobian(current)).mT
    node = 2 * current - before
    multiplier = torch.zeros(*normals.shape[::2], dtype=node.dtype, device=node.device)
    for _ in range(ITERATIONS):
        outgoing, _ = metric.gradients(current, node)
        frames = manifold.frames(node)
        off = _reduced(frames, constraint(node)[..., None])[..., 0]
        imbalance = incoming + outgoing - (normals @ multiplier[..., None])[..., 0]
        left, right = metric.edge_jacobians(current, node)
        upper = torch.cat([-2 * left.mT @ right, -normals], dim=-1)
        jacobian = _reduced(frames, constraint.jacobian(node))
        lower = torch.cat([jacobian, jacobian.new_zeros(*jacobian.shape[:2], normals.shape[-1])], dim=-1)
        system = torch.cat([upper, lower], dim=-2)
        move = -(torch.linalg.pinv(system) @ torch.cat([imbalance, off], dim=-1)[..., None])[..., 0]
        node, multiplier = node + move[:, :width], multiplier + move[:, width:]
        if float(move[:, :width].abs().max()) < PRECISION * (1 + float(node.abs().max())):
            found: Tensor = node
            return found
    warnings.warn(
        f"The exponential map did not converge: the last step was {float(move[:, :width].abs().max()):.2g}; use more "
        "segments.",
        ConvergenceWarning,
        stacklevel=3,
    )
    return node


def first_node(manifold: ImplicitManifold, point: Tensor, velocity: Tensor, segments: int) -> Tensor:
    """Return the node z_1 of geodesics with given velocities, shape (P, l).

    Args:
        manifold: The manifold.
        point: z_0, shape (P, l).
        velocity: Shape (P, l); its part off the tangent space is dropped.
        segments: K.
    """
    basis = manifold.tangent(point)
    direction = (basis @ (basis.mT @ velocity[..., None]))[..., 0]
    wanted = _norm(manifold, point, direction) / segments
    scale = torch.full_like(wanted, 1 / segments)
    node = point
    for _ in range(ITERATIONS):
        node = _retract(manifold, point, scale[:, None] * direction, basis)
        reached = manifold.metric(point, node).clamp_min(0).sqrt()
        ratio = torch.where(reached > 0, wanted / reached.clamp_min(1e-300), 1.0)
        scale = scale * ratio
        if float((ratio - 1).abs().max()) < PRECISION:
            break
    return node


def exponential(manifold: ImplicitManifold, point: Tensor, velocity: Tensor, segments: int) -> Tensor:
    """Return the nodes of the geodesics with given start and velocity, shape (..., K + 1, l).

    Args:
        manifold: The manifold.
        point: Shape (l,) or (P, l).
        velocity: Like `point`.
        segments: K.

    Raises:
        InputError: Shapes differ or K is less than 1.
    """
    if point.shape != velocity.shape:
        raise InputError(f"point has shape {tuple(point.shape)} and velocity {tuple(velocity.shape)}; give the same.")
    if segments < 1:
        raise InputError(f"segments is {segments}; give at least 1.")
    flat, vector = (z.reshape(-1, z.shape[-1]).to(torch.float64) for z in (point, velocity))
    with torch.no_grad():
        path = shoot(manifold, flat, first_node(manifold, flat, vector, segments), segments)
    return path.reshape(*point.shape[:-1], *path.shape[1:])


def logarithm(manifold: ImplicitManifold, paths: Tensor) -> Tensor:
    """Return the initial velocities of geodesics, shape (..., l).

    Args:
        manifold: The manifold.
        paths: Nodes, shape (..., K + 1, l).
    """
    start, step = paths[..., 0, :], paths[..., 1, :] - paths[..., 0, :]
    flat, chord = start.reshape(-1, start.shape[-1]), step.reshape(-1, step.shape[-1])
    with torch.no_grad():
        basis = manifold.tangent(flat)
        direction = (basis @ (basis.mT @ chord[..., None]))[..., 0]
        speed = (paths.shape[-2] - 1) * manifold.metric(flat, flat + chord).clamp_min(0).sqrt()
        length = _norm(manifold, flat, direction)
        factor = torch.where(length > 0, speed / length.clamp_min(1e-300), 0.0)
    return (factor[:, None] * direction).reshape(start.shape)


def transport(manifold: ImplicitManifold, path: Tensor, vectors: Tensor) -> Tensor:
    r"""Carry tangent vectors parallel along a path by geodesic parallelograms (Schild's ladder).

    A rung from :math:`z_{k-1}` to p becomes a rung from :math:`z_k` to p': with c the discrete midpoint of p and
    :math:`z_k`, p' continues the geodesic from :math:`z_{k-1}` through c. The error is O(1/K).

    Args:
        manifold: The manifold.
        path: Nodes, shape (K + 1, l), K at least 1.
        vectors: At the first node, shape (m, l).

    Returns:
        Tangent vectors at the last node, shape (m, l).
    """
    with torch.no_grad():
        count = len(vectors)
        nodes = path.to(torch.float64)[:, None].expand(-1, count, -1)
        size = _norm(manifold, nodes[0], vectors.to(torch.float64))
        side = manifold.metric(path[:-1], path[1:]).sqrt().mean()
        rung = torch.where(size > 0, side / size.clamp_min(1e-300), 1.0)[:, None]
        corner = first_node(manifold, nodes[0], rung * vectors, 1)
        for before, after in itertools.pairwise(nodes):
            middle = manifold.project((corner + after) / 2)
            middle = manifold.minimise(torch.stack([corner, middle, after], dim=1)).paths[:, 1]
            corner = next_node(manifold, before, middle)
        return logarithm(manifold, torch.stack([nodes[-1], corner], dim=1)) / rung


def frechet_mean(
    manifold: ImplicitManifold,
    points: Tensor,
    segments: int = 8,
    *,
    weights: Tensor | None = None,
    iterations: int = 50,
    tolerance: float = 1e-6,
    starts: tuple[str, ...] | None = None,
    progress: Progress = silent,
) -> FrechetMean:
    r"""Return the point with the smallest mean squared distance to `points`.

    Iterates :math:`m \leftarrow \exp_m(\sum_i w_i \log_m z_i)` (Karcher), from the point nearest to the others.

    Args:
        manifold: The manifold.
        points: Shape (P, l), on the manifold.
        segments: K of the geodesics from the mean.
        weights: Positive, shape (P,); equal by default.
        iterations: Largest number of steps.
        tolerance: Of the mean logarithm's length, in units of the root mean squared distance.
        starts: Of the first geodesics, see :meth:`ImplicitManifold.geodesic`.
        progress: Called after each step.

    Warns:
        ConvergenceWarning: The mean logarithm did not fall below the tolerance.
    """
    points = points.to(torch.float64)
    share = torch.full((len(points),), 1.0, dtype=points.dtype) if weights is None else weights.to(points)
    share = share / share.sum()
    nearest = (torch.cdist(points, points).square() @ share).argmin()
    mean = points[nearest]
    paths = manifold.geodesic(mean.expand_as(points), points, segments, starts=starts).points
    with torch.no_grad():
        for step in range(1, iterations + 1):
            logs = logarithm(manifold, paths)
            move = (share[:, None] * logs).sum(0, keepdim=True)
            variance = float((share * _norm(manifold, mean.expand_as(points), logs) ** 2).sum())
            gradient = float(_norm(manifold, mean[None], move))
            converged = gradient <= tolerance * variance**0.5
            progress(step / iterations, f"mean logarithm {gradient:.2g}")
            if converged:
                break
            mean = first_node(manifold, mean[None], move, 1)[0]
            paths = torch.cat([mean.expand(len(points), 1, -1), paths[:, 1:]], dim=1)
            paths = manifold.minimise(paths).paths
    if not converged:
        warnings.warn(f"The mean did not converge: mean logarithm {gradient:.2g}.", ConvergenceWarning, stacklevel=3)
    return FrechetMean(mean, variance, gradient, step, converged)


def _retract(manifold: ImplicitManifold, point: Tensor, vector: Tensor, basis: Tensor) -> Tensor:
    """Return the code of the manifold whose tangent part, seen from `point`, is `vector`."""
    node = point + vector
    for _ in range(ITERATIONS):
        frames = manifold.frames(node)
        off = _reduced(frames, manifold.constraint(node)[..., None])
        drift = basis.mT @ (node - point - vector)[..., None]
        system = torch.cat([basis.mT, _reduced(frames, manifold.constraint.jacobian(node))], dim=-2)
        move = -(torch.linalg.pinv(system) @ torch.cat([drift, off], dim=-2))[..., 0]
        node = node + move
        if float(move.abs().max()) < PRECISION:
            break
    return node


def _norm(manifold: ImplicitManifold, point: Tensor, vector: Tensor) -> Tensor:
    """Return lengths of tangent vectors in the metric, shape (P,)."""
    squared: Tensor = torch.einsum("ni,nij,nj->n", vector, manifold.metric.tensor(point), vector)
    return squared.clamp_min(0).sqrt()


def _reduced(frames: Tensor | None, values: Tensor) -> Tensor:
    return values if frames is None else frames.mT @ values
