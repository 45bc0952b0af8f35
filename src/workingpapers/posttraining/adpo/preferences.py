"""Reading preference files, and how far the two responses of a pair stand side by side."""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Sequence
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any

from workingpapers.foundations.errors import InputError, near_match
from workingpapers.foundations.files import read_text
from workingpapers.posttraining.adpo.units import Composition, compose

SIDES = ("chosen", "rejected")


def read_preferences(path: str | Path) -> list[dict[str, Any]]:
    """Read pairs in TRL's preference format: one JSON object a line with prompt, chosen and rejected.

    All three are texts, or all are lists of messages with role and content. Pairs of equal responses are left out, for
    they teach nothing.

    Args:
        path: JSON Lines file.

    Returns:
        Records with prompt, chosen and rejected, and `line`, counted from 1.

    Raises:
        InputError: It names the line and what is wrong with it.
    """
    found: list[dict[str, Any]] = []
    kinds: set[bool] = set()
    for number, text in enumerate(read_text(path).split("\n"), 1):
        if not text.strip():
            continue
        where = f"Line {number} of {str(path)!r}"
        try:
            record = json.loads(text)
        except ValueError:
            raise InputError(f"{where} is not JSON; give one object a line with prompt, chosen, rejected.") from None
        if not isinstance(record, dict):
            raise InputError(f"{where} is no object; give one a line with prompt, chosen, rejected.")
        kept = {name: _field(record, name, where) for name in ("prompt", *SIDES)}
        kinds.add(isinstance(kept["prompt"], str))
        if len({isinstance(value, str) for value in kept.values()} | kinds) > 1:
            raise InputError(f"{where} mixes texts and lists of messages; use one of them in the whole file.")
        if kept["chosen"] != kept["rejected"]:
            found.append({**kept, "line": number})
    if not found:
        raise InputError(f"{str(path)!r} holds no pair of different responses; there is nothing to learn.")
    return found


def aligned_share(composition: Composition, chosen: Sequence[int], rejected: Sequence[int]) -> float:
    """Return the share of the tokens common to both responses, by their best alignment, that fall into the same unit.

    Units are paired by place. Where the share is small, a unit of the chosen response is mostly compared with
    something else than its counterpart, and fewer units or DPO (share 1) are the better choice.

    Args:
        composition: How responses are cut.
        chosen: Token numbers, at least one.
        rejected: Token numbers, at least one.

    Returns:
        A share in [0, 1]; 1 where the responses have no token in common.
    """
    cuts = [compose(composition, len(one), len(other)) for one, other in ((chosen, rejected), (rejected, chosen))]
    blocks = SequenceMatcher(None, list(chosen), list(rejected), autojunk=False).get_matching_blocks()
    same = [
        bisect_right(cuts[0], block.a + step) == bisect_right(cuts[1], block.b + step)
        for block in blocks
        for step in range(block.size)
    ]
    return sum(same) / len(same) if same else 1.0


def _field(record: dict[str, Any], name: str, where: str) -> Any:
    if name not in record:
        hint = near_match(name, map(str, record)) or "; prompt, chosen and rejected are needed."
        raise InputError(f"{where} has no {name!r}{hint}")
    value = record[name]
    if isinstance(value, str):
        if not value.strip():
            raise InputError(f"{where} has an empty {name!r}; leave the pair out.")
        return value
    good = isinstance(value, list) and all(
        isinstance(message, dict) and isinstance(message.get("role"), str) and isinstance(message.get("content"), str)
        for message in value
    )
    if not good:
        raise InputError(f"{where} has {name!r} that is neither a text nor a list of messages with role and content.")
    if not any(message["content"].strip() for message in value):
        raise InputError(f"{where} has an empty {name!r}; leave the pair out.")
    return value
