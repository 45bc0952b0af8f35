"""Result pages of the paper search: blocks of topic line, authors line and abstract, separated by blank lines.

The topic line may be missing, a long list of authors ends in 等, the page may open with its own heading (论文检索).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise
from typing import TextIO

from workingpapers.catalog.entries import Entry, Rejected
from workingpapers.catalog.records import Record

TOPIC = re.compile(r"[^·.]{2,80} · [^·.]{2,80}")
HEADINGS = ("论文检索", "paper search")
SHORTEST_ABSTRACT = 120
_CUT = re.compile(r"[\s,,]*(?:等|et al\.?)\s*$")


def recognises(head: str) -> bool:
    """Whether the text holds a block of this form: an authors line, then a long paragraph."""
    lines = [line.strip() for line in head.splitlines() if line.strip()]
    return any(_is_authors(first) and len(second) >= SHORTEST_ABSTRACT for first, second in pairwise(lines))


def read(stream: TextIO) -> Iterator[Entry]:
    """Yield a record for each abstract, with the authors and topic lines before it."""
    topic, authors = "", ""
    topic_line = authors_line = 0
    for number, raw in enumerate(stream, 1):
        line = raw.strip()
        if not line or line.casefold() in HEADINGS:
            continue
        if TOPIC.fullmatch(line):
            yield from _dangling(topic if not authors else "", topic_line, authors, authors_line)
            topic, topic_line, authors = line, number, ""
        elif len(line) >= SHORTEST_ABSTRACT and not _is_authors(line):
            if authors:
                names, complete = split_authors(authors)
                yield Record(authors=names, authors_complete=complete, topic=topic, abstract=line)
            else:
                yield Rejected(number, "an abstract without a line of authors before it")
            topic, authors = "", ""
        elif _is_authors(line):
            yield from _dangling("", 0, authors, authors_line)
            if authors:
                topic = ""
            authors, authors_line = line, number
        else:
            yield Rejected(number, f"neither topic, authors nor abstract: {line[:40]!r}")
            topic, authors = "", ""
    yield from _dangling(topic if not authors else "", topic_line, authors, authors_line)


def split_authors(line: str) -> tuple[tuple[str, ...], bool]:
    """Return the names of an authors line, and whether the list is complete."""
    complete = not _CUT.search(line)
    names = [name.strip() for name in re.split(r"[,,、;]", _CUT.sub("", line))]
    return tuple(name for name in names if name), complete


def _dangling(topic: str, topic_line: int, authors: str, authors_line: int) -> Iterator[Rejected]:
    if topic:
        yield Rejected(topic_line, "a topic line without authors and abstract after it")
    if authors:
        yield Rejected(authors_line, "a line of authors without an abstract after it")


def _is_authors(line: str) -> bool:
    if TOPIC.fullmatch(line) or line.casefold() in HEADINGS:
        return False
    names, _ = split_authors(line)
    # A sentence has long pieces between its commas and ends in a stop; names have at most six words.
    return (
        bool(names)
        and all(1 <= len(name.split()) <= 6 and len(name) <= 60 and any(map(str.isalpha, name)) for name in names)
        and (len(names) > 1 or len(names[0].split()) >= 2 or not names[0].isascii())
        and not re.search(r"(?<!\b\w)[.!?::。]$", line.replace(" Jr.", ""))
    )
