"""A search query as data: whatever a person types becomes terms, never syntax."""

from __future__ import annotations

import re
from dataclasses import dataclass

from workingpapers.catalog.text import CJK_RUN, fold

MAX_TERMS = 24
SHORTEST_PREFIX = 3
_PIECE = re.compile(r'"([^"]*)"|(\S+)')
_WORD = re.compile(r"[^\W_]+")

# Words that stand in nearly every abstract cost the most and tell the least: they count only alone or in quotes.
COMMON = frozenset(
    (
        "a an and are as at be been by can do does for from has have how in into is it its of on or our that "
        "the their them these this to using via was we were what when where which while who why will with "
        "without "
    ).split()
)


@dataclass(frozen=True)
class Term:
    """Words that must stand next to each other; the last may be a prefix.

    Args:
        words: Folded words, or pairs of CJK characters where `cjk`.
        prefix: Whether the last word may go on.
        cjk: Whether the words are pairs of CJK characters.
    """

    words: tuple[str, ...]
    prefix: bool = False
    cjk: bool = False


def parse(text: str, *, as_you_type: bool = False) -> list[Term]:
    """Return the terms of `text`.

    ``"quoted words"`` and hyphenated words are phrases, ``word*`` is a prefix (of three letters or more; a shorter one
    would match half the catalog and counts as a word), CJK runs match as substrings; everything else is punctuation.

    Args:
        text: Any string.
        as_you_type: Whether the last word is unfinished, a prefix.
    """
    # Lone surrogates cannot be stored or sent; they match nothing.
    text = text.encode("utf-8", "ignore").decode("utf-8", "ignore")
    terms: list[Term] = []
    for quoted, bare in _PIECE.findall(text):
        chunk = quoted or bare
        for run in CJK_RUN.findall(chunk):
            if len(run) == 1:
                terms.append(Term((run,), prefix=True, cjk=True))
            else:
                terms.append(Term(tuple(run[index : index + 2] for index in range(len(run) - 1)), cjk=True))
        words = tuple(_WORD.findall(fold(CJK_RUN.sub(" ", chunk))))
        if words:
            terms.append(Term(words, prefix=not quoted and bare.endswith("*") and len(words[-1]) >= SHORTEST_PREFIX))
    telling = [term for term in terms if term.cjk or len(term.words) > 1 or term.words[0] not in COMMON]
    terms = (telling or terms)[:MAX_TERMS]
    unfinished = bool(terms) and not terms[-1].cjk and bool(text[-1:].strip())
    if as_you_type and unfinished and len(terms[-1].words[-1]) >= SHORTEST_PREFIX:
        terms[-1] = Term(terms[-1].words, prefix=True)
    return terms


def spans(text: str, terms: list[Term]) -> list[tuple[int, int]]:
    """Return where words of `terms` stand in `text`, as (start, end) in order, for highlighting."""
    exact = {word for term in terms if not term.cjk for word in (term.words[:-1] if term.prefix else term.words)}
    prefixes = tuple(term.words[-1] for term in terms if term.prefix and not term.cjk)
    found = []
    for match in _WORD.finditer(text):
        word = fold(match.group())
        if word in exact or (prefixes and word.startswith(prefixes)):
            found.append(match.span())
    for term in terms:
        if term.cjk:
            needle = term.words[0] + "".join(pair[1:] for pair in term.words[1:])
            found.extend(match.span() for match in re.finditer(re.escape(needle), text))
    return _joined(sorted(found))


def snippet(text: str, terms: list[Term], length: int = 220) -> str:
    """Return the stretch of `text` of about `length` characters that holds the most matches."""
    if len(text) <= length:
        return text
    marks = spans(text, terms)
    best, start = -1, 0
    for first, _ in marks:
        inside = sum(1 for begin, _ in marks if first <= begin < first + length)
        if inside > best:
            best, start = inside, first
    start = max(0, min(start - 40, len(text) - length))
    if start:
        start = text.find(" ", start) + 1 or start
    end = start + length
    if end < len(text):
        end = text.rfind(" ", start, end) if " " in text[start:end] else end
    return ("… " if start else "") + text[start:end] + (" …" if end < len(text) else "")


def _joined(found: list[tuple[int, int]]) -> list[tuple[int, int]]:
    merged: list[tuple[int, int]] = []
    for start, end in found:
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged
