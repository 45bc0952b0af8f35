"""Collecting preferences from judges: orders, ties for flips, retries, drops, and a real endpoint."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest

from workingpapers.foundations.errors import InputError
from workingpapers.foundations.progress import silent
from workingpapers.preferences.condorcet_nash import chat_judge, collect_preferences, diagnose, parse_verdict, win_rates
from workingpapers.preferences.condorcet_nash.experiments import judged, scripted_judge

RANKING = {"good": 0, "fair": 1, "poor": 2}


def honest(prompt, first, second, persona):
    return "A" if RANKING[first] < RANKING[second] else "B"


@pytest.mark.parametrize(
    ("reply", "verdict"),
    [("A", 1.0), (" b.\n", 0.0), ("C", 0.5), ("Tie", 0.5), ("**first**", 1.0), ("A long story. [[B]]", 0.0),
     ("[[A]] or rather [[B]]", 0.0), ("A is better than B", None), ("", None), ("D", None)],
)  # fmt: skip
def test_verdicts(reply, verdict):
    assert parse_verdict(reply) == verdict


def test_an_honest_judge_gives_its_ranking_and_is_asked_twice_a_pair():
    calls = []

    def judge(prompt, first, second, persona):
        calls.append((prompt, first, second, persona))
        return honest(prompt, first, second, persona)

    got = collect_preferences(judge, "why?", list(RANKING), personas=("x", "y"))
    assert got.wins.tolist() == [[0, 2, 2], [0, 0, 2], [0, 0, 0]]
    assert (got.asked, got.retried, got.dropped, got.flips) == (12, 0, 0, 0)
    assert got.first_share == 0.5
    assert len(set(calls)) == 12
    assert {call[0] for call in calls} == {"why?"}


def test_a_judge_that_always_picks_the_first_gives_ties_and_is_found_out():
    got = collect_preferences(lambda *_: "A", "", list(RANKING))
    assert (got.votes == 0.5).all()
    assert got.flips == 3
    assert got.first_share == 1
    once = collect_preferences(lambda *_: "A", "", list(RANKING), orders="first")
    assert once.wins.tolist() == [[0, 1, 1], [0, 0, 1], [0, 0, 0]]
    assert once.asked == 3


def test_one_verdict_beside_a_tie_is_three_quarters():
    replies = iter("AC")
    got = collect_preferences(lambda *_: next(replies), "", ["p", "q"])
    assert got.votes[0, 0, 1] == 0.75
    assert got.votes[0, 1, 0] == 0.25
    assert got.flips == 0


def test_malformed_replies_are_retried_then_the_pair_is_dropped():
    replies = iter(["?", "A", "B", "A", "?", "?", "?"])
    # Pair (0, 1): "?", then A; swapped: B, so 0 wins. Pair (0, 2): A; swapped: three times "?", dropped. Then the end.
    got = collect_preferences(lambda *_: next(replies, "C"), "", ["p", "q", "r"])
    assert got.votes[0, 0, 1] == 1
    assert np.isnan(got.votes[0, 0, 2])
    assert np.isnan(got.votes[0, 2, 0])
    assert got.votes[0, 1, 2] == 0.5
    assert (got.asked, got.retried, got.dropped) == (9, 3, 1)
    assert got.wins[0, 2] == got.wins[2, 0] == 0


def test_a_dead_judge_is_reported_at_once():
    calls = []

    def dead(*_):
        calls.append(1)
        raise ConnectionError("refused")

    with pytest.raises(InputError, match="no usable reply"):
        collect_preferences(dead, "", list(RANKING), personas=[str(k) for k in range(50)])
    assert len(calls) == 6


def test_bugs_of_the_judge_pass_through():
    with pytest.raises(ZeroDivisionError):
        collect_preferences(lambda *_: str(1 / 0), "", list(RANKING))


def test_nothing_to_compare_is_refused():
    with pytest.raises(InputError, match="1 responses"):
        collect_preferences(honest, "", ["good"])
    with pytest.raises(InputError, match="0 personas"):
        collect_preferences(honest, "", ["good", "poor"], personas=())


def test_a_flaky_network_costs_retries_only():
    state = {"calls": 0}

    def flaky(*arguments):
        state["calls"] += 1
        if state["calls"] % 3 == 0:
            raise TimeoutError
        return honest(*arguments)

    got = collect_preferences(flaky, "", list(RANKING))
    assert got.dropped == 0
    assert got.retried == state["calls"] - 6 > 0
    assert diagnose(win_rates(got.wins)).winner == 0


def test_planted_majorities_come_back_with_both_orders_and_not_with_one():
    results = {
        orders: judged(0, silent, orders=orders, panels=5, position_bias=0.3) for orders in ("both", "fixed", "random")
    }
    both, fixed = results["both"], results["fixed"]
    assert both["wrong"] <= 2 / 28
    assert both["planted"] == 1
    assert both["control"] < 0.1
    assert fixed["wrong"] > both["wrong"]
    assert fixed["planted"] < 1
    assert fixed["control"] > both["control"]
    assert both["asked"] > 1.9 * fixed["asked"]


def test_a_larger_panel_is_sure_of_the_planted_cycle():
    found = judged(0, silent, orders="both", panels=2, position_bias=0.1, personas=91)
    assert found["cycle"] > 0.9
    assert found["control"] < 0.1


@pytest.fixture
def endpoint():
    """A chat endpoint whose personas have planted rankings; some questions fail when first asked, some get no JSON."""
    rankings = np.array([[0, 1, 2, 3], [1, 2, 0, 3], [2, 0, 1, 3]])
    state = {"requests": 0, "seen": [], "asked": set()}
    lock = threading.Lock()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            system, user = (message["content"] for message in body["messages"])
            first, second = (int(user.split(f"Response {mark}:\n")[1][0]) for mark in "AB")
            with lock:
                state["requests"] += 1
                asked_before = (system, first, second) in state["asked"]
                state["asked"].add((system, first, second))
                state["seen"].append((self.path, self.headers.get("Authorization"), body["model"]))
            trouble = None if asked_before else {0: "error", 1: "no JSON"}.get((int(system) + first + second) % 4)
            if trouble == "error":
                self.send_error(503)
                return
            ranks = np.argsort(rankings[int(system)])
            reply = {"choices": [{"message": {"content": "A" if ranks[first] < ranks[second] else "B"}}]}
            content = b"oops" if trouble else json.dumps(reply).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *arguments):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}/v1", state
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize("threads", [1, 4])
def test_a_real_endpoint_gives_the_planted_cycle(endpoint, threads):
    url, state = endpoint
    judge = chat_judge(url, "little-judge", key="secret", timeout=10)
    got = collect_preferences(judge, "Tell me.", list("0123"), personas=list("012"), threads=threads)
    assert got.dropped == 0
    assert got.retried == 18
    assert got.asked == 36 + 18 == state["requests"]
    assert got.wins[:3, :3].tolist() == [[0, 2, 1], [1, 0, 2], [2, 1, 0]]
    assert diagnose(win_rates(got.wins)).cycle.responses == (0, 1, 2)
    assert set(state["seen"]) == {("/v1/chat/completions", "Bearer secret", "little-judge")}


def test_an_address_that_is_none_is_refused():
    with pytest.raises(InputError, match="no http address"):
        chat_judge("localhost", "m")


def test_scripted_judge_has_the_bias_that_it_was_given():
    judge = scripted_judge(np.array([[1, 0]]), np.random.default_rng(0), position_bias=0.3, malformed=0.1)
    replies = [judge("", "0", "1", "0") for _ in range(5000)]
    assert np.mean([reply == "A" for reply in replies]) == pytest.approx(0.27, abs=0.03)
    assert np.mean([reply not in "AB" for reply in replies]) == pytest.approx(0.1, abs=0.02)
