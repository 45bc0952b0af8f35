"""What models must reply, as schemas, and reading it out of their text."""

from __future__ import annotations

import json
import re
from typing import Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator


class Message(BaseModel):
    """A reply in JSON; unknown fields are left aside."""

    model_config = ConfigDict(extra="ignore")

    @field_validator("*", mode="before")
    @classmethod
    def _joined(cls, value: Any) -> Any:
        """Lists of sentences become one text, null becomes an empty one."""
        if isinstance(value, list):
            return "\n".join(str(item) for item in value)
        return "" if value is None else value


class Check(Message):
    """Self-check of a question or an answer."""

    verdict: Literal["pass", "fail"]
    ill_posed: bool = False
    issues: str = ""
    improvements: str = ""


class Attack(Message):
    """A critique of an answer; every verdict but "correct" is a claim."""

    verdict: Literal["correct", "incorrect", "insufficient", "obscure"]
    notes: str = ""
    suggestions: str = ""


class Turn(Message):
    """A turn of a debate."""

    message: str
    concede: bool = False


class Verdict(Message):
    """A judge's verdict on a claim."""

    verdict: str
    confidence: int = Field(ge=1, le=5)
    reasoning: str = ""


class CritiqueVerdict(Verdict):
    """A verdict on a critique."""

    verdict: Literal[
        "claimant_wins", "defender_wins_incorrect", "defender_wins_minor", "wrong_problem", "mixed", "unknown"
    ]


class IllPosedVerdict(Verdict):
    """A verdict on the claim that a question is ill-posed."""

    verdict: Literal["claimant_wins", "defender_wins_incorrect", "wrong_problem", "mixed", "unknown"]


Schema = TypeVar("Schema", bound=Message)


class Unreadable(ValueError):
    """A reply that does not hold what was asked for."""


def read_message(text: str, schema: type[Schema]) -> Schema:
    """Return the first JSON object in `text` that fits `schema`.

    Args:
        text: A model's reply; prose and code fences around the object are allowed.
        schema: What it must be.

    Raises:
        Unreadable: There is none; the message says what is wrong with the last one.
    """
    reason = "there is no JSON object in it"
    decoder = json.JSONDecoder(strict=False)
    position = text.find("{")
    while position >= 0:
        try:
            value, end = decoder.raw_decode(text, position)
        except ValueError:
            position = text.find("{", position + 1)
            continue
        try:
            return schema.model_validate(value)
        except ValidationError as error:
            first = error.errors()[0]
            reason = f"{'.'.join(str(part) for part in first['loc']) or 'the object'}: {first['msg']}"
        position = text.find("{", end)
    raise Unreadable(reason)


def read_question(text: str) -> tuple[str, str]:
    """Return question and answer of a text with the marks [QUESTION] and [ANSWER].

    Args:
        text: An author's reply.

    Raises:
        Unreadable: A mark is missing, twice there or has nothing behind it.
    """
    parts = re.split(r"^[ \t*#]*\[(QUESTION|ANSWER)\][ \t*]*", text, flags=re.MULTILINE)
    found = {mark: body.strip() for mark, body in zip(parts[1::2], parts[2::2], strict=True)}
    if len(parts) != 5 or not found.get("QUESTION") or not found.get("ANSWER"):
        raise Unreadable("it needs the marks [QUESTION] and [ANSWER], once each, with text behind them")
    return found["QUESTION"], found["ANSWER"]
