"""Keys and signed envelopes: Ed25519 signatures over in-toto statements inside DSSE envelopes."""

from __future__ import annotations

import base64
import binascii
import hashlib
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from workingpapers.foundations.canonical_json import canonical, parse_strict
from workingpapers.foundations.errors import InputError
from workingpapers.foundations.files import check_readable

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey, EllipticCurvePublicKey
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

    PrivateKey = Ed25519PrivateKey | EllipticCurvePrivateKey
    PublicKey = Ed25519PublicKey | EllipticCurvePublicKey

PAYLOAD_TYPE = "application/vnd.in-toto+json"
STATEMENT_TYPE = "https://in-toto.io/Statement/v1"


class Refused(Exception):
    """Evidence that does not hold; the message says which check failed and on what."""


def pae(payload_type: str, payload: bytes) -> bytes:
    """Return the DSSE pre-authentication encoding, the bytes that a signature covers.

    ``"DSSEv1" SP len(type) SP type SP len(payload) SP payload``, lengths in bytes as decimal text.

    Args:
        payload_type: Media type of the payload.
        payload: The bytes that are signed.

    References:
        DSSE protocol, version 1.0.
    """
    kind = payload_type.encode("utf-8")
    return b"DSSEv1 %d %s %d %s" % (len(kind), kind, len(payload), payload)


def new_private_key(kind: str = "ed25519") -> PrivateKey:
    """Return a fresh private key: ``"ed25519"`` for declarations or ``"p256"`` for OpenSSF model signatures.

    Args:
        kind: ``"ed25519"`` or ``"p256"``.

    Raises:
        InputError: Another kind is asked for.
    """
    if kind == "ed25519":
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

        return Ed25519PrivateKey.generate()
    if kind == "p256":
        from cryptography.hazmat.primitives.asymmetric import ec

        return ec.generate_private_key(ec.SECP256R1())
    raise InputError(f"The kind of key is {kind!r}; use 'ed25519' or 'p256'.")


def private_key_text(key: PrivateKey) -> str:
    """Return the private key as unencrypted PKCS #8 PEM text; write it with ``foundations.files.write_secret`` alone.

    Args:
        key: A private key.
    """
    from cryptography.hazmat.primitives import serialization as form

    return key.private_bytes(form.Encoding.PEM, form.PrivateFormat.PKCS8, form.NoEncryption()).decode()


def public_key_text(key: PublicKey) -> str:
    """Return the public key as PEM text (SubjectPublicKeyInfo).

    Args:
        key: A public key.
    """
    from cryptography.hazmat.primitives import serialization as form

    return key.public_bytes(form.Encoding.PEM, form.PublicFormat.SubjectPublicKeyInfo).decode()


def key_id(key: PublicKey) -> str:
    """Return the SHA-256 of the public key's DER form (SubjectPublicKeyInfo), 64 hexadecimal digits.

    Args:
        key: A public key.
    """
    from cryptography.hazmat.primitives import serialization as form

    return hashlib.sha256(key.public_bytes(form.Encoding.DER, form.PublicFormat.SubjectPublicKeyInfo)).hexdigest()


def load_private_key(path: str | os.PathLike[str], password: bytes | None = None) -> PrivateKey:
    """Read a PEM private key (Ed25519 or an elliptic curve).

    Args:
        path: A PEM file.
        password: Password of an encrypted key.

    Raises:
        InputError: The file is no such key or is encrypted and no password was given; the message never shows the key.
    """
    from cryptography.hazmat.primitives import serialization as form
    from cryptography.hazmat.primitives.asymmetric import ec, ed25519

    raw = check_readable(path).read_bytes()
    try:
        key = form.load_pem_private_key(raw, password)
    except TypeError:
        raise InputError(f"The private key {str(path)!r} is encrypted; decrypt it to a file of mode 600.") from None
    except Exception:
        raise InputError(f"{str(path)!r} is not a PEM private key; make one with `keys`.") from None
    if not isinstance(key, ed25519.Ed25519PrivateKey | ec.EllipticCurvePrivateKey):
        raise InputError(f"The private key {str(path)!r} is neither Ed25519 nor elliptic-curve; make one with `keys`.")
    return key


def load_public_key(path: str | os.PathLike[str]) -> PublicKey:
    """Read a PEM public key (Ed25519 or an elliptic curve).

    Args:
        path: A PEM file.

    Raises:
        InputError: The file is no such key; a private key given by mistake is named as such.
    """
    from cryptography.hazmat.primitives import serialization as form
    from cryptography.hazmat.primitives.asymmetric import ec, ed25519

    raw = check_readable(path).read_bytes()
    if b"PRIVATE KEY" in raw:
        raise InputError(
            f"{str(path)!r} is a private key; verification takes the public one, and nobody else's secret."
        )
    try:
        key = form.load_pem_public_key(raw)
    except Exception:
        raise InputError(
            f"{str(path)!r} is not a PEM public key; ask the declaring party for its public key."
        ) from None
    if not isinstance(key, ed25519.Ed25519PublicKey | ec.EllipticCurvePublicKey):
        raise InputError(f"The public key {str(path)!r} is neither Ed25519 nor elliptic-curve; ask for such a key.")
    return key


