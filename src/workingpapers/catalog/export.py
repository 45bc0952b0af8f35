"""Records out: BibTeX, CSL-JSON, JSON lines and CSV, written one record at a time."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterable
from dataclasses import asdict
from typing import IO, Any

from workingpapers.catalog.formats import bibtex, csl_json
from workingpapers.catalog.records import Record
from workingpapers.catalog.text import fold

FORMATS = ("bibtex", "csl-json", "jsonl", "csv")
COLUMNS = (
    "title",
    "authors",
    "authors_complete",
    "topic",
    "abstract",
    "year",
    "venue",
    "doi",
    "arxiv",
    "openreview",
    "url",
    "keywords",
    "slug",
)


def write(records: Iterable[Record], form: str, stream: IO[Any]) -> int:
    """Write `records` in the format `form` and return their number."""
    return {"bibtex": _bibtex, "csl-json": _csl_json, "jsonl": _jsonl, "csv": _csv}[form](records, stream)


def citation_key(record: Record, taken: set[str]) -> str:
    """Return a key such as ``mohebbi2026crda`` that is not in `taken`, and put it there."""
    author = record.authors[0].split()[-1] if record.authors else "anonymous"
    words = [word for word in re.findall(r"[a-z0-9]+", fold(record.title or record.abstract)) if len(word) > 3]
    base = re.sub(r"[^a-z0-9]", "", fold(author)) + str(record.year or "") + (words[0] if words else "")
    base = base or "record"
    key, count = base, 1
    while key in taken:
        count += 1
        key = f"{base}-{count}"
    taken.add(key)
    return key


def _bibtex(records: Iterable[Record], stream: IO[Any]) -> int:
    taken: set[str] = set()
    for record in records:
        stream.write(bibtex.to_entry(record, citation_key(record, taken)) + "\n")
    return len(taken)


def _csl_json(records: Iterable[Record], stream: IO[Any]) -> int:
    taken: set[str] = set()
    stream.write("[")
    for record in records:
        stream.write(",\n" if taken else "\n")
        json.dump(csl_json.to_item(record, citation_key(record, taken)), stream, ensure_ascii=False)
    stream.write("\n]\n")
    return len(taken)


def _jsonl(records: Iterable[Record], stream: IO[Any]) -> int:
    count = 0
    for count, record in enumerate(records, 1):  # noqa: B007
        values = {name: value for name, value in asdict(record).items() if value or name == "authors_complete"}
        stream.write(json.dumps(values, ensure_ascii=False) + "\n")
    return count


def _csv(records: Iterable[Record], stream: IO[Any]) -> int:
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(COLUMNS)
    count = 0
    for count, record in enumerate(records, 1):  # noqa: B007
        values = {**asdict(record), "authors": "; ".join(record.authors), "keywords": "; ".join(record.keywords)}
        writer.writerow(["" if values[name] is None else values[name] for name in COLUMNS])
    return count
