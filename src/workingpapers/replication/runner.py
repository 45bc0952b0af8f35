"""Runs the arms of a claim over seeds: what is stored already is not run again, and what comes is stored at once."""

from __future__ import annotations

import json
import math
import os
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from workingpapers.foundations.errors import InputError
from workingpapers.replication import environment
from workingpapers.replication.claim import SIZES, Arm, Claim
from workingpapers.replication.judge import judge
from workingpapers.replication.store import Outcome, Run, Store

Engine = Literal["local", "ray", "dask"]
POLL_SECONDS = 0.2


@dataclass(frozen=True)
class Event:
    """What a watcher is told.

    Args:
        kind: ``"start"`` (once), ``"progress"`` (an arm reports) or ``"outcome"`` (an arm ended).
        done: Outcomes stored so far.
        total: Outcomes of the whole run.
        arm: The arm that reports.
        seed: Its seed.
        fraction: Its share done.
        message: Its short message, or the error that ended it.
        seconds: For ``"outcome"``: how long it took.
        elapsed: Seconds since this call began.
        remaining: Estimate of the seconds left, or None before there is one.
    """

    kind: Literal["start", "progress", "outcome"]
    done: int
    total: int
    arm: str = ""
    seed: int = 0
    fraction: float = 0.0
    message: str = ""
    seconds: float = 0.0
    elapsed: float = 0.0
    remaining: float | None = None


class ArmError(RuntimeError):
    """An arm of a claim raised; the outcomes of the other arms are stored."""


Watcher = Callable[[Event], None]


@dataclass(frozen=True)
class Task:
    """One arm for one seed, as it travels to a worker."""

    arm: str
    seed: int
    function: Arm
    settings: Mapping[str, Any]
    progress_file: str = ""


def run_claim(
    slug: str,
    folder: Path,
    claim: Claim,
    store: Store,
    *,
    size: str = "small",
    seeds: int | None = None,
    engine: Engine = "local",
    jobs: int | None = None,
    reuse: bool = False,
    watch: Watcher = lambda event: None,
) -> Run:
    """Run `claim` and return its stored run, judged.

    An unfinished run of the same claim, size and code is taken up where it ended. The same seed gives the same numbers
    on one worker and on many: each task limits the libraries below it to one thread.

    Args:
        slug: The paper.
        folder: The paper's folder, whose code the result is tied to.
        claim: The claim.
        store: Where results go.
        size: ``"smallest"``, ``"small"`` or ``"full"``.
        seeds: Number of seeds, or None for the claim's own.
        engine: ``"local"`` processes, or a ``"ray"`` or ``"dask"`` cluster through joblib.
        jobs: Worker processes; None takes one for each core. One runs everything in this process.
        reuse: Return a stored complete run of the same claim, size, seeds and code instead of running again.
        watch: Told of every step.

    Raises:
        InputError: Unknown size, fewer than one seed, an engine that is not installed, or the run is under way in
            another process.
        ArmError: An arm failed; the outcomes of the others are stored, and the next call runs the failed ones again.
    """
    if size not in SIZES:
        raise InputError(f"The size is {size!r}; choose one of {', '.join(SIZES)}.")
    plan = claim.size(size)
    count = plan.seeds if seeds is None else seeds
    if count < 1:
        raise InputError(f"The number of seeds is {count}; it must be at least 1.")
    code = environment.fingerprint(folder)
    if reuse:
        stored = store.find(slug, claim.name, size, plan.settings, code, "complete")
        if stored is not None and stored.seeds == count:
            return stored

    with _only_runner(store, f"{slug}.{claim.name}.{size}"):
        run = _take_up(slug, claim, store, size, count, plan.settings, code, engine)
        finished = {(item.seed, item.arm) for item in store.outcomes(run.id) if item.error is None}
        missing = [
            Task(name, seed, function, plan.settings)
            for seed in range(count)
            for name, function in claim.arms.items()
            if (seed, name) not in finished
        ]
        _execute(missing, store, run.id, engine, jobs, len(finished), watch)
        return _conclude(store, run.id, claim)


def _take_up(
    slug: str, claim: Claim, store: Store, size: str, seeds: int, settings: Mapping[str, Any], code: str, engine: str
) -> Run:
    unfinished = store.find(slug, claim.name, size, settings, code, "unfinished")
    if unfinished is not None:
        store.set_seeds(unfinished.id, seeds)
        return store.run(unfinished.id)
    described = {**environment.describe(), "engine": engine}
    return store.run(store.begin(slug, claim.name, size, seeds, settings, code, described))


