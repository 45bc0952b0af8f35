"""The command: plans of known campaigns, limits, periods, files written, one-sentence errors."""

import csv

import numpy as np
import pytest

from workingpapers.foundations.errors import InputError
from workingpapers.foundations.signature import convert, parameters
from workingpapers.optimization.dr_submodular.command import run
from workingpapers.optimization.dr_submodular.planning import concave_bound
from workingpapers.optimization.dr_submodular.simulation import brute_force
from workingpapers.optimization.dr_submodular.tables import read_campaign

# A and B reach other people and pay, C costs more than it can bring.
TABLE = "channel,cost,old,young\nA,10,0.8,0\nB,10,0,0.5\nC,10,0.1,0.1\n"
WEEKS = "week,channel,cost,old,young\n" + "".join(
    f"w{t},A,10,{0.8 if t < 10 else 0.1},0\nw{t},B,10,0,{0.1 if t < 10 else 0.9}\n" for t in range(20)
)


@pytest.fixture
def ask(tmp_path):
    def call(text=TABLE, **options):
        file = tmp_path / "channels.csv"
        file.write_text(text)
        for name in ("values", "limits"):
            if name in options:
                (tmp_path / f"{name}.csv").write_text(options[name])
                options[name] = tmp_path / f"{name}.csv"
        return run(file, **{"budget": 20.0, "value": 50.0, "iterations": 60, **options})

    return call


def test_a_campaign_whose_answer_is_known(ask):
    outcome = ask()
    found = outcome.data
    # A earns 0.8 * 50 - 10 = 30, B 0.5 * 50 - 10 = 15; C never pays.
    assert found["profit"] == pytest.approx(45, abs=1e-6)
    assert found["upper_bound"] == pytest.approx(45, abs=1e-6)
    assert found["money"]["A"] == pytest.approx([10])
    assert found["money"]["B"] == pytest.approx([10])
    assert found["money"]["C"] == pytest.approx([0], abs=1e-6)
    assert "at least 100 % of the best possible" in outcome.summary
    returns = {row[0]: row[3] for row in outcome.tables[1].rows}
    assert returns == pytest.approx({"A": 3.0, "B": 1.5, "C": 0.0})


def test_less_money_and_limits_move_the_plan(ask):
    assert ask(budget=10.0).data["money"]["A"] == pytest.approx([10])
    limited = ask(limits="name,A,B,limit\nprint,1,0.5,6\n").data["money"]
    assert limited["A"][0] + 0.5 * limited["B"][0] <= 6 + 1e-9
    # Per unit of the limit A earns 3 and B 1.5 / 0.5 = 3, so that all mixes of full use are worth 18.
    assert ask(limits="A,B,limit\n1,0.5,6\n").data["profit"] == pytest.approx(18, abs=1e-6)


def test_values_and_chosen_customers(ask):
    found = ask(values="customer,value\nold,0\nyoung,100\n").data
    assert found["profit"] == pytest.approx(40, abs=1e-6)
    assert ask(customers=("young",)).data["profit"] == pytest.approx(15, abs=1e-6)


def test_upper_bounds_are_never_beaten(tmp_path, rng):
    file = tmp_path / "random.csv"
    for _ in range(10):
        reach = rng.beta(1, 1.5, (3, 4))
        rows = "".join(f"c{i},{rng.uniform(1, 9):.3f},{','.join(map(str, reach[i]))}\n" for i in range(3))
        file.write_text("channel,cost,a,b,c,d\n" + rows)
        outcome = run(file, budget=8.0, value=5.0, iterations=15)
        campaign = read_campaign(file, budget=8.0, value=5.0)
        _, best = brute_force(campaign.rewards[0], campaign.polytope, 25)
        assert best - campaign.constant <= outcome.data["upper_bound"] + 1e-8
        assert best <= concave_bound(campaign.rewards[0], campaign.polytope) + 1e-8
        assert outcome.data["profit"] >= best - campaign.constant - 0.15


def test_rewards_are_shifted_until_no_corner_is_negative(tmp_path):
    file = tmp_path / "dear.csv"
    file.write_text("channel,cost,x\nA,10,0.5\nB,30,0.1\n")
    campaign = read_campaign(file, budget=10.0, value=20.0)
    corners = np.array([[0, 0], [1, 0], [0, 1], [1, 1.0]])
    # At (1, 1): 20 (1 - 0.5 * 0.9) - 40 = -29, plus the budget of 10.
    assert campaign.offset == pytest.approx(19)
    assert campaign.rewards[0].value(corners).min() == pytest.approx(0)
    assert "the budget and an offset" in run(file, budget=10.0, value=20.0, iterations=5).summary


@pytest.mark.parametrize("feedback", ["gradient", "semi-bandit", "two-point", "one-point", "bandit"])
def test_periods_one_by_one(ask, feedback):
    outcome = ask(WEEKS, period="week", feedback=feedback, seed=3)
    found = outcome.data
    assert found["periods"] == [f"w{t}" for t in range(20)]
    spent = np.array(list(found["money"].values())).sum(axis=0)
    assert (spent <= 20 + 1e-9).all()
    best = found["profits"]["best fixed plan, in hindsight"]
    # Both in full: 10 (40 + 5 - 20) + 10 (5 + 45 - 20).
    assert best == pytest.approx(550, abs=1)
    assert best <= found["upper_bound"] + 1e-6
    regret = (best + 20 * 20) / np.e - (found["profit"] + 20 * 20)
    assert regret <= found["certified_regret"] + 1e-6
    assert f"{feedback} feedback earned" in outcome.summary


def test_the_first_period_is_decided_blindly_and_later_ones_learn(ask):
    found = ask(WEEKS, period="week")
    assert found.data["money"]["A"][0] == 0
    assert found.data["money"]["A"][9] > 5


