"""What decides a training run of the command, and what its folder holds of it."""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from workingpapers.foundations.errors import InputError
from workingpapers.foundations.files import whole_file

PLAN, SUMMARY, REPORT, BEFORE = "plan.json", "summary.json", "report.html", "before.json"


@dataclass(frozen=True)
class Plan:
    """All that decides a run but the data; the arguments of the command.

    Raises:
        InputError: For a batch that does not divide the judgements of a step.
    """

    model: str
    template: str | None
    kind: str
    pairs: int
    judgements: int
    batch_size: int
    learning_rate: float | None
    beta: float
    epochs: float
    max_steps: int | None
    max_tokens: int | None
    lora_rank: int
    held_out: float
    measured: int
    save_every: int
    seed: int

    def __post_init__(self) -> None:
        if self.each_step % self.batch_size:
            raise InputError(
                f"--batch-size {self.batch_size} does not divide the {self.each_step} judgements of a step (2 "
                f"responses x --pairs {self.pairs} x --judgements {self.judgements}); change one of them."
            )

    @property
    def each_step(self) -> int:
        """Judgements of a step."""
        return 2 * self.pairs * self.judgements

    @property
    def rate(self) -> float:
        """Learning rate: the given one, or the paper's, ten times that for an adapter, or what suits tiny."""
        if self.learning_rate is not None:
            return self.learning_rate
        return 1e-3 if self.model == "tiny" else 5e-5 if self.lora_rank else 5e-6

    @property
    def most(self) -> int:
        """Most tokens of a judgement."""
        return self.max_tokens or (6 if self.model == "tiny" else 512)

    def steps(self, count: int) -> int:
        """Return the number of steps.

        Args:
            count: Pairs that are trained on.
        """
        return self.max_steps or math.ceil(self.epochs * count / self.pairs)


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
        raise InputError(f"{str(out)!r} is not empty and holds no run of irpm; name a new folder.")
    kept, wanted = json.loads((out / PLAN).read_text(encoding="utf-8")), facts_of(data, plan)
    for name in wanted:
        if kept.get(name) != wanted[name]:
            values = "" if name in ("data", "template") else f" ({kept.get(name)} there, {wanted[name]} here)"
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
