"""The verifier: honest evidence passes; corrupted, reordered, truncated or replayed evidence never does."""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Callable
from datetime import datetime
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from workingpapers.foundations.errors import InputError
from workingpapers.foundations.merkle import MerkleTree
from workingpapers.governance.arms_control.challenge import (
    challenge_digest,
    check_challenge,
    combine,
    commit,
    sample,
)
from workingpapers.governance.arms_control.envelope import Refused, sign
from workingpapers.governance.arms_control.evidence import (
    disclose,
    indices_of,
    make_evidence,
    prove_absent,
    sign_evidence,
)
from workingpapers.governance.arms_control.items import tag
from workingpapers.governance.arms_control.verifier import (
    CheckedDeclaration,
    CheckedEvidence,
    check_declaration,
    check_evidence,
)

MADE = "2026-02-15T00:00:00Z"


def joint_challenge(digest: str, count: int, label: str = "one") -> dict[str, Any]:
    seeds = {party: hashlib.sha256(f"{party}/{label}".encode()).digest() for party in ("inspector", "lab")}
    commitments = [commit(party, seed, digest, count) for party, seed in seeds.items()]
    openings = [
        {"party": party, "declaration": digest, "count": count, "seed": seed.hex()} for party, seed in seeds.items()
    ]
    return combine(commitments, openings)


@pytest.fixture(scope="module")
def declaration(registry: Any) -> CheckedDeclaration:
    return check_declaration(registry.new_raw, [registry.public])


@pytest.fixture(scope="module")
def challenge(declaration: CheckedDeclaration) -> dict[str, Any]:
    return joint_challenge(declaration.digest, 6)


@pytest.fixture(scope="module")
def statement(registry: Any, declaration: CheckedDeclaration, challenge: dict[str, Any]) -> dict[str, Any]:
    drawn = sample(check_challenge(challenge), 21, 6)
    return make_evidence(
        registry.new,
        time=MADE,
        challenge=challenge_digest(challenge),
        disclosures=disclose(registry.new, drawn),
        absences=[prove_absent(registry.new, "hidden-model")],
        previous={"payload": registry.old.payload_digest(), "size": 13},
        directory=True,
    )


@pytest.fixture(scope="module")
def check(registry: Any, declaration: CheckedDeclaration, challenge: dict[str, Any]) -> Callable[..., CheckedEvidence]:
    held = check_declaration(registry.old_raw, [registry.public])

    def run(raw: bytes, **changes: Any) -> CheckedEvidence:
        options = {"challenge": challenge, "previous": held, "asked": ["hidden-model"], "directory": True, **changes}
        return check_evidence(raw, options.pop("declaration", declaration), [registry.public], **options)

    return run


def test_honest_evidence_passes(registry: Any, statement: Any, challenge: Any, check: Any, now: datetime) -> None:
    found = check(sign_evidence(statement, [registry.key]), now=now)
    assert [place for place, _ in found.items] == sample(check_challenge(challenge), 21, 6)
    assert all(item == registry.new.items[place] for place, item in found.items)
    assert found.absent == ("hidden-model",)
    assert found.history
    assert found.whole_directory
    commitments = [{"party": entry["party"], "commitment": entry["commitment"]} for entry in challenge["openings"]]
    check(sign_evidence(statement, [registry.key]), commitments=commitments)


def test_every_single_item_can_be_opened_and_every_other_id_denied(registry: Any, declaration: Any) -> None:
    for place in range(21):
        absences = [prove_absent(registry.new, f"ghost-{place}-{k}") for k in range(3)]
        raw = sign_evidence(
            make_evidence(
                registry.new, time=MADE, challenge="n", disclosures=disclose(registry.new, [place]), absences=absences
            ),
            [registry.key],
        )
        asked = [f"item-{place:04d}", *(f"ghost-{place}-{k}" for k in range(3))]
        found = check_evidence(raw, declaration, [registry.public], challenge="n", asked=asked)
        assert found.items[0][1]["id"] == f"item-{place:04d}"
        assert not found.history
        with pytest.raises(Refused, match="exactly what was asked"):
            check_evidence(raw, declaration, [registry.public], challenge="n", asked=[*asked, "another"])


# Changes that the declaring party itself could make and sign: the signature does not catch them.
def _drop(s: Any) -> None:
    s["predicate"]["disclosures"].pop()


def _swap(s: Any) -> None:
    d = s["predicate"]["disclosures"]
    d[0], d[1] = d[1], d[0]


