"""Files of events and scores into the books, batch by batch; and the same files against what is booked."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

from workingpapers.foundations.files import check_readable
from workingpapers.foundations.progress import Progress, silent
from workingpapers.governance.data_royalties.accrual import NOT_PAYABLE
from workingpapers.governance.data_royalties.ledger import Ledger, Receipt
from workingpapers.governance.data_royalties.staging import staged


@dataclass(frozen=True)
class Posting:
    """What the posting of two files came to.

    Args:
        new: Events booked now.
        repeated: Events booked before, which changed nothing.
        entries: Entries made.
        unknown: Ids of scored works that are not registered, at most twenty.
    """

    new: int
    repeated: int
    entries: int
    unknown: tuple[str, ...]


def post_files(
    ledger: Ledger,
    events: Path,
    scores: Path,
    *,
    method: str = "",
    batch_size: int = 50_000,
    memory: str = "1GB",
    progress: Progress = silent,
) -> Posting:
    """Book a file of events with their scores.

    Each batch is whole or absent. After a break, post the same files again: what is booked stays as it is.

    Args:
        ledger: The books.
        events: CSV or Parquet: event_id, time, currency, gross_minor and, optionally, tax_minor, cost_minor,
            model_version, refund_of.
        scores: CSV or Parquet: event_id, work, score and, optionally, stderr; several lines an event.
        method: Attribution method and version, noted in the entries.
        batch_size: Events in one entry.
        memory: What DuckDB may use before it goes to disk.
        progress: Called at every batch.

    Raises:
        InputError: A line of the files cannot be; nothing was booked then. Or an event contradicts what is booked
            already; then the batches before it were booked.
    """
    notes = {"method": method, "events_sha256": file_digest(events), "scores_sha256": file_digest(scores)}
    new = repeated = entries = 0
    with staged(ledger, events, scores, memory=memory) as stage:
        for done, batch in stage.batches(ledger, batch_size):
            receipt: Receipt = ledger.post_batch(batch, notes)
            new, repeated, entries = new + receipt.new, repeated + receipt.repeated, entries + bool(receipt.new)
            progress(done / stage.count, f"{done} of {stage.count} events booked")
        return Posting(new, repeated, entries, stage.unknown())


def recheck_files(ledger: Ledger, events: Path, scores: Path, *, memory: str = "1GB") -> list[str]:
    """Return the differences between two files and what is booked: events that are missing or were booked otherwise.

    Parts are computed afresh under the policy and the registry in force now.
    """
    found: list[str] = []
    with staged(ledger, events, scores, memory=memory) as stage:
        for _, batch in stage.batches(ledger, 50_000):
            known = ledger.store.find(row[0] for row in batch.rows)
            for event_id, _, line in batch.rows:
                if event_id not in known:
                    found.append(f"event {event_id!r} is in the file and not in the ledger")
                elif known[event_id][1].replace(NOT_PAYABLE, "") != line.replace(NOT_PAYABLE, ""):
                    found.append(f"event {event_id!r} is booked otherwise (entry {known[event_id][0]})")
                if len(found) >= 20:
                    return found
    return found


def file_digest(path: Path) -> str:
    """Return the SHA-256 of the bytes of a file, in hexadecimal."""
    with check_readable(path).open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