@pytest.mark.parametrize("learner", ["fixed step", "separation", "experts"])
def test_other_learners(ask, learner):
    assert ask(WEEKS, period="week", learner=learner).data["profit"] > 0


def test_a_rehearsal_reports_exponents_of_all_feedback(ask):
    outcome = ask(rehearsal=64, value=30.0)
    assert list(outcome.data["rehearsal"]) == ["gradient", "semi-bandit", "two-point", "one-point", "bandit"]
    assert len(outcome.figures) == 2
    bandit = outcome.data["rehearsal"]["bandit"]
    assert bandit["low"] < bandit["exponent"] < bandit["high"]


def test_same_seed_same_answer_other_seed_another(ask):
    options = {"period": "week", "feedback": "bandit"}
    assert ask(WEEKS, seed=1, **options).data == ask(WEEKS, seed=1, **options).data
    assert ask(WEEKS, seed=1, **options).data != ask(WEEKS, seed=2, **options).data


def test_files_are_written(ask, tmp_path):
    out, report = tmp_path / "plan.csv", tmp_path / "report.html"
    for _ in range(2):  # a second run replaces the first
        outcome = ask(WEEKS, period="week", out=out, report=report)
    assert outcome.files == [out, report]
    rows = list(csv.DictReader(out.open()))
    assert len(rows) == 40
    assert {row["period"] for row in rows} == {f"w{t}" for t in range(20)}
    assert float(rows[20]["money"]) == pytest.approx(float(rows[20]["share"]) * 10)
    page = report.read_text()
    assert page.count("<svg") == 1
    assert "Ways to spend" in page


@pytest.mark.parametrize(
    ("text", "options", "words"),
    [
        (TABLE.replace("channel", "chanel"), {}, "has no column 'channel'; did you mean 'chanel'?"),
        (TABLE, {"cost": "price"}, "has no column 'price'; the columns are"),
        (TABLE, {"customers": ("old", "yong")}, "has no column 'yong'; did you mean 'young'?"),
        (TABLE, {"period": "week"}, "has no column 'week'"),
        (TABLE.replace("0.8", "-0.8"), {}, "Row 2 of"),
        (TABLE.replace("0.8", "-0.8"), {}, "holds -0.8 in column 'old'; give a number from 0 to 1, or"),
        (TABLE.replace("0.8", ""), {}, "holds nothing in column 'old'"),
        (TABLE.replace("0.8", "1.8"), {}, "holds 1.8 in column 'old'"),
        (TABLE.replace("0.8", "much"), {}, "holds 'much' in column 'old'"),
        (TABLE.replace("A,10", "A,0"), {}, "in column 'cost'; give a number over 0."),
        (TABLE.replace("A,10", "A,inf"), {}, "holds inf in column 'cost'"),
        (TABLE.replace("B,10", "A,10"), {}, "lists the channel 'A' twice (rows 2 and 3)"),
        ("channel,cost\nA,1\n", {}, "has no columns of customers"),
        (WEEKS, {}, "holds 'w0' in column 'week'; give a number from 0 to 1, or name the columns of customers with"),
        (WEEKS.replace("w3,B", "w33,B"), {"period": "week"}, "has no row for the channel 'B' in period 'w3'"),
        (WEEKS.replace("w3,B,10", "w3,B,12"), {"period": "week"}, "The cost of 'B' is 10 in 'w0' and 12 in 'w3'"),
        (TABLE, {"values": "customer,value\nold,1\n"}, "has no value for the customer 'young'"),
        (TABLE, {"values": "customer,value\nold,1\nyung,1\n"}, "did you mean 'young'?"),
        (TABLE, {"values": "customer,value\nold,-1\nyoung,1\n"}, "holds -1 in column 'value'"),
        (TABLE, {"limits": "A,B,limit\n1,1,-5\n"}, "has the limit -5, which no spending meets"),
        (TABLE, {"limits": "A,D,limit\n1,1,5\n"}, "has the column 'D', which is no channel; the channels are A, B, C."),
        (TABLE, {"limits": "A,B,limit\n1,-1,5\n"}, "holds -1 in column 'B'; give a number of at least 0."),
        (TABLE, {"limits": "A,B\n1,1\n"}, "has no column 'limit'"),
        (TABLE, {"rehearsal": 3}, "--rehearsal is 3"),
        (TABLE, {"feedback": "bandit"}, "--feedback is 'bandit', which is about decisions one by one"),
        (TABLE, {"learner": "experts"}, "--learner is 'experts'"),
        (WEEKS, {"period": "week", "feedback": "bandit", "learner": "experts"}, "--learner experts needs gradients"),
    ],
)
def test_bad_input_is_one_sentence_and_nothing_is_written(ask, tmp_path, text, options, words):
    out = tmp_path / "plan.csv"
    with pytest.raises(InputError) as caught:
        ask(text, out=out, **options)
    assert words in str(caught.value)
    assert str(caught.value).count("\n") == 0
    assert not out.exists()


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("budget", "-5", "--budget is -5; it must be over 0 to 1e+15."),
        ("budget", "much", "which is not a number"),
        ("budget", "nan", "--budget is nan"),
        ("value", "0", "--value is 0"),
        ("iterations", "0", "--iterations is 0"),
        ("feedback", "bandits", "did you mean 'bandit'?"),
        ("learner", "expert", "did you mean 'experts'?"),
    ],
)
def test_options_are_converted_or_refused(name, text, words):
    option = next(item for item in parameters(run) if item.name == name)
    with pytest.raises(InputError) as caught:
        convert(option, text)
    assert words in str(caught.value)
