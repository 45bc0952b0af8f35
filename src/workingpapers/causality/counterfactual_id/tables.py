"""The laws of regimes as tables: exact ones, and those that data frames give."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from workingpapers.causality.counterfactual_id.graph import ADMG
from workingpapers.causality.counterfactual_id.regime import Regime
from workingpapers.foundations.errors import InputError, near_match

if TYPE_CHECKING:
    import pandas as pd

MOST_CELLS = 20_000_000
Domains = Mapping[str, tuple[str, ...]]


@dataclass(frozen=True, eq=False)
class Table:
    """The law of a regime, one for each combination of its randomised values.

    Args:
        settings: Columns of randomised values: the first axes.
        variables: Recorded variables: the other axes.
        array: Probabilities, shape (*sizes of settings, *sizes of variables), float64, one law for each setting.
        weights: Share of the units at each setting, shape (*sizes of settings); equal by default.
        units: Number of units at each setting, same shape; None for an exact law.
        labels: Variable -> its values in the order of the axis; ``0``, ``1``, ... by default.

    Raises:
        InputError: The shape does not fit, a probability is negative or none, or a law does not sum to one (1e-6).
    """

    settings: tuple[str, ...]
    variables: tuple[str, ...]
    array: np.ndarray
    weights: np.ndarray | None = None
    units: np.ndarray | None = None
    labels: Domains = field(default_factory=dict)

    def __post_init__(self) -> None:
        array = np.asarray(self.array, dtype=np.float64)
        object.__setattr__(self, "settings", tuple(self.settings))
        object.__setattr__(self, "variables", tuple(self.variables))
        object.__setattr__(self, "array", array)
        names = self.settings + self.variables
        if array.ndim != len(names):
            raise InputError(
                f"A table of {', '.join(names)} has {array.ndim} axes; give one for each of the {len(names)}."
            )
        for name, size in zip(names, array.shape, strict=True):
            if name in self.labels and len(self.labels[name]) != size:
                raise InputError(
                    f"The axis {name!r} has {size} values but {len(self.labels[name])} labels; match them."
                )
        if not np.isfinite(array).all() or (array < 0).any():
            worst = array[~np.isfinite(array)][0] if not np.isfinite(array).all() else array.min()
            raise InputError(f"A table of {', '.join(names)} holds {worst:g}; probabilities are from 0 to 1.")
        shape = array.shape[: len(self.settings)]
        sums = array.sum(axis=tuple(range(len(shape), array.ndim)))
        filled = np.ones(shape, dtype=bool) if self.units is None else self.units > 0
        if np.abs(sums - 1)[filled].max(initial=0.0) > 1e-6:
            worst = sums.ravel()[np.abs(np.where(filled, sums, 1) - 1).argmax()]
            raise InputError(f"A table of {', '.join(names)} sums to {worst:.8g} instead of 1; normalise it.")
        weights = np.ones(shape) if self.weights is None else np.asarray(self.weights, dtype=np.float64)
        object.__setattr__(self, "weights", weights / weights.sum())

    def joint(self, settings: Sequence[str], variables: Sequence[str]) -> np.ndarray:
        """Return P(variables; settings), other settings averaged by their share of units, other variables summed out.

        Args:
            settings: Columns of randomised values.
            variables: Recorded variables.

        Returns:
            Shape (*sizes of settings, *sizes of variables); NaN at settings without units.
        """
        assert self.weights is not None
        names = list(self.settings + self.variables)
        own = names[: len(self.settings)]
        place = {name: index for index, name in enumerate(names)}
        share = np.einsum(self.weights, [place[n] for n in own], [place[n] for n in settings])
        both = [place[n] for n in (*settings, *variables)]
        mass = np.einsum(
            self.array, [place[n] for n in names], self.weights, [place[n] for n in own], both, optimize=False
        )
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.asarray(mass / share.reshape(share.shape + (1,) * len(variables)))

    def mode(self, columns: Sequence[str]) -> tuple[int, ...]:
        """Return the most frequent combination of values of these columns.

        Args:
            columns: Settings and variables.
        """
        assert self.weights is not None
        names = list(self.settings + self.variables)
        place = {name: index for index, name in enumerate(names)}
        own = [place[n] for n in self.settings]
        mass = np.einsum(self.array, list(range(len(names))), self.weights, own, [place[n] for n in columns])
        return tuple(int(i) for i in np.unravel_index(int(mass.argmax()), mass.shape))


def label_of(value: Any) -> str:
    """Return how a cell is written as a value: ``1`` for 1, 1.0 and True.

    Args:
        value: A cell of a data frame.
    """
    if isinstance(value, bool | np.bool_):
        return str(int(value))
    if isinstance(value, float | np.floating) and float(value).is_integer():
        return str(int(value))
    return str(value)


def sorted_labels(labels: Iterable[str]) -> tuple[str, ...]:
    """Return labels in numeric order where all are numbers, else alphabetically.

    Args:
        labels: The values.
    """
    some = set(labels)
    try:
        return tuple(sorted(some, key=float))
    except ValueError:
        return tuple(sorted(some))


@dataclass(frozen=True, eq=False)
class Sample:
    """Units of one regime, as the distinct rows that occur and how often.

    Args:
        settings: Columns of randomised values.
        variables: Recorded variables.
        codes: Distinct rows as indices of labels, shape (rows, settings + variables).
        counts: How often each occurs, shape (rows,).
        labels: Column -> its values.
    """

    settings: tuple[str, ...]
    variables: tuple[str, ...]
    codes: np.ndarray
    counts: np.ndarray
    labels: Domains

    def resample(self, rng: np.random.Generator) -> Sample:
        """Return a bootstrap sample: as many units, drawn with replacement.

        Args:
            rng: Source of randomness.
        """
        size = int(self.counts.sum())
        counts = rng.multinomial(size, self.counts / size)
        return Sample(self.settings, self.variables, self.codes, counts, self.labels)

    def table(self, columns: Iterable[str]) -> Table:
        """Return the empirical law of some columns.

        Args:
            columns: Settings and variables to keep.

        Raises:
            InputError: The table would be too large.
        """
        wanted = set(columns)
        settings = tuple(name for name in self.settings if name in wanted)
        variables = tuple(name for name in self.variables if name in wanted)
        names = self.settings + self.variables
        kept = settings + variables
        shape = tuple(len(self.labels[name]) for name in kept)
        if np.prod(shape, dtype=float) > MOST_CELLS:
            raise InputError(f"A table of {', '.join(kept)} would have {np.prod(shape, dtype=float):.2g} cells; "
                             f"at most {MOST_CELLS:,} are held, so use coarser values.")  # fmt: skip
        if not kept:
            return Table((), (), np.array(1.0))
        index = np.ravel_multi_index(tuple(self.codes[:, names.index(name)] for name in kept), shape)
        mass = np.bincount(index, weights=self.counts, minlength=int(np.prod(shape))).reshape(shape)
        units = mass.sum(axis=tuple(range(len(settings), len(kept))))
        with np.errstate(invalid="ignore"):
            law = mass / units.reshape(units.shape + (1,) * len(variables))
        return Table(settings, variables, np.nan_to_num(law), units / units.sum(), units, self.labels)


def read_samples(frames: Mapping[str, pd.DataFrame], graph: ADMG, regimes: Sequence[Regime]) -> dict[str, Sample]:
    """Return the samples of regimes from data frames with a column for each recorded variable and randomised value.

    Args:
        frames: Regime -> one row a unit, shape (units, columns).
        graph: The diagram.
        regimes: Their definitions.

    Returns:
        Regime -> sample; the values of a variable are those that occur in any frame.

    Raises:
        InputError: A regime is unknown, a column is missing, or a cell is empty.
    """
    known = {regime.name: regime for regime in regimes}
    owners: dict[str, dict[str, str]] = {}
    text: dict[str, dict[str, np.ndarray]] = {}
    for name, frame in frames.items():
        if name not in known:
            hint = near_match(name, known) or f"; the regimes are {', '.join(known)}."
            raise InputError(f"There is data for {name!r}, which is no regime{hint}")
        settings = known[name].settings(graph)
        owners[name] = settings | {v: v for v in graph.nodes if v in known[name].records(graph)}
        text[name] = {}
        for column in owners[name]:
            if column not in frame.columns:
                hint = near_match(column, map(str, frame.columns)) or f"; it has {', '.join(map(str, frame.columns))}."
                raise InputError(f"The data of regime {name!r} have no column {column!r}{hint}")
            if bool(frame[column].isna().any()):
                row = int(frame[column].isna().to_numpy().argmax()) + 2
                raise InputError(
                    f"Column {column!r} of regime {name!r} is empty in line {row}; fill it or drop the row."
                )
            text[name][column] = np.array([label_of(value) for value in frame[column].tolist()])
    found: dict[str, set[str]] = {}
    for name, columns in text.items():
        for column, cells in columns.items():
            found.setdefault(owners[name][column], set()).update(np.unique(cells).tolist())
    domains = {variable: sorted_labels(labels) for variable, labels in found.items()}
    samples = {}
    for name, columns in text.items():
        fed = tuple(known[name].settings(graph))
        labels = {column: domains[owner] for column, owner in owners[name].items()}
        codes = np.stack([_encode(columns[column], labels[column]) for column in columns], axis=1)
        rows, counts = np.unique(codes, axis=0, return_counts=True)
        variables = tuple(column for column in columns if column not in fed)
        samples[name] = Sample(fed, variables, rows, counts, labels)
    return samples


def _encode(cells: np.ndarray, labels: tuple[str, ...]) -> np.ndarray:
    place = {label: index for index, label in enumerate(labels)}
    return np.array([place[cell] for cell in cells.tolist()], dtype=np.intp)
