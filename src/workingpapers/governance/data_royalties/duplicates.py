"""Copies: find them, score each group once, and hand the group's score out so that copying does not pay."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def text_vectors(texts: Sequence[str]) -> Floats:
    """Return (n, 4096) unit vectors of `texts` by hashed runs of five characters: near copies lie close."""
    from sklearn.feature_extraction.text import HashingVectorizer

    hasher = HashingVectorizer(analyzer="char_wb", ngram_range=(5, 5), n_features=4096, alternate_sign=False)
    return np.asarray(hasher.transform(texts).todense(), dtype=np.float64)


def near_copies(vectors: Floats, threshold: float = 0.999) -> NDArray[np.int64]:
    """Return (n,) group numbers: rows as similar as `threshold`, directly or through others, share one.

    Args:
        vectors: (n, d) rows of data, embeddings, or :func:`text_vectors`.
        threshold: Cosine similarity from which two rows count as copies, above 0 and at most 1.

    Returns:
        Group numbers from 0 in order of first appearance.
    """
    from scipy.sparse.csgraph import connected_components
    from sklearn.neighbors import radius_neighbors_graph

    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    unit = np.divide(vectors, norms, out=np.zeros_like(vectors), where=norms > 0)
    # For unit vectors |a - b|^2 = 2 - 2 cos; the small slack takes in rounding where the threshold is 1.
    radius = float(np.sqrt(max(0.0, 2.0 - 2.0 * threshold)) + 1e-7)
    graph = radius_neighbors_graph(unit, radius, mode="connectivity", include_self=True)
    _, groups = connected_components(graph, directed=False)
    _, first, inverse = np.unique(groups, return_index=True, return_inverse=True)
    order = np.argsort(np.argsort(first))
    found: NDArray[np.int64] = order[inverse].astype(np.int64)
    return found


def representatives(groups: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the row numbers of the first member of every group, in order: the data without copies."""
    _, first = np.unique(groups, return_index=True)
    return np.sort(first)


def hand_out(
    scores: Mapping[int, float], groups: Sequence[int], owners: Sequence[str], rule: str = "first"
) -> dict[str, float]:
    """Return owner -> score when every group of copies was scored once.

    The sum over owners is the sum of the groups' scores under both rules: copies add nothing to what is paid. Under
    ``"first"`` a group's score goes to the owner of its first row (order the rows by date of registration), so that no
    number of copies or of names takes anything from the original. Under ``"equal"`` all owners of the group share
    alike, which is just to honest owners of the same thing and gives a copier with two names twice as much.

    Args:
        scores: Group -> score.
        groups: (n,) the group of every row.
        owners: (n,) the owner of every row.
        rule: ``"first"`` or ``"equal"``.
    """
    members: dict[int, list[str]] = {}
    for group, owner in zip(groups, owners, strict=True):
        names = members.setdefault(int(group), [])
        if owner not in names:
            names.append(owner)
    found = dict.fromkeys(dict.fromkeys(owners), 0.0)
    for group, score in scores.items():
        chosen = members[group][:1] if rule == "first" else members[group]
        for owner in chosen:
            found[owner] += score / len(chosen)
    return found
