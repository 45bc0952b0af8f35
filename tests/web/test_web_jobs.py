"""The queue of work: bound, progress, cancelling, resuming, restarts."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest

from workingpapers.replication.store import Store

CHECK = {"paper": "condorcet_nash", "claims": ["noise"], "size": "smallest", "seeds": 2, "workers": 1}
LONG = {**CHECK, "seeds": 400}


def start(client, **changes):
    answer = client.post("/api/checks", json={**CHECK, **changes})
    assert answer.status_code == 202, answer.text
    return answer.json()["id"]


def events(text):
    return [json.loads(line[6:]) for line in text.splitlines() if line.startswith("data: ")]


def running_with_outcomes(job):
    return job["state"] == "running" and job["progress"].get("done", 0) >= 2


def test_a_check_runs_from_start_to_verdict_and_tells_of_it(client, ended):
    number = start(client)
    told = events(client.get(f"/api/jobs/{number}/events").text)
    assert told[0]["state"] in ("waiting", "running")
    assert told[-1]["state"] == "done"
    arms = {event["progress"].get("arm") for event in told} - {None, ""}
    assert arms == {"certificate", "posterior over 0.95", "counts as they are"}
    assert {event["progress"].get("seed") for event in told} >= {0, 1}
    assert told[-1]["progress"]["done"] == told[-1]["progress"]["total"] == 6
    done = [event["progress"].get("done", 0) for event in told]
    assert done == sorted(done)
    assert any("remaining" in event["progress"] for event in told)
    [verdict] = told[-1]["verdicts"]
    result = client.get(f"/api/results/{verdict['run']}").json()
    assert result["verdict"] == verdict["verdict"]
    assert result["seeds"] == 2
    page = client.get(f"/jobs/{number}").text
    assert result["verdict"] in page
    assert f"/results/{verdict['run']}/figure" in page
    assert client.get(f"/results/{verdict['run']}/figure").text.count("<svg") == 1


def test_the_page_answers_while_a_check_runs(client, ended):
    number = start(client, **LONG)
    ended(client, number, until=running_with_outcomes)
    begun = time.perf_counter()
    assert client.get("/").status_code == 200
    assert client.get("/api/search", params={"q": "nash"}).status_code == 200
    assert time.perf_counter() - begun < 10  # not the hundreds of seconds that the check takes
    assert client.post(f"/api/jobs/{number}/cancel").json()["state"] == "cancelled"


def test_a_cancelled_check_keeps_what_it_finished_and_resumes_with_the_rest(client, ended):
    number = start(client, **LONG)
    ended(client, number, until=running_with_outcomes)
    assert client.post(f"/api/jobs/{number}/cancel").json()["state"] == "cancelled"
    store = Store()
    [run] = store.runs()
    assert run.status == "unfinished"
    kept = {(item.seed, item.arm): item.seconds for item in store.outcomes(run.id)}
    assert len(kept) >= 2
    store.set_seeds(run.id, 5)  # another number than the size's own
    resumed = client.post(f"/api/results/{run.id}/resume")
    assert resumed.status_code == 202
    job = ended(client, resumed.json()["id"])
    assert job["state"] == "done", job
    [run] = store.runs()
    assert run.status == "complete"
    after = {(item.seed, item.arm): item.seconds for item in store.outcomes(run.id)}
    assert {key: after[key] for key in kept} == kept  # not run again
    assert {seed for seed, _ in after} == {0, 1, 2, 3, 4}
    assert client.post(f"/api/results/{run.id}/resume").status_code == 400


def test_jobs_wait_in_turn_and_the_queue_has_a_bound(serve, ended):
    client = serve(waiting_limit=2)
    first = start(client, **LONG)
    ended(client, first, until=lambda job: job["state"] == "running")
    second, third = start(client), start(client)
    refused = client.post("/api/checks", json=CHECK)
    assert refused.status_code == 429
    assert "waiting already" in refused.json()["detail"]
    assert client.post("/api/imports", files={"files": ("a.csv", b"title\nx\n")}).status_code == 429
    places = [client.get(f"/api/jobs/{number}").json()["place"] for number in (second, third)]
    assert places == [0, 1]
    assert client.post(f"/api/jobs/{third}/cancel").json()["state"] == "cancelled"
    assert client.post(f"/api/jobs/{first}/cancel").json()["state"] == "cancelled"
    assert ended(client, second)["state"] == "done"
    assert client.get(f"/api/jobs/{third}").json()["state"] == "cancelled"


def test_cancelling_what_has_ended_changes_nothing(client, ended):
    number = start(client)
    before = ended(client, number)
    assert client.post(f"/api/jobs/{number}/cancel").json() == before


def test_a_new_server_finds_what_the_old_one_left_and_resumes_it(serve, ended):
    old = serve()
    number = start(old, **LONG)
    waiting = start(old)
    ended(old, number, until=running_with_outcomes)
    old.__exit__(None, None, None)
    [run] = Store().runs()
    assert run.status == "unfinished"
    new = serve()
    for left in (number, waiting):
        assert new.get(f"/api/jobs/{left}").json()["state"] == "interrupted"
    page = new.get("/jobs").text
    assert f'action="/results/{run.id}/resume"' in page
    assert f'action="/results/{run.id}/resume"' in new.get("/papers/condorcet_nash").text
    Store().set_seeds(run.id, 2)
    answer = new.post(f"/results/{run.id}/resume", follow_redirects=False)
    assert ended(new, answer.headers["location"].split("/")[-1])["state"] == "done"
    assert f"/results/{run.id}/resume" not in new.get("/jobs").text


def test_a_run_that_the_command_line_left_is_offered_too(client):
    from workingpapers.catalog.papers import get
    from workingpapers.replication.environment import describe, fingerprint

    paper = get("condorcet_nash")
    settings = paper.claims()[0].size("smallest").settings
    run = Store().begin(paper.slug, "headline", "smallest", 3, settings, fingerprint(paper.folder), describe())
    assert f"/results/{run}/resume" in client.get("/jobs").text


def test_a_killed_server_takes_its_worker_with_it(data_folder, tmp_path):
    program = (
        "import sys, time, json; from starlette.testclient import TestClient\n"
        "from workingpapers.web.app import create_app\n"
        "client = TestClient(create_app(warm_up=False), base_url='http://127.0.0.1:1'); client.__enter__()\n"
        f"number = client.post('/api/checks', json=json.loads({json.dumps(json.dumps(LONG))})).json()['id']\n"
        "while client.get(f'/api/jobs/{number}').json()['progress'].get('done', 0) < 1: time.sleep(0.1)\n"
        "print(client.app.state.web.jobs._process.pid, flush=True); time.sleep(600)\n"
    )
    server = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    worker = int(server.stdout.readline())
    os.kill(worker, 0)
    server.send_signal(signal.SIGKILL)
    server.wait()
    deadline = time.monotonic() + 30
    while alive(worker):
        assert time.monotonic() < deadline, "the worker outlives its server"
        time.sleep(0.1)
    assert Store().runs()[0].status == "unfinished"


def alive(number):
    try:
        with open(f"/proc/{number}/stat", encoding="utf-8") as stream:
            return stream.read().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.mark.parametrize(
    ("changes", "status"),
    [
        ({"paper": "nope"}, 404),
        ({"size": "huge"}, 422),
        ({"seeds": 0}, 422),
        ({"workers": 900}, 400),
        ({"paper": "condorcet_nsah"}, 404),
        ({"unknown": 1}, 422),
    ],
)
def test_a_check_that_cannot_be_is_refused_at_once(client, changes, status):
    assert client.post("/api/checks", json={**CHECK, **changes}).status_code == status


def test_an_unknown_claim_fails_with_its_sentence(client, ended):
    job = ended(client, start(client, claims=["nosie"]))
    assert job["state"] == "failed"
    assert "did you mean 'noise'" in job["error"]
    assert "did you mean" in client.get(f"/jobs/{job['id']}").text


def test_old_jobs_are_removed_with_their_files(serve, ended, data_folder):
    client = serve(kept_jobs=2)
    for _ in range(3):
        ended(client, start(client, claims=["x"]))
    last = start(client, claims=["x"])
    ended(client, last)
    kept = {job["id"] for job in client.get("/api/jobs").json()}
    assert len(kept) == 3
    assert {folder.name for folder in (data_folder / "web" / "jobs").iterdir()} == kept


def test_two_results_are_compared(client, ended):
    runs = []
    for seeds in (2, 3):
        job = ended(client, start(client, seeds=seeds))
        runs.append(job["verdicts"][0]["run"])
    assert len(set(runs)) == 2
    answer = client.get("/results", params={"run": runs}, follow_redirects=False)
    assert answer.headers["location"] == f"/results/{runs[0]}/compared/{runs[1]}"
    table = client.get(f"/api/results/{runs[0]}/compared/{runs[1]}").json()
    rows = {row[0]: row[1:] for row in table["rows"]}
    assert rows["seeds"] == [2, 3]
    assert rows["verdict"][0] == client.get(f"/api/results/{runs[0]}").json()["verdict"]
    page = client.get(answer.headers["location"])
    assert page.status_code == 200
    assert f"run {runs[1]}" in page.text
    other = ended(client, start(client, claims=["headline"], seeds=2))["verdicts"][0]["run"]
    assert client.get(f"/api/results/{runs[0]}/compared/{other}").status_code == 400
    assert client.get(f"/api/results/{runs[0]}/compared/999").status_code == 404
