"""Declarations: a signed head over salted leaves, and the secret book that opens them later."""

from __future__ import annotations

import hashlib
import json
import os
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from workingpapers.foundations.canonical_json import canonical, parse_strict
from workingpapers.foundations.errors import InputError
from workingpapers.foundations.files import read_text
from workingpapers.foundations.merkle import MerkleTree
from workingpapers.governance.arms_control.envelope import STATEMENT_TYPE, sign
from workingpapers.governance.arms_control.items import SALT_SIZE, check_item, check_unique, is_hex, salted_leaf, tag

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

DECLARATION_TYPE = "urn:workingpapers:declaration:v1"
BOOK_VERSION = 1
TIME_FORMAT = "%Y-%m-%dT%H:%M:%SZ"


@dataclass(frozen=True)
class Head:
    """The predicate of a declaration: what the declaring party signs and everybody may see.

    Args:
        origin: Name of the declaring party.
        sequence: Number of this declaration, from 0, one more than the one before.
        size: Number of declared items.
        root: Merkle root over the salted leaves in the order of declaration, hexadecimal.
        directory_root: Merkle root over the tags of the item ids, sorted, hexadecimal.
        directory_salt: Salt of the tags, hexadecimal, public.
        time: When it was signed, ``YYYY-MM-DDTHH:MM:SSZ``.
        expires: From when on it must not be relied on.
        previous: ``{"payload": SHA-256 of the payload before, "root", "size"}``, or None for the first declaration.
        version: Version of this layout.
    """

    origin: str
    sequence: int
    size: int
    root: str
    directory_root: str
    directory_salt: str
    time: str
    expires: str
    previous: Mapping[str, Any] | None
    version: int = 1

    def statement(self) -> dict[str, Any]:
        """Return the in-toto Statement v1 whose subject is the root and whose predicate is this head."""
        return {
            "_type": STATEMENT_TYPE,
            "subject": [{"name": f"{self.origin}#{self.sequence}", "digest": {"sha256": self.root}}],
            "predicateType": DECLARATION_TYPE,
            "predicate": {name: getattr(self, name) for name in self.__dataclass_fields__},
        }


@dataclass(frozen=True)
class Book:
    """The declaring party's secret record: every item with its salt. Who holds it can open every leaf.

    Args:
        head: The head that was signed.
        items: Declared items in order (see :func:`~.items.check_item`).
        salts: 32 secret bytes for each item.
    """

    head: Head
    items: tuple[Mapping[str, Any], ...]
    salts: tuple[bytes, ...]

    def tree(self) -> MerkleTree:
        """Return the tree over the salted leaves."""
        return MerkleTree(salted_leaf(item, salt) for item, salt in zip(self.items, self.salts, strict=True))

    def tags(self) -> list[bytes]:
        """Return the sorted tags of the item ids."""
        return sorted(tag(item["id"], bytes.fromhex(self.head.directory_salt)) for item in self.items)

    def payload_digest(self) -> str:
        """Return the SHA-256 of the payload that was signed, the name by which evidence refers to the declaration."""
        return hashlib.sha256(canonical(self.head.statement())).hexdigest()

    def text(self) -> str:
        """Return the JSON text of the book; write it with :func:`~.envelope.write_secret`."""
        head = self.head.statement()["predicate"]
        entries = [{"salt": salt.hex(), "item": dict(item)} for item, salt in zip(self.items, self.salts, strict=True)]
        return json.dumps({"book": BOOK_VERSION, "head": head, "entries": entries}, indent=1, sort_keys=True) + "\n"


