r"""Late-interaction search in 2 to 8 bytes a token: codes trained to keep the ranking, and an index that serves them.

A late-interaction retriever (ColBERT, PyLate) stores a vector for every token, of shape (n_j, d) a document, and
scores by :math:`\sum_i \max_j q_i \cdot d_j`. :class:`CrossQ` codes each token as a sum of codewords. Which codewords
are chosen is conditioned on the whole document, and training asks that the order of documents be kept, not the
vectors. Decoding needs the codes alone. :class:`MultiVectorIndex` keeps the codes on disk, mapped into memory, and
scores them without decoding.

Use it when float vectors do not fit and product quantisation costs too much ranking. Not for a single vector a
document (faiss does that), not where 16 to 32 bytes a token are affordable (there PLAID's residual codes lose little).
In our claims the trained codes are well above product quantisation, above residual codes at 2 bytes, and level with
the best additive codes at 4; leaving out the tokens that queries seldom need (``stages`` above ``bytes_per_token``)
gained more than training did. The document's context gained nothing with some hundred training queries: give
thousands, or choose the cheaper ``conditioning="none"``. An encoder trained for one pooled vector a text, such as the
packaged MiniLM, ranks well by that vector alone: compare before choosing late interaction with it.

References:
    R. K. Salla, M. Saravanan, R. M. Amancherla, CrossQ: Task-Aligned Cross-Token Conditional Quantization for Late
    Interaction Retrieval, ICML 2026, arXiv:2608.19204.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from workingpapers.foundations.lazy import lazy_names

if TYPE_CHECKING:
    from workingpapers.inference.crossq.baselines import Baseline, fit_baseline
    from workingpapers.inference.crossq.candidates import Candidates, mine_candidates
    from workingpapers.inference.crossq.codec import Codec
    from workingpapers.inference.crossq.index import Hits, MultiVectorIndex
    from workingpapers.inference.crossq.initial import pseudo_queries
    from workingpapers.inference.crossq.measures import ranking_measures
    from workingpapers.inference.crossq.quantiser import CrossQ
    from workingpapers.inference.crossq.vectors import Packed, maxsim, pack

_HOMES = {
    "baselines": ("Baseline", "fit_baseline"),
    "candidates": ("Candidates", "mine_candidates"),
    "codec": ("Codec",),
    "initial": ("pseudo_queries",),
    "index": ("Hits", "MultiVectorIndex"),
    "measures": ("ranking_measures",),
    "quantiser": ("CrossQ",),
    "vectors": ("Packed", "maxsim", "pack"),
}

__all__ = [
    "Baseline",
    "Candidates",
    "Codec",
    "CrossQ",
    "Hits",
    "MultiVectorIndex",
    "Packed",
    "fit_baseline",
    "maxsim",
    "mine_candidates",
    "pack",
    "pseudo_queries",
    "ranking_measures",
]

__getattr__ = lazy_names(__name__, _HOMES)
