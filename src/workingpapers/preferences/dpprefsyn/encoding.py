"""The encoder of texts, by default the one that ships in a package, with a fingerprint that the model file keeps."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from workingpapers.foundations.text_encoder import TokenEncoder

WEIGHTS = ("*.safetensors", "*.bin")


@dataclass(frozen=True)
class Encoder:
    """Texts to unit rows.

    Args:
        tokens: The encoder.
        name: Its folder's name and a hash of what is in it.
    """

    tokens: TokenEncoder
    name: str

    def __call__(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return unit rows, shape (n, d).

        Args:
            texts: n texts.
        """
        return self.tokens.sentence_vectors(texts)


def load_encoder(folder: Path | None = None) -> Encoder:
    """Return the encoder in a folder of the Hugging Face layout, or all-MiniLM-L6-v2 from its package.

    Args:
        folder: The folder; None for the package.

    Raises:
        InputError: The folder is not that of an encoder, or the package is not installed.
    """
    tokens = TokenEncoder.packaged() if folder is None else TokenEncoder.from_path(folder)
    digest = hashlib.sha256()
    for pattern in ("config.json", "tokenizer.json", *WEIGHTS):
        for file in sorted(tokens.folder.glob(pattern)):
            with file.open("rb") as stream:
                digest.update(hashlib.file_digest(stream, "sha256").digest())
    shown = "all-MiniLM-L6-v2" if folder is None else folder.resolve().name
    return Encoder(tokens, f"{shown} sha256:{digest.hexdigest()[:16]}")