def declare(
    origin: str,
    items: Sequence[Mapping[str, Any]],
    *,
    time: str,
    expires: str,
    previous: Book | None = None,
    entropy: Callable[[int], bytes] = secrets.token_bytes,
) -> Book:
    """Commit to a list of items: fresh salts for new items, the old leaves kept as a prefix.

    Args:
        origin: Name of the declaring party.
        items: All items; where there is a previous declaration, its items first, unchanged and in order.
        time: Time of the declaration, ``YYYY-MM-DDTHH:MM:SSZ``.
        expires: Time from which it must not be relied on.
        previous: Book of the declaration before.
        entropy: Source of secret bytes; the operating system's by default.

    Returns:
        The book; ``sign(book.head.statement(), keys)`` makes the public declaration.

    Raises:
        InputError: No items, an id twice, times out of order, another origin, or an earlier item was changed,
            reordered or dropped.
    """
    checked = tuple(check_item(dict(item)) for item in items)
    if not checked:
        raise InputError("The declaration has no items; declare at least one.")
    check_unique(checked)
    if parse_time(expires) <= parse_time(time):
        raise InputError(f"The declaration would expire at {expires}, not after its time {time}; choose a later time.")
    kept: tuple[bytes, ...] = ()
    link = None
    if previous is not None:
        _check_append_only(origin, checked, previous)
        if parse_time(time) <= parse_time(previous.head.time):
            raise InputError(f"The time {time} is not after that of the declaration before, {previous.head.time}.")
        kept = previous.salts
        link = {"payload": previous.payload_digest(), "root": previous.head.root, "size": previous.head.size}
    salts = kept + tuple(entropy(SALT_SIZE) for _ in range(len(checked) - len(kept)))
    directory_salt = entropy(SALT_SIZE)
    root = MerkleTree(salted_leaf(item, salt) for item, salt in zip(checked, salts, strict=True)).root()
    directory = MerkleTree(sorted(tag(item["id"], directory_salt) for item in checked)).root()
    head = Head(
        origin=origin,
        sequence=previous.head.sequence + 1 if previous else 0,
        size=len(checked),
        root=root.hex(),
        directory_root=directory.hex(),
        directory_salt=directory_salt.hex(),
        time=time,
        expires=expires,
        previous=link,
    )
    return Book(head, checked, salts)


def sign_declaration(book: Book, keys: Sequence[Ed25519PrivateKey]) -> bytes:
    """Return the public declaration: the head in a DSSE envelope, signed by each key.

    Args:
        book: Secret book of the declaration.
        keys: Ed25519 private keys of the signing parties.
    """
    return sign(book.head.statement(), keys)


def read_book(path: str | os.PathLike[str]) -> Book:
    """Read the secret book of a declaration and check that it opens its own head.

    Args:
        path: File that :meth:`Book.text` was written to.

    Raises:
        InputError: The file is no such book, or its items and salts do not give its root.
    """
    name = repr(str(path))
    content = parse_strict(read_text(path), name)
    try:
        if content["book"] != BOOK_VERSION:
            raise InputError(f"{name} has the book version {content['book']!r}; this program reads {BOOK_VERSION}.")
        head = Head(**content["head"])
        items = tuple(check_item(entry["item"]) for entry in content["entries"])
        salts = tuple(bytes.fromhex(entry["salt"]) for entry in content["entries"])
        book = Book(head, items, salts)
        if book.tree().root().hex() != head.root or not is_hex(head.directory_salt):
            raise InputError(f"The items and salts in {name} do not give the root of its head; restore the saved book.")
    except (KeyError, TypeError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(
            f"{name} is not the secret book of a declaration; name the file that `declare` wrote."
        ) from None
    return book


def parse_time(text: Any) -> datetime:
    """Return the time of ``YYYY-MM-DDTHH:MM:SSZ``.

    Args:
        text: The text.

    Raises:
        InputError: The text has another form; only one spelling of a time is taken.
    """
    try:
        found = datetime.strptime(text, TIME_FORMAT).replace(tzinfo=UTC)
    except (TypeError, ValueError):
        found = None
    if found is None or found.strftime(TIME_FORMAT) != text:
        raise InputError(f"The time {text!r} is not of the form 2026-01-31T12:00:00Z (UTC); write it so.")
    return found


def format_time(moment: datetime) -> str:
    """Return a time with its zone as ``YYYY-MM-DDTHH:MM:SSZ``.

    Args:
        moment: A time that knows its zone.
    """
    return moment.astimezone(UTC).strftime(TIME_FORMAT)


def _check_append_only(origin: str, items: Sequence[Mapping[str, Any]], previous: Book) -> None:
    if origin != previous.head.origin:
        raise InputError(f"The origin is {origin!r}, that of the declaration before {previous.head.origin!r}; keep it.")
    if len(items) < len(previous.items):
        raise InputError(
            f"The declaration has {len(items)} items, the one before {len(previous.items)}; items are added, never "
            "taken away: declare a retirement as a new item."
        )
    for position, (new, old) in enumerate(zip(items, previous.items, strict=False)):
        if canonical(new) != canonical(old):
            raise InputError(
                f"Item {position + 1} ({old['id']!r}) is not the one declared before; keep earlier items as they were "
                "and declare the change as a new item."
            )
