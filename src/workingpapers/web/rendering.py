"""Templates, and what every page needs: language, theme, filters."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import jinja2
from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import HTMLResponse

from workingpapers import __version__
from workingpapers.foundations.outcome import Table, format_cell
from workingpapers.foundations.report import render_table
from workingpapers.web import prose, texts
from workingpapers.web.catalog import short_byline
from workingpapers.web.reading import improvement

FOLDER = Path(__file__).parent
THEMES = ("light", "dark")

_environment = jinja2.Environment(
    loader=jinja2.FileSystemLoader(FOLDER / "templates"),
    autoescape=True,
    trim_blocks=True,
    lstrip_blocks=True,
    undefined=jinja2.StrictUndefined,
)


def language_of(request: Request) -> str:
    """Return the language of a request: what was chosen, else what the browser asks for."""
    chosen = request.cookies.get("papers_language", "")
    return chosen if chosen in texts.LANGUAGES else texts.preferred(request.headers.get("accept-language", ""))


def theme_of(request: Request) -> str:
    """Return the theme that was chosen, or an empty string for the system's own."""
    chosen = request.cookies.get("papers_theme", "")
    return chosen if chosen in THEMES else ""


def render(request: Request, template: str, status: int = 200, **values: Any) -> HTMLResponse:
    """Return a page."""
    language = language_of(request)
    query = str(request.url.query)
    page = _environment.get_template(template).render(
        t=partial(_text, language),
        known=texts.known,
        language=language,
        theme=theme_of(request),
        here=request.url.path + (f"?{query}" if query else "") if request.method == "GET" else "/",
        path=request.url.path,
        version=__version__,
        **values,
    )
    # The same address gives a part of the page to htmx, and other words to another language.
    headers = {"cache-control": "no-cache, private", "vary": "HX-Request, Accept-Language, Cookie"}
    return HTMLResponse(page, status, headers)


def address(path: str, **values: object) -> str:
    """Return a path with its query; empty values are left out."""
    query = urlencode([(name, str(value)) for name, value in values.items() if value not in ("", None, False)])
    return f"{path}?{query}" if query else path


def _text(language: str, key: str, **values: object) -> str:
    return texts.text(key, language, **values)


def duration(seconds: float | None) -> str:
    """Return a time as a person reads it: ``48 s``, ``3 min 5 s``, ``2 h 10 min``."""
    if seconds is None:
        return "–"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


def size(count: int) -> str:
    """Return a number of bytes as a person reads it."""
    if count < 1024:
        return f"{count} B"
    return f"{count / 1024:.0f} KiB" if count < 1 << 20 else f"{count / (1 << 20):.1f} MiB"


def table(value: Table | dict[str, Any]) -> Markup:
    """Return a table as markup."""
    if isinstance(value, dict):
        value = Table(value["columns"], value["rows"], value["title"], value["note"])
    # A box that scrolls must be reachable with the keyboard.
    named = f'<div class="scroll" tabindex="0" role="region" aria-label="{Markup.escape(value.title or "table")}">'
    return Markup(render_table(value).replace('<div class="scroll">', named, 1))


def short_topics(pairs: Sequence[tuple[str, int]]) -> dict[str, str]:
    """Return topic -> its last part, for those that it tells apart from the others."""
    parts = {topic: topic.split(" · ")[-1] for topic, _ in pairs}
    counts = Counter(parts.values())
    return {topic: part for topic, part in parts.items() if counts[part] == 1}


def moment(text: str | None) -> str:
    """Return an ISO time to the minute."""
    return text[:16].replace("T", " ") + " UTC" if text else "–"


_environment.filters.update(
    rich=prose.rich,
    byline=short_byline,
    duration=duration,
    bytes=size,
    table=table,
    moment=moment,
    cell=format_cell,
    group=lambda number: f"{number:,}",
)
_environment.globals.update(address=address, improvement=improvement, marked=prose.rich, short_topics=short_topics)
