"""Figures as SVG that read well on light and on dark pages.

Ink (axes, ticks, text) is drawn in one sentinel colour and becomes ``currentColor`` in the file, so that it takes the
colour of the text around it. Data take the Okabe-Ito palette, which colour-blind readers can tell apart.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.figure import Figure as MatplotlibFigure

# Okabe & Ito (2008), ordered so that neighbours differ in lightness too; black is left to the ink.
PALETTE = ("#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#56B4E9", "#F0E442")
INK = "#010203"


@contextmanager
def canvas(width: float = 7.0, height: float = 3.6, rows: int = 1, columns: int = 1) -> Iterator[MatplotlibFigure]:
    """Give a matplotlib figure in the house style, without a global state or a display.

    Args:
        width: Width in inches.
        height: Height in inches.
        rows: Rows of axes; ``figure.axes`` lists them row by row.
        columns: Columns of axes.
    """
    import matplotlib
    from cycler import cycler
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    style: dict[Any, Any] = {
        "svg.fonttype": "none",
        "svg.hashsalt": "workingpapers",
        "font.family": "sans-serif",
        "font.size": 9.5,
        "text.color": INK,
        "axes.labelcolor": INK,
        "axes.edgecolor": INK,
        "xtick.color": INK,
        "ytick.color": INK,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.prop_cycle": cycler(color=PALETTE),
        "axes.titlesize": 10.5,
        "axes.titlelocation": "left",
        "legend.frameon": False,
        "grid.color": INK,
        "grid.alpha": 0.15,
        "lines.linewidth": 1.6,
        "figure.constrained_layout.use": True,
    }
    with matplotlib.rc_context(style):
        figure = Figure(figsize=(width, height))
        FigureCanvasSVG(figure)
        figure.subplots(rows, columns)
        figure.patch.set_alpha(0)
        for axes in figure.axes:
            axes.patch.set_alpha(0)
        yield figure


def to_svg(figure: MatplotlibFigure) -> str:
    """Return the SVG text of `figure`, transparent, ink as ``currentColor``; the same figure gives the same text."""
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    text = buffer.getvalue()
    text = text[text.index("<svg") :]
    text = text.replace(INK, "currentColor")
    # The figure scales with the page that holds it; its own size stays the upper bound.
    return re.sub(
        r'<svg ([^>]*?)width="([\d.]+)pt"', r'<svg \1style="max-width:100%;height:auto" width="\2pt"', text, count=1
    )