def sign(statement: Mapping[str, Any], keys: Sequence[Ed25519PrivateKey]) -> bytes:
    """Return the canonical bytes of a DSSE envelope around `statement`, signed by each key.

    Args:
        statement: An in-toto Statement v1.
        keys: Ed25519 private keys of the signing parties, at least one.

    Returns:
        The envelope in RFC 8785 form and a line feed: the only spelling that :func:`open_envelope` takes.

    Raises:
        InputError: No key, a key twice, or a key that is not Ed25519.
    """
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    if not keys:
        raise InputError("No signing key was given; make one with `keys`.")
    if not all(isinstance(key, Ed25519PrivateKey) for key in keys):
        raise InputError("A signing key is not Ed25519; declarations and evidence are signed with Ed25519 alone.")
    payload = canonical(statement)
    message = pae(PAYLOAD_TYPE, payload)
    signatures = [{"keyid": key_id(key.public_key()), "sig": _encode(key.sign(message))} for key in keys]
    if len({entry["keyid"] for entry in signatures}) < len(signatures):
        raise InputError("A signing key was given twice; each party signs once.")
    signatures.sort(key=lambda entry: entry["keyid"])
    return canonical({"payload": _encode(payload), "payloadType": PAYLOAD_TYPE, "signatures": signatures}) + b"\n"


def open_envelope(
    raw: bytes, keys: Sequence[Ed25519PublicKey], threshold: int | None = None, name: str = "the envelope"
) -> tuple[dict[str, Any], bytes]:
    """Check an envelope against pinned public keys and return its statement.

    Every byte counts: the file must be the canonical spelling, each signature in it must be by a pinned key and hold,
    and at least `threshold` keys must have signed.

    Args:
        raw: Content of the file.
        keys: Public keys that the verifier already trusts, at least one.
        threshold: Least number of them that must have signed; all by default.
        name: How messages call the file.

    Returns:
        The in-toto statement and the payload bytes that were signed.

    Raises:
        Refused: Anything else; the message says what.
    """
    needed = len(keys) if threshold is None else threshold
    envelope = _canonical_mapping(raw, name, line_feed=True)
    if set(envelope) != {"payload", "payloadType", "signatures"} or not isinstance(envelope["signatures"], list):
        raise Refused(f"{name} is not a DSSE envelope")
    if envelope["payloadType"] != PAYLOAD_TYPE:
        raise Refused(f"{name} has payload type {envelope['payloadType']!r} instead of {PAYLOAD_TYPE!r}")
    payload = _decode(envelope["payload"], f"the payload of {name}")
    message = pae(PAYLOAD_TYPE, payload)
    pinned = {key_id(key): key for key in keys}
    signers = [_check_signature(entry, message, pinned, name) for entry in envelope["signatures"]]
    if signers != sorted(set(signers)):
        raise Refused(f"the signatures of {name} are not in the order of their keys, or one stands twice")
    if needed < 1 or len(signers) < needed:
        raise Refused(f"{name} is signed by {len(signers)} of the pinned keys; {max(needed, 1)} are needed")
    statement = _canonical_mapping(payload, f"the payload of {name}", line_feed=False)
    if statement.get("_type") != STATEMENT_TYPE:
        raise Refused(f"the payload of {name} is not an in-toto Statement v1")
    return statement, payload


def _check_signature(entry: Any, message: bytes, pinned: Mapping[str, Ed25519PublicKey], name: str) -> str:
    from cryptography.exceptions import InvalidSignature

    if not isinstance(entry, dict) or set(entry) != {"keyid", "sig"}:
        raise Refused(f"a signature of {name} is malformed")
    key = pinned.get(entry["keyid"]) if isinstance(entry["keyid"], str) else None
    if key is None:
        raise Refused(f"{name} carries a signature by a key that is not pinned")
    try:
        key.verify(_decode(entry["sig"], f"a signature of {name}"), message)
    except InvalidSignature:
        raise Refused(f"a signature of {name} does not hold: the content was changed after signing") from None
    return str(entry["keyid"])


def _canonical_mapping(raw: bytes, name: str, *, line_feed: bool) -> dict[str, Any]:
    try:
        value = parse_strict(raw, name)
        spelling = canonical(value) + (b"\n" if line_feed else b"")
    except InputError as error:
        raise Refused(str(error).rstrip(".")) from None
    if not isinstance(value, dict) or spelling != raw:
        raise Refused(f"{name} is not in its canonical spelling; it was changed or cut")
    return value


def _encode(raw: bytes) -> str:
    return base64.b64encode(raw).decode("ascii")


def _decode(text: Any, name: str) -> bytes:
    try:
        raw = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError, TypeError):
        raise Refused(f"{name} is not base64") from None
    if _encode(raw) != text:
        raise Refused(f"{name} is not in its canonical base64 spelling")
    return raw
