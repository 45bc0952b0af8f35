"""The JSON interface under ``/api``, described by ``/api/openapi.json``."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Path, Query, Request, Response
from fastapi.responses import FileResponse, PlainTextResponse, StreamingResponse
from pydantic import BaseModel, ConfigDict, Field
from starlette.datastructures import FormData, UploadFile

from workingpapers.catalog.papers import all_papers
from workingpapers.foundations.errors import InputError
from workingpapers.replication.comparison import comparison_table
from workingpapers.web import actions, forms, reading
from workingpapers.web.actions import Web
from workingpapers.web.catalog import Question, Results, record_json
from workingpapers.web.errors import Missing, find_paper

LONGEST_QUERY = 500
MOST_HITS = 200
MOST_FIELDS = 200
Json = dict[str, Any]


class Problem(BaseModel):
    """Why a request was refused."""

    detail: str = Field(description="One sentence that names the value and the way out.")


class CheckRequest(BaseModel):
    """A check to start."""

    model_config = ConfigDict(extra="forbid")

    paper: str = Field(description="Short name of the paper.", max_length=100)
    claims: list[Annotated[str, Field(max_length=100)]] = Field([], description="Claims; none for all.", max_length=50)
    size: Literal["smallest", "small", "full"] = "small"
    seeds: int | None = Field(None, ge=1, le=actions.MOST_SEEDS, description="Number of seeds; null: the claim's own.")
    workers: int | None = Field(None, ge=1, le=1024, description="Worker processes; null: one for each core.")
    reuse: bool = Field(False, description="Take a stored result of the same code, size and seeds.")


class JobModel(BaseModel):
    """A job: work that was asked for."""

    id: str
    kind: Literal["check", "run", "import"]
    title: str
    state: Literal["waiting", "running", "done", "failed", "cancelled", "interrupted"]
    created: str
    started: str
    finished: str
    progress: dict[str, Any]
    verdicts: list[dict[str, Any]]
    error: str
    seconds: float
    elapsed: float
    place: int = Field(description="How many jobs stand before it.")
    request: dict[str, Any]


def problems(*codes: int) -> dict[int | str, dict[str, Any]]:
    """Return the documentation of refusals, which are JSON even where the answer is not."""
    texts = {400: "A value cannot be used.", 404: "It is not there.", 413: "Too large.", 429: "The queue is full."}
    content = {"application/json": {"schema": Problem.model_json_schema()}}
    return {code: {"description": texts[code], "content": content} for code in codes}


router = APIRouter(prefix="/api")
Slug = Annotated[str, Path(description="Short name of a paper.", max_length=100)]
JobId = Annotated[str, Path(description="Number of a job.", pattern="^[0-9a-f]{16}$")]
RunId = Annotated[int, Path(description="Number of a stored run.", ge=1, lt=1 << 62)]


def web_of(request: Request) -> Web:
    """Return what the handlers share."""
    web: Web = request.app.state.web
    return web


@router.get("/search", tags=["find"], responses=problems(400))
def search(
    request: Request,
    q: Annotated[str, Query(description="Words, a phrase in quotes, prefix*, 中文.", max_length=LONGEST_QUERY)] = "",
    topic: Annotated[str, Query(max_length=LONGEST_QUERY)] = "",
    area: Annotated[str, Query(max_length=LONGEST_QUERY)] = "",
    author: Annotated[str, Query(max_length=LONGEST_QUERY)] = "",
    verdict: Literal["", "supported", "not supported", "inconclusive", "not measured"] = "",
    command: Annotated[bool, Query(description="Only papers that have a command.")] = False,
    scope: Literal["", "library", "all"] = "",
    limit: Annotated[int, Query(ge=1, le=MOST_HITS)] = 20,
    typing: Annotated[bool, Query(description="Whether the last word is unfinished.")] = False,
) -> Json:
    """Search the catalog."""
    question = Question(q, topic, area, author, verdict, command, scope, limit, typing)
    return results_json(question, web_of(request).catalog.search(question))


@router.get("/topics", tags=["find"])
def topics(request: Request) -> dict[str, int]:
    """Return every topic with its number of records."""
    return dict(web_of(request).catalog.topics())


@router.get("/records/{number}", tags=["find"], responses=problems(400, 404))
def record(request: Request, number: Annotated[int, Path(ge=1, lt=1 << 62)]) -> Json:
    """Return a record of the catalog."""
    found = found_record(web_of(request), number)
    return {**record_json(found, number), "abstract": found.abstract, "summary": found.summary}


@router.get("/papers", tags=["read"])
def papers(request: Request) -> list[Json]:
    """Return the papers of this library with the verdicts of their headline claims."""
    evidence = web_of(request).evidence
    return [reading.paper_line(paper, evidence) for paper in all_papers()]


@router.get("/papers/{slug}", tags=["read"], responses=problems(400, 404))
def paper(request: Request, slug: Slug) -> Json:
    """Return a paper: its words, what was measured, how to use it."""
    return reading.paper_json(find_paper(slug), web_of(request).evidence)


@router.get("/papers/{slug}/similar", tags=["read"], responses=problems(400, 404))
def similar(request: Request, slug: Slug, limit: Annotated[int, Query(ge=1, le=50)] = 6) -> Json:
    """Return the records most like a paper."""
    hits, engine = web_of(request).catalog.similar(find_paper(slug).record(), limit)
    return {"engine": engine, "hits": [found.as_json() for found in hits]}


@router.get(
    "/papers/{slug}/citation",
    tags=["read"],
    response_class=PlainTextResponse,
    responses={
        200: {"content": {"text/plain": {"schema": {"type": "string"}}}, "description": "The citation."},
        **problems(400, 404),
    },
)
def citation(slug: Slug, form: Literal["bibtex", "csl-json"] = "bibtex") -> PlainTextResponse:
    """Return a paper as BibTeX or CSL-JSON."""
    return PlainTextResponse(reading.citation(find_paper(slug).record(), form))


@router.get("/papers/{slug}/commands", tags=["use"], responses=problems(400, 404))
def commands(slug: Slug) -> dict[str, list[Json]]:
    """Return each command of a paper with the fields of its form."""
    found = find_paper(slug)
    if not found.has_command:
        return {}
    return {name: forms.fields(function) for name, function in found.commands().items()}


@router.post(
    "/papers/{slug}/runs",
    tags=["use"],
    status_code=202,
    response_model=JobModel,
    responses=problems(400, 404, 413, 429),
    openapi_extra={
        "requestBody": {
            "description": "The fields that GET .../commands names; files are uploads.",
            "content": {"multipart/form-data": {"schema": {"type": "object", "additionalProperties": True}}},
        }
    },
)
async def start_run(
    request: Request, slug: Slug, command: Annotated[str, Query(max_length=100, description="Sub-command.")] = ""
) -> Json:
    """Run a command of a paper on uploaded files."""
    web = web_of(request)
    async with request.form(max_files=actions.MOST_FILES, max_fields=MOST_FIELDS) as filled:
        texts, files = split_form(filled)
        job = await actions.start_run(web, slug, command, texts, files)
    return web.jobs.described(job)


@router.post("/checks", tags=["check"], status_code=202, response_model=JobModel, responses=problems(400, 404, 429))
async def start_check(request: Request, wanted: CheckRequest) -> Json:
    """Check claims of a paper on this machine."""
    web = web_of(request)
    job = await actions.start_check(
        web,
        wanted.paper,
        claims=wanted.claims,
        size=wanted.size,
        seeds=wanted.seeds,
        workers=wanted.workers,
        reuse=wanted.reuse,
    )
    return web.jobs.described(job)


@router.get("/results", tags=["check"], responses=problems(400, 404))
def results(request: Request, paper: Annotated[str, Query(max_length=100)] = "") -> list[Json]:
    """Return the stored runs, the newest first."""
    slug = find_paper(paper).slug if paper else None
    return [
        {
            "run": run.id,
            "paper": run.slug,
            "claim": run.claim,
            "size": run.size,
            "seeds": run.seeds,
            "status": run.status,
            "started": run.started,
            "finished": run.finished,
            "verdict": run.result["verdict"] if run.result else None,
        }
        for run in web_of(request).evidence.store.runs(slug)
    ]


@router.get("/results/{run}", tags=["check"], responses=problems(400, 404))
def result(request: Request, run: RunId) -> Json:
    """Return a stored result."""
    return found_result(web_of(request), run)


@router.get("/results/{run}/compared/{other}", tags=["check"], responses=problems(400, 404))
def compared(request: Request, run: RunId, other: RunId) -> Json:
    """Compare two stored results of one claim."""
    web = web_of(request)
    table = comparison_table(found_result(web, run), found_result(web, other))
    return {"columns": list(table.columns), "rows": [list(row) for row in table.rows]}


@router.post(
    "/results/{run}/resume",
    tags=["check"],
    status_code=202,
    response_model=JobModel,
    responses=problems(400, 404, 429),
)
async def resume_result(request: Request, run: RunId) -> Json:
    """Go on with an unfinished run."""
    web = web_of(request)
    return web.jobs.described(await actions.resume_run(web, run))


@router.post(
    "/imports",
    tags=["import"],
    status_code=202,
    response_model=JobModel,
    responses=problems(400, 413, 429),
    openapi_extra={
        "requestBody": {
            "description": "Proceedings, as uploads named files.",
            "content": {
                "multipart/form-data": {
                    "schema": {
                        "type": "object",
                        "properties": {
                            "files": {"type": "array", "items": {"type": "string", "contentMediaType": "text/plain"}}
                        },
                    }
                }
            },
        }
    },
)
async def start_import(request: Request) -> Json:
    """Find out what an import would change; nothing is kept until it is confirmed."""
    web = web_of(request)
    async with request.form(max_files=actions.MOST_FILES, max_fields=MOST_FIELDS) as filled:
        job = await actions.preview_import(web, split_form(filled)[1].get("files", []))
    return web.jobs.described(job)


@router.post(
    "/imports/{job}/confirm",
    tags=["import"],
    status_code=202,
    response_model=JobModel,
    responses=problems(400, 404, 429),
)
async def confirm_import(request: Request, job: JobId) -> Json:
    """Import what was previewed."""
    web = web_of(request)
    return web.jobs.described(await actions.confirm_import(web, job))


@router.get("/jobs", tags=["jobs"], response_model=list[JobModel])
async def jobs(request: Request) -> list[Json]:
    """Return every job that is kept, the newest first."""
    web = web_of(request)
    return [web.jobs.described(job) for job in web.jobs.all()]


@router.get("/jobs/{job}", tags=["jobs"], response_model=JobModel, responses=problems(400, 404))
async def job(request: Request, job: JobId) -> Json:
    """Return a job."""
    web = web_of(request)
    return web.jobs.described(web.job(job))


@router.get("/jobs/{job}/outcome", tags=["jobs"], responses=problems(400, 404))
async def outcome(request: Request, job: JobId) -> Json:
    """Return what a finished command or import gave, and the names of the files that it wrote."""
    web = web_of(request)
    found = web.outcome(web.job(job))
    if found is None:
        raise Missing(f"The job {job} has no outcome; it may not have ended.")
    return {**found, "files": [name for name, _ in output_files(web, job)]}


@router.post("/jobs/{job}/cancel", tags=["jobs"], response_model=JobModel, responses=problems(400, 404))
async def cancel(request: Request, job: JobId) -> Json:
    """Stop a job; what it stored stays."""
    web = web_of(request)
    return web.jobs.described(await web.jobs.cancel(web.job(job).id))


@router.post(
    "/jobs/{job}/again", tags=["jobs"], status_code=202, response_model=JobModel, responses=problems(400, 404, 429)
)
async def again(request: Request, job: JobId) -> Json:
    """Submit an ended job once more; a check goes on where it stopped."""
    web = web_of(request)
    return web.jobs.described(await web.jobs.again(web.job(job).id))


@router.get(
    "/jobs/{job}/events",
    tags=["jobs"],
    response_class=StreamingResponse,
    responses={
        200: {
            "content": {"text/event-stream": {"schema": {"type": "string"}}},
            "description": "The job, each time that something changes, until it has ended.",
        },
        **problems(400, 404),
    },
)
async def events(request: Request, job: JobId) -> StreamingResponse:
    """Follow a job by server-sent events."""
    web = web_of(request)
    number = web.job(job).id

    async def stream() -> AsyncIterator[str]:
        async for told in web.jobs.follow(number):
            yield ": still here\n\n" if told is None else f"data: {json.dumps(told)}\n\n"

    return StreamingResponse(stream(), media_type="text/event-stream", headers={"cache-control": "no-store"})


@router.get(
    "/jobs/{job}/files/{name:path}",
    tags=["jobs"],
    response_class=FileResponse,
    responses={
        200: {
            "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}},
            "description": "The file.",
        },
        **problems(400, 404),
    },
)
async def file(request: Request, job: JobId, name: Annotated[str, Path(max_length=300)]) -> Response:
    """Download a file that a command wrote."""
    return download(web_of(request), job, name)


def download(web: Web, job: str, name: str) -> Response:
    """Return a file of a job as a download: a browser saves it and never runs it."""
    path = web.file(job, name)
    return FileResponse(
        path,
        media_type="application/octet-stream",
        filename=path.name,
        content_disposition_type="attachment",
        headers={"cache-control": "no-store"},
    )


def output_files(web: Web, number: str) -> list[tuple[str, int]]:
    """Return name and size of the files that a job wrote."""
    from workingpapers.web.uploads import listing

    return listing(web.jobs.path(number) / "outputs")


def split_form(filled: FormData) -> tuple[dict[str, Sequence[str]], dict[str, Sequence[forms.Upload]]]:
    """Return the texts and the files of a form, by field; ``name.earlier`` adds to the texts of ``name``."""
    texts: dict[str, Sequence[str]] = {}
    files: dict[str, Sequence[forms.Upload]] = {}
    for name, value in filled.multi_items():
        field = name.removesuffix(".earlier")
        if isinstance(value, UploadFile):
            files[field] = [*files.get(field, ()), value]
        else:
            texts[field] = [*texts.get(field, ()), value]
    return texts, files


def results_json(question: Question, found: Results) -> Json:
    """Return the answer to a search as JSON types."""
    answer = found.answer
    return {
        "query": question.text,
        "engine": answer.engine,
        "total": found.total,
        "total_is_lower_bound": answer.capped and not found.own,
        "every_term_matched": answer.exact,
        "suggestion": answer.suggestion,
        "translated": answer.translated,
        "hits": [item.as_json() for item in found.hits],
        "facets": {
            "areas": dict(found.areas),
            "topics": dict(found.topics),
            "authors": dict(found.authors),
            "verdicts": dict(found.verdicts),
            "with_command": found.commands,
        },
    }


def found_record(web: Web, number: int) -> Any:
    """Return a record.

    Raises:
        Missing: There is none of that number.
    """
    try:
        return web.catalog.record(number)
    except InputError as error:
        raise Missing(str(error)) from None


def found_result(web: Web, number: int) -> Json:
    """Return a stored result.

    Raises:
        Missing: There is none of that number.
    """
    try:
        return web.evidence.record(number)
    except InputError as error:
        raise Missing(str(error)) from None
