"""The rules: verdicts, panels, humans, endings."""

from __future__ import annotations

import itertools

import pytest

from workingpapers.evaluation.critique_benchmark.plan import Plan, Settings, estimate
from workingpapers.evaluation.critique_benchmark.records import Claim
from workingpapers.evaluation.critique_benchmark.rules import VERDICTS, Resolution, ending, resolve, side_of
from workingpapers.evaluation.critique_benchmark.scripted import ScriptedModel, Skills
from workingpapers.evaluation.critique_benchmark.speakers import Participant
from workingpapers.foundations.errors import InputError

JUDGES = ("j1", "j2", "j3")
SIDES = ("alice", "bob")


@pytest.mark.parametrize(
    ("claim_type", "verdict", "side"),
    [
        ("critique", "claimant_wins", "claimant"),
        ("critique", "mixed", "claimant"),
        ("critique", "defender_wins_incorrect", "defender"),
        ("critique", "defender_wins_minor", "defender"),
        ("critique", "wrong_problem", "defender"),
        ("critique", "unknown", None),
        ("illposed", "claimant_wins", "claimant"),
        ("illposed", "mixed", "claimant"),
        ("illposed", "defender_wins_incorrect", "defender"),
        ("illposed", "wrong_problem", "defender"),
        ("illposed", "unknown", None),
    ],
)
def test_every_verdict_has_its_side(claim_type, verdict, side) -> None:
    assert side_of(claim_type, verdict) == side
    assert side_of(claim_type, verdict, mixed="nobody") == (None if verdict == "mixed" else side)
    assert resolve(claim_type, dict.fromkeys(JUDGES, verdict), JUDGES, SIDES).side == side


def test_the_table_of_verdicts_is_complete_and_others_are_refused() -> None:
    assert sum(len(table) for table in VERDICTS.values()) == 11
    with pytest.raises(InputError, match="'defender_wins_minor' is not a verdict on a claim of type 'illposed'"):
        side_of("illposed", "defender_wins_minor")
    with pytest.raises(InputError, match="did you mean 'claimant_wins'"):
        side_of("critique", "claimant_win")


def test_unanimity_is_by_side_and_unknown_is_not_a_side() -> None:
    assert resolve("critique", {"j1": "claimant_wins", "j2": "mixed"}, JUDGES[:2], SIDES) == Resolution(
        "claimant", "panel"
    )
    assert resolve("critique", {"j1": "claimant_wins", "j2": "unknown"}, JUDGES[:2], SIDES).open
    assert resolve("critique", {"j1": "claimant_wins"}, JUDGES[:2], SIDES).open  # a missing judge counts as unknown
    mixed = {"j1": "defender_wins_minor", "j2": "wrong_problem", "j3": "defender_wins_incorrect"}
    assert resolve("critique", mixed, JUDGES, SIDES).side == "defender"
    assert resolve("critique", {}, (), SIDES).open


def test_majority_needs_more_than_half_of_all_judges() -> None:
    judges = ("j1", "j2", "j3", "j4")
    for votes in itertools.product(("claimant_wins", "wrong_problem", "unknown"), repeat=4):
        found = resolve("critique", dict(zip(judges, votes, strict=True)), judges, SIDES, rule="majority")
        expected = (
            "claimant" if votes.count("claimant_wins") > 2 else "defender" if votes.count("wrong_problem") > 2 else None
        )
        assert found.side == expected


def test_a_human_wins_over_the_panel_and_humans_may_not_contradict_each_other() -> None:
    panel = dict.fromkeys(JUDGES, "claimant_wins")
    found = resolve("critique", panel, JUDGES, SIDES, [("ann", "wrong_problem")])
    assert found == Resolution("defender", "human")
    closed = resolve("critique", panel, JUDGES, SIDES, [("ann", "unknown")])
    assert closed == Resolution(None, "human")
    assert not closed.open
    agreed = resolve("critique", panel, JUDGES, SIDES, [("ann", "mixed"), ("ben", "mixed")])
    assert agreed.side == "claimant"
    with pytest.raises(InputError, match="contradict each other: 'ann' says 'mixed' and 'ben' 'unknown'"):
        resolve("critique", panel, JUDGES, SIDES, [("ann", "mixed"), ("ben", "unknown")])


