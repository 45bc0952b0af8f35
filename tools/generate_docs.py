"""``make docs``: the table of the README and the page of each paper, from the records and the shipped evidence.

    python tools/generate_docs.py [--check]

``--check`` writes nothing and fails where a file is not what it would be.
"""

from __future__ import annotations

import inspect
import sys
from pathlib import Path
from typing import Any

from workingpapers.catalog.papers import Paper, all_papers
from workingpapers.foundations.outcome import format_cell
from workingpapers.foundations.signature import parameters, summary_line
from workingpapers.replication.evidence import shipped
from workingpapers.replication.report import arms_table, claim_figure

ROOT = Path(__file__).parent.parent
BEGIN, END = "<!-- papers: made by `make docs` -->", "<!-- end of papers -->"
MARKS = {"supported": "✔ supported", "not supported": "✘ not supported", "inconclusive": "◌ inconclusive"}


def main() -> int:
    """Write or check every generated file."""
    stale = []
    for path, text in files().items():
        if path.exists() and path.read_text(encoding="utf-8") == text:
            continue
        stale.append(path.relative_to(ROOT))
        if "--check" not in sys.argv:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
    for path in stale:
        print(("stale: " if "--check" in sys.argv else "written: ") + str(path))
    return 1 if stale and "--check" in sys.argv else 0


def files() -> dict[Path, str]:
    """Return every generated file with its text."""
    papers = all_papers()
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    start, stop = readme.index(BEGIN) + len(BEGIN), readme.index(END)
    found = {ROOT / "README.md": readme[:start] + "\n" + paper_table(papers) + readme[stop:]}
    found[ROOT / "docs" / "papers" / "README.md"] = (
        "# The papers\n\nOne page a paper, made from its folder.\n\n" + paper_table(papers, "")
    )
    for paper in papers:
        found[ROOT / "docs" / "papers" / f"{paper.slug}.md"] = page(paper)
        for record in shipped(paper.folder):
            # On a page of its own an SVG has no surrounding text to take its colour from.
            drawing = claim_figure(record).replace("currentColor", "#7d8590")
            found[ROOT / "docs" / "papers" / "figures" / f"{paper.slug}-{record['claim']}.svg"] = drawing
    return found


def paper_table(papers: tuple[Paper, ...], prefix: str = "docs/papers/") -> str:
    """Return the table of papers with the verdict of each headline claim."""
    lines = ["| paper | what it gives | headline claim, measured | all claims |", "|---|---|---|---|"]
    for paper in papers:
        records = shipped(paper.folder)
        verdict = MARKS[records[0]["verdict"]] if records else "not measured"
        counts = ", ".join(
            f"{number} {kind}" for kind in MARKS if (number := sum(record["verdict"] == kind for record in records))
        )
        lines.append(f"| [`{paper.slug}`]({prefix}{paper.slug}.md) | {paper.title} | {verdict} | {counts or '–'} |")
    return "\n".join(lines) + "\n"


def page(paper: Paper) -> str:
    """Return the page of one paper."""
    links = [f"[arXiv:{paper.arxiv}](https://arxiv.org/abs/{paper.arxiv})" if paper.arxiv else "", paper.code]
    lines = [
        f"# {paper.title}",
        "",
        f"**{paper.method}** · {', '.join(paper.authors)} · {paper.venue} {paper.year} · {paper.topic}"
        + "".join(f" · {link}" for link in links if link),
        "",
        paper.summary,
        "",
        "## The paper's own figures, at its own scale",
        "",
        *(f"- {result} ({setting})" for result, setting in paper.headline),
        "",
        "## Measured",
        "",
    ]
    for record in shipped(paper.folder):
        lines += measured(paper, record)
    lines += ["## Use it from Python", "", *documentation(paper), ""]
    if paper.has_command:
        lines += ["## Use it from the command line", ""]
        for name, function in paper.commands().items():
            lines += usage(paper, name, function)
    guide = ROOT / "docs" / "guide" / f"{paper.slug}.md"
    if guide.exists():
        lines += [f"A worked example and what the tool can and cannot establish: [guide](../guide/{guide.name}).", ""]
    return "\n".join(lines)


def measured(paper: Paper, record: dict[str, Any]) -> list[str]:
    """Return the section of one judged claim."""
    environment = record["environment"]
    table = arms_table(record)
    lines = [
        f"### {record['claim']}: {record['verdict']}",
        "",
        f"> {record['statement']}",
        "",
        f"{record['reason'][0].upper()}{record['reason'][1:]} ({record['interval']}, {record['seeds']} seeds).",
        "",
        f"![{record['claim']}](figures/{paper.slug}-{record['claim']}.svg)",
        "",
        "| " + " | ".join(table.columns) + " |",
        "|" + "---|" * len(table.columns),
        *("| " + " | ".join(format_cell(cell) for cell in row) + " |" for row in table.rows),
        "",
    ]
    if record["paper_result"]:
        lines += [f"The paper's own result: {record['paper_result']}", ""]
    if record["notes"]:
        lines += [record["notes"], ""]
    machine = environment["machine"]
    lines += [
        f"Measured at size `{record['size']}` in {record['seconds']:.0f} s on {machine['cores']} cores "
        f"({machine['processor']}), Python {environment['python']}; again with "
        f"`papers check {paper.slug} --claim {record['claim']}`.",
        "",
    ]
    return lines


def documentation(paper: Paper) -> list[str]:
    """Return the import line and the docstring of the folder."""
    import importlib

    module = importlib.import_module(paper.module)
    lines = ["```python", f"from {paper.module} import {', '.join(module.__all__[:4])}", "```", ""]
    lines += ["```text", inspect.getdoc(module) or "", "```"]
    if paper.extra:
        lines = ["```", f"pip install 'workingpapers[{paper.extra}]'", "```", "", *lines]
    return lines


def usage(paper: Paper, name: str, function: Any) -> list[str]:
    """Return the section of one command."""
    described = parameters(function)
    positional = " ".join(
        item.name.upper() if item.required else f"[{item.name.upper()}]" for item in described if item.positional
    )
    required = " ".join(
        f"{item.label} {item.name.upper()}" for item in described if not item.positional and item.required
    )
    words = " ".join(part for part in (f"papers run {paper.slug}", name, positional, required) if part)
    lines = [
        "```",
        f"{words} [options]",
        "```",
        "",
        summary_line(function),
        "",
        "| option | default | |",
        "|---|---|---|",
    ]
    for item in described:
        shown = "" if item.required or item.default in (None, ()) else f"`{item.default}`"
        text = item.help.replace("|", "\\|")
        lines.append(f"| `{item.label}` | {shown} | {text} |")
    return [*lines, ""]


if __name__ == "__main__":
    sys.exit(main())
