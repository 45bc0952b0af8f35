"""``papers run arms_control``: stability, declarations, proofs, verification, inspection plans, escalation logs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from workingpapers.foundations.outcome import Outcome
from workingpapers.foundations.progress import Progress, silent
from workingpapers.foundations.signature import Between, InputFile, OutputFile

Probability = Annotated[float, Between(0, 1)]
Count = Annotated[int, Between(1)]


def run_stability(balance: InputFile, *, report: OutputFile | None = None) -> Outcome:
    """Analyse a balance of actors: equilibrium, margin, thresholds, which reaction to constrain first.

    Args:
        balance: JSON with reaction (rows of numbers), fatigue, grievance and actors; also cooperation, surprise and
            deterrence with their payoffs.
        report: HTML report with phase portrait and thresholds.
    """
    from workingpapers.governance.arms_control.analysing import analyse_stability

    return analyse_stability(balance, report)


def run_keys(*, private: OutputFile, public: OutputFile, kind: Literal["ed25519", "p256"] = "ed25519") -> Outcome:
    """Make a key pair: ed25519 for declarations and evidence, p256 for OpenSSF model signatures.

    Args:
        private: File for the private key, readable by its owner alone; never overwritten.
        public: File for the public key.
        kind: Kind of key.
    """
    from workingpapers.governance.arms_control.declaring import make_keys

    return make_keys(private, public, kind)


def run_declare(
    items: InputFile,
    *,
    key: tuple[InputFile, ...],
    out: OutputFile,
    book: OutputFile,
    previous: InputFile | None = None,
    time: str | None = None,
    days: Annotated[int, Between(1, 3660)] = 365,
    progress: Progress = silent,
) -> Outcome:
    """Commit to a list of items and sign it; nothing of the items shows until they are opened.

    Args:
        items: JSON with origin and items (id, kind, attributes, files beside this file, or an OpenSSF model signature).
        key: Private keys of the signing parties.
        out: The public declaration.
        book: The secret book of items and salts that opens it.
        previous: Secret book of the declaration before; its items must come first and unchanged.
        time: Time of the declaration, as 2026-01-31T12:00:00Z; now by default.
        days: Days until it expires.
    """
    from workingpapers.governance.arms_control.declaring import make_declaration

    return make_declaration(items, key, out, book, previous, time, days, progress)


def run_commit(
    subject: InputFile,
    *,
    party: str,
    count: Count,
    out: OutputFile,
    opening: OutputFile,
    key: tuple[InputFile, ...] = (),
) -> Outcome:
    """Commit to a secret seed for the draw of an inspection sample.

    Args:
        subject: The declaration to inspect, or the transcript.json of a training run.
        party: Name of the party that commits.
        count: Number of items or segments to inspect.
        out: The commitment, to be sent at once.
        opening: The opening, to be sent after all commitments are in.
        key: Public keys that the declaration must be signed with.
    """
    from workingpapers.governance.arms_control.declaring import make_commitment

    return make_commitment(subject, key, party, count, out, opening)


def run_draw(*, commitment: tuple[InputFile, ...], opening: tuple[InputFile, ...], out: OutputFile) -> Outcome:
    """Check every opening against its commitment and make the common challenge.

    Args:
        commitment: Commitments of all parties.
        opening: Openings of all parties.
        out: The challenge.
    """
    from workingpapers.governance.arms_control.declaring import draw_sample

    return draw_sample(commitment, opening, out)


def run_prove(
    book: InputFile,
    *,
    key: tuple[InputFile, ...],
    out: OutputFile,
    challenge: InputFile | None = None,
    request: str | None = None,
    item: tuple[str, ...] = (),
    absent: tuple[str, ...] = (),
    previous: InputFile | None = None,
    directory: bool = False,
    time: str | None = None,
) -> Outcome:
    """Open chosen items of a declaration, deny ids, prove its history; all other items stay hidden.

    Args:
        book: Secret book of the declaration.
        key: Private keys of the signing parties.
        out: The evidence.
        challenge: Challenge that decides which items are opened.
        request: The verifier's own request number, where there is no challenge.
        item: Ids of items to open, where there is no challenge.
        absent: Ids whose absence to prove.
        previous: Secret book of an earlier declaration that the verifier holds; its history is proved.
        directory: List the tags of all ids, so that the verifier can check the whole directory.
        time: Time of the evidence, as 2026-01-31T12:00:00Z; now by default.
    """
    from workingpapers.governance.arms_control.declaring import make_proofs

    return make_proofs(book, key, out, challenge, request, item, absent, previous, directory, time)


def run_verify(
    declaration: InputFile,
    evidence: InputFile | None = None,
    *,
    key: tuple[InputFile, ...],
    threshold: Count | None = None,
    challenge: InputFile | None = None,
    commitment: tuple[InputFile, ...] = (),
    request: str | None = None,
    ask: tuple[str, ...] = (),
    previous: InputFile | None = None,
    directory: bool = False,
    files: Path | None = None,
    miss: Probability = 0.0,
    now: str | None = None,
    strict: bool = True,
    report: OutputFile | None = None,
) -> Outcome:
    """Check a declaration and evidence for it, offline, with nothing but the public keys.

    Args:
        declaration: The declaration.
        evidence: The evidence.
        key: Public keys that are trusted already.
        threshold: How many of them must have signed; all by default.
        challenge: The challenge that the evidence must answer.
        commitment: Commitments received before the draw; each must be part of the challenge.
        request: The request number that the evidence must answer, where there is no challenge.
        ask: Ids that were asked about; each must be opened or denied.
        previous: Declaration held from before; this one must follow it, and evidence must prove the history.
        directory: Demand the whole directory of ids.
        files: Folder with the files of the opened items, to hash again.
        miss: Probability that inspecting a violating item shows nothing, for the assurance.
        now: Time of the check, as 2026-01-31T12:00:00Z; the clock's by default.
        strict: End with an error where anything is refused; without it the refusal is only reported.
        report: HTML report, written in both cases.
    """
    from workingpapers.governance.arms_control.checking import check

    return check(
        declaration, evidence, key, threshold, challenge, commitment, request, ask, previous, directory, files, miss,
        now, strict, report,
    )  # fmt: skip


def run_inspect(
    *,
    size: Count | None = None,
    violations: Count = 1,
    wanted: Annotated[float, Between(0, 1, open_low=True, open_high=True)] = 0.95,
    miss: Probability = 0.0,
    count: Annotated[int, Between(0)] | None = None,
    strata: InputFile | None = None,
    periods: Annotated[int, Between(0, 200)] = 0,
    inspections: Annotated[int, Between(0, 200)] = 0,
    gain: Annotated[float, Between(0)] | None = None,
    loss: Annotated[float, Between(0)] | None = None,
    report: OutputFile | None = None,
) -> Outcome:
    """Plan an inspection: how many items, in which strata, in which periods.

    Args:
        size: Number of declared items.
        violations: Number of violations to detect.
        wanted: Wanted probability of meeting at least one.
        miss: Probability that inspecting a violating item shows nothing.
        count: A sample size whose detection probability is wanted.
        strata: Table with name, size and optionally miss and cost of each stratum, instead of the size.
        periods: Periods over which inspections are spread.
        inspections: Inspections over all periods.
        gain: What a violator gains unseen.
        loss: What a violator loses when detected.
        report: HTML report with detection curves.
    """
    from workingpapers.governance.arms_control.analysing import plan_inspection

    return plan_inspection(size, violations, wanted, miss, count, strata, periods, inspections, gain, loss, report)


def run_transcript(
    transcript: InputFile,
    *,
    data: InputFile,
    step: InputFile,
    segment: tuple[int, ...] = (),
    challenge: InputFile | None = None,
    root: str | None = None,
    tolerance: Annotated[float, Between(0)] = 0.0,
    forged: Count = 1,
    strict: bool = True,
    report: OutputFile | None = None,
    progress: Progress = silent,
) -> Outcome:
    """Re-run segments of a training transcript and compare with the committed checkpoints.

    Args:
        transcript: The transcript.json, with the checkpoints beside it.
        data: The verifier's copy of the data set, a .npz file of arrays.
        step: The verifier's own Python file with step(state, batch, seed, settings); it is run.
        segment: Segments to re-run; all by default.
        challenge: Challenge drawn for this transcript, which decides the segments.
        root: Declared root of the transcript.
        tolerance: Largest accepted difference of a parameter; 0 for deterministic arithmetic.
        forged: Forged segments for which the detection probability is told.
        strict: End with an error where a segment is not reproduced; without it all findings are shown.
        report: HTML report, written in both cases.
    """
    from workingpapers.governance.arms_control.checking import check_transcript

    return check_transcript(
        transcript, data, step, segment, challenge, root, tolerance, forged, strict, report, progress
    )


def run_compute(
    account: InputFile,
    *,
    tolerance: Annotated[float, Between(0, 1, open_high=True)] = 0.1,
    report: OutputFile | None = None,
) -> Outcome:
    """Compare declared training with chip capacity and utilisation logs.

    Args:
        account: JSON with the lists runs (parameters and tokens, or operations), chips and logs (count, peak, hours,
            utilisation).
        tolerance: Share of the used operations that may stay unexplained.
        report: HTML report.
    """
    from workingpapers.governance.arms_control.checking import check_compute

    return check_compute(account, tolerance, report)


def run_escalation(
    log: InputFile,
    *,
    review_seconds: Annotated[float, Between(0)] = 0.0,
    baseline_days: Count = 14,
    baseline: Annotated[float, Between(0, 1, open_low=True, open_high=True)] | None = None,
    seed: int = 0,
    report: OutputFile | None = None,
) -> Outcome:
    """Score a log of AI decision support for escalation, compare models, watch human influence.

    Args:
        log: JSON lines with run, day, actor, category, model_id and, where known, human_override and latency_s.
        review_seconds: Least time in which a human can review one recommendation.
        baseline_days: First days that set the override rate in control.
        baseline: Override rate in control, instead of the first days'.
        seed: Seed of resampling.
        report: HTML report.
    """
    from workingpapers.governance.arms_control.scoring import score_log

    return score_log(log, review_seconds, baseline_days, baseline, seed, report)


def run_sign_model(book: InputFile, *, item: str, key: InputFile, out: OutputFile) -> Outcome:
    """Write an OpenSSF model signature over the files of a declared item.

    Args:
        book: Secret book of the declaration.
        item: Id of the item.
        key: Private key of kind p256.
        out: The signature, model.sig.
    """
    from workingpapers.governance.arms_control.declaring import make_model_signature

    return make_model_signature(book, item, key, out)
