"""Cycles, winners, Smith sets and rewards against closed forms, brute force and relabelling."""

import itertools

import numpy as np
import pytest

from workingpapers.foundations.errors import InputError
from workingpapers.preferences.condorcet_nash import (
    check_preferences,
    diagnose,
    votes_from_rankings,
    win_rates,
    wins_from_votes,
)
from workingpapers.preferences.condorcet_nash.tournament import (
    condorcet_winners,
    count_three_cycles,
    cyclic_tournaments,
    smith_members,
)

PAPER_SCISSORS = np.array([[0.5, 1, 0], [0, 0.5, 1], [1, 0, 0.5]])
BORDA_EXAMPLE = np.array([[0.5, 0.6, 0.6], [0.4, 0.5, 1.0], [0.4, 0.0, 0.5]])


def random_tournament(n, rng):
    margin = np.triu(rng.uniform(0.01, 0.5, (n, n)) * rng.choice([-1, 1], (n, n)), 1)
    return 0.5 + margin - margin.T


def test_rock_paper_scissors_is_one_cycle_without_a_reward():
    found = diagnose(PAPER_SCISSORS)
    assert found.cycle.responses == (0, 1, 2)
    assert found.cycle.edges == ((0, 1), (1, 2), (2, 0))
    assert found.cycle.margin == 0.5
    assert found.three_cycles == 1
    assert not found.representable
    assert found.reward is None
    assert found.winner is None
    assert found.smith_set == (0, 1, 2)


def test_bradley_terry_preferences_have_their_weights_as_reward():
    weights = np.array([0.7, 3.0, 1.1, 0.2, 2.4])
    found = diagnose(weights[:, None] / (weights[:, None] + weights))
    assert not found.has_cycle
    assert found.winner == 1
    assert found.smith_set == (1,)
    assert np.array_equal(np.argsort(found.reward), np.argsort(weights))


def test_condorcet_winner_of_the_example_where_borda_disagrees():
    found = diagnose(BORDA_EXAMPLE)
    assert found.winner == 0
    assert found.representable
    assert np.allclose(BORDA_EXAMPLE.sum(axis=1) - 0.5, (1.2, 1.4, 0.4))


