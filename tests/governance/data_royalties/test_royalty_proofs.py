"""RFC 6962 trees, RFC 8785 text, chains and signatures."""

from __future__ import annotations

import stat

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workingpapers.foundations.canonical_json import canonical
from workingpapers.foundations.errors import InputError
from workingpapers.governance.data_royalties.proofs import (
    chain_hash,
    included,
    inclusion_proofs,
    load_or_make_key,
    merkle_root,
    public_text,
    salt,
    sign,
    signed_by,
)

LEAVES = [
    bytes.fromhex(text)
    for text in (
        "",
        "00",
        "10",
        "2021",
        "3031",
        "40414243",
        "5051525354555657",
        "606162636465666768696a6b6c6d6e6f",
    )
]


def test_merkle_roots_of_the_reference_leaves():
    assert merkle_root([]) == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    assert merkle_root(LEAVES[:1]) == "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d"
    assert merkle_root(LEAVES[:2]).startswith("fac54203")
    assert merkle_root(LEAVES[:3]).startswith("aeb6bcfe")
    assert merkle_root(LEAVES) == "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328"


def recursive_root(leaves):
    """RFC 6962, section 2.1, word for word."""
    import hashlib

    if len(leaves) == 1:
        return hashlib.sha256(b"\x00" + leaves[0]).digest()
    split = 1
    while split * 2 < len(leaves):
        split *= 2
    return hashlib.sha256(b"\x01" + recursive_root(leaves[:split]) + recursive_root(leaves[split:])).digest()


@given(st.lists(st.binary(max_size=8), min_size=1, max_size=40), st.data())
def test_every_leaf_is_included_and_no_other(leaves, data):
    root = merkle_root(leaves)
    assert root == recursive_root(leaves).hex()
    paths = inclusion_proofs(leaves)
    index = data.draw(st.integers(0, len(leaves) - 1))
    assert included(leaves[index], index, len(leaves), paths[index], root)
    assert not included(leaves[index] + b"x", index, len(leaves), paths[index], root)
    assert not included(leaves[index], len(leaves), len(leaves), paths[index], root)
    assert not included(leaves[index], index, len(leaves), [*paths[index], "00" * 32], root)
    if paths[index]:
        assert not included(leaves[index], index, len(leaves), paths[index][:-1], root)
        assert not included(leaves[index], index, len(leaves), ["zz", *paths[index][1:]], root)


def test_canonical_text_has_sorted_keys_and_no_space():
    # The example of RFC 8785, section 3.2.3, without its numbers.
    assert canonical({"literals": [None, True, False], "a": "€$"}) == '{"a":"€$","literals":[null,true,false]}'.encode()
    assert canonical({"b": 1, "a": {"d": "2", "c": []}}) == b'{"a":{"c":[],"d":"2"},"b":1}'


def test_chain_hash_is_sha256_of_previous_and_payload():
    # SHA-256 of 32 zero bytes and "abc".
    import hashlib

    assert chain_hash("00" * 32, b"abc") == hashlib.sha256(b"\0" * 32 + b"abc").hexdigest()


def test_key_is_made_once_and_is_private(tmp_path):
    path = tmp_path / "key.pem"
    key = load_or_make_key(path)
    assert public_text(load_or_make_key(path)) == public_text(key)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    signature = sign(key, {"a": 1})
    assert signed_by(public_text(key), {"a": 1}, signature)
    assert not signed_by(public_text(key), {"a": 2}, signature)
    assert not signed_by(public_text(load_or_make_key(tmp_path / "other.pem")), {"a": 1}, signature)
    assert not signed_by("no key", {"a": 1}, "no signature")


def test_a_file_that_is_no_key_is_refused(tmp_path):
    (tmp_path / "key.pem").write_text("hello")
    with pytest.raises(InputError, match="not an unencrypted PEM private key"):
        load_or_make_key(tmp_path / "key.pem")


def test_salts_differ_by_name_and_secret():
    assert len({salt("00" * 32, "p", "2026-05"), salt("00" * 32, "q", "2026-05"), salt("01" * 32, "p", "2026-05")}) == 3
    assert len(bytes.fromhex(salt("00" * 32, "p"))) == 16
