r"""The matrix form of life cycle assessment.

.. math:: A s = f, \qquad g = B s, \qquad h = C g

Column j of A is process j: its output on the diagonal, positive, and its inputs, negative.

References:
    R. Heijungs and S. Suh, The Computational Structure of Life Cycle Assessment, 2002.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.sparse as sparse
from scipy.sparse.linalg import splu

from workingpapers.foundations.errors import InputError


@dataclass(frozen=True)
class System:
    """A product system.

    Args:
        technosphere: A, shape (n, n), dense or sparse.
        interventions: B, shape (m, n): elementary flows of each process.
        characterisation: C, shape (k, m): how much each flow counts in each category.
        demand: f, shape (n,).
        nodes: Names of the processes, or empty.
        categories: Names of the categories, or empty.
    """

    technosphere: Any
    interventions: Any
    characterisation: Any
    demand: np.ndarray
    nodes: tuple[str, ...] = field(default=())
    categories: tuple[str, ...] = field(default=())


@dataclass(frozen=True)
class Solution:
    """Solved system.

    Args:
        scaling: s, runs of each process, shape (n,).
        flows: g = B s, shape (m,).
        scores: h = C g, shape (k,).
        contributions: C B diag(s), shape (k, n); its rows sum to `scores`.
    """

    scaling: np.ndarray
    flows: np.ndarray
    scores: np.ndarray
    contributions: np.ndarray


def solve(system: System) -> Solution:
    """Solve a product system by sparse LU factorisation.

    Args:
        system: The matrices, shapes (n, n), (m, n), (k, m) and the demand (n,).

    Raises:
        InputError: Shapes disagree, an output on the diagonal is not positive, or the technosphere is singular.
    """
    A = sparse.csc_matrix(system.technosphere, dtype=np.float64)
    B = sparse.csr_matrix(system.interventions, dtype=np.float64)
    C = sparse.csr_matrix(system.characterisation, dtype=np.float64)
    n = A.shape[0]
    if A.shape != (n, n) or B.shape[1] != n or C.shape[1] != B.shape[0] or system.demand.shape != (n,):
        raise InputError(
            f"Shapes are A {A.shape}, B {B.shape}, C {C.shape}, f {system.demand.shape}; they must be "
            "(n, n), (m, n), (k, m), (n,)."
        )
    if (A.diagonal() <= 0).any():
        at = int(np.argmax(A.diagonal() <= 0))
        raise InputError(f"Process {at} has output {A.diagonal()[at]:g}; an output must be greater than 0.")
    try:
        scaling = splu(A).solve(system.demand)
    except RuntimeError:
        raise InputError("The technosphere is singular: some processes only feed each other; cut the loop.") from None
    flows = B @ scaling
    contributions = (C @ B).multiply(scaling[None, :]).toarray()
    return Solution(scaling, flows, C @ flows, contributions)


def solve_with_brightway(system: System) -> np.ndarray:
    """Return the scores of :func:`solve` computed by `bw2calc`, the engine of Brightway: an independent check.

    Args:
        system: The matrices, as in :func:`solve`.

    Returns:
        Scores, float64, shape (k,).

    Raises:
        InputError: `bw2calc` is not installed.
    """
    import warnings

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it advises another solver on every import
            import bw2calc
            import bw_processing
    except ImportError:
        raise InputError("This check needs the package bw2calc; install it, or use the built-in engine.") from None
    A, B, C = (sparse.coo_matrix(m) for m in (system.technosphere, system.interventions, system.characterisation))
    n, scores = A.shape[0], []

    def entries(rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
        made = np.empty(len(rows), dtype=bw_processing.INDICES_DTYPE)
        made["row"], made["col"] = rows, columns
        return made

    for category in range(C.shape[0]):
        package = bw_processing.create_datapackage()
        package.add_persistent_vector(
            matrix="technosphere_matrix", indices_array=entries(A.row, A.col), data_array=A.data,
            flip_array=np.zeros(A.nnz, dtype=bool),
        )  # fmt: skip
        package.add_persistent_vector(
            matrix="biosphere_matrix", indices_array=entries(B.row + n, B.col), data_array=B.data
        )
        row = C.tocsr()[category].tocoo()
        package.add_persistent_vector(
            matrix="characterization_matrix", indices_array=entries(row.col + n, np.zeros_like(row.col)),
            data_array=row.data, global_index=0,
        )  # fmt: skip
        demand = {int(i): float(system.demand[i]) for i in np.flatnonzero(system.demand)}
        lca = bw2calc.LCA(demand=demand, data_objs=[package])
        lca.lci()
        lca.lcia()
        scores.append(float(lca.score))
    return np.array(scores)
