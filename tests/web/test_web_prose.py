"""Formulas, highlights and docstrings as markup."""

import html
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workingpapers.catalog.papers import all_papers
from workingpapers.web import prose
from workingpapers.web.reading import documentation


@pytest.mark.parametrize(
    ("text", "formulas"),
    [
        (r"We show $O(n \log n)$ and $x^2$.", [r"O(n \log n)", "x^2"]),
        ("It costs $5 and then $10 a month.", []),
        (r"Display $$a = b$$ and \(c\) and \[d\].", ["a = b", "c", "d"]),
        ("a $ b $ c", []),
        (r"price \$5 and $y$", ["y"]),
        ("$a<b$", ["a&lt;b"]),
        ("US$3 and US$4", []),
    ],
)
def test_formulas_are_told_from_dollars(text, formulas):
    assert re.findall(r'<span class="math(?: display)?">(.*?)</span>', prose.rich(text)) == formulas


def test_spans_are_marked_and_everything_is_escaped():
    assert prose.rich("a <b> c", [(2, 5)]) == "a <mark>&lt;b&gt;</mark> c"
    assert prose.rich("ab", [(0, 1), (0, 2)]) == "<mark>a</mark><mark>b</mark>"
    assert prose.rich("ab $c$ d", [(0, 2), (4, 5), (7, 8)]).count("<mark>") == 2


@given(st.text(), st.lists(st.tuples(st.integers(0, 40), st.integers(0, 40)), max_size=5))
def test_no_text_becomes_markup_and_no_word_is_lost(text, spans):
    shown = str(prose.rich(text, spans))
    tags = set(re.findall(r"<[^>]*>", shown))
    assert tags <= {"<mark>", "</mark>", '<span class="math">', '<span class="math display">', "</span>"}
    if "$" not in text and "\\" not in text:
        assert html.unescape(re.sub(r"<[^>]*>", "", shown)) == html.unescape(text.replace("&", "&amp;"))


@given(st.text())
def test_any_docstring_is_escaped(text):
    shown = str(prose.docstring(text)) if text.strip() else ""
    assert set(re.findall(r"<([a-z0-9]+)", shown)) <= {"h3", "p", "pre", "code", "span"}


def test_a_docstring_becomes_paragraphs_code_and_formulas():
    shown = prose.docstring(
        "One :math:`x_i < 3`, see :func:`~a.b.c` and ``d``.\n\nExample:\n    >>> f(1)\n    2\n\n.. math:: y = x\n"
    )
    assert '<span class="math">x_i &lt; 3</span>' in shown
    assert "<code>c</code>" in shown
    assert "<h3>Example</h3>" in shown
    assert "<code>f(1)\n# 2</code>" in shown
    assert '<span class="math display">y = x</span>' in shown


@pytest.mark.parametrize("slug", [paper.slug for paper in all_papers()])
def test_every_papers_documentation_is_rendered(slug):
    shown = documentation(slug)
    assert shown.startswith("<p>")
    assert ":math:" not in shown
    assert ":func:" not in shown
    assert ">>>" not in shown
