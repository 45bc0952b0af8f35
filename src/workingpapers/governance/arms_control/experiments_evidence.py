"""Experiments on declarations: inspections by sample, and evidence that was changed."""

from __future__ import annotations

import base64
import copy
import hashlib
import json
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from workingpapers.foundations.canonical_json import canonical
from workingpapers.foundations.merkle import verify_inclusion
from workingpapers.foundations.progress import Progress
from workingpapers.governance.arms_control.challenge import challenge_digest, check_challenge, combine, commit, sample
from workingpapers.governance.arms_control.declaration import Book, declare, sign_declaration
from workingpapers.governance.arms_control.envelope import Refused, open_envelope
from workingpapers.governance.arms_control.evidence import disclose, make_evidence, prove_absent, sign_evidence
from workingpapers.governance.arms_control.inspection import (
    binomial_sample_size,
    detection_probability,
    sample_size,
)
from workingpapers.governance.arms_control.items import salted_leaf
from workingpapers.governance.arms_control.verifier import check_declaration, check_evidence

Metrics = dict[str, float]
FIRST, SECOND, EXPIRES = "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z", "2027-01-01T00:00:00Z"
MADE = "2026-02-01T00:00:00Z"


def _entropy(label: str) -> Callable[[int], bytes]:
    """Bytes from a counter: an experiment repeats exactly, a declaration in earnest takes the system's randomness."""
    count = iter(range(1 << 60))
    return lambda size: hashlib.shake_256(f"{label}/{next(count)}".encode()).digest(size)


def _items(count: int) -> list[dict[str, Any]]:
    kinds = ("model", "accelerator", "training_run")
    return [
        {"id": f"item-{k}", "kind": kinds[k % 3], "attributes": {"digest": hashlib.sha256(b"%d" % k).hexdigest()},
         "files": []}
        for k in range(count)
    ]  # fmt: skip


def inspect(
    seed: int, progress: Progress, *, items: int, violations: tuple[int, ...], trials: int, plan: str, draw: str
) -> Metrics:
    """Tamper with items of a declared registry and inspect it: share of trials in which something was found.

    The inspector compares what stands on the site (the tampered item) with the signed root by its inclusion proof. The
    violator knows the plan but not the draw; against a fixed schedule he tampers where nobody will look.
    """
    rng = np.random.default_rng(seed)
    book = declare("lab.example", _items(items), time=FIRST, expires=EXPIRES, entropy=_entropy(f"inspect/{seed}"))
    tree, root = book.tree(), bytes.fromhex(book.head.root)
    holds = {False: np.empty(items, bool), True: np.empty(items, bool)}
    for k, (item, salt) in enumerate(zip(book.items, book.salts, strict=True)):
        tampered = {**item, "attributes": {"digest": f"{int(item['attributes']['digest'], 16) ^ 1:064x}"}}
        path = tree.inclusion_proof(k)
        for forged, found in ((False, item), (True, tampered)):
            holds[forged][k] = verify_inclusion(salted_leaf(found, salt), k, items, path, root)
    caught, expected, looked, false_alarms = 0, 0.0, 0, 0
    for done, number in enumerate(violations):
        count = min(items, (sample_size if plan == "exact" else binomial_sample_size)(items, number, 0.95))
        for trial in range(trials):
            if trial % 50 == 0:
                progress((done + trial / trials) / len(violations), f"{number} violations")
            schedule = np.arange(count)
            if draw == "joint":
                shared = hashlib.sha256(rng.bytes(32) + rng.bytes(32)).digest()
                schedule = np.array(sample(shared, items, count))
            unwatched = np.arange(count, items) if draw == "fixed" else np.arange(items)
            tampered_at = np.zeros(items, bool)
            tampered_at[rng.choice(unwatched, number, replace=False)] = True
            results = np.where(tampered_at[schedule], holds[True][schedule], holds[False][schedule])
            caught += bool((~results & tampered_at[schedule]).any())
            false_alarms += bool((~results & ~tampered_at[schedule]).any())
            looked += count
        expected += detection_probability(items, number, count)
    total = trials * len(violations)
    return {
        "caught": caught / total,
        "trials": float(total),
        "planned": expected / len(violations),
        "false_alarms": false_alarms / total,
        "items_per_trial": looked / total,
    }


