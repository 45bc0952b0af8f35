"""Search by meaning at scale: latency and memory of the fused search over a large catalog.

    python benchmarks/semantic_scale.py --records 1000000

The catalog holds the records of `catalog_scale.py`. Their token codes are drawn at random (150 tokens a record, 8 bytes
each, and pooled vectors): encoding a million records takes hours on two cores, and neither the time nor the memory of a
search depends on what the codes say. Filling the index is not timed.
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
from catalog_scale import generate, queries

TOKENS = 150
BLOCK = 20_000


def fill(backend, index, numbers: int) -> None:
    """Write an index of random codes over the records 1 to `numbers`, up to date with the catalog."""
    from importlib import resources

    from workingpapers.inference.crossq import Codec, storage
    from workingpapers.inference.crossq.segment import SegmentWriter, pooled_steps, write_codec
    from workingpapers.inference.crossq.vectors import Packed, unit_rows

    codec = Codec.from_bytes(
        resources.files("workingpapers.catalog.data").joinpath("semantic_codec.npz").read_bytes(), "codec"
    )
    folder = index.folder / "index"
    folder.mkdir(parents=True)
    rng = np.random.default_rng(0)
    writer = SegmentWriter(folder, "g1", codec, "integer")
    for start in range(0, numbers, BLOCK):
        count = min(BLOCK, numbers - start)
        codes = rng.integers(0, 256, (count * TOKENS, codec.stages), dtype=np.uint8)
        pooled = unit_rows(rng.standard_normal((count, codec.dim), dtype=np.float32))
        offsets = np.arange(count + 1, dtype=np.int64) * TOKENS
        writer.append(list(range(start + 1, start + count + 1)), Packed(codes, offsets), *pooled_steps(pooled))
    manifest = {
        "format": storage.FORMAT,
        "version": storage.VERSION,
        "generation": 1,
        "kind": "integer",
        "codec": write_codec(folder, "g1-codec", codec),
        "segments": [writer.finish()],
        "metadata": {},
    }
    storage.write_manifest(folder, manifest)
    (index.folder / "state.json").write_text(json.dumps({"seen": backend.changes(0, 10**9)[-1][0]}), encoding="utf-8")


def resident() -> float:
    """Return the resident memory of this process in MiB, mapped files included."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    options.add_argument("--records", type=int, default=1_000_000)
    chosen = options.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        os.environ["WORKINGPAPERS_DATA"] = folder
        from workingpapers.catalog import library, semantic

        file = Path(folder) / "records.jsonl"
        words, names = generate(file, chosen.records)
        backend = library.open_catalog()
        with backend.writing():
            library.add_file(backend, file, library.ImportReport())
        file.unlink()
        index = semantic.open_index(backend)
        fill(backend, index, backend.last())
        size = sum(entry.stat().st_size for entry in (index.folder / "index").iterdir()) / 2**20
        print(f"{backend.last():,} records, index of {size:,.0f} MiB")
        library.search(backend, "a first query", engine="hybrid")
        for engine in ("bm25", "semantic", "hybrid"):
            times = []
            for query in queries(words, names):
                begun = time.perf_counter()
                library.search(backend, query, limit=10, engine=engine)
                times.append(1000 * (time.perf_counter() - begun))
            cuts = np.percentile(times, [50, 90, 99])
            print(f"{engine}: median {cuts[0]:.1f} ms, p90 {cuts[1]:.1f} ms, p99 {cuts[2]:.1f} ms", flush=True)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10
        print(f"resident {resident():,.0f} MiB with mapped files, peak {peak:,.0f} MiB")


if __name__ == "__main__":
    main()
