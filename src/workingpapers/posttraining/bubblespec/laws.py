"""Exact laws of what verification writes, by enumeration of all drafts and all branches on small vocabularies.

Beside the exact rules stand two shortcuts that are met in practice and are not exact: going on from the model at the
refused position without the residual law ("cut", as SPEC-RL does), and rejection with drafts that were picked by their
content.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray

from workingpapers.posttraining.bubblespec.verify import residual

Prefix = tuple[int, ...]
Table = Mapping[Prefix, NDArray[np.float64]]
Law = dict[Prefix, float]
Rule = Literal["match", "rejection", "cut"]


def random_table(vocabulary: int, depth: int, rng: np.random.Generator, *, end: int | None = None) -> Table:
    """Return next-token laws for every prefix shorter than `depth`, Dirichlet(1); after `end` nothing follows.

    Args:
        vocabulary: Number of tokens.
        depth: Longest sequence.
        rng: Source of the laws.
        end: End mark, if there is one.
    """
    table: dict[Prefix, NDArray[np.float64]] = {}
    prefixes: list[Prefix] = [()]
    while prefixes:
        prefix = prefixes.pop()
        if len(prefix) == depth or (end is not None and prefix and prefix[-1] == end):
            continue
        table[prefix] = rng.dirichlet(np.ones(vocabulary))
        prefixes += [(*prefix, token) for token in range(vocabulary)]
    return table


def sequence_law(table: Table, prefix: Prefix = ()) -> Law:
    """Return the probability of each complete sequence that begins with a prefix, given that prefix.

    Args:
        table: Next-token laws.
        prefix: Tokens so far.
    """
    if prefix not in table:
        return {prefix: 1.0}
    found: Law = {}
    for token, chance in enumerate(table[prefix]):
        for sequence, rest in sequence_law(table, (*prefix, token)).items():
            found[sequence] = found.get(sequence, 0.0) + float(chance) * rest
    return found


def verified_law(p: Table, q: Table, rule: Rule, drafts: Law, *, longest: int | None = None) -> Law:
    """Return the law of the sequences that a rule writes.

    Args:
        p: The model's next-token laws.
        q: Those that drafts were drawn from.
        rule: "match", "rejection" or "cut".
        drafts: Probability of each draft.
        longest: Tokens of a draft that are used; all by default.
    """
    found: Law = {}
    for draft, weight in drafts.items():
        for sequence, chance in _branches(p, q, rule, draft[:longest], ()):
            found[sequence] = found.get(sequence, 0.0) + weight * chance
    return found


def picked_law(law: Law, better: Callable[[Prefix], float]) -> Law:
    """Return the law of the better of two independent drafts.

    Args:
        law: Of one draft.
        better: Score; of two equal ones the first is taken.
    """
    found: Law = {}
    for one, first in law.items():
        for two, second in law.items():
            kept = one if better(one) >= better(two) else two
            found[kept] = found.get(kept, 0.0) + first * second
    return found


def total_variation(one: Law, other: Law) -> float:
    """Return half the summed absolute difference of two laws of sequences.

    Args:
        one: A law.
        other: Another.
    """
    return 0.5 * sum(abs(one.get(key, 0.0) - other.get(key, 0.0)) for key in {*one, *other})


def _branches(p: Table, q: Table, rule: Rule, draft: Prefix, prefix: Prefix) -> Iterator[tuple[Prefix, float]]:
    place = len(prefix)
    if prefix not in p:
        yield prefix, 1.0
        return
    if place >= len(draft):
        yield from sequence_law(p, prefix).items()
        return
    token, law = draft[place], p[prefix]
    if rule == "match":
        stands, instead = float(law[token]), law.copy()
        instead[token] = 0.0
    else:
        other = q[prefix]
        stands = min(1.0, float(law[token] / other[token]))
        replaced = law if rule == "cut" else residual(torch.from_numpy(law), torch.from_numpy(other)).numpy()
        instead = (1 - stands) * replaced
    for sequence, chance in _branches(p, q, rule, draft, (*prefix, token)):
        yield sequence, stands * chance
    for new, share in enumerate(instead):
        if share > 0:
            for sequence, chance in sequence_law(p, (*prefix, new)).items():
                yield sequence, float(share) * chance
