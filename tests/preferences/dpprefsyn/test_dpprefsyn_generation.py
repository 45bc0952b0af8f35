"""Responses over a chat endpoint: faults as drops, interrupted runs, nothing paid for twice, text to policy."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest

pytest.importorskip("opendp")
pytest.importorskip("dp_accounting")
pytest.importorskip("sklearn")
pytest.importorskip("inspect_ai")
pytest.importorskip("openai")

from sklearn.feature_extraction.text import HashingVectorizer
from sklearn.linear_model import LogisticRegression

from workingpapers.cli import main
from workingpapers.foundations.errors import InputError
from workingpapers.preferences.dpprefsyn import ResponseFile, Sampling, generate, running
from workingpapers.preferences.dpprefsyn import generation as generation_module
from workingpapers.preferences.dpprefsyn.command import run

STYLES = {
    "polite": ("thank you kindly dear friend", "no"),
    "cited": ("see reference page twelve of handbook", "as everybody knows"),
    "long": ("moreover there is much to be said further and further still", "that is all"),
}


class Hashed:
    name = "hashed words"

    def __init__(self):
        self.vectorizer = HashingVectorizer(n_features=96, norm="l2")

    def __call__(self, texts):
        return self.vectorizer.transform(texts).toarray()


def answer(rng):
    return " ".join(options[rng.integers(2)] for options in STYLES.values()) + f" {rng.integers(10_000)}"


def utility(text, style):
    return float(STYLES[style][0] in text)


class Endpoint:
    """A chat endpoint that keeps count, answers in random style and fails where told to."""

    def __init__(self):
        self.calls, self.rng, self.lock, self.fail = 0, np.random.default_rng(0), threading.Lock(), lambda n, text: None
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                with outer.lock:
                    outer.calls += 1
                    status, text = outer.fail(outer.calls, body["messages"][-1]["content"]) or (200, answer(outer.rng))
                choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
                reply = {"id": "x", "object": "chat.completion", "created": 0, "model": "m", "choices": [choice],
                         "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}}  # fmt: skip
                raw = json.dumps(reply if status == 200 else {"error": {"message": text}}).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(raw)))
                self.end_headers()
                self.wfile.write(raw)

            def log_message(self, *arguments):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    @property
    def address(self):
        return f"http://127.0.0.1:{self.server.server_address[1]}/v1"


@pytest.fixture
def endpoint(monkeypatch, tmp_path):
    monkeypatch.setenv("LAB_API_KEY", "none")
    monkeypatch.setenv("WORKINGPAPERS_DATA", str(tmp_path / "data"))
    made = Endpoint()
    yield made
    made.server.shutdown()
    made.server.server_close()


SAMPLING = Sampling("openai-api/lab/m", count=3)


def test_responses_are_kept_and_not_asked_for_again(endpoint, tmp_path):
    path = tmp_path / "responses.jsonl"
    with ResponseFile(path, SAMPLING) as file:
        generate(file, ["one", "two"], base_url=endpoint.address)
        first = file.responses(["one", "two"])
        with pytest.raises(InputError, match="in use by another run"):
            ResponseFile(path, SAMPLING)
    assert endpoint.calls == 6
    assert [len(texts) for texts in first] == [3, 3]
    with ResponseFile(path, SAMPLING) as file:
        generate(file, ["one", "two", "three"], base_url=endpoint.address)
        assert file.responses(["one", "two"]) == first
    assert endpoint.calls == 9
    with path.open("ab") as stream:
        stream.write(b'{"key": "half a li')
    with ResponseFile(path, SAMPLING) as file:
        generate(file, ["one", "two", "three"], base_url=endpoint.address)
        assert file.responses(["one", "two"]) == first
    assert endpoint.calls == 9
    with ResponseFile(path, Sampling("openai-api/lab/m", count=3, temperature=0.1)) as file:
        assert len(file.missing(["one"])) == 3  # another temperature is another question


def test_faults_are_drops_and_those_that_may_pass_are_asked_again(endpoint, tmp_path):
    busy = {"two": True}

    def fail(number, text):
        if text == "two" and busy["two"]:
            return 503, "busy"
        if text == "three":
            return 200, "  "
        if text == "four":
            return 400, "no such thing"
        return None

    endpoint.fail = fail
    prompts = ["one", "two", "three", "four"]
    with ResponseFile(tmp_path / "responses.jsonl", SAMPLING) as file:
        generate(file, prompts, base_url=endpoint.address, retries=1)
        assert [len(texts) for texts in file.responses(prompts)] == [3, 0, 0, 0]
        assert file.faults(prompts) == {"http 503": 3, "empty response": 3, "http 400": 3}
        assert endpoint.calls == 3 + 6 + 6 + 3
        busy["two"] = False
        generate(file, prompts, base_url=endpoint.address, retries=0)
        assert [len(texts) for texts in file.responses(prompts)] == [3, 3, 0, 0]
        assert file.faults(prompts) == {"empty response": 3, "http 400": 3}
        assert endpoint.calls == 18 + 3 + 3


def test_a_wrong_key_stops_at_once(endpoint, tmp_path):
    endpoint.fail = lambda number, text: (401, "wrong key")
    with ResponseFile(tmp_path / "responses.jsonl", SAMPLING) as file, pytest.raises(InputError, match="answers 401"):
        generate(file, [f"prompt {n}" for n in range(50)], base_url=endpoint.address, connections=2)
    assert endpoint.calls <= 3
    with (
        ResponseFile(tmp_path / "other.jsonl", Sampling("nobody/knows")) as file,
        pytest.raises(InputError, match="'nobody/knows' cannot be used"),
    ):
        generate(file, ["one"])


def test_a_file_of_another_kind_is_refused(tmp_path, monkeypatch):
    monkeypatch.setenv("WORKINGPAPERS_DATA", str(tmp_path / "data"))
    for content in (b'{"a": 1}\n', b"words\n", b"words"):
        (tmp_path / "responses.jsonl").write_bytes(content)
        with pytest.raises(InputError, match="no response"):
            ResponseFile(tmp_path / "responses.jsonl", SAMPLING)
        assert (tmp_path / "responses.jsonl").read_bytes() == content


def write_lines(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def request(folder, endpoint, *more):
    return ["run", "dpprefsyn", str(folder / "private.jsonl"), "--prompts", str(folder / "prompts.jsonl"), "--epsilon",
            "1", "--delta", "1e-6", "--out", str(folder / "out.jsonl"), "--model", "openai-api/lab/m", "--base-url",
            endpoint.address, "--connections", "4", *more]  # fmt: skip


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Three quarters of the people want politeness, the others references."""
    monkeypatch.setattr(running, "load_encoder", lambda folder: Hashed())
    rng, rows = np.random.default_rng(1), []
    while len(rows) < 3000:
        style = "polite" if rng.random() < 0.75 else "cited"
        first, second = answer(rng), answer(rng)
        if utility(first, style) != utility(second, style):
            better = utility(first, style) > utility(second, style)
            chosen, rejected = (first, second) if better else (second, first)
            rows.append({"prompt": f"private {rng.integers(50)}", "chosen": chosen, "rejected": rejected})
    write_lines(tmp_path / "private.jsonl", rows)
    write_lines(tmp_path / "prompts.jsonl", [{"prompt": f"public {n}"} for n in range(60)])
    return tmp_path