def _execute(
    tasks: list[Task], store: Store, run: int, engine: Engine, jobs: int | None, done: int, watch: Watcher
) -> None:
    total, begun = done + len(tasks), time.monotonic()
    already = done
    watch(Event("start", done, total))
    if not tasks:
        return
    workers = max(1, min(jobs or os.cpu_count() or 1, len(tasks)))
    with tempfile.TemporaryDirectory(prefix="workingpapers-") as folder:
        addressed = [
            Task(task.arm, task.seed, task.function, task.settings, os.path.join(folder, f"{index}.json"))
            for index, task in enumerate(tasks)
        ]
        state = {"done": done}

        def report(task: Task, fraction: float, message: str) -> None:
            elapsed = time.monotonic() - begun
            watch(Event("progress", state["done"], total, task.arm, task.seed, fraction, message, 0.0, elapsed))

        if engine == "local" and workers == 1:
            results: Iterator[Outcome] = (
                perform(task, lambda share, note="", task=task: report(task, share, note))  # type: ignore[misc]
                for task in addressed
            )
            polling = None
        else:
            results = _parallel(addressed, engine, workers)
            polling = _Polling(addressed, report)
        try:
            for outcome in results:
                store.record(run, outcome)
                state["done"] += 1
                elapsed = time.monotonic() - begun
                rate = elapsed / (state["done"] - already)
                watch(
                    Event(
                        "outcome",
                        state["done"],
                        total,
                        outcome.arm,
                        outcome.seed,
                        1.0,
                        outcome.error or "",
                        outcome.seconds,
                        elapsed,
                        rate * (total - state["done"]),
                    )
                )
        finally:
            if polling:
                polling.stop()


def _parallel(tasks: list[Task], engine: Engine, workers: int) -> Iterator[Outcome]:
    import joblib

    with _backend(engine):
        if engine == "ray":
            # Joblib's ray backend gives whole lists only: rounds of tasks keep what is stored close to what is done.
            parallel = joblib.Parallel(workers, batch_size=1)
            for start in range(0, len(tasks), 2 * workers):
                yield from parallel(joblib.delayed(perform)(task) for task in tasks[start : start + 2 * workers])
            return
        parallel = joblib.Parallel(workers, return_as="generator_unordered", pre_dispatch=2 * workers, batch_size=1)
        try:
            yield from parallel(joblib.delayed(perform)(task) for task in tasks)
        except BaseException:
            if engine == "local":
                from joblib.externals.loky import get_reusable_executor

                get_reusable_executor().shutdown(wait=False, kill_workers=True)
            raise


@contextmanager
def _backend(engine: Engine) -> Iterator[None]:
    import joblib

    if engine == "local":
        with joblib.parallel_config("loky"):
            yield
    elif engine == "ray":
        try:
            import ray
            from ray.util.joblib import register_ray
        except ImportError:
            raise InputError("The engine 'ray' is not installed; pip install 'workingpapers[ray]'.") from None
        started = not ray.is_initialized()
        if started:
            # RAY_ADDRESS names a cluster; without it ray starts on this machine.
            ray.init(log_to_driver=False, include_dashboard=False, configure_logging=False)
        register_ray()  # type: ignore[no-untyped-call]
        try:
            with joblib.parallel_config("ray"):
                yield
        finally:
            if started:
                ray.shutdown()
    elif engine == "dask":
        try:
            from distributed import Client
        except ImportError:
            raise InputError("The engine 'dask' is not installed; pip install 'workingpapers[dask]'.") from None
        # DASK_SCHEDULER_ADDRESS names a cluster; without it dask starts on this machine.
        address = os.environ.get("DASK_SCHEDULER_ADDRESS")
        options = {"address": address} if address else {"dashboard_address": None, "threads_per_worker": 1}
        with Client(**options) as client, joblib.parallel_config("dask", client=client):  # type: ignore[no-untyped-call]
            yield
    else:
        raise InputError(f"The engine is {engine!r}; choose local, ray or dask.")


