"""arXiv metadata: JSON lines as arXiv publishes its snapshot, or this library's own export of records."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, TextIO

from workingpapers.catalog.entries import Entry, Rejected
from workingpapers.catalog.formats.json_stream import text_of
from workingpapers.catalog.records import Record, clean_arxiv, clean_doi


def recognises(head: str) -> bool:
    """Whether the first line is a JSON object with a title or an abstract."""
    first = head.lstrip().split("\n", 1)[0]
    return first[:1] == "{" and re.search(r'"(title|abstract)"\s*:', first) is not None


def read(stream: TextIO) -> Iterator[Entry]:
    """Yield a record for each line; a line that is not such an object is a rejected block."""
    for number, line in enumerate(stream, 1):
        if not line.strip():
            continue
        try:
            item = json.loads(line)
        except ValueError as error:
            yield Rejected(number, f"not JSON: {getattr(error, 'msg', str(error)).lower()}")
            continue
        if not isinstance(item, dict) or not (item.get("title") or item.get("abstract")):
            yield Rejected(number, "an object without title and abstract")
            continue
        yield from_item(item)


def from_item(item: dict[str, Any]) -> Record:
    """Return the record of one metadata object."""
    listed = item.get("authors_parsed")
    authors: tuple[str, ...]
    if listed:
        authors = tuple(" ".join(part for part in (name[1], name[0], *name[2:3]) if part) for name in listed)
    else:
        authors = _names(item.get("authors") or item.get("author") or "")
    identifier = clean_arxiv(text_of(item.get("arxiv") or item.get("id")))
    year = text_of(item.get("year") or item.get("update_date") or item.get("published"))[:4]
    keywords = item.get("keywords") or []
    return Record(
        title=text_of(item.get("title")),
        authors=authors,
        authors_complete=bool(item.get("authors_complete", True)),
        topic=text_of(item.get("topic") or item.get("categories")),
        abstract=text_of(item.get("abstract")),
        year=int(year) if year.isdigit() else None,
        venue=text_of(item.get("venue") or item.get("journal-ref")),
        doi=clean_doi(text_of(item.get("doi"))),
        arxiv=identifier,
        openreview=text_of(item.get("openreview")),
        url=text_of(item.get("url")) or (f"https://arxiv.org/abs/{identifier}" if identifier else ""),
        keywords=tuple(map(str, keywords)) if isinstance(keywords, list) else (),
    )


def _names(value: Any) -> tuple[str, ...]:
    if isinstance(value, list):
        return tuple(text_of(name) for name in value if text_of(name))
    return tuple(name.strip() for name in re.split(r",(?:\s*and)?\s|\s+and\s", text_of(value)) if name.strip())
