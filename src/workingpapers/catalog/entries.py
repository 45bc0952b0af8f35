"""What reading a file of proceedings yields."""

from __future__ import annotations

from dataclasses import dataclass

from workingpapers.catalog.records import Record


@dataclass(frozen=True)
class Rejected:
    """A block of an imported file that cannot become a record: its line and the reason."""

    line: int
    reason: str


Entry = Record | Rejected
