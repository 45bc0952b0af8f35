"""Declarations: hiding, binding, append-only history, and items with files."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from workingpapers.foundations.errors import InputError
from workingpapers.governance.arms_control.declaration import (
    declare,
    parse_time,
    read_book,
    sign_declaration,
)
from workingpapers.governance.arms_control.envelope import Refused, open_envelope
from workingpapers.governance.arms_control.evidence import disclose
from workingpapers.governance.arms_control.items import (
    check_item,
    differing_files,
    hash_file,
    read_items,
    salted_leaf,
)
from workingpapers.governance.arms_control.verifier import check_declaration, check_succession

TIMES = {"time": "2026-02-01T00:00:00Z", "expires": "2026-12-31T00:00:00Z"}


def item(identifier: str = "a", **changes: Any) -> dict[str, Any]:
    return {"id": identifier, "kind": "model", "attributes": {}, "files": [], **changes}


def test_leaf_is_salted_and_domain_separated() -> None:
    salt = bytes(range(32))
    expected = hashlib.sha256(b"\x00" + salt + b'{"attributes":{},"files":[],"id":"a","kind":"model"}').digest()
    assert salted_leaf(item(), salt) == expected
    assert salted_leaf(item(), bytes(32)) != expected
    assert salted_leaf(item("b"), salt) != expected
    with pytest.raises(ValueError, match="31 bytes"):
        salted_leaf(item(), salt[:31])


def test_disclosing_one_leaf_shows_nothing_of_the_others(registry: Any) -> None:
    (opened,) = disclose(registry.new, [4])
    text = json.dumps(opened)
    for place, (other, salt) in enumerate(zip(registry.new.items, registry.new.salts, strict=True)):
        if place != 4:
            assert other["id"] not in text
            assert salt.hex() not in text
            # Without the salt, the known item cannot be recognised behind the hashes that are shown.
            unsalted = salted_leaf(other, bytes(32)).hex()
            assert unsalted not in text
    assert set(opened) == {"index", "item", "salt", "path", "directory_index", "directory_path"}


def test_fresh_salts_for_each_item_and_kept_ones_for_old_items(registry: Any) -> None:
    assert len(set(registry.new.salts)) == 21
    assert registry.new.salts[:13] == registry.old.salts
    assert registry.new.head.directory_salt != registry.old.head.directory_salt
    assert declare("x", [item()], **TIMES).salts != declare("x", [item()], **TIMES).salts


def test_statement_is_in_toto_v1_with_the_root_as_subject(registry: Any) -> None:
    statement, _ = open_envelope(registry.new_raw, [registry.public])
    assert statement["_type"] == "https://in-toto.io/Statement/v1"
    assert statement["subject"] == [{"name": "lab.example#1", "digest": {"sha256": registry.new.tree().root().hex()}}]
    assert statement["predicate"]["previous"] == {
        "payload": hashlib.sha256(open_envelope(registry.old_raw, [registry.public])[1]).hexdigest(),
        "root": registry.old.head.root,
        "size": 13,
    }


def test_book_survives_its_file_and_detects_damage(registry: Any, tmp_path: Path) -> None:
    path = tmp_path / "book.json"
    path.write_text(registry.new.text())
    assert read_book(path) == registry.new
    path.write_text(registry.new.text().replace('"number": 3', '"number": 4'))
    with pytest.raises(InputError, match="do not give the root"):
        read_book(path)
    path.write_text(registry.new.text().replace('"book": 1', '"book": 2'))
    with pytest.raises(InputError, match="version 2"):
        read_book(path)
    path.write_text('{"book": 1}')
    with pytest.raises(InputError, match="not the secret book"):
        read_book(path)


@pytest.mark.parametrize(
    ("items", "reason"),
    [
        ([], "no items"),
        ([item("a"), item("a")], "'a' stands twice"),
        ([item(kind="modle")], "did you mean 'model'"),
        ([item(attributes=[])], "object as attributes"),
        ([item(extra=1)], "has the fields"),
        ([item(" ")], "not empty"),
        ([item(attributes={"x": float("nan")})], "canonical JSON form"),
        ([item(files=[{"name": "x", "size": 5, "shard_size": 2, "sha256": ["00" * 32]}])], "malformed file record"),
    ],
)
def test_items_that_cannot_be_declared(items: list[dict[str, Any]], reason: str) -> None:
    with pytest.raises(InputError, match=reason):
        declare("lab.example", items, **TIMES)


def test_history_is_append_only(registry: Any, plain_items: Any) -> None:
    later = {"time": "2026-03-01T00:00:00Z", "expires": "2026-12-31T00:00:00Z", "previous": registry.new}
    items = plain_items(22)
    declare("lab.example", items, **later)
    with pytest.raises(InputError, match="never taken away"):
        declare("lab.example", items[:20], **later)
    with pytest.raises(InputError, match=r"Item 4 \('item-0003'\)"):
        declare("lab.example", [*items[:3], {**items[3], "attributes": {}}, *items[4:]], **later)
    with pytest.raises(InputError, match="Item 1 "):
        declare("lab.example", [items[1], items[0], *items[2:]], **later)
    with pytest.raises(InputError, match="keep it"):
        declare("other.example", items, **later)
    with pytest.raises(InputError, match="not after that of the declaration before"):
        declare("lab.example", items, **{**later, "time": "2026-01-15T00:00:00Z"})


@pytest.mark.parametrize("text", ["2026-01-01", "2026-1-1T00:00:00Z", "2026-01-01T00:00:00+00:00", "", None, 5])
def test_times_have_one_spelling(text: Any) -> None:
    with pytest.raises(InputError, match="2026-01-31T12:00:00Z"):
        parse_time(text)


def test_clock_and_succession(registry: Any, now: Any) -> None:
    publics = [registry.public]
    old = check_declaration(registry.old_raw, publics, now=now)
    new = check_declaration(registry.new_raw, publics, now=now)
    check_succession(new, old)
    assert new.digest == registry.new.payload_digest()
    with pytest.raises(Refused, match="expired"):
        check_declaration(registry.new_raw, publics, now=now.replace(year=2027))
    with pytest.raises(Refused, match="in the future"):
        check_declaration(registry.new_raw, publics, now=now.replace(year=2025))
    for one, other in ((old, new), (new, new)):
        with pytest.raises(Refused, match="shown again"):
            check_succession(one, other)


def test_a_signed_head_that_goes_back_or_forks_is_refused(registry: Any) -> None:
    from dataclasses import replace

    from workingpapers.governance.arms_control.envelope import sign

    def signed(**changes: Any) -> Any:
        head = replace(registry.new.head, **changes)
        return check_declaration(sign(head.statement(), [registry.key]), [registry.public])

    old = check_declaration(registry.old_raw, [registry.public])
    fork = {**registry.new.head.previous, "payload": "00" * 32}
    with pytest.raises(Refused, match="names another as the one before"):
        check_succession(signed(previous=fork), old)
    with pytest.raises(Refused, match="shrank from 13 to 12"):
        check_succession(signed(size=12, sequence=2, previous={**fork, "size": 5}), old)
    with pytest.raises(Refused, match="not after the one held"):
        check_succession(signed(time="2025-12-01T00:00:00Z"), old)
    with pytest.raises(Refused, match=r"by 'x'"):
        check_succession(signed(origin="x"), old)
    fields = [("version", 2), ("size", 0), ("size", 2.5), ("root", "AB" * 32), ("previous", None), ("sequence", -1)]
    for field, value in fields:
        with pytest.raises(Refused):
            signed(**{field: value})
    with pytest.raises(Refused, match="before it was signed"):
        signed(expires="2026-01-01T00:00:00Z")


def test_files_are_hashed_in_shards(tmp_path: Path) -> None:
    content = bytes(range(256)) * 5
    (tmp_path / "weights.bin").write_bytes(content)
    (tmp_path / "empty").write_bytes(b"")
    record = hash_file(tmp_path, "weights.bin", shard_size=500)
    assert record["sha256"] == [hashlib.sha256(content[k : k + 500]).hexdigest() for k in (0, 500, 1000)]
    assert hash_file(tmp_path, "weights.bin")["sha256"] == [hashlib.sha256(content).hexdigest()]
    assert hash_file(tmp_path, "weights.bin", None)["sha256"] == [hashlib.sha256(content).hexdigest()]
    assert hash_file(tmp_path, "empty")["sha256"] == [hashlib.sha256(b"").hexdigest()]
    declared = check_item(item(files=[record, hash_file(tmp_path, "empty")]))
    assert differing_files(declared, tmp_path) == []
    (tmp_path / "weights.bin").write_bytes(content[:600] + b"\x00" + content[601:])
    assert differing_files(declared, tmp_path) == ["a: weights.bin differs from its declared digest in shard 1"]
    (tmp_path / "weights.bin").write_bytes(content[:-1])
    (tmp_path / "empty").unlink()
    assert "1279 bytes, 1280 were declared" in differing_files(declared, tmp_path)[0]
    assert "There is no file" in differing_files(declared, tmp_path)[1]
    for name in ("../x", "/etc/passwd", "a/../../x"):
        with pytest.raises(InputError, match="leaves its folder"):
            hash_file(tmp_path, name)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ('{"origin": "x"}', "fields origin and items"),
        ('{"origin": "", "items": []}', "name of the declaring party"),
        ('{"origin": "x", "items": [{"id": "a"}]}', "must have id and kind"),
        ('{"origin": "x", "items": [{"id": "a", "kind": "model", "files": "w"}]}', "list of paths"),
        ('{"origin": "x", "items": [{"id": "a", "kind": "model", "files": ["gone"]}]}', "There is no file"),
        ('{"origin": "x", "items": [{"id": "a", "kind": "model", "salt": 1}]}', "no other fields"),
        ('{"origin": "x", "origin": "y", "items": []}', "repeats the key"),
    ],
)
def test_item_files_that_cannot_be_read(tmp_path: Path, content: str, reason: str) -> None:
    path = tmp_path / "items.json"
    path.write_text(content)
    with pytest.raises(InputError, match=reason):
        read_items(path)


def test_signed_declaration_needs_ed25519(registry: Any) -> None:
    from workingpapers.governance.arms_control.envelope import new_private_key

    with pytest.raises(InputError, match="Ed25519"):
        sign_declaration(registry.new, [new_private_key("p256")])  # type: ignore[list-item]
