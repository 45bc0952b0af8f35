"""Interoperation with OpenSSF model signing: its signatures as items, and signatures that its verifier accepts."""

from __future__ import annotations

import base64
import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

from workingpapers.foundations.canonical_json import parse_strict
from workingpapers.foundations.errors import InputError
from workingpapers.foundations.files import read_text
from workingpapers.governance.arms_control.envelope import (
    PAYLOAD_TYPE,
    STATEMENT_TYPE,
    Refused,
    pae,
    public_key_text,
)

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey, EllipticCurvePublicKey

BUNDLE_TYPE = "application/vnd.dev.sigstore.bundle.v0.3+json"
PREDICATE_TYPE = "https://model_signing/signature/v1.0"
CURVES = {"secp256r1": "SHA256", "secp384r1": "SHA384", "secp521r1": "SHA512"}


@dataclass(frozen=True)
class Manifest:
    """What an OpenSSF model signature says about a model.

    Args:
        name: Name of the model (its folder).
        digest: SHA-256 over the digests of all resources in order, hexadecimal.
        resources: ``{"name", "algorithm", "digest"}`` of each file or shard, in order.
        serialization: How the model was cut into resources.
    """

    name: str
    digest: str
    resources: tuple[Mapping[str, str], ...]
    serialization: Mapping[str, Any]

    def file_records(self) -> list[dict[str, Any]]:
        """Return the resources as file records of declared items.

        Whole files come without their sizes, which such a manifest does not hold.

        Raises:
            InputError: The shards of a file leave gaps.
        """
        if self.serialization.get("method") != "shards":
            return [
                {"name": entry["name"], "size": None, "shard_size": None, "sha256": [entry["digest"]]}
                for entry in self.resources
            ]
        shard_size = int(self.serialization["shard_size"])
        files: dict[str, list[tuple[int, int, str]]] = {}
        for resource in self.resources:
            name, start, stop = resource["name"].rsplit(":", 2)
            files.setdefault(name, []).append((int(start), int(stop), resource["digest"]))
        records = []
        for name, shards in files.items():
            shards.sort()
            edges = [(min(k * shard_size, shards[-1][1]), min((k + 1) * shard_size, shards[-1][1]))
                     for k in range(len(shards))]  # fmt: skip
            if [shard[:2] for shard in shards] != edges:
                raise InputError(f"The shards of {name!r} leave gaps in the model signature; sign the model again.")
            records.append(
                {"name": name, "size": shards[-1][1], "shard_size": shard_size, "sha256": [s[2] for s in shards]}
            )
        return records


def read_manifest(path: str | os.PathLike[str], public_key: EllipticCurvePublicKey | None = None) -> Manifest:
    """Read an OpenSSF model signature (a Sigstore bundle made with a key) and check that it agrees with itself.

    Args:
        path: The signature file, ``model.sig``.
        public_key: Where given, the signature must be by this key; without it the content is read unverified.

    Returns:
        The manifest.

    Raises:
        InputError: The file is no such bundle, its parts disagree, or the signature does not hold.
    """
    name = repr(str(path))
    bundle = parse_strict(read_text(path), name)
    try:
        envelope = bundle["dsseEnvelope"]
        payload = base64.b64decode(envelope["payload"], validate=True)
        if bundle["mediaType"] != BUNDLE_TYPE or envelope["payloadType"] != PAYLOAD_TYPE:
            raise InputError(f"{name} is a bundle of another type; sign the model with model-signing 1.0 or later.")
        if public_key is not None:
            _check_signature(envelope, payload, public_key)
        statement = parse_strict(payload, f"the payload of {name}")
        if statement["_type"] != STATEMENT_TYPE or statement["predicateType"] != PREDICATE_TYPE:
            raise InputError(f"{name} holds another statement; sign the model with model-signing 1.0 or later.")
        (subject,) = statement["subject"]
        resources = tuple(
            {key: str(entry[key]) for key in ("name", "algorithm", "digest")}
            for entry in statement["predicate"]["resources"]
        )
        digest = hashlib.sha256(b"".join(bytes.fromhex(entry["digest"]) for entry in resources)).hexdigest()
        if digest != subject["digest"]["sha256"]:
            raise InputError(f"The digest of {name} is not that of its resources; the signature file was changed.")
        if any(not entry["algorithm"].startswith("sha256") for entry in resources):
            raise InputError(f"{name} uses another hash than SHA-256; sign the model with SHA-256.")
        return Manifest(str(subject["name"]), digest, resources, dict(statement["predicate"]["serialization"]))
    except Refused as error:
        raise InputError(f"{name}: {error}; do not rely on this model.") from None
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(
            f"{name} is not an OpenSSF model signature (a Sigstore bundle with a DSSE envelope)."
        ) from None


