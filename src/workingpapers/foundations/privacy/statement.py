"""What a release says about its own privacy."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from workingpapers.foundations.errors import InputError

Neighbours = Literal["add or remove one record", "replace one record"]
Kind = Literal["gaussian", "pure"]


@dataclass(frozen=True)
class Stage:
    """One use of the private data.

    Args:
        name: What it computes.
        mechanism: Which mechanism does, for the reader.
        kind: ``"gaussian"`` (accounted by its noise multiplier) or ``"pure"`` (by an epsilon).
        multiplier: Gaussian: noise scale over sensitivity.
        epsilon: Pure: the epsilon of one step.
        rate: Probability with which a record enters a step (Poisson sampling).
        steps: Number of steps.
        sensitivity: Largest change of what a step releases between neighbours, for the reader.
        scale: Scale of the noise, for the reader.
    """

    name: str
    mechanism: str
    kind: Kind
    multiplier: float = math.inf
    epsilon: float = 0.0
    rate: float = 1.0
    steps: int = 1
    sensitivity: float = 1.0
    scale: float = math.inf


def gaussian_stage(
    name: str, sensitivity: float, scale: float, *, size: int = 1, steps: int = 1, secure: bool = True
) -> Stage:
    """Return a stage of Gaussian noise.

    Args:
        name: What it computes.
        sensitivity: Euclidean sensitivity.
        scale: Standard deviation of the noise.
        size: Numbers released together; the lattice of secure noise adds a little to their sensitivity.
        steps: How often.
        secure: Whether the noise is drawn on the lattice.
    """
    from workingpapers.foundations.privacy.noise import lattice_slack

    full = sensitivity + (lattice_slack(size, scale) if secure else 0.0)
    multiplier = scale / full if full else math.inf
    return Stage(name, "Gaussian", "gaussian", multiplier, steps=steps, sensitivity=sensitivity, scale=scale)


def sampled_gaussian_stage(
    name: str,
    sensitivity: float,
    scale: float,
    *,
    rate: float,
    steps: int,
    size: int = 1,
    secure: bool = True,
) -> Stage:
    """Return a stage of Gaussian noise on Poisson samples, as in DP-SGD (see :func:`gaussian_stage`)."""
    if not 0 < rate <= 1:
        raise InputError(f"The sampling rate is {rate}; give a number over 0, up to 1.")
    whole = gaussian_stage(name, sensitivity, scale, size=size, secure=secure)
    return Stage(
        name,
        "Gaussian on Poisson samples",
        "gaussian",
        whole.multiplier,
        rate=rate,
        steps=steps,
        sensitivity=sensitivity,
        scale=scale,
    )


def pure_stage(name: str, mechanism: str, epsilon: float, *, sensitivity: float = 1.0, steps: int = 1) -> Stage:
    """Return a stage with pure epsilon, such as the exponential mechanism or Laplace noise."""
    if not (epsilon > 0 and math.isfinite(epsilon)):
        raise InputError(f"The epsilon is {epsilon}; give a finite number over 0.")
    return Stage(name, mechanism, "pure", epsilon=epsilon, steps=steps, sensitivity=sensitivity)


@dataclass(frozen=True)
class PrivacyStatement:
    """The guarantee of a release: what it is, for whom, and what it rests on.

    Args:
        epsilon: Of the whole release.
        delta: Of the whole release; 0 for a pure guarantee.
        neighbours: Which data sets the guarantee cannot tell apart.
        unit: Who is protected: one record, or one person with up to so many.
        stages: The uses of the private data.
        composition: How the stages were added up, with name and version of the accountant.
        public: What is taken as known to everybody.
        secure: Whether the noise came from a secure source; without it the release protects nobody.
    """

    epsilon: float
    delta: float
    neighbours: Neighbours
    stages: tuple[Stage, ...]
    composition: str
    public: tuple[str, ...] = ()
    unit: str = "one record"
    secure: bool = True

    def text(self) -> str:
        """Return the statement as a few lines of text."""
        guarantee = f"epsilon = {self.epsilon:.4g}" + (f", delta = {self.delta:.3g}" if self.delta else "")
        lines = [
            f"Differential privacy: {guarantee}; neighbours: {self.neighbours}; unit: {self.unit}.",
            *(f"  {line}" for line in map(_describe, self.stages)),
            f"Composition: {self.composition}.",
        ]
        if self.public:
            lines.append(f"Taken as public: {', '.join(self.public)}.")
        if not self.secure:
            lines.append("The noise came from a seed: THIS RELEASE PROTECTS NOBODY.")
        return "\n".join(lines)

    def as_dict(self) -> dict[str, Any]:
        """Return the statement in JSON types; an infinite number becomes None."""
        found = asdict(self)
        found["stages"] = [
            {name: None if value == math.inf else value for name, value in stage.items()} for stage in found["stages"]
        ]
        found["public"] = list(self.public)
        return found


def state(
    stages: Sequence[Stage],
    delta: float,
    neighbours: Neighbours,
    *,
    secure: bool,
    public: Sequence[str] = (),
    unit: str = "one record",
) -> PrivacyStatement:
    """Return the statement of stages that follow one another on the same data.

    Args:
        stages: The uses of the private data.
        delta: At which epsilon is computed; 0 where every stage is pure.
        neighbours: Which data sets the sensitivities are about.
        secure: Whether the noise came from a secure source.
        public: What is taken as known to everybody.
        unit: Who is protected.

    Raises:
        InputError: Gaussian stages with delta 0, or a delta outside [0, 1).
    """
    from workingpapers.foundations.privacy.accounting import ACCOUNTANT, compose

    if not 0 <= delta < 1:
        raise InputError(f"The delta is {delta}; give a number from 0 up to 1.")
    if all(stage.kind == "pure" for stage in stages):
        total = math.fsum(stage.epsilon * stage.steps for stage in stages)
        composition = "sum of the epsilons" if len(stages) > 1 or stages[0].steps > 1 else "a single use of the data"
        return PrivacyStatement(total, 0.0, neighbours, tuple(stages), composition, tuple(public), unit, secure)
    if delta == 0:
        raise InputError("Gaussian noise has no finite epsilon at delta 0; give a delta over 0, such as 1e-6.")
    epsilon = compose(stages, delta)
    return PrivacyStatement(epsilon, delta, neighbours, tuple(stages), ACCOUNTANT, tuple(public), unit, secure)


def _describe(stage: Stage) -> str:
    facts = [f"sensitivity {stage.sensitivity:.4g}"]
    facts.append(f"noise scale {stage.scale:.4g}" if stage.kind == "gaussian" else f"epsilon {stage.epsilon:.4g}")
    if stage.rate < 1:
        facts.append(f"sampling rate {stage.rate:.4g}")
    if stage.steps > 1:
        facts.append(f"{stage.steps} steps")
    return f"{stage.name}: {stage.mechanism}, {', '.join(facts)}"
