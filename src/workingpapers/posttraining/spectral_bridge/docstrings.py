"""Texts that ship with the libraries: the first paragraphs of their docstrings."""

from __future__ import annotations

import ast
import importlib.util
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

from workingpapers.foundations.errors import InputError

PLACES = (
    "datasets",
    "jinja2",
    "matplotlib.axes",
    "networkx.algorithms",
    "numpy.lib",
    "numpy.ma",
    "pandas.io",
    "rich",
    "scipy.optimize",
    "scipy.signal",
    "scipy.sparse",
    "scipy.stats",
    "sympy.combinatorics",
    "sympy.core",
    "sympy.geometry",
    "sympy.matrices",
    "torch.distributions",
    "torch.fx",
    "torch.nn",
    "transformers.generation",
)
SHORTEST, LONGEST = 5, 40  # words


@lru_cache(maxsize=1)
def docstrings() -> list[str]:
    """Return the first paragraphs of public docstrings in twenty places, each once, in alphabetical order.

    The sources are read and not imported.

    Raises:
        InputError: When a library is missing.
    """
    return sorted({text for place in PLACES for text in _texts(place)})


def _texts(place: str) -> Iterator[str]:
    library, *inner = place.split(".")
    spec = importlib.util.find_spec(library)
    if spec is None or not spec.submodule_search_locations:
        raise InputError(f"The library {library} is not installed; pip install workingpapers[posttraining] brings it.")
    folder = Path(spec.submodule_search_locations[0], *inner)
    for path in sorted(folder.rglob("*.py")):
        if "tests" in path.parts:
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.ClassDef) and not node.name.startswith("_"):
                words = (ast.get_docstring(node) or "").partition("\n\n")[0].split()
                if SHORTEST <= len(words) <= LONGEST:
                    yield " ".join(words)
