"""The forward pass of a BERT encoder in NumPy: for a query or two, where loading torch takes longer than the answer.

For a batch use torch (`foundations.text_encoder` chooses). Both agree to 1e-5.

References:
    Devlin, Chang, Lee and Toutanova (2019). BERT. arXiv:1810.04805.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import erf

from workingpapers.foundations.errors import InputError

Floats = NDArray[np.float32]


class NumpyBert:
    """A BERT encoder (post-layer-norm, absolute positions, erf GELU) whose weights are mapped from `model.safetensors`.

    Args:
        folder: A folder in the Hugging Face layout with `config.json` and `model.safetensors`.

    Raises:
        InputError: When the folder holds another architecture.
    """

    def __init__(self, folder: Path) -> None:
        from safetensors import safe_open

        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        kind, activation = config.get("model_type"), config.get("hidden_act")
        if kind != "bert" or activation != "gelu" or config.get("position_embedding_type", "absolute") != "absolute":
            raise InputError(f"{folder} holds a {kind!r} model, and only a BERT encoder runs without torch.")
        self.heads: int = config["num_attention_heads"]
        self.layers: int = config["num_hidden_layers"]
        self.epsilon: float = config["layer_norm_eps"]
        self._file: Any = safe_open(str(folder / "model.safetensors"), "np")
        self._weights: dict[str, Floats] = {}

    def _weight(self, name: str) -> Floats:
        if name not in self._weights:
            self._weights[name] = self._file.get_tensor(name)
        return self._weights[name]

    def _linear(self, name: str, values: Floats) -> Floats:
        result: Floats = values @ self._weight(f"{name}.weight").T + self._weight(f"{name}.bias")
        return result

    def _norm(self, name: str, values: Floats) -> Floats:
        centred = values - values.mean(axis=-1, keepdims=True)
        scale = np.sqrt((centred**2).mean(axis=-1, keepdims=True) + self.epsilon)
        result: Floats = centred / scale * self._weight(f"{name}.weight") + self._weight(f"{name}.bias")
        return result

    def _attention(self, name: str, values: Floats) -> Floats:
        tokens, width = values.shape
        query, key, value = (
            self._linear(f"{name}.self.{part}", values).reshape(tokens, self.heads, -1).transpose(1, 0, 2)
            for part in ("query", "key", "value")
        )
        logits = query @ key.transpose(0, 2, 1) / np.sqrt(np.float32(width // self.heads))
        logits -= logits.max(axis=-1, keepdims=True)
        weights = np.exp(logits)
        weights /= weights.sum(axis=-1, keepdims=True)
        mixed = (weights @ value).transpose(1, 0, 2).reshape(tokens, width)
        return self._linear(f"{name}.output.dense", mixed)

    def hidden_states(self, token_ids: Sequence[int]) -> Floats:
        """Return the last hidden states of one text.

        Args:
            token_ids: Word pieces with the special tokens, n of them.

        Returns:
            float32 (n, d).
        """
        rows = self._file.get_slice("embeddings.word_embeddings.weight")
        words = np.concatenate([rows[int(token) : int(token) + 1] for token in token_ids])
        places = self._weight("embeddings.position_embeddings.weight")[: len(token_ids)]
        states = self._norm(
            "embeddings.LayerNorm", words + places + self._weight("embeddings.token_type_embeddings.weight")[0]
        )
        for index in range(self.layers):
            name = f"encoder.layer.{index}"
            states = self._norm(
                f"{name}.attention.output.LayerNorm", states + self._attention(f"{name}.attention", states)
            )
            inner = self._linear(f"{name}.intermediate.dense", states)
            inner = np.float32(0.5) * inner * (1 + erf(inner / np.sqrt(np.float32(2))))
            states = self._norm(f"{name}.output.LayerNorm", states + self._linear(f"{name}.output.dense", inner))
        return states
