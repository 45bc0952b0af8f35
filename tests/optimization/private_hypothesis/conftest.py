"""Small problems that several test files share."""

import numpy as np
import pytest

from workingpapers.optimization.private_hypothesis.families import random_mixtures
from workingpapers.optimization.private_hypothesis.scores import table_scores


@pytest.fixture
def small():
    """Return scores of 40 similar distributions on 64 points and 300 records of one: many are chosen now and then."""
    rng = np.random.default_rng(11)
    table = random_mixtures(40, rng, points=64)
    table = 0.75 * table[7] + 0.25 * table
    return table_scores(table, rng.multinomial(300, table[7]))


def neighbours(rng, points, records):
    """Return the counts of two data sets that differ in one record."""
    counts = rng.multinomial(records, rng.dirichlet(np.full(points, 0.5)))
    moved = counts.copy()
    moved[rng.choice(np.flatnonzero(counts))] -= 1
    moved[rng.integers(points)] += 1
    return counts, moved


@pytest.fixture
def make_neighbours():
    return neighbours
