"""Signatures: the published RFC 8032 vector, the DSSE encoding, and what an envelope refuses."""

from __future__ import annotations

import base64
import json
import stat
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from workingpapers.foundations.canonical_json import canonical
from workingpapers.foundations.errors import InputError
from workingpapers.foundations.files import write_secret
from workingpapers.governance.arms_control.envelope import (
    PAYLOAD_TYPE,
    STATEMENT_TYPE,
    Refused,
    key_id,
    load_private_key,
    load_public_key,
    new_private_key,
    open_envelope,
    pae,
    private_key_text,
    public_key_text,
    sign,
)

STATEMENT = {"_type": STATEMENT_TYPE, "subject": [], "predicateType": "x", "predicate": {"a": 1}}


def key(number: int) -> Ed25519PrivateKey:
    return Ed25519PrivateKey.from_private_bytes(bytes([number]) * 32)


def respell(raw: bytes, **changes: Any) -> bytes:
    return canonical({**json.loads(raw), **changes}) + b"\n"


def test_dsse_encoding_is_the_one_of_its_specification() -> None:
    assert pae("http://example.com/HelloWorld", b"hello world") == (
        b"DSSEv1 29 http://example.com/HelloWorld 11 hello world"
    )
    assert pae("\u00e9", b"") == b"DSSEv1 2 \xc3\xa9 0 "


def test_signature_is_over_the_encoding_and_under_rfc_8032() -> None:
    # RFC 8032, section 7.1, test 2: the library signs as the standard says.
    private = Ed25519PrivateKey.from_private_bytes(
        bytes.fromhex("4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb")
    )
    assert private.sign(b"\x72").hex() == (
        "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da"
        "085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00"
    )
    envelope = json.loads(sign(STATEMENT, [private]))
    payload = base64.b64decode(envelope["payload"])
    assert payload == canonical(STATEMENT)
    message = b"DSSEv1 %d %s %d %s" % (len(PAYLOAD_TYPE), PAYLOAD_TYPE.encode(), len(payload), payload)
    private.public_key().verify(base64.b64decode(envelope["signatures"][0]["sig"]), message)


def test_round_trip_and_two_signers() -> None:
    pair = [key(1), key(2)]
    raw = sign(STATEMENT, pair)
    statement, payload = open_envelope(raw, [k.public_key() for k in pair])
    assert statement == STATEMENT
    assert payload == canonical(STATEMENT)
    assert sign(STATEMENT, pair[::-1]) == raw


def test_threshold_counts_distinct_pinned_keys() -> None:
    publics = [key(k).public_key() for k in (1, 2, 3)]
    raw = sign(STATEMENT, [key(1), key(2)])
    open_envelope(raw, publics, threshold=2)
    with pytest.raises(Refused, match="signed by 2 of the pinned keys; 3 are needed"):
        open_envelope(raw, publics)
    with pytest.raises(Refused, match="not pinned"):
        open_envelope(raw, publics[:1], threshold=1)
    content = json.loads(raw)
    twice = respell(raw, signatures=[content["signatures"][0]] * 2)
    with pytest.raises(Refused, match="stands twice"):
        open_envelope(twice, publics, threshold=2)
    swapped = respell(raw, signatures=content["signatures"][::-1])
    with pytest.raises(Refused, match="order"):
        open_envelope(swapped, publics, threshold=2)
    with pytest.raises(Refused, match="signed by 0"):
        open_envelope(respell(raw, signatures=[]), publics, threshold=0)


def test_changing_the_payload_type_fails_even_where_the_type_is_taken() -> None:
    raw = sign(STATEMENT, [key(1)])
    with pytest.raises(Refused, match="payload type"):
        open_envelope(respell(raw, payloadType="application/json"), [key(1).public_key()])
    # The type is under the signature too: the same payload under another type does not verify.
    envelope = json.loads(raw)
    from cryptography.exceptions import InvalidSignature

    payload, signature = base64.b64decode(envelope["payload"]), base64.b64decode(envelope["signatures"][0]["sig"])
    with pytest.raises(InvalidSignature):
        key(1).public_key().verify(signature, pae("application/json", payload))


