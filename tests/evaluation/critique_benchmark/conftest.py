"""A local endpoint that speaks the OpenAI chat protocol and answers as scripted models do, faults included."""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from workingpapers.evaluation.critique_benchmark.scripted import ScriptedModel

Trouble = Callable[[str, str, int], object]


@dataclass
class Endpoint:
    """A running server.

    Args:
        models: Scripted models by the name that requests use.
        trouble: Called with model, prompt and how often it was sent; returns None for a good reply, a status, text to
            send instead, "refusal", "cut off" or a number of seconds (float) to stall.
    """

    models: dict[str, ScriptedModel] = field(default_factory=dict)
    trouble: Trouble = lambda model, prompt, number: None
    requests: Counter[tuple[str, str]] = field(default_factory=Counter)
    statuses: Counter[int] = field(default_factory=Counter)
    keys: set[str] = field(default_factory=set)
    url: str = ""


def completion(text: str, prompt: str, reason: str = "stop") -> dict[str, object]:
    usage = {"prompt_tokens": len(prompt) // 4, "completion_tokens": len(text) // 4}
    usage["total_tokens"] = sum(usage.values())
    choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": reason}
    return {"id": "1", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice], "usage": usage}


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    state = Endpoint()
    lock = threading.Lock()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *arguments: object) -> None:
            pass

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            prompt = "\n\n".join(part["content"] for part in body["messages"] if part["role"] == "user")
            with lock:
                state.requests[(body["model"], prompt)] += 1
                state.keys.add(self.headers.get("Authorization", ""))
                number = state.requests[(body["model"], prompt)]
            if self.path != "/v1/chat/completions" or body["model"] not in state.models:
                return self.send(404, {"error": {"message": f"no {self.path} or {body['model']}"}})
            found = state.trouble(body["model"], prompt, number)
            if isinstance(found, float):
                time.sleep(found)
            if isinstance(found, int):
                return self.send(found, {"error": {"message": f"status {found}", "code": found}})
            if found == "refusal":
                return self.send(200, completion("I cannot help with that.", prompt, "content_filter"))
            if found == "cut off":
                return self.send(200, completion("To begin with, one has to", prompt, "length"))
            text = found if isinstance(found, str) else state.models[body["model"]].reply(prompt)
            return self.send(200, completion(text, prompt))

        def send(self, status: int, value: object) -> None:
            raw = json.dumps(value).encode()
            with lock:
                state.statuses[status] += 1
            try:
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(raw)))
                self.end_headers()
                self.wfile.write(raw)
            except (BrokenPipeError, ConnectionResetError):  # the caller gave up waiting
                pass

    class Server(ThreadingHTTPServer):
        daemon_threads = True
        # The default backlog of five turns connections away on a busy machine: calls that no request here accounts for.
        request_queue_size = 128

    server = Server(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    state.url = f"http://127.0.0.1:{server.server_address[1]}/v1"
    yield state
    server.shutdown()
    server.server_close()
    thread.join()
