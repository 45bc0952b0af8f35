"""Text with formulas as markup: docstrings, abstracts, highlighted titles. Formulas are left to KaTeX on the page."""

from __future__ import annotations

import re
from collections.abc import Sequence

from markupsafe import Markup, escape

# A dollar opens a formula where no space follows it, and closes one where no space stands before and no digit after:
# so "between $5 and $10" stays as it is.
FORMULA = re.compile(
    r"\$\$(?P<display>.+?)\$\$|\\\[(?P<bracket>.+?)\\\]|\\\((?P<round>.+?)\\\)"
    r"|(?<![\\\w$])\$(?P<inline>[^\s$](?:[^$\n]*?[^\s$\\])?)\$(?!\d)",
    re.DOTALL,
)
ROLE = re.compile(r":math:`(?P<math>[^`]+)`|:\w+:`~?(?P<name>[^`]+)`|``(?P<code>[^`]+)``|`(?P<single>[^`]+)`")


def rich(text: str, spans: Sequence[tuple[int, int]] = ()) -> Markup:
    """Return a text with its formulas set apart and the spans marked.

    Args:
        text: Plain text with LaTeX formulas.
        spans: Stretches to mark; those in formulas stay unmarked.
    """
    parts: list[Markup] = []
    position = 0
    for found in FORMULA.finditer(text):
        parts.append(marked(text, position, found.start(), spans))
        display = found["display"] or found["bracket"]
        parts.append(math(display or found["inline"] or found["round"], display=bool(display)))
        position = found.end()
    parts.append(marked(text, position, len(text), spans))
    return Markup("").join(parts)


def marked(text: str, start: int, stop: int, spans: Sequence[tuple[int, int]]) -> Markup:
    """Return ``text[start:stop]`` with the spans marked."""
    parts: list[Markup] = []
    position = start
    for first, last in sorted(spans):
        first, last = max(first, position), min(last, stop)
        if first < last:
            parts += [escape(text[position:first]), Markup("<mark>"), escape(text[first:last]), Markup("</mark>")]
            position = last
    parts.append(escape(text[position:stop]))
    return Markup("").join(parts)


def math(tex: str, *, display: bool = False) -> Markup:
    """Return a formula as the element that the page renders; without scripts its source is read."""
    kind = "math display" if display else "math"
    return Markup('<span class="{}">{}</span>').format(kind, tex.strip())


def docstring(text: str) -> Markup:
    """Return a docstring as paragraphs, code and small headings."""
    parts: list[Markup] = []
    for block in re.split(r"\n\s*\n", text.strip()):
        lines = block.splitlines()
        if re.fullmatch(r"[A-Z]\w+:", lines[0].strip()) and not lines[0].startswith(" "):
            name = lines[0].strip()[:-1]
            parts.append(Markup("<h3>{}</h3>").format(name))
            lines = lines[1:]
        if not lines:
            continue
        body = "\n".join(lines)
        if lines[0].lstrip().startswith(".. math::"):
            parts.append(Markup("<p>{}</p>").format(math(body.split("::", 1)[1], display=True)))
        elif lines[0].lstrip().startswith(">>>"):
            parts.append(Markup("<pre tabindex=0><code>{}</code></pre>").format(without_prompts(body)))
        else:
            parts.append(Markup("<p>{}</p>").format(inline(" ".join(line.strip() for line in lines))))
    return Markup("\n").join(parts)


def inline(text: str) -> Markup:
    """Return one paragraph with its roles: formulas, names and code."""
    parts: list[Markup] = []
    position = 0
    for found in ROLE.finditer(text):
        parts.append(escape(text[position : found.start()]))
        if found["math"]:
            parts.append(math(found["math"]))
        else:
            name = found["code"] or found["single"] or found["name"].rpartition(".")[2]
            parts.append(Markup("<code>{}</code>").format(name))
        position = found.end()
    parts.append(escape(text[position:]))
    return Markup("").join(parts)


def without_prompts(text: str) -> str:
    """Return an interactive example as a program: prompts removed, results as comments."""
    lines = []
    for line in text.splitlines():
        bare = line.strip()
        if bare.startswith((">>> ", "... ")):
            lines.append(line.strip()[4:])
        elif bare not in (">>>", "..."):
            lines.append(f"# {bare}")
    return "\n".join(lines)
