"""Arms about attribution: how near to exact Shapley money, how fair, how proof against copying."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from workingpapers.foundations.progress import Progress
from workingpapers.governance.data_royalties.claim_data import (
    CLASSES,
    RIDGE,
    Market,
    exact_shapley,
    exact_values,
    market,
    pay,
)
from workingpapers.governance.data_royalties.duplicates import hand_out, near_copies, representatives
from workingpapers.governance.data_royalties.games import shapley_permutations
from workingpapers.governance.data_royalties.gradients import fit, influence, log_likelihood, tracin
from workingpapers.governance.data_royalties.neighbours import knn_shapley
from workingpapers.governance.data_royalties.scores import Floats

NEIGHBOURS = 5
Key = tuple[Any, ...]
Scorer = Callable[[Market, Key, Progress], Floats]
"""``(market, key of its exact values, progress) -> (E, n)`` scores of the providers."""


def by_provider(place: Market, points: Floats) -> Floats:
    """Return (E, n) the sums of (E, rows) point scores by provider; zero for a provider without rows."""
    return np.stack([points[:, place.owners == index].sum(axis=1) for index in range(place.players)], axis=1)


def answers(place: Market) -> NDArray[np.int64]:
    """Return (E,) the labels of the outputs."""
    return place.outputs.labels.astype(np.int64)


def by_shapley(place: Market, key: Key, progress: Progress) -> Floats:
    """Exact Shapley values by retraining on every coalition."""
    return exact_shapley(place, key, progress)


def by_permutations(place: Market, key: Key, progress: Progress, orders: int = 20) -> Floats:
    """Shapley values from `orders` orders of the providers."""
    values = exact_values(place, key, progress)
    rng = np.random.default_rng([int(key[0]), 1])
    return shapley_permutations(lambda mask: values[mask], place.players, rng, permutations=orders).values.T


def by_leave_one_out(place: Market, key: Key, progress: Progress) -> Floats:
    """What the likelihood loses without each provider."""
    values = exact_values(place, key, progress)
    last = len(values) - 1
    return np.stack([values[last] - values[last ^ 1 << index] for index in range(place.players)], axis=1)


def by_neighbours(place: Market, key: Key, progress: Progress) -> Floats:
    """KNN-Shapley, no retraining."""
    points = knn_shapley(place.features, place.labels, place.outputs.features, answers(place), NEIGHBOURS)
    return by_provider(place, points)


def by_influence(place: Market, key: Key, progress: Progress) -> Floats:
    """Influence functions of the one model."""
    weights = fit(place.features, place.labels, CLASSES, RIDGE)
    found = influence(weights, place.features, place.labels, RIDGE, place.outputs.features, answers(place))
    return by_provider(place, found)


def by_tracin(place: Market, key: Key, progress: Progress) -> Floats:
    """Gradient products along one run."""
    return by_provider(place, tracin(place.features, place.labels, CLASSES, place.outputs.features, answers(place)))


def by_volume(place: Market, key: Key, progress: Progress) -> Floats:
    """Pro rata by rows."""
    rows = np.bincount(place.owners, minlength=place.players).astype(np.float64)
    return np.tile(rows, (len(place.outputs.event_ids), 1))


def equally(place: Market, key: Key, progress: Progress) -> Floats:
    """The same to everybody."""
    return np.ones((len(place.outputs.event_ids), place.players))


def at_random(place: Market, key: Key, progress: Progress) -> Floats:
    """Random scores for every output."""
    return np.random.default_rng([int(key[0]), 2]).random((len(place.outputs.event_ids), place.players))


def distance(seed: int, progress: Progress, *, scorer: Scorer, **settings: Any) -> Mapping[str, float]:
    """Arm: L1 distance between the money shares of a method and those of exact Shapley scores, both event by event."""
    key = (seed, *sorted(settings.items()))
    place = market(seed, **settings)
    exact = pay(exact_shapley(place, key, progress))
    shares = pay(scorer(place, key, progress))
    progress(1.0, "paid")
    return {"distance": float(np.abs(shares - exact).sum()), "bad_money": float(shares[list(place.bad)].sum())}


def cut(seed: int, progress: Progress, *, netted: bool, **settings: Any) -> Mapping[str, float]:
    """Arm: money of the bad providers under exact Shapley scores, cut at zero by event or netted over all events."""
    key = (seed, *sorted(settings.items()))
    place = market(seed, **settings)
    scores = exact_shapley(place, key, progress)
    shares = pay(scores.mean(axis=0, keepdims=True) if netted else scores)
    progress(1.0, "paid")
    return {"bad_money": float(shares[list(place.bad)].sum())}


def copies(seed: int, progress: Progress, *, scorer: Scorer, rule: str = "", **settings: Any) -> Mapping[str, float]:
    """Arm: what all holders of the same rows get together, relative to the original alone in a market without copies.

    Args:
        seed: Seed of the market.
        progress: Progress.
        scorer: The method.
        rule: How a group of copies shares (``"first"``, ``"equal"``), or ``""`` for no guard.
        **settings: Of the market.
    """
    key = (seed, *sorted(settings.items()))
    place = market(seed, **settings)
    single = place.without(place.copies[1:])
    alone = pay(scorer(single, (*key, "single"), progress))[place.copies[0]]
    shares = guarded(place, key, scorer, rule, progress) if rule else pay(scorer(place, key, progress))
    progress(1.0, "paid")
    together = float(shares[list(place.copies)].sum())
    return {"together": together / float(alone), "original": float(shares[place.copies[0]] / alone)}


def guarded(place: Market, key: Key, scorer: Scorer, rule: str, progress: Progress) -> Floats:
    """Return (n,) money shares when copies are found, scored once and handed out by `rule`.

    Copies are found from the rows alone: who holds them is not told to the guard.
    """
    groups = near_copies(np.hstack([place.features, 10.0 * np.eye(CLASSES)[place.labels]]), threshold=1.0)
    kept = representatives(groups)
    owners = place.owners[kept]
    present = sorted(set(owners.tolist()))
    places = {old: new for new, old in enumerate(present)}
    unique = Market(
        place.features[kept],
        place.labels[kept],
        np.array([places[int(owner)] for owner in owners]),
        tuple(place.names[index] for index in present),
        (),
        (),
        place.outputs,
    )
    paid = pay(scorer(unique, (*key, "guarded"), progress))
    # A provider's money is spread over its rows, so that each row can be handed out within its group of copies.
    rows = np.bincount(unique.owners, minlength=unique.players)
    money = {int(groups[row]): float(paid[owner] / rows[owner]) for row, owner in zip(kept, unique.owners, strict=True)}
    shares = hand_out(money, groups.tolist(), [str(owner) for owner in place.owners], rule)
    return np.array([shares.get(str(index), 0.0) for index in range(place.players)])


def fairness(seed: int, progress: Progress, *, scorer: Scorer, **settings: Any) -> Mapping[str, float]:
    """Arm: how far a method is from four properties, as shares of what it deals out.

    ``efficiency``: the scores sum to what is divided. ``symmetry``: a copy gets what the original gets. ``null``: a
    provider without data gets nothing. ``splitting``: the largest provider gets the same under two names. ``violation``
    is the worst.
    """
    key = (seed, *sorted(settings.items()))
    full = market(seed, **settings)
    place = with_null(full.without(full.bad[1:]))
    original, copy = place.copies[:2]
    null = place.players - 1
    scores = scorer(place, (*key, "fairness"), progress).mean(axis=0)
    divided = worth(place, scorer, (*key, "fairness"), progress)
    largest = int(np.argmax(np.bincount(place.owners)))
    split = split_in_two(place, largest)
    halves = scorer(split, (*key, "split"), progress).mean(axis=0)
    progress(1.0, "measured")
    found = {
        "efficiency": abs(float(scores.sum()) / divided - 1.0),
        "symmetry": abs(float(scores[original] - scores[copy])) / abs(divided),
        "null": abs(float(scores[null])) / abs(divided),
        "splitting": abs(float(halves[largest] + halves[-1] - scores[largest])) / abs(divided),
    }
    return {"violation": max(found.values()), **found}


def with_null(place: Market) -> Market:
    """Return the market with one more provider who has no rows."""
    return Market(
        place.features, place.labels, place.owners, (*place.names, "nothing"), place.bad, place.copies, place.outputs
    )


def split_in_two(place: Market, provider: int) -> Market:
    """Return the market in which every second row of `provider` stands under a new last name."""
    owners = place.owners.copy()
    rows = np.flatnonzero(owners == provider)
    owners[rows[1::2]] = place.players
    return Market(
        place.features,
        place.labels,
        owners,
        (*place.names, f"{place.names[provider]} (second name)"),
        place.bad,
        place.copies,
        place.outputs,
    )


def worth(place: Market, scorer: Scorer, key: Key, progress: Progress) -> float:
    """Return what the scores of a method claim to divide: the mean utility of everybody less that of nobody."""
    target = answers(place)
    if scorer is by_neighbours:
        squares = ((place.outputs.features[:, None, :] - place.features[None, :, :]) ** 2).sum(axis=2)
        nearest = np.argsort(squares, axis=1, kind="stable")[:, :NEIGHBOURS]
        return float(np.mean(place.labels[nearest] == target[:, None]))
    if scorer is by_tracin or scorer is by_influence:
        weights = fit(place.features, place.labels, CLASSES, RIDGE)
        return float(log_likelihood(weights, place.outputs.features, target).mean() + np.log(CLASSES))
    values = exact_values(place, key, progress)
    return float((values[-1] - values[0]).mean())
