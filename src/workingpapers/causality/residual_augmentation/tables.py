"""Arrays and data frames alike: which columns may move, and how rows are taken, moved and stacked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from workingpapers.foundations.errors import InputError, near_match

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.intp]
Columns = Sequence[int | str] | None


def is_frame(X: Any) -> bool:
    """Whether `X` is a pandas data frame."""
    return isinstance(X, pd.DataFrame)


def rows_of(X: Any, rows: npt.ArrayLike) -> Any:
    """Return the rows `rows` (positions) of `X`, an array or a data frame, as the same kind."""
    return X.iloc[np.asarray(rows)] if is_frame(X) else X[np.asarray(rows)]


def stack(first: Any, second: Any) -> Any:
    """Return the rows of `first` above those of `second`, as the same kind, a data frame with a fresh index."""
    if is_frame(first):
        return pd.concat([first, second], ignore_index=True)
    return np.concatenate([first, second])


def column_names(X: Any) -> list[str]:
    """Return the column names of a data frame, or ``x0, x1, ...`` for an array."""
    return [str(name) for name in X.columns] if is_frame(X) else [f"x{index}" for index in range(X.shape[1])]


def numeric_values(X: Any) -> Floats:
    """Return `X` as floats of shape (n, d); columns that are not numbers become all NaN."""
    if not is_frame(X):
        return np.asarray(X, dtype=np.float64)
    values = np.full(X.shape, np.nan)
    for index, kind in enumerate(X.dtypes):
        if pd.api.types.is_numeric_dtype(kind) and not pd.api.types.is_bool_dtype(kind):
            values[:, index] = X.iloc[:, index].to_numpy(dtype=np.float64, na_value=np.nan)
    return values


def perturbable_columns(X: Any, columns: Columns = None) -> Integers:
    """Return the positions of the columns that may be perturbed.

    By default these are the columns that measure: numbers that are not all whole. Whole numbers may be codes, counts
    or one-hot flags, where a value in between means nothing; name such a column in `columns` to have it perturbed (and
    rounded to whole numbers). Constant columns never move.

    Args:
        X: Array or data frame, shape (n, d).
        columns: Names (data frames) or positions that may be perturbed; None takes the default.

    Returns:
        Sorted positions, shape (m,).

    Raises:
        InputError: A named column does not exist or is not numeric.
    """
    values = numeric_values(X)
    named = None if columns is None else {_position(X, column) for column in columns}
    found = []
    for index in range(values.shape[1]) if named is None else sorted(named):
        seen = values[np.isfinite(values[:, index]), index]
        if named is not None and seen.size == 0:
            raise InputError(
                f"Column {column_names(X)[index]!r} holds no numbers and cannot be perturbed; leave it out of columns."
            )
        moves = seen.size > 1 and np.ptp(seen) > 0
        if moves and (named is not None or not is_whole(seen)):
            found.append(index)
    return np.asarray(found, dtype=np.intp)


def is_whole(values: Floats) -> bool:
    """Whether every finite entry of `values` is a whole number."""
    finite = values[np.isfinite(values)]
    return bool(np.all(finite == np.rint(finite)))


def replace_columns(X: Any, columns: Integers, values: Floats) -> Any:
    """Return a copy of `X` whose `columns` hold `values`, shape (n, len(columns)); all else is untouched.

    Columns that hold whole numbers get whole numbers, in the column's own type.
    """
    changed = X.copy()
    for place, index in enumerate(columns):
        fresh = values[:, place]
        old = numeric_values(X.iloc[:, [index]])[:, 0] if is_frame(X) else np.asarray(X[:, index], dtype=np.float64)
        if is_whole(old):
            fresh = np.rint(fresh)
        if is_frame(X):
            name = X.columns[index]
            changed[name] = pd.Series(fresh, index=X.index).astype(X.dtypes.iloc[index])
        else:
            changed[:, index] = fresh
    return changed


def _position(X: Any, column: int | str) -> int:
    names = column_names(X)
    if isinstance(column, str):
        if column not in names:
            hint = near_match(column, names) or f"; the columns are {', '.join(names[:12])}."
            raise InputError(f"There is no column {column!r} to perturb{hint}")
        return names.index(column)
    if not -len(names) <= column < len(names):
        raise InputError(f"There is no column {column} to perturb; positions go from 0 to {len(names) - 1}.")
    return int(column) % len(names)
