"""Scheffe scores: identities, exact sensitivity, agreement of rows, columns and continuous versions."""

import numpy as np
import pytest
from scipy import stats

from workingpapers.foundations.errors import InputError
from workingpapers.optimization.private_hypothesis.adapters import as_density
from workingpapers.optimization.private_hypothesis.families import equidistant, random_mixtures
from workingpapers.optimization.private_hypothesis.scores import (
    DensityScores,
    all_scores,
    count_points,
    table_scores,
    total_variation,
)


def test_total_variation_is_the_gap_on_the_scheffe_set():
    table = random_mixtures(30, np.random.default_rng(0))
    for i in range(30):
        for j in range(30):
            inside = table[j] > table[i]
            gap = table[j][inside].sum() - table[i][inside].sum()
            assert total_variation(table[i], table[j]) == pytest.approx(gap, abs=1e-12)


def test_scores_by_hand():
    scores = table_scores([[0.5, 0.5, 0.0], [0.25, 0.25, 0.5], [1.0, 0.0, 0.0]], [2, 1, 1])
    # w_i(j) = |H_j(S) - share of the records in S|, S = {H_j > H_i}, times 4 records
    expected = [[0, abs(4 - 3), abs(2 - 1)], [abs(2 - 1), 0, abs(3 - 2)], [abs(4 - 2), abs(4 - 2), 0]]
    np.testing.assert_allclose([scores.row(j) for j in range(3)], expected, atol=1e-7)
    np.testing.assert_allclose(all_scores(scores), [1, 1, 2], atol=1e-7)


def test_scores_lie_between_zero_and_all_records(small):
    found = all_scores(small)
    assert (found >= 0).all()
    assert (found <= small.records).all()
    assert [small.row(j)[j] for j in range(small.count)] == [0.0] * small.count


def test_rows_and_columns_agree_to_the_last_bit(small):
    rows = np.array([small.row(j) for j in range(small.count)])
    columns = np.array([small.column(i) for i in range(small.count)])
    np.testing.assert_array_equal(rows, columns.T)
    np.testing.assert_array_equal(rows, [small.row(j) for j in range(small.count)])


def test_chunks_do_not_change_a_bit(small, monkeypatch):
    rows, columns = small.row(3), small.column(5)
    monkeypatch.setattr("workingpapers.optimization.private_hypothesis.scores.CHUNK", 200)
    np.testing.assert_array_equal(small.row(3), rows)
    np.testing.assert_array_equal(small.column(5), columns)


def test_one_record_moves_no_score_by_more_than_one(make_neighbours):
    """Exactly, without a tolerance: the lattice leaves no rounding."""
    rng = np.random.default_rng(1)
    largest = 0.0
    for trial in range(3000):
        points, records = int(rng.integers(2, 12)), int(rng.integers(1, 60))
        table = rng.dirichlet(np.full(points, 0.4), int(rng.integers(2, 8)))
        one, other = (all_scores(table_scores(table, counts)) for counts in make_neighbours(rng, points, records))
        largest = max(largest, float(np.abs(one - other).max()))
        assert largest <= 1.0, trial
    assert largest == 1.0


def test_the_order_of_candidates_and_records_does_not_matter(small):
    rng = np.random.default_rng(2)
    order = rng.permutation(small.count)
    shuffled = table_scores(small.table[order], small.counts)
    np.testing.assert_array_equal(all_scores(shuffled), all_scores(small)[order])
    records = np.repeat(np.arange(64), small.counts.astype(int))
    np.testing.assert_array_equal(count_points(rng.permutation(records), 64), small.counts)


def test_duplicates_have_equal_scores(small):
    doubled = table_scores(np.concatenate([small.table, small.table]), small.counts)
    found = all_scores(doubled)
    np.testing.assert_array_equal(found[:40], found[40:])
    np.testing.assert_array_equal(found[:40], all_scores(small))


def test_the_lattice_stays_exact_for_many_records():
    rng = np.random.default_rng(3)
    table = random_mixtures(10, rng)
    counts = rng.multinomial(300_000_000, table[4]).astype(float)
    scores = table_scores(table, counts)
    rows = np.array([scores.row(j) for j in range(10)])
    np.testing.assert_array_equal(rows, np.array([scores.column(i) for i in range(10)]).T)
    assert np.argmin(rows.max(axis=1)) == 4


def test_equidistant_candidates_are_so():
    table = equidistant(50, np.random.default_rng(4))
    np.testing.assert_allclose(table.sum(axis=1), 1)
    np.testing.assert_allclose(total_variation(table, np.full(256, 1 / 256)), 0.25)


def test_densities_and_their_cells_choose_the_same():
    rng = np.random.default_rng(5)
    centres = np.linspace(-2, 2, 9)
    data = rng.normal(0.4, 1, 400)
    normals = [stats.norm(centre, 1) for centre in centres]
    densities = DensityScores([as_density(item) for item in normals], data, samples=100_000)
    edges = np.linspace(-7, 7, 2001)
    below = stats.norm.cdf(edges[None] - centres[:, None])
    table = np.diff(np.concatenate([np.zeros((9, 1)), below, np.ones((9, 1))], axis=1), axis=1)
    cells = table_scores(table, np.bincount(np.searchsorted(edges, data), minlength=2002))
    continuous, discrete = all_scores(densities), all_scores(cells)
    assert np.argmin(continuous) == np.argmin(discrete) == 5
    np.testing.assert_allclose(continuous / 400, discrete / 400, atol=0.01)
    assert densities.likeliest() == cells.likeliest() == 5


def test_rows_and_columns_of_densities_agree():
    data = np.random.default_rng(6).normal(size=(60, 2))
    normals = [as_density(stats.multivariate_normal([a, b])) for a in (0, 1) for b in (-1, 0, 0)]
    scores = DensityScores(normals, data, samples=300)
    rows = np.array([scores.row(j) for j in range(6)])
    np.testing.assert_array_equal(rows, np.array([scores.column(i) for i in range(6)]).T)
    assert (np.diag(rows) == 0).all()
    moved = data.copy()
    moved[3] = [50, 50]
    other = DensityScores(normals, moved, samples=300)
    assert np.abs(all_scores(other) - rows.max(axis=1)).max() <= 1.0


@pytest.mark.parametrize(
    ("table", "counts", "words"),
    [
        ([[0.5, 0.4], [0.5, 0.5]], [1, 1], "candidate 0 sum to 0.9"),
        ([[0.5, 0.5], [-0.1, 1.1]], [1, 1], "Candidate 1 gives point 0 the probability -0.1"),
        ([[0.5, float("nan")], [0.5, 0.5]], [1, 1], "Candidate 0 gives point 1 the probability nan"),
        ([0.5, 0.5], [1, 1], r"shape \(2,\)"),
        ([[0.5, 0.5]], [1, 1, 1], r"shape \(3,\)"),
        ([[0.5, 0.5]], [1, -1], "The count -1"),
        ([[0.5, 0.5]], [0.5, 1], "The count 0.5"),
        ([[0.5, 0.5]], [0, 0], "There are 0 records"),
    ],
)
def test_what_is_no_distribution_or_no_count_is_named(table, counts, words):
    with pytest.raises(InputError, match=words):
        table_scores(table, counts)


@pytest.mark.parametrize(("data", "words"), [([0, 1, 5], "value 5"), ([0, -1], "value -1"), ([0.5], "value 0.5"),
                                             ([float("nan")], "value nan"), ([], "shape")])  # fmt: skip
def test_data_outside_the_domain_are_named(data, words):
    with pytest.raises(InputError, match=words):
        count_points(data, 5)
