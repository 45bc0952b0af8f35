"""What a sweep over temperatures gives back: its chains, and their means with standard errors."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from workingpapers.sampling.gibbs_bounds.bounds import GibbsBound, gibbs_bound

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Trace:
    """What one chain saw.

    Args:
        losses: Training loss of each recorded state, shape (T,).
        errors: Training error of each, shape (T,).
        test_errors: Error of each on the test data, shape (T,); empty without test data.
        heat: Variance of the minibatch noise over that of the Langevin noise; 0 for full batches.
    """

    losses: Floats
    errors: Floats
    test_errors: Floats
    heat: float = 0.0


@dataclass(frozen=True)
class SweepResult:
    """Ergodic means over the posteriors of m temperatures, float64, shape (m,) each.

    Args:
        betas: Inverse temperatures, the first 0.
        n: Number of training examples.
        loss_scale: Range of the loss in the sampler, which is the loss reported here; None where it is not known.
        losses: Mean training losses.
        errors: Mean training errors.
        test_errors: Mean test errors; None without test data.
        loss_standard_errors: By batch means.
        error_standard_errors: By batch means.
        traces: The chains themselves.
        warnings: Sentences on chains that have not converged.
    """

    betas: Floats
    n: int
    loss_scale: float | None
    losses: Floats
    errors: Floats
    test_errors: Floats | None
    loss_standard_errors: Floats
    error_standard_errors: Floats
    traces: tuple[Trace, ...]
    warnings: tuple[str, ...]

    def bound(self, delta: float = 0.05, calibration: float | None = None) -> GibbsBound:
        """Return the bounds of :func:`gibbs_bound` for these means.

        They are guaranteed for the exact posterior means; ergodic means of a finite chain of unadjusted steps stand in
        for these, and only their noise is allowed for, in ``bound_with_sampling_error``.
        """
        return gibbs_bound(
            self.betas, self.losses, self.errors, self.n, delta, sampler_scale=self.loss_scale,
            reported_scale=self.loss_scale, loss_standard_errors=self.loss_standard_errors,
            error_standard_errors=self.error_standard_errors, calibration=calibration,
        )  # fmt: skip


class Recorder:
    """Lists that a running chain fills."""

    def __init__(self) -> None:
        self.losses: list[float] = []
        self.errors: list[float] = []
        self.test_errors: list[float] = []

    def trace(self, heat: float = 0.0) -> Trace:
        """Return the lists as arrays; `heat` as in :class:`Trace`."""
        losses, errors, test_errors = (
            np.array(values, dtype=np.float64) for values in (self.losses, self.errors, self.test_errors)
        )
        return Trace(losses, errors, test_errors, heat)
