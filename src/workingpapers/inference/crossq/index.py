"""An index on disk: a few bytes a token, mapped into memory, searched with exact scores on the codes."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from workingpapers.foundations.errors import InputError
from workingpapers.inference.crossq import storage
from workingpapers.inference.crossq.codec import Codec
from workingpapers.inference.crossq.quantiser import CrossQ
from workingpapers.inference.crossq.scoring import largest, pooled_scores, query_tables, score_rows
from workingpapers.inference.crossq.segment import (
    Identifier,
    Segment,
    SegmentWriter,
    batches,
    keys_of,
    kind_of,
    write_codec,
    write_segment,
)
from workingpapers.inference.crossq.vectors import Packed, check_packed, unit_rows

BATCH = 256

Documents = Iterable[tuple[Identifier, np.ndarray]]


class Hits(NamedTuple):
    """Found documents, best first.

    Args:
        ids: Their identifiers.
        scores: Late-interaction scores on the codes, float32, shape (k,).
    """

    ids: list[Identifier]
    scores: np.ndarray


class MultiVectorIndex:
    """Documents of many vectors each, by the user's own identifiers; opened with :meth:`open`, made with :meth:`build`.

    A search with `candidates` touches the pages of those documents alone. Without them, documents are first ordered by
    the product of pooled vectors (one byte a dimension and document), and the best are scored exactly.

    Args:
        folder: Folder of the index.
        verify: Whether to compare every file with its checksum, which reads the whole index once. Sizes, the manifest
            and the codec are compared in any case.
    """

    def __init__(self, folder: str | Path, *, verify: bool = False) -> None:
        self.folder = Path(folder)
        try:
            self._load()
        except InputError:
            # A writer may have replaced the index between the manifest and its files; the new one is tried once.
            self._load()
        if verify:
            self.verify()

    @classmethod
    def open(cls, folder: str | Path, *, verify: bool = False) -> MultiVectorIndex:
        """Open an index.

        Args:
            folder: Folder of the index.
            verify: Whether to compare every file with its checksum.

        Raises:
            InputError: There is no index, or it is damaged or of a newer version.
        """
        return cls(folder, verify=verify)

    def _load(self) -> None:
        self.manifest = storage.read_manifest(self.folder)
        storage.check_file(self.folder, self.manifest["codec"])
        path = self.folder / self.manifest["codec"]["file"]
        self.codec = Codec.from_bytes(path.read_bytes(), str(path))
        self.segments = [Segment(self.folder, entry) for entry in self.manifest["segments"]]
        self._bases = np.concatenate([[0], np.cumsum([len(item) for item in self.segments])]).astype(np.int64)

    def __len__(self) -> int:
        return sum(len(item) - (0 if item.deleted is None else int(item.deleted.sum())) for item in self.segments)

    def __contains__(self, identifier: Identifier) -> bool:
        return kind_of(identifier) == self.manifest["kind"] and int(self._rows([identifier])[0]) >= 0

    @property
    def metadata(self) -> dict[str, Any]:
        """What the builder noted, for example the encoder."""
        return dict(self.manifest["metadata"])

    @property
    def tokens(self) -> int:
        """Stored tokens, deleted documents included."""
        return int(sum(entry["tokens"] for entry in self.manifest["segments"]))

    def sizes(self) -> dict[str, int]:
        """Return the bytes on disk of each kind of file (codes, offsets, pooled vectors, identifiers, codec)."""
        found = {"codec": (self.folder / self.manifest["codec"]["file"]).stat().st_size}
        for segment in self.manifest["segments"]:
            for name, entry in segment["files"].items():
                found[name] = found.get(name, 0) + (self.folder / entry["file"]).stat().st_size
        return found

    def verify(self) -> None:
        """Compare every file with its checksum.

        Raises:
            InputError: A file is damaged; the sentence names it.
        """
        for entry in storage.entries(self.manifest):
            storage.check_file(self.folder, entry)

    @classmethod
    def build(
        cls,
        folder: str | Path,
        codec: Codec | CrossQ,
        documents: Documents,
        *,
        metadata: dict[str, Any] | None = None,
        batch: int = BATCH,
    ) -> MultiVectorIndex:
        """Write an index, replacing one that stands in the folder only when the new one is whole.

        Args:
            folder: Folder of the index, made where it does not exist.
            codec: A fitted quantiser.
            documents: Pairs of identifier (all texts, or all integers) and token vectors (n_j, D); read once, in order,
                `batch` documents in memory at a time.
            metadata: What to note in the index, JSON types only.
            batch: Documents coded together.

        Raises:
            InputError: The folder holds something else, there is no document, an identifier repeats, vectors do not
                fit.
        """
        target = Path(folder)
        arrays = codec.codec if isinstance(codec, CrossQ) else codec
        if target.exists() and (not target.is_dir() or (any(target.iterdir()) and not _is_index(target))):
            raise InputError(f"{str(target)!r} exists and is not an index; name a new folder.")
        created = not target.exists()
        target.mkdir(parents=True, exist_ok=True)
        try:
            with storage.only_writer(target):
                old = storage.read_manifest(target) if (target / storage.MANIFEST).exists() else None
                generation = 1 + (old["generation"] if old else 0)
                with _cleaning(target, old):
                    segment, kind = write_segment(target, f"g{generation}", arrays, batches(documents, batch))
                    new = {
                        "format": storage.FORMAT,
                        "version": storage.VERSION,
                        "generation": generation,
                        "kind": kind,
                        "codec": write_codec(target, f"g{generation}-codec", arrays),
                        "segments": [segment],
                        "metadata": metadata or {},
                    }
                    storage.write_manifest(target, new)
                storage.remove_leftovers(target, new)
        except BaseException:
            if created:
                shutil.rmtree(target, ignore_errors=True)
            raise
        return cls(target)

    def add(self, documents: Documents, *, replace: bool = False, batch: int = BATCH) -> None:
        """Add documents under the frozen codec; all of them appear, or none.

        Warns where the new documents are coded much worse than those of training: then the codec should be fitted anew.

        Args:
            documents: Pairs of identifier and token vectors (n_j, D).
            replace: Whether documents with known identifiers replace the old ones.
            batch: Documents coded together.

        Raises:
            InputError: An identifier is known already and `replace` is off, or repeats, or vectors do not fit.
        """
        with self._writing() as (manifest, generation):
            replaced: list[np.ndarray] = []

            def watched() -> Iterator[tuple[list[Identifier], Packed]]:
                for names, packed in batches(documents, batch):
                    rows = self._rows(names)
                    known = rows[rows >= 0]
                    if len(known) and not replace:
                        name = names[int(np.argmax(rows >= 0))]
                        raise InputError(f"The index holds {name!r} already; delete it first or add with replace=True.")
                    replaced.append(known)
                    yield names, packed

            kind = manifest["kind"] if self.segments else None
            segment, _ = write_segment(self.folder, f"g{generation}", self.codec, watched(), kind)
            self._mark_deleted(manifest, np.concatenate(replaced), generation)
            manifest["segments"].append(segment)

    def delete(self, identifiers: Sequence[Identifier]) -> None:
        """Delete documents; their bytes stay until :meth:`compact`.

        Args:
            identifiers: Identifiers in the index.

        Raises:
            InputError: An identifier is not in the index; then none is deleted.
        """
        with self._writing() as (manifest, generation):
            self._mark_deleted(manifest, self._known_rows(identifiers), generation)

    def compact(self) -> None:
        """Rewrite all segments as one, without deleted documents."""
        with self._writing() as (manifest, generation):
            if not len(self):
                raise InputError("Every document of the index is deleted; build a new one.")
            writer = SegmentWriter(self.folder, f"g{generation}", self.codec, manifest["kind"])
            try:
                for segment in self.segments:
                    alive = np.arange(len(segment)) if segment.deleted is None else np.flatnonzero(~segment.deleted)
                    for start in range(0, len(alive), BATCH):
                        rows = alive[start : start + BATCH]
                        names = [segment.identifier(int(row)) for row in rows]
                        parts = [segment.codes[segment.offsets[row] : segment.offsets[row + 1]] for row in rows]
                        ends = np.concatenate([[0], np.cumsum([len(part) for part in parts])]).astype(np.int64)
                        codes = Packed(np.concatenate(parts), ends)
                        writer.append(names, codes, segment.pooled[rows], segment.scales[rows])
                manifest["segments"] = [writer.finish()]
            finally:
                writer.abandon()

    def search(
        self,
        query_tokens: np.ndarray,
        k: int = 10,
        *,
        candidates: Sequence[Identifier] | None = None,
        probe: int | None = 1000,
        threads: int | None = None,
    ) -> Hits:
        """Return the best documents of a query by exact late interaction on the codes.

        Args:
            query_tokens: Token vectors of the query, shape (m, D).
            k: Documents to return; fewer where there are fewer.
            candidates: Identifiers to choose among; None searches the whole index.
            probe: Documents that the pooled vectors pass on to exact scoring (at least `k`); None scores every
                document.
            threads: Threads to use; None takes one for each core.

        Raises:
            InputError: The query does not fit, `k` is below one, or a candidate is not in the index.
        """
        if k < 1:
            raise InputError(f"k is {k}; give at least 1.")
        query = self.codec.prepare(check_packed(query_tokens, None, self.codec.width).rows)
        if candidates is not None:
            rows = np.unique(self._known_rows(candidates))
        elif probe is None or len(self) <= max(probe, k):
            rows = self._alive()
        else:
            rows = self._probe(query, max(probe, k), threads)
        scores = self._scores(query, rows, threads)
        best = largest(scores, k)
        return Hits([self._identifier(int(row)) for row in rows[best]], scores[best])

    def nearest(self, query_tokens: np.ndarray, k: int = 10, *, threads: int | None = None) -> Hits:
        """Return the documents whose pooled vectors are nearest to that of a query: one product a document, no codes.

        Args:
            query_tokens: Token vectors of the query, shape (m, D).
            k: Documents to return; fewer where there are fewer.
            threads: Threads to use; None takes one for each core.

        Raises:
            InputError: The query does not fit, or `k` is below one.
        """
        if k < 1:
            raise InputError(f"k is {k}; give at least 1.")
        query = self.codec.prepare(check_packed(query_tokens, None, self.codec.width).rows)
        scores = self._pooled(query, threads)
        best = largest(scores, min(k, len(self)))
        return Hits([self._identifier(int(row)) for row in best], scores[best])

    def _probe(self, query: np.ndarray, count: int, threads: int | None) -> np.ndarray:
        return np.sort(largest(self._pooled(query, threads), count))

    def _pooled(self, query: np.ndarray, threads: int | None) -> np.ndarray:
        """Return the pooled score of every row, minus infinity for deleted documents."""
        pooled = unit_rows(query.mean(axis=0, keepdims=True))[0]
        parts = []
        for segment in self.segments:
            scores = pooled_scores(segment.pooled, segment.scales, pooled, threads)
            if segment.deleted is not None:
                scores[segment.deleted] = -np.inf
            parts.append(scores)
        return np.concatenate(parts)

    def _scores(self, query: np.ndarray, rows: np.ndarray, threads: int | None) -> np.ndarray:
        tables = query_tables(query, self.codec.codebooks)
        scores = np.empty(len(rows), dtype=np.float32)
        cuts = np.searchsorted(rows, self._bases)
        for number, segment in enumerate(self.segments):
            part = slice(cuts[number], cuts[number + 1])
            if part.start < part.stop:
                local = rows[part] - self._bases[number]
                scores[part] = score_rows(segment.codes, segment.offsets, local, tables, threads)
        return scores

    def _alive(self) -> np.ndarray:
        parts = [
            np.arange(len(item)) if item.deleted is None else np.flatnonzero(~item.deleted) for item in self.segments
        ]
        return np.concatenate([part + base for part, base in zip(parts, self._bases[:-1], strict=True)])

    def _rows(self, identifiers: Sequence[Identifier]) -> np.ndarray:
        """Return global rows, -1 where unknown."""
        keys = keys_of(identifiers, self.manifest["kind"])
        rows = np.full(len(keys), -1, dtype=np.int64)
        for segment, base in zip(self.segments, self._bases[:-1], strict=True):
            found = segment.find(identifiers, keys)
            rows[found >= 0] = found[found >= 0] + base
        return rows

    def _known_rows(self, identifiers: Sequence[Identifier]) -> np.ndarray:
        if not len(identifiers):
            raise InputError("No identifier is given; name at least one.")
        rows = self._rows(identifiers)
        if (rows < 0).any():
            raise InputError(
                f"The index holds no document {identifiers[int(np.argmin(rows))]!r}; check the identifier."
            )
        return rows

    def _identifier(self, row: int) -> Identifier:
        number = int(np.searchsorted(self._bases, row, side="right")) - 1
        return self.segments[number].identifier(int(row - self._bases[number]))

    def _mark_deleted(self, manifest: dict[str, Any], rows: np.ndarray, generation: int) -> None:
        for number, segment in enumerate(self.segments):
            inside = rows[(rows >= self._bases[number]) & (rows < self._bases[number + 1])] - self._bases[number]
            if not len(inside):
                continue
            deleted = (
                np.zeros(len(segment), dtype=np.uint8) if segment.deleted is None else segment.deleted.astype("u1")
            )
            deleted[inside] = 1
            entry = manifest["segments"][number]
            name = f"{entry['name']}-deleted-g{generation}"
            entry["files"]["deleted"] = storage.write_array(self.folder, name, deleted)

    @contextmanager
    def _writing(self) -> Iterator[tuple[dict[str, Any], int]]:
        """Give the manifest to change; it is put in force at the end, or everything is left as it was."""
        with storage.only_writer(self.folder):
            self._load()
            manifest = storage.read_manifest(self.folder)
            manifest["generation"] += 1
            with _cleaning(self.folder, storage.read_manifest(self.folder)):
                yield manifest, manifest["generation"]
                storage.write_manifest(self.folder, manifest)
            storage.remove_leftovers(self.folder, manifest)
        self._load()


def _is_index(folder: Path) -> bool:
    return all(path.name == storage.LOCK or path.name.endswith((storage.SUFFIX, ".part")) or
               path.name == storage.MANIFEST for path in folder.iterdir())  # fmt: skip


@contextmanager
def _cleaning(folder: Path, manifest: dict[str, Any] | None) -> Iterator[None]:
    """Remove what earlier crashes left, and what this writer leaves if it fails."""
    storage.remove_leftovers(folder, manifest)
    try:
        yield
    except BaseException:
        storage.remove_leftovers(folder, manifest)
        raise
