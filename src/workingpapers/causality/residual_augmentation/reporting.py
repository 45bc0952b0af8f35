"""What the command tells: tables, figures and the report of one augmentation."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from workingpapers.foundations.figures import INK, PALETTE, canvas, to_svg
from workingpapers.foundations.outcome import Figure, Table
from workingpapers.foundations.report import heading, paragraph, write_report

SHOWN_COLUMNS = 20
PLAIN, AUGMENTED, DROPPED = INK, PALETTE[0], PALETTE[3]


def tables(model: Any, target: str) -> list[Table]:
    """Return the error before and after, and the screen's table.

    Args:
        model: A fitted :class:`~regressor.CRDARegressor`.
        target: Name of the target.

    Returns:
        One table, or two where a gate was run.
    """
    found = []
    losses = model.report_
    if not losses.empty:
        plain, augmented = losses["plain"].to_numpy(), losses["augmented"].to_numpy()
        better = int(np.sum(augmented < plain))
        found.append(
            Table(
                ("model", "root mean squared error", "mean squared error", "change %", "folds better", "p-value"),
                (
                    ("plain", float(np.sqrt(plain.mean())), float(plain.mean()), None, None, None),
                    (
                        "augmented",
                        float(np.sqrt(augmented.mean())),
                        float(augmented.mean()),
                        float(100 * (augmented.mean() / plain.mean() - 1)),
                        better,
                        float(model.gate_pvalue_),
                    ),
                ),
                f"Cross-validated error of {target}, {len(losses)} folds of untouched rows",
                "One-sided Wilcoxon test on the paired fold errors.",
            )
        )
    screen = model.screen_.sort_values(["kept", "rank"], ascending=[False, True])
    moved = {model.feature_names_in_[index] for index in model.selected_}
    found.append(
        Table(
            ("column", "correlation with target", "with residual", "p-value", "role"),
            [
                (
                    row.column,
                    float(row.correlation_target),
                    float(row.correlation_residual),
                    float(row.pvalue),
                    "moves" if row.column in moved else "may move" if row.kept else "dropped",
                )
                for row in screen.itertuples()
            ],
            "Columns that could be perturbed",
            "A column is dropped where the residual depends on it. Columns of whole numbers and text never move by "
            "themselves.",
        )
    )
    return found


def figures(model: Any, target: str) -> list[Figure]:
    """Return the figures: paired fold errors (where a gate was run) and the screen."""
    found = []
    if not model.report_.empty:
        found.append(fold_figure(model.report_, target))
    if len(model.screen_):
        found.append(screen_figure(model.screen_))
    return found


def fold_figure(losses: Any, target: str) -> Figure:
    """Return the paired errors of every fold, sorted by the plain model's, as a line from one to the other."""
    order = np.argsort(losses["plain"].to_numpy())
    plain, augmented = losses["plain"].to_numpy()[order], losses["augmented"].to_numpy()[order]
    with canvas(7.0, 1.3 + 0.24 * len(plain)) as figure:
        axes = figure.axes[0]
        for place, (first, second) in enumerate(zip(plain, augmented, strict=True)):
            axes.plot([first, second], [place, place], color=AUGMENTED if second < first else DROPPED, alpha=0.7)
        axes.scatter(plain, range(len(plain)), color=PLAIN, s=26, zorder=3, label="plain")
        axes.scatter(augmented, range(len(plain)), color=AUGMENTED, s=26, zorder=3, label="augmented")
        axes.set_yticks(range(len(plain)), [str(index + 1) for index in order])
        axes.set_ylabel("fold")
        axes.set_xlabel(f"mean squared error of {_short(target)} on the fold's untouched rows")
        axes.legend(loc="lower right", ncols=2, bbox_to_anchor=(1.0, 1.0))
        svg = to_svg(figure)
    better = int(np.sum(augmented < plain))
    return Figure(svg, f"Error of each fold without and with the new rows: lower on {better} of {len(plain)} folds.")


def screen_figure(screen: Any) -> Figure:
    """Return correlations with target and residual of the candidate columns, the strongest twenty by target."""
    strength = screen["correlation_target"].abs()
    shown = screen.loc[strength.sort_values(ascending=False).index[:SHOWN_COLUMNS]].iloc[::-1]
    place = np.arange(len(shown))
    with canvas(7.0, 1.2 + 0.3 * len(shown)) as figure:
        axes = figure.axes[0]
        axes.barh(place + 0.2, shown["correlation_target"].abs(), 0.36, color=PALETTE[5], label="with target")
        kept = shown["kept"].to_numpy(dtype=bool)
        residual = shown["correlation_residual"].abs().to_numpy()
        axes.barh(place[kept] - 0.2, residual[kept], 0.36, color=AUGMENTED, label="with residual, kept")
        axes.barh(place[~kept] - 0.2, residual[~kept], 0.36, color=DROPPED, label="with residual, dropped")
        axes.set_yticks(place, [_short(str(name)) for name in shown["column"]])
        axes.set_xlabel("absolute correlation")
        axes.set_xlim(0, 1)
        axes.legend(loc="lower right", ncols=3, bbox_to_anchor=(1.0, 1.0))
        svg = to_svg(figure)
    dropped = int((~screen["kept"]).sum())
    return Figure(
        svg,
        f"The screen drops {dropped} of {len(screen)} columns, because the residual depends on them. Useful columns "
        "follow the target and not the residual.",
    )


def write(report: Path, data: str, target: str, summary: str, shown: Sequence[Table], drawn: Sequence[Figure]) -> Path:
    """Write the HTML report and return its path."""
    sections: list[Any] = [
        paragraph(summary),
        heading("Does it help?" if len(shown) > 1 else "Columns"),
        *shown[:-1],
        *drawn[:-1],
        *([heading("Which columns move?")] if len(shown) > 1 else []),
        shown[-1],
        *drawn[-1:],
        paragraph(
            "A new row is a real row with some columns moved by one shared relative step. Its target is the prediction "
            "at the new place, by a model that did not see the row, plus the row's own residual. Residuals, screen and "
            "new rows of a fold come from its training part alone.",
            "soft",
        ),
    ]
    return write_report(report, f"Counterfactual rows for {target} in {data}", sections)


def numbers(model: Any, rows: int, added: int) -> dict[str, Any]:
    """Return the result for programs."""
    pvalue = float(model.gate_pvalue_)
    return {
        "decision": model.decision_,
        "reason": model.reason_,
        "rows": rows,
        "added": added,
        "p_value": None if np.isnan(pvalue) else pvalue,
        "plain_losses": [float(value) for value in model.report_["plain"]],
        "augmented_losses": [float(value) for value in model.report_["augmented"]],
        "moved": [str(model.feature_names_in_[index]) for index in model.selected_] if added else [],
        "parameters": {name: float(value) for name, value in model.params_.items()},
    }


def _short(name: str, length: int = 24) -> str:
    return name if len(name) <= length else name[: length - 1] + "…"
