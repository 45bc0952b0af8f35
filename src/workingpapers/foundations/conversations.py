"""Prompts, preferences and conversations as files hold them: JSON Lines, JSON, CSV or Parquet.

A prompt is a text, or a list of messages with role and content, as in the formats of TRL.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from workingpapers.foundations.errors import InputError, near_match
from workingpapers.foundations.files import read_table, read_text

Message = dict[str, str]
Prompt = str | list[Message]


def read_rows(path: Path) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield where a row stands, for messages, and the row.

    Args:
        path: ``.csv``, ``.tsv`` or ``.parquet``, or else JSON Lines or one JSON list.

    Raises:
        InputError: It cannot be read so.
    """
    if path.suffix.lower() in (".csv", ".tsv", ".parquet"):
        for number, cells in enumerate(read_table(path).to_dict("records"), 1):
            named = {str(name): _plain(value) for name, value in cells.items()}
            yield f"Row {number} of {str(path)!r}", {name: value for name, value in named.items() if value is not None}
        return
    text = read_text(path)
    if text.lstrip().startswith("["):
        try:
            listed = json.loads(text)
        except ValueError as error:
            raise InputError(f"{str(path)!r} is not JSON ({error}); give JSON Lines or one list.") from None
        numbered = [(f"Entry {number} of {str(path)!r}", row) for number, row in enumerate(listed, 1)]
    else:
        numbered = [
            (f"Line {number} of {str(path)!r}", line) for number, line in enumerate(text.split("\n"), 1) if line.strip()
        ]
    for place, row in numbered:
        if isinstance(row, str):
            try:
                row = json.loads(row)
            except ValueError:
                raise InputError(f"{place} is not JSON; give one JSON object a line.") from None
        if not isinstance(row, dict):
            raise InputError(f"{place} is not a JSON object; give one with named fields.")
        yield place, row
    if not numbered:
        raise InputError(f"{str(path)!r} holds no records; name a file with some.")


def read_prompts(path: Path) -> list[Prompt]:
    """Return the prompts of a file, texts or lists of messages.

    Args:
        path: As of :func:`read_rows`, n rows with a field prompt.

    Raises:
        InputError: A record has no prompt, or an empty one; the line is named.
    """
    found: list[Prompt] = []
    for place, row in read_rows(path):
        text_of(row, "prompt", place)
        value = row["prompt"]
        found.append(value if isinstance(value, str) else messages(value, "prompt", place))
    return found


def cell(row: Mapping[str, Any], name: str, place: str) -> Any:
    """Return a field of a row that :func:`read_rows` gave.

    Args:
        row: The row.
        name: The field.
        place: Where it stands, for messages.

    Raises:
        InputError: There is no such field; near ones are named.
    """
    if row.get(name) is None:
        hint = near_match(name, [key for key in row if key != name])
        raise InputError(f"{place} has no {name!r}{hint or '; its fields are ' + ', '.join(list(row)[:8]) + '.'}")
    return row[name]


def text_of(row: Mapping[str, Any], name: str, place: str) -> str:
    """Return a field as a text; messages one below another.

    Args:
        row: The row.
        name: The field.
        place: Where it stands, for messages.

    Raises:
        InputError: The field is missing, empty or of another kind.
    """
    value = cell(row, name, place)
    text = value if isinstance(value, str) else plain_text(messages(value, name, place))
    if not text.strip():
        raise InputError(f"{place} has an empty {name}; give a text or leave the record out.")
    return text


def messages(value: Any, name: str, place: str) -> list[Message]:
    """Return a value as a list of messages with role and content alone.

    Args:
        value: What should be one.
        name: Its field.
        place: Where it stands, for messages.

    Raises:
        InputError: It is no such list.
    """
    if isinstance(value, Sequence) and not isinstance(value, str) and value:
        read = [
            {"role": message["role"], "content": message["content"]}
            for message in value
            if isinstance(message, Mapping)
            and isinstance(message.get("role"), str)
            and isinstance(message.get("content"), str)
        ]
        if len(read) == len(value):
            return read
    raise InputError(
        f"{place} has a {name} that is neither a text nor a list of messages with role and content; give one of them."
    )


def plain_text(value: Prompt) -> str:
    """Return a prompt or response as one text; the turns of a conversation one below another.

    Args:
        value: Text, or messages.
    """
    if isinstance(value, str):
        return value
    if len(value) == 1:
        return value[0]["content"]
    return "\n\n".join(f"{message['role']}: {message['content']}" for message in value)


def reply_like(prompt: Prompt, response: str) -> Prompt:
    """Return a response in the kind of its prompt: text to text, a message to messages.

    Args:
        prompt: Text, or messages.
        response: Text.
    """
    return response if isinstance(prompt, str) else [{"role": "assistant", "content": response}]


def _plain(value: Any) -> Any:
    """Return a cell of a table as JSON would hold it: arrays as lists, gaps as None."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    return None if isinstance(value, float) and value != value else value
