"""Measured runs as inputs: CodeCarbon and Zeus logs, power logs, Slurm accounting, usage logs of a serving endpoint."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from workingpapers.foundations.errors import InputError, near_match
from workingpapers.foundations.files import column, read_table, read_text
from workingpapers.governance.ai_lifecycle.attribution import energy_of_power

if TYPE_CHECKING:
    import pandas as pd

PathLike = str | os.PathLike[str]


@dataclass(frozen=True)
class Run:
    """One measured run.

    Args:
        label: Name of the run, window, device or job.
        electricity: Energy at the devices before PUE, kWh, or None where the log has none.
        device_time: Device hours.
        count: Requests, runs or windows behind it.
        note: What the log said beside.
    """

    label: str
    electricity: float | None
    device_time: float
    count: int = 1
    note: str = ""


def read_codecarbon(path: PathLike) -> list[Run]:
    """Read CodeCarbon's ``emissions.csv``.

    Rows of one run are cumulative, so its last row counts. The energy holds the PUE that the tracker was given; it is
    divided out, because the facility of the study applies its own.

    Args:
        path: The file.

    Raises:
        InputError: Not such a table, or a run with negative energy.
    """
    frame = read_table(path)
    energy, seconds, runs = (column(frame, name, path) for name in ("energy_consumed", "duration", "run_id"))
    pue = frame["pue"].fillna(1.0) if "pue" in frame.columns else energy * 0 + 1.0
    _numbers(path, energy, seconds, pue)
    devices = frame["gpu_count"].fillna(0).clip(lower=1) if "gpu_count" in frame.columns else energy * 0 + 1
    last = ~runs.duplicated(keep="last")
    names = frame["project_name"] if "project_name" in frame.columns else runs
    countries = frame["country_iso_code"] if "country_iso_code" in frame.columns else runs.map(lambda _: "")
    emissions = frame["emissions"] if "emissions" in frame.columns else energy * np.nan
    return [
        Run(str(n), float(e / p), float(s * d / 3600), note=f"CodeCarbon: {c}, {k:.6g} kgCO2e")
        for n, e, p, s, d, c, k in zip(
            *(item[last] for item in (names, energy, pue, seconds, devices, countries, emissions)), strict=True
        )
    ]


def read_zeus(path: PathLike) -> list[Run]:
    """Read the log of Zeus' energy monitor: one row a window, ``gpuN_energy`` in joules.

    Args:
        path: The file.

    Raises:
        InputError: Not such a table.
    """
    frame = read_table(path)
    seconds, windows = column(frame, "elapsed_time", path), column(frame, "window_name", path)
    gpus = [name for name in frame.columns if re.fullmatch(r"gpu\d+_energy", str(name))]
    if not gpus:
        raise InputError(f"{str(path)!r} has no column gpu0_energy; name a log of Zeus' energy monitor.")
    _numbers(path, seconds, *(frame[name] for name in gpus))
    joules = frame[gpus].sum(axis=1)
    return [
        Run(str(w), float(joules[windows == w].sum() / 3.6e6), float(seconds[windows == w].sum() * len(gpus) / 3600),
            int((windows == w).sum()))
        for w in windows.unique()
    ]  # fmt: skip


def read_power(path: PathLike) -> list[Run]:
    """Read a power log (``timestamp``, ``device``, ``watts``) and integrate it for each device.

    Args:
        path: The file; times are seconds or ISO 8601.

    Raises:
        InputError: Not such a table, or a device with fewer than two readings.
    """
    frame = read_table(path)
    times, devices, watts = (column(frame, name, path) for name in ("timestamp", "device", "watts"))
    _numbers(path, watts)
    seconds = _seconds(path, times)
    found = []
    for device in devices.unique():
        chosen = (devices == device).to_numpy()
        at, power = seconds[chosen], watts.to_numpy(dtype=np.float64)[chosen]
        if len(at) < 2 or (np.diff(at) <= 0).any():
            raise InputError(f"{str(path)!r}: device {device!r} needs at least two readings at rising times.")
        found.append(Run(str(device), energy_of_power(at, power), float(at[-1] - at[0]) / 3600))
    return found


def read_sacct(path: PathLike) -> list[Run]:
    """Read ``sacct --parsable2 --format=JobID,State,ElapsedRaw,AllocTRES,ConsumedEnergyRaw``, summed by state.

    Failed and cancelled jobs are runs too: they belong to experimentation. Steps (``123.batch``) repeat their job and
    are left out.

    Args:
        path: The file, fields separated by ``|``.

    Raises:
        InputError: Not such a table.
    """
    import csv
    import io

    rows = list(csv.DictReader(io.StringIO(read_text(path)), delimiter="|"))
    needed = ("JobID", "State", "ElapsedRaw", "AllocTRES")
    if not rows or any(name not in rows[0] for name in needed):
        raise InputError(f"{str(path)!r} needs the columns {', '.join(needed)} separated by '|'; export it by sacct.")
    sums: dict[str, list[float]] = {}
    for row in rows:
        if "." in row["JobID"]:
            continue
        try:
            seconds = float(row["ElapsedRaw"] or 0)
            joules = float(row.get("ConsumedEnergyRaw") or 0)
        except ValueError:
            raise InputError(f"{str(path)!r}: job {row['JobID']} has no number in ElapsedRaw or energy.") from None
        gpus = re.search(r"gres/gpu=(\d+)", row["AllocTRES"] or "")
        total = sums.setdefault((row["State"] or "UNKNOWN").split()[0], [0.0, 0.0, 0])
        total[0] += joules / 3.6e6
        total[1] += seconds * (int(gpus.group(1)) if gpus else 0) / 3600
        total[2] += 1
    return [Run(state, kwh or None, hours, int(count)) for state, (kwh, hours, count) in sorted(sums.items())]


def read_usage(path: PathLike) -> list[Run]:
    """Read usage records of an OpenAI-compatible endpoint, one JSON object a line, and count answers and tokens.

    Args:
        path: The file; each line holds ``usage.completion_tokens`` and perhaps ``model``.

    Raises:
        InputError: A line is no such record; the sentence gives its number.
    """
    tokens: dict[str, list[int]] = {}
    for number, line in enumerate(read_text(path).splitlines(), 1):
        if not line.strip():
            continue
        try:
            record = json.loads(line)
            tokens.setdefault(str(record.get("model", "model")), []).append(int(record["usage"]["completion_tokens"]))
        except (ValueError, KeyError, TypeError, AttributeError):
            raise InputError(f"{str(path)!r}: line {number} holds no usage.completion_tokens; remove it.") from None
    return [
        Run(model, None, 0.0, len(counts), f"{np.mean(counts):.1f} output tokens on average")
        for model, counts in tokens.items()
    ]


READERS: dict[str, Callable[[PathLike], list[Run]]] = {
    "codecarbon": read_codecarbon,
    "zeus": read_zeus,
    "power": read_power,
    "sacct": read_sacct,
    "usage": read_usage,
}


def weighted_intensity(power: PathLike, intensity: PathLike) -> float:
    r"""Return the carbon intensity of the hours when power was drawn, :math:`\int P\,I\,dt / \int P\,dt`, kgCO2e/kWh.

    Args:
        power: Power log as in :func:`read_power`.
        intensity: Table of ``timestamp`` and ``intensity`` in gCO2e/kWh, each valid until the next.

    Raises:
        InputError: Not such tables, or readings before the first intensity.
    """
    log, table = read_table(power), read_table(intensity)
    at, watts = _seconds(power, column(log, "timestamp", power)), column(log, "watts", power).to_numpy(dtype=np.float64)
    starts = _seconds(intensity, column(table, "timestamp", intensity))
    grams = column(table, "intensity", intensity).to_numpy(dtype=np.float64)
    if at.min() < starts.min() or (np.diff(starts) <= 0).any():
        raise InputError(f"{str(intensity)!r} must rise in time and begin before the power log does.")
    carbon = energy = 0.0
    for device in column(log, "device", power).unique():
        chosen = (log["device"] == device).to_numpy()
        # Splitting the log at every change of intensity makes the product of the two curves exact.
        knots = np.union1d(at[chosen], starts[(starts > at[chosen].min()) & (starts < at[chosen].max())])
        middle = (knots[1:] + knots[:-1]) / 2
        pieces = np.diff(knots) * np.interp(middle, at[chosen], watts[chosen])
        carbon += float(pieces @ grams[np.searchsorted(starts, middle, side="right") - 1])
        energy += float(pieces.sum())
    return carbon / energy / 1000


def from_inventory(raw: Any, folder: Path, where: str) -> dict[str, Any]:
    """Return ``electricity`` and ``device_time`` tables for ``measured = {codecarbon = "emissions.csv", run = "..."}``.

    Args:
        raw: The table: one reader and its file, and ``run`` to choose among labels (all are summed without it).
        folder: Where the file is looked for.
        where: Name of the process, for messages.

    Raises:
        InputError: No such reader, file or label.
    """
    kinds = [key for key in raw if key in READERS] if isinstance(raw, Mapping) else []
    if len(kinds) != 1 or set(raw) - {kinds[0], "run", "year"}:
        raise InputError(
            f"{where}.measured is {raw!r}; name one of {', '.join(READERS)} with its file, and perhaps run."
        )
    path = folder / str(raw[kinds[0]])
    runs = READERS[kinds[0]](path)
    if "run" in raw:
        labels = [run.label for run in runs]
        runs = [run for run in runs if run.label == raw["run"]]
        if not runs:
            hint = near_match(str(raw["run"]), labels) or f"; it has {', '.join(labels)}."
            raise InputError(f"{where}.measured: {str(path)!r} has no run {raw['run']!r}{hint}")
    about = {"source": f"{kinds[0]} log {Path(path).name}, {sum(run.count for run in runs)} runs"}
    if "year" in raw:
        about["year"] = raw["year"]
    found: dict[str, Any] = {}
    hours = sum(run.device_time for run in runs)
    if hours:
        found["device_time"] = {"value": hours, "unit": "hour", **about}
    if all(run.electricity is not None for run in runs):
        found["electricity"] = {"value": sum(run.electricity or 0.0 for run in runs), "unit": "kWh", **about}
    return found


def _numbers(path: PathLike, *series: pd.Series[Any]) -> None:
    for item in series:
        try:
            values = item.to_numpy(dtype=np.float64)
        except (TypeError, ValueError):
            values = np.array([np.nan])
        if not (np.isfinite(values).all() and (values >= 0).all()):
            raise InputError(f"{str(path)!r}: column {item.name!r} must hold numbers that are not negative; check it.")


def _seconds(path: PathLike, times: pd.Series[Any]) -> np.ndarray:
    import pandas as pd

    if pd.api.types.is_numeric_dtype(times):
        return times.to_numpy(dtype=np.float64)
    try:
        return (pd.to_datetime(times, utc=True) - pd.Timestamp(0, tz="UTC")).dt.total_seconds().to_numpy()
    except (TypeError, ValueError):
        raise InputError(f"{str(path)!r}: timestamp holds {times.iloc[0]!r}; use seconds or ISO 8601.") from None
