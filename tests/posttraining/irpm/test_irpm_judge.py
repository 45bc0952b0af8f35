"""Reading judgements, counting calls, ranking and the benchmark's rule."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from workingpapers.posttraining.irpm import JudgePrompt, PointwiseJudge, ScoreParser, judge_rows, pair_outcomes
from workingpapers.posttraining.irpm.judge import ranking_of

PARSER = ScoreParser()


def said(score, critique="good"):
    return f"<critique>{critique}</critique><score>{score}</score>"


@pytest.mark.parametrize(
    ("text", "score"),
    [
        (said(7), 7.0), (said("7.5"), 7.5), (said(0), 0.0), (said("10.0"), 10.0),
        ("thinking\n<critique>two\nlines</critique>\n <score> 3 </score> bye", 3.0),
    ],
)  # fmt: skip
def test_scores_are_read(text, score):
    found = PARSER.parse(text)
    assert found.score == score
    assert found.valid
    assert found.critique in ("good", "two\nlines")


@pytest.mark.parametrize(
    "text",
    ["<score>7</score>", said("10.5"), said(-1), said("1e1"), said(""), said("seven"), said("7,5"), said(7) + said(8),
     "<critique>x</critique> so <score>7</score>", "<critique>x</critique><score>7", "", "7"],
)  # fmt: skip
def test_what_is_not_exactly_a_judgement_has_no_score(text):
    found = PARSER.parse(text)
    assert math.isnan(found.score)
    assert not found.valid
    assert found.problem


def test_wrong_parsers_are_told():
    for options, told in (({"low": 5.0, "high": 5.0}, "low must be less"), ({"pattern": r"\d+"}, "no group"),
                          ({"pattern": "("}, "no regular expression")):  # fmt: skip
        with pytest.raises(ValueError, match=told):
            ScoreParser(**options)


# 11: the benchmark's rule


def test_points_of_pairs():
    nan = math.nan
    assert pair_outcomes([7, 7, 7, nan, nan, 8], [7, nan, 6, 7, nan, 9]).tolist() == [0.5, 0, 1, 0, 0, 0]


# 10: n responses, n calls


class Lengths:
    """A judge that scores a response by its length, and cannot read an exclamation mark."""

    def __init__(self):
        self.asked = 0

    def __call__(self, prompts):
        self.asked += len(prompts)
        texts = [prompt.split("<response>\n")[1].split("\n</response>")[0] for prompt in prompts]
        return [said(len(text), text) if "!" not in text else "no" for text in texts]


@given(st.lists(st.text("ab!", min_size=1, max_size=9), min_size=1, max_size=9), st.randoms())
@settings(deadline=None)
def test_ranking_takes_one_call_a_response_in_any_order(responses, random):
    speak = Lengths()
    judge = PointwiseJudge(speak)
    found = judge.rank("q", responses)
    assert judge.calls == speak.asked == len(responses)
    readable = [response for response in responses if "!" not in response]
    assert [responses[place] for place in found.order][: len(readable)] == sorted(readable, key=len, reverse=True)
    assert [responses[place] for place in found.unparsable] == [one for one in responses if "!" in one]
    order = random.sample(range(len(responses)), len(responses))
    again = judge.rank("q", [responses[place] for place in order])
    assert again.ranks.tolist() == found.ranks[order].tolist()
    assert judge.calls == 2 * len(responses)


def test_ties_share_their_rank_and_missing_scores_come_last():
    found = ranking_of(np.array([5.0, math.nan, 7.0, 5.0]))
    assert found.order == (2, 0, 3, 1)
    assert found.ranks.tolist() == [2.5, 4, 1, 2.5]
    assert found.unparsable == (1,)


def test_comparing_and_critiques():
    judge = PointwiseJudge(Lengths())
    assert [judge.compare("q", *pair) for pair in (("aa", "b"), ("b", "aa"), ("a", "b"))] == [1, 0, 0.5]
    assert math.isnan(judge.compare("q", "aa", "!"))
    assert judge.calls == 8
    assert judge.critiques("q", ["ab", "!"]) == ["ab", ""]
    assert np.isnan(judge.score("q", ["!"])).all()
    assert judge.score("q", []).shape == (0,)


def test_votes_are_averaged_over_those_that_can_be_read():
    answers = iter([said(4), said(7), "no", said(1), "no", "no"])
    judge = PointwiseJudge(lambda prompts: [next(answers) for _ in prompts], votes=3)
    found = judge.score("q", ["a", "b"])
    assert found.tolist() == [5.5, 1.0]
    assert judge.calls == 6


def test_wrong_judges_are_told():
    with pytest.raises(ValueError, match="votes is 0"):
        PointwiseJudge(Lengths(), votes=0)
    with pytest.raises(ValueError, match="no responses"):
        PointwiseJudge(Lengths()).rank("q", [])
    with pytest.raises(ValueError, match="1 answers to 2 prompts"):
        PointwiseJudge(lambda prompts: ["x"]).score("q", ["a", "b"])
    with pytest.raises(ValueError, match=r"no \{response\}"):
        JudgePrompt("{prompt}")


def test_prompts_are_filled_in_once_and_as_messages_for_chat_models():
    prompt = JudgePrompt("Q {prompt} A {response}")
    assert prompt.render("say {response}", "{prompt}") == "Q say {response} A {prompt}"
    chat = JudgePrompt("Q {prompt} A {response}", chat=True)
    turns = [{"role": "user", "content": "hi"}]
    assert chat.render(turns, [{"role": "assistant", "content": "ho"}]) == [{"role": "user", "content": "Q hi A ho"}]


def test_each_pair_becomes_two_rows_with_a_pair_id_of_its_own():
    records = [{"prompt": str(number), "chosen": "c", "rejected": "r", "strength": number} for number in range(1, 6)]
    rows = judge_rows(records, JudgePrompt("{prompt}{response}"), passes=2, seed=0)
    assert len(rows) == 20
    assert sorted({row["pair_id"] for row in rows}) == list(range(10))
    for first, second in zip(rows[::2], rows[1::2], strict=True):
        assert (first["pair_id"], first["role"], second["role"]) == (second["pair_id"], 0, 1)
        assert (first["prompt"][1:], second["prompt"][1:]) == ("c", "r")
        assert first["prompt"][0] == second["prompt"][0] == str(int(first["strength"]))
    assert [row["prompt"] for row in rows[:10]] != [row["prompt"] for row in rows[10:]]
    assert sorted(row["prompt"] for row in rows[:10]) == sorted(row["prompt"] for row in rows[10:])
    plain = judge_rows([{"prompt": "p", "chosen": "c", "rejected": "r"}], JudgePrompt("{prompt}{response}"))
    assert [row["strength"] for row in plain] == [2.0, 2.0]
