from itertools import pairwise

import faiss
import numpy as np
import pytest

from workingpapers.foundations.errors import InputError
from workingpapers.inference.crossq import Codec, CrossQ, Packed, pack
from workingpapers.inference.crossq.initial import residual_codebooks
from workingpapers.inference.crossq.vectors import unit_rows

DIM, HIDDEN = 16, 8


def random_documents(seed=0, count=40, low=3, high=12, dim=DIM):
    rng = np.random.default_rng(seed)
    return [unit_rows(rng.standard_normal((int(rng.integers(low, high)), dim))) for _ in range(count)]


def random_codec(seed=0, stages=3, conditioned=True, use_context=True, dim=DIM):
    rng = np.random.default_rng(seed)

    def draw(*shape):
        return (rng.standard_normal(shape) * 0.3).astype(np.float32)

    layers = {
        "phi_in": draw(dim, HIDDEN), "phi_in_bias": draw(HIDDEN), "phi_out": draw(HIDDEN, HIDDEN),
        "phi_out_bias": draw(HIDDEN), "rho": draw(HIDDEN, HIDDEN), "rho_bias": draw(HIDDEN),
        "mix": draw(dim + HIDDEN, HIDDEN), "mix_bias": draw(HIDDEN), "shift": draw(stages, HIDDEN, dim),
    }  # fmt: skip
    return Codec(draw(stages, 256, dim), dim, layers=layers if conditioned else {}, use_context=use_context)


def encode_by_definition(codec, document):
    """Follow the formulas token by token, in float64."""
    layer = {name: value.astype(float) for name, value in codec.layers.items()}
    hidden = [np.maximum(e @ layer["phi_in"] + layer["phi_in_bias"], 0) for e in document.astype(float)]
    phi = np.mean([h @ layer["phi_out"] + layer["phi_out_bias"] for h in hidden], axis=0)
    context = np.maximum(phi, 0) @ layer["rho"] + layer["rho_bias"]
    codes = []
    for e in document.astype(float):
        moved = np.maximum(np.concatenate([e, context]) @ layer["mix"] + layer["mix_bias"], 0)
        residual, chosen = e.copy(), []
        for stage in range(codec.stages):
            target = residual + moved @ layer["shift"][stage]
            distances = np.square(target - codec.codebooks[stage].astype(float)).sum(axis=1)
            chosen.append(int(np.argmin(distances)))
            residual -= codec.codebooks[stage][chosen[-1]]
        codes.append(chosen)
    return np.array(codes)


def test_codes_follow_the_definition():
    codec, documents = random_codec(), random_documents()
    codes, offsets = codec.encode(*pack(documents))
    expected = np.concatenate([encode_by_definition(codec, document) for document in documents])
    assert (codes == expected).all()
    assert offsets[-1] == len(codes)


def test_conditioning_and_context_change_codes():
    packed = pack(random_documents())
    document, token, plain = (
        random_codec(), random_codec(use_context=False), random_codec(conditioned=False)
    )  # fmt: skip
    codes = [codec.encode(*packed).rows for codec in (document, token, plain)]
    assert (codes[0] != codes[1]).any()
    assert (codes[1] != codes[2]).any()


def test_without_a_shift_codes_are_those_of_faiss_greedy_residual_quantisation():
    packed = pack(random_documents(count=300))
    quantiser = faiss.ResidualQuantizer(DIM, 3, 8)
    quantiser.max_beam_size = 1
    quantiser.train(packed.rows)
    books = faiss.vector_to_array(quantiser.codebooks).reshape(3, 256, DIM)
    start = random_codec()
    layers = {**start.layers, "shift": np.zeros_like(start.layers["shift"])}
    codec = Codec(books, DIM, layers=layers)
    codes = codec.encode(*packed).rows
    assert (codes == quantiser.compute_codes(packed.rows)).all()
    assert np.allclose(codec.decode(codes), quantiser.decode(quantiser.compute_codes(packed.rows)), atol=1e-6)


def test_error_falls_with_every_stage_of_greedy_codebooks():
    packed = pack(random_documents(count=300))
    books = residual_codebooks(packed.rows, 4, seed=0)
    errors = []
    for stages in (1, 2, 3, 4):
        codec = Codec(books[:stages], DIM)
        errors.append(np.square(packed.rows - codec.decode(codec.encode(*packed).rows)).sum(axis=1).mean())
    assert errors[0] < 1
    assert all(later < earlier for earlier, later in pairwise(errors))


def test_permuting_tokens_permutes_codes_and_duplicates_change_nothing():
    codec, document = random_codec(), random_documents(count=1, low=11)[0]
    codes = codec.encode(document).rows
    order = np.random.default_rng(1).permutation(len(document))
    assert (codec.encode(document[order]).rows == codes[order]).all()
    doubled = codec.encode(np.repeat(document, 2, axis=0)).rows
    assert (doubled == np.repeat(codes, 2, axis=0)).all()


def test_a_document_is_coded_alike_alone_and_among_others():
    codec, documents = random_codec(), random_documents(count=60)
    together, offsets = codec.encode(*pack(documents))
    for number, document in enumerate(documents):
        assert (codec.encode(document).rows == together[offsets[number] : offsets[number + 1]]).all()


