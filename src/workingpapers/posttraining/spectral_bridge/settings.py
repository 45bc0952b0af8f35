"""What decides which modes live, and the record of which did."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from workingpapers.foundations.errors import InputError
from workingpapers.posttraining.spectral_bridge.spectrum import EPSILON


@dataclass(frozen=True)
class SpectralSettings:
    """What decides which modes live.

    Args:
        temperature: T; 1 is the Bayes posterior, more prunes harder, 0 is plain LoRA.
        warmup: Optimiser steps over which the temperature rises to T, so that modes grow before they are judged.
        every: Optimiser steps between two gauge steps, at which spectra are read and modes pruned; 0 for never.
        smoothing: Weight of the past in the moving averages of a mode's energy and of the pull of the data on it.
        tolerance: A mode may go when its singular value is below this share of the largest its layer has had.
        patience: Gauge steps in a row at which it must be so.
        friction: "coupled" adds friction to the gradient before the optimiser's step, "implicit" divides the factors
            after it (for plain SGD, where large friction would overshoot).
        epsilon: Energy below which the friction of a mode stops rising.
    """

    temperature: float = 1.0
    warmup: int = 0
    every: int = 25
    smoothing: float = 0.9
    tolerance: float = 0.01
    patience: int = 3
    friction: Literal["coupled", "implicit"] = "coupled"
    epsilon: float = EPSILON

    def __post_init__(self) -> None:
        if not self.temperature >= 0:
            raise InputError(f"The temperature must not be negative, but it is {self.temperature}.")
        if self.warmup < 0 or self.every < 0 or self.patience < 1:
            raise InputError(
                f"warmup={self.warmup} and every={self.every} must not be negative, and patience={self.patience} "
                "not below one."
            )
        if not 0 <= self.smoothing < 1 or not 0 <= self.tolerance < 1 or not self.epsilon > 0:
            raise InputError(
                f"smoothing={self.smoothing} and tolerance={self.tolerance} must lie in [0, 1) and "
                f"epsilon={self.epsilon} above 0."
            )
        if self.friction not in ("coupled", "implicit"):
            raise InputError(f"friction is {self.friction!r}; choose 'coupled' or 'implicit'.")


@dataclass
class RankPaths:
    """What was read at each gauge step.

    Args:
        steps: Optimiser steps.
        sigma: Layer -> singular values at each of them; shorter once modes are gone, empty for rank 0.
    """

    steps: list[int] = field(default_factory=list)
    sigma: dict[str, list[list[float]]] = field(default_factory=dict)

    def ranks(self, name: str) -> list[int]:
        """Return the rank of a layer at each recorded step."""
        return [len(values) for values in self.sigma[name]]