def test_participants_never_judge() -> None:
    with pytest.raises(InputError, match="'bob' takes part in the claim and judged it"):
        resolve("critique", {"j1": "mixed", "bob": "mixed"}, JUDGES, SIDES)
    with pytest.raises(InputError, match="'eve' judged but is not among the judges"):
        resolve("critique", {"eve": "mixed"}, JUDGES, SIDES)


UPHELD, REJECTED, OPEN = Resolution("claimant", "panel"), Resolution("defender", "panel"), Resolution(None, "nobody")


@pytest.mark.parametrize(
    ("status", "ill_posed", "critiques", "expected", "outcome", "void"),
    [
        ("failed", None, [], 1, 0, False),
        ("ill-posed", REJECTED, [], 1, 0, False),
        ("ill-posed", UPHELD, [], 1, None, True),
        ("ill-posed", OPEN, [], 1, None, False),
        ("ill-posed", None, [], 1, None, False),
        ("succeeded", None, [("correct", None)], 1, 1, False),
        ("succeeded", None, [("incorrect", UPHELD)], 1, 0, False),
        ("succeeded", None, [("obscure", REJECTED)], 1, 1, False),
        ("succeeded", None, [("insufficient", OPEN)], 1, None, False),
        ("succeeded", None, [], 1, None, False),
        ("succeeded", None, [("correct", None), ("incorrect", UPHELD)], 3, 0, False),
        ("succeeded", None, [("correct", None), ("correct", None)], 3, None, False),
        ("succeeded", None, [("correct", None), ("incorrect", OPEN)], 2, None, False),
    ],
)
def test_endings(status, ill_posed, critiques, expected, outcome, void) -> None:
    found = ending(status, ill_posed, critiques, expected)
    assert (found.outcome, found.invalid_item) == (outcome, void)


def participants(count: int) -> tuple[Participant, ...]:
    return tuple(Participant(f"m{k}", ScriptedModel(f"m{k}", Skills())) for k in range(count))


def test_the_cost_of_the_published_run_is_that_of_the_paper() -> None:
    plan = Plan(participants(8), tuple(str(k) for k in range(44)), Settings(attempts=1, check_rounds=0))
    calls = {cost.stage: cost.expected for cost in estimate(plan, attempts=1, claims=2284 / 4928)}
    assert calls["question"] == 8 * 44
    assert calls["answer"] == calls["critique"] == calls["gate critique"] == 2464
    assert calls["judgment"] == 2284 * 6 == 13704
    assert calls["self-check"] == 0


def test_judges_of_a_claim_leave_out_both_sides_and_the_author() -> None:
    plan = Plan(participants(6), ("t",))
    claim = Claim("critique", "item", "m1", "m2", "evaluator", "", "m2", "m1")
    assert [who.name for who in plan.judges(claim, "m0")] == ["m3", "m4", "m5"]
    claim = Claim("critique", "item", "m1", "m0", "evaluator", "", "m0", "m1")
    assert len(plan.judges(claim, "m0")) == 4


@pytest.mark.parametrize(
    ("count", "topics", "said"),
    [
        (2, ("t",), "There are 2 judges"),
        (1, ("t",), "1 authors and 1 answerers"),
        (3, (), "There are no topics"),
        (3, ("t", "t"), "The topic 't' is listed twice"),
    ],
)
def test_plans_that_cannot_work_are_refused(count, topics, said) -> None:
    with pytest.raises(InputError, match=said):
        Plan(participants(count), topics)
    with pytest.raises(InputError, match="The model 'm0' is listed twice"):
        Plan((*participants(3), participants(1)[0]), ("t",))
    with pytest.raises(InputError, match="has the roles"):
        Participant("m", ScriptedModel("m", Skills()), frozenset({"judges"}))


def test_whatever_decides_a_run_is_part_of_its_identity() -> None:
    models = participants(3)
    runs = {
        Plan(models, ("t",)).run,
        Plan(models, ("u",)).run,
        Plan(models, ("t",), Settings(panel="majority")).run,
        Plan(participants(4), ("t",)).run,
    }
    assert len(runs) == 4
    assert Plan(participants(3), ("t",)).run in runs
