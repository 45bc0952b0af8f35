"""A market of data providers whose contributions are known: honest ones, copies, wrong labels, noise."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from workingpapers.foundations.progress import Progress
from workingpapers.governance.data_royalties.games import shapley
from workingpapers.governance.data_royalties.gradients import fit, log_likelihood
from workingpapers.governance.data_royalties.scores import Outputs

Floats = NDArray[np.float64]
CLASSES = 10
RIDGE = 1.0
TOLERANCE = 1e-9


@dataclass(frozen=True)
class Market:
    """Handwritten digits of several providers.

    Args:
        features: (n, d) training rows.
        labels: (n,) their labels.
        owners: (n,) the provider of each row, as an index.
        names: The providers.
        bad: Providers whose data is worth little: wrong labels or shuffled pixels.
        copies: Providers that hold the same rows, the original first.
        outputs: Test digits as paid outputs: the model is paid for the right answer.
    """

    features: Floats
    labels: NDArray[np.int64]
    owners: NDArray[np.int64]
    names: tuple[str, ...]
    bad: tuple[int, ...]
    copies: tuple[int, ...]
    outputs: Outputs

    @property
    def players(self) -> int:
        """Number of providers."""
        return len(self.names)

    def without(self, dropped: tuple[int, ...]) -> Market:
        """Return the market without some providers, the others renumbered in order."""
        kept = [index for index in range(self.players) if index not in dropped]
        rows = np.isin(self.owners, kept)
        places = {old: new for new, old in enumerate(kept)}
        return Market(
            self.features[rows],
            self.labels[rows],
            np.array([places[int(owner)] for owner in self.owners[rows]]),
            tuple(self.names[index] for index in kept),
            tuple(places[index] for index in self.bad if index in places),
            tuple(places[index] for index in self.copies if index in places),
            self.outputs,
        )


@lru_cache(maxsize=8)
def market(seed: int, sizes: tuple[int, ...], copied: int, noisy: int, outputs: int, components: int) -> Market:
    """Return the market of a seed.

    Args:
        seed: Seed of the draw.
        sizes: Rows of the honest providers; the third of them is copied.
        copied: How many providers hold an exact copy of the third.
        noisy: Rows of each of the three bad providers: two with half of the labels random, one with shuffled pixels.
        outputs: Test digits.
        components: Principal components kept of the 64 pixels.
    """
    from sklearn.datasets import load_digits
    from sklearn.decomposition import PCA

    rng = np.random.default_rng(seed)
    digits = load_digits()
    order = rng.permutation(len(digits.target))
    pixels, labels = digits.data[order] / 16.0, digits.target[order].astype(np.int64)
    test, start = slice(0, outputs), outputs
    blocks: list[tuple[str, Floats, NDArray[np.int64]]] = []
    for size in (*sizes, noisy, noisy, noisy):
        blocks.append(("", pixels[start : start + size].copy(), labels[start : start + size].copy()))
        start += size
    honest = len(sizes)
    for index in (honest, honest + 1):
        wrong = rng.random(noisy) < 0.5
        blocks[index][2][wrong] = rng.integers(0, CLASSES, int(wrong.sum()))
    for row in blocks[honest + 2][1]:
        rng.shuffle(row)
    names = [f"honest {size}" for size in sizes] + ["wrong labels 1", "wrong labels 2", "shuffled pixels"]
    blocks += [blocks[2]] * copied
    names += [f"copy {number + 1}" for number in range(copied)]
    # The projection is fitted on the test digits' own kind of data, the honest rows, and is the same for everybody.
    projection = PCA(components, random_state=0).fit(np.vstack([block[1] for block in blocks[:honest]]))
    features = projection.transform(np.vstack([block[1] for block in blocks]))
    scale = float(np.sqrt(np.mean(features**2)))
    return Market(
        features / scale,
        np.concatenate([block[2] for block in blocks]),
        np.repeat(np.arange(len(blocks)), [len(block[2]) for block in blocks]),
        tuple(names),
        (honest, honest + 1, honest + 2),
        (2, *range(honest + 3, honest + 3 + copied)),
        Outputs([f"e{index}" for index in range(outputs)], projection.transform(pixels[test]) / scale, labels[test]),
    )


def utility(place: Market, mask: int, start: Floats | None = None) -> tuple[Floats, Floats | None]:
    """Return (E,) log-likelihoods of the right answers under a model of the providers in `mask`, and its weights."""
    answers = place.outputs.labels.astype(np.int64)
    rows = (mask >> place.owners) & 1 == 1
    if not rows.any():
        return np.full(len(answers), -np.log(CLASSES)), None
    weights = fit(place.features[rows], place.labels[rows], CLASSES, RIDGE, start, TOLERANCE)
    return log_likelihood(weights, place.outputs.features, answers), weights


_TABLES: dict[tuple[object, ...], Floats] = {}


def exact_values(place: Market, key: tuple[object, ...], progress: Progress) -> Floats:
    """Return (2**n, E) the utilities of all coalitions, computed once for each `key` in this process.

    Coalitions are visited in Gray code order, so that each fit starts from that of a neighbour.
    """
    if key not in _TABLES:
        total = 1 << place.players
        present = sum(1 << int(owner) for owner in np.unique(place.owners))
        values = np.empty((total, len(place.outputs.event_ids)))
        weights: Floats | None = None
        for step in range(total):
            mask = step ^ step >> 1
            same = mask & present
            if same != mask and step > 0:
                # Players without rows change nothing; in Gray code order the coalition without them may come later.
                values[mask] = np.nan
                continue
            values[mask], weights = utility(place, mask, weights)
            if step % 16 == 0:
                progress(step / total, f"retraining on coalition {step} of {total}")
        absent = np.flatnonzero(np.arange(total) & ~present)
        values[absent] = values[absent & present]
        if len(_TABLES) > 8:
            _TABLES.clear()
        _TABLES[key] = values
    return _TABLES[key]


def exact_shapley(place: Market, key: tuple[object, ...], progress: Progress) -> Floats:
    """Return (E, n) exact Shapley values of the providers for every output."""
    return shapley(exact_values(place, key, progress)).T


def pay(scores: Floats) -> Floats:
    """Return (n,) the share of all money that each column gets when every event is worth the same: the ledger's rule.

    Scores below zero are cut off event by event, and an event without any is paid to nobody.
    """
    positive = np.maximum(scores, 0.0)
    total = positive.sum(axis=1, keepdims=True)
    shares = np.divide(positive, total, out=np.zeros_like(positive), where=total > 0)
    money = shares.sum(axis=0)
    paid: Floats = money / money.sum() if money.sum() > 0 else np.full(len(money), 1.0 / len(money))
    return paid
