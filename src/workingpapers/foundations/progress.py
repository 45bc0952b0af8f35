"""Progress of long work: a callback that takes the share done and a short message."""

from __future__ import annotations

from typing import Protocol


class Progress(Protocol):
    """Called as ``progress(fraction, message)`` with ``0 <= fraction <= 1``."""

    def __call__(self, fraction: float, message: str = "") -> None:
        """Report that `fraction` of the work is done."""


def silent(fraction: float, message: str = "") -> None:
    """Report nothing: the default where nobody watches."""


def part(progress: Progress, start: float, stop: float) -> Progress:
    """Return a callback whose 0 to 1 fills the stretch from `start` to `stop` of `progress`."""

    def inner(fraction: float, message: str = "") -> None:
        progress(start + (stop - start) * fraction, message)

    return inner
