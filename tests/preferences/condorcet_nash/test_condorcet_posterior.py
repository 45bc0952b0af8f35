"""What finite data say: certificates, posteriors, the fit of the reward."""

import math

import numpy as np
import pytest
from scipy.stats import binom

from workingpapers.foundations.errors import InputError
from workingpapers.foundations.progress import silent
from workingpapers.preferences.condorcet_nash import (
    certified_cycle,
    curl_share,
    edge_posterior,
    fit_reward,
    panel_posterior,
    votes_from_rankings,
)
from workingpapers.preferences.condorcet_nash.experiments import by_certificate, by_counts, false_cycles

PAPER_SCISSORS = np.array([[0.5, 1, 0], [0, 0.5, 1], [1, 0, 0.5]])


def cycle_wins(games, share):
    p = np.array([[0.5, share, 1 - share], [1 - share, 0.5, share], [share, 1 - share, 0.5]])
    return games * (p - 0.5 * np.eye(3))


def test_endless_comparisons_leave_no_doubt():
    rng = np.random.default_rng(0)
    found = edge_posterior(cycle_wins(10**6, 0.6), rng=rng, draws=200, policies=5)
    assert found.cycle == 1
    assert found.winner.tolist() == [0, 0, 0]
    assert found.smith.tolist() == [1, 1, 1]
    assert found.policy == pytest.approx(np.full(3, 1 / 3), abs=0.02)
    transitive = 10**6 * np.array([[0, 0.6, 0.6], [0.4, 0, 0.6], [0.4, 0.4, 0]])
    found = edge_posterior(transitive, rng=rng, draws=200, policies=5)
    assert found.cycle == 0
    assert found.winner.tolist() == [1, 0, 0]
    assert found.smith.tolist() == [1, 0, 0]
    assert found.policy.tolist() == found.low.tolist() == [1, 0, 0]


def test_without_data_the_posterior_is_a_random_tournament():
    found = edge_posterior(np.zeros((3, 3)), rng=np.random.default_rng(1), draws=20_000, policies=1)
    error = math.sqrt(0.25 * 0.75 / 20_000)
    assert abs(found.cycle - 0.25) < 4 * error
    assert found.winner == pytest.approx(np.full(3, 0.25), abs=4 * error)
    assert found.smith == pytest.approx(np.full(3, 0.5), abs=4 * error)
    assert "independent" in found.assumption


def test_interval_of_a_known_posterior():
    # Two responses: the Nash policy is all or nothing, and P01 > 1/2 has the probability of a beta tail.
    from scipy.stats import beta

    found = edge_posterior(np.array([[0, 7], [3, 0]]), rng=np.random.default_rng(2), draws=20_000, policies=20)
    assert found.winner[0] == pytest.approx(beta.sf(0.5, 7.5, 3.5), abs=0.012)
    assert set(found.policy) <= {0.0, 1.0}


def test_panel_of_the_paradox_is_cyclic_in_a_quarter_of_populations():
    # Three labelers with Dirichlet weights: the cycle stands unless one of them has a majority, and each has one with
    # probability (1/2)^2.
    votes = votes_from_rankings([[0, 1, 2], [1, 2, 0], [2, 0, 1]])
    found = panel_posterior(votes, rng=np.random.default_rng(3), draws=20_000, policies=5)
    assert abs(found.cycle - 0.25) < 4 * math.sqrt(0.25 * 0.75 / 20_000)
    assert found.winner == pytest.approx(np.full(3, 0.25), abs=0.015)


def test_panel_that_agrees_has_no_cycle_whatever_its_size():
    votes = votes_from_rankings([[2, 0, 1]] * 2)
    found = panel_posterior(votes, rng=np.random.default_rng(4), draws=100, policies=5)
    assert found.cycle == 0
    assert found.winner.tolist() == [0, 0, 1]


def test_panel_with_a_tie_of_all_has_no_winner_among_the_tied():
    votes = votes_from_rankings([[0, 1, 2], [0, 1, 2]])
    votes[:, 0, 1] = votes[:, 1, 0] = 0.5
    found = panel_posterior(votes, rng=np.random.default_rng(5), draws=50, policies=5)
    assert found.cycle == 0
    assert found.winner.tolist() == [0, 0, 0]
    assert found.smith.tolist() == [1, 1, 0]
    assert found.policy == pytest.approx([0.5, 0.5, 0.0], abs=1e-6)


@pytest.mark.parametrize("games", [16, 25, 40, 61, 100, 301])
@pytest.mark.parametrize("alpha", [0.01, 0.05, 0.2])
def test_certificate_turns_at_the_exact_binomial_bound(games, alpha):
    # Six tests (three pairs, two directions): the cycle is certified from the smallest win count w with
    # P(Binomial(games, 1/2) >= w) <= alpha / 6.
    least = next(w for w in range(games + 1) if binom.sf(w - 1, games, 0.5) <= alpha / 6)
    enough, short = cycle_wins(games, least / games), cycle_wins(games, (least - 1) / games)
    assert certified_cycle(enough, alpha).responses == (0, 1, 2)
    assert certified_cycle(enough, alpha).margin == pytest.approx(least / games - 0.5)
    assert certified_cycle(short, alpha) is None
    weak = enough.copy()
    weak[2, 0], weak[0, 2] = games // 2 + 1, games - games // 2 - 1
    assert certified_cycle(weak, alpha) is None


