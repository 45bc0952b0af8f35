"""The command: formats told apart, answers of known files, files written, one-sentence errors."""

import csv

import numpy as np
import pytest

from workingpapers.foundations.errors import InputError
from workingpapers.foundations.signature import convert, parameters
from workingpapers.preferences.condorcet_nash.command import run
from workingpapers.preferences.condorcet_nash.tables import read_preferences

LOG = "first,second,outcome\n" + "a,b,1\n" * 30 + "b,c,first\n" * 30 + "c,a,c\n" * 30 + "a,b,0\nb,c,tie\n"
WINNERS = "Winner,Loser\n" + "a,b\n" * 3 + "b,c\n" * 3 + "a,c\n" * 3 + "b,a\n"
PROMPTS = "prompt,winner,loser\nq1,x,y\nq2,u,v\nq2,v,w\nq2,w,u\nq1,x,y\n"
NAMES = "1st,2nd,3rd\na,b,c\nb,c,a\nc,a,b\n"
HEADERLESS = "a,b,c\nb,c,a\nc,a,b\n"
RANKS = "labeler,a,b,c\nx,1,2,3\ny,3,1,2\nz,2,3,1\n"
SQUARE_RANKS = "a,b,c\n1,2,3\n3,1,2\n2,3,1\n"
SHARES = ",a,b,c\na,.5,.6,.6\nb,.4,.5,1\nc,.4,0,.5\n"
WINS = "a,b,c\n0,12,3\n8,0,14\n17,6,0\n"


@pytest.fixture
def ask(tmp_path):
    def call(text, **options):
        file = tmp_path / "preferences.csv"
        file.write_text(text)
        return run(file, **{"draws": 40, **options})

    return call


@pytest.mark.parametrize(
    ("text", "kind", "wins"),
    [
        (LOG, "log", [[0, 30, 0], [1, 0, 30.5], [30, 0.5, 0]]),
        (WINNERS, "log", [[0, 3, 3], [1, 0, 3], [0, 0, 0]]),
        (NAMES, "rankings", [[0, 2, 1], [1, 0, 2], [2, 1, 0]]),
        (HEADERLESS, "rankings", [[0, 2, 1], [1, 0, 2], [2, 1, 0]]),
        (RANKS, "rankings", [[0, 2, 1], [1, 0, 2], [2, 1, 0]]),
        (SQUARE_RANKS, "rankings", [[0, 2, 1], [1, 0, 2], [2, 1, 0]]),
        (WINS, "matrix", [[0, 12, 3], [8, 0, 14], [17, 6, 0]]),
        (SHARES, "matrix", None),
    ],
)
def test_formats_are_told_apart_by_their_content(tmp_path, text, kind, wins):
    file = tmp_path / "preferences.csv"
    file.write_text(text)
    found, (preferences,) = read_preferences(file)
    assert found == kind
    assert preferences.names == ("a", "b", "c")
    assert (preferences.wins.tolist() if preferences.wins is not None else None) == wins
    assert (preferences.votes is not None) == (kind == "rankings")


def test_ties_and_gaps_in_rankings(tmp_path):
    file = tmp_path / "ranks.csv"
    file.write_text("a,b,c\n1,1,2\n1,,2\n")
    _, (found,) = read_preferences(file)
    assert found.wins.tolist() == [[0, 0.5, 2], [0.5, 0, 1], [0, 0, 0]]
    assert found.votes is None
    file.write_text("1st,2nd,3rd\nb,a,\nc,b,a\n")
    _, (found,) = read_preferences(file)
    assert found.names == ("b", "a", "c")
    assert found.wins.tolist() == [[0, 2, 0], [0, 0, 0], [1, 1, 0]]


def test_a_certified_cycle_and_its_policy(ask):
    outcome = ask(LOG)
    (found,) = outcome.data["prompts"]
    assert found["cycle"] == ["a", "b", "c"]
    assert found["certified_cycle"] == ["a", "b", "c"]
    assert found["representable"] is False
    assert found["condorcet_winner"] is None
    a, b, c = 30 / 31 - 0.5, 30.5 / 31 - 0.5, 0.5
    assert list(found["policy"].values()) == pytest.approx(np.array([b, c, a]) / (a + b + c), abs=1e-9)
    assert found["posterior"]["cycle"] > 0.99
    assert "it is certified" in outcome.summary
    assert found["bradley_terry_p_value"] < 1e-6


def test_shares_where_the_reward_prefers_another(ask):
    outcome = ask(SHARES)
    (found,) = outcome.data["prompts"]
    assert found["condorcet_winner"] == "a"
    assert found["reward_best"] == "b"
    assert found["policy"] == {"a": 1.0, "b": 0.0, "c": 0.0}
    assert found["posterior"] is None
    assert "'a' beats every other response and is the Nash policy" in outcome.summary
    counted = ask(SHARES, comparisons=100)
    assert counted.data["prompts"][0]["posterior"]["winner"]["a"] > 0.9


