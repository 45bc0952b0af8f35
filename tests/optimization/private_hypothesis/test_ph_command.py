"""The command: answers of known files, what a report may hold, refusals in one sentence."""

import json

import numpy as np
import pytest

from workingpapers.foundations.errors import InputError
from workingpapers.foundations.signature import convert, parameters
from workingpapers.optimization.private_hypothesis.command import run_choose, run_estimate

HYPOTHESES = "name,a,b,c\nuniform,.33333333,.33333333,.33333334\nskewed,.6,.3,.1\nrare,.1,.1,.8\n"


@pytest.fixture
def records(tmp_path):
    rng = np.random.default_rng(0)
    file = tmp_path / "data.csv"
    rows = zip(rng.normal(3, 2, 3000), rng.poisson(7, 3000), rng.choice(["a", "b", "c"], 3000, p=[0.6, 0.3, 0.1]),
               rng.choice([1, 2, 4], 3000), strict=True)  # fmt: skip
    file.write_text("x,k,g,d\n" + "".join(f"{x:.9f},{k},{g},{d}\n" for x, k, g, d in rows))
    return file


@pytest.fixture
def candidates(tmp_path):
    file = tmp_path / "hypotheses.csv"
    file.write_text(HYPOTHESES)
    return file


def test_an_estimate_its_statement_and_its_report(records, tmp_path):
    report = tmp_path / "report.html"
    outcome = run_estimate(records, column="x", bounds=(-10, 10), scale=(0.5, 5), epsilon=2.0, report=report)
    found = outcome.data["parameters"]
    assert found["location"] == pytest.approx(3, abs=0.4)
    assert found["scale"] == pytest.approx(2, abs=0.4)
    assert outcome.data["privacy"]["epsilon"] == 2.0
    assert outcome.data["privacy"]["secure"] is True
    assert "The private estimate is location" in outcome.summary
    assert outcome.files == [report]
    page = report.read_text()
    assert page.count("<svg") == 2
    assert "running time depends on the data" in page
    json.dumps(outcome.data)


def test_nothing_private_but_the_answer_leaves_the_command(records, tmp_path):
    """Same seed, one far record moved: whatever is written may differ by the released answer alone."""
    lines = records.read_text().splitlines()
    lines[1] = "987654.321,7,a,1"
    other = tmp_path / "other.csv"
    other.write_text("\n".join(lines) + "\n")
    pages = []
    for number, file in enumerate((records, other)):
        page = tmp_path / f"{number}.html"
        outcome = run_estimate(
            file, column="x", bounds=(-10, 10), scale=(2.0,), seed=1, insecure=True, report=page, epsilon=1.0
        )
        pages.append((outcome.data["parameters"], page.read_text()))
    assert pages[0][0] == pages[1][0]
    assert pages[0][1] == pages[1][1]
    assert "PROTECTS NOBODY" in pages[0][1]


def test_counts_with_a_rate(records):
    outcome = run_estimate(records, column="k", family="poisson", bounds=(1, 30))
    assert outcome.data["parameters"]["rate"] == pytest.approx(7, abs=0.4)
    assert outcome.data["distance_bound"] < 0.25


def test_a_choice_its_statement_and_its_report(records, candidates, tmp_path):
    report = tmp_path / "report.html"
    outcome = run_choose(records, column="g", hypotheses=candidates, epsilon=1.0, report=report)
    assert outcome.data["choice"] == "skewed"
    assert outcome.data["probabilities"] == pytest.approx({"a": 0.6, "b": 0.3, "c": 0.1})
    assert "The private choice is 'skewed', one of 3 candidates" in outcome.summary
    assert report.read_text().count("<svg") == 2


def test_numbers_match_columns_however_they_are_written(tmp_path, candidates):
    file = tmp_path / "gaps.csv"
    file.write_text("d,e\n" + "1.0,x\n2,x\n4,x\n1,x\n" * 50)
    candidates.write_text("name,1,2,4\nfair,.333333,.333333,.333334\nloaded,.5,.25,.25\n")
    assert run_choose(file, column="d", hypotheses=candidates, epsilon=5.0).data["choice"] == "loaded"


def test_few_records_have_no_bound(tmp_path, candidates):
    file = tmp_path / "few.csv"
    file.write_text("g\n" + "a\nb\nc\n" * 4)
    assert "too few records for a bound" in run_choose(file, column="g", hypotheses=candidates, epsilon=0.1).summary


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"column": "xx"}, "no column 'xx'"),
        ({"column": "g"}, ", which is no number"),
        ({"bounds": (5, 1)}, "The bounds are 5, 1"),
        ({"bounds": (1,)}, "The bounds are 1;"),
        ({"epsilon": 0.0}, "Epsilon is 0.0"),
        ({"seed": 3}, "seed 3 anybody"),
        ({"family": "poisson", "bounds": (1, 9)}, "the poisson family needs a whole number from 0"),
        ({"scale": (1, 2, 3)}, "The scale are 1, 2, 3"),
    ],
)
def test_bad_input_of_an_estimate_is_one_sentence_and_leaves_no_file(records, tmp_path, change, words):
    report = tmp_path / "report.html"
    with pytest.raises(InputError) as caught:
        run_estimate(records, **{"column": "x", "bounds": (-10, 10), "report": report, **change})
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)
    assert not report.exists()


@pytest.mark.parametrize(
    ("text", "column", "words"),
    [
        ("name,a,b,c\nu,.3,.3,.3\nv,.2,.3,.5\n", "g", "hypothesis 'u' sum to 0.9"),
        ("name,a,b,c\nu,.3,-.3,1\n", "g", "Hypothesis 'u' gives 'b' the probability -0.3"),
        ("name,a,b,c\nu,.3,.3,x\n", "g", "Hypothesis 'u' gives 'c' the probability x"),
        ("name,a,b,c\nu,.3,.7,\n", "g", "Hypothesis 'u' gives 'c' the probability nan"),
        ("name,a,b,c\nu,.3,.3,.4\nu,.4,.3,.3\n", "g", "two hypotheses named 'u'"),
        ("name,a\nu,1\n", "g", "has 2 columns"),
        ("name,a,b\nu,.5,.5\nv,.6,.4\n", "g", "has g 'c', which is outside the domain (a, b)"),
        (HYPOTHESES, "d", "which is outside the domain (a, b, c)"),
    ],
)
def test_bad_input_of_a_choice_is_one_sentence_and_leaves_no_file(records, candidates, tmp_path, text, column, words):
    candidates.write_text(text)
    report = tmp_path / "report.html"
    with pytest.raises(InputError) as caught:
        run_choose(records, column=column, hypotheses=candidates, report=report)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)
    assert not report.exists()


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("epsilon", "0", "over 0"),
        ("epsilon", "-1", "over 0"),
        ("beta", "1", "over 0 and under 1"),
        ("radius", "0.7", "0.5"),
        ("family", "norm", "did you mean 'normal'"),
        ("bounds", ["1", "x"], "'x', which is not a number"),
    ],
)
def test_options_out_of_range_are_refused(name, value, words):
    parameter = next(item for item in parameters(run_estimate) if item.name == name)
    with pytest.raises(InputError, match=words):
        convert(parameter, value)
