import json
import os
import subprocess
import sys
from functools import partial

import numpy as np
import pytest

from workingpapers.foundations.errors import InputError
from workingpapers.inference.crossq import Codec, MultiVectorIndex, pack
from workingpapers.inference.crossq import index as index_module
from workingpapers.inference.crossq.segment import keys_of
from workingpapers.inference.crossq.vectors import unit_rows

DIM = 16


def vectors(seed, count, low=1, high=9):
    rng = np.random.default_rng(seed)
    return [unit_rows(rng.standard_normal((int(rng.integers(low, high)), DIM))) for _ in range(count)]


@pytest.fixture
def codec():
    rng = np.random.default_rng(0)
    return Codec((rng.standard_normal((3, 256, DIM)) * 0.5).astype(np.float32), DIM)


def texts(count, start=0):
    return [f"doc/{number} é" for number in range(start, start + count)]


def expected_scores(codec, query, documents):
    found = []
    for document in documents:
        decoded = codec.decode(codec.encode(document).rows)
        found.append(float((unit_rows(query) @ decoded.T).max(axis=1).sum()))
    return np.array(found)


def snapshot(folder, query):
    hits = MultiVectorIndex.open(folder, verify=True).search(query, 1000)
    return hits.ids, hits.scores.tolist()


@pytest.mark.parametrize("names", [texts(120), [7 * number - 300 for number in range(120)]])
def test_search_gives_exact_scores_of_the_codes(tmp_path, codec, names):
    documents, query = vectors(1, 120), vectors(2, 1, 5, 6)[0]
    MultiVectorIndex.build(tmp_path / "idx", codec, zip(names, documents, strict=True), batch=7)
    index = MultiVectorIndex.open(tmp_path / "idx", verify=True)
    expected = expected_scores(codec, query, documents)
    hits = index.search(query, 10)
    order = np.argsort(-expected)[:10]
    assert hits.ids == [names[row] for row in order]
    assert np.allclose(hits.scores, expected[order], atol=1e-4)
    chosen = [names[row] for row in (5, 80, 17)]
    some = index.search(query, 10, candidates=chosen)
    best = sorted((5, 80, 17), key=lambda row: -expected[row])
    assert some.ids == [names[row] for row in best]
    assert len(index) == 120
    assert names[3] in index
    assert "elsewhere" not in index


def test_bytes_on_disk_are_what_they_should_be(tmp_path, codec):
    documents = vectors(1, 50)
    index = MultiVectorIndex.build(tmp_path / "idx", codec, zip(texts(50), documents, strict=True))
    tokens = sum(map(len, documents))
    sizes = index.sizes()
    assert sizes["codes"] == 3 * tokens
    assert sizes["offsets"] == 8 * 51
    assert sizes["pooled"] == DIM * 50
    assert sizes["scales"] == 4 * 50
    assert sizes["codec"] == len(codec.to_bytes())
    assert 3 * 256 * DIM * 4 < sizes["codec"] < 3 * 256 * DIM * 4 + 2000
    on_disk = sum(path.stat().st_size for path in (tmp_path / "idx").glob("*.crossq"))
    assert sum(sizes.values()) == on_disk


def test_add_delete_replace_and_compact(tmp_path, codec):
    documents, query = vectors(1, 40), vectors(2, 1, 4, 5)[0]
    folder = tmp_path / "idx"
    index = MultiVectorIndex.build(folder, codec, zip(texts(30), documents[:30], strict=True))
    index.add(zip(texts(10, 30), documents[30:], strict=True))
    whole = MultiVectorIndex.build(tmp_path / "whole", codec, zip(texts(40), documents, strict=True))
    assert index.search(query, 40).ids == whole.search(query, 40).ids
    best = index.search(query, 1).ids[0]
    index.delete([best])
    assert best not in index
    assert best not in index.search(query, 40).ids
    assert best not in MultiVectorIndex.open(folder).search(query, 40, probe=20).ids
    assert len(index) == 39
    with pytest.raises(InputError, match="holds no document"):
        index.search(query, candidates=[best])
    with pytest.raises(InputError, match="already"):
        index.add([(texts(1)[0], documents[5])])
    index.add([(texts(1)[0], documents[5]), (best, documents[int(best.split("/")[1].split()[0])])], replace=True)
    changed = index.search(query, 40)
    assert len(index) == 40
    assert changed.ids[0] == best
    score = dict(zip(changed.ids, changed.scores, strict=True))
    assert score[texts(1)[0]] == pytest.approx(expected_scores(codec, query, [documents[5]])[0], abs=1e-4)
    before = dict(zip(changed.ids, changed.scores.tolist(), strict=True))
    index.compact()
    after = MultiVectorIndex.open(folder, verify=True).search(query, 40)
    assert dict(zip(after.ids, after.scores.tolist(), strict=True)) == before
    assert len(index.segments) == 1
    assert index.sizes()["codes"] == 3 * index.tokens
    assert {path.suffix for path in folder.iterdir()} <= {".crossq", ".json", ""}


