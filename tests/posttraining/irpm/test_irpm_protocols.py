"""Rankings out of verdicts on pairs: the calls that each protocol takes, and what it makes of a perfect judge."""

import numpy as np
import pytest
from scipy.stats import kendalltau

pytest.importorskip("trl")

from workingpapers.posttraining.irpm.counting import LETTERS, PARSER, PLACES, CountingJudge, PairwiseJudge
from workingpapers.posttraining.irpm.experiments import count_wins, knockout, sort_by_judge
from workingpapers.posttraining.irpm.rivals import verdict

TRUTH = np.random.default_rng(0).permutation(8)
PERFECT = (TRUTH[:, None] > TRUTH[None, :]).astype(float)


def test_counting_wins_takes_a_call_a_pair_or_two():
    for both, calls in ((False, 28), (True, 56)):
        points, asked = count_wins(PERFECT, np.random.default_rng(1), both=both)
        assert asked == calls
        assert points.tolist() == (TRUTH * (1 + both)).tolist()


def test_a_judge_that_always_says_a_ranks_nothing_in_both_orders():
    always = np.ones((8, 8))
    points, _ = count_wins(always, np.random.default_rng(1), both=True)
    assert points.tolist() == [7] * 8
    assert len(set(count_wins(always, np.random.default_rng(1), both=False)[0].tolist())) > 1


def test_sorting_finds_the_order_with_fewer_calls():
    worth, calls = sort_by_judge(PERFECT, np.random.default_rng(1))
    assert kendalltau(worth, TRUTH).statistic == pytest.approx(1)
    assert 7 <= calls < 28


def test_a_knockout_takes_seven_calls_and_finds_the_best():
    rounds, calls = knockout(PERFECT, np.random.default_rng(1))
    assert calls == 7
    assert sorted(rounds.tolist()) == [0, 0, 0, 0, 1, 1, 2, 3]
    assert rounds[TRUTH.argmax()] == 3
    rounds, calls = knockout(PERFECT[:5, :5], np.random.default_rng(1))
    assert calls == 4
    assert rounds.argmax() == TRUTH[:5].argmax()


def test_what_is_taught_has_the_right_form_and_random_scores():
    rng = np.random.default_rng(3)
    taught = CountingJudge(skill=0.8).draw(2000, rng)
    read = [PARSER.parse(example.completion) for example in taught]
    assert all(one.valid for one in read)
    right = np.array([CountingJudge().score(example.prompt, example.completion) for example in taught])
    assert right.mean() == pytest.approx(0.8 + 0.2 / (PLACES + 1), abs=0.03)
    scores = np.array([one.score for one in read])
    errors = np.array([int(CountingJudge().answer(example.prompt)[0]) for example in taught])
    assert abs(np.corrcoef(scores, errors)[0, 1]) < 0.07  # three standard errors
    letters = [verdict(example.completion) for example in PairwiseJudge().draw(200, rng)]
    assert set(letters) == set(LETTERS)
    assert CountingJudge().answer("7:7173=") == "2,5"
    assert PairwiseJudge().answer("7:7173|7273=") == "22>A"
    assert PairwiseJudge().answer("7:1173|7273=") == "32>B"
