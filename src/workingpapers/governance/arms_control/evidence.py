"""Evidence: opened leaves, proofs of absence and proofs of history, signed as an answer to one request."""

from __future__ import annotations

import bisect
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from workingpapers.foundations.errors import InputError, near_match
from workingpapers.foundations.merkle import MerkleTree
from workingpapers.governance.arms_control.declaration import Book, parse_time
from workingpapers.governance.arms_control.envelope import STATEMENT_TYPE, sign
from workingpapers.governance.arms_control.items import tag

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

EVIDENCE_TYPE = "urn:workingpapers:evidence:v1"


def disclose(book: Book, indices: Sequence[int]) -> list[dict[str, Any]]:
    """Open the leaves `indices` in that order: item, salt, and the paths in the tree and in the directory of ids.

    All other items stay hidden: a path holds nothing but hashes.

    Args:
        book: Secret book of the declaration.
        indices: Places of the items, from 0, in the order to open them.

    Raises:
        InputError: There is no such item.
    """
    tree, tags = book.tree(), book.tags()
    directory = MerkleTree(tags)
    opened = []
    for index in indices:
        if not 0 <= index < len(book.items):
            raise InputError(f"There is no item {index}; {len(book.items)} are declared, counted from 0.")
        item = book.items[index]
        place = bisect.bisect_left(tags, tag(item["id"], bytes.fromhex(book.head.directory_salt)))
        opened.append(
            {
                "index": index,
                "item": dict(item),
                "salt": book.salts[index].hex(),
                "path": _hex(tree.inclusion_proof(index)),
                "directory_index": place,
                "directory_path": _hex(directory.inclusion_proof(place)),
            }
        )
    return opened


def indices_of(book: Book, identifiers: Sequence[str]) -> list[int]:
    """Return the places of the items with these ids, in order of declaration.

    Args:
        book: Secret book of the declaration.
        identifiers: Ids of declared items.

    Raises:
        InputError: An id is not declared; a near one is offered.
    """
    places = {item["id"]: index for index, item in enumerate(book.items)}
    for identifier in identifiers:
        if identifier not in places:
            raise InputError(f"The item {identifier!r} is not declared{near_match(identifier, places) or '.'}")
    return sorted({places[identifier] for identifier in identifiers})


def prove_absent(book: Book, identifier: str) -> dict[str, Any]:
    """Prove that no declared item has the id `identifier`: its neighbours in the sorted directory stand side by side.

    The proof is worth what the sorting is worth, which the declaring party did: only a verifier who has the whole
    directory (``directory=True`` in :func:`make_evidence`) knows that the id stands nowhere else.

    Args:
        book: Secret book of the declaration.
        identifier: An id that is not declared.

    Returns:
        ``{"id", "left", "right"}``; each neighbour is ``{"index", "tag", "path"}``, or None at the end of the
        directory.

    Raises:
        InputError: The id is declared.
    """
    tags, wanted = book.tags(), tag(identifier, bytes.fromhex(book.head.directory_salt))
    place = bisect.bisect_left(tags, wanted)
    if place < len(tags) and tags[place] == wanted:
        raise InputError(f"The item {identifier!r} is declared; its absence cannot be proved.")
    directory = MerkleTree(tags)

    def neighbour(index: int) -> dict[str, Any] | None:
        if not 0 <= index < len(tags):
            return None
        return {"index": index, "tag": tags[index].hex(), "path": _hex(directory.inclusion_proof(index))}

    return {"id": identifier, "left": neighbour(place - 1), "right": neighbour(place)}


def make_evidence(
    book: Book,
    *,
    time: str,
    challenge: str | None = None,
    disclosures: Sequence[Mapping[str, Any]] = (),
    absences: Sequence[Mapping[str, Any]] = (),
    previous: Mapping[str, Any] | None = None,
    directory: bool = False,
) -> dict[str, Any]:
    """Return the in-toto statement that carries evidence about one declaration.

    Args:
        book: Secret book of the declaration.
        time: Time of the evidence, ``YYYY-MM-DDTHH:MM:SSZ``.
        challenge: Digest of the challenge or the verifier's own request number that it answers; without one anybody can
            show the evidence again.
        disclosures: From :func:`disclose`, in the order asked for.
        absences: From :func:`prove_absent`.
        previous: ``{"payload", "size"}`` of an earlier declaration that the verifier holds; its history is proved.
        directory: Whether to list all tags, so that a verifier can check the whole directory (32 bytes an item).

    Raises:
        InputError: The time is malformed, or the earlier declaration is larger than this one.
    """
    parse_time(time)
    consistency = None
    if previous is not None:
        old = int(previous["size"])
        if old > book.head.size:
            raise InputError(f"The earlier declaration has {old} items, this one {book.head.size}; swap them.")
        consistency = {"payload": previous["payload"], "path": _hex(book.tree().consistency_proof(old))}
    return {
        "_type": STATEMENT_TYPE,
        "subject": [{"name": f"{book.head.origin}#{book.head.sequence}", "digest": {"sha256": book.payload_digest()}}],
        "predicateType": EVIDENCE_TYPE,
        "predicate": {
            "version": 1,
            "time": time,
            "challenge": challenge,
            "disclosures": [dict(entry) for entry in disclosures],
            "absences": [dict(entry) for entry in absences],
            "consistency": consistency,
            "directory": _hex(book.tags()) if directory else None,
        },
    }


def sign_evidence(statement: Mapping[str, Any], keys: Sequence[Ed25519PrivateKey]) -> bytes:
    """Return the evidence in a DSSE envelope, signed by the declaring party.

    Args:
        statement: From :func:`make_evidence`.
        keys: Ed25519 private keys of the signing parties.
    """
    return sign(statement, keys)


def _hex(hashes: Sequence[bytes]) -> list[str]:
    return [digest.hex() for digest in hashes]
