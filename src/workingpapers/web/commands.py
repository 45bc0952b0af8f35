"""What ``papers serve`` and ``papers mcp`` do; imported when one is called."""

from __future__ import annotations

import argparse
import importlib.util
import os
import secrets
import socket

from workingpapers.foundations.errors import InputError

TOKEN_VARIABLE = "WORKINGPAPERS_TOKEN"
SHORTEST_TOKEN = 16
NEEDED = {"serve": ("fastapi", "uvicorn", "python_multipart"), "mcp": ("mcp",)}


def serve(options: argparse.Namespace) -> int:
    """Serve the page until it is interrupted."""
    _need("serve")
    import uvicorn

    from workingpapers.web.app import create_app
    from workingpapers.web.settings import MEBIBYTE, Settings

    token = options.token or os.environ.get(TOKEN_VARIABLE, "")
    if token and len(token) < SHORTEST_TOKEN:
        raise InputError(f"The token has {len(token)} characters; give at least {SHORTEST_TOKEN}, or none.")
    settings = Settings(
        host=options.host,
        port=options.port,
        token=token,
        allowed_hosts=tuple(options.allow_host),
        upload_limit=options.upload_limit * MEBIBYTE,
    )
    if settings.open_to_others and not settings.token:
        settings = Settings(**{**settings.__dict__, "token": secrets.token_urlsafe(24)})
    listener = _listen(settings.host, settings.port)
    port = listener.getsockname()[1]
    for line in announced(settings, port):
        print(line, flush=True)
    if options.open:
        import webbrowser

        webbrowser.open(announced(settings, port)[0].split()[-1])
    server = uvicorn.Server(
        uvicorn.Config(
            create_app(settings),
            log_level="warning",
            access_log=False,
            server_header=False,
            timeout_graceful_shutdown=3,
        )
    )
    try:
        server.run(sockets=[listener])
    except KeyboardInterrupt:
        pass  # how the page is ended
    finally:
        listener.close()
    return 0


def mcp(options: argparse.Namespace) -> int:
    """Serve tools to an assistant over standard input and output."""
    _need("mcp")
    from workingpapers.web.mcp_server import build_server

    build_server().run("stdio")
    return 0


def announced(settings: object, port: int) -> list[str]:
    """Return the lines that tell where the page is."""
    from workingpapers.web.settings import Settings

    assert isinstance(settings, Settings)
    shown = settings.host
    if shown in ("0.0.0.0", "::", ""):
        shown = socket.gethostname()
    if ":" in shown:
        shown = f"[{shown}]"
    query = f"/?token={settings.token}" if settings.token else "/"
    lines = [f"Working Papers is at http://{shown}:{port}{query}"]
    if settings.open_to_others:
        lines.append("Others reach it too: whoever has the token can run commands here. It is not encrypted.")
    lines.append("Ctrl-C ends it; a check that runs then can be resumed.")
    return lines


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # The protocol is named because asyncio turns Nagle's algorithm off for TCP alone; with it each answer waits 40 ms.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host.strip("[]"), port))
        listener.listen(128)
    except (OSError, OverflowError) as error:
        listener.close()
        reason = getattr(error, "strerror", None) or str(error)
        raise InputError(
            f"Cannot listen on {host}:{port} ({reason.lower()}); choose another --port or --host."
        ) from None
    return listener


def _need(command: str) -> None:
    missing = [name for name in NEEDED[command] if importlib.util.find_spec(name) is None]
    if missing:
        raise InputError(f"'papers {command}' needs the package {missing[0]}; pip install 'workingpapers[web]'.")