def test_probing_passes_on_the_best_pooled_vectors(tmp_path, codec):
    documents, query = vectors(1, 500, 4, 9), vectors(2, 1, 4, 5)[0]
    index = MultiVectorIndex.build(tmp_path / "idx", codec, enumerate(documents))
    index.add((500 + number, document) for number, document in enumerate(vectors(3, 100, 4, 9)))
    everything = [*documents, *vectors(3, 100, 4, 9)]
    pooled = unit_rows(np.stack([document.mean(axis=0) for document in everything]))
    order = np.argsort(-(pooled @ query.mean(axis=0)))
    hits = index.search(query, 20, probe=60)
    assert set(hits.ids) <= set(order[:75].tolist())
    expected = expected_scores(codec, query, everything)
    sure = order[:45]
    assert set(sure[np.argsort(-expected[sure])[:3]].tolist()) <= set(hits.ids)
    assert np.allclose(hits.scores, expected[hits.ids], atol=1e-4)
    assert index.search(query, 600, probe=None).ids == np.argsort(-expected, kind="stable").tolist()
    gone = order[:50].tolist()
    index.delete(gone)
    left = index.search(query, 20, probe=60)
    assert len(left.ids) == 20
    assert not set(left.ids) & set(gone)


def failing(documents, after):
    for number, item in enumerate(documents):
        if number == after:
            raise RuntimeError("the source broke")
        yield item


@pytest.mark.parametrize("action", ["build", "add"])
def test_a_source_that_breaks_leaves_the_old_index_whole(tmp_path, codec, action):
    folder, query = tmp_path / "idx", vectors(2, 1)[0]
    index = MultiVectorIndex.build(folder, codec, zip(texts(20), vectors(1, 20), strict=True))
    before, files = snapshot(folder, query), sorted(path.name for path in folder.iterdir())
    more = failing(zip(texts(20, 20), vectors(4, 20), strict=True), 15)
    write = partial(MultiVectorIndex.build, folder, codec) if action == "build" else index.add
    with pytest.raises(RuntimeError, match="the source broke"):
        write(more, batch=4)
    assert snapshot(folder, query) == before
    assert sorted(path.name for path in folder.iterdir()) == files
    with pytest.raises(RuntimeError):
        MultiVectorIndex.build(tmp_path / "new", codec, failing(zip(texts(9), vectors(4, 9), strict=True), 5), batch=2)
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("moment", ["documents", "manifest"])
def test_a_killed_writer_leaves_the_old_index_whole(tmp_path, codec, moment):
    folder, query = tmp_path / "idx", vectors(2, 1)[0]
    MultiVectorIndex.build(folder, codec, zip(texts(20), vectors(1, 20), strict=True))
    before, files = snapshot(folder, query), {path.name for path in folder.iterdir()}
    script = f"""
import os, numpy as np
from workingpapers.inference.crossq import MultiVectorIndex, storage
def documents():
    for number in range(40):
        if number == 30 and {moment!r} == "documents":
            os._exit(9)
        yield f"new{{number}}", np.eye(3, {DIM}, dtype=np.float32)
def write(folder, manifest):
    os._exit(9)
if {moment!r} == "manifest":
    storage.write_manifest = write
MultiVectorIndex.open({str(folder)!r}).add(documents(), batch=4)
"""
    done = subprocess.run([sys.executable, "-c", script], env=os.environ.copy(), check=False)
    assert done.returncode == 9
    assert {path.name for path in folder.iterdir()} > files
    assert snapshot(folder, query) == before
    MultiVectorIndex.open(folder).add(zip(texts(5, 20), vectors(4, 5), strict=True))
    index = MultiVectorIndex.open(folder, verify=True)
    assert len(index) == 25
    named = {entry["file"] for segment in index.manifest["segments"] for entry in segment["files"].values()}
    assert {path.name for path in folder.glob("*.crossq")} == named | {index.manifest["codec"]["file"]}


