"""Commands of the declaring party: keys, declarations, proofs, model signatures; and of both: joint draws."""

from __future__ import annotations

import json
import secrets
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from workingpapers.foundations.canonical_json import parse_strict
from workingpapers.foundations.errors import InputError
from workingpapers.foundations.files import read_text, whole_file, write_secret
from workingpapers.foundations.outcome import Outcome, Table
from workingpapers.foundations.progress import Progress
from workingpapers.governance.arms_control import challenge as draws
from workingpapers.governance.arms_control.declaration import (
    declare,
    format_time,
    parse_time,
    read_book,
    sign_declaration,
)
from workingpapers.governance.arms_control.envelope import (
    Refused,
    key_id,
    load_private_key,
    load_public_key,
    new_private_key,
    private_key_text,
    public_key_text,
)
from workingpapers.governance.arms_control.evidence import (
    disclose,
    indices_of,
    make_evidence,
    prove_absent,
    sign_evidence,
)
from workingpapers.governance.arms_control.items import KINDS, read_items
from workingpapers.governance.arms_control.openssf import model_signature
from workingpapers.governance.arms_control.transcript_files import read_transcript
from workingpapers.governance.arms_control.verifier import CheckedDeclaration, check_declaration

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey


def make_keys(private: Path, public: Path, kind: str) -> Outcome:
    """Write a new key pair, the private one for its owner alone."""
    if private.resolve() == public.resolve():
        raise InputError(f"Both keys would be written to {str(private)!r}; name two files.")
    if private.exists():
        raise InputError(
            f"There is already a file {str(private)!r}; a private key is never overwritten, name a new file."
        )
    key = new_private_key(kind)
    write_secret(private, private_key_text(key))
    with whole_file(public) as stream:
        stream.write(public_key_text(key.public_key()))
    identity = key_id(key.public_key())
    return Outcome(
        f"Made a key pair ({kind}). Hand {str(public)!r} to those who verify, by a channel they trust; keep the other.",
        files=(private, public),
        data={"kind": kind, "key_id": identity},
    )


def make_declaration(
    items: Path, keys: Sequence[Path], out: Path, book: Path, previous: Path | None, time: str | None, days: int,
    progress: Progress,
) -> Outcome:  # fmt: skip
    """Hash, commit, sign and write a declaration and its secret book."""
    signing = signing_keys(keys)
    if book.resolve() == out.resolve():
        raise InputError(f"The declaration and its secret book would both be {str(out)!r}; name two files.")
    moment = parse_time(time) if time else datetime.now(UTC)
    expires = format_time(moment + timedelta(days=days))
    held = read_book(previous) if previous else None
    origin, found = read_items(items, progress)
    made = declare(origin, found, time=format_time(moment), expires=expires, previous=held)
    # The book goes first: a published declaration that nobody can open any more is the worse loss.
    write_secret(book, made.text())
    with whole_file(out, "wb") as stream:
        stream.write(sign_declaration(made, signing))
    counts = [(kind, sum(item["kind"] == kind for item in found)) for kind in KINDS]
    head = made.head
    return Outcome(
        f"Declared {head.size} items as declaration {head.sequence} of {origin}, valid until {expires}. "
        f"{str(book)!r} opens every item: keep it secret and safe.",
        tables=(Table(("kind", "items"), [row for row in counts if row[1]], "Declared items (not shown to others)"),),
        files=(out, book),
        data={"declaration": made.payload_digest(), **made.head.statement()["predicate"]},
    )


def make_commitment(subject: Path, keys: Sequence[Path], party: str, count: int, out: Path, opening: Path) -> Outcome:
    """Commit to a fresh secret seed for one inspection of a declaration or of a training transcript."""
    content = read_json(subject)
    if isinstance(content, dict) and "transcript" in content:
        transcript, _ = read_transcript(subject)
        digest, size = transcript.root(), transcript.segments
    else:
        checked = trusted_declaration(subject, keys)
        digest, size = checked.digest, checked.head.size
    if count > size:
        raise InputError(f"The sample size is {count}, but there are {size} to draw from; draw at most those.")
    seed = secrets.token_bytes(draws.SEED_SIZE)
    record = draws.commit(party, seed, digest, count)
    secret = {"party": party, "declaration": digest, "count": count, "seed": seed.hex()}
    write_secret(opening, json.dumps(secret, indent=1) + "\n")
    write_json(out, record)
    return Outcome(
        f"Committed {party!r} to a seed. Send {str(out)!r} now; send {str(opening)!r} only once you hold the "
        "commitments of all other parties.",
        files=(out, opening),
        data=record,
    )


