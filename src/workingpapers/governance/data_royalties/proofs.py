"""Evidence that needs no trust: canonical JSON (RFC 8785), Merkle trees (RFC 6962), Ed25519 signatures (RFC 8032)."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from workingpapers.foundations.canonical_json import canonical
from workingpapers.foundations.errors import InputError
from workingpapers.foundations.merkle import MerkleTree, leaf_hash, root_of, verify_inclusion

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

GENESIS = "0" * 64
"""What the first entry of a journal names as its predecessor."""


def chain_hash(previous: str, payload: bytes) -> str:
    """Return ``SHA-256(previous || payload)`` in hexadecimal, `previous` as 32 raw bytes."""
    return hashlib.sha256(bytes.fromhex(previous) + payload).hexdigest()


def merkle_root(leaves: Sequence[bytes]) -> str:
    """Return the RFC 6962 tree hash of `leaves` in hexadecimal."""
    return root_of(leaves).hex()


def inclusion_proofs(leaves: Sequence[bytes]) -> list[list[str]]:
    """Return for every leaf the audit path: the hashes of its siblings from the bottom up."""
    tree = MerkleTree(map(leaf_hash, leaves))
    return [[sibling.hex() for sibling in tree.inclusion_proof(index)] for index in range(len(leaves))]


def included(leaf: bytes, index: int, size: int, path: Sequence[str], root: str) -> bool:
    """Whether `leaf` stands at `index` among the `size` leaves under `root`, by its audit `path` alone."""
    try:
        siblings, top = [bytes.fromhex(sibling) for sibling in path], bytes.fromhex(root)
    except ValueError:
        return False
    return verify_inclusion(leaf_hash(leaf), index, size, siblings, top)


def salt(secret: str, *names: str) -> str:
    """Return 16 bytes in hexadecimal that nobody without `secret` can guess: they keep a leaf from being tried out."""
    return hmac.new(bytes.fromhex(secret), "|".join(names).encode(), hashlib.sha256).hexdigest()[:32]


def load_or_make_key(path: Path) -> Ed25519PrivateKey:
    """Return the Ed25519 key of the PEM file `path`; where there is none, make one that only its owner can read.

    Raises:
        InputError: The file is not an unencrypted Ed25519 private key, or cannot be written.
    """
    import os

    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    if path.exists():
        try:
            key = serialization.load_pem_private_key(path.read_bytes(), password=None)
        except (ValueError, TypeError, OSError) as error:
            raise InputError(f"{str(path)!r} is not an unencrypted PEM private key ({type(error).__name__}).") from None
        if not isinstance(key, Ed25519PrivateKey):
            raise InputError(f"{str(path)!r} holds a key of another kind; an Ed25519 key is needed.")
        return key
    key = Ed25519PrivateKey.generate()
    text = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except OSError as error:
        raise InputError(f"Cannot write the key {str(path)!r}: {(error.strerror or '').lower()}.") from None
    with os.fdopen(descriptor, "wb") as stream:
        stream.write(text)
    return key


def public_text(key: Ed25519PrivateKey) -> str:
    """Return the public half of `key` as 64 hexadecimal digits."""
    return key.public_key().public_bytes_raw().hex()


def sign(key: Ed25519PrivateKey, value: Any) -> str:
    """Return the Ed25519 signature of the canonical text of `value` in hexadecimal."""
    return key.sign(canonical(value)).hex()


def signed_by(public: str, value: Any, signature: str) -> bool:
    """Whether `signature` is that of the holder of the `public` key under `value`."""
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    try:
        Ed25519PublicKey.from_public_bytes(bytes.fromhex(public)).verify(bytes.fromhex(signature), canonical(value))
    except (InvalidSignature, ValueError, TypeError):
        return False
    return True
