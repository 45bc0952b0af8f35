import os
import signal
import subprocess
import sys
import time
from dataclasses import replace

import pytest

pytest.importorskip("fastapi")
pytest.importorskip("python_multipart")

from starlette.testclient import TestClient

from workingpapers.web.app import create_app
from workingpapers.web.settings import Settings

PROGRAM = "import sys; from workingpapers.cli import main; sys.exit(main())"
BASE = "http://127.0.0.1:8765"


@pytest.fixture
def serve(data_folder):
    """Start the application in this process; several one after the other share the data folder."""
    started = []

    def start(**changes):
        client = TestClient(create_app(replace(Settings(), **changes), warm_up=False), base_url=BASE)
        client.__enter__()
        started.append(client)
        return client

    yield start
    for client in started:
        client.__exit__(None, None, None)


@pytest.fixture
def client(serve):
    return serve()


@pytest.fixture
def ended():
    """Wait until a job has ended (or `until` holds) and return it."""

    def wait(client, number, until=None, seconds=90):
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            job = client.get(f"/api/jobs/{number}").json()
            if (until and until(job)) or job["state"] not in ("waiting", "running"):
                return job
            time.sleep(0.05)
        raise AssertionError(f"the job did not end: {job}")

    return wait


@pytest.fixture
def wins(tmp_path):
    """A log of comparisons that contains a cycle."""
    file = tmp_path / "wins.csv"
    file.write_text("winner,loser\n" + "a,b\n" * 30 + "b,c\n" * 30 + "c,a\n" * 30, encoding="utf-8")
    return file


class Server:
    """`papers serve` in a process of its own, which can be ended and started again at the same address."""

    def __init__(self, folder):
        self.folder, self.port, self.process = folder, 0, None
        self.start()

    def start(self):
        self.process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, "serve", "--port", str(self.port), "--upload-limit", "1"],
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "WORKINGPAPERS_DATA": str(self.folder), "WORKINGPAPERS_DATABASE": ""},
        )
        self.address = self.process.stdout.readline().split()[-1].rstrip("/")
        self.port = int(self.address.rpartition(":")[2])

    def end(self, how=signal.SIGTERM):
        self.process.send_signal(how)
        self.process.wait(30)
        self.process.stdout.close()


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """A server with a data folder of its own."""
    started = Server(tmp_path_factory.mktemp("live"))
    yield started
    started.end()


@pytest.fixture(scope="module")
def live(server):
    """The address of a server and its data folder."""
    return server.address, server.folder
