"""Files of an index: raw arrays that are mapped, a manifest with their checksums, and a switch that is atomic.

Files are never changed once the manifest names them. A writer adds new files beside the old ones and then replaces the
manifest in one step, so that a crash at any moment leaves the index as it was; what the crash left behind is removed by
the next writer.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np
from filelock import FileLock, Timeout

from workingpapers.foundations.errors import InputError
from workingpapers.foundations.files import whole_file

FORMAT = "crossq multi-vector index"
VERSION = 1
MANIFEST = "manifest.json"
LOCK = ".lock"
SUFFIX = ".crossq"


class ArrayWriter:
    """Writes one array, block by block, with its checksum.

    Args:
        folder: Folder of the index.
        name: Name of the file, without suffix.
        dtype: Type of the array.
        columns: Columns of a table, or None for a vector.
    """

    def __init__(self, folder: Path, name: str, dtype: str, columns: int | None = None) -> None:
        self.name = name + SUFFIX
        self.dtype = np.dtype(dtype)
        self.columns = columns
        self.rows = 0
        self._digest = hashlib.sha256()
        self._stream: IO[bytes] = (folder / self.name).open("wb")

    def write(self, block: np.ndarray) -> None:
        """Append rows of the array."""
        content = np.ascontiguousarray(block, dtype=self.dtype)
        self.rows += len(content)
        data = content.tobytes()
        self._digest.update(data)
        self._stream.write(data)

    def close(self) -> dict[str, Any]:
        """Flush to disk and return the entry of the manifest."""
        self._stream.flush()
        os.fsync(self._stream.fileno())
        self._stream.close()
        shape = [self.rows] if self.columns is None else [self.rows, self.columns]
        return {"file": self.name, "dtype": self.dtype.str, "shape": shape, "sha256": self._digest.hexdigest()}

    def abandon(self) -> None:
        """Close without an entry; the file is left to the next writer."""
        self._stream.close()


def write_array(folder: Path, name: str, array: np.ndarray) -> dict[str, Any]:
    """Write a whole array and return its entry.

    Args:
        folder: Folder of the index.
        name: Name of the file, without suffix.
        array: The array, of one or two dimensions.
    """
    writer = ArrayWriter(folder, name, array.dtype.str, array.shape[1] if array.ndim == 2 else None)
    writer.write(array)
    return writer.close()


def map_array(folder: Path, entry: dict[str, Any]) -> np.ndarray:
    """Map a file into memory, read-only; a size that does not fit is told at once.

    Args:
        folder: Folder of the index.
        entry: Entry of the manifest.

    Raises:
        InputError: The file is missing or has another size than the manifest says.
    """
    path = folder / entry["file"]
    shape, dtype = tuple(entry["shape"]), np.dtype(entry["dtype"])
    wanted = int(np.prod(shape)) * dtype.itemsize
    try:
        found = path.stat().st_size
    except OSError:
        raise InputError(f"The index lacks its file {str(path)!r}; restore it or build the index again.") from None
    if found != wanted:
        raise InputError(
            f"The index file {str(path)!r} is damaged ({found} bytes in place of {wanted}); restore it or build the "
            "index "
            "again."
        )
    if not wanted:
        return np.zeros(shape, dtype)
    return np.asarray(np.memmap(path, dtype=dtype, mode="r", shape=shape))


def check_file(folder: Path, entry: dict[str, Any]) -> None:
    """Compare a file with its checksum.

    Args:
        folder: Folder of the index.
        entry: Entry of the manifest.

    Raises:
        InputError: The content is not what was written; the sentence names the file.
    """
    path = folder / entry["file"]
    try:
        with path.open("rb") as stream:
            found = hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError as error:
        raise InputError(f"The index lacks its file {str(path)!r} ({error.strerror}); build the index again.") from None
    if found != entry["sha256"]:
        raise InputError(
            f"The index file {str(path)!r} is damaged (its checksum differs); restore it or build the index again."
        )


def entries(manifest: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield every file entry of a manifest.

    Args:
        manifest: The manifest.
    """
    yield manifest["codec"]
    for segment in manifest["segments"]:
        yield from segment["files"].values()


def read_manifest(folder: Path) -> dict[str, Any]:
    """Return the manifest.

    Args:
        folder: Folder of the index.

    Raises:
        InputError: There is none, it is damaged, or it is of a newer version.
    """
    path = folder / MANIFEST
    try:
        content = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        raise InputError(f"{str(folder)!r} is not an index: it has no readable {MANIFEST}; build one there.") from None
    try:
        manifest = json.loads(content)
        kept = manifest.pop("sha256")
        if manifest["format"] != FORMAT:
            raise KeyError("format")
    except (ValueError, KeyError, TypeError, AttributeError):
        raise InputError(
            f"{str(path)!r} is not the manifest of an index or is damaged; build the index again."
        ) from None
    if manifest["version"] > VERSION:
        raise InputError(
            f"The index {str(folder)!r} has version {manifest['version']}; this release reads up to {VERSION}: "
            "upgrade it."
        )
    if kept != _digest(manifest):
        raise InputError(f"{str(path)!r} is damaged (its checksum differs); restore it or build the index again.")
    return dict(manifest)


def write_manifest(folder: Path, manifest: dict[str, Any]) -> None:
    """Replace the manifest in one step: from now on the index is what it says.

    Args:
        folder: Folder of the index.
        manifest: The new manifest.
    """
    with whole_file(folder / MANIFEST) as stream:
        json.dump({**manifest, "sha256": _digest(manifest)}, stream, indent=1, sort_keys=True)


def remove_leftovers(folder: Path, manifest: dict[str, Any] | None) -> None:
    """Remove files of this format that the manifest does not name.

    Args:
        folder: Folder of the index.
        manifest: The manifest in force, or None where there is none.
    """
    named = set() if manifest is None else {entry["file"] for entry in entries(manifest)}
    for path in folder.glob(f"*{SUFFIX}"):
        if path.name not in named:
            path.unlink(missing_ok=True)
    for path in folder.glob(f".{MANIFEST}.*.part"):
        path.unlink(missing_ok=True)


@contextmanager
def only_writer(folder: Path) -> Iterator[None]:
    """Hold the writer's lock of an index.

    Args:
        folder: Folder of the index.

    Raises:
        InputError: Another process writes.
    """
    lock = FileLock(folder / LOCK, timeout=0)
    try:
        lock.acquire()
    except Timeout:
        raise InputError(f"The index {str(folder)!r} is being written by another process; try again later.") from None
    try:
        yield
    finally:
        lock.release()


def _digest(manifest: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(manifest, sort_keys=True).encode()).hexdigest()
