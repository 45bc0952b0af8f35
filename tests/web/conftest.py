import os
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


@pytest.fixture(scope="module")
def live(tmp_path_factory):
    """A server in a process of its own with a data folder of its own; gives its address and the folder."""
    folder = tmp_path_factory.mktemp("live")
    program = (
        "import argparse, sys; from workingpapers.web.commands import serve; sys.exit(serve(argparse.Namespace("
        "host='127.0.0.1', port=0, token='', allow_host=[], upload_limit=1, open=False)))"
    )
    surroundings = {**os.environ, "WORKINGPAPERS_DATA": str(folder)}
    surroundings.pop("WORKINGPAPERS_DATABASE", None)
    server = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, env=surroundings)
    yield server.stdout.readline().split()[-1].rstrip("/"), folder
    server.terminate()
    server.wait(30)
