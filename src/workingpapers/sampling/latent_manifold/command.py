"""``papers run latent_manifold``: shortest paths between latent codes along the data, and the digits as an example."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

from workingpapers.foundations.errors import InputError
from workingpapers.foundations.outcome import Outcome, Table
from workingpapers.foundations.progress import Progress, part, silent
from workingpapers.foundations.signature import Between, InputFile, OutputFile

if TYPE_CHECKING:
    from pathlib import Path

    import numpy as np

MOST_PAIRS = 500


def run_paths(
    codes: InputFile,
    *,
    start: Annotated[int, Between(0)] | None = None,
    end: Annotated[int, Between(0)] | None = None,
    pairs: InputFile | None = None,
    segments: Annotated[int, Between(2, 500)] = 24,
    sigma: Annotated[float, Between(0, open_low=True)] | None = None,
    projector: Literal["kernel", "network"] = "kernel",
    steps: Annotated[int, Between(1, 1_000_000)] = 3000,
    neighbours: Annotated[int, Between(1, 1000)] = 8,
    detours: Annotated[int, Between(0, 50)] = 2,
    seed: Annotated[int, Between(0, 2**32 - 1)] = 0,
    out: OutputFile | None = None,
    report: OutputFile | None = None,
    progress: Progress = silent,
) -> Outcome:
    """Find shortest paths between latent codes that stay where the data are.

    Args:
        codes: Latent codes, one row each: a NumPy file (.npy) of shape (N, l), or a table of numbers.
        start: Row of the first end, from 0.
        end: Row of the second end, from 0.
        pairs: Table with the columns start and end, instead of one pair.
        segments: Segments of each path.
        sigma: Noise of the projection in units of the codes, above the distance of neighbours and below the manifold's
            reach; by default twice the mean distance to the nearest neighbour.
        projector: kernel (exact for the given codes) or network (trained, for many codes).
        steps: Training steps of the network.
        neighbours: Neighbours in the graph whose shortest path is the start.
        detours: Further starts past random codes; the best path is kept.
        seed: Seed of detours and training.
        out: NumPy file (.npz) for the paths and their figures.
        report: HTML report with a picture in the plane of the two principal components.
    """
    rows = _read_codes(codes)
    ends = _read_pairs(pairs, start, end, len(rows))

    from workingpapers.foundations.report import paragraph, write_report
    from workingpapers.sampling.latent_manifold import pictures
    from workingpapers.sampling.latent_manifold.analysis import analyse

    found = analyse(
        rows, ends, segments=segments, sigma=sigma, method=projector, steps=steps, neighbours=neighbours,
        detours=detours, seed=seed, progress=part(progress, 0, 0.95),
    )  # fmt: skip
    tables = [_paths_table(found, ends), _sigma_table(found)]
    figures = [pictures.plane_picture(rows, found.straight, found.points)]
    summary = _summary(found, ends)
    files: list[Path] = []
    if out is not None:
        _write(out, found, ends)
        files.append(out)
    if report is not None:
        write_report(report, "Latent geodesics", [paragraph(summary), *figures, *tables])
        files.append(report)
    return Outcome(summary, tables, figures, files, _data(found, ends))


def run_digits(
    *,
    pairs: Annotated[int, Between(1, 8)] = 3,
    steps: Annotated[int, Between(1, 1_000_000)] = 3000,
    seed: Annotated[int, Between(0, 2**32 - 1)] = 0,
    report: OutputFile | None = None,
    progress: Progress = silent,
) -> Outcome:
    """Train an autoencoder on handwritten digits and decode geodesics beside straight lines.

    Args:
        pairs: Pairs of images of the same digit.
        steps: Training steps of the autoencoder.
        seed: Seed of training and pairs.
        report: HTML report with the decoded images.
    """
    from workingpapers.foundations.report import paragraph, write_report
    from workingpapers.sampling.latent_manifold.experiments import digit_comparison
    from workingpapers.sampling.latent_manifold.pictures import decoded_picture

    strips, rows, error = digit_comparison(seed, pairs, steps, progress)
    table = Table(
        ["path", "distance to the nearest image", "length of the decoded path", "mean |zeta|"],
        rows,
        "Means over pairs and nodes",
        "The graph's nodes are codes of images. A path that follows the data is near to images and short.",
    )
    summary = (
        f"An autoencoder with 16 codes (error {error:.3f} a pixel) and {pairs} pairs of the same digit. Nodes of the "
        f"geodesic decode at {rows[0][1]:.3g} from the nearest image on average, those of the straight line at "
        f"{rows[1][1]:.3g}."
    )
    figures = [decoded_picture(strip) for strip in strips]
    files: list[Path] = []
    if report is not None:
        files.append(write_report(report, "Geodesics between digits", [paragraph(summary), *figures, table]))
    data = {
        "error": error,
        "paths": {row[0]: {"distance": row[1], "length": row[2], "residual": row[3]} for row in rows},
    }
    return Outcome(summary, [table], figures, files, data)


def _read_codes(path: Path) -> np.ndarray:
    import numpy as np

    from workingpapers.foundations.files import check_readable, read_table
    from workingpapers.sampling.latent_manifold.projector import check_codes

    if check_readable(path).suffix.lower() == ".npy":
        try:
            values = np.load(path, allow_pickle=False)
        except (ValueError, EOFError, OSError):
            raise InputError(f"{str(path)!r} is no NumPy array of numbers; save it with numpy.save.") from None
    else:
        values = read_table(path).to_numpy()
    found: np.ndarray = check_codes(values, least=3).numpy()
    return found


def _read_pairs(path: Path | None, start: int | None, end: int | None, count: int) -> np.ndarray:
    import numpy as np

    from workingpapers.foundations.files import column, read_table

    if path is not None:
        if start is not None or end is not None:
            raise InputError("Both --pairs and --start or --end are given; give one or the other.")
        table = read_table(path)
        columns = [column(table, name, path).to_numpy() for name in ("start", "end")]
        try:
            ends = np.stack(columns, axis=1).astype(np.float64)
        except (TypeError, ValueError):
            raise InputError(f"{str(path)!r} holds a start or end that is no number; give row numbers.") from None
        if (ends % 1 != 0).any():  # also true where a cell is empty
            raise InputError(f"{str(path)!r} holds a start or end that is no whole number; give row numbers from 0.")
        if len(ends) > MOST_PAIRS:
            raise InputError(f"{str(path)!r} holds {len(ends)} pairs; give at most {MOST_PAIRS} at a time.")
    elif start is None or end is None:
        raise InputError("No pair is given; name two rows with --start and --end, or a table with --pairs.")
    else:
        ends = np.array([[start, end]], dtype=np.float64)
    wrong = ends[(ends < 0) | (ends >= count)]
    if len(wrong):
        raise InputError(f"There is no code {int(wrong[0])}; rows go from 0 to {count - 1}.")
    same = np.flatnonzero(ends[:, 0] == ends[:, 1])
    if len(same):
        raise InputError(f"Start and end are both {int(ends[same[0], 0])}; name two different rows.")
    return ends.astype(np.int64)


def _summary(found: Any, ends: np.ndarray) -> str:
    share = int(found.converged.sum())
    text = (
        f"{share} of {len(ends)} paths converged. The mean geodesic is {found.length.mean():.4g} long (straight line "
        f"{found.straight_length.mean():.4g}, graph {found.graph_length.mean():.4g}) and at most "
        f"{found.far.mean():.3g} from the nearest code (straight line {found.straight_far.mean():.3g}). The codes look "
        f"{found.dimension}-dimensional in {found.width} coordinates at sigma = {found.sigma:.3g}."
    )
    if found.dimension >= found.width:
        return text + " At this sigma they fill their space, so that the straight line is the geodesic."
    if found.dimension == 0:
        return text + " At this sigma each code stands alone: do not rely on the paths; try a larger --sigma."
    if not found.contrast >= 5:
        return text + f" The projector sees the manifold poorly (contrast {found.contrast:.2g}, 5 or more is good)."
    return text


def _paths_table(found: Any, ends: np.ndarray) -> Table:
    columns = [
        "start", "end", "length", "straight", "graph", "energy", "farthest from a code", "straight line's",
        "mean |zeta|", "from start", "converged",
    ]  # fmt: skip
    rows = [
        [
            int(a), int(b), float(found.length[k]), float(found.straight_length[k]), float(found.graph_length[k]),
            float(found.energy[k]), float(found.far[k]), float(found.straight_far[k]), float(found.residual[k]),
            found.start_names[k], bool(found.converged[k]),
        ]
        for k, (a, b) in enumerate(ends)
    ]  # fmt: skip
    return Table(columns, rows, "Paths", "Lengths and distances in units of the codes.")


def _sigma_table(found: Any) -> Table:
    note = "Contrast: |zeta| two sigma off the manifold over its value on the codes. Look for a stable dimension."
    return Table(["sigma", "dimension", "|zeta| on codes", "contrast"], found.sweep, "Choice of sigma, kernel", note)


def _write(path: Path, found: Any, ends: np.ndarray) -> None:
    import numpy as np

    from workingpapers.foundations.files import whole_file

    with whole_file(path, "wb") as stream:
        np.savez_compressed(
            stream, points=found.points, ends=ends, energy=found.energy, length=found.length,
            residual=found.residual, violation=found.violation, converged=found.converged, sigma=found.sigma,
            dimension=found.dimension,
        )  # fmt: skip


def _data(found: Any, ends: np.ndarray) -> dict[str, Any]:
    return {
        "sigma": found.sigma,
        "dimension": found.dimension,
        "contrast": None if found.contrast != found.contrast else found.contrast,
        "ends": ends.tolist(),
        "length": found.length.tolist(),
        "energy": found.energy.tolist(),
        "straight_length": found.straight_length.tolist(),
        "graph_length": found.graph_length.tolist(),
        "farthest": found.far.tolist(),
        "straight_farthest": found.straight_far.tolist(),
        "converged": found.converged.tolist(),
    }
