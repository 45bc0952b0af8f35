"""Trees against the published vectors of certificate transparency and against the recursive definition."""

from __future__ import annotations

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workingpapers.foundations.canonical_json import canonical, parse_strict
from workingpapers.foundations.errors import InputError
from workingpapers.foundations.merkle import (
    EMPTY_ROOT,
    MerkleTree,
    leaf_hash,
    node_hash,
    root_of,
    verify_consistency,
    verify_inclusion,
)

# Leaves and roots of the test vectors of the certificate-transparency reference implementation.
VECTOR_LEAVES = [
    bytes.fromhex(text)
    for text in ("", "00", "10", "2021", "3031", "40414243", "5051525354555657", "606162636465666768696a6b6c6d6e6f")
]
VECTOR_ROOTS = {
    0: "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    1: "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
    2: "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
    3: "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
    4: "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
    5: "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
    6: "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
    7: "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
    8: "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
}


def recursive_root(data: list[bytes]) -> bytes:
    """The definition of RFC 6962, section 2.1, written out."""
    if not data:
        return hashlib.sha256(b"").digest()
    if len(data) == 1:
        return hashlib.sha256(b"\x00" + data[0]).digest()
    k = 1
    while 2 * k < len(data):
        k *= 2
    return hashlib.sha256(b"\x01" + recursive_root(data[:k]) + recursive_root(data[k:])).digest()


@pytest.mark.parametrize(("size", "root"), VECTOR_ROOTS.items())
def test_published_vectors(size: int, root: str) -> None:
    assert root_of(VECTOR_LEAVES[:size]).hex() == root


def test_published_inclusion_path() -> None:
    # Third leaf of seven, from the same vectors.
    tree = MerkleTree(leaf_hash(data) for data in VECTOR_LEAVES[:7])
    right = node_hash(node_hash(leaf_hash(VECTOR_LEAVES[4]), leaf_hash(VECTOR_LEAVES[5])), leaf_hash(VECTOR_LEAVES[6]))
    left = node_hash(leaf_hash(VECTOR_LEAVES[0]), leaf_hash(VECTOR_LEAVES[1]))
    assert tree.inclusion_proof(2) == [leaf_hash(VECTOR_LEAVES[3]), left, right]


def test_roots_of_all_prefixes_follow_the_definition() -> None:
    data = [bytes([k]) for k in range(64)]
    tree = MerkleTree(leaf_hash(entry) for entry in data)
    for size in range(65):
        assert tree.root(size) == recursive_root(data[:size])


def test_every_inclusion_proof_up_to_64_leaves_holds_and_no_changed_one_does() -> None:
    data = [f"leaf {k}".encode() for k in range(64)]
    for size in range(1, 65):
        tree = MerkleTree(leaf_hash(entry) for entry in data[:size])
        root = tree.root()
        for index in range(size):
            leaf, path = leaf_hash(data[index]), tree.inclusion_proof(index)
            assert verify_inclusion(leaf, index, size, path, root)
            assert len(path) <= (size - 1).bit_length()
            assert not verify_inclusion(leaf, index, size, [*path, root], root)
            assert not path or not verify_inclusion(leaf, index, size, path[:-1], root)
            other = (index + 1) % size
            assert size == 1 or not verify_inclusion(leaf, other, size, path, root)
            # One flipped bit in each part of the proof; the bit walks so that all places are met.
            bit = 1 << (index % 8)
            for place in range(len(path)):
                at = (index + place) % 32
                flipped = bytearray(path[place])
                flipped[at] ^= bit
                assert not verify_inclusion(
                    leaf, index, size, [*path[:place], bytes(flipped), *path[place + 1 :]], root
                )


def test_every_consistency_proof_up_to_64_leaves_holds_and_no_changed_one_does() -> None:
    data = [f"leaf {k}".encode() for k in range(64)]
    roots = [recursive_root(data[:size]) for size in range(65)]
    for new in range(1, 65):
        tree = MerkleTree(leaf_hash(entry) for entry in data[:new])
        for old in range(new + 1):
            path = tree.consistency_proof(old)
            assert verify_consistency(old, new, roots[old], roots[new], path)
            assert not verify_consistency(old, new, roots[old], roots[new], [*path, roots[0]])
            assert not path or not verify_consistency(old, new, roots[old], roots[new], path[:-1])
            if old > 0 and old != new:
                assert not verify_consistency(old, new, roots[old - 1], roots[new], path)
            for place in range(len(path)):
                flipped = bytearray(path[place])
                flipped[(old + place) % 32] ^= 1 << (new % 8)
                changed = [*path[:place], bytes(flipped), *path[place + 1 :]]
                assert not verify_consistency(old, new, roots[old], roots[new], changed)


