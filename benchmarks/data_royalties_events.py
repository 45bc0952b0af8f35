"""Post, close and audit synthetic events; print time and peak memory of each step.

    python benchmarks/data_royalties_events.py --events 10000000

Every event has three to five scores over 1,000 works of 200 providers, popularity by Zipf's law, 1 % refunds.
"""

from __future__ import annotations

import argparse
import multiprocessing
import resource
import tempfile
import time
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

from workingpapers.governance.data_royalties.ledger import Ledger
from workingpapers.governance.data_royalties.proofs import load_or_make_key
from workingpapers.governance.data_royalties.registry import Policy, Provider, Work
from workingpapers.governance.data_royalties.usage import post_files
from workingpapers.governance.data_royalties.verify import audit_store

WORKS, PROVIDERS = 1000, 200


def make_files(folder: Path, events: int) -> None:
    import duckdb

    connection = duckdb.connect()
    connection.execute("SET memory_limit = '1GB'; SET threads = 1; SELECT setseed(0.5)")
    connection.execute(
        f"""COPY (SELECT 'e' || i AS event_id,
            strftime(TIMESTAMP '2026-05-01' + INTERVAL (i % 2592000) SECOND, '%Y-%m-%dT%H:%M:%SZ') AS time,
            'EUR' AS currency, CAST(1 + i % 500 AS BIGINT) AS gross_minor, '' AS refund_of
            FROM range({events}) t(i)
            UNION ALL
            SELECT 'r' || i, '2026-05-31T00:00:00Z', 'EUR', -CAST(1 + i % 500 AS BIGINT), 'e' || i
            FROM range(0, {events}, 100) t(i)) TO '{folder}/events.parquet' (FORMAT parquet)"""
    )
    connection.execute(
        f"""COPY (SELECT DISTINCT ON (event_id, work) * FROM (SELECT 'e' || i AS event_id,
            'w' || CAST(floor(pow({WORKS}, random())) - 1 AS INTEGER) AS work, 0.01 + random() AS score
            FROM range({events}) t(i), range(5) s(j) WHERE j < 3 + i % 3))
            TO '{folder}/scores.parquet' (FORMAT parquet)"""
    )


def run(name: str, work: Callable[[], object]) -> None:
    start = time.perf_counter()
    result = work()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"{name:10s} {time.perf_counter() - start:8.1f} s   peak memory {peak:7.0f} MB   {result}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--memory", default="1GB", help="what DuckDB may use")
    parser.add_argument("--folder", type=Path, help="where to keep the files; a temporary folder by default")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.folder or Path(temporary)
        # In a process of its own, so that making the files does not count as memory of the ledger.
        maker = multiprocessing.get_context("spawn").Process(target=make_files, args=(folder, options.events))
        maker.start()
        maker.join()
        key = load_or_make_key(folder / "key.pem")
        providers = [Provider(f"p{index}", f"Provider {index}") for index in range(PROVIDERS)]
        works = [Work(f"w{index}", ((f"p{index % PROVIDERS}", Fraction(1)),)) for index in range(WORKS)]
        policy = Policy(Fraction(7, 10), Fraction(1, 4), Fraction(1, 20))
        ledger = Ledger.create(str(folder / "books.db"), providers, works, policy, key)

        def post() -> object:
            return post_files(ledger, folder / "events.parquet", folder / "scores.parquet", memory=options.memory)

        def audit() -> str:
            result = audit_store(ledger.store)
            return f"{result.entries} entries, {result.events} events, {len(result.violations)} violations"

        run("post", post)
        run("close", lambda: f"{len(ledger.close_period('2026-05', key))} entries")
        run("audit", audit)
        size = sum(file.stat().st_size for file in folder.glob("books.db*"))
        print(
            f"ledger file {size / 2**20:.0f} MB for {options.events} events; totals {sum(ledger.balances().values())}"
        )


if __name__ == "__main__":
    main()
