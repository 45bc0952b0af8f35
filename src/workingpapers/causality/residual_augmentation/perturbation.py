"""The intervention: one random factor a row, shared by the columns that move."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from workingpapers.causality.residual_augmentation.tables import (
    Floats,
    Integers,
    numeric_values,
    replace_columns,
    rows_of,
)

Perturbation = Literal["centred", "raw", "additive"]


class Augmented(NamedTuple):
    """A training set with its counterfactual rows: the real rows first, the generated ones after them.

    Args:
        X: Features, shape (n + m, d), array or data frame as the input was.
        y: Targets, shape (n + m,).
        sample_weight: Weights, shape (n + m,): the given ones for real rows, those times `weight` for generated rows.
        source_index: For each row the position of the real row it comes from, shape (n + m,).
        augmented: True for generated rows, shape (n + m,).
    """

    X: Any
    y: Floats
    sample_weight: Floats
    source_index: Integers
    augmented: npt.NDArray[np.bool_]


def tiled_source(n: int, factor: float) -> Integers:
    """Return the source row of each generated row: 0..n-1 repeated, cut at ``floor(factor * n)``, shape (m,)."""
    # A nudge of one part in 10^12 keeps products such as 1.1 * 10 from falling below their whole number.
    size = int(np.floor(factor * n * (1 + 1e-12)))
    return np.arange(size, dtype=np.intp) % n


def perturb(
    X: Any,
    columns: Integers,
    p: float,
    source: Integers,
    centre: Floats,
    spread: Floats,
    rng: np.random.Generator,
    kind: Perturbation = "centred",
) -> Any:
    r"""Return the rows `source` of `X` with `columns` moved.

    .. math:: x'_j = c_j + (x_j - c_j)(1 + \delta), \qquad \delta \sim U[-p, p] \text{ once a row}

    for ``"centred"`` (:math:`c` the training mean: the published rule on standardised features, in the columns' own
    units) and ``"raw"`` (:math:`c = 0`); ``"additive"`` is :math:`x'_j = x_j + \delta s_j`, :math:`s` the training
    standard deviation. Missing entries stay missing.

    Args:
        X: Features, shape (n, d).
        columns: Positions of the columns that move, shape (k,).
        p: Half-width of the uniform distribution of :math:`\delta`.
        source: Row positions, shape (m,).
        centre: Training means :math:`c`, shape (d,).
        spread: Training standard deviations :math:`s`, shape (d,).
        rng: Source of randomness.
        kind: The rule.

    Returns:
        Shape (m, d), the kind of `X`.
    """
    taken = rows_of(X, source)
    delta = rng.uniform(-p, p, size=(len(source), 1))
    values = numeric_values(taken)[:, columns]
    if kind == "additive":
        moved = values + delta * spread[columns]
    else:
        origin = centre[columns] if kind == "centred" else np.zeros(len(columns))
        # Written as a shift, so that p = 0 gives back the very same numbers.
        moved = values + delta * (values - origin)
    return replace_columns(taken, columns, moved)


def twin_safe_split(
    source_index: npt.ArrayLike, augmented: npt.ArrayLike, fraction: float, rng: np.random.Generator
) -> tuple[Integers, Integers]:
    """Split an augmented training set so that no real row has a twin on the other side.

    For learners that stop early on rows of their own: the validation part holds real rows only, and the training part
    holds neither these rows nor the rows generated from them.

    Args:
        source_index: Source row of each row, shape (n,) (see :class:`Augmented`).
        augmented: Whether each row is generated, shape (n,).
        fraction: Share of the source rows that go to validation, in (0, 1).
        rng: Source of randomness.

    Returns:
        Positions of the training rows and of the validation rows.

    Raises:
        ValueError: One part would be empty.
    """
    source, generated = np.asarray(source_index), np.asarray(augmented, dtype=bool)
    known = np.unique(source)
    size = round(fraction * len(known))
    if not 0 < size < len(known):
        raise ValueError(f"fraction is {fraction}: of {len(known)} source rows one part would be empty")
    held_out = np.isin(source, rng.permutation(known)[:size])
    return np.flatnonzero(~held_out), np.flatnonzero(held_out & ~generated)
