"""The application: routes, errors, what lives as long as the server."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException
from starlette.staticfiles import StaticFiles

from workingpapers import __version__
from workingpapers.foundations.errors import InputError
from workingpapers.web import api, job_pages, pages
from workingpapers.web.actions import Web
from workingpapers.web.catalog import Catalog, catch_up
from workingpapers.web.errors import Missing
from workingpapers.web.evidence import Evidence
from workingpapers.web.jobs import Jobs, QueueFull
from workingpapers.web.rendering import render
from workingpapers.web.safety import HEADERS, Safety
from workingpapers.web.settings import Settings

STATIC = Path(__file__).parent / "static"


class CachedFiles(StaticFiles):
    """Static files that a browser keeps; their address holds the version."""

    def file_response(self, *args: object, **options: object) -> Response:
        """Return the file with its time to live."""
        answer: Response = super().file_response(*args, **options)  # type: ignore[arg-type]
        answer.headers["cache-control"] = "public, max-age=86400"
        return answer


def create_app(settings: Settings | None = None, *, warm_up: bool = True) -> FastAPI:
    """Return the application.

    Args:
        settings: How it is served.
        warm_up: Whether to do in the background what the first search would wait for.
    """
    chosen = settings or Settings()
    evidence = Evidence()
    web = Web(
        chosen,
        evidence,
        Catalog(evidence),
        Jobs(chosen.folder / "jobs", chosen.waiting_limit, chosen.kept_jobs),
    )

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        await web.jobs.start()
        if warm_up:
            threading.Thread(target=_prepare, args=(web,), daemon=True).start()
        try:
            yield
        finally:
            await web.jobs.close()
            await asyncio.to_thread(web.catalog.close)

    app = FastAPI(
        title="Working Papers",
        version=__version__,
        summary="Find, read, use and check the papers of this library.",
        openapi_url="/api/openapi.json",
        docs_url=None,  # its scripts would come from elsewhere
        redoc_url=None,
        lifespan=lifespan,
    )
    app.state.web = web
    app.mount("/static", CachedFiles(directory=STATIC))
    for router in (api.router, pages.router, job_pages.router):
        app.include_router(router)
    app.add_exception_handler(InputError, explain)
    app.add_exception_handler(HTTPException, explain)
    app.add_exception_handler(RequestValidationError, explain)
    app.add_exception_handler(Exception, explain)
    app.add_middleware(Safety, settings=chosen)
    return app


async def explain(request: Request, error: Exception) -> Response:
    """Return one sentence: as JSON under ``/api``, as a page elsewhere."""
    if isinstance(error, Missing):
        status, sentence = 404, str(error)
    elif isinstance(error, QueueFull):
        status, sentence = 429, str(error)
    elif isinstance(error, InputError):
        status, sentence = 400, str(error)
    elif isinstance(error, HTTPException):
        status, sentence = error.status_code, _http_sentence(error)
    elif isinstance(error, RequestValidationError):
        status, sentence = 422, _validation_sentence(error)
    else:
        status, sentence = 500, "This is a fault of papers; its terminal shows where."
    headers = dict(getattr(error, "headers", None) or {})
    if status == 500:
        headers |= HEADERS  # such an answer passes by the middleware
    if request.url.path.startswith("/api"):
        if isinstance(error, RequestValidationError):
            details = [{"loc": list(item["loc"]), "msg": item["msg"], "type": item["type"]} for item in error.errors()]
            return JSONResponse({"detail": details}, status)
        return JSONResponse({"detail": sentence}, status, headers)
    page = render(request, "error.html", status, code=status, sentence=sentence)
    for name, value in headers.items():
        page.headers[name] = value
    return page


def _http_sentence(error: HTTPException) -> str:
    if error.status_code == 404:
        return "There is no page at this address."
    return str(error.detail)


def _validation_sentence(error: RequestValidationError) -> str:
    first = error.errors()[0]
    return f"{first['loc'][-1]}: {first['msg']}."


def _prepare(web: Web) -> None:
    with contextlib.suppress(Exception):  # a search that needs it says what is wrong
        catch_up()
        web.catalog.warm_up()
