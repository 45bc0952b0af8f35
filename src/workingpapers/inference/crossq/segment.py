"""One immutable part of an index: codes, pooled vectors and identifiers of documents that were written together."""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from workingpapers.foundations.errors import InputError
from workingpapers.foundations.files import whole_file
from workingpapers.inference.crossq.codec import Codec
from workingpapers.inference.crossq.storage import SUFFIX, ArrayWriter, map_array, write_array
from workingpapers.inference.crossq.vectors import Packed, means, pack, unit_rows

Identifier = str | int
DRIFT = 1.5


class Segment:
    """A mapped segment. Only the pages that a search touches are read.

    Args:
        folder: Folder of the index.
        entry: The segment's part of the manifest.
    """

    def __init__(self, folder: Path, entry: dict[str, Any]) -> None:
        self.entry = entry
        arrays = {name: map_array(folder, file) for name, file in entry["files"].items()}
        self.codes, self.offsets = arrays["codes"], arrays["offsets"]
        self.pooled, self.scales = arrays["pooled"], arrays["scales"]
        self.deleted = np.array(arrays["deleted"]).astype(bool) if "deleted" in arrays else None
        self._ids, self._id_offsets = arrays["ids"], arrays.get("id_offsets")
        self._keys, self._key_rows = arrays["keys"], arrays["key_rows"]

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def identifier(self, row: int) -> Identifier:
        """Return the identifier of a row."""
        if self._id_offsets is None:
            return int(self._ids[row])
        return bytes(self._ids[self._id_offsets[row] : self._id_offsets[row + 1]]).decode("utf-8")

    def find(self, identifiers: Sequence[Identifier], keys: np.ndarray) -> np.ndarray:
        """Return the row of each identifier, int64, -1 where it is not here or is deleted.

        Args:
            identifiers: Identifiers.
            keys: From :func:`keys_of`.
        """
        found = np.full(len(keys), -1, dtype=np.int64)
        places = np.searchsorted(self._keys, keys)
        for number, place in enumerate(places):
            while place < len(self._keys) and self._keys[place] == keys[number]:
                row = int(self._key_rows[place])
                # Two texts may share a key; the stored text decides.
                alive = self.deleted is None or not self.deleted[row]
                if alive and (self._id_offsets is None or self.identifier(row) == identifiers[number]):
                    found[number] = row
                    break
                place += 1
        return found


class SegmentWriter:
    """Writes a segment from batches of documents, holding one batch and the identifiers' keys.

    Args:
        folder: Folder of the index.
        name: Name of the segment.
        codec: Codec of the index.
        kind: ``"text"`` or ``"integer"``: what the identifiers are.
    """

    def __init__(self, folder: Path, name: str, codec: Codec, kind: str) -> None:
        self.folder, self.name, self.codec, self.kind = folder, name, codec, kind
        self._files = {
            "codes": ArrayWriter(folder, f"{name}-codes", "u1", codec.stages),
            "offsets": ArrayWriter(folder, f"{name}-offsets", "<i8"),
            "pooled": ArrayWriter(folder, f"{name}-pooled", "i1", codec.dim),
            "scales": ArrayWriter(folder, f"{name}-scales", "<f4"),
            "ids": ArrayWriter(folder, f"{name}-ids", "u1" if kind == "text" else "<i8"),
        }
        if kind == "text":
            self._files["id_offsets"] = ArrayWriter(folder, f"{name}-id_offsets", "<i8")
            self._files["id_offsets"].write(np.zeros(1, dtype=np.int64))
        self._files["offsets"].write(np.zeros(1, dtype=np.int64))
        self._tokens = self._characters = 0
        self._keys: list[np.ndarray] = []

    @property
    def written(self) -> bool:
        """Whether a document was written."""
        return bool(self._keys)

    def add(self, identifiers: Sequence[Identifier], documents: Packed) -> float:
        """Code and append documents; return their mean squared coding error.

        Args:
            identifiers: Their identifiers.
            documents: Their token vectors.
        """
        rows = self.codec.prepare(documents.rows)
        codes, offsets = self.codec.encode_prepared(rows, documents.offsets)
        self.append(identifiers, Packed(codes, offsets), *pooled_steps(means(rows, documents.offsets)))
        if len(codes) != len(rows):
            return float("nan")
        return float(np.square(rows - self.codec.decode(codes)).sum(axis=1).mean())

    def append(self, identifiers: Sequence[Identifier], codes: Packed, pooled: np.ndarray, scales: np.ndarray) -> None:
        """Append documents that are coded already."""
        self._files["codes"].write(codes.rows)
        self._files["offsets"].write(codes.offsets[1:] + self._tokens)
        self._tokens += len(codes.rows)
        self._files["pooled"].write(pooled)
        self._files["scales"].write(scales)
        self._keys.append(keys_of(identifiers, self.kind))
        if self.kind == "integer":
            self._files["ids"].write(np.array(identifiers, dtype=np.int64))
            return
        texts = [str(item).encode("utf-8") for item in identifiers]
        self._files["ids"].write(np.frombuffer(b"".join(texts), dtype=np.uint8))
        ends = np.cumsum([len(text) for text in texts], dtype=np.int64) + self._characters
        self._files["id_offsets"].write(ends)
        self._characters = int(ends[-1])

    def finish(self) -> dict[str, Any]:
        """Write the lookup table of identifiers and return the segment's part of the manifest.

        Raises:
            InputError: An identifier was given twice.
        """
        keys = np.concatenate(self._keys)
        order = np.argsort(keys, kind="stable")
        files = {name: writer.close() for name, writer in self._files.items()}
        files["keys"] = write_array(self.folder, f"{self.name}-keys", keys[order])
        files["key_rows"] = write_array(self.folder, f"{self.name}-key_rows", order.astype(np.int64))
        entry = {"name": self.name, "documents": len(keys), "tokens": self._tokens, "files": files}
        self._refuse_repeats(entry, keys, order)
        return entry

    def _refuse_repeats(self, entry: dict[str, Any], keys: np.ndarray, order: np.ndarray) -> None:
        sorted_keys = keys[order]
        same = np.flatnonzero(sorted_keys[1:] == sorted_keys[:-1])
        if not len(same):
            return
        written = Segment(self.folder, entry)
        for value in np.unique(sorted_keys[same]):
            rows = order[sorted_keys == value]
            names = [written.identifier(int(row)) for row in rows]
            repeated = next((name for name in names if names.count(name) > 1), None)
            if repeated is not None:
                raise InputError(f"The identifier {repeated!r} is given twice; identifiers must be unique.")

    def abandon(self) -> None:
        """Close the files; they are removed by the next writer."""
        for writer in self._files.values():
            writer.abandon()


