"""The pages of work: jobs, the form of a command, imports."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.responses import FileResponse, RedirectResponse

from workingpapers.foundations.errors import InputError
from workingpapers.foundations.signature import summary_line
from workingpapers.web import actions, forms, reading
from workingpapers.web.actions import Web
from workingpapers.web.api import MOST_FIELDS, download, output_files, split_form, web_of
from workingpapers.web.errors import Missing, find_paper
from workingpapers.web.jobs import Job
from workingpapers.web.rendering import render
from workingpapers.web.safety import REPORT_POLICY

router = APIRouter(include_in_schema=False)
LOG_BYTES = 20_000


@router.get("/jobs")
async def jobs(request: Request) -> Response:
    """Show the jobs, and the interrupted checks that can go on."""
    web = web_of(request)
    under_way = {
        (job.request["slug"], claim)
        for job in web.jobs.all()
        if job.kind == "check" and not job.ended
        for claim in job.request["claims"] or [""]
    }
    unfinished = [
        run
        for run in web.evidence.unfinished()
        if (run.slug, run.claim) not in under_way and (run.slug, "") not in under_way
    ]
    return render(request, "jobs.html", jobs=web.jobs.all(), unfinished=unfinished)


@router.get("/jobs/{number}")
def job(request: Request, number: str) -> Response:
    """Show a job: its progress while it runs, what came out when it has ended."""
    web = web_of(request)
    found = web.job(number)
    files = output_files(web, found.id)
    return render(
        request,
        "job.html",
        job=found,
        told=web.jobs.described(found),
        outcome=web.outcome(found),
        claims=_results(web, found),
        files=files,
        report=next((name for name, _ in files if name.endswith((".html", ".htm"))), ""),
        log=_log(web, found),
    )


@router.get("/jobs/{number}/report/{name:path}")
def report(request: Request, number: str, name: str) -> Response:
    """Show a report that a command wrote, in a box in which nothing runs."""
    path = web_of(request).file(number, name)
    if path.suffix.lower() not in (".html", ".htm"):
        raise Missing(f"{name!r} is no report.")
    return FileResponse(
        path, media_type="text/html", headers={"content-security-policy": REPORT_POLICY, "cache-control": "no-store"}
    )


@router.get("/jobs/{number}/files/{name:path}")
def file(request: Request, number: str, name: str) -> Response:
    """Download a file that a command wrote."""
    return download(web_of(request), number, name)


@router.post("/jobs/{number}/cancel")
async def cancel(request: Request, number: str) -> Response:
    """Stop a job."""
    web = web_of(request)
    await web.jobs.cancel(web.job(number).id)
    return RedirectResponse(f"/jobs/{number}", 303)


@router.post("/jobs/{number}/again")
async def again(request: Request, number: str) -> Response:
    """Submit a job once more."""
    web = web_of(request)
    return RedirectResponse(f"/jobs/{(await web.jobs.again(web.job(number).id)).id}", 303)


@router.post("/results/{run}/resume")
async def resume(request: Request, run: int) -> Response:
    """Go on with an unfinished run."""
    return RedirectResponse(f"/jobs/{(await actions.resume_run(web_of(request), run)).id}", 303)


@router.post("/papers/{slug}/check")
async def check(request: Request, slug: str) -> Response:
    """Start the check of a paper."""
    async with request.form(max_fields=20) as filled:
        claim, size, seeds = (str(filled.get(name, "")).strip() for name in ("claim", "size", "seeds"))
    if seeds and not (seeds.isascii() and seeds.isdigit()):
        raise InputError(f"The number of seeds is {seeds!r}; give a whole number.")
    started = await actions.start_check(
        web_of(request),
        slug,
        claims=[claim] if claim else [],
        size=size or "small",
        seeds=int(seeds[:9]) if seeds else None,
    )
    return RedirectResponse(f"/jobs/{started.id}", 303)


@router.get("/papers/{slug}/run")
def form(request: Request, slug: str, command: str = "") -> Response:
    """Show the form of a command."""
    return _form(request, slug, command)


@router.post("/papers/{slug}/run")
async def run(request: Request, slug: str, command: str = "") -> Response:
    """Run a command; what was wrong is told beside the form, with what was filled in."""
    texts: dict[str, Any] = {}
    try:
        async with request.form(max_files=actions.MOST_FILES, max_fields=MOST_FIELDS) as filled:
            texts, files = split_form(filled)
            started = await actions.start_run(web_of(request), slug, command, texts, files)
    except Missing:
        raise
    except InputError as error:
        return _form(request, slug, command, str(error), {name: list(given) for name, given in texts.items()})
    return RedirectResponse(f"/jobs/{started.id}", 303)


@router.get("/import")
def import_page(request: Request) -> Response:
    """Show the form for proceedings."""
    return render(request, "import.html", error="", limit=web_of(request).settings.upload_limit)


@router.post("/import")
async def preview(request: Request) -> Response:
    """Take proceedings and show what would change."""
    web = web_of(request)
    try:
        async with request.form(max_files=actions.MOST_FILES, max_fields=20) as filled:
            started = await actions.preview_import(web, split_form(filled)[1].get("files", []))
    except InputError as error:
        return render(request, "import.html", 400, error=str(error), limit=web.settings.upload_limit)
    return RedirectResponse(f"/jobs/{started.id}", 303)


@router.post("/import/{number}/confirm")
async def confirm(request: Request, number: str) -> Response:
    """Import what was previewed."""
    return RedirectResponse(f"/jobs/{(await actions.confirm_import(web_of(request), number)).id}", 303)


def _form(
    request: Request, slug: str, command: str, error: str = "", filled: dict[str, list[str]] | None = None
) -> Response:
    web = web_of(request)
    paper = find_paper(slug)
    known = reading.commands(paper)
    missing = ""
    described: list[dict[str, Any]] = []
    about = ""
    try:
        if command not in known and "" not in known and known and not command:
            command = next(iter(known))
        function = actions.command_of(paper.slug, command)
        described, about = forms.fields(function), summary_line(function)
    except Missing:
        raise
    except InputError as reason:
        missing = str(reason)
    return render(
        request,
        "form.html",
        400 if error else 200,
        paper=paper,
        command=command,
        commands=known,
        fields=described,
        about=about,
        error=error or missing,
        filled=filled or {},
        earlier=web.earlier_files(paper.slug),
        limit=web.settings.upload_limit,
    )


def _results(web: Web, job: Job) -> list[reading.Claim]:
    found = []
    for item in job.verdicts:
        try:
            found.append(reading.claim_view(web.evidence.record(item["run"]), "this machine"))
        except InputError:
            continue  # the store was moved away
    return found


def _log(web: Web, job: Job) -> str:
    file = web.jobs.path(job.id) / "log.txt"
    if not job.ended or not file.is_file():
        return ""
    with file.open("rb") as stream:
        stream.seek(max(0, file.stat().st_size - LOG_BYTES))
        return stream.read().decode("utf-8", "replace").strip()
