"""CrossQ: codes of a few bytes a token, trained to keep the ranking."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from workingpapers.foundations.errors import InputError
from workingpapers.foundations.progress import Progress, part, silent
from workingpapers.inference.crossq.candidates import Candidates, mine_candidates
from workingpapers.inference.crossq.codec import CODEWORDS, Codec
from workingpapers.inference.crossq.initial import loss_when_dropped, pseudo_queries, residual_codebooks, uncoded
from workingpapers.inference.crossq.scoring import query_tables, score_rows
from workingpapers.inference.crossq.vectors import Packed, check_packed, pack

PSEUDO_QUERIES = 600
POOL = 24


class CrossQ:
    r"""Conditional additive quantiser for late interaction, trained on the ranking.

    Args:
        bytes_per_token: Stored bytes for each token of a document, on average over its tokens.
        stages: Bytes of a token that is kept; more than `bytes_per_token` drops the tokens least likely to decide a
            score, so that the average stays. None keeps every token.
        dim: Dimensions to project to before coding (principal directions); None or more than there are codes them all.
        conditioning: What conditions the choice of codewords: ``"document"``, ``"token"`` or ``"none"``.
        hidden: Width of the conditioning layers.
        kl: Weight of the distillation of full-precision scores (:func:`~.network.distillation_loss`).
        rank: Weight of the hard-negative loss (:func:`~.network.ranking_loss`).
        reconstruction: Weight of the squared coding error.
        temperature: Temperature of the distillation, in units of the score.
        margin: Gap to hard negatives that the ranking loss asks for.
        steps: Gradient steps; 0 leaves greedy residual quantisation.
        batch: Queries in a step.
        negatives: Hard negatives of a query in a step, of the 23 mined.
        learning_rate: Step size of Adam.
        adapt: Whether the projection is trained as well (light fine-tuning of the encoder).
        seed: Seed of everything random.

    References:
        R. K. Salla, M. Saravanan, R. M. Amancherla, CrossQ, ICML 2026, arXiv:2608.19204.
    """

    def __init__(
        self,
        bytes_per_token: int = 4,
        *,
        stages: int | None = None,
        dim: int | None = 128,
        conditioning: Literal["document", "token", "none"] = "document",
        hidden: int = 64,
        kl: float = 1.0,
        rank: float = 0.2,
        reconstruction: float = 0.5,
        temperature: float = 1.0,
        margin: float = 0.0,
        steps: int = 300,
        batch: int = 8,
        negatives: int = 9,
        learning_rate: float = 1e-3,
        adapt: bool = False,
        seed: int = 0,
    ) -> None:
        if not 1 <= bytes_per_token <= 64:
            raise InputError(f"bytes_per_token is {bytes_per_token}; give 1 to 64.")
        if stages is not None and not bytes_per_token <= stages <= 64:
            raise InputError(f"stages is {stages}; give {bytes_per_token} (the bytes per token) to 64.")
        if conditioning not in ("document", "token", "none"):
            raise InputError(f"conditioning is {conditioning!r}; choose document, token or none.")
        self.bytes_per_token = bytes_per_token
        self.stages = stages or bytes_per_token
        self.dim = dim
        self.conditioning: Literal["document", "token", "none"] = conditioning
        self.hidden = hidden
        self.kl, self.rank, self.reconstruction = kl, rank, reconstruction
        self.temperature, self.margin = temperature, margin
        self.steps, self.batch, self.negatives, self.learning_rate = steps, batch, negatives, learning_rate
        self.adapt = adapt
        self.seed = seed
        self._codec: Codec | None = None

    @property
    def codec(self) -> Codec:
        """The trained arrays.

        Raises:
            InputError: Not fitted.
        """
        if self._codec is None:
            raise InputError("This CrossQ is not fitted; call fit first.")
        return self._codec

    def fit(
        self,
        token_vectors: np.ndarray | Sequence[np.ndarray],
        offsets: np.ndarray | None = None,
        *,
        queries: Sequence[np.ndarray] | Packed | None = None,
        positives: np.ndarray | Sequence[int] | None = None,
        candidates: Candidates | None = None,
        progress: Progress = silent,
    ) -> CrossQ:
        """Learn codebooks and conditioning.

        Args:
            token_vectors: Documents: packed, shape (sum n_j, D), or a list of arrays (n_j, D).
            offsets: Offsets of packed documents, shape (N + 1,).
            queries: Token vectors of training queries; None draws spans of 6 to 12 document tokens in their place.
            positives: Number of the relevant document of each query; None takes the best by full precision.
            candidates: Documents that compete for each query with the scores of a teacher, where they are known already
                or a better teacher than full precision is at hand; None mines them. Replaces `positives`.
            progress: Called along the way.

        Raises:
            InputError: Fewer than 256 tokens or 2 documents, vectors that do not fit, positives that name no document.
        """
        documents = _packed(token_vectors, offsets)
        count, width = len(documents.offsets) - 1, documents.rows.shape[1]
        if len(documents.rows) < CODEWORDS or count < 2:
            raise InputError(
                f"There are {len(documents.rows)} tokens in {count} documents; training needs at least {CODEWORDS} "
                "tokens in 2 documents."
            )
        asked, relevant = self._queries(documents, queries, positives)
        start = uncoded(documents.rows, self.dim, self.seed)
        if start.projection is None and self.adapt:
            start = replace(start, projection=np.eye(width, dtype=np.float32))
        prepared = Packed(start.prepare(documents.rows), documents.offsets)
        start = replace(start, codebooks=residual_codebooks(prepared.rows, self.stages, self.seed))
        if candidates is None:
            candidates = mine_candidates(asked, documents, relevant, POOL, part(progress, 0.0, 0.2))
        self._codec = self._train(start, documents, prepared, asked, candidates, part(progress, 0.2, 1.0))
        return self

    def encode(self, token_vectors: np.ndarray | Sequence[np.ndarray], offsets: np.ndarray | None = None) -> Packed:
        """Return the codes of documents, uint8, and their offsets.

        Args:
            token_vectors: Packed, shape (sum n_j, D), or a list of arrays (n_j, D).
            offsets: Offsets of packed documents, shape (N + 1,).
        """
        return self.codec.encode(*_packed(token_vectors, offsets))

    def decode(self, codes: np.ndarray) -> np.ndarray:
        """Return the decoded tokens, float32, shape (n, d).

        Args:
            codes: Codes, uint8, shape (n, M).
        """
        return self.codec.decode(codes)

    def score(self, query_tokens: np.ndarray, candidates: Packed, *, threads: int | None = None) -> np.ndarray:
        """Return the late-interaction score of each coded document, float32, shape (N,).

        Args:
            query_tokens: Token vectors of the query, shape (m, D).
            candidates: Codes and offsets from :meth:`encode`.
            threads: Threads to use; None takes one for each core.
        """
        query = check_packed(query_tokens, None, self.codec.width).rows
        tables = query_tables(self.codec.prepare(query), self.codec.codebooks)
        return score_rows(*candidates, np.arange(len(candidates.offsets) - 1), tables, threads)

    def save(self, path: str | Path) -> None:
        """Write the trained arrays to a file.

        Args:
            path: The file, ``.npz`` by custom.
        """
        self.codec.save(path)

    @classmethod
    def load(cls, path: str | Path) -> CrossQ:
        """Read a fitted quantiser; no torch is needed to use it.

        Args:
            path: A file that :meth:`save` wrote.
        """
        codec = Codec.load(path)
        conditioning: Any = "none" if not codec.layers else "document" if codec.use_context else "token"
        fitted = cls(round(codec.stages * codec.keep), stages=codec.stages, dim=codec.dim, conditioning=conditioning)
        fitted._codec = codec
        return fitted

    def _queries(
        self, documents: Packed, queries: Sequence[np.ndarray] | Packed | None, positives: object
    ) -> tuple[Packed, np.ndarray | None]:
        count, width = len(documents.offsets) - 1, documents.rows.shape[1]
        if queries is None:
            if positives is not None:
                raise InputError("Positives are given without queries; give the queries too.")
            return pseudo_queries(documents, PSEUDO_QUERIES, self.seed)
        asked = check_packed(*queries, width) if isinstance(queries, Packed) else check_packed(*pack(queries), width)
        if positives is None:
            return asked, None
        relevant = np.asarray(positives)
        if relevant.shape != (len(asked.offsets) - 1,) or not np.issubdtype(relevant.dtype, np.integer):
            raise InputError(
                f"There are {len(asked.offsets) - 1} queries and positives of shape {relevant.shape}; give one "
                "document "
                "number a query."
            )
        if relevant.min() < 0 or relevant.max() >= count:
            raise InputError(f"A positive is document {int(relevant.max())}; the numbers run from 0 to {count - 1}.")
        return asked, relevant.astype(np.int64)

    def _train(
        self,
        start: Codec,
        documents: Packed,
        prepared: Packed,
        queries: Packed,
        candidates: Candidates,
        progress: Progress,
    ) -> Codec:
        from workingpapers.inference.crossq.network import ConditionalQuantiser
        from workingpapers.inference.crossq.training import Objective, train

        model = ConditionalQuantiser(
            start.codebooks, self.conditioning, self.hidden, start.projection if self.adapt else None, self.seed
        )
        prepared_queries = Packed(start.prepare(queries.rows), queries.offsets)
        trained = train(
            model,
            queries if self.adapt else prepared_queries,
            documents if self.adapt else prepared,
            candidates,
            Objective(self.kl, self.rank, self.reconstruction, self.temperature, self.margin),
            steps=self.steps,
            batch=self.batch,
            negatives=self.negatives,
            learning_rate=self.learning_rate,
            seed=self.seed,
            progress=progress,
        )
        codec = replace(
            start,
            codebooks=trained.model.codebooks.detach().numpy().copy(),
            layers=trained.model.arrays(),
            use_context=self.conditioning == "document",
        )
        if trained.model.projection is not None:
            codec = replace(codec, projection=trained.model.projection.detach().numpy().copy())
        return self._finish(codec, documents, queries, candidates, (trained.before, trained.after, trained.step))

    def _finish(
        self, codec: Codec, documents: Packed, queries: Packed, candidates: Candidates, losses: tuple[float, float, int]
    ) -> Codec:
        rows = codec.prepare(documents.rows)
        codes = codec.encode_prepared(rows, documents.offsets).rows
        error = float(np.square(rows - codec.decode(codes)).sum(axis=1).mean())
        used = [len(np.unique(codes[:, stage])) / CODEWORDS for stage in range(codec.stages)]
        facts = {
            "validation loss before training": losses[0],
            "validation loss after training": losses[1],
            "best step": losses[2],
            "mean squared error": error,
            "codewords in use": float(np.mean(used)),
            "bytes per token": self.bytes_per_token,
        }
        if self.stages > self.bytes_per_token:
            asked = Packed(codec.prepare(queries.rows), queries.offsets)
            usefulness = loss_when_dropped(asked, Packed(rows, documents.offsets), codes[:, 0], candidates.rows)
            codec = replace(codec, keep=self.bytes_per_token / self.stages, usefulness=usefulness)
        return replace(codec, error=error, facts=facts)


def _packed(token_vectors: np.ndarray | Sequence[np.ndarray], offsets: np.ndarray | None) -> Packed:
    if isinstance(token_vectors, np.ndarray) and token_vectors.dtype != object:
        if offsets is None:
            raise InputError("Packed token vectors need their offsets; give them, or give a list of arrays.")
        return check_packed(token_vectors, offsets)
    if offsets is not None:
        raise InputError("A list of arrays needs no offsets; leave them out.")
    return pack(list(token_vectors))
