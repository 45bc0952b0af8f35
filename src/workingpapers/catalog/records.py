"""A paper's record, the keys by which two records are the same paper, and how two are merged."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

from workingpapers.catalog.text import fold, normalise, pairs

# Shorter titles ("Introduction", "Deep Learning") name many papers; they count only together with author and year.
SAFE_TITLE_WORDS = 4
SAFE_ABSTRACT_CHARACTERS = 120

# A record as a database holds it: the columns of STORED, then its CJK pairs. Lists are joined.
Row = tuple[object, ...]
STORED = (
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
    "summary",
)
SEPARATOR = "; "


@dataclass(frozen=True, slots=True)
class Record:
    """What is known of one paper; an empty field is unknown.

    Args:
        title: Title; result pages carry none.
        authors: Names as written, first author first.
        authors_complete: False where the source cut the list ("et al.", "等").
        topic: ``Area · Sub-area``.
        abstract: The abstract as the source gives it, LaTeX and Markdown included.
        year: Year of the venue, or None.
        venue: Venue's short name.
        doi: Without resolver, lower case.
        arxiv: Identifier without version.
        openreview: Forum identifier.
        url: A page about the paper.
        keywords: Terms.
        slug: The paper folder of this library that holds its method.
        summary: This library's own words about it.
    """

    title: str = ""
    authors: tuple[str, ...] = ()
    authors_complete: bool = True
    topic: str = ""
    abstract: str = ""
    year: int | None = None
    venue: str = ""
    doi: str = ""
    arxiv: str = ""
    openreview: str = ""
    url: str = ""
    keywords: tuple[str, ...] = ()
    slug: str = ""
    summary: str = ""

    @property
    def heading(self) -> str:
        """The title, or the beginning of the abstract where there is none."""
        if self.title:
            return self.title
        text = self.abstract or self.summary
        return text if len(text) <= 90 else text[:90].rsplit(" ", 1)[0] + " …"

    @property
    def byline(self) -> str:
        """The authors on one line, with *et al.* where the source cut the list."""
        return ", ".join(self.authors) + ("" if self.authors_complete or not self.authors else " et al.")


def storable(record: Record) -> Record:
    """Return `record` without the characters that a database refuses: NUL and lone surrogates."""
    texts = (record.title, record.abstract, record.topic, record.venue, record.doi, record.url, record.summary)
    joined = "".join((*texts, *record.authors, *record.keywords))
    if "\0" not in joined and joined == _storable_text(joined):
        return record  # nearly every record; the others are mended field by field
    changes: dict[str, object] = {}
    for field in fields(Record):
        value = getattr(record, field.name)
        if isinstance(value, str):
            if not value.isascii() or "\0" in value:
                changes[field.name] = _storable_text(value)
        elif isinstance(value, tuple):
            changes[field.name] = tuple(map(_storable_text, value))
    return replace(record, **changes)  # type: ignore[arg-type]


def _storable_text(text: str) -> str:
    return text.replace("\0", "").encode("utf-8", "ignore").decode("utf-8")


def clean_doi(text: str) -> str:
    """Return the bare DOI of `text`, or an empty string."""
    match = re.search(r"10\.\d{4,9}/\S+", text)
    return match.group(0).rstrip(".,;)}").lower() if match else ""


def clean_arxiv(text: str) -> str:
    """Return the arXiv identifier in `text` without its version, or an empty string."""
    match = re.search(r"(?<![\d.])(\d{4}\.\d{4,5}|[a-z-]+(?:\.[A-Z]{2})?/\d{7})(?:v\d+)?(?![\d])", text)
    return match.group(1) if match else ""


def keys(record: Record, abstract_hash: str = "") -> list[int]:
    """Return the keys of `record`: two records that share one are the same paper.

    A key is the 63-bit BLAKE2b digest of an identifier (DOI, arXiv, OpenReview, slug), of the normalised title (with
    first author and year where it is short) or of the normalised abstract. Among ten million keys two unlike ones agree
    with probability below 10^-5.

    Args:
        record: The record.
        abstract_hash: Fingerprint of an abstract that is known but not held (see ``abstract_sha256`` of a paper.toml).
    """
    texts = []
    if record.doi:
        texts.append(f"doi:{record.doi}")
    if record.arxiv:
        texts.append(f"arxiv:{record.arxiv}")
    if record.openreview:
        texts.append(f"openreview:{record.openreview}")
    if record.slug:
        texts.append(f"slug:{record.slug}")
    if record.title:
        title = normalise(record.title)
        if title.count(" ") + 1 >= SAFE_TITLE_WORDS or not title.isascii():
            texts.append(f"title:{title}")
        elif title and record.authors:
            texts.append(f"title:{title}|{fold(record.authors[0])}|{record.year}")
    if len(record.abstract) >= SAFE_ABSTRACT_CHARACTERS:
        digest = hashlib.sha256(normalise(record.abstract).encode()).hexdigest()
        texts.append(f"abstract:{digest}")
    if abstract_hash:
        texts.append(f"abstract:{abstract_hash}")
    return [int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big") >> 1 for text in texts]


def fullness(record: Record) -> tuple[int, int]:
    """Return how much a record tells: number of known fields, then the length of its abstract."""
    known = sum(bool(getattr(record, field.name)) for field in fields(record) if field.name != "authors_complete")
    return known + bool(record.authors and record.authors_complete), len(record.abstract)


def merge(first: Record, second: Record) -> Record:
    """Return one record of the same paper: each field from the fuller one, or from the other where it is empty.

    Merging is idempotent, and `first` wins a tie.
    """
    winner, other = (second, first) if fullness(second) > fullness(first) else (first, second)
    changes: dict[str, object] = {
        field.name: getattr(other, field.name)
        for field in fields(Record)
        if field.name != "authors_complete" and not getattr(winner, field.name) and getattr(other, field.name)
    }
    if "authors" in changes or (other.authors and other.authors_complete and not winner.authors_complete):
        changes["authors"], changes["authors_complete"] = other.authors, other.authors_complete
    return replace(winner, **changes) if changes else winner  # type: ignore[arg-type]


def to_row(record: Record) -> Row:
    """Return the stored columns of `record`, then its CJK pairs."""
    authors, keywords = SEPARATOR.join(record.authors), SEPARATOR.join(record.keywords)
    joined = (
        "" if (record.title + record.abstract + authors).isascii() else f"{record.title} {authors} {record.abstract}"
    )
    return (
        record.title,
        authors,
        int(record.authors_complete),
        record.topic,
        record.abstract,
        record.year,
        record.venue,
        record.doi,
        record.arxiv,
        record.openreview,
        record.url,
        keywords,
        record.slug,
        record.summary,
        pairs(joined),
    )


def from_row(row: Sequence[object]) -> Record:
    """Return the record of a row, with or without its CJK pairs."""
    values = dict(zip(STORED, row, strict=False))
    for name in ("authors", "keywords"):
        values[name] = tuple(str(values[name]).split(SEPARATOR)) if values[name] else ()
    values["authors_complete"] = bool(values["authors_complete"])
    return Record(**values)  # type: ignore[arg-type]