def test_a_wrong_address_shows_before_the_budget_is_spent(endpoint, folder, capsys):
    endpoint.fail = lambda number, text: (404, "nothing here")
    assert main(request(folder, endpoint)) == 2
    assert "answers 404" in capsys.readouterr().err
    assert not (folder / "out.jsonl.model.npz").exists()
    assert not (folder / "out.jsonl").exists()


def test_a_model_that_says_nothing_shows_before_the_budget_is_spent(endpoint, folder, capsys):
    endpoint.fail = lambda number, text: (400, "cannot")
    assert main(request(folder, endpoint)) == 2
    assert "gave no response to the first prompts (http 400)" in capsys.readouterr().err
    assert endpoint.calls == 15
    assert not (folder / "out.jsonl.model.npz").exists()
    # One refused prompt is no reason to stop; what was refused for good is not asked again.
    endpoint.fail = lambda number, text: (400, "cannot") if text in ("public 0", "public 1", "public 2") else None
    assert main(request(folder, endpoint)) == 2
    (folder / "out.jsonl.responses.jsonl").unlink()
    endpoint.fail = lambda number, text: (400, "cannot") if text in ("public 0", "public 1") else None
    assert main(request(folder, endpoint, "--json")) == 0
    assert json.loads(capsys.readouterr().out)["faults"] == {"http 400": 10}


def test_an_interrupted_run_goes_on_and_pays_and_spends_once(endpoint, folder, capsys, monkeypatch):
    add = generation_module.ResponseFile.add

    def interrupt(self, prompt, number, said):
        add(self, prompt, number, said)
        if len(self._known) == 100:
            raise KeyboardInterrupt

    monkeypatch.setattr(generation_module.ResponseFile, "add", interrupt)
    with pytest.raises(KeyboardInterrupt):
        run(folder / "private.jsonl", prompts=folder / "prompts.jsonl", epsilon=1.0, delta=1e-6,
            out=folder / "out.jsonl", model="openai-api/lab/m", base_url=endpoint.address, connections=4)  # fmt: skip
    monkeypatch.setattr(generation_module.ResponseFile, "add", add)
    model = (folder / "out.jsonl.model.npz").read_bytes()
    kept = (folder / "out.jsonl.responses.jsonl").read_text().splitlines()
    assert 100 <= len(kept) <= 104  # replies that were on their way may still have been written down
    assert not (folder / "out.jsonl").exists()
    assert main(request(folder, endpoint, "--json")) == 0
    told = json.loads(capsys.readouterr().out)
    lines = (folder / "out.jsonl.responses.jsonl").read_text().splitlines()
    assert lines[: len(kept)] == kept
    assert len(lines) == len({json.loads(line)["key"] for line in lines}) == 300
    assert endpoint.calls <= 300 + 4  # at most what was on its way when the run was killed is paid for twice
    assert "nothing further was spent" in told["summary"]
    assert (folder / "out.jsonl.model.npz").read_bytes() == model


def test_a_policy_trained_on_the_output_wins(endpoint, folder, capsys):
    """Log-linear DPO on the synthetic pairs is logistic regression on differences of features."""
    assert main(request(folder, endpoint, "--min-margin", "0")) == 0
    rows = [json.loads(line) for line in (folder / "out.jsonl").read_text().splitlines()]
    embed = Hashed()
    differences = embed([row["chosen"] for row in rows]) - embed([row["rejected"] for row in rows])
    design = np.vstack([differences, -differences])
    trained = LogisticRegression(fit_intercept=False, max_iter=1000).fit(design, np.repeat([1, 0], len(rows)))
    rng, wins = np.random.default_rng(2), []
    for _ in range(1500):
        texts = [answer(rng) for _ in range(5)]
        best = texts[int((embed(texts) @ trained.coef_[0]).argmax())]
        other = texts[rng.integers(5)]
        style = "polite" if rng.random() < 0.75 else "cited"
        wins.append(0.5 + 0.5 * np.sign(utility(best, style) - utility(other, style)))
    error = np.std(wins) / np.sqrt(len(wins))
    assert np.mean(wins) > 0.5 + 5 * error