def test_number_of_three_cycles_equals_brute_force_and_the_score_formula():
    rng = np.random.default_rng(0)
    for _ in range(200):
        beats = random_tournament(7, rng) > 0.5
        brute = sum(
            (beats[a, b] and beats[b, c] and beats[c, a]) or (beats[a, c] and beats[c, b] and beats[b, a])
            for a, b, c in itertools.combinations(range(7), 3)
        )
        scores = beats.sum(axis=1)
        assert count_three_cycles(beats) == brute == 35 - (scores * (scores - 1) // 2).sum()


def weak_order_exists(p):
    """Try every assignment of levels: the definition of representability."""
    n = len(p)
    known = ~np.isnan(p)
    for levels in itertools.product(range(n), repeat=n):
        r = np.array(levels)
        if ((r[:, None] > r[None, :]) == (p > 0.5))[known].all():
            return True
    return False


def test_representable_means_that_a_reward_exists_also_with_ties_and_gaps():
    rng = np.random.default_rng(1)
    seen = set()
    for _ in range(300):
        n = int(rng.integers(3, 5))
        upper = np.triu(rng.choice([0.0, 0.3, -0.3, np.nan], (n, n), p=(0.3, 0.3, 0.3, 0.1)), 1)
        p = 0.5 + upper - upper.T
        found = diagnose(p)
        assert found.representable == weak_order_exists(p)
        seen.add((found.representable, found.has_cycle))
        if found.representable:
            known = ~np.isnan(p)
            assert ((found.reward[:, None] > found.reward[None, :]) == (p > 0.5))[known].all()
    assert seen == {(True, False), (False, False), (False, True)}


def smallest_dominant_set(p):
    for size in range(1, len(p) + 1):
        for members in itertools.combinations(range(len(p)), size):
            outside = [j for j in range(len(p)) if j not in members]
            if all(p[i, j] > 0.5 for i in members for j in outside):
                return members
    raise AssertionError


def widest_by_enumeration(p):
    best = 0.0
    for size in range(3, len(p) + 1):
        for order in itertools.permutations(range(len(p)), size):
            best = max(best, min(p[i, j] for i, j in zip(order, (*order[1:], order[0]), strict=True)) - 0.5)
    return best


def test_smith_set_widest_cycle_and_batched_forms_equal_enumeration():
    rng = np.random.default_rng(2)
    stack = np.array([random_tournament(5, rng) for _ in range(120)])
    for p, cyclic, members, winner in zip(
        stack,
        cyclic_tournaments(stack > 0.5),
        smith_members(stack > 0.5),
        condorcet_winners(stack > 0.5),
        strict=True,
    ):
        found = diagnose(p)
        widest = widest_by_enumeration(p)
        assert found.has_cycle == cyclic == (widest > 0)
        if cyclic:
            assert found.cycle.margin == pytest.approx(widest)
            assert min(p[i, j] for i, j in found.cycle.edges) - 0.5 == pytest.approx(widest)
        assert found.smith_set == smallest_dominant_set(p) == tuple(np.flatnonzero(members))
        assert (found.winner if found.winner is not None else -1) == winner


def test_smith_set_with_ties_equals_enumeration():
    rng = np.random.default_rng(3)
    for _ in range(100):
        upper = np.triu(rng.choice([0.0, 0.3, -0.3], (4, 4)), 1)
        p = 0.5 + upper - upper.T
        assert diagnose(p).smith_set == smallest_dominant_set(p)


def test_relabelling_moves_cycle_winner_and_smith_set_along():
    p = np.full((5, 5), 0.5)
    for i, j, share in ((0, 1, 0.9), (1, 2, 0.8), (2, 0, 0.7), (3, 4, 0.6)):
        p[i, j], p[j, i] = share, 1 - share
    p[:3, 3:], p[3:, :3] = 0.65, 0.35
    order = np.array([3, 1, 4, 0, 2])  # new number of old response k is where[k]
    where = np.argsort(order)
    found, moved = diagnose(p), diagnose(p[np.ix_(order, order)])
    assert set(moved.smith_set) == {where[i] for i in found.smith_set} == {where[0], where[1], where[2]}
    assert set(moved.cycle.edges) == {(where[i], where[j]) for i, j in found.cycle.edges}
    assert moved.cycle.margin == found.cycle.margin


@pytest.mark.parametrize(
    ("matrix", "words"),
    [
        (np.full((2, 3), 0.5), "shape (2, 3)"),
        (np.full((1, 1), 0.5), "shape (1, 1)"),
        ([[0.5, 0.7], [0.2, 0.5]], "P[0,1] + P[1,0] = 0.9"),
        ([[0.5, 1.4], [-0.4, 0.5]], "A preference is -0.4"),
        ([[0.5, np.nan], [np.nan, 0.5]], "0 and 1 were never compared"),
        ([[0.5, np.nan], [0.4, 0.5]], "give both or neither"),
    ],
)
def test_matrices_that_are_none_are_refused(matrix, words):
    with pytest.raises(InputError, match=r".") as caught:
        check_preferences(np.array(matrix), missing="both" in words)
    assert words in str(caught.value)


def test_a_zero_diagonal_is_refused_or_mended_on_demand():
    zero = PAPER_SCISSORS.copy()
    np.fill_diagonal(zero, 0.0)
    with pytest.raises(InputError, match="diagonal holds 0"):
        check_preferences(zero)
    assert np.array_equal(check_preferences(zero, diagonal="half"), PAPER_SCISSORS)


def test_votes_and_wins_of_rankings():
    votes = votes_from_rankings([[2, 0, 1], [0, 2]], 3)
    assert votes[0, 2, 0] == votes[0, 2, 1] == votes[0, 0, 1] == 1
    assert votes[1, 0, 2] == 1
    assert np.isnan(votes[1, 1, 0])
    wins = wins_from_votes(votes)
    assert wins.tolist() == [[0, 1, 1], [0, 0, 0], [1, 1, 0]]
    rates = win_rates(wins)
    assert rates[0, 2] == 0.5
    assert rates[0, 1] == 1
    assert np.isnan(win_rates(np.array([[0, 1, 0], [0, 0, 0], [0, 0, 0]]))[1, 2])
    assert win_rates(np.zeros((2, 2)), empty="half")[0, 1] == 0.5
    with pytest.raises(InputError, match="never compared"):
        win_rates(np.zeros((2, 2)), empty="refuse")


@pytest.mark.parametrize(
    ("rankings", "words"), [([[0, 1, 0]], "repeats"), ([[0, 3]], "names 3"), ([], "none"), ([[]], "empty ranking")]
)
def test_rankings_that_are_none_are_refused(rankings, words):
    with pytest.raises(InputError, match=words):
        votes_from_rankings(rankings, 3)


def test_negative_wins_are_refused():
    with pytest.raises(InputError, match=r"wins\[1,0\] is -2"):
        win_rates(np.array([[0, 1], [-2, 0]]))
