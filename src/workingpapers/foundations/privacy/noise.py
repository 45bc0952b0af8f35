"""Where the noise comes from: the operating system's secure source, or, for tests alone, a seed."""

from __future__ import annotations

import math
import os
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from workingpapers.foundations.errors import InputError

Floats = NDArray[np.float64]
# Values are rounded to a lattice of 2^-20 of the noise scale, on which the noise is exact: no rounding of
# floating-point numbers can betray the value beneath. The rounding adds to the sensitivity, see `lattice_slack`.
LATTICE_BITS = 20


class Noise(Protocol):
    """A source of noise; `secure` says whether a release may rest on it."""

    secure: bool

    def gaussian(self, values: ArrayLike, scale: float) -> Floats:
        """Return `values` plus normal noise of standard deviation `scale`, float64 of the same shape."""

    def laplace(self, values: ArrayLike, scale: float) -> Floats:
        """Return `values` plus Laplace noise of density exp(-|x| / scale) / (2 scale), float64 of the same shape."""

    def uniform(self, size: int) -> Floats:
        """Return `size` numbers, uniform on (0, 1)."""


class SecureNoise:
    """Noise that nobody can foresee: OpenDP's exact samplers on a lattice, uniform numbers from the system."""

    secure = True

    def gaussian(self, values: ArrayLike, scale: float) -> Floats:
        """Return `values` plus discrete Gaussian noise on the lattice; some 30 microseconds a number."""
        return self._added("make_gaussian", "l2_distance", values, scale)

    def laplace(self, values: ArrayLike, scale: float) -> Floats:
        """Return `values` plus discrete Laplace noise on the lattice; some 20 microseconds a number."""
        return self._added("make_laplace", "l1_distance", values, scale)

    def uniform(self, size: int) -> Floats:
        """Return uniform numbers with 52 random bits each, the middles of 2^52 equal cells: neither 0 nor 1."""
        bits = np.frombuffer(os.urandom(8 * size), np.uint64) >> np.uint64(12)
        return (bits.astype(np.float64) + 0.5) * 2.0**-52

    @staticmethod
    def _added(maker: str, metric: str, values: ArrayLike, scale: float) -> Floats:
        import opendp.prelude as dp

        given = np.asarray(values, np.float64)
        if scale == 0:
            return given.copy()
        dp.enable_features("contrib")
        domain = dp.vector_domain(dp.atom_domain(T=float, nan=False), size=given.size)
        distance: Any = getattr(dp, metric)(T=float)
        mechanism = getattr(dp.m, maker)(domain, distance, scale=scale, k=lattice_exponent(scale))
        return np.array(mechanism(given.ravel().tolist()), np.float64).reshape(given.shape)


class SeededNoise:
    """Noise that anybody with the seed can subtract: for tests and experiments on data that are not private.

    Args:
        seed: Seed, or a generator.
    """

    secure = False

    def __init__(self, seed: int | np.random.Generator) -> None:
        self._generator = np.random.default_rng(seed)

    def gaussian(self, values: ArrayLike, scale: float) -> Floats:
        """Return `values` plus normal noise."""
        given = np.asarray(values, np.float64)
        return given + scale * self._generator.standard_normal(given.shape)

    def laplace(self, values: ArrayLike, scale: float) -> Floats:
        """Return `values` plus Laplace noise."""
        given = np.asarray(values, np.float64)
        return given + self._generator.laplace(0.0, scale, given.shape) if scale else given.copy()

    def uniform(self, size: int) -> Floats:
        """Return uniform numbers."""
        return np.clip(self._generator.random(size), 2.0**-54, None)


def noise_source(seed: int | None = None, *, insecure: bool = False) -> Noise:
    """Return the secure source, or a seeded one where the caller says that the release protects nobody.

    Args:
        seed: None for the secure source.
        insecure: The caller's word that a seeded release is for a test.

    Raises:
        InputError: A seed without that word.
    """
    if seed is None:
        return SecureNoise()
    if not insecure:
        raise InputError(
            f"With the seed {seed} anybody could take the noise away again; leave the seed out, or say insecure for a "
            "test."
        )
    return SeededNoise(seed)


def lattice_exponent(scale: float) -> int:
    """Return k of the lattice 2^k on which noise of a scale is drawn."""
    return math.frexp(scale)[1] - 1 - LATTICE_BITS


def lattice_slack(size: int, scale: float, norm: int = 2) -> float:
    r"""Return what rounding to the lattice adds to the sensitivity: :math:`d^{1/p} 2^k` for d numbers in the p-norm.

    Args:
        size: Number of values released together, d.
        scale: Noise scale.
        norm: 1 (Laplace) or 2 (Gaussian), p.
    """
    return float(size ** (1 / norm) * 2.0 ** lattice_exponent(scale)) if scale else 0.0
