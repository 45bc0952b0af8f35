"""The results that ship with a paper: ``evidence.json`` in its folder, which names the machine that made them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from workingpapers.replication.store import Store, result_record

FILE = "evidence.json"


def shipped(folder: Path) -> list[dict[str, Any]]:
    """Return the shipped results of the paper in `folder`; empty where there are none."""
    file = folder / FILE
    if not file.is_file():
        return []
    found: list[dict[str, Any]] = json.loads(file.read_text(encoding="utf-8"))
    return found


def measured(slug: str, folder: Path, store: Store | None) -> list[tuple[Mapping[str, Any], str]]:
    """Return (result, where) for each claim, the headline first: this user's newest result, else the shipped one.

    Args:
        slug: The paper.
        folder: Its folder.
        store: The user's results; None for the shipped ones alone.
    """
    found: dict[str, tuple[Mapping[str, Any], str]] = {item["claim"]: (item, "shipped") for item in shipped(folder)}
    if store is not None:
        for run in reversed(store.newest_results(slug)):
            found[run.claim] = (result_record(run), "this machine")
    return list(found.values())
