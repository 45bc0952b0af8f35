"""The page of a checked claim: verdict, figure, table, and what the numbers depend on."""

from __future__ import annotations

import html
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from textwrap import fill
from typing import Any

import numpy as np

from workingpapers.foundations.figures import PALETTE, canvas, to_svg
from workingpapers.foundations.files import whole_file
from workingpapers.foundations.outcome import Figure, Table
from workingpapers.foundations.report import Section, heading, paragraph, write_report
from workingpapers.replication.judge import t_interval

LABEL_WIDTH = 30  # characters of a line below an axis, whose half of the figure also holds the names
NAME_WIDTH = 26


def write_claim_report(folder: Path, title: str, records: Sequence[Mapping[str, Any]]) -> list[Path]:
    """Write ``report.html`` and ``result.json`` for the claims of one paper into `folder`.

    Args:
        folder: Made where it does not exist.
        title: Title of the paper.
        records: One :func:`~workingpapers.replication.store.result_record` for each claim.

    Returns:
        The two paths.
    """
    folder.mkdir(parents=True, exist_ok=True)
    sections: list[Section] = [paragraph("Each claim was run on this machine, over paired seeds, and judged.", "soft")]
    for record in records:
        sections.extend(claim_sections(record))
    page = write_report(folder / "report.html", title, sections)
    with whole_file(folder / "result.json") as stream:
        json.dump(list(records), stream, indent=1, ensure_ascii=False)
        stream.write("\n")
    return [page, folder / "result.json"]


def claim_sections(record: Mapping[str, Any]) -> list[Section]:
    """Return the part of a page about one judged claim."""
    kind = record["verdict"].replace(" ", "-")
    sections: list[Section] = [
        heading(f"Claim: {record['claim']}"),
        f"<blockquote>{html.escape(record['statement'])}</blockquote>",
        f'<p><span class="verdict {kind}">{html.escape(record["verdict"])}</span> '
        f"{html.escape(record['reason'][0].upper() + record['reason'][1:])}.</p>",
        Figure(
            claim_figure(record),
            "Left: every seed of every arm, with the mean and its 95 % interval. "
            "Right: the judged improvement with its 95 % interval; the dashed line is the margin.",
        ),
        arms_table(record),
    ]
    if record["paper_result"]:
        sections.append(paragraph(f"The paper's own result, at its own scale: {record['paper_result']}"))
    if record["notes"]:
        sections.append(paragraph(record["notes"]))
    sections.append(provenance_table(record))
    return sections


def arms_table(record: Mapping[str, Any]) -> Table:
    """Return mean and 95 % interval of every metric of every arm, the judged one first."""
    rows = []
    names = list(dict.fromkeys(name for metrics in record["arms"].values() for name in metrics))
    for metric in sorted(names, key=lambda name: name != record["metric"]):
        for arm, metrics in record["arms"].items():
            if metric in metrics:
                role = "method" if arm == record["method"] else "baseline" if arm in _baselines(record) else "control"
                rows.append((metric, arm, role, *_mean_interval(metrics[metric])))
    return Table(
        ("metric", "arm", "role", "mean", "95 % low", "95 % high"),
        rows,
        note=f"Judged: {record['metric']}. {record['seeds']} seeds; interval of the improvement: {record['interval']}.",
    )


def provenance_table(record: Mapping[str, Any]) -> Table:
    """Return what the numbers depend on: size, seeds, versions, machine and time."""
    environment = record["environment"]
    machine = environment["machine"]
    packages = ", ".join(f"{name} {version}" for name, version in environment["packages"].items())
    settings = ", ".join(f"{name} = {value}" for name, value in record["settings"].items())
    return Table(
        ("what", "value"),
        [
            ("size", f"{record['size']} ({settings})" if settings else record["size"]),
            ("seeds", f"0 to {record['seeds'] - 1}"),
            ("compute", f"{record['seconds']:.1f} s over all arms, engine {environment.get('engine', 'local')}"),
            ("machine", f"{machine['processor']}, {machine['cores']} cores, {machine['memory_gib']} GiB"),
            ("versions", f"Python {environment['python']}, {packages}"),
            ("code", record["code"]),
            ("finished", record["finished"]),
        ],
        title="What the numbers depend on",
    )


