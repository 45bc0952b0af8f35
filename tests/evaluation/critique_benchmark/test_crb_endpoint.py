"""The protocol over real HTTP: inspect-ai's client against a local endpoint that speaks the OpenAI chat protocol."""

from __future__ import annotations

import asyncio
import json

import pytest

from workingpapers.cli import main
from workingpapers.evaluation.critique_benchmark.caller import Effort
from workingpapers.evaluation.critique_benchmark.experiments import SLOPPY, world
from workingpapers.evaluation.critique_benchmark.games import tally
from workingpapers.evaluation.critique_benchmark.plan import Plan
from workingpapers.evaluation.critique_benchmark.protocol import Benchmark
from workingpapers.evaluation.critique_benchmark.speakers import Fault, InspectSpeaker, Participant, Request
from workingpapers.evaluation.critique_benchmark.store import EventStore, canonical
from workingpapers.foundations.errors import InputError

EAGER = Effort(backoff=0.0, retries=3, connections=4)
ASK = Request("You are brief.", "Task: judge", 0.0, 64, 0)


@pytest.fixture(autouse=True)
def key(monkeypatch) -> None:
    monkeypatch.setenv("LAB_API_KEY", "for-the-test")
    monkeypatch.setenv("INSPECT_LOG_LEVEL", "error")


def serve(endpoint, topics: int, share: float = 0.3) -> Plan:
    """Put the models of a scripted world behind the endpoint and return the same plan with clients for speakers."""
    plan, _ = world(0, topics, ill_posed=share)
    endpoint.models.update({who.name: who.speaker for who in plan.participants})
    models = tuple(
        Participant(who.name, InspectSpeaker(f"openai-api/lab/{who.name}", endpoint.url, seconds=30))
        for who in plan.participants
    )
    return Plan(models, plan.topics, plan.settings)


def test_http_gives_the_same_games_as_the_models_themselves(endpoint) -> None:
    plan, local = serve(endpoint, 1), world(0, 1, ill_posed=0.3)[0]
    store, reference = EventStore(), EventStore()
    spent = Benchmark(plan, store, EAGER).run()
    Benchmark(local, reference).run()
    assert spent.finished
    assert spent.calls == sum(endpoint.requests.values()) == endpoint.statuses[200]
    over_http, inside = tally(store, plan), tally(reference, local)
    columns = ["answerer", "author", "item", "outcome", "reason", "topic"]
    assert over_http.games[columns].to_dict("records") == inside.games[columns].to_dict("records")
    assert over_http.questions["fate"].tolist() == inside.questions["fate"].tolist()
    for kind in ("question", "answer", "critique", "debate", "judgment"):
        assert sorted(map(canonical, store.events(kind))) == sorted(map(canonical, reference.events(kind)))
    assert plan.participants[SLOPPY].name in set(over_http.questions["author"])
    assert endpoint.keys == {"Bearer for-the-test"}


def test_faults_of_the_endpoint_are_retried_or_dropped_and_accounted_for(endpoint) -> None:
    plan = serve(endpoint, 1, 0.0)
    clean = EventStore()
    Benchmark(plan, clean, EAGER).run()
    truth = tally(clean, plan).games.set_index(["item", "answerer"])["outcome"]
    before = sum(endpoint.requests.values())
    endpoint.requests.clear()

    def trouble(model: str, prompt: str, number: int) -> object:
        kind = len(prompt) % 7
        if number == 1 and kind in (0, 1):
            return (429, 503)[kind]
        if number == 1 and kind == 2 and prompt.startswith("Task: criticise"):
            return "Well, {broken: json"
        if model == "model-b" and prompt.startswith("Task: answer"):
            return "refusal"
        if model == "model-c" and prompt.startswith("Task: answer"):
            return 500
        if model == "model-d" and prompt.startswith("Task: answer"):
            return "cut off"
        return None

    endpoint.trouble = trouble
    store = EventStore()
    Benchmark(plan, store, EAGER).run()
    found = tally(store, plan)
    assert endpoint.statuses[429] > 0
    assert endpoint.statuses[503] > 0
    assert len(found.games) + len(found.drops) == 5 * 4
    kept = found.games.set_index(["item", "answerer"])["outcome"]
    assert kept.to_dict() == {key: truth[key] for key in kept.index}
    assert set(found.games["answerer"]) == {"model-a", "model-e"}
    details = found.drops.groupby("answerer")["detail"].agg(" ".join)
    assert "refusal" in details["model-b"]
    assert "http 500" in details["model-c"]
    assert "cut off" in details["model-d"]
    tries = [count for (model, text), count in endpoint.requests.items() if text.startswith("Task: answer")
             and model == "model-c"]  # fmt: skip
    assert all(count % 4 == 0 for count in tries)
    # A refusal is not asked for again; some requests met one passing error before it.
    refused = {
        (len(text) % 7 in (0, 1), count)
        for (model, text), count in endpoint.requests.items()
        if text.startswith("Task: answer") and model == "model-b"
    }
    assert (False, 1) in refused
    assert refused <= {(False, 1), (True, 2)}
    # The endpoint recovers, and the run goes on where it was.
    endpoint.trouble = lambda model, prompt, number: None
    endpoint.requests.clear()
    Benchmark(plan, store, EAGER).run()
    assert sum(endpoint.requests.values()) < before / 2
    assert tally(store, plan).games.set_index(["item", "answerer"])["outcome"].to_dict() == truth.to_dict()


