"""Search quality: nDCG@10 and MRR of each engine on `search_judgments.toml`.

    python benchmarks/search_quality.py PAGE... [--misses]

PAGE are result pages of the paper search (or any files that `papers import` reads) which together hold the 39 papers.
The catalog is a temporary one with these records and this library's own. MRR looks for the paper that answers the
question, nDCG gives related papers half its gain.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import tomllib
from pathlib import Path

import numpy as np
from ranx import Qrels, Run, evaluate

JUDGMENTS = Path(__file__).with_name("search_judgments.toml")
MEASURES = ("mrr@10", "ndcg@10", "hit_rate@1")


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    options.add_argument("pages", nargs="+")
    options.add_argument("--misses", action="store_true", help="show the queries whose paper does not come first")
    chosen = options.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        os.environ["WORKINGPAPERS_DATA"] = folder
        from workingpapers.catalog import library
        from workingpapers.catalog.text import abstract_fingerprint

        judged = tomllib.loads(JUDGMENTS.read_text(encoding="utf-8"))
        names = {digits: name for name, digits in judged["papers"].items()}
        backend = library.open_catalog()
        with backend.writing():
            for page in chosen.pages:
                library.add_file(backend, page, library.ImportReport())

        def name_of(record) -> str:
            return names.get(abstract_fingerprint(record.abstract)[:12], record.heading)

        present = {name_of(record) for record in backend.records()}
        missing = sorted(set(names.values()) - present)
        if missing:
            raise SystemExit(f"The pages lack {', '.join(missing)}.")
        print(f"{backend.count()} records, {len(judged['query'])} queries")
        from workingpapers.catalog import semantic

        index = semantic.open_index(backend)
        engines = ("bm25",)
        if index is None:
            print(f"Search by meaning is not installed: {', '.join(semantic.missing_packages())} missing.")
        else:
            index.update(backend)
            engines = ("bm25", "semantic", "hybrid")
        for engine in engines:
            for language in ("en", "zh"):
                queries = [query for query in judged["query"] if query["language"] == language]
                report(engine, language, queries, backend, name_of, chosen.misses)


def report(engine, language, queries, backend, name_of, misses) -> None:
    """Print one row of the table."""
    from workingpapers.catalog import library

    relevant, found = {}, {}
    for query in queries:
        answer = library.search(backend, query["text"], limit=10, engine=engine)
        ranked = [name_of(hit.record) for hit in answer.hits]
        relevant[query["text"]] = {query["best"]: 2, **dict.fromkeys(query["also"], 1)}
        found[query["text"]] = {name: float(len(ranked) - place) for place, name in enumerate(ranked)} or {"none": 0.0}
        if misses and ranked[:1] != [query["best"]]:
            place = ranked.index(query["best"]) + 1 if query["best"] in ranked else "-"
            print(f"    {engine} {language} {place:>2} {query['best']:24s} {query['text']}  [{', '.join(ranked[:2])}]")
    best = Qrels(
        {text: {query: 1 for query, grade in grades.items() if grade == 2} for text, grades in relevant.items()}
    )
    run = Run(found)
    measured = evaluate(best, run, ["mrr@10", "hit_rate@1"]) | evaluate(Qrels(relevant), run, ["ndcg@10"] * 2)
    print(
        f"{engine:12s} {language}  {len(queries):3d} queries  MRR@10 {measured['mrr@10']:.3f}  "
        f"nDCG@10 {np.mean(measured['ndcg@10']):.3f}  first {measured['hit_rate@1']:.3f}"
    )


if __name__ == "__main__":
    main()
