"""Speed of the page over a large catalog: `papers serve` in a process of its own, asked over HTTP on 127.0.0.1.

    python benchmarks/web_speed.py --records 100000

The catalog holds the records of `catalog_scale.py` and this library's own; the semantic index is filled with random
codes as in `semantic_scale.py`. Queries are of the kinds that people type. For each kind of request: the time until the
whole answer is there, and the processor time that the server spent on it, which other work on the machine does not
change. Filling the catalog and the index is not timed.
"""

from __future__ import annotations

import argparse
import http.client
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import urlencode

import numpy as np
from catalog_scale import generate, queries
from semantic_scale import fill

SERVE = "import sys; from workingpapers.cli import main; sys.exit(main())"
TYPING = {"HX-Request": "true", "HX-Trigger-Name": "q"}
REPEATS = 50


class Server:
    """`papers serve` on a free port, one connection kept open as a browser keeps it."""

    def __init__(self) -> None:
        command = [sys.executable, "-c", SERVE, "serve", "--port", "0"]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        port = int(self.process.stdout.readline().split()[-1].strip("/").rpartition(":")[2])
        self.connection = http.client.HTTPConnection("127.0.0.1", port)

    def ask(self, path: str, headers: dict[str, str]) -> tuple[float, float, int]:
        """Return milliseconds, milliseconds of the server's processor, and the size of the answer."""
        spent, begun = self.spent(), time.perf_counter()
        self.connection.request("GET", path, headers=headers)
        answer = self.connection.getresponse()
        size = len(answer.read())
        seconds = time.perf_counter() - begun
        assert answer.status == 200, (path, answer.status)
        return 1000 * seconds, 1000 * (self.spent() - spent), size

    def spent(self) -> float:
        """Return the processor seconds of the server so far, of all its threads (from the scheduler's nanoseconds)."""
        threads = Path(f"/proc/{self.process.pid}/task").iterdir()
        return sum(int((thread / "schedstat").read_text().split()[0]) for thread in threads) / 1e9

    def close(self) -> None:
        """End it."""
        self.process.terminate()
        self.process.wait()


def report(server: Server, name: str, paths: Sequence[str], headers: dict[str, str] | None = None) -> None:
    """Ask for every path once and print the median and the 95th percentile."""
    found = np.array([server.ask(path, headers or {}) for path in paths])
    (wall, cpu, size), (late, late_cpu, _) = np.percentile(found, [50, 95], axis=0)
    print(
        f"{name}: median {wall:.1f} ms, p95 {late:.1f} ms; of the server's processor median {cpu:.1f} ms, "
        f"p95 {late_cpu:.1f} ms; {size / 1024:.0f} KiB ({len(found)} requests)",
        flush=True,
    )


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    options.add_argument("--records", type=int, default=100_000)
    chosen = options.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        os.environ["WORKINGPAPERS_DATA"] = folder
        os.environ["WORKINGPAPERS_DATABASE"] = ""
        from workingpapers.catalog import library, semantic

        file = Path(folder) / "records.jsonl"
        words, names = generate(file, chosen.records)
        backend = library.open_catalog()
        with backend.writing():
            library.add_file(backend, file, library.ImportReport())
        file.unlink()
        asked = [urlencode({"q": query}) for query in queries(words, names)]
        unfinished = [urlencode({"q": query[:-1]}) for query in queries(words, names) if len(query) > 3]
        print(f"{backend.last():,} records", flush=True)
        server = Server()
        first, _, _ = server.ask("/", {})
        print(f"the very first page after the start: {first:.1f} ms", flush=True)
        report(server, "first page", ["/"] * REPEATS)
        report(server, "whole catalog, newest first", ["/?scope=all"] * REPEATS)
        report(server, "as one types, BM25", [f"/?{query}" for query in unfinished], TYPING)
        report(server, "page of results, BM25", [f"/?{query}" for query in asked])
        report(server, "JSON, BM25", [f"/api/search?{query}" for query in asked])
        server.close()
        index = semantic.open_index(backend)
        fill(backend, index, backend.last())
        backend.close()
        server = Server()
        for query in asked[:20]:
            server.ask(f"/?{query}", {})  # the files of the index come from the disk once
        report(server, "as one types, BM25 beside the semantic index", [f"/?{query}" for query in unfinished], TYPING)
        report(server, "page of results, hybrid", [f"/?{query}" for query in asked])
        report(server, "JSON, hybrid", [f"/api/search?{query}" for query in asked])
        server.close()


if __name__ == "__main__":
    main()
