"""Training transcripts of a numpy model: honest segments reproduce, forged ones do not."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from workingpapers.foundations.errors import InputError
from workingpapers.governance.arms_control.transcript import (
    Opening,
    SegmentLog,
    Transcript,
    calibrate_tolerance,
    commit_transcript,
    hash_arrays,
    max_difference,
    record,
    take,
    verify_segments,
)
from workingpapers.governance.arms_control.transcript_files import (
    checkpoint_name,
    load_step,
    read_arrays,
    read_transcript,
    write_transcript,
)

SETTINGS = {"rate": 0.1, "noise": 0.01}
STEP_SOURCE = """
import numpy as np

def step(state, batch, seed, settings):
    x, y = batch
    gradient = x.T @ (x @ state["w"] - y) / len(y)
    noise = np.random.default_rng(seed).normal(0, settings["noise"], gradient.shape)
    return {"w": state["w"] - settings["rate"] * (gradient + noise), "count": state["count"] + 1}
"""


@pytest.fixture(scope="module")
def step(tmp_path_factory: pytest.TempPathFactory) -> Any:
    path = tmp_path_factory.mktemp("step") / "step.py"
    path.write_text(STEP_SOURCE)
    return load_step(path)


@pytest.fixture(scope="module")
def training(step: Any) -> Any:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(60, 4))
    data = (x, x @ np.array([1.0, -2.0, 0.5, 0.0]))
    plan = [(rng.integers(0, 60, 8), int(rng.integers(1 << 31))) for _ in range(30)]
    start = {"w": np.zeros(4), "count": np.array(0)}
    return data, *record(start, step, data, plan, SETTINGS, 5)


def openings(checkpoints: Any, logs: Any) -> dict[int, Opening]:
    return {k: Opening(checkpoints[k], checkpoints[k + 1], log) for k, log in enumerate(logs)}


def test_honest_segments_reproduce_exactly(training: Any, step: Any) -> None:
    data, transcript, checkpoints, logs = training
    assert transcript.segments == 6
    verdicts = verify_segments(transcript, openings(checkpoints, logs), step, data)
    assert [v.finding for v in verdicts] == ["reproduced"] * 6
    assert [v.distance for v in verdicts] == [0.0] * 6
    assert all(v.accepted for v in verdicts)


def recommit(training: Any, checkpoints: Any = None, logs: Any = None) -> Any:
    """What a forger does: commit to other checkpoints or logs from the start."""
    data, transcript, old_checkpoints, old_logs = training
    checkpoints, logs = checkpoints or old_checkpoints, logs or old_logs
    forged = commit_transcript(checkpoints, logs, transcript.settings, transcript.data, transcript.every)
    return data, forged, checkpoints, logs


def findings(training: Any, step: Any, tolerance: float = 0.0) -> list[str]:
    data, transcript, checkpoints, logs = training
    return [v.finding for v in verify_segments(transcript, openings(checkpoints, logs), step, data, tolerance)]


def test_a_moved_checkpoint_breaks_both_segments_that_meet_there(training: Any, step: Any) -> None:
    checkpoints = list(training[2])
    checkpoints[3] = {**checkpoints[3], "w": np.nextafter(checkpoints[3]["w"], 9)}
    found = findings(recommit(training, checkpoints=checkpoints), step)
    assert found == ["reproduced", "reproduced", "differs", "differs", "reproduced", "reproduced"]


def test_skipped_steps_swapped_data_and_another_rate_are_found(training: Any, step: Any) -> None:
    data, _, checkpoints, logs = training

    def forge(segment: int, rows: Any, settings: Any, skip: int) -> list[str]:
        state = checkpoints[segment]
        for used, seed in list(zip(rows, logs[segment].seeds, strict=True))[skip:]:
            state = step(state, take(data, used), seed, settings)
        changed = [*checkpoints[: segment + 1], {**state, "count": checkpoints[segment + 1]["count"]}]
        return findings(recommit(training, checkpoints=[*changed, *checkpoints[segment + 2 :]]), step)

    rows = logs[2].rows
    assert forge(2, rows, SETTINGS, 0) == ["reproduced"] * 6
    assert forge(2, rows, SETTINGS, 1)[2] == "differs"
    assert forge(2, rows[::-1], SETTINGS, 0)[2] == "differs"
    assert forge(2, rows, {**SETTINGS, "rate": 0.1 + 1e-9}, 0)[2] == "differs"


def test_logs_that_do_not_fit_are_found(training: Any, step: Any) -> None:
    data, _, checkpoints, logs = training

    def with_log(**changes: Any) -> str:
        changed = [*logs[:1], dataclasses.replace(logs[1], **changes), *logs[2:]]
        return findings(recommit(training, logs=changed), step)[1]

    assert with_log(settings={**SETTINGS, "rate": 0.2}) == "not the declared log"
    assert with_log(first_step=0) == "not the declared log"
    assert with_log(seeds=logs[1].seeds[:-1]) == "not the declared log"
    assert with_log(rows=logs[2].rows) == "not the declared data"
    assert with_log(rows=((99,) * 8, *logs[1].rows[1:])) == "not the declared data"
    assert with_log(seeds=(0, *logs[1].seeds[1:])) == "differs"
    # Disclosed against another commitment.
    _, transcript, _, _ = training
    opened = Opening(checkpoints[1], checkpoints[2], logs[1])
    assert verify_segments(transcript, {2: opened}, step, data)[0].finding == "not the committed checkpoint"
    opened = Opening(checkpoints[2], checkpoints[3], logs[1])
    assert verify_segments(transcript, {2: opened}, step, data)[0].finding == "not the declared log"


def test_wrong_data_and_absent_segments_are_input_errors(training: Any, step: Any) -> None:
    data, transcript, checkpoints, logs = training
    opened = Opening(checkpoints[0], checkpoints[1], logs[0])
    with pytest.raises(InputError, match="differs from the declared one"):
        verify_segments(transcript, {0: opened}, step, (data[0] + 1e-12, data[1]))
    with pytest.raises(InputError, match="There is no segment 6"):
        verify_segments(transcript, {6: opened}, step, data)
    with pytest.raises(InputError, match="at least 0"):
        verify_segments(transcript, {0: opened}, step, data, tolerance=-1)
    with pytest.raises(InputError, match="use a multiple"):
        record({}, step, data, [([0], 1)] * 7, SETTINGS, 5)


def test_tolerance_takes_noise_and_not_forgery(training: Any, step: Any) -> None:
    """Arithmetic that is not deterministic: honest re-runs differ by 1e-12, one skipped step by far more."""
    data, _, checkpoints, logs = training
    rng = np.random.default_rng(1)

    def jittery(state: Any, batch: Any, seed: int, settings: Any) -> Any:
        after = step(state, batch, seed, settings)
        return {**after, "w": after["w"] + rng.normal(0, 1e-12, 4)}

    opened = openings(checkpoints, logs)
    distances = [v.distance for _ in range(40) for v in verify_segments(training[1], opened, jittery, data, 1.0)]
    tolerance = calibrate_tolerance([d for d in distances if d is not None])
    assert 1e-12 < tolerance < 1e-10
    assert findings(training, jittery, tolerance) == ["reproduced"] * 6
    assert findings(training, jittery, 0.0) == ["differs"] * 6
    for wrong in ([], [-1.0], [float("nan")]):
        with pytest.raises(InputError, match="honest distances"):
            calibrate_tolerance(wrong)


def test_hash_covers_names_types_shapes_and_contents() -> None:
    base = {"a": np.arange(6.0)}
    others: list[Any] = [
        {"b": np.arange(6.0)},
        {"a": np.arange(6.0).reshape(2, 3)},
        {"a": np.arange(6.0).astype(np.float32)},
        {"a": np.arange(6)},
        {"a": np.arange(1.0, 7.0)},
        {"a": np.arange(3.0), "b": np.arange(3.0, 6.0)},
        {},
    ]
    assert len({hash_arrays(value) for value in [base, *others]}) == len(others) + 1
    assert hash_arrays({"a": np.arange(6.0).astype(">f8")}) == hash_arrays(base)
    assert hash_arrays({"a": np.asfortranarray(np.arange(6.0).reshape(2, 3))}) == hash_arrays(others[1])
    with pytest.raises(InputError, match="Python objects"):
        hash_arrays({"a": np.array([None])})


def test_differences_that_cannot_be_compared_are_infinite() -> None:
    one = {"a": np.zeros(2)}
    assert max_difference(one, {"a": np.array([0.0, -3.0])}) == 3.0
    assert max_difference(one, {"b": np.zeros(2)}) == float("inf")
    assert max_difference(one, {"a": np.zeros(3)}) == float("inf")
    assert max_difference(one, {"a": np.array([0.0, np.nan])}) == float("inf")


def test_root_binds_settings_data_order_and_every_digest(training: Any) -> None:
    _, transcript, _, _ = training
    roots = {transcript.root()}
    swapped = [*transcript.checkpoints]
    swapped[1], swapped[2] = swapped[2], swapped[1]
    for changes in (
        {"settings": {**SETTINGS, "rate": 0.2}},
        {"data": "00" * 32},
        {"every": 6},
        {"checkpoints": tuple(swapped)},
        {"logs": transcript.logs[::-1]},
        {"checkpoints": transcript.checkpoints[:-1], "logs": transcript.logs[:-1]},
    ):
        roots.add(dataclasses.replace(transcript, **changes).root())
    assert len(roots) == 7
    with pytest.raises(InputError, match=r"s \+ 1 checkpoints"):
        dataclasses.replace(transcript, logs=transcript.logs[:-1])
    with pytest.raises(InputError, match="malformed digest"):
        dataclasses.replace(transcript, data="zz")


def test_transcripts_survive_their_files(training: Any, step: Any, tmp_path: Path) -> None:
    _, transcript, checkpoints, logs = training
    path = write_transcript(tmp_path / "run", transcript, checkpoints, logs)
    back, back_logs = read_transcript(path)
    assert back == transcript
    assert back_logs == logs
    assert hash_arrays(read_arrays(tmp_path / "run" / checkpoint_name(4))) == transcript.checkpoints[4]
    text = path.read_text()
    path.write_text(text.replace('"version":1', '"version":2'))
    with pytest.raises(InputError, match="version 2"):
        read_transcript(path)
    path.write_text(text[:-40])
    with pytest.raises(InputError, match="not JSON"):
        read_transcript(path)
    path.write_text('{"version": 1}')
    with pytest.raises(InputError, match="not a training transcript"):
        read_transcript(path)
    np.save(tmp_path / "x.npy", np.zeros(2))
    np.savez(tmp_path / "objects.npz", a=np.array([{}], dtype=object))
    for name in ("x.npy", "objects.npz", "run/transcript.json"):
        with pytest.raises(InputError, match="plain arrays"):
            read_arrays(tmp_path / name)


def test_step_files_that_cannot_be_used(tmp_path: Path) -> None:
    path = tmp_path / "step.py"
    path.write_text("def other(): pass\n")
    with pytest.raises(InputError, match="has no function step"):
        load_step(path)
    path.write_text("1 / 0\n")
    with pytest.raises(InputError, match="ZeroDivisionError"):
        load_step(path)


def test_a_log_can_be_rebuilt_from_lists(training: Any) -> None:
    log = training[3][0]
    same = SegmentLog(0, log.rows, log.batch_hashes, log.seeds, dict(SETTINGS))
    assert same.digest() == log.digest()
    assert isinstance(training[1], Transcript)