def test_pairs_never_compared_certify_nothing():
    wins = cycle_wins(1000, 0.9)
    wins[2, 0] = wins[0, 2] = 0
    assert certified_cycle(wins) is None
    assert certified_cycle(np.zeros((3, 3))) is None


def test_certificate_is_rarely_wrong_in_a_population_of_ties():
    # All pairs tie: any certified cycle is false, and many are seen in the counts.
    rng = np.random.default_rng(6)
    wrong = 0
    for _ in range(300):
        wins = np.triu(rng.binomial(30, 0.5, (4, 4)), 1).astype(float)
        wins += np.tril(30 - wins.T, -1)
        wrong += certified_cycle(wins, alpha=0.5) is not None
    assert wrong / 300 < 0.5


def test_counts_see_cycles_that_are_not_there_and_the_certificate_finds_those_that_are():
    naive = false_cycles(0, silent, report=by_counts, profiles=300, comparisons=20)
    sure = false_cycles(0, silent, report=by_certificate, profiles=300, comparisons=20)
    assert naive["false"] >= 0.3
    assert sure["false"] <= 0.05
    assert sure["power"] >= 0.95
    assert naive["acyclic"] == sure["acyclic"] > 100


def test_curl_share_of_rewards_is_zero_and_of_rock_paper_scissors_one():
    weights = np.array([0.7, 3.0, 1.1, 0.2])
    assert curl_share(weights[:, None] / (weights[:, None] + weights)) < 1e-10
    assert curl_share(PAPER_SCISSORS) == pytest.approx(1)
    assert curl_share(np.full((3, 3), 0.5)) == 0
    unknown = PAPER_SCISSORS.copy()
    unknown[0, 1] = unknown[1, 0] = np.nan
    assert curl_share(unknown) < 1e-10  # two pairs of three are a tree


def test_deviance_by_hand():
    # A cycle of three with equal margins has equal rewards: 12 games a pair, 9 to 3, expected 6 to 6.
    found = fit_reward(cycle_wins(12, 0.75), rng=np.random.default_rng(7))
    assert found.strengths == pytest.approx(np.zeros(3), abs=1e-8)
    assert found.deviance == pytest.approx(2 * 3 * (9 * math.log(1.5) + 3 * math.log(0.5)))
    assert found.degrees == 1
    assert not found.bootstrapped
    assert found.p_value == pytest.approx(math.erfc(math.sqrt(found.deviance / 2)))
    assert found.curl_share == pytest.approx(1)


def test_bootstrap_of_small_counts_is_about_the_chi_square_of_the_same_data():
    rng = np.random.default_rng(8)
    found = fit_reward(cycle_wins(8, 0.75), rng=rng, replicates=400)
    assert found.bootstrapped
    # Exact: the deviance of three binomials of 8 around equal rewards is at least the observed one when the curl
    # |k01 + k12 + k20 - 12| is 6 or more, up to differences of order 1 / 8 between the two.
    assert found.p_value == pytest.approx(2 * binom.sf(17, 24, 0.5), abs=0.03)


def test_p_values_are_uniform_where_the_reward_is_right():
    rng = np.random.default_rng(9)
    strengths = np.array([0.0, 0.4, -0.3, 0.8, 0.1])
    p = 1 / (1 + np.exp(strengths[None, :] - strengths[:, None]))
    values = []
    for _ in range(200):
        wins = np.triu(rng.binomial(60, p), 1).astype(float)
        wins += np.tril(60 - wins.T, -1)
        values.append(fit_reward(wins, rng=rng).p_value)
    from scipy.stats import kstest

    assert kstest(values, "uniform").pvalue > 1e-3


def test_never_compared_and_unbeaten_responses_need_a_weak_prior():
    wins = np.array([[0, 5, 0, 0], [0, 0, 0, 0], [0, 0, 0, 3], [0, 0, 2, 0]])
    found = fit_reward(wins, rng=np.random.default_rng(10))
    assert found.prior
    assert found.degrees == 0
    assert found.p_value is None
    assert found.strengths[0] > found.strengths[1]
    assert not fit_reward(cycle_wins(12, 0.75), rng=np.random.default_rng(0)).prior


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda rng: certified_cycle(np.ones((3, 3)), alpha=1.0), "alpha is 1"),
        (lambda rng: edge_posterior(np.ones((3, 3)), rng=rng, draws=0), "draws is 0"),
        (lambda rng: panel_posterior(np.full((1, 3, 3), 0.5), rng=rng), r"shape \(1, 3, 3\)"),
        (lambda rng: panel_posterior(votes_from_rankings([[0, 1, 2], [0, 1]], 3), rng=rng), "Labeler 1"),
        (lambda rng: edge_posterior(-np.ones((3, 3)), rng=rng), "is -1"),
        (lambda rng: fit_reward(np.zeros((3, 3)), rng=rng), "no games"),
    ],
)
def test_bad_input_is_one_sentence(call, words):
    with pytest.raises(InputError, match=words):
        call(np.random.default_rng(0))
