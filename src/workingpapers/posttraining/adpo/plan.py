"""What decides a run of the command, and what its folder holds of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from workingpapers.posttraining.adpo.units import Composition

MODEL = "model"


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
