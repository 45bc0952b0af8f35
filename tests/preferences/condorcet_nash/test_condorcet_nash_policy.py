"""The Nash policy: closed forms, the mixed-iff theorem, uniqueness, and agreement between solvers."""

import numpy as np
import pytest

from workingpapers.foundations.errors import InputError
from workingpapers.preferences.condorcet_nash import (
    diagnose,
    nash_md,
    nash_policy,
    regularised_policy,
    self_play,
    worst_case_win_rate,
)
from workingpapers.preferences.condorcet_nash.game import effective_size
from workingpapers.preferences.condorcet_nash.luce import majority_shares
from workingpapers.preferences.condorcet_nash.reward import fit_strengths

PAPER_SCISSORS = np.array([[0.5, 1, 0], [0, 0.5, 1], [1, 0, 0.5]])
BORDA_EXAMPLE = np.array([[0.5, 0.6, 0.6], [0.4, 0.5, 1.0], [0.4, 0.0, 0.5]])


def three_cycle(a, b, c):
    return np.array([[0.5, 0.5 + a, 0.5 - c], [0.5 - a, 0.5, 0.5 + b], [0.5 + c, 0.5 - b, 0.5]])


def impartial(seed, profiles, labelers, responses):
    return majority_shares(np.random.default_rng(seed).random((profiles, labelers, responses)))


def test_rock_paper_scissors_is_uniform_with_value_one_half():
    found = nash_policy(PAPER_SCISSORS)
    assert found.policy == pytest.approx(np.full(3, 1 / 3), abs=1e-12)
    assert found.worst_case_win_rate == pytest.approx(0.5, abs=1e-12)
    assert found.unique
    assert found.effective_size == pytest.approx(3)


@pytest.mark.parametrize(("a", "b", "c"), [(0.1, 0.2, 0.3), (0.5, 0.01, 0.2), (0.05, 0.05, 0.4)])
def test_a_cycle_of_three_has_the_opposite_margins_as_weights(a, b, c):
    assert nash_policy(three_cycle(a, b, c)).policy == pytest.approx(np.array([b, c, a]) / (a + b + c), abs=1e-12)


def test_bradley_terry_preferences_give_the_strongest_response():
    weights = np.array([0.7, 3.0, 1.1, 0.2])
    found = nash_policy(weights[:, None] / (weights[:, None] + weights))
    assert found.policy.tolist() == [0, 1, 0, 0]
    assert not found.mixed


def test_condorcet_winner_where_borda_and_bradley_terry_prefer_another():
    assert nash_policy(BORDA_EXAMPLE).policy.tolist() == [1, 0, 0]
    strengths, prior = fit_strengths(BORDA_EXAMPLE)
    assert not prior
    assert int(np.argmax(strengths)) == int(np.argmax(BORDA_EXAMPLE.sum(axis=1))) == 1


@pytest.fixture(scope="module")
def solved():
    """300 impartial games with their diagnosis and solution, 200 of them of 20 responses."""
    games = [p for n, profiles in ((5, 50), (12, 50), (20, 200)) for p in impartial(n, profiles, 5, n)]
    return [(p, diagnose(p), nash_policy(p)) for p in games]


def test_policy_is_mixed_exactly_without_a_winner_and_lives_on_an_odd_part_of_the_smith_set(solved):
    mixed = 0
    for _, diagnosis, found in solved:
        assert found.mixed == (diagnosis.winner is None)
        assert set(found.support) <= set(diagnosis.smith_set)
        assert len(found.support) % 2 == 1
        assert found.unique
        assert found.worst_case_win_rate >= 0.5 - 1e-8
        if diagnosis.winner is not None:
            assert found.support == (diagnosis.winner,)
        mixed += found.mixed
    assert 60 < mixed < 240  # both cases were met


def test_reward_maximisation_is_beaten_and_nash_keeps_several_responses_without_a_winner(solved):
    worst, sizes = [], []
    for p, _, _ in solved[100:200]:
        best = np.zeros(20)
        best[np.argmax(fit_strengths(p)[0])] = 1
        worst.append(worst_case_win_rate(best, p))
    for _, _, found in solved[100:]:
        if found.mixed:
            sizes.append(found.effective_size)
    assert np.mean(worst) <= 0.46
    assert np.mean(sizes) >= 2.5


def test_policy_moves_with_relabelling_also_where_it_is_not_unique():
    rng = np.random.default_rng(0)
    several = 0
    for labelers in (5, 4):
        for p in impartial(labelers, 25, labelers, 9):
            found = nash_policy(p)
            order = rng.permutation(9)
            assert nash_policy(p[np.ix_(order, order)]).policy == pytest.approx(found.policy[order], abs=1e-6)
            several += not found.unique
    assert several > 3


def test_a_clone_shares_the_mass_of_its_original():
    p = three_cycle(0.1, 0.2, 0.3)
    cloned = p[np.ix_([0, 1, 2, 0], [0, 1, 2, 0])]
    found = nash_policy(cloned)
    assert not found.unique
    assert found.policy[[0, 3]].sum() == pytest.approx(nash_policy(p).policy[0], abs=1e-9)
    # Largest entropy splits the clones evenly.
    assert found.policy[0] == pytest.approx(found.policy[3], abs=1e-7)


def test_all_ties_give_the_uniform_policy():
    found = nash_policy(np.full((4, 4), 0.5))
    assert found.policy == pytest.approx(np.full(4, 0.25), abs=1e-9)
    assert not found.unique


