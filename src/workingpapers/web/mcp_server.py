"""The library as tools for an assistant, by the Model Context Protocol: search, show, check, results."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import wraps
from typing import Annotated, Any, Literal

from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ToolError
from pydantic import Field

from workingpapers import __version__
from workingpapers.foundations.errors import InputError
from workingpapers.web import actions, api, reading
from workingpapers.web.actions import Web
from workingpapers.web.catalog import Catalog, Question
from workingpapers.web.errors import find_paper
from workingpapers.web.evidence import Evidence
from workingpapers.web.jobs import DONE, Jobs
from workingpapers.web.settings import Settings

INSTRUCTIONS = (
    "A library of research methods that work. search finds papers in the catalog, show tells what a paper does, how to "
    "use it and what was measured, check runs a paper's claims on this machine over paired seeds and judges them, "
    "results lists stored verdicts. A verdict is about the size at which it was measured; the paper's own figures, at "
    "the paper's own scale, stand beside it and are not ours."
)
Slug = Annotated[str, Field(description="Short name of a paper, such as residual_augmentation.", max_length=100)]


def build_server(settings: Settings | None = None) -> MCPServer[Web]:
    """Return the server, with its tools.

    Args:
        settings: Where its files are; None for the user's own.
    """
    chosen = settings or Settings()
    evidence = Evidence()
    web = Web(chosen, evidence, Catalog(evidence), Jobs(chosen.folder / "assistant", chosen.waiting_limit))

    @asynccontextmanager
    async def lifespan(server: MCPServer[Web]) -> AsyncIterator[Web]:
        await web.jobs.start()
        try:
            yield web
        finally:
            await web.jobs.close()
            web.catalog.close()

    server: MCPServer[Web] = MCPServer(
        "workingpapers",
        title="Working Papers",
        version=__version__,
        instructions=INSTRUCTIONS,
        lifespan=lifespan,
        log_level="ERROR",
    )

    @server.tool(structured_output=True)
    async def search(
        query: Annotated[str, Field(description="Words, a phrase in quotes, prefix*, 中文.", max_length=500)],
        topic: Annotated[str, Field(description="Only topics with these words.", max_length=200)] = "",
        author: Annotated[str, Field(description="Only papers by this author.", max_length=200)] = "",
        methods_only: Annotated[bool, Field(description="Only papers whose method is in this library.")] = False,
        limit: Annotated[int, Field(ge=1, le=50)] = 10,
    ) -> dict[str, Any]:
        """Search the catalog of papers."""
        question = Question(query, topic=topic, author=author, scope="library" if methods_only else "all", limit=limit)
        return await _told(lambda: api.results_json(question, web.catalog.search(question)))

    @server.tool(structured_output=True)
    async def show(paper: Slug) -> dict[str, Any]:
        """Show a paper: summary, the paper's own figures, what was measured here, how to use it."""
        return await _told(lambda: _brief(reading.paper_json(find_paper(paper), evidence)))

    @server.tool(structured_output=True)
    async def results(
        paper: Annotated[str, Field(description="Short name of a paper; empty for all.", max_length=100)] = "",
    ) -> dict[str, Any]:
        """List the newest stored verdict of every claim on this machine, and the unfinished runs."""

        def read() -> dict[str, Any]:
            slug = find_paper(paper).slug if paper else None
            from workingpapers.replication.store import result_record

            complete = [_verdict(result_record(run)) for run in evidence.store.newest_results(slug)]
            unfinished = [
                {"run": run.id, "paper": run.slug, "claim": run.claim, "size": run.size, "started": run.started}
                for run in evidence.unfinished(slug)
            ]
            return {"results": complete, "unfinished": unfinished}

        return await _told(read)

    @server.tool(structured_output=True)
    async def check(
        paper: Slug,
        context: Context,
        claims: Annotated[list[str] | None, Field(description="Names of claims; none for all.", max_length=50)] = None,
        size: Annotated[
            Literal["smallest", "small", "full"], Field(description="Seconds, minutes or hours of work.")
        ] = "smallest",
        seeds: Annotated[int | None, Field(ge=1, le=actions.MOST_SEEDS)] = None,
        reuse: Annotated[bool, Field(description="Take a stored result of the same code, size and seeds.")] = False,
    ) -> dict[str, Any]:
        """Run claims of a paper on this machine and judge them; what is unfinished goes on where it stopped."""
        try:
            job = await actions.start_check(web, paper, claims=claims or [], size=size, seeds=seeds, reuse=reuse)
        except InputError as error:
            raise ToolError(str(error)) from None
        try:
            done = -1
            async for told in web.jobs.follow(job.id):
                progress = (told or {}).get("progress", {})
                if progress.get("total") and progress["done"] != done:
                    done = progress["done"]
                    arm = f": {progress['arm']}, seed {progress['seed']}" if progress["arm"] else ""
                    message = progress["claim"] + arm
                    await context.report_progress(progress["done"], progress["total"], message)
        except asyncio.CancelledError:
            await asyncio.shield(web.jobs.cancel(job.id))
            raise
        if job.state != DONE:
            raise ToolError(job.error or f"The check was {job.state}; call it again to go on where it stopped.")
        return {"results": [_verdict(evidence.record(item["run"])) for item in job.verdicts]}

    return server


async def _told(read: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """Return what `read` gives, made in a thread; its `InputError` becomes the tool's one sentence."""

    @wraps(read)
    def guarded() -> dict[str, Any]:
        try:
            return read()
        except InputError as error:
            raise ToolError(str(error)) from None

    return await asyncio.to_thread(guarded)


def _brief(paper: dict[str, Any]) -> dict[str, Any]:
    return {**paper, "measured": [{"where": item["where"], **_verdict(item)} for item in paper["measured"]]}


def _verdict(record: dict[str, Any]) -> dict[str, Any]:
    names = (
        "paper claim run size seeds statement verdict reason comparisons metric unit direction effect margin interval "
        "paper_result notes seconds finished"
    )
    return {name: record.get(name) for name in names.split()}