def perform(task: Task, progress: Callable[..., None] | None = None) -> Outcome:
    """Run one arm for one seed; an exception becomes the outcome's error."""
    from threadpoolctl import threadpool_limits

    report = progress or _FileProgress(task.progress_file)
    begun = time.perf_counter()
    try:
        # One thread: the order of sums, and with it the last digits, must not depend on the number of workers.
        with threadpool_limits(limits=1):
            metrics = task.function(task.seed, report, **task.settings)
        values = {name: float(value) for name, value in metrics.items()}
    except Exception as error:
        where = traceback.extract_tb(error.__traceback__)[-1]
        text = f"{type(error).__name__}: {error} ({Path(where.filename).name}:{where.lineno})"
        return Outcome(task.seed, task.arm, None, text, time.perf_counter() - begun)
    return Outcome(task.seed, task.arm, values, None, time.perf_counter() - begun)


class _FileProgress:
    """Progress of a worker, through a small file that the parent polls; silent where there is no such folder."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.written = -math.inf

    def __call__(self, fraction: float, message: str = "") -> None:
        now = time.monotonic()
        if not self.path or now - self.written < POLL_SECONDS:
            return
        self.written = now
        try:
            temporary = self.path + ".part"
            Path(temporary).write_text(json.dumps([float(fraction), str(message)]), encoding="utf-8")
            os.replace(temporary, self.path)
        except OSError:
            self.path = ""


class _Polling:
    """A thread that passes the workers' progress files on."""

    def __init__(self, tasks: list[Task], report: Callable[[Task, float, str], None]) -> None:
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._poll, args=(tasks, report), daemon=True)
        self._thread.start()

    def _poll(self, tasks: list[Task], report: Callable[[Task, float, str], None]) -> None:
        seen: dict[str, float] = {}
        while not self._ended.wait(POLL_SECONDS):
            for task in tasks:
                try:
                    changed = os.stat(task.progress_file).st_mtime
                    if seen.get(task.progress_file) == changed:
                        continue
                    seen[task.progress_file] = changed
                    fraction, message = json.loads(Path(task.progress_file).read_text(encoding="utf-8"))
                except (OSError, ValueError):
                    continue
                report(task, fraction, message)

    def stop(self) -> None:
        """End the thread."""
        self._ended.set()
        self._thread.join()


@contextmanager
def _only_runner(store: Store, name: str) -> Iterator[None]:
    import filelock

    folder = store.path.parent / "locks"
    folder.mkdir(exist_ok=True)
    lock = filelock.FileLock(folder / f"{name}.lock")
    try:
        lock.acquire(timeout=0)
    except filelock.Timeout:
        raise InputError(f"{name} is being checked by another process; wait for it or stop it.") from None
    try:
        yield
    finally:
        lock.release()


def _conclude(store: Store, number: int, claim: Claim) -> Run:
    run = store.run(number)
    outcomes = [item for item in store.outcomes(number) if item.seed < run.seeds]
    failed = [item for item in outcomes if item.error is not None]
    if failed:
        first = failed[0]
        raise ArmError(
            f"{len(failed)} of {len(outcomes)} arms of {run.slug}/{claim.name} failed; the first was {first.arm!r} "
            f"with seed {first.seed}: {first.error}"
        )
    by_arm = {
        arm: [item.metrics for item in outcomes if item.arm == arm and item.metrics is not None] for arm in claim.arms
    }
    judgement = judge(claim, by_arm)
    result = {
        "statement": claim.statement,
        "metric": claim.metric,
        "unit": claim.unit,
        "direction": claim.direction,
        "effect": claim.effect,
        "margin": claim.margin,
        "method": claim.method,
        "against": list(claim.baselines) or claim.against,
        "paper_result": claim.paper_result,
        "notes": claim.notes,
        "verdict": judgement.verdict,
        "reason": judgement.reason,
        "interval": judgement.interval,
        "comparisons": [_json_numbers(asdict(item)) for item in judgement.comparisons],
        "arms": {arm: _columns(values) for arm, values in by_arm.items()},
        "seconds": round(sum(item.seconds for item in outcomes), 3),
    }
    store.finish(number, result)
    return store.run(number)


def _columns(rows: list[Mapping[str, float]]) -> dict[str, list[float | None]]:
    names = list(dict.fromkeys(name for row in rows for name in row))
    return {name: [_finite(row.get(name, math.nan)) for row in rows] for name in names}


def _json_numbers(values: dict[str, Any]) -> dict[str, Any]:
    return {name: _finite(value) if isinstance(value, float) else value for name, value in values.items()}


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
