"""From Chinese queries to the English words that papers use, by a glossary of terms."""

from __future__ import annotations

from functools import cache
from importlib import resources

from workingpapers.catalog.text import CJK_RUN

FILE = "glossary_zh.tsv"


@cache
def terms() -> dict[str, str]:
    """Return Chinese term -> English words."""
    lines = resources.files("workingpapers.catalog.data").joinpath(FILE).read_text(encoding="utf-8").splitlines()
    return dict(line.split("\t") for line in lines if line and not line.startswith("#"))


@cache
def _longest() -> int:
    return max(map(len, terms()))


def in_english(query: str) -> str:
    """Return `query` with the Chinese terms that the glossary knows in English, and what it does not know left out.

    The longest term wins at each place: ``"差分隐私 SGD" -> "differential privacy SGD"``. A query without Chinese
    comes back as it is; one of which nothing is known becomes what else it holds.

    Args:
        query: Any string.
    """
    if not CJK_RUN.search(query):
        return query
    words: list[str] = []
    end = 0
    for run in CJK_RUN.finditer(query):
        words.append(query[end : run.start()].strip())
        words += _translated(run.group())
        end = run.end()
    words.append(query[end:].strip())
    return " ".join(word for word in words if word)


def _translated(run: str) -> list[str]:
    found: list[str] = []
    place = 0
    while place < len(run):
        for length in range(min(_longest(), len(run) - place), 0, -1):
            english = terms().get(run[place : place + length])
            if english:
                found.append(english)
                place += length
                break
        else:
            place += 1
    return found
