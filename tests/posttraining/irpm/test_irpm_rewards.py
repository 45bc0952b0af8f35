"""Rewards between the groups of a pair: values by hand, identities, invariances and refusals."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import expit
from scipy.stats import mannwhitneyu, t
from sklearn.metrics import roc_auc_score

from workingpapers.posttraining.irpm import intergroup_rewards, intragroup_advantages
from workingpapers.posttraining.irpm.rewards import KINDS


def rewards_of(chosen, rejected, valid=None, strength=2, **options):
    """Return the rewards of one pair, chosen and rejected."""
    count = len(chosen)
    found = intergroup_rewards(
        [*chosen, *rejected], [0] * (count + len(rejected)), [0] * count + [1] * len(rejected), valid,
        strength=[strength] * (count + len(rejected)), **options,
    )  # fmt: skip
    return found[:count], found[count:]


GROUPS = st.integers(2, 6).flatmap(
    lambda count: st.tuples(*[st.lists(st.integers(0, 9), min_size=count, max_size=count)] * 2)
)


# 1, 2: by hand


def test_mean_thresholds_by_hand_and_equality_is_wrong():
    chosen, rejected = rewards_of((6, 4), (5, 3))
    assert chosen.tolist() == [1, -1]
    assert rejected.tolist() == [-1, 1]


def test_margins_by_hand():
    chosen, rejected = rewards_of((6, 8), (5, 5), kind="margin", strength=3)
    assert chosen.tolist() == [-1, 1]
    assert rejected.tolist() == [1, 1]
    chosen, rejected = rewards_of((6, 8), (6, 6), kind="margin", strength=2)
    assert (chosen.tolist(), rejected.tolist()) == ([-1, 1], [1, 1])
    # (strength - 1) / 2: strength 3 is a margin of one, as above; strength 2 of a half
    chosen, rejected = rewards_of((5.5, 5.6), (5, 5), kind="margin", strength=2, margin_base=1, margin_step=0.5)
    assert chosen.tolist() == [-1, 1]
    assert rejected.tolist() == [1, 1]
    chosen, rejected = rewards_of((5.4, 5.4), (5, 5), kind="margin", strength=2, margin_base=1, margin_step=0.5)
    assert rejected.tolist() == [-1, -1]


def test_quantiles_by_hand():
    chosen, rejected = [1, 4, 5, 6], [0, 2, 4, 8]  # quartiles 3.25, 4.5, 5.25 and 1.5, 3, 5
    assert [side.tolist() for side in rewards_of(chosen, rejected, kind="quantile")] == [[-1, 1, 1, 1], [1, 1, 1, -1]]
    strict = rewards_of(chosen, rejected, kind="quantile", quantile=0.75)
    assert [side.tolist() for side in strict] == [[-1, -1, -1, 1], [1, 1, -1, -1]]
    lenient = rewards_of(chosen, rejected, kind="quantile", quantile=0.25)
    assert [side.tolist() for side in lenient] == [[-1, 1, 1, 1], [1, 1, 1, -1]]
    assert rewards_of([1, 1, 1, 5], [1.4, 2, 2, 9], kind="quantile", quantile=0.25)[1].tolist() == [1, -1, -1, -1]


def test_mean_and_median_are_averaged():
    # mean 3, median 1, half way 2
    assert rewards_of([1.5, 2.5, 3.5], [1, 1, 7], kind="mean_median")[0].tolist() == [-1, 1, 1]
    assert rewards_of([1.5, 2.5, 3.5], [1, 1, 7], kind="quantile")[0].tolist() == [1, 1, 1]
    assert rewards_of([1.5, 2.5, 3.5], [1, 1, 7], kind="mean")[0].tolist() == [-1, -1, 1]


@pytest.mark.parametrize("alpha", [0.05, 0.5, 0.9])
def test_intervals_are_students(alpha):
    rejected = np.array([2.0, 3.0, 5.0, 6.0])
    low, high = t.interval(1 - alpha, 3, loc=rejected.mean(), scale=rejected.std(ddof=1) / 2)
    chosen, _ = rewards_of([high - 1e-6, high + 1e-6, low, 9], rejected, kind="interval", alpha=alpha)
    assert chosen.tolist() == [-1, 1, -1, 1]
    _, turned = rewards_of(10 - rejected, [10 - high + 1e-6, 10 - high - 1e-6, 10 - low, 1], kind="interval",
                           alpha=alpha)  # fmt: skip
    assert turned.tolist() == [-1, 1, -1, 1]


def test_dead_zone_by_hand():
    chosen, rejected = rewards_of([5.1, 5.3, 4.9, 4.7], [5, 5, 5, 5], kind="dead_zone")
    assert chosen.tolist() == [0, 1, 0, -1]
    assert rejected.tolist() == [0, 0, 0, 0]
    assert rewards_of([5.0], [4.7], kind="dead_zone")[1].tolist() == [1]


# 3, 9: identities


@given(GROUPS)
@settings(deadline=None)
def test_win_rates_of_both_roles_have_one_mean_and_turn_round(groups):
    chosen, rejected = rewards_of(*groups, kind="win_rate")
    everything = expit(np.subtract.outer(np.array(groups[0]), np.array(groups[1]))).mean()
    assert chosen.mean() == pytest.approx(everything, abs=1e-12)
    assert rejected.mean() == pytest.approx(everything, abs=1e-12)
    other_chosen, other_rejected = rewards_of(groups[1], groups[0], kind="win_rate")
    np.testing.assert_allclose(other_rejected, 1 - chosen, atol=1e-12)
    np.testing.assert_allclose(other_chosen, 1 - rejected, atol=1e-12)


def test_win_rate_by_hand():
    chosen, rejected = rewards_of([2.0], [0.0], kind="win_rate", scale=2.0)
    assert chosen[0] == pytest.approx(1 / (1 + np.exp(-1)))
    assert rejected[0] == pytest.approx(1 / (1 + np.exp(-1)))


@given(GROUPS)
@settings(deadline=None)
def test_auc_is_mann_whitney_and_ties_are_what_is_lost(groups):
    chosen, rejected = rewards_of(*groups, kind="auc")
    ties = np.equal.outer(*map(np.array, groups))
    both = mannwhitneyu(*groups).statistic / ties.size
    assert chosen.mean() == pytest.approx(both - ties.mean() / 2, abs=1e-12)
    assert rejected.mean() == pytest.approx(both - ties.mean() / 2, abs=1e-12)
    turned = rewards_of(groups[1], groups[0], kind="auc")[1]
    np.testing.assert_allclose(chosen + turned, 1 - ties.mean(axis=1), atol=1e-12)
    if not ties.any():
        area = roc_auc_score([1] * len(groups[0]) + [0] * len(groups[1]), [*groups[0], *groups[1]])
        assert (chosen.mean() + rejected.mean()) / 2 == pytest.approx(area, abs=1e-12)


def test_auc_without_ties_is_the_area_under_the_curve():
    source = np.random.default_rng(0)
    groups = source.permutation(100)[:12].reshape(2, 6) / 10
    chosen, rejected = rewards_of(*groups, kind="auc")
    area = roc_auc_score([1] * 6 + [0] * 6, groups.ravel())
    assert 0 < area < 1
    assert (chosen.mean() + rejected.mean()) / 2 == pytest.approx(area, abs=1e-12)


# 4: the collapse that strictness prevents


@pytest.mark.parametrize("value", [5, 0.1, 10])
@pytest.mark.parametrize("kind", ["mean", "margin", "quantile", "mean_median", "interval"])
def test_equal_scores_earn_nothing_and_move_nothing(kind, value):
    chosen, rejected = rewards_of([value] * 3, [value] * 3, kind=kind)
    assert chosen.tolist() == [-1] * 3
    assert rejected.tolist() == [-1] * 3
    advantages = intragroup_advantages([*chosen, *rejected], [0] * 6, [0] * 3 + [1] * 3)
    assert advantages.tolist() == [0] * 6


# 5: unparsable judgements


@given(st.lists(st.integers(0, 10), min_size=3, max_size=3), st.sampled_from(["mean", "margin"]), st.integers(2, 3))
@settings(deadline=None)
def test_an_unparsable_judgement_is_always_wrong(others, kind, strength):
    for bad in (10.5, -1.0, np.nan, 7.0):  # 7 is marked as unparsable, the rest is out of range
        chosen, _ = rewards_of([bad, 5, 5], others, [bad != 7.0] + [True] * 5, kind=kind, strength=strength)
        assert chosen[0] == -1.5
        _, rejected = rewards_of(others, [5, bad, 5], [True] * 4 + [bad != 7.0, True], kind=kind, strength=strength)
        assert rejected[1] == -1.5


def test_weak_preferences_have_a_negative_margin_so_that_garbage_may_pass():
    assert rewards_of([np.nan], [0.5], kind="margin", strength=1)[0].tolist() == [0.5]


def test_a_substituted_score_moves_the_other_threshold_unless_left_out():
    plain = rewards_of([6, np.nan], [4, 4])  # mean of chosen is 3 with the substitute
    assert plain[1].tolist() == [-1, -1]
    kept = rewards_of([6, np.nan], [4, 4], exclude_invalid_from_threshold=True)
    assert kept[1].tolist() == [1, 1]
    assert kept[0].tolist() == [1, -1.5]
    assert rewards_of([np.nan, np.nan], [0, 0], exclude_invalid_from_threshold=True)[1].tolist() == [-1, -1]


def test_overlong_judgements_lose_the_penalty():
    found = intergroup_rewards([6, 4], [0, 0], [0, 1], overlong=[True, False], format_penalty=0.25)
    assert found.tolist() == [0.75, 1.0]


def test_other_ranges():
    assert intergroup_rewards([0.5, 9], [0, 0], [0, 1], low=0, high=1).tolist() == [-1, -1.5]
    assert intergroup_rewards([3, 2], [0, 0], [0, 1], low=1, high=5).tolist() == [1, 1]


# 6: invariances


@given(GROUPS, st.sampled_from(KINDS))
@settings(deadline=None)
def test_a_common_shift_changes_nothing(groups, kind):
    shifted = [[value + 1 for value in group] for group in groups]
    np.testing.assert_allclose(rewards_of(*shifted, kind=kind), rewards_of(*groups, kind=kind), atol=1e-12)


@given(GROUPS.filter(lambda groups: len(groups[0]) % 2 == 1))
@settings(deadline=None)
def test_median_and_auc_see_only_the_order(groups):
    squares = [[value**2 / 10 for value in group] for group in groups]
    for kind in ("auc", "quantile"):
        np.testing.assert_array_equal(rewards_of(*squares, kind=kind), rewards_of(*groups, kind=kind))


def test_the_mean_sees_more_than_the_order():
    groups = ([5, 5, 5], [0, 4, 8])  # means 5 against 4; squared 25 against 26.7
    squares = [[value**2 / 10 for value in group] for group in groups]
    assert rewards_of(*groups)[0].tolist() == [1, 1, 1]
    assert rewards_of(*squares)[0].tolist() == [-1, -1, -1]


# 7: one judgement


@given(st.integers(0, 10), st.integers(0, 10))
@settings(deadline=None)
def test_one_judgement_a_response_is_the_sign_of_bradley_terry(first, second):
    chosen, rejected = rewards_of([first], [second])
    expected = 1 if first > second else -1
    assert (chosen[0], rejected[0]) == (expected, expected)


# 8: bookkeeping


@pytest.mark.parametrize("kind", KINDS)
def test_rows_may_stand_in_any_order(kind):
    source = np.random.default_rng(1)
    pairs, roles = np.repeat(np.arange(5), 8), np.tile(np.repeat([0, 1], 4), 5)
    scores, valid = source.integers(0, 11, 40).astype(float), source.random(40) > 0.1
    strength = np.repeat(source.integers(1, 4, 5), 8)
    rewards = intergroup_rewards(scores, pairs, roles, valid, kind=kind, strength=strength)
    order = source.permutation(40)
    again = intergroup_rewards(scores[order], pairs[order], roles[order], valid[order], kind=kind,
                               strength=strength[order])  # fmt: skip
    np.testing.assert_allclose(again, rewards[order], atol=1e-12)
    alone = intergroup_rewards(scores[8:16], ["b"] * 8, roles[8:16], valid[8:16], kind=kind, strength=strength[8:16])
    np.testing.assert_allclose(alone, rewards[8:16], atol=1e-12)
    advantages = intragroup_advantages(rewards, pairs, roles)
    np.testing.assert_allclose(intragroup_advantages(rewards[order], pairs[order], roles[order]), advantages[order])


def test_advantages_are_normalised_in_each_responses_own_group():
    rewards = [1.0, -1, -1, -1, 1, 1, 1, 1]
    found = intragroup_advantages(rewards, [3] * 8, [0] * 4 + [1] * 4)
    assert found[:4] == pytest.approx([1.5, -0.5, -0.5, -0.5], abs=1e-5)  # deviation 1, mean -0.5
    assert found[4:].tolist() == [0, 0, 0, 0]
    with pytest.raises(ValueError, match="two or more"):
        intragroup_advantages([1, 1], [0, 0], [0, 1])


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"roles": [0, 0, 0, 0]}, "Pair 0 has no rejected"),
        ({"roles": [1, 1, 1, 1]}, "Pair 0 has no chosen"),
        ({"roles": [0, 0, 0, 1]}, "Pair 0 has 3 chosen and 1 rejected"),
        ({"roles": [0, 0, 1, 2]}, "A role is 2"),
        ({"pair_ids": [0, 0, 1, 1]}, "Pair 0 has no rejected"),
        ({"kind": "median"}, "kind is 'median'"),
        ({"kind": "margin", "strength": None}, "needs the strength"),
        ({"kind": "margin", "strength": [1, 1]}, "4 finite numbers"),
        ({"kind": "margin", "strength": [1, 1, 2, 2]}, "different strengths"),
        ({"low": 10.0}, "low must be less"),
        ({"quantile": 1.5}, "quantile is 1.5"),
        ({"alpha": 0.0}, "alpha is 0.0"),
        ({"scale": 0.0}, "scale is 0.0"),
        ({"scores": [1, 2]}, "shapes"),
        ({"scores": [], "pair_ids": [], "roles": []}, "shapes"),
    ],
)
def test_wrong_input_is_told(change, told):
    given = {"scores": [6, 4, 5, 3], "pair_ids": [0] * 4, "roles": [0, 0, 1, 1]} | change
    with pytest.raises(ValueError, match=told):
        intergroup_rewards(given.pop("scores"), given.pop("pair_ids"), given.pop("roles"), **given)


@pytest.mark.parametrize("kind", ["interval", "quantile"])
def test_groups_of_one_have_no_spread(kind):
    with pytest.raises(ValueError, match="two judgements"):
        rewards_of([1], [0], kind=kind)