def test_rankings_are_resampled_by_labeler(ask):
    found = ask(NAMES, draws=400).data["prompts"][0]
    assert "labelers" in found["posterior"]["assumption"]
    assert found["bradley_terry_p_value"] is None
    assert 0.1 < found["posterior"]["cycle"] < 0.4


def test_prompts_are_separate_unless_pooled(ask):
    outcome = ask(PROMPTS)
    assert [item["prompt"] for item in outcome.data["prompts"]] == ["q1", "q2"]
    assert outcome.summary.startswith("1 of 2 prompts show a cycle, 0 of them certified. Prompt 'q1'")
    assert len(outcome.figures) == 2
    assert "Prompt 'q2': The preferences contain the cycle u > v > w > u" in ask(PROMPTS, prompt="q2").summary
    pooled = ask(PROMPTS, pool=True)
    (found,) = pooled.data["prompts"]
    assert found["responses"] == ["x", "y", "u", "v", "w"]
    assert found["unknown_pairs"] == 6
    assert "6 pairs were never compared; they enter the game as coin flips" in pooled.summary


def test_regularisation_is_said_and_done(ask):
    outcome = ask(WINS, tau=100.0)
    found = outcome.data["prompts"][0]
    assert list(found["policy"].values()) == pytest.approx([1 / 3] * 3, abs=1e-2)
    assert "regularised policy keeps 3" in outcome.summary
    assert found["posterior"]["policy_high"]["a"] < 0.35


def test_same_seed_same_answer_other_seed_other_draws(ask):
    assert ask(WINS, seed=1).data == ask(WINS, seed=1).data
    assert ask(WINS, seed=1).data != ask(WINS, seed=2).data


def test_files_are_written(ask, tmp_path):
    out, report = tmp_path / "policy.csv", tmp_path / "report.html"
    outcome = ask(PROMPTS, out=out, report=report)
    assert outcome.files == [out, report]
    rows = list(csv.DictReader(out.open()))
    assert [row["response"] for row in rows] == ["x", "y", "u", "v", "w"]
    assert sum(float(row["policy"]) for row in rows if row["prompt"] == "q2") == pytest.approx(1)
    assert all(float(row["low"]) <= float(row["high"]) for row in rows)
    page = report.read_text()
    assert page.count("<svg") == 2
    assert "Who beats whom" in page


def test_long_names_and_many_responses_are_drawn_numbered(ask):
    rng = np.random.default_rng(0)
    names = [f"response with a long name {k}" for k in range(14)]
    rows = "".join(",".join(rng.permutation(names)) + "\n" for _ in range(9))
    outcome = ask(",".join(f"place {k}" for k in range(14)) + "\n" + rows)
    assert "4 further responses are not drawn" in outcome.figures[0].caption
    assert "response with…long name 3" in outcome.figures[0].svg


@pytest.mark.parametrize(
    ("text", "options", "words"),
    [
        ("first,second,outcome\na,b,3\n", {}, "Row 2 of"),
        ("first,second,outcome\na,b,1\na,,1\n", {}, "Row 3 of"),
        ("winner,loser\na,a\n", {}, "compares 'a' with itself"),
        ("first,secnd,outcome\na,b,1\n", {}, "no column 'second'; did you mean 'secnd'?"),
        (",a,b\na,.5,.7\nb,.4,.5\n", {}, "P[0,1] + P[1,0] = 1.1"),
        (",a,b\na,.5,\nb,.4,.5\n", {}, "give both or neither"),
        ("a,b,c\n2,3,4\n1,2,3\n", {}, "must have rank 1"),
        ("a,b,c\n1,2,3\n,,\n", {}, "Row 3 of"),
        ("1st,2nd\na,a\nb,a\n", {}, "lists 'a' twice"),
        ("a,b\nx,1\ny,2\n", {"format": "matrix"}, "is no square matrix"),
        ("1st\na\na\n", {}, "ranks 1 response"),
        (NAMES, {"format": "log"}, "has no column 'first'"),
        (WINS, {"comparisons": 10}, "leave --comparisons out"),
        (PROMPTS, {"prompt": "q3"}, "no prompt 'q3'; did you mean"),
        (WINS, {"tau": 1e-6}, "--tau is 1e-06"),
        ("a,b\n,\n,\n", {"format": "matrix"}, "No pair of responses was compared"),
    ],
)
def test_bad_input_is_one_sentence_and_leaves_no_file(ask, tmp_path, text, options, words):
    with pytest.raises(InputError) as caught:
        ask(text, out=tmp_path / "policy.csv", report=tmp_path / "report.html", **options)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["preferences.csv"]


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("format", "ranking", "did you mean 'rankings'"),
        ("alpha", "1", "over 0 and under 1"),
        ("draws", "3", "from 10 to"),
        ("comparisons", "0", "at least 1"),
        ("tau", "-1", "at least 0"),
    ],
)
def test_options_out_of_range_are_refused(name, value, words):
    parameter = next(item for item in parameters(run) if item.name == name)
    with pytest.raises(InputError, match=words):
        convert(parameter, value)
