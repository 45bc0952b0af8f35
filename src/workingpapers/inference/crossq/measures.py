"""Ranking measures by ranx, with ties counted against the method."""

from __future__ import annotations

import numpy as np

DEPTH = 10


def pessimistic_run(scores: np.ndarray, relevant: np.ndarray) -> dict[str, dict[str, float]]:
    """Return a ranx run of the ten best documents, the relevant one last among documents of equal score.

    Codes that collapse give every document the same score; a tie-blind measure would call that perfect.

    Args:
        scores: Scores, shape (queries, documents).
        relevant: Relevant document of each query, shape (queries,).
    """
    run = {}
    for number, row in enumerate(scores):
        is_relevant = np.arange(len(row)) == relevant[number]
        order = np.lexsort([is_relevant, -row])[:DEPTH]
        run[f"q{number}"] = {f"d{document}": float(len(order) - rank) for rank, document in enumerate(order)}
    return run


def ranking_measures(scores: np.ndarray, relevant: np.ndarray) -> dict[str, float]:
    """Return MRR@10 and nDCG@10 of one relevant document a query.

    Args:
        scores: Scores, shape (queries, documents).
        relevant: Relevant document of each query, shape (queries,).
    """
    from ranx import Qrels, Run, evaluate

    qrels = Qrels({f"q{number}": {f"d{document}": 1} for number, document in enumerate(relevant)})
    found = evaluate(qrels, Run(pessimistic_run(scores, relevant)), ["mrr@10", "ndcg@10"], make_comparable=True)
    return {"mrr10": float(found["mrr@10"]), "ndcg10": float(found["ndcg@10"])}
