"""One self-contained HTML file: headings, sentences, tables and figures, in light and in dark."""

from __future__ import annotations

import html
import os
from collections.abc import Sequence
from pathlib import Path

from workingpapers.foundations.files import whole_file
from workingpapers.foundations.outcome import Figure, Table, format_cell

STYLE = """
:root{color-scheme:light dark;--ink:#1b1f24;--soft:#57606a;--line:#d0d7de;--ground:#fff;--tint:#f6f8fa;
--good:#1a7f37;--bad:#b42318;--open:#7a5b00}
@media(prefers-color-scheme:dark){:root{--ink:#e6edf3;--soft:#9da7b3;--line:#3d444d;--ground:#0d1117;--tint:#161b22;
--good:#4ac26b;--bad:#ff7b72;--open:#d4a72c}}
*{box-sizing:border-box}
body{margin:0 auto;max-width:60rem;padding:1.5rem 1rem 4rem;color:var(--ink);background:var(--ground);
font:16px/1.55 system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue",Arial,sans-serif}
h1{font-size:1.6rem;line-height:1.25;margin:.5rem 0}h2{font-size:1.2rem;margin:2rem 0 .5rem}
p{margin:.5rem 0;max-width:46rem}.soft,figcaption,caption{color:var(--soft);font-size:.9rem}
.scroll{overflow-x:auto}
table{border-collapse:collapse;margin:.5rem 0;font-variant-numeric:tabular-nums;font-size:.92rem}
caption{text-align:left;padding:.25rem 0}th,td{padding:.3rem .8rem .3rem 0;border-bottom:1px solid var(--line);
text-align:left;vertical-align:top}td.number,th.number{text-align:right}
figure{margin:1rem 0}.verdict{display:inline-block;font-weight:600;padding:.1rem .6rem;border:1px solid currentColor;
border-radius:1rem}.supported{color:var(--good)}.not-supported{color:var(--bad)}.inconclusive{color:var(--open)}
blockquote{margin:.5rem 0;padding:.2rem .9rem;border-left:3px solid var(--line)}
code{background:var(--tint);padding:.1rem .3rem;border-radius:.25rem}
pre{background:var(--tint);padding:.8rem;overflow-x:auto}
pre code{padding:0}
"""

Section = str | Table | Figure


def heading(text: str) -> str:
    """Return a second-level heading as markup."""
    return f"<h2>{html.escape(text)}</h2>"


def paragraph(text: str, kind: str = "") -> str:
    """Return `text`, escaped, as a paragraph; `kind` is a style class such as ``soft``."""
    return f'<p class="{html.escape(kind)}">{html.escape(text)}</p>' if kind else f"<p>{html.escape(text)}</p>"


def render_table(table: Table) -> str:
    """Return `table` as markup; columns that hold only numbers are set flush right."""
    numeric = [
        bool(table.rows)
        and all(
            isinstance(row[index], int | float | type(None)) and not isinstance(row[index], bool) for row in table.rows
        )
        for index in range(len(table.columns))
    ]

    def cell(tag: str, index: int, text: str) -> str:
        kind = ' class="number"' if numeric[index] else ""
        scope = ' scope="col"' if tag == "th" else ""
        return f"<{tag}{kind}{scope}>{html.escape(text)}</{tag}>"

    head = "".join(cell("th", index, name) for index, name in enumerate(table.columns))
    body = "".join(
        "<tr>" + "".join(cell("td", index, format_cell(value)) for index, value in enumerate(row)) + "</tr>"
        for row in table.rows
    )
    caption = f"<caption>{html.escape(table.title)}</caption>" if table.title else ""
    note = paragraph(table.note, "soft") if table.note else ""
    return (
        f'<div class="scroll"><table>{caption}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>{note}'
    )


def render_figure(figure: Figure) -> str:
    """Return `figure` as markup, its caption below it."""
    caption = f"<figcaption>{html.escape(figure.caption)}</figcaption>" if figure.caption else ""
    return f"<figure>{figure.svg}{caption}</figure>"


def render(title: str, sections: Sequence[Section]) -> str:
    """Return a whole HTML page. A string section is markup (see :func:`heading`, :func:`paragraph`)."""
    parts = []
    for section in sections:
        if isinstance(section, Table):
            parts.append(render_table(section))
        elif isinstance(section, Figure):
            parts.append(render_figure(section))
        else:
            parts.append(section)
    escaped = html.escape(title)
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>{escaped}</title><style>{STYLE}</style></head><body><h1>{escaped}</h1>\n"
        + "\n".join(parts)
        + "\n</body></html>\n"
    )


def write_report(path: str | os.PathLike[str], title: str, sections: Sequence[Section]) -> Path:
    """Write the page of :func:`render` to `path`, whole or not at all, and return the path."""
    with whole_file(path) as stream:
        stream.write(render(title, sections))
    return Path(path)
