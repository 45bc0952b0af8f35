"""CrossQ against other codes and indexes on the docstring collection: ranking, bytes, build time, queries a second.

    python benchmarks/crossq_quality.py --documents 2000 --steps 300 [--seed 0]

Codes are compared on the whole corpus at equal bytes a token, with the p-value of Fisher's paired randomisation test
against CrossQ (ranx). Indexes are compared with the exact float32 ranking (recall of its best ten): faiss product
quantisation of pooled vectors, and fast-plaid where it is installed. Needs the extras inference and evidence.
"""

from __future__ import annotations

import argparse
import tempfile
import time

import numpy as np
from ranx import Qrels, Run, compare
from rich.console import Console
from rich.table import Table

from workingpapers.inference.crossq import CrossQ, MultiVectorIndex, Packed, fit_baseline, maxsim, ranking_measures
from workingpapers.inference.crossq import experiments as parts
from workingpapers.inference.crossq.baselines import KINDS
from workingpapers.inference.crossq.initial import uncoded
from workingpapers.inference.crossq.measures import pessimistic_run
from workingpapers.inference.crossq.vectors import means, unit_rows


def codes(options: argparse.Namespace, console: Console) -> None:
    vectors, teacher = parts._collection(options.documents, lambda *_: None)
    train, test = parts._split(options.seed, options.documents, options.training, options.held_out)
    asked = parts._some(vectors.queries, test)
    start = uncoded(vectors.documents.rows, 128, options.seed)
    rows, queries = start.prepare(vectors.documents.rows), Packed(start.prepare(asked.rows), asked.offsets)
    qrels = Qrels({f"q{n}": {f"d{document}": 1} for n, document in enumerate(test)})
    for size in (2, 4, 8):
        table = Table("code", "MRR@10", "nDCG@10", "p against CrossQ", "fit s", title=f"{size} bytes a token")
        scores, seconds = {}, {}
        for name, extra in (("CrossQ", {}), ("CrossQ, a third dropped", {"stages": 3 * size // 2})):
            began = time.perf_counter()
            fitted = CrossQ(size, steps=options.steps, seed=options.seed, **extra)
            fitted.fit(
                *vectors.documents, queries=parts._some(vectors.queries, train),
                candidates=parts._candidates(teacher, train),
            )  # fmt: skip
            seconds[name] = time.perf_counter() - began
            scores[name] = parts._scan(fitted, asked, fitted.encode(*vectors.documents))
        for kind in KINDS:
            began = time.perf_counter()
            decode = fit_baseline(kind, rows, size, options.seed).decode
            seconds[kind] = time.perf_counter() - began
            scores[kind] = maxsim(queries, Packed(decode(rows), vectors.documents.offsets))
        scores["full precision, 128"], seconds["full precision, 128"] = (
            maxsim(queries, Packed(rows, vectors.documents.offsets)),
            0.0,
        )
        runs = [Run(pessimistic_run(value, test), name=name) for name, value in scores.items()]
        tested = compare(
            qrels, runs, ["mrr@10"], stat_test="fisher", n_permutations=5000, make_comparable=True,
            random_seed=options.seed,
        ).to_dict()  # fmt: skip
        for name, value in scores.items():
            found = ranking_measures(value, test)
            p = None if name == "CrossQ" else tested["CrossQ"]["comparisons"][name]["mrr@10"]
            shown = "" if p is None else f"{float(p):.3f}"
            table.add_row(name, f"{found['mrr10']:.3f}", f"{found['ndcg10']:.3f}", shown, f"{seconds[name]:.1f}")
        console.print(table)


def indexes(options: argparse.Namespace, console: Console) -> None:
    import faiss

    vectors, teacher = parts._collection(options.documents, lambda *_: None)
    train, test = parts._split(options.seed, options.documents, options.training, options.held_out)
    best = np.argsort(-teacher[test], axis=1, kind="stable")[:, :10]
    table = Table("index", "build s", "bytes a token", "queries/s", "recall of exact best 10", "MRR@10")
    documents, queries = vectors.documents, vectors.queries
    tokens = len(documents.rows)
    texts = [queries.rows[queries.offsets[n] : queries.offsets[n + 1]] for n in test]
    arrays = [documents.rows[a:b] for a, b in zip(documents.offsets[:-1], documents.offsets[1:], strict=True)]

    def report(name: str, built: float, size: float, seconds: float, found: list[list[int]]) -> None:
        recall = np.mean([len(set(a) & set(b)) / 10 for a, b in zip(found, best.tolist(), strict=True)])
        ranks = [row.index(t) + 1 if t in row else np.inf for row, t in zip(found, test.tolist(), strict=True)]
        table.add_row(
            name, f"{built:.1f}", f"{size / tokens:.2f}", f"{len(test) / seconds:.0f}", f"{recall:.3f}",
            f"{np.mean(1 / np.array(ranks)):.3f}",
        )  # fmt: skip

    for probe in (None, 100):
        with tempfile.TemporaryDirectory() as folder:
            began = time.perf_counter()
            fitted = CrossQ(4, steps=options.steps, seed=options.seed)
            asked = parts._some(queries, train)
            fitted.fit(*documents, queries=asked, candidates=parts._candidates(teacher, train))
            index = MultiVectorIndex.build(folder, fitted, enumerate(arrays))
            built = time.perf_counter() - began
            index.search(texts[0], 10, probe=probe)
            began = time.perf_counter()
            found = [index.search(text, 10, probe=probe).ids for text in texts]
            size = sum(index.sizes().values())
            name = "CrossQ 4 B, every document" if probe is None else f"CrossQ 4 B, {probe} by pooled vectors"
            report(name, built, size, time.perf_counter() - began, found)
    pooled, asked_pooled = unit_rows(means(*documents)), unit_rows(means(*queries))[test]
    began = time.perf_counter()
    flat = faiss.index_factory(pooled.shape[1], "PQ48", faiss.METRIC_INNER_PRODUCT)
    flat.train(pooled)
    flat.add(pooled)
    built = time.perf_counter() - began
    began = time.perf_counter()
    found = [flat.search(row[None], 10)[1][0].tolist() for row in asked_pooled]
    report("faiss PQ48 of pooled vectors", built, 48 * len(pooled), time.perf_counter() - began, found)
    try:
        plaid(arrays, texts, report)
    except ImportError:
        console.print("fast-plaid is not installed (its wheels ask for another torch).")
    console.print(table)


def plaid(arrays: list[np.ndarray], texts: list[np.ndarray], report) -> None:
    from pathlib import Path

    import torch
    from fast_plaid import search

    with tempfile.TemporaryDirectory() as folder:
        began = time.perf_counter()
        index = search.FastPlaid(index=folder, device="cpu")
        index.create(documents_embeddings=[torch.from_numpy(item) for item in arrays], nbits=1)
        built = time.perf_counter() - began
        size = sum(path.stat().st_size for path in Path(folder).rglob("*") if path.is_file())
        began = time.perf_counter()
        found = [index.search(queries_embeddings=torch.from_numpy(text)[None], top_k=10)[0] for text in texts]
        seconds = time.perf_counter() - began
    report("fast-plaid, 1 bit", built, size, seconds, [[row for row, _ in hits] for hits in found])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name, default in (("documents", 2000), ("training", 800), ("held-out", 1000), ("steps", 300), ("seed", 0)):
        parser.add_argument(f"--{name}", type=int, default=default)
    options = parser.parse_args()
    console = Console(width=110)
    codes(options, console)
    indexes(options, console)


if __name__ == "__main__":
    main()
