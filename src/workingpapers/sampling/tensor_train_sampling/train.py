r"""Functions of many coordinates as trains of small tensors.

.. math:: V(x) = C_1[\phi_1(x_1)] \, C_2[\phi_2(x_2)] \cdots C_d[\phi_d(x_d)]

where :math:`C_j[\phi]` is the matrix of shape (r_{j-1}, r_j) that core j, shape (r_{j-1}, m_j, r_j), becomes when its
middle index is summed against the basis functions. Derivatives replace :math:`\phi_j` by :math:`\phi_j'`. A derivative
*along a direction* is a derivation of the product, so pairs (value, derivative) go through the train like dual numbers,
and cost two passes however many coordinates there are.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from workingpapers.foundations.errors import InputError
from workingpapers.sampling.tensor_train_sampling.bases import Basis, evaluate_bases

Dual = tuple[Tensor, Tensor]
"""A batch of row vectors and their derivatives along a direction, shape (n, r) each."""


@dataclass(frozen=True)
class FunctionalTT:
    """A function of d coordinates by a tensor train over bases of one coordinate each.

    Args:
        bases: One basis a coordinate.
        cores: Coefficients, float64, shapes (r_{j-1}, m_j, r_j) with r_0 = r_d = 1.

    Raises:
        InputError: When shapes of bases and cores do not fit each other.
    """

    bases: tuple[Basis, ...]
    cores: tuple[Tensor, ...]

    def __post_init__(self) -> None:
        shapes = [tuple(core.shape) for core in self.cores]
        left = [1, *(shape[-1] for shape in shapes)]
        fits = len(shapes) == len(self.bases) > 0 and left[-1] == 1
        if not fits or any(
            shape[:-1] != (rank, basis.size) for shape, rank, basis in zip(shapes, left, self.bases, strict=False)
        ):
            sizes = [basis.size for basis in self.bases]
            raise InputError(f"Cores of shapes {shapes} do not fit bases of sizes {sizes}.")

    @classmethod
    def random(cls, bases: Sequence[Basis], ranks: int | Sequence[int], generator: torch.Generator) -> FunctionalTT:
        """Return a train of unit norm with independent Gaussian coefficients."""
        inner = check_ranks(ranks, [basis.size for basis in bases])
        left, right = [1, *inner], [*inner, 1]
        cores = [
            torch.randn(r, basis.size, q, generator=generator, dtype=torch.float64) / math.sqrt(r * basis.size)
            for r, basis, q in zip(left, bases, right, strict=True)
        ]
        return cls(tuple(bases), tuple(cores)).scaled_to(1.0)

    @classmethod
    def additive(cls, bases: Sequence[Basis], functions: Sequence[Tensor], constant: float = 0.0) -> FunctionalTT:
        """Return constant + f_1(x_1) + ... + f_d(x_d), a train of rank 2, from the coefficients of each f_j."""
        last = len(bases) - 1
        cores = []
        for j, (basis, f) in enumerate(zip(bases, functions, strict=True)):
            core = torch.zeros(2, basis.size, 2, dtype=torch.float64)
            core[0, :, 0] = core[1, :, 1] = basis.constant
            core[0, :, 1] = f + constant * basis.constant if j == 0 else f
            cores.append(core[slice(0, 1) if j == 0 else slice(None), :, slice(1, 2) if j == last else slice(None)])
        return cls(tuple(bases), tuple(cores))

    @property
    def dim(self) -> int:
        """Number of coordinates."""
        return len(self.bases)

    @property
    def ranks(self) -> tuple[int, ...]:
        """Inner ranks r_1, ..., r_{d-1}."""
        return tuple(core.shape[2] for core in self.cores[:-1])

    @property
    def norm(self) -> float:
        """Norm of the coefficients: that of the function in the tensor product of the H2 spaces."""
        return float(self.orthogonalise(0).cores[0].norm())

    def scaled_to(self, norm: float) -> FunctionalTT:
        """Return the multiple of this train that has this norm."""
        train = self.orthogonalise(0)
        first = train.cores[0]
        return FunctionalTT(self.bases, (first * (norm / first.norm()), *train.cores[1:]))

    def full(self) -> Tensor:
        """Return the whole tensor of coefficients, shape (m_1, ..., m_d); for few coordinates."""
        whole = self.cores[0]
        for core in self.cores[1:]:
            whole = torch.tensordot(whole, core, dims=1)
        return whole.squeeze(0).squeeze(-1)

    def value(self, x: Tensor) -> Tensor:
        """Return V, shape (n,), at points, shape (n, d)."""
        left = torch.ones(len(x), 1, dtype=torch.float64)
        for core, jet in zip(self.cores, evaluate_bases(self.bases, x), strict=True):
            left = advance(left, jet[0], core)
        return left[:, 0]

    def value_and_grad(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return V, shape (n,), and its gradient, shape (n, d)."""
        jets = evaluate_bases(self.bases, x)
        rights = [torch.ones(len(x), 1, dtype=torch.float64)]
        for core, jet in zip(self.cores[:0:-1], jets[:0:-1], strict=True):
            rights.append(retreat(rights[-1], jet[0], core))
        left, grads = torch.ones(len(x), 1, dtype=torch.float64), []
        for core, jet, right in zip(self.cores, jets, reversed(rights), strict=True):
            grads.append((advance(left, jet[1], core) * right).sum(1))
            left = advance(left, jet[0], core)
        return left[:, 0], torch.stack(grads, dim=1)

    def grad(self, x: Tensor) -> Tensor:
        """Return the gradient, shape (n, d)."""
        return self.value_and_grad(x)[1]

    def hvp(self, x: Tensor, direction: Tensor) -> tuple[Tensor, Tensor]:
        """Return the gradient and the product of the Hessian with `direction`, shape (n, d) each."""
        jets = evaluate_bases(self.bases, x)
        turned = [(jet[0], direction[:, j, None] * jet[1]) for j, jet in enumerate(jets)]
        rights = [start_dual(len(x))]
        for core, pair in zip(self.cores[:0:-1], turned[:0:-1], strict=True):
            rights.append(retreat_dual(rights[-1], pair, core))
        left, grads, products = start_dual(len(x)), [], []
        for j, (core, jet, right) in enumerate(zip(self.cores, jets, reversed(rights), strict=True)):
            slope = advance_dual(left, (jet[1], direction[:, j, None] * jet[2]), core)
            grads.append((slope[0] * right[0]).sum(1))
            products.append((slope[1] * right[0] + slope[0] * right[1]).sum(1))
            left = advance_dual(left, turned[j], core)
        return torch.stack(grads, dim=1), torch.stack(products, dim=1)

    def orthogonalise(self, centre: int) -> FunctionalTT:
        """Return the same function with cores left of `centre` orthonormal by columns and right of it by rows."""
        cores = list(self.cores)
        for j in range(centre):
            shift_right(cores, j)
        for j in range(self.dim - 1, centre, -1):
            shift_left(cores, j)
        return FunctionalTT(self.bases, tuple(cores))

    def round(
        self, tolerance: float = 0.0, rank: int | Sequence[int] | None = None
    ) -> tuple[FunctionalTT, list[Tensor]]:
        """Return a train of lower ranks, and the singular values that were dropped at each bond.

        The error in norm is at most the root of the sum of the squares of what was dropped.

        Args:
            tolerance: Singular values below this share of a bond's largest are dropped.
            rank: Most that are kept at a bond, one number or d - 1 of them.
        """
        cores = list(self.orthogonalise(0).cores)
        most = [] if rank is None else check_ranks(rank, [basis.size for basis in self.bases])
        dropped = []
        for j in range(self.dim - 1):
            r, m, q = cores[j].shape
            u, s, v = torch.linalg.svd(cores[j].reshape(r * m, q), full_matrices=False)
            keep = max(1, int((s > tolerance * s[0]).sum()))
            keep = min(keep, most[j]) if most else keep
            dropped.append(s[keep:])
            cores[j] = u[:, :keep].reshape(r, m, keep)
            cores[j + 1] = torch.tensordot(s[:keep, None] * v[:keep], cores[j + 1], dims=1)
        return FunctionalTT(self.bases, tuple(cores)), dropped

    def singular_values(self) -> list[Tensor]:
        """Return the singular values at each bond, descending."""
        return _spectra(self)

    def padded(self, ranks: int | Sequence[int], generator: torch.Generator, share: float = 1e-3) -> FunctionalTT:
        """Return a train with these ranks where they are larger: new entries are noise of `share` of the norm."""
        inner = check_ranks(ranks, [basis.size for basis in self.bases])
        wanted = [max(mine, new) for mine, new in zip(self.ranks, inner, strict=True)]
        if wanted == list(self.ranks):
            return self
        left, right = [1, *wanted], [*wanted, 1]
        cores = []
        for core, r, q in zip(self.cores, left, right, strict=True):
            size = share * float(core.norm()) / math.sqrt(core.numel())
            grown = size * torch.randn(r, core.shape[1], q, generator=generator, dtype=torch.float64)
            grown[: core.shape[0], :, : core.shape[2]] = core
            cores.append(grown)
        return FunctionalTT(self.bases, tuple(cores))

    def change_basis(self, bases: Sequence[Basis]) -> FunctionalTT:
        """Return the nearest train over other bases, coordinate by coordinate in H2; exact where it is in their span.

        Args:
            bases: New bases, one a coordinate; on wider intervals the old functions go on linearly.
        """
        cores = [
            torch.einsum("nm,rmq->rnq", new.express(old), core)
            for new, old, core in zip(bases, self.bases, self.cores, strict=True)
        ]
        return FunctionalTT(tuple(bases), tuple(cores))