def _repeat(s: Any) -> None:
    s["predicate"]["disclosures"][1] = s["predicate"]["disclosures"][0]


def _extra(s: Any) -> None:
    s["predicate"]["disclosures"].append(s["predicate"]["disclosures"][0])


def _change_attribute(s: Any) -> None:
    s["predicate"]["disclosures"][2]["item"]["attributes"]["number"] += 1


def _change_salt(s: Any) -> None:
    s["predicate"]["disclosures"][2]["salt"] = "00" * 32


def _move(s: Any) -> None:
    s["predicate"]["disclosures"][3]["index"] ^= 1


def _cut_path(s: Any) -> None:
    s["predicate"]["disclosures"][3]["path"].pop()


def _reorder_path(s: Any) -> None:
    s["predicate"]["disclosures"][3]["path"].reverse()


def _cut_directory_path(s: Any) -> None:
    s["predicate"]["disclosures"][3]["directory_path"].pop()


def _other_directory_place(s: Any) -> None:
    s["predicate"]["disclosures"][3]["directory_index"] ^= 1


def _other_challenge(s: Any) -> None:
    s["predicate"]["challenge"] = "00" * 32


def _no_challenge(s: Any) -> None:
    s["predicate"]["challenge"] = None


def _other_subject(s: Any) -> None:
    s["subject"][0]["digest"]["sha256"] = "00" * 32


def _other_kind(s: Any) -> None:
    s["predicateType"] = "urn:workingpapers:declaration:v1"


def _other_version(s: Any) -> None:
    s["predicate"]["version"] = 2


def _no_denial(s: Any) -> None:
    s["predicate"]["absences"] = []


def _no_directory(s: Any) -> None:
    s["predicate"]["directory"] = None


def _older(s: Any) -> None:
    s["predicate"]["time"] = "2026-01-15T00:00:00Z"


def _bad_time(s: Any) -> None:
    s["predicate"]["time"] = "yesterday"


def _deny_another(s: Any) -> None:
    s["predicate"]["absences"][0]["id"] = "item-0003"


def _gap(s: Any) -> None:
    s["predicate"]["absences"][0]["left"] = None


def _cut_history(s: Any) -> None:
    s["predicate"]["consistency"]["path"].pop()


def _no_history(s: Any) -> None:
    s["predicate"]["consistency"] = None


def _other_history(s: Any) -> None:
    s["predicate"]["consistency"]["payload"] = "00" * 32


def _cut_directory(s: Any) -> None:
    s["predicate"]["directory"].pop()


def _swap_directory(s: Any) -> None:
    d = s["predicate"]["directory"]
    d[0], d[1] = d[1], d[0]


def _unknown_field(s: Any) -> None:
    s["predicate"]["note"] = "fine"


def _unknown_item_field(s: Any) -> None:
    s["predicate"]["disclosures"][0]["item"]["note"] = 1


CHANGES = [value for name, value in sorted(globals().items()) if name.startswith("_") and name[1] != "_"
           and callable(value) and getattr(value, "__module__", "") == __name__]  # fmt: skip


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_changes_signed_by_the_declaring_party_are_refused(
    change: Callable[[Any], None], registry: Any, statement: Any, check: Any
) -> None:
    changed = copy.deepcopy(statement)
    change(changed)
    assert changed != statement
    with pytest.raises(Refused):
        check(sign_evidence(changed, [registry.key]))


