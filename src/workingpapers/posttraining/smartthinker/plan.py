"""What decides a run of the command, what its folder holds of it, and the prompts that it reads."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from workingpapers.foundations.conversations import messages, read_rows, text_of
from workingpapers.foundations.errors import InputError

BEFORE, MODEL = "before.json", "model"
COLUMNS = ("answer", "solution")


@dataclass(frozen=True)
class Plan:
    """All that decides a run but the data; the arguments of the command."""

    model: str
    program: str | None
    function: str
    pattern: str
    learning_rate: float
    max_steps: int
    prompts_per_step: int
    generations: int
    batch_size: int
    max_tokens: int
    temperature: float
    lora_rank: int
    held_out: int
    save_every: int
    seed: int


def read_prompts(path: Path, pattern: str | None) -> list[dict[str, Any]]:
    """Return the records of a file: prompt, answer (a column answer or solution), the other columns, and its place.

    Args:
        path: JSON Lines, JSON, CSV or Parquet with a prompt a record, a text or a list of messages.
        pattern: Regular expression that must find something in every answer; None where a program judges, which may
            need no answer.

    Raises:
        InputError: It names the record and what is wrong with it.
    """
    rows = [(place, dict(row)) for place, row in read_rows(path)]
    kinds: set[bool] = set()
    finder = compiled(pattern) if pattern is not None else None
    for place, row in rows:
        text_of(row, "prompt", place)
        if not isinstance(row["prompt"], str):
            row["prompt"] = messages(row["prompt"], "prompt", place)
        kinds.add(isinstance(row["prompt"], str))
        if len(kinds) > 1:
            raise InputError(f"{place} mixes texts and lists of messages; use one of them in the whole file.")
        if finder is not None:
            row["answer"] = _answer(row, place)
            if last_match(finder, row["answer"]) is None:
                raise InputError(
                    f"{place} has the answer {row['answer'][:60]!r}, in which --pattern {pattern!r} finds nothing."
                )
        row["place"] = place
    columns = set(rows[0][1])
    for place, row in rows:
        if set(row) != columns:
            name = sorted(columns ^ set(row))[0]
            raise InputError(
                f"{place} and the first record do not both have {name!r}; give all records the same fields."
            )
    return [row for _, row in rows]


def compiled(pattern: str) -> re.Pattern[str]:
    """Return the regular expression.

    Args:
        pattern: Its text.

    Raises:
        InputError: It is none.
    """
    try:
        return re.compile(pattern)
    except re.error as error:
        raise InputError(f"--pattern {pattern!r} is no regular expression ({error}).") from None


def last_match(finder: re.Pattern[str], text: str) -> str | None:
    """Return the last thing found (its first group, where there is one), numbers in one form, or None.

    Args:
        finder: Regular expression.
        text: Where to look.
    """
    found = None
    for match in finder.finditer(text):
        found = match.group(1) if finder.groups else match.group()
    if found is None:
        return None
    plain = found.strip().replace(",", "")
    try:
        return f"{float(plain):.12g}"
    except ValueError:
        return found.strip()


def by_pattern(pattern: str) -> Callable[..., list[float]]:
    """Return a reward function of TRL's kind: 1 where the last match in a completion is that of the answer.

    Args:
        pattern: Regular expression.
    """
    finder = compiled(pattern)

    def correct(completions: Sequence[Any], answer: Sequence[str], **_: Any) -> list[float]:
        texts = [one if isinstance(one, str) else one[-1]["content"] for one in completions]
        return [
            float(last_match(finder, text) == last_match(finder, truth))
            for text, truth in zip(texts, answer, strict=True)
        ]

    return correct


def _answer(row: dict[str, Any], place: str) -> str:
    for name in COLUMNS:
        value = row.get(name)
        if isinstance(value, int | float) and not isinstance(value, bool):
            return repr(value)
        if value is not None:
            return text_of(row, name, place)
    return text_of(row, COLUMNS[0], place)
