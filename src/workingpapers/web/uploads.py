"""Uploaded files: their names made safe, their kind checked, their place always inside a job's folder."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import IO

from workingpapers.foundations.errors import InputError

TEXT = frozenset(
    "bib bibtex csv dagitty dot gv htm html json jsonl key log md ndjson pem sig tex toml tsv txt xml yaml yml".split()
)
# Beginning of the file, for kinds that are not text. Pickles and programs are not among them: to read one is to run it.
BEGINNINGS = {
    "gz": b"\x1f\x8b",
    "npy": b"\x93NUMPY",
    "npz": b"PK",
    "parquet": b"PAR1",
    "safetensors": b"",
    "xlsx": b"PK",
    "zip": b"PK",
}
PROCEEDINGS = frozenset("bib bibtex csv gz htm html json jsonl md ndjson tsv txt".split())
LONGEST_NAME = 100
PEEK = 1 << 16


def safe_name(name: str) -> str:
    """Return a file name without folders, hidden beginnings or characters that a shell or a disk could misread."""
    last = re.split(r"[/\\]", name)[-1]
    cleaned = re.sub(r"[^\w.+()-]", "_", last).strip(". ")
    if len(cleaned) > LONGEST_NAME:
        stem, dot, suffix = cleaned.rpartition(".")
        kept = f"{dot}{suffix}" if stem and len(suffix) <= 12 else ""
        cleaned = cleaned[: LONGEST_NAME - len(kept)] + kept
    return cleaned or "file"


def suffix_of(name: str) -> str:
    """Return the last suffix of a name in lower case, without its dot."""
    return name.rpartition(".")[2].lower() if "." in name else ""


def store(stream: IO[bytes], name: str, folder: Path, kinds: frozenset[str] | None = None) -> Path:
    """Write an upload into `folder` under a safe name and return its path.

    Args:
        stream: Its content.
        name: Its name as the browser gave it.
        folder: A folder that exists; another file of that name stays, and this one is numbered.
        kinds: Suffixes that are taken; None for every known kind.

    Raises:
        InputError: The kind is not taken, or the content is not of the kind that the name says.
    """
    cleaned = safe_name(name)
    suffix = suffix_of(cleaned)
    if suffix and suffix not in (kinds or TEXT | BEGINNINGS.keys()):
        taken = ", ".join(sorted(kinds or TEXT | BEGINNINGS.keys()))
        raise InputError(f"{cleaned!r} is of a kind that this page does not take; give one of {taken}.")
    head = stream.read(PEEK)
    if not head.strip():
        raise InputError(f"{cleaned!r} is empty; choose a file with content.")
    beginning = BEGINNINGS.get(suffix)
    if beginning is None and b"\0" in head:
        raise InputError(f"{cleaned!r} is a binary file, not the text that its name says.")
    if beginning is not None and not head.startswith(beginning):
        raise InputError(f"{cleaned!r} does not begin as a .{suffix} file does; choose the right file.")
    target, count = folder / cleaned, 1
    while target.exists():
        count += 1
        target = folder / f"{count}-{cleaned}"
    with target.open("xb") as out:
        out.write(head)
        shutil.copyfileobj(stream, out, 1 << 20)
    return target


def inside(folder: Path, name: str) -> Path:
    """Return the file or folder `name` below `folder`.

    Raises:
        InputError: It is not there, or lies elsewhere.
    """
    root = folder.resolve()
    try:
        target = (root / name).resolve()
        if "\0" not in name and target != root and target.is_relative_to(root) and target.exists():
            return target
    except (OSError, ValueError, RuntimeError):
        pass
    raise InputError(f"There is no file {name!r} here.")


def listing(folder: Path) -> list[tuple[str, int]]:
    """Return every file below `folder` with its size, by name."""
    if not folder.is_dir():
        return []
    root = folder.resolve()
    return [
        (file.relative_to(folder).as_posix(), file.stat().st_size)
        for file in sorted(folder.rglob("*"))
        if file.is_file() and file.resolve().is_relative_to(root)
    ]