def test_every_damaged_file_is_named(tmp_path, codec):
    folder, query = tmp_path / "idx", vectors(2, 1)[0]
    index = MultiVectorIndex.build(folder, codec, zip(texts(20), vectors(1, 20), strict=True))
    index.delete(texts(1))
    for path in sorted(folder.glob("*.crossq")):
        whole = path.read_bytes()
        middle = len(whole) // 2
        path.write_bytes(whole[:middle] + bytes([whole[middle] ^ 1]) + whole[middle + 1 :])
        with pytest.raises(InputError, match=f"{path.name}.*damaged"):
            MultiVectorIndex.open(folder, verify=True)
        path.write_bytes(whole[:-1])
        with pytest.raises(InputError, match=f"{path.name}.*damaged"):
            MultiVectorIndex.open(folder)
        path.unlink()
        with pytest.raises(InputError, match=path.name):
            MultiVectorIndex.open(folder)
        path.write_bytes(whole)
    assert len(snapshot(folder, query)[0]) == 19


def test_damaged_and_newer_manifests_are_told(tmp_path, codec):
    folder = tmp_path / "idx"
    MultiVectorIndex.build(folder, codec, zip(texts(20), vectors(1, 20), strict=True))
    path = folder / "manifest.json"
    text = path.read_text()
    for wrong, words in (
        (text.replace('"documents": 20', '"documents": 21'), "damaged"),
        (text.replace('"version": 1', '"version": 2'), "version 2"),
        (text[:50], "damaged"),
        (json.dumps({"format": "other", "sha256": ""}), "not the manifest"),
        ("[]", "not the manifest"),
    ):
        assert wrong != text
        path.write_text(wrong)
        with pytest.raises(InputError, match=words):
            MultiVectorIndex.open(folder)
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InputError, match="not an index"):
        MultiVectorIndex.open(folder)
    with pytest.raises(InputError, match="not an index"):
        MultiVectorIndex.open(tmp_path / "nowhere")


def test_wrong_identifiers_are_told(tmp_path, codec):
    documents = vectors(1, 3)
    for names, words in (
        (["a", "b", "a"], "'a' is given twice"),
        ([1, 2, 1], "1 is given twice"),
        (["a", 2, "c"], "2 is not a text"),
        ([1, "b", 3], "'b' is not a 64-bit integer"),
        ([1, True, 3], "True"),
        ([1, 2**63, 3], str(2**63)),
        (["", "b", "c"], "''"),
    ):
        with pytest.raises(InputError, match=words):
            MultiVectorIndex.build(tmp_path / "idx", codec, zip(names, documents, strict=True), batch=2)
        assert not (tmp_path / "idx").exists()
    index = MultiVectorIndex.build(tmp_path / "idx", codec, zip("abc", documents, strict=True))
    with pytest.raises(InputError, match="'z'"):
        index.delete(["a", "z"])
    assert "a" in index
    with pytest.raises(InputError, match="5"):
        index.search(documents[0], candidates=[5])
    with pytest.raises(InputError, match="at least one"):
        index.search(documents[0], candidates=[])


def test_texts_with_the_same_key_stay_apart(tmp_path, codec, monkeypatch):
    monkeypatch.setattr("workingpapers.inference.crossq.segment.keys_of", lambda names, kind: np.zeros(len(names), int))
    monkeypatch.setattr(index_module, "keys_of", lambda names, kind: np.zeros(len(names), int))
    documents = vectors(1, 6)
    index = MultiVectorIndex.build(tmp_path / "idx", codec, zip(texts(6), documents, strict=True))
    expected = expected_scores(codec, documents[0], documents)
    for number, name in enumerate(texts(6)):
        hits = index.search(documents[0], candidates=[name])
        assert hits.ids == [name]
        assert hits.scores[0] == pytest.approx(expected[number], abs=1e-4)
    with pytest.raises(InputError, match="twice"):
        MultiVectorIndex.build(tmp_path / "two", codec, zip(["a", "b", "a"], documents[:3], strict=True))


