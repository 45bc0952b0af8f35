"""The reward of SmartThinker: values by hand, the bounds of its theory, invariances, and the estimator of verl."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from workingpapers.foundations.errors import InputError
from workingpapers.posttraining.smartthinker import (
    Branch,
    ae_score,
    group_advantages,
    optimal_length,
    smart_length_rewards,
)


@st.composite
def one_group(draw, least=2, most=32):
    """Verdicts and lengths of one group with both kinds of verdict likely."""
    size = draw(st.integers(least, most))
    correct = draw(st.lists(st.integers(0, 1), min_size=size, max_size=size))
    lengths = draw(st.lists(st.integers(1, 4000), min_size=size, max_size=size))
    return np.array(correct), np.array(lengths)


def of(correct, lengths, groups=None, **options):
    return smart_length_rewards(correct, lengths, np.zeros(len(correct), int) if groups is None else groups, **options)


# 1: by hand


def test_values_by_hand():
    found = of([0, 1, 1, 0], [100, 200, 300, 400])
    assert found.target.tolist() == [250.0]
    assert found.excess.tolist() == [0, 0, 50, 0]
    assert found.error_rate.tolist() == [0.5]
    assert found.coefficient[0] == pytest.approx(0.5 / 37.5, rel=1e-7)
    np.testing.assert_allclose(found.rewards, [0, 1, 1 / 3, 0], atol=1e-7)
    assert found.branch.tolist() == [Branch.PEAK]
    # mean 1/3, squared gaps 1/9, 4/9, 0, 1/9: unbiased variance 2/9
    deviation = np.sqrt(2 / 9)
    np.testing.assert_allclose(found.advantages, np.array([-1 / 3, 2 / 3, 0, -1 / 3]) / deviation, atol=1e-5)


def test_a_peak_away_from_the_means_by_hand():
    # All: mean 250, variance 12500; right: 100, 200, mean 150, variance 2500: (12500 150 - 2500 250) / 10000 = 125.
    found = of([1, 1, 0, 0], [100, 200, 300, 400])
    assert found.target.tolist() == [125.0]
    assert found.excess.tolist() == [0, 75, 0, 0]
    assert found.coefficient[0] == pytest.approx(0.5 / (75 - 75 / 4), rel=1e-7)
    assert not found.clipped[0]
    lengths, right = [100, 110, 120, 300, 400, 500], [100, 110, 400]
    clipped = of([1, 1, 0, 0, 1, 0], lengths)
    mean, variance = np.mean(lengths), np.var(lengths)
    expected = (variance * np.mean(right) - np.var(right) * mean) / (variance - np.var(right))
    assert expected < 100
    assert clipped.target.tolist() == [100.0]
    assert clipped.clipped[0]


# 2: the formula is the peak of the ratio


def test_the_formula_is_the_peak_of_the_log_ratio():
    rng = np.random.default_rng(0)
    for _ in range(1000):
        mean, mean_right = rng.uniform(100, 900, 2)
        deviation = rng.uniform(20, 200)
        deviation_right = deviation * rng.uniform(0.1, 0.95)
        found = optimal_length(mean, deviation**2, mean_right, deviation_right**2)
        grid = found + np.linspace(-500, 500, 2001)
        ratio = -((grid - mean_right) ** 2) / (2 * deviation_right**2) + (grid - mean) ** 2 / (2 * deviation**2)
        assert abs(grid[ratio.argmax()] - found) <= 0.5
        assert ratio[1000] >= ratio.max() - 1e-9 * abs(ratio).max()
        swapped = (deviation_right**2 * mean_right - deviation**2 * mean) / (deviation_right**2 - deviation**2)
        around = swapped + np.array([-1.0, 0.0, 1.0])  # wider right answers: a valley
        valley = -((around - mean_right) ** 2) / (2 * deviation**2) + (around - mean) ** 2 / (2 * deviation_right**2)
        assert valley[1] <= min(valley[0], valley[2])
    with pytest.raises(InputError, match="a peak needs"):
        optimal_length(1.0, 4.0, 1.0, 4.0)
    assert optimal_length(1 / 3, 0.1, 0.7, 0.0) == 0.7


# 3: equal variances, and right answers that vary more


@pytest.mark.parametrize(("shift", "calculus", "published"), [(1, "long", "short"), (-1, "short", "long")])
def test_equal_variances_go_the_way_the_ratio_rises(shift, calculus, published):
    # Right answers vary like all do but lie to one side: all are -3, -1, 1, 3 (variance 5); right are m -+ sqrt(5).
    root = 5**0.5
    right = np.array([-root, root]) + shift
    wrong = -right[::-1]
    lengths = 100 + np.concatenate([right, wrong])
    # The variance of all is 5 + shift^2; stretch the right ones to the same around their mean.
    stretch = np.sqrt((5 + shift**2) / 5)
    for _ in range(200):  # fixed point of "variance of right = variance of all"
        right = np.array([-root, root]) * stretch + shift
        wrong = np.array([-1.0, 1.0]) * 2 - shift
        lengths = 100 + np.concatenate([right, wrong])
        stretch *= np.sqrt(np.var(lengths) / np.var(right))
    assert np.var(lengths) == pytest.approx(np.var(right), abs=1e-9)
    edge = {"long": lengths.max(), "short": lengths.min()}
    found = of([1, 1, 0, 0], lengths)
    assert found.branch.tolist() == [Branch.EQUAL_SPREAD]
    assert found.target.tolist() == [edge[calculus]]
    assert of([1, 1, 0, 0], lengths, tie_rule="published").target.tolist() == [edge[published]]


def test_lengths_that_tell_nothing_are_not_penalised():
    found = of([1, 1, 0, 0], [10, 30, 10, 30])
    assert found.branch.tolist() == [Branch.EQUAL_SPREAD]
    assert found.rewards.tolist() == [1, 1, 0, 0]
    assert of([1, 1, 0, 0], [10, 30, 10, 30], tie_rule="published").target.tolist() == [10]


def test_right_answers_that_vary_more():
    found = of([1, 0, 0, 1], [100, 200, 300, 400])
    assert found.branch.tolist() == [Branch.WIDER_CORRECT]
    assert found.target.tolist() == [100]
    assert found.excess.tolist() == [0, 0, 0, 300]
    kept = of([1, 0, 0, 1], [100, 200, 300, 400], wide_rule="none")
    assert kept.target.tolist() == [400]
    assert kept.rewards.tolist() == [1, 0, 0, 1]


# 4: theory, for random groups


@given(one_group())
@settings(max_examples=300, deadline=None)
def test_no_right_answer_is_punished_and_no_wrong_one_rewarded(group):
    correct, lengths = group
    found = of(correct, lengths, eps=0.0)
    assert (found.advantages[correct == 1] >= -1e-9).all()
    assert (found.advantages[correct == 0] <= 1e-9).all()
    assert np.isfinite(found.rewards).all()
    if found.coefficient[0] > 0:  # 9b: the longest right answer has the mean reward; 9a: more would be too much
        longest = found.excess.argmax()
        assert found.rewards[longest] == pytest.approx(found.rewards.mean(), abs=1e-9)
        more = correct - 1.01 * found.coefficient[0] * found.excess
        assert more[longest] < more.mean()
        assert found.coefficient[0] * found.excess.max() <= 1 + 1e-9
        assert found.rewards.max() > 0  # 9d cannot come from lengths: right answers of one length are their own peak
    published = of(correct, lengths)
    assert (published.advantages[correct == 1] >= -1e-9).all()
    assert (published.advantages[correct == 0] <= 1e-9).all()


@given(one_group(), st.integers(2, 9), st.integers(1, 500))
@settings(max_examples=200, deadline=None)
def test_scaled_and_shifted_lengths_change_nothing(group, scale, shift):
    correct, lengths = group
    found = of(correct, lengths, eps=0.0)
    moved = of(correct, lengths + shift, eps=0.0)
    grown = of(correct, lengths * scale, eps=0.0)
    if found.branch[0] == Branch.EQUAL_SPREAD or found.branch[0] != moved.branch[0]:
        return  # the tolerance of equal variances is absolute
    np.testing.assert_allclose(moved.target, found.target + shift, rtol=1e-6)
    np.testing.assert_allclose(grown.target, found.target * scale, rtol=1e-6)
    if found.excess.max() == 0 or found.excess.max() > 1e-6:
        np.testing.assert_allclose(moved.rewards, found.rewards, atol=1e-5)
        np.testing.assert_allclose(grown.rewards, found.rewards, atol=1e-5)


def test_equally_long_right_answers_would_lose_all_reward():
    # 9d: with equal excess s Lambda s = p / (1 - (1 - p)) = 1. No lengths give that, for their variance is 0.
    found = of([1, 1, 0, 0], [300, 300, 100, 100], eps=0.0)
    assert found.target.tolist() == [300]
    assert found.rewards.tolist() == [1, 1, 0, 0]


# 5, 6, 8: where it is plain GRPO


@pytest.mark.parametrize("verdict", [0, 1])
def test_groups_of_one_verdict_teach_nothing(verdict):
    found = of([verdict] * 4, [10, 20, 30, 40])
    assert found.rewards.tolist() == [verdict] * 4
    assert found.coefficient.tolist() == [0]
    assert found.advantages.tolist() == [0] * 4
    assert found.branch.tolist() == [Branch.ALL_CORRECT if verdict else Branch.NONE_CORRECT]
    assert found.target.tolist() == [10 if verdict else 40]


@given(st.integers(0, 6), st.lists(st.integers(1, 10**6), min_size=7, max_size=7))
@settings(deadline=None)
def test_one_right_answer_is_its_own_target(place, lengths):
    correct = np.eye(7)[place]
    found = of(correct, lengths)
    assert found.rewards.tolist() == correct.tolist()
    if found.branch[0] == Branch.PEAK:
        assert found.target[0] == lengths[place]


def test_right_answers_within_the_target_leave_grpo_as_it_is():
    # Wrong ones are short and vary more: the peak lies beyond the right answers.
    correct, lengths = np.array([1, 1, 0, 0]), np.array([390, 400, 10, 500])
    found = of(correct, lengths)
    assert found.branch.tolist() == [Branch.PEAK]
    assert found.target[0] >= 395
    correct, lengths = np.array([1, 1, 1, 0, 0]), np.array([399, 400, 400, 10, 20])
    found = of(correct, lengths)
    assert found.target[0] == 400 or found.excess.max() < 1
    plain = of([1, 1, 0, 0], [400, 400, 10, 20])
    assert plain.rewards.tolist() == [1, 1, 0, 0]
    np.testing.assert_array_equal(plain.advantages, group_advantages([1, 1, 0, 0], [0] * 4))


# 7: bounds, order, groups of several sizes


@given(st.lists(one_group(most=9), min_size=1, max_size=6), st.randoms(use_true_random=False))
@settings(max_examples=100, deadline=None)
def test_targets_stay_inside_and_order_does_not_matter(parts, source):
    correct, lengths = (np.concatenate([part[side] for part in parts]) for side in (0, 1))
    groups = np.repeat(np.arange(len(parts)), [len(part[0]) for part in parts])
    found = of(correct, lengths, groups)
    for number, part in enumerate(parts):
        assert part[1].min() <= found.target[number] <= part[1].max()
        alone = of(*part)
        np.testing.assert_allclose(found.rewards[groups == number], alone.rewards, atol=1e-9)
        np.testing.assert_allclose(found.advantages[groups == number], alone.advantages, atol=1e-7)
    order = list(range(len(correct)))
    source.shuffle(order)
    moved = of(correct[order], lengths[order], groups[order])
    np.testing.assert_allclose(moved.rewards, found.rewards[order], atol=1e-5)
    np.testing.assert_allclose(moved.target, found.target, rtol=1e-9)
    assert sum(found.branch_shares.values()) == pytest.approx(1)


def test_group_names_may_be_texts():
    found = of([1, 0, 1, 0], [5, 6, 7, 8], np.array(["b", "a", "a", "b"]))
    assert found.groups.tolist() == ["a", "b"]
    assert found.group_of.tolist() == [1, 0, 0, 1]


def test_advantages_use_the_unbiased_deviation():
    np.testing.assert_allclose(group_advantages([0, 1, 5, 5], ["a", "a", "b", "b"]), [-0.5**0.5, 0.5**0.5, 0, 0],
                               atol=1e-5)  # fmt: skip


# 9: the score of the tables


def test_scores_of_the_published_table():
    base = (5420 + 15199 + 9320) / 3
    assert ae_score((2645 + 8431 + 4421) / 3, 61.9, base, 60.7) == pytest.approx(0.54, abs=0.005)
    assert ae_score((1008 + 3727 + 2246) / 3, 52.3, base, 60.7) == pytest.approx(0.07, abs=0.005)
    assert ae_score((2744 + 7462 + 4201) / 3, 60.95, base, 60.7) == pytest.approx(0.53, abs=0.005)
    assert ae_score(2, 0.5, 2, 0.5) == 0
    with pytest.raises(InputError, match="both must be positive"):
        ae_score(1, 1, 0, 1)


# 10: the estimator of verl


def test_the_estimator_of_verl_gives_the_same_advantages():
    torch = pytest.importorskip("torch")
    from workingpapers.posttraining.smartthinker import smartthinker_advantages

    rng = np.random.default_rng(0)
    lengths, correct = rng.integers(1, 30, 64), rng.integers(0, 2, 64).astype(float)
    index = rng.permutation(np.repeat([f"uid-{number}" for number in range(8)], 8)).astype(object)
    mask = (torch.arange(30) < torch.as_tensor(lengths)[:, None]).float()
    token_rewards = torch.zeros(64, 30)
    token_rewards[torch.arange(64), torch.as_tensor(lengths) - 1] = torch.as_tensor(correct).float()
    advantages, returns = smartthinker_advantages(token_rewards, mask, index, config={"any": 1}, reward_baselines=None)
    expected = smart_length_rewards(correct, lengths, index.astype(str)).advantages
    assert advantages.shape == (64, 30)
    assert advantages.dtype == torch.float32
    torch.testing.assert_close(advantages, torch.as_tensor(expected).float()[:, None] * mask, atol=1e-6, rtol=0)
    assert returns is advantages
    scored, _ = smartthinker_advantages(3 * token_rewards - mask / 100, mask, index, threshold=0.5)
    torch.testing.assert_close(scored, advantages)
    with pytest.raises(InputError, match=r"Verdict \d+ is 3"):
        smartthinker_advantages(3 * token_rewards, mask, index)
    with pytest.raises(InputError, match=r"both must be \(B, T\)"):
        smartthinker_advantages(token_rewards[:, 1:], mask, index)


# 4 of the errors


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (([1, 2], [1, 1], [0, 0]), "Verdict 1 is 2"),
        (([1, np.nan], [1, 1], [0, 0]), "Verdict 1 is nan"),
        (([1, 0], [1, 0], [0, 0]), "Length 1 is 0"),
        (([1, 0], [np.nan, 3], [0, 0]), "Length 0 is nan"),
        (([1, 0], [1, 2, 3], [0, 0]), "have shapes"),
        (([], [], []), "have shapes"),
        (([1, 0, 1], [1, 2, 3], [0, 0, 7]), "Group 7 holds one answer"),
    ],
)
def test_wrong_input_is_told(arguments, told):
    with pytest.raises(InputError, match=told):
        smart_length_rewards(*arguments)


def test_wrong_options_are_told():
    with pytest.raises(InputError, match="eps is -1"):
        of([1, 0], [1, 2], eps=-1)
    with pytest.raises(InputError, match="use calculus or published"):
        of([1, 0], [1, 2], tie_rule="other")
    with pytest.raises(InputError, match="min or none"):
        of([1, 0], [1, 2], wide_rule="max")
