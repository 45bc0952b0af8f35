"""Prompts and completions from a JSON Lines file, checked line by line before any training."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from workingpapers.foundations.errors import InputError, near_match
from workingpapers.foundations.files import read_text

COLUMNS = ("prompt", "completion")


def read_records(path: Path) -> list[dict[str, Any]]:
    """Return the records of a JSON Lines file in TRL's prompt-completion format, as texts or as lists of messages.

    Args:
        path: One JSON object a line; n lines give n records.

    Raises:
        InputError: A line is no object, lacks a column, or has an empty prompt or completion; it is named.
    """
    records: list[dict[str, Any]] = []
    for number, line in enumerate(read_text(path).splitlines(), 1):
        if line.strip():
            records.append(_record(line, f"Line {number} of {str(path)!r}"))
    if not records:
        raise InputError(f"{str(path)!r} holds no records; give one JSON object a line.")
    if len({_conversational(record) for record in records}) > 1:
        raise InputError(f"{str(path)!r} mixes texts and lists of messages; use one form.")
    return records


def check_lengths(records: list[dict[str, Any]], tokenizer: Any, model: Any, name: str) -> int:
    """Return the length of the longest record in tokens.

    Args:
        records: n records of :func:`read_records`.
        tokenizer: Of the model.
        model: A causal language model.
        name: How messages name it.

    Raises:
        InputError: A record is longer than the model reads, or has messages and the tokenizer no chat template.
    """
    if _conversational(records[0]) and not tokenizer.chat_template:
        raise InputError(f"The records are lists of messages and the tokenizer of {name!r} has no chat template; "
                         "give prompts and completions as texts.")  # fmt: skip
    longest, limit = 0, getattr(model.config, "max_position_embeddings", None)
    for number, record in enumerate(records, 1):
        length = len(_tokens(record, tokenizer))
        if limit and length > limit:
            raise InputError(f"Record {number} has {length} tokens and {name!r} reads {limit}; shorten it.")
        longest = max(longest, length)
    return longest


def _record(line: str, where: str) -> dict[str, Any]:
    try:
        found = json.loads(line)
    except ValueError:
        raise InputError(f"{where} is not JSON; give one JSON object a line.") from None
    if not isinstance(found, dict):
        raise InputError(f"{where} is no JSON object; give one with prompt and completion.")
    for column in COLUMNS:
        if column not in found:
            hint = near_match(column, [str(key) for key in found]) or "; TRL's prompt-completion format is needed."
            raise InputError(f"{where} has no column {column!r}{hint}")
        value = found[column]
        texts = [value] if isinstance(value, str) else _contents(value, column, where)
        if not texts or not all(text.strip() for text in texts):
            raise InputError(f"{where} has an empty {column}; leave the line out or fill it.")
    if _conversational(found) != isinstance(found["completion"], list):
        raise InputError(f"{where} has a text and a list of messages; use one form for both columns.")
    return {column: found[column] for column in COLUMNS}


def _contents(value: Any, column: str, where: str) -> list[str]:
    right = isinstance(value, list) and all(
        isinstance(item, dict) and isinstance(item.get("role"), str) and isinstance(item.get("content"), str)
        for item in value
    )
    if not right:
        raise InputError(f"{where} has a {column} that is neither a text nor a list of messages with role and content.")
    return [item["content"] for item in value]


def _conversational(record: dict[str, Any]) -> bool:
    return isinstance(record["prompt"], list)


def _tokens(record: dict[str, Any], tokenizer: Any) -> list[int]:
    if _conversational(record):
        text = tokenizer.apply_chat_template(record["prompt"] + record["completion"], tokenize=False)
        return list(tokenizer(text, add_special_tokens=False)["input_ids"])
    # The end mark that the trainer adds counts too.
    return [*tokenizer(record["prompt"] + record["completion"])["input_ids"], tokenizer.eos_token_id]
