"""BibTeX in and out; pybtex reads entry by entry, so that one broken entry does not cost the others."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TextIO

from workingpapers.catalog.entries import Entry, Rejected
from workingpapers.catalog.records import Record, clean_arxiv, clean_doi

_ENTRY = re.compile(r"^\s*@\s*(\w+)\s*[{(]", re.MULTILINE)
_NOT_PAPERS = {"comment", "preamble", "string"}


def recognises(head: str) -> bool:
    """Whether an entry begins somewhere near the start."""
    return _ENTRY.search(head) is not None


def read(stream: TextIO) -> Iterator[Entry]:
    """Yield a record for each entry; what pybtex refuses, or has neither title nor abstract, is a rejected block."""
    from pybtex.database import parse_string
    from pybtex.exceptions import PybtexError

    text = stream.read()
    starts = list(_ENTRY.finditer(text))
    macros = "".join(
        text[match.start() : (starts[index + 1].start() if index + 1 < len(starts) else len(text))]
        for index, match in enumerate(starts)
        if match.group(1).lower() == "string"
    )
    counted, line = 0, 1
    for index, match in enumerate(starts):
        begin = match.start() + len(match.group()) - len(match.group().lstrip())
        line += text.count("\n", counted, begin)
        counted = begin
        if match.group(1).lower() in _NOT_PAPERS:
            continue
        end = starts[index + 1].start() if index + 1 < len(starts) else len(text)
        try:
            entries = parse_string(macros + text[begin:end], "bibtex").entries
            record = _record(next(iter(entries.values())))
        except (PybtexError, StopIteration) as error:
            yield Rejected(line, f"not BibTeX: {' '.join(str(error).split())[:100] or 'no entry'}")
            continue
        yield record if record.title or record.abstract else Rejected(line, "an entry without title and abstract")


def to_entry(record: Record, key: str) -> str:
    """Return the BibTeX entry of a record; empty fields are left out."""
    names = [*record.authors, *([] if record.authors_complete or not record.authors else ["others"])]
    fields = {
        "title": _escape(record.title),
        "author": " and ".join(f"{{{_escape(name)}}}" if " and " in name else _escape(name) for name in names),
        "booktitle": _escape(record.venue),
        "year": str(record.year or ""),
        "doi": record.doi,
        "eprint": record.arxiv,
        "archiveprefix": "arXiv" if record.arxiv else "",
        "url": record.url,
        "keywords": _escape(", ".join(record.keywords)),
        "topic": _escape(record.topic),
        "abstract": _balanced(record.abstract),
    }
    lines = [f"  {name} = {{{value}}}" for name, value in fields.items() if value]
    kind = "inproceedings" if record.venue else "misc"
    return f"@{kind}{{{key},\n" + ",\n".join(lines) + "\n}\n"


def _record(entry: object) -> Record:
    from pylatexenc.latex2text import LatexNodes2Text

    fields = entry.fields  # type: ignore[attr-defined]
    to_text = LatexNodes2Text(math_mode="verbatim", strict_latex_spaces=True)

    def field(*names: str, decode: bool = True) -> str:
        value = next((fields[name] for name in names if fields.get(name)), "")
        value = " ".join(value.split())
        return to_text.latex_to_text(value).strip() if decode and ("\\" in value or "{" in value) else value

    people = entry.persons.get("author", [])  # type: ignore[attr-defined]
    names = [" ".join(to_text.latex_to_text(str(part)) for part in _parts(person)) for person in people]
    url = field("url", decode=False)
    eprint = field("eprint", decode=False)
    return Record(
        title=field("title"),
        authors=tuple(name for name in names if name and name != "others"),
        authors_complete="others" not in names,
        topic=field("topic"),
        abstract=field("abstract", decode=False),
        year=int(match.group()) if (match := re.search(r"\b(19|20)\d\d\b", field("year", "date"))) else None,
        venue=field("booktitle", "journal"),
        doi=clean_doi(field("doi", decode=False)),
        arxiv=clean_arxiv(eprint or (url if "arxiv.org" in url else "")),
        url=url,
        keywords=tuple(word for word in re.split(r"\s*[;,]\s*", field("keywords")) if word),
    )


def _parts(person: object) -> Iterator[str]:
    for group in ("first_names", "middle_names", "prelast_names", "last_names", "lineage_names"):
        yield from getattr(person, group)


def _escape(text: str) -> str:
    return re.sub(r"(?<!\\)([&%#])", r"\\\1", _balanced(text))


def _balanced(text: str) -> str:
    return text if text.count("{") == text.count("}") else text.replace("{", "(").replace("}", ")")
