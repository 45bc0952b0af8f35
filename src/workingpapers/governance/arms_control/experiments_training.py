"""Experiment on training transcripts: forged segments among honest ones."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from workingpapers.foundations.progress import Progress
from workingpapers.governance.arms_control.inspection import detection_probability
from workingpapers.governance.arms_control.transcript import (
    Opening,
    SegmentLog,
    State,
    commit_transcript,
    hash_arrays,
    record,
    take,
    verify_segments,
)

Metrics = dict[str, float]


def _network_step(state: State, batch: tuple[Any, ...], seed: int, settings: Mapping[str, Any]) -> State:
    """One step of gradient descent on a two-layer network with softmax loss, all in float64."""
    x, y = batch
    hidden = np.tanh(x @ state["a"] + state["b"])
    logits = hidden @ state["c"] + state["d"]
    logits = logits - logits.max(axis=1, keepdims=True)
    error = np.exp(logits)
    error /= error.sum(axis=1, keepdims=True)
    error[np.arange(len(y)), y] -= 1
    error /= len(y)
    back = (error @ state["c"].T) * (1 - hidden**2)
    rate = settings["rate"]
    return {
        "a": state["a"] - rate * (x.T @ back),
        "b": state["b"] - rate * back.sum(axis=0),
        "c": state["c"] - rate * (hidden.T @ error),
        "d": state["d"] - rate * error.sum(axis=0),
    }


def audit(seed: int, progress: Progress, *, segments: int, every: int, forged: int, draws: int, way: str) -> Metrics:
    """Train on the digits, forge segments in four ways, and judge every segment."""
    from sklearn.datasets import load_digits

    rng = np.random.default_rng(seed)
    images, labels = load_digits(return_X_y=True)
    data = (images / 16.0, labels)
    state = {"a": rng.normal(0, 0.1, (64, 24)), "b": np.zeros(24), "c": rng.normal(0, 0.2, (24, 10)), "d": np.zeros(10)}
    settings = {"rate": 0.5}
    plan = [(rng.integers(0, len(labels), 32).tolist(), 0) for _ in range(segments * every)]
    _, checkpoints, logs = record(state, _network_step, data, plan, settings, every)
    chosen = np.sort(rng.choice(segments, forged, replace=False))
    checkpoints, logs = _forge(checkpoints, logs, chosen, data, every, rng)
    transcript = commit_transcript(checkpoints, logs, settings, hash_arrays(data), every)
    truth = np.isin(np.arange(segments), chosen)
    openings = {k: Opening(checkpoints[k], checkpoints[k + 1], logs[k]) for k in range(segments)}
    if way == "re-run":
        verdicts = verify_segments(transcript, openings, _network_step, data, 0.0, progress)
        rejected = np.array([not verdict.accepted for verdict in verdicts])
    elif way == "hashes only":
        rejected = np.array(
            [
                (hash_arrays(o.start), hash_arrays(o.end)) != transcript.checkpoints[k : k + 2]
                for k, o in openings.items()
            ]
        )
    else:
        rejected = _step_length_outliers(checkpoints, truth)
    # Draws of a quarter of the segments: caught when one that was rejected is among them.
    count = max(1, segments // 4)
    met = np.mean([rejected[rng.choice(segments, count, replace=False)].any() for _ in range(draws)])
    return {
        "balanced_error": 0.5 * float((~rejected[truth]).mean() + rejected[~truth].mean()),
        "forged_accepted": float((~rejected[truth]).mean()),
        "honest_rejected": float(rejected[~truth].mean()),
        "detection": float(met),
        "planned_detection": detection_probability(segments, forged, count),
    }


def _forge(
    checkpoints: list[State], logs: list[SegmentLog], chosen: npt.NDArray[np.int64], data: tuple[Any, ...], every: int,
    rng: np.random.Generator,
) -> tuple[list[State], list[SegmentLog]]:  # fmt: skip
    """Replace the chosen segments by skipped steps, swapped data, extrapolation or another rate, and train on.

    The segments after a forged one are honest work from the forged checkpoint, as a cheater would do it: only the
    chosen segments themselves cannot be reproduced.
    """
    ways = [("skipped", "swapped", "extrapolated", "rate")[k % 4] for k in range(chosen.size)]
    forged = dict(zip(chosen.tolist(), ways, strict=True))
    made: list[State] = [checkpoints[0]]
    for k, log in enumerate(logs):
        start, way = made[-1], forged.get(k, "honest")
        state, used, settings = start, list(log.rows), dict(log.settings)
        if way == "skipped":
            used = used[: every - max(1, every // 10)]
        elif way == "swapped":
            used = [tuple(int(i) for i in rng.integers(0, len(data[0]), len(rows))) for rows in used]
        elif way == "rate":
            settings["rate"] *= 1.05
        for rows in used:
            state = _network_step(state, take(data, rows), 0, settings)
        if way == "extrapolated":
            # Half of the steps, and the other half guessed from them.
            half = start
            for rows in used[: every // 2]:
                half = _network_step(half, take(data, rows), 0, settings)
            state = {name: start[name] + 2 * (half[name] - start[name]) for name in start}
        made.append(state)
    return made, logs


def _step_length_outliers(checkpoints: list[State], truth: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    """The plain way: segments whose length stands out from the trend, with the threshold best on the truth itself."""
    flat = np.array([np.concatenate([np.ravel(v) for v in c.values()]) for c in checkpoints])
    moves = np.diff(flat, axis=0)
    length = np.log(np.linalg.norm(moves, axis=1))
    index = np.arange(length.size)
    trend = np.polyval(np.polyfit(index, length, 3), index)
    score = np.abs(length - trend)
    best, flagged = math.inf, np.zeros(length.size, bool)
    for threshold in [*np.unique(score), math.inf]:
        trial = score >= threshold
        error = (~trial[truth]).mean() + trial[~truth].mean()
        if error < best:
            best, flagged = error, trial
    return np.asarray(flagged)