def leaves_of(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    if isinstance(value, dict):
        return [p for key, inner in value.items() for p in leaves_of(inner, (*path, key))] + [path]
    if isinstance(value, list):
        return [p for key, inner in enumerate(value) for p in leaves_of(inner, (*path, key))] + [path]
    return [path]


@given(st.data())
@settings(max_examples=250, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_fuzz_any_change_anywhere_in_signed_evidence_is_refused(
    registry: Any, statement: Any, check: Any, data: st.DataObject
) -> None:
    """Replace, drop or move a part at any depth, sign the result with the right key, and see it refused."""
    changed = copy.deepcopy(statement)
    path = data.draw(st.sampled_from([p for p in leaves_of(changed) if p]))
    parent = changed
    for step in path[:-1]:
        parent = parent[step]
    before = parent[path[-1]]
    action = data.draw(st.sampled_from(["replace", "drop", "reverse", "flip"]))
    if action == "drop":
        del parent[path[-1]]
    elif action == "reverse" and isinstance(before, list):
        parent[path[-1]] = before[::-1]
    elif action == "flip" and isinstance(before, str) and before:
        place = data.draw(st.integers(0, len(before) - 1))
        letter = data.draw(st.sampled_from("0123456789abcdefZ-"))
        parent[path[-1]] = before[:place] + letter + before[place + 1 :]
    else:
        simple = st.none() | st.booleans() | st.integers(-5, 2**40) | st.text(max_size=5) | st.just([]) | st.just({})
        parent[path[-1]] = data.draw(simple)
    # The time of the evidence may be any time after the declaration: it is the one free field.
    if changed == statement or path == ("predicate", "time"):
        return
    with pytest.raises(Refused):
        check(sign(changed, [registry.key]))


@given(st.data())
@settings(max_examples=250, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_fuzz_any_change_of_the_bytes_is_refused(
    registry: Any, statement: Any, check: Any, data: st.DataObject
) -> None:
    raw = sign_evidence(statement, [registry.key])
    start = data.draw(st.integers(0, len(raw) - 1))
    stop = data.draw(st.integers(start, min(len(raw), start + 200)))
    changed = raw[:start] + data.draw(st.binary(max_size=12)) + raw[stop:]
    if changed != raw:
        with pytest.raises(Refused):
            check(changed)


def test_replays(registry: Any, statement: Any, check: Any, declaration: CheckedDeclaration) -> None:
    raw = sign_evidence(statement, [registry.key])
    with pytest.raises(Refused, match="another one"):
        check(raw, challenge=joint_challenge(declaration.digest, 6, "two"))
    with pytest.raises(Refused, match="another one"):
        check(raw, challenge="my own number")
    with pytest.raises(Refused, match="about another declaration"):
        check(raw, declaration=check_declaration(registry.old_raw, [registry.public]), previous=None)
    with pytest.raises(Refused, match="challenge is about another declaration"):
        check(raw, challenge=joint_challenge("cd" * 32, 6))
    with pytest.raises(Refused, match="leaves out the commitment of 'inspector'"):
        check(raw, commitments=[commit("inspector", bytes(32), declaration.digest, 6)])
    with pytest.raises(Refused, match="without the challenge"):
        check(raw, challenge=None, commitments=[commit("inspector", bytes(32), declaration.digest, 6)])
    with pytest.raises(Refused, match="asks for 22 items of 21"):
        check(raw, challenge=joint_challenge(declaration.digest, 22))


def test_evidence_signed_by_somebody_else_is_refused(registry: Any, statement: Any, check: Any) -> None:
    from workingpapers.governance.arms_control.envelope import new_private_key

    with pytest.raises(Refused, match="not pinned"):
        check(sign_evidence(statement, [new_private_key()]))  # type: ignore[list-item]


def test_evidence_from_the_future_is_refused(registry: Any, statement: Any, check: Any, now: datetime) -> None:
    changed = copy.deepcopy(statement)
    changed["predicate"]["time"] = "2026-06-01T00:00:00Z"
    with pytest.raises(Refused, match="in the future"):
        check(sign_evidence(changed, [registry.key]), now=now)


def test_unsolicited_evidence_must_be_in_order(registry: Any, declaration: Any) -> None:
    def evidence(places: list[int]) -> bytes:
        return sign_evidence(
            make_evidence(registry.new, time=MADE, disclosures=disclose(registry.new, places)), [registry.key]
        )

    check_evidence(evidence([2, 5]), declaration, [registry.public])
    for places in ([5, 2], [2, 2]):
        with pytest.raises(Refused, match="out of order or twice"):
            check_evidence(evidence(places), declaration, [registry.public])


def test_rewritten_history_is_refused(registry: Any, declaration: Any) -> None:
    """A declarer swaps an old item for a new one and proves consistency as well as he can."""
    from dataclasses import replace

    items = list(registry.new.items)
    items[4] = {**items[4], "attributes": {"number": 99}}
    forged = replace(registry.new, items=tuple(items))
    head = replace(forged.head, root=forged.tree().root().hex())
    forged = replace(forged, head=head)
    new = check_declaration(sign(head.statement(), [registry.key]), [registry.public])
    old = check_declaration(registry.old_raw, [registry.public])
    raw = sign_evidence(make_evidence(forged, time=MADE, previous={"payload": old.digest, "size": 13}), [registry.key])
    with pytest.raises(Refused, match="history was rewritten"):
        check_evidence(raw, new, [registry.public], previous=old)


def test_an_item_kept_out_of_the_directory_is_refused(registry: Any) -> None:
    """A declarer who leaves an id out of the directory, to deny it elsewhere, cannot open the item."""
    from dataclasses import replace

    salt = bytes.fromhex(registry.new.head.directory_salt)
    tags = [*sorted(tag(item["id"], salt) for item in registry.new.items[:-1]), b"\xff" * 32]
    head = replace(registry.new.head, directory_root=MerkleTree(tags).root().hex())
    cheat = replace(registry.new, head=head)
    new = check_declaration(sign(head.statement(), [registry.key]), [registry.public])
    raw = sign_evidence(make_evidence(cheat, time=MADE, disclosures=disclose(cheat, [20])), [registry.key])
    with pytest.raises(Refused, match="missing from the directory"):
        check_evidence(raw, new, [registry.public])


def test_an_item_cannot_be_opened_and_denied_at_once(registry: Any) -> None:
    """A directory with one tag out of its place holds the item and a gap where it should be."""
    from dataclasses import replace

    tags, item = registry.new.tags(), registry.new.items[4]
    mark = tag(item["id"], bytes.fromhex(registry.new.head.directory_salt))
    place = tags.index(mark)
    moved = [*tags[:place], *tags[place + 1 :], mark]
    assert 0 < place < 20
    directory = MerkleTree(moved)
    cheat = replace(registry.new, head=replace(registry.new.head, directory_root=directory.root().hex()))
    new = check_declaration(sign(cheat.head.statement(), [registry.key]), [registry.public])

    def proof(index: int) -> list[str]:
        return [digest.hex() for digest in directory.inclusion_proof(index)]

    (opened,) = disclose(registry.new, [4])
    opened |= {"directory_index": 20, "directory_path": proof(20)}
    sides = {
        side: {"index": index, "tag": moved[index].hex(), "path": proof(index)}
        for side, index in (("left", place - 1), ("right", place))
    }

    def check(disclosures: list[Any], absences: list[Any]) -> Any:
        statement = make_evidence(cheat, time=MADE, disclosures=disclosures, absences=absences)
        return check_evidence(sign_evidence(statement, [registry.key]), new, [registry.public])

    # Each proof alone passes: that is why both together, or the listed directory, must not.
    assert check([opened], []).items[0][0] == 4
    assert check([], [{"id": item["id"], **sides}]).absent == (item["id"],)
    with pytest.raises(Refused, match="opens an item and denies it"):
        check([opened], [{"id": item["id"], **sides}])


def test_an_unsorted_directory_is_found_by_listing_it(registry: Any) -> None:
    from dataclasses import replace

    tags = registry.new.tags()
    tags[3], tags[17] = tags[17], tags[3]
    head = replace(registry.new.head, directory_root=MerkleTree(tags).root().hex())
    new = check_declaration(sign(head.statement(), [registry.key]), [registry.public])
    statement = make_evidence(replace(registry.new, head=head), time=MADE)
    statement["predicate"]["directory"] = [entry.hex() for entry in tags]
    with pytest.raises(Refused, match="not sorted"):
        check_evidence(sign_evidence(statement, [registry.key]), new, [registry.public])
    statement["predicate"]["directory"] = [entry.hex() for entry in sorted(tags)]
    with pytest.raises(Refused, match="not the declared one"):
        check_evidence(sign_evidence(statement, [registry.key]), new, [registry.public])


def test_absence_at_both_ends_and_of_declared_ids(registry: Any, declaration: Any) -> None:
    tags, salt = registry.new.tags(), bytes.fromhex(registry.new.head.directory_salt)
    names = [f"ghost {k}" for k in range(400)]
    first = next(name for name in names if tag(name, salt) < tags[0])
    last = next(name for name in names if tag(name, salt) > tags[-1])
    absences = [prove_absent(registry.new, name) for name in (first, last)]
    assert absences[0]["left"] is None
    assert absences[1]["right"] is None
    raw = sign_evidence(make_evidence(registry.new, time=MADE, absences=absences), [registry.key])
    assert check_evidence(raw, declaration, [registry.public]).absent == (first, last)
    with pytest.raises(InputError, match="is declared"):
        prove_absent(registry.new, "item-0000")
    with pytest.raises(InputError, match="did you mean 'item-0000'"):
        indices_of(registry.new, ["item_0000"])
    with pytest.raises(InputError, match="There is no item 21"):
        disclose(registry.new, [21])
    with pytest.raises(InputError, match="swap them"):
        make_evidence(registry.old, time=MADE, previous={"payload": "x", "size": 21})