def model_signature(item: Mapping[str, Any], key: EllipticCurvePrivateKey) -> str:
    """Return an OpenSSF model signature over the files of a declared item; ``model_signing verify key`` accepts it.

    Args:
        item: A declared item with at least one file; names are relative to the model's folder.
        key: Private key on P-256, P-384 or P-521, the curves of that format.

    Returns:
        JSON text of the bundle.

    Raises:
        InputError: The item has no files, its files have several shard sizes, or the key is on another curve.

    References:
        OpenSSF Model Signing specification, version 1.0.
    """
    records = sorted(item["files"], key=lambda record: PurePosixPath(record["name"]))
    if not records:
        raise InputError(f"The item {item['id']!r} declares no files; there is nothing to sign.")
    sizes = {record["shard_size"] for record in records}
    whole = all(len(record["sha256"]) == 1 for record in records)
    if not whole and len(sizes) > 1:
        raise InputError(f"The files of {item['id']!r} have several shard sizes; declare them with one.")
    resources = []
    for record in records:
        for position, digest in enumerate(record["sha256"]):
            name = record["name"] if whole else _shard_name(record, position)
            resources.append(
                {
                    "name": name,
                    "algorithm": "sha256" if whole else f"sha256-sharded-{record['shard_size']}",
                    "digest": digest,
                }
            )
    serialization: dict[str, Any] = {"method": "files" if whole else "shards", "hash_type": "sha256"}
    serialization["allow_symlinks"] = False
    if not whole:
        serialization["shard_size"] = sizes.pop()
    root = hashlib.sha256(b"".join(bytes.fromhex(entry["digest"]) for entry in resources)).hexdigest()
    statement = {
        "_type": STATEMENT_TYPE,
        "subject": [{"name": item["id"], "digest": {"sha256": root}}],
        "predicateType": PREDICATE_TYPE,
        "predicate": {"serialization": serialization, "resources": resources},
    }
    payload = json.dumps(statement, indent=2, sort_keys=True).encode("utf-8")
    signature = _sign(pae(PAYLOAD_TYPE, payload), key)
    hint = hashlib.sha256(public_key_text(key.public_key()).encode()).hexdigest()
    return json.dumps(
        {
            "mediaType": BUNDLE_TYPE,
            "verificationMaterial": {"publicKey": {"hint": hint}, "tlogEntries": []},
            "dsseEnvelope": {
                "payload": base64.b64encode(payload).decode(),
                "payloadType": PAYLOAD_TYPE,
                "signatures": [{"sig": base64.b64encode(signature).decode(), "keyid": ""}],
            },
        }
    )


def _shard_name(record: Mapping[str, Any], position: int) -> str:
    if record["size"] is None:
        raise InputError(f"The size of {record['name']!r} is not known; declare the file itself to sign it in shards.")
    start = position * record["shard_size"]
    return f"{record['name']}:{start}:{min(start + record['shard_size'], record['size'])}"


def _hash_for(curve: str) -> Any:
    from cryptography.hazmat.primitives import hashes

    if curve not in CURVES:
        raise InputError(f"The key is on the curve {curve}; OpenSSF model signing takes {', '.join(CURVES)}.")
    return getattr(hashes, CURVES[curve])()


def _sign(message: bytes, key: EllipticCurvePrivateKey) -> bytes:
    from cryptography.hazmat.primitives.asymmetric import ec

    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise InputError("The key is Ed25519; OpenSSF model signing takes an elliptic-curve key, kind 'p256'.")
    return key.sign(message, ec.ECDSA(_hash_for(key.curve.name)))


def _check_signature(envelope: Mapping[str, Any], payload: bytes, key: EllipticCurvePublicKey) -> None:
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric import ec

    if not isinstance(key, ec.EllipticCurvePublicKey):
        raise InputError("The public key is Ed25519; OpenSSF model signatures are checked with an elliptic-curve key.")
    signature = base64.b64decode(envelope["signatures"][0]["sig"], validate=True)
    try:
        key.verify(signature, pae(PAYLOAD_TYPE, payload), ec.ECDSA(_hash_for(key.curve.name)))
    except InvalidSignature:
        raise Refused("the signature does not hold under the given key") from None
