"""The arms of the claims."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import numpy as np

from workingpapers.foundations.files import cache_directory, whole_file
from workingpapers.foundations.progress import Progress, part, silent
from workingpapers.inference.crossq.baselines import Kind, fit_baseline
from workingpapers.inference.crossq.candidates import Candidates
from workingpapers.inference.crossq.codec import CODEWORDS
from workingpapers.inference.crossq.collection import Vectors, encoded_collection
from workingpapers.inference.crossq.initial import uncoded
from workingpapers.inference.crossq.measures import ranking_measures
from workingpapers.inference.crossq.network import Conditioning
from workingpapers.inference.crossq.planted import planted_collection
from workingpapers.inference.crossq.quantiser import POOL, CrossQ
from workingpapers.inference.crossq.scoring import query_tables, score_rows
from workingpapers.inference.crossq.vectors import Packed, maxsim, pack, unit_rows


def learned(
    seed: int,
    progress: Progress = silent,
    *,
    bytes_per_token: int,
    documents: int,
    training: int,
    held_out: int,
    steps: int,
    untrained: bool = False,
    random_drop: bool = False,
    first_draw: int = 0,
    **options: Any,
) -> dict[str, float]:
    """Train a quantiser on the training queries of a seed and rank the whole corpus for its held-out queries.

    Args:
        seed: Draws training and held-out queries.
        progress: Called along the way.
        bytes_per_token: Stored bytes a token.
        documents: Documents of the corpus.
        training: Training queries.
        held_out: Held-out queries; none is a training query.
        steps: Gradient steps.
        untrained: Whether to leave out the gradient steps.
        random_drop: Whether chance decides which codewords are dropped first, in place of training queries.
        first_draw: Added to the seed, for draws of queries that no other claim has looked at.
        **options: Options of :class:`~.quantiser.CrossQ`.
    """
    seed += first_draw
    vectors, teacher = _collection(documents, part(progress, 0.0, 0.5))
    train, test = _split(seed, documents, training, held_out)
    began = time.perf_counter()
    fitted = CrossQ(bytes_per_token, steps=0 if untrained else steps, seed=seed, **options)
    fitted.fit(
        *vectors.documents,
        queries=_some(vectors.queries, train),
        candidates=_candidates(teacher, train),
        progress=part(progress, 0.5, 0.9),
    )
    seconds = time.perf_counter() - began
    codec = fitted.codec
    if random_drop:
        codec = replace(codec, usefulness=np.random.default_rng(seed).random(CODEWORDS, dtype=np.float32))
    codes = codec.encode(*vectors.documents)
    progress(0.95, "ranking the corpus")
    scores = _scan(fitted, _some(vectors.queries, test), codes)
    return {
        **ranking_measures(scores, test),
        "mse": fitted.codec.error,
        "stored_bytes": len(codes.rows) * codes.rows.shape[1] / len(vectors.documents.rows),
        "best_step": float(fitted.codec.facts["best step"]),
        "fit_seconds": seconds,
    }


def baseline(
    seed: int,
    progress: Progress = silent,
    *,
    kind: Kind | None,
    bytes_per_token: int,
    documents: int,
    training: int,
    held_out: int,
    steps: int,
) -> dict[str, float]:
    """Rank the corpus after a baseline code, or with the projected vectors themselves.

    Args:
        seed: Draws training and held-out queries.
        progress: Called along the way.
        kind: The baseline, or None for full precision in the 128 dimensions that all codes start from.
        bytes_per_token: Stored bytes a token.
        documents: Documents of the corpus.
        training: Training queries, which a baseline has no use for.
        held_out: Held-out queries.
        steps: Gradient steps, which a baseline has no use for.
    """
    vectors, _ = _collection(documents, part(progress, 0.0, 0.5))
    _, test = _split(seed, documents, training, held_out)
    start = uncoded(vectors.documents.rows, 128, seed)
    rows = decoded = start.prepare(vectors.documents.rows)
    began = time.perf_counter()
    if kind is not None:
        progress(0.6, f"fitting {kind}")
        decoded = fit_baseline(kind, rows, bytes_per_token, seed).decode(rows)
    seconds = time.perf_counter() - began
    progress(0.9, "ranking the corpus")
    asked = _some(vectors.queries, test)
    scores = maxsim(Packed(start.prepare(asked.rows), asked.offsets), Packed(decoded, vectors.documents.offsets))
    return {
        **ranking_measures(scores, test),
        "mse": float(np.square(rows - decoded).sum(axis=1).mean()),
        "stored_bytes": float(bytes_per_token if kind else 4 * rows.shape[1]),
        "fit_seconds": seconds,
    }


def planted(
    seed: int,
    progress: Progress = silent,
    *,
    conditioning: Conditioning,
    documents: int,
    training: int,
    held_out: int,
    steps: int,
) -> dict[str, float]:
    """Train on the planted collection and rank it for held-out queries.

    Args:
        seed: Seed of collection and training.
        progress: Called along the way.
        conditioning: What conditions the codes.
        documents: Documents, of 20 tokens each.
        training: Training queries.
        held_out: Held-out queries.
        steps: Gradient steps.
    """
    corpus, queries, relevant = planted_collection(seed, documents=documents, tokens=20, queries=training + held_out)
    fitted = CrossQ(
        3, dim=None, conditioning=conditioning, rank=0.0, reconstruction=0.3, temperature=0.1, steps=steps, batch=16,
        negatives=15, learning_rate=2e-3, seed=seed,
    )  # fmt: skip
    order = np.arange(training + held_out)
    fitted.fit(*corpus, queries=_some(queries, order[:training]), positives=relevant[:training], progress=progress)
    scores = _scan(fitted, _some(queries, order[training:]), fitted.encode(*corpus))
    return {**ranking_measures(scores, relevant[training:]), "mse": fitted.codec.error}


def scan_codes(
    seed: int, progress: Progress = silent, *, documents: int, tokens: int, query_tokens: int, repeats: int
) -> dict[str, float]:
    """Time one query against coded documents on one thread.

    Args:
        seed: Seed of codes, codebooks and query.
        progress: Called along the way.
        documents: Number of documents.
        tokens: Tokens of a document.
        query_tokens: Tokens of the query.
        repeats: Scans; the fastest counts.
    """
    codes, offsets, codebooks, query = _random_codes(seed, documents, tokens, query_tokens)
    rows = np.arange(documents)
    score_rows(codes, offsets, rows[:1], query_tables(query, codebooks), 1)
    best = np.inf
    for repeat in range(repeats):
        began = time.perf_counter()
        score_rows(codes, offsets, rows, query_tables(query, codebooks), 1)
        best = min(best, time.perf_counter() - began)
        progress((repeat + 1) / repeats, "scanning codes")
    return {"seconds": best, "bytes_read": float(codes.nbytes)}


def scan_floats(
    seed: int, progress: Progress = silent, *, documents: int, tokens: int, query_tokens: int, repeats: int
) -> dict[str, float]:
    """Time the same query against the decoded float32 vectors: one matrix product of BLAS, then the maxima.

    Args:
        seed: Seed of codes, codebooks and query.
        progress: Called along the way.
        documents: Number of documents.
        tokens: Tokens of a document.
        query_tokens: Tokens of the query.
        repeats: Scans; the fastest counts.
    """
    codes, _, codebooks, query = _random_codes(seed, documents, tokens, query_tokens)
    vectors = sum(codebooks[stage][codes[:, stage]] for stage in range(codes.shape[1]))
    best = np.inf
    for repeat in range(repeats):
        began = time.perf_counter()
        for start in range(0, len(vectors), 64 * tokens):
            products = query @ vectors[start : start + 64 * tokens].T
            products.reshape(query_tokens, -1, tokens).max(axis=2).sum(axis=0)
        best = min(best, time.perf_counter() - began)
        progress((repeat + 1) / repeats, "scanning vectors")
    return {"seconds": best, "bytes_read": float(vectors.nbytes)}


def _random_codes(seed: int, documents: int, tokens: int, query_tokens: int) -> tuple[np.ndarray, ...]:
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, 256, (documents * tokens, 4), dtype=np.uint8)
    codebooks = rng.standard_normal((4, 256, 128)).astype(np.float32)
    query = unit_rows(rng.standard_normal((query_tokens, 128)))
    return codes, np.arange(documents + 1, dtype=np.int64) * tokens, codebooks, query


def _collection(documents: int, progress: Progress) -> tuple[Vectors, np.ndarray]:
    """Return the vectors and the full-precision scores of all pairs, both kept in the cache."""
    vectors = encoded_collection(documents, progress)
    path = cache_directory() / f"{vectors.name}-scores.npy"
    if not path.exists():
        scores = maxsim(vectors.queries, vectors.documents)
        with whole_file(path, "wb") as stream:
            np.save(stream, scores)
    return vectors, np.load(path)


def _split(seed: int, documents: int, training: int, held_out: int) -> tuple[np.ndarray, np.ndarray]:
    order = np.random.default_rng(seed).permutation(documents)
    return order[:training], order[training : training + held_out]


def _some(packed: Packed, numbers: np.ndarray) -> Packed:
    return pack([packed.rows[packed.offsets[number] : packed.offsets[number + 1]] for number in numbers])


def _candidates(teacher: np.ndarray, numbers: np.ndarray) -> Candidates:
    scores = teacher[numbers]
    ranked = scores.copy()
    ranked[np.arange(len(numbers)), numbers] = np.inf
    rows = np.argsort(-ranked, axis=1, kind="stable")[:, :POOL]
    return Candidates(rows, np.take_along_axis(scores, rows, axis=1))


def _scan(fitted: CrossQ, queries: Packed, codes: Packed) -> np.ndarray:
    ends = zip(queries.offsets[:-1], queries.offsets[1:], strict=True)
    return np.stack([fitted.score(queries.rows[start:stop], codes, threads=1) for start, stop in ends])
