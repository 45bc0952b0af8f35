"""Working Papers: research methods that work. Find a paper's method, use it, check its headline claim.

Nothing heavy is imported here; :func:`search`, :func:`papers` and :func:`check` load what they need when called, and
each method lives in ``workingpapers.AREA.SLUG``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from workingpapers.api import check, papers, results, search

__all__ = ["__version__", "check", "papers", "results", "search"]


def __getattr__(name: str) -> Any:
    if name in __all__:
        from workingpapers import api

        return getattr(api, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
