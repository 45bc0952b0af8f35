"""Proceedings in: files of several formats, told apart by their content, become records and rejected blocks."""

from __future__ import annotations

import gzip
import io
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from workingpapers.catalog.entries import Entry
from workingpapers.catalog.formats import arxiv, bibtex, csl_json, openreview, pages, table
from workingpapers.foundations.errors import InputError
from workingpapers.foundations.files import check_readable

# Tried in this order on the first part of a file; the first that recognises it reads it.
FORMATS = {
    "openreview": openreview,
    "csl-json": csl_json,
    "arxiv": arxiv,
    "bibtex": bibtex,
    "csv": table,
    "pages": pages,
}
PEEK = 1 << 16


def read(path: str | Path) -> Iterator[Entry]:
    """Yield the records and rejected blocks of a file.

    Args:
        path: A result page of the paper search (text), BibTeX, CSL-JSON, OpenReview notes (JSON), arXiv metadata (JSON
            lines) or CSV; UTF-8, gzip accepted.

    Raises:
        InputError: Not readable, empty, binary, not UTF-8, of none of these formats, or broken off.
    """
    target = check_readable(path)
    if _is_binary(target):
        raise InputError(f"{str(target)!r} is a binary file; give {_names()}.")
    with _open(target) as stream:
        try:
            head = stream.read(PEEK)
            if not head.strip():
                raise InputError(f"{str(target)!r} is empty; name a file with content.")
            name = detect(head)
            if not name:
                raise InputError(f"{str(target)!r} is in none of the known formats; give {_names()}.")
            yield from FORMATS[name].read(_Joined(head, stream))
        except UnicodeDecodeError as error:
            raise InputError(
                f"{str(target)!r} is not UTF-8 text (byte 0x{error.object[error.start]:02x}); save it as UTF-8."
            ) from None
        except (EOFError, zlib.error, gzip.BadGzipFile):
            raise InputError(f"{str(target)!r} is a broken gzip file; fetch it again.") from None
        except OSError as error:
            raise InputError(f"Cannot read {str(target)!r}: {(error.strerror or str(error)).lower()}.") from None


def detect(head: str) -> str:
    """Return the name of the format that the beginning of a file shows, or an empty string."""
    return next((name for name, module in FORMATS.items() if module.recognises(head)), "")


@contextmanager
def _open(path: Path) -> Iterator[TextIO]:
    with path.open("rb") as raw:
        packed = raw.read(2) == b"\x1f\x8b"
        raw.seek(0)
        stream = gzip.GzipFile(fileobj=raw) if packed else raw
        with io.TextIOWrapper(stream, encoding="utf-8-sig", newline=None) as text:  # type: ignore[arg-type]
            yield text


def _is_binary(path: Path) -> bool:
    with path.open("rb") as raw:
        head = raw.read(PEEK)
    return b"\0" in head and not head.startswith(b"\x1f\x8b")


class _Joined(io.TextIOBase):
    """The head that was looked at, then the rest of the stream."""

    def __init__(self, head: str, rest: TextIO) -> None:
        self._head = io.StringIO(head)
        self._rest = rest

    def read(self, size: int | None = -1, /) -> str:
        """Return everything that is left; only whole reads are used."""
        return self._head.read() + self._rest.read()

    def readline(self, size: int = -1, /) -> str:  # type: ignore[override]
        """Return the next line."""
        line = self._head.readline()
        return line if line.endswith("\n") else line + self._rest.readline()

    def __iter__(self) -> Iterator[str]:  # type: ignore[override]
        while line := self.readline():
            yield line


def _names() -> str:
    return "a result page, BibTeX, CSL-JSON, OpenReview notes, arXiv metadata or CSV"
