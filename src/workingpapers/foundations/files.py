"""Files in and out: readable tables with one-sentence errors, and writes that are whole or absent."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import platformdirs

from workingpapers.foundations.errors import InputError, near_match

if TYPE_CHECKING:
    import pandas as pd

DATA_VARIABLE = "WORKINGPAPERS_DATA"


def data_directory() -> Path:
    """Return the folder of the user's catalog and results: ``$WORKINGPAPERS_DATA`` or the platform's own, created."""
    chosen = os.environ.get(DATA_VARIABLE)
    folder = Path(chosen).expanduser() if chosen else Path(platformdirs.user_data_dir("workingpapers"))
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(
            f"The data folder {str(folder)!r} cannot be made ({_reason(error)}); name another one in {DATA_VARIABLE}."
        ) from None
    return folder


def cache_directory() -> Path:
    """Return the folder for what can be made again: inside ``$WORKINGPAPERS_DATA`` or the platform's cache, created."""
    chosen = os.environ.get(DATA_VARIABLE)
    folder = Path(chosen).expanduser() / "cache" if chosen else Path(platformdirs.user_cache_dir("workingpapers"))
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@contextmanager
def whole_file(path: str | os.PathLike[str], mode: str = "w", **options: Any) -> Iterator[IO[Any]]:
    """Open a file that appears at `path` complete, or not at all.

    The content goes to a temporary file of the same folder, is flushed to disk, and replaces `path` at the end; on any
    error the temporary file is removed and an old file at `path` stays as it was.

    Args:
        path: Where the file shall stand. Its folder must exist.
        mode: ``"w"`` (UTF-8 text unless `options` say otherwise) or ``"wb"``.
        **options: Passed to :func:`open`.

    Raises:
        InputError: The folder is missing or not writable, or the disk is full.
    """
    target = Path(path)
    if "b" not in mode:
        options.setdefault("encoding", "utf-8")
    try:
        descriptor, temporary = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.", suffix=".part")
    except OSError as error:
        raise InputError(f"Cannot write {str(target)!r}: {_reason(error)}.") from None
    try:
        with os.fdopen(descriptor, mode, **options) as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        os.chmod(temporary, 0o666 & ~_umask())
        os.replace(temporary, target)
    except OSError as error:
        _remove(temporary)
        raise InputError(f"Cannot write {str(target)!r}: {_reason(error)}.") from None
    except BaseException:
        _remove(temporary)
        raise


def write_secret(path: str | os.PathLike[str], text: str) -> Path:
    """Write `text` to a file that only its owner can read (mode 600), whole or not at all.

    Args:
        path: Where the file shall stand; a file there is replaced.
        text: Its content.

    Raises:
        InputError: The folder is missing or not writable.
    """
    target = Path(path)
    try:
        # mkstemp makes the file with mode 600, so the secret is never readable by others, not even for a moment.
        descriptor, temporary = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.", suffix=".part")
        try:
            with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
                stream.write(text)
                stream.flush()
                os.fsync(stream.fileno())
            os.replace(temporary, target)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise InputError(f"Cannot write {str(target)!r}: {(error.strerror or str(error)).lower()}.") from None
    return target


def check_readable(path: str | os.PathLike[str]) -> Path:
    """Return `path` if it is a file that can be read and is not empty.

    Raises:
        InputError: It does not exist (a near name in its folder is offered), is a folder, is empty or may not be read.
    """
    target = Path(path)
    try:
        if target.is_dir():
            raise InputError(f"{str(target)!r} is a folder; name a file in it.")
        with target.open("rb") as stream:
            if not stream.read(1):
                raise InputError(f"{str(target)!r} is empty; name a file with content.")
    except FileNotFoundError:
        siblings = [entry.name for entry in target.parent.iterdir()] if target.parent.is_dir() else []
        hint = near_match(target.name, siblings)
        raise InputError(f"There is no file {str(target)!r}{hint or '; check the path.'}") from None
    except OSError as error:
        raise InputError(f"Cannot read {str(target)!r}: {_reason(error)}.") from None
    return target


def check_writable(path: str | os.PathLike[str]) -> Path:
    """Return `path` if a file can be made there; called before long work starts.

    Raises:
        InputError: It is a folder, its folder is missing, or the folder may not be written to.
    """
    target = Path(path)
    if target.is_dir():
        raise InputError(f"{str(target)!r} is a folder; name a file to write.")
    if not target.parent.is_dir():
        raise InputError(f"Cannot write {str(target)!r}: the folder {str(target.parent)!r} does not exist; create it.")
    if not os.access(target.parent, os.W_OK) or (target.exists() and not os.access(target, os.W_OK)):
        raise InputError(f"Cannot write {str(target)!r}: permission denied; choose another place.")
    return target


def read_text(path: str | os.PathLike[str]) -> str:
    """Return the UTF-8 text of `path`.

    Raises:
        InputError: Not readable (see :func:`check_readable`), or not text.
    """
    target = check_readable(path)
    try:
        raw = target.read_bytes()
    except OSError as error:
        raise InputError(f"Cannot read {str(target)!r}: {_reason(error)}.") from None
    if b"\0" in raw[:65536]:
        raise InputError(f"{str(target)!r} is a binary file; a text file is needed.")
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw[: error.start].count(b"\n") + 1
        raise InputError(f"{str(target)!r} is not UTF-8 text (line {line}); save it as UTF-8.") from None


def read_table(path: str | os.PathLike[str]) -> pd.DataFrame:
    """Read a table with a header line: CSV, TSV (by extension ``.tsv``) or Parquet (``.parquet``).

    Returns:
        A data frame with at least one row and unique column names; text stays text, numbers become numbers, empty
        cells are missing values.

    Raises:
        InputError: The file is missing, empty, binary, has no rows, repeats a column name or is not a table.
    """
    import pandas as pd

    target = check_readable(path)
    try:
        if target.suffix.lower() == ".parquet":
            frame = pd.read_parquet(target)
        else:
            import io

            frame = pd.read_csv(io.StringIO(read_text(target)), sep="\t" if target.suffix.lower() == ".tsv" else ",")
    except InputError:
        raise
    except ImportError as error:
        raise InputError(f"Cannot read {str(target)!r}: {error}.") from None
    except Exception as error:
        reason = " ".join(str(error).split())
        raise InputError(f"{str(target)!r} cannot be read as a table: {reason.rstrip('.')}.") from None
    if frame.empty:
        raise InputError(f"{str(target)!r} holds a header but no rows; name a table with data.")
    return frame


def column(frame: pd.DataFrame, name: str, path: str | os.PathLike[str] = "the table") -> pd.Series[Any]:
    """Return the column `name` of `frame`.

    Raises:
        InputError: There is no such column; a near name is offered.
    """
    if name not in frame.columns:
        columns = [str(item) for item in frame.columns]
        hint = near_match(name, columns) or f"; the columns are {', '.join(columns[:12])}."
        raise InputError(f"{str(path)!r} has no column {name!r}{hint}")
    return frame[name]


def _reason(error: OSError) -> str:
    return (error.strerror or str(error)).lower()


def _remove(path: str) -> None:
    import contextlib

    with contextlib.suppress(OSError):
        os.unlink(path)


def _umask() -> int:
    current = os.umask(0)
    os.umask(current)
    return current