def claim_figure(record: Mapping[str, Any]) -> str:
    """Return the SVG of a judged claim: points of each seed beside the interval of the improvement."""
    arms = list(record["arms"])
    with canvas(8.2, 1.7 + 0.46 * max(len(arms), 2), columns=2) as figure:
        points, improvement = figure.axes
        _draw_points(points, record, arms)
        _draw_improvement(improvement, record)
        return to_svg(figure)


def _draw_points(axes: Any, record: Mapping[str, Any], arms: list[str]) -> None:
    shown = [arm for arm in arms if record["metric"] in record["arms"][arm]]
    for height, arm in enumerate(reversed(shown)):
        values = _finite(record["arms"][arm][record["metric"]])
        color = PALETTE[0] if arm == record["method"] else PALETTE[1] if arm in _baselines(record) else PALETTE[4]
        # A fixed fan instead of random jitter: the same result draws the same figure.
        offsets = 0.26 * (np.arange(len(values)) % 5 - 2) / 2
        axes.scatter(values, height + offsets, s=16, color=color, alpha=0.65, linewidths=0)
        mean, low, high = _mean_interval(values)
        if math.isfinite(low):
            axes.plot([low, high], [height, height], color=color, linewidth=2.4)
        if math.isfinite(mean):
            axes.plot([mean], [height], marker="D", color=color, markersize=6, markeredgecolor="white")
    if not _baselines(record):
        axes.axvline(float(record["against"]), linestyle=":", color="#010203", linewidth=1.1)
    axes.set_yticks(range(len(shown)), [fill(arm.replace("_", " "), NAME_WIDTH) for arm in reversed(shown)])
    axes.set_ylim(-0.6, len(shown) - 0.4)
    unit = f" ({record['unit']})" if record["unit"] else ""
    axes.set_xlabel(fill(f"{record['metric'].replace('_', ' ')}{unit}, {record['direction']} is better", LABEL_WIDTH))
    axes.grid(axis="x")


def _draw_improvement(axes: Any, record: Mapping[str, Any]) -> None:
    comparisons = record["comparisons"]
    scale = 100 if record["effect"] in ("ratio", "proportion") else 1
    for height, item in enumerate(reversed(comparisons)):
        if item["improvement"] is None:
            axes.text(0, height, "no interval", va="center")
            continue
        axes.plot([scale * item["low"], scale * item["high"]], [height, height], color=PALETTE[0], linewidth=2.4)
        axes.plot([scale * item["improvement"]], [height], marker="D", color=PALETTE[0], markeredgecolor="white")
    axes.axvline(0, color="#010203", linewidth=0.8)
    axes.axvline(scale * record["margin"], color="#010203", linewidth=1.1, linestyle="--")
    axes.set_yticks(
        range(len(comparisons)),
        [fill(f"over {item['against']}".replace("_", " "), NAME_WIDTH) for item in reversed(comparisons)],
    )
    axes.set_ylim(-0.6, len(comparisons) - 0.4)
    unit = {"ratio": "%", "proportion": "percentage points"}.get(record["effect"], record["unit"])
    axes.set_xlabel(fill(f"improvement{f' ({unit})' if unit else ''}", LABEL_WIDTH))
    axes.grid(axis="x")


def _baselines(record: Mapping[str, Any]) -> list[str]:
    return record["against"] if isinstance(record["against"], list) else []


def _finite(values: Sequence[float | None]) -> list[float]:
    return [value for value in values if value is not None and math.isfinite(value)]


def _mean_interval(values: Sequence[float | None]) -> tuple[float, float, float]:
    finite = np.array(_finite(values))
    if len(finite) >= 2:
        return t_interval(finite)
    return (float(finite[0]) if len(finite) else math.nan), math.nan, math.nan