def draw_sample(commitments: Sequence[Path], openings: Sequence[Path], out: Path) -> Outcome:
    """Combine commitments and openings into a challenge."""
    challenge = draws.combine([read_json(path) for path in commitments], [read_json(path) for path in openings])
    write_json(out, challenge)
    digest = draws.challenge_digest(challenge)
    parties = [entry["party"] for entry in challenge["openings"]]
    return Outcome(
        f"Every opening matches its commitment; {' and '.join(parties)} drew {challenge['count']} items together.",
        tables=(Table(("party", "commitment"), [(e["party"], e["commitment"]) for e in challenge["openings"]]),),
        files=(out,),
        data={"challenge": digest, "declaration": challenge["declaration"], "count": challenge["count"]},
    )


def make_proofs(
    book: Path, keys: Sequence[Path], out: Path, challenge: Path | None, request: str | None, item: Sequence[str],
    absent: Sequence[str], previous: Path | None, directory: bool, time: str | None,
) -> Outcome:  # fmt: skip
    """Open items, deny ids and prove history as an answer to one request."""
    signing = signing_keys(keys)
    if challenge is not None and (request or item):
        raise InputError(
            "Both a challenge and a request or items were given; a challenge decides alone what is opened."
        )
    opened = read_book(book)
    answer, places = request, indices_of(opened, item)
    if challenge is not None:
        content = read_json(challenge)
        try:
            seed = draws.check_challenge(content)
        except Refused as error:
            raise InputError(f"The challenge {str(challenge)!r} does not hold: {error}; ask for it again.") from None
        if content["declaration"] != opened.payload_digest():
            raise InputError(
                f"The challenge {str(challenge)!r} is about another declaration than the book {str(book)!r}."
            )
        answer = draws.challenge_digest(content)
        places = draws.sample(seed, opened.head.size, content["count"])
    earlier = read_book(previous) if previous else None
    held = {"payload": earlier.payload_digest(), "size": earlier.head.size} if earlier else None
    if not places and not absent and held is None and not directory:
        raise InputError(
            "Nothing was asked for; give a challenge, items, absent ids, an earlier book or the directory."
        )
    statement = make_evidence(
        opened,
        time=time or format_time(datetime.now(UTC)),
        challenge=answer,
        disclosures=disclose(opened, places),
        absences=[prove_absent(opened, identifier) for identifier in absent],
        previous=held,
        directory=directory,
    )
    with whole_file(out, "wb") as stream:
        stream.write(sign_evidence(statement, signing))
    return Outcome(
        f"Opened {len(places)} of {opened.head.size} items and denied {counted(len(absent), 'id')}; "
        "the other items stay hidden.",
        files=(out,),
        data={"opened": places, "denied": list(absent), "answers": answer},
    )


def make_model_signature(book: Path, item: str, key: Path, out: Path) -> Outcome:
    """Write an OpenSSF model signature over the files of one declared item."""
    opened = read_book(book)
    (place,) = indices_of(opened, [item])
    text = model_signature(opened.items[place], load_private_key(key))  # type: ignore[arg-type]
    with whole_file(out) as stream:
        stream.write(text)
    count = len(opened.items[place]["files"])
    return Outcome(
        f"Signed {counted(count, 'file')} of {item!r}; 'model_signing verify key' accepts the signature.",
        files=(out,),
        data={"item": item, "files": count},
    )


def counted(number: int, noun: str) -> str:
    """Return ``"1 id"`` or ``"2 ids"``."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def signing_keys(paths: Sequence[Path]) -> list[Ed25519PrivateKey]:
    """Return the Ed25519 private keys of the files."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    found = []
    for path in paths:
        key = load_private_key(path)
        if not isinstance(key, Ed25519PrivateKey):
            raise InputError(
                f"The key {str(path)!r} is not Ed25519; declarations are signed with keys of kind 'ed25519'."
            )
        found.append(key)
    return found


def pinned_keys(paths: Sequence[Path]) -> list[Ed25519PublicKey]:
    """Return the Ed25519 public keys of the files."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    found = []
    for path in paths:
        key = load_public_key(path)
        if not isinstance(key, Ed25519PublicKey):
            raise InputError(f"The key {str(path)!r} is not Ed25519; declarations are checked with such keys alone.")
        found.append(key)
    if len({key_id(key) for key in found}) < len(found):
        raise InputError("A public key was given twice; name each once.")
    return found


def trusted_declaration(path: Path, keys: Sequence[Path]) -> CheckedDeclaration:
    """Return a declaration that holds now, or explain why it cannot be worked with."""
    if not keys:
        raise InputError(f"The declaration {str(path)!r} cannot be checked without a public key; give it with --key.")
    try:
        return check_declaration(path.read_bytes(), pinned_keys(keys), now=datetime.now(UTC), name=repr(str(path)))
    except Refused as error:
        raise InputError(f"The declaration does not hold: {error}; do not build on it.") from None


def read_json(path: Path) -> Any:
    """Return the JSON value of a file."""
    return parse_strict(read_text(path), repr(str(path)))


def write_json(path: Path, value: Any) -> None:
    """Write a JSON value, indented, with its keys in order."""
    with whole_file(path) as stream:
        json.dump(value, stream, indent=1, sort_keys=True)
        stream.write("\n")
