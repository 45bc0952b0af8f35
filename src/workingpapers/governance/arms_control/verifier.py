"""The verifier: needs the declaration, the evidence and the public keys it already trusts, and nothing else.

No network, no secrets, no word of the declaring party taken on trust. Every function raises :class:`Refused` at the
first thing that does not hold; what it returns has passed every check named in its docstring.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from workingpapers.foundations.errors import InputError
from workingpapers.foundations.merkle import MerkleTree, verify_consistency, verify_inclusion
from workingpapers.governance.arms_control.challenge import challenge_digest, check_challenge, sample
from workingpapers.governance.arms_control.declaration import DECLARATION_TYPE, Head, parse_time
from workingpapers.governance.arms_control.envelope import Refused, open_envelope
from workingpapers.governance.arms_control.evidence import EVIDENCE_TYPE
from workingpapers.governance.arms_control.items import check_item, is_hex, salted_leaf, tag

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

CLOCK_SKEW = timedelta(minutes=5)


@dataclass(frozen=True)
class CheckedDeclaration:
    """A declaration whose form and signatures hold.

    Args:
        head: Its head.
        digest: SHA-256 of its payload, hexadecimal: its name in evidence and challenges.
    """

    head: Head
    digest: str


@dataclass(frozen=True)
class CheckedEvidence:
    """Evidence that holds against a declaration.

    Args:
        items: Disclosed items with their places, in the order asked for.
        absent: Ids proved not to be declared.
        history: Whether an earlier declaration was proved to be a prefix of this one.
        whole_directory: Whether the directory was listed whole and found sorted.
        challenge: What it answers, or None.
    """

    items: tuple[tuple[int, Mapping[str, Any]], ...]
    absent: tuple[str, ...]
    history: bool
    whole_directory: bool
    challenge: str | None


def check_declaration(
    raw: bytes,
    keys: Sequence[Ed25519PublicKey],
    *,
    now: datetime | None = None,
    threshold: int | None = None,
    name: str = "the declaration",
) -> CheckedDeclaration:
    """Check spelling, signatures, layout, times and counts of a declaration.

    Args:
        raw: Content of the declaration's file.
        keys: Pinned Ed25519 public keys.
        now: Time of the check; None skips the check against the clock (for declarations held from before).
        threshold: Least number of signatures; all pinned keys by default.
        name: How messages call it.

    Raises:
        Refused: Anything does not hold.
    """
    statement, payload = open_envelope(raw, keys, threshold, name)
    predicate = _predicate(statement, DECLARATION_TYPE, name)
    if set(predicate) != set(Head.__dataclass_fields__) or predicate["version"] != 1:
        raise Refused(f"{name} has an unknown layout or version {predicate.get('version')!r}")
    head = Head(**predicate)
    texts = isinstance(head.origin, str) and all(
        is_hex(digest) for digest in (head.root, head.directory_root, head.directory_salt)
    )
    counts = all(type(number) is int for number in (head.sequence, head.size)) and head.sequence >= 0 < head.size
    if not texts or not counts or not _is_link(head.previous, head.sequence, head.size):
        raise Refused(f"{name} holds a field of the wrong form")
    if statement != head.statement():
        raise Refused(f"{name} names another subject than its own root")
    signed, expires = _time(head.time, name), _time(head.expires, name)
    if expires <= signed:
        raise Refused(f"{name} expires before it was signed")
    if now is not None and signed > now + CLOCK_SKEW:
        raise Refused(f"{name} is dated {head.time}, in the future")
    if now is not None and expires <= now:
        raise Refused(f"{name} expired at {head.expires}")
    return CheckedDeclaration(head, hashlib.sha256(payload).hexdigest())


def check_succession(new: CheckedDeclaration, old: CheckedDeclaration) -> None:
    """Check that `new` may follow `old`: same party, later, never smaller, and naming it where it is the next one.

    Args:
        new: The declaration that is shown now.
        old: The declaration held from before.

    Raises:
        Refused: An old declaration is shown again, time or size go back, or the link names another declaration.
    """
    if new.head.origin != old.head.origin:
        raise Refused(f"the declaration is by {new.head.origin!r}, the one held by {old.head.origin!r}")
    if new.head.sequence <= old.head.sequence:
        raise Refused(f"declaration {new.head.sequence} is shown again; number {old.head.sequence} is already held")
    if new.head.size < old.head.size:
        raise Refused(f"the declaration shrank from {old.head.size} to {new.head.size} items")
    if _time(new.head.time, "the declaration") <= _time(old.head.time, "the declaration held"):
        raise Refused(f"the declaration is dated {new.head.time}, not after the one held ({old.head.time})")
    link = {"payload": old.digest, "root": old.head.root, "size": old.head.size}
    if new.head.sequence == old.head.sequence + 1 and new.head.previous != link:
        raise Refused("the declaration does not follow the one held: it names another as the one before")


def check_evidence(
    raw: bytes,
    declaration: CheckedDeclaration,
    keys: Sequence[Ed25519PublicKey],
    *,
    challenge: Mapping[str, Any] | str | None = None,
    commitments: Sequence[Mapping[str, Any]] = (),
    asked: Sequence[str] | None = None,
    directory: bool = False,
    previous: CheckedDeclaration | None = None,
    now: datetime | None = None,
    threshold: int | None = None,
    name: str = "the evidence",
) -> CheckedEvidence:
    """Check evidence against a checked declaration.

    Args:
        raw: Content of the evidence's file.
        declaration: From :func:`check_declaration`.
        keys: Pinned public keys.
        challenge: The challenge (a mapping from :func:`~.challenge.combine`) or the request number (a text) that the
            evidence must answer; None where it was not asked for.
        commitments: Commitments that the verifier received before anything was opened; each must be in the challenge.
        asked: Ids that the verifier asked about; the evidence must open or deny each of them and nothing else. With a
            drawn sample, those outside it must be denied.
        directory: Whether the whole directory of ids was asked for and must be listed.
        previous: A declaration held from before; the evidence must prove that it is a prefix of this one.
        now: Time of the check; evidence from the future is refused.
        threshold: Least number of signatures.
        name: How messages call it.

    Raises:
        Refused: Corrupted, cut, reordered or incomplete evidence, evidence about another declaration, an answer to
            another challenge, or a proof that does not hold.
    """
    statement, _ = open_envelope(raw, keys, threshold, name)
    predicate = _predicate(statement, EVIDENCE_TYPE, name)
    fields = {"version", "time", "challenge", "disclosures", "absences", "consistency", "directory"}
    if set(predicate) != fields or predicate["version"] != 1:
        raise Refused(f"{name} has an unknown layout or version")
    head = declaration.head
    subject = [{"name": f"{head.origin}#{head.sequence}", "digest": {"sha256": declaration.digest}}]
    if statement["subject"] != subject:
        raise Refused(f"{name} is about another declaration")
    made = _time(predicate["time"], name)
    if made < _time(head.time, name) or (now is not None and made > now + CLOCK_SKEW):
        raise Refused(f"{name} is dated {predicate['time']}, before the declaration or in the future")
    wanted = _expected(challenge, commitments, declaration)
    if predicate["challenge"] != (challenge_digest(challenge) if isinstance(challenge, Mapping) else challenge):
        raise Refused(f"{name} does not answer this challenge; it was made for another one")
    items = [_check_disclosure(entry, head, name) for entry in _list(predicate["disclosures"], name)]
    places = [index for index, _ in items]
    if wanted is not None and places != wanted:
        raise Refused(f"{name} does not open exactly the drawn sample in its order")
    if wanted is None and places != sorted(set(places)):
        raise Refused(f"{name} opens items out of order or twice")
    absent = [_check_absence(entry, head, name) for entry in _list(predicate["absences"], name)]
    if {item["id"] for _, item in items} & set(absent):
        raise Refused(f"{name} opens an item and denies it at once")
    _check_asked(asked, [item["id"] for _, item in items], absent, wanted is not None, name)
    whole = predicate["directory"] is not None
    if directory and not whole:
        raise Refused(f"{name} does not list the directory of ids")
    if whole:
        _check_directory(predicate["directory"], head, name)
    history = _check_history(predicate["consistency"], declaration, previous, name)
    return CheckedEvidence(tuple(items), tuple(absent), history, whole, predicate["challenge"])


def _expected(
    challenge: Mapping[str, Any] | str | None, commitments: Sequence[Mapping[str, Any]], declaration: CheckedDeclaration
) -> list[int] | None:
    if not isinstance(challenge, Mapping):
        if commitments:
            raise Refused("commitments were given without the challenge that opens them")
        return None
    seed = check_challenge(challenge)
    if challenge["declaration"] != declaration.digest:
        raise Refused("the challenge is about another declaration")
    opened = {(entry["party"], entry["commitment"]) for entry in challenge["openings"]}
    for record in commitments:
        if (record.get("party"), record.get("commitment")) not in opened:
            raise Refused(f"the challenge leaves out the commitment of {record.get('party')!r}")
    if challenge["count"] > declaration.head.size:
        raise Refused(f"the challenge asks for {challenge['count']} items of {declaration.head.size}")
    return sample(seed, declaration.head.size, challenge["count"])


def _check_disclosure(entry: Any, head: Head, name: str) -> tuple[int, dict[str, Any]]:
    fields = {"index", "item", "salt", "path", "directory_index", "directory_path"}
    if not isinstance(entry, dict) or set(entry) != fields or not is_hex(entry["salt"]):
        raise Refused(f"{name} holds a malformed disclosure")
    try:
        item = check_item(entry["item"])
        leaf = salted_leaf(item, bytes.fromhex(entry["salt"]))
    except InputError as error:
        raise Refused(str(error).rstrip(".")) from None
    index, place = _integer(entry["index"], name), _integer(entry["directory_index"], name)
    if not verify_inclusion(leaf, index, head.size, _hashes(entry["path"], name), bytes.fromhex(head.root)):
        raise Refused(f"{name}: the item {item['id']!r} is not item {index} of the declaration")
    mark = tag(item["id"], bytes.fromhex(head.directory_salt))
    path, root = _hashes(entry["directory_path"], name), bytes.fromhex(head.directory_root)
    if not verify_inclusion(mark, place, head.size, path, root):
        raise Refused(f"{name}: the item {item['id']!r} is missing from the directory of ids")
    return index, item


def _check_absence(entry: Any, head: Head, name: str) -> str:
    if not isinstance(entry, dict) or set(entry) != {"id", "left", "right"} or not isinstance(entry["id"], str):
        raise Refused(f"{name} holds a malformed proof of absence")
    wanted, root = tag(entry["id"], bytes.fromhex(head.directory_salt)), bytes.fromhex(head.directory_root)
    places: list[int] = []
    tags: list[bytes | None] = []
    for side, end in (("left", -1), ("right", head.size)):
        neighbour = entry[side]
        if neighbour is None:
            places.append(end)
            tags.append(None)
            continue
        if (
            not isinstance(neighbour, dict)
            or set(neighbour) != {"index", "tag", "path"}
            or not is_hex(neighbour["tag"])
        ):
            raise Refused(f"{name} holds a malformed proof of absence")
        mark, place = bytes.fromhex(neighbour["tag"]), _integer(neighbour["index"], name)
        if not verify_inclusion(mark, place, head.size, _hashes(neighbour["path"], name), root):
            raise Refused(f"{name}: a neighbour of {entry['id']!r} is not in the directory of ids")
        places.append(place)
        tags.append(mark)
    left, right = tags
    if places[1] != places[0] + 1 or (left is not None and left >= wanted) or (right is not None and right <= wanted):
        raise Refused(f"{name} does not prove that {entry['id']!r} is absent")
    return str(entry["id"])


def _check_asked(asked: Sequence[str] | None, opened: list[str], absent: list[str], drawn: bool, name: str) -> None:
    if asked is None:
        return
    answered = absent if drawn else [*opened, *absent]
    left = set(asked) - set(opened) if drawn else set(asked)
    if sorted(answered) != sorted(left):
        raise Refused(f"{name} does not answer exactly what was asked: {', '.join(sorted(left ^ set(answered)))}")


def _check_directory(listed: Any, head: Head, name: str) -> None:
    tags = _hashes(listed, name)
    if len(tags) != head.size or any(a >= b for a, b in pairwise(tags)):
        raise Refused(f"{name}: the directory of ids is incomplete or not sorted")
    if MerkleTree(tags).root().hex() != head.directory_root:
        raise Refused(f"{name}: the listed directory is not the declared one")


def _check_history(entry: Any, new: CheckedDeclaration, old: CheckedDeclaration | None, name: str) -> bool:
    if old is None:
        return False
    check_succession(new, old)
    if not isinstance(entry, dict) or set(entry) != {"payload", "path"} or entry["payload"] != old.digest:
        raise Refused(f"{name} does not prove the history since the declaration held")
    roots = bytes.fromhex(old.head.root), bytes.fromhex(new.head.root)
    if not verify_consistency(old.head.size, new.head.size, *roots, _hashes(entry["path"], name)):
        raise Refused("the earlier declaration is not a prefix of this one: history was rewritten")
    return True


def _predicate(statement: Mapping[str, Any], kind: str, name: str) -> dict[str, Any]:
    if set(statement) != {"_type", "subject", "predicateType", "predicate"} or statement["predicateType"] != kind:
        raise Refused(f"{name} is another kind of statement")
    predicate = statement["predicate"]
    if not isinstance(predicate, dict):
        raise Refused(f"{name} has no predicate")
    return predicate


def _is_link(link: Any, sequence: int, size: int) -> bool:
    if sequence == 0 or link is None:
        return sequence == 0 and link is None
    fields = isinstance(link, dict) and set(link) == {"payload", "root", "size"}
    return bool(fields and is_hex(link["payload"]) and is_hex(link["root"]) and type(link["size"]) is int
                and 0 < link["size"] <= size)  # fmt: skip


def _time(text: Any, name: str) -> datetime:
    try:
        return parse_time(text)
    except InputError as error:
        raise Refused(f"{name}: {str(error).split(';')[0].rstrip('.')}") from None


def _integer(value: Any, name: str) -> int:
    if type(value) is not int:
        raise Refused(f"{name} holds {value!r} where a whole number is needed")
    return value


def _list(value: Any, name: str) -> list[Any]:
    if not isinstance(value, list):
        raise Refused(f"{name} holds a field of the wrong form")
    return value


def _hashes(values: Any, name: str) -> list[bytes]:
    if not isinstance(values, list) or not all(is_hex(value) for value in values):
        raise Refused(f"{name} holds a malformed hash")
    return [bytes.fromhex(value) for value in values]
