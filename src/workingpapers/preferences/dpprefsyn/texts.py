"""Preferences, prompts and pools of responses as files hold them: JSON Lines, JSON, CSV or Parquet."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from workingpapers.foundations.errors import InputError, near_match
from workingpapers.foundations.files import read_table, read_text

Message = dict[str, str]
Prompt = str | list[Message]
PROMPT_WORDS = 100  # of a prompt, its last ones: encoders cut long texts, and the response must not be what is lost


@dataclass(frozen=True)
class Preference:
    """One private record.

    Args:
        prompt: Text of the prompt.
        chosen: Text of the preferred response.
        rejected: Text of the other.
    """

    prompt: str
    chosen: str
    rejected: str


def read_preferences(path: Path) -> list[Preference]:
    """Return the records of a file in the Hugging Face preference format.

    Args:
        path: Columns prompt, chosen and rejected: texts, or lists of messages with role and content.

    Raises:
        InputError: A column is missing, or a text is empty or of another kind; the line is named.
    """
    found = []
    for place, row in read_rows(path):
        values = {name: _text_of(row, name, place) for name in ("prompt", "chosen", "rejected")}
        found.append(Preference(**values))
    return found


def read_prompts(path: Path) -> list[Prompt]:
    """Return the public prompts of a file: a column prompt of texts or of lists of messages, each prompt once.

    Args:
        path: The file.

    Raises:
        InputError: As for :func:`read_preferences`.
    """
    found: dict[str, Prompt] = {}
    for place, row in read_rows(path):
        text = _text_of(row, "prompt", place)
        value = row["prompt"]
        found.setdefault(text, value if isinstance(value, str) else _messages(value, "prompt", place))
    return list(found.values())


def read_pool(path: Path) -> dict[str, list[str]]:
    """Return the responses of a pool by the text of their prompt.

    Args:
        path: Columns prompt and candidates (a list of texts); lines with the same prompt add up.

    Raises:
        InputError: A column is missing or candidates is no list of texts; the line is named.
    """
    found: dict[str, list[str]] = {}
    for place, row in read_rows(path):
        prompt = _text_of(row, "prompt", place)
        candidates = _cell(row, "candidates", place)
        if not isinstance(candidates, list) or not all(isinstance(text, str) for text in candidates):
            raise InputError(f"{place} has candidates of another kind than a list of texts; give such a list.")
        found.setdefault(prompt, []).extend(candidates)
    return found


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


def text_to_embed(prompt: Prompt, response: str) -> str:
    """Return what the encoder sees: the end of the prompt, then the response.

    Args:
        prompt: Text, or messages.
        response: Text.
    """
    words = plain_text(prompt).split()
    return f"{' '.join(words[-PROMPT_WORDS:])}\n\n{response}"


def reply_like(prompt: Prompt, response: str) -> Prompt:
    """Return a response in the kind of its prompt: text to text, a message to messages.

    Args:
        prompt: Text, or messages.
        response: Text.
    """
    return response if isinstance(prompt, str) else [{"role": "assistant", "content": response}]


def _cell(row: Mapping[str, Any], name: str, place: str) -> Any:
    if row.get(name) is None:
        hint = near_match(name, [key for key in row if key != name])
        raise InputError(f"{place} has no {name!r}{hint or '; its fields are ' + ', '.join(list(row)[:8]) + '.'}")
    return row[name]


def _text_of(row: Mapping[str, Any], name: str, place: str) -> str:
    value = _cell(row, name, place)
    text = value if isinstance(value, str) else plain_text(_messages(value, name, place))
    if not text.strip():
        raise InputError(f"{place} has an empty {name}; give a text or leave the record out.")
    return text


def _messages(value: Any, name: str, place: str) -> list[Message]:
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


def _plain(value: Any) -> Any:
    """Return a cell of a table as JSON would hold it: arrays as lists, gaps as None."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    return None if isinstance(value, float) and value != value else value