def refuse(seed: int, progress: Progress, *, items: int, changes: int, verifier: str) -> Metrics:
    """Change honest evidence in one place, signed by the declaring party itself where it can, and verify it."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    rng = np.random.default_rng(seed)
    key = Ed25519PrivateKey.from_private_bytes(rng.bytes(32))
    old = declare("lab.example", _items(items // 2), time=FIRST, expires=EXPIRES, entropy=_entropy(f"old/{seed}"))
    book = declare(
        "lab.example", _items(items), time=SECOND, expires=EXPIRES, previous=old, entropy=_entropy(f"new/{seed}")
    )
    publics = [key.public_key()]
    held = check_declaration(sign_declaration(old, [key]), publics)
    known = check_declaration(sign_declaration(book, [key]), publics)
    asked, replayed = (_challenge(known.digest, items, rng) for _ in range(2))
    honest = _statement(book, old, asked)
    listed = [hashlib.sha256(canonical(item)).hexdigest() for item in book.items]

    def accepts(statement: Mapping[str, Any], raw: bytes | None, name: str) -> bool:
        if verifier == "hash list":
            return _listed(statement if raw is None else _read(raw), listed)
        try:
            evidence = raw if raw is not None else sign_evidence(statement, [key])
            if verifier == "signature":
                open_envelope(evidence, publics)
                return True
            check_evidence(evidence, known, publics, challenge=asked, asked=["hidden"], previous=held, name=name)
        except Refused:
            return False
        return True

    accepted = accepts(honest, None, "honest")
    refused = dict.fromkeys(("corrupted", "reordered", "truncated", "replayed"), 0)
    kinds = tuple(refused)
    for trial in range(changes):
        if trial % 20 == 0:
            progress(trial / changes, "Changed evidence")
        kind = kinds[trial % 4]
        other = _statement(book, old, replayed) if kind == "replayed" else honest
        statement, raw = _change(other, kind, key, rng)
        refused[kind] += not accepts(statement, raw, kind)
    return {
        "refused": sum(refused.values()) / changes,
        "changes": float(changes),
        "honest_accepted": float(accepted),
        **{name: 4 * count / changes for name, count in refused.items()},
    }


def _challenge(digest: str, items: int, rng: np.random.Generator) -> dict[str, Any]:
    count, seeds = max(3, items // 4), {party: rng.bytes(32) for party in ("inspector", "lab")}
    openings = [{"party": p, "declaration": digest, "count": count, "seed": s.hex()} for p, s in seeds.items()]
    return combine([commit(p, s, digest, count) for p, s in seeds.items()], openings)


def _statement(book: Book, old: Book, challenge: Mapping[str, Any]) -> dict[str, Any]:
    drawn = sample(check_challenge(challenge), book.head.size, challenge["count"])
    return make_evidence(
        book, time=MADE, challenge=challenge_digest(challenge), disclosures=disclose(book, drawn),
        absences=[prove_absent(book, "hidden")], previous={"payload": old.payload_digest(), "size": old.head.size},
    )  # fmt: skip


def _change(
    honest: dict[str, Any], kind: str, key: Any, rng: np.random.Generator
) -> tuple[dict[str, Any], bytes | None]:
    """Return a changed statement, and the changed bytes where the change was made to them."""
    statement = copy.deepcopy(honest)
    opened = statement["predicate"]["disclosures"]
    place = int(rng.integers(len(opened)))
    if kind == "replayed":
        return statement, None
    if kind == "corrupted":
        entry = opened[place]
        digits = list(entry["item"]["attributes"]["digest"])
        at = int(rng.integers(64))
        digits[at] = f"{int(digits[at], 16) ^ int(rng.integers(1, 16)):x}"
        entry["item"]["attributes"]["digest"] = "".join(digits)
        if rng.random() < 0.5:
            return statement, None
        raw = bytearray(sign_evidence(honest, [key]))
        raw[int(rng.integers(len(raw)))] ^= 1 << int(rng.integers(8))
        return statement, bytes(raw)
    if kind == "reordered":
        other = (place + 1 + int(rng.integers(len(opened) - 1))) % len(opened)
        opened[place], opened[other] = opened[other], opened[place]
        return statement, None
    if rng.random() < 0.5:
        raw_whole = sign_evidence(honest, [key])
        del opened[place]
        return statement, raw_whole[: int(rng.integers(len(raw_whole)))]
    del opened[place]
    return statement, None


def _read(raw: bytes) -> Mapping[str, Any] | None:
    """The statement inside a file, without asking who signed it; None where the file cannot be read."""
    try:
        found: Mapping[str, Any] = json.loads(base64.b64decode(json.loads(raw)["payload"], validate=True))
        return found
    except (ValueError, KeyError, TypeError):
        return None


def _listed(statement: Mapping[str, Any] | None, listed: list[str]) -> bool:
    """The plain way: every opened item must be in a published list of hashes, at its place."""
    if statement is None or "disclosures" not in statement.get("predicate", {}):
        return False
    return all(
        entry.get("index") in range(len(listed))
        and hashlib.sha256(canonical(entry.get("item"))).hexdigest() == listed[entry["index"]]
        for entry in statement["predicate"]["disclosures"]
    )
