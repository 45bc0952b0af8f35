"""The folder of a training run: what was asked for, whether it is finished, and where it can go on."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from workingpapers.foundations.errors import InputError
from workingpapers.foundations.files import whole_file

PLAN, SUMMARY, REPORT = "plan.json", "summary.json", "report.html"


def check_folder(data: Path, out: Path, plan: Any, method: str, unshown: Sequence[str] = ()) -> bool:
    """Return whether the run in the folder is finished; refuse a folder that holds something else.

    Args:
        data: The file that is trained on.
        out: The run's folder.
        plan: What is to be run, a dataclass of JSON types.
        method: How messages name the method.
        unshown: Fields of the plan whose values are too long for a message.

    Raises:
        InputError: When the folder holds another run or other files.
    """
    if not out.exists() or not any(out.iterdir()):
        return False
    if not (out / PLAN).is_file():
        raise InputError(f"{str(out)!r} is not empty and holds no run of {method}; name a new folder.")
    kept, wanted = json.loads((out / PLAN).read_text(encoding="utf-8")), facts_of(data, plan)
    for name in wanted:
        if kept.get(name) != wanted[name]:
            hidden = name == "data" or name in unshown
            values = "" if hidden else f" ({kept.get(name)} there, {wanted[name]} here)"
            raise InputError(f"{str(out)!r} holds a run with another {name}{values}; name a new folder.")
    return (out / SUMMARY).is_file()


def facts_of(data: Path, plan: Any) -> dict[str, Any]:
    """Return the plan and the fingerprint of the data, as they are kept in the folder.

    Args:
        data: The file that is trained on.
        plan: What is to be run, a dataclass of JSON types.
    """
    return {"data": hashlib.sha256(data.read_bytes()).hexdigest(), **asdict(plan)}


def write_json(path: Path, value: Any) -> None:
    """Write `value` to a JSON file, whole or not at all.

    Args:
        path: Where.
        value: Only JSON types.
    """
    with whole_file(path) as stream:
        json.dump(value, stream, indent=1)


def last_checkpoint(out: Path) -> Path | None:
    """Return a trainer's newest whole checkpoint; its state is the last file that is written to one.

    Args:
        out: The trainer's output folder.
    """
    found = [folder for folder in out.glob("checkpoint-*") if (folder / "trainer_state.json").is_file()]
    return max(found, key=lambda folder: int(folder.name.rpartition("-")[2]), default=None)
