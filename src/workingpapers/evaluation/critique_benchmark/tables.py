"""A table of games, checked and numbered: who answered, who wrote the item, which item, and how it ended."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
import scipy.sparse as sparse
from scipy.sparse.csgraph import connected_components

from workingpapers.foundations.errors import InputError
from workingpapers.foundations.files import column

if TYPE_CHECKING:
    import pandas as pd

COLUMNS = ("answerer", "author", "item", "outcome")


@dataclass(frozen=True)
class Games:
    """Games pooled by answerer and item, in sorted order, so that the order of the table's rows cannot matter.

    Args:
        answerers: Names, sorted, length n_b.
        authors: Names, sorted, length n_a.
        items: Names, sorted, length n_i.
        author_of: Author of each item, int, shape (n_i,).
        answerer: Answerer of each cell, int, shape (m,).
        item: Item of each cell, int, shape (m,); a pair of answerer and item occurs once.
        weight: Total weight of each cell, shape (m,).
        wins: Weight of the games that the answerer won, shape (m,).
        games: Number of games before pooling.
    """

    answerers: tuple[str, ...]
    authors: tuple[str, ...]
    items: tuple[str, ...]
    author_of: np.ndarray
    answerer: np.ndarray
    item: np.ndarray
    weight: np.ndarray
    wins: np.ndarray
    games: int


def read_games(
    frame: pd.DataFrame, own_items: Literal["refuse", "drop"] = "refuse", source: str = "the table"
) -> Games:
    """Check and number a table of games.

    Args:
        frame: Columns answerer, author, item, outcome (1 the answerer won, 0 it lost) and, where wanted, weight.
        own_items: What to do with answers to an author's own items: an error, or leave them out.
        source: Name of the table for messages.

    Returns:
        The games. An item that somebody answered several times is one cell.

    Raises:
        InputError: A column or a cell is missing, an outcome is not 0 or 1, a weight is negative, an item has two
            authors, an author answers its own item, or fewer than two answerers remain.
    """
    names = {name: column(frame, name, source) for name in COLUMNS}
    for name, series in names.items():
        if series.isna().any():
            raise InputError(f"{source!r} has an empty cell in column {name!r}, row {_first(series.isna())}; fill it.")
    answerer, author, item = (names[name].astype(str).to_numpy() for name in COLUMNS[:3])
    outcome = _outcomes(names["outcome"], source)
    weight = _weights(frame, source)
    own = answerer == author
    if own.any() and own_items == "refuse":
        row = _first(own)
        raise InputError(
            f"{source!r} has {answerer[row - 1]!r} answering its own item {item[row - 1]!r} (row {row}); remove such "
            "games, or drop them with own_items='drop'."
        )
    kept = ~own & (weight > 0)
    answerer, author, item, outcome, weight = (values[kept] for values in (answerer, author, item, outcome, weight))
    if len(np.unique(answerer)) < 2:
        raise InputError(f"{source!r} has {len(np.unique(answerer))} answerers with games; a rating needs two or more.")
    return _pool(answerer, author, item, outcome, weight, source)


def components(games: Games) -> np.ndarray:
    """Return the group of each answerer, int, shape (n_b,).

    Answerers are linked through the items that both answered and through the authors of those items; the data say
    nothing about how two groups compare, only the prior does.

    Args:
        games: The games.
    """
    n = len(games.answerers)
    links = sparse.csr_matrix(
        (np.ones(len(games.answerer)), (games.answerer, n + games.author_of[games.item])),
        shape=(n + len(games.authors), n + len(games.authors)),
    )
    _, labels = connected_components(links, directed=False)
    return np.unique(labels[:n], return_inverse=True)[1]


def _outcomes(series: pd.Series, source: str) -> np.ndarray:
    import pandas as pd

    values = np.asarray(pd.to_numeric(series, errors="coerce"), dtype=np.float64)
    bad = ~np.isin(values, (0.0, 1.0))
    if bad.any():
        row = _first(bad)
        raise InputError(f"{source!r} has the outcome {str(series.iloc[row - 1])!r} in row {row}; use 1 (won) or 0.")
    return values


def _weights(frame: pd.DataFrame, source: str) -> np.ndarray:
    import pandas as pd

    if "weight" not in frame.columns:
        return np.ones(len(frame))
    values = np.asarray(pd.to_numeric(frame["weight"], errors="coerce"), dtype=np.float64)
    bad = ~(np.isfinite(values) & (values >= 0))
    if bad.any():
        row = _first(bad)
        shown = str(frame["weight"].iloc[row - 1])
        raise InputError(f"{source!r} has the weight {shown!r} in row {row}; weights are finite and not negative.")
    return values


def _pool(
    answerer: np.ndarray, author: np.ndarray, item: np.ndarray, outcome: np.ndarray, weight: np.ndarray, source: str
) -> Games:
    answerers, b = np.unique(answerer, return_inverse=True)
    authors, a = np.unique(author, return_inverse=True)
    items, i = np.unique(item, return_inverse=True)
    author_of = np.full(len(items), -1)
    author_of[i] = a
    two = author_of[i] != a
    if two.any():
        name, other = str(item[two][0]), str(author[two][0])
        raise InputError(
            f"{source!r} has the item {name!r} by two authors, {str(authors[author_of[i[two][0]]])!r} and {other!r}; "
            "give every item one author and a name of its own."
        )
    # Sums depend on their order in the last bit; sorting first makes the result the same for every order of rows.
    order = np.lexsort((weight, outcome, i, b))
    b, i, outcome, weight = b[order], i[order], outcome[order], weight[order]
    code, where = np.unique(b.astype(np.int64) * len(items) + i, return_inverse=True)
    return Games(
        answerers=tuple(map(str, answerers)),
        authors=tuple(map(str, authors)),
        items=tuple(map(str, items)),
        author_of=author_of,
        answerer=code // len(items),
        item=code % len(items),
        weight=np.bincount(where, weights=weight),
        wins=np.bincount(where, weights=weight * outcome),
        games=len(b),
    )


def _first(mask: object) -> int:
    """Return the number of the first row where `mask` holds, counted from 1."""
    return int(np.flatnonzero(np.asarray(mask))[0]) + 1
