"""Interoperation with OpenSSF model signing.

``openssf/files.sig`` and ``openssf/shards.sig`` were written by model-signing 1.1.1 over ``openssf/model``
(whole files, and shards of 10 bytes).
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from workingpapers.foundations.errors import InputError
from workingpapers.governance.arms_control.envelope import load_public_key, new_private_key, public_key_text
from workingpapers.governance.arms_control.items import check_item, differing_files, hash_file, read_items
from workingpapers.governance.arms_control.openssf import model_signature, read_manifest

FOLDER = Path(__file__).parent / "openssf"
NAMES = ["config.json", "layers/weights.bin"]


def declared(shard_size: int | None) -> dict[str, Any]:
    files = [hash_file(FOLDER / "model", name, shard_size or 1 << 30) for name in NAMES]
    return check_item({"id": "model", "kind": "model", "attributes": {}, "files": files})


@pytest.mark.parametrize("name", ["files.sig", "shards.sig"])
def test_signatures_of_the_reference_tool_are_read_and_hold(name: str) -> None:
    manifest = read_manifest(FOLDER / name, load_public_key(FOLDER / "public.pem"))  # type: ignore[arg-type]
    assert manifest.name == "model"
    item = check_item({"id": "m", "kind": "model", "attributes": {}, "files": manifest.file_records()})
    assert [record["name"] for record in item["files"]] == NAMES
    assert differing_files(item, FOLDER / "model") == []


def test_our_manifest_is_the_reference_tools(tmp_path: Path) -> None:
    """Same resources, same digest over them, for files and for shards."""
    for name, shard_size in (("files.sig", None), ("shards.sig", 10)):
        theirs = read_manifest(FOLDER / name)
        key = new_private_key("p256")
        path = tmp_path / name
        path.write_text(model_signature(declared(shard_size), key))  # type: ignore[arg-type]
        ours = read_manifest(path, key.public_key())  # type: ignore[arg-type]
        assert ours.digest == theirs.digest
        assert ours.resources == theirs.resources
        assert ours.serialization["method"] == theirs.serialization["method"]


def test_the_reference_tool_accepts_our_signature(tmp_path: Path) -> None:
    """Through its Python interface, which takes the way of hashing from the signature; its command hashes files."""
    verifying = pytest.importorskip("model_signing.verifying")
    key = new_private_key("p256")
    (tmp_path / "key.pub").write_text(public_key_text(key.public_key()))
    for shard_size in (None, 10):
        (tmp_path / "model.sig").write_text(model_signature(declared(shard_size), key))  # type: ignore[arg-type]
        verifier = verifying.Config().use_elliptic_key_verifier(public_key=tmp_path / "key.pub")
        verifier.verify(FOLDER / "model", tmp_path / "model.sig")


def test_changed_signatures_are_refused(tmp_path: Path) -> None:
    public = load_public_key(FOLDER / "public.pem")
    original = json.loads((FOLDER / "files.sig").read_text())
    path = tmp_path / "model.sig"

    def read(change: Any, key: Any = public) -> None:
        content = json.loads(json.dumps(original))
        change(content)
        path.write_text(json.dumps(content))
        read_manifest(path, key)

    import base64

    def edit(content: Any) -> None:
        payload = base64.b64decode(content["dsseEnvelope"]["payload"]).replace(b"config.json", b"konfig.json")
        content["dsseEnvelope"]["payload"] = base64.b64encode(payload).decode()

    def edit_digest(content: Any) -> None:
        payload = base64.b64decode(content["dsseEnvelope"]["payload"])
        first = payload.index(b'"digest": "') + 11
        changed = payload[:first] + (b"0" if payload[first : first + 1] != b"0" else b"1") + payload[first + 1 :]
        content["dsseEnvelope"]["payload"] = base64.b64encode(changed).decode()

    with pytest.raises(InputError, match="does not hold"):
        read(edit)
    with pytest.raises(InputError, match="does not hold"):
        read(lambda content: None, new_private_key("p256").public_key())
    with pytest.raises(InputError, match="not that of its resources"):
        read(edit_digest, None)
    with pytest.raises(InputError, match="another type"):
        read(lambda content: content.update(mediaType="x"))
    with pytest.raises(InputError, match="not an OpenSSF model signature"):
        read(lambda content: content.pop("dsseEnvelope"))
    with pytest.raises(InputError, match="Ed25519"):
        read(lambda content: None, new_private_key().public_key())


def test_manifests_are_sources_of_items(tmp_path: Path) -> None:
    items = tmp_path / "items.json"
    (tmp_path / "model.sig").write_text((FOLDER / "files.sig").read_text())
    items.write_text(
        json.dumps({"origin": "lab", "items": [{"id": "m", "kind": "model", "model_signing": "model.sig"}]})
    )
    _, (item,) = read_items(items)
    assert item["attributes"]["model_signing"]["sha256"] == read_manifest(FOLDER / "files.sig").digest
    assert [record["size"] for record in item["files"]] == [None, None]
    assert differing_files(item, FOLDER / "model") == []


def test_what_cannot_be_signed() -> None:
    with pytest.raises(InputError, match="declares no files"):
        model_signature({**declared(None), "files": []}, new_private_key("p256"))  # type: ignore[arg-type]
    with pytest.raises(InputError, match="elliptic-curve key"):
        model_signature(declared(None), new_private_key())  # type: ignore[arg-type]
    mixed = {**declared(10)}
    mixed["files"] = [mixed["files"][0], hash_file(FOLDER / "model", NAMES[1], 7)]
    with pytest.raises(InputError, match="several shard sizes"):
        model_signature(mixed, new_private_key("p256"))  # type: ignore[arg-type]
