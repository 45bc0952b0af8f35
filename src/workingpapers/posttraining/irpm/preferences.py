"""From preference files to the rows that a judge is trained on, and files of candidates to rank."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from workingpapers.foundations.conversations import cell, messages, read_rows, text_of
from workingpapers.foundations.errors import InputError
from workingpapers.posttraining.irpm.judge import JudgePrompt
from workingpapers.posttraining.irpm.rewards import CHOSEN, REJECTED

NEUTRAL = 2.0  # the strength at which the released margin is zero


def read_preferences(path: Path) -> list[dict[str, Any]]:
    """Read TRL's preference format: prompt, chosen, rejected (texts or messages) and, where known, strength.

    Args:
        path: JSON Lines, a JSON list, CSV or Parquet.

    Returns:
        Records with prompt, chosen, rejected as texts or messages, strength (a number, or None in all of them), and
        `place`, where the record stands. Pairs of equal responses are left out.

    Raises:
        InputError: It names the row and what is wrong with it.
    """
    found = []
    for place, row in read_rows(path):
        for name in ("prompt", "chosen", "rejected"):
            text_of(row, name, place)
        kept = {name: _part(row, name, place) for name in ("prompt", "chosen", "rejected")}
        if kept["chosen"] != kept["rejected"]:
            found.append({**kept, "strength": _strength(row, place), "place": place})
    if not found:
        raise InputError(f"{str(path)!r} holds no pair of different responses; there is nothing to learn.")
    known = {record["strength"] is not None for record in found}
    if len(known) > 1:
        first = next(record for record in found if record["strength"] is None)
        raise InputError(f"{first['place']} has no 'strength' and others have; give it everywhere or nowhere.")
    return found


def read_candidates(path: Path) -> list[dict[str, Any]]:
    """Read requests with candidates: ``responses``, a list, or ``chosen`` and ``rejected``.

    Args:
        path: JSON Lines, a JSON list, CSV or Parquet.

    Returns:
        Records with prompt, responses and `pair`, true where the first response is known to be the better one.

    Raises:
        InputError: It names the row and what is wrong with it.
    """
    found = []
    for place, row in read_rows(path):
        text_of(row, "prompt", place)
        pair = row.get("responses") is None and row.get("chosen") is not None and row.get("rejected") is not None
        if pair:
            responses = [_part(row, name, place) for name in ("chosen", "rejected") if text_of(row, name, place)]
        else:
            listed = cell(row, "responses", place)
            if not isinstance(listed, list) or not listed:
                raise InputError(f"{place} has responses that are no list of texts; give one response or more.")
            numbered = {f"response {number}": value for number, value in enumerate(listed, 1)}
            responses = [_part(numbered, name, place) for name in numbered if text_of(numbered, name, place)]
        found.append({"prompt": _part(row, "prompt", place), "responses": responses, "pair": pair})
    return found


def judge_rows(
    records: Sequence[Mapping[str, Any]], prompt: JudgePrompt, *, passes: int = 1, seed: int | None = None
) -> list[dict[str, Any]]:
    """Return the rows that :class:`IRPMTrainer` takes: two judge prompts a pair, one after the other.

    Args:
        records: n records with prompt, chosen, rejected and, where known, strength (2, no margin, elsewhere).
        prompt: How judge prompts are made.
        passes: How often every pair comes, each time with a pair id of its own.
        seed: Of the order of the pairs in each pass; None keeps theirs.

    Returns:
        2 * n * passes rows with prompt, pair_id, role (0 chosen, 1 rejected) and strength.
    """
    rng = None if seed is None else np.random.default_rng([seed, 7])
    rows = []
    for number in range(passes):
        order = np.arange(len(records)) if rng is None else rng.permutation(len(records))
        for place in order.tolist():
            record = records[place]
            strength = record.get("strength")
            for role, side in ((CHOSEN, "chosen"), (REJECTED, "rejected")):
                rows.append({
                    "prompt": prompt.render(record["prompt"], record[side]),
                    "pair_id": number * len(records) + place,
                    "role": role,
                    "strength": NEUTRAL if strength is None else float(strength),
                })  # fmt: skip
    return rows


def _part(row: Mapping[str, Any], name: str, place: str) -> Any:
    value = cell(row, name, place)
    return value if isinstance(value, str) else messages(value, name, place)


def _strength(row: Mapping[str, Any], place: str) -> float | None:
    value = row.get("strength")
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 100:
        raise InputError(f"{place} has strength {value!r}; give a number such as 1, 2 or 3.")
    return float(value)
