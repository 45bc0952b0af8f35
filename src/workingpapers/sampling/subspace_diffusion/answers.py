"""From a file to an answer: what the command reads, says, draws and writes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from workingpapers.foundations.errors import InputError
from workingpapers.foundations.files import check_readable, read_table, whole_file
from workingpapers.foundations.outcome import Figure, Outcome, Table
from workingpapers.foundations.progress import Progress, part
from workingpapers.foundations.report import Section, heading, paragraph, write_report
from workingpapers.sampling.subspace_diffusion import pictures
from workingpapers.sampling.subspace_diffusion.clustering import SubspaceClustering
from workingpapers.sampling.subspace_diffusion.kernels import check_points
from workingpapers.sampling.subspace_diffusion.planning import (
    END,
    PILOT_LEAST,
    IntrinsicDimension,
    Memorisation,
    Plan,
    intrinsic_dimension,
    memorisation,
    plan_samples,
)
from workingpapers.sampling.subspace_diffusion.score import UoSScore

Floats = NDArray[np.float64]
SHOWN = 500
"""Samples drawn for the figures where none are written."""
MOST = 1e15
FAR = 1.5


def answer_from_file(
    data: Path, *, subspaces: int | None, dims: Sequence[int] | None, method: Literal["ssc", "tsc"],
    samples: int | None, out: Path | None, error: float | None, steps: int, neighbors: int | None, seed: int,
    report: Path | None, progress: Progress,
) -> Outcome:  # fmt: skip
    """Find subspaces, draw samples, plan the sample size and say what came out.

    Args:
        data: File of the samples.
        subspaces: M, or None.
        dims: Dimensions, or None.
        method: Clustering.
        samples: New samples to write, or None.
        out: File for them, or None.
        error: Wanted W1 error, or None.
        steps: Steps of the sampler.
        neighbors: Nearest samples of a kernel sum, or None.
        seed: Seed.
        report: HTML file to write.
        progress: Called along the way.
    """
    if samples is not None and out is None:
        raise InputError(f"--samples {samples} needs a file for them; name one with --out, as in --out samples.npy.")
    if out is not None and out.suffix.lower() not in (".npy", ".csv"):
        raise InputError(f"--out is {str(out)!r}; name a file that ends in .npy or .csv.")
    points, names = read_points(data)
    if len(points) < 5:
        raise InputError(f"{str(data)!r} holds {len(points)} samples; 5 or more are needed.")
    progress(0.01, "clustering")
    given = None if not dims else dims[0] if len(dims) == 1 else list(dims)
    finder = SubspaceClustering(subspaces, given, method, random_state=seed)
    model = UoSScore(finder, threshold="gaussian", noise="auto", neighbors=neighbors).fit(points)
    intrinsic = [_intrinsic(low) for low in model.projected_]
    progress(0.1, "sampling")
    drawn = model.sample(
        samples or (len(points) if out is not None else min(SHOWN, len(points))),
        n_steps=steps, last_time=min(END, model.last_time()), scale="auto", random_state=seed,
        progress=part(progress, 0.1, 0.6),
    )  # fmt: skip
    newness = memorisation(drawn, points)
    spread = float(np.sqrt(((points - points.mean(axis=0)) ** 2).sum(axis=1).mean()))
    wanted = spread / 10 if error is None and spread > 0 else error or 1.0
    plan = _planned(points, model, seed, part(progress, 0.6, 1.0))
    tables = [_subspace_table(model, intrinsic), _newness_table(newness)]
    figures: list[Figure] = [
        pictures.spectra_picture(finder_of(model).spectra_, [basis.shape[1] for basis in model.bases_]),
        pictures.samples_picture(points, drawn, model.labels_),
    ]
    if plan is not None:
        tables.append(_plan_table(plan, wanted, len(points)))
        figures.append(pictures.plan_picture(plan, wanted))
    summary = _summary(model, newness, plan, wanted, len(points))
    files: list[Path] = []
    if out is not None:
        files.append(_write(out, drawn, names))
    if report is not None:
        files.append(_report(report, summary, tables, figures))
    return Outcome(summary, tables, figures, files, _data(model, intrinsic, newness, plan, wanted))


def read_points(path: Path) -> tuple[Floats, list[str]]:
    """Return the samples of a file, shape (n, d), and the names of their coordinates.

    Args:
        path: ``.npy``, or a table with a header line.

    Raises:
        InputError: No such file, not an array of two axes, or a cell without a finite number.
    """
    check_readable(path)
    if path.suffix.lower() == ".npy":
        try:
            array = np.load(path, allow_pickle=False)
        except (ValueError, OSError, EOFError):
            raise InputError(f"{str(path)!r} is not a .npy file of numbers; write it by numpy.save.") from None
        if not isinstance(array, np.ndarray) or array.dtype.kind not in "biuf":
            raise InputError(f"{str(path)!r} does not hold real numbers; save an array of floats.")
        if array.ndim != 2:
            raise InputError(f"{str(path)!r} has shape {array.shape}; reshape it to (n, d), one sample in a row.")
        return check_points(array, f"The samples of {str(path)!r}"), [f"x{i}" for i in range(array.shape[1])]
    frame = read_table(path)
    for name in frame.columns:
        if frame[name].dtype.kind not in "biuf":
            raise InputError(f"Column {str(name)!r} of {str(path)!r} is not numbers; leave it out of the file.")
    return check_points(frame.to_numpy(np.float64), f"The samples of {str(path)!r}"), [str(name) for name in frame]


def finder_of(model: UoSScore) -> SubspaceClustering:
    """Return the fitted clustering of a score.

    Args:
        model: A score whose subspaces were found and not given.
    """
    finder: SubspaceClustering = model.clustering_
    return finder


def _intrinsic(low: Floats) -> IntrinsicDimension | None:
    try:
        return intrinsic_dimension(low)
    except InputError:
        return None


def _planned(points: Floats, model: UoSScore, seed: int, progress: Progress) -> Plan | None:
    if len(points) < PILOT_LEAST:
        return None
    return plan_samples(points, model.bases_, threshold="gaussian", noise="auto", random_state=seed, progress=progress)


def _count(value: float) -> str:
    if value > MOST:
        return "more than 10^15"
    digits = max(0, math.floor(math.log10(max(value, 1))) - 1)
    return f"{math.ceil(value / 10**digits) * 10**digits:,}"


def _summary(model: UoSScore, newness: Memorisation, plan: Plan | None, wanted: float, size: int) -> str:
    dims = [basis.shape[1] for basis in model.bases_]
    shown = f"{dims[0]}" if len(set(dims)) == 1 else f"{min(dims)} to {max(dims)}"
    first = (f"The {size:,} samples in {model.n_features_in_} coordinates lie on {len(dims)} "
             f"{'subspace' if len(dims) == 1 else 'subspaces'} of dimension {shown}")  # fmt: skip
    off = model.off_subspace_share_
    first += ", exactly." if off < 1e-12 else f"; {off:.2g} of their energy lies off them."
    near = f"New samples are {newness.ratio:.2g} times as far from the training samples as those are from each other"
    near += "; they are mostly copies." if newness.ratio < 0.1 else "."
    if newness.ratio > FAR:
        near += " So they miss the shape of the data inside the subspaces."
    if plan is None:
        return f"{first} {near} A plan of the sample size needs {PILOT_LEAST} samples."
    low, high = plan.required(wanted)
    if high > MOST:
        needed = (
            _count(high) if low > MOST else f"more samples than can be told from these data (at least {_count(low)})"
        )
    else:
        needed = f"about {_count(high)} or fewer" if low <= 1 else f"between {_count(low)} and {_count(high)}"
    needed += "" if needed.endswith(")") else " samples"
    return (f"{first} {near} For a W1 error of {wanted:.3g} the rate n^(-1/{max(plan.dim, 2)}) with a constant "
            f"measured on these data asks for {needed}; this is an extrapolation, not a bound.")  # fmt: skip


def _subspace_table(model: UoSScore, intrinsic: Sequence[IntrinsicDimension | None]) -> Table:
    rows = []
    for i, (basis, low, found) in enumerate(zip(model.bases_, model.projected_, intrinsic, strict=True)):
        interval = "–" if found is None else f"{found.low:.2f} to {found.high:.2f}"
        rows.append([i, len(low), basis.shape[1], None if found is None else found.value, interval,
                     float(np.sqrt(model.noise_[i]))])  # fmt: skip
    return Table(
        ("subspace", "samples", "dimension", "intrinsic dimension", "95 % interval", "noise off it"),
        rows,
        "Subspaces",
        "The intrinsic dimension is that of the set inside the subspace, curved or not, by two nearest neighbours; "
        "where it is well below the dimension the data are curved, and the rate used here is pessimistic. It comes out "
        "too low above ten dimensions or so. Noise is the standard deviation of a coordinate across.",
    )


def _newness_table(newness: Memorisation) -> Table:
    rows = [["new samples", newness.median, newness.copies], ["training samples, to the others", newness.fresh_median,
                                                              newness.fresh_copies]]  # fmt: skip
    return Table(
        ("to the nearest training sample", "median distance", "share of copies"),
        rows,
        "Memorisation",
        "A copy is three times nearer to one training sample than to the next.",
    )


def _plan_table(plan: Plan, wanted: float, size: int) -> Table:
    rows: list[list[Any]] = []
    for target in (4 * wanted, 2 * wanted, wanted, wanted / 2):
        low, high = plan.required(target)
        rows.append([target, "–" if low <= 1 else _count(low), _count(high)])
    here = plan.error(size)
    return Table(
        ("W1 error", "samples, lower", "samples, upper"),
        rows,
        "Planned sample size",
        f"Theory gives the exponent 1/{max(plan.dim, 2)} up to logarithms and no constant; both constants are measured "
        f"at {plan.sizes[0]:,} to {plan.sizes[-1]:,} samples, where the measured slope was {plan.slope:.2f}. Two "
        f"held-out samples are {plan.floor:.3g} apart, so errors below that were not seen. At {size:,} samples "
        f"the rate gives {here[0]:.3g} to {here[1]:.3g}.",
    )


def _report(path: Path, summary: str, tables: Sequence[Table], figures: Sequence[Figure]) -> Path:
    sections: list[Section] = [paragraph(summary), heading("Subspaces"), tables[0], figures[0],
                               heading("New samples"), tables[1], figures[1]]  # fmt: skip
    if len(figures) > 2:
        sections += [heading("How many samples are needed"), tables[2], figures[2]]
    return write_report(path, "Data on a union of subspaces", sections)


def _write(path: Path, samples: Floats, names: Sequence[str]) -> Path:
    if path.suffix.lower() == ".npy":
        with whole_file(path, "wb") as stream:
            np.save(stream, samples)
    else:
        import pandas as pd

        with whole_file(path) as stream:
            pd.DataFrame(samples, columns=list(names)).to_csv(stream, index=False)
    return path


def _data(
    model: UoSScore, intrinsic: Sequence[IntrinsicDimension | None], newness: Memorisation, plan: Plan | None,
    wanted: float,
) -> dict[str, Any]:  # fmt: skip
    found: dict[str, Any] = {
        "subspaces": [
            {"samples": len(low), "dimension": basis.shape[1], "noise": float(noise),
             "intrinsic_dimension": None if known is None else known.value}
            for basis, low, known, noise in zip(model.bases_, model.projected_, intrinsic, model.noise_, strict=True)
        ],
        "off_subspace_share": model.off_subspace_share_,
        "newness": newness.ratio,
        "copies": newness.copies,
        "plan": None,
    }  # fmt: skip
    if plan is not None:
        low, high = plan.required(wanted)
        found["plan"] = {
            "error": wanted, "samples_low": low, "samples_high": high, "exponent": plan.exponent, "slope": plan.slope,
            "floor": plan.floor, "sizes": list(plan.sizes), "errors": list(plan.errors),
        }  # fmt: skip
    return found
