"""What decides a run of the command, and what its folder holds of it."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from workingpapers.foundations.errors import InputError
from workingpapers.foundations.files import whole_file

if TYPE_CHECKING:
    from workingpapers.posttraining.adpo.units import Composition

PLAN, SUMMARY, MODEL, REPORT = "plan.json", "summary.json", "model", "report.html"


@dataclass(frozen=True)
class Plan:
    """All that decides a run but the data; the arguments of the command."""

    model: str
    adapter: str | None
    units: int | None
    window: int | None
    normalize: str
    beta: float
    learning_rate: float
    epochs: float
    max_steps: int | None
    batch_size: int
    accumulation: int
    lora_rank: int
    max_length: int | None
    held_out: float
    save_every: int
    seed: int

    @property
    def composition(self) -> Composition:
        """How responses are cut into units."""
        from workingpapers.posttraining.adpo.units import composition_of

        return composition_of(self.units, self.window)


def check_folder(data: Path, out: Path, plan: Plan) -> bool:
    """Return whether the run in the folder is finished; refuse a folder that holds something else.

    Args:
        data: The preference file.
        out: The run's folder.
        plan: What is to be run.

    Raises:
        InputError: When the folder holds another run or other files.
    """
    if not out.exists() or not any(out.iterdir()):
        return False
    if not (out / PLAN).is_file():
        raise InputError(f"{str(out)!r} is not empty and holds no run of adpo; name a new folder.")
    kept, wanted = json.loads((out / PLAN).read_text(encoding="utf-8")), facts_of(data, plan)
    for name in wanted:
        if kept.get(name) != wanted[name]:
            values = "" if name == "data" else f" ({kept.get(name)} there, {wanted[name]} here)"
            raise InputError(f"{str(out)!r} holds a run with another {name}{values}; name a new folder.")
    return (out / SUMMARY).is_file()


def facts_of(data: Path, plan: Plan) -> dict[str, Any]:
    """Return the plan and the fingerprint of the preference file, as they are kept in the folder.

    Args:
        data: The preference file.
        plan: What is to be run.
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
