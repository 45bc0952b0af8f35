"""What the geodesic solver gives back.

References:
    F. Hartwig, J. Sassen, J. Braunsmann, M. Rumpf, B. Wirth, arXiv:2510.09468.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from torch import Tensor


@dataclass(frozen=True)
class Geodesics:
    r"""Discrete geodesics with their report; the leading shape is that of the given ends, () or (P,).

    Args:
        points: Nodes, shape (..., K + 1, l).
        energy: :math:`E^K`, shape (...).
        length: :math:`L^K`, shape (...); its square is at most the energy.
        violation: Largest constraint value of a node along the constrained directions, shape (...).
        residual: Mean :math:`|\zeta|` of the inner nodes, all components, shape (...).
        gradient: Largest entry of the Lagrangian's gradient, in units of W(A, B) / |A - B|, shape (...).
        converged: Whether both tolerances were met, bool, shape (...).
        iterations: Outer iterations, shape (...).
        penalty: Last penalty, shape (...).
        multipliers: Shape (..., K - 1, r).
        start: Which start gave the path: its number in `start_names`, shape (...).
        start_names: Names of the starts that were tried.
        energies: Energies from every start, infinite where a start did not converge, shape (..., starts).
    """

    points: Tensor
    energy: Tensor
    length: Tensor
    violation: Tensor
    residual: Tensor
    gradient: Tensor
    converged: Tensor
    iterations: Tensor
    penalty: Tensor
    multipliers: Tensor
    start: Tensor
    start_names: tuple[str, ...]
    energies: Tensor

    def reshaped(self, leading: tuple[int, ...]) -> Geodesics:
        """Return the report of P paths with the leading shape of the given ends."""
        tensors: dict[str, Any] = {name: value for name, value in vars(self).items() if isinstance(value, Tensor)}
        return replace(self, **{name: value.reshape((*leading, *value.shape[1:])) for name, value in tensors.items()})
