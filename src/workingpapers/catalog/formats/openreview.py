"""OpenReview notes: the JSON of its interface, version 1 (plain content) or 2 (values wrapped)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, TextIO

from workingpapers.catalog.entries import Entry, Rejected
from workingpapers.catalog.formats.json_stream import elements, text_of
from workingpapers.catalog.records import Record


def recognises(head: str) -> bool:
    """Whether the text is an object of ``notes`` or an array of notes, which have ``content``."""
    start = head.lstrip()
    return (start[:1] == "{" and re.match(r'\{[^{\[]*"notes"\s*:', start) is not None) or (
        start[:1] == "[" and '"content"' in head and ('"forum"' in head or '"invitation' in head)
    )


def read(stream: TextIO) -> Iterator[Entry]:
    """Yield a record for each note with a title; reviews and comments, which have none, are rejected blocks."""
    for line, note in elements(stream.read(), "notes"):
        content = note.get("content") if isinstance(note, dict) else None
        if not isinstance(content, dict):
            yield Rejected(line, "a note without content")
            continue
        if not text_of(content.get("title")) or not (content.get("authors") or content.get("abstract")):
            yield Rejected(line, "a note without title, authors and abstract (a review or a comment)")
            continue
        yield _record(note, content)


def _record(note: dict[str, Any], content: dict[str, Any]) -> Record:
    forum = text_of(note.get("forum") or note.get("id"))
    venue = text_of(content.get("venue"))
    year = re.search(r"\b(19|20)\d\d\b", venue)
    return Record(
        title=text_of(content.get("title")),
        authors=_list(content.get("authors")),
        abstract=text_of(content.get("abstract")),
        keywords=_list(content.get("keywords")),
        topic=text_of(content.get("primary_area") or content.get("subject_areas"))
        .replace("->", " · ")
        .replace("_", " "),
        venue=re.sub(r"\s*\b(19|20)\d\d\b\s*", " ", venue).strip(),
        year=int(year.group()) if year else None,
        openreview=forum,
        url=f"https://openreview.net/forum?id={forum}" if forum else "",
    )


def _list(value: Any) -> tuple[str, ...]:
    if isinstance(value, dict):
        value = value.get("value")
    if isinstance(value, str):
        value = value.split(",")
    return tuple(text for item in value or () if (text := text_of(item).strip()))
