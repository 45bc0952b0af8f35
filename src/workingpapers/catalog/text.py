"""Text as the catalog compares and indexes it: folded, without mark-up, CJK as overlapping pairs."""

from __future__ import annotations

import hashlib
import re
import unicodedata

_CJK = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff"
CJK_RUN = re.compile(f"[{_CJK}]+")
_COMMAND = re.compile(r"\\(?:textbf|textit|emph|texttt|textsc|text|mathrm|mathbf|mathcal|mathbb)\b")
_MARKS = re.compile(r"[\\${}*_`~^]")
_NOT_WORD = re.compile(r"[\W_]+")
# The same two rules for ASCII, an order of magnitude faster: marks vanish, other punctuation becomes space.
_ASCII = {code: None if chr(code) in "\\${}*_`~^" else " " for code in range(128) if not chr(code).isalnum()}


def fold(text: str) -> str:
    """Return `text` in lower case without diacritics: ``"Müller" -> "muller"``."""
    if text.isascii():
        return text.lower()
    decomposed = unicodedata.normalize("NFKD", text)
    return "".join(char for char in decomposed if not unicodedata.combining(char)).casefold()


def normalise(text: str) -> str:
    """Return the words of `text`, folded, without LaTeX and Markdown marks, single spaces between them.

    Two texts that differ in mark-up, case, diacritics, punctuation or spacing alone have the same normal form.
    """
    if text.isascii():
        if "\\" in text:
            text = _COMMAND.sub("", text)
        return " ".join(text.translate(_ASCII).lower().split())
    return _NOT_WORD.sub(" ", fold(_MARKS.sub("", _COMMAND.sub("", text)))).strip()


def plain(text: str) -> str:
    """Return `text` for reading on a terminal: LaTeX and Markdown emphasis removed, formulas left as they are."""
    text = re.sub(r"\\(?:textbf|textit|emph|texttt|textsc)\{([^{}]*)\}", r"\1", text)
    text = re.sub(r"(\*{1,2})(?=\S)([^*]+?)(?<=\S)\1", r"\2", text)
    return text.replace("\\%", "%").replace("\\&", "&")


def abstract_fingerprint(abstract: str) -> str:
    """Return the SHA-256 of the normal form of `abstract`: equal for equal texts, whatever their mark-up."""
    return hashlib.sha256(normalise(abstract).encode()).hexdigest()


def pairs(text: str) -> str:
    """Return the CJK runs of `text` as overlapping pairs and a last single: ``"论文检索" -> "论文 文检 检索 索"``.

    A phrase of pairs then finds any substring of two or more characters, and a prefix of a pair any single one.
    """
    if text.isascii():
        return ""
    found: list[str] = []
    for run in CJK_RUN.findall(text):
        found.extend(run[index : index + 2] for index in range(len(run)))
    return " ".join(found)
