"""Revenue sharing with data providers: attribution scores in, balanced books, statements and payouts out.

Use it to pay the owners of training data or of retrieved texts for what each paid output owes to them, so that every
sum is exact and every provider can check its statement alone. Attribution back ends stand behind one interface
(:class:`~.scores.Attributor`); :class:`~.ledger.Ledger` keeps double-entry books in SQLite or PostgreSQL;
:func:`~.statement.check_statement` and :func:`~.verify.audit` are for those who do not trust the operator.

Not for deciding who *should* be paid: shares of developer and pool, the licence of a work, the choice of the
attribution method are inputs. Books that verify prove that money followed the scores, not that the scores are true or
the events complete.

References:
    Zhang, "Position: Enabling Fair Revenue Sharing for Data Providers in GenAI Systems", ICML 2026. Shapley royalty
    shares: arXiv 2404.13964. KNN-Shapley: arXiv 1908.08619. Influence functions: arXiv 1703.04730.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from workingpapers.foundations.lazy import lazy_names

if TYPE_CHECKING:
    from workingpapers.governance.data_royalties.accrual import Event
    from workingpapers.governance.data_royalties.games import CoalitionAttributor, leave_one_out, shapley
    from workingpapers.governance.data_royalties.gradients import GradientAttributor
    from workingpapers.governance.data_royalties.ledger import Ledger
    from workingpapers.governance.data_royalties.neighbours import NeighbourAttributor, knn_shapley
    from workingpapers.governance.data_royalties.registry import Policy, Provider, Work
    from workingpapers.governance.data_royalties.retrieval import attribute_context
    from workingpapers.governance.data_royalties.scores import Attributor, Outputs, Scores
    from workingpapers.governance.data_royalties.statement import check_statement, statements
    from workingpapers.governance.data_royalties.usage import post_files
    from workingpapers.governance.data_royalties.verify import audit, audit_store

_HOMES = {
    "accrual": ("Event",),
    "games": ("CoalitionAttributor", "leave_one_out", "shapley"),
    "gradients": ("GradientAttributor",),
    "ledger": ("Ledger",),
    "neighbours": ("NeighbourAttributor", "knn_shapley"),
    "registry": ("Policy", "Provider", "Work"),
    "retrieval": ("attribute_context",),
    "scores": ("Attributor", "Outputs", "Scores"),
    "statement": ("check_statement", "statements"),
    "usage": ("post_files",),
    "verify": ("audit", "audit_store"),
}

__all__ = [
    "Attributor",
    "CoalitionAttributor",
    "Event",
    "GradientAttributor",
    "Ledger",
    "NeighbourAttributor",
    "Outputs",
    "Policy",
    "Provider",
    "Scores",
    "Work",
    "attribute_context",
    "audit",
    "audit_store",
    "check_statement",
    "knn_shapley",
    "leave_one_out",
    "post_files",
    "shapley",
    "statements",
]

__getattr__ = lazy_names(__name__, _HOMES)
