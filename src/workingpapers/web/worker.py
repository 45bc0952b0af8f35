"""The process that does one job: reads it as a line of JSON, tells what happens in lines of JSON.

``python -m workingpapers.web.worker``. A process of its own keeps the page quick while libraries compute, can be
stopped at any time, and takes nothing down with it.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO, Any

TELL_SECONDS = 0.1
Tell = Callable[[Mapping[str, Any]], None]


def main() -> int:
    """Do the job of standard input."""
    described = json.loads(sys.stdin.readline())
    # What a library prints must not mix with the events; and nothing may wait for a person to type.
    events = os.fdopen(os.dup(1), "w", encoding="utf-8", buffering=1)
    parent = os.dup(0)
    os.dup2(2, 1)
    with open(os.devnull) as nothing:
        os.dup2(nothing.fileno(), 0)
    signal.signal(signal.SIGTERM, _interrupt)
    threading.Thread(target=_end_with_parent, args=(parent,), daemon=True).start()
    tell = _Teller(events)
    from workingpapers.foundations.errors import InputError
    from workingpapers.replication.runner import ArmError

    try:
        JOBS[described["kind"]](described["request"], Path(described["folder"]), tell)
    except KeyboardInterrupt:
        tell({"event": "stopped"})
        return 130
    except (InputError, ArmError) as error:
        tell({"event": "error", "fault": False, "message": str(error)})
        return 2
    except OSError as error:
        tell({"event": "error", "fault": False, "message": f"{error.strerror or error}."})
        return 2
    except Exception as error:
        import traceback

        traceback.print_exc()
        text = " ".join(str(error).split())
        tell({"event": "error", "fault": True, "message": f"{type(error).__name__}: {text}"})
        return 1
    return 0


def check(request: Mapping[str, Any], folder: Path, tell: Tell) -> None:
    """Run the claims of a paper."""
    from workingpapers import api
    from workingpapers.replication.runner import Event, run_claim
    from workingpapers.replication.store import Store

    paper, claims = api.claims_of(request["slug"], request["claims"])
    store = Store()
    for place, claim in enumerate(claims):
        tell({"event": "claim", "claim": claim.name, "place": place, "claims": len(claims)})

        def watch(event: Event) -> None:
            tell(
                {
                    "event": "progress",
                    "kind": event.kind,
                    "done": event.done,
                    "total": event.total,
                    "arm": event.arm,
                    "seed": event.seed,
                    "fraction": event.fraction,
                    "message": event.message,
                    "remaining": event.remaining,
                }
            )

        run = run_claim(
            paper.slug,
            paper.folder,
            claim,
            store,
            size=request["size"],
            seeds=request["seeds"],
            jobs=request["jobs"],
            reuse=request["reuse"],
            watch=watch,
        )
        assert run.result is not None
        tell({"event": "verdict", "claim": claim.name, "run": run.id, "verdict": run.result["verdict"]})


def run(request: Mapping[str, Any], folder: Path, tell: Tell) -> None:
    """Run a paper's command on uploaded files."""
    import inspect

    from workingpapers.catalog.papers import get, missing_packages
    from workingpapers.foundations.signature import convert, parameters

    paper = get(request["slug"])
    function = paper.commands()[request["command"]]
    described = {item.name: item for item in parameters(function)}
    os.chdir(request["workspace"])
    values = {name: convert(described[name], value) for name, value in request["values"].items()}
    reserved: dict[str, Any] = {}
    if "progress" in inspect.signature(function).parameters:
        reserved["progress"] = lambda fraction, message="": tell(
            {"event": "progress", "kind": "progress", "fraction": float(fraction), "message": str(message)}
        )
    with missing_packages(paper):
        outcome = function(**values, **reserved)
    with (folder / "outcome.json").open("w", encoding="utf-8") as stream:
        json.dump(_outcome_json(outcome), stream, ensure_ascii=False, default=str)
    tell({"event": "outcome"})


def imports(request: Mapping[str, Any], folder: Path, tell: Tell) -> None:
    """Import uploaded proceedings, or tell what that would change."""
    from workingpapers.web.importing import import_files

    files = [(folder / "inputs" / name, name) for name in request["files"]]
    found = import_files(files, keep=request["keep"], tell=tell)
    with (folder / "outcome.json").open("w", encoding="utf-8") as stream:
        json.dump(found, stream, ensure_ascii=False)
    tell({"event": "outcome"})


JOBS: Mapping[str, Callable[[Mapping[str, Any], Path, Tell], None]] = {"check": check, "run": run, "import": imports}


def _outcome_json(outcome: Any) -> dict[str, Any]:
    return {
        "summary": outcome.summary,
        "tables": [
            {
                "title": table.title,
                "note": table.note,
                "columns": [str(name) for name in table.columns],
                "rows": [[_cell(value) for value in row] for row in table.rows],
            }
            for table in outcome.tables
        ],
        "figures": [{"svg": figure.svg, "caption": figure.caption} for figure in outcome.figures],
        "data": dict(outcome.data),
    }


def _cell(value: Any) -> Any:
    if hasattr(value, "item"):
        value = value.item()
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
        return str(value)
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)


class _Teller:
    """Writes events; of progress that comes faster than a person reads, only some."""

    def __init__(self, stream: IO[str]) -> None:
        self._stream = stream
        self._told = 0.0
        self._lock = threading.Lock()

    def __call__(self, event: Mapping[str, Any]) -> None:
        with self._lock:
            now = time.monotonic()
            if event["event"] == "progress" and event.get("kind") == "progress":
                if now - self._told < TELL_SECONDS:
                    return
                self._told = now
            self._stream.write(json.dumps(event, ensure_ascii=True) + "\n")


def _interrupt(number: int, frame: object) -> None:
    raise KeyboardInterrupt


def _end_with_parent(descriptor: int) -> None:
    """Stop when the server is gone: its end of the pipe closes."""
    while os.read(descriptor, 1024):
        pass
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    from workingpapers.web import worker  # under its own name, by which its parts are found

    sys.exit(worker.main())
