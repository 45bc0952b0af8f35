"""Preferences, prompts and pools of responses as files hold them: JSON Lines, JSON, CSV or Parquet."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from workingpapers.foundations.conversations import Prompt, cell, messages, plain_text, read_rows, text_of
from workingpapers.foundations.errors import InputError

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
        values = {name: text_of(row, name, place) for name in ("prompt", "chosen", "rejected")}
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
        text = text_of(row, "prompt", place)
        value = row["prompt"]
        found.setdefault(text, value if isinstance(value, str) else messages(value, "prompt", place))
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
        prompt = text_of(row, "prompt", place)
        candidates = cell(row, "candidates", place)
        if not isinstance(candidates, list) or not all(isinstance(text, str) for text in candidates):
            raise InputError(f"{place} has candidates of another kind than a list of texts; give such a list.")
        found.setdefault(prompt, []).extend(candidates)
    return found


def text_to_embed(prompt: Prompt, response: str) -> str:
    """Return what the encoder sees: the end of the prompt, then the response.

    Args:
        prompt: Text, or messages.
        response: Text.
    """
    words = plain_text(prompt).split()
    return f"{' '.join(words[-PROMPT_WORDS:])}\n\n{response}"
