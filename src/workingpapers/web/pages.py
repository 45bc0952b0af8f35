"""The pages: search, a paper, a record, results, and their parts."""

from __future__ import annotations

from typing import Annotated, Any
from urllib.parse import urlsplit

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import RedirectResponse

from workingpapers.catalog.records import Record
from workingpapers.replication.comparison import comparison_table
from workingpapers.web import reading
from workingpapers.web.api import LONGEST_QUERY, MOST_HITS, found_record, found_result, web_of
from workingpapers.web.catalog import Question, raise_unknown_verdict
from workingpapers.web.errors import Missing, find_paper
from workingpapers.web.evidence import figure_svg
from workingpapers.web.rendering import THEMES, render
from workingpapers.web.safety import local_path
from workingpapers.web.texts import LANGUAGES

router = APIRouter(include_in_schema=False)
YEAR = 365 * 86400
PAGE = 20


@router.get("/")
def search(
    request: Request,
    q: str = "",
    topic: str = "",
    area: str = "",
    author: str = "",
    verdict: str = "",
    command: bool = False,
    scope: str = "",
    limit: int = PAGE,
) -> Response:
    """Show the search, or its results alone where htmx asks as somebody types."""
    raise_unknown_verdict(verdict)
    part = request.headers.get("hx-request") == "true"
    question = Question(
        text=q[:LONGEST_QUERY],
        topic=topic[:LONGEST_QUERY],
        area=area[:LONGEST_QUERY],
        author=author[:LONGEST_QUERY],
        verdict=verdict,
        command=command,
        scope=scope if scope in ("library", "all") else "",  # type: ignore[arg-type]
        limit=max(1, min(limit, MOST_HITS)),
        typing=part and request.headers.get("hx-trigger-name") == "q",
        unfinished=True,  # an address that was copied in the middle of a word shows what was found then
    )
    web = web_of(request)
    found = web.catalog.search(question)
    count = web.catalog.count() if found.own and not question.text else 0
    return render(request, "results.html" if part else "search.html", question=question, found=found, count=count)


@router.get("/papers/{slug}")
def paper(request: Request, slug: str) -> Response:
    """Show a paper of this library."""
    web = web_of(request)
    found = find_paper(slug)
    record = web.catalog.record_of(found.slug)
    claims = reading.claims(found, web.evidence)
    return render(
        request,
        "paper.html",
        paper=found,
        record=record,
        claims=claims,
        documentation=reading.documentation(found.slug),
        python=reading.python_usage(found.slug),
        lines=reading.command_lines(found),
        commands=reading.commands(found),
        unfinished=web.evidence.unfinished(found.slug),
        citations=_citations(found.record()),
    )


@router.get("/papers/{slug}/figures/{claim}")
def figure(request: Request, slug: str, claim: str) -> Response:
    """Show the figure of a claim."""
    found = find_paper(slug)
    record = web_of(request).evidence.claim(found, claim)
    if record is None:
        raise Missing(f"{found.slug} has no measured claim {claim!r}.")
    part = request.headers.get("hx-request") == "true"
    return render(request, "figure.html" if part else "figure_page.html", svg=figure_svg(record), record=record)


@router.get("/results/{run}/figure")
def run_figure(request: Request, run: int) -> Response:
    """Show the figure of a stored run."""
    record = found_result(web_of(request), run)
    part = request.headers.get("hx-request") == "true"
    return render(request, "figure.html" if part else "figure_page.html", svg=figure_svg(record), record=record)


@router.get("/papers/{slug}/similar")
def similar(request: Request, slug: str) -> Response:
    """Show what is like a paper."""
    hits, engine = web_of(request).catalog.similar(find_paper(slug).record())
    return render(request, "similar.html", hits=hits, engine=engine)


@router.get("/records/{number}")
def record(request: Request, number: int) -> Response:
    """Show a record of the catalog."""
    found: Record = found_record(web_of(request), number)
    if found.slug:
        return RedirectResponse(f"/papers/{found.slug}", 303)
    return render(request, "record.html", record=found, number=number, citations=_citations(found))


@router.get("/records/{number}/similar")
def record_similar(request: Request, number: int) -> Response:
    """Show what is like a record."""
    web = web_of(request)
    hits, engine = web.catalog.similar(found_record(web, number))
    return render(request, "similar.html", hits=hits, engine=engine)


@router.get("/results")
def results(request: Request, paper: str = "", run: Annotated[list[int] | None, Query()] = None) -> Response:
    """Show the stored results, or two of them compared."""
    web = web_of(request)
    if run and len(run) == 2:
        return RedirectResponse(f"/results/{run[0]}/compared/{run[1]}", 303)
    slug = find_paper(paper).slug if paper else None
    return render(request, "runs.html", runs=web.evidence.store.runs(slug, 300), slug=slug, chosen=run or [])


@router.get("/results/{run}")
def result(request: Request, run: int) -> Response:
    """Show a stored result."""
    record = found_result(web_of(request), run)
    return render(request, "run.html", claim=reading.claim_view(record, "this machine"), run=run)


@router.get("/results/{run}/compared/{other}")
def compared(request: Request, run: int, other: int) -> Response:
    """Show two stored results of one claim side by side."""
    web = web_of(request)
    first, second = found_result(web, run), found_result(web, other)
    table = comparison_table(first, second)
    return render(request, "compared.html", first=first, second=second, table=table)


@router.get("/preferences")
def preferences(request: Request, language: str = "", theme: str = "", back: str = "/") -> Response:
    """Keep a language or a theme, and go back."""
    # The address may have changed since the page was made: as somebody types, it follows the query.
    came_from = urlsplit(request.headers.get("referer", ""))
    if came_from.netloc == request.headers.get("host"):
        back = came_from.path + (f"?{came_from.query}" if came_from.query else "")
    answer = RedirectResponse(local_path(back), 303)
    if language in LANGUAGES:
        answer.set_cookie("papers_language", language, max_age=YEAR, samesite="lax")
    if theme in THEMES:
        answer.set_cookie("papers_theme", theme, max_age=YEAR, samesite="lax")
    return answer


def _citations(record: Record) -> dict[str, Any]:
    return {form: reading.citation(record, form) for form in reading.CITATIONS}
