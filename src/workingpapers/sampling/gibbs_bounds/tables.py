"""Files of the command: examples to train on, and traces of means a temperature."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from workingpapers.foundations.errors import InputError
from workingpapers.foundations.files import check_readable, column, read_table, whole_file

if TYPE_CHECKING:
    from workingpapers.sampling.gibbs_bounds.results import SweepResult

Floats = NDArray[np.float64]
MOST_CLASSES = 100
NEEDED = ("beta", "surrogate_loss", "error")
OPTIONAL = ("test_error", "loss_standard_error", "error_standard_error", "sampler_scale", "reported_scale")


@dataclass(frozen=True)
class Examples:
    """Inputs and classes.

    Args:
        inputs: Shape (n, d).
        labels: As text, shape (n,).
        features: Names of the inputs, or () for an array file.
    """

    inputs: Floats
    labels: NDArray[np.str_]
    features: tuple[str, ...]

    @property
    def classes(self) -> tuple[str, ...]:
        """The distinct labels, sorted."""
        return tuple(str(label) for label in np.unique(self.labels))


def read_examples(path: Path, target: str | None, ignore: Sequence[str] = ()) -> Examples:
    """Read a table with a column of classes, or an ``.npz`` file with X and y.

    Args:
        path: The file.
        target: Column of the classes of a table.
        ignore: Columns of a table to leave out.

    Raises:
        InputError: The file cannot be read, lacks a column, or holds what is no number or no class.
    """
    if path.suffix.lower() == ".npz":
        inputs, labels = _arrays(path)
        return Examples(inputs, _labels(labels, path, "y"), ())
    frame = read_table(path)
    if target is None:
        raise InputError("--target is missing; name the column of the classes.")
    labels = column(frame, target, path).to_numpy()
    for name in ignore:
        column(frame, name, path)
    features = [name for name in frame.columns if name != target and name not in ignore]
    if not features:
        raise InputError(f"{str(path)!r} has no column beside {target!r}; give inputs to learn from.")
    for name in features:
        if frame[name].dtype.kind not in "biuf":
            raise InputError(
                f"Column {str(name)!r} of {str(path)!r} holds text ({frame[name].iloc[0]!r}); encode it as numbers or "
                "leave it out with --ignore."
            )
    inputs = frame[features].to_numpy(dtype=np.float64)
    _finite(inputs, path)
    return Examples(inputs, _labels(labels, path, target), tuple(str(name) for name in features))


@dataclass(frozen=True)
class TraceTable:
    """Means a temperature, shape (m,) each; None where the file has no such column."""

    betas: Floats
    losses: Floats
    errors: Floats
    test_errors: Floats | None
    loss_standard_errors: Floats | None
    error_standard_errors: Floats | None
    sampler_scale: float | None
    reported_scale: float | None


def read_trace(path: Path) -> TraceTable:
    """Read the table of means that a sampler reported.

    Args:
        path: The file.

    Raises:
        InputError: A column is missing or holds no numbers, or a scale changes from row to row.
    """
    frame = read_table(path)
    found: dict[str, Floats | None] = {}
    for name in (*NEEDED, *OPTIONAL):
        if name in OPTIONAL and name not in frame.columns:
            found[name] = None
            continue
        series = column(frame, name, path)
        if series.dtype.kind not in "iuf":
            raise InputError(f"Column {name!r} of {str(path)!r} holds {series.iloc[0]!r}; it must hold numbers.")
        values = series.to_numpy(dtype=np.float64)
        if not np.isfinite(values).all():
            row = int(np.flatnonzero(~np.isfinite(values))[0]) + 2
            raise InputError(f"Row {row} of {str(path)!r} has no number in column {name!r}; fill it in.")
        found[name] = values
    needed = [found[name] for name in NEEDED]
    betas, losses, errors = (values for values in needed if values is not None)
    scales = [_same(found[name], name, path) for name in ("sampler_scale", "reported_scale")]
    return TraceTable(
        betas, losses, errors, found["test_error"], found["loss_standard_error"], found["error_standard_error"],
        scales[0], scales[1],
    )  # fmt: skip


def write_trace(path: Path, result: SweepResult) -> None:
    """Write the means of a sweep as the table that :func:`read_trace` reads.

    Args:
        path: The file.
        result: The sweep.
    """
    columns: dict[str, Any] = {
        "beta": result.betas,
        "surrogate_loss": result.losses,
        "error": result.errors,
        "loss_standard_error": result.loss_standard_errors,
        "error_standard_error": result.error_standard_errors,
    }
    if result.test_errors is not None:
        columns["test_error"] = result.test_errors
    if result.loss_scale is not None:
        columns["sampler_scale"] = columns["reported_scale"] = np.full(len(result.betas), result.loss_scale)
    with whole_file(path, newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(columns)
        writer.writerows([repr(float(value)) for value in row] for row in zip(*columns.values(), strict=True))


def _arrays(path: Path) -> tuple[Floats, NDArray[Any]]:
    check_readable(path)
    try:
        with np.load(path, allow_pickle=False) as content:
            arrays = {name: content[name] for name in ("X", "y") if name in content}
    except Exception:
        raise InputError(f"{str(path)!r} is no .npz file of plain arrays; save X and y with numpy.savez.") from None
    if len(arrays) < 2:
        raise InputError(f"{str(path)!r} holds no arrays X and y; save both under these names.")
    inputs, labels = arrays["X"], arrays["y"]
    if inputs.ndim < 2 or labels.shape != inputs.shape[:1] or inputs.dtype.kind not in "biuf":
        raise InputError(
            f"{str(path)!r} has X of shape {inputs.shape} ({inputs.dtype}) and y of shape {labels.shape}; give numbers "
            "of shape (n, ...) and n classes."
        )
    flat = inputs.reshape(len(inputs), -1).astype(np.float64)
    _finite(flat, path)
    return flat, labels


def _finite(inputs: Floats, path: Path) -> None:
    bad = np.flatnonzero(~np.isfinite(inputs).all(axis=1))
    if len(bad):
        raise InputError(f"Example {bad[0] + 1} of {str(path)!r} has a missing value; fill it in or leave it out.")


def _labels(values: NDArray[Any], path: Path, name: str) -> NDArray[np.str_]:
    if values.dtype.kind == "f":
        if not np.isfinite(values).all():
            raise InputError(f"A class in {name!r} of {str(path)!r} is missing; fill it in or leave the row out.")
        if (values != np.round(values)).any():
            wrong = values[values != np.round(values)][0]
            raise InputError(f"{name!r} of {str(path)!r} holds {wrong:g}, which is no class; give whole numbers or "
                             "names.")  # fmt: skip
        values = values.astype(np.int64)
    if any(value is None or value != value for value in values):
        raise InputError(f"A class in {name!r} of {str(path)!r} is missing; fill it in or leave the row out.")
    labels = values.astype(str)
    count = len(np.unique(labels))
    if not 2 <= count <= MOST_CLASSES:
        raise InputError(f"{name!r} of {str(path)!r} holds {count} classes; it must hold 2 to {MOST_CLASSES}.")
    return labels


def _same(values: Floats | None, name: str, path: Path) -> float | None:
    if values is None:
        return None
    if len(np.unique(values)) > 1:
        raise InputError(f"Column {name!r} of {str(path)!r} changes from row to row; one sampler has one scale.")
    return float(values[0])
