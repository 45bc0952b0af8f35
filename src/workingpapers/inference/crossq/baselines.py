"""The usual codes at the same bytes a token: product, rotated product, residual, scalar, binary, centroid and residual.

All but the scalar ones decode to a sum of codewords, so they are scored by the same scan as CrossQ. faiss does the work
wherever it has the method.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from workingpapers.foundations.errors import InputError
from workingpapers.inference.crossq.codec import CODEWORDS

Kind = Literal["pq", "opq", "rq", "lsq", "scalar", "binary", "plaid"]
KINDS: tuple[Kind, ...] = ("pq", "opq", "rq", "lsq", "scalar", "binary", "plaid")
TRAINING_TOKENS = 16_384


@dataclass(frozen=True)
class Baseline:
    """A fitted code.

    Args:
        kind: Its name.
        bytes_per_token: Bytes that it stores for a token.
        decode: From prepared vectors (n, d) to what is left of them after coding, float32, shape (n, d).
    """

    kind: Kind
    bytes_per_token: int
    decode: Callable[[np.ndarray], np.ndarray]


def fit_baseline(kind: Kind, rows: np.ndarray, bytes_per_token: int, seed: int = 0) -> Baseline:
    """Fit a baseline to prepared token vectors.

    Args:
        kind: ``pq``, ``opq`` (rotation before it), ``rq`` (residual, beam of 8), ``lsq`` (additive, local search),
            ``scalar`` (4 bits for each of the leading 2 B directions), ``binary`` (one bit for each of the leading 8
            B) or ``plaid`` (2 bytes of centroid, then one bit for each of the leading 8 (B - 2) directions of the
            residual; with B = 2 the centroid alone).
        rows: Prepared token vectors, float32, shape (n, d), at least 256, principal directions first.
        bytes_per_token: B.
        seed: Seed of the training sample.

    Raises:
        InputError: Unknown kind, too few rows, or a product quantiser whose B does not divide d.
    """
    if kind not in KINDS:
        raise InputError(f"kind is {kind!r}; choose one of {', '.join(KINDS)}.")
    if len(rows) < CODEWORDS:
        raise InputError(f"There are {len(rows)} token vectors; at least {CODEWORDS} are needed.")
    if kind in ("pq", "opq") and rows.shape[1] % bytes_per_token:
        raise InputError(f"{rows.shape[1]} dimensions cannot be cut into {bytes_per_token} equal parts; change one.")
    if kind == "plaid" and bytes_per_token < 2:
        raise InputError(f"plaid needs at least 2 bytes a token, not {bytes_per_token}.")
    rng = np.random.default_rng(seed)
    chosen = np.sort(rng.choice(len(rows), size=min(len(rows), TRAINING_TOKENS), replace=False))
    sample = np.ascontiguousarray(rows[chosen], dtype=np.float32)
    if kind == "plaid":
        decode = _plaid(sample, bytes_per_token, seed)
    elif kind in ("scalar", "binary"):
        decode = _scalar(sample, *((4, 2 * bytes_per_token) if kind == "scalar" else (1, 8 * bytes_per_token)))
    else:
        decode = _faiss(kind, sample, bytes_per_token)
    return Baseline(kind, bytes_per_token, decode)


def _faiss(kind: str, sample: np.ndarray, stages: int) -> Callable[[np.ndarray], np.ndarray]:
    import faiss

    width = sample.shape[1]
    rotation: Any = None
    quantiser: Any
    if kind == "opq":
        rotation = faiss.OPQMatrix(width, stages)
        rotation.niter, rotation.niter_pq = 12, 4
        rotation.train(sample)
        sample = rotation.apply_py(sample)
    if kind in ("pq", "opq"):
        quantiser = faiss.ProductQuantizer(width, stages, 8)
    elif kind == "rq":
        quantiser = faiss.ResidualQuantizer(width, stages, 8)
        quantiser.train_type = faiss.ResidualQuantizer.Train_default
        quantiser.max_beam_size = 1  # a beam in training moves the codebooks little and costs eight times the time
    else:
        quantiser = faiss.LocalSearchQuantizer(width, stages, 8)
        quantiser.train_iters, quantiser.encode_ils_iters = 10, 16
    quantiser.train(sample)
    if kind == "rq":
        quantiser.max_beam_size = 8

    def decode(rows: np.ndarray) -> np.ndarray:
        turned = np.ascontiguousarray(rows, dtype=np.float32)
        if rotation is not None:
            turned = rotation.apply_py(turned)
        decoded = quantiser.decode(quantiser.compute_codes(turned))
        return np.asarray(decoded if rotation is None else rotation.reverse_transform(decoded), dtype=np.float32)

    return decode


def _scalar(sample: np.ndarray, bits: int, columns: int) -> Callable[[np.ndarray], np.ndarray]:
    """Quantise the leading columns at equal frequency; a bucket decodes to its mean, the other columns to theirs."""
    columns = min(columns, sample.shape[1])
    cuts = np.quantile(sample[:, :columns], np.arange(1, 2**bits) / 2**bits, axis=0)
    buckets = _buckets(sample, cuts)
    values = np.empty((2**bits, columns), dtype=np.float32)
    for bucket in range(2**bits):
        inside = buckets == bucket
        values[bucket] = (sample[:, :columns] * inside).sum(axis=0) / np.maximum(inside.sum(axis=0), 1)
    rest = sample[:, columns:].mean(axis=0)

    def decode(rows: np.ndarray) -> np.ndarray:
        decoded = np.empty(rows.shape, dtype=np.float32)
        decoded[:, :columns] = np.take_along_axis(values, _buckets(rows, cuts), axis=0)
        decoded[:, columns:] = rest
        return decoded

    return decode


def _buckets(rows: np.ndarray, cuts: np.ndarray) -> np.ndarray:
    columns = [np.searchsorted(cuts[:, column], rows[:, column], side="right") for column in range(cuts.shape[1])]
    return np.stack(columns, axis=1)


def _plaid(sample: np.ndarray, stages: int, seed: int) -> Callable[[np.ndarray], np.ndarray]:
    import faiss

    # As many centroids as the training tokens can carry: sixteen tokens each, of the 65,536 that two bytes address.
    count = max(CODEWORDS, min(65_536, len(sample) // 16))
    kmeans: Any = faiss.Kmeans(sample.shape[1], count, niter=8, seed=seed, min_points_per_centroid=1)
    kmeans.train(sample)

    def centroids(rows: np.ndarray) -> np.ndarray:
        nearest = kmeans.index.search(np.ascontiguousarray(rows, dtype=np.float32), 1)[1][:, 0]
        return np.asarray(kmeans.centroids[nearest], dtype=np.float32)

    if stages == 2:
        return centroids
    residual = _scalar(sample - centroids(sample), 1, 8 * (stages - 2))

    def decode(rows: np.ndarray) -> np.ndarray:
        coarse = centroids(rows)
        return np.asarray(coarse + residual(rows - coarse), dtype=np.float32)

    return decode
