"""An append-only, content-addressed store of events, one JSON object a line.

Every event carries the SHA-256 of its kind and body, so a second append of the same event does nothing and a changed
line is noticed. Paid calls are found again by the hash of what was asked: a killed run repeats none of them, and a
changed rubric or prompt asks anew.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import IO, Any

from filelock import FileLock, Timeout

from workingpapers.foundations.errors import InputError
from workingpapers.foundations.files import cache_directory


def canonical(value: Any) -> str:
    """Return JSON text that is the same for equal values.

    Args:
        value: Anything of JSON types.
    """
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def fingerprint(value: Any) -> str:
    """Return the SHA-256 of :func:`canonical`, in hexadecimal.

    Args:
        value: Anything of JSON types.
    """
    return hashlib.sha256(canonical(value).encode("utf-8", "surrogatepass")).hexdigest()


class EventStore:
    """Events in a file, or in memory alone. Use it as a context manager; one process may have a file open.

    Args:
        path: The JSON Lines file, made where it does not exist; None keeps events in memory.

    Raises:
        InputError: The file is not such a store, a line was changed, or another process has it open.
    """

    def __init__(self, path: Path | None = None) -> None:
        self.path = path
        self._events: dict[str, tuple[str, dict[str, Any]]] = {}
        self._calls: dict[str, dict[str, Any]] = {}
        self._stream: IO[bytes] | None = None
        self._lock: FileLock | None = None
        if path is None:
            return
        name = hashlib.sha256(str(path.resolve()).encode()).hexdigest()[:24]
        self._lock = FileLock(cache_directory() / f"events-{name}.lock")
        try:
            self._lock.acquire(timeout=0)
        except Timeout:
            raise InputError(f"{str(path)!r} is in use by another run; wait for it or name another store.") from None
        try:
            if path.exists():
                self._load(path)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> EventStore:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the file and let others have it."""
        if self._stream:
            self._stream.close()
            self._stream = None
        if self._lock:
            self._lock.release()

    def append(self, kind: str, body: Mapping[str, Any]) -> str:
        """Add an event unless it is there already, and return its hash.

        Args:
            kind: call, question, answer, critique, debate, judgment, label or fault.
            body: JSON types alone.
        """
        key = fingerprint([kind, body])
        if key in self._events:
            return key
        self._remember(key, kind, dict(body))
        if self.path:
            if self._stream is None:
                self._stream = self.path.open("ab")
            time = datetime.now(UTC).isoformat(timespec="seconds")
            line = canonical({"hash": key, "kind": kind, "time": time, "body": body})
            self._stream.write(line.encode("utf-8", "surrogatepass") + b"\n")
            self._stream.flush()
        return key

    def call(self, key: str) -> dict[str, Any] | None:
        """Return the paid call with this key, if it was made.

        Args:
            key: Hash of what was asked.
        """
        return self._calls.get(key)

    def events(self, kind: str) -> Iterator[dict[str, Any]]:
        """Yield the bodies of all events of a kind, in the order in which they came.

        Args:
            kind: See :meth:`append`.
        """
        return (body for found, body in list(self._events.values()) if found == kind)

    def digest(self) -> str:
        """Return one hash of all events, whatever their order and time: equal for two runs with equal content."""
        return fingerprint(sorted(self._events))

    def _remember(self, key: str, kind: str, body: dict[str, Any]) -> None:
        self._events[key] = (kind, body)
        if kind == "call":
            self._calls[body["key"]] = body

    def _load(self, path: Path) -> None:
        raw = path.read_bytes()
        whole = raw.rfind(b"\n") + 1
        for number, line in enumerate(raw[:whole].splitlines(), 1):
            try:
                event = json.loads(line.decode("utf-8", "surrogatepass"))
                key, kind, body = event["hash"], event["kind"], event["body"]
            except (ValueError, KeyError, TypeError):
                raise InputError(f"{str(path)!r} is not an event store (line {number}); name another file.") from None
            if fingerprint([kind, body]) != key:
                raise InputError(f"{str(path)!r} was changed by hand in line {number}; restore that line or remove it.")
            self._remember(key, kind, body)
        if raw and not whole:
            raise InputError(f"{str(path)!r} is not an event store; name another file.")
        if whole < len(raw):  # a killed run leaves half a line at the end; that event never happened
            with path.open("r+b") as stream:
                stream.truncate(whole)