def check_ranks(ranks: int | Sequence[int], sizes: Sequence[int]) -> list[int]:
    """Return the d - 1 ranks, each cut to what the sizes beside its bond allow.

    Args:
        ranks: One for all bonds, or d - 1.
        sizes: Sizes of the bases.

    Raises:
        InputError: When their number is wrong or one is below 1.
    """
    count = len(sizes) - 1
    inner = [ranks] * count if isinstance(ranks, int) else list(ranks)
    if len(inner) != count:
        raise InputError(f"{len(sizes)} coordinates have {count} ranks between them, not {len(inner)}.")
    if any(rank < 1 for rank in ([ranks] if isinstance(ranks, int) else inner)):
        raise InputError(f"Ranks must be 1 or more, not {ranks}.")
    return [min(rank, math.prod(sizes[: j + 1]), math.prod(sizes[j + 1 :])) for j, rank in enumerate(inner)]


def advance(left: Tensor, phi: Tensor, core: Tensor) -> Tensor:
    """Return left C[phi], shape (n, q), for row vectors (n, r), functions (n, m) and a core (r, m, q)."""
    r, m, q = core.shape
    return (left[:, :, None] * phi[:, None, :]).reshape(-1, r * m) @ core.reshape(r * m, q)


def retreat(right: Tensor, phi: Tensor, core: Tensor) -> Tensor:
    """Return C[phi] right, shape (n, r)."""
    return advance(right, phi, core.permute(2, 1, 0))


