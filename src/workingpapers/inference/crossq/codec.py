r"""The trained code as arrays: encoding and decoding with NumPy alone.

Stage m picks a codeword for a residual moved by what the document is about,

.. math::
    r_1 = e, \quad t_m = r_m + W_m^\top \mathrm{relu}(U^\top [e; c_D] + u), \quad
    k_m = \arg\min_k \|t_m - C_{m,k}\|, \quad r_{m+1} = r_m - C_{m, k_m},

with the document's context :math:`c_D = \rho(\frac1n \sum_j \phi(e_j))`, a mean over its tokens. The decoder is the
plain sum :math:`\hat e = \sum_m C_{m, k_m}`: it sees neither the context nor any other token, so the context costs no
byte.
"""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from workingpapers.foundations.errors import InputError
from workingpapers.foundations.files import check_readable, whole_file
from workingpapers.inference.crossq.vectors import Packed, check_packed, means, unit_rows

FORMAT = "crossq codec"
VERSION = 1
CODEWORDS = 256
BLOCK = 8192
LAYERS = ("phi_in", "phi_in_bias", "phi_out", "phi_out_bias", "rho", "rho_bias", "mix", "mix_bias", "shift")


@dataclass(frozen=True)
class Codec:
    """Everything needed to encode and decode; made by :meth:`CrossQ.fit`, used without torch.

    Args:
        codebooks: C, float32, shape (M, 256, d).
        width: Dimensions D of the vectors that it takes.
        projection: Linear map before coding, float32, shape (D, d), or None; rows are scaled to length one after it.
        layers: Weights of phi, rho, U (``mix``) and W (``shift``, shape (M, h, d)); empty for plain residual codes.
        use_context: Whether c_D enters; False conditions each token on itself alone.
        keep: Share of the tokens that is stored; the others are dropped.
        usefulness: Expected loss of score when a token with this first codeword is dropped, float32, shape (256,).
        error: Mean squared coding error of the training tokens.
        facts: What training measured, for people.
    """

    codebooks: np.ndarray
    width: int
    projection: np.ndarray | None = None
    layers: Mapping[str, np.ndarray] = field(default_factory=dict)
    use_context: bool = True
    keep: float = 1.0
    usefulness: np.ndarray | None = None
    error: float = 0.0
    facts: Mapping[str, Any] = field(default_factory=dict)

    @property
    def stages(self) -> int:
        """Bytes of a stored token, M."""
        return int(self.codebooks.shape[0])

    @property
    def dim(self) -> int:
        """Dimensions d of the decoded vectors."""
        return int(self.codebooks.shape[2])

    def prepare(self, rows: np.ndarray) -> np.ndarray:
        """Return vectors as the code sees them: projected, length one, shape (n, d).

        Args:
            rows: Token vectors, shape (n, D).
        """
        return unit_rows(rows if self.projection is None else rows @ self.projection)

    def encode(self, token_vectors: np.ndarray, offsets: np.ndarray | None = None) -> Packed:
        """Code the tokens of documents, each in the context of its own document.

        Args:
            token_vectors: Shape (sum n_j, D).
            offsets: Shape (N + 1,); None for one document.

        Returns:
            Codes, uint8, shape (kept, M), and their offsets, shape (N + 1,): those given unless `keep` is below one.

        Raises:
            InputError: The vectors do not fit (see :func:`~.vectors.check_packed`).
        """
        packed = check_packed(token_vectors, offsets, self.width)
        return self.encode_prepared(self.prepare(packed.rows), packed.offsets)

    def encode_prepared(self, rows: np.ndarray, offsets: np.ndarray) -> Packed:
        """Code vectors that :meth:`prepare` returned.

        Args:
            rows: Shape (sum n_j, d).
            offsets: Shape (N + 1,).
        """
        context = self.context(rows, offsets)
        codes = np.empty((len(rows), self.stages), dtype=np.uint8)
        owner = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
        for start in range(0, len(rows), BLOCK):
            block = slice(start, start + BLOCK)
            codes[block] = self._encode_block(rows[block], None if context is None else context[owner[block]])
        return self._drop(codes, offsets)

    def decode(self, codes: np.ndarray) -> np.ndarray:
        """Return the sum of the codewords, float32, shape (n, d).

        Args:
            codes: Codes, uint8, shape (n, M).

        Raises:
            InputError: The codes have another shape or dtype.
        """
        codes = np.asarray(codes)
        if codes.ndim != 2 or codes.shape[1] != self.stages or codes.dtype != np.uint8:
            raise InputError(
                f"The codes have shape {codes.shape} and dtype {codes.dtype}; (tokens, {self.stages}) uint8 is needed."
            )
        decoded: np.ndarray = self.codebooks[0][codes[:, 0]]
        for stage in range(1, self.stages):
            decoded += self.codebooks[stage][codes[:, stage]]
        return decoded

    def context(self, rows: np.ndarray, offsets: np.ndarray) -> np.ndarray | None:
        """Return c_D of each document, float32, shape (N, h); None where the code does not use it.

        Args:
            rows: Prepared vectors, shape (sum n_j, d).
            offsets: Shape (N + 1,).
        """
        if not self.layers or not self.use_context:
            return None
        layer = self.layers
        hidden = np.maximum(rows @ layer["phi_in"] + layer["phi_in_bias"], 0)
        # The second layer of phi is linear and so commutes with the mean: it is applied once a document.
        pooled = means(hidden, offsets) @ layer["phi_out"] + layer["phi_out_bias"]
        return np.asarray(np.maximum(pooled, 0) @ layer["rho"] + layer["rho_bias"], dtype=np.float32)

    def _encode_block(self, rows: np.ndarray, context: np.ndarray | None) -> np.ndarray:
        moved = None
        if self.layers:
            mix = self.layers["mix"]
            moved = rows @ mix[: self.dim] + self.layers["mix_bias"]
            if context is not None:
                moved += context @ mix[self.dim :]
            np.maximum(moved, 0, out=moved)
        residual = rows.copy()
        codes = np.empty((len(rows), self.stages), dtype=np.uint8)
        for stage, codebook in enumerate(self.codebooks):
            target = residual if moved is None else residual + moved @ self.layers["shift"][stage]
            chosen = np.argmax(target @ codebook.T - 0.5 * np.einsum("kd,kd->k", codebook, codebook), axis=1)
            codes[:, stage] = chosen
            residual -= codebook[chosen]
        return codes

    def _drop(self, codes: np.ndarray, offsets: np.ndarray) -> Packed:
        if self.keep >= 1 or self.usefulness is None:
            return Packed(codes, offsets)
        counts = np.maximum(1, np.rint(np.diff(offsets) * self.keep)).astype(np.int64)
        owner = np.repeat(np.arange(len(counts)), np.diff(offsets))
        # Within a document the most useful tokens come first; of equal ones, by codes, so that order does not matter.
        keys = [codes[:, stage] for stage in range(self.stages - 1, -1, -1)]
        order = np.lexsort([*keys, -self.usefulness[codes[:, 0]], owner])
        rank = np.arange(len(codes)) - np.repeat(offsets[:-1], np.diff(offsets))
        kept = np.sort(order[rank < counts[owner]])
        return Packed(codes[kept], np.concatenate([[0], np.cumsum(counts)]).astype(np.int64))

    def without_conditioning(self) -> Codec:
        """Return the same codebooks with greedy residual choice."""
        return replace(self, layers={})

    def to_bytes(self) -> bytes:
        """Return the codec as the bytes of an ``.npz`` archive."""
        arrays: dict[str, np.ndarray] = {"codebooks": self.codebooks, **self.layers}
        if self.projection is not None:
            arrays["projection"] = self.projection
        if self.usefulness is not None:
            arrays["usefulness"] = self.usefulness
        header = {
            "format": FORMAT,
            "version": VERSION,
            "width": self.width,
            "use_context": self.use_context,
            "keep": self.keep,
            "error": self.error,
            "facts": dict(self.facts),
        }
        buffer = io.BytesIO()
        np.savez(buffer, header=np.array(json.dumps(header)), **arrays)  # type: ignore[arg-type]
        return buffer.getvalue()

    @classmethod
    def from_bytes(cls, content: bytes, name: str) -> Codec:
        """Read what :meth:`to_bytes` wrote.

        Args:
            content: The bytes.
            name: How messages name the source.

        Raises:
            InputError: It is no codec, is damaged, or is of a newer version.
        """
        try:
            with np.load(io.BytesIO(content), allow_pickle=False) as archive:
                header = json.loads(str(archive["header"]))
                arrays = {key: archive[key] for key in archive.files if key != "header"}
            if header["format"] != FORMAT:
                raise KeyError("format")
        except (OSError, ValueError, KeyError, zipfile.BadZipFile, EOFError):
            raise InputError(f"{name!r} is not a codec of crossq or is damaged; save it again.") from None
        if header["version"] > VERSION:
            raise InputError(
                f"{name!r} has version {header['version']}; this release reads up to {VERSION}: upgrade it."
            )
        return cls(
            codebooks=arrays["codebooks"],
            width=header["width"],
            projection=arrays.get("projection"),
            layers={key: arrays[key] for key in LAYERS if key in arrays},
            use_context=header["use_context"],
            keep=header["keep"],
            usefulness=arrays.get("usefulness"),
            error=header["error"],
            facts=header["facts"],
        )

    def save(self, path: str | Path) -> None:
        """Write the codec to a file, whole or not at all.

        Args:
            path: The file, ``.npz`` by custom.
        """
        with whole_file(path, "wb") as stream:
            stream.write(self.to_bytes())

    @classmethod
    def load(cls, path: str | Path) -> Codec:
        """Read a codec that :meth:`save` wrote.

        Args:
            path: The file.
        """
        return cls.from_bytes(check_readable(path).read_bytes(), str(path))
