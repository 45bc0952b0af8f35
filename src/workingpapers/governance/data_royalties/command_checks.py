"""Commands for those who do not trust the operator: statements, checking one alone, auditing the whole ledger."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from workingpapers.foundations.errors import InputError
from workingpapers.foundations.files import read_text, whole_file
from workingpapers.foundations.outcome import Outcome, Table
from workingpapers.foundations.progress import Progress, silent
from workingpapers.foundations.signature import InputFile, OutputFolder
from workingpapers.governance.data_royalties.money import counted


def run_statement(ledger: str, period: str, *, out: OutputFolder, provider: str | None = None) -> Outcome:
    """Write the statement of one provider, or of all, for a sealed month: a page to read and a file to check.

    Args:
        ledger: SQLite file or postgresql:// URL of the books.
        period: The month, YYYY-MM.
        out: Folder for PERIOD-PROVIDER.html and .json.
        provider: Whose statement; all by default.
    """
    from workingpapers.governance.data_royalties.ledger import Ledger
    from workingpapers.governance.data_royalties.reports import write_statement
    from workingpapers.governance.data_royalties.statement import statements

    books = Ledger.open(ledger)
    try:
        found = statements(books.store, period, [provider] if provider else [])
    finally:
        books.close()
    out.mkdir(parents=True, exist_ok=True)
    files = []
    for name, statement in found.items():
        stem = "".join(letter if letter.isalnum() or letter in "-_." else "-" for letter in f"{period}-{name}")
        with whole_file(out / f"{stem}.json") as stream:
            json.dump(statement, stream, indent=1, sort_keys=True)
        files += [write_statement(out / f"{stem}.html", statement), out / f"{stem}.json"]
    return Outcome(
        f"Wrote {counted(len(found), 'statement')} of {period}.", files=files, data={"providers": list(found)}
    )


def run_check(statement: InputFile, *, public_key: str | None = None, previous: InputFile | None = None) -> Outcome:
    """Check a statement without the ledger: arithmetic, place under the signed root, signature, continuity.

    Args:
        statement: JSON file of the statement.
        public_key: The operator's public key, from the contract; without it the statement's own is used.
        previous: JSON file of the statement before.
    """
    from workingpapers.governance.data_royalties.statement import check_statement

    record = _json(statement)
    faults = check_statement(record, public_key or "", _json(previous) if previous else None)
    summary = f"Found {counted(len(faults), 'fault')}: {'; '.join(faults)}." if faults else "The statement holds: "
    if not faults:
        summary += (
            f"{counted(len(record['leaves']), 'currency', 'currencies')}, every figure follows from its lines, "
            "and the lines are under the signed root."
        )
        if not public_key:
            summary += " The key was the statement's own: compare it with the one in your contract."
        if not previous:
            summary += " Give the statement before with --previous to check that the balance goes on from it."
    table = Table(["fault"], [[fault] for fault in faults])
    return Outcome(summary, [table] if faults else [], data={"holds": not faults, "faults": faults})


def run_verify(
    ledger: str,
    *,
    public_key: str | None = None,
    witness: tuple[str, ...] = (),
    events: InputFile | None = None,
    scores: InputFile | None = None,
    progress: Progress = silent,
) -> Outcome:
    """Audit the ledger: chain, balance, every event's parts, every close, every seal, every signature, recomputed.

    Args:
        ledger: SQLite file or postgresql:// URL of the books.
        public_key: The operator's public key as known from elsewhere.
        witness: Statements (JSON) that providers kept; the journal must pass through what was signed then.
        events: File of events to compare with what is booked.
        scores: File of scores to compare with what is booked.
    """
    from workingpapers.governance.data_royalties.ledger import Ledger
    from workingpapers.governance.data_royalties.usage import recheck_files
    from workingpapers.governance.data_royalties.verify import audit_store

    if (events is None) != (scores is None):
        raise InputError("--events and --scores go together: parts are computed from both.")
    kept = [_json(Path(name)) for name in witness]
    books = Ledger.open(ledger)
    try:
        result = audit_store(books.store, public_key=public_key or "", witnesses=kept, progress=progress)
        differences = recheck_files(books, events, scores) if events and scores else []
    finally:
        books.close()
    rows: list[list[Any]] = [[item.seq, item.what] for item in result.violations]
    rows += [[None, difference] for difference in differences]
    read = (
        f"{counted(result.entries, 'entry', 'entries')}, {counted(result.events, 'event')} "
        f"and {counted(result.checkpoints, 'signature')}"
    )
    if rows:
        first = f"Entry {rows[0][0]} {rows[0][1]}" if result.violations else str(rows[0][1])
        summary = f"Found {counted(len(rows), 'violation')} in {read}. First: {first}."
    else:
        compared = " They agree with the files of events and scores." if events else ""
        summary = f"The ledger holds: {read} were recomputed without a difference.{compared}"
    table = Table(["entry", "what is wrong"], rows)
    violations = [{"entry": row[0], "what": row[1]} for row in rows]
    return Outcome(summary, [table] if rows else [], data={"holds": not rows, "violations": violations})


def _json(path: Path) -> dict[str, Any]:
    try:
        record = json.loads(read_text(path))
    except json.JSONDecodeError as error:
        raise InputError(f"{str(path)!r} is not JSON (line {error.lineno}: {error.msg}).") from None
    if not isinstance(record, dict):
        raise InputError(f"{str(path)!r} is not a statement; it holds no JSON object.")
    return record