def test_no_byte_of_an_envelope_can_be_changed_dropped_or_added() -> None:
    raw, publics = sign(STATEMENT, [key(1)]), [key(1).public_key()]
    for place in range(len(raw)):
        for changed in (
            raw[:place] + bytes([raw[place] ^ 1]) + raw[place + 1 :],
            raw[:place] + bytes([raw[place] ^ 32]) + raw[place + 1 :],
            raw[:place] + raw[place + 1 :],
            raw[:place] + b" " + raw[place:],
            raw[:place],
        ):
            if changed != raw:
                with pytest.raises(Refused):
                    open_envelope(changed, publics)


def test_other_spellings_of_the_same_content_are_refused() -> None:
    raw, publics = sign(STATEMENT, [key(1)]), [key(1).public_key()]
    content = json.loads(raw)
    with pytest.raises(Refused, match="canonical spelling"):
        open_envelope(json.dumps(content, indent=1).encode(), publics)
    # Base64 with other unused bits decodes to the same bytes.
    text = content["signatures"][0]["sig"]
    assert text.endswith("==")
    last = text.rstrip("=")[-1]
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
    other = text.rstrip("=")[:-1] + alphabet[alphabet.index(last) ^ 1] + "=="
    assert base64.b64decode(other) == base64.b64decode(text)
    with pytest.raises(Refused, match="canonical base64"):
        open_envelope(respell(raw, signatures=[{**content["signatures"][0], "sig": other}]), publics)
    signed_pretty = json.dumps(STATEMENT).encode()
    message = pae(PAYLOAD_TYPE, signed_pretty)
    pretty = respell(
        raw,
        payload=base64.b64encode(signed_pretty).decode(),
        signatures=[{"keyid": key_id(key(1).public_key()), "sig": base64.b64encode(key(1).sign(message)).decode()}],
    )
    with pytest.raises(Refused, match="canonical spelling"):
        open_envelope(pretty, publics)


@pytest.mark.parametrize(
    "raw",
    [b"", b"null\n", b"[]\n", b"{}\n", b"\xff\n", b'{"payload":1,"payloadType":2,"signatures":3}\n', b"{" * 90_000],
)
def test_rubbish_is_refused_not_crashed_on(raw: bytes) -> None:
    with pytest.raises(Refused):
        open_envelope(raw, [key(1).public_key()])


def test_keys_are_written_for_the_owner_alone_and_read_back(tmp_path: Path) -> None:
    for kind in ("ed25519", "p256"):
        private = new_private_key(kind)
        path = write_secret(tmp_path / f"{kind}.pem", private_key_text(private))
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        public = tmp_path / f"{kind}.pub"
        public.write_text(public_key_text(private.public_key()))
        assert key_id(load_public_key(public)) == key_id(load_private_key(path).public_key())
        with pytest.raises(InputError, match="is a private key"):
            load_public_key(path)
        with pytest.raises(InputError, match="not a PEM private key"):
            load_private_key(public)
    assert [entry.name for entry in tmp_path.iterdir() if entry.name.endswith(".part")] == []


def test_key_errors_never_show_key_material(tmp_path: Path) -> None:
    from cryptography.hazmat.primitives import serialization as form

    secret = new_private_key().private_bytes(
        form.Encoding.PEM, form.PrivateFormat.PKCS8, form.BestAvailableEncryption(b"word")
    )
    path = tmp_path / "encrypted.pem"
    path.write_bytes(secret)
    with pytest.raises(InputError, match="is encrypted") as caught:
        load_private_key(path)
    assert secret.split(b"\n")[1].decode() not in str(caught.value)
    assert isinstance(load_private_key(path, b"word"), Ed25519PrivateKey)
    with pytest.raises(InputError, match="use 'ed25519' or 'p256'"):
        new_private_key("rsa")
    with pytest.raises(InputError, match="no such file"):
        write_secret(tmp_path / "absent" / "x", "y")


def test_signing_refuses_no_key_a_key_twice_and_other_kinds() -> None:
    with pytest.raises(InputError, match="No signing key"):
        sign(STATEMENT, [])
    with pytest.raises(InputError, match="given twice"):
        sign(STATEMENT, [key(1), key(1)])
    with pytest.raises(InputError, match="not Ed25519"):
        sign(STATEMENT, [new_private_key("p256")])  # type: ignore[list-item]
    assert isinstance(key(1).public_key(), Ed25519PublicKey)
