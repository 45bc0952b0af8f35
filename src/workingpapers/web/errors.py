"""Errors of the page beside `InputError`."""

from __future__ import annotations

from workingpapers.catalog.papers import Paper, get
from workingpapers.foundations.errors import InputError


class Missing(InputError):
    """What was asked for is not there."""


def find_paper(slug: str) -> Paper:
    """Return a paper.

    Raises:
        Missing: There is none of that name.
    """
    try:
        return get(slug)
    except InputError as error:
        raise Missing(str(error)) from None
