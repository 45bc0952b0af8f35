"""How the page is served."""

from __future__ import annotations

import ipaddress
import socket
from dataclasses import dataclass, field
from pathlib import Path

from workingpapers.foundations.files import data_directory

LOOPBACK_NAMES = ("localhost", "127.0.0.1", "[::1]")
MEBIBYTE = 1 << 20


@dataclass(frozen=True)
class Settings:
    """How the page is served.

    Args:
        host: Address to listen on.
        port: Port to listen on.
        token: Secret that every request must carry; empty for none, which only a loopback address allows.
        allowed_hosts: Names under which the page may be asked for beside this machine's own.
        upload_limit: Most bytes of one request.
        waiting_limit: Most jobs that wait.
        kept_jobs: How many finished jobs are kept.
        folder: Where jobs keep their files; inside the data folder.
    """

    host: str = "127.0.0.1"
    port: int = 8765
    token: str = ""
    allowed_hosts: tuple[str, ...] = ()
    upload_limit: int = 256 * MEBIBYTE
    waiting_limit: int = 20
    kept_jobs: int = 200
    folder: Path = field(default_factory=lambda: data_directory() / "web")

    @property
    def open_to_others(self) -> bool:
        """Whether other machines can reach the page."""
        return not is_loopback(self.host)

    def knows_host(self, name: str) -> bool:
        """Whether a request may ask for the host `name` (without its port).

        A site that points its own name at this machine (DNS rebinding) must not get an answer. Bare addresses cannot be
        pointed anywhere, so they are safe.
        """
        known = {*LOOPBACK_NAMES, *(host.lower() for host in self.allowed_hosts)}
        if self.open_to_others:
            known |= {self.host.lower(), socket.gethostname().lower()}
        name = name.lower()
        return name in known or (self.open_to_others and is_address(name.strip("[]")))


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches `host`."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def is_address(host: str) -> bool:
    """Whether `host` is an IP address and not a name."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True
