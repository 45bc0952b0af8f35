"""The choice: bounds in numbers, the promise kept, rivals on clear cases, densities of other libraries, bad input."""

import math

import numpy as np
import pytest
from scipy import stats

from workingpapers.foundations.errors import InputError
from workingpapers.foundations.privacy.noise import SeededNoise
from workingpapers.optimization.private_hypothesis import (
    error_bound,
    minimum_distance,
    required_samples,
    rivals,
    scheffe_tournament,
    select_hypothesis,
    table_scores,
    total_variation,
)
from workingpapers.optimization.private_hypothesis.families import random_mixtures
from workingpapers.optimization.private_hypothesis.scores import all_scores

TABLE = [[0.7, 0.2, 0.1], [0.1, 0.3, 0.6], [0.3, 0.4, 0.3]]


def test_the_bound_in_numbers():
    sigma = math.sqrt(math.log(8e7) / 2e4)
    assert sigma == pytest.approx(0.0302, abs=5e-5)
    assert 2e-4 * math.log(4e4) == pytest.approx(0.00212, abs=5e-6)
    assert error_bound(1000, 10_000, 1.0, 0.05) == pytest.approx(2 * sigma + 2e-4 * math.log(4e4), rel=1e-12)
    assert error_bound(1000, 10_000, 1.0, samples=4000) > error_bound(1000, 10_000, 1.0) + 2 * math.sqrt(18 / 8000)


def test_required_samples_is_the_least_number():
    needed = required_samples(0.0625, 1.0, 1000)
    assert error_bound(1000, needed, 1.0) <= 0.0625 < error_bound(1000, needed - 1, 1.0)
    assert needed == pytest.approx(10_000, rel=0.01)
    assert required_samples(0.1, 0.01, 1000) > required_samples(0.1, 1.0, 1000)


def test_the_promise_is_kept_also_outside_the_class():
    rng = np.random.default_rng(0)
    for trial in range(50):
        table = random_mixtures(60, rng, points=64)
        truth = 0.7 * table[5] + 0.3 * table[int(rng.integers(6, 60))] if trial % 2 else table[5]
        data = rng.choice(64, 2000, p=truth)
        found = select_hypothesis(table, data, 1.0, seed=trial, insecure=True)
        distances = total_variation(table, truth)
        assert distances[found.index] <= 3 * distances.min() + found.error_bound
        assert found.error_bound < 0.2


def test_the_score_of_the_choice_is_close_to_the_least_as_often_as_promised():
    """P(W > min W + 2 ln(n / b) / (epsilon s)) <= b for the exponential mechanism; b = 0.2."""
    rng = np.random.default_rng(1)
    table = random_mixtures(40, rng, points=64)
    counts = rng.multinomial(100, table[0])
    scores = all_scores(table_scores(table, counts))
    limit = scores.min() + 2 * math.log(40 / 0.2) / 0.2
    data = np.repeat(np.arange(64), counts)
    above = sum(
        scores[select_hypothesis(table, data, 0.2, seed=seed, insecure=True).index] > limit for seed in range(300)
    )
    assert stats.binomtest(above, 300, 0.2, alternative="greater").pvalue > 1e-3


@pytest.mark.parametrize(
    ("method", "options"),
    [("lazy", {}), ("full", {}), ("contest", {}), ("tournament", {}), ("sparse_vector", {"rounds": 3, "draws": 3})],
)
def test_every_method_finds_the_candidate_that_many_records_point_to(method, options):
    rng = np.random.default_rng(2)
    data = rng.choice(3, 5000, p=TABLE[1])
    # The noise is secure and has no seed; the sparse vector, with few draws, misses in one run of sixty.
    runs = [select_hypothesis(TABLE, data, 5.0, method=method, **options) for _ in range(20)]
    right = [found for found in runs if found.index == 1]
    assert len(right) >= (15 if method == "sparse_vector" else 20)
    np.testing.assert_array_equal(right[0].hypothesis, TABLE[1])