def test_the_context_is_that_of_the_own_document():
    codec, documents = random_codec(), random_documents(count=2, low=9)
    first = codec.encode(documents[0]).rows
    joined = codec.encode(np.concatenate(documents)).rows[: len(first)]
    assert (joined != first).any()


def test_decoding_sees_one_token_at_a_time():
    codec = random_codec()
    codes = np.random.default_rng(0).integers(0, 256, (20, 3), dtype=np.uint8)
    changed = codes.copy()
    changed[7, 1] ^= 3
    differs = (codec.decode(codes) != codec.decode(changed)).any(axis=1)
    assert differs.tolist() == [row == 7 for row in range(20)]


def test_codebooks_that_hold_the_tokens_decode_exactly():
    documents = random_documents(count=20, low=4, high=9)
    packed = pack(documents)
    assert len(packed.rows) <= 256
    book = np.full((1, 256, DIM), 9.0, dtype=np.float32)
    book[0, : len(packed.rows)] = packed.rows
    codec = Codec(book, DIM)
    assert np.allclose(codec.decode(codec.encode(*packed).rows), packed.rows, atol=1e-6)


def test_dropping_keeps_the_most_useful_tokens_of_each_document():
    usefulness = np.random.default_rng(0).random(256).astype(np.float32)
    base = random_codec()
    codec = Codec(base.codebooks, DIM, layers=base.layers, keep=0.5, usefulness=usefulness)
    documents = [*random_documents(), random_documents(low=1, high=2, count=1)[0]]
    packed = pack(documents)
    full = base.encode(*packed)
    kept = codec.encode(*packed)
    for number in range(len(documents)):
        everything = full.rows[full.offsets[number] : full.offsets[number + 1]]
        rest = kept.rows[kept.offsets[number] : kept.offsets[number + 1]]
        assert len(rest) == max(1, round(len(everything) / 2))
        lowest = np.sort(usefulness[everything[:, 0]])[::-1][len(rest) - 1]
        assert (usefulness[rest[:, 0]] >= lowest).all()
    shuffled = np.concatenate([document[::-1] for document in documents])
    again = codec.encode(shuffled, packed.offsets)
    for number in range(len(documents)):
        part = slice(kept.offsets[number], kept.offsets[number + 1])
        assert sorted(map(tuple, again.rows[part])) == sorted(map(tuple, kept.rows[part]))


@pytest.mark.parametrize("conditioning", ["document", "token", "none"])
def test_saved_and_loaded_codes_are_identical(tmp_path, conditioning):
    documents = random_documents(count=60, dim=24)
    fitted = CrossQ(2, stages=3, dim=DIM, conditioning=conditioning, steps=3).fit(documents)
    fitted.save(tmp_path / "codec.npz")
    loaded = CrossQ.load(tmp_path / "codec.npz")
    before, after = fitted.encode(documents), loaded.encode(documents)
    assert (before.rows == after.rows).all()
    assert (before.offsets == after.offsets).all()
    assert (fitted.score(documents[3], before) == loaded.score(documents[3], after)).all()
    assert (loaded.conditioning, loaded.bytes_per_token, loaded.stages) == (conditioning, 2, 3)
    assert loaded.codec.facts == fitted.codec.facts


def test_files_that_hold_no_codec_are_told(tmp_path):
    path = tmp_path / "codec.npz"
    random_codec().save(path)
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(InputError, match=r"codec\.npz"):
        Codec.load(path)
    np.savez(path, header=np.array('{"format": "other"}'))
    with pytest.raises(InputError, match="not a codec"):
        Codec.load(path)
    with pytest.raises(InputError, match="no file"):
        Codec.load(tmp_path / "nothing.npz")


@pytest.mark.parametrize(
    ("rows", "offsets", "words"),
    [
        (np.ones((4, DIM + 1), np.float32), None, f"{DIM + 1} dimensions"),
        (np.ones((4, DIM), np.int64), None, "dtype int64"),
        (np.ones((4, DIM), np.float32), np.array([0, 2, 2, 4]), "Document 1 has no tokens"),
        (np.ones((4, DIM), np.float32), np.array([0, 2, 5]), "to 4"),
        (np.ones((4, DIM), np.float32), np.array([0.0, 4.0]), "integers"),
        (np.where(np.eye(4, DIM) > 0, np.nan, 1).astype(np.float32), None, "Token 0"),
        (np.zeros((0, DIM), np.float32), None, "at least one token"),
    ],
)
def test_vectors_that_do_not_fit_are_told(rows, offsets, words):
    with pytest.raises(InputError, match=words):
        random_codec().encode(rows, offsets)


def test_codes_that_do_not_fit_are_told():
    with pytest.raises(InputError, match="int64"):
        random_codec().decode(np.zeros((3, 3), np.int64))
    with pytest.raises(InputError, match="3"):
        random_codec().decode(np.zeros((3, 2), np.uint8))


def test_pack_takes_lists_of_any_float_and_refuses_ragged_ones():
    packed = pack([np.ones((2, 3), np.float16), np.zeros((1, 3), np.float64)])
    assert packed.rows.dtype == np.float32
    assert packed.offsets.tolist() == [0, 2, 3]
    for wrong in ([], [np.ones((2, 3)), np.ones((2, 4))], [np.ones((2, 3)), np.ones((0, 3))], [np.ones(3)]):
        with pytest.raises(InputError):
            pack(wrong)
    assert isinstance(packed, Packed)
