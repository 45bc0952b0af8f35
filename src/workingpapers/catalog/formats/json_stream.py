"""JSON documents with the line of each element, so that a rejected one can be found."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from workingpapers.foundations.errors import InputError

_WHITE = " \t\n\r,"


def elements(text: str, key: str = "") -> Iterator[tuple[int, Any]]:
    """Yield (line, value) for each element of the array that `text` is, or that stands under `key` of its object.

    Raises:
        InputError: The document is not valid JSON or holds no such array; nothing can be trusted after that place.
    """
    decoder = json.JSONDecoder()
    try:
        if text.lstrip()[:1] == "[":
            position = text.index("[") + 1
        else:
            document = decoder.decode(text)
            values = document.get(key) if isinstance(document, dict) else None
            if not isinstance(values, list):
                raise InputError(f"The JSON document has no array {key!r}; export it again.")
            position = text.index("[", text.index(json.dumps(key))) + 1
        line, counted = 1, 0
        while True:
            while position < len(text) and text[position] in _WHITE:
                position += 1
            if position >= len(text):
                raise InputError(f"The JSON document breaks off in line {1 + text.count(chr(10))}; fetch it again.")
            if text[position] == "]":
                return
            line += text.count("\n", counted, position)
            counted = position
            value, position = decoder.raw_decode(text, position)
            yield line, value
    except json.JSONDecodeError as error:
        raise InputError(f"The JSON document is broken in line {error.lineno}: {error.msg.lower()}.") from None


def text_of(value: Any) -> str:
    """Return a JSON value as one line of text; OpenReview wraps it as ``{"value": ...}``, None is empty."""
    if isinstance(value, dict) and "value" in value:
        value = value["value"]
    if not isinstance(value, str):
        return str(value) if isinstance(value, int | float) else ""
    if "\n" in value or "  " in value or "\t" in value or value[:1].isspace() or value[-1:].isspace():
        return " ".join(value.split())
    return value
