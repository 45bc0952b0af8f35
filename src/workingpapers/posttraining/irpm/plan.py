"""What decides a training run of the command, and what its folder holds of it."""

from __future__ import annotations

import math
from dataclasses import dataclass

from workingpapers.foundations.errors import InputError

BEFORE = "before.json"


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
