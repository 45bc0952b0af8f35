"""The lazy exponential mechanism: its law is the full one's, and the test of that notices what breaks it."""

import numpy as np
import pytest
from scipy import stats

from workingpapers.foundations.privacy.noise import SeededNoise
from workingpapers.optimization.private_hypothesis import lazy
from workingpapers.optimization.private_hypothesis.experiments import law
from workingpapers.optimization.private_hypothesis.families import equidistant, random_mixtures
from workingpapers.optimization.private_hypothesis.lazy import lazy_exponential
from workingpapers.optimization.private_hypothesis.scores import TableScores, all_scores, table_scores

OUTPUTS = 6000


class Overstated(TableScores):
    """Columns that are no lower bounds any more."""

    def column(self, i):
        return super().column(i) + 40.0


def agreement(scores, rate, expected, **options):
    """Return the p-value of the outputs' counts against a law; rare outputs count together."""
    noise = SeededNoise(5)
    drawn = [lazy_exponential(scores, rate, noise, **options)[0] for _ in range(OUTPUTS)]
    counts = np.bincount(drawn, minlength=scores.count)
    order = np.argsort(-expected)
    kept = max(1, int((expected * OUTPUTS >= 8).sum()) - 1)  # the last bin takes what is rarer: none expects under 8
    observed = np.append(counts[order[:kept]], counts[order[kept:]].sum())
    means = np.append(expected[order[:kept]], expected[order[kept:]].sum()) * OUTPUTS
    return stats.chisquare(observed, means).pvalue


@pytest.mark.parametrize("epsilon", [0.05, 0.3])
@pytest.mark.parametrize("options", [{}, {"warm": False, "refill": 8}], ids=["warm", "cold"])
def test_the_law_is_that_of_the_exponential_mechanism(small, epsilon, options):
    assert agreement(small, epsilon / 2, law(all_scores(small), epsilon / 2), **options) > 1e-3


def test_without_acceptance_the_law_is_another(small, monkeypatch):
    monkeypatch.setattr(lazy, "accepts", lambda *_: True)
    assert agreement(small, 0.15, law(all_scores(small), 0.15)) < 1e-6
    assert agreement(small, 0.025, law(all_scores(small), 0.025), warm=False) < 1e-6


def test_with_bounds_that_are_none_the_law_is_another(small):
    broken = Overstated(small.table, small.counts)
    assert agreement(broken, 0.15, law(all_scores(small), 0.15)) < 1e-6


def test_with_a_doubled_rate_the_law_is_another(small):
    assert agreement(small, 0.05, law(all_scores(small), 0.025)) < 1e-6


def test_two_candidates_in_closed_form():
    scores = table_scores([[0.7, 0.2, 0.1], [0.1, 0.3, 0.6]], [9, 6, 5])
    first, second = abs(20 * 0.7 - 9), abs(20 * 0.9 - 11)  # w_2(1) on {1}, w_1(2) on {2, 3}
    weights = np.exp(-0.2 * np.array([first, second]))
    assert agreement(scores, 0.2, weights / weights.sum()) > 1e-3


def test_duplicates_share_the_probability(small):
    doubled = table_scores(np.concatenate([small.table[:4], small.table[:2]]), small.counts)
    expected = law(all_scores(doubled), 0.1)
    assert expected[0] == expected[4]
    assert agreement(doubled, 0.1, expected) > 1e-3


def test_limits_of_the_budget(small):
    noise, best = SeededNoise(6), int(np.argmin(all_scores(small)))
    assert {lazy_exponential(small, 1e9, noise)[0] for _ in range(20)} == {best}
    assert agreement(small, 0.0, np.full(40, 1 / 40)) > 1e-3


def test_bounds_never_pass_the_scores(small, monkeypatch):
    exact, seen, true = all_scores(small), [], lazy.propose

    def watched(bounds, rate, noise):
        seen.append(bounds.copy())
        return true(bounds, rate, noise)

    monkeypatch.setattr(lazy, "propose", watched)
    for seed in range(20):
        lazy_exponential(small, 0.3, SeededNoise(seed), warm=seed % 2 == 0)
    assert len(seen) > 40
    assert (np.array(seen) <= exact).all()


def test_no_candidate_is_scored_twice_and_never_more_than_all():
    rng = np.random.default_rng(8)
    scores = table_scores(equidistant(30, rng), rng.multinomial(5000, np.full(256, 1 / 256)))
    most = 0
    for seed in range(20):
        _, done = lazy_exponential(scores, 5.0, SeededNoise(seed))
        assert len(set(done.rows)) == len(done.rows) <= 30
        assert done.pair_evaluations == 30 * (len(done.rows) + len(done.columns) + 1)
        most = max(most, len(done.rows))
    assert most > 5  # the family is hard: nobody fits


def test_a_list_with_one_right_candidate_takes_few_rows():
    rng = np.random.default_rng(9)
    table = random_mixtures(3000, rng)
    scores = table_scores(table, rng.multinomial(5000, table[17]))
    for warm, most in ((True, 30), (False, 60)):
        chosen, done = lazy_exponential(scores, 0.5, SeededNoise(1), warm=warm)
        assert done.pair_evaluations <= most * 3000
        assert np.abs(table[chosen] - table[17]).sum() / 2 < 0.05


def test_padding_makes_short_runs_as_long_as_asked(small):
    calls = []

    class Counted(TableScores):
        def row(self, j):
            calls.append(j)
            return super().row(j)

    counted = Counted(small.table, small.counts)
    plain, done = lazy_exponential(counted, 0.1, SeededNoise(2))
    calls.clear()
    padded, _ = lazy_exponential(counted, 0.1, SeededNoise(2), least_evaluations=35)
    assert padded == plain
    assert len(calls) + len(done.columns) == 35


def test_a_single_candidate_is_chosen():
    assert lazy_exponential(table_scores([[0.4, 0.6]], [3, 4]), 1.0, SeededNoise(0))[0] == 0
