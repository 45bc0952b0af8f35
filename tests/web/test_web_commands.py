"""`papers serve` and `papers mcp` as they are started."""

import argparse
import os
import re
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request

import pytest

from workingpapers.foundations.errors import InputError
from workingpapers.web import commands
from workingpapers.web.settings import Settings

OPTIONS = {"host": "127.0.0.1", "port": 0, "token": "", "allow_host": [], "upload_limit": 1, "open": False}


def start(**changes):
    program = (
        "import argparse, sys; from workingpapers.web.commands import serve; "
        f"sys.exit(serve(argparse.Namespace(**{ {**OPTIONS, **changes}!r})))"
    )
    server = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, env=os.environ)
    return server, server.stdout.readline().split()[-1]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_page_is_served_and_ends_quietly(number):
    server, address = start()
    assert re.fullmatch(r"http://127\.0\.0\.1:\d+/", address)
    with urllib.request.urlopen(address) as answer:
        assert b"Working Papers" in answer.read()
    server.send_signal(number)
    assert server.wait(20) in (0, -signal.SIGTERM)


def test_other_machines_need_a_token_which_is_made_where_none_is_given():
    server, address = start(host="0.0.0.0")
    try:
        port = re.search(r":(\d+)/\?token=[\w-]{20,}$", address).group(1)
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(f"http://127.0.0.1:{port}/")
        assert refused.value.code == 401
        token = address.split("=")[1]
        request = urllib.request.Request(
            f"http://127.0.0.1:{port}/api/papers", headers={"authorization": f"Bearer {token}"}
        )
        with urllib.request.urlopen(request) as answer:
            assert answer.status == 200
    finally:
        server.kill()
        server.wait()


def test_a_port_that_is_taken_is_named():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(InputError, match=f"Cannot listen on 127.0.0.1:{port}"):
            commands.serve(argparse.Namespace(**{**OPTIONS, "port": port}))


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"token": "short"}, "at least 16"),
        ({"host": "no.such.host.invalid"}, "Cannot listen"),
        ({"port": 70000}, "Cannot listen"),
    ],
)
def test_options_that_cannot_be_are_refused(changes, sentence):
    with pytest.raises(InputError, match=sentence):
        commands.serve(argparse.Namespace(**{**OPTIONS, **changes}))


def test_what_is_missing_is_named(monkeypatch):
    monkeypatch.setattr(commands.importlib.util, "find_spec", lambda name: None)
    for run in (commands.serve, commands.mcp):
        with pytest.raises(InputError, match=re.escape("pip install 'workingpapers[web]'")):
            run(argparse.Namespace(**OPTIONS))


def test_the_address_is_announced():
    assert commands.announced(Settings(), 80)[0].endswith(" http://127.0.0.1:80/")
    assert commands.announced(Settings(host="::1"), 80)[0].endswith(" http://[::1]:80/")
    lines = commands.announced(Settings(host="192.168.0.2", token="x" * 20), 80)
    assert lines[0].endswith(f" http://192.168.0.2:80/?token={'x' * 20}")
    assert any("not encrypted" in line for line in lines)


def test_accepted_connections_do_not_wait_to_fill_packets():
    from workingpapers.web.commands import _listen

    listener = _listen("127.0.0.1", 0)
    try:
        assert listener.proto == socket.IPPROTO_TCP  # asyncio sets TCP_NODELAY where this is named
    finally:
        listener.close()
