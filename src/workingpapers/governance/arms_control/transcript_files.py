"""Transcripts on disk: one JSON file of digests and logs, one ``.npz`` file a checkpoint."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from workingpapers.foundations.canonical_json import parse_strict
from workingpapers.foundations.errors import InputError
from workingpapers.foundations.files import check_readable, read_text, whole_file
from workingpapers.governance.arms_control.transcript import SegmentLog, State, StepFunction, Transcript


def checkpoint_name(index: int) -> str:
    """Return the file name of checkpoint `index`.

    Args:
        index: Number of the checkpoint, from 0.
    """
    return f"checkpoint_{index:05d}.npz"


def write_transcript(
    folder: str | os.PathLike[str], transcript: Transcript, checkpoints: Sequence[State], logs: Sequence[SegmentLog]
) -> Path:
    """Write ``transcript.json`` and the checkpoints into `folder`, which is made where it does not exist.

    Args:
        folder: Where the files shall stand.
        transcript: The transcript.
        checkpoints: The s + 1 checkpoints in order.
        logs: The s logs in order.

    Returns:
        The path of ``transcript.json``; declare its :meth:`~.transcript.Transcript.root`.

    Raises:
        InputError: A file cannot be written.
    """
    place = Path(folder)
    place.mkdir(parents=True, exist_ok=True)
    for index, state in enumerate(checkpoints):
        with whole_file(place / checkpoint_name(index), "wb") as stream:
            np.savez(stream, allow_pickle=False, **{name: np.asarray(array) for name, array in state.items()})
    with whole_file(place / "transcript.json") as stream:
        content = {"version": 1, "transcript": asdict(transcript), "logs": [asdict(log) for log in logs]}
        json.dump(content, stream, separators=(",", ":"))
        stream.write("\n")
    return place / "transcript.json"


def read_transcript(path: str | os.PathLike[str]) -> tuple[Transcript, list[SegmentLog]]:
    """Read ``transcript.json``.

    Args:
        path: The ``transcript.json``.

    Raises:
        InputError: The file is malformed, or has another number of logs than segments.
    """
    name = repr(str(path))
    content = parse_strict(read_text(path), name)
    try:
        if content["version"] != 1:
            raise InputError(f"{name} has the version {content['version']!r}; this program reads version 1.")
        fields = content["transcript"]
        transcript = Transcript(
            int(fields["every"]),
            fields["settings"],
            fields["data"],
            tuple(fields["checkpoints"]),
            tuple(fields["logs"]),
        )
        logs = [_log(entry) for entry in content["logs"]]
    except (KeyError, TypeError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{name} is not a training transcript; write it with `write_transcript`.") from None
    if len(logs) != transcript.segments:
        raise InputError(f"{name} holds {len(logs)} logs for {transcript.segments} segments; it was cut.")
    return transcript, logs


def read_arrays(path: str | os.PathLike[str]) -> dict[str, npt.NDArray[Any]]:
    """Read a ``.npz`` file without running anything that is stored in it.

    Args:
        path: The ``.npz`` file.

    Raises:
        InputError: The file is no such archive or holds Python objects.
    """
    target = check_readable(path)
    try:
        with np.load(target, allow_pickle=False) as archive:
            if not hasattr(archive, "files"):
                raise ValueError("a single array")
            return {name: archive[name] for name in archive.files}
    except Exception:
        raise InputError(f"{str(target)!r} is not a .npz file of plain arrays; write it with numpy.savez.") from None


def load_step(path: str | os.PathLike[str], name: str = "step") -> StepFunction:
    """Return the function `name` of the Python file `path`: the verifier's own code, which is run.

    Args:
        path: A Python file.
        name: Name of the function in it.

    Raises:
        InputError: The file cannot be run or has no such function.
    """
    import runpy

    target = str(check_readable(path))
    try:
        found: Callable[..., Any] | None = runpy.run_path(target).get(name)
    except Exception as error:
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        raise InputError(f"The step file {target!r} cannot be run ({reason}); correct it.") from None
    if not callable(found):
        raise InputError(f"The step file {target!r} has no function {name}(state, batch, seed, settings); define it.")
    return found


def _log(entry: Mapping[str, Any]) -> SegmentLog:
    return SegmentLog(
        int(entry["first_step"]),
        tuple(tuple(int(row) for row in rows) for rows in entry["rows"]),
        tuple(str(digest) for digest in entry["batch_hashes"]),
        tuple(int(seed) for seed in entry["seeds"]),
        dict(entry["settings"]),
    )
