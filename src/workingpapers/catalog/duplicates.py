r"""Records that are nearly the same paper: a preprint and its final version, a title changed, an abstract mended.

Two texts are compared by the Jaccard similarity of their runs of three words. Candidates share a band of min-hashes
(:math:`b` bands of :math:`r` rows are shared with probability :math:`1 - (1 - J^r)^b`), and each candidate is checked
exactly, so that no pair below the threshold is reported.

References:
    Broder (1997). On the resemblance and containment of documents. doi:10.1109/SEQUEN.1997.666900.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from workingpapers.catalog.records import Record
from workingpapers.catalog.text import normalise

BANDS, ROWS = 8, 2
SHINGLE = 3
FEWEST_WORDS = 20
LARGEST_GROUP = 50


@dataclass(frozen=True)
class NearDuplicate:
    """Two records and how alike their texts are (Jaccard similarity of runs of three words)."""

    first: Record
    second: Record
    similarity: float


def near_duplicates(records: Iterable[Record], *, threshold: float = 0.6) -> Iterator[NearDuplicate]:
    """Yield pairs of records whose abstracts (titles where there is none) are nearly the same, most alike first.

    Args:
        records: The records; those with fewer than 20 words say too little to be compared.
        threshold: Least similarity.
    """
    kept: list[Record] = []
    signatures: list[NDArray[np.uint64]] = []
    for record in records:
        hashes = shingles(record)
        if len(hashes):
            kept.append(record)
            signatures.append(signature(hashes))
    if len(kept) < 2:
        return
    found = []
    for first, second in _candidates(np.stack(signatures)):
        one, other = shingles(kept[first]), shingles(kept[second])
        shared = len(np.intersect1d(one, other, assume_unique=True))
        similarity = shared / (len(one) + len(other) - shared)
        if similarity >= threshold:
            found.append(NearDuplicate(kept[first], kept[second], similarity))
    yield from sorted(found, key=lambda pair: -pair.similarity)


def shingles(record: Record) -> NDArray[np.uint64]:
    """Return the hashes of the distinct runs of three words of a record's text."""
    words = normalise(record.abstract or record.summary or record.title).split()
    if len(words) < FEWEST_WORDS:
        return np.zeros(0, np.uint64)
    runs = {" ".join(words[place : place + SHINGLE]) for place in range(len(words) - SHINGLE + 1)}
    return np.unique(np.array([zlib.crc32(run.encode()) for run in runs], np.uint64))


def signature(hashes: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return one number a band, shape (b,): a mix of the r min-hashes of the band."""
    # Odd multipliers permute the 64-bit numbers, and the high bits are well mixed.
    multipliers = np.random.default_rng(0).integers(1, 2**63, BANDS * ROWS, dtype=np.uint64) * np.uint64(2) + np.uint64(
        1
    )
    least = (hashes[:, None] * multipliers[None, :]).min(axis=0).reshape(BANDS, ROWS)
    mixed: NDArray[np.uint64] = least[:, 0] * np.uint64(0x9E3779B97F4A7C15) ^ least[:, 1]
    return mixed


def _candidates(signatures: NDArray[np.uint64]) -> list[tuple[int, int]]:
    """Return the pairs (first < second) that share a band; a group of very many is compared with its first member."""
    pairs: set[tuple[int, int]] = set()
    for band in signatures.T:
        order = np.argsort(band, kind="stable")
        edges = np.flatnonzero(np.diff(band[order])) + 1
        for group in np.split(order, edges):
            if 1 < len(group) <= LARGEST_GROUP:
                pairs.update((int(a), int(b)) for place, a in enumerate(group) for b in group[place + 1 :])
            elif len(group) > LARGEST_GROUP:
                pairs.update((int(group[0]), int(b)) for b in group[1:])
    return sorted(pairs)
