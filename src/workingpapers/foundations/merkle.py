"""Merkle trees as certificate logs use them: roots, inclusion proofs and consistency proofs.

The tree shape and the proofs are those of RFC 9162 (and of RFC 6962 before it); a leaf is hashed behind the byte 0x00
and a node behind 0x01, so that no leaf can pass for a node.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence

DIGEST_SIZE = 32
EMPTY_ROOT = hashlib.sha256(b"").digest()


def leaf_hash(data: bytes) -> bytes:
    r"""Return :math:`\mathrm{SHA256}(\mathtt{00} \,\|\, data)`, 32 bytes.

    Args:
        data: Content of the leaf.
    """
    return hashlib.sha256(b"\x00" + data).digest()


def node_hash(left: bytes, right: bytes) -> bytes:
    r"""Return :math:`\mathrm{SHA256}(\mathtt{01} \,\|\, left \,\|\, right)`, 32 bytes.

    Args:
        left: Hash of the left child, 32 bytes.
        right: Hash of the right child, 32 bytes.
    """
    return hashlib.sha256(b"\x01" + left + right).digest()


class MerkleTree:
    """A tree over leaf hashes that gives its root and its proofs.

    Building takes one hash a node; a proof takes O(log n) look-ups.

    Args:
        leaves: Leaf hashes, 32 bytes each (see :func:`leaf_hash`), in order.

    References:
        RFC 9162, section 2.1.
    """

    def __init__(self, leaves: Iterable[bytes]) -> None:
        # levels[j][k] is the hash of leaves k * 2**j up to (k + 1) * 2**j, full subtrees only.
        self.levels: list[list[bytes]] = [list(leaves)]
        while len(self.levels[-1]) > 1:
            below = self.levels[-1]
            self.levels.append([node_hash(below[k], below[k + 1]) for k in range(0, len(below) - 1, 2)])

    @property
    def size(self) -> int:
        """Number of leaves."""
        return len(self.levels[0])

    def root(self, size: int | None = None) -> bytes:
        """Return the root of the first `size` leaves (all by default); no leaves give SHA-256 of nothing.

        Raises:
            ValueError: `size` is beyond the leaves.
        """
        stop = self.size if size is None else size
        if not 0 <= stop <= self.size:
            raise ValueError(f"size is {stop}; the tree has {self.size} leaves")
        return self._subtree(0, stop) if stop else EMPTY_ROOT

    def inclusion_proof(self, index: int) -> list[bytes]:
        """Return the sibling hashes from leaf `index` up to the root.

        Raises:
            ValueError: There is no such leaf.
        """
        if not 0 <= index < self.size:
            raise ValueError(f"index is {index}; the tree has {self.size} leaves")
        path: list[bytes] = []
        start, stop = 0, self.size
        while stop - start > 1:
            middle = start + _split(stop - start)
            if index < middle:
                path.append(self._subtree(middle, stop))
                stop = middle
            else:
                path.append(self._subtree(start, middle))
                start = middle
        return path[::-1]

    def consistency_proof(self, old_size: int) -> list[bytes]:
        """Return the hashes that prove that the first `old_size` leaves are a prefix of this tree.

        Raises:
            ValueError: `old_size` is beyond the leaves.
        """
        if not 0 <= old_size <= self.size:
            raise ValueError(f"old_size is {old_size}; the tree has {self.size} leaves")
        if old_size in (0, self.size):
            return []
        path: list[bytes] = []
        start, stop, known = 0, self.size, True
        while old_size != stop:
            middle = start + _split(stop - start)
            if old_size <= middle:
                path.append(self._subtree(middle, stop))
                stop = middle
            else:
                path.append(self._subtree(start, middle))
                start, known = middle, False
        if not known:
            path.append(self._subtree(start, stop))
        return path[::-1]

    def _subtree(self, start: int, stop: int) -> bytes:
        width = stop - start
        level = width.bit_length() - 1
        if width == 1 << level and start % width == 0:
            return self.levels[level][start >> level]
        middle = start + _split(width)
        return node_hash(self._subtree(start, middle), self._subtree(middle, stop))


def verify_inclusion(leaf: bytes, index: int, size: int, path: Sequence[bytes], root: bytes) -> bool:
    """Whether `path` proves that `leaf` is leaf number `index` of the tree with `size` leaves and this `root`.

    Args:
        leaf: Leaf hash, 32 bytes.
        index: Its place, from 0.
        size: Number of leaves of the tree.
        path: Sibling hashes, 32 bytes each, from the leaf upwards.
        root: Root hash, 32 bytes.

    References:
        RFC 9162, section 2.1.3.2.
    """
    if not 0 <= index < size or not _digests([leaf, root, *path]):
        return False
    place, last, digest = index, size - 1, leaf
    for sibling in path:
        if last == 0:
            return False
        if place & 1 or place == last:
            digest = node_hash(sibling, digest)
            while not place & 1 and place:
                place, last = place >> 1, last >> 1
        else:
            digest = node_hash(digest, sibling)
        place, last = place >> 1, last >> 1
    return last == 0 and digest == root


def verify_consistency(old_size: int, new_size: int, old_root: bytes, new_root: bytes, path: Sequence[bytes]) -> bool:
    """Whether `path` proves that the tree with `old_size` leaves is a prefix of the one with `new_size` leaves.

    Args:
        old_size: Leaves of the earlier tree.
        new_size: Leaves of the later tree.
        old_root: Root of the earlier tree, 32 bytes.
        new_root: Root of the later tree, 32 bytes.
        path: Hashes as :meth:`MerkleTree.consistency_proof` gives them.

    References:
        RFC 9162, section 2.1.4.2.
    """
    if not 0 <= old_size <= new_size or not _digests([old_root, new_root, *path]):
        return False
    if old_size == new_size:
        return not path and old_root == new_root
    if old_size == 0:
        return not path and old_root == EMPTY_ROOT
    hashes = list(path)
    if old_size & (old_size - 1) == 0:
        hashes.insert(0, old_root)
    if not hashes:
        return False
    place, last = old_size - 1, new_size - 1
    while place & 1:
        place, last = place >> 1, last >> 1
    old = new = hashes[0]
    for sibling in hashes[1:]:
        if last == 0:
            return False
        if place & 1 or place == last:
            old, new = node_hash(sibling, old), node_hash(sibling, new)
            while not place & 1 and place:
                place, last = place >> 1, last >> 1
        else:
            new = node_hash(new, sibling)
        place, last = place >> 1, last >> 1
    return last == 0 and old == old_root and new == new_root


def root_of(data: Iterable[bytes], hasher: Callable[[bytes], bytes] = leaf_hash) -> bytes:
    """Return the root over raw leaf `data`, hashed by `hasher`.

    Args:
        data: Contents of the leaves, in order.
        hasher: Content to leaf hash.
    """
    return MerkleTree(hasher(entry) for entry in data).root()


def _split(width: int) -> int:
    """Largest power of two below `width` (width >= 2)."""
    return 1 << (width - 1).bit_length() - 1


def _digests(values: Sequence[bytes]) -> bool:
    return all(len(value) == DIGEST_SIZE for value in values)
