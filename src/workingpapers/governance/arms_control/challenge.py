"""Samples that no party can steer: commit to a seed, reveal it later, draw from all seeds together."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from workingpapers.foundations.canonical_json import canonical
from workingpapers.foundations.errors import InputError
from workingpapers.governance.arms_control.envelope import Refused
from workingpapers.governance.arms_control.items import is_hex

SEED_SIZE = 32
COMMITMENT_FIELDS = {"party", "declaration", "count", "commitment"}
OPENING_FIELDS = {"party", "declaration", "count", "seed"}
CHALLENGE_FIELDS = {"version", "declaration", "count", "openings"}


def commit(party: str, seed: bytes, declaration: str, count: int) -> dict[str, Any]:
    r"""Return the commitment of `party` to its secret seed for one inspection.

    :math:`\mathrm{SHA256}(label \,\|\, \mathrm{JCS}(party, declaration, count) \,\|\, seed)`. The party's name is
    hashed in, so that nobody can hand in another's commitment as his own; the declaration and the sample size are
    hashed in, so that neither can be changed once the seeds are known.

    Args:
        party: Name of the party.
        seed: 32 secret random bytes, revealed after all commitments are exchanged.
        declaration: SHA-256 of the payload of the declaration to inspect, hexadecimal.
        count: Number of items to inspect.

    Returns:
        ``{"party", "declaration", "count", "commitment"}``, to be published.

    Raises:
        InputError: The seed has another length, the party has no name, or the count is not positive.
    """
    if len(seed) != SEED_SIZE:
        raise InputError(f"The seed has {len(seed)} bytes; {SEED_SIZE} random bytes are needed.")
    if not party.strip():
        raise InputError(f"The party is {party!r}; give a name.")
    if count < 1:
        raise InputError(f"The sample size is {count}; inspect at least one item.")
    context = canonical({"party": party, "declaration": declaration, "count": count})
    digest = hashlib.sha256(b"workingpapers:commitment:v1\x00" + context + seed).hexdigest()
    return {"party": party, "declaration": declaration, "count": count, "commitment": digest}


def combine(commitments: Sequence[Mapping[str, Any]], openings: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the challenge that all parties made together, after checking every opening against its commitment.

    Args:
        commitments: What each party published before anything was opened.
        openings: ``{"party", "declaration", "count", "seed"}`` of each party.

    Returns:
        ``{"version", "declaration", "count", "openings": [{"party", "commitment", "seed"}]}``, sorted by party.

    Raises:
        InputError: Fewer than two parties, a party that did not open (whose refusal counts against it), or an opening
            that is not what was committed.
    """
    for record, fields in [*((c, COMMITMENT_FIELDS) for c in commitments), *((o, OPENING_FIELDS) for o in openings)]:
        if not isinstance(record, Mapping) or set(record) != fields:
            raise InputError(f"A commitment or opening must have the fields {', '.join(sorted(fields))}.")
    missing = {c["party"] for c in commitments} ^ {o["party"] for o in openings}
    if missing:
        raise InputError(f"The parties {sorted(missing)} gave a commitment or an opening, not both; the draw cannot be "
                         "made, which counts against whoever withholds.")  # fmt: skip
    if not commitments:
        raise InputError("There are no commitments; two parties or more must commit before a sample is drawn.")
    published = {c["party"]: c["commitment"] for c in commitments}
    first = commitments[0]
    challenge = {
        "version": 1,
        "declaration": first["declaration"],
        "count": first["count"],
        "openings": [
            {"party": o["party"], "commitment": published[o["party"]], "seed": o["seed"]}
            for o in sorted(openings, key=lambda record: str(record["party"]))
        ],
    }
    for record in [*commitments, *openings]:
        if (record["declaration"], record["count"]) != (first["declaration"], first["count"]):
            raise InputError(f"The party {record['party']!r} committed to another declaration or sample size.")
    try:
        check_challenge(challenge)
    except Refused as error:
        raise InputError(f"The challenge cannot be made: {error}; ask for the right opening.") from None
    return challenge


def check_challenge(challenge: Any) -> bytes:
    r"""Check a challenge from its own content and return the seed of its sample.

    The seed is :math:`\mathrm{SHA256}(seed_1 \,\|\, seed_2 \,\|\, \dots)` in the order of the parties' names.

    Args:
        challenge: What :func:`combine` returned, as read from a file.

    Returns:
        The common seed, 32 bytes.

    Raises:
        Refused: The form is wrong, there are fewer than two parties, two share a seed, or an opening does not match.
    """
    if not isinstance(challenge, dict) or set(challenge) != CHALLENGE_FIELDS or challenge["version"] != 1:
        raise Refused("the challenge is malformed")
    openings, count = challenge["openings"], challenge["count"]
    if not isinstance(openings, list) or len(openings) < 2 or type(count) is not int or count < 1:
        raise Refused("a challenge needs a sample size and at least two parties")
    if not is_hex(challenge["declaration"]):
        raise Refused("the challenge names no declaration")
    for opening in openings:
        right = isinstance(opening, dict) and set(opening) == {"party", "commitment", "seed"}
        if not right or not isinstance(opening["party"], str) or not is_hex(opening["seed"]):
            raise Refused("an opening of the challenge is malformed")
        expected = commit(opening["party"], bytes.fromhex(opening["seed"]), challenge["declaration"], count)
        if opening["commitment"] != expected["commitment"]:
            raise Refused(f"the seed of {opening['party']!r} is not the one that was committed to")
    names = [opening["party"] for opening in openings]
    if names != sorted(set(names)):
        raise Refused("the parties of the challenge are out of order, or one stands twice")
    if len({opening["seed"] for opening in openings}) < len(openings):
        raise Refused("two parties of the challenge revealed the same seed")
    return hashlib.sha256(b"".join(bytes.fromhex(opening["seed"]) for opening in openings)).digest()


def challenge_digest(challenge: Mapping[str, Any]) -> str:
    """Return the SHA-256 of the canonical challenge, the name by which evidence answers it.

    Args:
        challenge: A challenge.
    """
    return hashlib.sha256(canonical(challenge)).hexdigest()


def sample(seed: bytes, size: int, count: int) -> list[int]:
    """Return `count` different indices below `size`, a Fisher-Yates shuffle driven by `seed`.

    Block k of the stream is SHA-256(seed || k), k as eight bytes, read as a 256-bit number and reduced modulo the
    number of indices left. No number is rejected; the bias is below size / 2**256.

    Args:
        seed: Common seed, 32 bytes.
        size: Number of items.
        count: Number of items to draw.

    Returns:
        The indices in the order of the draw: the first `count` of a uniform permutation.

    Raises:
        InputError: More are drawn than there are.
    """
    if not 0 <= count <= size:
        raise InputError(
            f"The sample size is {count}, but {size} items are declared; draw at most as many as there are."
        )
    moved: dict[int, int] = {}
    drawn = []
    for place, number in zip(range(count), _stream(seed), strict=False):
        chosen = place + number % (size - place)
        drawn.append(moved.get(chosen, chosen))
        moved[chosen] = moved.get(place, place)
    return drawn


def _stream(seed: bytes) -> Iterator[int]:
    counter = 0
    while True:
        yield int.from_bytes(hashlib.sha256(seed + counter.to_bytes(8, "big")).digest(), "big")
        counter += 1
