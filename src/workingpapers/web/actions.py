"""What the page and the API start: checks, runs of commands, imports. Both go through these functions."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from workingpapers.foundations.errors import InputError
from workingpapers.replication.claim import SIZES
from workingpapers.web import forms, uploads
from workingpapers.web.catalog import Catalog
from workingpapers.web.errors import Missing, find_paper
from workingpapers.web.evidence import Evidence
from workingpapers.web.jobs import DONE, Job, Jobs
from workingpapers.web.settings import Settings

MOST_SEEDS = 1000
MOST_FILES = 50


@dataclass(frozen=True)
class Web:
    """What the handlers share."""

    settings: Settings
    evidence: Evidence
    catalog: Catalog
    jobs: Jobs

    def job(self, number: str) -> Job:
        """Return a job.

        Raises:
            Missing: There is none of that number.
        """
        try:
            return self.jobs.get(number)
        except InputError as error:
            raise Missing(str(error)) from None

    def file(self, number: str, name: str, part: str = "outputs") -> Path:
        """Return a file that a job wrote.

        Raises:
            Missing: There is no such job or file.
        """
        job = self.job(number)
        try:
            target = uploads.inside(self.jobs.path(job.id) / part, name)
        except InputError as error:
            raise Missing(str(error)) from None
        if not target.is_file():
            raise Missing(f"{name!r} is a folder; name a file in it.")
        return target

    def outcome(self, job: Job) -> dict[str, Any] | None:
        """Return what a finished command or import gave, or None."""
        file = self.jobs.path(job.id) / "outcome.json"
        if job.state != DONE or not file.is_file():
            return None
        found: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
        return found

    def workspace(self, slug: str) -> Path:
        """Return the folder in which the commands of a paper run, made where it does not exist."""
        folder = self.settings.folder / "work" / slug
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def earlier_files(self, slug: str) -> list[tuple[str, str]]:
        """Return (value, label) of the files that earlier runs of a paper wrote, the newest first."""
        found = []
        for job in self.jobs.all():
            if job.kind != "run" or job.request["slug"] != slug or job.state != DONE:
                continue
            outputs = self.jobs.path(job.id) / "outputs"
            if outputs.is_dir():
                names = sorted(entry.name for entry in outputs.iterdir())
                found += [(f"{forms.EARLIER}{job.id}/{name}", f"{name} ({job.title})") for name in names]
        return found[:60]


async def start_check(
    web: Web,
    slug: str,
    *,
    claims: Sequence[str] = (),
    size: str = "small",
    seeds: int | None = None,
    workers: int | None = None,
    reuse: bool = False,
) -> Job:
    """Put the check of a paper into the queue.

    Raises:
        Missing: There is no such paper.
        InputError: A value cannot be used, or the queue is full.
    """
    paper = find_paper(slug)
    if not paper.has_claim:
        raise InputError(f"{paper.slug} has no claim to check.")
    if size not in SIZES:
        raise InputError(f"The size is {size!r}; choose one of {', '.join(SIZES)}.")
    if seeds is not None and not 1 <= seeds <= MOST_SEEDS:
        raise InputError(f"The number of seeds is {seeds}; it must be from 1 to {MOST_SEEDS}.")
    cores = os.cpu_count() or 1
    if workers is not None and not 1 <= workers <= cores:
        raise InputError(f"The number of workers is {workers}; it must be from 1 to {cores}.")
    title = f"{paper.slug} · {', '.join(claims)}" if claims else paper.slug
    request = {
        "slug": paper.slug,
        "claims": list(claims),
        "size": size,
        "seeds": seeds,
        "jobs": workers,
        "reuse": reuse,
    }
    return await web.jobs.submit("check", f"{title} ({size})", request)


async def resume_run(web: Web, number: int) -> Job:
    """Go on with an unfinished run of the store.

    Raises:
        Missing: There is no such run.
        InputError: It is complete.
    """
    try:
        if not 0 < number < 1 << 62:
            raise InputError(f"There is no stored run {number}.")
        run = web.evidence.store.run(number)
    except InputError as error:
        raise Missing(str(error)) from None
    if run.status == "complete":
        raise InputError(f"Run {number} is complete; there is nothing to go on with.")
    return await start_check(web, run.slug, claims=[run.claim], size=run.size, seeds=run.seeds)


def command_of(slug: str, command: str) -> Callable[..., Any]:
    """Return the function of a paper's command.

    Raises:
        Missing: There is no such paper or command.
        InputError: Its packages are not installed.
    """
    paper = find_paper(slug)
    if not paper.has_command:
        raise Missing(f"{paper.slug} has no command to run.")
    functions = paper.commands()
    if command not in functions:
        known = ", ".join(name for name in functions if name) or "one without a name"
        raise Missing(f"{paper.slug} has no command {command!r}; it has {known}.")
    return functions[command]


async def start_run(
    web: Web,
    slug: str,
    command: str,
    texts: Mapping[str, Sequence[str]],
    files: Mapping[str, Sequence[forms.Upload]],
) -> Job:
    """Put the run of a command into the queue.

    Raises:
        Missing: There is no such paper or command.
        InputError: A value or a file cannot be used, or the queue is full; nothing is kept then.
    """
    paper = find_paper(slug)
    function = await asyncio.to_thread(command_of, slug, command)
    _known_fields(function, [*texts, *files])
    web.jobs.refuse_if_full()
    number = web.jobs.new_id()
    workspace = web.workspace(paper.slug)

    def earlier(name: str) -> Path:
        job, _, rest = name.partition("/")
        return uploads.inside(web.jobs.path(web.job(job).id) / "outputs", rest)

    try:
        filled = await asyncio.to_thread(
            forms.fill, paper.slug, command, function, texts, files, web.jobs.path(number), workspace, earlier
        )
        request = {
            "slug": paper.slug,
            "command": command,
            "values": dict(filled.values),
            "workspace": str(workspace),
            "command_line": filled.command_line,
        }
        return await web.jobs.submit("run", f"{paper.slug} {command}".strip(), request, number)
    except BaseException:
        web.jobs.discard(number)
        raise


async def preview_import(web: Web, files: Sequence[forms.Upload]) -> Job:
    """Store uploaded proceedings and find out what their import would change.

    Raises:
        InputError: No file, one of a kind that is not taken, or the queue is full; nothing is kept then.
    """
    chosen = [file for file in files if file.filename]
    if not chosen:
        raise InputError("No file was chosen; choose proceedings to import.")
    if len(chosen) > MOST_FILES:
        raise InputError(f"{len(chosen)} files were chosen; import at most {MOST_FILES} at once.")
    web.jobs.refuse_if_full()
    number = web.jobs.new_id()
    folder = web.jobs.path(number) / "inputs"
    try:
        names = []
        for file in chosen:
            path = await asyncio.to_thread(
                uploads.store, file.file, file.filename or "file", folder, uploads.PROCEEDINGS
            )
            names.append(path.name)
        return await web.jobs.submit("import", ", ".join(names), {"files": names, "keep": False}, number)
    except BaseException:
        web.jobs.discard(number)
        raise


async def confirm_import(web: Web, number: str) -> Job:
    """Import what was previewed.

    Raises:
        Missing: There is no such job.
        InputError: It is no finished preview.
    """
    job = web.job(number)
    if job.kind != "import" or job.state != DONE or job.request["keep"]:
        raise InputError(f"The job {number} is no finished preview; upload the files again.")
    web.jobs.refuse_if_full()
    job.request["keep"] = True
    return await web.jobs.again(number)


def _known_fields(function: Callable[..., Any], names: Sequence[str]) -> None:
    from workingpapers.foundations.errors import near_match
    from workingpapers.foundations.signature import parameters

    known = [item.name for item in parameters(function)]
    for name in names:
        if name not in known:
            hint = near_match(name, known) or f"; it has {', '.join(known)}."
            raise InputError(f"The command has no field {name!r}{hint}")
