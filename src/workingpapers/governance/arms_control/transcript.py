"""Training transcripts: commit to checkpoints as training runs, re-run a sample of segments later.

A segment is a fixed number of steps between two checkpoints. The verifier starts from the committed checkpoint, repeats
the logged steps with its own step function and data, and compares with the next committed checkpoint. Nothing here
needs torch: a state is a mapping of names to arrays, and anything that ``numpy.asarray`` takes is an array.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal, Protocol

import numpy as np
import numpy.typing as npt

from workingpapers.foundations.canonical_json import canonical
from workingpapers.foundations.errors import InputError
from workingpapers.foundations.merkle import MerkleTree, leaf_hash
from workingpapers.foundations.progress import Progress, silent
from workingpapers.governance.arms_control.items import is_hex

State = Mapping[str, Any]
"""Names to arrays: everything that the next step depends on (weights, optimiser moments, running averages)."""
Batch = tuple[Any, ...]
"""Arrays of one step."""
Finding = Literal[
    "reproduced", "differs", "not the committed checkpoint", "not the declared data", "not the declared log"
]


class StepFunction(Protocol):
    """One step of training, supplied by the verifier: the same state, batch, seed and settings give the same state."""

    def __call__(self, state: State, batch: Batch, seed: int, settings: Mapping[str, Any]) -> State:
        """Return the state after the step."""


@dataclass(frozen=True)
class SegmentLog:
    """What the trainer logs about one segment.

    Args:
        first_step: Number of its first step, from 0.
        rows: For each step, the rows of the data set in the order used.
        batch_hashes: For each step, the hash of the batch (:func:`hash_arrays`).
        seeds: For each step, the seed of its random numbers.
        settings: Hyper-parameters, JSON types.
    """

    first_step: int
    rows: tuple[tuple[int, ...], ...]
    batch_hashes: tuple[str, ...]
    seeds: tuple[int, ...]
    settings: Mapping[str, Any]

    def digest(self) -> str:
        """Return the SHA-256 of the canonical log, hexadecimal."""
        return hashlib.sha256(canonical(asdict(self))).hexdigest()


@dataclass(frozen=True)
class Transcript:
    """What is committed to: the digests of all checkpoints and logs, in order.

    Args:
        every: Steps in each segment.
        settings: Declared hyper-parameters.
        data: Digest of the data set (:func:`hash_arrays`).
        checkpoints: Digests of the s + 1 checkpoints.
        logs: Digests of the s logs.
    """

    every: int
    settings: Mapping[str, Any]
    data: str
    checkpoints: tuple[str, ...]
    logs: tuple[str, ...]

    def __post_init__(self) -> None:
        if self.every < 1 or len(self.checkpoints) != len(self.logs) + 1 or not self.logs:
            raise InputError(f"A transcript with {len(self.checkpoints)} checkpoints and {len(self.logs)} logs of "
                             f"{self.every} steps is malformed; s segments have s + 1 checkpoints.")  # fmt: skip
        if not all(is_hex(digest) for digest in (self.data, *self.checkpoints, *self.logs)):
            raise InputError("A transcript holds a malformed digest; digests are 64 hexadecimal digits.")

    @property
    def segments(self) -> int:
        """Number of segments."""
        return len(self.logs)

    def root(self) -> str:
        """Return the Merkle root to declare: over the settings, the data and each segment (start, end, log)."""
        head = canonical({"every": self.every, "settings": dict(self.settings), "data": self.data})
        entries = [
            canonical({"segment": k, "start": self.checkpoints[k], "end": self.checkpoints[k + 1], "log": self.logs[k]})
            for k in range(self.segments)
        ]
        return MerkleTree(leaf_hash(entry) for entry in (head, *entries)).root().hex()


@dataclass(frozen=True)
class SegmentVerdict:
    """Result of re-running one segment.

    Args:
        segment: Its number.
        finding: What was found; ``"reproduced"`` alone is acceptance.
        distance: Largest difference of any parameter from the committed checkpoint, infinite where it is not
            comparable, None where nothing was re-run.
    """

    segment: int
    finding: Finding
    distance: float | None

    @property
    def accepted(self) -> bool:
        """Whether the segment was reproduced."""
        return self.finding == "reproduced"


def hash_arrays(arrays: State | Sequence[Any]) -> str:
    """Return the SHA-256 over names, types, shapes and contents of arrays, hexadecimal.

    Args:
        arrays: Names to arrays, or arrays in order. Contents are hashed as little-endian bytes in C order.

    Raises:
        InputError: An array holds Python objects, whose bytes mean nothing.
    """
    named = dict(arrays) if isinstance(arrays, Mapping) else {f"{k:06d}": a for k, a in enumerate(arrays)}
    digest = hashlib.sha256()
    for name in sorted(named):
        array = np.asarray(named[name])
        if array.dtype.hasobject:
            raise InputError(f"The array {name!r} holds Python objects; store numbers.")
        array = array.astype(array.dtype.newbyteorder("<"), copy=False)
        head = json.dumps([name, array.dtype.str.lstrip("<|="), list(array.shape)]).encode()
        digest.update(len(head).to_bytes(8, "big") + head + np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


def record(
    state: State,
    step: StepFunction,
    data: Sequence[npt.NDArray[Any]],
    plan: Sequence[tuple[Sequence[int], int]],
    settings: Mapping[str, Any],
    every: int,
    progress: Progress = silent,
) -> tuple[Transcript, list[State], list[SegmentLog]]:
    """Train and keep the transcript.

    Args:
        state: Initial state.
        step: Step function.
        data: Arrays of the data set with rows along the first axis.
        plan: For each step, its rows and its seed.
        settings: Hyper-parameters, handed to every step.
        every: Steps between checkpoints; the number of steps must be a multiple.
        progress: Called once a segment.

    Returns:
        The transcript to commit to, the s + 1 checkpoints and the s logs to keep for inspection.

    Raises:
        InputError: The number of steps is no multiple of `every`.
    """
    if every < 1 or not plan or len(plan) % every:
        raise InputError(f"There are {len(plan)} steps in segments of {every}; use a multiple.")
    checkpoints, logs = [dict(state)], []
    for first in range(0, len(plan), every):
        progress(first / len(plan), f"Step {first} of {len(plan)}")
        hashes = []
        for rows, seed in plan[first : first + every]:
            batch = take(data, rows)
            hashes.append(hash_arrays(batch))
            state = step(state, batch, seed, settings)
        part = plan[first : first + every]
        rows_used = tuple(tuple(int(row) for row in rows) for rows, _ in part)
        logs.append(SegmentLog(first, rows_used, tuple(hashes), tuple(int(seed) for _, seed in part), dict(settings)))
        checkpoints.append(dict(state))
    return commit_transcript(checkpoints, logs, settings, hash_arrays(data), every), list(checkpoints), logs


def commit_transcript(
    checkpoints: Sequence[State], logs: Sequence[SegmentLog], settings: Mapping[str, Any], data: str, every: int
) -> Transcript:
    """Return the transcript over given checkpoints and logs (`data` is the digest of the data set).

    Args:
        checkpoints: The s + 1 checkpoints in order.
        logs: The s logs in order.
        settings: Declared hyper-parameters.
        data: Digest of the data set.
        every: Steps in each segment.
    """
    return Transcript(
        every, dict(settings), data, tuple(hash_arrays(c) for c in checkpoints), tuple(log.digest() for log in logs)
    )


def take(data: Sequence[npt.NDArray[Any]], rows: Sequence[int]) -> Batch:
    """Return the rows of every array of the data set.

    Args:
        data: Arrays with rows along the first axis.
        rows: Numbers of rows, in order.
    """
    return tuple(array[list(rows)] for array in data)


@dataclass(frozen=True)
class Opening:
    """What the trainer discloses about one segment: the checkpoint before it, the one after it, and its log."""

    start: State
    end: State
    log: SegmentLog


def verify_segments(
    transcript: Transcript,
    openings: Mapping[int, Opening],
    step: StepFunction,
    data: Sequence[npt.NDArray[Any]],
    tolerance: float = 0.0,
    progress: Progress = silent,
) -> list[SegmentVerdict]:
    r"""Re-run the opened segments and compare: accepted iff :math:`\|w' - w_{i+1}\|_\infty \le tol`.

    Before a segment runs, its checkpoints and its log must be the committed ones, the log must cover exactly the
    steps of this segment under the declared settings, and every batch must be what the rows of the verifier's data
    give.

    Args:
        transcript: The committed transcript.
        openings: Number of a segment to what was disclosed about it.
        step: The verifier's step function.
        data: The verifier's copy of the data set: arrays with rows along the first axis.
        tolerance: Largest accepted difference: 0 for deterministic arithmetic, else see :func:`calibrate_tolerance`.
        progress: Called once a segment.

    Returns:
        One verdict for each opening, in its order.

    Raises:
        InputError: There is no such segment, the tolerance is negative, or the verifier's data are not the declared
            ones.

    References:
        Jia et al., Proof-of-Learning, arXiv 2103.05633; Shavit, arXiv 2303.11341.
    """
    if not tolerance >= 0:
        raise InputError(f"The tolerance is {tolerance:g}; it must be at least 0.")
    for segment in openings:
        if not 0 <= segment < transcript.segments:
            raise InputError(
                f"There is no segment {segment}; the transcript has {transcript.segments}, counted from 0."
            )
    if hash_arrays(data) != transcript.data:
        raise InputError("The data set differs from the declared one (other digest); obtain the declared data first.")
    verdicts = []
    for done, (segment, opening) in enumerate(openings.items()):
        progress(done / len(openings), f"Re-running segment {segment}")
        verdicts.append(_verify_segment(transcript, segment, opening, step, data, tolerance))
    return verdicts


def _verify_segment(
    transcript: Transcript,
    segment: int,
    opening: Opening,
    step: StepFunction,
    data: Sequence[npt.NDArray[Any]],
    tolerance: float,
) -> SegmentVerdict:
    log = opening.log
    disclosed = (hash_arrays(opening.start), hash_arrays(opening.end))
    if disclosed != transcript.checkpoints[segment : segment + 2]:
        return SegmentVerdict(segment, "not the committed checkpoint", None)
    lengths = {len(log.rows), len(log.batch_hashes), len(log.seeds)}
    right = log.digest() == transcript.logs[segment] and log.first_step == segment * transcript.every
    if not right or lengths != {transcript.every} or canonical(log.settings) != canonical(transcript.settings):
        return SegmentVerdict(segment, "not the declared log", None)
    state = opening.start
    for rows, expected, seed in zip(log.rows, log.batch_hashes, log.seeds, strict=True):
        if any(not 0 <= row < len(data[0]) for row in rows):
            return SegmentVerdict(segment, "not the declared data", None)
        batch = take(data, rows)
        if hash_arrays(batch) != expected:
            return SegmentVerdict(segment, "not the declared data", None)
        state = step(state, batch, seed, log.settings)
    distance = max_difference(state, opening.end)
    return SegmentVerdict(segment, "reproduced" if distance <= tolerance else "differs", distance)


def max_difference(one: State, other: State) -> float:
    """Return the largest absolute difference between two states; infinite where names, shapes or NaN differ.

    Args:
        one: A state.
        other: Another state.
    """
    if set(one) != set(other):
        return float("inf")
    largest = 0.0
    for name in one:
        a, b = np.asarray(one[name], dtype=np.float64), np.asarray(other[name], dtype=np.float64)
        if a.shape != b.shape:
            return float("inf")
        if a.size and not np.array_equal(a, b):
            gap = float(np.max(np.abs(a - b)))
            largest = max(largest, gap if np.isfinite(gap) else float("inf"))
    return largest


def calibrate_tolerance(distances: Sequence[float], quantile: float = 0.999, factor: float = 2.0) -> float:
    """Return the tolerance for arithmetic that is not deterministic: a quantile of honest distances times a factor.

    Args:
        distances: Distances of honest re-runs on the verifier's own machines, at least one; a thousand for 0.999.
        quantile: Share of honest re-runs below it.
        factor: Safety factor. A tolerance also gives a forger room: keep it far below one step's change.

    Raises:
        InputError: No distances, or one that is negative or not finite.
    """
    values = np.asarray(distances, dtype=np.float64)
    if values.size == 0 or not np.isfinite(values).all() or values.min() < 0:
        raise InputError(f"{values.size} honest distances were given; give finite ones that are not negative.")
    return float(np.quantile(values, quantile) * factor)
