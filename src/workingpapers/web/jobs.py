"""Work that was asked for on the page: one queue with a bound, one job at a time, each in a process of its own."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import json
import os
import re
import secrets
import shutil
import signal
import sys
import time
from collections.abc import AsyncIterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from workingpapers.foundations.errors import InputError
from workingpapers.foundations.files import whole_file

WAITING, RUNNING, DONE = "waiting", "running", "done"
FAILED, CANCELLED, INTERRUPTED = "failed", "cancelled", "interrupted"
ENDED = frozenset({DONE, FAILED, CANCELLED, INTERRUPTED})
GRACE_SECONDS = 8.0
LINE_LIMIT = 1 << 24
JOB_ID = re.compile(r"[0-9a-f]{16}")


class QueueFull(InputError):
    """So many jobs wait that no other is taken."""


@dataclass
class Job:
    """One job.

    Args:
        id: Sixteen hexadecimal digits; also the name of its folder.
        kind: ``"check"``, ``"run"`` or ``"import"``.
        title: What a person reads.
        request: What the worker is told.
        state: ``waiting``, ``running``, ``done``, ``failed``, ``cancelled`` or ``interrupted``.
        created: When it was asked for, ISO 8601.
        started: When it began, or empty.
        finished: When it ended, or empty.
        progress: The last that was heard: claim, done, total, arm, seed, fraction, message, remaining.
        verdicts: Of a check: claim, run and verdict, as they come.
        error: Why it failed, one sentence.
        seconds: How long it took, once it ended.
    """

    id: str
    kind: str
    title: str
    request: dict[str, Any]
    state: str = WAITING
    created: str = ""
    started: str = ""
    finished: str = ""
    progress: dict[str, Any] = field(default_factory=dict)
    verdicts: list[dict[str, Any]] = field(default_factory=list)
    error: str = ""
    seconds: float = 0.0

    @property
    def ended(self) -> bool:
        """Whether nothing more will come."""
        return self.state in ENDED


class Jobs:
    """The queue and its one worker.

    Args:
        folder: Where jobs keep their files.
        waiting_limit: Most jobs that wait.
        kept: How many finished jobs are kept.
    """

    def __init__(self, folder: Path, waiting_limit: int = 20, kept: int = 200) -> None:
        self.folder = folder
        self.waiting_limit = waiting_limit
        self.kept = kept
        self._jobs: dict[str, Job] = {}
        self._waiting: list[str] = []
        self._process: asyncio.subprocess.Process | None = None
        self._current: Job | None = None
        self._begun = 0.0
        self._cancelling = False
        self._closing = False
        self._changed = asyncio.Condition()
        self._version = 0
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Read what an earlier server left, and begin to work."""
        self.folder.mkdir(parents=True, exist_ok=True)
        for file in self.folder.glob("*/job.json"):
            with contextlib.suppress(OSError, ValueError, TypeError):
                job = Job(**json.loads(file.read_text(encoding="utf-8")))
                if not job.ended:
                    job.state = INTERRUPTED
                    self._save(job)
                self._jobs[job.id] = job
        self._task = asyncio.create_task(self._work())

    async def close(self) -> None:
        """Stop the running job as an interruption and end."""
        self._closing = True
        await self._stop_process()
        if self._task:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
        for number in self._waiting:
            self._jobs[number].state = INTERRUPTED
            self._save(self._jobs[number])
        await self._tell()

    def new_id(self) -> str:
        """Return a job's number with its folder made, for files that come before the job."""
        number = secrets.token_hex(8)
        (self.folder / number / "inputs").mkdir(parents=True)
        (self.folder / number / "outputs").mkdir()
        return number

    def discard(self, number: str) -> None:
        """Remove the folder of a job that was never submitted."""
        if number not in self._jobs:
            shutil.rmtree(self.folder / number, ignore_errors=True)

    def refuse_if_full(self) -> None:
        """Raise where no other job is taken.

        Raises:
            QueueFull: So many wait already.
        """
        if len(self._waiting) >= self.waiting_limit:
            raise QueueFull(f"{len(self._waiting)} jobs are waiting already; wait for one to end or cancel one.")

    async def submit(self, kind: str, title: str, request: Mapping[str, Any], number: str = "") -> Job:
        """Add a job to the queue and return it.

        Raises:
            QueueFull: So many wait already.
        """
        self.refuse_if_full()
        number = number or self.new_id()
        job = Job(number, kind, title, dict(request), created=_now())
        self._jobs[job.id] = job
        self._waiting.append(job.id)
        self._save(job)
        self._prune()
        await self._tell()
        return job

    async def again(self, number: str) -> Job:
        """Submit an ended job once more; a check goes on where it stopped.

        Raises:
            InputError: There is no such job, it has not ended, or the queue is full.
        """
        job = self.get(number)
        if not job.ended:
            raise InputError(f"The job {number} has not ended; cancel it first.")
        self.refuse_if_full()
        if job.kind == "check":
            return await self.submit(job.kind, job.title, job.request)
        # The files stay where they are: the job itself goes back into the queue.
        shutil.rmtree(self.path(number) / "outputs", ignore_errors=True)
        (self.path(number) / "outputs").mkdir()
        fresh = Job(job.id, job.kind, job.title, job.request, created=_now())
        self._jobs[job.id] = fresh
        self._waiting.append(job.id)
        self._save(fresh)
        await self._tell()
        return fresh

    async def cancel(self, number: str) -> Job:
        """Stop a job; one that has ended stays as it is.

        Raises:
            InputError: There is no such job.
        """
        job = self.get(number)
        if job.id in self._waiting:
            self._waiting.remove(job.id)
            job.state, job.finished = CANCELLED, _now()
            self._save(job)
            await self._tell()
        elif self._current is job:
            self._cancelling = True
            await self._stop_process()
            async with self._changed:
                await self._changed.wait_for(lambda: job.ended)
        return job

    def get(self, number: str) -> Job:
        """Return a job.

        Raises:
            InputError: There is no such job.
        """
        if number not in self._jobs:
            raise InputError(f"There is no job {number!r}; the list of jobs shows those that are kept.")
        return self._jobs[number]

    def all(self) -> list[Job]:
        """Return every job, the newest first."""
        return sorted(self._jobs.values(), key=lambda job: (job.created, job.id), reverse=True)

    def place(self, job: Job) -> int:
        """Return how many jobs stand before a waiting one."""
        return self._waiting.index(job.id) if job.id in self._waiting else 0

    def path(self, number: str) -> Path:
        """Return the folder of a job.

        Raises:
            InputError: Not the number of a job.
        """
        if not JOB_ID.fullmatch(number):
            raise InputError(f"{number!r} is not the number of a job.")
        return self.folder / number

    def described(self, job: Job) -> dict[str, Any]:
        """Return a job as JSON types: what the API gives and the page is told."""
        shown = asdict(job)
        running = self._current is job
        shown["elapsed"] = round(time.monotonic() - self._begun, 1) if running else round(job.seconds, 1)
        shown["place"] = self.place(job)
        shown["request"] = {name: value for name, value in job.request.items() if name not in ("values", "workspace")}
        return shown

    async def follow(self, number: str, beat: float = 10.0) -> AsyncIterator[dict[str, Any] | None]:
        """Yield a job each time that something changes, until it has ended; None where nothing did for `beat` seconds.

        Raises:
            InputError: There is no such job.
        """
        while True:
            seen, job = self._version, self.get(number)
            yield self.described(job)
            if job.ended or self._closing:
                return
            while self._version == seen:
                try:
                    async with self._changed:
                        await asyncio.wait_for(self._changed.wait_for(lambda: self._version != seen), beat)  # noqa: B023
                except TimeoutError:
                    yield None

    async def _work(self) -> None:
        while True:
            async with self._changed:
                await self._changed.wait_for(lambda: bool(self._waiting))
            job = self._jobs[self._waiting.pop(0)]
            self._current, self._cancelling, self._begun = job, False, time.monotonic()
            job.state, job.started = RUNNING, _now()
            self._save(job)
            await self._tell()
            try:
                code = await self._run(job)
                self._conclude(job, code)
            except Exception as error:
                job.state, job.error = FAILED, f"{type(error).__name__}: {error}"
                if self._process is not None:
                    _kill_group(self._process.pid)
            job.seconds, job.finished = time.monotonic() - self._begun, _now()
            self._current = self._process = None
            self._save(job)
            await self._tell()

    async def _run(self, job: Job) -> int:
        folder = self.path(job.id)
        message = json.dumps({"kind": job.kind, "request": job.request, "folder": str(folder)})
        surroundings = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "PYTHONUNBUFFERED": "1"}
        with (folder / "log.txt").open("wb") as log:
            self._process = process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                "workingpapers.web.worker",
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=log,
                env=surroundings,
                cwd=folder,
                limit=LINE_LIMIT,
                start_new_session=True,
            )
        assert process.stdin is not None
        assert process.stdout is not None
        if self._cancelling or self._closing:
            process.send_signal(signal.SIGTERM)
        with contextlib.suppress(ConnectionError):
            process.stdin.write(message.encode() + b"\n")
            await process.stdin.drain()
        while line := await process.stdout.readline():
            with contextlib.suppress(ValueError):
                self._hear(job, json.loads(line))
                await self._tell()
        code = await process.wait()
        _kill_group(process.pid)  # whatever it left running
        return code

    def _hear(self, job: Job, event: Mapping[str, Any]) -> None:
        kind = event["event"]
        if kind == "claim":
            job.progress = {"claim": event["claim"], "place": event["place"], "claims": event["claims"]}
        elif kind == "progress":
            told = {name: value for name, value in event.items() if name not in ("event", "kind")}
            if told.get("remaining", 0) is None:
                del told["remaining"]  # the last estimate stands until there is another
            job.progress = {**job.progress, **told}
        elif kind == "verdict":
            job.verdicts.append({name: event[name] for name in ("claim", "run", "verdict")})
        elif kind == "error":
            # A person knows an upload by its name, not by where it is kept.
            job.error = re.sub(re.escape(str(self.path(job.id))) + r"/(?:inputs/|outputs/)?", "", event["message"])

    def _conclude(self, job: Job, code: int) -> None:
        if code == 0:
            job.state = DONE
        elif self._cancelling:
            job.state, job.error = CANCELLED, ""
        elif self._closing or code == 130:
            job.state = INTERRUPTED
        else:
            job.state = FAILED
            job.error = job.error or f"The worker ended with code {code}; its log tells more."

    async def _stop_process(self) -> None:
        process = self._process
        if process is None or process.returncode is not None:
            return
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(signal.SIGTERM)
        try:
            await asyncio.wait_for(asyncio.shield(process.wait()), GRACE_SECONDS)
        except TimeoutError:
            _kill_group(process.pid)
            await process.wait()

    async def _tell(self) -> None:
        async with self._changed:
            self._version += 1
            self._changed.notify_all()

    def _save(self, job: Job) -> None:
        folder = self.path(job.id)
        folder.mkdir(parents=True, exist_ok=True)
        with whole_file(folder / "job.json") as stream:
            json.dump(asdict(job), stream, ensure_ascii=False)

    def _prune(self) -> None:
        for job in [job for job in self.all() if job.ended][self.kept :]:
            del self._jobs[job.id]
            shutil.rmtree(self.path(job.id), ignore_errors=True)


def _kill_group(number: int) -> None:
    if hasattr(os, "killpg"):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(number, signal.SIGKILL)


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="milliseconds")
