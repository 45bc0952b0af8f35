"""CSV with a header line: title, authors, abstract, topic, year, venue, doi, arxiv, url, keywords, in any order."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from typing import TextIO

from workingpapers.catalog.entries import Entry, Rejected
from workingpapers.catalog.records import Record, clean_arxiv, clean_doi

_NAMES = {
    "title": ("title", "paper", "paper title", "name"),
    "authors": ("authors", "author", "author names"),
    "abstract": ("abstract", "summary"),
    "topic": ("topic", "area", "category", "categories", "track", "primary area"),
    "year": ("year", "date"),
    "venue": ("venue", "conference", "journal", "booktitle"),
    "doi": ("doi",),
    "arxiv": ("arxiv", "arxiv id", "arxiv_id"),
    "openreview": ("openreview", "openreview id", "forum"),
    "url": ("url", "link", "pdf"),
    "keywords": ("keywords", "tags"),
    "authors_complete": ("authors_complete",),
}


def recognises(head: str) -> bool:
    """Whether the first line is a header with a title or an abstract column."""
    first = head.lstrip().split("\n", 1)[0]
    columns = _columns(next(csv.reader([first], delimiter=_delimiter(first)), []))
    return len(first) < 2000 and len(first.split(_delimiter(first))) > 1 and bool({"title", "abstract"} & set(columns))


def read(stream: TextIO) -> Iterator[Entry]:
    """Yield a record for each row; a row with another number of cells, or without title and abstract, is rejected."""
    csv.field_size_limit(1 << 24)
    first = stream.readline()
    delimiter = _delimiter(first)
    header = next(csv.reader([first], delimiter=delimiter))
    columns = _columns(header)
    reader = csv.reader(stream, delimiter=delimiter)
    line = 2
    while True:
        try:
            row = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            yield Rejected(line, f"not CSV: {error}")
            line = reader.line_num + 2
            continue
        start, line = line, reader.line_num + 2
        if not any(cell.strip() for cell in row):
            continue
        if len(row) != len(header):
            yield Rejected(start, f"{len(row)} cells, but the header has {len(header)}")
            continue
        values = {name: row[index].strip() for name, index in columns.items()}
        if not values.get("title") and not values.get("abstract"):
            yield Rejected(start, "a row without title and abstract")
            continue
        yield _record(values)


def _record(values: dict[str, str]) -> Record:
    names = values.get("authors", "")
    split = re.split(r"\s*;\s*|\s+and\s+" if ";" in names or " and " in names else r"\s*,\s*", names)
    complete = values.get("authors_complete", "").casefold() not in ("false", "0", "no")
    year = re.search(r"\b(19|20)\d\d\b", values.get("year", ""))
    return Record(
        title=values.get("title", ""),
        authors=tuple(name for name in split if name),
        authors_complete=complete,
        topic=values.get("topic", ""),
        abstract=values.get("abstract", ""),
        year=int(year.group()) if year else None,
        venue=values.get("venue", ""),
        doi=clean_doi(values.get("doi", "")),
        arxiv=clean_arxiv(values.get("arxiv", "") or (values["url"] if "arxiv.org" in values.get("url", "") else "")),
        openreview=values.get("openreview", ""),
        url=values.get("url", ""),
        keywords=tuple(word for word in re.split(r"\s*[;,]\s*", values.get("keywords", "")) if word),
    )


def _delimiter(first: str) -> str:
    return max(",;\t", key=first.count)


def _columns(header: list[str]) -> dict[str, int]:
    folded = [name.strip().strip("\ufeff").casefold() for name in header]
    return {
        field: next(folded.index(name) for name in names if name in folded)
        for field, names in _NAMES.items()
        if any(name in folded for name in names)
    }