def test_keys_of_texts_are_fixed_for_ever():
    assert keys_of(["arXiv:2608.19204"], "text").tolist() == [2224482293057745214]
    assert keys_of([-5, 9], "integer").tolist() == [-5, 9]


def test_building_holds_one_batch_at_a_time(tmp_path, codec):
    alive, most = [0], [0]

    class Counted(np.ndarray):
        def __del__(self):
            if self.base is None:
                alive[0] -= 1

    def documents():
        for number in range(400):
            item = np.ones((3, DIM), np.float32)
            counted = np.ndarray.__new__(Counted, item.shape, item.dtype)
            counted[:] = item
            alive[0] += 1
            most[0] = max(most[0], alive[0])
            yield number, counted
            del counted

    index = MultiVectorIndex.build(tmp_path / "idx", codec, documents(), batch=10)
    assert len(index) == 400
    assert most[0] <= 30


def test_one_writer_at_a_time_and_folders_of_others_are_left_alone(tmp_path, codec):
    folder = tmp_path / "idx"
    index = MultiVectorIndex.build(folder, codec, zip(texts(5), vectors(1, 5), strict=True))
    other = MultiVectorIndex.open(folder)

    def adding():
        with pytest.raises(InputError, match="another process"):
            other.delete(texts(1))
        yield "late", vectors(4, 1)[0]

    index.add(adding())
    assert len(MultiVectorIndex.open(folder)) == 6
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("words")
    with pytest.raises(InputError, match="is not an index"):
        MultiVectorIndex.build(tmp_path / "mine", codec, zip(texts(5), vectors(1, 5), strict=True))
    assert (tmp_path / "mine" / "thesis.txt").read_text() == "words"
    with pytest.raises(InputError, match="no document"):
        MultiVectorIndex.build(tmp_path / "empty", codec, [])


def test_an_open_index_outlives_its_replacement(tmp_path, codec):
    folder, query = tmp_path / "idx", vectors(2, 1)[0]
    old = MultiVectorIndex.build(folder, codec, zip(texts(20), vectors(1, 20), strict=True))
    before = old.search(query, 5)
    MultiVectorIndex.build(folder, codec, zip(texts(20, 50), vectors(7, 20), strict=True))
    assert old.search(query, 5).ids == before.ids
    assert set(MultiVectorIndex.open(folder).search(query, 20).ids) == set(texts(20, 50))


def test_documents_unlike_the_training_warn(tmp_path, codec):
    near = Codec(codec.codebooks, DIM, error=1e-6)
    with pytest.warns(UserWarning, match="squared error"):
        MultiVectorIndex.build(tmp_path / "idx", near, zip(texts(5), vectors(1, 5), strict=True))


def test_wrong_queries_are_told(tmp_path, codec):
    index = MultiVectorIndex.build(tmp_path / "idx", codec, zip(texts(5), vectors(1, 5), strict=True))
    with pytest.raises(InputError, match="k is 0"):
        index.search(vectors(1, 1)[0], 0)
    with pytest.raises(InputError, match="17 dimensions"):
        index.search(np.ones((2, 17), np.float32))
    with pytest.raises(InputError, match="at least one token"):
        index.search(np.ones((0, DIM), np.float32))
    assert index.metadata == {}
    assert pack(vectors(1, 5)).offsets[-1] == index.tokens


def test_a_search_needs_no_torch(tmp_path, codec):
    MultiVectorIndex.build(tmp_path / "idx", codec, zip(texts(5), vectors(1, 5), strict=True))
    script = f"""
import sys, numpy as np
from workingpapers.inference.crossq import MultiVectorIndex
MultiVectorIndex.open({str(tmp_path / "idx")!r}).search(np.eye(2, {DIM}, dtype=np.float32))
print([name for name in ("torch", "faiss", "transformers", "pandas") if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
