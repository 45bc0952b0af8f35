r"""Geodesics on an implicit manifold: interpolation, distance, logarithm, exponential map, transport, mean.

A discrete geodesic minimises :math:`E^K = K \sum_k W(z_{k-1}, z_k)` over nodes with :math:`\zeta(z_k) = 0`. The other
operations follow from its optimality condition, see :mod:`~workingpapers.sampling.latent_manifold.calculus`.

References:
    F. Hartwig, J. Sassen, J. Braunsmann, M. Rumpf, B. Wirth, arXiv:2510.09468.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch
from sklearn.exceptions import ConvergenceWarning
from torch import Tensor

from workingpapers.foundations.errors import InputError
from workingpapers.foundations.progress import Progress, part, silent
from workingpapers.sampling.latent_manifold import calculus
from workingpapers.sampling.latent_manifold import starts as initial
from workingpapers.sampling.latent_manifold.constraints import Constraint, FunctionConstraint, normal_frames, project
from workingpapers.sampling.latent_manifold.geodesics import Geodesics
from workingpapers.sampling.latent_manifold.metrics import EuclideanMetric, Metric
from workingpapers.sampling.latent_manifold.projector import DenoisingProjector, check_codes
from workingpapers.sampling.latent_manifold.solver import (
    Problem,
    Solution,
    SolverSettings,
    path_energy,
    path_length,
    solve,
)

EXACT = SolverSettings(penalty=100.0, growth=100.0, penalty_max=1e12)
LEARNED = SolverSettings()
STARTS = ("graph", "jump", "straight", "detour")


class ImplicitManifold:
    r"""A manifold :math:`\{\zeta = 0\}` of codes with a metric.

    Args:
        constraint: :math:`\zeta`: a fitted :class:`DenoisingProjector`, a :class:`Constraint`, or a function from codes
            (n, l) to residuals (n, c).
        metric: Local squared distance; flat by default.
        codes: Codes for graph starts, shape (N, l); those of a projector by default.
        dimension: Intrinsic dimension d. Needed for the normal reduction of functions with more components than
            normals; a projector knows its own.
        normal_reduction: Whether only the l - d leading left singular vectors of the Jacobian are constrained. By
            default for projectors.
        constraint_scale: Unit of :math:`\zeta`: a single node that far off costs (penalty / 2) times the energy
            scale. Sigma for projectors, else 1.
        end_tolerance: Largest :math:`|\zeta|` of an end.
        neighbours: Edges to each code of the graph.
        settings: Of the solver.

    Raises:
        InputError: A setting contradicts the constraint.

    References:
        Hartwig et al., arXiv:2510.09468.
    """

    def __init__(
        self,
        constraint: DenoisingProjector | Constraint | Callable[[Tensor], Tensor],
        metric: Metric | None = None,
        *,
        codes: Tensor | None = None,
        dimension: int | None = None,
        normal_reduction: bool | None = None,
        constraint_scale: float | None = None,
        end_tolerance: float | None = None,
        neighbours: int = 8,
        settings: SolverSettings | None = None,
    ) -> None:
        learned = isinstance(constraint, DenoisingProjector)
        if isinstance(constraint, DenoisingProjector):
            if not hasattr(constraint, "constraint_"):
                raise InputError("The projector is not fitted; call fit(codes) first.")
            codes = constraint.codes_ if codes is None else codes
            dimension = constraint.dimension_ if dimension is None else dimension
            constraint_scale = constraint.sigma_ if constraint_scale is None else constraint_scale
            self.constraint: Constraint = constraint.constraint_
        else:
            self.constraint = constraint if isinstance(constraint, Constraint) else FunctionConstraint(constraint)
        self.metric = EuclideanMetric() if metric is None else metric
        self.codes = None if codes is None else check_codes(codes)
        self.dimension = dimension
        self.normal_reduction = learned if normal_reduction is None else normal_reduction
        self.constraint_scale = 1.0 if constraint_scale is None else constraint_scale
        self.settings = settings or (LEARNED if learned else EXACT)
        if isinstance(constraint, DenoisingProjector) and not self.normal_reduction and settings is None:
            # All l components vanish together nowhere: the level on the codes is the best that can be asked for.
            floor = constraint.residual_ / constraint.sigma_
            self.settings = replace(LEARNED, constraint_tolerance=floor, penalty_max=1e4)
        self.neighbours = neighbours
        self._graph: initial.CodeGraph | None = None
        if self.normal_reduction and dimension is None:
            raise InputError("normal_reduction needs the intrinsic dimension; give dimension.")
        if end_tolerance is None:
            end_tolerance = 1e-5 * self.constraint_scale
            if learned and self.codes is not None:
                end_tolerance = 1.5 * float(self._residual_norm(self.codes[:: max(1, len(self.codes) // 2048)]).max())
        self.end_tolerance = end_tolerance

    @property
    def graph(self) -> initial.CodeGraph:
        """The neighbourhood graph of the codes, made when first used."""
        if self._graph is None:
            if self.codes is None:
                raise InputError("A graph start needs codes; give codes, or choose the start 'jump' or 'straight'.")
            self._graph = initial.CodeGraph(self.codes, self.metric, self.neighbours)
        return self._graph

    def normals(self, width: int) -> int:
        """Return the number of normal directions l - d, for codes with `width` coordinates."""
        if self.dimension is not None:
            return max(0, width - self.dimension)
        probe = torch.zeros(1, width, dtype=torch.float64)
        return min(width, int(self.constraint(probe).shape[-1]))

    def project(self, z: Tensor) -> Tensor:
        """Return the codes, shape (..., l), moved onto the manifold along its normals (Gauss-Newton)."""
        flat = z.reshape(-1, z.shape[-1]).to(torch.float64)
        with torch.no_grad():
            return project(self.constraint, flat, self.normals(z.shape[-1])).reshape(z.shape)

    def frames(self, z: Tensor) -> Tensor | None:
        """Return orthonormal residual directions of the normals at codes (n, l), or None without reduction."""
        if not self.normal_reduction:
            return None
        return normal_frames(self.constraint.jacobian(z), self.normals(z.shape[-1]))

    def tangent(self, z: Tensor) -> Tensor:
        """Return orthonormal tangent vectors, shape (n, l, d), at codes of shape (n, l)."""
        _, _, right = torch.linalg.svd(self.constraint.jacobian(z))
        found: Tensor = right[:, self.normals(z.shape[-1]) :].mT
        return found

    def geodesic(
        self,
        start: Tensor,
        end: Tensor,
        segments: int = 16,
        *,
        starts: Sequence[str] | Tensor | None = None,
        project_ends: bool = False,
        seed: int = 0,
        progress: Progress = silent,
    ) -> Geodesics:
        """Return shortest discrete paths between ends, of several starts the best.

        Args:
            start: Shape (l,) or (P, l).
            end: Like `start`.
            segments: K, at least 2.
            starts: Names among ``graph`` (shortest path through the codes), ``jump`` (half of the nodes at either
                end), ``straight`` and ``detour`` (past a random code, or without codes around a random bump; several
                make several), or initial paths of shape (P, K + 1, l). Default: ``graph``, without codes ``jump``.
            project_ends: Whether ends off the manifold are moved onto it first.
            seed: Of the detours.
            progress: Called along the way.

        Raises:
            InputError: Ends are off the manifold, shapes differ, K is less than 2, or no graph path joins the ends.

        Warns:
            ConvergenceWarning: A path did not meet the tolerances.
        """
        a, b, leading = self._ends(start, end, project_ends)
        if segments < 2:
            raise InputError(f"segments is {segments}; a geodesic needs at least 2.")
        with torch.no_grad():
            if isinstance(starts, Tensor):
                names: tuple[str, ...] = ("given",)
                first = starts.reshape(1, len(a), segments + 1, a.shape[-1]).to(a)
            else:
                names = tuple(starts) if starts else (("graph",) if self.codes is not None else ("jump",))
                first = torch.stack(self._initial(names, a, b, segments, seed))
            solution = self.minimise(first.flatten(0, 1), progress)
            found = self._best(solution, len(names), names)
        if not found.converged.all():
            worst = int((~found.converged).sum())
            warnings.warn(
                f"{worst} of {len(a)} paths did not converge: violation {float(found.violation.max()):.2g}, gradient "
                f"{float(found.gradient.max()):.2g}, penalty {float(found.penalty.max()):.2g}.",
                ConvergenceWarning,
                stacklevel=2,
            )
        return found.reshaped(leading)

    def exp(self, point: Tensor, velocity: Tensor, segments: int = 16) -> Tensor:
        """Return the nodes of the geodesics that leave `point` with `velocity`, shape (..., K + 1, l).

        Args:
            point: Shape (l,) or (P, l).
            velocity: Like `point`; its part off the tangent space is dropped, its length is that of the geodesic.
            segments: K.
        """
        return calculus.exponential(self, point, velocity, segments)

    def log(self, start: Tensor, end: Tensor, segments: int = 16, **options: Any) -> Tensor:
        """Return the velocity at `start` whose geodesic reaches `end`, shape (..., l); the inverse of :meth:`exp`.

        Args:
            start: Shape (l,) or (P, l).
            end: Like `start`.
            segments: K.
            **options: Of :meth:`geodesic`.
        """
        return calculus.logarithm(self, self.geodesic(start, end, segments, **options).points)

    def transport(self, path: Tensor, vectors: Tensor) -> Tensor:
        """Return tangent vectors carried parallel along a path, shape (m, l); see :func:`calculus.transport`.

        Args:
            path: Nodes, shape (K + 1, l).
            vectors: At the first node, shape (m, l).
        """
        return calculus.transport(self, path, vectors)

    def mean(self, points: Tensor, segments: int = 8, **options: Any) -> calculus.FrechetMean:
        """Return the Fréchet mean of points; see :func:`calculus.frechet_mean`.

        Args:
            points: Shape (P, l).
            segments: K of the geodesics from the mean to the points.
            **options: Of :func:`calculus.frechet_mean`.
        """
        return calculus.frechet_mean(self, points, segments, **options)

    def distance(
        self, start: Tensor, end: Tensor, segments: int = 16, *, starts: Sequence[str] | None = None
    ) -> Tensor:
        r"""Return geodesic distances, shape (...), :math:`\sqrt{E^K}` of the discrete geodesic.

        Args:
            start: Shape (..., l), with at most one leading axis.
            end: Like `start`.
            segments: K.
            starts: See :meth:`geodesic`.
        """
        return self.geodesic(start, end, segments, starts=starts).energy.sqrt()

    def interpolate(self, path: Tensor, times: Tensor) -> Tensor:
        """Return the codes of a path at times in [0, 1], moved onto the manifold, shape (m, l).

        Args:
            path: Nodes of a geodesic, shape (K + 1, l).
            times: Shape (m,).
        """
        place = times.clamp(0, 1).to(path) * (len(path) - 1)
        left = place.floor().long().clamp(max=len(path) - 2)
        share = (place - left)[:, None]
        chords = (1 - share) * path[left] + share * path[left + 1]
        inside = (share[:, 0] > 0) & (share[:, 0] < 1)
        chords[inside] = self.project(chords[inside]) if inside.any() else chords[inside]
        return chords

    def minimise(self, paths: Tensor, progress: Progress = silent) -> Solution:
        """Return the solver's answer for initial paths, shape (P, K + 1, l), whose ends stay as they are."""
        a, b = paths[:, 0], paths[:, -1]
        gap = torch.linalg.vector_norm(b - a, dim=-1)
        straight = self.metric(a, b)
        # Ends that all but coincide have no scale of their own: any positive unit will do.
        apart = gap > 1e-6 * (1 + torch.linalg.vector_norm(a, dim=-1))
        gradient_scale = torch.where(apart, straight / gap.clamp_min(1e-300), 1.0).clamp_min(1e-12)
        energy_scale = torch.where(apart, torch.maximum(straight, path_length(self.metric, paths) ** 2), 1.0)
        multipliers: Tensor | None = None
        old: Tensor | None = None
        rounds = self.settings.refreshes if self.normal_reduction else 1
        for turn in range(rounds):
            inner = paths[:, 1:-1]
            frames = self.frames(inner.reshape(-1, inner.shape[-1]))
            frames = None if frames is None else frames.reshape(*inner.shape[:2], *frames.shape[1:])
            problem = Problem(self.metric, self.constraint, frames, energy_scale, gradient_scale, self.constraint_scale)
            if frames is not None and old is not None and multipliers is not None:
                multipliers = (frames.mT @ (old @ multipliers[..., None]))[..., 0]
            solution = solve(
                problem, paths, self.settings, multipliers, part(progress, turn / rounds, (turn + 1) / rounds)
            )
            paths, multipliers, old = solution.paths, solution.multipliers, frames
        return solution

    def _best(self, solution: Solution, count: int, names: tuple[str, ...]) -> Geodesics:
        energy = path_energy(self.metric, solution.paths).reshape(count, -1)
        converged = solution.converged.reshape(count, -1)
        ranked = torch.where(converged, energy, torch.inf)
        violation = solution.violation.reshape(count, -1)
        # Where no start converged, the one nearest to the manifold stands for the pair.
        chosen = torch.where(converged.any(0), ranked.argmin(0), violation.argmin(0))
        pairs = energy.shape[1]
        rows = chosen * pairs + torch.arange(pairs, device=chosen.device)
        paths = solution.paths[rows]
        return Geodesics(
            points=paths,
            energy=path_energy(self.metric, paths),
            length=path_length(self.metric, paths),
            violation=solution.violation[rows],
            residual=self._residual_norm(paths[:, 1:-1]).mean(-1),
            gradient=solution.gradient[rows],
            converged=solution.converged[rows],
            iterations=solution.iterations[rows],
            penalty=solution.penalty[rows],
            multipliers=solution.multipliers[rows],
            start=chosen,
            start_names=names,
            energies=ranked.T,
        )

    def _initial(self, names: Sequence[str], a: Tensor, b: Tensor, segments: int, seed: int) -> list[Tensor]:
        generator = torch.Generator().manual_seed(seed)
        return [self._start(name, a, b, segments, generator) for name in names]

    def _start(self, name: str, a: Tensor, b: Tensor, segments: int, generator: torch.Generator) -> Tensor:
        if name == "graph":
            return self.graph.paths(a, b, segments)
        if name == "jump":
            return initial.jump_path(a, b, segments)
        if name == "straight":
            return initial.straight_path(a, b, segments)
        if name != "detour":
            raise InputError(f"starts contains {name!r}; choose among {', '.join(STARTS)}.")
        if self.codes is not None:
            via = torch.randint(len(self.codes), (len(a),), generator=generator)
            return self.graph.paths(a, b, segments, via)
        gap = torch.linalg.vector_norm(b - a, dim=-1, keepdim=True)
        bump = torch.randn(a.shape, generator=generator, dtype=a.dtype) * gap
        time = torch.linspace(0, 1, segments + 1, dtype=a.dtype)[:, None]
        path = initial.straight_path(a, b, segments) + torch.sin(torch.pi * time) * bump[:, None]
        path[:, 1:-1] = self.project(path[:, 1:-1])
        found: Tensor = path
        return found

    def _ends(self, start: Tensor, end: Tensor, project_ends: bool) -> tuple[Tensor, Tensor, torch.Size]:
        if start.shape != end.shape or start.ndim not in (1, 2):
            raise InputError(
                f"The ends have shapes {tuple(start.shape)} and {tuple(end.shape)}; give both (l,) or both (P, l)."
            )
        if self.codes is not None and start.shape[-1] != self.codes.shape[-1]:
            raise InputError(f"The ends have {start.shape[-1]} coordinates; the codes have {self.codes.shape[-1]}.")
        pair = []
        for name, z in (("start", start), ("end", end)):
            z = check_codes(z.reshape(-1, z.shape[-1]), least=1)
            z = self.project(z) if project_ends else z
            off = float(self._residual_norm(z).max())
            if off > self.end_tolerance:
                raise InputError(
                    f"The {name} is off the manifold: |zeta| = {off:.3g} exceeds {self.end_tolerance:.3g}; move it "
                    "with project_ends=True."
                )
            pair.append(z)
        return pair[0], pair[1], start.shape[:-1]

    def _residual_norm(self, z: Tensor) -> Tensor:
        with torch.no_grad():
            values = self.constraint(z.reshape(-1, z.shape[-1]))
            found: Tensor = torch.linalg.vector_norm(values, dim=-1).reshape(z.shape[:-1])
            return found
