"""Entries on their way into the catalog: cleaned, keyed, as rows of the database; a large file in a second process."""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import BinaryIO

from workingpapers.catalog.entries import Entry, Rejected
from workingpapers.catalog.records import Record, Row, keys, storable, to_row
from workingpapers.foundations.errors import InputError

BATCH = 2000
LARGE_FILE = 16 << 20  # bytes; below, a second process costs more than it saves


@dataclass(frozen=True, slots=True)
class Batch:
    """Some entries of a file: rows with their keys, and the blocks that were rejected."""

    rows: list[tuple[Row, list[int]]]
    rejected: list[Rejected]

    @property
    def read(self) -> int:
        """Number of blocks read."""
        return len(self.rows) + len(self.rejected)


def batches(entries: Iterable[Entry]) -> Iterator[Batch]:
    """Yield the entries in batches."""
    source = iter(entries)
    while chunk := list(islice(source, BATCH)):
        rejected = [entry for entry in chunk if isinstance(entry, Rejected)]
        records = [storable(entry) for entry in chunk if isinstance(entry, Record)]
        yield Batch([(to_row(record), keys(record)) for record in records], rejected)


def batches_of_file(path: str | Path) -> Iterator[Batch]:
    """Yield the entries of a file in batches; a large file is parsed in a second process while the first one stores.

    Raises:
        InputError: As `formats.read` does.
    """
    from workingpapers.catalog import formats

    if Path(path).stat().st_size < LARGE_FILE:
        yield from batches(formats.read(path))
        return
    # A program of its own: multiprocessing would run the caller's script once more, or copy the locks of its threads.
    command = (sys.executable, "-m", __name__, os.fspath(path))
    surroundings = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=surroundings) as reader:
        try:
            while True:
                try:
                    message = pickle.load(reader.stdout)  # type: ignore[arg-type]
                except EOFError:
                    raise RuntimeError(f"the process that read {os.fspath(path)!r} died") from None
                if message is None:
                    return
                if isinstance(message, Exception):
                    raise message
                yield message
        finally:
            reader.terminate()


def _send_batches(path: str, stream: BinaryIO) -> None:
    """Write each batch of a file, then None, or the error that ended the reading."""
    from workingpapers.catalog import formats

    try:
        for batch in batches(formats.read(path)):
            pickle.dump(batch, stream, protocol=pickle.HIGHEST_PROTOCOL)
            stream.flush()
        pickle.dump(None, stream)
    except BrokenPipeError:
        os._exit(0)  # the first process has left; flushing at exit would complain
    except InputError as error:
        pickle.dump(error, stream)
    except Exception as error:
        pickle.dump(RuntimeError(f"{type(error).__name__}: {error}"), stream)


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the first process decides what Ctrl-C means
    from workingpapers.catalog import preparing  # under its own name, by which the batches are unpickled

    preparing._send_batches(sys.argv[1], sys.stdout.buffer)
