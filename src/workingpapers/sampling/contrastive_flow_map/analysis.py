"""From a file of rows to a trained flow map, its distances to held-out rows, samples and a report."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from workingpapers.foundations.errors import InputError
from workingpapers.foundations.files import check_readable, read_table, whole_file
from workingpapers.foundations.outcome import Outcome, Table
from workingpapers.foundations.progress import Progress, part, silent
from workingpapers.foundations.transport import energy_distance
from workingpapers.sampling.contrastive_flow_map.flow_map import sample
from workingpapers.sampling.contrastive_flow_map.network import FlowMLP, Scaling
from workingpapers.sampling.contrastive_flow_map.training import Plan, read_checkpoint, train

LEAST_ROWS = 20
MOST_JUDGED = 1000
WIDEST = 10_000
LAYERS = 3
FEW = (1, 2, 4)
FLOOR_DRAWS = 20


@dataclass(frozen=True)
class Rows:
    """The user's data.

    Args:
        values: Flat rows, shape (n, d), float32.
        shape: Shape of one row in the file.
        names: Columns of a table, or none.
        image: Whether rows are square images.
    """

    values: NDArray[np.float32]
    shape: tuple[int, ...]
    names: tuple[str, ...]
    image: bool


@dataclass(frozen=True)
class Fit:
    """A trained flow map with what it is measured by.

    Args:
        rows: The data.
        plan: How it was trained.
        network: The flow map, in the scale of `scaling`.
        scaling: From data to the network's scale.
        held_out: Rows that training did not see, scaled, shape (m, d).
        distances: Steps of the sampler -> squared energy distance to the held-out rows.
        drawn: Steps of the sampler -> the samples behind it, scaled, shape (m, d).
        floors: Squared energy distances of training rows to the held-out rows, one a draw.
        repeated: Rows that occur before.
        history: What the trainer logged.
    """

    rows: Rows
    plan: Plan
    network: nn.Module
    scaling: Scaling
    held_out: Tensor
    distances: dict[int, float]
    drawn: dict[int, Tensor]
    floors: list[float]
    repeated: int
    history: list[dict[str, float]]


def read_rows(path: Path, *, image: bool = False) -> Rows:
    """Read rows of numbers from a NumPy file or a table.

    Args:
        path: File ending in .npy with an array of shape (n, ...), or a table (CSV, TSV, Parquet).
        image: Whether rows must be square images.

    Raises:
        InputError: The file cannot be read, holds what is no finite number, has fewer than 20 rows, or its rows are no
            square images where they should be.
    """
    names: tuple[str, ...] = ()
    if check_readable(path).suffix.lower() == ".npy":
        try:
            values = np.load(path, allow_pickle=False)
        except (ValueError, EOFError, OSError):
            raise InputError(f"{str(path)!r} is no NumPy array of numbers; save it with numpy.save.") from None
        if values.ndim == 1:
            values = values[:, None]
    else:
        table = read_table(path)
        names = tuple(str(name) for name in table.columns)
        for name in table.columns:
            if table[name].dtype.kind not in "biuf":
                raise InputError(f"Column {str(name)!r} of {str(path)!r} holds text; give a table of numbers.")
        values = table.to_numpy()
    if values.dtype.kind not in "biuf" or values.ndim < 2 or 0 in values.shape[1:]:
        raise InputError(f"{str(path)!r} holds {values.dtype} of shape {values.shape}; give rows of numbers.")
    flat = values.reshape(len(values), -1).astype(np.float32)
    _check_rows(path, flat, image)
    return Rows(flat, values.shape[1:], names, image)


def fit(
    rows: Rows, plan: Plan, *, hidden: int = 192, checkpoint: Path | None = None, progress: Progress = silent
) -> Fit:
    """Train on four fifths of the rows and measure against the rest.

    Args:
        rows: The data.
        plan: How to train.
        hidden: Units a layer.
        checkpoint: File that keeps the state of training.
        progress: Told of the share done.

    Raises:
        InputError: As the trainer.
    """
    source = torch.Generator().manual_seed(plan.seed)
    values = torch.from_numpy(rows.values)
    order = torch.randperm(len(values), generator=source)
    size = max(4, len(values) // 5)
    scaling = Scaling.of(values[order[size:]], shared=rows.image)
    train_rows, held_out = scaling.forward(values[order[size:]]), scaling.forward(values[order[:size]])
    network = FlowMLP(values.shape[1], hidden, LAYERS, generator=source)
    about = {"hidden": hidden, "shape": list(rows.shape), "mean": scaling.mean, "scale": scaling.scale}
    found = train(
        network, train_rows, plan, checkpoint=checkpoint, about=about, progress=part(progress, 0.0, 0.95)
    )  # fmt: skip
    held_out = held_out[:MOST_JUDGED]
    noise = torch.randn(held_out.shape, generator=source)
    drawn = {k: sample(found.network, noise, steps=k) for k in FEW}
    if not all(bool(torch.isfinite(points).all()) for points in drawn.values()):
        raise InputError(f"Samples are not finite after {plan.steps} steps; take an lr smaller than {plan.lr:g}.")
    progress(0.97, "measuring")
    return Fit(
        rows=rows,
        plan=plan,
        network=found.network,
        scaling=scaling,
        held_out=held_out,
        distances={k: energy_distance(points, held_out) for k, points in drawn.items()},
        drawn=drawn,
        floors=_floors(train_rows, held_out, source),
        repeated=len(values) - len(np.unique(rows.values, axis=0)),
        history=found.history,
    )


def load(path: Path) -> tuple[nn.Module, Scaling, tuple[int, ...]]:
    """Return the network that ``--model`` kept, its scaling and the shape of a row.

    Args:
        path: The file.

    Returns:
        The flow map u(z, r, t) in its scale; scaling.backward brings samples, shape (n, d), to the data's.

    Raises:
        InputError: It is no such file.
    """
    content = read_checkpoint(path)
    about = content["about"]
    network = FlowMLP(len(about["mean"]), about["hidden"], LAYERS)
    network.load_state_dict(content["flow_map"])
    return network, Scaling(about["mean"], about["scale"]), tuple(about["shape"])


def conclude(found: Fit, *, few: int, number: int, out: Path, model: Path | None, report: Path | None) -> Outcome:
    """Sample, write the files and say what came out.

    Args:
        found: The fit.
        few: Steps of the sampler.
        number: Number of samples.
        out: File for the samples.
        model: Where the network was kept, or None.
        report: File for the report, or None.
    """
    from workingpapers.foundations.report import paragraph, write_report
    from workingpapers.sampling.contrastive_flow_map import pictures

    source = torch.Generator().manual_seed(found.plan.seed + 1)
    noise = torch.randn(number, found.held_out.shape[1], generator=source)
    samples = found.scaling.backward(sample(found.network, noise, steps=few)).numpy()
    _write(out, samples, found.rows)
    tables, summary = [_distances(found), _training(found)], _summary(found, few)
    figures = [pictures.samples_picture(found.held_out, found.drawn)]
    if found.rows.image:
        figures.insert(0, pictures.images_picture(found.held_out, found.drawn, found.scaling))
    files = [path for path in (out, model) if path is not None]
    if report is not None:
        write_report(report, "Samples in few steps", [paragraph(summary), *figures, *tables])
        files.append(report)
    return Outcome(summary, tables, figures, files, _data(found, few, number))


def _check_rows(path: Path, flat: NDArray[np.float32], image: bool) -> None:
    count, width = flat.shape
    if count < LEAST_ROWS:
        raise InputError(f"{str(path)!r} has {count} rows; a flow map needs {LEAST_ROWS} or more.")
    if width > WIDEST:
        raise InputError(f"A row of {str(path)!r} has {width} numbers; this small network takes at most {WIDEST}.")
    wrong = np.argwhere(~np.isfinite(flat))
    if len(wrong):
        raise InputError(f"Row {wrong[0][0]} of {str(path)!r} holds an empty cell or a number that is not finite; "
                         "fill it in or leave the row out.")  # fmt: skip
    if image and math.isqrt(width) ** 2 != width:
        raise InputError(f"A row of {str(path)!r} has {width} numbers, which is no square image; leave out --image.")


def _floors(train_rows: Tensor, held_out: Tensor, source: torch.Generator) -> list[float]:
    many = min(len(held_out), len(train_rows))
    draws = (torch.randperm(len(train_rows), generator=source)[:many] for _ in range(FLOOR_DRAWS))
    return [energy_distance(train_rows[rows], held_out) for rows in draws]


def _write(path: Path, samples: NDArray[np.float32], rows: Rows) -> None:
    if path.suffix.lower() == ".csv":
        names = rows.names or tuple(f"x{number}" for number in range(samples.shape[1]))
        with whole_file(path, newline="") as stream:
            import csv

            writer = csv.writer(stream)
            writer.writerow(names)
            writer.writerows(samples.tolist())
        return
    with whole_file(path, "wb") as stream:
        np.save(stream, samples.reshape(-1, *rows.shape))


def _summary(found: Fit, few: int) -> str:
    distance, top = found.distances[few], max(found.floors)
    text = (
        f"Samples of {few} step{'s' if few > 1 else ''} lie {distance:.4g} from {len(found.held_out)} held-out rows "
        f"(squared energy distance); real rows lie {np.mean(found.floors):.3g} from them on average and at most "
        f"{top:.3g} in {FLOOR_DRAWS} draws."
    )
    if distance <= top:
        text += " By this measure they cannot be told from real rows, which does not exclude copies of training rows."
    else:
        text += " They can be told from real rows; more --steps, a larger --hidden or --few 4 may bring them nearer."
    if found.plan.contrast:
        text += " Compare with --contrast 0: on small data the contrast seldom helped."
    if found.repeated > 0.01 * len(found.rows.values):
        text += f" {found.repeated} rows repeat others; the contrast pushes such copies apart in vain."
    return text


def _distances(found: Fit) -> Table:
    rows: list[Sequence[Any]] = [[f"samples, {k} step{'s' if k > 1 else ''}", found.distances[k]] for k in FEW]
    rows += [["real rows, mean", float(np.mean(found.floors))], ["real rows, largest", max(found.floors)]]
    return Table(
        ["what", "distance"], rows, "Squared energy distance to held-out rows",
        "Without bias, so that it may fall below zero; coordinates in the network's scale.",
    )  # fmt: skip


def _training(found: Fit) -> Table:
    names = ("step", "loss", "marginal", "contrast", "gradient_marginal", "gradient_contrast")
    picks = sorted({round(k * (len(found.history) - 1) / 6) for k in range(7)})
    rows = [[found.history[k].get(name) for name in names] for k in picks]
    rows = [[int(row[0] or 0), *row[1:]] for row in rows]
    return Table(
        [name.replace("_", " of ") for name in names], rows, "Training",
        "The gradients of the two losses show how much the contrast weighs; its weight is included.",
    )  # fmt: skip


def _data(found: Fit, few: int, number: int) -> dict[str, Any]:
    return {
        "few": few,
        "number": number,
        "rows": len(found.rows.values),
        "steps": found.plan.steps,
        "contrast": found.plan.contrast,
        "distances": {str(k): value for k, value in found.distances.items()},
        "floor_mean": float(np.mean(found.floors)),
        "floor_largest": max(found.floors),
        "repeated_rows": found.repeated,
        "history": found.history,
    }
