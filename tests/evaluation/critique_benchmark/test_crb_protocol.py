"""The protocol over scripted models: planted skills come back, nothing is lost, nothing is paid twice."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections import Counter
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from workingpapers.evaluation.critique_benchmark.caller import Effort
from workingpapers.evaluation.critique_benchmark.experiments import play, world
from workingpapers.evaluation.critique_benchmark.games import tally
from workingpapers.evaluation.critique_benchmark.people import add_labels, open_claims, read_labels
from workingpapers.evaluation.critique_benchmark.plan import Plan, Settings
from workingpapers.evaluation.critique_benchmark.prompts import Rubrics
from workingpapers.evaluation.critique_benchmark.protocol import Benchmark
from workingpapers.evaluation.critique_benchmark.records import Label
from workingpapers.evaluation.critique_benchmark.scripted import (
    Problem,
    ScriptedModel,
    Skills,
    false_steps,
    read_problem,
    solve,
)
from workingpapers.evaluation.critique_benchmark.speakers import Fault, Participant, Reply, Request
from workingpapers.evaluation.critique_benchmark.store import EventStore
from workingpapers.foundations.errors import InputError

EAGER = Effort(backoff=0.0)


class Wrapped:
    """A scripted model that counts its calls and passes each through `act`."""

    def __init__(self, inner: ScriptedModel, act=lambda model, request, number: None) -> None:
        self.inner, self.act, self.calls, self.seen = inner, act, Counter(), []

    async def say(self, request: Request) -> Reply:
        self.calls[request.user] += 1
        self.seen.append(request)
        replaced = self.act(self.inner, request, self.calls[request.user])
        if isinstance(replaced, Exception):
            raise replaced
        return Reply(replaced, 1, 1) if isinstance(replaced, str) else await self.inner.say(request)


def wrap(plan: Plan, act=lambda model, request, number: None) -> Plan:
    models = tuple(replace(who, speaker=Wrapped(who.speaker, act)) for who in plan.participants)
    return replace(plan, participants=models)


def total(plan: Plan) -> int:
    return sum(sum(who.speaker.calls.values()) for who in plan.participants)


@pytest.fixture(scope="module")
def small() -> Plan:
    return world(0, 4, ill_posed=0.3)[0]


def test_scripted_calculations_are_right_where_they_should_be() -> None:
    import random

    problem = Problem(12345, 987654, 99991)
    assert solve(problem, None).splitlines()[-1] == f"result {pow(12345, 987654, 99991)}"
    assert false_steps(problem, solve(problem, None)) == []
    for seed in range(50):
        assert len(false_steps(problem, solve(problem, random.Random(seed)))) == 1
    inverse = Problem(3, -20, 7)
    assert solve(inverse, None).splitlines()[-1] == f"result {pow(3, -20, 7)}"
    bad = Problem(6, -20, 9)
    assert bad.ill_posed
    assert 0 in false_steps(bad, solve(bad, None))
    assert read_problem(bad.text()) == bad


def test_planted_skills_come_back_and_ill_posed_items_fall_out() -> None:
    plan, skills = world(0, 30, ill_posed=0.3)
    found, truth, digest = play(plan)
    from workingpapers.evaluation.critique_benchmark.experiments import SLOPPY, spearman, strengths

    names = [who.name for who in plan.participants]
    beta, _ = strengths("itemised", found.games, names)
    assert spearman(beta, np.array([skill.solve for skill in skills])) >= 0.9
    fate = found.questions.set_index("item")["fate"]
    ill_posed = [fate[item] for item in fate.index if truth[item][0]]
    assert len(ill_posed) >= 8
    assert np.mean([one != "accepted" for one in ill_posed]) >= 0.9
    others = found.questions[found.questions["author"] != names[SLOPPY]]
    sound = [row.fate for row in others.itertuples() if truth[row.item] == (False, False)]
    assert np.mean([one in ("refuted", "ill-posed") for one in sound]) <= 0.05
    wrong = [row.fate for row in others.itertuples() if truth[row.item] == (False, True)]
    assert np.mean([one == "refuted" for one in wrong]) > 0.5
    assert len(found.games) + len(found.drops) == 30 * 5 * 4
    assert play(plan)[2] == digest


def test_without_gates_ill_posed_items_stay() -> None:
    plan, _ = world(0, 8, ill_posed=0.5, gates=False)
    found, truth, _ = play(plan)
    assert any(truth[item][0] for item in found.games["item"])
    assert set(found.questions["fate"]) == {"accepted"}


def test_nobody_sees_a_name_and_participants_never_judge(small: Plan) -> None:
    talkative = wrap(
        small,
        lambda model, request, number: (
            json.dumps({"message": f"I, {model.name}, insist.", "concede": False})
            if request.user.startswith("Task: take your turn")
            else None
        ),
    )
    store = EventStore()
    Benchmark(talkative, store).run()
    prompts = [request.system + request.user for who in talkative.participants for request in who.speaker.seen]
    assert any("I, Bob, insist." in prompt for prompt in prompts)
    assert not any(who.name in prompt for who in talkative.participants for prompt in prompts)
    questions = {event["item"]: event["author"] for event in store.events("question")}
    claims = tally(store, talkative).claims.set_index("claim_id")
    judgments = list(store.events("judgment"))
    assert len(judgments) > 50
    for event in judgments:
        claim = claims.loc[event["claim_id"]]
        assert event["judge"] not in {claim["answerer"], claim["critic"], questions[claim["item"]]}
    assert set(claims["judges"]) == {3}


def test_debates_alternate_from_the_defender_and_stop_at_a_concession() -> None:
    plan, _ = world(1, 3, ill_posed=0.0)
    plan = replace(plan, settings=Settings(debate_rounds=5))
    store = EventStore()
    Benchmark(plan, store).run()
    claims = tally(store, plan).claims.set_index("claim_id")
    lengths = []
    for event in store.events("debate"):
        claim, turns = claims.loc[event["claim_id"]], event["turns"]
        gate = claim["mode"] == "contradictor"
        defender = claim["author"] if gate or claim["type"] == "illposed" else claim["answerer"]
        speakers = [turn["speaker"] for turn in turns]
        assert speakers[0] == defender
        assert all(first != second for first, second in itertools.pairwise(speakers))
        assert len(turns) <= 10
        assert not any(turn["concede"] for turn in turns[:-1])
        assert turns[-1]["concede"] or len(turns) == 10
        lengths.append(len(turns))
    assert min(lengths) < 10


def test_a_second_run_pays_nothing_and_adds_nothing(small: Plan, tmp_path) -> None:
    path = tmp_path / "s.jsonl"
    plan = wrap(small)
    with EventStore(path) as store:
        first = Benchmark(plan, store).run()
        digest = store.digest()
    size, calls = path.stat().st_size, total(plan)
    assert first.calls == calls
    with EventStore(path) as store:
        second = Benchmark(plan, store).run()
        assert store.digest() == digest
    assert (second.calls, second.reused) == (0, calls)
    assert path.stat().st_size == size
    assert total(plan) == calls


def test_a_killed_run_goes_on_without_paying_twice(small: Plan, tmp_path) -> None:
    class Killed(BaseException):
        pass

    path = tmp_path / "s.jsonl"
    reference = EventStore()
    Benchmark(small, reference).run()
    paid: Counter[tuple[str, str, str]] = Counter()
    plan = wrap(small)
    for stop in (100, 250, None):
        store = EventStore(path)
        append = store.append

        def counted(kind, body, append=append, stop=stop):
            if kind == "call":
                if stop is not None and sum(paid.values()) >= stop:
                    raise Killed
                paid[(body["model"], body["prompt"], body["about"])] += 1
            return append(kind, body)

        store.append = counted  # type: ignore[method-assign]
        if stop is None:
            Benchmark(plan, store).run()
        else:
            with pytest.raises(Killed):
                Benchmark(plan, store).run()
        digest = store.digest()
        store.close()
    assert max(paid.values()) == 1
    assert digest == reference.digest()


def test_a_changed_rubric_asks_anew_and_results_do_not_mix(small: Plan) -> None:
    store = EventStore()
    Benchmark(small, store).run()
    before = tally(store, small)
    judged = wrap(replace(small, rubrics=replace(Rubrics(), judgment="Judge kindly.")))
    spent = Benchmark(judged, store).run()
    assert spent.calls == sum(len(who.speaker.seen) for who in judged.participants)
    tasks = {request.user.split("\n", 1)[0] for who in judged.participants for request in who.speaker.seen}
    assert "Task: judge the claim" in tasks
    assert "Task: answer the question" not in tasks
    after = tally(store, small)
    pd.testing.assert_frame_equal(before.games, after.games)


def test_the_budget_stops_the_run_and_a_higher_one_ends_it(small: Plan) -> None:
    store = EventStore()
    whole = EventStore()
    everything = Benchmark(small, whole).run()
    assert everything.finished
    part = Benchmark(small, store, Effort(budget=everything.tokens // 3, connections=1)).run()
    assert not part.finished
    biggest = max(event["input_tokens"] + event["output_tokens"] for event in whole.events("call"))
    # One connection a model: at most five calls are under way when the budget is spent.
    assert part.tokens <= everything.tokens // 3 + 5 * biggest
    found = tally(store, small)
    assert len(found.games) + len(found.drops) == 4 * 5 * 4
    assert found.drops["reason"].str.contains("missing").any()
    rest = Benchmark(small, store).run()
    assert part.tokens + rest.tokens == everything.tokens
    assert store.digest() == whole.digest()


def test_faults_that_pass_are_retried_and_leave_no_trace(small: Plan) -> None:
    reference = EventStore()
    Benchmark(small, reference).run()
    kinds = [Fault("http 429", retry=True), Fault("timeout", retry=True), Fault("http 500", retry=True)]

    def act(model, request, number):
        return kinds[len(request.user) % 3] if number == 1 and len(request.user) % 4 == 0 else None

    store, plan = EventStore(), wrap(small, act)
    Benchmark(plan, store, EAGER).run()
    assert total(plan) > len(list(reference.events("call")))
    assert store.digest() == reference.digest()


def test_unreadable_replies_are_asked_for_once_more(small: Plan) -> None:
    def act(model, request, number):
        judged = request.user.startswith("Task: judge") and model.name == "model-a"
        return "I would rather not say." if judged and "It cannot be read" not in request.user else None

    store, plan = EventStore(), wrap(small, act)
    Benchmark(plan, store, EAGER).run()
    assert "judgment, repair" in {event["stage"] for event in store.events("call")}
    assert all(event["verdict"] != "unknown" for event in store.events("judgment"))


@pytest.mark.parametrize(
    ("task", "who", "fault", "reason"),
    [
        ("Task: write a question", "model-a", Fault("refusal"), "question missing"),
        ("Task: criticise", "model-a", Fault("http 500", retry=True), "gate incomplete"),
        ("Task: answer", "model-a", Fault("cut off"), "answer missing"),
        ("Task: check an answer", "model-a", "no JSON here", "answer missing"),
        ("Task: take your turn", "model-a", Fault("timeout", retry=True), "critique undecided"),
        ("Task: judge", "model-a", "no JSON here", "critique undecided"),
        ("Task: judge", "model-a", Fault("refusal"), "critique undecided"),
    ],
)
def test_lasting_faults_are_drops_with_a_reason_and_never_outcomes(small, task, who, fault, reason) -> None:
    def act(model, request, number):
        return fault if model.name == who and request.user.startswith(task) else None

    clean = EventStore()
    Benchmark(small, clean).run()
    truth = tally(clean, small).games.set_index(["item", "answerer"])["outcome"]
    store, plan = EventStore(), wrap(small, act)
    Benchmark(plan, store, replace(EAGER, retries=2)).run()
    found = tally(store, plan)
    assert len(found.games) + len(found.drops) == 4 * 5 * 4
    assert reason in set(found.drops["reason"])
    # Nobody is asked to answer an item whose gate was not passed.
    fate = found.questions.set_index("item")["fate"]
    assert {fate[event["item"]] for event in store.events("answer")} <= {"accepted", "ill-posed"}
    if task == "Task: judge" and isinstance(fault, Fault):
        assert "gate incomplete" in set(fate)
    kept = found.games.set_index(["item", "answerer"])["outcome"]
    assert len(kept) < len(truth)
    common = kept.index.intersection(truth.index)
    if isinstance(fault, Fault):  # an unreadable verdict counts as "unknown"; all else that is missing decides nothing
        assert len(common) == len(kept)
    assert (kept[common] == truth[common]).all()
    if isinstance(fault, Fault) and not task.startswith("Task: judge"):
        details = found.drops[found.drops["reason"] == reason]["detail"]
        explained = details.str.contains(fault.reason)
        assert explained.any() if task.startswith("Task: take") else explained.all()
    if isinstance(fault, Fault) and fault.retry:
        tried = [count for one in plan.participants for text, count in one.speaker.calls.items() if one.name == who
                 and text.startswith(task)]  # fmt: skip
        assert tried
        assert all(count % 3 == 0 for count in tried)
    # The endpoint recovers: the same store, the same run, and nothing is missing any more.
    Benchmark(small, store, EAGER).run()
    if not isinstance(fault, str):  # an unreadable reply was paid for and stands
        pd.testing.assert_frame_equal(tally(store, small).games, tally(clean, small).games)


def test_a_hanging_endpoint_is_a_timeout(small: Plan) -> None:
    class Hanging:
        async def say(self, request: Request) -> Reply:
            await asyncio.sleep(60)
            raise AssertionError

    models = (replace(small.participants[0], speaker=Hanging()), *small.participants[1:])
    plan = replace(small, participants=models, topics=("one",))
    store = EventStore()
    Benchmark(plan, store, Effort(seconds=0.01, retries=0)).run()
    assert {event["reason"] for event in store.events("fault")} == {"timeout"}
    assert len(tally(store, plan).games) == 0


def test_an_ill_posed_item_takes_all_its_games_with_it() -> None:
    plan, _ = world(0, 20, ill_posed=0.5)
    found, truth, _ = play(replace(plan, settings=replace(plan.settings, gate=False)))
    fate = found.questions.set_index("item")["fate"]
    void = set(fate.index[fate == "ill-posed"])
    assert void <= {item for item in fate.index if truth[item][0]}
    assert len(void) > sum(truth[item][0] for item in fate.index) / 2
    assert not void & set(found.games["item"])
    lost = found.drops[found.drops["item"].isin(void)]
    assert len(lost) == 4 * len(void)
    assert set(lost["reason"]) == {"item ill-posed"}


@pytest.mark.filterwarnings("error")
def test_a_refused_key_ends_the_run_at_once_and_keeps_what_was_paid(small: Plan, tmp_path) -> None:
    def act(model, request, number):
        broken = model.name == "model-c" and request.user.startswith("Task: judge")
        return InputError("The endpoint answers 401 (no); check key, address and model name.") if broken else None

    with EventStore(tmp_path / "s.jsonl") as store, pytest.raises(InputError, match="answers 401"):
        Benchmark(wrap(small, act), store).run()
    with EventStore(tmp_path / "s.jsonl") as store:
        kept = len(list(store.events("call")))
        assert kept > 20
        spent = Benchmark(small, store).run()
        assert spent.reused == kept
    reference = EventStore()
    Benchmark(small, reference).run()
    assert spent.calls == len(list(reference.events("call"))) - kept


def test_all_critics_together_catch_more(small: Plan) -> None:
    weak = tuple(
        replace(who, speaker=ScriptedModel(who.name, replace(who.speaker.skills, attack=0.3)))
        for who in small.participants
    )
    plan = replace(small, participants=weak)
    upheld = []
    for critics in ("author", "all"):
        found, _, _ = play(replace(plan, settings=replace(plan.settings, critics=critics)))
        upheld.append((found.games["outcome"] == 0).sum())
        assert len(found.games) + len(found.drops) == 4 * 5 * 4
    assert upheld[1] > 1.5 * upheld[0]


def test_human_queue_out_and_labels_in(small: Plan, tmp_path) -> None:
    plan = replace(small, topics=tuple(f"t{k}" for k in range(8)))
    store = EventStore()
    Benchmark(plan, store).run()
    found = tally(store, plan)
    queue = open_claims(store, plan, found)
    assert len(queue) == (found.claims["by"] == "nobody").sum() > 3
    text = queue.to_csv()
    assert not any(who.name in text for who in plan.participants)
    assert set(queue["debate"].str[:3]) <= {"Ali", "Bob"}
    evaluator = found.claims[found.claims["mode"] == "evaluator"]["claim_id"]
    labelled = queue.assign(
        verdict=["claimant_wins" if claim in set(evaluator) else "" for claim in queue["claim_id"]], labeller="ann"
    )
    path = tmp_path / "q.csv"
    labelled.to_csv(path, index=False)
    labels = read_labels(path)
    assert len(labels) == (labelled["verdict"] != "").sum()
    add_labels(store, labels)
    Benchmark(plan, store).run()
    after = tally(store, plan)
    assert len(after.games) == len(found.games) + len(labels)
    assert (after.games["reason"] == "critique upheld").sum() == (
        found.games["reason"] == "critique upheld"
    ).sum() + len(labels)
    assert set(after.claims["by"]) == {"panel", "human", "nobody"} or set(after.claims["by"]) == {"panel", "human"}
    with pytest.raises(InputError, match="labels are never changed"):
        add_labels(store, [(Label(labels[0][0].claim_id, "ben", "wrong_problem"), "critique")])


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([("1", "mixed", None), ("2", None, "ann")], "verdict on the claim 1 without a labeller"),
        ([("1", "claimant_win", "ann")], "did you mean 'claimant_wins'"),
        ([("1", "mixed", "ann"), ("1", "unknown", "ben")], "labels the claim 1 both 'mixed' .ann. and 'unknown' .ben."),
    ],
)
def test_bad_labels_are_refused(tmp_path, rows, said) -> None:
    path = tmp_path / "l.csv"
    pd.DataFrame(rows, columns=["claim_id", "verdict", "labeller"]).to_csv(path, index=False)
    with pytest.raises(InputError, match=said):
        read_labels(path)


def test_a_failed_self_check_is_refined_and_then_given_up(small: Plan) -> None:
    def act(model, request, number):
        failing = model.name == "model-a" and request.user.startswith("Task: check an answer")
        return json.dumps({"verdict": "fail", "issues": "step 3"}) if failing else None

    plan = wrap(replace(small, settings=replace(small.settings, check_rounds=3)), act)
    store = EventStore()
    Benchmark(plan, store).run()
    mine = [event for event in store.events("answer") if event["answerer"] == "model-a"]
    assert {(event["status"], event["rounds"]) for event in mine} == {("failed", 3)}
    games = tally(store, plan).games
    assert set(games[games["answerer"] == "model-a"]["outcome"]) == {0}
    refined = [request for request in plan.participants[0].speaker.seen if "failed your own check" in request.user]
    assert len([request for request in refined if request.user.startswith("Task: answer")]) == 2 * len(mine)


def test_an_author_whose_questions_never_hold_loses_its_games() -> None:
    skills = [Skills(solve=1.0)] * 4 + [Skills(ill_posed=1.0)]
    models = tuple(Participant(f"model-{k}", ScriptedModel(f"model-{k}", one)) for k, one in enumerate(skills))
    plan = Plan(models, ("a", "b", "c"), Settings(attempts=2))
    found, _, _ = play(plan)
    assert "model-4" not in set(found.games["author"])
    lost = found.drops[found.drops["author"] == "model-4"]
    assert len(lost) == 3 * 4
    assert set(lost["reason"]) <= {"no valid question", "item ill-posed"}
    assert (found.questions[found.questions["author"] == "model-4"]["attempt"] == 2).any()