def write_segment(
    folder: Path,
    name: str,
    codec: Codec,
    documents: Iterable[tuple[list[Identifier], Packed]],
    kind: str | None = None,
) -> tuple[dict[str, Any], str]:
    """Write batches of documents as a segment; return its part of the manifest and the kind of its identifiers.

    Args:
        folder: Folder of the index.
        name: Name of the segment.
        codec: Codec of the index.
        documents: Batches of identifiers and token vectors.
        kind: Kind of the identifiers, or None to take it from the first.
    """
    writer: SegmentWriter | None = None
    try:
        for names, packed in documents:
            if writer is None:
                kind = kind or kind_of(names[0])
                writer = SegmentWriter(folder, name, codec, kind)
            first = not writer.written
            error = writer.add(names, packed)
            if first and codec.error and error > DRIFT * codec.error:
                warnings.warn(
                    f"The documents are coded with a mean squared error of {error:.3g}, against {codec.error:.3g} in "
                    "training; fit the codec to documents like these.",
                    stacklevel=4,
                )
        if writer is None or kind is None:
            raise InputError("There is no document to write; give at least one.")
        return writer.finish(), kind
    finally:
        if writer is not None:
            writer.abandon()


def write_codec(folder: Path, name: str, codec: Codec) -> dict[str, Any]:
    """Write a codec and return its entry of the manifest.

    Args:
        folder: Folder of the index.
        name: Name of the file, without suffix.
        codec: The codec.
    """
    content = codec.to_bytes()
    with whole_file(folder / f"{name}{SUFFIX}", "wb") as stream:
        stream.write(content)
    return {"file": f"{name}{SUFFIX}", "sha256": hashlib.sha256(content).hexdigest()}


def pooled_steps(pooled: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return pooled vectors of length one as 8-bit steps and the size of a step of each.

    Args:
        pooled: Mean vectors, shape (N, d).
    """
    unit = unit_rows(pooled)
    scales = np.maximum(np.abs(unit).max(axis=1), 1e-12).astype(np.float32) / np.float32(127)
    return np.rint(unit / scales[:, None]).astype(np.int8), scales


def keys_of(identifiers: Sequence[Identifier], kind: str) -> np.ndarray:
    """Return a 64-bit key of each identifier: the number itself, or a hash of the text.

    Args:
        identifiers: Identifiers, all of `kind`.
        kind: ``"text"`` or ``"integer"``.

    Raises:
        InputError: An identifier of the other kind, an integer beyond 64 bits, or an empty text.
    """
    keys = np.empty(len(identifiers), dtype=np.int64)
    for number, item in enumerate(identifiers):
        if kind == "integer":
            whole = isinstance(item, int | np.integer) and not isinstance(item, bool)
            if not whole or not -(2**63) <= int(item) < 2**63:
                raise InputError(f"The identifier {item!r} is not a 64-bit integer, as the others of this index are.")
            keys[number] = item
        else:
            if not isinstance(item, str) or not item:
                raise InputError(f"The identifier {item!r} is not a text, as the others of this index are.")
            keys[number] = int.from_bytes(hashlib.blake2b(item.encode("utf-8"), digest_size=8).digest(), signed=True)
    return keys


def kind_of(identifier: Identifier) -> str:
    """Return ``"text"`` or ``"integer"``.

    Args:
        identifier: An identifier.
    """
    return "text" if isinstance(identifier, str) else "integer"


def batches(documents: Iterable[tuple[Identifier, np.ndarray]], size: int) -> Iterable[tuple[list[Identifier], Packed]]:
    """Yield documents in packed batches of `size`, so that memory does not grow with their number.

    Args:
        documents: Pairs of identifier and token vectors (n_j, D).
        size: Documents of a batch.
    """
    names: list[Identifier] = []
    arrays: list[np.ndarray] = []
    for name, tokens in documents:
        names.append(name)
        arrays.append(tokens)
        if len(names) == size:
            yield names, _packed(names, arrays)
            names, arrays = [], []
    if names:
        yield names, _packed(names, arrays)


def _packed(names: list[Identifier], arrays: list[np.ndarray]) -> Packed:
    for name, tokens in zip(names, arrays, strict=True):
        if np.ndim(tokens) != 2 or not len(tokens):
            raise InputError(f"Document {name!r} has no tokens; leave it out.")
    return pack(arrays)