def start_dual(count: int) -> Dual:
    """Return the dual number 1 for each of `count` points."""
    return torch.ones(count, 1, dtype=torch.float64), torch.zeros(count, 1, dtype=torch.float64)


def advance_dual(left: Dual, phi: Dual, core: Tensor) -> Dual:
    """Return left C[phi] and its derivative, by the product rule."""
    return advance(left[0], phi[0], core), advance(left[1], phi[0], core) + advance(left[0], phi[1], core)


def retreat_dual(right: Dual, phi: Dual, core: Tensor) -> Dual:
    """Return C[phi] right and its derivative."""
    return advance_dual(right, phi, core.permute(2, 1, 0))


def shift_right(cores: list[Tensor], j: int) -> None:
    """Make core j orthonormal by columns; what is left over goes into core j + 1."""
    r, m, q = cores[j].shape
    orthonormal, rest = torch.linalg.qr(cores[j].reshape(r * m, q))
    cores[j] = orthonormal.reshape(r, m, -1)
    cores[j + 1] = torch.tensordot(rest, cores[j + 1], dims=1)


def shift_left(cores: list[Tensor], j: int) -> None:
    """Make core j orthonormal by rows; what is left over goes into core j - 1."""
    r, m, q = cores[j].shape
    orthonormal, rest = torch.linalg.qr(cores[j].reshape(r, m * q).T)
    cores[j] = orthonormal.T.reshape(-1, m, q)
    cores[j - 1] = torch.tensordot(cores[j - 1], rest.T, dims=1)


def _spectra(train: FunctionalTT) -> list[Tensor]:
    cores = list(train.orthogonalise(0).cores)
    found = []
    for j in range(train.dim - 1):
        shift_right(cores, j)
        found.append(torch.linalg.svdvals(cores[j + 1].reshape(cores[j + 1].shape[0], -1)))
    return found
