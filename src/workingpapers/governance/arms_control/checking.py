"""Commands of the verifying party: declarations with evidence, training transcripts, compute accounts."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from workingpapers.foundations.errors import InputError
from workingpapers.foundations.outcome import Figure, Outcome, Table
from workingpapers.foundations.progress import Progress
from workingpapers.foundations.report import heading, paragraph, write_report
from workingpapers.governance.arms_control import challenge as draws
from workingpapers.governance.arms_control.compute import account
from workingpapers.governance.arms_control.declaration import parse_time
from workingpapers.governance.arms_control.declaring import counted, pinned_keys, read_json
from workingpapers.governance.arms_control.envelope import Refused
from workingpapers.governance.arms_control.inspection import detection_probability
from workingpapers.governance.arms_control.items import differing_files
from workingpapers.governance.arms_control.pictures import compute_picture, detection_curves, segments_picture
from workingpapers.governance.arms_control.transcript import Opening, verify_segments
from workingpapers.governance.arms_control.transcript_files import (
    checkpoint_name,
    load_step,
    read_arrays,
    read_transcript,
)
from workingpapers.governance.arms_control.verifier import (
    CheckedEvidence,
    check_declaration,
    check_evidence,
    check_succession,
)

LIMITS = (
    "What this does not establish: that the declaration is complete (undeclared sites, chips or runs leave no trace), "
    "that a declared item exists or behaves as its attributes say, or that the key was used by its owner. Hashes prove "
    "identity, not behaviour; a sample bounds what it can miss only for items that the inspection can tell apart."
)


def check(
    declaration: Path, evidence: Path | None, keys: Sequence[Path], threshold: int | None, challenge: Path | None,
    commitments: Sequence[Path], request: str | None, ask: Sequence[str], previous: Path | None, directory: bool,
    files: Path | None, miss: float, now: str | None, strict: bool, report: Path | None,
) -> Outcome:  # fmt: skip
    """Check a declaration and the evidence for it."""
    publics = pinned_keys(keys)
    needed = len(publics) if threshold is None else threshold
    if not 1 <= needed <= len(publics):
        raise InputError(f"The threshold is {needed} of {len(publics)} pinned keys; it must be from 1 to their number.")
    if challenge is not None and request is not None:
        raise InputError("Both a challenge and a request number were given; evidence answers one of them.")
    if evidence is None and (challenge or request or ask or directory or commitments or files):
        raise InputError("Evidence was described but none was given; name the evidence file after the declaration.")
    if files is not None and not files.is_dir():
        raise InputError(f"There is no folder {str(files)!r} with the files to check; correct the path.")
    moment = parse_time(now) if now else datetime.now(UTC)
    asked = read_json(challenge) if challenge else request
    received = [read_json(path) for path in commitments]
    checks: list[tuple[str, str]] = []
    found: CheckedEvidence | None = None
    refusal = ""
    try:
        known = check_declaration(declaration.read_bytes(), publics, now=moment, threshold=needed)
        checks.append(("declaration", f"number {known.head.sequence} of {known.head.origin}, {known.head.size} items"))
        held = None
        if previous is not None:
            held = check_declaration(
                previous.read_bytes(), publics, threshold=needed, name="the declaration held from before"
            )
            check_succession(known, held)
            checks.append(("succession", f"follows number {held.head.sequence} with {held.head.size} items"))
        if evidence is not None:
            found = check_evidence(
                evidence.read_bytes(), known, publics, challenge=asked, commitments=received,
                asked=tuple(ask) or None, directory=directory, previous=held, now=moment, threshold=needed,
            )  # fmt: skip
            checks += _describe(found, known.head.size)
        if files is not None and found is not None:
            problems = [text for _, item in found.items for text in differing_files(item, files)]
            if problems:
                raise Refused(f"the files differ from the declaration: {problems[0]}")
            count = sum(len(item["files"]) for _, item in found.items)
            checks.append(("files", f"{counted(count, 'file')} hashed again and found as declared"))
    except Refused as error:
        refusal = str(error)
        checks.append(("REFUSED", refusal))
    tables = [Table(("check", "result"), checks, "Checks, in order", LIMITS)]
    figures: list[Figure] = []
    data: dict[str, Any] = {
        "accepted": not refusal,
        "refusal": refusal or None,
        "checks": [list(row) for row in checks],
    }
    if not refusal and found is not None:
        data |= {"items": [[place, dict(item)] for place, item in found.items], "absent": list(found.absent)}
        if isinstance(asked, dict):
            assurance, figure = _assurance(known.head.size, len(found.items), miss)
            tables.append(assurance)
            figures.append(figure)
            data["assurance"] = [list(row) for row in assurance.rows]
    summary = f"REFUSED: {refusal}. Rely on none of it." if refusal else _accepted(found)
    outcome = finish("Verification of a declaration", summary, tables, figures, data, report, LIMITS)
    if refusal and strict:
        raise InputError(f"Refused: {refusal}; rely on none of it.")
    return outcome


def _describe(found: CheckedEvidence, size: int) -> list[tuple[str, str]]:
    rows = [("evidence", f"{len(found.items)} of {size} items opened, every path leads to the signed root")]
    if found.challenge:
        rows.append(("freshness", f"answers {found.challenge[:16]}..."))
    else:
        rows.append(("freshness", "answers no request: it may be old"))
    if found.absent:
        doubt = "" if found.whole_directory else " (if the directory is sorted: ask for it with --directory)"
        rows.append(("absence", f"not declared: {', '.join(found.absent)}{doubt}"))
    if found.history:
        rows.append(("history", "the declaration held from before is a prefix of this one"))
    if found.whole_directory:
        rows.append(("directory", "listed whole, sorted, without an id twice"))
    return rows


def _accepted(found: CheckedEvidence | None) -> str:
    if found is None:
        return "The declaration holds: its signature, form and time. No evidence was given for what it says."
    items = counted(len(found.items), "opened item")
    denied = f", and {counted(len(found.absent), 'id')} were not declared" if found.absent else ""
    return f"The declaration and the evidence hold: {items} as declared{denied}."


def _assurance(size: int, count: int, miss: float) -> tuple[Table, Figure]:
    violations = sorted({1, max(1, size // 100), max(1, size // 20), max(1, size // 10)})
    rows = [(d, detection_probability(size, d, count, miss)) for d in violations]
    note = f"For a sample that no party could steer, and an inspection that misses a violating item with {miss:g}."
    table = Table(("violations", "probability that the sample would have met one"), rows, "Assurance", note)
    return table, detection_curves(size, violations, count, None, miss)


def check_transcript(
    transcript: Path, data: Path, step: Path, segments: Sequence[int], challenge: Path | None, root: str | None,
    tolerance: float, forged: int, strict: bool, report: Path | None, progress: Progress,
) -> Outcome:  # fmt: skip
    """Re-run segments of a training transcript."""
    committed, logs = read_transcript(transcript)
    total = committed.segments
    if segments and challenge is not None:
        raise InputError("Both segments and a challenge were given; the challenge decides alone which are re-run.")
    if not 1 <= forged <= total:
        raise InputError(f"The number of forged segments to plan for is {forged}; it must be from 1 to {total}.")
    chosen = list(dict.fromkeys(segments)) or list(range(total))
    if challenge is not None:
        content = read_json(challenge)
        try:
            seed = draws.check_challenge(content)
        except Refused as error:
            raise InputError(f"The challenge {str(challenge)!r} does not hold: {error}; ask for it again.") from None
        if content["declaration"] != committed.root():
            raise InputError(f"The challenge {str(challenge)!r} was not drawn for this transcript; draw a new one.")
        chosen = draws.sample(seed, total, content["count"])
    if root is not None and root != committed.root():
        raise InputError(
            f"The root of the transcript is {committed.root()}, not the declared {root!r}; ask for the declared one."
        )
    outside = [k for k in chosen if not 0 <= k < total]
    if outside:
        raise InputError(f"There is no segment {outside[0]}; the transcript has {total}, counted from 0.")
    arrays = tuple(array for _, array in sorted(read_arrays(data).items()))
    openings = {k: _opening(transcript.parent, k, logs[k]) for k in chosen}
    verdicts = verify_segments(committed, openings, load_step(step), arrays, tolerance, progress)
    refused = [verdict for verdict in verdicts if not verdict.accepted]
    caught = detection_probability(total, forged, len(chosen))
    rows = [(v.segment, v.finding, v.distance) for v in verdicts if not v.accepted or len(verdicts) <= 40]
    table = Table(("segment", "finding", "largest difference"), rows, "Segments re-run",
                  "" if rows else "All segments were reproduced.")  # fmt: skip
    summary = (
        f"{len(refused)} of {len(chosen)} re-run segments were not reproduced (the first is {refused[0].segment})."
        if refused
        else f"All {len(chosen)} re-run segments of {total} were reproduced; {forged} forged would have been met "
        f"with probability {caught:.3g}."
    )
    if root is None:
        summary += " No declared root was given: this says nothing about what was committed to before."
    figure = segments_picture([(v.segment, v.distance, v.accepted) for v in verdicts])
    values = {
        "accepted": not refused,
        "root": committed.root(),
        "segments": [[v.segment, v.finding, _plain(v.distance)] for v in verdicts],
        "detection": caught,
    }
    outcome = finish("Re-run of a training transcript", summary, [table], [figure], values, report, LIMITS)
    if refused and strict:
        first = refused[0]
        raise InputError(
            f"Refused: {len(refused)} of {len(chosen)} re-run segments were not reproduced, the first being "
            f"{first.segment} ({first.finding}); rely on none of it, or see all findings with --no-strict."
        )
    return outcome


def _opening(folder: Path, segment: int, log: Any) -> Opening:
    start, end = (read_arrays(folder / checkpoint_name(segment + k)) for k in (0, 1))
    return Opening(start, end, log)


def check_compute(accounts: Path, tolerance: float, report: Path | None) -> Outcome:
    """Compare declared training with chips and logs."""
    content = read_json(accounts)
    if not isinstance(content, dict) or set(content) != {"runs", "chips", "logs"}:
        raise InputError(f"{str(accounts)!r} must be an object with the lists runs, chips and logs.")
    if not all(isinstance(part, list) for part in content.values()):
        raise InputError(f"The runs, chips and logs in {str(accounts)!r} must be lists.")
    found = account(content["runs"], content["chips"], content["logs"], tolerance)
    parts = {"declared": found.declared, "used": found.used, "possible": found.capacity}
    table = Table(("operations", "number"), list(parts.items()), "Compute account")
    summary = (
        f"Finding: {found.finding}. {found.unexplained:.1%} of the used operations are not declared "
        f"(tolerance {tolerance:.0%})."
    )
    values = {**parts, "unexplained": found.unexplained, "finding": found.finding}
    note = "An account compares totals: it shows neither what was computed nor chips that no log mentions."
    return finish("Compute account", summary, [table], [compute_picture(parts)], values, report, note)


def finish(
    title: str, summary: str, tables: Sequence[Table], figures: Sequence[Figure], data: dict[str, Any],
    report: Path | None, note: str = "",
) -> Outcome:  # fmt: skip
    """Write the report where one is wanted, and return the outcome."""
    files: tuple[Path, ...] = ()
    if report is not None:
        sections: list[str | Table | Figure] = [paragraph(summary), *tables, *figures]
        if note and not any(table.note == note for table in tables):
            sections += [heading("What this does not say"), paragraph(note)]
        files = (write_report(report, title, sections),)
    return Outcome(summary, tuple(tables), tuple(figures), files, data)


def _plain(value: float | None) -> float | None:
    return None if value is None or not np.isfinite(value) else float(value)
