"""The three verbs from Python: find, use (import the paper's folder), check."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from workingpapers.catalog import library
from workingpapers.catalog.papers import Paper, all_papers, get
from workingpapers.foundations.errors import InputError, near_match
from workingpapers.replication.claim import Claim
from workingpapers.replication.runner import Engine, Event, run_claim
from workingpapers.replication.store import Store, result_record


def papers() -> tuple[Paper, ...]:
    """Return every paper of this library, by area and slug."""
    return all_papers()


def search(query: str, *, topic: str = "", author: str = "", limit: int = 10) -> library.Answer:
    """Return the best records of the catalog for `query` (see :func:`workingpapers.catalog.library.search`)."""
    backend = library.open_catalog()
    try:
        return library.search(backend, query, topic=topic, author=author, limit=limit)
    finally:
        backend.close()


def claims_of(slug: str, names: Sequence[str] = ()) -> tuple[Paper, list[Claim]]:
    """Return the paper and its claims, all or those of `names`.

    Raises:
        InputError: Unknown paper or claim, or a missing package.
    """
    paper = get(slug)
    known = {claim.name: claim for claim in paper.claims()}
    for name in names:
        if name not in known:
            hint = near_match(name, known) or f"; it has {', '.join(known)}."
            raise InputError(f"{paper.slug} has no claim {name!r}{hint}")
    return paper, [claim for name, claim in known.items() if not names or name in names]


def check(
    slug: str,
    *,
    claims: Sequence[str] = (),
    size: str = "small",
    seeds: int | None = None,
    engine: Engine = "local",
    jobs: int | None = None,
    reuse: bool = False,
    watch: Callable[[Event], None] = lambda event: None,
) -> list[dict[str, Any]]:
    """Run the claims of a paper on this machine, store the results and return them, judged.

    Args:
        slug: The paper.
        claims: Names of claims; empty for all.
        size: ``"smallest"``, ``"small"`` or ``"full"``.
        seeds: Number of seeds; None takes each claim's own.
        engine: ``"local"``, ``"ray"`` or ``"dask"``.
        jobs: Worker processes; None takes one for each core.
        reuse: Return stored results of the same code, size and seeds instead of running again.
        watch: Called with every :class:`~workingpapers.replication.runner.Event`.

    Returns:
        One JSON-like record for each claim: ``verdict``, ``reason``, ``comparisons``, ``arms``, ``environment``, ...
    """
    paper, chosen = claims_of(slug, claims)
    store = Store()
    return [
        result_record(
            run_claim(
                paper.slug,
                paper.folder,
                claim,
                store,
                size=size,
                seeds=seeds,
                engine=engine,
                jobs=jobs,
                reuse=reuse,
                watch=watch,
            )
        )
        for claim in chosen
    ]


def results(slug: str | None = None) -> list[dict[str, Any]]:
    """Return the newest stored result of every claim, all or of one paper."""
    name = get(slug).slug if slug else None
    return [result_record(run) for run in Store().newest_results(name)]
