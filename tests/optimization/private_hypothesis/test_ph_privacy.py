"""The guarantee as a guarantee: exact laws on thousands of neighbours, sensitivities, an audit, the statement."""

import numpy as np
import pytest
from scipy import stats

from workingpapers.foundations.errors import InputError
from workingpapers.foundations.privacy.noise import SeededNoise, lattice_slack
from workingpapers.foundations.progress import silent
from workingpapers.optimization.private_hypothesis import rivals, select_hypothesis
from workingpapers.optimization.private_hypothesis.experiments import audited, law
from workingpapers.optimization.private_hypothesis.scores import all_scores, table_scores

TABLE = [[0.7, 0.2, 0.1], [0.1, 0.3, 0.6], [0.3, 0.4, 0.3]]
DATA = [0] * 40 + [1] * 10 + [2] * 6


def test_no_output_of_two_thousand_neighbours_betrays_more_than_epsilon(make_neighbours):
    rng = np.random.default_rng(0)
    worst, doubled, width = 0.0, 0.0, 0.0
    for _ in range(2000):
        points = int(rng.integers(2, 8))
        table = rng.dirichlet(np.full(points, 0.3), int(rng.integers(2, 6)))
        pair = [all_scores(table_scores(table, counts)) for counts in make_neighbours(rng, points, 20)]
        for factor in (1.0, 2.0):
            # At 20 records no probability underflows.
            losses = np.subtract(*(np.log(law(scores, factor / 2)) for scores in pair))
            if factor == 1.0:
                worst, width = max(worst, np.abs(losses).max()), max(width, np.ptp(losses))
            else:
                doubled = max(doubled, np.abs(losses).max())
    assert worst <= 1 + 1e-12
    assert width <= 1 + 1e-12  # bounded range: the reason for rho = epsilon^2 / 8
    assert doubled > 1.3


def test_an_audit_passes_the_mechanism_and_catches_a_doubled_rate():
    found = audited(0, silent, outputs=3000)
    assert 0.1 < found["measured"] <= 1.0 < found["measured_other"]


def test_contests_move_by_at_most_one_record(make_neighbours):
    rng = np.random.default_rng(1)
    largest = 0.0
    for _ in range(1000):
        points = int(rng.integers(2, 10))
        table = rng.dirichlet(np.full(points, 0.4), int(rng.integers(2, 7)))
        alpha, zeta = rng.uniform(0.01, 0.3), rng.uniform(0.1, 1)
        pair = [rivals.contest_scores(table_scores(table, counts), alpha, zeta)
                for counts in make_neighbours(rng, points, 30)]  # fmt: skip
        largest = max(largest, float(np.abs(np.subtract(*pair)).max()))
    assert 0.99 < largest <= 1 + 1e-9


def test_lifts_move_by_at_most_two_records(make_neighbours):
    rng = np.random.default_rng(2)
    largest = 0.0
    for _ in range(1000):
        points = int(rng.integers(2, 10))
        table = rng.dirichlet(np.full(points, 0.4), 6)
        lifts = []
        for counts in make_neighbours(rng, points, 30):
            scores = table_scores(table, counts)
            bounds = np.maximum(scores.column(0), scores.column(1))
            lifts.append(np.array([scores.row(j) - bounds[j] for j in (2, 3, 4)]))
        pair = [np.sort(item, axis=0)[1] for item in lifts]
        largest = max(largest, float(np.abs(np.subtract(*pair)).max()))
    assert 1 < largest <= 2.0


@pytest.mark.parametrize("method", ["lazy", "full", "contest"])
def test_a_release_has_the_law_of_its_epsilon(method):
    """Two candidates and scores by hand: a rate of epsilon instead of epsilon / 2 would show."""
    table, counts = [[0.7, 0.2, 0.1], [0.1, 0.3, 0.6]], [9, 6, 5]
    losses = np.array([abs(14 - 9), abs(18 - 11)])
    if method == "contest":  # alpha 0.1, zeta 1: 9 - 2 - 3 on {0} and 11 - 6 - 3 on {1, 2}
        losses = -np.array([4, 2])
    expected = law(losses.astype(float), 0.35)
    options = {"alpha": 0.1} if method == "contest" else {}
    data = np.repeat([0, 1, 2], counts)
    seconds = sum(
        select_hypothesis(table, data, 0.7, method=method, seed=seed, insecure=True, **options).index
        for seed in range(4000)
    )
    assert stats.binomtest(seconds, 4000, expected[1]).pvalue > 1e-3


def test_noise_of_searches_covers_the_lattice():
    for search in (1e-4, 0.01, 1.0):
        found = rivals.lift_sensitivity(search)
        assert 2 + lattice_slack(1, 4 * found / search, 1) <= found < 2.2
    with pytest.raises(InputError, match="leave epsilon 1e-06"):
        rivals.lift_sensitivity(1e-6)


def test_a_lift_counts_where_enough_draws_have_it():
    lifts = [np.array([1.0, 9.0]), np.array([5.0, 2.0]), np.array([3.0, 4.0])]
    np.testing.assert_array_equal(rivals.lifts_of_many(lifts, 0.01), [5, 9])
    np.testing.assert_array_equal(rivals.lifts_of_many(lifts, 0.5), [3, 4])
    np.testing.assert_array_equal(rivals.lifts_of_many(lifts, 1.0), [1, 2])


@pytest.mark.parametrize(
    ("method", "options", "stages"),
    [
        ("lazy", {}, [(0.8, 1)]),
        ("full", {}, [(0.8, 1)]),
        ("contest", {"alpha": 0.1}, [(0.8, 1)]),
        ("tournament", {}, [(0.8, 1)]),
        ("sparse_vector", {"rounds": 4, "draws": 3}, [(0.8 / 26, 13), (0.1, 4)]),
    ],
)
def test_every_release_states_what_it_costs(method, options, stages):
    found = select_hypothesis(TABLE, DATA, 0.8, method=method, **options)
    said = found.privacy
    assert said.secure
    assert (said.epsilon, said.delta) == (pytest.approx(0.8, rel=1e-12), 0.0)
    assert said.neighbours == "replace one record"
    assert [(pytest.approx(stage.epsilon), stage.steps) for stage in said.stages] == stages
    assert "the candidates" in said.public
    assert "the number of records" in said.public
    assert found.diagnostics is None
    text = said.text()
    assert "PROTECTS NOBODY" not in text
    if method == "lazy":
        assert "running time depends on the data and is not covered" in text
    assert found.zero_concentrated == (pytest.approx(0.08) if method in ("lazy", "full") else None)


def test_a_seed_is_refused_unless_the_caller_says_so():
    with pytest.raises(InputError, match="seed 3 anybody"):
        select_hypothesis(TABLE, DATA, 1.0, seed=3)
    found = select_hypothesis(TABLE, DATA, 1.0, seed=3, insecure=True)
    assert not found.privacy.secure
    assert "PROTECTS NOBODY" in found.privacy.text()
    assert found.index == select_hypothesis(TABLE, DATA, 1.0, seed=3, insecure=True).index


def test_diagnostics_come_only_where_asked_for():
    done = select_hypothesis(TABLE, DATA, 1.0, diagnostics=True).diagnostics
    assert done.rows
    assert done.rounds >= len(done.rows)
    assert "NOT private" in type(done).__doc__


def test_secure_noise_of_a_tournament_is_refused_where_it_would_be_rounded():
    scores = table_scores(np.full((3000, 2), 0.5), [5, 5])
    with pytest.raises(InputError, match="3000 candidates"):
        rivals.tournament(scores, 0.1, type("Secure", (SeededNoise,), {"secure": True})(0))
