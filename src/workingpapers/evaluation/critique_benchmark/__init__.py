"""Benchmarks without an answer key: models ask, answer and attack each other, and two ratings come out.

Use it to rank models on tasks whose answers nobody can certify. The rating alone (:class:`ItemizedBT`) works on any
table of games between answerers and authors of items; the protocol (:class:`Benchmark`) makes such a table with any
chat models: an answer stands unless somebody names an error in it that survives a debate and a panel of judges.

Do not read the ratings as truth about correctness: an error that nobody finds stands, judges that share a blind spot
agree on it, and games whose claims stay open are lost, not by chance. Ratings hold for the models, topics and judges of
the run.

Strengths are arrays of shape (n,) in log-odds.

References:
    Marro, Yu, La Malfa, Deb, Li, Yang, Abraham, Sengupta, Sommerlade, Wooldridge, Torr: Benchmarking at the Edge of
    Comprehension, ICML 2026, arXiv 2602.14307.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from workingpapers.evaluation.critique_benchmark.caller import Effort
    from workingpapers.evaluation.critique_benchmark.games import Tally, tally
    from workingpapers.evaluation.critique_benchmark.people import add_labels, open_claims, read_labels
    from workingpapers.evaluation.critique_benchmark.plan import Plan, Settings, estimate
    from workingpapers.evaluation.critique_benchmark.prompts import Rubrics
    from workingpapers.evaluation.critique_benchmark.protocol import Benchmark
    from workingpapers.evaluation.critique_benchmark.rating import ItemizedBT
    from workingpapers.evaluation.critique_benchmark.rules import ending, resolve, side_of
    from workingpapers.evaluation.critique_benchmark.speakers import InspectSpeaker, Participant
    from workingpapers.evaluation.critique_benchmark.store import EventStore

_HOMES = {
    "caller": ("Effort",),
    "games": ("Tally", "tally"),
    "people": ("add_labels", "open_claims", "read_labels"),
    "plan": ("Plan", "Settings", "estimate"),
    "prompts": ("Rubrics",),
    "protocol": ("Benchmark",),
    "rating": ("ItemizedBT",),
    "rules": ("ending", "resolve", "side_of"),
    "speakers": ("InspectSpeaker", "Participant"),
    "store": ("EventStore",),
}
_HOME = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "Benchmark",
    "Effort",
    "EventStore",
    "InspectSpeaker",
    "ItemizedBT",
    "Participant",
    "Plan",
    "Rubrics",
    "Settings",
    "Tally",
    "add_labels",
    "ending",
    "estimate",
    "open_claims",
    "read_labels",
    "resolve",
    "side_of",
    "tally",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)
