r"""Geodesics on the manifold of your latent codes: interpolate, extrapolate, measure and average along the data.

Give it codes of any encoder, shape (N, l). :class:`DenoisingProjector` learns (or computes exactly) the projection
:math:`\Pi` on the manifold near the codes; :class:`ImplicitManifold` takes :math:`\zeta(z) = z - \Pi(z) = 0` (or an
equation that you know) and offers ``geodesic``, ``distance``, ``exp``, ``log``, ``transport``, ``mean`` and
``interpolate``. Distances are flat (:class:`EuclideanMetric`), of decoded values (:class:`PullbackMetric`, any torch
decoder) or of decoded Gaussians (:class:`KLMetric`).

Use it where straight lines between codes leave the data and decode to something that is none. It needs codes dense
enough that neighbours are nearer than the manifold bends; ``contrast_`` of the projector tells whether it sees the
manifold at all. Geodesics are local minima: give several starts. Not for codes that fill their space, where the
straight line is the geodesic.

References:
    F. Hartwig, J. Sassen, J. Braunsmann, M. Rumpf, B. Wirth, Geodesic Calculus on Implicitly Defined Latent Manifolds,
    ICML 2026, arXiv:2510.09468.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from workingpapers.foundations.lazy import lazy_names

if TYPE_CHECKING:
    from workingpapers.sampling.latent_manifold.calculus import FrechetMean
    from workingpapers.sampling.latent_manifold.constraints import Constraint, FunctionConstraint, sphere, torus
    from workingpapers.sampling.latent_manifold.geodesics import Geodesics
    from workingpapers.sampling.latent_manifold.manifold import ImplicitManifold
    from workingpapers.sampling.latent_manifold.metrics import EuclideanMetric, KLMetric, Metric, PullbackMetric
    from workingpapers.sampling.latent_manifold.projector import DenoisingProjector
    from workingpapers.sampling.latent_manifold.solver import SolverSettings, path_energy, path_length
    from workingpapers.sampling.latent_manifold.starts import CodeGraph, jump_path, slerp_path, straight_path

__all__ = [
    "CodeGraph",
    "Constraint",
    "DenoisingProjector",
    "EuclideanMetric",
    "FrechetMean",
    "FunctionConstraint",
    "Geodesics",
    "ImplicitManifold",
    "KLMetric",
    "Metric",
    "PullbackMetric",
    "SolverSettings",
    "jump_path",
    "path_energy",
    "path_length",
    "slerp_path",
    "sphere",
    "straight_path",
    "torus",
]

__getattr__ = lazy_names(
    __name__,
    {
        "calculus": ("FrechetMean",),
        "constraints": ("Constraint", "FunctionConstraint", "sphere", "torus"),
        "geodesics": ("Geodesics",),
        "manifold": ("ImplicitManifold",),
        "metrics": ("EuclideanMetric", "KLMetric", "Metric", "PullbackMetric"),
        "projector": ("DenoisingProjector",),
        "solver": ("SolverSettings", "path_energy", "path_length"),
        "starts": ("CodeGraph", "jump_path", "slerp_path", "straight_path"),
    },
)
