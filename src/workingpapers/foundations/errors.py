"""The one error that a person sees for input that cannot be used."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class InputError(ValueError):
    """Input that cannot be used: one sentence that names the value and the way out.

    The command line prints it to standard error and exits with code 2; the web page shows it beside the form.
    """


def near_match(value: str, known: Iterable[str]) -> str:
    """Return ``"; did you mean 'x'?"`` for the entry of `known` closest to `value`, or an empty string."""
    options = list(known)
    close = difflib.get_close_matches(value, options, n=1, cutoff=0.5)
    if not close:
        by_case = {option.casefold(): option for option in options}
        close = [
            by_case[match] for match in difflib.get_close_matches(value.casefold(), list(by_case), n=1, cutoff=0.5)
        ]
    return f"; did you mean {close[0]!r}?" if close else ""