def test_non_unique_solution_is_the_limit_of_vanishing_regularisation():
    several = 0
    for p in impartial(2, 25, 2, 7):
        found = nash_policy(p)
        assert found.exploitability < 1e-6
        if not found.unique:
            several += 1
            assert regularised_policy(p, 1e-4).policy == pytest.approx(found.policy, abs=0.01)
    assert several > 4


def test_unknown_pairs_and_zero_diagonals_are_refused():
    p = PAPER_SCISSORS.copy()
    p[0, 1] = p[1, 0] = np.nan
    with pytest.raises(InputError, match="never compared"):
        nash_policy(p)
    zero = PAPER_SCISSORS - 0.5 * np.eye(3)
    for solve in (nash_policy, self_play, lambda q: regularised_policy(q, 0.1), lambda q: nash_md(q, 0.1)):
        with pytest.raises(InputError, match="diagonal"):
            solve(zero)


def test_regularised_policy_is_the_fixed_point():
    rng = np.random.default_rng(1)
    for p in impartial(3, 10, 5, 20):
        reference = rng.dirichlet(np.ones(20)) * 0.9 + 0.005
        for tau in (10.0, 1.0, 0.1, 0.02):
            pi = regularised_policy(p, tau, reference).policy
            logits = np.log(reference) + p @ pi / tau
            expected = np.exp(logits - logits.max())
            assert np.abs(pi - expected / expected.sum()).max() < 1e-10


def test_strong_regularisation_returns_the_reference():
    reference = np.array([0.2, 0.5, 0.3])
    assert regularised_policy(PAPER_SCISSORS, 1e6, reference).policy == pytest.approx(reference, abs=1e-5)


def test_less_regularisation_moves_away_from_uniform_and_is_exploited_less():
    for p in impartial(4, 20, 5, 20):
        path = [regularised_policy(p, tau) for tau in (10.0, 1.0, 0.1, 0.02)]
        distance = [np.log(20) - np.log(effective_size(found.policy)) for found in path]
        assert distance == sorted(distance)
        assert [found.exploitability for found in path] == sorted((q.exploitability for q in path), reverse=True)
        assert path[-1].exploitability < 0.02


def test_two_responses_have_the_closed_form_of_a_logistic_equation():
    # pi(0) = s, log(s / (1 - s)) = (P(0 > pi) - P(1 > pi)) / tau = a / tau for a constant margin a = P01 - 1/2.
    found = regularised_policy(np.array([[0.5, 0.7], [0.3, 0.5]]), 0.25)
    assert found.policy[0] == pytest.approx(1 / (1 + np.exp(-0.2 / 0.25)), abs=1e-12)


def test_self_play_reaches_the_linear_program():
    for n, seed in ((3, 0), (20, 1), (60, 2)):
        p = impartial(seed, 1, 5, n)[0]
        found, steps = self_play(p, tolerance=1e-4)
        assert found.exploitability < 1e-4
        assert steps <= 10_000
        assert found.policy == pytest.approx(nash_policy(p).policy, abs=0.02)


def test_without_optimism_the_last_policy_circles():
    p = three_cycle(0.1, 0.2, 0.3)
    logits = np.zeros(3)
    exploited = []
    for _ in range(5000):
        pi = np.exp(logits - logits.max())
        pi /= pi.sum()
        exploited.append(0.5 - worst_case_win_rate(pi, p))
        logits = logits + 1.0 * (p @ pi)
    assert min(exploited[-1000:]) > 0.02
    assert self_play(p, rate=1.0)[0].exploitability < 1e-4


def test_nash_md_settles_where_its_constant_rate_says():
    p = impartial(6, 1, 5, 8)[0]
    tau, rate = 0.5, 0.2
    found, steps = nash_md(p, tau, rate=rate)
    assert steps < 100_000
    mixture = regularised_policy(p, tau / (1 - rate * tau)).policy
    logits = p @ mixture / tau
    expected = np.exp(logits - logits.max())
    assert found.policy == pytest.approx(expected / expected.sum(), abs=1e-8)
    bias = [np.abs(nash_md(p, tau, rate=r)[0].policy - regularised_policy(p, tau).policy).max() for r in (0.2, 0.02)]
    assert bias[1] < 0.2 * bias[0]


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda p: regularised_policy(p, 0.0), "tau is 0"),
        (lambda p: regularised_policy(p, 0.1, np.array([0.5, 0.5, 0.0])), "positive distribution"),
        (lambda p: regularised_policy(p, 0.1, np.array([0.5, 0.5])), "positive distribution"),
        (lambda p: self_play(p, rate=0.0), "rate is 0"),
        (lambda p: nash_md(p, 0.5, rate=2.0), r"rate \* tau is 1"),
        (lambda p: nash_md(p, -1.0), "tau is -1"),
    ],
)
def test_settings_out_of_range_are_refused(call, words):
    with pytest.raises(InputError, match=words):
        call(PAPER_SCISSORS)


def test_maximal_lottery_of_another_library_is_the_nash_policy():
    profiles = pytest.importorskip("pref_voting.profiles")
    methods = pytest.importorskip("pref_voting.probabilistic_methods")
    rng = np.random.default_rng(8)
    for _ in range(50):
        rankings = np.argsort(rng.random((5, 6)), axis=1)
        lottery = methods.maximal_lottery(profiles.Profile(rankings.tolist()))
        other = np.array([lottery.get(i, 0.0) if isinstance(lottery, dict) else lottery[i] for i in range(6)])
        p = majority_shares(np.argsort(rankings, axis=1)[None])[0]
        # C1 lotteries only see who wins a pair; the others see the margins, as the Nash policy does.
        assert nash_policy(p).policy == pytest.approx(other, abs=1e-5)