def test_choices_without_privacy():
    scores = table_scores(TABLE, [30, 40, 30])
    assert minimum_distance(scores) == scheffe_tournament(scores) == 2
    # Duel of 0 and 1 on {H_1 > H_0} = {1, 2}: masses 30 and 90, 70 records: 1 wins. 2 wins both of its own.
    np.testing.assert_array_equal(rivals.tournament_wins(scores), [0, 1, 2])
    twice = table_scores([TABLE[0], TABLE[0]], [30, 40, 30])
    np.testing.assert_array_equal(rivals.tournament_wins(twice), [0.5, 0.5])


def test_contests_by_hand():
    # H_0 against H_1 on {0}: 70 and 10 of 100, 30 records: 30 - 10 - 1.5 * 10 = 5; the other way 70 - 30 - 15 = 25.
    scores = table_scores(TABLE[:2], [30, 40, 30])
    np.testing.assert_allclose(rivals.contest_scores(scores, 0.1, 1.0), [5, 25], atol=1e-6)
    np.testing.assert_array_equal(rivals.contest_scores(scores, 0.21, 1.0), [100, 100])  # too close to contest


def test_sparse_vector_finds_what_exposes_the_bad_ones():
    """One right candidate among many that are wrong in the same way: its column lifts all of them."""
    rng = np.random.default_rng(3)
    wrong = rng.dirichlet(np.full(8, 50.0), 30)
    right = np.array([0.65, *[0.05] * 7])
    table = np.concatenate([wrong, [right]])
    scores = table_scores(table, rng.multinomial(20_000, right))
    chosen, _, evaluations = rivals.sparse_vector(scores, 5.0, SeededNoise(0), rounds=3, draws=3, target=0.5)
    assert chosen == 30
    assert evaluations < 31 * 13


def test_densities_of_scipy_and_scikit_learn():
    mixture = pytest.importorskip("sklearn.mixture")
    rng = np.random.default_rng(4)
    humps = np.concatenate([rng.normal(-3, 1, 200), rng.normal(3, 1, 200)])[:, None]
    model = mixture.GaussianMixture(2, random_state=0).fit(humps)
    data = rng.permutation(np.concatenate([rng.normal(-3, 1, 300), rng.normal(3, 1, 300)]))
    candidates = [stats.norm(0, 3), model, stats.norm(3, 1), stats.cauchy(0, 2)]
    found = select_hypothesis(candidates, data, 2.0, samples=1000)
    assert found.index == 1
    assert found.hypothesis is model
    assert model.random_state == 0
    assert "the samples from the candidates" in found.privacy.public


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"epsilon": 0}, "Epsilon is 0;"),
        ({"epsilon": -1.5}, "Epsilon is -1.5"),
        ({"epsilon": float("inf")}, "Epsilon is inf"),
        ({"epsilon": float("nan")}, "Epsilon is nan"),
        ({"beta": 0}, "Beta is 0;"),
        ({"beta": 1}, "Beta is 1;"),
        ({"method": "lasy"}, "'lasy'; did you mean 'lazy'"),
        ({"data": [0, 1, 2, 3] * 5}, "value 3 lies outside the domain 0 to 2"),
        ({"data": [0, 1]}, "There are 2 records"),
        ({"candidates": [[0.5, 0.3, 0.1]]}, "sum to 0.9"),
        ({"candidates": ["a", "b"]}, "A candidate is a str"),
        ({"candidates": [stats.norm()], "data": [0.0, float("nan")] * 10}, "Record 1 is"),
        ({"candidates": [stats.norm()], "method": "contest"}, "'contest' takes distributions on a finite domain"),
        ({"method": "contest", "alpha": 0}, "Alpha is 0"),
        ({"method": "sparse_vector", "beta": 1e-9}, "rounds leave epsilon"),
    ],
)  # fmt: skip
def test_bad_input_is_one_sentence(change, words):
    given = {"candidates": TABLE, "data": [0, 1, 2] * 10, "epsilon": 1.0, **change}
    with pytest.raises(InputError, match=words) as caught:
        select_hypothesis(**given)
    assert "\n" not in str(caught.value)


def test_an_error_of_zero_is_refused():
    with pytest.raises(InputError, match="The error is 0"):
        required_samples(0, 1.0, 10)
