"""What a trace of a Markov chain allows to say: its mean, the standard error of that mean, and whether it drifts."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from workingpapers.foundations.errors import InputError

Floats = NDArray[np.float64]
BATCHES = 20
LIMIT = 3.0
"""Standard errors that two halves of a stationary chain may be apart."""
PRECISION = 0.01
"""Standard error of a mean loss, as a share of the prior's loss, that is good enough for the bound."""


@dataclass(frozen=True)
class Average:
    """Ergodic mean of a trace.

    Args:
        mean: Mean of the trace.
        standard_error: By batch means.
        drift: Second half less first half, in its standard errors; 0 for fewer than 8 values.
    """

    mean: float
    standard_error: float
    drift: float


def batch_means_error(trace: ArrayLike, batches: int = BATCHES) -> float:
    r"""Return the standard error of the mean of a correlated trace by non-overlapping batch means.

    .. math:: SE = \sqrt{\frac{1}{b (b - 1)} \sum_{j=1}^{b} (\bar x_j - \bar x)^2}

    It is consistent when batches are long against the correlation time; it is too small where they are not.

    Args:
        trace: Values in time order, shape (T,), T at least 4.
        batches: Number b of batches; halved until a batch holds two values. Values at the start that do not fill a
            batch are left out.

    Raises:
        InputError: Fewer than 4 values.
    """
    values = np.asarray(trace, dtype=np.float64)
    if values.ndim != 1 or len(values) < 4:
        raise InputError(f"A standard error needs a trace of 4 values or more, not shape {values.shape}.")
    while batches > 2 and len(values) // batches < 2:
        batches //= 2
    size = len(values) // batches
    means = values[len(values) - size * batches :].reshape(batches, size).mean(axis=1)
    return float(means.std(ddof=1) / math.sqrt(batches))


def average(trace: ArrayLike) -> Average:
    """Return mean, standard error and drift of a trace.

    Args:
        trace: Values in time order, shape (T,), T at least 4.

    Raises:
        InputError: Fewer than 4 values.
    """
    values = np.asarray(trace, dtype=np.float64)
    error, drift = batch_means_error(values), 0.0
    if len(values) >= 8:
        first, second = np.array_split(values, 2)
        spread = math.hypot(batch_means_error(first, BATCHES // 2), batch_means_error(second, BATCHES // 2))
        gap = float(second.mean() - first.mean())
        drift = gap / spread if spread > 0 else (math.copysign(math.inf, gap) if gap else 0.0)
    return Average(float(values.mean()), error, drift)


def convergence_warnings(betas: ArrayLike, losses: list[Average]) -> tuple[str, ...]:
    """Return a sentence for each chain whose loss drifts or is known too vaguely.

    Args:
        betas: Inverse temperatures, shape (m,).
        losses: Averages of the loss, m of them.
    """
    found = []
    for beta, loss in zip(np.asarray(betas, dtype=np.float64), losses, strict=True):
        if abs(loss.drift) > LIMIT:
            found.append(
                f"At beta {beta:g} the loss still {'rises' if loss.drift > 0 else 'falls'} ({abs(loss.drift):.1f} "
                "standard errors between the halves of the trace): the chain has not converged; take more steps."
            )
        if loss.standard_error > PRECISION * losses[0].mean:
            found.append(
                f"At beta {beta:g} the mean loss has a standard error of {loss.standard_error:.2g}, over "
                f"{PRECISION:.0%} of the prior's loss; take more steps."
            )
    return tuple(found)
