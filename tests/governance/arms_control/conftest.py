"""A small registry, its keys and its books; all secrets come from a counter, so that tests repeat exactly."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

KINDS = ("model", "checkpoint", "dataset", "accelerator", "training_run", "deployment")


def counter_entropy(label: str) -> Callable[[int], bytes]:
    state = {"count": 0}

    def entropy(size: int) -> bytes:
        state["count"] += 1
        return hashlib.shake_256(f"{label}/{state['count']}".encode()).digest(size)

    return entropy


def make_items(count: int) -> list[dict[str, Any]]:
    return [
        {"id": f"item-{k:04d}", "kind": KINDS[k % len(KINDS)], "attributes": {"number": k}, "files": []}
        for k in range(count)
    ]


@dataclass(frozen=True)
class Registry:
    """A declared registry: two versions, the keys, the public bytes."""

    key: Any
    public: Any
    old: Any
    new: Any
    old_raw: bytes
    new_raw: bytes


@pytest.fixture(scope="session")
def registry() -> Registry:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    from workingpapers.governance.arms_control.declaration import declare, sign_declaration

    key = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
    old = declare(
        "lab.example",
        make_items(13),
        time="2026-01-01T00:00:00Z",
        expires="2026-12-31T00:00:00Z",
        entropy=counter_entropy("old"),
    )
    new = declare(
        "lab.example",
        make_items(21),
        time="2026-02-01T00:00:00Z",
        expires="2026-12-31T00:00:00Z",
        previous=old,
        entropy=counter_entropy("new"),
    )
    return Registry(key, key.public_key(), old, new, sign_declaration(old, [key]), sign_declaration(new, [key]))


@pytest.fixture(scope="session")
def now() -> datetime:
    return datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)


@pytest.fixture(scope="session")
def plain_items() -> Callable[[int], list[dict[str, Any]]]:
    return make_items


@pytest.fixture
def write_log(tmp_path: Path) -> Callable[[Sequence[Mapping[str, Any]]], Path]:
    def write(lines: Sequence[Mapping[str, Any]]) -> Path:
        path = tmp_path / "log.jsonl"
        path.write_text("\n".join(json.dumps(line) for line in lines) + "\n")
        return path

    return write
