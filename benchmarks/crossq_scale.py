"""A large index: disk, memory, time of a search over given candidates and over everything, and the speed of the scan.

    python benchmarks/crossq_scale.py --documents 1000000 --tokens 150 [--folder DIR] [--threads 1]

Codes and pooled vectors are random (coding real text is timed elsewhere): the figures are about the engine. CPU time is
shown beside wall time, which says little on a shared machine. The share of memory bandwidth compares the bytes of codes
that a scan reads in a second of CPU time with what a plain sum of an array reads.
"""

from __future__ import annotations

import argparse
import resource
import tempfile
import time
from pathlib import Path

import numpy as np

from workingpapers.inference.crossq import Codec, MultiVectorIndex, Packed, storage
from workingpapers.inference.crossq.scoring import query_tables, score_rows
from workingpapers.inference.crossq.segment import SegmentWriter, write_codec
from workingpapers.inference.crossq.vectors import unit_rows

DIM, STAGES, QUERY_TOKENS = 128, 4, 16


def write_random(folder: Path, documents: int, tokens: int) -> None:
    rng = np.random.default_rng(0)
    codec = Codec((rng.standard_normal((STAGES, 256, DIM)) / DIM**0.5).astype(np.float32), DIM)
    writer = SegmentWriter(folder, "g1", codec, "text")
    for start in range(0, documents, 10_000):
        count = min(10_000, documents - start)
        lengths = rng.integers(tokens // 2, tokens + tokens // 2, count)
        offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        codes = rng.integers(0, 256, (offsets[-1], STAGES), dtype=np.uint8)
        pooled = rng.integers(-127, 128, (count, DIM), dtype=np.int8)
        names = [f"record:{number}" for number in range(start, start + count)]
        writer.append(names, Packed(codes, offsets), pooled, np.full(count, 1 / 127 / DIM**0.5, np.float32))
    manifest = {
        "format": storage.FORMAT, "version": storage.VERSION, "generation": 1, "kind": "text", "metadata": {},
        "codec": write_codec(folder, "g1-codec", codec), "segments": [writer.finish()],
    }  # fmt: skip
    storage.write_manifest(folder, manifest)


def timed(work, repeats: int) -> tuple[float, float]:
    """Return median milliseconds of CPU and of wall time."""
    cpu, wall = [], []
    for number in range(repeats):
        began, used = time.perf_counter(), time.process_time()
        work(number)
        cpu.append(time.process_time() - used)
        wall.append(time.perf_counter() - began)
    return float(np.median(cpu)) * 1e3, float(np.median(wall)) * 1e3


def resident() -> float:
    """Return memory of the process that is not mapped from files, in MB."""
    fields = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return int(fields["RssAnon"].split()[0]) / 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--documents", type=int, default=1_000_000)
    parser.add_argument("--tokens", type=int, default=150)
    parser.add_argument("--candidates", type=int, default=300)
    parser.add_argument("--threads", type=int, default=None)
    parser.add_argument("--folder", type=Path, default=None)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as made:
        folder = options.folder or Path(made)
        if not (folder / storage.MANIFEST).exists():
            began = time.perf_counter()
            folder.mkdir(exist_ok=True)
            write_random(folder, options.documents, options.tokens)
            print(f"written in {time.perf_counter() - began:.0f} s")
        run(folder, options)


def run(folder: Path, options: argparse.Namespace) -> None:
    rng = np.random.default_rng(1)
    before = resident()
    began = time.perf_counter()
    index = MultiVectorIndex.open(folder)
    print(f"opened in {1e3 * (time.perf_counter() - began):.0f} ms; {len(index)} documents, {index.tokens} tokens")
    sizes = index.sizes()
    total = sum(sizes.values())
    print(f"{total / 1e6:.0f} MB on disk, {total / index.tokens:.2f} bytes a token in all: {sizes}")
    query = unit_rows(rng.standard_normal((QUERY_TOKENS, DIM)))
    names = [[f"record:{n}" for n in rng.choice(len(index), options.candidates, replace=False)] for _ in range(50)]
    index.search(query, 10, candidates=names[0][:2], threads=options.threads)
    index.search(query, 10, probe=100, threads=options.threads)
    chosen = timed(lambda n: index.search(query, 10, candidates=names[n], threads=options.threads), 50)
    print(f"{options.candidates} given candidates: median {chosen[0]:.2f} ms CPU, {chosen[1]:.2f} ms wall")
    whole = timed(lambda n: index.search(query, 10, probe=1000, threads=options.threads), 15)
    print(f"whole index through pooled vectors, 1000 scored: median {whole[0]:.1f} ms CPU, {whole[1]:.1f} ms wall")
    print(f"anonymous memory grew by {resident() - before:.0f} MB; peak resident with mapped files "
          f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MB")  # fmt: skip
    segment = index.segments[0]
    rows = np.arange(min(20_000, len(segment)))
    read = int(segment.offsets[len(rows)]) * STAGES
    block = np.array(segment.codes[: segment.offsets[len(rows)]])
    for length in (8, 16, 32):
        tables = query_tables(unit_rows(rng.standard_normal((length, DIM))), index.codec.codebooks)
        score_rows(block, segment.offsets, rows[:1], tables, 1)
        scan = timed(lambda _, t=tables: score_rows(block, segment.offsets, rows, t, 1), 5)[0] / 1e3
        print(f"scan, query of {length} tokens, one thread: {read / STAGES / scan / 1e6:.0f} million tokens/s, "
              f"{read / scan / 1e9:.2f} GB/s of codes")  # fmt: skip
    large = np.ones(64_000_000 // 8 * 4, dtype=np.int64)
    summed = large.nbytes / (timed(lambda _: large.sum(), 5)[0] / 1e3)
    print(f"memory bandwidth (sum of {large.nbytes / 1e6:.0f} MB, one thread): {summed / 1e9:.1f} GB/s; "
          f"the last scan uses {100 * read / scan / summed:.0f} % of it")  # fmt: skip


if __name__ == "__main__":
    main()
