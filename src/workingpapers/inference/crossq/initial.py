"""What training starts from: the projection, greedy residual codebooks, queries drawn from documents, useful tokens."""

from __future__ import annotations

from typing import Any

import numpy as np

from workingpapers.inference.crossq.codec import CODEWORDS, Codec
from workingpapers.inference.crossq.vectors import Packed, pack

CODEBOOK_TOKENS = 16_384


def uncoded(rows: np.ndarray, dim: int | None, seed: int) -> Codec:
    """Return a codec that projects to the leading directions of the second moment and has no codewords yet.

    Inner products are to be kept, not variances: nothing is centred.

    Args:
        rows: Token vectors, shape (n, D).
        dim: Dimensions to keep; None or at least D keeps all, without a projection.
        seed: Seed of the sample.
    """
    width = rows.shape[1]
    empty = np.zeros((1, CODEWORDS, min(dim or width, width)), dtype=np.float32)
    if dim is None or dim >= width:
        return Codec(empty, width)
    rng = np.random.default_rng(seed)
    sample = rows[rng.choice(len(rows), size=min(len(rows), CODEBOOK_TOKENS), replace=False)].astype(np.float64)
    _, directions = np.linalg.eigh(sample.T @ sample)
    return Codec(empty, width, np.asarray(directions[:, ::-1][:, :dim], dtype=np.float32, order="C"))


def residual_codebooks(rows: np.ndarray, stages: int, seed: int) -> np.ndarray:
    """Return codebooks of greedy residual quantisation, float32, shape (stages, 256, d).

    Args:
        rows: Training rows, float32, shape (n, d), at least 256.
        stages: Number of codebooks.
        seed: Seed of the sample and of k-means.
    """
    import faiss

    rng = np.random.default_rng(seed)
    chosen = rng.choice(len(rows), size=min(len(rows), CODEBOOK_TOKENS), replace=False)
    residual = np.ascontiguousarray(rows[np.sort(chosen)], dtype=np.float32)
    books: list[np.ndarray] = []
    for stage in range(stages):
        kmeans = faiss.Kmeans(
            residual.shape[1], CODEWORDS, niter=12, seed=seed + stage, min_points_per_centroid=1,
            max_points_per_centroid=CODEBOOK_TOKENS,
        )  # fmt: skip
        kmeans.train(residual)
        centroids: Any = kmeans.centroids
        books.append(centroids)
        residual = residual - centroids[kmeans.index.search(residual, 1)[1][:, 0]]
    return np.stack(books).astype(np.float32)


def pseudo_queries(documents: Packed, count: int, seed: int) -> tuple[Packed, np.ndarray]:
    """Return spans of 6 to 12 tokens of random documents as queries, and the document of each.

    Args:
        documents: Packed documents.
        count: Number of queries.
        seed: Seed of the draw.
    """
    rng = np.random.default_rng(seed)
    sources = rng.integers(len(documents.offsets) - 1, size=count)
    spans = []
    for source in sources:
        first, last = documents.offsets[source], documents.offsets[source + 1]
        length = min(int(rng.integers(6, 13)), last - first)
        begin = int(rng.integers(first, last - length + 1))
        spans.append(documents.rows[begin : begin + length])
    return pack(spans), sources.astype(np.int64)


def loss_when_dropped(
    queries: Packed, documents: Packed, first_codes: np.ndarray, candidates: np.ndarray
) -> np.ndarray:
    r"""Return how much score a token is expected to carry, by its first codeword, float32, shape (256,).

    Without token j the score falls by :math:`\sum_i [j = w_i] (q_i \cdot e_j - \max_{l \ne j} q_i \cdot e_l)`; its
    mean over queries and their candidates, over the tokens that share a codeword, orders tokens by what dropping them
    costs.

    Args:
        queries: Prepared queries.
        documents: Prepared documents.
        first_codes: First code of each document token, shape (sum n_j,).
        candidates: Document numbers, shape (queries, candidates).
    """
    lost = np.zeros(CODEWORDS)
    seen = np.zeros(CODEWORDS)
    for number, rows in enumerate(candidates):
        query = queries.rows[queries.offsets[number] : queries.offsets[number + 1]]
        for row in rows:
            start, stop = documents.offsets[row], documents.offsets[row + 1]
            codes = first_codes[start:stop]
            np.add.at(seen, codes, 1)
            if stop - start == 1:
                continue
            products = query @ documents.rows[start:stop].T
            best = np.argmax(products, axis=1)
            two = np.partition(products, -2, axis=1)[:, -2:]
            np.add.at(lost, codes[best], two[:, 1] - two[:, 0])
    return np.asarray(lost / np.maximum(seen, 1), dtype=np.float32)