def test_a_history_with_one_changed_leaf_is_not_consistent() -> None:
    honest = [bytes([k]) for k in range(20)]
    rewritten = [*honest]
    rewritten[4] = b"other"
    tree = MerkleTree(leaf_hash(entry) for entry in rewritten)
    assert not verify_consistency(11, 20, recursive_root(honest[:11]), tree.root(), tree.consistency_proof(11))


def test_a_leaf_made_of_two_node_hashes_does_not_pass_for_their_parent() -> None:
    data = [bytes([k]) for k in range(4)]
    leaves = [leaf_hash(entry) for entry in data]
    left, right = node_hash(*leaves[:2]), node_hash(*leaves[2:])
    root = root_of(data)
    assert root == node_hash(left, right)
    # The forged tree has one leaf, whose content is what the root's own hash covers.
    assert root_of([left + right]) != root
    assert not verify_inclusion(leaf_hash(left + right), 0, 1, [], root)
    # A leaf that spells out the first two leaves does not stand for their parent either.
    assert not verify_inclusion(leaf_hash(leaves[0] + leaves[1]), 0, 2, [right], root)


def test_indices_and_sizes_outside_the_tree() -> None:
    tree = MerkleTree([leaf_hash(b"a"), leaf_hash(b"b")])
    assert not verify_inclusion(leaf_hash(b"a"), -1, 2, tree.inclusion_proof(0), tree.root())
    assert not verify_inclusion(leaf_hash(b"a"), 2, 2, tree.inclusion_proof(0), tree.root())
    assert not verify_inclusion(leaf_hash(b"a")[:31], 0, 2, tree.inclusion_proof(0), tree.root())
    # A path that stops half-way does not make an inner node a root.
    four = [leaf_hash(bytes([k])) for k in range(4)]
    assert not verify_inclusion(four[0], 0, 4, [four[1]], node_hash(four[0], four[1]))
    assert not verify_consistency(3, 2, tree.root(), tree.root(), [])
    assert verify_consistency(0, 2, EMPTY_ROOT, tree.root(), [])
    for call in (lambda: tree.inclusion_proof(2), lambda: tree.consistency_proof(3), lambda: tree.root(3)):
        with pytest.raises(ValueError, match="2 leaves"):
            call()


@given(st.lists(st.binary(max_size=40), min_size=1, max_size=40), st.data())
def test_proofs_hold_for_any_content(data: list[bytes], choose: st.DataObject) -> None:
    tree = MerkleTree(leaf_hash(entry) for entry in data)
    index = choose.draw(st.integers(0, len(data) - 1))
    old = choose.draw(st.integers(0, len(data)))
    assert tree.root() == recursive_root(data)
    assert verify_inclusion(leaf_hash(data[index]), index, len(data), tree.inclusion_proof(index), tree.root())
    assert verify_consistency(old, len(data), recursive_root(data[:old]), tree.root(), tree.consistency_proof(old))


def test_canonical_json_sorts_keys_by_utf16_and_prints_numbers_as_ecmascript() -> None:
    # The ordering example of RFC 8785, section 3.2.3, and numbers of its appendix B.
    value = {"\u20ac": "Euro Sign", "\r": "Carriage Return", "\ufb33": "Hebrew", "1": "One", "\U0001f600": "Smiley",
             "\u0080": "Control", "\u00f6": "o"}  # fmt: skip
    keys = list(parse_strict(canonical(value), "it"))
    assert keys == ["\r", "1", "\u0080", "\u00f6", "\u20ac", "\U0001f600", "\ufb33"]
    assert canonical([1e21, 1e-7, 333333333.33333329, -0.0, 4.50]) == b"[1e+21,1e-7,333333333.3333333,0,4.5]"


@pytest.mark.parametrize("value", [float("nan"), float("inf"), 2**53, "\ud800", {1: 2}, object()])
def test_values_without_a_canonical_form_are_refused(value: object) -> None:
    with pytest.raises(InputError, match="canonical JSON form"):
        canonical({"value": value})


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('{"a": 1, "a": 2}', "repeats the key 'a'"),
        ('{"a": NaN}', "NaN"),
        ('{"a": -Infinity}', "-Infinity"),
        ('{"a": 1e999}', "1e999"),
        ('{"a": 1', "not JSON"),
        (b'{"a": "\xff"}', "not UTF-8"),
        ("[" * 100_000, "nested too deeply"),
    ],
)
def test_json_with_two_readings_is_refused(text: str | bytes, reason: str) -> None:
    with pytest.raises(InputError, match=reason):
        parse_strict(text, "the file")
