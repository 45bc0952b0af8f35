"""Declared items: what is declared, how its files are hashed, and the salted leaf that commits to it."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path, PurePosixPath
from typing import Any

from workingpapers.foundations.canonical_json import canonical, parse_strict
from workingpapers.foundations.errors import InputError, near_match
from workingpapers.foundations.files import read_text
from workingpapers.foundations.merkle import leaf_hash
from workingpapers.foundations.progress import Progress, silent

KINDS = ("model", "checkpoint", "dataset", "accelerator", "training_run", "deployment")
SALT_SIZE = 32
SHARD_SIZE = 1 << 30
CHUNK = 1 << 20
ITEM_FIELDS = ("attributes", "files", "id", "kind")


def salted_leaf(item: Mapping[str, Any], salt: bytes) -> bytes:
    r"""Return the leaf that commits to `item` and hides it.

    :math:`\mathrm{SHA256}(\mathtt{00} \,\|\, salt \,\|\, \mathrm{JCS}(item))`: binding because SHA-256 resists
    collisions, hiding because nobody can guess 32 random bytes.

    Args:
        item: A declared item (see :func:`check_item`).
        salt: 32 secret random bytes, fresh for each item.

    Returns:
        The leaf hash, 32 bytes.

    Raises:
        ValueError: The salt has another length.
    """
    if len(salt) != SALT_SIZE:
        raise ValueError(f"the salt has {len(salt)} bytes; {SALT_SIZE} are needed")
    return leaf_hash(salt + canonical(item))


def tag(identifier: str, directory_salt: bytes) -> bytes:
    r"""Return the leaf of the directory of identifiers, :math:`\mathrm{SHA256}(\mathtt{02}\,\|\,salt\,\|\,identifier)`.

    The directory is sorted by tag, so that two neighbours prove that nothing stands between them. Its salt is public:
    it stops tables made in advance, not the guessing of one identifier.

    Args:
        identifier: Id of an item.
        directory_salt: Public salt of the declaration, 32 bytes.
    """
    return hashlib.sha256(b"\x02" + directory_salt + identifier.encode("utf-8")).digest()


def check_item(item: Any) -> dict[str, Any]:
    """Return `item` if it has the form of a declared item.

    Args:
        item: ``{"id": str, "kind": one of KINDS, "attributes": object, "files": list of file records}``, a file record
            being ``{"name": str, "size": bytes, "shard_size": bytes, "sha256": [hex digest of each shard]}``, both
            sizes None where only the digest of the whole file is known.

    Raises:
        InputError: A field is missing, unknown or of another type.
    """
    if not isinstance(item, dict) or tuple(sorted(item)) != ITEM_FIELDS:
        found = ", ".join(sorted(map(str, item))) if isinstance(item, dict) else type(item).__name__
        raise InputError(f"An item has the fields {found or 'none'}; it must have {', '.join(ITEM_FIELDS)}.")
    identifier, kind = item["id"], item["kind"]
    if not isinstance(identifier, str) or not identifier.strip():
        raise InputError(f"An item has the id {identifier!r}; give a text that is not empty.")
    if kind not in KINDS:
        hint = near_match(str(kind), KINDS) or f"; use one of {', '.join(KINDS)}."
        raise InputError(f"The item {identifier!r} is of the kind {kind!r}{hint}")
    if not isinstance(item["attributes"], dict) or not isinstance(item["files"], list):
        raise InputError(f"The item {identifier!r} needs an object as attributes and a list as files.")
    for record in item["files"]:
        _check_file_record(record, identifier)
    return item


def read_items(path: str | os.PathLike[str], progress: Progress = silent) -> tuple[str, list[dict[str, Any]]]:
    """Read a list of items to declare and hash the files that they name.

    Args:
        path: JSON ``{"origin": str, "items": [{"id", "kind", "attributes"?, "files"?: [paths beside this file],
            "model_signing"?: path of an OpenSSF signature}]}``.
        progress: Called while files are hashed.

    Returns:
        The origin and the items in the form of :func:`check_item`.

    Raises:
        InputError: The file is malformed, an id stands twice, or a named file cannot be read.
    """
    from workingpapers.governance.arms_control.openssf import read_manifest

    source = Path(path)
    content = parse_strict(read_text(source), repr(str(source)))
    if not isinstance(content, dict) or set(content) != {"origin", "items"} or not isinstance(content["items"], list):
        raise InputError(f"{str(source)!r} must be an object with the fields origin and items (a list).")
    if not isinstance(content["origin"], str) or not content["origin"].strip():
        raise InputError(
            f"The origin in {str(source)!r} is {content['origin']!r}; give the name of the declaring party."
        )
    items = []
    for position, entry in enumerate(content["items"]):
        progress(position / max(1, len(content["items"])), "Hashing declared files")
        known = {"id", "kind", "attributes", "files", "model_signing"}
        if not isinstance(entry, dict) or set(entry) - known or {"id", "kind"} - set(entry):
            raise InputError(f"Item {position + 1} of {str(source)!r} must have id and kind, and no other fields than "
                             f"{', '.join(sorted(known))}.")  # fmt: skip
        names = entry.get("files", [])
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise InputError(f"The files of item {position + 1} of {str(source)!r} must be a list of paths.")
        attributes = entry.get("attributes", {})
        files = [hash_file(source.parent, name) for name in names]
        if "model_signing" in entry:
            manifest = read_manifest(source.parent / str(entry["model_signing"]))
            attributes = {**attributes, "model_signing": {"name": manifest.name, "sha256": manifest.digest}}
            files += manifest.file_records()
        items.append(check_item({"id": entry["id"], "kind": entry["kind"], "attributes": attributes, "files": files}))
    check_unique(items)
    return content["origin"], items


def check_unique(items: Sequence[Mapping[str, Any]]) -> None:
    """Raise InputError where two items share an id.

    Args:
        items: Items with ids.
    """
    seen: set[str] = set()
    for item in items:
        if item["id"] in seen:
            raise InputError(f"The item id {item['id']!r} stands twice; every declared item needs an id of its own.")
        seen.add(item["id"])


def hash_file(folder: Path, name: str, shard_size: int | None = SHARD_SIZE, workers: int = 2) -> dict[str, Any]:
    """Return the file record of `folder` / `name`, its shards hashed in parallel.

    Args:
        folder: Folder that names are relative to.
        name: Path inside it, with forward slashes.
        shard_size: Bytes of a shard; the last one may be shorter. An empty file has one empty shard. None takes the
            whole file as one.
        workers: Threads; hashing leaves the interpreter lock.

    Returns:
        ``{"name", "size", "shard_size", "sha256": [hex]}``.

    Raises:
        InputError: The name leaves the folder, or the file cannot be read.
    """
    pure = PurePosixPath(name)
    if pure.is_absolute() or ".." in pure.parts or not pure.parts:
        raise InputError(f"The file name {name!r} leaves its folder; name files below {str(folder)!r}.")
    target = folder / pure
    try:
        if not target.is_file():
            raise InputError(f"There is no file {str(target)!r}; correct the list of files.")
        size = target.stat().st_size
        width = shard_size or max(size, 1)
        with ThreadPoolExecutor(max_workers=workers) as pool:
            digests = list(pool.map(lambda start: _hash_range(target, start, width), range(0, max(size, 1), width)))
    except OSError as error:
        raise InputError(f"Cannot read {str(target)!r}: {(error.strerror or str(error)).lower()}.") from None
    return {"name": str(pure), "size": size, "shard_size": shard_size, "sha256": digests}


def differing_files(item: Mapping[str, Any], folder: Path, workers: int = 2) -> list[str]:
    """Return one sentence for each file of `item` that is absent from `folder` or differs from its record.

    Args:
        item: A declared item.
        folder: Folder that holds the files under their declared names.
        workers: Threads.
    """
    problems = []
    for record in item["files"]:
        try:
            found = hash_file(folder, record["name"], record["shard_size"], workers)
        except InputError as error:
            problems.append(f"{item['id']}: {str(error).split(';')[0]}")
            continue
        if record["size"] not in (None, found["size"]):
            problems.append(f"{item['id']}: {record['name']} has {found['size']} bytes, {record['size']} were declared")
            continue
        wrong = [k for k, (a, b) in enumerate(zip(found["sha256"], record["sha256"], strict=True)) if a != b]
        if wrong:
            problems.append(f"{item['id']}: {record['name']} differs from its declared digest in shard {wrong[0]}")
    return problems


def _hash_range(path: Path, start: int, length: int) -> str:
    digest, left = hashlib.sha256(), length
    with path.open("rb") as stream:
        stream.seek(start)
        while left > 0 and (chunk := stream.read(min(CHUNK, left))):
            digest.update(chunk)
            left -= len(chunk)
    return digest.hexdigest()


def _check_file_record(record: Any, identifier: str) -> None:
    right = (
        isinstance(record, dict)
        and set(record) == {"name", "size", "shard_size", "sha256"}
        and isinstance(record["name"], str)
        and isinstance(record["sha256"], list)
        and all(is_hex(digest) for digest in record["sha256"])
        and len(record["sha256"]) == _shard_count(record["size"], record["shard_size"])
    )
    if not right:
        raise InputError(f"The item {identifier!r} has a malformed file record; a record is what `hash_file` returns.")


def _shard_count(size: Any, shard_size: Any) -> int:
    if size is None and shard_size is None:
        return 1
    if type(size) is not int or type(shard_size) is not int or size < 0 or shard_size < 1:
        return -1
    return max(1, -(-size // shard_size))


def is_hex(text: Any, size: int = 32) -> bool:
    """Whether `text` is `size` bytes as lower-case hexadecimal digits.

    Args:
        text: Anything.
        size: Number of bytes.
    """
    return isinstance(text, str) and len(text) == 2 * size and all(letter in "0123456789abcdef" for letter in text)
