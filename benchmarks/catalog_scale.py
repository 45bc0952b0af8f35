"""Import and search at scale: rate, index size, query times and memory.

    python benchmarks/catalog_scale.py --records 1000000 [--database postgresql://...]

Records are made of words drawn from a Zipf law over 50,000 invented words (exponent 1.07, near that of English), with
titles of 6 to 14 words, 1 to 8 authors and abstracts of 60 to 180 words. Queries are of the kinds that people type.
Generating the file is not timed.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import tempfile
import time
from pathlib import Path

import numpy as np

SYLLABLES = [c + v for c in "bdfgklmnprstvz" for v in ("a", "e", "i", "o", "u", "ar", "en", "is", "ol")]


def vocabulary(size: int) -> list[str]:
    rng = np.random.default_rng(1)
    words: dict[str, None] = {}
    while len(words) < size:
        words.setdefault("".join(rng.choice(SYLLABLES, rng.integers(1, 5))), None)
    return list(words)


def generate(path: Path, count: int) -> tuple[list[str], list[str]]:
    """Write `count` records as arXiv-like JSON lines; return the words (most frequent first) and the names."""
    words = np.array(vocabulary(50_000))
    names = [f"{a.title()} {b.title()}" for a, b in zip(words[2000:22000], words[22000:42000], strict=True)]
    weights = 1 / np.arange(1, len(words) + 1) ** 1.07
    rng = np.random.default_rng(0)
    with path.open("w", encoding="utf-8") as stream:
        for start in range(0, count, 10_000):
            block = min(10_000, count - start)
            titles, abstracts = rng.integers(6, 15, block), rng.integers(60, 181, block)
            drawn = words[rng.choice(len(words), int((titles + abstracts).sum()), p=weights / weights.sum())]
            people = rng.integers(0, len(names), (block, 8))
            team, position = rng.integers(1, 9, block), 0
            for index in range(block):
                middle, end = position + titles[index], position + titles[index] + abstracts[index]
                record = {
                    "id": f"{(start + index) // 100_000 + 1000:04d}.{(start + index) % 100_000:05d}",
                    "title": " ".join(drawn[position:middle]),
                    "authors": [names[who] for who in people[index, : team[index]]],
                    "categories": f"Area {index % 7} · Topic {index % 61}",
                    "abstract": " ".join(drawn[middle:end]),
                    "update_date": "2026-01-01",
                }
                stream.write(json.dumps(record) + "\n")
                position = end
    return list(words), names


def queries(words: list[str], names: list[str]) -> list[str]:
    """Queries of one to four words of all frequencies, phrases, prefixes and names."""
    rng = np.random.default_rng(2)
    found = []
    for _ in range(400):
        ranks = np.exp(rng.uniform(np.log(5), np.log(20_000), rng.integers(1, 5))).astype(int)
        found.append(" ".join(words[rank] for rank in ranks))
    for _ in range(50):
        found.append(names[rng.integers(len(names))])
        found.append(words[int(np.exp(rng.uniform(np.log(100), np.log(20_000))))][:4] + "*")
        found.append(f'"{words[rng.integers(5, 300)]} {words[rng.integers(5, 300)]}"')
    return found


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    options.add_argument("--records", type=int, default=1_000_000)
    options.add_argument("--database", default="")
    chosen = options.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        os.environ["WORKINGPAPERS_DATA"] = folder
        os.environ["WORKINGPAPERS_DATABASE"] = chosen.database
        from workingpapers.catalog import library

        file = Path(folder) / "records.jsonl"
        words, names = generate(file, chosen.records)
        print(f"{chosen.records:,} records, {file.stat().st_size / 2**20:,.0f} MiB of JSON lines")
        backend = library.open_catalog()
        begun = time.perf_counter()
        with backend.writing():
            report = library.add_file(backend, file, library.ImportReport())
        seconds = time.perf_counter() - begun
        print(f"imported {report.new:,} new in {seconds:,.1f} s: {report.read / seconds:,.0f} records/s")
        sizes = [entry.stat().st_size for entry in Path(folder).glob("catalog.sqlite*")]
        print(f"database {sum(sizes) / 2**20:,.0f} MiB ({backend.name})")
        begun = time.perf_counter()
        backend.close()
        backend = library.open_catalog()
        library.search(backend, "first query")
        print(f"opened, first query: {1000 * (time.perf_counter() - begun):.1f} ms")
        times = []
        for query in queries(words, names):
            begun = time.perf_counter()
            library.search(backend, query, limit=10)
            times.append(1000 * (time.perf_counter() - begun))
        cuts = np.percentile(times, [50, 90, 99, 100])
        print(
            f"{len(times)} queries: median {cuts[0]:.1f} ms, p90 {cuts[1]:.1f} ms, p99 {cuts[2]:.1f} ms, "
            f"slowest {cuts[3]:.1f} ms"
        )
        own, reader = (
            resource.getrusage(who).ru_maxrss / 2**10 for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
        )
        print(f"peak memory {own:,.0f} MiB, of the process that parses {reader:,.0f} MiB")


if __name__ == "__main__":
    main()
