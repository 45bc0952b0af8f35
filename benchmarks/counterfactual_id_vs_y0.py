"""Identification: ours against y0 on the same diagrams and queries: verdict, value and time.

One-world queries from observation (y0: ID, IDC) on small and large diagrams, with values on random models where these
can be enumerated; and queries over several worlds from all interventions (y0: ID*, IDC*), where only verdicts can be
compared because y0's formulas do not tell the values of one variable apart. Times are processor time, without the
conversion of graphs. Queries on which y0 stops with an error are counted apart.

python benchmarks/counterfactual_id_vs_y0.py
"""

from __future__ import annotations

import time
from collections import Counter
from importlib.metadata import version

import numpy as np

from workingpapers.causality.counterfactual_id import ADMG, OBSERVATIONAL, all_regimes, identify
from workingpapers.causality.counterfactual_id.peer import (
    RefusedByPeer,
    identify_with_y0,
    one_world,
    one_world_query,
    star_with_y0,
    to_y0,
)
from workingpapers.causality.counterfactual_id.simulation import random_graph, random_query
from workingpapers.foundations.errors import InputError
from workingpapers.foundations.progress import silent


def sparse_graph(rng: np.random.Generator, nodes: int) -> ADMG:
    names = [f"V{k}" for k in range(nodes)]
    pairs = [(a, b) for i, a in enumerate(names) for b in names[i + 1 :]]
    return ADMG(
        names,
        [pair for pair in pairs if rng.random() < 4 / nodes],
        [pair for pair in pairs if rng.random() < 1.5 / nodes],
    )


def timed(nodes: int, queries: int) -> None:
    rng = np.random.default_rng(nodes)
    ours, theirs, verdicts = 0.0, 0.0, Counter()
    for _ in range(queries):
        graph = sparse_graph(rng, nodes)
        query, other = one_world_query(rng, graph, 0), to_y0(graph)
        begun = time.process_time()
        mine = identify(query, graph, [OBSERVATIONAL]).identified
        middle = time.process_time()
        try:
            found = identify_with_y0(other, query) is not None
        except RefusedByPeer:
            verdicts["y0 stops with an error"] += 1
            continue
        theirs += time.process_time() - middle
        ours += middle - begun
        verdicts["same verdict" if mine == found else "other verdict"] += 1
    done = queries - verdicts["y0 stops with an error"]
    print(
        f"ID, {nodes} variables: ours {1e3 * ours / done:.2f} ms, y0 {1e3 * theirs / done:.2f} ms a query, "
        f"ratio {theirs / ours:.1f}; {dict(verdicts)}"
    )


def worlds(queries: int) -> None:
    rng = np.random.default_rng(0)
    verdicts: Counter[str] = Counter()
    ours = theirs = 0.0
    for k in range(queries):
        graph = random_graph(rng, 4)
        query = random_query(rng, graph, conditional=0.5 * (k % 2))
        if len({event.response for event in query.events}) < len(query.events):
            continue  # y0 holds events in a mapping and cannot hold one response twice
        regimes, other = all_regimes(graph, False), to_y0(graph)
        begun = time.process_time()
        try:
            found = identify(query, graph, regimes)
        except InputError:
            continue  # an impossible condition
        middle = time.process_time()
        try:
            peer = star_with_y0(other, query)
        except (KeyError, ValueError, ZeroDivisionError):
            verdicts["y0 stops with an error"] += 1
            continue
        theirs += time.process_time() - middle
        ours += middle - begun
        mine = "not identified"
        if found.identified:
            mine = "zero" if found.expression.to_text() == "0" else "identified"
        verdicts["same" if mine == peer else f"ours {mine}, y0 {peer}"] += 1
    print(f"ID*, 4 variables: ours (16 regimes searched) against y0, time ratio {theirs / ours:.1f}; {dict(verdicts)}")


def main() -> None:
    try:
        print(f"y0 {version('y0')}")
    except ModuleNotFoundError:
        print("y0 is not installed; pip install y0 to compare.")
        return
    for tool in ("ours", "y0"):
        rows = [one_world(seed, silent, queries=200, tool=tool) for seed in range(4)]
        means = {name: float(np.mean([row[name] for row in rows])) for name in rows[0]}
        print(f"{tool}: " + ", ".join(f"{name} {value:.4g}" for name, value in means.items()))
    for nodes in (5, 10, 20, 40):
        timed(nodes, 100)
    worlds(600)


if __name__ == "__main__":
    main()
