"""CSL-JSON: the citation format of Zotero, Crossref and pandoc, in and out."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, TextIO

from workingpapers.catalog.entries import Entry, Rejected
from workingpapers.catalog.formats.json_stream import elements, text_of
from workingpapers.catalog.records import Record, clean_arxiv, clean_doi


def recognises(head: str) -> bool:
    """Whether the text begins with an array of items, or an object of ``items``."""
    start = head.lstrip()
    return start[:1] == "[" or (start[:1] == "{" and re.match(r'\{\s*"items"\s*:', start) is not None)


def read(stream: TextIO) -> Iterator[Entry]:
    """Yield a record for each item that has a title or an abstract."""
    for line, item in elements(stream.read(), "items"):
        if not isinstance(item, dict):
            yield Rejected(line, f"not an object: {str(item)[:40]!r}")
            continue
        record = from_item(item)
        yield record if record.title or record.abstract else Rejected(line, "an item without title and abstract")


def from_item(item: dict[str, Any]) -> Record:
    """Return the record of one CSL item."""
    names = [_name(author) for author in item.get("author") or [] if isinstance(author, dict)]
    parts = (item.get("issued") or {}).get("date-parts") or [[None]]
    year = parts[0][0] if parts and parts[0] else None
    url = text_of(item.get("URL"))
    keyword = text_of(item.get("keyword"))
    number = text_of(item.get("number"))
    return Record(
        title=text_of(item.get("title")),
        authors=tuple(name for name in names if name and name != "others"),
        authors_complete="others" not in names,
        abstract=text_of(item.get("abstract")),
        year=int(str(year)) if str(year).isdigit() else None,
        venue=text_of(item.get("container-title")),
        doi=clean_doi(text_of(item.get("DOI"))),
        arxiv=clean_arxiv(url if "arxiv.org" in url else number if "arxiv" in number.lower() else ""),
        url=url,
        topic=text_of(item.get("section")),
        keywords=tuple(word.strip() for word in re.split(r"[;,]", keyword) if word.strip()),
    )


def to_item(record: Record, key: str) -> dict[str, Any]:
    """Return the CSL item of a record; empty fields are left out."""
    authors = [{"literal": name} for name in record.authors]
    if authors and not record.authors_complete:
        authors.append({"literal": "others"})
    item: dict[str, Any] = {
        "id": key,
        "type": "paper-conference" if record.venue else "article",
        "title": record.title,
        "author": authors,
        "abstract": record.abstract,
        "container-title": record.venue,
        "issued": {"date-parts": [[record.year]]} if record.year else None,
        "DOI": record.doi,
        "URL": record.url or (f"https://arxiv.org/abs/{record.arxiv}" if record.arxiv else ""),
        "number": f"arXiv:{record.arxiv}" if record.arxiv else "",
        "section": record.topic,
        "keyword": ", ".join(record.keywords),
    }
    return {name: value for name, value in item.items() if value}


def _name(author: dict[str, Any]) -> str:
    if author.get("literal"):
        return text_of(author["literal"])
    parts = (author.get("given"), author.get("non-dropping-particle"), author.get("family"), author.get("suffix"))
    return " ".join(text_of(part) for part in parts if part)