def ask(endpoint, trouble: object, seconds: float = 30) -> object:
    endpoint.models["model-x"] = world(0, 1, ill_posed=0.0)[0].participants[0].speaker
    endpoint.trouble = lambda model, prompt, number: trouble
    speaker = InspectSpeaker("openai-api/lab/model-x", endpoint.url, seconds)
    try:
        return asyncio.run(speaker.say(ASK))
    except (Fault, InputError) as error:
        return error


@pytest.mark.parametrize(
    ("trouble", "reason", "retry"),
    [
        (429, "http 429", True),
        (500, "http 500", True),
        (400, "http 400", False),
        ("refusal", "refusal", False),
        ("cut off", "cut off", False),
        ("   ", "empty reply", True),
    ],
)
def test_each_fault_has_its_name(endpoint, trouble, reason, retry) -> None:
    found = ask(endpoint, trouble)
    assert isinstance(found, Fault)
    assert (found.reason, found.retry) == (reason, retry)
    assert sum(endpoint.requests.values()) == 1  # no layer below retries


def test_a_stalling_endpoint_is_a_timeout(endpoint) -> None:
    found = ask(endpoint, 2.5, seconds=1)
    assert isinstance(found, Fault)
    assert (found.reason, found.retry) == ("timeout", True)


def test_tokens_are_those_that_the_endpoint_counted(endpoint) -> None:
    found = ask(endpoint, json.dumps({"verdict": "mixed"}))
    assert found.input_tokens == len(ASK.user) // 4
    assert found.output_tokens == len('{"verdict": "mixed"}') // 4


def test_a_wrong_key_or_model_name_ends_the_run_with_a_sentence(endpoint) -> None:
    for status in (401, 404):
        found = ask(endpoint, status)
        assert isinstance(found, InputError)
        assert f"The endpoint answers {status}" in str(found)


def test_nobody_there_is_a_fault(endpoint) -> None:
    speaker = InspectSpeaker("openai-api/lab/model-x", "http://127.0.0.1:9/v1", 5)
    with pytest.raises(Fault) as caught:
        asyncio.run(speaker.say(ASK))
    assert caught.value.reason == "connection"
    assert caught.value.retry


def test_the_command_runs_over_http(endpoint, tmp_path, capsys) -> None:
    serve(endpoint, 1)
    topics = tmp_path / "topics.txt"
    topics.write_text("# one topic\nprimes\n")
    names = ",".join(f"openai-api/lab/{name}" for name in endpoint.models)
    words = ["run", "critique_benchmark", "--topics", str(topics), "--models", names, "--base-url", endpoint.url]
    words += ["--store", str(tmp_path / "events.jsonl"), "--debate-rounds", "1", "--draws", "0", "--json"]
    words += ["--report", str(tmp_path / "report.html"), "--queue", str(tmp_path / "queue.csv")]
    assert main(words) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["finished"]
    assert told["games"] + told["dropped"] == 5 * 4
    assert told["calls"] == sum(endpoint.requests.values())
    assert "<svg" in (tmp_path / "report.html").read_text()
    assert main(words) == 0
    assert json.loads(capsys.readouterr().out)["calls"] == 0


def test_unknown_providers_and_missing_keys_are_one_sentence(monkeypatch) -> None:
    with pytest.raises(InputError, match="The model 'nonsense/x' cannot be used"):
        InspectSpeaker("nonsense/x")
    monkeypatch.delenv("LAB_API_KEY")
    with pytest.raises(InputError, match="LAB_API_KEY"):
        InspectSpeaker("openai-api/lab/model-x", "http://127.0.0.1:9/v1")
